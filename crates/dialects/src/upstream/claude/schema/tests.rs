use super::*;

#[track_caller]
fn check(schema: &str, expected: &str, fit: Fit) {
    let fitted = super::fit_schema(schema, None);
    assert_eq!(
        (fitted.text.as_str(), fitted.fit),
        (expected, fit),
        "{schema}"
    );
}

#[track_caller]
fn check_no(schema: &str) {
    assert!(
        matches!(super::fit_schema(schema, None).fit, Fit::No(_)),
        "{schema}"
    );
}

#[test]
fn what_claude_knows_stays_as_it_was_written() {
    check(
        r#"{"type":"object","properties":{"z":{"type":"number","default":1.50},"a":{"enum":[1e2,"\u00e9",null]}},"required":["z"],"additionalProperties":false,"title":"T"}"#,
        r#"{"type":"object","properties":{"z":{"type":"number","default":1.50},"a":{"enum":[1e2,"é",null]}},"required":["z"],"title":"T","additionalProperties":false}"#.replace('é', "\\u00e9").as_str(),
        Fit::Whole,
    );
    check(
        r#"{"type":"string","format":"date-time"}"#,
        r#"{"type":"string","format":"date-time"}"#,
        Fit::Whole,
    );
    check(
        r#"{"type":"array","items":{"const":1.0},"minItems":1}"#,
        r#"{"type":"array","items":{"const":1.0},"minItems":1}"#,
        Fit::Whole,
    );
    check(
        r#"{"allOf":[{"type":["string","null"]}]}"#,
        r#"{"allOf":[{"type":["string","null"]}]}"#,
        Fit::Whole,
    );
}

#[test]
fn every_object_is_closed() {
    let closed = r#"{"type":"object","properties":{"o":{"type":"object","properties":{},"additionalProperties":false}},"additionalProperties":false}"#;
    check(
        r#"{"type":"object","properties":{"o":{"type":"object","properties":{}}}}"#,
        closed,
        Fit::Whole,
    );
    check(
        r#"{"type":"object","additionalProperties":true,"properties":{"o":{"type":"object","properties":{}}}}"#,
        closed,
        Fit::Whole,
    );
    check(
        r#"{"properties":{"a":{"type":"null"}}}"#,
        r#"{"properties":{"a":{"type":"null"}},"type":"object","additionalProperties":false}"#,
        Fit::Whole,
    );
    check(
        r#"{"type":"object","additionalProperties":false}"#,
        r#"{"type":"object","additionalProperties":false}"#,
        Fit::Whole,
    );
    check(
        r#"{"anyOf":[{"type":["object","null"],"properties":{}}]}"#,
        r#"{"anyOf":[{"type":["object","null"],"properties":{},"additionalProperties":false}]}"#,
        Fit::Whole,
    );
}

#[test]
fn what_it_does_not_know_is_said_in_words() {
    check(
        r#"{"type":"string","description":"Name.","minLength":1,"pattern":"^a\"b$"}"#,
        r#"{"type":"string","description":"Name.\n\n{minLength: 1, pattern: \"^a\\\"b$\"}"}"#,
        Fit::Weaker,
    );
    for (bound, kind) in [
        (r#""minimum":0"#, "number"),
        (r#""maximum":1.50"#, "number"),
        (r#""exclusiveMinimum":0"#, "number"),
        (r#""exclusiveMaximum":0"#, "number"),
        (r#""multipleOf":0.1"#, "number"),
        (r#""minLength":1"#, "string"),
        (r#""maxLength":9"#, "string"),
        (r#""format":"byte""#, "string"),
        (r#""not":{"const":1}"#, "number"),
    ] {
        let said = bound
            .replacen('"', "", 2)
            .replacen(':', ": ", 1)
            .replace('"', "\\\"");
        check(
            &format!(r#"{{"type":"{kind}",{bound}}}"#),
            &format!(r#"{{"type":"{kind}","description":"{{{said}}}"}}"#),
            Fit::Weaker,
        );
    }
    for bound in [
        r#""minItems":2"#,
        r#""maxItems":3"#,
        r#""uniqueItems":true"#,
    ] {
        let said = bound.replace('"', "").replacen(':', ": ", 1);
        check(
            &format!(r#"{{"type":"array","items":{{"type":"null"}},{bound}}}"#),
            &format!(r#"{{"type":"array","items":{{"type":"null"}},"description":"{{{said}}}"}}"#),
            Fit::Weaker,
        );
    }
    check(
        r#"{"type":"object","properties":{},"minProperties":1,"maxProperties":2}"#,
        r#"{"type":"object","properties":{},"additionalProperties":false,"description":"{minProperties: 1, maxProperties: 2}"}"#,
        Fit::Weaker,
    );
}

#[test]
fn remarks_constrain_nothing() {
    check(
        r#"{"$schema":"x","$id":"y","$comment":"z","type":"string","examples":["a"],"deprecated":true}"#,
        r#"{"type":"string","description":"{examples: [\"a\"], deprecated: true}"}"#,
        Fit::Whole,
    );
}

#[test]
fn one_of_is_any_of() {
    check(
        r#"{"oneOf":[{"type":"string"},{"type":"null"}]}"#,
        r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#,
        Fit::Whole,
    );
    check(
        r#"{"anyOf":[{"type":"null"}],"oneOf":[{"type":"null"}]}"#,
        r#"{"anyOf":[{"type":"null"}],"description":"{oneOf: [{\"type\":\"null\"}]}"}"#,
        Fit::Weaker,
    );
}

#[test]
fn references_stand_alone() {
    check(
        r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/A","description":"d"}},"$defs":{"A":{"type":"string","maxLength":3}}}"##,
        r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"string","description":"{maxLength: 3}"}},"additionalProperties":false}"##,
        Fit::Weaker,
    );
    check(
        r##"{"$ref":"#/definitions/A","minimum":1,"definitions":{"A":{"type":"number"}}}"##,
        r##"{"$ref":"#/definitions/A","definitions":{"A":{"type":"number"}}}"##,
        Fit::Weaker,
    );
    // A chain is no circle.
    check(
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/c"},"c":{"type":"null"}}}"##,
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/c"},"c":{"type":"null"}}}"##,
        Fit::Whole,
    );
}

#[test]
fn what_would_mean_something_else_does_not_fit() {
    check_no("true");
    check_no("{}");
    check_no(r#"{"description":"anything"}"#);
    check_no(r#"{"type":"object"}"#);
    check_no(r#"{"type":["object","null"]}"#);
    check_no(r#"{"type":"object","additionalProperties":{"type":"string"}}"#);
    check_no(
        r#"{"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":{"type":"string"}}"#,
    );
    check_no(r#"{"type":"object","properties":{"a":{"type":"object"}}}"#);
    check_no(r#"{"type":"object","properties":{},"patternProperties":{"^a":{"type":"null"}}}"#);
    check_no(r#"{"type":"array"}"#);
    check_no(r#"{"type":"array","items":true}"#);
    check_no(r#"{"type":"array","items":[{"type":"null"}]}"#);
    check_no(r#"{"enum":[{"a":1}]}"#);
    check_no(r#"{"const":[1]}"#);
    check_no(r#"{"$ref":"https://example.com/schema"}"#);
    check_no(r##"{"$ref":"#"}"##);
    check_no(r##"{"$ref":"#/properties/a"}"##);
    check_no(
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"array","items":{"$ref":"#/$defs/a"}}}}"##,
    );
    check_no(
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}}}}}"##,
    );
    check_no(&format!(
        r#"{{"type":"string","description":"{}"}}"#,
        "x".repeat(MAX_LEN)
    ));
    let nested = |depth| {
        format!(
            r#"{}{{"type":"null"}}{}"#,
            r#"{"anyOf":["#.repeat(depth),
            "]}".repeat(depth)
        )
    };
    check(&nested(MAX_DEPTH - 1), &nested(MAX_DEPTH - 1), Fit::Whole);
    check_no(&nested(MAX_DEPTH));
}

#[test]
fn what_limits_apply_to_is_counted() {
    let fitted = super::fit_schema(
        r#"{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"anyOf":[{"type":"null"}]},"c":{"oneOf":[{"type":"null"}]},"d":{"type":"null"}},"required":["a"]}"#,
        Some("For this."),
    );
    assert_eq!(
        (fitted.fit, fitted.optional, fitted.unions),
        (Fit::Whole, 3, 3)
    );
    assert!(
        fitted
            .text
            .ends_with(r#""additionalProperties":false,"description":"For this."}"#),
        "{}",
        fitted.text
    );
}

#[track_caller]
fn check_parameters(schema: Option<&str>, expected: &str, moved: Option<&str>) {
    let parameters = super::object_parameters(schema);
    assert_eq!(
        (&*parameters.schema, parameters.moved.as_deref()),
        (expected, moved)
    );
}

#[test]
fn parameters_are_an_objects() {
    check_parameters(None, r#"{"type":"object","properties":{}}"#, None);
    let whole = r#"{ "properties": {"a": {"minimum": 1.0}}, "type": "object" }"#;
    check_parameters(Some(whole), whole, None);
    check_parameters(Some("{}"), r#"{"type":"object"}"#, None);
    check_parameters(
        Some(r#"{"properties":{}}"#),
        r#"{"type":"object","properties":{}}"#,
        None,
    );
    check_parameters(
        Some(r#"{"type":["object","null"],"a":1.0}"#),
        r#"{"type":"object","a":1.0}"#,
        None,
    );
    check_parameters(Some("1"), r#"{"type":"object","properties":{}}"#, None);
    check_parameters(
        Some(
            r#"{"type":"object","anyOf":[{"required":["a"]}],"oneOf":[],"properties":{"a":{"anyOf":[]}}}"#,
        ),
        r#"{"type":"object","properties":{"a":{"anyOf":[]}}}"#,
        Some(r#"{"anyOf":[{"required":["a"]}],"oneOf":[]}"#),
    );
}

#[test]
fn a_schema_says_whether_it_is_one_of_objects() {
    for (schema, expected) in [
        (r#"{"type":"object"}"#, true),
        ("{}", true),
        (r#"{"type":"array"}"#, false),
        ("true", false),
    ] {
        assert_eq!(is_of_objects(schema), expected, "{schema}");
    }
}
