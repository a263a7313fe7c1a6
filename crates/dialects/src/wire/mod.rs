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
