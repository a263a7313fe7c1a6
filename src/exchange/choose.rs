//! A [`Search`] chooses the candidate that is tried next. It knows which candidates were tried, how
//! many attempts may be made, and why candidates were passed over. The producer uses it before each
//! attempt, and `explain` uses it as if each attempt failed.
//!
//! Of a candidate's live state it reads only whether the target was out of reach, or its endpoint
//! rests since it does not serve the model; its user asks the candidate for all else, and tells it
//! the result.

use crate::account::failure::UNREACHABLE;
use crate::account::target_health::Unavailable;
use crate::plan::{Candidate, Reach};
use dialects::neutral::Refused;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The search for one request.
pub struct Search<'c> {
    candidates: &'c [Candidate],
    /// The requests for which candidates are looked for now.
    pub reach: Reach,
    /// The number of attempts so far.
    pub tries: usize,
    /// The most attempts that may be made.
    max_attempts: usize,
    /// For each candidate's place, true if the candidate was tried, or can never be.
    struck: Vec<bool>,
    /// The targets that have refused the model for this request.
    refused: Vec<&'c Candidate>,
    /// The candidates that the last look passed over.
    pub passed: PassedOver,
    /// The reason why the first candidate that cannot do what is asked cannot do it.
    unable: Option<Refused>,
}

/// The reasons why one look passed candidates over.
#[derive(Default)]
pub struct PassedOver {
    /// The number of candidates that were passed over.
    pub count: usize,
    /// True if the account of one of them has the most requests that it may have.
    pub is_full: bool,
    /// True if one of them waits out a rate limit.
    has_limited: bool,
    /// True if the provider of one of them is overloaded, so that its breaker opened.
    has_overloaded: bool,
    /// True if one of them serves the model, and cannot be tried for another reason.
    has_busy: bool,
    /// The time until the first of them is back. Candidates that only the operator can bring back
    /// do not count.
    pub soonest: Option<Duration>,
    /// The time that the caller gets as `retry-after`. It is later than `soonest` if an account was
    /// out of reach.
    pub retry_after: Option<Duration>,
}

/// One look at the candidates, from the first to the last. A second round tries candidates whose
/// breaker keeps requests away, since no other is left.
#[derive(Default)]
pub struct CandidateScan<'c> {
    /// The candidate of the slow attempt that gets a hedge.
    running_candidate: Option<&'c Candidate>,
    next_index: usize,
    is_last_resort: bool,
}

/// A candidate whose turn it is.
pub struct Prospect<'c> {
    /// The candidate's place among the candidates.
    pub index: usize,
    /// The candidate.
    pub candidate: &'c Candidate,
    /// True if no other candidate is left.
    pub is_last_resort: bool,
}

/// The reasons why no candidate is tried.
pub enum NoCandidate {
    /// No candidate can do what is asked.
    Unable(Refused),
    /// Nothing changes before the operator acts.
    ForTheOperator,
    /// All candidates that serve the model wait out a rate limit.
    RateLimited,
    /// The providers of all of them are overloaded, or limit the rate.
    Overloaded,
    /// The candidates rest or are full.
    Busy,
}

impl<'c> CandidateScan<'c> {
    /// Begins a look for an attempt. If `running_candidate` is set, the attempt is a hedge of the
    /// attempt at that candidate.
    pub fn new(running_candidate: Option<&'c Candidate>) -> CandidateScan<'c> {
        CandidateScan {
            running_candidate,
            ..CandidateScan::default()
        }
    }
}

impl<'c> Search<'c> {
    /// Begins a search among these candidates, with at most `max_attempts` attempts.
    pub fn new(candidates: &'c [Candidate], max_attempts: usize) -> Search<'c> {
        let (struck, passed) = (vec![false; candidates.len()], PassedOver::default());
        Search {
            candidates,
            reach: Reach::Any,
            tries: 0,
            max_attempts,
            struck,
            refused: Vec::new(),
            passed,
            unable: None,
        }
    }

    /// Returns the next candidate of a look.
    pub fn next_candidate(&self, scan: &mut CandidateScan<'_>) -> Option<Prospect<'c>> {
        if self.is_exhausted() {
            return None;
        }
        loop {
            let (index, is_last_resort) = (scan.next_index, scan.is_last_resort);
            scan.next_index += 1;
            if let Some(candidate) = self.open_candidate(index, scan.running_candidate) {
                return Some(Prospect {
                    index,
                    candidate,
                    is_last_resort,
                });
            }
            if index >= self.candidates.len() {
                if is_last_resort || scan.running_candidate.is_some() {
                    return None;
                }
                *scan = CandidateScan {
                    is_last_resort: true,
                    ..CandidateScan::default()
                };
            }
        }
    }

    /// Returns whether all allowed attempts were made.
    pub fn is_exhausted(&self) -> bool {
        self.tries >= self.max_attempts
    }

    /// Returns whether a candidate for such requests may still be tried.
    pub fn has_candidate_for(&self, reach: Reach) -> bool {
        let mut places = self.candidates.iter().zip(&self.struck);
        places.any(|(one, struck)| !struck && one.reach == reach && self.may_ask(one))
            && !self.is_exhausted()
    }

    /// Returns whether a candidate may be asked. Another kind of endpoint stands in where the usual
    /// one does not serve the model: it rests for that, or has refused this request.
    fn may_ask(&self, candidate: &Candidate) -> bool {
        candidate.is_open()
            || candidate.instead_of.as_ref().is_some_and(|health| {
                let mut refused = self.refused.iter();
                refused.any(|one| Arc::ptr_eq(&one.health, health))
            })
    }

    /// Notes that a target has refused the model.
    pub fn note_refused(&mut self, target: &'c Candidate) {
        self.refused.push(target);
    }

    /// Returns the candidates that may still be tried.
    pub fn open_candidates(
        &self,
        running_candidate: Option<&Candidate>,
    ) -> impl Iterator<Item = &'c Candidate> {
        (0..self.candidates.len())
            .filter_map(move |index| self.open_candidate(index, running_candidate))
    }

    /// Returns the candidate at a place, if it may still be tried. Beside an attempt, it must be of
    /// another account and of the same model.
    pub fn open_candidate(
        &self,
        index: usize,
        running_candidate: Option<&Candidate>,
    ) -> Option<&'c Candidate> {
        let candidate = self.candidates.get(index)?;
        let may_join = running_candidate.is_none_or(|first| {
            first.ready_account.account.id != candidate.account().id
                && first.model.id == candidate.model.id
        });
        let is_struck = self.struck.get(index).is_none_or(|struck| *struck);
        let is_here = candidate.reach == self.reach && !is_struck && may_join;
        (is_here && self.may_ask(candidate)).then_some(candidate)
    }

    /// Strikes out the candidate at a place: it is not tried again.
    pub fn strike(&mut self, index: usize) {
        if let Some(struck) = self.struck.get_mut(index) {
            *struck = true;
        }
    }

    /// Strikes out a target. It may be a candidate for several reasons, and is tried only once.
    pub fn strike_target(&mut self, target: &Candidate) {
        for (candidate, struck) in self.candidates.iter().zip(&mut self.struck) {
            *struck |= Arc::ptr_eq(&candidate.health, &target.health);
        }
    }

    /// Lets a target be tried once more, with an attempt more than those that may be made.
    pub fn allow_again(&mut self, target: &Candidate) {
        for (candidate, struck) in self.candidates.iter().zip(&mut self.struck) {
            *struck &= !Arc::ptr_eq(&candidate.health, &target.health);
        }
        self.max_attempts += 1;
    }

    /// Notes why a candidate cannot do what is asked. Only the first reason is kept.
    pub fn note_unable(&mut self, refused: Refused) {
        self.unable.get_or_insert(refused);
    }

    /// Notes that a candidate cannot be tried now.
    pub fn pass_over(&mut self, turn: &Prospect<'_>, why: Unavailable, now: Instant) {
        let passed = &mut self.passed;
        // In the second round a candidate is counted already: it changes only when to come back.
        if !turn.is_last_resort {
            passed.count += 1;
            passed.is_full |= matches!(why, Unavailable::Full);
            passed.has_limited |= why.is_for_rate();
            let is_overloaded =
                matches!(why, Unavailable::Broken(_)) && turn.candidate.health.is_overloaded();
            passed.has_overloaded |= is_overloaded;
            passed.has_busy |= !why.is_for_rate() && !why.is_refused() && !is_overloaded;
        }
        let Some(wait) = why.wait(now).filter(|_| !why.is_for_the_operator()) else {
            return;
        };
        let soonest = passed.soonest.map_or(wait, |soonest| soonest.min(wait));
        passed.soonest = Some(soonest);
        // A server that restarts takes as long behind a breaker as without one.
        let is_out =
            matches!(why, Unavailable::Broken(_)) && turn.candidate.health.is_out_of_reach();
        let wait = if is_out {
            wait.max(Duration::from_secs(UNREACHABLE))
        } else {
            wait
        };
        let retry_after = passed.retry_after.map_or(wait, |soonest| soonest.min(wait));
        passed.retry_after = Some(retry_after);
    }

    /// Returns why no candidate is tried.
    pub fn why_none(&mut self, is_for_the_operator: bool) -> NoCandidate {
        match self.unable.take() {
            Some(refused) if self.passed.count == 0 => NoCandidate::Unable(refused),
            Some(_) | None if is_for_the_operator => NoCandidate::ForTheOperator,
            Some(_) | None if self.passed.has_overloaded && !self.passed.has_busy => {
                NoCandidate::Overloaded
            }
            Some(_) | None if self.passed.has_limited && !self.passed.has_busy => {
                NoCandidate::RateLimited
            }
            Some(_) | None => NoCandidate::Busy,
        }
    }
}
