//! What the report has about each place, and what becomes of values that cannot be used.

use super::*;

/// A file with one model, and these settings.
fn import_settings(settings: &str, keys: &[&str]) -> Imported {
    let config = config(&["m"]) + settings;
    let imported = import(&config, keys).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(imported.check.errors, [], "{settings}");
    imported
}

/// Returns the grade and the message of each finding about a path.
fn findings_at(imported: &Imported, path: &str) -> Vec<(Grade, String)> {
    let findings = imported.findings.iter();
    let here = findings.filter(|finding| finding.path == path);
    here.map(|finding| (finding.grade, finding.message.clone()))
        .collect()
}

/// Imports entries of one model, each with these parameters.
fn import_targets(params: &[&str]) -> Imported {
    let entry =
        |params: &&str| format!("  - {{ model_name: m, litellm_params: {{ {params} }} }}\n");
    let entries: String = params.iter().map(entry).collect();
    let config = format!("model_list:\n{entries}");
    let imported = import(&config, &[]).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(imported.check.errors, [], "{config}");
    imported
}

/// Imports a file where these environment variables are set.
fn import_where(variables: &[(&str, &str)], config: &str) -> Imported {
    let inputs = Inputs {
        config: Given {
            name: "config.yaml".to_owned(),
            text: config.to_owned(),
        },
        keys: Vec::new(),
        spent_at: None,
        loosened: Vec::new(),
        include: &|_, _| Err("there is none".to_owned()),
        variable: &|name| {
            let known = variables.iter().find(|(known, _)| *known == name);
            known.map(|(_, value)| (*value).to_owned())
        },
    };
    let imported = LiteLlm.import(&inputs);
    imported.unwrap_or_else(|problem| panic!("{problem}"))
}

fn catalog_of(imported: &Imported) -> &str {
    let (_, catalog) = imported.files.first().unwrap();
    catalog
}

#[test]
fn addresses_that_are_no_list_switch_keys_off() {
    const PATH: &str = "general_settings.allowed_ips";
    for value in [
        "10.0.0.1",
        "os.environ/X",
        "'10.0.0.1,10.0.0.2'",
        "{ a: 10.0.0.1 }",
        "[]",
        "''",
        "[10.0.0.1, wrong]",
        "[10.0.0.1, [10.0.0.2]]",
        "[10.0.0.1, null]",
    ] {
        let settings = format!("general_settings: {{ allowed_ips: {value} }}");
        let imported = import_settings(&settings, &[&key(r#""models": []"#)]);
        assert_eq!(imported.keys, (1, 0), "{value}");
        assert!(!imported.is_whole(), "{value}");
        let stopped: Vec<_> = imported
            .stopped
            .iter()
            .map(|stop| (&*stop.bound.field, stop.bound.word))
            .collect();
        assert_eq!(stopped, [(PATH, None)], "{value}");
        let grades: Vec<Grade> = findings_at(&imported, PATH)
            .iter()
            .map(|(grade, _)| *grade)
            .collect();
        assert_eq!(grades, [Grade::Manual], "{value}");
        let (_, keys) = imported.files.last().unwrap();
        let disabled = format!("enabled: false # {PATH}");
        assert!(
            keys.contains(&disabled) && !keys.contains("allow_ips"),
            "{value}: {keys}"
        );
    }
    let settings = "general_settings: { allowed_ips: [10.0.0.1, '::1'] }";
    let imported = import_settings(settings, &[&key(r#""models": []"#)]);
    let (_, keys) = imported.files.last().unwrap();
    assert!(
        keys.contains("allow_ips: [\"10.0.0.1\", \"::1\"]"),
        "{keys}"
    );
}

#[test]
fn a_secret_as_the_whole_path_is_hidden() {
    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    for model in [
        "openai/x",
        "anthropic/x",
        "gemini/x",
        "cohere_chat/x",
        "azure/x",
    ] {
        for end in ["", "/"] {
            let base = format!("model: {model}, api_base: 'https://host.example/{SECRET}{end}'");
            let imported = import_targets(&[&base]);
            let grades: Vec<Grade> =
                findings_at(&imported, "model_list[0].litellm_params.api_base")
                    .iter()
                    .map(|(grade, _)| *grade)
                    .collect();
            assert_eq!(grades, [Grade::Manual], "{model}{end}");
            let all = imported.text() + catalog_of(&imported);
            assert!(!all.contains("EXAMPLEKEY"), "{model}{end}: {all}");
        }
    }
}

#[test]
fn the_time_that_is_not_used_is_named() {
    const USED: &str = "is written at each account without a time of its own";
    const UNUSED: &str =
        "is not used, as `litellm_settings.request_timeout` goes before it in LiteLLM";
    let router = "router_settings: { timeout: 5, stream_timeout: 3 }";
    let both = format!("{router}\nlitellm_settings: {{ request_timeout: 7 }}");
    for (settings, path, expected) in [
        (router, "router_settings.timeout", USED),
        (router, "router_settings.stream_timeout", USED),
        (&both, "router_settings.timeout", UNUSED),
        (&both, "router_settings.stream_timeout", USED),
        (&both, "litellm_settings.request_timeout", USED),
    ] {
        let imported = import_settings(settings, &[]);
        let of_setting = findings_at(&imported, path).pop();
        let expected = Some((Grade::Approximate, expected.to_owned()));
        assert_eq!(of_setting, expected, "{settings}: {path}");
    }
    // One that cannot be read counts as none, and is reported once.
    const NO_TIME: &str = "must be a number of seconds: write `timeouts` by hand";
    let unreadable = format!("{router}\nlitellm_settings: {{ request_timeout: soon }}");
    let imported = import_settings(&unreadable, &[]);
    let found = findings_at(&imported, "litellm_settings.request_timeout");
    assert_eq!(found, [(Grade::Manual, NO_TIME.to_owned())]);
    let of_router = findings_at(&imported, "router_settings.timeout").pop();
    assert_eq!(of_router, Some((Grade::Approximate, USED.to_owned())));
    let catalog = catalog_of(&imported);
    assert!(catalog.contains("total: 5s"), "{catalog}");
}

#[test]
fn keys_that_are_given_are_not_asked_for() {
    let settings = "general_settings: { database_url: os.environ/D }";
    for (keys, begin) in [
        (&[][..], "LiteLLM's database is not read: "),
        (
            &[KEYS],
            "the keys of LiteLLM's database are given with --keys; ",
        ),
    ] {
        let imported = import_settings(settings, keys);
        let found = findings_at(&imported, "general_settings.database_url");
        let [(Grade::Manual, message)] = &found[..] else {
            panic!("{found:?}");
        };
        assert!(message.starts_with(begin), "{message}");
    }
}

#[test]
fn policies_are_one_bound() {
    let included = "policy_attachments: [{ policy: p }]\npolicies: { q: {} }";
    let keys = key(r#""models": []"#);
    let given = |name: &str, text: &str| Given {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    for (settings, loosened, works) in [
        ("policies: { p: {} }", "", 0),
        ("policy_attachments: [{ policy: p }]", "", 0),
        (
            "policies: { p: {} }\npolicy_attachments: [{ policy: p }]",
            "",
            0,
        ),
        ("policies: { p: {} }\ninclude: [other.yaml]", "", 0),
        ("policies: { p: {} }\ninclude: [other.yaml]", "policies", 1),
        ("policy_attachments: [{ policy: p }]", "policies", 1),
    ] {
        let imported = LiteLlm
            .import(&Inputs {
                config: given("config.yaml", &(config(&["m"]) + settings)),
                keys: vec![given("keys.json", &keys)],
                spent_at: None,
                loosened: vec![loosened.to_owned()],
                include: &|name, _| Ok(given(name, included)),
                variable: &|_| None,
            })
            .unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!(imported.keys, (1, works), "{settings}");
        let stopped = imported.stopped.iter();
        let fields: Vec<&str> = stopped.map(|stop| &*stop.bound.field).collect();
        assert_eq!(fields, ["policies"].repeat(1 - works), "{settings}");
    }
}

#[test]
fn a_share_too_large_leaves_equal_shares() {
    let target = |share: &str| format!("model: openai/gpt-4o, api_key: os.environ/K{share}");
    for share in [
        "rpm: 999999999999999999999999",
        "weight: 1e30",
        "tpm: 99999999999999999999",
    ] {
        let field = share.split(':').next().unwrap();
        let large = target(&format!("1, {share}"));
        let small = target(&format!("2, {field}: 100"));
        let imported = import_targets(&[&large, &small]);
        let catalog = catalog_of(&imported);
        assert!(catalog.contains("strategy: weighted"), "{share}: {catalog}");
        assert!(
            !catalog.contains(", tier:") && !catalog.contains(", weight:"),
            "{share}: {catalog}"
        );
    }
}

/// Writes a target whose key is in this variable, with one field more.
fn target_with(variable: &str, field: &str, value: &str) -> String {
    format!("model: openai/gpt-4o, api_key: os.environ/{variable}, {field}: {value}")
}

#[test]
fn each_weight_says_what_becomes_of_it() {
    const ONE_TARGET: &str = "changes nothing here: the model has one target";
    const ALL_ZERO: &str = "changes nothing: no target of the model has more than 0";
    const NO_NUMBER: &str =
        "must be a number that is not negative: it counts as 0, so write `weight` by hand";
    const TOO_LARGE: &str =
        "a share is too large, so all targets have the same: write `weight` by hand";
    const ROUNDED: &str = "the shares are rounded to whole numbers";
    for (weights, expected) in [
        (&["5"][..], &[(Grade::Approximate, ONE_TARGET)][..]),
        (&["0", "0"], &[(Grade::Approximate, ALL_ZERO); 2]),
        (
            &["abc", "2"],
            &[(Grade::Manual, NO_NUMBER), (Grade::Exact, "")],
        ),
        (&["-1", "abc"], &[(Grade::Manual, NO_NUMBER); 2]),
        (&["1e30", "2"], &[(Grade::Manual, TOO_LARGE); 2]),
        (&["0.3333333", "1"], &[(Grade::Approximate, ROUNDED); 2]),
        (&["0.5", "1"], &[(Grade::Exact, ""); 2]),
    ] {
        let targets = weights.iter().enumerate();
        let targets: Vec<String> = targets
            .map(|(index, weight)| target_with(&format!("K{index}"), "weight", weight))
            .collect();
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        let imported = import_targets(&targets);
        for (index, (grade, message)) in expected.iter().enumerate() {
            let found = findings_at(
                &imported,
                &format!("model_list[{index}].litellm_params.weight"),
            );
            let expected = [(*grade, (*message).to_owned())];
            assert_eq!(found, expected, "{weights:?}");
        }
    }
}

#[test]
fn a_plain_budget_of_a_model_is_for_life() {
    for value in ["0", "5", "true", "\"a\""] {
        let fields = format!("\"models\": [], \"model_max_budget\": {{\"m\": {value}}}");
        let (words, _) = stopped(&config(&["m"]), &[&key(&fields)]);
        assert_eq!(words, ["budgets"], "{value}");
    }
}

#[test]
fn a_lost_budget_keeps_the_limits_beside_it() {
    const BUDGET: &str =
        r#"{"budget_limit": 2, "time_period": "7d", "rpm_limit": 5, "tpm_limit": 0}"#;
    const ZERO: &str = "`tpm_limit` is 0, which forbids every request";
    let fields = format!("\"models\": [], \"model_max_budget\": {{\"m\": {BUDGET}}}");
    let (words, text) = stopped(&config(&["m"]), &[&key(&fields)]);
    assert_eq!(words, [ZERO, "budgets"]);
    let limits = "model_limits: { m: { requests_per_minute: 5 } }";
    assert!(text.contains(limits), "{text}");
    // A caller cannot have them.
    let team = format!("{{\"team_id\": \"t\", {fields}}}");
    let (words, _) = stopped(&config(&["m"]), &[&key(r#""team_id": "t""#), &team]);
    assert_eq!(words, [ZERO, "budgets", "teams"]);
}

#[test]
fn a_limit_of_a_pattern_has_its_own_field() {
    const OF_ENTRY: &str = "default_api_key_tpm_limit";
    let pattern = config(&["openai/*"]);
    let limited = pattern.replace("api_key:", &format!("{OF_ENTRY}: 5, api_key:"));
    for (config, of_key, expected) in [
        (
            &pattern,
            r#""model_tpm_limit": {"openai/*": 5}"#,
            "model_tpm_limit",
        ),
        (
            &pattern,
            r#""rpm_limit_per_model": {"openai/*": 5}"#,
            "rpm_limit_per_model",
        ),
        (
            &pattern,
            r#""model_max_budget": {"openai/*": {"rpm_limit": 5}}"#,
            "model_max_budget",
        ),
        (&limited, r#""models": []"#, OF_ENTRY),
    ] {
        let imported = import(config, &[&key(of_key)]).unwrap();
        let stopped = imported.stopped.iter();
        let fields: Vec<&str> = stopped.map(|stop| &*stop.bound.field).collect();
        assert_eq!(fields, [expected], "{of_key}");
    }
}

#[test]
fn an_unreadable_drop_params_leaves_the_other() {
    for (settings, is_refused) in [
        ("litellm_settings: { drop_params: false }", true),
        ("litellm_settings: { drop_params: true }", false),
        (
            "litellm_settings: { drop_params: false }\nrouter_settings: { drop_params: perhaps }",
            true,
        ),
    ] {
        let imported = import_settings(settings, &[]);
        let catalog = catalog_of(&imported);
        assert_eq!(
            catalog.contains("on_loss: refuse"),
            is_refused,
            "{settings}: {catalog}"
        );
    }
}

#[test]
fn of_different_defaults_the_first_counts() {
    const OTHER: &str = "another entry of this model has another value, which counts";
    for (field, first, second, written) in [
        ("drop_params", "false", "true", "on_loss: refuse"),
        ("drop_params", "true", "false", "on_loss: drop"),
        ("max_tokens", "5", "6", "defaults: { max_tokens: 5 }"),
    ] {
        let targets = [("A", first), ("B", second), ("C", first)]
            .map(|(variable, value)| target_with(variable, field, value));
        let imported = import_targets(&targets.each_ref().map(String::as_str));
        let catalog = catalog_of(&imported);
        assert!(catalog.contains(written), "{field}: {catalog}");
        let grades = [0, 1, 2].map(|index| {
            findings_at(
                &imported,
                &format!("model_list[{index}].litellm_params.{field}"),
            )
        });
        let exact = vec![(Grade::Exact, String::new())];
        let other = vec![(Grade::Approximate, OTHER.to_owned())];
        assert_eq!(grades, [exact.clone(), other, exact], "{field}: {first}");
    }
}

#[test]
fn fields_of_an_entry_without_a_name_are_reported() {
    for entry in [
        "litellm_params: { model: openai/x }, model_info: { mode: chat, id: a }",
        "model_name: m, model_info: { mode: chat, id: a }",
    ] {
        let config = format!("model_list: [{{ {entry} }}]");
        let imported = import(&config, &[]).unwrap_or_else(|problem| panic!("{problem}"));
        for field in ["mode", "id"] {
            let found = findings_at(&imported, &format!("model_list[0].model_info.{field}"));
            let expected = (Grade::Unsupported, "is left out with its entry".to_owned());
            assert_eq!(found, [expected], "{entry}");
        }
    }
}

#[test]
fn a_second_address_is_information() {
    let imported = import_targets(&[
        "model: openai/gpt-4o, api_key: os.environ/K, base_url: 'https://b.example/v1', api_base: 'https://a.example/v1'",
    ]);
    let catalog = catalog_of(&imported);
    assert!(
        catalog.contains("base_url: \"https://a.example/v1\""),
        "{catalog}"
    );
    let found = findings_at(&imported, "model_list[0].litellm_params.base_url");
    let message = "is not used, as `api_base` goes before it";
    assert_eq!(found, [(Grade::Approximate, message.to_owned())]);
    assert!(imported.is_whole(), "{}", imported.text());
}

#[test]
fn a_header_that_is_written_twice_is_no_secret() {
    const TWICE: &str = "is not used, as the same header is written already";
    let imported = import_targets(&[
        "model: openai/gpt-4o, api_key: os.environ/K, headers: { x-a: b }, extra_headers: { X-A: c }",
    ]);
    let catalog = catalog_of(&imported);
    assert!(catalog.contains("headers: { X-A: c }"), "{catalog}");
    for (path, grade, message) in [
        ("extra_headers.X-A", Grade::Exact, ""),
        ("headers.x-a", Grade::Approximate, TWICE),
    ] {
        let found = findings_at(&imported, &format!("model_list[0].litellm_params.{path}"));
        assert_eq!(found, [(grade, message.to_owned())], "{path}");
    }
}

#[test]
fn empty_parameters_count_as_none() {
    const EMPTY: &str = "is empty, which counts as none";
    let config = "model_list: [{ model_name: m, litellm_params: { model: openai/gpt-4o, api_base: '', api_key: '' } }]";
    let address = ("OPENAI_BASE_URL", "https://a.example/v1");
    for (variables, written) in [
        (&[][..], "preset: openai"),
        (&[address], "base_url: \"https://a.example/v1\""),
    ] {
        let imported = import_where(variables, config);
        let catalog = catalog_of(&imported);
        assert!(catalog.contains(written), "{catalog}");
        assert!(
            catalog.contains("key: { env: OPENAI_API_KEY }"),
            "{catalog}"
        );
        for field in ["api_base", "api_key"] {
            let found = findings_at(&imported, &format!("model_list[0].litellm_params.{field}"));
            assert_eq!(found, [(Grade::Exact, EMPTY.to_owned())], "{field}");
        }
    }
}

#[test]
fn a_lone_key_of_aws_is_reported() {
    const BEARER: &str = "AWS_BEARER_TOKEN_BEDROCK";
    let config = "model_list: [{ model_name: m, litellm_params: { model: bedrock/anthropic.claude-x, \
                  aws_region_name: us-east-1, aws_access_key_id: os.environ/ID } }]";
    for (variables, grade, written) in [
        (&[][..], Grade::Manual, "env: AWS_SECRET_ACCESS_KEY"),
        (
            &[(BEARER, "t")],
            Grade::Approximate,
            "{ env: AWS_BEARER_TOKEN_BEDROCK }",
        ),
    ] {
        let imported = import_where(variables, config);
        let catalog = catalog_of(&imported);
        assert!(catalog.contains(written), "{catalog}");
        let found = findings_at(&imported, "model_list[0].litellm_params.aws_access_key_id");
        let grades: Vec<Grade> = found.iter().map(|(grade, _)| *grade).collect();
        assert_eq!(grades, [grade], "{variables:?}");
    }
}

#[test]
fn a_time_without_a_budget_is_reported() {
    let of_key = key(r#""models": [], "budget_duration": "30d""#);
    let imported = import_settings("", &[&of_key]);
    assert_eq!(imported.keys, (1, 1));
    let message = "bounds nothing in LiteLLM without `max_budget`";
    let found = findings_at(&imported, "budget_duration");
    assert_eq!(found, [(Grade::Approximate, message.to_owned())]);
}

#[test]
fn what_is_carried_is_not_called_left_out() {
    for (metadata, is_rest) in [
        (r#"{"model_rpm_limit": {"m": 3}}"#, false),
        (r#"{"model_rpm_limit": {"m": 3}, "owner": "me"}"#, true),
        (r#"{"tags": ["a"]}"#, false),
    ] {
        let of_key = key(&format!("\"models\": [], \"metadata\": {metadata}"));
        let imported = import_settings("", &[&of_key]);
        let message = "in 1 row: what else is in it is left out";
        let expected = is_rest.then(|| (Grade::Unsupported, message.to_owned()));
        let found = findings_at(&imported, "metadata");
        assert_eq!(found, Vec::from_iter(expected), "{metadata}");
    }
}

#[test]
fn a_credential_without_values_hides_none() {
    let config = "model_list: [{ model_name: m, litellm_params: { model: openai/gpt-4o, litellm_credential_name: n } }]\n\
                  credential_list: [{ credential_name: n, credential_values: { api_key: os.environ/A } }, \
                  { credential_name: n }, { credential_name: n, credential_values: {} }]";
    let (catalog, _) = made(config);
    assert!(catalog.contains("{ env: A }"), "{catalog}");
}

#[test]
fn what_keys_spent_is_taken_from_their_own_caller() {
    let row = |n: usize, team: &str| {
        format!(
            "{{\"token\": \"{n:064x}\", \"team_id\": \"{team}\", \"max_budget\": 9, \"budget_duration\": \"1d\", \"spend\": 1}}"
        )
    };
    let team = |id: &str| {
        format!(
            "{{\"team_id\": \"{id}\", \"max_budget\": 9, \"budget_duration\": \"1d\", \"spend\": 3}}"
        )
    };
    let rows = [team("a"), team("b"), row(1, "a"), row(2, "b"), row(3, "a")].join("\n");
    let given = |name: &str, text: &str| Given {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    let imported = LiteLlm
        .import(&Inputs {
            config: given("config.yaml", &config(&["m"])),
            keys: vec![given("keys.json", &rows)],
            spent_at: Some(1_900_000_000_000),
            loosened: vec!["team-members".to_owned(), "prices".to_owned()],
            include: &|_, _| Err("there is none".to_owned()),
            variable: &|_| None,
        })
        .unwrap_or_else(|problem| panic!("{problem}"));
    let spent: Vec<(&str, bool, u64)> = imported
        .spent
        .iter()
        .map(|spent| (&*spent.caller, spent.key.is_empty(), spent.usd.0))
        .collect();
    const USD: u64 = 1_000_000_000;
    let keys = [("a", false, USD), ("b", false, USD), ("a", false, USD)];
    let callers = [("a", true, USD), ("b", true, 2 * USD)];
    assert_eq!(spent, [&keys[..], &callers[..]].concat());
}
