//! An [`Http2Pool`] holds the HTTP/2 connections of one account. Each connection carries many
//! requests at once.
//!
//! We do not use Pingora's pools. They take a connection out while they open a stream on it, so
//! another request at that moment opens another connection. If another stream ends at the same
//! time, the connection is put back twice and taken out once; the rest of it stays open unless a
//! request with the same credential comes. Here a connection stays where all requests see it. A
//! sweep, every two seconds, removes connections that are closed, were idle for too long, are old,
//! or have old settings. The requests on a removed connection keep it open until they are done.

use super::http1_pool::IDLE_TIMEOUT;
use crate::base::clock::Clock;
use crate::base::lock::Lock;
use pingora::connectors::http::v2::ConnectionRef;
use pingora::protocols::http::v2::client::Http2Session;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The age at which a connection is replaced: some of what h2 counts against a peer, it counts for
/// a connection's whole life.
const MAX_AGE: Duration = Duration::from_secs(3600);
/// A new connection is kept unless the present ones have room for this many more requests.
const SPARE: usize = 16;

/// The connections that can take more requests, now or later.
#[derive(Default)]
pub struct Http2Pool {
    open: Lock<Vec<Open>>,
}

struct Open {
    connection: ConnectionRef,
    /// The address of the connection, since a name may later resolve to another one.
    address: SocketAddr,
    /// The fingerprint of TLS and credential, so that a rotated key never gets an old connection.
    fingerprint: u64,
    since: Instant,
    /// The time at which the connection was last seen with a request.
    last_used_at: Instant,
}

impl Open {
    fn has_room(&self, address: SocketAddr, fingerprint: u64, requests: usize) -> bool {
        self.address == address
            && self.fingerprint == fingerprint
            && self.connection.can_accept_streams(requests)
    }

    fn is_gone(&self) -> bool {
        self.connection.is_closed() || self.connection.is_shutting_down()
    }
}

impl Http2Pool {
    /// Takes a place for a request on a connection that has one. One connection is filled before
    /// the next, so that connections that are not needed go idle.
    pub fn take(&self, address: SocketAddr, fingerprint: u64) -> Option<Http2Session> {
        let mut open = self.open.lock();
        let room = open
            .iter_mut()
            .filter(|o| o.has_room(address, fingerprint, 1));
        // A connection that has broken meanwhile gives no stream: then the next one is tried.
        let (o, session) = room
            .filter_map(|o| open_stream(&o.connection).map(|session| (o, session)))
            .next()?;
        o.last_used_at = Clock::now();
        Some(session)
    }

    /// Adds a new connection, for other requests to use. If a present connection has enough room,
    /// the new one is not added, and ends with the request that it was opened for. So if many are
    /// opened while there is none yet, one stays.
    pub fn put(&self, connection: &ConnectionRef, address: SocketAddr, fingerprint: u64) {
        let mut open = self.open.lock();
        if !open.iter().any(|o| o.has_room(address, fingerprint, SPARE)) {
            let now = Clock::now();
            open.push(Open {
                connection: connection.clone(),
                address,
                fingerprint,
                since: now,
                last_used_at: now,
            });
        }
    }

    /// Removes connections that are closed, were idle for too long, are old, or have another
    /// fingerprint than the account has now.
    pub fn sweep(&self, fingerprint: Option<u64>, now: Instant) {
        let mut open = self.open.lock();
        open.retain_mut(|o| {
            if !o.connection.is_idle() {
                o.last_used_at = now;
            }
            let fresh = now.duration_since(o.last_used_at) < IDLE_TIMEOUT
                && now.duration_since(o.since) < MAX_AGE;
            Some(o.fingerprint) == fingerprint && fresh && !o.is_gone()
        });
    }
}

/// Returns a stream if the connection can give one. The answer comes at once: the future never
/// waits, so a lock may be held.
fn open_stream(connection: &ConnectionRef) -> Option<Http2Session> {
    match pin!(connection.spawn_stream()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(session)) => session,
        Poll::Ready(Err(_)) => {
            // A broken connection seems to have room for as long as one of its streams lives. It is
            // marked, so that [`Http2Pool::put`] keeps a new one.
            connection.mark_shutdown();
            None
        }
        Poll::Pending => None,
    }
}
