//! What limits begin with, and questions meanwhile.

use super::*;
use crate::catalog::resolve::resolve_catalog;
use crate::limits::{Ask, Counts, KeyScopes, Spent, take_reservation};

/// A ledger, and one key's scope of requests by day, which began with what the ledger knew.
pub(super) struct Limited {
    pub(super) ledger: Ledger,
    catalog: crate::catalog::Catalog,
    registry: Arc<Registry>,
    scopes: Vec<KeyScopes>,
}

impl Limited {
    pub(super) fn begin(ledger: Ledger) -> Limited {
        let text = format!(
            "accounts: {{a: {{dialect: demo}}}}\nmodels: {{m: {{targets: [{{account: a}}]}}}}\n\
             callers: {{acme: {{keys: {{prod: {{hash: 'sha256:{}', limits: {{requests_per_day: 1000}}}}}}}}}}\n",
            "1".repeat(64)
        );
        let catalog = resolve_catalog(&[("catalog.yaml".to_owned(), text)], &mut |_| {
            unreachable!("it names nothing")
        })
        .unwrap();
        let registry = Arc::new(Registry::shared(Arc::default()));
        let now = calendar::now_millis();
        let scopes = registry.adopt(&catalog, &mut || ledger.past_use(now, Some(&registry)));
        Limited {
            ledger,
            catalog,
            registry,
            scopes,
        }
    }

    /// What its scope began with, without what was cut.
    pub(super) fn began(&self) -> Counts {
        self.registry.scopes()[0].began()
    }

    pub(super) fn counts(&self) -> Counts {
        self.registry.scopes()[0].own_counts(calendar::now_millis())
    }

    /// As the gateway does it: counted, settled, written.
    pub(super) fn exchange(&self) {
        let (key, now) = (self.catalog.keys().next().unwrap(), calendar::now_millis());
        let held = take_reservation(
            &self.scopes[key.index].bounds(key, 0),
            Ask::exact(15, Usd(0)),
            now,
            1,
        )
        .unwrap();
        held.settle(
            Spent {
                tokens: 15,
                usd: Usd(1_000),
            },
            now,
        );
        self.ledger.write(row(now));
    }
}

fn with_rows(folder: &Folder, rows: u64) {
    let ledger = folder.open();
    (0..rows).for_each(|_| ledger.write(row(calendar::now_millis())));
    drop(ledger);
    eventually("all is in the file itself", || {
        folder
            .read()
            .pragma_update(None, "journal_mode", "DELETE")
            .is_ok()
    });
}

#[test]
fn what_the_start_missed_is_recalled_once() {
    let folder = Folder::new();
    with_rows(&folder, 40);
    let away = folder.path().join("away");
    std::fs::rename(folder.file(), &away).unwrap();
    put(&[b'x'; 5_000])(&folder.file());
    let limited = Limited::begin(folder.open());
    (0..3).for_each(|_| limited.exchange());
    assert_eq!(limited.counts().day.requests, 3);
    std::fs::rename(&away, folder.file()).unwrap();
    eventually("it is written", || {
        limited.ledger.status().state == LedgerState::Ok && limited.ledger.status().waiting == 0
    });
    assert_eq!(
        (limited.counts().day.requests, limited.counts().day.tokens),
        (43, 43 * 15),
        "each once"
    );
    (0..2).for_each(|_| limited.exchange());
    limited.ledger.flush();
    assert_eq!(
        (limited.counts().day.requests, limited.ledger.status().rows),
        (45, 5)
    );
    limited
        .registry
        .seed_late(limited.ledger.past_use(calendar::now_millis(), None));
    assert_eq!(
        limited.counts().day.requests,
        45,
        "nobody waits for it any more"
    );
}

#[test]
fn a_late_disk_is_an_unreadable_one() {
    let folder = Folder::new();
    with_rows(&folder, 7);
    let (data, away) = (folder.path().join("data"), folder.path().join("away"));
    std::fs::rename(&data, &away).unwrap();
    std::fs::write(&data, "").unwrap();
    let limited = Limited::begin(folder.open());
    limited.exchange();
    assert_eq!(limited.counts().day.requests, 1);
    std::fs::remove_file(&data).unwrap();
    std::fs::rename(&away, &data).unwrap();
    eventually("it is written", || {
        limited.ledger.status().state == LedgerState::Ok && limited.ledger.status().waiting == 0
    });
    assert_eq!(limited.counts().day.requests, 8);
}

#[test]
fn questions_run_singly_and_the_past_waits_for_none() {
    let folder = Folder::new();
    let ledger = folder.open();
    ledger.write(row(NOW));
    let query = Query::new(&RawQuery::default(), NOW + 1).unwrap();
    let deadline = || Instant::now() + Duration::from_secs(8);
    let query_lock = ledger.sink.as_ref().unwrap().query_lock.lock();
    assert_eq!(
        ledger.answer(&query, deadline()),
        Err(report::Unanswered::Busy)
    );
    assert_eq!(ledger.past_use(NOW, None).len(), 1);
    drop(query_lock);
    assert!(
        ledger
            .answer(&query, deadline())
            .unwrap()
            .unwrap()
            .json()
            .contains("\"requests\": 1,")
    );
}

#[test]
fn an_answer_has_so_many_lines_at_most() {
    let folder = Folder::new();
    let ledger = folder.open();
    (0..9).for_each(|n| {
        ledger.write(Row {
            model: format!("m{}", n % 3).into(),
            ..row(NOW)
        })
    });
    ledger.flush();
    let query = Query::new(&RawQuery::default(), NOW + 1).unwrap();
    let bounds = |lines| {
        Some(report::AnswerBounds {
            deadline: Instant::now() + Duration::from_secs(60),
            lines,
        })
    };
    assert!(
        answer_query(&folder.file(), &query, bounds(3))
            .unwrap()
            .unwrap()
            .json()
            .contains("\"requests\": 9,")
    );
    let why = answer_query(&folder.file(), &query, bounds(2)).unwrap_err();
    assert_eq!(why, report::Unanswered::TooMuch(2));
    assert_eq!(
        why.to_string(),
        "the answer has more than 2 lines: ask for fewer groups or a shorter time"
    );
}
