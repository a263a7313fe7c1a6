//! When the store is asked, and when it is tried again after it failed. Pure: the time is passed
//! in.

use std::time::{Duration, Instant};

/// So many in a row that were not answered in time are enough.
const IN_A_ROW: u32 = 3;
/// Then nobody asks for so long,
const FIRST: Duration = Duration::from_secs(1);
/// each time for twice as long, but no longer than this.
const LONGEST: Duration = Duration::from_secs(10);
/// A pause is up to so much of itself longer, so that not all gateways come back at once.
const JITTER: f64 = 0.2;
/// Who has been well for so long begins anew with the shortest pause.
const WELL: Duration = Duration::from_secs(30);

/// The circuit.
#[derive(Debug)]
pub(super) struct Circuit {
    missed: u32,
    pause: Duration,
    /// Nobody asks until then.
    open: Option<Instant>,
    closed: Instant,
}

impl Circuit {
    /// Not asked yet, and about to be tried.
    pub(super) fn new(now: Instant) -> Circuit {
        Circuit { missed: 0, pause: FIRST, open: Some(now), closed: now }
    }

    /// Whether requests ask.
    pub(super) fn is_closed(&self) -> bool {
        self.open.is_none()
    }

    /// When it is tried again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.open
    }

    /// An answer was in time.
    pub(super) fn answered(&mut self) {
        self.missed = 0;
    }

    /// One was not. True if that is one too many.
    pub(super) fn missed(&mut self, now: Instant, random: f64) -> bool {
        self.missed += 1;
        let too_many = self.is_closed() && self.missed >= IN_A_ROW;
        if too_many {
            self.failed(now, random);
        }
        too_many
    }

    /// It is gone, or a trial has failed.
    pub(super) fn failed(&mut self, now: Instant, random: f64) {
        if self.is_closed() && now.saturating_duration_since(self.closed) >= WELL {
            self.pause = FIRST;
        }
        self.open = Some(now + self.pause.mul_f64(1.0 + JITTER * random));
        self.pause = (self.pause * 2).min(LONGEST);
    }

    /// A trial was answered in time.
    pub(super) fn close(&mut self, now: Instant) {
        if self.open.take().is_some() {
            self.closed = now;
        }
        self.missed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_in_a_row_open_it_for_twice_as_long_each_time() {
        let mut now = Instant::now();
        let mut circuit = Circuit::new(now);
        assert_eq!(circuit.due(), Some(now));
        circuit.close(now);
        assert!(!circuit.missed(now, 0.0) && !circuit.missed(now, 0.0));
        circuit.answered();
        assert!(!circuit.missed(now, 0.0) && !circuit.missed(now, 0.0) && circuit.is_closed());
        assert!(circuit.missed(now, 0.0) && !circuit.missed(now, 0.0), "it opens once");
        let mut pauses = Vec::new();
        for _ in 0..5 {
            let due = circuit.due().unwrap();
            pauses.push((due - now).as_secs());
            now = due;
            circuit.failed(now, 0.0);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 10]);
        circuit.close(now);
        circuit.failed(now + WELL, 1.0);
        assert_eq!(circuit.due(), Some(now + WELL + FIRST.mul_f64(1.2)));
    }
}
