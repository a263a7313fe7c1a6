//! Flawed answers: they claim to be whole, and are not what was asked for. They hold calls with
//! broken JSON, or text in place of JSON.

use serde_json::{Value, json};

use super::failover::trail;
use crate::support::canary::KEY;
use crate::support::client::{self, Response};
use crate::support::frames;
use crate::support::script::{chunk, completion, finish, usage};
use crate::support::{Catalog, Gate, Gateway, Mock, Script, chat, chat_stream, run};

const CALLS: &str = "tool_calls[].function.arguments";

fn with(mut body: Value, more: &Value) -> Value {
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    body
}

fn tools() -> Value {
    json!({"tools": [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]})
}

fn schema() -> Value {
    json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}}}})
}

/// What a dialect's server says when it calls `weather` with these arguments: buffered where it can
/// be broken there, and as a stream, which waits at the gate before its end.
struct Speaker {
    account: &'static str,
    model: &'static str,
    buffered: Option<fn(&str) -> Script>,
    streamed: fn(&[&str], Option<&Gate>) -> Script,
}

fn openai_buffered(arguments: &str) -> Script {
    let mut answer = completion("");
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": arguments}});
    answer["choices"][0]["message"] =
        json!({"role": "assistant", "content": null, "tool_calls": [call]});
    answer["choices"][0]["finish_reason"] = json!("tool_calls");
    Script::json(200, &answer)
}

fn openai_streamed(fragments: &[&str], gate: Option<&Gate>) -> Script {
    let first = json!({"role": "assistant", "content": null, "tool_calls": [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}]});
    let more = |text: &&str| {
        chunk(
            &json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}),
            None,
        )
    };
    let script = fragments
        .iter()
        .fold(Script::sse().event(chunk(&first, None)), |script, text| {
            script.event(more(text))
        });
    held(script, gate)
        .event(finish("tool_calls"))
        .event(usage(5))
        .done()
}

fn held(script: Script, gate: Option<&Gate>) -> Script {
    gate.map_or(script.clone(), |gate| script.wait(gate))
}

fn claude_streamed(fragments: &[&str], gate: Option<&Gate>) -> Script {
    let named = |script: Script, event: Value| {
        script.body(format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap()
        ))
    };
    let begin = [
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
            "stop_reason": null, "usage": {"input_tokens": 10, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}}),
    ];
    let deltas = fragments
        .iter()
        .map(|text| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text}}));
    let end = [
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ];
    let begun = held(
        begin.into_iter().chain(deltas).fold(Script::sse(), named),
        gate,
    );
    end.into_iter().fold(begun, named).end()
}

fn cohere_buffered(arguments: &str) -> Script {
    Script::json(
        200,
        &json!({"id": "c1", "finish_reason": "TOOL_CALL", "message": {"role": "assistant", "tool_calls": [
            {"id": "weather_1", "type": "function", "function": {"name": "weather", "arguments": arguments}}]},
            "usage": {"tokens": {"input_tokens": 10, "output_tokens": 7}}}),
    )
}

fn cohere_streamed(fragments: &[&str], gate: Option<&Gate>) -> Script {
    let start = json!({"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls": {"id": "weather_1", "type": "function",
        "function": {"name": "weather", "arguments": ""}}}}});
    let delta = |text: &&str| json!({"type": "tool-call-delta", "index": 0, "delta": {"message": {"tool_calls": {"function": {"arguments": text}}}}});
    let begin = [
        json!({"type": "message-start", "id": "c1", "delta": {"message": {"role": "assistant"}}}),
        start,
    ];
    let end = [
        json!({"type": "tool-call-end", "index": 0}),
        json!({"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": {"tokens": {"input_tokens": 10, "output_tokens": 7}}}}),
    ];
    let say = |script: Script, event: Value| script.body(format!("data: {event}\n\n"));
    let begun = held(
        begin
            .into_iter()
            .chain(fragments.iter().map(delta))
            .fold(Script::sse(), say),
        gate,
    );
    end.into_iter().fold(begun, say).end()
}

const SPEAKERS: [Speaker; 3] = [
    Speaker {
        account: "dialect: openai",
        model: "gpt-x",
        buffered: Some(openai_buffered),
        streamed: openai_streamed,
    },
    Speaker {
        account: "dialect: anthropic",
        model: "claude-sonnet-4-5",
        buffered: None,
        streamed: claude_streamed,
    },
    Speaker {
        account: "dialect: cohere",
        model: "command-a-03-2025",
        buffered: Some(cohere_buffered),
        streamed: cohere_streamed,
    },
];

/// The arguments of the only call, glued together as clients do.
fn arguments(answer: &Response) -> String {
    if answer.field("content-type") == Some("application/json") {
        return answer.json()["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
            .as_str()
            .unwrap()
            .to_owned();
    }
    let text = |event: &String| {
        let chunk: Value = serde_json::from_str(event).unwrap_or_default();
        chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    answer.events().iter().map(text).collect()
}

fn comments(answer: &Response) -> Vec<String> {
    answer
        .text()
        .split("\n\n")
        .filter(|block| block.starts_with(':'))
        .map(ToOwned::to_owned)
        .collect()
}

#[test]
fn a_broken_call_told_as_whole_passes_named() {
    run(async {
        let mock = Mock::start().await;
        for Speaker {
            account,
            model,
            buffered,
            streamed,
        } in SPEAKERS
        {
            let catalog = Catalog::new()
                .account_with("a", &mock, account)
                .model("m", &[&format!("a={model}")]);
            let gateway = Gateway::start(catalog).await;
            for (fragments, broken) in [
                (&["{\"city\":", "\"Rome\"}"][..], false),
                (&["{\"city\":"], true),
                (&["{\"city\":", "\"Rome\"}", "\"Rome\"}"], true),
                (&["\"Rome\"}", "{\"city\":"], true),
            ] {
                let whole = fragments.concat();
                if let Some(buffered) = buffered {
                    mock.push(buffered(&whole));
                    let answer = gateway.post(&with(chat("m"), &tools())).await;
                    assert_eq!(
                        (answer.status, arguments(&answer)),
                        (200, whole.clone()),
                        "{account}"
                    );
                    assert_eq!(
                        answer.field("x-portcullis-dropped"),
                        broken.then_some(CALLS),
                        "{account}: {}",
                        answer.text()
                    );
                    let line = gateway.line_of(&answer).await;
                    assert_eq!(
                        (&line["broken_calls"], &line["outcome"]),
                        (&if broken { json!(1) } else { Value::Null }, &json!("ok"))
                    );
                    assert_eq!(
                        line["dropped"],
                        if broken { json!([CALLS]) } else { Value::Null }
                    );
                }
                mock.push(streamed(fragments, None));
                let answer = gateway.post(&with(chat_stream("m"), &tools())).await;
                assert_eq!(
                    (answer.status, arguments(&answer)),
                    (200, whole),
                    "{account}: {}",
                    answer.text()
                );
                assert_eq!(answer.events().last().unwrap(), "[DONE]");
                assert!(answer.text().contains("\"finish_reason\":\"tool_calls\""));
                let said: Vec<String> = broken
                    .then(|| format!(": x-portcullis-dropped: {CALLS}"))
                    .into_iter()
                    .collect();
                assert_eq!(comments(&answer), said, "{account}: {}", answer.text());
                let line = gateway.line_of(&answer).await;
                assert_eq!(
                    (&line["broken_calls"], &line["outcome"]),
                    (&if broken { json!(1) } else { Value::Null }, &json!("ok")),
                    "{account}"
                );
            }
            let metrics = gateway.metrics();
            let counted = metrics.sum(
                "portcullis_dropped_params_total",
                &[("param", CALLS), ("account", "a")],
            );
            assert_eq!(
                counted,
                if buffered.is_some() { 6.0 } else { 3.0 },
                "{account}"
            );
        }
    });
}

#[test]
fn a_broken_call_is_no_answer_where_said() {
    run(async {
        let mock = Mock::start().await;
        for Speaker {
            account,
            model,
            buffered,
            streamed,
        } in SPEAKERS
        {
            let spare = Mock::start().await;
            let catalog = Catalog::new()
                .account_with("a", &mock, account)
                .account("b", &spare);
            let target = format!("a={model}");
            let catalog = catalog
                .model_with("m", &[&target, "b"], "on_broken_call: error")
                .model_with("alone", &[&target], "on_broken_call: error");
            let gateway = Gateway::start(catalog).await;
            if let Some(buffered) = buffered {
                mock.push(buffered("{\"city\":"));
                let answer = gateway.post(&with(chat("m"), &tools())).await;
                assert_eq!(
                    (answer.status, answer.content().as_str()),
                    (200, "Hello from the mock."),
                    "{account}: the next target answers"
                );
                let line = gateway.line_of(&answer).await;
                assert_eq!(
                    (trail(&line).as_str(), &line["broken_calls"]),
                    ("a:broken_call b:ok", &Value::Null),
                    "this answer has none"
                );
                mock.push(buffered("{\"city\":"));
                let answer = gateway.post(&with(chat("alone"), &tools())).await;
                answer.is_error(502, "bad_upstream_response");
                assert!(!answer.text().contains("city"), "{}", answer.text());
                let line = gateway.line_of(&answer).await;
                assert_eq!(
                    (
                        trail(&line).as_str(),
                        &line["outcome"],
                        &line["maybe_billed"],
                        &line["broken_calls"]
                    ),
                    (
                        "a:broken_call",
                        &json!("upstream_error"),
                        &json!(true),
                        &json!(1)
                    )
                );
                mock.push(buffered("{\"city\":\"Rome\"}"));
                assert_eq!(
                    arguments(&gateway.post(&with(chat("alone"), &tools())).await),
                    "{\"city\":\"Rome\"}"
                );
            }
            // In pieces, so that the gate is open before the end is seen.
            let gate = Gate::new();
            mock.push(streamed(&["{\"city\":"], Some(&gate)));
            let (mut connection, mut answer) =
                gateway.open(&with(chat_stream("m"), &tools())).await;
            while !arguments(&answer).ends_with(':') {
                connection.event(&mut answer).await.expect("the call");
            }
            gate.open();
            connection.rest(&mut answer).await;
            let events = answer.events();
            let error: Value = serde_json::from_str(events.last().unwrap()).unwrap();
            assert_eq!(
                error["error"]["code"],
                "bad_upstream_response",
                "{account}: {}",
                answer.text()
            );
            assert_eq!(
                events
                    .iter()
                    .filter(|event| event.contains("\"error\""))
                    .count(),
                1,
                "{}",
                answer.text()
            );
            assert!(
                !answer.text().contains("[DONE]")
                    && !answer.text().contains("\"finish_reason\":\""),
                "{}",
                answer.text()
            );
            let line = gateway.line_of(&answer).await;
            assert_eq!(
                (
                    trail(&line).as_str(),
                    &line["outcome"],
                    &line["status"],
                    &line["broken_calls"]
                ),
                (
                    "a:broken_call",
                    &json!("upstream_error"),
                    &json!(200),
                    &json!(1)
                )
            );
            // What was cut short says so itself.
            if account == "dialect: openai" {
                let first = json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city"}}]});
                mock.push(
                    Script::sse()
                        .event(chunk(&first, None))
                        .event(finish("length"))
                        .done(),
                );
                let answer = gateway.post(&with(chat_stream("alone"), &tools())).await;
                assert_eq!(
                    answer.events().last().unwrap(),
                    "[DONE]",
                    "{}",
                    answer.text()
                );
            }
        }
    });
}

/// The end of a whole answer is written before its flaws are known, and is taken back.
#[test]
fn a_refused_end_leaves_no_gap_in_numbers() {
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::new().account("a", &mock).model_with(
            "m",
            &["a=gpt-x"],
            "on_broken_call: error",
        );
        let gateway = Gateway::start(catalog).await;
        mock.push(openai_streamed(&["{\"city\":"], None));
        let body = json!({"model": "m", "input": "x", "stream": true, "tools": [{"type": "function", "name": "weather"}]});
        let fields = [("x-api-key", KEY), ("content-type", "application/json")];
        let request = client::request(
            "POST",
            "/v1/responses",
            &fields,
            body.to_string().as_bytes(),
        );
        let answer = gateway.raw(request).await;
        let text = answer.text();
        let events: Vec<Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
            .collect();
        let kinds: Vec<&str> = events
            .iter()
            .filter_map(|event| event["type"].as_str())
            .collect();
        assert!(
            kinds.contains(&"response.function_call_arguments.delta")
                && kinds.ends_with(&["error", "response.failed"]),
            "{text}"
        );
        for (number, event) in events.iter().enumerate() {
            assert_eq!(event["sequence_number"], number, "{text}");
        }
    });
}

#[test]
fn a_format_that_the_upstream_ignored_is_named() {
    run(async {
        let claude = |text: &str| {
            Script::json(
                200,
                &json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [{"type": "text", "text": text}],
                    "stop_reason": "end_turn", "usage": {"input_tokens": 10, "output_tokens": 7}}),
            )
        };
        let gemini = |text: &str| {
            Script::json(
                200,
                &json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}],
                    "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 7, "totalTokenCount": 17}}),
            )
        };
        let bedrock = |text: &str| {
            Script::json(
                200,
                &json!({"output": {"message": {"role": "assistant", "content": [{"text": text}]}}, "stopReason": "end_turn",
                    "usage": {"inputTokens": 10, "outputTokens": 7, "totalTokens": 17}}),
            )
        };
        type Speak<'s> = &'s dyn Fn(&str) -> Script;
        let speakers: [(&str, &str, Speak<'_>, &str); 4] = [
            (
                "dialect: openai",
                "gpt-x",
                &|text| Script::answer(text),
                "response_format",
            ),
            (
                "dialect: anthropic",
                "claude-sonnet-4-5",
                &claude,
                "output_config",
            ),
            (
                "dialect: gemini",
                "gemini-2.5-pro",
                &gemini,
                "responseJsonSchema",
            ),
            (
                "dialect: bedrock, region: us-east-1",
                "anthropic.claude-sonnet-4-5-20250929-v1:0",
                &bedrock,
                "outputConfig",
            ),
        ];
        for (account, model, speak, native) in speakers {
            let mock = Mock::start().await;
            let catalog = Catalog::new()
                .account_with("a", &mock, account)
                .model("m", &[&format!("a={model}")]);
            let gateway = Gateway::start(catalog).await;
            for (said, ignored) in [("{\"a\":\"b\"}", false), ("Sure! Here you are.", true)] {
                mock.push(speak(said));
                let answer = gateway.post(&with(chat("m"), &schema())).await;
                assert_eq!(
                    (answer.status, answer.content().as_str()),
                    (200, said),
                    "{account}"
                );
                assert_eq!(
                    answer.field("x-portcullis-dropped"),
                    ignored.then_some("response_format"),
                    "{account}: {}",
                    answer.text()
                );
                let line = gateway.line_of(&answer).await;
                assert_eq!(
                    line["not_json"],
                    if ignored { json!(true) } else { Value::Null },
                    "{account}"
                );
                // As a stream, made of one answer.
                mock.push(speak(said));
                let answer = gateway.post(&with(chat_stream("m"), &schema())).await;
                assert_eq!(
                    (answer.status, answer.content().as_str()),
                    (200, said),
                    "{account}"
                );
                assert_eq!(
                    answer.field("x-portcullis-dropped"),
                    ignored.then_some("response_format"),
                    "{account}: {}",
                    answer.text()
                );
            }
            let asked = mock.request(0).await;
            assert!(
                String::from_utf8_lossy(&asked.body).contains(native),
                "{account}: {}",
                String::from_utf8_lossy(&asked.body)
            );
            // Who asks for no format gets none, and no word of it.
            mock.push(speak("Sure!"));
            assert_eq!(
                gateway.post(&chat("m")).await.field("x-portcullis-dropped"),
                None
            );
        }
    });
}

#[test]
fn a_streams_last_comment_names_an_ignored_format() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let gate = Gate::new();
        mock.push(
            Script::sse()
                .words(0..2)
                .wait(&gate)
                .words(2..3)
                .event(finish("stop"))
                .event(usage(3))
                .done(),
        );
        let (mut connection, mut answer) = gateway.open(&with(chat_stream("m"), &schema())).await;
        assert_eq!(
            answer.field("x-portcullis-dropped"),
            None,
            "nobody knows yet"
        );
        while !answer.content().ends_with("w1 ") {
            connection.event(&mut answer).await.expect("a word");
        }
        gate.open();
        connection.rest(&mut answer).await;
        assert_eq!(answer.content(), "w0 w1 w2 ");
        assert_eq!(
            comments(&answer),
            [": x-portcullis-dropped: response_format"],
            "{}",
            answer.text()
        );
        let (before, after) = answer
            .text()
            .split_once(": x-portcullis-dropped")
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap();
        assert!(
            before.contains("w2 ")
                && after.contains("\"finish_reason\":\"stop\"")
                && after.ends_with("data: [DONE]\n\n")
        );
        let line = gateway.line().await;
        assert_eq!(
            (&line["not_json"], &line["dropped"]),
            (&json!(true), &json!(["response_format"]))
        );
    });
}

/// What an account's server does not read is not sent to it: the schema is had in another way.
#[test]
fn an_account_says_which_new_fields_its_server_reads() {
    run(async {
        let effort = json!({"reasoning_effort": "low"});
        let bedrock = "dialect: bedrock, region: us-east-1";
        for (account, model, traits, ask, wanted, unwanted) in [
            (
                "dialect: anthropic",
                "claude-sonnet-4-5",
                "output_config: false",
                with(schema(), &effort),
                "json_answer",
                "output_config",
            ),
            (
                bedrock,
                "anthropic.claude-sonnet-4-5-20250929-v1:0",
                "output_config: false",
                schema(),
                "json_answer",
                "outputConfig",
            ),
            (
                "dialect: gemini",
                "gemini-2.5-pro",
                "response_json_schema: false",
                schema(),
                "\"responseSchema\"",
                "responseJsonSchema",
            ),
            (
                "dialect: gemini",
                "gemini-2.5-pro",
                "parameters_json_schema: false",
                tools(),
                "\"parameters\"",
                "parametersJsonSchema",
            ),
        ] {
            let mock = Mock::start().await;
            mock.always(Script::error(400, "seen"));
            let catalog = Catalog::new()
                .account_with("own", &mock, account)
                .account_with(
                    "imitation",
                    &mock,
                    &format!("{account}, traits: {{ {traits} }}"),
                )
                .model("own", &[&format!("own={model}")])
                .model("imitation", &[&format!("imitation={model}")]);
            let gateway = Gateway::start(catalog).await;
            let mut sent = Vec::new();
            for (nth, model) in ["own", "imitation"].into_iter().enumerate() {
                assert_eq!(gateway.post(&with(chat(model), &ask)).await.status, 400);
                sent.push(mock.request(nth).await.text());
            }
            assert!(
                sent[0].contains(unwanted) && !sent[0].contains(wanted),
                "{account}: {}",
                sent[0]
            );
            assert!(
                sent[1].contains(wanted) && !sent[1].contains(unwanted),
                "{account}: {}",
                sent[1]
            );
        }
    });
}

/// Bedrock must have a tool where there were calls. Nobody offered it, so nobody sees it called.
#[test]
fn calls_of_the_tool_given_to_bedrock_stay_hidden() {
    run(async {
        let mock = Mock::start().await;
        let usage = json!({"inputTokens": 5, "outputTokens": 2, "totalTokens": 7});
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: bedrock, region: us-east-1")
            .model("m", &["a=amazon.nova-pro-v1:0"]);
        let gateway = Gateway::start(catalog).await;
        let history = json!({"messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "time", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "noon"},
        ]});
        let call = json!({"toolUse": {"toolUseId": "t1", "name": "no_tool", "input": {}}});
        mock.push(Script::json(
            200,
            &json!({"output": {"message": {"role": "assistant", "content": [{"text": "Noon."}, call]}}, "stopReason": "tool_use", "usage": usage}),
        ));
        let answer = gateway.post(&with(chat("m"), &history)).await;
        let choice = answer.json()["choices"][0].clone();
        assert_eq!(
            (&choice["message"]["content"], &choice["finish_reason"]),
            (&json!("Noon."), &json!("stop")),
            "{choice}"
        );
        assert!(choice["message"].get("tool_calls").is_none(), "{choice}");
        assert_eq!(
            answer.field("x-portcullis-dropped"),
            Some("tools"),
            "what was added is named"
        );
        assert!(mock.request(0).await.text().contains("no_tool"));
        let event = |kind: &str, payload: Value| frames::event(kind, &payload.to_string());
        let bytes = [
            event("messageStart", json!({"role": "assistant"})),
            event(
                "contentBlockDelta",
                json!({"contentBlockIndex": 0, "delta": {"text": "Noon."}}),
            ),
            event("contentBlockStop", json!({"contentBlockIndex": 0})),
            event(
                "contentBlockStart",
                json!({"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t1", "name": "no_tool"}}}),
            ),
            event(
                "contentBlockDelta",
                json!({"contentBlockIndex": 1, "delta": {"toolUse": {"input": "{}"}}}),
            ),
            event("contentBlockStop", json!({"contentBlockIndex": 1})),
            event("messageStop", json!({"stopReason": "tool_use"})),
            event(
                "metadata",
                json!({"usage": usage, "metrics": {"latencyMs": 1}}),
            ),
        ];
        let head = [
            ("content-type", "application/vnd.amazon.eventstream"),
            ("transfer-encoding", "chunked"),
        ];
        mock.push(Script::new().head(200, &head).body(bytes.concat()).end());
        let answer = gateway.post(&with(chat_stream("m"), &history)).await;
        assert_eq!(
            (answer.status, answer.content().as_str()),
            (200, "Noon."),
            "{}",
            answer.text()
        );
        assert!(
            !answer.text().contains("tool_calls") && !answer.text().contains("no_tool"),
            "{}",
            answer.text()
        );
        assert!(
            answer.text().contains("\"finish_reason\":\"stop\"")
                && answer.events().last().unwrap() == "[DONE]"
        );
    });
}
