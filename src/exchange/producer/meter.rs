//! What a running exchange has used so far, for the ledger to write down as it grows: a process
//! that is killed loses seconds of it, and not all.
//!
//! The producer says who is asked, and whose attempt has ended; what an attempt has used is read
//! off its own progress when the ledger looks. So a stream pays for it by one store a chunk.
//! **Invariant:** what this tells is what the record would tell if the caller left now.

use super::opening::Progress;
use crate::access_log::Tried;
use crate::error::Outcome;
use crate::exchange::record::millis;
use crate::ledger::{Row, Runs};
use crate::plan::Candidate;
use crate::price::{Price, Usd};
use dialects::usage::{Source, Usage};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The meter of one exchange.
pub struct Meter {
    who: Who,
    state: Mutex<State>,
}

/// What is known of an exchange when it is admitted.
#[expect(missing_docs, reason = "as in the ledger's row")]
#[derive(Default)]
pub struct Who {
    pub at: u64,
    pub request_id: String,
    pub caller: Arc<str>,
    pub key: Arc<str>,
    pub model: Arc<str>,
    pub stream: bool,
    /// What the prompt's tokens are estimated from where nobody counts them.
    pub prompt_bytes: u64,
    /// When its head was there.
    pub began: Option<Instant>,
}

#[derive(Default)]
struct State {
    /// Those who are asked, or have answered: no more than two race.
    asked: [Option<Asked>; 2],
    attempts: u32,
    unused: Unused,
}

struct Asked {
    account: Arc<str>,
    upstream_model: Arc<str>,
    price: Option<Price>,
    progress: Arc<Progress>,
}

/// What may be charged for answers that nobody got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unused {
    /// Their tokens.
    pub tokens: u64,
    /// What those cost. None: nobody knows.
    pub cost: Option<Usd>,
}

impl Default for Unused {
    fn default() -> Unused {
        Unused { tokens: 0, cost: Some(Usd::ZERO) }
    }
}

impl Unused {
    /// Of a trail of attempts.
    pub fn of(trail: &[Tried]) -> Unused {
        let mut unused = Unused::default();
        for tried in trail {
            let tokens = tried.prompt_tokens.unwrap_or(0).saturating_add(tried.completion_tokens.unwrap_or(0));
            unused.add(tokens, tried.cost.flatten());
        }
        unused
    }

    /// One whose price is unknown makes the sum unknown.
    fn add(&mut self, tokens: u64, cost: Option<Usd>) {
        if tokens > 0 {
            self.tokens = self.tokens.saturating_add(tokens);
            self.cost = self.cost.zip(cost).map(|(sum, cost)| sum.plus(cost));
        }
    }
}

impl Meter {
    /// Nobody is asked yet.
    pub fn new(who: Who) -> Meter {
        Meter { who, state: Mutex::default() }
    }

    /// An attempt begins.
    pub(super) fn asked(&self, candidate: &Candidate, progress: &Arc<Progress>) {
        let mut state = self.lock();
        state.attempts = state.attempts.saturating_add(1);
        state.place(candidate, progress);
    }

    /// An answer that was in the trail is wanted after all.
    pub(super) fn wanted(&self, candidate: &Candidate, progress: &Arc<Progress>, trail: &[Tried]) {
        let mut state = self.lock();
        state.unused = Unused::of(trail);
        state.place(candidate, progress);
    }

    /// An attempt has ended. `used` is what counts as the exchange's own; else it is in the trail,
    /// or nothing.
    pub(super) fn ended(&self, progress: &Progress, used: Option<Usage>, trail: &[Tried]) {
        let mut state = self.lock();
        state.unused = Unused::of(trail);
        match used {
            Some(used) => progress.used(used),
            None => {
                for place in &mut state.asked {
                    place.take_if(|asked| std::ptr::eq(&raw const *asked.progress, progress));
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn place(&mut self, candidate: &Candidate, progress: &Arc<Progress>) {
        let asked = Asked {
            account: candidate.place.account.id.clone(),
            upstream_model: candidate.upstream_model.clone(),
            price: candidate.price,
            progress: progress.clone(),
        };
        if let Some(free) = self.asked.iter_mut().find(|place| place.is_none()) {
            *free = Some(asked);
        }
    }
}

impl Runs for Meter {
    fn so_far(&self) -> Row {
        let Who { at, request_id, caller, key, model, stream, prompt_bytes, began } = &self.who;
        let state = self.lock();
        let first = state.asked.iter().flatten().next();
        let mut row = Row {
            at: *at,
            request_id: request_id.clone(),
            caller: caller.clone(),
            key: key.clone(),
            model: model.clone(),
            account: first.map(|asked| asked.account.clone()),
            upstream_model: first.map(|asked| asked.upstream_model.clone()),
            usage: Usage::default(),
            cost: Some(Usd::ZERO),
            unused_tokens: 0,
            unused_cost: None,
            outcome: Outcome::Shutdown.name(),
            attempts: state.attempts,
            stream: *stream,
            status: 0,
            total_ms: began.map_or(0, |began| millis(began.elapsed())),
            first_byte_ms: None,
            run: None,
        };
        let mut unused = state.unused;
        for asked in state.asked.iter().flatten() {
            let Some(used) = asked.progress.spent(*prompt_bytes) else { continue };
            let cost = asked.price.map(|price| price.cost(&used));
            // Once, though two are asked.
            if row.usage.source == Source::None {
                (row.usage, row.cost) = (used, cost);
                (row.account, row.upstream_model) = (Some(asked.account.clone()), Some(asked.upstream_model.clone()));
                // The head has left with the first that counts.
                row.status = if *stream && asked.progress.timing().1.is_some() { 200 } else { 0 };
            } else {
                unused.add(used.total(), cost);
            }
        }
        (row.unused_tokens, row.unused_cost) = (unused.tokens, unused.cost);
        row
    }
}
