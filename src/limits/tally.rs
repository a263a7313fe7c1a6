//! What one caller, key, or model of a key has used of late, counted against its limits.
//!
//! Pure: the time is passed in, as milliseconds of Unix time. A minute is 61 whole seconds in a ring, so that what was admitted within any sixty
//! seconds is never more than the limit; a second leaves when all of it is older than that. Days and months are UTC's.
//! A clock that goes back a little stops the tally's time until it has caught up: nothing is forgotten early. One that goes back further was wrong before,
//! and takes the tally's time with it. **Invariant:** whatever the clock does, what is counted is gone when this minute, day, or month is, or a minute later.

mod kind;
mod minute;
pub(crate) mod month;

use super::Limits;
use crate::price::Usd;
pub use kind::Kind;
use minute::{Count, Minute, SECONDS};
use month::Month;
use std::time::Duration;

/// What an exchange may come to use, besides one request and one place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ask {
    /// The prompt's, and as many as the answer may have.
    pub tokens: u64,
    /// What they cost at most.
    pub usd: Usd,
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
}

impl Over {
    /// The one to be told of: the one that has to be waited for longest.
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
    /// The tightest of both.
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
pub(super) struct Entry {
    /// The tally's time.
    at: u64,
    /// How often that had been set back.
    set_back: u32,
    /// It is counted by the second, too.
    by_second: bool,
}

/// The last time that a tally's time was set back: what it counted then is counted as of `to` since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SetBack {
    times: u32,
    from: u64,
    to: u64,
}

/// Where a sum is changed for what was counted before.
struct Place {
    second: Option<u64>,
    day: bool,
    month: bool,
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
    /// Seconds of Unix time within the last minute, each with its requests and tokens, oldest first; if anything is limited by the minute.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    now: u64,
    day: u64,
    month: Month,
    /// None: nothing is limited by the minute.
    minute: Option<Box<Minute>>,
    day_requests: u64,
    // Whoever may ask for any number of tokens must not be able to fill a sum up, and with the refund take out of it what others used.
    day_tokens: u128,
    day_usd: u128,
    month_usd: u128,
    places: u64,
    /// Of the three sums before.
    reserved: [u128; 3],
    set_back: Option<Box<SetBack>>,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            now: 0,
            day: 0,
            month: Month::of(0),
            minute: None,
            day_requests: 0,
            day_tokens: 0,
            day_usd: 0,
            month_usd: 0,
            places: 0,
            reserved: [0; 3],
            set_back: None,
        }
    }
}

impl Tally {
    /// Time goes on, if it does: what is out of the minute, the day, or the month by then is no longer counted.
    pub fn advance(&mut self, now: u64) {
        if now <= self.now {
            if self.now - now > STEP_BACK {
                self.set_back(now);
            }
            return;
        }
        if let Some(minute) = &mut self.minute {
            minute.advance(second(self.now), second(now));
        }
        self.now = now;
        let day = now / DAY;
        if day != self.day {
            self.day = day;
            (self.day_requests, self.day_tokens, self.day_usd) = (0, 0, 0);
            let [tokens, usd, of_month] = &mut self.reserved;
            (*tokens, *usd) = (0, 0);
            if day >= self.month.next {
                self.month = Month::of(day);
                self.month_usd = 0;
                *of_month = 0;
            }
        }
    }

    /// What is counted for the last minute, and for a day or month that has not come yet, is counted as of now: it may be of this minute, day and
    /// month, and is gone when they are.
    fn set_back(&mut self, now: u64) {
        if let Some(minute) = &mut self.minute {
            minute.gather(second(now));
        }
        self.set_back = Some(Box::new(SetBack { times: self.times_set_back().wrapping_add(1), from: self.now, to: now }));
        self.now = now;
        self.day = now / DAY;
        if self.day < self.month.first {
            self.month = Month::of(self.day);
        }
    }

    fn times_set_back(&self) -> u32 {
        self.set_back.as_ref().map_or(0, |back| back.times)
    }

    /// Where an admission is counted by now.
    fn place(&self, entry: Entry) -> Place {
        let day = entry.at / DAY;
        match self.set_back.as_deref() {
            Some(SetBack { times, from, to }) if *times != entry.set_back => {
                // Of those before the last one only the place is known to be counted still; the rest is over with the day or the month.
                let last = entry.set_back == times.wrapping_sub(1);
                let of_minute = last && second(*from).saturating_sub(second(entry.at)) < SECONDS;
                Place {
                    second: (of_minute && entry.by_second).then(|| second(*to)),
                    day: last && day == from / DAY && to / DAY == self.day,
                    month: last && day >= Month::of(from / DAY).first && to / DAY >= self.month.first,
                }
            }
            Some(_) | None => {
                Place { second: entry.by_second.then(|| second(entry.at)), day: day == self.day, month: day >= self.month.first }
            }
        }
    }

    /// If one of these limits is by the minute, that is counted from now on.
    pub fn watch(&mut self, limits: &Limits) {
        if limits.by_minute() {
            self.minute.get_or_insert_default();
        }
    }

    /// The limit that has no room for it; of several the one that has to be waited for longest.
    pub fn over(&self, limits: &Limits, share: u64, ask: Ask, now: u64) -> Option<Over> {
        let mut worst: Option<Over> = None;
        for kind in Kind::ALL {
            let Some(limit) = kind.limit(limits, share) else { continue };
            let (used, asked) = (self.used(kind), kind.asked(ask));
            // What costs nothing goes through even where more was spent than there was.
            if asked == 0 {
                continue;
            }
            let Some(excess) = (used + u128::from(asked)).checked_sub(u128::from(limit)).filter(|excess| *excess > 0) else { continue };
            let wait = (asked <= limit).then(|| self.wait(kind, excess, now));
            let over = Over { kind, limit, used: clamp(used), asked, wait };
            worst = Some(worst.map_or(over, |worst| worst.worse(over)));
        }
        worst
    }

    /// Counts it, whether there is room or not.
    pub(super) fn take(&mut self, ask: Ask) -> Entry {
        let now = second(self.now);
        self.places = self.places.saturating_add(1);
        if let Some(minute) = &mut self.minute {
            minute.change(now, now, Count::default(), Count { requests: 1, tokens: ask.tokens });
        }
        self.day_requests = self.day_requests.saturating_add(1);
        self.day_tokens += u128::from(ask.tokens);
        self.day_usd += u128::from(ask.usd.0);
        self.month_usd += u128::from(ask.usd.0);
        for (sum, asked) in self.reserved.iter_mut().zip([ask.tokens, ask.usd.0, ask.usd.0]) {
            *sum += u128::from(asked);
        }
        Entry { at: self.now, set_back: self.times_set_back(), by_second: self.minute.is_some() }
    }

    /// What was asked for is replaced by what was used, where it was counted, if that is still counted; the place is given back.
    pub(super) fn settle(&mut self, entry: Entry, ask: Ask, spent: Spent) {
        let place = self.place(entry);
        self.places = self.places.saturating_sub(1);
        if let (Some(minute), Some(then)) = (&mut self.minute, place.second) {
            let count = |tokens: u64| Count { requests: 0, tokens };
            minute.change(second(self.now), then, count(ask.tokens), count(spent.tokens));
        }
        let [tokens, usd, of_month] = &mut self.reserved;
        if place.day {
            replace(&mut self.day_tokens, ask.tokens, spent.tokens);
            replace(&mut self.day_usd, ask.usd.0, spent.usd.0);
            replace(tokens, ask.tokens, 0);
            replace(usd, ask.usd.0, 0);
        }
        if place.month {
            replace(&mut self.month_usd, ask.usd.0, spent.usd.0);
            replace(of_month, ask.usd.0, 0);
        }
    }

    /// As if it had never been counted.
    pub(super) fn undo(&mut self, entry: Entry, ask: Ask) {
        self.settle(entry, ask, Spent::default());
        let place = self.place(entry);
        if let (Some(minute), Some(then)) = (&mut self.minute, place.second) {
            minute.change(second(self.now), then, Count { requests: 1, tokens: 0 }, Count::default());
        }
        if place.day {
            self.day_requests = self.day_requests.saturating_sub(1);
        }
    }

    /// When something would be counted now.
    pub fn moment(&self) -> Moment {
        Moment { second: second(self.now), day: self.day, month: self.month.first }
    }

    /// A tally that has counted this.
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
        tally.day_requests = counts.day_requests;
        tally.day_tokens = counts.day_tokens.into();
        tally.day_usd = counts.day_usd.0.into();
        tally.month_usd = counts.month_usd.0.into();
        tally.places = counts.places;
        tally
    }

    /// Adds what was used before, which is never later than now. In whatever order: the youngest says what time it is.
    pub fn recall(&mut self, at: u64, requests: u64, spent: Spent) {
        if at > self.now {
            self.advance(at);
        }
        if let Some(minute) = &mut self.minute {
            minute.change(second(self.now), second(at), Count::default(), Count { requests, tokens: spent.tokens });
        }
        let day = at / DAY;
        if day == self.day {
            self.day_requests = self.day_requests.saturating_add(requests);
            self.day_tokens += u128::from(spent.tokens);
            self.day_usd += u128::from(spent.usd.0);
        }
        if day >= self.month.first {
            self.month_usd += u128::from(spent.usd.0);
        }
    }

    /// What is left of these limits.
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

    /// The same, once this much more is taken.
    pub fn left_after(mut self, limits: &Limits, ask: Ask, now: u64) -> Left {
        self.take(ask);
        self.left(limits, 1, now)
    }

    /// What is counted now.
    pub fn counts(&self) -> Counts {
        let seconds = second(self.now).saturating_sub(SECONDS - 1)..=second(self.now);
        let each = |second| Some((second, self.minute.as_ref()?.at(second))).filter(|(_, count)| *count != Count::default());
        Counts {
            at: self.now,
            moment: self.moment(),
            minute: seconds.filter_map(each).map(|(second, Count { requests, tokens })| (second, requests, tokens)).collect(),
            day_requests: self.day_requests,
            day_tokens: clamp(self.day_tokens),
            day_usd: Usd(clamp(self.day_usd)),
            month_usd: Usd(clamp(self.month_usd)),
            places: self.places,
            reserved: {
                let [tokens, usd, of_month] = self.reserved.map(clamp);
                Reserved { day_tokens: tokens, day_usd: Usd(usd), month_usd: Usd(of_month) }
            },
        }
    }

    fn used(&self, kind: Kind) -> u128 {
        match kind {
            Kind::RequestsPerMinute => self.minute.as_ref().map_or(0, |minute| minute.requests.into()),
            Kind::RequestsPerDay => self.day_requests.into(),
            Kind::TokensPerMinute => self.minute.as_ref().map_or(0, |minute| minute.tokens),
            Kind::TokensPerDay => self.day_tokens,
            Kind::Concurrency => self.places.into(),
            Kind::UsdPerDay => self.day_usd,
            Kind::UsdPerMonth => self.month_usd,
        }
    }

    /// How long from `now`, which may be behind the tally's own time, until so much of what is used is free.
    fn wait(&self, kind: Kind, excess: u128, now: u64) -> Duration {
        let gone = |of: fn(Count) -> u64| {
            let of_second = |second| self.minute.as_ref().map_or(0, |minute| of(minute.at(second)));
            minute::gone(second(self.now), self.used(kind), excess, of_second).saturating_mul(SECOND)
        };
        let free = match kind {
            Kind::RequestsPerMinute => gone(|count| count.requests),
            Kind::TokensPerMinute => gone(|count| count.tokens),
            Kind::RequestsPerDay | Kind::TokensPerDay | Kind::UsdPerDay => (self.day + 1).saturating_mul(DAY),
            Kind::UsdPerMonth => self.month.next.saturating_mul(DAY),
            // When one ends, nobody knows.
            Kind::Concurrency => return Duration::from_secs(1),
        };
        Duration::from_millis(free.saturating_sub(now))
    }
}

const SECOND: u64 = 1_000;
/// A day, in milliseconds.
pub const DAY: u64 = 86_400 * SECOND;
/// How far clocks go back because they are set right, or since two threads read them at different times; in milliseconds.
pub const STEP_BACK: u64 = SECONDS * SECOND;

fn second(at: u64) -> u64 {
    at / SECOND
}

fn clamp(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

fn replace(sum: &mut u128, what: u64, by: u64) {
    *sum = sum.saturating_sub(what.into()) + u128::from(by);
}

#[cfg(test)]
mod tests;
