//! The stage of planning: the model of a request, the targets that may be tried, and what the
//! exchange begins with.

use super::record::Record;
use super::{Desk, Planned, admission, checks, door, request_id};
use crate::access_log::end_user_hash;
use crate::base::calendar;
use crate::catalog::{Key, Model};
use crate::conf::price::ShowCost;
use crate::drain::Phase;
use crate::error::{FailureKind, Refusal};
use crate::exchange;
use crate::exchange::producer::{KeyRights, Request};
use crate::limits::{Ask, enter_request};
use crate::live::Snapshot;
use crate::plan::{self, Ties};
use dialects::AnswerHeader;
use dialects::front::{Envelope, Fault, Front, PathRequest};
use dialects::neutral::Clock;
use pingora_proxy::Session;
use std::sync::Arc;

/// Returns the refusal for a body that is no request.
pub(super) fn bad_request(fault: Fault) -> Refusal {
    let param = fault.param.map(String::from);
    Refusal {
        param,
        ..Refusal::new(FailureKind::BadRequest { code: fault.code }, fault.message)
    }
}

/// Returns the refusal for what comes while the gateway shuts down.
pub(super) fn shutting_down() -> Refusal {
    let message = "The gateway is shutting down. Try again in a moment.";
    Refusal::new(FailureKind::ShuttingDown, message).retry_after(1)
}

/// Returns the refusal for a model that the key cannot use, or not yet.
pub(super) fn unknown_model(snapshot: &Snapshot, key: &Key, id: &str) -> Refusal {
    let Some(model) = snapshot.catalog.model_awaiting_list(&key.permissions, id) else {
        return Refusal::model_not_found(id);
    };
    let message = if snapshot.catalog.is_list_failing(&model) {
        "The list of this provider's models cannot be fetched, so it is not known whether it has this one. The operator \
         of the gateway sees the reason."
    } else {
        "The provider of this model has not listed its models yet, so it is not known whether it has this one. Try again \
         in a few seconds."
    };
    Refusal::new(FailureKind::UpstreamUnavailable, message).retry_after(5)
}

/// Finds the model that a request is for, and the headers that go on with the request.
pub(super) fn find_model(
    session: &Session,
    record: &mut Record,
    snapshot: &Snapshot,
    key: &Key,
    envelope: &mut Envelope,
) -> Result<Arc<Model>, Refusal> {
    let headers = &session.req_header().headers;
    for name in record.front.extras.passed_headers {
        let lines = headers
            .get_all(*name)
            .iter()
            .filter_map(|line| line.to_str().ok());
        let value = lines.collect::<Vec<_>>().join(",");
        if !value.is_empty() {
            envelope.headers.push((name, value));
        }
    }
    let session = checks::conversation_name(headers, record.front);
    record.facts.request.session =
        session.map(|session| request_id::display_text(&String::from_utf8_lossy(session)).into());
    record.facts.request.stream = envelope.stream;
    record.facts.request.wants_json = envelope.wants_json;
    record.facts.request.choices = u16::try_from(envelope.choices.shown).unwrap_or(u16::MAX);
    record.facts.request.most_tokens = envelope
        .max_tokens
        .and_then(|max_tokens| u32::try_from(max_tokens).ok()?.try_into().ok());
    let model = snapshot.catalog.visible(key, &envelope.model);
    let Some(model) = model else {
        record.facts.request.asked_model = Some(request_id::display_text(&envelope.model).into());
        return Err(unknown_model(snapshot, key, &envelope.model));
    };
    record.facts.request.model = Some(model.id.clone());
    record.facts.request.pattern = model.pattern.clone();
    record.demand = snapshot
        .routes
        .get(model.index)
        .map(|route| route.demand.clone());
    record.is_by_glob = !model.is_called(&envelope.model);
    Ok(model)
}

/// Returns the hash of the end user that a request names.
fn end_user(body: &[u8], envelope: &Envelope) -> Option<String> {
    let name = dialects::wire::json::text_of(body, envelope.user.as_ref()?)?;
    (!name.is_empty()).then(|| end_user_hash(&name))
}

impl Desk {
    /// Refuses a request that comes while the gateway shuts down.
    pub(super) fn refuse_late(&self) -> Result<(), Refusal> {
        if self.books.drain.phase() > Phase::Delaying {
            Err(shutting_down())
        } else {
            Ok(())
        }
    }

    /// Reads a request to a model, and plans which targets may be tried. `asked` is what the path
    /// says of the request.
    pub(super) async fn plan_request(
        &self,
        session: &mut Session,
        record: &mut Record,
        snapshot: Arc<Snapshot>,
        key: &Key,
        asked: PathRequest,
    ) -> Result<Box<Planned>, Refusal> {
        self.refuse_late()?;
        let timeout = checks::request_timeout(&session.req_header().headers)?;
        let scopes = snapshot.key_scopes(key).ok_or_else(Refusal::invalid_key)?;
        let entry = enter_request(&scopes.entry(key), calendar::now_millis)
            .map_err(|refused| admission::note_limit_reached(record, &refused))?;
        let (mut envelope, sent, read) = self
            .read_request(session, record, scopes, key, &snapshot.catalog, asked)
            .await?;
        exchange::panic_if_asked(session, "intake");
        let body = &sent.body;
        record.facts.sender.end_user = end_user(body, &envelope);
        let model = find_model(session, record, &snapshot, key, &mut envelope)?;
        let session_id = || checks::conversation_name(&session.req_header().headers, record.front);
        let is_sticky = plan::is_sticky(&snapshot.catalog, &model);
        let conversation = is_sticky
            .then(|| plan::conversation_hash(session_id(), body, &envelope))
            .flatten();
        let boundary = self.backends.seals.newest_boundary(&key.caller.id, body);
        let ties = Ties {
            conversation,
            boundary: boundary.as_deref(),
        };
        let plan = plan::make_plan(&snapshot, key, &model, &envelope, ties)
            .ok_or_else(|| Refusal::model_not_found(&envelope.model))?;
        self.books
            .unpriced
            .note(&plan.unpriced, snapshot.generation);
        plan.check(&envelope)?;
        let answer_header = self.answer_header(record.front, key, &envelope);
        let bounds = scopes.bounds(key, model.index);
        // The admission takes a place of its own.
        drop(entry);
        // Where nothing is limited, nothing is reserved.
        let ask = if bounds.is_empty() {
            Ask::default()
        } else {
            plan::amount_to_reserve(&envelope, &plan, bounds.reserve())
        };
        admission::admit_request(
            self.backends.store.as_ref(),
            record,
            &bounds,
            ask,
            snapshot.generation,
        )
        .await?;
        let meter = record.meter(answer_header.prompt_bytes);
        exchange::panic_if_asked(session, "plan");
        record.facts.times.plan = Some(read.elapsed());
        let traces = self.books.traces.as_ref();
        let request = Request {
            timeout,
            debug: key.debug.then_some(record.facts.times),
            request_id: record.facts.request.id.clone(),
            trace: traces.and_then(|_| record.facts.trace.clone()),
            ..Request::new(
                KeyRights::from_key(key),
                model,
                envelope,
                answer_header,
                plan,
                meter,
                snapshot,
            )
        };
        Ok(Box::new(Planned {
            request,
            body: sent,
        }))
    }

    /// Makes the facts that every answer to a request shows.
    fn answer_header(&self, front: &Front, key: &Key, envelope: &Envelope) -> AnswerHeader {
        AnswerHeader {
            model: envelope.model.clone(),
            id: door::make_id(front),
            created: calendar::now_millis() / 1000,
            clock: Clock(|| calendar::now_millis() / 1000),
            show_usage: envelope.include_usage,
            choices: envelope.choices.shown,
            hide_thoughts: envelope.hide_thoughts,
            prompt_bytes: envelope.prompt_bytes.saturating_add(envelope.more_bytes) as u64,
            wants_json: envelope.wants_json,
            wants_labels: self.books.traces.is_some(),
            // The account that will answer, and so its price, is not known yet.
            cost: if key.caller.expose_cost {
                ShowCost::AtPrice(None)
            } else {
                ShowCost::No
            },
        }
    }
}
