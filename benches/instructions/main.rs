//! Counts what the gateway does for one more request, or for one more chunk of a stream:
//! instructions, misses of the processor's caches, and allocations. The counts are the same on a
//! busy machine.
//!
//! `cargo bench --bench instructions [-- --gate | --accept] [NAME …]`. The gateway runs under
//! valgrind's callgrind, once with few and once with many exchanges over one connection. The
//! difference, divided, is the count. One thread plays the caller and the upstream, step by step,
//! so that no count depends on who is faster. Usually only the thread that serves callers counts.
//! It writes the bytes of spans, too; the thread that sends them works by batches of 512. The
//! ledger's thread works by time, so its row is counted apart, by the number of rows. "All threads"
//! is the sum of all other threads and of that row. No copy counts once for each byte: see
//! [`callgrind::counted`].
//!
//! Misses are those of simulated caches, the same on every machine, and the middle ones of three
//! runs. 32 callers ask at the same time, each on a connection of its own, so that what a request
//! touches has left the caches when the next one on its connection comes. Allocations, and their
//! bytes, are counted by the allocator of this program, which then runs the gateway by itself.
//!
//! `--gate` compares with `figures.txt` and fails if a count has grown by more than 2 %, misses by
//! more than 8 %, or what some threads do by time (all threads, allocations) by more than 4 %. It
//! also names what fell by as much. A request with a trace is compared with one without: it may
//! have a tenth more. The gate compares only figures from the same compiler, libc and processor:
//! others differ by more. `--accept` writes that file. Both need the profile of
//! `make bench-instructions`. The files of callgrind stay in `target/tmp/instructions`:
//! `callgrind_annotate --inclusive=yes FILE` says in which functions the instructions are.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::let_underscore_must_use,
    clippy::disallowed_methods,
    reason = "a benchmark may fail loudly; the lints guard what runs in production"
)]

mod callgrind;
mod cases;
mod gateway;
mod rows;
mod wire;

use std::alloc::System;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use cases::{ALL_THREADS, CASES, Case, LEDGER_ROW};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// The figures that were accepted last.
const FIGURES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../benches/instructions/figures.txt"
);
/// The most by which a count may grow, in thousandths.
const MAX_GROWTH: u64 = 20;
/// The same for misses of caches: two counts of one program differ by up to 4 %.
const MAX_GROWTH_OF_MISSES: u64 = 80;
/// The same for what some threads do by time: all threads, and allocations.
const MAX_GROWTH_BY_TIME: u64 = 40;

/// Counts what is allocated. The program's own allocator does not: it is another one, but it is
/// asked for the same.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Rows without an accepted figure. Each may have at most so many more than another row.
const RELATIVE: [(&str, &str, u64); 1] = [("plain request with a trace", "plain request", 12_000)];

type Figures = BTreeMap<String, u64>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let done = match arguments.first().map(String::as_str) {
        Some("rows") => rows::write(&arguments[1..]),
        Some("serve") => {
            std::thread::spawn(report_allocations);
            return portcullis_cli::run();
        }
        _ => measure(&arguments),
    };
    done.map_or_else(
        |why| {
            eprintln!("{why}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn measure(arguments: &[String]) -> Result<(), String> {
    let (options, names): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|word| word.starts_with("--"));
    if let Some(odd) = options
        .iter()
        .find(|option| !["--gate", "--accept"].contains(&option.as_str()))
    {
        return Err(format!(
            "{odd}: there are --gate, --accept, and names of cases"
        ));
    }
    let wants = |option: &str| options.iter().any(|known| *known == option);
    let Some(machine) = machine() else {
        println!("valgrind is not installed, so no instructions are counted");
        return if wants("--gate") || wants("--accept") {
            Err("install valgrind".to_owned())
        } else {
            Ok(())
        };
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("instructions");
    let _ = fs::remove_dir_all(&folder);
    let mut found = Figures::new();
    for case in CASES.iter().filter(|case| is_wanted(case, &names)) {
        found.extend(case.count(&folder)?);
    }
    let (of, known) = accepted();
    // The rest of all threads was counted without the ledger's.
    let row = found
        .get(LEDGER_ROW)
        .or_else(|| known.get(LEDGER_ROW))
        .copied();
    if let Some(all) = found.get_mut(ALL_THREADS) {
        *all += row.unwrap_or_default();
    }
    let mut dear = Vec::new();
    for (name, than, most) in RELATIVE {
        let Some(now) = found.remove(name) else {
            continue;
        };
        let Some(other) = found.get(than) else {
            return Err(format!("{name}: ask for \"{than}\", too"));
        };
        println!(
            "{name}: {now}, {} more than {than}",
            now.saturating_sub(*other)
        );
        if now > other + most {
            dear.push(name);
        }
    }
    if wants("--gate") && !dear.is_empty() {
        return Err(format!(
            "more than it may have of the other row: {}",
            dear.join(", ")
        ));
    }
    if wants("--accept") {
        let all: Figures = known.into_iter().chain(found).collect();
        let lines: String = all
            .iter()
            .map(|(name, count)| format!("{name} {count}\n"))
            .collect();
        return fs::write(FIGURES, format!("{machine}\n{lines}")).map_err(|e| e.to_string());
    }
    println!("{:<28} {:>12} {:>12}", "of one", "accepted", "now");
    for (name, now) in &found {
        let old = known.get(name).copied().unwrap_or_default();
        let share = (*now as f64 / old as f64 - 1.0) * 100.0;
        println!("{name:<28} {old:>12} {now:>12} {share:>+8.2}%");
    }
    if of != machine {
        println!("\nNot compared: these are figures of {machine}; those of {of} were accepted.");
        return Ok(());
    }
    let fallen: Vec<&str> = found
        .iter()
        .filter(|(name, now)| {
            known
                .get(*name)
                .is_some_and(|old| has_grown(name, **now, *old))
        })
        .map(|(name, _)| name.as_str())
        .collect();
    if !fallen.is_empty() {
        println!(
            "\nFell: {}. `make bench-instructions ACCEPT=1` accepts the lower counts; until then they may grow \
             back unseen.",
            fallen.join(", ")
        );
    }
    let grown: Vec<&str> = found
        .iter()
        .filter(|(name, now)| {
            known
                .get(*name)
                .is_none_or(|old| has_grown(name, *old, **now))
        })
        .map(|(name, _)| name.as_str())
        .collect();
    if wants("--gate") && !grown.is_empty() {
        return Err(format!(
            "\nMore than {} % (misses: {} %, all threads and allocations: {} %) above what was accepted: {}. Find out why with the \
             files in {}. If it must be so, `make bench-instructions ACCEPT=1` accepts it.",
            MAX_GROWTH / 10,
            MAX_GROWTH_OF_MISSES / 10,
            MAX_GROWTH_BY_TIME / 10,
            grown.join(", "),
            folder.display()
        ));
    }
    Ok(())
}

/// Returns whether a case was asked for, by the name of any of its figures, or by none.
fn is_wanted(case: &Case, names: &[&String]) -> bool {
    let figures = case.names();
    names.is_empty() || names.iter().any(|name| figures.contains(&name.as_str()))
}

/// Returns whether a count has grown by more than it may.
fn has_grown(name: &str, old: u64, now: u64) -> bool {
    let bound = match name {
        _ if name.contains(" misses ") => MAX_GROWTH_OF_MISSES,
        ALL_THREADS => MAX_GROWTH_BY_TIME,
        _ if name.starts_with("allocations ") || name.starts_with("bytes ") => MAX_GROWTH_BY_TIME,
        _ => MAX_GROWTH,
    };
    now > old + old * bound / 1_000
}

/// Writes the counts of this process, which is a gateway, whenever a line comes.
fn report_allocations() {
    for _ in std::io::stdin().lines() {
        let counts = ALLOCATOR.stats();
        let allocations = counts.allocations + counts.reallocations;
        println!("{allocations} {}", counts.bytes_allocated);
    }
}

/// Returns what the counts depend on besides the code. `None` if there is no valgrind.
fn machine() -> Option<String> {
    let said = |program: &str, argument: &str| {
        let output = Command::new(program).arg(argument).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        Some(text.lines().next()?.trim().to_owned())
    };
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let vectors = if processor.split_whitespace().any(|flag| flag == "avx2") {
        "avx2"
    } else {
        "no avx2"
    };
    let libc = said("ldd", "--version")?;
    let libc = libc.rsplit(' ').next()?;
    let compiler = said("rustc", "--version")?;
    Some(format!(
        "{}, {compiler}, libc {libc}, {} {vectors}",
        said("valgrind", "--version")?,
        std::env::consts::ARCH
    ))
}

/// Returns the machine whose figures were accepted, and the figures.
fn accepted() -> (String, Figures) {
    let text = fs::read_to_string(FIGURES).unwrap_or_default();
    let mut lines = text.lines();
    let machine = lines.next().unwrap_or_default().to_owned();
    let figures = lines
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, count)| (name.to_owned(), count.parse().unwrap_or_default()));
    (machine, figures.collect())
}
