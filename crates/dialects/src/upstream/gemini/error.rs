//! This module reads errors: Google's `google.rpc.Status`, and the details that are more precise
//! than the status.

use std::time::Duration;

use serde_json::Value;

use crate::neutral::UpstreamError;
use crate::upstream::openai;
use crate::wire::starts_with_any;
use crate::wire::without_bom;

/// Reads the body of an answer with the status of an error.
pub fn read_error(_status: u16, content_type: Option<&str>, body: &[u8]) -> UpstreamError {
    read_any_error(body, content_type)
}

/// Reads an error in any place: alone, in an array of one, or inside a stream.
pub(super) fn read_any_error(body: &[u8], content_type: Option<&str>) -> UpstreamError {
    let mut error = openai::read_error(body, content_type);
    // Google's code is the status again, in digits.
    error.code = error.code.filter(|code| code.parse::<u16>().is_err());
    let word = error.kind.clone().unwrap_or_default();
    if let Some(class) = class_of(&word) {
        error.status = Some(class);
    }
    match word.as_str() {
        "NOT_FOUND" => error.code = Some("model_not_found".to_owned()),
        "RESOURCE_EXHAUSTED" => error.code = Some("rate_limit_exceeded".to_owned()),
        _ => {}
    }
    Details::read(body).apply(&mut error);
    by_words(&mut error);
    error
}

/// Returns the error of a candidate that ended without content.
pub(super) fn unfinished_answer(word: &str, details: Option<&str>) -> UpstreamError {
    let details = details.map(|text| {
        text.get(..text.floor_char_boundary(MAX_DETAILS))
            .unwrap_or_default()
    });
    UpstreamError {
        status: Some(502),
        code: Some(word.to_ascii_lowercase()),
        message: format!("the model did not finish its answer ({word})"),
        // The details quote the model's text.
        excerpt: details.map(Into::into),
        ..UpstreamError::default()
    }
}

const MAX_DETAILS: usize = 512;
/// The largest body whose details are read. Details come in small bodies, and reading takes ten
/// times a body's size in memory.
const MAX_BODY: usize = 256 * 1024;
/// The longest wait in seconds. No server means a longer one.
const MAX_WAIT: f64 = 7.0 * 86_400.0;

/// Returns the HTTP status for a canonical code.
fn class_of(word: &str) -> Option<u16> {
    Some(match word {
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE" => 400,
        "UNAUTHENTICATED" => 401,
        "PERMISSION_DENIED" => 403,
        // A method that is not implemented will not be there the next time either, so it counts as
        // not found.
        "NOT_FOUND" | "UNIMPLEMENTED" => 404,
        "ABORTED" | "ALREADY_EXISTS" => 409,
        "RESOURCE_EXHAUSTED" => 429,
        // The cancellation is the provider's. If we cancelled, we would get no answer.
        "CANCELLED" | "INTERNAL" | "UNKNOWN" | "DATA_LOSS" => 500,
        "UNAVAILABLE" => 503,
        "DEADLINE_EXCEEDED" => 504,
        _ => return None,
    })
}

/// Corrects an error by its message. A message may quote the request, and a caller's text must not
/// decide anything about our account. So only the beginning of a sentence of Google's counts.
fn by_words(error: &mut UpstreamError) {
    let message = error.message.to_ascii_lowercase();
    let is = |status| error.status == Some(status);
    let is_refused = is(400) || is(403);
    if message.contains("token count")
        && message.contains("exceeds")
        && (is(400) || is(413) || message.starts_with(TOO_LONG))
    {
        error.set(400, "context_length_exceeded");
    } else if is_refused && starts_with_any(&message, &BAD_KEY) {
        error.status = Some(401);
    } else if is(400)
        && (message.starts_with("user location is not supported") || is_foreign_project(&message))
    {
        error.status = Some(403);
    } else if is_refused && starts_with_any(&message, &NO_BILLING) {
        error.status = Some(402);
    }
}

const TOO_LONG: &str = "the input token count";
const BAD_KEY: [&str; 4] = [
    "api key not valid",
    "api key expired",
    "api key not found",
    "your api key was reported as leaked",
];
const NO_BILLING: [&str; 3] = [
    "please enable billing",
    "this api method requires billing to be enabled",
    "gemini api free tier is not available in your country",
];

/// Returns whether a message is "Project `1` is not allowed to use Publisher Model `m`".
fn is_foreign_project(message: &str) -> bool {
    let rest = message
        .strip_prefix("project `")
        .and_then(|rest| rest.split_once('`'));
    rest.is_some_and(|(_, rest)| rest.starts_with(" is not allowed to use "))
}

/// The content of `details`.
#[derive(Debug, Default)]
struct Details {
    /// `google.rpc.ErrorInfo`
    reason: String,
    /// `google.rpc.RetryInfo`
    retry_after: Option<Duration>,
    /// True for a `google.rpc.QuotaFailure` of a quota per day, which comes back the next day.
    per_day: bool,
}

impl Details {
    fn read(body: &[u8]) -> Self {
        let mut details = Self::default();
        let Some(body) = Some(body).filter(|body| body.len() <= MAX_BODY) else {
            return details;
        };
        let body = without_bom(body);
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        let object = value.get(0).unwrap_or(&value);
        let list = object.pointer("/error/details").and_then(Value::as_array);
        for detail in list.into_iter().flatten() {
            let kind = text_in(detail, "@type");
            match kind.rsplit('.').next().unwrap_or_default() {
                "ErrorInfo" => details.reason = text_in(detail, "reason").to_owned(),
                "RetryInfo" => details.retry_after = detail.get("retryDelay").and_then(read_wait),
                "QuotaFailure" => {
                    let violations = detail.get("violations").and_then(Value::as_array);
                    details.per_day |= violations.into_iter().flatten().any(is_daily);
                }
                _ => {}
            }
        }
        details
    }

    fn apply(&self, error: &mut UpstreamError) {
        error.retry_after = self.retry_after.or(error.retry_after);
        match &*self.reason {
            // At Google a bad key has the status 400 (google-gemini/gemini-cli issues 25198, 4690).
            "API_KEY_INVALID" | "API_KEY_EXPIRED" => error.status = Some(401),
            "BILLING_DISABLED" => error.status = Some(402),
            _ => {}
        }
        if self.per_day && error.status == Some(429) {
            // The delay in the details is for the quota per minute.
            error.code = Some("insufficient_quota".to_owned());
            error.retry_after = None;
        }
    }
}

fn text_in<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether a violation is of a quota per day.
fn is_daily(violation: &Value) -> bool {
    let words = ["quotaId", "quotaMetric", "description"].map(|name| text_in(violation, name));
    let words = words.concat().to_ascii_lowercase();
    ["perday", "per_day", "per day"]
        .iter()
        .any(|day| words.contains(day))
}

/// Reads a duration in the forms of JSON: `"37s"`, `"0.5s"`, or its two fields.
fn read_wait(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::String(text) => text.trim().strip_suffix('s')?.parse::<f64>().ok()?,
        Value::Number(number) => number.as_f64()?,
        Value::Object(fields) => {
            number(fields.get("seconds"))? + number(fields.get("nanos"))? / 1e9
        }
        Value::Null | Value::Bool(_) | Value::Array(_) => return None,
    };
    Duration::try_from_secs_f64(seconds.clamp(0.0, MAX_WAIT)).ok()
}

fn number(value: Option<&Value>) -> Option<f64> {
    match value {
        Some(Value::String(digits)) => digits.parse().ok(),
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => Some(0.0),
    }
}

#[cfg(test)]
mod tests;
