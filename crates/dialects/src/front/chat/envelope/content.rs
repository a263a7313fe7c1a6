//! What a model reads of a request's messages, counted as they are passed over: text, media, and
//! what may refer to something elsewhere.

use super::super::media::{self, MediaPlace, Medium};
use crate::front::chat::references::{is_plain, is_plain_in_message};
use crate::neutral::usage;
use crate::wire::json::{self, Broken, Cursor, Kind};

/// What a model may read.
#[derive(Default)]
pub(super) struct Read {
    /// UTF-8 bytes of text.
    pub(super) text: usize,
    /// Bytes of what else it reads.
    pub(super) more: usize,
    /// Bytes of base64 that are left out.
    base64: usize,
    /// Tokens that media stand for.
    pub(super) tokens: usize,
    /// It may refer to something that is not in the body.
    pub(super) refers: bool,
}

impl Read {
    /// Settings are shorter; what is longer may be a text that some upstream reads.
    const SETTING: usize = 64;

    /// Consumes any value, and counts it if it is a text.
    fn text(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Broken> {
        if cursor.kind()? != Kind::String {
            return self.other(cursor);
        }
        self.text += cursor.text_len()?;
        Ok(())
    }

    /// Consumes a value of which nobody knows whether a model reads it.
    pub(super) fn other(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Broken> {
        let bytes = cursor.value()?.len();
        if bytes > Self::SETTING {
            self.more += bytes;
        }
        Ok(())
    }

    /// Counts what stands for something by its kind and size, if its part is of that type.
    fn medium(&mut self, medium: Medium, is_of_type: bool) {
        if is_of_type {
            self.base64 += medium.base64;
            self.tokens = self.tokens.saturating_add(usize::try_from(medium.tokens).unwrap_or(usize::MAX));
        } else {
            self.more += medium.bytes;
        }
    }

    /// In a body of so many bytes.
    pub(super) fn most(&self, bytes: usize) -> u64 {
        let number = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
        usage::estimate(number(bytes.saturating_sub(self.base64))).saturating_add(number(self.tokens))
    }
}

/// Consumes a message, counts what is in it, and finds out whether it is a user's.
pub(super) fn message(cursor: &mut Cursor<'_>, is_users: &mut bool, read: &mut Read) -> Result<(), Broken> {
    members(cursor, read, |cursor, name, read| match name {
        b"role" => {
            let role = cursor.value()?;
            *is_users = json::slice(cursor.text(), &role) == br#""user""#;
            Ok(())
        }
        b"content" if cursor.kind()? == Kind::Array => elements(cursor, read, part),
        b"content" => {
            read.refers |= cursor.kind()? == Kind::Object;
            read.text(cursor)
        }
        b"tool_calls" => elements(cursor, read, |cursor, read| {
            members(cursor, read, |cursor, name, read| match name {
                b"function" | b"custom" => call(cursor, read),
                _ => read.other(cursor),
            })
        }),
        b"function_call" => call(cursor, read),
        name => {
            read.refers |= !is_plain_in_message(name) && matches!(cursor.kind()?, Kind::Array | Kind::Object);
            read.other(cursor)
        }
    })
}

/// Consumes a part of a message's content. Its type may come last.
fn part(cursor: &mut Cursor<'_>, read: &mut Read) -> Result<(), Broken> {
    let mut of_type = None;
    let mut media = [None; 3];
    members(cursor, read, |cursor, name, read| {
        read.refers |= !is_plain(name);
        match (name, MediaPlace::of(name)) {
            (b"type", _) => {
                let span = cursor.value()?;
                of_type = json::text_of(cursor.text(), &span).and_then(|name| MediaPlace::of(name.as_bytes()));
                Ok(())
            }
            (b"text", _) => read.text(cursor),
            (_, Some(place)) => {
                let medium = media::read(cursor, place)?;
                // Of several the last one is taken, and the others count by their bytes.
                if let Some(Some(before)) = media.get_mut(place as usize).map(|held| held.replace((place, medium))) {
                    read.medium(before.1, false);
                }
                Ok(())
            }
            (_, None) => read.other(cursor),
        }
    })?;
    media.iter().flatten().for_each(|(place, medium)| read.medium(*medium, of_type == Some(*place)));
    Ok(())
}

/// Consumes what a tool call holds under its type's name, and counts its arguments.
fn call(cursor: &mut Cursor<'_>, read: &mut Read) -> Result<(), Broken> {
    members(
        cursor,
        read,
        |cursor, name, read| {
            if matches!(name, b"arguments" | b"input") { read.text(cursor) } else { read.other(cursor) }
        },
    )
}

/// Consumes any value, member by member if it is an object.
fn members<'a>(
    cursor: &mut Cursor<'a>,
    read: &mut Read,
    mut each: impl FnMut(&mut Cursor<'a>, &[u8], &mut Read) -> Result<(), Broken>,
) -> Result<(), Broken> {
    if cursor.kind()? != Kind::Object {
        return read.other(cursor);
    }
    cursor.object(|cursor, key| {
        let name = json::name_of(cursor.text(), &key);
        each(cursor, &name, read)
    })?;
    Ok(())
}

/// Consumes any value, element by element if it is an array.
fn elements<'a>(
    cursor: &mut Cursor<'a>,
    read: &mut Read,
    mut each: impl FnMut(&mut Cursor<'a>, &mut Read) -> Result<(), Broken>,
) -> Result<(), Broken> {
    if cursor.kind()? != Kind::Array {
        return read.other(cursor);
    }
    cursor.array(|cursor, _| each(cursor, read))?;
    Ok(())
}
