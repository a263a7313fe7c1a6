//! Idle HTTP/1 connections of one account.
//!
//! Ours and not Pingora's, because its pool spawns a task for every connection that it takes back,
//! and wakes it, on whatever thread, when the connection is taken out: at 256 connections that was
//! the larger part of what they cost more than 32. Here a connection that goes idle costs one push;
//! the sweep, every two seconds, closes what the upstream has closed or what was idle for too long.

use crate::base::lock::Lock;
use pingora::protocols::Stream;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::ReadBuf;

/// Longer than this no connection waits for its next request: most servers close at 60 s or more.
pub(super) const IDLE: Duration = Duration::from_secs(55);
/// More are never kept for one account.
const MOST: usize = 1024;

/// The connections, the last used first: it is the least likely to be stale.
#[derive(Default)]
pub struct Http1Pool {
    idle: Lock<Vec<Idle>>,
}

struct Idle {
    stream: Stream,
    since: Instant,
    /// Address, TLS and credential all agree if this does, so that a rotated key never meets an old
    /// connection.
    fingerprint: u64,
}

impl Http1Pool {
    /// Takes a connection that is still open, as far as can be seen without asking.
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

    /// Closes what is dead, too old, or of another fingerprint than the account's present one.
    pub fn sweep(&self, fingerprint: Option<u64>, now: Instant) {
        let mut idle = self.idle.lock();
        idle.retain_mut(|i| {
            Some(i.fingerprint) == fingerprint && now.duration_since(i.since) < IDLE && quiet(&mut i.stream)
        });
    }

    /// Returns how many connections are idle.
    pub fn idle(&self) -> usize {
        self.idle.lock().len()
    }
}

/// True if the peer has neither closed nor spoken: on an idle connection both mean that it is of no
/// use.
fn quiet(stream: &mut Stream) -> bool {
    let mut byte = [0u8; 1];
    let mut buf = ReadBuf::new(&mut byte);
    let mut context = Context::from_waker(Waker::noop());
    matches!(tokio::io::AsyncRead::poll_read(std::pin::Pin::new(stream), &mut context, &mut buf), Poll::Pending)
}
