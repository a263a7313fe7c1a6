//! JSON Schemas, cut down to the part of JSON Schema that Google reads: what it does not know it
//! answers with 400.
//!
//! What can be said otherwise is (`const`, `allOf` of one, `definitions`, `null` in an `enum`);
//! what cannot is left out, and told. Of what stays, order and text stay too. One pass reads,
//! another writes; neither goes deeper than the scanner does.

use std::borrow::Cow;

use crate::wire::json::{Broken, Cursor, Kind, Span, Writer, text_of};

/// A schema, read.
#[derive(Debug)]
pub(super) enum Schema<'a> {
    /// `true` and `false` are schemas too.
    Bool(bool),
    /// Keywords and their values, in order.
    Object(Vec<(Word, Value<'a>)>),
}

/// A keyword, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// Goes out as it came.
    Plain(&'static str),
    Type,
    Ref,
    Enum,
    Const,
    Items,
    AdditionalProperties,
    AnyOf,
    OneOf,
    AllOf,
    PrefixItems,
    Properties,
    Defs,
    /// What [`Word::Defs`] was before 2019.
    Definitions,
    /// Says nothing about values.
    Idle,
    /// Google does not read it.
    Unknown,
}

/// The type of nothing, as it stands in a list of types.
const NULL: &str = r#""null""#;

/// What a keyword says.
#[derive(Debug)]
pub(super) enum Value<'a> {
    Raw(&'a str),
    Raws(Vec<&'a str>),
    One(Schema<'a>),
    List(Vec<Schema<'a>>),
    Named(Vec<(Cow<'a, str>, Schema<'a>)>),
}

impl<'a> Schema<'a> {
    /// Reads a schema. The text is JSON.
    pub(super) fn read(json: &'a str) -> Self {
        schema(&mut Cursor::new(json.as_bytes()), json).unwrap_or(Schema::Bool(true))
    }

    /// Whether values must be objects.
    pub(super) fn is_object(&self) -> bool {
        match self {
            Schema::Bool(_) => false,
            Schema::Object(members) => members.iter().any(|(word, value)| match value {
                Value::Raw(kind) => *word == Word::Type && *kind == r#""object""#,
                Value::Named(_) => *word == Word::Properties,
                Value::Raws(_) | Value::One(_) | Value::List(_) => false,
            }),
        }
    }

    /// Whether it has no members to fill in: Google wants no parameters then, rather than an object
    /// without properties.
    pub(super) fn has_no_properties(&self) -> bool {
        let says = |value: &Value<'_>| match value {
            Value::One(Schema::Object(members)) => !members.is_empty(),
            Value::List(list) => !list.is_empty(),
            Value::Named(list) => !list.is_empty(),
            Value::Raw(_) | Value::Raws(_) | Value::One(Schema::Bool(_)) => false,
        };
        match self {
            Schema::Bool(_) => true,
            Schema::Object(members) => members.iter().all(|(word, value)| match word {
                Word::Ref => false,
                Word::AdditionalProperties | Word::AnyOf | Word::OneOf | Word::AllOf | Word::Properties => !says(value),
                Word::Plain(_)
                | Word::Type
                | Word::Enum
                | Word::Const
                | Word::Items
                | Word::PrefixItems
                | Word::Defs
                | Word::Definitions
                | Word::Idle
                | Word::Unknown => true,
            }),
        }
    }

    /// Writes it for Google; whether something that it says is lost.
    pub(super) fn write(&self, w: &mut Writer) -> bool {
        let mut lost = false;
        match self {
            Schema::Bool(anything) => {
                w.object(|_| {});
                lost = !anything;
            }
            Schema::Object(members) => w.object(|w| lost = Members(members).write(w)),
        }
        lost
    }
}

/// The keywords of one schema.
struct Members<'s, 'a>(&'s [(Word, Value<'a>)]);

impl<'s, 'a> Members<'s, 'a> {
    fn get(&self, word: Word) -> Option<&'s Value<'a>> {
        self.0.iter().find(|(other, _)| *other == word).map(|(_, value)| value)
    }

    fn write(&self, w: &mut Writer) -> bool {
        let stands_beside = |word: Word| {
            !matches!(word, Word::Ref | Word::Defs | Word::Definitions | Word::Idle | Word::Unknown)
                && !word.is_dollar()
        };
        let has_company = self.0.iter().any(|(word, _)| stands_beside(*word));
        let Some(Value::Raw(reference)) = self.get(Word::Ref).filter(|_| has_company) else {
            return self.write_words(true, w);
        };
        // Beside `$ref` Google reads nothing that has no `$` itself: so it moves into an `anyOf`,
        // if there is no other.
        if self.0.iter().any(|(word, _)| matches!(word, Word::AnyOf | Word::OneOf | Word::AllOf)) {
            write_reference(reference, w);
            return true;
        }
        let lost = self.write_words(false, w);
        w.key("anyOf").array(|w| w.object(|w| write_reference(reference, w)));
        lost
    }

    fn write_words(&self, with_reference: bool, w: &mut Writer) -> bool {
        let nullable = self.nullable();
        let mut lost = false;
        for (word, value) in self.0 {
            lost |= match (word, value) {
                (Word::Ref, Value::Raw(reference)) => {
                    if with_reference {
                        write_reference(reference, w);
                    }
                    false
                }
                (Word::Type, _) if nullable.is_some() => false,
                (Word::Enum, _) if self.get(Word::Const).is_some() => false,
                (Word::Enum, Value::Raws(values)) => match nullable {
                    Some(kind) => write_nullable(kind, values, w),
                    None => write_enum(values, w),
                },
                (Word::Const, Value::Raw("null")) => {
                    if self.get(Word::Type).is_none() {
                        w.key("type").text("null");
                    }
                    false
                }
                (Word::Const, Value::Raw(value)) => write_enum(&[value], w),
                (Word::Items, Value::List(list)) => write_list("prefixItems", list, w),
                (Word::AllOf, Value::List(list)) if list.len() == 1 && self.get(Word::AnyOf).is_none() => {
                    write_list("anyOf", list, w)
                }
                (Word::AllOf, _) => true,
                (Word::Defs, Value::Named(list)) => match self.get(Word::Definitions) {
                    Some(Value::Named(older)) => write_named("$defs", list.iter().chain(older), w),
                    Some(_) | None => write_named("$defs", list.iter(), w),
                },
                (Word::Definitions, _) if self.get(Word::Defs).is_some() => false,
                (Word::Definitions, Value::Named(list)) => write_named("$defs", list.iter(), w),
                (Word::AdditionalProperties, Value::One(Schema::Bool(any))) => {
                    w.key("additionalProperties").bool(*any);
                    false
                }
                (Word::Idle, _) => false,
                (Word::Unknown, _) => true,
                (word, value) => match word.name() {
                    Some(name) => write_value(name, value, w),
                    None => true,
                },
            };
        }
        lost
    }

    /// Of an `enum` where `null` is a value, the types. Google takes no values there but strings
    /// and numbers.
    fn nullable(&self) -> Option<&'s [&'a str]> {
        let Some(Value::Raws(values)) = self.get(Word::Enum) else { return None };
        let has_null = values.contains(&"null") && values.iter().any(|value| is_constant(value));
        let is_free = [Word::Const, Word::Ref, Word::AnyOf, Word::OneOf, Word::AllOf]
            .iter()
            .all(|word| self.get(*word).is_none());
        if !has_null || !is_free {
            return None;
        }
        match self.get(Word::Type) {
            None => Some(&[]),
            Some(Value::Raws(kinds)) if kinds.contains(&NULL) => Some(kinds),
            Some(_) => None,
        }
    }
}

impl Word {
    fn of(name: &str) -> Self {
        match name {
            "type" => Word::Type,
            "$ref" => Word::Ref,
            "enum" => Word::Enum,
            "const" => Word::Const,
            "items" => Word::Items,
            "additionalProperties" => Word::AdditionalProperties,
            "anyOf" => Word::AnyOf,
            "oneOf" => Word::OneOf,
            "allOf" => Word::AllOf,
            "prefixItems" => Word::PrefixItems,
            "properties" => Word::Properties,
            "$defs" => Word::Defs,
            "definitions" => Word::Definitions,
            "$id" => Word::Plain("$id"),
            "$anchor" => Word::Plain("$anchor"),
            "format" => Word::Plain("format"),
            "title" => Word::Plain("title"),
            "description" => Word::Plain("description"),
            "minItems" => Word::Plain("minItems"),
            "maxItems" => Word::Plain("maxItems"),
            "minimum" => Word::Plain("minimum"),
            "maximum" => Word::Plain("maximum"),
            "required" => Word::Plain("required"),
            "propertyOrdering" => Word::Plain("propertyOrdering"),
            "$schema" | "$comment" | "$vocabulary" | "strict" => Word::Idle,
            _ => Word::Unknown,
        }
    }

    fn is_dollar(self) -> bool {
        self.name().is_some_and(|name| name.starts_with('$'))
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Word::Plain(name) => Some(name),
            Word::Type => Some("type"),
            Word::Items => Some("items"),
            Word::AdditionalProperties => Some("additionalProperties"),
            Word::AnyOf => Some("anyOf"),
            Word::OneOf => Some("oneOf"),
            Word::PrefixItems => Some("prefixItems"),
            Word::Properties => Some("properties"),
            Word::Ref
            | Word::Enum
            | Word::Const
            | Word::AllOf
            | Word::Defs
            | Word::Definitions
            | Word::Idle
            | Word::Unknown => None,
        }
    }
}

/// Consumes a schema.
fn schema<'a>(cursor: &mut Cursor<'a>, json: &'a str) -> Result<Schema<'a>, Broken> {
    if cursor.kind()? != Kind::Object {
        return Ok(Schema::Bool(raw(json, &cursor.value()?) != "false"));
    }
    let mut members = Vec::new();
    cursor.object(|cursor, key| {
        let name = text_of(json.as_bytes(), &key).unwrap_or_default();
        let word = Word::of(&name);
        members.push((word, value(cursor, json, word)?));
        Ok(())
    })?;
    Ok(Schema::Object(members))
}

/// Consumes a keyword's value. One of the wrong kind stays as it is, for Google to judge.
fn value<'a>(cursor: &mut Cursor<'a>, json: &'a str, word: Word) -> Result<Value<'a>, Broken> {
    let kind = cursor.kind()?;
    Ok(match (word, kind) {
        (Word::Items, Kind::Object | Kind::Bool) | (Word::AdditionalProperties, Kind::Object | Kind::Bool) => {
            Value::One(schema(cursor, json)?)
        }
        (Word::Items | Word::AnyOf | Word::OneOf | Word::AllOf | Word::PrefixItems, Kind::Array) => {
            let mut list = Vec::new();
            cursor.array(|cursor, _| {
                list.push(schema(cursor, json)?);
                Ok(())
            })?;
            Value::List(list)
        }
        (Word::Properties | Word::Defs | Word::Definitions, Kind::Object) => {
            let mut list = Vec::new();
            cursor.object(|cursor, key| {
                let name = text_of(json.as_bytes(), &key).unwrap_or_default();
                list.push((name, schema(cursor, json)?));
                Ok(())
            })?;
            Value::Named(list)
        }
        (Word::Enum | Word::Type, Kind::Array) => {
            let mut list = Vec::new();
            cursor.array(|cursor, _| {
                list.push(raw(json, &cursor.value()?));
                Ok(())
            })?;
            Value::Raws(list)
        }
        _ => Value::Raw(raw(json, &cursor.value()?)),
    })
}

fn raw<'a>(json: &'a str, span: &Span) -> &'a str {
    json.get(span.clone()).unwrap_or_default()
}

fn write_value(name: &'static str, value: &Value<'_>, w: &mut Writer) -> bool {
    match value {
        Value::Raw(json) => {
            w.key(name).raw(json);
            false
        }
        Value::Raws(list) => {
            w.key(name).array(|w| list.iter().for_each(|json| w.raw(json)));
            false
        }
        Value::One(schema) => schema.write(w.key(name)),
        Value::List(list) => write_list(name, list, w),
        Value::Named(list) => write_named(name, list.iter(), w),
    }
}

fn write_list(name: &'static str, list: &[Schema<'_>], w: &mut Writer) -> bool {
    let mut lost = false;
    w.key(name).array(|w| list.iter().for_each(|schema| lost |= schema.write(w)));
    lost
}

fn write_named<'l, 'a: 'l>(
    name: &'static str,
    list: impl Iterator<Item = &'l (Cow<'a, str>, Schema<'a>)>,
    w: &mut Writer,
) -> bool {
    let mut lost = false;
    w.key(name).object(|w| list.for_each(|(name, schema)| lost |= schema.write(w.name(name))));
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
