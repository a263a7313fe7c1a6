//! A search chooses the candidate that is asked next. It knows who was asked, how many attempts may
//! be made, and why candidates were passed over. The producer goes by it before each attempt, and
//! `explain` goes by it as if each attempt failed.
//!
//! Pure: it reads no clock, and asks no candidate. Who searches does that, and tells it the result.

use crate::account::failure::UNREACHABLE;
use crate::account::track::Unavailable;
use crate::plan::{Candidate, Reach};
use dialects::neutral::Refused;
use std::time::{Duration, Instant};

/// The search for one request.
pub struct Search {
    /// For which requests candidates are looked for.
    pub reach: Reach,
    /// The attempts so far.
    pub tries: usize,
    /// The most attempts that may be made.
    most: usize,
    /// The places of those who were asked, or never can be.
    struck: Vec<bool>,
    /// Whom the last look passed over.
    pub passed: PassedOver,
    /// Why the first candidate that cannot do what is asked cannot do it.
    unable: Option<Refused>,
}

/// Why one look passed candidates over.
#[derive(Default)]
pub struct PassedOver {
    /// How many there are.
    pub count: usize,
    /// How many of them wait out a rate limit.
    for_rate: usize,
    /// When the first of them will be back; not those that only the operator can bring back.
    pub soonest: Option<Duration>,
    /// When the caller is told to come back: later than that, where an account was out of reach.
    pub retry_after: Option<Duration>,
}

/// One look at the candidates, from the first to the last. A second round asks those whose breaker
/// keeps requests away, since nobody else is left.
#[derive(Default)]
pub struct Look {
    /// The place of the attempt beside which another one is to begin.
    beside: Option<usize>,
    place: usize,
    is_last_resort: bool,
}

/// A candidate whose turn it is.
pub struct Prospect<'c> {
    /// Its place among the candidates.
    pub place: usize,
    /// The candidate.
    pub candidate: &'c Candidate,
    /// Nobody else is left.
    pub is_last_resort: bool,
}

/// Why nobody is asked.
pub enum Nobody {
    /// No candidate can do what is asked.
    Unable(Refused),
    /// Nothing changes before the operator acts.
    ForTheOperator,
    /// Each one waits out its rate limit.
    RateLimited,
    /// They rest or are full.
    Busy,
}

impl Look {
    /// Begins a look for an attempt; `beside`: for a second one beside the attempt at that place.
    pub fn new(beside: Option<usize>) -> Look {
        Look { beside, ..Look::default() }
    }
}

impl Search {
    /// Begins a search among so many candidates.
    pub fn new(candidates: usize, most: usize) -> Search {
        let (struck, passed) = (vec![false; candidates], PassedOver::default());
        Search { reach: Reach::Any, tries: 0, most, struck, passed, unable: None }
    }

    /// Returns the next candidate of a look.
    pub fn next<'c>(&self, look: &mut Look, candidates: &'c [Candidate]) -> Option<Prospect<'c>> {
        if self.is_exhausted() {
            return None;
        }
        loop {
            let (place, is_last_resort) = (look.place, look.is_last_resort);
            look.place += 1;
            match candidates.get(place) {
                Some(candidate) if self.is_open(candidates, place, look.beside) => {
                    return Some(Prospect { place, candidate, is_last_resort });
                }
                Some(_) => {}
                None if is_last_resort || look.beside.is_some() => return None,
                None => *look = Look { is_last_resort: true, ..Look::default() },
            }
        }
    }

    /// Tells whether as many attempts were made as may be.
    pub fn is_exhausted(&self) -> bool {
        self.tries >= self.most
    }

    /// Tells whether a candidate is there for such requests, and may still be asked.
    pub fn has(&self, reach: Reach, candidates: &[Candidate]) -> bool {
        let mut places = candidates.iter().zip(&self.struck);
        places.any(|(candidate, struck)| !struck && candidate.reach == reach) && !self.is_exhausted()
    }

    /// Returns the candidates that may still be asked.
    pub fn open<'c>(&self, candidates: &'c [Candidate], beside: Option<usize>) -> impl Iterator<Item = &'c Candidate> {
        let places = candidates.iter().enumerate();
        places.filter(move |(place, _)| self.is_open(candidates, *place, beside)).map(|(_, candidate)| candidate)
    }

    /// Tells whether the candidate at a place may still be asked. Beside an attempt it must be of
    /// another account, and of the same model.
    pub fn is_open(&self, candidates: &[Candidate], place: usize, beside: Option<usize>) -> bool {
        let Some(candidate) = candidates.get(place) else { return false };
        let may_join = |first: &Candidate| {
            first.place.account.id != candidate.place.account.id && first.model.id == candidate.model.id
        };
        candidate.reach == self.reach
            && self.struck.get(place).is_some_and(|struck| !struck)
            && beside.is_none_or(|first| candidates.get(first).is_some_and(may_join))
    }

    /// Strikes out the candidate at a place: it is not asked again.
    pub fn strike(&mut self, place: usize) {
        if let Some(struck) = self.struck.get_mut(place) {
            *struck = true;
        }
    }

    /// Notes why a candidate cannot do what is asked.
    pub fn unable(&mut self, refused: Refused) {
        self.unable.get_or_insert(refused);
    }

    /// Notes that a candidate cannot be asked now.
    pub fn pass(&mut self, turn: &Prospect<'_>, why: Unavailable, now: Instant) {
        let passed = &mut self.passed;
        // As the last resort it is asked sooner: that changes only when to come back.
        if !turn.is_last_resort {
            passed.count += 1;
            passed.for_rate += usize::from(why.is_for_rate());
        }
        let Some(wait) = why.wait(now).filter(|_| !why.is_for_the_operator()) else { return };
        let sooner = |soonest: Option<Duration>, wait: Duration| soonest.map_or(wait, |soonest| soonest.min(wait));
        passed.soonest = Some(sooner(passed.soonest, wait));
        // A server that starts again takes as long behind a breaker as without one.
        let is_out = matches!(why, Unavailable::Broken(_)) && turn.candidate.track.is_out_of_reach();
        let wait = if is_out { wait.max(Duration::from_secs(UNREACHABLE)) } else { wait };
        passed.retry_after = Some(sooner(passed.retry_after, wait));
    }

    /// Returns why nobody is asked.
    pub fn nobody(&mut self, is_for_the_operator: bool) -> Nobody {
        match self.unable.take() {
            Some(refused) if self.passed.count == 0 => Nobody::Unable(refused),
            Some(_) | None if is_for_the_operator => Nobody::ForTheOperator,
            Some(_) | None if self.passed.count > 0 && self.passed.for_rate == self.passed.count => Nobody::RateLimited,
            Some(_) | None => Nobody::Busy,
        }
    }
}
