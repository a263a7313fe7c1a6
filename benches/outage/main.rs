//! Ten minutes of outages in virtual time: 1,000 requests a second through the gateway's own decisions, to three accounts that fail in every way.
//!
//! `cargo bench --bench outage [-- SEED]`. Nothing sleeps and nothing is drawn but from the seed, so that it takes seconds, and prints the same
//! each time. Three worlds are drawn, in which other accounts fail at other times, and each row goes through the same three. Orders, breakers,
//! rests, budgets, latencies and quotas are the gateway's; the accounts, and the loop that asks them, are made up here.

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

use gateway::{Figures, IN_TIME, Manner, Second};
use portcullis::catalog::Strategy;
use world::{ACCOUNTS, ALL_OUT, Episode, LENGTH, PER_SECOND};

const WORLDS: u64 = 3;

fn main() {
    let seed: u64 = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(1);
    let worlds: Vec<Vec<Episode>> = (seed..seed + WORLDS).map(world::episodes).collect();
    println!("{PER_SECOND:.0} requests a second for {:.0} virtual minutes, in {WORLDS} worlds from seed {seed}.", LENGTH / 60.0);
    for (place, account) in ACCOUNTS.iter().enumerate() {
        let lost: f64 = worlds.iter().flatten().filter(|episode| episode.account == place).map(|episode| episode.to - episode.from).sum();
        let share = 100.0 * lost / LENGTH / WORLDS as f64;
        println!("  {}: weight {}, {} at once, in trouble for {share:.0} % of the time", account.name, account.weight, account.capacity);
    }
    println!(
        "\n| | answered | in {IN_TIME:.0} s | attempts each | p50 | p99 | shed | spared | hedged | all out: attempts each | back after |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    let rows = [
        ("plain weighted retry", Manner::Plain),
        ("weighted", Manner::By(Strategy::Weighted)),
        ("priority", Manner::By(Strategy::Priority)),
        ("least_busy", Manner::By(Strategy::LeastBusy)),
        ("fastest", Manner::By(Strategy::Fastest)),
        ("fastest, hedged", Manner::Hedged(Strategy::Fastest)),
    ];
    for (name, manner) in rows {
        let mut figures = Figures { seconds: vec![Second::default(); LENGTH as usize], firsts: Vec::new() };
        for (episodes, seed) in worlds.iter().zip(seed..) {
            gateway::run(manner, episodes, seed, &mut figures);
        }
        println!("| {name} | {}", row(figures));
    }
    println!(
        "\np50 and p99: of answers, to the first token. All but the last two columns: without the {} s in which all are out.",
        ALL_OUT.len()
    );
}

fn row(mut figures: Figures) -> String {
    let all_out = |second: usize| ALL_OUT.contains(&second);
    let sum = |out: bool, which: fn(&Second) -> f64| -> f64 {
        figures.seconds.iter().enumerate().filter(|(second, _)| all_out(*second) == out).map(|(_, second)| which(second)).sum()
    };
    let each = |out: bool, which: fn(&Second) -> f64| sum(out, which) / sum(out, |second| second.requests);
    let share = |which: fn(&Second) -> f64| format!("{:.2} %", 100.0 * each(false, which));
    let after = figures.seconds.iter().skip(ALL_OUT.end);
    let back = after.into_iter().position(|second| second.answered >= 0.95 * second.requests);
    let mut columns =
        vec![share(|second| second.answered), share(|second| second.in_time), format!("{:.3}", each(false, |second| second.attempts))];
    let last = [
        share(|second| second.shed),
        share(|second| second.spared),
        share(|second| second.hedged),
        format!("{:.3}", each(true, |second| second.attempts)),
        back.map_or("never".to_owned(), |seconds| format!("{seconds} s")),
    ];
    figures.firsts.sort_by(f64::total_cmp);
    for q in [0.5, 0.99] {
        columns.push(format!("{:.2} s", figures.firsts.get((q * figures.firsts.len() as f64) as usize).copied().unwrap_or(f64::NAN)));
    }
    columns.extend(last);
    columns.join(" | ") + " |"
}
