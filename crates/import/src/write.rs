//! Writing the new files: YAML with comments, which the editor of the catalog could not set.

use super::notes::{Finding, Grade};
use portcullis::conf::yaml::edit::New;

/// An entry of a section: an account, a model, a caller or a key.
#[derive(Default)]
pub(super) struct EntryOut {
    /// Its name.
    pub(super) name: String,
    /// The places that it was made from; of many, the first.
    pub(super) from: String,
    /// Its fields, in the order in which they are written.
    pub(super) fields: Vec<(&'static str, New)>,
    /// The section below it, such as `keys`.
    pub(super) below: Option<(&'static str, Vec<EntryOut>)>,
}

/// A section of a file, under its path, which findings name.
pub(super) struct Section<'a> {
    pub(super) name: &'static str,
    pub(super) entries: &'a [EntryOut],
}

/// Writes a file of the catalog. Each finding is a comment at the entry that it is about.
pub(super) fn write_file(head: &str, sections: &[Section<'_>], findings: &[Finding]) -> String {
    let mut text = String::new();
    write_comment(&mut text, 0, head);
    let comments = Comments::new(findings);
    for section in sections {
        text.push('\n');
        write_section(
            &mut text,
            0,
            (section.name, section.name),
            section.entries,
            &comments,
        );
    }
    text
}

/// Adds the findings that have no place of their own, as comments at the end.
pub(super) fn write_rest<'f>(text: &mut String, findings: impl Iterator<Item = &'f Finding>) {
    let mut is_first = true;
    for finding in findings {
        if is_first {
            text.push_str("\n# Not carried over, or to do elsewhere:\n");
            is_first = false;
        }
        write_comment(text, 0, &finding_comment(finding));
    }
}

/// The findings that are shown as comments, by what they became part of.
struct Comments<'f>(std::collections::HashMap<&'f str, Vec<&'f Finding>>);

impl<'f> Comments<'f> {
    fn new(findings: &'f [Finding]) -> Self {
        let mut by: std::collections::HashMap<&str, Vec<&Finding>> =
            std::collections::HashMap::new();
        for finding in findings
            .iter()
            .filter(|finding| finding.grade != Grade::Exact)
        {
            by.entry(&finding.became).or_default().push(finding);
        }
        Self(by)
    }

    fn about(&self, path: &str) -> &[&'f Finding] {
        self.0.get(path).map_or(&[], Vec::as_slice)
    }
}

/// Writes a section: its name at this indentation, and its entries below.
fn write_section(
    text: &mut String,
    indent: usize,
    (name, path): (&str, &str),
    entries: &[EntryOut],
    comments: &Comments<'_>,
) {
    if entries.is_empty() {
        text.push_str(&format!("{:indent$}{name}: {{}}\n", ""));
        return;
    }
    text.push_str(&format!("{:indent$}{name}:\n", ""));
    for entry in entries {
        let path = format!("{path}.{}", entry.name);
        let (spot, inside) = (indent + 2, indent + 4);
        if !entry.from.is_empty() {
            write_comment(text, spot, &entry.from);
        }
        for finding in comments.about(&path) {
            write_comment(text, spot, &finding_comment(finding));
        }
        let name = New::text(&entry.name).flow();
        if entry.fields.is_empty() && entry.below.is_none() {
            text.push_str(&format!("{:spot$}{name}: {{}}\n", ""));
            continue;
        }
        text.push_str(&format!("{:spot$}{name}:\n", ""));
        for (field, value) in &entry.fields {
            if let New::List(items) = value
                && items.iter().any(|item| matches!(item, New::Map(_)))
            {
                text.push_str(&format!("{:inside$}{field}:\n", ""));
                for item in items {
                    text.push_str(&format!("{:inside$}  - {}\n", "", item.flow()));
                }
            } else {
                let note = if let New::Noted(_, note) = value {
                    format!(" # {note}")
                } else {
                    String::new()
                };
                text.push_str(&format!("{:inside$}{field}: {}{note}\n", "", value.flow()));
            }
        }
        if let Some((below, entries)) = &entry.below {
            write_section(
                text,
                inside,
                (below, &format!("{path}.{below}")),
                entries,
                comments,
            );
        }
    }
}

/// Writes a finding as a comment.
fn finding_comment(finding: &Finding) -> String {
    format!(
        "{}: {}: {}",
        finding.grade.name(),
        finding.format_place(),
        finding.message
    )
}

/// Writes comment lines. No character can end a comment but the ends of its lines.
fn write_comment(text: &mut String, indent: usize, comment: &str) {
    for line in comment.lines() {
        let line: String = line
            .chars()
            .map(|c| if is_plain(c) { c } else { '?' })
            .collect();
        text.push_str(format!("{:indent$}# {line}", "").trim_end());
        text.push('\n');
    }
}

fn is_plain(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}
