//! The dialects that accounts speak, each in its own module. A module writes requests and reads
//! answers, streams and errors. Each dialect has one static, its [`Protocol`].

pub mod anthropic;
pub mod azure;
pub mod bedrock;
mod claude;
mod cloud;
pub mod cohere;
pub mod demo;
pub mod gemini;
mod listing;
pub mod ollama;
pub mod openai;
mod protocol;
pub mod quirks;
pub mod servers;
pub mod shared;

use crate::neutral::{Endpoint, Family};
pub(crate) use cloud::Cloud;
pub use listing::{ModelListing, ModelPage};
pub(crate) use protocol::{ANY_NUMBER, VectorForm};
pub use protocol::{
    AccountField, BaseUrl, Counting, Endpoints, Framing, Litellm, Prices, Protocol, Settings,
    SignsWith, Translation,
};

/// All dialects, in the order in which errors and the schema list them.
pub static ALL: [&Protocol; 9] = [
    &openai::PROTOCOL,
    &azure::PROTOCOL,
    &anthropic::PROTOCOL,
    &gemini::PROTOCOL,
    &gemini::VERTEX,
    &bedrock::PROTOCOL,
    &cohere::PROTOCOL,
    &ollama::PROTOCOL,
    &demo::PROTOCOL,
];

/// The names of all dialects.
#[expect(
    clippy::indexing_slicing,
    reason = "it runs in the compiler, where a panic is an error"
)]
pub static NAMES: [&str; ALL.len()] = {
    let mut names = [""; ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = ALL[index].name;
        index += 1;
    }
    names
};

/// Returns the protocols by which servers are asked for these kinds of endpoint. `servers_chat` is
/// their protocol for chat.
#[expect(
    clippy::indexing_slicing,
    reason = "it runs in the compiler, where a panic is an error"
)]
pub(crate) const fn endpoint_protocols<const N: usize>(
    servers_chat: &Protocol,
    endpoints: &[Endpoint; N],
) -> [Protocol; N] {
    let (mut protocols, mut index) = ([*servers_chat; N], 0);
    while index < N {
        protocols[index] = endpoint_protocol(servers_chat, endpoints[index]);
        index += 1;
    }
    protocols
}

/// Returns the protocol by which servers are asked for a kind of endpoint: all that is not written
/// here is as for chat.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a new kind of endpoint gets the translation that most have"
)]
const fn endpoint_protocol(servers_chat: &Protocol, endpoint: Endpoint) -> Protocol {
    let name = endpoint.name();
    match endpoint {
        Endpoint::Chat => *servers_chat,
        Endpoint::Responses => Protocol {
            endpoint,
            name,
            family: Some(Family::OpenAi),
            // The body names the model in every version.
            model_in_path: |_| false,
            quirks_of_version: None,
            translation: Some(openai::responses::TRANSLATION),
            ..*servers_chat
        },
        Endpoint::Messages => Protocol {
            endpoint,
            name,
            family: anthropic::PROTOCOL.family,
            translation: Some(anthropic::THIRD_PARTY_TRANSLATION),
            error: anthropic::PROTOCOL.error,
            ..*servers_chat
        },
        _ => Protocol {
            endpoint,
            name,
            translation: Some(openai::other_endpoints::endpoint_translation(endpoint)),
            ..*servers_chat
        },
    }
}

impl Protocol {
    /// Finds a dialect by its name.
    pub fn find(name: &str) -> Option<&'static Protocol> {
        ALL.iter().copied().find(|protocol| protocol.name == name)
    }

    /// Returns the protocol for a kind of endpoint, if the servers may have that kind.
    pub fn for_endpoint(&'static self, endpoint: Endpoint) -> Option<&'static Protocol> {
        if endpoint == self.endpoint {
            return Some(self);
        }
        let mut protocols = self.endpoints.protocols.iter();
        protocols.find(|protocol| protocol.endpoint == endpoint)
    }
}
