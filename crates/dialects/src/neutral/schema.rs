//! A node is a JSON value of a schema, with the values in it. This module reads a JSON Schema into
//! nodes.
//!
//! Numbers, names and values keep their text and their order, because a model answers in the order
//! of the properties. The meaning of a keyword is left to the code that writes the schema for a
//! provider.

use std::borrow::Cow;

use crate::wire::json::{Broken, Cursor, Kind, ScanResult, text_of};

/// The most values of a schema. A value takes some hundred bytes here, and of a caller's body it
/// may be two.
const MAX_VALUES: usize = 1 << 17;

/// A value that was read: its text, and the values in it. The members of an object have names.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    /// The text.
    pub(crate) text: &'a str,
    /// The members of an object, or the elements of an array, which have empty names.
    pub(crate) children: Vec<(Cow<'a, str>, Node<'a>)>,
}

impl<'a> Node<'a> {
    /// Reads one whole value, unless it has too many values in it. The depth has the scanner's
    /// limit.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        Self::read_next(&mut Cursor::new(text.as_bytes()), text, &mut 0).ok()
    }

    fn read_next(cursor: &mut Cursor<'a>, all: &'a str, count: &mut usize) -> ScanResult<Self> {
        *count += 1;
        if *count > MAX_VALUES {
            return Err(Broken {
                offset: cursor.offset(),
                why: "too many values",
            });
        }
        let mut children = Vec::new();
        let span = match cursor.kind()? {
            Kind::Object => cursor.object(|cursor, key| {
                children.push((
                    text_of(all.as_bytes(), &key).unwrap_or_default(),
                    Self::read_next(cursor, all, count)?,
                ));
                Ok(())
            }),
            Kind::Array => cursor.array(|cursor, _| {
                children.push((Cow::Borrowed(""), Self::read_next(cursor, all, count)?));
                Ok(())
            }),
            Kind::String | Kind::Number | Kind::Bool | Kind::Null => cursor.value(),
        }?;
        Ok(Self {
            text: all.get(span).unwrap_or_default(),
            children,
        })
    }

    /// Returns whether the value is an object.
    pub(crate) fn is_object(&self) -> bool {
        self.text.starts_with('{')
    }

    /// Returns whether the value is an array.
    pub(crate) fn is_array(&self) -> bool {
        self.text.starts_with('[')
    }

    /// Returns whether the value is `true` or `false`.
    pub(crate) fn is_bool(&self) -> bool {
        matches!(self.text, "true" | "false")
    }

    /// Returns the first member of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Node<'a>> {
        self.children
            .iter()
            .find_map(|(member, value)| (member == name).then_some(value))
    }

    /// Returns the last member of this name.
    pub(crate) fn last(&self, name: &str) -> Option<&Node<'a>> {
        self.children
            .iter()
            .rev()
            .find_map(|(member, value)| (member == name).then_some(value))
    }

    /// Returns the elements of an array.
    pub(crate) fn elements(&self) -> impl Iterator<Item = &Node<'a>> {
        self.children.iter().map(|(_, element)| element)
    }
}

/// The names of an object's members, and the texts of their values.
pub(crate) type Members<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// Reads the names and values of an object.
pub(crate) fn read_members(object: &str) -> Option<Members<'_>> {
    let text = object.as_bytes();
    let mut members = Vec::new();
    let read = Cursor::new(text).members(|key, value| {
        members.push((
            text_of(text, &key).unwrap_or_default(),
            object.get(value).unwrap_or_default(),
        ));
    });
    read.ok().map(|_| members)
}

/// Returns the value of the first member of this name.
pub(crate) fn find_member<'a>(members: &Members<'a>, name: &str) -> Option<&'a str> {
    members
        .iter()
        .find_map(|(member, value)| (member == name).then_some(*value))
}

/// Returns the value of the last member of this name.
pub(crate) fn find_last<'a>(members: &Members<'a>, name: &str) -> Option<&'a str> {
    let mut members = members.iter().rev();
    members.find_map(|(member, value)| (member == name).then_some(*value))
}

/// Returns the text of a literal if it is a string.
pub(crate) fn string_value(value: &str) -> Option<Cow<'_, str>> {
    text_of(value.as_bytes(), &(0..value.len()))
}
