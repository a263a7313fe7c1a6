//! A tally counts the tokens of one answer. It uses the upstream's counts if they are plausible,
//! and otherwise an estimate from the text.

use super::AnswerHeader;
use crate::neutral::Tokens;
use crate::neutral::price::{ShowCost, Usd};
use crate::neutral::usage::{MAX_TOKENS, Source, Units, Usage, estimate_tokens};

/// The counts so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    tokens: Tokens,
    units: Units,
    /// The name of a count of the upstream's that no answer can have. Then none of its last counts
    /// is kept.
    doubted: Option<&'static str>,
    prompt_bytes: u64,
    /// The UTF-8 bytes of the text so far, shown or not.
    answer_bytes: u64,
    /// The bytes of the current thought that came as text.
    thought_bytes: u64,
    /// The part of `answer_bytes` that the upstream's count of the completion covers.
    counted_bytes: u64,
    /// True if the counts are an estimate that was made before.
    is_estimate: bool,
    cost: ShowCost,
}

impl Tally {
    pub(crate) fn new(header: &AnswerHeader) -> Self {
        Self {
            prompt_bytes: header.prompt_bytes,
            cost: header.cost,
            ..Self::default()
        }
    }

    /// Counts a piece of text.
    #[inline]
    pub(crate) fn add_text(&mut self, text: &str) {
        self.answer_bytes = self.answer_bytes.saturating_add(text.len() as u64);
    }

    /// Counts a piece of a thought.
    #[inline]
    pub(crate) fn add_thought(&mut self, text: &str) {
        self.add_text(text);
        self.thought_bytes = self.thought_bytes.saturating_add(text.len() as u64);
    }

    /// Counts a thought that came in base64, as long as the upstream has not counted the answer.
    /// Its text, or a part of it, may have come before.
    pub(crate) fn add_sealed_thought(&mut self, base64: &str) {
        let shown_bytes = std::mem::take(&mut self.thought_bytes);
        if self.tokens.completion.is_none() {
            let bytes = base64.len() as u64 / 4 * 3;
            self.answer_bytes = self
                .answer_bytes
                .saturating_add(bytes.saturating_sub(shown_bytes));
        }
    }

    /// Takes the upstream's counts; the last ones count. If prompt and completion are both zero,
    /// the upstream counted nothing.
    pub(crate) fn count(&mut self, tokens: Tokens) {
        self.doubted = find_doubted_count(&tokens);
        if self.doubted.is_some() {
            self.tokens = Tokens::default();
            return;
        }
        if tokens.prompt.unwrap_or(0) == 0 && tokens.completion.unwrap_or(0) == 0 {
            return;
        }
        if tokens.completion.is_some() {
            self.counted_bytes = self.answer_bytes;
        }
        self.tokens = Tokens {
            prompt: tokens.prompt.or(self.tokens.prompt),
            completion: tokens.completion.or(self.tokens.completion),
            cached: tokens.cached.or(self.tokens.cached),
            cache_write: tokens.cache_write.or(self.tokens.cache_write),
            reasoning: tokens.reasoning.or(self.tokens.reasoning),
        };
    }

    /// Takes the upstream's counts of other things; the last ones count.
    pub(crate) fn count_units(&mut self, units: Units) {
        self.units = units;
    }

    /// Takes the counts of an answer that was counted before: the upstream's, or an estimate.
    pub(crate) fn count_from_usage(&mut self, usage: &Usage) {
        let some = |count: u64| (count > 0).then_some(count);
        self.is_estimate = usage.source == Source::Estimated;
        self.count(Tokens {
            prompt: Some(usage.prompt),
            completion: Some(usage.completion),
            cached: some(usage.cached),
            cache_write: some(usage.cache_write),
            reasoning: some(usage.reasoning),
        });
        self.count_units(usage.units);
    }

    /// Returns whether the upstream has counted anything.
    pub(crate) fn is_counted(&self) -> bool {
        self.tokens.prompt.or(self.tokens.completion).is_some()
    }

    /// Returns the usage of a whole answer. No part is larger than its whole.
    pub(crate) fn usage(&self) -> Usage {
        let tokens = &self.tokens;
        let prompt = tokens
            .prompt
            .unwrap_or_else(|| estimate_tokens(self.prompt_bytes));
        let counted = self.completion();
        let completion = counted.unwrap_or_else(|| estimate_tokens(self.answer_bytes));
        let cached = tokens.cached.unwrap_or(0).min(prompt);
        Usage {
            prompt,
            completion,
            cached,
            cache_write: tokens.cache_write.unwrap_or(0).min(prompt - cached),
            reasoning: tokens.reasoning.unwrap_or(0).min(completion),
            source: match tokens.prompt.and(counted) {
                Some(_) if !self.is_estimate => Source::Reported,
                Some(_) | None => Source::Estimated,
            },
            units: self.units,
            doubted: self.doubted,
        }
    }

    /// Returns the upstream's count of the completion. A count of zero for an answer with text is
    /// ignored.
    fn completion(&self) -> Option<u64> {
        self.tokens
            .completion
            .filter(|count| *count > 0 || self.answer_bytes == 0)
    }

    /// Returns the usage of an answer that was cut. Some upstreams count while they write, and then
    /// the last count is missing.
    pub(crate) fn so_far(&self) -> Usage {
        let usage = self.usage();
        match self.completion() {
            Some(counted) if self.answer_bytes > self.counted_bytes => {
                let completion =
                    counted.saturating_add(estimate_tokens(self.answer_bytes - self.counted_bytes));
                Usage {
                    completion,
                    source: Source::Estimated,
                    ..usage
                }
            }
            Some(_) | None => usage,
        }
    }

    /// Returns the upstream's own counts. They show a writer which counts are known.
    pub(crate) fn counted(&self) -> &Tokens {
        &self.tokens
    }

    /// Returns the cost of a whole answer, if it is shown.
    pub(crate) fn cost(&self) -> Option<Usd> {
        self.cost.shown_cost(&self.usage())
    }

    /// Appends the end of the usage object, with the cost if it is shown.
    pub(crate) fn end_usage(&self, out: &mut Vec<u8>) {
        if let Some(cost) = self.cost() {
            out.extend_from_slice(format!(r#","cost":{cost}"#).as_bytes());
        }
        out.push(b'}');
    }
}

/// Returns the name, as callers know it, of the first count that is too large for tokens. A sum of
/// plausible counts can be too large, too.
fn find_doubted_count(tokens: &Tokens) -> Option<&'static str> {
    let counts = [
        ("prompt_tokens", tokens.prompt),
        ("completion_tokens", tokens.completion),
        ("cached_tokens", tokens.cached),
        ("cache_write_tokens", tokens.cache_write),
        ("reasoning_tokens", tokens.reasoning),
    ];
    counts
        .into_iter()
        .find(|(_, count)| count.is_some_and(|count| count > MAX_TOKENS))
        .map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_units_are_kept_beside_tokens_that_nobody_counted() {
        let mut tally = Tally {
            prompt_bytes: 8,
            ..Tally::default()
        };
        let units = Units {
            images: 2,
            ..Units::NONE
        };
        tally.count_units(units);
        tally.count(Tokens::default());
        assert_eq!(
            tally.usage(),
            Usage {
                units,
                ..Usage::estimated(8, 0)
            }
        );
        tally.count(Tokens {
            prompt: Some(MAX_TOKENS + 1),
            ..Tokens::default()
        });
        assert_eq!(
            (tally.usage().units, tally.usage().doubted),
            (units, Some("prompt_tokens"))
        );
        let mut again = Tally::default();
        again.count_from_usage(&tally.usage());
        assert_eq!(again.usage().units, units);
    }

    #[test]
    fn a_sealed_thought_counts_until_upstream_counts() {
        let mut tally = Tally::default();
        let sealed = "A".repeat(400);
        // A part of it comes as text.
        tally.add_thought("12345678");
        tally.add_sealed_thought(&sealed);
        assert_eq!(tally.usage().completion, estimate_tokens(300));
        tally.add_sealed_thought(&sealed);
        assert_eq!(tally.usage().completion, estimate_tokens(600));
        tally.count(Tokens {
            prompt: Some(3),
            ..Tokens::default()
        });
        tally.add_sealed_thought(&sealed);
        assert_eq!(
            tally.usage().completion,
            estimate_tokens(900),
            "only the prompt was counted"
        );
        tally.count(Tokens {
            completion: Some(5),
            ..Tokens::default()
        });
        tally.add_sealed_thought(&sealed);
        assert_eq!(tally.usage().completion, 5);
    }
}
