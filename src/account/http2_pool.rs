//! HTTP/2 connections of one account: each carries many requests at once.
//!
//! Ours and not Pingora's. Its pools take a connection out while they open a stream on it, so that
//! whoever asks at that moment dials another; and where the end of another stream meets that, the
//! connection is put back twice and taken out once: what is left of it is closed by nobody, unless
//! somebody with the same credential comes. Here a connection stays where all see it, and the
//! sweep, every two seconds, lets go of what is closed, was idle for too long, is old, or has old
//! settings. Requests on a connection that was let go of keep it open until they are done.

use super::http1_pool::IDLE;
use crate::base::lock::Lock;
use pingora::connectors::http::v2::ConnectionRef;
use pingora::protocols::http::v2::client::Http2Session;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// As old as this a connection is left for another: some of what h2 counts against a peer it counts
/// for a connection's whole life.
const LIFE: Duration = Duration::from_secs(3600);
/// So many more requests must find room on what is there, or a new connection is kept.
const SPARE: usize = 16;

/// The connections that take more requests, or will again.
#[derive(Default)]
pub struct Http2Pool {
    open: Lock<Vec<Open>>,
}

struct Open {
    connection: ConnectionRef,
    /// Names may come to mean another one.
    address: SocketAddr,
    /// TLS and credential agree if this does, so that a rotated key never meets an old connection.
    fingerprint: u64,
    since: Instant,
    /// When it was last seen with a request.
    used: Instant,
}

impl Open {
    fn has_room(&self, address: SocketAddr, fingerprint: u64, requests: usize) -> bool {
        self.address == address && self.fingerprint == fingerprint && self.connection.can_accept_streams(requests)
    }

    fn is_gone(&self) -> bool {
        self.connection.is_closed() || self.connection.is_shutting_down()
    }
}

impl Http2Pool {
    /// Takes a place for a request on a connection that has one. The same connection is filled
    /// before the next: what is not needed goes idle.
    pub fn take(&self, address: SocketAddr, fingerprint: u64) -> Option<Http2Session> {
        let mut open = self.open.lock();
        let room = open.iter_mut().filter(|o| o.has_room(address, fingerprint, 1));
        // One that has broken meanwhile gives none: the next is asked.
        let (o, session) = room.filter_map(|o| stream(&o.connection).map(|session| (o, session))).next()?;
        o.used = Instant::now();
        Some(session)
    }

    /// Lets others use a new connection too. Where one has room enough it is not needed: it ends
    /// with the request that it was opened for. So of the many that are opened while there is none
    /// yet, one stays.
    pub fn put(&self, connection: &ConnectionRef, address: SocketAddr, fingerprint: u64) {
        let mut open = self.open.lock();
        if !open.iter().any(|o| o.has_room(address, fingerprint, SPARE)) {
            let now = Instant::now();
            open.push(Open { connection: connection.clone(), address, fingerprint, since: now, used: now });
        }
    }

    /// Lets go of what is closed, was idle for too long, is old, or has another fingerprint than
    /// the account now.
    pub fn sweep(&self, fingerprint: Option<u64>, now: Instant) {
        let mut open = self.open.lock();
        open.retain_mut(|o| {
            if !o.connection.is_idle() {
                o.used = now;
            }
            let fresh = now.duration_since(o.used) < IDLE && now.duration_since(o.since) < LIFE;
            Some(o.fingerprint) == fingerprint && fresh && !o.is_gone()
        });
    }
}

/// Returns a stream, if the connection can give one. It is said at once: the future never waits,
/// and a lock may be held.
fn stream(connection: &ConnectionRef) -> Option<Http2Session> {
    match pin!(connection.spawn_stream()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(session)) => session,
        Poll::Ready(Err(_)) => {
            // It looks as if it had room for as long as one of its streams lives: whoever opens
            // another one must be able to keep that.
            connection.mark_shutdown();
            None
        }
        Poll::Pending => None,
    }
}
