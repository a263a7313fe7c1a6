//! The configuration's access to the file system: listing the files of its folder, and reading
//! them. No other module reads them.
//!
//! No file can make it hang or run out of memory: only regular files are opened, and each is read
//! up to a limit.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::texts::{Stat, Version, too_large};
use crate::base::problem::Problem;
use crate::conf::yaml;

/// The largest size of a file that the catalog names. The system's own bundle of certificates has
/// some 250 KiB.
pub(crate) const LARGEST_NAMED: usize = 4 << 20;

/// The files that the catalog is read from.
pub(crate) struct FileList {
    /// `catalog.yaml`, then the files of `catalog.d` by name.
    pub(crate) paths: Vec<PathBuf>,
    /// The files that are not read, and whose endings look like a mistake.
    pub(crate) passed_over: Vec<PathBuf>,
}

/// Lists the files of the catalog.
pub(crate) fn list(conf: &Path) -> Result<FileList, Problem> {
    let folder = conf.join("catalog.d");
    let mut listed = FileList { paths: vec![conf.join("catalog.yaml")], passed_over: Vec::new() };
    let entries = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = match entries {
        Ok(entries) => entries,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(listed),
        Err(why) => return Err(no_file(&folder, &why)),
    };
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with('.') {
            continue;
        }
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("yaml") => listed.paths.push(path),
            Some("yml" | "YAML" | "YML" | "json") => listed.passed_over.push(path),
            _ => {}
        }
    }
    Ok(listed)
}

/// Reads a whole file, if it is a regular one and not too large. A pipe would wait for a writer,
/// and a device would never end.
pub(crate) fn contents(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let regular = |metadata: fs::Metadata| match metadata.is_file() {
        true => Ok(metadata.len()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    };
    regular(fs::metadata(path)?)?;
    let file = File::open(path)?;
    let (size, most) = (regular(file.metadata()?)?, u64::try_from(limit).unwrap_or(u64::MAX));
    if size > most {
        return Err(too_large(limit));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > limit { Err(too_large(limit)) } else { Ok(bytes) }
}

/// Reads what a file holds at this moment, without a check for writers: for the first look, before
/// anything is live.
pub(crate) fn read_now(path: &Path, limit: usize) -> Version {
    Version::of(stat(path), contents(path, limit))
}

/// Reads what a file holds, if no write cut across the reading.
pub(crate) fn read_whole(path: &Path, limit: usize) -> Option<Version> {
    const TRIES: usize = 3;
    (0..TRIES).find_map(|_| {
        let before = stat(path);
        let read = contents(path, limit);
        (stat(path) == before).then(|| Version::of(before, read))
    })
}

/// Returns a file's fingerprint, or `None` if it cannot be had.
pub(crate) fn stat(path: &Path) -> Option<Stat> {
    let metadata = fs::metadata(path).ok()?;
    let time = |seconds: i64, nanoseconds: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    Some(Stat {
        id: (metadata.dev(), metadata.ino()),
        size: metadata.len(),
        modified: time(metadata.mtime(), metadata.mtime_nsec()),
        changed: time(metadata.ctime(), metadata.ctime_nsec()),
    })
}

/// Returns the error of a file of the configuration that cannot be read.
pub(crate) fn no_file(path: &Path, why: &io::Error) -> Problem {
    let what = if why.kind() == io::ErrorKind::NotFound {
        "does not exist: create it, or name the configuration folder with --conf".to_owned()
    } else if why.kind() == io::ErrorKind::FileTooLarge {
        format!("is too large: all files of the catalog together may have at most {} MiB", yaml::LARGEST >> 20)
    } else {
        format!("cannot be read: {why}")
    };
    Problem::of_file(path.display().to_string(), what)
}
