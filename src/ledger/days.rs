//! Days of UTC, counted from 1970-01-01. Pure.

use crate::access_log::rfc3339;
pub use crate::limits::tally::DAY;
use crate::limits::tally::month::Month;
use std::time::{Duration, SystemTime};

/// The day of a moment.
pub fn day_of(ms: u64) -> u64 {
    ms / DAY
}

/// Its first moment.
pub fn start_of(day: u64) -> u64 {
    day.saturating_mul(DAY)
}

/// `2026-11-21`
pub fn date(day: u64) -> String {
    let mut text = time(start_of(day));
    text.truncate(10);
    text
}

/// The first day of a day's month.
pub fn month_of(day: u64) -> u64 {
    Month::of(day).first
}

/// A moment as RFC 3339 has it.
pub fn time(ms: u64) -> String {
    // Later than that no four digits say the year.
    const LAST: u64 = 253_402_300_799_999;
    rfc3339(SystemTime::UNIX_EPOCH + Duration::from_millis(ms.min(LAST)))
}

/// The clock's.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_months() {
        for (ms, day, month) in [
            (0, "1970-01-01", "1970-01-01"),
            (951_868_799_999, "2000-02-29", "2000-02-01"),
            (951_868_800_000, "2000-03-01", "2000-03-01"),
            (1_795_228_799_999, "2026-11-21", "2026-11-01"),
            (1_798_761_599_999, "2026-12-31", "2026-12-01"),
        ] {
            assert_eq!((date(day_of(ms)), date(month_of(day_of(ms)))), (day.to_owned(), month.to_owned()), "{ms}");
        }
        assert_eq!(time(u64::MAX), "9999-12-31T23:59:59.999Z");
    }
}
