//! A [`Book`] is the ledger's open file: its tables, how it is opened, and what is done to it in
//! one transaction each. It knows no thread and no clock.

use super::Row;
use super::columns::{MAX_MONEY, stored_integer};
use super::insert::insert_rows;
use super::merge_point::merge_again;
use super::sink::Batch;
use super::sums::{Column, SumKey, Sums, sum_rows};
use rusqlite::types::ToSqlOutput;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params,
    params_from_iter,
};
use std::collections::HashMap;
use std::fmt::Display;
use std::fs::{DirBuilder, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

/// The version of the tables that this program writes.
const VERSION: i64 = 3;
/// The first version whose tables have units.
pub(super) const WITH_UNITS: i64 = 3;
/// Marks the file as a ledger among other SQLite files: "PCul".
const APPLICATION_ID: i64 = 0x5043_756c;
/// The longest time to wait for another program that locks the file.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS exchange (
        at INTEGER NOT NULL, request_id TEXT NOT NULL, caller TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
        account TEXT NOT NULL, upstream_model TEXT NOT NULL, outcome TEXT NOT NULL,
        prompt INTEGER NOT NULL, completion INTEGER NOT NULL, cached INTEGER NOT NULL, cache_write INTEGER NOT NULL,
        reasoning INTEGER NOT NULL, usage TEXT NOT NULL, cost INTEGER, unused_tokens INTEGER NOT NULL, unused_cost INTEGER,
        attempts INTEGER NOT NULL, stream INTEGER NOT NULL, status INTEGER NOT NULL, total_ms INTEGER NOT NULL, first_byte_ms INTEGER,
        door TEXT NOT NULL DEFAULT '', images INTEGER NOT NULL DEFAULT 0, audio_ms INTEGER NOT NULL DEFAULT 0,
        characters INTEGER NOT NULL DEFAULT 0);
    CREATE INDEX IF NOT EXISTS exchange_at ON exchange (at);
    CREATE TABLE IF NOT EXISTS daily (
        day INTEGER NOT NULL, caller TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL, account TEXT NOT NULL,
        upstream_model TEXT NOT NULL, outcome TEXT NOT NULL,
        requests INTEGER NOT NULL, prompt INTEGER NOT NULL, completion INTEGER NOT NULL, cached INTEGER NOT NULL,
        cache_write INTEGER NOT NULL, reasoning INTEGER NOT NULL, estimated INTEGER NOT NULL, cost INTEGER NOT NULL,
        unpriced INTEGER NOT NULL, unused_tokens INTEGER NOT NULL, unused_cost INTEGER NOT NULL, unused_unpriced INTEGER NOT NULL,
        images INTEGER NOT NULL DEFAULT 0, audio_ms INTEGER NOT NULL DEFAULT 0, characters INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (day, caller, key, model, account, upstream_model, outcome)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS last_used (key TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS running (
        process TEXT NOT NULL, number INTEGER NOT NULL,
        at INTEGER NOT NULL, request_id TEXT NOT NULL, caller TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
        account TEXT NOT NULL, upstream_model TEXT NOT NULL,
        prompt INTEGER NOT NULL, completion INTEGER NOT NULL, cached INTEGER NOT NULL, cache_write INTEGER NOT NULL,
        reasoning INTEGER NOT NULL, usage TEXT NOT NULL, cost INTEGER, unused_tokens INTEGER NOT NULL, unused_cost INTEGER,
        attempts INTEGER NOT NULL, stream INTEGER NOT NULL, status INTEGER NOT NULL, total_ms INTEGER NOT NULL,
        door TEXT NOT NULL DEFAULT '', images INTEGER NOT NULL DEFAULT 0, audio_ms INTEGER NOT NULL DEFAULT 0,
        characters INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (process, number)) WITHOUT ROWID;
";

/// The statement that adds to the sums of a day.
// SQLite makes a float of a sum that is too large. So `min` takes the smaller of two numbers, which
// is always a whole one. Only money can be so large, with prices that somebody wrote: an answer has
// at most `usage::MOST` tokens.
static ADD_SUMS: LazyLock<String> = LazyLock::new(|| {
    let added = Column::ALL.map(|column| {
        let name = column.name();
        if matches!(column, Column::Cost | Column::UnusedCost) {
            format!("{name} = min({name} + excluded.{name}, {MAX_MONEY})")
        } else {
            format!("{name} = {name} + excluded.{name}")
        }
    });
    format!(
        "INSERT INTO daily (day, caller, key, model, account, upstream_model, outcome, {}) VALUES (?, ?, ?, ?, ?, ?, ?{})
         ON CONFLICT DO UPDATE SET {}",
        Column::NAMES.join(", "),
        ", ?".repeat(added.len()),
        added.join(", ")
    )
});

// A row that is written late does not set the time back. But if the known time is more than a day
// ahead of the new one, the clock was wrong then.
const USED: &str = "INSERT INTO last_used VALUES (?1, ?2) ON CONFLICT DO UPDATE
    SET at = CASE WHEN at > excluded.at + 86400000 THEN excluded.at ELSE max(at, excluded.at) END";

/// The open file.
pub(super) struct Book {
    connection: Connection,
    path: PathBuf,
    /// The device and the inode of the file when it was opened.
    file: (u64, u64),
}

/// The reason of a failure, with advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) message: String,
    /// True if another program locks the file, likely for a moment only.
    pub(super) is_locked: bool,
}

impl Fault {
    pub(super) fn new(message: impl Display) -> Fault {
        Fault {
            message: message.to_string(),
            is_locked: false,
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        let code = error.sqlite_error_code();
        let busy = matches!(
            code,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        );
        let advice = match code {
            Some(ErrorCode::DiskFull) => "; free some space on the disk",
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                "; move the file away, together with its files that end in -wal and -shm; Portcullis then makes a new ledger"
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                "; the file and its folder must be writable, and the folder must be on a local disk"
            }
            Some(ErrorCode::SystemIoFailure) => {
                "; check the disk, and the system's limits on the size of files"
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                "; another program has locked the file"
            }
            _ if error.to_string().contains("no such table") => {
                "; the table was dropped: Portcullis makes it again, empty"
            }
            _ if ["no such column", " columns but "]
                .iter()
                .any(|odd| error.to_string().contains(odd)) =>
            {
                "; the tables in the file are not those of a ledger: move the file away, together with \
                 its files that end in -wal and -shm; Portcullis then makes a new ledger"
            }
            _ => "",
        };
        Fault {
            message: format!("{error}{advice}"),
            is_locked: busy,
        }
    }
}

impl Book {
    /// Opens the file as [`Book::open_within`] does, with the usual timeout.
    pub(super) fn open(path: &Path, instance: &str) -> Result<(Book, String), Fault> {
        Book::open_within(path, instance, BUSY_TIMEOUT)
    }

    /// Opens the file and makes what is missing in it. No other part of this process may open it
    /// for reading meanwhile. Waits for `timeout` at most for another program that locks the file.
    /// Also returns the instance's name: the one in the file, or `instance` if the file is new.
    pub(super) fn open_within(
        path: &Path,
        instance: &str,
        timeout: Duration,
    ) -> Result<(Book, String), Fault> {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|e| {
                Fault::new(format!(
                    "the folder {} cannot be created: {e}",
                    folder.display()
                ))
            })?;
        }
        // SQLite would make the file readable by all; its `-wal` and `-shm` get its mode. Only a
        // missing file is opened here: closing its descriptor drops all locks that this process has
        // on the file.
        let file = match std::fs::metadata(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let made = File::options()
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .mode(0o600)
                    .open(path);
                made.and_then(|file| file.metadata())
            }
            known => known,
        };
        let file =
            file.map_err(|e| Fault::new(format!("{e}; the file and its folder must be writable")))?;
        is_regular(&file)?;
        let mut connection = Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        connection.busy_timeout(timeout)?;
        if connection.is_readonly(c"main")? {
            return Err(Fault::new(
                "it is read-only; the file and its folder must be writable",
            ));
        }
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        // With a lower level, a power cut could lose what was reported as written.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
        connection.pragma_update(None, "wal_autocheckpoint", 4096)?;
        connection.pragma_update(None, "cache_size", -16_384)?;
        connection.set_prepared_statement_cache_capacity(16);
        let instance = prepare_tables(&mut connection, instance)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let file = (file.dev(), file.ino());
        Ok((
            Book {
                connection,
                path: path.to_owned(),
                file,
            },
            instance,
        ))
    }

    /// Returns whether the file at the path is still the one that was opened. Somebody may have
    /// moved it away.
    pub(super) fn is_in_place(&self) -> bool {
        // A file that was emptied counts as another one.
        std::fs::metadata(&self.path)
            .is_ok_and(|file| (file.dev(), file.ino()) == self.file && file.len() > 0)
    }

    /// Writes a whole batch or nothing, and deletes the entries of its rows in the table of running
    /// exchanges.
    pub(super) fn write_batch(&mut self, batch: &Batch, process: &str) -> Result<(), Fault> {
        #[cfg(test)]
        assert!(
            batch.rows().all(|row| row.outcome != "panics"),
            "as a test wants it"
        );
        let transaction = self.transaction()?;
        add_rows(
            &transaction,
            batch.rows(),
            batch
                .uses
                .iter()
                .map(|(key, used_at)| (&**key, *used_at))
                .collect(),
        )?;
        {
            let mut delete = transaction
                .prepare_cached("DELETE FROM running WHERE process = ?1 AND number = ?2")?;
            for run in batch.rows().filter_map(|row| row.run) {
                delete.execute(params![process, stored_integer(run.number)])?;
            }
        }
        Ok(transaction.commit()?)
    }

    /// Calls `each` after every step of SQLite's machine.
    #[cfg(test)]
    pub(super) fn count_steps(&mut self, mut each: impl FnMut() + Send + 'static) {
        self.connection
            .progress_handler(
                1,
                Some(move || {
                    each();
                    false
                }),
            )
            .unwrap();
    }

    /// Begins a transaction that writes.
    pub(super) fn transaction(&mut self) -> rusqlite::Result<Transaction<'_>> {
        self.connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Deletes some rows from before `rows_from` and some sums of days before `day`. Returns true
    /// if there may be more.
    pub(super) fn prune(&mut self, rows_from: u64, day: u64) -> Result<bool, Fault> {
        const STEP: u32 = 1_000;
        let transaction = self.transaction()?;
        let rows = transaction
            .prepare_cached(
                "DELETE FROM exchange WHERE rowid IN (SELECT rowid FROM exchange WHERE at < ?1 ORDER BY at LIMIT ?2)",
            )?
            .execute(params![stored_integer(rows_from), STEP])?;
        let days = transaction
            .prepare_cached(
                "DELETE FROM daily WHERE (day, caller, key, model, account, upstream_model, outcome) IN
                 (SELECT day, caller, key, model, account, upstream_model, outcome FROM daily WHERE day < ?1 LIMIT ?2)",
            )?
            .execute(params![stored_integer(day), STEP])?;
        if rows > 0 {
            keep_from(&transaction, "rows_from", rows_from)?;
        }
        if days > 0 {
            keep_from(&transaction, "days_from", day)?;
        }
        transaction.commit()?;
        Ok([rows, days].map(u32::try_from).contains(&Ok(STEP)))
    }
}

/// Refuses what is no regular file: to open a pipe would wait for ever.
pub(super) fn is_regular(file: &Metadata) -> Result<(), Fault> {
    let kind = match (file.is_file(), file.is_dir()) {
        (true, _) => return Ok(()),
        (false, true) => "a folder",
        (false, false) => "no regular file",
    };
    Err(Fault::new(format!(
        "it is {kind}; write the path of a file as `ledger.path` in server.yaml"
    )))
}

/// Adds rows, also to the sums of their days. `uses` are the last uses of further keys.
pub(super) fn add_rows<'r>(
    transaction: &Transaction<'_>,
    rows: impl Iterator<Item = &'r Row> + Clone,
    mut uses: HashMap<&'r str, u64>,
) -> rusqlite::Result<()> {
    insert_rows(transaction, rows.clone())?;
    let mut first_day = u64::MAX;
    for (key, (sums, used_at)) in sum_rows(rows) {
        first_day = first_day.min(key.day);
        let last = uses.entry(key.key).or_default();
        *last = used_at.max(*last);
        add_sums(transaction, &key, &sums)?;
    }
    merge_again(transaction, first_day)?;
    let mut used = transaction.prepare_cached(USED)?;
    for (key, used_at) in uses {
        used.execute(params![key, stored_integer(used_at)])?;
    }
    Ok(())
}

/// Adds to the sums of a day.
pub(super) fn add_sums(
    transaction: &Transaction<'_>,
    key: &SumKey<'_>,
    sums: &Sums,
) -> rusqlite::Result<usize> {
    let names = [
        key.caller,
        key.key,
        key.model,
        key.account,
        key.upstream_model,
        key.outcome,
    ];
    let values = [stored_integer(key.day).into()]
        .into_iter()
        .chain(names.map(ToSqlOutput::from));
    let values = values.chain(sums.0.map(|sum| stored_integer(sum).into()));
    transaction
        .prepare_cached(&ADD_SUMS)?
        .execute(params_from_iter(values))
}

/// Notes the moment or day from which on nothing is deleted, or nothing is merged, in the same
/// transaction that does so.
pub(super) fn keep_from(
    transaction: &Transaction<'_>,
    name: &str,
    from: u64,
) -> rusqlite::Result<usize> {
    transaction
        .prepare_cached(
            "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = max(value, excluded.value)",
        )?
        .execute(params![name, stored_integer(from)])
}

/// Makes the tables of a new file and those that somebody dropped. Refuses a file of another
/// program.
fn prepare_tables(connection: &mut Connection, instance: &str) -> Result<String, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !has_table(&transaction, "")? {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    is_ours(&transaction)?;
    // This version must not make tables in a file of a newer form.
    if has_table(&transaction, "WHERE name = 'meta'")? {
        check_version(&transaction)?;
    }
    transaction.execute_batch(TABLES)?;
    // Version 1 had no doors, and version 2 none of the units.
    const NEW: [(&str, &str); 4] = [
        ("door", "TEXT NOT NULL DEFAULT ''"),
        ("images", "INTEGER NOT NULL DEFAULT 0"),
        ("audio_ms", "INTEGER NOT NULL DEFAULT 0"),
        ("characters", "INTEGER NOT NULL DEFAULT 0"),
    ];
    for (table, new) in [
        ("exchange", NEW.as_slice()),
        ("running", &NEW),
        ("daily", NEW.get(1..).unwrap_or_default()),
    ] {
        for (name, kind) in new {
            let has_it = "SELECT EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2)";
            if !transaction.query_row(has_it, [table, name], |row| row.get::<_, bool>(0))? {
                transaction
                    .execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {name} {kind}"))?;
            }
        }
    }
    transaction.execute(
        "UPDATE meta SET value = ?1 WHERE name = 'version'",
        params![VERSION],
    )?;
    transaction.execute(
        "INSERT OR IGNORE INTO meta VALUES ('version', ?1), ('instance', ?2)",
        params![VERSION, instance],
    )?;
    // If the check fails, the transaction undoes what was made.
    check_version(&transaction)?;
    let instance = transaction.query_row(
        "SELECT value FROM meta WHERE name = 'instance'",
        [],
        |row| row.get(0),
    )?;
    transaction.commit()?;
    Ok(instance)
}

fn has_table(transaction: &Connection, which: &str) -> rusqlite::Result<bool> {
    let query = format!("SELECT EXISTS (SELECT 1 FROM sqlite_schema {which})");
    transaction.query_row(&query, [], |row| row.get(0))
}

/// Checks that a file is a ledger that this version understands. Returns the file's version.
pub(super) fn check_version(connection: &Connection) -> Result<i64, Fault> {
    is_ours(connection)?;
    let version = connection
        .query_row("SELECT value FROM meta WHERE name = 'version'", [], |row| {
            row.get::<_, i64>(0)
        })
        .optional()?;
    match version {
        Some(known @ 1..=VERSION) => Ok(known),
        Some(newer) if newer > VERSION => Err(Fault::new(format!(
            "a newer Portcullis wrote it (its format is {newer}, and this Portcullis knows \
             {VERSION}); run the newer one, or write another file as `ledger.path`"
        ))),
        Some(_) | None => Err(Fault::new(
            "it does not say which format it has; move the file away, and Portcullis makes a new ledger",
        )),
    }
}

fn is_ours(connection: &Connection) -> Result<(), Fault> {
    let application: i64 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    if application == APPLICATION_ID {
        return Ok(());
    }
    Err(Fault::new(
        "it is a database of another program; write another file as `ledger.path` in server.yaml",
    ))
}
