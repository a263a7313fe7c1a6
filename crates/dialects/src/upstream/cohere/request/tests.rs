use proptest::prelude::*;

use super::*;
use crate::front::chat::read::read_request;
use crate::front::fields::tests::{Worded, through};
use crate::neutral::{Losses, Refused};
use crate::upstream::cohere::model_traits;

const MODEL: &str = "command-a-03-2025";
const THINKER: &str = "command-a-reasoning-08-2025";
const OLD: &str = "command-r-08-2024";
const SEER: &str = "command-a-vision-07-2025";

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
fn check_all(model: &str, body: &str, expected: &str, losses: &[&str]) -> Undo {
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
    written.undo
}

/// Checks the messages that messages become.
#[track_caller]
fn check_messages(model: &str, messages: &str, expected: &str, losses: &[&str]) {
    let body = format!(r#"{{"model":"x","messages":[{messages}]}}"#);
    let undo = check_all(
        model,
        &body,
        &format!(r#"{{"model":"{model}","stream":false,"messages":[{expected}]}}"#),
        losses,
    );
    assert_eq!(undo, Undo::default());
}

/// Checks the fields that fields outside the messages become.
#[track_caller]
fn check(model: &str, fields: &str, expected: &str, losses: &[&str]) -> Undo {
    let body = format!(r#"{{"model":"x","messages":[{{"role":"user","content":"hi"}}],{fields}}}"#);
    let comma = if expected.is_empty() { "" } else { "," };
    let expected = format!(
        r#"{{"model":"{model}","stream":false,"messages":[{{"role":"user","content":"hi"}}]{comma}{expected}}}"#
    );
    check_all(model, &body, &expected, losses)
}

#[track_caller]
fn check_refused(model: &str, fields: &str, param: &str) {
    let body = format!(r#"{{"model":"x","messages":[{{"role":"user","content":"hi"}}],{fields}}}"#);
    match written(&body, model) {
        Err(Refused::Unsupported(complaint)) => assert_eq!(complaint.param, param, "{fields}"),
        other => panic!("{fields}: {other:?}"),
    }
}

#[test]
fn messages_are_the_callers_one_to_one() {
    check_messages(
        MODEL,
        r#"{"role":"developer","content":"be short"},{"role":"user","content":"a\n\"b\""},{"role":"system","content":[{"type":"text","text":"c"}]},
           {"role":"user","content":[{"type":"text","text":"d"},{"type":"text","text":"e"}]},{"role":"user","content":"f"}"#,
        r#"{"role":"system","content":"be short"},{"role":"user","content":"a\n\"b\""},{"role":"system","content":"c"},{"role":"user","content":[{"type":"text","text":"d"},{"type":"text","text":"e"}]},{"role":"user","content":"f"}"#,
        &[],
    );
}

#[test]
fn what_says_nothing_is_left_out() {
    check_messages(
        MODEL,
        r#"{"role":"system","content":""},{"role":"user","content":"a"},{"role":"assistant","content":null},{"role":"user","content":[]}"#,
        r#"{"role":"user","content":"a"}"#,
        &[],
    );
}

#[test]
fn calls_and_their_results() {
    check_messages(
        MODEL,
        r#"{"role":"user","content":"a"},
           {"role":"assistant","content":"let me see","tool_calls":[{"id":"c1","type":"function","function":{"name":"get","arguments":"{\"q\": 1.0}"}},{"id":"c2","type":"function","function":{"name":"now","arguments":""}}]},
           {"role":"tool","tool_call_id":"c1","content":"{\"r\":2}"},{"role":"tool","tool_call_id":"c2","content":""},
           {"role":"assistant","content":"done"}"#,
        r#"{"role":"user","content":"a"},{"role":"assistant","content":"let me see","tool_calls":[{"id":"c1","type":"function","function":{"name":"get","arguments":"{\"q\": 1.0}"}},{"id":"c2","type":"function","function":{"name":"now","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"{\"r\":2}"},{"role":"tool","tool_call_id":"c2","content":""},{"role":"assistant","content":"done"}"#,
        &[],
    );
    check_messages(
        MODEL,
        r#"{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"get","arguments":"q=1"}}]},{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"get","arguments":"{\"_raw\":\"q=1\"}"}}]},{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]}"#,
        &["messages[].tool_calls[].function.arguments"],
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
    assert_eq!(json["messages"][1]["role"], "tool");
    assert_eq!(json["messages"][1].as_object().unwrap().len(), 3);
    assert_eq!(written.losses, Losses::default());
}

#[test]
fn thinking_goes_back_as_what_the_model_calls_it() {
    let call = r#""tool_calls":[{"id":"c1","type":"function","function":{"name":"get","arguments":"{}"}}]"#;
    let result = r#"{"role":"tool","tool_call_id":"c1","content":"r"}"#;
    let with_call =
        format!(r#"{{"role":"assistant","content":"b","reasoning_content":"hm",{call}}},{result}"#);
    check_messages(
        MODEL,
        &with_call,
        &format!(r#"{{"role":"assistant","content":"b","tool_plan":"hm",{call}}},{result}"#),
        &[],
    );
    let thinking = r#""content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"b"}]"#;
    check_messages(
        THINKER,
        &with_call,
        &format!(r#"{{"role":"assistant",{thinking},{call}}},{result}"#),
        &[],
    );
    let without = r#"{"role":"assistant","content":"b","reasoning_content":"hm"}"#;
    check_messages(
        MODEL,
        without,
        r#"{"role":"assistant","content":"b"}"#,
        &["messages[].reasoning_content"],
    );
    check_messages(
        THINKER,
        without,
        &format!(r#"{{"role":"assistant",{thinking}}}"#),
        &[],
    );
    let alone = r#"{"role":"assistant","content":null,"reasoning_content":"hm"}"#;
    check_messages(MODEL, alone, "", &["messages[].reasoning_content"]);
    check_messages(
        THINKER,
        alone,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm"}]}"#,
        &[],
    );
}

#[test]
fn pictures_go_to_models_that_see() {
    let image = |rest: &str| {
        format!(r#"{{"role":"user","content":[{{"type":"image_url","image_url":{{{rest}}}}}]}}"#)
    };
    let data = r#""url":"data:image/png;base64,AAAA""#;
    check_messages(SEER, &image(data), &image(data), &[]);
    check_messages(
        SEER,
        &image(&format!(r#"{data},"detail":"low""#)),
        &image(&format!(r#"{data},"detail":"low""#)),
        &[],
    );
    check_messages(
        SEER,
        &image(&format!(r#"{data},"detail":"original""#)),
        &image(data),
        &["messages[].content[].image_url.detail"],
    );
    check_messages(
        SEER,
        &image(r#""url":"https://x/y.png""#),
        &image(r#""url":"https://x/y.png""#),
        &[],
    );
    let refused = written(
        &format!(r#"{{"model":"x","messages":[{}]}}"#, image(data)),
        MODEL,
    )
    .unwrap_err();
    assert!(
        matches!(refused, Refused::Unsupported(complaint) if complaint.param == "messages[0].content[0].image_url")
    );
}

#[test]
fn options_have_other_names_and_ranges() {
    for (fields, expected, losses) in [
        (r#""max_tokens":5"#, r#""max_tokens":5"#, &[][..]),
        (r#""max_completion_tokens":5"#, r#""max_tokens":5"#, &[]),
        (r#""temperature":0.70"#, r#""temperature":0.70"#, &[]),
        (r#""temperature":2"#, r#""temperature":2"#, &[]),
        (
            r#""temperature":-1"#,
            r#""temperature":0"#,
            &["temperature"],
        ),
        (r#""top_p":0.9"#, r#""p":0.9"#, &[]),
        (r#""top_p":1"#, r#""p":0.99"#, &["top_p"]),
        (r#""top_p":0"#, r#""p":0.01"#, &["top_p"]),
        (r#""top_k":40"#, r#""k":40"#, &[]),
        (r#""top_k":501"#, r#""k":500"#, &["top_k"]),
        (
            r#""frequency_penalty":0.5,"presence_penalty":1.0"#,
            r#""frequency_penalty":0.5,"presence_penalty":1.0"#,
            &[],
        ),
        (
            r#""frequency_penalty":1.5,"presence_penalty":-0.1"#,
            r#""frequency_penalty":1"#,
            &["frequency_penalty", "presence_penalty"],
        ),
        (r#""stop":"a""#, r#""stop_sequences":["a"]"#, &[]),
        (
            r#""stop":["a","b\n"]"#,
            r#""stop_sequences":["a","b\n"]"#,
            &[],
        ),
        (r#""seed":7"#, r#""seed":7"#, &[]),
        (r#""seed":-7"#, "", &["seed"]),
        (
            r#""user":"u","logit_bias":{"1":1},"reasoning_effort":"high""#,
            "",
            &["user", "logit_bias", "reasoning_effort"],
        ),
    ] {
        check(MODEL, fields, expected, losses);
    }
    check_refused(MODEL, r#""stop":["1","2","3","4","5","6"]"#, "stop");
    check_refused(MODEL, r#""n":2"#, "n");
    check_refused(MODEL, r#""logprobs":true"#, "logprobs");
}

#[test]
fn the_target_says_the_rest() {
    let request = |default_max_tokens, stream| {
        let target = Target {
            model: "a\"b",
            traits: Traits::UNKNOWN,
            default_max_tokens,
            stream,
            within: None,
            kept: &|_| None,
        };
        let written = through(
            br#"{"model":"x","messages":[{"role":"user","content":"hi"}],"stream":true}"#,
            &target,
            super::write_request,
        );
        String::from_utf8(written.unwrap().body).unwrap()
    };
    let messages = r#""messages":[{"role":"user","content":"hi"}]"#;
    assert_eq!(
        request(None, true),
        format!(r#"{{"model":"a\"b","stream":true,{messages}}}"#)
    );
    assert_eq!(
        request(Some(9), false),
        format!(r#"{{"model":"a\"b","stream":false,{messages},"max_tokens":9}}"#)
    );
}

#[test]
fn effort_is_a_budget_for_models_that_think() {
    for (effort, expected) in [
        ("none", r#"{"type":"disabled"}"#),
        ("minimal", r#"{"type":"enabled","token_budget":512}"#),
        ("low", r#"{"type":"enabled","token_budget":2048}"#),
        ("medium", r#"{"type":"enabled","token_budget":8192}"#),
        ("high", r#"{"type":"enabled","token_budget":16384}"#),
        ("xhigh", r#"{"type":"enabled"}"#),
        ("max", r#"{"type":"enabled"}"#),
    ] {
        check(
            THINKER,
            &format!(r#""reasoning_effort":"{effort}""#),
            &format!(r#""thinking":{expected}"#),
            &[],
        );
    }
    check(
        THINKER,
        r#""reasoning_effort":"medium","max_tokens":1000"#,
        r#""max_tokens":1000,"thinking":{"type":"enabled","token_budget":500}"#,
        &[],
    );
    check(
        THINKER,
        r#""reasoning_effort":"low","max_tokens":1"#,
        r#""max_tokens":1,"thinking":{"type":"enabled","token_budget":1}"#,
        &[],
    );
    check(MODEL, r#""reasoning_effort":"none""#, "", &[]);
    check(
        MODEL,
        r#""reasoning_effort":"low""#,
        "",
        &["reasoning_effort"],
    );
    check(
        "command-a-plus-05-2026",
        r#""reasoning_effort":"none""#,
        "",
        &["reasoning_effort"],
    );
}

const A: &str = r#"{"type":"function","function":{"name":"a","description":"A.","parameters":{"type":"object"}}}"#;
const B: &str = r#"{"type":"function","function":{"name":"b"}}"#;
const B_WRITTEN: &str =
    r#"{"type":"function","function":{"name":"b","parameters":{"type":"object","properties":{}}}}"#;

#[test]
fn tools_and_choices() {
    let tools = format!(r#""tools":[{A},{B}]"#);
    let written = format!(r#""tools":[{A},{B_WRITTEN}]"#);
    check(MODEL, &tools, &written, &[]);
    check(
        MODEL,
        &format!(r#"{tools},"tool_choice":"auto""#),
        &written,
        &[],
    );
    check(
        MODEL,
        &format!(r#"{tools},"tool_choice":"required""#),
        &format!(r#"{written},"tool_choice":"REQUIRED""#),
        &[],
    );
    check(
        MODEL,
        &format!(r#"{tools},"tool_choice":"none""#),
        &format!(r#"{written},"tool_choice":"NONE""#),
        &[],
    );
    let named = r#""tool_choice":{"type":"function","function":{"name":"b"}}"#;
    check(
        MODEL,
        &format!("{tools},{named}"),
        &format!(r#""tools":[{B_WRITTEN}],"tool_choice":"REQUIRED""#),
        &[],
    );
    check(
        MODEL,
        &format!(r#"{tools},"parallel_tool_calls":false"#),
        &written,
        &["parallel_tool_calls"],
    );
    check(OLD, &tools, &written, &[]);
    check(OLD, &format!(r#"{tools},"tool_choice":"none""#), "", &[]);
    check_refused(
        OLD,
        &format!(r#"{tools},"tool_choice":"required""#),
        "tool_choice",
    );
    check_refused(SEER, &tools, "tools");
}

#[test]
fn strictness_is_for_all_tools_or_none() {
    let tool = |name: &str, strict: &str, required: &str| {
        format!(
            r#"{{"type":"function","function":{{"name":"{name}"{strict},"parameters":{{"type":"object","required":[{required}]}}}}}}"#
        )
    };
    let (strict, yes) = (r#","strict":true"#, r#""x""#);
    let check = |one: (&str, &str), two: (&str, &str), is_strict: bool| {
        let tools = format!(
            r#""tools":[{},{}]"#,
            tool("a", one.0, one.1),
            tool("b", two.0, two.1)
        );
        let written = format!(
            r#""tools":[{},{}]"#,
            tool("a", "", one.1),
            tool("b", "", two.1)
        );
        let is_asked = [one.0, two.0].contains(&strict);
        let written = if is_strict {
            format!(r#"{written},"strict_tools":true"#)
        } else {
            written
        };
        check(
            MODEL,
            &tools,
            &written,
            if is_asked && !is_strict {
                &["tools[].function.strict"]
            } else {
                &[]
            },
        );
    };
    check((strict, yes), (strict, yes), true);
    check((strict, yes), ("", yes), false);
    check((strict, yes), (r#","strict":false"#, yes), false);
    check((strict, yes), (strict, ""), false);
    check((r#","strict":false"#, yes), ("", yes), false);
}

const SCHEMA: &str = r#"{"type":"object","required":["x"]}"#;

fn format(rest: &str) -> String {
    format!(
        r#""response_format":{{"type":"json_schema","json_schema":{{"name":"n","schema":{SCHEMA}{rest}}}}}"#
    )
}

#[test]
fn a_format_alone_is_native() {
    let native = format!(r#""response_format":{{"type":"json_object","json_schema":{SCHEMA}}}"#);
    check(MODEL, &format(""), &native, &[]);
    check(MODEL, &format(r#","strict":true"#), &native, &[]);
    check(
        MODEL,
        &format(r#","description":"d""#),
        &native,
        &["response_format.json_schema.description"],
    );
    let any = r#""response_format":{"type":"json_object"}"#;
    check(MODEL, any, any, &[]);
    check(
        MODEL,
        r#""response_format":{"type":"json_schema","json_schema":{"name":"n"}}"#,
        any,
        &[],
    );
    check(MODEL, r#""response_format":{"type":"text"}"#, "", &[]);
    check(
        MODEL,
        &format!(r#"{},"tools":[{A}],"tool_choice":"none""#, format("")),
        &native,
        &[],
    );
}

fn answer_tool(name: &str, description: &str) -> String {
    format!(
        r#"{{"type":"function","function":{{"name":"{name}","description":"{description}","parameters":{SCHEMA}}}}}"#
    )
}

#[test]
fn a_format_beside_tools_is_a_tool() {
    let usual = answer_tool("give_answer", "Gives the final answer. Call it to answer.");
    let undo = check(
        MODEL,
        &format!(r#"{},"tools":[{A}]"#, format("")),
        &format!(r#""tools":[{A},{usual}],"tool_choice":"REQUIRED""#),
        &[],
    );
    assert_eq!(
        undo,
        Undo {
            format_tool: Some("give_answer".into()),
            ..Undo::default()
        }
    );
    let described = answer_tool("give_answer", "d");
    check(
        MODEL,
        &format!(
            r#"{},"tools":[{A}]"#,
            format(r#","description":"d","strict":true"#)
        ),
        &format!(r#""tools":[{A},{described}],"tool_choice":"REQUIRED""#),
        &["response_format.json_schema.strict"],
    );
    let taken = A.replace("\"a\"", "\"give_answer\"");
    let other = answer_tool("give_answer_", "Gives the final answer. Call it to answer.");
    let undo = check(
        MODEL,
        &format!(r#"{},"tools":[{taken}]"#, format("")),
        &format!(r#""tools":[{taken},{other}],"tool_choice":"REQUIRED""#),
        &[],
    );
    assert_eq!(undo.format_tool.as_deref(), Some("give_answer_"));
    let strict = |strict: &str| {
        format!(r#"{{"type":"function","function":{{"name":"a"{strict},"parameters":{SCHEMA}}}}}"#)
    };
    check(
        MODEL,
        &format!(
            r#"{},"tools":[{}]"#,
            format(r#","strict":true"#),
            strict(r#","strict":true"#)
        ),
        &format!(
            r#""tools":[{},{usual}],"tool_choice":"REQUIRED","strict_tools":true"#,
            strict("")
        ),
        &[],
    );
    // Only calls will come.
    let must = format!(r#""tools":[{A}],"tool_choice":"required""#);
    let undo = check(
        MODEL,
        &format!("{},{must}", format("")),
        &must.replace("required", "REQUIRED"),
        &["response_format"],
    );
    assert_eq!(undo, Undo::default());

    check_refused(
        MODEL,
        &format!(r#""response_format":{{"type":"json_object"}},"tools":[{A}]"#),
        "response_format",
    );
    check_refused(
        OLD,
        &format!(r#"{},"tools":[{A}]"#, format("")),
        "response_format",
    );
}

#[test]
fn the_catalog_may_know_better() {
    let written = |traits, fields: &str| {
        let target = Target {
            model: "m",
            traits,
            default_max_tokens: None,
            stream: false,
            within: None,
            kept: &|_| None,
        };
        let body =
            format!(r#"{{"model":"x","messages":[{{"role":"user","content":"hi"}}],{fields}}}"#);
        let written = through(body.as_bytes(), &target, super::write_request)
            .map_err(|refused| format!("{refused:?}"))?;
        Ok::<_, String>(String::from_utf8(written.body).unwrap())
    };
    let both = written(Traits::UNKNOWN, &format!(r#"{},"tools":[{A}]"#, format(""))).unwrap();
    assert!(
        both.ends_with(&format!(
            r#""tools":[{A}],"response_format":{{"type":"json_object","json_schema":{SCHEMA}}}}}"#
        )),
        "{both}"
    );
    let neither = Traits {
        structured: false,
        ..Traits::UNKNOWN
    };
    let forced = written(neither, &format("")).unwrap();
    assert!(
        forced.contains("give_answer") && forced.ends_with(r#""tool_choice":"REQUIRED"}"#),
        "{forced}"
    );
    assert!(
        written(
            Traits {
                forced_tools: false,
                ..neither
            },
            &format("")
        )
        .unwrap_err()
        .contains("response_format")
    );
}

proptest! {
    #[test]
    fn whatever_is_asked_is_json_or_refused(at in 0usize..2000, byte in any::<u8>(), model in prop::sample::select(vec![MODEL, THINKER, OLD])) {
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

const RICH: &str = r#"{"model":"x","messages":[{"role":"system","content":"a"},{"role":"user","name":"n","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]},{"role":"assistant","reasoning_content":"hm","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"get","arguments":"{\"q\": [1.0]}"}}]},{"role":"tool","tool_call_id":"c1","content":"r"},{"role":"user","content":"d"}],"tools":[{"type":"function","function":{"name":"get","description":"e","parameters":{"type":"object","required":["q"]},"strict":true}}],"tool_choice":"auto","temperature":0.70,"top_p":1,"top_k":40,"max_tokens":5,"stop":["f","g"],"seed":-7,"frequency_penalty":0.5,"presence_penalty":-0.5,"reasoning_effort":"medium","user":"u","response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}}}"#;

#[test]
fn the_book_has_the_rules_for_options() {
    crate::upstream::shared::options::tests::check_book("cohere", &OPTIONS);
}
