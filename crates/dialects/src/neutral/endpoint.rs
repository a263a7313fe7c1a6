//! An endpoint is what an account's server is asked for. A server may have several kinds.

use std::fmt;

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
        matches!(self, Endpoint::Chat | Endpoint::Responses | Endpoint::Messages)
    }

    /// Returns whether its answers are written by a model, token by token.
    pub fn writes(self) -> bool {
        self.is_conversation() || self == Endpoint::Completions
    }

    /// Returns the fewest tokens that an answer may be asked to have at most. Who asks for fewer
    /// gets as many.
    pub fn least_tokens(self) -> u64 {
        if self == Endpoint::Responses { 16 } else { u64::from(self.writes()) }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
