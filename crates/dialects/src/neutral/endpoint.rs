//! An endpoint is what an account's server is asked for. A server may have several kinds.

use std::fmt;

use super::price::Price;

/// A kind of endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// Chat completions; in another dialect, its own way to hold a conversation.
    #[default]
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
    /// Texts that are continued, and no conversation.
    Completions,
    /// Vectors of texts.
    Embeddings,
    /// Documents in the order in which they answer a question.
    Rerank,
    /// Whether a text is harmful.
    Moderations,
    /// Pictures.
    Images,
    /// Pictures that are changed.
    Edits,
    /// Texts that are spoken.
    Speech,
    /// The text of a recording.
    Transcriptions,
    /// The same in English.
    Translations,
}

impl Endpoint {
    /// All kinds.
    pub const ALL: [Endpoint; 12] = {
        use Endpoint::*;
        [
            Chat,
            Responses,
            Messages,
            Completions,
            Embeddings,
            Rerank,
            Moderations,
            Images,
            Edits,
            Speech,
            Transcriptions,
            Translations,
        ]
    };

    /// Finds a kind by its name.
    pub fn find(name: &str) -> Option<Endpoint> {
        Endpoint::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Endpoint::Chat => "chat",
            Endpoint::Responses => "responses",
            Endpoint::Messages => "messages",
            Endpoint::Completions => "completions",
            Endpoint::Embeddings => "embeddings",
            Endpoint::Rerank => "rerank",
            Endpoint::Moderations => "moderations",
            Endpoint::Images => "images",
            Endpoint::Edits => "image_edits",
            Endpoint::Speech => "speech",
            Endpoint::Transcriptions => "transcriptions",
            Endpoint::Translations => "translations",
        }
    }

    /// Returns whether it holds conversations. Any kind that does can answer any conversation.
    pub fn is_conversation(self) -> bool {
        matches!(
            self,
            Endpoint::Chat | Endpoint::Responses | Endpoint::Messages
        )
    }

    /// Returns whether its answers are written by a model, token by token.
    pub fn writes(self) -> bool {
        self.is_conversation() || self == Endpoint::Completions
    }

    /// Returns whether a price says what its answers cost.
    pub fn is_priced_by(self, price: &Price) -> bool {
        let (by_tokens, by_answers) = (price.rates.is_some(), price.per_request.is_some());
        by_answers
            || match self {
                Endpoint::Chat
                | Endpoint::Responses
                | Endpoint::Messages
                | Endpoint::Completions
                | Endpoint::Embeddings
                | Endpoint::Rerank
                | Endpoint::Moderations => by_tokens,
                Endpoint::Images | Endpoint::Edits => price.per_image.is_some(),
                Endpoint::Speech => price.per_character.is_some(),
                Endpoint::Transcriptions | Endpoint::Translations => price.per_second.is_some(),
            }
    }

    /// Returns whether an answer of one model may stand for that of another. Vectors of different
    /// models cannot be compared.
    pub fn has_stand_ins(self) -> bool {
        self != Endpoint::Embeddings
    }

    /// Returns whether its requests are forms, which may have large files.
    pub fn takes_forms(self) -> bool {
        matches!(
            self,
            Endpoint::Edits | Endpoint::Transcriptions | Endpoint::Translations
        )
    }

    /// Returns whether its answers may be other than JSON: they then pass as they come.
    pub fn gives_bytes(self) -> bool {
        self.takes_forms() || matches!(self, Endpoint::Images | Endpoint::Speech)
    }

    /// Returns the fewest tokens that an answer may be asked to have at most. Who asks for fewer
    /// gets as many.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neutral::price::{Each, Rates, Usd};

    #[test]
    fn a_price_is_one_for_the_kinds_of_endpoint_that_are_charged_by_it() {
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
