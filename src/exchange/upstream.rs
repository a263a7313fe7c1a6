//! Connections to accounts: Pingora's connector, our pool of idle HTTP/1 connections, and the head that every request to an account begins with.
//!
//! **Invariant:** a connection is reused only for the account, credential, CA and address family of settings that it was made for: all of
//! them are in the account's fingerprint. Certificates are always verified against the host of `base_url`.

use super::alarm::Alarm;
use super::failover::Failure;
use crate::account::State;
use crate::catalog::Account;
use crate::dialect::Dialect;
use http::header::{self, HeaderName, HeaderValue};
use pingora::connectors::ConnectorOptions;
use pingora::connectors::http::v2::Connector;
use pingora::http::RequestHeader;
use pingora::listeners::ALPN;
use pingora::protocols::Stream;
use pingora::protocols::http::client::HttpSession;
use pingora::protocols::http::v2::client::Http2Session as Http2;
use pingora::upstreams::peer::HttpPeer;
use pingora::utils::tls::{WrappedX509, parse_x509};
use pingora::{BError, ErrorType};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Streams on one HTTP/2 connection.
const HTTP2_STREAMS: usize = 100;
/// How much of a stream is taken in before the caller drains it.
const HTTP2_WINDOW: u32 = 256 * 1024;
/// An unreachable address must leave time for the next.
const LEAST_TRY: Duration = Duration::from_millis(250);
/// HTTP/2 connections kept idle.
const POOL: usize = 1024;

/// An account as exchanges use it: its settings, its running state, and what follows from the settings and need not be made anew each time.
pub struct Place {
    /// As the catalog has it.
    pub account: Arc<Account>,
    /// What outlives the catalog.
    pub state: Arc<State>,
    /// The head of an HTTP/1.1 request up to the headers that differ from one to the next.
    head: Vec<u8>,
    /// The system's certificates and the account's own, if it names some.
    authorities: Option<Arc<[WrappedX509]>>,
}

impl Place {
    /// Puts it together.
    pub fn new(account: Arc<Account>, state: Arc<State>) -> Place {
        state.health.settings(account.fingerprint);
        let mut head = Vec::with_capacity(256);
        head.extend_from_slice(b"POST ");
        head.extend_from_slice(account.base.path.as_bytes());
        head.extend_from_slice(b"/chat/completions HTTP/1.1\r\nhost: ");
        head.extend_from_slice(account.base.authority.as_bytes());
        head.extend_from_slice(b"\r\n");
        for (name, value) in headers(&account) {
            head.extend_from_slice(name.as_str().as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        let authorities = account.ca.as_deref().map(authorities);
        Place { account, state, head, authorities }
    }
}

/// A connection, ready to be written to.
pub enum Connection {
    /// HTTP/1.1.
    Http1(Stream),
    /// A stream of an HTTP/2 connection.
    Http2(Box<(Http2, HttpPeer)>),
    /// The built-in account.
    Demo,
}

/// The connector.
pub struct Upstream {
    connector: Connector,
}

impl Default for Upstream {
    fn default() -> Upstream {
        // Pingora's connector panics without a system's store of certificates; with none of its own to offer, TLS accounts would fail one by one.
        Upstream { connector: Connector::new(Some(ConnectorOptions::new(POOL))) }
    }
}

impl Upstream {
    /// A connection, and whether it was used before. It must be there in the account's `connect`, and before `total`.
    pub async fn connect(&self, place: &Place, fresh: bool, total: Instant, alarm: &mut Alarm) -> Result<(Connection, bool), Failure> {
        let Place { account, state, .. } = place;
        if account.dialect == Dialect::Demo {
            return Ok((Connection::Demo, false));
        }
        if !fresh && let Some(stream) = state.pool.take(account.fingerprint) {
            return Ok((Connection::Http1(stream), true));
        }
        // Boxed: a new connection is rare, and what it takes would make every exchange twenty kilobytes larger.
        Box::pin(self.dial(place, fresh, total, alarm)).await
    }

    /// A new connection: all addresses in turn, within one deadline.
    async fn dial(&self, place: &Place, fresh: bool, total: Instant, alarm: &mut Alarm) -> Result<(Connection, bool), Failure> {
        let Place { account, state, .. } = place;
        let due = total.min(Instant::now() + account.timeouts.connect);
        let addresses = match alarm.until(due, pin!(state.addresses.of(account))).await {
            Some(Ok(addresses)) => addresses,
            Some(Err(why)) => return Err(Failure::Unreachable(why)),
            None => return Err(Failure::ConnectTimeout),
        };
        let mut last = Failure::ConnectTimeout;
        for (nth, address) in addresses.iter().enumerate() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let share = u32::try_from(addresses.len() - nth).map_or(left, |n| left / n).max(LEAST_TRY).min(left);
            let peer = peer(place, *address);
            match alarm.until(Instant::now() + share, pin!(self.open(account, peer, fresh))).await {
                Some(Ok(connected)) => {
                    state.addresses.answered(*address);
                    return Ok(connected);
                }
                Some(Err(failure @ Failure::Tls(_))) => return Err(failure),
                Some(Err(failure)) => last = failure,
                None => last = Failure::ConnectTimeout,
            }
        }
        Err(last)
    }

    async fn open(&self, account: &Account, peer: HttpPeer, fresh: bool) -> Result<(Connection, bool), Failure> {
        if !account.base.tls {
            let stream = self.connector.transport().new_stream(&peer).await.map_err(|e| failure_of(&e))?;
            return Ok((Connection::Http1(stream), false));
        }
        if !fresh && let Some(session) = self.connector.reused_http_session(&peer).await.map_err(|e| failure_of(&e))? {
            return Ok((Connection::Http2(Box::new((session, peer))), true));
        }
        match self.connector.new_http_session::<HttpPeer, ()>(&peer).await.map_err(|e| failure_of(&e))? {
            HttpSession::H1(session) => Ok((Connection::Http1(session.into_inner()), false)),
            HttpSession::H2(session) => Ok((Connection::Http2(Box::new((session, peer))), false)),
            HttpSession::Custom(()) => Err(Failure::Nonsense("an unknown protocol was negotiated".to_owned())),
        }
    }

    /// Gives an HTTP/2 stream back to its connection.
    pub fn release_http2(&self, session: Http2, peer: &HttpPeer, idle: Duration) {
        self.connector.release_http_session(session, peer, Some(idle));
    }

    /// The head of a request, as HTTP/1.1 writes it. Built from nothing: no header of the caller's is ever in it.
    pub fn head(&self, place: &Place, request_id: &str, length: usize, room: usize) -> Vec<u8> {
        let mut head = Vec::with_capacity(place.head.len() + request_id.len() + 64 + room);
        head.extend_from_slice(&place.head);
        head.extend_from_slice(b"x-request-id: ");
        head.extend_from_slice(request_id.as_bytes());
        head.extend_from_slice(b"\r\ncontent-length: ");
        head.extend_from_slice(length.to_string().as_bytes());
        head.extend_from_slice(b"\r\n\r\n");
        head
    }

    /// The same for HTTP/2.
    pub fn header(&self, account: &Account, request_id: &str, length: usize) -> Result<RequestHeader, BError> {
        let path = format!("{}/chat/completions", account.base.path);
        let mut header = RequestHeader::build("POST", path.as_bytes(), None)?;
        header.insert_header(header::HOST, account.base.authority.as_str())?;
        header.insert_header("x-request-id", request_id)?;
        header.insert_header(header::CONTENT_LENGTH, length)?;
        for (name, value) in headers(account) {
            header.insert_header(name, value)?;
        }
        Ok(header)
    }
}

fn peer(place: &Place, address: SocketAddr) -> HttpPeer {
    let account = &place.account;
    // `HttpPeer::new` resolves names and panics on those it cannot: here it is given an address.
    #[expect(clippy::disallowed_methods, reason = "the one place that makes peers, always from an address")]
    let mut peer = HttpPeer::new(address, account.base.tls, account.base.host.to_string());
    peer.group_key = account.fingerprint;
    if account.base.tls {
        peer.options.alpn = ALPN::H2H1;
        peer.options.max_h2_streams = HTTP2_STREAMS;
        peer.options.h2_stream_window_size = Some(HTTP2_WINDOW);
        peer.options.h2_connection_window_size = Some(HTTP2_WINDOW * 64);
        peer.options.ca = place.authorities.clone();
    }
    peer
}

/// The headers that depend on the account only; the catalog's own win over ours, but for the credential's.
fn headers(account: &Account) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let ours = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream")),
        (header::ACCEPT_ENCODING, HeaderValue::from_static("identity")),
        (header::USER_AGENT, HeaderValue::from_static(concat!("portcullis/", env!("CARGO_PKG_VERSION")))),
    ];
    let credential =
        account.key.as_ref().and_then(|key| HeaderValue::try_from(format!("Bearer {}", key.expose())).ok()).map(|mut value| {
            value.set_sensitive(true);
            (header::AUTHORIZATION, value)
        });
    ours.into_iter()
        .filter(|(name, _)| !account.headers.iter().any(|(n, _)| n == name))
        .chain(account.headers.iter().cloned())
        .chain(credential)
}

/// The system's certificates and the account's own. Certificates that cannot be read were refused when the catalog was.
fn authorities(pem: &[u8]) -> Arc<[WrappedX509]> {
    let system = rustls_native_certs::load_native_certs().certs.into_iter().map(|der| der.to_vec()).filter(|der| readable(der));
    system.chain(certificates(pem)).map(|der| WrappedX509::new(der, parse_x509)).collect()
}

/// The certificates of a PEM file, those that can be read.
pub fn certificates(pem: &[u8]) -> Vec<Vec<u8>> {
    use rustls_pki_types::pem::PemObject;
    let certificates = rustls_pki_types::CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    certificates.map(|der| der.to_vec()).filter(|der| readable(der)).collect()
}

/// Pingora panics over one that is not.
fn readable(der: &[u8]) -> bool {
    x509_parser::parse_x509_certificate(der).is_ok()
}

fn failure_of(error: &BError) -> Failure {
    let detail = || format!("{:?}: {}", error.etype(), error.root_cause());
    let handshake = matches!(
        error.etype(),
        ErrorType::TLSHandshakeFailure
            | ErrorType::TLSHandshakeTimedout
            | ErrorType::InvalidCert
            | ErrorType::HandshakeError
            | ErrorType::TLSWantX509Lookup
    );
    if *error.etype() == ErrorType::ConnectTimedout {
        Failure::ConnectTimeout
    } else if handshake {
        Failure::Tls(detail())
    } else {
        Failure::Unreachable(detail())
    }
}
