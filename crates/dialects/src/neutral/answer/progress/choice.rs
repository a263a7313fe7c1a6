//! The progress of one choice of an answer.

use crate::neutral::Finish;
use crate::neutral::answer::writer::{AnswerWriter, TextKind};
use crate::neutral::citation::TextSoFar;
use crate::neutral::flaws::{self, Flaws};
use crate::wire::json::Pieces;

/// The progress of one choice. Its place in the list is its index.
#[derive(Debug, Default)]
pub(super) struct ChoiceProgress {
    pub(super) content: ContentProgress,
    /// The number of calls that the caller knows.
    pub(super) calls: usize,
    pub(super) current: Current,
    /// True if the current call has no arguments yet.
    pub(super) is_bare: bool,
    /// The arguments of the current call so far.
    pub(super) arguments: Pieces,
    /// True if another part of the choice came since the current call began.
    pub(super) is_interrupted: bool,
    /// The number of earlier calls whose arguments are no JSON object.
    pub(super) broken: u32,
    /// The content so far, if it must be JSON.
    pub(super) json: Option<Pieces>,
    /// The length of the content so far, for citations.
    pub(super) text_so_far: TextSoFar,
    pub(super) pictures: usize,
    pub(super) files: usize,
    /// True if the choice has text, a call, or media. Thinking does not count.
    pub(super) answers: bool,
    pub(super) refuses: bool,
    pub(super) finish: Option<Finish>,
}

/// The source of a choice's content.
#[derive(Debug, Default)]
pub(super) enum ContentProgress {
    /// The choice's text.
    #[default]
    Text,
    /// The choice's text, unless the format's tool is called. The text so far is held here.
    Held(String),
    /// The arguments of the format's tool.
    Tool,
}

/// The call that arguments belong to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Current {
    /// There was no call yet.
    #[default]
    None,
    /// A call of one of the caller's tools.
    Call,
    /// The call of the format's tool. Its arguments are the content.
    Format,
    /// A second call of the format's tool. A choice has only one content.
    Surplus,
    /// A call of a tool that the caller does not offer.
    Stub,
}

impl ChoiceProgress {
    /// Begins a call of the format's tool. Its arguments are the content, and text outside it is
    /// not.
    pub(super) fn begin_format(&mut self) -> Result<(), &'static str> {
        (self.current, self.is_bare) = match self.content {
            ContentProgress::Held(_) => (Current::Format, true),
            ContentProgress::Tool => (Current::Surplus, false),
            ContentProgress::Text => return Err("the JSON answer comes after other text"),
        };
        self.content = ContentProgress::Tool;
        Ok(())
    }

    /// Takes a piece of the content.
    #[inline]
    pub(super) fn take_json(&mut self, text: &str) {
        if let Some(json) = &mut self.json {
            json.take(text);
        }
    }

    /// Returns the flaws of a complete choice. A choice that declares that it may be cut short has
    /// none.
    pub(super) fn flaws(&self) -> Flaws {
        if self.refuses || !matches!(self.finish, Some(Finish::Stop | Finish::Calls)) {
            return Flaws::default();
        }
        Flaws {
            broken_calls: self.broken,
            not_json: self.calls == 0 && self.json.as_ref().is_some_and(|json| !json.is_whole()),
            ..Flaws::default()
        }
    }

    /// Returns whether a client cannot read a call: its arguments are not even the beginning of an
    /// object.
    pub(super) fn has_broken_call(&self) -> bool {
        self.broken > 0 || !(self.arguments.may_be_object() || self.arguments.is_null())
    }

    /// Ends the current call. A call without arguments gets `{}`.
    pub(super) fn close_call(&mut self, choice_index: usize, writer: &mut dyn AnswerWriter) {
        self.broken += u32::from(flaws::is_broken(&std::mem::take(&mut self.arguments)));
        if !std::mem::take(&mut self.is_bare) {
            return;
        }
        match self.current {
            Current::Call => writer.arguments(choice_index, self.calls.saturating_sub(1), "{}"),
            Current::Format => {
                self.take_json("{}");
                writer.write_text(choice_index, TextKind::Content, "{}");
            }
            Current::None | Current::Surplus | Current::Stub => {}
        }
    }

    /// Stops waiting for the format's tool, and writes the held text.
    pub(super) fn release(&mut self, choice_index: usize, writer: &mut dyn AnswerWriter) {
        if let ContentProgress::Held(held) = &mut self.content {
            let held = std::mem::take(held);
            self.content = ContentProgress::Text;
            if !held.is_empty() {
                self.take_json(&held);
                self.text_so_far.take(&held);
                writer.write_text(choice_index, TextKind::Content, &held);
            }
        }
    }
}
