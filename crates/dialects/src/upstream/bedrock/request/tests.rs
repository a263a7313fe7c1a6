use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::front::chat::read;
use crate::front::fields::tests::{Worded, through};
use crate::neutral::{Kept, Refused, Thought, Undo};
use crate::upstream::bedrock::model_traits;

const CLAUDE: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const CLAUDE_3: &str = "anthropic.claude-3-haiku-20240307-v1:0";
const CLAUDE_4: &str = "us.anthropic.claude-sonnet-4-20250514-v1:0";
const CLAUDE_4_6: &str = "global.anthropic.claude-opus-4-6-v1";
const NOVA: &str = "amazon.nova-pro-v1:0";
const NOVA_2: &str = "us.amazon.nova-2-lite-v1:0";
const LLAMA: &str = "us.meta.llama3-3-70b-instruct-v1:0";
const MISTRAL: &str = "mistral.mistral-large-2407-v1:0";
const GPT: &str = "openai.gpt-oss-120b-1:0";
const QWEN: &str = "qwen.qwen3-32b-v1:0";
const R1: &str = "us.deepseek.r1-v1:0";

fn written(model: &str, body: &str) -> Result<Worded, Refused> {
    written_with(model, None, body, &|_| None)
}

fn written_with(
    model: &str,
    default_max_tokens: Option<u64>,
    body: &str,
    kept: &dyn Fn(&str) -> Option<Kept>,
) -> Result<Worded, Refused> {
    let target = Target {
        model,
        traits: model_traits(model),
        default_max_tokens,
        stream: true,
        within: None,
        kept,
    };
    through(body.as_bytes(), &target, write_request)
}

/// Checks a whole request: its body, and the names of its losses.
#[track_caller]
fn check(model: &str, body: &str, expected: &str, losses: &[&str]) {
    let written = written(model, body).unwrap();
    assert_eq!(String::from_utf8(written.body).unwrap(), expected);
    assert_eq!(written.losses.names(), losses);
}

const HI: &str = r#""messages":[{"role":"user","content":"hi"}]"#;
const SAID_HI: &str = r#""messages":[{"role":"user","content":[{"text":"hi"}]}]"#;

/// Checks the fields that fields outside the messages become; they may stand before the messages,
/// and after them.
#[track_caller]
fn check_fields(model: &str, fields: &str, before: &str, after: &str, losses: &[&str]) {
    check(
        model,
        &format!("{{{HI},{fields}}}"),
        &format!("{{{before}{SAID_HI}{after}}}"),
        losses,
    );
}

/// Checks the messages that messages become.
#[track_caller]
fn check_messages(model: &str, messages: &str, expected: &str, losses: &[&str]) {
    check(
        model,
        &format!(r#"{{"messages":[{messages}]}}"#),
        &format!("{{{expected}}}"),
        losses,
    );
}

/// Checks the content that a user's content becomes.
#[track_caller]
fn check_content(model: &str, content: &str, expected: &str, losses: &[&str]) {
    let messages = format!(r#"{{"role":"user","content":[{content}]}}"#);
    check_messages(
        model,
        &messages,
        &format!(r#""messages":[{{"role":"user","content":[{expected}]}}]"#),
        losses,
    );
}

#[track_caller]
fn check_refused(model: &str, body: &str, param: &str) {
    match written(model, body) {
        Err(Refused::Unsupported(complaint)) => assert_eq!(complaint.param, param),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check_invalid(model: &str, body: &str, param: &str) {
    match written(model, body) {
        Err(Refused::Invalid(complaint)) => assert_eq!(complaint.param, param),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_least() {
    check(
        CLAUDE,
        &format!(r#"{{"model":"m","stream":true,{HI}}}"#),
        &format!("{{{SAID_HI}}}"),
        &[],
    );
}

#[test]
fn turns_alternate_and_nothing_is_blank() {
    check_messages(
        CLAUDE,
        r#"{"role":"system","content":"be"},{"role":"user","content":"a"},{"role":"developer","content":[{"type":"text","text":"brief"}]},
           {"role":"user","content":"b"},{"role":"assistant","content":""},{"role":"assistant","content":" \n"},{"role":"user","content":"c"},
           {"role":"system","content":" "},{"role":"assistant","content":"d"},{"role":"assistant","content":"e"},{"role":"user","content":[{"type":"text","text":" "},{"type":"text","text":"f"}]}"#,
        r#""system":[{"text":"be"},{"text":"brief"}],"messages":[{"role":"user","content":[{"text":"a"},{"text":"b"},{"text":"c"}]},{"role":"assistant","content":[{"text":"d"},{"text":"e"}]},{"role":"user","content":[{"text":"f"}]}]"#,
        &[],
    );
}

#[test]
fn the_user_speaks_first_and_as_a_rule_last() {
    check_messages(
        CLAUDE,
        r#"{"role":"assistant","content":"a"},{"role":"user","content":"b"}"#,
        r#""messages":[{"role":"user","content":[{"text":"."}]},{"role":"assistant","content":[{"text":"a"}]},{"role":"user","content":[{"text":"b"}]}]"#,
        &[],
    );
    let prefilled = r#"{"role":"user","content":"a"},{"role":"assistant","content":"b \n"}"#;
    let expected = r#""messages":[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"text":"b"}]}]"#;
    check_messages(CLAUDE, prefilled, expected, &[]);
    check_refused(
        CLAUDE_4_6,
        &format!(r#"{{"messages":[{prefilled}]}}"#),
        "messages[1]",
    );
    check_refused(
        CLAUDE,
        r#"{"messages":[{"role":"system","content":" "}]}"#,
        "messages",
    );
    check_messages(
        CLAUDE,
        r#"{"role":"system","content":"be"}"#,
        r#""messages":[{"role":"user","content":[{"text":"be"}]}]"#,
        &["messages[].role"],
    );
    check_refused(
        CLAUDE,
        r#"{"messages":[{"role":"user","content":" "}]}"#,
        "messages",
    );
}

#[test]
fn names_are_lost() {
    check_messages(
        CLAUDE,
        r#"{"role":"user","content":"hi","name":"ann"}"#,
        SAID_HI,
        &["messages[].name"],
    );
}

#[test]
fn calls_and_results() {
    let tools = r#""toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object","properties":{}}}}}]},"#;
    let user = r#"{"role":"user","content":[{"text":"hi"}]}"#;
    let body = |messages: &str| {
        format!(
            r#"{{"tools":[{{"type":"function","function":{{"name":"f"}}}}],"messages":[{{"role":"user","content":"hi"}},{messages}]}}"#
        )
    };
    let check = |messages: &str, expected: &str, losses: &[&str]| {
        check(
            CLAUDE,
            &body(messages),
            &format!(r#"{{{tools}"messages":[{user},{expected}]}}"#),
            losses,
        );
    };
    let call = |id: &str, arguments: &str| {
        format!(
            r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":{arguments}}}}}"#
        )
    };
    let used = |id: &str, input: &str| {
        format!(r#"{{"toolUse":{{"toolUseId":"{id}","name":"f","input":{input}}}}}"#)
    };
    let gave = |id: &str, text: &str| {
        format!(r#"{{"toolResult":{{"toolUseId":"{id}","content":[{{"text":"{text}"}}]}}}}"#)
    };
    // All results of a turn in one message, in the order of their calls, before the user's text.
    check(
        &format!(
            r#"{{"role":"assistant","content":"ok","tool_calls":[{},{}]}},{{"role":"tool","tool_call_id":"b","content":"2"}},{{"role":"tool","tool_call_id":"a","content":[{{"type":"text","text":"1"}}]}},{{"role":"user","content":"go"}}"#,
            call("a", r#""{ \"q\": 1.0 }\n""#),
            call("b", r#""""#)
        ),
        &format!(
            r#"{{"role":"assistant","content":[{{"text":"ok"}},{},{}]}},{{"role":"user","content":[{},{},{{"text":"go"}}]}}"#,
            used("a", r#"{ "q": 1.0 }"#),
            used("b", "{}"),
            gave("a", "1"),
            gave("b", "2")
        ),
        &[],
    );
    // Arguments of a model that are no object go back all the same.
    for (arguments, input, losses) in [
        (r#""null""#, "{}", &[][..]),
        (r#""{}""#, "{}", &[]),
        (
            r#""{\"a\":""#,
            r#"{"_raw":"{\"a\":"}"#,
            &["messages[].tool_calls[].function.arguments"],
        ),
        (
            r#""[1]""#,
            r#"{"_raw":"[1]"}"#,
            &["messages[].tool_calls[].function.arguments"],
        ),
        (
            r#""{} {}""#,
            r#"{"_raw":"{} {}"}"#,
            &["messages[].tool_calls[].function.arguments"],
        ),
    ] {
        check(
            &format!(
                r#"{{"role":"assistant","tool_calls":[{}]}},{{"role":"tool","tool_call_id":"a","content":"1"}}"#,
                call("a", arguments)
            ),
            &format!(
                r#"{{"role":"assistant","content":[{}]}},{{"role":"user","content":[{}]}}"#,
                used("a", input),
                gave("a", "1")
            ),
            losses,
        );
    }
    // A result must have content.
    for content in [r#""""#, r#"" ""#, "null", "[]"] {
        check(
            &format!(
                r#"{{"role":"assistant","tool_calls":[{}]}},{{"role":"tool","tool_call_id":"a","content":{content}}}"#,
                call("a", r#""{}""#)
            ),
            &format!(
                r#"{{"role":"assistant","content":[{}]}},{{"role":"user","content":[{}]}}"#,
                used("a", "{}"),
                gave("a", "(nothing)")
            ),
            &[],
        );
    }
    // Ids that may not be, and ids of several calls, are rewritten on both sides.
    let long = "x".repeat(65);
    check(
        &format!(
            r#"{{"role":"assistant","tool_calls":[{},{},{}]}},{{"role":"tool","tool_call_id":"a/b","content":"1"}},{{"role":"tool","tool_call_id":"a/b","content":"2"}},{{"role":"tool","tool_call_id":"{long}","content":"3"}}"#,
            call("a/b", r#""{}""#),
            call("a/b", r#""{}""#),
            call(&long, r#""{}""#)
        ),
        &format!(
            r#"{{"role":"assistant","content":[{},{},{}]}},{{"role":"user","content":[{},{},{}]}}"#,
            used("a_b", "{}"),
            used("a_b_2", "{}"),
            used(&"x".repeat(64), "{}"),
            gave("a_b", "1"),
            gave("a_b_2", "2"),
            gave(&"x".repeat(64), "3")
        ),
        &[],
    );
    check_invalid(
        CLAUDE,
        &body(r#"{"role":"tool","tool_call_id":"a","content":"1"}"#),
        "messages[1]",
    );
    check_invalid(
        CLAUDE,
        &body(&format!(
            r#"{{"role":"assistant","tool_calls":[{}]}}"#,
            call("a", r#""{}""#)
        )),
        "messages[1].tool_calls",
    );
}

const CALLED: &str = r#"{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"1"}"#;
const SAID_CALLED: &str = r#""messages":[{"role":"user","content":[{"text":"hi"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"a","name":"f","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[{"text":"1"}]}}]}]"#;
const F: &str = r#"{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"q":{"type":"number"}}}}}"#;
const SPEC_F: &str = r#"{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object","properties":{"q":{"type":"number"}}}}}}"#;
const G: &str = r#"{"type":"function","function":{"name":"g","description":"does"}}"#;
const SPEC_G: &str = r#"{"toolSpec":{"name":"g","description":"does","inputSchema":{"json":{"type":"object","properties":{}}}}}"#;

/// Checks the `toolConfig` of these tools and this choice, or that there is none.
#[track_caller]
fn check_tools(model: &str, fields: &str, config: &str, losses: &[&str]) {
    let config = if config.is_empty() {
        String::new()
    } else {
        format!(r#""toolConfig":{{{config}}},"#)
    };
    check_fields(model, fields, &config, "", losses);
}

#[test]
fn tools() {
    check_tools(
        CLAUDE,
        &format!(r#""tools":[{F},{G}]"#),
        &format!(r#""tools":[{SPEC_F},{SPEC_G}]"#),
        &[],
    );
    check_tools(CLAUDE, r#""tools":[]"#, "", &[]);
    for (parameters, expected) in [
        (
            r#"{"properties":{}}"#,
            r#"{"type":"object","properties":{}}"#,
        ),
        (
            r#"{ "type":"object","x":1e2 }"#,
            r#"{ "type":"object","x":1e2 }"#,
        ),
        ("null", r#"{"type":"object","properties":{}}"#),
    ] {
        check_tools(
            LLAMA,
            &format!(
                r#""tools":[{{"type":"function","function":{{"name":"f","description":"","parameters":{parameters}}}}}]"#
            ),
            &format!(
                r#""tools":[{{"toolSpec":{{"name":"f","inputSchema":{{"json":{expected}}}}}}}]"#
            ),
            &[],
        );
    }
    check_tools(
        CLAUDE,
        r#""tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"anyOf":[{"type":"object"}]}}}]"#,
        r#""tools":[{"toolSpec":{"name":"f","description":"d\n\nThe input must also match this JSON Schema: {\"anyOf\":[{\"type\":\"object\"}]}","inputSchema":{"json":{"type":"object"}}}}]"#,
        &["tools[].function.parameters"],
    );
    check_refused(
        CLAUDE,
        &format!(r#"{{{HI},"tools":[{F},{{"type":"custom","custom":{{"name":"c"}}}}]}}"#),
        "tools[1]",
    );
    check_refused(
        CLAUDE,
        &format!(r#"{{{HI},"tools":[{{"type":"web_search"}}]}}"#),
        "tools[0]",
    );
    check_refused(R1, &format!(r#"{{{HI},"tools":[{F}]}}"#), "tools");
    check_refused(
        R1,
        &format!(r#"{{"messages":[{CALLED}]}}"#),
        "messages[1].tool_calls",
    );
    check_tools(
        R1,
        &format!(r#""tools":[{F}],"tool_choice":"none""#),
        "",
        &[],
    );
}

#[test]
fn strict_tools() {
    let strict = r#""tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{"q":{"type":"number"}},"required":["q"],"additionalProperties":false}}}]"#;
    let schema = r#"{"type":"object","properties":{"q":{"type":"number"}},"required":["q"],"additionalProperties":false}"#;
    check_tools(
        CLAUDE,
        strict,
        &format!(
            r#""tools":[{{"toolSpec":{{"name":"f","inputSchema":{{"json":{schema}}},"strict":true}}}}]"#
        ),
        &[],
    );
    for model in [CLAUDE_3, NOVA, QWEN] {
        let config =
            format!(r#""tools":[{{"toolSpec":{{"name":"f","inputSchema":{{"json":{schema}}}}}}}]"#);
        check_tools(model, strict, &config, &["tools[].function.strict"]);
    }
    check_tools(
        CLAUDE,
        &format!(
            r#""tools":[{}]"#,
            F.replace(r#""name":"f""#, r#""name":"f","strict":false"#)
        ),
        &format!(r#""tools":[{SPEC_F}]"#),
        &[],
    );
}

#[test]
fn tool_choice() {
    let both = format!(r#""tools":[{SPEC_F},{SPEC_G}]"#);
    let fields = |choice: &str| format!(r#""tools":[{F},{G}],"tool_choice":{choice}"#);
    let any = format!(r#"{both},"toolChoice":{{"any":{{}}}}"#);
    let named = r#"{"type":"function","function":{"name":"g"}}"#;
    let allowed = |mode: &str, name: &str| {
        format!(
            r#"{{"type":"allowed_tools","allowed_tools":{{"mode":"{mode}","tools":[{{"type":"function","function":{{"name":"{name}"}}}}]}}}}"#
        )
    };
    check_tools(CLAUDE, &fields(r#""auto""#), &both, &[]);
    check_tools(CLAUDE, &fields(r#""none""#), "", &[]);
    check_tools(CLAUDE, &fields(r#""required""#), &any, &[]);
    check_tools(
        CLAUDE,
        &fields(named),
        &format!(r#"{both},"toolChoice":{{"tool":{{"name":"g"}}}}"#),
        &[],
    );
    check_tools(
        CLAUDE,
        &fields(&allowed("auto", "g")),
        &format!(r#""tools":[{SPEC_G}]"#),
        &[],
    );
    check_tools(
        CLAUDE,
        &fields(&allowed("required", "g")),
        &format!(r#""tools":[{SPEC_G}],"toolChoice":{{"any":{{}}}}"#),
        &[],
    );
    // A model that cannot be made to call a certain tool has only this one.
    check_tools(MISTRAL, &fields(r#""required""#), &any, &[]);
    check_tools(
        MISTRAL,
        &fields(named),
        &format!(r#""tools":[{SPEC_G}],"toolChoice":{{"any":{{}}}}"#),
        &[],
    );
    // Or cannot be made to at all.
    check_tools(LLAMA, &fields(r#""auto""#), &both, &[]);
    check_refused(
        LLAMA,
        &format!("{{{HI},{}}}", fields(r#""required""#)),
        "tool_choice",
    );
    check_refused(LLAMA, &format!("{{{HI},{}}}", fields(named)), "tool_choice");
    check_tools(CLAUDE, r#""parallel_tool_calls":false"#, "", &[]);
    check_tools(
        CLAUDE,
        &format!(r#""tools":[{F}],"parallel_tool_calls":true"#),
        &format!(r#""tools":[{SPEC_F}]"#),
        &[],
    );
    check_tools(
        CLAUDE,
        &format!(r#""tools":[{F}],"parallel_tool_calls":false"#),
        &format!(r#""tools":[{SPEC_F}]"#),
        &["parallel_tool_calls"],
    );
}

/// Calls in a conversation are refused where there are no tools.
#[test]
fn conversations_with_calls_have_tools() {
    let stub = r#"{"toolSpec":{"name":"no_tool","description":"Does nothing. There are no tools any more: do not call any.","inputSchema":{"json":{"type":"object","properties":{}}}}}"#;
    // The stub is named as added, and a call of it is no call.
    let body = format!(r#"{{"messages":[{CALLED}]}}"#);
    check(
        CLAUDE,
        &body,
        &format!(r#"{{"toolConfig":{{"tools":[{stub}]}},{SAID_CALLED}}}"#),
        &["tools"],
    );
    let written_so = written(CLAUDE, &body).unwrap();
    assert_eq!(written_so.undo.stubs, ["no_tool"]);
    assert_eq!(
        written_so.losses.first_lost(),
        None,
        "nobody is refused for it"
    );
    check(
        CLAUDE,
        &format!(r#"{{"messages":[{CALLED}],"tools":[{F}],"tool_choice":"none"}}"#),
        &format!(r#"{{"toolConfig":{{"tools":[{SPEC_F}]}},{SAID_CALLED}}}"#),
        &["tool_choice"],
    );
}

#[test]
fn anothers_signature_of_a_call_is_lost() {
    let signed = CALLED.replace(
        r#"}}]}"#,
        r#"},"extra_content":{"google":{"thought_signature":"eA=="}}}]}"#,
    );
    let written = written(
        CLAUDE,
        &format!(r#"{{"messages":[{signed}],"tools":[{F}]}}"#),
    )
    .unwrap();
    assert_eq!(
        written.losses.names(),
        ["messages[].tool_calls[].extra_content"]
    );
}

#[test]
fn a_results_own_hint_says_how_long() {
    let hinted = CALLED.replace(
        r#""content":"1"}"#,
        r#""content":"1","cache_control":{"type":"ephemeral","ttl":"1h"}}"#,
    );
    let written = written(
        CLAUDE,
        &format!(r#"{{"messages":[{hinted}],"tools":[{F}]}}"#),
    )
    .unwrap();
    let body = String::from_utf8(written.body).unwrap();
    assert!(
        body.contains(
            r#""content":[{"text":"1"}]}},{"cachePoint":{"type":"default","ttl":"1h"}}]"#
        ),
        "{body}"
    );
}

#[test]
fn names_that_may_not_be_are_changed_and_undone() {
    let body = format!(
        r#"{{{HI},"tools":[{{"type":"function","function":{{"name":"a.b"}}}},{{"type":"function","function":{{"name":"a_b"}}}}],"tool_choice":{{"type":"function","function":{{"name":"a.b"}}}}}}"#
    );
    let written = written(CLAUDE, &body).unwrap();
    let body = String::from_utf8(written.body).unwrap();
    assert!(
        body.contains(r#""toolSpec":{"name":"a_b_2""#)
            && body.contains(r#""toolChoice":{"tool":{"name":"a_b_2"}}"#),
        "{body}"
    );
    assert_eq!(
        written.undo,
        Undo {
            names: vec![("a_b_2".into(), "a.b".into())],
            ..Undo::default()
        }
    );
}

#[test]
fn pictures() {
    let image = |url: &str, more: &str| {
        format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"{more}}}}}"#)
    };
    let written = |format: &str, data: &str| {
        format!(r#"{{"image":{{"format":"{format}","source":{{"bytes":"{data}"}}}}}}"#)
    };
    for (kind, format) in [
        ("png", "png"),
        ("jpeg", "jpeg"),
        ("jpg", "jpeg"),
        ("gif", "gif"),
        ("webp", "webp"),
    ] {
        check_content(
            CLAUDE,
            &image(&format!("data:image/{kind};base64,QUJD"), ""),
            &written(format, "QUJD"),
            &[],
        );
    }
    check_content(
        NOVA,
        &image("data:image/png;base64,QUJD", r#","detail":"auto""#),
        &written("png", "QUJD"),
        &[],
    );
    check_content(
        NOVA,
        &image("data:image/png;base64,QUJD", r#","detail":"high""#),
        &written("png", "QUJD"),
        &["messages[].content[].image_url.detail"],
    );
    let refused = |model: &str, part: &str, field: &str| {
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":[{{"type":"text","text":"a"}},{part}]}}]}}"#
        );
        check_refused(model, &body, &format!("messages[0].content[1].{field}"));
    };
    refused(CLAUDE, &image("https://example.com/a.png", ""), "image_url");
    refused(
        CLAUDE,
        &image("data:image/bmp;base64,QUJD", ""),
        "image_url",
    );
    refused(LLAMA, &image("data:image/png;base64,QUJD", ""), "image_url");
    refused(
        CLAUDE,
        r#"{"type":"input_audio","input_audio":{"data":"QUJD","format":"wav"}}"#,
        "input_audio",
    );
    refused(
        CLAUDE,
        r#"{"type":"file","file":{"file_id":"file-1"}}"#,
        "file",
    );
    refused(
        CLAUDE,
        r#"{"type":"file","file":{"file_data":"data:video/mp4;base64,QUJD","filename":"a.mp4"}}"#,
        "file",
    );
}

#[test]
fn pictures_in_results() {
    let body = CALLED.replace(
        r#""content":"1"}"#,
        r#""content":[{"type":"text","text":"1"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}]}"#,
    );
    let written = written(CLAUDE, &format!(r#"{{"messages":[{body}],"tools":[{F}]}}"#)).unwrap();
    let body = String::from_utf8(written.body).unwrap();
    assert!(
        body.ends_with(
            r#""content":[{"text":"1"},{"image":{"format":"png","source":{"bytes":"QUJD"}}}]}}]}]}"#
        ),
        "{body}"
    );
}

#[test]
fn files() {
    let file = |kind: &str, name: &str| {
        format!(
            r#"{{"type":"file","file":{{"file_data":"data:{kind};base64,QUJD","filename":"{name}"}}}}"#
        )
    };
    let text = r#"{"type":"text","text":"a"}"#;
    for (kind, name, format, written) in [
        (
            "application/pdf",
            "Report (final)_v1.pdf",
            "pdf",
            "Report (final)-v1-pdf",
        ),
        ("text/csv", "a", "csv", "a"),
        ("text/html", "a", "html", "a"),
        ("text/markdown", "a", "md", "a"),
        ("text/plain", "a.md", "md", "a-md"),
        ("text/plain", "a.TXT", "txt", "a-TXT"),
        ("text/x-rust", "a.rs", "txt", "a-rs"),
        ("application/json", "a.json", "txt", "a-json"),
        ("application/msword", "a", "doc", "a"),
        (
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            "a",
            "docx",
            "a",
        ),
        ("application/vnd.ms-excel", "a", "xls", "a"),
        (
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            "a",
            "xlsx",
            "a",
        ),
        ("application/octet-stream", "a.xlsx", "xlsx", "a-xlsx"),
        (
            "application/octet-stream",
            "é/../[1]   x.pdf ",
            "pdf",
            "-[1] x-pdf",
        ),
        ("application/pdf", "  ", "pdf", "document"),
    ] {
        // The ending is behind blanks there.
        let name = if name.ends_with(' ') && !name.trim().is_empty() {
            name.trim()
        } else {
            name
        };
        check_content(
            CLAUDE,
            &format!("{text},{}", file(kind, name)),
            &format!(
                r#"{{"text":"a"}},{{"document":{{"name":"{written}","format":"{format}","source":{{"bytes":"QUJD"}}}}}}"#
            ),
            &[],
        );
    }
    let document = |name: &str| {
        format!(r#"{{"document":{{"name":"{name}","format":"pdf","source":{{"bytes":"QUJD"}}}}}}"#)
    };
    // No two have one name, and none is alone.
    let pdf = file("application/pdf", "a");
    check_content(
        CLAUDE,
        &format!("{pdf},{pdf},{},{pdf}", file("application/pdf", "a 2")),
        &format!(
            r#"{},{},{},{},{{"text":"."}}"#,
            document("a"),
            document("a 2"),
            document("a 2 2"),
            document("a 3")
        ),
        &[],
    );
    check_content(
        CLAUDE,
        &file("image/png", "a.png"),
        r#"{"image":{"format":"png","source":{"bytes":"QUJD"}}}"#,
        &[],
    );
}

#[test]
fn inference() {
    check_fields(
        CLAUDE_3,
        r#""max_tokens":100"#,
        "",
        r#","inferenceConfig":{"maxTokens":100}"#,
        &[],
    );
    check_fields(
        CLAUDE_3,
        r#""max_completion_tokens":5000"#,
        "",
        r#","inferenceConfig":{"maxTokens":4096}"#,
        &["max_completion_tokens"],
    );
    check_fields(
        CLAUDE_3,
        r#""temperature":0.70,"top_p":1e-1"#,
        "",
        r#","inferenceConfig":{"temperature":0.70,"topP":1e-1}"#,
        &[],
    );
    check_fields(
        CLAUDE_3,
        r#""temperature":1.5"#,
        "",
        r#","inferenceConfig":{"temperature":1}"#,
        &["temperature"],
    );
    check_fields(
        CLAUDE,
        r#""temperature":0.5,"top_p":0.9"#,
        "",
        r#","inferenceConfig":{"temperature":0.5}"#,
        &["top_p"],
    );
    check_fields(
        CLAUDE,
        r#""temperature":0.5,"top_p":1"#,
        "",
        r#","inferenceConfig":{"temperature":0.5}"#,
        &[],
    );
    check_fields(
        CLAUDE,
        r#""top_p":0.9"#,
        "",
        r#","inferenceConfig":{"topP":0.9}"#,
        &[],
    );
    let newer = "anthropic.claude-opus-4-7-v1";
    check_fields(
        newer,
        r#""temperature":0.5,"top_p":0.9,"top_k":5"#,
        "",
        "",
        &["temperature", "top_p", "top_k"],
    );
    check_fields(newer, r#""temperature":1,"top_p":1"#, "", "", &[]);
    check_fields(
        NOVA,
        r#""temperature":1,"stop":"x""#,
        "",
        r#","inferenceConfig":{"temperature":1,"stopSequences":["x"]}"#,
        &[],
    );
    check_fields(
        NOVA,
        r#""stop":["a"," ","b"]"#,
        "",
        r#","inferenceConfig":{"stopSequences":["a","b"]}"#,
        &["stop"],
    );
    check_fields(
        CLAUDE,
        r#""top_k":5"#,
        "",
        r#","additionalModelRequestFields":{"top_k":5}"#,
        &[],
    );
    check_fields(
        NOVA,
        r#""top_k":5"#,
        "",
        r#","additionalModelRequestFields":{"inferenceConfig":{"topK":5}}"#,
        &[],
    );
    check_fields(LLAMA, r#""top_k":5"#, "", "", &["top_k"]);
    let body = format!("{{{HI}}}");
    let written = written_with(NOVA, Some(300), &body, &|_| None).unwrap();
    assert_eq!(
        String::from_utf8(written.body).unwrap(),
        format!(r#"{{{SAID_HI},"inferenceConfig":{{"maxTokens":300}}}}"#)
    );
}

#[test]
fn thinking() {
    let budget = |tokens: u64, max: u64| {
        format!(
            r#","inferenceConfig":{{"maxTokens":{max}}},"additionalModelRequestFields":{{"thinking":{{"type":"enabled","budget_tokens":{tokens}}}}}"#
        )
    };
    check_fields(
        CLAUDE,
        r#""reasoning_effort":"low","max_tokens":4096"#,
        "",
        &budget(1024, 4096),
        &[],
    );
    check_fields(
        CLAUDE,
        r#""reasoning_effort":"high","max_tokens":32000"#,
        "",
        &budget(24000, 32000),
        &[],
    );
    check_fields(
        CLAUDE,
        r#""reasoning_effort":"low","temperature":0.5,"top_k":5,"max_tokens":4096"#,
        "",
        &budget(1024, 4096),
        &["temperature", "top_k"],
    );
    check_fields(
        CLAUDE,
        r#""reasoning_effort":"low","max_tokens":500"#,
        "",
        r#","inferenceConfig":{"maxTokens":500}"#,
        &["reasoning_effort"],
    );
    check_fields(CLAUDE, r#""reasoning_effort":"none""#, "", "", &[]);
    check_fields(
        CLAUDE_3,
        r#""reasoning_effort":"low""#,
        "",
        "",
        &["reasoning_effort"],
    );
    check_fields(
        CLAUDE_4_6,
        r#""reasoning_effort":"medium""#,
        "",
        r#","outputConfig":{"effort":"medium"},"additionalModelRequestFields":{"thinking":{"type":"adaptive","display":"summarized"}}"#,
        &[],
    );
    check_fields(
        CLAUDE_4_6,
        r#""reasoning_effort":"none""#,
        "",
        r#","additionalModelRequestFields":{"thinking":{"type":"disabled"}}"#,
        &[],
    );
    check_fields(
        CLAUDE,
        r#""thinking":{"type":"enabled","budget_tokens":2000},"max_tokens":4096"#,
        "",
        &budget(2000, 4096),
        &[],
    );
    check_invalid(
        CLAUDE,
        &format!(r#"{{{HI},"thinking":{{"type":"new"}}}}"#),
        "thinking.type",
    );
    let all = r#""thinking":{"type":"enabled","budget_tokens":2000},"max_tokens":2000"#;
    check_invalid(CLAUDE, &format!("{{{HI},{all}}}"), "thinking.budget_tokens");
    check_fields(
        NOVA,
        r#""thinking":{"type":"enabled","budget_tokens":2000}"#,
        "",
        "",
        &["thinking"],
    );
    check_fields(
        GPT,
        r#""thinking":{"type":"disabled"},"max_tokens":9"#,
        "",
        r#","inferenceConfig":{"maxTokens":9}"#,
        &["thinking"],
    );
    check_fields(GPT, r#""thinking":7"#, "", "", &["thinking"]);
    let nova = |effort: &str| {
        format!(
            r#","additionalModelRequestFields":{{"reasoningConfig":{{"type":"enabled","maxReasoningEffort":"{effort}"}}}}"#
        )
    };
    check_fields(
        NOVA_2,
        r#""reasoning_effort":"high""#,
        "",
        &nova("high"),
        &[],
    );
    check_fields(
        NOVA_2,
        r#""reasoning_effort":"minimal""#,
        "",
        &nova("low"),
        &["reasoning_effort"],
    );
    let bound = format!(
        r#","inferenceConfig":{{"maxTokens":100}}{}"#,
        nova("medium")
    );
    check_fields(
        NOVA_2,
        r#""reasoning_effort":"high","max_tokens":100"#,
        "",
        &bound,
        &["reasoning_effort"],
    );
    check_fields(
        NOVA_2,
        r#""reasoning_effort":"none""#,
        "",
        r#","additionalModelRequestFields":{"reasoningConfig":{"type":"disabled"}}"#,
        &[],
    );
    check_fields(
        NOVA,
        r#""reasoning_effort":"high""#,
        "",
        "",
        &["reasoning_effort"],
    );
    let gpt = |effort: &str| {
        format!(r#","additionalModelRequestFields":{{"reasoning_effort":"{effort}"}}"#)
    };
    check_fields(
        GPT,
        r#""reasoning_effort":"medium""#,
        "",
        &gpt("medium"),
        &[],
    );
    check_fields(
        GPT,
        r#""reasoning_effort":"xhigh""#,
        "",
        &gpt("high"),
        &["reasoning_effort"],
    );
    check_fields(
        GPT,
        r#""reasoning_effort":"none""#,
        "",
        &gpt("low"),
        &["reasoning_effort"],
    );
    check_fields(
        LLAMA,
        r#""reasoning_effort":"low""#,
        "",
        "",
        &["reasoning_effort"],
    );
}

#[test]
fn thoughts_go_back_in_front_of_their_calls() {
    let thoughtful = |body: &str| {
        body.replace(r#""tool_calls""#, r#""thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"cg=="}],"tool_calls""#)
    };
    let body = |more: &str| {
        format!(
            r#"{{"messages":[{}],"tools":[{F}]{more}}}"#,
            thoughtful(CALLED)
        )
    };
    let said = SAID_CALLED.replace(
        r#"[{"toolUse""#,
        r#"[{"reasoningContent":{"reasoningText":{"text":"hm","signature":"s"}}},{"reasoningContent":{"redactedContent":"cg=="}},{"toolUse""#,
    );
    let config = format!(r#""toolConfig":{{"tools":[{SPEC_F}]}},"#);
    // To who may think.
    check(
        CLAUDE,
        &body(""),
        &format!("{{{config}{SAID_CALLED}}}"),
        &["messages[].thinking_blocks"],
    );
    check(CLAUDE_4_6, &body(""), &format!("{{{config}{said}}}"), &[]);
    let thinks = r#","inferenceConfig":{"maxTokens":4096},"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":1024}}"#;
    check(
        CLAUDE,
        &body(r#","reasoning_effort":"low","max_tokens":4096"#),
        &format!("{{{config}{said}{thinks}}}"),
        &[],
    );
    // Other makers' models refuse them, and so do the newest if anything has changed.
    check(
        NOVA,
        &body(""),
        &format!("{{{config}{SAID_CALLED}}}"),
        &["messages[].thinking_blocks"],
    );
    check(
        "anthropic.claude-opus-5-5-v1",
        &body(""),
        &format!("{{{config}{SAID_CALLED}}}"),
        &["messages[].thinking_blocks"],
    );
    // Kept here.
    let kept = |id: &str| {
        let thought = |text: &'static str, signature: &'static str| Thought {
            text: text.into(),
            signature: Some(signature.into()),
            redacted: None,
            of_call: false,
        };
        (id == "a").then(|| Arc::from([thought("kept", "k")]))
    };
    let body = format!(
        r#"{{"messages":[{CALLED}],"tools":[{F}],"reasoning_effort":"low","max_tokens":4096}}"#
    );
    let written = written_with(CLAUDE, None, &body, &kept).unwrap();
    let said = SAID_CALLED.replace(
        r#"[{"toolUse""#,
        r#"[{"reasoningContent":{"reasoningText":{"text":"kept","signature":"k"}}},{"toolUse""#,
    );
    assert_eq!(
        String::from_utf8(written.body).unwrap(),
        format!("{{{config}{said}{thinks}}}")
    );
    // Lost: then the model does not think.
    check(
        CLAUDE,
        &body,
        &format!(r#"{{{config}{SAID_CALLED},"inferenceConfig":{{"maxTokens":4096}}}}"#),
        &["reasoning_effort"],
    );
}

const SCHEMA: &str = r#"{"type":"object","properties":{"q":{"type":"number"}},"required":["q"],"additionalProperties":false}"#;

fn json_schema() -> String {
    format!(
        r#""response_format":{{"type":"json_schema","json_schema":{{"name":"n","description":"d","schema":{SCHEMA},"strict":true}}}}"#
    )
}

fn format_tool(about: &str, schema: &str) -> String {
    let start =
        "Gives the answer. Its input is all of the answer: nothing that is said besides is read.";
    format!(
        r#"{{"toolSpec":{{"name":"json_answer","description":"{start}{about}","inputSchema":{{"json":{schema}}}}}}}"#
    )
}

#[test]
fn formats_of_models_that_have_them() {
    let text = SCHEMA.replace('"', "\\\"");
    let native = format!(
        r#","outputConfig":{{"textFormat":{{"type":"json_schema","structure":{{"jsonSchema":{{"schema":"{text}","name":"n","description":"d"}}}}}}}}"#
    );
    check_fields(CLAUDE, &json_schema(), "", &native, &[]);
    // Not all models have it together with tools.
    check_fields(QWEN, &json_schema(), "", &native, &[]);
    let tools = format!(r#""toolConfig":{{"tools":[{SPEC_F}]}},"#);
    check_fields(
        CLAUDE,
        &format!(r#""tools":[{F}],{}"#, json_schema()),
        &tools,
        &native,
        &[],
    );
    check_fields(CLAUDE, r#""response_format":{"type":"text"}"#, "", "", &[]);
}

#[test]
fn formats_of_models_that_must_call() {
    let forced = r#""toolChoice":{"tool":{"name":"json_answer"}}"#;
    let tool = format_tool("\\n\\nd", SCHEMA);
    check_tools(
        CLAUDE_3,
        &json_schema(),
        &format!(r#""tools":[{tool}],{forced}"#),
        &[],
    );
    check_tools(
        NOVA,
        &json_schema(),
        &format!(r#""tools":[{tool}],{forced}"#),
        &[],
    );
    check_tools(
        MISTRAL,
        &json_schema(),
        &format!(r#""tools":[{tool}],"toolChoice":{{"any":{{}}}}"#),
        &[],
    );
    let any = format_tool("", r#"{"type":"object","additionalProperties":true}"#);
    check_tools(
        CLAUDE,
        r#""response_format":{"type":"json_object"}"#,
        &format!(r#""tools":[{any}],{forced}"#),
        &[],
    );
    // One or the other.
    check_tools(
        NOVA,
        &format!(r#""tools":[{F}],{}"#, json_schema()),
        &format!(r#""tools":[{SPEC_F},{tool}],"toolChoice":{{"any":{{}}}}"#),
        &[],
    );
    check_tools(
        NOVA,
        &format!(r#""tools":[{F}],"tool_choice":"none",{}"#, json_schema()),
        &format!(r#""tools":[{tool}],{forced}"#),
        &[],
    );
    // A call has no format, which is named as lost.
    for format in [
        json_schema().to_string(),
        r#""response_format":{"type":"json_object"}"#.to_owned(),
    ] {
        check_tools(
            NOVA,
            &format!(r#""tools":[{F}],"tool_choice":"required",{format}"#),
            &format!(r#""tools":[{SPEC_F}],"toolChoice":{{"any":{{}}}}"#),
            &["response_format"],
        );
    }
    // It is not made to think then.
    check_fields(
        CLAUDE_4,
        &format!(
            r#""reasoning_effort":"low","max_tokens":4096,{}"#,
            json_schema()
        ),
        &format!(r#""toolConfig":{{"tools":[{tool}],{forced}}},"#),
        r#","inferenceConfig":{"maxTokens":4096}"#,
        &["reasoning_effort"],
    );
    let undo = written(NOVA, &format!("{{{HI},{}}}", json_schema()))
        .unwrap()
        .undo;
    assert_eq!(
        undo,
        Undo {
            format_tool: Some("json_answer".into()),
            ..Undo::default()
        }
    );
    // Neither.
    check_refused(
        LLAMA,
        &format!("{{{HI},{}}}", json_schema()),
        "response_format.json_schema.schema",
    );
    check_refused(
        R1,
        &format!("{{{HI},{}}}", json_schema()),
        "response_format.json_schema.schema",
    );
    let hint = r#""system":[{"text":"Answer with one JSON object and with nothing else: no text before or after it, and no code fence around it."}],"#;
    check_fields(
        LLAMA,
        r#""response_format":{"type":"json_object"}"#,
        hint,
        "",
        &["response_format"],
    );
}

#[test]
fn cache_points() {
    let cached = r#""cache_control":{"type":"ephemeral"}"#;
    let body = format!(
        r#"{{"messages":[{{"role":"system","content":[{{"type":"text","text":"be",{cached}}}]}},{{"role":"user","content":[{{"type":"text","text":"a","cache_control":{{"type":"ephemeral","ttl":"1h"}}}},{{"type":"text","text":"b"}}]}}],"tools":[{}]}}"#,
        F.replacen('{', &format!("{{{cached},"), 1)
    );
    let point = r#",{"cachePoint":{"type":"default"}}"#;
    let long = r#",{"cachePoint":{"type":"default","ttl":"1h"}}"#;
    let expected = |tool: &str, system: &str, part: &str| {
        format!(
            r#"{{"toolConfig":{{"tools":[{SPEC_F}{tool}]}},"system":[{{"text":"be"}}{system}],"messages":[{{"role":"user","content":[{{"text":"a"}}{part},{{"text":"b"}}]}}]}}"#
        )
    };
    check(CLAUDE, &body, &expected(point, point, long), &[]);
    check(NOVA, &body, &expected("", point, point), &["cache_control"]);
    check(LLAMA, &body, &expected("", "", ""), &["cache_control"]);
    let result = CALLED.replace(
        r#""content":"1"}"#,
        &format!(r#""content":[{{"type":"text","text":"1",{cached}}}]}}"#),
    );
    let said = SAID_CALLED.replace(
        r#"[{"text":"1"}]}}"#,
        &format!(r#"[{{"text":"1"}}]}}}}{point}"#),
    );
    check(
        CLAUDE,
        &format!(r#"{{"messages":[{result}],"tools":[{F}]}}"#),
        &format!(r#"{{"toolConfig":{{"tools":[{SPEC_F}]}},{said}}}"#),
        &[],
    );
    // Four, the last ones.
    let part = |text: u8| format!(r#"{{"type":"text","text":"{text}",{cached}}}"#);
    let parts: Vec<String> = (0..6).map(part).collect();
    let expected: Vec<String> = (0..6)
        .map(|text| {
            format!(
                r#"{{"text":"{text}"}}{}"#,
                if text < 2 { "" } else { point }
            )
        })
        .collect();
    check_content(
        CLAUDE,
        &parts.join(","),
        &expected.join(","),
        &["cache_control"],
    );
}

#[test]
fn what_changes_the_meaning_is_refused() {
    for (field, param) in [
        (r#""n":2"#, "n"),
        (r#""logprobs":true"#, "logprobs"),
        (r#""top_logprobs":3"#, "logprobs"),
        (
            r#""modalities":["text","audio"],"audio":{"voice":"a","format":"wav"}"#,
            "modalities",
        ),
    ] {
        check_refused(CLAUDE, &format!("{{{HI},{field}}}"), param);
    }
    check_fields(
        CLAUDE,
        r#""n":1,"logprobs":false,"modalities":["text"]"#,
        "",
        "",
        &[],
    );
}

#[test]
fn what_is_lost_is_said() {
    check_fields(
        NOVA,
        r#""seed":1,"user":"u","frequency_penalty":0.5,"presence_penalty":0.5,"logit_bias":{"1":2},"prediction":{"type":"content"},"a b":1,"min_p":0.1"#,
        "",
        "",
        &[
            "frequency_penalty",
            "presence_penalty",
            "seed",
            "user",
            "logit_bias",
            "prediction",
            "other",
            "min_p",
        ],
    );
    check_fields(
        NOVA,
        r#""frequency_penalty":0,"presence_penalty":0.0,"logit_bias":{},"store":false,"seed":null"#,
        "",
        "",
        &[],
    );
}

#[test]
fn tiers_and_labels() {
    for tier in ["auto", "default"] {
        check_fields(NOVA, &format!(r#""service_tier":"{tier}""#), "", "", &[]);
    }
    for tier in ["flex", "priority", "reserved"] {
        check_fields(
            NOVA,
            &format!(r#""service_tier":"{tier}""#),
            "",
            &format!(r#","serviceTier":{{"type":"{tier}"}}"#),
            &[],
        );
    }
    check_fields(NOVA, r#""service_tier":"scale""#, "", "", &["service_tier"]);
    check_fields(
        NOVA,
        r#""metadata":{"a b":"x/y","c":""}"#,
        "",
        r#","requestMetadata":{"a b":"x/y","c":""}"#,
        &[],
    );
    check_fields(NOVA, r#""metadata":{}"#, "", "", &[]);
    let many: Vec<String> = (0..17).map(|at| format!(r#""k{at}":"v""#)).collect();
    for metadata in [
        r#"{"a":1}"#,
        r#"{"a":"é"}"#,
        r#"{"":"x"}"#,
        r#"{"a":"x","b":{}}"#,
        &format!("{{{}}}", many.join(",")),
    ] {
        check_fields(
            NOVA,
            &format!(r#""metadata":{metadata}"#),
            "",
            "",
            &["metadata"],
        );
    }
}

const EVERYTHING: &str = r#"{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"be","cache_control":{"type":"ephemeral"}}]},
{"role":"user","content":[{"type":"text","text":"a\u00e9\n"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,QUJD","filename":"a.pdf"}}]},
{"role":"assistant","content":"b","thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"s"}],"tool_calls":[{"id":"a/b","type":"function","function":{"name":"f.g","arguments":" { \"q\": 1 } "}}]},
{"role":"tool","tool_call_id":"a/b","content":"1"},{"role":"user","content":"c"}],"tools":[{"type":"function","function":{"name":"f.g","description":"d","strict":true,"parameters": { "properties": { "q": { "type": "number" , "minimum": 1 } } } }}],
"tool_choice":"auto","parallel_tool_calls":false,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{"q":{"type":"number"}}}}},
"max_tokens":5000,"temperature":0.5,"top_p":0.9,"top_k":5,"stop":["x"],"seed":1,"reasoning_effort":"low","metadata":{"a":"b"},"service_tier":"flex","user":"u","min_p":0.1}"#;

proptest! {
    /// A request that can be read can be written or is refused, and the written one is JSON.
    #[test]
    fn whatever_is_read_becomes_json(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..4usize, "[ -~\\n]{0,6}"), 0..4),
        model in prop::sample::select(vec![CLAUDE, CLAUDE_3, CLAUDE_4_6, NOVA, NOVA_2, LLAMA, MISTRAL, GPT, QWEN, "arn:x"]),
    ) {
        let mut body = EVERYTHING.to_owned();
        for (at, length, with) in edits {
            let at = at.index(body.len());
            body.replace_range(at..(at + length).min(body.len()), &with);
        }
        let read = read::read_request(body.as_bytes());
        let Ok((read, _)) = read else { return Ok(()) };
        let target = Target { model, traits: model_traits(model), default_max_tokens: None, stream: false, within: None, kept: &|_| None };
        if let Ok(written) = write_request(&read, &target) {
            let text = String::from_utf8(written.body).unwrap();
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
        }
    }
}

#[test]
fn everything_at_once() {
    for model in [CLAUDE, NOVA] {
        let written = written(model, EVERYTHING).unwrap();
        assert!(serde_json::from_slice::<serde_json::Value>(&written.body).is_ok());
        assert_eq!(written.undo.names, [("f_g".to_owned(), "f.g".to_owned())]);
    }
}

#[test]
fn the_book_has_the_rules_for_options() {
    crate::upstream::shared::options::tests::check_book("bedrock", &OPTIONS);
}
