//! What says where requests go, when they go elsewhere, and how long that may take.

use super::*;
use crate::catalog::{Hedge, Queue, Timeouts};

/// A catalog with these models, beginning in line 8, beside the accounts `a`, `b` (in all 20 s),
/// `c` and the model `other`, alias `nick`.
fn catalog(models: &str) -> String {
    format!(
        "accounts:\n  a: {{dialect: demo, timeouts: {{first_token: 30s, idle: 7s}}}}\n  b: {{dialect: demo, timeouts: {{total: 20s}}}}\n  c: {{dialect: demo}}\n\
         callers: {{someone: {{}}}}\nmodels:\n  other: {{aliases: [nick], targets: [{{account: a}}]}}\n{models}\n"
    )
}

/// All that is said of the model `m`, with these fields: whole, errors without a mark.
#[track_caller]
fn check(fields: &str, expected: &[&str]) {
    let told: Vec<String> = match read_all(&[&catalog(&format!("  m: {{{fields}}}"))]) {
        Ok(catalog) => catalog
            .warnings
            .iter()
            .map(|warning| format!("warning: {warning}"))
            .collect(),
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    };
    let told: Vec<String> = told
        .iter()
        .map(|told| told.replace("catalog.yaml:8 models.m.", ""))
        .collect();
    assert_eq!(told, expected, "{fields}");
}

/// The same, of a model with three targets.
#[track_caller]
fn check_more(fields: &str, expected: &[&str]) {
    check(
        &format!("targets: [{{account: a}}, {{account: b}}, {{account: c}}], {fields}"),
        expected,
    );
}

/// The model `m` with these fields.
#[track_caller]
fn model(fields: &str) -> Arc<Model> {
    read_one(&catalog(&format!("  m: {{{fields}}}")))
        .model("m")
        .unwrap()
}

const ALL: &str = "targets: [{account: a}, {account: b}, {account: c}]";

#[test]
fn by_default_nobody_sticks_waits_or_asks_twice() {
    let m = model(ALL);
    assert_eq!(
        (m.strategy, m.sticky, m.hedge, m.queue),
        (Strategy::Priority, false, None, None)
    );
    assert!(m.on_context.is_empty() && m.on_refusal.is_empty());
    assert_eq!(
        m.targets
            .iter()
            .map(|target| target.tier)
            .collect::<Vec<_>>(),
        [0, 1, 2]
    );
    assert!(
        m.targets
            .iter()
            .all(|target| target.timeouts == target.account.timeouts && !target.account.probe)
    );
}

#[test]
fn strategies_have_their_names() {
    for (written, strategy) in [
        ("priority", Strategy::Priority),
        ("weighted", Strategy::Weighted),
        ("least_busy", Strategy::LeastBusy),
        ("fastest", Strategy::Fastest),
    ] {
        let m = model(&format!("{ALL}, strategy: {written}, sticky: true"));
        assert_eq!((m.strategy, m.sticky), (strategy, true));
    }
    check_more(
        "sticky: yes",
        &["sticky: must be true or false, not \"yes\""],
    );
}

#[test]
fn tiers_are_of_all_targets_or_of_none() {
    let m = model(
        "targets: [{account: a, tier: 7}, {account: b, tier: 0, weight: 3}, {account: c, tier: 7}]",
    );
    assert_eq!(
        m.targets
            .iter()
            .map(|target| (target.tier, target.weight))
            .collect::<Vec<_>>(),
        [(7, 1), (0, 3), (7, 1)]
    );
    const MISSING: &str = "tier: is missing, but other targets of this model have it: write it at all targets or at none";
    check(
        "targets: [{account: a, tier: 1}, {account: b}, {account: c}]",
        &[&format!("targets[1].{MISSING}")],
    );
    check(
        "targets: [{account: a}, {account: b}, {account: c, tier: 0}]",
        &[&format!("targets[0].{MISSING}")],
    );
    // One that cannot be read is there.
    check(
        "targets: [{account: a, tier: 1}, {account: b, tier: first}]",
        &["targets[1].tier: must be a whole number, 0 or more (column 59)"],
    );
    check(
        "targets: [{account: a, tier: -1}]",
        &["targets[0].tier: must be a whole number, 0 or more (column 36)"],
    );
    for strategy in ["weighted", "least_busy", "fastest"] {
        check(
            &format!(
                "strategy: {strategy}, targets: [{{account: a, tier: 1}}, {{account: b, tier: 2}}]"
            ),
            &[
                "warning: targets[0].tier: is only used by the strategy `priority`, and this model has another strategy: remove the tiers",
            ],
        );
    }
    check(
        "strategy: priority, targets: [{account: a, tier: 1}, {account: b, tier: 2}]",
        &[],
    );
}

#[test]
fn no_model_stands_in_for_one_of_vectors() {
    let what =
        "cannot be written for a model of vectors: those of different models cannot be compared";
    for vectors in [
        "{account: a, model: text-embedding-3-small}",
        "{account: a, traits: {input_type: search_query}}",
    ] {
        check(&format!("targets: [{vectors}]"), &[]);
        check(
            &format!("targets: [{vectors}], fallbacks: [other]"),
            &[&format!("fallbacks: {what}")],
        );
        let on = format!("targets: [{vectors}], fallbacks_on: {{context: [other]}}");
        check(&on, &[&format!("fallbacks_on: {what}")]);
    }
    check(
        "targets: [{account: a, traits: {input_type: search_querry}}]",
        &[
            "targets[0].traits.input_type: no purpose of vectors \"search_querry\"; did you mean \"search_query\"?",
        ],
    );
    let m = model("targets: [{account: a, traits: {input_type: clustering}}]");
    assert_eq!(
        m.targets[0].traits.input_type,
        dialects::neutral::purpose::Purpose::and_word("clustering")
    );
}

#[test]
fn fallbacks_by_cause_are_models() {
    let m = model(&format!(
        "{ALL}, fallbacks_on: {{context: [other], refusal: [other]}}"
    ));
    assert_eq!(
        (&*m.on_context[0], &*m.on_refusal[0], m.fallbacks.len()),
        ("other", "other", 0)
    );
    check_more("fallbacks_on: {}", &[]);
    check_more(
        "fallbacks: [other], fallbacks_on: {context: [], refusal: [other]}",
        &[],
    );
    check_more(
        "fallbacks: [nick], fallbacks_on: {context: [m, other, other], refusal: [nick, ohter, nowhere]}",
        &[
            "fallbacks[0]: \"nick\" is an alias: write \"other\"",
            "fallbacks_on.context[0]: is the model itself",
            "fallbacks_on.context[2]: \"other\" is written twice: keep only one",
            "fallbacks_on.refusal[0]: \"nick\" is an alias: write \"other\"",
            "fallbacks_on.refusal[1]: no model \"ohter\"; did you mean \"other\"?",
            "fallbacks_on.refusal[2]: no such model; allowed: m, other (column 145)",
        ],
    );
    check_more(
        "fallbacks_on: {cotnext: [other]}",
        &["fallbacks_on.cotnext: unknown field; did you mean `context`? Allowed: context, refusal"],
    );
    check_more(
        "fallbacks_on: [other]",
        &["fallbacks_on: must be a map of context, refusal, not a list"],
    );
    check_more(
        "fallbacks_on: {context: other}",
        &["fallbacks_on.context: must be a list, not text"],
    );
    // They are not followed, so two may name each other.
    let both = catalog(
        "  m: {targets: [{account: a}], fallbacks_on: {context: [n]}}\n  n: {targets: [{account: a}], fallbacks: [m], fallbacks_on: {context: [m]}}",
    );
    assert_eq!(read_one(&both).warnings, []);
}

#[test]
fn hedges() {
    for (written, after, at_most) in [
        ("{}", 0.95, 0.05),
        ("{after: p50}", 0.5, 0.05),
        ("{at_most: 100%}", 0.95, 1.0),
        ("{after: p99, at_most: 0.5%}", 0.99, 0.005),
    ] {
        assert_eq!(
            model(&format!("{ALL}, hedge: {written}")).hedge,
            Some(Hedge { after, at_most }),
            "{written}"
        );
    }
    check_more(
        "hedge: {after: p100, at_most: 101%}",
        &[
            "hedge.after: must be a quantile from p50 to p99, such as p95 (column 75)",
            "hedge.at_most: must be at most 100% (column 90)",
        ],
    );
    check_more(
        "hedge: {after: 2s, at_most: 0.0%}",
        &[
            "hedge.after: must be a quantile from p50 to p99, such as p95 (column 75)",
            "hedge.at_most: must be more than 0%; remove `hedge` to make no second attempts",
        ],
    );
    check_more(
        "hedge: {at_most: 5}",
        &["hedge.at_most: must be a share in percent, such as 5% or 0.5% (column 77)"],
    );
    check_more(
        "hedge: {at_most: '5'}",
        &["hedge.at_most: must be a share in percent, such as 5% or 0.5% (column 77)"],
    );
    check_more(
        "hedge: true",
        &["hedge: must be a map of after, at_most, not true or false"],
    );
    const ALONE: &str = "warning: hedge: has no effect: the second attempt needs another account, and this model has only one";
    check("targets: [{account: a}], hedge: {}", &[ALONE]);
    check(
        "targets: [{account: a}, {account: a, model: n}], hedge: {}",
        &[ALONE],
    );
    check(
        "targets: [{account: a}, {account: a, model: n}, {account: b}], hedge: {}",
        &[],
    );
}

#[test]
fn queues() {
    for (written, length, milliseconds) in [
        ("{}", 100, 5_000),
        ("{length: 1}", 1, 5_000),
        ("{wait: 250ms}", 100, 250),
        ("{length: 7, wait: 1m}", 7, 60_000),
    ] {
        let queue = Queue {
            length,
            wait: Duration::from_millis(milliseconds),
        };
        assert_eq!(
            model(&format!("{ALL}, queue: {written}")).queue,
            Some(queue),
            "{written}"
        );
    }
    check_more(
        "queue: {length: 0, wait: 0s}",
        &[
            "queue.length: must be at least 1; remove `queue` to let no request wait",
            "queue.wait: must be more than 0s; remove `queue` to let no request wait",
        ],
    );
    check_more(
        "queue: {length: many, wait: 5}",
        &[
            "queue.length: must be a whole number, 0 or more (column 76)",
            "queue.wait: must be a length of time with its unit (ms, s, m or h), such as 250ms, 30s, 10m or 1h (column 88)",
        ],
    );
    check_more(
        "queue: 100",
        &["queue: must be a map of length, wait, not a number"],
    );
}

#[test]
fn a_models_deadlines_go_before_its_accounts() {
    let seconds = |timeouts: Timeouts| {
        let Timeouts {
            connect,
            first_byte,
            first_token,
            idle,
            total,
            total_stream,
        } = timeouts;
        [
            connect,
            first_byte,
            first_token.unwrap_or_default(),
            idle,
            total,
            total_stream,
        ]
        .map(|span| span.as_secs())
    };
    let of = |timeouts: &str| {
        model(&format!("{ALL}, timeouts: {timeouts}"))
            .targets
            .iter()
            .map(|t| seconds(t.timeouts))
            .collect::<Vec<_>>()
    };
    let (a, b, c) = (
        [5, 120, 30, 7, 600, 3600],
        [5, 120, 0, 60, 20, 20],
        [5, 120, 0, 60, 600, 3600],
    );
    assert_eq!(of("{}"), [a, b, c]);
    assert_eq!(
        of("{connect: 1s, first_byte: 2s, first_token: 3s, idle: 4s, total: 6s}"),
        [[1, 2, 3, 4, 6, 6]; 3]
    );
    assert_eq!(
        of("{idle: 9s}"),
        [
            [5, 120, 30, 9, 600, 3600],
            [5, 120, 0, 9, 20, 20],
            [5, 120, 0, 9, 600, 3600]
        ]
    );
    // An account's first token beyond the model's total: `total` ends it, and that is no mistake of
    // anybody's.
    assert_eq!(
        of("{total: 10s}"),
        [
            [5, 120, 30, 7, 10, 10],
            [5, 120, 0, 60, 10, 10],
            [5, 120, 0, 60, 10, 10]
        ]
    );
    check_more("timeouts: {total: 10s}", &[]);
    // The account itself, and other models on it, know nothing of it.
    let m = model(&format!("{ALL}, timeouts: {{idle: 9s}}"));
    assert_eq!(seconds(m.targets[0].account.timeouts), a);
}

#[test]
fn deadlines_that_never_end_anything() {
    check_more(
        "timeouts: {connect: 0s, first_byte: 0ms, first_token: 0s, idle: 0m, total: 0h, read: 5s}",
        &[
            "timeouts.read: unknown field: write `total: 30s`, with its unit",
            "timeouts.connect: must be more than 0s",
            "timeouts.first_byte: must be more than 0s",
            "timeouts.first_token: must be more than 0s",
            "timeouts.idle: must be more than 0s",
            "timeouts.total: must be more than 0s",
        ],
    );
    check_more(
        "timeouts: {first_token: 31s, total: 30s}",
        &[
            "timeouts.first_token: has no effect, because `total` ends streams after 30s: make it shorter than `total`, or remove it",
        ],
    );
    check_more("timeouts: {first_token: 30s, total: 30s}", &[]);
    check_more(
        "timeouts: {first_token: 31s, total: 0s}",
        &["timeouts.total: must be more than 0s"],
    );
    // Here it ends something at the others.
    check_more(
        "timeouts: {first_token: 21s}",
        &[
            "warning: timeouts.first_token: has no effect at account \"b\", because `total` ends its streams after \
             20s: make it shorter than `total`",
        ],
    );
    for (timeouts, expected) in [
        ("{first_token: 2h}", Some("3600s")),
        ("{first_token: 1h}", None),
        ("{first_token: 2h, total: 3h}", None),
        ("{first_token: 5s, total: 2500ms}", Some("2.5s")),
    ] {
        let told = expected.map(|total| {
            format!(
                ".timeouts.first_token: has no effect, because `total` ends streams after {total}: make it shorter \
                 than `total`, or remove it"
            )
        });
        check_account(
            &format!("{{dialect: openai, base_url: https://a.b, timeouts: {timeouts}}}"),
            &told.iter().map(String::as_str).collect::<Vec<_>>(),
        );
    }
    check_account(
        "{dialect: openai, base_url: https://a.b, timeouts: {first_token: 0s}}",
        &[".timeouts.first_token: must be more than 0s"],
    );
}

#[test]
fn accounts_are_probed_where_that_is_written() {
    let catalog = read_one(
        "accounts:\n  a: {dialect: openai, base_url: https://a.b, probe: true}\n  b: {dialect: openai, base_url: https://a.b, probe: false}\n  c: {dialect: demo, probe: true}\n  \
         d: {dialect: demo, probe: false}\nmodels: {}\ncallers: {x: {}}\n",
    );
    assert_eq!(
        catalog
            .accounts()
            .iter()
            .map(|account| account.probe)
            .collect::<Vec<_>>(),
        [true, false, true, false]
    );
    let told: Vec<String> = catalog.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "catalog.yaml:4 accounts.c.probe: has no effect on a demo account, which calls no server: remove it"
        ]
    );
    check_account(
        "{dialect: openai, base_url: https://a.b, probe: 5s}",
        &[".probe: must be true or false"],
    );
}

/// Each line of the file is told, and nothing twice.
#[test]
fn wrong_routing_is_told_at_once() {
    check_all(
        &[&catalog(
            "  m:\n    targets:\n      - {account: a, tier: 1}\n      - {account: b}\n    strategy: quickest\n    sticky: 1\n    hedge: {at_most: 0%}\n    \
             queue: {length: 0}\n    timeouts:\n      total: 5s\n      first_token: 6s\n    fallbacks_on:\n      context: [larger]\n      refusal:",
        )],
        &[
            "catalog.yaml:11 models.m.targets[1].tier: is missing, but other targets",
            "catalog.yaml:12 models.m.strategy: is not known; allowed: priority, weighted, least_busy, fastest",
            "catalog.yaml:13 models.m.sticky: must be true or false",
            "catalog.yaml:14 models.m.hedge.at_most: must be more than 0%",
            "catalog.yaml:15 models.m.queue.length: must be at least 1",
            "catalog.yaml:18 models.m.timeouts.first_token: has no effect",
            "catalog.yaml:20 models.m.fallbacks_on.context[0]: no such model; allowed: m, other (column 17)",
            "catalog.yaml:21 models.m.fallbacks_on.refusal: has no value",
        ],
    );
}

#[test]
fn conversations_with_nothing_to_choose_from_are_told() {
    let why = "warning: sticky: changes nothing: with the strategy `priority` and one target in each tier, all conversations go to the \
               first target. Give several targets the same `tier`, or write another strategy";
    check(
        "sticky: true, targets: [{account: a}, {account: b}]",
        &[why],
    );
    check("sticky: true, targets: [{account: a}]", &[]);
    check(
        "sticky: true, targets: [{account: a, tier: 1}, {account: b, tier: 1}]",
        &[],
    );
    check(
        "sticky: true, strategy: weighted, targets: [{account: a}, {account: b}]",
        &[],
    );
}
