//! An account that is being made: it gets its name when all of it is known.

use super::node::Spot;
use crate::notes::{Finding, Grade};
use portcullis::base::problem::unless_secret;
use portcullis::catalog::name;
use portcullis::conf::yaml::edit::New;

/// An account that has no name yet.
pub(super) struct Draft {
    /// The name that it should have.
    pub(super) wish: String,
    /// Its fields. A text that begins with [`SECRET_FILE`] becomes the name of a file.
    pub(super) fields: Vec<(&'static str, New)>,
    /// The literal secrets, which tell accounts apart and are written nowhere.
    pub(super) literals: Vec<String>,
    /// True if no other entry may share the account.
    pub(super) is_own: bool,
    /// The findings that became part of the account.
    pub(super) findings: Vec<Finding>,
}

/// The beginning of a text that stands for a file with a secret; the rest is the end of its name.
pub(super) const SECRET_FILE: char = '\u{1}';

impl Draft {
    pub(super) fn note(&mut self, spot: &Spot<'_>, grade: Grade, message: impl Into<String>) {
        self.findings.push(spot.finding(grade, "", message));
    }

    pub(super) fn set(&mut self, field: &'static str, value: New) {
        self.fields.push((field, value));
    }

    /// Returns a field that is a text.
    pub(super) fn text(&self, wanted: &str) -> Option<&str> {
        self.fields.iter().find_map(|(field, value)| match value {
            New::Text(text) if *field == wanted => Some(text.as_str()),
            New::Text(_)
            | New::Number(_)
            | New::Bool(_)
            | New::List(_)
            | New::Map(_)
            | New::Noted(..) => None,
        })
    }
}

/// Returns whether a text may be a region, a version, a project: something that is no secret.
pub(super) fn is_word(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-._:".contains(&b))
        && unless_secret(text) == text
}

/// Returns whether a text may be a region: it becomes a part of a host name.
pub(super) fn is_region(text: &str) -> bool {
    is_word(text)
        && !text.contains(['.', '_', ':'])
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Puts the names of files into an account that has its name now. Returns the secrets that it
/// needs.
pub(super) fn name_secrets(fields: &mut [(&'static str, New)], account: &str) -> Vec<String> {
    debug_assert!(
        name::of_entry(account).is_ok(),
        "names are made to be right"
    );
    let mut needed = Vec::new();
    for (_, value) in fields {
        name_files(value, account, &mut needed);
    }
    needed
}

fn name_files(value: &mut New, account: &str, needed: &mut Vec<String>) {
    let New::Map(entries) = value else { return };
    for (key, value) in entries {
        match (key.as_str(), &mut *value) {
            ("file", New::Text(text)) => {
                if let Some(end) = text.strip_prefix(SECRET_FILE) {
                    *text = format!("secrets/{account}{end}");
                }
                needed.push(format!("file {text}"));
            }
            ("env", New::Text(text)) => needed.push(format!("environment variable {text}")),
            (_, value) => name_files(value, account, needed),
        }
    }
}
