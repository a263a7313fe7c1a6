//! A [`Status`] is what a running gateway reports about itself at `/status`. The admin listener
//! writes it; `explain --status`, `doctor --status` and `key …` read it.
//!
//! **Invariant:** fields are in the order of their names, as on the page, but the verdict is the
//! first. A field that a reader can do without has a default, since the gateway that wrote the page
//! may have another version.

mod problem;

pub use crate::account::condition::{AccountState, Reason, TargetState};
use crate::account::health::Why;
use crate::drain::Phase;
pub use problem::{ProblemReport, Severity, SubjectReport};
use serde::{Deserialize, Serialize};

/// The whole page `/status`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Status {
    /// The sentence that an operator reads first.
    #[serde(default)]
    pub verdict: VerdictReport,
    /// The accounts of the catalog.
    pub accounts: Vec<AccountReport>,
    /// The catalog that is served.
    #[serde(default)]
    pub catalog: CatalogReport,
    /// The file descriptors of the process.
    #[serde(default)]
    pub descriptors: DescriptorsReport,
    /// The number of running exchanges.
    #[serde(default)]
    pub exchanges: usize,
    /// The keys that were used last.
    #[serde(default)]
    pub keys: Vec<KeyReport>,
    /// The ledger.
    #[serde(default)]
    pub ledger: LedgerReport,
    /// The models of the catalog.
    pub models: Vec<ModelReport>,
    /// The number of problems that are not listed.
    #[serde(default)]
    pub more_problems: usize,
    /// The phase of the process.
    pub phase: Phase,
    /// The problems: critical ones first, and then those that have lasted longest.
    #[serde(default)]
    pub problems: Vec<ProblemReport>,
    /// True if `/readyz` says that the process is ready.
    #[serde(default)]
    pub ready: bool,
    /// The store that instances share, if there is one.
    pub store: Option<StoreReport>,
    /// The targets that were not asked, because money is limited and their price is not known.
    #[serde(default)]
    pub unpriced: Vec<UnpricedReport>,
    /// The time for which the process has served, in seconds.
    #[serde(default)]
    pub uptime_seconds: u64,
    /// The program's version.
    #[serde(default)]
    pub version: String,
}

/// A word for the whole gateway, and a sentence.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VerdictReport {
    /// The word: `ok`, `empty`, `degraded`, `failing` or `draining`.
    pub word: String,
    /// The sentence.
    #[serde(rename = "says")]
    pub sentence: String,
    /// The next steps, in this order, if nothing is served yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
}

/// The file descriptors of the process.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DescriptorsReport {
    /// The most connections of callers at once.
    pub connections: usize,
    /// True if none is free for another connection, or was a moment ago.
    pub lacking: bool,
    /// The most files that the process may have open.
    pub limit: u64,
}

/// An account.
#[derive(Debug, Serialize, Deserialize)]
pub struct AccountReport {
    /// The most requests that the account may have at once.
    pub concurrency: Option<usize>,
    /// The name of the account's dialect.
    #[serde(default)]
    pub dialect: String,
    /// The share of the quota that is left at the target with the least.
    pub headroom: Option<f64>,
    /// The account's name in the catalog.
    pub id: String,
    /// The credential that is obtained anew again and again, if the account has such a one.
    #[serde(default)]
    pub identity: Option<IdentityReport>,
    /// The number of connections that wait for a request.
    #[serde(default)]
    pub idle_connections: usize,
    /// The number of requests that the account has now.
    pub in_flight: usize,
    /// The list of the models that the provider has, if a pattern of the catalog needs it.
    #[serde(default)]
    pub list: Option<ListReport>,
    /// The reason why the account is not ok.
    #[serde(default)]
    pub reason: Option<Reason>,
    /// The state, which says whether requests are sent to the account.
    pub state: AccountState,
    /// The account's targets.
    pub targets: Vec<TargetReport>,
}

/// The credential that an account obtains anew again and again.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct IdentityReport {
    /// The reason why the last fetch failed, if it did.
    pub failure: Option<String>,
    /// Whom the provider takes the gateway for: an ARN, a client id, or a service account. `None`
    /// if there is no credential, or its source does not say.
    pub name: Option<String>,
    /// The time at which the credential ends. `None` if there is none.
    pub until: Option<String>,
}

/// The list of a provider's models.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ListReport {
    /// The time since the list was fetched. `None` if it never was.
    pub age_seconds: Option<u64>,
    /// The reason why the last fetch failed, if it did.
    pub failure: Option<String>,
    /// The time of that failure.
    pub failure_time: Option<String>,
    /// The number of names that were left out.
    pub left_out: usize,
    /// The number of names that can be served.
    pub names: usize,
}

/// A target.
#[derive(Debug, Serialize, Deserialize)]
pub struct TargetReport {
    /// The number of requests that wait for the target's first token.
    pub awaited: usize,
    /// The time for which the target still stands behind the others, since callers have given it
    /// up.
    #[serde(default)]
    pub behind_for_ms: Option<u64>,
    /// The state of the target's breaker.
    pub breaker: BreakerReport,
    /// The number of calls that the breaker looks at.
    pub calls: u64,
    /// The kind of endpoint of the account.
    #[serde(default)]
    pub endpoint: String,
    /// The number of these calls that failed.
    pub failed: u64,
    /// The expected time to a stream's first token.
    pub first_token_ms: Option<u64>,
    /// The number of callers who gave the target up within the last minute.
    #[serde(default)]
    pub given_up: u64,
    /// The share of the quota that is left.
    pub headroom: Option<f64>,
    /// The last failure, if the target has not answered since.
    pub last_failure: Option<FailureReport>,
    /// The account's name for the model.
    pub model: String,
    /// The time until the breaker lets a request through again.
    pub opens_in_ms: Option<u64>,
    /// True while a request tests whether the target works again.
    #[serde(default)]
    pub probing: bool,
    /// The reason why the target is not ok.
    #[serde(default)]
    pub reason: Option<Reason>,
    /// The rest of the target, or of its account.
    pub rest: Option<RestReport>,
    /// The state, which says whether requests are sent to the target.
    #[serde(default)]
    pub state: TargetState,
    /// The expected time to a whole answer, by which targets are chosen. It falls while nobody
    /// asks, and after some minutes it is not known any more.
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
    /// The time since the failure.
    pub ago_ms: u64,
    /// The detail that only operators get.
    pub detail: Option<String>,
    /// The outcome, as the access line names it.
    pub outcome: String,
    /// The HTTP status of the upstream's answer, if it had one.
    #[serde(default)]
    pub status: Option<u16>,
}

/// The rest of a target or of its account.
#[derive(Debug, Serialize, Deserialize)]
pub struct RestReport {
    /// The time that the rest still lasts.
    pub for_ms: u64,
    /// The reason for the rest.
    pub why: Why,
}

/// The catalog that is served, and what the files have that is not served.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CatalogReport {
    /// The number of accounts.
    pub accounts: usize,
    /// The number of callers.
    pub callers: usize,
    /// The files that changed last.
    pub files: Vec<FileReport>,
    /// The folder that is watched.
    pub folder: Option<FolderReport>,
    /// The number of this catalog, counted from the start of the process.
    pub generation: u64,
    /// The hash of the catalog that is served: `live.hash` of `/catalog`.
    pub hash: String,
    /// The reason why a change is held back.
    pub held: Option<String>,
    /// The number of keys.
    pub keys: usize,
    /// The last refusal.
    pub last_refusal: Option<RefusalReport>,
    /// The time at which the catalog was loaded.
    pub loaded: String,
    /// The number of models.
    pub models: usize,
    /// The change that is not live yet.
    pub waiting: Option<ChangeReport>,
    /// The warnings about the catalog's files.
    pub warnings: Vec<String>,
}

/// A file of the catalog.
#[derive(Debug, Serialize, Deserialize)]
pub struct FileReport {
    /// The file's name in the folder.
    pub file: String,
    /// A time: any edit from before it is live.
    pub live_as_of: String,
}

/// The folder that is served. Its device and inode tell it from any other folder.
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
    /// The problems.
    pub reasons: Vec<String>,
    /// True if the files still have what was refused.
    pub standing: bool,
    /// The time of the refusal.
    pub time: String,
    /// The files that are served with their last good text.
    pub withheld: Vec<String>,
}

/// A change that is not live yet.
#[derive(Debug, Serialize, Deserialize)]
pub struct ChangeReport {
    /// The files that are written without an end.
    pub endless: Vec<EndlessReport>,
    /// The files that changed.
    pub files: Vec<String>,
    /// The time for which the change has waited.
    pub for_ms: u64,
}

/// A file that is written without an end.
#[derive(Debug, Serialize, Deserialize)]
pub struct EndlessReport {
    /// The file's name in the folder.
    pub file: String,
    /// The time for which the file has been written.
    pub for_ms: u64,
}

/// A key that was used.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeyReport {
    /// The key's name, `caller/key`.
    pub id: String,
    /// The time of the last use.
    pub last_used: String,
    /// The time of the last use with a secret that is being replaced.
    pub old_hash_last_used: Option<String>,
}

/// The ledger.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LedgerReport {
    /// The number of rows dropped since the start.
    pub dropped: u64,
    /// The path of the file.
    pub path: String,
    /// The reason why the file cannot be written.
    pub problem: Option<String>,
    /// The number of rows written since the start.
    pub rows: u64,
    /// The state, which says whether rows are written.
    pub state: LedgerState,
    /// The number of rows that wait to be written.
    pub waiting: u64,
}

/// The states of the ledger, which say whether rows are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerState {
    /// Rows are written.
    Ok,
    /// The file cannot be written. The ledger tries again and again.
    Failing,
    /// The settings turn the ledger off.
    #[default]
    Off,
}

/// A model.
#[derive(Debug, Serialize, Deserialize)]
pub struct ModelReport {
    /// The model's public id.
    pub id: String,
    /// The share of the model's retry budget that is spent.
    pub retry_budget_spent: f64,
    /// The number of requests that wait in the model's queue.
    pub waiting: usize,
}

/// The counts in the store that could not be read, since this gateway started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnreadableReport {
    /// How often this gateway found some. They were removed each time.
    pub number: u64,
    /// Whose counts the last ones were: `caller acme`, or `key acme/prod`.
    pub scope: Option<String>,
    /// The number of scopes that this gateway still has to send again.
    pub waiting: usize,
}

/// The store that instances share.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreReport {
    /// The store's address.
    pub address: String,
    /// The time by which the store's clock is ahead of ours.
    pub clock_ahead_ms: i64,
    /// The reason why the store is down.
    pub error: Option<String>,
    /// The time for which the state has lasted.
    pub for_seconds: u64,
    /// The number of gateways that live.
    pub live: usize,
    /// The state, which says whether the store decides.
    pub state: StoreState,
    /// The counts in the store that could not be read.
    pub unreadable: UnreadableReport,
    /// The number of scopes whose counts wait to be sent.
    pub waiting: usize,
}

/// A target that was not asked, because money is limited and its price is not known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnpricedReport {
    /// The account.
    pub account: String,
    /// The kind of endpoint that has no price.
    pub endpoint: String,
    /// The model's public id.
    pub model: String,
    /// The number of requests that were not sent there under this catalog.
    pub requests: u64,
    /// The account's name for the model.
    pub upstream_model: String,
}

/// The states of the store, which say whether it decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreState {
    /// The store is not asked: there is no connection, or the store is too slow.
    #[default]
    Down,
    /// The store answers, but other gateways have not sent all that they count. Each gateway uses
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
    fn a_page_is_read_and_written_alike_sorted() {
        let target = json!({
            "awaited": 1, "behind_for_ms": 4, "breaker": "half_open", "calls": 9, "endpoint": "chat", "failed": 2, "first_token_ms": 7, "given_up": 3, "headroom": 0.42,
            "last_failure": { "ago_ms": 1, "detail": null, "outcome": "reset", "status": 502 }, "model": "x", "opens_in_ms": null,
            "probing": false, "reason": "rate", "rest": { "for_ms": 5, "why": "rate" }, "state": "resting", "whole_ms": null,
        });
        let mut page = json!({
            "verdict": { "word": "ok", "says": "fine" },
            "accounts": [{
                "concurrency": null, "dialect": "openai", "headroom": 0.42, "id": "a",
                "identity": { "failure": null, "name": "app", "until": "2026" }, "idle_connections": 3,
                "in_flight": 1, "list": { "age_seconds": 1, "failure": "f", "failure_time": "2026", "left_out": 2, "names": 3 },
                "reason": "rate", "state": "partly", "targets": [target],
            }],
            "catalog": {
                "accounts": 1, "callers": 1, "files": [{ "file": "catalog.yaml", "live_as_of": "2026" }],
                "folder": { "device": 1, "inode": null, "path": "/c" }, "generation": 1, "hash": "h", "held": null,
                "keys": 1, "loaded": "2026", "models": 1, "warnings": ["w"],
                "last_refusal": { "reasons": ["r"], "standing": true, "time": "2026", "withheld": [] },
                "waiting": { "endless": [{ "file": "f", "for_ms": 1 }], "files": ["f"], "for_ms": 2 },
            },
            "descriptors": { "connections": 98, "lacking": false, "limit": 300 },
            "exchanges": 1,
            "keys": [{ "id": "acme/prod", "last_used": "2026", "old_hash_last_used": null }],
            "ledger": { "dropped": 0, "path": "l", "problem": null, "rows": 1, "state": "ok", "waiting": 0 },
            "models": [{ "id": "m", "retry_budget_spent": 0.0, "waiting": 0 }],
            "more_problems": 1, "problems": [{
                "do": "d", "link": "problems.md#queue", "number": 1, "part": null, "requests": null, "rule": "queue", "severity": "warning", "since": "2026",
                "subject": { "kind": "model", "name": "m" }, "what": "w",
            }],
            "phase": "delaying", "ready": true, "uptime_seconds": 1, "version": "1",
            "unpriced": [{ "account": "a", "endpoint": "images", "model": "m", "requests": 1, "upstream_model": "x" }],
            "store": {
                "address": "s", "clock_ahead_ms": -1, "error": null, "for_seconds": 1, "live": 2, "state": "up",
                "unreadable": { "number": 1, "scope": "caller acme", "waiting": 1 }, "waiting": 0,
            },
        });
        let read: Status = serde_json::from_value(page.clone()).expect("a status");
        let written = to_string_pretty(&read).expect("JSON");
        let (verdict, rest) = written.split_once("},").expect("a verdict");
        assert_eq!(
            verdict, "{\n  \"verdict\": {\n    \"word\": \"ok\",\n    \"says\": \"fine\"\n  ",
            "before all others"
        );
        page.as_object_mut().expect("an object").remove("verdict");
        assert_eq!(format!("{{{rest}"), format!("{page:#}"));
    }

    #[test]
    fn the_page_of_an_older_gateway_is_read() {
        let page = json!({ "accounts": [], "models": [], "phase": "serving", "store": null });
        let read: Status = serde_json::from_value(page).expect("a status");
        assert!(read.problems.is_empty() && read.more_problems == 0);
        assert_eq!(read.verdict.word, "");
        for (old, new) in [
            ("disabled", AccountState::Off),
            ("cooling_credential", AccountState::Out),
        ] {
            assert_eq!(
                serde_json::from_value::<AccountState>(json!(old)).expect("a state"),
                new
            );
        }
        // A newer one may know more of a problem, and other rules.
        let problem = json!({ "rule": "new", "severity": "warning", "subject": { "kind": "k", "name": "n" }, "more": 1 });
        let read: ProblemReport = serde_json::from_value(problem).expect("a problem");
        assert_eq!((&*read.rule, read.requests, read.part), ("new", None, None));
    }
}
