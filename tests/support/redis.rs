//! A real redis-server on a port and in a folder of its own, and a connection to it that can be
//! made slow.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use redis::Commands;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::process::Process;
use super::tls::Leaf;
use super::{PATIENCE, eventually_blocking, spawn};

/// The server. Dropping it kills it.
pub struct Redis {
    process: Option<Process>,
    arguments: Vec<String>,
    pub port: u16,
    dir: PathBuf,
    url: String,
}

impl Redis {
    pub fn start() -> Redis {
        Redis::with(&[], "")
    }

    pub fn with_password(password: &str) -> Redis {
        Redis::with(&["--requirepass", password], &format!(":{password}@"))
    }

    /// Starts a server that speaks TLS only, and shows this certificate.
    pub fn with_tls(leaf: &Leaf) -> Redis {
        let dir = folder();
        std::fs::write(dir.join("cert.pem"), &leaf.cert).expect("a certificate");
        std::fs::write(dir.join("key.pem"), &leaf.key).expect("a key");
        let port = free_port();
        let file = |name: &str| dir.join(name).display().to_string();
        let tls = [
            "--port",
            "0",
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &file("cert.pem"),
            "--tls-key-file",
            &file("key.pem"),
        ];
        let arguments = tls
            .into_iter()
            .chain(["--tls-auth-clients", "no"])
            .map(str::to_owned)
            .collect();
        let mut redis = Redis {
            process: None,
            arguments,
            port,
            dir,
            url: String::new(),
        };
        redis.again();
        redis
    }

    fn with(more: &[&str], login: &str) -> Redis {
        let port = free_port();
        let arguments = ["--port", &port.to_string()]
            .into_iter()
            .chain(more.iter().copied())
            .map(str::to_owned)
            .collect();
        let mut redis = Redis {
            process: None,
            arguments,
            port,
            dir: folder(),
            url: format!("redis://{login}127.0.0.1:{port}"),
        };
        redis.again();
        redis
    }

    /// Starts the server on its port, with no data in it.
    pub fn again(&mut self) {
        let mut command = Command::new("redis-server");
        command
            .args(&self.arguments)
            .args([
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
                "--dir",
            ])
            .arg(&self.dir);
        let mut process = Process::spawn(&mut command);
        let ready = |process: &mut Process| {
            let said = String::from_utf8_lossy(&process.stdout()).into_owned();
            assert!(
                process.exited().is_none(),
                "redis-server (apt-get install redis-server) does not run: {said}"
            );
            if said.contains("Ready to accept connections") {
                Ok(())
            } else {
                Err(said)
            }
        };
        eventually_blocking("redis-server is ready", || ready(&mut process)).expect("it is");
        self.process = Some(process);
    }

    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Sends a signal: `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        self.process.as_ref().expect("it runs").signal(name);
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Opens a connection for the test itself.
    pub fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url.as_str())
            .expect("a URL")
            .get_connection_with_timeout(PATIENCE)
            .expect("a connection")
    }

    pub fn keys(&self) -> Vec<String> {
        self.connection().keys("*").expect("keys")
    }

    pub fn flush(&self) {
        redis::cmd("FLUSHALL")
            .exec(&mut self.connection())
            .expect("it flushes");
    }

    /// Returns the use of a scope by all gateways together, and by each: requests, tokens and money
    /// of the day, money of the month, places, and requests and tokens in the ring of the minute.
    pub fn used(&self, key: &str) -> (Used, Vec<Used>) {
        const LOOK: &str = r"
            local all, parts = { 0, 0, 0, 0, 0, 0, 0 }, {}
            local fields = redis.call('HGETALL', KEYS[1])
            for i = 1, #fields, 2 do
              local f = cmsgpack.unpack(fields[i + 1])
              local p
              if fields[i] == 'all' then
                p = all
                for j = 1, #f[2], 4 do for k = 1, 3 do p[k] = p[k] + f[2][j + k] end end
                for j = 1, #f[3], 2 do p[4] = p[4] + f[3][j + 1] end
                for j = 1, #f[4], 2 do p[5] = p[5] + f[4][j + 1] end
                for j = 1, #f[1], 3 do p[6] = p[6] + f[1][j + 1] p[7] = p[7] + f[1][j + 2] end
              else
                p = { f[3], f[4], f[5], f[7], f[8], 0, 0 }
                for j = 1, #f[9], 3 do p[6] = p[6] + f[9][j + 1] p[7] = p[7] + f[9][j + 2] end
                parts[#parts + 1] = p
              end
            end
            return { all, parts }";
        let mut connection = self.connection();
        redis::cmd("EVAL")
            .arg(LOOK)
            .arg(1)
            .arg(key)
            .query(&mut connection)
            .expect("counts")
    }
}

/// The seven numbers of a use; see [`Redis::used`].
pub type Used = [u64; 7];

impl Drop for Redis {
    fn drop(&mut self) {
        self.process = None;
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn folder() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("redis-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder for the server");
    dir
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port")
        .port()
}

/// A connection to a server that delays each answer.
pub struct Slow {
    pub address: SocketAddr,
    delay: Arc<AtomicU64>,
    gone: Arc<AtomicBool>,
}

impl Slow {
    pub async fn to(port: u16) -> Slow {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (delay, gone) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (wait, over) = (delay.clone(), gone.clone());
        spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await else {
                    continue;
                };
                let (near, far) = (near.into_split(), far.into_split());
                spawn(pass(near.0, far.1, None));
                spawn(pass(far.0, near.1, Some(wait.clone())));
            }
        });
        Slow {
            address,
            delay,
            gone,
        }
    }

    /// Sets the time by which every answer is late.
    pub fn by(&self, delay: Duration) {
        self.delay
            .store(delay.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    delay: Option<Arc<AtomicU64>>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        if let Some(delay) = &delay {
            tokio::time::sleep(Duration::from_millis(delay.load(Ordering::Relaxed))).await;
        }
        if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}
