use proptest::prelude::*;

use super::*;
use crate::neutral::Reader as _;

/// Returns the events of a stream, with `Err` as the last line.
fn told(events: &[&str]) -> Vec<String> {
    let mut reader = CohereReader::default();
    let mut lines = Vec::new();
    for event in events {
        if let Err(fault) = reader.event(b"", event.as_bytes(), &mut |event| {
            lines.push(format!("{event:?}"))
        }) {
            lines.push(format!("{fault:?}"));
            break;
        }
    }
    lines
}

#[track_caller]
fn check(events: &[&str], expected: &[&str]) {
    assert_eq!(told(events), expected, "{events:?}");
}

#[track_caller]
fn check_answer(body: &str, expected: &[&str]) {
    let mut lines = Vec::new();
    let end = read_answer(body.as_bytes(), &mut |event| {
        lines.push(format!("{event:?}"))
    });
    if let Err(fault) = end {
        lines.push(format!("{fault:?}"));
    }
    assert_eq!(lines, expected, "{body}");
}

#[track_caller]
fn check_fault(events: &[&str], status: Option<u16>, message: &str) {
    let mut reader = CohereReader::default();
    let fault = events
        .iter()
        .find_map(|event| reader.event(b"", event.as_bytes(), &mut |_| {}).err());
    let Some(StreamFault::Upstream(error)) = fault else {
        panic!("{fault:?}")
    };
    assert_eq!(
        (error.status, &*error.message),
        (status, message),
        "{events:?}"
    );
}

const START: &str = r#"{"id":"29f1","type":"message-start","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[],"citations":[]}}}"#;
const END: &str = r#"{"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"billed_units":{"input_tokens":9,"output_tokens":3},"tokens":{"input_tokens":71.0,"output_tokens":5.0}}}}"#;
const USAGE: &str = "Usage(Tokens { prompt: Some(71), completion: Some(5), cached: None, cache_write: None, reasoning: None })";
const CALL: &str = r#"{"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"get_1","type":"function","function":{"name":"get","arguments":""}}}}}"#;
const CALL_TOLD: &str = r#"Call { choice: 0, id: Some("get_1"), name: "get", signature: None }"#;
const CALL_END: &str = r#"{"type":"tool-call-end","index":0}"#;

fn arguments(text: &str) -> String {
    format!(
        r#"{{"type":"tool-call-delta","index":0,"delta":{{"message":{{"tool_calls":{{"function":{{"arguments":{}}}}}}}}}}}"#,
        crate::wire::json::quote_string(text)
    )
}

#[test]
fn text_comes_as_it_is() {
    check(
        &[
            START,
            r#"{"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}"#,
            r#"{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"a\n\"b\""}}},"logprobs":null}"#,
            r#"{"type":"content-end","index":0}"#,
            r#"{"type":"citation-start","index":0,"delta":{"message":{"citations":{"start":0,"end":1,"text":"a","sources":[]}}}}"#,
            r#"{"type":"citation-end","index":0}"#,
            END,
            "[DONE]",
        ],
        &[
            r#"Id("29f1")"#,
            r#"Text(0, "a\n\"b\"")"#,
            &cited("", "", "End"),
            USAGE,
            "Finish(0, Stop)",
            "End",
        ],
    );
}

fn cited(url: &str, title: &str, place: &str) -> String {
    format!(
        r#"Citation(0, Citation {{ url: "{url}", title: "{title}", quote: "", cited_range: {place} }})"#
    )
}

#[test]
fn a_citation_has_a_source_or_several() {
    #[track_caller]
    fn check_citation(citation: &str, expected: &[String]) {
        let event = format!(
            r#"{{"type":"citation-start","delta":{{"message":{{"citations":{citation}}}}}}}"#
        );
        assert_eq!(told(&[&event]), expected, "{citation}");
    }
    let document =
        r#"{"type":"document","id":"doc:0","document":{"url":"https://a.test","title":"A","n":1}}"#;
    let result = r#"{"type":"tool","id":"get_1:0","tool_output":{"url":"http://b.test"}}"#;
    let place = "Characters(1..3)";
    let both =
        format!(r#"{{"start":1,"end":3.0,"sources":[{document},{result}],"type":"TEXT_CONTENT"}}"#);
    let expected = [
        cited("https://a.test", "A", place),
        cited("http://b.test", "", place),
    ];
    check_citation(&both, &expected);
    check_citation(&format!("[{both}]"), &expected);
    // Without an address of the web a source has only a name.
    let at = |source: &str| format!(r#"{{"start":1,"end":3,"sources":[{source}]}}"#);
    check_citation(
        &at(r#"{"id":"doc:1","document":{"url":"file:///a","title":"A"}}"#),
        &[cited("", "A", place)],
    );
    check_citation(
        &at(r#"{"id":"doc:1","document":["x"]}"#),
        &[cited("", "doc:1", place)],
    );
    check_citation(
        &at(r#"{"id":"get_1:0","tool_output":"x"}"#),
        &[cited("", "get_1:0", place)],
    );
    // The place may be unknown.
    let nowhere = [cited("https://a.test", "A", "End")];
    check_citation(
        &format!(r#"{{"start":3,"end":1,"sources":[{document}]}}"#),
        &nowhere,
    );
    check_citation(&format!(r#"{{"sources":{document}}}"#), &nowhere);
    // A citation that cannot be read or cannot be shown is not lost in silence.
    let lost = [cited("", "", "End")];
    for citation in [
        "{\"start\":1}",
        "{\"sources\":7}",
        "{\"type\":7}",
        "7",
        "[7]",
        "null",
    ] {
        check_citation(citation, &lost);
    }
    check_citation(
        &format!(r#"{{"start":1,"end":3,"sources":[{document}],"type":"THINKING_CONTENT"}}"#),
        &lost,
    );
    check(
        &[
            r#"{"type":"citation-start","delta":[]}"#,
            r#"{"type":"citation-start"}"#,
        ],
        &[&*lost[0], &*lost[0]],
    );
}

#[test]
fn what_begins_with_content_is_not_lost() {
    check(
        &[r#"{"type":"content-start","delta":{"message":{"content":{"type":"text","text":"a"}}}}"#],
        &[r#"Text(0, "a")"#],
    );
    check(
        &[
            r#"{"type":"content-delta","delta":{"message":{"content":[{"text":"a"},null,{"thinking":"b"}]}}}"#,
        ],
        &[r#"Text(0, "a")"#, r#"Reasoning(0, "b")"#],
    );
}

#[test]
fn thinking_and_plans_are_reasoning() {
    check(
        &[
            r#"{"type":"content-start","index":0,"delta":{"message":{"content":{"type":"thinking","thinking":""}}}}"#,
            r#"{"type":"content-delta","index":0,"delta":{"message":{"content":{"thinking":"hm"}}}}"#,
            r#"{"type":"tool-plan-delta","delta":{"message":{"tool_plan":"I will"}}}"#,
        ],
        &[r#"Reasoning(0, "hm")"#, r#"Reasoning(0, "I will")"#],
    );
}

#[test]
fn calls_come_in_pieces() {
    let second = r#"{"type":"tool-call-start","index":1,"delta":{"message":{"tool_calls":{"id":"","type":"function","function":{"name":"put","arguments":"{"}}}}}"#;
    check(
        &[
            START,
            CALL,
            &arguments("{\"q\":"),
            &arguments("1}"),
            CALL_END,
            second,
            &arguments("}").replace("\"index\":0", "\"index\":1"),
            END,
        ],
        &[
            r#"Id("29f1")"#,
            CALL_TOLD,
            r#"Arguments(0, "{\"q\":")"#,
            r#"Arguments(0, "1}")"#,
            r#"Call { choice: 0, id: None, name: "put", signature: None }"#,
            r#"Arguments(0, "{")"#,
            r#"Arguments(0, "}")"#,
            USAGE,
            "Finish(0, Stop)",
            "End",
        ],
    );
}

#[test]
fn arguments_of_no_call_are_broken() {
    let broken = r#"Broken("arguments of a tool call that has not begun or has ended")"#;
    check(&[&arguments("{}")], &[broken]);
    check(&[CALL, CALL_END, &arguments("{}")], &[CALL_TOLD, broken]);
    check(
        &[CALL, &arguments("{}").replace("\"index\":0", "\"index\":1")],
        &[CALL_TOLD, broken],
    );
    check(
        &[&CALL.replace("\"index\":0,", ""), &arguments("{}")],
        &[CALL_TOLD, r#"Arguments(0, "{}")"#],
    );
    check(
        &[CALL, &arguments("{}").replace("\"index\":0,", "")],
        &[CALL_TOLD, r#"Arguments(0, "{}")"#],
    );
}

#[test]
fn a_call_needs_a_name() {
    let nameless =
        r#"{"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"get_1"}}}}"#;
    check(&[nameless], &[r#"Broken("a tool call without a name")"#]);
    check_answer(
        r#"{"message":{"tool_calls":[{"id":"a","function":{"arguments":"{}"}}]},"finish_reason":"TOOL_CALL"}"#,
        &[r#"Nonsense("a tool call without a name")"#],
    );
}

/// Returns the emitted arguments of a call that came in these pieces and with this end.
fn passed(pieces: &[&str], end: &str) -> String {
    let mut reader = CohereReader::default();
    let mut all = String::new();
    let mut emit = |event: Event<'_>| {
        if let Event::Arguments(_, text) = event {
            assert!(!text.is_empty());
            all.push_str(text);
        }
    };
    let fragments = pieces.iter().map(|piece| arguments(piece));
    for event in [CALL.to_owned()]
        .into_iter()
        .chain(fragments)
        .chain([end.to_owned()])
    {
        reader.event(b"", event.as_bytes(), &mut emit).unwrap();
    }
    all
}

#[test]
fn null_is_no_arguments_however_it_is_cut() {
    for (whole, expected) in [
        ("null", ""),
        (" null\n ", ""),
        ("", ""),
        (" ", ""),
        ("{}", "{}"),
        ("{\"a\": null}", "{\"a\": null}"),
        (" {\"a\":1}", "{\"a\":1}"),
        ("nul", "nul"),
        ("n", "n"),
        ("nulL", "nulL"),
        ("nullx", "nullx"),
        ("nullnull", "nullnull"),
        ("\"null\"", "\"null\""),
        ("née", "née"),
        ("nu ll", "nu ll"),
    ] {
        for end in [CALL_END, END] {
            assert_eq!(passed(&[whole], end), expected, "{whole:?}");
            let cuts: Vec<usize> = (0..=whole.len())
                .filter(|cut| whole.is_char_boundary(*cut))
                .collect();
            for second in &cuts {
                for first in cuts.iter().filter(|first| *first <= second) {
                    let pieces = [&whole[..*first], &whole[*first..*second], &whole[*second..]];
                    assert_eq!(passed(&pieces, end), expected, "{pieces:?}");
                }
            }
        }
    }
    assert_eq!(passed(&["nu"], CALL), "nu", "the next call ends this one");
}

#[test]
fn every_reason_has_its_finish() {
    for (reason, finish) in [
        ("COMPLETE", "Stop"),
        ("STOP_SEQUENCE", "Stop"),
        ("TOOL_CALL", "Stop"),
        ("MAX_TOKENS", "Length"),
        ("ERROR_LIMIT", "Length"),
        ("ERROR_TOXIC", "Filtered"),
        ("NEW_WORD", "Stop"),
        ("", "Stop"),
    ] {
        let finish = format!("Finish(0, {finish})");
        check(
            &[&format!(
                r#"{{"type":"message-end","delta":{{"finish_reason":"{reason}"}}}}"#
            )],
            &[&finish, "End"],
        );
        check_answer(
            &format!(r#"{{"message":{{"content":[]}},"finish_reason":"{reason}"}}"#),
            &[&finish],
        );
    }
    check(&[r#"{"type":"message-end"}"#], &["Finish(0, Stop)", "End"]);
    check(
        &[r#"{"type":"message-end","delta":{"finish_reason":null}}"#],
        &["Finish(0, Stop)", "End"],
    );
}

#[test]
fn an_answer_that_was_given_up_is_an_error() {
    let end = |inner: &str| format!(r#"{{"type":"message-end","delta":{{{inner}}}}}"#);
    check_fault(
        &[START, CALL, &end(r#""finish_reason":"ERROR""#)],
        Some(502),
        "the upstream did not finish the answer (`ERROR`)",
    );
    check_fault(
        &[&end(r#""finish_reason":"TIMEOUT""#)],
        Some(504),
        "the upstream did not finish the answer (`TIMEOUT`)",
    );
    check_fault(
        &[&end(r#""finish_reason":"ERROR","error":"out of memory""#)],
        Some(502),
        "out of memory",
    );
    check_fault(
        &[&end(r#""finish_reason":"COMPLETE","error":"after all""#)],
        Some(502),
        "after all",
    );
    check_fault(
        &[&end(r#""error":"too many tokens: 9""#)],
        Some(400),
        "too many tokens: 9",
    );

    let body = r#"{"id":"1","message":{"content":[{"type":"text","text":"half"}]},"finish_reason":"TIMEOUT"}"#;
    let Err(AnswerFault::Upstream(error)) =
        read_answer(body.as_bytes(), &mut |event| panic!("{event:?}"))
    else {
        panic!()
    };
    assert_eq!(
        (error.status, &*error.message),
        (
            Some(504),
            "the upstream did not finish the answer (`TIMEOUT`)"
        )
    );
}

#[test]
fn errors_inside_a_stream_are_found() {
    check_fault(
        &[START, r#"{"message":"internal server error","id":"x"}"#],
        None,
        "internal server error",
    );
    check_fault(&[r#"{"error":{"message":"m","code":500}}"#], Some(500), "m");
    check_fault(&[r#"{"type":"error","message":"m"}"#], None, "m");
    check_fault(&[r#"{"type":"stream-error","error":"m"}"#], None, "m");
}

#[test]
fn unknown_events_pass() {
    check(
        &[
            r#"{"type":"debug","prompt":"<|x|>"}"#,
            r#"{"type":"new-event","delta":"text","index":[1]}"#,
            r#"{"type":"new-event","delta":{"message":{"content":7}},"message":{},"error":null}"#,
            "{}",
            r#"{"id":"x","error":""}"#,
            " [DONE] ",
        ],
        &[],
    );
}

#[test]
fn an_events_name_helps_nameless_data() {
    let mut lines = Vec::new();
    let data = br#"{"delta":{"message":{"content":{"text":"a"}}}}"#;
    CohereReader::default()
        .event(b"content-delta", data, &mut |event| {
            lines.push(format!("{event:?}"))
        })
        .unwrap();
    assert_eq!(lines, [r#"Text(0, "a")"#]);
}

#[test]
fn malformed_events_are_broken_and_tell_nothing() {
    let broken = r#"Broken("an event is not a JSON object as Cohere sends it")"#;
    for data in [
        "",
        "null",
        "[",
        "x",
        "7",
        r#"{"type":"content-delta","delta":{"message":{"content":{"text":"a"}}}"#,
        r#"{"type":"content-delta","delta":{"message":{"content":{"text":7}}}}"#,
        r#"{"type":"content-delta","delta":{"message":{"content":[{"text":"a"},{"text":7}]}}}"#,
        r#"{"type":"content-delta","delta":"a"}"#,
        r#"{"type":7}"#,
    ] {
        check(&[data], &[broken]);
    }
}

#[test]
fn usage_is_what_the_model_read_and_wrote() {
    let of = |usage: &str| {
        told(&[&format!(
            r#"{{"type":"message-end","delta":{{"usage":{usage}}}}}"#
        )])
        .remove(0)
    };
    let tokens = |prompt, completion, cached| {
        format!(
            "{:?}",
            Event::Usage(Tokens {
                prompt,
                completion,
                cached,
                ..Tokens::default()
            })
        )
    };
    assert_eq!(
        of(
            r#"{"tokens":{"input_tokens":10.0,"output_tokens":2.0},"billed_units":{"input_tokens":1,"output_tokens":1}}"#
        ),
        tokens(Some(10), Some(2), None)
    );
    assert_eq!(
        of(r#"{"billed_units":{"input_tokens":1,"output_tokens":2,"search_units":3}}"#),
        tokens(Some(1), Some(2), None)
    );
    assert_eq!(
        of(r#"{"tokens":{"input_tokens":10},"billed_units":{"output_tokens":"3"}}"#),
        tokens(Some(10), Some(3), None)
    );
    assert_eq!(
        of(
            r#"{"tokens":7,"billed_units":{"input_tokens":-9,"output_tokens":3.5},"cached_tokens":"2"}"#
        ),
        tokens(Some(u64::MAX), Some(u64::MAX), Some(2))
    );
    assert_eq!(
        of(r#"{"tokens":{"input_tokens":10,"output_tokens":0},"cached_tokens":8.0}"#),
        tokens(Some(10), Some(0), Some(8))
    );
    assert_eq!(
        of(r#"{"tokens":{"input_tokens":"x","output_tokens":[{}]},"cached_tokens":{"a":true}}"#),
        "Finish(0, Stop)"
    );
    assert_eq!(of("null"), "Finish(0, Stop)");
    assert_eq!(of(r#"["new"]"#), "Finish(0, Stop)");
    assert_eq!(of("{}"), "Finish(0, Stop)");
}

#[test]
fn a_whole_answer_tells_the_same() {
    check_answer(
        r#"{"id":"29f1","message":{"role":"assistant","tool_plan":"I will","tool_calls":[
            {"id":"get_1","type":"function","function":{"name":"get","arguments":"{\"q\":1}"}},
            {"id":"now_2","type":"function","function":{"name":"now","arguments":"null"}}],
            "content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"}],"citations":[{"start":0}]},
            "finish_reason":"TOOL_CALL","usage":{"tokens":{"input_tokens":71,"output_tokens":5}}}"#,
        &[
            r#"Id("29f1")"#,
            r#"Reasoning(0, "hm")"#,
            r#"Text(0, "a")"#,
            &cited("", "", "End"),
            r#"Reasoning(0, "I will")"#,
            CALL_TOLD,
            r#"Arguments(0, "{\"q\":1}")"#,
            r#"Call { choice: 0, id: Some("now_2"), name: "now", signature: None }"#,
            USAGE,
            "Finish(0, Stop)",
        ],
    );
    check_answer(
        r#"{"message":{"content":null,"tool_plan":null,"tool_calls":null},"usage":null,"id":null}"#,
        &["Finish(0, Stop)"],
    );
    check_answer("\u{FEFF}{\"message\":{}} ", &["Finish(0, Stop)"]);
    for no_error in ["null", "false", "\"\""] {
        let body = format!(
            r#"{{"message":{{"content":[{{"type":"text","text":"a"}}]}},"error":{no_error}}}"#
        );
        check_answer(&body, &[r#"Text(0, "a")"#, "Finish(0, Stop)"]);
    }
}

#[test]
fn what_is_no_answer_is_a_fault() {
    let upstream = |body: &str| match read_answer(body.as_bytes(), &mut |event| panic!("{event:?}"))
    {
        Err(AnswerFault::Upstream(error)) => error.message,
        other => panic!("{body}: {other:?}"),
    };
    assert_eq!(
        upstream(r#"{"message":"invalid request"}"#),
        "invalid request"
    );
    assert_eq!(upstream(r#"{"error":{"message":"m"},"message":{}}"#), "m");
    let no_json = r#"Nonsense("the answer is not a JSON object as Cohere sends it")"#;
    for body in [
        "",
        "null",
        "[]",
        "x",
        "<html>",
        r#"{"message":{"content":7}}"#,
        r#"{"message":{}"#,
    ] {
        check_answer(body, &[no_json]);
    }
    for body in [
        "{}",
        r#"{"message":null,"finish_reason":"COMPLETE"}"#,
        r#"{"message":[]}"#,
        r#"{"message":""}"#,
    ] {
        check_answer(body, &[r#"Nonsense("the answer has no message")"#]);
    }
}

proptest! {
    #[test]
    fn nothing_panics(which in 0usize..6, at in 0usize..400, byte in any::<u8>(), cut in any::<bool>()) {
        let second = arguments("{\"q\":1}");
        let body = r#"{"id":"1","message":{"content":[{"type":"text","text":"a"}],"tool_calls":[{"id":"a","function":{"name":"f","arguments":"null"}}]},"finish_reason":"COMPLETE","usage":{"tokens":{"input_tokens":1.5}}}"#;
        let mut events: Vec<Vec<u8>> = [START, CALL, &second, CALL_END, END, body].map(|event| event.as_bytes().to_vec()).to_vec();
        let mutated = &mut events[which];
        let at = at % mutated.len();
        mutated[at] = byte;
        if cut {
            mutated.truncate(at);
        }
        let mut reader = CohereReader::default();
        for event in &events {
            drop(reader.event(b"", event, &mut |_| {}));
            drop(read_answer(event, &mut |_| {}));
            drop(super::super::read_error(429, None, event));
        }
    }
}
