//! One row of the ledger. Pure.

use super::{Run, days};
use crate::limits::Past;
use crate::price::Usd;
use dialects::usage::Usage;
use std::sync::Arc;

/// One settled exchange that was admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// When it was admitted, in milliseconds of Unix time.
    pub at: u64,
    /// As in the access line.
    pub request_id: String,
    /// Who asked.
    pub caller: Arc<str>,
    /// With which key.
    pub key: Arc<str>,
    /// For which model.
    pub model: Arc<str>,
    /// Who answered, or was asked last.
    pub account: Option<Arc<str>>,
    /// Its name for the model.
    pub upstream_model: Option<Arc<str>>,
    /// The answer's tokens.
    pub usage: Usage,
    /// What they cost. None: nobody knows the price.
    pub cost: Option<Usd>,
    /// Tokens that may be charged for attempts whose answer nobody got.
    pub unused_tokens: u64,
    /// What those cost. None: nobody knows.
    pub unused_cost: Option<Usd>,
    /// How it ended.
    pub outcome: &'static str,
    /// How many attempts there were.
    pub attempts: u32,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// The status that the caller saw.
    pub status: u16,
    /// How long it took.
    pub total_ms: u64,
    /// How long it took until the answer began.
    pub first_byte_ms: Option<u64>,
    /// Where it stood while it ran, if it was among those that run.
    pub run: Option<Run>,
}

impl Row {
    /// The memory that it holds. Names belong to the catalog.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Row>() + self.request_id.capacity()
    }

    /// What limits are told of it.
    pub(super) fn past(&self, now_ms: u64) -> Past {
        Past {
            at: self.at.min(now_ms),
            dated: Some(days::day_of(self.at)).filter(|day| *day > days::day_of(now_ms)),
            caller: self.caller.clone(),
            key: self.key.clone(),
            model: self.model.clone(),
            requests: 1,
            tokens: self.usage.total(),
            usd: self.cost.unwrap_or_default(),
            unpriced: u64::from(self.cost.is_none()),
            cut: false,
        }
    }
}
