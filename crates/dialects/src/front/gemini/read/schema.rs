//! Schemas. Google has two forms, and callers mix them: its own, a part of OpenAPI's, where types
//! are in upper case, numbers may be strings and keywords may be written `min_items`; and JSON
//! Schema. Both become JSON Schema here.

use std::borrow::Cow;

use crate::neutral::Raw;
use crate::wire::json::{self, Cursor, Kind, ScanResult, Span, span_bytes};
use crate::wire::splice::Edits;

/// The form of a schema, by the name of the member that it stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaForm {
    /// Google's own form: `parameters`, `responseSchema`.
    Google,
    /// JSON Schema: `parametersJsonSchema`, `responseJsonSchema`.
    JsonSchema,
}

/// A schema as JSON Schema.
#[derive(Debug)]
pub(super) struct Standard<'a> {
    pub(super) text: Cow<'a, str>,
    /// True if the schema allowed `null` somewhere, and perhaps no longer does.
    pub(super) forbids_null: bool,
}

/// Returns a schema as JSON Schema. A schema that is JSON Schema already stays as it is.
pub(super) fn standard_schema(schema: Raw<'_>, written: SchemaForm) -> Standard<'_> {
    let text = schema.0;
    let mut form = Form {
        edits: Edits::new(text.as_bytes()),
        has_changed: false,
        forbids_null: false,
        written,
    };
    let as_it_is = Standard {
        text: Cow::Borrowed(text),
        forbids_null: false,
    };
    // The text was read before, so it is JSON.
    if form.schema(&mut Cursor::new(text.as_bytes())).is_err() || !form.has_changed {
        return as_it_is;
    }
    let forbids_null = form.forbids_null;
    let written = form.edits.applied().into_owned();
    String::from_utf8(written).map_or(as_it_is, |text| Standard {
        text: Cow::Owned(text),
        forbids_null,
    })
}

/// The names of types in JSON Schema.
const TYPES: [&str; 7] = [
    "string", "number", "integer", "boolean", "array", "object", "null",
];

/// The keywords of Google's own form that have another name in JSON Schema.
const TWINS: [(&str, &str); 11] = [
    ("additional_properties", "additionalProperties"),
    ("any_of", "anyOf"),
    ("defs", "$defs"),
    ("max_items", "maxItems"),
    ("max_length", "maxLength"),
    ("max_properties", "maxProperties"),
    ("min_items", "minItems"),
    ("min_length", "minLength"),
    ("min_properties", "minProperties"),
    ("property_ordering", "propertyOrdering"),
    ("ref", "$ref"),
];
/// The beginning of a reference to a definition, in Google's own form and in JSON Schema.
const REFERENCES: [&str; 2] = ["#/defs/", "#/$defs/"];

/// A schema that is put into its form.
struct Form<'e> {
    edits: Edits<'e>,
    has_changed: bool,
    forbids_null: bool,
    written: SchemaForm,
}

/// The schema that allows only `null`.
const NULL: &str = r#"{"type":"null"}"#;

/// Members that are known only at the end of their schema.
#[derive(Default)]
struct Notes {
    /// The place and the name of the only type.
    one: Option<(Span, &'static str)>,
    /// The key and the value of `nullable: true`.
    nullable: Option<(Span, Span)>,
    /// The lists without `null`, each with the text that must be added to allow it.
    lists: Vec<(Span, &'static str)>,
    /// True if the schema has an `anyOf`.
    has_any_of: bool,
    /// The keys and the values of other keywords that may forbid `null`, and the keywords.
    others: Vec<(Span, Span, &'static str)>,
    /// True if a keyword may forbid `null` in a way that cannot be changed.
    forbids_null: bool,
    /// The keys of keywords that have another name in JSON Schema, and that name.
    renamed: Vec<(Span, &'static str)>,
    /// The keywords of these names that are written as in JSON Schema.
    known: Vec<&'static str>,
}

impl Form<'_> {
    /// Consumes a schema, or any value in the place of a schema. Returns whether it allows only
    /// `null`.
    fn schema(&mut self, cursor: &mut Cursor<'_>) -> ScanResult<bool> {
        if cursor.kind()? != Kind::Object {
            return cursor.value().map(|_| false);
        }
        let text = cursor.text();
        let mut notes = Notes::default();
        cursor.object(|cursor, key| {
            let keyword = self.keyword(text, &key, &mut notes);
            self.member(&keyword, key, cursor, &mut notes)
        })?;
        self.allow_null(text, &notes);
        for (key, name) in notes.renamed {
            // A schema with both names keeps both: either name may be the one that counts.
            if !notes.known.contains(&name) {
                self.replace(key, format!("\"{name}\""));
            }
        }
        let is_null = matches!(notes.one, Some((_, "null")));
        if let Some((span, name)) = notes.one {
            self.rename(text, span, name);
        }
        Ok(is_null)
    }

    /// Consumes the value of a keyword, and makes notes for the end of the schema.
    fn member(
        &mut self,
        keyword: &[u8],
        key: Span,
        cursor: &mut Cursor<'_>,
        notes: &mut Notes,
    ) -> ScanResult<()> {
        let (text, kind) = (cursor.text(), cursor.kind()?);
        match keyword {
            b"type" if kind == Kind::Array => {
                let mut has_null = false;
                let list = cursor.array(|cursor, _| {
                    has_null |= self.one_of_types(cursor)?;
                    Ok(())
                })?;
                notes.list(list, has_null, r#""null""#);
            }
            b"type" => self.type_of(&key, cursor, notes)?,
            b"nullable" => {
                let value = cursor.value()?;
                if span_bytes(text, &value) == b"true" {
                    notes.nullable = Some((key, value));
                }
            }
            b"enum" if kind == Kind::Array => {
                let mut has_null = false;
                let list = cursor.array(|cursor, _| {
                    has_null |= span_bytes(text, &cursor.value()?) == b"null";
                    Ok(())
                })?;
                notes.list(list, has_null, "null");
            }
            b"const" => {
                let value = cursor.value()?;
                if span_bytes(text, &value) != b"null" {
                    notes.others.push((key, value, "const"));
                }
            }
            b"properties" | b"patternProperties" | b"$defs" | b"definitions"
            | b"dependentSchemas"
                if kind == Kind::Object =>
            {
                cursor.object(|cursor, _| self.schema(cursor))?;
            }
            b"anyOf" if kind == Kind::Array => {
                let mut has_null = false;
                let list = cursor.array(|cursor, _| {
                    has_null |= self.schema(cursor)?;
                    Ok(())
                })?;
                notes.has_any_of = true;
                notes.list(list, has_null, NULL);
            }
            b"oneOf" | b"allOf" if kind == Kind::Array => {
                let list = cursor.array(|cursor, _| self.schema(cursor))?;
                notes.others.push((
                    key,
                    list,
                    if keyword == b"oneOf" {
                        "oneOf"
                    } else {
                        "allOf"
                    },
                ));
            }
            b"prefixItems" | b"items" if kind == Kind::Array => {
                cursor.array(|cursor, _| self.schema(cursor))?;
            }
            b"not" | b"if" | b"then" | b"else" => {
                notes.forbids_null = true;
                self.schema(cursor)?;
            }
            b"items" | b"additionalProperties" | b"contains" | b"propertyNames" => {
                self.schema(cursor)?;
            }
            b"$ref" if kind == Kind::String => {
                let span = cursor.value()?;
                if self.written == SchemaForm::Google {
                    self.reference(text, span.clone());
                }
                notes.others.push((key, span, "$ref"));
            }
            b"minItems" | b"maxItems" | b"minLength" | b"maxLength" | b"minProperties"
            | b"maxProperties"
                if kind == Kind::String =>
            {
                let span = cursor.value()?;
                let number =
                    json::text_of(text, &span).and_then(|number| number.parse::<u64>().ok());
                if let Some(number) = number {
                    self.replace(span, number.to_string());
                }
            }
            _ => {
                cursor.value()?;
            }
        }
        Ok(())
    }

    /// Writes `nullable: true` in JSON Schema. There each keyword has to allow `null`.
    fn allow_null(&mut self, text: &[u8], notes: &Notes) {
        let Some((key, value)) = &notes.nullable else {
            return;
        };
        self.edits.remove_member(key, value);
        self.has_changed = true;
        if let Some((span, name)) = notes.one.as_ref().filter(|(_, name)| *name != "null") {
            self.replace(span.clone(), format!(r#"["{name}","null"]"#));
        }
        for (list, null) in &notes.lists {
            let is_empty = span_bytes(text, &(list.start + 1..list.end - 1))
                .trim_ascii()
                .is_empty();
            self.replace(
                list.end - 1..list.end,
                format!("{}{null}]", if is_empty { "" } else { "," }),
            );
        }
        self.allow_null_beside(notes);
    }

    /// Encloses keywords that cannot allow `null` themselves: one in an `anyOf`, and another in the
    /// `anyOf` of an `allOf`, if the schema has no such keyword. An `allOf` encloses itself.
    fn allow_null_beside(&mut self, notes: &Notes) {
        let is_all_of = |name: &str| name == "allOf";
        let (lists, others): (Vec<_>, Vec<_>) =
            notes.others.iter().partition(|(.., name)| is_all_of(name));
        let mut any_of_is_free = !notes.has_any_of;
        let mut all_of_is_free = lists.is_empty();
        for (key, value, name) in others.into_iter().chain(lists) {
            let (open, close) = if std::mem::take(&mut any_of_is_free) {
                (r#""anyOf":[{"#, "]")
            } else if is_all_of(name) || std::mem::take(&mut all_of_is_free) {
                (r#""allOf":[{"anyOf":[{"#, "]}]")
            } else {
                self.forbids_null = true;
                continue;
            };
            self.replace(key.clone(), format!(r#"{open}"{name}""#));
            self.replace(value.end..value.end, format!("}},{NULL}{close}"));
        }
        self.forbids_null |= notes.forbids_null;
    }

    /// Returns the name of a keyword in JSON Schema. Notes a keyword that is written otherwise.
    fn keyword<'t>(&self, text: &'t [u8], key: &Span, notes: &mut Notes) -> Cow<'t, [u8]> {
        let name = json::name_of(text, key);
        if self.written == SchemaForm::JsonSchema {
            return name;
        }
        for (theirs, standard) in TWINS {
            if *name == *theirs.as_bytes() {
                notes.renamed.push((key.clone(), standard));
                return Cow::Borrowed(standard.as_bytes());
            }
            if *name == *standard.as_bytes() {
                notes.known.push(standard);
            }
        }
        name
    }

    /// Writes a reference to a definition as it is in JSON Schema.
    fn reference(&mut self, text: &[u8], span: Span) {
        let [theirs, standard] = REFERENCES;
        let name = json::text_of(text, &span)
            .and_then(|text| text.strip_prefix(theirs).map(str::to_owned));
        if let Some(name) = name {
            self.replace(span, json::quote_string(&format!("{standard}{name}")));
        }
    }

    /// Consumes the only type of a schema.
    fn type_of(
        &mut self,
        key: &Span,
        cursor: &mut Cursor<'_>,
        notes: &mut Notes,
    ) -> ScanResult<()> {
        let before = cursor.clone().value()?;
        notes.one = read_type_name(cursor)?;
        if span_bytes(cursor.text(), &before) == br#""TYPE_UNSPECIFIED""# {
            self.edits.remove_member(key, &before);
            self.has_changed = true;
        } else {
            notes.forbids_null |= notes.one.is_none();
        }
        Ok(())
    }

    /// Consumes one of the types of a schema. Returns whether it is the type of `null`.
    fn one_of_types(&mut self, cursor: &mut Cursor<'_>) -> ScanResult<bool> {
        let Some((span, name)) = read_type_name(cursor)? else {
            return Ok(false);
        };
        self.rename(cursor.text(), span, name);
        Ok(name == "null")
    }

    /// Writes the name of a type as it is in JSON Schema.
    fn rename(&mut self, text: &[u8], span: Span, name: &str) {
        let name = format!(r#""{name}""#);
        if span_bytes(text, &span) != name.as_bytes() {
            self.replace(span, name);
        }
    }

    fn replace(&mut self, span: Span, with: String) {
        self.edits.replace(span, with.into_bytes());
        self.has_changed = true;
    }
}

impl Notes {
    /// Notes a list that must have `null` if the schema is to allow it.
    fn list(&mut self, list: Span, has_null: bool, null: &'static str) {
        if !has_null {
            self.lists.push((list, null));
        }
    }
}

/// Consumes a value, and returns the type that it names, if it names one.
fn read_type_name(cursor: &mut Cursor<'_>) -> ScanResult<Option<(Span, &'static str)>> {
    let span = cursor.value()?;
    let written = span_bytes(cursor.text(), &span);
    let word = written
        .get(1..written.len().saturating_sub(1))
        .unwrap_or_default();
    let name = TYPES
        .into_iter()
        .find(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    Ok(name.map(|name| (span, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: &str, expected: &str) {
        for form in [SchemaForm::Google, SchemaForm::JsonSchema] {
            check_form(form, schema, expected);
        }
    }

    #[track_caller]
    fn check_form(form: SchemaForm, schema: &str, expected: &str) {
        let standard = |schema| standard_schema(Raw(schema), form);
        assert_eq!(
            (&*standard(schema).text, standard(schema).forbids_null),
            (expected, false),
            "{form:?}"
        );
        assert_eq!(standard(expected).text, expected, "it stays: {form:?}");
    }

    #[test]
    fn types_are_in_lower_case_wherever_a_schema_stands() {
        check(
            r#"{"type":"OBJECT","properties":{"type":{"type":"STRING"},"n":{"type":["INTEGER","null"]}},"required":["type"]}"#,
            r#"{"type":"object","properties":{"type":{"type":"string"},"n":{"type":["integer","null"]}},"required":["type"]}"#,
        );
        check(
            r#"{"items":{"type":"Array","items":[{"type":"NUMBER"}]},"anyOf":[{"type":"BOOLEAN"}],"$defs":{"a":{"type":"NULL"}}}"#,
            r#"{"items":{"type":"array","items":[{"type":"number"}]},"anyOf":[{"type":"boolean"}],"$defs":{"a":{"type":"null"}}}"#,
        );
    }

    #[test]
    fn what_only_openapi_has_is_said_in_json_schema() {
        check(
            r#"{"type":"STRING","nullable":true,"enum":["STRING"]}"#,
            r#"{"type":["string","null"],"enum":["STRING",null]}"#,
        );
        check(
            r#"{"nullable":true,"type":"string"}"#,
            r#"{"type":["string","null"]}"#,
        );
        check(
            r#"{"type":"ARRAY","minItems":"1","maxItems":"20"}"#,
            r#"{"type":"array","minItems":1,"maxItems":20}"#,
        );
        check(
            r#"{"type":"TYPE_UNSPECIFIED","title":"x"}"#,
            r#"{"title":"x"}"#,
        );
    }

    #[test]
    fn a_nullable_schema_allows_null_in_all_keywords() {
        let null = r#"{"type":"null"}"#;
        let both = |theirs: &str, expected: &str| check(theirs, &expected.replace("NULL", null));
        both(
            r#"{"anyOf":[{"type":"INTEGER"},{"type":"STRING"}],"nullable":true}"#,
            r#"{"anyOf":[{"type":"integer"},{"type":"string"},NULL]}"#,
        );
        both(
            r#"{"nullable":true,"anyOf":[{"type":"INTEGER"},{"type":"NULL"}]}"#,
            r#"{"anyOf":[{"type":"integer"},NULL]}"#,
        );
        both(
            r#"{"type":"STRING","anyOf":[{"nullable":true,"enum":["a" ]}],"nullable": true,"title":"x"}"#,
            r#"{"type":["string","null"],"anyOf":[{"enum":["a" ,null]},NULL],"title":"x"}"#,
        );
        both(
            r#"{"type":["STRING"],"nullable":true}"#,
            r#"{"type":["string","null"]}"#,
        );
        both(
            r#"{"type":["STRING","NULL"],"nullable":true}"#,
            r#"{"type":["string","null"]}"#,
        );
        both(r#"{"type":"NULL","nullable":true}"#, r#"{"type":"null"}"#);
        both(
            r#"{"enum":[null,"a"],"nullable":true}"#,
            r#"{"enum":[null,"a"]}"#,
        );
        both(
            r#"{"type":"STRING","const":"a","nullable":true}"#,
            r#"{"type":["string","null"],"anyOf":[{"const":"a"},NULL]}"#,
        );
        both(r#"{"const":null,"nullable":true}"#, r#"{"const":null}"#);
        both(
            r##"{"title":"x","$ref":"#/$defs/A","nullable":true}"##,
            r##"{"title":"x","anyOf":[{"$ref":"#/$defs/A"},NULL]}"##,
        );
        both(
            r#"{"oneOf":[{"type":"STRING"}],"nullable":true}"#,
            r#"{"anyOf":[{"oneOf":[{"type":"string"}]},NULL]}"#,
        );
        both(
            r##"{"nullable":true,"allOf":[{"type":"STRING"}],"$ref":"#/$defs/A"}"##,
            r##"{"allOf":[{"anyOf":[{"allOf":[{"type":"string"}]},NULL]}],"anyOf":[{"$ref":"#/$defs/A"},NULL]}"##,
        );
        both(
            r##"{"nullable":true,"anyOf":[{"minLength":1}],"$ref":"#/$defs/A"}"##,
            r##"{"anyOf":[{"minLength":1},NULL],"allOf":[{"anyOf":[{"$ref":"#/$defs/A"},NULL]}]}"##,
        );
        both(r#"{"nullable":true,"title":"x"}"#, r#"{"title":"x"}"#);
        check_form(
            SchemaForm::Google,
            r##"{"ref":"#/defs/A","nullable":true}"##,
            r##"{"anyOf":[{"$ref":"#/$defs/A"},{"type":"null"}]}"##,
        );
        check_form(
            SchemaForm::Google,
            r#"{"any_of":[{"type":"INTEGER"}],"nullable":true}"#,
            r#"{"anyOf":[{"type":"integer"},{"type":"null"}]}"#,
        );
    }

    #[test]
    fn null_that_cannot_be_allowed_is_a_loss() {
        for (schema, expected) in [
            (r#"{"type":"ODD","nullable":true}"#, r#"{"type":"ODD"}"#),
            (
                r#"{"not":{"type":"NULL"},"nullable":true}"#,
                r#"{"not":{"type":"null"}}"#,
            ),
            (
                r##"{"anyOf":[{"type":"NULL"}],"allOf":[{}],"oneOf":[{}],"nullable":true}"##,
                r##"{"anyOf":[{"type":"null"}],"allOf":[{"anyOf":[{"allOf":[{}]},{"type":"null"}]}],"oneOf":[{}]}"##,
            ),
        ] {
            let Standard { text, forbids_null } = standard_schema(Raw(schema), SchemaForm::Google);
            assert_eq!((&*text, forbids_null), (expected, true));
        }
    }

    #[test]
    fn underscored_keywords_are_json_schema_only_in_googles_form() {
        let (theirs, standard): (Vec<String>, Vec<String>) = TWINS
            .iter()
            .map(|(theirs, standard)| (format!("\"{theirs}\":[]"), format!("\"{standard}\":[]")))
            .unzip();
        let [theirs, standard] = [theirs, standard].map(|all| format!("{{{}}}", all.join(",")));
        check_form(SchemaForm::Google, &theirs, &standard);
        check_form(SchemaForm::JsonSchema, &theirs, &theirs);
        // A property may have such a name, and so may a value.
        check_form(
            SchemaForm::Google,
            r#"{"properties":{"any_of":{"any_of":[{"type":"STRING","min_length":"2"},{"type":"ARRAY","max_items":3}]}},"required":["any_of"],"default":{"min_items":1},"enum":["max_items"],"property_ordering":["any_of"]}"#,
            r#"{"properties":{"any_of":{"anyOf":[{"type":"string","minLength":2},{"type":"array","maxItems":3}]}},"required":["any_of"],"default":{"min_items":1},"enum":["max_items"],"propertyOrdering":["any_of"]}"#,
        );
        check_form(
            SchemaForm::Google,
            r##"{"additional_properties":{"ref":"#/defs/defs"},"defs":{"defs":{"type":"OBJECT","properties":{"ref":{"type":"STRING"}}}}}"##,
            r##"{"additionalProperties":{"$ref":"#/$defs/defs"},"$defs":{"defs":{"type":"object","properties":{"ref":{"type":"string"}}}}}"##,
        );
        let both = r#"{"anyOf":[{"max_length":1}],"any_of":[]}"#;
        check_form(
            SchemaForm::Google,
            both,
            r#"{"anyOf":[{"maxLength":1}],"any_of":[]}"#,
        );
    }

    #[test]
    fn all_else_stays() {
        for schema in [
            "{}",
            r#"{"type":"object","properties":{"a":{"type":"string","default":"STRING","minLength":1}}}"#,
            r#"{"type":"ODD","const":{"type":"STRING"},"enum":["OBJECT"],"example":{"type":"STRING"}}"#,
            r#"{"type":7,"properties":7,"anyOf":{},"items":"x","nullable":false,"minItems":"x"}"#,
        ] {
            for form in [SchemaForm::Google, SchemaForm::JsonSchema] {
                assert!(
                    matches!(standard_schema(Raw(schema), form).text, Cow::Borrowed(text) if text == schema),
                    "{schema}"
                );
            }
        }
    }
}
