//! An amendment is a change of the catalog's files while they are in use. It happens under a lock,
//! is checked before it is done, and is done whole or not at all.
//!
//! **Invariant:** a file takes its place only if the catalog with it is valid. It takes its place
//! by a rename, and is as readable as it was before. Nothing is written into a catalog that has
//! errors already: its owner must mend them first.

use std::fs::{self, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Catalog;
use super::load::{CatalogFile, check_folder, display_folder, read_sources, resolve_assumed};
use super::resolve::Documents;
use crate::base::problem::{Problem, Problems};
use crate::conf::yaml::edit::{Change, apply_changes};
use crate::conf::yaml::{self, Entry, Node, Value};

/// The longest wait for the lock, while somebody else changes the files.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// The time in which a file that is wrong is read again, if it was written into just now: somebody
/// may be in the middle of writing.
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// The age up to which a write counts as "just now".
const YOUNG_AGE: Duration = Duration::from_secs(5);

/// The catalog's files, and what they hold.
pub struct Files {
    conf: PathBuf,
    sources: Vec<CatalogFile>,
    /// What the sources hold: a change makes the catalog anew, and only one of them is read again.
    documents: Documents,
    catalog: Catalog,
    /// The lock, if something will be changed. It is on the folder itself, so that nothing is left
    /// behind.
    lock: Option<File>,
    /// The state before the last change.
    before: Option<FileBefore>,
}

/// A file's state before a change, to which the change can be undone.
struct FileBefore {
    path: PathBuf,
    /// The file's text; `None` if there was no such file.
    text: Option<String>,
    /// The folder that was made for the file, if one was.
    made_folder: Option<PathBuf>,
}

/// The place at which a key is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPlace {
    /// The position of the key's file.
    pub file: usize,
    /// The line in the file, counted from 1.
    pub line: usize,
}

impl Files {
    /// Reads the files, without any secret that they name.
    pub fn read(conf: &Path) -> Result<Self, String> {
        check_folder(conf).map_err(|problems| problems.to_string())?;
        let start = Instant::now();
        let mut documents = Documents::default();
        let (sources, catalog) = loop {
            match read_sources(conf)
                .and_then(|sources| Ok((resolve_assumed(conf, &sources, &mut documents)?, sources)))
            {
                Ok((catalog, sources)) => break (sources, catalog),
                Err(problems) if start.elapsed() < RETRY_PERIOD && is_young(conf, &problems) => {
                    std::thread::park_timeout(Duration::from_millis(20))
                }
                Err(problems) => {
                    return Err(format!(
                        "{problems}\n{}: keys cannot be listed or changed while the catalog has errors",
                        display_folder(conf)
                    ));
                }
            }
        };
        Ok(Self {
            conf: conf.to_owned(),
            sources,
            documents,
            catalog,
            lock: None,
            before: None,
        })
    }

    /// Reads the files to change something. No other holder of the lock can change them meanwhile.
    pub fn lock(conf: &Path) -> Result<Self, String> {
        check_folder(conf).map_err(|problems| problems.to_string())?;
        let shown = conf.display();
        let folder = File::open(conf)
            .map_err(|why| format!("{shown}: the configuration folder cannot be read: {why}"))?;
        let start = Instant::now();
        loop {
            match folder.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_TIMEOUT => {
                    std::thread::park_timeout(Duration::from_millis(20))
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(format!(
                        "{shown}: another process is changing keys in this folder: try again"
                    ));
                }
                Err(TryLockError::Error(why)) => {
                    return Err(format!(
                        "{shown}: the folder cannot be locked, so nothing was changed: {why}"
                    ));
                }
            }
        }
        Ok(Self {
            lock: Some(folder),
            ..Self::read(conf)?
        })
    }

    /// Returns the catalog that the files make.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns a file's name, with its folder.
    pub fn name(&self, file: usize) -> String {
        self.sources
            .get(file)
            .map(|source| source.path.display().to_string())
            .unwrap_or_default()
    }

    /// Returns a file's name within the folder: `catalog.d/x.yaml`.
    pub fn within(&self, file: usize) -> &str {
        self.sources
            .get(file)
            .map(|source| source.name.as_str())
            .unwrap_or_default()
    }

    /// Returns the folder.
    pub fn conf(&self) -> &Path {
        &self.conf
    }

    /// Lets others change the files again. Nothing can be changed here any more.
    pub fn unlock(&mut self) {
        self.lock = None;
    }

    /// Returns the position of the file of this name in the folder: `catalog.d/x.yaml`.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.sources.iter().position(|source| source.name == name)
    }

    /// Returns each key's id with its place, in the order of the files.
    pub fn key_places(&self) -> Vec<(String, KeyPlace)> {
        self.keys(|_| true, |_, _| true, |id, key_place, _| (id, key_place))
    }

    /// Returns the place of one key.
    pub fn key_place(&self, caller: &str, name: &str) -> Option<KeyPlace> {
        let written = self.written_key(caller, name, |_| ());
        written.map(|(key_place, ())| key_place)
    }

    /// Returns the place of one key, and what `read` makes of the text that is written for it.
    pub fn written_key<T>(
        &self,
        caller: &str,
        name: &str,
        read: impl Fn(&Node<'_>) -> T,
    ) -> Option<(KeyPlace, T)> {
        // A name may be written with escapes: then it is in a file that seems not to have it.
        [true, false].into_iter().find_map(|is_likely| {
            self.keys(
                |source| has_words(source, [caller, name]) == is_likely,
                |owner, key| owner == caller && key == name,
                |_, key_place, node| (key_place, read(node)),
            )
            .pop()
        })
    }

    fn keys<T>(
        &self,
        in_file: impl Fn(&CatalogFile) -> bool,
        wanted: impl Fn(&str, &str) -> bool,
        take: impl Fn(String, KeyPlace, &Node<'_>) -> T,
    ) -> Vec<T> {
        let mut taken = Vec::new();
        let sources = self.sources.iter().enumerate();
        for (file, source) in sources.filter(|(_, source)| in_file(source)) {
            let Ok((tree, _)) = yaml::parse(&source.text) else {
                continue;
            };
            for Entry {
                key: caller, node, ..
            } in section_entries(&tree, "callers")
            {
                for Entry {
                    key, line, node, ..
                } in section_entries(node, "keys")
                    .iter()
                    .filter(|entry| wanted(caller, &entry.key))
                {
                    taken.push(take(
                        format!("{caller}/{key}"),
                        KeyPlace { file, line: *line },
                        node,
                    ));
                }
            }
        }
        taken
    }

    /// Changes a file, and returns the place at which the first of the changes is now. The error
    /// gives the reason and its place.
    pub fn change(&mut self, file: usize, changes: &[Change<'_>]) -> Result<KeyPlace, String> {
        let Some(source) = self.sources.get(file) else {
            return Err("there is no such file".to_owned());
        };
        let (text, line) = apply_changes(&source.text, changes).map_err(|problem| {
            Problem {
                file: source.path.display().to_string(),
                ..problem
            }
            .to_string()
        })?;
        let like = fs::metadata(&source.path).map_err(|why| cannot_write(&source.path, &why))?;
        let mut after = self.sources.clone();
        let path = source.path.clone();
        let before = after
            .get_mut(file)
            .map(|source| std::mem::replace(&mut source.text, text));
        self.take(after, &path, before.as_deref(), &like)?;
        Ok(KeyPlace {
            file,
            line: line.unwrap_or(1),
        })
    }

    /// Adds a file to `catalog.d`, as readable as `catalog.yaml`, and returns the file's position.
    pub fn add(&mut self, name: &str, text: String) -> Result<usize, String> {
        let main = self
            .sources
            .first()
            .map(|source| source.path.clone())
            .unwrap_or_default();
        let like = fs::metadata(&main).map_err(|why| cannot_write(&main, &why))?;
        let path = self.conf.join("catalog.d").join(name);
        let mut after = self.sources.clone();
        after.push(CatalogFile {
            name: format!("catalog.d/{name}"),
            path: path.clone(),
            text,
        });
        self.take(after, &path, None, &like)?;
        Ok(self.sources.len().saturating_sub(1))
    }

    /// Takes over the files, one of which is new, if they make a catalog.
    fn take(
        &mut self,
        after: Vec<CatalogFile>,
        path: &Path,
        before: Option<&str>,
        like: &Metadata,
    ) -> Result<(), String> {
        let catalog = resolve_assumed(&self.conf, &after, &mut self.documents);
        let catalog = catalog.map_err(|problems| {
            format!(
                "{problems}\n{}: was not changed, because the change would put errors into the catalog",
                path.display()
            )
        })?;
        let text = after
            .iter()
            .find(|source| source.path == path)
            .map(|source| source.text.as_str())
            .unwrap_or_default();
        // The lock keeps away those who ask for it. An editor does not ask.
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let unchanged = match (fs::read(&real), before) {
            (Ok(now), Some(before)) => now == before.as_bytes(),
            (Err(why), None) => why.kind() == io::ErrorKind::NotFound,
            (Ok(_), None) | (Err(_), Some(_)) => false,
        };
        if !unchanged || self.lock.is_none() {
            return Err(format!(
                "{}: was not changed, because another program changed it at the same time. Try again",
                path.display()
            ));
        }
        let made = real
            .parent()
            .filter(|folder| !folder.exists())
            .map(Path::to_owned);
        if let Some(folder) = &made {
            make_folder(folder, &self.conf).map_err(|why| cannot_write(folder, &why))?;
        }
        if let Err(why) = replace_file(&real, text, like) {
            remove_folder(made.as_deref());
            return Err(cannot_write(path, &why));
        }
        self.before = Some(FileBefore {
            path: real,
            text: before.map(str::to_owned),
            made_folder: made,
        });
        (self.sources, self.catalog) = (after, catalog);
        Ok(())
    }

    /// Undoes the last change. Nothing may be done with these files afterwards.
    pub fn undo(&mut self) -> Result<(), String> {
        let Some(FileBefore {
            path,
            text,
            made_folder: made,
        }) = self.before.take()
        else {
            return Ok(());
        };
        let undone = match text {
            Some(text) => fs::metadata(&path).and_then(|like| replace_file(&path, &text, &like)),
            None => fs::remove_file(&path),
        };
        undone.map_err(|why| cannot_write(&path, &why))?;
        remove_folder(made.as_deref());
        Ok(())
    }
}

/// Returns whether a file has all of these words.
fn has_words(source: &CatalogFile, words: [&str; 2]) -> bool {
    words.iter().all(|word| source.text.contains(word))
}

/// Returns whether a file that is wrong was written into just now, or went away.
fn is_young(conf: &Path, Problems(problems, _): &Problems) -> bool {
    problems.iter().any(|problem| {
        match fs::metadata(conf.join(&problem.file)).and_then(|metadata| metadata.modified()) {
            Ok(modified) => modified.elapsed().is_ok_and(|long| long < YOUNG_AGE),
            Err(why) => {
                why.kind() == io::ErrorKind::NotFound && problem.file.starts_with("catalog.d/")
            }
        }
    })
}

/// Removes a folder that was made for a file that is not there now. A folder in which somebody else
/// has put something stays.
fn remove_folder(made: Option<&Path>) {
    if let Some(folder) = made {
        drop(fs::remove_dir(folder));
    }
}

fn section_entries<'n, 't>(node: &'n Node<'t>, name: &str) -> &'n [Entry<'t>] {
    let Value::Map(entries) = &node.value else {
        return &[];
    };
    let found = entries
        .iter()
        .find(|entry| entry.key == name)
        .map(|entry| &entry.node.value);
    if let Some(Value::Map(section)) = found {
        section
    } else {
        &[]
    }
}

fn cannot_write(path: &Path, why: &io::Error) -> String {
    format!("{}: cannot be written: {why}", path.display())
}

/// Puts a text into a file's place, in one step.
fn replace_file(path: &Path, text: &str, like: &Metadata) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // A dotfile is not part of the catalog. Only the holder of the lock uses this name: a file that
    // is there was left by a crash.
    let aside = folder.join(format!(".{}.new", name.to_string_lossy()));
    match fs::remove_file(&aside) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
        Ok(()) | Err(_) => {}
    }
    put_into_place(&aside, path, text, like).inspect_err(|_| drop(fs::remove_file(&aside)))?;
    // The rename itself is on its way to the disk. If the folder cannot be synced, that changes
    // nothing about what everybody sees.
    drop(File::open(folder).and_then(|folder| folder.sync_all()));
    Ok(())
}

/// Writes a text into a new file, and gives that the name of the file it replaces.
fn put_into_place(new: &Path, path: &Path, text: &str, like: &Metadata) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(new)?;
    file.write_all(text.as_bytes())?;
    read_by_the_same(&file, like)?;
    file.sync_all()?;
    fs::rename(new, path)
}

/// Gives a file the owner, the group and the mode of another, so that a gateway that runs as
/// somebody else can still read it.
fn read_by_the_same(file: &File, like: &Metadata) -> io::Result<()> {
    let (uid, gid) = (like.uid(), like.gid());
    let ours = file.metadata()?;
    if (ours.uid(), ours.gid()) != (uid, gid) && fchown(file, Some(uid), Some(gid)).is_err() {
        let of_group = ours.gid() == gid || fchown(file, None, Some(gid)).is_ok();
        // Root reads every file, whoever owns it.
        let owner_reads = ours.uid() == uid || uid == 0;
        if !(owner_reads && of_group) && like.mode() & 0o004 == 0 {
            let why = format!(
                "the new file cannot have the owner {uid} and the group {gid} of the old one, so the \
                 gateway could perhaps not read it: run this command as that user, or as root"
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
    }
    file.set_permissions(Permissions::from_mode(like.mode() & 0o7777))
}

/// Makes a folder as accessible as the one that it is in.
fn make_folder(folder: &Path, conf: &Path) -> io::Result<()> {
    let like = fs::metadata(conf)?;
    fs::create_dir(folder)?;
    read_by_the_same(&File::open(folder)?, &like)
}

#[cfg(test)]
mod tests;
