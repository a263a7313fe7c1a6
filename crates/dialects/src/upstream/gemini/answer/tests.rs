use proptest::prelude::*;

use super::*;
use crate::neutral::Reader as _;

/// Returns a reader's events, one a line; a fault is the last line.
fn told(events: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut reader = GeminiReader::default();
    for data in events {
        let fed = reader.event(b"", data.as_bytes(), &mut |event| {
            lines.push(format!("{event:?}"))
        });
        if let Err(fault) = fed {
            lines.push(match fault {
                StreamFault::Upstream(error) => format!(
                    "error {:?} {:?} {}",
                    error.status, error.code, error.message
                ),
                StreamFault::Broken(why) => format!("broken: {why}"),
                StreamFault::Cut => "cut".to_owned(),
            });
            return lines;
        }
    }
    reader
        .end_of_file(&mut |event| lines.push(format!("{event:?}")))
        .unwrap();
    lines
}

#[track_caller]
fn check(events: &[&str], expected: &[&str]) {
    assert_eq!(told(events), expected);
}

#[track_caller]
fn check_answer(body: &str, expected: &[&str]) {
    let mut lines = Vec::new();
    let read = read_answer(body.as_bytes(), &mut |event| {
        lines.push(format!("{event:?}"))
    });
    match read {
        Ok(()) => {}
        Err(AnswerFault::Upstream(error)) => lines.push(format!(
            "error {:?} {:?} {}",
            error.status, error.code, error.message
        )),
        Err(AnswerFault::Nonsense(why)) => lines.push(format!("nonsense: {why}")),
    }
    assert_eq!(lines, expected, "{body}");
}

const USAGE: &str = "Usage(Tokens { prompt: Some(9), completion: Some(32), cached: Some(4), cache_write: None, reasoning: Some(30) })";

#[test]
fn a_calls_input_may_be_in_quotes() {
    let call = r#"Call { choice: 0, id: None, name: "f", signature: None }"#;
    let with = |args: &str| {
        format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"functionCall":{{"name":"f","args":{args}}}}}]}},"finishReason":"STOP"}}],"usageMetadata":7}}"#
        )
    };
    check_answer(
        &with(r#""{\"a\": \"b c\"}""#),
        &[
            call,
            r#"Arguments(0, "{\"a\":\"b c\"}")"#,
            "Finish(0, Stop)",
        ],
    );
    check_answer(&with(r#""""#), &[call, "Finish(0, Stop)"]);
}

#[test]
fn an_answer_is_told() {
    check_answer(
        r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"hm","thought":true},{"text":"hi"},{"text":" you"}]},"finishReason":"STOP","index":0}],
            "usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"thoughtsTokenCount":30,"cachedContentTokenCount":4,"totalTokenCount":41},
            "modelVersion":"g-1","responseId":"abc"}"#,
        &[
            r#"Id("abc")"#,
            r#"Reasoning(0, "hm")"#,
            r#"Text(0, "hi")"#,
            r#"Text(0, " you")"#,
            "Finish(0, Stop)",
            USAGE,
        ],
    );
}

#[test]
fn a_stream_is_told_and_ends_with_its_file() {
    check(
        &[
            r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"h"}]}}],"usageMetadata":{"promptTokenCount":9},"responseId":"abc"}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":""}]}}],"responseId":"abc"}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"i"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"thoughtsTokenCount":30,"cachedContentTokenCount":4},"responseId":"abc"}"#,
        ],
        &[
            r#"Id("abc")"#,
            r#"Text(0, "h")"#,
            "Usage(Tokens { prompt: Some(9), completion: Some(0), cached: None, cache_write: None, reasoning: None })",
            r#"Text(0, "i")"#,
            "Finish(0, Stop)",
            USAGE,
            "End",
        ],
    );
}

#[test]
fn done_is_not_the_end() {
    check(&["[DONE]"], &[]);
    check(
        &[r#"{"candidates":[{"finishReason":"STOP"}]}"#, " [DONE]"],
        &["Finish(0, Stop)", "End"],
    );
}

#[test]
fn a_stream_without_a_finish_is_cut() {
    let text = r#"{"candidates":[{"content":{"parts":[{"text":"h"}]}}]}"#;
    check(&[text], &[r#"Text(0, "h")"#]);
    check(&[], &[]);
    check(&[r#"{"usageMetadata":null}"#, "{}"], &[]);
    let zero = r#"{"candidates":[{"content":{"parts":[{"text":"h"}]},"finishReason":"FINISH_REASON_UNSPECIFIED"}]}"#;
    check(
        &[text, zero],
        &[
            r#"Text(0, "h")"#,
            r#"Text(0, "h")"#,
            "Finish(0, Stop)",
            "End",
        ],
    );
    check(&[zero, zero], &[r#"Text(0, "h")"#, r#"Text(0, "h")"#]);
    check(&[zero, text], &[r#"Text(0, "h")"#, r#"Text(0, "h")"#]);
    let one_of_two = r#"{"candidates":[{"content":{"parts":[{"text":"b"}]},"index":1},{"finishReason":"STOP"}]}"#;
    check(&[one_of_two], &[r#"Text(1, "b")"#, "Finish(0, Stop)"]);
    check(
        &[
            one_of_two,
            r#"{"candidates":[{"index":1,"finishReason":"MAX_TOKENS"}]}"#,
        ],
        &[
            r#"Text(1, "b")"#,
            "Finish(0, Stop)",
            "Finish(1, Length)",
            "End",
        ],
    );
}

#[test]
fn what_comes_after_a_finish_is_told_too() {
    check(
        &[
            r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"MAX_TOKENS"}]}"#,
        ],
        &[
            r#"Text(0, "a")"#,
            "Finish(0, Stop)",
            r#"Text(0, "b")"#,
            "Finish(0, Length)",
            "End",
        ],
    );
}

#[test]
fn calls_are_told_whole() {
    check_answer(
        r#"{"candidates":[{"content":{"parts":[
            {"functionCall":{"name":"f","args":{ "q" : "a b", "n" : 1.0, "big" : 12345678901234567890 },"id":"x1"},"thoughtSignature":"c2ln"},
            {"functionCall":{"name":"g","args":{}}},
            {"functionCall":{"name":"h","args":null}},
            {"functionCall":{"name":"i"},"thoughtSignature":null}
        ]},"finishReason":"STOP"}]}"#,
        &[
            r#"Call { choice: 0, id: Some("x1"), name: "f", signature: Some("c2ln") }"#,
            r#"Arguments(0, "{\"q\":\"a b\",\"n\":1.0,\"big\":12345678901234567890}")"#,
            r#"Call { choice: 0, id: None, name: "g", signature: None }"#,
            r#"Arguments(0, "{}")"#,
            r#"Call { choice: 0, id: None, name: "h", signature: None }"#,
            r#"Call { choice: 0, id: None, name: "i", signature: None }"#,
            "Finish(0, Stop)",
        ],
    );
}

#[test]
fn signatures_count_on_calls_only() {
    check(
        &[
            r#"{"candidates":[{"content":{"parts":[{"text":"a","thoughtSignature":"eA=="}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"eQ=="}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"thoughtSignature":"eg=="}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]},"finishReason":"STOP"}]}"#,
        ],
        &[
            r#"Text(0, "a")"#,
            r#"Call { choice: 0, id: None, name: "f", signature: None }"#,
            "Finish(0, Stop)",
            "End",
        ],
    );
}

#[test]
fn a_call_of_nothing_is_broken() {
    for call in [
        r#"{}"#,
        r#"{"name":""}"#,
        r#"{"name":null,"args":{}}"#,
        r#"{"name":7}"#,
    ] {
        let body = format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"text":"a"}},{{"functionCall":{call}}}]}},"finishReason":"STOP"}}]}}"#
        );
        check(
            &[&body],
            &["broken: an event is not JSON as Gemini sends it"],
        );
    }
}

#[test]
fn pictures_are_media_but_their_drafts_are_not() {
    check_answer(
        r#"{"candidates":[{"content":{"parts":[
            {"inlineData":{"mimeType":"image/png","data":"ZHJhZnQ="},"thought":true},
            {"inlineData":{"mimeType":"image/png","data":"AAAA"}},
            {"inlineData":{"data":"AAAA"}},
            {"inlineData":{"mimeType":"image/png"}}
        ]},"finishReason":"STOP"}]}"#,
        &[
            r#"Media(0, "image/png", "AAAA")"#,
            r#"Media(0, "application/octet-stream", "AAAA")"#,
            "Finish(0, Stop)",
        ],
    );
}

#[test]
fn what_is_unknown_is_passed_over() {
    check_answer(
        r#"{"candidates":[{"content":{"parts":[
            {"executableCode":{"language":"PYTHON","code":"1"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK"}},{"new":[{}]},{},
            {"fileData":{"mimeType":"a/b","fileUri":"gs://x"}},{"text":null,"thought":null}
        ],"role":"model"},"finishReason":"STOP","safetyRatings":[],"citationMetadata":{},"groundingMetadata":{},"avgLogprobs":-0.1,"tokenCount":1}],
        "createTime":"x","new":1,"promptFeedback":{"safetyRatings":[]}}"#,
        &["Finish(0, Stop)"],
    );
}

#[test]
fn every_reason() {
    let says = |reason: &str, content: &str| {
        let body = format!(
            r#"{{"candidates":[{{"content":{{"parts":[{content}]}},"finishReason":{reason},"finishMessage":"why"}}]}}"#
        );
        let answered = read_answer(body.as_bytes(), &mut |_| {});
        (told(&[&body]), answered)
    };
    #[track_caller]
    fn check(found: (Vec<String>, Result<(), AnswerFault>), finish: &str) {
        assert_eq!(found.0, [&format!("Finish(0, {finish})"), "End"]);
        assert_eq!(found.1, Ok(()));
    }
    check(says("\"STOP\"", ""), "Stop");
    check(says("\"A_REASON_TO_COME\"", ""), "Stop");
    check(says("\"MAX_TOKENS\"", ""), "Length");
    check(says("\"CONTINUATION\"", ""), "Length");
    for word in [
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "MODEL_ARMOR",
        "LANGUAGE",
        "ESCALATION",
        "PUP_LIMITED_DISABLED",
    ] {
        check(says(&format!("{word:?}"), ""), "Filtered");
    }
    for word in [
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
        "OTHER",
        "IMAGE_OTHER",
        "NO_IMAGE",
    ] {
        let reason = format!("{word:?}");
        let error = format!(
            "error Some(502) Some({:?}) the model did not finish its answer ({word})",
            word.to_ascii_lowercase()
        );
        assert_eq!(says(&reason, "").0, [&*error]);
        assert_eq!(
            says(&reason, r#"{"text":"hm","thought":true}"#).0,
            [r#"Reasoning(0, "hm")"#, &*error]
        );
        assert_eq!(
            says(&reason, r#"{"text":"a"}"#).0,
            [r#"Text(0, "a")"#, "Finish(0, Stop)", "End"]
        );
        let Err(AnswerFault::Upstream(error)) = says(&reason, "").1 else {
            panic!("{word}")
        };
        assert_eq!(
            (error.status, error.excerpt.as_deref()),
            (Some(502), Some("why"))
        );
        assert_eq!(says(&reason, r#"{"text":"a"}"#).1, Ok(()));
    }
}

#[test]
fn a_buffered_answer_needs_no_reason_but_candidates() {
    check_answer(
        r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#,
        &[r#"Text(0, "a")"#, "Finish(0, Stop)"],
    );
    check_answer(
        r#"{"candidates":[{"finishReason":"FINISH_REASON_UNSPECIFIED"}]}"#,
        &["Finish(0, Stop)"],
    );
    check_answer(r#"{"candidates":[{}]}"#, &["Finish(0, Stop)"]);
    check_answer(
        "\u{FEFF} {\"candidates\":[{\"content\":null},{\"index\":\"1\",\"content\":{\"parts\":null}}]}\n",
        &["Finish(0, Stop)", "Finish(1, Stop)"],
    );
    let none = "nonsense: the answer has no candidates";
    check_answer("{}", &[none]);
    check_answer(r#"{"candidates":[]}"#, &[none]);
    check_answer(
        r#"{"candidates":null,"promptFeedback":{"blockReason":null}}"#,
        &[none],
    );
    let other = "nonsense: the answer is not JSON as Gemini sends it";
    for body in [
        "",
        "null",
        "7",
        r#""text""#,
        "{",
        "<html>",
        "data: {}\n\n",
        r#"{"candidates":{}}"#,
        r#"{"candidates":[{"content":{"parts":"a"}}]}"#,
    ] {
        check_answer(body, &[other]);
    }
}

#[test]
fn a_blocked_prompt_is_an_answer_without_content() {
    let blocked = r#"{"promptFeedback":{"blockReason":"SAFETY","safetyRatings":[]},"usageMetadata":{"promptTokenCount":9},"responseId":"abc"}"#;
    let usage = "Usage(Tokens { prompt: Some(9), completion: Some(0), cached: None, cache_write: None, reasoning: None })";
    check(
        &[blocked],
        &[r#"Id("abc")"#, usage, "Finish(0, Filtered)", "End"],
    );
    check_answer(blocked, &[r#"Id("abc")"#, usage, "Finish(0, Filtered)"]);
    let in_the_middle = r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"promptFeedback":{"blockReason":"MODEL_ARMOR"}}"#;
    check(
        &[in_the_middle],
        &[r#"Text(0, "a")"#, "Finish(0, Filtered)", "End"],
    );
    check_answer(in_the_middle, &[r#"Text(0, "a")"#, "Finish(0, Filtered)"]);
}

#[test]
fn usage_is_summed() {
    #[track_caller]
    fn check(counts: &str, expected: (u64, u64, Option<u64>, Option<u64>)) {
        let mut found = None;
        let body = format!(r#"{{"candidates":[{{}}],"usageMetadata":{counts}}}"#);
        read_answer(body.as_bytes(), &mut |event| {
            if let Event::Usage(tokens) = event {
                found = Some((
                    tokens.prompt.unwrap(),
                    tokens.completion.unwrap(),
                    tokens.cached,
                    tokens.reasoning,
                ));
            }
        })
        .unwrap();
        assert_eq!(found, Some(expected), "{counts}");
    }
    check("{}", (0, 0, None, None));
    check(
        r#"{"promptTokenCount":10,"toolUsePromptTokenCount":5,"candidatesTokenCount":3,"totalTokenCount":18}"#,
        (15, 3, None, None),
    );
    check(
        r#"{"promptTokenCount":"10","candidatesTokenCount":"3","thoughtsTokenCount":"4"}"#,
        (10, 7, None, Some(4)),
    );
    check(
        r#"{"promptTokenCount":10,"cachedContentTokenCount":8,"totalTokenCount":10}"#,
        (10, 0, Some(8), None),
    );
    check(
        r#"{"promptTokenCount":10,"candidatesTokenCount":3,"totalTokenCount":50}"#,
        (10, 40, None, None),
    );
    check(
        r#"{"promptTokenCount":10,"candidatesTokenCount":3,"totalTokenCount":2}"#,
        (10, 3, None, None),
    );
    check(
        r#"{"promptTokenCount":18446744073709551615,"toolUsePromptTokenCount":1,"candidatesTokenCount":-1,"thoughtsTokenCount":null}"#,
        (u64::MAX, u64::MAX, None, None),
    );
    check(
        r#"{"promptTokenCount":10,"candidatesTokenCount":3,"totalTokenCount":1e300}"#,
        (10, u64::MAX - 10, None, None),
    );
}

#[test]
fn errors_inside_an_answer() {
    let error =
        r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#;
    let line = "error Some(503) None The model is overloaded.";
    let text = r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#;
    check(&[error], &[line]);
    check(&[text, error], &[r#"Text(0, "a")"#, line]);
    check(&[&format!("[{error}]")], &[line]);
    check_answer(error, &[line]);
    check_answer(&format!("[{error}\n]"), &[line]);
    check_answer(r#"{"error":"no"}"#, &["error None None no"]);
    for nothing in ["null", "false", r#""""#] {
        check_answer(
            &format!(r#"{{"error":{nothing},"candidates":[{{}}]}}"#),
            &["Finish(0, Stop)"],
        );
    }
}

/// Without `alt=sse` a stream is one array.
#[test]
fn an_array_is_a_stream() {
    let start = r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#;
    let end = r#"{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}]}"#;
    let both = [r#"Text(0, "a")"#, r#"Text(0, "b")"#, "Finish(0, Stop)"];
    check_answer(&format!("[{start},\n{end}]"), &both);
    check(
        &[&format!("[{start},\n{end}]")],
        &[both[0], both[1], both[2], "End"],
    );
    check_answer(
        &format!("[{start}]"),
        &[both[0], "nonsense: the answer is not complete"],
    );
    check_answer("[]", &["nonsense: the answer is not complete"]);
    check(&["[]"], &[]);
}

#[test]
fn a_broken_event_tells_nothing() {
    for event in [
        "{",
        "[DONE",
        "null",
        "ping",
        r#"{"candidates":[{"content":{"parts":[{"text":"a"},{"text":7}]}}]}"#,
    ] {
        check(
            &[event],
            &["broken: an event is not JSON as Gemini sends it"],
        );
    }
    let mut reader = GeminiReader::default();
    assert!(matches!(
        reader.event(b"", b"{\"a\":\"\xFF\"}", &mut |_| panic!()),
        Err(StreamFault::Broken(_))
    ));
}

#[test]
fn nobody_has_a_thousand_candidates() {
    let events: Vec<_> = (0..1000)
        .map(|index| format!(r#"{{"candidates":[{{"index":{index},"finishReason":"STOP"}}]}}"#))
        .collect();
    let mut reader = GeminiReader::default();
    for event in &events {
        reader.event(b"", event.as_bytes(), &mut |_| {}).unwrap();
    }
    assert_eq!(reader.candidates.len(), MAX_CANDIDATES);
}

const GOOD: &str = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"é😀","thought":true},{"functionCall":{"name":"f","args":{"a":[1,{"b":"c"}]},"id":"x"},"thoughtSignature":"eA=="},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"totalTokenCount":41},"promptFeedback":{"blockReason":"SAFETY"},"error":null,"responseId":"abc"}"#;

proptest! {
    #[test]
    fn nothing_panics(at in 0..GOOD.len(), bytes in proptest::collection::vec(any::<u8>(), 0..4), cut in 0..GOOD.len()) {
        let mut body = GOOD.as_bytes().to_vec();
        body.splice(at..(at + bytes.len()).min(GOOD.len()), bytes);
        for data in [&body[..], &body[..cut.min(body.len())]] {
            drop(read_answer(data, &mut |_| {}));
            let mut reader = GeminiReader::default();
            drop(reader.event(b"", data, &mut |_| {}));
            drop(reader.end_of_file(&mut |_| {}));
        }
    }
}
