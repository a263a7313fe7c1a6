//! Requests of callers of Messages, as a server of OpenAI's gets them.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{Dialect, Outbound};
use crate::front::MESSAGES;
use crate::neutral::Refused;
use crate::neutral::traits::{Sampling, Thinking, Traits};
use crate::upstream::openai::PROTOCOL;
use crate::{Settings, Translate};

/// Returns a request with these members and the members that every request has.
fn asked(members: &Value) -> Bytes {
    let mut body =
        json!({"model": "fast", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut()
        .unwrap()
        .extend(members.as_object().unwrap().clone());
    Bytes::from(body.to_string())
}

fn outbound(model: &str, traits: Traits, members: &Value) -> Result<Outbound, Refused> {
    let body = asked(members);
    let envelope = MESSAGES.envelope(&body).unwrap();
    Dialect::from(&PROTOCOL).write(&Translate {
        traits,
        ..Translate::new(&body, &envelope, model)
    })
}

/// Returns the body that the server gets, without the members of every request, and the losses.
fn sent(model: &str, traits: Traits, members: &Value) -> (Value, Vec<String>) {
    let outbound =
        outbound(model, traits, members).unwrap_or_else(|why| panic!("{members}\n{why:?}"));
    let body: Value = serde_json::from_slice(&outbound.body.concat()).unwrap();
    (
        body,
        outbound
            .losses
            .names()
            .iter()
            .map(|name| name.to_string())
            .collect(),
    )
}

/// Checks the members of the server's request for these members of the caller's, and the losses.
#[track_caller]
fn check_for(model: &str, traits: Traits, members: Value, expected: Value, lost: &[&str]) {
    let (mut body, losses) = sent(model, traits, &members);
    let all = body.as_object_mut().unwrap();
    assert_eq!(all.remove("model").unwrap(), model);
    if members.get("messages").is_none() && members.get("system").is_none() {
        assert_eq!(
            all.remove("messages").unwrap(),
            json!([{"role": "user", "content": "hi"}])
        );
    }
    if expected.get("max_completion_tokens").is_none() {
        assert_eq!(all.remove("max_completion_tokens"), Some(json!(9)));
    }
    assert_eq!(body, expected, "{members}");
    assert_eq!(losses, lost, "{members}");
}

#[track_caller]
fn check(members: Value, expected: Value, lost: &[&str]) {
    check_for("gpt-x", Traits::UNKNOWN, members, expected, lost);
}

#[track_caller]
fn check_messages(members: Value, expected: Value, lost: &[&str]) {
    let (body, losses) = sent("gpt-x", Traits::UNKNOWN, &members);
    assert_eq!(body["messages"], expected, "{members}");
    assert_eq!(losses, lost, "{members}");
}

#[track_caller]
fn check_refused(members: Value, path: &str, words: &str) {
    match outbound("gpt-x", Traits::UNKNOWN, &members) {
        Err(Refused::Unsupported(why) | Refused::Invalid(why)) => {
            assert_eq!(why.param, path, "{members}");
            assert!(why.message.contains(words), "{}", why.message);
        }
        Ok(sent) => panic!("{}", String::from_utf8_lossy(&sent.body.concat())),
    }
}

const PNG: &str = "iVBORw0KGgoAAAAN";

fn image(source: Value) -> Value {
    json!({"type": "image", "source": source})
}

fn base64(media_type: &str, data: &str) -> Value {
    json!({"type": "base64", "media_type": media_type, "data": data})
}

fn data_url(url: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn called(ids: &[&str]) -> Value {
    let call = |id: &&str| json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
    json!({"role": "assistant", "content": ids.iter().map(call).collect::<Vec<_>>()})
}

fn calls(ids: &[&str]) -> Value {
    let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    json!({"role": "assistant", "content": null, "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
}

#[test]
fn every_setting_is_said_as_openai_says_it() {
    for (members, expected, lost) in [
        (json!({}), json!({}), &[][..]),
        (
            json!({"max_tokens": 128_000}),
            json!({"max_completion_tokens": 128_000}),
            &[],
        ),
        (
            json!({"stream": true}),
            json!({"stream": true, "stream_options": {"include_usage": true}}),
            &[],
        ),
        (
            json!({"temperature": 0.5, "top_p": 0.25}),
            json!({"temperature": 0.5, "top_p": 0.25}),
            &[],
        ),
        (json!({"top_k": 40}), json!({}), &["top_k"]),
        (
            json!({"stop_sequences": ["a", "b", "c", "d"]}),
            json!({"stop": ["a", "b", "c", "d"]}),
            &[],
        ),
        (
            json!({"stop_sequences": ["a", "b", "c", "d", "e"]}),
            json!({"stop": ["a", "b", "c", "d"]}),
            &["stop_sequences"],
        ),
        (
            json!({"metadata": {"user_id": "u"}}),
            json!({"user": "u"}),
            &[],
        ),
        (
            json!({"metadata": {"user_id": "u".repeat(64)}}),
            json!({"user": "u".repeat(64)}),
            &[],
        ),
        (
            json!({"metadata": {"user_id": "u".repeat(65)}}),
            json!({}),
            &["metadata.user_id"],
        ),
        (json!({"service_tier": "auto"}), json!({}), &[]),
        (
            json!({"service_tier": "standard_only"}),
            json!({}),
            &["service_tier"],
        ),
        (
            json!({"context_management": {"edits": [1]}, "inference_geo": "eu"}),
            json!({}),
            &["context_management", "inference_geo"],
        ),
        (
            json!({"tools": [], "tool_choice": {"type": "auto"}}),
            json!({}),
            &[],
        ),
    ] {
        check(members, expected, lost);
    }
}

#[test]
fn a_maximum_above_the_models_is_the_models() {
    let traits = Traits {
        max_output: Some(4096),
        ..Traits::UNKNOWN
    };
    check_for(
        "gpt-x",
        traits,
        json!({"max_tokens": 128_000}),
        json!({"max_completion_tokens": 4096}),
        &["max_tokens"],
    );
    check_for(
        "gpt-x",
        traits,
        json!({"max_tokens": 4096}),
        json!({"max_completion_tokens": 4096}),
        &[],
    );
    // Of OpenAI's own models the maximum is known.
    for (model, most) in [
        ("gpt-4o-mini", 16_384),
        ("openai/gpt-4.1", 32_768),
        ("o3-mini", 100_000),
    ] {
        let (asked, expected) = (
            json!({"max_tokens": 128_000}),
            json!({"max_completion_tokens": most}),
        );
        check_for(model, Traits::UNKNOWN, asked, expected, &["max_tokens"]);
    }
}

#[test]
fn what_the_model_does_not_take_is_left_out() {
    let sampling = |sampling| Traits {
        sampling,
        ..Traits::UNKNOWN
    };
    let both = || json!({"temperature": 0.5, "top_p": 0.25});
    check_for(
        "gpt-x",
        sampling(Sampling::One),
        both(),
        json!({"temperature": 0.5}),
        &["top_p"],
    );
    check_for(
        "gpt-x",
        sampling(Sampling::Neither),
        both(),
        json!({}),
        &["temperature", "top_p"],
    );
}

#[test]
fn thinking_is_an_effort_for_models_that_think() {
    let effort = |effort: &str| json!({"output_config": {"effort": effort}});
    let budget = |tokens: u64| json!({"thinking": {"type": "enabled", "budget_tokens": tokens}});
    let says = |effort: &str| json!({"reasoning_effort": effort});
    for word in ["low", "medium", "high", "xhigh", "max"] {
        check_for("gpt-5", Traits::UNKNOWN, effort(word), says(word), &[]);
    }
    for (tokens, word) in [
        (1024, "low"),
        (4096, "medium"),
        (8192, "medium"),
        (16_000, "high"),
        (31_999, "xhigh"),
        (99_999, "max"),
    ] {
        check_for(
            "o3-mini",
            Traits::UNKNOWN,
            budget(tokens),
            says(word),
            &["thinking.budget_tokens"],
        );
    }
    check_for(
        "gpt-5",
        Traits::UNKNOWN,
        json!({"thinking": {"type": "disabled"}}),
        says("none"),
        &[],
    );
    // Thinking as the model likes: no word expresses that, but a word for the effort goes with it.
    for kind in ["adaptive", "between_tools"] {
        let adaptive = || json!({"thinking": {"type": kind, "display": "omitted"}});
        let mut with_effort = adaptive();
        with_effort["output_config"] = json!({"effort": "high"});
        check_for(
            "gpt-5",
            Traits::UNKNOWN,
            adaptive(),
            json!({}),
            &["thinking"],
        );
        check_for(
            "gpt-5",
            Traits::UNKNOWN,
            with_effort.clone(),
            says("high"),
            &[],
        );
        check_for(
            "gpt-4o",
            Traits::UNKNOWN,
            with_effort,
            json!({}),
            &["output_config.effort"],
        );
    }
    // A server that knows no effort would refuse the request.
    for model in ["gpt-4o", "mistral-large", "gpt-5-chat-latest"] {
        check_for(
            model,
            Traits::UNKNOWN,
            effort("high"),
            json!({}),
            &["output_config.effort"],
        );
        check_for(
            model,
            Traits::UNKNOWN,
            json!({"thinking": {"type": "disabled"}}),
            json!({}),
            &[],
        );
    }
    let thinks = |thinking| Traits {
        thinking,
        ..Traits::UNKNOWN
    };
    check_for(
        "mine",
        thinks(Thinking::Effort),
        effort("low"),
        says("low"),
        &[],
    );
    check_for(
        "gpt-5",
        thinks(Thinking::None),
        effort("low"),
        json!({}),
        &["output_config.effort"],
    );
    check_for(
        "openai/gpt-oss-120b",
        Traits::UNKNOWN,
        effort("low"),
        says("low"),
        &[],
    );
}

#[test]
fn the_format_is_a_schema_with_a_name() {
    let schema = json!({"type": "object", "properties": {"title": {"type": "string"}}, "additionalProperties": false});
    let asked = json!({"type": "json_schema", "schema": schema});
    let expected = json!({"response_format": {"type": "json_schema", "json_schema": {"name": "output", "schema": schema, "strict": true}}});
    check(
        json!({"output_config": {"format": asked}}),
        expected.clone(),
        &[],
    );
    check(json!({"output_format": asked}), expected, &[]);
    let loose = Traits {
        structured: false,
        ..Traits::UNKNOWN
    };
    let refused = outbound("gpt-x", loose, &json!({"output_format": asked})).err();
    assert!(matches!(refused, Some(Refused::Unsupported(why)) if why.param == "output_format"));
}

#[test]
fn tools_are_functions_and_schemas_stay_as_they_are() {
    let schema = r#"{"type":"object","$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"n":{"type":"integer","exclusiveMinimum":0,"maximum":9007199254740991}}}"#;
    let text = format!(
        r#"{{"model":"m","max_tokens":9,"messages":[{{"role":"user","content":"x"}}],"tools":[{{"name":"f","description":"d","input_schema":{schema},"strict":true}},{{"name":"g"}}]}}"#
    );
    let body = Bytes::from(text);
    let envelope = MESSAGES.envelope(&body).unwrap();
    let job = Translate::new(&body, &envelope, "m");
    let sent =
        String::from_utf8(Dialect::from(&PROTOCOL).write(&job).unwrap().body.concat()).unwrap();
    let expected = format!(
        r#""tools":[{{"type":"function","function":{{"name":"f","description":"d","parameters":{schema},"strict":true}}}},{{"type":"function","function":{{"name":"g"}}}}]"#
    );
    assert!(sent.contains(&expected), "{sent}");
}

#[test]
fn a_choice_of_tools_has_openais_words() {
    let tools = json!([{"name": "f", "input_schema": {}}]);
    let functions = json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
    for (choice, expected, parallel) in [
        (json!({"type": "auto"}), json!("auto"), None),
        (json!({"type": "any"}), json!("required"), None),
        (json!({"type": "none"}), json!("none"), None),
        (
            json!({"type": "tool", "name": "f"}),
            json!({"type": "function", "function": {"name": "f"}}),
            None,
        ),
        (
            json!({"type": "auto", "disable_parallel_tool_use": true}),
            json!("auto"),
            Some(false),
        ),
        (
            json!({"type": "any", "disable_parallel_tool_use": false}),
            json!("required"),
            Some(true),
        ),
    ] {
        let mut sent = json!({"tools": functions, "tool_choice": expected});
        if let Some(parallel) = parallel {
            sent["parallel_tool_calls"] = parallel.into();
        }
        check(json!({"tools": tools, "tool_choice": choice}), sent, &[]);
    }
}

/// Names that OpenAI does not take are others on the way, and their own again in the answer.
#[test]
fn names_are_made_to_fit_wherever_they_stand() {
    let members = json!({
        "tools": [{"name": "look.up", "input_schema": {}}, {"name": "look_up", "input_schema": {}}],
        "tool_choice": {"type": "tool", "name": "look.up"},
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look.up", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "r"}]},
        ],
    });
    let outbound = outbound("gpt-x", Traits::UNKNOWN, &members).unwrap();
    let body: Value = serde_json::from_slice(&outbound.body.concat()).unwrap();
    let name = body["tools"][0]["function"]["name"].as_str().unwrap();
    assert!(name != "look.up" && name != "look_up", "{name}");
    assert_eq!(body["tools"][1]["function"]["name"], "look_up");
    assert_eq!(body["tool_choice"]["function"]["name"], name);
    assert_eq!(
        body["messages"][1]["tool_calls"][0]["function"]["name"],
        name
    );
    assert_eq!(
        outbound.undo.names,
        [(name.to_owned(), "look.up".to_owned())]
    );
}

#[test]
fn messages_keep_their_places() {
    check_messages(
        json!({
            "system": [{"type": "text", "text": "One.", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "Two."}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "a"}]},
                {"role": "system", "content": "Three."},
                {"role": "assistant", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
                {"role": "user", "content": [{"type": "text", "text": "d"}, {"type": "text", "text": "e"}]},
                {"role": "user", "content": []},
            ],
        }),
        json!([
            {"role": "system", "content": "One.\n\nTwo."},
            {"role": "user", "content": "a"},
            {"role": "system", "content": "Three."},
            {"role": "assistant", "content": "b\n\nc"},
            {"role": "user", "content": [{"type": "text", "text": "d"}, {"type": "text", "text": "e"}]},
            {"role": "user", "content": ""},
        ]),
        &["cache_control"],
    );
}

#[test]
fn media_are_data_urls() {
    check_messages(
        json!({"messages": [{"role": "user", "content": [
            {"type": "text", "text": "see"},
            image(base64("image/png", PNG)),
            image(json!({"type": "url", "url": "https://example.com/a.png"})),
            {"type": "document", "title": "a.pdf", "source": base64("application/pdf", "JVBERi0x")},
            {"type": "document", "source": base64("application/pdf", "JVBERi0y")},
            {"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}},
        ]}]}),
        json!([{"role": "user", "content": [
            {"type": "text", "text": "see"},
            data_url(&format!("data:image/png;base64,{PNG}")),
            data_url("https://example.com/a.png"),
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0x"}},
            {"type": "file", "file": {"filename": "file", "file_data": "data:application/pdf;base64,JVBERi0y"}},
            {"type": "text", "text": "T"},
            {"type": "text", "text": "plain"},
        ]}]),
        &[],
    );
    let user = |block: Value| json!({"system": "s", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, block]}]});
    let document = |source: Value| json!({"type": "document", "source": source});
    check_refused(
        user(image(json!({"type": "file", "file_id": "f"}))),
        "messages[0].content",
        "uploaded to another",
    );
    check_refused(
        user(document(json!({"type": "file", "file_id": "f"}))),
        "messages[0].content",
        "uploaded to another",
    );
    check_refused(
        user(document(json!({"type": "url", "url": "https://x/y"}))),
        "messages[0].content",
        "fetches no files",
    );
    let blind = Traits {
        images: false,
        ..Traits::UNKNOWN
    };
    let refused = outbound("gpt-x", blind, &user(image(base64("image/png", PNG)))).err();
    assert!(
        matches!(refused, Some(Refused::Unsupported(why)) if why.param == "messages[0].content")
    );
}

#[test]
fn results_are_messages_and_the_user_shows_their_media() {
    let result = |id: &str, content: Value| json!({"type": "tool_result", "tool_use_id": id, "content": content});
    let tool = |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    let shows = |parts: &[Value]| {
        let word = json!({"type": "text", "text": "The media of the result of a:"});
        json!({"role": "user", "content": ([&[word], parts].concat())})
    };
    check_messages(
        json!({"messages": [
            {"role": "user", "content": "x"},
            called(&["a", "b", "c", "d"]),
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "d", "is_error": true, "content": "no file"},
                result("a", json!([{"type": "text", "text": "a red square"}, image(base64("image/png", PNG))])),
                result("b", json!(null)),
                result("c", json!([{"type": "tool_reference", "tool_name": "later"}, {"type": "text", "text": "and more"}])),
                {"type": "text", "text": "Go on."},
            ]},
            {"role": "system", "content": "s"},
        ]}),
        json!([
            {"role": "user", "content": "x"},
            calls(&["a", "b", "c", "d"]),
            tool("d", "Error: no file"),
            tool("a", "a red square"),
            tool("b", ""),
            tool("c", "Tool later is now available.\n\nand more"),
            shows(&[data_url(&format!("data:image/png;base64,{PNG}"))]),
            {"role": "user", "content": "Go on."},
            {"role": "system", "content": "s"},
        ]),
        &[],
    );
    // At the end of the conversation, too; and where the last result is lost but for its call.
    check_messages(
        json!({"messages": [
            {"role": "user", "content": "x"},
            called(&["a"]),
            {"role": "user", "content": [result("a", json!([image(base64("image/png", PNG)), {"type": "browser_state"}]))]},
        ]}),
        json!([
            {"role": "user", "content": "x"},
            calls(&["a"]),
            tool("a", ""),
            shows(&[data_url(&format!("data:image/png;base64,{PNG}"))]),
        ]),
        &["messages[].content[].content[].browser_state"],
    );
}

#[test]
fn thoughts_are_not_sent_and_are_named() {
    check_messages(
        json!({"messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "r"},
                {"type": "text", "text": "y"},
                {"type": "tool_use", "id": "a", "name": "f", "input": {"n": 1}},
            ]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "r"}]},
        ]}),
        json!([
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": "y", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"n\":1}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "r"},
        ]),
        &["messages[].content[].thinking"],
    );
}

#[test]
fn a_call_without_its_result_is_refused() {
    check_refused(
        json!({"messages": [{"role": "user", "content": "x"}, called(&["a", "b"]),
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "r"}]}]}),
        "messages[1].content",
        "One call has no answer",
    );
    let deaf = Traits {
        tools: false,
        ..Traits::UNKNOWN
    };
    let refused = outbound(
        "gpt-x",
        deaf,
        &json!({"tools": [{"name": "f", "input_schema": {}}]}),
    )
    .err();
    assert!(matches!(refused, Some(Refused::Unsupported(why)) if why.param == "tools"));
}

/// Fields that a server's quirks remove or refuse have the names of the caller's format.
#[test]
fn untaken_fields_are_named_in_callers_words() {
    use crate::upstream::quirks;
    let body = asked(&json!({
        "metadata": {"user_id": "u"},
        "stop_sequences": ["a"],
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}},
        "tools": [{"name": "f", "input_schema": {}, "strict": true}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
    }));
    let envelope = MESSAGES.envelope(&body).unwrap();
    let named = quirks::ALL.iter().map(|quirks| {
        let settings = Settings {
            quirks,
            ..Settings::NONE
        };
        let outbound =
            Dialect::new(&PROTOCOL, settings).write(&Translate::new(&body, &envelope, "gpt-5"));
        let words = match outbound {
            Ok(outbound) => outbound.losses.names().join(" "),
            Err(Refused::Unsupported(why) | Refused::Invalid(why)) => {
                format!("refused {}", why.param)
            }
        };
        format!("{}: {words}", quirks.name)
    });
    assert_eq!(
        named
            .filter(|line| !line.ends_with(": "))
            .collect::<Vec<_>>(),
        [
            "mistral: metadata.user_id",
            "deepseek: refused output_config.format",
            "perplexity: refused tools",
            "ollama: tool_choice.disable_parallel_tool_use",
        ]
    );
}

/// A message of the caller's may be several of the server's.
#[test]
fn an_unfetchable_picture_is_refused_in_the_callers_message() {
    let body = asked(&json!({"system": "s", "messages": [
        {"role": "user", "content": "x"},
        called(&["a", "b"]),
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "r"},
            {"type": "tool_result", "tool_use_id": "b", "content": "r"},
            {"type": "text", "text": "see"},
            image(json!({"type": "url", "url": "https://example.com/a.png"})),
        ]},
    ]}));
    let envelope = MESSAGES.envelope(&body).unwrap();
    let settings = Settings {
        quirks: &crate::upstream::quirks::OLLAMA,
        ..Settings::NONE
    };
    let refused = Dialect::new(&PROTOCOL, settings).write(&Translate::new(&body, &envelope, "m"));
    let Some(Refused::Unsupported(why)) = refused.err() else {
        panic!("it is sent")
    };
    assert_eq!(why.param, "messages[2].content", "{}", why.message);
}
