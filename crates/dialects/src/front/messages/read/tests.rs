//! The expected request is written short: a line for each message, and one for the settings.

use serde_json::{Value, json};

use super::*;
use crate::neutral::{Cache, Losses, Media, Part, PartKind, ToolKind};

/// Returns a request with these members and the members that every request has.
fn body(members: Value) -> String {
    let mut body =
        json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    let all = body.as_object_mut().unwrap();
    all.extend(members.as_object().unwrap().clone());
    body.to_string()
}

fn cached(cache: Option<&Cache<'_>>) -> String {
    cache
        .map(|cache| format!("~{}", cache.ttl.as_deref().unwrap_or_default()))
        .unwrap_or_default()
}

fn part(part: &Part<'_>) -> String {
    let media = |media: &Media<'_>| match media {
        Media::Inline(kind, data) => format!("{kind} {data}"),
        Media::Url(url) => url.to_string(),
        Media::Id(id) => format!("#{id}"),
    };
    let said = match &part.kind {
        PartKind::Text(text) => format!("{text:?}"),
        PartKind::Image(of, None) => format!("image[{}]", media(of)),
        PartKind::File(of, name) => {
            format!("file[{}]{}", media(of), name.as_deref().unwrap_or_default())
        }
        PartKind::Image(..) | PartKind::Audio(..) => panic!("{part:?}"),
    };
    said + &cached(part.cache.as_ref())
}

/// Writes a message as `user@0 "hi"`: its role, its place and its text; `~` is a hint for a cache,
/// `-name` a lost field.
fn message(message: &Message<'_>) -> String {
    let mut said = vec![match message.role {
        Role::System => "system".to_owned(),
        Role::User => "user".to_owned(),
        Role::Assistant => "assistant".to_owned(),
        Role::Tool => format!("result of {}", message.tool_call_id.as_deref().unwrap()),
        Role::Developer | Role::Function => panic!("{message:?}"),
    }];
    said.extend(message.caller_index.map(|place| format!("@{place}")));
    said.extend(message.thoughts.iter().map(|thought| {
        match (&thought.redacted, &thought.signature) {
            (Some(data), _) => format!("redacted({data})"),
            (None, signature) => format!(
                "thought({} by {})",
                thought.text,
                signature.as_deref().unwrap_or("-")
            ),
        }
    }));
    said.extend(message.content.iter().map(part));
    said.extend(
        message
            .calls
            .iter()
            .map(|call| format!("{}#{}{}", call.name, call.id, call.arguments)),
    );
    said.extend(message.others.iter().map(|name| format!("-{name}")));
    assert!(message.name.is_none() && message.reasoning.is_none());
    said.join(" ").replacen(" @", "@", 1) + &cached(message.cache.as_ref())
}

fn messages(request: &Request<'_>) -> Vec<String> {
    request.messages.iter().map(message).collect()
}

/// Writes the settings of a request, without its messages.
fn settings(request: &Request<'_>) -> String {
    let raw = |Raw(text): Raw<'_>| text.to_owned();
    let mut all = Vec::new();
    let mut add =
        |name: &str, said: Option<String>| all.extend(said.map(|said| format!("{name}={said}")));
    add("max", request.max_tokens.map(|most| most.to_string()));
    add(
        "temperature",
        request.temperature.map(|number| number.text.to_owned()),
    );
    add("top_p", request.top_p.map(|number| number.text.to_owned()));
    add("top_k", request.top_k.map(|number| number.to_string()));
    add(
        "stop",
        (!request.stop.is_empty()).then(|| request.stop.join("|")),
    );
    add(
        "effort",
        request.thinking.effort.map(|effort| format!("{effort:?}")),
    );
    add("thinking", request.thinking.settings.map(raw));
    add("user", request.user.as_deref().map(str::to_owned));
    add("tier", request.service_tier.as_deref().map(str::to_owned));
    add(
        "format",
        request.format.as_ref().map(|format| format!("{format:?}")),
    );
    add(
        "tools",
        (!request.tools.is_empty())
            .then(|| request.tools.iter().map(tool).collect::<Vec<_>>().join(",")),
    );
    add(
        "choice",
        request
            .tool_choice
            .as_ref()
            .map(|choice| format!("{choice:?}")),
    );
    add(
        "parallel",
        request.parallel_tool_calls.map(|may| may.to_string()),
    );
    all.extend(request.others.iter().map(|(name, _)| format!("-{name}")));
    all.join(" ")
}

fn tool(tool: &crate::neutral::Tool<'_>) -> String {
    let ToolKind::Function(schema, strict) = &tool.kind else {
        panic!("{tool:?}")
    };
    let schema = schema.as_deref().unwrap_or_default();
    let strict = strict
        .map(|strict| format!("!{strict}"))
        .unwrap_or_default();
    let about = tool.description.as_deref().unwrap_or_default();
    format!(
        "{}({about}){schema}{strict}{}",
        tool.name,
        cached(tool.cache.as_ref())
    )
}

#[track_caller]
fn check_messages(members: Value, expected: &[&str]) {
    let body = body(members);
    let (request, _) =
        read_request(body.as_bytes()).unwrap_or_else(|why| panic!("{body}\n{why:?}"));
    assert_eq!(messages(&request), expected, "{body}");
}

/// Checks the messages that a user's content becomes.
#[track_caller]
fn check_content(content: Value, expected: &[&str]) {
    check_messages(
        json!({"messages": [{"role": "user", "content": content}]}),
        expected,
    );
}

/// Checks the settings that these members become.
#[track_caller]
fn check_settings(members: Value, expected: &str) {
    let body = body(members);
    let (request, _) =
        read_request(body.as_bytes()).unwrap_or_else(|why| panic!("{body}\n{why:?}"));
    assert_eq!(
        settings(&request),
        format!("max=9 {expected}").trim_end(),
        "{body}"
    );
}

fn refusal(body: &str) -> (&'static str, String, String) {
    match read_request(body.as_bytes()) {
        Err(Refused::Invalid(why)) => ("invalid", why.param, why.message),
        Err(Refused::Unsupported(why)) => ("unsupported", why.param, why.message),
        Ok((request, _)) => panic!("{body}\n{request:?}"),
    }
}

#[track_caller]
fn check_refused(members: Value, kind: &str, path: &str, words: &str) {
    let body = body(members);
    let (found_kind, found_path, message) = refusal(&body);
    assert_eq!(
        (found_kind, found_path.as_str()),
        (kind, path),
        "{body}\n{message}"
    );
    assert!(message.contains(words), "{message}");
    assert!(message.contains(path), "{message}");
}

const PNG: &str = "iVBORw0KGgoAAAAN";
const PDF: &str = "JVBERi0xLjcK";

fn base64(media_type: &str, data: &str) -> Value {
    json!({"type": "base64", "media_type": media_type, "data": data})
}

#[test]
fn every_block_of_a_user_becomes_a_part() {
    let png = || base64("image/png", PNG);
    for (block, expected) in [
        (json!({"type": "text", "text": "a b"}), r#"user@0 "a b""#),
        (json!({"type": "text", "text": ""}), "user@0"),
        (
            json!({"text": "the type comes last", "type": "text"}),
            r#"user@0 "the type comes last""#,
        ),
        (
            json!({"type": "image", "source": png()}),
            "user@0 image[image/png iVBORw0KGgoAAAAN]",
        ),
        (
            json!({"type": "image", "source": base64("IMAGE/JPG", "AA")}),
            "user@0 image[image/jpg AA]",
        ),
        (
            json!({"type": "image", "source": base64("image/jpg", "AA")}),
            "user@0 image[image/jpeg AA]",
        ),
        (
            json!({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}),
            "user@0 image[https://example.com/a.png]",
        ),
        (
            json!({"type": "image", "source": {"type": "file", "file_id": "file_7"}}),
            "user@0 image[#file_7]",
        ),
        (
            json!({"type": "document", "title": "plan.pdf", "source": base64("application/pdf", PDF)}),
            "user@0 file[application/pdf JVBERi0xLjcK]plan.pdf",
        ),
        (
            json!({"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}),
            "user@0 file[https://example.com/a.pdf]",
        ),
        (
            json!({"type": "document", "source": {"type": "file", "file_id": "file_8"}}),
            "user@0 file[#file_8]",
        ),
        (
            json!({"type": "document", "title": "Notes", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}}),
            r#"user@0 "Notes" "plain""#,
        ),
        (
            json!({"type": "document", "title": "Mixed", "source": {"type": "content", "content": [
                {"type": "text", "text": "seen:"}, {"type": "image", "source": png()},
            ]}}),
            r#"user@0 "Mixed" "seen:" image[image/png iVBORw0KGgoAAAAN]"#,
        ),
        (
            json!({"type": "document", "source": {"type": "content", "content": "only words"}}),
            r#"user@0 "only words""#,
        ),
        (
            json!({"type": "search_result", "title": "Tides", "source": "https://example.com/tides",
                "content": [{"type": "text", "text": "High at six."}, {"type": "text", "text": "Low at noon."}]}),
            r#"user@0 "Tides\nhttps://example.com/tides\nHigh at six.\nLow at noon.""#,
        ),
        (
            json!({"type": "search_result", "source": "", "title": "", "content": []}),
            "user@0",
        ),
    ] {
        check_content(json!([block]), &[expected]);
    }
    check_content(json!("one string"), &[r#"user@0 "one string""#]);
    check_content(json!(null), &["user@0"]);
    check_content(json!([]), &["user@0"]);
}

#[test]
fn cache_hints_stay_where_parts_allow_them() {
    let hint = json!({"type": "ephemeral", "ttl": "1h"});
    check_content(
        json!([
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
            {"type": "image", "source": base64("image/png", PNG), "cache_control": hint},
            {"type": "text", "text": "", "cache_control": hint},
        ]),
        &[r#"user@0 "a"~ image[image/png iVBORw0KGgoAAAAN]~1h"#],
    );
    check_content(
        json!([{"type": "tool_result", "tool_use_id": "a", "content": [
            {"type": "document", "source": {"type": "content", "content": [
                {"type": "text", "text": "page", "cache_control": hint},
            ]}},
        ]}]),
        &[r#"result of a@0 "page"~1h"#],
    );
    check_content(
        json!([{"type": "tool_result", "tool_use_id": "a", "content": [
            {"type": "image", "source": base64("image/png", PNG), "cache_control": hint},
            {"type": "document", "title": "a.pdf", "source": base64("application/pdf", PDF), "cache_control": {"type": "ephemeral"}},
            {"type": "search_result", "title": "T", "source": "S", "content": [], "cache_control": hint},
            {"type": "tool_reference", "tool_name": "f", "cache_control": hint},
        ]}]),
        &[
            r#"result of a@0 image[image/png iVBORw0KGgoAAAAN]~1h file[application/pdf JVBERi0xLjcK]a.pdf~ "T\nS"~1h "Tool f is now available."~1h"#,
        ],
    );
    check_content(
        json!([
            {"type": "search_result", "title": "T", "source": "S", "content": [
                {"type": "text", "text": "a", "cache_control": hint}, {"type": "text", "text": "b"},
            ]},
            {"type": "document", "source": {"type": "content", "content": [
                {"type": "text", "text": "page", "cache_control": hint},
            ]}},
        ]),
        &[r#"user@0 "T\nS\na\nb"~1h "page"~1h"#],
    );
    check_messages(
        json!({"system": [{"type": "text", "text": "Be brief.", "cache_control": hint}, {"type": "text", "text": "Be kind."}]}),
        &[r#"system "Be brief."~1h "Be kind.""#, r#"user@0 "hi""#],
    );
    check_settings(
        json!({"tools": [{"name": "f", "input_schema": {}, "cache_control": hint}], "cache_control": hint}),
        "tools=f(){}~1h",
    );
}

#[test]
fn each_result_comes_before_the_users_other_words() {
    let picture = json!({"type": "image", "source": base64("image/png", PNG)});
    let calls = json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}},
        {"type": "tool_use", "id": "b", "name": "look", "input": {}, "caller": {"type": "direct"}},
        {"type": "tool_use", "id": "c", "name": "ask"},
        {"type": "tool_use", "id": "d", "name": "find", "input": {}},
    ]});
    let results = json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "d", "is_error": true, "content": "no such thing"},
        {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "a red square"}, picture]},
        {"type": "tool_result", "tool_use_id": "a"},
        {"type": "tool_result", "tool_use_id": "c", "is_error": false, "cache_control": {"type": "ephemeral"}, "content": [
            {"type": "document", "title": "a.pdf", "source": base64("application/pdf", PDF)},
            {"type": "search_result", "title": "T", "source": "S", "content": [{"type": "text", "text": "found"}]},
        ]},
        {"type": "text", "text": "Go on."},
    ]});
    check_messages(
        json!({"messages": [calls, results]}),
        &[
            r#"assistant@0 read#a{"path":"x"} look#b{} ask#c{} find#d{}"#,
            r#"result of d@1 "Error: no such thing""#,
            r#"result of b@1 "a red square" image[image/png iVBORw0KGgoAAAAN]"#,
            "result of a@1",
            r#"result of c@1 file[application/pdf JVBERi0xLjcK]a.pdf "T\nS\nfound"~"#,
            r#"user@1 "Go on.""#,
        ],
    );
    // A failure without a word is a failure.
    check_content(
        json!([{"type": "tool_result", "tool_use_id": "a", "is_error": true}]),
        &[r#"result of a@0 "Error""#],
    );
    check_content(
        json!([{"type": "tool_result", "tool_use_id": "a", "is_error": true, "content": [{"type": "image", "source": base64("image/png", PNG)}]}]),
        &[r#"result of a@0 "Error" image[image/png iVBORw0KGgoAAAAN]"#],
    );
}

#[test]
fn what_is_lost_beside_results_makes_no_message() {
    check_content(
        json!([
            {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "browser_state", "tabs": 2}, {"type": "text", "text": "ok"}]},
            {"type": "tool_result", "tool_use_id": "b", "content": "done", "novel": 1},
        ]),
        &[
            r#"result of a@0 "ok""#,
            r#"result of b@0 "done" -content[].content[].tabs -content[].content[].browser_state -content[].novel"#,
        ],
    );
    check_content(
        json!([{"type": "tool_result", "tool_use_id": "a", "content": "x", "novel": 1}, {"type": "text", "text": "y"}]),
        &[r#"result of a@0 "x""#, r#"user@0 "y" -content[].novel"#],
    );
}

#[test]
fn thoughts_keep_their_order_their_signatures_and_their_secrets() {
    let said = |content: Value| json!({"messages": [{"role": "assistant", "content": content}]});
    check_messages(
        said(json!([
            {"type": "thinking", "thinking": "first", "signature": "s1"},
            {"type": "redacted_thinking", "data": "r1"},
            {"type": "thinking", "thinking": "", "signature": "s2"},
            {"type": "redacted_thinking", "data": "r2"},
            {"type": "text", "text": "So."},
            {"type": "tool_use", "id": "a", "name": "f", "input": {"n": 1.50}},
        ])),
        &[
            r#"assistant@0 thought(first by s1) redacted(r1) thought( by s2) redacted(r2) "So." f#a{"n":1.5}"#,
        ],
    );
    // Of an upstream that signs nothing; a signature of no letters is none.
    check_messages(
        said(json!([
            {"type": "thinking", "thinking": "unsigned", "signature": ""},
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking", "thinking": "old"},
            {"type": "text", "text": "Yes."},
        ])),
        &[r#"assistant@0 thought(unsigned by -) thought(old by -) "Yes.""#],
    );
}

#[test]
fn the_input_of_a_call_keeps_its_text() {
    let text = r#"{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[
        {"type":"tool_use","id":"a","name":"f","input":{ "b" : 1.0, "a":"\u00e9", "deep":[[],{}] }}]}]}"#;
    let (request, _) = read_request(text.as_bytes()).unwrap();
    assert_eq!(
        request.messages[0].calls[0].arguments,
        r#"{ "b" : 1.0, "a":"\u00e9", "deep":[[],{}] }"#
    );
}

#[test]
fn the_system_may_speak_anywhere() {
    let system = |text: &str| json!({"role": "system", "content": text});
    let user = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text}]});
    check_messages(
        json!({"system": "first", "messages": [
            user("a"),
            system("second"),
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]},
            {"role": "system", "content": [{"type": "text", "text": "third"}], "clear_at": "next_user_message"},
        ]}),
        &[
            r#"system "first""#,
            r#"user@0 "a""#,
            r#"system@1 "second""#,
            "assistant@2 f#t{}",
            r#"result of t@3 "r""#,
            r#"system@4 "third""#,
        ],
    );
    // Several of one role in a row stay as they are.
    check_messages(
        json!({"messages": [user("a"), user("b"), {"role": "assistant", "content": "c"}]}),
        &[r#"user@0 "a""#, r#"user@1 "b""#, r#"assistant@2 "c""#],
    );
    // An empty system text is no message.
    for silent in [json!(""), json!([]), json!(null)] {
        check_messages(json!({"system": silent}), &[r#"user@0 "hi""#]);
    }
}

#[test]
fn the_last_effort_that_the_system_sets_counts() {
    let system = |config: Value| json!({"role": "system", "content": "x", "output_config": config});
    let with = |list: Value| json!({"output_config": {"effort": "low"}, "messages": list});
    check_settings(
        with(json!([system(json!({"effort": "medium"}))])),
        "effort=Medium",
    );
    check_settings(
        with(json!([
            system(json!({"effort": "medium"})),
            system(json!({"effort": "max"}))
        ])),
        "effort=Max",
    );
    check_settings(
        with(json!([
            system(json!({"effort": "high"})),
            system(json!({}))
        ])),
        "effort=High",
    );
    check_settings(with(json!([system(json!(null))])), "effort=Low");
    check_messages(
        with(json!([system(
            json!({"effort": "high", "format": {"type": "json_schema", "schema": {}}, "task_budget": 5})
        )])),
        &[r#"system@0 "x" -output_config.task_budget -output_config.format"#],
    );
}

#[test]
fn the_line_of_the_clients_build_is_left_out() {
    let billing = "x-anthropic-billing-header: cc_version=0.0.0; cc_entrypoint=test";
    check_messages(
        json!({"system": [{"type": "text", "text": billing}, {"type": "text", "text": "Rules."}]}),
        &[r#"system "Rules.""#, r#"user@0 "hi""#],
    );
    check_messages(json!({"system": billing}), &[r#"user@0 "hi""#]);
    // Only in front: elsewhere the user may be talking about it.
    check_messages(
        json!({"system": [{"type": "text", "text": "Rules."}, {"type": "text", "text": billing}]}),
        &[&format!("system \"Rules.\" {billing:?}"), r#"user@0 "hi""#],
    );
}

#[test]
fn every_setting_has_its_place() {
    for (members, expected) in [
        (json!({"stream": true}), ""),
        (
            json!({"temperature": 0.25, "top_p": 0.9, "top_k": 40}),
            "temperature=0.25 top_p=0.9 top_k=40",
        ),
        (
            json!({"temperature": null, "top_p": null, "top_k": null, "stop_sequences": null}),
            "",
        ),
        (
            json!({"stop_sequences": ["a", "b", "c", "d", "e"]}),
            "stop=a|b|c|d|e",
        ),
        (json!({"stop_sequences": []}), ""),
        (
            json!({"thinking": {"type": "adaptive", "display": "omitted"}}),
            r#"thinking={"display":"omitted","type":"adaptive"}"#,
        ),
        (json!({"thinking": null}), ""),
        (
            json!({"metadata": {"user_id": "somebody"}}),
            "user=somebody",
        ),
        (json!({"metadata": {"user_id": null}}), ""),
        (
            json!({"metadata": {"user_id": "x", "team": "blue"}}),
            "user=x -metadata.team",
        ),
        (json!({"metadata": null}), ""),
        (json!({"service_tier": "auto"}), "tier=auto"),
        (
            json!({"service_tier": "standard_only"}),
            "tier=standard_only",
        ),
        (json!({"service_tier": null}), ""),
        (json!({"output_config": {"effort": "low"}}), "effort=Low"),
        (
            json!({"output_config": {"effort": "medium"}}),
            "effort=Medium",
        ),
        (json!({"output_config": {"effort": "high"}}), "effort=High"),
        (
            json!({"output_config": {"effort": "xhigh"}}),
            "effort=Xhigh",
        ),
        (json!({"output_config": {"effort": "max"}}), "effort=Max"),
        (
            json!({"output_config": {"effort": null, "format": null}}),
            "",
        ),
        (json!({"output_config": null, "output_format": null}), ""),
    ] {
        check_settings(members, expected);
    }
}

#[test]
fn the_format_stands_at_either_place() {
    let schema = json!({"type": "object", "properties": {"title": {"type": "string"}}});
    let format = json!({"type": "json_schema", "schema": schema});
    let expected = format!(
        "format={:?}",
        Format::JsonSchema {
            name: "output".into(),
            description: None,
            schema: Some(r#"{"properties":{"title":{"type":"string"}},"type":"object"}"#.into()),
            strict: Some(true)
        }
    );
    check_settings(json!({"output_config": {"format": format}}), &expected);
    check_settings(json!({"output_format": format}), &expected);
    check_settings(
        json!({"output_config": {"format": format}, "output_format": null}),
        &expected,
    );
    check_settings(
        json!({"output_config": {"effort": "low"}, "output_format": format}),
        &format!("effort=Low {expected}"),
    );
    let more = json!({"type": "json_schema", "schema": {}, "novel": 1});
    let lost = |path: &str| format!("-{path}.novel");
    for (members, path) in [
        (
            json!({"output_config": {"format": more}}),
            "output_config.format",
        ),
        (json!({"output_format": more}), "output_format"),
    ] {
        let body = body(members);
        let (request, _) = read_request(body.as_bytes()).unwrap();
        assert!(
            settings(&request).ends_with(&lost(path)),
            "{}",
            settings(&request)
        );
    }
}

#[test]
fn tools_are_functions() {
    check_settings(
        json!({"tools": [
            {"name": "plain", "description": "Does it.", "input_schema": {"type": "object"}},
            {"type": "custom", "name": "held", "input_schema": {"type": "object"}, "strict": true},
            {"type": null, "name": "loose", "input_schema": {}, "strict": false, "allowed_callers": ["direct", "code_execution_20250825"]},
            {"name": "bare", "input_schema": null, "eager_input_streaming": true},
        ]}),
        r#"tools=plain(Does it.){"type":"object"},held(){"type":"object"}!true,loose(){}!false,bare()"#,
    );
    check_settings(json!({"tools": []}), "");
    check_settings(json!({"tools": null}), "");
    let examples =
        json!([{"name": "f", "input_schema": {}, "input_examples": [{"a": 1}], "novel": "x"}]);
    check_settings(
        json!({"tools": examples}),
        "tools=f(){} -tools[].input_examples -tools[].novel",
    );
}

#[test]
fn tools_are_chosen() {
    let with = |choice: Value| json!({"tools": [{"name": "f", "input_schema": {}}], "tool_choice": choice});
    for (choice, expected) in [
        (json!({"type": "auto"}), "choice=Auto"),
        (json!({"type": "any"}), "choice=Required"),
        (json!({"type": "none"}), "choice=None"),
        (json!({"type": "tool", "name": "f"}), r#"choice=Named("f")"#),
        (
            json!({"type": "auto", "disable_parallel_tool_use": true}),
            "choice=Auto parallel=false",
        ),
        (
            json!({"type": "any", "disable_parallel_tool_use": false}),
            "choice=Required parallel=true",
        ),
        (
            json!({"type": "tool", "name": "f", "disable_parallel_tool_use": true}),
            r#"choice=Named("f") parallel=false"#,
        ),
        (
            json!({"type": "auto", "novel": 1}),
            "choice=Auto -tool_choice.novel",
        ),
        (json!(null), ""),
    ] {
        check_settings(with(choice), &format!("tools=f(){{}} {expected}"));
    }
    // Without tools there is nothing to choose.
    check_settings(
        json!({"tools": [], "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
        "",
    );
    check_settings(json!({"tool_choice": {"type": "any"}}), "");
}

#[test]
fn a_waiting_tool_is_shown_once_named() {
    let tools = json!([
        {"name": "search", "input_schema": {}},
        {"name": "cron", "input_schema": {}, "defer_loading": true},
        {"name": "fetch", "input_schema": {}, "defer_loading": true},
        {"name": "placeholder", "input_schema": {}, "defer_loading": true},
        {"name": "eager", "input_schema": {}, "defer_loading": false},
    ]);
    let found = json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
        {"type": "tool_reference", "tool_name": "cron"}, {"type": "tool_reference", "tool_name": "gone"},
    ]}, {"type": "tool_result", "tool_use_id": "u", "content": [{"type": "tool_reference", "tool_name": "fetch"}]}]}]);
    check_settings(json!({"tools": tools}), "tools=search(){},eager(){}");
    check_settings(
        json!({"tools": tools, "messages": found}),
        "tools=search(){},cron(){},fetch(){},eager(){}",
    );
    check_messages(
        json!({"tools": tools, "messages": found}),
        &[
            r#"result of t@0 "Tool cron is now available." "Tool gone is now available.""#,
            r#"result of u@0 "Tool fetch is now available.""#,
        ],
    );
    // If all wait there is no tool, and nothing to choose.
    let waiting = json!([{"name": "cron", "input_schema": {}, "defer_loading": true}]);
    check_settings(
        json!({"tools": waiting, "tool_choice": {"type": "auto"}}),
        "",
    );
}

/// Tools and blocks that only Anthropic's servers can run are refused by their names.
#[test]
fn what_only_anthropics_servers_can_do_is_refused() {
    for kind in [
        "bash_20250124",
        "text_editor_20250728",
        "memory_20250818",
        "computer_20251124",
        "browser_toolset_20260401",
        "web_search_20250305",
        "web_search_20260209",
        "web_fetch_20250910",
        "code_execution_20250825",
        "tool_search_tool_regex_20251119",
        "advisor_20260301",
        "mcp_toolset",
        "made_up_tomorrow",
    ] {
        let tools =
            json!([{"name": "f", "input_schema": {}}, {"type": kind, "name": "x", "max_uses": 8}]);
        check_refused(
            json!({"tools": tools, "tool_choice": {"type": "auto"}}),
            "unsupported",
            "tools[1].type",
            kind,
        );
    }
    let indirect =
        json!([{"name": "f", "input_schema": {}, "allowed_callers": ["code_execution_20250825"]}]);
    check_refused(
        json!({"tools": indirect}),
        "unsupported",
        "tools[0].allowed_callers",
        "direct",
    );
    for (members, path) in [
        (
            json!({"mcp_servers": [{"type": "url", "url": "https://example.com", "name": "x"}]}),
            "mcp_servers",
        ),
        (json!({"container": "container_1"}), "container"),
        (
            json!({"container": {"id": null, "skills": [{"type": "anthropic", "skill_id": "pptx"}]}}),
            "container",
        ),
        (json!({"thread": {"id": "thread_1"}}), "thread"),
    ] {
        check_refused(members, "unsupported", path, "only Anthropic's own servers");
    }
    // Empty settings ask for nothing.
    check_settings(
        json!({"mcp_servers": [], "container": null, "thread": {}}),
        "",
    );
}

#[test]
fn what_cannot_be_is_refused_by_its_path() {
    let user = |content: Value| json!({"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": content}]});
    let source = |source: Value| {
        user(json!([{"type": "text", "text": "a"}, {"type": "image", "source": source}]))
    };
    for (members, path, words) in [
        (json!({"max_tokens": 0}), "max_tokens", "at least 1"),
        (
            json!({"max_tokens": 1.5}),
            "max_tokens",
            "must be an integer",
        ),
        (json!({"max_tokens": "9"}), "max_tokens", "not a string"),
        (json!({"messages": {}}), "messages", "must be an array"),
        (
            json!({"messages": [null]}),
            "messages[0]",
            "must be an object",
        ),
        (
            json!({"messages": [{"content": "x"}]}),
            "messages[0].role",
            "is missing",
        ),
        (
            json!({"messages": [{"role": null, "content": "x"}]}),
            "messages[0].role",
            "is missing",
        ),
        (
            json!({"messages": [{"role": "tool", "content": "x"}]}),
            "messages[0].role",
            "`user`, `assistant` and `system`",
        ),
        (
            json!({"messages": [{"role": 7, "content": "x"}]}),
            "messages[0].role",
            "must be a string",
        ),
        (
            user(json!(7)),
            "messages[1].content",
            "a string or an array of blocks",
        ),
        (
            user(json!({"type": "text"})),
            "messages[1].content",
            "a string or an array of blocks",
        ),
        (
            user(json!(["words"])),
            "messages[1].content[0]",
            "must be an object",
        ),
        (
            user(json!([null])),
            "messages[1].content[0]",
            "must be an object",
        ),
        (
            user(json!([{"text": "no type"}])),
            "messages[1].content[0].type",
            "is missing",
        ),
        (
            user(json!([{"type": "text"}])),
            "messages[1].content[0].text",
            "is missing",
        ),
        (
            user(json!([{"type": "text", "text": ["x"]}])),
            "messages[1].content[0].text",
            "must be a string",
        ),
        (
            user(json!([{"type": "image"}])),
            "messages[1].content[0].source",
            "is missing",
        ),
        (
            user(json!([{"type": "document", "source": null}])),
            "messages[1].content[0].source",
            "is missing",
        ),
        (
            source(json!({"data": "AA"})),
            "messages[1].content[1].source.type",
            "is missing",
        ),
        (
            source(json!({"type": "ftp"})),
            "messages[1].content[1].source.type",
            "`base64`, `url`, `file`",
        ),
        (
            source(json!({"type": "base64", "data": "AA"})),
            "messages[1].content[1].source.media_type",
            "is missing",
        ),
        (
            source(base64("picture", "AA")),
            "messages[1].content[1].source.media_type",
            "`type/subtype`",
        ),
        (
            source(json!({"type": "base64", "media_type": "image/png"})),
            "messages[1].content[1].source.data",
            "is missing",
        ),
        (
            source(json!({"type": "url"})),
            "messages[1].content[1].source.url",
            "is missing",
        ),
        (
            source(json!({"type": "file"})),
            "messages[1].content[1].source.file_id",
            "is missing",
        ),
        (
            source(json!({"type": "text"})),
            "messages[1].content[1].source.data",
            "is missing",
        ),
        (
            source(json!({"type": "url", "url": 1})),
            "messages[1].content[1].source.url",
            "must be a string",
        ),
        (
            source(json!(7)),
            "messages[1].content[1].source",
            "must be an object",
        ),
        (
            user(json!([{"type": "tool_result"}])),
            "messages[1].content[0].tool_use_id",
            "is missing",
        ),
        (
            user(json!([{"type": "tool_result", "tool_use_id": "a", "is_error": "no"}])),
            "messages[1].content[0].is_error",
            "true or false",
        ),
        (
            user(
                json!([{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image"}]}]),
            ),
            "messages[1].content[0].content[0].source",
            "is missing",
        ),
        (
            user(
                json!([{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "tool_reference"}]}]),
            ),
            "messages[1].content[0].content[0].tool_name",
            "is missing",
        ),
        (
            user(json!([{"type": "tool_use", "id": "a", "name": "f"}])),
            "messages[1].content",
            "only an assistant",
        ),
        (
            user(json!([{"type": "thinking", "thinking": "hm", "signature": "s"}])),
            "messages[1].content",
            "only an assistant",
        ),
        (
            user(json!([{"type": "redacted_thinking", "data": "s"}])),
            "messages[1].content",
            "only an assistant",
        ),
        (
            json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]}]}),
            "messages[0].content[0].id",
            "is missing",
        ),
        (
            json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": ""}]}]}),
            "messages[0].content[0].name",
            "is missing",
        ),
        (
            json!({"messages": [{"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "a"}]}]}),
            "messages[0].content",
            "only a user",
        ),
        (
            json!({"messages": [{"role": "system", "content": [{"type": "tool_result", "tool_use_id": "a"}]}]}),
            "messages[0].content",
            "only a user",
        ),
        (
            json!({"system": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}),
            "system",
            "only a user",
        ),
        (
            json!({"system": [{"type": "tool_use", "id": "a", "name": "f"}]}),
            "system",
            "only an assistant",
        ),
        (
            json!({"system": 7}),
            "system",
            "a string or an array of blocks",
        ),
        (
            json!({"system": [{"type": "text"}]}),
            "system[0].text",
            "is missing",
        ),
        (json!({"tools": {}}), "tools", "must be an array"),
        (json!({"tools": [null]}), "tools[0]", "must be an object"),
        (
            json!({"tools": [{"input_schema": {}}]}),
            "tools[0].name",
            "is missing",
        ),
        (
            json!({"tools": [{"name": "", "input_schema": {}}]}),
            "tools[0].name",
            "must not be empty",
        ),
        (
            json!({"tools": [{"name": "f", "input_schema": {}}, {"name": "f", "input_schema": {}}]}),
            "tools[1].name",
            "another tool",
        ),
        (
            json!({"tools": [{"name": "f", "input_schema": []}]}),
            "tools[0].input_schema",
            "must be an object",
        ),
        (
            json!({"tools": [{"name": "f", "strict": "yes"}]}),
            "tools[0].strict",
            "true or false",
        ),
        (
            json!({"tools": [{"name": "f", "allowed_callers": "direct"}]}),
            "tools[0].allowed_callers",
            "must be an array",
        ),
        (
            json!({"tool_choice": "auto"}),
            "tool_choice",
            "must be an object",
        ),
        (json!({"tool_choice": {}}), "tool_choice.type", "is missing"),
        (
            json!({"tool_choice": {"type": "required"}}),
            "tool_choice.type",
            "`auto`, `any`, `tool` and `none`",
        ),
        (
            json!({"tool_choice": {"type": "tool"}}),
            "tool_choice.name",
            "is missing",
        ),
        (
            json!({"tools": [{"name": "f"}], "tool_choice": {"type": "tool", "name": "g"}}),
            "tool_choice.name",
            "none of the tools",
        ),
        (
            json!({"tools": [{"name": "f"}, {"name": "g", "defer_loading": true}], "tool_choice": {"type": "tool", "name": "g"}}),
            "tool_choice.name",
            "that the model can see",
        ),
        (
            json!({"thinking": "adaptive"}),
            "thinking",
            "must be an object",
        ),
        (
            json!({"output_config": "low"}),
            "output_config",
            "must be an object",
        ),
        (
            json!({"output_config": {"effort": "minimal"}}),
            "output_config.effort",
            "`low`, `medium`",
        ),
        (
            json!({"output_config": {"effort": 3}}),
            "output_config.effort",
            "must be a string",
        ),
        (
            json!({"output_config": {"format": {}}}),
            "output_config.format.type",
            "is missing",
        ),
        (
            json!({"output_config": {"format": {"type": "text"}}}),
            "output_config.format.type",
            "`json_schema`",
        ),
        (
            json!({"output_config": {"format": {"type": "json_schema"}}}),
            "output_config.format.schema",
            "is missing",
        ),
        (
            json!({"output_format": {"type": "json_schema"}}),
            "output_format.schema",
            "is missing",
        ),
        (
            json!({"messages": [{"role": "system", "content": "x", "output_config": {"effort": "all"}}]}),
            "messages[0].output_config.effort",
            "`low`, `medium`",
        ),
        (json!({"metadata": "x"}), "metadata", "must be an object"),
        (
            json!({"metadata": {"user_id": 7}}),
            "metadata.user_id",
            "must be a string",
        ),
        (
            json!({"stop_sequences": "x"}),
            "stop_sequences",
            "must be an array",
        ),
        (
            json!({"stop_sequences": ["x", null]}),
            "stop_sequences[1]",
            "must be a string",
        ),
        (
            json!({"temperature": "0.5"}),
            "temperature",
            "must be a number",
        ),
        (json!({"top_p": true}), "top_p", "must be a number"),
        (json!({"top_k": -1}), "top_k", "at least 0"),
        (
            json!({"service_tier": 1}),
            "service_tier",
            "must be a string",
        ),
    ] {
        check_refused(members, "invalid", path, words);
    }
}

#[test]
fn what_is_there_twice_is_refused() {
    for (text, path) in [
        (r#"{"thinking":{},"thinking":{}}"#, "thinking"),
        (
            r#"{"messages":[{"role":"user","role":"system"}]}"#,
            "messages[0].role",
        ),
        (
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a","te\u0078t":"b"}]}]}"#,
            "messages[0].content[0].text",
        ),
        (r#"{"tools":[{"name":"a","name":"b"}]}"#, "tools[0].name"),
        (
            r#"{"output_config":{"effort":"low","effort":"max"}}"#,
            "output_config.effort",
        ),
        (
            r#"{"tool_choice":{"type":"auto","type":"none"}}"#,
            "tool_choice.type",
        ),
    ] {
        let (kind, found, message) = refusal(text);
        assert_eq!((kind, found.as_str()), ("invalid", path));
        assert!(message.ends_with("is given more than once"), "{message}");
    }
}

#[test]
fn what_nobody_here_understands_is_named() {
    for (members, expected) in [
        (
            json!({"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}),
            "-context_management",
        ),
        (
            json!({"inference_geo": "eu", "speed": "fast", "user_profile_id": "u"}),
            "-inference_geo -speed -user_profile_id",
        ),
        (
            json!({"diagnostics": {"previous_message_id": "msg_1"}}),
            "-diagnostics",
        ),
        (
            json!({"safeguards": [{"type": "dangerous_tool_use"}]}),
            "-safeguards",
        ),
        (
            json!({"fallbacks": [{"model": "x"}], "fallback_credit_token": "t"}),
            "-fallback_credit_token -fallbacks",
        ),
        (
            json!({"compaction": {"enabled": true}, "billing_policy": "x", "workspace_id": "w"}),
            "-billing_policy -compaction -workspace_id",
        ),
        (
            json!({"output_config": {"task_budget": {"tokens": 9}}}),
            "-output_config.task_budget",
        ),
        (json!({"invented_tomorrow": 1}), "-invented_tomorrow"),
        // Clients that write out their defaults lose nothing.
        (
            json!({"speed": "standard", "diagnostics": null, "fallbacks": [], "safeguards": {}}),
            "",
        ),
    ] {
        check_settings(members, expected);
    }
    // The outcome of a step of Anthropic's servers is in the text that follows it.
    check_messages(
        json!({"messages": [{"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "tides"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": [
                {"type": "web_search_result", "title": "T", "url": "https://example.com", "encrypted_content": "e", "page_age": null}]},
            {"type": "code_execution_tool_result", "tool_use_id": "s", "content": {"type": "code_execution_result", "stdout": "1"}},
            {"type": "mcp_tool_use", "id": "p", "name": "n", "server_name": "x", "input": {}},
            {"type": "mcp_tool_result", "tool_use_id": "p", "content": [{"type": "text", "text": "r"}]},
            {"type": "container_upload", "file_id": "file_1"},
            {"type": "text", "text": "High tide is at six.", "citations": [{"type": "web_search_result_location", "url": "u"}]},
        ]}]}),
        &[concat!(
            r#"assistant@0 "High tide is at six." -content[].server_tool_use -content[].content[].encrypted_content -content[].content[].url"#,
            " -content[].content[].web_search_result -content[].web_search_tool_result",
            " -content[].code_execution_tool_result -content[].server_name -content[].mcp_tool_use",
            " -content[].mcp_tool_result -content[].file_id -content[].container_upload -content[].citations",
        )],
    );
    check_messages(
        json!({"messages": [{"role": "assistant", "content": [
            {"type": "compaction", "content": "Before, we spoke of tides.", "encrypted_content": "e"},
            {"type": "fallback", "from": "x"},
        ]}, {"role": "system", "content": [{"type": "tool_addition", "tool": {"name": "f"}}], "novel": 1}]}),
        &[
            r#"assistant@0 "Before, we spoke of tides." -content[].encrypted_content -content[].from -content[].fallback"#,
            "system@1 -content[].tool -content[].tool_addition -novel",
        ],
    );
    check_content(
        json!([{"type": "document", "context": "old", "source": {"type": "text", "data": "d", "novel": 1}}]),
        &[r#"user@0 "d" -content[].context -content[].source.novel"#],
    );
    check_content(
        json!([{"type": "document", "source": {"type": "content", "content": [{"type": "sketch"}, {"type": "text", "text": "t"}]}}]),
        &[r#"user@0 "t" -content[].source.content[].sketch"#],
    );
}

#[test]
fn names_that_callers_invent_are_bounded() {
    let many: serde_json::Map<String, Value> = (0..200)
        .map(|n| (format!("novel{n:03}"), json!(1)))
        .collect();
    let body =
        body(json!({"messages": [{"role": "user", "content": [many.clone()]}], "metadata": many}));
    // A block without a type is refused, so it gets one.
    let body = body.replace(
        r#""content":[{"#,
        r#""content":[{"type":"text","text":"x","#,
    );
    let (request, _) = read_request(body.as_bytes()).unwrap();
    assert!(
        request.messages[0].others.len() <= 64,
        "{}",
        request.messages[0].others.len()
    );
    assert!(request.others.len() <= 64, "{}", request.others.len());
}

/// Some fields only help Anthropic's own servers. A request keeps its meaning without them.
#[test]
fn advice_is_left_out_without_a_word() {
    let plain = json!({
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "document", "source": base64("application/pdf", PDF)}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "r"}]}]},
            {"role": "system", "content": "s"},
        ],
        "tools": [{"name": "f", "input_schema": {}}],
    });
    let mut advised = plain.clone();
    let set = |body: &mut Value, place: &str, name: &str, value: Value| {
        body.pointer_mut(place)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .insert(name.to_owned(), value);
    };
    let hint = || json!({"type": "ephemeral"});
    set(&mut advised, "", "cache_control", hint());
    set(
        &mut advised,
        "/messages/0/content/0",
        "citations",
        json!([]),
    );
    set(
        &mut advised,
        "/messages/0/content/1",
        "citations",
        json!({"enabled": false}),
    );
    set(
        &mut advised,
        "/messages/1/content/0",
        "caller",
        json!({"type": "direct"}),
    );
    set(
        &mut advised,
        "/messages/1/content/0",
        "toolset_name",
        json!("x"),
    );
    set(
        &mut advised,
        "/messages/1/content/0",
        "cache_control",
        hint(),
    );
    set(&mut advised, "/messages/3", "clear_at", json!("never"));
    set(
        &mut advised,
        "/tools/0",
        "eager_input_streaming",
        json!(true),
    );
    set(
        &mut advised,
        "/tools/0",
        "allowed_callers",
        json!(["direct"]),
    );
    set(&mut advised, "", "stream", json!(true));
    advised["tools"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "g", "input_schema": {}, "defer_loading": true}));
    let (plain, advised) = (body(plain), body(advised));
    assert_eq!(
        read_request(plain.as_bytes()).unwrap().0,
        read_request(advised.as_bytes()).unwrap().0
    );
}

/// Each value of a request is replaced by each kind of value: nothing panics, and a refusal names
/// the value, or the object around it, or its missing member.
#[test]
fn whatever_stands_anywhere_a_refusal_names_the_place() {
    let whole: Value = serde_json::from_str(&body(json!({
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "ttl": "5m"}}],
        "messages": [
            {"role": "user", "content": [
                {"type": "image", "source": base64("image/png", PNG)},
                {"type": "document", "title": "t", "context": "c", "citations": {"enabled": true}, "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
                {"type": "search_result", "title": "t", "source": "s", "content": [{"type": "text", "text": "x"}]},
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "h", "signature": "g"},
                {"type": "redacted_thinking", "data": "r"},
                {"type": "tool_use", "id": "i", "name": "f", "input": {"a": [1, {"b": null}]}},
            ]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "i", "is_error": true, "content": [
                {"type": "tool_reference", "tool_name": "f"}, {"type": "document", "source": {"type": "content", "content": "x"}}]}]},
            {"role": "system", "content": "s", "clear_at": "never", "output_config": {"effort": "low"}},
        ],
        "tools": [{"type": "custom", "name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": true, "allowed_callers": ["direct"], "defer_loading": true}],
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        "metadata": {"user_id": "u"}, "stop_sequences": ["x"], "temperature": 0.5, "top_p": 0.5, "top_k": 5,
        "service_tier": "auto", "container": null, "mcp_servers": [], "speed": "fast",
    })))
    .unwrap();
    assert!(read_request(whole.to_string().as_bytes()).is_ok());
    let mut places = Vec::new();
    gather(&whole, String::new(), String::new(), &mut places);
    assert!(places.len() > 100, "{}", places.len());
    let mut refused = 0;
    for (pointer, path) in places {
        for other in [
            json!(null),
            json!(true),
            json!(-7.5),
            json!("?"),
            json!([]),
            json!([[7]]),
            json!({}),
            json!({"?": 7}),
        ] {
            let mut body = whole.clone();
            *body.pointer_mut(&pointer).unwrap() = other;
            let body = body.to_string();
            let Err(Refused::Invalid(why) | Refused::Unsupported(why)) =
                read_request(body.as_bytes())
            else {
                continue;
            };
            refused += 1;
            let is_near = why.param.starts_with(&path)
                || path.starts_with(&why.param)
                || why.param.starts_with(parent(&path));
            assert!(is_near, "{path}: {} {}", why.param, why.message);
        }
    }
    assert!(refused > 300, "{refused}");
}

fn parent(path: &str) -> &str {
    path.rfind(['.', '[']).map_or("", |end| &path[..end])
}

/// The places of all values: as a JSON pointer, and as a refusal names them.
fn gather(value: &Value, pointer: String, path: String, into: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            let dot = if path.is_empty() { "" } else { "." };
            gather(
                value,
                format!("{pointer}/{name}"),
                format!("{path}{dot}{name}"),
                into,
            );
        }),
        Value::Array(elements) => elements.iter().enumerate().for_each(|(index, value)| {
            gather(
                value,
                format!("{pointer}/{index}"),
                format!("{path}[{index}]"),
                into,
            )
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    if !pointer.is_empty() {
        into.push((pointer, path));
    }
}

/// A coding agent's requests are read whole, and no field that it always sends is refused.
#[test]
fn a_coding_agents_requests_are_read() {
    let hint = || json!({"type": "ephemeral"});
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false,
        "properties": {"n": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9_007_199_254_740_991_i64}}, "required": ["n"]});
    let turn = |messages: Value, more: Value| {
        let mut body = json!({
            "model": "fast", "max_tokens": 128_000, "stream": true,
            "system": [
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=0; cc_entrypoint=x"},
                {"type": "text", "text": "You are an agent.", "cache_control": hint()},
                {"type": "text", "text": "You work in a folder.", "cache_control": hint()},
            ],
            "messages": messages,
            "tools": [
                {"name": "Read", "description": "Reads a file.", "input_schema": schema},
                {"name": "Later", "description": "Waits.", "input_schema": schema, "defer_loading": true},
            ],
            "metadata": {"user_id": "{\"device_id\":\"d\",\"account_uuid\":\"\",\"session_id\":\"s\"}"},
            "thinking": {"type": "adaptive", "display": "omitted"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "output_config": {"effort": "medium"},
        });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    let first = || json!({"role": "user", "content": [{"type": "text", "text": "<reminder>"}, {"type": "text", "text": "read it"}]});
    let around = || json!({"role": "system", "content": "# Surroundings", "output_config": {"effort": "medium"}});
    let calls = || {
        json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "Both.", "signature": "c2ln"},
        {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"n": 1}},
        {"type": "tool_use", "id": "toolu_2", "name": "Read", "input": {"n": 2}}]})
    };
    let results = || {
        json!({"role": "user", "content": [
        {"type": "tool_result", "content": "no such file", "is_error": true, "tool_use_id": "toolu_2"},
        {"tool_use_id": "toolu_1", "type": "tool_result", "content": [{"type": "image", "source": base64("image/png", PNG)}]},
        {"type": "text", "text": "<reminder>", "cache_control": hint()}]})
    };
    for (body, messages_read, tools, lost) in [
        (turn(json!([first(), around()]), json!({})), 3, 1, 1),
        (
            turn(json!([first(), around(), calls(), results()]), json!({})),
            7,
            1,
            1,
        ),
        (
            turn(
                json!([first(), around(), calls(), results(), {"role": "system", "content": "more"}]),
                json!({}),
            ),
            8,
            1,
            1,
        ),
        (
            turn(
                json!([first()]),
                json!({"stream": false, "max_tokens": 64_000}),
            ),
            2,
            1,
            1,
        ),
        (
            turn(
                json!([first()]),
                json!({"thinking": {"budget_tokens": 31_999, "type": "enabled", "display": "omitted"}}),
            ),
            2,
            1,
            1,
        ),
        (
            turn(
                json!([first()]),
                json!({"safeguards": [{"type": "dangerous_tool_use", "classifier_context": {"v": 1}}]}),
            ),
            2,
            1,
            2,
        ),
        (
            turn(
                json!([first()]),
                json!({"tools": [], "thinking": null, "context_management": null,
                "output_config": {"effort": "medium", "format": {"type": "json_schema", "schema": schema}}}),
            ),
            2,
            0,
            0,
        ),
    ] {
        let body = body.to_string();
        let envelope = crate::front::MESSAGES.envelope(body.as_bytes()).unwrap();
        assert_eq!(envelope.model, "fast");
        assert!(!envelope.conversation_may_refer, "{body}");
        let (request, _) = read_request(body.as_bytes()).unwrap();
        assert_eq!(
            (
                request.messages.len(),
                request.tools.len(),
                request.others.len()
            ),
            (messages_read, tools, lost),
            "{body}"
        );
        assert_eq!(
            request.thinking.effort.is_some(),
            !body.contains("budget") || body.contains("effort")
        );
        assert!(!messages(&request)[0].contains("billing"));
    }
    // A search of its own is another request. It can only be refused, by the tool's name.
    let search = turn(
        json!([first()]),
        json!({"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}]}),
    );
    assert_eq!(refusal(&search.to_string()).1, "tools[0].type");
}

/// Lost and refused fields have the names that callers of Messages use.
#[test]
fn fields_have_the_callers_names() {
    use crate::neutral::LostFields;
    let body = body(json!({
        "system": "s",
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}, {"type": "text", "text": "b"}]},
        ],
    }));
    let (request, names) = read_request(body.as_bytes()).unwrap();
    assert_eq!(request.messages.len(), 5);
    for (field, name) in [
        (Field::Messages, "messages"),
        (Field::Message(0), "system"),
        (Field::Message(1), "messages[0]"),
        (Field::Message(2), "messages[1]"),
        // A result and the text after it stand in one message.
        (Field::CallId(3), "messages[2].content"),
        (Field::Part(4, 0), "messages[2].content"),
        (Field::Calls(2), "messages[1].content"),
        (Field::MaxTokens, "max_tokens"),
        (Field::Stop, "stop_sequences"),
        (Field::Effort, "thinking"),
        (Field::ThinkingBudget, "thinking.budget_tokens"),
        (Field::ThinkingType, "thinking.type"),
        (Field::Thoughts, "messages[].content[].thinking"),
        (Field::Format, "output_config.format"),
        (Field::FormatSchema, "output_config.format.schema"),
        (Field::User, "metadata.user_id"),
        (Field::ToolParameters, "tools[].input_schema"),
        (
            Field::ParallelCalls,
            "tool_choice.disable_parallel_tool_use",
        ),
        (Field::other("odd"), "odd"),
        (
            Field::other_of_message("content[].odd"),
            "messages[].content[].odd",
        ),
        (Field::other("sk-0123456789ab"), "other"),
    ] {
        assert_eq!(names.name(&request, &field), name, "{field:?}");
    }
    // Fields that were written elsewhere have the names that the caller wrote.
    for (members, field, name) in [
        (
            json!({"output_format": {"type": "json_schema", "schema": {}}}),
            Field::Format,
            "output_format",
        ),
        (
            json!({"output_format": {"type": "json_schema", "schema": {}}}),
            Field::FormatSchema,
            "output_format.schema",
        ),
        (
            json!({"output_format": null}),
            Field::Format,
            "output_config.format",
        ),
        (
            json!({"thinking": {"type": "enabled", "budget_tokens": 9}}),
            Field::Effort,
            "thinking",
        ),
        (
            json!({"thinking": {"type": "enabled"}, "output_config": {"effort": "low"}}),
            Field::Effort,
            "output_config.effort",
        ),
    ] {
        let body = self::body(members);
        let (request, names) = read_request(body.as_bytes()).unwrap();
        assert_eq!(names.name(&request, &field), name, "{body}");
    }
    let mut lost = LostFields::default();
    [Field::Seed, Field::TopK, Field::TopK]
        .into_iter()
        .for_each(|field| lost.add(field));
    let losses: Losses = names.losses(&request, lost);
    assert_eq!(losses.names(), ["seed", "top_k"]);
}
