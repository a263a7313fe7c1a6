//! Schemas. Google has two forms, and callers mix them: its own, a part of OpenAPI's, where types
//! are in upper case, numbers may be strings and keywords may be written `min_items`; and JSON
//! Schema. Both become JSON Schema here.

use std::borrow::Cow;

use crate::neutral::Raw;
use crate::wire::json::{self, Broken, Cursor, Kind, Span, slice};
use crate::wire::splice::Edits;

/// The form of a schema, by the name of the member that it stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaForm {
    /// Google's own form: `parameters`, `responseSchema`.
    Google,
    /// JSON Schema: `parametersJsonSchema`, `responseJsonSchema`.
    JsonSchema,
}

/// Returns a schema as JSON Schema. What is JSON Schema already stays as it is.
pub(super) fn standard(Raw(text): Raw<'_>, written: SchemaForm) -> Cow<'_, str> {
    let mut form = Form { edits: Edits::new(text.as_bytes()), has_changed: false, written };
    // What was read before is JSON.
    if form.schema(&mut Cursor::new(text.as_bytes())).is_err() || !form.has_changed {
        return Cow::Borrowed(text);
    }
    let mut written = Vec::new();
    form.edits.apply_into(&mut written);
    String::from_utf8(written).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The names of types in JSON Schema.
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];

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
    written: SchemaForm,
}

/// Members that are known only at the end of their schema.
#[derive(Default)]
struct Type {
    /// Where the name of the only type stands, and the name.
    one: Option<(Span, &'static str)>,
    /// The key and the value of `nullable: true`.
    nullable: Option<(Span, Span)>,
    /// The keys of keywords that have another name in JSON Schema, and that name.
    renamed: Vec<(Span, &'static str)>,
    /// The keywords of these names that are written as in JSON Schema.
    known: Vec<&'static str>,
}

impl Form<'_> {
    /// Consumes a schema, or what stands in its place.
    fn schema(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Broken> {
        if cursor.kind()? != Kind::Object {
            return cursor.value().map(drop);
        }
        let text = cursor.text();
        let mut kind = Type::default();
        cursor.object(|cursor, key| match self.keyword(text, &key, &mut kind).as_ref() {
            b"type" if cursor.kind()? == Kind::Array => cursor.array(|cursor, _| self.one_of_types(cursor)).map(drop),
            b"type" => {
                kind.one = self.type_of(&key, cursor)?;
                Ok(())
            }
            b"nullable" => {
                let value = cursor.value()?;
                if slice(text, &value) == b"true" {
                    kind.nullable = Some((key, value));
                }
                Ok(())
            }
            b"properties" | b"patternProperties" | b"$defs" | b"definitions" | b"dependentSchemas"
                if cursor.kind()? == Kind::Object =>
            {
                cursor.object(|cursor, _| self.schema(cursor)).map(drop)
            }
            b"anyOf" | b"oneOf" | b"allOf" | b"prefixItems" | b"items" if cursor.kind()? == Kind::Array => {
                cursor.array(|cursor, _| self.schema(cursor)).map(drop)
            }
            b"items"
            | b"additionalProperties"
            | b"not"
            | b"if"
            | b"then"
            | b"else"
            | b"contains"
            | b"propertyNames" => self.schema(cursor),
            b"$ref" if self.written == SchemaForm::Google && cursor.kind()? == Kind::String => {
                let span = cursor.value()?;
                self.reference(text, span);
                Ok(())
            }
            b"minItems" | b"maxItems" | b"minLength" | b"maxLength" | b"minProperties" | b"maxProperties"
                if cursor.kind()? == Kind::String =>
            {
                let span = cursor.value()?;
                let number = json::text_of(text, &span).and_then(|number| number.parse::<u64>().ok());
                if let Some(number) = number {
                    self.replace(span, number.to_string());
                }
                Ok(())
            }
            _ => cursor.value().map(drop),
        })?;
        for (key, name) in kind.renamed {
            // A schema that has both names keeps both: nobody knows which of them is meant.
            if !kind.known.contains(&name) {
                self.replace(key, format!("\"{name}\""));
            }
        }
        match (kind.one, kind.nullable) {
            (Some((span, name)), Some((key, value))) => {
                self.replace(span, format!(r#"["{name}","null"]"#));
                self.edits.remove_member(&key, &value);
            }
            (Some((span, name)), None) => self.rename(text, span, name),
            (None, _) => {}
        }
        Ok(())
    }

    /// Returns the name of a keyword in JSON Schema. Notes a keyword that is written otherwise.
    fn keyword<'t>(&self, text: &'t [u8], key: &Span, notes: &mut Type) -> Cow<'t, [u8]> {
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
        let name = json::text_of(text, &span).and_then(|text| text.strip_prefix(theirs).map(str::to_owned));
        if let Some(name) = name {
            self.replace(span, json::quote(&format!("{standard}{name}")));
        }
    }

    /// Consumes the only type of a schema.
    fn type_of(&mut self, key: &Span, cursor: &mut Cursor<'_>) -> Result<Option<(Span, &'static str)>, Broken> {
        let before = cursor.clone().value()?;
        if slice(cursor.text(), &before) == br#""TYPE_UNSPECIFIED""# {
            cursor.value()?;
            self.edits.remove_member(key, &before);
            self.has_changed = true;
            return Ok(None);
        }
        named(cursor)
    }

    /// Consumes one of the types of a schema.
    fn one_of_types(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Broken> {
        if let Some((span, name)) = named(cursor)? {
            self.rename(cursor.text(), span, name);
        }
        Ok(())
    }

    /// Writes the name of a type as it is in JSON Schema.
    fn rename(&mut self, text: &[u8], span: Span, name: &str) {
        let name = format!(r#""{name}""#);
        if slice(text, &span) != name.as_bytes() {
            self.replace(span, name);
        }
    }

    fn replace(&mut self, span: Span, with: String) {
        self.edits.replace(span, with.into_bytes());
        self.has_changed = true;
    }
}

/// Consumes a value, and returns the type that it names, if it names one.
fn named(cursor: &mut Cursor<'_>) -> Result<Option<(Span, &'static str)>, Broken> {
    let span = cursor.value()?;
    let written = slice(cursor.text(), &span);
    let word = written.get(1..written.len().saturating_sub(1)).unwrap_or_default();
    let name = TYPES.into_iter().find(|name| word.eq_ignore_ascii_case(name.as_bytes()));
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
        assert_eq!(standard(Raw(schema), form), expected, "{form:?}");
        assert_eq!(standard(Raw(expected), form), expected, "it stays: {form:?}");
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
            r#"{"type":["string","null"],"enum":["STRING"]}"#,
        );
        check(r#"{"nullable":true,"type":"string"}"#, r#"{"type":["string","null"]}"#);
        check(r#"{"type":"ARRAY","minItems":"1","maxItems":"20"}"#, r#"{"type":"array","minItems":1,"maxItems":20}"#);
        check(r#"{"type":"TYPE_UNSPECIFIED","title":"x"}"#, r#"{"title":"x"}"#);
    }

    #[test]
    fn keywords_with_underscores_are_those_of_json_schema_in_googles_own_form_only() {
        let (theirs, standard): (Vec<String>, Vec<String>) =
            TWINS.iter().map(|(theirs, standard)| (format!("\"{theirs}\":[]"), format!("\"{standard}\":[]"))).unzip();
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
        check_form(SchemaForm::Google, both, r#"{"anyOf":[{"maxLength":1}],"any_of":[]}"#);
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
                assert!(matches!(standard(Raw(schema), form), Cow::Borrowed(text) if text == schema), "{schema}");
            }
        }
    }
}
