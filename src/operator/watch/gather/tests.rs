use super::*;
use crate::account::given_up::GIVEN_UP;
use crate::account::target_health::Trouble;
use crate::series::{Sums, WaitRange};

/// A target that failed, or was given up, a minute ago.
fn troubled(outcome: &'static str, failed: Sums, at: ClockReadings) -> TargetHealth {
    let health = TargetHealth::default();
    health.record_trouble(Trouble {
        outcome,
        status: None,
        detail: None,
        failed_at: at.now.checked_sub(MINUTE).expect("a minute ago"),
    });
    ends(&health, failed, at);
    health
}

/// An attempt ends.
fn ends(health: &TargetHealth, attempt: Sums, at: ClockReadings) {
    health.series.add(
        &Sums {
            requests: 1,
            ..attempt
        },
        None,
        StepMoment::from_instant(at.now),
    );
}

#[test]
fn a_target_is_quiet_until_asked_after_trouble() {
    let at = ClockReadings {
        now: Instant::now() + 2 * MINUTE,
        clock: SystemTime::now(),
        ms: 0,
    };
    let (failed, given_up) = (
        Sums {
            by_upstream: 1,
            ..Sums::default()
        },
        Sums {
            given_up: 1,
            given_up_waits: Some(WaitRange::from_one(2_000)),
            ..Sums::default()
        },
    );
    for (outcome, trouble) in [("status", failed), (GIVEN_UP, given_up)] {
        let health = troubled(outcome, trouble, at);
        assert_eq!(quiet_ms(&health, at), Some(60_000), "{outcome}");
        // A probe whose caller leaves decides nothing, and was asked all the same.
        ends(&health, Sums::default(), at);
        assert_eq!(quiet_ms(&health, at), None, "{outcome}");
    }
    // The last trouble counts, of whatever kind it is.
    for (outcome, first, last) in [(GIVEN_UP, failed, given_up), ("status", given_up, failed)] {
        let health = troubled(outcome, first, at);
        ends(&health, last, at);
        assert_eq!(quiet_ms(&health, at), Some(60_000), "{outcome}");
    }
}
