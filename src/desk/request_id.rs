//! A request id names one request in logs and answers. This module also writes the path as logs
//! show it.

use crate::base::cut_keys::cut_keys;
use http::{HeaderMap, HeaderName};
use uuid::Uuid;

/// The header in which callers send an id, and get the request's.
pub static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Returns the caller's own id of a request, or makes one. An id that is made is returned as a
/// number, too.
pub fn read_or_make(headers: &HeaderMap) -> (String, Option<Uuid>) {
    let callers = headers
        .get(&X_REQUEST_ID)
        .and_then(|value| callers_id(value.as_bytes()));
    callers.map_or_else(
        || {
            let made = Uuid::now_v7();
            (id_text(made), Some(made))
        },
        |id| (id, None),
    )
}

/// Makes an id. Such ids sort by time.
pub fn make_request_id() -> String {
    id_text(Uuid::now_v7())
}

fn id_text(id: Uuid) -> String {
    id.hyphenated()
        .encode_lower(&mut Uuid::encode_buffer())
        .to_owned()
}

/// Returns a caller's own id if it is good: short, visible, and safe in a log.
fn callers_id(value: &[u8]) -> Option<String> {
    let is_good = |b: &u8| b.is_ascii_alphanumeric() || b"-_.:/+=@".contains(b);
    let fits = (1..=128).contains(&value.len()) && value.iter().all(is_good);
    fits.then(|| String::from_utf8_lossy(value).into_owned())
}

/// Returns a path, or a conversation's name, as logs show it: cut short, since it may have any
/// content.
pub fn display_text(text: &str) -> String {
    let text = cut_keys(text);
    // Most need no change.
    if text.len() <= 64 && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.into_owned();
    }
    text.chars()
        .take(64)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
