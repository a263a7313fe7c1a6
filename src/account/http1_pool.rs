//! An [`Http1Pool`] holds the idle HTTP/1 connections of one account.
//!
//! We do not use Pingora's pool. It spawns a task for every connection that it takes back, and
//! wakes the task, on whatever thread, when the connection is taken out. With 256 connections
//! instead of 32, this was the larger part of the extra cost. Here a connection that goes idle
//! costs one push. A sweep, every two seconds, closes connections that the upstream has closed or
//! that were idle for too long.

use crate::base::clock::Clock;
use crate::base::lock::Lock;
use pingora::protocols::Stream;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::unconstrained;

/// The longest time that a connection stays idle: most servers close it after 60 s or more.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(55);
/// The most connections that are kept for one account.
const MAX_IDLE: usize = 1024;

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
                let index = idle.iter().rposition(|i| i.fingerprint == fingerprint)?;
                idle.remove(index)
            };
            if is_quiet(&mut stream) {
                return Some(stream);
            }
        }
    }

    /// Keeps a connection for the next request.
    pub fn put(&self, stream: Stream, fingerprint: u64) {
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(Idle {
                stream,
                since: Clock::now(),
                fingerprint,
            });
        }
    }

    /// Closes connections that are dead, too old, or of another fingerprint than the account has
    /// now.
    pub fn sweep(&self, fingerprint: Option<u64>, now: Instant) {
        let mut idle = self.idle.lock();
        idle.retain_mut(|i| {
            Some(i.fingerprint) == fingerprint
                && now.duration_since(i.since) < IDLE_TIMEOUT
                && is_quiet(&mut i.stream)
        });
    }

    /// Returns the number of idle connections.
    pub fn idle(&self) -> usize {
        self.idle.lock().len()
    }
}

/// Returns whether the peer has neither closed the connection nor sent anything. On an idle
/// connection, both mean that it is of no use.
///
/// The look is not bound by the task's budget of operations: when that is used up, every connection
/// would seem quiet, and what a peer has sent would be taken for the answer to the next request.
fn is_quiet(stream: &mut Stream) -> bool {
    let mut byte = [0u8; 1];
    let mut buf = ReadBuf::new(&mut byte);
    let read = poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut buf));
    pin!(unconstrained(read))
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_pending()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Poll;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::coop::poll_proceed;

    /// The peer's end of a connection, and the pool that keeps the other end.
    async fn kept() -> (TcpStream, Http1Pool) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let ours = TcpStream::connect(listener.local_addr().expect("an address"))
            .await
            .expect("a connection");
        let (theirs, _) = listener.accept().await.expect("a connection");
        let pool = Http1Pool::default();
        pool.put(
            Box::new(pingora::protocols::l4::stream::Stream::from(ours)),
            1,
        );
        (theirs, pool)
    }

    #[tokio::test]
    async fn a_connection_is_reused_only_if_nothing_came() {
        let (_theirs, pool) = kept().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(pool.take(2).is_none(), "it is another account's");
        assert!(pool.take(1).is_some());

        let (mut theirs, pool) = kept().await;
        theirs
            .write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
            .await
            .expect("a write");
        tokio::time::sleep(Duration::from_millis(20)).await;
        // The task's budget of operations is used up, as by a large body that comes at once.
        let spend =
            |context: &mut Context<'_>| poll_proceed(context).map(|one| one.made_progress());
        while poll_fn(|context| Poll::Ready(spend(context).is_ready())).await {}
        assert!(
            pool.take(1).is_none(),
            "the next request would get this answer"
        );

        let (theirs, pool) = kept().await;
        drop(theirs);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(pool.take(1).is_none(), "it has ended");
    }
}
