//! A limit says how much a caller, a key, or a key of one model may use in a time. A [`Scope`] is
//! one of these three, and counts its use.
//!
//! An exchange is admitted by all scopes that bound it, or by none. The limits reserve what the
//! exchange may use. When the exchange is settled, what it did use replaces the reservation, in the
//! second, day and month of the admission. A scope outlives catalogs: changed limits go on with
//! what is counted.
//!
//! **Invariants:** a refusal takes nothing. A [`Reservation`] is settled exactly once; if it is
//! dropped, it is settled with nothing. Scopes are locked from the caller's down, only while they
//! count, and never all of them by one lock.

pub mod changes;
mod entry;
pub mod registry;
mod report;
pub mod tally;

pub use changes::Changes;
pub use entry::{Entry, enter};
pub use registry::{KeyLimits, KeyScopes, LastUsed, Limited, Past, Registry};
pub use report::report;
pub use tally::{Ask, Counts, Kind, Left, Moment, Over, Reserved, Room, Spent};

use crate::base::calendar::{DAY, Month};
use crate::base::lock::Lock;
use crate::conf::price::Usd;
use std::sync::{Arc, MutexGuard};
use tally::{Counted, Tally};

/// How much may be used. A minute is the last sixty whole seconds; days and months are UTC's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Chat completions that begin within a minute.
    pub requests_per_minute: Option<u64>,
    /// Chat completions that begin on a day.
    pub requests_per_day: Option<u64>,
    /// Tokens of those that begin within a minute.
    pub tokens_per_minute: Option<u64>,
    /// Tokens of those that begin on a day.
    pub tokens_per_day: Option<u64>,
    /// Chat completions at once.
    pub concurrency: Option<u64>,
    /// What those that begin on a day may cost.
    pub usd_per_day: Option<Usd>,
    /// What those that begin on a month may cost.
    pub usd_per_month: Option<Usd>,
}

impl Limits {
    /// Returns whether nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Limits::default()
    }

    /// Returns whether something is limited by the minute.
    pub fn by_minute(&self) -> bool {
        self.requests_per_minute.is_some() || self.tokens_per_minute.is_some()
    }

    /// Returns whether something is limited by the day or the month.
    pub fn by_date(&self) -> bool {
        self.requests_per_day.is_some() || self.tokens_per_day.is_some() || self.limits_money()
    }

    /// Returns whether money is.
    pub fn limits_money(&self) -> bool {
        self.usd_per_day.is_some() || self.usd_per_month.is_some()
    }
}

/// What limits are written for, from the outermost in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// A caller: all its keys together.
    Caller,
    /// A key.
    Key,
    /// A key, and the model it asks for.
    KeyModel,
}

impl Level {
    /// Returns the word that metrics use.
    pub fn name(self) -> &'static str {
        match self {
            Level::Caller => "caller",
            Level::Key => "key",
            Level::KeyModel => "key_model",
        }
    }
}

/// A caller, a key, or a model of a key, that has limits; and what is counted against them.
#[derive(Debug)]
pub struct Scope {
    /// Which of them.
    pub level: Level,
    /// `acme`, `acme/prod`, or `acme/prod gpt-4o`.
    pub name: Arc<str>,
    tally: Lock<Tally>,
    shared: changes::Shared,
    unpriced: Lock<Unpriced>,
}

/// Requests of one month whose cost nobody knows.
#[derive(Debug, Default)]
struct Unpriced {
    /// As its first day since 1970.
    month: u64,
    requests: u64,
}

impl Scope {
    /// Makes a scope that has counted nothing.
    pub fn new(level: Level, name: Arc<str>) -> Scope {
        Scope { level, name, tally: Lock::default(), shared: changes::Shared::default(), unpriced: Lock::default() }
    }

    /// Returns the second, day and month in which an admission would be counted now.
    pub fn moment(&self, now_ms: u64) -> Moment {
        self.tally_at(now_ms).moment()
    }

    /// Returns whether a date has come again, since a clock was set: then the store needs its
    /// counts again. Returns true once for each time.
    pub fn came_again(&self, now_ms: u64) -> bool {
        self.tally_at(now_ms).came_again()
    }

    /// Returns what is counted now.
    pub fn own(&self, now_ms: u64) -> Counts {
        self.tally_at(now_ms).counts()
    }

    /// Notes that nobody knows what so many requests cost: the sums of money lack that.
    fn lacks(&self, at_ms: u64, requests: u64) {
        let month = Month::of(at_ms / DAY).first;
        let mut unpriced = self.unpriced.lock();
        if requests > 0 && month > unpriced.month {
            *unpriced = Unpriced { month, requests: 0 };
        }
        if month == unpriced.month {
            unpriced.requests = unpriced.requests.saturating_add(requests);
        }
    }

    /// Returns how many requests of this month the sums of money lack. They are from before money
    /// was limited: since then all prices are known.
    pub fn unpriced(&self, now_ms: u64) -> u64 {
        let unpriced = self.unpriced.lock();
        if unpriced.month == Month::of(now_ms / DAY).first { unpriced.requests } else { 0 }
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

/// Limits, and what is counted against them.
#[derive(Debug, Clone, Copy)]
pub struct Bound<'a> {
    /// As the exchange's catalog has them.
    pub limits: &'a Limits,
    /// What they limit.
    pub scope: &'a Arc<Scope>,
}

/// What bounds one exchange: at most one of each level.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bounds<'a>([Option<Bound<'a>>; 3]);

impl<'a> Bounds<'a> {
    /// Lists the bounds, from the caller's down.
    pub fn iter(&self) -> impl Iterator<Item = &Bound<'a>> {
        self.0.iter().flatten()
    }

    /// Returns whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

/// Takes bounds in any order. Of two of the same level the last one counts.
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
    /// Whose limit it is: of several the one that has to be waited for longest.
    pub level: Level,
    /// The scope's name.
    pub name: Arc<str>,
    /// The limit.
    pub over: Over,
    /// What is left of all of them.
    pub left: Left,
    /// How many share the limits; each goes by its part, unless it is 1.
    pub share: u32,
}

impl LimitReached {
    /// Returns the refusal for the limit that has to be waited for longest, if one has no room.
    /// `left` says what is left of all limits.
    pub fn worst<'s>(
        over: impl Iterator<Item = (&'s Arc<Scope>, Over)>,
        left: impl FnOnce() -> Left,
        share: u64,
    ) -> Option<LimitReached> {
        let (scope, over) = over.reduce(|one, other| if one.1.worse(other.1) == one.1 { one } else { other })?;
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        Some(LimitReached { level: scope.level, name: scope.name.clone(), over, left: left(), share })
    }
}

/// Takes one request, one place and what is asked for from all bounds, or from none. `share` is the
/// number of gateways that divide each limit.
pub fn admit(bounds: &Bounds<'_>, ask: Ask, now_ms: u64, share: u64) -> Result<Reservation, LimitReached> {
    let mut tallies = locked(bounds, now_ms);
    let left = |tallies: &Locked<'_>| {
        let each = tallies.iter().flatten().map(|(bound, tally)| tally.left(bound.limits, share, now_ms));
        each.fold(Left::default(), Left::and)
    };
    let over = |(bound, tally): &(Bound<'_>, MutexGuard<'_, Tally>)| tally.over(bound.limits, share, ask, now_ms);
    let over = tallies.iter().flatten().filter_map(|locked| Some((locked.0.scope, over(locked)?)));
    if let Some(reached) = LimitReached::worst(over, || left(&tallies), share) {
        return Err(reached);
    }
    let held = take(&mut tallies, ask, now_ms);
    let reservation = Reservation { left: left(&tallies), at: now_ms, ask, held };
    drop(tallies);
    reservation.scopes().for_each(|scope| scope.changed());
    Ok(reservation)
}

/// Takes what is asked for without asking the limits: the store did, and says what is left. The
/// store has counted it at the moments `counted`. A scope that counts it at another moment has
/// changed, and tells the store so.
pub fn take_granted(bounds: &Bounds<'_>, ask: Ask, now_ms: u64, left: Left, counted: &[Moment]) -> Reservation {
    let mut tallies = locked(bounds, now_ms);
    let held = take(&mut tallies, ask, now_ms);
    let moments: Vec<Moment> = tallies.iter().flatten().map(|(_, tally)| tally.moment()).collect();
    drop(tallies);
    let reservation = Reservation { left, at: now_ms, ask, held };
    let others = reservation
        .scopes()
        .zip(&moments)
        .enumerate()
        .filter(|(place, (_, moment))| counted.get(*place) != Some(*moment));
    others.for_each(|(_, (scope, _))| scope.changed());
    reservation
}

type Locked<'a> = [Option<(Bound<'a>, MutexGuard<'a, Tally>)>; 3];

/// Locks the tallies, and takes each to the present time. All callers lock them in this order, a
/// key's under its caller's: no two wait for each other.
fn locked<'a>(bounds: &Bounds<'a>, now_ms: u64) -> Locked<'a> {
    bounds.0.map(|bound| {
        let bound = bound?;
        let mut tally = bound.scope.tally_at(now_ms);
        tally.watch(bound.limits);
        Some((bound, tally))
    })
}

fn take(tallies: &mut Locked<'_>, ask: Ask, now_ms: u64) -> [Option<Held>; 3] {
    tallies.each_mut().map(|locked| {
        let (bound, tally) = locked.as_mut()?;
        Some(Held { entry: tally.take_at(ask, now_ms), scope: bound.scope.clone() })
    })
}

#[derive(Debug)]
struct Held {
    scope: Arc<Scope>,
    entry: Counted,
}

/// What an exchange may use. When it is dropped, it is settled with nothing.
#[derive(Debug)]
#[must_use]
pub struct Reservation {
    /// What was left for others once it was taken.
    pub left: Left,
    /// When it was admitted, in milliseconds of Unix time.
    pub at: u64,
    /// What was asked for.
    pub ask: Ask,
    held: [Option<Held>; 3],
}

impl Reservation {
    /// Gives the places back, and replaces what was reserved by what was used, less or more.
    pub fn settle(mut self, spent: Spent) {
        self.end(|tally, entry, ask| tally.settle(entry, ask, spent));
    }

    /// Lists the scopes that it was taken from, from the caller's down.
    pub fn scopes(&self) -> impl Iterator<Item = &Arc<Scope>> {
        self.held.iter().flatten().map(|held| &held.scope)
    }

    /// Takes everything back, as if nothing had been reserved: nobody waits for the request.
    pub fn undo(mut self) {
        self.end(Tally::undo);
    }

    /// Ends the reservation in each scope that still holds it.
    fn end(&mut self, how: impl Fn(&mut Tally, Counted, Ask)) {
        for Held { scope, entry } in self.held.iter_mut().filter_map(Option::take) {
            how(&mut scope.tally(), entry, self.ask);
            scope.changed();
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.end(|tally, entry, ask| tally.settle(entry, ask, Spent::default()));
    }
}

#[cfg(test)]
mod tests;
