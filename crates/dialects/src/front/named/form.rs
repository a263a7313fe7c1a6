//! The things that the fields of a form name. They are judged by the same table as the members of a
//! JSON body.
//!
//! A field's name may be a path to a member, as servers read it: `models[]`, `extra_body[model]`,
//! `x.model`. Its value may be JSON.

use super::{
    BodyPlace, Finder, Folded, MAX_NAMED, Named, NamedKind, Row, StoredKind, find_row, names_file,
    names_place,
};
use crate::wire::json::{Cursor, ScanResult, Span};
use crate::wire::multipart::{FieldReading, FormField, is_blank};
use crate::wire::starts_with_any_case;

/// The most levels of a form's JSON, and of the path in a field's name.
const LEVELS: usize = 16;

/// Returns how much of a field of this name is read, to find the things that it names.
pub(crate) fn field_reading(name: &str) -> FieldReading {
    let names = name_words(name);
    match row_of_way(&names) {
        _ if names.len() == 1 && is_text(name) => FieldReading::Nothing,
        _ if is_json(name) => FieldReading::Whole,
        Row::Model | Row::OfModel | Row::Stored(_) => FieldReading::Whole,
        Row::Nothing => FieldReading::Nothing,
        Row::Other if names.last().is_some_and(|name| can_refer(name)) => FieldReading::Beginning,
        Row::Other => FieldReading::Json,
    }
}

/// Returns the words of a field's name, from outside to inside.
fn name_words(name: &str) -> Vec<&str> {
    let is_outside = |letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '_' | '-');
    name.split(is_outside)
        .filter(|word| !word.is_empty())
        .collect()
}

/// Returns the kind of the value at the end of a path. Anything inside an object that stands for a
/// model may name one.
fn row_of_way(names: &[&str]) -> Row {
    names
        .iter()
        .fold(Row::Other, |outside, name| match outside {
            Row::Other => find_row(Folded::fold(name.as_bytes()).word()),
            Row::Model | Row::Stored(_) | Row::Nothing | Row::OfModel => outside,
        })
}

/// Returns whether a field of this name holds a text that a model reads, whatever its words are.
fn is_text(name: &str) -> bool {
    let folded = Folded::fold(name.as_bytes());
    ["prompt", "hotwords", "instructions"]
        .iter()
        .any(|end| folded.word().ends_with(end))
}

/// Returns whether servers read a field of this name as JSON only.
fn is_json(name: &str) -> bool {
    Folded::fold(name.as_bytes()).word() == "extrabody"
}

fn can_refer(name: &str) -> bool {
    names_place(name.as_bytes()) || names_file(name.as_bytes())
}

impl Finder {
    /// Finds the things that a field of a form names. Its value stands at `span` of the body.
    /// Returns the fault of a value that cannot be judged.
    pub(crate) fn form_field(
        &mut self,
        field: &FormField,
        body: &[u8],
        span: Span,
    ) -> Result<(), &'static str> {
        let names = name_words(&field.name);
        if names.len() > LEVELS {
            return Err("has a name of more than 16 levels");
        }
        let Ok(value) = str::from_utf8(&field.value) else {
            // The beginning of a text may end within a letter.
            return if field.is_whole {
                Err("must be UTF-8")
            } else {
                Err("is too long")
            };
        };
        if value.contains('\0') {
            return Err("must have no NUL");
        }
        let json = value.trim_start_matches(is_blank);
        let row = row_of_way(&names);
        let begins_json = json.starts_with(['{', '[']);
        if begins_json || is_json(&field.name) {
            // A list in brackets without a member is a text with brackets.
            let is_text = row == Row::Other && json.starts_with('[') && !json.contains('{');
            let text = body.get(..span.end).unwrap_or_default();
            let mut cursor = Cursor::starting_at_with_levels(text, span.start, LEVELS);
            let before = self.found.len();
            let read = self.json_field(&mut cursor, &names, row);
            return match read {
                Err(_) if is_text => {
                    self.found.truncate(before);
                    Ok(())
                }
                Err(why) => Err(why),
                Ok(()) => Ok(()),
            };
        }
        self.plain_field(field, names.last().copied().unwrap_or_default(), row, span)
    }

    /// Finds the things that a field's JSON names.
    fn json_field(
        &mut self,
        cursor: &mut Cursor<'_>,
        names: &[&str],
        row: Row,
    ) -> Result<(), &'static str> {
        const WHY: &str = "must be JSON, of at most 16 levels";
        let (first, rest) = names.split_first().unwrap_or((&"", &[]));
        let read = self.json_at(cursor, &BodyPlace::at_field(first.as_bytes()), rest, row);
        read.and_then(|()| cursor.end()).map_err(|_| WHY)
    }

    /// Follows these names into the value, and reads the value of the last one.
    fn json_at(
        &mut self,
        cursor: &mut Cursor<'_>,
        place: &BodyPlace<'_>,
        names: &[&str],
        row: Row,
    ) -> ScanResult<()> {
        match names.split_first() {
            None => self.value(cursor, place, row),
            Some((name, rest)) => self.json_at(cursor, &place.member(name.as_bytes()), rest, row),
        }
    }

    /// Finds the things that a field's text names.
    fn plain_field(
        &mut self,
        field: &FormField,
        name: &str,
        row: Row,
        span: Span,
    ) -> Result<(), &'static str> {
        let named_kind = match row {
            Row::Model | Row::OfModel => NamedKind::Model,
            Row::Stored(kind) if names_anything(&field.value) => NamedKind::Stored(kind),
            Row::Other if can_refer(name) => {
                if !field.is_whole && !is_url_or_data(&field.value) {
                    return Err("is too long");
                }
                NamedKind::Text(name.to_owned())
            }
            Row::Stored(StoredKind::Files | StoredKind::Cached | StoredKind::Data)
            | Row::Nothing
            | Row::Other => {
                return Ok(());
            }
        };
        let param = field.name.chars().take(40).collect();
        if self.found.len() < MAX_NAMED {
            self.found.push(Named {
                kind: named_kind,
                param,
                span,
                in_form: true,
            });
        } else {
            self.is_full = true;
        }
        Ok(())
    }
}

/// Returns whether a text names anything.
fn names_anything(value: &[u8]) -> bool {
    !matches!(
        value.trim_ascii(),
        b"" | b"null" | b"none" | b"None" | b"false"
    )
}

/// Returns whether the beginning of a text is enough to judge it: the host of a URL stands there,
/// and data name nothing.
fn is_url_or_data(beginning: &[u8]) -> bool {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=-_\t\r\n".contains(byte);
    ["data:", "https://", "http://", "gs://", "s3://"]
        .iter()
        .any(|start| starts_with_any_case(beginning, start))
        || beginning.iter().all(is_base64)
}
