//! The progress of an answer is the state after the events so far. It decides what the next event
//! means.
//!
//! Choices are shown in their order, and calls count from 0. The ends of the choices are held back
//! until everything else is written. If a tool was forced to get an answer in a format, text
//! outside that tool is not the answer. Such text waits, and it is written only if the tool is
//! never called.

mod choice;

use std::borrow::Cow;

use choice::{ChoiceProgress, ContentProgress, Current};

use super::ids::{Ids, MAX_CALLS};
use super::tally::Tally;
use super::thoughts::Thoughts;
use super::writer::{AnswerWriter, Carries, NewCall, TextKind, is_picture};
use super::{AnswerFacts, AnswerHeader, AnswerOptions, Kept};
use crate::neutral::citation::Citation;
use crate::neutral::flaws::Flaws;
use crate::neutral::seal::AnswerSeal;
use crate::neutral::usage::Usage;
use crate::neutral::{EndReasons, Event, Finish, Undo};
use crate::wire::json::Pieces;

/// The progress of one answer: it follows the events, and decides what a writer writes.
#[derive(Debug)]
pub(crate) struct AnswerProgress {
    undo: Undo,
    wants_json: bool,
    hide_reasoning: bool,
    /// The thoughts, if they are kept or sealed.
    thoughts: Option<Box<Thoughts>>,
    seal: Option<AnswerSeal>,
    ids: Ids,
    pub(crate) tally: Tally,
    choices: Vec<ChoiceProgress>,
    /// The number of choices that the caller knows.
    shown: usize,
    /// True if the model has begun to answer, shown or hidden.
    pub(crate) opened: bool,
    /// True if a thought was signed. A caller that passes events on resets it after each event.
    pub(crate) has_signed: bool,
    /// The signature for the current thought, as long as the thought has none.
    unsigned: Option<&'static str>,
    ended: bool,
    /// The reason why the events are no valid answer, if there is one.
    pub(crate) fault: Option<&'static str>,
    /// The flaws of the answer. They are complete after [`close`](Self::close).
    pub(crate) flaws: Flaws,
    /// The reasons for which its choices ended. They are complete after [`close`](Self::close),
    /// too.
    pub(crate) reasons: EndReasons,
}

/// The most choices of an answer. Official clients refuse more.
const MAX_CHOICES: usize = 128;
/// The most bytes of text that wait for a call of the format's tool. The call should have come
/// first, so the wait is short.
pub(crate) const MAX_HELD: usize = 64 * 1024;

impl AnswerProgress {
    pub(crate) fn new(header: &AnswerHeader, options: AnswerOptions) -> Self {
        Self {
            undo: options.undo,
            wants_json: header.wants_json,
            hide_reasoning: options.hide_reasoning || header.hide_thoughts,
            thoughts: (options.keep_thoughts || options.seal.is_some()).then(Box::default),
            seal: options.seal,
            ids: Ids::new(header),
            tally: Tally::new(header),
            // Most answers have one choice, and many streams wait at once.
            choices: Vec::with_capacity(1),
            shown: 0,
            opened: false,
            has_signed: false,
            unsigned: None,
            ended: false,
            fault: None,
            flaws: Flaws::default(),
            reasons: EndReasons::default(),
        }
    }

    /// Takes an event. Events after a fault or after the end are ignored.
    pub(crate) fn take(&mut self, event: Event<'_>, writer: &mut dyn AnswerWriter) {
        if self.ended {
            // The usage of an invalid answer counts, too.
            if let (Some(_), Event::Usage(tokens)) = (self.fault, event) {
                self.tally.count(tokens);
            }
            return;
        }
        if let Err(fault) = self.follow(event, writer) {
            self.fault = Some(fault);
            self.ended = true;
        }
    }

    #[inline]
    fn follow(
        &mut self,
        event: Event<'_>,
        writer: &mut dyn AnswerWriter,
    ) -> Result<(), &'static str> {
        if self.unsigned.is_some()
            && !matches!(event, Event::Reasoning(..) | Event::Id(_) | Event::Usage(_))
        {
            self.sign(&event, writer)?;
        }
        match event {
            Event::Id(id) => writer.id(id),
            Event::Text(_, "")
            | Event::Reasoning(_, "")
            | Event::Refusal(_, "")
            | Event::Arguments(_, "")
            | Event::Media(_, _, "") => {}
            Event::Text(index, text) => self.text(index, text, writer)?,
            Event::Reasoning(index, text) => self.reasoning(index, text, writer)?,
            Event::Refusal(index, text) => self.refusal(index, text, writer)?,
            Event::Signed(signature) => {
                (self.opened, self.has_signed) = (true, true);
                self.tally.add_sealed_thought(signature);
                self.thoughts
                    .iter_mut()
                    .for_each(|thoughts| thoughts.end_signed(signature));
                if !self.hide_reasoning {
                    self.interrupt();
                    self.end_thought(signature, false, writer);
                }
            }
            Event::Redacted(data) => {
                (self.opened, self.has_signed) = (true, true);
                self.tally.add_sealed_thought(data);
                self.thoughts
                    .iter_mut()
                    .for_each(|thoughts| thoughts.add_redacted(data));
                if !self.hide_reasoning {
                    self.interrupt();
                    self.end_thought(data, true, writer);
                }
            }
            Event::Call {
                choice,
                id,
                name,
                signature,
            } => {
                self.call(
                    choice,
                    NewCall {
                        id: id.unwrap_or_default(),
                        name,
                        signature,
                    },
                    writer,
                )?;
            }
            Event::Arguments(index, text) => self.arguments(index, text, writer)?,
            Event::Media(index, mime, data) => self.media(index, mime, data, writer)?,
            Event::Citation(index, citation) => self.cite(index, citation, writer),
            Event::Finish(index, finish) => self.choice(index)?.1.finish = Some(finish),
            Event::Usage(tokens) => self.tally.count(tokens),
            Event::Units(units) => self.tally.count_units(units),
            Event::End => self.ended = true,
        }
        Ok(())
    }

    /// Signs a thought that has ended without a signature.
    #[cold]
    fn sign(
        &mut self,
        next: &Event<'_>,
        writer: &mut dyn AnswerWriter,
    ) -> Result<(), &'static str> {
        match self.unsigned.take() {
            Some(signature) if !matches!(next, Event::Signed(_)) => {
                self.follow(Event::Signed(signature), writer)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Writes the signature of a thought, or a redacted one, and seals it for callers who carry it.
    fn end_thought(&mut self, text: &str, is_redacted: bool, writer: &mut dyn AnswerWriter) {
        let mut text = Cow::Borrowed(text);
        if let (Some(seal), Carries::WithThoughts) = (&self.seal, writer.carries()) {
            let sealed = if is_redacted {
                seal.redacted(&text)
            } else {
                seal.signature(&text)
            };
            let Some(sealed) = sealed else {
                return self.flaws.not_sealed = true;
            };
            text = sealed.into();
        }
        if is_redacted {
            writer.redacted(&text)
        } else {
            writer.signed(&text)
        }
    }

    /// Notes that thinking comes, which is the first choice's.
    fn interrupt(&mut self) {
        self.choices
            .first_mut()
            .into_iter()
            .for_each(|choice| choice.is_interrupted = true);
    }

    /// Returns whether the answer has ended without a fault.
    pub(crate) fn ended(&self) -> bool {
        self.ended && self.fault.is_none()
    }

    /// Takes the thoughts that were kept since the last call of this function.
    pub(crate) fn kept_thoughts(&mut self) -> Vec<Kept> {
        self.thoughts
            .as_mut()
            .map(|thoughts| thoughts.take_kept())
            .unwrap_or_default()
    }

    /// Writes the held parts, and the ends of the choices. This is called only for a complete
    /// answer, so a choice without a reason of its own ended well. A choice that was cut short may
    /// have been cut before a call's arguments, so no arguments are made up for it.
    pub(crate) fn close(&mut self, writer: &mut dyn AnswerWriter) -> Result<(), &'static str> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let Some(last) = self.choices.len().checked_sub(1) else {
            return Err("the answer is empty");
        };
        self.show(last, writer);
        for (choice_index, choice) in self.choices.iter_mut().enumerate() {
            choice.release(choice_index, writer);
            let reason = match *choice.finish.get_or_insert(Finish::Stop) {
                cut @ (Finish::Length | Finish::Filtered) => cut,
                Finish::Stop | Finish::Calls => {
                    choice.close_call(choice_index, writer);
                    if choice.calls > 0 {
                        Finish::Calls
                    } else {
                        Finish::Stop
                    }
                }
            };
            writer.finish(choice_index, reason);
            self.flaws.add(choice.flaws());
            self.reasons.add_finish(reason);
        }
        if writer.needs_objects() && self.choices.iter().any(ChoiceProgress::has_broken_call) {
            return Err("the arguments of a call are no JSON object");
        }
        Ok(())
    }

    fn text(
        &mut self,
        index: u32,
        text: &str,
        writer: &mut dyn AnswerWriter,
    ) -> Result<(), &'static str> {
        self.tally.add_text(text);
        let (choice_index, choice) = self.choice(index)?;
        choice.answers = true;
        choice.is_interrupted = true;
        match &mut choice.content {
            ContentProgress::Text => {
                choice.take_json(text);
                choice.text_so_far.take(text);
                self.show(choice_index, writer);
                writer.write_text(choice_index, TextKind::Content, text);
            }
            ContentProgress::Held(held) => {
                held.push_str(text);
                if held.len() > MAX_HELD {
                    self.show(choice_index, writer);
                    self.choice(index)?.1.release(choice_index, writer);
                }
            }
            ContentProgress::Tool => {}
        }
        Ok(())
    }

    /// Writes a citation, or notes that the caller does not see it. A citation in a choice without
    /// text is for no text.
    fn cite(&mut self, index: u32, citation: &Citation<'_>, writer: &mut dyn AnswerWriter) {
        let choice_index = usize::try_from(index).unwrap_or(usize::MAX);
        let choice = self
            .choices
            .get(choice_index)
            .filter(|choice| matches!(choice.content, ContentProgress::Text));
        let placed = choice
            .filter(|_| choice_index < self.shown)
            .and_then(|choice| choice.text_so_far.place_citation(citation));
        self.flaws.not_cited |= !placed.is_some_and(|placed| writer.cite(choice_index, &placed));
    }

    fn reasoning(
        &mut self,
        index: u32,
        text: &str,
        writer: &mut dyn AnswerWriter,
    ) -> Result<(), &'static str> {
        self.tally.add_thought(text);
        self.unsigned = self.seal.as_ref().and_then(|seal| seal.0.signature());
        let (choice_index, _) = self.choice(index)?;
        if let Some(thoughts) = self.thoughts.as_mut().filter(|_| choice_index == 0) {
            thoughts.add_text(text);
        }
        if !self.hide_reasoning {
            self.choice(index)?.1.is_interrupted = true;
            self.show(choice_index, writer);
            writer.write_text(choice_index, TextKind::Reasoning, text);
        }
        Ok(())
    }

    fn refusal(
        &mut self,
        index: u32,
        text: &str,
        writer: &mut dyn AnswerWriter,
    ) -> Result<(), &'static str> {
        self.tally.add_text(text);
        let (choice_index, choice) = self.choice(index)?;
        choice.refuses = true;
        choice.is_interrupted = true;
        self.show(choice_index, writer);
        writer.write_text(choice_index, TextKind::Refusal, text);
        Ok(())
    }

    fn call(
        &mut self,
        index: u32,
        call: NewCall<'_>,
        writer: &mut dyn AnswerWriter,
    ) -> Result<(), &'static str> {
        let NewCall {
            id,
            name,
            signature,
        } = call;
        if name.is_empty() {
            return Err("a tool call without a name");
        }
        self.tally.add_text(name);
        if self.undo.stubs.iter().any(|stub| stub == name) {
            let (choice_index, choice) = self.choice(index)?;
            choice.close_call(choice_index, writer);
            choice.current = Current::Stub;
            return Ok(());
        }
        let is_format = self.undo.format_tool.as_deref() == Some(name);
        let (choice_index, choice) = self.choice(index)?;
        choice.answers = true;
        self.show(choice_index, writer);
        let (_, choice) = self.choice(index)?;
        choice.close_call(choice_index, writer);
        if is_format {
            return choice.begin_format();
        }
        if choice.calls == MAX_CALLS {
            return Err("more than 128 tool calls");
        }
        let number = choice.calls;
        (
            choice.calls,
            choice.current,
            choice.is_bare,
            choice.is_interrupted,
        ) = (number + 1, Current::Call, true, false);
        let id = self.ids.unique(id, choice_index, number);
        let kept = self
            .thoughts
            .as_mut()
            .and_then(|thoughts| thoughts.begin_call(choice_index == 0, &id, signature));
        let sealed;
        let signature = match writer.carries() {
            Carries::Nowhere => signature,
            carries @ (Carries::WithThoughts | Carries::WithCalls) => {
                let is_shown = carries == Carries::WithThoughts && !self.hide_reasoning;
                let is_kept = kept.is_some();
                sealed = self
                    .seal
                    .as_ref()
                    .zip(kept)
                    .and_then(|(seal, kept)| seal.seal_call(kept, is_shown));
                let is_lost =
                    sealed.is_none() && self.seal.is_some() && (!is_shown || signature.is_some());
                self.flaws.not_sealed |= is_lost
                    && (is_kept || self.thoughts.as_ref().is_some_and(|all| all.is_too_much));
                sealed.as_deref()
            }
        };
        let name = self
            .undo
            .names
            .iter()
            .find(|(theirs, _)| theirs == name)
            .map_or(name, |(_, callers)| callers);
        writer.call(
            choice_index,
            number,
            &NewCall {
                id: &id,
                name,
                signature,
            },
        );
        Ok(())
    }

    fn arguments(
        &mut self,
        index: u32,
        text: &str,
        writer: &mut dyn AnswerWriter,
    ) -> Result<(), &'static str> {
        self.tally.add_text(text);
        let (choice_index, choice) = self.choice(index)?;
        choice.is_bare = false;
        match choice.current {
            Current::None => return Err("arguments without a tool call"),
            // The block of the call has ended.
            Current::Call if choice.is_interrupted && writer.needs_objects() => {
                return Err("a call goes on after something else was said");
            }
            Current::Call => {
                choice.arguments.take(text);
                let number = choice.calls.saturating_sub(1);
                writer.arguments(choice_index, number, text);
                if writer.is_full() {
                    return Err("the arguments of the calls are too large");
                }
            }
            Current::Format => {
                choice.take_json(text);
                writer.write_text(choice_index, TextKind::Content, text);
            }
            Current::Surplus | Current::Stub => {}
        }
        Ok(())
    }

    fn media(
        &mut self,
        index: u32,
        mime: &str,
        data: &str,
        writer: &mut dyn AnswerWriter,
    ) -> Result<(), &'static str> {
        let (choice_index, choice) = self.choice(index)?;
        choice.answers = true;
        choice.is_interrupted = true;
        let count = if is_picture(mime) {
            &mut choice.pictures
        } else {
            &mut choice.files
        };
        let number = *count;
        *count += 1;
        self.show(choice_index, writer);
        writer.media(choice_index, number, mime, data);
        Ok(())
    }

    /// Returns the choice of this index, and adds it if it is new. The answer has then begun.
    #[inline]
    fn choice(&mut self, index: u32) -> Result<(usize, &mut ChoiceProgress), &'static str> {
        let choice_index = usize::try_from(index).unwrap_or(usize::MAX);
        if choice_index >= MAX_CHOICES {
            return Err("more than 128 choices");
        }
        self.opened = true;
        while self.choices.len() <= choice_index {
            let waits = self.undo.format_tool.is_some();
            let content = if waits {
                ContentProgress::Held(String::new())
            } else {
                ContentProgress::Text
            };
            let json = self.wants_json.then(Pieces::default);
            self.choices.push(ChoiceProgress {
                content,
                json,
                ..ChoiceProgress::default()
            });
        }
        self.choices
            .get_mut(choice_index)
            .map(|choice| (choice_index, choice))
            .ok_or("more than 128 choices")
    }

    /// Opens this choice, and the choices before it, for the caller.
    #[inline]
    fn show(&mut self, choice_index: usize, writer: &mut dyn AnswerWriter) {
        while self.shown <= choice_index {
            writer.open(self.shown);
            self.shown += 1;
        }
    }
}

impl AnswerFacts for AnswerProgress {
    fn opened(&self) -> bool {
        self.opened
    }

    fn declined(&self) -> bool {
        let mut choices = self.choices.iter();
        choices
            .clone()
            .any(|choice| choice.refuses || choice.finish == Some(Finish::Filtered))
            && choices.all(|choice| !choice.answers && (choice.refuses || choice.finish.is_some()))
    }

    fn finished(&self) -> bool {
        !self.choices.is_empty() && self.choices.iter().all(|choice| choice.finish.is_some())
    }

    fn usage_so_far(&self) -> Usage {
        if self.ended() {
            self.tally.usage()
        } else if self.opened || self.tally.is_counted() {
            self.tally.so_far()
        } else {
            Usage::default()
        }
    }

    fn flaws(&self) -> Flaws {
        self.flaws
    }

    fn reasons(&self) -> EndReasons {
        self.reasons
    }
}
