//! Keeping the live catalog true to its files: the only part of the catalog that does I/O while the process runs.
//!
//! One thread looks: at once when the folder says that something changed, and every few seconds in any case, by the content's hash, since
//! mounted volumes swap links that no watch sees. A change is taken when two looks, `SETTLE` apart, found the same, so that a file that is
//! still being written is never taken. **Invariant:** all or nothing. What is refused is told in the log, `/status` and a metric, and the old
//! catalog goes on; a running exchange keeps the one that it began with.

use super::load::{self, Loaded};
use super::{Catalog, Target, published_key_problem, shrinks};
use crate::account::demand::Demand;
use crate::account::track::Track;
use crate::account::{Registry, State};
use crate::exchange::upstream::Place;
use crate::ledger::days;
use crate::limits::{self, KeyScopes, Past};
use crate::models::Lists;
use crate::problem::Problem;
use crate::shared::Shared;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// A change is taken when the files stood still for so long.
const SETTLE: Duration = Duration::from_millis(500);
/// How often they are looked at while they settle.
const LOOK: Duration = Duration::from_millis(100);
/// How often they are looked at when nothing seems to happen.
const POLL: Duration = Duration::from_secs(3);
/// A change that takes away more than half of something is taken when the files stood still for so long.
const SUSPICIOUS: Duration = Duration::from_secs(5);

/// So many catalogs of the past are kept at most.
const PAST: usize = 16;

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
    /// Puts it together. What was used of limits before is asked of `past`, where there are new ones.
    pub fn new(
        catalog: Catalog,
        accounts: &Registry,
        limits: &limits::Registry,
        past: &mut dyn FnMut() -> Vec<Past>,
        generation: u64,
    ) -> Snapshot {
        let scopes = limits.adopt(&catalog, past);
        let states = accounts.adopt(&catalog);
        let places =
            catalog.accounts().iter().zip(&states).map(|(account, state)| Arc::new(Place::new(account.clone(), state.clone()))).collect();
        let track = |target: &Target| states.get(target.account.index).map(|state| state.track(&target.model)).unwrap_or_default();
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
        let routes = routes.map(|(demand, model)| Route { demand, tracks: model.targets.iter().map(track).collect() }).collect();
        Snapshot { catalog, states, places, routes, tracks, scopes, lists: Lists::default(), generation, loaded: SystemTime::now() }
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
}

/// How reloads went.
#[derive(Default)]
pub struct Reloads {
    told: Mutex<Told>,
}

impl Reloads {
    /// For `/status`.
    pub fn told(&self) -> Told {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Takes a catalog, unless it must not be taken. Called by the watching thread, and by tests that reload ten thousand times.
/// Returns what was live: whoever drops it last drops all of it.
pub fn publish(shared: &Shared, catalog: Catalog) -> Arc<Snapshot> {
    let old = shared.live.load_full();
    let left = old.catalog.accounts().iter().any(|a| catalog.accounts().binary_search_by(|b| b.id.cmp(&a.id)).is_err())
        || old.catalog.models().iter().any(|a| catalog.models().binary_search_by(|b| b.id.cmp(&a.id)).is_err())
        || old.catalog.callers().iter().any(|a| catalog.callers().binary_search_by(|b| b.id.cmp(&a.id)).is_err());
    let past = &mut || shared.ledger.past_of(&shared.limits, days::now());
    let snapshot = Snapshot::new(catalog, &shared.accounts, &shared.limits, past, old.generation + 1);
    let generation = snapshot.generation;
    drop(shared.live.swap(Arc::new(snapshot)));
    shared.metrics.reloaded(generation, left);
    old
}

/// Wakes the watching thread, for SIGHUP.
#[derive(Clone)]
pub struct Nudge(Sender<()>);

impl Nudge {
    /// Look now.
    pub fn now(&self) {
        // If the thread is gone, so is the process.
        self.0.send(()).ok();
    }
}

/// Starts the watching thread. `hash` is that of the files as they were read at the start.
pub fn watch(shared: Arc<Shared>, dir: PathBuf, first: &Loaded) -> Result<Nudge, String> {
    let (sender, receiver) = channel();
    let nudge = Nudge(sender.clone());
    let files = first.files.clone();
    let fingerprint = first.fingerprint;
    std::thread::Builder::new()
        .name("catalog".to_owned())
        .spawn(move || {
            let mut watch = Watch { shared, dir, files, considered: fingerprint, past: Vec::new(), watched: None, sender, receiver };
            watch.run();
        })
        .map_err(|e| format!("cannot start the catalog's thread: {e}"))?;
    Ok(nudge)
}

/// The watcher, and the folders that it watches with their inodes.
type Watched = (RecommendedWatcher, Vec<(PathBuf, Option<u64>)>);

enum Considered {
    /// Taken or refused.
    Done,
    /// Too early to tell.
    Changed,
    /// To be considered again when it has stood still for [`SUSPICIOUS`].
    Held,
}

struct Watch {
    shared: Arc<Shared>,
    dir: PathBuf,
    /// Files outside the folder that the catalog refers to: secrets and certificates.
    files: Vec<PathBuf>,
    /// The fingerprint of what was last taken or refused.
    considered: load::Fingerprint,
    /// Catalogs that exchanges still hold. They are dropped here, since a large one takes its time.
    past: Vec<Arc<Snapshot>>,
    watched: Option<Watched>,
    sender: Sender<()>,
    receiver: Receiver<()>,
}

impl Watch {
    fn run(&mut self) {
        loop {
            // What came into a folder before it was watched, nobody tells.
            if !self.watch_folders() {
                match self.receiver.recv_timeout(POLL) {
                    Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            while self.receiver.try_recv().is_ok() {}
            self.past.retain(|past| Arc::strong_count(past) > 1);
            match self.look() {
                // In a busy folder there is always something to look at.
                same if same == self.considered => std::thread::park_timeout(LOOK),
                seen => self.settle(seen),
            }
        }
    }

    fn look(&self) -> load::Fingerprint {
        load::fingerprint(&self.dir, &self.files)
    }

    /// Waits until the files stand still, then considers them.
    fn settle(&mut self, mut seen: load::Fingerprint) {
        let mut held = None;
        let mut since = Instant::now();
        loop {
            std::thread::park_timeout(LOOK);
            let now = self.look();
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
            if seen == self.considered {
                // Changed and changed back.
                self.shared.reloads.tell(|told| told.held = None);
                return;
            }
            // What is held is not read again before its time.
            let wait = if held == Some(seen) { SUSPICIOUS } else { SETTLE };
            if since.elapsed() < wait {
                continue;
            }
            match self.consider(seen, since.elapsed(), held.is_none()) {
                Considered::Done => return,
                Considered::Changed => {}
                Considered::Held => held = Some(seen),
            }
        }
    }

    /// Takes or refuses what the files hold, or holds it; says so aloud if that is `news`.
    fn consider(&mut self, seen: load::Fingerprint, still: Duration, news: bool) -> Considered {
        let read = load::catalog(&self.dir, load::Secrets::Resolve);
        if self.look() != seen {
            // It changed while it was read.
            return Considered::Changed;
        }
        let live = self.shared.live.load_full();
        let addresses: Vec<_> = self.shared.server.listen.iter().map(|l| l.address).collect();
        let catalog = read.catalog.map_err(|problems| problems.0.iter().map(ToString::to_string).collect()).and_then(|catalog| {
            match published_key_problem(&catalog, &addresses) {
                Some(problem) => Err(vec![problem]),
                None => Ok(catalog),
            }
        });
        let catalog = match catalog {
            Ok(catalog) => catalog,
            Err(reasons) => {
                self.refuse(reasons);
                // What mends it may be a file that was not there.
                self.files = read.files;
                self.considered = read.fingerprint;
                return Considered::Done;
            }
        };
        if let Some(loss) = shrinks(&live.catalog, &catalog) {
            if still < SUSPICIOUS {
                if news {
                    log::warn!("the catalog's new content {loss}: it is taken if it stands still for {} s", SUSPICIOUS.as_secs());
                }
                self.shared.reloads.tell(|told| told.held = Some(loss));
                return Considered::Held;
            }
            log::warn!("the catalog {loss}: taken, since it stood still for {} s", SUSPICIOUS.as_secs());
            self.shared.metrics.shrank();
        }
        self.files = read.files;
        self.considered = read.fingerprint;
        self.shared.reloads.tell(|told| {
            told.held = None;
            if let Some(refused) = &mut told.refused {
                refused.standing = false;
            }
        });
        if catalog.hash == live.catalog.hash {
            self.shared.metrics.reload_recovered();
            log::info!("the catalog is back to what is live (hash {})", live.catalog.hash);
            return Considered::Done;
        }
        for warning in unsaid(&live.catalog.warnings, &catalog.warnings) {
            log::warn!("{warning}");
        }
        drop(live);
        self.remember(publish(&self.shared, catalog));
        let live = self.shared.live.load_full();
        log::info!(
            "catalog {} is live: {} accounts, {} models, {} callers, {} keys (hash {})",
            live.generation,
            live.catalog.accounts().len(),
            live.catalog.models().len(),
            live.catalog.callers().len(),
            live.catalog.key_count(),
            live.catalog.hash
        );
        Considered::Done
    }

    fn remember(&mut self, past: Arc<Snapshot>) {
        self.past.push(past);
        self.past.retain(|past| Arc::strong_count(past) > 1);
        if self.past.len() > PAST {
            // Its exchanges have been at it for long; the last of them drops it.
            self.past.remove(0);
        }
    }

    fn refuse(&mut self, reasons: Vec<String>) {
        log::error!("the catalog's new content is refused, the old one stays live: {}", reasons.join("; "));
        self.shared.reloads.tell(|told| {
            told.held = None;
            told.refused = Some(Refused { at: SystemTime::now(), standing: true, reasons });
        });
        // Last, so that whoever is alarmed by it finds the reasons.
        self.shared.metrics.reload_refused();
    }

    /// Watches the folders, never the files: a watch on a file goes deaf after the first atomic rename. A folder that was replaced is
    /// another one, and is watched anew. Whether one is watched that was not.
    fn watch_folders(&mut self) -> bool {
        let mut folders = vec![self.dir.clone(), self.dir.join("catalog.d")];
        folders.extend(self.files.iter().filter_map(|f| f.parent().map(Path::to_owned)));
        folders.sort();
        folders.dedup();
        let wanted: Vec<_> = folders.into_iter().map(|folder| (folder.clone(), inode(&folder))).collect();
        if self.watched.as_ref().is_some_and(|(_, watched)| *watched == wanted) {
            return false;
        }
        let sender = self.sender.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading is an event too, and our own looks would wake us for ever.
            if !event.is_ok_and(|e| e.kind.is_access()) {
                sender.send(()).ok();
            }
        });
        match watcher {
            Ok(mut watcher) => {
                for (folder, inode) in &wanted {
                    if inode.is_some()
                        && let Err(why) = watcher.watch(folder, RecursiveMode::NonRecursive)
                    {
                        log::warn!("cannot watch {}: {why}; changes are found within {} s all the same", folder.display(), POLL.as_secs());
                    }
                }
                self.watched = Some((watcher, wanted));
                true
            }
            Err(why) => {
                log::warn!("cannot watch the catalog's folder: {why}; changes are found within {} s all the same", POLL.as_secs());
                false
            }
        }
    }
}

/// Warnings that are not about the same as before. Where they stand does not count: a line that is added moves all that follow.
fn unsaid<'w>(before: &[Problem], now: &'w [Problem]) -> impl Iterator<Item = &'w Problem> {
    let known: HashSet<_> = before.iter().map(|warning| (&warning.file, &warning.path, &warning.what)).collect();
    now.iter().filter(move |warning| !known.contains(&(&warning.file, &warning.path, &warning.what)))
}

fn inode(folder: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(folder).ok().map(|m| m.ino())
}
