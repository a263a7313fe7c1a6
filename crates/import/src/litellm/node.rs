//! A value of the source with its place. YAML and JSON are read into the same tree.
//!
//! LiteLLM reads YAML 1.1, and our reader YAML 1.2: what the two read differently is read here as
//! LiteLLM does.

use std::ops::RangeInclusive;

use crate::amount::Amount;
use crate::notes::{Finding, Findings, Grade, format_place, join_path};
use portcullis::base::calendar::parse_unix_seconds;
use portcullis::base::problem::Problem;
use portcullis::conf::yaml::{Entry, Node, Value};

/// A value with its file, its line and its path, and the findings about it.
#[derive(Clone)]
pub(super) struct Spot<'a> {
    pub(super) file: &'a str,
    pub(super) line: Option<usize>,
    pub(super) path: String,
    pub(super) node: &'a Node<'a>,
    pub(super) findings: &'a Findings,
}

/// The finding because of which an entry is left out.
pub(super) type Lost = Box<Finding>;

impl<'a> Spot<'a> {
    /// Returns the root of a file.
    pub(super) fn root(file: &'a str, node: &'a Node<'a>, findings: &'a Findings) -> Self {
        Self {
            file,
            line: (node.line > 0).then_some(node.line),
            path: String::new(),
            node,
            findings,
        }
    }

    fn child(&self, path: String, line: usize, node: &'a Node<'a>) -> Self {
        Self {
            line: (line > 0).then_some(line),
            path,
            node,
            ..*self
        }
    }

    fn map(&self) -> &'a [Entry<'a>] {
        if let Value::Map(entries) = &self.node.value {
            entries
        } else {
            &[]
        }
    }

    fn entry(&self, entry: &'a Entry<'a>) -> Self {
        self.child(join_path(&self.path, &entry.key), entry.line, &entry.node)
    }

    /// Returns whether a key is written, also if its value is null.
    pub(super) fn has(&self, key: &str) -> bool {
        self.map().iter().any(|entry| entry.key == key)
    }

    /// Returns the value of a key, if one is written.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        let entry = self.map().iter().find(|entry| entry.key == key)?;
        (!entry.node.is_null()).then(|| self.entry(entry))
    }

    /// Returns the value of a key that is not empty.
    pub(super) fn filled(&self, key: &str) -> Option<Self> {
        self.get(key).filter(|spot| !spot.is_empty())
    }

    /// Returns the text of a key, if it is not empty.
    pub(super) fn get_text(&self, key: &str) -> Option<&'a str> {
        self.filled(key)?.text()
    }

    /// Returns the entries of a map whose value is not null.
    pub(super) fn entries(&self) -> Vec<(&'a str, Self)> {
        let written = self.map().iter().filter(|entry| !entry.node.is_null());
        written
            .map(|entry| (&*entry.key, self.entry(entry)))
            .collect()
    }

    /// Returns the items of a list.
    pub(super) fn items(&self) -> Vec<Self> {
        let Value::List(items) = &self.node.value else {
            return Vec::new();
        };
        let paths = (0..).map(|index| format!("{}[{index}]", self.path));
        let items = paths.zip(items);
        items
            .map(|(path, node)| self.child(path, node.line, node))
            .collect()
    }

    /// Returns the items of a list that are texts.
    pub(super) fn texts(&self) -> Vec<String> {
        let items = self.items();
        items
            .iter()
            .filter_map(Spot::text)
            .map(str::to_owned)
            .collect()
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

    /// Returns a whole number that is not negative.
    pub(super) fn whole(&self) -> Option<u64> {
        self.amount()?.whole()
    }

    /// Returns a time, in seconds of Unix time. LiteLLM writes some without a zone: they are in
    /// UTC.
    pub(super) fn time(&self) -> Option<u64> {
        let text = self.text()?;
        let read = parse_unix_seconds(text).or_else(|| parse_unix_seconds(&format!("{text}Z")))?;
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
    pub(super) fn finding(&self, grade: Grade, message: impl Into<String>) -> Finding {
        Finding {
            file: self.file.to_owned(),
            line: self.line,
            path: self.path.clone(),
            grade,
            message: message.into(),
            became: self.findings.entry(),
            unset: None,
            after: None,
        }
    }

    pub(super) fn report(&self, grade: Grade, message: impl Into<String>) {
        self.findings.add(self.finding(grade, message));
    }

    pub(super) fn report_exact(&self) {
        self.report(Grade::Exact, "");
    }

    pub(super) fn report_approximate(&self, message: impl Into<String>) {
        self.report(Grade::Approximate, message);
    }

    pub(super) fn report_manual(&self, message: impl Into<String>) {
        self.report(Grade::Manual, message);
    }

    pub(super) fn report_unsupported(&self, message: impl Into<String>) {
        self.report(Grade::Unsupported, message);
    }

    /// Makes the finding because of which the entry is left out. It became part of nothing.
    pub(super) fn lost(&self, grade: Grade, why: impl std::fmt::Display) -> Lost {
        Box::new(Finding {
            became: String::new(),
            ..self.finding(grade, format!("{why}: the entry is left out"))
        })
    }

    /// Reads a truth value, which becomes this field.
    pub(super) fn read_flag(&self, field: &str) -> Option<bool> {
        let flag = self.flag();
        if flag.is_none() {
            self.report_manual(format!("must be true or false: write `{field}` by hand"));
        }
        flag
    }

    /// Reads a whole number in this range, which becomes this field.
    pub(super) fn read_whole(&self, range: RangeInclusive<u64>, field: &str) -> Option<u64> {
        let number = self.whole().filter(|number| range.contains(number));
        if number.is_none() {
            self.report_manual(format!("must be a whole number: write `{field}` by hand"));
        }
        number
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
pub(super) fn json_node(value: serde_json::Value) -> Node<'static> {
    use serde_json::Value as Json;
    let value = match value {
        Json::Null => Value::Plain("null".into()),
        Json::Bool(value) => Value::Plain(value.to_string().into()),
        // Written out, since a float may have an exponent that is read as text elsewhere.
        Json::Number(number) => Value::Plain(number.to_string().into()),
        Json::String(text) => match serde_json::from_str::<Json>(&text) {
            Ok(inner @ (Json::Object(_) | Json::Array(_))) => return json_node(inner),
            Ok(_) | Err(_) => Value::Quoted(text.into()),
        },
        Json::Array(items) => Value::List(items.into_iter().map(json_node).collect()),
        Json::Object(map) => Value::Map(map.into_iter().map(json_entry).collect()),
    };
    Node {
        line: 0,
        column: 0,
        value,
    }
}

fn json_entry(entry: (String, serde_json::Value)) -> Entry<'static> {
    Entry {
        key: entry.0.into(),
        line: 0,
        column: 0,
        node: json_node(entry.1),
    }
}
