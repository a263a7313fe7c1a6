//! A reload puts a catalog that was read anew in place of the live one. The results of the last
//! reloads are kept for `/status`.

use super::issuers::Issuers;
use super::subjects::Subjects;
use super::{SeenToken, Snapshot};
use crate::account::Registry;
use crate::base::calendar;
use crate::base::clock::Clock;
use crate::base::lock::Lock;
use crate::catalog::settle::{Settling, WaitingChange};
use crate::catalog::texts::Texts;
use crate::catalog::{self, Catalog};
use crate::identity::remembered::{MAX_TOKENS, Remembered};
use crate::ledger::Ledger;
use crate::limits;
use crate::metrics::Metrics;
use arc_swap::{ArcSwap, Guard};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

/// The reloads that were not taken, as `/status` shows them.
#[derive(Debug, Clone, Default)]
pub struct ReloadStatus {
    /// The last refusal.
    pub refused: Option<RefusedReload>,
    /// The reason why a change waits.
    pub hold_reason: Option<String>,
}

/// A refusal.
#[derive(Debug, Clone)]
pub struct RefusedReload {
    /// The time of the refusal.
    pub refused_at: SystemTime,
    /// True if the files still hold what was refused.
    pub standing: bool,
    /// The reasons, one for each problem.
    pub reasons: Vec<String>,
    /// The files whose last good content stays live, while changes of other files are live.
    pub withheld: Vec<PathBuf>,
}

/// The results of reloads.
#[derive(Default)]
pub struct Reloads {
    /// The results of the last ones.
    pub(super) status: Lock<ReloadStatus>,
    /// The texts in the files, and since when they are there.
    pub(super) settling: Lock<Settling>,
    folder: OnceLock<PathBuf>,
}

impl Reloads {
    /// Returns the results for `/status`.
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

    /// Returns the files with the time at which each file's live text was last seen there. The
    /// latest change comes last.
    pub fn live_files(&self) -> Vec<(PathBuf, Instant)> {
        let mut live: Vec<_> = self
            .settling
            .lock()
            .live_times()
            .map(|(path, seen_at)| (path.to_owned(), seen_at))
            .collect();
        live.sort_by_key(|(_, seen_at)| *seen_at);
        live
    }

    /// Notes the folder that is watched, by its absolute path, and the texts that it held at the
    /// start.
    pub(super) fn note_start(&self, dir: &Path, live: Texts) {
        *self.settling.lock() = Settling::new(live, Instant::now());
        self.folder.set(dir.to_owned()).ok();
    }
}

/// The live catalog, and the state that outlives it.
pub struct Live {
    snapshot: ArcSwap<Snapshot>,
    /// The accounts' running state.
    pub accounts: Registry,
    /// The use that is counted against callers' limits.
    pub limits: Arc<limits::Registry>,
    /// The results of reloads.
    pub reloads: Reloads,
    /// The keys of subjects.
    pub subjects: Subjects,
    /// The keys of issuers.
    pub issuers: Issuers,
    /// The tokens that were verified.
    pub tokens: Remembered<SeenToken>,
}

impl Live {
    /// Makes the first catalog the live one.
    pub fn new(snapshot: Snapshot, accounts: Registry, limits: Arc<limits::Registry>) -> Live {
        let (issuers, tokens) = (Issuers::default(), Remembered::new(MAX_TOKENS));
        Live {
            snapshot: ArcSwap::from_pointee(with_issuers(snapshot, &issuers, &tokens)),
            accounts,
            limits,
            reloads: Reloads::default(),
            subjects: Subjects::default(),
            issuers,
            tokens,
        }
    }

    /// Returns the live catalog for a short look.
    pub fn load(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// Returns the live catalog to keep.
    pub fn load_full(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }
}

/// Gives a snapshot the issuers of its identities. Tokens that a key signed which no longer counts
/// are forgotten.
fn with_issuers(
    mut snapshot: Snapshot,
    issuers: &Issuers,
    tokens: &Remembered<SeenToken>,
) -> Snapshot {
    snapshot.issuers = issuers.adopt(&snapshot.catalog, |issuer, key| {
        tokens.forget_key(issuer, &key)
    });
    snapshot
}

/// A publisher makes a catalog the live one.
#[derive(Clone)]
pub struct Publisher {
    /// The live catalog, which is replaced.
    pub live: Arc<Live>,
    /// The ledger, which knows what was used of limits before.
    pub ledger: Arc<Ledger>,
    /// The metrics, which count catalogs.
    pub metrics: Arc<Metrics>,
}

impl Publisher {
    /// Makes a catalog the live one; it must be allowed. The watching thread calls this, and so do
    /// tests that reload ten thousand times. Returns the catalog before: its last holder frees all
    /// of it when it drops it.
    pub fn publish(&self, catalog: Catalog) -> Arc<Snapshot> {
        let Publisher {
            live,
            ledger,
            metrics,
        } = self;
        let old = live.load_full();
        let left = catalog::removed_names(&old.catalog, &catalog)
            .map(|(label, name)| (label, name.clone()))
            .collect();
        let past = &mut || ledger.past_use(calendar::now_millis(), Some(&live.limits));
        let snapshot = Snapshot::new(
            catalog,
            &live.accounts,
            &live.limits,
            past,
            old.generation + 1,
        );
        let snapshot = Arc::new(with_issuers(snapshot, &live.issuers, &live.tokens));
        drop(live.snapshot.swap(snapshot.clone()));
        let new = &snapshot.catalog;
        let is_live = |label: &str, name: &str| catalog::has_name(new, label, name);
        metrics.note_reload(
            left,
            catalog::all_names(new).count(),
            &is_live,
            Clock::now(),
        );
        metrics.catalog.note_taken(snapshot.generation);
        old
    }
}
