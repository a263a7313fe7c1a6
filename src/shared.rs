//! What all exchanges share: the settings, the live catalog, the accounts' running state, the
//! upstream connector, the logs, the ledger, the drain.

use crate::access_log::AccessLog;
use crate::account::Registry;
use crate::catalog::reload::{Reloads, Snapshot};
use crate::config::Server;
use crate::drain::Drain;
use crate::exchange::upstream::Upstream;
use crate::intake::budget::Budget;
use crate::ledger::Ledger;
use crate::limits;
use crate::metrics::Metrics;
use crate::store::Store;
use crate::vault::Vault;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::time::Instant;

/// One of these a process.
pub struct Shared {
    /// `conf/server.yaml`
    pub server: Server,
    /// The catalog that new exchanges begin with.
    pub live: ArcSwap<Snapshot>,
    /// The accounts' state, which outlives catalogs.
    pub accounts: Registry,
    /// What is counted against callers' limits, which outlives catalogs, too.
    pub limits: Arc<limits::Registry>,
    /// How reloads went.
    pub reloads: Reloads,
    /// Pingora's connector.
    pub upstream: Arc<Upstream>,
    /// Bytes held in memory for requests and buffered answers.
    pub budget: Arc<Budget>,
    /// Signed thoughts, kept for the next turn.
    pub vault: Vault,
    /// One line an exchange.
    pub access_log: AccessLog,
    /// One row an exchange that was admitted.
    pub ledger: Ledger,
    /// `/metrics`
    pub metrics: Metrics,
    /// What other instances share with this one.
    pub store: Option<Store>,
    /// Going down in order.
    pub drain: Arc<Drain>,
    /// When the process began to serve.
    pub started: Instant,
}
