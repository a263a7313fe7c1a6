//! Who lives: a process that writes down what runs holds a lock on a file of its own beside the
//! ledger, for as long as it lives.
//!
//! The system lets go of the lock when the process ends, however it ends; so neither a process's
//! number, which another one may have since, nor a clock decides who is dead, and that holds over
//! containers, too. **Invariant:** who removes such a file holds its lock.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Stands between the ledger's name and the process's.
const BETWEEN: &str = "-run-";
/// Somebody may look at a new file before it is locked, and take it for a dead one's.
const TRIES: usize = 10;

/// The life of this process. Its end, in order, removes the file.
pub(super) struct Life {
    path: PathBuf,
    file: File,
}

impl Life {
    /// Begins under this name, beside the ledger.
    pub(super) fn begin(ledger: &Path, name: &str) -> io::Result<Life> {
        let path = place(ledger, name);
        for _ in 0..TRIES {
            // Its own, if it was removed without being dead: then this one is locked.
            let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
            let life = match file.try_lock() {
                Ok(()) => Life { path: path.clone(), file },
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(why)) => return Err(why),
            };
            if life.is_in_place() {
                return Ok(life);
            }
        }
        Err(io::Error::new(ErrorKind::ResourceBusy, format!("somebody keeps {} locked", path.display())))
    }

    /// Whether others can see it.
    pub(super) fn is_in_place(&self) -> bool {
        let same =
            |one: &std::fs::Metadata, other: &std::fs::Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
        self.file.metadata().is_ok_and(|held| std::fs::metadata(&self.path).is_ok_and(|there| same(&held, &there)))
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if self.is_in_place() {
            // What stays is found by the next one.
            std::fs::remove_file(&self.path).ok();
        }
    }
}

/// A process that does not live any more. As long as this is held, nobody else finds so.
pub(super) struct Dead {
    path: PathBuf,
    file: Option<File>,
}

impl Dead {
    /// If it is. Where that cannot be found out it lives.
    pub(super) fn find(ledger: &Path, name: &str) -> Option<Dead> {
        let path = place(ledger, name);
        // A name that is none of ours leads to no file.
        if !name.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Some(Dead { path, file: None });
        }
        match File::open(&path) {
            Err(why) if why.kind() == ErrorKind::NotFound => Some(Dead { path, file: None }),
            Err(_) => None,
            Ok(file) => file.try_lock().is_ok().then(|| Dead { path, file: Some(file) }),
        }
    }

    /// All that the ledger holds of it is taken over.
    pub(super) fn bury(self) {
        if self.file.is_some() {
            // What stays is found by the next one.
            std::fs::remove_file(&self.path).ok();
        }
    }
}

/// The names of processes that have such a file, alive or dead.
pub(super) fn names(ledger: &Path) -> Vec<String> {
    let (Some(folder), Some(file)) = (ledger.parent(), ledger.file_name()) else { return Vec::new() };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let prefix = format!("{}{BETWEEN}", file.to_string_lossy());
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.file_name().to_str()?.strip_prefix(&prefix).map(ToOwned::to_owned)).collect()
}

fn place(ledger: &Path, name: &str) -> PathBuf {
    let mut path = ledger.as_os_str().to_owned();
    path.push(BETWEEN);
    path.push(name);
    path.into()
}

#[cfg(test)]
mod tests {
    use super::super::tests::Folder;
    use super::*;

    #[test]
    fn who_lives_is_not_dead_and_who_is_dead_is_found_once() {
        let folder = Folder::new();
        let ledger = folder.path().join("ledger.sqlite");
        let life = Life::begin(&ledger, "one").unwrap();
        assert!(life.is_in_place() && Dead::find(&ledger, "one").is_none());
        assert_eq!(names(&ledger), ["one"]);
        // As a process leaves it that is killed.
        let file = place(&ledger, "two");
        File::create(&file).unwrap();
        let dead = Dead::find(&ledger, "two").unwrap();
        assert!(Dead::find(&ledger, "two").is_none(), "somebody has found it already");
        assert!(Life::begin(&ledger, "two").is_err(), "nobody can be it meanwhile");
        dead.bury();
        assert!(!file.exists() && Dead::find(&ledger, "two").is_some(), "of whom nothing is left is dead, too");
        drop(life);
        assert_eq!(names(&ledger), Vec::<String>::new());
    }

    #[test]
    fn a_life_whose_file_was_removed_begins_anew() {
        let folder = Folder::new();
        let ledger = folder.path().join("ledger.sqlite");
        let life = Life::begin(&ledger, "one").unwrap();
        std::fs::remove_file(place(&ledger, "one")).unwrap();
        assert!(!life.is_in_place());
        let again = Life::begin(&ledger, "one").unwrap();
        drop(life);
        assert!(
            again.is_in_place() && Dead::find(&ledger, "one").is_none(),
            "the old one's end leaves the new one's file"
        );
    }
}
