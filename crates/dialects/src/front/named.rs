//! The things that a request names outside its conversation: other models, objects that are stored
//! at the account, files and URLs. The scan of the body finds them, and they are judged before
//! anything goes up.
//!
//! The name of a member decides the kind of its value ([`find_row`]), wherever it stands in the
//! settings. So settings that are new today are judged too.

use std::borrow::Cow;

use super::place::{BodyPlace, Folded};
use super::references::{AllowedReferences, Judgement, names_file, names_place};
use crate::neutral::Refused;
use crate::wire::json::{
    Cursor, Kind, ScanResult, Span, name_of, quote_string, span_bytes, text_of,
};

mod form;

pub(super) use form::field_reading;

/// A thing that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    kind: NamedKind,
    /// The path of its field, for the caller.
    pub(crate) param: String,
    /// The place of its text.
    pub(crate) span: Span,
    /// True if the text is the value of a field of a form, as it is. Else it is JSON.
    in_form: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum NamedKind {
    /// A model.
    Model,
    /// A model in a tool of unknown use.
    ModelOfUnknownTool,
    /// An object that is stored at the account.
    Stored(StoredKind),
    /// A text that may be a file's id or a URL, in a member of this name.
    Text(String),
}

/// The kinds of objects that are stored at an account, by the word that allows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoredKind {
    Files,
    Cached,
    Data,
}

/// The kind of a member's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Row {
    /// A model, or several.
    Model,
    /// The name of something that is stored at the account.
    Stored(StoredKind),
    /// Nothing to judge: a schema, or words of the caller's own.
    Nothing,
    /// A part of an object that stands for a model. The part names the model if no other part of
    /// the object is known to name one.
    OfModel,
    /// Any other value. Its members are read too.
    Other,
}

/// The table of names, without case and underscores.
const ROWS: [(&str, Row); 30] = [
    ("adapterid", Row::Model),
    ("modelname", Row::Model),
    ("cachedcontent", Row::Stored(StoredKind::Cached)),
    ("datasources", Row::Stored(StoredKind::Data)),
    ("retrieval", Row::Stored(StoredKind::Data)),
    ("container", Row::Stored(StoredKind::Files)),
    ("containerid", Row::Stored(StoredKind::Files)),
    ("filesearchstorenames", Row::Stored(StoredKind::Files)),
    ("prompt", Row::Stored(StoredKind::Files)),
    ("skillid", Row::Stored(StoredKind::Files)),
    ("thread", Row::Stored(StoredKind::Files)),
    ("vectorstoreid", Row::Stored(StoredKind::Files)),
    ("vectorstoreids", Row::Stored(StoredKind::Files)),
    ("clientmetadata", Row::Nothing),
    ("description", Row::Nothing),
    ("function", Row::Nothing),
    ("functiondeclarations", Row::Nothing),
    ("functions", Row::Nothing),
    ("inputexamples", Row::Nothing),
    ("inputschema", Row::Nothing),
    ("jsonschema", Row::Nothing),
    ("labels", Row::Nothing),
    ("metadata", Row::Nothing),
    ("outputschema", Row::Nothing),
    ("parametersjsonschema", Row::Nothing),
    ("properties", Row::Nothing),
    ("responsejsonschema", Row::Nothing),
    ("responseschema", Row::Nothing),
    ("schema", Row::Nothing),
    ("stop", Row::Nothing),
];

/// Returns the kind of the values of members with this folded name.
fn find_row(name: &str) -> Row {
    const MODELS: [&str; 3] = ["model", "models", "fallbacks"];
    match ROWS.iter().find(|(known, _)| *known == name) {
        Some((_, row)) => *row,
        None if MODELS.iter().any(|end| name.ends_with(end)) => Row::Model,
        None => Row::Other,
    }
}

/// Returns whether the `parameters` of a tool of this type are a schema of the caller's own.
fn is_callers(kind: &str) -> bool {
    matches!(kind, "function" | "custom" | "tool_search")
}

/// Returns whether it is known how a provider's tool of this type uses a model.
fn is_known(kind: &str) -> bool {
    is_callers(kind)
        || kind == "image_generation"
        || ["advisor_", "openrouter:"]
            .iter()
            .any(|prefix| kind.starts_with(prefix))
}

/// The most names of a request. No request needs more, and the bound keeps the list small.
const MAX_NAMED: usize = 256;

impl Named {
    /// Returns whether it is a model.
    pub(crate) fn is_model(&self) -> bool {
        matches!(self.kind, NamedKind::Model | NamedKind::ModelOfUnknownTool)
    }

    /// Returns whether it is a model in a tool of unknown use.
    pub(crate) fn is_of_unknown_tool(&self) -> bool {
        self.kind == NamedKind::ModelOfUnknownTool
    }

    /// Returns its text, unless it is no text or empty.
    pub(crate) fn text<'b>(&self, body: &'b [u8]) -> Option<Cow<'b, str>> {
        let text = if self.in_form {
            str::from_utf8(span_bytes(body, &self.span))
                .ok()
                .map(Cow::Borrowed)
        } else {
            text_of(body, &self.span)
        };
        text.filter(|text| !text.is_empty())
    }

    /// Returns another text as it would stand there.
    pub(crate) fn written(&self, text: &str) -> Vec<u8> {
        if self.in_form {
            text.as_bytes().to_vec()
        } else {
            quote_string(text).into_bytes()
        }
    }

    /// Returns why the account does not let callers name it, if it does not.
    pub(super) fn refused(&self, allowed: &AllowedReferences, body: &[u8]) -> Option<Refused> {
        let stored = |is_allowed: bool, judgement| (!is_allowed).then_some(judgement);
        let judgement = match &self.kind {
            NamedKind::Model | NamedKind::ModelOfUnknownTool => None,
            NamedKind::Stored(StoredKind::Files) => stored(allowed.files, Judgement::STORED),
            NamedKind::Stored(StoredKind::Cached) => stored(allowed.cached, Judgement::CACHED),
            NamedKind::Stored(StoredKind::Data) => {
                stored(allowed.data_sources, Judgement::DATA_SOURCES)
            }
            NamedKind::Text(name) if self.in_form => self
                .text(body)
                .and_then(|text| allowed.judge_text(name.as_bytes(), &text)),
            NamedKind::Text(name) => allowed.judge(name.as_bytes(), body, &self.span),
        };
        judgement.map(|judgement| Refused::unsupported(self.param.clone(), judgement.message()))
    }
}

/// The list of the things that a request names.
#[derive(Debug, Default)]
pub(super) struct Finder {
    pub(super) found: Vec<Named>,
    /// The number of texts that are known to name models.
    known: usize,
    /// The texts of an object that stands for a model, which are not known to name one.
    texts: Vec<(String, Span)>,
    /// True if there were more names than a request needs.
    pub(super) is_full: bool,
}

impl Finder {
    /// Consumes the value of a field. The scanner bounds the depth.
    pub(super) fn field(&mut self, cursor: &mut Cursor<'_>, name: &[u8]) -> ScanResult<()> {
        match cursor.kind()? {
            Kind::Number | Kind::Bool | Kind::Null => cursor.skip(),
            Kind::String | Kind::Array | Kind::Object => self.value(
                cursor,
                &BodyPlace::at_field(name),
                find_row(Folded::fold(name).word()),
            ),
        }
    }

    fn value(
        &mut self,
        cursor: &mut Cursor<'_>,
        place: &BodyPlace<'_>,
        row: Row,
    ) -> ScanResult<()> {
        match (row, cursor.kind()?) {
            (Row::Stored(store), _) => {
                let span = cursor.value()?;
                if names_anything(cursor.text(), &span) {
                    self.push(NamedKind::Stored(store), place.shown(), span);
                }
            }
            (Row::Model | Row::OfModel | Row::Other, Kind::Array) => {
                cursor.array(|cursor, index| self.value(cursor, &place.element(index), row))?;
            }
            (Row::Model, Kind::Object) => {
                let (known, start) = (self.known, self.texts.len());
                self.object(cursor, place, row)?;
                let texts = self.texts.split_off(start);
                if self.known == known {
                    texts
                        .into_iter()
                        .for_each(|(param, span)| self.push(NamedKind::Model, param, span));
                }
            }
            (Row::OfModel | Row::Other, Kind::Object) => self.object(cursor, place, row)?,
            (Row::Model, Kind::String) => {
                let span = cursor.value()?;
                self.known += 1;
                self.push(NamedKind::Model, place.shown(), span);
            }
            (Row::OfModel | Row::Other, Kind::String) => {
                let span = cursor.value()?;
                let name = place.name();
                if row == Row::OfModel && self.texts.len() <= MAX_NAMED {
                    self.texts.push((place.shown(), span.clone()));
                }
                if names_place(name) || names_file(name) {
                    self.push(
                        NamedKind::Text(String::from_utf8_lossy(name).into_owned()),
                        place.shown(),
                        span,
                    );
                }
            }
            (Row::Nothing | Row::Model | Row::OfModel | Row::Other, _) => {
                cursor.value()?;
            }
        }
        Ok(())
    }

    /// Consumes an object. Its type may come last, so it is judged at its end.
    fn object(
        &mut self,
        cursor: &mut Cursor<'_>,
        place: &BodyPlace<'_>,
        parent_row: Row,
    ) -> ScanResult<()> {
        let (text, start) = (cursor.text(), self.found.len());
        let is_tool = || Folded::fold(place.name()).word() == "tools";
        // Servers differ in which of several types they read, so all types count.
        let mut is_typed = false;
        let mut is_all_callers = true;
        let mut is_all_known = true;
        let mut has_skipped = false;
        let mut of_parameters = Vec::new();
        cursor.object(|cursor, key| {
            let name = name_of(text, &key);
            let (folded, inside) = (Folded::fold(&name), place.member(&name));
            match (folded.word(), cursor.kind()?) {
                ("type", Kind::String) => {
                    let kind = text_of(text, &cursor.value()?).unwrap_or_default();
                    is_typed = true;
                    is_all_callers &= is_callers(&kind);
                    is_all_known &= is_known(&kind);
                }
                ("parameters", _) if is_typed && is_all_callers && is_tool() => {
                    has_skipped = true;
                    cursor.value()?;
                }
                ("parameters", _) => {
                    let before = self.found.len();
                    self.value(cursor, &inside, Row::Other)?;
                    of_parameters.push(before..self.found.len());
                }
                // A map of models to lists of models, or an object that describes one.
                ("id" | "name" | "slug", Kind::String) if parent_row == Row::Model => {
                    self.value(cursor, &inside, Row::Model)?;
                }
                (word, Kind::Array) if parent_row == Row::Model && find_row(word) == Row::Other => {
                    cursor.array(|cursor, index| {
                        let row = if cursor.kind()? == Kind::String {
                            Row::Model
                        } else {
                            Row::OfModel
                        };
                        self.value(cursor, &inside.element(index), row)
                    })?;
                }
                (word, _) => {
                    let is_of_model = matches!(parent_row, Row::Model | Row::OfModel)
                        && find_row(word) == Row::Other;
                    self.value(
                        cursor,
                        &inside,
                        if is_of_model {
                            Row::OfModel
                        } else {
                            find_row(word)
                        },
                    )?;
                }
            }
            Ok(())
        })?;
        // The skipped part is a schema only if every type declares one.
        self.is_full |= has_skipped && !is_all_callers;
        if is_all_callers && of_parameters.iter().any(|found| !found.is_empty()) && is_tool() {
            of_parameters
                .into_iter()
                .rev()
                .for_each(|found| drop(self.found.drain(found)));
        }
        if !is_all_known && is_tool() {
            let of_tool = self.found.iter_mut().skip(start);
            of_tool
                .filter(|named| named.is_model())
                .for_each(|named| named.kind = NamedKind::ModelOfUnknownTool);
        }
        Ok(())
    }

    fn push(&mut self, kind: NamedKind, param: String, span: Span) {
        if self.found.len() < MAX_NAMED {
            self.found.push(Named {
                kind,
                param,
                span,
                in_form: false,
            });
        } else {
            self.is_full = true;
        }
    }
}

/// Returns whether a value names anything. A container that is made for the request is not a stored
/// one.
fn names_anything(text: &[u8], span: &Span) -> bool {
    let value = span_bytes(text, span);
    if !value.starts_with(b"{") {
        return !matches!(value, b"null" | b"\"\"" | b"[]" | b"false");
    }
    let mut is_new = false;
    let mut has_files = false;
    let _read = Cursor::new(value).members(|key, member| match &*name_of(value, &key) {
        b"type" => is_new = span_bytes(value, &member) == br#""auto""#,
        b"file_ids" | b"skills" => {
            has_files |= !matches!(span_bytes(value, &member), b"null" | b"[]")
        }
        _ => {}
    });
    !is_new || has_files
}

#[cfg(test)]
mod tests;
