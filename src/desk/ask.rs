//! Reads and plans a request to a model: the request, the targets that may be tried, and the
//! admission by the caller's limits.

use super::record::Record;
use super::{Desk, Planned, checks, door, limits, request_id};
use crate::access_log::end_user_hash;
use crate::base::calendar;
use crate::catalog::{Catalog, Key, Model};
use crate::conf::price::ShowCost;
use crate::drain::Phase;
use crate::error::{FailureKind, Refusal};
use crate::exchange;
use crate::exchange::producer::{Request, Sent};
use crate::limits::{Ask, KeyScopes, enter_request, has_room};
use crate::live::Snapshot;
use crate::models;
use crate::plan::{self, Ties};
use dialects::front::{Envelope, Fault, PathRequest};
use dialects::neutral::{Clock, ModelKind};
use dialects::{AnswerHeader, Endpoint};
use pingora_proxy::Session;
use std::sync::Arc;
use std::time::Instant;

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
    let message = "The gateway is shutting down. Try again: another gateway will answer.";
    Refusal::new(FailureKind::ShuttingDown, message).retry_after(1)
}

/// Returns the refusal for a model that the key cannot use, or not yet.
pub(super) fn unknown_model(snapshot: &Snapshot, key: &Key, id: &str) -> Refusal {
    if snapshot.catalog.awaited(&key.permissions, id).is_none() {
        return Refusal::model_not_found(id);
    }
    let message = "The provider of this model has not listed its models yet, so it is not known whether it has this \
                   one. Try again in a few seconds.";
    Refusal::new(FailureKind::UpstreamUnavailable, message).retry_after(5)
}

/// Finds the model that a request is for, and the headers that go on with the request.
pub(super) fn find_model(
    session: &Session,
    record: &mut Record,
    (snapshot, key): (&Snapshot, &Key),
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
        (snapshot, key): (Arc<Snapshot>, &Key),
        asked: PathRequest,
    ) -> Result<Box<Planned>, Refusal> {
        self.refuse_late()?;
        let timeout = checks::request_timeout(&session.req_header().headers)?;
        let scopes = snapshot
            .scopes
            .get(key.index)
            .ok_or_else(Refusal::invalid_key)?;
        let entry = enter_request(&scopes.entry(key), calendar::now_millis)
            .map_err(|refused| limits::note_limit_reached(record, &refused))?;
        let (mut envelope, sent, read) = self
            .sent(session, record, (scopes, key, &snapshot.catalog), asked)
            .await?;
        exchange::panic_here(session, "intake");
        let body = &sent.body;
        record.facts.sender.end_user = end_user(body, &envelope);
        let model = find_model(session, record, (&snapshot, key), &mut envelope)?;
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
        let answer_header = AnswerHeader {
            model: envelope.model.clone(),
            id: door::make_id(record.front),
            created: calendar::now_millis() / 1000,
            clock: Clock(|| calendar::now_millis() / 1000),
            show_usage: envelope.include_usage,
            choices: envelope.choices.shown,
            hide_thoughts: envelope.hide_thoughts,
            prompt_bytes: envelope.prompt_bytes.saturating_add(envelope.more_bytes) as u64,
            // The account that will answer, and so its price, is not known yet.
            wants_json: envelope.wants_json,
            wants_labels: self.books.traces.is_some(),
            cost: if key.caller.expose_cost {
                ShowCost::AtPrice(None)
            } else {
                ShowCost::No
            },
        };
        let bounds = scopes.bounds(key, model.index);
        // The admission takes a place of its own.
        drop(entry);
        // Where nothing is limited, nothing is reserved.
        let ask = if bounds.is_empty() {
            Ask::default()
        } else {
            plan::amount_to_reserve(&envelope, &plan, bounds.reserve())
        };
        limits::admit_request(
            self.backends.store.as_ref(),
            record,
            &bounds,
            ask,
            snapshot.generation,
        )
        .await?;
        let meter = record.meter(answer_header.prompt_bytes);
        exchange::panic_here(session, "plan");
        record.facts.times.plan = Some(read.elapsed());
        let request = Request {
            envelope,
            answer_header: Arc::new(answer_header),
            model,
            demand: plan.demand,
            candidates: plan.candidates,
            timeout,
            debug: key.debug.then_some(record.facts.times),
            request_id: record.facts.request.id.clone(),
            key: key.id.clone(),
            caller: key.caller.id.clone(),
            permissions: key.permissions.clone(),
            model_limits: key.model_limits.clone(),
            meter,
            trace: self
                .books
                .traces
                .as_ref()
                .and_then(|_| record.facts.trace.clone()),
            snapshot,
        };
        Ok(Box::new(Planned { request, sent }))
    }

    /// Reads what a caller sends, and what decides where it goes. Returns also when all of it had
    /// come.
    async fn sent(
        &self,
        session: &mut Session,
        record: &mut Record,
        (scopes, key, catalog): (&KeyScopes, &Key, &Catalog),
        asked: PathRequest,
    ) -> Result<(Envelope, Sent, Instant), Refusal> {
        let front = record.front;
        if !front.is_form() {
            let (body, mut held) = self.body(session, &scopes.purse).await?;
            let (read, bytes) = (Instant::now(), body.len());
            record.facts.request.bytes = bytes as u64;
            // OpenAI's own clients need no model here.
            let again = (front.only_endpoint == Some(Endpoint::Moderations)).then(|| body.clone());
            let understood = match (front.request(body, asked), again) {
                (Err(fault), Some(body)) if fault.lacks_model() => {
                    let model = models::only_model_id(catalog, key, ModelKind::Moderation)
                        .ok_or_else(|| bad_request(fault))?;
                    front.request(
                        body,
                        PathRequest {
                            model: Some(model),
                            stream: false,
                        },
                    )
                }
                (understood, _) => understood,
            };
            let (body, envelope) = understood.map_err(bad_request)?;
            // The path's model may have been written into it.
            if !held.grow(body.len().saturating_sub(bytes)) {
                return Err(Refusal::no_room());
            }
            if envelope.places.references.is_empty() {
                return Ok((
                    envelope,
                    Sent {
                        body,
                        upload: None,
                        held,
                    },
                    read,
                ));
            }
            // Few requests refer to items, so this is no part of the others' state.
            let (body, envelope) =
                Box::pin(self.with_items(body, envelope, &mut held, key)).await?;
            return Ok((
                envelope,
                Sent {
                    body,
                    upload: None,
                    held,
                },
                read,
            ));
        }
        has_room(&scopes.entry(key), calendar::now_millis())
            .map_err(|refused| limits::note_limit_reached(record, &refused))?;
        let (envelope, sent) = Box::pin(self.upload(session, scopes, front, asked)).await?;
        record.facts.request.bytes = sent.upload.as_ref().map_or(0, |upload| upload.came()) as u64;
        Ok((envelope, sent, Instant::now()))
    }
}
