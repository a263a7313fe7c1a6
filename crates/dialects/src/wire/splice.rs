//! An edit replaces, inserts or removes a part of a JSON text. Edits are gathered by span and
//! applied in one pass. Everything else stays byte for byte.
//!
//! The spans must come from one scan of this text. An edit inside a removed or replaced span is
//! dropped with it. New text is not checked; the code that adds it must make sure that it fits.

use std::borrow::Cow;

use bytes::Bytes;

use super::json::{Cursor, Span, name_of, span_bytes};

/// The size up to which one copy is cheaper than several parts.
pub(crate) const SHORT_BODY: usize = 64 * 1024;

/// Edits to one text, in any order.
#[derive(Debug)]
pub struct Edits<'e> {
    text: &'e [u8],
    list: Vec<Edit<'e>>,
    /// The most edits that are gathered.
    max_edits: usize,
}

#[derive(Debug)]
struct Edit<'e> {
    span: Span,
    kind: EditKind<'e>,
}

#[derive(Debug)]
enum EditKind<'e> {
    Replace(Cow<'e, [u8]>),
    /// Inserts a member. The span is empty and is just after the `{`.
    InsertMember(Cow<'e, [u8]>),
    /// Removes a member. The span reaches from the key to the end of the value; commas are found
    /// when the edit is applied.
    RemoveMember,
}

impl<'e> Edits<'e> {
    /// Returns an empty set of edits to this text.
    pub fn new(text: &'e [u8]) -> Self {
        Self::with_limit(text, usize::MAX)
    }

    /// Returns an empty set of edits. Edits beyond the first `max_edits` are dropped, and
    /// [`is_over`](Self::is_over) then returns true.
    pub fn with_limit(text: &'e [u8], max_edits: usize) -> Self {
        Self {
            text,
            list: Vec::new(),
            max_edits,
        }
    }

    /// Returns whether there were more edits than may be gathered.
    pub fn is_over(&self) -> bool {
        self.list.len() > self.max_edits
    }

    fn push(&mut self, span: Span, kind: EditKind<'e>) {
        if !self.is_over() {
            self.list.push(Edit { span, kind });
        }
    }

    /// Returns the text before the edits.
    pub fn text(&self) -> &'e [u8] {
        self.text
    }

    /// Replaces a span by `with`. If a span is replaced twice, the first replacement counts.
    pub fn replace(&mut self, span: Span, with: impl Into<Cow<'e, [u8]>>) {
        self.push(span, EditKind::Replace(with.into()));
    }

    /// Inserts a member (`"key":value`, without a comma) as the first one of the object whose `{`
    /// is at `open`. Several inserted members keep their order.
    pub fn insert_member(&mut self, open: usize, member: impl Into<Cow<'e, [u8]>>) {
        self.push(open + 1..open + 1, EditKind::InsertMember(member.into()));
    }

    /// Removes a member, and the comma that is then superfluous. Any set of an object's members may
    /// be removed.
    pub fn remove_member(&mut self, key: &Span, value: &Span) {
        self.push(key.start..value.end, EditKind::RemoveMember);
    }

    /// Appends the edited text to `out`. The edits stay, and may be applied again.
    pub fn apply_into(&mut self, out: &mut Vec<u8>) {
        let text = self.text;
        if self.list.is_empty() {
            return out.extend_from_slice(text);
        }
        out.reserve(text.len() + self.list.iter().map(Edit::added).sum::<usize>());
        self.apply(|part| match part {
            Part::Old(span) => out.extend_from_slice(span_bytes(text, &span)),
            Part::New(bytes) => out.extend_from_slice(bytes),
        });
    }

    /// Returns the edited text. Without an edit it is not copied.
    pub fn applied(mut self) -> Cow<'e, [u8]> {
        if self.list.is_empty() {
            return Cow::Borrowed(self.text);
        }
        let mut out = Vec::new();
        self.apply_into(&mut out);
        Cow::Owned(out)
    }

    /// Calls `put` with the edited text part by part, so that unchanged text need not be copied.
    pub fn apply(&mut self, mut put: impl FnMut(Part<'_>)) {
        let text = self.text;
        // The sort is stable, so insertions keep their order. An insertion comes before other edits
        // at its place.
        self.list.sort_by_key(|edit| {
            (
                edit.span.start,
                !matches!(edit.kind, EditKind::InsertMember(_)),
            )
        });

        let mut copied = 0;
        let mut edits = self.list.as_slice();
        while let Some((edit, later)) = edits.split_first() {
            edits = later;
            if edit.span.start < copied {
                continue;
            }
            match &edit.kind {
                EditKind::Replace(with) => {
                    put(Part::Old(copied..edit.span.start));
                    put(Part::New(with));
                    copied = edit.span.end;
                }
                EditKind::InsertMember(member) => {
                    put(Part::Old(copied..edit.span.start));
                    put(Part::New(member));
                    copied = edit.span.start;
                    if is_followed(text, copied, later) {
                        put(Part::New(b","));
                    }
                }
                EditKind::RemoveMember => {
                    let run = RemovedRun::from(text, edit, later);
                    let start = if run.is_last {
                        comma_before(text, edit.span.start)
                    } else {
                        edit.span.start
                    };
                    put(Part::Old(copied..start));
                    copied = run.end;
                }
            }
        }
        put(Part::Old(copied..text.len()));
    }

    /// Returns the edited text in parts, and the number of copied bytes. `body` is the text before
    /// the edits. Short parts are put together, since each part is sent by itself.
    pub fn parts(mut self, body: &Bytes) -> (Vec<Bytes>, usize) {
        const SHORT: usize = 4096;
        let is_short = body.len() <= SHORT_BODY;
        let max_copied = if is_short { SHORT_BODY } else { SHORT };
        let room = if is_short {
            body.len() + self.list.iter().map(Edit::added).sum::<usize>()
        } else {
            0
        };
        let mut parts = Vec::new();
        let mut short = Vec::with_capacity(room);
        let mut copied = 0;
        self.apply(|part| {
            let bytes = match &part {
                Part::Old(span) if span.len() > max_copied => {
                    parts.push(Bytes::from(std::mem::take(&mut short)));
                    return parts.push(body.slice(span.clone()));
                }
                Part::Old(span) => span_bytes(body, span),
                Part::New(bytes) => bytes,
            };
            copied += bytes.len();
            short.extend_from_slice(bytes);
        });
        parts.push(short.into());
        parts.retain(|part| !part.is_empty());
        (parts, copied)
    }
}

/// Returns an object without the members of these names.
pub fn without_members(object: &[u8], mut is_left_out: impl FnMut(&str) -> bool) -> Vec<u8> {
    let mut edits = Edits::new(object);
    let mut rest = Vec::new();
    // A value that is no object stays as it is.
    let _read = Cursor::new(object).maybe_members(|key, value| {
        if is_left_out(&String::from_utf8_lossy(&name_of(object, &key))) {
            edits.remove_member(&key, &value);
        }
    });
    edits.apply_into(&mut rest);
    rest
}

/// A part of an edited text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part<'a> {
    /// A span of the unedited text; it may be empty.
    Old(Span),
    /// New text.
    New(&'a [u8]),
}

impl Edit<'_> {
    fn added(&self) -> usize {
        match &self.kind {
            EditKind::Replace(with) => with.len(),
            EditKind::InsertMember(member) => member.len() + 1,
            EditKind::RemoveMember => 0,
        }
    }
}

/// A row of members that are all removed.
struct RemovedRun {
    /// The start of the next member, or the end of the last one.
    end: usize,
    /// True if no member follows.
    is_last: bool,
}

impl RemovedRun {
    /// Finds the row that begins with `first`. `later` has the edits after it, sorted.
    fn from(text: &[u8], first: &Edit<'_>, later: &[Edit<'_>]) -> Self {
        let mut removed = later
            .iter()
            .filter(|edit| matches!(edit.kind, EditKind::RemoveMember))
            .peekable();
        let mut end = first.span.end;
        loop {
            let comma = after_blank(text, end);
            if text.get(comma) != Some(&b',') {
                return Self { end, is_last: true };
            }
            let next = after_blank(text, comma + 1);
            while removed.next_if(|edit| edit.span.start < next).is_some() {}
            match removed.next_if(|edit| edit.span.start == next) {
                Some(member) => end = member.span.end,
                None => {
                    return Self {
                        end: next,
                        is_last: false,
                    };
                }
            }
        }
    }
}

/// Returns whether a member follows a member that was inserted just after a `{`. `later` has the
/// later edits, sorted.
fn is_followed(text: &[u8], open: usize, later: &[Edit<'_>]) -> bool {
    let first = after_blank(text, open);
    for (index, edit) in later.iter().enumerate() {
        match edit.kind {
            EditKind::InsertMember(_) if edit.span.start == open => return true,
            EditKind::RemoveMember if edit.span.start == first => {
                return !RemovedRun::from(text, edit, later.get(index + 1..).unwrap_or_default())
                    .is_last;
            }
            _ if edit.span.start > first => break,
            EditKind::Replace(_) | EditKind::InsertMember(_) | EditKind::RemoveMember => {}
        }
    }
    text.get(first) != Some(&b'}')
}

/// Returns the first place at or after `start` that is not white space.
fn after_blank(text: &[u8], start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    start
        + rest
            .iter()
            .position(|byte| !is_blank(*byte))
            .unwrap_or(rest.len())
}

/// Returns the place of the comma before the member at `member_start`, or `member_start` itself if
/// the member is the first one.
fn comma_before(text: &[u8], member_start: usize) -> usize {
    let before = text.get(..member_start).unwrap_or_default();
    match before.iter().rposition(|byte| !is_blank(*byte)) {
        Some(comma) if text.get(comma) == Some(&b',') => comma,
        Some(_) | None => member_start,
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

#[cfg(test)]
mod tests;
