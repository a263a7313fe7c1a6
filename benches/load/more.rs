//! Measures more than throughput: the time to a stream's first event, the cost of an idle stream,
//! and the effect of a large catalog.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::callers::Outcome;
use crate::commands::write;
use crate::kind::Kind;
use crate::mock;
use crate::process::Process;
use crate::report::{Report, quantile};
use crate::row::Row;
use crate::subject::{KEY_VARIABLE, Subject, program};
use crate::wire::Wire;
use crate::{Bench, Plan};

/// The number of streams that are held open.
const HELD: usize = 1000;
const LARGE: [usize; 3] = [1_000, 10_000, 100_000];
/// The time in which a large catalog must be live.
const PATIENCE: Duration = Duration::from_secs(60);

/// The memory that a process holds, in bytes.
#[derive(Default)]
pub struct Memory {
    rss: u64,
    /// Its control group's: with the kernel's side of its sockets.
    group: Option<u64>,
}

impl Memory {
    pub fn read(process: &Process) -> Memory {
        Memory {
            rss: process.rss(),
            group: process.group_memory(),
        }
    }

    /// Reports what a stream took since `before`, and how many there is room for.
    pub fn report(&self, before: &Memory, streams: usize, of: &str, row: Row, to: &mut Report) {
        let group = self.group.zip(before.group);
        let rss = Some((self.rss, before.rss));
        if group.is_none() {
            to.note_no_group();
        }
        for (name, pair) in [("RSS", rss), ("with its sockets", group)] {
            let Some((now, before)) = pair else { continue };
            let each = now.saturating_sub(before) as f64 / streams as f64;
            to.add_figure(
                &format!("{of}: memory of each, {name}, KiB"),
                row,
                each / 1024.0,
            );
            let fit = f64::from(1 << 30) / each.max(1.0);
            to.add_figure(&format!("{of}: streams per GiB, {name}"), row, fit.round());
        }
    }
}

/// Measures the time to a stream's first event, and the memory that a thousand idle streams hold.
pub async fn measure_idle_streams(
    subject: &Subject,
    plan: &Plan,
    report: &mut Report,
) -> Result<(), String> {
    // The stream is paced. Otherwise mock and gateway fill both of two cores, and the caller waits
    // for one of them.
    let kind = Kind::Stream {
        chunks: 5,
        gap: Duration::from_millis(2),
    };
    let load = subject.load("stream-5-2", kind, 1, 0);
    if subject.row.is_other()
        && let Err(why) = load.ask_once().await
    {
        eprintln!("first event: {} is left out: {why}", subject.row.name());
        return Ok(());
    }
    let mut outcome = load.run(plan.time / 3).await;
    outcome.first.sort_unstable();
    report.count_errors(outcome.complain(&format!("{} first event", subject.row.name())));
    for (part, what) in [
        (0.5, "first event of a stream: p50, ms"),
        (0.9, "first event of a stream: p90, ms"),
    ] {
        report.add_figure(
            what,
            subject.row,
            quantile(&outcome.first, part).as_secs_f64() * 1e3,
        );
    }

    let Some(process) = &subject.process else {
        return Ok(());
    };
    let load = subject.load("held", kind, 1, 0);
    if subject.row.is_other()
        && let Err(why) = load.hold().await
    {
        let row = subject.row.name();
        eprintln!("idle open streams: {row} is left out: {why}");
        return Ok(());
    }
    let mut held = vec![load.hold().await?];
    // Memory that belongs to earlier load must not be given back, or taken, meanwhile.
    sleep(settle(plan)).await;
    let before = Memory::read(process);
    for _ in 0..HELD {
        held.push(load.hold().await?);
    }
    sleep(settle(plan)).await;
    let what = "1,000 idle open streams";
    Memory::read(process).report(&before, HELD, what, subject.row, report);
    Ok(())
}

pub fn settle(plan: &Plan) -> Duration {
    Duration::from_millis(if plan.quick { 300 } else { 1500 })
}

/// Measures the time in which a large catalog is read, and its effect on the traffic.
pub async fn measure_large_catalog(bench: &Bench<'_>, report: &mut Report) -> Result<(), String> {
    let plan = bench.plan;
    let started = bench.start(Row::Portcullis, &plan.world(&[])).await?;
    let subject = started.ok_or("the gateway did not start")?;
    subject.warm_up(plan).await;
    let conf = subject.folder.join("conf");
    let checked = subject.folder.join("checked");
    let large = checked.join("catalog.d/large.yaml");
    write(&large, &large_catalog())?;
    for file in ["server.yaml", "catalog.yaml"] {
        fs::copy(conf.join(file), checked.join(file)).map_err(|e| format!("{file}: {e}"))?;
    }
    let start = Instant::now();
    let mut command = Command::new(program());
    command
        .args(["check", "--conf"])
        .arg(&checked)
        .env(KEY_VARIABLE, mock::KEY)
        .stdin(Stdio::null());
    let check = command.output().map_err(|e| e.to_string())?;
    let took = start.elapsed();
    if !check.status.success() {
        return Err(format!(
            "the large catalog is refused: {}",
            String::from_utf8_lossy(&check.stderr)
        ));
    }
    report.add_figure(
        "`check` of 1,000 accounts, 10,000 models, 100,000 keys, s",
        Row::Portcullis,
        took.as_secs_f64(),
    );

    let load = subject.load("plain", Kind::Plain, 32, 0);
    let cpu = || {
        subject
            .process
            .as_ref()
            .map_or(Duration::ZERO, crate::process::Process::cpu)
    };
    let mut told = |when: &str, outcome: &mut Outcome, cpu: Duration| {
        outcome.took.sort_unstable();
        report.count_errors(outcome.complain(&format!("{when} the swap")));
        report.add_figure(
            &format!("plain-c32 {when} it is swapped in: p99, ms"),
            Row::Portcullis,
            quantile(&outcome.took, 0.99).as_secs_f64() * 1e3,
        );
        let each = cpu.as_secs_f64() / outcome.took.len().max(1) as f64;
        report.add_figure(
            &format!("plain-c32 {when} it is swapped in: CPU, µs"),
            Row::Portcullis,
            each * 1e6,
        );
    };
    let began = cpu();
    let mut before = load.run(plan.time).await;
    told("before", &mut before, cpu() - began);

    let began = cpu();
    let stop = Arc::new(AtomicBool::new(false));
    let swap = async {
        fs::rename(&large, conf.join("catalog.d/large.yaml"))
            .map_err(|e| format!("{}: {e}", large.display()))?;
        let live = live(&subject, &format!("large-{}", LARGE[1] - 1)).await;
        stop.store(true, Ordering::Relaxed);
        live
    };
    let (mut during, live) = tokio::join!(load.run_until(PATIENCE, &stop), swap);
    told("while", &mut during, cpu() - began);
    let live = live?;

    let began = cpu();
    let mut after = load.run(plan.time).await;
    told("after", &mut after, cpu() - began);
    report.add_figure(
        "from the file's change until it is live, s",
        Row::Portcullis,
        live.as_secs_f64(),
    );
    Ok(())
}

/// Returns the time until a model is served.
async fn live(subject: &Subject, model: &str) -> Result<Duration, String> {
    let start = Instant::now();
    let request = subject.look_up(model);
    let mut wire = Wire::connect(subject.address)
        .await
        .map_err(|e| e.to_string())?;
    while start.elapsed() < PATIENCE {
        wire.send(&request).await.map_err(|e| e.to_string())?;
        let head = wire
            .head()
            .await
            .map_err(|e| e.to_string())?
            .ok_or("closed instead of a model")?;
        wire.take(head.length.unwrap_or(0))
            .await
            .map_err(|e| e.to_string())?;
        if head.first.starts_with("HTTP/1.1 200 ") {
            return Ok(start.elapsed());
        }
        sleep(Duration::from_millis(20)).await;
    }
    Err(format!(
        "the large catalog is not live after {} s",
        PATIENCE.as_secs()
    ))
}

fn large_catalog() -> String {
    let [accounts, models, keys] = LARGE;
    let mut text = String::from("accounts:\n");
    for n in 0..accounts {
        let _ = writeln!(
            text,
            "  large-{n}: {{ dialect: openai, base_url: \"http://127.0.0.1:9/{n}/v1\", key: {{ env: {KEY_VARIABLE} }}, concurrency: 100 }}"
        );
    }
    text.push_str("models:\n");
    for n in 0..models {
        let (one, other) = (n % accounts, (n * 7 + 1) % accounts);
        let _ = writeln!(
            text,
            "  large-{n}:\n    targets: [{{ account: large-{one}, model: m-{n} }}, {{ account: large-{other} }}]"
        );
    }
    text.push_str("callers:\n");
    let callers = keys / 100;
    for caller in 0..callers {
        let _ = writeln!(
            text,
            "  large-{caller}:\n    models: [\"large-{}*\", bench-plain]\n    keys:",
            caller % 100
        );
        for n in 0..100 {
            // Nobody uses these keys, so no key needs to have such a hash.
            let number = ((caller * 100 + n + 1) as u128)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            let _ = writeln!(
                text,
                "      k{n}: {{ hash: \"sha256:{:032x}{:032x}\" }}",
                number,
                number ^ u128::MAX
            );
        }
    }
    text
}
