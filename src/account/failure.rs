//! A [`Failure`] says how an attempt failed. One table gives each failure its class, and the class
//! decides what is done next and what the caller gets.
//!
//! Pure: no clock, no sockets. An upstream's 401, 402, 403 or 404 is never shown as such, since it
//! is about our account and not about the caller.

use crate::error::{FailureKind, Refusal, scrub_secret_words, seconds_of};
use dialects::{AnswerFault, StreamFault, UpstreamError};
use std::borrow::Cow;
use std::time::Duration;

/// A failure of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The host has no address, or the connection was refused.
    Unreachable(String),
    /// Nothing answered within `connect`.
    ConnectTimeout,
    /// The certificate was not believed, or the handshake failed.
    Tls {
        /// The reason, in words.
        why: String,
        /// True if nothing changes by itself: the reason is a certificate, or what the server
        /// speaks.
        is_permanent: bool,
    },
    /// The account's proxy gave no connection to the account's server.
    Proxy {
        /// The reason, in words.
        why: String,
        /// True if nothing changes by itself: the proxy refuses the gateway, or this server.
        is_permanent: bool,
    },
    /// The connection ended before the first byte of an answer.
    Reset,
    /// The request was never looked at: a reused connection ended very soon, or the upstream says
    /// so.
    Stale,
    /// The upstream stopped reading our request.
    SendTimeout,
    /// No head came within `first_byte`.
    FirstByteTimeout,
    /// No event that counts as an answer came within `first_token`.
    FirstTokenTimeout,
    /// A stream was silent for `idle`.
    IdleTimeout,
    /// The time `total` is over.
    TotalTimeout,
    /// No credential could be made for the request.
    Unsigned(String),
    /// The gateway itself may hold no more in memory.
    NoRoom,
    /// The gateway itself has no file descriptor for another connection.
    NoDescriptors,
    /// The answer could not be understood.
    Nonsense(String),
    /// This many calls of tools have arguments that cannot be parsed, and the catalog says that
    /// this is no answer.
    BrokenCall(u32),
    /// The stream ended before its end mark.
    Cut,
    /// The answer has another status than 200.
    Status {
        /// The meant status: the one that came, unless the body has another one.
        status: u16,
        /// The status that came.
        seen: u16,
        /// The error that the body describes.
        error: Box<UpstreamError>,
        /// The time after which to retry, from the upstream.
        retry_after: Option<Duration>,
    },
    /// An answer of status 200 has an error object inside.
    InAnswer(Box<UpstreamError>),
}

/// The step after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// Another candidate is asked.
    AnotherTarget,
    /// A candidate of a larger model is tried, if the catalog names one.
    LargerModel,
    /// A candidate of a model that may answer is tried, if the catalog names one.
    RefusalFallback,
    /// No other attempt follows, and the caller gets the error.
    Stop,
}

/// The classes of failures, which decide the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The request is wrong: another account would refuse it, too.
    Caller,
    /// Our account's credential failed, or its money is gone.
    Credential,
    /// The account does not serve the model.
    Refused,
    /// There were too many requests of ours.
    Rate,
    /// The provider has no room now, for any of its callers.
    Overloaded,
    /// The failure may pass by itself.
    Transient,
    /// The fault is ours, and not the upstream's.
    Ours,
}

/// A row of the table: the facts that follow from a failure.
pub struct Facts<'f> {
    /// The word in the access line's `attempts`.
    pub name: &'static str,
    /// The class, which decides the next step.
    pub class: Class,
    /// The upstream's status, if there was one.
    pub status: Option<u16>,
    /// True if the upstream may charge for it though it has counted nothing: the whole request was
    /// sent, and the upstream did not refuse it.
    pub maybe_billed: bool,
    reason: Reason<'f>,
}

impl<'f> Facts<'f> {
    /// Makes the row of a failure without an answer: the refusal is in our words, and the provider
    /// charges nothing.
    fn not_billed(name: &'static str, class: Class, refusal: Refusal) -> Facts<'f> {
        Facts {
            name,
            class,
            status: None,
            maybe_billed: false,
            reason: Reason::Ours(refusal),
        }
    }

    /// Makes the same row, but the provider may charge for the request.
    fn maybe_billed(name: &'static str, class: Class, refusal: Refusal) -> Facts<'f> {
        let facts = Facts::not_billed(name, class, refusal);
        Facts {
            maybe_billed: true,
            ..facts
        }
    }

    fn with_status(self, status: u16) -> Facts<'f> {
        Facts {
            status: Some(status),
            ..self
        }
    }

    /// Writes how the attempt ended, for the log: `HTTP 500`, `rate_limited (HTTP 429)`, or
    /// `unreachable` if there was no answer.
    pub fn outcome_text(&self) -> Cow<'static, str> {
        match (self.name, self.status) {
            (name, None) => name.into(),
            ("status", Some(status)) => format!("HTTP {status}").into(),
            (name, Some(status)) => format!("{name} (HTTP {status})").into(),
        }
    }
}

/// The source of the caller's message.
enum Reason<'f> {
    /// A refusal in our words.
    Ours(Refusal),
    /// The upstream's error, and the status that it meant.
    Upstream(Option<u16>, &'f UpstreamError),
}

/// The consequences of a failure for the target that was tried.
#[derive(Debug, Clone, Copy)]
pub struct Setback {
    /// The failure's class.
    pub class: Class,
    /// The time after which to retry, from the upstream.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// Returns the failure's row of the table.
    pub fn facts(&self) -> Facts<'_> {
        use Class::{Credential, Ours, Transient};
        use FailureKind::{
            BadUpstreamResponse as Bad, UpstreamTimeout as Late, UpstreamTruncated,
            UpstreamUnavailable,
        };
        let (free, billed) = (Facts::not_billed, Facts::maybe_billed);
        // If a connection is refused or not routed, no server was there. Only a server that took
        // the request can be too slow with it.
        let refuse = |code, text| Refusal::new(code, text);
        match self {
            Failure::Unreachable(_) => free("unreachable", Transient, no_server()),
            Failure::ConnectTimeout => free("connect_timeout", Transient, no_server()),
            Failure::Tls {
                is_permanent: false,
                ..
            } => free("tls", Transient, refuse(Bad, INSECURE)),
            Failure::Tls {
                is_permanent: true, ..
            } => free("tls", Transient, refuse(Bad, INSECURE).without_retry()),
            Failure::Proxy {
                is_permanent: false,
                ..
            } => free("proxy", Transient, no_server()),
            Failure::Proxy {
                is_permanent: true, ..
            } => free(
                "proxy",
                Transient,
                Refusal::for_the_operator(UpstreamUnavailable),
            ),
            Failure::Reset => billed("reset", Transient, refuse(Bad, CLOSED)),
            Failure::Stale => free("stale", Transient, refuse(Bad, CLOSED)),
            Failure::SendTimeout => free("send_timeout", Transient, refuse(Late, NOT_READ)),
            Failure::FirstByteTimeout => {
                billed("first_byte_timeout", Transient, refuse(Late, NOT_BEGUN))
            }
            Failure::FirstTokenTimeout => {
                billed("first_token_timeout", Transient, refuse(Late, NOT_BEGUN))
            }
            Failure::IdleTimeout => billed("idle_timeout", Transient, refuse(Late, SILENT)),
            Failure::TotalTimeout => billed("total_timeout", Transient, refuse(Late, NOT_FINISHED)),
            Failure::Unsigned(_) => free(
                "credential",
                Credential,
                Refusal::for_the_operator(UpstreamUnavailable),
            ),
            Failure::NoRoom => billed("no_room", Ours, Refusal::no_room()).with_status(200),
            Failure::NoDescriptors => free("no_descriptors", Ours, Refusal::no_descriptors()),
            Failure::Nonsense(_) => {
                billed("nonsense", Transient, refuse(Bad, NONSENSE)).with_status(200)
            }
            Failure::BrokenCall(_) => {
                billed("broken_call", Transient, refuse(Bad, BROKEN_CALL)).with_status(200)
            }
            Failure::Cut => {
                billed("cut", Transient, refuse(UpstreamTruncated, CUT)).with_status(200)
            }
            Failure::Status {
                status,
                seen,
                error,
                ..
            } => {
                let class = class_of(*status, error);
                let name = match class {
                    Class::Caller => "callers_fault",
                    Class::Credential => "credential",
                    Class::Refused => "refused",
                    Class::Rate => "rate_limited",
                    Class::Overloaded => OVERLOADED,
                    Class::Transient | Class::Ours => "status",
                };
                let reason = Reason::Upstream(Some(*status), error);
                Facts {
                    name,
                    class,
                    status: Some(*seen),
                    maybe_billed: false,
                    reason,
                }
            }
            Failure::InAnswer(error) => {
                let class = class_of(error.status.unwrap_or(502), error);
                let name = if class == Class::Overloaded {
                    OVERLOADED
                } else {
                    "error_in_answer"
                };
                let reason = Reason::Upstream(error.status, error);
                Facts {
                    name,
                    class,
                    status: Some(200),
                    maybe_billed: false,
                    reason,
                }
            }
        }
    }

    /// Returns what is done next. A stale connection is the attempt's own business, which tries
    /// once more on a fresh one.
    pub fn next_step(&self) -> NextStep {
        match (self, self.class()) {
            // There is no time left, or no room.
            (Failure::TotalTimeout, _) | (_, Class::Ours) => NextStep::Stop,
            (_, Class::Caller) if self.error().is_some_and(|error| has_code(error, TOO_LONG)) => {
                NextStep::LargerModel
            }
            (_, Class::Caller) if self.error().is_some_and(UpstreamError::is_filtered) => {
                NextStep::RefusalFallback
            }
            (_, Class::Caller) => NextStep::Stop,
            (
                _,
                Class::Credential
                | Class::Refused
                | Class::Rate
                | Class::Overloaded
                | Class::Transient,
            ) => NextStep::AnotherTarget,
        }
    }

    /// Returns whether the upstream refuses only the thoughts of an earlier answer.
    pub fn refuses_thoughts(&self) -> bool {
        self.class() == Class::Caller && self.error().is_some_and(UpstreamError::refuses_thoughts)
    }

    /// Returns the upstream's error, if it sent one.
    pub fn error(&self) -> Option<&UpstreamError> {
        if let Failure::Status { error, .. } | Failure::InAnswer(error) = self {
            Some(error)
        } else {
            None
        }
    }

    /// Returns the failure's class.
    pub fn class(&self) -> Class {
        self.facts().class
    }

    /// Returns the word in the access line's `attempts`.
    pub fn name(&self) -> &'static str {
        self.facts().name
    }

    /// Returns the time after which to retry, from the upstream.
    pub fn retry_after(&self) -> Option<Duration> {
        if let Failure::Status { retry_after, .. } = self {
            *retry_after
        } else {
            self.error()?.retry_after
        }
    }

    /// Returns the detail that only the log gets. It never has an upstream's own sentences, which
    /// may quote the prompt.
    pub fn detail(&self) -> Option<Cow<'_, str>> {
        if let Failure::Unreachable(detail)
        | Failure::Tls { why: detail, .. }
        | Failure::Proxy { why: detail, .. }
        | Failure::Nonsense(detail)
        | Failure::Unsigned(detail) = self
        {
            return Some(detail.into());
        }
        let error = self.error()?;
        let (kind, code, param) = (
            error.kind.as_deref(),
            error.code.as_deref(),
            error.param.as_deref(),
        );
        let words = [("type", kind), ("code", code), ("param", param)];
        // Only single words are logged, since some servers put sentences there.
        let shown_fields: Vec<String> = words
            .iter()
            .filter_map(|(name, word)| Some(format!("{name}={}", word.filter(|w| is_word(w))?)))
            .collect();
        (!shown_fields.is_empty()).then(|| shown_fields.join(" ").into())
    }

    /// Returns the failure of a request that, as the upstream said, was not looked at on a new
    /// connection either.
    pub fn unread_on_new_connection() -> Failure {
        Failure::Unreachable("it did not read the request, not even on a new connection".to_owned())
    }

    /// Returns the failure of a request that is not sent again on a new connection.
    pub fn after_last_try(self) -> Failure {
        if self == Failure::Stale {
            Failure::unread_on_new_connection()
        } else {
            self
        }
    }

    /// Returns the refusal for the caller when this was the last attempt. `tries` is the number of
    /// attempts; `secrets` must not appear in the text.
    pub fn refusal(&self, tries: usize, secrets: &[&str]) -> Refusal {
        let mut refusal = match self.facts().reason {
            Reason::Ours(refusal) => refusal,
            Reason::Upstream(status, error) => by_class(status, error, secrets),
        };
        if self.is_long_rate_limit() {
            refusal = refusal.pointless();
        }
        if let (Class::Overloaded, Some(wait)) = (self.class(), self.retry_after()) {
            refusal = refusal.retry_after(seconds_of(wait));
        }
        refusal.after_tries(tries)
    }

    /// Returns whether this is a rate limit that lasts longer than any client waits, such as a
    /// limit by the day.
    pub fn is_long_rate_limit(&self) -> bool {
        self.class() == Class::Rate && self.retry_after().is_some_and(|wait| wait > MAX_COOL)
    }
}

impl From<AnswerFault> for Failure {
    fn from(fault: AnswerFault) -> Failure {
        match fault {
            AnswerFault::Upstream(error) => Failure::InAnswer(error.into()),
            AnswerFault::Nonsense(why) => Failure::Nonsense(why.to_owned()),
        }
    }
}

impl From<StreamFault> for Failure {
    fn from(fault: StreamFault) -> Failure {
        match fault {
            StreamFault::Upstream(error) => Failure::InAnswer(error.into()),
            StreamFault::Broken(why) => Failure::Nonsense(why.to_owned()),
            StreamFault::Cut => Failure::Cut,
        }
    }
}

/// Returns the refusal if no server was there.
fn no_server() -> Refusal {
    Refusal::new(FailureKind::UpstreamUnavailable, UNREACHABLE_MESSAGE).retry_after(UNREACHABLE)
}

/// Returns whether a text is a single word, such as the name of an error.
fn is_word(text: &str) -> bool {
    text.len() <= 64
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_.-[]".contains(&b))
}

// The messages for the caller.
const UNREACHABLE_MESSAGE: &str = "The upstream could not be reached. Try again later.";
const INSECURE: &str = "A secure connection to the upstream could not be made. Ask the gateway's operator, with the request id.";
const CLOSED: &str = "The upstream closed the connection without an answer. Try again.";
const NOT_READ: &str = "The upstream stopped reading the request. Try again later.";
const NOT_BEGUN: &str =
    "The upstream did not begin to answer in time. Try again, or send a smaller request.";
const SILENT: &str = "The upstream stopped sending before its answer was complete. Try again.";
const NOT_FINISHED: &str =
    "The upstream did not finish its answer in time. Try again, or send a smaller request.";
const NONSENSE: &str = "The upstream's answer could not be understood. Try again, or ask the gateway's operator, with the request id.";
const BROKEN_CALL: &str =
    "The upstream's answer calls a tool with arguments that are not a JSON object. Try again.";
const CUT: &str = "The upstream ended the answer before it was complete. What was received is not the whole answer.";

/// The code of a request that is too long for the model.
const TOO_LONG: &str = "context_length_exceeded";

fn has_code(error: &UpstreamError, word: &str) -> bool {
    error.code.as_deref() == Some(word) || error.kind.as_deref() == Some(word)
}

fn class_of(status: u16, error: &UpstreamError) -> Class {
    if has_code(error, "insufficient_quota") {
        return Class::Credential;
    }
    // These two count whatever the status is, also without a status inside an answer.
    if has_code(error, TOO_LONG) || error.is_filtered() {
        return Class::Caller;
    }
    if error.is_overloaded(status) {
        return Class::Overloaded;
    }
    match status {
        400 | 413 | 422 => Class::Caller,
        401 | 402 => Class::Credential,
        429 => Class::Rate,
        408 | 409 | 425 => Class::Transient,
        // The error names a part of the request that is missing or cannot be taken: this is not
        // about the account.
        404 | 415 | 451
            if error
                .param
                .as_deref()
                .is_some_and(|param| !param.is_empty() && param != "model") =>
        {
            Class::Caller
        }
        300..=499 => Class::Refused,
        _ => Class::Transient,
    }
}

fn by_class(status: Option<u16>, error: &UpstreamError, secrets: &[&str]) -> Refusal {
    match class_of(status.unwrap_or(502), error) {
        Class::Caller => {
            let status = status
                .filter(|s| matches!(s, 400 | 413 | 422))
                .unwrap_or(400);
            let code = error
                .code
                .as_ref()
                .filter(|c| c.len() <= 64 && !c.is_empty())
                .map(|c| scrub_secret_words(c, secrets));
            let mut refusal = Refusal::new(
                FailureKind::CallersFault { status, code },
                scrub_secret_words(&error.message, secrets),
            );
            refusal.param = error
                .param
                .clone()
                .filter(|p| p.len() <= 128)
                .map(|p| scrub_secret_words(&p, secrets));
            refusal
        }
        Class::Credential => Refusal::for_the_operator(FailureKind::UpstreamUnavailable),
        Class::Refused => Refusal::new(
            FailureKind::BadUpstreamResponse,
            "The upstream account does not serve this model. Ask the gateway's operator, with the request id.",
        ),
        Class::Rate => Refusal::new(
            FailureKind::UpstreamRateLimited,
            "The upstream refused the request because of its rate limit. Try again later.",
        )
        .retry_after(5),
        Class::Overloaded => Refusal::overloaded(),
        Class::Transient | Class::Ours => {
            let status = status.map_or_else(String::new, |status| format!(" (HTTP {status})"));
            Refusal::new(
                FailureKind::BadUpstreamResponse,
                format!("The upstream failed{status}. Try again later."),
            )
        }
    }
}

/// The seconds after which a server that could not be reached may be tried again: a restart needs
/// some.
pub const UNREACHABLE: u64 = 5;
/// The names of the failures to which [`UNREACHABLE`] applies.
pub const OUT_OF_REACH: [&str; 3] = ["unreachable", "connect_timeout", "proxy"];
/// The name of the failures of an overloaded provider.
pub const OVERLOADED: &str = "overloaded";
/// The rest of an account after a failure of class `credential`, and the longest rest after `rate`.
pub const MAX_COOL: Duration = Duration::from_secs(60);
/// The rest of a target after [`REFUSALS_IN_A_ROW`].
pub const REFUSED_COOL: Duration = Duration::from_secs(30);
/// The number of refusals in a row that make a target rest. One 404 may be a slip of the provider;
/// three in a row are an answer.
pub const REFUSALS_IN_A_ROW: u32 = 3;
/// The rest after a 429 that names no time.
const RATE_COOL: Duration = Duration::from_secs(5);

/// Returns the time for which a target that is overloaded stands behind the others: the time that
/// the upstream names, within bounds. It does not rest: if no other is left, it is asked.
pub fn overloaded_for(retry_after: Option<Duration>) -> Duration {
    rate_cool(retry_after)
}

/// Returns the rest after a 429: the time that the upstream names, within bounds.
pub fn rate_cool(retry_after: Option<Duration>) -> Duration {
    retry_after
        .unwrap_or(RATE_COOL)
        .clamp(Duration::from_secs(1), MAX_COOL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Retry;

    fn status(status: u16, code: &str) -> Failure {
        let error = UpstreamError {
            code: (!code.is_empty()).then(|| code.to_owned()),
            message: "it said s3cret".into(),
            ..UpstreamError::default()
        };
        Failure::Status {
            status,
            seen: status,
            error: Box::new(error),
            retry_after: None,
        }
    }

    #[test]
    fn the_table() {
        let check = |failure: Failure, class: Class, shown: u16, code: Option<&str>| {
            assert_eq!(failure.class(), class, "{failure:?}");
            let refusal = failure.refusal(1, &["s3cret"]);
            let row = refusal.kind.row();
            assert_eq!((row.status, row.code), (shown, code), "{failure:?}");
            assert!(!refusal.message.contains("s3cret"));
        };
        check(status(400, ""), Class::Caller, 400, None);
        check(
            status(400, "context_length_exceeded"),
            Class::Caller,
            400,
            Some("context_length_exceeded"),
        );
        check(
            status(500, "context_length_exceeded"),
            Class::Caller,
            400,
            Some("context_length_exceeded"),
        );
        check(status(413, ""), Class::Caller, 413, None);
        check(status(422, ""), Class::Caller, 422, None);
        check(
            status(401, ""),
            Class::Credential,
            503,
            Some("upstream_unavailable"),
        );
        check(
            status(402, ""),
            Class::Credential,
            503,
            Some("upstream_unavailable"),
        );
        check(
            status(429, "insufficient_quota"),
            Class::Credential,
            503,
            Some("upstream_unavailable"),
        );
        check(
            status(403, ""),
            Class::Refused,
            502,
            Some("bad_upstream_response"),
        );
        check(
            status(404, ""),
            Class::Refused,
            502,
            Some("bad_upstream_response"),
        );
        check(
            status(302, ""),
            Class::Refused,
            502,
            Some("bad_upstream_response"),
        );
        check(
            status(429, ""),
            Class::Rate,
            429,
            Some("upstream_rate_limited"),
        );
        check(
            status(529, ""),
            Class::Overloaded,
            503,
            Some("upstream_overloaded"),
        );
        check(
            status(429, "engine_overloaded_error"),
            Class::Overloaded,
            503,
            Some("upstream_overloaded"),
        );
        check(
            status(500, ""),
            Class::Transient,
            502,
            Some("bad_upstream_response"),
        );
        check(
            status(503, ""),
            Class::Transient,
            502,
            Some("bad_upstream_response"),
        );
        check(
            Failure::Unreachable(String::new()),
            Class::Transient,
            503,
            Some("upstream_unavailable"),
        );
        check(
            Failure::ConnectTimeout,
            Class::Transient,
            503,
            Some("upstream_unavailable"),
        );
        for lasts in [false, true] {
            let failure = Failure::Proxy {
                why: String::new(),
                is_permanent: lasts,
            };
            check(failure, Class::Transient, 503, Some("upstream_unavailable"));
        }
        check(
            Failure::FirstByteTimeout,
            Class::Transient,
            504,
            Some("upstream_timeout"),
        );
        check(
            Failure::Tls {
                why: String::new(),
                is_permanent: false,
            },
            Class::Transient,
            502,
            Some("bad_upstream_response"),
        );
        check(
            Failure::Reset,
            Class::Transient,
            502,
            Some("bad_upstream_response"),
        );
        check(
            Failure::Nonsense(String::new()),
            Class::Transient,
            502,
            Some("bad_upstream_response"),
        );
        check(
            Failure::NoDescriptors,
            Class::Ours,
            503,
            Some("no_capacity"),
        );
        check(
            Failure::FirstTokenTimeout,
            Class::Transient,
            504,
            Some("upstream_timeout"),
        );
    }

    #[test]
    fn who_is_asked_next() {
        let check =
            |failure: Failure, then: NextStep| assert_eq!(failure.next_step(), then, "{failure:?}");
        for kind in [401, 402, 403, 404, 302, 408, 409, 429, 500, 502, 503, 529] {
            check(status(kind, ""), NextStep::AnotherTarget);
        }
        for kind in [400, 413, 422] {
            check(status(kind, ""), NextStep::Stop);
        }
        check(status(429, "insufficient_quota"), NextStep::AnotherTarget);
        check(
            status(400, "context_length_exceeded"),
            NextStep::LargerModel,
        );
        check(
            status(413, "context_length_exceeded"),
            NextStep::LargerModel,
        );
        check(status(400, "content_filter"), NextStep::RefusalFallback);
        check(
            status(400, "content_policy_violation"),
            NextStep::RefusalFallback,
        );
        check(Failure::TotalTimeout, NextStep::Stop);
        check(Failure::NoRoom, NextStep::Stop);
        check(Failure::NoDescriptors, NextStep::Stop);
        for failure in [
            Failure::Unreachable(String::new()),
            Failure::ConnectTimeout,
            Failure::Tls {
                why: String::new(),
                is_permanent: false,
            },
            Failure::Proxy {
                why: String::new(),
                is_permanent: false,
            },
            Failure::Proxy {
                why: String::new(),
                is_permanent: true,
            },
            Failure::Reset,
            Failure::Stale,
            Failure::SendTimeout,
            Failure::FirstByteTimeout,
            Failure::FirstTokenTimeout,
            Failure::IdleTimeout,
            Failure::Unsigned(String::new()),
            Failure::Nonsense(String::new()),
            Failure::Cut,
        ] {
            check(failure, NextStep::AnotherTarget);
        }
    }

    #[test]
    fn an_error_inside_a_200_is_classed_itself() {
        let error = |status| {
            Failure::InAnswer(Box::new(UpstreamError {
                status,
                ..UpstreamError::default()
            }))
        };
        assert_eq!(error(Some(429)).class(), Class::Rate);
        assert_eq!(error(Some(400)).class(), Class::Caller);
        assert_eq!(error(None).class(), Class::Transient);
        assert_eq!(
            (error(Some(529)).class(), error(Some(529)).name()),
            (Class::Overloaded, OVERLOADED)
        );
        let refused = UpstreamError {
            code: Some("content_filter".into()),
            ..UpstreamError::default()
        };
        assert_eq!(
            Failure::InAnswer(Box::new(refused)).next_step(),
            NextStep::RefusalFallback
        );
    }

    #[test]
    fn who_may_try_again_and_when() {
        let check = |failure: Failure, retry: Retry| {
            assert_eq!(failure.refusal(1, &[]).retry, retry, "{failure:?}");
        };
        // Nothing changes by itself.
        check(status(401, ""), Retry::Never);
        check(status(402, ""), Retry::Never);
        check(status(429, "insufficient_quota"), Retry::Never);
        check(Failure::Unsigned(String::new()), Retry::Never);
        check(
            Failure::Tls {
                why: String::new(),
                is_permanent: true,
            },
            Retry::Never,
        );
        check(
            Failure::Proxy {
                why: String::new(),
                is_permanent: true,
            },
            Retry::Never,
        );
        // A server that starts again is back soon.
        check(Failure::Unreachable(String::new()), Retry::Helps(Some(5)));
        check(Failure::ConnectTimeout, Retry::Helps(Some(5)));
        check(
            Failure::Proxy {
                why: String::new(),
                is_permanent: false,
            },
            Retry::Helps(Some(5)),
        );
        check(status(429, ""), Retry::Helps(Some(5)));
        check(status(529, ""), Retry::Helps(Some(1)));
        check(Failure::NoRoom, Retry::Helps(Some(1)));
        check(Failure::NoDescriptors, Retry::Helps(Some(1)));
        let limited = |wait: u64| {
            let retry_after = Some(Duration::from_secs(wait));
            Failure::Status {
                status: 429,
                seen: 429,
                error: Box::default(),
                retry_after,
            }
        };
        check(limited(60), Retry::Helps(Some(5)));
        // No client waits for an hour, and after a minute it would be refused again.
        check(limited(3600), Retry::Pointless(Some(5)));
        // What may pass at once is left to the client's own pace. One 404 may be a slip.
        for kind in [403, 404, 500, 503] {
            check(status(kind, ""), Retry::Helps(None));
        }
        for failure in [
            Failure::Reset,
            Failure::FirstByteTimeout,
            Failure::TotalTimeout,
            Failure::Nonsense(String::new()),
        ] {
            check(failure, Retry::Helps(None));
        }
    }

    #[test]
    fn the_log_names_a_status_where_one_came() {
        for (failure, expected) in [
            (status(500, ""), "HTTP 500"),
            (status(429, ""), "rate_limited (HTTP 429)"),
            (Failure::Unreachable(String::new()), "unreachable"),
        ] {
            assert_eq!(failure.facts().outcome_text(), expected);
        }
    }

    #[test]
    fn two_tries_of_ours_are_enough() {
        let retry = |tries| Failure::Reset.refusal(tries, &[]).retry;
        assert_eq!(
            (retry(1), retry(2)),
            (Retry::Helps(None), Retry::Pointless(None))
        );
    }

    #[test]
    fn waits_are_clamped() {
        let check = |said: Option<u64>, secs| {
            assert_eq!(rate_cool(said.map(Duration::from_secs)).as_secs(), secs)
        };
        check(None, 5);
        check(Some(0), 1);
        check(Some(7), 7);
        check(Some(1_000_000_000), 60);
    }
}
