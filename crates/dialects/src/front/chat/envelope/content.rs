//! What a model reads of a chat request's messages.

use crate::front::chat::references::{is_plain, is_plain_in_message};
use crate::front::reading::count::{Read, elements, members, spoken};
use crate::front::reading::media::{self, MediaPlace};
use crate::wire::json::{self, Broken, Cursor, Kind};

/// Consumes a message, counts what is in it, and returns whether it is a user's.
pub(super) fn message(cursor: &mut Cursor<'_>, read: &mut Read) -> Result<bool, Broken> {
    spoken(cursor, read, |cursor, name, read| match name {
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
            read.refers |= !is_plain_in_message(name)
                && matches!(cursor.kind()?, Kind::Array | Kind::Object | Kind::String);
            read.other(cursor)
        }
    })
}

/// Consumes a part of a message's content. Its type may come last.
pub(in crate::front) fn part(cursor: &mut Cursor<'_>, read: &mut Read) -> Result<(), Broken> {
    let mut of_type = None;
    let mut media = [None; 3];
    members(cursor, read, |cursor, name, read| {
        read.refers |= !is_plain(name);
        match (name, MediaPlace::of(name)) {
            (b"type", _) => {
                let span = cursor.value()?;
                of_type = json::text_of(cursor.text(), &span)
                    .and_then(|name| MediaPlace::of(name.as_bytes()));
                Ok(())
            }
            (b"text", _) => read.text(cursor),
            (_, Some(place)) => {
                let medium = media::read(cursor, place)?;
                // Of several the last one is taken, and the others count by their bytes.
                if let Some(Some(before)) = media
                    .get_mut(place as usize)
                    .map(|held| held.replace((place, medium)))
                {
                    read.medium(before.1, false);
                }
                Ok(())
            }
            (_, None) => read.other(cursor),
        }
    })?;
    media
        .iter()
        .flatten()
        .for_each(|(place, medium)| read.medium(*medium, of_type == Some(*place)));
    Ok(())
}

/// Consumes what a tool call holds under its type's name, and counts its arguments.
fn call(cursor: &mut Cursor<'_>, read: &mut Read) -> Result<(), Broken> {
    members(cursor, read, |cursor, name, read| {
        if matches!(name, b"arguments" | b"input") {
            read.text(cursor)
        } else {
            read.other(cursor)
        }
    })
}
