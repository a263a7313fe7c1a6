//! An endpoint is what an account's server is asked for. A server that speaks OpenAI's format may
//! have several kinds.

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
}

impl Endpoint {
    /// All kinds.
    pub const ALL: [Endpoint; 3] = [Endpoint::Chat, Endpoint::Responses, Endpoint::Messages];
    /// The kinds that OpenAI's own servers have.
    pub(crate) const OF_OPENAI: [Endpoint; 2] = [Endpoint::Chat, Endpoint::Responses];

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
        }
    }

    /// Returns the fewest tokens that an answer may be asked to have at most. Who asks for fewer
    /// gets as many.
    pub fn least_tokens(self) -> u64 {
        match self {
            Endpoint::Chat | Endpoint::Messages => 1,
            Endpoint::Responses => 16,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
