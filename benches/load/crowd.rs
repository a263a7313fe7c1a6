//! A crowd is as many streams at once as one gateway should carry, each with an event a second.
//! This module opens it, and measures errors, memory, and how much longer an event is on its way.
//!
//! Every event has its number and the time at which the mock wrote it. So a caller sees if an event
//! is lost, doubled or out of order, and knows how long it was on its way. Only events that come
//! while all streams are open are measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::callers::{Load, Outcome};
use crate::kind::Kind;
use crate::more::{Memory, settle};
use crate::process::{self, Process};
use crate::report::{Report, quantile, show};
use crate::row::Row;
use crate::{Bench, Plan};

/// The time between two events of a stream.
const GAP: Duration = Duration::from_secs(1);
/// The time that all streams may take to end, beyond what they need.
const PATIENCE: Duration = Duration::from_secs(10);
/// The number of files that a process opens besides streams.
const OTHER_FILES: usize = 200;

/// The size of a crowd: the number of streams, and times in whole gaps.
struct Size {
    streams: usize,
    /// The time in which all streams begin, evenly spread.
    ramp: usize,
    /// The time by which the last stream may be late.
    late: usize,
    measured: usize,
}

impl Size {
    fn of(plan: &Plan) -> Size {
        let full = Size {
            streams: 10_000,
            ramp: 5,
            late: 5,
            measured: 15,
        };
        let wanted = if plan.quick {
            Size {
                streams: 500,
                ramp: 1,
                late: 2,
                measured: 3,
            }
        } else {
            full
        };
        // The gateway has two connections for each stream.
        Size {
            streams: wanted
                .streams
                .min(process::open_files().saturating_sub(OTHER_FILES) / 2),
            ..wanted
        }
    }

    /// Returns the number of events of a stream. The first stream must still be open at the end of
    /// what is measured.
    fn events(&self) -> usize {
        self.ramp + self.late + self.measured + 1
    }
}

/// The state that the streams of a crowd share.
#[derive(Default)]
struct Crowd {
    /// The number of streams between their first event and their end.
    open: AtomicUsize,
    measuring: AtomicBool,
}

/// A stream that is open; it is counted until this is dropped.
struct Open<'a>(&'a Crowd);

impl Open<'_> {
    fn new(crowd: &Crowd) -> Open<'_> {
        crowd.open.fetch_add(1, Ordering::Relaxed);
        Open(crowd)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The memory and processor time that the gateway used while all streams were open.
struct Used {
    memory: Memory,
    cpu: Duration,
}

/// Measures the streams to the mock itself, and through the gateway; if there is time, also through
/// the other proxies that are set up for so many.
pub async fn measure_crowd(
    rows: &[Row],
    bench: &Bench<'_>,
    report: &mut Report,
) -> Result<(), String> {
    let plan = bench.plan;
    let size = Size::of(plan);
    let what = format!(
        "{} streams, an event a second",
        show(Some(size.streams as f64), 0)
    );
    let mut direct = None;
    let mut measured = vec![Row::Direct, Row::Portcullis];
    let more = [Row::Bare, Row::Lua].into_iter();
    measured.extend(more.filter(|row| !plan.quick && rows.contains(row)));
    for row in measured {
        eprintln!("{what}: {}", row.name());
        let model = format!("stamped-{}-{}", size.events(), GAP.as_millis());
        let world = plan.world(std::slice::from_ref(&model));
        let Some(subject) = bench.start(row, &world).await? else {
            continue;
        };
        subject.warm_up(plan).await;
        sleep(settle(plan)).await;
        let load = subject.load(
            &model,
            Kind::Stream {
                chunks: size.events(),
                gap: GAP,
            },
            size.streams,
            0,
        );
        let process = subject.process.as_ref();
        let before = process.map(Memory::read);

        let crowd = Arc::new(Crowd::default());
        let (mut outcome, used) =
            tokio::join!(all(&load, &size, &crowd), watch(process, &size, &crowd));
        // Otherwise the figures would be those of a few events.
        let due = size.streams * (size.measured - 1);
        if used.is_ok() && outcome.took.len() < due {
            outcome.failed(format!(
                "{} events where at least {due} are due",
                outcome.took.len()
            ));
        }
        let errors = outcome.complain(&format!("{what}: {}", row.name()));
        report.count_errors(errors);
        report.add_figure(&format!("{what}: errors"), row, errors as f64);
        let used = used?;
        outcome.took.sort_unstable();
        let way = |part| quantile(&outcome.took, part).as_secs_f64() * 1e3;
        report.add_figure(&format!("{what}: an event's way, p50, ms"), row, way(0.5));
        report.add_figure(&format!("{what}: an event's way, p99, ms"), row, way(0.99));
        match (before, direct) {
            (Some(before), Some(direct)) => {
                report.add_figure(&format!("{what}: added p99, ms"), row, way(0.99) - direct);
                report.add_figure(
                    &format!("{what}: CPU each, µs"),
                    row,
                    used.cpu.as_secs_f64() * 1e6 / outcome.took.len().max(1) as f64,
                );
                used.memory
                    .report(&before, size.streams, &what, row, report);
            }
            _ => direct = Some(way(0.99)),
        }
    }
    Ok(())
}

/// Runs all streams to their end.
async fn all(load: &Load, size: &Size, crowd: &Arc<Crowd>) -> Outcome {
    let mut streams = JoinSet::new();
    for index in 0..size.streams {
        // The delay is spread over whole gaps, so that events are as evenly spread as the
        // beginnings.
        let delay = GAP.mul_f64(size.ramp as f64 * index as f64 / size.streams as f64);
        let (load, crowd) = (load.clone(), crowd.clone());
        let limit = GAP * size.events() as u32 + PATIENCE;
        streams.spawn(async move {
            sleep(delay).await;
            timeout(limit, one(&load, &crowd))
                .await
                .unwrap_or_else(|_| Err("no whole stream in time".to_owned()))
        });
    }
    let mut outcome = Outcome::default();
    while let Some(stream) = streams.join_next().await {
        match stream {
            Ok(Ok(ways)) => outcome.took.extend(ways),
            Ok(Err(why)) => outcome.failed(why),
            Err(why) => outcome.failed(why.to_string()),
        }
    }
    outcome
}

/// Runs one stream, and returns the times that its measured events were on their way.
async fn one(load: &Load, crowd: &Crowd) -> Result<Vec<Duration>, String> {
    let Kind::Stream { chunks, .. } = load.kind else {
        return Err("not a stream".to_owned());
    };
    let mut wire = load.connect().await?;
    load.begin(&mut wire).await?;
    let (mut ways, mut unread, mut next, mut done, mut open) =
        (Vec::new(), Vec::new(), 0, false, None);
    loop {
        let chunk = wire
            .chunk()
            .await
            .map_err(|e| format!("in a stream: {e}"))?;
        let now = now();
        if chunk.is_empty() {
            break;
        }
        unread.extend_from_slice(chunk);
        while let Some(end) = unread.windows(2).position(|two| two == b"\n\n") {
            let event: Vec<u8> = unread.drain(..end + 2).collect();
            if event == b"data: [DONE]\n\n" {
                done = true;
                drop(open.take());
                continue;
            }
            let Some((number, written)) = read_stamp(&event) else {
                continue;
            };
            if number != next {
                return Err(format!("event {number} where {next} is due"));
            }
            next += 1;
            open.get_or_insert_with(|| Open::new(crowd));
            let way = now.checked_sub(written).ok_or("the clock was set back")?;
            if crowd.measuring.load(Ordering::Relaxed) {
                ways.push(way);
            }
        }
    }
    if next == chunks && done && unread.is_empty() {
        Ok(ways)
    } else {
        Err(format!("a stream of {next} events that is not whole"))
    }
}

/// Starts the measuring when all streams are open, and stops it.
async fn watch(process: Option<&Process>, size: &Size, crowd: &Crowd) -> Result<Used, String> {
    let all_open = || {
        let open = crowd.open.load(Ordering::Relaxed);
        if open == size.streams {
            Ok(())
        } else {
            Err(format!(
                "{open} of {} streams were open at once",
                size.streams
            ))
        }
    };
    let start = Instant::now();
    while let Err(why) = all_open() {
        if start.elapsed() > GAP * (size.ramp + size.late) as u32 {
            return Err(why);
        }
        sleep(Duration::from_millis(10)).await;
    }
    let cpu = || process.map_or(Duration::ZERO, Process::cpu);
    let began = cpu();
    crowd.measuring.store(true, Ordering::Relaxed);
    sleep(GAP * size.measured as u32).await;
    crowd.measuring.store(false, Ordering::Relaxed);
    let used = Used {
        memory: process.map_or_else(Memory::default, Memory::read),
        cpu: cpu() - began,
    };
    all_open().map(|()| used)
}

/// Writes the text of the event of this number, with the present time: `@7 1790000000123456`.
pub fn stamp(number: usize) -> String {
    format!("@{number} {}", now().as_micros())
}

fn read_stamp(event: &[u8]) -> Option<(usize, Duration)> {
    let (_, rest) = std::str::from_utf8(event)
        .ok()?
        .split_once(r#""content":"@"#)?;
    let (number, written) = rest.split_once('"')?.0.split_once(' ')?;
    Some((
        number.parse().ok()?,
        Duration::from_micros(written.parse().ok()?),
    ))
}

/// Returns the time of the clock that two processes share.
fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
