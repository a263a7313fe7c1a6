//! Simulates ten minutes of outages: 1,000 requests a second go through the gateway's own
//! decisions, to three accounts that fail in every way.
//!
//! `cargo bench --bench outage [-- SEED]`. The time is virtual, and all random numbers come from
//! the seed: so a run takes seconds, and prints the same each time. There are three worlds, in
//! which accounts fail at different times. Each row of the table is the result for the same three
//! worlds. Orders, breakers, rests, queue, budgets, latencies and quotas are the gateway's own
//! code; the accounts, and the loop that asks them, are made up here. Plain retry, with which the
//! strategies are compared, has the same attempts, timeouts, caps and queue. The benchmark fails if
//! the advantage that docs/src/performance.md states does not hold.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a simulation may fail loudly; the lints guard what runs in production"
)]

mod gateway;
mod world;

use gateway::{AnswerOptions, Figures, Second};
use portcullis::catalog::Strategy;
use std::process::ExitCode;
use world::{ACCOUNTS, ALL_OUT, Episode, LENGTH, PER_SECOND};

const WORLDS: u64 = 3;

/// The least advantage of every strategy over plain retry, in points of a hundred requests:
/// requests that are answered at all, and requests that are answered in time. A strategy that goes
/// by shares knows nothing of speed, so it gains less of the second.
const MORE_ANSWERED: f64 = 0.1;
const MORE_IN_TIME: f64 = 1.0;
const MORE_IN_TIME_BY_SHARES: f64 = 0.5;
/// The most by which a strategy may fall behind plain retry in answered requests, among those that
/// come while some account works. Plain retry has no probes to wait for. It also leaves requests
/// with a silent account for its whole timeout, where others would refuse them.
const LESS_ANSWERED: f64 = 0.25;
/// The most attempts for a request: on the whole, and while no account works.
const ATTEMPTS: f64 = 1.1;
const ATTEMPTS_ALL_OUT: f64 = 0.5;

fn main() -> ExitCode {
    let seed: u64 = std::env::args()
        .skip(1)
        .find_map(|word| word.parse().ok())
        .unwrap_or(1);
    let worlds: Vec<Vec<Episode>> = (seed..seed + WORLDS).map(world::episodes).collect();
    println!(
        "{PER_SECOND:.0} requests a second for {:.0} virtual minutes, in {WORLDS} worlds from seed {seed}.",
        LENGTH / 60.0
    );
    for (place, account) in ACCOUNTS.iter().enumerate() {
        let lost: f64 = worlds
            .iter()
            .flatten()
            .filter(|episode| episode.account == place)
            .map(|episode| episode.to - episode.from)
            .sum();
        let share = 100.0 * lost / LENGTH / WORLDS as f64;
        println!(
            "  {}: weight {}, {} at once, in trouble for {share:.0} % of the time",
            account.name, account.weight, account.capacity
        );
    }
    println!("\n| | {} |", HEAD.join(" | "));
    println!("|---|{}", "---:|".repeat(HEAD.len()));
    let through = |name: &str, manner: AnswerOptions| {
        let mut figures = Figures {
            seconds: vec![Second::default(); LENGTH as usize],
            firsts: Vec::new(),
        };
        for (episodes, seed) in worlds.iter().zip(seed..) {
            gateway::run(manner, episodes, seed, &mut figures);
        }
        figures.firsts.sort_by(f64::total_cmp);
        println!("| {name} | {} |", figures.row().join(" | "));
        figures
    };
    let plain = through("plain weighted retry", AnswerOptions::Plain);
    let mut missed = Vec::new();
    for (name, manner, more_in_time) in [
        (
            "weighted",
            AnswerOptions::By(Strategy::Weighted),
            MORE_IN_TIME_BY_SHARES,
        ),
        (
            "priority",
            AnswerOptions::By(Strategy::Priority),
            MORE_IN_TIME,
        ),
        (
            "least_busy",
            AnswerOptions::By(Strategy::LeastBusy),
            MORE_IN_TIME,
        ),
        (
            "fastest",
            AnswerOptions::By(Strategy::Fastest),
            MORE_IN_TIME,
        ),
        (
            "fastest, hedged",
            AnswerOptions::Hedged(Strategy::Fastest),
            MORE_IN_TIME,
        ),
    ] {
        let own = through(name, manner);
        let more = |of: fn(&Figures, Count) -> f64, which: Count| {
            100.0 * (of(&own, which) - of(&plain, which))
        };
        let (answered, in_time) = (
            more(Figures::each, ANSWERED),
            more(Figures::each, IN_TIME_OF),
        );
        let while_up = more(Figures::each_while_up, ANSWERED);
        let (attempts, all_out) = (own.each(ATTEMPTS_OF), own.each_while_out(ATTEMPTS_OF));
        for (holds, what) in [
            (
                answered >= MORE_ANSWERED,
                format!("{answered:.2} points more answered"),
            ),
            (
                while_up >= -LESS_ANSWERED,
                format!("{while_up:.2} points more answered while somebody works"),
            ),
            (
                in_time >= more_in_time,
                format!("{in_time:.2} points more in time"),
            ),
            (
                attempts <= ATTEMPTS,
                format!("{attempts:.3} attempts a request"),
            ),
            (
                all_out <= ATTEMPTS_ALL_OUT,
                format!("{all_out:.3} attempts a request while all are out"),
            ),
        ] {
            if !holds {
                missed.push(format!("{name}: {what}"));
            }
        }
    }
    println!(
        "\np50 and p99: of answers, to the first token. All are out for {} s of {LENGTH:.0}.",
        ALL_OUT.len()
    );
    if missed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "\nThe advantage that docs/src/performance.md states does not hold:\n  {}",
        missed.join("\n  ")
    );
    ExitCode::FAILURE
}

type Count = fn(&Second) -> f64;
const ANSWERED: Count = |second| second.answered;
const IN_TIME_OF: Count = |second| second.in_time;
const ATTEMPTS_OF: Count = |second| second.attempts;

const HEAD: [&str; 12] = [
    "answered",
    "in 5 s",
    "while one works",
    "attempts each",
    "p50",
    "p99",
    "waited",
    "shed",
    "spared",
    "hedged",
    "all out: attempts each",
    "back after",
];

impl Figures {
    fn row(&self) -> [String; HEAD.len()] {
        let percent = |share: f64| format!("{:.2} %", 100.0 * share);
        let quantile = |q: f64| {
            format!(
                "{:.2} s",
                self.firsts[(q * self.firsts.len() as f64) as usize]
            )
        };
        let back = self.seconds[ALL_OUT.end..]
            .iter()
            .position(|second| second.answered >= 0.95 * second.requests);
        [
            percent(self.each(ANSWERED)),
            percent(self.each(IN_TIME_OF)),
            percent(self.each_while_up(ANSWERED)),
            format!("{:.3}", self.each(ATTEMPTS_OF)),
            quantile(0.5),
            quantile(0.99),
            percent(self.each(|second| second.waited)),
            percent(self.each(|second| second.shed)),
            percent(self.each(|second| second.spared)),
            percent(self.each(|second| second.hedged)),
            format!("{:.3}", self.each_while_out(ATTEMPTS_OF)),
            back.map_or("never".to_owned(), |seconds| format!("{seconds} s")),
        ]
    }

    /// Returns the mean for a request.
    fn each(&self, which: Count) -> f64 {
        mean(self.seconds.iter(), which)
    }

    /// Returns the mean for a request that comes while all accounts are out.
    fn each_while_out(&self, which: Count) -> f64 {
        mean(self.seconds[ALL_OUT].iter(), which)
    }

    /// Returns the mean for all other requests.
    fn each_while_up(&self, which: Count) -> f64 {
        mean(
            self.seconds[..ALL_OUT.start]
                .iter()
                .chain(&self.seconds[ALL_OUT.end..]),
            which,
        )
    }
}

fn mean<'s>(seconds: impl Iterator<Item = &'s Second>, which: Count) -> f64 {
    let (sum, requests) = seconds.fold((0.0, 0.0), |(sum, requests), second| {
        (sum + which(second), requests + second.requests)
    });
    sum / requests
}
