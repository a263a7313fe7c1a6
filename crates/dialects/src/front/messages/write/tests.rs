#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "of most events a test shows what they are"
)]

//! Streams are read as a client of Messages reads them: strictly, block by block.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::front::chat::write::tests::{Told, any_options, plausible, told};
use crate::neutral::answer::{AnswerOptions, Draft};
use crate::neutral::price::{Price, Rates, ShowCost};
use crate::neutral::usage::{Source, Usage};
use crate::neutral::{Answer, AnswerFault, AnswerHeader, Event, Tokens, Undo};

const STOP: Event<'_> = Event::Finish(0, Finish::Stop);
const LENGTH: Event<'_> = Event::Finish(0, Finish::Length);
const FILTERED: Event<'_> = Event::Finish(0, Finish::Filtered);

fn header() -> AnswerHeader {
    AnswerHeader {
        model: "fast".into(),
        id: "msg_1".into(),
        created: 99,
        prompt_bytes: 400,
        ..AnswerHeader::default()
    }
}

fn text(text: &str) -> Event<'_> {
    Event::Text(0, text)
}

fn thinks(text: &str) -> Event<'_> {
    Event::Reasoning(0, text)
}

fn call<'e>(id: &'e str, name: &'e str) -> Event<'e> {
    Event::Call {
        choice: 0,
        id: Some(id),
        name,
        signature: Some("of Google's"),
    }
}

fn input(text: &str) -> Event<'_> {
    Event::Arguments(0, text)
}

fn counted(prompt: u64, completion: u64) -> Event<'static> {
    Event::Usage(Tokens {
        prompt: Some(prompt),
        completion: Some(completion),
        ..Tokens::default()
    })
}

/// Returns the message of a stream, and the usage; or the fault, after the events before it.
fn streamed(
    header: &AnswerHeader,
    options: &AnswerOptions,
    events: &[Event<'_>],
) -> (String, Result<Usage, &'static str>) {
    let mut draft = Draft::new(
        header,
        options.clone(),
        Box::new(MessageWriter::new(header, true)),
    );
    let mut out = Vec::new();
    for event in events {
        draft.take(event.clone());
        out.append(draft.out());
    }
    let ended = draft.end(None);
    out.append(draft.out());
    (String::from_utf8(out).unwrap(), ended)
}

fn buffered(
    header: &AnswerHeader,
    options: &AnswerOptions,
    events: &[Event<'_>],
) -> Result<Answer, AnswerFault> {
    let draft = Draft::new(
        header,
        options.clone(),
        Box::new(MessageWriter::new(header, false)),
    );
    let tell = |emit: crate::neutral::Emit<'_>| {
        events.iter().for_each(|event| emit(event.clone()));
        Ok(())
    };
    draft.whole(tell).map(|(answer, _)| answer)
}

/// The message that a strict client makes of a stream. A call that was cut has no input.
fn accumulate(stream: &str) -> Value {
    let mut message = Value::Null;
    let mut open: Option<(usize, Value, String)> = None;
    let mut has_ended = false;
    for event in stream.split_terminator("\n\n") {
        let (name, data) = event
            .strip_prefix("event: ")
            .unwrap()
            .split_once("\ndata: ")
            .unwrap();
        assert!(!data.contains(['\n', '\r']) && !has_ended, "{stream}");
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["type"], name);
        match name {
            "message_start" => {
                assert!(message.is_null(), "{stream}");
                message = data["message"].clone();
                assert_eq!(message["content"], json!([]));
                assert_eq!(
                    message["usage"],
                    json!({"input_tokens": 0, "output_tokens": 0})
                );
                assert!(message["stop_reason"].is_null() && message["stop_sequence"].is_null());
            }
            "content_block_start" => {
                assert!(open.is_none(), "{stream}");
                let content = message["content"].as_array().unwrap();
                assert_eq!(data["index"], content.len());
                open = Some((content.len(), data["content_block"].clone(), String::new()));
            }
            "content_block_delta" => {
                let (index, block, json) = open.as_mut().unwrap();
                assert_eq!(data["index"], *index);
                let add = |block: &mut Value, key: &str| {
                    let piece = data["delta"][key].as_str().unwrap();
                    assert!(!piece.is_empty(), "{stream}");
                    block[key] = (block[key].as_str().unwrap().to_owned() + piece).into();
                };
                match (
                    data["delta"]["type"].as_str().unwrap(),
                    block["type"].as_str().unwrap(),
                ) {
                    ("text_delta", "text") => add(block, "text"),
                    ("thinking_delta", "thinking") => {
                        assert_eq!(block["signature"], "", "thinking after its signature");
                        add(block, "thinking");
                    }
                    ("signature_delta", "thinking") => {
                        block["signature"] = data["delta"]["signature"].clone()
                    }
                    ("input_json_delta", "tool_use") => {
                        json.push_str(data["delta"]["partial_json"].as_str().unwrap())
                    }
                    other => panic!("{other:?}"),
                }
            }
            "content_block_stop" => {
                let (index, mut block, json) = open.take().unwrap();
                assert_eq!(data["index"], index);
                match block["type"].as_str().unwrap() {
                    "tool_use" => {
                        assert_eq!(block["input"], json!({}));
                        if !json.is_empty() {
                            block["input"] = serde_json::from_str(&json).unwrap_or(Value::Null);
                            assert!(
                                block["input"].is_object() || block["input"].is_null(),
                                "{stream}"
                            );
                        }
                        block["json"] = json.into();
                    }
                    "text" | "thinking" | "redacted_thinking" => {}
                    other => panic!("{other}"),
                }
                message["content"].as_array_mut().unwrap().push(block);
            }
            "message_delta" => {
                assert!(
                    open.is_none() && message["stop_reason"].is_null(),
                    "{stream}"
                );
                for key in ["stop_reason", "stop_sequence"] {
                    message[key] = data["delta"][key].clone();
                }
                assert!(message["stop_reason"].is_string(), "{stream}");
                message["usage"] = data["usage"].clone();
                assert!(
                    message["usage"]["input_tokens"].is_u64()
                        && message["usage"]["output_tokens"].is_u64()
                );
            }
            "message_stop" => {
                assert!(message["stop_reason"].is_string(), "{stream}");
                has_ended = true;
            }
            other => panic!("{other}"),
        }
    }
    assert!(has_ended, "{stream}");
    message
}

/// Returns the message of a stream as the whole message has it: without a call that was cut.
fn whole_of(mut message: Value) -> Value {
    let may_be_cut = matches!(
        message["stop_reason"].as_str(),
        Some("max_tokens" | "refusal")
    );
    let content = message["content"].as_array_mut().unwrap();
    content.retain(|block| {
        let is_cut =
            block["type"] == "tool_use" && (block["input"].is_null() || block["json"] == "");
        assert!(may_be_cut || !block["input"].is_null() || block["type"] != "tool_use");
        !(may_be_cut && is_cut)
    });
    for block in content {
        drop(block.as_object_mut().unwrap().remove("json"));
    }
    message
}

/// The one message that both forms are.
#[track_caller]
fn both(options: &AnswerOptions, events: &[Event<'_>]) -> Value {
    let (stream, usage) = streamed(&header(), options, events);
    let answer = buffered(&header(), options, events).unwrap_or_else(|why| panic!("{why:?}"));
    let whole: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(whole_of(accumulate(&stream)), whole, "{stream}");
    assert_eq!(usage, Ok(answer.usage));
    whole
}

#[track_caller]
fn check(events: &[Event<'_>], content: Value, stop_reason: &str) {
    let message = both(&AnswerOptions::default(), events);
    assert_eq!(
        (
            &message["content"],
            message["stop_reason"].as_str().unwrap()
        ),
        (&content, stop_reason)
    );
}

/// Neither form is an answer.
#[track_caller]
fn check_fault(events: &[Event<'_>], why: &'static str) {
    let (stream, ended) = streamed(&header(), &AnswerOptions::default(), events);
    assert_eq!(ended, Err(why), "{stream}");
    assert!(
        !stream.contains("message_delta") && !stream.contains("message_stop"),
        "{stream}"
    );
    assert_eq!(
        buffered(&header(), &AnswerOptions::default(), events),
        Err(AnswerFault::Nonsense(why))
    );
}

fn said(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn thought(text: &str, signature: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": signature})
}

fn used(id: &str, name: &str, input: Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

#[test]
fn a_stream_is_this_to_the_byte() {
    let events = [
        Event::Id("their own"),
        thinks("hm"),
        Event::Signed("s1"),
        text("A \"b\"\n"),
        text("c"),
        call("toolu_1", "look"),
        input("{\"a\":"),
        input("1}"),
        Event::Usage(Tokens {
            prompt: Some(100),
            completion: Some(20),
            cached: Some(60),
            cache_write: Some(10),
            reasoning: Some(5),
        }),
        STOP,
        Event::End,
    ];
    let (stream, usage) = streamed(&header(), &AnswerOptions::default(), &events);
    let expected = [
        (
            "message_start",
            r#","message":{"id":"msg_1","type":"message","role":"assistant","model":"fast","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}"#,
        ),
        (
            "content_block_start",
            r#","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}"#,
        ),
        (
            "content_block_delta",
            r#","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}"#,
        ),
        (
            "content_block_delta",
            r#","index":0,"delta":{"type":"signature_delta","signature":"s1"}"#,
        ),
        ("content_block_stop", r#","index":0"#),
        (
            "content_block_start",
            r#","index":1,"content_block":{"type":"text","text":""}"#,
        ),
        (
            "content_block_delta",
            r#","index":1,"delta":{"type":"text_delta","text":"A \"b\"\n"}"#,
        ),
        (
            "content_block_delta",
            r#","index":1,"delta":{"type":"text_delta","text":"c"}"#,
        ),
        ("content_block_stop", r#","index":1"#),
        (
            "content_block_start",
            r#","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"look","input":{}}"#,
        ),
        (
            "content_block_delta",
            r#","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}"#,
        ),
        (
            "content_block_delta",
            r#","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}"#,
        ),
        ("content_block_stop", r#","index":2"#),
        (
            "message_delta",
            r#","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":30,"cache_creation_input_tokens":10,"cache_read_input_tokens":60,"output_tokens":20,"output_tokens_details":{"thinking_tokens":5}}"#,
        ),
        ("message_stop", ""),
    ];
    let expected: String = expected
        .iter()
        .map(|(name, rest)| format!("event: {name}\ndata: {{\"type\":\"{name}\"{rest}}}\n\n"))
        .collect();
    assert_eq!(stream, expected);
    assert_eq!(usage.unwrap().source, Source::Reported);

    let answer = buffered(&header(), &AnswerOptions::default(), &events).unwrap();
    assert_eq!(
        String::from_utf8(answer.body).unwrap(),
        concat!(
            r#"{"id":"msg_1","type":"message","role":"assistant","model":"fast","content":["#,
            r#"{"type":"thinking","thinking":"hm","signature":"s1"},{"type":"text","text":"A \"b\"\nc"},"#,
            r#"{"type":"tool_use","id":"toolu_1","name":"look","input":{"a":1}}],"stop_reason":"tool_use","stop_sequence":null,"#,
            r#""usage":{"input_tokens":30,"cache_creation_input_tokens":10,"cache_read_input_tokens":60,"output_tokens":20,"#,
            r#""output_tokens_details":{"thinking_tokens":5}}}"#,
        )
    );
}

#[test]
fn every_end_has_its_reason() {
    let refuses = || Event::Refusal(0, "I will not.");
    let called = |end: Event<'static>| [call("a", "f"), input("{}"), end, Event::End];
    let one = || used("a", "f", json!({}));
    check(
        &[text("x"), STOP, Event::End],
        json!([said("x")]),
        "end_turn",
    );
    check(
        &[text("x"), Event::Finish(0, Finish::Calls), Event::End],
        json!([said("x")]),
        "end_turn",
    );
    check(&[text("x"), Event::End], json!([said("x")]), "end_turn");
    check(&[STOP, Event::End], json!([]), "end_turn");
    check(
        &[text("x"), LENGTH, Event::End],
        json!([said("x")]),
        "max_tokens",
    );
    check(
        &[text("x"), FILTERED, Event::End],
        json!([said("x")]),
        "refusal",
    );
    check(&called(STOP), json!([one()]), "tool_use");
    check(
        &called(Event::Finish(0, Finish::Calls)),
        json!([one()]),
        "tool_use",
    );
    check(&called(LENGTH), json!([one()]), "max_tokens");
    check(&called(FILTERED), json!([one()]), "refusal");
    // A refusal in words ends a stream that its server calls whole.
    check(
        &[refuses(), STOP, Event::End],
        json!([said("I will not.")]),
        "refusal",
    );
    check(
        &[refuses(), FILTERED, Event::End],
        json!([said("I will not.")]),
        "refusal",
    );
    check(
        &[refuses(), LENGTH, Event::End],
        json!([said("I will not.")]),
        "max_tokens",
    );
    check(
        &[text("Well. "), refuses(), STOP, Event::End],
        json!([said("Well. I will not.")]),
        "refusal",
    );
    // Calls are for the client to run.
    check(
        &[&[refuses()][..], &called(STOP)].concat(),
        json!([said("I will not."), one()]),
        "tool_use",
    );
}

#[test]
fn a_refusal_is_told_as_declined() {
    let answer = buffered(
        &header(),
        &AnswerOptions::default(),
        &[Event::Refusal(0, "no"), STOP, Event::End],
    )
    .unwrap();
    assert!(answer.declined);
}

#[test]
fn a_calls_input_is_always_an_object() {
    for (pieces, found) in [
        (&["{\"a\":", "[1,", "2]}"][..], json!({"a": [1, 2]})),
        (&["{}"], json!({})),
        (&[], json!({})),
        (&["null"], json!({})),
        (&["nu", "ll "], json!({})),
        (&[" ", "\n"], json!({})),
        (&[" \n{\"a\"", ":1} \n"], json!({"a": 1})),
        (&["\n", " {", "}"], json!({})),
    ] {
        let mut events = vec![call("a", "f")];
        events.extend(pieces.iter().map(|piece| input(piece)));
        events.extend([STOP, Event::End]);
        check(&events, json!([used("a", "f", found.clone())]), "tool_use");
        // And before another call, whose beginning is its end.
        events.splice(
            events.len() - 2..,
            [call("b", "g"), input("{\"b\":2}"), STOP, Event::End],
        );
        check(
            &events,
            json!([used("a", "f", found), used("b", "g", json!({"b": 2}))]),
            "tool_use",
        );
    }
    // Deeper than anybody reads, and still an object.
    let (deep, ends) = ("{\"a\":".repeat(300), "}".repeat(300));
    let events = [
        call("a", "f"),
        input(&deep),
        input("1"),
        input(&ends),
        STOP,
        Event::End,
    ];
    let (stream, ended) = streamed(&header(), &AnswerOptions::default(), &events);
    let whole = String::from_utf8(
        buffered(&header(), &AnswerOptions::default(), &events)
            .unwrap()
            .body,
    )
    .unwrap();
    assert!(ended.is_ok() && stream.contains(r#""stop_reason":"tool_use""#));
    assert!(
        whole.contains(&format!(r#""input":{deep}1{ends}}}"#)),
        "{whole}"
    );
}

#[test]
fn an_unparsable_input_is_never_told_as_whole() {
    const BROKEN: &str = "the arguments of a call are no JSON object";
    for broken in [
        "{\"a\":",
        "{\"a\":1}}",
        "{}{}",
        "[]",
        "[1]",
        "\"{}\"",
        "7",
        "true",
        "nul",
        "{a:1}",
        "{\"a\":01}",
        "x",
    ] {
        let one = [call("a", "f"), input(broken)];
        check_fault(&[&one[..], &[STOP, Event::End]].concat(), BROKEN);
        check_fault(&[&one[..], &[Event::End]].concat(), BROKEN);
        check_fault(
            &[&one[..], &[call("b", "g"), input("{}"), STOP, Event::End]].concat(),
            BROKEN,
        );
        // Only the last call can have been cut.
        check_fault(
            &[&one[..], &[call("b", "g"), input("{}"), LENGTH, Event::End]].concat(),
            BROKEN,
        );
        check_fault(
            &[
                &one[..],
                &[call("b", "g"), input("{"), FILTERED, Event::End],
            ]
            .concat(),
            BROKEN,
        );
    }
    // Cut or not, it is not the beginning of an object either.
    for broken in ["{\"a\":1}}", "[", "\"", "7", "{a", "x"] {
        check_fault(&[call("a", "f"), input(broken), LENGTH, Event::End], BROKEN);
    }
}

#[test]
fn a_cut_call_is_none_of_a_whole_message() {
    for cut in ["", "{", "{\"a\":", "{\"a\":\"so", "{\"a\":1"] {
        for end in [LENGTH, FILTERED] {
            let events = [
                text("x"),
                call("a", "f"),
                input("{}"),
                call("b", "g"),
                input(cut),
                end.clone(),
                Event::End,
            ];
            let message = both(&AnswerOptions::default(), &events);
            assert_eq!(
                message["content"],
                json!([said("x"), used("a", "f", json!({}))]),
                "{cut}"
            );
            // The reader of the stream has the events that came, and the reason why no more come.
            let (stream, _) = streamed(&header(), &AnswerOptions::default(), &events);
            let found = accumulate(&stream);
            assert_eq!(
                (&found["content"][2]["json"], &found["content"][2]["name"]),
                (&json!(cut), &json!("g"))
            );
            assert_ne!(found["stop_reason"], "tool_use");
        }
    }
    let all = [call("b", "g"), input("{\"a\":1}"), LENGTH, Event::End];
    check(&all, json!([used("b", "g", json!({"a": 1}))]), "max_tokens");
}

/// A block has ended once another began.
#[test]
fn a_call_does_not_go_on_after_something_else() {
    for other in [
        text("x"),
        thinks("x"),
        Event::Refusal(0, "x"),
        Event::Signed("s"),
        Event::Redacted("r"),
        Event::Media(0, "image/png", "AA"),
    ] {
        check_fault(
            &[
                call("a", "f"),
                input("{\"a\":"),
                other.clone(),
                input("1}"),
                STOP,
                Event::End,
            ],
            "a call goes on after something else was said",
        );
        let (_, ended) = streamed(
            &header(),
            &AnswerOptions::default(),
            &[
                call("a", "f"),
                input("{\"a\":1}"),
                other,
                call("b", "g"),
                input("{}"),
                STOP,
                Event::End,
            ],
        );
        assert!(ended.is_ok(), "{ended:?}");
    }
    check(
        &[call("a", "f"), input("{}"), text("after"), STOP, Event::End],
        json!([used("a", "f", json!({})), said("after")]),
        "tool_use",
    );
    check(
        &[
            call("a", "f"),
            text("a call without a word"),
            STOP,
            Event::End,
        ],
        json!([used("a", "f", json!({})), said("a call without a word")]),
        "tool_use",
    );
    // Hidden thinking is nothing.
    let hides = AnswerOptions {
        hide_reasoning: true,
        ..AnswerOptions::default()
    };
    let events = [
        call("a", "f"),
        input("{"),
        thinks("x"),
        Event::Signed("s"),
        input("}"),
        STOP,
        Event::End,
    ];
    assert_eq!(
        both(&hides, &events)["content"],
        json!([used("a", "f", json!({}))])
    );
}

#[test]
fn thoughts_come_in_order_with_their_signatures() {
    let redacted = |data: &str| json!({"type": "redacted_thinking", "data": data});
    let rest = || [text("x"), STOP, Event::End];
    let with = |events: &[Event<'static>]| [events, &rest()].concat();
    for (events, blocks) in [
        (
            vec![thinks("a"), thinks("b"), Event::Signed("s")],
            vec![thought("ab", "s")],
        ),
        // Of a server that signs nothing.
        (vec![thinks("a")], vec![thought("a", "")]),
        // No caller may read it, and it must come back.
        (vec![Event::Signed("s")], vec![thought("", "s")]),
        (vec![Event::Redacted("r")], vec![redacted("r")]),
        (
            vec![
                thinks("a"),
                Event::Signed("s"),
                thinks("b"),
                Event::Signed("t"),
            ],
            vec![thought("a", "s"), thought("b", "t")],
        ),
        (
            vec![Event::Signed("s"), Event::Signed("t")],
            vec![thought("", "s"), thought("", "t")],
        ),
        (
            vec![
                Event::Redacted("r"),
                thinks("a"),
                Event::Signed("s"),
                Event::Redacted("q"),
                Event::Redacted("p"),
            ],
            vec![
                redacted("r"),
                thought("a", "s"),
                redacted("q"),
                redacted("p"),
            ],
        ),
        (
            vec![thinks("a"), Event::Redacted("r"), Event::Signed("s")],
            vec![thought("a", ""), redacted("r"), thought("", "s")],
        ),
    ] {
        let content = [blocks, vec![said("x")]].concat();
        check(&with(&events), json!(content), "end_turn");
    }
    // Between texts and calls, too.
    check(
        &[
            text("x"),
            thinks("a"),
            Event::Signed("s"),
            call("c", "f"),
            thinks("b"),
            text("y"),
            STOP,
            Event::End,
        ],
        json!([
            said("x"),
            thought("a", "s"),
            used("c", "f", json!({})),
            thought("b", ""),
            said("y")
        ]),
        "tool_use",
    );
    let hides = AnswerOptions {
        hide_reasoning: true,
        ..AnswerOptions::default()
    };
    let all = with(&[thinks("a"), Event::Signed("s"), Event::Redacted("r")]);
    assert_eq!(both(&hides, &all)["content"], json!([said("x")]));
}

#[test]
fn the_prompt_is_counted_in_three_parts() {
    let tokens = |prompt, completion, cached, cache_write, reasoning| Tokens {
        prompt,
        completion,
        cached,
        cache_write,
        reasoning,
    };
    for (tokens, usage) in [
        (
            tokens(Some(10), Some(3), None, None, None),
            json!({"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 3}),
        ),
        (
            tokens(Some(100), Some(3), Some(90), Some(4), Some(2)),
            json!({"input_tokens": 6, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 90, "output_tokens": 3,
                "output_tokens_details": {"thinking_tokens": 2}}),
        ),
        // All of it was known before.
        (
            tokens(Some(100), Some(3), Some(100), Some(0), Some(0)),
            json!({"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 100, "output_tokens": 3,
                "output_tokens_details": {"thinking_tokens": 0}}),
        ),
        // No part is larger than the rest of the whole.
        (
            tokens(Some(100), Some(3), Some(90), Some(40), Some(9)),
            json!({"input_tokens": 0, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 3,
                "output_tokens_details": {"thinking_tokens": 3}}),
        ),
        (
            tokens(Some(100), Some(3), Some(900), Some(40), None),
            json!({"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 100, "output_tokens": 3}),
        ),
    ] {
        let message = both(
            &AnswerOptions::default(),
            &[text("x"), Event::Usage(tokens), STOP, Event::End],
        );
        assert_eq!(message["usage"], usage, "{tokens:?}");
    }
}

#[test]
fn an_estimate_is_marked_beside_what_was_asked() {
    let end = |events: &[Event<'_>], header: &AnswerHeader, trail: Option<&str>| {
        let mut draft = Draft::new(
            header,
            AnswerOptions::default(),
            Box::new(MessageWriter::new(header, true)),
        );
        events.iter().for_each(|event| draft.take(event.clone()));
        draft.end(trail).unwrap();
        let out = String::from_utf8(std::mem::take(draft.out())).unwrap();
        let delta = out
            .split("event: message_delta\ndata: ")
            .nth(1)
            .unwrap()
            .lines()
            .next()
            .unwrap();
        serde_json::from_str::<Value>(delta).unwrap()
    };
    let silent = [text("eight by"), STOP, Event::End];
    let found = end(&silent, &header(), None);
    assert_eq!(found["x_portcullis"], json!({"usage": "estimated"}));
    assert_eq!(
        (
            &found["usage"]["input_tokens"],
            &found["usage"]["output_tokens"]
        ),
        (&json!(100), &json!(2))
    );
    let trail = Some(r#""attempts":"a;ok;1ms""#);
    assert_eq!(
        end(&silent, &header(), trail)["x_portcullis"],
        json!({"usage": "estimated", "attempts": "a;ok;1ms"})
    );
    let told = [text("x"), counted(1, 2), STOP, Event::End];
    assert_eq!(
        end(&told, &header(), trail)["x_portcullis"],
        json!({"attempts": "a;ok;1ms"})
    );
    assert_eq!(end(&told, &header(), None).get("x_portcullis"), None);
    assert_eq!(end(&told, &header(), None)["usage"].get("cost"), None);
    let rates = Rates {
        input: 3_000_000,
        output: 15_000_000,
        ..Rates::default()
    };
    let price = Price {
        rates: Some(rates),
        ..Price::default()
    };
    let shows = AnswerHeader {
        cost: ShowCost::AtPrice(Some(price)),
        ..header()
    };
    assert_eq!(end(&told, &shows, None)["usage"]["cost"], json!(0.000033));
}

#[test]
fn media_leave_a_word_where_they_stood() {
    let png = "[The model sent a picture here (image/png). This format cannot carry it.]";
    let wav = "[The model sent a file here (audio/wav). This format cannot carry it.]";
    check(
        &[
            Event::Media(0, "image/png", "AA"),
            text("\nSee?"),
            STOP,
            Event::End,
        ],
        json!([said(&format!("{png}\nSee?"))]),
        "end_turn",
    );
    check(
        &[
            call("a", "f"),
            Event::Media(0, "audio/wav", "AA"),
            STOP,
            Event::End,
        ],
        json!([used("a", "f", json!({})), said(wav)]),
        "tool_use",
    );
}

#[test]
fn a_message_is_the_first_choice() {
    let other = |text| Event::Text(1, text);
    check(
        &[
            other("no"),
            text("a"),
            Event::Call {
                choice: 1,
                id: None,
                name: "g",
                signature: None,
            },
            Event::Arguments(1, "{}"),
            text("b"),
            Event::Media(1, "image/png", "AA"),
            Event::Finish(1, Finish::Length),
            STOP,
            Event::End,
        ],
        json!([said("ab")]),
        "end_turn",
    );
}

#[test]
fn names_are_the_callers_and_format_tools_are_text() {
    let undo = Undo {
        names: vec![("look_up".into(), "look.up".into())],
        format_tool: Some("answer".into()),
        stubs: vec!["nobody".into()],
        ..Undo::default()
    };
    let options = AnswerOptions {
        undo,
        ..AnswerOptions::default()
    };
    let events = [
        text("Well:"),
        call("x", "answer"),
        input("{\"a\":"),
        input("1}"),
        STOP,
        Event::End,
    ];
    let message = both(&options, &events);
    assert_eq!(
        (&message["content"], &message["stop_reason"]),
        (&json!([said("{\"a\":1}")]), &json!("end_turn"))
    );
    let message = both(
        &options,
        &[
            call("", "look_up"),
            input("{}"),
            call("y", "nobody"),
            input("{"),
            STOP,
            Event::End,
        ],
    );
    assert_eq!(
        message["content"],
        json!([used("call_msg1_0_0", "look.up", json!({}))])
    );
}

#[test]
fn what_models_write_is_escaped() {
    let odd = "\u{0}\u{1f}\"\\/\u{7f}\u{2028}é😀\r\n</script>";
    let message = both(
        &AnswerOptions::default(),
        &[
            thinks(odd),
            Event::Signed(odd),
            Event::Redacted(odd),
            text(odd),
            call(odd, odd),
            STOP,
            Event::End,
        ],
    );
    assert_eq!(
        message["content"],
        json!([thought(odd, odd), {"type": "redacted_thinking", "data": odd}, said(odd), used(odd, odd, json!({}))])
    );
    let named = AnswerHeader {
        model: odd.into(),
        ..header()
    };
    let (stream, _) = streamed(
        &named,
        &AnswerOptions::default(),
        &[text("x"), STOP, Event::End],
    );
    assert_eq!(accumulate(&stream)["model"], odd);
}

#[test]
fn nothing_is_written_before_there_is_something_to_say() {
    let mut draft = Draft::new(
        &header(),
        AnswerOptions {
            hide_reasoning: true,
            ..AnswerOptions::default()
        },
        Box::new(MessageWriter::new(&header(), true)),
    );
    for event in [
        Event::Id("x"),
        counted(1, 1),
        text(""),
        thinks("hidden"),
        Event::Signed("s"),
        Event::Redacted("r"),
    ] {
        draft.take(event);
        assert!(draft.out().is_empty());
    }
    draft.take(text("a"));
    assert!(draft.out().starts_with(b"event: message_start\n"));
}

/// Returns a message without the boundaries of blocks that a client joins anyway.
fn joined(message: &Value) -> Map<String, Value> {
    let mut message = message.as_object().unwrap().clone();
    let mut content: Vec<Value> = Vec::new();
    for block in message["content"].as_array().unwrap() {
        match content.last_mut() {
            Some(last) if last["type"] == "text" && block["type"] == "text" => {
                last["text"] = (last["text"].as_str().unwrap().to_owned()
                    + block["text"].as_str().unwrap())
                .into();
            }
            Some(_) | None => content.push(block.clone()),
        }
    }
    message.insert("content".into(), content.into());
    message
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// For any events of a dialect, the stream is as strict clients need it and has the content of
    /// the whole message, or both end with one fault.
    #[test]
    fn streams_are_valid_and_say_what_whole_messages_say(
        mut told in prop::collection::vec(told(), 0..24),
        options in any_options(),
        is_plausible in prop::bool::weighted(0.9),
        objects in prop::bool::weighted(0.8),
    ) {
        if is_plausible {
            plausible(&mut told);
        }
        let events = told.iter().map(Told::event).map(|mut event| {
            // Most texts that are made up are no objects.
            if let (Event::Arguments(_, text), true) = (&mut event, objects) {
                *text = if text.len() % 2 == 0 { "{\"a\":1}" } else { " " };
            }
            event
        });
        let events: Vec<Event<'_>> = events.collect();
        let (stream, ended) = streamed(&header(), &options, &events);
        match (ended, buffered(&header(), &options, &events)) {
            (Ok(usage), Ok(answer)) => {
                prop_assert_eq!(usage, answer.usage);
                let whole: Value = serde_json::from_slice(&answer.body).unwrap();
                prop_assert_eq!(joined(&whole_of(accumulate(&stream))), joined(&whole));
            }
            (Err(why), Err(AnswerFault::Nonsense(same))) => {
                prop_assert_eq!(why, same);
                prop_assert!(!stream.contains("message_delta"));
            }
            (ended, whole) => prop_assert!(false, "{:?} {:?}", ended, whole),
        }
    }
}
