use proptest::prelude::*;

use super::*;
use crate::neutral::{Reader as _, StreamFault};

/// Checks the events of a stream, with `Err` as the last line.
#[track_caller]
fn check(lines: &[&str], expected: &[&str]) {
    let mut reader = OllamaReader;
    let mut told = Vec::new();
    for line in lines {
        if let Err(fault) = reader.event(b"", line.as_bytes(), &mut |event| {
            told.push(format!("{event:?}"))
        }) {
            told.push(format!("{fault:?}"));
            break;
        }
    }
    assert_eq!(told, expected, "{lines:?}");
}

#[track_caller]
fn check_answer(body: &str, expected: &[&str]) {
    let mut told = Vec::new();
    if let Err(fault) = read_answer(body.as_bytes(), &mut |event| {
        told.push(format!("{event:?}"))
    }) {
        told.push(format!("{fault:?}"));
    }
    assert_eq!(told, expected, "{body}");
}

#[track_caller]
fn check_error(json: &str, status: Option<u16>, message: &str) {
    let streamed = match OllamaReader.event(b"", json.as_bytes(), &mut |event| panic!("{event:?}"))
    {
        Err(StreamFault::Upstream(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (streamed.status, &*streamed.message),
        (status, message),
        "{json}"
    );
    assert_eq!(
        read_answer(json.as_bytes(), &mut |event| panic!("{event:?}")),
        Err(AnswerFault::Upstream(streamed)),
        "{json}"
    );
}

const LAST: &str = r#"{"model":"m","created_at":"2026-08-01T00:00:00.1Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":4883583458,"load_duration":1,"prompt_eval_count":26,"prompt_eval_duration":2,"eval_count":282,"eval_duration":3}"#;
const USAGE: &str = "Usage(Tokens { prompt: Some(26), completion: Some(282), cached: None, cache_write: None, reasoning: None })";

#[test]
fn lines_say_what_came() {
    check(
        &[
            r#"{"model":"m","created_at":"2026-08-01T00:00:00Z","message":{"role":"assistant","content":"","thinking":"hm"},"done":false}"#,
            r#"{"model":"m","message":{"role":"assistant","content":"a\n\"b\"","images":null},"done":false}"#,
            r#"{"model":"m","message":{"role":"assistant","content":"c"}}"#,
            LAST,
        ],
        &[
            r#"Reasoning(0, "hm")"#,
            r#"Text(0, "a\n\"b\"")"#,
            r#"Text(0, "c")"#,
            USAGE,
            "Finish(0, Stop)",
            "End",
        ],
    );
}

#[test]
fn a_whole_answer_tells_the_same() {
    check_answer(
        &LAST.replace(r#""content":"""#, r#""thinking":"hm","content":"a""#),
        &[
            r#"Reasoning(0, "hm")"#,
            r#"Text(0, "a")"#,
            USAGE,
            "Finish(0, Stop)",
        ],
    );
    check_answer(
        "\u{FEFF}{\"message\":{},\"done\":true}\n",
        &["Finish(0, Stop)"],
    );
}

#[test]
fn calls_come_whole_with_their_arguments_as_they_are() {
    let call = |arguments: &str| {
        format!(
            r#"{{"message":{{"role":"assistant","content":"","tool_calls":[{{"function":{{"name":"get"{arguments}}}}}]}},"done":false}}"#
        )
    };
    let told = r#"Call { choice: 0, id: None, name: "get", signature: None }"#;
    check(
        &[&call(r#","arguments":{"q":1.0,"b":[true,"é\u0041"]}"#)],
        &[
            told,
            r#"Arguments(0, "{\"q\":1.0,\"b\":[true,\"é\\u0041\"]}")"#,
        ],
    );
    check(
        &[&call(r#","arguments":"{\"q\":1}""#)],
        &[told, r#"Arguments(0, "{\"q\":1}")"#],
    );
    for empty in [
        "",
        r#","arguments":null"#,
        r#","arguments":{}"#,
        r#","arguments":"""#,
        r#","arguments":"{}""#,
        r#","arguments":"null""#,
    ] {
        check(&[&call(empty)], &[told]);
    }
    check(
        &[
            r#"{"message":{"tool_calls":[{"id":"call_1","function":{"index":0,"name":"a","arguments":{}}},{"function":{"index":1,"name":"b","arguments":{"c":2}}}]},"done":false}"#,
            r#"{"message":{"content":"","tool_calls":[{"function":{"name":"d"}}]},"done":true,"done_reason":"stop"}"#,
        ],
        &[
            r#"Call { choice: 0, id: Some("call_1"), name: "a", signature: None }"#,
            r#"Call { choice: 0, id: None, name: "b", signature: None }"#,
            r#"Arguments(0, "{\"c\":2}")"#,
            r#"Call { choice: 0, id: None, name: "d", signature: None }"#,
            "Finish(0, Stop)",
            "End",
        ],
    );
    check(
        &[r#"{"message":{"tool_calls":{"function":{"name":"get","arguments":{"q":1}}}}}"#],
        &[told, r#"Arguments(0, "{\"q\":1}")"#],
    );
    check(
        &[r#"{"message":{"tool_calls":[{"function":{"arguments":{}}}]}}"#],
        &[r#"Broken("a tool call without a name")"#],
    );
    check(
        &[r#"{"message":{"tool_calls":[{"id":"x"}]}}"#],
        &[r#"Broken("a tool call without a name")"#],
    );
}

#[test]
fn every_reason_has_its_finish() {
    for (reason, finish) in [
        (r#""stop""#, "Stop"),
        (r#""length""#, "Length"),
        (r#""new""#, "Stop"),
        (r#""""#, "Stop"),
        ("null", "Stop"),
    ] {
        let line = format!(r#"{{"message":{{"content":""}},"done":true,"done_reason":{reason}}}"#);
        let finish = format!("Finish(0, {finish})");
        check(&[&line], &[&finish, "End"]);
        check_answer(&line, &[&finish]);
    }
    check(&[r#"{"done":true}"#], &["Finish(0, Stop)", "End"]);
}

#[test]
fn a_model_that_was_only_loaded_has_not_answered() {
    for reason in ["load", "unload"] {
        let line = format!(
            r#"{{"message":{{"role":"assistant","content":""}},"done_reason":"{reason}","done":true}}"#
        );
        check_error(
            &line,
            Some(503),
            &format!("the upstream did not let the model answer (`{reason}`)"),
        );
    }
}

#[test]
fn counts_that_are_nothing_are_none() {
    let usage = |counts: &str| {
        let mut told = Vec::new();
        let line = format!(r#"{{"message":{{}},"done":true{counts}}}"#);
        read_answer(line.as_bytes(), &mut |event| {
            told.push(event_tokens(&event))
        })
        .unwrap();
        told.into_iter().flatten().next()
    };
    assert_eq!(usage(""), None);
    assert_eq!(usage(r#","prompt_eval_count":0,"eval_count":0"#), None);
    assert_eq!(usage(r#","eval_count":7"#), Some((None, Some(7))));
    assert_eq!(
        usage(r#","prompt_eval_count":7.0,"eval_count":null"#),
        Some((Some(7), None))
    );
    assert_eq!(usage(r#","prompt_eval_count":[],"eval_count":"x""#), None);
    assert_eq!(
        usage(r#","prompt_eval_count":-1,"eval_count":1e400"#),
        Some((Some(u64::MAX), Some(u64::MAX)))
    );
}

fn event_tokens(event: &Event<'_>) -> Option<(Option<u64>, Option<u64>)> {
    if let Event::Usage(tokens) = event {
        Some((tokens.prompt, tokens.completion))
    } else {
        None
    }
}

#[test]
fn errors_come_in_answers_and_as_lines() {
    check_error(
        r#"{"error":"an error was encountered while running the model"}"#,
        None,
        "an error was encountered while running the model",
    );
    check_error(
        r#"{"error":"the input length exceeds the context length"}"#,
        Some(400),
        "the input length exceeds the context length",
    );
    check_error(r#"{"error":{"message":"m","code":500}}"#, Some(500), "m");
    check_error(
        r#"{"error":"model 'x' not found","done":true,"message":{}}"#,
        Some(404),
        "model 'x' not found",
    );
    check(
        &[
            r#"{"error":"","message":{"content":"a"}}"#,
            r#"{"error":null,"message":{"content":"b"}}"#,
        ],
        &[r#"Text(0, "a")"#, r#"Text(0, "b")"#],
    );
}

#[test]
fn what_is_no_answer_is_a_fault() {
    let why = "the answer is not a JSON object as Ollama sends it";
    for line in [
        "",
        "null",
        "7",
        "[",
        "x",
        r#"{"message":{"content":7}}"#,
        r#"{"message":{"content":"a"}"#,
        r#"{"done":"true"}"#,
    ] {
        check(&[line], &[&format!("Broken({why:?})")]);
        check_answer(line, &[&format!("Nonsense({why:?})")]);
    }
    for body in [
        "{}",
        r#"{"done":true}"#,
        r#"{"message":{"content":"a"}}"#,
        r#"{"message":{"content":"a"},"done":false}"#,
    ] {
        check_answer(
            body,
            &[r#"Nonsense("the answer has no message, or is not complete")"#],
        );
    }
    check(&["{}", r#"{"new":[1]}"#, r#"{"message":null}"#], &[]);
}

proptest! {
    #[test]
    fn nothing_panics(which in 0usize..3, at in 0usize..400, byte in any::<u8>(), cut in any::<bool>()) {
        let call = r#"{"message":{"content":"","thinking":"t","tool_calls":[{"function":{"name":"get","arguments":{"a":"\u00e9"}}}]},"done":false}"#;
        let mut line = [LAST, call, r#"{"error":"text"}"#][which].as_bytes().to_vec();
        let at = at % line.len();
        line[at] = byte;
        if cut {
            line.truncate(at);
        }
        drop(OllamaReader.event(b"", &line, &mut |_| {}));
        drop(read_answer(&line, &mut |_| {}));
        drop(super::super::read_error(500, None, &line));
    }
}
