//! The expected events of a stream are written short: `0 {"content":"a"}` is a chunk of choice 0
//! with that delta, `0 =stop` the chunk of its end.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::neutral::answer::{
    AnswerFacts, AnswerOptions, AnswerWriter, Draft, Kept, MAX_CALLS, MAX_HELD, MAX_KEPT,
};
use crate::neutral::usage::{Source, Usage};
use crate::neutral::{
    Answer, AnswerFault, AnswerHeader, Emit, Event, Finish, Flaws, StreamFault, Thought, Tokens,
    Undo,
};

const ROLE: &str = r#"0 {"role":"assistant","content":""}"#;
const STOP: Event<'_> = Event::Finish(0, Finish::Stop);

pub(crate) fn header(show_usage: bool) -> AnswerHeader {
    AnswerHeader {
        model: "fast".into(),
        id: "chatcmpl-0a".into(),
        created: 99,
        show_usage,
        prompt_bytes: 400,
        ..AnswerHeader::default()
    }
}

/// Everything is shown and kept.
pub(crate) fn options() -> AnswerOptions {
    AnswerOptions {
        keep_thoughts: true,
        ..AnswerOptions::default()
    }
}

fn formatted() -> AnswerOptions {
    AnswerOptions {
        undo: Undo {
            format_tool: Some("fmt".into()),
            ..Undo::default()
        },
        ..options()
    }
}

fn call<'a>(choice: u32, id: Option<&'a str>, name: &'a str) -> Event<'a> {
    Event::Call {
        choice,
        id,
        name,
        signature: None,
    }
}

/// A stream in the making.
#[derive(Debug)]
struct Chunks(Draft);

impl Chunks {
    fn new(header: &AnswerHeader, options: AnswerOptions) -> Self {
        Self(Draft::new(
            header,
            options,
            Box::new(super::ChunksWriter::new(header)),
        ))
    }

    fn take(&mut self, event: Event<'_>, out: &mut Vec<u8>) {
        self.0.take(event);
        out.append(self.0.out());
    }

    fn finish(&mut self, out: &mut Vec<u8>, trail: Option<&str>) -> Result<Usage, StreamFault> {
        let ended = self.0.end(trail);
        out.append(self.0.out());
        ended.map_err(StreamFault::Broken)
    }
}

type Written = Result<(Answer, Vec<Kept>), AnswerFault>;
type Tell<'t> = &'t dyn Fn(Emit<'_>) -> Result<(), AnswerFault>;

fn written(
    header: &AnswerHeader,
    options: AnswerOptions,
    writer: Box<dyn AnswerWriter>,
    tell: Tell<'_>,
) -> Written {
    Draft::new(header, options, writer).whole(tell)
}

fn answer(
    header: &AnswerHeader,
    options: AnswerOptions,
    tell: impl Fn(Emit<'_>) -> Result<(), AnswerFault>,
) -> Written {
    written(header, options, Box::new(WholeWriter::new(header)), &tell)
}

/// A buffered answer for who asked for a stream.
fn converted(
    header: &AnswerHeader,
    options: AnswerOptions,
    tell: impl Fn(Emit<'_>) -> Result<(), AnswerFault>,
) -> Written {
    written(
        header,
        options,
        Box::new(super::ChunksWriter::new(header)),
        &tell,
    )
}

/// The chunks of a stream that ends well, without `[DONE]`.
#[track_caller]
fn chunks(show_usage: bool, options: &AnswerOptions, events: &[Event<'_>]) -> (Vec<String>, Usage) {
    let mut chunks = Chunks::new(&header(show_usage), options.clone());
    let mut out = Vec::new();
    events
        .iter()
        .for_each(|event| chunks.take(event.clone(), &mut out));
    let usage = chunks.finish(&mut out, None).unwrap();
    let out = String::from_utf8(out).unwrap();
    conforms(&out, show_usage);
    (
        out.strip_suffix("data: [DONE]\n\n")
            .unwrap()
            .split_inclusive("\n\n")
            .map(str::to_owned)
            .collect(),
        usage,
    )
}

fn long(expected: &str) -> String {
    let (choice, delta) = expected.split_once(' ').unwrap();
    let (delta, reason) = match delta.strip_prefix('=') {
        Some(reason) => ("{}", format!("\"{reason}\"")),
        None => (delta, "null".to_owned()),
    };
    format!(
        "data: {{\"id\":\"chatcmpl-0a\",\"object\":\"chat.completion.chunk\",\"created\":99,\"model\":\"fast\",\"choices\":[{{\"index\":{choice},\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{reason}}}]}}\n\n"
    )
}

#[track_caller]
fn check_with(options: &AnswerOptions, events: &[Event<'_>], expected: &[&str]) {
    let (found, _) = chunks(false, options, events);
    assert_eq!(
        found,
        expected
            .iter()
            .map(|expected| long(expected))
            .collect::<Vec<_>>()
    );
}

#[track_caller]
fn check(events: &[Event<'_>], expected: &[&str]) {
    check_with(&options(), events, expected);
}

fn buffered(
    options: &AnswerOptions,
    events: &[Event<'_>],
) -> Result<(Answer, Vec<Kept>), AnswerFault> {
    answer(&header(false), options.clone(), |emit| {
        events.iter().for_each(|event| emit(event.clone()));
        Ok(())
    })
}

/// Checks the member `choices` of a buffered answer.
#[track_caller]
fn check_whole(options: &AnswerOptions, events: &[Event<'_>], choices: &str) {
    let (answer, _) = buffered(options, events).unwrap();
    let body = String::from_utf8(answer.body).unwrap();
    let start =
        r#"{"id":"chatcmpl-0a","object":"chat.completion","created":99,"model":"fast","choices":["#;
    let (found, _) = body
        .strip_prefix(start)
        .unwrap()
        .rsplit_once(r#"],"usage":{"#)
        .unwrap();
    assert_eq!(found, choices);
}

/// Whether this is a stream as clients need it, `[DONE]` included.
#[track_caller]
pub(crate) fn conforms(out: &str, show_usage: bool) {
    #[derive(Default)]
    struct Seen {
        role: bool,
        finished: bool,
        calls: usize,
        lists: [usize; 2],
    }
    let events = out
        .strip_suffix("data: [DONE]\n\n")
        .expect("[DONE] comes last");
    assert!(!events.contains("[DONE]\n\n"));
    let mut seen: Vec<Seen> = Vec::new();
    let mut ids = std::collections::HashSet::new();
    let mut head = None;
    let mut usages = 0;
    for event in events.split_inclusive("\n\n") {
        let data = event
            .strip_prefix("data: ")
            .expect("data only")
            .strip_suffix("\n\n")
            .expect("whole");
        assert!(!data.contains(['\n', '\r']));
        let chunk: Value = serde_json::from_str(data).expect("JSON");
        let found = [
            &chunk["id"],
            &chunk["object"],
            &chunk["created"],
            &chunk["model"],
        ]
        .map(Clone::clone);
        assert!(found[0].as_str().unwrap().starts_with("chatcmpl-"));
        assert_eq!(
            found[1..],
            [json!("chat.completion.chunk"), json!(99), json!("fast")]
        );
        assert_eq!(
            *head.get_or_insert(found.clone()),
            found,
            "the head never changes"
        );
        assert_eq!(usages, 0, "usage is last");
        let choices = chunk["choices"].as_array().expect("choices");
        if choices.is_empty() {
            usages += 1;
            let usage = &chunk["usage"];
            let sum = usage["prompt_tokens"].as_u64().unwrap()
                + usage["completion_tokens"].as_u64().unwrap();
            assert_eq!(usage["total_tokens"], sum);
            continue;
        }
        assert_eq!(chunk.get("usage"), show_usage.then_some(&Value::Null));
        let [choice] = choices.as_slice() else {
            panic!("one choice a chunk")
        };
        assert_eq!(choice["logprobs"], Value::Null);
        let index = usize::try_from(choice["index"].as_u64().unwrap()).unwrap();
        assert!(index <= seen.len(), "choices appear in order");
        if index == seen.len() {
            seen.push(Seen::default());
        }
        let seen = &mut seen[index];
        assert!(!seen.finished, "nothing follows the finish");
        let delta = choice["delta"].as_object().expect("a delta");
        if !std::mem::replace(&mut seen.role, true) {
            assert_eq!(
                choice["delta"],
                json!({"role": "assistant", "content": ""}),
                "the role comes first"
            );
            continue;
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            assert!(["stop", "length", "tool_calls", "content_filter"].contains(&reason));
            assert!(reason != "tool_calls" || seen.calls > 0);
            assert!(reason != "stop" || seen.calls == 0);
            assert!(delta.is_empty());
            seen.finished = true;
            continue;
        }
        assert_eq!(choice["finish_reason"], Value::Null);
        assert_eq!(delta.len(), 1, "one thing a chunk: {data}");
        for (key, value) in delta {
            let entry = || match value.as_array().expect("a list").as_slice() {
                [entry] => entry.clone(),
                _ => panic!("one entry a chunk"),
            };
            match key.as_str() {
                "content" | "reasoning_content" | "refusal" => {
                    assert_ne!(value.as_str().unwrap(), "")
                }
                "tool_calls" => {
                    let entry = entry();
                    let number = usize::try_from(entry["index"].as_u64().unwrap()).unwrap();
                    if number < seen.calls {
                        assert_eq!(number + 1, seen.calls, "only the last call goes on");
                        assert_eq!(
                            entry,
                            json!({"index": number, "function": {"arguments": entry["function"]["arguments"]}})
                        );
                        assert_ne!(entry["function"]["arguments"].as_str().unwrap(), "");
                        continue;
                    }
                    assert_eq!(number, seen.calls, "calls are contiguous");
                    seen.calls += 1;
                    assert!(
                        ids.insert(entry["id"].as_str().unwrap().to_owned()),
                        "ids differ"
                    );
                    assert_ne!(entry["id"], "");
                    assert_ne!(entry["function"]["name"].as_str().unwrap(), "");
                    assert_eq!(
                        (&entry["type"], &entry["function"]["arguments"]),
                        (&json!("function"), &json!(""))
                    );
                }
                "images" | "files" => {
                    let listed = &mut seen.lists[usize::from(key == "files")];
                    assert_eq!(entry()["index"], *listed);
                    *listed += 1;
                }
                other => panic!("{other}"),
            }
        }
    }
    assert_eq!(usages, usize::from(show_usage));
    assert!(
        !seen.is_empty() && seen.iter().all(|seen| seen.finished),
        "every choice finishes"
    );
}

// The stream.

#[test]
fn a_stream_byte_by_byte() {
    let events = [
        Event::Text(0, "a\"\n\u{1}é😀"),
        Event::Usage(Tokens {
            prompt: Some(9),
            completion: Some(3),
            ..Tokens::default()
        }),
        STOP,
    ];
    let mut chunks = Chunks::new(&header(true), options());
    let mut out = Vec::new();
    events
        .into_iter()
        .for_each(|event| chunks.take(event, &mut out));
    chunks.finish(&mut out, None).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#"data: {"id":"chatcmpl-0a","object":"chat.completion.chunk","created":99,"model":"fast","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-0a","object":"chat.completion.chunk","created":99,"model":"fast","choices":[{"index":0,"delta":{"content":"a\"\n\u0001é😀"},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-0a","object":"chat.completion.chunk","created":99,"model":"fast","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}

data: {"id":"chatcmpl-0a","object":"chat.completion.chunk","created":99,"model":"fast","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}

data: [DONE]

"#
    );
}

#[test]
fn texts_go_out_as_they_come() {
    check(
        &[
            Event::Reasoning(0, "hm"),
            Event::Text(0, "a"),
            Event::Text(0, ""),
            Event::Reasoning(0, ""),
            Event::Refusal(0, ""),
            Event::Text(0, "b"),
            Event::Refusal(0, "no"),
            STOP,
        ],
        &[
            ROLE,
            r#"0 {"reasoning_content":"hm"}"#,
            r#"0 {"content":"a"}"#,
            r#"0 {"content":"b"}"#,
            r#"0 {"refusal":"no"}"#,
            "0 =stop",
        ],
    );
}

#[test]
fn hidden_thinking_is_not_shown() {
    let options = AnswerOptions {
        hide_reasoning: true,
        ..options()
    };
    check_with(
        &options,
        &[Event::Reasoning(0, "hm"), Event::Text(0, "a"), STOP],
        &[ROLE, r#"0 {"content":"a"}"#, "0 =stop"],
    );
    check_with(
        &options,
        &[Event::Reasoning(0, "hm"), STOP],
        &[ROLE, "0 =stop"],
    );
}

#[test]
fn choices_appear_in_order() {
    check(
        &[
            Event::Text(1, "b"),
            Event::Text(0, "a"),
            Event::Finish(1, Finish::Length),
            STOP,
            Event::Finish(2, Finish::Filtered),
        ],
        &[
            ROLE,
            r#"1 {"role":"assistant","content":""}"#,
            r#"1 {"content":"b"}"#,
            r#"0 {"content":"a"}"#,
            r#"2 {"role":"assistant","content":""}"#,
            "0 =stop",
            "1 =length",
            "2 =content_filter",
        ],
    );
    // Choice 0 has no event.
    check(
        &[Event::Text(1, "b")],
        &[
            ROLE,
            r#"1 {"role":"assistant","content":""}"#,
            r#"1 {"content":"b"}"#,
            "0 =stop",
            "1 =stop",
        ],
    );
    let (chunks, _) = chunks(false, &options(), &[Event::Text(127, "z")]);
    assert_eq!(
        (chunks.len(), &chunks[128]),
        (257, &long(r#"127 {"content":"z"}"#))
    );
}

#[test]
fn a_finish_is_held_and_the_last_one_counts() {
    check(
        &[
            Event::Finish(0, Finish::Length),
            Event::Text(0, "a"),
            STOP,
            Event::Text(0, "b"),
        ],
        &[
            ROLE,
            r#"0 {"content":"a"}"#,
            r#"0 {"content":"b"}"#,
            "0 =stop",
        ],
    );
}

#[test]
fn the_upstreams_id_is_taken_once() {
    let id = |events: &[Event<'_>]| {
        let (chunks, _) = chunks(true, &options(), events);
        let body = buffered(&options(), events).unwrap().0.body;
        let ids = [
            chunks[0].strip_prefix("data: ").unwrap(),
            str::from_utf8(&body).unwrap(),
        ]
        .map(|text| {
            serde_json::from_str::<Value>(text).unwrap()["id"]
                .as_str()
                .unwrap()
                .to_owned()
        });
        assert_eq!(ids[0], ids[1]);
        ids[0].clone()
    };
    assert_eq!(
        id(&[Event::Id("msg_1"), Event::Id("msg_2"), STOP]),
        "chatcmpl-msg_1"
    );
    assert_eq!(
        id(&[Event::Id(""), Event::Id("chatcmpl-7\"é"), STOP]),
        "chatcmpl-7\"é"
    );
    assert_eq!(id(&[Event::Id(&"x".repeat(257)), STOP]), "chatcmpl-0a");
    // Too late for a stream.
    let (late, _) = chunks(
        false,
        &options(),
        &[Event::Text(0, "a"), Event::Id("msg_1"), STOP],
    );
    assert!(
        late.iter()
            .all(|chunk| chunk.contains(r#""id":"chatcmpl-0a""#))
    );
}

#[test]
fn calls_are_numbered_and_introduced_once() {
    check(
        &[
            Event::Text(0, "wait"),
            call(0, Some("a"), "f"),
            Event::Arguments(0, "{\"q\":"),
            Event::Arguments(0, ""),
            Event::Arguments(0, "1}"),
            Event::Call {
                choice: 0,
                id: Some("b"),
                name: "g",
                signature: Some("s\""),
            },
            call(1, Some("c"), "f"),
            Event::Arguments(1, "{}"),
            Event::Arguments(0, "{ }"),
            STOP,
            Event::Finish(1, Finish::Length),
        ],
        &[
            ROLE,
            r#"0 {"content":"wait"}"#,
            r#"0 {"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}"#,
            r#"0 {"tool_calls":[{"index":0,"function":{"arguments":"{\"q\":"}}]}"#,
            r#"0 {"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}"#,
            r#"0 {"tool_calls":[{"index":1,"id":"b","type":"function","extra_content":{"google":{"thought_signature":"s\""}},"function":{"name":"g","arguments":""}}]}"#,
            r#"1 {"role":"assistant","content":""}"#,
            r#"1 {"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}"#,
            r#"1 {"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#,
            r#"0 {"tool_calls":[{"index":1,"function":{"arguments":"{ }"}}]}"#,
            "0 =tool_calls",
            "1 =length",
        ],
    );
}

#[test]
fn a_call_without_arguments_takes_none() {
    check(
        &[
            call(0, Some("a"), "f"),
            Event::Arguments(0, ""),
            call(0, Some("b"), "f"),
            Event::Text(0, "t"),
            STOP,
        ],
        &[
            ROLE,
            r#"0 {"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}"#,
            r#"0 {"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#,
            r#"0 {"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"f","arguments":""}}]}"#,
            r#"0 {"content":"t"}"#,
            r#"0 {"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}"#,
            "0 =tool_calls",
        ],
    );
}

/// An answer that was cut short may have been cut before the arguments.
#[test]
fn calls_that_may_be_cut_get_no_arguments() {
    let f = r#"0 {"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}"#;
    for (finish, shown) in [
        (Finish::Length, "0 =length"),
        (Finish::Filtered, "0 =content_filter"),
    ] {
        check(
            &[call(0, Some("a"), "f"), Event::Finish(0, finish)],
            &[ROLE, f, shown],
        );
        check_with(
            &formatted(),
            &[call(0, Some("a"), "fmt"), Event::Finish(0, finish)],
            &[ROLE, shown],
        );
    }
}

/// The ids that a caller sees of calls with these ids.
#[track_caller]
fn check_ids(face_id: &str, calls: &[(u32, Option<&str>)], expected: &[&str]) {
    let events: Vec<Event<'_>> = calls
        .iter()
        .map(|(choice, id)| call(*choice, *id, "f"))
        .collect();
    let header = AnswerHeader {
        id: face_id.into(),
        ..header(false)
    };
    let mut chunks = Chunks::new(&header, options());
    let mut out = Vec::new();
    events
        .into_iter()
        .for_each(|event| chunks.take(event, &mut out));
    let found: Vec<String> = String::from_utf8(out)
        .unwrap()
        .split_terminator("\n\n")
        .map(|event| serde_json::from_str::<Value>(&event["data: ".len()..]).unwrap())
        .filter_map(|chunk| {
            Some(
                chunk["choices"][0]["delta"]["tool_calls"][0]["id"]
                    .as_str()?
                    .to_owned(),
            )
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn every_call_has_an_id_of_its_own() {
    check_ids(
        "chatcmpl-0a",
        &[
            (0, Some("a")),
            (0, None),
            (0, Some("a")),
            (1, Some("")),
            (1, Some("a")),
            (1, Some("b")),
        ],
        &[
            "a",
            "call_chatcmpl0a_0_1",
            "call_chatcmpl0a_0_2",
            "call_chatcmpl0a_1_0",
            "call_chatcmpl0a_1_1",
            "b",
        ],
    );
    // An upstream's id that is equal to a generated one gets another number.
    check_ids(
        "chatcmpl-0a",
        &[(0, Some("call_chatcmpl0a_0_1")), (0, None)],
        &["call_chatcmpl0a_0_1", "call_chatcmpl0a_0_129"],
    );
    check_ids(
        "chatcmpl-0123456789abcdef0123456789abcdef",
        &[(0, None)],
        &["call_89abcdef0123456789abcdef_0_0"],
    );
    check_ids("chatcmpl-0a", &[(0, Some("a\"b"))], &["a\"b"]);
}

#[test]
fn tools_have_the_callers_names() {
    let undo = Undo {
        names: vec![("f_1".into(), "f.1".into()), ("g_1".into(), "g.1".into())],
        ..Undo::default()
    };
    check_with(
        &AnswerOptions { undo, ..options() },
        &[call(0, Some("a"), "g_1"), call(0, Some("b"), "h"), STOP],
        &[
            ROLE,
            r#"0 {"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"g.1","arguments":""}}]}"#,
            r#"0 {"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#,
            r#"0 {"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"h","arguments":""}}]}"#,
            r#"0 {"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}"#,
            "0 =tool_calls",
        ],
    );
}

#[test]
fn pictures_and_other_files_are_listed() {
    let events = [
        Event::Media(0, "image/png", "AA=="),
        Event::Media(0, "IMAGE/x\"", "BB"),
        Event::Media(0, "audio/L16;rate=24000", "CC"),
        Event::Media(0, "image/png", ""),
        Event::Media(0, "é", "DD"),
        STOP,
    ];
    let images = [
        r#"{"index":0,"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}"#,
        r#"{"index":1,"type":"image_url","image_url":{"url":"data:IMAGE/x\";base64,BB"}}"#,
    ];
    let files = [
        r#"{"index":0,"type":"file","file":{"file_data":"data:audio/L16;rate=24000;base64,CC"}}"#,
        r#"{"index":1,"type":"file","file":{"file_data":"data:é;base64,DD"}}"#,
    ];
    let lines = [
        ROLE.to_owned(),
        format!(r#"0 {{"images":[{}]}}"#, images[0]),
        format!(r#"0 {{"images":[{}]}}"#, images[1]),
        format!(r#"0 {{"files":[{}]}}"#, files[0]),
        format!(r#"0 {{"files":[{}]}}"#, files[1]),
        "0 =stop".to_owned(),
    ];
    check(
        &events,
        &lines.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let (images, files) = (images.join(","), files.join(","));
    check_whole(
        &options(),
        &events,
        &format!(
            r#"{{"index":0,"message":{{"role":"assistant","content":"","refusal":null,"images":[{images}],"files":[{files}]}},"logprobs":null,"finish_reason":"stop"}}"#
        ),
    );
}

// Answers in a format, by way of a tool.

#[test]
fn the_formats_call_is_the_content() {
    let expected = [
        ROLE,
        r#"0 {"content":"{\"a\":"}"#,
        r#"0 {"content":"1}"}"#,
        "0 =stop",
    ];
    let arguments = [
        Event::Arguments(0, "{\"a\":"),
        Event::Arguments(0, "1}"),
        STOP,
    ];
    let begin = [call(0, Some("x"), "fmt")];
    check_with(&formatted(), &[&begin[..], &arguments].concat(), &expected);
    // Text outside the tool is no JSON, before it or after it.
    let before = [Event::Text(0, "Here it is: ")];
    let after = [Event::Text(0, "Done.")];
    check_with(
        &formatted(),
        &[&before[..], &begin, &arguments, &after].concat(),
        &expected,
    );
    // The first one counts.
    check_with(
        &formatted(),
        &[
            &begin[..],
            &arguments,
            &[call(0, None, "fmt"), Event::Arguments(0, "{}")],
        ]
        .concat(),
        &expected,
    );
}

#[test]
fn a_formats_call_without_arguments_is_an_empty_object() {
    check_with(
        &formatted(),
        &[call(0, None, "fmt"), STOP],
        &[ROLE, r#"0 {"content":"{}"}"#, "0 =stop"],
    );
    check_with(
        &formatted(),
        &[call(0, None, "fmt"), call(0, None, "fmt"), STOP],
        &[ROLE, r#"0 {"content":"{}"}"#, "0 =stop"],
    );
}

#[test]
fn a_formats_call_that_was_cut_short_says_so() {
    check_with(
        &formatted(),
        &[
            call(0, None, "fmt"),
            Event::Arguments(0, "{"),
            Event::Finish(0, Finish::Length),
        ],
        &[ROLE, r#"0 {"content":"{"}"#, "0 =length"],
    );
}

#[test]
fn other_calls_beside_the_format_are_calls() {
    check_with(
        &formatted(),
        &[
            call(0, Some("a"), "f"),
            call(0, Some("b"), "fmt"),
            Event::Arguments(0, "[]"),
            call(0, Some("c"), "f"),
            Event::Arguments(0, "[1]"),
        ],
        &[
            ROLE,
            r#"0 {"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}"#,
            r#"0 {"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#,
            r#"0 {"content":"[]"}"#,
            r#"0 {"tool_calls":[{"index":1,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}"#,
            r#"0 {"tool_calls":[{"index":1,"function":{"arguments":"[1]"}}]}"#,
            "0 =tool_calls",
        ],
    );
}

#[test]
fn uncalled_formats_leave_text_as_content() {
    check_with(
        &formatted(),
        &[
            Event::Text(0, "{\"a\""),
            Event::Reasoning(0, "hm"),
            Event::Text(0, ":1}"),
            STOP,
        ],
        &[
            ROLE,
            r#"0 {"reasoning_content":"hm"}"#,
            r#"0 {"content":"{\"a\":1}"}"#,
            "0 =stop",
        ],
    );
}

#[test]
fn text_waits_for_the_format_only_so_long() {
    let half = "x".repeat(MAX_HELD);
    let mut chunks = Chunks::new(&header(false), formatted());
    let mut out = Vec::new();
    chunks.take(Event::Text(0, &half), &mut out);
    assert!(out.is_empty() && chunks.0.progress.opened);
    chunks.take(Event::Text(0, "y"), &mut out);
    chunks.take(Event::Text(0, "z"), &mut out);
    let expected = [
        ROLE.into(),
        format!(r#"0 {{"content":"{half}y"}}"#),
        r#"0 {"content":"z"}"#.into(),
    ]
    .map(|chunk| long(&chunk))
    .concat();
    assert_eq!(String::from_utf8(out.clone()).unwrap(), expected);
    chunks.take(call(0, None, "fmt"), &mut out);
    assert_eq!(
        chunks.0.fault(),
        Err(StreamFault::Broken(
            "the JSON answer comes after other text"
        ))
    );
}

// Checks events that are no valid answer.

#[track_caller]
fn check_fault(events: &[Event<'_>], why: &'static str) {
    let mut chunks = Chunks::new(&header(true), options());
    let mut out = Vec::new();
    events
        .iter()
        .chain([&STOP, &Event::End])
        .for_each(|event| chunks.take(event.clone(), &mut out));
    assert_eq!(chunks.0.fault(), Err(StreamFault::Broken(why)));
    assert!(!chunks.0.progress.ended());
    assert_eq!(chunks.finish(&mut out, None), Err(StreamFault::Broken(why)));
    assert!(!String::from_utf8(out).unwrap().contains("[DONE]"));
    assert_eq!(
        buffered(&options(), events),
        Err(AnswerFault::Nonsense(why))
    );
}

#[test]
fn what_clients_cannot_read_is_a_fault() {
    check_fault(
        &[Event::Text(0, "a"), call(0, Some("a"), "")],
        "a tool call without a name",
    );
    check_fault(
        &[Event::Text(0, "a"), Event::Arguments(0, "a")],
        "arguments without a tool call",
    );
    check_fault(
        &[call(1, None, "f"), Event::Arguments(0, "a")],
        "arguments without a tool call",
    );
    check_fault(&[Event::Text(128, "a")], "more than 128 choices");
    check_fault(
        &[Event::Finish(u32::MAX, Finish::Stop)],
        "more than 128 choices",
    );
    check_fault(
        &vec![call(0, None, "f"); MAX_CALLS + 1],
        "more than 128 tool calls",
    );
}

#[test]
fn an_answer_that_says_nothing_is_none() {
    for events in [
        &[][..],
        &[Event::Id("a"), Event::Text(0, ""), Event::End],
        &[Event::Usage(Tokens::default()), Event::Signed("s")],
    ] {
        assert_eq!(
            buffered(&options(), events),
            Err(AnswerFault::Nonsense("the answer is empty"))
        );
        let mut chunks = Chunks::new(&header(true), options());
        let mut out = Vec::new();
        events
            .iter()
            .for_each(|event| chunks.take(event.clone(), &mut out));
        assert_eq!(
            chunks.finish(&mut out, None),
            Err(StreamFault::Broken("the answer is empty"))
        );
        assert!(out.is_empty());
    }
}

#[test]
fn nothing_counts_after_the_end() {
    check(
        &[
            Event::Text(0, "a"),
            STOP,
            Event::End,
            Event::Text(0, "b"),
            Event::Text(999, "c"),
        ],
        &[ROLE, r#"0 {"content":"a"}"#, "0 =stop"],
    );
}

#[test]
fn what_opens_the_gate() {
    let opens = |event: Event<'_>| {
        let mut chunks = Chunks::new(&header(true), AnswerOptions::default());
        chunks.take(event, &mut Vec::new());
        chunks.0.progress.opened
    };
    for event in [
        Event::Text(0, "a"),
        Event::Reasoning(0, "a"),
        Event::Refusal(0, "a"),
        Event::Signed("a"),
        Event::Redacted("a"),
        call(0, None, "f"),
        Event::Media(0, "image/png", "AA"),
        STOP,
    ] {
        assert!(opens(event.clone()), "{event:?}");
    }
    for event in [
        Event::Id("a"),
        Event::Text(0, ""),
        Event::Reasoning(0, ""),
        Event::Usage(Tokens::default()),
        Event::End,
    ] {
        assert!(!opens(event.clone()), "{event:?}");
    }
}

// Whole answers.

#[test]
fn a_whole_answer_byte_by_byte() {
    let events = [
        Event::Id("msg_1"),
        Event::Reasoning(0, "h"),
        Event::Reasoning(0, "m"),
        Event::Text(0, "a\""),
        Event::Text(0, "b"),
        Event::Usage(Tokens {
            prompt: Some(9),
            completion: Some(3),
            cached: Some(0),
            cache_write: Some(4),
            reasoning: Some(2),
        }),
        Event::Finish(0, Finish::Length),
    ];
    let (answer, kept) = buffered(&options(), &events).unwrap();
    assert_eq!(
        String::from_utf8(answer.body).unwrap(),
        r#"{"id":"chatcmpl-msg_1","object":"chat.completion","created":99,"model":"fast","choices":[{"index":0,"message":{"role":"assistant","content":"a\"b","reasoning_content":"hm","refusal":null},"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}}"#
    );
    assert_eq!(
        answer.usage,
        Usage {
            prompt: 9,
            completion: 3,
            cached: 0,
            cache_write: 4,
            reasoning: 2,
            source: Source::Reported,
            ..Usage::default()
        }
    );
    assert_eq!(kept, []);
}

#[test]
fn messages_say_what_they_have() {
    let options = options();
    let whole = |message: &str, reason: &str| {
        format!(
            r#"{{"index":0,"message":{{"role":"assistant",{message}}},"logprobs":null,"finish_reason":"{reason}"}}"#
        )
    };
    let f = r#"{"id":"a","type":"function","function":{"name":"f","arguments":"{\"q\":1}"}}"#;
    let g = r#"{"id":"b","type":"function","extra_content":{"google":{"thought_signature":"s"}},"function":{"name":"g","arguments":"{}"}}"#;
    let calls = [
        call(0, Some("a"), "f"),
        Event::Arguments(0, "{\"q\":"),
        Event::Arguments(0, "1}"),
        Event::Call {
            choice: 0,
            id: Some("b"),
            name: "g",
            signature: Some("s"),
        },
    ];
    check_whole(
        &options,
        &calls,
        &whole(
            &format!(r#""content":null,"refusal":null,"tool_calls":[{f},{g}]"#),
            "tool_calls",
        ),
    );
    let with_text = [&[Event::Text(0, "t")][..], &calls].concat();
    check_whole(
        &options,
        &with_text,
        &whole(
            &format!(r#""content":"t","refusal":null,"tool_calls":[{f},{g}]"#),
            "tool_calls",
        ),
    );
    check_whole(
        &options,
        &[Event::Refusal(0, "no"), STOP],
        &whole(r#""content":"","refusal":"no""#, "stop"),
    );
    check_whole(
        &options,
        &[Event::Finish(0, Finish::Filtered)],
        &whole(r#""content":"","refusal":null"#, "content_filter"),
    );
    check_whole(
        &AnswerOptions {
            hide_reasoning: true,
            ..AnswerOptions::default()
        },
        &[Event::Reasoning(0, "hm")],
        &whole(r#""content":"","refusal":null"#, "stop"),
    );
    check_whole(
        &formatted(),
        &[
            Event::Text(0, "t"),
            call(0, None, "fmt"),
            Event::Arguments(0, "{}"),
        ],
        &whole(r#""content":"{}","refusal":null"#, "stop"),
    );
    check_whole(
        &formatted(),
        &[Event::Text(0, "t"), Event::Text(0, "u")],
        &whole(r#""content":"tu","refusal":null"#, "stop"),
    );
    check_whole(
        &options,
        &[
            Event::Text(1, "b"),
            Event::Text(0, "a"),
            Event::Finish(1, Finish::Length),
        ],
        concat!(
            r#"{"index":0,"message":{"role":"assistant","content":"a","refusal":null},"logprobs":null,"finish_reason":"stop"},"#,
            r#"{"index":1,"message":{"role":"assistant","content":"b","refusal":null},"logprobs":null,"finish_reason":"length"}"#
        ),
    );
}

#[test]
fn a_whole_answer_becomes_an_asked_stream() {
    let (answer, kept) = converted(&header(true), options(), |emit| {
        emit(Event::Text(0, "abcd"));
        emit(Event::Signed("s"));
        emit(call(0, Some("a"), "f"));
        Ok(())
    })
    .unwrap();
    let out = String::from_utf8(answer.body).unwrap();
    conforms(&out, true);
    assert!(out.ends_with(concat!(
        r#"data: {"id":"chatcmpl-0a","object":"chat.completion.chunk","created":99,"model":"fast","x_portcullis":{"usage":"estimated"},"#,
        r#""choices":[],"usage":{"prompt_tokens":100,"completion_tokens":2,"total_tokens":102}}"#,
        "\n\ndata: [DONE]\n\n"
    )));
    assert_eq!(answer.usage, Usage::estimated(400, 5));
    assert_eq!(kept.len(), 1);
    let nonsense = || AnswerFault::Nonsense("no answer at all");
    assert_eq!(
        converted(&header(true), options(), |_| Err(nonsense())),
        Err(nonsense())
    );
    assert_eq!(
        converted(&header(true), options(), |_| Ok(())),
        Err(AnswerFault::Nonsense("the answer is empty"))
    );
}

#[track_caller]
fn check_declined(events: &[Event<'_>], expected: bool) {
    for options in [
        options(),
        AnswerOptions {
            hide_reasoning: true,
            ..formatted()
        },
    ] {
        let mut chunks = Chunks::new(&header(false), options.clone());
        events
            .iter()
            .for_each(|event| chunks.take(event.clone(), &mut Vec::new()));
        assert_eq!(chunks.0.progress.declined(), expected, "{events:?}");
        chunks.finish(&mut Vec::new(), None).unwrap();
        let (answer, _) = buffered(&options, events).unwrap();
        assert_eq!(chunks.0.progress.declined(), answer.declined, "{events:?}");
    }
}

#[test]
fn what_tells_nothing_but_a_refusal_is_declined() {
    const FILTERED: Event<'_> = Event::Finish(0, Finish::Filtered);
    const REFUSAL: Event<'_> = Event::Refusal(0, "no");
    check_declined(&[STOP], false);
    check_declined(&[FILTERED], true);
    check_declined(&[REFUSAL], true);
    check_declined(&[REFUSAL, STOP], true);
    check_declined(&[Event::Reasoning(0, "hm")], false);
    check_declined(
        &[
            Event::Reasoning(0, "hm"),
            Event::Signed("s"),
            Event::Redacted("x"),
            FILTERED,
        ],
        true,
    );
    check_declined(
        &[
            Event::Text(0, ""),
            Event::Refusal(0, ""),
            Event::Media(0, "image/png", ""),
            FILTERED,
        ],
        true,
    );
    check_declined(&[Event::Finish(0, Finish::Length)], false);
    for answer in [
        Event::Text(0, "a"),
        call(0, None, "f"),
        call(0, None, "fmt"),
        Event::Media(0, "image/png", "AA"),
    ] {
        check_declined(std::slice::from_ref(&answer), false);
        check_declined(&[answer.clone(), FILTERED], false);
        check_declined(&[REFUSAL, answer], false);
    }
    // As long as another choice is open, it may answer.
    check_declined(&[FILTERED, Event::Text(1, "a")], false);
    check_declined(&[FILTERED, Event::Finish(1, Finish::Stop)], true);
    let mut chunks = Chunks::new(&header(false), options());
    chunks.take(Event::Finish(1, Finish::Filtered), &mut Vec::new());
    assert!(!chunks.0.progress.declined());
    chunks.finish(&mut Vec::new(), None).unwrap();
    assert!(chunks.0.progress.declined());
}

// Usage.

/// The prompt had 400 bytes.
#[track_caller]
fn check_usage(events: &[Event<'_>], expected: &str, source: Source) {
    let events = [events, &[STOP]].concat();
    let (chunks, usage) = chunks(true, &AnswerOptions::default(), &events);
    let (answer, _) = buffered(&AnswerOptions::default(), &events).unwrap();
    assert_eq!((usage, usage.source), (answer.usage, source));
    let last: Value = serde_json::from_str(&chunks.last().unwrap()["data: ".len()..]).unwrap();
    let whole: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(last["usage"], whole["usage"]);
    assert_eq!(
        last.get("x_portcullis").is_some(),
        source == Source::Estimated
    );
    assert!(
        chunks
            .last()
            .unwrap()
            .ends_with(&format!("\"choices\":[],\"usage\":{expected}}}\n\n")),
        "{chunks:?}"
    );
}

#[test]
fn usage_is_the_upstreams_completed_by_estimates() {
    use Source::{Estimated, Reported};
    let tokens = |prompt, completion| Tokens {
        prompt,
        completion,
        ..Tokens::default()
    };
    let usage = |tokens| [Event::Usage(tokens), Event::Text(0, "abcde")];
    check_usage(
        &usage(tokens(Some(9), Some(3))),
        r#"{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}"#,
        Reported,
    );
    check_usage(
        &usage(tokens(Some(9), None)),
        r#"{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}"#,
        Estimated,
    );
    check_usage(
        &usage(tokens(None, Some(3))),
        r#"{"prompt_tokens":100,"completion_tokens":3,"total_tokens":103}"#,
        Estimated,
    );
    check_usage(
        &usage(tokens(None, None)),
        r#"{"prompt_tokens":100,"completion_tokens":2,"total_tokens":102}"#,
        Estimated,
    );
    check_usage(
        &usage(tokens(Some(0), Some(0))),
        r#"{"prompt_tokens":100,"completion_tokens":2,"total_tokens":102}"#,
        Estimated,
    );
    // The last one counts.
    let grows = [
        Event::Usage(tokens(Some(9), Some(1))),
        Event::Text(0, "a"),
        Event::Usage(tokens(Some(9), Some(7))),
    ];
    check_usage(
        &grows,
        r#"{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16}"#,
        Reported,
    );
    let all = Tokens {
        prompt: Some(9),
        completion: Some(3),
        cached: Some(4),
        cache_write: Some(0),
        reasoning: Some(2),
    };
    check_usage(
        &usage(all),
        r#"{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},"completion_tokens_details":{"reasoning_tokens":2}}"#,
        Reported,
    );
    check_usage(
        &usage(Tokens {
            cache_write: Some(5),
            ..tokens(Some(9), Some(3))
        }),
        r#"{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cache_write_tokens":5}}"#,
        Reported,
    );
}

#[test]
fn no_part_is_more_than_its_whole() {
    let check =
        |[prompt, completion, cached, cache_write, reasoning]: [u64; 5], expected: &str, source| {
            let [prompt, completion, cached, cache_write, reasoning] =
                [prompt, completion, cached, cache_write, reasoning].map(Some);
            let tokens = Tokens {
                prompt,
                completion,
                cached,
                cache_write,
                reasoning,
            };
            check_usage(
                &[Event::Usage(tokens), Event::Text(0, "abcde")],
                expected,
                source,
            );
        };
    check(
        [9, 3, 10, 4, 5],
        r#"{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":9,"cache_write_tokens":0},"completion_tokens_details":{"reasoning_tokens":3}}"#,
        Source::Reported,
    );
    check(
        [9, 3, 4, 8, 3],
        r#"{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":5},"completion_tokens_details":{"reasoning_tokens":3}}"#,
        Source::Reported,
    );
}

#[test]
fn impossible_counts_are_dropped_with_the_others_beside_them() {
    let fine = [9, 3, 4, 1, 2];
    for (place, name) in [
        "prompt_tokens",
        "completion_tokens",
        "cached_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
    ]
    .iter()
    .enumerate()
    {
        for (absurd, is_doubted) in [
            (1 << 30, false),
            ((1 << 30) + 1, true),
            (1 << 63, true),
            (u64::MAX, true),
        ] {
            let mut counts = fine;
            counts[place] = absurd;
            let [prompt, completion, cached, cache_write, reasoning] = counts.map(Some);
            let counted = Event::Usage(Tokens {
                prompt,
                completion,
                cached,
                cache_write,
                reasoning,
            });
            if is_doubted {
                check_usage(
                    &[counted.clone(), Event::Text(0, "abcde")],
                    r#"{"prompt_tokens":100,"completion_tokens":2,"total_tokens":102}"#,
                    Source::Estimated,
                );
            }
            let (answer, _) = buffered(
                &AnswerOptions::default(),
                &[counted, Event::Text(0, "a"), STOP],
            )
            .unwrap();
            assert_eq!(
                answer.usage.doubted,
                is_doubted.then_some(*name),
                "{absurd}"
            );
        }
    }
    // The last one counts.
    let later = |tokens| {
        [
            Event::Usage(Tokens {
                prompt: Some(1 << 31),
                ..Tokens::default()
            }),
            Event::Text(0, "a"),
            Event::Usage(tokens),
            STOP,
        ]
    };
    let tokens = Tokens {
        prompt: Some(9),
        completion: Some(3),
        ..Tokens::default()
    };
    let (answer, _) = buffered(&AnswerOptions::default(), &later(tokens)).unwrap();
    assert_eq!(
        (
            answer.usage.total(),
            answer.usage.source,
            answer.usage.doubted
        ),
        (12, Source::Reported, None)
    );
}

#[test]
fn an_estimate_counts_all_that_was_told() {
    let events = [
        Event::Text(0, "1234"),
        Event::Reasoning(0, "1234"),
        Event::Refusal(0, "é34"),
        call(0, None, "1234"),
        Event::Arguments(0, "12345"),
        call(0, None, "1"),
        Event::Media(0, "image/png", "AAAAAAAAAAAA"),
    ];
    check_usage(
        &events,
        r#"{"prompt_tokens":100,"completion_tokens":6,"total_tokens":106}"#,
        Source::Estimated,
    );
}

#[test]
fn what_was_used_before_a_cut() {
    let so_far = |events: &[Event<'_>]| {
        let mut chunks = Chunks::new(&header(true), options());
        events
            .iter()
            .for_each(|event| chunks.take(event.clone(), &mut Vec::new()));
        chunks.0.progress.usage_so_far()
    };
    let counted = |completion| {
        Event::Usage(Tokens {
            prompt: Some(9),
            completion,
            ..Tokens::default()
        })
    };
    let usage = |prompt, completion, source| Usage {
        prompt,
        completion,
        source,
        ..Usage::default()
    };
    assert_eq!(so_far(&[]), Usage::default());
    assert_eq!(
        so_far(&[Event::Id("a"), Event::Text(0, "")]),
        Usage::default()
    );
    assert_eq!(so_far(&[counted(Some(1))]), usage(9, 1, Source::Reported));
    assert_eq!(so_far(&[counted(None)]), usage(9, 0, Source::Estimated));
    assert_eq!(so_far(&[Event::Text(0, "abcde")]), Usage::estimated(400, 5));
    assert_eq!(
        so_far(&[counted(Some(1)), Event::Text(0, "abcde")]),
        usage(9, 3, Source::Estimated)
    );
    assert_eq!(
        so_far(&[counted(Some(1)), Event::Text(0, "abcde"), counted(Some(4))]),
        usage(9, 4, Source::Reported)
    );
    assert_eq!(
        so_far(&[counted(Some(1)), Event::Text(0, "abcde"), STOP, Event::End]),
        usage(9, 1, Source::Reported)
    );
}

// Thoughts.

fn thought(text: &str, signature: Option<&str>, redacted: Option<&str>) -> Thought<'static> {
    let owned = |text: Option<&str>| text.map(|text| text.to_owned().into());
    Thought {
        text: text.to_owned().into(),
        signature: owned(signature),
        redacted: owned(redacted),
        of_call: false,
    }
}

fn of_call(signature: &str) -> Thought<'static> {
    Thought {
        of_call: true,
        ..thought("", Some(signature), None)
    }
}

#[track_caller]
fn check_kept(events: &[Event<'_>], expected: &[(&str, &[Thought<'static>])]) {
    let expected: Vec<Kept> = expected
        .iter()
        .map(|(call, thoughts)| Kept {
            call: (*call).into(),
            thoughts: thoughts.to_vec(),
        })
        .collect();
    for hide_reasoning in [false, true] {
        let mut chunks = Chunks::new(
            &header(false),
            AnswerOptions {
                hide_reasoning,
                ..options()
            },
        );
        events
            .iter()
            .for_each(|event| chunks.take(event.clone(), &mut Vec::new()));
        assert_eq!(chunks.0.progress.kept_thoughts(), expected);
        assert_eq!(chunks.0.progress.kept_thoughts(), [], "each once");
    }
    assert_eq!(buffered(&options(), events).unwrap().1, expected);
    assert_eq!(
        buffered(
            &AnswerOptions {
                keep_thoughts: false,
                ..options()
            },
            events
        )
        .unwrap()
        .1,
        []
    );
}

#[test]
fn thoughts_go_with_the_call_that_they_led_to() {
    check_kept(
        &[
            Event::Reasoning(0, "a"),
            Event::Reasoning(1, "not this"),
            Event::Reasoning(0, "b"),
            Event::Signed("s1"),
            Event::Redacted("r1"),
            Event::Text(0, "text"),
            call(1, Some("other"), "f"),
            call(0, Some("x"), "f"),
            call(0, Some("y"), "f"),
            Event::Reasoning(0, "c"),
            Event::Signed("s2"),
            call(0, None, "f"),
            Event::Reasoning(0, "d"),
            Event::Signed("s3"),
        ],
        &[
            (
                "x",
                &[
                    thought("ab", Some("s1"), None),
                    thought("", None, Some("r1")),
                ],
            ),
            ("call_chatcmpl0a_0_2", &[thought("c", Some("s2"), None)]),
        ],
    );
}

#[test]
fn a_calls_own_signature_is_kept() {
    let signed = |choice, id| Event::Call {
        choice,
        id: Some(id),
        name: "f",
        signature: Some("g"),
    };
    check_kept(
        &[
            signed(0, "a"),
            call(0, Some("b"), "f"),
            signed(1, "c"),
            Event::Signed("s"),
            signed(0, "d"),
        ],
        &[
            ("a", &[of_call("g")]),
            ("c", &[of_call("g")]),
            ("d", &[thought("", Some("s"), None), of_call("g")]),
        ],
    );
}

#[test]
fn unsigned_thoughts_are_not_kept() {
    check_kept(&[Event::Reasoning(0, "a"), call(0, Some("x"), "f")], &[]);
}

#[test]
fn too_much_thought_is_not_kept_at_all() {
    let much = "x".repeat(MAX_KEPT - 2);
    let call = |id| call(0, Some(id), "f");
    check_kept(
        &[Event::Reasoning(0, &much), Event::Signed("s"), call("a")],
        &[("a", &[thought(&much, Some("s"), None)])],
    );
    check_kept(
        &[
            Event::Reasoning(0, &much),
            Event::Signed("s"),
            call("a"),
            Event::Signed("t"),
            call("b"),
        ],
        &[],
    );
    check_kept(
        &[
            Event::Reasoning(0, &much),
            Event::Redacted("abc"),
            Event::Signed("s"),
            call("a"),
        ],
        &[],
    );
}

/// An event that owns its texts.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    Text(u32, String),
    Reasoning(u32, String),
    Refusal(u32, String),
    Signed(String),
    Redacted(String),
    Call(u32, Option<String>, String, Option<String>),
    Arguments(u32, String),
    Media(u32, String, String),
    Finish(u32, Finish),
    Usage(Tokens),
    Id(String),
}

impl Told {
    pub(crate) fn event(&self) -> Event<'_> {
        match self {
            Self::Text(choice, text) => Event::Text(*choice, text),
            Self::Reasoning(choice, text) => Event::Reasoning(*choice, text),
            Self::Refusal(choice, text) => Event::Refusal(*choice, text),
            Self::Signed(signature) => Event::Signed(signature),
            Self::Redacted(data) => Event::Redacted(data),
            Self::Call(choice, id, name, signature) => Event::Call {
                choice: *choice,
                id: id.as_deref(),
                name,
                signature: signature.as_deref(),
            },
            Self::Arguments(choice, text) => Event::Arguments(*choice, text),
            Self::Media(choice, mime, data) => Event::Media(*choice, mime, data),
            Self::Finish(choice, finish) => Event::Finish(*choice, *finish),
            Self::Usage(tokens) => Event::Usage(*tokens),
            Self::Id(id) => Event::Id(id),
        }
    }
}

pub(crate) fn told() -> impl Strategy<Value = Told> {
    let choice = || prop_oneof![6 => Just(0u32), 2 => Just(1u32), 1 => Just(2u32), 1 => Just(5u32)];
    let text = || "[a\"\\\\\n\u{1}é😀{}]{0,4}";
    let word = || {
        prop::option::of(
            prop::sample::select(vec!["", "a", "b", "call_chatcmpl0a_0_0"]).prop_map(str::to_owned),
        )
    };
    let name = prop::sample::select(vec!["f", "g", "f_1", "fmt", "fmt", "\u{7f}\""])
        .prop_map(str::to_owned);
    let count = || prop::option::of(0u64..50);
    let finish = prop::sample::select(vec![Finish::Stop, Finish::Length, Finish::Filtered]);
    prop_oneof![
        6 => (choice(), text()).prop_map(|(choice, text)| Told::Text(choice, text)),
        3 => (choice(), text()).prop_map(|(choice, text)| Told::Reasoning(choice, text)),
        1 => (choice(), text()).prop_map(|(choice, text)| Told::Refusal(choice, text)),
        1 => text().prop_map(Told::Signed),
        1 => text().prop_map(Told::Redacted),
        6 => (choice(), word(), name, word()).prop_map(|(choice, id, name, signature)| Told::Call(choice, id, name, signature)),
        6 => (choice(), text()).prop_map(|(choice, text)| Told::Arguments(choice, text)),
        1 => (choice(), prop::sample::select(vec!["image/png", "audio/wav"]), "[a]{0,2}")
            .prop_map(|(choice, mime, data)| Told::Media(choice, mime.to_owned(), data)),
        2 => (choice(), finish).prop_map(|(choice, finish)| Told::Finish(choice, finish)),
        1 => (count(), count(), count(), count(), count())
            .prop_map(|(prompt, completion, cached, cache_write, reasoning)| Told::Usage(Tokens { prompt, completion, cached, cache_write, reasoning })),
        1 => "[a\"]{0,2}".prop_map(Told::Id),
    ]
}

/// Removes arguments without a call, which end every answer.
pub(crate) fn plausible(told: &mut Vec<Told>) {
    let mut called = std::collections::HashSet::new();
    told.retain(|told| {
        if let Told::Call(choice, ..) = told {
            called.insert(*choice);
        }
        !matches!(told, Told::Arguments(choice, _) if !called.contains(choice))
    });
}

pub(crate) fn any_options() -> impl Strategy<Value = AnswerOptions> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(hide_reasoning, keep_thoughts, has_format)| AnswerOptions {
            undo: Undo {
                names: vec![("f_1".into(), "f.1".into())],
                format_tool: has_format.then(|| "fmt".into()),
                ..Undo::default()
            },
            hide_reasoning,
            keep_thoughts,
            seal: None,
        },
    )
}

/// The answer that a client makes of chunks, as the buffered one is written.
fn accumulate(out: &str) -> Value {
    let mut answer = json!({"choices": []});
    for event in out
        .strip_suffix("data: [DONE]\n\n")
        .unwrap()
        .split_terminator("\n\n")
    {
        let chunk: Value = serde_json::from_str(&event["data: ".len()..]).unwrap();
        for key in ["id", "created", "model"] {
            answer[key] = chunk[key].clone();
        }
        answer["object"] = json!("chat.completion");
        let Some(choice) = chunk["choices"].get(0) else {
            answer["usage"] = chunk["usage"].clone();
            continue;
        };
        let index = usize::try_from(choice["index"].as_u64().unwrap()).unwrap();
        let choices = answer["choices"].as_array_mut().unwrap();
        if index == choices.len() {
            choices.push(json!({"index": index, "message": {"refusal": null}, "logprobs": null}));
        }
        choices[index]["finish_reason"] = choice["finish_reason"].clone();
        let message = &mut choices[index]["message"];
        for (key, value) in choice["delta"].as_object().unwrap() {
            match value {
                Value::String(text) => {
                    let all = message
                        .get(key)
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .to_owned()
                        + text;
                    message[key] = all.into();
                }
                Value::Array(entries) => {
                    let entry = &entries[0];
                    let list = message
                        .as_object_mut()
                        .unwrap()
                        .entry(key)
                        .or_insert(json!([]))
                        .as_array_mut()
                        .unwrap();
                    let at = usize::try_from(entry["index"].as_u64().unwrap()).unwrap();
                    if at == list.len() {
                        list.push(entry.clone());
                    } else {
                        let all = list[at]["function"]["arguments"]
                            .as_str()
                            .unwrap()
                            .to_owned()
                            + entry["function"]["arguments"].as_str().unwrap();
                        list[at]["function"]["arguments"] = all.into();
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                    panic!("{value}")
                }
            }
        }
    }
    for choice in answer["choices"].as_array_mut().unwrap() {
        let message = choice["message"].as_object_mut().unwrap();
        if let Some(calls) = message.get_mut("tool_calls") {
            calls
                .as_array_mut()
                .unwrap()
                .iter_mut()
                .for_each(|call| drop(call.as_object_mut().unwrap().remove("index")));
            if message["content"] == "" {
                message.insert("content".into(), Value::Null);
            }
        }
    }
    answer
}

proptest! {
    /// For any events of a dialect, the stream is as clients need it and has the content of the
    /// buffered answer, or both end with one fault.
    #[test]
    fn streams_are_valid_and_say_what_whole_answers_say(
        mut told in prop::collection::vec(told(), 0..24),
        options in any_options(),
        show_usage: bool,
        is_plausible in prop::bool::weighted(0.9),
    ) {
        if is_plausible {
            plausible(&mut told);
        }
        let mut chunks = Chunks::new(&header(show_usage), options.clone());
        // The id comes first, or not at all.
        let (ids, others): (Vec<&Told>, Vec<&Told>) = told.iter().partition(|told| matches!(told, Told::Id(_)));
        let events: Vec<Event<'_>> = ids.into_iter().chain(others).map(Told::event).collect();
        let mut out = Vec::new();
        events.iter().for_each(|event| chunks.take(event.clone(), &mut out));
        let streamed = chunks.finish(&mut out, None);
        let out = String::from_utf8(out).unwrap();
        match (streamed, buffered(&options, &events)) {
            (Ok(usage), Ok((answer, kept))) => {
                conforms(&out, show_usage);
                prop_assert_eq!(usage, answer.usage);
                prop_assert_eq!(chunks.0.progress.declined(), answer.declined);
                prop_assert_eq!(chunks.0.progress.kept_thoughts(), kept);
                let mut whole: Value = serde_json::from_slice(&answer.body).unwrap();
                if !show_usage {
                    whole.as_object_mut().unwrap().remove("usage");
                }
                prop_assert_eq!(accumulate(&out), whole);
            }
            (Err(StreamFault::Broken(why)), Err(AnswerFault::Nonsense(same))) => {
                prop_assert_eq!(why, same);
                prop_assert!(!out.contains("[DONE]"));
            }
            (streamed, whole) => prop_assert!(false, "{:?} {:?}", streamed, whole),
        }
    }
}

#[test]
fn broken_calls_told_as_whole_count_in_both_forms() {
    let part = |text| Event::Arguments(0, text);
    let one = |parts: &[&'static str], finish| {
        let mut events = vec![call(0, None, "f")];
        events.extend(parts.iter().map(|text| part(text)));
        events.extend([Event::Finish(0, finish), Event::End]);
        events
    };
    let two = vec![
        call(0, None, "f"),
        part("{\"a\":"),
        call(0, None, "g"),
        part("{}"),
        STOP,
        Event::End,
    ];
    let refused = [vec![Event::Refusal(0, "no")], one(&["{"], Finish::Stop)].concat();
    for (events, broken) in [
        (one(&["{\"a\":", "1}"], Finish::Stop), 0),
        (one(&[], Finish::Stop), 0),
        (one(&["{\"a\":"], Finish::Stop), 1),
        (one(&["{}", "{}"], Finish::Stop), 1),
        (one(&["{\"a\":"], Finish::Length), 0),
        (one(&["{\"a\":"], Finish::Filtered), 0),
        (two, 1),
        (refused, 0),
    ] {
        assert_eq!(
            flaws(false, &options(), &events),
            Flaws {
                broken_calls: broken,
                ..Flaws::default()
            },
            "{events:?}"
        );
    }
}

#[test]
fn content_that_should_be_json_is_checked_everywhere() {
    let said = |text, finish| vec![Event::Text(0, text), Event::Finish(0, finish), Event::End];
    let tool = |arguments| {
        vec![
            Event::Text(0, "Well:"),
            call(0, None, "fmt"),
            Event::Arguments(0, arguments),
            STOP,
            Event::End,
        ]
    };
    for (options, events, not_json) in [
        (options(), said("{\"a\":1}", Finish::Stop), false),
        (options(), said("Sure!", Finish::Stop), true),
        (options(), said("{\"a\":", Finish::Length), false),
        (options(), vec![call(0, None, "f"), STOP, Event::End], false),
        (formatted(), tool("{\"a\":1}"), false),
        (formatted(), tool("{\"a\":"), true),
        (formatted(), said("{}", Finish::Stop), false),
        (formatted(), said("Sure!", Finish::Stop), true),
        (
            formatted(),
            vec![call(0, None, "fmt"), STOP, Event::End],
            false,
        ),
    ] {
        assert_eq!(
            flaws(true, &options, &events),
            Flaws {
                not_json,
                ..Flaws::default()
            },
            "{events:?}"
        );
        assert!(!flaws(false, &options, &events).not_json, "{events:?}");
    }
}

/// Returns the flaws of an answer, and checks that both forms have them.
#[track_caller]
fn flaws(wants_json: bool, options: &AnswerOptions, events: &[Event<'_>]) -> Flaws {
    let header = AnswerHeader {
        wants_json,
        ..header(false)
    };
    let tell = |emit: crate::neutral::Emit<'_>| -> Result<(), AnswerFault> {
        events.iter().for_each(|event| emit(event.clone()));
        Ok(())
    };
    let (whole, _) = answer(&header, options.clone(), tell).expect("an answer");
    let (stream, _) = converted(&header, options.clone(), tell).expect("a stream");
    assert_eq!(whole.flaws, stream.flaws);
    whole.flaws
}

#[test]
fn a_call_of_an_unoffered_tool_is_none() {
    let options = AnswerOptions {
        undo: Undo {
            stubs: vec!["no_tool".into()],
            ..Undo::default()
        },
        ..options()
    };
    let stub = || {
        vec![
            call(0, Some("t1"), "no_tool"),
            Event::Arguments(0, "{\"a\":"),
        ]
    };
    let text = vec![Event::Text(0, "Noon.")];
    let end = || vec![STOP, Event::End];
    check_with(
        &options,
        &[text.clone(), stub(), end()].concat(),
        &[ROLE, r#"0 {"content":"Noon."}"#, "0 =stop"],
    );
    check_with(
        &options,
        &[stub(), text, end()].concat(),
        &[ROLE, r#"0 {"content":"Noon."}"#, "0 =stop"],
    );
    check_with(&options, &[stub(), end()].concat(), &[ROLE, "0 =stop"]);
    let tell = |emit: crate::neutral::Emit<'_>| -> Result<(), AnswerFault> {
        [stub(), end()].concat().into_iter().for_each(emit);
        Ok(())
    };
    let (whole, _) = answer(&header(false), options.clone(), tell).expect("an answer");
    let whole: Value = serde_json::from_slice(&whole.body).unwrap();
    assert_eq!(
        whole["choices"][0]["message"],
        json!({"role": "assistant", "content": "", "refusal": null})
    );
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    // It is not broken either: no client will execute it.
    assert_eq!(
        flaws(false, &options, &[stub(), end()].concat()),
        Flaws::default()
    );
}
