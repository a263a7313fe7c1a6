//! A pattern is the part of a chunk that does not change from one chunk to the next. Usually that
//! is everything but the text.
//!
//! Most chunks of a stream repeat the one before byte for byte, except for one string. The first
//! such chunk is read, judged and edited in full. The bytes around its text are then kept, both as
//! they came and as they were written. A later chunk with these bytes around its text is written
//! without reading them again. The result does not differ, because these bytes decide everything
//! except the length of the text.

use memchr::memmem;

use super::filled_literal;
use super::shape::{Member, Shape};
use crate::upstream::shared::repeat::RepeatPattern;
use crate::wire::json::{Kind, Span, span_bytes};

/// The bytes around the last chunk's text, as they come and as they are written.
#[derive(Debug)]
pub(super) struct Pattern {
    repeat: RepeatPattern,
    shown: Vec<Vec<u8>>,
    /// The budget for learning. Learning costs as much as reading, so it must pay.
    credit: u8,
}

/// A chunk with placeholders in place of the strings that change.
pub(super) struct Probe {
    pub(super) text: Vec<u8>,
    reads: Vec<Vec<u8>>,
    text_at: usize,
}

impl Probe {
    /// Returns the number of bytes that the placeholder of the text adds. If the chunk adds a
    /// different number, later chunks would be counted wrongly.
    pub(super) fn added_bytes(&self) -> u64 {
        // The length without the quotes. The placeholder has no escapes.
        HOLES
            .get(self.text_at)
            .map_or(0, |hole| hole.len() as u64 - 2)
    }
}

/// The placeholders.
const HOLES: [&[u8]; 2] = [
    br#""portcullis: here goes string 1""#,
    br#""portcullis: here goes string 2""#,
];
/// The longest chunk that is learned. A longer one is not typical.
const MAX_LEARNT: usize = 2 * 1024;
const COST: u8 = 4;
const MAX_CREDIT: u8 = 32;

impl Default for Pattern {
    fn default() -> Self {
        Self {
            repeat: RepeatPattern::default(),
            shown: Vec::new(),
            credit: MAX_CREDIT / 2,
        }
    }
}

impl Pattern {
    /// Writes a chunk if it fits the pattern. Returns the literal of its text, and the number of
    /// UTF-8 bytes in that text.
    pub(super) fn follow<'a>(
        &mut self,
        data: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Option<(&'a [u8], usize)> {
        let strings = self.repeat.strings(data)?;
        let (first, others) = self.shown.split_first()?;
        out.reserve(data.len() + first.len());
        out.extend_from_slice(first);
        for ((string, _), part) in strings.iter().zip(others) {
            out.extend_from_slice(string);
            out.extend_from_slice(part);
        }
        self.credit = MAX_CREDIT.min(self.credit + 1);
        strings.get(self.repeat.text_at).copied()
    }

    /// Drops the pattern, because an event came that may change the meaning of its bytes.
    pub(super) fn forget(&mut self) {
        self.repeat.forget();
    }

    /// Returns the chunk to learn from. Returns `None` if this chunk is not of a kind that may come
    /// again, or if learning does not pay.
    pub(super) fn probe(&mut self, text: &[u8], shape: &Shape) -> Option<Probe> {
        if self.credit < COST || text.len() > MAX_LEARNT {
            return None;
        }
        let mut holes = vec![(changing_text(text, shape)?, true)];
        self.credit -= COST;
        if let Some(padding) = &shape.obfuscation
            && padding.kind(text) == Kind::String
        {
            holes.push((padding.value.clone(), false));
        }
        holes.sort_by_key(|(span, _)| span.start);

        let mut probe = Probe {
            text: Vec::new(),
            reads: Vec::new(),
            text_at: holes.iter().position(|(_, is_text)| *is_text)?,
        };
        let mut offset = 0;
        for ((span, _), hole) in holes.iter().zip(HOLES) {
            let before = span_bytes(text, &(offset..span.start));
            probe.reads.push(before.to_vec());
            probe.text.extend_from_slice(before);
            probe.text.extend_from_slice(hole);
            offset = span.end;
        }
        let last = span_bytes(text, &(offset..text.len()));
        probe.reads.push(last.to_vec());
        probe.text.extend_from_slice(last);
        let is_clear = HOLES.iter().all(|hole| memmem::find(text, hole).is_none());
        is_clear.then_some(probe)
    }

    /// Learns the pattern from the probe and from the output for it.
    pub(super) fn learn(&mut self, probe: Probe, written: &[u8]) {
        // No placeholder comes after the last fixed part.
        let holes = HOLES
            .get(..probe.reads.len().saturating_sub(1))
            .unwrap_or_default();
        // The output has more than the chunk. For example, a first id may look like a placeholder.
        if holes
            .iter()
            .any(|hole| memmem::find_iter(written, hole).count() != 1)
        {
            return;
        }
        let mut shown = Vec::new();
        let mut rest = written;
        for hole in holes {
            let position = memmem::find(rest, hole);
            let Some((before, after)) = position.and_then(|place| rest.split_at_checked(place))
            else {
                return;
            };
            shown.push(before.to_vec());
            rest = after.get(hole.len()..).unwrap_or_default();
        }
        shown.push(rest.to_vec());
        self.shown = shown;
        self.repeat = RepeatPattern::new(probe.reads, probe.text_at);
    }
}

/// Returns the place of a chunk's only text, if a chunk with another text and equal other bytes
/// could follow. This is so if only the text adds to the state of the stream.
fn changing_text(text: &[u8], shape: &Shape) -> Option<Span> {
    let [entry] = shape.list.as_slice() else {
        return None;
    };
    let body = entry.delta.as_ref()?;
    let has_usage = is_set(text, &shape.usage) || shape.x_groq.is_some() || entry.usage.is_some();
    let has_end = is_set(text, &entry.finish) || entry.message.is_some();
    // Which of the two fields of thinking stays depends on the text in both.
    let has_both = body.thinking.has_reasoning && body.thinking.has_reasoning_content;
    if has_usage || has_end || has_both || body.has_lists || body.is_special {
        return None;
    }
    // A list of parts is taken once, and not again for the pattern.
    if body.parts_of_content(text).is_some() {
        return None;
    }
    match shape.calls.get(body.call_range.clone()).unwrap_or_default() {
        [] => body.only_text.clone(),
        [call]
            if body.texts == 0
                && call.id.is_none()
                && call.kind.is_none()
                && call.name.is_none() =>
        {
            let arguments = call.arguments.as_ref()?.value.clone();
            filled_literal(text, &arguments).map(|_| arguments)
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
impl Pattern {
    /// Returns a pattern that never learns.
    pub(super) fn off() -> Self {
        Self {
            credit: 0,
            ..Self::default()
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.repeat.is_known()
    }
}
