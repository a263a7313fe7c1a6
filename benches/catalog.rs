//! What many keys take: `cargo bench --bench catalog`. The gateway runs as a process with catalogs
//! of 10,000, 100,000 and 1,000,000 keys, in ten files; `-- 5000` measures another number.
//!
//! It prints the time of a start and of a reload, and the most memory in each. While it reloads, a
//! caller asks all the time: a request that fails ends the bench with an error. So does a million
//! keys that take more than is promised. Then it prints what an idle gateway and its pages take,
//! and what it takes to disable one key.

#![allow(
    clippy::disallowed_methods,
    reason = "a bench may block its own threads"
)]

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The numbers of keys, if none are given.
const KEYS: [u64; 3] = [10_000, 100_000, 1_000_000];
/// The number of files that the keys are in.
const FILES: u64 = 10;
/// The keys of one caller.
const OF_CALLER: u64 = 1_000;
/// The key that is always there. Everybody knows it, but the gateway only listens on loopback.
const SECRET: &str = "sk-demo-portcullis-published";
const HASH: &str = "c66f3459260b717521f981abfacbbd337d9baf2b8f89da6d687c453a0abc1203";
/// The key that the reload brings.
const NEW_SECRET: &str = "sk-bench-after-the-reload-0123456789abcdefghij";
const NEW_HASH: &str = "788c713aec9591fa0810d2a92b1151bf07124eaaddbd1136eb52ca04d33ad7a8";
/// The longest time that is waited for anything.
const PATIENCE: Duration = Duration::from_secs(120);
/// The pause between two requests of the caller.
const PAUSE: Duration = Duration::from_millis(10);
/// The time in which a catalog of the past is dropped.
const REST: Duration = Duration::from_secs(7);
/// The time for which an idle gateway is watched.
const IDLE: Duration = Duration::from_secs(30);
/// The number of requests for each page.
const PAGES: u32 = 20;
/// The pause before a page is made anew.
const PAGE_PAUSE: Duration = Duration::from_millis(750);

/// What a number of keys took. Memory is in MB.
struct Figures {
    start: Duration,
    /// The processor time of the start.
    start_cpu: Duration,
    start_peak: u64,
    rest: u64,
    reload: Duration,
    /// The processor time of the reload and all requests, until the old catalog is gone.
    reload_cpu: Duration,
    reload_peak: u64,
    requests: u64,
    failed: u64,
    slowest: Duration,
    quiet: QuietFigures,
}

/// What a gateway takes when nobody calls.
struct QuietFigures {
    /// The processor time in [`IDLE`].
    idle_cpu: Duration,
    /// The processor time of a request for `/live` and one for `/metrics`.
    pages_cpu: Duration,
    /// The time of `portcullis key disable`.
    disable: Duration,
    /// The processor time of the command.
    command_cpu: Duration,
    /// The processor time of the gateway meanwhile, until the old catalog is gone.
    gateway_cpu: Duration,
}

fn main() -> ExitCode {
    let given: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse().ok())
        .collect();
    println!(
        "| Keys | Files | Start | CPU | Peak | At rest | Reload | CPU | Peak | Requests meanwhile | Slowest |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|");
    let mut all_figures = Vec::new();
    let mut ends_well = true;
    for keys in if given.is_empty() {
        KEYS.to_vec()
    } else {
        given
    } {
        match measure(keys) {
            Ok(figures) => {
                ends_well &= figures.is_as_promised(keys);
                all_figures.push((keys, figures));
            }
            Err(why) => {
                println!("{keys} keys: {why}");
                ends_well = false;
            }
        }
    }
    println!(
        "\n| Keys | Idle, in a second | `/live` and `/metrics` | `key disable` | its CPU | the gateway's CPU |"
    );
    println!("|---:|---:|---:|---:|---:|---:|");
    for (keys, figures) in all_figures {
        figures.quiet.print(keys);
    }
    if ends_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

impl Figures {
    /// Returns whether no request failed, and a million keys took no more than is promised.
    fn is_as_promised(&self, keys: u64) -> bool {
        let start_fits = self.start <= Duration::from_secs(10) && self.start_peak <= 2_000;
        let reload_fits = self.reload <= Duration::from_secs(15) && self.reload_peak <= 3_000;
        self.failed == 0 && self.requests > 0 && (keys != 1_000_000 || (start_fits && reload_fits))
    }
}

impl QuietFigures {
    /// Measures a gateway with this many keys.
    fn measure(
        keys: u64,
        folder: &Folder,
        gateway: &Gateway,
        admin: SocketAddr,
    ) -> io::Result<QuietFigures> {
        let before = gateway.cpu()?;
        thread::sleep(IDLE);
        let idle_cpu = gateway.cpu()? - before;
        let before = gateway.cpu()?;
        for _ in 0..PAGES {
            thread::sleep(PAGE_PAUSE);
            ask(admin, "GET /live", "", "")?;
            ask(admin, "GET /metrics", "", "")?;
        }
        let pages_cpu = (gateway.cpu()? - before) / PAGES;
        let (own_before, before) = (read_cpu(std::process::id(), 13)?, gateway.cpu()?);
        let key = keys / 2;
        let begin = Instant::now();
        let command = make_command(&folder.0, &["key", "disable"])
            .arg(format!("team-{}/key-{key}", key / OF_CALLER))
            .status()?;
        let disable = begin.elapsed();
        if !command.success() {
            return Err(io::Error::other("the key could not be disabled"));
        }
        thread::sleep(REST);
        Ok(QuietFigures {
            idle_cpu,
            pages_cpu,
            disable,
            command_cpu: read_cpu(std::process::id(), 13)? - own_before,
            gateway_cpu: gateway.cpu()? - before,
        })
    }

    fn print(&self, keys: u64) {
        println!(
            "| {keys} | {:.1} ms | {:.1} ms | {:.2} s | {:.2} s | {:.2} s |",
            self.idle_cpu.as_secs_f64() * 1e3 / IDLE.as_secs_f64(),
            self.pages_cpu.as_secs_f64() * 1e3,
            self.disable.as_secs_f64(),
            self.command_cpu.as_secs_f64(),
            self.gateway_cpu.as_secs_f64(),
        );
    }
}

/// Serves this many keys, and reloads once.
fn measure(keys: u64) -> io::Result<Figures> {
    let folder = Folder::new(keys)?;
    let (listen, admin) = (free_address()?, free_address()?);
    let size = folder.write(keys, listen, admin)?;
    let begin = Instant::now();
    let gateway = Gateway::start(&folder.0)?;
    wait_for(|| ask(admin, "GET /readyz", "", "").is_ok_and(|status| status == 200))?;
    let (start, start_cpu, start_peak) =
        (begin.elapsed(), gateway.cpu()?, gateway.memory("VmHWM:")?);
    thread::sleep(REST);
    let rest = gateway.memory("VmRSS:")?;
    gateway.forget_peak()?;
    let before = gateway.cpu()?;
    let ended = AtomicBool::new(false);
    let (reload, calls) = thread::scope(|scope| {
        let caller = scope.spawn(|| call_until(&ended, listen));
        let reload = folder.add_key().and_then(|begin| {
            wait_for(|| chat(listen, NEW_SECRET).is_ok_and(|status| status == 200))?;
            Ok(begin.elapsed())
        });
        thread::sleep(REST);
        ended.store(true, Ordering::Relaxed);
        (reload, caller.join().unwrap_or_default())
    });
    let figures = Figures {
        start,
        start_cpu,
        start_peak,
        rest,
        reload: reload?,
        reload_cpu: gateway.cpu()?.saturating_sub(before),
        reload_peak: gateway.memory("VmHWM:")?,
        requests: calls.requests,
        failed: calls.failed,
        slowest: calls.slowest,
        quiet: QuietFigures::measure(keys, &folder, &gateway, admin)?,
    };
    println!(
        "| {keys} | {} MB | {:.2} s | {:.2} s | {} MB | {} MB | {:.2} s | {:.2} s | {} MB | {}, {} failed | {:.0} ms |",
        size / 1_000_000,
        figures.start.as_secs_f64(),
        figures.start_cpu.as_secs_f64(),
        figures.start_peak,
        figures.rest,
        figures.reload.as_secs_f64(),
        figures.reload_cpu.as_secs_f64(),
        figures.reload_peak,
        figures.requests,
        figures.failed,
        figures.slowest.as_secs_f64() * 1e3,
    );
    Ok(figures)
}

/// What became of a caller's requests.
#[derive(Default)]
struct Calls {
    requests: u64,
    failed: u64,
    slowest: Duration,
}

/// Sends one request after the other until the end.
fn call_until(ended: &AtomicBool, listen: SocketAddr) -> Calls {
    let mut calls = Calls::default();
    while !ended.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let answered = chat(listen, SECRET).is_ok_and(|status| status == 200);
        calls.requests += 1;
        calls.failed += u64::from(!answered);
        calls.slowest = calls.slowest.max(begin.elapsed());
        thread::sleep(PAUSE);
    }
    calls
}

/// Sends one request, which the gateway answers by itself.
fn chat(listen: SocketAddr, secret: &str) -> io::Result<u16> {
    let body = r#"{"model":"demo","messages":[{"role":"user","content":"Hello"}]}"#;
    ask(
        listen,
        "POST /v1/chat/completions",
        &format!("authorization: Bearer {secret}\r\n"),
        body,
    )
}

/// Sends a request on a connection of its own, and returns the status of the answer.
fn ask(address: SocketAddr, line: &str, fields: &str, body: &str) -> io::Result<u16> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    let head = "host: localhost\r\nconnection: close\r\ncontent-type: application/json";
    stream.write_all(
        format!("{line} HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n{fields}\r\n{body}")
            .as_bytes(),
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    status.ok_or_else(|| io::Error::other("no answer"))
}

/// Waits until something holds.
fn wait_for(holds: impl Fn() -> bool) -> io::Result<()> {
    let begin = Instant::now();
    while !holds() {
        if begin.elapsed() > PATIENCE {
            return Err(io::Error::other("it takes too long"));
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

/// A folder with the configuration. Dropping it removes it.
struct Folder(PathBuf);

impl Folder {
    fn new(keys: u64) -> io::Result<Folder> {
        let path =
            std::env::temp_dir().join(format!("portcullis-catalog-{}-{keys}", std::process::id()));
        fs::create_dir_all(path.join("catalog.d"))?;
        Ok(Folder(path))
    }

    /// Writes the configuration, and returns how many bytes the keys have.
    fn write(&self, keys: u64, listen: SocketAddr, admin: SocketAddr) -> io::Result<usize> {
        fs::write(
            self.0.join("server.yaml"),
            format!(
                "listen: [{{ address: \"{listen}\" }}]\nadmin: {{ address: \"{admin}\" }}\nledger: {{ enabled: false }}\n\
                 log: {{ access: off }}\ncatalog_size: 1GiB\n"
            ),
        )?;
        let demo = "accounts: { demo: { dialect: demo } }\nmodels: { demo: { targets: [{ account: demo }] } }\n";
        fs::write(
            self.0.join("catalog.yaml"),
            format!(
                "{demo}callers: {{ demo: {{ keys: {{ first: {{ hash: sha256:{HASH} }} }} }} }}\n"
            ),
        )?;
        let mut size = 0;
        for file in 0..FILES {
            let text = text_of(file * keys / FILES..(file + 1) * keys / FILES);
            size += text.len();
            fs::write(self.0.join(format!("catalog.d/keys-{file:02}.yaml")), text)?;
        }
        Ok(size)
    }

    /// Adds a file with one more key at once, and returns when.
    fn add_key(&self) -> io::Result<Instant> {
        let new = self.0.join("new");
        fs::write(
            &new,
            format!("callers: {{ new: {{ keys: {{ one: {{ hash: sha256:{NEW_HASH} }} }} }} }}\n"),
        )?;
        let begin = Instant::now();
        fs::rename(new, self.0.join("catalog.d/new.yaml"))?;
        Ok(begin)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Returns a file with these keys, as `portcullis key new` writes them.
fn text_of(numbers: std::ops::Range<u64>) -> String {
    let mut text = "callers:\n".to_owned();
    let mut written = None;
    for number in numbers {
        let caller = number / OF_CALLER;
        if written != Some(caller) {
            written = Some(caller);
            writeln!(text, "  team-{caller}:\n    keys:").ok();
        }
        // Any 64 hex digits are a hash; these are no two alike.
        let digits = [7, 14, 21, 28].map(|bits: u32| {
            (number + 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(bits)
        });
        let hash: String = digits
            .iter()
            .map(|digits| format!("{digits:016x}"))
            .collect();
        writeln!(text, "      key-{number}:\n        hash: sha256:{hash}").ok();
    }
    text
}

/// Returns the program with words and the folder.
fn make_command(folder: &Path, words: &[&str]) -> Command {
    let program = option_env!("CARGO_BIN_EXE_portcullis").unwrap_or("portcullis");
    let mut command = Command::new(program);
    command
        .args(words)
        .arg("--conf")
        .arg(folder)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Returns the sum of two fields of what the kernel knows of a process: at 11 its processor time,
/// at 13 that of its children that have ended.
fn read_cpu(process: u32, field: usize) -> io::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<u64> = stat
        .rsplit(')')
        .next()
        .into_iter()
        .flat_map(str::split_whitespace)
        .map(|n| n.parse().unwrap_or(0))
        .collect();
    // The kernel counts in hundredths of a second.
    let hundredths: u64 = fields.iter().skip(field).take(2).sum();
    Ok(Duration::from_millis(10 * hundredths))
}

/// A running gateway. Dropping it ends it.
struct Gateway(Child);

impl Gateway {
    fn start(folder: &Path) -> io::Result<Gateway> {
        make_command(folder, &["serve"]).spawn().map(Gateway)
    }

    /// Returns a line of what the kernel knows of the memory, in MB.
    fn memory(&self, line: &str) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let found = status.lines().find_map(|found| found.strip_prefix(line));
        let kib: Option<u64> =
            found.and_then(|kib| kib.trim().trim_end_matches(" kB").parse().ok());
        kib.map(|kib| kib * 1_024 / 1_000_000)
            .ok_or_else(|| io::Error::other("the gateway has ended"))
    }

    /// Returns the processor time that it has used.
    fn cpu(&self) -> io::Result<Duration> {
        read_cpu(self.0.id(), 11)
    }

    fn forget_peak(&self) -> io::Result<()> {
        fs::write(format!("/proc/{}/clear_refs", self.0.id()), "5")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
