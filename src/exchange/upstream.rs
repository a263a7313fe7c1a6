//! Connections to accounts: Pingora opens them, our pools keep them.
//!
//! This is the one place where connections to outside are opened: for requests, lists of models,
//! tokens, and notices. So all of them go through the proxy that the settings name.
//!
//! **Invariant:** a connection is reused only for the account, credential, CA, proxy and address
//! family of the settings that it was made for: all of them are in the account's fingerprint.
//! Certificates are always verified against the host of `base_url`.

use super::secure::Secure;
use super::tunnel;
use crate::account::failure::Failure;
use crate::base::alarm::Alarm;
use crate::base::descriptors::{self, Descriptors};
use crate::live::ready_account::ReadyAccount;
use crate::tls::trust::Distrust;
use pingora::connectors::TransportConnector;
use pingora::connectors::http::v2::{H2HandshakeSettings, handshake};
use pingora::protocols::http::v2::client::Http2Session as Http2;
use pingora::protocols::tls::ALPN;
use pingora::protocols::{Stream, TcpKeepalive};
use pingora::upstreams::peer::HttpPeer;
use pingora::{BError, ErrorType};
use rustls_pki_types::CertificateDer;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The most streams on one HTTP/2 connection.
const HTTP2_STREAMS: usize = 100;
/// The most bytes of a stream that are taken in before the caller drains it.
const HTTP2_STREAM_WINDOW: u32 = 256 * 1024;
/// The window of a connection: ten times what all its streams may take in, so that callers who do
/// not read hold up only themselves. For each waiting frame with less than 256 bytes, h2 takes the
/// difference from half of this window. When nothing is left, h2 ends the connection with all its
/// streams.
const HTTP2_WINDOW: u32 = 256 * 1024 * 1024;
/// The time after which a silent peer is given up. A peer behind a router that has forgotten the
/// connection does not answer, and sends no error.
const SILENT: Duration = Duration::from_secs(30);
/// The least time for one address. An unreachable address must leave time for the next.
const LEAST_TRY: Duration = Duration::from_millis(250);

/// A connection, ready to be written to.
pub enum Connection {
    /// HTTP/1.1.
    Http1(Stream),
    /// A stream of an HTTP/2 connection.
    Http2(Box<Http2>),
    /// The built-in demo account.
    Demo,
}

/// The connector to accounts.
pub struct Upstream {
    transport: TransportConnector,
    descriptors: Arc<Descriptors>,
}

impl Default for Upstream {
    fn default() -> Upstream {
        Upstream::new(Arc::default())
    }
}

/// Decides whether a request may be sent on a connection that was used before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// It may.
    Allowed,
    /// It may not: such a connection has failed, or the way to the server is checked.
    Forbidden,
}

impl Upstream {
    /// Makes the connector of a process with these descriptors.
    pub fn new(descriptors: Arc<Descriptors>) -> Upstream {
        // Pingora's connector reads the system's store of certificates, and panics if it cannot.
        // It opens only plain connections here: the account's `trust` makes the TLS.
        Upstream {
            transport: TransportConnector::new(None),
            descriptors,
        }
    }

    /// Returns a connection that needs no dialling, and whether it was used before.
    pub fn ready_connection(
        ready_account: &ReadyAccount,
        reuse: Reuse,
    ) -> Option<(Connection, bool)> {
        if ready_account.account.dialect.protocol.calls_nobody() {
            return Some((Connection::Demo, false));
        }
        if reuse == Reuse::Forbidden {
            return None;
        }
        let (state, account) = (&ready_account.state, &ready_account.account);
        let kept = state.http1.take(account.fingerprint)?;
        Some((Connection::Http1(kept), true))
    }

    /// Returns a new connection, or a stream of an HTTP/2 connection, and whether the connection
    /// was used before. Tries all addresses in turn. Fails if there is none by `due`.
    pub async fn dial(
        &self,
        ready_account: &ReadyAccount,
        reuse: Reuse,
        due: Instant,
        alarm: &mut Alarm,
    ) -> Result<(Connection, bool), Failure> {
        let ReadyAccount {
            account,
            state,
            proxy,
            ..
        } = ready_account;
        let late = || connect_timeout(ready_account);
        let looked_up = alarm.until(due, pin!(ready_account.addresses())).await;
        let addresses = looked_up
            .ok_or_else(late)?
            .map_err(|why| out_of_reach(ready_account, why))?;
        let mut last = late();
        for (nth, address) in addresses.iter().enumerate() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let share = u32::try_from(addresses.len() - nth)
                .map_or(left, |n| left / n)
                .max(LEAST_TRY)
                .min(left);
            if reuse == Reuse::Allowed
                && let Some(stream) = state.http2.take(*address, account.fingerprint)
            {
                return Ok((Connection::Http2(Box::new(stream)), true));
            }
            let until = Instant::now() + share;
            let opened = match alarm
                .until(until, pin!(self.connect_account(ready_account, *address)))
                .await
            {
                Some(Ok(stream)) => {
                    let connection = alarm
                        .until(
                            until,
                            pin!(perform_handshake(ready_account, *address, stream)),
                        )
                        .await;
                    connection.unwrap_or(Err(Failure::ConnectTimeout)).map_err(
                        |failure| match proxy {
                            Some(proxy) => tunnel::failure_in_tunnel(proxy, &account.base, failure),
                            None => failure,
                        },
                    )
                }
                Some(Err(failure)) => Err(failure),
                None => Err(late()),
            };
            match opened {
                Ok(connection) => {
                    state.addresses.record_good(*address);
                    return Ok((connection, false));
                }
                Err(
                    failure @ (Failure::Tls { .. }
                    | Failure::Proxy {
                        is_permanent: true, ..
                    }
                    | Failure::NoDescriptors),
                ) => {
                    return Err(failure);
                }
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    /// Returns the certificates that the account's server shows, if they are believed: those of a
    /// connection that is made for this, through the account's proxy if it has one.
    pub async fn certificates(
        &self,
        ready_account: &ReadyAccount,
        due: Instant,
    ) -> Option<Vec<CertificateDer<'static>>> {
        let trust = ready_account.trust.as_ref()?;
        let read = async {
            let address = *ready_account.addresses().await.ok()?.first()?;
            let stream = self.connect_account(ready_account, address).await.ok()?;
            let secured = trust
                .connect(&ready_account.account.base.host, stream)
                .await
                .ok()?;
            Some(secured.get_ref().1.peer_certificates()?.to_vec())
        };
        timeout_at(due, read).await.ok()?
    }

    /// Reaches the account's server, through its proxy if it has one.
    async fn connect_account(
        &self,
        ready_account: &ReadyAccount,
        address: SocketAddr,
    ) -> Result<Stream, Failure> {
        if !self.descriptors.has_room() {
            return Err(self.no_descriptors());
        }
        let tcp = self
            .transport
            .new_stream(&make_peer(ready_account, address))
            .await;
        let tcp = tcp.map_err(|error| {
            if is_ours(&error) {
                return self.no_descriptors();
            }
            let failure = failure_of(&error);
            if let Failure::Unreachable(why) = failure {
                out_of_reach(ready_account, why)
            } else {
                failure
            }
        })?;
        match &ready_account.proxy {
            Some(proxy) => tunnel::open_tunnel(proxy, &ready_account.account.base, tcp).await,
            None => Ok(tcp),
        }
    }

    fn no_descriptors(&self) -> Failure {
        self.descriptors.note_lack();
        Failure::NoDescriptors
    }
}

/// Returns the failure if no connection is made in time.
fn connect_timeout(ready_account: &ReadyAccount) -> Failure {
    match &ready_account.proxy {
        Some(proxy) => tunnel::proxy_timeout(proxy),
        None => Failure::ConnectTimeout,
    }
}

/// Makes TLS and HTTP of a connection to the account's server.
async fn perform_handshake(
    ready_account: &ReadyAccount,
    address: SocketAddr,
    stream: Stream,
) -> Result<Connection, Failure> {
    let Some(trust) = &ready_account.trust else {
        return Ok(Connection::Http1(stream));
    };
    let secured = trust
        .connect(&ready_account.account.base.host, stream)
        .await
        .map_err(|Distrust { why, lasts }| Failure::Tls {
            why,
            is_permanent: lasts,
        })?;
    let transport: Stream = Box::new(Secure(secured));
    if !matches!(transport.selected_alpn_proto(), Some(ALPN::H2)) {
        return Ok(Connection::Http1(transport));
    }
    let mut settings = H2HandshakeSettings::new();
    settings.max_streams = HTTP2_STREAMS;
    settings.stream_window_size = Some(HTTP2_STREAM_WINDOW);
    settings.connection_window_size = Some(HTTP2_WINDOW);
    let connection = handshake(transport, settings)
        .await
        .map_err(|e| failure_of(&e))?;
    let none = || Failure::Unreachable("a new HTTP/2 connection accepted no request".to_owned());
    let stream = connection
        .spawn_stream()
        .await
        .map_err(|e| failure_of(&e))?
        .ok_or_else(none)?;
    ready_account
        .state
        .http2
        .put(&connection, address, ready_account.account.fingerprint);
    Ok(Connection::Http2(Box::new(stream)))
}

/// Returns the failure for a server that connections cannot be made to.
fn out_of_reach(ready_account: &ReadyAccount, why: String) -> Failure {
    match &ready_account.proxy {
        Some(proxy) => tunnel::proxy_unreachable(proxy, &why),
        None => Failure::Unreachable(why),
    }
}

fn make_peer(ready_account: &ReadyAccount, address: SocketAddr) -> HttpPeer {
    let account = &ready_account.account;
    // `HttpPeer::new` resolves names, and panics if it cannot. Here it is given an address.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that makes peers, always from an address"
    )]
    let mut peer = HttpPeer::new(address, false, account.base.host.to_string());
    peer.options.tcp_keepalive = Some(TcpKeepalive {
        idle: SILENT / 2,
        interval: SILENT / 6,
        count: 3,
        // A peer that answers, but reads nothing for as long as it may, is not silent.
        #[cfg(target_os = "linux")]
        user_timeout: account.timeouts.idle.max(SILENT),
    });
    peer
}

/// Returns whether a connection was not made since this machine had no descriptor for it.
fn is_ours(error: &BError) -> bool {
    error
        .root_cause()
        .downcast_ref()
        .is_some_and(descriptors::is_lack)
}

fn failure_of(error: &BError) -> Failure {
    let detail = || format!("{:?}: {}", error.etype(), error.root_cause());
    if *error.etype() == ErrorType::ConnectTimedout {
        Failure::ConnectTimeout
    } else {
        Failure::Unreachable(detail())
    }
}
