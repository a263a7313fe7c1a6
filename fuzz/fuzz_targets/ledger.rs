//! Reading the ledger gives an answer or an error, whatever its file holds. The input is the file;
//! its last bytes are also the question.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use portcullis::ledger::read;
use portcullis::ledger::report::{AnswerBounds, Query, answer_query};

/// The ledger's file, one for each process.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    std::env::temp_dir().join(format!(
        "portcullis-fuzz-ledger-{}.sqlite",
        std::process::id()
    ))
});
/// A time some time after the rows in the corpus.
const NOW: u64 = 1_795_000_000_000;

fuzz_target!(|input: &[u8]| {
    let question = input
        .get(input.len().saturating_sub(48)..)
        .unwrap_or_default();
    let asked = Query::from_url(&String::from_utf8_lossy(question), NOW);
    std::fs::write(&*FILE, input).expect("a file");
    let usual = [
        "",
        "by=caller,model&since=90d",
        "by=day,key,account,upstream_model,outcome&since=2026-01-01&until=2026-11-30",
    ];
    let usual = usual
        .iter()
        .map(|question| Query::from_url(question, NOW).expect("a good question"));
    for query in usual.chain(asked) {
        let bounds = AnswerBounds {
            deadline: Instant::now() + Duration::from_secs(2),
            lines: 1_000,
        };
        match answer_query(&FILE, &query, Some(bounds)) {
            Ok(answer) => assert!(answer.is_some(), "the file is there"),
            Err(why) => assert!(!why.to_string().is_empty()),
        }
    }
    drop(read::last_used(&FILE));
    for beside in ["", "-wal", "-shm", "-journal"] {
        // As a rule there is only the first.
        drop(std::fs::remove_file(format!("{}{beside}", FILE.display())));
    }
});
