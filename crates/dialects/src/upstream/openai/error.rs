//! This module reads errors in every form that servers send.
//!
//! **Invariant:** reading never fails, and its result is bounded. The texts are the upstream's own;
//! they must be scrubbed before they are shown.

use std::time::Duration;

use serde_json::{Map, Value};

use super::finish::{self, Finish};
use crate::neutral::{NO_REASON, UpstreamError};
use crate::upstream::quirks::Quirks;
use crate::wire::starts_with_any;
use crate::wire::without_bom;

/// The largest body in which an error is looked for. Errors are small, and reading takes ten times
/// a body's size in memory.
const MAX_SEARCHED_BODY: usize = 256 * 1024;
/// The longest message of an upstream that is kept. Some messages quote the whole request.
const MAX_MESSAGE: usize = 1024;
/// The longest type, code, or name of a field.
const MAX_WORD: usize = 128;
/// The longest excerpt, for a log, of a body in an unknown form.
const MAX_EXCERPT: usize = 512;
/// The longest wait in seconds: a day.
const MAX_WAIT: f64 = 86_400.0;

/// The names that servers give to the text of an error.
const MESSAGE_NAMES: [&str; 6] = [
    "message",
    "detail",
    "msg",
    "error_message",
    "title",
    "statusText",
];

/// Reads an answer with the status of an error. The server's quirks may change the status.
pub fn read_refusal(
    quirks: &Quirks,
    status: u16,
    body: &[u8],
    content_type: Option<&str>,
) -> UpstreamError {
    let error = read_error(body, content_type);
    let meant = Some(quirks.status(status)).filter(|meant| *meant != status);
    UpstreamError {
        status: meant.or(error.status),
        ..error
    }
}

/// Reads the body of an answer with the status of an error.
pub fn read_error(body: &[u8], content_type: Option<&str>) -> UpstreamError {
    if let Some(object) = read_object(body) {
        let error = error_from_object(&object);
        return if error.message == NO_REASON {
            error.with_excerpt(body)
        } else {
            error
        };
    }
    let is_html = content_type.is_some_and(|value| value.to_ascii_lowercase().contains("html"));
    let message = match body.trim_ascii() {
        [] => NO_REASON,
        text if is_html || text.starts_with(b"<") => "the upstream answered with a web page",
        _ => "the upstream's reason is not in a known format",
    };
    UpstreamError {
        message: message.to_owned(),
        ..UpstreamError::default()
    }
    .with_excerpt(body)
}

/// Finds the error in a body or an event that was sent as an answer. A long body is not searched.
pub(crate) fn find_error(json: &[u8]) -> Option<UpstreamError> {
    let object = read_object(Some(json).filter(|json| json.len() <= MAX_SEARCHED_BODY)?)?;
    if object.get("error").is_some_and(reports_error) {
        return Some(error_from_object(&object));
    }
    if let Some(error) = object
        .get("x_groq")
        .and_then(|groq| inner_error(groq.get("error")?))
    {
        return Some(error);
    }
    let Some(choices) = object.get("choices").and_then(Value::as_array) else {
        return is_flat_error(&object).then(|| error_from_object(&object));
    };
    choices.iter().find_map(|choice| {
        choice.get("error").and_then(inner_error).or_else(|| {
            match finish::finish_from_word(choice.get("finish_reason")?.as_str()?) {
                Finish::Failed(word) => Some(unfinished_answer(word)),
                Finish::Missing | Finish::Ended(_) | Finish::EndedBy(_) => None,
            }
        })
    })
}

/// Reads the value of an `error` member inside another object.
fn inner_error(error: &Value) -> Option<UpstreamError> {
    reports_error(error)
        .then(|| error_from_object(&Map::from_iter([("error".to_owned(), error.clone())])))
}

/// Returns the error for a finish reason such as `error` or `abort`, if the upstream gives no
/// further reason.
pub(crate) fn unfinished_answer(word: &str) -> UpstreamError {
    UpstreamError {
        code: Some(word.to_owned()),
        message: format!("the upstream did not finish the answer (`{word}`)"),
        ..UpstreamError::default()
    }
}

/// Returns an error without any details.
pub(super) fn without_reason() -> UpstreamError {
    UpstreamError {
        message: NO_REASON.to_owned(),
        ..UpstreamError::default()
    }
}

/// Returns the object in a body. Gemini's errors come as an array of one.
fn read_object(body: &[u8]) -> Option<Map<String, Value>> {
    let body = without_bom(body);
    let mut value: Value = serde_json::from_slice(body).ok()?;
    if let Value::Array(list) = value {
        value = list.into_iter().next()?;
    }
    if let Value::Object(object) = value {
        Some(object)
    } else {
        None
    }
}

/// Returns whether an `error` member reports an error. Many servers always send the member, with
/// the value `null`.
fn reports_error(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
    }
}

/// Returns whether an object without `choices` is an error whose fields are at the top.
fn is_flat_error(object: &Map<String, Value>) -> bool {
    let text = |name| object.get(name).and_then(Value::as_str).unwrap_or_default();
    text("object") == "error"
        || text("type") == "error"
        || !text("message").is_empty()
        || !text("error_type").is_empty()
        || object.get("detail").is_some_and(reports_error)
        || own_status(object).is_some()
}

/// Reads the error in an object: in its member `error`, and then in the object itself.
fn error_from_object(object: &Map<String, Value>) -> UpstreamError {
    let nothing = Map::new();
    let (inner, text) = match object.get("error") {
        Some(Value::Object(inner)) => (inner, None),
        other => (&nothing, other.filter(|other| reports_error(other))),
    };
    let places = [inner, object];
    let message = text
        .and_then(find_text)
        .or_else(|| {
            places.iter().find_map(|place| {
                MESSAGE_NAMES
                    .iter()
                    .find_map(|name| find_text(place.get(*name)?))
            })
        })
        .unwrap_or_else(|| NO_REASON.to_owned());
    let kind = first_word(&places, &["type", "error_type"])
        .filter(|kind| kind != "error")
        // Gemini's status is a word.
        .or_else(|| {
            first_word(&places, &["status"]).filter(|status| status.parse::<u16>().is_err())
        });
    let mut error = UpstreamError {
        status: places.iter().find_map(|place| own_status(place)),
        kind,
        code: first_word(&places, &["code"]),
        param: first_word(&places, &["param"]).map(String::into_boxed_str),
        field: None,
        retry_after: read_wait(&message),
        message,
        excerpt: None,
    };
    correct_error(&mut error, inner, object);
    error
}

/// Corrects the status and the code of errors that servers report in their own way.
fn correct_error(
    error: &mut UpstreamError,
    inner: &Map<String, Value>,
    object: &Map<String, Value>,
) {
    if error.kind.as_deref() == Some("exceed_context_size_error") || is_too_long(&error.message) {
        // Some servers answer 422, or even 403 (seen at TGI and Together).
        error.set(400, "context_length_exceeded");
    } else if error.is_filtered() {
        error.status = Some(400);
    } else if has_filter_marks(error, inner, object) {
        error.set(400, "content_filter");
    } else if error.message.starts_with("Incorrect API key") {
        // xAI answers 400, as if the caller were at fault.
        error.status = Some(401);
    } else if error.message.contains("Missing scopes: ") {
        // OpenAI answers 401 also if the key is good, and only may not do this.
        error.set(403, "missing_scopes");
    }
}

/// Returns whether the message means, in a server's own words, that the prompt is too long for the
/// model.
fn is_too_long(message: &str) -> bool {
    const WORDS: [&str; 5] = [
        // OpenAI, vLLM, DeepSeek, Mistral, Fireworks, OpenRouter
        "maximum context length",
        // xAI
        "maximum prompt length",
        // llama.cpp
        "exceeds the available context size",
        // SGLang
        "longer than the model's context length",
        // TGI, Together
        "`inputs` tokens + `max_new_tokens` must be",
    ];
    WORDS.iter().any(|words| message.contains(words))
}

/// Returns whether an error means that a filter stopped the prompt or the answer, though its code
/// is not OpenAI's. Some servers use 403 for this, but it is not the account that is refused.
fn has_filter_marks(
    error: &UpstreamError,
    inner: &Map<String, Value>,
    object: &Map<String, Value>,
) -> bool {
    // Moonshot and Alibaba: as the type or the code.
    const WORDS: [&str; 4] = [
        "content_filter",
        "content_policy_violation",
        "data_inspection_failed",
        "DataInspectionFailed",
    ];
    // Only the beginning of a message counts. A later part may be a quotation.
    const SENTENCES: [&str; 5] = [
        // OpenAI
        "Invalid prompt: your prompt was flagged",
        // Azure, if a proxy between us lost the code.
        "The response was filtered due to the prompt triggering",
        // xAI, with 403.
        "Content violates usage guidelines",
        // DeepSeek
        "Content Exists Risk",
        // Anthropic
        "Output blocked by content filtering policy",
    ];
    let is_word = |word: &Option<String>| word.as_deref().is_some_and(|word| WORDS.contains(&word));
    // OpenRouter's moderation, with 403.
    let metadata = inner.get("metadata");
    let is_flagged = metadata.is_some_and(|metadata| metadata.get("flagged_input").is_some());
    // Zhipu, with a number as the code.
    let has_levels = object.get("contentFilter").is_some_and(Value::is_array);
    is_word(&error.kind)
        || is_word(&error.code)
        || is_flagged
        || has_levels
        || starts_with_any(&error.message, &SENTENCES)
}

/// Reads the time to wait from a message: "Please retry after 6 seconds.", "Please try again in
/// 1m2.5s."
fn read_wait(message: &str) -> Option<Duration> {
    let (_, mut rest) = ["retry after ", "try again in "]
        .iter()
        .find_map(|words| message.split_once(words))?;
    let mut seconds = None;
    while let Some(end) = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .filter(|end| *end > 0)
    {
        let (number, unit) = rest.split_at_checked(end)?;
        let letters = unit.trim_start();
        let scale = if letters.starts_with("ms") || letters.starts_with("milli") {
            0.001
        } else if letters.starts_with('s') {
            1.0
        } else if letters.starts_with('m') {
            60.0
        } else if letters.starts_with('h') {
            3600.0
        } else {
            break;
        };
        // The point of a sentence's end is no number, and the next sentence may begin with a unit.
        let Ok(number) = number.parse::<f64>() else {
            break;
        };
        seconds = Some(seconds.unwrap_or(0.0) + number * scale);
        rest = letters.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    }
    Duration::try_from_secs_f64(seconds?.min(MAX_WAIT)).ok()
}

/// Finds the text in a value of any form.
fn find_text(value: &Value) -> Option<String> {
    let text = match value {
        Value::Null | Value::Bool(_) => return None,
        Value::String(text) => text.clone(),
        // FastAPI: [{"loc":["body","stop"],"msg":"…","type":"…"}]
        Value::Array(list) => list
            .iter()
            .filter_map(entry_text)
            .collect::<Vec<_>>()
            .join("; "),
        Value::Object(object) => match ["message", "detail", "msg"]
            .iter()
            .find_map(|name| find_text(object.get(*name)?))
        {
            Some(text) => text,
            None => value.to_string(),
        },
        Value::Number(number) => number.to_string(),
    };
    (!text.is_empty()).then(|| shorten_text(&text, MAX_MESSAGE))
}

/// Writes one entry of a list of errors, with the place that it names: `body.stop: …`.
fn entry_text(entry: &Value) -> Option<String> {
    let text = find_text(entry)?;
    let Some(location) = entry.get("loc").and_then(Value::as_array) else {
        return Some(text);
    };
    let location: Vec<_> = location
        .iter()
        .map(|step| {
            step.as_str()
                .map_or_else(|| step.to_string(), str::to_owned)
        })
        .collect();
    Some(format!("{}: {text}", location.join(".")))
}

/// Returns the first text or number under these names. Those of the first object count first.
fn first_word(objects: &[&Map<String, Value>], names: &[&str]) -> Option<String> {
    objects.iter().find_map(|object| {
        names.iter().find_map(|name| match object.get(*name)? {
            Value::String(word) if !word.is_empty() => Some(shorten_text(word, MAX_WORD)),
            Value::Number(number) => Some(number.to_string()),
            Value::Null
            | Value::Bool(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        })
    })
}

/// Returns the HTTP status that an error names in its body, as a number or as digits.
fn own_status(object: &Map<String, Value>) -> Option<u16> {
    [
        "status_code",
        "http_status_code",
        "statusCode",
        "status",
        "code",
    ]
    .iter()
    .find_map(|name| {
        let status = match object.get(*name)? {
            Value::Number(number) => u16::try_from(number.as_u64()?).ok()?,
            Value::String(digits) => digits.parse().ok()?,
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
        };
        (400..600).contains(&status).then_some(status)
    })
}

/// Returns the start of a text as one line. It has at most `limit` bytes, and an ellipsis if the
/// text was longer.
fn shorten_text(text: &str, limit: usize) -> String {
    let end = text.floor_char_boundary(limit);
    let kept = text.get(..end).unwrap_or_default();
    let mut line: String = kept
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if end < text.len() {
        line.push('…');
    }
    line
}

impl UpstreamError {
    /// Sets the status and the code.
    pub(crate) fn set(&mut self, status: u16, code: &str) {
        (self.status, self.code) = (Some(status), Some(code.to_owned()));
    }

    fn with_excerpt(mut self, body: &[u8]) -> Self {
        let body = body.trim_ascii();
        let head = body.get(..MAX_EXCERPT * 2).unwrap_or(body);
        self.excerpt = (!body.is_empty())
            .then(|| shorten_text(&String::from_utf8_lossy(head), MAX_EXCERPT).into());
        self
    }
}

#[cfg(test)]
mod tests;
