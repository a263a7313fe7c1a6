use crate::upstream::anthropic::tests::*;

#[track_caller]
fn check(model: &str, said: &str, expected: &str, losses: &str) {
    let (middle, lost) = fields(model, said);
    let middle = middle.trim_start_matches(|c: char| c.is_ascii_digit() || c == ',');
    assert_eq!(
        (middle, lost.as_str()),
        (expected, losses),
        "{model} {said}"
    );
}

const F: &str = r#"{"type":"function","function":{"name":"f"}}"#;
const G: &str = r#"{"type":"function","function":{"name":"g"}}"#;
const F_THERE: &str = r#"{"name":"f","input_schema":{"type":"object","properties":{}}}"#;
const G_THERE: &str = r#"{"name":"g","input_schema":{"type":"object","properties":{}}}"#;

#[test]
fn a_tool_is_described() {
    let tool = |function: &str| {
        format!(r#""tools":[{{"type":"function","function":{{"name":"f"{function}}}}}]"#)
    };
    let there = |rest: &str| format!(r#""tools":[{{"name":"f"{rest}}}]"#);
    check(
        OPUS_4_1,
        &tool(
            r#","description":"Does.","parameters":{"type":"object","properties":{"z":{"minimum":1.0},"a":{}},"required":["z"]}"#,
        ),
        &there(
            r#","description":"Does.","input_schema":{"type":"object","properties":{"z":{"minimum":1.0},"a":{}},"required":["z"]}"#,
        ),
        "",
    );
    check(
        OPUS_4_1,
        &tool(r#","description":"","parameters":null,"strict":false"#),
        &there(r#","input_schema":{"type":"object","properties":{}}"#),
        "",
    );
    check(
        OPUS_4_1,
        &tool(r#","parameters":{}"#),
        &there(r#","input_schema":{"type":"object"}"#),
        "",
    );
    check(
        OPUS_4_1,
        &tool(
            r#","description":"Does.","parameters":{"type":"object","anyOf":[{"required":["a"]}]}"#,
        ),
        &there(
            r#","description":"Does.\n\nThe input must also match this JSON Schema: {\"anyOf\":[{\"required\":[\"a\"]}]}","input_schema":{"type":"object"}"#,
        ),
        "tools[].function.parameters",
    );
}

#[test]
fn strict_tools_are_held_to_possible_schemas() {
    let tool = |parameters: &str| {
        format!(
            r#""tools":[{{"type":"function","function":{{"name":"f","description":"d","strict":true,"parameters":{parameters}}}}}]"#
        )
    };
    let there =
        |rest: &str| format!(r#""tools":[{{"name":"f","description":"d","input_schema":{rest}}}]"#);
    let schema = r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}"#;
    check(
        OPUS_4_1,
        &tool(schema),
        &there(&format!(r#"{schema},"strict":true"#)),
        "",
    );
    check(
        SONNET_4,
        &tool(schema),
        &there(schema),
        "tools[].function.strict",
    );
    let bounded =
        r#"{"type":"object","properties":{"a":{"type":"string","maxLength":3}},"required":["a"]}"#;
    check(
        OPUS_4_1,
        &tool(bounded),
        &there(
            r#"{"type":"object","properties":{"a":{"type":"string","description":"{maxLength: 3}"}},"required":["a"],"additionalProperties":false},"strict":true"#,
        ),
        "tools[].function.parameters",
    );
    let open = r#"{"type":"object","properties":{"a":{"type":"object"}}}"#;
    check(
        OPUS_4_1,
        &tool(open),
        &there(open),
        "tools[].function.strict",
    );
}

#[test]
fn of_strict_tools_there_are_only_so_many() {
    let tools: Vec<String> = (0..21)
        .map(|i| format!(r#"{{"type":"function","function":{{"name":"f{i}","strict":true,"parameters":{{"type":"object","properties":{{"a":{{"type":"null"}}}}}}}}}}"#))
        .collect();
    let (middle, losses) = fields(OPUS_4_1, &format!(r#""tools":[{}]"#, tools.join(",")));
    assert_eq!(
        (middle.matches(r#""strict":true"#).count(), losses.as_str()),
        (20, "tools[].function.strict")
    );
    // All schemas together may have only so many optional properties.
    let format = r#""response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"},"d":{"type":"null"},"e":{"type":"null"}}}}}"#;
    let (middle, _) = fields(
        OPUS_4_1,
        &format!(r#""tools":[{}],{format}"#, tools.join(",")),
    );
    assert_eq!(middle.matches(r#""strict":true"#).count(), 19);
}

#[test]
fn the_choice_in_all_its_forms() {
    let two = format!(r#""tools":[{F},{G}]"#);
    for (choice, there, said, losses) in [
        ("", format!("{F_THERE},{G_THERE}"), "", ""),
        (
            r#","tool_choice":"auto""#,
            format!("{F_THERE},{G_THERE}"),
            r#","tool_choice":{"type":"auto"}"#,
            "",
        ),
        (
            r#","tool_choice":"none""#,
            format!("{F_THERE},{G_THERE}"),
            r#","tool_choice":{"type":"none"}"#,
            "",
        ),
        (
            r#","tool_choice":"required""#,
            format!("{F_THERE},{G_THERE}"),
            r#","tool_choice":{"type":"any"}"#,
            "",
        ),
        (
            r#","tool_choice":{"type":"function","function":{"name":"g"}}"#,
            format!("{F_THERE},{G_THERE}"),
            r#","tool_choice":{"type":"tool","name":"g"}"#,
            "",
        ),
        (
            r#","tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"g"}}]}}"#,
            G_THERE.to_owned(),
            r#","tool_choice":{"type":"auto"}"#,
            "",
        ),
        (
            r#","tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"g"}}]}}"#,
            G_THERE.to_owned(),
            r#","tool_choice":{"type":"any"}"#,
            "",
        ),
        (
            r#","parallel_tool_calls":false"#,
            format!("{F_THERE},{G_THERE}"),
            r#","tool_choice":{"type":"auto","disable_parallel_tool_use":true}"#,
            "",
        ),
        (
            r#","parallel_tool_calls":false,"tool_choice":"required""#,
            format!("{F_THERE},{G_THERE}"),
            r#","tool_choice":{"type":"any","disable_parallel_tool_use":true}"#,
            "",
        ),
        (
            r#","parallel_tool_calls":false,"tool_choice":"none""#,
            format!("{F_THERE},{G_THERE}"),
            r#","tool_choice":{"type":"none"}"#,
            "",
        ),
        (
            r#","parallel_tool_calls":true"#,
            format!("{F_THERE},{G_THERE}"),
            "",
            "",
        ),
    ] {
        check(
            OPUS_4_1,
            &format!("{two}{choice}"),
            &format!(r#""tools":[{there}]{said}"#),
            losses,
        );
    }
    check(
        OPUS_4_1,
        r#""tools":[],"tool_choice":"auto","parallel_tool_calls":false"#,
        "",
        "",
    );
}

#[test]
fn a_call_that_cannot_be_forced_is_refused() {
    let refused = |choice: &str| {
        let body = format!(
            r#"{{"model":"x","messages":[{{"role":"user","content":"hi"}}],"tools":[{F},{G}],"tool_choice":{choice}}}"#
        );
        assert!(
            matches!(write(OPUS_5_5, &body), Err(crate::neutral::Refused::Unsupported(complaint)) if complaint.param == "tool_choice"),
            "{choice}"
        );
    };
    refused(r#""required""#);
    refused(r#"{"type":"function","function":{"name":"g"}}"#);
    refused(
        r#"{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"g"}}]}}"#,
    );
}

#[test]
fn refusable_names_are_changed_and_changed_back() {
    let body = r#"{"model":"x","tools":[{"type":"function","function":{"name":"a_b"}},{"type":"function","function":{"name":"a.b"}}],
        "tool_choice":{"type":"function","function":{"name":"a.b"}},"messages":[{"role":"user","content":"hi"},
        {"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"a.b","arguments":""}}]},{"role":"tool","tool_call_id":"1","content":"r"}]}"#;
    let written = write(OPUS_4_1, body).unwrap();
    let text = String::from_utf8(written.body).unwrap();
    assert_eq!(text.matches(r#""name":"a_b_2""#).count(), 3, "{text}");
    assert_eq!(written.undo.names, [("a_b_2".to_owned(), "a.b".to_owned())]);
}

#[test]
fn calls_without_tools_get_stubs() {
    let messages = r#"[{"role":"user","content":"hi"},
        {"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"g","arguments":"{}"}},{"id":"2","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"3","type":"function","function":{"name":"g","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"1","content":"r"},{"role":"tool","tool_call_id":"2","content":"r"},{"role":"tool","tool_call_id":"3","content":"r"}]"#;
    let written = write(
        OPUS_4_1,
        &format!(r#"{{"model":"x","messages":{messages}}}"#),
    )
    .unwrap();
    assert_eq!(
        (written.losses.names(), written.losses.first_lost()),
        (&["tools".into()][..], None),
        "named, and nobody is refused for it"
    );
    let text = String::from_utf8(written.body).unwrap();
    assert!(
        text.contains(&format!(
            r#""tools":[{F_THERE},{G_THERE}],"tool_choice":{{"type":"none"}},"messages""#
        )),
        "{text}"
    );
}

fn json_schema(schema: &str) -> String {
    format!(
        r#""response_format":{{"type":"json_schema","json_schema":{{"name":"n","description":"About.","schema":{schema},"strict":true}}}}"#
    )
}

const SCHEMA: &str = r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}"#;
const SCHEMA_THERE: &str = r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false,"description":"About."}"#;
const ABOUT: &str =
    "Gives the answer. Its input is all of the answer: nothing that is said besides is read.";

/// The tool that stands for the format.
fn tool_there(about: &str, schema: &str) -> String {
    format!(r#"{{"name":"json_answer","description":"{ABOUT}{about}","input_schema":{schema}}}"#)
}

#[test]
fn a_schema_is_native_where_it_can_be() {
    let native = |schema: &str| {
        format!(r#""output_config":{{"format":{{"type":"json_schema","schema":{schema}}}}}"#)
    };
    check(OPUS_4_1, &json_schema(SCHEMA), &native(SCHEMA_THERE), "");
    check(OPUS_5_5, &json_schema(SCHEMA), &native(SCHEMA_THERE), "");
    check(
        OPUS_4_1,
        &format!(r#"{},"tools":[{F}]"#, json_schema(SCHEMA)),
        &format!(r#"{},"tools":[{F_THERE}]"#, native(SCHEMA_THERE)),
        "",
    );
    check(
        OPUS_4_6,
        &format!(r#"{},"reasoning_effort":"low""#, json_schema(SCHEMA)),
        &format!(
            r#""thinking":{{"type":"adaptive","display":"summarized"}},"output_config":{{"effort":"low","format":{{"type":"json_schema","schema":{SCHEMA_THERE}}}}}"#
        ),
        "",
    );
    check(
        OPUS_4_1,
        &json_schema(r#"{"type":"number","minimum":1}"#),
        &native(r#"{"type":"number","description":"About.\n\n{minimum: 1}"}"#),
        "response_format.json_schema.schema",
    );
    check(OPUS_4_1, r#""response_format":{"type":"text"}"#, "", "");
}

#[test]
fn else_a_schema_is_a_tools() {
    let forced =
        r#""tool_choice":{"type":"tool","name":"json_answer","disable_parallel_tool_use":true}"#;
    let tool = tool_there("\\n\\nAbout.", SCHEMA);
    check(
        SONNET_4,
        &json_schema(SCHEMA),
        &format!(r#""tools":[{tool}],{forced}"#),
        "",
    );
    let undo = write(
        SONNET_4,
        &format!(
            r#"{{"model":"x","messages":[{{"role":"user","content":"hi"}}],{}}}"#,
            json_schema(SCHEMA)
        ),
    )
    .unwrap()
    .undo;
    assert_eq!(undo.format_tool.as_deref(), Some("json_answer"));
    // A schema that may not stand at the top is then asked for in words only.
    let either = r#"{"type":"object","anyOf":[{"required":["a"]}]}"#;
    let words = r#"\n\nAbout.\n\nThe input must also match this JSON Schema: {\"anyOf\":[{\"required\":[\"a\"]}]}"#;
    let weaker = tool_there(words, r#"{"type":"object"}"#);
    check(
        SONNET_4,
        &json_schema(either),
        &format!(r#""tools":[{weaker}],{forced}"#),
        "response_format.json_schema.schema",
    );
    // The caller's tools may be called as well.
    check(
        SONNET_4,
        &format!(r#"{},"tools":[{F}]"#, json_schema(SCHEMA)),
        &format!(
            r#""tools":[{F_THERE},{tool}],"tool_choice":{{"type":"any","disable_parallel_tool_use":true}}"#
        ),
        "",
    );
    check(
        SONNET_4,
        &format!(
            r#"{},"tools":[{F}],"parallel_tool_calls":true"#,
            json_schema(SCHEMA)
        ),
        &format!(
            r#""tools":[{F_THERE},{tool}],"tool_choice":{{"type":"any","disable_parallel_tool_use":true}}"#
        ),
        "parallel_tool_calls",
    );
    check(
        SONNET_4,
        &format!(
            r#"{},"tools":[{F}],"tool_choice":"none""#,
            json_schema(SCHEMA)
        ),
        &format!(r#""tools":[{F_THERE},{tool}],{forced}"#),
        "",
    );
    // An answer that must be a call has no content to be in a format. The format is named as lost.
    for format in [
        json_schema(SCHEMA),
        r#""response_format":{"type":"json_object"}"#.to_owned(),
    ] {
        check(
            SONNET_4,
            &format!(r#"{format},"tools":[{F}],"tool_choice":"required""#),
            &format!(r#""tools":[{F_THERE}],"tool_choice":{{"type":"any"}}"#),
            "response_format",
        );
    }
    // Thinking would forbid it.
    check(
        SONNET_4,
        &format!(r#"{},"reasoning_effort":"low""#, json_schema(SCHEMA)),
        &format!(r#""tools":[{tool}],{forced}"#),
        "reasoning_effort",
    );
    // A schema that is more than a grammar can hold.
    let open = r#"{"type":"object","additionalProperties":{"type":"number"}}"#;
    check(
        OPUS_4_1,
        &json_schema(open),
        &format!(r#""tools":[{}],{forced}"#, tool_there("\\n\\nAbout.", open)),
        "",
    );
    // Its name is free.
    let taken = r#""tools":[{"type":"function","function":{"name":"json_answer"}}]"#;
    let (middle, _) = fields(SONNET_4, &format!("{},{taken}", json_schema(SCHEMA)));
    assert!(
        middle.contains(r#"{"name":"json_answer_2","description":"Gives"#),
        "{middle}"
    );
}

#[test]
fn a_schema_that_cannot_be_had_is_refused() {
    let body = |schema: &str| {
        format!(
            r#"{{"model":"x","messages":[{{"role":"user","content":"hi"}}],{}}}"#,
            json_schema(schema)
        )
    };
    let check = |model, body: &str, reason: &str| {
        let Err(crate::neutral::Refused::Unsupported(complaint)) = write(model, body) else {
            panic!("{body}")
        };
        assert_eq!(
            (&*complaint.param, &*complaint.message),
            ("response_format.json_schema.schema", reason)
        );
    };
    check(
        OPUS_5_5,
        &body(r#"{"type":"object","additionalProperties":{"type":"number"}}"#),
        "This model does not support this JSON Schema: an object in it has no `properties`.",
    );
    check(
        OPUS_5_5,
        &body(
            r##"{"$ref":"#/$defs/N","$defs":{"N":{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}}}}}"##,
        ),
        "This model does not support this JSON Schema: a definition in it refers to itself.",
    );
    let of_a_list = "This model supports only the JSON Schema of an object. Make this schema the one of a property.";
    check(
        SONNET_4,
        &body(r#"{"type":"array","items":{"type":"number"}}"#),
        of_a_list,
    );
    check(
        "a-ok",
        &body(r#"{"type":"array","items":{"type":"number"}}"#),
        of_a_list,
    );
    check(
        "claude-2.1",
        &body(SCHEMA),
        "This model does not support a JSON Schema for its answer.",
    );
    let prefilled = body(SCHEMA).replace(
        r#""content":"hi"}"#,
        r#""content":"hi"},{"role":"assistant","content":"{"}"#,
    );
    let reason = "This model does not support a JSON Schema if the last message is the beginning of the answer.";
    check(OPUS_4_1, &prefilled, reason);
}

#[test]
fn any_object_is_a_tools_or_asked_for() {
    let object = r#""response_format":{"type":"json_object"}"#;
    let any = r#"{"type":"object","additionalProperties":true}"#;
    let forced =
        r#""tool_choice":{"type":"tool","name":"json_answer","disable_parallel_tool_use":true}"#;
    check(
        OPUS_4_1,
        object,
        &format!(r#""tools":[{}],{forced}"#, tool_there("", any)),
        "",
    );
    check(
        OPUS_4_1,
        r#""response_format":{"type":"json_schema","json_schema":{"name":"n"}}"#,
        &format!(r#""tools":[{}],{forced}"#, tool_there("", any)),
        "",
    );
    let hint = r#""system":[{"type":"text","text":"Answer with one JSON object and with nothing else: no text before or after it, and no code fence around it."}]"#;
    check(OPUS_5_5, object, hint, "response_format");
    check(
        SONNET_4_5,
        &format!(r#"{object},"reasoning_effort":"low""#),
        &format!(r#""thinking":{{"type":"enabled","budget_tokens":1024}},{hint}"#),
        "response_format",
    );
    let messages = r#"[{"role":"system","content":"s"},{"role":"user","content":"hi"},{"role":"assistant","content":"{"}]"#;
    let (body, losses) = conversation(SONNET_4_5, messages, object);
    assert!(
        body.starts_with(
            r#""system":[{"type":"text","text":"s"},{"type":"text","text":"Answer with one"#
        ),
        "{body}"
    );
    assert_eq!(losses, "response_format");
}
