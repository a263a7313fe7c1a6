use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{Dialect, Recipient, Translate};
use crate::front::{CHAT, Front, GEMINI, MESSAGES, RESPONSES};
use crate::neutral::Endpoint;
use crate::neutral::answer::AnswerOptions;
use crate::neutral::traits::{Thinking, Traits};
use crate::neutral::{AnswerFault, AnswerHeader, Kept, Reader as _, Refused, StreamFault, Thought};
use crate::upstream::{Settings, azure, openai};
use crate::{Outbound, endpoint_for};

fn responses() -> Dialect {
    Dialect::from(&openai::PROTOCOL).for_endpoint(Endpoint::Responses)
}

fn outbound(
    front: &'static Front,
    model: &str,
    body: &Value,
    kept: Option<Kept>,
) -> Result<Outbound, Refused> {
    let body = Bytes::from(body.to_string());
    let asked = crate::front::PathRequest {
        model: front.name.starts_with("gemini").then(|| "m".to_owned()),
        stream: false,
    };
    let envelope = front.envelope(&body).expect("a request").with_path(asked);
    responses().write(&Translate {
        kept: &|_| kept.clone(),
        ..Translate::new(&body, &envelope, model)
    })
}

/// Writes a request for the model `gpt-5`. Returns it, and its losses.
fn written(front: &'static Front, body: &Value) -> (Value, String) {
    let said = outbound(front, "gpt-5", body, None).unwrap_or_else(|why| panic!("{why:?}"));
    assert_eq!(said.path, "/responses");
    (
        serde_json::from_slice(&said.body.concat()).expect("JSON"),
        said.losses.names().join(" "),
    )
}

#[test]
fn a_picture_of_the_assistants_is_refused() {
    let picture = json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}});
    let said = |role: &str, part: Value| json!({"role": role, "parts": [part]});
    let body = json!({"contents": [said("user", json!({"text": "x"})), said("model", picture), said("user", json!({"text": "y"}))]});
    let Err(Refused::Unsupported(why)) = outbound(&GEMINI, "gpt-5", &body, None) else {
        panic!("it is written")
    };
    assert_eq!(why.param, "contents[1].parts");
}

#[test]
fn a_turn_of_messages_becomes_items() {
    let (body, lost) = written(
        &MESSAGES,
        &json!({
            "model": "m", "max_tokens": 200_000, "system": "be brief", "temperature": 1, "stream": true,
            "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}, "stop_sequences": ["x"],
            "tools": [{"name": "look", "description": "d", "input_schema": {"type": "object", "properties": {}}}],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                ]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "gAAAAone"},
                    {"type": "redacted_thinking", "data": "gAAAAtwo"},
                    {"type": "thinking", "thinking": "theirs", "signature": "EqQBother"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "call_1", "name": "look", "input": {"a": 1}},
                    {"type": "tool_use", "id": "call_2", "name": "look", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": "one"},
                    {"type": "tool_result", "tool_use_id": "call_2", "content": [
                        {"type": "text", "text": "two"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "BBBB"}},
                    ]},
                ]},
            ],
        }),
    );
    let image = |data: &str| json!({"type": "input_image", "image_url": format!("data:image/png;base64,{data}"), "detail": "auto"});
    let thought = |summary: Value, seal: &str| json!({"type": "reasoning", "summary": summary, "encrypted_content": seal});
    assert_eq!(
        body,
        json!({
            "model": "gpt-5", "stream": true, "store": false, "include": ["reasoning.encrypted_content"],
            "max_output_tokens": 128_000, "reasoning": {"effort": "high", "summary": "auto"},
            "tools": [{"type": "function", "name": "look", "description": "d",
                       "parameters": {"type": "object", "properties": {}}, "strict": false}],
            "tool_choice": "required", "parallel_tool_calls": false,
            "input": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": [{"type": "input_text", "text": "see"}, image("AAAA")]},
                thought(json!([{"type": "summary_text", "text": "hm"}]), "gAAAAone"),
                thought(json!([]), "gAAAAtwo"),
                {"role": "assistant", "content": "I look."},
                {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{\"a\":1}"},
                {"type": "function_call", "call_id": "call_2", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "call_1", "output": "one"},
                {"type": "function_call_output", "call_id": "call_2",
                 "output": [{"type": "input_text", "text": "two"}, image("BBBB")]},
            ],
        })
    );
    assert_eq!(
        lost,
        "max_tokens messages[].content[].thinking stop_sequences"
    );
}

#[test]
fn geminis_request_asks_for_json_and_no_summary() {
    let (body, lost) = written(
        &GEMINI,
        &json!({
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "generationConfig": {
                "maxOutputTokens": 7, "temperature": 0.5, "seed": 3, "thinkingConfig": {"thinkingLevel": "LOW"},
                "responseMimeType": "application/json", "responseSchema": {"type": "OBJECT", "properties": {}},
            },
        }),
    );
    assert_eq!(body["reasoning"], json!({"effort": "low"}));
    assert_eq!(body["text"]["format"]["type"], "json_schema");
    assert_eq!(body["text"]["format"]["strict"], false);
    assert_eq!(
        body["max_output_tokens"], 16,
        "the fewest that may be asked for"
    );
    assert_eq!(body["input"], json!([{"role": "user", "content": "hi"}]));
    assert!(
        body.get("temperature").is_none(),
        "models that think refuse it"
    );
    assert_eq!(
        lost,
        "generationConfig.maxOutputTokens generationConfig.temperature generationConfig.seed"
    );
}

#[test]
fn what_cannot_be_answered_is_refused_by_its_name() {
    let user = json!([{"role": "user", "content": "x"}]);
    for (body, param) in [
        (json!({"model": "m", "messages": user, "n": 2}), "n"),
        (
            json!({"model": "m", "messages": user, "logprobs": true}),
            "logprobs",
        ),
        (
            json!({"model": "m", "messages": user, "tools": [{"type": "custom", "custom": {"name": "f"}}]}),
            "tools[0]",
        ),
        (
            json!({"model": "m", "messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]}),
            "messages[0].content[0].file.file_id",
        ),
    ] {
        let Err(Refused::Unsupported(why)) = outbound(&CHAT, "gpt-5", &body, None) else {
            panic!("{body} passes")
        };
        assert!(
            param.starts_with(&why.param),
            "{} is not {param}",
            why.param
        );
    }
}

#[test]
fn thoughts_that_were_kept_stand_before_their_call() {
    let kept: Kept = [
        Thought {
            text: "hm".into(),
            signature: Some("gAAAAkept".into()),
            ..Thought::default()
        },
        Thought {
            redacted: Some("of another family".into()),
            ..Thought::default()
        },
    ]
    .into();
    let body = json!({"model": "m", "messages": [
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "r"},
    ]});
    let said = outbound(&CHAT, "o4-mini", &body, Some(kept)).expect("a request");
    let body: Value = serde_json::from_slice(&said.body.concat()).expect("JSON");
    let kinds: Vec<&str> = body["input"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["type"].as_str())
        .collect();
    assert_eq!(
        kinds,
        ["reasoning", "function_call", "function_call_output"]
    );
    assert_eq!(body["input"][1]["encrypted_content"], "gAAAAkept");
}

#[test]
fn door_model_and_account_decide_the_endpoint() {
    use Endpoint::{Chat, Responses};
    let both = |kind| kind != Endpoint::Messages;
    let chosen = |front, model, traits: &Traits| endpoint_for(both, front, model, traits);
    let unknown = Traits::UNKNOWN;
    for (front, model, expected) in [
        (&CHAT, "gpt-5", Chat),
        (&RESPONSES, "gpt-4o", Responses),
        (&MESSAGES, "gpt-5.1", Responses),
        (&MESSAGES, "gpt-4o", Chat),
        (&MESSAGES, "my-deployment", Chat),
        (&GEMINI, "o3", Responses),
    ] {
        assert_eq!(
            chosen(front, model, &unknown),
            expected,
            "{front:?} {model}"
        );
    }
    let thinks = Traits {
        thinking: Thinking::Effort,
        ..unknown
    };
    assert_eq!(
        chosen(&MESSAGES, "my-deployment", &thinks),
        Responses,
        "the catalog says it"
    );
    for front in [&CHAT, &RESPONSES, &MESSAGES] {
        for only in Endpoint::ALL
            .into_iter()
            .filter(|kind| kind.is_conversation())
        {
            assert_eq!(
                endpoint_for(|kind| kind == only, front, "gpt-5", &unknown),
                only
            );
        }
    }
    for (front, expected) in [
        (&CHAT, Chat),
        (&RESPONSES, Responses),
        (&MESSAGES, Endpoint::Messages),
        (&GEMINI, Responses),
    ] {
        assert_eq!(
            endpoint_for(|_| true, front, "gpt-5", &unknown),
            expected,
            "{front:?}"
        );
    }
}

#[test]
fn who_has_the_endpoint_is_known_by_its_address() {
    let conversations = |kinds: &[Endpoint]| -> Vec<&str> {
        kinds
            .iter()
            .filter(|kind| kind.is_conversation())
            .map(|kind| kind.name())
            .collect()
    };
    let [all, chat] = [vec!["chat", "responses"], vec!["chat"]];
    let openai = Dialect::from(&openai::PROTOCOL);
    for (host, expected) in [
        ("api.openai.com", &all),
        ("eu.api.openai.com", &all),
        ("evilapi.openai.com.test", &chat),
        ("notapi.openai.com", &chat),
        ("127.0.0.1", &chat),
    ] {
        assert_eq!(conversations(openai.serves(host)), *expected, "{host}");
    }
    let of_version = |version: Option<&str>| {
        let settings = Settings {
            version: version.map(Into::into),
            ..Settings::NONE
        };
        let dialect = Dialect::new(&azure::PROTOCOL, settings.clone());
        let path = dialect
            .for_endpoint(Endpoint::Responses)
            .protocol
            .path(&settings, "my model", true)
            .into_owned();
        (conversations(dialect.serves("x.openai.azure.com")), path)
    };
    assert_eq!(
        of_version(None),
        (all.clone(), "/openai/v1/responses".to_owned())
    );
    assert_eq!(
        of_version(Some("preview")),
        (all, "/openai/v1/responses?api-version=preview".to_owned())
    );
    assert_eq!(
        of_version(Some("2025-04-01")),
        (chat, "/openai/responses?api-version=2025-04-01".to_owned())
    );
    assert_eq!(
        Dialect::from(&crate::upstream::anthropic::PROTOCOL)
            .for_endpoint(Endpoint::Responses)
            .protocol
            .name,
        "anthropic"
    );
}

/// An answer with everything that a translated one can have.
fn response(status: &str) -> Value {
    json!({
        "id": "resp_1", "object": "response", "status": status, "model": "gpt-5", "error": null,
        "incomplete_details": null,
        "output": [
            {"id": "rs_1", "type": "reasoning", "encrypted_content": "gAAAA1",
             "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]},
            {"id": "rs_2", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA2"},
            {"id": "ws_1", "type": "web_search_call", "status": "completed"},
            {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "Hé\n", "annotations": []}, {"type": "refusal", "refusal": "no"}]},
            {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{\"a\":1}"},
            {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_2", "name": "patch", "input": "say \"x\"\n"},
            {"id": "ts_1", "type": "tool_search_call", "call_id": "call_3", "execution": "client", "arguments": {"q": 1}},
        ],
        "usage": {"input_tokens": 50, "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 5},
                  "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 9}, "total_tokens": 70},
    })
}

/// The events that the whole answer and the stream have in common, with the pieces of texts joined.
const TOLD: [&str; 14] = [
    r#"Id("resp_1")"#,
    r#"Reasoning(0, "one\n\ntwo")"#,
    r#"Signed("gAAAA1")"#,
    r#"Redacted("gAAAA2")"#,
    r#"Text(0, "Hé\n")"#,
    r#"Refusal(0, "no")"#,
    r#"Call { choice: 0, id: Some("call_1"), name: "look", signature: None }"#,
    r#"Arguments(0, "{\"a\":1}")"#,
    r#"Call { choice: 0, id: Some("call_2"), name: "patch", signature: None }"#,
    r#"Arguments(0, "{\"input\":\"say \\\"x\\\"\\n\"}")"#,
    r#"Call { choice: 0, id: Some("call_3"), name: "tool_search", signature: None }"#,
    r#"Arguments(0, "{\"q\": 1}")"#,
    "Usage(Tokens { prompt: Some(50), completion: Some(20), cached: Some(30), cache_write: Some(5), reasoning: Some(9) })",
    "Finish(0, Stop)",
];

fn whole(body: &Value) -> Result<Vec<String>, AnswerFault> {
    let mut told = Vec::new();
    super::answer::read_answer(body.to_string().as_bytes(), &mut |event| {
        told.push(format!("{event:?}"))
    })?;
    Ok(told)
}

#[test]
fn a_whole_answer() {
    let mut expected: Vec<String> = TOLD
        .map(|line| line.replace("{\\\"q\\\": 1}", "{\\\"q\\\":1}"))
        .to_vec();
    expected.push("End".to_owned());
    assert_eq!(whole(&response("completed")).expect("an answer"), expected);
}

#[test]
fn an_answer_that_was_cut_or_failed_says_so() {
    let ends = |reason: &str| {
        let mut body = response("incomplete");
        body["incomplete_details"] = json!({"reason": reason});
        let told = whole(&body).expect("an answer");
        told[told.len() - 2].clone()
    };
    assert_eq!(ends("max_output_tokens"), "Finish(0, Length)");
    assert_eq!(ends("content_filter"), "Finish(0, Filtered)");
    assert_eq!(ends("something new"), "Finish(0, Length)");
    let failed = |error: Value| {
        let mut body = response("failed");
        body["error"] = error;
        match whole(&body) {
            Err(AnswerFault::Upstream(error)) => (error.status, error.code.unwrap_or_default()),
            other => panic!("{other:?}"),
        }
    };
    for (code, status) in [
        ("rate_limit_exceeded", Some(429)),
        ("server_error", None),
        ("context_length_exceeded", Some(400)),
        ("invalid_prompt", Some(400)),
        ("invalid_image_format", Some(400)),
    ] {
        assert_eq!(
            failed(json!({"code": code, "message": "no"})),
            (status, code.to_owned())
        );
    }
    assert_eq!(failed(Value::Null), (None, String::new()));
    let mut queued = response("queued");
    queued["output"] = json!([]);
    assert!(
        matches!(whole(&queued), Err(AnswerFault::Nonsense(_))),
        "nobody waits for it"
    );
    assert!(matches!(
        whole(&json!({"choices": []})),
        Err(AnswerFault::Nonsense(_))
    ));
}

/// The answer as a stream.
fn events() -> Vec<Value> {
    let response = response("completed");
    let mut events = vec![
        json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": [], "model": "gpt-5"}}),
        json!({"type": "response.in_progress", "response": {"id": "resp_1", "status": "in_progress", "output": []}}),
    ];
    for (index, item) in response["output"].as_array().unwrap().iter().enumerate() {
        let piece = |kind: &str, delta: &str| json!({"type": kind, "output_index": index, "item_id": item["id"], "delta": delta});
        let mut begun = item.clone();
        for (name, nothing) in [
            ("content", json!([])),
            ("summary", json!([])),
            ("arguments", json!("")),
            ("input", json!("")),
        ] {
            if let Some(value) = begun.get_mut(name) {
                *value = nothing;
            }
        }
        begun.as_object_mut().unwrap().remove("encrypted_content");
        events.push(
            json!({"type": "response.output_item.added", "output_index": index, "item": begun}),
        );
        for (place, part) in item["summary"].as_array().into_iter().flatten().enumerate() {
            let part_of = |kind: &str| json!({"type": kind, "output_index": index, "summary_index": place, "part": part});
            events.push(part_of("response.reasoning_summary_part.added"));
            events.push(piece(
                "response.reasoning_summary_text.delta",
                part["text"].as_str().unwrap(),
            ));
            events.push(part_of("response.reasoning_summary_part.done"));
        }
        for part in item["content"].as_array().into_iter().flatten() {
            events.push(
                json!({"type": "response.content_part.added", "output_index": index, "part": {"type": part["type"]}}),
            );
            match part["text"].as_str() {
                Some(text) => text
                    .chars()
                    .for_each(|c| events.push(piece("response.output_text.delta", &c.to_string()))),
                None => events.push(piece(
                    "response.refusal.delta",
                    part["refusal"].as_str().unwrap(),
                )),
            }
            events.push(
                json!({"type": "response.content_part.done", "output_index": index, "part": part}),
            );
        }
        if let Some(arguments) = item["arguments"].as_str() {
            let (head, rest) = arguments.split_at(3);
            events.push(piece("response.function_call_arguments.delta", head));
            events.push(piece("response.function_call_arguments.delta", rest));
        }
        for c in item["input"].as_str().unwrap_or_default().chars() {
            events.push(piece(
                "response.custom_tool_call_input.delta",
                &c.to_string(),
            ));
        }
        events.push(
            json!({"type": "response.output_item.done", "output_index": index, "item": item}),
        );
    }
    events.push(json!({"type": "response.completed", "response": response}));
    events
}

/// Reads events; the last line is the fault, if there is one. Pieces of one text are joined.
pub(super) fn told(events: &[Value]) -> Vec<String> {
    let mut reader = super::stream::ResponsesReader::default();
    let mut told: Vec<String> = Vec::new();
    for event in events {
        let data = event.to_string();
        let read = reader.event(b"", data.as_bytes(), &mut |event| {
            let line = format!("{event:?}");
            let opening = line.find(", \"").map(|at| at + 3);
            if let (Some(at), Some(last)) = (
                opening.filter(|_| !line.starts_with("Call")),
                told.last_mut(),
            ) && last.get(..at) == line.get(..at)
            {
                last.truncate(last.len() - 2);
                last.push_str(&line[at..]);
                return;
            }
            told.push(line);
        });
        if let Err(fault) = read {
            told.push(match fault {
                StreamFault::Upstream(error) => {
                    format!("upstream {:?} {}", error.status, error.message)
                }
                StreamFault::Broken(_) => "broken".to_owned(),
                StreamFault::Cut => "cut".to_owned(),
            });
            break;
        }
    }
    told
}

#[test]
fn a_stream_says_what_the_whole_answer_says() {
    let mut expected = whole(&response("completed")).expect("an answer");
    assert_eq!(told(&events()), expected);
    // Some servers send no pieces, or only the last event.
    let only_ends: Vec<Value> = events()
        .into_iter()
        .filter(|event| !event["type"].as_str().unwrap().ends_with(".delta"))
        .collect();
    assert_eq!(told(&only_ends), expected);
    let last = events().pop().unwrap();
    expected.remove(0);
    assert_eq!(told(&[last]), expected);
    // Some send no event for the beginning of an item.
    let no_begins: Vec<Value> = events()
        .into_iter()
        .filter(|event| !event["type"].as_str().unwrap().ends_with("_item.added"))
        .filter(|event| !event["type"].as_str().unwrap().contains("call"))
        .collect();
    assert_eq!(told(&no_begins)[1..], expected);
}

#[test]
fn pieces_of_a_call_never_go_to_another_call() {
    let item = |index: u64, id: &str| {
        json!({"type": "response.output_item.added", "output_index": index,
               "item": {"type": "function_call", "call_id": id, "name": "f", "arguments": ""}})
    };
    let piece = |index: u64| json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": "{}"});
    let done = |index: u64, id: &str| {
        json!({"type": "response.output_item.done", "output_index": index,
               "item": {"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}})
    };
    let last = |events: &[Value]| told(events).pop().unwrap();
    assert_eq!(last(&[piece(0)]), "broken");
    assert_eq!(last(&[item(0, "a"), item(0, "b")]), "broken");
    let fine = told(&[
        item(0, "a"),
        piece(0),
        item(1, "b"),
        piece(1),
        done(0, "a"),
        done(1, "b"),
    ]);
    assert_eq!(
        fine.iter()
            .filter(|line| line.starts_with("Arguments"))
            .count(),
        2
    );
    let crowd: Vec<Value> = (0..200).map(|index| item(index, "a")).collect();
    assert_eq!(last(&crowd), "broken");
}

#[test]
fn errors_inside_a_stream_end_it() {
    let begun = events().into_iter().take(8);
    let ends = |event: Value| {
        told(&begun.clone().chain([event]).collect::<Vec<_>>())
            .pop()
            .unwrap()
    };
    for (event, expected) in [
        (
            json!({"type": "error", "code": "server_error", "message": "broken", "param": null}),
            "upstream None broken",
        ),
        (
            json!({"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "slow"}}),
            "upstream Some(429) slow",
        ),
        (
            json!({"type": "response.failed", "response": {"status": "failed",
                   "error": {"code": "context_length_exceeded", "message": "long"}}}),
            "upstream Some(400) long",
        ),
        (
            json!({"type": "response.failed", "response": null}),
            "upstream None the upstream gave no reason",
        ),
        (json!({"type": "response.completed"}), "broken"),
        (
            json!({"type": "response.output_text.delta", "delta": {"text": 7}}),
            "broken",
        ),
    ] {
        assert_eq!(ends(event.clone()), expected, "{event}");
    }
    let unknown = json!({"type": "response.novel.delta", "delta": {"text": 7}});
    let quiet: Vec<Value> = begun.clone().chain([unknown]).collect();
    assert_eq!(
        told(&quiet),
        told(&begun.collect::<Vec<_>>()),
        "an event of a new kind is ignored"
    );
}

/// Reads a stream for a caller of a front door, in pieces of `size` bytes.
fn streamed(
    front: &'static Front,
    bytes: &[u8],
    size: usize,
) -> (String, Result<u64, StreamFault>) {
    let header = AnswerHeader {
        model: "mine".into(),
        id: "id_7".into(),
        created: 5,
        ..AnswerHeader::default()
    };
    let to = Recipient {
        front,
        header: &header,
        options: AnswerOptions::default(),
    };
    let mut stream = responses().stream("gpt-5", to, 1 << 20);
    let mut out = Vec::new();
    let mut fed = Ok(());
    for piece in bytes.chunks(size) {
        fed = stream.feed(piece, &mut out);
        if fed.is_err() {
            break;
        }
    }
    let ended = fed
        .and_then(|()| stream.finish(&mut out, None))
        .map(|usage| usage.completion);
    (String::from_utf8(out).expect("UTF-8"), ended)
}

#[test]
fn a_stream_cut_anywhere_is_equal_or_none() {
    let text: String = events()
        .iter()
        .map(|event| {
            format!(
                "event: {}\ndata: {event}\n\n",
                event["type"].as_str().unwrap()
            )
        })
        .collect();
    for front in [&CHAT, &MESSAGES, &GEMINI] {
        let at_once = streamed(front, text.as_bytes(), text.len());
        assert_eq!(at_once.1, Ok(20), "{front:?}");
        for size in [1, 2, 3, 7, 64] {
            assert_eq!(
                streamed(front, text.as_bytes(), size),
                at_once,
                "{front:?} {size}"
            );
        }
        // The end may come after the last byte but one: only a blank line is missing.
        for end in (1..text.len() - 2).step_by(13) {
            let (_, ended) = streamed(front, &text.as_bytes()[..end], end);
            assert!(ended.is_err(), "{front:?} {end}: {ended:?}");
        }
    }
}
