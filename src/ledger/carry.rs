//! A new ledger that begins with what was spent elsewhere.

use super::Row;
use super::book::{Book, add_rows};
use super::writer::random_name;
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Makes a ledger with these rows. The file must not exist, and after an error there is none. No
/// key counts as used.
pub fn create_ledger(path: &Path, rows: &[Row]) -> Result<(), String> {
    let name = path.display();
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|why| format!("{name}: its folder cannot be made: {why}"))?;
    }
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|why| {
            if why.kind() == ErrorKind::AlreadyExists {
                format!("{name} exists already, and nothing is overwritten: name a new file")
            } else {
                format!("{name}: the ledger cannot be made: {why}")
            }
        })?;
    let written = (|| {
        let (mut book, _) = Book::open(path, &random_name()).map_err(|fault| fault.message)?;
        let in_words = |error: rusqlite::Error| error.to_string();
        let transaction = book.transaction().map_err(in_words)?;
        add_rows(&transaction, rows.iter(), HashMap::new()).map_err(in_words)?;
        transaction
            .execute("DELETE FROM last_used", [])
            .map_err(in_words)?;
        transaction.commit().map_err(in_words)
    })();
    written.map_err(|why| {
        for end in ["", "-wal", "-shm"] {
            let mut file = path.as_os_str().to_owned();
            file.push(end);
            drop(fs::remove_file(file));
        }
        format!("{name}: the ledger cannot be written: {why}")
    })
}
