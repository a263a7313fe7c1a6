//! Counts the text and the media in a chat request's messages.

use crate::front::chat::references::{may_refer, may_refer_in_message};
use crate::front::reading::count::{ReadTotals, each_element, each_member, each_message_member};
use crate::front::reading::media::{self, MediaKind};
use crate::wire::json::{self, Cursor, Kind, ScanResult};

/// Consumes a message, counts its content, and returns whether it is a user's.
pub(super) fn scan_message(cursor: &mut Cursor<'_>, totals: &mut ReadTotals) -> ScanResult<bool> {
    each_message_member(cursor, totals, |cursor, name, totals| match name {
        b"content" if cursor.kind()? == Kind::Array => each_element(cursor, totals, scan_part),
        b"content" => {
            totals.may_refer |= cursor.kind()? == Kind::Object;
            totals.count_text(cursor)
        }
        b"tool_calls" => each_element(cursor, totals, |cursor, totals| {
            each_member(cursor, totals, |cursor, name, totals| match name {
                b"function" | b"custom" => scan_call(cursor, totals),
                _ => totals.count_other(cursor),
            })
        }),
        b"function_call" => scan_call(cursor, totals),
        name => {
            totals.may_refer |= may_refer_in_message(name)
                && matches!(cursor.kind()?, Kind::Array | Kind::Object | Kind::String);
            totals.count_other(cursor)
        }
    })
}

/// Consumes a part of a message's content. Its type may come last.
pub(crate) fn scan_part(cursor: &mut Cursor<'_>, totals: &mut ReadTotals) -> ScanResult<()> {
    // The kind that the part's `type` names. Only a member of that kind is read by a model.
    let mut type_kind = None;
    // The last member of each kind.
    let mut media = [None; MediaKind::ALL.len()];
    each_member(cursor, totals, |cursor, name, totals| {
        totals.may_refer |= may_refer(name);
        match (name, MediaKind::from_name(name)) {
            (b"type", _) => {
                let span = cursor.value()?;
                type_kind = json::text_of(cursor.text(), &span)
                    .and_then(|name| MediaKind::from_name(name.as_bytes()));
                Ok(())
            }
            (b"text", _) => totals.count_text(cursor),
            (_, Some(media_kind)) => {
                let medium = media::read_medium(cursor, media_kind)?;
                // Of several members of a kind the last one is taken; the others count by their
                // bytes.
                let slot = media.get_mut(media_kind as usize);
                if let Some((_, before)) = slot.and_then(|slot| slot.replace((media_kind, medium)))
                {
                    totals.other_bytes += before.bytes;
                }
                Ok(())
            }
            (_, None) => totals.count_other(cursor),
        }
    })?;
    for (media_kind, medium) in media.into_iter().flatten() {
        if type_kind == Some(media_kind) {
            totals.count_medium(medium);
        } else {
            totals.other_bytes += medium.bytes;
        }
    }
    Ok(())
}

/// Consumes the member of a tool call that is named after the call's type (`function` or `custom`),
/// and counts its arguments.
fn scan_call(cursor: &mut Cursor<'_>, totals: &mut ReadTotals) -> ScanResult<()> {
    each_member(cursor, totals, |cursor, name, totals| {
        if matches!(name, b"arguments" | b"input") {
            totals.count_text(cursor)
        } else {
            totals.count_other(cursor)
        }
    })
}
