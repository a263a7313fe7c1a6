//! Pure codecs: bytes in, bytes or spans out.
//!
//! Nothing here knows a dialect, a socket or a clock. Every function may be called with any bytes
//! and never panics.

pub mod frames;
pub mod json;
pub mod lines;
pub mod multipart;
pub mod percent;
pub mod splice;
pub mod sse;

/// Returns the first characters of a text, for messages that show it.
pub fn shorten_text(text: &str, max_characters: usize) -> String {
    text.chars().take(max_characters).collect()
}

/// Returns a text without the byte order mark that may stand before it.
pub(crate) fn without_bom(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text)
}

/// Returns whether a text starts with these ASCII letters, in upper or lower case.
pub(crate) fn starts_with_any_case(text: impl AsRef<[u8]>, start: &str) -> bool {
    text.as_ref()
        .get(..start.len())
        .is_some_and(|text| text.eq_ignore_ascii_case(start.as_bytes()))
}

/// Returns whether a text starts with one of these.
pub(crate) fn starts_with_any(text: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| text.starts_with(start))
}

/// One event of a stream, in any framing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The kind of the event, if its framing has one; else empty.
    pub name: &'a [u8],
    /// The content of the event.
    pub data: &'a [u8],
}
