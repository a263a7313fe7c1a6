//! A player runs a script on an HTTP/1 connection or an HTTP/2 stream, and notices at once when the
//! peer leaves.

use std::time::Duration;

use bytes::Bytes;
use h2::SendStream;
use h2::server::SendResponse;

use super::script::{Script, Step};
use super::wire::{Framing, Wire, find};

/// The end of a script.
pub enum Played {
    /// The answer is whole.
    Whole,
    Closed,
    Reset,
    /// The peer left first.
    Left,
}

/// Plays a script over HTTP/1.
pub async fn http1(wire: &mut Wire, script: &Script) -> Played {
    let mut framing = Framing::None;
    let mut whole = false;
    for step in &script.steps {
        let going = match step {
            Step::Head(status, fields) => {
                let head = head_bytes(*status, fields);
                framing = match find(fields, "transfer-encoding") {
                    Some("chunked") => Framing::Chunked,
                    _ => Framing::None,
                };
                wire.write(&head).await
            }
            Step::Informational(status, fields) => wire.write(&head_bytes(*status, fields)).await,
            Step::Raw(bytes) => wire.write(bytes).await,
            Step::Body(bytes) => wire.write(&framed(framing, bytes)).await,
            Step::Slices { bytes, size, gap } => {
                let mut going = true;
                for piece in bytes.chunks((*size).max(1)) {
                    going = going
                        && wire.write(&framed(framing, piece)).await
                        && !pause(wire, *gap).await;
                }
                going
            }
            Step::Delay(time) => !pause(wire, *time).await,
            Step::Wait(gate) => tokio::select! {
                biased;
                () = gate.opened() => true,
                () = wire.gone() => false,
            },
            Step::Stall => {
                wire.gone().await;
                false
            }
            Step::End => {
                whole = true;
                framing != Framing::Chunked || wire.write(b"0\r\n\r\n").await
            }
            Step::Close => return Played::Closed,
            Step::Reset | Step::Refuse => return Played::Reset,
            Step::Do(call) => {
                call();
                true
            }
        };
        if !going {
            return Played::Left;
        }
    }
    if whole { Played::Whole } else { Played::Closed }
}

/// Waits for a time. Returns true if the peer left meanwhile.
async fn pause(wire: &mut Wire, time: Duration) -> bool {
    if time.is_zero() {
        // This lets the bytes that were written leave by themselves.
        tokio::task::yield_now().await;
        return false;
    }
    tokio::time::timeout(time, wire.gone()).await.is_ok()
}

fn head_bytes(status: u16, fields: &[(String, String)]) -> Vec<u8> {
    let reason = http::StatusCode::from_u16(status)
        .ok()
        .and_then(|s| s.canonical_reason())
        .unwrap_or("Status");
    let mut head = format!("HTTP/1.1 {status} {reason}\r\n");
    for (name, value) in fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

fn framed(framing: Framing, bytes: &[u8]) -> Vec<u8> {
    match framing {
        Framing::Chunked => [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat(),
        Framing::Length(_) | Framing::None => bytes.to_vec(),
    }
}

/// Plays a script on one stream of HTTP/2.
///
/// The stream belongs to the caller of this function: dropping it without an end resets it.
pub async fn http2(
    respond: &mut SendResponse<Bytes>,
    stream: &mut Option<SendStream<Bytes>>,
    script: &Script,
) -> Played {
    for step in &script.steps {
        let going = match step {
            Step::Head(status, fields) => {
                match respond.send_response(http2_head(*status, fields), false) {
                    Ok(sender) => {
                        *stream = Some(sender);
                        true
                    }
                    Err(_) => false,
                }
            }
            Step::Informational(status, fields) => respond
                .send_informational(http2_head(*status, fields))
                .is_ok(),
            Step::Raw(bytes) | Step::Body(bytes) => http2_write(stream.as_mut(), bytes).await,
            Step::Slices { bytes, size, gap } => {
                let mut going = true;
                for piece in bytes.chunks((*size).max(1)) {
                    going = going && http2_write(stream.as_mut(), piece).await;
                    going = going
                        && tokio::time::timeout(*gap, http2_gone(respond, stream.as_mut()))
                            .await
                            .is_err();
                }
                going
            }
            Step::Delay(time) => tokio::time::timeout(*time, http2_gone(respond, stream.as_mut()))
                .await
                .is_err(),
            Step::Wait(gate) => tokio::select! {
                biased;
                () = gate.opened() => true,
                () = http2_gone(respond, stream.as_mut()) => false,
            },
            Step::Stall => {
                http2_gone(respond, stream.as_mut()).await;
                false
            }
            Step::End => {
                let sent = stream.as_mut().map(|s| s.send_data(Bytes::new(), true));
                return if matches!(sent, Some(Ok(()))) {
                    Played::Whole
                } else {
                    Played::Left
                };
            }
            Step::Close => break,
            Step::Reset => {
                flushed().await;
                respond.send_reset(h2::Reason::INTERNAL_ERROR);
                return Played::Reset;
            }
            Step::Refuse => {
                respond.send_reset(h2::Reason::REFUSED_STREAM);
                return Played::Reset;
            }
            Step::Do(call) => {
                call();
                true
            }
        };
        if !going {
            return Played::Left;
        }
    }
    flushed().await;
    Played::Closed
}

/// Waits until h2 has sent its queue, because a reset or a close overtakes what is queued. h2 does
/// not tell when the queue is empty; its task needs only a turn.
async fn flushed() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

fn http2_head(status: u16, fields: &[(String, String)]) -> http::Response<()> {
    let mut head = http::Response::builder().status(status);
    for (name, value) in fields {
        // The fields of an HTTP/1 connection have no place in HTTP/2.
        if !["connection", "transfer-encoding", "keep-alive"]
            .contains(&name.to_ascii_lowercase().as_str())
        {
            head = head.header(name, value);
        }
    }
    head.body(()).expect("a head")
}

/// Writes only as fast as the peer gives room.
async fn http2_write(stream: Option<&mut SendStream<Bytes>>, bytes: &[u8]) -> bool {
    let Some(stream) = stream else { return false };
    let mut rest = Bytes::copy_from_slice(bytes);
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len());
        let Some(Ok(room)) = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await else {
            return false;
        };
        if stream
            .send_data(rest.split_to(room.min(rest.len())), false)
            .is_err()
        {
            return false;
        }
    }
    true
}

async fn http2_gone(respond: &mut SendResponse<Bytes>, stream: Option<&mut SendStream<Bytes>>) {
    let _ = match stream {
        Some(stream) => std::future::poll_fn(|cx| stream.poll_reset(cx)).await,
        None => std::future::poll_fn(|cx| respond.poll_reset(cx)).await,
    };
}
