//! How far merging has come, how much it reads, and what reports read meanwhile.

use super::*;
use crate::ledger::book::Book;
use crate::ledger::columns::stored_integer;
use crate::ledger::merge::DETAILED_DAYS;
use rusqlite::params;

/// Returns the day before which sums are merged, today.
fn until() -> u64 {
    day_of(calendar::now_millis()) - DETAILED_DAYS
}

/// Makes a ledger with detailed sums of some days, and without rows.
fn with_sums(folder: &Folder, days: std::ops::Range<u64>, sums_of_a_day: u64) -> Book {
    let (mut book, _) = Book::open(&folder.file(), "x").unwrap();
    let transaction = book.transaction().unwrap();
    let mut insert = transaction
        .prepare(
            "INSERT INTO daily VALUES (?1, ?2, 'k', 'm', ?3, 'up', 'ok', 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)",
        )
        .unwrap();
    for day in days {
        for n in 0..sums_of_a_day {
            insert
                .execute(params![
                    stored_integer(day),
                    format!("caller-{n:06}"),
                    format!("account-{}", n % 5)
                ])
                .unwrap();
        }
    }
    drop(insert);
    transaction.commit().unwrap();
    book
}

/// Merges all there is, and returns the steps of SQLite's machine that it took.
fn merge_all(book: &mut Book, until: u64) -> u64 {
    let steps = Arc::new(AtomicU64::new(0));
    let counted = steps.clone();
    book.count_steps(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    while book.merge_days(until).unwrap() {}
    steps.load(Ordering::Relaxed)
}

fn detailed(folder: &Folder) -> i64 {
    let detailed = "SELECT count(*) FROM daily WHERE account <> '(merged)'";
    folder
        .read()
        .query_row(detailed, [], |row| row.get(0))
        .unwrap()
}

#[test]
fn twice_the_sums_take_twice_the_steps() {
    let until = until();
    for (days, sums_of_a_day) in [(20, 1_000), (1, 20_000)] {
        let [one, two] = [1, 2].map(|times| {
            let folder = Folder::new();
            let mut book = match days {
                1 => with_sums(&folder, until - 1..until, sums_of_a_day * times),
                days => with_sums(&folder, until - days * times..until, sums_of_a_day),
            };
            let steps = merge_all(&mut book, until);
            assert_eq!(detailed(&folder), 0);
            steps
        });
        assert!(
            two * 10 < one * 23,
            "{days} days: {one} steps, and {two} for twice the sums"
        );
    }
}

#[test]
fn a_start_continues_and_reads_late_sums_again() {
    let (folder, until) = (Folder::new(), until());
    drop(with_sums(&folder, until..until + 4, 600));
    let mut book = with_sums(&folder, until - 4..until, 600);
    assert!(book.merge_days(until).unwrap());
    drop(book);
    assert_eq!(detailed(&folder), 8 * 600 - 1_000);
    let mut book = Book::open(&folder.file(), "x").unwrap().0;
    let all = merge_all(&mut book, until);
    assert_eq!(detailed(&folder), 4 * 600);
    drop(book);
    let mut book = Book::open(&folder.file(), "x").unwrap().0;
    let nothing = merge_all(&mut book, until);
    assert!(
        nothing * 100 < all,
        "{nothing} steps where all is merged, {all} where it was not"
    );
    drop(book);
    // This one comes late: sums of its day are looked through again.
    let ledger = folder.open();
    ledger.write(Row {
        caller: "caller-000000".into(),
        ..row(day_start(until - 3))
    });
    ledger.flush();
    drop(ledger);
    let mut book = Book::open(&folder.file(), "x").unwrap().0;
    merge_all(&mut book, until);
    assert_eq!(detailed(&folder), 4 * 600);
}

#[test]
fn account_reports_read_sums_not_merged_yet() {
    let (folder, until) = (Folder::new(), until());
    let mut book = with_sums(&folder, until - 3..until, 600);
    assert!(book.merge_days(until).unwrap());
    // There are no rows, so what is reported by account comes from sums.
    let asked = RawQuery {
        by: Some("day,account"),
        since: Some("60d"),
        ..RawQuery::default()
    };
    let query = Query::new(&asked, day_start(until + DETAILED_DAYS)).unwrap();
    let report = answer_query(&folder.file(), &query, None)
        .unwrap()
        .unwrap()
        .csv();
    let accounts = report
        .lines()
        .skip(1)
        .filter(|line| line.contains(",account-"));
    assert_eq!(
        accounts
            .map(|line| line.split(',').nth(2).unwrap().parse::<u64>().unwrap())
            .sum::<u64>(),
        600,
        "{report}"
    );
}

#[test]
fn slow_questions_say_how_to_ask_for_less() {
    let (folder, until) = (Folder::new(), until());
    let mut book = with_sums(&folder, until - 3..until, 5);
    merge_all(&mut book, until);
    drop(book);
    let ledger = folder.open();
    (0..2_000).for_each(|n| ledger.write(row(day_start(until - 2) + n)));
    drop(ledger);
    let ask = |by: &str| {
        let asked = RawQuery {
            by: Some(by),
            since: Some("60d"),
            ..RawQuery::default()
        };
        let query = Query::new(&asked, day_start(until + DETAILED_DAYS)).unwrap();
        let bounds = AnswerBounds {
            deadline: Instant::now(),
            lines: 1_000,
        };
        answer_query(&folder.file(), &query, Some(bounds))
            .unwrap_err()
            .to_string()
    };
    let day = calendar::format_date(until);
    for by in ["account", "upstream_model,day", "outcome"] {
        let why = ask(by);
        assert!(
            why.contains(&format!(
                "single rows are read for days before {day}: ask for since={day}"
            )),
            "{why}"
        );
        assert!(!why.contains("whole days"), "{why}");
    }
    let why = ask("door");
    assert!(
        why.contains("by door, single rows are read: ask for a shorter time, or without door"),
        "{why}"
    );
}
