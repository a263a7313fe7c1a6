//! Measures how many rows a second the ledger writes to the disk, and how much memory it needs for
//! that. On two cores it must write at least 20,000 rows a second, with at most 200 MB.

use dialects::usage::{Source, Usage};
use portcullis::conf::config;
use portcullis::conf::price::Usd;
use portcullis::ledger::{Ledger, Row};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

const ROWS: u64 = 600_000;
/// The number of callers' keys.
const KEYS: u64 = 1_000;
/// The most rows that wait. No row is added while so many wait, so the sink decides the speed.
const WAITING: u64 = 100_000;

fn main() -> Result<(), String> {
    let folder =
        std::env::temp_dir().join(format!("portcullis-bench-ledger-{}", std::process::id()));
    let path = folder.join("ledger.sqlite");
    let ledger = Ledger::open(&config::Ledger {
        enabled: true,
        path: path.clone(),
        retention: Duration::from_secs(90 * 86_400),
    });
    let keys: Vec<Arc<str>> = (0..KEYS)
        .map(|n| format!("caller-{}/key-{n}", n / 10).into())
        .collect();
    let callers: Vec<Arc<str>> = (0..KEYS)
        .map(|n| format!("caller-{}", n / 10).into())
        .collect();
    let (model, account): (Arc<str>, Arc<str>) = ("gpt-4o-mini".into(), "openai-main".into());
    let since_1970 = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_err(|e| e.to_string())?;
    let at = u64::try_from(since_1970.as_millis()).map_err(|e| e.to_string())?;

    let start = Instant::now();
    let mut adding = Duration::ZERO;
    for n in 0..ROWS {
        let pick = usize::try_from(n * 7_919 % KEYS).map_err(|e| e.to_string())?;
        let row = Row {
            admitted_at: at + n / 100,
            request_id: format!("01a1fc21-16ef-7125-9927-{n:012x}"),
            door: "chat".into(),
            caller: callers.get(pick).cloned().ok_or("a caller")?,
            key: keys.get(pick).cloned().ok_or("a key")?,
            model: model.clone(),
            account: Some(account.clone()),
            upstream_model: Some(model.clone()),
            usage: Usage {
                prompt: 900 + n % 100,
                completion: 250,
                cached: 512,
                cache_write: 0,
                reasoning: 0,
                source: Source::Reported,
                ..Usage::default()
            },
            cost: Some(Usd(285_000 + n)),
            unused_tokens: 0,
            unused_cost: None,
            outcome: if n % 50 == 0 { "client_left" } else { "ok" },
            attempts: 1,
            stream: n % 2 == 0,
            status: 200,
            total_ms: 1_200,
            first_byte_ms: Some(300),
            run: None,
        };
        let before = Instant::now();
        ledger.write(row);
        adding += before.elapsed();
        if n.is_multiple_of(1_000) {
            while ledger.status().waiting > WAITING {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
    }
    while ledger.status().waiting > 0 {
        ledger.flush();
    }
    let took = start.elapsed();
    let told = ledger.status();
    if (told.rows, told.dropped) != (ROWS, 0) {
        return Err(format!("not all is written: {told:?}"));
    }
    let status = std::fs::read_to_string("/proc/self/status").map_err(|e| e.to_string())?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap_or("unknown")
        .trim();
    let size = std::fs::metadata(&path).map_err(|e| e.to_string())?.len();
    println!(
        "{ROWS} rows committed in {took:.2?}: {:.0} rows/s, {} ns a row in `write`",
        ROWS as f64 / took.as_secs_f64(),
        adding.as_nanos() / u128::from(ROWS)
    );
    println!(
        "peak memory {peak}, {} bytes a row in the file",
        size / ROWS
    );
    let before = Instant::now();
    let past = ledger.past_use(at + ROWS / 100, None);
    println!("past: {} entries in {:.2?}", past.len(), before.elapsed());
    drop(ledger);
    std::fs::remove_dir_all(folder).map_err(|e| e.to_string())
}
