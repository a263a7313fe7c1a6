//! [`Pending`] has the changes that the receiver has not got yet. Pure: the time is passed in, as
//! milliseconds of Unix time.

use crate::base::calendar::format_time;
use crate::operator::problems::{FindingName, Noticed};
use crate::status::{ProblemReport, Severity};
use serde_json::json;
use std::collections::BTreeMap;

/// The least time between two notices.
const MINUTE: u64 = 60_000;
/// The time after the first failure. Each further one doubles it.
const RETRY_PAUSE: u64 = 5_000;
/// The longest time between two tries.
const MAX_PAUSE: u64 = 300_000;
/// The most problems of a notice, of those that began and of those that ended.
const MAX_PROBLEMS: usize = 30;
/// The most ended problems that are remembered while the receiver is down.
const MAX_ENDED: usize = 1_000;

/// The changes since the last notice.
#[derive(Default)]
pub(super) struct Pending {
    /// The problems at the last look.
    last_problems: BTreeMap<FindingName, Known>,
    /// The problems that the receiver believes to last, and how bad it believes them to be.
    reported: BTreeMap<FindingName, Severity>,
    /// The problems that have ended since: since when they lasted, and until when.
    ended_problems: BTreeMap<FindingName, (u64, u64)>,
    /// The time of the last try.
    last_try: Option<u64>,
    /// The number of tries in a row that failed.
    failures: u32,
}

struct Known {
    since: u64,
    severity: Severity,
    report: ProblemReport,
}

impl Pending {
    /// Takes the problems of a look.
    pub(super) fn observe<'n>(&mut self, problems: impl Iterator<Item = &'n Noticed>, now: u64) {
        let present = problems.map(|one| {
            let known = Known {
                since: one.since,
                severity: one.finding.severity,
                report: one.report(),
            };
            (one.finding.name(), known)
        });
        let present: BTreeMap<FindingName, Known> = present.collect();
        for (name, gone) in std::mem::replace(&mut self.last_problems, present) {
            if !self.last_problems.contains_key(&name) && self.ended_problems.len() < MAX_ENDED {
                self.ended_problems.insert(name, (gone.since, now));
            }
        }
        // What is back, and was believed to last, has not changed for the receiver.
        self.ended_problems.retain(|name, _| {
            !(self.reported.contains_key(name) && self.last_problems.contains_key(name))
        });
    }

    /// Returns the notice to send now, as JSON, if there is news and it is time.
    pub(super) fn due_notice(&self, instance: &str, now: u64) -> Option<String> {
        let pause = match self.failures {
            0 => MINUTE,
            failures => RETRY_PAUSE
                .saturating_mul(1 << failures.min(10).saturating_sub(1))
                .min(MAX_PAUSE),
        };
        // A clock that was set must not hold notices back.
        if self
            .last_try
            .is_some_and(|last_try| now.abs_diff(last_try) < pause)
        {
            return None;
        }
        // A problem that has become worse is sent again.
        let news = self.last_problems.iter().filter(|(name, known)| {
            let reported = self.reported.get(*name);
            reported.is_none_or(|reported| known.severity < *reported)
        });
        let mut began: Vec<&Known> = news.map(|(_, known)| known).collect();
        if began.is_empty() && self.ended_problems.is_empty() {
            return None;
        }
        began.sort_by_key(|known| (known.severity, known.since));
        let more = began.len().saturating_sub(MAX_PROBLEMS)
            + self.ended_problems.len().saturating_sub(MAX_PROBLEMS);
        let text = self.text(instance, &began);
        let began: Vec<&ProblemReport> = began
            .iter()
            .take(MAX_PROBLEMS)
            .map(|known| &known.report)
            .collect();
        let ended = self.ended_problems.iter().take(MAX_PROBLEMS).map(|((rule, kind, name, part), (since, until))| {
            let subject = json!({ "kind": kind, "name": &**name });
            json!({ "rule": rule.name(), "subject": subject, "part": part_of(part), "since": format_time(*since), "until": format_time(*until) })
        });
        let ended: Vec<_> = ended.collect();
        let notice = json!({ "instance": instance, "time": format_time(now), "began": began, "ended": ended, "more": more, "text": text });
        Some(notice.to_string())
    }

    /// Notes that a notice was tried. If the receiver took it, it knows all that was in it.
    pub(super) fn note_try(&mut self, is_taken: bool, now: u64) {
        self.last_try = Some(now);
        if is_taken {
            self.failures = 0;
            self.reported = self
                .last_problems
                .iter()
                .map(|(name, known)| (name.clone(), known.severity))
                .collect();
            self.ended_problems.clear();
        } else {
            self.failures = self.failures.saturating_add(1);
        }
    }

    /// Returns whether the last try failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Writes the sentence for receivers that show a text.
    fn text(&self, instance: &str, began: &[&Known]) -> String {
        let mut parts: Vec<String> = Vec::new();
        for known in began.iter().take(3) {
            parts.push(format!(
                "{}: {}",
                known.severity.name().to_uppercase(),
                known.report.summary
            ));
        }
        let ended = self
            .ended_problems
            .keys()
            .take(3)
            .map(|(rule, _, name, part)| {
                let part = part_of(part)
                    .map(|part| format!(" ({part})"))
                    .unwrap_or_default();
                format!("Ended: {} of {name}{part}.", rule.name())
            });
        parts.extend(ended);
        let more = began.len().saturating_sub(3) + self.ended_problems.len().saturating_sub(3);
        if more > 0 {
            parts.push(format!("And {more} more."));
        }
        format!("portcullis {instance}: {}", parts.join(" "))
    }
}

fn part_of(part: &'static str) -> Option<&'static str> {
    Some(part).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::problems::{Finding, Rule};
    use serde_json::Value;

    const START: u64 = 1_800_000_000_000;

    fn problem(name: &str, severity: Severity) -> Noticed {
        let finding = Finding::new(
            Rule::BreakerOpen,
            severity,
            ("target", name),
            format!("{name} is out."),
            "Mend it.",
        );
        Noticed {
            finding,
            since: START,
            is_problem: true,
        }
    }

    /// Looks at so many seconds, and sends what is due, if the receiver takes it.
    fn look(pending: &mut Pending, second: u64, names: &[&str], takes: bool) -> Option<Value> {
        let now = START + second * 1_000;
        let problems: Vec<_> = names
            .iter()
            .map(|name| problem(name, Severity::Warning))
            .collect();
        pending.observe(problems.iter(), now);
        let notice = pending.due_notice("i", now)?;
        pending.note_try(takes, now);
        Some(serde_json::from_str(&notice).unwrap())
    }

    fn names(list: &Value) -> Vec<&str> {
        list.as_array()
            .unwrap()
            .iter()
            .map(|one| one["subject"]["name"].as_str().unwrap())
            .collect()
    }

    #[test]
    fn flapping_is_told_once_and_gathered() {
        let mut pending = Pending::default();
        assert!(
            look(&mut pending, 0, &[], true).is_none(),
            "there is no news"
        );
        let first = look(&mut pending, 5, &["a"], true).unwrap();
        assert_eq!(
            (names(&first["began"]), names(&first["ended"])),
            (vec!["a"], vec![])
        );
        assert_eq!(first["text"], "portcullis i: WARNING: a is out.");
        assert!(look(&mut pending, 10, &["a", "b"], true).is_none());
        assert!(look(&mut pending, 64, &["b", "c"], true).is_none());
        let second = look(&mut pending, 65, &["b", "c"], true).unwrap();
        assert_eq!(
            (names(&second["began"]), names(&second["ended"])),
            (vec!["b", "c"], vec!["a"])
        );
        let ended = &second["ended"][0];
        assert_eq!(
            (&ended["rule"], &ended["since"]),
            (&"breaker_open".into(), &format_time(START).into())
        );
        assert_eq!(ended["until"], format_time(START + 64_000));
        assert!(
            look(&mut pending, 300, &["b", "c"], true).is_none(),
            "all is told"
        );
        assert_eq!(
            names(&look(&mut pending, 305, &[], true).unwrap()["ended"]),
            ["b", "c"]
        );
        assert!(look(&mut pending, 400, &[], true).is_none());
    }

    #[test]
    fn what_flaps_is_told_once_a_minute() {
        let mut pending = Pending::default();
        let told = (0..600).filter(|n| {
            let there: &[&str] = if n % 2 == 0 { &["a"] } else { &[] };
            look(&mut pending, *n, there, true).is_some()
        });
        assert!(told.count() <= 10);
        // A short problem is sent, too.
        let mut pending = Pending::default();
        look(&mut pending, 0, &["a"], true).unwrap();
        look(&mut pending, 1, &["a", "b"], true);
        look(&mut pending, 2, &["a"], true);
        assert_eq!(
            names(&look(&mut pending, 60, &["a"], true).unwrap()["ended"]),
            ["b"]
        );
        // It went and is back within the minute: nothing has changed.
        look(&mut pending, 61, &[], true);
        assert!(look(&mut pending, 120, &["a"], true).is_none());
    }

    #[test]
    fn a_receiver_that_is_down_is_asked_less() {
        let mut pending = Pending::default();
        let tries: Vec<u64> = (0..2_000)
            .filter(|n| look(&mut pending, *n, &["a"], false).is_some())
            .collect();
        assert_eq!(tries[..6], [0, 5, 15, 35, 75, 155]);
        assert!(tries.windows(2).all(|two| two[1] - two[0] <= 300) && pending.is_failing());
        let late = look(&mut pending, 2_400, &["b"], true).unwrap();
        assert_eq!(
            (names(&late["began"]), names(&late["ended"])),
            (vec!["b"], vec!["a"])
        );
        assert!(!pending.is_failing());
        // A clock that was set back holds nothing up.
        assert!(look(&mut pending, 0, &[], true).is_some());
    }

    #[test]
    fn worse_is_told_again_and_better_is_not() {
        let (mut pending, mut told) = (Pending::default(), Vec::new());
        for (minute, severity) in [
            Severity::Warning,
            Severity::Critical,
            Severity::Critical,
            Severity::Warning,
        ]
        .into_iter()
        .enumerate()
        {
            let now = START + MINUTE * minute as u64;
            pending.observe([problem("a", severity)].iter(), now);
            if let Some(notice) = pending.due_notice("i", now) {
                pending.note_try(true, now);
                let notice: Value = serde_json::from_str(&notice).unwrap();
                told.push((minute, notice["began"][0]["severity"].clone()));
            }
        }
        assert_eq!(told, [(0, "warning".into()), (1, "critical".into())]);
    }

    #[test]
    fn a_notice_is_bounded_and_says_the_worst_first() {
        let mut pending = Pending::default();
        let mut problems: Vec<_> = (0..300)
            .map(|n| problem(&format!("t{n}"), Severity::Warning))
            .collect();
        problems.push(problem("worst", Severity::Critical));
        pending.observe(problems.iter(), START);
        let notice: Value = serde_json::from_str(&pending.due_notice("i", START).unwrap()).unwrap();
        assert_eq!(
            (names(&notice["began"]).len(), names(&notice["began"])[0]),
            (MAX_PROBLEMS, "worst")
        );
        assert_eq!(notice["more"], 301 - MAX_PROBLEMS);
        let text = notice["text"].as_str().unwrap();
        assert!(
            text.starts_with("portcullis i: CRITICAL: worst is out.")
                && text.ends_with("And 298 more."),
            "{text}"
        );
    }
}
