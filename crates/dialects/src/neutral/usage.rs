//! Usage is the number of tokens that an exchange used, and of other things that providers charge
//! for; and the source of these numbers.
//!
//! The total is always the sum of prompt and completion, and is not stored. A count that the
//! upstream did not report is an estimate, and stays marked as one. An implausible count of an
//! upstream is not used. Usages of several attempts are not added: of one exchange, one answer
//! counts, once. Only the answers to the slices of a request count together.

use crate::named_enum;

/// The most tokens of one kind that an answer can have. It is ten times the longest context of any
/// model. A negative number that was read as one without a sign is larger than this. If a count is
/// larger, none of the counts that came with it is used.
pub const MAX_TOKENS: u64 = 1 << 30;

/// The tokens of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The tokens read, including cached ones.
    pub prompt: u64,
    /// The tokens written, including reasoning.
    pub completion: u64,
    /// The tokens of the prompt that came out of the upstream's cache.
    pub cached: u64,
    /// The tokens of the prompt that went into the upstream's cache.
    pub cache_write: u64,
    /// The tokens of the completion that were thinking.
    pub reasoning: u64,
    /// The units other than tokens that were used.
    pub units: Units,
    /// The source of the counts.
    pub source: Source,
    /// The name of an implausible count of the upstream's. If there is one, the other counts are
    /// ours.
    pub doubted: Option<&'static str>,
}

impl Usage {
    /// Returns the sum of prompt and completion.
    pub fn total(&self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }

    /// Returns the sum of the usages of two slices of a request for vectors.
    #[must_use]
    pub fn and(self, other: Usage) -> Usage {
        let source = match (self.source, other.source) {
            (Source::None, source) | (source, Source::None) => source,
            (Source::Reported, Source::Reported) => Source::Reported,
            (Source::Estimated, _) | (_, Source::Estimated) => Source::Estimated,
        };
        let requests = self.requests().saturating_add(other.requests());
        Usage {
            prompt: self.prompt.saturating_add(other.prompt),
            units: Units {
                requests,
                ..self.units
            },
            source,
            doubted: self.doubted.or(other.doubted),
            ..self
        }
    }

    /// Returns the number of answers that are charged for.
    fn requests(&self) -> u32 {
        if self.source == Source::None {
            0
        } else {
            self.units.requests.max(1)
        }
    }

    /// Returns an estimate from the bytes that were read and written, for an answer without any
    /// count of tokens.
    pub fn estimated(prompt_bytes: u64, completion_bytes: u64) -> Self {
        Self {
            prompt: estimate_tokens(prompt_bytes),
            completion: estimate_tokens(completion_bytes),
            source: Source::Estimated,
            ..Self::default()
        }
    }
}

/// The units other than tokens that providers charge for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Units {
    /// The answers that are charged for. 0 counts as one.
    pub requests: u32,
    /// The pictures that were made.
    pub images: u32,
    /// The length of the sound that was read or made, in milliseconds.
    pub millis: u32,
    /// The characters of text that were spoken.
    pub characters: u32,
}

impl Units {
    /// One answer, and no other units.
    pub const NONE: Units = Units {
        requests: 0,
        images: 0,
        millis: 0,
        characters: 0,
    };
}

named_enum! {
    /// The source of the counts of a [`Usage`].
    #[derive(Default)]
    pub enum Source {
        /// There are no counts, because there was no answer.
        #[default]
        None = "none",
        /// The upstream counted.
        Reported = "reported",
        /// The gateway counted, from bytes. At least one of prompt and completion is an
        /// [`estimate_tokens`].
        Estimated = "estimated",
    }
}

impl Source {
    /// Returns the source with this name. An unknown name is [`Source::Estimated`].
    pub fn of_name(name: &str) -> Source {
        [Self::Reported, Self::None]
            .into_iter()
            .find(|source| source.name() == name)
            .unwrap_or(Self::Estimated)
    }
}

/// Estimates the tokens in UTF-8 text: a quarter of its bytes, rounded up.
///
/// The estimate is crude on purpose. It is marked wherever it shows, it needs no model's tokenizer,
/// and everyone can check it by hand.
pub fn estimate_tokens(utf8_bytes: u64) -> u64 {
    utf8_bytes.div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_a_quarter_rounded_up() {
        for (bytes, tokens) in [(0, 0), (1, 1), (4, 1), (5, 2), (u64::MAX, u64::MAX / 4 + 1)] {
            assert_eq!(estimate_tokens(bytes), tokens, "{bytes} bytes");
        }
    }

    #[test]
    fn slices_use_adds_up_and_is_charged() {
        let reported = Usage {
            prompt: 3,
            source: Source::Reported,
            ..Usage::default()
        };
        let both = Usage::default()
            .and(reported)
            .and(reported)
            .and(Usage::default());
        assert_eq!(
            (both.prompt, both.units.requests, both.source),
            (6, 2, Source::Reported)
        );
        let guessed = both.and(Usage::estimated(8, 0));
        assert_eq!(
            (guessed.prompt, guessed.units.requests, guessed.source),
            (8, 3, Source::Estimated)
        );
        assert_eq!(Usage::default().and(Usage::default()), Usage::default());
    }

    #[test]
    fn the_total_is_the_sum_and_never_wraps() {
        assert_eq!(Usage::estimated(8, 4).total(), 3);
        let huge = Usage {
            prompt: u64::MAX,
            completion: 1,
            ..Usage::default()
        };
        assert_eq!(huge.total(), u64::MAX);
    }
}
