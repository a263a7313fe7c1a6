//! What targets cost.

use super::*;
use crate::conf::price::{Each, LongPrices, Origin, Price, Rates, Usd};

/// Accounts of many kinds, and the model `m` with these fields, in line 14.
fn catalog(fields: &str) -> String {
    format!(
        "accounts:\n  openai: {{dialect: openai, key: {{env: KEY}}}}\n  europe: {{dialect: openai, base_url: https://eu.api.openai.com/v1, \
         key: {{env: KEY}}}}\n  groq: {{dialect: openai, preset: groq, key: {{env: KEY}}}}\n  local: {{dialect: openai, preset: vllm}}\n  \
         azure: {{dialect: azure, base_url: https://x.openai.azure.com, key: {{env: KEY}}}}\n  claude: {{dialect: anthropic, key: {{env: \
         KEY}}}}\n  gemini: {{dialect: gemini, key: {{env: KEY}}}}\n  bedrock: {{dialect: bedrock, region: eu-west-1, key: {{env: KEY}}}}\n  \
         vertex: {{dialect: vertex, project: p, key: {{env: KEY}}}}\n  belgium: {{dialect: vertex, project: p, location: europe-west1, key: \
         {{env: KEY}}}}\n  demo: {{dialect: demo}}\ncallers: {{}}\nmodels: {{m: {{{fields}}}}}\n"
    )
}

/// The price of the only target of the model `m` with these fields.
#[track_caller]
fn price(fields: &str) -> Option<(Price, Origin)> {
    let catalog = read_one(&catalog(fields));
    let target = catalog.model("m").unwrap().targets[0].clone();
    assert_eq!(target.price.is_some(), target.price_from.is_some());
    target.price.zip(target.price_from)
}

#[track_caller]
fn check(fields: &str, expected: &[&str]) {
    let expected: Vec<String> = expected
        .iter()
        .map(|expected| format!("catalog.yaml:14 models.m.{expected}"))
        .collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check_all(&[&catalog(fields)], &expected);
}

#[test]
fn a_price_is_read_exactly_and_fills_itself_in() {
    let rates = Rates {
        input: 150_000,
        output: 600_000,
        cached_input: 150_000,
        cache_write: 150_000,
        thinking: 600_000,
    };
    let least = Price {
        rates: Some(rates),
        ..Price::default()
    };
    let local = |price: &str| format!("targets: [{{account: local}}], price: {{{price}}}");
    assert_eq!(
        price(&local("input: 0.15, output: 0.60")),
        Some((least, Origin::Model))
    );
    assert_eq!(
        price(&local("input: 15e-02, output: 6.0E-1")),
        Some((least, Origin::Model))
    );
    let all = "input: 0.15, output: 0.6, cached_input: 0.075, cache_write: 0.1875, thinking: 0.000001, per_request: 0.001";
    let rates = Rates {
        cached_input: 75_000,
        cache_write: 187_500,
        thinking: 1,
        ..rates
    };
    let whole = Price {
        rates: Some(rates),
        per_request: Some(Usd(1_000_000)),
        ..Price::default()
    };
    assert_eq!(price(&local(all)), Some((whole, Origin::Model)));
    let rates = Rates {
        input: 300_000,
        output: 900_000,
        cached_input: 300_000,
        cache_write: 300_000,
        thinking: 900_000,
    };
    let long = LongPrices {
        above: 200_000,
        rates,
    };
    let written = format!("{all}, long: {{above: 200000, input: 0.3, output: 0.9}}");
    assert_eq!(
        price(&local(&written)),
        Some((
            Price {
                long: Some(long),
                ..whole
            },
            Origin::Model
        ))
    );
    let free = Price {
        rates: Some(Rates::default()),
        ..Price::default()
    };
    assert_eq!(
        price(&local("input: 0, output: 0")),
        Some((free, Origin::Model))
    );
    let each = |picos: u64| Some(Each(picos));
    let units = Price {
        per_request: Some(Usd(2_000_000)),
        per_image: each(40_000_000_000),
        per_second: each(11_111_111),
        per_character: each(15_000_000),
        ..Price::default()
    };
    let written =
        "per_request: 0.002, per_image: 0.04, per_second: 0.000011111111, per_character: 15e-6";
    assert_eq!(price(&local(written)), Some((units, Origin::Model)));
    let both = format!("input: 0.15, output: 0.6, {written}");
    assert_eq!(
        price(&local(&both)),
        Some((
            Price {
                rates: least.rates,
                ..units
            },
            Origin::Model
        ))
    );
}

#[test]
fn the_nearest_whole_price_counts() {
    let both = "targets: [{account: local, price: {input: 1, output: 2}}], price: {input: 3, output: 4, per_request: 5}";
    let (told, from) = price(both).unwrap();
    assert_eq!(
        (
            told.rates.unwrap().input,
            told.rates.unwrap().output,
            told.per_request,
            from
        ),
        (1_000_000, 2_000_000, None, Origin::Target)
    );
    let (told, from) =
        price("targets: [{account: openai, model: gpt-4o-mini}], price: {input: 3, output: 4}")
            .unwrap();
    assert_eq!(
        (told.rates.unwrap().input, from),
        (3_000_000, Origin::Model)
    );
}

#[test]
fn known_models_have_their_providers_price() {
    for (account, model, input) in [
        ("openai", "gpt-4o-mini", 150_000),
        ("groq", "openai/gpt-oss-120b", 150_000),
        ("claude", "claude-haiku-4-5-20251001", 1_000_000),
        ("gemini", "gemini-2.5-pro", 1_250_000),
        (
            "bedrock",
            "eu.anthropic.claude-haiku-4-5-20251001-v1:0",
            1_100_000,
        ),
        ("vertex", "gemini-2.5-pro", 1_250_000),
    ] {
        let found = price(&format!(
            "targets: [{{account: {account}, model: \"{model}\"}}]"
        ));
        assert_eq!(
            found.map(|(price, from)| (price.rates.unwrap().input, from)),
            Some((input, Origin::List)),
            "{account} {model}"
        );
    }
    assert_eq!(
        price("targets: [{account: demo}]"),
        Some((Price::FREE, Origin::Demo))
    );
    for (account, model) in [
        ("openai", "gpt-4o-mini-tuned"),
        ("europe", "gpt-4o-mini"),
        ("local", "gpt-4o-mini"),
        ("azure", "gpt-4o-mini"),
        ("groq", "gpt-4o-mini"),
        ("belgium", "gemini-2.5-pro"),
        ("bedrock", "claude-haiku-4-5"),
    ] {
        assert_eq!(
            price(&format!(
                "targets: [{{account: {account}, model: \"{model}\"}}]"
            )),
            None,
            "{account} {model}"
        );
    }
}

#[test]
fn all_that_is_wrong_with_a_price_is_said() {
    check(
        "targets: [{account: local}], price: {}",
        &["price.input: is missing", "price.output: is missing"],
    );
    check(
        "targets: [{account: local}], price: {input: 1}",
        &["price.output: is missing"],
    );
    check(
        "targets: [{account: local}], price: {per_image: 1, thinking: 1}",
        &["price.input: is missing", "price.output: is missing"],
    );
    check(
        "targets: [{account: local}], price: {per_request: 1, per_second: 1e-13, per_character: -1, per_image: 1000001}",
        &[
            "price.per_second: must have at most twelve decimals",
            "price.per_character: must be a number that is 0 or more",
            "price.per_image: must be at most 1000000",
        ],
    );
    check(
        "targets: [{account: local, price: {output: 1}}], price: {input: 1}",
        &[
            "price.output: is missing",
            "targets[0].price.input: is missing",
        ],
    );
    check(
        "targets: [{account: local}], price: {input: -1, output: 0.0000001}",
        &[
            "price.input: must be a number that is 0 or more",
            "price.output: must have at most six decimals",
        ],
    );
    check(
        "targets: [{account: local}], price: {input: 1, output: 1, per_token: 1}",
        &["price.…: unknown field"],
    );
    check(
        "targets: [{account: local}], price: {input: 1, output: 1, long: {above: 0, output: 1}}",
        &[
            "price.long.above: must be at least 1",
            "price.long.input: is missing",
        ],
    );
    check(
        "targets: [{account: local}], price: {input: 1, output: 1, long: {input: 1, output: 1}}",
        &["price.long.above: is missing"],
    );
}

/// A catalog with these callers, beginning in line 12: `dear` has a price; `local`, `odd` and those
/// that fall back on them have none.
fn callers(callers: &str) -> String {
    format!(
        "accounts:\n  a: {{dialect: demo}}\n  b: {{dialect: openai, preset: vllm}}\n  off: {{dialect: openai, preset: vllm, enabled: false}}\n\
         models:\n  dear: {{targets: [{{account: b}}, {{account: off, price: {{input: 1, output: 1}}}}], price: {{input: 1, output: 2}}}}\n  \
         local: {{targets: [{{account: a}}, {{account: b, model: llama}}]}}\n  odd: {{targets: [{{account: b}}]}}\n  \
         free: {{targets: [{{account: a}}], fallbacks_on: {{context: [odd]}}}}\n  unserved: {{targets: [{{account: off}}]}}\ncallers:\n{callers}\n"
    )
}

fn told(callers_yaml: &str) -> Vec<String> {
    match read_all(&[&callers(callers_yaml)]) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn money_has_no_limit_where_spending_is_unknown() {
    let key = |more: &str| format!("{{hash: \"{A}\"{more}}}");
    let other = format!("{{hash: \"{B}\"}}");
    let local = "model \"local\" at account \"b\"";
    let odd = "model \"odd\" at account \"b\"";
    let write = "write a line such as `price: { input: 0.50, output: 1.50 }` into the model, or into its target beside `account`: \
                 US dollars per million tokens, `0` if they are free. `portcullis prices` lists those that are known";
    let cannot = |at: &str, what: &str| {
        format!(
            "catalog.yaml:{at}: this limit of money cannot be kept, because the price is unknown for: {what}. Until it is known, the \
             catalog is refused; {write}"
        )
    };

    // A caller's keys together, a key, and a key's model with what it falls back on.
    let caller = |models: &str, limits: &str| {
        format!(
            "  acme: {{models: [{models}], limits: {{{limits}}}, keys: {{k: {}, l: {other}}}}}",
            key("")
        )
    };
    assert_eq!(
        told(&caller("\"*\"", "usd_per_month: 1")),
        [cannot(
            "12 callers.acme.limits.usd_per_month",
            &format!("{local}, {odd}")
        )]
    );
    assert_eq!(
        told(&caller("odd", "usd_per_month: 1, usd_per_day: 1")),
        [cannot("12 callers.acme.limits.usd_per_day", odd)]
    );
    assert_eq!(
        told(&caller("dear, free, unserved", "usd_per_day: 1")),
        [""; 0]
    );
    // A price that is wrong is one all the same.
    let wrong = callers(&caller("odd", "usd_per_day: 1"))
        .replace("odd: {", "odd: {price: {input: 1e-9, output: 1}, ");
    let problems = read_all(&[&wrong]).err().map(|problems| {
        problems
            .0
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    });
    assert!(
        problems
            .as_ref()
            .is_some_and(|all| all.len() == 1 && all[0].contains("at most six decimals")),
        "{problems:?}"
    );
    assert_eq!(told(&caller("\"*\"", "tokens_per_day: 1")), [""; 0]);

    let of_key = |models: &str, more: &str| {
        format!(
            "  acme: {{models: [{models}], keys: {{k: {}}}}}",
            key(&format!(", {more}"))
        )
    };
    assert_eq!(
        told(&of_key(
            "\"*\"",
            "models: [local], limits: {usd_per_day: 1}"
        )),
        [cannot("12 callers.acme.keys.k.limits.usd_per_day", local)]
    );
    assert_eq!(
        told(&of_key("\"*\"", "models: [dear], limits: {usd_per_day: 1}")),
        [""; 0]
    );
    let of_model = |model: &str| format!("model_limits: {{{model}: {{usd_per_month: 1}}}}");
    assert_eq!(
        told(&of_key("\"*\"", &of_model("free"))),
        [cannot(
            "12 callers.acme.keys.k.model_limits.free.usd_per_month",
            odd
        )]
    );
    assert_eq!(
        told(&of_key("free, local", &of_model("free"))),
        [""; 0],
        "it may not use what it would fall back on"
    );
    assert_eq!(told(&of_key("\"*\"", &of_model("dear"))), [""; 0]);
    assert_eq!(told(&of_key("dear", &of_model("odd"))), [""; 0]);

    // What is switched off spends nothing.
    assert_eq!(
        told(&of_key("odd", "enabled: false, limits: {usd_per_day: 1}")),
        [""; 0]
    );
    assert_eq!(
        told(&caller("odd", "usd_per_day: 1").replace("{models", "{enabled: false, models")),
        [""; 0]
    );
    assert_eq!(
        told("  acme: {limits: {usd_per_day: 1}}"),
        [""; 0],
        "it has no keys"
    );
}

#[test]
fn callers_and_keys_are_told_once_with_few_models() {
    let models: String = (0..9)
        .map(|n| format!("  m{n}: {{targets: [{{account: b}}]}}\n"))
        .collect();
    let keys: String = (0..3)
        .map(|n| format!("      k{n}: {{hash: \"sha256:{n:064}\", limits: {{usd_per_day: 1}}}}\n"))
        .collect();
    let text = format!(
        "accounts: {{b: {{dialect: ollama}}}}\nmodels:\n{models}callers:\n  acme:\n    limits: {{usd_per_month: 5}}\n    keys:\n{keys}"
    );
    let problems = read_all(&[&text]).expect_err("it is refused").0;
    let paths: Vec<_> = problems
        .iter()
        .map(|problem| problem.path.as_str())
        .collect();
    let key = |n: usize| format!("callers.acme.keys.k{n}.limits.usd_per_day");
    assert_eq!(
        paths,
        [
            "callers.acme.limits.usd_per_month",
            &key(0),
            &key(1),
            &key(2)
        ]
    );
    assert!(
        problems.iter().all(|problem| problem
            .message
            .contains("model \"m2\" at account \"b\" and 6 more. Until")),
        "{problems:?}"
    );
}

#[test]
fn unpriced_models_are_warned_of_once() {
    let warned = |accounts: &str, models: &str, acme: &str| {
        let text = format!(
            "accounts: {{{accounts}}}\nmodels:\n  m: {{targets: [{{account: a}}]{models}}}\ncallers:\n  acme: {{{acme}}}\n"
        );
        read_one(&text)
            .warnings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let one = "catalog.yaml:3 models.m: the price is unknown for: model \"m\" at account \"a\". Where no limit is in money, requests are \
               served, and their cost is not counted; write a line such as `price: ";
    let is_warned = |told: Vec<String>| told.len() == 1 && told[0].starts_with(one);
    let local = "a: {dialect: ollama}, d: {dialect: demo}";
    assert_eq!(
        warned(local, "", ""),
        [""; 0],
        "it is one's own, and money is no matter"
    );
    assert_eq!(
        warned("a: {dialect: demo}", "", "expose_cost: true"),
        [""; 0]
    );
    assert!(is_warned(warned(local, "", "expose_cost: true")));
    assert!(is_warned(warned(
        local,
        "}\n  n: {targets: [{account: d}], price: {input: 1, output: 1}",
        ""
    )));
    assert!(is_warned(warned(
        local,
        "}\n  n: {targets: [{account: d}]",
        "keys: {k: {hash: \"sha256:{A}\", models: [n], limits: {usd_per_day: 1}}}"
            .replace("sha256:{A}", A)
            .as_str()
    )));
    assert!(
        is_warned(warned("a: {dialect: openai, key: {env: KEY}}", "", "")),
        "somebody will send a bill"
    );
    assert_eq!(
        warned(
            "a: {dialect: openai, key: {env: KEY}, enabled: false}",
            "}\n  n: {targets: [{account: a}]",
            "expose_cost: true"
        )
        .len(),
        2,
        "neither is served"
    );
    assert_eq!(
        warned(
            "a: {dialect: openai, key: {env: KEY}}",
            ", price: {input: 0, output: 0}",
            "expose_cost: true"
        ),
        [""; 0]
    );
    let many: String = (0..5)
        .map(|n| format!("}}\n  n{n}: {{targets: [{{account: a, model: x}}]"))
        .collect();
    let told = warned(local, &many, "expose_cost: true");
    assert_eq!(told.len(), 1);
    assert!(
        told[0].contains(
            "model \"m\" at account \"a\", model \"n0\" at account \"a\", model \"n1\" at account \"a\" and 3 more. Where no \
             limit is in money, requests are served, and their cost is not counted; write"
        ),
        "{told:?}"
    );
}

#[test]
fn models_are_checked_once_for_equal_permissions() {
    let models: String = (0..50)
        .map(|n| format!("  x{n}: {{targets: [{{account: b}}]}}\n"))
        .collect();
    let key = |n: usize| {
        format!(
            "      k{n}: {{hash: \"sha256:{n:064}\", models: [\"{}*\"], limits: {{usd_per_day: 1}}}}\n",
            ["m", "n"][n % 2]
        )
    };
    let keys: String = (0..1_000).map(key).collect();
    let text = format!(
        "accounts: {{a: {{dialect: demo}}, b: {{dialect: ollama}}}}\nmodels:\n  m: {{targets: [{{account: a}}]}}\n{models}callers:\n  acme:\n    keys:\n{keys}"
    );
    let catalog = read_one(&text);
    assert_eq!(
        (
            catalog.keys().len(),
            permission_count(&catalog),
            catalog.warnings.len()
        ),
        (1_000, 2, 1)
    );
    let models: Models<'_> = catalog
        .models()
        .iter()
        .map(|model| (&*model.id, Some(Arc::clone(model))))
        .collect();
    let (mut unpriced, files) = (Unpriced::new(&models), files(&[&text]));
    let mut look_up = |_: Reference<'_>| unreachable!("it names nothing");
    let report = Report::new(&files, raw::KIND, &mut look_up);
    catalog
        .keys()
        .for_each(|key| unpriced.check_key(key, &Scribe::new(&report, 0)));
    assert_eq!(
        unpriced.allowed.into_values().collect::<Vec<_>>(),
        [[0_usize; 0], []]
    );
}
