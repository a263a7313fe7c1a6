use super::days::{DAY, day_of, start_of};
use super::report::{Asked, Query, answer};
use super::*;
use crate::usage::Source;
use proptest::prelude::*;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Noon of 2026-11-21.
const NOW: u64 = 1_795_262_400_000;

/// A folder of the test's own; it goes with this.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("portcullis-ledger-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.join("data/ledger.sqlite")
    }

    pub(super) fn config(&self) -> config::Ledger {
        config::Ledger { enabled: true, path: self.file(), retention: Duration::from_secs(90 * 86_400) }
    }

    pub(super) fn open(&self) -> Ledger {
        Ledger::open(&self.config())
    }

    fn read(&self) -> Connection {
        Connection::open(self.file()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn row(at: u64) -> Row {
    Row {
        at,
        request_id: format!("r{at}"),
        caller: "acme".into(),
        key: "acme/prod".into(),
        model: "m".into(),
        account: Some("a".into()),
        upstream_model: Some("up".into()),
        usage: Usage { prompt: 10, completion: 5, cached: 4, cache_write: 2, reasoning: 3, source: Source::Reported },
        cost: Some(Usd(1_000)),
        unused_tokens: 0,
        unused_cost: None,
        outcome: "ok",
        attempts: 1,
        stream: false,
        status: 200,
        total_ms: 7,
        first_byte_ms: Some(3),
    }
}

/// Waits until `look` is true.
pub(super) fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !look() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

fn count(connection: &Connection, table: &str) -> u64 {
    connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0)).unwrap().try_into().unwrap()
}

/// Asserts that the sums of days are those of the rows, exactly.
#[track_caller]
pub(super) fn assert_sums(connection: &Connection) {
    let columns = "day, caller, key, model, account, upstream_model, outcome, requests, prompt, completion, cached, cache_write, reasoning, \
                   estimated, cost, unpriced, unused_tokens, unused_cost, unused_unpriced";
    let of_rows = "SELECT at / 86400000, caller, key, model, account, upstream_model, outcome, count(*), sum(prompt), sum(completion), \
                   sum(cached), sum(cache_write), sum(reasoning), sum(usage = 'estimated'), sum(coalesce(cost, 0)), sum(cost IS NULL), \
                   sum(unused_tokens), sum(coalesce(unused_cost, 0)), sum(unused_tokens > 0 AND unused_cost IS NULL) \
                   FROM exchange GROUP BY 1, 2, 3, 4, 5, 6, 7";
    for (one, other) in
        [(of_rows.to_owned(), format!("SELECT {columns} FROM daily")), (format!("SELECT {columns} FROM daily"), of_rows.to_owned())]
    {
        let different = connection.query_row(&format!("SELECT count(*) FROM ({one} EXCEPT {other})"), [], |row| row.get::<_, i64>(0));
        assert_eq!(different, Ok(0), "sums of days and rows are the same");
    }
}

#[test]
fn what_is_written_is_in_the_file_with_its_sums() {
    let folder = Folder::new();
    let ledger = folder.open();
    for n in 0..1_000 {
        let mut row = row(NOW + n * 1_000);
        row.cost = (n % 10 != 0).then_some(Usd(n));
        row.unused_tokens = n % 3;
        row.outcome = if n % 4 == 0 { "upstream_error" } else { "ok" };
        row.account = (n % 5 != 0).then(|| "a".into());
        ledger.write(row);
    }
    ledger.used("acme/dev".into(), NOW);
    ledger.flush();
    let told = ledger.told();
    assert_eq!((told.state, told.rows, told.dropped, told.waiting, told.error), (State::Ok, 1_000, 0, 0, None));
    let connection = folder.read();
    assert_eq!(count(&connection, "exchange"), 1_000);
    assert_sums(&connection);
    let used = read::last_used(&folder.file()).unwrap();
    assert_eq!((used.len(), used["acme/prod"], used["acme/dev"]), (2, NOW + 999_000, NOW));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder.file()), mode(folder.file().parent().unwrap())), (0o600, 0o700));
}
