use proptest::prelude::*;

use super::*;
use crate::import::Grade;

fn import(config: &str, keys: &[&str]) -> Result<Imported, Problem> {
    let given = |name: &str, text: &str| Given { name: name.to_owned(), text: text.to_owned() };
    LiteLlm.import(&Inputs {
        config: given("config.yaml", config),
        keys: keys.iter().map(|text| given("keys.json", text)).collect(),
        spent_at: None,
        loosened: Vec::new(),
        include: &|_, _| Err("there is none".to_owned()),
        variable: &|_| None,
    })
}

/// A file with something of everything, whose parts are replaced one by one.
const WHOLE: &str = r#"
model_list:
  - model_name: a
    litellm_params: { model: openai/gpt-4o, api_key: os.environ/KEY, weight: 2, rpm: 5, timeout: 3 }
    model_info: { mode: chat, access_groups: [g], input_cost_per_token: 1.0e-6 }
  - model_name: a
    litellm_params: { model: azure/x, api_base: "https://x.openai.azure.com", api_version: v1, order: 1 }
  - model_name: "b/*"
    litellm_params: { model: "anthropic/*", extra_headers: { x-a: b }, max_tokens: 7 }
  - model_name: c
    litellm_params: { model: bedrock/converse/anthropic.claude, aws_region_name: us-east-1, litellm_credential_name: n }
credential_list: [{ credential_name: n, credential_values: { api_key: k } }]
environment_variables: { A: b }
litellm_settings: { fallbacks: [{ a: [c] }, { c: [a] }], drop_params: true, max_budget: 5 }
router_settings: { routing_strategy: least-busy, model_group_alias: { d: a }, redis_host: h, redis_port: 1 }
general_settings: { allowed_ips: [192.0.2.1], master_key: k }
guardrails: [{ litellm_params: { default_on: true } }]
"#;

const KEYS: &str = r#"[
{"token": "0000000000000000000000000000000000000000000000000000000000000001", "key_alias": "a", "models": ["a", "g", "b/x"],
 "team_id": "t", "max_budget": 3.5, "budget_duration": "1d", "rpm_limit": 5, "expires": "2030-01-01T00:00:00Z",
 "metadata": {"model_rpm_limit": {"a": 3}, "tags": ["x"]}, "model_max_budget": {"a": {"budget_limit": 2, "time_period": "30d"}},
 "budget_limits": [{"max_budget": 2, "budget_duration": "1d"}], "allowed_routes": ["llm_api_routes"], "blocked": false},
{"token": "0000000000000000000000000000000000000000000000000000000000000002", "user_id": "u", "models": []},
{"team_id": "t", "team_alias": "T", "models": ["a"], "rpm_limit": 9}, {"user_id": "u", "max_budget": 1, "budget_duration": "30d"}]"#;

/// Words that stand where others are expected.
const ODD: [&str; 24] = [
    "null",
    "~",
    "\"\"",
    "[]",
    "{}",
    "-1",
    "0",
    "1e400",
    "99999999999999999999999999999999999999999",
    "true",
    "[[[]]]",
    "{a: {b: c}}",
    "\"\\u0000\"",
    "\"a\\nb: c\"",
    "\"\\u2028#\"",
    "\"*\"",
    "\"../../x\"",
    "\"os.environ/\"",
    "\"os.environ/A B\"",
    "é",
    ".inf",
    "\"sk-0123456789abcdef\"",
    "[1, a, null]",
    "\"http://[::1\"",
];

/// Replaces the nth value of a flow text by another one.
fn replaced(text: &str, at: usize, with: &str) -> String {
    let starts: Vec<usize> = text.match_indices([':', '[', ',']).map(|(at, _)| at + 1).collect();
    let start = starts[at % starts.len()];
    let rest = &text[start..];
    let end = rest.find([',', ']', '}', '\n']).unwrap_or(rest.len());
    format!("{} {with}{}", &text[..start], &rest[end..])
}

#[test]
fn the_whole_example_is_fine() {
    let imported = import(WHOLE, &[KEYS]).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(imported.check.errors, []);
    assert_eq!(imported.keys.0, 2);
    assert!(imported.findings.iter().any(|finding| finding.grade == Grade::Exact));
}

#[test]
fn what_bounds_all_keys_switches_them_off() {
    for (config, works) in [
        ("model_list: []", 2),
        ("litellm_settings: { max_budget: 5 }", 0),
        ("litellm_settings: { guardrails: [{ pii: { callbacks: [presidio] } }] }", 0),
        ("policies: { p: {} }\npolicy_attachments: [{ policy: p }]", 0),
        ("guardrails: [{ litellm_params: { default_on: true } }]", 0),
        ("guardrails: [{ litellm_params: { default_on: false } }]", 2),
        ("general_settings: { allowed_ips: [not-an-address] }", 0),
    ] {
        let keys = r#"[{"token": "0000000000000000000000000000000000000000000000000000000000000001"},
                       {"token": "0000000000000000000000000000000000000000000000000000000000000002"}]"#;
        let imported = import(config, &[keys]).unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!(imported.keys, (2, works), "{config}");
    }
    // A limit of nothing in a field that is not known forbids everything; a counter at zero
    // nothing.
    for (field, works) in [("new_limit", 0), ("team_member_rpm_limit", 0), ("new_count", 1)] {
        let key = format!("{{\"token\": \"{:064x}\", \"{field}\": 0}}", 1);
        assert_eq!(
            import("model_list: []", &[&key]).unwrap_or_else(|problem| panic!("{problem}")).keys,
            (1, works),
            "{field}"
        );
    }
}

#[test]
fn a_large_file_ends_soon() {
    const MODELS: usize = 2_000;
    let entry = |n: usize| {
        format!("  - {{ model_name: m{}, litellm_params: {{ model: openai/x{n}, api_key: k{n} }} }}\n", n % MODELS)
    };
    let fallback = |n: usize| format!("    - {{ m{n}: [m{}, m{}] }}\n", (n + 1) % MODELS, (n + 7) % MODELS);
    let entries: String = (0..2 * MODELS).map(entry).collect();
    let fallbacks: String = (0..MODELS).map(fallback).collect();
    let config = format!("model_list:\n{entries}router_settings:\n  fallbacks:\n{fallbacks}");
    let row = |n: usize| {
        format!(
            "{{\"token\": \"{n:064x}\", \"key_alias\": \"same\", \"team_id\": \"t{}\", \"models\": [\"m1\"], \
             \"max_budget\": 1, \"budget_duration\": \"1d\"}}",
            n % 2_000
        )
    };
    let rows: Vec<String> = (0..4_000).map(row).collect();
    let start = std::time::Instant::now();
    let imported = import(&config, &[&rows.join("\n")]).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(imported.keys.0, 4_000);
    println!("{:?}", start.elapsed());
    assert!(start.elapsed().as_secs() < 300, "{:?}", start.elapsed());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn broken_files_never_panic_and_never_make_a_broken_catalog(
        changes in prop::collection::vec((any::<usize>(), prop::sample::select(&ODD[..])), 1..4),
        of_keys in prop::collection::vec((any::<usize>(), prop::sample::select(&ODD[..])), 0..3),
        cut in prop::option::of(0.0_f64..1.0),
    ) {
        let mut config = changes.iter().fold(WHOLE.to_owned(), |text, (at, odd)| replaced(&text, *at, odd));
        let keys = of_keys.iter().fold(KEYS.to_owned(), |text, (at, odd)| replaced(&text, *at, odd));
        if let Some(cut) = cut {
            let mut end = (config.len() as f64 * cut) as usize;
            while !config.is_char_boundary(end) { end -= 1; }
            config.truncate(end);
        }
        if let Ok(imported) = import(&config, &[&keys]) {
            prop_assert_eq!(&imported.check.errors, &[], "{}\n{}", config, keys);
            let all = imported.text() + &imported.json().to_string() + &imported.files.iter().map(|(_, text)| text.as_str()).collect::<String>();
            prop_assert!(!all.contains("sk-0123456789abcdef"), "{}", config);
        }
    }

    #[test]
    fn any_text_is_refused_or_read(config in ".{0,200}", keys in ".{0,100}") {
        let _ = import(&config, &[&keys]);
    }
}
