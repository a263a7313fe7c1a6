//! A key may ask about itself: what it may use, what is left of its limits, and what it has used.
//!
//! **Invariant:** an answer names no account and no other key. It has amounts of money only if the
//! caller's answers say what they cost. Nothing here waits for the ledger's file on the threads
//! that serve requests.

use super::Desk;
use super::door::Own;
use crate::base::calendar;
use crate::catalog::Key;
use crate::error::{FailureKind, Refusal};
use crate::exchange::backends::Backends;
use crate::ledger::Ledger;
use crate::ledger::report::{Query, Unanswered};
use crate::limits::{self, Bound, KeyScopes};
use crate::live::Snapshot;
use bytes::Bytes;
use pingora_proxy::Session;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// The most models that are listed.
const MAX_MODELS: usize = 1_000;
/// The longest wait for the counts of all gateways.
const SHARED_COUNTS_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest time for an answer from the ledger.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(5);
/// The most questions to the ledger at once. Others wait.
static LEDGER_PERMITS: Semaphore = Semaphore::const_new(4);

impl Desk {
    /// Answers what a key asks about itself.
    pub(super) async fn answer_about_key(
        &self,
        session: &Session,
        snapshot: &Arc<Snapshot>,
        key: &Arc<Key>,
        question: Own,
    ) -> Result<Bytes, Refusal> {
        match question {
            Own::Key => Ok(describe_key(snapshot, key, &self.backends).await),
            Own::Usage => {
                key_usage(
                    &self.books.ledger,
                    key,
                    session.req_header().uri.query().unwrap_or(""),
                )
                .await
            }
        }
    }
}

/// Refuses a key that asks more than once a second.
pub(super) fn not_too_often(snapshot: &Snapshot, key: &Key) -> Result<(), Refusal> {
    let used = snapshot.key_scopes(key).map(
        |KeyScopes {
             last_used: used, ..
         }| used,
    );
    if used.is_none_or(|used| used.may_ask(calendar::now_millis())) {
        return Ok(());
    }
    let message = "A key may ask about itself once a second. Try again in 1s.";
    Err(Refusal::new(FailureKind::OverLimit, message).retry_after(1))
}

/// Describes a key: its names, its end, its models and its limits.
pub(super) async fn describe_key(
    snapshot: &Arc<Snapshot>,
    key: &Arc<Key>,
    backends: &Backends,
) -> Bytes {
    let bounds: Vec<Bound<'_>> = snapshot
        .key_scopes(key)
        .map(|scopes| scopes.every(key).collect())
        .unwrap_or_default();
    let shared_counts = match &backends.store {
        Some(store) if !bounds.is_empty() => {
            let scopes: Vec<_> = bounds.iter().map(|bound| bound.scope.clone()).collect();
            tokio::time::timeout(SHARED_COUNTS_TIMEOUT, store.total_counts(&scopes))
                .await
                .ok()
                .flatten()
        }
        Some(_) | None => None,
    };
    let counted = if shared_counts.is_some() {
        "all instances"
    } else {
        "this instance"
    };
    let now = calendar::now_millis();
    let counts = shared_counts.unwrap_or_else(|| {
        bounds
            .iter()
            .map(|bound| bound.scope.own_counts(now))
            .collect()
    });
    let shows_money = key.caller.expose_cost;
    let limits: Vec<Value> = bounds
        .iter()
        .zip(&counts)
        .filter_map(|(bound, counts)| limits::standing_json(bound, counts, now, shows_money))
        .collect();
    // There may be thousands of names.
    let (shared_snapshot, whose) = (snapshot.clone(), key.clone());
    let (names, more) = tokio::task::spawn_blocking(move || model_names(&shared_snapshot, &whose))
        .await
        .unwrap_or_default();
    let ends = [key.expires, key.caller.expires]
        .into_iter()
        .flatten()
        .min();
    let description = json!({
        "key": &*key.id,
        "caller": &*key.caller.id,
        "time": calendar::format_time(now),
        "expires": ends.map(calendar::format_system_time),
        "models": names.iter().map(|name| &**name).collect::<Vec<_>>(),
        "more_models": more,
        "counted": counted,
        "limits": limits,
    });
    format!("{description:#}\n").into()
}

/// Returns the names of the models that a key may use, and the number of further ones.
fn model_names(snapshot: &Snapshot, key: &Key) -> (Vec<Arc<str>>, usize) {
    let models = snapshot.catalog.listed(&key.permissions);
    let mut names: Vec<_> = models
        .iter()
        .flat_map(|model| std::iter::once(&model.id).chain(&model.aliases))
        .cloned()
        .collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(MAX_MODELS);
    names.truncate(MAX_MODELS);
    (names, more)
}

/// Answers what a key has used.
pub(super) async fn key_usage(
    ledger: &Arc<Ledger>,
    key: &Key,
    query: &str,
) -> Result<Bytes, Refusal> {
    let query = Query::for_key(query, &key.id, calendar::now_millis()).map_err(invalid_query)?;
    let none = |message: &'static str| Refusal::new(FailureKind::NoLedger, message);
    if !ledger.is_on() {
        return Err(
            none("This gateway keeps no ledger, so nobody knows what was used.").without_retry(),
        );
    }
    let busy = || none("The ledger is busy. Try again shortly.").retry_after(1);
    let deadline = Instant::now() + LEDGER_TIMEOUT;
    let Ok(Ok(permit)) = tokio::time::timeout(LEDGER_TIMEOUT / 2, LEDGER_PERMITS.acquire()).await
    else {
        return Err(busy());
    };
    let (ledger, shows_money) = (ledger.clone(), key.caller.expose_cost);
    let answered = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let answer = ledger.answer_to_key(&query, deadline);
        answer.map(|answer| answer.map(|answer| answer.own_json(shows_money)))
    });
    match answered.await {
        Ok(Ok(Some(json))) => Ok(json.into()),
        Ok(Ok(None)) => Err(none("The ledger is not there yet. Try again shortly.").retry_after(1)),
        Ok(Err(why @ Unanswered::TooMuch(_))) => Err(invalid_query(why.to_string())),
        Ok(Err(Unanswered::Busy | Unanswered::TooLong(_))) => Err(busy()),
        // Where the file is, and what is wrong with it, is for the operator.
        Ok(Err(Unanswered::Unreadable(_))) | Err(_) => {
            Err(none("The ledger cannot be read now.").retry_after(10))
        }
    }
}

fn invalid_query(why: String) -> Refusal {
    let what = FailureKind::BadRequest {
        code: Some("invalid_value"),
    };
    Refusal::new(what, why)
}
