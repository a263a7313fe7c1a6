//! The most requests a second that a row answers with a p99 within a limit and without a failure.
//!
//! The load is an open loop: each request has a time at which it is due, however slow the answers
//! to the others are, and its latency counts from then. So a row that stalls does not stop the
//! clock. A search halves the range of rates until it is narrow, which bounds its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use crate::Plan;
use crate::callers::{Load, Outcome};
use crate::kind::Kind;
use crate::report::{Report, quantile};
use crate::subject::Subject;

/// The limits of the p99, the widest first: what one limit found bounds the search of the next.
const LIMITS: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(5),
    Duration::from_millis(1),
];
/// The number of connections. A request that is due waits until one is free, and that counts.
const CONNECTIONS: usize = 256;
/// Requests are sent at multiples of about this, or later; that counts, too.
const TICK: Duration = Duration::from_micros(50);
/// A request that is late by so much ends the trial: the rate is too high.
const TOO_LATE: Duration = Duration::from_millis(200);

/// What was found at one rate.
struct Trial {
    rate: f64,
    /// `None` if a request failed, or was too late.
    p99: Option<Duration>,
}

/// Searches the rates of a subject, and reports them.
pub async fn search_rates(subject: &Subject, plan: &Plan, report: &mut Report) {
    let load = subject.load("plain", Kind::Plain, CONNECTIONS, 0);
    let time = plan.time / 2;
    // More than callers in a closed loop get is not there to be found.
    let closed = load.run(time).await;
    let top = closed.took.len() as f64 / closed.elapsed.as_secs_f64() * 1.2;
    report.count_errors(closed.complain(&format!("{}: the most requests", subject.row.name())));
    let mut trials = Vec::new();
    for limit in LIMITS {
        let (mut low, mut high) = (0.0, top);
        for _ in 0..plan.halvings {
            let middle = f64::midpoint(low, high);
            let holds = match known(&trials, middle, limit) {
                Some(holds) => holds,
                None => {
                    let outcome = run_open(&load, middle, time).await;
                    let what = format!("{}: at {middle:.0} a second", subject.row.name());
                    report.count_errors(outcome.complain(&what));
                    trials.push(outcome.into_trial(middle));
                    known(&trials, middle, limit).unwrap_or_default()
                }
            };
            if holds {
                low = middle;
            } else {
                high = middle;
            }
        }
        let what = format!(
            "most requests a second, p99 ≤ {} ms, none failed",
            limit.as_millis()
        );
        report.add_figure(&what, subject.row, low.round());
    }
}

/// Returns whether the trials have already shown that the limit holds at this rate, or does not.
fn known(trials: &[Trial], rate: f64, limit: Duration) -> Option<bool> {
    let within = |trial: &Trial| trial.p99.is_some_and(|p99| p99 <= limit);
    if trials.iter().any(|t| t.rate <= rate && !within(t)) {
        Some(false)
    } else if trials.iter().any(|t| t.rate >= rate && within(t)) {
        Some(true)
    } else {
        None
    }
}

/// What one trial's callers share.
struct Schedule {
    start: Instant,
    rate: f64,
    /// The number of requests of the trial.
    total: usize,
    next: AtomicUsize,
    /// Has a permit for each request that is due and not yet sent.
    due: Semaphore,
    late: AtomicBool,
}

/// The results of a trial.
struct Open {
    outcome: Outcome,
    /// True if a request was too late.
    late: bool,
    total: usize,
}

impl Open {
    fn complain(&self, of: &str) -> u64 {
        self.outcome.complain(of)
    }

    fn into_trial(mut self, rate: f64) -> Trial {
        let took = &mut self.outcome.took;
        took.sort_unstable();
        let whole = !self.late && self.outcome.errors.is_empty() && took.len() == self.total;
        Trial {
            rate,
            p99: whole.then(|| quantile(took, 0.99)),
        }
    }
}

/// Sends this many requests a second for this time, and waits for all answers.
async fn run_open(load: &Load, rate: f64, time: Duration) -> Open {
    let mut outcome = Outcome::default();
    let mut wires = Vec::new();
    for _ in 0..load.callers {
        match load.connect().await {
            Ok(wire) => wires.push(wire),
            Err(why) => outcome.failed(why),
        }
    }
    let schedule = Arc::new(Schedule {
        start: Instant::now(),
        rate,
        total: ((rate * time.as_secs_f64()) as usize).max(1),
        next: AtomicUsize::new(0),
        due: Semaphore::new(0),
        late: AtomicBool::new(false),
    });
    let mut callers = JoinSet::new();
    for mut wire in wires {
        let (load, schedule) = (load.clone(), schedule.clone());
        callers.spawn(async move {
            let mut text = Vec::new();
            let mut took = Vec::new();
            while let Some(due) = schedule.next().await {
                match load.ask_on(&mut wire, &mut text, due).await {
                    Ok((close, _)) => {
                        took.push(due.elapsed());
                        if close {
                            wire = load.connect().await?;
                        }
                    }
                    Err(why) => {
                        schedule.stop();
                        return Err(why);
                    }
                }
            }
            Ok(took)
        });
    }
    pace(&schedule).await;
    while let Some(caller) = callers.join_next().await {
        match caller.map_err(|e| e.to_string()).and_then(|took| took) {
            Ok(took) => outcome.took.extend(took),
            Err(why) => outcome.failed(why),
        }
    }
    Open {
        outcome,
        late: schedule.late.load(Ordering::Relaxed),
        total: schedule.total,
    }
}

impl Schedule {
    /// Waits for the next request that is due, and returns when it was.
    async fn next(&self) -> Option<Instant> {
        self.due.acquire().await.ok()?.forget();
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        if index >= self.total {
            return None;
        }
        let due = self.start + Duration::from_secs_f64(index as f64 / self.rate);
        if due.elapsed() > TOO_LATE {
            self.stop();
            return None;
        }
        Some(due)
    }

    fn stop(&self) {
        self.late.store(true, Ordering::Relaxed);
        self.due.close();
    }
}

/// Lets requests go when they are due, until all have gone. The runtime's own timers are too coarse
/// for this: they round up to a millisecond.
async fn pace(schedule: &Schedule) {
    let ticks = Arc::new(Notify::new());
    let thread = std::thread::spawn({
        let ticks = Arc::downgrade(&ticks);
        move || {
            while let Some(ticks) = ticks.upgrade() {
                ticks.notify_one();
                drop(ticks);
                std::thread::sleep(TICK);
            }
        }
    });
    let mut sent = 0;
    while sent < schedule.total && !schedule.due.is_closed() {
        ticks.notified().await;
        let due = (schedule.start.elapsed().as_secs_f64() * schedule.rate) as usize + 1;
        let due = due.min(schedule.total);
        schedule.due.add_permits(due - sent);
        sent = due;
    }
    // The callers who wait see that no request is left.
    schedule.due.add_permits(CONNECTIONS);
    drop(ticks);
    let _ = thread.join();
}
