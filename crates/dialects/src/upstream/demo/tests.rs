use serde_json::{Value, json};

use super::*;

/// The message of the buffered answer, after it was compared with the stream's.
#[track_caller]
fn said(request: &Value) -> Value {
    let body = request.to_string();
    let whole = replied(body.as_bytes(), false).unwrap();
    let answer: Value = serde_json::from_slice(
        &whole
            .pieces
            .iter()
            .flat_map(|p| p.bytes.clone())
            .collect::<Vec<u8>>(),
    )
    .expect("JSON");
    let message = answer["choices"][0]["message"].clone();
    let streamed = streamed(request);
    for member in ["content", "refusal", "reasoning_content"] {
        assert_eq!(
            streamed[member].as_str(),
            message[member].as_str().unwrap_or_default().into(),
            "{member}"
        );
    }
    let calls = message["tool_calls"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let seen = streamed["tool_calls"].as_array().unwrap();
    assert_eq!(seen.len(), calls.len());
    for (index, (seen, call)) in seen.iter().zip(&calls).enumerate() {
        assert_eq!(
            (&seen["id"], &seen["function"], &seen["index"]),
            (&call["id"], &call["function"], &json!(index))
        );
    }
    assert_eq!(streamed["finish"], answer["choices"][0]["finish_reason"]);
    assert_eq!(streamed["usage"], answer["usage"]);
    let mut message = message;
    message["finish"] = answer["choices"][0]["finish_reason"].clone();
    message["usage"] = answer["usage"].clone();
    message
}

/// Returns the message that the events of a stream add up to.
fn streamed(request: &Value) -> Value {
    let reply = replied(request.to_string().as_bytes(), true).unwrap();
    let mut all = json!({"content": "", "refusal": "", "reasoning_content": "", "tool_calls": []});
    for piece in &reply.pieces {
        let text = str::from_utf8(&piece.bytes).unwrap();
        let events = text
            .split("\n\n")
            .filter_map(|event| event.strip_prefix("data: "));
        for data in events.filter(|data| *data != "[DONE]") {
            let chunk: Value = serde_json::from_str(data).unwrap();
            for member in ["content", "refusal", "reasoning_content"] {
                let more = chunk["choices"][0]["delta"][member]
                    .as_str()
                    .unwrap_or_default();
                all[member] = format!("{}{more}", all[member].as_str().unwrap()).into();
            }
            let calls = chunk["choices"][0]["delta"]["tool_calls"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let known = all["tool_calls"].as_array_mut().unwrap();
            for call in calls {
                match known
                    .iter_mut()
                    .find(|known| known["index"] == call["index"])
                {
                    Some(known) => {
                        known["function"]["arguments"] = call["function"]["arguments"].clone()
                    }
                    None => known.push(call),
                }
            }
            if let Some(reason) = chunk["choices"][0]["finish_reason"].as_str() {
                all["finish"] = reason.into();
            }
            if chunk["usage"].is_object() {
                all["usage"] = chunk["usage"].clone();
            }
        }
    }
    all
}

fn tool(name: &str) -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}, "unit": {"enum": ["C", "F"]}}, "required": ["city"]});
    json!({"type": "function", "function": {"name": name, "parameters": parameters}})
}

/// Asks with these tools. Returns the names of the called ones.
fn called(words: &Value, tools: &[&str], more: &Value) -> Vec<String> {
    let tools: Vec<_> = tools.iter().map(|name| tool(name)).collect();
    let mut request =
        json!({"model": "demo", "messages": [{"role": "user", "content": words}], "tools": tools});
    request
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let said = said(&request);
    let calls = said["tool_calls"].as_array().cloned().unwrap_or_default();
    assert_eq!(said["finish"] == "tool_calls", !calls.is_empty(), "{said}");
    for call in &calls {
        let arguments: Value =
            serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
        assert!(
            arguments["city"].is_string() && arguments.as_object().unwrap().len() == 1,
            "{arguments}"
        );
    }
    let ids: std::collections::BTreeSet<_> = calls
        .iter()
        .map(|call| call["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), calls.len());
    calls
        .iter()
        .map(|call| call["function"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The tools of an agent.
const AGENT: [&str; 6] = [
    "Bash",
    "Read",
    "Write",
    "list_directory",
    "run_shell_command",
    "web_fetch",
];

/// The answer to a conversation.
fn replied(body: &[u8], stream: bool) -> Option<Reply> {
    demo_reply("/chat/completions", body, body.len(), stream)
}

#[test]
fn a_tool_is_called_where_words_ask() {
    let none = json!({});
    for (words, expected) in [
        ("hello", &[][..]),
        // A name that is a word of the language is none.
        ("Read the file, Write a poem, run Bash", &[]),
        ("call Read", &["Read"]),
        ("Use the Read tool.", &["Read"]),
        ("list_directory please", &["list_directory"]),
        ("use a tool", &["Read"]),
        ("use tools in parallel", &["Read", "list_directory"]),
        ("call Bash", &["Bash"]),
        (
            "call Read and web_fetch, in Parallel",
            &["Read", "web_fetch"],
        ),
        ("call Read and web_fetch", &["Read"]),
        ("run_shell_command", &["run_shell_command"]),
    ] {
        assert_eq!(called(&json!(words), &AGENT, &none), expected, "{words}");
    }
    // A user who does not know how to ask gets a hint.
    let tools = AGENT.map(tool);
    let plain = said(&json!({"messages": [{"role": "user", "content": "hello"}], "tools": tools}));
    assert!(
        plain["content"]
            .as_str()
            .unwrap()
            .contains("6 tools: write \"call Read\""),
        "{plain}"
    );
    // Few tools are there to be tried; but none that runs commands.
    assert_eq!(
        called(&json!("What is the weather?"), &["get_weather"], &none),
        ["get_weather"]
    );
    assert_eq!(
        called(&json!("Both, in parallel"), &["get_weather"], &none),
        ["get_weather", "get_weather"]
    );
    assert_eq!(
        called(&json!("hello"), &["local_shell", "exec"], &none),
        [""; 0]
    );
    // A tool whose name does not show that it reads is not called unless it is named.
    for name in
        "move_file git_commit transfer_money upload click set_config Task rename prune getaway"
            .split(' ')
    {
        assert_eq!(
            called(&json!("use a tool"), &[name], &none),
            [""; 0],
            "{name}"
        );
        assert_eq!(
            called(&json!(format!("call {name}")), &[name], &none),
            [name]
        );
    }
    for name in ["get_zipcode", "listFiles", "Read", "search", "time-now"] {
        assert_eq!(called(&json!("hello"), &[name], &none), [name]);
    }
    // A question suggests a tool by the words of its name.
    let question = json!("What's the weather like in San Francisco?");
    for (tools, expected) in [
        (&["get_weather"][..], "get_weather"),
        (&["get_time", "getWeather"], "getWeather"),
        (
            &[
                "Bash",
                "Read",
                "Write",
                "web_fetch",
                "get_time",
                "get_weather",
            ],
            "get_weather",
        ),
        (
            &[
                "Bash",
                "Read",
                "Write",
                "web_fetch",
                "get_current_time",
                "weather",
            ],
            "weather",
        ),
    ] {
        assert_eq!(called(&question, tools, &none), [expected], "{tools:?}");
    }
    assert_eq!(
        called(
            &json!("The weather is nice."),
            &[&AGENT[..], &["get_weather"]].concat(),
            &none
        ),
        [""; 0]
    );
    assert_eq!(
        called(&question, &[&AGENT[..], &["set_weather"]].concat(), &none),
        [""; 0]
    );
    // An agent's texts next to the user's words are not the user's.
    let parts = json!([
        {"type": "text", "text": "<system-reminder>Use the Read tool.</system-reminder>"},
        {"type": "text", "text": "hello"},
        {"type": "text", "text": " <context>call Read</context>"},
    ]);
    assert_eq!(called(&parts, &AGENT, &none), [""; 0]);
}

#[test]
fn the_choice_of_the_request_holds() {
    let named = json!({"tool_choice": {"type": "function", "function": {"name": "Bash"}}});
    assert_eq!(called(&json!("hello"), &AGENT, &named), ["Bash"]);
    assert_eq!(
        called(&json!("hello"), &AGENT, &json!({"tool_choice": "required"})),
        ["Read"]
    );
    assert_eq!(
        called(&json!("call Read"), &AGENT, &json!({"tool_choice": "none"})),
        [""; 0]
    );
    assert_eq!(
        called(
            &json!("in parallel"),
            &["get"],
            &json!({"parallel_tool_calls": false})
        ),
        ["get"]
    );
    // A call that must be made, with no tool that only reads.
    let must = json!({"tool_choice": "required"});
    assert_eq!(
        called(&json!("hello"), &["local_shell", "transfer_money"], &must),
        ["transfer_money"]
    );
    assert_eq!(
        called(
            &json!("hello"),
            &["local_shell", "runInTerminal", "execCommand"],
            &must
        ),
        [""; 0]
    );
    assert_eq!(
        called(&json!("hello"), &["bash", "a", "b", "c", "d"], &must),
        [""; 0]
    );
}

#[test]
fn after_results_comes_text_that_cites_the_first() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "get_weather", "arguments": "{}"}});
    let mut request = json!({"model": "demo", "tools": [tool("get_weather")], "tool_choice": "required", "messages": [
        {"role": "user", "content": "in parallel"},
        {"role": "assistant", "content": null, "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "a", "content": format!("It \"rains\". {}", "x".repeat(200))},
        {"role": "tool", "tool_call_id": "b", "content": "no"},
        {"role": "user", "content": "call get_weather"},
    ]});
    let text = said(&request)["content"].as_str().unwrap().to_owned();
    assert!(
        text.contains("begins with \"It \\\"rains\\\". xxx") && text.contains("1 more"),
        "{text}"
    );
    assert!(text.len() < 200, "{text}");
    // The next turn may call again.
    let messages = request["messages"].as_array_mut().unwrap();
    messages.extend([
        json!({"role": "assistant", "content": text}),
        json!({"role": "user", "content": "again"}),
    ]);
    assert_eq!(said(&request)["finish"], "tool_calls");
}

#[test]
fn a_schema_gets_an_allowed_value_or_declines() {
    let ask = |format: Value| {
        said(&json!({"messages": [{"role": "user", "content": "x"}], "response_format": format}))
    };
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]});
    let answer =
        ask(json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}));
    assert_eq!(answer["content"], "{\"n\":3}");
    let any = ask(json!({"type": "json_object"}));
    assert!(
        serde_json::from_str::<Value>(any["content"].as_str().unwrap())
            .unwrap()
            .is_object()
    );
    let hard = json!({"type": "object", "not": {}});
    let declined =
        ask(json!({"type": "json_schema", "json_schema": {"name": "a", "schema": hard}}));
    assert!(
        declined["content"] == "" && declined["refusal"].is_string(),
        "{declined}"
    );
}

#[test]
fn thinking_usage_and_the_most_tokens_are_as_asked() {
    let message =
        json!([{"role": "system", "content": "one two"}, {"role": "user", "content": "three"}]);
    let plain = said(&json!({"model": "demo", "messages": message}));
    let words = |text: &Value| text.as_str().unwrap_or_default().split_whitespace().count();
    assert!(plain["reasoning_content"].is_null());
    assert!(
        plain["content"]
            .as_str()
            .unwrap()
            .contains("The request had 2 messages."),
        "{plain}"
    );
    assert_eq!(
        (
            &plain["usage"]["prompt_tokens"],
            &plain["usage"]["completion_tokens"]
        ),
        (&json!(3), &json!(words(&plain["content"])))
    );
    let thinking = said(&json!({"model": "demo", "messages": message, "reasoning_effort": "low"}));
    let thought = words(&thinking["reasoning_content"]);
    assert!(
        thought > 5
            && thinking["usage"]["completion_tokens_details"]["reasoning_tokens"] == thought
    );
    assert_eq!(
        thinking["usage"]["completion_tokens"],
        thought + words(&thinking["content"])
    );
    let cut = said(&json!({"model": "demo", "messages": message, "max_tokens": 3}));
    assert_eq!(
        (words(&cut["content"]), &cut["finish"]),
        (3, &json!("length"))
    );
    let none = said(&json!({"model": "demo", "messages": message, "reasoning_effort": "none"}));
    assert!(none["reasoning_content"].is_null());
}

#[test]
fn nonsense_is_answered_and_some_models_fail() {
    for body in [
        &b"nonsense"[..],
        br#"{"messages":"x"}"#,
        br#"{"messages":[{}]}"#,
        b"",
    ] {
        for stream in [false, true] {
            let reply = replied(body, stream).unwrap();
            assert!(reply.status == 200 && !reply.breaks && !reply.pieces.is_empty());
        }
    }
    let ask = |model: &str, stream| {
        replied(
            json!({"model": model, "messages": [{"role": "user", "content": "x"}]})
                .to_string()
                .as_bytes(),
            stream,
        )
    };
    let length = |reply: &Reply| {
        reply
            .pieces
            .iter()
            .map(|piece| piece.bytes.len())
            .sum::<usize>()
    };
    for stream in [false, true] {
        assert_eq!(ask("demo-down", stream), None);
        let busy = ask("demo-429", stream).unwrap();
        assert_eq!(
            (busy.status, busy.retry_after, busy.content_type),
            (429, Some(RETRY_AFTER), "application/json")
        );
        let (broken, sound) = (
            ask("demo-broken", stream).unwrap(),
            ask("demo", stream).unwrap(),
        );
        assert!(broken.breaks && length(&broken) > 0 && length(&broken) < length(&sound));
        assert_eq!(ask("demo-slow", stream).unwrap().pieces[0].pause, SLOW);
        assert_eq!(sound.pieces[0].pause, Duration::ZERO);
    }
}

#[test]
fn long_names_and_long_answers_stay_small() {
    let long = "é".repeat(100_000);
    let request = |words: &str| {
        json!({"messages": [{"role": "user", "content": words}], "tools": [{"type": "function",
        "function": {"name": long, "parameters": {"type": "object", "required": ["a"], "properties": {"a": {"not": {}}}}}}]})
    };
    for words in ["hello", &format!("call {long}")] {
        let text = said(&request(words))["content"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            text.contains(&"é".repeat(64)) && text.len() < 600,
            "{}",
            text.len()
        );
    }
    let words = "a ".repeat(2_000);
    let schema =
        json!({"type": "json_schema", "json_schema": {"name": "a", "schema": {"const": words}}});
    let asked = json!({"messages": [{"role": "user", "content": "x"}], "response_format": schema});
    assert_eq!(said(&asked)["content"], json!(words).to_string());
    assert!(
        replied(asked.to_string().as_bytes(), true)
            .unwrap()
            .pieces
            .len()
            < 210
    );
}

fn function(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}})
}

#[test]
fn a_tool_is_known_by_its_last_part() {
    for name in [
        "W-get_weather",
        "mcp__w__get_weather",
        "weather.get_weather",
    ] {
        let tools = [function("W-set_weather"), function(name)];
        let asked = json!({"messages": [{"role": "user", "content": "What is the weather like?"}], "tools": tools});
        assert_eq!(said(&asked)["tool_calls"][0]["function"]["name"], *name);
    }
}

#[test]
fn a_conversation_is_handed_over_once_and_then_answered() {
    let handed = json!({"id": "c", "type": "function", "function": {"name": "transfer_to_weather_agent", "arguments": "{}"}});
    let user = json!({"role": "user", "content": "What is the weather like?"});
    let first = json!({"messages": [user], "tools": [function("transfer_to_weather_agent")]});
    assert_eq!(
        said(&first)["tool_calls"][0]["function"]["name"],
        "transfer_to_weather_agent"
    );
    let so_far = json!([user, {"role": "assistant", "tool_calls": [handed]},
        {"role": "tool", "tool_call_id": "c", "content": "{\"assistant\": \"weather_agent\"}"}]);
    let tools = [
        function("transfer_to_triage_agent"),
        function("get_weather"),
    ];
    let then = said(&json!({"messages": so_far, "tools": tools}));
    assert_eq!(then["tool_calls"][0]["function"]["name"], "get_weather");
    let back = said(&json!({"messages": so_far, "tools": [function("transfer_to_triage_agent")]}));
    assert_eq!(back["tool_calls"], Value::Null, "it is not handed back");
}
