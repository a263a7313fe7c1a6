//! A reload takes a catalog that was read anew in place of the one that is live; what became of the
//! last ones is kept for `/status`.

use super::Snapshot;
use crate::account::Registry;
use crate::base::calendar;
use crate::base::lock::Lock;
use crate::catalog::settle::{Settling, WaitingChange};
use crate::catalog::texts::Texts;
use crate::catalog::{Catalog, removes_any};
use crate::ledger::Ledger;
use crate::limits;
use crate::metrics::Metrics;
use arc_swap::{ArcSwap, Guard};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

/// What `/status` tells of reloads that were not taken.
#[derive(Debug, Clone, Default)]
pub struct ReloadStatus {
    /// The last refusal.
    pub refused: Option<RefusedReload>,
    /// Why a change waits.
    pub held: Option<String>,
}

/// A refusal.
#[derive(Debug, Clone)]
pub struct RefusedReload {
    /// When.
    pub at: SystemTime,
    /// Whether the files still hold what was refused.
    pub standing: bool,
    /// One a problem.
    pub reasons: Vec<String>,
    /// The files whose last good content serves on while changes of others are live.
    pub withheld: Vec<PathBuf>,
}

/// How reloads went.
#[derive(Default)]
pub struct Reloads {
    /// What became of the last ones.
    pub(super) status: Lock<ReloadStatus>,
    /// What is in the files, and since when.
    pub(super) settling: Lock<Settling>,
    folder: OnceLock<PathBuf>,
}

impl Reloads {
    /// Returns what `/status` tells.
    pub fn status(&self) -> ReloadStatus {
        self.status.lock().clone()
    }

    /// Returns the change that is not live yet, as it is at `now`.
    pub fn waiting(&self, now: Instant) -> Option<WaitingChange> {
        self.settling.lock().waiting(now)
    }

    /// Returns the folder that is watched.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.get().map(PathBuf::as_path)
    }

    /// Returns the files by when the text of theirs that is live was seen there last, the latest
    /// change last.
    pub fn live(&self) -> Vec<(PathBuf, Instant)> {
        let mut live: Vec<_> = self.settling.lock().live().map(|(path, at)| (path.to_owned(), at)).collect();
        live.sort_by_key(|(_, at)| *at);
        live
    }

    /// Notes which folder is watched, and what it held at the start.
    pub(super) fn begin(&self, dir: &Path, live: Texts) {
        *self.settling.lock() = Settling::new(live, Instant::now());
        // A relative path means another folder once the working directory is another one.
        self.folder.set(std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned())).ok();
    }
}

/// The catalog that is live, and what outlives it.
pub struct Live {
    snapshot: ArcSwap<Snapshot>,
    /// The accounts' running state.
    pub accounts: Registry,
    /// What is counted against callers' limits.
    pub limits: Arc<limits::Registry>,
    /// How reloads went.
    pub reloads: Reloads,
}

impl Live {
    /// Returns the first catalog as the live one.
    pub fn new(snapshot: Snapshot, accounts: Registry, limits: Arc<limits::Registry>) -> Live {
        Live { snapshot: ArcSwap::from_pointee(snapshot), accounts, limits, reloads: Reloads::default() }
    }

    /// Returns the catalog that is live, for a look.
    pub fn load(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// Returns the catalog that is live, to keep.
    pub fn load_full(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }
}

/// A publisher makes a catalog the live one.
#[derive(Clone)]
pub struct Publisher {
    /// Where it becomes live.
    pub live: Arc<Live>,
    /// What was used of limits before.
    pub ledger: Arc<Ledger>,
    /// What counts catalogs.
    pub metrics: Arc<Metrics>,
}

impl Publisher {
    /// Makes a catalog the live one, which must be allowed. The watching thread calls it, and tests
    /// that reload ten thousand times. Returns the catalog before: whoever drops it last drops all
    /// of it.
    pub fn publish(&self, catalog: Catalog) -> Arc<Snapshot> {
        let Publisher { live, ledger, metrics } = self;
        let old = live.load_full();
        let left = removes_any(&old.catalog, &catalog);
        let past = &mut || ledger.past(calendar::now(), Some(&live.limits));
        let snapshot = Snapshot::new(catalog, &live.accounts, &live.limits, past, old.generation + 1);
        let generation = snapshot.generation;
        drop(live.snapshot.swap(Arc::new(snapshot)));
        metrics.reloaded(generation, left);
        old
    }
}
