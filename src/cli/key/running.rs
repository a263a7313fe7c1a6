//! Whether the gateway that runs on a folder has a change of it: asked of its admin listener, where
//! `server.yaml` says that it is.
//!
//! **Invariant:** only a gateway that serves this very folder is believed, by the folder's device
//! and inode.

use std::fs::{self, Metadata};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;

use crate::calendar::rfc3339;
use crate::catalog::amend::Files;
use crate::catalog::load::{Secrets, server};
use crate::cli::http::get;
use crate::cli::tell;

/// So long a change is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// The listener is on this machine: who does not take a connection for so long is not there.
const NEAR: Duration = Duration::from_secs(2);
/// By then the gateway has seen that something changed.
const SEEN: Duration = Duration::from_millis(500);
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(50);
/// File systems have clocks that are behind by as much.
const TICK: Duration = Duration::from_millis(20);

/// What is known of a gateway on this folder.
pub(super) enum Running {
    /// It has the change.
    Has,
    /// There is none.
    Nobody(String),
    /// Whether there is one cannot be told.
    Unknown(String),
    /// There is one, and it does not have the change.
    Late(String),
}

impl Running {
    pub(super) fn says(&self) -> String {
        match self {
            Self::Has => "the running gateway has it".to_owned(),
            Self::Nobody(why) => {
                format!("no gateway runs on this folder ({why}); the next one that starts will have it")
            }
            Self::Unknown(why) => format!("whether a gateway runs on this folder is not known: {why}"),
            Self::Late(why) => format!("it is not in effect yet: {why}"),
        }
    }
}

/// Waits for a change of a file that was made at that time, and says how it went; fails if the
/// gateway does not have it.
pub(super) fn tell_of(files: &mut Files, file: usize, printed: ExitCode) -> ExitCode {
    let running = wait(files, file, SystemTime::now());
    tell(&running.says());
    match running {
        Running::Late(_) => ExitCode::FAILURE,
        Running::Has | Running::Nobody(_) | Running::Unknown(_) => printed,
    }
}

/// When a file was changed last, at the latest.
pub(super) fn written_at(files: &Files, file: usize) -> SystemTime {
    let changed = fs::metadata(files.name(file)).ok().and_then(|metadata| {
        let (seconds, nanoseconds) =
            (u64::try_from(metadata.ctime()).ok()?, u32::try_from(metadata.ctime_nsec()).ok()?);
        Some(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds) + TICK)
    });
    changed.map_or_else(SystemTime::now, |changed| changed.min(SystemTime::now()))
}

/// Waits until the gateway that runs on the folder has what was written into a file before that
/// time. Meanwhile others may change keys.
pub(super) fn wait(files: &mut Files, file: usize, written: SystemTime) -> Running {
    files.unlock();
    let folder = match fs::metadata(files.conf()) {
        Ok(folder) => folder,
        Err(why) => return Running::Unknown(format!("{} cannot be read: {why}", files.conf().display())),
    };
    let address = match server(files.conf(), Secrets::Assume) {
        Ok(server) if server.admin.port() == 0 => {
            return Running::Unknown("`admin.address` in server.yaml has no port".to_owned());
        }
        Ok(server) => reachable(server.admin),
        Err(problems) => return Running::Unknown(problems.to_string()),
    };
    // What is told is cut to milliseconds.
    let wanted = rfc3339(written + Duration::from_millis(2));
    let deadline = Instant::now() + PATIENCE;
    let mut known = false;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let page = match ask(address, &folder, left.min(NEAR)) {
            Ok(page) => page,
            Err(Running::Unknown(_)) if known && !left.is_zero() => continue,
            Err(other) => return other,
        };
        known = true;
        if page.has(files.within(file), &wanted) {
            return Running::Has;
        }
        if left.is_zero() || (left < PATIENCE - SEEN && page.refuses(&wanted)) {
            return Running::Late(page.why(address));
        }
        std::thread::park_timeout(PAUSE);
    }
}

/// Where to reach who listens there.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        } else {
            IpAddr::V6(Ipv6Addr::LOCALHOST)
        });
    }
    address
}

/// What the gateway that serves this folder tells.
fn ask(address: SocketAddr, folder: &Metadata, patience: Duration) -> Result<Catalog, Running> {
    let none = |what: &str| Running::Nobody(format!("what listens at {address} {what}"));
    let answer = match get(address, &address.to_string(), "/status", patience) {
        Ok(answer) => answer.map_err(|why| none(&why))?,
        Err(why) => {
            let waited = matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
            let silent = || Running::Unknown(format!("what listens at {address} does not answer"));
            return Err(if waited { silent() } else { Running::Nobody(format!("nobody answers at {address}")) });
        }
    };
    let page: Page =
        serde_json::from_slice(&answer).map_err(|_| none("is no gateway that tells which folder it serves"))?;
    let Folder { path, device, inode } = &page.catalog.folder;
    if (*device, *inode) != (Some(folder.dev()), Some(folder.ino())) {
        return Err(none(&format!("serves another folder, {path}")));
    }
    Ok(page.catalog)
}

#[derive(Deserialize)]
struct Page {
    catalog: Catalog,
}

#[derive(Deserialize)]
struct Catalog {
    folder: Folder,
    files: Vec<Told>,
    held: Option<String>,
    last_refusal: Option<Refusal>,
    waiting: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Folder {
    path: String,
    device: Option<u64>,
    inode: Option<u64>,
}

#[derive(Deserialize)]
struct Told {
    file: String,
    live_as_of: String,
}

#[derive(Deserialize)]
struct Refusal {
    time: String,
    standing: bool,
    reasons: Vec<String>,
}

impl Catalog {
    /// Times of this form sort as texts.
    fn has(&self, file: &str, wanted: &str) -> bool {
        self.files.iter().any(|told| told.file == file && told.live_as_of.as_str() >= wanted)
    }

    /// Whether it was looked at, and is wrong, and nothing came since that may mend it.
    fn refuses(&self, wanted: &str) -> bool {
        let refused =
            self.last_refusal.as_ref().is_some_and(|refusal| refusal.standing && refusal.time.as_str() >= wanted);
        refused && self.waiting.is_none()
    }

    fn why(&self, address: SocketAddr) -> String {
        let refused = self.last_refusal.as_ref().filter(|refusal| refusal.standing);
        if let Some(reason) = refused.and_then(|refusal| refusal.reasons.first()) {
            return format!("the gateway refuses the catalog as it is now: {reason}");
        }
        match &self.held {
            Some(held) => format!("the gateway holds the change back for some seconds, since the catalog {held}"),
            None => format!(
                "the gateway did not take it within {} s; http://{address}/status tells more, as `catalog.waiting`",
                PATIENCE.as_secs()
            ),
        }
    }
}
