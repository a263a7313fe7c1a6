//! [`Callers`] has what each caller has used on each day of this month. It begins with the sums of
//! the ledger, and then counts the rows that the ledger gets, so that both always agree. Pure.
//!
//! Names come from the catalog and from the ledger, never from a request. A caller that was removed
//! stays for some weeks, since it may come back.

use crate::base::calendar::{day_of, first_day_of_month};
use crate::base::lock::Lock;
use crate::conf::price::Usd;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most days that are kept of a caller: those of a month, and some of a clock that was wrong.
const MAX_DAYS: usize = 62;

/// The use of some days.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallerUse {
    /// The requests that were admitted.
    pub requests: u64,
    /// The tokens that were read and written.
    pub tokens: u64,
    /// Their cost, as far as it is known.
    pub usd: Usd,
    /// The requests whose cost is not known.
    pub unpriced: u64,
}

impl CallerUse {
    /// Adds more use.
    pub fn add(&mut self, more: &CallerUse) {
        self.requests = self.requests.saturating_add(more.requests);
        self.tokens = self.tokens.saturating_add(more.tokens);
        self.usd = self.usd.plus(more.usd);
        self.unpriced = self.unpriced.saturating_add(more.unpriced);
    }
}

/// The use of one caller, as operators see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallerSums {
    /// The use of today.
    pub today: CallerUse,
    /// The use of this month.
    pub month: CallerUse,
    /// The requests of today that one of the caller's limits refused, since the start.
    pub limited: u64,
}

/// The use of all callers.
#[derive(Debug, Default)]
pub struct Callers(Lock<BTreeMap<Arc<str>, Days>>);

/// The use of one caller.
#[derive(Debug, Default)]
struct Days {
    /// The use of each day that has some, the last day at the end.
    used: Vec<(u64, CallerUse)>,
    /// The last day on which a limit refused something, and how often.
    limited: (u64, u64),
}

impl Callers {
    /// Adds the use of a request that was admitted at this time, in milliseconds of Unix time.
    pub fn add_use(&self, caller: &Arc<str>, admitted_at: u64, more: &CallerUse) {
        self.change(caller, |days| days.add(day_of(admitted_at), more));
    }

    /// Adds the use of a day. The day is a number, counted from 1970.
    pub fn add_day_use(&self, caller: &Arc<str>, day: u64, more: &CallerUse) {
        self.change(caller, |days| days.add(day, more));
    }

    /// Counts a request that one of the caller's limits refused at this time.
    pub fn count_limited(&self, caller: &Arc<str>, refused_at: u64) {
        let day = day_of(refused_at);
        self.change(caller, |days| {
            let (last, count) = days.limited;
            days.limited = (
                day,
                if last == day {
                    count.saturating_add(1)
                } else {
                    1
                },
            );
        });
    }

    fn change(&self, caller: &Arc<str>, change: impl FnOnce(&mut Days)) {
        let mut all = self.0.lock();
        match all.get_mut(caller) {
            Some(days) => change(days),
            None => change(all.entry(caller.clone()).or_default()),
        }
    }

    /// Returns the use of all callers as it is at `now`, in milliseconds of Unix time. Forgets
    /// those of whom nothing was seen for long.
    pub fn sums(&self, now: u64) -> BTreeMap<Arc<str>, CallerSums> {
        let (today, month) = (day_of(now), first_day_of_month(day_of(now)));
        let mut all = self.0.lock();
        // A clock that is some weeks ahead, and is set back, finds the old month as it was.
        let is_kept = |day: u64| day.saturating_add(MAX_DAYS as u64) > today;
        all.retain(|_, days| {
            days.used.last().is_some_and(|(day, _)| is_kept(*day)) || is_kept(days.limited.0)
        });
        all.iter()
            .map(|(caller, days)| (caller.clone(), days.sums(today, month)))
            .collect()
    }
}

impl Days {
    fn add(&mut self, day: u64, more: &CallerUse) {
        match self.used.iter().rposition(|(known, _)| *known <= day) {
            Some(index) if self.used.get(index).is_some_and(|(known, _)| *known == day) => {
                if let Some((_, sum)) = self.used.get_mut(index) {
                    sum.add(more);
                }
            }
            before => {
                self.used
                    .insert(before.map_or(0, |index| index + 1), (day, *more));
                if self.used.len() > MAX_DAYS {
                    self.used.remove(0);
                }
            }
        }
    }

    fn sums(&self, today: u64, month: u64) -> CallerSums {
        let mut sums = CallerSums::default();
        for (day, used) in &self.used {
            if *day == today {
                sums.today.add(used);
            }
            if first_day_of_month(*day) == month {
                sums.month.add(used);
            }
        }
        let (day, count) = self.limited;
        sums.limited = if day == today { count } else { 0 };
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::calendar::{DAY, day_start};
    use proptest::prelude::*;

    proptest! {
        /// What is kept by days is what a list of everything sums up to, whatever the clock does.
        #[test]
        fn sums_are_those_of_a_list(
            steps in prop::collection::vec((0..3_usize, 20_000..20_045_u64, 0..DAY, 0..5_u64), 0..60),
            now in 20_000..20_045_u64,
        ) {
            let names: [Arc<str>; 3] = ["a".into(), "b".into(), "c".into()];
            let callers = Callers::default();
            for (caller, day, ms, amount) in &steps {
                let more = CallerUse { requests: 1, tokens: *amount, usd: Usd(*amount), unpriced: amount % 2 };
                callers.add_use(&names[*caller], day_start(*day) + ms, &more);
            }
            let found = callers.sums(day_start(now) + 7);
            for (place, name) in names.iter().enumerate() {
                let of = |is_wanted: &dyn Fn(u64) -> bool| {
                    let mut sum = CallerUse::default();
                    for (_, _, _, amount) in steps.iter().filter(|(caller, day, ..)| *caller == place && is_wanted(*day)) {
                        sum.add(&CallerUse { requests: 1, tokens: *amount, usd: Usd(*amount), unpriced: amount % 2 });
                    }
                    sum
                };
                let expected = CallerSums {
                    today: of(&|day| day == now),
                    month: of(&|day| first_day_of_month(day) == first_day_of_month(now)),
                    limited: 0,
                };
                prop_assert_eq!(found.get(name).cloned().unwrap_or_default(), expected);
            }
        }
    }

    #[test]
    fn refusals_count_for_their_day_then_go() {
        let (callers, name) = (Callers::default(), Arc::from("a"));
        let day = day_start(20_010);
        callers.count_limited(&name, day);
        callers.count_limited(&name, day + 1);
        assert_eq!(callers.sums(day)[&name].limited, 2);
        callers.count_limited(&name, day + DAY);
        assert_eq!(callers.sums(day + DAY)[&name].limited, 1);
        assert_eq!(callers.sums(day + 2 * DAY)[&name], CallerSums::default());
        assert!(callers.sums(day + 70 * DAY).is_empty() && callers.0.lock().is_empty());
    }
}
