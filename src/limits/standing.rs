//! How a limit stands, for the caller that it limits.

use super::{Bound, Counts, Kind, Level, Measure, Period};
use crate::base::calendar::{DAY, Month, day_of, day_start, format_time};
use serde_json::{Map, Value, json};

/// The time after which a second leaves the last minute.
const MINUTE: u64 = 60_000;

/// Returns each limit of a scope with what is used of it, what is left, and when all of it is free
/// again. Limits on money are among them only if `shows_money`. Returns `None` if none is left.
pub fn standing_json(
    bound: &Bound<'_>,
    counts: &Counts,
    now_ms: u64,
    shows_money: bool,
) -> Option<Value> {
    let each = bound
        .used_amounts(counts)
        .filter(|(kind, ..)| shows_money || !kind.is_money());
    let each = each.map(|(kind, used, limit)| {
        (
            kind.name().to_owned(),
            limit_json(kind, used, limit, counts, now_ms),
        )
    });
    let limits: Map<String, Value> = each.collect();
    let model = match (bound.scope.level, bound.scope.name.split_once(' ')) {
        (Level::KeyModel, Some((_, model))) => Some(model),
        (Level::Caller | Level::Key | Level::KeyModel, _) => None,
    };
    let unpriced = Some(bound.scope.unpriced(now_ms))
        .filter(|n| *n > 0 && shows_money && bound.limits.limits_money());
    let mut fields = Map::from_iter([
        ("level".to_owned(), bound.scope.level.name().into()),
        ("model".to_owned(), model.into()),
    ]);
    fields.extend(unpriced.map(|requests| ("unpriced_requests".to_owned(), requests.into())));
    (!limits.is_empty()).then(|| {
        fields.insert("limits".to_owned(), limits.into());
        fields.into()
    })
}

fn limit_json(kind: Kind, used: u64, limit: u64, counts: &Counts, now_ms: u64) -> Value {
    let amount = |number| kind.amount_text(number);
    let resets = resets_at(kind, counts, now_ms);
    json!({
        "limit": amount(limit),
        "used": amount(used),
        "left": amount(limit.saturating_sub(used)),
        "resets_at": resets.filter(|_| used > 0).map(format_time),
    })
}

/// Returns the time at which all of a limit is free again, if that is known, in milliseconds of
/// Unix time. Of a limit by the minute of which nothing is used, it is not known.
pub fn resets_at(kind: Kind, counts: &Counts, now_ms: u64) -> Option<u64> {
    match kind.period() {
        Period::Minute => end_of_minute(counts, kind.measure()),
        Period::Day => Some(day_start(day_of(now_ms) + 1)),
        Period::Month => Some(day_start(Month::containing(now_ms / DAY).next)),
        Period::Present => None,
    }
}

/// Returns when the newest second that counts leaves the minute: it is the last one to leave.
fn end_of_minute(counts: &Counts, measure: Measure) -> Option<u64> {
    let seconds = counts.minute.iter();
    let counting = seconds.filter(|(_, used)| used.amount(measure) > 0);
    let newest = counting.map(|(second, _)| *second).max();
    newest.map(|second| second.saturating_mul(1_000).saturating_add(MINUTE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::price::Usd;
    use crate::limits::{Ask, Limits, Scope, Used, take_reservation};
    use proptest::prelude::*;
    use std::sync::Arc;

    const NOW: u64 = 1_793_620_800_000; // 2026-11-02T12:00:00Z

    fn limits() -> Limits {
        Limits::default()
            .with(Kind::RequestsPerMinute, Some(3))
            .with(Kind::TokensPerDay, Some(100))
            .with(Kind::Concurrency, Some(2))
            .with(Kind::UsdPerMonth, Some(5_000_000_000))
    }

    #[test]
    fn a_limit_stands_as_it_was_used() {
        let (limits, scope) = (
            limits(),
            Arc::new(Scope::new(Level::KeyModel, "acme/prod gpt-4o".into())),
        );
        let bound = Bound {
            limits: &limits,
            scope: &scope,
        };
        let told = standing_json(&bound, &scope.own_counts(NOW), NOW, true).unwrap();
        assert_eq!(
            (&told["level"], &told["model"]),
            (&json!("key_model"), &json!("gpt-4o"))
        );
        assert_eq!(
            told["limits"]["requests_per_minute"],
            json!({"limit": 3, "used": 0, "left": 3, "resets_at": null})
        );
        let held = take_reservation(
            &[bound].into_iter().collect(),
            Ask::exact(40, Usd(1_500_000_000)),
            NOW,
            1,
        )
        .unwrap();
        let told =
            standing_json(&bound, &scope.own_counts(NOW + 1_500), NOW + 1_500, true).unwrap();
        assert_eq!(
            told["limits"],
            json!({
                "requests_per_minute": {"limit": 3, "used": 1, "left": 2, "resets_at": "2026-11-02T12:01:00.000Z"},
                "tokens_per_day": {"limit": 100, "used": 40, "left": 60, "resets_at": "2026-11-03T00:00:00.000Z"},
                "concurrency": {"limit": 2, "used": 1, "left": 1, "resets_at": null},
                "usd_per_month": {"limit": "5", "used": "1.5", "left": "3.5", "resets_at": "2026-12-01T00:00:00.000Z"},
            })
        );
        let told = standing_json(&bound, &scope.own_counts(NOW), NOW, false).unwrap();
        assert!(
            told["limits"].get("usd_per_month").is_none() && !told.to_string().contains("usd"),
            "{told}"
        );
        held.undo();
        let only = Limits::default().with(Kind::UsdPerDay, Some(1));
        assert_eq!(
            standing_json(
                &Bound {
                    limits: &only,
                    scope: &scope
                },
                &scope.own_counts(NOW),
                NOW,
                false
            ),
            None
        );
    }

    /// The store lists seconds as they were added: a gateway that was away adds its older ones.
    #[test]
    fn the_newest_second_counts_wherever_it_stands() {
        let one = Used {
            requests: 1,
            ..Used::default()
        };
        let counts = Counts {
            minute: vec![(100, one), (41, one)],
            ..Counts::default()
        };
        let resets = resets_at(Kind::RequestsPerMinute, &counts, NOW);
        assert_eq!(resets, Some(160_000));
    }

    proptest! {
        #[test]
        fn when_a_minute_is_over_it_is_free(at in 0_u64..120_000) {
            let (limits, scope) = (limits(), Arc::new(Scope::new(Level::Key, "a/b".into())));
            let bound = Bound { limits: &limits, scope: &scope };
            drop(take_reservation(&[bound].into_iter().collect(), Ask::exact(1, Usd(0)), NOW + at, 1).unwrap());
            let told = standing_json(&bound, &scope.own_counts(NOW + at), NOW + at, true).unwrap();
            let resets = told["limits"]["requests_per_minute"]["resets_at"].as_str().unwrap().to_owned();
            let used = |now| bound.used_amounts(&scope.own_counts(now)).find(|(kind, ..)| *kind == Kind::RequestsPerMinute).unwrap().1;
            let end = (NOW + at) / 1_000 * 1_000 + 60_000;
            prop_assert_eq!(resets, format_time(end));
            prop_assert_eq!((used(end - 1), used(end)), (1, 0));
        }
    }
}
