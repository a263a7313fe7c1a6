//! A new ledger that begins with what was spent elsewhere.

use super::Row;
use super::book::{Book, add};
use super::writer::random_name;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Makes a ledger with these rows. The file must not exist, and after an error there is none.
/// Nobody counts as having used a key.
pub fn write(path: &Path, rows: &[Row]) -> Result<(), String> {
    let instance = random_name();
    if fs::symlink_metadata(path).is_ok() {
        return Err(format!("{} exists already, and nothing is overwritten: name a new file", path.display()));
    }
    let written = (|| {
        let (mut book, _) = Book::open(path, &instance).map_err(|fault| fault.what)?;
        let in_words = |error: rusqlite::Error| error.to_string();
        let transaction = book.transaction().map_err(in_words)?;
        add(&transaction, rows.iter(), HashMap::new()).map_err(in_words)?;
        transaction.execute("DELETE FROM last_used", []).map_err(in_words)?;
        transaction.commit().map_err(in_words)
    })();
    written.map_err(|why| {
        drop(fs::remove_file(path));
        format!("{}: the ledger cannot be written: {why}", path.display())
    })
}
