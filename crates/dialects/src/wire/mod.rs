//! Pure codecs: bytes in, bytes or spans out.
//!
//! Nothing here knows a dialect, a socket or a clock; every function takes what it needs and may be
//! called with any bytes without a panic.

pub mod frames;
pub mod json;
pub mod lines;
pub mod percent;
pub mod splice;
pub mod sse;

/// One event of a stream, however it was framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// What kind of event it is, in the words of its framing; empty if that says nothing.
    pub name: &'a [u8],
    /// What it brings.
    pub data: &'a [u8],
}
