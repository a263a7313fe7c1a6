//! The memory that a row keeps after a burst of large bodies.

use std::time::{Duration, Instant};

use tokio::time::{sleep, sleep_until};

use crate::kind::Kind;
use crate::process::Process;
use crate::report::Report;
use crate::row::Row;
use crate::subject::Subject;
use crate::{Bench, Plan};

/// The burst: so many callers at once, with bodies of so many bytes.
const CALLERS: usize = 32;
const BYTES: usize = 1 << 20;
/// The time after which the memory is read.
const WAIT: Duration = Duration::from_secs(60);
/// The same in a quick run, which is too short for an allocator to give memory back.
const QUICK_WAIT: Duration = Duration::from_secs(3);

pub async fn measure_bursts(
    rows: &[Row],
    bench: &Bench<'_>,
    report: &mut Report,
) -> Result<(), String> {
    let plan = bench.plan;
    let wait = if plan.quick { QUICK_WAIT } else { WAIT };
    let mut bursts = Vec::new();
    for row in rows.iter().filter(|row| **row != Row::Direct) {
        eprintln!("a burst of large bodies: {}", row.name());
        if let Some(subject) = bench.start(*row, &plan.world(&[])).await? {
            burst(&subject, plan, report).await;
            bursts.push((subject, Instant::now() + wait));
        }
    }
    let what = format!("{} s after a burst of bodies of 1 MiB", wait.as_secs());
    for (subject, when) in &bursts {
        sleep_until((*when).into()).await;
        let Some(process) = &subject.process else {
            continue;
        };
        report.add_figure(
            &format!("{what}: RSS, MiB"),
            subject.row,
            mib(process.rss()),
        );
        match process.group_memory() {
            Some(memory) => report.add_figure(
                &format!("{what}: in its control group, MiB"),
                subject.row,
                mib(memory),
            ),
            None => report.note_no_group(),
        }
    }
    Ok(())
}

async fn burst(subject: &Subject, plan: &Plan, report: &mut Report) {
    subject.warm_up(plan).await;
    sleep(Duration::from_millis(300)).await;
    let process = subject.process.as_ref();
    let before = process.map_or(0, Process::rss);
    process.inspect(|process| process.forget_peak());
    let outcome = subject
        .load("plain", Kind::Plain, CALLERS, BYTES)
        .run(plan.time)
        .await;
    report.count_errors(outcome.complain(&format!("{}: large bodies", subject.row.name())));
    let what = "a burst of bodies of 1 MiB, 32 callers";
    report.add_figure(
        &format!("before {what}: RSS, MiB"),
        subject.row,
        mib(before),
    );
    report.add_figure(
        &format!("peak of {what}: RSS, MiB"),
        subject.row,
        mib(process.map_or(0, Process::peak)),
    );
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
