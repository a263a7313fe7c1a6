//! `@` stands for a correct head: the upstream's in the input, the caller's in the expected output;
//! `$` for a usage.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::neutral::UpstreamError;
use crate::neutral::usage::{Units, Usage};

const USAGE: &str = r#""usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}"#;
const REPORTED: Usage = Usage {
    prompt: 9,
    completion: 3,
    cached: 0,
    cache_write: 0,
    reasoning: 0,
    source: Source::Reported,
    units: Units::NONE,
    doubted: None,
};

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

fn spelled(text: &str, model: &str) -> String {
    let head = format!(r#""id":"u1","object":"chat.completion","created":7,"model":"{model}""#);
    text.replace('@', &head).replace('$', USAGE)
}

#[track_caller]
fn check_usage(input: &str, expected: &str, usage: Usage) {
    let answer = correct_answer(
        &header(false),
        &Quirks::NONE,
        true,
        spelled(input, "up").as_bytes(),
    )
    .expect("an answer");
    let body = String::from_utf8(answer.body).unwrap();
    assert_eq!(body, spelled(expected, "fast"));
    assert_eq!(answer.usage, usage);
    conforms(&body);
}

#[track_caller]
fn check(input: &str, expected: &str) {
    check_usage(input, expected, REPORTED);
}

/// An entry of `choices` in an otherwise right answer.
#[track_caller]
fn check_choice(input: &str, expected: &str) {
    check(
        &format!(r#"{{@,"choices":[{input}],$}}"#),
        &format!(r#"{{@,"choices":[{expected}],$}}"#),
    );
}

#[track_caller]
fn check_message(input: &str, finish: &str, expected: &str, shown: &str) {
    let choice =
        |message, finish| format!(r#"{{"index":0,"message":{message},"finish_reason":{finish}}}"#);
    check_choice(&choice(input, finish), &choice(expected, shown));
}

#[track_caller]
fn check_fault(input: &str, fault: AnswerFault) {
    let input = spelled(input, "up");
    assert_eq!(
        correct_answer(&header(false), &Quirks::NONE, true, input.as_bytes()),
        Err(fault.clone()),
        "{input}"
    );
    assert_eq!(
        answer_as_stream(&header(false), &Quirks::NONE, true, input.as_bytes()),
        Err(fault),
        "{input}"
    );
}

/// Everything that an answer must have.
#[track_caller]
fn conforms(body: &str) {
    let answer: Value = serde_json::from_str(body).expect("JSON");
    assert!(answer["id"].as_str().is_some_and(|id| !id.is_empty()));
    assert!(
        answer["created"]
            .as_u64()
            .is_some_and(|created| created > 0)
    );
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["model"], "fast");
    let usage = &answer["usage"];
    let sum =
        usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap();
    assert_eq!(usage["total_tokens"], sum);
    let choices = answer["choices"].as_array().expect("choices");
    assert!(!choices.is_empty());
    for (at, choice) in choices.iter().enumerate() {
        assert_eq!(
            choices
                .iter()
                .filter(|choice| choice["index"] == at)
                .count(),
            1
        );
        assert_eq!(choice["message"]["role"], "assistant");
        assert!(choice["message"]["content"].is_string() || choice["message"]["content"].is_null());
        let reason = choice["finish_reason"].as_str().expect("a reason");
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
        for call in choice["message"]["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
        {
            assert!(
                call["id"]
                    .as_str()
                    .is_some_and(|id| !id.is_empty() && id.len() <= 40)
            );
            assert!(call["type"].is_string());
            assert!(
                call.get("function")
                    .is_none_or(|function| function["arguments"].is_string())
            );
        }
    }
}

const PLAIN: &str =
    r#"{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}"#;

#[test]
fn a_clean_answer_changes_only_its_model() {
    let body = r#"{ @ , "choices" : [ {"index":0,"message":{"role":"assistant","content":"h\u00e9\n\"","refusal":null,"annotations":[],"x":1e99},"logprobs":null,"finish_reason":"length"} ],
  $, "service_tier":"default","system_fingerprint":null}"#;
    check(body, body);
}

#[test]
fn everything_missing_is_put_in() {
    check_usage(
        r#"{"choices":[{"message":{}}]}"#,
        r#"{"id":"chatcmpl-0a","object":"chat.completion","created":99,"model":"fast","usage":{"prompt_tokens":100,"completion_tokens":0,"total_tokens":100},"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":""}}]}"#,
        Usage {
            prompt: 100,
            completion: 0,
            source: Source::Estimated,
            ..Usage::default()
        },
    );
}

#[test]
fn wrong_heads_are_replaced() {
    check(
        &format!(r#"{{"id":"","object":"","created":0,"model":"","choices":[{PLAIN}],$}}"#),
        &format!(
            r#"{{"id":"chatcmpl-0a","object":"chat.completion","created":99,"model":"fast","choices":[{PLAIN}],$}}"#
        ),
    );
    check(
        &format!(
            r#"{{"id":null,"object":"chat.completion.chunk","created":7.5,"model":null,"choices":[{PLAIN}],$}}"#
        ),
        &format!(
            r#"{{"id":"chatcmpl-0a","object":"chat.completion","created":99,"model":"fast","choices":[{PLAIN}],$}}"#
        ),
    );
}

#[test]
fn blank_lines_and_a_mark_in_front_are_cut() {
    let body = spelled(&format!(r#"{{@,"choices":[{PLAIN}],$}}"#), "up");
    for before in ["\n\n \r\n", "\u{FEFF}"] {
        let answer = correct_answer(
            &header(false),
            &Quirks::NONE,
            true,
            format!("{before}{body}\n").as_bytes(),
        )
        .unwrap();
        assert_eq!(
            String::from_utf8(answer.body).unwrap(),
            body.replace("up", "fast")
        );
    }
}

#[test]
fn choices_are_numbered_by_place() {
    check_usage(
        r#"{@,"choices":[{"index":7,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"},{"message":{"role":"model","content":"b"},"finish_reason":"eos"}],$}"#,
        r#"{@,"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"},{"index":1,"message":{"role":"assistant","content":"b"},"finish_reason":"stop"}],$}"#,
        REPORTED,
    );
}

#[test]
fn choices_that_are_numbered_rightly_keep_their_numbers() {
    let choices = |indices: [&str; 3]| {
        let choice = |index| {
            format!(
                r#"{{"index":{index},"message":{{"role":"assistant","content":"a"}},"finish_reason":"stop"}}"#
            )
        };
        format!(r#"{{@,"choices":[{}],$}}"#, indices.map(choice).join(","))
    };
    check(&choices(["2", "0", "1"]), &choices(["2", "0", "1"]));
    check(&choices(["2", "0.0", "1"]), &choices(["2", "0", "1"]));
    for wrong in [
        ["2", "0", "0"],
        ["3", "2", "1"],
        ["2", "null", "1"],
        ["2", "-1", "1"],
    ] {
        check(&choices(wrong), &choices(["0", "1", "2"]));
    }
}

#[test]
fn a_delta_may_stand_for_the_message() {
    check_choice(
        r#"{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}"#,
        r#"{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}"#,
    );
    check_choice(
        r#"{"index":0,"message":null,"delta":{"role":"assistant","content":"a"},"finish_reason":"stop"}"#,
        r#"{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}"#,
    );
}

#[test]
fn content_is_text_or_null() {
    let stop = r#""stop""#;
    check_message(
        r#"{"role":"assistant","content":null}"#,
        stop,
        r#"{"role":"assistant","content":null}"#,
        stop,
    );
    check_message(
        r#"{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
        stop,
        r#"{"role":"assistant","content":"ab"}"#,
        stop,
    );
    check_message(
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]}"#,
        stop,
        r#"{"reasoning_content":"hm","role":"assistant","content":"a"}"#,
        stop,
    );
    check_message(
        r#"{"role":"assistant"}"#,
        stop,
        r#"{"content":"","role":"assistant"}"#,
        stop,
    );
    check_message(
        r#"{"role":"assistant","refusal":"no"}"#,
        stop,
        r#"{"content":null,"role":"assistant","refusal":"no"}"#,
        stop,
    );
}

#[test]
fn finish_reasons_become_openais() {
    let message = r#"{"role":"assistant","content":"a"}"#;
    for (said, shown) in [
        (r#""eos""#, r#""stop""#),
        (r#""stop_sequence""#, r#""stop""#),
        (r#""model_length""#, r#""length""#),
        (r#""content_filter""#, r#""content_filter""#),
        (r#""""#, r#""stop""#),
        ("null", r#""stop""#),
    ] {
        check_message(message, said, message, shown);
    }
    check_choice(
        r#"{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"<|im_end|>"}"#,
        r#"{"native_finish_reason":"<|im_end|>","index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}"#,
    );
    check_choice(
        r#"{"index":0,"message":{"role":"assistant","content":"a"},"native_finish_reason":"x","finish_reason":"<|im_end|>"}"#,
        r#"{"index":0,"message":{"role":"assistant","content":"a"},"native_finish_reason":"x","finish_reason":"stop"}"#,
    );
}

#[test]
fn tool_calls_are_completed() {
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"q\":1}"}}]}"#;
    check_message(call, r#""tool_calls""#, call, r#""tool_calls""#);
    check_message(call, r#""stop""#, call, r#""tool_calls""#);
    check_message(call, "null", call, r#""tool_calls""#);
    check_message(call, r#""length""#, call, r#""length""#);
    check_message(
        r#"{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"q":"é"}}},{"id":"","type":null,"function":{"name":"g"}},{"id":"null","function":{"name":"h","arguments":null}}]}"#,
        r#""stop""#,
        r#"{"role":"assistant","content":"","tool_calls":[{"id":"call_chatcmpl0a0000","type":"function","function":{"name":"f","arguments":"{\"q\":\"é\"}"}},{"id":"call_chatcmpl0a0001","type":"function","function":{"arguments":"{}","name":"g"}},{"type":"function","id":"call_chatcmpl0a0002","function":{"name":"h","arguments":"{}"}}]}"#,
        r#""tool_calls""#,
    );
    let empty = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":""}}]}"#;
    check_message(
        empty,
        "null",
        &empty.replace(r#""""#, r#""{}""#),
        r#""tool_calls""#,
    );
    check_message(empty, r#""length""#, empty, r#""length""#);
    let custom = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"custom","custom":{"name":"sh","input":"ls"}}]}"#;
    check_message(custom, r#""tool_calls""#, custom, r#""tool_calls""#);
}

#[test]
fn usage_is_made_true() {
    let with = |usage: &str| format!(r#"{{@,"choices":[{PLAIN}],"usage":{usage}}}"#);
    check(
        &with(r#"{"prompt_tokens":9,"completion_tokens":3,"total_tokens":77,"x":1}"#),
        &with(r#"{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"x":1}"#),
    );
    check(
        &with(r#"{"prompt_tokens":9,"total_tokens":12}"#),
        &with(r#"{"completion_tokens":3,"prompt_tokens":9,"total_tokens":12}"#),
    );
    let estimated = Usage {
        prompt: 100,
        completion: 1,
        source: Source::Estimated,
        ..Usage::default()
    };
    let shown = with(r#"{"prompt_tokens":100,"completion_tokens":1,"total_tokens":101}"#);
    for nothing in [
        "null",
        "{}",
        "7",
        r#"{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#,
    ] {
        check_usage(&with(nothing), &shown, estimated);
    }
}

#[test]
fn errors_with_a_status_of_success_are_errors() {
    let upstream = |status, code: Option<&str>, message: &str| {
        AnswerFault::Upstream(UpstreamError {
            status,
            code: code.map(Into::into),
            message: message.into(),
            ..UpstreamError::default()
        })
    };
    for (body, fault) in [
        (
            r#"{"error":{"code":429,"message":"full"},"user_id":"u"}"#,
            upstream(Some(429), Some("429"), "full"),
        ),
        (
            r#"{"code":"some words","error":"full"}"#,
            upstream(None, Some("some words"), "full"),
        ),
        (
            r#"{"object":"error","message":"full","code":400}"#,
            upstream(Some(400), Some("400"), "full"),
        ),
        (r#"{"detail":"full"}"#, upstream(None, None, "full")),
        (
            r#"[{"error":{"message":"full"}}]"#,
            upstream(None, None, "full"),
        ),
        (
            r#"{@,"choices":[],"error":{"message":"full","code":502}}"#,
            upstream(Some(502), Some("502"), "full"),
        ),
        (
            r#"{@,"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"error":{"code":502,"message":"full"},"finish_reason":"error"}]}"#,
            upstream(Some(502), Some("502"), "full"),
        ),
        (
            r#"{@,"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"insufficient_system_resource"}]}"#,
            upstream(
                None,
                Some("insufficient_system_resource"),
                "the upstream did not finish the answer (`insufficient_system_resource`)",
            ),
        ),
    ] {
        check_fault(body, fault);
    }
}

#[test]
fn what_is_no_answer_is_nonsense() {
    let no_json = AnswerFault::Nonsense("the answer is not a JSON object");
    for body in [
        "",
        "null",
        "[]",
        "7",
        "{",
        "<html></html>",
        "data: {\"choices\":[]}\n\n",
        r#"{"choices":[7]}"#,
    ] {
        check_fault(body, no_json.clone());
    }
    for body in [
        "{}",
        r#"{"choices":null}"#,
        r#"{"choices":[]}"#,
        r#"{"choices":{}}"#,
        r#"{"id":"x","object":"chat.completion"}"#,
    ] {
        check_fault(body, AnswerFault::Nonsense("the answer has no choices"));
    }
    for choice in [
        "{}",
        r#"{"message":null}"#,
        r#"{"message":"x"}"#,
        r#"{"text":"x"}"#,
    ] {
        check_fault(
            &format!(r#"{{"choices":[{choice}]}}"#),
            AnswerFault::Nonsense("a choice has no message"),
        );
    }
    check_fault(
        r#"{"choices":[{"message":{"content":7}}]}"#,
        AnswerFault::Nonsense("the content is neither a string nor a list of parts"),
    );
    check_fault(
        r#"{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"arguments":"{}"}}]}}]}"#,
        AnswerFault::Nonsense("a tool call without a name"),
    );
}

#[test]
fn an_answer_becomes_a_stream() {
    let head = r#""id":"u1","object":"chat.completion.chunk","created":7,"model":"fast""#;
    let body = spelled(
        r#"{@,"choices":[{"index":0,"message":{"role":"assistant","content":"hi","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}],"annotations":[{}]},"logprobs":null,"finish_reason":"stop"}],
          "service_tier":"default",$}"#,
        "up",
    );
    let chunk = r#"{@,"choices":[{"index":0,"delta":{"role":"assistant","content":"hi","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}],"annotations":[{"index":0}]},"logprobs":null,"finish_reason":null}],           "service_tier":"default"%}"#;
    let finish =
        r#"{@,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}]}"#;
    let usage =
        r#"{@,"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}"#;
    for (show_usage, chunks) in [
        (false, vec![chunk.replace('%', ""), finish.into()]),
        (
            true,
            vec![
                chunk.replace('%', r#","usage":null"#),
                finish.replace("}]}", r#"}],"usage":null}"#),
                usage.into(),
            ],
        ),
    ] {
        let answer =
            answer_as_stream(&header(show_usage), &Quirks::NONE, true, body.as_bytes()).unwrap();
        let expected: String = chunks
            .iter()
            .map(|chunk| format!("data: {}\n\n", chunk.replace('@', head)))
            .collect();
        assert_eq!(
            String::from_utf8(answer.body).unwrap(),
            expected + "data: [DONE]\n\n"
        );
        assert_eq!(answer.usage, REPORTED);
    }
}

#[test]
fn an_answer_without_usage_streams_a_marked_estimate() {
    let body = r#"{"choices":[{"message":{"content":"hi"}},{"message":{"content":"ho"}}]}"#;
    let answer = answer_as_stream(&header(true), &Quirks::NONE, true, body.as_bytes()).unwrap();
    assert_eq!(
        answer.usage,
        Usage {
            prompt: 100,
            completion: 1,
            source: Source::Estimated,
            ..Usage::default()
        }
    );
    let events = String::from_utf8(answer.body).unwrap();
    assert!(events.ends_with(
        r#""created":99,"model":"fast","x_portcullis":{"usage":"estimated"},"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":1,"total_tokens":101}}

data: [DONE]

"#
    ), "{events}");
    assert_eq!(events.matches(r#""finish_reason":"stop""#).count(), 2);
}

/// Entries of `choices`.
#[track_caller]
fn check_declined(choices: &[&str], expected: bool) {
    let body = format!(r#"{{"choices":[{}]}}"#, choices.join(","));
    for show_reasoning in [true, false] {
        let whole = correct_answer(
            &header(false),
            &Quirks::NONE,
            show_reasoning,
            body.as_bytes(),
        )
        .unwrap();
        let streamed = answer_as_stream(
            &header(false),
            &Quirks::NONE,
            show_reasoning,
            body.as_bytes(),
        )
        .unwrap();
        assert_eq!(
            (whole.declined, streamed.declined),
            (expected, expected),
            "{body}"
        );
    }
}

#[test]
fn an_answer_of_nothing_but_a_refusal_is_declined() {
    const REFUSAL: &str = r#"{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}"#;
    const FILTERED: &str = r#"{"message":{"content":""},"finish_reason":"content_filter"}"#;
    const EMPTY: &str = r#"{"message":{"content":""},"finish_reason":"stop"}"#;
    check_declined(&[PLAIN], false);
    check_declined(&[EMPTY], false);
    check_declined(&[REFUSAL], true);
    check_declined(&[FILTERED], true);
    check_declined(&[FILTERED, REFUSAL, EMPTY], true);
    check_declined(&[FILTERED, PLAIN], false);
    check_declined(
        &[r#"{"message":{"reasoning_content":"hm"},"finish_reason":"guardrail_intervened"}"#],
        true,
    );
    check_declined(
        &[
            r#"{"message":{"content":[{"type":"thinking","thinking":"hm"}]},"finish_reason":"content_filter"}"#,
        ],
        true,
    );
    check_declined(
        &[
            r#"{"message":{"content":null,"refusal":"","tool_calls":null,"audio":null},"finish_reason":"content_filter"}"#,
        ],
        true,
    );
    for said in [
        r#""content":"a""#,
        r#""content":[{"type":"text","text":"a"}]"#,
        r#""audio":{"id":"audio_1","data":"AA"}"#,
        r#""function_call":{"name":"f","arguments":"{}"}"#,
        r#""tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]"#,
        r#""images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]"#,
    ] {
        check_declined(
            &[&format!(
                r#"{{"message":{{"refusal":"no",{said}}},"finish_reason":"content_filter"}}"#
            )],
            false,
        );
    }
}

#[test]
fn the_demo_answers_both_ways() {
    use crate::upstream::demo;
    let request =
        br#"{"model":"demo","messages":[{"role":"user","content":"hi"}],"reasoning_effort":"low"}"#;
    let bytes = |stream| {
        demo::demo_reply("/chat/completions", request, request.len(), stream)
            .unwrap()
            .pieces
            .into_iter()
            .map(|piece| piece.bytes)
    };
    let whole = correct_answer(
        &header(false),
        &Quirks::NONE,
        true,
        &bytes(false).flatten().collect::<Vec<u8>>(),
    )
    .unwrap();
    conforms(str::from_utf8(&whole.body).unwrap());
    assert!(
        whole.usage.source == Source::Reported
            && whole.usage.prompt == 1
            && whole.usage.reasoning > 5
    );

    let mut stream = crate::dialect::Stream::passed(&header(true), &Quirks::NONE, true, 1 << 20);
    let mut out = Vec::new();
    bytes(true).for_each(|piece| stream.feed(&piece, &mut out).map(|_| ()).unwrap());
    assert!(stream.done());
    assert_eq!(stream.finish(&mut out, None), Ok(whole.usage));
}

proptest! {
    /// Whatever an answer is put together from: it is right, or it is refused.
    #[test]
    fn any_mixture_is_right_or_a_fault(
        heads in prop::collection::vec(prop::sample::select(&HEADS[..]), 0..4),
        choices in prop::collection::vec((
            prop::sample::select(&CHOICES[..]),
            prop::sample::select(&MESSAGES[..]),
            prop::collection::vec(prop::sample::select(&FIELDS[..]), 0..4),
        ), 1..3),
    ) {
        let choices: Vec<String> = choices.into_iter().map(|(choice, message, fields)| {
            let message = message.replace("%", &fields.join(","));
            choice.replace("%", &message)
        }).collect();
        let mut members = heads;
        let choices = format!(r#""choices":[{}]"#, choices.join(","));
        members.push(&choices);
        let body = format!("{{{}}}", members.join(","));
        if let Ok(answer) = correct_answer(&header(false), &Quirks::NONE, true, body.as_bytes()) {
            conforms(str::from_utf8(&answer.body).unwrap());
            prop_assert!(answer_as_stream(&header(true), &Quirks::NONE, true, body.as_bytes()).is_ok(), "{body}");
        }
    }
}

const HEADS: [&str; 8] = [
    r#""id":"x""#,
    r#""object":1"#,
    r#""created":-1"#,
    r#""model":{}"#,
    r#""usage":{"prompt_tokens":1,"total_tokens":null}"#,
    r#""error":null"#,
    r#""x_groq":{"id":1}"#,
    r#""system_fingerprint":null"#,
];
const CHOICES: [&str; 6] = [
    r#"{"index":1,"message":%}"#,
    r#"{"message":%}"#,
    r#"{"index":9,"message":%,"finish_reason":"eos","logprobs":[]}"#,
    r#"{"delta":%,"finish_reason":null}"#,
    r#"{"message":%,"delta":{"content":"d"},"finish_reason":"weird"}"#,
    r#"{"message":%,"finish_reason":"length","error":""}"#,
];
const MESSAGES: [&str; 2] = ["{%}", "null"];
const FIELDS: [&str; 11] = [
    r#""role":"x""#,
    r#""content":null"#,
    r#""content":[{"text":"a"},{"thinking":"b"}]"#,
    r#""content":"\ud83d\ude00""#,
    r#""refusal":"r""#,
    r#""tool_calls":[]"#,
    r#""tool_calls":[{"function":{"name":"f"}},{"id":null,"type":"function","function":{"name":"g","arguments":[1]}}]"#,
    r#""tool_calls":[{"custom":{"name":"c","input":"i"}}]"#,
    r#""tool_calls":null"#,
    r#""reasoning":"r""#,
    r#""annotations":[{}]"#,
];

/// A message where thinking is shown, where it is hidden, and how many bytes are counted of it
/// either way.
#[track_caller]
fn check_thinking(message: &str, shown: &str, hidden: &str, bytes: u64) {
    let body = |message: &str| {
        format!(r#"{{@,"choices":[{{"index":0,"message":{message},"finish_reason":"stop"}}]}}"#)
    };
    for (show, expected) in [(true, shown), (false, hidden)] {
        let input = spelled(&body(message), "up");
        let answer = correct_answer(&header(false), &Quirks::NONE, show, input.as_bytes()).unwrap();
        let out = String::from_utf8(answer.body).unwrap();
        conforms(&out);
        let usage = Usage::estimated(400, bytes);
        let counted = format!(
            r#""usage":{{"prompt_tokens":100,"completion_tokens":{},"total_tokens":{}}},"#,
            usage.completion,
            usage.total()
        );
        assert_eq!(
            out.replace(&counted, ""),
            spelled(&body(expected), "fast"),
            "{message}"
        );
        assert_eq!(answer.usage, usage, "{message}");
        // The answer as a stream.
        let events =
            answer_as_stream(&header(false), &Quirks::NONE, show, input.as_bytes()).unwrap();
        assert_eq!(events.usage, usage);
        let events = String::from_utf8(events.body).unwrap();
        assert!(events.ends_with("data: [DONE]\n\n"));
        assert!(show || !events.contains("reasoning"), "{events}");
        assert_eq!(
            events.contains(r#""reasoning_content":"hm""#),
            expected.contains(r#""reasoning_content":"hm""#),
            "{events}"
        );
    }
}

#[test]
fn thinking_has_one_name_or_none() {
    for (message, shown, hidden, bytes) in [
        (
            r#"{"role":"assistant","content":"a","reasoning_content":"hm"}"#,
            r#"{"role":"assistant","content":"a","reasoning_content":"hm"}"#,
            r#"{"role":"assistant","content":"a"}"#,
            3,
        ),
        (
            r#"{"role":"assistant","content":"a","reasoning":"hm"}"#,
            r#"{"role":"assistant","content":"a","reasoning_content":"hm"}"#,
            r#"{"role":"assistant","content":"a"}"#,
            3,
        ),
        (
            r#"{"reasoning":"hm","reasoning_content":null,"role":"assistant","content":"a"}"#,
            r#"{"reasoning_content":"hm","role":"assistant","content":"a"}"#,
            r#"{"role":"assistant","content":"a"}"#,
            3,
        ),
        (
            r#"{"role":"assistant","content":"a","reasoning":"hm","reasoning_content":"hm"}"#,
            r#"{"role":"assistant","content":"a","reasoning_content":"hm"}"#,
            r#"{"role":"assistant","content":"a"}"#,
            3,
        ),
        (
            r#"{"role":"assistant","content":"a","reasoning":"ah!","reasoning_content":"hm"}"#,
            r#"{"role":"assistant","content":"a","reasoning":"ah!","reasoning_content":"hm"}"#,
            r#"{"role":"assistant","content":"a"}"#,
            4,
        ),
        (
            r#"{"role":"assistant","content":"a","reasoning":null,"reasoning_content":null}"#,
            r#"{"role":"assistant","content":"a","reasoning":null,"reasoning_content":null}"#,
            r#"{"role":"assistant","content":"a"}"#,
            1,
        ),
        (
            r#"{"role":"assistant","content":"a","reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm"}]}"#,
            r#"{"role":"assistant","content":"a","reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm"}]}"#,
            r#"{"role":"assistant","content":"a"}"#,
            3,
        ),
        (
            r#"{"role":"assistant","content":"a","reasoning_text":"hm","thinking_blocks":[{"thinking":"hm"}],"provider_specific_fields":{"thinking_blocks":[{"thinking":"hm"}]}}"#,
            r#"{"role":"assistant","content":"a","reasoning_text":"hm","thinking_blocks":[{"thinking":"hm"}],"provider_specific_fields":{"thinking_blocks":[{"thinking":"hm"}]}}"#,
            r#"{"role":"assistant","content":"a"}"#,
            3,
        ),
        (
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"}]}"#,
            r#"{"reasoning_content":"hm","role":"assistant","content":"a"}"#,
            r#"{"role":"assistant","content":"a"}"#,
            3,
        ),
        (
            r#"{"role":"assistant","content":"","reasoning":"hm"}"#,
            r#"{"role":"assistant","content":"","reasoning_content":"hm"}"#,
            r#"{"role":"assistant","content":""}"#,
            2,
        ),
        (
            r#"{"role":"assistant","reasoning":"hm"}"#,
            r#"{"content":"","role":"assistant","reasoning_content":"hm"}"#,
            r#"{"content":"","role":"assistant"}"#,
            2,
        ),
        (
            r#"{"reasoning":"hm"}"#,
            r#"{"role":"assistant","content":"","reasoning_content":"hm"}"#,
            r#"{"role":"assistant","content":""}"#,
            2,
        ),
    ] {
        check_thinking(message, shown, hidden, bytes);
    }
}

#[test]
fn a_delta_beside_the_message_hides_its_thinking_too() {
    let beside = r#"{@,"choices":[{"index":0,"message":{"role":"assistant","content":"a","reasoning":"hm"},"delta":{"reasoning_content":"hm","content":""},"finish_reason":"stop"}],$}"#;
    let answer = correct_answer(
        &header(false),
        &Quirks::NONE,
        false,
        spelled(beside, "up").as_bytes(),
    )
    .unwrap();
    let expected = beside
        .replace(r#","reasoning":"hm""#, "")
        .replace(r#""reasoning_content":"hm","#, "");
    assert_eq!(
        String::from_utf8(answer.body).unwrap(),
        spelled(&expected, "fast")
    );
}

#[test]
fn what_thinking_cost_is_told_though_it_is_hidden() {
    let usage = r#""usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"completion_tokens_details":{"reasoning_tokens":2}}"#;
    let body = |thinking: &str| {
        spelled(
            &format!(
                r#"{{@,"choices":[{{"index":0,"message":{{"role":"assistant","content":"a"{thinking}}},"finish_reason":"stop"}}],{usage}}}"#
            ),
            "fast",
        )
    };
    let answer = correct_answer(
        &header(false),
        &Quirks::NONE,
        false,
        body(r#","reasoning":"hm""#).as_bytes(),
    )
    .unwrap();
    assert_eq!(String::from_utf8(answer.body).unwrap(), body(""));
    assert_eq!(
        answer.usage,
        Usage {
            reasoning: 2,
            ..REPORTED
        }
    );
}

#[test]
fn a_whole_but_flawed_answer_is_told_so() {
    let flaws = |message: &str, finish: &str, wants_json: bool| {
        let body = format!(
            r#"{{"choices":[{{"index":0,"message":{message},"finish_reason":"{finish}"}}]}}"#
        );
        let header = AnswerHeader {
            wants_json,
            ..header(false)
        };
        let whole = correct_answer(&header, &Quirks::NONE, true, body.as_bytes())
            .expect("an answer")
            .flaws;
        assert_eq!(
            answer_as_stream(&header, &Quirks::NONE, true, body.as_bytes())
                .expect("a stream")
                .flaws,
            whole
        );
        (whole.broken_calls, whole.not_json)
    };
    let call = |arguments: &str| {
        let arguments = serde_json::to_string(arguments).unwrap();
        format!(
            r#"{{"role":"assistant","tool_calls":[{{"id":"a","type":"function","function":{{"name":"f","arguments":{arguments}}}}}]}}"#
        )
    };
    let said = |content: &str| {
        format!(
            r#"{{"role":"assistant","content":{}}}"#,
            serde_json::to_string(content).unwrap()
        )
    };
    for (message, finish, wants_json, expected) in [
        (call("{\"a\":1}"), "tool_calls", true, (0, false)),
        (call(""), "tool_calls", true, (0, false)),
        (call("{\"a\":"), "tool_calls", true, (1, false)),
        (call("{\"a\":"), "length", true, (0, false)),
        (call("{\"a\":"), "content_filter", false, (0, false)),
        (said("{\"a\":1}"), "stop", true, (0, false)),
        (said("Sure!"), "stop", true, (0, true)),
        (said("Sure!"), "stop", false, (0, false)),
        (said("{\"a\":"), "length", true, (0, false)),
        (r#"{"role":"assistant","content":[{"type":"text","text":"{}"}]}"#.to_owned(), "stop", true, (0, false)),
        (r#"{"role":"assistant","content":null,"refusal":"no"}"#.to_owned(), "stop", true, (0, false)),
        (
            r#"{"role":"assistant","tool_calls":[{"id":"a","type":"custom","custom":{"name":"f","input":"{"}}]}"#.to_owned(),
            "tool_calls",
            true,
            (0, false),
        ),
        (
            r#"{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":{"a":1}}}]}"#.to_owned(),
            "tool_calls",
            true,
            (0, false),
        ),
        (r#"{"role":"assistant","function_call":{"name":"f","arguments":"{"}}"#.to_owned(), "function_call", true, (1, false)),
    ] {
        assert_eq!(flaws(&message, finish, wants_json), expected, "{message} {finish}");
    }
}
