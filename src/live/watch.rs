//! Watching is the work of one thread: it looks at the catalog's files, and takes the texts that
//! are whole.
//!
//! It looks at once when a folder reports a change. It also looks every few seconds, since mounted
//! volumes swap links that no watch sees. A file that is surely unchanged is not read again
//! ([`seen`]); once a minute all content is compared. [`Settling`] decides when a text is whole. A
//! catalog is made of the texts that were found whole, never of a second reading.

mod decide;
mod seen;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use super::folders::{Event, Folders};
use super::good::GoodTexts;
use super::{Live, POLL, Publisher, Snapshot};
use crate::base::calendar::unix_time;
use crate::base::clock::{Clock, Round};
use crate::catalog::files::{LARGEST_NAMED, list_catalog_files};
use crate::catalog::load::Loaded;
use crate::catalog::settle::Sign;
use crate::catalog::texts::{FileText, Texts, Version, is_source};
use seen::SeenFiles;

/// The time between two looks while something is going on.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// The time between two comparisons of all content, also of files that are surely unchanged: not
/// every file system shows each change.
const COMPARISON_INTERVAL: Duration = Duration::from_secs(60);
/// The part of the time that comparisons take at most: one in so many.
const COMPARISON_SHARE: u32 = 100;
/// The longest time between two comparisons, also if one took very long.
const MAX_COMPARISON_INTERVAL: Duration = Duration::from_secs(600);

/// A handle that wakes the watching thread, for SIGHUP.
#[derive(Clone)]
pub struct Nudge(Sender<Event>);

impl Nudge {
    /// Makes the thread look at once.
    pub fn now(&self) {
        // If the thread is gone, so is the process.
        self.0.send(Event::Asked).ok();
    }
}

/// Starts the watching thread. `first` was read from the folder `dir` at the start, and is live.
///
/// The system reports changes by absolute paths. So all paths are made absolute here, once: a sign
/// of a file's writer that has another path than the file would be lost.
pub fn start_watching(publisher: Publisher, dir: &Path, first: &Loaded) -> Result<Nudge, String> {
    let (sender, receiver) = channel();
    let nudge = Nudge(sender.clone());
    let dir = absolute_path(dir)?;
    let texts = first
        .texts
        .iter()
        .map(|(path, version)| Ok((absolute_path(path)?, version.clone())));
    let texts = texts.collect::<Result<Texts, String>>()?;
    publisher.live.reloads.note_start(&dir, texts.clone());
    let mut watch = Watch {
        live: publisher.live.clone(),
        publisher,
        listen: first
            .server
            .listen
            .iter()
            .map(|listen| listen.address)
            .collect(),
        guarded: first.server.admin.is_guarded(),
        catalog_size: first.server.limits.catalog_size,
        named: texts
            .keys()
            .filter(|path| !is_source(&dir, path))
            .cloned()
            .collect(),
        signs: HashMap::new(),
        good: GoodTexts::new(&dir, &texts),
        dir,
        pending: None,
        shrink_seen_at: None,
        endless: Vec::new(),
        seen: SeenFiles::default(),
        is_asked: false,
        next_comparison: Clock::now(),
        next_catalog_at: Instant::now(),
        past: Vec::new(),
        folders: Folders::new(sender),
        receiver,
    };
    // Before the gateway serves, so that no sign of a file's writer is lost from then on.
    watch.watch_folders();
    std::thread::Builder::new()
        .name("catalog".to_owned())
        .spawn(move || watch.run())
        .map_err(|e| format!("cannot start the catalog's thread: {e}"))?;
    Ok(nudge)
}

fn absolute_path(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|why| format!("{} cannot be watched: {why}", path.display()))
}

struct Watch {
    publisher: Publisher,
    live: Arc<Live>,
    /// The addresses of the callers' listeners. A catalog must be fit for them.
    listen: Vec<SocketAddr>,
    /// See [`Snapshot::marks`].
    guarded: bool,
    /// The most that all files of the catalog together may have.
    catalog_size: usize,
    dir: PathBuf,
    /// The secret and CA files that the catalog names.
    named: BTreeSet<PathBuf>,
    /// The signs of how each followed file came to be what it is.
    signs: HashMap<PathBuf, Sign>,
    /// The texts of the live catalog, and the files that were refused since.
    good: GoodTexts,
    /// The decision that waits, and will be taken again.
    pending: Option<PendingDecision>,
    /// The time on the [`Clock`] since which the whole texts take away too much.
    shrink_seen_at: Option<Instant>,
    /// The files that were reported because they are written without an end.
    endless: Vec<PathBuf>,
    /// The files that need not be read again.
    seen: SeenFiles,
    /// True if somebody asked to look at once: the next look reads every file.
    is_asked: bool,
    /// The time on the [`Clock`] at which all content is compared again.
    next_comparison: Instant,
    /// The earliest time at which another catalog is made.
    next_catalog_at: Instant,
    /// Catalogs that exchanges still hold. They are dropped in this thread, since a large one takes
    /// its time.
    past: Vec<Arc<Snapshot>>,
    folders: Folders,
    receiver: Receiver<Event>,
}

/// A decision that waits. The texts are considered again when they change, when all of them are
/// whole, or when the wait is over.
struct PendingDecision {
    texts: Texts,
    /// True if no other file was being written.
    all_were_whole: bool,
    wait: Wait,
}

/// How long a decision waits.
enum Wait {
    /// Until this time.
    Until(Instant),
    /// Until this time on the [`Clock`].
    UntilClock(Instant),
}

impl Wait {
    fn is_over(&self, now: Instant) -> bool {
        match self {
            Wait::Until(time) => now >= *time,
            Wait::UntilClock(time) => Clock::now() >= *time,
        }
    }
}

impl Watch {
    fn run(&mut self) {
        // Nothing reports a file that came into a folder before the folder was watched.
        let mut looks_at_once = true;
        loop {
            // These take a while. Here no request waits for them.
            let live = self.live.load_full();
            live.marks(self.guarded);
            live.key_summary();
            live.first_bounds();
            drop(live);
            if !self.watch_folders() && !looks_at_once && !self.wait() {
                return;
            }
            looks_at_once = false;
            Clock::begin(Round::Files);
            self.take_events();
            self.past.retain(|past| Arc::strong_count(past) > 1);
            self.read_files();
            self.decide();
            self.log_endless();
            Clock::end(Round::Files);
            if self.is_quiet() {
                // In a busy folder there is always something to look at.
                std::thread::park_timeout(LOOK_INTERVAL);
            }
        }
    }

    fn watch_folders(&mut self) -> bool {
        let of_named = self
            .named
            .iter()
            .filter_map(|path| path.parent().map(Path::to_owned));
        self.folders.watch(
            [self.dir.clone(), self.dir.join("catalog.d")]
                .into_iter()
                .chain(of_named)
                .collect(),
        )
    }

    fn is_quiet(&self) -> bool {
        self.live.reloads.settling.lock().is_quiet()
    }

    /// Waits until there is something to look at. Returns false if there is no sender left for an
    /// event.
    fn wait(&mut self) -> bool {
        if !self.is_quiet() {
            std::thread::park_timeout(LOOK_INTERVAL);
            return true;
        }
        match self.receiver.recv_timeout(POLL) {
            Ok(event) => self.take_event(event),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        true
    }

    /// Takes all events that have come.
    fn take_events(&mut self) {
        while let Ok(event) = self.receiver.try_recv() {
            self.take_event(event);
        }
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Asked => {
                self.is_asked = true;
                self.live.reloads.settling.lock().ask(Instant::now());
            }
            Event::OtherChange => {}
            Event::Lost => self.signs.clear(),
            Event::Renamed(path) => self.note(path, Sign::Renamed),
            Event::Written(path) => self.note(path, Sign::Open),
            Event::Linked(path) => self.note(path, Sign::Unknown),
            Event::Closed(path) => {
                if let Some(sign) = self
                    .signs
                    .get_mut(&path)
                    .filter(|sign| **sign == Sign::Open)
                {
                    *sign = Sign::Closed;
                }
            }
        }
    }

    fn note(&mut self, path: PathBuf, sign: Sign) {
        if is_source(&self.dir, &path) || self.named.contains(&path) {
            self.signs.insert(path, sign);
        }
    }

    /// Reads the files, and notes the content of each.
    fn read_files(&mut self) {
        let reloads = &self.live.reloads;
        let listed = list_catalog_files(&self.dir).map_or_else(
            |_| vec![self.dir.join("catalog.yaml")],
            |listed| listed.paths,
        );
        let there: HashSet<&Path> = listed.iter().map(PathBuf::as_path).collect();
        let others: Vec<PathBuf> = {
            let (mut settling, now) = (reloads.settling.lock(), Instant::now());
            settling.forget_gone_unless(|path| self.named.contains(path) || there.contains(path));
            for path in &listed {
                settling.follow_appeared(path, now);
            }
            settling
                .paths()
                .filter(|path| !there.contains(path))
                .map(Path::to_owned)
                .collect()
        };
        let compares_all =
            std::mem::take(&mut self.is_asked) || Clock::now() >= self.next_comparison;
        let began = Instant::now();
        let mut reading = self.seen.begin_reading(compares_all, SystemTime::now());
        let mut left = self.catalog_size;
        for path in listed.iter().chain(&others) {
            let limit = if is_source(&self.dir, path) {
                left
            } else {
                LARGEST_NAMED
            };
            let known = reloads.settling.lock().last_found(path).cloned();
            let now = Instant::now();
            let found = reading.read(path, known, limit);
            if is_source(&self.dir, path)
                && let Some(Version {
                    text: FileText::Bytes(bytes),
                    ..
                }) = &found
            {
                left = left.saturating_sub(bytes.len());
            }
            let sign = self.signs.get(path).copied().unwrap_or_default();
            reloads.settling.lock().observe(path, found, sign, now);
        }
        if compares_all {
            let pause = began.elapsed() * COMPARISON_SHARE;
            let pause = pause.clamp(COMPARISON_INTERVAL, MAX_COMPARISON_INTERVAL);
            self.next_comparison = Clock::now() + pause;
        }
        let settling = reloads.settling.lock();
        self.signs.retain(|path, _| settling.follows(path));
        self.seen.keep(|path| settling.follows(path));
    }

    /// Logs each file that is written without an end, once.
    fn log_endless(&mut self) {
        let waiting = self.live.reloads.waiting(Instant::now());
        let endless: Vec<PathBuf> = waiting
            .into_iter()
            .flat_map(|waiting| waiting.endless)
            .map(|(path, _)| path)
            .collect();
        for path in endless.iter().filter(|path| !self.endless.contains(path)) {
            log::warn!(
                "{} is written without a pause, or another program keeps it open, so the gateway cannot know when it is complete: of its changes \
                 only new entries and `enabled: false` are taken, and those only when it is closed; changes of other files are taken as ever. Close the file; it is best to write a new file \
                 beside it, and then to rename it to this name",
                path.display()
            );
        }
        self.endless = endless;
    }
}

/// Returns whether a file was changed so recently. If the clocks differ, the answer may be true for
/// an older change.
fn was_changed_within(version: &Version, span: Duration, clock: SystemTime) -> bool {
    let Some(stat) = version.stat else {
        return false;
    };
    i128::try_from(unix_time(clock).as_nanos())
        .is_ok_and(|now| now - stat.changed < i128::try_from(span.as_nanos()).unwrap_or(i128::MAX))
}
