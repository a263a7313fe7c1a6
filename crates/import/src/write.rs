//! Writing the new files: YAML with comments, which the editor of the catalog could not set.

use std::collections::HashMap;

use super::notes::{Finding, Grade};
use portcullis::conf::yaml::edit::NewValue;

/// The fields of an entry or of a map, in the order in which they are written.
#[derive(Debug, Default)]
pub(super) struct Fields(pub(super) Vec<(String, NewValue)>);

impl Fields {
    pub(super) fn set(&mut self, field: &str, value: impl Into<NewValue>) {
        self.0.push((field.to_owned(), value.into()));
    }

    /// Sets a field if it has a value.
    pub(super) fn set_some(&mut self, field: &str, value: Option<impl Into<NewValue>>) {
        if let Some(value) = value {
            self.set(field, value);
        }
    }

    /// Sets a field if its list is not empty.
    pub(super) fn set_list(&mut self, field: &str, texts: &[String]) {
        self.set_some(field, (!texts.is_empty()).then_some(texts));
    }

    /// Returns a field that is a text.
    pub(super) fn text(&self, field: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(name, _)| name == field)?;
        if let NewValue::Text(text) = value {
            Some(text)
        } else {
            None
        }
    }

    /// Returns the map of these fields, if there are any.
    pub(super) fn map(self) -> Option<NewValue> {
        (!self.0.is_empty()).then_some(NewValue::Map(self.0))
    }
}

/// An entry of a section: an account, a model, a caller or a key.
#[derive(Default)]
pub(super) struct EntryOut {
    /// Its name.
    pub(super) name: String,
    /// The places that it was made from; of many, the first.
    pub(super) source_place: String,
    pub(super) fields: Fields,
    /// The entries below it: the keys of a caller.
    pub(super) below: Option<Vec<EntryOut>>,
}

/// A section of a file, with its name.
pub(super) type Section<E> = (&'static str, E);

/// Writes a file of the catalog. Each finding is a comment at the entry that it is about.
pub(super) fn write_file(
    head: &str,
    sections: &[Section<&[EntryOut]>],
    findings: &[Finding],
) -> String {
    let mut writer = Writer::default();
    for finding in findings.iter().filter(|one| one.grade != Grade::Exact) {
        let path = finding.became.as_str();
        writer.comments.entry(path).or_default().push(finding);
    }
    writer.comment(0, head);
    for (name, entries) in sections {
        writer.text.push('\n');
        writer.section(0, name, entries);
    }
    writer.text
}

/// Adds the findings that have no place of their own, as comments at the end.
pub(super) fn write_rest<'f>(text: &mut String, findings: impl Iterator<Item = &'f Finding>) {
    let mut writer = Writer::default();
    for finding in findings {
        writer.comment(0, &finding_comment(finding));
    }
    if !writer.text.is_empty() {
        text.push_str("\n# Not carried over, or to do elsewhere:\n");
        text.push_str(&writer.text);
    }
}

#[derive(Default)]
struct Writer<'f> {
    text: String,
    /// The findings that are shown as comments, by the entry that they are about.
    comments: HashMap<&'f str, Vec<&'f Finding>>,
}

impl Writer<'_> {
    fn line(&mut self, indent: usize, line: &str) {
        let line = format!("{:indent$}{line}", "");
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Writes comment lines. No character can end a comment but the ends of its lines.
    fn comment(&mut self, indent: usize, comment: &str) {
        for line in comment.lines() {
            let line = line.replace(|c: char| !is_plain(c), "?");
            self.line(indent, &format!("# {line}"));
        }
    }

    /// Writes a section, whose path ends with its name, and its entries below.
    fn section(&mut self, indent: usize, path: &str, entries: &[EntryOut]) {
        let name = path.rsplit('.').next().unwrap_or(path);
        let end = if entries.is_empty() { " {}" } else { "" };
        self.line(indent, &format!("{name}:{end}"));
        for entry in entries {
            self.entry(indent + 2, &format!("{path}.{}", entry.name), entry);
        }
    }

    fn entry(&mut self, indent: usize, path: &str, entry: &EntryOut) {
        self.comment(indent, &entry.source_place);
        for finding in self.comments.get(path).cloned().unwrap_or_default() {
            self.comment(indent, &finding_comment(finding));
        }
        let is_empty = entry.fields.0.is_empty() && entry.below.is_none();
        let end = if is_empty { " {}" } else { "" };
        self.line(
            indent,
            &format!("{}:{end}", NewValue::text(&entry.name).flow()),
        );
        for (field, value) in &entry.fields.0 {
            self.field(indent + 2, field, value);
        }
        if let Some(keys) = &entry.below {
            self.section(indent + 2, &format!("{path}.keys"), keys);
        }
    }

    /// Writes a field. A list of maps has a line for each.
    fn field(&mut self, indent: usize, field: &str, value: &NewValue) {
        if let NewValue::List(items) = value
            && matches!(items.first(), Some(NewValue::Map(_)))
        {
            self.line(indent, &format!("{field}:"));
            for item in items {
                self.line(indent + 2, &format!("- {}", item.flow()));
            }
            return;
        }
        let mut line = format!("{field}: {}", value.flow());
        if let NewValue::Noted(_, note) = value {
            line.push_str(&format!(" # {note}"));
        }
        self.line(indent, &line);
    }
}

fn finding_comment(finding: &Finding) -> String {
    let place = finding.format_place();
    format!("{}: {place}: {}", finding.grade.name(), finding.message)
}

fn is_plain(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}
