//! A new value is one that an edit writes. This module has its type, and writes it as YAML.

use super::region::Quotes;
use crate::conf::yaml::read::reads_as_text;
use crate::conf::yaml::{Entry, Node, Value};

/// A value that an edit writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewValue {
    /// A text, in quotes if it needs them.
    Text(String),
    /// A number, as it is to be written.
    Number(String),
    /// `true` or `false`.
    Bool(bool),
    /// A list.
    List(Vec<NewValue>),
    /// A map.
    Map(Vec<(String, NewValue)>),
    /// A value with a note after it, where the style has room for one. A note is a comment of one
    /// word that ends in `…`. The note belongs to the value, and goes away with it.
    Noted(Box<NewValue>, String),
}

impl NewValue {
    /// Makes a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Makes a map of these entries.
    pub fn map<const N: usize>(entries: [(&str, NewValue); N]) -> Self {
        Self::Map(
            entries
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        )
    }

    /// Makes a list of texts.
    pub fn texts(texts: &[String]) -> Self {
        Self::List(texts.iter().map(Self::text).collect())
    }

    /// Adds a note.
    pub fn noted(self, note: impl Into<String>) -> Self {
        Self::Noted(Box::new(self), note.into())
    }

    pub(super) fn note(&self) -> Option<&str> {
        match self {
            Self::Noted(_, note) => Some(note),
            Self::Text(_) | Self::Number(_) | Self::Bool(_) | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// Returns whether the value holds a note, at any depth.
    pub(super) fn is_noted(&self) -> bool {
        match self {
            Self::Noted(..) => true,
            Self::List(items) => items.iter().any(NewValue::is_noted),
            Self::Map(entries) => entries.iter().any(|(_, new)| new.is_noted()),
            Self::Text(_) | Self::Number(_) | Self::Bool(_) => false,
        }
    }

    /// Writes the value on one line, so that it can stand inside brackets or not.
    pub fn flow(&self) -> String {
        self.on_a_line(Style::Flow)
    }

    /// Writes what stands after `key:` or `- ` in block style, with the blank between. A map gets
    /// lines of its own; anything else stands on this line.
    pub(super) fn block(&self, indent: usize, step: usize, eol: &str) -> String {
        match self {
            Self::Map(entries) if !entries.is_empty() => entries
                .iter()
                .map(|(key, value)| {
                    let value = value.block(indent + step, step, eol);
                    format!(
                        "{eol}{:indent$}{}:{value}",
                        "",
                        write_scalar(key, Style::Block)
                    )
                })
                .collect(),
            Self::Noted(new, note) => format!("{} # {note}", new.block(indent, step, eol)),
            Self::Text(_) | Self::Number(_) | Self::Bool(_) | Self::List(_) | Self::Map(_) => {
                format!(" {}", self.on_a_line(Style::Block))
            }
        }
    }

    /// Writes the value in place of a scalar that had these quotes.
    pub(super) fn instead_of(&self, quotes: Quotes, flow: bool) -> String {
        match (self, quotes) {
            (Self::Text(text), Quotes::Single) => format!("'{}'", text.replace('\'', "''")),
            (Self::Text(text), Quotes::Double) => double_quoted(text),
            (Self::Noted(new, _), _) => new.instead_of(quotes, flow),
            (Self::Text(_) | Self::Number(_) | Self::Bool(_) | Self::List(_) | Self::Map(_), _) => {
                self.on_a_line(if flow { Style::Flow } else { Style::Block })
            }
        }
    }

    fn on_a_line(&self, style: Style) -> String {
        let joined = |parts: Vec<String>| parts.join(", ");
        match self {
            Self::Text(text) => write_scalar(text, style),
            Self::Number(number) => number.clone(),
            Self::Bool(value) => value.to_string(),
            Self::List(items) => {
                format!("[{}]", joined(items.iter().map(NewValue::flow).collect()))
            }
            Self::Map(entries) if entries.is_empty() => "{}".to_owned(),
            Self::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| {
                    format!("{}: {}", write_scalar(key, Style::Flow), value.flow())
                });
                format!("{{ {} }}", joined(entries.collect()))
            }
            Self::Noted(new, _) => new.on_a_line(style),
        }
    }

    /// Returns the tree that the written value reads as.
    pub(super) fn node<'t>(&self) -> Node<'t> {
        let value = match self {
            Self::Text(text) => Value::Quoted(text.clone().into()),
            Self::Number(number) => Value::Plain(number.clone().into()),
            Self::Bool(value) => Value::Plain(value.to_string().into()),
            Self::List(items) => Value::List(items.iter().map(NewValue::node).collect()),
            Self::Map(entries) => Value::Map(
                entries
                    .iter()
                    .map(|(key, new)| new_entry(key, new))
                    .collect(),
            ),
            Self::Noted(new, _) => return new.node(),
        };
        Node {
            line: 0,
            column: 0,
            value,
        }
    }
}

impl From<&str> for NewValue {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for NewValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for NewValue {
    fn from(number: u64) -> Self {
        Self::Number(number.to_string())
    }
}

impl From<bool> for NewValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&[String]> for NewValue {
    fn from(texts: &[String]) -> Self {
        Self::texts(texts)
    }
}

pub(super) fn new_entry<'t>(key: &str, new: &NewValue) -> Entry<'t> {
    Entry {
        key: key.to_owned().into(),
        line: 0,
        column: 0,
        node: new.node(),
    }
}

/// The style of the collection that a scalar stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Inside brackets or braces.
    Flow,
    Block,
}

/// Writes a text as a scalar. It gets quotes if it would be read as something else.
pub(super) fn write_scalar(text: &str, style: Style) -> String {
    let is_word = text.bytes().enumerate().all(|(index, byte)| match byte {
        b':' => {
            let next = text.as_bytes().get(index + 1);
            style == Style::Block && next.is_some_and(u8::is_ascii_alphanumeric)
        }
        _ => byte.is_ascii_alphanumeric() || b"._-/@+".contains(&byte),
    });
    let is_plain = is_word
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && reads_as_text(&Node { line: 0, column: 0, value: Value::Plain(text.into()) })
        && !is_special_in_yaml_1_1(text)
        // Other readers take some texts, such as `0b11`, for a number.
        && serde_yaml::to_string(text).is_ok_and(|written| written.trim_end() == text);
    if is_plain {
        text.to_owned()
    } else {
        double_quoted(text)
    }
}

/// Returns whether readers of YAML 1.1 take a plain text for a boolean, a number, a time of day
/// or a date.
fn is_special_in_yaml_1_1(text: &str) -> bool {
    const BOOLEANS: [&str; 4] = ["yes", "no", "on", "off"];
    let is_numeric = |byte: u8| byte.is_ascii_digit() || b"_:-.".contains(&byte);
    BOOLEANS.iter().any(|word| text.eq_ignore_ascii_case(word))
        || text.starts_with(|first: char| first.is_ascii_digit()) && text.bytes().all(is_numeric)
}

fn double_quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                quoted.push_str(&format!("\\U{:08X}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
