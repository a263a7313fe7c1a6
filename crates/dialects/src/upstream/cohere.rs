//! Cohere's chat, version 2: `POST /v2/chat`, answered with JSON or with server-sent events.
//!
//! Each message of the caller becomes one message. The model's plan before its calls (`tool_plan`)
//! is thinking, never content.

mod answer;
mod cited;
pub(super) mod embed;
mod error;
mod request;
mod tools;

pub use answer::{CohereReader, emit_usage, read_answer};
pub use error::read_error;
pub use request::write_request;

use super::listing::{ModelListing, ONE_PAGE};
use super::openai::other_endpoints::endpoint_translation;
use super::protocol::{
    BaseUrl, DialectFacts, ENDPOINTS, Endpoints, Litellm, Prices, Protocol, Translation,
};
use super::servers::{HostPattern::Is, known_server};
use crate::neutral::Endpoint;
use crate::neutral::traits::{Thinking, Traits};

const FACTS: DialectFacts = DialectFacts {
    name: "cohere",
    about: "Cohere's chat, v2. `key` is sent as a bearer.",
    provider: "cohere",
    servers: &[
        known_server(Is("api.cohere.com"), &["/v2"])
            .with_key("COHERE_API_KEY")
            .listed_as("cohere"),
        known_server(Is("api.cohere.ai"), &["/v2"]).with_key("COHERE_API_KEY"),
    ],
    own_fields: &[],
    litellm: Litellm {
        names: &["cohere", "cohere_chat"],
        keys: &["COHERE_API_KEY", "CO_API_KEY"],
        bases: &[],
    },
    base_url: BaseUrl::Fixed("https://api.cohere.com/v2"),
    key_header: None,
    prices: |_| Prices::Listed,
    translation: Some(Translation {
        request: write_request,
        answer: |_, body, emit| read_answer(body, emit),
        count: |_, body, emit| emit_usage(body, emit),
        reader: |_| Box::new(CohereReader::default()),
        max_tokens: "/max_tokens",
        counting: None,
        format: "",
        inner: |_| None,
        vectors: None,
        cloud: None,
    }),
    error: |_, head, body| read_error(head.status, head.content_type, body),
};

/// Cohere's chat.
pub static PROTOCOL: Protocol = Protocol {
    path: |_, _, _, _| "/chat".into(),
    endpoints: Endpoints {
        protocols: &OTHERS,
        default_endpoints: |_, _| &[Endpoint::Chat, Endpoint::Embeddings, Endpoint::Rerank],
        listing: Some(ModelListing {
            // The second version of the API has no list.
            first_page_path: |base| {
                let v1 = base.strip_suffix("/v2").map(|base| format!("{base}/v1"));
                format!("{}/models?page_size=1000", v1.as_deref().unwrap_or(base))
            },
            next_parameter: Some("page_token"),
            ..ONE_PAGE
        }),
        ..ENDPOINTS
    },
    key_variable: Some("COHERE_API_KEY"),
    traits: model_traits,
    ..Protocol::common(FACTS)
};

static OTHERS: [Protocol; 2] = [embed::EMBEDDINGS, RERANK];

/// Documents in the order in which they answer a question. Others took the form over from Cohere.
static RERANK: Protocol = Protocol {
    endpoint: Endpoint::Rerank,
    path: |_, _, _, _| "/rerank".into(),
    translation: Some(endpoint_translation(Endpoint::Rerank)),
    endpoints: ENDPOINTS,
    ..PROTOCOL
};

/// Returns the abilities of a model, by its name. No model takes a format together with tools.
pub fn model_traits(model: &str) -> Traits {
    let unknown = Traits {
        structured_with_tools: false,
        ..Traits::UNKNOWN
    };
    let text = Traits {
        images: false,
        thinking: Thinking::None,
        ..unknown
    };
    // `tool_choice` came with command-r7b.
    let unforced = Traits {
        forced_tools: false,
        ..text
    };
    let known = [
        (
            "command-a-reasoning",
            Traits {
                thinking: Thinking::Budget,
                ..text
            },
        ),
        ("command-a-vision", unforced.without_tools().with_images()),
        ("command-a-translate", text),
        ("command-a-03-2025", text),
        ("command-r7b", text),
        ("command-r", unforced),
        ("c4ai-aya-vision", unforced.without_tools().with_images()),
        ("c4ai-aya", unforced.without_tools()),
    ];
    known
        .into_iter()
        .find(|(name, _)| model.starts_with(name))
        .map_or(unknown, |(_, traits)| traits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_known_by_their_names() {
        let of = |model| {
            let Traits {
                thinking,
                tools,
                forced_tools,
                images,
                structured_with_tools,
                ..
            } = model_traits(model);
            assert!(!structured_with_tools, "{model}");
            (thinking, tools, forced_tools, images)
        };
        assert_eq!(
            of("command-a-reasoning-08-2025"),
            (Thinking::Budget, true, true, false)
        );
        assert_eq!(
            of("command-a-vision-07-2025"),
            (Thinking::None, false, false, true)
        );
        assert_eq!(of("command-a-03-2025"), (Thinking::None, true, true, false));
        assert_eq!(
            of("command-r7b-12-2024"),
            (Thinking::None, true, true, false)
        );
        assert_eq!(
            of("command-r-plus-08-2024"),
            (Thinking::None, true, false, false)
        );
        assert_eq!(
            of("c4ai-aya-vision-32b"),
            (Thinking::None, false, false, true)
        );
        assert_eq!(
            of("c4ai-aya-expanse-32b"),
            (Thinking::None, false, false, false)
        );
        assert_eq!(
            of("command-a-plus-05-2026"),
            (Thinking::Unknown, true, true, true)
        );
        assert_eq!(of("b0f5-ft"), (Thinking::Unknown, true, true, true));
    }
}
