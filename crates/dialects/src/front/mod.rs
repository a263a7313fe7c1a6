//! The front doors: the formats that callers speak. A front door reads a caller's body, and writes
//! the answer that the caller gets.

pub mod chat;
