//! Schemas in Google's older words, a part of OpenAPI's: for servers that imitate Gemini and do not
//! know JSON Schema.
//!
//! There are no references in it: each is replaced by what it stands for, but for those that go in
//! a circle or too deep. `null` among the types is `nullable`, a `const` is an `enum` of one, and
//! `oneOf` is `anyOf`. What cannot be said is left out, and told.

use std::borrow::Cow;

use super::schema::{Schema, Value, Word};
use crate::wire::json::Writer;

/// How often a reference may be replaced on the way to one place.
const DEEPEST: usize = 8;
/// A schema that grows to more parts than these by its references is cut there.
const MOST: usize = 2000;

/// Writes a schema; whether something that it says is lost.
pub(super) fn write(schema: &Schema<'_>, w: &mut Writer) -> bool {
    let mut form = Form { defs: Vec::new(), depth: 0, written: 0, lost: false };
    if let Schema::Object(members) = schema {
        for (word, value) in members {
            if let (Word::Defs | Word::Definitions, Value::Named(list)) = (word, value) {
                form.defs.extend(list.iter().map(|(name, schema)| (&**name, schema)));
            }
        }
    }
    form.schema(schema, w);
    form.lost
}

struct Form<'s, 'a> {
    /// What references stand for.
    defs: Vec<(&'s str, &'s Schema<'a>)>,
    depth: usize,
    written: usize,
    lost: bool,
}

impl<'s, 'a> Form<'s, 'a> {
    fn schema(&mut self, schema: &'s Schema<'a>, w: &mut Writer) {
        self.written += 1;
        match schema {
            Schema::Bool(anything) => {
                self.lost |= !anything;
                w.object(|_| {});
            }
            Schema::Object(members) => w.object(|w| self.members(members, w)),
        }
    }

    fn members(&mut self, members: &'s [(Word, Value<'a>)], w: &mut Writer) {
        let has = |wanted: Word| members.iter().any(|(word, _)| *word == wanted);
        let has_any_of = has(Word::AnyOf) || has(Word::OneOf) || has(Word::AllOf);
        let stands = |word: Word| !matches!(word, Word::Ref | Word::Defs | Word::Definitions | Word::Idle);
        let has_company = members.iter().any(|(word, _)| stands(*word));
        let mut nullable = false;
        for (word, value) in members {
            match (word, value) {
                (Word::Ref, Value::Raw(_)) if has_any_of => self.lost = true,
                (Word::Ref, Value::Raw(reference)) => self.reference(reference, has_company, w),
                (Word::Type, Value::Raws(kinds)) => self.kinds(kinds, &mut nullable, has_any_of || has(Word::Ref), w),
                (Word::Enum, _) if has(Word::Const) => {}
                (Word::Enum, Value::Raws(values)) => self.values(values, &mut nullable, w),
                (Word::Const, Value::Raw("null")) => nullable = true,
                (Word::Const, Value::Raw(value)) => self.values(&[value], &mut nullable, w),
                (Word::OneOf, _) if has(Word::AnyOf) => self.lost = true,
                (Word::AnyOf | Word::OneOf, Value::List(list)) => self.any_of(list, &mut nullable, w),
                (Word::AllOf, Value::List(list)) if list.len() == 1 && !has(Word::AnyOf) && !has(Word::OneOf) => {
                    self.any_of(list, &mut nullable, w);
                }
                (Word::Items, Value::One(schema)) => self.schema(schema, w.key("items")),
                (Word::Properties, Value::Named(list)) => {
                    w.key("properties")
                        .object(|w| list.iter().for_each(|(name, schema)| self.schema(schema, w.name(name))));
                }
                (Word::Plain(name), Value::Raw(json)) if !name.starts_with('$') => w.key(name).raw(json),
                (Word::Type, Value::Raw(json)) => w.key("type").raw(json),
                (Word::Defs | Word::Definitions | Word::Idle, _)
                | (Word::AdditionalProperties, Value::One(Schema::Bool(true))) => {}
                _ => self.lost = true,
            }
        }
        if nullable {
            w.key("nullable").bool(true);
        }
    }

    /// What a reference stands for, in its place.
    fn reference(&mut self, reference: &str, has_company: bool, w: &mut Writer) {
        let name = reference.trim_matches('"');
        let name = name.strip_prefix("#/$defs/").or_else(|| name.strip_prefix("#/definitions/"));
        let found = name.and_then(|name| self.defs.iter().find(|(known, _)| *known == name)).map(|(_, schema)| *schema);
        match found {
            Some(Schema::Object(members)) if self.depth < DEEPEST && self.written < MOST => {
                self.depth += 1;
                if has_company {
                    // Beside other words it might say one of them a second time.
                    w.key("anyOf").array(|w| w.object(|w| self.members(members, w)));
                } else {
                    self.members(members, w);
                }
                self.depth -= 1;
            }
            Some(_) | None => self.lost = true,
        }
    }

    fn kinds(&mut self, kinds: &[&str], nullable: &mut bool, has_any_of: bool, w: &mut Writer) {
        let others: Vec<&str> = kinds.iter().copied().filter(|kind| *kind != r#""null""#).collect();
        *nullable |= others.len() < kinds.len();
        match others.as_slice() {
            [] => {}
            [kind] => w.key("type").raw(kind),
            _ if has_any_of => self.lost = true,
            several => w.key("anyOf").array(|w| several.iter().for_each(|kind| w.object(|w| w.key("type").raw(kind)))),
        }
    }

    /// Texts only are known there.
    fn values(&mut self, values: &[&str], nullable: &mut bool, w: &mut Writer) {
        let texts: Vec<Cow<'_, str>> =
            values.iter().filter(|value| value.starts_with('"')).map(|value| Cow::Borrowed(*value)).collect();
        let nulls = values.iter().filter(|value| **value == "null").count();
        *nullable |= nulls > 0;
        self.lost |= texts.len() + nulls < values.len();
        if !texts.is_empty() {
            w.key("enum").array(|w| texts.iter().for_each(|text| w.raw(text)));
        }
    }

    /// The kinds of which a value may be one. That it may be `null` is said beside them.
    fn any_of(&mut self, list: &'s [Schema<'a>], nullable: &mut bool, w: &mut Writer) {
        let is_null = |schema: &&Schema<'_>| match schema {
            Schema::Object(members) => matches!(members.as_slice(), [(Word::Type, Value::Raw(r#""null""#))]),
            Schema::Bool(_) => false,
        };
        *nullable |= list.iter().any(|schema| is_null(&schema));
        if list.iter().all(|schema| is_null(&schema)) {
            return;
        }
        w.key("anyOf")
            .array(|w| list.iter().filter(|schema| !is_null(schema)).for_each(|schema| self.schema(schema, w)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: &str, expected: &str, lost: bool) {
        let mut w = Writer::default();
        let found = write(&Schema::read(schema), &mut w);
        assert_eq!((String::from_utf8(w.into_bytes()).unwrap().as_str(), found), (expected, lost), "{schema}");
    }

    #[test]
    fn what_can_be_said_otherwise_is() {
        check(
            r#"{"type":"object","properties":{"a":{"type":["string","null"],"description":"A"},"b":{"const":"x"},"c":{"enum":["y",null]}},"required":["a"]}"#,
            r#"{"type":"object","properties":{"a":{"type":"string","description":"A","nullable":true},"b":{"enum":["x"]},"c":{"enum":["y"],"nullable":true}},"required":["a"]}"#,
            false,
        );
        check(r#"{"type":["string","integer"]}"#, r#"{"anyOf":[{"type":"string"},{"type":"integer"}]}"#, false);
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
        check(r#"{"$schema":"x","type":"object","additionalProperties":true}"#, r#"{"type":"object"}"#, false);
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
        assert!(write(&Schema::read(circle), &mut w));
        let text = String::from_utf8(w.into_bytes()).unwrap();
        assert!(
            serde_json::from_str::<serde_json::Value>(&text).is_ok() && text.len() < 64 * 1024 && !text.contains('$'),
            "{}",
            text.len()
        );
        check(r##"{"$ref":"#/$defs/Nobody"}"##, "{}", true);
    }

    #[test]
    fn what_cannot_be_said_is_told() {
        check(r#"{"type":"object","additionalProperties":false}"#, r#"{"type":"object"}"#, true);
        check(r#"{"enum":[1,2]}"#, "{}", true);
        check(r#"{"type":"string","pattern":"a"}"#, r#"{"type":"string"}"#, true);
        check(r#"{"type":"array","prefixItems":[{"type":"string"}]}"#, r#"{"type":"array"}"#, true);
        check(r#"{"allOf":[{"type":"string"},{"type":"number"}]}"#, "{}", true);
        check("false", "{}", true);
    }
}
