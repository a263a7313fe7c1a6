//! The stage of intake: it reads a request's body. It bounds the body in size, in time, and in what
//! all requests together may hold in memory.

mod gzip;
mod items;
mod upload;

use super::planning::bad_request;
use super::record::Record;
use super::{Desk, admission, connection, session_io};
use crate::base::alarm::Alarm;
use crate::base::calendar;
use crate::base::memory::{Held, Purse};
use crate::catalog::{Catalog, Key};
use crate::error::{FailureKind, Refusal};
use crate::exchange::producer::Sent;
use crate::limits::{KeyScopes, has_room};
use crate::models;
use bytes::{Bytes, BytesMut};
use dialects::Endpoint;
use dialects::front::{Envelope, PathRequest};
use dialects::neutral::ModelKind;
use dialects::wire::shorten_text;
use http::{Version, header};
use pingora::ErrorType;
use pingora_proxy::Session;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The least rate of a body, in bytes per second. The gateway waits for a slower caller no longer
/// than `client_read`.
const MIN_BYTES_PER_SECOND: u64 = 16 * 1024;

/// The most memory that is reserved before the bytes have come.
const AT_ONCE: usize = 4 << 20;

/// A body as it comes, bounded in size and in time.
struct Incoming<'s> {
    desk: &'s Desk,
    session: &'s mut Session,
    limit: usize,
    began: Instant,
    alarm: Alarm,
    /// The number of bytes that have come.
    so_far: usize,
}

impl<'s> Incoming<'s> {
    /// Begins to read a body of at most `limit` bytes.
    async fn start_reading(
        desk: &'s Desk,
        session: &'s mut Session,
        limit: usize,
    ) -> Result<Incoming<'s>, Refusal> {
        let mut incoming = Incoming {
            desk,
            session,
            limit,
            began: Instant::now(),
            alarm: Alarm::default(),
            so_far: 0,
        };
        let header = incoming.session.req_header();
        let expects = header.headers.get(header::EXPECT);
        // HTTP/1.0 has no interim answers (RFC 9110, 10.1.1).
        if header.version > Version::HTTP_10
            && expects.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
        {
            let continue_sent = pin!(
                incoming
                    .session
                    .as_downstream_mut()
                    .write_continue_response()
            );
            let due = incoming.began + desk.settings.timeouts.client_read;
            incoming
                .alarm
                .until(due, continue_sent)
                .await
                .and_then(Result::ok)
                .ok_or_else(caller_left)?;
        }
        Ok(incoming)
    }

    /// Returns the next piece, or `None` at the end.
    async fn next_piece(&mut self) -> Result<Option<Bytes>, Refusal> {
        let Incoming {
            desk,
            session,
            began,
            so_far,
            ..
        } = self;
        // Another read would only find the end.
        if session.as_downstream_mut().is_body_done() {
            return Ok(None);
        }
        let read_timeout = desk.settings.timeouts.client_read;
        let earned =
            Duration::from_secs(u64::try_from(*so_far).unwrap_or(u64::MAX) / MIN_BYTES_PER_SECOND);
        let due = (Instant::now() + read_timeout).min(*began + read_timeout + earned);
        let read = async {
            tokio::select! {
                biased;
                chunk = session_io::read_piece(session) => Ok(chunk),
                // This is polled only while the caller is waited for.
                () = desk.books.drain.wait_for_cutting() => Err(shutdown_refusal()),
            }
        };
        let read = self.alarm.until(due, pin!(read)).await.transpose()?;
        let chunk = match read {
            Some(Ok(Some(chunk))) => chunk,
            Some(Ok(None)) => return Ok(None),
            // Pingora has the same deadline for one read, and either timer may fire first.
            Some(Err(error)) if *error.etype() == ErrorType::ReadTimedout => {
                return Err(body_timeout(self.so_far, self.began));
            }
            Some(Err(error)) => return Err(unreadable_body(self.session, &error)),
            None => return Err(body_timeout(self.so_far, self.began)),
        };
        self.so_far += chunk.len();
        if self.so_far > self.limit {
            Err(too_large(self.limit))
        } else {
            Ok(Some(chunk))
        }
    }
}

impl Desk {
    /// Reads what a caller sends, and what decides where it goes. Returns also when all of it had
    /// come.
    pub(super) async fn read_request(
        &self,
        session: &mut Session,
        record: &mut Record,
        scopes: &KeyScopes,
        key: &Key,
        catalog: &Catalog,
        asked: PathRequest,
    ) -> Result<(Envelope, Sent, std::time::Instant), Refusal> {
        let front = record.front;
        if !front.is_form() {
            let (body, mut held) = self.read_body(session, &scopes.purse).await?;
            let (read, bytes) = (std::time::Instant::now(), body.len());
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
                return Ok((envelope, Sent::body(body, held), read));
            }
            // Few requests refer to items, so this is no part of the others' state.
            let (body, envelope) =
                Box::pin(self.insert_items(body, envelope, &mut held, key)).await?;
            return Ok((envelope, Sent::body(body, held), read));
        }
        has_room(&scopes.entry(key), calendar::now_millis())
            .map_err(|refused| admission::note_limit_reached(record, &refused))?;
        let (envelope, sent) = Box::pin(self.read_form(session, scopes, front, asked)).await?;
        record.facts.request.bytes =
            sent.upload
                .as_ref()
                .map_or(0, |upload| upload.received_bytes()) as u64;
        Ok((envelope, sent, std::time::Instant::now()))
    }

    /// Reads the whole body. The memory that it holds is counted in the caller's purse.
    pub(super) async fn read_body(
        &self,
        session: &mut Session,
        purse: &Arc<Purse>,
    ) -> Result<(Bytes, Held), Refusal> {
        let limit = self.settings.limits.request_body;
        let Head {
            declared,
            packed,
            form,
        } = check_headers(session, limit)?;
        // If there is no memory for the declared length, the body is not read. A body without a
        // length is counted as it comes.
        let mut held = self.memory.open(purse);
        if !held.grow(declared) {
            return Err(Refusal::no_room());
        }
        let mut incoming = Incoming::start_reading(self, session, limit).await?;
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(chunk) = incoming.next_piece().await? {
            if !held.grow(incoming.so_far.saturating_sub(held.bytes())) {
                return Err(Refusal::no_room());
            }
            if incoming.so_far == chunk.len() {
                first = chunk;
                continue;
            }
            if rest.is_empty() {
                rest.reserve(declared.min(AT_ONCE).max(incoming.so_far));
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&chunk);
        }
        let mut body = if rest.is_empty() {
            first
        } else {
            rest.freeze()
        };
        if packed {
            body = gzip::unpack_body(body, limit, &mut held).await?;
        }
        if form && !body.trim_ascii_start().starts_with(b"{") {
            return Err(no_json(FORM));
        }
        Ok((body, held))
    }
}

/// The facts about a body that the headers state.
struct Head {
    /// The length, or 0 if the headers name none.
    declared: usize,
    /// True if the body is compressed with gzip.
    packed: bool,
    /// True if the headers call the body a form. That is the content type that curl sends with `-d`
    /// if it is given no other.
    form: bool,
}

/// The content type that curl sends by default.
const FORM: &str = "application/x-www-form-urlencoded";

/// Reads the headers, and refuses what can be refused before a byte of the body is read.
fn check_headers(session: &Session, limit: usize) -> Result<Head, Refusal> {
    let headers = &session.req_header().headers;
    let encoding = headers
        .get(header::CONTENT_ENCODING)
        .map_or(&b"identity"[..], |encoding| encoding.as_bytes());
    let packed = [&b"gzip"[..], b"x-gzip"]
        .iter()
        .any(|name| encoding.trim_ascii().eq_ignore_ascii_case(name));
    if !packed && !encoding.eq_ignore_ascii_case(b"identity") {
        let shown = shorten_text(&String::from_utf8_lossy(encoding), 40);
        let message = format!(
            "The header `content-encoding: {shown}` is not supported; send the body uncompressed, or with `content-encoding: gzip`."
        );
        return Err(Refusal::new(FailureKind::UnsupportedMedia, message));
    }
    let mut form = false;
    if let Some(kind) = headers.get(header::CONTENT_TYPE) {
        let name = kind
            .as_bytes()
            .split(|b| *b == b';')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        form = name.eq_ignore_ascii_case(FORM.as_bytes());
        if !form && !name.eq_ignore_ascii_case(b"application/json") {
            return Err(no_json(&String::from_utf8_lossy(kind.as_bytes())));
        }
    }
    declared_length(session, limit).map(|declared| Head {
        declared,
        packed,
        form,
    })
}

/// Returns the length that the headers state, or 0 if they state none.
fn declared_length(session: &Session, limit: usize) -> Result<usize, Refusal> {
    let declared = session.req_header().headers.get(header::CONTENT_LENGTH);
    let declared = declared
        .and_then(|length| length.to_str().ok()?.trim().parse().ok())
        .unwrap_or(0);
    if declared > limit {
        Err(too_large(limit))
    } else {
        Ok(declared)
    }
}

fn no_json(kind: &str) -> Refusal {
    let shown = shorten_text(kind, 80);
    let message = format!(
        "The content type `{shown}` is not supported; send a JSON object, with the header `content-type: application/json`."
    );
    Refusal::new(FailureKind::UnsupportedMedia, message)
}

pub(super) fn too_large(limit: usize) -> Refusal {
    Refusal::new(
        FailureKind::TooLarge,
        format!("The request's body is larger than the limit of {limit} bytes."),
    )
}

fn body_timeout(so_far: usize, began: Instant) -> Refusal {
    let waited = began.elapsed().as_millis();
    let message = format!(
        "The request's body did not come in time ({so_far} bytes in {waited} ms). Send it without pauses."
    );
    Refusal::new(FailureKind::BodyTimeout, message)
}

/// Returns the refusal for a body that cannot be read. Pingora has error names of its own for
/// broken chunks.
fn unreadable_body(session: &mut Session, error: &pingora::Error) -> Refusal {
    if !matches!(
        error.etype(),
        ErrorType::Custom("InvalidChunk" | "InvalidTrailerEnd")
    ) {
        return caller_left();
    }
    // Pingora takes such a body for complete, but the start of the next request is unknown.
    connection::end_after_answer(session);
    let message =
        "The request's body is not in valid chunks, although its `transfer-encoding` is `chunked`.";
    Refusal::new(FailureKind::BadRequest { code: None }, message)
}

fn shutdown_refusal() -> Refusal {
    let message = "The gateway is shutting down and could not wait for the rest of the request. Try again in a moment.";
    Refusal::new(FailureKind::ShuttingDown, message).retry_after(1)
}

fn caller_left() -> Refusal {
    Refusal::new(
        FailureKind::CallerLeft,
        "The caller left before the request was complete.",
    )
}
