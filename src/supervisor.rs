//! A [`Supervisor`] is the service manager that started the process, such as systemd with
//! `Type=notify`. It gets a message when the process serves, what it does, and when it stops.
//!
//! The protocol is `sd_notify(3)`: one datagram for each message, to the Unix socket that
//! `NOTIFY_SOCKET` names. Without that variable no message is sent.

use crate::base::lock::Lock;
use crate::base::units::format_count;
use crate::drain::{Drain, Phase};
use crate::live::Live;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::pin::pin;
use std::time::Duration;

/// The longest wait for a service manager that does not read.
const SEND_TIMEOUT: Duration = Duration::from_millis(500);
/// The time between two checks for a new message.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two messages while a start takes long.
const START_INTERVAL: Duration = Duration::from_secs(5);
/// The message while a listener waits for its certificate: it asks the service manager for 30 more
/// seconds, so that it does not give the start up.
const STARTING: &str =
    "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=starting: the log says what is awaited";
/// The shortest time between two messages to the watchdog.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// The time that a process needs after its drain, to write what waits.
const LAST_WORK: Duration = Duration::from_secs(10);

/// The receiver of the messages, and how often it expects a sign of life.
#[derive(Default)]
pub struct Supervisor {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
    /// True if the last message failed. A second failure is not logged.
    has_failed: Lock<bool>,
}

impl Supervisor {
    /// Returns the service manager that the environment names, if there is one.
    pub fn from_environment() -> Supervisor {
        let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Supervisor::default();
        };
        let socket = open_socket(&name).inspect_err(|why| {
            log::warn!("NOTIFY_SOCKET: the service manager cannot be told anything: {why}")
        });
        let read_variable = |name| env::var(name).ok();
        let watchdog = watchdog_interval(
            read_variable("WATCHDOG_USEC").as_deref(),
            read_variable("WATCHDOG_PID").as_deref(),
            std::process::id(),
        );
        Supervisor {
            socket: socket.ok(),
            watchdog,
            has_failed: Lock::default(),
        }
    }

    /// Sends `READY=1` once the process serves, then a status line whenever it changes, and signs
    /// of life if they are expected. Goes on until the process ends.
    pub async fn keep_informed(&self, live: &Live, drain: &Drain) {
        if self.socket.is_none() {
            return;
        }
        let mut serving = pin!(drain.wait_for_phase(Phase::Serving));
        while tokio::time::timeout(START_INTERVAL, &mut serving)
            .await
            .is_err()
        {
            self.send_message(STARTING);
        }
        let tick = self.watchdog.map_or(STATUS_INTERVAL, |time| {
            (time / 2).clamp(MIN_INTERVAL, STATUS_INTERVAL)
        });
        let mut last_status = String::new();
        // A process that is stopped before it serves was never ready.
        let mut ready_line = if drain.ready() { "READY=1\n" } else { "" };
        loop {
            let status = status_line(live, drain);
            if status != last_status {
                self.send_message(&format!("{ready_line}STATUS={status}"));
                ready_line = "";
                last_status = status;
            }
            if self.watchdog.is_some() {
                self.send_message("WATCHDOG=1");
            }
            tokio::time::sleep(tick).await;
        }
    }

    /// Reports that the process stops, and asks for as much time as its drain may take.
    pub fn announce_stop(&self, drain: Duration) {
        let time = (drain + LAST_WORK).as_micros();
        self.send_message(&format!(
            "STOPPING=1\nEXTEND_TIMEOUT_USEC={time}\nSTATUS=stopping"
        ));
    }

    fn send_message(&self, message: &str) {
        let Some((socket, address)) = &self.socket else {
            return;
        };
        let sent = socket.send_to_addr(message.as_bytes(), address);
        let had_failed = std::mem::replace(&mut *self.has_failed.lock(), sent.is_err());
        if let (Err(why), false) = (sent, had_failed) {
            log::warn!(
                "NOTIFY_SOCKET: the service manager could not be told how the process is: {why}"
            );
        }
    }
}

/// Opens a socket to send from, and reads the address of the service manager. `@` begins the name
/// of an abstract socket.
fn open_socket(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.as_bytes().split_first() {
        Some((b'@', rest)) => SocketAddr::from_abstract_name(rest)?,
        Some((b'/', _)) => SocketAddr::from_pathname(name)?,
        _ => {
            let problem = "the name of the socket must begin with / or @";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(SEND_TIMEOUT))?;
    Ok((socket, address))
}

/// Returns the time within which the service manager expects a sign of life. `None` if it expects
/// none, or none of this process.
fn watchdog_interval(
    microseconds: Option<&str>,
    pid: Option<&str>,
    own_pid: u32,
) -> Option<Duration> {
    let is_ours = pid.is_none_or(|pid| pid.parse() == Ok(own_pid));
    let time = microseconds?
        .parse()
        .ok()
        .filter(|time| *time > 0)
        .map(Duration::from_micros);
    time.filter(|_| is_ours)
}

/// Writes in one line what the process does.
fn status_line(live: &Live, drain: &Drain) -> String {
    match drain.phase() {
        Phase::Starting | Phase::Serving => {
            let snapshot = live.load();
            let models = snapshot.catalog.models().len();
            format!(
                "serving {}, catalog {}",
                format_count(models, "model"),
                snapshot.generation
            )
        }
        Phase::Delaying | Phase::Draining | Phase::Cutting => {
            let run = drain.exchanges();
            let runs = if run == 1 { "runs" } else { "run" };
            format!("stopping: {} {runs}", format_count(run, "exchange"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sockets() {
        for good in ["/run/systemd/notify", "@a", "@"] {
            assert!(open_socket(OsStr::new(good)).is_ok(), "{good}");
        }
        let long = format!("/{}", "x".repeat(200));
        for wrong in [
            "",
            "run/notify",
            "vsock:2:1234",
            &long,
            &long.replace('/', "@"),
        ] {
            assert!(open_socket(OsStr::new(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_watchdog_is_for_this_process_only() {
        let second = Some(Duration::from_secs(1));
        for (time, pid, expected) in [
            (Some("1000000"), None, second),
            (Some("1000000"), Some("7"), second),
            (Some("1000000"), Some("8"), None),
            (Some("1000000"), Some("x"), None),
            (Some("0"), None, None),
            (Some("-1"), None, None),
            (Some("soon"), None, None),
            (None, Some("7"), None),
        ] {
            assert_eq!(
                watchdog_interval(time, pid, 7),
                expected,
                "{time:?} {pid:?}"
            );
        }
    }
}
