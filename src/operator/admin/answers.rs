//! The answers that are made of what the process knows.

use super::{ANSWER_TIMEOUT, FullPage, PLAIN, Page};
use crate::base::calendar;
use crate::ledger::Ledger;
use crate::ledger::report::{Answer, Query, Unanswered, query_pairs};
use crate::limits;
use crate::live::Live;
use crate::live::key_summary::MAX_LISTED;
use crate::store::Store;
use http::HeaderMap;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::Instant;

/// Answers with a part of the page. A browser that has it already gets 304.
pub(super) fn asset_page(kind: &'static str, text: &'static str, headers: &HeaderMap) -> FullPage {
    let digest = Sha256::digest(text);
    let tag: String = digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let tag = format!("\"{tag}\"");
    let known = headers
        .get(http::header::IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok());
    let is_known = known.is_some_and(|known| known.contains(&tag));
    let (status, text) = if is_known { (304, "") } else { (200, text) };
    // It is kept, and asked for each time.
    let headers = vec![("cache-control", "no-cache".to_owned()), ("etag", tag)];
    FullPage {
        page: (status, kind, text.to_owned()),
        headers,
        permit: None,
    }
}

/// Answers from the ledger, on another thread, since reading may take long.
pub(super) async fn usage_page(ledger: &Arc<Ledger>, query: &str) -> Page {
    let query = match Query::from_url(query, calendar::now_millis()) {
        Ok(query) => query,
        Err(why) => return (400, PLAIN, format!("{why}\n")),
    };
    if !ledger.is_on() {
        return (
            404,
            PLAIN,
            "the ledger is switched off: `ledger.enabled` is false in server.yaml\n".to_owned(),
        );
    }
    let deadline = Instant::now() + ANSWER_TIMEOUT.mul_f64(0.8);
    let (ledger, csv) = (ledger.clone(), query.csv);
    let write = move |answer: Answer| if csv { answer.csv() } else { answer.json() };
    let answered = tokio::task::spawn_blocking(move || {
        let answer = ledger.answer(&query, deadline);
        answer.map(|answer| answer.map(write))
    });
    match answered.await {
        Ok(Ok(Some(text))) => (
            200,
            if csv {
                "text/csv; charset=utf-8"
            } else {
                "application/json"
            },
            text,
        ),
        Ok(Ok(None)) => (503, PLAIN, "the ledger has no file yet\n".to_owned()),
        Ok(Err(why)) => (
            if let Unanswered::TooMuch(_) = why {
                400
            } else {
                503
            },
            PLAIN,
            format!("{why}\n"),
        ),
        Err(why) => (500, PLAIN, format!("the ledger could not be read: {why}\n")),
    }
}

/// Shows the state of all limits, or of one caller's: the first [`MAX_LISTED`] callers, keys and
/// keys' models by name.
pub(super) async fn limits_page(live: &Live, store: Option<&Store>, query: &str) -> Page {
    let texts = match query_pairs(query, &["caller"]) {
        Ok(texts) => texts,
        Err(why) => return (400, PLAIN, format!("{why}\n")),
    };
    let caller = texts.get("caller");
    let snapshot = live.load_full();
    let (mut bounds, total) = match caller {
        Some(caller) => {
            let bounds = snapshot.bounds(snapshot.catalog.caller_keys(caller).iter());
            let mut bounds: Vec<limits::Bound<'_>> = bounds.map(|(_, bound)| bound).collect();
            bounds.sort_unstable_by(|a, b| a.scope.name.cmp(&b.scope.name));
            let total = bounds.len();
            (bounds, total)
        }
        None => snapshot.first_bounds(),
    };
    bounds.truncate(MAX_LISTED);
    let more = total - bounds.len();
    let shared_counts = match store {
        Some(store) => {
            let scopes: Vec<_> = bounds.iter().map(|bound| bound.scope.clone()).collect();
            tokio::time::timeout(ANSWER_TIMEOUT / 2, store.total_counts(&scopes))
                .await
                .ok()
                .flatten()
        }
        None => None,
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
    let reports: Vec<_> = bounds
        .iter()
        .zip(&counts)
        .map(|(bound, counts)| crate::limits::scope_report(bound, counts, now))
        .collect();
    (
        200,
        "application/json",
        format!(
            "{:#}\n",
            json!({ "counted": counted, "limits": reports, "more": more })
        ),
    )
}

/// Ends an account's rests and closes its breakers.
pub(super) fn reset_account(live: &Live, account: &str) -> Page {
    let snapshot = live.load();
    match snapshot.states.iter().find(|state| *state.id == *account) {
        Some(state) => {
            state.reset();
            log::info!(
                "account {account} was reset by an operator: its rests have ended, and its breakers are closed"
            );
            (204, PLAIN, String::new())
        }
        None => (
            404,
            PLAIN,
            "the catalog has no account with this name\n".to_owned(),
        ),
    }
}
