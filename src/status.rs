//! A status is what a running gateway reports about itself at `/status`. The admin listener writes
//! it; `explain --status` and `key …` read it back.
//!
//! **Invariant:** fields stand in the order of their names, as they do on the page. What a reader
//! can do without has a default: the gateway that wrote the page may have another version.

use crate::account::health::Why;
use crate::drain::Phase;
use serde::{Deserialize, Serialize};

/// The whole page.
#[derive(Debug, Serialize, Deserialize)]
pub struct Status {
    /// Each account of the catalog.
    pub accounts: Vec<AccountReport>,
    /// The catalog that is served.
    #[serde(default)]
    pub catalog: CatalogReport,
    /// How many exchanges run.
    #[serde(default)]
    pub exchanges: usize,
    /// The keys that were used last.
    #[serde(default)]
    pub keys: Vec<KeyReport>,
    /// The ledger.
    #[serde(default)]
    pub ledger: LedgerReport,
    /// Each model of the catalog.
    pub models: Vec<ModelReport>,
    /// How far the way down has gone.
    pub phase: Phase,
    /// What `/readyz` answers.
    #[serde(default)]
    pub ready: bool,
    /// The store that instances share, if there is one.
    pub store: Option<StoreReport>,
    /// For how long the process serves.
    #[serde(default)]
    pub uptime_seconds: u64,
    /// The program's version.
    #[serde(default)]
    pub version: String,
}

/// An account.
#[derive(Debug, Serialize, Deserialize)]
pub struct AccountReport {
    /// How many requests it may have at once.
    pub concurrency: Option<usize>,
    /// Its dialect's name.
    #[serde(default)]
    pub dialect: String,
    /// The share of the quota that is left at the target that has the least.
    pub headroom: Option<f64>,
    /// Its name in the catalog.
    pub id: String,
    /// Connections that wait for a request.
    #[serde(default)]
    pub idle_connections: usize,
    /// How many requests it has now.
    pub in_flight: usize,
    /// Whether requests are sent to it.
    pub state: AccountState,
    /// Its targets.
    pub targets: Vec<TargetReport>,
}

/// Whether requests are sent to an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountState {
    /// Requests are sent to it.
    Ok,
    /// The catalog turns it off.
    Disabled,
    /// At least one of its targets rests, since its provider limits the rate.
    CoolingRate,
    /// It rests, since its credential failed or its money is gone.
    CoolingCredential,
}

impl AccountState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Disabled, Self::CoolingRate, Self::CoolingCredential];

    /// Returns the word of metrics and of the page.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Disabled => "disabled",
            Self::CoolingRate => "cooling_rate",
            Self::CoolingCredential => "cooling_credential",
        }
    }
}

/// A target.
#[derive(Debug, Serialize, Deserialize)]
pub struct TargetReport {
    /// How many requests wait for its first token.
    pub awaited: usize,
    /// Its breaker.
    pub breaker: BreakerReport,
    /// The calls that the breaker looks at.
    pub calls: u64,
    /// How many of them failed.
    pub failed: u64,
    /// The expected time to a stream's first token.
    pub first_token_ms: Option<u64>,
    /// The share of the quota that is left.
    pub headroom: Option<f64>,
    /// How it failed last, if it has not answered since.
    pub last_failure: Option<FailureReport>,
    /// The account's name for the model.
    pub model: String,
    /// When its breaker lets a request through again.
    pub opens_in_ms: Option<u64>,
    /// Its rest, or its account's.
    pub rest: Option<RestReport>,
    /// The expected time to a whole answer.
    pub whole_ms: Option<u64>,
}

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "as in the breaker's own state")]
pub enum BreakerReport {
    Closed,
    Open,
    HalfOpen,
}

/// The last failure of a target.
#[derive(Debug, Serialize, Deserialize)]
pub struct FailureReport {
    /// How long ago it was.
    pub ago_ms: u64,
    /// What only operators get.
    pub detail: Option<String>,
    /// The word of the access line.
    pub outcome: String,
}

/// The rest of a target or of its account.
#[derive(Debug, Serialize, Deserialize)]
pub struct RestReport {
    /// How long it still lasts.
    pub for_ms: u64,
    /// Its reason.
    pub why: Why,
}

/// The catalog that is served, and what the files hold that is not served.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CatalogReport {
    /// How many accounts it has.
    pub accounts: usize,
    /// How many callers it has.
    pub callers: usize,
    /// The files that changed last.
    pub files: Vec<FileReport>,
    /// The folder that is watched.
    pub folder: Option<FolderReport>,
    /// Counts the catalogs of this process.
    pub generation: u64,
    /// The hash of its files.
    pub hash: String,
    /// Why a change is held back.
    pub held: Option<String>,
    /// How many keys it has.
    pub keys: usize,
    /// The last refusal.
    pub last_refusal: Option<RefusalReport>,
    /// When it was loaded.
    pub loaded: String,
    /// How many models it has.
    pub models: usize,
    /// The change that is not live yet.
    pub waiting: Option<ChangeReport>,
    /// What its files should not say.
    pub warnings: Vec<String>,
}

/// A file of the catalog.
#[derive(Debug, Serialize, Deserialize)]
pub struct FileReport {
    /// Its name in the folder.
    pub file: String,
    /// An edit from before this time is live.
    pub live_as_of: String,
}

/// The folder that is served: its device and inode tell it from any other.
#[derive(Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as the system names them")]
pub struct FolderReport {
    pub device: Option<u64>,
    pub inode: Option<u64>,
    pub path: String,
}

/// The refusal of a catalog.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RefusalReport {
    /// Each problem.
    pub reasons: Vec<String>,
    /// Whether the files still hold what was refused.
    pub standing: bool,
    /// When it was.
    pub time: String,
    /// The files whose last good text serves on.
    pub withheld: Vec<String>,
}

/// A change that is not live yet.
#[derive(Debug, Serialize, Deserialize)]
pub struct ChangeReport {
    /// The files that are being written without an end.
    pub endless: Vec<EndlessReport>,
    /// The files that changed.
    pub files: Vec<String>,
    /// How long it has waited.
    pub for_ms: u64,
}

/// A file that is being written without an end.
#[derive(Debug, Serialize, Deserialize)]
pub struct EndlessReport {
    /// Its name in the folder.
    pub file: String,
    /// For how long it has been written.
    pub for_ms: u64,
}

/// A key that was used.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeyReport {
    /// `caller/key`.
    pub id: String,
    /// When it was used last.
    pub last_used: String,
    /// When it was used last with a secret that is replaced.
    pub old_hash_last_used: Option<String>,
}

/// The ledger.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LedgerReport {
    /// Rows dropped since the start.
    pub dropped: u64,
    /// Its file.
    pub path: String,
    /// Why it cannot be written.
    pub problem: Option<String>,
    /// Rows written since the start.
    pub rows: u64,
    /// Whether it is written.
    pub state: LedgerState,
    /// Rows that wait to be written.
    pub waiting: u64,
}

/// Whether the ledger is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerState {
    /// The file is written.
    Ok,
    /// The file cannot be written; the ledger tries again and again.
    Failing,
    /// The settings turn the ledger off.
    #[default]
    Off,
}

/// A model.
#[derive(Debug, Serialize, Deserialize)]
pub struct ModelReport {
    /// Its public id.
    pub id: String,
    /// The share of its retry budget that is spent.
    pub retry_budget_spent: f64,
    /// How many requests wait in its queue.
    pub waiting: usize,
}

/// The store that instances share.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreReport {
    /// Where it is.
    pub address: String,
    /// How far its clock is ahead of ours.
    pub clock_ahead_ms: i64,
    /// Why it is down.
    pub error: Option<String>,
    /// How long its state has lasted.
    pub for_seconds: u64,
    /// The gateways that live.
    pub live: usize,
    /// Whether it decides.
    pub state: StoreState,
    /// How many counts wait to be sent.
    pub waiting: usize,
}

/// Whether the store decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreState {
    /// The store is not asked: there is no connection, or it is too slow.
    #[default]
    Down,
    /// The store answers, but other gateways have not sent all that they count: each gateway uses
    /// its share of each limit.
    Joining,
    /// The store decides.
    Up,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, to_string_pretty};

    #[test]
    fn a_page_is_read_and_written_the_same_with_its_fields_in_the_order_of_their_names() {
        let target = json!({
            "awaited": 1, "breaker": "half_open", "calls": 9, "failed": 2, "first_token_ms": 7, "headroom": 0.42,
            "last_failure": { "ago_ms": 1, "detail": null, "outcome": "reset" }, "model": "x", "opens_in_ms": null,
            "rest": { "for_ms": 5, "why": "rate" }, "whole_ms": null,
        });
        let page = json!({
            "accounts": [{
                "concurrency": null, "dialect": "openai", "headroom": 0.42, "id": "a", "idle_connections": 3,
                "in_flight": 1, "state": "cooling_rate", "targets": [target],
            }],
            "catalog": {
                "accounts": 1, "callers": 1, "files": [{ "file": "catalog.yaml", "live_as_of": "2026" }],
                "folder": { "device": 1, "inode": null, "path": "/c" }, "generation": 1, "hash": "h", "held": null,
                "keys": 1, "loaded": "2026", "models": 1, "warnings": ["w"],
                "last_refusal": { "reasons": ["r"], "standing": true, "time": "2026", "withheld": [] },
                "waiting": { "endless": [{ "file": "f", "for_ms": 1 }], "files": ["f"], "for_ms": 2 },
            },
            "exchanges": 1,
            "keys": [{ "id": "acme/prod", "last_used": "2026", "old_hash_last_used": null }],
            "ledger": { "dropped": 0, "path": "l", "problem": null, "rows": 1, "state": "ok", "waiting": 0 },
            "models": [{ "id": "m", "retry_budget_spent": 0.0, "waiting": 0 }],
            "phase": "delaying", "ready": true, "uptime_seconds": 1, "version": "1",
            "store": {
                "address": "s", "clock_ahead_ms": -1, "error": null, "for_seconds": 1, "live": 2, "state": "up",
                "waiting": 0,
            },
        });
        let read: Status = serde_json::from_value(page.clone()).expect("a status");
        assert_eq!(to_string_pretty(&read).expect("JSON"), format!("{page:#}"));
    }
}
