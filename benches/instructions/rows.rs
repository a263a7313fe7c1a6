//! Writes rows into a ledger, so that they can be counted.

use std::path::Path;
use std::time::Duration;

use dialects::usage::{Source, Usage};
use portcullis::base::calendar::{day_of, day_start, now_millis};
use portcullis::conf::config;
use portcullis::conf::price::Usd;
use portcullis::ledger::{Ledger, Row};

/// The rows of a transaction.
pub const PORTION: u64 = 512;

/// `rows FOLDER NUMBER`: writes so many rows, a multiple of the portion.
pub fn write(arguments: &[String]) -> Result<(), String> {
    let [folder, rows] = arguments else {
        return Err("rows FOLDER NUMBER".to_owned());
    };
    let rows: u64 = rows.parse().map_err(|_| "how many rows?")?;
    let path = Path::new(folder).join("ledger.sqlite");
    let config = config::Ledger {
        enabled: true,
        path,
        retention: Duration::from_secs(90 * 86_400),
    };
    // This thread must not run SQLite: the threads that do are counted, and this one adds the rows.
    let ledger = std::thread::spawn(move || Ledger::open(&config))
        .join()
        .map_err(|_| "the ledger does not open")?;
    let today = day_start(day_of(now_millis()));
    let callers = ["one", "two", "three", "four", "five"].map(row);
    // Each portion is written in one transaction, since it does not wait for more.
    for (number, row) in (0..rows).zip(callers.iter().cycle()) {
        ledger.write(once(row, today + number, number));
        while number % PORTION == PORTION - 1 && ledger.status().waiting > 0 {
            ledger.flush();
        }
    }
    let told = ledger.status();
    if told.rows == rows {
        Ok(())
    } else {
        Err(format!("not all is written: {told:?}"))
    }
}

/// Returns the row of an exchange. What differs between exchanges differs here, too.
fn once(row: &Row, at: u64, number: u64) -> Row {
    let usage = Usage {
        prompt: 48 + number % 101,
        completion: 34 + number % 97,
        ..row.usage
    };
    Row {
        admitted_at: at,
        request_id: format!("01a1fc21-16ef-7125-9927-{number:012x}"),
        usage,
        cost: Some(Usd(150 * usage.prompt + 600 * usage.completion)),
        total_ms: 1_200 + number % 89,
        first_byte_ms: Some(300 + number % 83),
        ..row.clone()
    }
}

/// Makes what a caller's rows have in common. They share its names, as they share the catalog's.
fn row(caller: &str) -> Row {
    Row {
        door: "chat".into(),
        caller: caller.into(),
        key: format!("{caller}/key").into(),
        model: "chat".into(),
        account: Some("openai".into()),
        upstream_model: Some("gpt-4o-mini".into()),
        usage: Usage {
            source: Source::Reported,
            ..Usage::default()
        },
        outcome: "ok",
        attempts: 1,
        status: 200,
        ..Row::default()
    }
}
