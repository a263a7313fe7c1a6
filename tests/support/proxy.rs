//! A small HTTP proxy that makes tunnels (CONNECT). It records what it is asked, and can refuse in
//! every way.
//!
//! **Invariant:** it looks no name up. It connects only to names and addresses that it was told of.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::tls::{self, Leaf};
use super::wire::{Head, Io, Wire};
use super::{Gate, Mock, spawn};

/// A running proxy. Dropping it closes its port and all its tunnels.
pub struct Proxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    acceptor: AbortHandle,
    shut: Gate,
}

/// What the proxy does when it is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Does {
    /// It makes the tunnel.
    #[default]
    Tunnels,
    /// It says this and closes.
    Says(String),
    /// It says this and then nothing more.
    Stops(String),
    /// It says this again and again.
    Repeats(String),
}

#[derive(Default)]
struct State {
    does: Does,
    /// The value of `proxy-authorization` that it wants.
    wants: Option<String>,
    known: BTreeMap<String, SocketAddr>,
    heads: Vec<Head>,
    tunnels: usize,
}

impl Proxy {
    pub async fn start() -> Self {
        Self::listen(None).await
    }

    /// Starts a proxy that is spoken to over TLS.
    pub async fn tls(leaf: &Leaf) -> Self {
        Self::listen(Some(tls::acceptor(leaf, &[]))).await
    }

    async fn listen(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (state, shut) = (Arc::new(Mutex::new(State::default())), Gate::new());
        let acceptor = spawn(accept(listener, tls, shut.clone(), state.clone())).abort_handle();
        Proxy {
            address,
            state,
            acceptor,
            shut,
        }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns its URL for these characters before the `@`: `user:password`, or none.
    pub fn url(&self, user: &str) -> String {
        let at = if user.is_empty() { "" } else { "@" };
        format!("http://{user}{at}{}", self.address)
    }

    /// Lets it tunnel to this mock under this host and port.
    pub fn knows(&self, goal: &str, mock: &Mock) -> &Self {
        self.state().known.insert(goal.to_owned(), mock.address());
        self
    }

    /// Lets it want this user and password.
    pub fn wants(&self, user: &str) -> &Self {
        use base64::Engine as _;
        let value = format!(
            "Basic {}",
            base64::engine::general_purpose::STANDARD.encode(user)
        );
        self.state().wants = Some(value);
        self
    }

    /// Sets what it does from now on.
    pub fn does(&self, does: Does) -> &Self {
        self.state().does = does;
        self
    }

    /// Returns the heads of all requests so far.
    pub fn heads(&self) -> Vec<Head> {
        self.state().heads.clone()
    }

    /// Returns the first lines of all requests so far.
    pub fn asked(&self) -> Vec<String> {
        self.state()
            .heads
            .iter()
            .map(|head| head.start.clone())
            .collect()
    }

    /// Returns the number of tunnels that are open now.
    pub fn tunnels(&self) -> usize {
        self.state().tunnels
    }

    /// Closes the port and ends all tunnels.
    pub async fn stop(&self) {
        self.shut.open();
        let is_closed = || {
            std::net::TcpStream::connect(self.address)
                .is_err()
                .then_some(())
        };
        super::eventually("the proxy's port is closed", is_closed).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the proxy's state")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    shut: Gate,
    state: Arc<Mutex<State>>,
) {
    // The connections end with this task.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shut.opened() => return,
        };
        let Ok((tcp, _)) = accepted else { continue };
        while connections.try_join_next().is_some() {}
        let (tls, state) = (tls.clone(), state.clone());
        connections.spawn(async move {
            let Some(io) = Io::accept(tcp, tls).await else {
                return;
            };
            serve(Wire::new(io), &state).await;
        });
    }
}

/// Serves one connection.
async fn serve(mut wire: Wire, state: &Mutex<State>) {
    const MADE: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
    let Some(head) = wire.head().await else {
        return;
    };
    let goal = head
        .start
        .strip_prefix("CONNECT ")
        .and_then(|rest| rest.strip_suffix(" HTTP/1.1"))
        .unwrap_or_default();
    let (does, is_known, goal) = {
        let mut state = state.lock().expect("the proxy's state");
        let is_known = state
            .wants
            .as_deref()
            .is_none_or(|wants| head.field("proxy-authorization") == Some(wants));
        let goal = state.known.get(goal).copied().or_else(|| goal.parse().ok());
        state.heads.push(head);
        (state.does.clone(), is_known, goal)
    };
    match does {
        Does::Says(text) => return say(&mut wire, &text).await,
        Does::Stops(text) => {
            wire.write(text.as_bytes()).await;
            return wire.gone().await;
        }
        Does::Repeats(text) => {
            while wire.write(text.as_bytes()).await {}
            return;
        }
        Does::Tunnels => {}
    }
    let no = |line: &str| format!("HTTP/1.1 {line}\r\ncontent-length: 4\r\n\r\nno\r\n");
    if !is_known {
        let ask = "407 Proxy Authentication Required\r\nproxy-authenticate: Basic realm=\"proxy\"";
        return say(&mut wire, &no(ask)).await;
    }
    let Some(goal) = goal else {
        return say(&mut wire, &no("502 Bad Gateway")).await;
    };
    let Ok(mut server) = TcpStream::connect(goal).await else {
        return say(&mut wire, &no("503 Service Unavailable")).await;
    };
    let open = Tunnel::open(state);
    if wire.write(MADE).await {
        let _ = tokio::io::copy_bidirectional(&mut wire.io, &mut server).await;
        let _ = server.shutdown().await;
    }
    drop(open);
}

async fn say(wire: &mut Wire, text: &str) {
    wire.write(text.as_bytes()).await;
}

/// An open tunnel, which is counted.
struct Tunnel<'s>(&'s Mutex<State>);

impl<'s> Tunnel<'s> {
    fn open(state: &'s Mutex<State>) -> Self {
        state.lock().expect("the proxy's state").tunnels += 1;
        Tunnel(state)
    }
}

impl Drop for Tunnel<'_> {
    fn drop(&mut self) {
        self.0.lock().expect("the proxy's state").tunnels -= 1;
    }
}
