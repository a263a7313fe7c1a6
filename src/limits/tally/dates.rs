//! [`Dates`] are the sums of days and months, each of what was admitted on it. They hold the
//! present day and month, and some other dates that may come again when a clock is set.
//!
//! When a clock is set back, nobody knows whether it was wrong before or is wrong now. So the sums
//! of later dates also count for the present date until time goes on. If a later date comes again,
//! it goes on with its old sums. The ledger has the same sums.

use crate::base::calendar::Month;

/// The number of other dates that are remembered: those that were changed last. There are other
/// dates only if a clock was set. The store's script has the same number.
const REMEMBERED: usize = 16;

/// The sums of one day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) requests: u64,
    // These are wide on purpose. A caller may ask for any number of tokens. With a sum that is
    // full, the refund would also take away what others used.
    pub(super) tokens: u128,
    pub(super) usd: u128,
}

/// The sums of the present dates and of others. A month counts only money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dates {
    pub(super) day: u64,
    today: Sums,
    pub(super) month: Month,
    this_month: u128,
    others: Option<Box<Others>>,
}

/// The sums of other dates, by the day or by the month's first day. The dates that were changed
/// last are at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Others {
    days: Vec<Other<Sums>>,
    months: Vec<Other<u128>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Other<S> {
    date: u64,
    sums: S,
    /// True if the date is later than the present one: its sums count for the present one too.
    counts: bool,
}

impl Default for Dates {
    fn default() -> Dates {
        Dates::of(0, Sums::default(), 0)
    }
}

impl Sums {
    fn and(self, other: Sums) -> Sums {
        Sums {
            requests: self.requests.saturating_add(other.requests),
            tokens: self.tokens.saturating_add(other.tokens),
            usd: self.usd.saturating_add(other.usd),
        }
    }

    fn without(self, other: Sums) -> Sums {
        Sums {
            requests: self.requests.saturating_sub(other.requests),
            tokens: self.tokens.saturating_sub(other.tokens),
            usd: self.usd.saturating_sub(other.usd),
        }
    }
}

impl Dates {
    /// Makes the sums of the present dates. No other date is known.
    pub(super) fn of(day: u64, today: Sums, this_month: u128) -> Dates {
        Dates { day, today, month: Month::of(day), this_month, others: None }
    }

    /// Returns the sums that count for the present day.
    pub(super) fn of_day(&self) -> Sums {
        let Some(others) = &self.others else { return self.today };
        others.days.iter().filter(|other| other.counts).fold(self.today, |sums, other| sums.and(other.sums))
    }

    /// Returns the sum that counts for the present month.
    pub(super) fn of_month(&self) -> u128 {
        let Some(others) = &self.others else { return self.this_month };
        others
            .months
            .iter()
            .filter(|other| other.counts)
            .fold(self.this_month, |sum, other| sum.saturating_add(other.sums))
    }

    /// Moves the present date to `day`, which is mostly the same. Returns whether the new date has
    /// been there before and has sums.
    pub(super) fn turn(&mut self, day: u64) -> bool {
        if day == self.day {
            return false;
        }
        let mut is_month_known = false;
        let others = self.others.get_or_insert_default();
        self.today = turn(&mut others.days, (self.day, self.today), self.today.requests > 0, day);
        if !(self.month.first..self.month.next).contains(&day) {
            let month = Month::of(day);
            // The cost of the month's requests may become known only after the month is over.
            let is_used = others.days.iter().any(|other| (self.month.first..self.month.next).contains(&other.date));
            let sum = (self.month.first, self.this_month);
            self.this_month = turn(&mut others.months, sum, self.this_month > 0 || is_used, month.first);
            self.month = month;
            is_month_known = self.this_month > 0;
        }
        self.day = day;
        let is_known = self.today != Sums::default() || is_month_known;
        if others.days.is_empty() && others.months.is_empty() {
            self.others = None;
        }
        is_known
    }

    /// Adds use to a day.
    pub(super) fn add(&mut self, day: u64, sums: Sums) {
        self.add_to(day, sums, false, false);
    }

    /// Adds use to a day that is later than the present one, from a clock that was ahead. It also
    /// counts for the day and the month of `at`, if they are the present ones.
    pub(super) fn add_ahead(&mut self, day: u64, at: u64, sums: Sums) {
        self.add_to(day, sums, at == self.day, Month::of(at) == self.month);
    }

    fn add_to(&mut self, day: u64, sums: Sums, counts_today: bool, counts_this_month: bool) {
        if day == self.day {
            self.today = self.today.and(sums);
        } else {
            change(&mut self.others.get_or_insert_default().days, day, |other| {
                other.sums = other.sums.and(sums);
                other.counts |= counts_today;
            });
        }
        if (self.month.first..self.month.next).contains(&day) {
            self.this_month = self.this_month.saturating_add(sums.usd);
        } else {
            change(&mut self.others.get_or_insert_default().months, Month::of(day).first, |other| {
                other.sums = other.sums.saturating_add(sums.usd);
                other.counts |= counts_this_month;
            });
        }
    }

    /// Replaces use on a day by other use, if the day is still remembered.
    pub(super) fn replace(&mut self, day: u64, what: Sums, by: Sums) {
        let usd = |sum: u128| sum.saturating_sub(what.usd).saturating_add(by.usd);
        if day == self.day {
            self.today = self.today.without(what).and(by);
        } else if let Some(others) = &mut self.others
            && let Some(other) = others.days.iter_mut().find(|other| other.date == day)
        {
            other.sums = other.sums.without(what).and(by);
        }
        if (self.month.first..self.month.next).contains(&day) {
            self.this_month = usd(self.this_month);
        } else if let Some(others) = &mut self.others {
            let first = Month::of(day).first;
            others.months.iter_mut().filter(|other| other.date == first).for_each(|other| other.sums = usd(other.sums));
        }
    }
}

/// Moves from one date to another. Returns the sums that the other date already has.
fn turn<S: Copy + Default>(others: &mut Vec<Other<S>>, (from, sums): (u64, S), keep: bool, to: u64) -> S {
    if keep {
        others.push(Other { date: from, sums, counts: false });
    }
    let known = others.iter().position(|other| other.date == to).map(|at| others.remove(at).sums);
    // If time went back, the sums of later dates count as used. If time went on, those sums belong
    // to another day.
    others.iter_mut().for_each(|other| other.counts = to < from && other.date > to);
    forget(others);
    known.unwrap_or_default()
}

/// Changes the sums of one other date, and remembers the date from now on.
fn change<S: Copy + Default>(others: &mut Vec<Other<S>>, date: u64, how: impl FnOnce(&mut Other<S>)) {
    let known = others.iter().position(|other| other.date == date).map(|at| others.remove(at));
    let mut known = known.unwrap_or(Other { date, sums: S::default(), counts: false });
    how(&mut known);
    others.push(known);
    forget(others);
}

fn forget<S>(others: &mut Vec<Other<S>>) {
    let most = others.len().min(REMEMBERED);
    others.drain(..others.len() - most);
}
