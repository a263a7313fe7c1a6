//! A chunk on its way out, as one event; and the usage in it, which is shown once and at the end.

use super::shape::Shape;
use crate::wire::json::{Cursor, Span, slice};
use crate::wire::splice::Edits;

/// Takes usage out of a chunk that is not the last: it would be counted there, and the last one
/// lost. Where the caller asked for usage, the member is there and `null`.
pub(super) fn edit_usage(text: &[u8], shape: &Shape, show_usage: bool, edits: &mut Edits<'_>) {
    if let Some(usage) = &shape.usage {
        match slice(text, &usage.value) {
            b"null" if show_usage => {}
            _ if show_usage => edits.replace(usage.value.clone(), &b"null"[..]),
            _ => edits.remove_member(&usage.key, &usage.value),
        }
    } else if show_usage {
        edits.insert_member(shape.open, &br#""usage":null"#[..]);
    }
    if let Some((key, value)) = groq_usage(text, shape) {
        edits.remove_member(&key, &value);
    }
}

/// Key and value of the usage in Groq's `x_groq`.
pub(super) fn groq_usage(text: &[u8], shape: &Shape) -> Option<(Span, Span)> {
    let start = shape.x_groq.as_ref()?.value.start;
    let rest = text.get(start..)?;
    let mut found = None;
    let read = Cursor::new(rest).object(|cursor, key| {
        let value = cursor.value()?;
        if slice(rest, &key) == br#""usage""# {
            found = Some((key.start + start..key.end + start, value.start + start..value.end + start));
        }
        Ok(())
    });
    read.ok().and(found)
}

/// Appends one event; JSON that came over several lines goes out on one.
pub(super) fn write_event(text: &[u8], edits: &mut Edits<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    let start = out.len();
    edits.apply_into(text, out);
    let written = out.get_mut(start..).unwrap_or_default();
    if memchr::memchr2(b'\n', b'\r', written).is_some() {
        // Raw line ends stand only between tokens: the scanner refuses them inside strings.
        written.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    }
    out.extend_from_slice(b"\n\n");
}
