//! This module writes a chunk as one event. It also edits the usage in the chunk, because the usage
//! is shown once and at the end.

use super::scan::Scan;
use crate::wire::json::span_bytes;
use crate::wire::splice::Edits;

/// Removes the usage from a chunk that is not the last one. A client would count it there, and
/// might miss the last one. If the caller asked for the usage, the member stays with the value
/// `null`.
pub(super) fn edit_usage(scan: &Scan, show_usage: bool, edits: &mut Edits<'_>) {
    let text = edits.text();
    if let Some(usage) = &scan.usage {
        match span_bytes(text, &usage.value) {
            b"null" if show_usage => {}
            _ if show_usage => edits.replace(usage.value.clone(), &b"null"[..]),
            _ => edits.remove_member(&usage.key, &usage.value),
        }
    } else if show_usage {
        edits.insert_member(scan.open, &br#""usage":null"#[..]);
    }
    if let Some(usage) = scan.groq_usage(text) {
        edits.remove_member(&usage.key, &usage.value);
    }
}

/// Appends one event. JSON that came over several lines is written on one.
pub(super) fn write_event(edits: &mut Edits<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    let start = out.len();
    edits.apply_into(out);
    let written = out.get_mut(start..).unwrap_or_default();
    if memchr::memchr2(b'\n', b'\r', written).is_some() {
        // Line ends can stand only between tokens here, because the scanner refuses them inside
        // strings.
        written
            .iter_mut()
            .filter(|byte| matches!(byte, b'\n' | b'\r'))
            .for_each(|byte| *byte = b' ');
    }
    out.extend_from_slice(b"\n\n");
}
