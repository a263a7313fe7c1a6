//! A subject is a row that is running: the mock alone, the gateway, a bare proxy on Pingora, nginx
//! with Lua, or another gateway.

use std::ffi::OsString;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::Plan;
use crate::callers::{Kind, Load};
use crate::commands::{self, Place};
use crate::mock::{self, Mock};
use crate::process::Process;
use crate::row::Row;

/// Returns the gateway under test: the one that was built with this benchmark, or another build of
/// it, at the path in `SERVED_PROGRAM`.
pub fn program() -> OsString {
    std::env::var_os("SERVED_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_portcullis").into())
}

/// The variable in which the catalog finds the upstream's key.
pub const KEY_VARIABLE: &str = "PORTCULLIS_LOAD_UPSTREAM_KEY";
pub const CALLER_KEY: &str = "sk-load-caller-0001";

/// What all subjects are started with.
pub struct World {
    /// The names of the mock's models that scenarios need, without the `mock-`.
    pub wanted: Vec<String>,
    /// The number of threads or processes that serve.
    pub workers: usize,
}

impl World {
    /// Returns the models that are served: those wanted, and those that everybody needs.
    pub fn models(&self) -> Vec<&str> {
        let mut models: Vec<&str> = self
            .wanted
            .iter()
            .map(String::as_str)
            .chain(["plain", "held", "stream-5-2"])
            .collect();
        models.sort_unstable();
        models.dedup();
        // Smg knows only the first of its worker's models.
        models.sort_by_key(|model| *model != "plain");
        models
    }
}

/// A subject that is running.
pub struct Subject {
    pub row: Row,
    pub address: SocketAddr,
    /// The process; `None` for the mock itself.
    pub process: Option<Process>,
    /// The subject's own folder, which is removed at the end.
    pub folder: PathBuf,
}

impl Subject {
    /// Starts a subject, and waits for its first right answer.
    pub async fn start(
        row: Row,
        mock: &Mock,
        folder: &Path,
        world: &World,
    ) -> Result<Subject, String> {
        let folder = folder.join(row.name().replace(' ', "-"));
        let failed = |why: String| format!("{}: {why}", row.name());
        // Somebody else may take a port between our check and the start.
        let mut tries = 3;
        loop {
            tries -= 1;
            fs::create_dir_all(&folder).map_err(|e| failed(e.to_string()))?;
            let mut subject = Subject {
                row,
                address: mock.address,
                process: None,
                folder: folder.clone(),
            };
            if row != Row::Direct {
                let [port, admin] = free_ports().map_err(|e| failed(e.to_string()))?;
                subject.address = port;
                let place = Place {
                    folder: &folder,
                    port,
                    admin,
                    upstream: mock.address,
                    world,
                };
                subject.process = Some(start_process(row, &place).map_err(failed)?);
            }
            match subject.ready().await {
                Err(why) if why.to_ascii_lowercase().contains("in use") && tries > 0 => {}
                Err(why) => return Err(failed(why)),
                Ok(()) => return Ok(subject),
            }
        }
    }

    async fn ready(&mut self) -> Result<(), String> {
        let (start, timeout) = (Instant::now(), self.row.start_timeout());
        let load = self.load("plain", Kind::Plain, 1, 0);
        loop {
            let Err(why) = load.ask_once().await else {
                return Ok(());
            };
            if let Some(said) = self.process.as_mut().and_then(Process::ended) {
                return Err(said);
            }
            if start.elapsed() > timeout {
                return Err(format!("no right answer in {} s: {why}", timeout.as_secs()));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn warm_up(&self, plan: &Plan) {
        self.load("plain", Kind::Plain, 32, 0)
            .run(plan.time / 3)
            .await;
    }

    /// Returns the load of callers of this subject. The body is filled up to so many bytes.
    pub fn load(&self, model: &str, kind: Kind, callers: usize, bytes: usize) -> Load {
        let key = if self.row.passes_key() {
            mock::KEY
        } else {
            CALLER_KEY
        };
        let prefix = if self.row.renames() { "bench" } else { "mock" };
        let body = kind.body(&format!("{prefix}-{model}"), bytes);
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            kind.path(),
            self.address,
            body.len()
        );
        Load {
            to: self.address,
            request: request.into_bytes().into(),
            kind,
            callers,
        }
    }

    /// Writes a request that asks whether a model is served.
    pub fn look_up(&self, model: &str) -> Vec<u8> {
        format!(
            "GET /v1/models/{model} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {CALLER_KEY}\r\n\r\n",
            self.address
        )
        .into_bytes()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.process = None;
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn start_process(row: Row, place: &Place<'_>) -> Result<Process, String> {
    let mut command = match row {
        Row::Direct => return Err("the mock runs already".to_owned()),
        Row::Portcullis => commands::portcullis(place),
        Row::Bare => commands::bare(place),
        Row::Lua => commands::lua(place),
        Row::LiteLlm => commands::litellm(place),
        Row::Smg | Row::VllmRouter | Row::SglangRouter => commands::router(row, place),
    }?;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut process = Process::start(row.name(), &mut command, place.folder)?;
    process.enter_group();
    Ok(process)
}

fn free_ports() -> std::io::Result<[SocketAddr; 2]> {
    let (one, other) = (
        TcpListener::bind("127.0.0.1:0")?,
        TcpListener::bind("127.0.0.1:0")?,
    );
    Ok([one.local_addr()?, other.local_addr()?])
}
