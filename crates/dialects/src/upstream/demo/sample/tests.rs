use serde_json::{Value, json};

use super::*;

#[track_caller]
fn check(schema: &Value, expected: &Value) {
    let made = sample_for_schema(&schema.to_string(), "demo")
        .map(|json| serde_json::from_str::<Value>(&json).expect("JSON"));
    assert_eq!(made.as_ref().unwrap_or(&Value::Null), expected, "{schema}");
}

#[test]
fn values_are_as_their_schemas_say() {
    let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required});
    for (schema, expected) in [
        (json!({"type": "string"}), json!("demo")),
        (json!({"type": "string", "minLength": 6}), json!("demode")),
        (json!({"type": "string", "maxLength": 2}), json!("de")),
        (
            json!({"type": "string", "format": "date"}),
            json!("2026-01-01"),
        ),
        (json!({"enum": ["b", "a"], "type": "string"}), json!("b")),
        (json!({"enum": [1, "a"], "type": "string"}), json!("a")),
        (
            json!({"type": "integer", "anyOf": [{"type": "string"}, {"minimum": 5}]}),
            json!(5),
        ),
        (
            json!({"oneOf": [{"type": "string"}, {"type": "null"}]}),
            json!("demo"),
        ),
        (
            json!({"minimum": 2, "allOf": [{"minimum": 2}, {"maximum": 9}], "x-of-others": 1}),
            json!(2),
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true}),
            json!([1]),
        ),
        (json!({"const": {"a": [1, "x"]}}), json!({"a": [1, "x"]})),
        (json!({"type": ["null", "boolean"]}), json!(true)),
        (json!({"type": "integer", "minimum": 10}), json!(10)),
        (
            json!({"type": "integer", "exclusiveMinimum": 10}),
            json!(11),
        ),
        (json!({"type": "integer", "maximum": -3}), json!(-3)),
        (json!({"type": "integer", "minimum": 2.5}), json!(3)),
        (
            json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5}),
            json!(0.25),
        ),
        (
            json!({"type": "number", "minimum": 5, "exclusiveMinimum": true}),
            json!(6),
        ),
        (
            json!({"type": "integer", "minimum": 20, "multipleOf": 7}),
            json!(21),
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}}),
            json!([1]),
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}, "minItems": 3}),
            json!([1, 1, 1]),
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}, "maxItems": 0}),
            json!([]),
        ),
        (
            json!({"type": "array", "minItems": 2}),
            json!(["demo", "demo"]),
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "minItems": 2}),
            json!([1, true]),
        ),
        (
            object(
                json!({"a": {"type": "string"}, "b": {"type": "null"}}),
                json!(["b"]),
            ),
            json!({"b": null}),
        ),
        // Nothing is required: all that can be made is shown.
        (
            json!({"properties": {"a": {"type": "string"}, "b": {"not": {}}}}),
            json!({"a": "demo"}),
        ),
        (
            json!({"required": ["x"], "type": "object", "additionalProperties": {"type": "integer"}}),
            json!({"x": 1}),
        ),
        (json!({"required": ["x"]}), json!({"x": "demo"})),
        (
            json!({"anyOf": [{"not": {}}, {"type": "integer"}]}),
            json!(1),
        ),
        (
            json!({"allOf": [{"$ref": "#/$defs/a~1b"}, {"required": ["y"]}], "$defs": {"a/b": {"properties": {"y": {"type": "boolean"}}}}}),
            json!({"y": true}),
        ),
        (json!({}), json!("demo")),
        // A property with one text identifies the alternative.
        (
            json!({"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "discriminator": {"propertyName": "kind", "mapping": {"a": "#/$defs/a"}},
                "$defs": {"a": object(json!({"kind": {"const": "a", "default": "a"}, "n": {"type": "integer"}}), json!(["n"])), "b": object(json!({"kind": {"const": "b"}}), json!(["kind"]))}}),
            json!({"kind": "a", "n": 1}),
        ),
        (
            json!({"oneOf": [object(json!({"kind": {"enum": ["a"]}}), json!(["kind"])), object(json!({"kind": {"enum": ["b"]}}), json!([]))]}),
            json!({"kind": "a"}),
        ),
        (
            json!({"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}}),
            json!({"demo 1": 1, "demo 2": 1}),
        ),
    ] {
        check(&schema, &expected);
    }
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    let list = json!({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]});
    let made: Value =
        serde_json::from_str(&sample_for_schema(&list.to_string(), "demo").expect("a list"))
            .expect("JSON");
    assert!(made["next"].is_object());
    let tree = json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}, "required": ["children"]});
    let made: Value =
        serde_json::from_str(&sample_for_schema(&tree.to_string(), "demo").expect("a tree"))
            .expect("JSON");
    assert!(made["children"][0]["children"].is_array());
}

#[test]
fn what_is_not_understood_or_too_large_makes_nothing() {
    let many: serde_json::Map<String, Value> = (0..3_000)
        .map(|n| (n.to_string(), json!({"type": "string"})))
        .collect();
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
        json!({"type": "integer", "minimum": 9_007_199_254_740_993_u64}),
        json!({"type": "string", "pattern": "^x$", "default": "y"}),
        // Parts that contradict each other, and keywords that are not understood.
        json!({"minimum": 1, "allOf": [{"minimum": 5}]}),
        json!({"enum": [1, 2], "allOf": [{"enum": [2, 3]}]}),
        json!({"const": 1, "enum": [1]}),
        json!({"enum": ["a"], "type": "integer"}),
        json!({"enum": ["a"], "minLength": 2}),
        json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}),
        json!({"oneOf": [{"minimum": 1}, {"maximum": 5}]}),
        json!({"oneOf": [{"properties": {"kind": {"const": "a"}}}, {"properties": {"kind": {"const": "b"}}}]}),
        json!({"oneOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        json!({"$ref": "#", "oneOf": [{"$ref": "#"}, {"$ref": "#/oneOf/0"}]}),
        json!({"minProperties": 1, "additionalProperties": false}),
        json!({"type": "object", "maxProperties": 0, "properties": {"a": {}}}),
        json!({"type": "object", "patternProperties": {"": false}, "required": ["a"]}),
        json!({"type": "object", "propertyNames": {"maxLength": 0}, "required": ["a"]}),
        json!({"type": "object", "unevaluatedProperties": false, "required": ["a"]}),
        json!({"type": "array", "minItems": "2"}),
        json!({"type": "array", "uniqueItems": true, "prefixItems": [{"const": 1}, {"const": 1}], "minItems": 2}),
        json!({"properties": {"a": {"$id": "https://example.com/a", "$ref": "#/$defs/b"}}, "required": ["a"], "$defs": {"b": {}}}),
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
        assert_eq!(sample_for_schema(text, "demo"), None, "{text}");
    }
}

#[test]
fn costly_lookups_are_declined_at_once() {
    let names: serde_json::Map<String, Value> =
        (0..40_000).map(|n| (format!("n{n}"), json!({}))).collect();
    let missing = vec![json!({"$ref": "#/$defs/none"}); 20_000];
    let text = "x".repeat(4_000_000);
    for schema in [
        json!({"$defs": names, "type": "array", "minItems": 900, "items": {"anyOf": missing}}),
        json!({"type": "array", "minItems": 900, "items": {"oneOf": missing}}),
        json!({"type": "array", "minItems": 900, "items": {"anyOf": vec![json!({"$ref": "#/$defs/long"}); 900]}, "$defs": {"long": {"const": text}}}),
        json!({"type": "array", "minItems": 900, "items": {"anyOf": vec![json!({"$ref": "#/$defs/long"}); 900]}, "$defs": {"long": {"required": [text]}}}),
    ] {
        let schema = schema.to_string();
        let node = Node::read(&schema).expect("a schema");
        let mut maker = Maker {
            root: &node,
            steps_left: MOST_STEPS,
            bytes_left: MOST_BYTES,
            word: "demo",
        };
        let begin = std::time::Instant::now();
        let made = maker
            .add_parts(&node, Vec::new())
            .and_then(|parts| maker.sample_value(&parts, 0, 0));
        assert_eq!((made, maker.steps_left), (None, 0));
        // On a slow machine. Without a bound it takes hours.
        assert!(
            begin.elapsed() < std::time::Duration::from_secs(60),
            "{:?}",
            begin.elapsed()
        );
    }
}
