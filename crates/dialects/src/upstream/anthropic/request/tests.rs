use crate::upstream::anthropic::tests::*;

#[track_caller]
fn check(model: &str, said: &str, expected: &str, losses: &str) {
    assert_eq!(
        fields(model, said),
        (expected.to_owned(), losses.to_owned()),
        "{said}"
    );
}

#[test]
fn the_least_request() {
    let written = write(
        OPUS_4_1,
        r#"{"model":"x","messages":[{"role":"user","content":"hi"}]}"#,
    )
    .unwrap();
    let expected = r#"{"model":"claude-opus-4-1","max_tokens":32000,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#;
    assert_eq!(String::from_utf8(written.body).unwrap(), expected);
    assert!(written.losses.names().is_empty() && written.headers.is_empty());
    assert_eq!(written.undo, Default::default());
}

#[test]
fn sampling_as_the_model_lets() {
    for (model, said, expected, losses) in [
        (
            SONNET_4,
            r#""temperature":0.70,"top_p":0.9,"top_k":40"#,
            r#","temperature":0.70,"top_p":0.9,"top_k":40"#,
            "",
        ),
        (
            SONNET_4,
            r#""temperature":1.5"#,
            r#","temperature":1"#,
            "temperature",
        ),
        (SONNET_4, r#""temperature":0"#, r#","temperature":0"#, ""),
        // A default is not written.
        (SONNET_4, r#""temperature":1.0,"top_p":1"#, "", ""),
        // From 4.1 on, one of the two.
        (
            OPUS_4_1,
            r#""temperature":0.7,"top_p":0.9"#,
            r#","temperature":0.7"#,
            "top_p",
        ),
        (
            OPUS_4_1,
            r#""temperature":1,"top_p":0.9"#,
            r#","top_p":0.9"#,
            "",
        ),
        (
            OPUS_4_1,
            r#""temperature":0.7,"top_p":1"#,
            r#","temperature":0.7"#,
            "",
        ),
        (
            OPUS_4_6,
            r#""top_p":0.9,"top_k":3"#,
            r#","top_p":0.9,"top_k":3"#,
            "",
        ),
        // From 4.7 on, neither.
        (
            OPUS_5,
            r#""temperature":0.7,"top_p":0.9,"top_k":3"#,
            "",
            "temperature top_k top_p",
        ),
        (OPUS_5, r#""temperature":1,"top_p":1"#, "", ""),
    ] {
        let (middle, lost) = fields(model, said);
        let middle = middle.trim_start_matches(|c: char| c.is_ascii_digit());
        assert_eq!(
            (middle, lost.as_str()),
            (expected, losses),
            "{model} {said}"
        );
    }
}

#[test]
fn the_most_tokens() {
    check(OPUS_4_1, r#""max_tokens":5"#, "5", "");
    check(OPUS_4_1, r#""max_completion_tokens":7"#, "7", "");
    check(OPUS_4_1, r#""max_tokens":32001"#, "32000", "max_tokens");
    check(SONNET_4_5, "", "64000", "");
    check("some-imitation", "", "8192", "");
    check("some-imitation", r#""max_tokens":1000000"#, "1000000", "");
}

#[test]
fn where_to_stop_and_for_whom() {
    check(
        OPUS_4_1,
        r#""stop":"a""#,
        r#"32000,"stop_sequences":["a"]"#,
        "",
    );
    check(
        OPUS_4_1,
        r#""stop":["a","\n"," ","b\n"]"#,
        r#"32000,"stop_sequences":["a","b\n"]"#,
        "stop",
    );
    check(OPUS_4_1, r#""stop":["\n"]"#, "32000", "stop");
    check(OPUS_4_1, r#""stop":[]"#, "32000", "");
    check(OPUS_4_1, r#""stop":null"#, "32000", "");
    check(
        OPUS_4_1,
        r#""user":"u""#,
        r#"32000,"metadata":{"user_id":"u"}"#,
        "",
    );
    check(
        OPUS_4_1,
        r#""safety_identifier":"s","user":"s""#,
        r#"32000,"metadata":{"user_id":"s"}"#,
        "",
    );
    check(
        OPUS_4_1,
        &format!(r#""user":"{}""#, "u".repeat(257)),
        "32000",
        "user",
    );
    check(
        OPUS_4_1,
        r#""service_tier":"auto""#,
        r#"32000,"service_tier":"auto""#,
        "",
    );
    check(
        OPUS_4_1,
        r#""service_tier":"default""#,
        r#"32000,"service_tier":"standard_only""#,
        "",
    );
    check(
        OPUS_4_1,
        r#""service_tier":"flex""#,
        "32000",
        "service_tier",
    );
}

#[test]
fn what_no_claude_takes_is_said() {
    check(OPUS_4_1, r#""seed":1"#, "32000", "seed");
    check(
        OPUS_4_1,
        r#""frequency_penalty":0.5,"presence_penalty":-1"#,
        "32000",
        "frequency_penalty presence_penalty",
    );
    check(
        OPUS_4_1,
        r#""frequency_penalty":0,"presence_penalty":0.0"#,
        "32000",
        "",
    );
    check(
        OPUS_4_1,
        r#""logit_bias":{"1":2},"store":true,"verbosity":"low""#,
        "32000",
        "logit_bias store verbosity",
    );
    check(
        OPUS_4_1,
        r#""logit_bias":{},"store":false,"logprobs":false,"n":1,"modalities":["text"]"#,
        "32000",
        "",
    );
    check(OPUS_4_1, r#""metadata":{"a":"b"}"#, "32000", "metadata");
    check(
        OPUS_4_1,
        r#""prediction":{"type":"content","content":"x"},"prompt_cache_key":"k""#,
        "32000",
        "prediction prompt_cache_key",
    );
    check(
        OPUS_4_1,
        r#""web_search_options":{"search_context_size":"low"},"my_own":1"#,
        "32000",
        "web_search_options my_own",
    );
    check(
        OPUS_4_1,
        r#""bad\nname":1,"another bad":2"#,
        "32000",
        "other",
    );
}

#[test]
fn what_would_change_the_meaning_is_refused() {
    let body = |fields: &str| {
        format!(r#"{{"model":"x","messages":[{{"role":"user","content":"hi"}}],{fields}}}"#)
    };
    for (model, said, expected) in [
        (OPUS_4_1, r#""n":2"#, "? n"),
        (OPUS_4_1, r#""logprobs":true"#, "? logprobs"),
        (
            OPUS_4_1,
            r#""modalities":["text","audio"],"audio":{"voice":"v"}"#,
            "? modalities",
        ),
        (
            OPUS_4_1,
            r#""tools":[{"type":"function","function":{"name":"f"}},{"type":"custom","custom":{"name":"c"}}]"#,
            "? tools[1]",
        ),
        (
            OPUS_4_1,
            r#""tools":[{"type":"web_search_20250305","name":"web_search"}]"#,
            "? tools[0]",
        ),
        (
            "claude-2.1",
            r#""tools":[{"type":"function","function":{"name":"f"}}]"#,
            "? tools",
        ),
    ] {
        assert_eq!(refused(model, &body(said)), expected, "{said}");
    }
}

#[test]
fn a_stream_is_asked_for() {
    let (read, _) = crate::front::chat::read::read_request(
        br#"{"model":"x","messages":[{"role":"user","content":"hi"}]}"#,
    )
    .unwrap();
    let traits = super::super::model_traits(OPUS_4_1);
    let target = crate::neutral::Target {
        model: "m\"",
        traits,
        default_max_tokens: Some(1000),
        stream: true,
        within: None,
        kept: &|_| None,
    };
    let body = super::write_request(&read, &target).unwrap().body;
    assert!(body.starts_with(br#"{"model":"m\"","max_tokens":1000,"stream":true,"messages""#));
}

#[test]
fn the_book_has_the_rules_for_options() {
    crate::upstream::shared::options::tests::check_book("anthropic", &super::OPTIONS);
}
