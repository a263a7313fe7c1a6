//! The calendar: days and months of UTC, counted from 1970-01-01, and times as RFC 3339 writes
//! them.
//!
//! Moments are milliseconds of Unix time. Only [`now_millis`] reads a clock.

use std::time::{Duration, Instant, SystemTime};

/// A day, in milliseconds.
pub const DAY: u64 = 86_400_000;
/// A day, in seconds.
const DAY_SECONDS: u64 = 86_400;
/// The days of four hundred years. After them leap years come again in the same order.
const ERA: u64 = 146_097;
/// The days from the beginning of an era, 0000-03-01, to 1970-01-01.
const BEFORE_1970: u64 = 719_468;

/// Returns the day of a moment.
pub fn day_of(ms: u64) -> u64 {
    ms / DAY
}

/// Returns the first moment of a day.
pub fn day_start(day: u64) -> u64 {
    day.saturating_mul(DAY)
}

/// Returns the first day of a day's month.
pub fn first_day_of_month(day: u64) -> u64 {
    Month::containing(day).first
}

/// Writes a day as `2026-11-21`.
pub fn format_date(day: u64) -> String {
    let mut text = format_time(day_start(day));
    text.truncate(10);
    text
}

/// Writes a moment as RFC 3339.
pub fn format_time(ms: u64) -> String {
    String::from_utf8_lossy(&ascii_timestamp(ms)).into_owned()
}

/// Writes a past moment as [`format_system_time`] does. `clock` is what the clock shows at `now`.
pub fn format_past_instant(moment: Instant, now: Instant, clock: SystemTime) -> String {
    let since = now.saturating_duration_since(moment);
    format_system_time(clock.checked_sub(since).unwrap_or(clock))
}

/// Writes a time to the millisecond, as `2026-11-21T02:39:59.999Z`. For a year after 9999, writes
/// the last moment of 9999.
pub fn format_system_time(time: SystemTime) -> String {
    format_time(unix_millis(time))
}

/// Returns the time since 1970; zero for an earlier time.
pub fn unix_time(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Returns the milliseconds since 1970.
pub fn unix_millis(time: SystemTime) -> u64 {
    u64::try_from(unix_time(time).as_millis()).unwrap_or(u64::MAX)
}

/// Writes a moment as RFC 3339, in ASCII.
pub fn ascii_timestamp(ms: u64) -> [u8; 24] {
    // A later year has more than four digits.
    const LAST: u64 = 253_402_300_799_999;
    let digit = |number: u64| b'0' + u8::try_from(number % 10).unwrap_or_default();
    let two = |number: u64| [digit(number / 10), digit(number)];
    let ms = ms.min(LAST);
    let Date { year, month, day } = Date::from_day(day_of(ms));
    let seconds = ms % DAY / 1_000;
    let ([c1, c2], [y1, y2], [m1, m2], [d1, d2]) =
        (two(year / 100), two(year), two(month), two(day));
    let ([h1, h2], [i1, i2], [s1, s2]) = (
        two(seconds / 3_600),
        two(seconds / 60 % 60),
        two(seconds % 60),
    );
    let (f1, [f2, f3]) = (digit(ms / 100), two(ms));
    [
        c1, c2, y1, y2, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', i1, i2, b':', s1, s2, b'.',
        f1, f2, f3, b'Z',
    ]
}

/// Returns the moment that the clock shows.
pub fn now_millis() -> u64 {
    unix_millis(SystemTime::now())
}

/// Reads a time (RFC 3339 §5.6) or a date, from 1970 on, and returns the seconds since 1970. A
/// fraction is dropped, and a leap second counts as the second before it.
pub fn parse_unix_seconds(text: &str) -> Option<u64> {
    let (date, time) = text.as_bytes().split_at_checked(10)?;
    let [y @ .., b'-', m1, m2, b'-', d1, d2] = date else {
        return None;
    };
    let date = Date {
        year: parse_digits(y)?,
        month: parse_digits(&[*m1, *m2])?,
        day: parse_digits(&[*d1, *d2])?,
    };
    if !(1..=12).contains(&date.month)
        || !(1..=days_in_month(date.year, date.month)).contains(&date.day)
    {
        return None;
    }
    let (seconds, ahead, behind) = match time {
        [] => (0, 0, 0),
        [
            b'T' | b't' | b' ',
            h1,
            h2,
            b':',
            m1,
            m2,
            b':',
            s1,
            s2,
            rest @ ..,
        ] => {
            let (h, m, s) = (
                parse_digits(&[*h1, *h2])?,
                parse_digits(&[*m1, *m2])?,
                parse_digits(&[*s1, *s2])?,
            );
            if h > 23 || m > 59 || s > 60 {
                return None;
            }
            let (ahead, behind) = parse_offset(rest)?;
            (h * 3600 + m * 60 + s.min(59), ahead, behind)
        }
        _ => return None,
    };
    (date.days_since_era_start() * DAY_SECONDS + seconds + behind)
        .checked_sub(BEFORE_1970 * DAY_SECONDS + ahead)
}

/// Reads the text after the seconds of a time. Returns the seconds by which the time is ahead of
/// UTC, and those by which it is behind UTC.
fn parse_offset(text: &[u8]) -> Option<(u64, u64)> {
    let zone = match text {
        [b'.', fraction @ ..] => {
            let width = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
            if width == 0 {
                return None;
            }
            fraction.get(width..)?
        }
        zone => zone,
    };
    match zone {
        [b'Z' | b'z'] => Some((0, 0)),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (h, m) = (parse_digits(&[*h1, *h2])?, parse_digits(&[*m1, *m2])?);
            if h > 23 || m > 59 {
                return None;
            }
            let seconds = h * 3600 + m * 60;
            Some(if *sign == b'+' {
                (seconds, 0)
            } else {
                (0, seconds)
            })
        }
        _ => None,
    }
}

fn parse_digits(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0, |n, b| {
        b.is_ascii_digit().then(|| n * 10 + u64::from(b - b'0'))
    })
}

/// A month: its first day, and the first day of the next month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Month {
    /// The month's first day.
    pub first: u64,
    /// The first day of the next month.
    pub next: u64,
}

impl Month {
    /// Returns the month of a day.
    pub fn containing(day: u64) -> Month {
        let date = Date::from_day(day);
        let first = day - (date.day - 1);
        Month {
            first,
            next: first + days_in_month(date.year, date.month),
        }
    }
}

/// A date: a year, a month and a day.
struct Date {
    year: u64,
    month: u64,
    day: u64,
}

impl Date {
    /// Returns the date of a day, by Howard Hinnant's `civil_from_days`. Its years begin in March,
    /// so that the leap day is the last of a year.
    fn from_day(day: u64) -> Date {
        let (era, day_of_era) = ((day + BEFORE_1970) / ERA, (day + BEFORE_1970) % ERA);
        let year =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / (ERA - 1)) / 365;
        let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let month = if from_march < 10 {
            from_march + 3
        } else {
            from_march - 9
        };
        let day = day_of_year - (153 * from_march + 2) / 5 + 1;
        Date {
            year: year + era * 400 + u64::from(month <= 2),
            month,
            day,
        }
    }

    /// Returns the number of days since 0000-03-01, by Howard Hinnant's `days_from_civil`. For a
    /// date before that the number is wrong, but smaller than that of any date since 1970; the
    /// caller refuses dates before 1970.
    fn days_since_era_start(&self) -> u64 {
        let (year, from_march) = if self.month > 2 {
            (self.year, self.month - 3)
        } else {
            (self.year.saturating_sub(1), self.month + 9)
        };
        year * 365 + year / 4 - year / 100 + year / 400 + (153 * from_march + 2) / 5 + self.day - 1
    }
}

/// Returns the number of days of a month.
fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 => {
            28 + u64::from(
                year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)),
            )
        }
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn days_and_months() {
        for (ms, day, month) in [
            (0, "1970-01-01", "1970-01-01"),
            (951_868_799_999, "2000-02-29", "2000-02-01"),
            (951_868_800_000, "2000-03-01", "2000-03-01"),
            (1_795_228_799_999, "2026-11-21", "2026-11-01"),
            (1_798_761_599_999, "2026-12-31", "2026-12-01"),
        ] {
            assert_eq!(
                (
                    format_date(day_of(ms)),
                    format_date(first_day_of_month(day_of(ms)))
                ),
                (day.to_owned(), month.to_owned()),
                "{ms}"
            );
        }
        assert_eq!(format_time(u64::MAX), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn times() {
        let check = |millis: u64, expected: &str| {
            assert_eq!(
                format_system_time(SystemTime::UNIX_EPOCH + Duration::from_millis(millis)),
                expected
            )
        };
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_400_123, "2000-02-29T00:00:00.123Z");
        check(1_795_228_799_999, "2026-11-21T02:39:59.999Z");
        check(4_102_444_800_000, "2100-01-01T00:00:00.000Z");
    }
}
