use super::super::request::tests::{nothing_kept, target};
use super::super::{models, write_request};
use crate::front::fields::tests::through;
use crate::neutral::Refused;

const HI: &str = r#"{"messages":[{"role":"user","content":"hi"}]"#;
const SAID: &str = r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]"#;
/// Thinks not; tools or a format.
const OLD: &str = "gemini-2.0-flash";
/// Tools and a format. The thinking is left out by the tests.
const NEW: &str = "gemini-3.8-flash";

/// Checks the members after `contents`, the losses, and the changes to undo.
#[track_caller]
fn check(
    model: &str,
    fields: &str,
    expected: &str,
    losses: &str,
    undo: (&[(&str, &str)], Option<&str>),
) {
    let body = format!("{HI},{fields}}}");
    let written = through(
        body.as_bytes(),
        &target(model, &nothing_kept),
        write_request,
    )
    .unwrap();
    let text = String::from_utf8(written.body).unwrap();
    let text = text
        .replace(
            r#","generationConfig":{"thinkingConfig":{"includeThoughts":true}}"#,
            "",
        )
        .replace(r#","thinkingConfig":{"includeThoughts":true}"#, "");
    assert_eq!(text, format!("{SAID}{expected}}}"));
    assert_eq!(written.losses.names().join(" "), losses);
    let names: Vec<_> = written
        .undo
        .names
        .iter()
        .map(|(theirs, ours)| (theirs.as_str(), ours.as_str()))
        .collect();
    assert_eq!(
        (names.as_slice(), written.undo.format_tool.as_deref()),
        undo
    );
}

#[track_caller]
fn check_refused(model: &str, fields: &str, param: &str) {
    let body = format!("{HI},{fields}}}");
    match through(
        body.as_bytes(),
        &target(model, &nothing_kept),
        write_request,
    ) {
        Err(Refused::Unsupported(complaint)) => assert_eq!(complaint.param, param),
        other => panic!("{other:?}"),
    }
}

const NOTHING: (&[(&str, &str)], Option<&str>) = (&[], None);
const TOOL: &str = r#"{"type":"function","function":{"name":"f"}}"#;
const F: &str = r#","tools":[{"functionDeclarations":[{"name":"f"}]}]"#;

#[test]
fn all_functions_are_declared_in_one_place() {
    check(
        OLD,
        r#""tools":[
            {"type":"function","function":{"name":"f","description":"d\n","parameters":{"$schema":"s","type":"object","properties":{"q":{"type":"string"}},"required":["q"],"additionalProperties":false}}},
            {"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}},
            {"type":"function","function":{"name":"h","description":"","parameters":null,"strict":false}}]"#,
        r#","tools":[{"functionDeclarations":[{"name":"f","description":"d\n","parametersJsonSchema":{"type":"object","properties":{"q":{"type":"string"}},"required":["q"],"additionalProperties":false}},{"name":"g"},{"name":"h","description":""}]}]"#,
        "",
        NOTHING,
    );
    check(OLD, r#""tools":[]"#, "", "", NOTHING);
    check(OLD, r#""functions":[{"name":"f"}]"#, F, "", NOTHING);
}

#[test]
fn what_a_schema_loses_is_told() {
    check(
        OLD,
        r#""tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"properties":{"q":{"type":"string","pattern":"x"}}}},"cache_control":{"type":"ephemeral"}}]"#,
        r#","tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"properties":{"q":{"type":"string"}}}}]}]"#,
        "cache_control tools[].function.strict tools[].function.parameters",
        NOTHING,
    );
}

#[test]
fn every_choice() {
    let choice = |choice: &str, config: &str| {
        let config = if config.is_empty() {
            String::new()
        } else {
            format!(r#","toolConfig":{{"functionCallingConfig":{{{config}}}}}"#)
        };
        check(
            OLD,
            &format!(r#""tools":[{TOOL}],"tool_choice":{choice}"#),
            &format!("{F}{config}"),
            "",
            NOTHING,
        );
    };
    choice("null", "");
    choice(r#""auto""#, "");
    choice(r#""none""#, r#""mode":"NONE""#);
    choice(r#""required""#, r#""mode":"ANY""#);
    choice(
        r#"{"type":"function","function":{"name":"f"}}"#,
        r#""mode":"ANY","allowedFunctionNames":["f"]"#,
    );
    let allowed = |mode| {
        format!(
            r#"{{"type":"allowed_tools","allowed_tools":{{"mode":"{mode}","tools":[{TOOL}]}}}}"#
        )
    };
    choice(
        &allowed("auto"),
        r#""mode":"VALIDATED","allowedFunctionNames":["f"]"#,
    );
    choice(
        &allowed("required"),
        r#""mode":"ANY","allowedFunctionNames":["f"]"#,
    );
    check(OLD, r#""tool_choice":"none""#, "", "", NOTHING);
    check(OLD, r#""tool_choice":"auto""#, "", "", NOTHING);
    // Whoever must call keeps to the schema.
    check(
        OLD,
        r#""tools":[{"type":"function","function":{"name":"f","strict":true}}],"tool_choice":"required""#,
        &format!(r#"{F},"toolConfig":{{"functionCallingConfig":{{"mode":"ANY"}}}}"#),
        "",
        NOTHING,
    );
}

#[test]
fn one_call_at_a_time_cannot_be_said() {
    check(
        OLD,
        &format!(r#""tools":[{TOOL}],"parallel_tool_calls":false"#),
        F,
        "parallel_tool_calls",
        NOTHING,
    );
    check(
        OLD,
        &format!(r#""tools":[{TOOL}],"parallel_tool_calls":true"#),
        F,
        "",
        NOTHING,
    );
}

#[test]
fn names_are_made_fit_and_back() {
    check(
        OLD,
        r#""tools":[{"type":"function","function":{"name":"ns/f"}},{"type":"function","function":{"name":"ns_f"}}],"tool_choice":{"type":"function","function":{"name":"ns/f"}}"#,
        r#","tools":[{"functionDeclarations":[{"name":"ns_f_2"},{"name":"ns_f"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["ns_f_2"]}}"#,
        "",
        (&[("ns_f_2", "ns/f")], None),
    );
}

#[test]
fn tools_that_cannot_be() {
    check_refused(
        OLD,
        r#""tools":[{"type":"custom","custom":{"name":"c"}}]"#,
        "tools[0]",
    );
    check_refused(
        OLD,
        &format!(r#""tools":[{TOOL},{{"type":"web_search"}}]"#),
        "tools[1]",
    );
    check_refused("gemma-3-27b-it", &format!(r#""tools":[{TOOL}]"#), "tools");
    check(
        "gemma-3-27b-it",
        &format!(r#""tools":[{TOOL}],"tool_choice":"none""#),
        "",
        "tools",
        NOTHING,
    );
    let body = format!(r#"{HI},"tools":[{TOOL}],"tool_choice":"required"}}"#);
    let mut target = target(OLD, &nothing_kept);
    target.traits.forced_tools = false;
    assert!(
        matches!(through(body.as_bytes(), &target, write_request), Err(Refused::Unsupported(complaint)) if complaint.param == "tool_choice")
    );
}

const SCHEMA: &str = r#""response_format":{"type":"json_schema","json_schema":{"name":"out put","description":"d","schema":{"type":"object","properties":{"a":{"const":1}}}}}"#;
const ANSWER: &str = r#"{"name":"out_put","description":"Gives the final answer. When no other function needs to be called any more, call this one; its arguments are the answer. d","parametersJsonSchema":{"type":"object","properties":{"a":{"enum":[1]}}}}"#;
const NATIVE: &str = r#","generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object","properties":{"a":{"enum":[1]}}}}"#;

#[test]
fn newer_models_take_tools_and_a_format() {
    let fields = format!(r#""tools":[{TOOL}],{SCHEMA}"#);
    check(
        NEW,
        &fields,
        &format!("{F}{NATIVE}"),
        "response_format.json_schema.description",
        NOTHING,
    );
    assert!(models::model_traits(NEW).structured_with_tools);
}

#[test]
fn older_models_answer_by_a_call() {
    let check = |choice: &str, declared: &str, config: &str| {
        let fields = format!(r#""tools":[{TOOL}],{SCHEMA}{choice}"#);
        let expected = format!(
            r#","tools":[{{"functionDeclarations":[{declared}]}}],"toolConfig":{{"functionCallingConfig":{{{config}}}}}"#
        );
        check(OLD, &fields, &expected, "", (&[], Some("out_put")));
    };
    let both = format!(r#"{{"name":"f"}},{ANSWER}"#);
    check("", &both, r#""mode":"ANY""#);
    check(r#","tool_choice":"auto""#, &both, r#""mode":"ANY""#);
    let allowed = format!(
        r#","tool_choice":{{"type":"allowed_tools","allowed_tools":{{"mode":"auto","tools":[{TOOL}]}}}}"#
    );
    check(
        &allowed,
        &both,
        r#""mode":"ANY","allowedFunctionNames":["f","out_put"]"#,
    );
}

#[test]
fn a_forced_call_has_no_format_and_says_so() {
    let fields = format!(r#""tools":[{TOOL}],{SCHEMA},"tool_choice":"required""#);
    check(
        OLD,
        &fields,
        &format!(r#"{F},"toolConfig":{{"functionCallingConfig":{{"mode":"ANY"}}}}"#),
        "response_format",
        NOTHING,
    );
}

#[test]
fn uncallable_tools_make_room_for_formats() {
    let fields = format!(r#""tools":[{TOOL}],{SCHEMA},"tool_choice":"none""#);
    check(
        OLD,
        &fields,
        NATIVE,
        "tools response_format.json_schema.description",
        NOTHING,
    );
}

#[test]
fn the_answers_name_is_nobody_elses() {
    let tools = r#""tools":[{"type":"function","function":{"name":"out_put"}}]"#;
    check(
        OLD,
        &format!("{tools},{SCHEMA}"),
        &format!(
            r#","tools":[{{"functionDeclarations":[{{"name":"out_put"}},{}]}}],"toolConfig":{{"functionCallingConfig":{{"mode":"ANY"}}}}"#,
            ANSWER.replace(r#""out_put""#, r#""out_put_2""#)
        ),
        "",
        (&[], Some("out_put_2")),
    );
}

#[test]
fn formats_that_no_call_can_have() {
    check_refused(
        OLD,
        &format!(r#""tools":[{TOOL}],"response_format":{{"type":"json_object"}}"#),
        "response_format",
    );
    let list = r#""response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"array"}}}"#;
    check_refused(
        OLD,
        &format!(r#""tools":[{TOOL}],{list}"#),
        "response_format",
    );
    check_refused("gemma-3-27b-it", SCHEMA, "response_format");
}

#[test]
fn a_model_without_formats_answers_by_a_call_too() {
    let body = format!("{HI},{SCHEMA}}}");
    let mut target = target("tuned", &nothing_kept);
    target.traits.structured = false;
    let written = through(body.as_bytes(), &target, write_request).unwrap();
    let expected = format!(
        r#"{SAID},"tools":[{{"functionDeclarations":[{ANSWER}]}}],"toolConfig":{{"functionCallingConfig":{{"mode":"ANY"}}}}}}"#
    );
    assert_eq!(String::from_utf8(written.body).unwrap(), expected);
    assert_eq!(written.undo.format_tool.as_deref(), Some("out_put"));

    let body = format!(r#"{HI},"tools":[{TOOL}],"tool_choice":"none",{SCHEMA}}}"#);
    let written = through(body.as_bytes(), &target, write_request).unwrap();
    assert_eq!(String::from_utf8(written.body).unwrap(), expected);
    assert_eq!(written.losses.names(), ["tools"]);
}

#[test]
fn servers_without_json_schema_get_older_words() {
    let server = crate::neutral::traits::Server {
        response_json_schema: false,
        parameters_json_schema: false,
        ..crate::neutral::traits::Server::OWN
    };
    let ask = |model: &'static str, fields: &str| {
        let body = format!("{HI},{fields}}}");
        let target = target(model, &nothing_kept);
        let traits = target.traits.for_server(server);
        let written = through(
            body.as_bytes(),
            &crate::neutral::Target { traits, ..target },
            write_request,
        )
        .unwrap();
        (
            String::from_utf8(written.body).unwrap(),
            written.losses.names().join(" "),
        )
    };
    let schema = r##"{"type":"object","properties":{"q":{"$ref":"#/$defs/Q"}},"required":["q"],"$defs":{"Q":{"type":["string","null"]}}}"##;
    let theirs = r#"{"type":"object","properties":{"q":{"type":"string","nullable":true}},"required":["q"]}"#;
    let tools = format!(
        r#""tools":[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}]"#
    );
    let format = format!(
        r#""response_format":{{"type":"json_schema","json_schema":{{"name":"n","schema":{schema}}}}}"#
    );
    let (body, losses) = ask(OLD, &tools);
    assert!(
        body.contains(&format!(r#"{{"name":"f","parameters":{theirs}}}"#)) && losses.is_empty(),
        "{body} {losses}"
    );
    let (body, losses) = ask(OLD, &format);
    assert!(
        body.contains(&format!(
            r#""responseMimeType":"application/json","responseSchema":{theirs}"#
        )) && losses.is_empty(),
        "{body} {losses}"
    );
    // The function that stands for the format takes this schema, too.
    let (body, _) = ask(OLD, &format!("{tools},{format}"));
    assert_eq!(
        body.matches(&format!(r#""parameters":{theirs}"#)).count(),
        2,
        "{body}"
    );
    for body in [ask(OLD, &tools).0, ask(OLD, &format).0, body] {
        assert!(!body.contains("JsonSchema"), "{body}");
    }
    let strict = r#""tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"q":{"type":"string"}},"additionalProperties":false}}}]"#;
    assert_eq!(ask(OLD, strict).1, "tools[].function.parameters");
}
