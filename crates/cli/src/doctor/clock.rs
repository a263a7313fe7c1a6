//! The clock of this machine, against the clocks of the providers and of the store.

use std::time::{Duration, SystemTime};

use super::report::{CheckState, Checked, Finding, Findings, Subject};
use super::words::first_three;
use portcullis::base::calendar;
use portcullis::base::units::rough_duration;

/// Clocks that differ by less agree. A provider's clock has whole seconds.
const MAX_DIFFERENCE: i64 = 5_000;
/// With clocks that differ by more, signatures and tokens are refused, or are soon.
const REFUSED_DIFFERENCE: i64 = 60_000;

/// The clocks that were seen.
#[derive(Default)]
pub(super) struct Clocks(Vec<SeenClock>);

struct SeenClock {
    whose: String,
    /// The milliseconds by which it is ahead of ours.
    ahead: i64,
}

impl Clocks {
    /// Adds a clock: the time that it showed, in milliseconds of Unix time, when our clock was
    /// between `before` and now.
    pub(super) fn add(&mut self, whose: String, before: SystemTime, server_ms: u64) {
        let (sent, now) = (calendar::unix_millis(before), calendar::now_millis());
        // Whatever the time between them, the clock was read in it.
        let ahead = match server_ms {
            _ if server_ms > now => to_signed(server_ms - now),
            // A provider tells the beginning of a second.
            _ if server_ms.saturating_add(999) < sent => -to_signed(sent - server_ms - 999),
            _ => 0,
        };
        self.0.push(SeenClock { whose, ahead });
    }

    /// Reports whether our clock is right. Where others differ from each other, the one in the
    /// middle counts; of two in the middle, the one that is nearer to ours. If there are only two
    /// others, and all three differ, nothing shows which is right.
    pub(super) fn judge(self, report: &mut Findings) {
        self.findings()
            .into_iter()
            .for_each(|finding| report.add(finding));
    }

    fn findings(mut self) -> Vec<Finding> {
        let finding = |state, seen| Subject::single("clock").finding(state, "time", seen);
        self.0.sort_by_key(|seen| seen.ahead);
        let half = self.0.len() / 2;
        let upper = self.0.get(half).map(|seen| seen.ahead);
        let lower = self
            .0
            .get(half.wrapping_sub(1))
            .filter(|_| self.0.len() == 2 * half)
            .map(|seen| seen.ahead);
        let Some(middle) = upper
            .into_iter()
            .chain(lower)
            .min_by_key(|ahead| ahead.unsigned_abs())
        else {
            return vec![finding(
                CheckState::Skip,
                "no other clock was seen".to_owned(),
            )];
        };
        if let [slow, fast] = self.0.as_slice()
            && fast.ahead - slow.ahead > MAX_DIFFERENCE
            && middle.abs() > MAX_DIFFERENCE
        {
            let seen = format!(
                "the clock of {} is {} that of {}: one of them is wrong. This machine's clock agrees with neither",
                fast.whose,
                difference_text(fast.ahead - slow.ahead),
                slow.whose
            );
            return vec![
                finding(CheckState::Warn, seen)
                    .with_remedy("let NTP set this machine's clock, and those that are yours"),
            ];
        }
        let (agree, others): (Vec<&SeenClock>, Vec<&SeenClock>) = self
            .0
            .iter()
            .partition(|seen| (seen.ahead - middle).abs() <= MAX_DIFFERENCE);
        let agree: Vec<&str> = agree.into_iter().map(|seen| &*seen.whose).collect();
        let mut findings = vec![clock_finding(middle, &first_three(&agree))];
        findings.extend(others.into_iter().map(|seen| {
            let by = difference_text(seen.ahead - middle);
            // One other clock and this machine's agree: two against one.
            let than = if self.0.len() == 2 {
                "that of this machine: one of them is wrong"
            } else {
                "the others"
            };
            let text = format!("the clock of {} is {by} {than}", seen.whose);
            finding(CheckState::Warn, text).with_remedy("let NTP set that clock, if it is yours")
        }));
        findings
    }
}

fn clock_finding(ahead: i64, others: &str) -> Finding {
    let state = match ahead.unsigned_abs() {
        by if by > REFUSED_DIFFERENCE.unsigned_abs() => CheckState::Fail,
        by if by > MAX_DIFFERENCE.unsigned_abs() => CheckState::Warn,
        _ => CheckState::Ok,
    };
    let subject = Subject::single("clock");
    if state == CheckState::Ok {
        return subject.finding(state, "time", format!("agrees with {others}"));
    }
    let seen = format!(
        "this machine's clock is {} that of {others}",
        difference_text(-ahead)
    );
    subject.finding(state, "time", seen).with_remedy(
        "let NTP set the clock. AWS and Google refuse requests that are signed minutes off, and the ends of keys, and of daily and monthly \
         limits, go by it",
    )
}

fn difference_text(ahead: i64) -> String {
    let by = rough_duration(Duration::from_millis(ahead.unsigned_abs()));
    if ahead > 0 {
        format!("{by} ahead of")
    } else {
        format!("{by} behind")
    }
}

fn to_signed(number: u64) -> i64 {
    i64::try_from(number)
        .unwrap_or(i64::MAX / 4)
        .min(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_judged_by_the_median() {
        let (now, mut clocks) = (SystemTime::now(), Clocks::default());
        let ms = calendar::now_millis();
        for (whose, told) in [("a", ms + 70_500), ("b", ms + 71_000), ("c", ms - 500)] {
            clocks.add(whose.to_owned(), now, told);
        }
        let ahead: Vec<bool> = clocks
            .0
            .iter()
            .map(|seen| seen.ahead > REFUSED_DIFFERENCE)
            .collect();
        assert_eq!(ahead, [true, true, false]);
        assert_eq!(
            clocks.0.last().map(|seen| seen.ahead),
            Some(0),
            "the beginning of a second is not behind"
        );
        let text = |ahead| serde_json::to_value(clock_finding(ahead, "a")).unwrap();
        assert_eq!(text(0)["seen"], "agrees with a");
        assert_eq!(
            (&text(6_000)["state"], &text(6_000)["seen"]),
            (
                &"warn".into(),
                &"this machine's clock is 6 s behind that of a".into()
            )
        );
        assert_eq!(
            (&text(-61_000)["state"], &text(-61_000)["seen"]),
            (
                &"fail".into(),
                &"this machine's clock is 61 s ahead of that of a".into()
            )
        );
    }

    /// Each case: by how many seconds the others are ahead, and the findings.
    #[test]
    fn an_even_median_is_the_nearer_one() {
        let check = |ahead: &[i64], expected: &[(&str, &str)]| {
            let seen = |(nth, ahead): (usize, &i64)| SeenClock {
                whose: format!("c{nth}"),
                ahead: ahead * 1_000,
            };
            let found = Clocks(ahead.iter().enumerate().map(seen).collect()).findings();
            let found: Vec<_> = found
                .iter()
                .map(|one| serde_json::to_value(one).unwrap())
                .collect();
            let found: Vec<_> = found
                .iter()
                .map(|one| {
                    (
                        one["state"].as_str().unwrap(),
                        one["seen"].as_str().unwrap(),
                    )
                })
                .collect();
            assert_eq!(found, expected, "{ahead:?}");
        };
        check(&[], &[("skip", "no other clock was seen")]);
        let one = "the clock of c1 is 70 s ahead of that of this machine: one of them is wrong";
        check(&[0, 70], &[("ok", "agrees with c0"), ("warn", one)]);
        let other = "the clock of c0 is 70 s behind that of this machine: one of them is wrong";
        check(&[-70, 0], &[("ok", "agrees with c1"), ("warn", other)]);
        let neither = "the clock of c1 is 60 s ahead of that of c0: one of them is wrong. This machine's clock agrees with neither";
        check(&[20, 80], &[("warn", neither)]);
        check(
            &[70, 72],
            &[("fail", "this machine's clock is 70 s behind that of c0, c1")],
        );
        let fast = "the clock of c2 is 70 s ahead of the others";
        check(
            &[0, 0, 70, 71],
            &[
                ("ok", "agrees with c0, c1"),
                ("warn", fast),
                ("warn", "the clock of c3 is 71 s ahead of the others"),
            ],
        );
        check(
            &[-70, -70, 0],
            &[
                (
                    "fail",
                    "this machine's clock is 70 s ahead of that of c0, c1",
                ),
                ("warn", "the clock of c2 is 70 s ahead of the others"),
            ],
        );
    }
}
