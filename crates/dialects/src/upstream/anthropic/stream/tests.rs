use super::*;
use crate::neutral::Reader as _;
use crate::upstream::anthropic::tests::shown;

/// Returns the events of a stream; the last line is its fault, if it has one.
fn told(events: &[(&str, &str)]) -> Vec<String> {
    let mut reader = AnthropicReader::default();
    let mut told = Vec::new();
    for (name, data) in events {
        if let Err(fault) = reader.event(name.as_bytes(), data.as_bytes(), &mut |event| {
            told.push(shown(&event))
        }) {
            told.push(match fault {
                StreamFault::Upstream(error) => {
                    format!("upstream {:?} {}", error.status, error.message)
                }
                StreamFault::Broken(_) => "broken".to_owned(),
                StreamFault::Cut => "cut".to_owned(),
            });
            break;
        }
    }
    told
}

#[track_caller]
fn check(events: &[&str], expected: &[&str]) {
    let named: Vec<(&str, &str)> = events.iter().map(|data| ("", *data)).collect();
    assert_eq!(told(&named), expected);
}

const START: &str = r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"c","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":2,"cache_read_input_tokens":3,"output_tokens":1}}}"#;
const STARTED: [&str; 2] = [
    r#"Id("m")"#,
    "Usage(Tokens { prompt: Some(15), completion: None, cached: Some(3), cache_write: Some(2), reasoning: None })",
];
const STOP: &str = r#"{"type":"message_stop"}"#;

#[test]
fn a_whole_stream() {
    check(
        &[
            START,
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"r"}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":""}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"a\u00e9\n"}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"text":{},"url":"u"}}}"#,
            r#"{"type":"content_block_stop","index":2}"#,
            r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}"#,
            r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}"#,
            r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"q\":"}}"#,
            r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"1}"}}"#,
            r#"{"type":"content_block_stop","index":3}"#,
            r#"{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"t2","name":"g","input":{}}}"#,
            r#"{"type":"content_block_stop","index":4}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":30,"output_tokens_details":{"thinking_tokens":9}}}"#,
            STOP,
            // Nothing counts after the end.
            "garbage",
            START,
        ],
        &[
            STARTED[0],
            STARTED[1],
            r#"Reasoning(0, "hm")"#,
            r#"Signed("sig")"#,
            r#"Redacted("r")"#,
            r#"Text(0, "aé\n")"#,
            r#"Citation(0, Citation { url: "u", title: "", quote: "", cited_range: LastBytes(4) })"#,
            r#"Call { choice: 0, id: Some("t1"), name: "f", signature: None }"#,
            r#"Arguments(0, "{\"q\":")"#,
            r#"Arguments(0, "1}")"#,
            r#"Call { choice: 0, id: Some("t2"), name: "g", signature: None }"#,
            "Usage(Tokens { prompt: Some(15), completion: Some(30), cached: Some(3), cache_write: Some(2), reasoning: Some(9) })",
            "Finish(0, Stop)",
            "End",
        ],
    );
}

#[test]
fn numbers_are_overwritten_and_never_added() {
    let delta = r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"input_tokens":20,"cache_read_input_tokens":0,"output_tokens":5}}"#;
    let expected = "Usage(Tokens { prompt: Some(22), completion: Some(5), cached: Some(0), cache_write: Some(2), reasoning: None })";
    check(
        &[START, delta, STOP],
        &[STARTED[0], STARTED[1], expected, "Finish(0, Length)", "End"],
    );
}

#[test]
fn counts_at_the_start_of_a_stream_are_ignored() {
    let delta = |usage: &str| {
        format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}}{usage}}}"#)
    };
    for usage in ["", r#","usage":null"#, r#","usage":7"#] {
        check(
            &[START, &delta(usage), STOP],
            &[STARTED[0], STARTED[1], "Finish(0, Stop)", "End"],
        );
    }
    let absurd = STARTED[1].replace("completion: None", "completion: Some(18446744073709551615)");
    check(
        &[START, &delta(r#","usage":{"output_tokens":-1}"#), STOP],
        &[STARTED[0], STARTED[1], &absurd, "Finish(0, Stop)", "End"],
    );
    let counted = STARTED[1].replace("completion: None", "completion: Some(7)");
    check(
        &[START, &delta(r#","usage":{"output_tokens":"7"}"#), STOP],
        &[STARTED[0], STARTED[1], &counted, "Finish(0, Stop)", "End"],
    );
}

#[test]
fn a_refusal_says_why() {
    let delta = r#"{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","category":null,"explanation":"no"}}}"#;
    check(
        &[START, delta, STOP],
        &[
            STARTED[0],
            STARTED[1],
            r#"Refusal(0, "no")"#,
            "Finish(0, Filtered)",
            "End",
        ],
    );
}

#[test]
fn what_comes_with_a_blocks_beginning_is_told() {
    check(
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":"t","signature":"s"}}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t","name":"f","input":{"q":[1]}}}"#,
            // The event comes twice, so the second fragments repeat the first ones.
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"q\":[1]}"}}"#,
        ],
        &[
            r#"Text(0, "a")"#,
            r#"Reasoning(0, "t")"#,
            r#"Signed("s")"#,
            r#"Call { choice: 0, id: Some("t"), name: "f", signature: None }"#,
            r#"Arguments(0, "{\"q\":[1]}")"#,
        ],
    );
}

#[test]
fn the_providers_own_tools_are_passed_over() {
    check(
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}}"#,
            // An unknown kind, with fields of another shape.
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"new","text":{"a":1}}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{"}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"new_delta","text":["x"]}}"#,
            r#"{"type":"new_event","delta":"x","message":7}"#,
            "[DONE]",
            r#"{"type":"ping","index":null}"#,
            "{}",
        ],
        &[r#"Call { choice: 0, id: Some("t"), name: "f", signature: None }"#],
    );
}

#[test]
fn the_name_serves_where_the_type_is_missing() {
    let events = [
        ("message_start", r#"{"message":{"id":"m"}}"#),
        (
            "content_block_delta",
            r#"{"delta":{"type":"text_delta","text":"a"}}"#,
        ),
        ("message_delta", r#"{"delta":{"stop_reason":"end_turn"}}"#),
        ("message_stop", "{}"),
    ];
    assert_eq!(
        told(&events),
        [r#"Id("m")"#, r#"Text(0, "a")"#, "Finish(0, Stop)", "End"]
    );
    assert_eq!(
        told(&[("error", "{}")]),
        ["upstream None the upstream gave no reason"]
    );
    assert_eq!(
        told(&[("error", r#"{"type":"overloaded_error","message":"m"}"#)]),
        ["upstream Some(529) m"]
    );
}

#[test]
fn stream_errors_have_the_status_of_their_type() {
    for (kind, status) in [
        ("overloaded_error", 529),
        ("rate_limit_error", 429),
        ("api_error", 500),
        ("timeout_error", 504),
        ("invalid_request_error", 400),
        ("authentication_error", 401),
        ("billing_error", 402),
        ("permission_error", 403),
        ("not_found_error", 404),
        ("request_too_large", 413),
    ] {
        let data = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"m"}}}}"#);
        check(
            &[START, &data],
            &[
                STARTED[0],
                STARTED[1],
                &format!("upstream Some({status}) m"),
            ],
        );
    }
    check(&[r#"{"error":{"message":"m"}}"#], &["upstream None m"]);
}

#[test]
fn an_end_without_a_reason_is_a_cut() {
    let text = r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}"#;
    let told = r#"Text(0, "a")"#;
    check(&[text, STOP], &[told, "cut"]);
    check(
        &[
            text,
            r#"{"type":"message_delta","delta":{"stop_sequence":null}}"#,
            STOP,
        ],
        &[told, "cut"],
    );
    check(
        &[
            text,
            r#"{"type":"message_delta","delta":{"stop_reason":null}}"#,
            STOP,
        ],
        &[told, "Finish(0, Stop)", "End"],
    );
}

#[test]
fn what_cannot_be_true_is_broken() {
    for data in [
        "",
        "x",
        "[]",
        "null",
        r#"{"type":"content_block_delta","delta":7}"#,
        r#"{"type":"message_start","message":[1]}"#,
    ] {
        check(&[START, data], &[STARTED[0], STARTED[1], "broken"]);
    }
    // An answer without a beginning, and fragments of a call that is not open.
    check(&[STOP], &["broken"]);
    let fragment = |index: u8| {
        format!(
            r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"input_json_delta","partial_json":"x"}}}}"#
        )
    };
    check(&[&fragment(0)], &["broken"]);
    let call = r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#;
    check(
        &[call, &fragment(0)],
        &[
            r#"Call { choice: 0, id: Some("t"), name: "f", signature: None }"#,
            "broken",
        ],
    );
    assert_eq!(
        told(&[(
            "",
            "{\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":{}}}"
        )]),
        ["broken"]
    );
}

#[test]
fn nothing_is_told_of_data_that_cannot_be_read() {
    let mut reader = AnthropicReader::default();
    let bad = b"{\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\xF0\"}}";
    let mut count = 0;
    assert!(reader.event(b"", bad, &mut |_| count += 1).is_err());
    let repaired = String::from_utf8_lossy(bad);
    reader
        .event(b"", repaired.as_bytes(), &mut |_| count += 1)
        .unwrap();
    assert_eq!(count, 1);
}
