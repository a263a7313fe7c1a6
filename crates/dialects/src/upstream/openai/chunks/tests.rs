//! `@` in a chunk stands for a correct head: the upstream's in the input, the caller's in the
//! expected output.

use proptest::prelude::*;
use serde_json::Value;

use super::super::template::Template;
use super::*;
use crate::dialect::Stream;
use crate::neutral::UpstreamError;
use crate::neutral::usage::Source;
use crate::upstream::quirks;

const IN: &str = r#""id":"u1","object":"chat.completion.chunk","created":7,"model":"up""#;
const OUT: &str = r#""id":"u1","object":"chat.completion.chunk","created":7,"model":"fast""#;
const OURS: &str =
    r#""id":"chatcmpl-0a","object":"chat.completion.chunk","created":99,"model":"fast""#;
const STOP: &str = r#"{@,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

fn header(show_usage: bool) -> AnswerHeader {
    AnswerHeader {
        model: "fast".into(),
        id: "chatcmpl-0a".into(),
        created: 99,
        show_usage,
        prompt_bytes: 400,
        ..AnswerHeader::default()
    }
}

#[derive(Debug, PartialEq)]
struct Run {
    out: String,
    result: Result<Usage, StreamFault>,
    opened: bool,
    declined: bool,
    said: u64,
}

fn run<'a>(show_usage: bool, reads: impl IntoIterator<Item = &'a [u8]>) -> Run {
    run_with(Template::default(), show_usage, reads)
}

fn run_with<'a>(
    template: Template,
    show_usage: bool,
    reads: impl IntoIterator<Item = &'a [u8]>,
) -> Run {
    run_at(&Quirks::NONE, template, show_usage, reads)
}

fn run_at<'a>(
    quirks: &'static Quirks,
    template: Template,
    show_usage: bool,
    reads: impl IntoIterator<Item = &'a [u8]>,
) -> Run {
    feed(
        Stream::passed(&header(show_usage), quirks, true, 1 << 20),
        template,
        reads,
    )
}

/// Where thinking is hidden.
fn run_hiding<'a>(
    quirks: &'static Quirks,
    template: Template,
    show_usage: bool,
    reads: impl IntoIterator<Item = &'a [u8]>,
) -> Run {
    feed(
        Stream::passed(&header(show_usage), quirks, false, 1 << 20),
        template,
        reads,
    )
}

fn feed<'a>(
    mut stream: Stream,
    template: Template,
    reads: impl IntoIterator<Item = &'a [u8]>,
) -> Run {
    stream.chunks().template = template;
    let mut out = Vec::new();
    let mut fault = None;
    for read in reads {
        if let Err(found) = stream.feed(read, &mut out) {
            fault = Some(found);
            break;
        }
    }
    let result = match fault {
        Some(fault) => Err(fault),
        None => stream.finish(&mut out, None),
    };
    let (opened, declined) = (stream.opened(), stream.declined());
    Run {
        out: String::from_utf8(out).unwrap(),
        result,
        opened,
        declined,
        said: stream.chunks().passed_bytes,
    }
}

/// Runs the stream whole, cut in two at every byte, and byte by byte. All results are equal.
#[track_caller]
fn run_all(show_usage: bool, bytes: &[u8]) -> Run {
    let whole = run(show_usage, [bytes]);
    assert_eq!(
        run_with(Template::off(), show_usage, [bytes]),
        whole,
        "the long way"
    );
    for cut in 1..bytes.len() {
        let (head, tail) = bytes.split_at(cut);
        assert_eq!(run(show_usage, [head, tail]), whole, "cut at {cut}");
    }
    assert_eq!(run(show_usage, bytes.chunks(1)), whole, "byte by byte");
    if whole.result.is_ok() {
        conforms(&whole.out, show_usage);
    }
    whole
}

fn sse(chunks: &[&str]) -> String {
    chunks
        .iter()
        .map(|chunk| format!("data: {}\n\n", chunk.replace('@', IN)))
        .collect()
}

#[track_caller]
fn check_run(show_usage: bool, chunks: &[&str], expected: &[&str]) -> Run {
    let run = run_all(show_usage, sse(chunks).as_bytes());
    let out: Vec<&str> = run
        .out
        .split_terminator("\n\n")
        .map(|event| event.strip_prefix("data: ").unwrap())
        .collect();
    let expected: Vec<String> = expected
        .iter()
        .map(|chunk| chunk.replace('@', OUT))
        .collect();
    assert_eq!(out, expected);
    run
}

/// A stream that ends well; `[DONE]` is added on both sides.
#[track_caller]
fn check(chunks: &[&str], expected: &[&str]) {
    let run = check_run(
        false,
        &[chunks, &["[DONE]"]].concat(),
        &[expected, &["[DONE]"]].concat(),
    );
    assert!(run.result.is_ok(), "{:?}", run.result);
    assert!(run.opened);
}

/// Checks a stream whose caller asked for usage. An expected chunk without a `usage` gets
/// `"usage":null` first.
#[track_caller]
fn check_usage(chunks: &[&str], expected: &[&str], usage: (u64, u64, u64, Source)) {
    let with_null = |chunk: &&str| match chunk.contains(r#""usage""#) {
        true => chunk.to_string(),
        false => chunk.replacen('{', r#"{"usage":null,"#, 1),
    };
    let expected: Vec<String> = expected.iter().map(with_null).collect();
    let expected: Vec<&str> = expected
        .iter()
        .map(String::as_str)
        .chain(["[DONE]"])
        .collect();
    let run = check_run(true, &[chunks, &["[DONE]"]].concat(), &expected);
    let (prompt, completion, cached, source) = usage;
    assert_eq!(
        run.result,
        Ok(Usage {
            prompt,
            completion,
            cached,
            source,
            ..Usage::default()
        })
    );
    let hidden = run_all(false, sse(&[chunks, &["[DONE]"]].concat()).as_bytes());
    assert_eq!(
        hidden.result, run.result,
        "what is not shown counts the same"
    );
    assert!(!hidden.out.contains(r#""usage""#), "{}", hidden.out);
}

/// A stream that ends badly after these events.
#[track_caller]
fn check_fault(chunks: &[&str], expected: &[&str], fault: StreamFault) -> bool {
    let run = check_run(false, chunks, expected);
    assert_eq!(run.result, Err(fault));
    run.opened
}

/// The rules that official clients rely on, for any stream that ended well.
#[track_caller]
fn conforms(out: &str, show_usage: bool) {
    let (events, rest) = out
        .rsplit_once("data: [DONE]\n\n")
        .expect("[DONE] is there");
    assert_eq!(rest, "", "nothing follows [DONE]");
    #[derive(Default)]
    struct Seen {
        role: bool,
        finished: bool,
        /// The arguments of each call; none for custom ones.
        calls: Vec<Option<String>>,
    }
    let mut seen: Vec<Seen> = Vec::new();
    let mut heads = Vec::new();
    let mut usages = 0;
    for event in events.split_terminator("\n\n") {
        let data = event.strip_prefix("data: ").expect("data only");
        assert!(!data.contains('\n') && !data.contains('\r'));
        let chunk: Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(usages, 0, "usage is last");
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk["model"], "fast");
        heads.push((chunk["id"].clone(), chunk["created"].clone()));
        assert!(chunk["id"].as_str().is_some_and(|id| !id.is_empty()));
        assert!(chunk["created"].as_u64().is_some_and(|created| created > 0));
        assert!(
            chunk
                .get("error")
                .is_none_or(|error| matches!(error.as_str(), Some(""))
                    || error == false
                    || error.is_null())
        );
        let choices = chunk["choices"].as_array().expect("choices");
        assert_eq!(
            choices.is_empty(),
            chunk.get("usage").is_some_and(Value::is_object),
            "{data}"
        );
        assert_eq!(chunk.get("usage").is_some(), show_usage, "{data}");
        usages += usize::from(choices.is_empty());
        if choices.is_empty() {
            let usage = &chunk["usage"];
            let sum = usage["prompt_tokens"].as_u64().unwrap()
                + usage["completion_tokens"].as_u64().unwrap();
            assert_eq!(usage["total_tokens"], sum);
        }
        for choice in choices {
            let index = usize::try_from(choice["index"].as_u64().unwrap()).unwrap();
            assert!(index <= seen.len(), "choices appear in order");
            if index == seen.len() {
                seen.push(Seen::default());
            }
            let seen = &mut seen[index];
            assert!(!seen.finished, "nothing follows the finish");
            let delta = choice["delta"].as_object().expect("a delta");
            assert_eq!(
                delta.get("role"),
                (!seen.role).then(|| Value::from("assistant")).as_ref(),
                "{data}"
            );
            seen.role = true;
            assert!(
                delta
                    .get("content")
                    .is_none_or(|content| content.is_string() || content.is_null())
            );
            for call in delta
                .get("tool_calls")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                let number = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
                let is_new = number == seen.calls.len();
                assert!(number <= seen.calls.len(), "calls are contiguous");
                if is_new {
                    seen.calls.push(call.get("function").map(|_| String::new()));
                }
                assert_eq!(
                    call.get("id")
                        .is_some_and(|id| !id.as_str().unwrap().is_empty()),
                    is_new
                );
                assert_eq!(call.get("type").is_some_and(Value::is_string), is_new);
                assert_eq!(call.get("type").is_some(), is_new);
                if let Some(function) = call.get("function") {
                    let before = seen.calls[number].get_or_insert_default();
                    let may_be_named = is_new || before.is_empty();
                    assert!(!is_new || function["name"].is_string());
                    assert!(
                        may_be_named || function.get("name").is_none(),
                        "a name comes before the arguments"
                    );
                    before.push_str(function["arguments"].as_str().expect("arguments"));
                }
            }
            if let Some(reason) = choice["finish_reason"].as_str() {
                assert!(
                    [
                        "stop",
                        "length",
                        "tool_calls",
                        "content_filter",
                        "function_call"
                    ]
                    .contains(&reason)
                );
                let has_empty = seen.calls.iter().flatten().any(String::is_empty);
                assert!(
                    !has_empty || ["length", "content_filter"].contains(&reason),
                    "a call has arguments"
                );
                seen.finished = true;
            } else {
                assert!(choice.get("finish_reason").is_none_or(Value::is_null));
            }
        }
    }
    assert!(
        heads.windows(2).all(|pair| pair[0] == pair[1]),
        "id and created never change"
    );
    assert_eq!(usages, usize::from(show_usage));
    assert!(
        !seen.is_empty() && seen.iter().all(|seen| seen.finished),
        "every choice finishes"
    );
}

fn upstream(message: &str) -> StreamFault {
    StreamFault::Upstream(UpstreamError {
        message: message.into(),
        ..UpstreamError::default()
    })
}

// A correct stream.

#[test]
fn a_clean_stream_changes_only_its_model() {
    check(
        &[
            r#"{@,"service_tier":"default","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"obfuscation":"x"}"#,
            r#"{@,"choices":[{"index":0,"delta":{"content":"h\u00e9 \"i\" é\n"},"logprobs":null,"finish_reason":null}]}"#,
            r#"{ "choices" : [ {"delta":{"content":"x"}, "index":0 , "finish_reason":null} ] , @ }"#,
            r#"{@,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}"#,
        ],
        &[
            r#"{@,"service_tier":"default","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"obfuscation":"x"}"#,
            r#"{@,"choices":[{"index":0,"delta":{"content":"h\u00e9 \"i\" é\n"},"logprobs":null,"finish_reason":null}]}"#,
            r#"{ "choices" : [ {"delta":{"content":"x"}, "index":0 , "finish_reason":null} ] , @ }"#,
            r#"{@,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}"#,
        ],
    );
}

#[test]
fn unknown_fields_stay() {
    let chunk = r#"{@,"provider":"x","choices":[{"index":0,"native_finish_reason":null,"content_filter_results":{"hate":{"filtered":false}},"delta":{"role":"assistant","thoughts":"hm","reasoning_content":"hm","content":"a"},"finish_reason":null}],"timings":{"a":1e99}}"#;
    check(&[chunk, STOP], &[chunk, STOP]);
}

#[test]
fn several_choices_interleave() {
    let chunk = |index, text| {
        format!(r#"{{@,"choices":[{{"index":{index},"delta":{text},"finish_reason":null}}]}}"#)
    };
    let chunks = [
        chunk(0, r#"{"role":"assistant","content":""}"#),
        chunk(1, r#"{"role":"assistant","content":""}"#),
        chunk(1, r#"{"content":"b"}"#),
        chunk(0, r#"{"content":"a"}"#),
    ];
    let ends = [
        r#"{@,"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}"#,
        r#"{@,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    ];
    let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
    check(
        &[&chunks[..], &ends].concat(),
        &[&chunks[..], &[ends[1], ends[0]]].concat(),
    );
}

#[test]
fn a_spoken_answer_may_end_with_its_expiry() {
    let chunks = [
        r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":null,"audio":{"id":"a","data":"AA"}},"finish_reason":null}]}"#,
        r#"{@,"choices":[{"index":0,"delta":{"audio":{"expires_at":1790000000}},"finish_reason":null}]}"#,
        "[DONE]",
    ];
    let run = run(false, [sse(&chunks).as_bytes()]);
    assert_eq!(run.result.map(|usage| usage.source), Ok(Source::Estimated));
    assert_eq!(run.out, sse(&chunks).replace("up", "fast"));
}

// Heads.

#[test]
fn missing_or_empty_heads_are_filled() {
    let empty = r#"{"id":"","object":"","created":0,"model":"","choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}"#;
    let missing = r#"{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":null}]}"#;
    let wrong = r#"{"id":7,"object":"chat.completion","created":"now","model":null,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    check(
        &[empty, missing, wrong],
        &[
            &format!(
                r#"{{{OURS},"choices":[{{"index":0,"delta":{{"role":"assistant","content":"a"}},"finish_reason":null}}]}}"#
            ),
            &format!(
                r#"{{{OURS},"choices":[{{"index":0,"delta":{{"content":"b"}},"finish_reason":null}}]}}"#
            ),
            &format!(r#"{{{OURS},"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}]}}"#),
        ],
    );
}

#[test]
fn the_first_head_stays() {
    check(
        &[
            r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}"#,
            r#"{"id":"u2","object":"chat.completion.chunk","created":8.0,"model":"other","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        ],
        &[
            r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        ],
    );
}

#[test]
fn azures_first_chunk_is_swallowed() {
    check(
        &[
            r#"{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}"#,
            r#"{"choices":[{"content_filter_offsets":{"end_offset":3},"delta":{},"finish_reason":null,"index":0}],"created":0,"id":"","model":"","object":""}"#,
            STOP,
        ],
        &[
            r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}"#,
            r#"{"choices":[{"content_filter_offsets":{"end_offset":3},"delta":{},"finish_reason":null,"index":0}],"created":7,"id":"u1","model":"fast","object":"chat.completion.chunk"}"#,
            STOP,
        ],
    );
}

#[test]
fn chunks_without_choices_are_swallowed() {
    let text = r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}"#;
    check(
        &[
            r#"{@,"choices":null}"#,
            text,
            r#"{@}"#,
            r#"{"type":"ping"}"#,
            "{}",
            STOP,
        ],
        &[text, STOP],
    );
}

// Roles, deltas, content.

#[test]
fn the_role_comes_once() {
    check(
        &[
            r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"b"},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{"content":"c","role":null},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":"stop"}]}"#,
        ],
        &[
            r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{"content":"c"},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        ],
    );
}

#[test]
fn a_missing_or_odd_role_is_put_in() {
    let plain = r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}"#;
    check(
        &[
            r#"{@,"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}"#,
            STOP,
        ],
        &[plain, STOP],
    );
    for role in [r#""""#, "null", r#""model""#] {
        check(
            &[&plain.replace(r#""assistant""#, role), STOP],
            &[plain, STOP],
        );
    }
    let opening =
        r#"{@,"choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}"#;
    check(
        &[STOP],
        &[
            opening,
            r#"{@,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}"#,
        ],
    );
}

#[test]
fn the_delta_is_always_an_object() {
    let role = r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}"#;
    check(
        &[
            role,
            r#"{@,"choices":[{"index":0,"delta":null,"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":null,"finish_reason":"stop"}]}"#,
        ],
        &[
            role,
            r#"{@,"choices":[{"index":0,"delta":{},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"delta":{},"index":0,"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        ],
    );
    check(
        &[r#"{@,"choices":[{"index":0}]}"#, role, STOP],
        &[
            r#"{@,"choices":[{"delta":{"role":"assistant","content":""},"index":0}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{"content":"a"}}]}"#,
            STOP,
        ],
    );
}

#[test]
fn a_message_may_stand_for_the_delta() {
    check(
        &[
            r#"{@,"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":null,"message":{"role":"assistant","content":"b"},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{},"message":{"content":"c"},"finish_reason":"stop"}]}"#,
        ],
        &[
            r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{"content":"c"},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}"#,
        ],
    );
}

// Thinking.

const OPENING: &str =
    r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;

/// Checks these chunks with thinking shown and hidden. The role comes before them, text and end
/// after them, on both sides.
#[track_caller]
fn check_thinking(chunks: &[&str], shown: &[&str], hidden: &[&str]) {
    let text = TEXT.replace(r#""role":"assistant","#, "");
    let wire = sse(&[&[OPENING], chunks, &[&text, STOP, "[DONE]"]].concat());
    let bytes = wire.as_bytes();
    let all = run_all(false, bytes);
    let hiding = run_hiding(&Quirks::NONE, Template::default(), false, [bytes]);
    assert_eq!(
        run_hiding(&Quirks::NONE, Template::off(), false, [bytes]),
        hiding,
        "the long way"
    );
    for cut in 1..bytes.len() {
        let (head, tail) = bytes.split_at(cut);
        assert_eq!(
            run_hiding(&Quirks::NONE, Template::default(), false, [head, tail]),
            hiding,
            "cut at {cut}"
        );
    }
    assert_eq!(
        run_hiding(&Quirks::NONE, Template::default(), false, bytes.chunks(1)),
        hiding,
        "byte by byte"
    );
    for (run, expected) in [(&all, shown), (&hiding, hidden)] {
        let expected = [&[OPENING], expected, &[&text, STOP, "[DONE]"]].concat();
        assert_eq!(run.out, sse(&expected).replace("up", "fast"), "{chunks:?}");
        conforms(&run.out, false);
    }
    assert_eq!(
        (&hiding.result, hiding.said, hiding.opened),
        (&all.result, all.said, all.opened),
        "what is hidden counts"
    );
}

/// Checks one delta with thinking shown and hidden; an empty expectation means that nothing goes
/// out.
#[track_caller]
fn check_delta(delta: &str, shown: &str, hidden: &str) {
    let chunk = |delta: &str| match delta {
        "" => Vec::new(),
        delta => vec![format!(
            r#"{{@,"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#
        )],
    };
    let [chunks, shown, hidden] = [delta, shown, hidden].map(chunk);
    let [chunks, shown, hidden] = [&chunks, &shown, &hidden]
        .map(|chunks| chunks.iter().map(String::as_str).collect::<Vec<_>>());
    check_thinking(&chunks, &shown, &hidden);
}

#[test]
fn thinking_has_one_name_or_none() {
    for (delta, shown, hidden) in [
        // DeepSeek, SGLang, llama.cpp
        (
            r#"{"reasoning_content":"hm"}"#,
            r#"{"reasoning_content":"hm"}"#,
            "",
        ),
        (
            r#"{"content":null,"reasoning_content":"hm"}"#,
            r#"{"content":null,"reasoning_content":"hm"}"#,
            "",
        ),
        // vLLM, Groq, Ollama
        (
            r#"{"reasoning":"h\u00e9\n"}"#,
            r#"{"reasoning_content":"h\u00e9\n"}"#,
            "",
        ),
        (
            r#"{"reasoning" : "hm" }"#,
            r#"{"reasoning_content" : "hm" }"#,
            "",
        ),
        (
            r#"{"content":"","reasoning":"hm","tool_calls":[]}"#,
            r#"{"content":"","reasoning_content":"hm","tool_calls":[]}"#,
            "",
        ),
        (
            r#"{"content":"b","reasoning":"hm"}"#,
            r#"{"content":"b","reasoning_content":"hm"}"#,
            r#"{"content":"b"}"#,
        ),
        // both
        (
            r#"{"reasoning":"hm","reasoning_content":"hm"}"#,
            r#"{"reasoning_content":"hm"}"#,
            "",
        ),
        (
            r#"{"reasoning_content":"hm","reasoning":"hm"}"#,
            r#"{"reasoning_content":"hm"}"#,
            "",
        ),
        (
            r#"{"reasoning_content":"hm","reasoning":""}"#,
            r#"{"reasoning_content":"hm"}"#,
            "",
        ),
        (
            r#"{"reasoning_content":"hm","reasoning":"ah"}"#,
            r#"{"reasoning_content":"hm","reasoning":"ah"}"#,
            "",
        ),
        (
            r#"{"reasoning_content":null,"reasoning":"hm"}"#,
            r#"{"reasoning_content":"hm"}"#,
            "",
        ),
        (
            r#"{"reasoning":"hm","reasoning_content":""}"#,
            r#"{"reasoning_content":"hm"}"#,
            "",
        ),
        (
            r#"{"reasoning_content":"hm","reasoning":null}"#,
            r#"{"reasoning_content":"hm","reasoning":null}"#,
            "",
        ),
        // OpenRouter
        (
            r#"{"content":"","reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}]}"#,
            r#"{"content":"","reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}]}"#,
            "",
        ),
        (
            r#"{"content":"","reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]}"#,
            r#"{"content":"","reasoning_details":[{"index":0,"type":"reasoning.encrypted","data":"x"}]}"#,
            "",
        ),
        // LiteLLM
        (
            r#"{"content":"","reasoning_content":"hm","thinking_blocks":[{"type":"thinking","thinking":"hm"}],"provider_specific_fields":{"thinking_blocks":[{"type":"thinking","thinking":"hm"}]}}"#,
            r#"{"content":"","reasoning_content":"hm","thinking_blocks":[{"type":"thinking","thinking":"hm"}],"provider_specific_fields":{"thinking_blocks":[{"type":"thinking","thinking":"hm"}]}}"#,
            "",
        ),
        (
            r#"{"content":"","thinking_blocks":[{"type":"thinking","thinking":"","signature":"s"}]}"#,
            r#"{"content":"","thinking_blocks":[{"type":"thinking","thinking":"","signature":"s"}]}"#,
            "",
        ),
        (
            r#"{"content":"b","provider_specific_fields":{"thinking_blocks":[]}}"#,
            r#"{"content":"b","provider_specific_fields":{"thinking_blocks":[]}}"#,
            r#"{"content":"b"}"#,
        ),
        // GitHub Copilot
        (
            r#"{"reasoning_text":"hm"}"#,
            r#"{"reasoning_text":"hm"}"#,
            "",
        ),
        (
            r#"{"content":"b","reasoning_text":"hm"}"#,
            r#"{"content":"b","reasoning_text":"hm"}"#,
            r#"{"content":"b"}"#,
        ),
        // Mistral
        (
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}"#,
            r#"{"reasoning_content":"hm","content":""}"#,
            "",
        ),
        (
            r#"{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"b"}]}"#,
            r#"{"reasoning_content":"hm","content":"b"}"#,
            r#"{"content":"b"}"#,
        ),
        (
            r#"{"content":[{"type":"thinking","thinking":"hm"}],"reasoning":"hm"}"#,
            r#"{"content":"","reasoning_content":"hm"}"#,
            "",
        ),
        // There is no text yet, or never.
        (
            r#"{"content":"","reasoning":null}"#,
            r#"{"content":"","reasoning":null}"#,
            r#"{"content":""}"#,
        ),
        (
            r#"{"content":"b","reasoning":null,"reasoning_content":null}"#,
            r#"{"content":"b","reasoning":null,"reasoning_content":null}"#,
            r#"{"content":"b"}"#,
        ),
        (
            r#"{"reasoning_content":"","content":"b","reasoning_details":[]}"#,
            r#"{"reasoning_content":"","content":"b","reasoning_details":[]}"#,
            r#"{"content":"b"}"#,
        ),
        (
            r#"{"reasoning":{"effort":"low"}}"#,
            r#"{"reasoning":{"effort":"low"}}"#,
            "",
        ),
        // An unknown field may mean something.
        (
            r#"{"reasoning":"hm","x":"y"}"#,
            r#"{"reasoning_content":"hm","x":"y"}"#,
            r#"{"x":"y"}"#,
        ),
        (
            r#"{"reasoning":"hm","refusal":"no"}"#,
            r#"{"reasoning_content":"hm","refusal":"no"}"#,
            r#"{"refusal":"no"}"#,
        ),
    ] {
        check_delta(delta, shown, hidden);
    }
}

#[test]
fn a_stream_of_thinking_is_shown_or_hidden() {
    let chunk = |delta: &str| {
        format!(r#"{{@,"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
    };
    for (name, beside) in [
        ("reasoning", ""),
        ("reasoning_content", ""),
        ("reasoning", r#","content":"""#),
        ("reasoning", r#","reasoning_content":"""#),
    ] {
        let texts = ["h", "", "\\u00e9", " \\n", "", "m"];
        let chunks = texts.map(|text| chunk(&format!(r#"{{"{name}":"{text}"{beside}}}"#)));
        let beside = if beside.contains("reas") { "" } else { beside };
        let shown =
            texts.map(|text| chunk(&format!(r#"{{"reasoning_content":"{text}"{beside}}}"#)));
        // An empty piece of thinking means as little as an empty content, which is passed on.
        let empty = chunk(&format!("{{{}}}", beside.trim_start_matches(',')));
        let hidden = vec![empty; 2];
        let [chunks, shown, hidden] = [&chunks[..], &shown[..], &hidden[..]]
            .map(|chunks| chunks.iter().map(String::as_str).collect::<Vec<_>>());
        check_thinking(&chunks, &shown, &hidden);
    }
}

/// The last piece may come with the finish: it goes out, since its other members would be lost.
#[test]
fn hidden_thinking_that_ends_the_answer_keeps_its_end() {
    let chunk = |delta: &str, finish: &str| {
        format!(
            r#"{{@,"choices":[{{"index":0,"delta":{delta},"finish_reason":{finish},"stop_reason":7}}]}}"#
        )
    };
    let role = r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;
    let finish =
        r#"{@,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}]}"#;
    let wire = sse(&[
        role,
        &chunk(r#"{"reasoning":"hm"}"#, "null"),
        &chunk(r#"{"reasoning":"hm"}"#, r#""length""#),
        "[DONE]",
    ]);
    let run = run_hiding(&Quirks::NONE, Template::default(), false, [wire.as_bytes()]);
    assert_eq!(
        run.out,
        sse(&[role, &chunk("{}", "null"), finish, "[DONE]"]).replace("up", "fast")
    );
    assert_eq!((run.result, run.said), (Ok(Usage::estimated(400, 4)), 4));

    let only = sse(&[&chunk(r#"{"reasoning":"hm"}"#, r#""length""#), "[DONE]"]);
    let run = run_hiding(&Quirks::NONE, Template::default(), true, [only.as_bytes()]);
    conforms(&run.out, true);
}

/// Usage and citations in a chunk of hidden thinking are not lost with it.
#[test]
fn what_comes_with_hidden_thinking_is_not_lost() {
    let thought = |more: &str| {
        format!(
            r#"{{@,"choices":[{{"index":0,"delta":{{"reasoning":"hm"}},"finish_reason":null}}]{more}}}"#
        )
    };
    let wire = sse(&[
        OPENING,
        &thought(&format!(r#","usage":{USAGE}"#)),
        &thought(r#","citations":["u"]"#),
        STOP,
        "[DONE]",
    ]);
    let run = run_hiding(&Quirks::NONE, Template::default(), false, [wire.as_bytes()]);
    let cited = r#"{@,"choices":[{"index":0,"delta":{},"finish_reason":null}],"citations":["u"]}"#;
    assert_eq!(
        run.out,
        sse(&[OPENING, cited, STOP, "[DONE]"]).replace("up", "fast")
    );
    assert_eq!(
        run.result,
        Ok(Usage {
            prompt: 9,
            completion: 3,
            source: Source::Reported,
            ..Usage::default()
        })
    );
}

/// A choice appears with its first chunk, even if that is nothing but hidden thinking: a helper
/// would crash on the second before the first.
#[test]
fn hidden_thinking_opens_the_gate_and_the_choice() {
    let feed = |chunks: &[&str]| {
        let mut stream = Stream::passed(&header(false), &Quirks::NONE, false, 1 << 20);
        let mut out = Vec::new();
        stream.feed(sse(chunks).as_bytes(), &mut out).unwrap();
        (
            stream.opened(),
            stream.usage_so_far(),
            String::from_utf8(out).unwrap(),
        )
    };
    let chunk = |choices: &str| format!(r#"{{@,"choices":[{choices}]}}"#);
    let shown = |chunks: &[&str]| sse(chunks).replace("up", "fast");
    let thought = chunk(r#"{"index":0,"delta":{"reasoning":"hmhmhm"}}"#);
    let role = chunk(r#"{"index":0,"delta":{"role":"assistant"}}"#);
    assert_eq!(
        feed(&[&thought]),
        (true, Usage::estimated(400, 6), shown(&[&role]))
    );
    assert_eq!(
        feed(&[&thought, &thought]),
        (true, Usage::estimated(400, 12), shown(&[&role]))
    );
    for delta in [
        r#"{"role":"assistant","content":"""#,
        r#"{"role":"assistant","content":null"#,
    ] {
        let entry = |rest: &str| chunk(&format!(r#"{{"index":0,"delta":{delta}{rest}}}}}"#));
        assert_eq!(
            feed(&[&entry(r#","reasoning":"hm""#)]).2,
            shown(&[&entry("")])
        );
    }
    let parts = chunk(r#"{"index":0,"delta":{"content":[{"type":"thinking","thinking":"hm"}]}}"#);
    let empty = chunk(r#"{"index":0,"delta":{"role":"assistant","content":""}}"#);
    assert_eq!(
        feed(&[&parts, &parts]),
        (true, Usage::estimated(400, 4), shown(&[&empty]))
    );

    let both = |delta: &str, other: &str| {
        chunk(&format!(
            r#"{{"index":0,"delta":{delta}}},{{"index":1,"delta":{other}}}"#
        ))
    };
    let first = both(r#"{"reasoning":"hm"}"#, r#"{"reasoning_content":"ah"}"#);
    let roles = both(r#"{"role":"assistant"}"#, r#"{"role":"assistant"}"#);
    let mixed = both(r#"{"reasoning":"hm"}"#, r#"{"content":"a"}"#);
    let left = both("{}", r#"{"content":"a"}"#);
    assert_eq!(
        feed(&[&first, &first, &mixed]),
        (true, Usage::estimated(400, 11), shown(&[&roles, &left]))
    );
    // A message that only repeats the hidden delta is no news later.
    let again = chunk(r#"{"index":0,"delta":{},"message":{"content":"hm"}}"#);
    let nothing = chunk(r#"{"index":0,"delta":{}}"#);
    let opening = chunk(r#"{"index":0,"delta":{"role":"assistant"}}"#);
    assert_eq!(
        feed(&[&opening, &thought, &again]).2,
        shown(&[&opening, &nothing])
    );
}

/// Perplexity: delta and the message so far in every chunk, usage in every chunk, the finish
/// repeated.
#[test]
fn a_message_beside_the_delta_only_repeats_it() {
    let usage = |n| {
        format!(
            r#""usage":{{"prompt_tokens":5,"completion_tokens":{n},"total_tokens":{}}}"#,
            n + 5
        )
    };
    check_usage(
        &[
            &format!(
                r#"{{@,{},"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},"message":{{"role":"assistant","content":""}},"finish_reason":null}}]}}"#,
                usage(0)
            ),
            &format!(
                r#"{{@,{},"choices":[{{"index":0,"delta":{{"role":"assistant","content":"a"}},"message":{{"role":"assistant","content":"a"}},"finish_reason":null}}]}}"#,
                usage(1)
            ),
            &format!(
                r#"{{@,{},"choices":[{{"index":0,"message":{{"role":"assistant","content":"ab"}},"delta":{{"role":"assistant","content":"b"}},"finish_reason":"stop"}}]}}"#,
                usage(2)
            ),
            &format!(
                r#"{{@,{},"choices":[{{"index":0,"message":{{"role":"assistant","content":"ab"}},"finish_reason":"stop"}}]}}"#,
                usage(2)
            ),
        ],
        &[
            r#"{@,"usage":null,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
            r#"{@,"usage":null,"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}"#,
            r#"{@,"usage":null,"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":null}]}"#,
            r#"{@,"usage":null,"choices":[{"delta":{},"index":0,"finish_reason":"stop"}]}"#,
            r#"{@,"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}"#,
        ],
        (5, 2, 0, Source::Reported),
    );
}

#[test]
fn content_in_parts_becomes_text() {
    check(
        &[
            r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"a\n"},{"type":"text","text":"b"}]},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{"content":null},"finish_reason":null}]}"#,
            STOP,
        ],
        &[
            r#"{@,"choices":[{"index":0,"delta":{"reasoning_content":"hm","role":"assistant","content":""},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{"content":"a\nb"},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{"content":null},"finish_reason":null}]}"#,
            STOP,
        ],
    );
}

#[test]
fn citations_get_the_index_that_clients_merge_by() {
    check(
        &[
            r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a","annotations":[{"type":"url_citation"},{}]},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{"annotations":[{"type":"url_citation"}],"images":[{"index":0}]},"finish_reason":"stop"}]}"#,
        ],
        &[
            r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a","annotations":[{"index":0,"type":"url_citation"},{"index":1}]},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{"annotations":[{"index":2,"type":"url_citation"}],"images":[{"index":0}]},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}"#,
        ],
    );
}

#[test]
fn odd_logprobs_are_none() {
    check(
        &[
            r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"logprobs":-0.5,"finish_reason":null}]}"#,
            STOP,
        ],
        &[
            r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"logprobs":null,"finish_reason":null}]}"#,
            STOP,
        ],
    );
}

#[test]
fn choices_are_numbered_as_they_appear() {
    let chunk = |index: &str, delta: &str| {
        format!(r#"{{@,"choices":[{{{index}"delta":{delta},"finish_reason":null}}]}}"#)
    };
    check(
        &[
            &chunk(r#""index":1,"#, r#"{"role":"assistant","content":"b"}"#),
            &chunk(r#""index":0,"#, r#"{"role":"assistant","content":"a"}"#),
            &chunk(r#""index":1,"#, r#"{"content":"b"}"#),
            r#"{@,"choices":[{"index":0,"delta":{},"finish_reason":"stop"},{"index":1,"delta":{},"finish_reason":"length"}]}"#,
        ],
        &[
            &chunk(r#""index":0,"#, r#"{"role":"assistant","content":"b"}"#),
            &chunk(r#""index":1,"#, r#"{"role":"assistant","content":"a"}"#),
            &chunk(r#""index":0,"#, r#"{"content":"b"}"#),
            r#"{@,"choices":[{"index":1,"delta":{},"finish_reason":null},{"index":0,"delta":{},"finish_reason":null}]}"#,
            r#"{@,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}]}"#,
            r#"{@,"choices":[{"index":1,"delta":{},"logprobs":null,"finish_reason":"stop"}]}"#,
        ],
    );
    check(
        &[
            &chunk("", r#"{"role":"assistant","content":"a"}"#),
            &chunk(r#""index":null,"#, r#"{"content":"b"}"#),
            STOP,
        ],
        &[
            &chunk(r#""index":0,"#, r#"{"role":"assistant","content":"a"}"#),
            &chunk(r#""index":0,"#, r#"{"content":"b"}"#),
            STOP,
        ],
    );
}

// Tool calls. `check_calls` shows only the arrays.

#[track_caller]
fn check_calls(arrays: &[&str], expected: &[&str]) {
    let wrap = |arrays: &[&str]| -> Vec<String> {
        let chunk = |array| {
            format!(
                r#"{{@,"choices":[{{"index":0,"delta":{{"tool_calls":{array}}},"finish_reason":null}}]}}"#
            )
        };
        arrays.iter().map(chunk).collect()
    };
    let role = r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]}"#;
    let (mut input, mut output) = (wrap(arrays), wrap(expected));
    input.insert(0, role.into());
    output.insert(0, role.into());
    input.push(STOP.into());
    output.push(STOP.replace("stop", "tool_calls"));
    let strings = |list: &Vec<String>| {
        list.iter()
            .map(|chunk| chunk.replace("§", "chatcmpl0a"))
            .collect::<Vec<_>>()
    };
    let (input, output) = (strings(&input), strings(&output));
    check(
        &input.iter().map(String::as_str).collect::<Vec<_>>(),
        &output.iter().map(String::as_str).collect::<Vec<_>>(),
    );
}

#[test]
fn clean_calls_stay_as_they_are() {
    let arrays = [
        r#"[{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":""}}]"#,
        r#"[{"index":0,"function":{"arguments":"{\"q\":"}}]"#,
        r#"[{"index":0, "function":{"arguments":"1}"}, "x":1}]"#,
        r#"[{"index":1,"id":"call_b","type":"function","function":{"name":"f","arguments":"{}"}}]"#,
    ];
    check_calls(&arrays, &arrays);
}

#[test]
fn id_name_and_type_are_not_repeated() {
    check_calls(
        &[
            r#"[{"index":0,"id":"0","type":"function","function":{"name":"f","description":null,"arguments":""}}]"#,
            r#"[{"index":0,"id":"0","type":"function","function":{"name":"f","description":null,"arguments":"{}"}}]"#,
            r#"[{"index":0,"id":"","type":null,"function":{"name":null,"arguments":" "}}]"#,
            r#"[{"index":0,"id":"changed","function":{"arguments":" "}}]"#,
            r#"[{"index":0,"function":{"name":"f","arguments":" "}}]"#,
        ],
        &[
            r#"[{"index":0,"id":"0","type":"function","function":{"name":"f","description":null,"arguments":""}}]"#,
            r#"[{"index":0,"function":{"arguments":"{}","description":null}}]"#,
            r#"[{"index":0,"function":{"arguments":" "}}]"#,
            r#"[{"index":0,"function":{"arguments":" "}}]"#,
            r#"[{"index":0,"function":{"arguments":" "}}]"#,
        ],
    );
}

/// Claude behind proxies.
#[test]
fn parallel_calls_under_one_number_are_told_apart() {
    check_calls(
        &[
            r#"[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]"#,
            r#"[{"index":0,"function":{"arguments":"1"}}]"#,
            r#"[{"index":0,"id":"b","type":"function","function":{"name":"f","arguments":""}}]"#,
            r#"[{"index":0,"function":{"arguments":"2"}}]"#,
            r#"[{"index":0,"id":"b","function":{"name":"f","arguments":"3"}}]"#,
        ],
        &[
            r#"[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]"#,
            r#"[{"index":0,"function":{"arguments":"1"}}]"#,
            r#"[{"index":1,"id":"b","type":"function","function":{"name":"f","arguments":""}}]"#,
            r#"[{"index":1,"function":{"arguments":"2"}}]"#,
            r#"[{"index":1,"function":{"arguments":"3"}}]"#,
        ],
    );
}

#[test]
fn numbers_become_contiguous_from_0() {
    check_calls(
        &[
            r#"[{"index":1,"id":"a","type":"function","function":{"name":"f","arguments":""}},{"index":4,"id":"b","type":"function","function":{"name":"g","arguments":""}}]"#,
            r#"[{"index":4,"function":{"arguments":"4"}},{"index":1,"function":{"arguments":"1"}}]"#,
        ],
        &[
            r#"[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}},{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":""}}]"#,
            r#"[{"index":1,"function":{"arguments":"4"}},{"index":0,"function":{"arguments":"1"}}]"#,
        ],
    );
}

/// xAI, Mistral, Ollama.
#[test]
fn whole_calls_without_number_id_or_type_are_completed() {
    check_calls(
        &[
            r#"[{"function":{"name":"f","arguments":{"q":"\"é\"","n":[1]}}},{"id":"null","function":{"name":"f","arguments":null}}]"#,
            r#"[{"id":"x","type":"","function":{"name":"g"}}]"#,
            r#"[{"id":"x","function":{"arguments":"{}"}}]"#,
            r#"[{"function":{"arguments":" "}}]"#,
        ],
        &[
            r#"[{"index":0,"id":"call_§0000","type":"function","function":{"name":"f","arguments":"{\"q\":\"\\\"é\\\"\",\"n\":[1]}"}},{"index":1,"id":"call_§0001","type":"function","function":{"name":"f","arguments":""}}]"#,
            r#"[{"index":2,"id":"x","type":"function","function":{"name":"g","arguments":""}}]"#,
            r#"[{"index":2,"function":{"arguments":"{}"}}]"#,
            r#"[{"index":2,"function":{"arguments":" "}}]"#,
            r#"[{"index":1,"function":{"arguments":"{}"}}]"#,
        ],
    );
}

#[test]
fn a_call_waits_for_its_name() {
    check_calls(
        &[
            r#"[{"index":0,"id":"a","type":"function"}]"#,
            r#"[{"index":0,"function":{"arguments":"{"}}]"#,
            r#"[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]"#,
            r#"[{"index":0,"function":{"name":"f","arguments":"}"}}]"#,
        ],
        &[
            "[]",
            "[]",
            r#"[{"index":0,"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]"#,
            r#"[{"index":1,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]"#,
        ],
    );
    check_calls(
        &[
            r#"[{"index":0,"id":"a","type":"function"}]"#,
            r#"[{"index":0,"type":"function","function":{"name":"f","arguments":""}}]"#,
        ],
        &[
            "[]",
            r#"[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]"#,
            r#"[{"index":0,"function":{"arguments":"{}"}}]"#,
        ],
    );
    let unnamed = r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]}}]}"#;
    check_fault(
        &[unnamed, STOP, "[DONE]"],
        &[r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[]}}]}"#],
        StreamFault::Broken("a tool call without a name"),
    );
}

#[test]
fn calls_without_arguments_take_none() {
    let [f, g, h] =
        ["f", "g", "h"].map(|name| format!(r#""function":{{"name":"{name}","arguments":""}}"#));
    let calls = format!(
        r#"[{{"index":0,"id":"a","type":"function",{f}}},{{"index":1,"id":"b","type":"function",{g}}},{{"index":2,"id":"c","type":"function",{h}}}]"#
    );
    let more = r#"[{"index":1,"function":{"arguments":"{\"q\":1}"}}]"#;
    check_calls(
        &[&calls, more, more],
        &[
            &calls,
            more,
            more,
            r#"[{"index":0,"function":{"arguments":"{}"}},{"index":2,"function":{"arguments":"{}"}}]"#,
        ],
    );
    // A call that may be cut short does not show what arguments it takes.
    let chunk = format!(
        r#"{{@,"choices":[{{"index":0,"delta":{{"role":"assistant","content":null,"tool_calls":{calls}}},"finish_reason":null}}]}}"#
    );
    let length = STOP.replace("stop", "length");
    check(&[&chunk, &length], &[&chunk, &length]);
}

#[test]
fn a_name_in_pieces_is_one_name() {
    let arrays = [
        r#"[{"index":0,"id":"a","type":"function","function":{"name":"get_","arguments":""}}]"#,
        r#"[{"index":0,"function":{"name":"wea","arguments":""}}]"#,
        r#"[{"index":0,"function":{"name":"ther","arguments":""}}]"#,
        r#"[{"index":0,"function":{"arguments":"{}"}}]"#,
    ];
    check_calls(&arrays, &arrays);
    // The whole name again is none of its pieces; another one after arguments is another call's.
    check_calls(
        &[
            arrays[0],
            arrays[1],
            r#"[{"index":0,"function":{"name":"get_wea","arguments":"1"}}]"#,
            r#"[{"index":0,"function":{"name":"get_wea","arguments":"2"}}]"#,
            r#"[{"index":0,"function":{"name":"wea","arguments":"3"}}]"#,
        ],
        &[
            arrays[0],
            arrays[1],
            r#"[{"index":0,"function":{"arguments":"1"}}]"#,
            r#"[{"index":0,"function":{"arguments":"2"}}]"#,
            r#"[{"index":1,"id":"call_§0001","type":"function","function":{"name":"wea","arguments":"3"}}]"#,
        ],
    );
}

#[test]
fn custom_calls_keep_their_input() {
    check_calls(
        &[
            r#"[{"index":0,"id":"a","type":"custom","custom":{"name":"sh","input":""}}]"#,
            r#"[{"index":0,"id":"a","type":"custom","custom":{"input":"ls"}}]"#,
        ],
        &[
            r#"[{"index":0,"id":"a","type":"custom","custom":{"name":"sh","input":""}}]"#,
            r#"[{"index":0,"custom":{"input":"ls"}}]"#,
        ],
    );
}

#[test]
fn too_many_calls_or_choices_break_the_stream() {
    let calls = vec![r#"{"function":{"name":"f"}}"#; 129].join(",");
    let chunk = format!(r#"{{@,"choices":[{{"index":0,"delta":{{"tool_calls":[{calls}]}}}}]}}"#);
    let many = run(false, [sse(&[&chunk]).as_bytes()]);
    assert_eq!(
        many.result,
        Err(StreamFault::Broken("more than 128 tool calls"))
    );
    let choices: Vec<String> = (0..129)
        .map(|index| format!(r#"{{"index":{index},"delta":{{}}}}"#))
        .collect();
    let chunk = format!(r#"{{@,"choices":[{}]}}"#, choices.join(","));
    let many = run(false, [sse(&[&chunk]).as_bytes()]);
    assert_eq!(
        many.result,
        Err(StreamFault::Broken("more than 128 choices"))
    );
}

// Finishes and ends.

const TEXT: &str = r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}"#;

#[test]
fn finish_reasons_become_openais() {
    for (said, shown) in [
        ("eos", "stop"),
        ("eos_token", "stop"),
        ("COMPLETE", "stop"),
        ("model_length", "length"),
        ("max_tokens", "length"),
    ] {
        check(
            &[TEXT, &STOP.replace("stop", said)],
            &[TEXT, &STOP.replace("stop", shown)],
        );
    }
    check(
        &[TEXT, &STOP.replace("stop", "<|im_end|>")],
        &[
            TEXT,
            r#"{@,"choices":[{"native_finish_reason":"<|im_end|>","index":0,"delta":{},"finish_reason":"stop"}]}"#,
        ],
    );
}

#[test]
fn an_empty_finish_reason_is_none() {
    let said = TEXT.replace(r#""finish_reason":null"#, r#""finish_reason":"""#);
    check(&[&said, STOP], &[TEXT, STOP]);
    check_fault(&[&said, "[DONE]"], &[TEXT], StreamFault::Cut);
}

#[test]
fn the_finish_comes_once_and_last() {
    let b = r#"{@,"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":null}]}"#;
    let synthetic =
        r#"{@,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}"#;
    // repeated
    check(&[TEXT, STOP, STOP, STOP], &[TEXT, STOP]);
    // with content, in every chunk
    let stops = |chunk: &str| chunk.replace(r#""finish_reason":null"#, r#""finish_reason":"stop""#);
    check(
        &[&stops(TEXT), &stops(b), &stops(b)],
        &[TEXT, b, b, synthetic],
    );
    // content after it
    check(&[TEXT, STOP, b], &[TEXT, b, STOP]);
    // another one after it: Azure's asynchronous filter
    check(
        &[TEXT, STOP, &STOP.replace("stop", "content_filter")],
        &[TEXT, &STOP.replace("stop", "content_filter")],
    );
}

#[test]
fn an_end_without_done_is_fine_after_the_finish() {
    let run = check_run(false, &[TEXT, STOP], &[TEXT, STOP, "[DONE]"]);
    assert!(run.result.is_ok());
    // the last empty line is missing; then even the line's end
    for end in ["\n", ""] {
        let bytes = format!("{}{end}", sse(&[TEXT, STOP]).trim_end());
        assert_eq!(run_all(false, bytes.as_bytes()), run);
    }
}

#[test]
fn an_end_without_done_needs_all_asked_choices() {
    let other = |chunk: &str| chunk.replace(r#""index":0"#, r#""index":1"#);
    let result = |choices, chunks: &[&str]| {
        let header = AnswerHeader {
            choices,
            ..header(false)
        };
        let stream = Stream::passed(&header, &Quirks::NONE, true, 1 << 20);
        feed(stream, Template::default(), [sse(chunks).as_bytes()])
            .result
            .map(drop)
    };
    assert_eq!(result(2, &[TEXT, STOP]), Err(StreamFault::Cut));
    assert_eq!(result(1, &[TEXT, STOP]), Ok(()));
    assert_eq!(result(2, &[TEXT, STOP, &other(TEXT), &other(STOP)]), Ok(()));
    assert_eq!(
        result(2, &[TEXT, STOP, "[DONE]"]),
        Ok(()),
        "a server that gives only one says that this is all"
    );
    let whole = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}"#;
    let header = AnswerHeader {
        choices: 2,
        ..header(false)
    };
    assert!(
        crate::upstream::openai::answer_as_stream(&header, &Quirks::NONE, true, whole.as_bytes())
            .is_ok()
    );
}

#[test]
fn an_end_before_the_finish_is_a_cut() {
    assert!(check_fault(&[TEXT], &[TEXT], StreamFault::Cut));
    assert!(check_fault(&[TEXT, "[DONE]"], &[TEXT], StreamFault::Cut));
    assert!(!check_fault(&[], &[], StreamFault::Cut));
    assert!(!check_fault(&["[DONE]"], &[], StreamFault::Cut));
    // one choice of two
    let second = TEXT.replace(r#""index":0"#, r#""index":1"#);
    assert!(check_fault(
        &[TEXT, &second, STOP, "[DONE]"],
        &[TEXT, &second],
        StreamFault::Cut
    ));
    // in the middle of the finish itself
    let bytes = sse(&[TEXT, STOP]);
    let run = run_all(false, &bytes.as_bytes()[..bytes.len() - 10]);
    assert_eq!(
        (run.result, run.out),
        (Err(StreamFault::Cut), sse(&[TEXT]).replace("up", "fast"))
    );
}

#[test]
fn nothing_after_done_counts() {
    let bytes = format!(
        "{}data: {{\"error\":\"x\"}}\n\n{{\"error\":\"y\"}}\n\nnonsense",
        sse(&[TEXT, STOP, "[DONE]"])
    );
    assert_eq!(
        run_all(false, bytes.as_bytes()).out,
        sse(&[TEXT, STOP, "[DONE]"]).replace("up", "fast")
    );
}

// The gate.

#[test]
fn the_gate_opens_with_the_first_thing_said() {
    let chunk = |delta: &str| {
        format!(r#"{{@,"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
    };
    for (chunk, opens) in [
        (
            chunk(
                r#"{"role":"assistant","content":"","refusal":null,"tool_calls":null,"audio":null}"#,
            ),
            false,
        ),
        (
            chunk(r#"{"role":"assistant","content":null,"reasoning_content":"","tool_calls":[]}"#),
            false,
        ),
        (chunk("null"), false),
        (r#"{@,"choices":[]}"#.into(), false),
        (chunk(r#"{"content":"a"}"#), true),
        (chunk(r#"{"content":[{"type":"text","text":"a"}]}"#), true),
        (chunk(r#"{"reasoning":"a"}"#), true),
        (chunk(r#"{"reasoning_content":"a"}"#), true),
        (chunk(r#"{"refusal":"a"}"#), true),
        (chunk(r#"{"audio":{"id":"a"}}"#), true),
        (
            chunk(r#"{"tool_calls":[{"index":0,"function":{"name":"f"}}]}"#),
            true,
        ),
        (chunk(r#"{"function_call":{"name":"f"}}"#), true),
        (STOP.into(), true),
    ] {
        assert_eq!(
            run(false, [sse(&[&chunk]).as_bytes()]).opened,
            opens,
            "{chunk}"
        );
    }
}

// Usage.

const USAGE: &str = r#"{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}"#;

#[test]
fn usage_in_its_own_chunk_shows_if_asked() {
    let with_null = |chunk: &str| format!(r#"{},"usage":null}}"#, chunk.strip_suffix('}').unwrap());
    let last = format!(r#"{{@,"choices":[],"service_tier":"flex","usage":{USAGE}}}"#);
    check_usage(
        &[&with_null(TEXT), &with_null(STOP), &last],
        &[&with_null(TEXT), &with_null(STOP), &last],
        (9, 3, 0, Source::Reported),
    );
    check(&[&with_null(TEXT), &with_null(STOP), &last], &[TEXT, STOP]);
}

#[test]
fn usage_in_the_finish_chunk_moves_to_the_end() {
    let with = |usage| format!(r#"{},"usage":{usage}}}"#, STOP.strip_suffix('}').unwrap());
    let expected = [
        TEXT,
        &with("null"),
        &format!(r#"{{@,"choices":[],"usage":{USAGE}}}"#),
    ];
    check_usage(
        &[TEXT, &with(USAGE)],
        &expected,
        (9, 3, 0, Source::Reported),
    );
}

/// OpenRouter: after the finish, in a chunk with an empty delta.
#[test]
fn usage_beside_an_empty_delta_moves_to_the_end() {
    let last = format!(
        r#"{{@,"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},"finish_reason":null}}],"usage":{USAGE}}}"#
    );
    check_usage(
        &[TEXT, STOP, &last],
        &[
            TEXT,
            r#"{@,"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}],"usage":null}"#,
            STOP,
            &format!(r#"{{@,"choices":[],"usage":{USAGE}}}"#),
        ],
        (9, 3, 0, Source::Reported),
    );
}

#[test]
fn usage_in_every_chunk_counts_once() {
    let with = |chunk: &str, usage: &str| {
        format!(r#"{},"usage":{usage}}}"#, chunk.strip_suffix('}').unwrap())
    };
    let early = USAGE.replace(r#":3,"#, ":1,");
    check_usage(
        &[
            &with(TEXT, &early),
            &with(STOP, USAGE),
            &format!(r#"{{@,"choices":[],"usage":{USAGE}}}"#),
        ],
        &[
            &with(TEXT, "null"),
            &with(STOP, "null"),
            &format!(r#"{{@,"choices":[],"usage":{USAGE}}}"#),
        ],
        (9, 3, 0, Source::Reported),
    );
}

#[test]
fn the_last_usage_wins() {
    let chunk = |usage: &str| format!(r#"{{@,"choices":[],"usage":{usage}}}"#);
    let first = r#"{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}"#;
    let zero = r#"{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#;
    check_usage(
        &[
            TEXT,
            STOP,
            &chunk(first),
            &chunk(USAGE),
            &chunk("null"),
            &chunk(zero),
        ],
        &[TEXT, STOP, &chunk(USAGE)],
        (9, 3, 0, Source::Reported),
    );
}

#[test]
fn groqs_usage_is_taken_and_not_shown_twice() {
    check_usage(
        &[
            r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}],"x_groq":{"id":"req_1"}}"#,
            &format!(
                r#"{{@,"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}],"x_groq":{{"id":"req_1","usage":{USAGE}}}}}"#
            ),
        ],
        &[
            r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}],"x_groq":{"id":"req_1"}}"#,
            r#"{@,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"req_1"}}"#,
            &format!(r#"{{@,"choices":[],"usage":{USAGE}}}"#),
        ],
        (9, 3, 0, Source::Reported),
    );
}

/// Moonshot.
#[test]
fn usage_inside_a_choice_is_taken() {
    let finish = format!(
        r#"{{@,"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop","usage":{USAGE}}}]}}"#
    );
    check_usage(
        &[TEXT, &finish],
        &[
            TEXT,
            STOP,
            &format!(r#"{{@,"choices":[],"usage":{USAGE}}}"#),
        ],
        (9, 3, 0, Source::Reported),
    );
}

#[test]
fn usage_is_made_true_and_keeps_its_details() {
    check_usage(
        &[
            TEXT,
            STOP,
            r#"{@,"choices":null,"usage":{"prompt_tokens":9,"completion_tokens":3.0,"total_tokens":99,"prompt_tokens_details":{"cached_tokens":4},"cost":0.1}}"#,
        ],
        &[
            TEXT,
            STOP,
            r#"{@,"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4},"cost":0.1}}"#,
        ],
        (9, 3, 4, Source::Reported),
    );
}

#[test]
fn missing_usage_is_estimated_and_marked() {
    // 5 bytes of content, 4 of reasoning that comes under two names, 2 of arguments: 11 → 3
    let text = r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"\u00e9\n\"x","reasoning":"hmhm","reasoning_content":"hmhm","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":null}]}"#;
    check_usage(
        &[text, STOP],
        &[
            &text.replace(r#""reasoning":"hmhm","#, ""),
            &STOP.replace("stop", "tool_calls"),
            r#"{"x_portcullis":{"usage":"estimated"},@,"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":3,"total_tokens":103}}"#
                .replace(r#"{"x_portcullis":{"usage":"estimated"},@,"#, &format!(r#"{{{},"x_portcullis":{{"usage":"estimated"}},"#, OUT))
                .as_str(),
        ],
        (100, 3, 0, Source::Estimated),
    );
}

/// Checks whether chunks of these choices (the index, and the text after it) are only a model's
/// refusal.
#[track_caller]
fn check_declined(chunks: &[(u32, &str)], expected: bool) {
    let chunk =
        |(choice, rest): &(u32, &str)| format!(r#"{{@,"choices":[{{"index":{choice},{rest}}}]}}"#);
    let chunks: Vec<String> = chunks.iter().map(chunk).collect();
    let bytes = sse(&chunks.iter().map(String::as_str).collect::<Vec<_>>());
    for (template, show) in [
        (Template::default(), true),
        (Template::off(), true),
        (Template::default(), false),
    ] {
        let mut stream = Stream::passed(&header(false), &Quirks::NONE, show, 1 << 20);
        stream.chunks().template = template;
        bytes
            .as_bytes()
            .chunks(7)
            .for_each(|read| stream.feed(read, &mut Vec::new()).unwrap());
        assert_eq!(stream.declined(), expected, "{bytes}");
    }
}

#[test]
fn a_stream_of_nothing_but_a_refusal_is_declined() {
    const ROLE: (u32, &str) = (
        0,
        r#""delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null"#,
    );
    const REFUSAL: (u32, &str) = (0, r#""delta":{"refusal":"no"},"finish_reason":null"#);
    const FILTERED: (u32, &str) = (0, r#""delta":{},"finish_reason":"content_filter""#);
    const SAFETY: (u32, &str) = (0, r#""delta":{"content":""},"finish_reason":"SAFETY""#);
    const END: (u32, &str) = (0, r#""delta":{},"finish_reason":"stop""#);
    const THOUGHT: (u32, &str) = (
        0,
        r#""delta":{"reasoning_content":"hm"},"finish_reason":null"#,
    );
    check_declined(&[ROLE], false);
    check_declined(&[ROLE, END], false);
    check_declined(&[ROLE, REFUSAL], true);
    check_declined(&[ROLE, REFUSAL, REFUSAL, END], true);
    check_declined(&[ROLE, FILTERED], true);
    check_declined(&[FILTERED], true);
    check_declined(&[ROLE, SAFETY], true);
    check_declined(&[ROLE, THOUGHT], false);
    check_declined(&[ROLE, THOUGHT, THOUGHT, THOUGHT, FILTERED], true);
    check_declined(&[ROLE, THOUGHT, THOUGHT, THOUGHT, REFUSAL], true);
    for answer in [
        r#""delta":{"content":"a"},"finish_reason":null"#,
        r#""delta":{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"}]},"finish_reason":null"#,
        r#""delta":{"audio":{"id":"audio_1","transcript":"a"}},"finish_reason":null"#,
        r#""delta":{"function_call":{"name":"f","arguments":"{}"}},"finish_reason":null"#,
        r#""delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null"#,
        r#""delta":{"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]},"finish_reason":null"#,
    ] {
        check_declined(&[ROLE, (0, answer)], false);
        check_declined(&[ROLE, (0, answer), FILTERED], false);
        check_declined(&[ROLE, (0, answer), (0, answer), REFUSAL], false);
        check_declined(&[ROLE, REFUSAL, (0, answer)], false);
    }
    for nothing in [
        r#""delta":{"content":[{"type":"thinking","thinking":"hm"}]},"finish_reason":null"#,
        r#""delta":{"annotations":[{"type":"url_citation"}]},"finish_reason":null"#,
        r#""delta":{"content":null,"tool_calls":[],"images":[],"audio":null},"finish_reason":null"#,
    ] {
        check_declined(&[ROLE, (0, nothing)], false);
        check_declined(&[ROLE, (0, nothing), FILTERED], true);
    }
    check_declined(
        &[
            (0, r#""message":{"content":"a"},"finish_reason":null"#),
            FILTERED,
        ],
        false,
    );
    check_declined(
        &[(0, r#""message":{"refusal":"no"},"finish_reason":null"#)],
        true,
    );
    // As long as another choice is open, it may answer.
    let second = |rest| (1, rest);
    check_declined(&[ROLE, second(ROLE.1), FILTERED], false);
    check_declined(&[ROLE, second(ROLE.1), FILTERED, second(REFUSAL.1)], true);
    check_declined(&[ROLE, second(ROLE.1), FILTERED, second(END.1)], true);
    check_declined(
        &[
            ROLE,
            FILTERED,
            second(r#""delta":{"content":"a"},"finish_reason":null"#),
        ],
        false,
    );
}

#[test]
fn streams_that_end_early_count_what_was_passed_on() {
    let so_far = |chunks: &[&str]| {
        let mut stream = Stream::passed(&header(false), &Quirks::NONE, true, 1 << 20);
        stream
            .feed(sse(chunks).as_bytes(), &mut Vec::new())
            .unwrap();
        stream.usage_so_far()
    };
    assert_eq!(so_far(&[]), Usage::default());
    assert_eq!(
        so_far(&[&TEXT.replace(r#""a""#, r#""""#)]),
        Usage::default()
    );
    assert_eq!(so_far(&[TEXT]), Usage::estimated(400, 1));
    let reported = format!(r#"{},"usage":{USAGE}}}"#, TEXT.strip_suffix('}').unwrap());
    assert_eq!(
        so_far(&[&reported]),
        Usage {
            prompt: 9,
            completion: 3,
            source: Source::Reported,
            ..Usage::default()
        }
    );
}

// Errors.

#[test]
fn errors_inside_the_stream_are_found() {
    let found = |status: Option<u16>, kind: Option<&str>, code: Option<&str>, message: &str| {
        StreamFault::Upstream(UpstreamError {
            status,
            kind: kind.map(Into::into),
            code: code.map(Into::into),
            message: message.into(),
            ..UpstreamError::default()
        })
    };
    for (event, fault) in [
        (
            r#"data: {"error":{"message":"full","type":"server_error","param":null,"code":null}}"#,
            found(None, Some("server_error"), None, "full"),
        ),
        (
            r#"data: {"error":{"message":"full","code":429}}"#,
            found(Some(429), None, Some("429"), "full"),
        ),
        (
            r#"data: {"error":{"message":"full","http_status_code":503}}"#,
            found(Some(503), None, None, "full"),
        ),
        (
            r#"data: {"error":"full","error_type":"overloaded"}"#,
            found(None, Some("overloaded"), None, "full"),
        ),
        (
            r#"data: {"error":{"message":"full"},"status_code":500}"#,
            found(Some(500), None, None, "full"),
        ),
        (
            r#"data: {"object":"error","message":"full","type":"x","param":null,"code":"3280"}"#,
            found(None, Some("x"), Some("3280"), "full"),
        ),
        (r#"data: {"detail":"full"}"#, upstream("full")),
        (
            r#"data: [{"error":{"code":503,"message":"full","status":"UNAVAILABLE"}}]"#,
            found(Some(503), Some("UNAVAILABLE"), Some("503"), "full"),
        ),
        (
            "event: error\ndata: {\"type\":\"server_error\",\"message\":\"full\"}",
            found(None, Some("server_error"), None, "full"),
        ),
        (
            r#"data: {"id":"u1","x_groq":{"error":"full"},"choices":[{"index":0,"delta":{}}]}"#,
            upstream("full"),
        ),
        (
            r#"data: {"id":"u1","choices":[{"index":0,"delta":{},"finish_reason":"error"}],"error":{"code":502,"message":"full"}}"#,
            found(Some(502), None, Some("502"), "full"),
        ),
        (
            r#"data: {"id":"u1","choices":[{"index":0,"delta":{},"error":{"code":502,"message":"full"},"finish_reason":"error"}]}"#,
            found(Some(502), None, Some("502"), "full"),
        ),
        (
            r#"data: {"id":"u1","choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"abort"}]}"#,
            found(
                None,
                None,
                Some("abort"),
                "the upstream did not finish the answer (`abort`)",
            ),
        ),
        (r#"{"error":{"message":"full"}}"#, upstream("full")),
        (
            r#"error: {"code":503,"message":"full","type":"unavailable_error"}"#,
            found(Some(503), Some("unavailable_error"), Some("503"), "full"),
        ),
    ] {
        let run = run_all(false, format!("{}{event}\n\n", sse(&[TEXT])).as_bytes());
        assert_eq!(run.result, Err(fault.clone()), "{event}");
        assert_eq!(run.out, sse(&[TEXT]).replace("up", "fast"), "{event}");
        // as the first event: it opens nothing
        let first = run_all(false, format!("{event}\n\ndata: [DONE]\n\n").as_bytes());
        assert_eq!(
            (first.result, first.out.as_str(), first.opened),
            (Err(fault), "", false),
            "{event}"
        );
    }
}

#[test]
fn an_error_that_says_nothing_is_none() {
    let text = |error: &str| TEXT.replace(r#""choices""#, &format!(r#""error":{error},"choices""#));
    for error in ["null", "false", r#""""#] {
        let chunk = text(error);
        check(&[&chunk, STOP], &[&chunk, STOP]);
    }
}

#[test]
fn malformed_events_break_the_stream() {
    for event in [
        "{",
        "nonsense",
        "[]",
        "null",
        "7",
        r#""x""#,
        r#"{"choices":[7]}"#,
        r#"{"a":1}{"#,
    ] {
        assert!(
            check_fault(
                &[TEXT, event, STOP],
                &[TEXT],
                StreamFault::Broken("an event is not a JSON object")
            ),
            "{event}"
        );
    }
    check_fault(
        &[r#"{"choices":{}}"#],
        &[],
        StreamFault::Broken("`choices` is not an array"),
    );
    check_fault(
        &[r#"{@,"choices":[{"index":0,"delta":{"tool_calls":{}}}]}"#],
        &[],
        StreamFault::Broken("`tool_calls` is not an array"),
    );
    check_fault(
        &[r#"{@,"choices":[{"index":0,"delta":"a"}]}"#],
        &[],
        StreamFault::Broken("a delta is not an object"),
    );
    check_fault(
        &[r#"{@,"choices":[{"index":0,"delta":{"content":7}}]}"#],
        &[],
        StreamFault::Broken("the content is neither a string nor a list of parts"),
    );
}

#[test]
fn an_event_over_the_limit_breaks_the_stream() {
    let mut stream = Stream::passed(&header(false), &Quirks::NONE, true, 1000);
    let mut out = Vec::new();
    let long = sse(&[
        TEXT,
        &TEXT.replace(r#""a""#, &format!(r#""{}""#, "a".repeat(2000))),
    ]);
    assert_eq!(
        stream.feed(long.as_bytes(), &mut out),
        Err(StreamFault::Broken("an event is larger than allowed"))
    );
    assert_eq!(
        String::from_utf8(out).unwrap(),
        sse(&[TEXT]).replace("up", "fast")
    );
}

// Framing.

#[test]
fn everything_but_data_is_dropped() {
    let bytes = format!(
        "\u{FEFF}: OPENROUTER PROCESSING\r\n\r\nevent: message\r\nid: 7\r\nretry: 10\r\ndata:{}\r\n\r\ndata:\r\n\r\nevent: ping\r\ndata: {{\"type\":\"ping\"}}\r\n\r\ndata: {}\r\rdata:  [DONE] \n\n",
        TEXT.replace('@', IN),
        STOP.replace('@', IN)
    );
    assert_eq!(
        run_all(false, bytes.as_bytes()).out,
        sse(&[TEXT, STOP, "[DONE]"]).replace("up", "fast")
    );
}

#[test]
fn json_over_several_lines_goes_out_on_one() {
    let bytes = sse(&[TEXT, STOP]).replace(r#","choices""#, "\ndata: ,\ndata: \"choices\"");
    let run = run_all(false, bytes.as_bytes());
    assert!(run.result.is_ok());
    assert_eq!(
        run.out.replace(" , \"choices\"", r#","choices""#),
        sse(&[TEXT, STOP, "[DONE]"]).replace("up", "fast")
    );
}

#[test]
fn invalid_utf8_is_replaced() {
    let mut bytes = sse(&[TEXT, STOP]).into_bytes();
    let at = bytes
        .windows(3)
        .position(|three| three == br#""a""#)
        .unwrap()
        + 1;
    bytes[at] = 0xE2;
    let run = run_all(false, &bytes);
    assert!(run.result.is_ok());
    assert!(run.out.contains("\"\u{FFFD}\""), "{}", run.out);
}

/// A gateway behind a gateway: an estimate stays one, and is marked once.
#[test]
fn an_estimate_of_the_upstream_stays_one() {
    let last =
        format!(r#"{{@,"choices":[],"x_portcullis":{{"usage":"estimated"}},"usage":{USAGE}}}"#);
    check_usage(
        &[TEXT, STOP, &last],
        &[TEXT, STOP, &last],
        (9, 3, 0, Source::Estimated),
    );
}

/// An upstream's trail is removed: its accounts are not the callers' business.
#[test]
fn the_trail_of_an_upstream_is_not_passed_on() {
    let marked = |mark: &str| format!(r#"{{@,"choices":[],{mark}"usage":{USAGE}}}"#);
    let theirs = r#""attempts":"their account;ok;9ms""#;
    let estimate = marked(r#""x_portcullis":{"usage":"estimated"},"#);
    let both = marked(&format!(
        r#""x_portcullis":{{"usage":"estimated",{theirs}}},"#
    ));
    check_usage(
        &[TEXT, STOP, &both],
        &[TEXT, STOP, &estimate],
        (9, 3, 0, Source::Estimated),
    );
    let alone = marked(&format!(r#""x_portcullis":{{{theirs}}},"#));
    check_usage(
        &[TEXT, STOP, &alone],
        &[TEXT, STOP, &marked("")],
        (9, 3, 0, Source::Reported),
    );
}

#[test]
fn the_trail_stands_in_the_chunk_of_the_usage() {
    let trail = r#""attempts":"a;status;12ms, b;ok;300ms","server_timing":"auth;dur=0.1""#;
    let last = |show_usage, chunk: &str| {
        let mut stream = Stream::passed(&header(show_usage), &Quirks::NONE, true, 1 << 20);
        let mut out = Vec::new();
        stream
            .feed(sse(&[TEXT, STOP, chunk, "[DONE]"]).as_bytes(), &mut out)
            .unwrap();
        let before = out.len();
        assert!(
            !String::from_utf8_lossy(&out).contains("x_portcullis"),
            "it is held back until the end is known"
        );
        stream.finish(&mut out, Some(trail)).unwrap();
        let out = String::from_utf8(out.split_off(before)).unwrap();
        out.split("\n\n")
            .filter(|event| !event.contains("finish_reason"))
            .map(|event| event.replace(OUT, "@"))
            .collect::<Vec<_>>()
    };
    let reported = format!(r#"{{@,"choices":[],"usage":{USAGE}}}"#);
    let head = format!(r#"data: {{"x_portcullis":{{{trail}}},@,"choices":[],"usage":{USAGE}}}"#);
    assert_eq!(last(true, &reported), [&head, "data: [DONE]", ""]);
    let estimated =
        format!(r#"data: {{@,"x_portcullis":{{"usage":"estimated",{trail}}},"choices":[],"#);
    assert!(
        last(true, STOP)[0].starts_with(&estimated),
        "{:?}",
        last(true, STOP)
    );
    let theirs = reported.replace(
        r#""choices""#,
        r#""x_portcullis":{"usage":"estimated","attempts":"x"},"choices""#,
    );
    assert_eq!(
        last(true, &theirs)[0],
        format!(r#"{estimated}"usage":{USAGE}}}"#)
    );
    assert_eq!(last(false, &reported), ["data: [DONE]", ""]);
}

#[test]
fn hostile_events_stay_small() {
    let many = |entry: &str| vec![entry; 200_000].join(",");
    for (choices, fault) in [
        (many("{}"), "more than 128 choices"),
        (
            format!(r#"{{"delta":{{"tool_calls":[{}]}}}}"#, many("{}")),
            "more than 128 tool calls",
        ),
        (
            format!(r#"{{"delta":{{"annotations":[{}]}}}}"#, many("{}")),
            "",
        ),
    ] {
        let mut stream = Stream::passed(&header(false), &Quirks::NONE, true, 8 << 20);
        let mut out = Vec::new();
        let result = stream.feed(
            sse(&[&format!(r#"{{"choices":[{choices}]}}"#)]).as_bytes(),
            &mut out,
        );
        assert_eq!(
            result,
            if fault.is_empty() {
                Ok(())
            } else {
                Err(StreamFault::Broken(fault))
            }
        );
        assert!(out.len() < 1 << 20);
    }
}

#[test]
fn memory_does_not_grow_with_the_stream() {
    let mut stream = Stream::passed(&header(true), &Quirks::NONE, true, 1 << 20);
    let chunk = sse(&[&TEXT.replace(r#"}]}"#, &format!(r#"}}],"usage":{USAGE}}}"#))]);
    let mut out = Vec::new();
    let size = |stream: &Stream| format!("{stream:?}").len();
    for _ in 0..10 {
        stream.feed(chunk.as_bytes(), &mut out).unwrap();
    }
    let early = size(&stream);
    for _ in 0..10_000 {
        out.clear();
        stream.feed(chunk.as_bytes(), &mut out).unwrap();
    }
    assert!(size(&stream) <= early + 16, "{early} {}", size(&stream));
}

/// Chunks that repeat each other but for a string take the short way, whatever string it is.
#[test]
fn repeated_chunks_take_the_short_way() {
    let chunk = |delta: &str, rest: &str| {
        format!(r#"{{@,"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]{rest}}}"#)
    };
    let call = r#"{"tool_calls":[{"index":3,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}"#;
    for (delta, rest) in [
        (r#"{"content":§}"#, ""),
        (r#"{"role":"assistant","content":§}"#, r#","usage":null"#),
        (r#"{"content":§}"#, r#","obfuscation":"aaaa""#),
        (r#"{"content":null,"reasoning_content":§}"#, ""),
        (r#"{"content":"","reasoning":§}"#, ""),
        (
            r#"{"tool_calls":[{"index":3,"function":{"arguments":§}}]}"#,
            "",
        ),
    ] {
        for text in [
            r#""""#,
            r#""x""#,
            r#""a \" \n \u00e9 é""#,
            r#""portcullis: here goes string 1""#,
        ] {
            let mut stream = Stream::passed(&header(true), &Quirks::NONE, true, 1 << 20);
            let mut out = Vec::new();
            let mut chunks = vec![
                chunk(call, ""),
                chunk(&delta.replace('§', r#""first""#), rest),
            ];
            stream
                .feed(sse(&[&chunks[0], &chunks[1]]).as_bytes(), &mut out)
                .unwrap();
            assert!(stream.chunks().template.is_known(), "{delta}");
            chunks.push(chunk(&delta.replace('§', text), &rest.replace("aaaa", "b")));
            stream
                .feed(sse(&[&chunks[2]]).as_bytes(), &mut out)
                .unwrap();
            assert!(stream.chunks().template.is_known(), "{delta} {text}");
            assert_eq!(
                stream.chunks().passed_bytes,
                (5 + serde_json::from_str::<String>(text).unwrap().len()) as u64
            );
            let chunks: Vec<&str> = chunks
                .iter()
                .map(String::as_str)
                .chain([STOP, "[DONE]"])
                .collect();
            assert!(run_all(true, sse(&chunks).as_bytes()).result.is_ok());
        }
    }
}

/// A text that looks like a placeholder, but came from the upstream before, is not taken for it.
#[test]
fn an_id_that_looks_like_a_placeholder_stays() {
    let first = r#"{"id":"portcullis: here goes string 1","created":7,"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
    let chunk =
        |text: &str| format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#);
    let shown = |text: &str| {
        let head = r#""id":"portcullis: here goes string 1","object":"chat.completion.chunk","created":7,"model":"fast""#;
        format!(r#"{{{head},"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#)
    };
    let run = run_all(
        false,
        sse(&[first, &chunk("x"), &chunk("y"), &chunk("z"), STOP]).as_bytes(),
    );
    for text in ["x", "y", "z"] {
        assert!(run.out.contains(&shown(text)), "{text} in {}", run.out);
    }
}

/// Chunks of which more or less counts than their text are read the long way each time.
#[test]
fn what_counts_is_the_same_on_both_ways() {
    for (delta, bytes) in [
        (r#"{"content":"xyz","function_call":null}"#, 3),
        (r#"{"content":"xyz","function_call":{}}"#, 3),
        (
            r#"{"content":[{"type":"text","text":"abc"}],"reasoning_content":"r"}"#,
            4,
        ),
        (
            r#"{"content":[{"type":"text","text":"abc"}],"tool_calls":[{"index":0,"function":{"arguments":"1"}}]}"#,
            4,
        ),
        (r#"{"content":"xyz","content":""}"#, 0),
        (r#"{"content":"xyz","content":null}"#, 0),
        (r#"{"content":"xyz","content":[]}"#, 0),
        (
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"1"}}]},"delta":{"content":""}"#,
            0,
        ),
    ] {
        let call = r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{"}}]}}]}"#;
        let chunk = format!(r#"{{@,"choices":[{{"index":0,"delta":{delta}}}]}}"#);
        let run = run_all(true, sse(&[call, &chunk, &chunk, &chunk, STOP]).as_bytes());
        assert!(run.result.is_ok(), "{delta}");
        assert_eq!(run.said, 1 + 3 * bytes, "{delta}");
    }
}

/// A value in known surroundings that is no string is read in full, and refused.
#[test]
fn broken_chunks_in_known_surroundings_are_broken() {
    let chunk = |text: &str| {
        TEXT.replace(r#""a""#, text)
            .replace(r#""role":"assistant","#, "")
    };
    let known = chunk(r#""b""#);
    for text in [r#""a"#, "a", r#""\x""#, r#""a" "b""#, r#""a","#, "\"a\tb\""] {
        let text = text.replace("\\t", "\t");
        let result = run_all(
            false,
            sse(&[TEXT, &known, &known, &chunk(&text)]).as_bytes(),
        )
        .result;
        assert_eq!(
            result,
            Err(StreamFault::Broken("an event is not a JSON object")),
            "{text}"
        );
    }
}

/// A fragment belongs to another call once one more call came under its number.
#[test]
fn what_the_surroundings_mean_may_change() {
    let fragment = r#"[{"index":0,"function":{"arguments":"1"}}]"#;
    let shown = r#"[{"index":1,"function":{"arguments":"1"}}]"#;
    let call = |id: &str, index| {
        format!(
            r#"[{{"index":{index},"id":"{id}","type":"function","function":{{"name":"f","arguments":""}}}}]"#
        )
    };
    check_calls(
        &[
            &call("a", 0),
            fragment,
            fragment,
            &call("b", 0),
            fragment,
            fragment,
        ],
        &[
            &call("a", 0),
            fragment,
            fragment,
            &call("b", 1),
            shown,
            shown,
        ],
    );
}

/// The treatment of thinking may depend on other members: such chunks are all read.
#[test]
fn the_short_way_passes_no_more_thinking() {
    let chunk = |delta: &str| {
        format!(r#"{{@,"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
    };
    for delta in [
        r#"{"reasoning_content":"§","content":"","reasoning":""}"#,
        r#"{"reasoning_content":"","content":"","reasoning":"§"}"#,
        r#"{"reasoning_content":null,"content":"","reasoning":"§"}"#,
        r#"{"reasoning":"§","reasoning":null,"content":""}"#,
        r#"{"reasoning":null,"content":"","reasoning":"§"}"#,
        r#"{"reasoning":"","content":"","reasoning":"§"}"#,
        r#"{"content":"§","reasoning":{"text":"hm"}}"#,
        r#"{"content":"§","reasoning":["hm"]}"#,
        r#"{"content":"§","reasoning":7}"#,
        r#"{"content":"§","reasoning":true}"#,
        r#"{"content":"§","reasoning_content":7}"#,
        r#"{"content":"§","reasoning_details":{"text":"hm"}}"#,
        r#"{"content":"§","reasoning_details":"hm"}"#,
        r#"{"content":"§","reasoning":"","reasoning_content":null}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":"§"}}],"reasoning":7}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":"§"}}],"content":[{"type":"thinking","thinking":"hm"}]}"#,
    ] {
        let call = chunk(
            r#"{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{"}}]}"#,
        );
        let texts = ["a", "", "b", "c", "", ""].map(|text| chunk(&delta.replace('§', text)));
        let wire = sse(&[
            &[call.as_str()][..],
            &texts.each_ref().map(String::as_str),
            &[STOP, "[DONE]"],
        ]
        .concat());
        let shown = run_all(false, wire.as_bytes());
        let hiding = run_hiding(&Quirks::NONE, Template::default(), false, [wire.as_bytes()]);
        assert_eq!(
            hiding,
            run_hiding(&Quirks::NONE, Template::off(), false, [wire.as_bytes()]),
            "{delta}"
        );
        assert_eq!(
            (hiding.said, hiding.opened),
            (shown.said, shown.opened),
            "{delta}"
        );
        assert!(
            !hiding.out.contains("reasoning") && !hiding.out.contains("hm"),
            "{}",
            hiding.out
        );
    }
}

proptest! {
    /// Whatever comes, in whatever cut: no panic, an equal result, and a stream that ends well is
    /// valid.
    #[test]
    fn any_mixture_is_right_or_a_fault(
        picks in prop::collection::vec((0..POOL.len(), 1usize..4), 0..10),
        ends in any::<bool>(),
        show_usage in any::<bool>(),
        cuts in prop::collection::vec(1usize..80, 1..20),
    ) {
        let mut chunks: Vec<&str> = picks.iter().flat_map(|(pick, times)| [POOL[*pick]].repeat(*times)).collect();
        if ends {
            chunks.extend([STOP, r#"{@,"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}"#, "[DONE]"]);
        }
        let bytes = sse(&chunks);
        let whole = run(show_usage, [bytes.as_bytes()]);
        let mut rest = bytes.as_bytes();
        let mut reads = Vec::new();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() { break }
            let (head, tail) = rest.split_at((*cut).min(rest.len()));
            reads.push(head);
            rest = tail;
        }
        prop_assert_eq!(&run(show_usage, reads), &whole);
        prop_assert_eq!(&run_with(Template::off(), show_usage, [bytes.as_bytes()]), &whole);
        let quirky = run_at(&quirks::XAI, Template::default(), show_usage, [bytes.as_bytes()]);
        prop_assert_eq!(&run_at(&quirks::XAI, Template::off(), show_usage, [bytes.as_bytes()]), &quirky);
        for (quirks, shown) in [(&Quirks::NONE, &whole), (&quirks::XAI, &quirky)] {
            let hiding = run_hiding(quirks, Template::default(), show_usage, [bytes.as_bytes()]);
            prop_assert_eq!(&run_hiding(quirks, Template::off(), show_usage, [bytes.as_bytes()]), &hiding);
            prop_assert_eq!((&hiding.result, hiding.opened, hiding.said), (&shown.result, shown.opened, shown.said));
            prop_assert!(!hiding.out.contains(r#""reasoning"#) && !hiding.out.contains("SECRET"), "{}", hiding.out);
            for run in [shown, &hiding] {
                if run.result.is_ok() {
                    conforms(&run.out, show_usage);
                }
            }
        }
    }

    /// A good stream with bytes changed at random.
    #[test]
    fn any_damage_is_right_or_a_fault(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        show_usage in any::<bool>(),
    ) {
        let last = format!(r#"{{@,"choices":[],"usage":{USAGE}}}"#);
        let call = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}}]}"#;
        let more = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1"}}]}}]}"#;
        let mut bytes = sse(&[TEXT, TEXT, TEXT, call, more, more, STOP, &last, "[DONE]"]).into_bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let whole = run(show_usage, [&*bytes]);
        prop_assert_eq!(&run(show_usage, bytes.chunks(1)), &whole);
        prop_assert_eq!(&run_with(Template::off(), show_usage, [&*bytes]), &whole);
        if whole.result.is_ok() {
            conforms(&whole.out, show_usage);
        }
    }
}

const POOL: [&str; 57] = [
    r#"{"choices":[{"index":0,"delta":{"reasoning_content":"","content":"","reasoning":""}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning":"SECRET"},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning":""},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning":"SECRET","reasoning_content":""}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning":"","reasoning_content":""}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning_content":"SECRET","content":"","reasoning":""}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning_content":null,"reasoning":"SECRET","role":"assistant"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"x","reasoning":{"text":"SECRET"}}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"","reasoning":{"text":"SECRET"}}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"","reasoning":null,"reasoning_content":null}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"x","reasoning":null,"reasoning_content":null}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":"SECRET"}]}},{"index":1,"delta":{"reasoning":"SECRET"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":"SECRET"}],"tool_calls":[{"index":0,"function":{"arguments":"1"}}]}}]}"#,
    r#"{"choices":[{"index":1,"message":{"content":[{"type":"thinking","thinking":"SECRET"}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning_content":"a piece that is long enough"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning":"a piece that is long enough","content":""},"finish_reason":"stop"}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"x"},"logprobs":{"tokens":["x"],"token_logprobs":[-1]}}]}"#,
    r#"{"choices":[],"citations":["https://example.com"]}"#,
    r#"{"id":"portcullis: here goes string 1","choices":[{"index":0,"delta":{"content":"portcullis: here goes string 2"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"x","function_call":null},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"abc"}],"reasoning_content":"r"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"abc"}],"tool_calls":[{"index":0,"function":{"arguments":"1"}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"x","content":""}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"x","content":null}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"x","content":[]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1"}}]},"delta":{"content":""}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"g","arguments":""}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}],"obfuscation":"ab"}"#,
    r#"{"id":"portcullis: here goes string 1","choices":[{"index":0,"delta":{"content":"a"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"b"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"x"}}]},"delta":{"content":""}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":3,"id":"w","type":"function"}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":3,"type":"function","function":{"name":"w","arguments":""}}]}}]}"#,
    TEXT,
    STOP,
    TEXT,
    r#"{@,"choices":[]}"#,
    r#"{"choices":[{"delta":{"content":"x"}}]}"#,
    r#"{"id":"","choices":[{"index":1,"delta":{"role":"assistant","content":["p"]},"finish_reason":""}]}"#,
    r#"{"choices":[{"index":1,"delta":null,"message":{"content":"m"},"finish_reason":"eos"}]}"#,
    r#"{"choices":[{"index":0,"message":{"content":"m"}},{"index":1,"delta":{}}]}"#,
    r#"{"choices":[{"index":5,"delta":{"content":"five"},"finish_reason":"length"}]}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":9}}"#,
    r#"{"usage":{"total_tokens":9}}"#,
    r#"{"choices":[{"index":0,"delta":{"content":""},"usage":{"prompt_tokens":3}}],"usage":null}"#,
    r#"{"x_groq":{"usage":{"prompt_tokens":3,"completion_tokens":2}},"choices":[{"delta":{"role":null},"finish_reason":"stop"}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1"}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":7,"id":"b","function":{"name":"g","arguments":{}}},{"index":0,"id":"c","function":{"name":"f"}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"name":"h"}},{"id":"x"},{"function":{"name":"h","arguments":null}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"type":null,"function":{"arguments":"2"}},{}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":9,"type":"custom","custom":{"name":"sh","input":"i"}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"annotations":[{}],"reasoning":"r"},"logprobs":[1]}]}"#,
    r#"{"choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":"weird"}],"error":null}"#,
    r#"{"choices":[{"index":1,"delta":{"function_call":{"name":"f","arguments":""}},"finish_reason":"function_call"}]}"#,
    r#"{"error":{"message":"x"}}"#,
    r#"{"type":"ping"}"#,
];

/// Checks the flaws of a stream that ends well, however it is cut and with or without the template.
#[track_caller]
fn check_flaws(wants_json: bool, bytes: &[u8], expected: Flaws) {
    let flaws = |template: Template, size: usize| {
        let mut stream = Stream::passed(
            &AnswerHeader {
                wants_json,
                ..header(false)
            },
            &Quirks::NONE,
            true,
            1 << 20,
        );
        stream.chunks().template = template;
        let mut out = Vec::new();
        bytes
            .chunks(size)
            .for_each(|read| stream.feed(read, &mut out).expect("no fault"));
        stream.finish(&mut out, None).expect("a whole stream");
        stream.flaws()
    };
    for size in [bytes.len(), 7] {
        assert_eq!(
            flaws(Template::default(), size),
            expected,
            "{}",
            String::from_utf8_lossy(bytes)
        );
        assert_eq!(
            flaws(Template::off(), size),
            expected,
            "the long way: {}",
            String::from_utf8_lossy(bytes)
        );
    }
}

fn calling(fragments: &[(usize, &str)], finish: &str) -> Vec<u8> {
    let mut events = String::new();
    let mut seen = Vec::new();
    for (index, arguments) in fragments {
        let arguments = serde_json::to_string(arguments).unwrap();
        let call = if seen.contains(index) {
            format!(r#"{{"index":{index},"function":{{"arguments":{arguments}}}}}"#)
        } else {
            format!(
                r#"{{"index":{index},"id":"c{index}","type":"function","function":{{"name":"f","arguments":{arguments}}}}}"#
            )
        };
        seen.push(*index);
        events.push_str(&format!(
            "data: {{{IN},\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{call}]}},\"finish_reason\":null}}]}}\n\n"
        ));
    }
    events.push_str(&format!(
        "data: {{{IN},\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{finish}\"}}]}}\n\ndata: [DONE]\n\n"
    ));
    events.into_bytes()
}

#[test]
fn broken_calls_told_as_whole_are_counted() {
    let broken = |broken_calls| Flaws {
        broken_calls,
        ..Flaws::default()
    };
    let whole = [
        (0, ""),
        (0, "{\"city\":"),
        (0, "\"Ro"),
        (0, "me"),
        (0, "\"}"),
    ];
    let without = |left_out: usize| {
        whole
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != left_out)
            .map(|(_, it)| *it)
            .collect::<Vec<_>>()
    };
    check_flaws(false, &calling(&whole, "tool_calls"), broken(0));
    check_flaws(false, &calling(&without(1), "tool_calls"), broken(1));
    check_flaws(false, &calling(&without(2), "stop"), broken(1));
    check_flaws(false, &calling(&without(4), "tool_calls"), broken(1));
    check_flaws(false, &calling(&without(4), "length"), broken(0));
    check_flaws(false, &calling(&without(4), "content_filter"), broken(0));
    check_flaws(
        false,
        &calling(&[(0, ""), (0, "{}"), (0, "{}")], "tool_calls"),
        broken(1),
    );
    check_flaws(false, &calling(&[(0, "")], "tool_calls"), broken(0));
    check_flaws(false, &calling(&[(0, "null")], "tool_calls"), broken(0));
    check_flaws(
        false,
        &calling(
            &[(0, "{\"a\":1"), (1, "{\"b\":"), (0, "}"), (1, "2}")],
            "tool_calls",
        ),
        broken(0),
    );
    check_flaws(
        false,
        &calling(
            &[(0, "{\"a\":1"), (1, "{\"b\":"), (1, "}"), (0, "}")],
            "tool_calls",
        ),
        broken(1),
    );
    let custom = format!(
        "data: {{{IN},\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"c\",\"type\":\"custom\",\"custom\":{{\"name\":\"f\",\"input\":\"free {{\"}}}}]}},\
         \"finish_reason\":\"tool_calls\"}}]}}\n\ndata: [DONE]\n\n"
    );
    check_flaws(false, custom.as_bytes(), broken(0));
    let old = format!(
        "data: {{{IN},\"choices\":[{{\"index\":0,\"delta\":{{\"function_call\":{{\"name\":\"f\",\"arguments\":\"{{\"}}}},\"finish_reason\":\"function_call\"}}]}}\n\ndata: [DONE]\n\n"
    );
    check_flaws(true, old.as_bytes(), broken(1));
    let refused = format!(
        "data: {{{IN},\"choices\":[{{\"index\":0,\"delta\":{{\"refusal\":\"no\"}},\"finish_reason\":null}}]}}\n\n{}",
        String::from_utf8(calling(&without(4), "stop")).unwrap()
    );
    check_flaws(true, refused.as_bytes(), broken(0));
}

#[test]
fn content_that_should_be_json_is_checked() {
    let said = |words: &[&str], finish: &str| {
        let word = |word: &&str| {
            let word = serde_json::to_string(word).unwrap();
            format!(
                "data: {{{IN},\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{word}}},\"finish_reason\":null}}]}}\n\n"
            )
        };
        let words: String = words.iter().map(word).collect();
        let end = format!(
            "data: {{{IN},\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{finish}\"}}]}}\n\ndata: [DONE]\n\n"
        );
        (words + &end).into_bytes()
    };
    let not_json = |not_json| Flaws {
        not_json,
        ..Flaws::default()
    };
    for (words, finish, flawed) in [
        (&["", "{\"a\"", ":", " \"é\\n\"", "}"][..], "stop", false),
        (&["", "Sure", "!", " Here", " it is"], "stop", true),
        (&["```json\n", "{", "}", "\n```"], "stop", true),
        (&["{\"a\"", ":", " 1"], "stop", true),
        (&["{\"a\"", ":", " 1"], "length", false),
        (&["Sure", "!", "!"], "content_filter", false),
        (&["[1,", "2]"], "stop", false),
        (&[], "stop", true),
    ] {
        check_flaws(true, &said(words, finish), not_json(flawed));
        check_flaws(false, &said(words, finish), not_json(false));
    }
    // With calls there need be no content.
    check_flaws(true, &calling(&[(0, "{}")], "tool_calls"), not_json(false));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Fragments that are left out, doubled or swapped.
    #[test]
    fn broken_calls_are_those_whose_fragments_make_no_object(
        fragments in prop::collection::vec((0_usize..3, prop::sample::select(vec!["{", "}", "{\"a\":", "1", "\"x\"", ",", "\"b\":", "", " ", "é", "\"", "\\"])), 1..14),
    ) {
        let arguments = |index: usize| fragments.iter().filter(|(of, _)| *of == index).map(|(_, text)| *text).collect::<String>();
        let is_broken = |index: &usize| {
            let text = arguments(*index);
            !text.trim_ascii().is_empty() && serde_json::from_str::<serde_json::Map<String, Value>>(&text).is_err()
        };
        let broken = (0..3).filter(|index| fragments.iter().any(|(of, _)| of == index)).filter(is_broken).count();
        check_flaws(false, &calling(&fragments, "tool_calls"), Flaws { broken_calls: u32::try_from(broken).unwrap(), ..Flaws::default() });
    }
}

#[test]
fn parts_beside_thinking_are_taken_once() {
    let delta = r#"{"reasoning_content":"hm","content":[{"type":"text","text":"{}"}]}"#;
    let chunk = format!(r#"{{@,"choices":[{{"index":0,"delta":{delta}}}]}}"#);
    check_flaws(true, sse(&[&chunk, STOP]).as_bytes(), Flaws::default());
}

/// Returns the numbers of the choices that a caller sees who asked for so many, for a stream with
/// these numbers.
fn shown_numbers(asked: u64, numbers: &[u64]) -> Vec<u64> {
    let header = AnswerHeader {
        choices: asked,
        ..header(false)
    };
    let (mut chunks, mut out) = (Chunks::new(&header, &Quirks::NONE, true), Vec::new());
    for number in numbers {
        let chunk = format!(
            r#"{{"choices":[{{"index":{number},"delta":{{"role":"assistant","content":"a"}}}}]}}"#
        );
        chunks.event(b"", chunk.as_bytes(), &mut out).unwrap();
    }
    let text = String::from_utf8(out).unwrap();
    let chunks = text
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("data: "));
    let read = |chunk| serde_json::from_str::<serde_json::Value>(chunk).unwrap();
    chunks
        .filter_map(|chunk| read(chunk)["choices"][0]["index"].as_u64())
        .collect()
}

#[test]
fn choices_keep_the_upstreams_numbers_if_asked() {
    assert_eq!(shown_numbers(3, &[2, 0, 1, 2]), [2, 0, 1, 2]);
    assert_eq!(shown_numbers(2, &[1, 0, 1]), [1, 0, 1]);
    assert_eq!(
        shown_numbers(1, &[7, 7]),
        [0, 0],
        "nobody asked for an eighth"
    );
    assert_eq!(
        shown_numbers(2, &[1, 2, 1]),
        [1, 0, 1],
        "who counts from one"
    );
}
