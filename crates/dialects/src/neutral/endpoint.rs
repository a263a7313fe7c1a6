//! An endpoint is a service of an account's server, such as chat or embeddings. A server may have
//! several kinds.
//!
//! Each kind is one row of a table. From it follow the door with its path, the protocols of
//! OpenAI's and Azure's servers, how an answer is read, and its units of price.

use std::fmt;

use super::kind::ModelKind;
use super::price::Price;

/// The facts of a kind of endpoint.
#[derive(Debug)]
pub struct EndpointFacts {
    /// The name of the kind in the catalog; its door and its format have this name, too.
    pub name: &'static str,
    /// The paths at Portcullis. The first one is also the path at OpenAI's servers.
    pub paths: &'static [&'static str],
    /// The form of the requests.
    pub body: EndpointBody,
    /// The form of the answers.
    pub answer: EndpointAnswer,
    /// The beginning of the answers' ids.
    pub id_prefix: &'static str,
    /// The use of the models.
    pub made_for: ModelKind,
    /// The kinds of servers that have the endpoint if their accounts do not name their endpoints.
    pub servers: &'static [Servers],
}

/// The form of an endpoint's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointBody {
    /// Conversations. Each kind of endpoint that holds them can answer the callers of each format.
    Conversation,
    /// JSON that passes. The model reads the texts of these fields; the first one must be there.
    Json(&'static [&'static str]),
    /// Forms that pass, which may have large files.
    Form,
}

/// The form of an endpoint's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointAnswer {
    /// A model's message, token by token.
    Message,
    /// Choices with continued texts, which are written token by token.
    Choices,
    /// Vectors.
    Vectors,
    /// A list of results.
    Results,
    /// Pictures, which are paid for one by one.
    Pictures,
    /// Sound of a text, whose characters are paid for.
    Sound,
    /// A text of sound, whose seconds are paid for.
    Transcript,
}

/// Servers that speak OpenAI's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Servers {
    /// OpenAI's own.
    OpenAi,
    /// Azure's, whose paths have no date.
    Azure,
    /// Azure's, whose paths have the date of a version, and the name of a deployment.
    DatedAzure,
    /// Servers of other providers, and the demo. Their endpoints are not known before they are
    /// asked.
    Others,
}

/// Servers of all kinds.
const EVERYWHERE: &[Servers] = &[
    Servers::OpenAi,
    Servers::Azure,
    Servers::DatedAzure,
    Servers::Others,
];

/// Makes the enum, the list of all kinds and the facts of each out of one table.
macro_rules! endpoints {
    ($($(#[$about:meta])+ $kind:ident { $($facts:tt)* })+) => {
        /// A kind of endpoint.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Endpoint { $($(#[$about])+ $kind),+ }

        impl Endpoint {
            /// All kinds.
            pub const ALL: [Endpoint; [$(Endpoint::$kind),+].len()] = [$(Endpoint::$kind),+];

            /// Returns its facts.
            pub const fn facts(self) -> &'static EndpointFacts {
                match self { $(Endpoint::$kind => &EndpointFacts { $($facts)* }),+ }
            }
        }
    };
}

endpoints! {
    /// Chat completions; in another dialect, its own way to hold a conversation.
    #[default]
    Chat {
        name: "chat",
        paths: &["/v1/chat/completions"],
        body: EndpointBody::Conversation,
        answer: EndpointAnswer::Message,
        id_prefix: "chatcmpl-",
        made_for: ModelKind::Chat,
        servers: EVERYWHERE,
    }
    /// OpenAI's Responses.
    Responses {
        name: "responses",
        paths: &["/v1/responses"],
        body: EndpointBody::Conversation,
        answer: EndpointAnswer::Message,
        id_prefix: "resp_",
        made_for: ModelKind::Chat,
        // An older version of Azure's may not have the newer endpoint.
        servers: &[Servers::OpenAi, Servers::Azure],
    }
    /// Anthropic's Messages.
    Messages {
        name: "messages",
        paths: &["/v1/messages"],
        body: EndpointBody::Conversation,
        answer: EndpointAnswer::Message,
        id_prefix: "msg_",
        made_for: ModelKind::Chat,
        servers: &[],
    }
    /// Texts that are continued, and no conversation.
    Completions {
        name: "completions",
        paths: &["/v1/completions"],
        body: EndpointBody::Json(&["prompt", "suffix"]),
        answer: EndpointAnswer::Choices,
        id_prefix: "cmpl-",
        made_for: ModelKind::Completion,
        servers: EVERYWHERE,
    }
    /// Vectors of texts.
    Embeddings {
        name: "embeddings",
        paths: &["/v1/embeddings"],
        body: EndpointBody::Json(&["input"]),
        answer: EndpointAnswer::Vectors,
        id_prefix: "embd-",
        made_for: ModelKind::Embedding,
        servers: EVERYWHERE,
    }
    /// Documents in the order in which they answer a question.
    Rerank {
        name: "rerank",
        // Cohere's own clients ask the second one.
        paths: &["/v1/rerank", "/v2/rerank"],
        body: EndpointBody::Json(&["documents", "query"]),
        answer: EndpointAnswer::Results,
        id_prefix: "",
        made_for: ModelKind::Rerank,
        servers: &[Servers::Others],
    }
    /// Whether a text is harmful.
    Moderations {
        name: "moderations",
        paths: &["/v1/moderations"],
        body: EndpointBody::Json(&["input"]),
        answer: EndpointAnswer::Results,
        id_prefix: "modr-",
        made_for: ModelKind::Moderation,
        servers: &[Servers::OpenAi, Servers::Others],
    }
    /// Pictures.
    Images {
        name: "images",
        paths: &["/v1/images/generations"],
        body: EndpointBody::Json(&["prompt"]),
        answer: EndpointAnswer::Pictures,
        id_prefix: "",
        made_for: ModelKind::Image,
        servers: EVERYWHERE,
    }
    /// Pictures that are changed.
    Edits {
        name: "image_edits",
        paths: &["/v1/images/edits"],
        body: EndpointBody::Form,
        answer: EndpointAnswer::Pictures,
        id_prefix: "",
        made_for: ModelKind::Image,
        servers: EVERYWHERE,
    }
    /// Texts that are spoken.
    Speech {
        name: "speech",
        paths: &["/v1/audio/speech"],
        body: EndpointBody::Json(&["input"]),
        answer: EndpointAnswer::Sound,
        id_prefix: "",
        made_for: ModelKind::Speech,
        servers: EVERYWHERE,
    }
    /// The text of a recording.
    Transcriptions {
        name: "transcriptions",
        paths: &["/v1/audio/transcriptions"],
        body: EndpointBody::Form,
        answer: EndpointAnswer::Transcript,
        id_prefix: "",
        made_for: ModelKind::Transcription,
        servers: EVERYWHERE,
    }
    /// The text of a recording, in English.
    Translations {
        name: "translations",
        paths: &["/v1/audio/translations"],
        body: EndpointBody::Form,
        answer: EndpointAnswer::Transcript,
        id_prefix: "",
        made_for: ModelKind::Transcription,
        servers: EVERYWHERE,
    }
}

impl Endpoint {
    /// Finds a kind by its name.
    pub fn find(name: &str) -> Option<Endpoint> {
        Endpoint::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns its path below the version, as OpenAI's servers have it.
    pub fn path(self) -> &'static str {
        below_version(self.facts().paths.first().unwrap_or(&""))
    }

    /// Returns whether it holds conversations. Any kind that does can answer any conversation.
    pub const fn is_conversation(self) -> bool {
        matches!(self.facts().body, EndpointBody::Conversation)
    }

    /// Returns whether its answers are written by a model, token by token.
    pub fn writes(self) -> bool {
        use EndpointAnswer::*;
        match self.facts().answer {
            Message | Choices => true,
            Vectors | Results | Pictures | Sound | Transcript => false,
        }
    }

    /// Returns whether these servers have the endpoint if their accounts do not name their
    /// endpoints.
    pub const fn is_at(self, servers: Servers) -> bool {
        let mut rest = self.facts().servers;
        while let [first, others @ ..] = rest {
            if *first as u8 == servers as u8 {
                return true;
            }
            rest = others;
        }
        false
    }

    /// Returns whether a price covers the cost of the answers.
    pub fn is_priced_by(self, price: &Price) -> bool {
        use EndpointAnswer::*;
        let is_priced = match self.facts().answer {
            Message | Choices | Vectors | Results => price.rates.is_some(),
            Pictures => price.per_image.is_some(),
            Sound => price.per_character.is_some(),
            Transcript => price.per_second.is_some(),
        };
        is_priced || price.per_request.is_some()
    }

    /// Returns whether another model may answer in place of a model. Vectors of different models
    /// cannot be compared.
    pub fn has_stand_ins(self) -> bool {
        self != Endpoint::Embeddings
    }

    /// Returns whether its requests are forms, which may have large files.
    pub fn takes_forms(self) -> bool {
        self.facts().body == EndpointBody::Form
    }

    /// Returns whether its answers may be other than JSON: they then pass as they come.
    pub fn gives_bytes(self) -> bool {
        use EndpointAnswer::*;
        match self.facts().answer {
            Pictures | Sound | Transcript => true,
            Message | Choices | Vectors | Results => false,
        }
    }

    /// Returns the least maximum of tokens that an answer may have. A smaller maximum is raised to
    /// it.
    pub fn least_tokens(self) -> u64 {
        if self == Endpoint::Responses {
            16
        } else {
            u64::from(self.writes())
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Servers {
    /// Counts the kinds of endpoint that the servers have.
    pub(crate) const fn count(self) -> usize {
        let (mut count, mut rest) = (0, &Endpoint::ALL as &[Endpoint]);
        while let [kind, others @ ..] = rest {
            count += kind.is_at(self) as usize;
            rest = others;
        }
        count
    }

    /// Returns the kinds of endpoint that the servers have.
    #[expect(
        clippy::indexing_slicing,
        reason = "the compiler does it, and would not compile a panic"
    )]
    pub(crate) const fn kinds<const N: usize>(self) -> [Endpoint; N] {
        let (mut kinds, mut count) = ([Endpoint::Chat; N], 0);
        let mut rest = &Endpoint::ALL as &[Endpoint];
        while let [kind, others @ ..] = rest {
            if kind.is_at(self) {
                kinds[count] = *kind;
                count += 1;
            }
            rest = others;
        }
        kinds
    }
}

/// Returns the part of a path after the version.
pub(crate) fn below_version(path: &'static str) -> &'static str {
    path.strip_prefix("/v1").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neutral::price::{Each, Rates, Usd};

    #[test]
    fn a_price_is_for_the_kinds_it_charges() {
        let none = Price::default();
        let each = Some(Each(1));
        for (price, priced) in [
            (none, ""),
            (
                Price {
                    rates: Some(Rates::default()),
                    ..none
                },
                "chat responses messages completions embeddings rerank moderations",
            ),
            (
                Price {
                    per_image: each,
                    ..none
                },
                "images image_edits",
            ),
            (
                Price {
                    per_character: each,
                    ..none
                },
                "speech",
            ),
            (
                Price {
                    per_second: each,
                    ..none
                },
                "transcriptions translations",
            ),
        ] {
            let kinds = Endpoint::ALL
                .into_iter()
                .filter(|kind| kind.is_priced_by(&price));
            assert_eq!(
                kinds.map(Endpoint::name).collect::<Vec<_>>().join(" "),
                priced,
                "{price:?}"
            );
        }
        for price in [
            Price::FREE,
            Price {
                per_request: Some(Usd::ZERO),
                ..none
            },
        ] {
            assert!(
                Endpoint::ALL
                    .into_iter()
                    .all(|kind| kind.is_priced_by(&price)),
                "{price:?}"
            );
        }
    }
}
