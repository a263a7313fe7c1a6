//! A settled exchange is what is known of an exchange at its end. The access line, the metrics and
//! the ledger's row read it, so that a new fact is written in one place. Pure.

use crate::conf::price::Usd;
use crate::error::Outcome;
use crate::limits::{Kind, Level};
use dialects::Flaws;
use dialects::neutral::Losses;
use dialects::usage::Usage;
use serde::Serialize;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// One settled exchange.
#[derive(Debug, Default)]
pub struct Settled {
    /// When the request's head arrived, in milliseconds of Unix time.
    pub began_at: u64,
    /// Who sent the request.
    pub sender: Sender,
    /// What was asked for.
    pub request: Incoming,
    /// What the caller got.
    pub answer: Delivery,
    /// Who answered, and how.
    pub served: Served,
    /// The tries at upstream accounts.
    pub attempts: Attempts,
    /// What the time went into.
    pub times: Times,
    /// What was taken from the caller's limits.
    pub spending: Spending,
    /// How the exchange ended.
    pub outcome: Outcome,
    /// How long the exchange took.
    pub total: Duration,
}

/// Who sent a request.
#[derive(Debug, Default)]
pub struct Sender {
    /// The caller.
    pub caller: Option<Arc<str>>,
    /// The caller's key.
    pub key: Option<Arc<str>>,
    /// The address that the request came from.
    pub address: Option<IpAddr>,
}

/// What was asked for.
#[derive(Debug, Default)]
pub struct Incoming {
    /// The id that the caller gave, or one that was made here.
    pub id: String,
    /// The name of the door.
    pub door: &'static str,
    /// The method, cut short.
    pub method: String,
    /// The path without its query, cut short.
    pub path: String,
    /// The model's id, from the catalog and never from the request.
    pub model: Option<Arc<str>>,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// The size of the request's body.
    pub bytes: u64,
}

/// What the caller got.
#[derive(Debug, Default)]
pub struct Delivery {
    /// The status that the caller saw; 499 if the caller left, whatever it saw before.
    pub status: u16,
    /// The size of the answer's body.
    pub bytes: u64,
    /// What the caller was told if there was no answer.
    pub error: Option<String>,
}

/// Who answered, and how.
#[derive(Debug, Default)]
pub struct Served {
    /// The account that answered, or was asked last.
    pub account: Option<Arc<str>>,
    /// That account's name for the model.
    pub upstream_model: Option<Arc<str>>,
    /// The upstream's own id for the request.
    pub upstream_request_id: Option<String>,
    /// Fields of the request that the upstream was not told, and what is wrong with its answer.
    pub losses: Losses,
    /// What is wrong with the answer, though it is whole.
    pub flaws: Flaws,
}

/// The tries at upstream accounts.
#[derive(Debug, Default)]
pub struct Attempts {
    /// Each of them, in the order in which they ended.
    pub trail: Vec<Tried>,
    /// Whether a second attempt beside a slow first one was faster; none if there was no second.
    pub hedge_won: Option<bool>,
    /// Why no further attempt was made, although there was another account.
    pub not_retried: Option<&'static str>,
    /// No account was free, and the queue was full.
    pub shed: bool,
    /// An upstream may charge for an answer that the caller did not get.
    pub maybe_billed: bool,
}

/// One attempt, as the access line shows it.
#[derive(Debug, Clone, Serialize)]
pub struct Tried {
    /// The account's id.
    pub account: Arc<str>,
    /// The account's name for the model.
    pub model: Arc<str>,
    /// How it ended.
    pub outcome: &'static str,
    /// How long it took.
    pub ms: u64,
    /// The upstream's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long it took to have a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_ms: Option<u64>,
    /// How long the upstream took to begin its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_ms: Option<u64>,
    /// Tokens read that may be charged for an answer that the caller did not get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Tokens written that may be charged for an answer that the caller did not get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    /// What these tokens cost, if the price is known.
    #[serde(rename = "cost_usd", skip_serializing_if = "Option::is_none")]
    pub cost: Option<Option<Usd>>,
    /// What the upstream or the network said, without secrets and cut short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// What the time of an exchange went into.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    /// From the head's arrival until it was known who asks.
    pub auth: Option<Duration>,
    /// From the body's last byte until it was known who may be asked.
    pub plan: Option<Duration>,
    /// How long the request waited for a free account.
    pub queued: Duration,
    /// From the head's arrival until the first byte of the answer's body left.
    pub first_byte: Option<Duration>,
    /// How long the gateway itself was at work, and not waiting.
    pub own: Duration,
}

/// What an exchange took from its caller's limits.
#[derive(Debug, Default)]
pub struct Spending {
    /// When the limits let it in, in milliseconds of Unix time.
    pub admitted: Option<u64>,
    /// The limit that did not let it in.
    pub limited: Option<(Level, Kind)>,
    /// The answer's tokens.
    pub usage: Usage,
    /// What the tokens cost. None: the price is not known, or the limits did not let it in.
    pub cost: Option<Usd>,
}

/// What may be charged for answers that the caller did not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unused {
    /// The tokens of these answers.
    pub tokens: u64,
    /// What these tokens cost. None: a price is not known.
    pub cost: Option<Usd>,
}

impl Default for Unused {
    fn default() -> Unused {
        Unused { tokens: 0, cost: Some(Usd::ZERO) }
    }
}

impl Unused {
    /// Adds up what a trail of attempts has of it.
    pub fn of(trail: &[Tried]) -> Unused {
        let mut unused = Unused::default();
        for tried in trail {
            let tokens = tried.prompt_tokens.unwrap_or(0).saturating_add(tried.completion_tokens.unwrap_or(0));
            unused.add(tokens, tried.cost.flatten());
        }
        unused
    }

    /// Adds tokens. One unknown price makes the whole cost unknown.
    pub fn add(&mut self, tokens: u64, cost: Option<Usd>) {
        if tokens > 0 {
            self.tokens = self.tokens.saturating_add(tokens);
            self.cost = self.cost.zip(cost).map(|(sum, cost)| sum.plus(cost));
        }
    }
}

/// Returns a time in whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
