//! The names of unknown fields. Their values are lost, and the caller learns that.

use std::borrow::Cow;

use super::value::{Name, ReadResult, Value};
use crate::neutral::Raw;

/// More names than this are `other`: they come from the caller, and go into logs.
const MAX_NAMES: usize = 64;

impl<'a> Value<'_, 'a> {
    /// Consumes a field of a message, and notes its name unless it is empty.
    pub(crate) fn note_lost(
        self,
        others: &mut Vec<Name<'a>>,
        prefix: &str,
        name: &Name<'a>,
    ) -> ReadResult<()> {
        if self.read_is_filled()? {
            note_name(others, prefix, name);
        }
        Ok(())
    }

    /// Consumes a field inside a top-level one, and notes it with its value unless it is empty.
    pub(crate) fn note_lost_value(
        mut self,
        others: &mut Vec<(Name<'a>, Raw<'a>)>,
        prefix: &str,
        name: &Name<'a>,
    ) -> ReadResult<()> {
        let raw = self.peek_raw()?;
        if self.read_is_filled()? {
            note_value(others, format!("{prefix}{name}"), raw);
        }
        Ok(())
    }
}

/// Notes the name of a message's field.
pub(crate) fn note_name<'a>(others: &mut Vec<Name<'a>>, prefix: &str, name: &Name<'a>) {
    if others.len() >= MAX_NAMES || others.iter().any(|noted| is_same_name(noted, prefix, name)) {
        return;
    }
    others.push(match prefix {
        _ if others.len() + 1 == MAX_NAMES => Cow::Borrowed("other"),
        "" => name.clone(),
        _ => Cow::Owned(format!("{prefix}{name}")),
    });
}

/// Notes a lost field, with its value.
pub(crate) fn note_value<'a>(
    others: &mut Vec<(Name<'a>, Raw<'a>)>,
    name: impl Into<Name<'a>>,
    raw: Raw<'a>,
) {
    let name = name.into();
    if others.len() < MAX_NAMES && !others.iter().any(|(noted, _)| *noted == name) {
        others.push((name, raw));
    }
}

fn is_same_name(noted: &str, prefix: &str, name: &str) -> bool {
    noted.strip_prefix(prefix) == Some(name)
}

/// The values that clients write out although they are the default. A field with its default value
/// counts as absent.
pub(crate) struct Defaults {
    /// The default values of all fields.
    pub(crate) of_all: &'static [&'static str],
    /// The default values of some fields.
    pub(crate) of_fields: &'static [(&'static str, &'static str)],
}

impl Defaults {
    /// Returns whether a field has its default value.
    pub(crate) fn hold(&self, name: &str, value: Raw<'_>) -> bool {
        self.of_all.contains(&value.0) || self.of_fields.contains(&(name, value.0))
    }

    /// Reads a field that is not known here, and notes it unless it has its default value.
    pub(crate) fn note_unknown<'a>(
        &self,
        others: &mut Vec<(Name<'a>, Raw<'a>)>,
        name: &Name<'a>,
        value: Value<'_, 'a>,
    ) -> ReadResult<()> {
        let raw = value.raw()?;
        if !self.hold(name, raw) {
            others.push((name.clone(), raw));
        }
        Ok(())
    }
}
