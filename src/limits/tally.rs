//! What one caller, key, or model of a key has used of late, counted against its limits.
//!
//! Pure: the time is passed in, as milliseconds of Unix time. A minute is sixty whole seconds in a
//! ring. Days and months are UTC's, and each is counted by itself, as the ledger does: a date that
//! comes again, since a clock was set, goes on with what it had. While a clock is set back, what it
//! counted on later dates counts for the present one, too. A clock that goes back by a moment stops
//! the tally's time until it has caught up. **Invariant:** whatever the clock does, a date's sums
//! are those of what was admitted on it, and nothing that was counted is free again because a clock
//! went back.

mod dates;
mod kind;
mod minute;

use super::Limits;
use crate::base::calendar::{DAY, Month};
use crate::conf::price::Usd;
use dates::{Dates, Sums};
pub use kind::Kind;
use minute::{Count, Minute};
use std::time::Duration;

/// What an exchange may come to use, besides one request and one place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ask {
    /// The prompt's, and as many as the answer may have.
    pub tokens: u64,
    /// What they cost at most.
    pub usd: Usd,
    /// Of both, what the request itself asks for. The rest is an estimate of ours, which may be too
    /// much.
    pub sure: Spent,
}

impl Ask {
    /// So much, and nothing of it is an estimate.
    pub const fn of(tokens: u64, usd: Usd) -> Ask {
        Ask { tokens, usd, sure: Spent { tokens, usd } }
    }
}

/// What it did use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// The prompt's and the answer's.
    pub tokens: u64,
    /// What they cost.
    pub usd: Usd,
}

/// A limit that has no room for what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Over {
    /// Which one.
    pub kind: Kind,
    /// How much it allows.
    pub limit: u64,
    /// How much of that is used or reserved.
    pub used: u64,
    /// How much was asked for.
    pub asked: u64,
    /// How long until there is room, if nobody else takes it; `None` if there never is.
    pub wait: Option<Duration>,
    /// It is more than the whole limit, but only as estimated: so it has to wait until nothing else
    /// is counted.
    pub estimated: bool,
}

impl Over {
    /// Returns the one to be told of: the one that has to be waited for longest.
    pub fn worse(self, other: Over) -> Over {
        let later = |over: Over| over.wait.unwrap_or(Duration::MAX);
        if later(other) > later(self) { other } else { self }
    }
}

/// How much a limit has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// How much it allows.
    pub limit: u64,
    /// How much of that is neither used nor reserved.
    pub remaining: u64,
    /// How long until all of it is there again.
    pub reset: Duration,
}

/// What is left of the tightest limits: those with the fewest remaining.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Left {
    /// Of those on requests.
    pub requests: Option<Room>,
    /// Of those on tokens.
    pub tokens: Option<Room>,
}

impl Left {
    /// Returns the tightest of both.
    pub fn and(self, other: Left) -> Left {
        Left { requests: tightest(self.requests, other.requests), tokens: tightest(self.tokens, other.tokens) }
    }
}

fn tightest(one: Option<Room>, other: Option<Room>) -> Option<Room> {
    match (one, other) {
        (Some(a), Some(b)) => {
            let tighter = b.remaining < a.remaining || b.remaining == a.remaining && b.reset > a.reset;
            Some(if tighter { b } else { a })
        }
        (room, None) | (None, room) => room,
    }
}

/// Where an admission was counted, to be settled there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    /// When.
    at: u64,
    /// How many seconds the clock had been set back by then.
    back: u64,
    /// It is counted by the second, too.
    by_second: bool,
}

/// When something is counted, as a tally sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// The second of Unix time.
    pub second: u64,
    /// The day since 1970.
    pub day: u64,
    /// The month, as its first day since 1970.
    pub month: u64,
}

/// What one tally has counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// The tally's time.
    pub at: u64,
    /// Its day and month, and the second that it is.
    pub moment: Moment,
    /// Seconds of Unix time within the last minute, each with its requests and tokens, oldest
    /// first; if anything is limited by the minute.
    pub minute: Vec<(u64, u64, u64)>,
    /// Requests of the day.
    pub day_requests: u64,
    /// Tokens of the day.
    pub day_tokens: u64,
    /// Money of the day.
    pub day_usd: Usd,
    /// Money of the month.
    pub month_usd: Usd,
    /// Requests at once.
    pub places: u64,
    /// Bodies that come in, here only.
    pub entering: u64,
    /// What of that is only reserved.
    pub reserved: Reserved,
}

/// What those have reserved that run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reserved {
    /// Tokens of the day.
    pub day_tokens: u64,
    /// Money of the day.
    pub day_usd: Usd,
    /// Money of the month.
    pub month_usd: Usd,
}

/// The counts of one caller, key, or model of a key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    now: u64,
    /// None: nothing is limited by the minute.
    minute: Option<Box<Minute>>,
    dates: Dates,
    places: u64,
    entering: u64,
    /// How many seconds the clock has been set back, all in all.
    back: u64,
    /// A date came that had been there before: whoever is told of changes has not heard what it
    /// has.
    came_again: bool,
    /// Of the tokens and the money of the day, and of the money of the month, what is only
    /// reserved.
    reserved: [u128; 3],
}

impl Tally {
    /// Time goes on, if it does: what is out of the minute, the day, or the month by then is no
    /// longer counted.
    pub fn advance(&mut self, now: u64) {
        if now > self.now {
            if let Some(minute) = &mut self.minute {
                minute.advance(second(self.now), second(now));
            }
        } else if self.now - now > STEP_BACK {
            let back = second(self.now) - second(now);
            if let Some(minute) = &mut self.minute {
                minute.set_back(back);
            }
            self.back = self.back.saturating_add(back);
        } else {
            return;
        }
        self.now = now;
        self.turn(now / DAY);
    }

    /// What runs has reserved for the day, and for the month, on which it was admitted.
    fn turn(&mut self, day: u64) {
        let (was, month) = (self.dates.day, self.dates.month);
        self.came_again |= self.dates.turn(day);
        let [tokens, usd, of_month] = &mut self.reserved;
        if was != day {
            (*tokens, *usd) = (0, 0);
        }
        if month != self.dates.month {
            *of_month = 0;
        }
    }

    /// If one of these limits is by the minute, that is counted from now on.
    pub fn watch(&mut self, limits: &Limits) {
        if limits.by_minute() {
            self.minute.get_or_insert_default();
        }
    }

    /// Returns the limit that has no room for it; of several the one that has to be waited for
    /// longest.
    pub fn over(&self, limits: &Limits, share: u64, ask: Ask, now: u64) -> Option<Over> {
        let over = |kind: Kind| {
            let limit = kind.limit(limits, share)?;
            let (used, asked) = (self.used(kind), kind.asked(ask));
            // What costs nothing goes through even where more was spent than there was.
            if asked == 0 {
                return None;
            }
            let excess = (used + u128::from(asked)).saturating_sub(u128::from(limit));
            let estimated = kind.is_over_as_estimated(limit, ask);
            // What is too much for any limit may be less in truth: where nothing else is counted,
            // it is tried.
            if excess == 0 || estimated && used == 0 {
                return None;
            }
            let wait = (asked <= limit || estimated).then(|| self.wait(kind, excess.min(used), now));
            Some(Over { kind, limit, used: clamp(used), asked, wait, estimated })
        };
        Kind::ALL.into_iter().filter_map(over).reduce(Over::worse)
    }

    /// Counts what is asked for, whether there is room or not. Who read the clock a moment ago says
    /// when: it is of that second and date, as it is in the ledger.
    pub(super) fn take_at(&mut self, ask: Ask, at: u64) -> Counted {
        let at = at.min(self.now);
        self.places = self.places.saturating_add(1);
        if let Some(minute) = &mut self.minute {
            minute.change(second(self.now), second(at), Count::default(), Count { requests: 1, tokens: ask.tokens });
        }
        self.dates.add(at / DAY, Sums { requests: 1, tokens: ask.tokens.into(), usd: ask.usd.0.into() });
        self.reserve(at / DAY, (ask.tokens, ask.usd), u128::saturating_add);
        Counted { at, back: self.back, by_second: self.minute.is_some() }
    }

    /// What was asked for is replaced by what was used, where it was counted, if that is still
    /// counted; the place is given back.
    pub(super) fn settle(&mut self, entry: Counted, ask: Ask, spent: Spent) {
        self.places = self.places.saturating_sub(1);
        let count = |tokens: u64| Count { requests: 0, tokens };
        self.replace(entry, (count(ask.tokens), ask.usd), (count(spent.tokens), spent.usd));
    }

    /// As if it had never been counted.
    pub(super) fn undo(&mut self, entry: Counted, ask: Ask) {
        self.places = self.places.saturating_sub(1);
        self.replace(entry, (Count { requests: 1, tokens: ask.tokens }, ask.usd), (Count::default(), Usd::ZERO));
    }

    fn replace(&mut self, entry: Counted, (what, usd): (Count, Usd), (by, by_usd): (Count, Usd)) {
        // Since then the clock was perhaps set back, and what was counted was moved along.
        let then = second(entry.at).checked_sub(self.back.saturating_sub(entry.back));
        if let (Some(minute), Some(then)) = (&mut self.minute, then.filter(|_| entry.by_second)) {
            minute.change(second(self.now), then, what, by);
        }
        let sums =
            |count: Count, usd: Usd| Sums { requests: count.requests, tokens: count.tokens.into(), usd: usd.0.into() };
        self.dates.replace(entry.at / DAY, sums(what, usd), sums(by, by_usd));
        self.reserve(entry.at / DAY, (what.tokens, usd), u128::saturating_sub);
    }

    /// Changes what is reserved for the day, and for its month, where they are the present ones.
    fn reserve(&mut self, day: u64, (tokens, usd): (u64, Usd), change: impl Fn(u128, u128) -> u128) {
        let [of_tokens, of_usd, of_month] = &mut self.reserved;
        if day == self.dates.day {
            *of_tokens = change(*of_tokens, tokens.into());
            *of_usd = change(*of_usd, usd.0.into());
        }
        if Month::of(day) == self.dates.month {
            *of_month = change(*of_month, usd.0.into());
        }
    }

    /// Returns whether a date came that had been there before; says so once.
    pub(super) fn came_again(&mut self) -> bool {
        std::mem::take(&mut self.came_again)
    }

    /// Returns when something would be counted now.
    pub fn moment(&self) -> Moment {
        Moment { second: second(self.now), day: self.dates.day, month: self.dates.month.first }
    }

    /// Returns a tally that has counted this.
    pub fn of(counts: &Counts) -> Tally {
        // Somebody else's clock may be ahead.
        let newest = counts.minute.iter().map(|(second, ..)| *second).fold(second(counts.at), u64::max);
        let mut tally = Tally::default();
        tally.advance(counts.at);
        tally.advance(newest.saturating_mul(SECOND));
        let mut minute = Minute::default();
        for (second, requests, tokens) in &counts.minute {
            minute.change(newest, *second, Count::default(), Count { requests: *requests, tokens: *tokens });
        }
        tally.minute = Some(Box::new(minute));
        let sums =
            Sums { requests: counts.day_requests, tokens: counts.day_tokens.into(), usd: counts.day_usd.0.into() };
        tally.dates = Dates::of(tally.now / DAY, sums, counts.month_usd.0.into());
        tally.places = counts.places;
        tally
    }

    /// Adds what was used before, which is never later than now. In whatever order: the youngest
    /// says what time it is. `dated` is its day, where a clock that was ahead said so: then it
    /// counts for the day or month of `at`, too.
    pub fn recall(&mut self, at: u64, dated: Option<u64>, requests: u64, spent: Spent) {
        if at > self.now {
            self.advance(at);
        }
        if let Some(minute) = &mut self.minute {
            minute.change(second(self.now), second(at), Count::default(), Count { requests, tokens: spent.tokens });
        }
        let sums = Sums { requests, tokens: spent.tokens.into(), usd: spent.usd.0.into() };
        match dated {
            Some(day) => self.dates.add_ahead(day, at / DAY, sums),
            None => self.dates.add(at / DAY, sums),
        }
    }

    /// That no more may come in, where so many requests may be at once.
    pub(super) fn no_place(&self, limit: u64) -> Option<Over> {
        let used = self.places.saturating_add(self.entering);
        let wait = (limit > 0).then_some(PLACE_AGAIN);
        (used >= limit).then_some(Over { kind: Kind::Concurrency, limit, used, asked: 1, wait, estimated: false })
    }

    /// A body comes in.
    pub(super) fn enter(&mut self) {
        self.entering = self.entering.saturating_add(1);
    }

    /// It is there, or will not be.
    pub(super) fn leave(&mut self) {
        self.entering = self.entering.saturating_sub(1);
    }

    /// Returns what is left of these limits.
    pub fn left(&self, limits: &Limits, share: u64, now: u64) -> Left {
        let room = |kind: Kind| {
            let limit = kind.limit(limits, share)?;
            let used = self.used(kind);
            let reset = if used == 0 { Duration::ZERO } else { self.wait(kind, used, now) };
            Some(Room { limit, remaining: clamp(u128::from(limit).saturating_sub(used)), reset })
        };
        Left {
            requests: tightest(room(Kind::RequestsPerMinute), room(Kind::RequestsPerDay)),
            tokens: tightest(room(Kind::TokensPerMinute), room(Kind::TokensPerDay)),
        }
    }

    /// Returns the same, once this much more is taken.
    pub fn left_after(mut self, limits: &Limits, ask: Ask, now: u64) -> Left {
        self.take_at(ask, self.now);
        self.left(limits, 1, now)
    }

    /// Returns what is counted now.
    pub fn counts(&self) -> Counts {
        let seconds = minute::window(second(self.now));
        let of_day = self.dates.of_day();
        let each =
            |second| Some((second, self.minute.as_ref()?.at(second))).filter(|(_, count)| *count != Count::default());
        Counts {
            at: self.now,
            moment: self.moment(),
            minute: seconds
                .filter_map(each)
                .map(|(second, Count { requests, tokens })| (second, requests, tokens))
                .collect(),
            day_requests: of_day.requests,
            day_tokens: clamp(of_day.tokens),
            day_usd: Usd(clamp(of_day.usd)),
            month_usd: Usd(clamp(self.dates.of_month())),
            places: self.places,
            entering: self.entering,
            reserved: {
                let [tokens, usd, of_month] = self.reserved.map(clamp);
                Reserved { day_tokens: tokens, day_usd: Usd(usd), month_usd: Usd(of_month) }
            },
        }
    }

    fn used(&self, kind: Kind) -> u128 {
        match kind {
            Kind::RequestsPerMinute => self.minute.as_ref().map_or(0, |minute| minute.requests.into()),
            Kind::RequestsPerDay => self.dates.of_day().requests.into(),
            Kind::TokensPerMinute => self.minute.as_ref().map_or(0, |minute| minute.tokens),
            Kind::TokensPerDay => self.dates.of_day().tokens,
            Kind::Concurrency => self.places.into(),
            Kind::UsdPerDay => self.dates.of_day().usd,
            Kind::UsdPerMonth => self.dates.of_month(),
        }
    }

    /// Returns how long from `now`, which may be behind the tally's own time, until so much of what
    /// is used is free.
    fn wait(&self, kind: Kind, excess: u128, now: u64) -> Duration {
        let gone = |of: fn(Count) -> u64| {
            let of_second = |second| self.minute.as_ref().map_or(0, |minute| of(minute.at(second)));
            minute::gone(second(self.now), self.used(kind), excess, of_second).saturating_mul(SECOND)
        };
        let free = match kind {
            Kind::RequestsPerMinute => gone(|count| count.requests),
            Kind::TokensPerMinute => gone(|count| count.tokens),
            Kind::RequestsPerDay | Kind::TokensPerDay | Kind::UsdPerDay => (self.dates.day + 1).saturating_mul(DAY),
            Kind::UsdPerMonth => self.dates.month.next.saturating_mul(DAY),
            // When one ends, nobody knows.
            Kind::Concurrency => return PLACE_AGAIN,
        };
        Duration::from_millis(free.saturating_sub(now))
    }
}

const SECOND: u64 = 1_000;
/// When to ask for a place again.
const PLACE_AGAIN: Duration = Duration::from_secs(1);
/// How far a clock may be behind since two threads read it at different times; in milliseconds. One
/// that goes back further was set.
pub const STEP_BACK: u64 = SECOND;

fn second(at: u64) -> u64 {
    at / SECOND
}

fn clamp(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
