use super::*;
use crate::limits::Kind;
use crate::limits::Limits;

#[test]
fn limits_are_read_exactly_or_refused() {
    let models = "accounts: { a: { dialect: demo } }\nmodels: { m: { aliases: [n], targets: [ { account: a } ] } }\n";
    let read = |callers: &str| {
        let files = [(
            "catalog.yaml".to_owned(),
            format!("{models}callers:\n  acme:\n    {callers}\n"),
        )];
        resolve_catalog(&files, &mut |_| unreachable!("it names nothing"))
    };
    let hash = format!("hash: sha256:{}", "0".repeat(64));
    let catalog = read(&format!(
        "limits: {{ usd_per_month: 0.000001, usd_per_day: 12.5, concurrency: 3 }}\n    keys: {{ k: {{ {hash}, limits: {{ requests_per_minute: 7 }}, model_limits: {{ m: {{ tokens_per_day: 9 }} }} }} }}"
    ))
    .unwrap();
    let key = catalog.keys().next().unwrap();
    let limits = key.caller.limits;
    assert_eq!(
        [Kind::UsdPerMonth, Kind::UsdPerDay, Kind::Concurrency].map(|kind| limits.allowed(kind)),
        [Some(1_000), Some(12_500_000_000), Some(3)]
    );
    assert_eq!(
        key.limits,
        Limits::default().with(Kind::RequestsPerMinute, Some(7))
    );
    assert_eq!(
        *key.model_limits,
        [(0, Limits::default().with(Kind::TokensPerDay, Some(9)))]
    );
    let wrong = |callers: &str, expected: &str| {
        let problems = read(callers).expect_err("it is refused").to_string();
        assert!(problems.contains(expected), "{problems}");
    };
    wrong("limits: { requests_per_minute: 0 }", "must be at least 1");
    wrong("limits: { usd_per_day: 0 }", "must be more than 0");
    wrong("limits: { usd_per_day: 0.0000001 }", "at most six decimals");
    wrong(
        "limits: { usd_per_day: -1 }",
        "must be a number that is 0 or more",
    );
    wrong(
        "limits: { usd_per_day: .inf }",
        "must be a number that is 0 or more",
    );
    wrong("limits: { usd_per_day: 1e-07 }", "at most six decimals");
    wrong("limits: { usd_per_day: 1e10 }", "at most 1000000000");
    wrong("limits: { usd_per_day: \"1\" }", "must be a number");
    wrong(
        "limits: { usd_per_day: 1000000000.000001 }",
        "must be at most 1000000000",
    );
    wrong(
        &format!("keys: {{ k: {{ {hash}, model_limits: {{ n: {{}} }} }} }}"),
        "is an alias: write \"m\"",
    );
    wrong(
        &format!("keys: {{ k: {{ {hash}, model_limits: {{ o: {{}} }} }} }}"),
        "model_limits.…: no such model; allowed: m (column",
    );
}
