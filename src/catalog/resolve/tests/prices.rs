//! What targets cost.

use super::*;
use crate::price::{Long, Origin, Price, Usd};

/// Accounts of many kinds, and the model `m` with these fields, in line 14.
fn catalog(fields: &str) -> String {
    format!(
        "accounts:\n  openai: {{dialect: openai, key: {{env: KEY}}}}\n  \
         europe: {{dialect: openai, base_url: https://eu.api.openai.com/v1, key: {{env: KEY}}}}\n  \
         groq: {{dialect: openai, preset: groq, key: {{env: KEY}}}}\n  \
         local: {{dialect: openai, preset: vllm}}\n  \
         azure: {{dialect: azure, base_url: https://x.openai.azure.com, key: {{env: KEY}}}}\n  \
         claude: {{dialect: anthropic, key: {{env: KEY}}}}\n  \
         gemini: {{dialect: gemini, key: {{env: KEY}}}}\n  \
         bedrock: {{dialect: bedrock, region: eu-west-1, key: {{env: KEY}}}}\n  \
         vertex: {{dialect: vertex, project: p, key: {{env: KEY}}}}\n  \
         belgium: {{dialect: vertex, project: p, location: europe-west1, key: {{env: KEY}}}}\n  \
         demo: {{dialect: demo}}\n\
         callers: {{}}\nmodels: {{m: {{{fields}}}}}\n"
    )
}

/// The price of the only target of the model `m` with these fields.
#[track_caller]
fn price(fields: &str) -> Option<(Price, Origin)> {
    let catalog = read_one(&catalog(fields));
    let target = &catalog.model("m").unwrap().targets[0];
    assert_eq!(target.price.is_some(), target.price_from.is_some());
    target.price.zip(target.price_from)
}

#[track_caller]
fn check(fields: &str, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|expected| format!("catalog.yaml:14 models.m.{expected}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check_all(&[&catalog(fields)], &expected);
}

#[test]
fn a_price_is_read_exactly_and_fills_itself_in() {
    let least = Price {
        input: 150_000,
        output: 600_000,
        cached_input: 150_000,
        cache_write: 150_000,
        thinking: 600_000,
        per_request: Usd::ZERO,
        long: None,
    };
    let local = |price: &str| format!("targets: [{{account: local}}], price: {{{price}}}");
    assert_eq!(price(&local("input: 0.15, output: 0.60")), Some((least, Origin::Model)));
    let all = "input: 0.15, output: 0.6, cached_input: 0.075, cache_write: 0.1875, thinking: 0.000001, per_request: 0.001";
    let whole = Price { cached_input: 75_000, cache_write: 187_500, thinking: 1, per_request: Usd(1_000_000), ..least };
    assert_eq!(price(&local(all)), Some((whole, Origin::Model)));
    let long = Long { above: 200_000, input: 300_000, output: 900_000, cached_input: 300_000, cache_write: 300_000, thinking: 900_000 };
    let written = format!("{all}, long: {{above: 200000, input: 0.3, output: 0.9}}");
    assert_eq!(price(&local(&written)), Some((Price { long: Some(long), ..whole }, Origin::Model)));
    let free = Price { input: 0, output: 0, ..Price::FREE };
    assert_eq!(price(&local("input: 0, output: 0")), Some((free, Origin::Model)));
}

#[test]
fn the_nearest_price_counts_and_it_is_a_whole_one() {
    let both = "targets: [{account: local, price: {input: 1, output: 2}}], price: {input: 3, output: 4, per_request: 5}";
    let (told, from) = price(both).unwrap();
    assert_eq!((told.input, told.output, told.per_request, from), (1_000_000, 2_000_000, Usd::ZERO, Origin::Target));
    let (told, from) = price("targets: [{account: openai, model: gpt-4o-mini}], price: {input: 3, output: 4}").unwrap();
    assert_eq!((told.input, from), (3_000_000, Origin::Model));
}

#[test]
fn well_known_models_have_a_price_where_their_provider_serves_them() {
    for (account, model, input) in [
        ("openai", "gpt-4o-mini", 150_000),
        ("groq", "openai/gpt-oss-120b", 150_000),
        ("claude", "claude-haiku-4-5-20251001", 1_000_000),
        ("gemini", "gemini-2.5-pro", 1_250_000),
        ("bedrock", "eu.anthropic.claude-haiku-4-5-20251001-v1:0", 1_100_000),
        ("vertex", "gemini-2.5-pro", 1_250_000),
    ] {
        let found = price(&format!("targets: [{{account: {account}, model: \"{model}\"}}]"));
        assert_eq!(found.map(|(price, from)| (price.input, from)), Some((input, Origin::List)), "{account} {model}");
    }
    assert_eq!(price("targets: [{account: demo}]"), Some((Price::FREE, Origin::Demo)));
    for (account, model) in [
        ("openai", "gpt-4o-mini-tuned"),
        ("europe", "gpt-4o-mini"),
        ("local", "gpt-4o-mini"),
        ("azure", "gpt-4o-mini"),
        ("groq", "gpt-4o-mini"),
        ("belgium", "gemini-2.5-pro"),
        ("bedrock", "claude-haiku-4-5"),
    ] {
        assert_eq!(price(&format!("targets: [{{account: {account}, model: \"{model}\"}}]")), None, "{account} {model}");
    }
}

#[test]
fn all_that_is_wrong_with_a_price_is_said() {
    check("targets: [{account: local}], price: {}", &["price.input: is missing", "price.output: is missing"]);
    check("targets: [{account: local}], price: {input: 1}", &["price.output: is missing"]);
    check(
        "targets: [{account: local, price: {output: 1}}], price: {input: 1}",
        &["price.output: is missing", "targets[0].price.input: is missing"],
    );
    check(
        "targets: [{account: local}], price: {input: -1, output: 0.0000001}",
        &["price.input: must be a number from 0 on", "price.output: must have at most six decimals"],
    );
    check("targets: [{account: local}], price: {input: 1, output: 1, per_token: 1}", &["price.per_token: unknown field"]);
    check(
        "targets: [{account: local}], price: {input: 1, output: 1, long: {above: 0, output: 1}}",
        &["price.long.above: must be at least 1", "price.long.input: is missing"],
    );
    check("targets: [{account: local}], price: {input: 1, output: 1, long: {input: 1, output: 1}}", &["price.long.above: is missing"]);
}
