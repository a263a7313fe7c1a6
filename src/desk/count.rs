//! Answers how many tokens a request has. That costs nothing: the caller's limits on requests,
//! tokens and money do not count it.

use super::record::Record;
use super::relay::SHUT_DOWN;
use super::reply::Notes;
use super::{Desk, checks, planning, session_io};
use crate::catalog::Key;
use crate::error::{FailureKind, Refusal};
use crate::exchange;
use crate::exchange::admission;
use crate::exchange::count::{self, TokenCount};
use crate::exchange::producer::CALLER_LEFT;
use crate::live::Snapshot;
use crate::plan::{Candidate, Reach};
use bytes::Bytes;
use dialects::front::PathRequest;
use pingora_proxy::Session;
use std::sync::Arc;

impl Desk {
    /// Counts the tokens of a request. Returns the answer, and the further fields of its head.
    pub(super) async fn count_tokens(
        &self,
        session: &mut Session,
        record: &mut Record,
        snapshot: Arc<Snapshot>,
        key: &Key,
        asked: PathRequest,
    ) -> Result<(Bytes, Notes), Refusal> {
        self.refuse_late()?;
        let timeout = checks::request_timeout(&session.req_header().headers)?;
        let scopes = snapshot.key_scopes(key).ok_or_else(Refusal::invalid_key)?;
        let _permit = scopes.last_used.count().ok_or_else(|| {
            let message =
                "This key has ten counts of tokens in flight, which is the most. Try again when one has ended.";
            Refusal::new(FailureKind::OverLimit, message).retry_after(1)
        })?;
        let (body, held) = self.read_body(session, &scopes.purse).await?;
        record.facts.request.bytes = body.len() as u64;
        exchange::panic_if_asked(session, "intake");
        let form = record
            .front
            .counting
            .as_ref()
            .ok_or_else(count::uncounted_refusal)?;
        let (body, envelope) = (form.read)(body, &asked).map_err(planning::bad_request)?;
        let mut envelope = envelope.with_path(asked);
        let model = planning::find_model(session, record, &snapshot, key, &mut envelope)?;
        let healths = snapshot
            .route(&model)
            .map(|route| route.into_owned().healths)
            .unwrap_or_default();
        let targets = model
            .targets
            .iter()
            .zip(&healths)
            .filter(|(target, _)| snapshot.catalog.serves(&model, target));
        let mut candidates: Vec<Candidate> = targets
            .filter_map(|(target, target_tracks)| {
                Candidate::for_target(
                    &snapshot,
                    &model,
                    target,
                    target_tracks.first()?.clone(),
                    Reach::Any,
                )
            })
            .collect();
        // Elsewhere the thoughts that the request carries would not be counted.
        if let Some(boundary) = self.backends.seals.newest_boundary(&key.caller.id, &body) {
            candidates.sort_by_key(|candidate| **candidate.account().boundary() != *boundary);
        }
        let asked = admission::CallersRequest {
            body: &body,
            envelope: &envelope,
            catalog: &snapshot.catalog,
            permissions: &key.permissions,
            model_limits: &key.model_limits,
        };
        let count = TokenCount {
            shared: &self.backends,
            request: asked,
            memory: held,
            key,
            timeout,
            head: record.began,
        };
        let counted = tokio::select! {
            biased;
            answer = count.ask_accounts(&candidates, &mut record.facts) => answer,
            () = self.books.drain.wait_for_cutting() => Err(planning::shutting_down()),
            () = session_io::wait_for_leaving(session) => {
                Err(Refusal::new(FailureKind::CallerLeft, "The caller left before its request was counted."))
            }
        };
        let is_cut = counted
            .as_ref()
            .is_err_and(|refusal| refusal.kind == FailureKind::ShuttingDown);
        if let Some(running) = record
            .facts
            .attempts
            .trail
            .last_mut()
            .filter(|tried| is_cut && tried.outcome == CALLER_LEFT)
        {
            running.outcome = SHUT_DOWN;
        }
        let answer = counted?;
        let losses = record.facts.served.losses.names();
        let dropped = (!losses.is_empty()).then(|| losses.join(", "));
        let served = record.is_by_glob.then(|| model.id.to_string());
        Ok((
            answer.into(),
            Notes {
                model: served,
                dropped,
                ..Notes::default()
            },
        ))
    }
}
