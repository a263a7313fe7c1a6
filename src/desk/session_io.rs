//! Reads from and writes to a caller's session, with futures that are small.
//!
//! Pingora's future of a read or a write has room for that of each kind of session, which is up to
//! two kilobytes, and every future around it has this room, too. A session of our own boxes its
//! futures itself, and that of what was written at once needs no memory: so it is asked directly.
//! The futures of Pingora's own sessions are boxed here.

use bytes::Bytes;
use pingora::Result;
use pingora::http::ResponseHeader;
use pingora_proxy::Session;

/// Writes the head of an answer.
pub(super) async fn write_head(session: &mut Session, head: Box<ResponseHeader>) -> Result<()> {
    let session = session.as_downstream_mut();
    match session.as_custom_mut() {
        Some(own) => own.write_response_header(head, false).await,
        None => Box::pin(session.write_response_header(head)).await,
    }
}

/// Writes a part of a body.
pub(super) async fn write_part(session: &mut Session, part: Bytes, is_last: bool) -> Result<()> {
    let session = session.as_downstream_mut();
    match session.as_custom_mut() {
        // An empty part would end the chunks.
        Some(_) if part.is_empty() && !is_last => Ok(()),
        Some(own) => own.write_body(part, is_last).await,
        None => Box::pin(session.write_response_body(part, is_last)).await,
    }
}

/// Reads a piece of the request's body; `None` at its end.
pub(super) async fn read_piece(session: &mut Session) -> Result<Option<Bytes>> {
    let session = session.as_downstream_mut();
    match session.as_custom_mut() {
        Some(own) => own.read_body_bytes().await,
        None => Box::pin(session.read_request_body()).await,
    }
}

/// Waits until the caller leaves.
pub(super) async fn wait_for_leaving(session: &mut Session) {
    let session = session.as_downstream_mut();
    let left = match session.as_custom_mut() {
        Some(own) => own.read_body_or_idle(true).await,
        None => Box::pin(session.read_body_or_idle(true)).await,
    };
    // Whatever comes now, the caller does not wait for the answer.
    drop(left);
}
