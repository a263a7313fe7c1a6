//! What an exchange cost in tokens, and who says so.
//!
//! The total is always the true sum of its two parts; it is not stored. A count that nobody
//! reported is an estimate and stays marked as one. What an upstream cannot have counted, nobody
//! believes. Nothing here adds usages of several attempts together: of one exchange, one answer
//! counts, once.

/// No answer has more tokens of a kind: ten times the longest context that any model has, and less
/// than a negative number looks like that was taken for one without a sign. What counts more counts
/// nothing, and nothing else that came with it is believed.
pub const MOST: u64 = 1 << 30;

/// The tokens of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub prompt: u64,
    /// Tokens written, reasoning included.
    pub completion: u64,
    /// Of the prompt, those that came out of the upstream's cache.
    pub cached: u64,
    /// Of the prompt, those that went into the upstream's cache.
    pub cache_write: u64,
    /// Of the completion, those that were thinking.
    pub reasoning: u64,
    /// Who counted.
    pub source: Source,
    /// The number of the upstream's that no answer can have: then the others are ours.
    pub doubted: Option<&'static str>,
}

impl Usage {
    /// Prompt and completion together.
    pub fn total(&self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }

    /// What the bytes that were read and written stand for, where nobody counted tokens.
    pub fn estimated(prompt_bytes: u64, completion_bytes: u64) -> Self {
        Self {
            prompt: estimate(prompt_bytes),
            completion: estimate(completion_bytes),
            source: Source::Estimated,
            ..Self::default()
        }
    }
}

/// Who counted the tokens of a [`Usage`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Source {
    /// Nobody: there was no answer, so there is nothing to count.
    #[default]
    None,
    /// The upstream.
    Reported,
    /// We did, from bytes: at least one of the two numbers is an [`estimate`].
    Estimated,
}

impl Source {
    /// The word that logs and metrics use.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Reported => "reported",
            Self::Estimated => "estimated",
        }
    }

    /// Whose word it is. What is no such word was not counted by anybody who says so.
    pub fn of_name(name: &str) -> Source {
        [Self::Reported, Self::None].into_iter().find(|source| source.name() == name).unwrap_or(Self::Estimated)
    }
}

/// Tokens in so many bytes of UTF-8 text: a quarter of them, rounded up.
///
/// Crude on purpose: it is marked wherever it shows, needs no tokenizer of any model, and everyone
/// can check it by hand.
pub fn estimate(utf8_bytes: u64) -> u64 {
    utf8_bytes.div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_a_quarter_rounded_up() {
        for (bytes, tokens) in [(0, 0), (1, 1), (4, 1), (5, 2), (u64::MAX, u64::MAX / 4 + 1)] {
            assert_eq!(estimate(bytes), tokens, "{bytes} bytes");
        }
    }

    #[test]
    fn the_total_is_the_sum_and_never_wraps() {
        assert_eq!(Usage::estimated(8, 4).total(), 3);
        let huge = Usage { prompt: u64::MAX, completion: 1, ..Usage::default() };
        assert_eq!(huge.total(), u64::MAX);
    }
}
