//! Asking those who are out whether they are back, where the catalog says `probe: true`: one token at a time, when their breaker's cool-down is
//! over, so that no caller's request has to find out.

use super::Request;
use super::opening::{Opening, Progress};
use crate::account::track::Trial;
use crate::catalog::Target;
use crate::catalog::reload::{Route, Snapshot};
use crate::dialect::{Ask, Face};
use crate::exchange::failover::{Class, Failure};
use crate::intake::envelope;
use crate::plan::{Candidate, Reach};
use crate::shared::Shared;
use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How often it is looked who is due.
const EVERY: Duration = Duration::from_millis(250);
/// Who takes longer for one token is not back.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is asked. The model's name is replaced by the target's, as in every request.
const BODY: &[u8] = br#"{"model":"probe","messages":[{"role":"user","content":"ping"}],"max_tokens":1}"#;

/// Goes on for ever.
pub async fn probe(shared: &Shared) {
    loop {
        tokio::time::sleep(EVERY).await;
        let snapshot = shared.live.load_full();
        let due = Mutex::new(due(&snapshot));
        // A few at once: one that is silent must not hold up the others.
        let some = || async {
            loop {
                let next = due.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let Some((request, trial)) = next else { return };
                ask(shared, &request, trial).await;
            }
        };
        tokio::join!(some(), some(), some(), some());
    }
}

/// The targets whose turn it is.
fn due(snapshot: &Arc<Snapshot>) -> Vec<(Request, Trial)> {
    let now = std::time::Instant::now();
    let mut due = Vec::new();
    for (model, Route { demand, tracks }) in snapshot.catalog.models().iter().zip(&snapshot.routes) {
        let probed = |target: &Target| target.account.enabled && target.account.probe;
        for (target, track) in model.targets.iter().zip(tracks).filter(|(target, _)| probed(target)) {
            let Some(place) = snapshot.places.get(target.account.index) else { continue };
            if place.state.health.rest(now).is_some() {
                continue;
            }
            let (Some(trial), Ok(envelope)) = (track.probe(now), envelope::read(BODY)) else { continue };
            let candidate = Candidate {
                place: place.clone(),
                track: track.clone(),
                upstream_model: target.model.clone(),
                traits: target.traits,
                timeouts: target.timeouts,
                model: model.clone(),
                reach: Reach::Any,
            };
            let request = Request {
                envelope,
                face: Arc::new(Face::default()),
                model: model.clone(),
                demand: demand.clone(),
                candidates: vec![candidate],
                timeout: None,
                debug: None,
                request_id: format!("probe-{}", uuid::Uuid::now_v7().simple()),
                key: "probe".into(),
                snapshot: snapshot.clone(),
            };
            due.push((request, trial));
        }
    }
    due
}

async fn ask(shared: &Shared, request: &Request, mut trial: Trial) {
    let Some(candidate) = request.candidates.first() else { return };
    let (account, model) = (&candidate.place.account, &candidate.upstream_model);
    let written = account.dialect.write(&Ask {
        body: &Bytes::from_static(BODY),
        envelope: &request.envelope,
        model,
        traits: candidate.traits,
        default_max_tokens: None,
        stream_usage: false,
        kept: &|_| None,
    });
    let (Ok(said), Some(permit), Some(held)) = (written, candidate.place.state.admit(account.concurrency), shared.budget.take(0)) else {
        return;
    };
    let began = Instant::now();
    let opening = Opening {
        shared,
        request,
        candidate,
        said,
        permit: Arc::new(permit),
        held,
        total: began + PATIENCE.min(candidate.timeouts.total),
        progress: Arc::new(Progress::default()),
    };
    let failure = Box::pin(opening.open()).await.err().map(|lost| lost.failure);
    let now = std::time::Instant::now();
    match failure {
        None => trial.is_back(now),
        // Whoever finds fault with a request is back.
        Some(failure) if failure.class() == Class::Caller => trial.is_back(now),
        Some(failure) => {
            if failure.class() == Class::Credential {
                candidate.place.state.health.failed(now);
            }
            trial.failed(failure.class(), false, began.elapsed(), failure.retry_after(), now);
            log::info!("account {} is still out for {model}: {}", account.id, Failure::name(&failure));
            return;
        }
    }
    candidate.place.state.freed.notify_waiters();
    log::info!("account {} is back for {model}, says its probe", account.id);
}
