//! An [`Http1Pool`] holds the idle HTTP/1 connections of one account.
//!
//! We do not use Pingora's pool. It spawns a task for every connection that it takes back, and
//! wakes the task, on whatever thread, when the connection is taken out. With 256 connections
//! instead of 32, this was the larger part of the extra cost. Here a connection that goes idle
//! costs one push. A sweep, every two seconds, closes connections that the upstream has closed or
//! that were idle for too long.

use crate::base::lock::Lock;
use pingora::protocols::Stream;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::ReadBuf;

/// The longest time that a connection stays idle: most servers close it after 60 s or more.
pub(super) const IDLE: Duration = Duration::from_secs(55);
/// The most connections that are kept for one account.
const MOST: usize = 1024;

/// The connections; the last used one is taken first, since it is the least likely to be stale.
#[derive(Default)]
pub struct Http1Pool {
    idle: Lock<Vec<Idle>>,
}

struct Idle {
    stream: Stream,
    since: Instant,
    /// The fingerprint of address, TLS and credential, so that a rotated key never gets an old
    /// connection.
    fingerprint: u64,
}

impl Http1Pool {
    /// Takes a connection that is still open, as far as can be seen without sending anything.
    pub fn take(&self, fingerprint: u64) -> Option<Stream> {
        loop {
            let Idle { mut stream, .. } = {
                let mut idle = self.idle.lock();
                let place = idle.iter().rposition(|i| i.fingerprint == fingerprint)?;
                idle.remove(place)
            };
            if quiet(&mut stream) {
                return Some(stream);
            }
        }
    }

    /// Keeps a connection for the next request.
    pub fn put(&self, stream: Stream, fingerprint: u64) {
        let mut idle = self.idle.lock();
        if idle.len() < MOST {
            idle.push(Idle { stream, since: Instant::now(), fingerprint });
        }
    }

    /// Closes connections that are dead, too old, or of another fingerprint than the account has
    /// now.
    pub fn sweep(&self, fingerprint: Option<u64>, now: Instant) {
        let mut idle = self.idle.lock();
        idle.retain_mut(|i| {
            Some(i.fingerprint) == fingerprint && now.duration_since(i.since) < IDLE && quiet(&mut i.stream)
        });
    }

    /// Returns the number of idle connections.
    pub fn idle(&self) -> usize {
        self.idle.lock().len()
    }
}

/// Returns whether the peer has neither closed the connection nor sent anything. On an idle
/// connection, both mean that it is of no use.
fn quiet(stream: &mut Stream) -> bool {
    let mut byte = [0u8; 1];
    let mut buf = ReadBuf::new(&mut byte);
    let mut context = Context::from_waker(Waker::noop());
    matches!(tokio::io::AsyncRead::poll_read(std::pin::Pin::new(stream), &mut context, &mut buf), Poll::Pending)
}
