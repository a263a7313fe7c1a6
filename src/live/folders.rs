//! The folders are those that the catalog is read from. This module watches them, and turns what
//! the file system tells into events.
//!
//! An event says when to look, and how a file came to be what it is. Only a look finds out what is
//! there.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind, RenameMode};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::POLL;

/// A thing that happened to the files.
pub(super) enum Event {
    /// Somebody asked to look at once.
    Asked,
    /// Something happened that does not concern a file's content.
    OtherChange,
    /// Events were lost, so what is known about the writers of the files may be out of date.
    Lost,
    /// A rename put a file here.
    Renamed(PathBuf),
    /// Somebody writes into a file.
    Written(PathBuf),
    /// Somebody who could write into a file closed it.
    Closed(PathBuf),
    /// A link is here now. No event shows what is written into its file by another name.
    Linked(PathBuf),
}

/// A folder with its inode, if there is one.
type Folder = (PathBuf, Option<u64>);

/// The folders that are watched.
pub(super) struct Folders {
    sender: Sender<Event>,
    watched: Option<(RecommendedWatcher, Vec<Folder>)>,
    /// The folders for which no watcher could be made when this was last tried.
    failed: Option<Vec<Folder>>,
}

impl Folders {
    /// Makes a watcher of no folder yet. Its events go to `sender`.
    pub(super) fn new(sender: Sender<Event>) -> Self {
        Self {
            sender,
            watched: None,
            failed: None,
        }
    }

    /// Watches these folders, never the files: a watch on a file goes deaf after the first atomic
    /// rename. A folder that was replaced counts as another one, and is watched anew. Returns
    /// whether the set of watched folders is new. If no watcher can be made, each call tries again,
    /// and only the first one for these folders logs a warning.
    pub(super) fn watch(&mut self, folders: BTreeSet<PathBuf>) -> bool {
        let wanted: Vec<_> = folders
            .into_iter()
            .map(|folder| (folder.clone(), folder_inode(&folder)))
            .collect();
        if self
            .watched
            .as_ref()
            .is_some_and(|(_, watched)| *watched == wanted)
        {
            return false;
        }
        let sender = self.sender.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            for event in to_events(event) {
                sender.send(event).ok();
            }
        });
        let mut watcher = match watcher {
            Ok(watcher) => watcher,
            Err(why) => {
                if self.note_failed(wanted) {
                    warn_unwatched(&"the catalog's folder", &why);
                }
                return false;
            }
        };
        self.failed = None;
        for (folder, _) in wanted.iter().filter(|(_, inode)| inode.is_some()) {
            if let Err(why) = watcher.watch(folder, RecursiveMode::NonRecursive) {
                warn_unwatched(&folder.display(), &why);
            }
        }
        self.watched = Some((watcher, wanted));
        true
    }

    /// Notes that no watcher could be made for these folders. Returns whether that is new.
    fn note_failed(&mut self, wanted: Vec<Folder>) -> bool {
        let is_new = self.failed.as_ref() != Some(&wanted);
        self.failed = Some(wanted);
        is_new
    }
}

fn warn_unwatched(folder: &dyn Display, why: &notify::Error) {
    log::warn!(
        "cannot watch {folder}: {why}; the gateway still finds changes within {} s",
        POLL.as_secs()
    );
}

/// Returns the events of a notification. Reading is a notification too, and is left out: otherwise
/// our own looks would wake us for ever.
fn to_events(event: notify::Result<notify::Event>) -> Vec<Event> {
    let Ok(event) = event else {
        return vec![Event::Lost];
    };
    if event.need_rescan() {
        return vec![Event::Lost];
    }
    let paths = event.paths.iter().cloned();
    let each = |make_event: fn(PathBuf) -> Event| paths.map(make_event).collect();
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => each(Event::Closed),
        EventKind::Access(_) => Vec::new(),
        EventKind::Modify(ModifyKind::Name(RenameMode::To)) => each(Event::Renamed),
        EventKind::Create(_) if event.paths.iter().any(|path| is_link(path)) => each(Event::Linked),
        EventKind::Modify(ModifyKind::Data(_)) | EventKind::Create(_) => each(Event::Written),
        // This is the same rename once more.
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => Vec::new(),
        EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Any | EventKind::Other => {
            vec![Event::OtherChange]
        }
    }
}

fn is_link(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink() || m.nlink() > 1)
}

fn folder_inode(folder: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(folder).ok().map(|m| m.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_failure_is_new_once_for_each_set() {
        let mut folders = Folders::new(channel().0);
        let set = |inode: u64| vec![(PathBuf::from("/conf"), Some(inode))];
        assert!(folders.note_failed(set(1)) && !folders.note_failed(set(1)));
        // The folder was replaced.
        assert!(folders.note_failed(set(2)) && !folders.note_failed(set(2)));
    }
}
