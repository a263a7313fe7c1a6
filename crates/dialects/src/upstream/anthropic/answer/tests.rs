use super::*;
use crate::upstream::anthropic::tests::shown;

#[track_caller]
fn check(body: &str, expected: &[&str]) {
    let mut told = Vec::new();
    read_answer(body.as_bytes(), &mut |event| told.push(shown(&event))).unwrap();
    assert_eq!(told, expected, "{body}");
}

fn with(content: &str, reason: &str) -> String {
    format!(
        r#"{{"id":"m","type":"message","role":"assistant","model":"c","content":[{content}],"stop_reason":{reason},"stop_sequence":null}}"#
    )
}

const ID: &str = r#"Id("m")"#;
const NO_USAGE: &str = "Usage(Tokens { prompt: None, completion: None, cached: None, cache_write: None, reasoning: None })";
const STOP: &str = "Finish(0, Stop)";

#[test]
fn blocks_are_told_in_order() {
    let content = r#"{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"r"},{"type":"text","text":"a\nb"},
        {"type":"tool_use","id":"t1","name":"f","input":{"q": 1.0, "z":[]}},{"type":"text","text":""},{"type":"tool_use","id":"t2","name":"g","input":{ }}"#;
    check(
        &with(content, r#""tool_use""#),
        &[
            ID,
            r#"Reasoning(0, "hm")"#,
            r#"Signed("s")"#,
            r#"Redacted("r")"#,
            r#"Text(0, "a\nb")"#,
            r#"Call { choice: 0, id: Some("t1"), name: "f", signature: None }"#,
            r#"Arguments(0, "{\"q\": 1.0, \"z\":[]}")"#,
            r#"Call { choice: 0, id: Some("t2"), name: "g", signature: None }"#,
            NO_USAGE,
            STOP,
        ],
    );
}

#[test]
fn content_may_be_a_text_or_null() {
    check(
        r#"{"content":"a\nb"}"#,
        &[r#"Text(0, "a\nb")"#, NO_USAGE, STOP],
    );
    check(
        r#"{"content":"ab","stop_reason":"max_tokens"}"#,
        &[r#"Text(0, "ab")"#, NO_USAGE, "Finish(0, Length)"],
    );
    check(r#"{"content":""}"#, &[NO_USAGE, STOP]);
    check(r#"{"id":"m","content":null}"#, &[ID, NO_USAGE, STOP]);
}

#[test]
fn a_calls_input_may_be_in_quotes() {
    let call = r#"Call { choice: 0, id: Some("t"), name: "f", signature: None }"#;
    let with_input = |input: &str| {
        with(
            &format!(r#"{{"type":"tool_use","id":"t","name":"f","input":{input}}}"#),
            "null",
        )
    };
    check(
        &with_input(r#""{\"q\": 1.0}""#),
        &[ID, call, r#"Arguments(0, "{\"q\": 1.0}")"#, NO_USAGE, STOP],
    );
    for nothing in [r#""""#, r#""{}""#, "null"] {
        check(&with_input(nothing), &[ID, call, NO_USAGE, STOP]);
    }
}

#[test]
fn every_reason_to_stop() {
    for (reason, finish) in [
        ("end_turn", "Stop"),
        ("stop_sequence", "Stop"),
        ("tool_use", "Stop"),
        ("pause_turn", "Stop"),
        ("compaction", "Stop"),
        ("something_new", "Stop"),
        ("max_tokens", "Length"),
        ("model_context_window_exceeded", "Length"),
        ("refusal", "Filtered"),
    ] {
        check(
            &with("", &format!("\"{reason}\"")),
            &[ID, NO_USAGE, &format!("Finish(0, {finish})")],
        );
    }
    check(&with("", "null"), &[ID, NO_USAGE, STOP]);
}

#[test]
fn a_refusal_says_why() {
    let details = |reason: &str| {
        format!(
            r#"{{"content":[],"stop_reason":"{reason}","stop_details":{{"type":"refusal","category":"x","explanation":"no"}}}}"#
        )
    };
    check(
        &details("refusal"),
        &[NO_USAGE, r#"Refusal(0, "no")"#, "Finish(0, Filtered)"],
    );
    check(&details("end_turn"), &[NO_USAGE, STOP]);
    check(
        r#"{"content":[],"stop_reason":"refusal","stop_details":null}"#,
        &[NO_USAGE, "Finish(0, Filtered)"],
    );
}

#[track_caller]
fn check_usage(usage: &str, expected: [Option<u64>; 5]) {
    let mut tokens = None;
    let body = format!(r#"{{"content":[],"usage":{usage}}}"#);
    read_answer(body.as_bytes(), &mut |event| {
        if let Event::Usage(told) = event {
            tokens = Some(told);
        }
    })
    .unwrap();
    let [prompt, completion, cached, cache_write, reasoning] = expected;
    assert_eq!(
        tokens,
        Some(Tokens {
            prompt,
            completion,
            cached,
            cache_write,
            reasoning
        }),
        "{usage}"
    );
}

#[test]
fn usage_counts_the_cache_too() {
    let all = r#"{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":90,"cache_creation":{"ephemeral_5m_input_tokens":5},"output_tokens":7,"output_tokens_details":{"thinking_tokens":3},"service_tier":"standard"}"#;
    check_usage(all, [Some(105), Some(7), Some(90), Some(5), Some(3)]);
    check_usage(
        r#"{"input_tokens":10,"output_tokens":7}"#,
        [Some(10), Some(7), None, None, None],
    );
    check_usage(
        r#"{"input_tokens":10,"cache_read_input_tokens":null,"output_tokens":-7}"#,
        [Some(10), Some(u64::MAX), None, None, None],
    );
    check_usage(
        r#"{"input_tokens":18446744073709551615,"cache_read_input_tokens":1}"#,
        [Some(u64::MAX), None, Some(1), None, None],
    );
    check_usage(
        r#"{"input_tokens":12.0,"output_tokens":"7","output_tokens_details":3}"#,
        [Some(12), Some(7), None, None, None],
    );
    for usage in ["null", "7", "\"x\"", "[1]"] {
        check_usage(usage, [None; 5]);
    }
}

#[test]
fn other_blocks_and_fields_are_passed_over() {
    let content = r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"q":1}},{"type":"web_search_tool_result","content":[{}]},{},
        {"type":"text","text":"a","citations":[{"url":"u"}]},{"type":"new","text2":1}"#;
    let cited =
        r#"Citation(0, Citation { url: "u", title: "", quote: "", cited_range: LastBytes(1) })"#;
    check(
        &with(content, r#""end_turn""#),
        &[ID, r#"Text(0, "a")"#, cited, NO_USAGE, STOP],
    );
}

#[test]
fn half_a_character_costs_that_character() {
    let mut told = Vec::new();
    read_answer(
        b"{\"content\":[{\"type\":\"text\",\"text\":\"a\xF0\x9F\"}]}",
        &mut |event| told.push(shown(&event)),
    )
    .unwrap();
    assert_eq!(told, ["Text(0, \"a\u{FFFD}\")", NO_USAGE, STOP]);
    read_answer(b"\xEF\xBB\xBF{\"content\":[]}", &mut |_| ()).unwrap();
}

#[test]
fn what_is_no_answer_is_a_fault() {
    let fault =
        |body: &str| read_answer(body.as_bytes(), &mut |event| panic!("{event:?}")).unwrap_err();
    for body in [
        "",
        "[]",
        "null",
        "{}",
        "<html>",
        r#"{"content":7}"#,
        r#"{"content":{}}"#,
        r#"{"id":"m","stop_reason":"end_turn"}"#,
    ] {
        assert!(matches!(fault(body), AnswerFault::Nonsense(_)), "{body}");
    }
    for body in [
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        r#"{"error":{"type":"overloaded_error","message":"Overloaded"},"content":[]}"#,
    ] {
        let AnswerFault::Upstream(error) = fault(body) else {
            panic!("{body}")
        };
        assert_eq!(
            (error.status, error.message.as_str()),
            (Some(529), "Overloaded")
        );
    }
}
