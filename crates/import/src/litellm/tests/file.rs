//! What the configuration file says that bounds keys.

use std::collections::BTreeSet;

use super::*;

const ONE: &str = r#""models": []"#;

/// Returns the names of what switches keys off, with these settings added to a file with one model.
fn with(settings: &str, rows: &[&str]) -> Vec<String> {
    stopped(&(config(&["m"]) + settings), rows).0
}

#[test]
fn a_setting_that_bounds_all_keys_switches_them_off() {
    for (settings, expected) in [
        (
            "general_settings: { allowed_routes: [/chat/completions] }",
            Some("routes"),
        ),
        (
            "general_settings: { admin_only_routes: [/key/generate, /embeddings] }",
            Some("routes"),
        ),
        (
            "general_settings: { admin_only_routes: [/key/generate, /team/new] }",
            None,
        ),
        (
            "general_settings: { enforced_params: [user] }",
            Some("required-fields"),
        ),
        (
            "general_settings: { enforce_user_param: true }",
            Some("required-fields"),
        ),
        ("general_settings: { enforce_user_param: false }", None),
        (
            "general_settings: { custom_auth: my.auth }",
            Some("guardrails"),
        ),
        (
            "litellm_settings: { callbacks: [langfuse, presidio] }",
            Some("guardrails"),
        ),
        (
            "litellm_settings: { callbacks: [dynamic_rate_limiter_v3] }",
            Some("guardrails"),
        ),
        (
            "litellm_settings: { callbacks: my_code.handler }",
            Some("guardrails"),
        ),
        (
            "litellm_settings: { callbacks: [langfuse, prometheus, otel] }",
            None,
        ),
        (
            "litellm_settings: { success_callback: [my_code.handler] }",
            None,
        ),
        (
            "litellm_settings: { post_call_rules: my_code.rule }",
            Some("guardrails"),
        ),
        (
            "litellm_settings: { max_end_user_budget_id: b }",
            Some("end-users"),
        ),
        (
            "litellm_settings: { max_end_user_budget: 5 }",
            Some("end-users"),
        ),
        (
            "litellm_settings: { validate_end_user_id_in_db: true }",
            Some("end-users"),
        ),
        (
            "general_settings: { missing_session_id: reject }",
            Some("required-fields"),
        ),
        ("general_settings: { missing_session_id: generate }", None),
        (
            "litellm_settings: { model_alias_map: { m: n } }",
            Some("aliases"),
        ),
        ("litellm_settings: { model_alias_map: {} }", None),
        (
            "router_settings: { provider_budget_config: { openai: { budget_limit: 1, time_period: 1d } } }",
            Some("proxy-budget"),
        ),
        ("router_settings: { provider_budget_config: {} }", None),
        (
            "general_settings: { global_max_parallel_requests: 5 }",
            Some("proxy-budget"),
        ),
        ("general_settings: { max_parallel_requests: 5 }", None),
        (
            "router_settings: { optional_pre_call_checks: [prompt_caching, enforce_model_rate_limits] }",
            Some("proxy-budget"),
        ),
        (
            "router_settings: { optional_pre_call_checks: [prompt_caching, router_budget_limiting] }",
            None,
        ),
        (
            "router_settings: { plugins: [my_code.plugin] }",
            Some("guardrails"),
        ),
        (
            "litellm_settings: { tag_budget_config: { a: { max_budget: 1, budget_duration: 1d } } }",
            Some("tags"),
        ),
        ("litellm_settings: { tag_budget_config: {} }", None),
        ("general_settings: { completion_model: m }", Some("aliases")),
        ("general_settings: { completion_model: '' }", None),
        (
            "general_settings: { image_generation_model: m }",
            Some("aliases"),
        ),
        ("general_settings: { moderation_model: m }", Some("aliases")),
        (
            "litellm_settings: { upperbound_key_generate_params: { max_budget: 5 } }",
            None,
        ),
        (
            "litellm_settings: { default_internal_user_params: { max_budget: 5 } }",
            None,
        ),
    ] {
        let of_key = key(ONE);
        assert_eq!(
            with(settings, &[&of_key]),
            Vec::from_iter(expected),
            "{settings}"
        );
        // The report tells the name that drops it, and nothing else switches the key off.
        let imported = import(&(config(&["m"]) + settings), &[&of_key])
            .unwrap_or_else(|problem| panic!("{problem}"));
        let told = imported.findings.iter().any(|finding| {
            finding
                .message
                .contains(&format!("--loosen {}", finding.path))
                && finding.path.contains("_settings.")
        });
        assert_eq!(told, expected.is_some(), "{settings}");
    }
}

#[test]
fn a_setting_that_bounds_some_keys_switches_these_off() {
    const TEAM: &str = r#"{"team_id": "t", "models": [], "team_memberships": []}"#;
    let of_team = key(r#""team_id": "t""#);
    for settings in [
        "litellm_settings: { personal_key_model_access_from_teams: true }",
        "litellm_settings: { block_requests_for_models_without_pricing: true }",
        "general_settings: { service_account_settings: { enforced_params: [user] } }",
    ] {
        assert_eq!(with(settings, &[&of_team, TEAM]), [""; 0], "{settings}");
    }
    let personal = "litellm_settings: { personal_key_model_access_from_teams: true }";
    assert_eq!(with(personal, &[&key(ONE)]), ["teams"]);
    let service = "general_settings: { service_account_settings: { enforced_params: [user] } }";
    assert_eq!(
        with(
            service,
            &[&key(r#""metadata": {"service_account_id": "s"}"#)]
        ),
        ["required-fields"]
    );
    let margin = "litellm_settings: { cost_margin_config: { global: 0.1 } }";
    assert_eq!(with(margin, &[&key(ONE)]), [""; 0]);
    assert_eq!(
        with(
            margin,
            &[&key(r#""max_budget": 1, "budget_duration": "1d""#)]
        ),
        ["prices"]
    );
    let of_model = r#""model_max_budget": {"m": {"budget_limit": 2, "time_period": "1d"}}"#;
    assert_eq!(with(margin, &[&key(of_model)]), ["prices"]);
    // The price of this model is not known.
    let unpriced = "model_list: [{ model_name: x, litellm_params: { model: hosted_vllm/x, api_base: 'http://localhost:1/v1' } }]\n";
    let needed = format!(
        "{unpriced}litellm_settings: {{ block_requests_for_models_without_pricing: true }}"
    );
    assert_eq!(stopped(&needed, &[&key(ONE)]).0, ["prices"]);
    assert_eq!(stopped(&needed, &[&key(r#""models": ["y"]"#)]).0, [""; 0]);
    assert_eq!(stopped(unpriced, &[&key(ONE)]).0, [""; 0]);
}

#[test]
fn a_model_of_one_kind_bounds_its_keys() {
    let kinds = "model_list:\n  - { model_name: dall-e-3, litellm_params: { model: openai/dall-e-3 } }\n  - { model_name: other, \
        litellm_params: { model: openai/other }, model_info: { mode: image_generation } }\n  - { model_name: emb, litellm_params: { \
        model: openai/text-embedding-3-small } }\n  - { model_name: talk, litellm_params: { model: openai/gpt-4o }, model_info: { \
        mode: chat } }\ngeneral_settings: { image_generation_model: dall-e-3 }";
    for (models, expected) in [
        ("dall-e-3", Some("aliases")),
        ("other", Some("aliases")),
        ("emb", None),
        ("talk", None),
        ("none", None),
    ] {
        let of_key = key(&format!("\"models\": [\"{models}\"]"));
        assert_eq!(
            stopped(kinds, &[&of_key]).0,
            Vec::from_iter(expected),
            "{models}"
        );
    }
}

#[test]
fn an_unpriced_pattern_bounds_keys_that_need_prices() {
    const NEEDED: &str = "litellm_settings: { block_requests_for_models_without_pricing: true }";
    let of = |price: &str| {
        format!(
            "model_list: [{{ model_name: \"openai/*\", litellm_params: {{ model: \"openai/*\", api_key: os.environ/K{price} }} }}]\n{NEEDED}"
        )
    };
    let priced = of(", input_cost_per_token: 0, output_cost_per_token: 0");
    for (config, of_key, expected) in [
        (&of(""), ONE, Some("prices")),
        (&of(""), r#""models": ["openai/gpt-4o"]"#, Some("prices")),
        (&of(""), r#""models": ["m"]"#, None),
        (&priced, ONE, None),
    ] {
        assert_eq!(
            stopped(config, &[&key(of_key)]).0,
            Vec::from_iter(expected),
            "{of_key}"
        );
    }
}

#[test]
fn no_price_is_known_of_a_catalog_with_errors() {
    let file = Given {
        name: "config.yaml".to_owned(),
        text: config(&["m", "openai/*"]),
    };
    let node = parse_tree(&file).unwrap_or_else(|problem| panic!("{problem}"));
    let findings = Findings::default();
    let inputs = Inputs {
        config: file.clone(),
        keys: Vec::new(),
        spent_at: None,
        loosened: Vec::new(),
        include: &|_, _| Err("there is none".to_owned()),
        variable: &|_| None,
    };
    let config = MergedConfig::new(&[Spot::root("config.yaml", &node, &findings)], &inputs);
    let mut draft = CatalogDraft::default();
    for entry in config.list("model_list") {
        draft.take_entry(entry, &config);
    }
    let known = access::Known::new(&draft, None);
    assert_eq!(known.unpriced(), BTreeSet::from(["m", "openai/*"]));
    assert_eq!(known.with_fallbacks("m"), ["m", "openai/*"]);
}

/// A file with two entries of one model, the second with more parameters and more information.
fn entries(params: &str, info: &str) -> String {
    let entry = |n: usize, params: &str, info: &str| {
        format!(
            "  - {{ model_name: m, litellm_params: {{ model: openai/m{n}, api_key: os.environ/K, input_cost_per_token: 0, \
             output_cost_per_token: 0{params} }}, model_info: {{ mode: chat{info} }} }}\n"
        )
    };
    format!(
        "model_list:\n{}{}",
        entry(1, "", ", access_groups: [g]"),
        entry(2, params, info)
    )
}

#[test]
fn an_entrys_words_bound_its_models_keys() {
    let tagged = |filter: bool| {
        entries(", tags: [paid]", "")
            + &format!("router_settings: {{ enable_tag_filtering: {filter} }}")
    };
    for (config, expected) in [
        (entries(", guardrails: [pii]", ""), Some("guardrails")),
        (entries(", guardrails: []", ""), None),
        (
            entries(", max_budget: 5, budget_duration: 1d", ""),
            Some("proxy-budget"),
        ),
        (
            entries(", max_budget: os.environ/X, budget_duration: 1d", ""),
            Some("proxy-budget"),
        ),
        (entries(", max_budget: 0, budget_duration: 1d", ""), None),
        (entries(", max_budget: 5", ""), None),
        (entries("", ", ptu_shares: { t: 5 }"), Some("teams")),
        (tagged(true), Some("tags")),
        (tagged(false), None),
        (
            entries("", "") + "router_settings: { enable_tag_filtering: true }",
            None,
        ),
        (
            entries(", default_api_key_rpm_limit: 0", ""),
            Some("`default_api_key_rpm_limit` is 0, which forbids every request"),
        ),
    ] {
        assert_eq!(
            stopped(&config, &[&key(ONE)]).0,
            Vec::from_iter(expected),
            "{config}"
        );
        // A key that may not use the model is not bound by it.
        let is_file = config.contains("_settings");
        assert_eq!(
            stopped(&config, &[&key(r#""models": ["x"]"#)]).0.is_empty(),
            !is_file || expected.is_none()
        );
    }
    // What each key may do with the model is a limit of each key.
    let limited = entries(
        ", default_api_key_rpm_limit: 7, default_api_key_tpm_limit: 90",
        "",
    );
    for (of_key, expected) in [
        (
            ONE,
            "model_limits: { m: { requests_per_minute: 7, tokens_per_minute: 90 } }",
        ),
        (r#""models": ["x"]"#, ""),
        (
            r#""metadata": {"model_rpm_limit": {"m": 2}}"#,
            "model_limits: { m: { requests_per_minute: 2, tokens_per_minute: 90 } }",
        ),
        (
            r#""metadata": {"model_rpm_limit": {"m": 2}, "model_tpm_limit": {"m": 3}}"#,
            "{ requests_per_minute: 2, tokens_per_minute: 3 }",
        ),
    ] {
        let (names, text) = stopped(&limited, &[&key(of_key)]);
        assert_eq!(names, [""; 0]);
        assert_eq!(
            text.contains("model_limits"),
            !expected.is_empty(),
            "{of_key}: {text}"
        );
        assert!(text.contains(expected), "{of_key}: {text}");
    }
}

#[test]
fn a_glob_in_a_key_reaches_what_it_matches() {
    let guarded = config(&["gpt-4o-mini"])
        + "  - { model_name: gpt-4o, litellm_params: { model: openai/gpt-4o, guardrails: [pii] } }\n";
    for (glob, expected) in [
        ("gpt-*-mini", None),
        ("gpt-*", Some("guardrails")),
        ("*-4o", Some("guardrails")),
    ] {
        let of_key = key(&format!("\"models\": [\"{glob}\"]"));
        let (words, _) = stopped(&guarded, &[&of_key]);
        assert_eq!(words, Vec::from_iter(expected), "{glob}");
    }
}

#[test]
fn left_out_entries_still_bound_their_names_keys() {
    const SAYS: &str =
        ", guardrails: [pii], default_api_key_rpm_limit: 3, max_budget: 5, budget_duration: 1d";
    const RESERVED: &str = "in LiteLLM some or all may not use \"openai/x\", to which a pattern answers here: remove its entry to \
                            allow it, or write the models of the pattern by name";
    let unknown = entries(SAYS, "").replace("openai/m2", "no-such-provider/m2");
    let alias = config(&["m"])
        + &format!("  - {{ model_name: big, litellm_params: {{ model: openai/b{SAYS} }} }}\n")
        + "router_settings: { model_group_alias: { big: m } }\n";
    let pattern = config(&["openai/*"])
        + &format!(
            "  - {{ model_name: openai/x, litellm_params: {{ model: openai/x{SAYS} }}, model_info: {{ blocked: true }} }}\n"
        );
    let of_team = config(&["m"])
        + &format!(
            "  - {{ model_name: own, litellm_params: {{ model: openai/own{SAYS} }}, model_info: {{ team_id: t, \
             team_public_model_name: m }} }}\n"
        );
    let is_limited = |text: &str| text.contains("model_limits: { m: { requests_per_minute: 3 } }");
    for (config, expected, limited) in [
        (&entries(SAYS, ", blocked: true"), &["guardrails"][..], true),
        (&entries(SAYS, ", team_id: t"), &["guardrails"], true),
        (
            &entries(SAYS, ", mode: realtime").replace("mode: chat, mode", "mode"),
            &["guardrails"],
            true,
        ),
        // LiteLLM does not even load this one.
        (
            &entries(SAYS, ", supported_environments: [production]"),
            &[],
            false,
        ),
        (&unknown, &["guardrails"], true),
        (&alias, &["guardrails"], true),
        (&of_team, &["guardrails"], false),
        // A limit for the models of a pattern has no counterpart.
        (&pattern, &["budgets", "guardrails", RESERVED], false),
        // Nothing answers to this name.
        (&pattern.replace("openai/*", "anthropic/*"), &[], false),
    ] {
        let (names, text) = stopped(config, &[&key(ONE)]);
        assert_eq!(
            (&names[..], is_limited(&text)),
            (
                &expected
                    .iter()
                    .map(|name| (*name).to_owned())
                    .collect::<Vec<_>>()[..],
                limited
            ),
            "{config}"
        );
        // Each line of the entry is told.
        let imported = import(config, &[]).unwrap_or_else(|problem| panic!("{problem}"));
        for field in [
            "guardrails",
            "default_api_key_rpm_limit",
            "max_budget",
            "budget_duration",
        ] {
            assert!(
                imported
                    .findings
                    .iter()
                    .any(|finding| finding.path.ends_with(field)),
                "{field}: {config}"
            );
        }
    }
}

#[test]
fn an_entry_litellm_ignores_is_left_out() {
    for (info, is_used) in [
        ("", true),
        (", blocked: true", false),
        (", blocked: false", true),
        (", team_id: t", false),
        (
            ", access_windows: [{ start: '09:00', end: '17:00', timezone: UTC, team_ids: [t] }]",
            false,
        ),
        (", supported_environments: [production]", false),
    ] {
        let imported =
            import(&entries("", info), &[]).unwrap_or_else(|problem| panic!("{problem}"));
        let text = &imported.files.first().unwrap_or_else(|| panic!("{info}")).1;
        assert_eq!(text.contains("model: m2"), is_used, "{info}: {text}");
        assert!(text.contains("model: m1"), "{info}: {text}");
    }
}

#[test]
fn an_access_group_needs_all_of_its_targets() {
    let of_group = key(r#""models": ["g"]"#);
    let both = entries("", ", access_groups: [g, h]");
    assert!(stopped(&both, &[&of_group]).1.contains("models: [m]"));
    let some = entries("", ", access_groups: [h]");
    assert!(stopped(&some, &[&of_group]).1.contains("models: []"));
    assert!(
        stopped(&some, &[&key(r#""models": ["g", "m"]"#)])
            .1
            .contains("models: [m]")
    );
    assert!(
        stopped(&some, &[&key(r#""models": ["g", "all-team-models"]"#)])
            .1
            .contains("models: []")
    );
    assert!(
        !stopped(&some, &[&key(r#""models": ["g", "all-proxy-models"]"#)])
            .1
            .contains("models:")
    );
}

#[test]
fn a_model_of_a_pattern_stays_allowed() {
    let (_, text) = stopped(
        &config(&["openai/*"]),
        &[&key(r#""models": ["openai/gpt-4o", "mistral/x", "a b"]"#)],
    );
    assert!(text.contains("models: [openai/gpt-4o]"), "{text}");
}

#[test]
fn an_alias_hides_the_model_of_its_name() {
    let file = config(&["big", "small", "self"])
        + "router_settings: { model_group_alias: { big: small, self: { model: self }, lost: nobody } }\n";
    let imported = import(&file, &[]).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(imported.check.errors, []);
    let text = &imported
        .files
        .first()
        .unwrap_or_else(|| panic!("no file"))
        .1;
    assert!(
        text.contains("  small:\n    aliases: [big]\n") && !text.contains("  big:"),
        "{text}"
    );
    assert!(text.contains("  self:"), "{text}");
}
