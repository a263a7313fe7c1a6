//! The words of OpenTelemetry's conventions, of the version that is written here. Receivers know
//! these names. Pure.

use crate::settled::Tried;
use dialects::front::{DOORS, Front};
use dialects::neutral::EndpointAnswer;
use dialects::upstream::quirks::Quirks;
use dialects::{Dialect, Endpoint};
use http::Method;

/// The conventions' version.
pub(super) const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.1";

/// The names of attributes of models.
pub(super) mod gen_ai {
    use super::super::attributes::{AttributeName, name};

    pub(crate) const OPERATION: AttributeName = name!("gen_ai.operation.name");
    pub(crate) const PROVIDER: AttributeName = name!("gen_ai.provider.name");
    pub(crate) const MODEL: AttributeName = name!("gen_ai.request.model");
    pub(crate) const ANSWERED: AttributeName = name!("gen_ai.response.model");
    pub(crate) const ANSWER: AttributeName = name!("gen_ai.response.id");
    pub(crate) const MAX_TOKENS: AttributeName = name!("gen_ai.request.max_tokens");
    pub(crate) const CHOICES: AttributeName = name!("gen_ai.request.choice.count");
    pub(crate) const STREAM: AttributeName = name!("gen_ai.request.stream");
    pub(crate) const OUTPUT: AttributeName = name!("gen_ai.output.type");
    pub(crate) const CONVERSATION: AttributeName = name!("gen_ai.conversation.id");
    pub(crate) const REASONS: AttributeName = name!("gen_ai.response.finish_reasons");
    pub(crate) const FIRST: AttributeName = name!("gen_ai.response.time_to_first_chunk");
    pub(crate) const INPUT_TOKENS: AttributeName = name!("gen_ai.usage.input_tokens");
    pub(crate) const OUTPUT_TOKENS: AttributeName = name!("gen_ai.usage.output_tokens");
    pub(crate) const CACHE_READ: AttributeName = name!("gen_ai.usage.cache_read.input_tokens");
    pub(crate) const CACHE_CREATION: AttributeName =
        name!("gen_ai.usage.cache_creation.input_tokens");
    pub(crate) const REASONING: AttributeName = name!("gen_ai.usage.reasoning.output_tokens");
    /// It is in no convention, but several receivers read it: US dollars.
    pub(crate) const COST: AttributeName = name!("gen_ai.usage.cost");
    pub(crate) const OPENAI_TYPE: AttributeName = name!("openai.api.type");
    pub(crate) const OPENAI_TIER: AttributeName = name!("openai.response.service_tier");
    /// The word of OpenInference that separates this span from a model's.
    pub(crate) const KIND: AttributeName = name!("openinference.span.kind");
}

/// The names of attributes of requests.
pub(super) mod http_ {
    use super::super::attributes::{AttributeName, name};

    pub(crate) const METHOD: AttributeName = name!("http.request.method");
    pub(crate) const ROUTE: AttributeName = name!("http.route");
    pub(crate) const STATUS: AttributeName = name!("http.response.status_code");
    pub(crate) const RESENDS: AttributeName = name!("http.request.resend_count");
    pub(crate) const PATH: AttributeName = name!("url.path");
    pub(crate) const SCHEME: AttributeName = name!("url.scheme");
    pub(crate) const SERVER: AttributeName = name!("server.address");
    pub(crate) const PORT: AttributeName = name!("server.port");
    pub(crate) const CLIENT: AttributeName = name!("client.address");
    pub(crate) const ERROR: AttributeName = name!("error.type");
}

/// The names of attributes that only this gateway has: the words of the access line.
pub(super) mod own {
    use super::super::attributes::{AttributeName, name};

    pub(crate) const REQUEST_ID: AttributeName = name!("portcullis.request_id");
    pub(crate) const CALLER: AttributeName = name!("portcullis.caller");
    pub(crate) const KEY: AttributeName = name!("portcullis.key");
    pub(crate) const MODEL: AttributeName = name!("portcullis.model");
    pub(crate) const OUTCOME: AttributeName = name!("portcullis.outcome");
    pub(crate) const ATTEMPTS: AttributeName = name!("portcullis.attempts");
    pub(crate) const OWN_TIME: AttributeName = name!("portcullis.own_us");
    pub(crate) const QUEUED: AttributeName = name!("portcullis.queued_ms");
    pub(crate) const LIMITED_BY: AttributeName = name!("portcullis.limited_by");
    pub(crate) const DROPPED: AttributeName = name!("portcullis.dropped");
    pub(crate) const ACCOUNT: AttributeName = name!("portcullis.account");
    pub(crate) const CONNECT: AttributeName = name!("portcullis.connect_ms");
    pub(crate) const USAGE: AttributeName = name!("portcullis.usage");
}

/// Returns whether exchanges at this door have spans. Lists, and what a key or a browser asks, are
/// no work.
pub(super) fn is_traced(door: &str) -> bool {
    !matches!(
        door,
        "models" | "model" | "key" | "usage" | "welcome" | "hello" | "preflight"
    )
}

/// Returns the path of a door, without what differs between requests.
pub(super) fn door_route(door: &str, path: &str) -> Option<&'static str> {
    if door == "count" {
        let forms = || DOORS.iter().filter_map(|front| front.counting.as_ref());
        // A long path was cut, and tells only Google's from the others.
        let form = forms()
            .find(|form| (form.route)(path, None).is_some())
            .or_else(|| forms().find(|form| form.path.contains(':') == path.contains(':')));
        return form.map(|form| form.path);
    }
    let front = Front::find(door)?;
    let stream_path = front.stream_path.filter(|_| path.contains(":stream"));
    stream_path.or(front.paths.first().copied())
}

/// The word for a method that is not known.
pub(super) const OTHER_METHOD: &str = "_OTHER";

/// Returns a method, if it is one that is known.
pub(super) fn known_method(method: &str) -> &str {
    let is_known = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::HEAD,
        Method::OPTIONS,
        Method::PATCH,
        Method::CONNECT,
        Method::TRACE,
    ]
    .iter()
    .any(|known| known == method);
    if is_known { method } else { OTHER_METHOD }
}

/// Returns the quirks of a dialect's server, if it is a kind of its own.
fn own_quirks(dialect: &Dialect) -> Option<&'static Quirks> {
    let quirks = dialect.settings().quirks;
    let is_own = dialect.protocol.quirks_of_version.is_none() && quirks != &Quirks::NONE;
    is_own.then_some(quirks)
}

/// Returns the name of the kind of server that speaks a dialect: the quirks' name if it has some,
/// else the protocol's.
pub(super) fn server_kind(dialect: &Dialect) -> &'static str {
    own_quirks(dialect).map_or(dialect.protocol.name, |quirks| quirks.name)
}

/// Returns the conventions' name of a dialect's provider. Where they have none, it is our own.
pub(super) fn provider_name(dialect: &Dialect) -> &'static str {
    own_quirks(dialect).map_or(dialect.protocol.provider, |quirks| {
        quirks.provider.unwrap_or(quirks.name)
    })
}

/// The operation that an attempt asks a model for.
pub(super) struct Operation {
    /// Its name.
    pub(super) name: &'static str,
    /// The kind of its answer, if it is no text.
    pub(super) output: Option<&'static str>,
    /// The kind of OpenAI's endpoint.
    pub(super) openai: Option<&'static str>,
}

/// Returns what an attempt asks for.
pub(super) fn attempt_operation(tried: &Tried) -> Operation {
    let endpoint = tried.endpoint.and_then(Endpoint::find).unwrap_or_default();
    let (name, output) = match endpoint.facts().answer {
        EndpointAnswer::Message => ("chat", None),
        EndpointAnswer::Choices => ("text_completion", None),
        EndpointAnswer::Vectors | EndpointAnswer::Results => (endpoint.name(), None),
        EndpointAnswer::Pictures => ("generate_content", Some("image")),
        EndpointAnswer::Sound => ("generate_content", Some("speech")),
        EndpointAnswer::Transcript => ("generate_content", Some("text")),
    };
    let openai = if endpoint == Endpoint::Chat {
        Some("chat_completions")
    } else {
        (endpoint == Endpoint::Responses).then_some("responses")
    };
    Operation {
        name,
        output,
        openai,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dialects::upstream;

    #[test]
    fn each_door_for_a_model_has_a_route() {
        for front in DOORS {
            let route =
                door_route(front.name, "").unwrap_or_else(|| panic!("{} has no route", front.name));
            assert!(
                is_traced(front.name) && route.starts_with("/v1"),
                "{}",
                front.name
            );
        }
        assert_eq!(
            door_route("count", "/v1beta/models/x:countTokens"),
            Some("/v1beta/models/{model}:countTokens")
        );
        // A path is cut after 64 characters.
        assert_eq!(
            door_route(
                "count",
                "/v1beta/models/gemini-2.5-flash-preview-native-audio-dialog:coun"
            ),
            Some("/v1beta/models/{model}:countTokens")
        );
        assert_eq!(door_route("none", "/v1/nothing"), None);
    }

    #[test]
    fn each_dialect_has_the_name_of_its_provider() {
        let names: Vec<_> = upstream::ALL
            .iter()
            .map(|protocol| provider_name(&Dialect::from(*protocol)))
            .collect();
        assert_eq!(
            names,
            [
                "openai",
                "azure.ai.openai",
                "anthropic",
                "gcp.gemini",
                "gcp.vertex_ai",
                "aws.bedrock",
                "cohere",
                "ollama",
                "demo"
            ]
        );
    }

    #[test]
    fn a_method_that_nobody_knows_is_not_shown() {
        assert_eq!(
            [
                known_method("POST"),
                known_method("sk-secret"),
                known_method("")
            ],
            ["POST", "_OTHER", "_OTHER"]
        );
    }
}
