//! Dialects: a caller's request in one format becomes a request in an account's format, and the
//! answer becomes one in the caller's format: whole or as a stream, errors too. The parts that a
//! format cannot express are named.
//!
//! Everything here is pure: bytes in, bytes out; no clock, no randomness, no file, no socket. An
//! answer gets its id and its time from its [`AnswerHeader`].
//!
//! | Module | What it has |
//! |---|---|
//! | [`wire`] | JSON, streams of events, lines and frames, forms, splices: pure codecs |
//! | [`address`] | hosts and IP addresses: which may be called, and which are public |
//! | [`neutral`] | the form in which all formats meet: a request, the events of an answer |
//! | [`front`] | the formats that callers speak, a folder and a [`front::Front`] each |
//! | [`upstream`] | the dialects that accounts speak, a folder each |
//! | [`presets`] | well-known servers that speak OpenAI's format |
//! | [`named_enum`] | enums whose variants have names for readers outside of the program |
//! | `dialect` | the seam: [`Dialect`], and the [`Stream`] of an answer |

pub mod address;
mod dialect;
pub mod front;
mod named_enum;
pub mod neutral;
pub mod presets;
pub mod upstream;
pub mod wire;

pub use dialect::{
    Dialect, OtherModel, Outbound, Recipient, Slices, Stream, Translate, endpoint_for, in_whole,
    join_answers,
};
pub use neutral::{
    Answer, AnswerFault, AnswerHeader, EndReasons, Endpoint, ErrorHead, Family, Flaws, Labels,
    StreamFault, UpstreamError, price, traits, usage,
};
pub use upstream::{Framing, Protocol, Settings};
