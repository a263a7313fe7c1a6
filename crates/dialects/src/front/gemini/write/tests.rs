use serde_json::Value;

use super::calls::MAX_WAITING_BYTES;
use super::*;
use crate::front::{AnswerSoFar, Front, GEMINI, GEMINI_ARRAY};
use crate::neutral::answer::AnswerOptions;
use crate::neutral::usage::Usage;
use crate::neutral::{AnswerFault, StreamFault, Undo};
use crate::upstream::{anthropic, openai};
use crate::{Dialect, Recipient};

fn header() -> AnswerHeader {
    AnswerHeader {
        model: "callers".into(),
        id: "0123456789ab".into(),
        ..AnswerHeader::default()
    }
}

fn recipient<'h>(front: &'static Front, header: &'h AnswerHeader) -> Recipient<'h> {
    let names = vec![("read_file".to_owned(), "read.file".to_owned())];
    let options = AnswerOptions {
        undo: Undo {
            names,
            ..Undo::default()
        },
        ..AnswerOptions::default()
    };
    Recipient {
        front,
        header,
        options,
    }
}

/// A stream that came in pieces of this many bytes.
fn streamed(
    dialect: &Dialect,
    front: &'static Front,
    wire: &str,
    bytes: usize,
) -> (String, Result<Usage, StreamFault>) {
    let header = header();
    let mut stream = dialect.stream("m", recipient(front, &header), 8 << 20);
    let mut out = Vec::new();
    let fed = wire
        .as_bytes()
        .chunks(bytes)
        .try_for_each(|piece| stream.feed(piece, &mut out));
    let end = fed.and_then(|()| stream.finish(&mut out, None));
    (String::from_utf8(out).unwrap(), end)
}

fn whole(dialect: &Dialect, body: &str) -> Result<Value, AnswerFault> {
    let header = header();
    let (answer, _) = dialect.answer("m", &recipient(&GEMINI, &header), body.as_bytes())?;
    Ok(serde_json::from_slice(&answer.body).unwrap())
}

/// The chunks of a stream of events, which holds nothing else.
fn chunks(events: &str) -> Vec<Value> {
    let events: Vec<&str> = events.split_terminator("\n\n").collect();
    let data = |event: &&str| {
        serde_json::from_str(event.strip_prefix("data: ").expect("data")).expect("JSON")
    };
    assert!(
        events.iter().all(|event| !event.contains('\n')),
        "{events:?}"
    );
    events.iter().map(data).collect()
}

/// Returns the answer that chunks add up to: neighbouring texts of one kind are joined, and empty
/// ones are dropped.
fn joined(chunks: &[Value]) -> Value {
    let mut whole = chunks.last().cloned().unwrap();
    for at in 0..whole["candidates"].as_array().unwrap().len() {
        let mut parts: Vec<Value> = Vec::new();
        let all = chunks
            .iter()
            .flat_map(|chunk| chunk["candidates"].as_array().unwrap());
        let own = all
            .filter(|candidate| candidate["index"] == at)
            .flat_map(|candidate| {
                assert_eq!(candidate["content"]["role"], "model");
                candidate["content"]["parts"].as_array().unwrap()
            });
        for part in own.filter(|part| part["text"] != "") {
            match parts.last_mut() {
                Some(last)
                    if last["text"].is_string()
                        && part["text"].is_string()
                        && last["thought"] == part["thought"] =>
                {
                    last["text"] = format!(
                        "{}{}",
                        last["text"].as_str().unwrap(),
                        part["text"].as_str().unwrap()
                    )
                    .into();
                }
                _ => parts.push(part.clone()),
            }
        }
        if parts.is_empty() {
            parts.push(serde_json::json!({"text": ""}));
        }
        whole["candidates"][at]["content"]["parts"] = parts.into();
    }
    whole
}

fn chat(deltas: &[&str], finish: &str) -> String {
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{{delta}}},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let mut wire: String = deltas.iter().map(|delta| chunk(delta, "null")).collect();
    wire.push_str(&chunk("", &format!("\"{finish}\"")));
    wire.push_str("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":30,\"total_tokens\":39,\"prompt_tokens_details\":{\"cached_tokens\":4},\"completion_tokens_details\":{\"reasoning_tokens\":20}}}\n\ndata: [DONE]\n\n");
    wire
}

const CALLS: [&str; 7] = [
    r#""role":"assistant","reasoning_content":"Hm, ""#,
    r#""reasoning_content":"well.""#,
    r#""content":"I ""#,
    r#""content":"look é.""#,
    r#""tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"read_file","arguments":"{\"pa"}}]"#,
    r#""tool_calls":[{"index":0,"function":{"arguments":"th\":\n\"a\"}"}}]"#,
    r#""tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"list","arguments":"{}"}}]"#,
];

const CALLED: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"tool_calls",
    "message":{"role":"assistant","reasoning_content":"Hm, well.","content":"I look é.","tool_calls":[
        {"id":"call_1","type":"function","function":{"name":"read_file","arguments":"{\"path\":\n\"a\"}"}},
        {"id":"call_2","type":"function","function":{"name":"list","arguments":"{}"}}]}}],
    "usage":{"prompt_tokens":9,"completion_tokens":30,"total_tokens":39,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":20}}}"#;

#[test]
fn a_stream_is_chunks_and_a_call_comes_whole() {
    let (out, end) = streamed(
        &Dialect::from(&openai::PROTOCOL),
        &GEMINI,
        &chat(&CALLS, "tool_calls"),
        usize::MAX,
    );
    end.unwrap();
    let tail = r#","modelVersion":"callers","responseId":"0123456789ab"}"#;
    let part = |part: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{part}],\"role\":\"model\"}},\"index\":0}}]{tail}\n\n"
        )
    };
    let expected = [
        part(r#"{"text":"Hm, ","thought":true}"#),
        part(r#"{"text":"well.","thought":true}"#),
        part(r#"{"text":"I "}"#),
        part(r#"{"text":"look é."}"#),
        part(r#"{"functionCall":{"id":"call_1","name":"read.file","args":{"path": "a"}}}"#),
        format!(
            "data: {}{}{tail}\n\n",
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"id":"call_2","name":"list","args":{}}}],"role":"model"},"finishReason":"STOP","index":0}]"#,
            r#","usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":10,"thoughtsTokenCount":20,"cachedContentTokenCount":4,"totalTokenCount":39}"#
        ),
    ];
    assert_eq!(out, expected.concat());
}

#[test]
fn a_stream_says_what_a_whole_answer_says() {
    let dialect = Dialect::from(&openai::PROTOCOL);
    let (out, _) = streamed(&dialect, &GEMINI, &chat(&CALLS, "tool_calls"), usize::MAX);
    assert_eq!(joined(&chunks(&out)), whole(&dialect, CALLED).unwrap());
    let header = header();
    let (converted, _) = dialect
        .converted("m", &recipient(&GEMINI, &header), CALLED.as_bytes())
        .unwrap();
    let converted = String::from_utf8(converted.body).unwrap();
    assert_eq!(
        joined(&chunks(&converted)),
        whole(&dialect, CALLED).unwrap()
    );
}

#[test]
fn however_a_stream_is_cut_it_says_the_same() {
    let dialect = Dialect::from(&openai::PROTOCOL);
    let wire = chat(&CALLS, "tool_calls");
    for front in [&GEMINI, &GEMINI_ARRAY] {
        let (expected, _) = streamed(&dialect, front, &wire, usize::MAX);
        for bytes in 1..40 {
            assert_eq!(
                streamed(&dialect, front, &wire, bytes).0,
                expected,
                "{bytes}"
            );
        }
        let header = header();
        for cut in 0..wire.len() {
            let mut stream = dialect.stream("m", recipient(front, &header), 1 << 20);
            let mut out = Vec::new();
            stream.feed(&wire.as_bytes()[..cut], &mut out).unwrap();
            assert!(expected.as_bytes().starts_with(&out), "{cut}");
            stream.feed(&wire.as_bytes()[cut..], &mut out).unwrap();
            stream.finish(&mut out, None).unwrap();
            assert_eq!(out, expected.as_bytes(), "{cut}");
        }
    }
}

#[test]
fn an_array_has_the_same_chunks() {
    let dialect = Dialect::from(&openai::PROTOCOL);
    let wire = chat(&CALLS, "tool_calls");
    let (array, end) = streamed(&dialect, &GEMINI_ARRAY, &wire, 7);
    end.unwrap();
    let array: Vec<Value> = serde_json::from_str(&array).unwrap();
    assert_eq!(array, chunks(&streamed(&dialect, &GEMINI, &wire, 7).0));
}

#[test]
fn a_broken_array_ends_with_the_error() {
    let dialect = Dialect::from(&openai::PROTOCOL);
    let wire = chat(&CALLS[..3], "stop");
    let error = |has_begun| {
        let error = crate::front::CallerError {
            status: 502,
            kind: "",
            code: None,
            param: None,
            message: "cut",
            request_id: "",
            retry_after: None,
            answer: AnswerSoFar {
                has_begun,
                ..AnswerSoFar::default()
            },
        };
        String::from_utf8((GEMINI_ARRAY.errors.final_event)(&error)).unwrap()
    };
    let (begun, _) = streamed(
        &dialect,
        &GEMINI_ARRAY,
        wire.split_inclusive("\n\n").next().unwrap(),
        1,
    );
    let keepalive = str::from_utf8(GEMINI_ARRAY.stream_frame.keepalive).unwrap();
    let array: Vec<Value> =
        serde_json::from_str(&format!("{keepalive}{begun}{keepalive}{}", error(true))).unwrap();
    assert_eq!(
        (array.len(), array[1]["error"]["code"].as_u64()),
        (2, Some(502))
    );
    let array: Vec<Value> = serde_json::from_str(&format!("{keepalive}{}", error(false))).unwrap();
    assert_eq!(array.len(), 1);
}

#[test]
fn ends_have_googles_words() {
    let dialect = Dialect::from(&openai::PROTOCOL);
    for (finish, reason) in [
        ("stop", "STOP"),
        ("length", "MAX_TOKENS"),
        ("content_filter", "SAFETY"),
    ] {
        let (out, end) = streamed(
            &dialect,
            &GEMINI,
            &chat(&[r#""content":"a""#], finish),
            usize::MAX,
        );
        end.unwrap();
        let chunks = chunks(&out);
        let (last, before) = chunks.split_last().unwrap();
        assert_eq!(last["candidates"][0]["finishReason"], reason);
        assert_eq!(last["candidates"][0]["content"]["parts"][0]["text"], "");
        assert!(
            before
                .iter()
                .all(|chunk| chunk["candidates"][0]["finishReason"].is_null())
        );
    }
}

#[test]
fn a_call_that_was_cut_is_not_written() {
    let dialect = Dialect::from(&openai::PROTOCOL);
    for arguments in [r#"{\"path\":"#, ""] {
        let call = format!(
            r#""tool_calls":[{{"index":0,"id":"a","type":"function","function":{{"name":"f","arguments":"{arguments}"}}}}]"#
        );
        let (out, end) = streamed(
            &dialect,
            &GEMINI,
            &chat(&[r#""content":"a""#, &call], "length"),
            usize::MAX,
        );
        end.unwrap();
        assert!(
            !out.contains("functionCall") && out.contains("MAX_TOKENS"),
            "{out}"
        );
    }
}

#[test]
fn arguments_that_are_no_object_are_never_written() {
    let dialect = Dialect::from(&openai::PROTOCOL);
    let call = r#""tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"path\":"}}]"#;
    let (out, end) = streamed(
        &dialect,
        &GEMINI,
        &chat(&[r#""content":"a""#, call], "tool_calls"),
        usize::MAX,
    );
    assert!(matches!(end, Err(StreamFault::Broken(_))), "{end:?}");
    assert!(
        !out.contains("functionCall") && !out.contains("finishReason"),
        "{out}"
    );
    let body = CALLED.replace(r#""arguments":"{}""#, r#""arguments":"{]""#);
    assert!(matches!(
        whole(&dialect, &body),
        Err(AnswerFault::Nonsense(_))
    ));
    let none = CALLED.replace(r#""arguments":"{}""#, r#""arguments":"""#);
    let parts = whole(&dialect, &none).unwrap()["candidates"][0]["content"]["parts"].clone();
    assert_eq!(
        parts.as_array().unwrap().last().unwrap()["functionCall"]["args"],
        serde_json::json!({})
    );
}

#[test]
fn arguments_do_not_grow_without_bound() {
    let dialect = Dialect::from(&openai::PROTOCOL);
    let text = "x".repeat(MAX_WAITING_BYTES / 4);
    let first = r#""tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"a\":\""}}]"#;
    let more = format!(r#""tool_calls":[{{"index":0,"function":{{"arguments":"{text}"}}}}]"#);
    let (_, end) = streamed(
        &dialect,
        &GEMINI,
        &chat(&[first, &more, &more, &more, &more], "tool_calls"),
        usize::MAX,
    );
    assert_eq!(
        end,
        Err(StreamFault::Broken(
            "the arguments of the calls are too large"
        ))
    );
}

#[test]
fn thoughts_are_shown_only_to_those_who_ask() {
    let header = AnswerHeader {
        hide_thoughts: true,
        ..header()
    };
    let dialect = Dialect::from(&openai::PROTOCOL);
    let (answer, _) = dialect
        .answer("m", &recipient(&GEMINI, &header), CALLED.as_bytes())
        .unwrap();
    let answer = String::from_utf8(answer.body).unwrap();
    assert!(
        !answer.contains("thought\"") && answer.contains("I look"),
        "{answer}"
    );
}

#[test]
fn several_choices_are_candidates() {
    let body = r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[
        {"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"a"}},
        {"index":1,"finish_reason":"length","message":{"role":"assistant","content":"b"}}],
        "usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}"#;
    let dialect = Dialect::from(&openai::PROTOCOL);
    let answer = whole(&dialect, body).unwrap();
    let texts: Vec<&Value> = answer["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["content"]["parts"][0]["text"])
        .collect();
    assert_eq!(texts, ["a", "b"]);
    let header = header();
    let (converted, _) = dialect
        .converted("m", &recipient(&GEMINI, &header), body.as_bytes())
        .unwrap();
    assert_eq!(
        joined(&chunks(&String::from_utf8(converted.body).unwrap())),
        answer
    );
}

const CLAUDE: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[
    {"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"text","text":"Look."},
    {"type":"tool_use","id":"t1","name":"read_file","input":{"path":"a"}},
    {"type":"text","text":"And."},{"type":"tool_use","id":"t2","name":"list","input":{}}],
    "stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":7}}"#;

#[test]
fn claudes_answer_keeps_its_order() {
    let dialect = Dialect::from(&anthropic::PROTOCOL);
    let answer = whole(&dialect, CLAUDE).unwrap();
    assert_eq!(
        answer["candidates"][0]["content"]["parts"],
        serde_json::json!([
            {"text": "Hm.", "thought": true},
            {"text": "Look."},
            {"functionCall": {"id": "t1", "name": "read.file", "args": {"path": "a"}}},
            {"text": "And."},
            {"functionCall": {"id": "t2", "name": "list", "args": {}}},
        ])
    );
    assert_eq!(
        answer["usageMetadata"],
        serde_json::json!({"promptTokenCount": 5, "candidatesTokenCount": 7, "totalTokenCount": 12})
    );
    let event = |name: &str, data: &str| format!("event: {name}\ndata: {data}\n\n");
    let start = |index: u32, block: &str| {
        event(
            "content_block_start",
            &format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#),
        )
    };
    let delta = |index: u32, delta: &str| {
        event(
            "content_block_delta",
            &format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#),
        )
    };
    let stop = |index: u32| {
        event(
            "content_block_stop",
            &format!(r#"{{"type":"content_block_stop","index":{index}}}"#),
        )
    };
    let wire = [
        event("message_start", r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":5,"output_tokens":1}}}"#),
        start(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        delta(0, r#"{"type":"thinking_delta","thinking":"Hm."}"#),
        delta(0, r#"{"type":"signature_delta","signature":"s"}"#),
        stop(0),
        start(1, r#"{"type":"text","text":""}"#),
        delta(1, r#"{"type":"text_delta","text":"Lo"}"#),
        delta(1, r#"{"type":"text_delta","text":"ok."}"#),
        stop(1),
        start(2, r#"{"type":"tool_use","id":"t1","name":"read_file","input":{}}"#),
        delta(2, r#"{"type":"input_json_delta","partial_json":"{\"path\":"}"#),
        delta(2, r#"{"type":"input_json_delta","partial_json":"\"a\"}"}"#),
        stop(2),
        start(3, r#"{"type":"text","text":""}"#),
        delta(3, r#"{"type":"text_delta","text":"And."}"#),
        stop(3),
        start(4, r#"{"type":"tool_use","id":"t2","name":"list","input":{}}"#),
        stop(4),
        event("message_delta", r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":7}}"#),
        event("message_stop", r#"{"type":"message_stop"}"#),
    ]
    .concat();
    let (expected, end) = streamed(&dialect, &GEMINI, &wire, usize::MAX);
    end.unwrap();
    assert_eq!(joined(&chunks(&expected)), answer);
    for bytes in 1..wire.len() {
        assert_eq!(
            streamed(&dialect, &GEMINI, &wire, bytes).0,
            expected,
            "{bytes}"
        );
    }
    let (_, end) = streamed(&dialect, &GEMINI, &wire[..wire.len() / 2], usize::MAX);
    assert_eq!(end, Err(StreamFault::Cut));
}

#[test]
fn nothing_but_data_is_ever_in_a_stream() {
    let late = (GEMINI.stream_frame.late_header)("x-portcullis-dropped", "a, \"b\"");
    assert_eq!(
        late,
        "data: {\"x_portcullis\":{\"dropped\":\"a, \\\"b\\\"\"}}\n\n"
    );
    assert_eq!(
        (GEMINI_ARRAY.stream_frame.late_header)("x-portcullis-dropped", "a"),
        ""
    );
    assert_eq!(
        (
            GEMINI.stream_frame.keepalive,
            GEMINI_ARRAY.stream_frame.keepalive
        ),
        (&b"\n"[..], &b"\n"[..])
    );
    assert_eq!(
        (
            GEMINI.stream_frame.content_type,
            GEMINI_ARRAY.stream_frame.content_type
        ),
        ("text/event-stream", "application/json")
    );
}
