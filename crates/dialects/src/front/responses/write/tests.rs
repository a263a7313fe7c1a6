use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::*;
use crate::dialect::{Dialect, Recipient};
use crate::front::RESPONSES;
use crate::neutral::answer::{AnswerOptions, Draft};
use crate::neutral::{Clock, Event, StreamFault, Tokens, Undo};
use crate::upstream::{Protocol, anthropic, openai};

fn header() -> AnswerHeader {
    let (model, id, clock) = ("mine".into(), "resp_7".into(), Clock(|| 8));
    AnswerHeader {
        model,
        id,
        created: 5,
        clock,
        prompt_bytes: 8,
        ..AnswerHeader::default()
    }
}

/// A request with tools of every kind, which shows thinking.
const REQUEST: &str = r#"{"model":"mine","input":"x","reasoning":{"summary":"auto"},"metadata":{"a": "b"},"tools":[
    {"type":"function","name":"look"},
    {"type":"namespace","name":"agents","tools":[{"type":"function","name":"spawn"}]},
    {"type":"custom","name":"patch"},
    {"type":"tool_search","execution":"client"}]}"#;

fn options(request: &str) -> AnswerOptions {
    let (_, names) = (RESPONSES.read)(request.as_bytes()).unwrap();
    AnswerOptions {
        undo: Undo {
            echo: names.echo,
            ..Undo::default()
        },
        ..AnswerOptions::default()
    }
}

/// Writes the stream and the whole answer of these events, and checks that both have the same
/// content.
#[track_caller]
fn told(request: &str, events: &[Event<'_>]) -> (Vec<Json>, Json) {
    let write = |writer: Box<dyn AnswerWriter>| {
        let draft = Draft::new(&header(), options(request), writer);
        let (answer, _) = draft
            .whole(|emit| {
                events.iter().cloned().for_each(emit);
                Ok(())
            })
            .unwrap();
        String::from_utf8(answer.body).unwrap()
    };
    let whole: Json = serde_json::from_str(&write((RESPONSES.whole)(&header()))).unwrap();
    let events = follow(&write((RESPONSES.stream)(&header())));
    assert_eq!(events.last().unwrap()["response"], whole);
    (events, whole)
}

/// Reads a stream as a strict client does: events have numbers without a gap, an item ends before
/// the next begins, and the pieces add up to the texts at the ends.
#[track_caller]
fn follow(stream: &str) -> Vec<Json> {
    let mut events = Vec::new();
    let mut open: Option<Json> = None;
    let mut pieces: BTreeMap<String, String> = BTreeMap::new();
    let mut output = Vec::new();
    for (number, event) in stream.split_terminator("\n\n").enumerate() {
        let (name, data) = event.split_once('\n').unwrap();
        let data: Json = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        assert_eq!(data["sequence_number"], number, "{data}");
        let kind = data["type"].as_str().unwrap().to_owned();
        if let Some(id) = data["item_id"].as_str() {
            let item = open.as_ref().expect("an item is open");
            assert_eq!(
                (item["id"].as_str(), &data["output_index"]),
                (Some(id), &json!(output.len())),
                "{data}"
            );
        }
        if let Some(response) = data.get("response") {
            assert_eq!(
                (&response["id"], &response["object"]),
                (&json!("resp_7"), &json!("response"))
            );
        }
        match &*kind {
            "response.output_item.added" => {
                assert!(open.is_none(), "{data}");
                assert_eq!(
                    (&data["output_index"], &data["item"]["status"]),
                    (&json!(output.len()), &json!("in_progress"))
                );
                open = Some(data["item"].clone());
            }
            "response.output_item.done" => {
                let begun = open.take().expect("an item is open");
                for name in ["id", "type", "call_id", "name", "namespace", "role"] {
                    assert_eq!(begun.get(name), data["item"].get(name), "{data}");
                }
                output.push(data["item"].clone());
            }
            _ if kind.ends_with(".delta") => {
                let said = pieces
                    .entry(data["item_id"].as_str().unwrap().to_owned())
                    .or_default();
                said.push_str(data["delta"].as_str().unwrap());
            }
            "response.content_part.done" | "response.reasoning_summary_part.done" => {
                let part = data["part"].get("text").or(data["part"].get("refusal"));
                assert_eq!(part.unwrap(), &pieces[data["item_id"].as_str().unwrap()]);
            }
            _ if kind.ends_with(".done") => {
                let said = ["text", "refusal", "arguments", "input"]
                    .iter()
                    .find_map(|name| data.get(*name));
                assert_eq!(said.unwrap(), &pieces[data["item_id"].as_str().unwrap()]);
            }
            _ => {}
        }
        events.push(data);
    }
    assert!(open.is_none());
    assert_eq!(events.last().unwrap()["response"]["output"], json!(output));
    events
}

fn types(events: &[Json]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

fn call<'e>(id: &'e str, name: &'e str) -> Event<'e> {
    Event::Call {
        choice: 0,
        id: Some(id),
        name,
        signature: None,
    }
}

#[test]
fn a_text_has_all_its_events() {
    let tokens = Tokens {
        prompt: Some(9),
        completion: Some(4),
        cached: Some(3),
        ..Tokens::default()
    };
    let (events, whole) = told(
        r#"{"model":"mine","input":"x"}"#,
        &[
            Event::Text(0, "Hel"),
            Event::Text(0, "lo\n"),
            Event::Finish(0, Finish::Stop),
            Event::Usage(tokens),
            Event::End,
        ],
    );
    assert_eq!(
        types(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let begun = &events[0]["response"];
    assert_eq!(
        json!([begun["status"], begun["output"], begun["completed_at"]]),
        json!(["in_progress", [], null])
    );
    assert_eq!(
        events[4],
        json!({"type": "response.output_text.delta", "sequence_number": 4, "item_id": "msg_7_0", "output_index": 0,
            "content_index": 0, "delta": "Hel", "logprobs": []})
    );
    let expected = json!({
        "id": "resp_7", "object": "response", "created_at": 5, "completed_at": 8, "status": "completed", "model": "mine",
        "output": [{"id": "msg_7_0", "type": "message", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": "Hello\n", "annotations": [], "logprobs": []}]}],
        "usage": {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
            "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 13},
        "error": null, "incomplete_details": null, "previous_response_id": null, "background": false, "store": false,
        "instructions": null, "max_output_tokens": null, "metadata": {}, "parallel_tool_calls": true,
        "temperature": 1, "tool_choice": "auto", "tools": [], "top_p": 1, "truncation": "disabled",
        "presence_penalty": 0, "frequency_penalty": 0, "top_logprobs": 0, "service_tier": "default", "user": null,
        "max_tool_calls": null, "safety_identifier": null, "prompt_cache_key": null,
        "reasoning": {"effort": null, "summary": null}, "text": {"format": {"type": "text"}},
    });
    assert_eq!(whole, expected);
    assert_eq!(events[3]["part"]["logprobs"], json!([]));
}

#[test]
fn calls_are_what_their_tools_are() {
    let (events, whole) = told(
        REQUEST,
        &[
            call("c1", "look"),
            Event::Arguments(0, "{\"a\":"),
            Event::Arguments(0, "1}"),
            call("c2", "agents__spawn"),
            call("c3", "patch"),
            Event::Arguments(0, "{\"inp"),
            Event::Arguments(0, "ut\":\"+ \\\"b\\\"\\n\"}"),
            call("c4", "tool_search"),
            Event::Arguments(0, "{\"query\": \n\"x\"}"),
            Event::Finish(0, Finish::Calls),
            Event::End,
        ],
    );
    let output = json!([
        {"id": "fc_7_0", "type": "function_call", "status": "completed", "call_id": "c1", "name": "look",
            "arguments": "{\"a\":1}"},
        {"id": "fc_7_1", "type": "function_call", "status": "completed", "call_id": "c2", "name": "spawn",
            "namespace": "agents", "arguments": "{}"},
        {"id": "ctc_7_2", "type": "custom_tool_call", "status": "completed", "call_id": "c3", "name": "patch",
            "input": "+ \"b\"\n"},
        {"id": "tsc_7_3", "type": "tool_search_call", "status": "completed", "call_id": "c4", "execution": "client",
            "arguments": {"query": "x"}},
    ]);
    assert_eq!(
        (&whole["output"], &whole["status"]),
        (&output, &json!("completed"))
    );
    let types = types(&events);
    for name in [
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
    ] {
        assert!(types.contains(&name), "{name}");
    }
    let done = events
        .iter()
        .find(|event| event["type"] == "response.function_call_arguments.done")
        .unwrap();
    assert_eq!(done["name"], "look");
}

#[test]
fn thinking_is_shown_if_it_was_asked_for() {
    let events = [
        Event::Reasoning(0, "First"),
        Event::Reasoning(0, " this."),
        Event::Signed("signature"),
        Event::Text(0, "So."),
        Event::Finish(0, Finish::Stop),
        Event::End,
    ];
    let (told_events, whole) = told(REQUEST, &events);
    assert_eq!(
        whole["output"][0],
        json!({"id": "rs_7_0", "type": "reasoning", "status": "completed",
            "summary": [{"type": "summary_text", "text": "First this."}]})
    );
    assert_eq!(
        types(&told_events)[2..8],
        [
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
        ]
    );
    let (_, whole) = told(
        r#"{"model":"mine","input":"x","reasoning":{"effort":"low"}}"#,
        &events,
    );
    assert_eq!(whole["output"].as_array().unwrap().len(), 1);
    assert_eq!(whole["output"][0]["type"], "message");
}

#[test]
fn an_answer_that_was_cut_is_incomplete() {
    for (finish, reason) in [
        (Finish::Length, "max_output_tokens"),
        (Finish::Filtered, "content_filter"),
    ] {
        let (events, whole) = told(
            REQUEST,
            &[Event::Text(0, "Hal"), Event::Finish(0, finish), Event::End],
        );
        assert_eq!(events.last().unwrap()["type"], "response.incomplete");
        assert_eq!(
            (&whole["status"], &whole["incomplete_details"]["reason"]),
            (&json!("incomplete"), &json!(reason))
        );
        assert_eq!(whole["output"][0]["status"], "incomplete");
    }
    // Of a call that was cut, its arguments are shown where they are only text.
    for (name, arguments, shown) in [
        ("look", "{\"a\":", json!([["incomplete", "{\"a\":"]])),
        ("look", "{\"a\":1}", json!([["completed", "{\"a\":1}"]])),
        ("patch", "{\"input\":\"ab", json!([])),
        ("patch", "{\"input\":\"ab\"}", json!([["completed", "ab"]])),
        ("tool_search", "{\"query\":\"ab", json!([])),
    ] {
        let events = [
            call("c", name),
            Event::Arguments(0, arguments),
            Event::Finish(0, Finish::Length),
            Event::End,
        ];
        let (_, whole) = told(REQUEST, &events);
        let items = whole["output"].as_array().unwrap().iter();
        let found: Vec<_> = items
            .map(|item| {
                json!([
                    item["status"],
                    item.get("arguments").or(item.get("input")).unwrap()
                ])
            })
            .collect();
        assert_eq!(json!(found), shown, "{name} {arguments}");
    }
}

#[test]
fn a_refusal_is_a_part_of_its_own() {
    let (events, whole) = told(
        REQUEST,
        &[
            Event::Refusal(0, "I can"),
            Event::Refusal(0, "not."),
            Event::Finish(0, Finish::Stop),
            Event::End,
        ],
    );
    assert_eq!(
        whole["output"][0]["content"],
        json!([{"type": "refusal", "refusal": "I cannot."}])
    );
    assert_eq!(whole["status"], "completed");
    assert!(types(&events).contains(&"response.refusal.done"));
}

#[test]
fn text_during_a_call_waits_for_its_end() {
    let (_, whole) = told(
        REQUEST,
        &[
            Event::Text(0, "I look."),
            call("c1", "look"),
            Event::Arguments(0, "{\"a\""),
            Event::Text(0, "Mean"),
            Event::Text(0, "while."),
            Event::Reasoning(0, "Hm."),
            Event::Arguments(0, ":1}"),
            call("c2", "look"),
            Event::Text(0, "Done."),
            Event::Finish(0, Finish::Calls),
            Event::End,
        ],
    );
    let types: Vec<_> = whole["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        types,
        [
            "message",
            "function_call",
            "message",
            "reasoning",
            "function_call",
            "message"
        ]
    );
    assert_eq!(whole["output"][1]["arguments"], "{\"a\":1}");
    assert_eq!(whole["output"][2]["content"][0]["text"], "Meanwhile.");
}

#[test]
fn a_custom_calls_output_is_its_input() {
    for (arguments, input) in [
        (r#"{"input":"a\tb"}"#, "a\tb"),
        (r#"{ "input" : "" }"#, ""),
        ("*** Begin", "*** Begin"),
        (r#"{"text":"a"}"#, r#"{"text":"a"}"#),
        (r#"{"input":7}"#, r#"{"input":7}"#),
    ] {
        let events = [
            call("c", "patch"),
            Event::Arguments(0, arguments),
            Event::Finish(0, Finish::Calls),
            Event::End,
        ];
        let (_, whole) = told(REQUEST, &events);
        assert_eq!(whole["output"][0]["input"], input, "{arguments}");
    }
}

#[test]
fn a_search_without_an_object_is_no_answer() {
    for writer in [(RESPONSES.whole)(&header()), (RESPONSES.stream)(&header())] {
        let told = Draft::new(&header(), options(REQUEST), writer).whole(|emit| {
            emit(call("c", "tool_search"));
            emit(Event::Arguments(0, "x"));
            emit(Event::Finish(0, Finish::Calls));
            Ok(())
        });
        assert!(told.is_err());
    }
}

#[test]
fn media_are_told_of_and_other_choices_are_not() {
    let (_, whole) = told(
        REQUEST,
        &[
            Event::Text(0, "See: "),
            Event::Media(0, "image/png", "AAAA"),
            Event::Text(1, "other"),
            Event::End,
        ],
    );
    let text = whole["output"][0]["content"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("See: [The model sent a picture here (image/png)."),
        "{text}"
    );
    assert_eq!(whole["output"].as_array().unwrap().len(), 1);
}

#[test]
fn a_stream_that_is_too_large_ends() {
    let header = header();
    let recipient = Recipient {
        front: &RESPONSES,
        header: &header,
        options: options(REQUEST),
    };
    let mut stream = Dialect::from(&openai::PROTOCOL).stream("m", recipient, 1 << 20);
    let chunk = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n",
        "a".repeat(1 << 19)
    );
    let mut fed = Ok(());
    let mut out = Vec::new();
    for _ in 0..40 {
        fed = stream.feed(chunk.as_bytes(), &mut out);
        out.clear();
        if fed.is_err() {
            break;
        }
    }
    assert!(matches!(fed, Err(StreamFault::Broken(_))), "{fed:?}");
    assert!(stream.buffered() > 1 << 20);
}

/// An answer of each dialect with thinking, text and two calls, as a stream and whole.
fn answers() -> [(&'static Protocol, String, String); 2] {
    let chunk = |delta: Json, finish: Json| {
        let chunk = json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        format!("data: {chunk}\n\n")
    };
    let custom = r#"{"input":"+é\n"}"#;
    let call = |index: u8, id: &str, name: &str, arguments: &str| {
        json!({"tool_calls": [{"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": arguments}}]})
    };
    let more = |index: u8, arguments: &str| json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]});
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 8, "total_tokens": 17});
    let chat_stream = [
        chunk(json!({"role": "assistant", "reasoning_content": "Hm."}), json!(null)),
        chunk(json!({"content": "I "}), json!(null)),
        chunk(json!({"content": "stårt."}), json!(null)),
        chunk(call(0, "c1", "agents__spawn", "{\"a\""), json!(null)),
        chunk(more(0, ":1}"), json!(null)),
        chunk(call(1, "c2", "patch", "{\"input\":\"+é"), json!(null)),
        chunk(more(1, "\\n\"}"), json!(null)),
        chunk(json!({}), json!("tool_calls")),
        format!("data: {}\n\n", json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage})),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    let chat = json!({"id": "x", "object": "chat.completion", "created": 1, "model": "m", "usage": usage, "choices": [{
        "index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "reasoning_content": "Hm.",
            "content": "I stårt.", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "agents__spawn", "arguments": "{\"a\":1}"}},
                {"id": "c2", "type": "function", "function": {"name": "patch", "arguments": custom}}]}}]});
    let event = |data: Json| {
        format!(
            "event: {}\ndata: {data}\n\n",
            data["type"].as_str().unwrap()
        )
    };
    let start = |index: u8, block: Json| {
        event(json!({"type": "content_block_start", "index": index, "content_block": block}))
    };
    let delta = |index: u8, delta: Json| {
        event(json!({"type": "content_block_delta", "index": index, "delta": delta}))
    };
    let stop = |index: u8| event(json!({"type": "content_block_stop", "index": index}));
    let json_delta = |index: u8, piece: &str| {
        delta(
            index,
            json!({"type": "input_json_delta", "partial_json": piece}),
        )
    };
    let claude_stream = [
        event(json!({"type": "message_start", "message": {"id": "x", "type": "message", "role": "assistant",
            "model": "m", "content": [], "usage": {"input_tokens": 9, "output_tokens": 1}}})),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm."})),
        delta(0, json!({"type": "signature_delta", "signature": "s"})),
        stop(0),
        start(1, json!({"type": "text", "text": ""})),
        delta(1, json!({"type": "text_delta", "text": "I stårt."})),
        stop(1),
        start(2, json!({"type": "tool_use", "id": "c1", "name": "agents__spawn", "input": {}})),
        json_delta(2, "{\"a\":1}"),
        stop(2),
        start(3, json!({"type": "tool_use", "id": "c2", "name": "patch", "input": {}})),
        json_delta(3, "{\"input\":\"+é"),
        json_delta(3, "\\n\"}"),
        stop(3),
        event(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 8}})),
        event(json!({"type": "message_stop"})),
    ]
    .concat();
    let claude = json!({"id": "x", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
        "usage": {"input_tokens": 9, "output_tokens": 8}, "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "s"},
            {"type": "text", "text": "I stårt."},
            {"type": "tool_use", "id": "c1", "name": "agents__spawn", "input": {"a": 1}},
            {"type": "tool_use", "id": "c2", "name": "patch", "input": {"input": "+é\n"}}]});
    [
        (&openai::PROTOCOL, chat_stream, chat.to_string()),
        (&anthropic::PROTOCOL, claude_stream, claude.to_string()),
    ]
}

fn streamed(protocol: &'static Protocol, pieces: &[&[u8]]) -> (String, Result<(), StreamFault>) {
    let header = header();
    let recipient = Recipient {
        front: &RESPONSES,
        header: &header,
        options: options(REQUEST),
    };
    let mut stream = Dialect::from(protocol).stream("m", recipient, 1 << 20);
    let mut out = Vec::new();
    let fed = pieces
        .iter()
        .try_for_each(|piece| stream.feed(piece, &mut out));
    let end = fed.and_then(|()| stream.finish(&mut out, Some(r#""attempts":"a""#)).map(drop));
    (String::from_utf8(out).unwrap(), end)
}

#[test]
fn streams_and_whole_answers_agree_however_cut() {
    let output = json!([
        {"id": "rs_7_0", "type": "reasoning", "status": "completed",
            "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"id": "msg_7_1", "type": "message", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": "I stårt.", "annotations": [], "logprobs": []}]},
        {"id": "fc_7_2", "type": "function_call", "status": "completed", "call_id": "c1", "name": "spawn",
            "namespace": "agents", "arguments": "{\"a\":1}"},
        {"id": "ctc_7_3", "type": "custom_tool_call", "status": "completed", "call_id": "c2", "name": "patch",
            "input": "+é\n"},
    ]);
    for (protocol, wire, body) in answers() {
        let (stream, end) = streamed(protocol, &[wire.as_bytes()]);
        assert_eq!(end, Ok(()));
        let events = follow(&stream);
        let last = events.last().unwrap();
        assert_eq!(last["response"]["output"], output, "{}", protocol.name);
        assert_eq!(last["response"]["usage"]["total_tokens"], 17);
        assert_eq!(last["response"]["metadata"], json!({"a": "b"}));
        assert_eq!(last["x_portcullis"], json!({"attempts": "a"}));
        for at in 0..wire.len() {
            let (one, other) = wire.as_bytes().split_at(at);
            assert_eq!(
                streamed(protocol, &[one, other]),
                (stream.clone(), Ok(())),
                "cut at {at}"
            );
        }
        let bytes: Vec<&[u8]> = wire.as_bytes().chunks(1).collect();
        assert_eq!(streamed(protocol, &bytes), (stream, Ok(())));

        let header = header();
        let recipient = Recipient {
            front: &RESPONSES,
            header: &header,
            options: options(REQUEST),
        };
        let (whole, _) = Dialect::from(protocol)
            .answer("m", &recipient, body.as_bytes())
            .unwrap();
        let whole: Json = serde_json::from_slice(&whole.body).unwrap();
        assert_eq!(whole, last["response"], "{}", protocol.name);
        let (converted, _) = Dialect::from(protocol)
            .converted("m", &recipient, body.as_bytes())
            .unwrap();
        let events = follow(&String::from_utf8(converted.body).unwrap());
        assert_eq!(events.last().unwrap()["response"], whole);
    }
}

#[test]
fn a_stream_that_was_cut_never_looks_whole() {
    for (protocol, wire, _) in answers() {
        let end = wire
            .find("\"finish_reason\":\"tool_calls\"")
            .or(wire.find("event: message_delta"))
            .unwrap();
        for at in (0..end).step_by(7) {
            let (stream, end) = streamed(protocol, &[&wire.as_bytes()[..at]]);
            assert!(
                end.is_err() && !stream.contains("response.completed"),
                "cut at {at}"
            );
        }
    }
}

#[test]
fn events_of_the_end_do_not_count_as_shown() {
    for (protocol, wire, _) in answers() {
        let header = header();
        let recipient = Recipient {
            front: &RESPONSES,
            header: &header,
            options: options(REQUEST),
        };
        let mut stream = Dialect::from(protocol).stream("m", recipient, 1 << 20);
        let mut out = Vec::new();
        stream.feed(wire.as_bytes(), &mut out).unwrap();
        let before_end = String::from_utf8_lossy(&out).matches("\n\n").count() as u64;
        assert_eq!(stream.so_far().events, before_end);
        stream.finish(&mut out, None).unwrap();
        let all = String::from_utf8_lossy(&out).matches("\n\n").count() as u64;
        assert!(all > before_end, "{}", protocol.name);
        assert_eq!(stream.so_far().events, before_end, "{}", protocol.name);
    }
}

#[test]
fn a_writer_without_an_echo_writes_all_the_same() {
    for writer in [
        ResponseWriter::whole(&header()),
        ResponseWriter::stream(&header()),
    ] {
        let draft = Draft::new(&header(), AnswerOptions::default(), Box::new(writer));
        let (answer, _) = draft
            .whole(|emit| {
                emit(call("c", "f"));
                Ok(())
            })
            .unwrap();
        assert!(
            String::from_utf8(answer.body)
                .unwrap()
                .contains(r#""name":"f","arguments":"{}""#)
        );
    }
}
