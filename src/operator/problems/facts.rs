//! The [`Facts`] are what the rules know of the process: plain data, the time included.

pub use crate::account::condition::{Reason, TargetState};
use crate::drain::Phase;
use crate::limits::{Kind, Level};
use crate::series::{FaultCounts, WaitRange};
use crate::status::{LedgerReport, StoreReport, UnpricedReport};
use std::sync::Arc;

/// The facts about the process at one moment. Times are milliseconds of Unix time.
#[derive(Debug, Default)]
pub struct Facts {
    /// The present time.
    pub now: u64,
    /// The moment in milliseconds of the monotonic clock of all counts.
    pub tick: u64,
    /// The phase of the process, and the number of its exchanges.
    pub phase: (Phase, usize),
    /// The files of the catalog.
    pub catalog: CatalogFacts,
    /// The accounts that are enabled.
    pub accounts: Vec<AccountFacts>,
    /// The models that are served.
    pub models: Vec<ModelFacts>,
    /// The requests of the last five minutes.
    pub recent: RecentFacts,
    /// True if anybody counts money here.
    pub counts_money: bool,
    /// For each caller, key and key's model: the limits of which the largest share is used.
    pub limits: Vec<LimitFacts>,
    /// The number of keys that open something.
    pub usable_keys: usize,
    /// The keys that were used and have an end.
    pub keys: Vec<KeyFacts>,
    /// The issuers of tokens whose keys cannot be fetched.
    pub issuers: Vec<IssuerFacts>,
    /// The targets that were not asked, since their price is not known.
    pub unpriced: Vec<UnpricedReport>,
    /// The store that instances share.
    pub store: Option<StoreReport>,
    /// The ledger.
    pub ledger: LedgerReport,
    /// The counts of what must not happen.
    pub rises: RisesFacts,
    /// The file descriptors of the process.
    pub descriptors: DescriptorFacts,
    /// The certificates of the listeners.
    pub certificates: Vec<CertificateFacts>,
    /// The listeners that wait for their certificate, and why.
    pub uncertified: Vec<(String, String)>,
    /// The address of the admin listener, if everybody who reaches it may read it.
    pub open_admin: Option<String>,
}

/// An issuer of tokens whose keys cannot be fetched.
#[derive(Debug, Clone)]
pub struct IssuerFacts {
    /// The name of the identity.
    pub identity: Arc<str>,
    /// The time of the first failure.
    pub since: u64,
    /// The reason of the last one.
    pub reason: String,
    /// The time until which the last keys are used, if there are any.
    pub usable_until: Option<u64>,
}

/// The files of the catalog.
#[derive(Debug, Clone, Default)]
pub struct CatalogFacts {
    /// The refusal that stands: its time and its reasons.
    pub refused: Option<(u64, Vec<String>)>,
    /// The entries that a held change takes away.
    pub held_loss: Option<String>,
    /// The files that are written without an end, and the time since which they are.
    pub endless: Option<(u64, Vec<String>)>,
}

/// An account.
#[derive(Debug, Clone, Default)]
pub struct AccountFacts {
    /// The account's name.
    pub id: Arc<str>,
    /// True if its provider refused the credential, and no answer has come since.
    pub is_credential_refused: bool,
    /// What is wrong with the source of its credential, if anything is.
    pub identity: Option<IdentityFacts>,
    /// Why the list of its models could not be fetched, and whether an earlier one is known.
    pub list_failure: Option<(String, bool)>,
    /// The share of the quota that is left at the target with the least.
    pub headroom: Option<f64>,
    /// The targets whose breaker is not closed.
    pub broken: Vec<TargetFacts>,
    /// The targets that callers have given up within the last minute.
    pub given_up: Vec<GivenUpFacts>,
    /// The targets that have begun no answer for much longer than usual.
    pub silent: Vec<SilentFacts>,
}

/// The source of a credential that gives no new one.
#[derive(Debug, Clone, Default)]
pub struct IdentityFacts {
    /// The provider's words, if a fetch failed.
    pub why: Option<String>,
    /// The time since which fetches fail.
    pub since: Option<u64>,
    /// The time at which the present credential ends, if there is one.
    pub until: Option<u64>,
    /// The field of the account that names the source.
    pub field: &'static str,
}

/// A target where requests wait, and which has begun no answer for much longer than usual.
#[derive(Debug, Clone, Default)]
pub struct SilentFacts {
    /// The account's name for the model, and the kind of endpoint.
    pub name: Arc<str>,
    /// The number of requests that wait.
    pub requests: u64,
    /// The milliseconds since the last sign of life: an answer that began or ended, or a failure.
    pub silent_ms: u64,
}

/// A target that callers have given up within the last minute: they waited for much longer than
/// usual, and left.
#[derive(Debug, Clone)]
pub struct GivenUpFacts {
    /// The account's name for the model, and the kind of endpoint.
    pub name: Arc<str>,
    /// The number of these callers.
    pub callers: u64,
    /// The number of all attempts that ended within the minute.
    pub attempts: u64,
    /// The times after which they left.
    pub waits: WaitRange,
    /// The time in milliseconds that the target usually takes, if it is known.
    pub usual_ms: Option<u64>,
}

/// A target that cannot be used.
#[derive(Debug, Clone, Default)]
pub struct TargetFacts {
    /// The account's name for the model, and the kind of endpoint.
    pub name: Arc<str>,
    /// The word for the last failure, and its detail.
    pub failure: Option<TargetFailure>,
    /// The time since which it is out, if it is known.
    pub since: Option<u64>,
    /// The milliseconds since the last failure, if nothing was asked since.
    pub quiet: Option<u64>,
    /// The requests of the last five minutes, if they are counted.
    pub requests: Option<u64>,
}

/// A model.
#[derive(Debug, Clone, Default)]
pub struct ModelFacts {
    /// The model's public id.
    pub id: Arc<str>,
    /// The model's targets, in the order in which they are written.
    pub targets: Vec<ModelTarget>,
    /// The models that answer in its place, for every key, if it has no target that answers.
    pub fallbacks: Vec<Arc<str>>,
    /// The number of requests that wait, and the most that may.
    pub waiting: usize,
    /// The most requests that may wait, if the model has a queue.
    pub queue: Option<usize>,
    /// The requests of the last five minutes, if they are counted.
    pub recent: Option<RecentFacts>,
    /// True if a request was ever answered.
    pub has_answered: bool,
    /// The account of the target that failed last and has not answered since, with the word for
    /// that failure and its detail. It is known only while the last requests failed.
    pub last_failure: Option<(Arc<str>, TargetFailure)>,
}

/// The word for a target's failure, and its detail.
pub type TargetFailure = (&'static str, Option<String>);

/// A target of a model.
#[derive(Debug, Clone, Default)]
pub struct ModelTarget {
    /// The account.
    pub account: Arc<str>,
    /// The account's name for the model, and the kind of endpoint.
    pub name: Arc<str>,
    /// The state, which says whether requests are sent there.
    pub state: TargetState,
    /// The reason, unless requests are sent there.
    pub reason: Option<Reason>,
    /// The word for the last failure, and its detail, if the target cannot be used.
    pub failure: Option<TargetFailure>,
    /// The milliseconds since the last failure, if nothing was asked since.
    pub quiet: Option<u64>,
}

/// The requests of some minutes.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecentFacts {
    /// All requests.
    pub requests: u64,
    /// Those that failed by the caller's fault.
    pub by_caller: u64,
    /// Those that failed by an upstream's fault.
    pub by_upstream: u64,
    /// Those that failed by the gateway's fault.
    pub by_us: u64,
    /// Those that their callers gave up, since they waited for much longer than usual.
    pub given_up: u64,
    /// Those that were refused because a queue was full.
    pub shed: u64,
    /// The answers whose cost is not known.
    pub unpriced: u64,
    /// The failures by each fault since the start, and what came after the last one.
    pub faults: FaultCounts,
}

/// A limit, and what is used of it.
#[derive(Debug, Clone)]
pub struct LimitFacts {
    /// The kind of the scope.
    pub level: Level,
    /// The name of the scope.
    pub name: Arc<str>,
    /// The kind of the limit.
    pub kind: Kind,
    /// The amount that is used or reserved.
    pub used: u64,
    /// The amount that the limit allows.
    pub limit: u64,
}

/// A key that was used and has an end.
#[derive(Debug, Clone, Default)]
pub struct KeyFacts {
    /// The key's name.
    pub id: Arc<str>,
    /// The time of the last use.
    pub used: u64,
    /// The time from which the key opens nothing.
    pub ends: Option<u64>,
    /// The secret that is being replaced, if it was used.
    pub old_secret: Option<OldSecret>,
}

/// A secret that is being replaced.
#[derive(Debug, Clone, Copy)]
pub struct OldSecret {
    /// The time of the last use.
    pub last_used: u64,
    /// The time from which the secret opens nothing.
    pub ends: u64,
}

/// The counts of what must not happen.
#[derive(Debug, Clone, Copy, Default)]
pub struct RisesFacts {
    /// The rows of the ledger that were dropped.
    pub rows: Rise,
    /// The access lines that were dropped.
    pub lines: Rise,
    /// The panics.
    pub panics: Rise,
    /// The connections of callers that were closed at once.
    pub refused: Rise,
    /// The counts in the store that could not be read.
    pub unreadable: Rise,
}

/// The file descriptors of the process.
#[derive(Debug, Clone, Copy, Default)]
pub struct DescriptorFacts {
    /// The most files that the process may have open.
    pub limit: u64,
    /// True if none is free for another connection, or was a moment ago.
    pub is_lacking: bool,
    /// The most connections of callers at once, if descriptors bound them and not the settings.
    pub connections: Option<usize>,
}

/// A count, and the time at which it rose last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rise {
    /// The count.
    pub total: u64,
    /// The time at which it rose last.
    pub rose_at: Option<u64>,
}

impl Rise {
    /// Takes the present count.
    pub fn take_count(&mut self, total: u64, now: u64) {
        if total > self.total {
            self.rose_at = Some(now);
        }
        self.total = total;
    }

    /// Returns whether the count rose within the last `span` milliseconds.
    pub fn is_within(self, span: u64, now: u64) -> bool {
        self.rose_at
            .is_some_and(|rose_at| now.saturating_sub(rose_at) < span)
    }
}

/// The certificate of a listener.
#[derive(Debug, Clone, Default)]
pub struct CertificateFacts {
    /// The listener's address.
    pub listener: String,
    /// The time from which no caller believes it.
    pub ends: u64,
}
