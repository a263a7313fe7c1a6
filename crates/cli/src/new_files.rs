//! New files are written here: all of them or none, and never over another.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The most files that an error names.
const MAX_SHOWN: usize = 5;

/// A file to write, with its permissions. Folders that are missing are made for those who may read
/// the file.
pub(super) struct NewFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) mode: u32,
}

/// What was written, so that it can be removed.
#[derive(Default)]
pub(super) struct Written {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

/// Writes all files, or none.
pub(super) fn write_files(files: &[NewFile]) -> Result<Written, String> {
    let mut written = Written::default();
    for new in files {
        if let Err(why) = written.write_file(new) {
            written.remove();
            return Err(format!("{} cannot be written: {why}", new.path.display()));
        }
    }
    Ok(written)
}

impl Written {
    /// Removes what was written, and nothing else.
    pub(super) fn remove(&self) {
        for file in &self.files {
            drop(fs::remove_file(file));
        }
        for folder in self.folders.iter().rev() {
            drop(fs::remove_dir(folder));
        }
    }

    fn write_file(&mut self, new: &NewFile) -> io::Result<()> {
        // Who may read a file may search its folder.
        let of_folder = new.mode | (new.mode & 0o444) >> 2;
        self.make_folder(new.path.parent().unwrap_or(Path::new("")), of_folder)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(new.mode)
            .open(&new.path)?;
        self.files.push(new.path.clone());
        file.write_all(new.text.as_bytes())?;
        file.sync_all()
    }

    /// Makes a folder, and those around it, unless they are there.
    fn make_folder(&mut self, folder: &Path, mode: u32) -> io::Result<()> {
        if folder.as_os_str().is_empty() || folder.is_dir() {
            return Ok(());
        }
        if let Some(parent) = folder.parent() {
            self.make_folder(parent, mode)?;
        }
        DirBuilder::new().mode(mode).create(folder)?;
        self.folders.push(folder.to_owned());
        Ok(())
    }
}

/// Checks that files, or folders with files in them, can be made here. The error names all that is
/// in the way; `instead` says which others to name.
pub(super) fn check_free(paths: &[&Path], instead: &str) -> Result<(), String> {
    let mut existing = Vec::new();
    for path in paths {
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                let entries = fs::read_dir(path)
                    .map_err(|why| format!("{} cannot be read: {why}", path.display()))?;
                existing.extend(entries.flatten().map(|entry| entry.path()));
            }
            Ok(_) => existing.push(path.to_path_buf()),
            Err(_) => {}
        }
    }
    if existing.is_empty() {
        return Ok(());
    }
    existing.sort();
    let shown = existing.iter().take(MAX_SHOWN);
    let shown: Vec<_> = shown.map(|path| path.display().to_string()).collect();
    Err(format!(
        "These exist already, and nothing is overwritten:\n  {}\nMove them away, or name {instead}",
        shown.join("\n  ")
    ))
}
