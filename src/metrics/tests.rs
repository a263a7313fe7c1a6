use super::*;
use crate::conf::config::SeriesBounds;
use crate::error::Outcome;
use crate::settled::{Attempts, Incoming, Sender, Served, Spending, Times, Tried};
use dialects::usage::Usage;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn name() -> impl Strategy<Value = Name> {
    prop::option::of("[ab]".prop_map(Into::into))
}

prop_compose! {
    fn some_attempt()(account in "[ab]", is_ok in any::<bool>(), count in 1..3_u32, tokens in prop::option::of(0..3_u64), first_ms in prop::option::of(0..90_u64)) -> Tried {
        Tried {
            account: account.into(),
            model: "m".into(),
            endpoint: None,
            outcome: if is_ok { "ok" } else { "cut" },
            count,
            at_ms: 0,
            ms: 1,
            status: None,
            connect_ms: None,
            first_ms,
            prompt_tokens: tokens,
            completion_tokens: None,
            cost: None,
            detail: None,
            ..Tried::default()
        }
    }
}

prop_compose! {
    fn exchange()(
        (model, pattern, account, caller) in (name(), name(), name(), name()),
        (prompt, cached, reasoning, cost) in (0..3_u64, 0..2_u64, 0..2_u64, prop::option::of(0..3_u64)),
        (is_ok, is_chat, is_estimated, is_answered) in any::<(bool, bool, bool, bool)>(),
        limited in prop::option::of(prop::sample::select(vec![
            (Level::Caller, Kind::Concurrency), (Level::Key, Kind::Concurrency), (Level::Key, Kind::TokensPerDay),
        ])),
        (total, own, queued) in (0..100_u64, 0..100_u64, 0..2_u64),
        stream in any::<bool>(),
        trail in prop::collection::vec(some_attempt(), 0..3),
    ) -> Settled {
        let source = if is_estimated { Source::Estimated } else { Source::None };
        Settled {
            sender: Sender { caller, ..Sender::default() },
            request: Incoming {
                door: if is_chat { "chat" } else { "messages" }, model, pattern, stream, ..Incoming::default()
            },
            served: Served { account, ..Served::default() },
            attempts: Attempts { trail, ..Attempts::default() },
            times: Times {
                own_time: Duration::from_micros(own),
                queued: Duration::from_millis(queued),
                first_byte: is_answered.then_some(Duration::from_millis(total)),
                ..Times::default()
            },
            spending: Spending {
                usage: Usage { prompt, cached, reasoning, source, ..Usage::default() },
                cost: cost.map(Usd),
                limited,
                ..Spending::default()
            },
            outcome: if is_ok { Outcome::Ok } else { Outcome::UpstreamCut },
            total: Duration::from_millis(total),
            ..Settled::default()
        }
    }
}

/// The names of accounts, models and callers that a catalog has.
type Names = BTreeSet<(&'static str, String)>;

/// A step of a run: an exchange ends, or a catalog with these names is taken some seconds later.
#[derive(Debug)]
enum Happening {
    Settle(Box<Settled>),
    Reload(Names, u64),
}

prop_compose! {
    fn names()(
        names in prop::collection::btree_set((prop::sample::select(vec!["account", "model", "caller"]), "[ab]"), 0..6),
    ) -> Names {
        names
    }
}

fn steps() -> impl Strategy<Value = Vec<Happening>> {
    let reload = (names(), prop::sample::select(vec![0, 1_800, 3_600]))
        .prop_map(|(names, later)| Happening::Reload(names, later));
    prop::collection::vec(
        prop_oneof![8 => exchange().prop_map(|one| Happening::Settle(Box::new(one))), 2 => reload],
        0..40,
    )
}

/// Makes each step with the metrics.
struct Counting {
    metrics: Metrics,
    live: Names,
    now: Instant,
}

impl Counting {
    fn new() -> Counting {
        Counting {
            metrics: Metrics::default(),
            live: Names::new(),
            now: Instant::now(),
        }
    }

    fn reload(&mut self, new: &Names, later: u64) {
        self.now += Duration::from_secs(later);
        let left = self
            .live
            .difference(new)
            .map(|(label, name)| (*label, Arc::from(&**name)))
            .collect();
        let is_live =
            |label: &str, name: &str| new.iter().any(|(of, one)| (*of, &**one) == (label, name));
        self.metrics
            .note_reload(left, new.len(), &is_live, self.now);
        self.live = new.clone();
    }

    fn step(&mut self, step: &Happening) {
        match step {
            Happening::Settle(settled) => self.metrics.settle(settled),
            Happening::Reload(names, later) => self.reload(names, *later),
        }
    }
}

/// Returns the lines of the series, in order, without those of the process.
fn lines(metrics: &Metrics) -> Vec<String> {
    let text = metrics.text();
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| !line.contains("success") && !line.starts_with("process_"))
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines
}

/// The plainest way to count: each series has its names, and the number of its exchanges.
#[derive(Default)]
struct Naive {
    series: BTreeMap<String, (Names, u64)>,
    /// The names that are gone, and since when.
    gone: BTreeMap<(&'static str, String), u64>,
    live: Names,
    now: u64,
}

impl Naive {
    fn add(
        &mut self,
        metric: &str,
        names: [(&'static str, &Name); 3],
        words: &[(&str, &str)],
        count: u64,
    ) {
        let text = |name: &Name| name.as_deref().unwrap_or_default().to_owned();
        let mut labels: Vec<String> = names
            .iter()
            .map(|(label, name)| format!("{label}=\"{}\"", text(name)))
            .collect();
        labels.retain(|label| !(metric.contains("attempts") && label.starts_with("caller")));
        labels.extend(
            words
                .iter()
                .map(|(label, word)| format!("{label}=\"{word}\"")),
        );
        labels.sort();
        let known = names.iter().filter(|(label, name)| {
            name.is_some() && (*label != "caller" || !metric.contains("attempts"))
        });
        let known = known.map(|(label, name)| (*label, text(name))).collect();
        self.series
            .entry(format!("{metric} {}", labels.join(",")))
            .or_insert((known, 0))
            .1 += count;
    }

    fn step(&mut self, step: &Happening) {
        match step {
            Happening::Settle(one) => {
                let model = one.request.pattern.clone().or(one.request.model.clone());
                let caller = ("caller", &one.sender.caller);
                let names = [("model", &model), ("account", &one.served.account), caller];
                self.add(
                    "requests",
                    names,
                    &[("door", one.request.door), ("outcome", one.outcome.name())],
                    1,
                );
                for tried in &one.attempts.trail {
                    let account = Some(tried.account.clone());
                    let names = [("model", &model), ("account", &account), caller];
                    self.add(
                        "attempts",
                        names,
                        &[("outcome", tried.outcome)],
                        tried.count.into(),
                    );
                }
            }
            Happening::Reload(names, later) => {
                self.now += later;
                for left in self.live.difference(names) {
                    self.gone.insert(left.clone(), self.now);
                }
                self.gone.retain(|name, _| !names.contains(name));
                self.live = names.clone();
                let before = self.gone.len();
                self.gone.retain(|_, since| self.now - *since < 3_600);
                if self.gone.len() < before {
                    let (live, gone) = (&self.live, &self.gone);
                    self.series.retain(|_, (names, _)| {
                        names
                            .iter()
                            .all(|name| live.contains(name) || gone.contains_key(name))
                    });
                }
            }
        }
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        self.series
            .iter()
            .map(|(series, (_, count))| (series.clone(), *count))
            .collect()
    }
}

/// Returns the counts of requests and attempts as `/metrics` shows them, their labels sorted.
fn counts(metrics: &Metrics) -> BTreeMap<String, u64> {
    let count = |line: String| {
        let (name, rest) = line.strip_prefix("portcullis_")?.split_once("_total{")?;
        let (labels, count) = rest.split_once("} ")?;
        let mut labels: Vec<&str> = labels.split(',').collect();
        labels.sort_unstable();
        let is_meant = name == "requests" || name == "attempts";
        is_meant.then(|| {
            (
                format!("{name} {}", labels.join(",")),
                count.parse().unwrap(),
            )
        })
    };
    lines(metrics).into_iter().filter_map(count).collect()
}

proptest! {
    #[test]
    fn bound_series_count_like_looked_up_ones(steps in steps()) {
        let (mut quick, mut slow) = (Counting::new(), Counting::new());
        for step in &steps {
            quick.step(step);
            slow.step(step);
            slow.metrics.bound.clear();
        }
        prop_assert_eq!(lines(&quick.metrics), lines(&slow.metrics));
    }

    #[test]
    fn counters_survive_reloads_and_end_an_hour_later(steps in steps()) {
        let (mut run, mut naive) = (Counting::new(), Naive::default());
        for step in &steps {
            run.step(step);
            naive.step(step);
            prop_assert_eq!(counts(&run.metrics), naive.counts());
        }
    }
}

/// Makes an exchange of the set with this number, of 1,000 callers, 200 models and 5 accounts.
fn exchange_of_set(number: usize) -> Settled {
    let (caller, model, account) = (number % 1_000, number / 1_000 % 200, number / 200_000 % 5);
    Settled {
        sender: Sender {
            caller: Some(format!("caller-{caller}").into()),
            ..Sender::default()
        },
        request: Incoming {
            door: "chat",
            model: Some(format!("model-{model}").into()),
            ..Incoming::default()
        },
        served: Served {
            account: Some(format!("account-{account}").into()),
            ..Served::default()
        },
        spending: Spending {
            usage: Usage {
                prompt: 1,
                completion: 1,
                cached: 1,
                reasoning: 1,
                ..Usage::default()
            },
            cost: Some(Usd(1)),
            ..Spending::default()
        },
        outcome: Outcome::Ok,
        ..Settled::default()
    }
}

/// Returns the sum of the series of requests that have this text among their labels.
fn requests(metrics: &Metrics, label: &str) -> u64 {
    let counts = counts(metrics).into_iter();
    counts
        .filter(|(series, _)| series.starts_with("requests ") && series.contains(label))
        .map(|(_, count)| count)
        .sum()
}

#[test]
fn a_million_sets_stay_small_and_lose_nothing() {
    const SETS: usize = 1_000_000;
    // Every eleventh is enough to find all callers, models and accounts.
    const TAKEN: usize = SETS / 11;
    let metrics = Metrics::default();
    (0..TAKEN).for_each(|n| metrics.settle(&exchange_of_set(n * 11)));
    let text = metrics.text();
    let size = text.len();
    assert!(size < 16 << 20, "{size} bytes");
    assert_eq!(requests(&metrics, ""), TAKEN as u64);
    // A model's and an account's counts stay whole: only callers are merged.
    let of_model = (0..TAKEN).filter(|n| n * 11 / 1_000 % 200 == 7).count();
    assert_eq!(requests(&metrics, "model=\"model-7\""), of_model as u64);
    assert!(
        requests(&metrics, "caller=\"other\"") > 0 && requests(&metrics, "model=\"other\"") == 0
    );
    // 20,000 have their callers; 780 are pairs of a model and an account with the caller `other`.
    assert!(
        text.contains("portcullis_label_sets 20780\n"),
        "{size} bytes"
    );
    // A set that was admitted goes on with its own series, and another one with `other`.
    let before = counts(&metrics);
    [0, TAKEN * 11 - 11]
        .iter()
        .for_each(|n| metrics.settle(&exchange_of_set(*n)));
    let grown: Vec<String> = counts(&metrics)
        .into_iter()
        .filter(|(series, count)| before.get(series) != Some(count))
        .map(|(s, _)| s)
        .collect();
    assert_eq!(grown.len(), 2, "{grown:?}");
    assert!(
        grown
            .iter()
            .any(|series| series.contains("caller=\"caller-0\"")),
        "{grown:?}"
    );
    assert!(
        grown
            .iter()
            .any(|series| series.contains("caller=\"other\"")),
        "{grown:?}"
    );
}

/// No test, but a process that the next test starts, so that nothing else takes memory in it.
#[test]
#[ignore = "part of another test"]
fn a_child_that_counts_a_million_sets() {
    let before = memory("VmRSS:");
    let metrics = Metrics::default();
    (0..1_000_000).for_each(|n| metrics.settle(&exchange_of_set(n)));
    let size = metrics.text().len();
    println!("took {} of {size}", memory("VmHWM:") - before);
}

/// Returns a line of what the kernel knows of this process's memory, in bytes.
fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kib = status
        .lines()
        .find_map(|found| found.strip_prefix(line))
        .unwrap()
        .trim();
    kib.trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

#[test]
fn a_million_sets_take_at_most_100_mb() {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args([
        "--exact",
        "metrics::tests::a_child_that_counts_a_million_sets",
        "--ignored",
        "--nocapture",
    ]);
    let output = child.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, told) = told.split_once("took ").unwrap_or_else(|| panic!("{told}"));
    let (memory, size) = told.lines().next().unwrap().split_once(" of ").unwrap();
    let (memory, size): (u64, u64) = (memory.parse().unwrap(), size.parse().unwrap());
    println!("{memory} bytes of memory for {size} bytes of text");
    assert!(memory > size && memory <= 100_000_000, "{memory} bytes");
    assert!(size <= 16_000_000, "{size} bytes");
}

#[test]
fn the_bound_holds_with_many_models_and_accounts() {
    let metrics = Metrics::new(SeriesBounds {
        most_sets: 3,
        ..SeriesBounds::default()
    });
    (0..1_000).for_each(|n| metrics.settle(&exchange_of_set(n * 1_000 + n)));
    let series: Vec<String> = counts(&metrics)
        .into_keys()
        .filter(|series| series.starts_with("requests "))
        .collect();
    assert_eq!(
        series.len(),
        7,
        "three with their callers, three with `other`, and one for all others: {series:#?}"
    );
    assert_eq!(requests(&metrics, ""), 1_000);
    // Names that leave the catalog make room an hour later.
    metrics.note_reload(
        vec![("caller", "caller-0".into())],
        1,
        &|_, name| name != "caller-0",
        Instant::now(),
    );
    let hour = Instant::now() + Duration::from_secs(3_600);
    metrics.note_reload(Vec::new(), 1, &|_, name| name != "caller-0", hour);
    metrics.settle(&exchange_of_set(777));
    assert_eq!(requests(&metrics, "caller=\"caller-777\""), 1);
    assert_eq!(
        requests(&metrics, ""),
        1_000,
        "that of the caller who has left has ended"
    );
}

#[test]
fn attempts_keep_their_accounts_whatever_labels_are_left_out() {
    for bounds in [
        SeriesBounds {
            has_account: false,
            ..SeriesBounds::default()
        },
        SeriesBounds {
            has_account: false,
            has_caller: false,
            ..SeriesBounds::default()
        },
        SeriesBounds {
            most_sets: 1,
            ..SeriesBounds::default()
        },
    ] {
        let metrics = Metrics::new(bounds);
        for number in 0..1_000 {
            let mut settled = exchange_of_set(number * 1_000);
            let account = settled.served.account.clone().unwrap();
            settled.attempts.trail.push(Tried {
                account,
                outcome: "ok",
                count: 1,
                ..Tried::default()
            });
            metrics.settle(&settled);
        }
        let counts = counts(&metrics);
        for account in 0..5 {
            let label = format!("account=\"account-{account}\"");
            let of_account = counts
                .iter()
                .filter(|(series, _)| series.starts_with("attempts ") && series.contains(&label));
            assert_eq!(
                of_account.map(|(_, count)| count).sum::<u64>(),
                200,
                "{bounds:?} {account}"
            );
        }
        assert_eq!(requests(&metrics, ""), 1_000);
    }
}

#[test]
fn labels_that_are_switched_off_are_empty() {
    for (has_caller, has_account) in [(true, false), (false, true), (false, false)] {
        let metrics = Metrics::new(SeriesBounds {
            has_caller,
            has_account,
            ..SeriesBounds::default()
        });
        (0..3_000).for_each(|n| metrics.settle(&exchange_of_set(n * 331)));
        let text = metrics.text();
        assert_eq!(
            (text.contains("caller-"), text.contains("account-")),
            (has_caller, has_account),
            "{text}"
        );
        assert_eq!(requests(&metrics, ""), 3_000);
    }
}

#[test]
fn renames_lower_no_counter_and_do_not_pile_up() {
    let exchange = |caller: &str| Settled {
        sender: Sender {
            caller: Some(caller.into()),
            ..Sender::default()
        },
        request: Incoming {
            model: Some("m".into()),
            ..Incoming::default()
        },
        ..Settled::default()
    };
    let names =
        |caller: &str| Names::from([("model", "m".to_owned()), ("caller", caller.to_owned())]);
    let total = |run: &Counting| counts(&run.metrics).into_values().sum::<u64>();
    let mut run = Counting::new();
    for n in 1..=10 {
        run.reload(&names("acme"), 1);
        run.metrics.settle(&exchange("acme"));
        run.reload(&names("other"), 1);
        // It began under the old name.
        run.metrics.settle(&exchange("acme"));
        assert_eq!(total(&run), 2 * n);
    }
    for n in 0..3_000 {
        run.reload(&names(&format!("caller-{n}")), 1);
        run.metrics.settle(&exchange(&format!("caller-{n}")));
    }
    assert_eq!(total(&run), gone::MIN_KEPT_NAMES as u64 + 1);
    // An hour later all have ended, but for the one that has left just now.
    run.reload(&names("acme"), 3_600);
    assert_eq!(total(&run), 1);
}
