//! The words in which problems speak of durations, amounts and failures.

use super::facts::{ModelTarget, Reason};
use crate::conf::price::Usd;
use crate::limits::Kind;
use std::borrow::Cow;

/// The longest reason of an operator's file that is quoted, in characters.
const LONGEST: usize = 300;

/// Writes a duration in the unit that fits: `40 s`, `4 min`, `3 h`, `6 days`.
pub(super) fn span(ms: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400_000, "days"), (3_600_000, "h"), (60_000, "min")];
    match UNITS.iter().find(|(unit, _)| ms >= 2 * unit) {
        Some((unit, name)) => format!("{} {name}", ms / unit),
        None => format!("{} s", ms / 1_000),
    }
}

/// Writes a time in seconds, to the tenth where it is short: `2 s`, `0.4 s`, `20 ms`.
pub(super) fn seconds(ms: u64) -> String {
    let tenths = ms.saturating_add(50) / 100;
    match (tenths / 10, tenths % 10) {
        _ if ms < 100 => format!("{ms} ms"),
        (whole @ 0..10, part @ 1..) => format!("{whole}.{part} s"),
        (whole, _) => format!("{whole} s"),
    }
}

/// Lists the first three texts, and says how many more there are.
pub(super) fn some(texts: &[String], between: &str) -> String {
    let first = texts.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(between);
    match texts.len().saturating_sub(3) {
        0 => first,
        more => format!("{first}{between}and {more} more"),
    }
}

/// Cuts a long reason.
pub(super) fn short(reason: &str) -> Cow<'_, str> {
    match reason.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", reason.get(..at).unwrap_or_default()).into(),
        None => reason.into(),
    }
}

/// Writes an amount of a kind of limit.
pub(super) fn amount(kind: Kind, amount: u64) -> String {
    if kind.is_money() { format!("{} USD", Usd(amount)) } else { amount.to_string() }
}

/// Says of an account how it fails: `gpu-1 refuses connections`.
pub(super) fn failing(account: &str, failure: Option<&(&'static str, Option<String>)>) -> String {
    let Some((outcome, detail)) = failure else { return format!("{account} failed too often") };
    let does = match *outcome {
        "unreachable" if detail.as_deref().is_some_and(|detail| detail.to_ascii_lowercase().contains("refused")) => {
            "refuses connections"
        }
        "unreachable" => "cannot be reached",
        "connect_timeout" => "does not accept connections in time",
        "proxy" => "is not reached through its proxy",
        "tls" => "makes no secure connection",
        "reset" | "stale" => "closes connections without an answer",
        "send_timeout" => "does not read requests in time",
        "first_byte_timeout" | "first_token_timeout" => "does not begin to answer in time",
        "idle_timeout" | "total_timeout" => "does not end its answers in time",
        "nonsense" | "broken_call" => "gives answers that nobody can read",
        "cut" => "ends its answers too early",
        "credential" => "refuses the credential, or its money is gone",
        "refused" => "does not serve the model",
        "rate_limited" => "limits the rate",
        "overloaded" => "is overloaded",
        "given_up" => "lets callers wait until they give up",
        "status" | "error_in_answer" => "answers with errors",
        other => return format!("{account} fails ({other})"),
    };
    format!("{account} {does}")
}

/// Says of a model's target why it cannot be used.
pub(super) fn unfit(target: &ModelTarget) -> String {
    let account = &*target.account;
    match target.reason {
        None => format!("{account} answers"),
        Some(Reason::Off) => format!("{account} is disabled"),
        Some(Reason::Credential) => failing(account, Some(&("credential", None))),
        Some(Reason::Unfit) => failing(account, Some(&("refused", None))),
        Some(Reason::Rate) => failing(account, Some(&("rate_limited", None))),
        Some(Reason::Breaker) => failing(account, target.failure.as_ref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_lists() {
        let spans = [0, 59_999, 119_999, 120_000, 7_199_999, 7_200_000, 172_799_999, 172_800_000].map(span);
        assert_eq!(spans, ["0 s", "59 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]);
        let times = [0, 20, 99, 100, 450, 2_000, 2_090, 9_999, 10_900].map(seconds);
        assert_eq!(times, ["0 ms", "20 ms", "99 ms", "0.1 s", "0.5 s", "2 s", "2.1 s", "10 s", "10 s"]);
        let texts: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        assert_eq!(some(&texts, ", "), "a, b, c, and 2 more");
        assert_eq!(some(&texts[..3], ", "), "a, b, c");
        assert_eq!(short(&"é".repeat(301)).chars().count(), 301);
        assert_eq!(short("x"), "x");
    }

    #[test]
    fn each_failure_has_words() {
        let refused = ("unreachable", Some("ConnectRefused: x".to_owned()));
        assert_eq!(failing("a", Some(&refused)), "a refuses connections");
        assert_eq!(failing("a", Some(&("unreachable", None))), "a cannot be reached");
        assert_eq!(failing("a", Some(&("no_room", None))), "a fails (no_room)");
        assert_eq!(failing("a", None), "a failed too often");
    }
}
