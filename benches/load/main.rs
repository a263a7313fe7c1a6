//! The load benchmark runs the gateway as a process, between a fast mock upstream and callers.
//! Beside it run a bare proxy on Pingora, and what is installed of nginx with Lua and of the
//! gateways that `setup.sh` installs.
//!
//! `cargo bench --bench load -- [--quick] [--others] [--rounds N] [--seconds S] [--workers N]
//! [WORD …]`. A word selects the scenarios whose names contain it; `frontier`, `more`, `burst` and
//! `crowd` select the modules of these names. With `--quick` there are no gateways of others,
//! unless `--others` asks for them. `SERVED_PROGRAM=PATH`, a whole path, measures a gateway that is
//! built already.
//!
//! Trust the ratios of CPU most: callers, gateway and mock share the cores, so rates and latencies
//! depend on all three, and the machine's speed changes from one minute to the next. So in each
//! round all rows are measured in turn, scenario by scenario, and a ratio is of one round.
//! Everything is on 127.0.0.1. Every answer is checked; a wrong one ends the benchmark with an exit
//! code other than 0. All processes that it starts end with it.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::wildcard_enum_match_arm,
    clippy::let_underscore_must_use,
    clippy::large_futures,
    clippy::disallowed_methods,
    reason = "a benchmark may fail loudly; the lints guard what runs in production"
)]

mod bare;
mod burst;
mod callers;
mod cgroup;
mod commands;
mod crowd;
mod frontier;
mod kind;
mod mock;
mod more;
mod process;
mod report;
mod row;
mod scenario;
mod subject;
mod table;
mod usage;
mod wire;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use mock::Mock;
use process::Process;
use report::Report;
use row::Row;
use scenario::Scenario;
use subject::{Subject, World};

/// The extent of the measuring.
pub struct Plan {
    pub quick: bool,
    pub rounds: usize,
    /// The time of each scenario in each round.
    pub time: Duration,
    /// The number of threads that serve, in each proxy.
    pub workers: usize,
    /// How often a search halves the range of rates.
    pub halvings: usize,
    /// True if gateways of others are measured, too.
    pub others: bool,
    /// Parts of scenarios' names; empty = all scenarios.
    pub only: Vec<String>,
}

impl Plan {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Plan, String> {
        let (mut quick, mut others, mut rounds, mut seconds, mut workers, mut only) =
            (false, false, None, None, 2.0, Vec::new());
        while let Some(argument) = arguments.next() {
            let mut number = || {
                arguments
                    .next()
                    .and_then(|n| n.parse::<f64>().ok())
                    .filter(|n| *n > 0.0 && *n <= 600.0)
            };
            match argument.as_str() {
                // Cargo adds this one.
                "--bench" => {}
                "--quick" => quick = true,
                "--others" => others = true,
                "--rounds" => rounds = Some(number().ok_or("--rounds takes a number")? as usize),
                "--seconds" => seconds = Some(number().ok_or("--seconds takes a number")?),
                "--workers" => workers = number().ok_or("--workers takes a number")?,
                word if !word.starts_with('-') => only.push(argument),
                _ => {
                    return Err(format!(
                        "{argument}: there are --quick, --others, --rounds N, --seconds S, --workers N, and parts of scenarios' names"
                    ));
                }
            }
        }
        let (usual_rounds, usual_seconds) = if quick { (1, 0.2) } else { (5, 2.0) };
        let time = Duration::from_secs_f64(seconds.unwrap_or(usual_seconds));
        let rounds = rounds.unwrap_or(usual_rounds).max(1);
        Ok(Plan {
            quick,
            rounds,
            time,
            workers: (workers as usize).max(1),
            halvings: if quick { 3 } else { 6 },
            others: others || !quick,
            only,
        })
    }

    /// Returns what subjects are started with. They serve these models of the mock.
    fn world(&self, models: &[String]) -> World {
        World {
            wanted: models.to_vec(),
            workers: self.workers,
        }
    }

    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| name.contains(word))
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["mock", ref models @ ..] => return mock::run(models),
        ["spin"] => return process::spin(),
        ["bare", ref arguments @ ..] => return bare::run(arguments),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let done = process::raise_open_files()
        .and_then(|()| Plan::read(arguments.into_iter()))
        .and_then(|plan| {
            runtime.block_on(async {
                tokio::select! {
                    // Dropping the future ends everything that it has started.
                    done = run(&plan) => done,
                    name = interrupted() => Err(format!("ended by {name}")),
                }
            })
        });
    match done {
        Ok(report) => {
            print!("{report}");
            if report.errors() == 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

async fn interrupted() -> &'static str {
    let listen = |kind| signal(kind).expect("a signal handler");
    let (mut int, mut term, mut hup) = (
        listen(SignalKind::interrupt()),
        listen(SignalKind::terminate()),
        listen(SignalKind::hangup()),
    );
    tokio::select! {
        _ = int.recv() => "SIGINT",
        _ = term.recv() => "SIGTERM",
        _ = hup.recv() => "SIGHUP",
    }
}

/// What all measuring needs.
pub struct Bench<'a> {
    pub plan: &'a Plan,
    pub mock: &'a Mock,
    /// The folder for files.
    pub folder: &'a Path,
}

impl Bench<'_> {
    /// Starts a row. Returns `None` if it does not start here, which only the gateway and the bare
    /// proxy must: what others have installed may be set up in a way that is not known here.
    async fn start(&self, row: Row, world: &World) -> Result<Option<Subject>, String> {
        match Subject::start(row, self.mock, self.folder, world).await {
            Err(why) if row.is_other() || row == Row::Lua => {
                eprintln!("left out: {why}");
                Ok(None)
            }
            started => started.map(Some),
        }
    }
}

async fn run(plan: &Plan) -> Result<Report, String> {
    let folder = Folder::new()?;
    let scenarios = scenario::all(plan);
    let models: Vec<String> = scenarios
        .iter()
        .map(|scenario| scenario.model.clone())
        .collect();
    let world = plan.world(&models);
    let mock = mock::start(&folder.0, &world.models())?;
    let bench = Bench {
        plan,
        mock: &mock,
        folder: &folder.0,
    };
    let mut rows = Row::installed(plan);
    let mut report = Report::new(plan, &scenarios, &rows);
    for round in 1..=plan.rounds {
        eprintln!("round {round} of {}", plan.rounds);
        // All subjects run during the whole round, so that what is compared was measured in the
        // same seconds. Whoever is idle uses nothing.
        let mut subjects = Vec::new();
        for row in std::mem::take(&mut rows) {
            if let Some(subject) = bench.start(row, &world).await? {
                rows.push(row);
                subjects.push(subject);
            }
        }
        report.forget_unstarted(&rows);
        measure_round(round, &subjects, &scenarios, &bench, &mut report).await;
        drop(subjects);
        // Nobody is always the first, on a machine that was idle.
        rows.rotate_left(1);
        if plan.wants("more") {
            let measured = more::measure_large_catalog(&bench, &mut report).await;
            report.note("the large catalog", measured);
        }
    }
    // These are measured once, since they take their time.
    if plan.wants("burst") {
        let measured = burst::measure_bursts(&rows, &bench, &mut report).await;
        report.note("the burst", measured);
    }
    if plan.wants("crowd") {
        let measured = crowd::measure_crowd(&rows, &bench, &mut report).await;
        report.note("the crowd", measured);
    }
    Ok(report)
}

/// Measures what is measured in each round: all subjects in turn, scenario by scenario.
async fn measure_round(
    round: usize,
    subjects: &[Subject],
    scenarios: &[Scenario],
    bench: &Bench<'_>,
    report: &mut Report,
) {
    let plan = bench.plan;
    let idle: Vec<Option<u64>> = subjects
        .iter()
        .map(|subject| subject.process.as_ref().map(Process::rss))
        .collect();
    for subject in subjects {
        subject.warm_up(plan).await;
    }
    for scenario in scenarios {
        for (subject, idle) in subjects.iter().zip(&idle) {
            match scenario.measure(subject, bench, *idle).await {
                Ok(Some(figures)) => report.add(scenario, subject.row, round, figures),
                Ok(None) => {}
                Err(why) => eprintln!("{}: left out: {why}", scenario.name),
            }
        }
    }
    if plan.wants("frontier") {
        for subject in subjects {
            frontier::search_rates(subject, plan, report).await;
        }
    }
    if plan.wants("more") {
        for subject in subjects {
            let measured = more::measure_idle_streams(subject, plan, report).await;
            report.note(subject.row.name(), measured);
        }
    }
}

/// The folder for all files, which is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let path =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("load-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
