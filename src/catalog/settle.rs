//! [`Settling`] says which text of each file is whole, while others, or the file itself, go on
//! being written.
//!
//! A file that is written in place looks like any other one at each moment, so what is half written
//! must be told by time. A text is **whole** when it stood still for [`QUIET`] and nobody is seen
//! to hold it open; or was put there by a rename, and is still there at a second look; or was found
//! twice and then gave way to one that does not begin with it, since whoever is in the middle of
//! writing only adds; or was found twice in a file that changes since [`PATIENCE`] and that nobody
//! is seen to hold open. Changes that come together are taken together, if all are whole within
//! [`PATIENCE`]. **Invariant:** no file waits for another one longer than that. It is pure: what is
//! found, and when, is told to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::texts::{FileText, Version};

/// A file that stood still for so long is not being written.
pub const QUIET: Duration = Duration::from_millis(500);
/// Two looks so far apart that find the same found no file in the middle of one write.
pub const AGAIN: Duration = Duration::from_millis(100);
/// What changes for so long and is never quiet is somebody's who does not stop: it is not waited
/// for.
pub const PATIENCE: Duration = Duration::from_millis(800);
/// A file that changed for so long, and of which no text was whole, is told of.
pub const ENDLESS: Duration = Duration::from_secs(3);

/// Whole texts, each with when it was there last.
pub type WholeTexts = BTreeMap<PathBuf, (Version, Instant)>;

/// What is known of a file's writers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Signs {
    /// Its text was put there by a rename, and nobody wrote into it since.
    pub renamed: bool,
    /// Somebody wrote into it and has not closed it yet.
    pub open: bool,
}

/// All files, and how far each is.
#[derive(Default)]
pub struct Settling {
    files: BTreeMap<PathBuf, TrackedFile>,
    /// Somebody asked to look at once.
    asked: Option<Instant>,
}

/// What was found of one file, and how far it is.
struct TrackedFile {
    /// The last text that is known to be whole. None: it was never seen before.
    whole: Option<Version>,
    /// When it was there last.
    there: Instant,
    /// Since when there is a whole text that was not considered.
    ripe: Option<Instant>,
    /// When the text that is live was there last.
    live_at: Option<Instant>,
    /// Whether that is the whole text.
    live: bool,
    /// What is there and is not known to be whole.
    fresh: Option<UnsettledText>,
}

struct UnsettledText {
    /// None: each read of it was cut across by a write.
    version: Option<Version>,
    /// When it was found first, and last.
    first: Instant,
    last: Instant,
    /// Since when the file holds something that is not known to be whole.
    since: Instant,
    /// It is another file than the one that was there before.
    another: bool,
    /// And was put there by a rename.
    renamed: bool,
    /// When it was found last, somebody who had written into it had not closed it yet.
    open: bool,
}

/// What may be considered now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Nothing is new.
    Nothing,
    /// Something is new, but it is too early.
    Wait,
    /// Whole texts that are new.
    Whole {
        /// The oldest change was seen first then.
        since: Instant,
        /// No other file is being written.
        all: bool,
    },
}

/// A change that is not live yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingChange {
    /// Since when.
    pub since: Instant,
    /// In which files.
    pub files: Vec<PathBuf>,
    /// Those of them that are being written without an end, and since when.
    pub endless: Vec<(PathBuf, Instant)>,
}

impl Settling {
    /// Begins to follow the files whose texts are live.
    pub fn new(live: impl IntoIterator<Item = (PathBuf, Version)>, now: Instant) -> Self {
        let file = |version| TrackedFile { live_at: Some(now), live: true, ..TrackedFile::new(Some(version), now) };
        Self { files: live.into_iter().map(|(path, version)| (path, file(version))).collect(), asked: None }
    }

    /// Returns all files that are followed.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }

    /// Returns what was found there last, unless a write cut across.
    pub fn found(&self, path: &Path) -> Option<&Version> {
        let file = self.files.get(path)?;
        match &file.fresh {
            Some(fresh) => fresh.version.as_ref(),
            None => file.whole.as_ref(),
        }
    }

    /// Returns whether a file is followed.
    pub fn follows(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    /// Follows one more file of the catalog's folder, which was not there before.
    pub fn appeared(&mut self, path: &Path, now: Instant) {
        let missing = || TrackedFile { live: true, ..TrackedFile::new(Some(Version::missing()), now) };
        self.files.entry(path.to_owned()).or_insert_with(missing);
    }

    /// Follows a file that the catalog names, and that was read as the catalog was made. What is
    /// `old` was not written of late.
    pub fn named(&mut self, path: PathBuf, version: Version, old: bool, now: Instant) {
        let file = match old {
            true => TrackedFile::new(Some(version), now),
            false => TrackedFile { fresh: Some(UnsettledText::new(Some(version), now)), ..TrackedFile::new(None, now) },
        };
        self.files.entry(path).or_insert(file);
    }

    /// Returns whether all files that the catalog names were seen whole once.
    pub fn is_complete(&self) -> bool {
        self.files.values().all(|file| file.whole.is_some())
    }

    /// Stops following what is not wanted, unless something of it is still to be considered.
    pub fn keep(&mut self, wanted: impl Fn(&Path) -> bool) {
        self.files.retain(|path, file| wanted(path) || file.ripe.is_some() || file.fresh.is_some() || file.is_there());
    }

    /// Stops following what is neither part of the catalog nor named by it, now that it was
    /// considered.
    pub fn keep_only(&mut self, wanted: impl Fn(&Path) -> bool) {
        self.files.retain(|path, _| wanted(path));
    }

    /// Notes that somebody asked to look at once: what is found twice alike is taken.
    pub fn ask(&mut self, now: Instant) {
        self.asked = Some(now);
    }

    /// Returns how long ago somebody asked, unless that is over.
    fn asked_for(&self, now: Instant) -> Option<Duration> {
        self.asked.map(|asked| now.duration_since(asked)).filter(|long| *long < PATIENCE)
    }

    /// Tells what a look found at a file. None: a write cut across it.
    pub fn observe(&mut self, path: &Path, version: Option<Version>, signs: Signs, now: Instant) {
        let asked = self.asked_for(now).is_some();
        if let Some(file) = self.files.get_mut(path) {
            file.observe(version, signs, asked, now);
        }
    }

    /// Returns what may be considered.
    pub fn ready(&self, now: Instant) -> Ready {
        let all = self.files.values().all(|file| file.fresh.is_none());
        let looked_twice = self.asked_for(now).is_some_and(|long| long > 2 * AGAIN);
        match self.files.values().filter_map(|file| file.ripe).min() {
            None if all => Ready::Nothing,
            Some(since) if all || looked_twice || now.duration_since(since) >= PATIENCE => Ready::Whole { since, all },
            Some(_) | None => Ready::Wait,
        }
    }

    /// Returns whether nothing is left to look at soon.
    pub fn is_quiet(&self) -> bool {
        self.files.values().all(|file| file.fresh.is_none() && file.ripe.is_none())
    }

    /// Returns the whole texts, as they are to be considered.
    pub fn whole(&self) -> WholeTexts {
        let whole = |file: &TrackedFile| Some((file.whole.clone()?, file.there));
        self.files.iter().filter_map(|(path, file)| Some((path.clone(), whole(file)?))).collect()
    }

    /// Notes that these texts were considered. What became whole meanwhile is still to be.
    pub fn considered(&mut self, texts: &WholeTexts, live: bool) {
        for (path, file) in &mut self.files {
            let Some((version, there)) = texts.get(path) else { continue };
            let same = file.whole.as_ref().is_some_and(|whole| whole.text == version.text);
            if same {
                file.ripe = None;
            }
            if live {
                (file.live, file.live_at) = (same, Some(if same { file.there } else { *there }));
            }
        }
    }

    /// Returns when the live text of each file was there last: an edit before that is live.
    pub fn live(&self) -> impl Iterator<Item = (&Path, Instant)> {
        self.files.iter().filter_map(|(path, file)| Some((path.as_path(), file.live_at?)))
    }

    /// Returns what waits.
    pub fn waiting(&self, now: Instant) -> Option<WaitingChange> {
        let since =
            |file: &TrackedFile| file.ripe.into_iter().chain(file.fresh.as_ref().map(|fresh| fresh.since)).min();
        let waits: Vec<_> = self.files.iter().filter_map(|(path, file)| Some((path, file, since(file)?))).collect();
        let endless = |file: &TrackedFile| {
            file.fresh
                .as_ref()
                .map(|fresh| fresh.since)
                .filter(|since| now.saturating_duration_since(*since) >= ENDLESS)
        };
        Some(WaitingChange {
            since: waits.iter().map(|(.., since)| *since).min()?,
            files: waits.iter().map(|(path, ..)| (*path).clone()).collect(),
            endless: waits.iter().filter_map(|(path, file, _)| Some(((*path).clone(), endless(file)?))).collect(),
        })
    }
}

impl TrackedFile {
    /// Begins to track a file with this whole text, which is not live.
    fn new(whole: Option<Version>, now: Instant) -> Self {
        Self { whole, there: now, ripe: None, live_at: None, live: false, fresh: None }
    }

    /// Takes note of what a look found. None: a write cut across it.
    fn observe(&mut self, version: Option<Version>, signs: Signs, asked: bool, now: Instant) {
        let Some(version) = version else {
            // It does not stand still. What was found before may still prove whole.
            self.fresh.get_or_insert_with(|| UnsettledText::new(None, now)).first = now;
            return;
        };
        if let Some(whole) = self.whole.as_mut().filter(|whole| whole.text == version.text) {
            // Nothing is new, or it was changed back.
            *whole = version;
            self.there = now;
            self.fresh = None;
            if self.live {
                self.live_at = Some(now);
            }
            return;
        }
        let since = self.fresh.as_ref().map_or(now, |fresh| fresh.since);
        let before = self.fresh.as_ref().map_or(self.whole.as_ref(), |fresh| fresh.version.as_ref());
        let id = |version: &Version| version.stat.map(|stat| stat.id);
        let another = before.is_some_and(|before| id(before) != id(&version));
        // What is told of a file may be late, and about what was there before: a file that was
        // written into is the same one.
        let renamed = another && signs.renamed;
        // What is not there any more is nobody's to end.
        let open = signs.open && version.stat.is_some();
        let fresh = UnsettledText { since, another, renamed, open, ..UnsettledText::new(Some(version), now) };
        match self.fresh.take() {
            Some(mut same) if same.version == fresh.version => {
                same.last = now;
                (same.renamed, same.open) = (same.another && signs.renamed, open);
                let stood = now.duration_since(same.first);
                let late = now.duration_since(since) >= PATIENCE;
                // Who holds it open may go on after any pause.
                if !open && (stood >= QUIET || (stood >= AGAIN && (same.renamed || late || asked))) {
                    self.take(same);
                } else {
                    self.fresh = Some(same);
                }
            }
            Some(before) => {
                let gave_way = before.is_proven_by(&fresh);
                self.fresh = Some(fresh);
                if gave_way && let Some(next) = &mut self.fresh {
                    next.since = now;
                    self.take(before);
                }
            }
            None => self.fresh = Some(fresh),
        }
    }

    fn take(&mut self, fresh: UnsettledText) {
        self.whole = fresh.version;
        self.there = fresh.last;
        self.live = false;
        self.ripe.get_or_insert(fresh.since);
    }

    /// Returns whether there is such a file, as far as is known.
    fn is_there(&self) -> bool {
        self.whole.as_ref().is_none_or(|whole| whole.text != FileText::Missing)
    }
}

impl UnsettledText {
    /// Makes a text that is found for the first time.
    fn new(version: Option<Version>, now: Instant) -> Self {
        Self { version, first: now, last: now, since: now, another: false, renamed: false, open: false }
    }

    /// Returns whether it was whole, now that something else took its place.
    fn is_proven_by(&self, next: &UnsettledText) -> bool {
        let (Some(version), Some(after)) = (&self.version, &next.version) else { return false };
        !self.open && (self.renamed || self.last.duration_since(self.first) >= AGAIN) && !version.may_become(after)
    }
}

#[cfg(test)]
mod tests;
