//! Azure OpenAI: OpenAI's format at addresses of its own, with a version in them that decides what
//! may be asked for.
//!
//! Requests and answers are [`openai`]'s affair. What the content filter adds to answers passes;
//! the chunk without choices that it begins a stream with does not, since no client expects one.

use super::openai;
use super::protocol::{BaseUrl, Prices, Protocol};
use super::quirks::Rule::{Cannot, Format, Omit};
use super::quirks::{FieldRule, Formats, MAX_TOKENS, Quirks};
use crate::neutral::UpstreamError;
use crate::wire::percent::segment;

/// Azure OpenAI. Its servers know a version's fields only, and deployments have names of their own.
pub static PROTOCOL: Protocol = Protocol {
    name: "azure",
    about: "Azure OpenAI. `key` is sent as `api-key`, or as a bearer with `auth: bearer`.",
    base_url: BaseUrl::Own,
    path: |settings, model, _| path(settings.version.as_deref(), model).into(),
    model_in_path: |settings| settings.version.is_some(),
    key_header: Some("api-key"),
    key_variable: Some("AZURE_OPENAI_API_KEY"),
    prices: |_| Prices::Unlisted,
    error: |_, head, body| error(head.status, body, head.content_type),
    quirks_of_version: Some(quirks),
    ..Protocol::COMMON
};

/// Returns what follows `https://{resource}.openai.azure.com`. Without a version it is the newer
/// API, which takes the deployment's name as model.
pub fn path(api_version: Option<&str>, model: &str) -> String {
    match api_version {
        None => "/openai/v1/chat/completions".to_owned(),
        // `preview`: a version of the newer API.
        Some(version) if date(version).is_none() => {
            format!("/openai/v1/chat/completions?api-version={}", segment(version))
        }
        Some(version) => {
            format!("/openai/deployments/{}/chat/completions?api-version={}", segment(model), segment(version))
        }
    }
}

/// Returns what a version does not know yet. Its server answers 400 to it, where a loss does less
/// harm.
pub fn quirks(api_version: Option<&str>) -> &'static Quirks {
    let Some(date) = api_version.and_then(date) else { return &Quirks::NONE };
    VERSIONS.iter().find(|(until, _)| date < *until).map_or(&Quirks::NONE, |(_, quirks)| quirks)
}

/// Reads an answer whose status says that it is an error.
pub fn error(status: u16, body: &[u8], content_type: Option<&str>) -> UpstreamError {
    let error = openai::refusal(&Quirks::NONE, status, body, content_type);
    // The deployment is of another kind of model, or the version is none: not the caller's fault,
    // though the status is 400.
    let is_ours = error.code.as_deref() == Some("OperationNotSupported")
        || error.message.starts_with("API version not supported");
    UpstreamError { status: if is_ours { Some(404) } else { error.status }, ..error }
}

/// Until when, that day aside, versions have which quirks; the oldest first.
const VERSIONS: &[(&str, Quirks)] = &[
    (
        "2024-08-01",
        Quirks {
            name: "azure before 2024-08-01",
            fields: &[
                MAX_TOKENS,
                NEW_OMITTED,
                NEW_REFUSED,
                (&["parallel_tool_calls"], Omit),
                (&["response_format"], Format(Formats::NoSchema)),
            ],
            stream_options: false,
            ..BEFORE_REASONING
        },
    ),
    (
        "2024-09-01",
        Quirks {
            name: "azure before 2024-09-01",
            fields: &[MAX_TOKENS, NEW_OMITTED, NEW_REFUSED, (&["parallel_tool_calls"], Omit)],
            stream_options: false,
            ..BEFORE_REASONING
        },
    ),
    // 2024-10-21, the last version that is no preview, is among these.
    ("2024-12-01", BEFORE_REASONING),
];

const BEFORE_REASONING: Quirks = Quirks {
    name: "azure before 2024-12-01",
    fields: &[NEW_OMITTED, NEW_REFUSED],
    developer_is_system: true,
    ..Quirks::NONE
};

/// What came with 2024-12-01-preview or later: fields without which the answer is of use, and
/// others.
const NEW_OMITTED: FieldRule = (
    &[
        "metadata",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning_effort",
        "safety_identifier",
        "service_tier",
        "store",
        "verbosity",
    ],
    Omit,
);
const NEW_REFUSED: FieldRule = (&["audio", "modalities", "web_search_options"], Cannot);

/// Returns the date that a version begins with: dates compare as text.
fn date(version: &str) -> Option<&str> {
    let date = version.get(..10)?;
    let is_date = date
        .bytes()
        .enumerate()
        .all(|(at, byte)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() });
    is_date.then_some(date)
}

#[cfg(test)]
mod tests;
