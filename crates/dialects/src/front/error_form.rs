//! The form in which the callers of a front door get errors: statuses, headers and bodies.

use crate::neutral::{AnswerHeader, Echo};

/// The form of a front door's errors.
#[derive(Clone, Copy)]
pub struct ErrorForm {
    /// The status of a refusal if no account can be asked now. Clients try as often as they think
    /// that a status deserves.
    pub unavailable: u16,
    /// The same if only the operator can end that.
    pub hopeless: u16,
    /// The status if the provider is overloaded, where clients know one of its own. After some of
    /// these they ask another model, so they are never told to stop. `None` if it is `unavailable`.
    pub overloaded: Option<u16>,
    /// The same if the account that was asked has failed. `None` if clients know what to do after
    /// the usual status.
    pub failed: Option<u16>,
    /// True if clients take a stream for whole that ends properly after its error. Then the
    /// connection ends there.
    pub cuts: bool,
    /// True if clients wait as long as `retry-after` says, be it hours. They are not told such a
    /// time.
    pub obeys_waits: bool,
    /// True if clients ask for a WebSocket first, and only 426 makes them send a request at once.
    pub asks_upgrade: bool,
    /// The header that clients read a request's id from, besides `x-request-id`.
    pub id_header: Option<&'static str>,
    /// Returns the body of an error, which is JSON.
    pub body: fn(&CallerError<'_>) -> Vec<u8>,
    /// Returns the end of a stream that has begun and cannot go on.
    pub event: fn(&CallerError<'_>) -> Vec<u8>,
}

/// The code of an error that says that the provider is overloaded.
pub const OVERLOADED: &str = "upstream_overloaded";

/// An error as a caller is told of it.
#[derive(Debug, Clone, Copy)]
pub struct CallerError<'e> {
    /// The HTTP status.
    pub status: u16,
    /// The type, in OpenAI's words.
    pub kind: &'e str,
    /// The code, in OpenAI's words.
    pub code: Option<&'e str>,
    /// The field of the request that is at fault.
    pub param: Option<&'e str>,
    /// What happened, and what to do.
    pub message: &'e str,
    /// The request's id.
    pub request_id: &'e str,
    /// The seconds until another try makes sense.
    pub retry_after: Option<u64>,
    /// What the caller has of the answer.
    pub answer: AnswerSoFar<'e>,
}

/// What a caller has of an answer that cannot go on.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnswerSoFar<'e> {
    /// Its id; empty if there is no answer.
    pub id: &'e str,
    /// The number of its events, in formats that count them.
    pub events: u64,
    /// True if some of it was written.
    pub has_begun: bool,
    /// What every answer shows, if there is one.
    pub header: Option<&'e AnswerHeader>,
    /// What it repeats of its request, if that is known.
    pub echo: Option<&'e Echo>,
}
