use proptest::prelude::*;

use super::*;
use crate::Grade;

mod file;
mod report;

fn import(config: &str, keys: &[&str]) -> Result<Imported, Problem> {
    let given = |name: &str, text: &str| Given {
        name: name.to_owned(),
        text: text.to_owned(),
    };
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
    let starts: Vec<usize> = text
        .match_indices([':', '[', ','])
        .map(|(at, _)| at + 1)
        .collect();
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
    assert!(
        imported
            .findings
            .iter()
            .any(|finding| finding.grade == Grade::Exact)
    );
}

#[test]
fn what_bounds_all_keys_switches_them_off() {
    for (config, works) in [
        ("model_list: []", 2),
        ("litellm_settings: { max_budget: 5 }", 0),
        (
            "litellm_settings: { guardrails: [{ pii: { callbacks: [presidio] } }] }",
            0,
        ),
        (
            "policies: { p: {} }\npolicy_attachments: [{ policy: p }]",
            0,
        ),
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
    for (field, works) in [
        ("new_limit", 0),
        ("team_member_rpm_limit", 0),
        ("new_count", 1),
    ] {
        let key = format!("{{\"token\": \"{:064x}\", \"{field}\": 0}}", 1);
        assert_eq!(
            import("model_list: []", &[&key])
                .unwrap_or_else(|problem| panic!("{problem}"))
                .keys,
            (1, works),
            "{field}"
        );
    }
}

/// A configuration with these models, whose prices are known.
fn config(names: &[&str]) -> String {
    let entry = |name: &&str| {
        format!(
            "  - {{ model_name: \"{name}\", litellm_params: {{ model: \"openai/{}\", api_key: os.environ/K, \
             input_cost_per_token: 0, output_cost_per_token: 0 }} }}\n",
            name.rsplit('/').next().unwrap_or(name)
        )
    };
    format!(
        "model_list:\n{}",
        names.iter().map(entry).collect::<String>()
    )
}

/// A row of a key.
fn key(fields: &str) -> String {
    format!("{{\"token\": \"{:064x}\", {fields}}}", 1)
}

/// Returns the names of what switches the keys off, and the file of the keys.
fn stopped(config: &str, rows: &[&str]) -> (Vec<String>, String) {
    let imported =
        import(config, &[&rows.join("\n")]).unwrap_or_else(|problem| panic!("{problem}: {rows:?}"));
    assert_eq!(imported.check.errors, [], "{rows:?}");
    let mut names: Vec<String> = imported
        .stopped
        .iter()
        .map(|stopped| &stopped.bound)
        .map(|bound| bound.word.unwrap_or(&bound.why).to_owned())
        .collect();
    names.sort();
    names.dedup();
    (
        names,
        imported
            .files
            .last()
            .map(|(_, text)| text.clone())
            .unwrap_or_default(),
    )
}

#[test]
fn a_binding_field_of_litellms_key_disables_it() {
    for (field, expected) in [
        (r#""permissions": {"pii": true}"#, Some("guardrails")),
        (
            r#""permissions": {"pii": false, "get_spend_routes": true}"#,
            None,
        ),
        (r#""permissions": {}"#, None),
        (r#""object_permission_id": "o""#, Some("unknown-fields")),
        (
            r#""object_permission_id": "o", "object_permission": {"mcp_servers": ["s"], "blocked_tools": []}"#,
            None,
        ),
        (
            r#""object_permission": {"blocked_tools": ["bash"]}"#,
            Some("unknown-fields"),
        ),
        (
            r#""object_permission": {"models": ["m"]}"#,
            Some("unknown-fields"),
        ),
        (r#""config": {"model_list": []}"#, Some("unknown-fields")),
        (r#""config": {}"#, None),
        (
            r#""router_settings": {"fallbacks": [{"m": ["n"]}]}"#,
            Some("aliases"),
        ),
        (
            r#""router_settings": {"weights": {"m": {"a": 1}}}"#,
            Some("unknown-fields"),
        ),
        (
            r#""router_settings": {"timeout": 5, "num_retries": 2, "fallbacks": []}"#,
            None,
        ),
        // These widen, or count nothing in LiteLLM, too.
        (r#""access_group_ids": ["g"]"#, None),
        (r#""model_rpm_limit": {"*": 5}"#, None),
    ] {
        let (names, _) = stopped(&config(&["m", "n"]), &[&key(field)]);
        assert_eq!(names, Vec::from_iter(expected), "{field}");
    }
    // An empty list means all models, and an empty text is no list.
    assert_eq!(
        stopped(&config(&["m"]), &[&key("\"models\": []")]).0,
        [""; 0]
    );
    assert_eq!(
        stopped(&config(&["m"]), &[&key("\"models\": \"\"")])
            .0
            .len(),
        1
    );
    // Of a pattern the limit counts.
    let of_all = r#""model_rpm_limit": {"openai/*": 5}"#;
    let pattern = "model_list: [{ model_name: \"openai/*\", litellm_params: { model: \"openai/*\", api_key: os.environ/K } }]";
    assert_eq!(stopped(pattern, &[&key(of_all)]).0, ["budgets"]);
}

/// Returns the catalog that is made of a file, and its report.
fn made(config: &str) -> (String, String) {
    let imported = import(config, &[]).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(imported.check.errors, [], "{config}");
    (
        imported
            .files
            .first()
            .map(|(_, text)| text.clone())
            .unwrap_or_default(),
        imported.text(),
    )
}

#[test]
fn a_timeout_bounds_reads_and_ends_no_stream() {
    let with = |times: &str| {
        made(&format!("model_list: [{{ model_name: m, litellm_params: {{ model: openai/gpt-4o, api_key: os.environ/K{times} }} }}]")).0
    };
    for (times, expected) in [
        (
            ", timeout: 60",
            "{ first_byte: 60s, idle: 60s, total: 60s, total_stream: 3600s }",
        ),
        (
            ", timeout: 60, stream_timeout: 5",
            "{ first_byte: 5s, idle: 5s, total: 60s, total_stream: 3600s }",
        ),
        (", stream_timeout: 5", "{ first_byte: 5s, idle: 5s }"),
    ] {
        assert!(
            with(times).contains(&format!("timeouts: {expected}")),
            "{times}: {}",
            with(times)
        );
    }
    assert!(!with("").contains("timeouts:"));
}

#[test]
fn models_may_be_each_others_fallbacks() {
    let fallbacks = "router_settings: { fallbacks: [{ m: [n] }, { n: [m] }] }";
    let (catalog, report) = made(&(config(&["m", "n"]) + fallbacks));
    assert!(
        catalog.contains("fallbacks: [n]") && catalog.contains("fallbacks: [m]"),
        "{catalog}"
    );
    assert!(!report.contains("circle"), "{report}");
}

#[test]
fn a_deployment_has_the_price_of_its_base_model() {
    let azure = |more: &str, info: &str| {
        format!(
            "model_list: [{{ model_name: m, litellm_params: {{ model: azure/{more}, api_base: 'https://acme.openai.azure.com', \
             api_key: os.environ/K, api_version: v1 }}{info} }}]"
        )
    };
    const GPT_4O_MINI: &str = "price: { input: 0.15, output: 0.6, cached_input: 0.075 }";
    for config in [
        azure(
            "our-chat",
            ", model_info: { base_model: azure/gpt-4o-mini }",
        ),
        azure("our-chat", ", model_info: { base_model: gpt-4o-mini }"),
        azure("gpt-4o-mini", ""),
    ] {
        assert!(
            made(&config).0.contains(GPT_4O_MINI),
            "{config}: {}",
            made(&config).0
        );
    }
    let unknown = azure(
        "our-chat",
        ", model_info: { base_model: azure/gpt-nobody-knows }",
    );
    let (catalog, report) = made(&unknown);
    assert!(!catalog.contains("price:"), "{catalog}");
    assert!(
        report.contains("base_model -> models.m: Portcullis' list of prices has no such model"),
        "{report}"
    );
    let vertex = "model_list: [{ model_name: m, litellm_params: { model: vertex_ai/gemini-2.5-pro, vertex_project: p, \
                  vertex_location: europe-west4, vertex_credentials: os.environ/V } }]";
    assert!(
        made(vertex).0.contains("price: { input: 1.25, output: 10"),
        "{}",
        made(vertex).0
    );
}

#[test]
fn the_report_goes_from_tasks_to_exactness() {
    let config = "model_list:\n  - { model_name: a, litellm_params: { model: azure/a, api_base: os.environ/NO_BASE, api_key: os.environ/K } }\n  \
                  - { model_name: b, litellm_params: { model: azure/b, api_key: os.environ/K } }\n  \
                  - { model_name: c, litellm_params: { model: openai/gpt-4o, api_key: os.environ/K } }\n\
                  litellm_settings: { max_budget: 5 }\n";
    let keys = r#"[{"token": "0000000000000000000000000000000000000000000000000000000000000001"}]"#;
    let imported = import(config, &[keys]).unwrap_or_else(|problem| panic!("{problem}"));
    let text = imported.text();
    let steps: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(
        steps,
        [
            "do these 5 things, in this order:",
            "  1. set AZURE_API_BASE and import again, for what is left out without it: config.yaml:3 model_list[1].model_name",
            "  2. set NO_BASE and import again, for what is left out without it: config.yaml:2 model_list[0].litellm_params.api_base",
            "  3. mend what switched keys off, or drop these bounds with `--loosen`: 1 key",
            "  4. give the gateway what `secrets that the gateway needs` lists: 1 secret",
            "  5. read what is left out, which `unsupported` lists: 7 places",
        ],
        "{text}"
    );
    let heads: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with(' ') && line.ends_with(':'))
        .collect();
    assert_eq!(heads.first(), Some(&"do these 5 things, in this order:"));
    assert_eq!(
        (heads.get(1), heads.last()),
        (Some(&"manual:"), Some(&"exact:")),
        "{heads:?}"
    );
}

#[test]
fn a_team_without_memberships_is_named_with_its_file() {
    let team = r#"{"team_id": "red", "models": []}"#;
    let user = r#"{"user_id": "u", "user_role": "internal_user"}"#;
    let rows = [&*key(r#""team_id": "red", "user_id": "u""#), team, user].join("\n");
    let imported = import(&config(&["m"]), &[&rows]).unwrap_or_else(|problem| panic!("{problem}"));
    let reasons: Vec<&str> = imported
        .stopped
        .iter()
        .map(|stopped| &*stopped.bound.why)
        .collect();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    let named = "`team_memberships` is not in the row of its team \"red\" in keys.json";
    assert!(reasons[0].starts_with(named), "{reasons:?}");
}

#[test]
fn an_empty_field_does_not_hide_the_budget() {
    let budget = r#"{"budget_id": "b", "rpm_limit": 7, "max_budget": 3, "budget_duration": "1d",
        "model_max_budget": {"m": {"budget_limit": 2, "time_period": "1d"}}}"#;
    for own in [
        r#""model_max_budget": {}"#,
        r#""model_max_budget": null, "max_budget": null, "rpm_limit": null"#,
    ] {
        let (names, text) = stopped(
            &config(&["m"]),
            &[&key(&format!("\"budget_id\": \"b\", {own}")), budget],
        );
        assert_eq!(names, [""; 0], "{own}");
        for part in [
            "model_limits:",
            "usd_per_day: 2",
            "usd_per_day: 3",
            "requests_per_minute: 7",
        ] {
            assert!(text.contains(part), "{own}: {text}");
        }
    }
    // What the key says itself counts.
    let own = key(
        r#""budget_id": "b", "model_max_budget": {"m": {"budget_limit": 9, "time_period": "1d"}}"#,
    );
    assert!(
        stopped(&config(&["m"]), &[&own, budget])
            .1
            .contains("usd_per_day: 9")
    );
}

#[test]
fn a_user_bounds_the_keys_of_a_team_too() {
    const TEAM: &str = r#"{"team_id": "t", "models": [], "team_memberships": []}"#;
    let of_team = key(r#""team_id": "t", "user_id": "u""#);
    let all_teams = config(&["m"]) + "general_settings: { apply_user_budget_to_team_keys: true }\n";
    for (config, user, expected) in [
        (
            &config(&["m"]),
            r#""models": ["x"], "max_budget": 5, "max_parallel_requests": 2, "model_max_budget": {}"#,
            None,
        ),
        (
            &config(&["m"]),
            r#""models": [], "rpm_limit": 5"#,
            Some("users"),
        ),
        (
            &config(&["m"]),
            r#""models": [], "tpm_limit": 5"#,
            Some("users"),
        ),
        (
            &config(&["m"]),
            r#""models": [], "model_max_budget": {"m": {"budget_limit": 1}}"#,
            Some("users"),
        ),
        (
            &all_teams,
            r#""models": [], "max_budget": 5"#,
            Some("users"),
        ),
        (&all_teams, r#""models": []"#, None),
        (
            &config(&["m"]),
            r#""models": [], "metadata": {"scim_active": false}"#,
            Some("`user.metadata.scim_active` is false"),
        ),
        (
            &config(&["m"]),
            r#""models": [], "metadata": {"scim_active": true}"#,
            None,
        ),
        (
            &config(&["m"]),
            r#""models": [], "rpm_limit": []"#,
            Some("`user.rpm_limit` cannot be read"),
        ),
        (
            &config(&["m"]),
            r#""models": [], "metadata": []"#,
            Some("`user.metadata` cannot be read"),
        ),
    ] {
        let user = format!("{{\"user_id\": \"u\", {user}}}");
        assert_eq!(
            stopped(config, &[&of_team, TEAM, &user]).0,
            Vec::from_iter(expected),
            "{user}"
        );
    }
    // A user that the files do not have may have any of it.
    assert_eq!(stopped(&config(&["m"]), &[&of_team, TEAM]).0, ["users"]);
    assert_eq!(
        stopped(
            &config(&["m"]),
            &[&of_team, TEAM, r#"{"user_id": "v", "models": []}"#]
        )
        .0,
        ["users"]
    );
    assert_eq!(
        stopped(&config(&["m"]), &[&key(r#""team_id": "t""#), TEAM]).0,
        [""; 0]
    );
}

#[test]
fn a_team_members_limits_bound_their_keys() {
    const USER: &str = r#"{"user_id": "u", "models": []}"#;
    const BARE: &str = r#"{"team_id": "t", "models": []}"#;
    let of_team = key(r#""team_id": "t", "user_id": "u""#);
    let listed = |members: &str| {
        format!("{{\"team_id\": \"t\", \"models\": [], \"team_memberships\": [{members}]}}")
    };
    for (member, expected) in [
        (
            r#"{"user_id": "u", "team_id": "t", "spend": 3.0, "budget_id": null, "litellm_budget_table": null}"#,
            None,
        ),
        (
            r#"{"user_id": "u", "team_id": "t", "spend": 3.0, "budget_id": "b"}"#,
            Some("team-members"),
        ),
        (
            r#"{"user_id": "u", "team_id": "t", "litellm_budget_table": {"allowed_models": ["m"]}}"#,
            Some("team-members"),
        ),
        (
            r#"{"user_id": "v", "team_id": "t", "budget_id": "b"}"#,
            None,
        ),
    ] {
        let expected = Vec::from_iter(expected);
        assert_eq!(
            stopped(&config(&["m"]), &[&of_team, USER, &listed(member)]).0,
            expected,
            "{member}"
        );
        // A row of LiteLLM_TeamMembership says the same.
        assert_eq!(
            stopped(&config(&["m"]), &[&of_team, USER, BARE, member]).0,
            expected,
            "{member}"
        );
    }
    assert_eq!(
        stopped(&config(&["m"]), &[&of_team, USER, &listed("")]).0,
        [""; 0]
    );
    assert_eq!(
        stopped(&config(&["m"]), &[&of_team, USER, BARE]).0,
        ["team-members"]
    );
    assert_eq!(
        stopped(&config(&["m"]), &[&key(r#""team_id": "t""#), BARE]).0,
        [""; 0]
    );
}

#[test]
fn a_models_budget_counts_for_names_litellm_knows() {
    for (models, of_key, budget, expected) in [
        (&["openai/gpt-4o"][..], "", "gpt-4o", Some("openai/gpt-4o")),
        (
            &["us.anthropic.claude-x-v1:0"],
            "",
            "claude-x-v1:0",
            Some("us.anthropic.claude-x-v1:0"),
        ),
        (
            &["bedrock/us.anthropic.claude-x"],
            "",
            "anthropic.claude-x",
            Some("bedrock/us.anthropic.claude-x"),
        ),
        (
            &["eu.anthropic.claude-x:0:51k"],
            "",
            "anthropic.claude-x:0",
            Some("eu.anthropic.claude-x:0:51k"),
        ),
        (&["gpt-4o"], "", "gpt-4o", Some("gpt-4o")),
        (&["gpt-4o"], "", "openai/gpt-4o", Some("")),
        (&["gpt-4o", "openai/gpt-4o"], "", "gpt-4o", None),
        (
            &["gpt-4o", "openai/gpt-4o"],
            "\"gpt-4o\"",
            "gpt-4o",
            Some("gpt-4o"),
        ),
        (&["openai/*"], "", "gpt-4o", None),
        (&["openai/*"], "", "openai/gpt-4o", None),
        (&["gpt-4o", "openai/*"], "", "gpt-4o", None),
        (
            &["gpt-4o", "openai/*"],
            "\"gpt-4o\"",
            "gpt-4o",
            Some("gpt-4o"),
        ),
        (&["openai/gpt-*-mini"], "", "gpt-4o", Some("")),
        (&["gpt-4o", "openai/*"], "", "openai/gpt-4.1", None),
        (&["gpt-4o", "anthropic/*"], "", "openai/gpt-4.1", Some("")),
    ] {
        let of_key = format!(
            "\"models\": [{of_key}], \"model_max_budget\": {{\"{budget}\": {{\"budget_limit\": 2, \"time_period\": \"1d\"}}}}"
        );
        let (names, text) = stopped(&config(models), &[&key(&of_key)]);
        match expected {
            None => assert_eq!(names, ["budgets"], "{models:?} {of_key}"),
            Some(model) => {
                assert_eq!(names, [""; 0], "{models:?} {of_key}");
                let limited = text.split("model_limits:").nth(1).unwrap_or_default();
                let is_right = if model.is_empty() {
                    limited.is_empty()
                } else {
                    limited.contains(model)
                };
                assert!(is_right, "{models:?} {of_key}: {text}");
            }
        }
    }
    // The nearest budget counts.
    let two = r#""model_max_budget": {"gpt-4o": {"budget_limit": 2, "time_period": "1d"},
        "openai/gpt-4o": {"budget_limit": 3, "time_period": "1d"}}"#;
    let (names, text) = stopped(&config(&["gpt-4o", "openai/gpt-4o"]), &[&key(two)]);
    assert_eq!(names, [""; 0]);
    assert!(
        text.contains("usd_per_day: 2") && text.contains("usd_per_day: 3"),
        "{text}"
    );
    // A limit of requests counts for its own name alone, and stays if the budget is dropped.
    let (names, text) = stopped(
        &config(&["openai/gpt-4o"]),
        &[&key(r#""metadata": {"model_rpm_limit": {"gpt-4o": 3}}"#)],
    );
    assert_eq!(
        (names, text.contains("model_limits:")),
        (Vec::new(), false),
        "{text}"
    );
}

#[test]
fn rows_of_one_thing_that_differ_are_refused() {
    for (one, other, whose) in [
        (
            &*key(r#""blocked": false"#),
            &*key(r#""blocked": true"#),
            "the key with the hash 00000000…",
        ),
        (
            r#"{"team_id": "t", "models": ["m"]}"#,
            r#"{"team_id": "t", "models": []}"#,
            "team \"t\"",
        ),
        (
            r#"{"user_id": "u", "max_budget": 1}"#,
            r#"{"user_id": "u", "max_budget": 2}"#,
            "user \"u\"",
        ),
        (
            r#"{"budget_id": "b", "max_budget": 1}"#,
            r#"{"budget_id": "b", "max_budget": 2}"#,
            "budget \"b\"",
        ),
        (
            r#"{"user_id": "u", "team_id": "t", "budget_id": null}"#,
            r#"{"user_id": "u", "team_id": "t", "budget_id": "b"}"#,
            "user \"u\" of team \"t\"",
        ),
    ] {
        assert_eq!(
            import("model_list: []", &[one, one])
                .map(|imported| imported.keys.0)
                .ok(),
            Some(usize::from(whose.contains("key")))
        );
        let told = import("model_list: []", &[one, other])
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(
            told.contains(&format!("is {whose}, of which keys.json has another row")),
            "{told}"
        );
    }
}

#[test]
fn foreign_rows_are_refused_and_no_list_skipped() {
    for (row, table) in [
        (
            r#"{"tag_name": "x", "budget_id": "b", "models": []}"#,
            "LiteLLM_TagTable",
        ),
        (
            r#"{"organization_id": "o", "budget_id": "b", "models": [], "teams": [], "users": []}"#,
            "LiteLLM_OrganizationTable",
        ),
        (
            r#"{"user_id": "u", "organization_id": "o", "user_role": "r", "budget_id": "b"}"#,
            "LiteLLM_OrganizationMembership",
        ),
        (
            r#"{"project_id": "p", "team_id": "t", "budget_id": "b", "models": []}"#,
            "LiteLLM_ProjectTable",
        ),
        (
            r#"{"user_id": "u", "alias": null, "allowed_model_region": null, "models": [], "blocked": false}"#,
            "LiteLLM_EndUserTable",
        ),
        (
            r#"{"access_group_name": "g", "budget_id": "b"}"#,
            "LiteLLM_ModelAccessGroupBudgetTable",
        ),
        (
            &*key(r#""deleted_at": "2026-01-01T00:00:00Z""#),
            "deleted keys",
        ),
    ] {
        let told = import("model_list: []", &[row])
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(told.contains(table), "{told}");
    }
    let both = format!(
        "{{\"keys\": [{}], \"teams\": [{{\"team_id\": \"t\", \"blocked\": true}}]}}",
        key(r#""team_id": "t""#)
    );
    assert_eq!(
        import("model_list: []", &[&both])
            .unwrap_or_else(|problem| panic!("{problem}"))
            .keys,
        (1, 0)
    );
}

#[test]
fn other_names_and_unknown_fields_bound_a_key() {
    const NAMES: &str = r#"{"team_id": "t", "models": [], "model_id": 4"#;
    let of_team = key(r#""team_id": "t""#);
    for (rows, expected) in [
        (&[&*key(r#""aliases": {"m": "mini"}"#)][..], Some("aliases")),
        (&[&*key(r#""aliases": {}"#)], None),
        (
            &[&*key(r#""metadata": {"max_iterations": 3}"#)],
            Some("unknown-fields"),
        ),
        (
            &[&*key(r#""metadata": {"password_reset_required": true}"#)],
            Some("unknown-fields"),
        ),
        (
            &[&*key(r#""metadata": {"password_reset_required": false}"#)],
            None,
        ),
        (
            &[&*key(r#""metadata": {"require_trace_id": true}"#)],
            Some("required-fields"),
        ),
        (&[&*key(r#""metadata": {"require_trace_id": false}"#)], None),
        (
            &[&*key(r#""metadata": {"end_user_budget_id": "b"}"#)],
            Some("end-users"),
        ),
        (
            &[&*key(
                r#""router_settings": {"model_group_alias": {"m": "n"}}"#,
            )],
            Some("aliases"),
        ),
        (
            &[&*key(
                r#""router_settings": {"enable_tag_filtering": true}"#,
            )],
            Some("tags"),
        ),
        (
            &[&*key(
                r#""router_settings": {"num_retries": 3, "model_group_alias": {}}"#,
            )],
            None,
        ),
        (
            &[&*key(r#""budget_id": "b", "litellm_budget_table": {}"#)],
            Some("budgets"),
        ),
        (&[&of_team, &format!("{NAMES}}}")], Some("aliases")),
        (
            &[
                &of_team,
                &format!(
                    "{NAMES}, \"litellm_model_table\": {{\"model_aliases\": \"{{}}\", \"id\": 4}}}}"
                ),
            ],
            None,
        ),
        (
            &[
                &of_team,
                &format!(
                    "{NAMES}, \"litellm_model_table\": {{\"model_aliases\": {{\"m\": \"n\"}}}}}}"
                ),
            ],
            Some("aliases"),
        ),
        (
            &[
                &key(r#""budget_id": "b""#),
                r#"{"budget_id": "b", "new_limit": 0}"#,
            ],
            Some("unknown-fields"),
        ),
        (
            &[&key(r#""litellm_budget_table": {"allowed_models": ["m"]}"#)],
            Some("unknown-fields"),
        ),
        (
            &[&key(
                r#""litellm_budget_table": {"soft_budget": 3, "created_by": "u"}"#,
            )],
            None,
        ),
        (
            &[&key(
                r#""model_max_budget": {"m": {"budget_limit": 2, "time_period": "1d", "tokens": 3}}"#,
            )],
            Some("unknown-fields"),
        ),
        (
            &[&key(
                r#""budget_limits": [{"max_budget": 2, "budget_duration": "1d", "tokens": 3}]"#,
            )],
            Some("unknown-fields"),
        ),
        (
            &[&key(
                r#""budget_limits": [{"max_budget": 2, "budget_duration": "1d", "reset_at": "x"}]"#,
            )],
            None,
        ),
    ] {
        assert_eq!(
            stopped(&config(&["m"]), rows).0,
            Vec::from_iter(expected),
            "{rows:?}"
        );
    }
}

#[test]
fn an_owners_budget_row_and_end_bound_its_keys() {
    for field in [
        r#""budget_id": "b""#,
        r#""litellm_budget_table": {"rpm_limit": 1}"#,
        r#""expires": "2020-01-01T00:00:00Z""#,
    ] {
        for owner in [r#""team_id": "t""#, r#""user_id": "u""#] {
            let row = format!("{{{owner}, \"models\": [], {field}}}");
            let (words, _) = stopped(&config(&["m"]), &[&key(owner), &row]);
            assert_eq!(words, ["unknown-fields"], "{row}");
            // One that is empty bounds nothing.
            let name = field.split(':').next().unwrap_or(field);
            let row = format!("{{{owner}, \"models\": [], {name}: null}}");
            let (words, _) = stopped(&config(&["m"]), &[&key(owner), &row]);
            assert_eq!(words, [""; 0], "{row}");
        }
    }
}

#[test]
fn a_user_without_models_gets_none() {
    let of_user = key(r#""user_id": "u""#);
    for (models, expected) in [
        (r#"["no-default-models"]"#, "models: []"),
        (r#"["no-default-models", "m"]"#, "models: []"),
        (r#"["no-default-models", "all-proxy-models"]"#, "models: []"),
        (r#"["all-team-models"]"#, "models: []"),
        (r#"["all-team-models", "m"]"#, "models: [m]"),
        (r#"["all-proxy-models"]"#, ""),
    ] {
        let user = format!("{{\"user_id\": \"u\", \"models\": {models}}}");
        let (_, text) = stopped(&config(&["m"]), &[&of_user, &user]);
        assert_eq!(
            text.contains("models:"),
            !expected.is_empty(),
            "{models}: {text}"
        );
        assert!(text.contains(expected), "{models}: {text}");
    }
    // At a team and a key, this word says what the others say not.
    let team = r#"{"team_id": "t", "models": ["no-default-models", "m"], "team_memberships": []}"#;
    assert!(
        stopped(&config(&["m"]), &[&key(r#""team_id": "t""#), team])
            .1
            .contains("models: [m]")
    );
}

#[test]
fn a_known_field_of_another_type_disables_keys() {
    for (field, value) in [
        ("team_id", r#"["t1"]"#),
        ("user_id", "5"),
        ("organization_id", "0"),
        ("expires", "[]"),
        ("expires", "{}"),
        ("blocked", "{}"),
        ("blocked", "[]"),
        ("rpm_limit", "[]"),
        ("max_budget", "{}"),
        ("models", "{}"),
        ("metadata", "[]"),
        ("model_max_budget", "[]"),
        ("budget_limits", "{}"),
        ("litellm_budget_table", "[]"),
        ("aliases", "[]"),
        ("budget_id", "{}"),
        ("allowed_routes", "{}"),
    ] {
        let (names, text) = stopped(&config(&["m"]), &[&key(&format!("\"{field}\": {value}"))]);
        assert!(
            names.iter().any(|name| name.contains("cannot be read")),
            "{field}: {names:?}"
        );
        assert!(text.contains("enabled: false"), "{field}: {text}");
    }
    // An id may be any text.
    assert_eq!(
        stopped(&config(&["m"]), &[&key(r#""organization_id": "0""#)]).0,
        ["organizations"]
    );
}

#[test]
fn a_large_file_ends_soon() {
    const MODELS: usize = 2_000;
    let entry = |n: usize| {
        format!(
            "  - {{ model_name: m{}, litellm_params: {{ model: openai/x{n}, api_key: k{n} }} }}\n",
            n % MODELS
        )
    };
    let fallback = |n: usize| {
        format!(
            "    - {{ m{n}: [m{}, m{}] }}\n",
            (n + 1) % MODELS,
            (n + 7) % MODELS
        )
    };
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
    let imported =
        import(&config, &[&rows.join("\n")]).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(imported.keys.0, 4_000);
    println!("{:?}", start.elapsed());
    assert!(start.elapsed().as_secs() < 300, "{:?}", start.elapsed());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn broken_files_never_panic_or_break_a_catalog(
        changes in prop::collection::vec((any::<usize>(), prop::sample::select(&ODD[..])), 1..4),
        key_changes in prop::collection::vec((any::<usize>(), prop::sample::select(&ODD[..])), 0..3),
        cut in prop::option::of(0.0_f64..1.0),
    ) {
        let mut config = changes.iter().fold(WHOLE.to_owned(), |text, (at, odd)| replaced(&text, *at, odd));
        let keys = key_changes.iter().fold(KEYS.to_owned(), |text, (at, odd)| replaced(&text, *at, odd));
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
