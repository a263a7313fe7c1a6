//! A draft is an answer in the making: the progress of the answer, and the writer that writes it.

use super::{
    AnswerFacts, AnswerHeader, AnswerOptions, AnswerProgress, AnswerWriter, Kept, Unfinished,
};
use crate::neutral::usage::Usage;
use crate::neutral::{Answer, AnswerFault, Emit, Event, StreamFault, StreamResult};

/// An answer in the making.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) progress: AnswerProgress,
    writer: Box<dyn AnswerWriter>,
}

impl Draft {
    /// Returns an empty draft.
    pub(crate) fn new(
        header: &AnswerHeader,
        options: AnswerOptions,
        mut writer: Box<dyn AnswerWriter>,
    ) -> Self {
        if let Some(echo) = &options.undo.echo {
            writer.echo(echo);
        }
        Self {
            progress: AnswerProgress::new(header, options),
            writer,
        }
    }

    /// Takes an event. If the event makes an answer impossible, [`fault`](Self::fault) returns the
    /// reason.
    #[inline]
    pub(crate) fn take(&mut self, event: Event<'_>) {
        self.progress.take(event, &mut *self.writer);
    }

    /// Fails if the events so far are no valid answer.
    pub(crate) fn fault(&self) -> StreamResult<()> {
        self.progress
            .fault
            .or(self.writer.fault())
            .map_or(Ok(()), |why| Err(StreamFault::Broken(why)))
    }

    /// Returns the number of bytes of the answer that are kept until its end.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.writer.unsent_bytes()
    }

    /// Returns the number of events that were written, in formats that count them.
    pub(crate) fn events(&self) -> u64 {
        self.writer.events()
    }

    /// Returns the known facts of the answer, if it cannot go on.
    pub(crate) fn so_far(&self) -> Unfinished {
        Unfinished {
            id: self.writer.shown_id().map(str::to_owned),
            events: self.events(),
            echo: self.writer.echoed().cloned(),
        }
    }

    /// Works with `out` as the buffer that is written to.
    pub(crate) fn writing<T>(&mut self, out: &mut Vec<u8>, work: impl FnOnce(&mut Self) -> T) -> T {
        std::mem::swap(out, self.out());
        let done = work(self);
        std::mem::swap(out, self.out());
        done
    }

    /// Returns the buffer with the text that was written since it was last taken.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        self.writer.out()
    }

    /// Writes the held parts and the end. The caller must know that the answer is complete.
    pub(crate) fn end(&mut self, trail: Option<&str>) -> Result<Usage, &'static str> {
        self.progress.close(&mut *self.writer)?;
        self.writer.end(&self.progress.tally, trail);
        self.writer.fault().map_or(Ok(()), Err)?;
        Ok(self.progress.tally.usage())
    }

    /// Writes a buffered answer. `emit_answer` emits its events.
    pub(crate) fn whole(
        mut self,
        emit_answer: impl FnOnce(Emit<'_>) -> Result<(), AnswerFault>,
    ) -> Result<(Answer, Vec<Kept>), AnswerFault> {
        emit_answer(&mut |event| self.take(event))?;
        let usage = self.end(None).map_err(AnswerFault::Nonsense)?;
        let body = std::mem::take(self.out());
        let answer = self.progress.answer_with(body, usage);
        Ok((answer, self.progress.kept_thoughts()))
    }
}
