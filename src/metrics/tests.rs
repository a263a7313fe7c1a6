use super::*;
use crate::error::Outcome;
use crate::settled::{Attempts, Incoming, Sender, Served, Spending, Times, Tried};
use dialects::usage::Usage;
use proptest::prelude::*;
use std::time::Duration;

fn name() -> impl Strategy<Value = Name> {
    prop::option::of("[ab]".prop_map(Into::into))
}

prop_compose! {
    fn some_attempt()(account in "[ab]", is_ok in any::<bool>(), times in 1..3_u32, tokens in prop::option::of(0..3_u64)) -> Tried {
        Tried {
            account: account.into(),
            model: "m".into(),
            endpoint: None,
            outcome: if is_ok { "ok" } else { "cut" },
            times,
            ms: 1,
            status: None,
            connect_ms: None,
            first_ms: None,
            prompt_tokens: tokens,
            completion_tokens: None,
            cost: None,
            detail: None,
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
        (total, own) in (0..100_u64, 0..100_u64),
        trail in prop::collection::vec(some_attempt(), 0..3),
    ) -> Settled {
        let source = if is_estimated { Source::Estimated } else { Source::None };
        Settled {
            sender: Sender { caller, ..Sender::default() },
            request: Incoming {
                door: if is_chat { "chat" } else { "messages" }, model, pattern, ..Incoming::default()
            },
            served: Served { account, ..Served::default() },
            attempts: Attempts { trail, ..Attempts::default() },
            times: Times {
                own: Duration::from_micros(own),
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

/// Returns the lines of the series, in order.
fn lines(metrics: &Metrics) -> Vec<String> {
    let text = metrics.text();
    let mut lines: Vec<String> = text.lines().filter(|line| !line.contains("success")).map(str::to_owned).collect();
    lines.sort();
    lines
}

proptest! {
    #[test]
    fn series_that_are_bound_count_as_series_that_are_looked_up(
        steps in prop::collection::vec(prop_oneof![
            8 => exchange().prop_map(Ok),
            1 => any::<bool>().prop_map(Err),
        ], 0..40),
    ) {
        let (quick, slow) = (Metrics::default(), Metrics::default());
        for step in &steps {
            for metrics in [&quick, &slow] {
                match step {
                    Ok(settled) => metrics.settle(settled),
                    Err(something_left) => metrics.reloaded(1, *something_left),
                }
            }
            slow.exchanges.bound.clear();
        }
        prop_assert_eq!(lines(&quick), lines(&slow));
    }
}
