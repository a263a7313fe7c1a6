//! This module writes schemas in Google's older form, a part of OpenAPI's. It is for servers that
//! imitate Gemini and do not know JSON Schema.
//!
//! The form has no references. Each reference is replaced by its definition, except one that goes
//! in a circle or too deep. `null` among the types becomes `nullable`, a `const` becomes an `enum`
//! of one, and `oneOf` becomes `anyOf`. Anything else that the form lacks is left out, and is named
//! as a loss.

use super::schema::{NULL, Schema, is_unchanged, limits_nothing};
use crate::neutral::schema::Node;
use crate::wire::json::Writer;

/// The most references that are replaced inside each other.
const DEEPEST: usize = 8;
/// The most parts of a written schema. References can make a schema grow, and it is cut here.
const MAX_PARTS: usize = 2000;

/// Writes a schema. Returns whether a part of its meaning is lost.
pub(super) fn write_schema(schema: &Schema<'_>, w: &mut Writer) -> bool {
    let schema = &schema.0;
    let mut form = Form {
        defs: Vec::new(),
        depth: 0,
        written: 0,
        lost: false,
    };
    for (name, list) in &schema.children {
        if matches!(&**name, "$defs" | "definitions") && list.is_object() {
            form.defs
                .extend(list.children.iter().map(|(name, schema)| (&**name, schema)));
        }
    }
    form.schema(schema, w);
    form.lost
}

struct Form<'s, 'a> {
    /// The definitions by their names.
    defs: Vec<(&'s str, &'s Node<'a>)>,
    depth: usize,
    written: usize,
    lost: bool,
}

impl<'s, 'a> Form<'s, 'a> {
    fn schema(&mut self, schema: &'s Node<'a>, w: &mut Writer) {
        self.written += 1;
        self.lost |= schema.text == "false";
        w.object(|w| {
            if schema.is_object() {
                self.members(schema, w);
            }
        });
    }

    fn members(&mut self, schema: &'s Node<'a>, w: &mut Writer) {
        let has = |wanted: &str| schema.get(wanted).is_some();
        let (has_any_of, has_one_of, has_const) = (has("anyOf"), has("oneOf"), has("const"));
        let has_choice = has_any_of || has_one_of || has("allOf");
        let excludes_kinds = has_choice || has("$ref");
        let has_company = schema.children.iter().any(|(name, _)| limits_values(name));
        let is_null = is_null(schema);
        let mut nullable = false;
        for (name, value) in &schema.children {
            match &**name {
                "type" | "enum" | "const" | "anyOf" | "oneOf" if is_null => {}
                "$ref" if has_choice => self.lost = true,
                "$ref" => self.reference(value.text, has_company, w),
                "type" if value.is_array() => self.kinds(value, &mut nullable, excludes_kinds, w),
                "enum" if has_const => {}
                "enum" if value.is_array() => self.values(value.elements(), &mut nullable, w),
                "const" => self.values(std::iter::once(value), &mut nullable, w),
                "oneOf" if has_any_of => self.lost = true,
                "anyOf" | "oneOf" if value.is_array() => self.any_of(value, &mut nullable, w),
                "allOf"
                    if value.is_array()
                        && value.children.len() == 1
                        && !has_any_of
                        && !has_one_of =>
                {
                    self.any_of(value, &mut nullable, w);
                }
                "items" if value.is_object() || value.is_bool() => {
                    self.schema(value, w.key("items"))
                }
                "properties" if value.is_object() => {
                    w.key("properties").object(|w| {
                        value
                            .children
                            .iter()
                            .for_each(|(name, schema)| self.schema(schema, w.name(name)))
                    });
                }
                "type" => w.key("type").raw(value.text),
                name if is_unchanged(name) && !name.starts_with('$') => {
                    w.name(name).raw(value.text)
                }
                "additionalProperties" if value.text == "true" => {}
                name if !limits_values(name) => {}
                _ => self.lost = true,
            }
        }
        if is_null {
            w.key("type").text("null");
        } else if nullable && allows_null(schema) {
            w.key("nullable").bool(true);
        }
    }

    /// Writes the definition of a reference in its place.
    fn reference(&mut self, reference: &str, has_company: bool, w: &mut Writer) {
        let name = reference.trim_matches('"');
        let name = name
            .strip_prefix("#/$defs/")
            .or_else(|| name.strip_prefix("#/definitions/"));
        let found = name
            .and_then(|name| self.defs.iter().find(|(known, _)| *known == name))
            .map(|(_, schema)| *schema);
        match found {
            Some(schema)
                if schema.is_object() && self.depth < DEEPEST && self.written < MAX_PARTS =>
            {
                self.depth += 1;
                if has_company {
                    // Next to other keywords the definition might repeat a keyword.
                    w.key("anyOf")
                        .array(|w| w.object(|w| self.members(schema, w)));
                } else {
                    self.members(schema, w);
                }
                self.depth -= 1;
            }
            Some(_) | None => self.lost = true,
        }
    }

    fn kinds(&mut self, kinds: &Node<'_>, nullable: &mut bool, has_any_of: bool, w: &mut Writer) {
        let others: Vec<&str> = kinds
            .elements()
            .map(|kind| kind.text)
            .filter(|kind| *kind != r#""null""#)
            .collect();
        *nullable |= others.len() < kinds.children.len();
        match others.as_slice() {
            [kind] => w.key("type").raw(kind),
            _ if has_any_of => self.lost = true,
            several => w
                .key("anyOf")
                .each(several, |w, kind| w.object(|w| w.key("type").raw(kind))),
        }
    }

    /// Writes an `enum`. Only texts are valid in it.
    fn values<'v>(
        &mut self,
        values: impl Iterator<Item = &'v Node<'a>>,
        nullable: &mut bool,
        w: &mut Writer,
    ) where
        'a: 'v,
    {
        let mut texts = Vec::new();
        for value in values {
            match value.text {
                "null" => *nullable = true,
                text if text.starts_with('"') => texts.push(text),
                _ => self.lost = true,
            }
        }
        w.list("enum", texts, Writer::raw);
    }

    /// Writes the alternatives of a value. An alternative that is only `null` is written next to
    /// them.
    fn any_of(&mut self, list: &'s Node<'a>, nullable: &mut bool, w: &mut Writer) {
        let (nulls, others): (Vec<_>, Vec<_>) = list.elements().partition(|schema| is_null(schema));
        *nullable |= !nulls.is_empty();
        w.key("anyOf")
            .each(others, |w, schema| self.schema(schema, w));
    }
}

/// Returns whether a keyword by itself limits values. References and definitions do not.
fn limits_values(name: &str) -> bool {
    !matches!(name, "$ref" | "$defs" | "definitions") && !limits_nothing(name)
}

/// Returns whether one of a schema's keywords allows only `null`.
fn is_null(schema: &Node<'_>) -> bool {
    schema.children.iter().any(|(name, value)| match &**name {
        "type" => value.text == NULL || are_all(value, |kind| kind.text == NULL),
        "const" => value.text == "null",
        "enum" => are_all(value, |value| value.text == "null"),
        "anyOf" | "oneOf" => are_all(value, is_null),
        _ => false,
    })
}

/// Returns whether a list has elements, and each is `null`.
fn are_all(list: &Node<'_>, is_null: fn(&Node<'_>) -> bool) -> bool {
    list.is_array() && !list.children.is_empty() && list.elements().all(is_null)
}

/// Returns whether a schema's own keywords allow `null`. A reference may forbid it.
fn allows_null(schema: &Node<'_>) -> bool {
    schema.text != "false"
        && schema.children.iter().all(|(name, value)| match &**name {
            "type" if value.is_array() => value.elements().any(|kind| kind.text == NULL),
            "type" => value.text == NULL,
            "const" => value.text == "null",
            "enum" if value.is_array() => value.elements().any(|value| value.text == "null"),
            "anyOf" | "oneOf" if value.is_array() => value.elements().any(allows_null),
            "allOf" if value.is_array() => value.elements().all(allows_null),
            _ => true,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: &str, expected: &str, lost: bool) {
        let mut w = Writer::default();
        let found = write_schema(&Schema::read(schema), &mut w);
        assert_eq!(
            (String::from_utf8(w.into_bytes()).unwrap().as_str(), found),
            (expected, lost),
            "{schema}"
        );
    }

    #[test]
    fn what_can_be_said_otherwise_is() {
        check(
            r#"{"type":"object","properties":{"a":{"type":["string","null"],"description":"A"},"b":{"const":"x"},"c":{"enum":["y",null]}},"required":["a"]}"#,
            r#"{"type":"object","properties":{"a":{"type":"string","description":"A","nullable":true},"b":{"enum":["x"]},"c":{"enum":["y"],"nullable":true}},"required":["a"]}"#,
            false,
        );
        check(
            r#"{"type":["string","integer"]}"#,
            r#"{"anyOf":[{"type":"string"},{"type":"integer"}]}"#,
            false,
        );
        check(
            r#"{"oneOf":[{"type":"string"},{"type":"null"}]}"#,
            r#"{"anyOf":[{"type":"string"}],"nullable":true}"#,
            false,
        );
        check(
            r#"{"type":"array","items":{"type":"number"},"minItems":1}"#,
            r#"{"type":"array","items":{"type":"number"},"minItems":1}"#,
            false,
        );
        check(
            r#"{"$schema":"x","type":"object","additionalProperties":true}"#,
            r#"{"type":"object"}"#,
            false,
        );
    }

    #[test]
    fn null_is_allowed_if_all_keywords_allow_it() {
        check(
            r#"{"type":["string","null"],"enum":["a"]}"#,
            r#"{"type":"string","enum":["a"]}"#,
            false,
        );
        check(
            r#"{"type":"string","enum":["a",null]}"#,
            r#"{"type":"string","enum":["a"]}"#,
            false,
        );
        check(
            r#"{"type":["string","null"],"anyOf":[{"enum":["a",null]},{"minLength":2}]}"#,
            r#"{"type":"string","anyOf":[{"enum":["a"],"nullable":true},{}],"nullable":true}"#,
            true,
        );
        check(r#"{"type":["null"]}"#, r#"{"type":"null"}"#, false);
        check(
            r#"{"title":"x","const":null}"#,
            r#"{"title":"x","type":"null"}"#,
            false,
        );
        check(r#"{"enum":[null]}"#, r#"{"type":"null"}"#, false);
        check(
            r#"{"anyOf":[{"type":"null"}]}"#,
            r#"{"type":"null"}"#,
            false,
        );
        check(
            r#"{"type":["string","null"],"const":null}"#,
            r#"{"type":"null"}"#,
            false,
        );
    }

    #[test]
    fn references_are_replaced_by_what_they_stand_for() {
        check(
            r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/A"},"b":{"$ref":"#/$defs/A","description":"B"}},"$defs":{"A":{"type":"string"}}}"##,
            r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"anyOf":[{"type":"string"}],"description":"B"}}}"#,
            false,
        );
        let mut w = Writer::default();
        let circle = r##"{"$ref":"#/$defs/N","$defs":{"N":{"type":"object","properties":{"next":{"$ref":"#/$defs/N"},"other":{"$ref":"#/$defs/N"}}}}}"##;
        assert!(write_schema(&Schema::read(circle), &mut w));
        let text = String::from_utf8(w.into_bytes()).unwrap();
        assert!(
            serde_json::from_str::<serde_json::Value>(&text).is_ok()
                && text.len() < 64 * 1024
                && !text.contains('$'),
            "{}",
            text.len()
        );
        check(r##"{"$ref":"#/$defs/Nobody"}"##, "{}", true);
    }

    #[test]
    fn what_cannot_be_said_is_told() {
        check(
            r#"{"type":"object","additionalProperties":false}"#,
            r#"{"type":"object"}"#,
            true,
        );
        check(r#"{"enum":[1,2]}"#, "{}", true);
        check(
            r#"{"type":"string","pattern":"a"}"#,
            r#"{"type":"string"}"#,
            true,
        );
        check(
            r#"{"type":"array","prefixItems":[{"type":"string"}]}"#,
            r#"{"type":"array"}"#,
            true,
        );
        check(
            r#"{"allOf":[{"type":"string"},{"type":"number"}]}"#,
            "{}",
            true,
        );
        check("false", "{}", true);
    }
}
