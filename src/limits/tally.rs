//! A [`Tally`] counts what one scope has used, by second, day and month.
//!
//! Pure: the time is passed in, as milliseconds of Unix time. A minute is sixty whole seconds in a
//! ring. Days and months are those of UTC. Each day and each month is counted by itself, as in the
//! ledger: if a clock is set and a date comes again, it goes on with its old sums. While a clock is
//! set back, the sums of later dates also count for the present one. If a clock goes back by a
//! moment only, the tally's time stops until the clock has caught up. **Invariant:** whatever the
//! clock does, the sums of a date are those of what was admitted on it; and no count is free again
//! because a clock went back.

mod dates;
mod kind;
mod left;
mod minute;

use super::Limits;
use crate::base::calendar::{DAY, Month};
use crate::conf::price::Usd;
use dates::Dates;
pub use kind::{Kind, Measure, Period, WHOLE_LIMIT};
use left::tighter_room;
pub use left::{LimitsLeft, Room};
use minute::{Minute, Unsent};
use std::time::Duration;

/// The most that an exchange is expected to use, besides one request and one slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ask {
    /// The tokens of the prompt, and the most that the answer is expected to have.
    pub tokens: u64,
    /// The most that these tokens cost.
    pub usd: Usd,
    /// The part of both that the request itself asks for. The rest is our estimate, which may be
    /// too high.
    pub sure: Spent,
}

impl Ask {
    /// Makes an ask of which nothing is an estimate.
    pub const fn exact(tokens: u64, usd: Usd) -> Ask {
        Ask {
            tokens,
            usd,
            sure: Spent { tokens, usd },
        }
    }
}

/// The amounts that an exchange did use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// The tokens of the prompt and the answer.
    pub tokens: u64,
    /// The cost of the tokens.
    pub usd: Usd,
}

/// An amount that was used of each measure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// The number of requests.
    pub requests: u64,
    /// The tokens of the prompts and the answers.
    pub tokens: u64,
    /// The cost of the tokens.
    pub usd: Usd,
}

impl Used {
    /// Makes the amount that this number of requests used together.
    pub const fn new(requests: u64, tokens: u64, usd: Usd) -> Used {
        Used {
            requests,
            tokens,
            usd,
        }
    }

    /// Returns the amount of this measure.
    pub const fn amount(self, measure: Measure) -> u64 {
        match measure {
            Measure::Requests => self.requests,
            Measure::Tokens => self.tokens,
            Measure::Usd => self.usd.0,
        }
    }
}

/// The answer of a limit that has no room for an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Over {
    /// The kind of the limit.
    pub kind: Kind,
    /// The amount that the limit allows.
    pub limit: u64,
    /// The amount that is used or reserved.
    pub used: u64,
    /// The amount that was asked for.
    pub asked: u64,
    /// The time until there is room, if no other request takes it. `None` if there never is.
    pub wait: Option<Duration>,
    /// True if the ask is more than the whole limit, but only as estimated: it has to wait until
    /// nothing else is counted.
    pub estimated: bool,
}

impl Over {
    /// Returns the one with the longer wait: the caller gets that one.
    pub fn worse(self, other: Over) -> Over {
        let later = |over: Over| over.wait.unwrap_or(Duration::MAX);
        if later(other) > later(self) {
            other
        } else {
            self
        }
    }
}

/// The place at which an admission was counted. It is settled there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    /// The time of the admission.
    admitted_at: u64,
    /// The number of seconds by which the clock had been set back before.
    back: u64,
    /// True if the admission is also counted by the second.
    by_second: bool,
}

/// The second, day and month in which a tally counts something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// The second of Unix time.
    pub second: u64,
    /// The day, as the number of days since 1970.
    pub day: u64,
    /// The month's first day, as the number of days since 1970.
    pub month: u64,
}

/// The counts of one tally.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// The tally's time, in milliseconds of Unix time.
    pub time_ms: u64,
    /// The second, day and month of that time.
    pub moment: Moment,
    /// The seconds of the last minute, each with its requests and tokens. Empty if nothing is
    /// limited by the minute. Those of this gateway stand by age; those of the store stand as they
    /// were added.
    pub minute: Vec<(u64, Used)>,
    /// The amount that was used on the day.
    pub day: Used,
    /// The money of the month.
    pub month_usd: Usd,
    /// The requests that run.
    pub places: u64,
    /// The bodies that are arriving. Only this gateway counts them.
    pub entering: u64,
    /// The part of these counts that is only reserved.
    pub reserved: Reserved,
}

/// The counts of one tally, to be sent to the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnPart {
    /// The counts. The minute may have only some seconds, also such in which nothing is counted.
    pub counts: Counts,
    /// True if the minute has all its seconds. Else it lacks those that have not changed.
    pub has_all_seconds: bool,
}

/// The amounts that running exchanges have reserved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reserved {
    /// The tokens of the day.
    pub day_tokens: u64,
    /// The money of the day.
    pub day_usd: Usd,
    /// The money of the month.
    pub month_usd: Usd,
}

/// The counts of one caller, key, or model of a key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    now: u64,
    /// The counts by the second. `None` if nothing is limited by the minute.
    minute: Option<Box<Minute>>,
    dates: Dates,
    places: u64,
    entering: u64,
    /// The number of seconds by which the clock has been set back in sum.
    back: u64,
    /// True if a date came back: the store does not have the date's sums yet.
    came_again: bool,
    /// The part that is only reserved: of the day's tokens, of the day's money, and of the month's
    /// money.
    reserved: [u128; 3],
}

impl Tally {
    /// Moves the tally to the time `now`. What is no longer within the minute, the day or the month
    /// is no longer counted.
    pub fn advance(&mut self, now: u64) {
        if now > self.now {
            if let Some(minute) = &mut self.minute {
                minute.advance(second_of(self.now), second_of(now));
            }
        } else if self.now - now > STEP_BACK {
            let back = second_of(self.now) - second_of(now);
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

    /// Moves the dates to `day`. The reserved amounts are of the present day and month only: they
    /// are zero after a change.
    fn turn(&mut self, day: u64) {
        let (was, month) = (self.dates.day(), self.dates.month);
        self.came_again |= self.dates.turn(day);
        let [tokens, usd, of_month] = &mut self.reserved;
        if was != day {
            (*tokens, *usd) = (0, 0);
        }
        if month != self.dates.month {
            *of_month = 0;
        }
    }

    /// Counts by the second from now on, if one of these limits is by the minute.
    pub fn watch(&mut self, limits: &Limits) {
        if limits.by_minute() {
            self.minute.get_or_insert_default();
        }
    }

    /// Returns the limit that has no room for `ask`. If there are several, returns the one with the
    /// longest wait.
    pub fn exceeded_limit(&self, limits: &Limits, share: u64, ask: Ask, now: u64) -> Option<Over> {
        let over = |kind| self.over_kind(kind, limits, share, ask, now);
        Kind::ALL.into_iter().filter_map(over).reduce(Over::worse)
    }

    fn over_kind(
        &self,
        kind: Kind,
        limits: &Limits,
        share: u64,
        ask: Ask,
        now: u64,
    ) -> Option<Over> {
        let limit = kind.limit(limits, share)?;
        let (used, asked) = (self.used_amount(kind), kind.asked_amount(ask));
        // A request that costs nothing is admitted even if more was spent than the limit allows.
        if asked == 0 {
            return None;
        }
        let excess = (used + u128::from(asked)).saturating_sub(u128::from(limit));
        let estimated = kind.is_over_as_estimated(limit, ask);
        // The ask may be over the whole limit only because of the estimate. If nothing else is
        // counted, the request is tried.
        if excess == 0 || estimated && used == 0 {
            return None;
        }
        let wait = (asked <= limit || estimated).then(|| self.wait(kind, excess.min(used), now));
        Some(Over {
            kind,
            limit,
            used: clamp_sum(used),
            asked,
            wait,
            estimated,
        })
    }

    /// Counts `ask`, whether there is room or not. `admitted_at` is when the caller read the clock,
    /// perhaps a moment ago: the ask is counted in that second and on that date, as in the ledger.
    pub(super) fn take_at(&mut self, ask: Ask, admitted_at: u64) -> Counted {
        let admitted_at = admitted_at.min(self.now);
        self.places = self.places.saturating_add(1);
        self.add(admitted_at, None, Used::new(1, ask.tokens, ask.usd));
        self.reserve(admitted_at / DAY, ask.tokens, ask.usd, u128::saturating_add);
        Counted {
            admitted_at,
            back: self.back,
            by_second: self.minute.is_some(),
        }
    }

    /// Replaces the ask by what was used, where the ask was counted and if that is still counted.
    /// Gives the place back. Tokens beyond the ask count in the present second: nothing was held
    /// back for them before.
    pub(super) fn settle(&mut self, entry: Counted, ask: Ask, spent: Spent) {
        self.places = self.places.saturating_sub(1);
        let asked = Used::new(0, ask.tokens, ask.usd);
        self.replace(entry, asked, Used::new(0, spent.tokens, spent.usd));
    }

    /// Takes the ask back, as if it had never been counted.
    pub(super) fn undo(&mut self, entry: Counted, ask: Ask) {
        self.places = self.places.saturating_sub(1);
        self.replace(entry, Used::new(1, ask.tokens, ask.usd), Used::default());
    }

    fn replace(&mut self, entry: Counted, before: Used, after: Used) {
        // If the clock was set back since then, the counted seconds were moved with it.
        let then = second_of(entry.admitted_at).checked_sub(self.back.saturating_sub(entry.back));
        let now = second_of(self.now);
        let beyond = after.tokens.saturating_sub(before.tokens);
        if let Some(minute) = self.minute.as_mut().filter(|_| entry.by_second) {
            if let Some(then) = then {
                let tokens = after.tokens - beyond;
                minute.replace_count(now, then, before, Used { tokens, ..after });
            }
            minute.add(now, now, Used::new(0, beyond, Usd::ZERO));
        }
        let day = entry.admitted_at / DAY;
        self.dates.replace(day, before.into(), after.into());
        self.reserve(day, before.tokens, before.usd, u128::saturating_sub);
    }

    /// Changes the reserved amounts of a day and its month, if they are the present ones.
    fn reserve(&mut self, day: u64, tokens: u64, usd: Usd, change: impl Fn(u128, u128) -> u128) {
        let [of_tokens, of_usd, of_month] = &mut self.reserved;
        if day == self.dates.day() {
            *of_tokens = change(*of_tokens, tokens.into());
            *of_usd = change(*of_usd, usd.0.into());
        }
        if Month::containing(day) == self.dates.month {
            *of_month = change(*of_month, usd.0.into());
        }
    }

    /// Returns whether a date came that had been there before. Returns true once for each time.
    pub(super) fn came_again(&mut self) -> bool {
        std::mem::take(&mut self.came_again)
    }

    /// Returns the second, day and month in which something would be counted now.
    pub fn moment(&self) -> Moment {
        Moment {
            second: second_of(self.now),
            day: self.dates.day(),
            month: self.dates.month.first,
        }
    }

    /// Returns the second, day and month in which something of this time is counted. The second may
    /// be before the tally's own.
    pub fn moment_at(&self, at: u64) -> Moment {
        Moment {
            second: second_of(at.min(self.now)),
            ..self.moment()
        }
    }

    /// Makes a tally with these counts.
    pub fn from_counts(counts: &Counts) -> Tally {
        // The clock of another gateway may be ahead.
        let newest = counts
            .minute
            .iter()
            .map(|(second, ..)| *second)
            .fold(second_of(counts.time_ms), u64::max);
        let mut tally = Tally::default();
        tally.advance(counts.time_ms);
        tally.advance(newest.saturating_mul(SECOND));
        let mut minute = Minute::default();
        for (second, used) in &counts.minute {
            minute.add(newest, *second, *used);
        }
        tally.minute = Some(Box::new(minute));
        let month_usd = counts.month_usd.0.into();
        tally.dates = Dates::from_day(tally.now / DAY, counts.day.into(), month_usd);
        tally.places = counts.places;
        tally
    }

    /// Adds an amount that was used before, and never later than now. The calls may come in any
    /// order: the youngest amount sets the tally's time. `dated` is the day of the use if a clock
    /// that was ahead gave it: then the amount also counts for the day or month of `used_at`.
    pub fn recall(&mut self, used_at: u64, dated: Option<u64>, used: Used) {
        if used_at > self.now {
            self.advance(used_at);
        }
        self.add(used_at, dated, used);
    }

    /// Counts what was used at a time that is not later than the tally's time.
    fn add(&mut self, used_at: u64, dated: Option<u64>, used: Used) {
        if let Some(minute) = &mut self.minute {
            minute.add(second_of(self.now), second_of(used_at), used);
        }
        match dated {
            Some(day) => self.dates.add_ahead(day, used_at / DAY, used.into()),
            None => self.dates.add(used_at / DAY, used.into()),
        }
    }

    /// Returns the refusal if no place is free for another body, under a limit of this many
    /// requests at once.
    pub(super) fn no_place(&self, limit: u64) -> Option<Over> {
        let used = self.places.saturating_add(self.entering);
        let wait = (limit > 0).then_some(PLACE_AGAIN);
        (used >= limit).then_some(Over {
            kind: Kind::Concurrency,
            limit,
            used,
            asked: 1,
            wait,
            estimated: false,
        })
    }

    /// Counts a body that begins to arrive.
    pub(super) fn enter(&mut self) {
        self.entering = self.entering.saturating_add(1);
    }

    /// Counts down a body that has arrived, or will not.
    pub(super) fn leave(&mut self) {
        self.entering = self.entering.saturating_sub(1);
    }

    /// Returns what is left of these limits.
    pub fn limits_left(&self, limits: &Limits, share: u64, now: u64) -> LimitsLeft {
        let room = |kind| self.room(kind, limits, share, now);
        LimitsLeft {
            requests: tighter_room(room(Kind::RequestsPerMinute), room(Kind::RequestsPerDay)),
            tokens: tighter_room(room(Kind::TokensPerMinute), room(Kind::TokensPerDay)),
        }
    }

    fn room(&self, kind: Kind, limits: &Limits, share: u64, now: u64) -> Option<Room> {
        let limit = kind.limit(limits, share)?;
        let used = self.used_amount(kind);
        let reset = if used == 0 {
            Duration::ZERO
        } else {
            self.wait(kind, used, now)
        };
        Some(Room {
            limit,
            remaining: clamp_sum(u128::from(limit).saturating_sub(used)),
            reset,
        })
    }

    /// Returns whether the others must know at once what is settled under these limits: one of them
    /// limits the requests that run; or after `ask` it has less left than another such ask needs,
    /// or than a sixteenth of the limit.
    pub fn is_nearly_full(&self, limits: &Limits, ask: Ask) -> bool {
        Kind::ALL.into_iter().any(|kind| {
            let Some(limit) = kind.limit(limits, WHOLE_LIMIT) else {
                return false;
            };
            match (kind.period(), kind.measure()) {
                (Period::Present, _) => true,
                // A settlement frees no request.
                (_, Measure::Requests) => false,
                (Period::Minute | Period::Day | Period::Month, Measure::Tokens | Measure::Usd) => {
                    let asked = kind.asked_amount(ask);
                    let used = self.used_amount(kind) + u128::from(asked);
                    used + u128::from(asked.max(limit / 16)) > u128::from(limit)
                }
            }
        })
    }

    /// Returns what is left of these limits after `ask` is taken.
    pub fn limits_left_after(mut self, limits: &Limits, ask: Ask, now: u64) -> LimitsLeft {
        self.take_at(ask, self.now);
        self.limits_left(limits, WHOLE_LIMIT, now)
    }

    /// Returns all present counts.
    pub fn counts(&self) -> Counts {
        self.counts_with(|_, count| count != Used::default())
    }

    /// Lets the next [`Tally::take_part`] have all seconds.
    pub(super) fn send_all(&mut self) {
        if let Some(minute) = &mut self.minute {
            minute.unsent = Unsent::All;
        }
    }

    /// Returns the present counts, of the minute only the seconds that changed since this was last
    /// called, or all if `is_whole`.
    pub(super) fn take_part(&mut self, is_whole: bool) -> OwnPart {
        let unsent = match &mut self.minute {
            Some(minute) if !is_whole => std::mem::take(&mut minute.unsent),
            Some(minute) => {
                minute.unsent = Unsent::default();
                Unsent::All
            }
            None => Unsent::All,
        };
        let has_all_seconds = unsent == Unsent::All;
        let counts = match has_all_seconds {
            true => self.counts(),
            false => self.counts_with(|second, _| unsent.has(second)),
        };
        OwnPart {
            counts,
            has_all_seconds,
        }
    }

    /// Returns the present counts, with the seconds of the minute that are chosen.
    fn counts_with(&self, is_chosen: impl Fn(u64, Used) -> bool) -> Counts {
        let seconds = minute::counted_seconds(second_of(self.now));
        let minute = seconds.filter_map(|second| {
            let count = self.minute.as_ref()?.count_in(second);
            is_chosen(second, count).then_some((second, count))
        });
        Counts {
            time_ms: self.now,
            moment: self.moment(),
            minute: minute.collect(),
            day: self.dates.of_day().clamped(),
            month_usd: Usd(clamp_sum(self.dates.of_month().usd)),
            places: self.places,
            entering: self.entering,
            reserved: {
                let [tokens, usd, of_month] = self.reserved.map(clamp_sum);
                Reserved {
                    day_tokens: tokens,
                    day_usd: Usd(usd),
                    month_usd: Usd(of_month),
                }
            },
        }
    }

    fn used_amount(&self, kind: Kind) -> u128 {
        let sums = match kind.period() {
            Period::Minute => self.minute.as_ref().map(|minute| minute.sums()),
            Period::Day => Some(self.dates.of_day()),
            Period::Month => Some(self.dates.of_month()),
            Period::Present => return self.places.into(),
        };
        sums.map_or(0, |sums| sums.amount(kind.measure()))
    }

    /// Returns the time from `now` until `excess` of what is used is free. `now` may be behind the
    /// tally's own time.
    fn wait(&self, kind: Kind, excess: u128, now: u64) -> Duration {
        let (minute, now_second) = (self.minute.as_ref(), second_of(self.now));
        let used = self.used_amount(kind);
        let free = match kind.period() {
            Period::Minute => minute::freed_second(now_second, used, excess, |second| {
                let count = minute.map(|minute| minute.count_in(second));
                count.map_or(0, |count| count.amount(kind.measure()))
            })
            .saturating_mul(SECOND),
            Period::Day => (self.dates.day() + 1).saturating_mul(DAY),
            Period::Month => self.dates.month.next.saturating_mul(DAY),
            // The end of a running request is unknown.
            Period::Present => return PLACE_AGAIN,
        };
        Duration::from_millis(free.saturating_sub(now))
    }
}

const SECOND: u64 = 1_000;
/// The time after which a caller may ask for a place again.
const PLACE_AGAIN: Duration = Duration::from_secs(1);
/// The most that a clock may seem to go back because two threads read it at different times, in
/// milliseconds. A clock that goes back further was set.
pub(super) const STEP_BACK: u64 = SECOND;

fn second_of(ms: u64) -> u64 {
    ms / SECOND
}

fn clamp_sum(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
