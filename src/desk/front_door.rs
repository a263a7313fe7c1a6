//! A front door is the format that a caller speaks. How requests are read and answers are written
//! is the crate's [`Front`]; the errors of the gateway itself are written here. Pure, but for the
//! ids.
//!
//! **Invariant:** no other file of the desk, and none that writes to callers, knows such a format.

use super::door::Door;
use crate::error::Refusal;
use dialects::front::{self, Front};
use serde::Serialize;

/// A format, and what of it only a gateway needs. There is one static for each.
pub struct FrontDoor {
    /// How requests are read, and answers are written.
    pub format: &'static Front,
    /// Returns the body of a refusal, which is JSON.
    pub error_body: fn(&Refusal) -> Vec<u8>,
    /// Returns the end of a stream that has begun and cannot go on.
    pub error_event: fn(&Refusal) -> Vec<u8>,
}

impl FrontDoor {
    /// Returns the format of callers at a door. If no door was found, the only answer is a refusal.
    pub fn of(door: Option<&Door>) -> &'static FrontDoor {
        match door {
            Some(Door::Chat | Door::Models | Door::Model(_) | Door::Live | Door::Ready | Door::Preflight { .. })
            | None => &CHAT,
        }
    }

    /// Makes the id of an answer.
    pub fn make_id(&self) -> String {
        format!("{}{}", self.format.id_prefix, uuid::Uuid::now_v7().simple())
    }
}

/// OpenAI's chat completions.
pub static CHAT: FrontDoor = FrontDoor {
    format: &front::CHAT,
    error_body,
    error_event: |refusal| [b"data: ".as_slice(), &error_body(refusal), b"\n\n"].concat(),
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
