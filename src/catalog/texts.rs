//! A version is what a file of the configuration held at one moment: a text, or the reason why
//! there is none, with the file's fingerprint.
//!
//! **Invariant:** a text may hold secrets. It is wiped when dropped, and cannot be printed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use zeroize::Zeroizing;

/// Everything that was read, or looked for in vain, by path.
pub type Texts = BTreeMap<PathBuf, Version>;

/// A file's content at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The file's fingerprint; `None` if there was nothing to open.
    pub stat: Option<Stat>,
    /// The text that was read.
    pub text: FileText,
}

/// A file's fingerprint. Each write and each rename changes some part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The device and the inode.
    pub id: (u64, u64),
    /// The length.
    pub size: u64,
    /// The time of the last change of the content, in nanoseconds since 1970.
    pub modified: i128,
    /// The time of the last change of anything about the file.
    pub changed: i128,
}

/// The result of reading a file.
#[derive(Clone, PartialEq, Eq)]
pub enum FileText {
    /// All bytes of the file.
    Bytes(Arc<Zeroizing<Vec<u8>>>),
    /// There is no such file.
    Missing,
    /// The file cannot be read.
    Unreadable(io::ErrorKind, String),
}

impl Version {
    /// Makes the version of a file that is not there.
    pub fn missing() -> Self {
        Self {
            stat: None,
            text: FileText::Missing,
        }
    }

    /// Makes the version of a file from the result of reading it.
    pub fn from_read(stat: Option<Stat>, read: io::Result<Vec<u8>>) -> Self {
        let text = match read {
            Ok(bytes) => FileText::Bytes(Arc::new(Zeroizing::new(bytes))),
            Err(why) if why.kind() == io::ErrorKind::NotFound => FileText::Missing,
            Err(why) => FileText::Unreadable(why.kind(), why.to_string()),
        };
        Self { stat, text }
    }

    /// Returns how many bytes the text has.
    pub fn length(&self) -> usize {
        if let FileText::Bytes(bytes) = &self.text {
            bytes.len()
        } else {
            0
        }
    }

    /// Returns whether this may be the beginning of `now`: the same file, with more in it. After a
    /// file that was not there, or was empty, anything may follow.
    pub fn may_become(&self, now: &Version) -> bool {
        let FileText::Bytes(before) = &self.text else {
            return true;
        };
        let same = self
            .stat
            .zip(now.stat)
            .is_some_and(|(before, now)| before.id == now.id);
        let longer = matches!(&now.text, FileText::Bytes(after) if after.len() > before.len() && after.starts_with(before));
        before.is_empty() || (same && longer)
    }
}

impl FileText {
    /// Returns the bytes, if there are at most `limit` of them, or the error that reading them met.
    pub fn bytes(&self, limit: usize) -> io::Result<&[u8]> {
        match self {
            Self::Bytes(bytes) if bytes.len() > limit => Err(too_large(limit)),
            Self::Bytes(bytes) => Ok(bytes),
            Self::Missing => Err(io::ErrorKind::NotFound.into()),
            Self::Unreadable(kind, why) => Err(io::Error::new(*kind, why.clone())),
        }
    }
}

impl fmt::Debug for FileText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "[{} bytes]", bytes.len()),
            Self::Missing => f.write_str("[missing]"),
            Self::Unreadable(_, why) => write!(f, "[{why}]"),
        }
    }
}

/// Returns the error of a file that is larger than it may be.
pub fn too_large(limit: usize) -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        format!("it is larger than {} KiB", limit >> 10),
    )
}

/// Returns whether the catalog is read from this path of the folder.
pub fn is_source(conf: &Path, path: &Path) -> bool {
    let Ok(rest) = path.strip_prefix(conf) else {
        return false;
    };
    let named = path
        .file_name()
        .map(|name| name.to_string_lossy())
        .unwrap_or_default();
    rest == Path::new("catalog.yaml")
        || (rest.parent() == Some(Path::new("catalog.d"))
            && named.ends_with(".yaml")
            && !named.starts_with('.'))
}
