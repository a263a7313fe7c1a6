//! The configuration's access to the file system: listing the files of its folder, and reading
//! them. No other module reads them.
//!
//! No file can make it hang or run out of memory: only regular files are opened, and each is read
//! up to a limit.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::texts::{FileText, Stat, Version, too_large};
use crate::base::problem::Problem;
use crate::conf::config::MAX_CATALOG_SIZE;
use crate::conf::yaml;
use zeroize::Zeroizing;

/// The largest size of a file that the catalog names. The system's own bundle of certificates has
/// some 250 KiB.
pub(crate) const LARGEST_NAMED: usize = 4 << 20;

/// The files that the catalog is read from.
pub struct FileList {
    /// `catalog.yaml`, then the files of `catalog.d` by name.
    pub paths: Vec<PathBuf>,
    /// The files that are not read, and whose endings look like a mistake.
    pub passed_over: Vec<PathBuf>,
}

/// Lists the files of the catalog.
pub fn list_catalog_files(conf: &Path) -> Result<FileList, Problem> {
    let folder = conf.join("catalog.d");
    let mut listed = FileList {
        paths: vec![conf.join("catalog.yaml")],
        passed_over: Vec::new(),
    };
    let entries = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = match entries {
        Ok(entries) => entries,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(listed),
        Err(why) => return Err(no_file(&folder, &why)),
    };
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    for path in paths {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
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
pub fn read_regular_file(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let (file, size) = open_regular_file(path)?;
    let max_size = u64::try_from(limit).unwrap_or(u64::MAX);
    if size > max_size {
        return Err(too_large(limit));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    file.take(max_size.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        Err(too_large(limit))
    } else {
        Ok(bytes)
    }
}

/// Opens a file, which must be a regular one, and returns its size.
pub(crate) fn open_regular_file(path: &Path) -> io::Result<(File, u64)> {
    regular_size(&fs::metadata(path)?)?;
    let file = File::open(path)?;
    let size = regular_size(&file.metadata()?)?;
    Ok((file, size))
}

/// Returns the size of a file, which must be a regular one.
fn regular_size(metadata: &fs::Metadata) -> io::Result<u64> {
    match metadata.is_file() {
        true => Ok(metadata.len()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
    }
}

/// Reads what a file holds at this moment, without a check for writers: for the first look, before
/// anything is live.
pub(crate) fn read_now(path: &Path, limit: usize) -> Version {
    Version::from_read(stat_file(path), read_regular_file(path, limit))
}

/// Reads what a file holds, if no write cut across the reading. A text that is known already is
/// compared, and not read into memory a second time.
pub(crate) fn read_whole(path: &Path, limit: usize, known: &FileText) -> Option<Version> {
    const TRIES: usize = 3;
    (0..TRIES).find_map(|_| {
        let before = stat_file(path);
        let version = match known.bytes(limit) {
            Ok(bytes) if holds_bytes(path, bytes).unwrap_or(false) => Version {
                stat: before,
                text: known.clone(),
            },
            Ok(_) | Err(_) => Version::from_read(before, read_regular_file(path, limit)),
        };
        (stat_file(path) == before).then_some(version)
    })
}

/// Returns whether a file holds these bytes.
fn holds_bytes(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    const PIECE: usize = 64 << 10;
    let (mut file, size) = open_regular_file(path)?;
    if u64::try_from(bytes.len()) != Ok(size) {
        return Ok(false);
    }
    let mut piece = Zeroizing::new(vec![0; PIECE]);
    let mut rest = bytes;
    loop {
        let read = match file.read(&mut piece) {
            Ok(0) => return Ok(rest.is_empty()),
            Ok(read) => read,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
            Err(why) => return Err(why),
        };
        match (rest.split_at_checked(read), piece.get(..read)) {
            (Some((expected, after)), Some(found)) if expected == found => rest = after,
            _ => return Ok(false),
        }
    }
}

/// Returns a file's fingerprint, or `None` if it cannot be had.
pub(crate) fn stat_file(path: &Path) -> Option<Stat> {
    fs::metadata(path).ok().as_ref().map(Stat::from)
}

impl From<&fs::Metadata> for Stat {
    fn from(metadata: &fs::Metadata) -> Stat {
        Stat {
            id: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
}

/// Returns the error of a file of the configuration that cannot be read.
pub(crate) fn no_file(path: &Path, why: &io::Error) -> Problem {
    let message = if why.kind() == io::ErrorKind::NotFound {
        "does not exist: `portcullis init` makes a configuration folder, and --conf names another one".to_owned()
    } else if why.kind() == io::ErrorKind::FileTooLarge {
        format!(
            "is too large: it may have at most {} MiB",
            yaml::LARGEST >> 20
        )
    } else {
        format!("cannot be read: {why}")
    };
    Problem::of_file(path.display().to_string(), message)
}

/// Returns the error of a catalog whose files together are larger than `limit`. It is the error of
/// the file `unread_path`.
pub(crate) fn too_large_catalog(unread_path: &Path, paths: &[PathBuf], limit: usize) -> Problem {
    const SHOWN: usize = 4;
    let size = |path: &PathBuf| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let mut files: Vec<(u64, &PathBuf)> = paths.iter().map(|path| (size(path), path)).collect();
    files.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    let total = files.iter().map(|(size, _)| *size).sum();
    let largest = files.iter().take(SHOWN).map(|(size, path)| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        format!("{name} has {}", shown_size(*size))
    });
    let mut listed: Vec<String> = largest.collect();
    if files.len() > SHOWN {
        listed.push(format!("{} more are smaller", files.len() - SHOWN));
    }
    let message = format!(
        "is too large: the files of the catalog have {} together, and `catalog_size` allows {} ({}). {}",
        shown_size(total),
        shown_size(limit as u64),
        listed.join(", "),
        advice_for(total)
    );
    Problem::of_file(unread_path.display().to_string(), message)
}

/// Returns what to write for a catalog of this size.
fn advice_for(total: u64) -> String {
    // Some room to grow.
    let mebibytes = (total + total / 4).div_ceil(1 << 20).next_power_of_two();
    let max_size = MAX_CATALOG_SIZE as u64;
    if total > max_size {
        "1GiB is the most that can be allowed: remove entries, or serve them by several gateways"
            .to_owned()
    } else {
        let enough = mebibytes.min(max_size >> 20);
        format!(
            "Write `catalog_size: {enough}MiB` in server.yaml and restart the gateway, or remove entries"
        )
    }
}

/// Returns a number of bytes for messages, rounded up: `45.2 MiB`.
fn shown_size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes.div_ceil(1 << 10)),
        _ => {
            let tenths = (bytes * 10).div_ceil(1 << 20);
            format!("{}.{} MiB", tenths / 10, tenths % 10)
        }
    }
}
