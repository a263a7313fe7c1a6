//! [`Settling`] decides which text of each file is whole, while other files, or the file itself,
//! are still being written.
//!
//! A file that is written in place looks like any other one at each moment, so only time tells that
//! it is half written. A text is **whole** in one of these cases:
//!
//! * It stood still for [`STILL_TIME`], and no writer is seen to hold it open.
//! * A rename put it there, and it is still there at a second look.
//! * It was found twice and then gave way to a text that does not begin with it. A writer that is
//!   not done only adds.
//! * It was found twice in a file that changes since [`MAX_WAIT`], no writer is seen to hold it
//!   open, and it is not empty.
//!
//! Changes that come together are taken together, if all are whole within [`MAX_WAIT`].
//! **Invariant:** no file waits for another one longer than that. The module is pure: its caller
//! passes in the texts that were read, and the times.
//!
//! A file that is written without a pause never has a whole text. After [`ENDLESS_AFTER`], a text
//! that was found while no writer had the file open is **closed**: it may be looked at, though it
//! is not known to be whole. It gave way to a text that does not begin with it, and for
//! [`CLOSED_PERIOD`] no longer text was there, so it is hardly a part of one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::texts::{FileText, Version};

/// The time after which a file that stands still counts as no longer being written.
pub const STILL_TIME: Duration = Duration::from_millis(500);
/// The time between two looks: if both find the same, the file was not in the middle of one write.
pub const SECOND_LOOK: Duration = Duration::from_millis(100);
/// The longest wait for a file that changes and is never quiet: its writer does not stop.
pub const MAX_WAIT: Duration = Duration::from_millis(800);
/// The time after which a file that keeps changing without a whole text is reported.
pub const ENDLESS_AFTER: Duration = Duration::from_secs(3);

/// The time within which a file must have had no longer text than a closed one.
pub const CLOSED_PERIOD: Duration = Duration::from_secs(1);

/// Whole texts, each with the time at which it was last there.
pub type WholeTexts = BTreeMap<PathBuf, (Version, Instant)>;

/// The sign of how a file came to be what it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sign {
    /// Nothing is known of it.
    #[default]
    Unknown,
    /// A rename put the file's text there, and no writer changed it since.
    Renamed,
    /// Somebody wrote into the file and has not closed it yet.
    Open,
    /// The writer has closed the file.
    Closed,
}

/// All files that are followed, and the state of each.
#[derive(Default)]
pub struct Settling {
    files: BTreeMap<PathBuf, TrackedFile>,
    /// The time at which somebody asked to look at once.
    asked_at: Option<Instant>,
}

/// The state of one file that is followed.
struct TrackedFile {
    /// The last text that is known to be whole; `None` if the file was never seen before.
    whole: Option<Version>,
    /// The time at which the whole text was last seen.
    whole_seen_at: Instant,
    /// The time since which no decision was made on the whole text.
    undecided_since: Option<Instant>,
    /// The time at which the live text was last seen.
    live_seen_at: Option<Instant>,
    /// True if the whole text is the live one.
    is_live: bool,
    /// The text that is there and is not known to be whole.
    unsettled: Option<UnsettledText>,
    /// The last closed text, and when it was there.
    closed: Option<(Version, Instant)>,
    /// The length of the longest text within [`CLOSED_PERIOD`], and when it was there.
    longest_length: Option<(usize, Instant)>,
}

struct UnsettledText {
    /// The text; `None` if a write cut across each read of it.
    version: Option<Version>,
    /// The time at which the text was found first.
    first_seen_at: Instant,
    /// The time at which the text was found last.
    last_seen_at: Instant,
    /// The time since which the file holds something that is not known to be whole.
    since: Instant,
    /// True if it is another file than the one that was there before.
    is_other_file: bool,
    /// True if it is another file, and a rename put it there.
    was_renamed: bool,
    /// The sign of the file at the last look.
    sign: Sign,
}

/// The answer to whether a new catalog may be considered now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// There is nothing new.
    Nothing,
    /// Something is new, but it is too early.
    Wait,
    /// There are new whole texts.
    Whole {
        /// The time at which the oldest change was first seen.
        oldest_change: Instant,
        /// True if each file has a whole text: no file is still being written.
        all_are_whole: bool,
    },
}

/// The decision on whole texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The texts are live.
    Live,
    /// At least one of the texts is refused.
    NotLive,
}

/// A change that is not live yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingChange {
    /// The time since which the change waits.
    pub since: Instant,
    /// The files that changed.
    pub files: Vec<PathBuf>,
    /// Those of the files that are being written without an end, and the time since when.
    pub endless: Vec<(PathBuf, Instant)>,
}

impl Settling {
    /// Begins to follow the files whose texts are live.
    pub fn new(live: impl IntoIterator<Item = (PathBuf, Version)>, now: Instant) -> Self {
        let files = live.into_iter().map(|(path, version)| {
            let file = TrackedFile {
                live_seen_at: Some(now),
                is_live: true,
                ..TrackedFile::new(Some(version), now)
            };
            (path, file)
        });
        Self {
            files: files.collect(),
            asked_at: None,
        }
    }

    /// Returns all files that are followed.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }

    /// Returns what was last found at a path, unless a write cut across it.
    pub fn last_found(&self, path: &Path) -> Option<&Version> {
        let file = self.files.get(path)?;
        match &file.unsettled {
            Some(unsettled) => unsettled.version.as_ref(),
            None => file.whole.as_ref(),
        }
    }

    /// Returns whether a file is followed.
    pub fn follows(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    /// Follows one more file of the catalog's folder, which was not there before.
    pub fn follow_appeared(&mut self, path: &Path, now: Instant) {
        self.files
            .entry(path.to_owned())
            .or_insert_with(|| TrackedFile {
                is_live: true,
                ..TrackedFile::new(Some(Version::missing()), now)
            });
    }

    /// Follows a file that the catalog names, and that was read while the catalog was made. If the
    /// file is `old`, no writer changed it recently, and its text counts as whole.
    pub fn follow_named(&mut self, path: PathBuf, version: Version, old: bool, now: Instant) {
        let file = match old {
            true => TrackedFile::new(Some(version), now),
            false => TrackedFile {
                unsettled: Some(UnsettledText::new(Some(version), now)),
                ..TrackedFile::new(None, now)
            },
        };
        self.files.entry(path).or_insert(file);
    }

    /// Returns whether each file was seen whole once.
    pub fn is_complete(&self) -> bool {
        self.files.values().all(|file| file.whole.is_some())
    }

    /// Stops following files that are gone, unless they are wanted or still have something to
    /// consider.
    pub fn forget_gone_unless(&mut self, wanted: impl Fn(&Path) -> bool) {
        self.files.retain(|path, file| {
            wanted(path)
                || file.undecided_since.is_some()
                || file.unsettled.is_some()
                || file.is_there()
        });
    }

    /// Stops following files that are not wanted. They are neither part of the catalog nor named by
    /// it, and were considered.
    pub fn keep_only(&mut self, wanted: impl Fn(&Path) -> bool) {
        self.files.retain(|path, _| wanted(path));
    }

    /// Notes that somebody asked to look at once. A text that is found twice alike is then taken.
    pub fn ask(&mut self, now: Instant) {
        self.asked_at = Some(now);
    }

    /// Returns how long ago somebody asked, if that is less than [`MAX_WAIT`].
    fn time_since_asked(&self, now: Instant) -> Option<Duration> {
        self.asked_at
            .map(|asked_at| now.duration_since(asked_at))
            .filter(|long| *long < MAX_WAIT)
    }

    /// Takes what a look found at a file; `None` if a write cut across the look.
    pub fn observe(&mut self, path: &Path, version: Option<Version>, sign: Sign, now: Instant) {
        let asked = self.time_since_asked(now).is_some();
        if let Some(file) = self.files.get_mut(path) {
            file.observe(version, sign, asked, now);
        }
    }

    /// Returns what may be considered now.
    pub fn ready(&self, now: Instant) -> Ready {
        let all_are_whole = self.files.values().all(|file| file.unsettled.is_none());
        let looked_twice = self
            .time_since_asked(now)
            .is_some_and(|long| long > 2 * SECOND_LOOK);
        match self
            .files
            .values()
            .filter_map(|file| file.undecided_since)
            .min()
        {
            None if all_are_whole => Ready::Nothing,
            Some(oldest_change)
                if all_are_whole
                    || looked_twice
                    || now.duration_since(oldest_change) >= MAX_WAIT =>
            {
                Ready::Whole {
                    oldest_change,
                    all_are_whole,
                }
            }
            Some(_) | None => Ready::Wait,
        }
    }

    /// Returns whether no file needs another look soon.
    pub fn is_quiet(&self) -> bool {
        self.files
            .values()
            .all(|file| file.unsettled.is_none() && file.undecided_since.is_none())
    }

    /// Returns the whole texts that are to be considered.
    pub fn whole_texts(&self) -> WholeTexts {
        let whole = |file: &TrackedFile| Some((file.whole.clone()?, file.whole_seen_at));
        self.files
            .iter()
            .filter_map(|(path, file)| Some((path.clone(), whole(file)?)))
            .collect()
    }

    /// Notes the decision on these texts. Texts that became whole meanwhile still wait for theirs.
    pub fn note_decision(&mut self, texts: &WholeTexts, decision: Decision) {
        for (path, file) in &mut self.files {
            let Some((version, seen_at)) = texts.get(path) else {
                continue;
            };
            let same = file
                .whole
                .as_ref()
                .is_some_and(|whole| whole.text == version.text);
            if same {
                file.undecided_since = None;
            }
            if decision == Decision::Live {
                file.is_live = same;
                file.live_seen_at = Some(if same { file.whole_seen_at } else { *seen_at });
            }
        }
    }

    /// Returns the closed texts of the files that are written without a pause since
    /// [`ENDLESS_AFTER`].
    pub fn closed_texts(&self, now: Instant) -> WholeTexts {
        let endless = self.files.iter().filter(|(_, file)| {
            let since = file.unsettled.as_ref().map(|unsettled| unsettled.since);
            since.is_some_and(|since| now.saturating_duration_since(since) >= ENDLESS_AFTER)
        });
        endless
            .filter_map(|(path, file)| Some((path.clone(), file.closed.clone()?)))
            .collect()
    }

    /// Notes the decision on these closed texts. They are whole if they are live.
    pub fn note_closed_decision(&mut self, texts: WholeTexts, decision: Decision, now: Instant) {
        for (path, (version, seen_at)) in texts {
            let Some(file) = self.files.get_mut(&path) else {
                continue;
            };
            file.closed.take_if(|(closed, _)| *closed == version);
            if decision == Decision::Live {
                file.whole = Some(version);
                file.whole_seen_at = seen_at;
                file.undecided_since = None;
                file.is_live = true;
                file.live_seen_at = Some(seen_at);
                if let Some(unsettled) = &mut file.unsettled {
                    unsettled.since = now;
                }
            }
        }
    }

    /// Returns the time at which each file's live text was last there: an edit before that time is
    /// live.
    pub fn live_times(&self) -> impl Iterator<Item = (&Path, Instant)> {
        self.files
            .iter()
            .filter_map(|(path, file)| Some((path.as_path(), file.live_seen_at?)))
    }

    /// Returns the change that is not live yet, if there is one.
    pub fn waiting(&self, now: Instant) -> Option<WaitingChange> {
        let waits: Vec<_> = self
            .files
            .iter()
            .filter_map(|(path, file)| Some((path, file, file.waits_since()?)))
            .collect();
        let is_endless = |since: &Instant| now.saturating_duration_since(*since) >= ENDLESS_AFTER;
        let endless = |file: &TrackedFile| file.unsettled_since().filter(is_endless);
        Some(WaitingChange {
            since: waits.iter().map(|(.., since)| *since).min()?,
            files: waits.iter().map(|(path, ..)| (*path).clone()).collect(),
            endless: waits
                .iter()
                .filter_map(|(path, file, _)| Some(((*path).clone(), endless(file)?)))
                .collect(),
        })
    }
}

impl TrackedFile {
    /// Begins to track a file with this whole text, which is not live.
    fn new(whole: Option<Version>, now: Instant) -> Self {
        Self {
            whole,
            whole_seen_at: now,
            undecided_since: None,
            live_seen_at: None,
            is_live: false,
            unsettled: None,
            closed: None,
            longest_length: None,
        }
    }

    /// Takes what a look found; `None` if a write cut across the look.
    fn observe(&mut self, version: Option<Version>, sign: Sign, asked: bool, now: Instant) {
        let Some(version) = version else {
            // The file does not stand still. The text that was found before may still prove whole.
            self.unsettled
                .get_or_insert_with(|| UnsettledText::new(None, now))
                .first_seen_at = now;
            return;
        };
        if let Some(whole) = self
            .whole
            .as_mut()
            .filter(|whole| whole.text == version.text)
        {
            // Nothing is new, or the text was changed back.
            *whole = version;
            self.whole_seen_at = now;
            self.unsettled = None;
            self.closed = None;
            self.longest_length = None;
            if self.is_live {
                self.live_seen_at = Some(now);
            }
            return;
        }
        let since = self
            .unsettled
            .as_ref()
            .map_or(now, |unsettled| unsettled.since);
        let before = self
            .unsettled
            .as_ref()
            .map_or(self.whole.as_ref(), |unsettled| unsettled.version.as_ref());
        let id = |version: &Version| version.stat.map(|stat| stat.id);
        let is_other_file = before.is_some_and(|before| id(before) != id(&version));
        // A sign may be late, and may be about what was there before. A file that was written into
        // is the same file.
        let was_renamed = is_other_file && sign == Sign::Renamed;
        // A file that is not there any more cannot be written to its end.
        let sign = if version.stat.is_some() {
            sign
        } else {
            Sign::Unknown
        };
        self.note_length(&version, now);
        let found = UnsettledText {
            since,
            is_other_file,
            was_renamed,
            sign,
            ..UnsettledText::new(Some(version), now)
        };
        match self.unsettled.take() {
            Some(mut same) if same.version == found.version => {
                same.last_seen_at = now;
                same.was_renamed = same.is_other_file && sign == Sign::Renamed;
                same.sign = sign;
                let stood = now.duration_since(same.first_seen_at);
                // Whoever writes the file again begins by emptying it.
                let is_emptied = same
                    .version
                    .as_ref()
                    .is_some_and(|version| version.stat.is_some() && version.length() == 0);
                let late = !is_emptied && now.duration_since(since) >= MAX_WAIT;
                // Whoever holds the file open may go on after any pause.
                let is_open = sign == Sign::Open;
                if !is_open
                    && (stood >= STILL_TIME
                        || (stood >= SECOND_LOOK && (same.was_renamed || late || asked)))
                {
                    self.accept_whole(same);
                } else {
                    self.unsettled = Some(same);
                }
            }
            Some(before) => {
                let gave_way = before.is_proven_by(&found);
                if before.is_closed_by(&found, self.longest_length) {
                    self.closed = before
                        .version
                        .clone()
                        .map(|version| (version, before.last_seen_at));
                }
                self.unsettled = Some(found);
                if gave_way && let Some(next) = &mut self.unsettled {
                    next.since = now;
                    self.accept_whole(before);
                }
            }
            None => self.unsettled = Some(found),
        }
    }

    /// Notes how long the text is that was found.
    fn note_length(&mut self, version: &Version, now: Instant) {
        let length = version.length();
        let was_longer = self
            .longest_length
            .is_some_and(|(longest_length, seen_at)| {
                longest_length > length && now.duration_since(seen_at) < CLOSED_PERIOD
            });
        if !was_longer {
            self.longest_length = Some((length, now));
        }
    }

    /// Takes this text as the whole one, on which a decision is still to be made.
    fn accept_whole(&mut self, text: UnsettledText) {
        self.whole = text.version;
        self.whole_seen_at = text.last_seen_at;
        self.is_live = false;
        self.closed = None;
        self.undecided_since.get_or_insert(text.since);
    }

    /// Returns the time since which the file has a text that is not known to be whole.
    fn unsettled_since(&self) -> Option<Instant> {
        self.unsettled.as_ref().map(|unsettled| unsettled.since)
    }

    /// Returns the time since which a change of the file waits.
    fn waits_since(&self) -> Option<Instant> {
        self.undecided_since
            .into_iter()
            .chain(self.unsettled_since())
            .min()
    }

    /// Returns whether there is such a file, as far as is known.
    fn is_there(&self) -> bool {
        self.whole
            .as_ref()
            .is_none_or(|whole| whole.text != FileText::Missing)
    }
}

impl UnsettledText {
    /// Makes a text that is found for the first time.
    fn new(version: Option<Version>, now: Instant) -> Self {
        Self {
            version,
            first_seen_at: now,
            last_seen_at: now,
            since: now,
            is_other_file: false,
            was_renamed: false,
            sign: Sign::Unknown,
        }
    }

    /// Returns whether the text was whole, now that `next` took its place.
    fn is_proven_by(&self, next: &UnsettledText) -> bool {
        let was_twice =
            self.was_renamed || self.last_seen_at.duration_since(self.first_seen_at) >= SECOND_LOOK;
        self.sign != Sign::Open && was_twice && self.is_no_beginning_of(next)
    }

    /// Returns whether the text was closed, now that `next` took its place.
    fn is_closed_by(&self, next: &UnsettledText, longest_length: Option<(usize, Instant)>) -> bool {
        let length = self.version.as_ref().map(Version::length);
        self.sign == Sign::Closed
            && self.is_no_beginning_of(next)
            && length >= longest_length.map(|(longest_length, _)| longest_length)
    }

    fn is_no_beginning_of(&self, next: &UnsettledText) -> bool {
        let versions = self.version.as_ref().zip(next.version.as_ref());
        versions.is_some_and(|(version, next)| !version.may_become(next))
    }
}

#[cfg(test)]
mod tests;
