//! A [`Refusal`] is a failure that the caller is shown. One table ([`FailureKind::row`]) gives each
//! failure its status, `type`, `code` and outcome.
//!
//! An upstream's words about credentials, accounts or addresses are never part of a refusal: that
//! goes to the access line. The front door writes a refusal in its caller's format.

mod redact;
mod retry;

use std::borrow::Cow;
use std::time::Duration;

use crate::base::cut_keys::cut_keys;
use dialects::front::{AnswerSoFar, CallerError, Front, OVERLOADED};
use dialects::named_enum;
use dialects::neutral::Refused;
pub use redact::{redact_secrets, scrub_secret_words};
pub use retry::{MAX_RETRY_AFTER, Retry, seconds_of};

named_enum! {
    /// The ways in which an exchange can end, as the access line and the metrics name them.
    #[derive(Default)]
    pub enum Outcome {
        /// The exchange was answered in full.
        Ok = "ok",
        /// The request itself was wrong, and was refused.
        Refused = "refused",
        /// There was no valid key.
        Unauthorized = "unauthorized",
        /// A limit of the caller had no room.
        Limited = "limited",
        /// The gateway had no room, or no account that could take the request.
        NoCapacity = "no_capacity",
        /// No target can do what was asked.
        Unsupported = "unsupported",
        /// The upstream failed.
        UpstreamError = "upstream_error",
        /// The upstream was too slow.
        UpstreamTimeout = "upstream_timeout",
        /// The upstream cut an answer that had begun.
        UpstreamCut = "upstream_cut",
        /// The caller left, or stopped reading.
        ClientLeft = "client_left",
        /// The gateway is shutting down.
        Shutdown = "shutdown",
        /// The gateway failed. This is the default: if an exchange ended for no known reason, that
        /// is our fault.
        #[default]
        Internal = "internal",
    }
}

impl Outcome {
    /// Returns whose fault it is, if the exchange failed. `limited` is whose fault it is if no
    /// account could take the request: see [`FailureKind::limited_by`].
    pub const fn blame(self, limited: Blame) -> Option<Blame> {
        match self {
            Outcome::Ok => None,
            Outcome::NoCapacity => Some(limited),
            // What no target can do is asked for in vain.
            Outcome::Refused | Outcome::Unauthorized | Outcome::Limited | Outcome::Unsupported => {
                Some(Blame::Caller)
            }
            // Who leaves does not want the answer. If it had to wait for long, the attempts say so.
            Outcome::ClientLeft => None,
            Outcome::UpstreamError | Outcome::UpstreamTimeout | Outcome::UpstreamCut => {
                Some(Blame::Upstream)
            }
            Outcome::Shutdown | Outcome::Internal => Some(Blame::Ours),
        }
    }
}

/// Whose fault it is that a request failed: who must change something, so that it does not fail
/// again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Blame {
    /// The caller: the request is wrong, has no good key, or is over a limit of the caller.
    Caller,
    /// The provider: it failed, was too slow, or cut its answer.
    Upstream,
    /// The gateway or its operator: it had no room, was shut down, or failed.
    #[default]
    Ours,
    /// Unknown, and probably the provider's: it let the caller wait for much longer than usual, and
    /// the caller left.
    GivenUp,
}

/// The kinds of failures. Each variant has a row in the table of [`FailureKind::row`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureKind {
    /// The path does not exist.
    UnknownUrl,
    /// The path exists, but not with this method.
    MethodNotSupported {
        /// The value of the `allow` header.
        allow: &'static str,
    },
    /// A WebSocket was asked for, or what comes before one.
    NoWebSocket,
    /// There is no key, or it does not work. The caller does not learn which.
    InvalidKey,
    /// There is a token of an issuer, and it is not taken.
    InvalidToken,
    /// The model does not exist, or this key may not use it. The caller does not learn which.
    ModelNotFound,
    /// No price is known for what is asked for, and money is limited.
    PriceUnknown,
    /// The body or the path cannot be read as a request.
    BadRequest {
        /// A more exact code, if there is one.
        code: Option<&'static str>,
    },
    /// No target can do what is asked.
    Unsupported,
    /// No target can count the tokens of a request exactly.
    CountUnsupported,
    /// The body is over the limit.
    TooLarge,
    /// The body is not JSON, or it is compressed in another way than gzip.
    UnsupportedMedia,
    /// The headers are over the limit.
    HeadersTooLarge,
    /// The path with its query is over the limit.
    TargetTooLong,
    /// The body has a transfer encoding that the gateway does not read.
    UnknownCoding,
    /// The body did not come in time.
    BodyTimeout,
    /// A limit of the caller on requests or tokens has no room.
    OverLimit,
    /// A limit of the caller on money has no room.
    OverBudget,
    /// The shared store is down, and the settings admit nothing without it.
    StoreDown,
    /// A token cannot be verified now, or it is not known what its subject has used.
    IdentityDown,
    /// The ledger is off or busy, and was asked for.
    NoLedger,
    /// An account that works has no room, or the memory for requests is full.
    NoCapacity,
    /// No account works: each rests, or its breaker keeps requests away.
    NoHealthyAccount,
    /// All accounts wait for the end of their providers' rate limits.
    AllRateLimited,
    /// The last upstream could not be reached, or refused its credential.
    UpstreamUnavailable,
    /// The last upstream was rate limiting.
    UpstreamRateLimited,
    /// The last upstream has no room now, whoever asks; or all of them are kept from requests for
    /// that.
    UpstreamOverloaded,
    /// The last upstream was too slow.
    UpstreamTimeout,
    /// The last upstream answered, but with nothing that can be passed on.
    BadUpstreamResponse,
    /// An answer that had begun was cut by the upstream.
    UpstreamTruncated,
    /// The upstream says that the request itself is wrong.
    CallersFault {
        /// The upstream's status.
        status: u16,
        /// The upstream's code, if it is one word.
        code: Option<String>,
    },
    /// The caller left. This answer is not sent; the log and the metrics show it.
    CallerLeft,
    /// The gateway is shutting down.
    ShuttingDown,
    /// The gateway failed.
    Internal,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorRow<'a> {
    /// The HTTP status.
    pub status: u16,
    /// `error.type`
    pub kind: &'static str,
    /// `error.code`
    pub code: Option<&'a str>,
    /// The outcome in the access line.
    pub outcome: Outcome,
}

impl FailureKind {
    /// Returns whose fault it is that no account could take the request. For other kinds, the
    /// outcome decides.
    pub const fn limited_by(&self) -> Blame {
        // The gateway has places, but no provider that works.
        let is_without_provider = matches!(
            self,
            FailureKind::NoHealthyAccount | FailureKind::AllRateLimited
        );
        if is_without_provider {
            Blame::Upstream
        } else {
            Blame::Ours
        }
    }

    /// Returns the failure's row of the table.
    pub fn row(&self) -> ErrorRow<'_> {
        use Outcome as O;
        const REQUEST: &str = "invalid_request_error";
        const UPSTREAM: &str = "upstream_error";
        const SERVER: &str = "server_error";
        let (status, kind, code, outcome) = match self {
            FailureKind::UnknownUrl => (404, REQUEST, Some("unknown_url"), O::Refused),
            FailureKind::MethodNotSupported { .. } => {
                (405, REQUEST, Some("method_not_supported"), O::Refused)
            }
            FailureKind::NoWebSocket => (426, REQUEST, Some("upgrade_required"), O::Refused),
            FailureKind::InvalidKey => (401, REQUEST, Some("invalid_api_key"), O::Unauthorized),
            FailureKind::InvalidToken => (401, REQUEST, Some("invalid_token"), O::Unauthorized),
            FailureKind::ModelNotFound => (404, REQUEST, Some("model_not_found"), O::Refused),
            FailureKind::PriceUnknown => (403, REQUEST, Some("price_unknown"), O::Refused),
            FailureKind::BadRequest { code } => (400, REQUEST, *code, O::Refused),
            FailureKind::Unsupported => {
                (400, REQUEST, Some("unsupported_parameter"), O::Unsupported)
            }
            // The front door says which status its clients cope with.
            FailureKind::CountUnsupported => {
                (404, REQUEST, Some("count_unsupported"), O::Unsupported)
            }
            FailureKind::TooLarge => (413, REQUEST, Some("request_too_large"), O::Refused),
            FailureKind::UnsupportedMedia => {
                (415, REQUEST, Some("unsupported_media_type"), O::Refused)
            }
            FailureKind::HeadersTooLarge => (431, REQUEST, Some("headers_too_large"), O::Refused),
            FailureKind::TargetTooLong => (414, REQUEST, Some("target_too_long"), O::Refused),
            FailureKind::UnknownCoding => (
                501,
                REQUEST,
                Some("unsupported_transfer_encoding"),
                O::Refused,
            ),
            FailureKind::BodyTimeout => (408, REQUEST, Some("request_timeout"), O::Refused),
            FailureKind::OverLimit => (
                429,
                "rate_limit_error",
                Some("rate_limit_exceeded"),
                O::Limited,
            ),
            // Both codes are the words that OpenAI's own clients look for.
            FailureKind::OverBudget => (
                429,
                "insufficient_quota",
                Some("insufficient_quota"),
                O::Limited,
            ),
            FailureKind::StoreDown => (503, SERVER, Some("store_unavailable"), O::NoCapacity),
            FailureKind::IdentityDown => (503, SERVER, Some("identity_unavailable"), O::NoCapacity),
            FailureKind::NoLedger => (503, SERVER, Some("ledger_unavailable"), O::NoCapacity),
            FailureKind::NoCapacity => (503, UPSTREAM, Some("no_capacity"), O::NoCapacity),
            FailureKind::NoHealthyAccount => (503, UPSTREAM, Some("no_capacity"), O::NoCapacity),
            FailureKind::AllRateLimited => (429, UPSTREAM, Some("no_capacity"), O::NoCapacity),
            FailureKind::UpstreamUnavailable => (
                503,
                UPSTREAM,
                Some("upstream_unavailable"),
                O::UpstreamError,
            ),
            FailureKind::UpstreamRateLimited => (
                429,
                UPSTREAM,
                Some("upstream_rate_limited"),
                O::UpstreamError,
            ),
            FailureKind::UpstreamOverloaded => (503, UPSTREAM, Some(OVERLOADED), O::UpstreamError),
            FailureKind::UpstreamTimeout => {
                (504, UPSTREAM, Some("upstream_timeout"), O::UpstreamTimeout)
            }
            FailureKind::BadUpstreamResponse => (
                502,
                UPSTREAM,
                Some("bad_upstream_response"),
                O::UpstreamError,
            ),
            FailureKind::UpstreamTruncated => {
                (502, UPSTREAM, Some("upstream_truncated"), O::UpstreamCut)
            }
            FailureKind::CallersFault { status, code } => {
                (*status, REQUEST, code.as_deref(), O::Refused)
            }
            FailureKind::CallerLeft => (499, REQUEST, Some("caller_left"), O::ClientLeft),
            FailureKind::ShuttingDown => (503, SERVER, Some("shutting_down"), O::Shutdown),
            FailureKind::Internal => (500, SERVER, Some("internal_error"), O::Internal),
        };
        ErrorRow {
            status,
            kind,
            code,
            outcome,
        }
    }
}

/// A failure that the caller is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of the failure.
    pub kind: FailureKind,
    /// The text that says what happened and what to do. It has nothing secret.
    pub message: Cow<'static, str>,
    /// The name of the request's field that is wrong.
    pub param: Option<String>,
    /// The use of another try.
    pub retry: Retry,
}

impl Refusal {
    /// Makes a refusal with this message.
    pub fn new(kind: FailureKind, message: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal {
            kind,
            message: message.into(),
            param: None,
            retry: Retry::Helps(None),
        }
    }

    /// Sets the name of the field that is wrong.
    #[must_use]
    pub fn param(mut self, param: impl Into<String>) -> Refusal {
        self.param = Some(param.into());
        self
    }

    /// Sets the seconds until another try makes sense, unless it never does.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Refusal {
        if let Retry::Helps(after) | Retry::Pointless(after) = &mut self.retry {
            *after = Some(seconds.clamp(1, MAX_RETRY_AFTER));
        }
        self
    }

    /// Sets the time until a limit has room again. `None` means never.
    #[must_use]
    pub fn again_in(mut self, wait: Option<Duration>) -> Refusal {
        self.retry = match wait.map(seconds_of) {
            seconds @ Some(..=MAX_RETRY_AFTER) => Retry::Helps(seconds),
            // An SDK would not wait this long, and would not give up either.
            seconds @ Some(_) => Retry::Pointless(seconds),
            None => Retry::Never,
        };
        self
    }

    /// Notes that another try never helps.
    #[must_use]
    pub fn without_retry(mut self) -> Refusal {
        self.retry = Retry::Never;
        self
    }

    /// Takes the number of tries that the gateway has made. Two are enough.
    #[must_use]
    pub fn after_tries(self, tries: usize) -> Refusal {
        if tries < 2 { self } else { self.pointless() }
    }

    /// Asks clients not to try again.
    #[must_use]
    pub fn pointless(mut self) -> Refusal {
        if let Retry::Helps(seconds) = self.retry {
            self.retry = Retry::Pointless(seconds);
        }
        self
    }

    /// Writes the refusal as its caller's format has it, as JSON.
    pub fn body(&self, front: &Front, request_id: &str) -> Vec<u8> {
        (front.errors.body)(&self.caller_error(front, request_id, AnswerSoFar::default()))
    }

    /// Writes the refusal as the end of a stream that cannot go on. `answer` says what was written
    /// of it.
    pub fn event(&self, front: &Front, request_id: &str, answer: AnswerSoFar<'_>) -> Vec<u8> {
        let caller_error = self.caller_error(front, request_id, answer);
        // The status of the answer has left: this one says only what happened.
        (front.errors.final_event)(&CallerError {
            status: self.kind.row().status,
            ..caller_error
        })
    }

    /// Returns whether an upstream that took the request has failed.
    fn is_of_upstream(&self) -> bool {
        matches!(
            self.kind,
            FailureKind::BadUpstreamResponse | FailureKind::UpstreamTimeout
        )
    }

    /// Returns whether clients of a front door count such refusals, and ask another model after
    /// some.
    fn is_counted(&self, front: &Front) -> bool {
        self.kind == FailureKind::UpstreamOverloaded && front.errors.overloaded_status.is_some()
    }

    /// Returns the status for callers of a front door.
    pub fn status(&self, front: &Front) -> u16 {
        let counting = front
            .counting
            .as_ref()
            .filter(|_| self.kind == FailureKind::CountUnsupported);
        match self.kind.row().status {
            _ if self.kind == FailureKind::UpstreamOverloaded => front
                .errors
                .overloaded_status
                .unwrap_or(front.errors.unavailable_status),
            503 if matches!(self.retry, Retry::Pointless(None) | Retry::Never) => {
                front.errors.hopeless_status
            }
            503 => front.errors.unavailable_status,
            status if self.is_of_upstream() => front.errors.failed_status.unwrap_or(status),
            status => counting.map_or(status, |form| form.uncountable_status),
        }
    }

    /// Returns the seconds until another try makes sense, for callers of a front door.
    fn retry_seconds(&self, front: &Front) -> Option<u64> {
        // Without a time, these clients would not try again.
        let soon = self.retry != Retry::Never
            && self.is_of_upstream()
            && front.errors.failed_status.is_some();
        self.retry.seconds().or(soon.then_some(1))
    }

    /// Returns the headers of the refusal for callers of a front door, besides those of every
    /// answer.
    pub fn headers(&self, front: &Front) -> Vec<(&'static str, Cow<'static, str>)> {
        let allow = if let FailureKind::MethodNotSupported { allow } = self.kind {
            Some(allow)
        } else {
            None
        };
        let challenge = if self.kind == FailureKind::InvalidKey {
            Some("Bearer")
        } else if self.kind == FailureKind::InvalidToken {
            Some("Bearer error=\"invalid_token\"")
        } else {
            None
        };
        let wait = self
            .retry_seconds(front)
            .filter(|seconds| *seconds <= MAX_RETRY_AFTER || !front.errors.obeys_long_waits);
        let headers = [
            ("allow", allow.map(Cow::Borrowed)),
            ("www-authenticate", challenge.map(Cow::Borrowed)),
            (
                "retry-after",
                wait.map(|seconds| seconds.to_string().into()),
            ),
            (
                "x-should-retry",
                (!matches!(self.retry, Retry::Helps(_)) && !self.is_counted(front))
                    .then_some("false".into()),
            ),
        ];
        headers
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    fn caller_error<'r>(
        &'r self,
        front: &Front,
        request_id: &'r str,
        answer: AnswerSoFar<'r>,
    ) -> CallerError<'r> {
        let row = self.kind.row();
        CallerError {
            status: self.status(front),
            kind: row.kind,
            code: row.code,
            param: self.param.as_deref(),
            message: &self.message,
            request_id,
            retry_after: self.retry_seconds(front),
            answer,
        }
    }

    /// Makes the refusal for failures that only the operator can end. It does not say whose
    /// credential is wrong, or why.
    pub fn for_the_operator(kind: FailureKind) -> Refusal {
        let message = "No upstream account of this model can be used until the gateway's operator fixes \
                       it. Trying again does not help: give the operator the request id.";
        Refusal::new(kind, message).without_retry()
    }

    /// Makes the refusal for every key that does not work. It does not say why the key does not
    /// work.
    pub fn invalid_key() -> Refusal {
        Refusal::new(
            FailureKind::InvalidKey,
            "The request has no valid API key. Send a key that is enabled, not expired and \
             allowed from your address, as `Authorization: Bearer <key>`.",
        )
        .without_retry()
    }

    /// Makes the refusal for a request that no account of the model can take.
    pub fn unable(refused: Refused, model: &str) -> Refusal {
        match refused {
            Refused::Invalid(complaint) => Refusal::new(
                FailureKind::BadRequest {
                    code: Some("invalid_value"),
                },
                complaint.message,
            )
            .param(complaint.param),
            Refused::Unsupported(complaint) => {
                let model = shown_model(model);
                let message = format!(
                    "No upstream account of the model `{model}` can do this: {}",
                    complaint.message
                );
                Refusal::new(FailureKind::Unsupported, message).param(complaint.param)
            }
        }
    }

    /// Makes the refusal for a model that is unknown or forbidden.
    pub fn model_not_found(model: &str) -> Refusal {
        let model = shown_model(model);
        Refusal::new(
            FailureKind::ModelNotFound,
            format!(
                "The model `{model}` does not exist, or this key may not use it. GET /v1/models lists the models of this key."
            ),
        )
        .param("model")
    }

    /// Makes the refusal for a request to a kind of endpoint that no account of the model serves.
    pub fn not_served(model: &str, kind: &str) -> Refusal {
        let model = shown_model(model);
        let message = format!(
            "The model `{model}` cannot be asked here: none of its accounts serves the kind of endpoint `{kind}`."
        );
        Refusal::new(
            FailureKind::BadRequest {
                code: Some("unsupported_endpoint"),
            },
            message,
        )
        .param("model")
    }

    /// Makes the refusal for a request whose cost would be unknown, while money is limited.
    pub fn price_unknown(model: &str, kind: &str) -> Refusal {
        let model = shown_model(model);
        let message = format!(
            "The money of this key is limited, and no price of the model `{model}` is known for the kind of endpoint \
             `{kind}`, so the request was not sent. The gateway's operator can write a `price`."
        );
        Refusal::new(FailureKind::PriceUnknown, message)
            .param("model")
            .without_retry()
    }

    /// Makes the refusal for a request that providers have no room for now.
    pub fn overloaded() -> Refusal {
        let message = "The provider is overloaded: it has no room for requests at the moment. Try again shortly.";
        Refusal::new(FailureKind::UpstreamOverloaded, message).retry_after(1)
    }

    /// Makes the refusal for a request when the memory for requests is full.
    pub fn no_room() -> Refusal {
        Refusal::new(
            FailureKind::NoCapacity,
            "The gateway has no memory left for this request, or this caller's part of the memory is used up. Try again shortly.",
        )
        .retry_after(1)
    }

    /// Makes the refusal for a request when the process may open no other connection.
    pub fn no_descriptors() -> Refusal {
        let message = "The gateway itself has no room for another connection to a provider. Try again shortly.";
        Refusal::new(FailureKind::NoCapacity, message).retry_after(1)
    }
}

/// Returns the name that a caller wrote for a model, as texts show it.
fn shown_model(model: &str) -> String {
    cut_keys(model).chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_clamped() {
        assert_eq!(
            Refusal::new(FailureKind::NoCapacity, "")
                .retry_after(1_000_000_000)
                .retry,
            Retry::Helps(Some(60))
        );
        assert_eq!(
            Refusal::new(FailureKind::NoCapacity, "")
                .retry_after(0)
                .retry,
            Retry::Helps(Some(1))
        );
    }

    #[test]
    fn where_only_operators_help_clients_need_not_wait() {
        let refusal = Refusal::new(FailureKind::NoCapacity, "")
            .retry_after(9)
            .without_retry();
        assert_eq!(refusal.retry, Retry::Never);
        assert_eq!(refusal.retry_after(9).after_tries(2).retry, Retry::Never);
        let refusal = Refusal::for_the_operator(FailureKind::UpstreamUnavailable);
        assert_eq!(refusal.retry, Retry::Never);
        assert!(refusal.message.contains("operator") && !refusal.message.contains("key"));
    }

    #[test]
    fn each_door_says_that_nobody_can_be_asked() {
        use dialects::front::{CHAT, GEMINI, MESSAGES, RESPONSES};
        let later = Refusal::new(FailureKind::NoCapacity, "").retry_after(9);
        let tried = later.clone().after_tries(2);
        let never = Refusal::for_the_operator(FailureKind::UpstreamUnavailable);
        let other = Refusal::new(FailureKind::UpstreamTimeout, "").without_retry();
        for (front, expected) in [
            (&CHAT, [503, 503, 503, 504]),
            (&MESSAGES, [503, 503, 503, 504]),
            (&RESPONSES, [429, 429, 429, 429]),
            (&GEMINI, [503, 503, 400, 504]),
        ] {
            assert_eq!(
                [&later, &tried, &never, &other].map(|refusal| refusal.status(front)),
                expected,
                "{front:?}"
            );
        }
        let full = Refusal::overloaded();
        assert_eq!(
            [&CHAT, &MESSAGES, &RESPONSES, &GEMINI].map(|front| full.status(front)),
            [503, 529, 429, 503]
        );
        let tried = full.after_tries(2);
        let stops = |front: &Front| {
            tried
                .headers(front)
                .iter()
                .any(|(name, _)| *name == "x-should-retry")
        };
        assert!(
            stops(&CHAT) && !stops(&MESSAGES),
            "its clients count these, and then ask another model"
        );
        let down = Refusal::new(FailureKind::StoreDown, "").retry_after(1);
        let failed = Refusal::new(FailureKind::BadUpstreamResponse, "");
        assert_eq!(
            [&down, &failed].map(|refusal| refusal.status(&RESPONSES)),
            [429, 429]
        );
        let waits = |refusal: &Refusal, front: &Front| {
            refusal
                .headers(front)
                .into_iter()
                .find(|(name, _)| *name == "retry-after")
                .map(|(_, value)| value)
        };
        assert_eq!(
            waits(&failed, &RESPONSES).as_deref(),
            Some("1"),
            "without a time, its clients give up"
        );
        assert_eq!(
            (waits(&failed, &CHAT), waits(&other, &RESPONSES)),
            (None, None)
        );
    }

    #[test]
    fn long_waits_are_not_told_to_retry_at_once() {
        let told = |wait: Option<Duration>| {
            Refusal::new(FailureKind::OverLimit, "")
                .again_in(wait)
                .retry
        };
        assert_eq!(told(Some(Duration::ZERO)), Retry::Helps(Some(1)));
        assert_eq!(
            told(Some(Duration::from_millis(59_001))),
            Retry::Helps(Some(60))
        );
        assert_eq!(
            told(Some(Duration::from_millis(60_001))),
            Retry::Pointless(Some(61))
        );
        assert_eq!(told(None), Retry::Never);
    }

    #[test]
    fn scrub_takes_keys_out_and_leaves_words() {
        let check = |input: &str, expected: &str| {
            assert_eq!(scrub_secret_words(input, &["s3cr3t"]), expected)
        };
        check("the key s3cr3t is bad", "the key [redacted] is bad");
        check(
            "Incorrect API key provided: sk-proj-abc123def456.",
            "Incorrect API key provided: [redacted]",
        );
        check(
            "maximum context length is 4096 tokens (messages)",
            "maximum context length is 4096 tokens (messages)",
        );
        check(
            "token AbCdEfGhIjKlMnOpQrStUvWxYz0123456789 x",
            "token [redacted] x",
        );
        check(
            "`response_format` of type `json_schema`",
            "`response_format` of type `json_schema`",
        );
    }
}
