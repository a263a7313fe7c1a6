//! The files that need not be read again, since each is surely what it was when it was read.
//!
//! **Invariant:** a file counts as unchanged only if its path leads where it led, to the same file
//! with the same size and the same times, and if the last change of the file was [`RECENT_AGE`] old
//! when it was read. A younger change may be followed by another one within the same tick of the
//! file system's clock.

use super::was_changed_within;
use crate::catalog::files::{open_regular_file, read_whole};
use crate::catalog::texts::{FileText, Stat, Version};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The age below which a change counts as recent.
const RECENT_AGE: Duration = Duration::from_secs(2);

/// Where each file was when it was read.
#[derive(Default)]
pub(super) struct SeenFiles(HashMap<PathBuf, FilePlace>);

/// Where a path leads, and what is there.
#[derive(PartialEq, Eq)]
struct FilePlace {
    /// The folder, without links on the way.
    folder: Arc<Path>,
    /// The file that a link leads to, without links on the way.
    target: Option<PathBuf>,
    stat: Stat,
}

/// One reading of all files.
pub(super) struct Reading<'s> {
    seen: &'s mut SeenFiles,
    /// The folders of the files, and where they are without links on the way.
    folders: HashMap<PathBuf, Option<Arc<Path>>>,
    /// The time at which the reading began.
    clock: SystemTime,
    /// True if each file is read, even one that is surely unchanged.
    compares_all: bool,
}

impl SeenFiles {
    /// Begins a reading. If it `compares_all`, each file is read.
    pub(super) fn begin_reading(&mut self, compares_all: bool, clock: SystemTime) -> Reading<'_> {
        Reading {
            seen: self,
            folders: HashMap::new(),
            clock,
            compares_all,
        }
    }

    /// Forgets the files that are not wanted.
    pub(super) fn keep(&mut self, wanted: impl Fn(&Path) -> bool) {
        self.0.retain(|path, _| wanted(path));
    }
}

impl Reading<'_> {
    /// Returns what a file holds: what is known of it, if it is surely unchanged. Returns `None` if
    /// a write cut across the reading.
    pub(super) fn read(
        &mut self,
        path: &Path,
        known: Option<Version>,
        limit: usize,
    ) -> Option<Version> {
        let place = self.find_place(path);
        let is_seen = place.is_some() && place.as_ref() == self.seen.0.get(path);
        let known = match known {
            Some(known) if is_seen && !self.compares_all && is_at(&known, place.as_ref()) => {
                return Some(known);
            }
            known => known.map_or(FileText::Missing, |known| known.text),
        };
        let found = read_whole(path, limit, &known);
        self.seen.0.remove(path);
        if let (Some(version), Some(place)) = (&found, place)
            && is_at(version, Some(&place))
            && !was_changed_within(version, RECENT_AGE, self.clock)
        {
            self.seen.0.insert(path.to_owned(), place);
        }
        found
    }

    /// Returns where a path leads.
    fn find_place(&mut self, path: &Path) -> Option<FilePlace> {
        let parent = path.parent()?;
        if !self.folders.contains_key(parent) {
            let real = fs::canonicalize(parent).ok().map(Arc::from);
            self.folders.insert(parent.to_owned(), real);
        }
        let folder = self.folders.get(parent)?.clone()?;
        // A network file system asks its server when a file is opened. Otherwise it may answer with
        // what it knew a minute ago.
        let (file, _) = open_regular_file(path).ok()?;
        let is_link = fs::symlink_metadata(path).ok()?.is_symlink();
        let target = is_link.then(|| fs::canonicalize(path)).transpose().ok()?;
        Some(FilePlace {
            folder,
            target,
            stat: Stat::from(&file.metadata().ok()?),
        })
    }
}

/// Returns whether a version is the text of the file at this place.
fn is_at(version: &Version, place: Option<&FilePlace>) -> bool {
    matches!(version.text, FileText::Bytes(_)) && version.stat == place.map(|place| place.stat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::files::stat_file;
    use std::os::unix::fs::symlink;
    use std::time::Instant;

    /// A folder of its own for each test, gone with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let name = format!("portcullis-seen-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn text(version: Option<&Version>) -> String {
        let bytes = version.expect("no write cuts across").text.bytes(1_000);
        String::from_utf8(bytes.unwrap().to_vec()).unwrap()
    }

    /// Returns what a reading finds of a file of which this is known.
    fn read_again(seen: &mut SeenFiles, path: &Path, known: Version) -> String {
        let mut reading = seen.begin_reading(false, SystemTime::now());
        text(reading.read(path, Some(known), 1_000).as_ref())
    }

    /// Returns whether a reading gives back the very text that is known, however long that takes.
    #[track_caller]
    fn is_spared(seen: &mut SeenFiles, path: &Path, known: &Version) -> bool {
        // What is known is wrong, so that a text that was read differs from it.
        let wrong = Version {
            stat: known.stat,
            text: FileText::Bytes(Arc::new(b"wrong".to_vec().into())),
        };
        let mut reading = seen.begin_reading(false, SystemTime::now());
        let found = reading.read(path, Some(wrong.clone()), 1_000).unwrap();
        found == wrong
    }

    /// Reads until the change of the file is old enough.
    fn read_settled(seen: &mut SeenFiles, path: &Path) -> Version {
        let began = Instant::now();
        loop {
            let mut reading = seen.begin_reading(false, SystemTime::now());
            let found = reading.read(path, None, 1_000).unwrap();
            if is_spared(seen, path, &found) {
                return found;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "it stays recent");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_recent_change_is_read_again() {
        let folder = Folder::new("recent");
        let path = folder.0.join("a.yaml");
        fs::write(&path, "one").unwrap();
        let mut seen = SeenFiles::default();
        let changed = SystemTime::UNIX_EPOCH
            + Duration::from_nanos(
                u64::try_from(stat_file(&path).unwrap().changed).expect("after 1970"),
            );
        let mut read_at = |clock: SystemTime| {
            let found = seen.begin_reading(false, clock).read(&path, None, 1_000);
            let is_kept = seen.0.contains_key(&path);
            assert_eq!(text(found.as_ref()), "one");
            is_kept
        };
        assert!(!read_at(changed + Duration::from_millis(1_999)));
        assert!(read_at(changed + Duration::from_millis(2_001)));
    }

    #[test]
    fn the_same_size_and_time_are_no_same_file() {
        let folder = Folder::new("same");
        let path = folder.0.join("a.yaml");
        fs::write(&path, "one").unwrap();
        let mut seen = SeenFiles::default();
        let known = read_settled(&mut seen, &path);
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        // In place, with the old time put back.
        fs::write(&path, "two").unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(modified).unwrap();
        drop(file);
        let stat = stat_file(&path).unwrap();
        let before = known.stat.unwrap();
        assert_eq!(
            (stat.id, stat.size, stat.modified),
            (before.id, before.size, before.modified)
        );
        assert_eq!(read_again(&mut seen, &path, known), "two");
    }

    #[test]
    fn a_link_that_leads_elsewhere_is_followed() {
        let folder = Folder::new("link");
        let [first, second] = ["v1", "v2"].map(|name| folder.0.join(name));
        for (place, written) in [(&first, "one"), (&second, "two")] {
            fs::create_dir_all(place).unwrap();
            fs::write(place.join("a.yaml"), written).unwrap();
        }
        symlink("v1", folder.0.join("..data")).unwrap();
        let path = folder.0.join("a.yaml");
        symlink("..data/a.yaml", &path).unwrap();
        let mut seen = SeenFiles::default();
        let known = read_settled(&mut seen, &path);
        assert_eq!(text(Some(&known)), "one");
        // As a mounted volume does it: no file changes, and the link is replaced.
        symlink("v2", folder.0.join("..new")).unwrap();
        fs::rename(folder.0.join("..new"), folder.0.join("..data")).unwrap();
        assert_eq!(read_again(&mut seen, &path, known), "two");
    }

    #[test]
    fn a_comparison_reads_all_and_copies_nothing() {
        let folder = Folder::new("compare");
        let path = folder.0.join("a.yaml");
        fs::write(&path, "one").unwrap();
        let mut seen = SeenFiles::default();
        let known = read_settled(&mut seen, &path);
        let mut compare = |known: &Version| {
            let mut reading = seen.begin_reading(true, SystemTime::now());
            reading.read(&path, Some(known.clone()), 1_000).unwrap()
        };
        let FileText::Bytes(bytes) = &known.text else {
            panic!("{known:?}");
        };
        let FileText::Bytes(found) = compare(&known).text else {
            panic!("a file is there");
        };
        assert!(Arc::ptr_eq(bytes, &found));
        // A file system that hides a change from all times and sizes.
        let wrong = Version {
            stat: known.stat,
            text: FileText::Bytes(Arc::new(b"eno".to_vec().into())),
        };
        assert_eq!(text(Some(&compare(&wrong))), "one");
    }
}
