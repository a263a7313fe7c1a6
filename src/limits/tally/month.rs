//! Months of UTC.

/// A month, as days since 1970: the first of it, and the first of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Month {
    pub(crate) first: u64,
    pub(crate) next: u64,
}

impl Month {
    pub(crate) fn of(day: u64) -> Month {
        /// In four hundred years.
        const DAYS: u64 = 146_097;
        // Howard Hinnant's `civil_from_days`: years begin in March, so that the leap day is a
        // year's last.
        let of_era = (day + 719_468) % DAYS;
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / (DAYS - 1)) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let of_month = of_year - (153 * month + 2) / 5;
        let leap = (year + 1).is_multiple_of(4) && (!(year + 1).is_multiple_of(100) || (year + 1).is_multiple_of(400));
        // From March on, five months have 153 days.
        let long = match month {
            11 => 28 + u64::from(leap),
            month => (153 * (month + 1) + 2) / 5 - (153 * month + 2) / 5,
        };
        let first = day - of_month;
        Month { first, next: first + long }
    }
}
