//! The real gateway as a process, with ports and a folder of its own, and the checks that must hold
//! after *every* test.
//!
//! **Invariant:** when a [`Gateway`] is dropped by a test that has not failed, these things hold.
//! Nothing is in flight, and no secret is in any output. The book names everything that is in
//! access lines, metrics and heads. Every exchange has exactly one access line. No connection is
//! left except idle ones to upstreams, and no other descriptor is new. SIGTERM ends the process at
//! once with code 0.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::canary::{self, ADMIN_KEY, KEY};
use super::client::{self, Connection, Response};
use super::http2::H2;
use super::ledger::Ledger;
use super::metrics::Metrics;
use super::process::Process;
use super::tls::Ca;
use super::{
    PATIENCE, SLOWER, documented, eventually, eventually_blocking, eventually_within, mock,
};

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_portcullis");

/// Returns the program that serves: the binary under test, or another build of it, at the path in
/// `SERVED_PROGRAM`.
fn served_program() -> OsString {
    std::env::var_os("SERVED_PROGRAM").unwrap_or_else(|| BINARY.into())
}

/// One access line.
pub type Line = Value;

/// The settings with which a gateway is started.
#[derive(Clone)]
pub struct Setup {
    catalog: String,
    listeners: Vec<String>,
    server: String,
    files: Vec<(String, String)>,
    env: Vec<(String, String)>,
    open_files: Option<u32>,
    soft_open_files: Option<u32>,
    full_disk: Option<u32>,
    upstreams: Vec<u16>,
    is_embedded: bool,
}

impl Setup {
    /// Runs not the program but `examples/embed.rs`, where Pingora's own session reads requests.
    pub fn embedded(mut self) -> Self {
        self.is_embedded = true;
        self
    }

    /// Adds fields to the listener, as YAML: `h2c: true`.
    pub fn listen(mut self, more: &str) -> Self {
        self.listeners[0] = more.to_owned();
        self
    }

    /// Adds a listener.
    pub fn also_listen(mut self, more: &str) -> Self {
        self.listeners.push(more.to_owned());
        self
    }

    /// Adds lines of YAML to `server.yaml`. They replace the key of the test's own (`workers`,
    /// `log`). `{admin}` is the admin listener's address, and `{admin_port}` its port.
    pub fn server(mut self, yaml: &str) -> Self {
        self.server.push_str(yaml.trim_end());
        self.server.push('\n');
        self
    }

    /// Adds a file to the configuration folder: `catalog.d/x.yaml`.
    pub fn file(mut self, path: &str, text: impl Display) -> Self {
        self.files.push((path.to_owned(), text.to_string()));
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gives back at once what is freed, so that resident memory is what is in use and not what
    /// once was.
    pub fn returns_memory_at_once(self) -> Self {
        self.env("_RJEM_MALLOC_CONF", "dirty_decay_ms:0")
    }

    /// Sets `ulimit -n`.
    pub fn open_files(mut self, most: u32) -> Self {
        self.open_files = Some(most);
        self
    }

    /// Sets `ulimit -S -n`, which the process may raise.
    pub fn soft_open_files(mut self, most: u32) -> Self {
        self.soft_open_files = Some(most);
        self
    }

    /// Sets `ulimit -S -f`, in blocks: files of this size are as on a full disk, until the limit is
    /// raised.
    pub fn full_disk(mut self, blocks: u32) -> Self {
        self.full_disk = Some(blocks);
        self
    }

    /// Allows a port, besides those of mocks, to which connections may idle at the end.
    pub fn upstream(mut self, port: u16) -> Self {
        self.upstreams.push(port);
        self
    }

    /// Starts the gateway and waits until it is ready.
    pub async fn start(self) -> Gateway {
        Gateway::launch(self)
    }

    /// Starts a gateway that must refuse to serve, and waits for its end.
    pub fn refuse(self) -> (ExitStatus, String) {
        let place = Place::new(&self);
        let mut process = place.spawn(&self);
        let status = process.wait(PATIENCE).expect("it refuses to serve");
        let output = format!(
            "{}{}",
            String::from_utf8_lossy(&process.stdout()),
            process.stderr()
        );
        canary::check("its output", output.as_bytes()).expect("no secret in any output");
        place.remove();
        (status, output)
    }
}

/// The folder and the ports of a gateway.
#[derive(Clone)]
struct Place {
    dir: PathBuf,
    listeners: Vec<SocketAddr>,
    admin: SocketAddr,
    /// True if the gateway is given its folder by a relative path.
    is_relative: bool,
}

impl Place {
    fn new(setup: &Setup) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let test = std::thread::current().name().unwrap_or("test").to_owned();
        let is_relative = test.starts_with("relative::");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!(
            "{}-{}-{number}",
            test.replace("::", "-"),
            std::process::id()
        );
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let listeners = setup.listeners.iter().map(|_| free_port()).collect();
        let place = Place {
            dir,
            listeners,
            admin: free_port(),
            is_relative,
        };
        place.write(setup);
        place
    }

    fn conf(&self) -> PathBuf {
        self.dir.join("conf")
    }

    fn write(&self, setup: &Setup) {
        let conf = self.conf();
        std::fs::create_dir_all(&conf).expect("a folder for the test");
        let mut server = String::from("listen:\n");
        for (address, more) in self.listeners.iter().zip(&setup.listeners) {
            let comma = if more.is_empty() { "" } else { ", " };
            server.push_str(&format!("  - {{ address: \"{address}\"{comma}{more} }}\n"));
        }
        let ours = [
            (
                "admin",
                format!("admin: {{ address: \"{}\" }}\n", self.admin),
            ),
            ("workers", "workers: 2\n".to_owned()),
            // The log has its lowest level, so that every test looks for secrets in everything that
            // can be logged.
            (
                "log",
                "log: { format: json, level: trace, access: stdout }\n".to_owned(),
            ),
            (
                "ledger",
                format!("ledger: {{ path: {:?} }}\n", self.dir.join("ledger.sqlite")),
            ),
        ];
        for (key, line) in ours {
            if !setup
                .server
                .lines()
                .any(|l| l.starts_with(&format!("{key}:")))
            {
                server.push_str(&line);
            }
        }
        let more = setup.server.replace("{admin}", &self.admin.to_string());
        server.push_str(&more.replace("{admin_port}", &self.admin.port().to_string()));
        write(&conf.join("server.yaml"), &server);
        write(&conf.join("catalog.yaml"), &setup.catalog);
        for (path, text) in &setup.files {
            let path = conf.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            write(&path, text);
        }
    }

    fn spawn(&self, setup: &Setup) -> Process {
        let both = setup.open_files.map(|most| format!("ulimit -n {most}; "));
        let soft = setup
            .soft_open_files
            .map(|most| format!("ulimit -S -n {most}; "));
        let disk = setup
            .full_disk
            .map(|blocks| format!("trap '' XFSZ; ulimit -S -f {blocks}; "));
        let limit = both.or(soft).unwrap_or_default() + &disk.unwrap_or_default();
        let script = format!("{limit}exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        let conf = if self.is_relative {
            PathBuf::from("conf")
        } else {
            self.conf()
        };
        command.args(["-c", &script]).current_dir(&self.dir);
        if setup.is_embedded {
            let address = self.listeners[0].to_string();
            command.arg(embedding_program()).arg(address).arg(conf);
        } else {
            command
                .arg(served_program())
                .args(["serve", "--conf"])
                .arg(conf);
        }
        command
            .env("RUST_BACKTRACE", "1")
            .envs(setup.env.iter().cloned());
        Process::spawn(&mut command)
    }

    fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A running gateway. The invariant above lists what is checked when it is dropped.
pub struct Gateway {
    /// The address for callers.
    pub address: SocketAddr,
    /// All listeners; the first is `address`.
    pub listeners: Vec<SocketAddr>,
    pub admin: SocketAddr,
    /// The configuration folder.
    pub conf: PathBuf,
    pub process: Process,
    place: Place,
    setup: Setup,
    ledger: Ledger,
    /// The access lines of processes before a restart.
    earlier: Vec<u8>,
    descriptors: usize,
    /// True if the test itself has ended the process.
    ended: bool,
}

impl Gateway {
    /// Starts a gateway that serves this catalog on one listener.
    pub async fn start(catalog: impl Display) -> Self {
        Self::with(catalog).start().await
    }

    /// Starts a gateway that serves model `m` from this upstream.
    pub async fn over(mock: &mock::Mock) -> Self {
        Self::start(super::Catalog::over(mock)).await
    }

    pub fn with(catalog: impl Display) -> Setup {
        Setup {
            catalog: catalog.to_string(),
            listeners: vec![String::new()],
            server: String::new(),
            files: Vec::new(),
            env: Vec::new(),
            open_files: None,
            soft_open_files: None,
            full_disk: None,
            upstreams: Vec::new(),
            is_embedded: is_embedded(),
        }
    }

    fn launch(setup: Setup) -> Self {
        // Somebody else may take a port between our check and the gateway's start.
        for _ in 0..5 {
            let place = Place::new(&setup);
            let mut process = place.spawn(&setup);
            match ready(&mut process, place.admin) {
                Ok(()) => {
                    let descriptors = settled(&process);
                    return Gateway {
                        address: place.listeners[0],
                        listeners: place.listeners.clone(),
                        admin: place.admin,
                        conf: place.conf(),
                        process,
                        place,
                        setup,
                        ledger: Ledger::default(),
                        earlier: Vec::new(),
                        descriptors,
                        ended: false,
                    };
                }
                Err(why) if why.to_ascii_lowercase().contains("in use") => place.remove(),
                Err(why) => panic!("the gateway did not start: {why}"),
            }
        }
        panic!("no free ports");
    }

    // Callers.

    /// Opens a new HTTP/1 connection.
    pub async fn connect(&self) -> Connection {
        Connection::plain(self.address, Some(self.ledger.clone())).await
    }

    /// Opens a new TLS connection to the listener of this number.
    pub async fn connect_tls(&self, listener: usize, ca: &Ca, alpn: &[&str]) -> Connection {
        Connection::tls(
            self.listeners[listener],
            ca,
            alpn,
            Some(self.ledger.clone()),
        )
        .await
    }

    /// Opens a new HTTP/2 connection without TLS to the listener of this number.
    pub async fn h2c(&self, listener: usize) -> H2 {
        H2::clear(self.listeners[listener], Some(self.ledger.clone())).await
    }

    pub async fn h2(&self, listener: usize, ca: &Ca) -> H2 {
        H2::tls(self.listeners[listener], ca, Some(self.ledger.clone())).await
    }

    /// Sends one chat completion with the good key, on a connection of its own, and reads the
    /// answer to its end.
    pub async fn post(&self, body: &Value) -> Response {
        self.raw(client::post(body)).await
    }

    pub async fn get(&self, target: &str) -> Response {
        let bearer = format!("Bearer {KEY}");
        self.raw(client::request(
            "GET",
            target,
            &[("authorization", &bearer)],
            b"",
        ))
        .await
    }

    /// Sends any bytes on a connection of their own, and reads the one answer to them.
    pub async fn raw(&self, bytes: impl AsRef<[u8]>) -> Response {
        let mut connection = self.connect().await;
        connection.send(bytes).await;
        connection.response().await
    }

    /// Sends a chat completion and reads the head of its answer.
    pub async fn open(&self, body: &Value) -> (Connection, Response) {
        let mut connection = self.connect().await;
        assert!(
            connection.send(client::post(body)).await,
            "the request was taken"
        );
        let head = connection.head().await.expect("a head");
        (connection, head)
    }

    // The gateway's output.

    /// Returns the access lines so far.
    #[track_caller]
    pub fn lines(&self) -> Vec<Line> {
        let text = [self.earlier.clone(), self.process.stdout()].concat();
        // The text after the last line end is still being written.
        let whole = text
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        let lines = text[..whole]
            .split(|b| *b == b'\n')
            .filter(|line| !line.is_empty());
        let parse = |line| {
            serde_json::from_slice(line)
                .unwrap_or_else(|e| panic!("{e} in access line {}", String::from_utf8_lossy(line)))
        };
        lines.map(parse).collect()
    }

    /// Waits until this many exchanges are open and all of them wait for something: the gateway has
    /// used no time of a processor at many looks in a row.
    pub async fn is_quiet_with(&self, exchanges: usize) {
        let (mut last, mut quiet) = (self.process.cpu(), 0);
        eventually_within(PATIENCE * SLOWER, "the exchanges wait", || {
            let now = self.process.cpu();
            quiet = if std::mem::replace(&mut last, now) == now {
                quiet + 1
            } else {
                0
            };
            (quiet > 20 && self.status()["exchanges"] == exchanges).then_some(())
        })
        .await;
    }

    /// Returns the access lines when there are `wanted` of them. More are an error.
    pub async fn access_lines(&self, wanted: usize) -> Vec<Line> {
        let lines = eventually(&format!("{wanted} access lines"), || {
            let lines = self.lines();
            (lines.len() >= wanted).then_some(lines)
        })
        .await;
        assert_eq!(lines.len(), wanted, "access lines: {lines:#?}");
        lines
    }

    /// Returns the access lines when there are at least `wanted` of them.
    pub async fn access_lines_at_least(&self, wanted: usize) -> Vec<Line> {
        eventually(&format!("{wanted} access lines"), || {
            Some(self.lines()).filter(|lines| lines.len() >= wanted)
        })
        .await
    }

    /// Returns all access lines when that of this answer is among them.
    pub async fn lines_after(&self, answer: &Response) -> Vec<Line> {
        let id = answer.field("x-request-id").expect("x-request-id");
        let has = |lines: &[Line]| lines.iter().any(|line| line["request_id"] == id);
        eventually("the access line of that answer", || {
            Some(self.lines()).filter(|lines| has(lines))
        })
        .await
    }

    /// Returns the only access line.
    pub async fn line(&self) -> Line {
        self.access_lines(1).await.remove(0)
    }

    /// Returns the access line of this answer.
    pub async fn line_of(&self, answer: &Response) -> Line {
        let id = answer.field("x-request-id").expect("a request id");
        let line = || {
            self.lines()
                .into_iter()
                .find(|line| line["request_id"] == id)
        };
        eventually(&format!("the access line of {id}"), line).await
    }

    /// Returns everything that was logged, except access lines.
    pub fn log(&self) -> String {
        self.process.stderr()
    }

    /// Waits until the text is in the log, and returns its line.
    pub async fn logged(&self, text: &str) -> String {
        let line = || {
            self.log()
                .lines()
                .find(|line| line.contains(text))
                .map(ToOwned::to_owned)
        };
        eventually(&format!("{text:?} in the log"), line).await
    }

    /// Returns an answer of the admin listener.
    pub fn admin(&self, target: &str) -> (u16, String) {
        get(self.admin, target).unwrap_or_else(|e| panic!("{target} of the admin listener: {e}"))
    }

    /// Closes the breakers of an account, for the next case that uses it.
    pub fn reset(&self, account: &str) {
        let key = format!("authorization: Bearer {ADMIN_KEY}\r\n");
        let request = format!(
            "POST /accounts/{account}/reset HTTP/1.1\r\nhost: x\r\n{key}connection: close\r\n\r\n"
        );
        let mut stream = std::net::TcpStream::connect(self.admin).expect("the admin listener");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    }

    pub fn metrics(&self) -> Metrics {
        Metrics(self.admin("/metrics").1)
    }

    pub fn status(&self) -> Value {
        let (_, body) = self.admin("/status");
        serde_json::from_str(&body).unwrap_or_else(|e| panic!("{e} in /status: {body}"))
    }

    /// Waits until nothing is in flight.
    pub async fn idle(&self) {
        eventually("nothing in flight", || {
            (self.metrics().sum("portcullis_in_flight", &[]) == 0.0).then_some(())
        })
        .await;
    }

    pub fn rss(&self) -> u64 {
        self.process.rss()
    }

    // Actions on the gateway.

    /// Writes a new catalog as a careful editor does: a new file that is renamed. It does not wait
    /// for the reload.
    pub fn write_catalog(&self, catalog: impl Display) {
        let new = self.conf.join(".catalog.yaml.new");
        write(&new, &catalog.to_string());
        std::fs::rename(new, self.conf.join("catalog.yaml")).expect("a rename");
    }

    /// Writes a new catalog and waits until it is live.
    pub async fn swap(&self, catalog: impl Display) {
        let before = self.generation();
        self.write_catalog(catalog);
        eventually("the new catalog serves", || {
            (self.generation() > before).then_some(())
        })
        .await;
    }

    pub fn generation(&self) -> u64 {
        self.metrics().sum("portcullis_catalog_generation", &[]) as u64
    }

    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Waits for an end that the test has caused.
    pub fn exit(&mut self, within: Duration) -> ExitStatus {
        let status = self
            .process
            .wait(within)
            .unwrap_or_else(|| panic!("it still runs after {within:?}\n{}", self.tail()));
        self.ended = true;
        status
    }

    /// Kills the gateway with SIGKILL, and starts it again on the same ports.
    pub fn crash_and_restart(&mut self) {
        self.crash();
        self.restart();
    }

    /// Kills the gateway with SIGKILL.
    pub fn crash(&mut self) {
        self.signal("KILL");
        self.exit(PATIENCE);
    }

    /// Starts the gateway again on the same ports, after a crash.
    pub fn restart(&mut self) {
        self.earlier.extend(self.process.stdout());
        let mut process = self.place.spawn(&self.setup);
        ready(&mut process, self.admin).expect("it starts again");
        self.descriptors = settled(&process);
        self.process = process;
        self.ended = false;
    }

    fn tail(&self) -> String {
        let out = String::from_utf8_lossy(&self.process.stdout()).into_owned();
        let last = |text: &str, n: usize| {
            text.lines()
                .rev()
                .take(n)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect::<Vec<_>>()
                .join("\n")
        };
        format!(
            "--- its log ends:\n{}\n--- its access lines end:\n{}",
            last(&self.log(), 40),
            last(&out, 10)
        )
    }

    fn check(&mut self) -> Result<(), String> {
        let json =
            !self.setup.server.contains("access:") && !self.setup.server.contains("format: text");
        if !self.ended {
            eventually_blocking("at the end of the test", || self.check_idle(json))?;
            let metrics = self.admin("/metrics").1;
            canary::check("/metrics", metrics.as_bytes())?;
            documented::check_metrics(&metrics)?;
            canary::check("/status", self.admin("/status").1.as_bytes())?;
            if let Some(status) = self.process.exited() {
                return Err(format!("the process has ended: {status}"));
            }
            // Pingora's own server waits for its whole grace after SIGTERM.
            let signal = if self.setup.is_embedded {
                "INT"
            } else {
                "TERM"
            };
            self.signal(signal);
            match self.process.wait(PATIENCE) {
                Some(status) if status.success() => {}
                Some(status) => return Err(format!("{signal} while idle ended it with {status}")),
                None => {
                    return Err(format!(
                        "{signal} while idle did not end it in {PATIENCE:?}"
                    ));
                }
            }
        }
        canary::check("its stdout", &self.process.stdout())?;
        canary::check("its log", self.process.stderr().as_bytes())?;
        self.ledger
            .check(if json { Some(self.lines()) } else { None })
    }

    /// Checks that nothing is left of what the test did.
    fn check_idle(&self, json: bool) -> Result<(), String> {
        let metrics = Metrics(
            get(self.admin, "/metrics")
                .map_err(|e| format!("/metrics: {e}"))?
                .1,
        );
        let in_flight = metrics.sum("portcullis_in_flight", &[]);
        if in_flight != 0.0 {
            return Err(format!("{in_flight} still in flight"));
        }
        let status = get(self.admin, "/status")
            .map_err(|e| format!("/status: {e}"))?
            .1;
        let status: Value = serde_json::from_str(&status).map_err(|e| format!("/status: {e}"))?;
        if status["exchanges"] != 0 {
            return Err(format!("{} exchanges are not settled", status["exchanges"]));
        }
        let (counted, lines) = (
            metrics.sum("portcullis_requests_total", &[]) as usize,
            self.process.stdout(),
        );
        let lines = lines.iter().filter(|b| **b == b'\n').count();
        if json && counted != lines {
            return Err(format!(
                "{counted} exchanges are counted and {lines} access lines are written"
            ));
        }
        let open = self.process.descriptors();
        let ours = |local: &SocketAddr| {
            local.port() == self.admin.port()
                || self.listeners.iter().any(|l| l.port() == local.port())
        };
        for (local, remote) in &open.connections {
            if ours(local) {
                return Err(format!(
                    "the connection from {remote} to {local} is still open"
                ));
            }
            let known = self.setup.upstreams.contains(&remote.port());
            match mock::is_idle(remote.port(), *local) {
                _ if known => {}
                Some(true) => {}
                Some(false) => {
                    return Err(format!(
                        "an unfinished exchange with the upstream {remote} is still open"
                    ));
                }
                None => return Err(format!("the connection to {remote} is still open")),
            }
        }
        // The ledger has up to five descriptors: the file, the two beside it, one more of the file
        // for readers, and the one that says that the process lives.
        let (ledger, others): (Vec<_>, Vec<_>) =
            open.others.iter().partition(|path| is_ledger(path));
        if others.len() > self.descriptors || ledger.len() > 5 {
            return Err(format!(
                "{} descriptors became {}: {:?}",
                self.descriptors,
                others.len(),
                open.others
            ));
        }
        Ok(())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the gateway of this test was in {}\n{}",
                self.place.dir.display(),
                self.tail()
            );
            return;
        }
        match self.check() {
            Ok(()) => self.place.remove(),
            Err(why) => panic!("{why}\n{}", self.tail()),
        }
    }
}

/// Returns whether each test runs `examples/embed.rs` and not the program: `make test` does this
/// once more with the tests that hold there, too.
pub fn is_embedded() -> bool {
    std::env::var_os("TEST_EMBEDDED").is_some()
}

/// Returns the path of `examples/embed.rs` as a program, which is built beside the gateway.
fn embedding_program() -> PathBuf {
    Path::new(BINARY).with_file_name("examples").join("embed")
}

/// Runs `portcullis` with these arguments to its end.
pub fn portcullis(arguments: &[&str]) -> Output {
    Command::new(BINARY)
        .args(arguments)
        .output()
        .expect("the binary runs")
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    // Files that hold secrets should not be readable by all; the gateway warns if they are.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(path, mode).expect("permissions");
}

/// Returns a port that nobody listens on, and that the kernel gives to no outgoing connection.
pub fn free_port() -> SocketAddr {
    const FIRST: usize = 10_000;
    const LAST: usize = 32_000;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let start = std::process::id() as usize * 131;
    loop {
        let port = FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % (LAST - FIRST);
        let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).expect("a port")));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// Waits until the admin listener says that the gateway is ready, or returns the reason why it will
/// not be.
pub fn ready(process: &mut Process, admin: SocketAddr) -> Result<(), String> {
    let start = Instant::now();
    loop {
        if let Some(status) = process.wait(Duration::ZERO) {
            return Err(format!("{status}\n{}", process.stderr()));
        }
        if let Ok((200, _)) = get(admin, "/readyz") {
            return Ok(());
        }
        // A busy machine starts slowly.
        if start.elapsed() > PATIENCE * 3 {
            return Err(format!(
                "not ready after {:?}\n{}",
                PATIENCE * 3,
                process.stderr()
            ));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the number of descriptors that are open once the gateway is up. The watch of its folder
/// starts after the gateway says that it is ready.
fn settled(process: &Process) -> usize {
    let look = || {
        if process.has_thread("notify-rs") {
            Ok(())
        } else {
            Err("no thread of the watch".to_owned())
        }
    };
    eventually_blocking("it watches its folder", look).expect("a watch");
    process
        .descriptors()
        .others
        .iter()
        .filter(|path| !is_ledger(path))
        .count()
}

/// Returns whether an open file belongs to the ledger. Such a file may be opened, and opened again,
/// at any time.
fn is_ledger(path: &str) -> bool {
    path.contains("ledger.sqlite")
}

/// Sends a plain `GET` and blocks, since a `Drop` cannot wait in another way. The metrics of
/// thousands of accounts take their time on a busy machine.
fn get(address: SocketAddr, target: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE * SLOWER))?;
    // Without a key in server.yaml, this one is not looked at.
    let key = format!("authorization: Bearer {ADMIN_KEY}\r\n");
    let request =
        format!("GET {target} HTTP/1.1\r\nhost: {address}\r\n{key}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or(std::io::ErrorKind::UnexpectedEof)?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .ok_or(std::io::ErrorKind::InvalidData)?;
    Ok((status, body.to_owned()))
}
