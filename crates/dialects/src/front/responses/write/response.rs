//! The response itself: the object that holds the items of an answer, and repeats its request.

use std::borrow::Cow;

use super::super::read::echoed;
use crate::neutral::answer::Tally;
use crate::neutral::{AnswerHeader, Clock, Echo, Finish};
use crate::wire::json::Writer;

/// The values that every event with the response repeats.
#[derive(Debug)]
pub(in super::super) struct ResponseHead {
    id: String,
    /// The answer's own part of the id. The ids of items build on it.
    pub(super) tail: String,
    created: u64,
    clock: Clock,
    model: String,
}

/// The state of a response.
#[derive(Clone, Copy)]
pub(in super::super) enum State<'s> {
    /// The response has begun.
    Begun,
    /// The response has ended: its items as the elements of an array, why it ended, and its usage.
    Ended {
        output: &'s [u8],
        reason: Finish,
        tally: &'s Tally,
    },
    /// The response cannot go on: a code that clients know, and a message.
    Failed {
        code: &'static str,
        message: &'s str,
    },
}

impl ResponseHead {
    pub(super) fn new(header: &AnswerHeader) -> Self {
        Self::with_id(header.id.clone(), header)
    }

    /// Returns the head of a response with this id in place of the header's.
    pub(in super::super) fn with_id(id: String, header: &AnswerHeader) -> Self {
        let tail = id.strip_prefix("resp_").unwrap_or(&id).to_owned();
        let AnswerHeader {
            created,
            clock,
            model,
            ..
        } = header;
        Self {
            id,
            tail,
            created: *created,
            clock: *clock,
            model: model.clone(),
        }
    }

    /// Writes the response.
    pub(in super::super) fn write(&self, w: &mut Writer, echo: &Echo, state: State<'_>) {
        let (status, why) = match state {
            State::Begun => ("in_progress", None),
            State::Failed { .. } => ("failed", None),
            State::Ended {
                reason: Finish::Stop | Finish::Calls,
                ..
            } => ("completed", None),
            State::Ended {
                reason: Finish::Length,
                ..
            } => ("incomplete", Some("max_output_tokens")),
            State::Ended {
                reason: Finish::Filtered,
                ..
            } => ("incomplete", Some("content_filter")),
        };
        w.object(|w| {
            w.texts([("id", &self.id), ("object", "response")]);
            w.key("created_at").number(self.created);
            let completed = (status == "completed").then(|| self.clock.seconds().max(self.created));
            w.or_null("completed_at", completed, Writer::number);
            w.texts([("status", status), ("model", &self.model)]);
            w.key("output").array(|w| match state {
                State::Ended { output, .. } if !output.is_empty() => {
                    w.raw(&String::from_utf8_lossy(output))
                }
                State::Ended { .. } | State::Begun | State::Failed { .. } => {}
            });
            let tally = if let State::Ended { tally, .. } = state {
                Some(tally)
            } else {
                None
            };
            w.or_null("usage", tally, write_usage);
            let error = if let State::Failed { code, message } = state {
                Some((code, message))
            } else {
                None
            };
            w.or_null("error", error, |w, (code, message)| {
                w.object(|w| w.texts([("code", code), ("message", message)]));
            });
            w.or_null("incomplete_details", why, |w, why| {
                w.object(|w| w.texts([("reason", why)]))
            });
            w.key("previous_response_id").null();
            w.key("background").bool(false);
            w.key("store").bool(false);
            w.raw(&match echo.members.is_empty() {
                true => Cow::Owned(echoed::unknown_members()),
                false => Cow::Borrowed(&*echo.members),
            });
        });
    }
}

fn write_usage(w: &mut Writer, tally: &Tally) {
    let usage = tally.usage();
    w.object(|w| {
        w.key("input_tokens").number(usage.prompt);
        w.key("input_tokens_details").object(|w| {
            w.key("cached_tokens").number(usage.cached);
            w.key("cache_write_tokens").number(usage.cache_write);
        });
        w.key("output_tokens").number(usage.completion);
        w.key("output_tokens_details")
            .object(|w| w.key("reasoning_tokens").number(usage.reasoning));
        w.key("total_tokens").number(usage.total());
        w.optional("cost", tally.cost(), |w, cost| w.raw(&cost.to_string()));
    });
}
