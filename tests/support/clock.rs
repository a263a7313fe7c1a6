//! The clock of a gateway's own periods, as tests hold and advance it. Without the feature
//! `test-clock` it is the real one, and a test waits for as long.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Gateway, PATIENCE};

/// Work that a gateway does in the background again and again.
#[derive(Clone, Copy)]
pub struct Round {
    name: &'static str,
    /// The longest time between the ends of two rounds, if the work itself takes none.
    period: Duration,
}

const fn round(name: &'static str, period: u64) -> Round {
    Round {
        name,
        period: Duration::from_millis(period),
    }
}

pub const PROBLEMS: Round = round("problems", 5_000);
pub const NOTICES: Round = round("notices", 5_000);
pub const NAMES: Round = round("names", 1_000);
pub const CONNECTIONS: Round = round("connections", 2_000);
pub const LISTS: Round = round("lists", 500);
pub const IDENTITIES: Round = round("identities", 100);
pub const PROBES: Round = round("probes", 250);
pub const FILES: Round = round("files", 3_000);

impl Gateway {
    /// Lets cool-downs, rounds and refreshes stand still.
    pub fn hold_clock(&self) {
        self.command("hold");
    }

    /// Lets the clock go on.
    pub fn release_clock(&self) {
        self.command("release");
    }

    /// Lets this time pass for cool-downs, rounds and refreshes.
    pub async fn advance(&self, time: Duration) {
        if !self.command(&format!("advance/{}", time.as_millis())) {
            tokio::time::sleep(time).await;
        }
    }

    /// Returns when a whole round has passed: what it could have done is done.
    pub async fn round(&self, round: Round) {
        if !self.command(&format!("round/{}", round.name)) {
            tokio::time::sleep(round.period * 3).await;
        }
    }

    /// Waits until something has come of spans that wait to be sent: they are due in five seconds.
    pub async fn when_spans_are_due(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < 4 * PATIENCE, "waited in vain: {what}");
            self.advance(Duration::from_secs(5)).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns how many of these rounds have ended, if the gateway counts them.
    pub fn rounds(&self, round: Round) -> Option<u64> {
        let counts: Value = serde_json::from_str(&self.answer("rounds")?).expect("counts");
        Some(counts[round.name].as_u64().expect("a number"))
    }

    /// Returns whether the gateway carries out commands.
    fn command(&self, command: &str) -> bool {
        self.answer(command).is_some()
    }

    fn answer(&self, command: &str) -> Option<String> {
        if !cfg!(feature = "test-clock") {
            return None;
        }
        let (status, answer) = self.admin(&format!("/test-clock/{command}"));
        assert_eq!(status, 200, "{command}: {answer}");
        Some(answer)
    }
}
