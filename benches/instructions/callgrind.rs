//! Runs a program under callgrind, and reads its counts.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The caches that are simulated: those of a core of a usual server, and its second level as the
/// last one. They are the same on every machine.
const CACHES: [&str; 4] = [
    "--cache-sim=yes",
    "--I1=32768,8,64",
    "--D1=49152,12,64",
    "--LL=1048576,16,64",
];

/// The counts of some threads.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub instructions: u64,
    /// Misses of the first level's data.
    pub d1: u64,
    /// Misses of the second level.
    pub l2: u64,
}

/// Returns a command that runs under callgrind, which writes its counts, by threads, into the
/// folder.
pub fn counted(folder: &Path, program: &Path, with_caches: bool) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--separate-threads=yes"]);
    if with_caches {
        command.args(CACHES);
    }
    command
        .arg(format!(
            "--callgrind-out-file={}/callgrind",
            folder.display()
        ))
        .arg(program);
    // `rep movsb` would count once for each byte, and not as one instruction. Without these, libc
    // copies by vectors. The program itself has such instructions, but not on a request's way.
    command.env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-ERMS,-FSRM");
    command
}

/// Returns the counts of the threads that have run this function.
pub fn total(folder: &Path, function: &str) -> Result<Counts, String> {
    sum(folder, function, true)
}

/// Returns the counts of the threads that have not run this function.
pub fn total_without(folder: &Path, function: &str) -> Result<Counts, String> {
    sum(folder, function, false)
}

fn sum(folder: &Path, function: &str, has_run: bool) -> Result<Counts, String> {
    let files = fs::read_dir(folder).map_err(|e| e.to_string())?.flatten();
    let is_counts = |name: &str| name.starts_with("callgrind");
    let mut all = Counts::default();
    for file in files.filter(|file| is_counts(&file.file_name().to_string_lossy())) {
        let path = file.path();
        let text = fs::read_to_string(&path).map_err(|e| e.to_string())?;
        if text.contains(function) != has_run {
            continue;
        }
        let one = read(&text).map_err(|why| format!("{}: {why}", path.display()))?;
        all.instructions += one.instructions;
        all.d1 += one.d1;
        all.l2 += one.l2;
    }
    if all.instructions == 0 {
        return Err(format!(
            "{}: no thread has run {function}",
            folder.display()
        ));
    }
    Ok(all)
}

/// Reads the counts of one thread.
fn read(text: &str) -> Result<Counts, String> {
    let line = |start| text.lines().find_map(|line: &str| line.strip_prefix(start));
    let events: Vec<&str> = line("events: ").unwrap_or("Ir").split(' ').collect();
    let totals = line("totals: ").unwrap_or("0").split_whitespace();
    let totals = totals.map(str::parse).collect::<Result<Vec<u64>, _>>();
    let totals = totals.map_err(|e| e.to_string())?;
    let all: Vec<(&str, u64)> = events.into_iter().zip(totals).collect();
    Ok(Counts {
        instructions: sum_events(&all, &["Ir"]),
        d1: sum_events(&all, &["D1mr", "D1mw"]),
        l2: sum_events(&all, &["ILmr", "DLmr", "DLmw"]),
    })
}

fn sum_events(all: &[(&str, u64)], wanted: &[&str]) -> u64 {
    let all = all.iter().filter(|event| wanted.contains(&event.0));
    all.map(|event| event.1).sum()
}
