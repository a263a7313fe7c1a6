//! A spool keeps large bodies in files without a name, so that they take no memory.
//!
//! A file is removed from its folder when it is made, and its space is free when it is closed,
//! however the process ends. A body of one piece stays in memory. Where no file can be made, all of
//! a body does.

use crate::base::memory::{Budget, Held, Purse};
use bytes::Bytes;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bytes that are written at once.
const PIECE: usize = 256 * 1024;
/// The largest body where no file can be made.
const IN_MEMORY: usize = 64 << 20;

/// The place of large bodies.
pub struct Spool {
    folder: Option<PathBuf>,
    budget: Arc<Budget>,
}

/// A body that is still coming.
pub struct Spooling {
    folder: Option<PathBuf>,
    file: Option<Arc<File>>,
    written_bytes: usize,
    /// The bytes that are not written.
    unwritten: Vec<u8>,
}

/// A body in the spool.
pub struct Spooled {
    file: Option<Arc<File>>,
    written_bytes: usize,
    unwritten: Bytes,
}

impl Spool {
    /// Makes a spool in a folder. All bodies together may have `total` bytes, and one may have
    /// `largest`.
    pub fn new(folder: &Path, total: usize, largest: usize) -> Spool {
        let made = make_unnamed_file(folder).inspect_err(|why| {
            let folder = folder.display();
            log::warn!(
                "no file can be made in {folder} ({why}): uploads stay in memory, up to 64MiB each"
            );
        });
        let folder = made.is_ok().then(|| folder.to_owned());
        Spool {
            folder,
            budget: Arc::new(Budget::new(total, largest)),
        }
    }

    /// Returns the largest body, if one may have `file_limit` bytes in a file.
    pub fn largest_body(&self, file_limit: usize) -> usize {
        if self.folder.is_some() {
            file_limit
        } else {
            file_limit.min(IN_MEMORY)
        }
    }

    /// Begins to take a body of a caller, and the caller's part of the spool, which is empty yet.
    pub fn begin_body(&self, purse: &Arc<Purse>) -> (Spooling, Held) {
        let spooling = Spooling {
            folder: self.folder.clone(),
            file: None,
            written_bytes: 0,
            unwritten: Vec::new(),
        };
        (spooling, self.budget.open(purse))
    }
}

impl Spooling {
    /// Returns the number of bytes that are in memory.
    pub fn in_memory(&self) -> usize {
        self.unwritten.capacity()
    }

    /// Takes the next bytes.
    pub async fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.unwritten.extend_from_slice(bytes);
        let Some(folder) = self
            .folder
            .as_ref()
            .filter(|_| self.unwritten.len() >= PIECE)
        else {
            return Ok(());
        };
        let (folder, file, offset) = (folder.clone(), self.file.clone(), self.written_bytes as u64);
        let piece = std::mem::take(&mut self.unwritten);
        let written = tokio::task::spawn_blocking(move || {
            let file = file.map_or_else(|| make_unnamed_file(&folder).map(Arc::new), Ok)?;
            file.write_all_at(&piece, offset)?;
            Ok((file, piece))
        });
        let (file, mut piece) = written.await.map_err(io::Error::other).flatten()?;
        self.written_bytes += piece.len();
        self.file = Some(file);
        piece.clear();
        self.unwritten = piece;
        Ok(())
    }

    /// Ends the body.
    pub fn end(mut self) -> Spooled {
        self.unwritten.shrink_to_fit();
        Spooled {
            file: self.file,
            written_bytes: self.written_bytes,
            unwritten: self.unwritten.into(),
        }
    }
}

impl Spooled {
    /// Returns the number of its bytes.
    pub fn length(&self) -> usize {
        self.written_bytes + self.unwritten.len()
    }

    /// Cuts a part of the body into ranges of at most `max_length` bytes, none of which is both in
    /// the file and in memory.
    pub fn ranges(
        &self,
        part: Range<usize>,
        max_length: usize,
    ) -> impl Iterator<Item = Range<usize>> + use<> {
        let edge = self.written_bytes.clamp(part.start, part.end);
        [part.start..edge, edge..part.end]
            .into_iter()
            .flat_map(move |side| {
                side.clone()
                    .step_by(max_length.max(1))
                    .map(move |offset| offset..side.end.min(offset.saturating_add(max_length)))
            })
    }

    /// Reads such a range.
    pub async fn read(&self, range: Range<usize>) -> io::Result<Bytes> {
        let Some(file) = self
            .file
            .clone()
            .filter(|_| range.start < self.written_bytes)
        else {
            let (start, end) = (
                range.start.saturating_sub(self.written_bytes),
                range.end.saturating_sub(self.written_bytes),
            );
            return Ok(self
                .unwritten
                .slice(start.min(end)..end.min(self.unwritten.len())));
        };
        let bytes = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; range.len()];
            file.read_exact_at(&mut bytes, range.start as u64)
                .map(|()| Bytes::from(bytes))
        });
        bytes.await.map_err(io::Error::other).flatten()
    }
}

/// Makes a file without a name, which is gone however the process ends.
pub fn make_unnamed_file(folder: &Path) -> io::Result<File> {
    let path = folder.join(format!(".portcullis-{}", uuid::Uuid::now_v7().simple()));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    std::fs::remove_file(&path).map(|()| file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime")
            .block_on(work)
    }

    fn body(length: usize) -> Vec<u8> {
        (0..length)
            .map(|n| u8::try_from(n % 251).expect("a byte"))
            .collect()
    }

    async fn all(spooled: &Spooled, part: Range<usize>, longest: usize) -> Vec<u8> {
        let mut read = Vec::new();
        for range in spooled.ranges(part, longest) {
            assert!(range.len() <= longest && !range.is_empty(), "{range:?}");
            read.extend_from_slice(&spooled.read(range).await.expect("bytes"));
        }
        read
    }

    #[test]
    fn a_stored_value_is_read_any_number_of_times() {
        let folder = std::env::temp_dir().join(format!("spool-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir(&folder).expect("a folder");
        for (folder, in_file) in [
            (folder.as_path(), true),
            (Path::new("/nowhere/at/all"), false),
        ] {
            let spool = Spool::new(folder, 8 << 20, 8 << 20);
            assert_eq!(
                spool.largest_body(100 << 20),
                if in_file { 100 << 20 } else { IN_MEMORY }
            );
            for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7] {
                let body = body(length);
                run(async {
                    let (mut spooling, _room) = spool.begin_body(&Arc::default());
                    for piece in body.chunks(100_000) {
                        spooling.put(piece).await.expect("room");
                        assert!(
                            !in_file || spooling.in_memory() <= 2 * (PIECE + 100_000),
                            "{}",
                            spooling.in_memory()
                        );
                    }
                    let spooled = spooling.end();
                    assert_eq!(
                        (spooled.length(), spooled.file.is_some()),
                        (length, in_file && length >= PIECE)
                    );
                    for longest in [65_536, 77_777, PIECE * 8] {
                        assert!(
                            all(&spooled, 0..length, longest).await == body,
                            "{length} in {longest}"
                        );
                    }
                    let part = length / 3..length - length / 4;
                    assert!(
                        all(&spooled, part.clone(), 65_536).await == body[part],
                        "a part of {length}"
                    );
                });
            }
        }
        assert_eq!(
            std::fs::read_dir(&folder).expect("the folder").count(),
            0,
            "no file has a name"
        );
        std::fs::remove_dir(&folder).expect("an empty folder");
    }
}
