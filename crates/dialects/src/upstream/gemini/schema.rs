//! This module reduces JSON Schemas to the part of JSON Schema that Google reads. Google answers
//! 400 to unknown keywords.
//!
//! Some keywords are written in another way (`const`, `allOf` of one, `definitions`, `null` in an
//! `enum`). Others are left out, and are named as a loss. The rest keeps its order and its text.
//! One pass reads and another writes; neither goes deeper than the scanner.

use crate::neutral::schema::Node;
use crate::wire::json::Writer;

/// A schema that was read. A value that is no object allows anything, except `false`.
#[derive(Debug)]
pub(super) struct Schema<'a>(pub(super) Node<'a>);

/// The type of `null`, as it stands in a list of types.
pub(super) const NULL: &str = r#""null""#;

/// The keywords that are written unchanged.
const UNCHANGED: [&str; 11] = [
    "$id",
    "$anchor",
    "format",
    "title",
    "description",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "required",
    "propertyOrdering",
];

impl<'a> Schema<'a> {
    /// Reads a schema. The text must be JSON.
    pub(super) fn read(json: &'a str) -> Self {
        // A schema that cannot be read is lost, as `false` is.
        Self(Node::read(json).unwrap_or(Node {
            text: "false",
            children: Vec::new(),
        }))
    }

    /// Returns whether the schema allows only objects.
    pub(super) fn is_object(&self) -> bool {
        self.0.children.iter().any(|(name, value)| match &**name {
            "type" => value.text == r#""object""#,
            "properties" => value.is_object(),
            _ => false,
        })
    }

    /// Returns whether the schema has no properties. Google then wants no parameters at all, not an
    /// object without properties.
    pub(super) fn has_no_properties(&self) -> bool {
        let mut parts = self.0.children.iter();
        self.0.text != "false"
            && parts.all(|(name, value)| match &**name {
                "$ref" => false,
                "properties" | "additionalProperties" => {
                    !value.is_object() || value.children.is_empty()
                }
                "anyOf" | "oneOf" | "allOf" => !value.is_array() || value.children.is_empty(),
                _ => true,
            })
    }

    /// Writes the schema for Google. Returns whether a part of its meaning is lost.
    pub(super) fn write(&self, w: &mut Writer) -> bool {
        let mut writer = SchemaWriter { lost: false };
        writer.schema(&self.0, w);
        writer.lost
    }
}

/// Returns whether a keyword is written unchanged.
pub(super) fn is_unchanged(name: &str) -> bool {
    UNCHANGED.contains(&name)
}

/// Returns whether a keyword is written, changed or unchanged, and is no reference or definition.
fn is_written(name: &str) -> bool {
    const CHANGED: [&str; 7] = [
        "type",
        "enum",
        "const",
        "items",
        "additionalProperties",
        "prefixItems",
        "properties",
    ];
    CHANGED.contains(&name) || is_choice(name) || (is_unchanged(name) && !name.starts_with('$'))
}

fn is_choice(name: &str) -> bool {
    matches!(name, "anyOf" | "oneOf" | "allOf")
}

/// Returns whether a keyword does not limit values.
pub(super) fn limits_nothing(name: &str) -> bool {
    matches!(name, "$schema" | "$comment" | "$vocabulary" | "strict")
}

/// Writes schemas, and notes if a part of their meaning is lost.
struct SchemaWriter {
    lost: bool,
}

impl SchemaWriter {
    fn schema(&mut self, schema: &Node<'_>, w: &mut Writer) {
        self.lost |= schema.text == "false";
        w.object(|w| {
            if schema.is_object() {
                self.members(schema, w);
            }
        });
    }

    fn members(&mut self, schema: &Node<'_>, w: &mut Writer) {
        let has_company = schema.children.iter().any(|(name, _)| is_written(name));
        let Some(reference) = schema.get("$ref").filter(|_| has_company) else {
            return self.keywords(schema, true, w);
        };
        // Next to `$ref` Google reads only keywords that begin with `$`. So the reference moves
        // into an `anyOf`, if there is no other.
        if schema.children.iter().any(|(name, _)| is_choice(name)) {
            self.lost = true;
            return write_reference(reference.text, w);
        }
        self.keywords(schema, false, w);
        w.key("anyOf")
            .array(|w| w.object(|w| write_reference(reference.text, w)));
    }

    fn keywords(&mut self, schema: &Node<'_>, with_reference: bool, w: &mut Writer) {
        let has = |name: &str| schema.get(name).is_some();
        let (has_const, has_any_of, has_defs) = (has("const"), has("anyOf"), has("$defs"));
        let is_null = schema
            .get("const")
            .is_some_and(|value| value.text == "null");
        let nullable = nullable_enum_types(schema);
        let older = schema.get("definitions").filter(|older| older.is_object());
        for (name, value) in &schema.children {
            match &**name {
                "$ref" if with_reference => write_reference(value.text, w),
                "$ref" => {}
                "type" if nullable.is_some() || is_null => {}
                "enum" if has_const => {}
                "enum" if value.is_array() => {
                    let values: Vec<&str> = value.elements().map(|value| value.text).collect();
                    match &nullable {
                        Some(kinds) => self.nullable(kinds, &values, w),
                        None => self.values(&values, w),
                    }
                }
                "const" if is_null => w.key("type").text("null"),
                "const" => self.values(&[value.text], w),
                "items" if value.is_array() => self.list(value, w.key("prefixItems")),
                "allOf" if value.is_array() && value.children.len() == 1 && !has_any_of => {
                    self.list(value, w.key("anyOf"));
                }
                "definitions" if has_defs => {}
                "$defs" if value.is_object() => self.named([Some(value), older], w.key("$defs")),
                "definitions" if value.is_object() => {
                    self.named([Some(value), None], w.key("$defs"))
                }
                "items" | "additionalProperties" if value.is_object() => {
                    self.schema(value, w.name(name))
                }
                "items" if value.is_bool() => self.schema(value, w.key("items")),
                "anyOf" | "oneOf" | "prefixItems" if value.is_array() => {
                    self.list(value, w.name(name))
                }
                "properties" if value.is_object() => {
                    self.named([Some(value), None], w.key("properties"))
                }
                "type" if value.is_array() => w
                    .key("type")
                    .each(value.elements(), |w, kind| w.raw(kind.text)),
                // A keyword with a value of the wrong kind stays as it is. Google may judge it.
                "type"
                | "items"
                | "additionalProperties"
                | "anyOf"
                | "oneOf"
                | "prefixItems"
                | "properties" => {
                    w.name(name).raw(value.text);
                }
                name if is_unchanged(name) => w.name(name).raw(value.text),
                name => self.lost |= !limits_nothing(name),
            }
        }
    }

    fn list(&mut self, list: &Node<'_>, w: &mut Writer) {
        w.each(list.elements(), |w, schema| self.schema(schema, w));
    }

    fn named(&mut self, lists: [Option<&Node<'_>>; 2], w: &mut Writer) {
        let all = lists.into_iter().flatten().flat_map(|list| &list.children);
        w.object(|w| all.for_each(|(name, schema)| self.schema(schema, w.name(name))));
    }

    /// Writes the values of an `enum` that Google takes.
    fn values(&mut self, values: &[&str], w: &mut Writer) {
        let taken = || values.iter().filter(|value| is_constant(value));
        w.list("enum", taken(), |w, value| w.raw(value));
        self.lost |= taken().count() < values.len();
    }

    /// Writes an `enum` with `null` among its values: an `anyOf` of the other values and `null`.
    fn nullable(&mut self, kinds: &[&str], values: &[&str], w: &mut Writer) {
        w.key("anyOf").array(|w| {
            w.object(|w| {
                let kinds: Vec<&str> = kinds.iter().copied().filter(|kind| *kind != NULL).collect();
                match kinds.as_slice() {
                    [] => {}
                    [kind] => w.key("type").raw(kind),
                    several => w.key("type").each(several, |w, kind| w.raw(kind)),
                }
                let others: Vec<&str> = values
                    .iter()
                    .copied()
                    .filter(|value| *value != "null")
                    .collect();
                self.values(&others, w);
            });
            w.object(|w| w.key("type").text("null"));
        });
    }
}

/// Returns the types of an `enum` that has `null` among its values. Google takes only strings and
/// numbers there.
fn nullable_enum_types<'a>(schema: &Node<'a>) -> Option<Vec<&'a str>> {
    let values = schema.get("enum").filter(|values| values.is_array())?;
    let has_null = values.elements().any(|value| value.text == "null")
        && values.elements().any(|value| is_constant(value.text));
    let is_free = ["const", "$ref", "anyOf", "oneOf", "allOf"]
        .iter()
        .all(|name| schema.get(name).is_none());
    if !has_null || !is_free {
        return None;
    }
    let Some(kinds) = schema.get("type") else {
        return Some(Vec::new());
    };
    (kinds.is_array() && kinds.elements().any(|kind| kind.text == NULL))
        .then(|| kinds.elements().map(|kind| kind.text).collect())
}

/// Returns whether Google takes a value in an `enum`.
fn is_constant(value: &str) -> bool {
    value.starts_with(|c: char| matches!(c, '"' | '-' | '0'..='9'))
}

fn write_reference(reference: &str, w: &mut Writer) {
    match reference.strip_prefix(r##""#/definitions/"##) {
        Some(rest) => w.key("$ref").raw(&[r##""#/$defs/"##, rest].concat()),
        None => w.key("$ref").raw(reference),
    }
}

#[cfg(test)]
mod tests;
