//! A [`Meter`] knows what a running exchange has used so far. The ledger writes this down as it
//! grows, so that a process that is killed loses seconds of it, and not all.
//!
//! The producer tells the meter which candidate is tried, and which attempt has ended. The meter
//! reads what an attempt has used off the attempt's own progress when the ledger looks. So a stream
//! pays for the meter with one store per chunk. **Invariant:** the usage and the cost of the
//! meter's row are those that the exchange's row would have if the caller left now.

use super::progress::Progress;
use crate::base::lock::Lock;
use crate::conf::price::{Price, Usd};
use crate::ledger::{Row, Runs};
use crate::plan::Candidate;
use crate::settled::{Tried, Unused, whole_millis};
use dialects::usage::{Source, Usage};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The meter of one exchange. The default is for a probe, whose row is not read.
#[derive(Default)]
pub struct Meter {
    /// The row as it was when the exchange was admitted.
    admitted_row: Row,
    /// The bytes from which the prompt's tokens are estimated if they are not counted.
    prompt_bytes: u64,
    /// The time at which the request's head arrived.
    began: Option<Instant>,
    is_claimed: AtomicBool,
    state: Lock<MeterState>,
}

#[derive(Default)]
struct MeterState {
    /// The targets that are tried, or have answered: no more than two race.
    tried: [Option<Asked>; 2],
    /// More of them, if the request was cut into slices that are asked for side by side.
    more_tried: Vec<Asked>,
    /// True if the request was cut into slices. Then all that they used is the exchange's own.
    sums: bool,
    /// The use of the slices that were answered.
    answered_slices: Option<Done>,
    attempts: u32,
    unused: Unused,
}

/// The use of slices, and who answered the first of them.
struct Done {
    account: Arc<str>,
    upstream_model: Arc<str>,
    usage: Usage,
    cost: Option<Usd>,
}

struct Asked {
    account: Arc<str>,
    upstream_model: Arc<str>,
    price: Option<Price>,
    progress: Arc<Progress>,
}

impl Meter {
    /// Makes the meter of an exchange that begins with this row.
    pub fn new(begun: Row, prompt_bytes: u64, began: Instant) -> Meter {
        Meter {
            admitted_row: begun,
            prompt_bytes,
            began: Some(began),
            ..Meter::default()
        }
    }

    /// Returns the time from the request's head to a moment.
    pub(super) fn since_head(&self, moment: Instant) -> Duration {
        self.began.map_or(Duration::ZERO, |began| {
            moment.saturating_duration_since(began)
        })
    }

    /// Notes that the request is cut into slices.
    pub(super) fn mark_sliced(&self) {
        self.state.lock().sums = true;
    }

    /// Returns whether an attempt at a slice has begun.
    pub(super) fn has_begun_slice(&self) -> bool {
        let state = self.state.lock();
        state.sums && state.attempts > 0
    }

    /// Notes that an attempt begins.
    pub(super) fn note_attempt(&self, candidate: &Candidate, progress: &Arc<Progress>) {
        let mut state = self.state.lock();
        state.attempts = state.attempts.saturating_add(1);
        state.add_asked(candidate, progress);
    }

    /// Notes that an answer that was in the trail is used after all.
    pub(super) fn note_wanted(
        &self,
        candidate: &Candidate,
        progress: &Arc<Progress>,
        trail: &[Tried],
    ) {
        let mut state = self.state.lock();
        state.unused = Unused::from_trail(trail);
        state.add_asked(candidate, progress);
    }

    /// Notes that an attempt has ended. `used` is what counts as the exchange's own usage. Without
    /// it, what the attempt used is in the trail, or is nothing.
    pub(super) fn note_end(&self, progress: &Progress, used: Option<Usage>, trail: &[Tried]) {
        let mut state = self.state.lock();
        if state.sums {
            return state.note_end(progress, used, trail);
        }
        state.unused = Unused::from_trail(trail);
        match used {
            Some(used) => progress.lock().usage = used,
            None => {
                for slot in &mut state.tried {
                    slot.take_if(|asked| asked.is_of(progress));
                }
            }
        }
    }
}

impl Asked {
    fn is_of(&self, progress: &Progress) -> bool {
        std::ptr::eq(&raw const *self.progress, progress)
    }
}

impl MeterState {
    /// Notes that an attempt at a slice has ended.
    fn note_end(&mut self, progress: &Progress, used: Option<Usage>, trail: &[Tried]) {
        let last = Unused::from_trail(trail.last().map(std::slice::from_ref).unwrap_or_default());
        self.unused.add(last.tokens, last.cost);
        let first = self
            .tried
            .iter_mut()
            .find_map(|slot| slot.take_if(|asked| asked.is_of(progress)));
        let asked = first.or_else(|| {
            self.more_tried
                .extract_if(.., |asked| asked.is_of(progress))
                .next()
        });
        if let Some((
            used,
            Asked {
                account,
                upstream_model,
                price,
                ..
            },
        )) = used.zip(asked)
        {
            let cost = price.map(|price| price.cost(&used));
            let before = self.answered_slices.take();
            let before = before.unwrap_or(Done {
                account,
                upstream_model,
                usage: Usage::default(),
                cost: Some(Usd::ZERO),
            });
            let cost = before.cost.zip(cost).map(|(sum, more)| sum.plus(more));
            self.answered_slices = Some(Done {
                usage: before.usage.and(used),
                cost,
                ..before
            });
        }
    }

    fn add_asked(&mut self, candidate: &Candidate, progress: &Arc<Progress>) {
        let asked = Asked {
            account: candidate.account().id.clone(),
            upstream_model: candidate.upstream_model.clone(),
            price: candidate.price,
            progress: progress.clone(),
        };
        if let Some(free) = self.tried.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(asked);
        } else {
            self.more_tried.push(asked);
        }
    }
}

impl Runs for Meter {
    fn claim(&self) -> bool {
        !self.is_claimed.swap(true, Ordering::AcqRel)
    }

    fn so_far(&self) -> Row {
        let state = self.state.lock();
        let first = state.tried.iter().flatten().next();
        let mut row = Row {
            account: first.map(|asked| asked.account.clone()),
            upstream_model: first.map(|asked| asked.upstream_model.clone()),
            attempts: state.attempts,
            total_ms: self.began.map_or(0, |began| whole_millis(began.elapsed())),
            ..self.admitted_row.clone()
        };
        if let Some(done) = &state.answered_slices {
            (row.account, row.upstream_model) = (
                Some(done.account.clone()),
                Some(done.upstream_model.clone()),
            );
            (row.usage, row.cost) = (done.usage, done.cost);
        }
        let mut unused = state.unused;
        for asked in state.tried.iter().flatten().chain(&state.more_tried) {
            let Some(used) = asked.progress.spent(self.prompt_bytes) else {
                continue;
            };
            // The prompt of a slice is unknown here, so what is not reported yet is left out.
            if state.sums && used.source != Source::Reported {
                continue;
            }
            let cost = asked.price.map(|price| price.cost(&used));
            // Only one attempt counts as the exchange's own, though two may run.
            if row.usage.source == Source::None {
                (row.usage, row.cost) = (used, cost);
                (row.account, row.upstream_model) = (
                    Some(asked.account.clone()),
                    Some(asked.upstream_model.clone()),
                );
                // The head has left with the first piece that counts.
                row.status = if row.stream && asked.progress.times().first_byte.is_some() {
                    200
                } else {
                    0
                };
            } else if state.sums {
                row.usage = row.usage.and(used);
                row.cost = row.cost.zip(cost).map(|(sum, more)| sum.plus(more));
            } else {
                unused.add(used.total(), cost);
            }
        }
        (row.unused_tokens, row.unused_cost) = (unused.tokens, unused.cost);
        row
    }
}
