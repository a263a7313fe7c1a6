//! A [`Settled`] is what is known of an exchange at its end. The access line, the metrics and the
//! ledger's row read it, so that a new fact is written in one place. Pure.

use crate::account::given_up::GIVEN_UP;
use crate::base::trace_context::{SpanId, TraceContext};
use crate::conf::price::Usd;
use crate::error::{Blame, Outcome};
use crate::limits::{Kind, Level};
use crate::series::Sums;
use dialects::neutral::Losses;
use dialects::usage::{Source, Usage};
use dialects::{EndReasons, Flaws, Labels};
use http::HeaderValue;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// One settled exchange.
#[derive(Debug, Clone, Default)]
pub struct Settled {
    /// The time at which the request's head arrived, in milliseconds of Unix time.
    pub began_at: u64,
    /// The sender of the request.
    pub sender: Sender,
    /// The request.
    pub request: Incoming,
    /// The answer that the caller got.
    pub answer: Delivery,
    /// The account that answered, and what is known of its answer.
    pub served: Served,
    /// The tries at upstream accounts.
    pub attempts: Attempts,
    /// The times that parts of the exchange took.
    pub times: Times,
    /// The amounts that were taken from the caller's limits.
    pub spending: Spending,
    /// The outcome.
    pub outcome: Outcome,
    /// The time that the exchange took.
    pub total: Duration,
    /// The exchange's trace, if it has one.
    pub trace: Option<Arc<TraceContext>>,
}

impl Settled {
    /// Returns whose fault it is, if the exchange failed.
    pub fn blame(&self) -> Option<Blame> {
        // The caller left because an upstream let it wait far longer than usual: then the upstream
        // is probably at fault.
        let is_given_up = |tried: &Tried| tried.outcome == GIVEN_UP;
        if self.outcome == Outcome::ClientLeft && self.attempts.trail.iter().any(is_given_up) {
            return Some(Blame::GivenUp);
        }
        self.outcome.blame(self.answer.limited_by)
    }

    /// Returns whether the sender was let in. The name of a key that may not be used is for access
    /// lines and spans only.
    pub fn is_let_in(&self) -> bool {
        self.outcome != Outcome::Unauthorized
    }

    /// Returns what the exchange adds to a [`Series`](crate::series::Series).
    pub fn sums(&self) -> Sums {
        let Spending { usage, cost, .. } = &self.spending;
        let mut sums = Sums {
            requests: 1,
            shed: u32::from(self.attempts.shed),
            unpriced: u32::from(cost.is_none() && usage.source != Source::None),
            output_tokens: usage.completion,
            nano_usd: cost.unwrap_or_default().0,
            ..Sums::default()
        };
        match self.blame() {
            Some(blame) => sums.count_failure(blame),
            None => sums.left = u32::from(self.outcome == Outcome::ClientLeft),
        }
        sums
    }

    /// Returns the time to the first token. Only a stream has one.
    pub fn first_token(&self) -> Option<Duration> {
        self.times.first_byte.filter(|_| self.request.stream)
    }
}

/// The sender of a request.
#[derive(Debug, Clone, Default)]
pub struct Sender {
    /// The caller.
    pub caller: Option<Arc<str>>,
    /// The caller's key. It is known also if it may not be used: see [`Settled::is_let_in`].
    pub key: Option<Arc<str>>,
    /// The address that the request came from.
    pub address: Option<IpAddr>,
    /// The first 16 hexadecimal digits of the SHA-256 of the caller's own name for its end user.
    pub end_user: Option<String>,
}

/// A request as it came in.
#[derive(Debug, Clone, Default)]
pub struct Incoming {
    /// The id that the caller gave, or one that was made here.
    pub id: String,
    /// The name of the door.
    pub door: &'static str,
    /// The method, cut short.
    pub method: String,
    /// The path without its query, cut short.
    pub path: Box<str>,
    /// The model's id, from the catalog and never from the request.
    pub model: Option<Arc<str>>,
    /// The pattern that the model comes from, if it comes from one.
    pub pattern: Option<Arc<str>>,
    /// The model that was asked for, cut short, if the key can use no such model.
    pub asked_model: Option<Box<str>>,
    /// The caller's own name for the conversation, cut short.
    pub session: Option<Box<str>>,
    /// True if a stream was asked for.
    pub stream: bool,
    /// True if the answer must be JSON.
    pub wants_json: bool,
    /// The number of answers that are asked for, if it is known.
    pub choices: u16,
    /// The most tokens that an answer may have, if the request has a maximum.
    pub most_tokens: Option<NonZeroU32>,
    /// The size of the request's body.
    pub bytes: u64,
}

/// The answer that a caller got.
#[derive(Debug, Clone, Default)]
pub struct Delivery {
    /// The status that the caller saw; 499 if the caller left, whatever it saw before.
    pub status: u16,
    /// The size of the answer's body.
    pub bytes: u64,
    /// The message that the caller got if there was no answer.
    pub error: Option<String>,
    /// Whose fault it is if no account could take the request.
    pub limited_by: Blame,
}

/// The account that answered, and what is known of its answer.
#[derive(Debug, Clone, Default)]
pub struct Served {
    /// The account that answered, or was asked last.
    pub account: Option<Arc<str>>,
    /// That account's name for the model.
    pub upstream_model: Option<Arc<str>>,
    /// The upstream's own id for the request.
    pub upstream_request_id: Option<String>,
    /// The type of the answer, if it passes as it comes.
    pub content_type: Option<HeaderValue>,
    /// The fields of the request that the dialect left out, weakened or added to.
    pub losses: Losses,
    /// The flaws of the answer, although it is complete.
    pub flaws: Flaws,
    /// The reasons for which the choices of a whole answer ended.
    pub reasons: EndReasons,
}

/// The tries at upstream accounts.
#[derive(Debug, Clone, Default)]
pub struct Attempts {
    /// The attempts, in the order in which they ended.
    pub trail: Vec<Tried>,
    /// True if the hedge of a slow first attempt was faster. `None` if there was no second attempt.
    pub hedge_won: Option<bool>,
    /// The reason why no further attempt was made, although there was another account.
    pub not_retried: Option<&'static str>,
    /// True if no account was free and the queue was full.
    pub shed: bool,
    /// True if an upstream may charge for an answer that the caller did not get.
    pub maybe_billed: bool,
    /// True if these are the attempts of a request that was cut into slices.
    pub is_sliced: bool,
    /// The number of attempts of slices that may still be kept each of its own.
    pub room: u16,
}

/// The most attempts of slices that are kept each of its own, for traces.
pub const MAX_PARTS: u16 = 256;

/// One attempt, as the access line shows it.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    /// The account's id.
    pub account: Arc<str>,
    /// The account's name for the model.
    pub model: Arc<str>,
    /// The kind of endpoint that was asked, unless it is chat.
    pub endpoint: Option<&'static str>,
    /// The outcome.
    pub outcome: &'static str,
    /// How many of these attempts were sent once more, since a connection that was used before
    /// ended before the answer.
    pub resent: u32,
    /// How many attempts of slices these were, if there was more than one: the beginning is the
    /// first one's, the times are the longest, and all else is the sum.
    pub count: u32,
    /// The time from the request's head until the attempt began.
    pub at_ms: u64,
    /// The time that the attempt took.
    pub ms: u64,
    /// The upstream's status.
    pub status: Option<u16>,
    /// The time until there was a connection.
    pub connect_ms: Option<u64>,
    /// The time until the upstream began its answer.
    pub first_ms: Option<u64>,
    /// The tokens read that may be charged for an answer that the caller did not get.
    pub prompt_tokens: Option<u64>,
    /// The tokens written that may be charged for an answer that the caller did not get.
    pub completion_tokens: Option<u64>,
    /// The cost of these tokens. `None` if no tokens are unused; `Some(None)` if the price is not
    /// known.
    pub cost: Option<Option<Usd>>,
    /// The message of the upstream or the network, without secrets and cut short.
    pub detail: Option<String>,
    /// True if the usage of the exchange comes from this attempt.
    pub gives_usage: bool,
    /// The attempt's span, if its account got the trace context.
    pub span: Option<SpanId>,
    /// The upstream's id of its answer, if the exchange is traced.
    pub labels: Option<Box<Labels>>,
    /// The attempts of slices that these were, if there was more than one and they are kept. The
    /// last may stand for several: those for which there was no room.
    pub parts: Vec<Tried>,
}

impl Tried {
    /// Returns how many attempts these were, behind this text, or nothing if it was one.
    pub fn count_text(&self, before: &str) -> String {
        if self.count == 1 {
            String::new()
        } else {
            format!("{before}{} times", self.count)
        }
    }

    /// Adds another attempt that ended in the same way.
    fn add_same(&mut self, other: &Tried) {
        self.count = self.count.saturating_add(other.count);
        self.resent = self.resent.saturating_add(other.resent);
        (self.at_ms, self.ms) = (self.at_ms.min(other.at_ms), self.ms.max(other.ms));
        (self.connect_ms, self.first_ms) = (
            self.connect_ms.max(other.connect_ms),
            self.first_ms.max(other.first_ms),
        );
        self.prompt_tokens = sum(self.prompt_tokens, other.prompt_tokens);
        self.completion_tokens = sum(self.completion_tokens, other.completion_tokens);
        self.gives_usage |= other.gives_usage;
        self.cost = match (self.cost, other.cost) {
            (Some(one), Some(other)) => Some(one.zip(other).map(|(one, other)| one.plus(other))),
            (one, other) => one.or(other),
        };
    }
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match one {
        Some(one) => Some(one.saturating_add(other.unwrap_or(0))),
        None => other,
    }
}

impl Attempts {
    /// Begins the attempts of a request that is cut into slices. With traces, the first of them are
    /// kept each of its own.
    pub fn of_slices(is_traced: bool) -> Attempts {
        Attempts {
            is_sliced: true,
            room: if is_traced { MAX_PARTS } else { 0 },
            ..Attempts::default()
        }
    }

    /// Adds an attempt of a slice: to those that ended in the same way, if there are some.
    pub fn add(&mut self, tried: Tried) {
        let Some(same) = self.trail.iter_mut().find(|one| {
            one.account == tried.account
                && one.model == tried.model
                && one.outcome == tried.outcome
                && one.status == tried.status
        }) else {
            return self.trail.push(tried);
        };
        if same.parts.is_empty() && self.room > 1 {
            same.parts.push(same.clone());
            self.room -= 1;
        }
        same.add_same(&tried);
        let Some(last) = same.parts.last_mut() else {
            return;
        };
        if self.room > 0 {
            same.parts.push(tried);
            self.room -= 1;
        } else {
            last.add_same(&tried);
        }
    }

    /// Returns the attempts, each of its own as far as they are kept so.
    pub fn every_attempt(&self) -> impl Iterator<Item = &Tried> {
        let own = |tried: &Tried| tried.parts.is_empty();
        self.trail.iter().flat_map(move |tried| {
            let whole = own(tried).then_some(tried);
            whole.into_iter().chain(&tried.parts)
        })
    }

    /// Returns the number of attempts.
    pub fn count(&self) -> u32 {
        self.trail
            .iter()
            .fold(0, |sum, tried| sum.saturating_add(tried.count))
    }
}

/// The parts of an exchange's time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    /// The time from the head's arrival until the caller was known.
    pub auth: Option<Duration>,
    /// The time from the body's last byte until the plan was made.
    pub plan: Option<Duration>,
    /// The time that the request waited for a free account.
    pub queued: Duration,
    /// The time from the head's arrival until the first byte of the answer's body left.
    pub first_byte: Option<Duration>,
    /// The time that the gateway itself was at work, and not waiting.
    pub own_time: Duration,
}

/// The amounts that an exchange took from its caller's limits.
#[derive(Debug, Clone, Default)]
pub struct Spending {
    /// The time at which the limits admitted the request, in milliseconds of Unix time.
    pub admitted: Option<u64>,
    /// The limit that refused the request.
    pub limited: Option<(Level, Kind)>,
    /// The answer's tokens.
    pub usage: Usage,
    /// The cost of these tokens. `None` if the price is not known, or if the request was not
    /// admitted.
    pub cost: Option<Usd>,
}

/// The tokens that may be charged for answers that the caller did not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unused {
    /// The tokens of these answers.
    pub tokens: u64,
    /// The cost of these tokens. `None` if a price is not known.
    pub cost: Option<Usd>,
}

impl Default for Unused {
    fn default() -> Unused {
        Unused {
            tokens: 0,
            cost: Some(Usd::ZERO),
        }
    }
}

impl Unused {
    /// Sums the unused tokens of all attempts.
    pub fn from_trail(trail: &[Tried]) -> Unused {
        let mut unused = Unused::default();
        for tried in trail {
            let Some(cost) = tried.cost else { continue };
            let tokens = tried
                .prompt_tokens
                .unwrap_or(0)
                .saturating_add(tried.completion_tokens.unwrap_or(0));
            unused.add(tokens, cost);
        }
        unused
    }

    /// Adds tokens and their cost. One unknown price makes the whole cost unknown. What has no
    /// tokens may cost something too, such as a picture.
    pub fn add(&mut self, tokens: u64, cost: Option<Usd>) {
        if tokens > 0 || cost.is_some_and(|cost| cost > Usd::ZERO) {
            self.tokens = self.tokens.saturating_add(tokens);
            self.cost = self.cost.zip(cost).map(|(sum, cost)| sum.plus(cost));
        }
    }
}

/// Returns a time in whole milliseconds.
pub fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a time in whole microseconds.
pub fn whole_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_attempts_that_end_alike_are_one_entry() {
        let one = Tried {
            account: "a".into(),
            model: "m".into(),
            endpoint: None,
            outcome: "ok",
            count: 1,
            at_ms: 4,
            ms: 7,
            status: Some(200),
            connect_ms: None,
            first_ms: Some(3),
            prompt_tokens: None,
            completion_tokens: None,
            cost: None,
            detail: None,
            ..Tried::default()
        };
        let failed = Tried {
            outcome: "cut",
            prompt_tokens: Some(5),
            cost: Some(Some(Usd(2))),
            ..one.clone()
        };
        let unpriced = Tried {
            cost: Some(None),
            account: "b".into(),
            ..failed.clone()
        };
        let slow = Tried {
            at_ms: 2,
            ms: 9,
            connect_ms: Some(1),
            first_ms: None,
            ..one.clone()
        };
        let mut attempts = Attempts::of_slices(true);
        for tried in [&one, &failed, &slow, &failed, &unpriced, &one] {
            attempts.add(tried.clone());
        }
        assert_eq!(attempts.count(), 6);
        // Each is still known of its own.
        let each: Vec<_> = attempts
            .every_attempt()
            .map(|tried| (tried.at_ms, tried.outcome, tried.count))
            .collect();
        assert_eq!(
            each,
            [
                (4, "ok", 1),
                (2, "ok", 1),
                (4, "ok", 1),
                (4, "cut", 1),
                (4, "cut", 1),
                (4, "cut", 1)
            ]
        );
        let shown = |tried: &Tried| {
            (
                tried.count,
                tried.at_ms,
                tried.ms,
                tried.connect_ms,
                tried.first_ms,
                tried.prompt_tokens,
            )
        };
        assert_eq!(
            attempts.trail.iter().map(shown).collect::<Vec<_>>(),
            [
                (3, 2, 9, Some(1), Some(3), None),
                (2, 4, 7, None, Some(3), Some(10)),
                (1, 4, 7, None, Some(3), Some(5))
            ]
        );
        assert_eq!(
            Unused::from_trail(&attempts.trail[..2]),
            Unused {
                tokens: 10,
                cost: Some(Usd(4))
            }
        );
        assert_eq!(
            Unused::from_trail(&attempts.trail),
            Unused {
                tokens: 15,
                cost: None
            }
        );
        assert_eq!(
            (
                &*attempts.trail[0].count_text(";"),
                &*attempts.trail[2].count_text(";")
            ),
            (";3 times", "")
        );
    }

    #[test]
    fn attempts_of_slices_are_kept_for_traces() {
        let slice = |at_ms| Tried {
            count: 1,
            at_ms,
            prompt_tokens: Some(1),
            ..Tried::default()
        };
        let all = |is_traced, times| {
            let mut attempts = Attempts::of_slices(is_traced);
            (0..times).for_each(|at_ms| attempts.add(slice(at_ms)));
            // Those that ended in another way have no room of their own.
            (0..2).for_each(|at_ms| {
                attempts.add(Tried {
                    outcome: "cut",
                    ..slice(at_ms)
                })
            });
            let parts: usize = attempts
                .trail
                .iter()
                .map(|tried| tried.parts.capacity().min(1))
                .sum();
            let each: Vec<_> = attempts
                .every_attempt()
                .map(|tried| (tried.count, tried.prompt_tokens))
                .collect();
            (attempts.count(), parts, each)
        };
        assert_eq!(
            all(false, 2_048),
            (2_050, 0, vec![(2_048, Some(2_048)), (2, Some(2))])
        );
        let (count, _, each) = all(true, 2_048);
        let most = usize::from(MAX_PARTS);
        assert_eq!((count, each.len()), (2_050, most + 1));
        assert_eq!(
            each[most - 2..],
            [(1, Some(1)), (1_793, Some(1_793)), (2, Some(2))]
        );
        assert_eq!(each.iter().map(|(times, _)| times).sum::<u32>(), count);
    }
}
