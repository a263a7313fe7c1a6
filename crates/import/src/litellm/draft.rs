//! An account that is being made: it gets its name when all of it is known.

use super::entry::Entry;
use super::node::Spot;
use super::provider::ProviderRow;
use super::world::{World, variable_of};
use crate::write::Fields;
use portcullis::conf::yaml::edit::New;

/// An account that has no name yet.
#[derive(Default)]
pub(super) struct Draft {
    /// The name that it should have.
    pub(super) wish: String,
    /// Its fields. A text that begins with [`SECRET_FILE`] becomes the name of a file.
    pub(super) fields: Fields,
    /// The literal secrets, which tell accounts apart and are written nowhere.
    pub(super) literals: Vec<String>,
    /// True if no other entry may share the account.
    pub(super) is_own: bool,
}

/// The beginning of a text that stands for a file with a secret; the rest is the end of its name.
pub(super) const SECRET_FILE: char = '\u{1}';

/// An account with all that it is made of. Findings about what is not written stand at the entry.
pub(super) struct Drafting<'d, 'a> {
    pub(super) row: &'static ProviderRow,
    pub(super) entry: &'d mut Entry<'a>,
    pub(super) world: &'d World<'a>,
    pub(super) draft: Draft,
}

impl<'a> Drafting<'_, 'a> {
    pub(super) fn take(&mut self, field: &str) -> Option<Spot<'a>> {
        self.entry.params.remove(field)
    }

    /// Takes the first of these fields that is written.
    pub(super) fn take_first(&mut self, fields: &[&str]) -> Option<Spot<'a>> {
        fields.iter().find_map(|field| self.take(field))
    }

    pub(super) fn set(&mut self, field: &str, value: impl Into<New>) {
        self.draft.fields.set(field, value);
    }

    /// Returns the environment variable that is named, or a file to be made. The secret itself is
    /// never written.
    pub(super) fn secret(&mut self, spot: &Spot<'_>, end: &str) -> New {
        let text = spot.text().unwrap_or_default();
        if let Some(name) = variable_of(text) {
            spot.exact();
            return env_reference(name);
        }
        spot.manual("is the secret itself: write it into the file that is named here");
        self.draft.literals.push(text.to_owned());
        secret_file(end)
    }
}

pub(super) fn env_reference(name: &str) -> New {
    New::map([("env", New::text(name))])
}

pub(super) fn secret_file(end: &str) -> New {
    New::map([("file", New::text(format!("{SECRET_FILE}{end}")))])
}

/// Puts the names of files into an account that has its name now. Adds the secrets that it needs.
pub(super) fn name_files(value: &mut New, account: &str, needed: &mut Vec<String>) {
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
