//! Keeping the live catalog true to its files: the only part of the catalog that does I/O while the
//! process runs.
//!
//! One thread looks (`watch`), and takes of each file the last text that is whole
//! ([`settle`](super::settle)). **Invariant:** all or nothing. What is refused is told in the log,
//! `/status` and a metric, and the old catalog goes on; a running exchange keeps the one that it
//! began with.

use super::load::Loaded;
use super::settle::{Settling, Waiting};
use super::{Catalog, Target};
use crate::account::demand::Demand;
use crate::account::track::Track;
use crate::account::{Registry, State};
use crate::exchange::upstream::Place;
use crate::ledger::{Ledger, days};
use crate::limits::{self, KeyScopes, Past};
use crate::metrics::Metrics;
use crate::models::Lists;
use arc_swap::{ArcSwap, Guard};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

mod folders;
mod good;
mod watch;

use folders::Event;
use watch::Watch;

/// How often the files are looked at when nothing seems to happen.
const POLL: Duration = Duration::from_secs(3);

/// A catalog with everything that exchanges need besides.
pub struct Snapshot {
    /// The catalog.
    pub catalog: Catalog,
    /// Its accounts' state, in its order.
    pub states: Vec<Arc<State>>,
    /// Its accounts ready for use, in its order.
    pub places: Vec<Arc<Place>>,
    /// How its models are served, in its order.
    pub routes: Vec<Route>,
    /// Its accounts' targets, in its order: by their names for the models, sorted.
    pub tracks: Vec<Vec<(Arc<str>, Arc<Track>)>>,
    /// Its keys' limits as they stand, by [`Key::index`](super::Key::index).
    pub scopes: Vec<KeyScopes>,
    /// The rendered lists of models.
    pub lists: Lists,
    /// The how-manieth it is since the start.
    pub generation: u64,
    /// When it was taken.
    pub loaded: SystemTime,
}

impl Snapshot {
    /// Puts it together. What was used of limits before is asked of `past`, where there are new
    /// ones.
    pub fn new(
        catalog: Catalog,
        accounts: &Registry,
        limits: &limits::Registry,
        past: &mut dyn FnMut() -> Vec<Past>,
        generation: u64,
    ) -> Snapshot {
        let scopes = limits.adopt(&catalog, past);
        let states = accounts.adopt(&catalog);
        let places = catalog
            .accounts()
            .iter()
            .zip(&states)
            .map(|(account, state)| Arc::new(Place::new(account.clone(), state.clone())))
            .collect();
        let track = |target: &Target| {
            states.get(target.account.index).map(|state| state.track(&target.model)).unwrap_or_default()
        };
        let mut tracks: Vec<Vec<(Arc<str>, Arc<Track>)>> = vec![Vec::new(); states.len()];
        for target in catalog.models().iter().flat_map(|model| &model.targets) {
            if let Some(tracks) = tracks.get_mut(target.account.index) {
                tracks.push((target.model.clone(), track(target)));
            }
        }
        for tracks in &mut tracks {
            tracks.sort_by(|a, b| a.0.cmp(&b.0));
            tracks.dedup_by(|a, b| a.0 == b.0);
        }
        let routes = accounts.demands(&catalog).into_iter().zip(catalog.models());
        let routes =
            routes.map(|(demand, model)| Route { demand, tracks: model.targets.iter().map(track).collect() }).collect();
        Snapshot {
            catalog,
            states,
            places,
            routes,
            tracks,
            scopes,
            lists: Lists::default(),
            generation,
            loaded: SystemTime::now(),
        }
    }
}

/// How a model is served: what must outlive the catalog, at hand.
pub struct Route {
    /// What its requests have in common.
    pub demand: Arc<Demand>,
    /// Its targets' memories, in the order in which they are written.
    pub tracks: Vec<Arc<Track>>,
}

/// What `/status` tells of reloads that were not taken.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// The last refusal.
    pub refused: Option<Refused>,
    /// Why a change waits.
    pub held: Option<String>,
}

/// A refusal.
#[derive(Debug, Clone)]
pub struct Refused {
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
    told: Mutex<Told>,
    settling: Mutex<Settling>,
    folder: OnceLock<PathBuf>,
}

impl Reloads {
    /// For `/status`.
    pub fn told(&self) -> Told {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The change that is not live yet.
    pub fn waiting(&self) -> Option<Waiting> {
        self.settling().waiting(Instant::now())
    }

    /// The folder that is watched.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.get().map(PathBuf::as_path)
    }

    /// The files by when the text of theirs that is live was seen there last, the latest change
    /// last.
    pub fn live(&self) -> Vec<(PathBuf, Instant)> {
        let mut live: Vec<_> = self.settling().live().map(|(path, at)| (path.to_owned(), at)).collect();
        live.sort_by_key(|(_, at)| *at);
        live
    }

    fn settling(&self) -> MutexGuard<'_, Settling> {
        self.settling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner));
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
        let left = old
            .catalog
            .accounts()
            .iter()
            .any(|a| catalog.accounts().binary_search_by(|b| b.id.cmp(&a.id)).is_err())
            || old.catalog.models().iter().any(|a| catalog.models().binary_search_by(|b| b.id.cmp(&a.id)).is_err())
            || old.catalog.callers().iter().any(|a| catalog.callers().binary_search_by(|b| b.id.cmp(&a.id)).is_err());
        let past = &mut || ledger.past_of(&live.limits, days::now());
        let snapshot = Snapshot::new(catalog, &live.accounts, &live.limits, past, old.generation + 1);
        let generation = snapshot.generation;
        drop(live.snapshot.swap(Arc::new(snapshot)));
        metrics.reloaded(generation, left);
        old
    }
}

/// Wakes the watching thread, for SIGHUP.
#[derive(Clone)]
pub struct Nudge(Sender<Event>);

impl Nudge {
    /// Look now.
    pub fn now(&self) {
        // If the thread is gone, so is the process.
        self.0.send(Event::Asked).ok();
    }
}

/// Starts the watching thread. `first` is what was read at the start, and is live.
pub fn watch(publisher: Publisher, dir: PathBuf, first: &Loaded) -> Result<Nudge, String> {
    let (sender, receiver) = channel();
    let nudge = Nudge(sender.clone());
    *publisher.live.reloads.settling() = Settling::new(first.texts.clone(), Instant::now());
    // A relative path means another folder once the working directory is another one.
    publisher.live.reloads.folder.set(std::path::absolute(&dir).unwrap_or_else(|_| dir.clone())).ok();
    let mut watch = Watch::new(publisher, dir, first, sender, receiver);
    std::thread::Builder::new()
        .name("catalog".to_owned())
        .spawn(move || watch.run())
        .map_err(|e| format!("cannot start the catalog's thread: {e}"))?;
    Ok(nudge)
}
