//! Reads the provider's quota from an answer's head: how much is left ([`tightest_headroom`]), so
//! that requests can go elsewhere before a 429, and when to come back after one ([`retry_after`]).
//!
//! Numbers are trusted only as far as they make sense: what cannot be read is ignored, what is
//! absurd is clamped, and everything is forgotten after a while. Pure: headers are looked up by a
//! function, and `now` is passed in.

use crate::base::units::Time;
use std::time::{Duration, SystemTime};

/// The headroom: how much of the tightest quota is left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Headroom {
    /// The share that was left at `reported_at`, from 0 to 1.
    pub share: f64,
    /// The time from which on nothing is known.
    pub known_until: SystemTime,
    /// The time of the answer's head.
    pub reported_at: SystemTime,
    /// The time from `reported_at` until the whole quota is there again, by the answer's head.
    pub full_in: Duration,
}

impl Headroom {
    /// Makes the headroom from a head at the moment `seen`: this share is left, and the whole quota
    /// is there again after `reset`, if that is known.
    pub fn new(share: f64, reset: Option<Duration>, seen: SystemTime) -> Headroom {
        Headroom {
            share: share.clamp(0.0, 1.0),
            known_until: seen + reset.unwrap_or(UNTOLD).clamp(AT_LEAST, BELIEVED),
            reported_at: seen,
            full_in: reset.unwrap_or(MINUTE).max(AT_LEAST),
        }
    }

    /// Returns the share that should be left now. Returns `None` if nothing is known any more. At
    /// OpenAI and Anthropic a quota fills up little by little, and its reset is the time when it is
    /// full: so a part of what was used a while ago is there again.
    pub fn current_share(&self, now: SystemTime) -> Option<f64> {
        let passed = now
            .duration_since(self.reported_at)
            .ok()
            .filter(|_| now < self.known_until)?;
        let filled = (passed.as_secs_f64() / self.full_in.as_secs_f64().max(1e-9)).min(1.0);
        Some(self.share + (1.0 - self.share) * filled)
    }
}

const REQUESTS: f64 = 100.0;
const TOKENS: f64 = 100_000.0;

/// The headers of each quota: what remains, the limit, and the reset. The number is the assumed
/// limit if the head has none, as at some of Azure's: it is so small that only an account with
/// almost nothing left seems to have little.
///
/// The rows are those of OpenAI and all that copy it (Azure, Groq, xAI, Together, Fireworks, vLLM's
/// proxies); Cerebras by the day and the minute; Anthropic; OpenRouter and other gateways without a
/// kind; and the IETF's older draft.
#[rustfmt::skip]
const QUOTAS: &[(&str, &str, &str, f64)] = &[
    ("x-ratelimit-remaining-requests", "x-ratelimit-limit-requests", "x-ratelimit-reset-requests", REQUESTS),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-limit-tokens", "x-ratelimit-reset-tokens", TOKENS),
    ("x-ratelimit-remaining-project-tokens", "x-ratelimit-limit-project-tokens", "x-ratelimit-reset-project-tokens", TOKENS),
    ("x-ratelimit-remaining-requests-day", "x-ratelimit-limit-requests-day", "x-ratelimit-reset-requests-day", REQUESTS),
    ("x-ratelimit-remaining-tokens-minute", "x-ratelimit-limit-tokens-minute", "x-ratelimit-reset-tokens-minute", TOKENS),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-reset", REQUESTS),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-limit", "anthropic-ratelimit-tokens-reset", TOKENS),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-limit", "anthropic-ratelimit-input-tokens-reset", TOKENS),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-limit", "anthropic-ratelimit-output-tokens-reset", TOKENS),
    ("x-ratelimit-remaining", "x-ratelimit-limit", "x-ratelimit-reset", REQUESTS),
    ("ratelimit-remaining", "ratelimit-limit", "ratelimit-reset", REQUESTS),
];

/// The time until a quota is full if the head has no reset: most quotas are counted by the minute.
const MINUTE: Duration = Duration::from_secs(60);
/// The time for which a quota without a reset is remembered: a sixth of it is back by then.
const UNTOLD: Duration = Duration::from_secs(10);
/// The longest time for which a quota is believed. A day's quota that is used up is asked for again
/// now and then, which costs one 429.
const BELIEVED: Duration = Duration::from_secs(300);
/// The shortest time for which a quota is believed, so that the requests that follow can use it.
const AT_LEAST: Duration = Duration::from_secs(1);

/// Returns the headroom of the tightest quota in a head. `lookup` returns a header's value by its
/// name in lower case.
pub fn tightest_headroom<'h>(
    lookup: impl Fn(&str) -> Option<&'h str>,
    now: SystemTime,
) -> Option<Headroom> {
    let quotas = QUOTAS
        .iter()
        .filter_map(|&(remaining, limit, reset, assumed_limit)| {
            let share = remaining_share(lookup(remaining)?, lookup(limit), assumed_limit)?;
            Some(Headroom::new(
                share,
                lookup(reset).and_then(|reset| parse_wait(reset, now)),
                now,
            ))
        });
    let structured =
        lookup("ratelimit").and_then(|value| parse_structured(value, lookup("ratelimit-policy")));
    let structured = structured.map(|(share, reset)| Headroom::new(share, reset, now));
    quotas
        .chain(structured)
        .min_by(|a, b| a.share.total_cmp(&b.share))
}

/// Returns how long to send nothing, an hour at most, from a head: by `retry-after-ms`, by
/// `retry-after`, or by the reset of a quota that is used up.
pub fn retry_after<'h>(
    lookup: impl Fn(&str) -> Option<&'h str>,
    now: SystemTime,
) -> Option<Duration> {
    const MAX_WAIT: Duration = Duration::from_secs(3600);
    let milliseconds = lookup("retry-after-ms").and_then(first_number);
    milliseconds
        .map(|ms| to_duration(ms / 1000.0))
        .or_else(|| parse_wait(lookup("retry-after")?, now))
        .or_else(|| reset_of_quotas(lookup, now))
        .map(|wait| wait.min(MAX_WAIT))
}

/// Returns the wait until quotas are renewed. If quotas are used up, the last of their resets
/// counts. If none seems used up, the request asked for more than what is left, and the first
/// reset may help.
fn reset_of_quotas<'h>(
    lookup: impl Fn(&str) -> Option<&'h str>,
    now: SystemTime,
) -> Option<Duration> {
    let resets = QUOTAS.iter().filter_map(|&(remaining, _, reset, _)| {
        let used_up = lookup(remaining)
            .and_then(first_number)
            .is_some_and(|remaining| remaining <= 0.0);
        Some((used_up, parse_wait(lookup(reset)?, now)?))
    });
    let first_or_last = resets.reduce(|one, other| match (one, other) {
        ((true, a), (true, b)) => (true, a.max(b)),
        ((false, a), (false, b)) => (false, a.min(b)),
        ((true, a), (false, _)) | ((false, _), (true, a)) => (true, a),
    });
    first_or_last.map(|(_, wait)| wait)
}

/// Returns the share of a limit that remains. A limit of 0 or -1 means that there is none, and -1
/// remaining means that it is not known.
fn remaining_share(remaining: &str, limit: Option<&str>, assumed_limit: f64) -> Option<f64> {
    let remaining = first_number(remaining).filter(|remaining| *remaining != -1.0)?;
    match limit.and_then(first_number) {
        Some(limit) if limit > 0.0 => Some(remaining / limit),
        Some(_) => None,
        None => (remaining >= 0.0).then_some(remaining / assumed_limit),
    }
}

/// Reads the IETF's newer drafts: `limit=100, remaining=50, reset=5`, and `"default";r=50;t=30`
/// with the quota in `ratelimit-policy: "default";q=100;w=60`.
fn parse_structured(value: &str, policies: Option<&str>) -> Option<(f64, Option<Duration>)> {
    if let Some(limit) = parameter(value, &["limit"]) {
        return share_and_reset(value, limit);
    }
    let shares = value.split(',').filter_map(|item| {
        let mut policies = policies?.split(',');
        let policy = policies.find(|policy| quota_name(policy) == quota_name(item))?;
        share_and_reset(item, parameter(policy, &["q"])?)
    });
    shares.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// Reads what an item of the drafts has left of a limit, and when it is renewed.
fn share_and_reset(item: &str, limit: f64) -> Option<(f64, Option<Duration>)> {
    let remaining = parameter(item, &["r", "remaining"])?;
    let reset = parameter(item, &["t", "reset"]).map(to_duration);
    (limit > 0.0).then_some((remaining / limit, reset))
}

/// Reads the first parameter of an item that has one of these names.
fn parameter(item: &str, names: &[&str]) -> Option<f64> {
    let mut parameters = item
        .split([';', ','])
        .filter_map(|part| part.split_once('='));
    let is_named = |name: &str| names.iter().any(|n| name.trim().eq_ignore_ascii_case(n));
    parameters
        .find(|(name, _)| is_named(name))
        .and_then(|(_, value)| first_number(value))
}

/// Returns the name of a quota or of a policy, which stands before the parameters.
fn quota_name(item: &str) -> &str {
    let name = item.split(';').next().unwrap_or_default();
    name.trim().trim_matches('"')
}

/// Reads a time as a wait from now: a number of seconds, a duration as Go writes it, a time since
/// 1970 in seconds or milliseconds, RFC 3339, or an HTTP date. A time in the past is no wait.
fn parse_wait(text: &str, now: SystemTime) -> Option<Duration> {
    /// A larger number is a point in time and no wait: it would be 30 years.
    const SINCE_1970: f64 = 1e9;
    /// A larger number is in milliseconds.
    const MILLISECONDS: f64 = 1e11;
    let text = text.trim();
    let until = |time: SystemTime| time.duration_since(now).unwrap_or_default();
    let from_now = |reset_time: Option<SystemTime>| reset_time.map(until);
    if let Some(number) = first_number(text) {
        // 1e9 exactly is a way to say "very long", as `retry-after: 1000000000`.
        return match number {
            n if n <= SINCE_1970 => Some(to_duration(n)),
            n if n < MILLISECONDS => from_now(SystemTime::UNIX_EPOCH.checked_add(to_duration(n))),
            n => from_now(SystemTime::UNIX_EPOCH.checked_add(to_duration(n / 1000.0))),
        };
    }
    if let Some(span) = parse_duration(text) {
        return Some(span);
    }
    if let Ok(time) = text.parse::<Time>() {
        return from_now(SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(time.0)));
    }
    httpdate::parse_http_date(text)
        .ok()
        .and_then(|reset_time| from_now(Some(reset_time)))
}

/// Reads a duration as Go writes it: `6m0s`, `120ms`, `1h2m3.5s`; and also days.
fn parse_duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
        ("d", 86_400.0),
    ];
    let (mut rest, mut sum) = (text, 0.0);
    while !rest.is_empty() {
        let unit = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (count, after) = rest.split_at_checked(unit)?;
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end)?;
        let (_, each) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum += count.parse::<f64>().ok()? * each;
        rest = after;
    }
    (!text.is_empty()).then(|| to_duration(sum))
}

/// Reads the first number of what may be a list with parameters (`100, 100;w=60`). An infinite
/// number is not taken.
fn first_number(text: &str) -> Option<f64> {
    let first = text.split([',', ';']).next()?.trim();
    first
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite())
}

/// Returns this number of seconds; none if the number is negative, and 300 years at most.
fn to_duration(number: f64) -> Duration {
    Duration::try_from_secs_f64(number.clamp(0.0, 1e10)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
