//! JSON Schemas, cut down to the part of JSON Schema that Google reads: what it does not know it
//! answers with 400.
//!
//! What can be said otherwise is (`const`, `allOf` of one, `definitions`, `null` in an `enum`);
//! what cannot is left out, and told. Of what stays, order and text stay too. One pass reads,
//! another writes; neither goes deeper than the scanner does.

use crate::neutral::schema::Node;
use crate::wire::json::Writer;

/// A schema, read. What is no object allows anything, unless it is `false`.
#[derive(Debug)]
pub(super) struct Schema<'a>(pub(super) Node<'a>);

/// The type of nothing, as it stands in a list of types.
const NULL: &str = r#""null""#;

/// Keywords that go out as they came.
const PLAIN: [&str; 11] = [
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
    /// Reads a schema. The text is JSON.
    pub(super) fn read(json: &'a str) -> Self {
        Self(Node::read(json).unwrap_or(Node { text: "true", parts: Vec::new() }))
    }

    /// Whether values must be objects.
    pub(super) fn is_object(&self) -> bool {
        self.0.parts.iter().any(|(name, value)| match &**name {
            "type" => value.text == r#""object""#,
            "properties" => value.is_object(),
            _ => false,
        })
    }

    /// Whether it has no members to fill in: Google wants no parameters then, rather than an object
    /// without properties.
    pub(super) fn has_no_properties(&self) -> bool {
        self.0.parts.iter().all(|(name, value)| match &**name {
            "$ref" => false,
            "properties" | "additionalProperties" => !value.is_object() || value.parts.is_empty(),
            "anyOf" | "oneOf" | "allOf" => !value.is_array() || value.parts.is_empty(),
            _ => true,
        })
    }

    /// Writes it for Google. Returns whether something that it says is lost.
    pub(super) fn write(&self, w: &mut Writer) -> bool {
        write(&self.0, w)
    }
}

/// Whether a keyword goes out as it came.
pub(super) fn is_plain(name: &str) -> bool {
    PLAIN.contains(&name)
}

/// Whether a keyword says nothing about values.
pub(super) fn is_idle(name: &str) -> bool {
    matches!(name, "$schema" | "$comment" | "$vocabulary" | "strict")
}

/// Writes a schema. Returns whether something that it says is lost.
fn write(schema: &Node<'_>, w: &mut Writer) -> bool {
    let mut lost = false;
    if schema.is_object() {
        w.object(|w| lost = write_members(schema, w));
    } else {
        lost = schema.text == "false";
        w.object(|_| {});
    }
    lost
}

fn write_members(schema: &Node<'_>, w: &mut Writer) -> bool {
    let is_choice = |name: &str| matches!(name, "anyOf" | "oneOf" | "allOf");
    let stands_beside = |name: &str| {
        let is_read =
            matches!(name, "type" | "enum" | "const" | "items" | "additionalProperties" | "prefixItems" | "properties");
        is_read || is_choice(name) || (is_plain(name) && !name.starts_with('$'))
    };
    let has_company = schema.parts.iter().any(|(name, _)| stands_beside(name));
    let Some(reference) = schema.get("$ref").filter(|_| has_company) else {
        return write_keywords(schema, true, w);
    };
    // Beside `$ref` Google reads nothing that has no `$` itself: so it moves into an `anyOf`,
    // if there is no other.
    if schema.parts.iter().any(|(name, _)| is_choice(name)) {
        write_reference(reference.text, w);
        return true;
    }
    let lost = write_keywords(schema, false, w);
    w.key("anyOf").array(|w| w.object(|w| write_reference(reference.text, w)));
    lost
}

fn write_keywords(schema: &Node<'_>, with_reference: bool, w: &mut Writer) -> bool {
    let has = |name: &str| schema.get(name).is_some();
    let (has_type, has_const, has_any_of, has_defs) = (has("type"), has("const"), has("anyOf"), has("$defs"));
    let nullable = nullable(schema);
    let older = schema.get("definitions").filter(|older| older.is_object());
    let mut lost = false;
    for (name, value) in &schema.parts {
        lost |= match &**name {
            "$ref" => {
                if with_reference {
                    write_reference(value.text, w);
                }
                false
            }
            "type" if nullable.is_some() => false,
            "enum" if has_const => false,
            "enum" if value.is_array() => {
                let values: Vec<&str> = value.elements().map(|value| value.text).collect();
                match &nullable {
                    Some(kinds) => write_nullable(kinds, &values, w),
                    None => write_enum(&values, w),
                }
            }
            "const" if value.text == "null" => {
                if !has_type {
                    w.key("type").text("null");
                }
                false
            }
            "const" => write_enum(&[value.text], w),
            "items" if value.is_array() => write_list(value, w.key("prefixItems")),
            "allOf" if value.is_array() && value.parts.len() == 1 && !has_any_of => write_list(value, w.key("anyOf")),
            "definitions" if has_defs => false,
            "$defs" if value.is_object() => write_named([Some(value), older], w.key("$defs")),
            "definitions" if value.is_object() => write_named([Some(value), None], w.key("$defs")),
            "items" | "additionalProperties" if value.is_object() => write(value, w.name(name)),
            "items" if value.is_bool() => write(value, w.key("items")),
            "anyOf" | "oneOf" | "prefixItems" if value.is_array() => write_list(value, w.name(name)),
            "properties" if value.is_object() => write_named([Some(value), None], w.key("properties")),
            "type" if value.is_array() => {
                w.key("type").array(|w| value.elements().for_each(|kind| w.raw(kind.text)));
                false
            }
            // One of the wrong kind stays as it is, for Google to judge.
            "type" | "items" | "additionalProperties" | "anyOf" | "oneOf" | "prefixItems" | "properties" => {
                w.name(name).raw(value.text);
                false
            }
            name if is_plain(name) => {
                w.name(name).raw(value.text);
                false
            }
            name => !is_idle(name),
        };
    }
    lost
}

/// Returns the types of an `enum` where `null` is a value. Google takes no values there but strings
/// and numbers.
fn nullable<'a>(schema: &Node<'a>) -> Option<Vec<&'a str>> {
    let values = schema.get("enum").filter(|values| values.is_array())?;
    let has_null =
        values.elements().any(|value| value.text == "null") && values.elements().any(|value| is_constant(value.text));
    let is_free = ["const", "$ref", "anyOf", "oneOf", "allOf"].iter().all(|name| schema.get(name).is_none());
    if !has_null || !is_free {
        return None;
    }
    let Some(kinds) = schema.get("type") else { return Some(Vec::new()) };
    (kinds.is_array() && kinds.elements().any(|kind| kind.text == NULL))
        .then(|| kinds.elements().map(|kind| kind.text).collect())
}

fn write_list(list: &Node<'_>, w: &mut Writer) -> bool {
    let mut lost = false;
    w.array(|w| list.elements().for_each(|schema| lost |= write(schema, w)));
    lost
}

fn write_named(lists: [Option<&Node<'_>>; 2], w: &mut Writer) -> bool {
    let mut lost = false;
    let all = lists.into_iter().flatten().flat_map(|list| &list.parts);
    w.object(|w| all.for_each(|(name, schema)| lost |= write(schema, w.name(name))));
    lost
}

/// Whether Google takes it in an `enum`.
fn is_constant(value: &str) -> bool {
    value.starts_with(|c: char| matches!(c, '"' | '-' | '0'..='9'))
}

fn write_enum(values: &[&str], w: &mut Writer) -> bool {
    let kept = || values.iter().filter(|value| is_constant(value));
    if kept().next().is_some() {
        w.key("enum").array(|w| kept().for_each(|value| w.raw(value)));
    }
    kept().count() < values.len()
}

/// `null` apart from the values: `anyOf` them.
fn write_nullable(kinds: &[&str], values: &[&str], w: &mut Writer) -> bool {
    let mut lost = false;
    w.key("anyOf").array(|w| {
        w.object(|w| {
            let mut kinds = kinds.iter().filter(|kind| **kind != NULL);
            match (kinds.next(), kinds.next()) {
                (Some(kind), None) => w.key("type").raw(kind),
                (Some(one), Some(two)) => {
                    w.key("type").array(|w| [one, two].into_iter().chain(kinds).for_each(|kind| w.raw(kind)))
                }
                (None, _) => {}
            }
            let others: Vec<&str> = values.iter().copied().filter(|value| *value != "null").collect();
            lost = write_enum(&others, w);
        });
        w.object(|w| w.key("type").text("null"));
    });
    lost
}

fn write_reference(reference: &str, w: &mut Writer) {
    match reference.strip_prefix(r##""#/definitions/"##) {
        Some(rest) => w.key("$ref").raw(&[r##""#/$defs/"##, rest].concat()),
        None => w.key("$ref").raw(reference),
    }
}

#[cfg(test)]
mod tests;
