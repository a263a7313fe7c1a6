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
    super::super::attributes::names! {
        OPERATION: "gen_ai.operation.name";
        PROVIDER: "gen_ai.provider.name";
        MODEL: "gen_ai.request.model";
        ANSWERED: "gen_ai.response.model";
        ANSWER: "gen_ai.response.id";
        MAX_TOKENS: "gen_ai.request.max_tokens";
        CHOICES: "gen_ai.request.choice.count";
        STREAM: "gen_ai.request.stream";
        OUTPUT: "gen_ai.output.type";
        CONVERSATION: "gen_ai.conversation.id";
        REASONS: "gen_ai.response.finish_reasons";
        FIRST: "gen_ai.response.time_to_first_chunk";
        INPUT_TOKENS: "gen_ai.usage.input_tokens";
        OUTPUT_TOKENS: "gen_ai.usage.output_tokens";
        CACHE_READ: "gen_ai.usage.cache_read.input_tokens";
        CACHE_CREATION: "gen_ai.usage.cache_creation.input_tokens";
        REASONING: "gen_ai.usage.reasoning.output_tokens";
        /// It is in no convention, but several receivers read it: US dollars.
        COST: "gen_ai.usage.cost";
        OPENAI_TYPE: "openai.api.type";
        OPENAI_TIER: "openai.response.service_tier";
        /// The word of OpenInference that separates this span from a model's.
        KIND: "openinference.span.kind";
    }
}

/// The names of attributes of requests.
pub(super) mod http_ {
    super::super::attributes::names! {
        METHOD: "http.request.method";
        ROUTE: "http.route";
        STATUS: "http.response.status_code";
        RESENDS: "http.request.resend_count";
        PATH: "url.path";
        SCHEME: "url.scheme";
        SERVER: "server.address";
        PORT: "server.port";
        CLIENT: "client.address";
        ERROR: "error.type";
    }
}

/// The names of attributes that only this gateway has: the words of the access line.
pub(super) mod own {
    super::super::attributes::names! {
        REQUEST_ID: "portcullis.request_id";
        CALLER: "portcullis.caller";
        KEY: "portcullis.key";
        MODEL: "portcullis.model";
        OUTCOME: "portcullis.outcome";
        ATTEMPTS: "portcullis.attempts";
        OWN_TIME: "portcullis.own_us";
        QUEUED: "portcullis.queued_ms";
        LIMITED_BY: "portcullis.limited_by";
        DROPPED: "portcullis.dropped";
        ACCOUNT: "portcullis.account";
        CONNECT: "portcullis.connect_ms";
        USAGE: "portcullis.usage";
    }
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
    use std::collections::BTreeSet;

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
    fn each_dialect_has_a_provider_of_its_own() {
        let mut names = BTreeSet::new();
        for protocol in upstream::ALL {
            let name = provider_name(&Dialect::from(protocol));
            assert!(!name.is_empty() && names.insert(name), "{name}");
        }
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
