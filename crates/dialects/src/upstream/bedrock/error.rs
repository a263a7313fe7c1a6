//! This module reads Bedrock's errors. In an answer an error has a status; in a stream it is a
//! frame of another type.
//!
//! A status stands for a class of errors, and the name in `x-amzn-errortype` for a single error. At
//! Bedrock a bad signature has the status 403, and a model that was cut off has 424. A model that
//! the account must not use has 400, 403 or 404.

use serde::Deserialize;

use crate::neutral::{StreamFault, UpstreamError};
use crate::upstream::openai;
use crate::wire::starts_with_any;

/// Reads an answer with the status of an error. `errortype` is the header `x-amzn-errortype`.
pub fn read_error(
    status: u16,
    errortype: Option<&str>,
    content_type: Option<&str>,
    body: &[u8],
) -> UpstreamError {
    let reported: ErrorBody = serde_json::from_slice(body).unwrap_or_default();
    let name = errortype.and_then(bare_name).or_else(|| reported.name());
    let mut error = openai::read_error(body, content_type);
    reported.fill_message(&mut error);
    classify_error(name.unwrap_or_default(), Some(status), &mut error);
    error
}

/// Reads the error that a stream ends with: `exception/throttlingException`, `error/500`. Other
/// events are no errors.
pub(super) fn event_error(name: &[u8], data: &[u8]) -> Option<StreamFault> {
    let name = str::from_utf8(name).unwrap_or_default();
    let (kind, name) = name.split_once('/')?;
    if !matches!(kind, "exception" | "error") {
        return None;
    }
    let reported: ErrorBody = serde_json::from_slice(data).unwrap_or_default();
    let mut error = openai::read_error(data, None);
    // In a stream, the event's name says what failed: the excerpt of an unknown body is dropped. In
    // an answer it is kept.
    error.excerpt = None;
    reported.fill_message(&mut error);
    let is_status = name.len() == 3 && name.bytes().all(|byte| byte.is_ascii_digit());
    classify_error(
        bare_name(name)
            .or(is_status.then_some(name))
            .unwrap_or_default(),
        None,
        &mut error,
    );
    error.status = error.status.or(Some(502));
    Some(StreamFault::Upstream(error))
}

/// Reads the error in a body that should be an answer.
pub(super) fn hidden_error(body: &[u8]) -> Option<UpstreamError> {
    let reported: ErrorBody = serde_json::from_slice(body).ok()?;
    let is_error = reported.message.is_some() || reported.name().is_some();
    is_error.then(|| read_error(502, None, None, body))
}

/// Returns the error of an answer in which the model broke its own format.
pub(super) fn malformed_answer(reason: &str) -> UpstreamError {
    UpstreamError {
        status: Some(502),
        ..openai::unfinished_answer(reason)
    }
}

/// The fields of an error's body that OpenAI's errors do not have.
#[derive(Deserialize, Default)]
#[serde(default)]
struct ErrorBody {
    message: Option<String>,
    #[serde(rename = "Message")]
    capital_message: Option<String>,
    #[serde(rename = "originalMessage")]
    original_message: Option<String>,
    #[serde(rename = "__type")]
    kind: Option<String>,
    /// The front end's answer to an unknown path: `{"Output":{"__type":"…"}}`.
    #[serde(rename = "Output")]
    output: Option<Output>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Output {
    #[serde(rename = "__type")]
    kind: Option<String>,
}

impl ErrorBody {
    fn name(&self) -> Option<&str> {
        let output = self
            .output
            .as_ref()
            .and_then(|output| output.kind.as_deref());
        self.kind.as_deref().or(output).and_then(bare_name)
    }

    /// Adds the message, if it is not in the field that OpenAI has.
    fn fill_message(&self, error: &mut UpstreamError) {
        if self.message.as_deref().unwrap_or_default().is_empty()
            && let Some(message) = self
                .capital_message
                .as_deref()
                .or(self.original_message.as_deref())
                .filter(|message| !message.is_empty())
        {
            error.message = message
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .take(MAX_MESSAGE)
                .collect();
            error.excerpt = None;
        }
    }
}

/// The longest message of an upstream that is kept, in characters.
const MAX_MESSAGE: usize = 1024;

/// Returns the name alone, out of `ValidationException:http://…` or
/// `com.amazon.coral.validate#ValidationException`. The name is shown to callers. So a name is
/// returned only if it is known, or looks like the name of an error.
fn bare_name(name: &str) -> Option<&str> {
    let name = name.rsplit_once('#').map_or(name, |(_, name)| name);
    let end = name
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(name.len());
    let name = name.get(..end).filter(|name| name.len() <= 64)?;
    let is_error = ["Exception", "Error", "Fault", "Denied"]
        .iter()
        .any(|end| name.ends_with(end));
    (is_error || status_of_name(name).is_some()).then_some(name)
}

/// Sets the status and the code of an error. In streams the names begin with a small letter. A
/// message may quote the request, and a caller's text must not decide anything about our account.
/// So only the beginning of a sentence of Amazon's counts.
fn classify_error(name: &str, status: Option<u16>, error: &mut UpstreamError) {
    let is_named = |known: &str| name.eq_ignore_ascii_case(known);
    if !name.is_empty() {
        error.kind = Some(name.to_owned());
    }
    let message = &error.message;
    let named_status = status_of_name(name);
    error.status = if is_too_long(
        message,
        is_named("ValidationException") || matches!(status, Some(400 | 413)),
    ) {
        error.code = Some("context_length_exceeded".to_owned());
        Some(400)
    } else if error.is_filtered() || is_filtered(message) {
        error.code = Some("content_filter".to_owned());
        Some(400)
    } else if named_status == Some(401)
        || (status == Some(403) && starts_with_any(message, &BAD_CREDENTIAL))
    {
        Some(401)
    } else if is_named("AccessDeniedException")
        && message.starts_with("Model access is denied due to INVALID_PAYMENT_INSTRUMENT")
    {
        Some(402)
    } else if is_named("ValidationException") && starts_with_any(message, &NOT_PERMITTED) {
        Some(403)
    } else if is_named("ValidationException") && is_unknown_model(message) {
        Some(404)
    } else {
        named_status.or(match status {
            Some(424) => Some(502),
            Some(408) => Some(504),
            _ if is_named("ModelTimeoutException") => Some(504),
            _ => error.status,
        })
    };
}

/// Returns the status that a name stands for.
fn status_of_name(name: &str) -> Option<u16> {
    STATUSES
        .iter()
        .find(|(known, _)| name.eq_ignore_ascii_case(known))
        .map(|(_, status)| *status)
}

/// The status of each error. The status 401 means that a signature or a key is not valid, or no
/// longer valid.
const STATUSES: [(&str, u16); 23] = [
    ("ValidationException", 400),
    ("UnrecognizedClientException", 401),
    ("InvalidSignatureException", 401),
    ("ExpiredTokenException", 401),
    ("ExpiredToken", 401),
    ("InvalidClientTokenId", 401),
    ("IncompleteSignature", 401),
    ("IncompleteSignatureException", 401),
    ("MissingAuthenticationToken", 401),
    ("MissingAuthenticationTokenException", 401),
    ("RequestExpired", 401),
    ("AccessDeniedException", 403),
    ("ResourceNotFoundException", 404),
    ("UnknownOperationException", 404),
    ("ThrottlingException", 429),
    ("TooManyRequestsException", 429),
    ("ServiceQuotaExceededException", 429),
    ("InternalServerException", 500),
    ("InternalFailure", 500),
    ("ModelErrorException", 502),
    ("ModelStreamErrorException", 502),
    ("ModelNotReadyException", 503),
    ("ServiceUnavailableException", 503),
];

/// Returns whether the prompt is too long. In a refusal the words may stand anywhere, because the
/// caller is at fault in any case.
fn is_too_long(message: &str, is_refused: bool) -> bool {
    let makers_own_words = makers_words(message);
    TOO_LONG.iter().any(|words| {
        if is_refused {
            message.contains(words)
        } else {
            makers_own_words.starts_with(words)
        }
    })
}

/// Returns whether the maker of the model, or Amazon, blocked the prompt or the answer.
fn is_filtered(message: &str) -> bool {
    FILTERED
        .iter()
        .any(|sentence| makers_words(message).starts_with(sentence))
}

/// Returns the words of the model's maker, if the message passes them on.
fn makers_words(message: &str) -> &str {
    message
        .strip_prefix("The model returned the following errors: ")
        .unwrap_or(message)
}

/// Returns whether a refusal is about the model's id. No model has this id, or the message is
/// "Invocation of model ID x with on-demand throughput isn’t supported."
fn is_unknown_model(message: &str) -> bool {
    let rest = message
        .strip_prefix("Invocation of model ID ")
        .and_then(|rest| rest.split_once(' '));
    message.starts_with("The provided model identifier is invalid")
        || rest.is_some_and(|(_, rest)| rest.starts_with("with on-demand throughput"))
}

/// The messages about a prompt that is too long, from the front end and from the models of several
/// makers.
const TOO_LONG: [&str; 7] = [
    "Input is too long",
    "prompt is too long",
    "exceed context limit",
    "Input Tokens Exceeded",
    "Too many input tokens",
    "maximum context length",
    "exceeds the maximum number of input tokens",
];

/// The messages of Claude and of Nova about filtered content.
const FILTERED: [&str; 2] = [
    "Output blocked by content filtering policy",
    "This request has been blocked by our content filters",
];

/// The beginnings of refusals that are about the account, not about the request.
const NOT_PERMITTED: [&str; 2] = ["Your account is not authorized", "Operation not allowed"];

/// The beginnings of a 403's message that are about the credential, whatever the error's name is.
const BAD_CREDENTIAL: [&str; 9] = [
    "Authentication failed",
    "API Key",
    "API key",
    "Invalid API Key",
    "Bearer Token",
    "The security token included in the request",
    "The request signature we calculated does not match",
    "Signature expired",
    "Signature not yet current",
];

#[cfg(test)]
mod tests;
