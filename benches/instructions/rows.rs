//! Writes rows into a ledger, so that they can be counted.

use std::path::Path;
use std::time::Duration;

use dialects::usage::{Source, Usage};
use portcullis::base::calendar::{day_of, now, start_of};
use portcullis::conf::config;
use portcullis::conf::price::Usd;
use portcullis::ledger::{Ledger, Row};

/// The rows of a transaction.
pub const PORTION: u64 = 512;

/// `rows FOLDER NUMBER`: writes so many rows, a multiple of the portion.
pub fn write(arguments: &[String]) -> Result<(), String> {
    let [folder, rows] = arguments else { return Err("rows FOLDER NUMBER".to_owned()) };
    let rows: u64 = rows.parse().map_err(|_| "how many rows?")?;
    let path = Path::new(folder).join("ledger.sqlite");
    let ledger = Ledger::open(&config::Ledger { enabled: true, path, retention: Duration::from_secs(90 * 86_400) });
    let today = start_of(day_of(now()));
    // Each portion is written in one transaction, since it does not wait for more.
    for number in 0..rows {
        ledger.write(row(today, number));
        while number % PORTION == PORTION - 1 && ledger.status().waiting > 0 {
            ledger.flush();
        }
    }
    let told = ledger.status();
    if told.rows == rows { Ok(()) } else { Err(format!("not all is written: {told:?}")) }
}

fn row(today: u64, number: u64) -> Row {
    Row {
        at: today + number,
        request_id: format!("01a1fc21-16ef-7125-9927-{number:012x}"),
        door: "chat".into(),
        caller: "free".into(),
        key: "free/one".into(),
        model: "chat".into(),
        account: Some("openai".into()),
        upstream_model: Some("gpt-4o-mini".into()),
        usage: Usage { prompt: 48, completion: 34, source: Source::Reported, ..Usage::default() },
        cost: Some(Usd(27_600)),
        outcome: "ok",
        attempts: 1,
        status: 200,
        total_ms: 1_200,
        first_byte_ms: Some(300),
        ..Row::default()
    }
}
