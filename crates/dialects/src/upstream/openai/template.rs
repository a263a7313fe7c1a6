//! A template is the part of a chunk that does not change from one chunk to the next. Usually that
//! is everything but the text.
//!
//! Most chunks of a stream repeat the one before byte for byte, except for one string. The first
//! such chunk is read, judged and edited in full. The bytes around its text are then kept, both as
//! they came and as they were written. A later chunk with these bytes around its text is written
//! without reading them again. The result does not differ, because these bytes decide everything
//! except the length of the text.

use memchr::memmem;

use super::scan::{Member, Scan};
use crate::upstream::shared::repeat::FixedParts;
use crate::wire::json::{Kind, Span, span_bytes};

/// The bytes around the last chunk's text, as they come and as they are written.
#[derive(Debug)]
pub(super) struct Template {
    parts_read: FixedParts,
    parts_written: Vec<Vec<u8>>,
    /// The budget for learning. Learning costs as much as reading, so it must pay.
    credit: u8,
}

/// A chunk with placeholders in place of the strings that change.
pub(super) struct Probe {
    pub(super) text: Vec<u8>,
    fixed: FixedParts,
}

impl Probe {
    /// Returns the number of bytes of the text's placeholder. If the chunk adds a different number,
    /// later chunks would be counted wrongly.
    pub(super) fn placeholder_bytes(&self) -> u64 {
        // The length without the quotes. The placeholder has no escapes.
        PLACEHOLDERS
            .get(self.fixed.text_index)
            .map_or(0, |placeholder| placeholder.len() as u64 - 2)
    }
}

/// The placeholders.
const PLACEHOLDERS: [&[u8]; 2] = [
    br#""portcullis: here goes string 1""#,
    br#""portcullis: here goes string 2""#,
];
/// The longest chunk that is learned. A longer one is not typical.
const MAX_LEARNED: usize = 2 * 1024;
const COST: u8 = 4;
const MAX_CREDIT: u8 = 32;

impl Default for Template {
    fn default() -> Self {
        Self {
            parts_read: FixedParts::default(),
            parts_written: Vec::new(),
            credit: MAX_CREDIT / 2,
        }
    }
}

impl Template {
    /// Writes a chunk if it fits the template. Returns the literal of its text, and the number of
    /// UTF-8 bytes in that text.
    pub(super) fn write_fitting<'a>(
        &mut self,
        data: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Option<(&'a [u8], usize)> {
        let strings = self.parts_read.match_strings(data)?;
        let (first, others) = self.parts_written.split_first()?;
        out.reserve(data.len() + first.len());
        out.extend_from_slice(first);
        for ((string, _), part) in strings.iter().zip(others) {
            out.extend_from_slice(string);
            out.extend_from_slice(part);
        }
        self.credit = MAX_CREDIT.min(self.credit + 1);
        strings.get(self.parts_read.text_index).copied()
    }

    /// Drops the template, because an event came that may change the meaning of its bytes.
    pub(super) fn forget(&mut self) {
        self.parts_read.forget();
    }

    /// Returns the chunk to learn from. Returns `None` if this chunk is not of a kind that may come
    /// again, or if learning does not pay.
    pub(super) fn probe(&mut self, text: &[u8], scan: &Scan) -> Option<Probe> {
        if self.credit < COST || text.len() > MAX_LEARNED {
            return None;
        }
        let mut places = vec![changing_text(text, scan)?];
        self.credit -= COST;
        if let Some(padding) = &scan.obfuscation
            && padding.kind(text) == Kind::String
        {
            places.push(padding.value.clone());
        }
        let fixed = FixedParts::between(text, &mut places);
        // No placeholder comes after the last part.
        let placeholders = PLACEHOLDERS
            .into_iter()
            .take(places.len())
            .chain([&b""[..]]);
        let mut probe = Vec::new();
        for (part, placeholder) in fixed.parts.iter().zip(placeholders) {
            probe.extend_from_slice(part);
            probe.extend_from_slice(placeholder);
        }
        let is_clear = PLACEHOLDERS
            .iter()
            .all(|placeholder| memmem::find(text, placeholder).is_none());
        is_clear.then_some(Probe { text: probe, fixed })
    }

    /// Learns the template from the probe and from the output for it.
    pub(super) fn learn(&mut self, probe: Probe, written: &[u8]) {
        // No placeholder comes after the last fixed part.
        let placeholders = PLACEHOLDERS
            .get(..probe.fixed.parts.len().saturating_sub(1))
            .unwrap_or_default();
        // The output has more than the chunk. For example, a first id may look like a placeholder.
        if placeholders
            .iter()
            .any(|placeholder| memmem::find_iter(written, placeholder).count() != 1)
        {
            return;
        }
        let mut parts_written = Vec::new();
        let mut rest = written;
        for placeholder in placeholders {
            let position = memmem::find(rest, placeholder);
            let Some((before, after)) = position.and_then(|place| rest.split_at_checked(place))
            else {
                return;
            };
            parts_written.push(before.to_vec());
            rest = after.get(placeholder.len()..).unwrap_or_default();
        }
        parts_written.push(rest.to_vec());
        self.parts_written = parts_written;
        self.parts_read = probe.fixed;
    }
}

/// Returns the place of a chunk's only text, if a chunk with another text and equal other bytes
/// could follow. This is so if only the text adds to the state of the stream.
fn changing_text(text: &[u8], scan: &Scan) -> Option<Span> {
    let [entry] = scan.entries.as_slice() else {
        return None;
    };
    let body = entry.delta.as_ref()?;
    let has_usage = is_set(text, &scan.usage) || scan.x_groq.is_some() || entry.usage.is_some();
    let has_end = is_set(text, &entry.finish) || entry.message.is_some();
    // Which of the two fields of thinking stays depends on the text in both.
    let has_both = body.thinking.has_reasoning && body.thinking.has_reasoning_content;
    if has_usage || has_end || has_both || body.has_lists || body.has_rare_member {
        return None;
    }
    // A list of parts is taken once, and not again for the template.
    if body.parts_of_content(text).is_some() {
        return None;
    }
    match scan.calls.get(body.call_range.clone()).unwrap_or_default() {
        [] => body.only_text.clone(),
        [call]
            if body.text_count == 0
                && call.id.is_none()
                && call.kind.is_none()
                && call.name.is_none() =>
        {
            let arguments = call.arguments.as_ref()?;
            arguments.nonempty_literal(text)?;
            Some(arguments.value.clone())
        }
        _ => None,
    }
}

fn is_set(text: &[u8], member: &Option<Member>) -> bool {
    let value = member
        .as_ref()
        .map(|member| span_bytes(text, &member.value));
    value.is_some_and(|value| value != b"null")
}

#[cfg(test)]
impl Template {
    /// Returns a template that never learns.
    pub(super) fn off() -> Self {
        Self {
            credit: 0,
            ..Self::default()
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.parts_read.is_known()
    }
}
