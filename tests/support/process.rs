//! A child process whose whole output is caught, and what the kernel says about it.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A running child. Dropping it kills it.
pub struct Process {
    child: Child,
    readers: Vec<std::thread::JoinHandle<()>>,
    stdout: Caught,
    stderr: Caught,
}

type Caught = Arc<Mutex<Vec<u8>>>;

impl Process {
    pub fn spawn(command: &mut Command) -> Self {
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let (stdout, stderr) = (Caught::default(), Caught::default());
        let out = catch(child.stdout.take().expect("piped"), stdout.clone());
        let err = catch(child.stderr.take().expect("piped"), stderr.clone());
        Process {
            child,
            readers: vec![out, err],
            stdout,
            stderr,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the most memory that it had so far, in KiB.
    pub fn peak(&self) -> usize {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("a status");
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .expect("a peak");
        peak.trim()
            .trim_end_matches(" kB")
            .parse()
            .expect("a number")
    }

    /// Returns everything that it has written to standard output so far.
    pub fn stdout(&self) -> Vec<u8> {
        self.stdout.lock().expect("output").clone()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().expect("output")).into_owned()
    }

    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of ours")
    }

    /// Sends a signal: `TERM`, `HUP`, `KILL` …
    pub fn signal(&self, name: &str) {
        // The shell does it, since the crate forbids the unsafe code that the system call would
        // need.
        let line = format!("kill -{name} {}", self.pid());
        let status = Command::new("sh")
            .args(["-c", &line])
            .stderr(Stdio::null())
            .status();
        assert!(
            status.expect("a shell").success(),
            "no process to signal: {}",
            self.pid()
        );
    }

    /// Waits for the end of the process. Returns `None` if it still runs after `within`. All output
    /// is there afterwards.
    pub fn wait(&mut self, within: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        self.wait_while(|| start.elapsed() <= within)
    }

    /// Waits like `wait`, as long as the condition holds.
    pub fn wait_while(&mut self, mut goes_on: impl FnMut() -> bool) -> Option<ExitStatus> {
        loop {
            if let Some(status) = self.exited() {
                for reader in self.readers.drain(..) {
                    let _ = reader.join();
                }
                return Some(status);
            }
            if !goes_on() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns the resident memory in bytes.
    pub fn rss(&self) -> u64 {
        rss(self.pid())
    }

    /// Returns the processor time used so far.
    pub fn cpu(&self) -> Duration {
        cpu(self.pid())
    }

    pub fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.pid())).map_or(0, Iterator::count)
    }

    /// Returns whether the process has a thread whose name begins with `name`.
    pub fn has_thread(&self, name: &str) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        let names = tasks
            .into_iter()
            .flatten()
            .flatten()
            .map(|task| std::fs::read_to_string(task.path().join("comm")));
        names.flatten().any(|comm| comm.starts_with(name))
    }

    /// Returns all open descriptors: the TCP connections, and everything else.
    pub fn descriptors(&self) -> Descriptors {
        let mut connected = socket_table(&self.proc("net/tcp"));
        connected.extend(socket_table(&self.proc("net/tcp6")));
        let mut open = Descriptors::default();
        for entry in std::fs::read_dir(format!("/proc/{}/fd", self.pid()))
            .into_iter()
            .flatten()
            .flatten()
        {
            // A descriptor may be closed between the two calls.
            let Ok(target) = std::fs::read_link(entry.path()) else {
                continue;
            };
            let target = target.to_string_lossy().into_owned();
            let inode = target
                .strip_prefix("socket:[")
                .and_then(|rest| rest.strip_suffix(']'));
            match inode.and_then(|inode| connected.get(inode)) {
                Some(ends) => open.connections.push(*ends),
                None => open.others.push(target),
            }
        }
        open
    }

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.pid())).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the resident memory of any process, in bytes.
pub fn rss(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("VmRSS");
    line.trim()
        .trim_end_matches(" kB")
        .parse::<u64>()
        .expect("a number")
        * 1024
}

/// Returns how often a process was given a page of memory so far.
pub fn page_faults(pid: u32) -> u64 {
    stat_fields(pid, 7, 1)[0]
}

/// Returns numbers of the process's line of state, from the field at `first` on, which counts from
/// the one behind its name.
fn stat_fields(pid: u32, first: usize, count: usize) -> Vec<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let (_, fields) = stat.rsplit_once(") ").expect("a stat line");
    fields
        .split(' ')
        .skip(first)
        .take(count)
        .map(|number| number.parse().expect("a number"))
        .collect()
}

/// Returns the processor time that this thread has used so far. It does not depend on what else the
/// machine does.
pub fn worked() -> Duration {
    let times =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("times of this thread");
    Duration::from_nanos(
        times
            .split(' ')
            .next()
            .and_then(|first| first.parse().ok())
            .expect("nanoseconds"),
    )
}

/// Returns the processor time that any process has used so far.
pub fn cpu(pid: u32) -> Duration {
    Duration::from_millis(stat_fields(pid, 11, 2).iter().sum::<u64>() * 10)
}

/// The open descriptors of a process.
#[derive(Debug, Default)]
pub struct Descriptors {
    /// The TCP connections, as local and remote address.
    pub connections: Vec<(SocketAddr, SocketAddr)>,
    /// Everything else: files, listeners, pipes.
    pub others: Vec<String>,
}

impl Descriptors {
    pub fn count(&self) -> usize {
        self.connections.len() + self.others.len()
    }
}

fn catch(mut from: impl Read + Send + 'static, into: Caught) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(n) = from.read(&mut buffer) {
            if n == 0 {
                return;
            }
            into.lock().expect("output").extend_from_slice(&buffer[..n]);
        }
    })
}

/// Returns the connected sockets by inode.
fn socket_table(table: &str) -> BTreeMap<String, (SocketAddr, SocketAddr)> {
    const LISTEN: &str = "0A";
    let rows = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (local, remote) = (
            socket_address(fields.get(1)?)?,
            socket_address(fields.get(2)?)?,
        );
        (*fields.get(3)? != LISTEN).then_some(((*fields.get(9)?).to_owned(), (local, remote)))
    });
    rows.collect()
}

/// Reads an address such as `0100007F:1F90`: words in the machine's byte order, the port in the
/// network's.
fn socket_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let words = ip
        .as_bytes()
        .chunks(8)
        .map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok());
    let bytes: Vec<u8> = words
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .flat_map(u32::to_ne_bytes)
        .collect();
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical(),
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}
