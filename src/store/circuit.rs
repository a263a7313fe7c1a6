//! A [`Circuit`] decides whether requests ask the store, and when a store that failed is tried
//! again. Pure: the time is passed in.

use std::time::{Duration, Instant};

/// The number of requests in a row without an answer in time that opens the circuit.
const MAX_MISSED: u32 = 3;
/// The first pause, in which no request asks the store.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause. Each pause is twice as long as the one before, up to this.
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// The largest share by which a pause is made longer, so that not all gateways come back at once.
const JITTER: f64 = 0.2;
/// The time for which the store must be well before the next pause is the shortest again.
const WELL_TIME: Duration = Duration::from_secs(30);

/// The circuit between requests and the store.
#[derive(Debug)]
pub(super) struct Circuit {
    state: CircuitState,
    /// The next pause.
    pause: Duration,
    /// The number of requests in a row without an answer in time.
    missed: u32,
}

#[derive(Debug)]
enum CircuitState {
    /// Requests ask the store.
    Closed { since: Instant },
    /// No request asks until then.
    Open { until: Instant },
}

impl Circuit {
    /// Makes an open circuit that is tried at once.
    pub(super) fn new(now: Instant) -> Circuit {
        Circuit {
            state: CircuitState::Open { until: now },
            pause: FIRST_PAUSE,
            missed: 0,
        }
    }

    /// Returns whether requests ask the store.
    pub(super) fn is_closed(&self) -> bool {
        self.due().is_none()
    }

    /// Returns when the store is tried again. Returns `None` if the circuit is closed.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.state {
            CircuitState::Closed { .. } => None,
            CircuitState::Open { until } => Some(until),
        }
    }

    /// Notes that an answer was in time.
    pub(super) fn note_answered(&mut self) {
        self.missed = 0;
    }

    /// Notes that an answer was not in time. Returns true if that opens the circuit.
    pub(super) fn note_missed(&mut self, now: Instant, random: f64) -> bool {
        self.missed += 1;
        let too_many = self.is_closed() && self.missed >= MAX_MISSED;
        if too_many {
            self.note_failed(now, random);
        }
        too_many
    }

    /// Opens the circuit: the connection is lost, or a trial has failed.
    pub(super) fn note_failed(&mut self, now: Instant, random: f64) {
        if let CircuitState::Closed { since } = self.state
            && now.saturating_duration_since(since) >= WELL_TIME
        {
            self.pause = FIRST_PAUSE;
        }
        self.state = CircuitState::Open {
            until: now + self.pause.mul_f64(1.0 + JITTER * random),
        };
        self.pause = (self.pause * 2).min(MAX_PAUSE);
    }

    /// Closes the circuit: a trial was answered in time.
    pub(super) fn close(&mut self, now: Instant) {
        if !self.is_closed() {
            self.state = CircuitState::Closed { since: now };
        }
        self.missed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_in_a_row_double_the_pause() {
        let mut now = Instant::now();
        let mut circuit = Circuit::new(now);
        assert_eq!(circuit.due(), Some(now));
        circuit.close(now);
        assert!(!circuit.note_missed(now, 0.0) && !circuit.note_missed(now, 0.0));
        circuit.note_answered();
        assert!(
            !circuit.note_missed(now, 0.0) && !circuit.note_missed(now, 0.0) && circuit.is_closed()
        );
        assert!(
            circuit.note_missed(now, 0.0) && !circuit.note_missed(now, 0.0),
            "it opens once"
        );
        let mut pauses = Vec::new();
        for _ in 0..5 {
            let due = circuit.due().unwrap();
            pauses.push((due - now).as_secs());
            now = due;
            circuit.note_failed(now, 0.0);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 10]);
        circuit.close(now);
        circuit.note_failed(now + WELL_TIME, 1.0);
        assert_eq!(
            circuit.due(),
            Some(now + WELL_TIME + FIRST_PAUSE.mul_f64(1.2))
        );
    }
}
