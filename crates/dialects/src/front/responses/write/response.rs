//! The response itself: the object that holds the items of an answer, and repeats its request.

use crate::neutral::answer::Tally;
use crate::neutral::{AnswerHeader, Echo, Finish};
use crate::wire::json::Writer;

/// What is the same in every event that has the response.
#[derive(Debug)]
pub(super) struct ResponseHead {
    id: String,
    /// The part of the id that is its own. The ids of items build on it.
    pub(super) tail: String,
    created: u64,
    model: String,
}

/// How far a response has come.
#[derive(Clone, Copy)]
pub(super) enum State<'s> {
    /// It has begun.
    Begun,
    /// It has ended: its items as the elements of an array, why it ended, and what was used.
    Ended { output: &'s [u8], reason: Finish, tally: &'s Tally },
}

impl ResponseHead {
    pub(super) fn new(header: &AnswerHeader) -> Self {
        let tail = header.id.strip_prefix("resp_").unwrap_or(&header.id).to_owned();
        Self { id: header.id.clone(), tail, created: header.created, model: header.model.clone() }
    }

    /// Writes the response.
    pub(super) fn write(&self, w: &mut Writer, echo: &Echo, state: State<'_>) {
        let (status, why) = match state {
            State::Begun => ("in_progress", None),
            State::Ended { reason: Finish::Stop | Finish::Calls, .. } => ("completed", None),
            State::Ended { reason: Finish::Length, .. } => ("incomplete", Some("max_output_tokens")),
            State::Ended { reason: Finish::Filtered, .. } => ("incomplete", Some("content_filter")),
        };
        w.object(|w| {
            w.texts([("id", &self.id), ("object", "response")]);
            w.key("created_at").number(self.created);
            w.texts([("status", status), ("model", &self.model)]);
            w.key("output").array(|w| match state {
                State::Ended { output, .. } if !output.is_empty() => w.raw(&String::from_utf8_lossy(output)),
                State::Ended { .. } | State::Begun => {}
            });
            let tally = if let State::Ended { tally, .. } = state { Some(tally) } else { None };
            w.or_null("usage", tally, usage);
            w.key("error").null();
            w.or_null("incomplete_details", why, |w, why| w.object(|w| w.texts([("reason", why)])));
            w.key("previous_response_id").null();
            w.key("background").bool(false);
            w.key("store").bool(false);
            if !echo.members.is_empty() {
                w.raw(&echo.members);
            }
        });
    }
}

fn usage(w: &mut Writer, tally: &Tally) {
    let usage = tally.usage();
    w.object(|w| {
        w.key("input_tokens").number(usage.prompt);
        w.key("input_tokens_details").object(|w| {
            w.key("cached_tokens").number(usage.cached);
            w.key("cache_write_tokens").number(usage.cache_write);
        });
        w.key("output_tokens").number(usage.completion);
        w.key("output_tokens_details").object(|w| w.key("reasoning_tokens").number(usage.reasoning));
        w.key("total_tokens").number(usage.total());
        w.optional("cost", tally.cost(), |w, cost| w.raw(&cost.to_string()));
    });
}
