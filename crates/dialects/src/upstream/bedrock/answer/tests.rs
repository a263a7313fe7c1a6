use super::*;
use crate::neutral::Reader as _;

const CLAUDE: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const NOVA: &str = "amazon.nova-pro-v1:0";

fn told_of(model: &str, body: &str) -> Vec<String> {
    let mut told = Vec::new();
    if let Err(fault) = read_answer(model, body.as_bytes(), &mut |event| {
        told.push(format!("{event:?}"))
    }) {
        told.push(match fault {
            AnswerFault::Upstream(error) => format!(
                "upstream {:?} {:?} {}",
                error.status, error.code, error.message
            ),
            AnswerFault::Nonsense(why) => why.to_owned(),
        });
    }
    told
}

/// Checks the events of a buffered answer of these blocks, but for its end.
#[track_caller]
fn check_blocks(blocks: &str, expected: &[&str]) {
    let body = format!(
        r#"{{"output":{{"message":{{"role":"assistant","content":[{blocks}]}}}},"stopReason":"end_turn"}}"#
    );
    let mut told = told_of(CLAUDE, &body);
    assert_eq!(told.pop().as_deref(), Some("Finish(0, Stop)"));
    assert_eq!(told, expected);
}

/// A stream's events; at the end of the file the upstream closes.
#[track_caller]
fn check_stream(events: &[(&str, &str)], expected: &[&str]) {
    let mut reader = ConverseReader::new(CLAUDE);
    let mut told = Vec::new();
    let mut emit = |event: Event<'_>| told.push(format!("{event:?}"));
    let read = events
        .iter()
        .try_for_each(|(name, data)| reader.event(name.as_bytes(), data.as_bytes(), &mut emit));
    match read.and_then(|()| reader.end_of_file(&mut emit)) {
        Ok(()) => {}
        Err(StreamFault::Upstream(error)) => told.push(format!(
            "upstream {:?} {:?} {}",
            error.status, error.kind, error.message
        )),
        Err(StreamFault::Broken(why)) => told.push(why.to_owned()),
        Err(StreamFault::Cut) => told.push("cut".to_owned()),
    }
    assert_eq!(told, expected);
}

#[test]
fn a_whole_answer() {
    let body = r#"{"metrics":{"latencyMs":411},"output":{"message":{"content":[
        {"reasoningContent":{"reasoningText":{"text":"hm","signature":"c2ln"}}},
        {"reasoningContent":{"redactedContent":"cmVkYWN0ZWQ="}},
        {"text":"a\u00e9"},
        {"toolUse":{"toolUseId":"tooluse_1","name":"f","input":{ "q" : 1.50 }}},
        {"toolUse":{"toolUseId":"tooluse_2","name":"g","input":{}}}],"role":"assistant"}},
        "stopReason":"tool_use","additionalModelResponseFields":{"x":1},"trace":{},
        "usage":{"inputTokens":10,"outputTokens":7,"totalTokens":117,"cacheReadInputTokens":90,"cacheReadInputTokenCount":90,"cacheWriteInputTokens":10,"cacheDetails":[]}}"#;
    assert_eq!(
        told_of(CLAUDE, body),
        [
            r#"Reasoning(0, "hm")"#,
            r#"Signed("c2ln")"#,
            r#"Redacted("cmVkYWN0ZWQ=")"#,
            r#"Text(0, "aé")"#,
            r#"Call { choice: 0, id: Some("tooluse_1"), name: "f", signature: None }"#,
            r#"Arguments(0, "{ \"q\" : 1.50 }")"#,
            r#"Call { choice: 0, id: Some("tooluse_2"), name: "g", signature: None }"#,
            r#"Arguments(0, "{}")"#,
            "Finish(0, Stop)",
            "Usage(Tokens { prompt: Some(110), completion: Some(7), cached: Some(90), cache_write: Some(10), reasoning: None })",
        ]
    );
}

#[test]
fn blocks() {
    check_blocks("", &[]);
    check_blocks(r#"{"text":""},{"text":null},{}"#, &[]);
    check_blocks(
        r#"{"text":"a"},{"text":"b"}"#,
        &[r#"Text(0, "a")"#, r#"Text(0, "b")"#],
    );
    check_blocks(
        r#"{"citationsContent":{"content":[{"text":"a"},{"text":"é"}],"citations":[{"title":"t"}]}}"#,
        &[r#"Text(0, "a")"#, r#"Text(0, "é")"#, &cited("", "t", "", 3)],
    );
    check_blocks(
        r#"{"citationsContent":{"content":[{"text":"a"}]}}"#,
        &[r#"Text(0, "a")"#],
    );
    check_blocks(
        r#"{"reasoningContent":{"reasoningText":{"text":"hm"}}}"#,
        &[r#"Reasoning(0, "hm")"#],
    );
    check_blocks(
        r#"{"reasoningContent":{"reasoningText":{"text":"","signature":"s"}}}"#,
        &[r#"Signed("s")"#],
    );
    let call = r#"Call { choice: 0, id: Some("t"), name: "f", signature: None }"#;
    check_blocks(r#"{"toolUse":{"toolUseId":"t","name":"f"}}"#, &[call]);
    check_blocks(
        r#"{"toolUse":{"toolUseId":"t","name":"f","input":null}}"#,
        &[call],
    );
    check_blocks(
        r#"{"toolUse":{"toolUseId":"t","name":"f","input":""}}"#,
        &[call],
    );
    check_blocks(
        r#"{"toolUse":{"toolUseId":"t","name":"f","input":"{\"a\":1}"}}"#,
        &[call, r#"Arguments(0, "{\"a\":1}")"#],
    );
    check_blocks(
        r#"{"toolUse":{"name":"f","toolUseId":""}}"#,
        &[r#"Call { choice: 0, id: None, name: "f", signature: None }"#],
    );
    // The calls that the provider made by itself, and their results.
    check_blocks(
        r#"{"toolUse":{"toolUseId":"t","name":"search","input":{},"type":"server_tool_use"}},{"toolResult":{"toolUseId":"t","content":[]}}"#,
        &[],
    );
    check_blocks(
        r#"{"image":{"format":"png","source":{"bytes":"iVBO"}}}"#,
        &[r#"Media(0, "image/png", "iVBO")"#],
    );
    check_blocks(
        r#"{"guardContent":{"text":{"text":"x"}}},{"somethingNew":1}"#,
        &[],
    );
}

fn cited(url: &str, title: &str, quote: &str, bytes: usize) -> String {
    format!(
        r#"Citation(0, Citation {{ url: "{url}", title: "{title}", quote: "{quote}", cited_range: LastBytes({bytes}) }})"#
    )
}

#[test]
fn sources_of_a_text() {
    #[track_caller]
    fn check_source(source: &str, expected: &str) {
        check_blocks(
            &format!(r#"{{"citationsContent":{{"citations":[{source}]}}}}"#),
            &[expected],
        );
        let delta = format!(r#"{{"delta":{{"citation":{source}}}}}"#);
        check_stream(
            &[("contentBlockDelta", &delta), ("contentBlockStop", "{}")],
            &[expected],
        );
    }
    let page = r#""location":{"web":{"url":"https://a.test/b","domain":"a.test"}}"#;
    check_source(
        &format!("{{{page}}}"),
        &cited("https://a.test/b", "a.test", "", 0),
    );
    check_source(
        &format!(r#"{{"title":"A",{page}}}"#),
        &cited("https://a.test/b", "A", "", 0),
    );
    let found = r#""location":{"searchResultLocation":{"searchResultIndex":0,"start":0,"end":1}}"#;
    check_source(
        &format!(r#"{{"source":"https://s.test",{found}}}"#),
        &cited("https://s.test", "", "", 0),
    );
    check_source(
        &format!(r#"{{"source":"shelf 3",{found}}}"#),
        &cited("", "shelf 3", "", 0),
    );
    let document = r#""sourceContent":[{"text":"a"},{"text":"b"}],"location":{"documentPage":{"documentIndex":0}}"#;
    check_source(
        &format!(r#"{{"title":"A",{document}}}"#),
        &cited("", "A", "ab", 0),
    );
    // A source that cannot be read is not lost in silence.
    for source in ["7", "[]", r#"{"title":7}"#, r#"{"location":7}"#, "{}"] {
        check_source(source, &cited("", "", "", 0));
    }
}

#[test]
fn citations_of_a_stream_are_for_their_block() {
    let piece =
        |index: u32, delta: &str| format!(r#"{{"contentBlockIndex":{index},"delta":{delta}}}"#);
    check_stream(
        &[
            ("contentBlockDelta", &piece(0, r#"{"text":"a"}"#)),
            ("contentBlockStop", r#"{"contentBlockIndex":0}"#),
            (
                "contentBlockDelta",
                &piece(1, r#"{"citation":{"title":"t"}}"#),
            ),
            ("contentBlockDelta", &piece(1, r#"{"text":"é"}"#)),
            ("contentBlockDelta", &piece(1, r#"{"text":"b"}"#)),
            STOP,
            METADATA,
        ],
        &[
            r#"Text(0, "a")"#,
            r#"Text(0, "é")"#,
            r#"Text(0, "b")"#,
            &cited("", "t", "", 3),
            "Finish(0, Stop)",
            USAGE,
            "End",
        ],
    );
}

#[test]
fn reasons_to_stop() {
    for (reason, expected) in [
        (r#""end_turn""#, "Finish(0, Stop)"),
        (r#""stop_sequence""#, "Finish(0, Stop)"),
        (r#""tool_use""#, "Finish(0, Stop)"),
        (r#""max_tokens""#, "Finish(0, Length)"),
        (r#""model_context_window_exceeded""#, "Finish(0, Length)"),
        (r#""guardrail_intervened""#, "Finish(0, Filtered)"),
        (r#""content_filtered""#, "Finish(0, Filtered)"),
        (r#""something_new""#, "Finish(0, Stop)"),
        ("null", "Finish(0, Stop)"),
    ] {
        assert_eq!(
            told_of(
                CLAUDE,
                &format!(r#"{{"output":{{"message":{{"content":[]}}}},"stopReason":{reason}}}"#)
            ),
            [expected]
        );
        check_stream(
            &[("messageStop", &format!(r#"{{"stopReason":{reason}}}"#))],
            &[expected, "End"],
        );
    }
    for reason in ["malformed_model_output", "malformed_tool_use"] {
        let message = format!("the upstream did not finish the answer (`{reason}`)");
        let body = format!(
            r#"{{"output":{{"message":{{"content":[{{"text":"a"}}]}}}},"stopReason":"{reason}"}}"#
        );
        assert_eq!(
            told_of(CLAUDE, &body),
            [format!("upstream Some(502) Some({reason:?}) {message}")]
        );
        check_stream(
            &[("messageStop", &format!(r#"{{"stopReason":"{reason}"}}"#))],
            &[&format!("upstream Some(502) None {message}")],
        );
    }
}

#[track_caller]
fn check_prompt(model: &str, usage: &str, expected: Option<u64>) {
    let usage: ConverseUsage = serde_json::from_str(usage).unwrap();
    assert_eq!(usage.tokens(models::is_claude(model)).prompt, expected);
}

#[test]
fn usage_counts_the_cache_once() {
    check_prompt(
        CLAUDE,
        r#"{"inputTokens":3,"outputTokens":2,"totalTokens":5}"#,
        Some(3),
    );
    // A Claude's total is either.
    check_prompt(
        CLAUDE,
        r#"{"inputTokens":30,"outputTokens":2,"totalTokens":32,"cacheReadInputTokens":20,"cacheWriteInputTokens":1}"#,
        Some(51),
    );
    check_prompt(
        CLAUDE,
        r#"{"inputTokens":30,"outputTokens":2,"totalTokens":53,"cacheReadInputTokens":20,"cacheWriteInputTokens":1}"#,
        Some(51),
    );
    check_prompt(
        NOVA,
        r#"{"inputTokens":30,"outputTokens":2,"totalTokens":32,"cacheReadInputTokens":20}"#,
        Some(30),
    );
    check_prompt(
        NOVA,
        r#"{"inputTokens":30,"outputTokens":2,"totalTokens":52,"cacheReadInputTokens":20}"#,
        Some(50),
    );
    check_prompt(
        NOVA,
        r#"{"inputTokens":3,"outputTokens":2,"totalTokens":5,"cacheReadInputTokens":20}"#,
        Some(23),
    );
    check_prompt(NOVA, r#"{"inputTokens":3,"outputTokens":2}"#, Some(3));
    check_prompt(NOVA, r#"{"outputTokens":2,"totalTokens":5}"#, Some(3));
    check_prompt(
        NOVA,
        r#"{"inputTokens":3,"outputTokens":9,"totalTokens":5}"#,
        Some(3),
    );
    check_prompt(NOVA, "{}", None);
    check_prompt(
        CLAUDE,
        r#"{"inputTokens":18446744073709551615,"cacheReadInputTokens":9}"#,
        Some(u64::MAX),
    );
    check_prompt(
        CLAUDE,
        r#"{"inputTokens":"3","cacheReadInputTokens":9.0,"cacheWriteInputTokens":null,"outputTokens":{}}"#,
        Some(12),
    );
    check_prompt(
        CLAUDE,
        r#"{"inputTokens":3,"cacheReadInputTokens":9,"cacheWriteInputTokens":-1}"#,
        Some(u64::MAX),
    );
    check_prompt(
        NOVA,
        r#"{"inputTokens":3,"outputTokens":2,"totalTokens":1e18}"#,
        Some(1_000_000_000_000_000_000 - 2),
    );
}

#[test]
fn what_is_no_answer() {
    for body in [
        "",
        "null",
        "[]",
        "hello",
        "<html>",
        r#"{"output":"#,
        r#"{"output":{"message":{"content":["a"]}}}"#,
        r#"{"output":1}"#,
    ] {
        assert_eq!(
            told_of(CLAUDE, body),
            ["the answer is not JSON as Converse sends it"],
            "{body}"
        );
    }
    for body in [
        "{}",
        r#"{"output":null}"#,
        r#"{"output":{}}"#,
        r#"{"output":{"message":{}}}"#,
        r#"{"output":{"message":{"content":null}}}"#,
    ] {
        assert_eq!(
            told_of(CLAUDE, body),
            ["the answer has no message"],
            "{body}"
        );
    }
    assert_eq!(
        told_of(CLAUDE, r#"{"message":"broken"}"#),
        ["upstream None None broken"]
    );
    assert_eq!(
        told_of(
            CLAUDE,
            r#"{"Output":{"__type":"com.amazon.coral.service#UnknownOperationException"},"Version":"1.0"}"#
        ),
        ["upstream Some(404) None the upstream gave no reason"]
    );
}

const STOP: (&str, &str) = ("messageStop", r#"{"stopReason":"end_turn"}"#);
const METADATA: (&str, &str) = (
    "metadata",
    r#"{"usage":{"inputTokens":3,"outputTokens":2,"totalTokens":5,"cacheReadInputTokens":4}}"#,
);
const USAGE: &str = "Usage(Tokens { prompt: Some(7), completion: Some(2), cached: Some(4), cache_write: None, reasoning: None })";

#[test]
fn an_odd_count_costs_no_answer() {
    for usage in ["1", "[1]", "\"x\"", "{\"inputTokens\":1,\"inputTokens\":1}"] {
        check_stream(
            &[STOP, ("metadata", &format!(r#"{{"usage":{usage}}}"#))],
            &["Finish(0, Stop)", "End"],
        );
        let body = format!(r#"{{"output":{{"message":{{"content":[]}}}},"usage":{usage}}}"#);
        assert_eq!(told_of(CLAUDE, &body), ["Finish(0, Stop)"]);
    }
    let odd = r#"{"usage":{"inputTokens":"3","outputTokens":2.0,"totalTokens":null,"cacheReadInputTokens":{},"cacheWriteInputTokens":[]}}"#;
    let usage = "Usage(Tokens { prompt: Some(3), completion: Some(2), cached: None, cache_write: None, reasoning: None })";
    check_stream(
        &[STOP, ("metadata", odd)],
        &["Finish(0, Stop)", usage, "End"],
    );
}

#[test]
fn a_stream_ends_with_usage_or_file() {
    let text = (
        "contentBlockDelta",
        r#"{"contentBlockIndex":0,"delta":{"text":"a"}}"#,
    );
    check_stream(
        &[text, STOP, METADATA],
        &[r#"Text(0, "a")"#, "Finish(0, Stop)", USAGE, "End"],
    );
    check_stream(
        &[text, METADATA, STOP],
        &[r#"Text(0, "a")"#, USAGE, "Finish(0, Stop)", "End"],
    );
    check_stream(
        &[text, STOP],
        &[r#"Text(0, "a")"#, "Finish(0, Stop)", "End"],
    );
    check_stream(
        &[text, STOP, ("metadata", "{}")],
        &[r#"Text(0, "a")"#, "Finish(0, Stop)", "End"],
    );
    check_stream(&[text], &[r#"Text(0, "a")"#]);
    check_stream(&[text, METADATA], &[r#"Text(0, "a")"#, USAGE]);
    check_stream(&[], &[]);
}

#[test]
fn events_of_a_stream() {
    let delta = |delta: &str| format!(r#"{{"p":"ab","contentBlockIndex":0,"delta":{delta}}}"#);
    for (piece, expected) in [
        (r#"{"text":"a\n"}"#, &[r#"Text(0, "a\n")"#][..]),
        (r#"{"text":""}"#, &[]),
        (r#"{"toolUse":{"input":""}}"#, &[]),
        (
            r#"{"reasoningContent":{"text":"hm"}}"#,
            &[r#"Reasoning(0, "hm")"#],
        ),
        (
            r#"{"reasoningContent":{"signature":"s"}}"#,
            &[r#"Signed("s")"#],
        ),
        (
            r#"{"reasoningContent":{"redactedContent":"cg=="}}"#,
            &[r#"Redacted("cg==")"#],
        ),
        (r#"{"toolResult":[{"text":"t"}]}"#, &[]),
        ("{}", &[]),
        ("null", &[]),
    ] {
        check_stream(&[("contentBlockDelta", &delta(piece))], expected);
    }
    check_stream(
        &[
            ("messageStart", r#"{"role":"assistant"}"#),
            ("contentBlockStop", r#"{"contentBlockIndex":0}"#),
            ("somethingNew", "?"),
            ("", ""),
        ],
        &[],
    );
    check_stream(
        &[(
            "contentBlockStart",
            r#"{"contentBlockIndex":0,"start":{"image":{"format":"png"}}}"#,
        )],
        &[],
    );
    check_stream(
        &[("contentBlockStart", r#"{"contentBlockIndex":0,"start":{}}"#)],
        &[],
    );
}

#[test]
fn several_calls() {
    let start = |index: u8, id: &str| {
        format!(
            r#"{{"contentBlockIndex":{index},"start":{{"toolUse":{{"toolUseId":"{id}","name":"f"}}}}}}"#
        )
    };
    let call =
        |id: &str| format!(r#"Call {{ choice: 0, id: Some("{id}"), name: "f", signature: None }}"#);
    check_stream(
        &[
            ("contentBlockStart", &start(1, "a")),
            (
                "contentBlockDelta",
                r#"{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{}"}}}"#,
            ),
            ("contentBlockStop", r#"{"contentBlockIndex":1}"#),
            ("contentBlockStart", &start(2, "b")),
            ("contentBlockStop", r#"{"contentBlockIndex":2}"#),
        ],
        &[&call("a"), r#"Arguments(0, "{}")"#, &call("b")],
    );
}

#[test]
fn fragments_belong_to_the_call_that_is_open() {
    let start = |index: u8| {
        format!(
            r#"{{"contentBlockIndex":{index},"start":{{"toolUse":{{"toolUseId":"t","name":"f"}}}}}}"#
        )
    };
    let piece = |index: u8| {
        format!(r#"{{"contentBlockIndex":{index},"delta":{{"toolUse":{{"input":"x"}}}}}}"#)
    };
    let (first, second, of_first, of_second) = (start(1), start(2), piece(1), piece(2));
    let first = ("contentBlockStart", &*first);
    let second = ("contentBlockStart", &*second);
    let of_first = ("contentBlockDelta", &*of_first);
    let of_second = ("contentBlockDelta", &*of_second);
    let unplaced = (
        "contentBlockDelta",
        r#"{"delta":{"toolUse":{"input":"x"}}}"#,
    );
    let text = (
        "contentBlockDelta",
        r#"{"contentBlockIndex":0,"delta":{"text":"a"}}"#,
    );
    let stop = ("contentBlockStop", r#"{"contentBlockIndex":1}"#);
    let stop_another = ("contentBlockStop", r#"{"contentBlockIndex":0}"#);
    let call = r#"Call { choice: 0, id: Some("t"), name: "f", signature: None }"#;
    let (told, broken) = (
        r#"Arguments(0, "x")"#,
        "a part of a tool call that has not begun or has ended",
    );
    check_stream(
        &[first, of_first, text, stop_another, of_first],
        &[call, told, r#"Text(0, "a")"#, told],
    );
    check_stream(&[first, unplaced], &[call, told]);
    check_stream(&[first, of_second], &[call, broken]);
    check_stream(&[first, second, of_first], &[call, call, broken]);
    check_stream(&[first, stop, of_first], &[call, broken]);
    check_stream(&[first, stop, unplaced], &[call, broken]);
    check_stream(&[of_first], &[broken]);
    // A text may have a beginning, be it an empty one.
    check_stream(
        &[
            ("contentBlockStart", r#"{"contentBlockIndex":0,"start":{}}"#),
            text,
            of_first,
        ],
        &[r#"Text(0, "a")"#, broken],
    );
    // A block that is no call has no arguments to wait for.
    check_stream(
        &[
            ("contentBlockStart", r#"{"contentBlockIndex":1,"start":{}}"#),
            of_first,
            stop,
            of_first,
        ],
        &[broken],
    );
}

#[test]
fn the_providers_own_calls_are_passed_over() {
    let own = r#"{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"a","name":"search","type":"server_tool_use"}}}"#;
    let ours = r#"{"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"b","name":"f"}}}"#;
    check_stream(
        &[
            ("contentBlockStart", own),
            (
                "contentBlockDelta",
                r#"{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{}"}}}"#,
            ),
            (
                "contentBlockDelta",
                r#"{"contentBlockIndex":0,"delta":{"text":"a"}}"#,
            ),
            ("contentBlockStart", ours),
            (
                "contentBlockDelta",
                r#"{"contentBlockIndex":2,"delta":{"toolUse":{"input":"{\"a\":1}"}}}"#,
            ),
        ],
        &[
            r#"Text(0, "a")"#,
            r#"Call { choice: 0, id: Some("b"), name: "f", signature: None }"#,
            r#"Arguments(0, "{\"a\":1}")"#,
        ],
    );
}

#[test]
fn what_is_no_event() {
    for name in [
        "contentBlockStart",
        "contentBlockDelta",
        "messageStop",
        "metadata",
    ] {
        for data in ["", "{", "[]x"] {
            check_stream(
                &[(name, data)],
                &["an event is not JSON as ConverseStream sends it"],
            );
        }
    }
    for name in ["contentBlockStart", "contentBlockDelta", "messageStop"] {
        check_stream(
            &[(name, r#"{"delta":1,"start":1,"stopReason":1}"#)],
            &["an event is not JSON as ConverseStream sends it"],
        );
    }
}

#[test]
fn exceptions_end_a_stream() {
    for (name, status) in [
        ("exception/throttlingException", 429),
        ("exception/validationException", 400),
        ("exception/serviceUnavailableException", 503),
        ("exception/internalServerException", 500),
        ("exception/modelStreamErrorException", 502),
        ("exception/modelTimeoutException", 504),
        ("exception/somethingNewException", 502),
    ] {
        let kind = name.split_once('/').unwrap().1;
        let expected = format!("upstream Some({status}) Some({kind:?}) no");
        check_stream(&[(name, r#"{"message":"no"}"#), STOP], &[&expected]);
    }
    check_stream(
        &[("exception/", "")],
        &["upstream Some(502) None the upstream gave no reason"],
    );
    check_stream(
        &[(
            "exception/modelStreamErrorException",
            r#"{"originalStatusCode":500,"originalMessage":"down"}"#,
        )],
        &[r#"upstream Some(502) Some("modelStreamErrorException") down"#],
    );
    check_stream(
        &[("error/InternalFailure", r#"{"message":"oops"}"#)],
        &[r#"upstream Some(500) Some("InternalFailure") oops"#],
    );
    check_stream(
        &[("error/500", r#"{"message":"oops"}"#)],
        &[r#"upstream Some(502) Some("500") oops"#],
    );
    // A name of somebody else's with a slash in it.
    check_stream(&[("news/x", "{}")], &[]);
}

/// No field may be there twice: it is unknown which one counts.
#[test]
fn a_field_that_is_there_twice_is_no_event() {
    check_stream(
        &[("contentBlockDelta", r#"{"delta":{"text":"a","text":"b"}}"#)],
        &["an event is not JSON as ConverseStream sends it"],
    );
}
