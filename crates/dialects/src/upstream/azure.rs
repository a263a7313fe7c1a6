//! Azure OpenAI: OpenAI's format at other addresses. A version in the address decides which fields
//! may be used.
//!
//! [`openai`] handles the requests and answers. The content filter's additions to answers are
//! passed on. But a stream begins with a chunk of the filter that has no choices. This chunk is
//! removed, because no client expects it.

use super::protocol::{
    AccountField, BaseUrl, DialectFacts, ENDPOINTS, Endpoints, Litellm, Prices, Protocol, SignsWith,
};
use super::quirks::Rule::{Cannot, Format, Omit};
use super::quirks::{FieldRule, Formats, MAX_TOKENS, Quirks};
use super::servers::{HostPattern::Ends, known_server};
use super::{endpoint_protocols, openai};
use crate::neutral::{Endpoint, Servers, UpstreamError};
use crate::wire::percent::encode_segment;

const FACTS: DialectFacts = DialectFacts {
    name: "azure",
    about: "Azure OpenAI. `key` is sent as `api-key`, or as a bearer with `auth: bearer`.",
    provider: "azure.ai.openai",
    servers: &[
        known_server(Ends(".openai.azure.com"), &[""]).with_key("AZURE_OPENAI_API_KEY"),
        known_server(Ends(".services.ai.azure.com"), &[""]).with_key("AZURE_OPENAI_API_KEY"),
        known_server(Ends(".cognitiveservices.azure.com"), &[""]).with_key("AZURE_OPENAI_API_KEY"),
    ],
    own_fields: &[
        AccountField::ApiVersion,
        AccountField::Auth,
        AccountField::Identity,
    ],
    litellm: Litellm {
        names: &["azure"],
        keys: &["AZURE_API_KEY", "AZURE_OPENAI_API_KEY"],
        bases: &["AZURE_API_BASE"],
    },
    base_url: BaseUrl::Own,
    key_header: Some("api-key"),
    prices: |_| Prices::Unlisted,
    translation: None,
    error: |_, head, body| read_error(head.status, body, head.content_type),
};

/// Azure OpenAI. A server knows only the fields of its version, and deployments have their own
/// names.
pub static PROTOCOL: Protocol = Protocol {
    path: |endpoint, settings, model, _| {
        chat_path(endpoint, settings.version.as_deref(), model).into()
    },
    model_in_path: |settings| settings.version.is_some(),
    endpoints: Endpoints {
        protocols: &PROTOCOLS,
        default_endpoints: |settings, _| match settings.version.as_deref().and_then(version_date) {
            None => &KINDS,
            Some(_) => &OLDER,
        },
        ..ENDPOINTS
    },
    key_variable: Some("AZURE_OPENAI_API_KEY"),
    quirks_of_version: Some(version_quirks),
    traits: openai::model_traits,
    signs_with: SignsWith::Entra,
    ..Protocol::common(FACTS)
};

static PROTOCOLS: [Protocol; Servers::Azure.count()] = endpoint_protocols(&PROTOCOL, &KINDS);
static KINDS: [Endpoint; Servers::Azure.count()] = Servers::Azure.kinds();
static OLDER: [Endpoint; Servers::DatedAzure.count()] = Servers::DatedAzure.kinds();

/// Returns the path and query of an endpoint after `https://{resource}.openai.azure.com`. Without a
/// version it is the newer API, which takes the deployment's name as the model.
pub fn chat_path(endpoint: Endpoint, api_version: Option<&str>, model: &str) -> String {
    let path = endpoint.path();
    let Some(version) = api_version else {
        return format!("/openai/v1{path}");
    };
    let (model, query) = (encode_segment(model), encode_segment(version));
    // `preview`: a version of the newer API.
    let begin = if version_date(version).is_none() {
        "/openai/v1".to_owned()
    } else if endpoint.is_at(Servers::DatedAzure) {
        format!("/openai/deployments/{model}")
    } else {
        "/openai".to_owned()
    };
    format!("{begin}{path}?api-version={query}")
}

/// Returns the quirks of a version: the fields that it does not know yet. The server would answer
/// 400 to them, and a loss does less harm.
pub fn version_quirks(api_version: Option<&str>) -> &'static Quirks {
    let Some(date) = api_version.and_then(version_date) else {
        return &Quirks::NONE;
    };
    VERSIONS
        .iter()
        .find(|(until, _)| date < *until)
        .map_or(&Quirks::NONE, |(_, quirks)| quirks)
}

/// Reads the body of an answer with the status of an error.
pub fn read_error(status: u16, body: &[u8], content_type: Option<&str>) -> UpstreamError {
    let error = openai::read_refusal(&Quirks::NONE, status, body, content_type);
    // The deployment has another kind of model, or the version does not exist. That is not the
    // caller's fault, though the status is 400.
    let is_ours = error.code.as_deref() == Some("OperationNotSupported")
        || error.message.starts_with("API version not supported");
    UpstreamError {
        status: if is_ours { Some(404) } else { error.status },
        ..error
    }
}

/// The quirks of older versions, oldest first. A row holds for versions before its date.
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
            fields: &[
                MAX_TOKENS,
                NEW_OMITTED,
                NEW_REFUSED,
                (&["parallel_tool_calls"], Omit),
            ],
            stream_options: false,
            ..BEFORE_REASONING
        },
    ),
    // This row includes 2024-10-21, the last version that is no preview.
    ("2024-12-01", BEFORE_REASONING),
];

const BEFORE_REASONING: Quirks = Quirks {
    name: "azure before 2024-12-01",
    fields: &[NEW_OMITTED, NEW_REFUSED],
    developer_is_system: true,
    ..Quirks::NONE
};

/// The fields that came with 2024-12-01-preview or later. Without the first ones the answer is
/// still useful; without the others it is not.
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

/// Returns the date at the start of a version. Such dates can be compared as text.
fn version_date(version: &str) -> Option<&str> {
    let date = version.get(..10)?;
    let is_date = date.bytes().enumerate().all(|(index, byte)| {
        if index == 4 || index == 7 {
            byte == b'-'
        } else {
            byte.is_ascii_digit()
        }
    });
    is_date.then_some(date)
}

#[cfg(test)]
mod tests;
