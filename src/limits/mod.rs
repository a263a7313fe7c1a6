//! A limit says how much a caller, a key, or a key of one model may use in a time. A [`Scope`] is
//! one of these three, and counts its use.
//!
//! An exchange is admitted by all scopes that bound it, or by none. The limits reserve the most
//! that the exchange may use. When the exchange is settled, what it did use replaces the
//! reservation, in the second, day and month of the admission. Tokens beyond the reservation count
//! in the second of the end: they hold back the requests that come then. A scope outlives catalogs:
//! when the limits change, its counts stay.
//!
//! **Invariants:** a refusal takes nothing. A [`Reservation`] is settled exactly once; if it is
//! dropped, it is settled with nothing. Scopes are locked from the caller's down, only while they
//! count, and never all of them by one lock.

mod changes;
mod entry;
mod registry;
mod report;
mod standing;
pub mod tally;

pub use changes::Changes;
pub use entry::{Entry, enter_request};
pub use registry::{KeyLimits, KeyScopes, LastUsed, Limited, Past, Registry, SubjectScopes};
pub use report::scope_report;
pub use standing::{resets_at, standing_json};
pub use tally::{
    Ask, Counts, Kind, LimitsLeft, Measure, Moment, Over, OwnPart, Period, Reserved, Room, Spent,
    Used, WHOLE_LIMIT,
};

use crate::base::calendar::{DAY, Month};
use crate::base::lock::Lock;
use crate::conf::price::Usd;
use dialects::named_enum;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::{Arc, MutexGuard};
use tally::{Counted, Tally};

/// The amounts that may be used in a time. A minute is the last sixty whole seconds; days and
/// months are those of UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The amount that each kind of limit allows, in the order of the kinds.
    allowed: [Option<u64>; Kind::ALL.len()],
    /// How much of this a request reserves.
    pub reserve: Reserve,
}

named_enum! {
    /// How many tokens a request reserves for its answer until it ends.
    #[derive(Default, PartialOrd, Ord)]
    pub enum Reserve: Deserialize, JsonSchema {
        /// The most that the request asks for, but no more than twice what 99 of 100 answers of
        /// the model used in the last 30 to 60 minutes, as this gateway saw them. Requests that use
        /// more may exceed the limit; then it holds the next ones back.
        #[default]
        Typical = "usual",
        /// The most that the request asks for. Fewer requests run at once. The limit is not
        /// exceeded if three things hold: the request or the model sets `max_tokens`, no tool runs
        /// at the provider's server, and the prompt is not longer than estimated.
        Asked = "asked",
    }
}

impl Limits {
    /// Makes limits out of the amount that each kind allows. `None` is no limit.
    pub fn new(allowed: impl FnMut(Kind) -> Option<u64>, reserve: Reserve) -> Limits {
        Limits {
            allowed: Kind::ALL.map(allowed),
            reserve,
        }
    }

    /// Returns the limits with another one of this kind.
    #[cfg(test)]
    pub fn with(self, kind: Kind, allowed: Option<u64>) -> Limits {
        let mut limits = self;
        limits.allowed[kind as usize] = allowed;
        limits
    }

    /// Returns the amount that a kind of limit allows.
    pub fn allowed(&self, kind: Kind) -> Option<u64> {
        self.allowed.get(kind as usize).copied().flatten()
    }

    /// Returns whether one of these kinds is limited.
    fn has(&self, is_meant: impl Fn(Kind) -> bool) -> bool {
        let mut kinds = Kind::ALL.into_iter();
        kinds.any(|kind| is_meant(kind) && self.allowed(kind).is_some())
    }

    /// Returns whether nothing is limited.
    pub fn is_none(&self) -> bool {
        !self.has(|_| true)
    }

    /// Returns whether something is limited by the minute.
    pub fn by_minute(&self) -> bool {
        self.has(|kind| kind.period() == Period::Minute)
    }

    /// Returns whether something is limited by the day or the month.
    pub fn by_date(&self) -> bool {
        self.has(|kind| matches!(kind.period(), Period::Day | Period::Month))
    }

    /// Returns whether something is limited of which a request may reserve more than it uses.
    pub fn limits_use(&self) -> bool {
        self.has(|kind| kind.measure() != Measure::Requests)
    }

    /// Returns whether money is limited.
    pub fn limits_money(&self) -> bool {
        self.has(Kind::is_money)
    }
}

named_enum! {
    /// The kinds of scopes, from the outermost to the innermost.
    #[derive(PartialOrd, Ord)]
    pub enum Level {
        /// A caller, with all its keys together.
        Caller = "caller",
        /// A key.
        Key = "key",
        /// A key, for one model.
        KeyModel = "key_model",
    }
}

/// A caller, a key, or a key of one model, that has limits; and what is counted against them.
#[derive(Debug)]
pub struct Scope {
    /// The kind of the scope.
    pub level: Level,
    /// `acme`, `acme/prod`, or `acme/prod gpt-4o`.
    pub name: Arc<str>,
    tally: Lock<Tally>,
    shared: changes::Shared,
    unpriced: Lock<Unpriced>,
}

/// The number of requests of one month whose cost is not known.
#[derive(Debug, Default)]
struct Unpriced {
    /// The month's first day, as the number of days since 1970.
    month: u64,
    requests: u64,
}

impl Scope {
    /// Makes a scope that has counted nothing.
    pub fn new(level: Level, name: Arc<str>) -> Scope {
        Scope {
            level,
            name,
            tally: Lock::default(),
            shared: changes::Shared::default(),
            unpriced: Lock::default(),
        }
    }

    /// Returns the second, day and month in which an admission at `now_ms` would be counted.
    pub fn moment(&self, now_ms: u64) -> Moment {
        self.tally_at(now_ms).moment_at(now_ms)
    }

    /// Returns whether a day or month has come a second time, because a clock was set: then the
    /// store needs the scope's counts again. Returns true once for each time.
    pub fn came_again(&self, now_ms: u64) -> bool {
        self.tally_at(now_ms).came_again()
    }

    /// Returns what this gateway has counted.
    pub fn own_counts(&self, now_ms: u64) -> Counts {
        self.tally_at(now_ms).counts()
    }

    /// Notes that the sums of money lack this number of requests, since their cost is not known.
    fn lacks(&self, at_ms: u64, requests: u64) {
        let month = Month::containing(at_ms / DAY).first;
        let mut unpriced = self.unpriced.lock();
        if requests > 0 && month > unpriced.month {
            *unpriced = Unpriced { month, requests: 0 };
        }
        if month == unpriced.month {
            unpriced.requests = unpriced.requests.saturating_add(requests);
        }
    }

    /// Returns how many requests of this month the sums of money lack. These requests began before
    /// money was limited: since then all prices are known.
    pub fn unpriced(&self, now_ms: u64) -> u64 {
        let unpriced = self.unpriced.lock();
        if unpriced.month == Month::containing(now_ms / DAY).first {
            unpriced.requests
        } else {
            0
        }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock()
    }

    fn tally_at(&self, now_ms: u64) -> MutexGuard<'_, Tally> {
        let mut tally = self.tally();
        tally.advance(now_ms);
        tally
    }
}

/// Limits, and the scope whose use counts against them.
#[derive(Debug, Clone, Copy)]
pub struct Bound<'a> {
    /// The limits, as the exchange's catalog has them.
    pub limits: &'a Limits,
    /// The scope that is limited.
    pub scope: &'a Arc<Scope>,
}

/// The bounds of one exchange: at most one of each level.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bounds<'a>([Option<Bound<'a>>; 3]);

impl<'a> Bounds<'a> {
    /// Lists the bounds, the caller's first.
    pub fn iter(&self) -> impl Iterator<Item = &Bound<'a>> {
        self.0.iter().flatten()
    }

    /// Returns how much the exchange reserves: if one of the limits wants all that is asked for,
    /// all of them get it.
    pub fn reserve(&self) -> Reserve {
        self.iter()
            .map(|bound| bound.limits.reserve)
            .max()
            .unwrap_or_default()
    }

    /// Returns whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

/// Takes bounds in any order. If two have the same level, the last one counts.
impl<'a> FromIterator<Bound<'a>> for Bounds<'a> {
    fn from_iter<I: IntoIterator<Item = Bound<'a>>>(bounds: I) -> Bounds<'a> {
        let [mut caller, mut key, mut key_model] = [None; 3];
        for bound in bounds {
            match bound.scope.level {
                Level::Caller => caller = Some(bound),
                Level::Key => key = Some(bound),
                Level::KeyModel => key_model = Some(bound),
            }
        }
        Bounds([caller, key, key_model])
    }
}

/// The refusal of a request for which a limit has no room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitReached {
    /// The level of the limit's scope. If several limits have no room, this is the one with the
    /// longest wait.
    pub level: Level,
    /// The name of the limit's scope.
    pub name: Arc<str>,
    /// The limit.
    pub over: Over,
    /// The rest of all limits of the exchange.
    pub limits_left: LimitsLeft,
    /// The number of gateways that divide the limits. Unless it is 1, each gateway uses its part of
    /// each limit.
    pub share: u32,
}

impl LimitReached {
    /// Returns the refusal for the limit with the longest wait, or `None` if all have room. `left`
    /// returns what is left of all limits.
    pub fn worst<'s>(
        over: impl Iterator<Item = (&'s Arc<Scope>, Over)>,
        left: impl FnOnce() -> LimitsLeft,
        share: u64,
    ) -> Option<LimitReached> {
        let (scope, over) = over.reduce(|one, other| {
            if one.1.worse(other.1) == one.1 {
                one
            } else {
                other
            }
        })?;
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        Some(LimitReached {
            level: scope.level,
            name: scope.name.clone(),
            over,
            limits_left: left(),
            share,
        })
    }
}

/// Takes one request, one place and the amounts of `ask` from all bounds, or from none. `share` is
/// the number of gateways that divide each limit.
pub fn take_reservation(
    bounds: &Bounds<'_>,
    ask: Ask,
    now_ms: u64,
    share: u64,
) -> Result<Reservation, LimitReached> {
    let mut tallies = lock_tallies(bounds, now_ms);
    check_room(&tallies, ask, now_ms, share)?;
    let held = take_amounts(&mut tallies, ask, now_ms);
    let reservation = Reservation {
        limits_left: left_of_all(&tallies, share, now_ms),
        admitted_at: now_ms,
        ask,
        held_scopes: held,
    };
    drop(tallies);
    reservation.scopes().for_each(|scope| scope.changed());
    Ok(reservation)
}

/// Refuses a request for which a limit has no room at all, before its large body is read. Takes
/// nothing.
pub fn has_room(bounds: &Bounds<'_>, now_ms: u64) -> Result<(), LimitReached> {
    would_admit(bounds, Ask::exact(1, Usd(1)), now_ms)
}

/// Returns the refusal that `ask` would get now. Takes nothing.
pub fn would_admit(bounds: &Bounds<'_>, ask: Ask, now_ms: u64) -> Result<(), LimitReached> {
    check_room(&lock_tallies(bounds, now_ms), ask, now_ms, 1)
}

/// Refuses an ask for which one of the limits has no room.
fn check_room(tallies: &Locked<'_>, ask: Ask, now_ms: u64, share: u64) -> Result<(), LimitReached> {
    let over = tallies.iter().flatten().filter_map(|(bound, tally)| {
        let over = tally.exceeded_limit(bound.limits, share, ask, now_ms)?;
        Some((bound.scope, over))
    });
    LimitReached::worst(over, || left_of_all(tallies, share, now_ms), share).map_or(Ok(()), Err)
}

/// Returns what is left of all limits.
fn left_of_all(tallies: &Locked<'_>, share: u64, now_ms: u64) -> LimitsLeft {
    let each = tallies
        .iter()
        .flatten()
        .map(|(bound, tally)| tally.limits_left(bound.limits, share, now_ms));
    each.fold(LimitsLeft::default(), LimitsLeft::tightest)
}

/// Takes the amounts of `ask` without a check of the limits: the store has checked them, and `left`
/// is its answer. The store has counted the exchange at the moments `counted`. If a scope counts it
/// at another moment, the scope has changed, and tells the store so.
pub fn take_granted(
    bounds: &Bounds<'_>,
    ask: Ask,
    now_ms: u64,
    left: LimitsLeft,
    counted: &[Moment],
) -> Reservation {
    let mut tallies = lock_tallies(bounds, now_ms);
    let held = take_amounts(&mut tallies, ask, now_ms);
    let moments: Vec<Moment> = tallies
        .iter()
        .flatten()
        .map(|(_, tally)| tally.moment_at(now_ms))
        .collect();
    drop(tallies);
    let reservation = Reservation {
        limits_left: left,
        admitted_at: now_ms,
        ask,
        held_scopes: held,
    };
    let others = reservation
        .scopes()
        .zip(&moments)
        .enumerate()
        .filter(|(index, (_, moment))| counted.get(*index) != Some(*moment));
    others.for_each(|(_, (scope, _))| scope.changed());
    reservation
}

type Locked<'a> = [Option<(Bound<'a>, MutexGuard<'a, Tally>)>; 3];

/// Locks the tallies, and moves each to the present time. All callers lock them in this order, the
/// caller's before the key's: so no two wait for each other.
fn lock_tallies<'a>(bounds: &Bounds<'a>, now_ms: u64) -> Locked<'a> {
    bounds.0.map(|bound| {
        let bound = bound?;
        let mut tally = bound.scope.tally_at(now_ms);
        tally.watch(bound.limits);
        Some((bound, tally))
    })
}

fn take_amounts(tallies: &mut Locked<'_>, ask: Ask, now_ms: u64) -> [Option<Held>; 3] {
    tallies.each_mut().map(|locked| {
        let (bound, tally) = locked.as_mut()?;
        bound.scope.note_use();
        Some(Held {
            entry: tally.take_at(ask, now_ms),
            scope: bound.scope.clone(),
        })
    })
}

#[derive(Debug)]
struct Held {
    scope: Arc<Scope>,
    entry: Counted,
}

/// The most that an exchange is expected to use. If it is dropped, it is settled with nothing.
#[derive(Debug)]
#[must_use]
pub struct Reservation {
    /// The rest of the limits that was left for others after this was taken.
    pub limits_left: LimitsLeft,
    /// The time of the admission, in milliseconds of Unix time.
    pub admitted_at: u64,
    /// The amounts that were asked for.
    pub ask: Ask,
    held_scopes: [Option<Held>; 3],
}

impl Reservation {
    /// Gives the places back, and replaces the reserved amounts by those that were used, less or
    /// more. `now_ms` is the end of the exchange.
    pub fn settle(mut self, spent: Spent, now_ms: u64) {
        // What nobody has reserved is not counted anywhere else yet.
        let is_beyond = spent.tokens > self.ask.tokens || spent.usd > self.ask.usd;
        self.end(is_beyond, |tally, entry, ask| {
            tally.advance(now_ms);
            tally.settle(entry, ask, spent);
        });
    }

    /// Lists the scopes that the reservation was taken from, the caller's first.
    pub fn scopes(&self) -> impl Iterator<Item = &Arc<Scope>> {
        self.held_scopes.iter().flatten().map(|held| &held.scope)
    }

    /// Takes everything back, as if nothing had been reserved: the request's sender waits no more.
    pub fn undo(mut self) {
        self.end(true, Tally::undo);
    }

    /// Ends the reservation in each scope that still holds it. The store gets that at once if
    /// `is_urgent`.
    fn end(&mut self, is_urgent: bool, how: impl Fn(&mut Tally, Counted, Ask)) {
        for Held { scope, entry } in self.held_scopes.iter_mut().filter_map(Option::take) {
            how(&mut scope.tally(), entry, self.ask);
            scope.settled(is_urgent);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.end(false, |tally, entry, ask| {
            tally.settle(entry, ask, Spent::default());
        });
    }
}

#[cfg(test)]
mod tests;
