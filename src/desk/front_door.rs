//! A front door is the format that a caller speaks: its ids, its errors, its frames, the end of its
//! streams. The answer itself is written by the dialects. Pure, but for the ids.
//!
//! **Invariant:** no other file of the desk, and none that writes to callers, knows such a format.

use super::door::Door;
use crate::error::Refusal;
use bytes::Bytes;
use serde::Serialize;

/// A format. There is one static for each.
pub struct FrontDoor {
    /// Makes the id of an answer.
    pub make_id: fn() -> String,
    /// Returns the body of a refusal, which is JSON.
    pub error_body: fn(&Refusal) -> Vec<u8>,
    /// Returns the end of a stream that has begun and cannot go on.
    pub error_event: fn(&Refusal) -> Vec<u8>,
    /// Keeps a silent stream open, and is no part of the answer.
    pub keepalive: &'static [u8],
    /// Returns what a stream says in place of a header that it has no more room for.
    pub late_header: fn(&str, &str) -> Bytes,
    /// The `content-type` of a stream.
    pub stream_type: &'static str,
}

impl FrontDoor {
    /// Returns the format of those who ask at a door. Where no door was found, the only answer is a
    /// refusal.
    pub fn of(door: Option<&Door>) -> &'static FrontDoor {
        match door {
            Some(Door::Chat | Door::Models | Door::Model(_) | Door::Live | Door::Ready | Door::Preflight { .. })
            | None => &CHAT,
        }
    }
}

/// OpenAI's chat completions.
pub static CHAT: FrontDoor = FrontDoor {
    make_id: || format!("chatcmpl-{}", uuid::Uuid::now_v7().simple()),
    error_body,
    error_event: |refusal| [b"data: ".as_slice(), &error_body(refusal), b"\n\n"].concat(),
    keepalive: b": keepalive\n\n",
    late_header: |name, value| format!(": {name}: {value}\n\n").into(),
    stream_type: "text/event-stream",
};

#[derive(Serialize)]
struct Body<'a> {
    error: Error<'a>,
}

#[derive(Serialize)]
struct Error<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'a str>,
    code: Option<&'a str>,
}

fn error_body(refusal: &Refusal) -> Vec<u8> {
    let row = refusal.what.row();
    let error = Error { message: &refusal.message, kind: row.kind, param: refusal.param.as_deref(), code: row.code };
    // Strings and nulls always serialise.
    serde_json::to_vec(&Body { error }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::What;

    #[test]
    fn the_body_has_all_four_keys() {
        let refusal = Refusal::new(What::UnknownUrl, "no");
        let body = r#"{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"unknown_url"}}"#;
        assert_eq!(String::from_utf8_lossy(&(CHAT.error_body)(&refusal)), body);
        assert_eq!(String::from_utf8_lossy(&(CHAT.error_event)(&refusal)), format!("data: {body}\n\n"));
    }
}
