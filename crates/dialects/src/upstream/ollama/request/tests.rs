use proptest::prelude::*;

use super::*;
use crate::front::chat::read::read_request;
use crate::front::fields::tests::{Worded, through};
use crate::neutral::Refused;
use crate::upstream::ollama::model_traits;

const MODEL: &str = "gemma3:12b";

fn written(body: &str, model: &str) -> Result<Worded, Refused> {
    let target = Target {
        model,
        traits: model_traits(model),
        default_max_tokens: None,
        stream: false,
        within: None,
        kept: &|_| None,
    };
    through(body.as_bytes(), &target, write_request)
}

#[track_caller]
fn check_all(model: &str, body: &str, expected: &str, losses: &[&str]) {
    let written = written(body, model).unwrap();
    assert_eq!(
        String::from_utf8(written.body.clone()).unwrap(),
        expected,
        "{body}"
    );
    assert!(
        serde_json::from_slice::<serde_json::Value>(&written.body).is_ok(),
        "{body}"
    );
    assert_eq!(written.losses.names(), losses, "{body}");
    assert_eq!(written.undo, Undo::default());
}

/// Checks the messages that messages become.
#[track_caller]
fn check_messages(messages: &str, expected: &str, losses: &[&str]) {
    let body = format!(r#"{{"model":"x","messages":[{messages}]}}"#);
    check_all(
        MODEL,
        &body,
        &format!(r#"{{"model":"{MODEL}","stream":false,"messages":[{expected}]}}"#),
        losses,
    );
}

/// Checks the fields that fields outside the messages become.
#[track_caller]
fn check(model: &str, fields: &str, expected: &str, losses: &[&str]) {
    let body = format!(r#"{{"model":"x","messages":[{{"role":"user","content":"hi"}}],{fields}}}"#);
    let comma = if expected.is_empty() { "" } else { "," };
    let expected = format!(
        r#"{{"model":"{model}","stream":false,"messages":[{{"role":"user","content":"hi"}}]{comma}{expected}}}"#
    );
    check_all(model, &body, &expected, losses);
}

#[track_caller]
fn check_refused(fields: &str, param: &str) {
    let body = format!(r#"{{"model":"x","messages":[{{"role":"user","content":"hi"}}],{fields}}}"#);
    match written(&body, MODEL) {
        Err(Refused::Unsupported(complaint)) => assert_eq!(complaint.param, param, "{fields}"),
        other => panic!("{fields}: {other:?}"),
    }
}

#[test]
fn messages_are_the_callers_one_to_one() {
    check_messages(
        r#"{"role":"developer","content":"be short"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
           {"role":"assistant","content":null},{"role":"assistant","content":"c","reasoning_content":"hm"},{"role":"user","content":""}"#,
        r#"{"role":"system","content":"be short"},{"role":"user","content":"a\nb"},{"role":"assistant","content":"c","thinking":"hm"}"#,
        &[],
    );
}

#[test]
fn arguments_are_objects_and_results_name_their_function() {
    let call = |id: &str, name: &str, arguments: &str| {
        format!(
            r#"{{"id":"{id}","type":"function","function":{{"name":"{name}","arguments":{}}}}}"#,
            crate::wire::json::quote_string(arguments)
        )
    };
    let one = call("c1", "get", r#" {"q": 1.0, "é": ["\u0041"]}"#);
    check_messages(
        &format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{one},{}]}},{{"role":"tool","tool_call_id":"c2","content":"now"}},{{"role":"tool","tool_call_id":"c1","content":"r"}}"#,
            call("c2", "now", "")
        ),
        r#"{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"name":"get","arguments":{"q": 1.0, "é": ["\u0041"]}}},{"id":"c2","function":{"name":"now","arguments":{}}}]},{"role":"tool","content":"now","tool_name":"now","tool_call_id":"c2"},{"role":"tool","content":"r","tool_name":"get","tool_call_id":"c1"}"#,
        &[],
    );
    check_messages(
        &format!(
            r#"{{"role":"assistant","tool_calls":[{},{}]}},{{"role":"tool","tool_call_id":"c1","content":"r"}},{{"role":"tool","tool_call_id":"c2","content":""}}"#,
            call("c1", "get", "q=\"1\""),
            call("c2", "get", "null")
        ),
        r#"{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"name":"get","arguments":{"_raw":"q=\"1\""}}},{"id":"c2","function":{"name":"get","arguments":{}}}]},{"role":"tool","content":"r","tool_name":"get","tool_call_id":"c1"},{"role":"tool","content":"","tool_name":"get","tool_call_id":"c2"}"#,
        &["messages[].tool_calls[].function.arguments"],
    );
    // Some servers begin to count anew with every answer.
    let used = |name: &str| {
        format!(
            r#"{{"role":"assistant","tool_calls":[{}]}},{{"role":"tool","tool_call_id":"c1","content":"r"}}"#,
            call("c1", name, "")
        )
    };
    let told = |name: &str| {
        format!(
            r#"{{"role":"assistant","content":"","tool_calls":[{{"id":"c1","function":{{"name":"{name}","arguments":{{}}}}}}]}},{{"role":"tool","content":"r","tool_name":"{name}","tool_call_id":"c1"}}"#
        )
    };
    check_messages(
        &format!("{},{}", used("a"), used("b")),
        &format!("{},{}", told("a"), told("b")),
        &[],
    );
    // The call is unknown.
    check_messages(
        r#"{"role":"tool","tool_call_id":"x","content":"r"},{"role":"tool","tool_call_id":"y","name":"n","content":"r"}"#,
        r#"{"role":"tool","content":"r","tool_call_id":"x"},{"role":"tool","content":"r","tool_name":"n","tool_call_id":"y"}"#,
        &[],
    );
}

#[test]
fn the_deprecated_function_call_is_a_call() {
    let body = r#"{"model":"x","messages":[{"role":"assistant","content":null,"function_call":{"name":"get","arguments":"{}"}},{"role":"function","name":"get","content":"b"}]}"#;
    let written = written(body, MODEL).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&written.body).unwrap();
    assert_eq!(
        json["messages"][0]["tool_calls"][0]["id"],
        json["messages"][1]["tool_call_id"]
    );
    assert_eq!(
        (
            &json["messages"][1]["role"],
            &json["messages"][1]["tool_name"]
        ),
        (&"tool".into(), &"get".into())
    );
}

#[test]
fn pictures_stand_beside_the_text() {
    let image = |rest: &str| {
        format!(
            r#"{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,AA+/"{rest}}}}},{{"type":"text","text":"a"}},{{"type":"image_url","image_url":{{"url":"data:;base64,BBBB"}}}}]}}"#
        )
    };
    let told = r#"{"role":"user","content":"a","images":["AA+/","BBBB"]}"#;
    check_messages(&image(""), told, &[]);
    check_messages(&image(r#","detail":"auto""#), told, &[]);
    check_messages(
        &image(r#","detail":"low""#),
        told,
        &["messages[].content[].image_url.detail"],
    );
    let url = r#"{"model":"x","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}]}"#;
    assert!(
        matches!(written(url, MODEL), Err(Refused::Unsupported(complaint)) if complaint.param == "messages[0].content[0].image_url")
    );
    let blind = format!(r#"{{"model":"x","messages":[{}]}}"#, image(""));
    assert!(
        matches!(written(&blind, "llama3.1"), Err(Refused::Unsupported(complaint)) if complaint.param == "messages[0].content[0].image_url")
    );
}

#[test]
fn options_are_in_an_object_of_their_own() {
    for (fields, expected, losses) in [
        (
            r#""max_tokens":5"#,
            r#""options":{"num_predict":5}"#,
            &[][..],
        ),
        (
            r#""temperature":0.70,"top_p":1"#,
            r#""options":{"temperature":0.70,"top_p":1}"#,
            &[],
        ),
        (r#""top_k":40"#, r#""options":{"top_k":40}"#, &[]),
        (
            r#""frequency_penalty":-0.5,"presence_penalty":1.5"#,
            r#""options":{"frequency_penalty":-0.5,"presence_penalty":1.5}"#,
            &[],
        ),
        (r#""seed":-7"#, r#""options":{"seed":-7}"#, &[]),
        (r#""stop":"a""#, r#""options":{"stop":["a"]}"#, &[]),
        (
            r#""stop":["1","2","3","4","5","6"]"#,
            r#""options":{"stop":["1","2","3","4","5","6"]}"#,
            &[],
        ),
        (r#""stop":[]"#, "", &[]),
        (
            r#""user":"u","logit_bias":{"1":1},"keep_alive":-1"#,
            "",
            &["user", "logit_bias", "keep_alive"],
        ),
    ] {
        check(MODEL, fields, expected, losses);
    }
    check_refused(r#""n":2"#, "n");
    check_refused(r#""logprobs":true"#, "logprobs");
}

#[test]
fn whether_it_streams_is_always_said() {
    let target = Target {
        model: "m",
        traits: Traits::UNKNOWN,
        default_max_tokens: Some(9),
        stream: true,
        within: None,
        kept: &|_| None,
    };
    let written = through(
        br#"{"model":"x","messages":[{"role":"user","content":"hi"}],"stream":true}"#,
        &target,
        write_request,
    )
    .unwrap();
    let expected = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}],"options":{"num_predict":9}}"#;
    assert_eq!(String::from_utf8(written.body).unwrap(), expected);
}

#[test]
fn tools_and_choices() {
    let a = r#"{"type":"function","function":{"name":"a","description":"A.","parameters":{"type":"object"}}}"#;
    let tools = format!(r#""tools":[{a},{{"type":"function","function":{{"name":"b"}}}}]"#);
    let b = r#"{"type":"function","function":{"name":"b","parameters":{"type":"object","properties":{}}}}"#;
    let told = format!(r#""tools":[{a},{b}]"#);
    check(MODEL, &tools, &told, &[]);
    check(
        MODEL,
        &format!(r#"{tools},"tool_choice":"auto""#),
        &told,
        &[],
    );
    check(MODEL, &format!(r#"{tools},"tool_choice":"none""#), "", &[]);
    check(
        MODEL,
        &format!(r#"{tools},"parallel_tool_calls":false"#),
        &told,
        &["parallel_tool_calls"],
    );
    let allowed = r#""tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"b"}}]}}"#;
    check(
        MODEL,
        &format!("{tools},{allowed}"),
        &format!(r#""tools":[{b}]"#),
        &[],
    );
    check_refused(
        &format!(r#"{tools},"tool_choice":"required""#),
        "tool_choice",
    );
    check_refused(
        &format!(r#"{tools},"tool_choice":{{"type":"function","function":{{"name":"b"}}}}"#),
        "tool_choice",
    );
    let strict = r#"{"type":"function","function":{"name":"b","strict":true}}"#;
    check(
        MODEL,
        &format!(r#""tools":[{strict}]"#),
        &format!(r#""tools":[{b}]"#),
        &["tools[].function.strict"],
    );
    check(
        MODEL,
        &format!(r#""tools":[{strict}],"tool_choice":"none""#),
        "",
        &[],
    );
}

#[test]
fn nothing_makes_a_model_call_a_tool() {
    let body = r#"{"model":"x","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"b"}}],"tool_choice":"required"}"#;
    let target = Target {
        model: "m",
        traits: Traits::UNKNOWN,
        default_max_tokens: None,
        stream: false,
        within: None,
        kept: &|_| None,
    };
    let refused = through(body.as_bytes(), &target, write_request).unwrap_err();
    assert!(matches!(refused, Refused::Unsupported(complaint) if complaint.param == "tool_choice"));
}

#[test]
fn a_format_is_a_schema() {
    let format = |rest: &str| {
        format!(r#""response_format":{{"type":"json_schema","json_schema":{{"name":"n"{rest}}}}}"#)
    };
    let schema = r#","schema":{"type":"object"}"#;
    check(MODEL, &format(schema), r#""format":{"type":"object"}"#, &[]);
    check(MODEL, &format(""), r#""format":"json""#, &[]);
    check(
        MODEL,
        r#""response_format":{"type":"json_object"}"#,
        r#""format":"json""#,
        &[],
    );
    check(MODEL, r#""response_format":{"type":"text"}"#, "", &[]);
    let described = format(&format!(r#"{schema},"description":"d""#));
    check(
        MODEL,
        &described,
        r#""format":{"type":"object"}"#,
        &["response_format.json_schema.description"],
    );
    let tools = r#""tools":[{"type":"function","function":{"name":"b"}}]"#;
    check_refused(&format!("{},{tools}", format(schema)), "response_format");
    check(
        MODEL,
        &format!(r#"{},{tools},"tool_choice":"none""#, format(schema)),
        r#""format":{"type":"object"}"#,
        &[],
    );
}

#[test]
fn effort_is_a_switch_or_a_word() {
    let switch = (
        "qwen3:8b",
        [
            ("none", "false", true),
            ("low", "true", false),
            ("medium", "true", true),
            ("max", "true", false),
        ],
    );
    let word = (
        "gpt-oss:20b",
        [
            ("none", r#""low""#, false),
            ("low", r#""low""#, true),
            ("medium", r#""medium""#, true),
            ("max", r#""high""#, false),
        ],
    );
    for (model, efforts) in [switch, word] {
        for (effort, think, is_meant) in efforts {
            let losses: &[&str] = if is_meant { &[] } else { &["reasoning_effort"] };
            check(
                model,
                &format!(r#""reasoning_effort":"{effort}""#),
                &format!(r#""think":{think}"#),
                losses,
            );
        }
    }
    check(
        "gpt-oss:20b",
        r#""reasoning_effort":"minimal""#,
        r#""think":"low""#,
        &["reasoning_effort"],
    );
    check(
        "gpt-oss:20b",
        r#""reasoning_effort":"high""#,
        r#""think":"high""#,
        &[],
    );
    check(
        MODEL,
        r#""reasoning_effort":"none""#,
        r#""think":false"#,
        &[],
    );
    check(
        MODEL,
        r#""reasoning_effort":"high""#,
        "",
        &["reasoning_effort"],
    );
    check("qwen3:8b", r#""seed":1"#, r#""options":{"seed":1}"#, &[]);
}

proptest! {
    #[test]
    fn whatever_is_asked_is_json_or_refused(at in 0usize..2000, byte in any::<u8>(), model in prop::sample::select(vec![MODEL, "qwen3", "gpt-oss"])) {
        let mut body = RICH.as_bytes().to_vec();
        let at = at % body.len();
        body[at] = byte;
        let Ok((read, _)) = read_request(&body) else { return Ok(()) };
        let target = Target { model, traits: model_traits(model), default_max_tokens: None, stream: true, within: None, kept: &|_| None };
        if let Ok(written) = write_request(&read, &target) {
            let json: Result<serde_json::Value, _> = serde_json::from_slice(&written.body);
            prop_assert!(json.is_ok(), "{}", String::from_utf8_lossy(&written.body));
        }
    }
}

const RICH: &str = r#"{"model":"x","messages":[{"role":"system","content":"a"},{"role":"user","name":"n","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]},{"role":"assistant","reasoning_content":"hm","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"get","arguments":"{\"q\": [1.0]}"}}]},{"role":"tool","tool_call_id":"c1","content":"r"},{"role":"user","content":"d"}],"tools":[{"type":"function","function":{"name":"get","description":"e","parameters":{"type":"object","required":["q"]},"strict":true}}],"tool_choice":"auto","temperature":0.70,"top_p":1,"top_k":40,"max_tokens":5,"stop":["f","g"],"seed":-7,"frequency_penalty":0.5,"presence_penalty":-0.5,"reasoning_effort":"medium","user":"u","response_format":{"type":"text"}}"#;

#[test]
fn the_book_has_the_rules_for_options() {
    crate::upstream::shared::options::tests::check_book("ollama", &OPTIONS);
}
