//! A `Reader` reads the ledger's file, whether or not another process writes it. Nothing here
//! changes the file.

use super::book::{self, Fault};
use super::columns::stored_integer;
use super::sums::{Column, SumKey, Sums};
use crate::base::calendar::DAY;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, RowIndex, params};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The longest time that a reader waits for a program that has just begun a new file, or locks the
/// file.
const BUSY_TIMEOUT: Duration = Duration::from_millis(500);

/// The open file.
pub(super) struct Reader {
    connection: Connection,
    /// False if an older Portcullis wrote the file: then it has no columns for units and doors.
    has_units: bool,
}

/// A consistent view of the file at one moment.
pub(super) struct View<'r> {
    pub(super) transaction: rusqlite::Transaction<'r>,
    has_units: bool,
}

/// A table of the file that has sums.
#[derive(Debug, Clone, Copy)]
pub(super) enum Table {
    /// One row for each exchange.
    Rows,
    /// The sums of each day.
    Days,
}

/// The times from which on the file has rows and sums.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptFrom {
    /// The moment from which on all rows are kept.
    pub(super) rows: u64,
    /// The day from which on all sums are kept.
    pub(super) days: u64,
    /// The day from which on sums have the account, its name for the model, and the outcome.
    pub(super) detailed_days: u64,
}

/// The rows or days to read: from the first moment (or day) up to, but not with, the last.
pub(super) struct Range<'a> {
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) caller: Option<&'a str>,
    pub(super) key: Option<&'a str>,
    pub(super) model: Option<&'a str>,
}

impl Reader {
    /// Opens a file. Returns `None` if there is no such file.
    pub(super) fn open(path: &Path) -> Result<Option<Reader>, String> {
        let file = match std::fs::metadata(path) {
            Ok(file) => file,
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(unreadable_error(path, Fault::new(why))),
        };
        book::is_regular(&file).map_err(|why| unreadable_error(path, why))?;
        let first = open_file(path, FileUse::Shared);
        let (connection, version) = match first {
            // To read a file that others may write, SQLite must write into its folder. If it may
            // not, the file is read as if nobody wrote it. That is right only if the log beside it
            // is empty: else the file alone is not whole.
            Err((Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly), why))
                if has_empty_log(path) =>
            {
                open_file(path, FileUse::Unchanging).map_err(|_| unreadable_error(path, why))?
            }
            Err((_, why)) => return Err(unreadable_error(path, why)),
            Ok(open) => open,
        };
        Ok(Some(Reader {
            connection,
            has_units: version >= book::WITH_UNITS,
        }))
    }

    /// Sets a deadline. After it, every read fails with an error for which [`is_deadline_error`]
    /// returns true.
    pub(super) fn set_deadline(&mut self, deadline: Instant) -> rusqlite::Result<()> {
        // The steps of SQLite's machine between two looks at the clock: far less than a
        // millisecond.
        const STEPS: i32 = 4096;
        self.connection
            .progress_handler(STEPS, Some(move || Instant::now() >= deadline))
    }

    /// Returns a view of the file as it is now.
    pub(super) fn view(&self) -> rusqlite::Result<View<'_>> {
        Ok(View {
            transaction: self.connection.unchecked_transaction()?,
            has_units: self.has_units,
        })
    }
}

/// Returns whether a read failed because its deadline has passed.
pub(super) fn is_deadline_error(why: &rusqlite::Error) -> bool {
    why.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}

/// Writes the error that a ledger cannot be read, and why.
pub(super) fn unreadable_error(path: &Path, why: impl Into<Fault>) -> String {
    format!(
        "the ledger {} cannot be read: {}",
        path.display(),
        why.into().message
    )
}

/// How a file is used by others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileUse {
    /// Others may write it.
    Shared,
    /// It does not change while it is read.
    Unchanging,
}

/// Opens the file. Also returns its version.
fn open_file(
    path: &Path,
    file_use: FileUse,
) -> Result<(Connection, i64), (Option<ErrorCode>, Fault)> {
    let connection =
        connect(path, file_use).map_err(|why| (why.sqlite_error_code(), why.into()))?;
    let version = book::check_version(&connection).map_err(|why| (None, why))?;
    Ok((connection, version))
}

fn connect(path: &Path, file_use: FileUse) -> rusqlite::Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = if file_use == FileUse::Unchanging {
        flags |= OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(format_immutable_uri(path), flags)?
    } else {
        Connection::open_with_flags(path, flags)?
    };
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// Writes the URI by which SQLite reads a file as one that does not change. All bytes but plain
/// ones are encoded, so a path need not be UTF-8, and may begin with `//`.
fn format_immutable_uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b".-_".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            // Anything can be written to a text.
            let _written = write!(uri, "%{byte:02x}");
        }
    }
    uri + "?immutable=1"
}

/// Returns whether all that was written is in the file itself: its log (`-wal`) is empty or not
/// there.
fn has_empty_log(path: &Path) -> bool {
    let mut wal_path = path.as_os_str().to_owned();
    wal_path.push("-wal");
    std::fs::metadata(wal_path).map_or(true, |wal| wal.len() == 0)
}

/// The callers, keys and models of a range; the parameters are those of [`View::read_entries`].
const FILTER: &str =
    "AND (?3 IS NULL OR caller = ?3) AND (?4 IS NULL OR key = ?4) AND (?5 IS NULL OR model = ?5)";

impl View<'_> {
    /// Returns the times from which on the file has rows and sums.
    pub(super) fn kept_from(&self) -> rusqlite::Result<KeptFrom> {
        Ok(KeptFrom {
            rows: self.meta("rows_from")?,
            days: self.meta("days_from")?,
            detailed_days: self.meta("detailed_from")?,
        })
    }

    fn meta(&self, name: &str) -> rusqlite::Result<u64> {
        let query = "SELECT value FROM meta WHERE name = ?1";
        let value = self
            .transaction
            .query_row(query, [name], |row| read_integer(row, 0));
        value.optional().map(Option::unwrap_or_default)
    }

    /// Calls `each` with every entry of a range in a table, until `each` returns false.
    pub(super) fn read_entries(
        &self,
        table: Table,
        range: &Range<'_>,
        each: &mut dyn FnMut(SumKey<'_>, Sums) -> bool,
    ) -> rusqlite::Result<()> {
        let (name, time) = match table {
            Table::Rows => ("exchange", "at"),
            Table::Days => ("daily", "day"),
        };
        let day = match table {
            Table::Rows => format!("at / {DAY}"),
            Table::Days => "day".to_owned(),
        };
        let door = match table {
            Table::Rows if self.has_units => "door",
            Table::Rows | Table::Days => "''",
        };
        let sums = Column::ALL.map(|column| match (column, table) {
            (Column::Images | Column::Millis | Column::Characters, _) if !self.has_units => "0",
            (_, Table::Rows) => column.count_in_sql(),
            (_, Table::Days) => column.name(),
        });
        let sums = sums.join(", ");
        let sql = format!(
            "SELECT {day}, caller, key, model, account, upstream_model, outcome, {door}, {sums} FROM {name} WHERE {time} >= ?1 AND {time} < ?2 {FILTER}"
        );
        let mut statement = self.transaction.prepare(&sql)?;
        let mut rows = statement.query(params![
            stored_integer(range.from),
            stored_integer(range.until),
            range.caller,
            range.key,
            range.model
        ])?;
        while let Some(row) = rows.next()? {
            let text = |column: usize| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
            let key = SumKey {
                day: read_integer(row, 0)?,
                caller: text(1)?,
                key: text(2)?,
                model: text(3)?,
                account: text(4)?,
                upstream_model: text(5)?,
                outcome: text(6)?,
                door: text(7)?,
            };
            if !each(key, read_sums(row, 8)?) {
                break;
            }
        }
        Ok(())
    }
}

/// Reads the sums of a row that has all [`Column`]s, in their order, from the column `first` on.
pub(super) fn read_sums(row: &Row<'_>, first: usize) -> rusqlite::Result<Sums> {
    let mut sums = Sums::default();
    for (column, sum) in (first..).zip(&mut sums.0) {
        *sum = read_integer(row, column)?;
    }
    Ok(sums)
}

/// Reads a whole number. None is written that is negative; if a file has one all the same, it
/// counts as 0.
pub(super) fn read_integer(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column)
        .map(|number| u64::try_from(number).unwrap_or_default())
}

/// Checks that the file is a ledger that this program can read, if there is one.
pub fn check_readable(path: &Path) -> Result<(), String> {
    last_used(path).map(drop)
}

/// The names that a ledger has.
#[derive(Debug, Default)]
pub struct LedgerNames {
    /// The ids of callers.
    pub callers: BTreeSet<String>,
    /// The ids of keys.
    pub keys: BTreeSet<String>,
    /// The ids of models.
    pub models: BTreeSet<String>,
}

/// Reads the callers, keys and models of a ledger, as far as the sums of days have them. Returns
/// empty sets if there is no file yet.
pub fn read_names(path: &Path) -> Result<LedgerNames, String> {
    let Some(reader) = Reader::open(path)? else {
        return Ok(LedgerNames::default());
    };
    read_all_names(&reader.connection).map_err(|why| unreadable_error(path, why))
}

fn read_all_names(connection: &Connection) -> rusqlite::Result<LedgerNames> {
    Ok(LedgerNames {
        callers: distinct_names(connection, "caller")?,
        keys: distinct_names(connection, "key")?,
        models: distinct_names(connection, "model")?,
    })
}

fn distinct_names(connection: &Connection, column: &str) -> rusqlite::Result<BTreeSet<String>> {
    let query = format!("SELECT DISTINCT {column} FROM daily");
    let mut statement = connection.prepare(&query)?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Reads the time at which each key was last used, in milliseconds of Unix time. Returns an empty
/// map if there is no file yet.
pub fn last_used(path: &Path) -> Result<HashMap<String, u64>, String> {
    let Some(reader) = Reader::open(path)? else {
        return Ok(HashMap::new());
    };
    read_last_used(&reader.connection).map_err(|why| unreadable_error(path, why))
}

fn read_last_used(connection: &Connection) -> rusqlite::Result<HashMap<String, u64>> {
    let mut statement = connection.prepare("SELECT key, at FROM last_used")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, read_integer(row, 1)?)))?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::tests::Folder;
    use std::ffi::OsStr;

    #[test]
    fn only_a_missing_file_is_no_ledger() {
        let folder = Folder::new();
        let missing = folder.path().join("missing.sqlite");
        assert_eq!(last_used(&missing), Ok(HashMap::new()));
        std::fs::write(folder.path().join("file"), "").unwrap();
        let path = folder.path().join("file/ledger.sqlite");
        let why = last_used(&path).unwrap_err();
        let expected = format!("the ledger {} cannot be read: ", path.display());
        assert!(why.starts_with(&expected), "{why}");
    }

    #[test]
    fn any_path_can_be_read_as_unchanging() {
        let folder = Folder::new();
        for name in ["plain.sqlite", "a copy?#%.sqlite", "é&=+:.sqlite"] {
            check_unchanging(&folder.path().join(name));
        }
        let doubled = format!("/{}", folder.path().join("doubled.sqlite").display());
        check_unchanging(Path::new(&doubled));
        // Not all systems have such names.
        if cfg!(target_os = "linux") {
            check_unchanging(&folder.path().join(OsStr::from_bytes(b"\xff\x80.sqlite")));
        }
    }

    #[track_caller]
    fn check_unchanging(path: &Path) {
        let written = Connection::open(path).unwrap();
        written
            .execute_batch("CREATE TABLE daily (caller TEXT); INSERT INTO daily VALUES ('acme')")
            .unwrap();
        drop(written);
        let connection = connect(path, FileUse::Unchanging).unwrap();
        let callers = distinct_names(&connection, "caller").unwrap();
        assert!(callers.contains("acme"), "{path:?}");
    }
}
