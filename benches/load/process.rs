//! A process ends when its handle is dropped. This module starts processes, and reads what the
//! kernel reports about them.

use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::cgroup::Group;

/// The unit of processor time in `/proc`, on every Linux that this can run on.
const TICK: Duration = Duration::from_millis(10);
/// The time that a process has to end by itself.
const PATIENCE: Duration = Duration::from_secs(4);

/// A running process with its children. Dropping it ends all of them.
pub struct Process {
    child: Child,
    log: PathBuf,
    group: Option<Group>,
}

impl Process {
    /// Starts a process. Its standard error goes to a file in the folder. So does its standard
    /// output, unless the command says otherwise.
    pub fn start(name: &str, command: &mut Command, folder: &Path) -> Result<Process, String> {
        let log = folder.join(format!("{name}.stderr"));
        let file = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let child = command
            .stderr(file)
            .spawn()
            .map_err(|e| format!("{name} does not start: {e}"))?;
        Ok(Process {
            child,
            log,
            group: None,
        })
    }

    /// Gives the process a control group of its own, if one can be made.
    pub fn enter_group(&mut self) {
        let pid = self.child.id();
        self.group = Group::new().filter(|group| group.enter(pid));
    }

    /// Returns the memory of its control group: with the kernel's side of its sockets.
    pub fn group_memory(&self) -> Option<u64> {
        self.group.as_ref()?.memory()
    }

    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Returns the last text that the process wrote, if it has ended.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        Some(format!(
            "it ended with {status}: {}",
            said.lines().rev().take(5).collect::<Vec<_>>().join(" / ")
        ))
    }

    /// Returns the processor time used so far.
    pub fn cpu(&self) -> Duration {
        self.family().into_iter().map(cpu).sum()
    }

    /// Returns the resident memory in bytes.
    pub fn rss(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// Returns the highest resident memory since [`forget_peak`](Self::forget_peak).
    pub fn peak(&self) -> u64 {
        self.memory("VmHWM:")
    }

    pub fn forget_peak(&self) {
        for pid in self.family() {
            // Without this, the peak is the highest since the start.
            let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        }
    }

    fn memory(&self, field: &str) -> u64 {
        let kib = |pid| -> Option<u64> {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            status
                .lines()
                .find_map(|line| line.strip_prefix(field))?
                .trim()
                .trim_end_matches(" kB")
                .parse()
                .ok()
        };
        self.family().into_iter().filter_map(kib).sum::<u64>() * 1024
    }

    /// Returns the process and its children, and theirs.
    fn family(&self) -> Vec<u32> {
        let pids = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let parents: Vec<(u32, u64)> = pids
            .filter_map(|pid| Some((pid, *stat(pid).get(1)?)))
            .collect();
        let mut family = vec![self.child.id()];
        let mut next = 0;
        while let Some(parent) = family.get(next).copied() {
            let children = parents.iter().filter(|(_, of)| *of == u64::from(parent));
            family.extend(children.map(|(pid, _)| *pid));
            next += 1;
        }
        family
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut family = self.family();
        kill("TERM", &family[..1]);
        let start = Instant::now();
        while start.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            kill("KILL", &family[..1]);
            let _ = self.child.wait();
        }
        // Whoever has outlived the parent is still in its group; without one, it is who was its
        // child before.
        family.remove(0);
        let left = self.group.as_ref().map_or(family, Group::processes);
        if !left.is_empty() {
            kill("KILL", &left);
        }
    }
}

/// Sends a signal by the shell, since the crate forbids the unsafe code that the system call would
/// need.
fn kill(signal: &str, pids: &[u32]) {
    let line = pids.iter().fold(format!("kill -{signal}"), |line, pid| {
        format!("{line} {pid}")
    });
    let _ = Command::new("sh")
        .args(["-c", &line])
        .stderr(Stdio::null())
        .status();
}

/// Returns the processor time that one process has used.
pub fn cpu(pid: u32) -> Duration {
    let fields = stat(pid);
    TICK * fields
        .get(11..13)
        .map_or(0, |times| times.iter().sum::<u64>()) as u32
}

/// Returns the processor time that the whole machine has used.
pub fn machine_cpu() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<u64> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .flat_map(str::parse)
        .collect();
    // All fields count except the two for idling; also time that other machines have taken.
    TICK * fields
        .iter()
        .take(8)
        .enumerate()
        .filter(|(index, _)| !matches!(index, 3 | 4))
        .map(|(_, time)| time)
        .sum::<u64>() as u32
}

/// Returns the fields of `/proc/PID/stat` after the name. The state is field 0.
fn stat(pid: u32) -> Vec<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(')').map_or(Vec::new(), |(_, rest)| {
        rest.split_whitespace()
            .map(|field| field.parse().unwrap_or(0))
            .collect()
    })
}

/// Starts this program again with the hard limit of open files. The soft limit is often 1,024,
/// which a thousand streams exceed.
pub fn raise_open_files() -> Result<(), String> {
    const MARK: &str = "PORTCULLIS_LOAD_OPEN_FILES_RAISED";
    if std::env::var_os(MARK).is_some() {
        return Ok(());
    }
    let script = r#"ulimit -n "$(ulimit -Hn)"; exec "$0" "$@""#;
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let failed = Command::new("sh")
        .args(["-c", script])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(MARK, "1")
        .exec();
    Err(format!("cannot start itself: {failed}"))
}

/// Returns the number of files that a process may have open, after that.
pub fn open_files() -> usize {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .unwrap_or_default();
    match line.split_whitespace().next() {
        Some("unlimited") => usize::MAX,
        soft => soft.and_then(|soft| soft.parse().ok()).unwrap_or(1024),
    }
}

/// Starts one process for each core that keeps it from idling, at a priority below all others. In a
/// virtual machine, waking a halted core can cost more than what is measured.
pub fn spinners(folder: &Path) -> Result<Vec<Process>, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let spinner = |number| {
        let mut command = Command::new("chrt");
        command
            .args(["--idle", "0"])
            .arg(&program)
            .arg("spin")
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        Process::start(&format!("spinner-{number}"), &mut command, folder)
    };
    (0..cores).map(spinner).collect()
}

/// Spins until standard input ends.
pub fn spin() -> ExitCode {
    let watch = std::thread::spawn(|| std::io::stdin().read(&mut [0]).map(drop));
    while !watch.is_finished() {
        std::hint::spin_loop();
    }
    ExitCode::SUCCESS
}
