//! The form in which the callers of a front door get errors: statuses, headers and bodies.

use crate::neutral::{AnswerHeader, Echo};

/// The form of a front door's errors.
#[derive(Clone, Copy)]
pub struct ErrorForm {
    /// The status of a refusal if no account can be asked now. The status decides how often clients
    /// try again.
    pub unavailable_status: u16,
    /// The status of a refusal if only the operator can make an account available.
    pub hopeless_status: u16,
    /// The status if the provider is overloaded, where clients know a status of its own. After some
    /// errors with this status they ask another model, so they never get the hint to stop. `None`
    /// if `unavailable_status` serves.
    pub overloaded_status: Option<u16>,
    /// The status if the account that was asked has failed. `None` if clients handle the usual
    /// status well.
    pub failed_status: Option<u16>,
    /// True if clients take a stream that ends properly after its error for complete. Then the
    /// connection is cut instead.
    pub cut_after_error: bool,
    /// True if clients wait as long as `retry-after` asks, even for hours. Then long waits are left
    /// out.
    pub obeys_long_waits: bool,
    /// True if clients ask for a WebSocket first, and only 426 makes them send a request at once.
    pub asks_upgrade: bool,
    /// A header in which clients look for a request's id, in addition to `x-request-id`.
    pub id_header: Option<&'static str>,
    /// Returns the body of an error, which is JSON.
    pub body: fn(&CallerError<'_>) -> Vec<u8>,
    /// Returns the end of a stream that has begun and cannot go on.
    pub final_event: fn(&CallerError<'_>) -> Vec<u8>,
}

/// The code of the error for an overloaded provider.
pub const OVERLOADED: &str = "upstream_overloaded";

/// An error in the form for callers.
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
    /// The cause, and the remedy.
    pub message: &'e str,
    /// The request's id.
    pub request_id: &'e str,
    /// The seconds until another try makes sense.
    pub retry_after: Option<u64>,
    /// The part of the answer that the caller has received.
    pub answer: AnswerSoFar<'e>,
}

/// The part of an answer that a caller has received before the answer broke off.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnswerSoFar<'e> {
    /// The answer's id; empty if there is no answer.
    pub id: &'e str,
    /// The number of the answer's events, in formats that count them.
    pub events: u64,
    /// True if some of the answer was written.
    pub has_begun: bool,
    /// The header that every answer shows, if there is an answer.
    pub header: Option<&'e AnswerHeader>,
    /// The part of the request that the answer repeats, if it is known.
    pub echo: Option<&'e Echo>,
}
