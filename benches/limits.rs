//! Measures the cost of admitting an exchange, with all kinds of limits at all levels, and of
//! settling it, among a hundred thousand keys.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a benchmark may fail loudly, and criterion's macros make undocumented functions"
)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use portcullis::catalog::resolve::resolve_catalog;
use portcullis::catalog::{Catalog, Key};
use portcullis::conf::price::Usd;
use portcullis::limits::{Ask, KeyScopes, Registry, Spent, take_reservation};
use std::fmt::Write;
use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const CALLERS: usize = 1_000;
const KEYS_OF_EACH: usize = 100;
const THREADS: usize = 8;

/// Limits so large that nothing is refused: a refusal would be measured as something else.
const LIMITS: &str = "{requests_per_minute: 1000000000000, requests_per_day: 1000000000000, tokens_per_minute: 1000000000000000, \
                      tokens_per_day: 1000000000000000, concurrency: 1000, usd_per_day: 999999999, usd_per_month: 999999999}";

fn catalog(limits: &str) -> Catalog {
    // The callers are spread over files, since no file may be as large as all of them.
    let mut files = vec![(
        "catalog.yaml".to_owned(),
        "accounts: {a: {dialect: demo}}\nmodels: {m: {targets: [{account: a}]}}\ncallers:\n"
            .to_owned(),
    )];
    for caller in 0..CALLERS {
        if caller > 0 && caller % (CALLERS / 5) == 0 {
            files.push((format!("catalog.d/{caller}.yaml"), "callers:\n".to_owned()));
        }
        let Some((_, text)) = files.last_mut() else {
            unreachable!("there is the first")
        };
        writeln!(text, "  c{caller}:\n    limits: {limits}\n    keys:").unwrap();
        for key in 0..KEYS_OF_EACH {
            let number = caller * KEYS_OF_EACH + key;
            writeln!(
                text,
                "      k{key}: {{hash: 'sha256:{number:064x}', limits: {limits}, model_limits: {{m: {limits}}}}}"
            )
            .unwrap();
        }
    }
    resolve_catalog(&files, &mut |_| unreachable!()).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A key with its scopes, as an exchange finds them.
type Each = (Arc<Key>, KeyScopes);

fn by_index(catalog: &Catalog, scopes: Vec<KeyScopes>) -> Vec<Each> {
    let mut keys: Vec<&Arc<Key>> = catalog.keys().collect();
    keys.sort_unstable_by_key(|key| key.index);
    keys.into_iter().cloned().zip(scopes).collect()
}

fn now() -> u64 {
    u64::try_from(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_millis(),
    )
    .unwrap()
}

/// Admits and settles `times` times, and returns the time that it took. The clock is read each
/// time, as in a gateway.
fn run<'e>(times: u64, mut next: impl FnMut() -> &'e Each) -> Duration {
    let start = Instant::now();
    for _ in 0..times {
        let (key, scopes) = next();
        let ask = Ask::exact(1_500, Usd(20_000));
        let reservation = take_reservation(&scopes.bounds(key, 0), black_box(ask), now(), 1)
            .expect("there is room");
        black_box(reservation.limits_left);
        reservation.settle(
            Spent {
                tokens: 700,
                usd: Usd(9_000),
            },
            now(),
        );
    }
    start.elapsed()
}

/// Does the same on all threads at once. `key` chooses a thread's key by a random number.
fn crowd(times: u64, all: &[Each], key: impl Fn(usize, usize) -> usize + Sync) -> Duration {
    let barrier = Barrier::new(THREADS + 1);
    std::thread::scope(|threads| {
        for thread in 0..THREADS {
            let (barrier, key) = (&barrier, &key);
            threads.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread as u64);
                barrier.wait();
                run(times / THREADS as u64 + 1, || {
                    &all[key(thread, random.usize(..))]
                });
                barrier.wait();
            });
        }
        barrier.wait();
        let start = Instant::now();
        barrier.wait();
        start.elapsed()
    })
}

fn admission(criterion: &mut Criterion) {
    let catalog = catalog(LIMITS);
    let registry = Registry::default();
    let all = by_index(&catalog, registry.adopt(&catalog, &mut Vec::new));
    let total = all.len();
    // Each scope gets its rings before anything is measured.
    let mut each = all.iter();
    run(total as u64, || each.next().unwrap());
    let mut group = criterion.benchmark_group("admission and settlement");
    group.throughput(Throughput::Elements(1));
    group.bench_function("one thread, one key", |bencher| {
        bencher.iter_custom(|times| run(times, || &all[77]))
    });
    let mut random = fastrand::Rng::with_seed(1);
    group.bench_function("one thread, any of 100,000 keys", |bencher| {
        bencher.iter_custom(|times| run(times, || &all[random.usize(..total)]));
    });
    // Each thread has an eighth of the callers to itself.
    group.bench_function("8 threads, keys of different callers", |bencher| {
        bencher.iter_custom(|times| {
            crowd(times, &all, |thread, random| {
                thread * (total / THREADS) + random % (total / THREADS)
            })
        });
    });
    group.bench_function("8 threads, keys of one caller", |bencher| {
        bencher.iter_custom(|times| crowd(times, &all, |_, random| random % KEYS_OF_EACH));
    });
    group.finish();
    assert!(
        registry
            .scopes()
            .iter()
            .all(|scope| scope.own_counts(now()).places == 0)
    );
}

fn adoption(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a catalog of 100,000 keys");
    group.sample_size(10);
    for (name, limits) in [
        ("without limits", "{}"),
        ("with limits at all levels", LIMITS),
    ] {
        let catalog = catalog(limits);
        group.bench_function(format!("{name}, the first"), |bencher| {
            bencher.iter_with_large_drop(|| {
                let registry = Registry::default();
                (registry.adopt(&catalog, &mut Vec::new), registry)
            });
        });
        let registry = Registry::default();
        let kept = registry.adopt(&catalog, &mut Vec::new);
        group.bench_function(format!("{name}, again"), |bencher| {
            bencher.iter_with_large_drop(|| registry.adopt(&catalog, &mut Vec::new));
        });
        drop(kept);
    }
    group.finish();
}

criterion_group!(benches, admission, adoption);
criterion_main!(benches);
