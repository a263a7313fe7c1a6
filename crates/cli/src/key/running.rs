//! A running gateway is asked whether a change of its files is live. It is asked at its admin
//! listener, whose address is in `server.yaml`.
//!
//! **Invariant:** only a gateway that serves this very folder is believed. The folder is known by
//! its device and inode.

use std::fs::{self, Metadata};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use crate::http::{self, PageError, get_from_address};
use crate::{fail_with, print_error, print_result};
use portcullis::base::address::reachable_address;
use portcullis::base::calendar::format_system_time;
use portcullis::base::secret::Secret;
use portcullis::catalog::amend::Files;
use portcullis::catalog::load::{Secrets, read_server};
use portcullis::conf::config::Server;
use portcullis::status::{CatalogReport, FolderReport};
use serde::Deserialize;

/// The longest time that a command waits for its change.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest wait for a connection. The listener is on this machine: if it takes no connection in
/// this time, it is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The time after which the gateway has noticed that a file changed.
const NOTICE_TIME: Duration = Duration::from_millis(500);
/// The pause between two questions.
const POLL_PAUSE: Duration = Duration::from_millis(50);
/// The time by which the clock of a file system may be behind.
const CLOCK_TICK: Duration = Duration::from_millis(20);

/// The reason why no gateway is known to run on this folder.
pub(crate) enum NotServed {
    /// No gateway runs on the folder.
    Absent(String),
    /// It is not known whether a gateway runs.
    Unknown(String),
}

/// The answer to whether a gateway on this folder has the change.
pub(super) enum Running {
    /// A gateway has the change.
    Has,
    /// A gateway runs, and does not have the change.
    Late(String),
    NotServed(NotServed),
}

impl Running {
    fn state_text(&self) -> String {
        match self {
            Self::Has => "the running gateway uses the change".to_owned(),
            Self::Late(why) => format!("the change is not in effect yet: {why}"),
            Self::NotServed(NotServed::Absent(why)) => {
                format!(
                    "no gateway runs on this folder ({why}); the next gateway that starts will use the change"
                )
            }
            Self::NotServed(NotServed::Unknown(why)) => {
                format!("it is unknown whether a gateway runs on this folder: {why}")
            }
        }
    }

    /// Prints that something is done. If the gateway does not have it, fails with `late`.
    pub(super) fn report(&self, done: &str, late: &str) -> ExitCode {
        match self {
            Self::Late(why) => fail_with(&format!("{late}: {why}")),
            Self::Has | Self::NotServed(_) => {
                print_result(&format!("{done}; {}\n", self.state_text()))
            }
        }
    }
}

/// Waits for a change of a file that was made just now, and prints the result. Fails if the gateway
/// does not have the change.
pub(super) fn report_live(files: &mut Files, file: usize) -> ExitCode {
    let running = wait_until_live(files, file, SystemTime::now());
    print_error(&running.state_text());
    match running {
        Running::Late(_) => ExitCode::FAILURE,
        Running::Has | Running::NotServed(_) => ExitCode::SUCCESS,
    }
}

/// Returns the latest time at which the last change of a file may have been made.
pub(super) fn written_at(files: &Files, file: usize) -> SystemTime {
    let changed = fs::metadata(files.name(file)).ok().and_then(|metadata| {
        let (seconds, nanoseconds) = (
            u64::try_from(metadata.ctime()).ok()?,
            u32::try_from(metadata.ctime_nsec()).ok()?,
        );
        Some(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds) + CLOCK_TICK)
    });
    changed.map_or_else(SystemTime::now, |changed| changed.min(SystemTime::now()))
}

/// Waits until the gateway that runs on the folder has everything that was written into a file
/// before the time `written`. Others may change keys meanwhile.
pub(super) fn wait_until_live(files: &mut Files, file: usize, written: SystemTime) -> Running {
    files.unlock();
    ask_until_live(files, file, written).unwrap_or_else(Running::NotServed)
}

fn ask_until_live(files: &Files, file: usize, written: SystemTime) -> Result<Running, NotServed> {
    let conf = files.conf();
    let folder = fs::metadata(conf)
        .map_err(|why| NotServed::Unknown(format!("{} cannot be read: {why}", conf.display())))?;
    let server = read_server(conf, Secrets::ReadIfPossible)
        .map_err(|problems| NotServed::Unknown(problems.to_string()))?;
    if server.admin.address.port() == 0 {
        let why = "`admin.address` in server.yaml has the port 0";
        return Err(NotServed::Unknown(why.to_owned()));
    }
    let address = reachable_address(server.admin.address);
    let key = http::listener_key(Some(&server.admin));
    // The status cuts times to milliseconds.
    let wanted = format_system_time(written + Duration::from_millis(2));
    let deadline = Instant::now() + CHANGE_TIMEOUT;
    let mut known = false;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let catalog = match ask_status(address, key.as_ref(), &folder, left.min(CONNECT_TIMEOUT)) {
            Ok(catalog) => catalog,
            Err(NotServed::Unknown(_)) if known && !left.is_zero() => continue,
            Err(why) => return Err(why),
        };
        known = true;
        if has_edit(&catalog, files.within(file), &wanted) {
            return Ok(Running::Has);
        }
        if left.is_zero() || (left < CHANGE_TIMEOUT - NOTICE_TIME && was_refused(&catalog, &wanted))
        {
            return Ok(Running::Late(delay_reason(&catalog, address)));
        }
        std::thread::park_timeout(POLL_PAUSE);
    }
}

/// Finds out whether the gateway that runs at the admin listener of these settings serves this
/// folder. If not, says what is there.
pub(crate) fn check_served(conf: &Path, settings: &Server) -> Result<(), NotServed> {
    let folder = fs::metadata(conf)
        .map_err(|why| NotServed::Unknown(format!("the folder cannot be read: {why}")))?;
    let address = reachable_address(settings.admin.address);
    ask_status(
        address,
        http::listener_key(Some(&settings.admin)).as_ref(),
        &folder,
        CONNECT_TIMEOUT,
    )
    .map(drop)
}

/// The part of `/status` that is read here. The gateway may have another version, and say other
/// things in the rest.
#[derive(Deserialize)]
struct Page {
    catalog: CatalogReport,
}

/// Asks for the status of the gateway that serves this folder.
fn ask_status(
    address: SocketAddr,
    key: Option<&Secret>,
    folder: &Metadata,
    timeout: Duration,
) -> Result<CatalogReport, NotServed> {
    let process = format!("the process that listens at {address}");
    let answer = get_from_address(address, &address.to_string(), "/status", key, timeout).map_err(
        |error| match error {
            PageError::NoAnswer(why) if is_timeout(&why) => {
                NotServed::Unknown(format!("{process} does not answer"))
            }
            PageError::NoAnswer(_) => NotServed::Absent(format!("no process answers at {address}")),
            PageError::NeedsKey => NotServed::Unknown(format!("{process} {error}")),
            PageError::Hidden(_) | PageError::OtherAnswer(_) => {
                NotServed::Absent(format!("{process} {error}"))
            }
        },
    )?;
    let no_folder = format!("{process} is not a gateway that reports its folder");
    let stranger = || NotServed::Absent(no_folder.clone());
    let Page { catalog } = serde_json::from_slice(&answer).map_err(|_| stranger())?;
    let FolderReport {
        path,
        device,
        inode,
    } = catalog.folder.as_ref().ok_or_else(stranger)?;
    if (*device, *inode) != (Some(folder.dev()), Some(folder.ino())) {
        let other = format!("{process} serves another folder, {path}");
        return Err(NotServed::Absent(other));
    }
    Ok(catalog)
}

fn is_timeout(why: &io::Error) -> bool {
    matches!(
        why.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// Returns whether an edit of the file from the wanted time is live. Times in this form sort as
/// texts.
fn has_edit(catalog: &CatalogReport, file: &str, wanted: &str) -> bool {
    catalog
        .files
        .iter()
        .any(|live| live.file == file && live.live_as_of.as_str() >= wanted)
}

/// Returns whether the edit was refused, and nothing came since that may correct it.
fn was_refused(catalog: &CatalogReport, wanted: &str) -> bool {
    let refused = catalog
        .last_refusal
        .as_ref()
        .is_some_and(|refusal| refusal.standing && refusal.time.as_str() >= wanted);
    refused && catalog.waiting.is_none()
}

/// Returns the reason why the edit is not live.
fn delay_reason(catalog: &CatalogReport, address: SocketAddr) -> String {
    let refused = catalog
        .last_refusal
        .as_ref()
        .filter(|refusal| refusal.standing);
    if let Some(reason) = refused.and_then(|refusal| refusal.reasons.first()) {
        return format!("the gateway refuses the present catalog: {reason}");
    }
    match &catalog.held {
        Some(held) => format!(
            "the gateway delays the change for some seconds, because the new catalog {held}"
        ),
        None => format!(
            "the gateway did not take the change within {} s; see `catalog.waiting` at http://{address}/status",
            CHANGE_TIMEOUT.as_secs()
        ),
    }
}
