//! Portcullis as a Pingora proxy: one short method a phase, and no policy.
//!
//! Everything happens in `request_filter` and `proxy_upstream_filter`; Pingora's own loop to the
//! upstream is never entered. **Invariant:** `Ok` is returned to Pingora only after an explicit end
//! of the answer. After a partial one it would finish the body and make a cut answer look whole; so
//! that is an `Err`, and the connection ends truncated.

use crate::auth;
use crate::catalog::Key;
use crate::catalog::reload::Snapshot;
use crate::connection;
use crate::door::{self, Door};
use crate::drain::Phase;
use crate::error::{Outcome, Refusal, What};
use crate::exchange::producer::{Before, Producer, Request};
use crate::exchange::record::Record;
use crate::exchange::relay::{End, account_for, relay};
use crate::exchange::{self, Own, Panicked};
use crate::intake::{self, budget::Held};
use crate::ledger::days;
use crate::limits::{self, Ask, Bounds, KeyScopes};
use crate::models;
use crate::plan;
use crate::price::ShowCost;
use crate::reply;
use crate::shared::Shared;
use crate::store::Answer;
use crate::units::Span;
use async_trait::async_trait;
use bytes::Bytes;
use dialects::Face;
use dialects::front::chat::envelope;
use http::HeaderMap;
use pingora::modules::http::HttpModules;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType};
use pingora_proxy::{FailToProxy, ProxyHttp, Session};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The proxy. Mount it in any Pingora server with `pingora_proxy::http_proxy_service`, or run
/// [`crate::server`].
pub struct Gateway {
    shared: Arc<Shared>,
}

impl Gateway {
    /// Over what all exchanges share.
    pub fn new(shared: Arc<Shared>) -> Gateway {
        Gateway { shared }
    }

    fn panicked(&self) -> Refusal {
        self.shared.metrics.panicked();
        Refusal::new(
            What::Internal,
            "The gateway failed. Try again; if it fails again, tell its operator the request id.",
        )
    }
}

/// What an exchange carries from one phase to the next.
pub struct Context {
    record: Record,
    planned: Option<Planned>,
}

/// A request that was read and planned.
struct Planned {
    request: Request,
    body: Bytes,
    held: Held,
}

#[async_trait]
impl ProxyHttp for Gateway {
    type CTX = Context;

    fn new_ctx(&self) -> Context {
        Context { record: Record::new(self.shared.clone()), planned: None }
    }

    /// None: not even the compression that Pingora adds by itself.
    fn init_downstream_modules(&self, _: &mut HttpModules) {}

    async fn early_request_filter(&self, session: &mut Session, context: &mut Context) -> pingora::Result<()> {
        let began = Instant::now();
        connection::head_is_here(session);
        welcome(&self.shared, session, &mut context.record);
        context.record.own += began.elapsed();
        Ok(())
    }

    async fn request_filter(&self, session: &mut Session, context: &mut Context) -> pingora::Result<bool> {
        let own = Own::default();
        let handled = exchange::guarded(&own, pin!(handle(&self.shared, session, context))).await;
        context.record.own += own.so_far();
        match handled.unwrap_or_else(|Panicked| Err(self.panicked())) {
            Ok(Handled::Planned) => Ok(false),
            Ok(Handled::Answered) => Ok(true),
            Err(refusal) => match reply::refusal(session, &self.shared, &mut context.record, &refusal).await {
                Ok(()) => Ok(true),
                Err(()) => Err(broken(&mut context.record)),
            },
        }
    }

    async fn proxy_upstream_filter(&self, session: &mut Session, context: &mut Context) -> pingora::Result<bool> {
        let Some(Planned { mut request, body, held }) = context.planned.take() else {
            return Err(broken(&mut context.record));
        };
        if let Some(before) = &mut request.debug {
            before.own = context.record.own;
        }
        exchange::panic_here(session, "exchange");
        let own = Own::default();
        let mut producer = Producer::new(&self.shared, &request, body, held, &own);
        let end = exchange::guarded(&own, pin!(relay(session, &self.shared, &mut context.record, &mut producer))).await;
        context.record.own += own.so_far();
        let end = end.unwrap_or_else(|Panicked| {
            account_for(&mut context.record, &mut producer);
            let refusal = self.panicked();
            context.record.refused(&refusal);
            // After the head only the connection's end can tell.
            if session.response_written().is_none() { End::Refused(refusal) } else { End::Broken }
        });
        match end {
            End::Answered => Ok(false),
            End::Broken => Err(broken(&mut context.record)),
            End::Refused(refusal) => match reply::refusal(session, &self.shared, &mut context.record, &refusal).await {
                Ok(()) => Ok(false),
                Err(()) => Err(broken(&mut context.record)),
            },
        }
    }

    async fn upstream_peer(&self, _: &mut Session, context: &mut Context) -> pingora::Result<Box<HttpPeer>> {
        // `proxy_upstream_filter` never returns `Ok(true)`.
        Err(broken(&mut context.record))
    }

    async fn fail_to_proxy(&self, _: &mut Session, _: &Error, context: &mut Context) -> FailToProxy {
        // Whatever could be said to the caller has been said; what is left is to close.
        FailToProxy { error_code: context.record.status, can_reuse_downstream: false }
    }

    async fn logging(&self, session: &mut Session, _: Option<&Error>, context: &mut Context) {
        context.record.bytes_in = session.as_downstream().body_bytes_read() as u64;
        connection::next_head(session);
    }

    fn suppress_error_log(&self, _: &Session, _: &Context, _: &Error) -> bool {
        // The access line says it.
        true
    }

    fn request_summary(&self, _: &Session, context: &Context) -> String {
        format!("{} {}", context.record.method, context.record.path)
    }
}

enum Handled {
    Answered,
    Planned,
}

/// The connection cannot be used any more: Pingora closes it as it is.
fn broken(record: &mut Record) -> Box<Error> {
    if !record.ended() {
        record.end(Outcome::ClientLeft);
    }
    Error::explain(ErrorType::ConnectionClosed, "the caller cannot be answered").into_down()
}

/// What is known of every request before anything is decided.
fn welcome(shared: &Shared, session: &mut Session, record: &mut Record) {
    let timeouts = shared.server.timeouts;
    session.set_read_timeout(Some(timeouts.client_read));
    session.set_write_timeout(Some(timeouts.client_write));
    if shared.drain.phase() > Phase::Serving {
        session.set_keepalive(None);
    } else if session.get_keepalive().is_some() {
        session.set_keepalive(Some(timeouts.keepalive.as_secs().max(1)));
    }
    let header = session.req_header();
    record.request_id =
        header.headers.get("x-request-id").and_then(|v| request_id(v.as_bytes())).unwrap_or_else(made_up_id);
    record.method = header.method.as_str().chars().take(16).collect();
    record.path = shown_path(header.uri.path());
    let peer = session.client_addr().and_then(|a| a.as_inet()).map(|a| a.ip());
    record.address = auth::address(&shared.server, peer, &session.req_header().headers);
}

/// A caller's own id, if it is one: short, visible, and safe in a log.
fn request_id(value: &[u8]) -> Option<String> {
    let good = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':' | b'/' | b'+' | b'=' | b'@');
    let fits = (1..=128).contains(&value.len()) && value.iter().all(good);
    fits.then(|| String::from_utf8_lossy(value).into_owned())
}

/// An id of ours: they sort by time.
pub(crate) fn made_up_id() -> String {
    uuid::Uuid::now_v7().hyphenated().to_string()
}

/// Known paths whole, others cut short: they may hold anything.
pub(crate) fn shown_path(path: &str) -> String {
    path.chars().take(64).map(|c| if c.is_control() { '?' } else { c }).collect()
}

async fn handle(shared: &Arc<Shared>, session: &mut Session, context: &mut Context) -> Result<Handled, Refusal> {
    let record = &mut context.record;
    let target = session.req_header().uri.path_and_query().map_or(0, |target| target.as_str().len());
    let size: usize = session.req_header().headers.iter().map(|(n, v)| n.as_str().len() + v.len() + 4).sum();
    if target > shared.server.limits.header_bytes {
        let most = shared.server.limits.header_bytes;
        return Err(Refusal::new(
            What::TargetTooLong,
            format!("The request's target is longer than {most} bytes, which is the limit here."),
        ));
    }
    if size + target > shared.server.limits.header_bytes {
        return Err(Refusal::new(
            What::HeadersTooLarge,
            format!(
                "The request's headers are larger than {} bytes, which is the limit here.",
                shared.server.limits.header_bytes
            ),
        ));
    }
    coding(session)?;
    protected(session)?;
    let header = session.req_header();
    let door = door::find(header.method.as_str(), header.uri.path(), !shared.server.cors.is_empty())?;
    record.door = door.name();
    exchange::panic_here(session, "door");
    match door {
        Door::Live | Door::Ready => {
            record.is_exchange = false;
            let status = if door == Door::Live || shared.drain.ready() { 200 } else { 503 };
            written(reply::plain(session, shared, record, status, "text/plain", Bytes::new()).await)
        }
        Door::Preflight => {
            let door = door::by_path(header.uri.path()).unwrap_or(Door::Models);
            written(reply::preflight(session, shared, record, &door).await)
        }
        Door::Models | Door::Model(_) | Door::Chat => {
            let snapshot = shared.live.load_full();
            let key = auth::key(&snapshot.catalog, &session.req_header().headers, record.address, SystemTime::now());
            let (key, old) = key.map(|(key, old)| (key.clone(), old)).ok_or_else(Refusal::invalid_key)?;
            used(shared, &snapshot, &key, old);
            record.caller = Some(key.caller.id.clone());
            record.key = Some(key.id.clone());
            record.auth = Some(record.began.elapsed());
            exchange::panic_here(session, "auth");
            match door {
                Door::Models => {
                    let list = snapshot.lists.list(&snapshot.catalog, &key);
                    written(reply::plain(session, shared, record, 200, "application/json", list).await)
                }
                Door::Model(id) => {
                    let one = models::one(&snapshot.catalog, &key, &id).ok_or_else(|| Refusal::model_not_found(&id))?;
                    written(reply::plain(session, shared, record, 200, "application/json", one).await)
                }
                Door::Chat | Door::Live | Door::Ready | Door::Preflight => {
                    if shared.drain.phase() > Phase::Delaying {
                        return Err(Refusal::new(
                            What::ShuttingDown,
                            "The gateway is shutting down. Try again: another one will answer.",
                        )
                        .retry_after(1));
                    }
                    context.planned = Some(chat(shared, session, record, snapshot, &key).await?);
                    Ok(Handled::Planned)
                }
            }
        }
    }
}

/// Remembers that a key is used, and whether by a secret that is being replaced.
fn used(shared: &Shared, snapshot: &Snapshot, key: &Key, old: bool) {
    let Some(KeyScopes { used, .. }) = snapshot.scopes.get(key.index) else { return };
    let now = days::now();
    if used.touch(now) {
        shared.ledger.used(key.id.clone(), now);
    }
    if old {
        used.by_old_hash(now);
    }
}

/// Chunks are read, and nothing that is packed into them: that would be taken for the body as it
/// is.
fn coding(session: &mut Session) -> Result<(), Refusal> {
    let headers = &session.req_header().headers;
    if !headers.contains_key(http::header::TRANSFER_ENCODING) {
        return Ok(());
    }
    let lines = headers.get_all(http::header::TRANSFER_ENCODING).iter();
    let codings: Vec<&str> = lines.flat_map(|line| line.to_str().unwrap_or("?").split(',')).map(str::trim).collect();
    let is = |coding: &str, name: &str| coding.eq_ignore_ascii_case(name);
    let chunked = codings.iter().filter(|coding| is(coding, "chunked")).count();
    // In chunks twice, it has two ends (RFC 9112, 6.1).
    if chunked <= 1 && codings.iter().all(|coding| coding.is_empty() || is(coding, "identity") || is(coding, "chunked"))
    {
        return Ok(());
    }
    // Whoever stands before us may see another end of it.
    session.set_keepalive(None);
    let message =
        "The body's `transfer-encoding` may be `chunked`, once, and nothing else: send it without compression.";
    Err(Refusal::new(What::UnknownCoding, message).in_vain())
}

/// `connection` lets a hop take headers away. Those that decide who asks and what are not for that.
fn protected(session: &Session) -> Result<(), Refusal> {
    const PROTECTED: [&str; 8] = [
        "authorization",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "host",
        "content-length",
        "content-type",
        "transfer-encoding",
    ];
    let named = session.req_header().headers.get_all(http::header::CONNECTION);
    let named = named.iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(',')).map(str::trim);
    match named.into_iter().find_map(|n| PROTECTED.iter().find(|p| p.eq_ignore_ascii_case(n))) {
        Some(name) => Err(Refusal::new(
            What::BadRequest { code: None },
            format!("The header `connection` must not name `{name}`."),
        )),
        None => Ok(()),
    }
}

fn written(written: Result<(), ()>) -> Result<Handled, Refusal> {
    written.map(|()| Handled::Answered).map_err(|()| Refusal::new(What::CallerLeft, "The caller left."))
}

/// Reads and plans a chat completion.
async fn chat(
    shared: &Arc<Shared>,
    session: &mut Session,
    record: &mut Record,
    snapshot: Arc<Snapshot>,
    key: &crate::catalog::Key,
) -> Result<Planned, Refusal> {
    let timeout = timeout(&session.req_header().headers)?;
    let scopes = snapshot.scopes.get(key.index).ok_or_else(Refusal::invalid_key)?;
    let entry = limits::enter(&scopes.entry(key), days::now).map_err(|refused| limited(record, &refused))?;
    let (body, held) = intake::body(session, shared, &scopes.purse).await?;
    let read = Instant::now();
    record.bytes_in = body.len() as u64;
    exchange::panic_here(session, "intake");
    let envelope = envelope::read(&body).map_err(|fault| {
        let refusal = Refusal::new(What::BadRequest { code: fault.code }, fault.message);
        match fault.param {
            Some(param) => refusal.param(param),
            None => refusal,
        }
    })?;
    record.stream = envelope.stream;
    let model = plan::visible(&snapshot.catalog, key, &envelope.model)
        .ok_or_else(|| Refusal::model_not_found(&envelope.model))?;
    record.model = Some(model.id.clone());
    let session_id = session.req_header().headers.get("x-portcullis-session").map(|value| value.as_bytes());
    let conversation =
        if plan::is_sticky(&snapshot.catalog, model) { plan::conversation(session_id, &body, &envelope) } else { None };
    let plan = plan::plan(&snapshot, key, model, envelope.stream, conversation)
        .ok_or_else(|| Refusal::model_not_found(&envelope.model))?;
    let face = Face {
        model: envelope.model.clone(),
        id: format!("chatcmpl-{}", uuid::Uuid::now_v7().simple()),
        created: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        show_usage: envelope.include_usage,
        prompt_bytes: envelope.prompt_bytes.saturating_add(envelope.more_bytes) as u64,
        // Who will answer, and so at which price, is not known yet.
        wants_json: envelope.wants_json,
        cost: if key.caller.expose_cost { ShowCost::At(None) } else { ShowCost::No },
    };
    let bounds = scopes.bounds(key, model.index);
    // Its admission asks for the place itself.
    drop(entry);
    admit(shared, record, &bounds, plan::most(&envelope, &plan), snapshot.generation).await?;
    let meter = record.meter(face.prompt_bytes);
    exchange::panic_here(session, "plan");
    let request = Request {
        envelope,
        face: Arc::new(face),
        model: model.clone(),
        demand: plan.demand,
        candidates: plan.candidates,
        timeout,
        debug: key.debug.then(|| Before {
            auth: record.auth.unwrap_or_default(),
            plan: read.elapsed(),
            own: Duration::ZERO,
        }),
        request_id: record.request_id.clone(),
        key: key.id.clone(),
        meter,
        snapshot,
    };
    record.plan = Some(read.elapsed());
    Ok(Planned { request, body, held })
}

/// Takes from the caller's limits what the request may use, or refuses it.
async fn admit(
    shared: &Shared,
    record: &mut Record,
    bounds: &Bounds<'_>,
    ask: Ask,
    generation: u64,
) -> Result<(), Refusal> {
    let now = days::now();
    let admitted = match &shared.store {
        // Most have no limits, and nothing to ask.
        Some(store) if !bounds.is_empty() => match store.admit(bounds, ask, now).await {
            Answer::Admitted(reservation) => Ok(reservation),
            Answer::Refused(refused) => Err(refused),
            Answer::Down => {
                let message = "The store of this gateway's limits cannot be reached, and no request passes without it. Try again shortly.";
                return Err(Refusal::new(What::StoreDown, message).retry_after(1));
            }
        },
        Some(_) | None => limits::admit(bounds, ask, now, 1),
    };
    match admitted {
        Ok(reservation) => {
            record.admit(reservation, generation);
            Ok(())
        }
        Err(refused) => Err(limited(record, &refused)),
    }
}

/// A limit of the caller's has no room.
fn limited(record: &mut Record, refused: &limits::Refused) -> Refusal {
    record.left = refused.left;
    record.limited = Some((refused.level, refused.over.kind));
    refused.refusal()
}

/// How long the caller says that all attempts together may take.
pub fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Refusal> {
    const NAME: &str = "x-portcullis-timeout";
    let mut values = headers.get_all(NAME).iter();
    let (Some(value), another) = (values.next(), values.next()) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    let seconds = || text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let span = seconds()
        .or_else(|| text.parse::<Span>().ok().map(|Span(span)| span))
        .filter(|span| !span.is_zero() && another.is_none());
    span.map(Some).ok_or_else(|| {
        let message =
            format!("The header `{NAME}` must stand once, as a number of seconds or a time such as 1500ms or 30s, and be more than 0.");
        Refusal::new(What::BadRequest { code: Some("invalid_value") }, message).param(NAME)
    })
}
