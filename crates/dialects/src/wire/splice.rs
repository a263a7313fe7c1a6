//! Edits to a JSON text, gathered by span and applied in one pass; everything outside them stays
//! byte for byte.
//!
//! The spans must come from one scan of the very text that is edited. An edit inside a removed or
//! replaced stretch goes with it. What is put in is not checked: the one who adds it answers for
//! it.

use std::borrow::Cow;

use super::json::{Span, slice};

/// Edits to one text, in any order.
#[derive(Debug)]
pub struct Edits<'e> {
    text: &'e [u8],
    list: Vec<Edit<'e>>,
}

#[derive(Debug)]
struct Edit<'e> {
    span: Span,
    what: What<'e>,
}

#[derive(Debug)]
enum What<'e> {
    Replace(Cow<'e, [u8]>),
    /// The span is empty and stands just after the `{`.
    InsertMember(Cow<'e, [u8]>),
    /// The span is from the key to the value's end; commas are found when it is applied.
    RemoveMember,
}

impl<'e> Edits<'e> {
    /// Returns a set without edits to this text.
    pub fn new(text: &'e [u8]) -> Self {
        Self { text, list: Vec::new() }
    }

    /// Returns the text as it was.
    pub fn text(&self) -> &'e [u8] {
        self.text
    }

    /// Puts `with` in the place of a span. Of two replacements of one span the first counts.
    pub fn replace(&mut self, span: Span, with: impl Into<Cow<'e, [u8]>>) {
        self.list.push(Edit { span, what: What::Replace(with.into()) });
    }

    /// Puts a member (`"key":value`, without a comma) first into the object whose `{` is at `open`.
    /// Several of them keep their order.
    pub fn insert_member(&mut self, open: usize, member: impl Into<Cow<'e, [u8]>>) {
        self.list.push(Edit { span: open + 1..open + 1, what: What::InsertMember(member.into()) });
    }

    /// Removes a member, with the comma that it leaves over. Any set of an object's members may go.
    pub fn remove_member(&mut self, key: &Span, value: &Span) {
        self.list.push(Edit { span: key.start..value.end, what: What::RemoveMember });
    }

    /// Appends the edited text to `out`. The edits stay and could be applied again.
    pub fn apply_into(&mut self, out: &mut Vec<u8>) {
        let text = self.text;
        out.reserve(text.len() + self.list.iter().map(Edit::added).sum::<usize>());
        self.apply(|part| match part {
            Part::Old(span) => out.extend_from_slice(slice(text, &span)),
            Part::New(bytes) => out.extend_from_slice(bytes),
        });
    }

    /// Gives the edited text part by part, so that what stays need not be copied.
    pub fn apply(&mut self, mut put: impl FnMut(Part<'_>)) {
        let text = self.text;
        // Stable: insertions keep their order. At one place they come before what stands there.
        self.list.sort_by_key(|edit| (edit.span.start, !matches!(edit.what, What::InsertMember(_))));

        let mut copied = 0;
        let mut edits = self.list.as_slice();
        while let Some((edit, later)) = edits.split_first() {
            edits = later;
            if edit.span.start < copied {
                continue;
            }
            match &edit.what {
                What::Replace(with) => {
                    put(Part::Old(copied..edit.span.start));
                    put(Part::New(with));
                    copied = edit.span.end;
                }
                What::InsertMember(member) => {
                    put(Part::Old(copied..edit.span.start));
                    put(Part::New(member));
                    copied = edit.span.start;
                    if is_followed(text, copied, later) {
                        put(Part::New(b","));
                    }
                }
                What::RemoveMember => {
                    let run = RemovedRun::from(text, edit, later);
                    let start = if run.is_last { comma_before(text, edit.span.start) } else { edit.span.start };
                    put(Part::Old(copied..start));
                    copied = run.end;
                }
            }
        }
        put(Part::Old(copied..text.len()));
    }
}

/// A part of an edited text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part<'a> {
    /// A span of the text as it was; it may be empty.
    Old(Span),
    /// What is put in.
    New(&'a [u8]),
}

impl Edit<'_> {
    fn added(&self) -> usize {
        match &self.what {
            What::Replace(with) => with.len(),
            What::InsertMember(member) => member.len() + 1,
            What::RemoveMember => 0,
        }
    }
}

/// Members in a row that are all removed.
struct RemovedRun {
    /// Where the next member begins, or where the last one ends.
    end: usize,
    /// Whether no member follows.
    is_last: bool,
}

impl RemovedRun {
    /// Finds the run that begins with `first`; `later` are the edits after it, sorted.
    fn from(text: &[u8], first: &Edit<'_>, later: &[Edit<'_>]) -> Self {
        let mut removed = later.iter().filter(|edit| matches!(edit.what, What::RemoveMember)).peekable();
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
                None => return Self { end: next, is_last: false },
            }
        }
    }
}

/// Returns whether what was put in just after a `{` has a member after it, given the later edits,
/// sorted.
fn is_followed(text: &[u8], open: usize, later: &[Edit<'_>]) -> bool {
    let first = after_blank(text, open);
    for (index, edit) in later.iter().enumerate() {
        match edit.what {
            What::InsertMember(_) if edit.span.start == open => return true,
            What::RemoveMember if edit.span.start == first => {
                return !RemovedRun::from(text, edit, later.get(index + 1..).unwrap_or_default()).is_last;
            }
            _ if edit.span.start > first => break,
            What::Replace(_) | What::InsertMember(_) | What::RemoveMember => {}
        }
    }
    text.get(first) != Some(&b'}')
}

/// Returns the first place from `at` on that is not white space.
fn after_blank(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().position(|byte| !is_blank(*byte)).unwrap_or(rest.len())
}

/// Returns where the comma before the member at `at` stands; `at` itself if it is the first member.
fn comma_before(text: &[u8], at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    match before.iter().rposition(|byte| !is_blank(*byte)) {
        Some(comma) if text.get(comma) == Some(&b',') => comma,
        Some(_) | None => at,
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

#[cfg(test)]
mod tests;
