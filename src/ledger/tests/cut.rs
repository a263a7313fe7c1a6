//! What runs, and what becomes of it when its process dies.

use super::seeds::Limited;
use super::*;
use std::sync::atomic::AtomicU64;

/// An exchange that runs.
struct Stream {
    at: u64,
    said: AtomicU64,
}

impl Runs for Stream {
    fn claim(&self) -> bool {
        true
    }

    fn so_far(&self) -> Row {
        let usage = Usage {
            prompt: 10,
            completion: self.said.load(Ordering::SeqCst),
            source: Source::Estimated,
            ..Usage::default()
        };
        Row {
            usage,
            unused_tokens: 7,
            unused_cost: None,
            outcome: "shutdown",
            first_byte_ms: None,
            ..row(self.at)
        }
    }
}

impl Stream {
    fn begin(ledger: &Ledger, at: u64) -> (Arc<Stream>, Option<Run>) {
        let stream = Arc::new(Stream {
            at,
            said: AtomicU64::new(1),
        });
        let runs: Arc<dyn Runs> = stream.clone();
        (stream, ledger.begin_run(Arc::downgrade(&runs)))
    }

    fn says(&self, folder: &Folder, said: u64) {
        self.said.store(said, Ordering::SeqCst);
        eventually("what runs is in the file", || running(folder) == [said]);
    }
}

/// What those have said that run.
fn running(folder: &Folder) -> Vec<u64> {
    let connection = folder.read();
    let Ok(mut statement) = connection.prepare("SELECT completion FROM running ORDER BY 1") else {
        return Vec::new();
    };
    statement
        .query_map([], |row| row.get::<_, i64>(0))
        .unwrap()
        .map(|said| said.unwrap().try_into().unwrap())
        .collect()
}

/// As if the process had been killed that they ran in.
fn kill(folder: &Folder) {
    let connection = folder.read();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection
        .execute(
            "UPDATE running SET process = 'dead', number = number + 1000",
            [],
        )
        .unwrap();
}

#[test]
fn running_rows_are_written_growing_then_replaced() {
    let folder = Folder::new();
    let ledger = folder.open();
    let (stream, run) = Stream::begin(&ledger, NOW);
    stream.says(&folder, 3);
    stream.says(&folder, 40_000);
    let connection = folder.read();
    assert_eq!(
        (count(&connection, "exchange"), count(&connection, "daily")),
        (0, 0),
        "no sum has it yet"
    );
    assert_eq!(ledger.past_use(NOW, None), Vec::new());
    ledger.write(Row { run, ..row(NOW) });
    ledger.flush();
    assert_eq!(
        (running(&folder), count(&connection, "exchange")),
        (Vec::new(), 1)
    );
    assert_sums(&connection);
    // What ends before it is looked at is not looked for in the file.
    let (_stream, run) = Stream::begin(&ledger, NOW + 1);
    ledger.write(Row {
        run,
        ..row(NOW + 1)
    });
    ledger.flush();
    assert_eq!(
        (running(&folder), count(&connection, "exchange")),
        (Vec::new(), 2)
    );
    drop(ledger);
    eventually("nothing is left beside the file", || {
        life::process_names(&folder.file()).is_empty()
    });
}

#[test]
fn a_dead_processs_exchange_becomes_a_row() {
    let folder = Folder::new();
    let one = folder.open();
    let (stream, run) = Stream::begin(&one, NOW);
    stream.says(&folder, 500);
    // As long as it lives, nobody else takes it.
    let two = folder.open();
    assert_eq!(
        (running(&folder), two.past_use(NOW, None)),
        (vec![500], Vec::new())
    );
    drop(two);
    kill(&folder);
    let three = folder.open();
    let connection = folder.read();
    let told = |sql: &str| {
        connection
            .query_row(sql, [], |row| row.get::<_, String>(0))
            .unwrap()
    };
    let cut = "SELECT outcome || ' ' || usage || ' ' || prompt || ' ' || completion || ' ' || cost || ' ' || unused_tokens FROM exchange WHERE \
               completion = 500";
    assert_eq!(told(cut), "shutdown estimated 10 500 1000 7");
    assert_eq!(count(&connection, "exchange"), 1);
    assert_sums(&connection);
    assert_eq!(
        three
            .past_use(NOW, None)
            .iter()
            .map(|past| (past.requests, past.tokens))
            .collect::<Vec<_>>(),
        [(1, 510)]
    );
    let used = read::last_used(&folder.file()).unwrap();
    assert_eq!(used.get("acme/prod"), Some(&NOW));
    // Its own end comes late, if it was no death: it is one more row, and nothing of anybody else's
    // goes.
    one.write(Row { run, ..row(NOW) });
    one.flush();
    assert_eq!(count(&connection, "exchange"), 2);
    assert_sums(&connection);
}

#[test]
fn a_ledger_without_the_table_gets_it_again() {
    let folder = Folder::new();
    drop(folder.open());
    folder.read().execute_batch("DROP TABLE running").unwrap();
    let ledger = folder.open();
    let (stream, run) = Stream::begin(&ledger, NOW);
    stream.says(&folder, 2);
    folder.read().execute_batch("DROP TABLE running").unwrap();
    stream.says(&folder, 9);
    folder.read().execute_batch("DROP TABLE running").unwrap();
    ledger.write(Row { run, ..row(NOW) });
    eventually("its row is written", || {
        ledger.status().waiting == 0 && ledger.status().state == LedgerState::Ok
    });
    assert_eq!(
        (running(&folder), count(&folder.read(), "exchange")),
        (Vec::new(), 1)
    );
}

#[test]
fn limits_already_begun_get_later_findings() {
    let folder = Folder::new();
    let limited = Limited::begin(folder.open());
    limited.exchange();
    limited.ledger.flush();
    let other = folder.open();
    let (stream, _run) = Stream::begin(&other, calendar::now_millis());
    stream.says(&folder, 30);
    kill(&folder);
    // It opens the file once more.
    folder.read().execute_batch("DROP TABLE last_used").unwrap();
    limited.exchange();
    eventually("it is told", || limited.counts().day.requests == 3);
    assert_eq!(limited.counts().day.tokens, 15 + 15 + 40);
    drop(stream);
}

/// Rows of the last minute, of the day and of the month: limits count them, and began without them.
#[test]
fn cut_things_are_told_apart_from_limits() {
    let folder = Folder::new();
    let now = calendar::now_millis();
    let earlier = [
        now,
        now - 120_000,
        calendar::day_start(calendar::first_day_of_month(calendar::day_of(now))),
        now - 62 * DAY,
    ];
    let ledger = folder.open();
    earlier.iter().for_each(|at| ledger.write(row(*at)));
    ledger.flush();
    let streams: Vec<_> = earlier
        .iter()
        .map(|at| Stream::begin(&ledger, *at))
        .collect();
    streams
        .iter()
        .for_each(|(stream, _)| stream.said.store(30, Ordering::SeqCst));
    eventually("all that runs is in the file", || {
        self::running(&folder) == [30; 4]
    });
    kill(&folder);
    drop((streams, ledger));
    let next = folder.open();
    let sums = |past: &[Past], cut: bool| {
        let of = past.iter().filter(|past| past.is_taken_over == cut);
        of.fold((0, 0, 0), |sums, past| {
            (
                sums.0 + past.requests,
                sums.1 + past.tokens,
                sums.2 + past.usd.0,
            )
        })
    };
    let past = next.past_use(now, None);
    assert_eq!(
        (sums(&past, false), sums(&past, true)),
        ((3, 45, 3_000), (3, 120, 3_000)),
        "{past:?}"
    );
    assert!(
        past.iter()
            .filter(|past| !past.is_taken_over)
            .all(|past| past.tokens == 15 * past.requests),
        "{past:?}"
    );
    let limited = Limited::begin(next);
    let (began, counts) = (limited.began(), limited.counts());
    let of_today = u64::try_from(
        earlier
            .iter()
            .filter(|at| calendar::day_of(**at) == calendar::day_of(now))
            .count(),
    )
    .unwrap();
    assert_eq!(
        (began.day.requests, began.day.tokens, began.month_usd.0),
        (of_today, of_today * 15, 3_000)
    );
    assert_eq!(
        (counts.day.requests, counts.day.tokens, counts.month_usd.0),
        (of_today * 2, of_today * 55, 6_000)
    );
}
