//! Writes what callers and operators read about limits: the refusal, the headers that OpenAI's
//! clients know, and the entries of `/limits`.

use super::{
    Bound, Counts, Kind, Level, LimitReached, LimitsLeft, Measure, Period, Reserve, Room,
    WHOLE_LIMIT,
};
use crate::conf::price::Usd;
use crate::error::{FailureKind, Refusal};
use serde_json::{Map, Value};
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

impl LimitReached {
    /// Returns the answer for the caller: the limit, what is left of it, and when there is more.
    pub fn refusal(&self) -> Refusal {
        let over = &self.over;
        let limit = format_args!("limit of {self}");
        let left = Amount(over.kind, over.limit.saturating_sub(over.used));
        let asked = match over.kind.measure() {
            Measure::Requests => None,
            Measure::Tokens => Some(" tokens (prompt and answer)"),
            Measure::Usd => Some(""),
        };
        let asked = asked.map(|unit| format!("{}{unit}", Amount(over.kind, over.asked)));
        // The message says whole seconds, as the header does.
        let wait = over.wait.map(|wait| {
            Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(SECOND)
        });
        let wait = match over.kind.period() {
            // The wait is longer than a minute only if a gateway's clock is behind. It is cut, so
            // that clients do not give up.
            Period::Minute => wait.map(|wait| wait.min(MINUTE)),
            Period::Day | Period::Month | Period::Present => wait,
        };
        let message = match (wait, asked) {
            (Some(wait), Some(asked)) if over.estimated => {
                format!(
                    "This request may use {asked}. That is an estimate, and more than the {limit}. The request is admitted when no other \
                     request counts against that limit. Try again in {}, or send a shorter prompt.",
                    format_duration(wait)
                )
            }
            (None, Some(asked)) => {
                format!(
                    "This request may use {asked}, which is more than the {limit}. Send a lower `max_tokens`, or a shorter prompt."
                )
            }
            (None, None) => {
                format!("This request is more than the {limit}, and can never be admitted.")
            }
            (Some(wait), Some(asked)) => {
                format!(
                    "This request may use {asked}, but only {left} of the {limit} are left. Try again in {}, or send a smaller request.",
                    format_duration(wait)
                )
            }
            (Some(_), None) if over.kind == Kind::Concurrency => {
                format!(
                    "Too many requests run at once: the {limit} is reached. Try again when one has ended."
                )
            }
            (Some(wait), None) => format!(
                "The {limit} is reached. Try again in {}.",
                format_duration(wait)
            ),
        };
        let code = if over.kind.is_money() {
            FailureKind::OverBudget
        } else {
            FailureKind::OverLimit
        };
        Refusal::new(code, message).again_in(wait)
    }
}

/// Writes the limit and whose it is, as in "60 requests per minute of key acme/prod".
impl Display for LimitReached {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let over = &self.over;
        let noun = match (over.kind.measure(), over.limit) {
            (Measure::Requests, 1) => "request ",
            (Measure::Requests, _) => "requests ",
            (Measure::Tokens, _) => "tokens ",
            (Measure::Usd, _) => "",
        };
        let period = match over.kind.period() {
            Period::Minute => "per minute",
            Period::Day => "per day",
            Period::Month => "per month",
            Period::Present => "at once",
        };
        write!(f, "{} {noun}{period} of ", Amount(over.kind, over.limit))?;
        match (self.level, self.name.split_once(' ')) {
            (Level::Caller, _) => write!(f, "caller {}", self.name)?,
            // The name has the key and the model.
            (Level::KeyModel, Some((key, model))) => write!(f, "key {key} for the model {model}")?,
            (Level::Key | Level::KeyModel, _) => write!(f, "key {}", self.name)?,
        }
        match self.share {
            0 | 1 => Ok(()),
            share => write!(
                f,
                " (this gateway's part, 1 of {share}, while the shared store is unavailable)"
            ),
        }
    }
}

/// An amount of a kind of limit.
struct Amount(Kind, u64);

impl Display for Amount {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Amount(kind, number) = self;
        if kind.is_money() {
            write!(f, "{} USD", Usd(*number))
        } else {
            Display::fmt(number, f)
        }
    }
}

/// Returns what `/limits` shows of one scope: its limits, and what is used of them; where money is
/// limited, also the number of the month's requests whose cost is missing.
pub fn scope_report(bound: &Bound<'_>, counts: &Counts, now_ms: u64) -> Value {
    let mut report = bound.json();
    report.insert(
        "used".to_owned(),
        amounts_json(
            bound
                .used_amounts(counts)
                .map(|(kind, used, _)| (kind, used)),
        ),
    );
    let unpriced = bound.scope.unpriced(now_ms);
    if unpriced > 0 && bound.limits.limits_money() {
        report.insert("unpriced_requests".to_owned(), unpriced.into());
    }
    report.into()
}

impl Bound<'_> {
    /// Lists each kind of limit that is set, and the amount that it allows.
    pub fn limit_amounts(&self) -> impl Iterator<Item = (Kind, u64)> {
        Kind::ALL
            .into_iter()
            .filter_map(|kind| Some((kind, kind.limit(self.limits, WHOLE_LIMIT)?)))
    }

    /// Lists each kind of limit that is set, what is used of it, and the amount that it allows.
    pub fn used_amounts(&self, counts: &Counts) -> impl Iterator<Item = (Kind, u64, u64)> {
        self.limit_amounts()
            .map(move |(kind, limit)| (kind, counts.used_amount(kind), limit))
    }

    /// Writes the limits for people, such as `of acme: requests_per_minute 60, usd_per_day 12.5`.
    /// How much of them is used is not known here.
    pub fn describe(&self) -> String {
        let name = &self.scope.name;
        let whose = match (self.scope.level, name.split_once(' ')) {
            (Level::Caller, _) => format!("of {name}"),
            (Level::KeyModel, Some((_, model))) => format!("of its own, on {model}"),
            (Level::Key | Level::KeyModel, _) => "of its own".to_owned(),
        };
        let each = self
            .limit_amounts()
            .map(|(kind, limit)| match kind.is_money() {
                true => format!("{} {}", kind.name(), Usd(limit)),
                false => format!("{} {limit}", kind.name()),
            });
        let reserve = (self.limits.reserve != Reserve::Typical)
            .then(|| format!("reserve {}", self.limits.reserve.name()));
        format!(
            "{whose}: {}",
            each.chain(reserve).collect::<Vec<_>>().join(", ")
        )
    }

    /// Returns what `/limits` shows of the limits themselves.
    pub fn json(&self) -> Map<String, Value> {
        let (level, name) = (self.scope.level.name(), &*self.scope.name);
        let fields = [
            ("level", level.into()),
            ("name", name.into()),
            ("limits", amounts_json(self.limit_amounts())),
        ];
        let reserve = self
            .limits
            .limits_use()
            .then(|| ("reserve", self.limits.reserve.name().into()));
        fields
            .into_iter()
            .chain(reserve)
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

impl Counts {
    /// Returns what is used of a limit of this kind.
    fn used_amount(&self, kind: Kind) -> u64 {
        match kind.period() {
            Period::Minute => {
                let amounts = self.minute.iter();
                sum(amounts.map(|(_, used)| used.amount(kind.measure())))
            }
            Period::Day => self.day.amount(kind.measure()),
            Period::Month => self.month_usd.0,
            Period::Present => self.places.saturating_add(self.entering),
        }
    }
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// Writes amounts under the names of their kinds.
fn amounts_json(each: impl Iterator<Item = (Kind, u64)>) -> Value {
    let each = each.map(|(kind, number)| (kind.name().to_owned(), kind.amount(number)));
    Value::Object(each.collect())
}

impl LimitsLeft {
    /// Returns the headers for the limits that are set.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        const REQUESTS: [&str; 3] = [
            "x-ratelimit-limit-requests",
            "x-ratelimit-remaining-requests",
            "x-ratelimit-reset-requests",
        ];
        const TOKENS: [&str; 3] = [
            "x-ratelimit-limit-tokens",
            "x-ratelimit-remaining-tokens",
            "x-ratelimit-reset-tokens",
        ];
        room_headers(REQUESTS, self.requests).chain(room_headers(TOKENS, self.tokens))
    }
}

fn room_headers(
    names: [&'static str; 3],
    room: Option<Room>,
) -> impl Iterator<Item = (&'static str, String)> {
    room.into_iter().flat_map(move |room| {
        names.into_iter().zip([
            room.limit.to_string(),
            room.remaining.to_string(),
            format_duration(room.reset),
        ])
    })
}

/// Writes a time as Go and so OpenAI do: `350ms`, `12s`, `6m0s`, `1h0m5s`. From one second on, a
/// part of a second counts as a whole one.
fn format_duration(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        return format!("{}ms", time.as_millis());
    }
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Over;

    #[test]
    fn a_part_of_a_limit_is_told_as_one() {
        let over = Over {
            kind: Kind::RequestsPerMinute,
            limit: 60,
            used: 60,
            asked: 1,
            wait: Some(Duration::from_secs(1)),
            estimated: false,
        };
        let refused = LimitReached {
            level: Level::Caller,
            name: "acme".into(),
            over,
            limits_left: LimitsLeft::default(),
            share: 2,
        };
        assert_eq!(
            refused.refusal().message,
            "The limit of 60 requests per minute of caller acme (this gateway's part, 1 of 2, while the shared store is unavailable) is \
             reached. Try again in 1s."
        );
    }

    #[test]
    fn spans_are_as_clients_read_them() {
        for (millis, expected) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_000, "1s"),
            (1_001, "2s"),
            (59_500, "1m0s"),
            (360_000, "6m0s"),
            (3_605_000, "1h0m5s"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn a_refusal_names_the_limit_and_the_rest() {
        let told = |level: Level,
                    name: &str,
                    kind: Kind,
                    (limit, used, asked): (u64, u64, u64),
                    wait: Option<u64>| {
            let over = Over {
                kind,
                limit,
                used,
                asked,
                wait: wait.map(Duration::from_secs),
                estimated: false,
            };
            let refusal = LimitReached {
                level,
                name: name.into(),
                over,
                limits_left: LimitsLeft::default(),
                share: 1,
            }
            .refusal();
            (
                refusal.message.to_string(),
                refusal.kind.row().code.map(str::to_owned),
                refusal.retry.seconds(),
                matches!(refusal.retry, crate::error::Retry::Helps(_)),
            )
        };
        assert_eq!(
            told(Level::Key, "acme/prod", Kind::RequestsPerMinute, (60, 60, 1), Some(12)),
            (
                "The limit of 60 requests per minute of key acme/prod is reached. Try again in 12s.".to_owned(),
                Some("rate_limit_exceeded".to_owned()),
                Some(12),
                true
            )
        );
        assert_eq!(
            told(Level::KeyModel, "acme/prod gpt-4o", Kind::TokensPerDay, (1000, 400, 2000), None),
            (
                "This request may use 2000 tokens (prompt and answer), which is more than the limit of 1000 tokens per day of key acme/prod \
                 for the model gpt-4o. Send a lower `max_tokens`, or a shorter prompt."
                    .to_owned(),
                Some("rate_limit_exceeded".to_owned()),
                None,
                false
            )
        );
        let (message, _, after, again) = told(
            Level::Key,
            "acme/prod",
            Kind::TokensPerMinute,
            (1000, 900, 200),
            Some(61),
        );
        assert_eq!((after, again), (Some(60), true));
        assert!(message.contains("Try again in 1m0s"), "{message}");
        let (message, ..) = told(
            Level::Key,
            "acme/prod",
            Kind::Concurrency,
            (1, 1, 1),
            Some(1),
        );
        assert!(
            message.contains("the limit of 1 request at once of key acme/prod"),
            "{message}"
        );
        let (message, code, after, again) = told(
            Level::Caller,
            "acme",
            Kind::UsdPerMonth,
            (100_000_000_000, 99_900_000_000, 150_000_000),
            Some(86_400),
        );
        assert!(
            message.contains("0.15 USD, but only 0.1 USD of the limit of 100 USD per month of caller acme are left"),
            "{message}"
        );
        assert_eq!(
            (code.as_deref(), after, again),
            (Some("insufficient_quota"), Some(86_400), false)
        );
    }
}
