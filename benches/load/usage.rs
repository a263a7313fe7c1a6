//! Who used the machine's cores while something was measured.

use std::time::{Duration, Instant};

use crate::process::{self, Process};

/// The part of the machine that others may use. Above it, a measurement is compared with no other.
pub const OTHERS_LIMIT: f64 = 0.05;

/// Measures from its creation until it is read.
pub struct Meter<'a> {
    subject: Option<&'a Process>,
    /// The other processes of this benchmark.
    ours: Vec<&'a Process>,
    began: Instant,
    start: Times,
}

/// Processor time used so far.
struct Times {
    subject: Duration,
    /// The whole benchmark's, with the subject.
    known: Duration,
    machine: Duration,
}

#[derive(Clone, Copy)]
pub struct Usage {
    pub cpu: Duration,
    /// The part of the machine that was busy with something else.
    pub others: f64,
    /// The part of the machine that was busy.
    pub busy: f64,
}

impl<'a> Meter<'a> {
    pub fn new(subject: Option<&'a Process>, ours: Vec<&'a Process>) -> Meter<'a> {
        let start = read_times(subject, &ours);
        Meter {
            subject,
            ours,
            began: Instant::now(),
            start,
        }
    }

    pub fn read(&self) -> Usage {
        let end = read_times(self.subject, &self.ours);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let whole = self.began.elapsed().as_secs_f64() * cores as f64;
        let machine = end.machine.saturating_sub(self.start.machine);
        let known = end.known.saturating_sub(self.start.known);
        Usage {
            cpu: end.subject.saturating_sub(self.start.subject),
            others: (machine.saturating_sub(known).as_secs_f64() / whole).min(1.0),
            busy: (machine.as_secs_f64() / whole).min(1.0),
        }
    }
}

fn read_times(subject: Option<&Process>, ours: &[&Process]) -> Times {
    // The machine's comes first: what is used meanwhile must not look like somebody else's.
    let machine = process::machine_cpu();
    let subject = subject.map_or(Duration::ZERO, Process::cpu);
    let ours: Duration = ours.iter().map(|process| process.cpu()).sum();
    Times {
        subject,
        known: subject + ours + process::cpu(std::process::id()),
        machine,
    }
}
