//! [`Dates`] are the sums of days and months, each of what was admitted on it. They hold the
//! present day and month, and some other dates that may come again when a clock is set.
//!
//! When a clock is set back, it is unknown whether it was wrong before or is wrong now. So the sums
//! of later dates also count for the present date until time goes on. If a later date comes again,
//! it goes on with its old sums. The ledger has the same sums.

use super::{Measure, Used, clamp_sum};
use crate::base::calendar::Month;
use crate::conf::price::Usd;

/// The number of other dates that are remembered: those that were changed last. There are other
/// dates only if a clock was set. The store's script has the same number.
const REMEMBERED: usize = 16;

/// The sums of one day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    // These are wide on purpose. A caller may ask for any number of tokens. With a sum that is
    // full, the refund would also take away what others used.
    pub(super) requests: u128,
    pub(super) tokens: u128,
    pub(super) usd: u128,
}

/// The sums of the present day and month, and of others. A month counts only money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dates {
    pub(super) month: Month,
    days: Sheet,
    months: Sheet,
}

/// The sums of a present date, and of other dates: days, or months by their first day.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Sheet {
    date: u64,
    sums: Sums,
    /// The other dates. Those that were changed last are at the end.
    other_dates: Vec<Other>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Other {
    date: u64,
    sums: Sums,
    /// True if the date is later than the present one: its sums count for the present one too.
    counts: bool,
}

impl Default for Dates {
    fn default() -> Dates {
        Dates::from_day(0, Sums::default(), 0)
    }
}

impl From<Used> for Sums {
    fn from(used: Used) -> Sums {
        Sums {
            requests: used.requests.into(),
            tokens: used.tokens.into(),
            usd: used.usd.0.into(),
        }
    }
}

impl Sums {
    /// Returns the sums, or the largest numbers where a sum is larger.
    pub(super) fn clamped(self) -> Used {
        Used {
            requests: clamp_sum(self.requests),
            tokens: clamp_sum(self.tokens),
            usd: Usd(clamp_sum(self.usd)),
        }
    }

    /// Returns the sum of this measure.
    pub(super) fn amount(self, measure: Measure) -> u128 {
        match measure {
            Measure::Requests => self.requests,
            Measure::Tokens => self.tokens,
            Measure::Usd => self.usd,
        }
    }

    fn and(self, other: Sums) -> Sums {
        self.change(other, u128::saturating_add)
    }

    fn without(self, other: Sums) -> Sums {
        self.change(other, u128::saturating_sub)
    }

    /// Changes each sum by the other's sum.
    fn change(self, other: Sums, change: impl Fn(u128, u128) -> u128) -> Sums {
        Sums {
            requests: change(self.requests, other.requests),
            tokens: change(self.tokens, other.tokens),
            usd: change(self.usd, other.usd),
        }
    }

    /// Returns the money alone.
    fn money(self) -> Sums {
        Sums {
            usd: self.usd,
            ..Sums::default()
        }
    }
}

impl Dates {
    /// Makes the sums of a day and its month. No other date is known.
    pub(super) fn from_day(day: u64, today: Sums, usd: u128) -> Dates {
        let month = Month::containing(day);
        let days = Sheet {
            date: day,
            sums: today,
            other_dates: Vec::new(),
        };
        let this_month = Sums {
            usd,
            ..Sums::default()
        };
        Dates {
            month,
            days,
            months: Sheet {
                date: month.first,
                sums: this_month,
                other_dates: Vec::new(),
            },
        }
    }

    /// Returns the present day.
    pub(super) fn day(&self) -> u64 {
        self.days.date
    }

    /// Returns the sums that count for the present day.
    pub(super) fn of_day(&self) -> Sums {
        self.days.counted()
    }

    /// Returns the sums that count for the present month.
    pub(super) fn of_month(&self) -> Sums {
        self.months.counted()
    }

    /// Makes this day the present one: mostly it is. Returns whether it has been there before, and
    /// has sums.
    pub(super) fn turn(&mut self, day: u64) -> bool {
        if day == self.day() {
            return false;
        }
        let mut is_month_known = false;
        self.days.turn(day, self.days.sums.requests > 0);
        if !self.is_this_month(day) {
            // What it costs is perhaps known only when it is over.
            let is_used = self
                .days
                .other_dates
                .iter()
                .any(|other| self.is_this_month(other.date));
            self.month = Month::containing(day);
            self.months
                .turn(self.month.first, self.months.sums.usd > 0 || is_used);
            is_month_known = self.months.sums.usd > 0;
        }
        self.days.sums != Sums::default() || is_month_known
    }

    /// Adds what was used on this day.
    pub(super) fn add(&mut self, day: u64, sums: Sums) {
        self.add_to(day, sums, false, false);
    }

    /// Adds what was used on a later day than the present one, by a clock that was ahead: it counts
    /// for the day and the month of `counted_day`, if they are the present ones.
    pub(super) fn add_ahead(&mut self, day: u64, counted_day: u64, sums: Sums) {
        self.add_to(
            day,
            sums,
            counted_day == self.day(),
            Month::containing(counted_day) == self.month,
        );
    }

    fn add_to(&mut self, day: u64, sums: Sums, counts_today: bool, counts_this_month: bool) {
        self.days.add(day, sums, counts_today);
        self.months
            .add(self.month_of(day), sums.money(), counts_this_month);
    }

    /// Puts one use of this day in the place of another, if the day is still known.
    pub(super) fn replace(&mut self, day: u64, old: Sums, by: Sums) {
        self.days.replace(day, old, by);
        self.months
            .replace(self.month_of(day), old.money(), by.money());
    }

    fn month_of(&self, day: u64) -> u64 {
        if self.is_this_month(day) {
            self.month.first
        } else {
            Month::containing(day).first
        }
    }

    fn is_this_month(&self, day: u64) -> bool {
        (self.month.first..self.month.next).contains(&day)
    }
}

impl Sheet {
    /// Returns what counts for the present date.
    fn counted(&self) -> Sums {
        self.other_dates
            .iter()
            .filter(|other| other.counts)
            .fold(self.sums, |sums, other| sums.and(other.sums))
    }

    /// Goes on to another date, with what that has.
    fn turn(&mut self, to: u64, keep: bool) {
        let from = std::mem::replace(&mut self.date, to);
        if keep {
            self.other_dates.push(Other {
                date: from,
                sums: self.sums,
                counts: false,
            });
        }
        self.sums = self.take(to).sums;
        // Time went back: what is dated later was used already. Or it went on: then that was
        // another day's.
        self.other_dates
            .iter_mut()
            .for_each(|other| other.counts = to < from && other.date > to);
        self.forget_oldest();
    }

    /// Adds to a date, which is remembered from now on.
    fn add(&mut self, date: u64, sums: Sums, counts: bool) {
        if date == self.date {
            self.sums = self.sums.and(sums);
            return;
        }
        let before = self.take(date);
        self.other_dates.push(Other {
            date,
            sums: before.sums.and(sums),
            counts: before.counts || counts,
        });
        self.forget_oldest();
    }

    fn replace(&mut self, date: u64, old: Sums, by: Sums) {
        let other = self
            .other_dates
            .iter_mut()
            .find(|other| other.date == date)
            .map(|other| &mut other.sums);
        if let Some(sums) = if date == self.date {
            Some(&mut self.sums)
        } else {
            other
        } {
            *sums = sums.without(old).and(by);
        }
    }

    /// Takes a date out of the others, with nothing if it is not there.
    fn take(&mut self, date: u64) -> Other {
        let known = self.other_dates.iter().position(|other| other.date == date);
        known
            .map(|index| self.other_dates.remove(index))
            .unwrap_or_default()
    }

    fn forget_oldest(&mut self) {
        let kept_count = self.other_dates.len().min(REMEMBERED);
        self.other_dates
            .drain(..self.other_dates.len() - kept_count);
    }
}
