//! The six figures of the whole gateway, with their history.

use super::LivePage;
use super::to_json;
use crate::conf::price::Usd;
use crate::figures::callers::CallerUse;
use crate::series::{Bucket, STEP, STEPS, Series, Sums};
use crate::settled::whole_millis;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The time over which rates are taken: a minute.
const RATE_WINDOW: Duration = Duration::from_secs(60);
/// The time over which requests are counted: five minutes.
pub(super) const COUNT_WINDOW: Duration = Duration::from_secs(300);

/// Two quantiles in milliseconds.
#[derive(Serialize)]
pub(super) struct Quantiles {
    p50: u64,
    p99: u64,
}

impl Quantiles {
    /// Returns the quantiles of the time to the first token in the last minutes.
    pub(super) fn for_first_tokens(series: &Series, now: Instant) -> Option<Quantiles> {
        let [p50, p99] = series.first_token_quantiles(now)?.map(whole_millis);
        Some(Quantiles { p50, p99 })
    }
}

/// The present figures.
#[derive(Serialize)]
struct Now {
    requests_per_second: f64,
    failed_caller: u32,
    failed_upstream: u32,
    failed_ours: u32,
    given_up: u32,
    requests: u32,
    first_token_ms: Option<Quantiles>,
    output_tokens_per_second: f64,
    in_flight: usize,
    waiting: usize,
    usd_per_minute: String,
    usd_per_minute_known: &'static str,
    usd_today: Option<String>,
    usd_known: &'static str,
}

/// The figures of each step of the last minutes, the oldest first.
#[derive(Serialize)]
struct History {
    requests: Vec<u32>,
    failed_caller: Vec<u32>,
    failed_upstream: Vec<u32>,
    failed_ours: Vec<u32>,
    given_up: Vec<u32>,
    output_tokens: Vec<u64>,
    usd: Vec<String>,
    first_token_p50_ms: Vec<Option<u64>>,
    first_token_p99_ms: Vec<Option<u64>>,
    in_flight: Vec<u32>,
    waiting: Vec<u32>,
}

/// Returns how often something happened in a second, to the hundredth.
pub(super) fn rate_per_second(count: u64, time: Duration) -> f64 {
    (count as f64 / time.as_secs_f64().max(0.001) * 100.0).round() / 100.0
}

/// Scales the money that was spent in `time` to a minute.
fn scale_to_minute(nano_usd: u64, time: Duration) -> Usd {
    // A shorter time would make a large sum of a single request.
    let micros = time.max(STEP).as_micros();
    Usd(u64::try_from(u128::from(nano_usd) * RATE_WINDOW.as_micros() / micros).unwrap_or(u64::MAX))
}

/// Returns the sums of the last minute, and the time that they cover: a younger process has counted
/// only since its start.
pub(super) fn last_minute(series: &Series, uptime: Duration, now: Instant) -> (Sums, Duration) {
    (
        series.recent_sums(RATE_WINDOW, now),
        uptime
            .max(Duration::from_secs(1))
            .min(Series::summed_time(RATE_WINDOW, now)),
    )
}

/// Samples the running requests, and writes the section. Its six figures are the requests, the
/// failed ones, the time to the first token, the output tokens, the requests in flight, and the
/// cost. `today` is the use of all callers, and `waiting` the number of requests that wait.
pub(super) fn figures_section(
    page: &LivePage,
    today: &CallerUse,
    waiting: usize,
    now: Instant,
) -> String {
    let (series, in_flight) = (&page.books.figures.whole, page.books.drain.exchanges());
    page.books.figures.sample(in_flight, waiting, now);
    let uptime = now.saturating_duration_since(page.started);
    let (minute, time) = last_minute(series, uptime, now);
    let counted = series.recent_sums(COUNT_WINDOW, now);
    let (usd_today, usd_known) = known_money(today);
    // Where nothing of today is known, a minute without requests tells nothing, either.
    let minute_known = match (minute.unpriced, minute.nano_usd) {
        (0, _) if usd_known != "none" => "all",
        (_, 0) => "none",
        _ => "part",
    };
    let present = Now {
        requests_per_second: rate_per_second(minute.requests.into(), time),
        failed_caller: counted.by_caller,
        failed_upstream: counted.by_upstream,
        failed_ours: counted.by_us,
        given_up: counted.given_up,
        requests: counted.requests,
        first_token_ms: Quantiles::for_first_tokens(series, now),
        output_tokens_per_second: rate_per_second(minute.output_tokens, time),
        in_flight,
        waiting,
        usd_per_minute: scale_to_minute(minute.nano_usd, time).to_string(),
        usd_per_minute_known: minute_known,
        usd_today,
        usd_known,
    };
    let buckets = series.buckets(STEPS, now);
    let [p50, p99] = [0, 1].map(|index: usize| {
        let quantiles = buckets.iter().map(|bucket| {
            let both = bucket.first_token_quantiles()?;
            both.get(index).copied().map(whole_millis)
        });
        quantiles.collect()
    });
    let column = |value_of: fn(&Bucket) -> u32| buckets.iter().map(value_of).collect();
    let history = History {
        requests: column(|bucket| bucket.sums.requests),
        failed_caller: column(|bucket| bucket.sums.by_caller),
        failed_upstream: column(|bucket| bucket.sums.by_upstream),
        failed_ours: column(|bucket| bucket.sums.by_us),
        given_up: column(|bucket| bucket.sums.given_up),
        output_tokens: buckets
            .iter()
            .map(|bucket| bucket.sums.output_tokens)
            .collect(),
        usd: buckets
            .iter()
            .map(|bucket| Usd(bucket.sums.nano_usd).to_string())
            .collect(),
        first_token_p50_ms: p50,
        first_token_p99_ms: p99,
        in_flight: column(|bucket| bucket.in_flight),
        waiting: column(|bucket| bucket.waiting),
    };
    format!(
        ",\"figures\":{{\"step_seconds\":{},\"now\":{},\"series\":{}}}",
        STEP.as_secs(),
        to_json(&present),
        to_json(&history)
    )
}

/// Returns the known part of what was spent, and whether all, a part or none of it is known: as
/// `/usage` says it.
pub(super) fn known_money(used: &CallerUse) -> (Option<String>, &'static str) {
    match (used.usd, used.unpriced) {
        (usd, 0) => (Some(usd.to_string()), "all"),
        (Usd(0), _) => (None, "none"),
        (usd, _) => (Some(usd.to_string()), "part"),
    }
}
