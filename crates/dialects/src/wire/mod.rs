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

/// One event of a stream, in any framing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The kind of the event, as its framing says it; empty if the framing does not.
    pub name: &'a [u8],
    /// The content of the event.
    pub data: &'a [u8],
}
