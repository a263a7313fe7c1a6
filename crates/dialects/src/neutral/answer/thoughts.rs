//! Signed thoughts must come back with the call that they led to. This module gathers them while
//! they pass.
//!
//! Providers want all thoughts of a turn back unchanged, or none. So thoughts that are too much to
//! keep are dropped as a whole, not in part.

use super::Kept;
use crate::neutral::Thought;

/// The most bytes of thoughts and signatures that an answer may leave behind.
pub(crate) const MAX_KEPT: usize = 1024 * 1024;

/// The thoughts of an answer's first choice, and the signatures of all calls.
#[derive(Debug, Default)]
pub(crate) struct Thoughts {
    /// The text of a thought that is not signed yet.
    text: String,
    /// The thoughts whose call has not come yet.
    pending: Vec<Thought<'static>>,
    kept: Vec<Kept>,
    /// The bytes of all that came, kept or not.
    bytes: usize,
    /// True if there was too much to keep: then all thoughts are dropped.
    pub(super) is_too_much: bool,
}

impl Thoughts {
    /// Adds text to the current thought.
    pub(crate) fn add_text(&mut self, text: &str) {
        if self.take_room(text.len()) {
            self.text.push_str(text);
        }
    }

    /// Ends the current thought with its signature.
    pub(crate) fn end_signed(&mut self, signature: &str) {
        if self.take_room(signature.len()) {
            let text = std::mem::take(&mut self.text);
            self.pending.push(Thought {
                text: text.into(),
                signature: Some(signature.to_owned().into()),
                ..Thought::default()
            });
        }
    }

    /// Adds a redacted thought, which no caller may read.
    pub(crate) fn add_redacted(&mut self, data: &str) {
        if self.take_room(data.len()) {
            self.pending.push(Thought {
                redacted: Some(data.to_owned().into()),
                ..Thought::default()
            });
        }
    }

    /// Begins a call, and keeps the thoughts that led to it. `is_first_choice` is true if the call
    /// belongs to the first choice, to which the thoughts belong. Returns the thoughts that are
    /// kept for the call.
    pub(crate) fn begin_call(
        &mut self,
        is_first_choice: bool,
        id: &str,
        signature: Option<&str>,
    ) -> Option<&Kept> {
        if !self.take_room(id.len() + signature.map_or(0, str::len)) {
            return None;
        }
        let mut thoughts = if is_first_choice {
            std::mem::take(&mut self.pending)
        } else {
            Vec::new()
        };
        if let Some(signature) = signature {
            thoughts.push(Thought {
                signature: Some(signature.to_owned().into()),
                of_call: true,
                ..Thought::default()
            });
        }
        if thoughts.is_empty() {
            return None;
        }
        self.kept.push(Kept {
            call: id.to_owned(),
            thoughts,
        });
        self.kept.last()
    }

    /// Takes the thoughts that were kept, by their calls.
    pub(crate) fn take_kept(&mut self) -> Vec<Kept> {
        std::mem::take(&mut self.kept)
    }

    /// Counts more bytes. Returns whether they may be kept. If they are too many, everything is
    /// dropped, and nothing more is kept.
    fn take_room(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_KEPT && !self.is_too_much {
            *self = Self {
                is_too_much: true,
                bytes: self.bytes,
                ..Self::default()
            };
        }
        !self.is_too_much
    }
}
