#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "of most events a test shows what they are"
)]

//! Events are written short: `"a"` is text, `hm?` thinking, `f#1(…)` a call with its arguments as
//! they are emitted, piece by piece.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::dialect::Dialect;
use crate::front::{CHAT, MESSAGES};
use crate::neutral::answer::AnswerOptions;
use crate::neutral::usage::Source;
use crate::neutral::{Answer, AnswerFault, AnswerHeader, StreamFault};
use crate::upstream::openai::PROTOCOL;
use crate::{Recipient, Stream};

fn short(event: &Event<'_>) -> String {
    match event {
        Event::Text(0, text) => format!("{text:?}"),
        Event::Reasoning(0, text) => format!("{text}?"),
        Event::Refusal(0, text) => format!("{text}!"),
        Event::Call {
            choice: 0,
            id,
            name,
            ..
        } => format!("{name}#{}", id.unwrap_or("-")),
        Event::Arguments(0, text) => format!("({text})"),
        Event::Media(0, mime, data) => format!("{mime}:{data}"),
        Event::Finish(0, finish) => format!("{finish:?}").to_lowercase(),
        Event::End => "end".to_owned(),
        Event::Text(..)
        | Event::Reasoning(..)
        | Event::Refusal(..)
        | Event::Call { .. }
        | Event::Arguments(..)
        | Event::Media(..)
        | Event::Citation(..)
        | Event::Finish(..)
        | Event::Id(_)
        | Event::Signed(_)
        | Event::Redacted(_)
        | Event::Usage(_)
        | Event::Units(_) => format!("{event:?}"),
    }
}

/// Returns the events without those that have no content.
fn shorts(
    tell: impl FnOnce(Emit<'_>) -> Result<(), &'static str>,
) -> (String, Result<(), &'static str>) {
    let mut told = Vec::new();
    let read = tell(&mut |event| {
        if !matches!(
            event,
            Event::Text(_, "")
                | Event::Reasoning(_, "")
                | Event::Refusal(_, "")
                | Event::Arguments(_, "")
        ) {
            told.push(short(&event));
        }
    });
    (told.join(" "), read)
}

/// A chunk of the first choice.
fn chunk(delta: &Value) -> String {
    format!(
        "data: {}\n\n",
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
    )
}

fn of_chunks(deltas: &[Value], reason: &str) -> (String, Result<(), &'static str>) {
    let mut chunks = StandardChunks::default();
    let end = format!(
        "data: {}\n\ndata: [DONE]\n\n",
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    );
    shorts(|emit| {
        deltas
            .iter()
            .try_for_each(|delta| chunks.read_events(chunk(delta).as_bytes(), emit))?;
        chunks.read_events(end.as_bytes(), emit)?;
        chunks.end(emit);
        Ok(())
    })
}

/// The first fragment of a call, which has its name.
fn begins(index: u32, id: &str, name: &str, arguments: &str) -> Value {
    json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]})
}

fn goes_on(index: u32, arguments: &str) -> Value {
    json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
}

fn content(text: &str) -> Value {
    json!({"content": text})
}

#[track_caller]
fn check(deltas: &[Value], expected: &str) {
    let (told, read) = of_chunks(deltas, "stop");
    assert_eq!(
        (told.as_str(), read),
        (format!("{expected} stop end").trim_start(), Ok(()))
    );
}

#[test]
fn texts_and_calls_are_told_as_they_come() {
    check(&[], "");
    check(
        &[
            json!({"role": "assistant", "content": ""}),
            json!({"reasoning_content": "hm"}),
            content("a"),
            content("b"),
        ],
        r#"hm? "a" "b""#,
    );
    check(&[json!({"refusal": "no"})], "no!");
    check(
        &[json!({"content": "b", "reasoning_content": "a", "refusal": "c"})],
        r#"a? "b" c!"#,
    );
    check(
        &[
            begins(0, "a", "f", ""),
            goes_on(0, "{\"x\":"),
            goes_on(0, "1}"),
        ],
        "f#a ({\"x\":) (1})",
    );
    check(
        &[content("Well."), begins(0, "a", "f", "{}")],
        r#""Well." f#a ({})"#,
    );
    let picture = |url: &str| json!({"images": [{"type": "image_url", "image_url": {"url": url}}]});
    check(&[picture("data:image/png;base64,AA")], "image/png:AA");
    check(&[picture("https://example.com/x.png")], "");
    // Values that are no list of pictures.
    for odd in [
        json!("x"),
        json!([7]),
        json!({"url": "x"}),
        json!([{"image_url": "x"}]),
        json!(null),
        json!([{}]),
    ] {
        check(&[json!({"content": "a", "images": odd})], r#""a""#);
    }
    check(
        &[json!({"content": null, "reasoning_content": null, "refusal": null, "tool_calls": null})],
        "",
    );
}

#[test]
fn every_end_has_its_reason() {
    for (reason, told) in [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "filtered"),
        ("tool_calls", "calls"),
        ("function_call", "calls"),
        ("eos", "stop"),
    ] {
        assert_eq!(
            of_chunks(&[content("a")], reason).0,
            format!("\"a\" {told} end")
        );
    }
}

/// The name is whole once the arguments begin.
#[test]
fn a_name_may_come_in_pieces() {
    check(
        &[
            begins(0, "a", "get_", ""),
            begins(0, "", "time", ""),
            goes_on(0, "{}"),
        ],
        "get_time#a ({})",
    );
    check(
        &[begins(0, "a", "get_", ""), begins(0, "", "time", "")],
        "get_time#a",
    );
}

#[test]
fn a_call_is_told_once_the_previous_is_whole() {
    let mut chunks = StandardChunks::default();
    let mut feed =
        |delta: Value| shorts(|emit| chunks.read_events(chunk(&delta).as_bytes(), emit)).0;
    assert_eq!(feed(begins(0, "a", "f", "")), "");
    assert_eq!(feed(goes_on(0, "{\"x\":")), "f#a ({\"x\":)");
    assert_eq!(feed(begins(1, "b", "g", "{")), "");
    assert_eq!(feed(goes_on(0, "1}")), "(1}) g#b ({)");
    assert_eq!(feed(goes_on(1, "}")), "(})");
    assert_eq!(feed(content("and")), "\"and\"");
    assert_eq!(feed(begins(2, "c", "h", "{}")), "h#c ({})");
    assert_eq!(feed(goes_on(0, " \n")), "");
}

#[test]
fn calls_at_once_are_told_one_after_another() {
    check(
        &[
            begins(0, "a", "f", ""),
            begins(1, "b", "g", ""),
            begins(2, "c", "h", ""),
            goes_on(1, "{\"y\":"),
            goes_on(0, "{\"x\":"),
            goes_on(2, "{}"),
            goes_on(1, "2}"),
            goes_on(0, "1}"),
        ],
        "f#a ({\"x\":) (1}) g#b ({\"y\":2}) h#c ({})",
    );
    // One that never gets arguments holds up the others until the end.
    check(
        &[begins(0, "a", "f", ""), begins(1, "b", "g", "{}")],
        "f#a g#b ({})",
    );
    // Several in one chunk.
    check(
        &[json!({"tool_calls": [
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}},
            {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}},
        ]})],
        "f#a ({}) g#b ({})",
    );
}

#[test]
fn words_amid_a_call_wait_for_its_end() {
    check(
        &[
            begins(0, "a", "f", "{\"x\":"),
            content("I "),
            content("look."),
            json!({"reasoning_content": "hm"}),
            json!({"refusal": "no"}),
            json!({"images": [{"image_url": {"url": "data:image/png;base64,AA"}}, {"image_url": {"url": "data:image/gif;base64,BB"}}]}),
            begins(1, "b", "g", "{}"),
            goes_on(0, "1}"),
            content("Done."),
        ],
        r#"f#a ({"x":) (1}) "I look." hm? no! image/png:AA image/gif:BB g#b ({}) "Done.""#,
    );
    // If it has none, for the answer's.
    check(
        &[begins(0, "a", "f", "{\"x\":"), content("cut")],
        r#"f#a ({"x":) "cut""#,
    );
    check(&[begins(0, "a", "f", ""), content("bare")], r#"f#a "bare""#);
}

#[test]
fn a_whole_call_does_not_go_on() {
    let (told, read) = of_chunks(&[begins(0, "a", "f", "{}"), goes_on(0, "{}")], "stop");
    assert_eq!(
        (told.as_str(), read),
        (
            "f#a ({})",
            Err("a call goes on after its arguments are whole")
        )
    );
}

#[test]
fn what_waits_is_bounded() {
    let much = "x".repeat(1 << 20);
    let at_once: Vec<Value> = (0..129).map(|index| begins(index, "", "f", "")).collect();
    assert_eq!(
        of_chunks(&at_once, "stop").1,
        Err("more than 128 tool calls")
    );
    let texts = [vec![begins(0, "a", "f", "{")], vec![content(&much); 4]].concat();
    assert_eq!(
        of_chunks(&texts, "stop").1,
        Err("too much is said in the middle of a call")
    );
    let calls = [
        vec![begins(0, "a", "f", "{"), begins(1, "b", "g", "")],
        vec![goes_on(1, &much); 4],
    ]
    .concat();
    assert_eq!(
        of_chunks(&calls, "stop").1,
        Err("too much is said in the middle of a call")
    );
    // Words of every kind by turns are no way around it.
    let small = [
        vec![begins(0, "a", "f", "{")],
        vec![json!({"content": "x", "refusal": "y"}); 70_000],
    ]
    .concat();
    assert_eq!(
        of_chunks(&small, "stop").1,
        Err("too much is said in the middle of a call")
    );
    // Calls one after the other may be of any length, and so may the texts between them.
    let mut long: Vec<Value> = Vec::new();
    for index in 0..3 {
        long.push(begins(index, "", "f", "{\"x\":\""));
        long.extend(vec![goes_on(index, &much); 3]);
        long.push(goes_on(index, "\"}"));
        long.extend(vec![content(&much); 3]);
    }
    assert_eq!(of_chunks(&long, "stop").1, Ok(()));
    // So may be a single one, whose pieces do not wait.
    let single = [
        vec![begins(0, "", "f", "{\"x\":\"")],
        vec![goes_on(0, &much); 6],
        vec![goes_on(0, "\"}")],
    ]
    .concat();
    assert_eq!(of_chunks(&single, "stop").1, Ok(()));
}

#[test]
fn choices_do_not_mix() {
    let mut chunks = StandardChunks::default();
    let both = |first: Value, second: Value| {
        format!(
            "data: {}\n\n",
            json!({"choices": [{"index": 0, "delta": first}, {"index": 1, "delta": second}]})
        )
    };
    let (told, read) = shorts(|emit| {
        chunks.read_events(
            both(begins(0, "a", "f", "{"), begins(0, "b", "g", "{}")).as_bytes(),
            emit,
        )?;
        chunks.read_events(both(goes_on(0, "}"), content("x")).as_bytes(), emit)
    });
    assert_eq!(read, Ok(()));
    assert_eq!(
        told,
        r#"f#a ({) Call { choice: 1, id: Some("b"), name: "g", signature: None } Arguments(1, "{}") (}) Text(1, "x")"#
    );
    let far = format!(
        "data: {}\n\n",
        json!({"choices": [{"index": 128, "delta": {"content": "x"}}]})
    );
    assert_eq!(
        shorts(|emit| StandardChunks::default().read_events(far.as_bytes(), emit)).1,
        Err("more than 128 choices")
    );
}

#[test]
fn a_whole_answer_tells_what_a_stream_tells() {
    let whole = |message: Value, reason: &str| {
        let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": reason}]})
            .to_string();
        shorts(|emit| read_answer(body.as_bytes(), emit)).0
    };
    let call = |index: Value, id: &str| json!({"index": index, "id": id, "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}});
    assert_eq!(
        whole(
            json!({"role": "assistant", "reasoning_content": "hm", "content": "Well.", "tool_calls": [call(json!(0), "a"), call(json!(1), "b")]}),
            "tool_calls"
        ),
        r#"hm? "Well." f#a ({"x":1}) f#b ({"x":1}) calls end"#
    );
    // Whatever numbers a server gives the calls of a whole message.
    assert_eq!(
        whole(
            json!({"content": null, "tool_calls": [call(json!(0), "a"), call(json!(0), "b"), call(json!(null), "c")]}),
            "tool_calls"
        ),
        r#"f#a ({"x":1}) f#b ({"x":1}) f#c ({"x":1}) calls end"#
    );
    assert_eq!(whole(json!({"content": "a"}), "stop"), "\"a\" stop end");
    // A call of a tool that takes any text.
    assert_eq!(
        whole(
            json!({"content": null, "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "f", "input": "x y"}}]}),
            "stop"
        ),
        "f#a (x y) stop end"
    );
    assert_eq!(
        shorts(|emit| read_answer(b"{\"choices\":[7]}", emit)).1,
        Err("a chunk cannot be read")
    );
    assert_eq!(shorts(|emit| read_answer(b"{}", emit)).0, "end");
    // A delta next to the message only repeats it.
    let body = json!({"choices": [{"index": 0, "delta": {"content": "a"}, "message": {"content": "a"}, "finish_reason": "stop"}]});
    assert_eq!(
        shorts(|emit| read_answer(body.to_string().as_bytes(), emit)).0,
        "\"a\" stop end"
    );
}

// From a server's bytes to the bytes of a caller of Messages.

fn header() -> AnswerHeader {
    AnswerHeader {
        model: "fast".into(),
        id: "msg_1".into(),
        created: 9,
        prompt_bytes: 400,
        ..AnswerHeader::default()
    }
}

fn recipient<'h>(header: &'h AnswerHeader, options: &AnswerOptions) -> Recipient<'h> {
    Recipient {
        front: &MESSAGES,
        header,
        options: options.clone(),
    }
}

/// Returns the events of a stream that is read in these pieces.
fn streamed<'b>(
    options: &AnswerOptions,
    pieces: impl IntoIterator<Item = &'b [u8]>,
) -> (String, Result<Stream, StreamFault>) {
    let header = header();
    let mut stream = Dialect::from(&PROTOCOL).stream("gpt-x", recipient(&header, options), 1 << 20);
    let mut out = Vec::new();
    let fed = pieces
        .into_iter()
        .try_for_each(|piece| stream.feed(piece, &mut out));
    let ended = fed
        .and_then(|()| stream.finish(&mut out, None))
        .map(|_| stream);
    (String::from_utf8(out).unwrap(), ended)
}

fn answered(options: &AnswerOptions, body: &Value) -> Result<Answer, AnswerFault> {
    let header = header();
    Dialect::from(&PROTOCOL)
        .answer(
            "gpt-x",
            &recipient(&header, options),
            body.to_string().as_bytes(),
        )
        .map(|(answer, _)| answer)
}

/// The blocks of a stream, its reason and its usage.
fn blocks(stream: &str) -> (Vec<Value>, Value, Value) {
    let (mut blocks, mut reason, mut usage) = (Vec::<Value>::new(), Value::Null, Value::Null);
    for data in stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
    {
        let data: Value = serde_json::from_str(data).unwrap();
        match data["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!(data["index"], blocks.len(), "{stream}");
                blocks.push(data["content_block"].clone());
            }
            "content_block_delta" => {
                assert_eq!(data["index"], blocks.len() - 1, "{stream}");
                let block = blocks.last_mut().unwrap();
                let (key, piece) = data["delta"]
                    .as_object()
                    .unwrap()
                    .iter()
                    .find(|(key, _)| *key != "type")
                    .unwrap();
                block[key] = (block[key].as_str().unwrap_or_default().to_owned()
                    + piece.as_str().unwrap())
                .into();
            }
            "message_delta" => {
                (reason, usage) = (data["delta"]["stop_reason"].clone(), data["usage"].clone())
            }
            _ => {}
        }
    }
    for block in &mut blocks {
        if let Some(json) = block.as_object_mut().unwrap().remove("partial_json") {
            block["input"] = serde_json::from_str(json.as_str().unwrap()).unwrap();
        }
    }
    (blocks, reason, usage)
}

fn server(deltas: &[Value], reason: &str, usage: &Value) -> Vec<u8> {
    let mut stream: String = deltas.iter().map(chunk).collect();
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
    stream += &format!("data: {end}\n\n");
    if !usage.is_null() {
        stream += &format!("data: {}\n\n", json!({"choices": [], "usage": usage}));
    }
    (stream + "data: [DONE]\n\n").into_bytes()
}

fn parallel() -> Vec<u8> {
    server(
        &[
            json!({"role": "assistant", "content": "", "reasoning_content": "Both é."}),
            content("I look 😀 "),
            content("twice."),
            begins(0, "call_a", "time", ""),
            begins(1, "call_b", "weather", ""),
            goes_on(1, "{\"city\":"),
            goes_on(0, "{\"zone\":\"UTC\""),
            goes_on(1, "\"Oslo\"}"),
            goes_on(0, "}"),
            begins(2, "call_c", "now", ""),
        ],
        "tool_calls",
        &json!({"prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130,
            "prompt_tokens_details": {"cached_tokens": 64}, "completion_tokens_details": {"reasoning_tokens": 12}}),
    )
}

#[test]
fn calls_at_once_become_blocks_one_after_the_other() {
    let (stream, ended) = streamed(&AnswerOptions::default(), [&*parallel()]);
    assert!(ended.is_ok(), "{ended:?}");
    let (blocks, reason, usage) = blocks(&stream);
    assert_eq!(
        blocks,
        [
            json!({"type": "thinking", "thinking": "Both é.", "signature": ""}),
            json!({"type": "text", "text": "I look 😀 twice."}),
            json!({"type": "tool_use", "id": "call_a", "name": "time", "input": {"zone": "UTC"}}),
            json!({"type": "tool_use", "id": "call_b", "name": "weather", "input": {"city": "Oslo"}}),
            json!({"type": "tool_use", "id": "call_c", "name": "now", "input": {}}),
        ]
    );
    assert_eq!(reason, "tool_use");
    assert_eq!(
        usage,
        json!({"input_tokens": 36, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 64, "output_tokens": 30,
            "output_tokens_details": {"thinking_tokens": 12}})
    );
}

#[test]
fn however_a_stream_is_cut_the_same_comes_out() {
    let bytes = parallel();
    let (whole, _) = streamed(&AnswerOptions::default(), [&*bytes]);
    let (one_by_one, ended) = streamed(&AnswerOptions::default(), bytes.chunks(1));
    assert!(ended.is_ok());
    assert_eq!(one_by_one, whole);
    for at in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(at);
        assert_eq!(
            streamed(&AnswerOptions::default(), [head, tail]).0,
            whole,
            "cut at {at}"
        );
        // One that ends there never looks whole.
        let (said, ended) = streamed(&AnswerOptions::default(), [head]);
        match ended {
            Ok(_) => assert!(
                String::from_utf8_lossy(head).contains(r#""finish_reason":"tool_calls""#),
                "{at}"
            ),
            Err(_) => assert!(
                whole.starts_with(&said) && !said.contains("message_delta"),
                "{at}\n{said}"
            ),
        }
    }
}

#[test]
fn a_refusal_ends_a_message_with_its_own_reason() {
    let wire = server(
        &[
            json!({"role": "assistant", "refusal": "I "}),
            json!({"refusal": "will not."}),
        ],
        "stop",
        &Value::Null,
    );
    let (stream, ended) = streamed(&AnswerOptions::default(), [&*wire]);
    assert!(ended.unwrap().declined());
    let (blocks, reason, _) = blocks(&stream);
    assert_eq!(
        (blocks, reason),
        (
            vec![json!({"type": "text", "text": "I will not."})],
            json!("refusal")
        )
    );
    let answer = answered(
        &AnswerOptions::default(),
        &json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": null, "refusal": "I will not."}, "finish_reason": "stop"}]}),
    )
    .unwrap();
    assert!(answer.declined);
    let message: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(
        (&message["content"][0]["text"], &message["stop_reason"]),
        (&json!("I will not."), &json!("refusal"))
    );
}

#[test]
fn an_estimate_stays_one() {
    let wire = server(&[content("four byt")], "stop", &Value::Null);
    let (stream, ended) = streamed(&AnswerOptions::default(), [&*wire]);
    assert!(ended.is_ok());
    assert!(
        stream.contains(r#""x_portcullis":{"usage":"estimated"}"#),
        "{stream}"
    );
    let (_, _, usage) = blocks(&stream);
    assert_eq!(
        (&usage["input_tokens"], &usage["output_tokens"]),
        (&json!(100), &json!(2))
    );
    let body = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "four byt"}, "finish_reason": "stop"}]});
    let answer = answered(&AnswerOptions::default(), &body).unwrap();
    assert_eq!(
        (answer.usage.source, answer.usage.completion),
        (Source::Estimated, 2)
    );

    let counts = json!({"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9});
    let (stream, _) = streamed(
        &AnswerOptions::default(),
        [&*server(&[content("a")], "stop", &counts)],
    );
    assert!(!stream.contains("x_portcullis"), "{stream}");
}

#[test]
fn an_input_that_does_not_parse_ends_no_message() {
    let broken = server(
        &[
            content("x"),
            begins(0, "a", "f", "{\"x\":"),
            goes_on(0, "oops}"),
        ],
        "tool_calls",
        &Value::Null,
    );
    let (said, ended) = streamed(&AnswerOptions::default(), [&*broken]);
    assert_eq!(
        ended.err(),
        Some(StreamFault::Broken(
            "the arguments of a call are no JSON object"
        ))
    );
    assert!(!said.contains("message_delta"), "{said}");
    let body = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":oops}"}}]}, "finish_reason": "tool_calls"}]});
    assert_eq!(
        answered(&AnswerOptions::default(), &body).err(),
        Some(AnswerFault::Nonsense(
            "the arguments of a call are no JSON object"
        ))
    );
}

#[test]
fn thinking_is_hidden_where_it_is_not_shown() {
    let hides = AnswerOptions {
        hide_reasoning: true,
        ..AnswerOptions::default()
    };
    let wire = server(
        &[json!({"reasoning_content": "secret"}), content("a")],
        "stop",
        &Value::Null,
    );
    let (stream, ended) = streamed(&hides, [&*wire]);
    assert!(ended.is_ok() && !stream.contains("secret"), "{stream}");
    let body = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "a", "reasoning_content": "secret"}, "finish_reason": "stop"}]});
    assert!(
        !String::from_utf8(answered(&hides, &body).unwrap().body)
            .unwrap()
            .contains("secret")
    );
}

/// A delta of any kind.
fn delta() -> impl Strategy<Value = Value> {
    let piece = || {
        prop::sample::select(vec![
            "",
            "{",
            "}",
            "{}",
            "\"a\":",
            "1",
            "{\"a\":1}",
            " ",
            "null",
            "x",
        ])
    };
    let text = || "[a é\"\n]{0,3}";
    let call = (0u32..3, prop::option::of("[ab]"), prop::option::of("[fg]"), piece()).prop_map(|(index, id, name, piece)| {
        json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": piece}}]})
    });
    prop_oneof![
        3 => text().prop_map(|text| json!({"content": text})),
        1 => text().prop_map(|text| json!({"reasoning_content": text})),
        1 => text().prop_map(|text| json!({"refusal": text})),
        5 => call,
        1 => Just(json!({"images": [{"image_url": {"url": "data:image/png;base64,AA"}}]})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// For any chunks of a server, a caller of either format gets all of its text, and a caller of
    /// Messages no call that cannot be read.
    #[test]
    fn both_formats_tell_the_same(
        deltas in prop::collection::vec(delta(), 0..16),
        reason in prop::sample::select(vec!["stop", "tool_calls", "length"]),
    ) {
        let wire = server(&deltas, reason, &Value::Null);
        let (stream, ended) = streamed(&AnswerOptions::default(), [&*wire]);
        let header = AnswerHeader { id: "chatcmpl-1".into(), ..header() };
        let to = Recipient { front: &CHAT, header: &header, options: AnswerOptions::default() };
        let mut chat = Dialect::from(&PROTOCOL).stream("gpt-x", to, 1 << 20);
        let mut out = Vec::new();
        let passed = chat.feed(&wire, &mut out).and_then(|()| chat.finish(&mut out, None));
        let (Ok(_), Ok(_)) = (&ended, &passed) else {
            // A stream that passes may be too broken to be read.
            prop_assert!(ended.is_err(), "{passed:?}");
            return Ok(());
        };
        let mut expected = [String::new(), String::new()];
        for data in str::from_utf8(&out).unwrap().lines().filter_map(|line| line.strip_prefix("data: {")) {
            let data: Value = serde_json::from_str(&format!("{{{data}")).unwrap();
            for (key, to) in [("content", 0), ("refusal", 0), ("reasoning_content", 1)] {
                expected[to] += data["choices"][0]["delta"][key].as_str().unwrap_or_default();
            }
        }
        let mut found = [String::new(), String::new()];
        for data in stream.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let data: Value = serde_json::from_str(data).unwrap();
            found[0] += data["delta"]["text"].as_str().unwrap_or_default();
            found[1] += data["delta"]["thinking"].as_str().unwrap_or_default();
        }
        let sorted = |text: &str| {
            let mut all: Vec<char> = text.replace("[The model sent a picture here (image/png). This format cannot carry it.]", "").chars().collect();
            all.sort_unstable();
            all
        };
        for (expected, found) in expected.iter().zip(&found) {
            prop_assert_eq!(sorted(expected), sorted(found));
        }
        if reason != "length" {
            let (blocks, _, _) = blocks(&stream);
            prop_assert!(blocks.iter().all(|block| block["type"] != "tool_use" || block["input"].is_object()));
        }
    }
}

#[test]
fn half_a_character_is_replaced() {
    let told = shorts(|emit| {
        let mut chunks = StandardChunks::default();
        for text in [r#"a\ud83d"#, r#"\ude00b"#, r#"\ud83d\ude00"#] {
            let event =
                format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
            chunks.read_events(event.as_bytes(), emit)?;
        }
        Ok(())
    });
    assert_eq!(
        told,
        ("\"a\u{FFFD}\" \"\u{FFFD}b\" \"😀\"".to_owned(), Ok(()))
    );
    let broken = shorts(|emit| {
        StandardChunks::default().read_events(b"data: {\"choices\":[\"\\ud83d\"]}\n\n", emit)
    });
    assert_eq!(broken.1, Err("a chunk cannot be read"));
}
