//! The clock of this machine, against the clocks of the providers and of the store.

use std::time::{Duration, SystemTime};

use super::report::{CheckState, Finding, Findings, Subject};
use super::words::{some, span};
use crate::base::calendar;

/// Clocks that differ by less agree. A provider tells whole seconds.
const AGREE: i64 = 5_000;
/// With clocks that differ by more, signatures and tokens are refused, or are soon.
const REFUSED: i64 = 60_000;

/// The clocks that were seen.
#[derive(Default)]
pub(super) struct Clocks(Vec<Seen>);

struct Seen {
    whose: String,
    /// The milliseconds by which it is ahead of ours.
    ahead: i64,
}

impl Clocks {
    /// Adds a clock: the time that it told, in milliseconds of Unix time, when our clock was
    /// between `before` and now.
    pub(super) fn add(&mut self, whose: String, before: SystemTime, told: u64) {
        let sent = before.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (sent, now) = (u64::try_from(sent.as_millis()).unwrap_or(u64::MAX), calendar::now());
        // Whatever the time between them, the clock was read in it.
        let ahead = match told {
            _ if told > now => signed(told - now),
            // A provider tells the beginning of a second.
            _ if told.saturating_add(999) < sent => -signed(sent - told - 999),
            _ => 0,
        };
        self.0.push(Seen { whose, ahead });
    }

    /// Tells whether our clock is right. Where others differ from each other, the one in the middle
    /// counts.
    pub(super) fn judge(mut self, report: &mut Findings) {
        let subject = || Subject::of("clock");
        self.0.sort_by_key(|seen| seen.ahead);
        let Some(middle) = self.0.get(self.0.len() / 2).map(|seen| seen.ahead) else {
            report.skip(subject(), "time", "no other clock was seen");
            return;
        };
        let agree: Vec<&str> =
            self.0.iter().filter(|seen| (seen.ahead - middle).abs() <= AGREE).map(|seen| &*seen.whose).collect();
        report.add(judged(middle, &some(&agree)));
        for seen in self.0.iter().filter(|seen| (seen.ahead - middle).abs() > AGREE) {
            let text = format!("the clock of {} is {} the others", seen.whose, differs(seen.ahead - middle));
            report.add(
                Finding::new(CheckState::Warn, subject(), "time", text).with("let NTP set that clock, if it is yours"),
            );
        }
    }
}

fn judged(ahead: i64, others: &str) -> Finding {
    let state = match ahead.unsigned_abs() {
        by if by > REFUSED.unsigned_abs() => CheckState::Fail,
        by if by > AGREE.unsigned_abs() => CheckState::Warn,
        _ => CheckState::Ok,
    };
    let subject = Subject::of("clock");
    if state == CheckState::Ok {
        return Finding::new(state, subject, "time", format!("agrees with {others}"));
    }
    let seen = format!("this machine's clock is {} that of {others}", differs(-ahead));
    Finding::new(state, subject, "time", seen).with(
        "let NTP set the clock. AWS and Google refuse requests that are signed minutes off, and the ends of keys, and of daily and monthly \
         limits, go by it",
    )
}

fn differs(ahead: i64) -> String {
    let by = span(Duration::from_millis(ahead.unsigned_abs()));
    if ahead > 0 { format!("{by} ahead of") } else { format!("{by} behind") }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_judged_by_the_one_in_the_middle() {
        let (now, mut clocks) = (SystemTime::now(), Clocks::default());
        let ms = calendar::now();
        for (whose, told) in [("a", ms + 70_500), ("b", ms + 71_000), ("c", ms - 500)] {
            clocks.add(whose.to_owned(), now, told);
        }
        let ahead: Vec<bool> = clocks.0.iter().map(|seen| seen.ahead > REFUSED).collect();
        assert_eq!(ahead, [true, true, false]);
        assert_eq!(clocks.0.last().map(|seen| seen.ahead), Some(0), "the beginning of a second is not behind");
        let text = |ahead| serde_json::to_value(judged(ahead, "a")).unwrap();
        assert_eq!(text(0)["seen"], "agrees with a");
        assert_eq!(
            (&text(6_000)["state"], &text(6_000)["seen"]),
            (&"warn".into(), &"this machine's clock is 6 s behind that of a".into())
        );
        assert_eq!(
            (&text(-61_000)["state"], &text(-61_000)["seen"]),
            (&"fail".into(), &"this machine's clock is 61 s ahead of that of a".into())
        );
    }
}
