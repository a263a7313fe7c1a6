//! The real chunks of servers, and the chunks that callers get: one test a server, with samples in
//! its own words.

use super::*;
use crate::dialect::Stream;
use crate::neutral::usage::{Source, Usage};
use crate::neutral::{Answer, AnswerFault, AnswerHeader, StreamFault, UpstreamError};
use crate::upstream::quirks::*;

fn header(show_usage: bool) -> AnswerHeader {
    AnswerHeader {
        model: "fast".into(),
        id: "chatcmpl-§".into(),
        created: 7,
        show_usage,
        prompt_bytes: 400,
        ..AnswerHeader::default()
    }
}

/// Feeds a stream as it is on the wire.
fn run(
    quirks: &'static Quirks,
    show_usage: bool,
    wire: &str,
) -> (Vec<String>, Result<Usage, StreamFault>) {
    run_with(quirks, show_usage, true, wire)
}

fn run_with(
    quirks: &'static Quirks,
    show_usage: bool,
    show_reasoning: bool,
    wire: &str,
) -> (Vec<String>, Result<Usage, StreamFault>) {
    let mut stream = Stream::passed(&header(show_usage), quirks, show_reasoning, 1 << 20);
    let mut out = Vec::new();
    let result = stream
        .feed(wire.as_bytes(), &mut out)
        .and_then(|()| stream.finish(&mut out, None));
    let out = String::from_utf8(out).unwrap();
    let events = out
        .split_terminator("\n\n")
        .map(|event| event.strip_prefix("data: ").unwrap().to_owned());
    (events.collect(), result)
}

fn sse(chunks: &[&str]) -> String {
    chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect()
}

/// Checks the chunks of a caller who did not ask for usage, without the `[DONE]`, and the usage:
/// prompt, completion, cached.
#[track_caller]
fn check(quirks: &'static Quirks, wire: &str, expected: &[&str], usage: (u64, u64, u64)) {
    let (mut out, result) = run(quirks, false, wire);
    assert_eq!(out.pop().as_deref(), Some("[DONE]"), "{result:?} {out:#?}");
    assert_eq!(out, expected);
    let (prompt, completion, cached) = usage;
    let counted = result
        .as_ref()
        .map(|usage| (usage.prompt, usage.completion, usage.cached, usage.source));
    assert_eq!(counted, Ok((prompt, completion, cached, Source::Reported)));
    // Asked for, the usage comes once, last, and is equal.
    let (out, _) = run(quirks, true, wire);
    let shown: Vec<serde_json::Value> = out
        .iter()
        .filter_map(|event| serde_json::from_str(event).ok())
        .collect();
    let last = shown.last().unwrap();
    assert_eq!(
        (&last["choices"], &last["usage"]["total_tokens"]),
        (&serde_json::json!([]), &(prompt + completion).into())
    );
    assert!(
        shown
            .iter()
            .rev()
            .skip(1)
            .all(|chunk| chunk["usage"].is_null() && chunk.get("usage").is_some())
    );
}

/// Checks the chunks of a caller from whom thinking is hidden.
#[track_caller]
fn check_hiding(quirks: &'static Quirks, wire: &str, expected: &[&str]) {
    let (out, result) = run_with(quirks, false, false, wire);
    assert_eq!(
        out.iter().map(String::as_str).collect::<Vec<_>>(),
        [expected, &["[DONE]"]].concat()
    );
    assert_eq!(result, run(quirks, false, wire).1);
}

/// A stream that ends with an error of this message.
#[track_caller]
fn check_fails(quirks: &'static Quirks, wire: &str, expected: &str) -> UpstreamError {
    let (_, result) = run(quirks, false, wire);
    let Err(StreamFault::Upstream(error)) = result else {
        panic!("{result:?}")
    };
    assert_eq!(error.message, expected);
    error
}

/// A buffered answer.
#[track_caller]
fn check_answer(quirks: &'static Quirks, body: &str, expected: &str, usage: (u64, u64, u64)) {
    let Answer {
        body: out,
        usage: found,
        ..
    } = correct_answer(&header(false), quirks, true, body.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    assert_eq!((found.prompt, found.completion, found.cached), usage);
}

#[test]
fn mistral() {
    // No role after the first; calls whole, with an index at best; usage on the last chunk, which
    // has choices.
    let head = r#""id":"cmpl-e5cc","object":"chat.completion.chunk","created":1700000000,"model":"mistral-small-2506""#;
    let wire = sse(&[
        &format!(
            r#"{{{head},"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},"finish_reason":null}}],"p":"abc"}}"#
        ),
        &format!(
            r#"{{{head},"choices":[{{"index":0,"delta":{{"content":[{{"type":"thinking","thinking":[{{"type":"text","text":"hm"}}]}}]}},"finish_reason":null}}]}}"#
        ),
        &format!(
            r#"{{{head},"choices":[{{"index":0,"delta":{{"tool_calls":[{{"id":"D681PevKs","function":{{"name":"f","arguments":"{{\"q\": 1}}"}}}},{{"id":"null","function":{{"name":"g","arguments":{{}}}}}}]}},"finish_reason":"tool_calls"}}],"usage":{{"prompt_tokens":90,"total_tokens":121,"completion_tokens":31,"num_cached_tokens":64,"prompt_audio_seconds":null}}}}"#
        ),
        "[DONE]",
    ]);
    let ours =
        r#""id":"cmpl-e5cc","object":"chat.completion.chunk","created":1700000000,"model":"fast""#;
    check(
        &MISTRAL,
        &wire,
        &[
            &format!(
                r#"{{{ours},"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},"finish_reason":null}}],"p":"abc"}}"#
            ),
            &format!(
                r#"{{{ours},"choices":[{{"index":0,"delta":{{"reasoning_content":"hm","content":""}},"finish_reason":null}}]}}"#
            ),
            &format!(
                r#"{{{ours},"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"D681PevKs","type":"function","function":{{"name":"f","arguments":"{{\"q\": 1}}"}}}},{{"index":1,"id":"call_chatcmpl0001","type":"function","function":{{"name":"g","arguments":"{{}}"}}}}]}},"finish_reason":null}}]}}"#
            ),
            &format!(
                r#"{{{ours},"choices":[{{"index":0,"delta":{{}},"logprobs":null,"finish_reason":"tool_calls"}}]}}"#
            ),
        ],
        (90, 31, 64),
    );
    let choice = |reason: &str| {
        format!(
            r#"{{"index":0,"message":{{"role":"assistant","tool_calls":null,"content":"a"}},"finish_reason":"{reason}"}}"#
        )
    };
    let body = |id: &str, object: &str, model: &str, reason: &str, details: &str| {
        format!(
            r#"{{"id":"{id}","object":"{object}","model":"{model}","choices":[{}],"created":5,"usage":{{{details}"prompt_tokens":1,"total_tokens":3,"completion_tokens":2}}}}"#,
            choice(reason)
        )
    };
    check_answer(
        &MISTRAL,
        &body("x", "", "m", "model_length", ""),
        &body("x", "chat.completion", "fast", "length", ""),
        (1, 2, 0),
    );
}

#[test]
fn xai() {
    let head =
        r#""id":"0daf962f","object":"chat.completion.chunk","created":1700000000,"model":"grok-4""#;
    let thought = "First, the user says hi, so I greet them.";
    let chunk = |delta: &str, more: &str| {
        format!(r#"{{{head},"choices":[{{"index":0,"delta":{delta}}}]{more}}}"#)
    };
    let reasoning = chunk(
        &format!(r#"{{"role":"assistant","content":"","reasoning_content":"{thought}"}}"#),
        "",
    );
    let short = chunk(r#"{"reasoning_content":"000"}"#, "");
    let text = chunk(r#"{"content":"Hi Hi Hi Hi Hi Hi Hi Hi "}"#, "");
    let call = chunk(
        r#"{"tool_calls":[{"id":"call_7","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
        "",
    );
    let end = format!(
        r#"{{{head},"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":12,"completion_tokens":2,"total_tokens":314,"prompt_tokens_details":{{"cached_tokens":4}},"completion_tokens_details":{{"reasoning_tokens":300}}}}}}"#
    );
    let cited = format!(r#"{{{head},"choices":[],"citations":["https://x.ai"]}}"#);
    let wire = sse(&[
        &reasoning, &reasoning, &reasoning, &short, &short, &text, &text, &text, &call, &end,
        &cited, "[DONE]",
    ]);
    let ours = |chunk: &str| chunk.replace("grok-4", "fast");
    let numbered = ours(&call).replace(r#"[{"id""#, r#"[{"index":0,"id""#);
    let again = ours(&short);
    let citations = r#"{"id":"0daf962f","object":"chat.completion.chunk","created":1700000000,"model":"fast","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":null}],"citations":["https://x.ai"]}"#;
    let finish = format!(
        r#"{{{},"choices":[{{"index":0,"delta":{{}},"finish_reason":"tool_calls"}}]}}"#,
        ours(head)
    );
    let [text, reasoning] = [ours(&text), ours(&reasoning)];
    check(
        &XAI,
        &wire,
        &[
            &reasoning, &again, &again, &text, &text, &text, &numbered, citations, &finish,
        ],
        (12, 302, 4),
    );
    // At other servers a piece may well be meant twice.
    let (out, _) = run(&Quirks::NONE, false, &wire);
    assert_eq!(
        out.iter().filter(|event| event.contains(thought)).count(),
        3
    );

    let body = r#"{"id":"a","object":"chat.completion","created":5,"model":"fast","choices":[{"index":0,"message":{"role":"assistant","content":"a","reasoning_content":"hm","refusal":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":100},"completion_tokens_details":{"reasoning_tokens":300}},"citations":["https://x.ai"]}"#;
    let expected = body.replace(
        r#""prompt_tokens":10,"completion_tokens":2,"total_tokens":0"#,
        r#""prompt_tokens":110,"completion_tokens":302,"total_tokens":412"#,
    );
    check_answer(&XAI, body, &expected, (110, 302, 100));

    // An error where an answer was announced.
    let found = correct_answer(
        &header(false),
        &XAI,
        true,
        br#"{"code":"The service is currently unavailable","error":"Model is overloaded"}"#,
    );
    let Err(AnswerFault::Upstream(error)) = found else {
        panic!("{found:?}")
    };
    assert_eq!(
        (error.code.as_deref(), error.message.as_str()),
        (
            Some("The service is currently unavailable"),
            "Model is overloaded"
        )
    );
}

#[test]
fn groq() {
    let head = r#""id":"chatcmpl-eb06","object":"chat.completion.chunk","created":1757714116,"model":"gemma2-9b-it","provider":"groq""#;
    let ours = head.replace("gemma2-9b-it", "fast");
    let usage = r#"{"queue_time":0.05,"prompt_tokens":10,"prompt_time":0.01,"completion_tokens":3,"completion_time":0.02,"total_tokens":13,"total_time":0.03}"#;
    let wire = sse(&[
        &format!(
            r#"{{{head},"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}}],"x_groq":{{"id":"req_01"}}}}"#
        ),
        &format!(
            r#"{{{head},"choices":[{{"index":0,"delta":{{"role":"assistant","reasoning":"hm","tool_calls":[]}},"logprobs":null,"finish_reason":null}}]}}"#
        ),
        &format!(
            r#"{{{head},"choices":[{{"index":0,"delta":{{}},"logprobs":null,"finish_reason":"stop"}}],"x_groq":{{"id":"req_01","usage":{usage}}}}}"#
        ),
        &format!(r#"{{{head},"choices":[],"usage":{usage}}}"#),
        "[DONE]",
    ]);
    check(
        &GROQ,
        &wire,
        &[
            &format!(
                r#"{{{ours},"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}}],"x_groq":{{"id":"req_01"}}}}"#
            ),
            &format!(
                r#"{{{ours},"choices":[{{"index":0,"delta":{{"reasoning_content":"hm","tool_calls":[]}},"logprobs":null,"finish_reason":null}}]}}"#
            ),
            &format!(
                r#"{{{ours},"choices":[{{"index":0,"delta":{{}},"logprobs":null,"finish_reason":"stop"}}],"x_groq":{{"id":"req_01"}}}}"#
            ),
        ],
        (10, 3, 0),
    );
    check_fails(
        &GROQ,
        &sse(&[&format!(
            r#"{{{head},"choices":[],"x_groq":{{"id":"req_01","error":"over capacity"}}}}"#
        )]),
        "over capacity",
    );
}

#[test]
fn deepseek() {
    let usage = r#""usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25,"prompt_cache_hit_tokens":16,"prompt_cache_miss_tokens":4}"#;
    let body = |details: &str, model: &str| {
        let usage = usage.replace('{', &format!("{{{details}"));
        format!(
            r#"{{"id":"d","object":"chat.completion","created":5,"model":"{model}","choices":[{{"index":0,"message":{{"role":"assistant","content":"a","reasoning_content":"hm"}},"logprobs":null,"finish_reason":"stop"}}],{usage}}}"#
        )
    };
    let expected = body(r#""prompt_tokens_details":{"cached_tokens":16},"#, "fast");
    check_answer(
        &DEEPSEEK,
        &format!("\n\n\n\n{}", body("", "deepseek-chat")),
        &expected,
        (20, 5, 16),
    );

    let head = r#""id":"d","object":"chat.completion.chunk","created":5,"model":"fast""#;
    let chunk = |delta: &str, finish: &str, more: &str| {
        format!(
            r#"{{{head},"choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]{more}}}"#
        )
    };
    let [role, thought] = [
        r#"{"role":"assistant","content":null,"reasoning_content":""}"#,
        r#"{"content":null,"reasoning_content":"hm"}"#,
    ]
    .map(|delta| chunk(delta, "null", ""));
    let end = chunk(
        r#"{"content":"","reasoning_content":null}"#,
        r#""stop""#,
        "",
    );
    let wire = format!(
        ": keep-alive\n\n: keep-alive\n\n{}",
        sse(&[
            &role,
            &thought,
            &chunk(
                r#"{"content":"","reasoning_content":null}"#,
                r#""stop""#,
                &format!(",{usage}")
            ),
            "[DONE]"
        ])
    );
    check(&DEEPSEEK, &wire, &[&role, &thought, &end], (20, 5, 16));
    let silent = chunk(r#"{"role":"assistant","content":null}"#, "null", "");
    check_hiding(
        &DEEPSEEK,
        &wire,
        &[&silent, &chunk(r#"{"content":""}"#, r#""stop""#, "")],
    );
    let failed = sse(&[&role, &chunk("{}", r#""insufficient_system_resource""#, "")]);
    check_fails(
        &DEEPSEEK,
        &failed,
        "the upstream did not finish the answer (`insufficient_system_resource`)",
    );
}

#[test]
fn openrouter() {
    let head = r#""id":"gen-1","provider":"Novita","model":"fast","object":"chat.completion.chunk","created":5"#;
    let chunk = |delta: &str, finish: &str, more: &str| {
        format!(
            r#"{{{head},"choices":[{{"index":0,"delta":{delta},"finish_reason":{finish},"native_finish_reason":{finish},"logprobs":null}}]{more}}}"#
        )
    };
    let text = chunk(r#"{"role":"assistant","content":"Hi"}"#, "null", "");
    let bare = chunk(r#"{"content":"Hi"}"#, "null", "");
    let thought = chunk(
        r#"{"content":"","reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm"}]}"#,
        "null",
        "",
    );
    let numbered = thought
        .replace(r#"{"type":"reas"#, r#"{"index":0,"type":"reas"#)
        .replace(r#""reasoning":"#, r#""reasoning_content":"#);
    let end = chunk(r#"{"content":""}"#, r#""stop""#, "");
    let counted = chunk(
        r#"{"role":"assistant","content":""}"#,
        "null",
        r#","usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13,"cost":0.001,"is_byok":false,"cost_details":{}}"#,
    );
    let wire = format!(
        ": OPENROUTER PROCESSING\n\n{}",
        sse(&[
            &text,
            &text,
            &thought,
            &chunk(r#"{"role":"assistant","content":""}"#, r#""stop""#, ""),
            &counted,
            "[DONE]"
        ])
    );
    let after = chunk(r#"{"content":""}"#, "null", "");
    check(
        &OPENROUTER,
        &wire,
        &[&text, &bare, &numbered, &after, &end],
        (9, 4, 0),
    );
    check_hiding(&OPENROUTER, &wire, &[&text, &bare, &after, &end]);

    let failed = format!(
        r#"{{{head},"error":{{"code":502,"message":"Provider disconnected","metadata":{{"provider_name":"Novita"}}}},"choices":[{{"index":0,"delta":{{"content":""}},"finish_reason":"error"}}]}}"#
    );
    assert_eq!(
        check_fails(
            &OPENROUTER,
            &sse(&[&text, &failed]),
            "Provider disconnected"
        )
        .status,
        Some(502)
    );
    let inside = correct_answer(
        &header(false),
        &OPENROUTER,
        true,
        br#"{"error":{"message":"No endpoints","code":404},"user_id":"u"}"#,
    );
    let Err(AnswerFault::Upstream(error)) = inside else {
        panic!("{inside:?}")
    };
    assert_eq!(error.status, Some(404));
}

#[test]
fn perplexity() {
    let head = |object: &str, model: &str| {
        format!(r#""id":"p","model":"{model}","created":5,"object":"{object}""#)
    };
    let chunk = |object: &str, model: &str, completion: u32, choice: &str| {
        format!(
            r#"{{{},"usage":{{"prompt_tokens":4,"completion_tokens":{completion},"total_tokens":{},"cost":{{"total_cost":0.1}}}},"citations":["https://a"],"search_results":[],"choices":[{choice}]}}"#,
            head(object, model),
            4 + completion
        )
    };
    let choice = |message: &str, delta: &str, finish: &str| {
        format!(
            r#"{{"index":0,"message":{{"role":"assistant","content":"{message}"}},"delta":{{"role":"assistant","content":"{delta}"}},"finish_reason":{finish}}}"#
        )
    };
    let bare = |delta: &str, finish: &str| {
        format!(
            r#"{{{},"citations":["https://a"],"search_results":[],"choices":[{{"index":0,"delta":{{{delta}}},"finish_reason":{finish}}}]}}"#,
            head("chat.completion.chunk", "fast")
        )
    };
    // Every chunk has all that came before; no [DONE].
    let wire = sse(&[
        &chunk("chat.completion", "sonar", 1, &choice("One", "One", "null")),
        &chunk(
            "chat.completion",
            "sonar",
            2,
            &choice("One two", " two", "null"),
        ),
        &chunk(
            "chat.completion",
            "sonar",
            3,
            &choice("One two three", " three", r#""stop""#),
        ),
        &chunk(
            "chat.completion",
            "sonar",
            3,
            &choice("One two three", "", r#""stop""#),
        ),
    ]);
    check(
        &PERPLEXITY,
        &wire,
        &[
            &bare(r#""role":"assistant","content":"One""#, "null"),
            &bare(r#""content":" two""#, "null"),
            &bare(r#""content":" three""#, "null"),
            &bare(r#""content":"""#, r#""stop""#),
        ],
        (4, 3, 0),
    );
}

#[test]
fn together() {
    let chunk = |choice: &str, more: &str| {
        format!(
            r#"{{"id":"t","object":"chat.completion.chunk","created":5,"choices":[{{"index":0,{choice}}}],"model":"fast"{more}}}"#
        )
    };
    let odd = |delta: &str| {
        format!(
            r#""text":"a","logprobs":-0.1,"finish_reason":null,"seed":null,"delta":{{"token_id":7,"role":"assistant","content":"{delta}","tool_calls":null}}"#
        )
    };
    let clean = |role: &str| {
        format!(
            r#""text":"a","logprobs":null,"finish_reason":null,"seed":null,"delta":{{"token_id":7,{role}"content":"a","tool_calls":null}}"#
        )
    };
    let wire = sse(&[
        &chunk(&odd("a"), r#","usage":null"#),
        &chunk(&odd("a"), r#","usage":null"#),
        &chunk(
            r#""text":"","finish_reason":"eos","delta":{"token_id":128009,"role":"assistant","content":"","tool_calls":null}"#,
            r#","usage":{"prompt_tokens":4,"completion_tokens":3,"total_tokens":7,"cached_tokens":0}"#,
        ),
        "[DONE]",
    ]);
    check(
        &TOGETHER,
        &wire,
        &[
            &chunk(&clean(r#""role":"assistant","#), ""),
            &chunk(&clean(""), ""),
            &chunk(
                r#""text":"","finish_reason":"stop","delta":{"token_id":128009,"content":"","tool_calls":null}"#,
                "",
            ),
        ],
        (4, 3, 0),
    );
    let body = |logprobs: &str, finish: &str| {
        format!(
            r#"{{"id":"t","object":"chat.completion","created":5,"model":"fast","prompt":[],"choices":[{{"finish_reason":"{finish}","seed":1,"logprobs":{logprobs},"index":0,"message":{{"role":"assistant","content":"a","tool_calls":[]}}}}],"usage":{{"prompt_tokens":4,"completion_tokens":3,"total_tokens":7}}}}"#
        )
    };
    for logprobs in [
        "[]",
        r#"{"token_ids":[1],"tokens":["a"],"token_logprobs":[-0.1]}"#,
        "-0.5",
    ] {
        check_answer(
            &TOGETHER,
            &body(logprobs, "eos"),
            &body("null", "stop"),
            (4, 3, 0),
        );
    }
}

#[test]
fn fireworks() {
    let body = |object: &str, calls: &str, usage: &str| {
        format!(
            r#"{{{object}"id":"f","created":5,"model":"fast","choices":[{{"index":0,"message":{{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{calls}]}},"finish_reason":"tool_calls","logprobs":{{"content":[]}}}}],"usage":{usage},"perf_metrics":{{}}}}"#
        )
    };
    check_answer(
        &FIREWORKS,
        &body(
            "",
            r#"{"index":0,"function":{"name":"f","arguments":"{}"}}"#,
            r#"{"prompt_tokens":4,"total_tokens":7,"completion_tokens":null}"#,
        ),
        &body(
            r#""object":"chat.completion","#,
            r#"{"id":"call_chatcmpl0000","type":"function","index":0,"function":{"name":"f","arguments":"{}"}}"#,
            r#"{"prompt_tokens":4,"total_tokens":7,"completion_tokens":3}"#,
        ),
        (4, 3, 0),
    );
    check_fails(
        &FIREWORKS,
        &sse(&[r#"{"error":"the model is gone"}"#]),
        "the model is gone",
    );
}

#[test]
fn cerebras() {
    let error = check_fails(
        &CEREBRAS,
        &sse(&[
            r#"{"error":{"message":"Encountered a server error","type":"server_error","param":"","code":""},"status_code":500}"#,
        ]),
        "Encountered a server error",
    );
    assert_eq!(
        (error.status, error.kind.as_deref(), error.code),
        (Some(500), Some("server_error"), None)
    );
    let head = r#""id":"c","created":5,"model":"fast","object":"chat.completion.chunk","system_fingerprint":"fp""#;
    let role = format!(r#"{{{head},"choices":[{{"delta":{{"role":"assistant"}},"index":0}}]}}"#);
    let end = |more: &str| {
        format!(
            r#"{{{head},"choices":[{{"delta":{{}},"finish_reason":"stop","index":0}}],{more}"time_info":{{"total_time":0.1}}}}"#
        )
    };
    let wire = sse(&[
        &role,
        &end(
            r#""usage":{"prompt_tokens":4,"completion_tokens":3,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":2}},"#,
        ),
        "[DONE]",
    ]);
    check(&CEREBRAS, &wire, &[&role, &end("")], (4, 3, 2));
}

#[test]
fn vllm() {
    let head = r#""id":"chatcmpl-v","object":"chat.completion.chunk","created":5,"model":"fast""#;
    let chunk = |delta: &str, more: &str, usage: &str| {
        format!(
            r#"{{{head},"choices":[{{"index":0,"delta":{delta},"logprobs":null,{more}}}]{usage}}}"#
        )
    };
    let null = r#""finish_reason":null"#;
    let role = chunk(r#"{"role":"assistant","content":""}"#, null, "");
    let thought = chunk(r#"{"reasoning":"hm"}"#, null, "");
    let call = chunk(
        r#"{"tool_calls":[{"id":"call_1","type":"function","index":0,"function":{"name":"f","arguments":"{}"}}]}"#,
        null,
        "",
    );
    // Usage in every chunk; a named tool ends with "stop"; the last chunk has text.
    let counted = |n: u32| {
        format!(
            r#","usage":{{"prompt_tokens":4,"total_tokens":{},"completion_tokens":{n}}}"#,
            4 + n
        )
    };
    let last = |finish: &str, usage: &str| {
        chunk(
            r#"{"content":"."}"#,
            &format!(r#""finish_reason":{finish},"stop_reason":128008"#),
            usage,
        )
    };
    let wire = sse(&[
        &role.replace("}]}", &format!("}}]{}}}", counted(0))),
        &thought.replace("}]}", &format!("}}]{}}}", counted(1))),
        &call,
        &last(r#""stop""#, &counted(3)),
        &format!(r#"{{{head},"choices":[]{}}}"#, counted(3)),
        "[DONE]",
    ]);
    let finish = format!(
        r#"{{{head},"choices":[{{"index":0,"delta":{{}},"logprobs":null,"finish_reason":"tool_calls"}}]}}"#
    );
    let standard = thought.replace("reasoning", "reasoning_content");
    check(
        &VLLM,
        &wire,
        &[&role, &standard, &call, &last("null", ""), &finish],
        (4, 3, 0),
    );
    check_hiding(&VLLM, &wire, &[&role, &call, &last("null", ""), &finish]);

    let failed = r#"{"error":{"object":"error","message":"EngineDeadError","type":"InternalServerError","param":null,"code":500}}"#;
    assert_eq!(
        check_fails(&VLLM, &sse(&[&role, failed, "[DONE]"]), "EngineDeadError").status,
        Some(500)
    );
    check_fails(
        &VLLM,
        &sse(&[&role, &chunk("{}", r#""finish_reason":"abort""#, "")]),
        "the upstream did not finish the answer (`abort`)",
    );
    let flat =
        r#"{"object":"error","message":"gone","type":"NotFoundError","param":null,"code":404}"#;
    assert_eq!(
        check_fails(&SGLANG, &sse(&[flat]), "gone").status,
        Some(404)
    );
}

#[test]
fn llama_cpp() {
    let head = r#""created":5,"id":"chatcmpl-l","model":"fast","system_fingerprint":"b1","object":"chat.completion.chunk""#;
    let chunk = |delta: &str, finish: &str, more: &str| {
        format!(
            r#"{{"choices":[{{"finish_reason":{finish},"index":0,"delta":{delta}}}],{head}{more}}}"#
        )
    };
    let role = chunk(r#"{"role":"assistant","content":null}"#, "null", "");
    let thought = chunk(r#"{"reasoning_content":"hm"}"#, "null", "");
    let end = chunk("{}", r#""stop""#, "");
    let wire = sse(&[
        &role,
        &thought,
        &end,
        &format!(
            r#"{{"choices":[],{head},"usage":{{"completion_tokens":3,"prompt_tokens":4,"total_tokens":7}},"timings":{{"prompt_n":1}}}}"#
        ),
        "[DONE]",
    ]);
    check(&LLAMA_CPP, &wire, &[&role, &thought, &end], (4, 3, 0));
    let old = format!(
        "{}error: {{\"code\":500,\"message\":\"full\",\"type\":\"server_error\"}}\n\n",
        sse(&[&role])
    );
    assert_eq!(check_fails(&LLAMA_CPP, &old, "full").status, Some(500));
}

#[test]
fn tgi() {
    let head = |id: &str, model: &str| {
        format!(
            r#""object":"chat.completion.chunk","id":"{id}","created":5,"model":"{model}","system_fingerprint":"3""#
        )
    };
    let chunk = |head: &str, delta: &str, finish: &str, more: &str| {
        format!(
            r#"{{{head},"choices":[{{"index":0,"delta":{{{delta}}},"logprobs":null,"finish_reason":{finish}}}]{more}}}"#
        )
    };
    let (theirs, ours) = (head("", "tgi"), head("chatcmpl-§", "fast"));
    let role = r#""role":"assistant","#;
    let call = |index: &str, name: &str, arguments: &str| {
        format!(
            r#""tool_calls":[{{{index}"id":"0","type":"function","function":{{"name":{name},"arguments":"{arguments}"}}}}]"#
        )
    };
    let wire = format!(
        ": keep-alive\n\n{}",
        sse(&[
            &chunk(
                &theirs,
                &format!("{role}{}", r#""content":"a""#),
                "null",
                r#","usage":null"#
            ),
            &chunk(
                &theirs,
                &format!("{role}{}", call(r#""index":0,"#, r#""f""#, "")),
                "null",
                r#","usage":null"#
            ),
            &chunk(
                &theirs,
                &format!("{role}{}", call(r#""index":0,"#, "null", "{}")),
                "null",
                r#","usage":null"#
            ),
            &chunk(
                &theirs,
                &format!("{role}{}", r#""content":"""#),
                r#""eos_token""#,
                r#","usage":null"#
            ),
            &format!(
                r#"{{{theirs},"choices":[],"usage":{{"prompt_tokens":4,"completion_tokens":3,"total_tokens":7}}}}"#
            ),
            "[DONE]",
        ])
    );
    check(
        &TGI,
        &wire,
        &[
            &chunk(&ours, &format!("{role}{}", r#""content":"a""#), "null", ""),
            &chunk(&ours, &call(r#""index":0,"#, r#""f""#, ""), "null", ""),
            &chunk(
                &ours,
                r#""tool_calls":[{"index":0,"function":{"arguments":"{}"}}]"#,
                "null",
                "",
            ),
            &chunk(&ours, r#""content":"""#, r#""tool_calls""#, ""),
        ],
        (4, 3, 0),
    );
    let failed = r#"{"error":{"message":"out of memory","http_status_code":500}}"#;
    assert_eq!(
        check_fails(&TGI, &sse(&[failed]), "out of memory").status,
        Some(500)
    );
    check_fails(
        &TGI,
        &sse(&[r#"{"error":"Request failed during generation","error_type":"generation"}"#]),
        "Request failed during generation",
    );
}

#[test]
fn ollama() {
    let head = r#""id":"chatcmpl-123","object":"chat.completion.chunk","created":5,"model":"fast","system_fingerprint":"fp_ollama""#;
    let chunk = |delta: &str, finish: &str| {
        format!(r#"{{{head},"choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}"#)
    };
    let [first, second] = [
        r#"{"role":"assistant","content":"","reasoning":"hm"}"#,
        r#"{"role":"assistant","content":"a"}"#,
    ]
    .map(|delta| chunk(delta, "null"));
    let end = chunk("{}", r#""stop""#);
    let usage = format!(
        r#"{{{head},"choices":[],"usage":{{"prompt_tokens":4,"completion_tokens":3,"total_tokens":7}}}}"#
    );
    let wire = sse(&[&first, &second, &end, &usage, "[DONE]"]);
    let standard = first.replace("reasoning", "reasoning_content");
    check(
        &OLLAMA,
        &wire,
        &[&standard, &chunk(r#"{"content":"a"}"#, "null"), &end],
        (4, 3, 0),
    );
    check_hiding(
        &OLLAMA,
        &wire,
        &[
            &first.replace(r#","reasoning":"hm""#, ""),
            &chunk(r#"{"content":"a"}"#, "null"),
            &end,
        ],
    );
    // A failure in the middle is an odd empty chunk without a finish.
    let (_, result) = run(
        &OLLAMA,
        false,
        &sse(&[
            &first,
            &chunk(r#"{"role":"assistant","content":""}"#, "null"),
        ]),
    );
    assert_eq!(result, Err(StreamFault::Cut));
}
