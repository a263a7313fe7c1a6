//! The seam between the callers' format and an account's: what a gateway needs to know of either.
//!
//! Callers speak the format of a front door, which is a [`Front`]. An account speaks a [`Dialect`];
//! its [`Protocol`] is the extension point, one static a dialect. Where both formats are the same,
//! as chat and [`openai`] are, the bytes pass through but for the spans that must change; all
//! others are written from and read into the neutral form ([`crate::neutral`]).

mod decoder;
mod stream;
mod translated;

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;

use crate::front::{Envelope, Front, NewWriter};
use crate::neutral::answer::{AnswerOptions, Draft, Kept};
use crate::neutral::traits::Traits;
use crate::neutral::{
    self, Answer, AnswerFault, AnswerHeader, ErrorHead, FieldRefused, Losses, Refused, Target, Undo, UpstreamError,
    Written,
};
use crate::upstream::quirks::Quirks;
use crate::upstream::{Prices, Protocol, Settings, openai};
use translated::{Translated, repairing};

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
    /// What was read of it, and the front door that it came in by.
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

/// Whom an answer is written for.
#[derive(Debug, Clone)]
pub struct Recipient<'a> {
    /// The format of the answer.
    pub front: &'static Front,
    /// What the answer shows, whatever the upstream says.
    pub header: &'a AnswerHeader,
    /// How events become the answer.
    pub options: AnswerOptions,
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
            && let Ok((request, names)) = (job.envelope.front.read)(job.body)
        {
            job.traits.check(&request).map_err(|why| names.refused(&request, why))?;
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

    /// Reads a buffered answer of this model, for a caller who asked for one.
    pub fn answer(&self, model: &str, to: &Recipient<'_>, body: &[u8]) -> Result<(Answer, Vec<Kept>), AnswerFault> {
        self.buffered(model, to, body, (to.front.whole, openai::answer))
    }

    /// Reads a buffered answer that came where a stream was asked for, and writes it as one. Its
    /// head can tell all of the trail.
    pub fn converted(&self, model: &str, to: &Recipient<'_>, body: &[u8]) -> Result<(Answer, Vec<Kept>), AnswerFault> {
        self.buffered(model, to, body, (to.front.stream, openai::converted))
    }

    fn buffered(
        &self,
        model: &str,
        to: &Recipient<'_>,
        body: &[u8],
        (writer, pass): (NewWriter, Pass),
    ) -> Result<(Answer, Vec<Kept>), AnswerFault> {
        let Recipient { front, header, options } = to;
        let Some(translation) = &self.protocol.translation else {
            let answer = pass(header, self.settings.quirks, !options.hide_reasoning, body)?;
            return Ok((answer, Vec::new()));
        };
        let read = repairing(body, |body| {
            Draft::new(header, options.clone(), writer(header)).whole(|emit| (translation.answer)(model, body, emit))
        });
        read.map_err(|fault| match fault {
            AnswerFault::Upstream(error) => AnswerFault::Upstream(front.named(error)),
            nonsense @ AnswerFault::Nonsense(_) => nonsense,
        })
    }

    /// Begins to read one stream of this model; no event may be longer than `event_limit` bytes.
    pub fn stream(&self, model: &str, to: Recipient<'_>, event_limit: usize) -> Stream {
        let Recipient { front, header, options } = to;
        match &self.protocol.translation {
            None => Stream::passed(header, self.settings.quirks, !options.hide_reasoning, event_limit),
            Some(translation) => {
                let draft = Draft::new(header, options, (front.stream)(header));
                let translated = Translated::new(front, (translation.reader)(model), draft);
                Stream::translated(self.protocol.framing, translated, event_limit)
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

    /// Reads an answer whose status says that it is an error, for the callers of a front door.
    pub fn error(&self, front: &Front, head: &ErrorHead<'_>, body: &[u8]) -> UpstreamError {
        front.named((self.protocol.error)(&self.settings, head, body))
    }

    /// Returns where the price of a model is to be found.
    pub fn prices(&self) -> Prices {
        (self.protocol.prices)(&self.settings)
    }
}

type Pass = fn(&AnswerHeader, &'static Quirks, bool, &[u8]) -> Result<Answer, AnswerFault>;
type Write = fn(&neutral::Request<'_>, &Target<'_>) -> Result<Written, FieldRefused>;

fn translate(job: &Translate<'_>, path: Cow<'static, str>, write: Write) -> Result<Outbound, Refused> {
    let (request, names) = (job.envelope.front.read)(job.body)?;
    let target = Target {
        model: job.model,
        traits: job.traits,
        default_max_tokens: job.default_max_tokens,
        stream: job.envelope.stream,
        within: job.within.filter(|_| !job.envelope.stream),
        kept: job.kept,
    };
    let Written { body, losses, undo, headers } = names.written(&request, write(&request, &target))?;
    let copied = body.len();
    Ok(Outbound { path, body: vec![body.into()], headers, copied, losses, undo })
}

#[cfg(test)]
mod tests;
