use crate::upstream::anthropic::tests::*;

#[track_caller]
fn check(model: &str, said: &str, expected: &str, losses: &str) {
    assert_eq!(
        fields(model, said),
        (expected.to_owned(), losses.to_owned()),
        "{model} {said}"
    );
}

#[test]
fn older_models_get_a_budget() {
    let thinks = |tokens: &str, budget: &str| {
        format!(r#"{tokens},"thinking":{{"type":"enabled","budget_tokens":{budget}}}"#)
    };
    for (effort, budget) in [
        ("minimal", "1024"),
        ("low", "1024"),
        ("medium", "8192"),
        ("high", "24576"),
        ("xhigh", "32768"),
        ("max", "48000"),
    ] {
        check(
            SONNET_4_5,
            &format!(r#""reasoning_effort":"{effort}""#),
            &thinks("64000", budget),
            "",
        );
    }
    check(SONNET_4_5, r#""reasoning_effort":"none""#, "64000", "");
    // A caller's maximum bounds the thinking: three quarters of it may be thought.
    check(
        SONNET_4_5,
        r#""reasoning_effort":"high","max_tokens":10000"#,
        &thinks("10000", "7500"),
        "",
    );
    check(
        SONNET_4_5,
        r#""reasoning_effort":"low","max_tokens":2000"#,
        &thinks("2000", "1024"),
        "",
    );
    check(
        SONNET_4_5,
        r#""reasoning_effort":"low","max_tokens":1000"#,
        "1000",
        "reasoning_effort",
    );
    check(
        SONNET_4_5,
        r#""reasoning_effort":"max","max_tokens":100000"#,
        &thinks("64000", "48000"),
        "max_tokens",
    );
}

#[test]
fn what_nobody_bounds_grows_by_what_is_thought() {
    let (read, _) = crate::front::chat::read::read_request(
        br#"{"model":"x","messages":[{"role":"user","content":"hi"}],"reasoning_effort":"medium"}"#,
    )
    .unwrap();
    for (default, expected) in [
        (
            500,
            r#""max_tokens":8692,"thinking":{"type":"enabled","budget_tokens":8192}"#,
        ),
        (
            31_000,
            r#""max_tokens":32000,"thinking":{"type":"enabled","budget_tokens":8192}"#,
        ),
    ] {
        let traits = crate::upstream::anthropic::model_traits(OPUS_4_1);
        let target = crate::neutral::Target {
            model: "m",
            traits,
            default_max_tokens: Some(default),
            stream: false,
            within: None,
            kept: &|_| None,
        };
        let body = String::from_utf8(
            crate::upstream::anthropic::write_request(&read, &target)
                .unwrap()
                .body,
        )
        .unwrap();
        assert!(body.contains(expected), "{body}");
    }
}

/// An answer that a deadline cuts off is paid for, and asked for again.
#[test]
fn a_buffered_answer_that_nobody_bounds_comes_in_time() {
    let most = |more: &str, within: Option<u64>| {
        let body =
            format!(r#"{{"model":"x","messages":[{{"role":"user","content":"hi"}}]{more}}}"#);
        let (read, _) = crate::front::chat::read::read_request(body.as_bytes()).unwrap();
        let within = within.map(std::time::Duration::from_secs);
        let traits = crate::upstream::anthropic::model_traits(SONNET_4_5);
        let target = crate::neutral::Target {
            model: "m",
            traits,
            default_max_tokens: None,
            stream: false,
            within,
            kept: &|_| None,
        };
        let written = crate::upstream::anthropic::write_request(&read, &target).unwrap();
        let body: serde_json::Value = serde_json::from_slice(&written.body).unwrap();
        (
            body["max_tokens"].as_u64().unwrap(),
            body["thinking"]["budget_tokens"].as_u64(),
        )
    };
    assert_eq!(most("", None), (64_000, None));
    assert_eq!(most("", Some(600)), (21_333, None));
    assert_eq!(most("", Some(3600)), (64_000, None));
    assert_eq!(
        most("", Some(1)),
        (8192, None),
        "no deadline makes a sentence of it"
    );
    assert_eq!(
        most(r#","max_tokens":60000"#, Some(600)),
        (60_000, None),
        "who says it means it"
    );
    // Thinking is part of it; but for the budget that a caller names itself.
    assert_eq!(
        most(r#","reasoning_effort":"high""#, Some(600)),
        (21_333, Some(15_999))
    );
    let own = r#","thinking":{"type":"enabled","budget_tokens":30000}"#;
    assert_eq!(most(own, Some(600)), (51_333, Some(30_000)));
}

#[test]
fn newer_models_get_a_word() {
    let thinks = |effort: &str| {
        format!(
            r#"128000,"thinking":{{"type":"adaptive","display":"summarized"}},"output_config":{{"effort":"{effort}"}}"#
        )
    };
    for (model, meant, said, losses) in [
        (OPUS_4_6, "minimal", "low", "reasoning_effort"),
        (OPUS_4_6, "low", "low", ""),
        (OPUS_4_6, "medium", "medium", ""),
        (OPUS_4_6, "high", "high", ""),
        (OPUS_4_6, "xhigh", "high", "reasoning_effort"),
        (OPUS_4_6, "max", "max", ""),
        (OPUS_5, "xhigh", "xhigh", ""),
        (OPUS_5_5, "max", "max", ""),
    ] {
        check(
            model,
            &format!(r#""reasoning_effort":"{meant}""#),
            &thinks(said),
            losses,
        );
    }
    check(
        OPUS_4_6,
        r#""reasoning_effort":"none""#,
        r#"128000,"thinking":{"type":"disabled"}"#,
        "",
    );
    // It thinks whatever the request orders.
    check(
        OPUS_5_5,
        r#""reasoning_effort":"none""#,
        r#"128000,"output_config":{"effort":"low"}"#,
        "reasoning_effort",
    );
}

#[test]
fn who_does_not_think_is_not_told_to() {
    check(
        HAIKU_3_5,
        r#""reasoning_effort":"high""#,
        "8192",
        "reasoning_effort",
    );
    check(HAIKU_3_5, r#""reasoning_effort":"none""#, "8192", "");
    check(
        "some-imitation",
        r#""reasoning_effort":"low""#,
        "8192",
        "reasoning_effort",
    );
}

#[test]
fn anthropics_own_words_pass_as_they_are() {
    check(
        SONNET_4_5,
        r#""thinking":{"budget_tokens": 2000, "type":"enabled"},"max_tokens":5000"#,
        r#"5000,"thinking":{"budget_tokens": 2000, "type":"enabled"}"#,
        "",
    );
    check(
        SONNET_4_5,
        r#""thinking":{"type":"disabled"},"reasoning_effort":"high""#,
        r#"64000,"thinking":{"type":"disabled"}"#,
        "reasoning_effort",
    );
    check(
        OPUS_5,
        r#""thinking":{"type":"adaptive","display":"omitted"},"reasoning_effort":"high""#,
        r#"128000,"thinking":{"type":"adaptive","display":"omitted"},"output_config":{"effort":"high"}"#,
        "",
    );
    check(
        "some-imitation",
        r#""thinking":{"type":"enabled","budget_tokens":2000}"#,
        r#"10192,"thinking":{"type":"enabled","budget_tokens":2000}"#,
        "",
    );
    check(
        OPUS_5,
        r#""thinking":{"type":"between_tools"}"#,
        r#"128000,"thinking":{"type":"between_tools"}"#,
        "",
    );
    // Models that think by a budget refuse to think as they like.
    check(
        SONNET_4_5,
        r#""thinking":{"type":"adaptive"},"reasoning_effort":"medium""#,
        r#"64000,"thinking":{"type":"enabled","budget_tokens":8192}"#,
        "",
    );
    check(
        SONNET_4_5,
        r#""thinking":{"type":"adaptive"}"#,
        "64000",
        "thinking",
    );
    for odd in ["7", "true"] {
        check(
            SONNET_4_5,
            &format!(r#""thinking":{odd}"#),
            "64000",
            "thinking",
        );
    }
    // A model that does not think gets no order about it, in whatever words.
    for own in [
        "7",
        "{}",
        r#"{"type":"enabled","budget_tokens":2000}"#,
        r#"{"type":"disabled"}"#,
    ] {
        check(
            HAIKU_3_5,
            &format!(r#""thinking":{own}"#),
            "8192",
            "thinking",
        );
    }
    check(
        HAIKU_3_5,
        r#""thinking":{"type":"adaptive"},"reasoning_effort":"low""#,
        "8192",
        "thinking reasoning_effort",
    );
}

#[test]
fn anthropics_own_words_are_known_or_refused() {
    let refused = |model: &str, fields: &str| {
        let body =
            format!(r#"{{"model":"x","messages":[{{"role":"user","content":"hi"}}],{fields}}}"#);
        match write(model, &body) {
            Err(crate::neutral::Refused::Invalid(complaint)) => complaint.param,
            other => panic!("{fields}: {other:?}"),
        }
    };
    for odd in [
        "{}",
        r#"{"type":7}"#,
        r#"{"type":"new"}"#,
        r#"{"type":"adaptive","type":"new"}"#,
        r#"{"budget_tokens":2000}"#,
    ] {
        for model in [SONNET_4_5, OPUS_5, "some-imitation"] {
            assert_eq!(
                refused(model, &format!(r#""thinking":{odd}"#)),
                "thinking.type"
            );
        }
    }
    for (budget, more) in [
        ("2000", r#","max_tokens":2000"#),
        ("2000.0", r#","max_tokens":1999"#),
        ("2e3", r#","max_tokens":5"#),
        ("64000", ""),
        ("1e300", ""),
        ("99999999999999999999999", ""),
    ] {
        let fields = format!(r#""thinking":{{"type":"enabled","budget_tokens":{budget}}}{more}"#);
        assert_eq!(refused(SONNET_4_5, &fields), "thinking.budget_tokens");
    }
}

#[test]
fn what_does_not_go_with_thinking_is_left_out() {
    let tools = r#""tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required""#;
    check(
        SONNET_4_5,
        &format!(r#""reasoning_effort":"low","temperature":0.5,"top_k":3,"top_p":0.9,{tools}"#),
        r#"64000,"temperature":0.5,"top_k":3,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"any"}"#,
        "reasoning_effort top_p",
    );
    check(
        SONNET_4_5,
        &format!(r#""thinking":{{"type":"enabled","budget_tokens":2000}},{tools}"#),
        r#"64000,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"any"}"#,
        "thinking",
    );
    check(
        SONNET_4_5,
        r#""reasoning_effort":"low","temperature":1,"top_p":0.95"#,
        r#"64000,"top_p":0.95,"thinking":{"type":"enabled","budget_tokens":1024}"#,
        "",
    );
    // Opus 5 thinks without an order, and takes a forced call all the same.
    check(
        OPUS_5,
        &format!(r#""reasoning_effort":"low",{tools}"#),
        r#"128000,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"},"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"any"}"#,
        "",
    );
}

/// Returns the thinking of a tool loop whose last call has this id, whether thoughts go back, and
/// the losses.
#[track_caller]
fn in_a_loop(model: &str, id: &str, said: &str) -> (String, bool, String) {
    let body = format!(
        r#"{{"model":"x","messages":[{{"role":"user","content":"hi"}},
        {{"role":"assistant","content":"a","tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}},
        {{"role":"tool","tool_call_id":"{id}","content":"r"}}]{said}}}"#
    );
    let written = write(model, &body).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&written.body).unwrap();
    let binds = !written.headers.is_empty();
    assert_eq!(binds, value["thinking"]["block_binding"].is_object());
    let has_thoughts = value["messages"][1]["content"][0]["type"] == "thinking";
    (
        value["thinking"].to_string(),
        has_thoughts,
        lost(&written.losses),
    )
}

#[test]
fn a_loop_without_thoughts_goes_on_unthinking() {
    let low = r#","reasoning_effort":"low""#;
    let own = r#","thinking":{"type":"enabled","budget_tokens":1024}"#;
    let budget = || r#"{"budget_tokens":1024,"type":"enabled"}"#.to_owned();
    let adaptive = || r#"{"display":"summarized","type":"adaptive"}"#.to_owned();
    let null = || "null".to_owned();
    assert_eq!(
        in_a_loop(SONNET_4_5, "kept", low),
        (budget(), true, String::new())
    );
    assert_eq!(
        in_a_loop(SONNET_4_5, "lost", low),
        (null(), false, "reasoning_effort".to_owned())
    );
    assert_eq!(
        in_a_loop(SONNET_4_5, "lost", own),
        (null(), false, "thinking".to_owned())
    );
    // Where the model finds out for itself how much to think, none is missed.
    assert_eq!(
        in_a_loop(OPUS_4_6, "lost", low),
        (adaptive(), false, String::new())
    );
    assert_eq!(
        in_a_loop(OPUS_4_6, "kept", low),
        (adaptive(), true, String::new())
    );
    // Thoughts go back to who may think, even untold.
    assert_eq!(in_a_loop(OPUS_5, "kept", ""), (null(), true, String::new()));
    assert_eq!(
        in_a_loop(OPUS_5, "omitted", ""),
        (null(), true, String::new())
    );
    assert_eq!(
        in_a_loop(OPUS_5, "kept", r#","reasoning_effort":"none""#),
        (r#"{"type":"disabled"}"#.to_owned(), false, String::new())
    );
    assert_eq!(
        in_a_loop(SONNET_4_5, "kept", ""),
        (null(), false, String::new())
    );
    assert_eq!(
        in_a_loop(HAIKU_3_5, "kept", ""),
        (null(), false, String::new())
    );
}

#[test]
fn a_thought_is_dropped_where_it_would_be_refused() {
    let binding = r#""block_binding":{"prefix_mismatch_behavior":"drop_block"}"#;
    let written = in_a_loop(OPUS_5_5, "kept", "");
    assert_eq!(
        written,
        (
            format!(r#"{{{binding},"type":"adaptive"}}"#),
            true,
            String::new()
        )
    );
    let written = in_a_loop(OPUS_5_5, "kept", r#","reasoning_effort":"low""#);
    assert_eq!(
        written,
        (
            format!(r#"{{{binding},"display":"summarized","type":"adaptive"}}"#),
            true,
            String::new()
        )
    );
    // Without thoughts there is nothing to bind.
    assert_eq!(
        in_a_loop(OPUS_5_5, "lost", ""),
        ("null".to_owned(), false, String::new())
    );
    // The caller's own words pass, with the header that they need.
    let own = format!(r#","thinking":{{"type":"adaptive",{binding}}}"#);
    assert_eq!(
        in_a_loop(OPUS_5, "kept", &own),
        (
            format!(r#"{{{binding},"type":"adaptive"}}"#),
            true,
            String::new()
        )
    );
}

#[test]
fn final_assistant_words_go_before_thinking() {
    let messages = r#"[{"role":"user","content":"hi"},{"role":"assistant","content":"{"}]"#;
    let (_, losses) = conversation(SONNET_4_5, messages, r#""reasoning_effort":"low""#);
    assert_eq!(losses, "reasoning_effort");
}
