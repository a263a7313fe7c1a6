//! Ollama's own chat: `POST /api/chat`, answered with JSON or with lines of JSON.
//!
//! Each message of the caller becomes one message, with three differences: the arguments of a call
//! are an object, pictures stand next to the text, and no field can make a model call a tool. Calls
//! come whole, and often without an id. The server does not send a count that is zero.

mod answer;
mod embed;
mod error;
mod request;

pub use answer::{OllamaReader, emit_usage, read_answer};
pub use error::read_error;
pub use request::write_request;

use super::listing::{ModelListing, ONE_PAGE};
use super::protocol::{
    BaseUrl, DialectFacts, ENDPOINTS, Endpoints, Framing, Litellm, Prices, Protocol, Translation,
};
use super::servers::{
    HostPattern::{Is, Port},
    known_server,
};
use crate::neutral::Endpoint;
use crate::neutral::traits::{Thinking, Traits};

const FACTS: DialectFacts = DialectFacts {
    name: "ollama",
    about: "Ollama's own chat. The server needs no `key`.",
    provider: "ollama",
    servers: &[
        known_server(Is("ollama.com"), &[""]).with_key("OLLAMA_API_KEY"),
        known_server(Port(11434), &[""]),
    ],
    own_fields: &[],
    litellm: Litellm {
        names: &["ollama", "ollama_chat"],
        keys: &[],
        bases: &["OLLAMA_API_BASE"],
    },
    base_url: BaseUrl::Fixed("http://127.0.0.1:11434"),
    key_header: None,
    prices: |_| Prices::Unlisted,
    translation: Some(Translation {
        request: write_request,
        answer: |_, body, emit| read_answer(body, emit),
        count: |_, body, emit| emit_usage(body, emit),
        reader: |_| Box::new(OllamaReader),
        max_tokens: "/options/num_predict",
        counting: None,
        format: "",
        inner: |_| None,
        vectors: None,
        cloud: None,
    }),
    error: |_, head, body| read_error(head.status, head.content_type, body),
};

/// Ollama, as it is installed on this machine. It has no price, because the cost is the machine's.
pub static PROTOCOL: Protocol = Protocol {
    path: |_, _, _, _| "/api/chat".into(),
    endpoints: Endpoints {
        protocols: std::slice::from_ref(&embed::EMBEDDINGS),
        default_endpoints: |_, _| &[Endpoint::Chat, Endpoint::Embeddings],
        listing: Some(ModelListing {
            first_page_path: |base| format!("{base}/api/tags"),
            ..ONE_PAGE
        }),
        ..ENDPOINTS
    },
    key_variable: Some("OLLAMA_API_KEY"),
    framing: Framing::Lines,
    traits: model_traits,
    ..Protocol::common(FACTS)
};

/// Returns the abilities of a model, by its name (`library/qwen3:8b`). [`Thinking::Budget`] stands
/// for thinking that is switched on and off. Models of other kinds than `Budget` and `Effort`
/// refuse any order about it. A format holds for the whole answer, so no tool can be called in
/// addition.
pub fn model_traits(model: &str) -> Traits {
    let unknown = Traits {
        forced_tools: false,
        structured_with_tools: false,
        ..Traits::UNKNOWN
    };
    let name = model
        .rsplit_once('/')
        .map_or(model, |(_, name)| name)
        .to_ascii_lowercase();
    let (family, tag) = name.split_once(':').unwrap_or((&name, ""));
    let thinking = match family {
        "gpt-oss" => Thinking::Effort,
        "deepseek-r1" | "deepseek-v3.1" => Thinking::Budget,
        "qwen3" if !tag.contains("instruct") => Thinking::Budget,
        _ => Thinking::Unknown,
    };
    Traits {
        thinking,
        thinking_off: family != "gpt-oss",
        images: !BLIND.contains(&family),
        ..unknown
    }
}

/// Families of models that cannot see pictures.
const BLIND: [&str; 20] = [
    "codellama",
    "command-r",
    "command-r-plus",
    "deepseek-r1",
    "deepseek-v3",
    "deepseek-v3.1",
    "gemma",
    "gemma2",
    "gpt-oss",
    "llama2",
    "llama3",
    "llama3.1",
    "llama3.2",
    "llama3.3",
    "mistral",
    "mixtral",
    "phi4",
    "qwen2.5",
    "qwen3",
    "qwen3-coder",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_known_by_their_families() {
        let of = |model| {
            let Traits {
                thinking,
                thinking_off,
                images,
                forced_tools,
                structured_with_tools,
                ..
            } = model_traits(model);
            assert!(!forced_tools && !structured_with_tools, "{model}");
            (thinking, thinking_off, images)
        };
        assert_eq!(of("gpt-oss:20b"), (Thinking::Effort, false, false));
        assert_eq!(of("me/GPT-OSS"), (Thinking::Effort, false, false));
        assert_eq!(of("qwen3:8b"), (Thinking::Budget, true, false));
        assert_eq!(
            of("qwen3:30b-a3b-instruct-2507-q4_K_M"),
            (Thinking::Unknown, true, false)
        );
        assert_eq!(of("qwen3-vl:8b"), (Thinking::Unknown, true, true));
        assert_eq!(
            of("registry.ollama.ai/library/deepseek-r1"),
            (Thinking::Budget, true, false)
        );
        assert_eq!(of("llama3.2-vision"), (Thinking::Unknown, true, true));
        assert_eq!(of(""), (Thinking::Unknown, true, true));
    }
}
