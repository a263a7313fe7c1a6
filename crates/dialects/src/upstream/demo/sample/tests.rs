use serde_json::{Value, json};

use super::*;

#[track_caller]
fn check(schema: &Value, expected: &Value) {
    let made = of_schema(&schema.to_string(), "demo").map(|json| serde_json::from_str::<Value>(&json).expect("JSON"));
    assert_eq!(made.as_ref().unwrap_or(&Value::Null), expected, "{schema}");
}

#[test]
fn values_are_as_their_schemas_say() {
    let object =
        |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required});
    for (schema, expected) in [
        (json!({"type": "string"}), json!("demo")),
        (json!({"type": "string", "minLength": 6}), json!("demode")),
        (json!({"type": "string", "maxLength": 2}), json!("de")),
        (json!({"type": "string", "format": "date"}), json!("2026-01-01")),
        (json!({"type": "string", "pattern": "^x$", "default": "x"}), json!("x")),
        (json!({"enum": ["b", "a"], "type": "string"}), json!("b")),
        (json!({"const": {"a": [1, "x"]}}), json!({"a": [1, "x"]})),
        (json!({"type": ["null", "boolean"]}), json!(true)),
        (json!({"type": "integer", "minimum": 10}), json!(10)),
        (json!({"type": "integer", "exclusiveMinimum": 10}), json!(11)),
        (json!({"type": "integer", "maximum": -3}), json!(-3)),
        (json!({"type": "integer", "minimum": 2.5}), json!(3)),
        (json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5}), json!(0.25)),
        (json!({"type": "number", "minimum": 5, "exclusiveMinimum": true}), json!(6)),
        (json!({"type": "integer", "minimum": 20, "multipleOf": 7}), json!(21)),
        (json!({"type": "array", "items": {"type": "integer"}}), json!([1])),
        (json!({"type": "array", "items": {"type": "integer"}, "minItems": 3}), json!([1, 1, 1])),
        (json!({"type": "array", "items": {"type": "integer"}, "maxItems": 0}), json!([])),
        (json!({"type": "array", "minItems": 2}), json!(["demo", "demo"])),
        (
            json!({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "minItems": 2}),
            json!([1, true]),
        ),
        (object(json!({"a": {"type": "string"}, "b": {"type": "null"}}), json!(["b"])), json!({"b": null})),
        // Nothing is required: all that can be made is shown.
        (json!({"properties": {"a": {"type": "string"}, "b": {"not": {}}}}), json!({"a": "demo"})),
        (json!({"required": ["x"], "type": "object", "additionalProperties": {"type": "integer"}}), json!({"x": 1})),
        (json!({"required": ["x"]}), json!({"x": "demo"})),
        (json!({"anyOf": [{"not": {}}, {"type": "integer"}]}), json!(1)),
        (
            json!({"allOf": [{"$ref": "#/$defs/a~1b"}, {"required": ["y"]}], "$defs": {"a/b": {"properties": {"y": {"type": "boolean"}}}}}),
            json!({"y": true}),
        ),
        (json!({}), json!("demo")),
    ] {
        check(&schema, &expected);
    }
}

#[test]
fn a_schema_that_refers_to_itself_comes_to_an_end() {
    let list = json!({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]});
    let made: Value = serde_json::from_str(&of_schema(&list.to_string(), "demo").expect("a list")).expect("JSON");
    assert!(made["next"].is_object());
    let tree = json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}, "required": ["children"]});
    let made: Value = serde_json::from_str(&of_schema(&tree.to_string(), "demo").expect("a tree")).expect("JSON");
    assert!(made["children"][0]["children"].is_array());
}

#[test]
fn what_is_not_understood_or_too_large_makes_nothing() {
    let many: serde_json::Map<String, Value> = (0..3_000).map(|n| (n.to_string(), json!({"type": "string"}))).collect();
    let wide = json!({"type": "array", "minItems": 900, "items": {"type": "array", "minItems": 900, "items": {"type": "string"}}});
    let twice = json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]});
    let long = json!({"type": "array", "minItems": 900, "items": {"const": "x".repeat(10_000)}});
    for schema in [
        json!({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}),
        json!({"type": "object", "required": ["a"], "properties": {"a": false}}),
        json!({"type": "object", "required": ["a"], "additionalProperties": false}),
        json!({"type": "string", "pattern": "^a+$"}),
        json!({"type": "string", "minLength": 1_000_000_000}),
        json!({"type": "string", "format": "uuid", "maxLength": 3}),
        json!({"type": "integer", "minimum": 3, "maximum": 2}),
        json!({"type": "array", "minItems": 1_000_000_000_000_u64}),
        json!({"type": "array", "minItems": 2, "uniqueItems": true, "items": {"type": "integer"}}),
        json!({"type": "array", "minItems": 1, "items": false}),
        json!({"$ref": "https://example.com/schema"}),
        json!({"$ref": "#/$defs/none"}),
        json!({"type": "other"}),
        json!({"type": "object", "properties": many}),
        wide,
        twice,
        long,
    ] {
        check(&schema, &Value::Null);
    }
    for text in ["", "{", "[1,2", "nonsense"] {
        assert_eq!(of_schema(text, "demo"), None, "{text}");
    }
}
