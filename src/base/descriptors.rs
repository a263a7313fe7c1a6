//! The file descriptors of the process: how many it may have, and what is left of them for new
//! connections.
//!
//! A connection takes the lowest descriptor that is free. So the number of a new one says, without
//! a count, how many are open at least. **Invariant:** connections leave the last `RESERVE`
//! descriptors free, for the admin listener and for files: an operator sees what happens, whoever
//! took the others.

use crate::base::lock::Lock;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The descriptors that connections leave free.
const RESERVE: u64 = 32;
/// The advice to an operator about too few of them.
pub const REMEDY: &str = "Raise the limit where the gateway is started (`LimitNOFILE=` in a systemd unit, `ulimit -n` in a shell)";
/// The time without a lack after which there is none any more.
const CALM: Duration = Duration::from_secs(5);

/// The descriptors of this process.
pub struct Descriptors {
    limit: AtomicU64,
    /// A file that is copied to see which descriptor comes next.
    probe: Option<File>,
    /// The number of times that none was free for a connection.
    lacks: AtomicU64,
    /// The time of the last of them, while the lack lasts.
    lacking: Lock<Option<Instant>>,
    lacked: Notify,
}

impl Default for Descriptors {
    fn default() -> Descriptors {
        Descriptors {
            limit: AtomicU64::new(soft_limit()),
            probe: File::open("/dev/null").ok(),
            lacks: AtomicU64::new(0),
            lacking: Lock::default(),
            lacked: Notify::new(),
        }
    }
}

impl Descriptors {
    /// Returns the most descriptors that the process may have.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Returns whether one is free for another connection.
    pub fn has_room(&self) -> bool {
        let Some(probe) = &self.probe else {
            return true;
        };
        probe
            .try_clone()
            .is_ok_and(|next| self.is_within(next.as_raw_fd()))
    }

    /// Returns whether the descriptor of a connection is not one of those that are left free.
    pub fn is_within(&self, descriptor: i32) -> bool {
        let limit = self.limit();
        // A process that may have very few cannot leave as many free.
        let usable_limit = limit - RESERVE.min(limit / 4);
        u64::try_from(descriptor).map_or(true, |number| number < usable_limit)
    }

    /// Notes that a connection was not made, since no descriptor was free for it.
    pub fn note_lack(&self) {
        self.lacks.fetch_add(1, Ordering::Relaxed);
        let before = self.lacking.lock().replace(Instant::now());
        if before.is_none() {
            let limit = self.limit();
            log::error!(
                "no file descriptor is free for another connection: the process may have {limit} files open. Requests are \
                 refused with 503 until some are free. {REMEDY}."
            );
        }
        self.lacked.notify_one();
    }

    /// Returns the number of connections that were not made.
    pub fn lacks(&self) -> u64 {
        self.lacks.load(Ordering::Relaxed)
    }

    /// Returns whether none is free, or was a moment ago.
    pub fn is_lacking(&self) -> bool {
        self.lacking.lock().is_some()
    }

    /// Waits until a connection was not made.
    pub async fn wait_for_lack(&self) {
        self.lacked.notified().await;
    }

    /// Finds out whether the lack has ended, and what the limit is now: an operator may raise it
    /// while the process runs.
    pub fn refresh(&self) {
        self.limit.store(soft_limit(), Ordering::Relaxed);
        let has_room = self.has_room();
        let mut lacking = self.lacking.lock();
        if has_room && lacking.is_some_and(|last| last.elapsed() >= CALM) {
            *lacking = None;
            // The log may have to wait for its reader.
            drop(lacking);
            log::info!("file descriptors are free again");
        }
    }
}

/// Raises the limit of this process as far as it may. The lower one is a default for programs that
/// cannot cope with more.
pub fn raise_limit() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    if soft < hard
        && let Err(why) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        log::warn!(
            "the process may have {soft} files open, and the limit cannot be raised to {hard}: {why}"
        );
    }
}

/// Returns the most files that a process may have open which raises its limit.
pub fn hard_limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(_, hard)| hard)
}

fn soft_limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft)
}

/// Returns whether the system had no descriptor left: of this process, or of all processes.
pub fn is_lack(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::EMFILE | Errno::ENFILE)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(limit: u64) -> Descriptors {
        Descriptors {
            limit: AtomicU64::new(limit),
            ..Descriptors::default()
        }
    }

    #[test]
    fn the_last_descriptors_are_left_free() {
        let is_within = |limit, descriptor| limited(limit).is_within(descriptor);
        assert!(is_within(1024, 991) && !is_within(1024, 992));
        assert!(
            is_within(64, 47) && !is_within(64, 48),
            "of very few, a quarter is left free"
        );
        assert!(
            is_within(u64::MAX, i32::MAX) && is_within(1024, -1),
            "what has no socket has no descriptor"
        );
    }

    #[test]
    fn a_lack_lasts_until_some_are_free() {
        let descriptors = limited(0);
        assert!(!descriptors.has_room() && !descriptors.is_lacking());
        descriptors.note_lack();
        descriptors.note_lack();
        assert!(descriptors.is_lacking() && descriptors.lacks() == 2);
        descriptors.refresh();
        assert!(descriptors.is_lacking(), "it was a moment ago");
        assert!(
            descriptors.has_room(),
            "the limit is that of the process now"
        );
    }

    #[test]
    fn a_lack_is_told_from_other_errors() {
        assert!(
            is_lack(&std::io::Error::from(Errno::EMFILE))
                && is_lack(&std::io::Error::from(Errno::ENFILE))
        );
        assert!(!is_lack(&std::io::Error::from(Errno::ECONNREFUSED)));
    }
}
