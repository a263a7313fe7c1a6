//! A [`Life`] shows that a process lives. A process that writes the use of running exchanges holds
//! a lock on a file of its own in the ledger's folder, for as long as it lives.
//!
//! The system releases the lock when the process ends, however it ends. So neither a process's
//! number, which another process may get, nor a clock decides which process is dead. This also
//! works between containers. **Invariant:** only a process that holds the lock of such a file
//! removes it.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The text between the ledger's name and the process's name in a file's name.
const BETWEEN: &str = "-run-";
/// The largest number of tries to make the file. Another process may open a new file before it is
/// locked, and take its owner for dead; then the file is made again.
const MAX_TRIES: usize = 10;

/// The sign that this process lives. Dropping it removes the file.
pub(super) struct Life {
    path: PathBuf,
    file: File,
}

impl Life {
    /// Makes and locks a file of this name in the ledger's folder.
    pub(super) fn begin(ledger: &Path, name: &str) -> io::Result<Life> {
        let path = lock_path(ledger, name);
        for _ in 0..MAX_TRIES {
            // If the file is removed before it is locked, others do not see the locked file.
            let file = File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)?;
            let life = match file.try_lock() {
                Ok(()) => Life {
                    path: path.clone(),
                    file,
                },
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(why)) => return Err(why),
            };
            if life.is_in_place() {
                return Ok(life);
            }
        }
        Err(io::Error::new(
            ErrorKind::ResourceBusy,
            format!("another process has locked {}", path.display()),
        ))
    }

    /// Returns whether others can see the file.
    pub(super) fn is_in_place(&self) -> bool {
        let (Ok(held), Ok(there)) = (self.file.metadata(), std::fs::metadata(&self.path)) else {
            return false;
        };
        (held.dev(), held.ino()) == (there.dev(), there.ino())
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if self.is_in_place() {
            // If the file stays, the next process finds it.
            std::fs::remove_file(&self.path).ok();
        }
    }
}

/// A dead process. While this is held, no other process finds it dead.
pub(super) struct Dead {
    path: PathBuf,
    file: Option<File>,
}

impl Dead {
    /// Returns the process if it is dead. If that cannot be found out, it counts as alive.
    pub(super) fn find(ledger: &Path, name: &str) -> Option<Dead> {
        let path = lock_path(ledger, name);
        // This program never makes such a name, so the name has no file.
        if !name.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Some(Dead { path, file: None });
        }
        match File::open(&path) {
            Err(why) if why.kind() == ErrorKind::NotFound => Some(Dead { path, file: None }),
            Err(_) => None,
            Ok(file) => file.try_lock().is_ok().then(|| Dead {
                path,
                file: Some(file),
            }),
        }
    }

    /// Removes the file. By now, all that the ledger holds of the process is taken over.
    pub(super) fn bury(self) {
        if self.file.is_some() {
            // If the file stays, the next process finds it.
            std::fs::remove_file(&self.path).ok();
        }
    }
}

/// Lists the names of the processes that have such a file, alive or dead.
pub(super) fn process_names(ledger: &Path) -> Vec<String> {
    let (Some(folder), Some(file)) = (ledger.parent(), ledger.file_name()) else {
        return Vec::new();
    };
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let prefix = format!("{}{BETWEEN}", file.to_string_lossy());
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter_map(|file| {
            file.file_name()
                .to_str()?
                .strip_prefix(&prefix)
                .map(ToOwned::to_owned)
        })
        .collect()
}

fn lock_path(ledger: &Path, name: &str) -> PathBuf {
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
    fn live_processes_stay_and_dead_ones_are_found_once() {
        let folder = Folder::new();
        let ledger = folder.path().join("ledger.sqlite");
        let life = Life::begin(&ledger, "one").unwrap();
        assert!(life.is_in_place() && Dead::find(&ledger, "one").is_none());
        assert_eq!(process_names(&ledger), ["one"]);
        // As a process leaves it that is killed.
        let file = lock_path(&ledger, "two");
        File::create(&file).unwrap();
        let dead = Dead::find(&ledger, "two").unwrap();
        assert!(
            Dead::find(&ledger, "two").is_none(),
            "somebody has found it already"
        );
        assert!(
            Life::begin(&ledger, "two").is_err(),
            "nobody can be it meanwhile"
        );
        dead.bury();
        assert!(
            !file.exists() && Dead::find(&ledger, "two").is_some(),
            "of whom nothing is left is dead, too"
        );
        drop(life);
        assert_eq!(process_names(&ledger), Vec::<String>::new());
    }

    #[test]
    fn a_life_whose_file_was_removed_begins_anew() {
        let folder = Folder::new();
        let ledger = folder.path().join("ledger.sqlite");
        let life = Life::begin(&ledger, "one").unwrap();
        std::fs::remove_file(lock_path(&ledger, "one")).unwrap();
        assert!(!life.is_in_place());
        let again = Life::begin(&ledger, "one").unwrap();
        drop(life);
        assert!(
            again.is_in_place() && Dead::find(&ledger, "one").is_none(),
            "the old one's end leaves the new one's file"
        );
    }
}
