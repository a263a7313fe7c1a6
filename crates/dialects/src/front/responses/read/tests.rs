use bytes::Bytes;
use serde_json::{Value as Json, json};

use super::*;
use crate::dialect::{Dialect, Translate};
use crate::neutral::Refused;
use crate::neutral::{CallKind, Echo};
use crate::upstream::{Protocol, anthropic, openai};

/// Writes a request of these fields for an account. Returns it with the names of its losses.
#[track_caller]
fn written(protocol: &'static Protocol, fields: &Json) -> (Json, Vec<String>, Echo) {
    let mut body = fields.clone();
    body["model"] = json!("m");
    let body = Bytes::from(serde_json::to_vec_pretty(&body).unwrap());
    let envelope = crate::front::RESPONSES.envelope(&body).expect("a request");
    let job = Translate {
        default_max_tokens: Some(100),
        ..Translate::new(&body, &envelope, "m")
    };
    let outbound = Dialect::from(protocol)
        .write(&job)
        .unwrap_or_else(|why| panic!("{why:?}"));
    let names = outbound
        .losses
        .names()
        .iter()
        .map(|name| name.clone().into_owned())
        .collect();
    let echo = outbound.undo.echo.expect("an echo");
    (
        serde_json::from_slice(&outbound.body.concat()).unwrap(),
        names,
        Echo::clone(&echo),
    )
}

/// Checks a field of the request as it is written for OpenAI's servers.
#[track_caller]
fn check(fields: &Json, field: &str, expected: &Json) {
    let (body, losses, _) = written(&openai::PROTOCOL, fields);
    assert_eq!((&body[field], losses), (expected, Vec::new()), "{fields}");
}

/// Checks which names are lost. The request is still written.
#[track_caller]
fn check_lost(fields: &Json, expected: &[&str]) {
    let (_, mut losses, _) = written(&openai::PROTOCOL, fields);
    losses.sort();
    assert_eq!(losses, expected, "{fields}");
}

#[track_caller]
fn check_refused(fields: &Json, param: &str) {
    let refused = read_request(fields.to_string().as_bytes()).err();
    let found = refused.map(|refused| match refused {
        Refused::Unsupported(why) | Refused::Invalid(why) => why.param,
    });
    assert_eq!(found.as_deref(), Some(param), "{fields}");
}

fn function(name: &str) -> Json {
    json!({"type": "function", "name": name, "description": format!("Runs {name}."), "strict": false,
        "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}})
}

#[test]
fn a_text_is_a_message_and_instructions_come_first() {
    check(
        &json!({"input": "Hello"}),
        "messages",
        &json!([{"role": "user", "content": "Hello"}]),
    );
    check(
        &json!({"input": "Hello", "instructions": "Be brief."}),
        "messages",
        &json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]),
    );
}

#[test]
fn messages_have_every_kind_of_part() {
    let input = json!([
        {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"type": "message", "id": "msg_1", "status": "completed", "role": "user", "content": [
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "original"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,BBBB"},
            {"type": "input_file", "filename": "b.pdf", "file_data": "CCCC"},
            {"type": "input_audio", "input_audio": {"data": "DDDD", "format": "wav"}},
        ]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "A dot.", "annotations": []}]},
        {"role": "user", "content": "And now?"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not say."}]},
        {"role": "user", "content": [{"type": "text", "text": "Why?"}]},
    ]);
    let expected = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "high"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,BBBB"}},
            {"type": "file", "file": {"filename": "b.pdf", "file_data": "data:application/pdf;base64,CCCC"}},
            {"type": "input_audio", "input_audio": {"data": "DDDD", "format": "wav"}},
        ]},
        {"role": "assistant", "content": "A dot."},
        {"role": "user", "content": "And now?"},
        {"role": "assistant", "content": "I will not say."},
        {"role": "user", "content": "Why?"},
    ]);
    check(&json!({"input": input}), "messages", &expected);
}

#[test]
fn the_items_of_a_turn_are_one_message() {
    let input = json!([
        {"role": "user", "content": "Read both."},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": "{\"a\":\"x\"}",
            "status": "completed"},
        {"type": "function_call", "id": "fc_2", "call_id": "c2", "name": "read", "arguments": "{\"a\":\"y\"}"},
        {"type": "function_call_output", "id": "fco_1", "call_id": "c1", "output": "one"},
        {"type": "function_call_output", "call_id": "c2", "output": [
            {"type": "input_text", "text": "two"},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        ]},
        {"type": "function_call", "call_id": "c3", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c3", "output": "three"},
    ]);
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}});
    let expected = json!([
        {"role": "user", "content": "Read both."},
        {"role": "assistant", "content": "I look.",
            "tool_calls": [call("c1", r#"{"a":"x"}"#), call("c2", r#"{"a":"y"}"#)]},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "user", "content": [
            {"type": "text", "text": "The media of the result of c2:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ]},
        {"role": "assistant", "content": null, "tool_calls": [call("c3", "{}")]},
        {"role": "tool", "tool_call_id": "c3", "content": "three"},
    ]);
    check(
        &json!({"input": input, "tools": [function("read")]}),
        "messages",
        &expected,
    );

    let (body, _, _) = written(
        &anthropic::PROTOCOL,
        &json!({"input": input, "tools": [function("read")]}),
    );
    let roles: Vec<_> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| &message["role"])
        .collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
    assert_eq!(body["messages"][1]["content"][2]["id"], "c2");
    assert_eq!(body["messages"][2]["content"][1]["tool_use_id"], "c2");
}

#[test]
fn a_custom_tool_is_a_function_with_one_text() {
    let fields = json!({
        "input": [
            {"role": "user", "content": "Patch it."},
            {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** \"a\"\n+b"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
        ],
        "tools": [{"type": "custom", "name": "patch", "description": "Patches files.",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: line+"}}],
    });
    let (body, losses, echo) = written(&openai::PROTOCOL, &fields);
    assert_eq!(losses, ["tools[].format"]);
    assert_eq!(
        body["messages"][1]["tool_calls"][0],
        json!({"id": "c1", "type": "function",
            "function": {"name": "patch", "arguments": "{\"input\":\"*** \\\"a\\\"\\n+b\"}"}}),
    );
    assert_eq!(
        body["tools"][0]["function"]["description"],
        "Patches files.\n\n`input` must follow this grammar (lark):\nstart: line+"
    );
    assert_eq!(
        body["tools"][0]["function"]["parameters"]["required"],
        json!(["input"])
    );
    let [tool] = &*echo.tools else {
        panic!("{echo:?}")
    };
    assert_eq!(
        (&*tool.name, tool.kind, &tool.namespace),
        ("patch", CallKind::Custom, &None)
    );

    let (body, _, _) = written(&anthropic::PROTOCOL, &fields);
    assert_eq!(
        body["messages"][1]["content"][0]["input"],
        json!({"input": "*** \"a\"\n+b"})
    );
}

#[test]
fn tools_of_a_namespace_have_longer_names() {
    let fields = json!({
        "input": [
            {"role": "user", "content": "Start one."},
            {"type": "function_call", "call_id": "c1", "name": "spawn", "namespace": "agents", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        ],
        "tools": [
            function("spawn"),
            {"type": "namespace", "name": "agents", "description": "", "tools": [function("spawn")]},
            {"type": "namespace", "name": "functions", "description": "", "tools": [
                function("wait"), {"type": "custom", "name": "exec"},
            ]},
        ],
        "tool_choice": {"type": "function", "name": "spawn", "namespace": "agents"},
    });
    let (body, losses, echo) = written(&openai::PROTOCOL, &fields);
    assert_eq!(losses, [""; 0]);
    let names: Vec<_> = body["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].clone())
        .collect();
    assert_eq!(names, ["spawn", "agents__spawn", "wait", "exec"]);
    assert_eq!(body["tool_choice"]["function"]["name"], "agents__spawn");
    assert_eq!(
        body["messages"][1]["tool_calls"][0]["function"]["name"],
        "agents__spawn"
    );
    let tools: Vec<_> = echo
        .tools
        .iter()
        .map(|tool| (&*tool.name, &*tool.callers_name, tool.namespace.as_deref()))
        .collect();
    assert_eq!(
        tools,
        [
            ("agents__spawn", "spawn", Some("agents")),
            ("exec", "exec", None)
        ]
    );
}

#[test]
fn what_a_search_finds_can_be_called() {
    let found = json!([{"type": "namespace", "name": "agents", "description": "", "tools": [function("spawn")]}]);
    let fields = json!({
        "input": [
            {"role": "user", "content": "Start one."},
            {"type": "tool_search_call", "call_id": "c1", "execution": "client", "status": "completed",
                "arguments": {"query": "agent"}},
            {"type": "tool_search_output", "call_id": "c1", "execution": "client", "tools": found},
            {"type": "tool_search_call", "call_id": "c2", "execution": "client", "arguments": {"query": "again"}},
            {"type": "tool_search_output", "call_id": "c2", "execution": "client", "tools": found},
            {"type": "tool_search_call", "call_id": "c3", "execution": "client", "arguments": {}},
            {"type": "tool_search_output", "call_id": "c3", "execution": "client", "tools": []},
        ],
        "tools": [{"type": "tool_search", "execution": "client", "description": "Finds tools.",
            "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}],
    });
    let (body, losses, echo) = written(&openai::PROTOCOL, &fields);
    assert_eq!(losses, [""; 0]);
    let names: Vec<_> = body["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].clone())
        .collect();
    assert_eq!(names, ["tool_search", "agents__spawn"]);
    let messages = &body["messages"];
    assert_eq!(
        messages[1]["tool_calls"][0]["function"]["name"],
        "tool_search"
    );
    assert_eq!(
        messages[1]["tool_calls"][0]["function"]["arguments"],
        "{\n        \"query\": \"agent\"\n      }"
    );
    assert_eq!(
        messages[2]["content"],
        "These tools can be called now: agents__spawn"
    );
    assert_eq!(messages[6]["content"], "No tool was found.");
    assert_eq!(echo.tools[1].kind, CallKind::Search);
}

#[test]
fn tools_may_stand_in_the_conversation() {
    let fields = json!({
        "input": [
            {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [
                {"type": "namespace", "name": "functions", "description": "", "tools": [
                    {"type": "custom", "name": "exec"},
                ]},
                {"type": "namespace", "name": "clock", "description": "Time.", "tools": [function("sleep")]},
            ]},
            {"role": "user", "content": "Wait."},
        ],
        "tool_choice": "required",
        "parallel_tool_calls": false,
    });
    let (body, losses, _) = written(&openai::PROTOCOL, &fields);
    assert_eq!(losses, ["tools[].namespace.description"]);
    assert_eq!(body["tools"][1]["function"]["name"], "clock__sleep");
    assert_eq!(
        (&body["tool_choice"], &body["parallel_tool_calls"]),
        (&json!("required"), &json!(false))
    );
    assert_eq!(
        body["messages"],
        json!([{"role": "user", "content": "Wait."}])
    );
}

#[test]
fn what_is_not_needed_is_dropped_and_named() {
    let user = json!({"role": "user", "content": "Go on."});
    let with = |item: Json| json!({"input": [item, user]});
    check_lost(
        &with(
            json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "a"}],
            "content": null, "encrypted_content": "abc"}),
        ),
        &["input[].reasoning"],
    );
    check_lost(
        &with(json!({"type": "reasoning", "content": [{"type": "reasoning_text", "text": "a"}]})),
        &["input[].reasoning"],
    );
    check_lost(
        &with(json!({"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}})),
        &["input[].web_search_call"],
    );
    check_lost(
        &with(json!({"type": "mcp_list_tools", "tools": [{"name": "x", "input_schema": {}}]})),
        &["input[].mcp_list_tools"],
    );
    check_lost(
        &with(json!({"role": "assistant", "content": "a", "phase": "commentary"})),
        &["input[].phase"],
    );
    check_lost(
        &with(json!({"type": "tool_search_output", "call_id": null, "tools": [function("f")]})),
        &["input[].tool_search_output"],
    );
    let with = |fields: Json| {
        let mut fields = fields;
        fields["input"] = json!("x");
        fields
    };
    check_lost(
        &with(json!({"tools": [{"type": "web_search", "external_web_access": true}]})),
        &["tools[].web_search"],
    );
    check_lost(
        &with(json!({"tools": [{"type": "web_search_preview"}]})),
        &["tools[].web_search"],
    );
    check_lost(
        &with(json!({"tools": [{"type": "tool_search"}]})),
        &["tools[].tool_search"],
    );
    check_lost(
        &with(json!({"include": ["reasoning.encrypted_content", "message.output_text.logprobs"]})),
        &["include[].message.output_text.logprobs"],
    );
    check_lost(
        &with(
            json!({"client_metadata": {"a": "b"}, "truncation": "auto", "store": true, "odd": 1,
            "context_management": [{"type": "compaction"}], "reasoning": {"context": "all_turns"},
            "text": {"verbosity": "low"}}),
        ),
        &[
            "client_metadata",
            "context_management",
            "odd",
            "reasoning.context",
            "store",
            "text.verbosity",
            "truncation",
        ],
    );
    check_lost(
        &with(
            json!({"truncation": "disabled", "store": false, "max_tool_calls": 3, "stream_options":
            {"include_obfuscation": false}, "text": {"format": {"type": "text"}, "verbosity": "medium"},
            "background": null, "metadata": {}, "parallel_tool_calls": true, "reasoning": null, "tools": []}),
        ),
        &[],
    );
}

#[test]
fn a_clients_shell_is_a_call_and_result() {
    let input = json!([
        {"role": "user", "content": "Run."},
        {"type": "local_shell_call", "call_id": "c1", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "local_shell_call_output", "call_id": "c1", "output": "a b"},
        {"type": "shell_call", "call_id": "c2", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c2", "output": [{"stdout": "a", "stderr": ""}]},
    ]);
    let (body, losses, _) = written(&openai::PROTOCOL, &json!({"input": input}));
    assert_eq!(losses, [""; 0]);
    assert_eq!(
        body["messages"][1]["tool_calls"][0]["function"]["name"],
        "local_shell"
    );
    assert_eq!(body["messages"][2]["content"], "a b");
    assert_eq!(
        body["messages"][3]["tool_calls"][0]["function"]["name"],
        "shell"
    );
    assert!(
        body["messages"][4]["content"]
            .as_str()
            .unwrap()
            .contains("stdout")
    );
}

#[test]
fn settings_have_other_names() {
    let fields = json!({
        "input": "x", "max_output_tokens": 50, "temperature": 0.5, "top_p": 0.9, "metadata": {"a": "b"},
        "service_tier": "flex", "user": "u", "stream": true,
        "text": {"format": {"type": "json_schema", "name": "answer", "strict": true, "schema": {"type": "object"}}},
    });
    let (body, losses, _) = written(&openai::PROTOCOL, &fields);
    assert_eq!(losses, [""; 0]);
    let expected = json!({
        "model": "m", "stream": true, "max_completion_tokens": 50, "temperature": 0.5, "top_p": 0.9, "user": "u",
        "metadata": {"a": "b"}, "service_tier": "flex", "stream_options": {"include_usage": true},
        "response_format": {"type": "json_schema",
            "json_schema": {"name": "answer", "strict": true, "schema": {"type": "object"}}},
        "messages": [{"role": "user", "content": "x"}],
    });
    assert_eq!(body, expected);
    check(
        &json!({"input": "x", "text": {"format": {"type": "json_object"}}}),
        "response_format",
        &json!({"type": "json_object"}),
    );
    let (body, _, _) = written(
        &anthropic::PROTOCOL,
        &json!({"input": "x", "safety_identifier": "s", "user": "u"}),
    );
    assert_eq!(body["metadata"]["user_id"], "s");
}

#[test]
fn a_choice_names_tools_as_the_request_does() {
    let with = |choice: Json| {
        json!({"input": "x", "tool_choice": choice,
            "tools": [function("f"), {"type": "custom", "name": "g"}, {"type": "web_search"}]})
    };
    let chosen = |choice: Json| written(&openai::PROTOCOL, &with(choice)).0["tool_choice"].clone();
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    assert_eq!(chosen(json!("auto")), "auto");
    assert_eq!(chosen(json!({"type": "function", "name": "f"})), named("f"));
    assert_eq!(chosen(json!({"type": "custom", "name": "g"})), named("g"));
    assert_eq!(
        chosen(json!({"type": "allowed_tools", "mode": "required",
            "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}]})),
        json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named("f")]}}),
    );
    check_refused(
        &with(json!({"type": "function", "name": "h"})),
        "tool_choice.name",
    );
    check_refused(&with(json!({"type": "web_search"})), "tool_choice.type");
    check_refused(&with(json!("any")), "tool_choice");
    check_refused(
        &with(json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]})),
        "tool_choice.tools",
    );
    check_refused(
        &json!({"input": "x", "tools": [{"type": "web_search"}], "tool_choice": "required"}),
        "tool_choice",
    );
}

#[test]
fn what_only_openai_does_is_refused_by_place() {
    let item = |item: Json| json!({"input": [{"role": "user", "content": "x"}, item]});
    for (fields, param) in [
        (
            item(json!({"type": "item_reference", "id": "msg_1"})),
            "input[1]",
        ),
        (item(json!({"id": "msg_1"})), "input[1]"),
        (
            item(json!({"type": "compaction", "encrypted_content": "abc"})),
            "input[1]",
        ),
        (item(json!({"type": "compaction_trigger"})), "input[1]"),
        (item(json!({"type": "hologram"})), "input[1].type"),
        (item(json!({})), "input[1].type"),
        (
            item(json!({"role": "tool", "content": "x"})),
            "input[1].role",
        ),
        (
            item(json!({"role": "user", "content": 7})),
            "input[1].content",
        ),
        (
            item(json!({"role": "user", "content": [7]})),
            "input[1].content[0]",
        ),
        (
            item(json!({"role": "user", "content": [{"type": "hologram"}]})),
            "input[1].content[0].type",
        ),
        (
            item(
                json!({"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}),
            ),
            "input[1].content[0].file_id",
        ),
        (
            item(json!({"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]})),
            "input[1].content[0].file_id",
        ),
        (
            item(json!({"role": "user", "content": [{"type": "input_file"}]})),
            "input[1].content[0]",
        ),
        (
            item(json!({"type": "function_call", "name": "f", "arguments": "{}"})),
            "input[1].call_id",
        ),
        (
            item(json!({"type": "function_call", "call_id": "c", "arguments": "{}"})),
            "input[1].name",
        ),
        (
            item(json!({"type": "function_call", "call_id": "c", "name": "f"})),
            "input[1].arguments",
        ),
        (
            item(json!({"type": "function_call_output", "call_id": "c"})),
            "input[1].output",
        ),
        (
            item(json!({"type": "function_call_output", "output": "x"})),
            "input[1].call_id",
        ),
        (
            json!({"input": "x", "tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}),
            "tools[0].type",
        ),
        (
            json!({"input": "x", "tools": [{"type": "mcp", "server_label": "a", "server_url": "b"}]}),
            "tools[0].type",
        ),
        (
            json!({"input": "x", "tools": [{"type": "local_shell"}]}),
            "tools[0].type",
        ),
        (
            json!({"input": "x", "tools": [{"type": "function"}]}),
            "tools[0].name",
        ),
        (
            json!({"input": "x", "tools": [function("f"), function("f")]}),
            "tools[1].name",
        ),
        (
            json!({"input": "x", "tools": [function("a__f"),
                {"type": "namespace", "name": "a", "tools": [function("f")]}]}),
            "tools[1].name",
        ),
        (
            json!({"input": "x", "tools": [{"type": "function", "name": "f", "allowed_callers": ["program"]}]}),
            "tools[0].allowed_callers",
        ),
        (
            json!({"input": "x", "reasoning": {"effort": "huge"}}),
            "reasoning.effort",
        ),
        (
            json!({"input": "x", "text": {"format": {"type": "json_schema", "name": "x"}}}),
            "text.format.schema",
        ),
        (
            json!({"input": "x", "max_output_tokens": 0}),
            "max_output_tokens",
        ),
    ] {
        check_refused(&fields, param);
    }
}

#[test]
fn a_dialects_refusal_names_the_item() {
    let body = Bytes::from_static(
        br#"{"model":"m","instructions":"a","input":[{"role":"user","content":"x"},
            {"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]}"#,
    );
    let envelope = crate::front::RESPONSES.envelope(&body).unwrap();
    let job = Translate::new(&body, &envelope, "m");
    let refused = Dialect::from(&openai::PROTOCOL).write(&job).err();
    assert!(matches!(refused, Some(Refused::Invalid(why)) if why.param == "input[1]"));
}

#[test]
fn an_answer_repeats_the_request() {
    let fields = json!({
        "input": "x", "instructions": "Be\n\"brief\".", "max_output_tokens": 5, "metadata": {"a": "b c"},
        "tools": [function("f"), {"name": "g", "type": "function"}, {"type": "custom", "name": "h"}], "tool_choice": "auto", "text": {"verbosity": "low"}, "temperature": null,
        "reasoning": {"effort": "low", "summary": "auto"}, "user": "u", "prompt_cache_key": "k",
        "top_p": 0.5, "presence_penalty": 0.25, "service_tier": "auto",
    });
    let (_, _, echo) = written(&openai::PROTOCOL, &fields);
    assert!(echo.shows_thinking && !echo.members.contains('\n'));
    let members: Json = serde_json::from_str(&format!("{{{}}}", echo.members)).unwrap();
    let expected = json!({
        "instructions": "Be\n\"brief\".", "max_output_tokens": 5, "metadata": {"a": "b c"},
        "tools": [function("f"), {"type": "function", "name": "g", "description": null, "parameters": null, "strict": null},
            {"type": "custom", "name": "h"}],
        "tool_choice": "auto", "text": {"format": {"type": "text"}, "verbosity": "low"}, "temperature": 1,
        "top_p": 0.5, "truncation": "disabled", "parallel_tool_calls": true, "presence_penalty": 0.25,
        "frequency_penalty": 0, "top_logprobs": 0, "service_tier": "default", "max_tool_calls": null,
        "reasoning": {"effort": "low", "summary": "auto"}, "user": "u", "prompt_cache_key": "k",
        "safety_identifier": null,
    });
    assert_eq!(members, expected);
    let format = json!({"type": "json_schema", "name": "a", "schema": {"type": "object"}});
    let (_, _, echo) = written(
        &openai::PROTOCOL,
        &json!({"input": "x", "text": {"format": format}}),
    );
    let members: Json = serde_json::from_str(&format!("{{{}}}", echo.members)).unwrap();
    let filled = json!({"type": "json_schema", "name": "a", "schema": {"type": "object"}, "description": null, "strict": false});
    assert_eq!(members["text"]["format"], filled);
    let long = "x".repeat(100_000);
    let (_, _, echo) = written(
        &openai::PROTOCOL,
        &json!({"input": "x", "instructions": long}),
    );
    assert!(
        echo.members.starts_with(r#""instructions":null,"#),
        "what is long is not said three times"
    );
    for (reasoning, shows) in [
        (json!({"effort": "low"}), false),
        (json!({"summary": null}), false),
        (json!({"generate_summary": "concise"}), true),
    ] {
        let (_, _, echo) = written(
            &openai::PROTOCOL,
            &json!({"input": "x", "reasoning": reasoning}),
        );
        assert_eq!(echo.shows_thinking, shows);
    }
}

/// A client may declare a tool that it has shown before, in either order of the fields.
#[test]
fn a_tool_may_be_shown_and_declared() {
    let shown = r#"{"type":"additional_tools","tools":[{"type":"function","name":"f"}]},{"role":"user","content":"x"}"#;
    for (tool, is_read) in [
        (r#""type":"function","name":"f""#, true),
        (r#""type":"custom","name":"f""#, false),
    ] {
        for body in [
            format!(
                r#"{{"input":[{shown}],"tools":[{{{tool}}},{{"type":"function","name":"g"}}]}}"#
            ),
            format!(
                r#"{{"tools":[{{{tool}}},{{"type":"function","name":"g"}}],"input":[{shown}]}}"#
            ),
        ] {
            let request = read_request(body.as_bytes()).map(|(request, _)| request);
            let names = request.map(|request| {
                request
                    .tools
                    .into_iter()
                    .map(|tool| tool.name)
                    .collect::<Vec<_>>()
            });
            assert_eq!(
                names.ok(),
                is_read.then(|| vec!["f".into(), "g".into()]),
                "{body}"
            );
        }
    }
}

#[test]
fn users_words_before_a_result_follow_it() {
    let input = json!([
        {"role": "user", "content": "Read."},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
        {"role": "user", "content": "Quick!"},
        {"role": "user", "content": "Please."},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "function_call_output", "call_id": "c9", "output": "nobody's"},
    ]);
    let (request, _) = read_request(json!({"input": input}).to_string().as_bytes())
        .map(|(request, names)| {
            (
                request
                    .messages
                    .iter()
                    .map(|message| (message.role, message.caller_index))
                    .collect::<Vec<_>>(),
                names,
            )
        })
        .unwrap();
    let places: Vec<_> = request.iter().map(|(_, place)| place.unwrap()).collect();
    assert_eq!(places, [0, 1, 4, 5, 2, 3]);
}
