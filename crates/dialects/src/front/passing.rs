//! What passes of one format to an account of the same format: the parts that several front doors
//! share.

use crate::neutral::seal::is_sealed;
use crate::wire::json::{Broken, Cursor, Span, name_of};
use crate::wire::splice::Edits;

/// Returns whether a signature that a caller sends back means something to the provider. It means
/// nothing if it is empty, or sealed by a gateway.
pub(super) fn is_signed(signature: &str) -> bool {
    !signature.is_empty() && !is_sealed(signature)
}

/// Consumes an object, and replaces the member of this name.
pub(super) fn replace_member(
    cursor: &mut Cursor<'_>,
    name: &str,
    with: &str,
    edits: &mut Edits<'_>,
) -> Result<Span, Broken> {
    let text = cursor.text();
    cursor.maybe_members(|key, value| {
        if *name_of(text, &key) == *name.as_bytes() {
            edits.replace(value, with.as_bytes().to_vec());
        }
    })
}

/// Appends an event's data after the edits, on one line: between its values JSON may have line
/// ends.
pub(super) fn append_line(mut edits: Edits<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    edits.apply_into(out);
    let written = out.get_mut(start..).unwrap_or_default();
    if memchr::memchr2(b'\n', b'\r', written).is_none() {
        return;
    }
    written.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
}
