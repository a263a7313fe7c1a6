//! A probe tests a target whose breaker is open: it asks the target for one token once the
//! breaker's cool-down is over. So no caller's request has to find out whether the target works
//! again. The catalog turns probes on with `probe: true`.

use super::opening::Opening;
use super::progress::Progress;
use super::{KeyRights, Request};
use crate::account::demand::Demand;
use crate::account::failure::{Class, Failure, Setback};
use crate::account::target_health::{AttemptGuard, TargetHealth};
use crate::base::clock::{Clock, Round};
use crate::base::memory::{Budget, Held};
use crate::catalog::{Model, Target};
use crate::exchange::backends::Backends;
use crate::exchange::outgoing::own_id;
use crate::exchange::tasks::NamedTasks;
use crate::exchange::{OwnTime, advice};
use crate::live::{Live, Route, Snapshot};
use crate::metrics::Metrics;
use crate::plan::{Candidate, Plan, Reach};
use bytes::Bytes;
use dialects::front::CHAT;
use dialects::{AnswerHeader, Translate};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The pause between two looks for due targets.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The longest time for a probe. A target that takes longer for one token is not back.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);
/// The request of a probe. The target's name for the model replaces this one, as in every request.
const PROBE_BODY: &[u8] =
    br#"{"model":"probe","messages":[{"role":"user","content":"ping"}],"max_tokens":1}"#;

/// Makes probes for ever, one at a time at each account. A panic of ours over an answer ends only
/// that probe.
pub async fn run_probes(
    live: &Live,
    backends: &Arc<Backends>,
    memory: &Arc<Budget>,
    metrics: &Metrics,
) {
    let mut running = NamedTasks::new();
    loop {
        Clock::pause(Round::Probes, CHECK_INTERVAL).await;
        running.forget_ended(metrics);
        let snapshot = live.load_full();
        for (model, Route { demand, healths }) in
            snapshot.catalog.models().iter().zip(&snapshot.routes)
        {
            let each = model.targets.iter().zip(healths);
            let each = each.filter(|(target, _)| target.account.enabled && target.account.probe);
            for (target, health) in each
                .flat_map(|(target, healths)| healths.iter().map(move |health| (target, health)))
            {
                if running.has(&target.account.id) {
                    continue;
                }
                let Some((request, trial)) = due_request(&snapshot, model, demand, target, health)
                else {
                    continue;
                };
                let (backends, held) = (backends.clone(), memory.open(&Arc::default()));
                let probe = async move { send_probe(&backends, &request, trial, held).await };
                running.start(target.account.id.clone(), probe);
            }
        }
    }
}

/// Returns the request for a target, if its probe is due.
fn due_request(
    snapshot: &Arc<Snapshot>,
    model: &Arc<Model>,
    demand: &Arc<Demand>,
    target: &Target,
    health: &Arc<TargetHealth>,
) -> Option<(Request, AttemptGuard)> {
    let now = Clock::now();
    let candidate = Candidate::for_target(snapshot, model, target, health.clone(), Reach::Any)?;
    if candidate.state().health.rest(now).is_some() {
        return None;
    }
    let (trial, envelope) = (health.probe(now)?, CHAT.envelope(PROBE_BODY).ok()?);
    let rights = KeyRights {
        key: "probe".into(),
        caller: "probe".into(),
        ..KeyRights::default()
    };
    let plan = Plan {
        candidates: vec![candidate],
        unpriced: Vec::new(),
        demand: demand.clone(),
    };
    let request = Request {
        request_id: own_id(),
        ..Request::new(
            rights,
            model.clone(),
            envelope,
            AnswerHeader::default(),
            plan,
            Arc::default(),
            snapshot.clone(),
        )
    };
    Some((request, trial))
}

async fn send_probe(backends: &Backends, request: &Request, mut trial: AttemptGuard, held: Held) {
    let Some(candidate) = request.candidates.first() else {
        return;
    };
    let (account, model) = (candidate.account(), &candidate.upstream_model);
    let written = candidate.dialect().write(&Translate {
        body: &Bytes::from_static(PROBE_BODY),
        envelope: &request.envelope,
        model,
        traits: candidate.traits,
        default_max_tokens: None,
        within: None,
        hide_reasoning: false,
        stream_usage: false,
        kept: &|_| None,
        sealed: dialects::neutral::seal::Sealed::Closed,
        other: &|_| dialects::OtherModel::Forbidden,
    });
    let (Ok(outbound), Some(permit)) = (written, candidate.state().admit()) else {
        return;
    };
    let (began, name) = (Instant::now(), candidate.health.name(model));
    let opening = Opening {
        shared: backends,
        own_time: &OwnTime::from_beginning(began.into_std()),
        request,
        candidate,
        outbound,
        upload: None,
        permit: Arc::new(permit),
        total: began + PROBE_TIMEOUT.min(candidate.timeouts.total),
        progress: Arc::new(Progress::default()),
    };
    let failure = Box::pin(opening.open(held))
        .await
        .err()
        .map(|failed| failed.failure);
    let now = Clock::now();
    match failure {
        None => trial.record_good_probe(now),
        // A target that finds fault with the request works again.
        Some(failure) if failure.class() == Class::Caller => trial.record_good_probe(now),
        Some(failure) => {
            let class = candidate
                .state()
                .class_of(&failure, candidate.health.endpoint, now);
            if class == Class::Credential {
                let token = candidate.state().identity.present();
                candidate.state().identity.forget();
                if candidate.state().health.record_failure(now).is_some() {
                    log::warn!(
                        "account {}: {}",
                        account.id,
                        advice::on_credential(
                            &failure,
                            account,
                            &candidate.ready_account.secrets(token.as_ref())
                        )
                    );
                }
            }
            let setback = Setback {
                class,
                retry_after: failure.retry_after(),
            };
            trial.record_failure(setback, false, began.elapsed(), now);
            log::info!(
                "account {} still fails for {name}, as its probe found: {}",
                account.id,
                Failure::name(&failure)
            );
            return;
        }
    }
    candidate.state().freed.notify_waiters();
    log::info!(
        "account {} works again for {name}, as its probe found",
        account.id
    );
}
