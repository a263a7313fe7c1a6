//! A value of the source with its place. YAML and JSON are read into the same tree.
//!
//! LiteLLM reads YAML 1.1, and our reader YAML 1.2: what the two read differently is read here as
//! LiteLLM does.

use crate::amount::Amount;
use crate::notes::{Finding, Grade, format_place, join_path};
use portcullis::base::calendar::seconds_of;
use portcullis::base::problem::Problem;
use portcullis::conf::yaml::{Entry, Node, Value};

/// A value with its file, its line and its path.
#[derive(Clone)]
pub(super) struct Spot<'a> {
    pub(super) file: &'a str,
    pub(super) line: Option<usize>,
    pub(super) path: String,
    pub(super) node: &'a Node<'a>,
}

impl<'a> Spot<'a> {
    /// Returns the root of a file.
    pub(super) fn root(file: &'a str, node: &'a Node<'a>) -> Self {
        Self {
            file,
            line: (node.line > 0).then_some(node.line),
            path: String::new(),
            node,
        }
    }

    /// Returns the value of a key, if one is written.
    pub(super) fn get(&self, key: &str) -> Option<Spot<'a>> {
        let Value::Map(entries) = &self.node.value else {
            return None;
        };
        let entry = entries.iter().find(|entry| entry.key == key)?;
        (!entry.node.is_null()).then(|| self.under(entry))
    }

    /// Returns the entries of a map whose value is not null.
    pub(super) fn entries(&self) -> Vec<(&'a str, Spot<'a>)> {
        let Value::Map(entries) = &self.node.value else {
            return Vec::new();
        };
        let written = entries.iter().filter(|entry| !entry.node.is_null());
        written
            .map(|entry| (&*entry.key, self.under(entry)))
            .collect()
    }

    fn under(&self, entry: &'a Entry<'a>) -> Spot<'a> {
        let path = join_path(&self.path, &entry.key);
        Spot {
            line: (entry.line > 0).then_some(entry.line),
            path,
            node: &entry.node,
            ..*self
        }
    }

    /// Returns the items of a list.
    pub(super) fn items(&self) -> Vec<Spot<'a>> {
        let Value::List(items) = &self.node.value else {
            return Vec::new();
        };
        let spot = |(index, node): (usize, &'a Node<'a>)| Spot {
            line: (node.line > 0).then_some(node.line),
            path: format!("{}[{index}]", self.path),
            node,
            ..*self
        };
        items.iter().enumerate().map(spot).collect()
    }

    /// Returns the text of a scalar.
    pub(super) fn text(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Plain(text) | Value::Quoted(text) if !self.node.is_null() => Some(text),
            Value::Plain(_) | Value::Quoted(_) | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// Returns a truth value.
    pub(super) fn flag(&self) -> Option<bool> {
        match self.text()?.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => None,
        }
    }

    /// Returns a number that is not negative.
    pub(super) fn amount(&self) -> Option<Amount> {
        Amount::parse(self.text()?)
    }

    /// Returns a time, in seconds of Unix time. LiteLLM writes some without a zone: they are in
    /// UTC.
    pub(super) fn time(&self) -> Option<u64> {
        let text = self.text()?;
        let read = seconds_of(text).or_else(|| seconds_of(&format!("{text}Z")))?;
        (read < 253_402_300_800).then_some(read)
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.node.value, Value::Map(_))
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.node.value, Value::List(_))
    }

    /// Returns whether the value is empty: null, an empty text, an empty list or an empty map.
    pub(super) fn is_empty(&self) -> bool {
        match &self.node.value {
            Value::Plain(_) => self.node.is_null(),
            Value::Quoted(text) => text.is_empty(),
            Value::List(items) => items.is_empty(),
            Value::Map(entries) => entries.is_empty(),
        }
    }

    /// Returns the place in the source: `config.yaml:5 model_list[0]`.
    pub(super) fn format_place(&self) -> String {
        format_place(self.file, self.line, &self.path)
    }

    /// Makes a finding about this value.
    pub(super) fn finding(
        &self,
        grade: Grade,
        became: &str,
        message: impl Into<String>,
    ) -> Finding {
        Finding {
            file: self.file.to_owned(),
            line: self.line,
            path: self.path.clone(),
            grade,
            message: message.into(),
            became: became.to_owned(),
            unset: None,
            after: None,
        }
    }

    /// Makes an error about this value.
    pub(super) fn problem(&self, message: impl Into<String>) -> Problem {
        Problem {
            file: self.file.to_owned(),
            line: self.line,
            path: self.path.clone(),
            message: message.into(),
        }
    }
}

/// Turns JSON into a tree. Lines are not known. Fields that are kept as JSON inside a text are read
/// too, since some ways to save rows write them so.
pub(super) fn of_json(value: serde_json::Value) -> Node<'static> {
    use serde_json::Value as Json;
    let value = match value {
        Json::Null => Value::Plain("null".into()),
        Json::Bool(value) => Value::Plain(value.to_string().into()),
        // Written out, since a float may have an exponent that is read as text elsewhere.
        Json::Number(number) => Value::Plain(number.to_string().into()),
        Json::String(text) => match serde_json::from_str::<Json>(&text) {
            Ok(inner @ (Json::Object(_) | Json::Array(_))) => return of_json(inner),
            Ok(_) | Err(_) => Value::Quoted(text.into()),
        },
        Json::Array(items) => Value::List(items.into_iter().map(of_json).collect()),
        Json::Object(entries) => Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| Entry {
                    key: key.into(),
                    line: 0,
                    column: 0,
                    node: of_json(value),
                })
                .collect(),
        ),
    };
    Node {
        line: 0,
        column: 0,
        value,
    }
}
