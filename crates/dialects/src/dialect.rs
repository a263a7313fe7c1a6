//! The seam between the callers' format and an account's: what a gateway needs to know of either.
//!
//! Callers speak OpenAI's chat completions. An account speaks a [`Dialect`]; its [`Protocol`] is
//! the extension point, one static a dialect. Where both formats are the same, [`openai`], the
//! bytes pass through but for the spans that must change; all others are written from and read into
//! the neutral form ([`crate::neutral`]).

mod decoder;
mod stream;
mod translated;

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;

use crate::front::chat;
use crate::front::chat::envelope::Envelope;
use crate::neutral::answer::{AnswerOptions, Draft, Kept};
use crate::neutral::traits::Traits;
use crate::neutral::{
    self, Answer, AnswerFault, AnswerHeader, ErrorHead, FieldRefused, Losses, Refused, Target, Undo, UpstreamError,
    Written,
};
use crate::upstream::{Prices, Protocol, Settings, openai};
use translated::repairing;

pub use stream::Stream;

/// What an account speaks: a protocol, and what the account says of it.
#[derive(Debug, Clone)]
pub struct Dialect {
    /// What is the same for all accounts that speak it.
    pub protocol: &'static Protocol,
    /// What differs.
    settings: Settings,
}

/// A job of translating: a caller's request, and what writing it for a target needs to know.
pub struct Translate<'a> {
    /// The caller's body.
    pub body: &'a Bytes,
    /// What was read of it.
    pub envelope: &'a Envelope,
    /// The target's name for the model.
    pub model: &'a str,
    /// What this model can do.
    pub traits: Traits,
    /// For requests that are silent about it.
    pub default_max_tokens: Option<u64>,
    /// How long a buffered answer may take in all, where that bounds how long it should be.
    pub within: Option<Duration>,
    /// Whether the account's server may be asked for the usage of a stream.
    pub stream_usage: bool,
    /// The thoughts that came before a call, where they were kept.
    pub kept: &'a dyn Fn(&str) -> Option<neutral::Kept>,
}

/// A request as it goes to the upstream.
pub struct Outbound {
    /// What follows the base URL, the query included.
    pub path: Cow<'static, str>,
    /// The body, in parts.
    pub body: Vec<Bytes>,
    /// Headers that it needs, besides those that every request has.
    pub headers: Vec<(&'static str, &'static str)>,
    /// How much of it is not the caller's own bytes.
    pub copied: usize,
    /// The fields of the caller's request that it does not say.
    pub losses: Losses,
    /// What reading the answer must undo.
    pub undo: Undo,
}

impl From<&'static Protocol> for Dialect {
    fn from(protocol: &'static Protocol) -> Dialect {
        Dialect::new(protocol, Settings::NONE)
    }
}

impl Dialect {
    /// Puts a dialect together.
    pub fn new(protocol: &'static Protocol, mut settings: Settings) -> Dialect {
        if let Some(quirks) = protocol.quirks_of_version {
            settings.quirks = quirks(settings.version.as_deref());
        }
        Dialect { protocol, settings }
    }

    /// Writes a request.
    pub fn write(&self, job: &Translate<'_>) -> Result<Outbound, Refused> {
        let path = (self.protocol.path)(&self.settings, job.model, job.envelope.stream);
        match &self.protocol.translation {
            Some(translation) => translate(job, path, translation.request),
            None => self.pass(job, path),
        }
    }

    fn pass(&self, job: &Translate<'_>, path: Cow<'static, str>) -> Result<Outbound, Refused> {
        // What cannot be read here is for the account's server to judge, as is everything else that
        // passes through.
        if job.traits.deny()
            && let Ok((request, spelling)) = chat::read::read(job.body)
        {
            job.traits.check(&request).map_err(|why| spelling.refused(&request, why))?;
        }
        let to = openai::To {
            model: job.model,
            ask_usage: job.envelope.stream && job.stream_usage,
            fill_max_tokens: job.default_max_tokens,
            quirks: self.settings.quirks,
        };
        let (body, losses) = openai::request(job.body, job.envelope, &to)?;
        Ok(Outbound { path, body, headers: Vec::new(), copied: 0, losses, undo: Undo::default() })
    }

    /// Returns whether a model of this name has no business in a path, where this dialect would
    /// write it: even percent-encoded, since what stands behind us may decode it.
    pub fn cannot_address(&self, model: &str) -> bool {
        let leaves = || {
            model.contains(['?', '#', '\\'])
                || model.chars().any(char::is_control)
                || model.split('/').any(|part| matches!(part, "" | "." | ".."))
        };
        (self.protocol.model_in_path)(&self.settings) && leaves()
    }

    /// Reads a buffered answer.
    pub fn answer(
        &self,
        model: &str,
        header: &AnswerHeader,
        options: &AnswerOptions,
        body: &[u8],
    ) -> Result<(Answer, Vec<Kept>), AnswerFault> {
        let Some(translation) = &self.protocol.translation else {
            return openai::answer(header, self.settings.quirks, !options.hide_reasoning, body)
                .map(|answer| (answer, Vec::new()));
        };
        repairing(body, |body| {
            let draft = Draft::new(header, options.clone(), Box::new(chat::write::Whole::new(header)));
            draft.whole(|emit| (translation.answer)(model, body, emit))
        })
    }

    /// Reads a buffered answer that came where a stream was asked for, and writes it as one. Its
    /// head can tell all of the trail.
    pub fn converted(
        &self,
        model: &str,
        header: &AnswerHeader,
        options: &AnswerOptions,
        body: &[u8],
    ) -> Result<(Answer, Vec<Kept>), AnswerFault> {
        let Some(translation) = &self.protocol.translation else {
            return openai::converted(header, self.settings.quirks, !options.hide_reasoning, body)
                .map(|answer| (answer, Vec::new()));
        };
        repairing(body, |body| {
            let draft = Draft::new(header, options.clone(), Box::new(chat::write::Chunks::new(header)));
            draft.whole(|emit| (translation.answer)(model, body, emit))
        })
    }

    /// Begins to read one stream; no event may be longer than `event_limit` bytes.
    pub fn stream(&self, model: &str, header: &AnswerHeader, options: AnswerOptions, event_limit: usize) -> Stream {
        match &self.protocol.translation {
            None => Stream::passed(header, self.settings.quirks, !options.hide_reasoning, event_limit),
            Some(translation) => {
                let draft = Draft::new(header, options, Box::new(chat::write::Chunks::new(header)));
                Stream::translated(self.protocol.framing, (translation.reader)(model), draft, event_limit)
            }
        }
    }

    /// Returns the status that an error means, which may be another than the one it came with.
    pub fn meant(&self, seen: u16, error: &UpstreamError) -> u16 {
        // A server that imitates OpenAI's may say in the body whose fault it is, but not that a
        // fault of its own is the caller's; a filter is none.
        let is_loose = self.protocol.is_imitated && !(400..500).contains(&seen) && !error.is_filtered();
        error.status.filter(|_| !is_loose).unwrap_or(seen)
    }

    /// Reads an answer whose status says that it is an error.
    pub fn error(&self, head: &ErrorHead<'_>, body: &[u8]) -> UpstreamError {
        (self.protocol.error)(&self.settings, head, body)
    }

    /// Returns where the price of a model is to be found.
    pub fn prices(&self) -> Prices {
        (self.protocol.prices)(&self.settings)
    }
}

type Write = fn(&neutral::Request<'_>, &Target<'_>) -> Result<Written, FieldRefused>;

fn translate(job: &Translate<'_>, path: Cow<'static, str>, write: Write) -> Result<Outbound, Refused> {
    let (request, spelling) = chat::read::read(job.body)?;
    let target = Target {
        model: job.model,
        traits: job.traits,
        default_max_tokens: job.default_max_tokens,
        stream: job.envelope.stream,
        within: job.within.filter(|_| !job.envelope.stream),
        kept: job.kept,
    };
    let written = spelling.written(&request, write(&request, &target))?;
    let copied = written.body.len();
    Ok(Outbound {
        path,
        body: vec![written.body.into()],
        headers: written.headers,
        copied,
        losses: written.losses,
        undo: written.undo,
    })
}

#[cfg(test)]
mod tests;
