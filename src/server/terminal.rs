//! The terminal in which the process was started. Whoever closes it means to end what runs there:
//! a gateway that stayed would have its port, and nobody would see it. Without a terminal, as under
//! a service manager, SIGHUP only means to read the files again.

use std::fs::{self, File};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// The time between two looks after a signal: a shell may send it before the terminal is gone.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// The number of looks.
const LOOKS: u32 = 10;

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

    /// Waits until the terminal is closed.
    pub(super) async fn wait_until_closed(&self) {
        if self.ends_process
            && let Ok(mut hang_ups) = signal(SignalKind::hangup())
        {
            while hang_ups.recv().await.is_some() {
                for _ in 0..LOOKS {
                    if !is_present() {
                        return;
                    }
                    tokio::time::sleep(LOOK_PAUSE).await;
                }
            }
        }
        std::future::pending().await
    }
}

fn is_present() -> bool {
    File::open("/dev/tty").is_ok()
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
