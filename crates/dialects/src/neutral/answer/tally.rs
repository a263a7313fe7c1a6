//! What an answer cost: as the upstream counted it, if that can be; else an estimate of what was
//! told.

use super::AnswerHeader;
use crate::neutral::Tokens;
use crate::neutral::price::{ShowCost, Usd};
use crate::neutral::usage::{MOST, Source, Usage, estimate};

/// The counts so far.
#[derive(Debug)]
pub(crate) struct Tally {
    tokens: Tokens,
    /// What of the upstream's last counts no answer can have: then none of them is kept.
    doubted: Option<&'static str>,
    prompt_bytes: u64,
    /// UTF-8 bytes told, shown or not.
    said: u64,
    /// How many of these the upstream's count of the completion covers.
    covered: u64,
    cost: ShowCost,
}

impl Tally {
    pub(crate) fn new(header: &AnswerHeader) -> Self {
        Self {
            tokens: Tokens::default(),
            doubted: None,
            prompt_bytes: header.prompt_bytes,
            said: 0,
            covered: 0,
            cost: header.cost,
        }
    }

    /// Something was told.
    #[inline]
    pub(crate) fn say(&mut self, text: &str) {
        self.said = self.said.saturating_add(text.len() as u64);
    }

    /// Takes the upstream's counts; the last ones count. Where both are zero nothing was counted.
    pub(crate) fn count(&mut self, tokens: Tokens) {
        self.doubted = doubted(&tokens);
        if self.doubted.is_some() {
            self.tokens = Tokens::default();
            return;
        }
        if tokens.prompt.unwrap_or(0) == 0 && tokens.completion.unwrap_or(0) == 0 {
            return;
        }
        if tokens.completion.is_some() {
            self.covered = self.said;
        }
        self.tokens = Tokens {
            prompt: tokens.prompt.or(self.tokens.prompt),
            completion: tokens.completion.or(self.tokens.completion),
            cached: tokens.cached.or(self.tokens.cached),
            cache_write: tokens.cache_write.or(self.tokens.cache_write),
            reasoning: tokens.reasoning.or(self.tokens.reasoning),
        };
    }

    /// Whether the upstream has counted anything.
    pub(crate) fn is_counted(&self) -> bool {
        self.tokens.prompt.or(self.tokens.completion).is_some()
    }

    /// What a whole answer cost. No part is more than the whole that it is of.
    pub(crate) fn usage(&self) -> Usage {
        let tokens = &self.tokens;
        let prompt = tokens.prompt.unwrap_or_else(|| estimate(self.prompt_bytes));
        let counted = self.completion();
        let completion = counted.unwrap_or_else(|| estimate(self.said));
        let cached = tokens.cached.unwrap_or(0).min(prompt);
        Usage {
            prompt,
            completion,
            cached,
            cache_write: tokens.cache_write.unwrap_or(0).min(prompt - cached),
            reasoning: tokens.reasoning.unwrap_or(0).min(completion),
            source: if tokens.prompt.and(counted).is_some() { Source::Reported } else { Source::Estimated },
            doubted: self.doubted,
        }
    }

    /// The upstream's count of what it wrote. None, where it says that it wrote nothing and did.
    fn completion(&self) -> Option<u64> {
        self.tokens.completion.filter(|count| *count > 0 || self.said == 0)
    }

    /// What an answer cost that was cut: some count as they go, and here the last count is missing.
    pub(crate) fn so_far(&self) -> Usage {
        let usage = self.usage();
        match self.completion() {
            Some(counted) if self.said > self.covered => {
                let completion = counted.saturating_add(estimate(self.said - self.covered));
                Usage { completion, source: Source::Estimated, ..usage }
            }
            Some(_) | None => usage,
        }
    }

    /// Returns the upstream's own counts, by which a writer sees what is known.
    pub(crate) fn counted(&self) -> &Tokens {
        &self.tokens
    }

    /// Returns what a whole answer cost, if that is shown.
    pub(crate) fn cost(&self) -> Option<Usd> {
        self.cost.of(&self.usage())
    }
}

/// What is no number of tokens, be it a sum of some that were: by the name that callers know.
fn doubted(tokens: &Tokens) -> Option<&'static str> {
    let counts = [
        ("prompt_tokens", tokens.prompt),
        ("completion_tokens", tokens.completion),
        ("cached_tokens", tokens.cached),
        ("cache_write_tokens", tokens.cache_write),
        ("reasoning_tokens", tokens.reasoning),
    ];
    counts.into_iter().find(|(_, count)| count.is_some_and(|count| count > MOST)).map(|(name, _)| name)
}
