//! Resolves deadlines: those of an account, with defaults, and those of a model, which override
//! them.

use std::time::Duration;

use crate::base::units::{Span, Text};
use crate::catalog::{Target, Timeouts, raw};
use crate::conf::scribe::Scribe;

const DEFAULT: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    first_byte: Duration::from_secs(120),
    first_token: None,
    idle: Duration::from_secs(60),
    total: Duration::from_secs(600),
    total_stream: Duration::from_secs(3600),
};

/// Resolves an account's deadlines. `scribe` stands where they are written.
pub(super) fn of_account(written: Option<&raw::Timeouts>, scribe: &Scribe<'_, '_>) -> Timeouts {
    let Some(written) = written else {
        return DEFAULT;
    };
    let timeouts = override_timeouts(written, DEFAULT);
    check_timeouts(written, timeouts.total_stream, scribe);
    timeouts
}

/// Puts a model's deadlines over its accounts', one by one.
pub(super) fn of_model(
    written: Option<&raw::Timeouts>,
    targets: &mut [Target],
    scribe: &Scribe<'_, '_>,
) {
    let Some(written) = written else { return };
    check_timeouts(
        written,
        total_of_streams(written).unwrap_or(Duration::MAX),
        scribe,
    );
    for target in &mut *targets {
        target.timeouts = override_timeouts(written, target.timeouts);
    }
    // An account's `first_token` beyond a model's `total` is no mistake: it is there for other
    // models.
    let (Some(first_token), None) = (to_duration(written.first_token), total_of_streams(written))
    else {
        return;
    };
    if let Some(target) = targets
        .iter()
        .find(|target| first_token > target.timeouts.total_stream)
    {
        let (id, total) = (&target.account.id, target.timeouts.total_stream);
        let message = format!(
            "has no effect at account \"{id}\", because `total` ends its streams after {total:?}: make it shorter than `total`"
        );
        scribe.key("first_token").warn(&message);
    }
}

fn override_timeouts(written: &raw::Timeouts, default: Timeouts) -> Timeouts {
    Timeouts {
        connect: to_duration(written.connect).unwrap_or(default.connect),
        first_byte: to_duration(written.first_byte).unwrap_or(default.first_byte),
        first_token: to_duration(written.first_token).or(default.first_token),
        idle: to_duration(written.idle).unwrap_or(default.idle),
        total: to_duration(written.total).unwrap_or(default.total),
        total_stream: total_of_streams(written).unwrap_or(default.total_stream),
    }
}

/// Checks deadlines by themselves; `total` is the deadline of streams.
fn check_timeouts(written: &raw::Timeouts, total: Duration, scribe: &Scribe<'_, '_>) {
    for (field, written) in [
        ("connect", written.connect),
        ("first_byte", written.first_byte),
        ("first_token", written.first_token),
        ("idle", written.idle),
        ("total", written.total),
        ("total_stream", written.total_stream),
    ] {
        scribe.key(field).note_problem_if(
            to_duration(written) == Some(Duration::ZERO),
            "must be more than 0s",
        );
    }
    if !total.is_zero()
        && to_duration(written.first_token).is_some_and(|first_token| first_token > total)
    {
        let message = format!(
            "has no effect, because `total` ends streams after {total:?}: make it shorter than `total`, or remove it"
        );
        scribe.key("first_token").note_problem(&message);
    }
}

/// Returns the time for a whole stream, if one is written.
fn total_of_streams(written: &raw::Timeouts) -> Option<Duration> {
    to_duration(written.total_stream.or(written.total))
}

fn to_duration(written: Option<Text<Span>>) -> Option<Duration> {
    written.map(|Text(Span(span))| span)
}
