//! The gateway with everything on: keys, limits, metrics, the access log, the ledger. It runs under
//! valgrind, or over an allocator that counts.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::wire::{End, Upstream};

/// The key of a caller without limits.
pub const FREE: &str = "sk-bench-client-0001";
/// The key of a caller who may ask once a day.
pub const LIMITED: &str = "sk-bench-client-0002";
/// The accounts: the dialect of each, its model's name here and there, and the path of its base
/// URL.
const ACCOUNTS: [(&str, &str, &str, &str); 4] = [
    ("openai", "chat", "gpt-4o-mini", "/v1"),
    ("anthropic", "claude", "claude-sonnet-4-5", "/v1"),
    ("gemini", "gemini", "gemini-2.5-flash", ""),
    ("cohere", "command", "command-a-03-2025", ""),
];
/// The longest time that the start takes.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Gateway {
    process: Child,
    port: SocketAddr,
    /// The pause before each exchange.
    pub pause: Duration,
    pub callers: Vec<End>,
    pub upstreams: [Upstream; 4],
}

impl Gateway {
    /// Starts the gateway by this command, to which its arguments are added, with these settings
    /// besides its own. Connects to it as its only caller.
    pub fn start(
        folder: &Path,
        mut command: Command,
        more: &str,
        pause: Duration,
    ) -> Result<Gateway, String> {
        let upstreams = ACCOUNTS.map(|_| Upstream::new());
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .map_err(|e| e.to_string())?;
        let conf = folder.join("conf");
        fs::create_dir_all(&conf).map_err(|e| e.to_string())?;
        let dir = folder.display();
        let server = format!(
            "listen: [{{ address: \"{port}\" }}]\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 1\ndrain: {{ grace: 1s }}\n\
             log: {{ access: \"{dir}/access.log\" }}\nledger: {{ path: \"{dir}/ledger.sqlite\" }}\n{more}"
        );
        fs::write(conf.join("server.yaml"), server).map_err(|e| e.to_string())?;
        fs::write(conf.join("catalog.yaml"), catalog(&upstreams)).map_err(|e| e.to_string())?;
        let log = folder.join("stderr");
        command
            .args(["serve", "--conf"])
            .arg(&conf)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command.stderr(fs::File::create(&log).map_err(|e| e.to_string())?);
        let mut process = command
            .spawn()
            .map_err(|e| format!("the gateway does not start: {e}"))?;
        let start = Instant::now();
        // Whoever tries to connect before may meet somebody else, who looks for a free port.
        while !fs::read_to_string(&log)
            .unwrap_or_default()
            .contains("serving on")
        {
            if start.elapsed() > PATIENCE || !matches!(process.try_wait(), Ok(None)) {
                let _ = process.kill();
                return Err(format!(
                    "the gateway does not listen: {}",
                    fs::read_to_string(&log).unwrap_or_default()
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let callers = vec![End::connect(port)?];
        Ok(Gateway {
            process,
            port,
            pause,
            callers,
            upstreams,
        })
    }

    /// Connects until there are so many callers.
    pub fn connect(&mut self, callers: usize) -> Result<(), String> {
        while self.callers.len() < callers {
            self.callers.push(End::connect(self.port)?);
        }
        Ok(())
    }

    /// Asks a gateway over an allocator that counts for its counts.
    pub fn allocations(&mut self) -> Result<[u64; 2], String> {
        let (Some(stdin), Some(stdout)) = (&mut self.process.stdin, &mut self.process.stdout)
        else {
            return Err("the gateway has no pipes".to_owned());
        };
        stdin.write_all(b"\n").map_err(|e| e.to_string())?;
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .map_err(|e| e.to_string())?;
        let mut counts = line.split_whitespace().flat_map(str::parse);
        match (counts.next(), counts.next()) {
            (Some(allocations), Some(bytes)) => Ok([allocations, bytes]),
            _ => Err(format!("no counts: {line:?}")),
        }
    }

    /// Returns the caller, and the upstream of the model that a body asks for. That is the first
    /// one if it has no other's.
    pub fn ends(&mut self, body: &str) -> (&mut End, &mut Upstream) {
        let asked = |model: &str| body.contains(&format!("\"model\":\"{model}\""));
        let place = ACCOUNTS
            .iter()
            .position(|(_, model, ..)| asked(model))
            .unwrap_or(0);
        (&mut self.callers[0], &mut self.upstreams[place])
    }

    /// Ends the gateway. Only then are the counts written.
    pub fn end(mut self) -> Result<(), String> {
        // The crate forbids the unsafe code that the system call would need.
        let _ = Command::new("sh")
            .args(["-c", &format!("kill -TERM {}", self.process.id())])
            .status();
        self.process.wait().map(drop).map_err(|e| e.to_string())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // After an end this does nothing.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn catalog(upstreams: &[Upstream; 4]) -> String {
    let accounts = ACCOUNTS.iter().zip(upstreams).map(|((dialect, _, _, path), upstream)| {
        let upstream = upstream.address();
        format!("  {dialect}: {{ dialect: {dialect}, base_url: \"http://{upstream}{path}\", key: \"sk-upstream\" }}\n")
    });
    let models = ACCOUNTS.iter().map(|(dialect, model, theirs, _)| {
        format!("  {model}: {{ targets: [ {{ account: {dialect}, model: {theirs} }} ] }}\n")
    });
    let (accounts, models): (String, String) = (accounts.collect(), models.collect());
    // The sums are those of the keys above.
    format!(
        "accounts:\n{accounts}models:\n{models}  \
         vectors: {{ targets: [ {{ account: openai, model: text-embedding-3-small }} ] }}\n\
         callers:\n  \
         free: {{ keys: {{ one: {{ hash: \"sha256:fdfd6ab3003c752592289f19c84cc0d48bd702e6e91d629051e6169fcfafcc89\" }} }} }}\n  \
         limited: {{ limits: {{ requests_per_day: 1 }}, \
         keys: {{ one: {{ hash: \"sha256:8571a01103f756c8a743220a970db31d042344e7ed835f56a0092eca1517b4f1\" }} }} }}\n"
    )
}
