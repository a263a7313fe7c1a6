//! The terminal in which the process was started. Whoever closes it means to end what runs there:
//! a gateway that stayed would have its port, and nobody would see it. Without a terminal, as under
//! a service manager, SIGHUP only means to read the files again.

use std::fs::{self, File};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

/// The time between two checks whether the terminal was closed without a signal.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// The time for which the signal of a terminal that is gone may still come.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(1);
/// What the system says of a terminal that is gone (ENXIO), or that has hung up (EIO).
const GONE: [i32; 2] = [6, 5];

/// The terminal of the process, if it has one that ends it.
pub(super) struct Terminal {
    ends_process: bool,
}

impl Terminal {
    /// Finds out whether there is one. What `nohup` has started outlives its terminal.
    pub(super) fn at_start() -> Terminal {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Terminal {
            ends_process: is_present() && !ignores_hang_up(&status),
        }
    }

    /// Waits until the terminal is closed, and its signal comes. If none comes, the process was
    /// meant to outlive it, as after `disown`: then the signal is for other things from now on.
    pub(super) async fn wait_until_closed(&self) {
        if self.ends_process
            && let Ok(mut hang_ups) = signal(SignalKind::hangup())
        {
            // A shell may send the signal a moment before the terminal is gone.
            let mut was_signalled = false;
            loop {
                let is_signal = timeout(CHECK_INTERVAL, hang_ups.recv()).await.is_ok();
                let was_just_signalled = std::mem::replace(&mut was_signalled, is_signal);
                // The system takes the terminal away before it sends the signal.
                if is_signal && is_gone() {
                    return;
                }
                if !is_signal && is_gone() {
                    if was_just_signalled || timeout(SIGNAL_TIMEOUT, hang_ups.recv()).await.is_ok()
                    {
                        return;
                    }
                    log::info!("the terminal was closed, and no signal came: the gateway goes on");
                    break;
                }
            }
        }
        std::future::pending().await
    }
}

fn is_present() -> bool {
    File::open("/dev/tty").is_ok()
}

/// Returns whether the terminal is gone. Other errors, such as too many open files, do not show it.
fn is_gone() -> bool {
    let error = File::open("/dev/tty").err();
    error
        .and_then(|why| why.raw_os_error())
        .is_some_and(|code| GONE.contains(&code))
}

/// Returns whether the process was started with SIGHUP ignored, by the text of
/// `/proc/self/status`.
fn ignores_hang_up(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The first bit stands for the signal 1, which is SIGHUP.
    ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nohup_has_started_ignores_the_signal() {
        assert!(ignores_hang_up("Name:\tx\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hang_up("SigIgn:\t0000000000001000\nSigCgt:\t1\n"));
        assert!(!ignores_hang_up(""));
    }
}
