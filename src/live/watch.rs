//! The thread that looks at the catalog's files, and takes what is whole.
//!
//! It looks at once when a folder says that something changed, and every few seconds in any case,
//! by the content, since mounted volumes swap links that no watch sees. When a text is whole,
//! [`Settling`] decides; what is taken is made of the texts that were found whole, never of another
//! reading.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use super::folders::{Event, Folders};
use super::good::{Good, name_in};
use super::reload::RefusedReload;
use super::{Live, POLL, Publisher, Snapshot};
use crate::catalog::files::{LARGEST_NAMED, list, read_whole, stat};
use crate::catalog::load::{self, Loaded, ReadCatalog};
use crate::catalog::settle::{ENDLESS, QUIET, Ready, Signs, Whole};
use crate::catalog::texts::{FileText, Texts, Version, is_source};
use crate::catalog::{Catalog, published_key_problem, shrinks};
use crate::problem::{Problem, Problems};
use crate::yaml;

/// How often the files are looked at while something is going on.
const LOOK: Duration = Duration::from_millis(50);
/// A change that takes away more than half of something is taken so long after it was seen first.
const SUSPICIOUS: Duration = Duration::from_secs(5);
/// A file that was changed so recently may have been changed again within the same tick of its file
/// system's clock.
const YOUNG: Duration = Duration::from_secs(2);
/// Between two catalogs there is time for others: so many times as long as making one took, but not
/// longer than half a second.
const SHARE: u32 = 1;

/// So many catalogs of the past are kept at most.
const PAST: usize = 16;

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
    publisher.live.reloads.begin(&dir, first.texts.clone());
    let mut watch = Watch::new(publisher, dir, first, sender, receiver);
    std::thread::Builder::new()
        .name("catalog".to_owned())
        .spawn(move || watch.run())
        .map_err(|e| format!("cannot start the catalog's thread: {e}"))?;
    Ok(nudge)
}

struct Watch {
    publisher: Publisher,
    live: Arc<Live>,
    /// Where callers are listened for, which a catalog must be fit for.
    listen: Vec<SocketAddr>,
    dir: PathBuf,
    /// The secret and CA files that the catalog names.
    named: BTreeSet<PathBuf>,
    /// How the files that are followed came to be what they are.
    signs: HashMap<PathBuf, Signs>,
    /// The texts that the live catalog is made of, and which of the files were refused since.
    good: Good,
    /// What was considered, and may be again.
    tried: Option<Tried>,
    /// Since when what is whole takes away too much.
    held: Option<Instant>,
    /// The files that were told of because they are written without an end.
    endless: Vec<PathBuf>,
    /// Everything is read, however it looks.
    thorough: bool,
    /// Not before is another catalog made.
    rest: Instant,
    /// Catalogs that exchanges still hold. They are dropped here, since a large one takes its time.
    past: Vec<Arc<Snapshot>>,
    folders: Folders,
    receiver: Receiver<Event>,
}

/// What is not decided yet: it is considered again when it is another one, or all of it is whole,
/// or then.
struct Tried {
    texts: Texts,
    all: bool,
    until: Instant,
}

impl Watch {
    /// Watches this folder, whose files were read at the start.
    fn new(
        publisher: Publisher,
        dir: PathBuf,
        first: &Loaded,
        sender: Sender<Event>,
        receiver: Receiver<Event>,
    ) -> Self {
        let live = &first.texts;
        let named = live.keys().filter(|path| !is_source(&dir, path)).cloned().collect();
        let good = Good::new(&dir, live);
        Self {
            live: publisher.live.clone(),
            publisher,
            listen: first.server.listen.iter().map(|listen| listen.address).collect(),
            dir,
            named,
            signs: HashMap::new(),
            good,
            tried: None,
            held: None,
            endless: Vec::new(),
            thorough: true,
            rest: Instant::now(),
            past: Vec::new(),
            folders: Folders::new(sender),
            receiver,
        }
    }

    fn run(&mut self) {
        loop {
            // What came into a folder before it was watched, nobody tells.
            if !self.watch_folders() && !self.wait() {
                return;
            }
            self.hear();
            self.past.retain(|past| Arc::strong_count(past) > 1);
            self.look();
            self.decide();
            self.tell();
            if self.is_quiet() {
                // In a busy folder there is always something to look at.
                std::thread::park_timeout(LOOK);
            }
        }
    }

    fn watch_folders(&mut self) -> bool {
        let of_named = self.named.iter().filter_map(|path| path.parent().map(Path::to_owned));
        self.folders.watch([self.dir.clone(), self.dir.join("catalog.d")].into_iter().chain(of_named).collect())
    }

    fn is_quiet(&self) -> bool {
        self.live.reloads.settling().is_quiet()
    }

    /// Whether there is anybody left who could tell something.
    fn wait(&mut self) -> bool {
        if !self.is_quiet() {
            std::thread::park_timeout(LOOK);
            return true;
        }
        match self.receiver.recv_timeout(POLL) {
            Ok(event) => self.heard(event),
            Err(RecvTimeoutError::Timeout) => self.thorough = true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        true
    }

    /// Takes note of all that was told.
    fn hear(&mut self) {
        while let Ok(event) = self.receiver.try_recv() {
            self.heard(event);
        }
    }

    fn heard(&mut self, event: Event) {
        let mut signs = |path: PathBuf, signs: Signs| {
            if is_source(&self.dir, &path) || self.named.contains(&path) {
                self.signs.insert(path, signs);
            }
        };
        match event {
            Event::Asked => {
                self.thorough = true;
                self.live.reloads.settling().ask(Instant::now());
            }
            Event::Stirred => {}
            Event::Lost => self.signs.clear(),
            Event::Renamed(path) => signs(path, Signs { renamed: true, open: false }),
            Event::Written(path) => signs(path, Signs { renamed: false, open: true }),
            Event::Closed(path) => {
                if let Some(signs) = self.signs.get_mut(&path) {
                    signs.open = false;
                }
            }
        }
    }

    /// Finds what there is.
    fn look(&mut self) {
        let reloads = &self.live.reloads;
        let listed = list(&self.dir).map_or_else(|_| vec![self.dir.join("catalog.yaml")], |listed| listed.paths);
        let there: HashSet<&Path> = listed.iter().map(PathBuf::as_path).collect();
        let others: Vec<PathBuf> = {
            let (mut settling, now) = (reloads.settling(), Instant::now());
            settling.keep(|path| self.named.contains(path) || there.contains(path));
            for path in &listed {
                settling.appeared(path, now);
            }
            settling.paths().filter(|path| !there.contains(path)).map(Path::to_owned).collect()
        };
        let (clock, thorough) = (SystemTime::now(), std::mem::take(&mut self.thorough));
        let mut left = yaml::LARGEST;
        for path in listed.iter().chain(&others) {
            let limit = if is_source(&self.dir, path) { left } else { LARGEST_NAMED };
            let known =
                reloads.settling().found(path).cloned().filter(|known| !thorough && is_as_before(path, known, clock));
            let now = Instant::now();
            let found = known.or_else(|| read_whole(path, limit));
            if is_source(&self.dir, path)
                && let Some(Version { text: FileText::Bytes(bytes), .. }) = &found
            {
                left = left.saturating_sub(bytes.len());
            }
            let signs = self.signs.get(path).copied().unwrap_or_default();
            reloads.settling().observe(path, found, signs, now);
        }
        let settling = reloads.settling();
        self.signs.retain(|path, _| settling.follows(path));
    }

    /// Considers what is whole, when it is time.
    fn decide(&mut self) {
        let now = Instant::now();
        let ready = self.live.reloads.settling().ready(now);
        let (since, all) = match ready {
            Ready::Whole { since, all } if now >= self.rest => (since, all),
            Ready::Whole { .. } => return,
            Ready::Wait => return,
            Ready::Nothing => {
                self.tried = None;
                return;
            }
        };
        let whole = self.live.reloads.settling().whole();
        let texts: Texts = whole.iter().map(|(path, (version, _))| (path.clone(), version.clone())).collect();
        let is_tried = |tried: &Tried| tried.texts == texts && (tried.all || !all) && now < tried.until;
        if self.tried.as_ref().is_some_and(is_tried) {
            return;
        }
        let read = self.made_of(&texts);
        let undecided = self.consider(read, &whole, since, all);
        self.tried = undecided.map(|until| Tried { texts, all, until });
        let ended = Instant::now();
        self.rest = ended + (ended.duration_since(now) * SHARE).min(QUIET);
    }

    /// The catalog that the texts make. A large one takes its time, in which the files are looked
    /// at as before.
    fn made_of(&mut self, texts: &Texts) -> ReadCatalog {
        let (give, take) = channel();
        let (dir, known) = (self.dir.clone(), texts.clone());
        // If nobody waits for it any more, nobody needs it.
        let make = move || drop(give.send(load::of_texts(&dir, known)));
        let maker = std::thread::Builder::new().name("catalog-maker".to_owned()).spawn(make);
        while maker.is_ok() {
            match take.recv_timeout(LOOK) {
                Ok(read) => return read,
                Err(RecvTimeoutError::Timeout) => {
                    self.hear();
                    self.look();
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        load::of_texts(&self.dir, texts.clone())
    }

    /// Takes or refuses what was made of the texts. Until when not, if it is too early for either.
    fn consider(&mut self, read: ReadCatalog, whole: &Whole, since: Instant, all: bool) -> Option<Instant> {
        let ReadCatalog { catalog, texts: used, .. } = read;
        let now = Instant::now();
        if self.names_what_is_young(&used, now) && now.duration_since(since) < ENDLESS {
            return Some(now);
        }
        let live = self.live.load_full();
        let catalog = match self.is_allowed(catalog) {
            Ok(catalog) => catalog,
            // The other half of the change may be in a file that is not whole yet.
            Err((problems, reasons)) => {
                let (bad, before) = self.good.blamed(whole, &problems, now);
                if !before && !all && now.duration_since(since) < ENDLESS {
                    return Some(since + ENDLESS);
                }
                self.refuse(reasons, bad.clone());
                return self.consider_without(bad, before, used, whole);
            }
        };
        let until = self.hold(&live, &catalog, now);
        if until.is_none() {
            self.take(&live, catalog);
            self.told_recovered();
            self.good.are(&used);
            self.is_over(&used, whole, true);
        }
        until
    }

    /// Files are wrong. What changed in others becomes live beside the last good content of these,
    /// unless it came together with what is wrong.
    fn consider_without(&mut self, mut bad: Texts, before: bool, used: Texts, whole: &Whole) -> Option<Instant> {
        let live = self.live.load_full();
        while before && self.good.has_more(whole, &bad) {
            let ReadCatalog { catalog, texts, .. } = self.made_of(&self.good.instead_of(whole, &bad));
            match self.is_allowed(catalog) {
                Ok(catalog) => {
                    let until = self.hold(&live, &catalog, Instant::now());
                    if until.is_some() {
                        return until;
                    }
                    self.take_without(&live, catalog, &bad);
                    self.good.are(&texts);
                    let taken = whole
                        .iter()
                        .filter(|(path, _)| !bad.contains_key(*path))
                        .map(|(path, whole)| (path.clone(), whole.clone()));
                    let taken: Whole = taken.collect();
                    // What is refused may name files that are not there yet.
                    self.is_over(&texts.into_iter().chain(used).collect(), whole, false);
                    self.live.reloads.settling().considered(&taken, true);
                    return None;
                }
                Err((problems, _)) if !self.good.blame_more(whole, &problems, &mut bad) => break,
                Err(_) => {}
            }
        }
        // Whoever waits for his own change finds that it is not taken either.
        self.publisher
            .live
            .reloads
            .tell(|status| status.refused.iter_mut().for_each(|refused| refused.at = SystemTime::now()));
        self.is_over(&used, whole, false);
        None
    }

    /// Until when a change waits that takes away too much.
    fn hold(&mut self, live: &Snapshot, catalog: &Catalog, now: Instant) -> Option<Instant> {
        if let Some(loss) = shrinks(&live.catalog, catalog) {
            let until = *self.held.get_or_insert_with(|| {
                log::warn!(
                    "the catalog's new content {loss}: it is taken if it still does in {} s",
                    SUSPICIOUS.as_secs()
                );
                now
            }) + SUSPICIOUS;
            if now < until {
                self.live.reloads.tell(|status| status.held = Some(loss));
                return Some(until);
            }
            log::warn!("the catalog {loss}: taken, since it has done so for {} s", SUSPICIOUS.as_secs());
            self.publisher.metrics.shrank();
        }
        None
    }

    /// Whether the texts name files that were never looked at, and that were written just now. They
    /// are followed from now on.
    fn names_what_is_young(&mut self, used: &Texts, now: Instant) -> bool {
        let clock = SystemTime::now();
        let mut settling = self.live.reloads.settling();
        for (path, version) in used {
            if !settling.follows(path) {
                self.named.insert(path.clone());
                settling.named(path.clone(), version.clone(), !was_changed_within(version, QUIET, clock), now);
            }
        }
        !settling.is_complete()
    }

    fn is_allowed(&self, catalog: Result<Catalog, Problems>) -> Result<Catalog, (Vec<Problem>, Vec<String>)> {
        let reasons = |problems: &[Problem]| problems.iter().map(ToString::to_string).collect();
        let catalog = catalog
            .map_err(|Problems(problems, _)| (reasons(&problems), problems))
            .map_err(|(reasons, problems)| (problems, reasons))?;
        match published_key_problem(&catalog, &self.listen) {
            Some(problem) => Err((Vec::new(), vec![problem])),
            None => Ok(catalog),
        }
    }

    /// Says that these files are refused, once for what they hold.
    fn refuse(&mut self, reasons: Vec<String>, bad: Texts) {
        if !self.good.refused(bad)
            && self.live.reloads.status().refused.is_some_and(|refused| refused.standing && refused.reasons == reasons)
        {
            return;
        }
        log::error!("the catalog's new content is refused, the old one stays live: {}", reasons.join("; "));
        self.live.reloads.tell(|status| {
            status.refused =
                Some(RefusedReload { at: SystemTime::now(), standing: true, reasons, withheld: Vec::new() });
        });
        // Last, so that whoever is alarmed by it finds the reasons.
        self.publisher.metrics.reload_refused();
    }

    fn take(&mut self, live: &Arc<Snapshot>, catalog: Catalog) {
        if catalog.hash == live.catalog.hash {
            log::info!("the catalog is back to what is live (hash {})", live.catalog.hash);
        } else {
            for warning in unsaid(&live.catalog.warnings, &catalog.warnings) {
                log::warn!("{warning}");
            }
            self.remember(self.publisher.publish(catalog));
            let live = self.live.load_full();
            log::info!(
                "catalog {} is live: {} accounts, {} models, {} callers, {} keys (hash {})",
                live.generation,
                live.catalog.accounts().len(),
                live.catalog.models().len(),
                live.catalog.callers().len(),
                live.catalog.key_count(),
                live.catalog.hash
            );
        }
    }

    /// Takes a catalog that has the last good content of the files that are wrong.
    fn take_without(&mut self, live: &Arc<Snapshot>, catalog: Catalog, bad: &Texts) {
        let withheld: Vec<PathBuf> = bad.keys().cloned().collect();
        let names: Vec<_> = withheld.iter().map(|path| name_in(&self.dir, path)).collect();
        self.take(live, catalog);
        log::error!(
            "{} stays refused: its last good content serves on, beside the changes of other files, which are live",
            names.join(", ")
        );
        self.live.reloads.tell(|status| {
            if let Some(refused) = &mut status.refused {
                refused.withheld = withheld;
            }
        });
    }

    /// Everything that the files hold is live.
    fn told_recovered(&mut self) {
        self.good.all_are();
        self.live.reloads.tell(|status| {
            if let Some(refused) = &mut status.refused {
                (refused.standing, refused.withheld) = (false, Vec::new());
            }
        });
        self.publisher.metrics.reload_recovered();
    }

    /// What was considered is decided. What mends an error may be a file that was not there.
    fn is_over(&mut self, used: &Texts, whole: &Whole, live: bool) {
        self.held = None;
        self.live.reloads.tell(|status| status.held = None);
        self.named = used.keys().filter(|path| !is_source(&self.dir, path)).cloned().collect();
        let mut settling = self.live.reloads.settling();
        settling.considered(whole, live);
        settling.keep_only(|path| is_source(&self.dir, path) || self.named.contains(path));
    }

    fn remember(&mut self, past: Arc<Snapshot>) {
        self.past.push(past);
        self.past.retain(|past| Arc::strong_count(past) > 1);
        if self.past.len() > PAST {
            // Its exchanges have been at it for long; the last of them drops it.
            self.past.remove(0);
        }
    }

    /// Says which files are written without an end, once.
    fn tell(&mut self) {
        let waiting = self.live.reloads.settling().waiting(Instant::now());
        let endless: Vec<PathBuf> =
            waiting.into_iter().flat_map(|waiting| waiting.endless).map(|(path, _)| path).collect();
        for path in endless.iter().filter(|path| !self.endless.contains(path)) {
            log::warn!(
                "{} is being written without a pause, or is held open by whoever writes it, so no text of it can be taken for whole: the last one \
                 that was stays live, and other files go on. Close it; best is to write it beside, and rename it into place",
                path.display()
            );
        }
        self.endless = endless;
    }
}

/// Whether a file looks as it did when it was read, and no write since then could hide.
fn is_as_before(path: &Path, known: &Version, clock: SystemTime) -> bool {
    matches!(known.text, FileText::Bytes(_)) && stat(path) == known.stat && !was_changed_within(known, YOUNG, clock)
}

/// Whether a file was changed so recently, or, if clocks differ, perhaps.
fn was_changed_within(version: &Version, span: Duration, clock: SystemTime) -> bool {
    let Some(stat) = version.stat else { return false };
    let now = clock.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    i128::try_from(now).is_ok_and(|now| now - stat.changed < i128::try_from(span.as_nanos()).unwrap_or(i128::MAX))
}

/// Warnings that are not about the same as before. Where they stand does not count: a line that is
/// added moves all that follow.
fn unsaid<'w>(before: &[Problem], now: &'w [Problem]) -> impl Iterator<Item = &'w Problem> {
    let known: HashSet<_> = before.iter().map(|warning| (&warning.file, &warning.path, &warning.what)).collect();
    now.iter().filter(move |warning| !known.contains(&(&warning.file, &warning.path, &warning.what)))
}
