//! Counts the instructions that the gateway executes for one more request, or for one more chunk of
//! a stream. The counts are the same on a busy machine.
//!
//! `cargo bench --bench instructions [-- --gate | --accept] [NAME …]`. The gateway runs under
//! valgrind's callgrind, once with few and once with many exchanges over one connection. The
//! difference, divided, is the count. One thread plays the caller and the upstream, step by step,
//! so that no count depends on who is faster. Only the thread that serves callers counts. It writes
//! the bytes of spans, too; the thread that sends them works by batches of 512. The ledger's thread
//! works by time, so its row is counted apart, by the number of rows.
//!
//! `--gate` compares with `figures.txt` and fails if a count has grown by more than 2 %. A request
//! with a trace is compared with one without: it may have a tenth more. The gate
//! compares only figures from the same compiler, libc and processor: others differ by more.
//! `--accept` writes that file. Both need the profile of `make bench-instructions`. The files of
//! callgrind stay in `target/tmp/instructions`: `callgrind_annotate --inclusive=yes FILE` says in
//! which functions the instructions are.

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

mod cases;
mod gateway;
mod rows;
mod wire;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use cases::CASES;

/// The figures that were accepted last.
const FIGURES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../benches/instructions/figures.txt"
);
/// The most by which a count may grow, in thousandths.
const MOST: u64 = 20;

/// Rows without an accepted figure. Each may have at most so many hundredths of another row.
const RELATIVE: [(&str, &str, u64); 1] = [("plain request with a trace", "plain request", 110)];

type Figures = BTreeMap<String, u64>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let done = match arguments.first().map(String::as_str) {
        Some("rows") => rows::write(&arguments[1..]),
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
    for case in CASES
        .iter()
        .filter(|case| names.is_empty() || names.iter().any(|name| *name == case.name))
    {
        found.insert(case.name.to_owned(), case.count(&folder)?);
    }
    let (of, known) = accepted();
    let mut dear = Vec::new();
    for (name, than, most) in RELATIVE {
        let Some(now) = found.remove(name) else {
            continue;
        };
        let Some(other) = found.get(than) else {
            return Err(format!("{name}: ask for \"{than}\", too"));
        };
        println!(
            "{name}: {now}, {:.3} times {than}",
            now as f64 / *other as f64
        );
        if now * 100 > other * most {
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
    println!(
        "{:<24} {:>12} {:>12} {:>9}",
        "instructions of one", "accepted", "now", ""
    );
    for (name, now) in &found {
        let old = known.get(name).copied().unwrap_or_default();
        let share = (*now as f64 / old as f64 - 1.0) * 100.0;
        println!("{name:<24} {old:>12} {now:>12} {share:>+8.2}%");
    }
    if of != machine {
        println!("\nNot compared: these are figures of {machine}; those of {of} were accepted.");
        return Ok(());
    }
    let grown = found.iter().filter(|(name, now)| {
        known
            .get(*name)
            .is_none_or(|old| **now > old + old * MOST / 1_000)
    });
    let grown: Vec<&str> = grown.map(|(name, _)| name.as_str()).collect();
    if wants("--gate") && !grown.is_empty() {
        return Err(format!(
            "\nMore than {} % above what was accepted: {}. Find out why with the files in {}. If it must be so, \
             `make bench-instructions ACCEPT=1` accepts it.",
            MOST / 10,
            grown.join(", "),
            folder.display()
        ));
    }
    Ok(())
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

/// Returns a command that runs under callgrind, which writes its counts, by threads, into the
/// folder.
pub fn counted(folder: &Path, program: &Path) -> Result<Command, String> {
    fs::create_dir_all(folder).map_err(|e| e.to_string())?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--separate-threads=yes"]);
    command
        .arg(format!(
            "--callgrind-out-file={}/callgrind",
            folder.display()
        ))
        .arg(program);
    // Without these, libc copies with one instruction that counts once for each byte.
    command.env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-ERMS,-FSRM");
    Ok(command)
}

/// Returns the instructions of the threads that have run this function.
pub fn total(folder: &Path, function: &str) -> Result<u64, String> {
    let files = fs::read_dir(folder)
        .map_err(|e| e.to_string())?
        .flatten()
        .map(|entry| entry.path());
    let is_counts = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("callgrind"))
    };
    let mut all = 0;
    for file in files.filter(is_counts) {
        let text = fs::read_to_string(&file).map_err(|e| e.to_string())?;
        if text.contains(function) {
            let totals = text
                .lines()
                .find_map(|line| line.strip_prefix("totals: "))
                .unwrap_or("0");
            all += totals
                .trim()
                .parse::<u64>()
                .map_err(|e| format!("{}: {e}", file.display()))?;
        }
    }
    if all == 0 {
        Err(format!(
            "{}: no thread has run {function}",
            folder.display()
        ))
    } else {
        Ok(all)
    }
}
