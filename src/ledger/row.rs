//! A [`Row`] is what the ledger keeps of one exchange. Pure.

use super::Run;
use crate::base::calendar::day_of;
use crate::conf::price::Usd;
use crate::error::Outcome;
use crate::figures::callers::CallerUse;
use crate::limits::Past;
use crate::settled::{Delivery, Incoming, Sender, Served, Settled, Spending, Unused, whole_millis};
use dialects::usage::Usage;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// One settled exchange that was admitted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// The time of the admission, in milliseconds of Unix time.
    pub admitted_at: u64,
    /// The request's id, as in the access line.
    pub request_id: String,
    /// The name of the door.
    pub door: Cow<'static, str>,
    /// The caller.
    pub caller: Arc<str>,
    /// The caller's key.
    pub key: Arc<str>,
    /// The model that was asked for.
    pub model: Arc<str>,
    /// The account that answered, or was asked last.
    pub account: Option<Arc<str>>,
    /// The account's name for the model.
    pub upstream_model: Option<Arc<str>>,
    /// The answer's tokens.
    pub usage: Usage,
    /// The cost of these tokens. `None` if the price is not known.
    pub cost: Option<Usd>,
    /// The tokens that may be charged for attempts whose answer no caller got.
    pub unused_tokens: u64,
    /// The cost of those tokens. `None` if it is not known.
    pub unused_cost: Option<Usd>,
    /// The outcome.
    pub outcome: &'static str,
    /// The number of attempts.
    pub attempts: u32,
    /// True if a stream was asked for.
    pub stream: bool,
    /// The status that the caller saw.
    pub status: u16,
    /// The time that the exchange took.
    pub total_ms: u64,
    /// The time until the answer began.
    pub first_byte_ms: Option<u64>,
    /// The exchange's place in the list of running ones, if it was in the list.
    pub run: Option<Run>,
}

impl Row {
    /// Returns the row of an exchange that was admitted at this time and has used nothing yet.
    pub fn at_start(admitted_at: u64, sender: &Sender, request: &Incoming) -> Row {
        let name = |name: &Option<Arc<str>>| name.clone().unwrap_or_default();
        Row {
            admitted_at,
            request_id: request.id.clone(),
            door: request.door.into(),
            caller: name(&sender.caller),
            key: name(&sender.key),
            model: name(&request.model),
            cost: Some(Usd::ZERO),
            outcome: Outcome::Shutdown.name(),
            stream: request.stream,
            ..Row::default()
        }
    }

    /// Returns the row of a settled exchange, if it was admitted. The row takes the names, since
    /// the exchange needs them no more.
    pub fn from_settled(settled: Settled, run: Option<Run>) -> Option<Row> {
        let unused = Unused::from_trail(&settled.attempts.trail);
        Some(Row {
            admitted_at: settled.spending.admitted?,
            request_id: settled.request.id,
            door: settled.request.door.into(),
            caller: settled.sender.caller?,
            key: settled.sender.key?,
            model: settled.request.model?,
            account: settled.served.account,
            upstream_model: settled.served.upstream_model,
            usage: settled.spending.usage,
            cost: settled.spending.cost,
            unused_tokens: unused.tokens,
            unused_cost: unused.cost,
            outcome: settled.outcome.name(),
            attempts: settled.attempts.count(),
            stream: settled.request.stream,
            status: settled.answer.status,
            total_ms: whole_millis(settled.total),
            first_byte_ms: settled.times.first_byte.map(whole_millis),
            run,
        })
    }

    /// Returns the settled exchange of the row, as far as the row has it, with this error.
    pub fn settled(&self, error: &str) -> Settled {
        let name = |name: &Arc<str>| Some(name.clone());
        let door = if let Cow::Borrowed(door) = self.door {
            door
        } else {
            "none"
        };
        Settled {
            began_at: self.admitted_at,
            sender: Sender {
                caller: name(&self.caller),
                key: name(&self.key),
                ..Sender::default()
            },
            request: Incoming {
                id: self.request_id.clone(),
                door,
                model: name(&self.model),
                stream: self.stream,
                ..Incoming::default()
            },
            answer: Delivery {
                status: self.status,
                error: Some(error.to_owned()),
                ..Delivery::default()
            },
            served: Served {
                account: self.account.clone(),
                upstream_model: self.upstream_model.clone(),
                ..Served::default()
            },
            spending: Spending {
                admitted: Some(self.admitted_at),
                usage: self.usage,
                cost: self.cost,
                ..Spending::default()
            },
            outcome: Outcome::Shutdown,
            total: Duration::from_millis(self.total_ms),
            ..Settled::default()
        }
    }

    /// Returns what the row adds to the use of its caller.
    pub fn caller_use(&self) -> CallerUse {
        CallerUse {
            requests: 1,
            tokens: self.usage.total(),
            usd: self.cost.unwrap_or_default(),
            unpriced: u64::from(self.cost.is_none()),
        }
    }

    /// Returns the memory that the row holds. Its names belong to the catalog.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Row>() + self.request_id.capacity()
    }

    /// Returns the use that the limits count for the row.
    pub(super) fn past_use(&self, now_ms: u64) -> Past {
        Past {
            used_at: self.admitted_at.min(now_ms),
            dated: Some(day_of(self.admitted_at)).filter(|day| *day > day_of(now_ms)),
            caller: self.caller.clone(),
            key: self.key.clone(),
            model: self.model.clone(),
            requests: 1,
            tokens: self.usage.total(),
            usd: self.cost.unwrap_or_default(),
            unpriced: u64::from(self.cost.is_none()),
            is_taken_over: false,
        }
    }
}
