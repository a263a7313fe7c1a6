use super::report::{AnswerBounds, Query, RawQuery, SlowRead, Unanswered, answer_query};
use super::*;
use crate::base::calendar::{self, DAY, day_of, day_start};
use crate::conf::price::Usd;
use crate::limits;
use dialects::usage::{self, Source, Units, Usage};
use proptest::prelude::*;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// Noon of 2026-11-21.
const NOW: u64 = 1_795_262_400_000;

/// A folder of the test's own; it goes with this.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            "portcullis-ledger-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
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
        config::Ledger {
            enabled: true,
            path: self.file(),
            retention: Duration::from_secs(90 * 86_400),
        }
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
        drop(std::fs::remove_dir_all(&self.0));
    }
}

pub(super) fn row(at: u64) -> Row {
    Row {
        admitted_at: at,
        request_id: format!("r{at}"),
        door: "chat".into(),
        caller: "acme".into(),
        key: "acme/prod".into(),
        model: "m".into(),
        account: Some("a".into()),
        upstream_model: Some("up".into()),
        usage: Usage {
            prompt: 10,
            completion: 5,
            cached: 4,
            cache_write: 2,
            reasoning: 3,
            source: Source::Reported,
            units: Units {
                requests: 0,
                images: 3,
                millis: 4_500,
                characters: 5,
            },
            doubted: None,
        },
        cost: Some(Usd(1_000)),
        unused_tokens: 0,
        unused_cost: None,
        outcome: "ok",
        attempts: 1,
        stream: false,
        status: 200,
        total_ms: 7,
        first_byte_ms: Some(3),
        run: None,
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
    connection
        .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
            row.get::<_, i64>(0)
        })
        .unwrap()
        .try_into()
        .unwrap()
}

/// Asserts that the sums of days are those of the rows, exactly.
#[track_caller]
pub(super) fn assert_sums(connection: &Connection) {
    let columns = "day, caller, key, model, account, upstream_model, outcome, requests, prompt, completion, cached, cache_write, reasoning, \
                   estimated, cost, unpriced, unused_tokens, unused_cost, unused_unpriced, images, audio_ms, characters";
    let of_rows = "SELECT at / 86400000, caller, key, model, account, upstream_model, outcome, count(*), sum(prompt), sum(completion), \
                   sum(cached), sum(cache_write), sum(reasoning), sum(usage = 'estimated'), sum(coalesce(cost, 0)), sum(cost IS NULL), \
                   sum(unused_tokens), sum(coalesce(unused_cost, 0)), sum(unused_tokens > 0 AND unused_cost IS NULL), \
                   sum(images), sum(audio_ms), sum(characters) \
                   FROM exchange GROUP BY 1, 2, 3, 4, 5, 6, 7";
    for (one, other) in [
        (of_rows.to_owned(), format!("SELECT {columns} FROM daily")),
        (format!("SELECT {columns} FROM daily"), of_rows.to_owned()),
    ] {
        let different = connection.query_row(
            &format!("SELECT count(*) FROM ({one} EXCEPT {other})"),
            [],
            |row| row.get::<_, i64>(0),
        );
        assert_eq!(different, Ok(0), "sums of days and rows are the same");
    }
}

#[test]
fn written_rows_are_in_the_file_with_sums() {
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
    ledger.note_use("acme/dev".into(), NOW);
    ledger.flush();
    let told = ledger.status();
    assert_eq!(
        (
            told.state,
            told.rows,
            told.dropped,
            told.waiting,
            told.problem
        ),
        (LedgerState::Ok, 1_000, 0, 0, None)
    );
    let connection = folder.read();
    assert_eq!(count(&connection, "exchange"), 1_000);
    assert_sums(&connection);
    let used = read::last_used(&folder.file()).unwrap();
    assert_eq!(
        (used.len(), used["acme/prod"], used["acme/dev"]),
        (2, NOW + 999_000, NOW)
    );
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&folder.file()), mode(folder.file().parent().unwrap())),
        (0o600, 0o700)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Budgets that begin with it begin with what was spent, to the token, wherever the row is at
    /// the moment.
    #[test]
    fn the_past_is_the_sum_of_its_rows(
        rows in prop::collection::vec((prop_oneof![0..40 * DAY, 0..150_000_u64], 0..2_usize, 0..2_usize, 0..100_u64, prop::option::of(0..1_000_u64)), 0..80),
        now in prop_oneof![Just(NOW), Just(day_start(day_of(NOW)) + 30_000), Just(day_start(calendar::first_day_of_month(day_of(NOW))) + 20_000)],
        split in 0..80_usize,
    ) {
        let rows: Vec<Row> = rows.into_iter().map(|(ago, key, model, prompt, cost)| Row {
            key: ["acme/prod", "acme/dev"][key].into(),
            model: ["m", "n"][model].into(),
            usage: Usage { prompt, completion: prompt / 2, ..Usage::default() },
            cost: cost.map(Usd),
            ..row(now - ago)
        }).collect();
        let folder = Folder::new();
        let (first, second) = rows.split_at(split.min(rows.len()));
        let ledger = folder.open();
        first.iter().for_each(|row| ledger.write(row.clone()));
        // Also after a restart; what comes then is not in the file yet, or on its way.
        drop(ledger);
        let ledger = folder.open();
        second.iter().for_each(|row| ledger.write(row.clone()));
        let past = ledger.past_use(now, None);

        let spent = |past: &[Past]| {
            let mut sums: BTreeMap<(u64, String, String), (u64, u64, u64)> = BTreeMap::new();
            for one in past {
                let sum = sums.entry((day_of(one.used_at), one.key.to_string(), one.model.to_string())).or_default();
                *sum = (sum.0 + one.requests, sum.1 + one.tokens, sum.2 + one.usd.0);
            }
            sums
        };
        let naive: Vec<Past> = rows.iter().map(|row| Past {
            used_at: row.admitted_at, dated: None, caller: row.caller.clone(), key: row.key.clone(), model: row.model.clone(),
            requests: 1, tokens: row.usage.total(), usd: row.cost.unwrap_or_default(), unpriced: u64::from(row.cost.is_none()), is_taken_over: false,
        }).collect();
        let this_month = |past: &Past| past.used_at >= day_start(calendar::first_day_of_month(day_of(now)));
        let kept: Vec<Past> = naive.iter().filter(|past| past.used_at >= now - 61_000 || this_month(past)).cloned().collect();
        prop_assert_eq!(spent(&past), spent(&kept));
        let unpriced = |past: &[Past]| past.iter().map(|past| past.unpriced).sum::<u64>();
        prop_assert_eq!(unpriced(&past), unpriced(&kept));
        let recent = |past: &[Past]| {
            let mut recent: Vec<_> = past.iter().filter(|past| past.used_at + 61_000 >= now && past.used_at != day_start(day_of(past.used_at))).map(|past| (past.used_at, past.key.clone(), past.tokens)).collect();
            recent.sort();
            recent
        };
        prop_assert_eq!(recent(&past), recent(&naive));
    }
}

#[test]
fn a_fast_clocks_entries_count_only_now() {
    let now = NOW + 5_000;
    for ahead in [3_600_000, DAY, 365 * DAY] {
        let folder = Folder::new();
        let ledger = folder.open();
        ledger.write(row(NOW - 2 * DAY));
        ledger.write(row(NOW + ahead));
        ledger.write(row(NOW + 6_000));
        ledger.flush();
        // After a restart with the right time, or a few seconds less.
        drop(ledger);
        let ledger = folder.open();
        let limits = limits::Limits::default().with(limits::Kind::RequestsPerMinute, Some(1));
        let begun = |now: u64| {
            let mut tally = limits::tally::Tally::default();
            tally.watch(&limits);
            for past in ledger.past_use(now, None) {
                assert!(past.used_at <= now, "{past:?}");
                let used = limits::Used::new(past.requests, past.tokens, past.usd);
                tally.recall(past.used_at, past.dated, used);
            }
            tally.advance(now);
            tally.counts()
        };
        let counts = begun(now);
        assert_eq!(
            (
                counts.time_ms,
                counts.minute.len(),
                counts.day.requests,
                counts.day.tokens
            ),
            (now, 1, 2, 30),
            "{ahead}"
        );
        assert_eq!(counts.month_usd, Usd(3_000), "{ahead}");
        assert_eq!(begun(now + 61_000 + 1_000).minute, [], "{ahead}");
        // Two days later something else has been written with the right time.
        ledger.write(row(now + DAY + 3_600_000));
        ledger.flush();
        let counts = begun(now + 2 * DAY);
        assert_eq!(
            (counts.day.requests, counts.month_usd),
            (0, Usd(4_000)),
            "{ahead}"
        );
        // The next month.
        assert_eq!(begun(now + 20 * DAY).month_usd, Usd(0), "{ahead}");
    }
}

#[test]
fn last_uses_do_not_wait_for_fast_clocks() {
    let folder = Folder::new();
    let ledger = folder.open();
    let used = |at: u64| {
        ledger.note_use("acme/prod".into(), at);
        ledger.flush();
        read::last_used(&folder.file()).unwrap()["acme/prod"]
    };
    assert_eq!(
        [NOW, NOW - 1_000, NOW + 3 * DAY, NOW + 1_000].map(used),
        [NOW, NOW, NOW + 3 * DAY, NOW + 1_000]
    );
}

#[test]
fn old_rows_go_in_steps_sums_stay() {
    let folder = Folder::new();
    let today = day_of(calendar::now_millis());
    let ledger = folder.open();
    for n in 0..2_500 {
        ledger.write(row(day_start(today - 3) + n));
    }
    ledger.write(row(day_start(today - 401)));
    ledger.write(row(day_start(today - 2)));
    ledger.write(row(day_start(today)));
    drop(ledger);
    let ledger = Ledger::open(&config::Ledger {
        retention: Duration::from_secs(2 * 86_400),
        ..folder.config()
    });
    // It goes on writing meanwhile.
    ledger.write(row(day_start(today) + 1));
    let connection = folder.read();
    eventually("the old rows are deleted", || {
        count(&connection, "exchange") == 3
    });
    ledger.flush();
    assert_eq!(
        (count(&connection, "exchange"), ledger.status().state),
        (3, LedgerState::Ok)
    );
    let days: Vec<u64> = connection
        .prepare("SELECT day FROM daily ORDER BY day")
        .unwrap()
        .query_map([], |row| row.get::<_, i64>(0))
        .unwrap()
        .map(|day| day.unwrap().try_into().unwrap())
        .collect();
    assert_eq!(days, [today - 3, today - 2, today]);
    let requests: i64 = connection
        .query_row("SELECT sum(requests) FROM daily", [], |row| row.get(0))
        .unwrap();
    assert_eq!(requests, 2_503);
}

#[test]
fn old_sums_lose_account_and_outcome_no_money() {
    let folder = Folder::new();
    let today = day_of(calendar::now_millis());
    let old = |n: u64| Row {
        account: Some(format!("account-{}", n % 5).into()),
        upstream_model: Some(format!("up-{}", n % 7).into()),
        outcome: ["ok", "upstream_error", "upstream_cut"][usize::try_from(n % 3).unwrap()],
        caller: if n.is_multiple_of(2) {
            "acme".into()
        } else {
            "blue".into()
        },
        model: format!("m-{}", n % 40).into(),
        unused_tokens: n % 4,
        ..row(day_start(today - 36 - n % 3) + n)
    };
    let ledger = folder.open();
    (0..4_000).for_each(|n| ledger.write(old(n)));
    // This one is young enough to keep all.
    ledger.write(row(day_start(today - 34)));
    ledger.flush();
    let ask = |by: &str| report_by(&folder, by);
    let by_names = ask("day,caller,key,model");
    drop(ledger);
    // The rows are kept for two days, so only sums are left.
    let ledger = Ledger::open(&config::Ledger {
        retention: Duration::from_secs(2 * 86_400),
        ..folder.config()
    });
    let connection = folder.read();
    let detailed = "SELECT count(*) FROM daily WHERE account <> '(merged)'";
    let is_merged = || connection.query_row(detailed, [], |row| row.get::<_, i64>(0)) == Ok(1);
    eventually("the old sums are merged", || {
        is_merged() && count(&connection, "exchange") == 0
    });
    assert_eq!(ask("day,caller,key,model"), by_names);
    // The sums say whose they were, and how many failed.
    let failed = (0..4_000).filter(|n| n % 3 != 0).count();
    let lines = ask("account,upstream_model,outcome");
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(
        lines[0].starts_with(&format!("(merged),(merged),(failed),{failed},{failed},")),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with(&format!("(merged),(merged),ok,{},0,", 4_000 - failed)),
        "{lines:?}"
    );
    assert!(lines[2].starts_with("a,up,ok,1,0,"), "{lines:?}");
    // A row that is written late is merged, too, with the next start at the latest.
    ledger.write(old(1));
    ledger.flush();
    assert!(!is_merged());
    drop(ledger);
    let _ledger = folder.open();
    eventually("the late row is merged", is_merged);
    assert_eq!(ask("account").last().unwrap().split(',').next(), Some("a"));
}

#[test]
fn reports_by_account_read_rows_where_sums_are_merged() {
    let folder = Folder::new();
    let today = day_of(calendar::now_millis());
    let ledger = folder.open();
    for (day, account) in [
        (today - 40, "old"),
        (today - 40, "older"),
        (today - 20, "young"),
        (today, "new"),
    ] {
        ledger.write(Row {
            account: Some(account.into()),
            ..row(day_start(day))
        });
    }
    ledger.flush();
    drop(ledger);
    // All rows are kept for 90 days.
    let _ledger = folder.open();
    let connection = folder.read();
    eventually("the old sums are merged", || {
        count(&connection, "daily") == 3
    });
    let accounts: Vec<String> = report_by(&folder, "account")
        .iter()
        .map(|line| line.split(',').next().unwrap().to_owned())
        .collect();
    assert_eq!(accounts, ["new", "old", "older", "young"]);
}

/// Returns the lines of a report over 60 days.
fn report_by(folder: &Folder, by: &str) -> Vec<String> {
    let asked = report::RawQuery {
        by: Some(by),
        since: Some("60d"),
        ..report::RawQuery::default()
    };
    let query = report::Query::new(&asked, calendar::now_millis()).unwrap();
    let answer = report::answer_query(&folder.file(), &query, None)
        .unwrap()
        .unwrap();
    answer
        .csv()
        .lines()
        .skip(1)
        .map(ToOwned::to_owned)
        .collect()
}

#[test]
fn an_instance_keeps_its_name() {
    let (folder, other) = (Folder::new(), Folder::new());
    let name = folder.open().instance();
    assert_eq!((folder.open().instance(), name.len()), (name.clone(), 16));
    assert_ne!(other.open().instance(), name);
    let off = Ledger::open(&config::Ledger {
        enabled: false,
        ..folder.config()
    });
    assert_eq!(
        (off.instance(), off.status().state),
        (off.instance(), LedgerState::Off)
    );
}

#[test]
fn a_ledger_that_is_off_does_nothing() {
    let folder = Folder::new();
    let ledger = Ledger::open(&config::Ledger {
        enabled: false,
        ..folder.config()
    });
    ledger.write(row(NOW));
    ledger.note_use("k".into(), NOW);
    ledger.flush();
    assert_eq!(
        (
            ledger.past_use(NOW, None),
            ledger.status().waiting,
            folder.file().exists()
        ),
        (Vec::new(), 0, false)
    );
}

/// Whatever stands in its way: rows wait, it says why, and when the obstacle is gone it goes on by
/// itself.
#[track_caller]
fn check_obstacle(put: impl FnOnce(&Path), why: &str, remove: impl FnOnce(&Path)) {
    let folder = Folder::new();
    put(&folder.file());
    let ledger = folder.open();
    ledger.write(row(NOW));
    ledger.flush();
    let told = ledger.status();
    let error = told.problem.expect("an error");
    assert_eq!(
        (told.state, told.rows, told.waiting),
        (LedgerState::Failing, 0, 1),
        "{error}"
    );
    assert!(error.contains(why), "{error}");
    assert_eq!(
        ledger.past_use(NOW, None).len(),
        1,
        "what waits was spent, too"
    );
    remove(&folder.file());
    eventually("it is written", || {
        ledger.status().state == LedgerState::Ok && ledger.status().waiting == 0
    });
    let connection = folder.read();
    assert_eq!(count(&connection, "exchange"), 1);
    assert_sums(&connection);
}

fn put(text: &[u8]) -> impl FnOnce(&Path) {
    move |path| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn remove(path: &Path) {
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_file_that_is_no_database() {
    check_obstacle(
        put(&[b'x'; 5_000]),
        "not a database; move the file away",
        remove,
    );
}

#[test]
fn the_database_of_another_program() {
    let put = |path: &Path| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        Connection::open(path)
            .unwrap()
            .execute_batch("CREATE TABLE cats (name)")
            .unwrap();
    };
    check_obstacle(put, "a database of another program", remove);
}

#[test]
fn the_ledger_of_a_newer_version() {
    let put = |path: &Path| {
        drop(book::Book::open(path, "x").unwrap());
        Connection::open(path)
            .unwrap()
            .execute("UPDATE meta SET value = 4 WHERE name = 'version'", [])
            .unwrap();
    };
    check_obstacle(
        put,
        "a newer Portcullis wrote it (its format is 4, and this Portcullis knows 3)",
        remove,
    );
}

#[test]
fn the_ledger_of_an_older_version_goes_on() {
    let folder = Folder::new();
    let ledger = folder.open();
    ledger.write(Row {
        door: "messages".into(),
        ..row(NOW)
    });
    drop(ledger);
    let units = ["exchange", "running", "daily"]
        .into_iter()
        .flat_map(|table| {
            ["images", "audio_ms", "characters"]
                .map(|name| format!("ALTER TABLE {table} DROP COLUMN {name};"))
        });
    let old = "ALTER TABLE exchange DROP COLUMN door; ALTER TABLE running DROP COLUMN door;
        UPDATE meta SET value = 1 WHERE name = 'version';";
    let old = format!("BEGIN; {}{old} COMMIT", units.collect::<String>());
    eventually("the writer has let go", || {
        Connection::open(folder.file())
            .unwrap()
            .execute_batch(&old)
            .is_ok()
    });
    // Readers need no more than it has.
    let images = || {
        let query = report::Query::new(
            &report::RawQuery {
                since: Some("2000d"),
                ..report::RawQuery::default()
            },
            NOW + DAY,
        );
        let answer = report::answer_query(&folder.file(), &query.unwrap(), None)
            .unwrap()
            .unwrap();
        let json: serde_json::Value = serde_json::from_str(&answer.json()).unwrap();
        (
            json["total"]["requests"].clone(),
            json["total"]["images"].clone(),
        )
    };
    assert_eq!(images(), (1.into(), 0.into()));
    let ledger = folder.open();
    ledger.write(Row {
        door: "responses".into(),
        ..row(NOW + 1)
    });
    drop(ledger);
    let doors = || -> Vec<String> {
        let file = folder.read();
        let mut doors = file
            .prepare("SELECT door FROM exchange ORDER BY at")
            .unwrap();
        doors
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect()
    };
    eventually("both rows are there", || doors() == ["", "responses"]);
    assert_eq!(images(), (2.into(), 3.into()));
}

#[test]
fn a_file_in_the_place_of_the_folder() {
    let in_the_way = |path: &Path| std::fs::write(path.parent().unwrap(), "").unwrap();
    check_obstacle(in_the_way, "the folder", |path| {
        std::fs::remove_file(path.parent().unwrap()).unwrap()
    });
}

#[test]
fn a_folder_in_the_place_of_the_file() {
    check_obstacle(
        |path| std::fs::create_dir_all(path).unwrap(),
        "it is a folder",
        |path| std::fs::remove_dir(path).unwrap(),
    );
}

#[test]
fn a_damaged_page() {
    let folder = Folder::new();
    let ledger = folder.open();
    (0..2_000).for_each(|n| ledger.write(row(NOW + n)));
    drop(ledger);
    // The writer's thread lets go of it in a moment.
    eventually("all is in the file itself", || {
        folder
            .read()
            .pragma_update(None, "journal_mode", "DELETE")
            .is_ok()
    });
    let mut bytes = std::fs::read(folder.file()).unwrap();
    // Whatever is behind the head.
    bytes[4_096..].fill(0xa5);
    std::fs::write(folder.file(), bytes).unwrap();
    let ledger = folder.open();
    ledger.write(row(NOW));
    ledger.flush();
    let told = ledger.status();
    assert!(
        told.state == LedgerState::Failing && told.problem.clone().unwrap().contains("malformed"),
        "{told:?}"
    );
    assert_eq!(ledger.past_use(NOW, None).len(), 1);
    assert!(
        answer_query(
            &folder.file(),
            &Query::new(&RawQuery::default(), NOW).unwrap(),
            None
        )
        .is_err()
    );
    std::fs::rename(folder.file(), folder.path().join("old")).unwrap();
    eventually("a new one is begun", || {
        ledger.status().state == LedgerState::Ok && ledger.status().rows == 1
    });
}

#[test]
fn a_file_that_somebody_has_locked() {
    let folder = Folder::new();
    let ledger = folder.open();
    let other = folder.read();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    ledger.write(row(NOW));
    eventually("it says so", || {
        ledger
            .status()
            .problem
            .is_some_and(|why| why.contains("another program has locked the file"))
    });
    other.execute_batch("COMMIT").unwrap();
    eventually("it is written", || {
        ledger.status().state == LedgerState::Ok && ledger.status().rows == 1
    });
}

#[test]
fn a_file_moved_away_is_written_no_more() {
    let folder = Folder::new();
    let ledger = folder.open();
    ledger.write(row(NOW));
    ledger.flush();
    let away = folder.path().join("away.sqlite");
    for end in ["", "-wal", "-shm"] {
        let with = |path: &Path| PathBuf::from(format!("{}{end}", path.display()));
        std::fs::rename(with(&folder.file()), with(&away)).unwrap();
    }
    ledger.write(row(NOW + 1));
    ledger.write(row(NOW + 2));
    ledger.flush();
    assert_eq!(ledger.status().rows, 3);
    assert_eq!(
        (
            count(&Connection::open(away).unwrap(), "exchange"),
            count(&folder.read(), "exchange")
        ),
        (1, 2)
    );
}

#[test]
fn tables_that_somebody_dropped_are_made_anew() {
    for dropped in [
        &["exchange"][..],
        &["daily"],
        &["last_used"],
        &["exchange", "daily", "meta", "last_used"],
    ] {
        let folder = Folder::new();
        let ledger = folder.open();
        ledger.write(row(NOW));
        ledger.flush();
        let other = folder.read();
        dropped
            .iter()
            .for_each(|table| other.execute_batch(&format!("DROP TABLE {table}")).unwrap());
        ledger.write(row(NOW + 1));
        eventually("it says so", || {
            ledger
                .status()
                .problem
                .is_some_and(|why| why.contains("Portcullis makes it again, empty"))
        });
        eventually("it is written again", || {
            ledger.status().state == LedgerState::Ok && ledger.status().waiting == 0
        });
        assert_eq!(
            count(&other, "exchange"),
            if dropped.contains(&"exchange") { 1 } else { 2 },
            "{dropped:?}"
        );
        assert_eq!(count(&other, "daily"), 1, "{dropped:?}");
        assert!(
            answer_query(
                &folder.file(),
                &Query::new(&RawQuery::default(), NOW + 2).unwrap(),
                None
            )
            .unwrap()
            .is_some()
        );
    }
}

#[test]
fn a_silent_form_is_stated_again_after_restart() {
    let folder = Folder::new();
    let ledger = folder.open();
    ledger.write(row(NOW));
    ledger.flush();
    let instance = ledger.instance();
    folder.read().execute_batch("DROP TABLE meta").unwrap();
    ledger.write(row(NOW + 1));
    drop(ledger);
    let ledger = folder.open();
    ledger.write(row(NOW + 2));
    ledger.flush();
    assert_eq!(
        (
            ledger.status().state,
            count(&folder.read(), "exchange"),
            ledger.instance() == instance
        ),
        (LedgerState::Ok, 3, false)
    );
}

/// What is beside a file that was closed well is nobody's, and counts nothing.
#[test]
fn garbage_beside_the_file_harms_nothing() {
    let folder = Folder::new();
    let beside = |end: &str| PathBuf::from(format!("{}{end}", folder.file().display()));
    for (end, bytes) in [
        ("-wal", 100_000),
        ("-wal", 31),
        ("-shm", 32_768),
        ("-journal", 5_000),
    ] {
        let ledger = folder.open();
        ledger.write(row(NOW));
        ledger.flush();
        let before = ledger.status().rows;
        drop(ledger);
        eventually("the writer lets go of it", || !beside("-wal").exists());
        let rows = count(&folder.read(), "exchange");
        std::fs::write(beside(end), vec![0xa5; bytes]).unwrap();
        let ledger = folder.open();
        ledger.write(row(NOW + 1));
        ledger.flush();
        assert_eq!(
            (ledger.status().state, ledger.status().rows, before),
            (LedgerState::Ok, 1, 1),
            "{end}: {:?}",
            ledger.status()
        );
        assert_eq!(count(&folder.read(), "exchange"), rows + 1, "{end}");
        assert_sums(&folder.read());
    }
}

/// Somebody writes over what SQLite has beside the file while it is written.
#[test]
fn garbage_in_an_open_files_log_is_reported() {
    let folder = Folder::new();
    let ledger = folder.open();
    (0..500).for_each(|n| ledger.write(row(NOW + n)));
    ledger.flush();
    let log = PathBuf::from(format!("{}-wal", folder.file().display()));
    let mut bytes = std::fs::read(&log).unwrap();
    bytes.fill(0xa5);
    std::fs::OpenOptions::new()
        .write(true)
        .open(&log)
        .unwrap()
        .write_all_at(&bytes, 0)
        .unwrap();
    ledger.write(row(NOW));
    ledger.flush();
    // As long as it has all in memory nobody can know. Whoever reads it from the disk does.
    drop(ledger);
    eventually("the writer lets go of it", || !log.exists());
    let ledger = folder.open();
    ledger.write(row(NOW));
    ledger.flush();
    let told = ledger.status();
    assert!(
        told.state == LedgerState::Failing
            && told
                .problem
                .as_ref()
                .is_some_and(|why| why.contains("; move the file away")),
        "{told:?}"
    );
    assert_eq!((told.waiting, ledger.past_use(NOW, None).len()), (1, 1));
    remove(&folder.file());
    eventually("a new one is begun", || {
        ledger.status().state == LedgerState::Ok && ledger.status().rows == 1
    });
}

#[test]
fn memory_is_bounded_and_what_is_dropped_is_counted() {
    let folder = Folder::new();
    put(b"no database at all, and longer than nothing")(&folder.file());
    let ledger = folder.open();
    for n in 0..100 {
        ledger.write(Row {
            request_id: String::with_capacity(1 << 20),
            ..row(NOW + n)
        });
    }
    let told = ledger.status();
    assert_eq!((told.waiting, told.dropped), (63, 37));
    remove(&folder.file());
    eventually("what was kept is written", || ledger.status().rows == 63);
    ledger.write(row(NOW));
    ledger.flush();
    assert_eq!(
        (
            ledger.status().rows,
            ledger.status().dropped,
            count(&folder.read(), "exchange")
        ),
        (64, 37, 64)
    );
}

#[test]
fn two_write_to_one_file() {
    let folder = Folder::new();
    let (one, other) = (folder.open(), folder.open());
    assert_eq!(one.instance(), other.instance());
    std::thread::scope(|scope| {
        for ledger in [&one, &other] {
            scope.spawn(move || {
                for n in 0..3_000 {
                    ledger.write(row(NOW + n));
                    if n % 500 == 0 {
                        ledger.flush();
                    }
                }
                ledger.flush();
            });
        }
    });
    let connection = folder.read();
    assert_eq!(
        (
            one.status().rows,
            other.status().rows,
            count(&connection, "exchange")
        ),
        (3_000, 3_000, 6_000)
    );
    assert_sums(&connection);
}

#[test]
fn the_largest_numbers_stop_nothing() {
    let folder = Folder::new();
    let ledger = folder.open();
    let most = usage::MAX_TOKENS;
    let usage = Usage {
        prompt: most,
        completion: most,
        cached: most,
        source: Source::Reported,
        ..Usage::default()
    };
    for n in 0..4 {
        ledger.write(Row {
            usage,
            cost: Some(Usd::MAX),
            unused_tokens: most,
            unused_cost: Some(Usd::MAX),
            total_ms: u64::MAX,
            ..row(NOW + n)
        });
        ledger.flush();
    }
    ledger.write(Row {
        admitted_at: u64::MAX,
        ..row(NOW)
    });
    ledger.flush();
    assert_eq!(
        (ledger.status().state, ledger.status().rows),
        (LedgerState::Ok, 5)
    );
    let used = answer_query(
        &folder.file(),
        &Query::new(&RawQuery::default(), NOW + 5).unwrap(),
        None,
    )
    .unwrap()
    .unwrap();
    assert!(
        used.json().contains("\"prompt_tokens\": 4294967296"),
        "{}",
        used.json()
    );
    assert!(!ledger.past_use(NOW, None).is_empty());
}

#[test]
fn readers_need_no_writer_and_no_right() {
    let folder = Folder::new();
    let query = Query::new(&RawQuery::default(), NOW + 1).unwrap();
    assert_eq!(
        answer_query(&folder.file(), &query, None),
        Ok(None),
        "there is no file yet"
    );
    let ledger = folder.open();
    ledger.write(row(NOW));
    drop(ledger);
    // As it lies on a medium that nobody can write to: the file alone.
    Connection::open(folder.file())
        .unwrap()
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    let copy = folder.path().join("a copy?#%.sqlite");
    std::fs::copy(folder.file(), &copy).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o400)).unwrap();
    let json = |path: &Path| answer_query(path, &query, None).unwrap().unwrap().json();
    assert_eq!(json(&copy), json(&folder.file()));
    assert!(json(&copy).contains("\"requests\": 1"));
}

#[test]
fn a_question_ends_in_time_whatever_it_finds() {
    let folder = Folder::new();
    let ledger = folder.open();
    (0..5_000).for_each(|n| {
        ledger.write(Row {
            key: format!("acme/{n}").into(),
            ..row(NOW + n)
        })
    });
    drop(ledger);
    let asked = |caller: &str, seconds: u64, lines: usize| {
        let since = Some("2026-11-21T00:00:01Z");
        let asked = RawQuery {
            caller: Some(caller),
            by: Some("key"),
            since,
            ..RawQuery::default()
        };
        let bounds = AnswerBounds {
            deadline: Instant::now() + Duration::from_secs(seconds),
            lines,
        };
        answer_query(
            &folder.file(),
            &Query::new(&asked, NOW + 5_000).unwrap(),
            Some(bounds),
        )
        .map(|answer| answer.is_some())
    };
    for caller in ["acme", "nobody"] {
        assert_eq!(
            asked(caller, 0, 5_000),
            Err(Unanswered::TooLong(SlowRead::DaySums)),
            "{caller}"
        );
        assert_eq!(asked(caller, 60, 5_000), Ok(true), "{caller}");
    }
    assert_eq!(asked("acme", 60, 4_999), Err(Unanswered::TooMuch(4_999)));
}

#[test]
fn slow_questions_about_old_days_say_how_to_shrink() {
    let folder = Folder::new();
    let ledger = folder.open();
    (0..5_000).for_each(|n| ledger.write(row(NOW + n)));
    drop(ledger);
    // From the day after tomorrow on, sums have the account.
    let detailed_from = i64::try_from(day_of(NOW) + 2).unwrap();
    Connection::open(folder.file())
        .unwrap()
        .execute(
            "INSERT OR REPLACE INTO meta VALUES ('detailed_from', ?1)",
            [detailed_from],
        )
        .unwrap();
    let check = |until: Option<&str>, expected: &str| {
        let asked = RawQuery {
            by: Some("account"),
            since: Some("2026-11-21"),
            until,
            ..RawQuery::default()
        };
        let query = Query::new(&asked, NOW + 5 * DAY).unwrap();
        let bounds = AnswerBounds {
            deadline: Instant::now(),
            lines: 10,
        };
        let refused = answer_query(&folder.file(), &query, Some(bounds)).unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
    };
    check(None, "ask for since=2026-11-23, or without these groups");
    check(
        Some("2026-11-22"),
        "ask for a shorter time, or without these groups",
    );
}

#[test]
fn opening_again_leaves_others_locks() {
    let folder = Folder::new();
    let (first, _) = book::Book::open(&folder.file(), "x").unwrap();
    let reader = Connection::open(folder.file()).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM meta").unwrap();
    drop(book::Book::open(&folder.file(), "x").unwrap());
    // Locks belong to a process: whether they are still there another one must say.
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(folder.file()).unwrap());
    // The file is read in parts: a lock may be left out while other locks come and go.
    let is_listed = |_| {
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks
            .lines()
            .any(|line| line.contains(&format!(":{inode} ")))
    };
    assert!((0..100).any(is_listed), "{inode}");
    drop((first, reader));
}

#[test]
fn a_panic_while_writing_ends_nothing() {
    let folder = Folder::new();
    let ledger = folder.open();
    ledger.write(row(NOW));
    ledger.write(Row {
        outcome: "panics",
        ..row(NOW + 1)
    });
    eventually("it says so", || {
        ledger
            .status()
            .problem
            .is_some_and(|why| why.contains("panicked"))
    });
    assert_eq!(
        (ledger.status().waiting, ledger.status().dropped),
        (2, 0),
        "they are tried once more"
    );
    eventually("they are given up", || {
        (ledger.status().waiting, ledger.status().dropped) == (0, 2)
    });
    ledger.write(row(NOW + 2));
    eventually("it goes on", || {
        ledger.status().state == LedgerState::Ok && ledger.status().rows == 1
    });
}

#[test]
fn at_the_end_it_is_tried_once_more() {
    // The machine may stand still meanwhile, but hardly each time.
    let is_soon = |_| {
        let folder = Folder::new();
        put(&[b'x'; 5_000])(&folder.file());
        let ledger = folder.open();
        (0..3).for_each(|n| ledger.write(row(NOW + n)));
        remove(&folder.file());
        let start = Instant::now();
        ledger.finish();
        // The writer's own next try would be after three seconds.
        let took = start.elapsed();
        (ledger.status().rows, ledger.status().waiting) == (3, 0)
            && took < Duration::from_millis(2_500)
    };
    assert!((0..5).any(is_soon));

    // In vain it is only once.
    let is_once = |_| {
        let folder = Folder::new();
        put(&[b'x'; 5_000])(&folder.file());
        let ledger = folder.open();
        ledger.write(row(NOW));
        let start = Instant::now();
        ledger.finish();
        assert_eq!(ledger.status().waiting, 1);
        start.elapsed() < Duration::from_millis(1_900)
    };
    assert!((0..5).any(is_once));
}

#[test]
fn rows_arriving_during_a_question_keep_order() {
    let folder = Folder::new();
    let ledger = folder.open();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..20_000).for_each(|n| ledger.write(row(NOW + n))));
        let mut before = 0;
        while before < 20_000 {
            let now = ledger
                .past_use(NOW + 20_000, None)
                .iter()
                .map(|past| past.requests)
                .sum();
            assert!(before <= now && now <= 20_000, "{before} {now}");
            before = now;
        }
    });
    ledger.flush();
    let connection = folder.read();
    assert_eq!(
        (ledger.status().rows, count(&connection, "exchange")),
        (20_000, 20_000)
    );
    let disorder = "SELECT count(*) FROM (SELECT at < lag(at) OVER (ORDER BY rowid) AS back FROM exchange) WHERE back";
    assert_eq!(
        connection.query_row(disorder, [], |row| row.get::<_, i64>(0)),
        Ok(0)
    );
    assert_sums(&connection);
}

mod cut;
mod insert;
mod merge;
mod seeds;

/// Returns what the sums of days say of a caller, and what is kept of it in memory.
fn of_acme(ledger: &Ledger, callers: &Callers) -> [(u64, u64, u64, u64); 2] {
    let read = Callers::default();
    ledger.flush();
    month::add_month_use(ledger.path(), calendar::now_millis(), &read).unwrap();
    [&read, callers].map(|callers| {
        let sums = callers
            .sums(calendar::now_millis())
            .remove("acme")
            .unwrap_or_default()
            .month;
        (sums.requests, sums.tokens, sums.usd.0, sums.unpriced)
    })
}

#[test]
fn callers_use_in_memory_survives_restart_and_kill() {
    let (folder, now) = (Folder::new(), calendar::now_millis());
    let written = |ledger: &Ledger, callers: &Callers, row: Row| {
        callers.add_use(&row.caller, row.admitted_at, &row.caller_use());
        ledger.write(row);
    };
    let callers = Arc::new(Callers::default());
    let ledger = folder.open();
    ledger.begin_callers(&callers);
    written(&ledger, &callers, row(now));
    written(
        &ledger,
        &callers,
        Row {
            cost: None,
            ..row(now - 40 * DAY)
        },
    );
    written(
        &ledger,
        &callers,
        Row {
            cost: None,
            ..row(now)
        },
    );
    assert_eq!(of_acme(&ledger, &callers), [(2, 30, 1_000, 1); 2]);
    drop(ledger);
    // The next process begins with what is in the file, and a third one finds a killed one's row.
    let callers = Arc::new(Callers::default());
    let ledger = folder.open();
    ledger.begin_callers(&callers);
    written(&ledger, &callers, row(now));
    assert_eq!(of_acme(&ledger, &callers), [(3, 45, 2_000, 1); 2]);
    let connection = folder.read();
    let cut = "INSERT INTO running SELECT 'dead', 1, at, request_id, caller, key, model, account, upstream_model, prompt, \
               completion, cached, cache_write, reasoning, usage, cost, unused_tokens, unused_cost, attempts, stream, \
               status, total_ms, door, images, audio_ms, characters FROM exchange LIMIT 1";
    connection.execute(cut, []).unwrap();
    drop(ledger);
    let callers = Arc::new(Callers::default());
    let ledger = folder.open();
    ledger.begin_callers(&callers);
    assert_eq!(of_acme(&ledger, &callers), [(4, 60, 3_000, 1); 2]);
}

#[test]
fn callers_use_is_told_once_readable() {
    let folder = Folder::new();
    let now = calendar::now_millis();
    let ledger = folder.open();
    ledger.write(row(now));
    drop(ledger);
    let hidden = folder.path().join("hidden");
    std::fs::rename(folder.file(), &hidden).unwrap();
    std::fs::write(folder.file(), "no database").unwrap();
    let callers = Arc::new(Callers::default());
    let ledger = folder.open();
    ledger.begin_callers(&callers);
    callers.add_use(&"acme".into(), now, &row(now).caller_use());
    ledger.write(row(now));
    std::fs::rename(&hidden, folder.file()).unwrap();
    eventually("the past is read", || {
        callers
            .sums(now)
            .get("acme")
            .is_some_and(|sums| sums.today.requests == 2)
    });
    eventually("and the row is written", || {
        of_acme(&ledger, &callers) == [(2, 30, 2_000, 0); 2]
    });
}
