//! What a model can do: facts that decide how a request is written for it. Each dialect has a table of them by name; the catalog overrides
//! them, target by target, where a provider has changed its mind or a name says nothing.

use super::chat::Effort;

/// The facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// The most tokens that an answer may have. Filled in where a dialect requires a number and the request is silent; a larger one is cut.
    pub max_output: Option<u64>,
    /// What of `temperature` and `top_p` may be said.
    pub sampling: Sampling,
    /// How it is told to think.
    pub thinking: Thinking,
    /// The words for the effort that it knows.
    pub efforts: Efforts,
    /// Whether thinking can be switched off.
    pub thinking_off: bool,
    /// Whether thoughts that come back are refused if anything before them has changed since.
    pub bound_thoughts: bool,
    /// Whether it knows tools.
    pub tools: bool,
    /// Whether it can be made to call one.
    pub forced_tools: bool,
    /// Whether it can be made to while it is told to think.
    pub forced_while_thinking: bool,
    /// Whether it answers in a JSON Schema natively.
    pub structured: bool,
    /// Whether structured answers and tools go together.
    pub structured_with_tools: bool,
    /// Whether it sees pictures.
    pub images: bool,
    /// Whether the conversation may end with the assistant's own words.
    pub prefill: bool,
}

impl Traits {
    /// A model of which nothing is known: it is asked as the caller asks, and may answer for itself.
    pub const UNKNOWN: Traits = Traits {
        max_output: None,
        sampling: Sampling::Both,
        thinking: Thinking::Unknown,
        efforts: Efforts::ALL,
        thinking_off: true,
        bound_thoughts: false,
        tools: true,
        forced_tools: true,
        forced_while_thinking: true,
        structured: true,
        structured_with_tools: true,
        images: true,
        prefill: true,
    };
}

/// What of `temperature` and `top_p` may be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// Either and both.
    Both,
    /// One of them: `temperature` where both are there.
    One,
    /// Neither.
    Neither,
}

/// How a model is told to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// Nothing is known: it is not told.
    Unknown,
    /// It does not.
    None,
    /// So many tokens.
    Budget,
    /// A word for the effort.
    Effort,
}

/// Words for the effort, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Efforts(u8);

impl Efforts {
    /// Every word there is.
    pub const ALL: Self = Self(u8::MAX);
    /// None.
    pub const NO: Self = Self(0);

    /// These words.
    pub const fn of(words: &[Effort]) -> Self {
        let (mut set, mut rest) = (0, words);
        while let [first, after @ ..] = rest {
            set |= 1 << *first as u8;
            rest = after;
        }
        Self(set)
    }

    /// The word to say where this one is meant: it, else the next weaker one, else the weakest.
    pub fn nearest(self, meant: Effort) -> Option<Effort> {
        use Effort::{High, Low, Max, Medium, Minimal, Xhigh};
        let known = || [Minimal, Low, Medium, High, Xhigh, Max].into_iter().filter(|word| self.0 & 1 << *word as u8 != 0);
        known().rfind(|word| *word <= meant).or_else(|| known().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_no_stronger_unless_it_must_be() {
        use Effort::{High, Low, Max, Medium, Minimal, Xhigh};
        let some = Efforts::of(&[Low, High, Max]);
        for (meant, said) in [(Minimal, Low), (Low, Low), (Medium, Low), (High, High), (Xhigh, High), (Max, Max)] {
            assert_eq!(some.nearest(meant), Some(said));
            assert_eq!(Efforts::ALL.nearest(meant), Some(meant));
            assert_eq!(Efforts::NO.nearest(meant), None);
        }
    }
}
