//! A scripted upstream on a port of its own, in plain HTTP/1, over TLS, or in HTTP/2. It records
//! everything that reaches it.
//!
//! Without a script it answers as a good server does: with a stream if asked for one, and with
//! usage if asked for it. **Invariant:** a request is recorded before its script begins. If the
//! peer leaves, that is recorded when it happens.

mod nobody;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Weak};
use std::time::Instant;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::play::{self, Played};
use super::script::{Gate, Script, finish, usage};
use super::tls::{self, Leaf};
use super::wire::{self, Head, Io, Wire, find};
use super::{canary, eventually, spawn};

/// A running upstream. Dropping it closes its port and all its connections.
pub struct Mock {
    address: SocketAddr,
    tls: bool,
    state: Arc<State>,
    acceptor: AbortHandle,
    shut: Gate,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    /// The request's number at this upstream, from 0.
    pub number: usize,
    /// The connection's number, from 0.
    pub connection: usize,
    /// The number of requests before it on the same connection.
    pub nth: usize,
    pub http2: bool,
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// The fields, in the order and the letter case in which they came.
    pub fields: Vec<(String, String)>,
    /// All bytes up to the body (HTTP/1 only).
    pub raw_head: Vec<u8>,
    pub body: Vec<u8>,
    /// The time at which the last byte had come.
    pub at: Instant,
    /// The time at which the peer closed or reset the request while its script was running.
    pub left: Option<Instant>,
    /// True if the script has run to its end.
    pub over: bool,
}

impl Request {
    pub fn field(&self, name: &str) -> Option<&str> {
        find(&self.fields, name)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns the model that the request names.
    pub fn model(&self) -> String {
        self.json()["model"].as_str().unwrap_or_default().to_owned()
    }
}

type Choose = Arc<dyn Fn(&Request) -> Script + Send + Sync>;

#[derive(Default)]
struct State {
    log: Mutex<Log>,
    rules: Mutex<Rules>,
}

#[derive(Default)]
struct Log {
    requests: Vec<Request>,
    connections: usize,
    /// The peers of open connections, each with the number of its unfinished requests.
    open: BTreeMap<SocketAddr, usize>,
}

#[derive(Default)]
struct Rules {
    queue: VecDeque<Script>,
    models: BTreeMap<String, Choose>,
    otherwise: Option<Choose>,
    /// The script that runs on a connection before anything is read from it.
    greeting: Option<Script>,
    /// The script that runs when a head has come, before the body is read.
    early: Option<Script>,
}

/// All mocks of this process by port. They know which of a gateway's connections may stay open
/// after a test.
static MOCKS: LazyLock<Mutex<BTreeMap<u16, Weak<State>>>> = LazyLock::new(Mutex::default);

impl Mock {
    /// Starts an upstream in plain HTTP/1.
    pub async fn start() -> Self {
        Self::listen(None, false).await
    }

    /// Starts an upstream in plain HTTP/1 on the loopback of IPv6.
    pub async fn start_v6() -> Self {
        Self::listen_at("[::1]:0", None, false).await
    }

    /// Starts an upstream in plain HTTP/1 at this address.
    pub async fn at(address: SocketAddr) -> Self {
        Self::listen_at(&address.to_string(), None, false).await
    }

    /// Starts an upstream in HTTP/1 over TLS.
    pub async fn tls(leaf: &Leaf) -> Self {
        Self::listen(Some(tls::acceptor(leaf, &["http/1.1"])), false).await
    }

    /// Starts an upstream in HTTP/2 over TLS, by ALPN, and in HTTP/1 for peers that do not offer
    /// it.
    pub async fn h2(leaf: &Leaf) -> Self {
        Self::listen(Some(tls::acceptor(leaf, &["h2", "http/1.1"])), false).await
    }

    /// Starts an upstream in HTTP/2 without TLS, by prior knowledge.
    pub async fn h2c() -> Self {
        Self::listen(None, true).await
    }

    async fn listen(tls: Option<TlsAcceptor>, h2c: bool) -> Self {
        Self::listen_at("127.0.0.1:0", tls, h2c).await
    }

    async fn listen_at(address: &str, tls: Option<TlsAcceptor>, h2c: bool) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State::default());
        MOCKS
            .lock()
            .expect("mocks")
            .insert(address.port(), Arc::downgrade(&state));
        let is_tls = tls.is_some();
        let shut = Gate::new();
        let acceptor =
            spawn(accept(listener, tls, h2c, shut.clone(), state.clone())).abort_handle();
        Mock {
            address,
            tls: is_tls,
            state,
            acceptor,
            shut,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the `base_url` for an account.
    pub fn base_url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let host = if self.tls {
            format!("localhost:{}", self.address.port())
        } else {
            self.address.to_string()
        };
        format!("{scheme}://{host}/v1")
    }

    // Scripts: those of the queue come first, then those by model, then `otherwise`.

    /// Adds a script to the queue: it answers the next request for which the queue has no earlier
    /// script.
    pub fn push(&self, script: Script) -> &Self {
        self.rules().queue.push_back(script);
        self
    }

    /// Sets the script for every request that names this model.
    pub fn on(&self, model: &str, script: Script) -> &Self {
        self.on_by(model, move |_| script.clone())
    }

    pub fn on_by(
        &self,
        model: &str,
        choose: impl Fn(&Request) -> Script + Send + Sync + 'static,
    ) -> &Self {
        self.rules()
            .models
            .insert(model.to_owned(), Arc::new(choose));
        self
    }

    /// Sets the script for every other request.
    pub fn always(&self, script: Script) -> &Self {
        self.by(move |_| script.clone())
    }

    pub fn by(&self, choose: impl Fn(&Request) -> Script + Send + Sync + 'static) -> &Self {
        self.rules().otherwise = Some(Arc::new(choose));
        self
    }

    /// Sets the script for every connection, before anything is read: `Script::new().reset()`.
    pub fn greet(&self, script: Script) -> &Self {
        self.rules().greeting = Some(script);
        self
    }

    /// Sets the script for the next request, when its head is there and its body is unread (HTTP/1
    /// only). The request is recorded without a body.
    pub fn early(&self, script: Script) -> &Self {
        self.rules().early = Some(script);
        self
    }

    // The record.

    pub fn requests(&self) -> Vec<Request> {
        self.state.log().requests.clone()
    }

    pub fn count(&self) -> usize {
        self.state.log().requests.len()
    }

    /// Returns the number of connections accepted so far (over TLS, those whose handshake
    /// succeeded).
    pub fn connections(&self) -> usize {
        self.state.log().connections
    }

    /// Returns the number of connections that are open now.
    pub fn open(&self) -> usize {
        self.state.log().open.len()
    }

    /// Waits for the request of this number, and returns it.
    pub async fn request(&self, number: usize) -> Request {
        eventually(&format!("request {number} at the upstream"), || {
            self.state.log().requests.get(number).cloned()
        })
        .await
    }

    /// Waits until the peer leaves the request of this number, and returns the time.
    pub async fn left(&self, number: usize) -> Instant {
        eventually(&format!("the gateway leaves request {number}"), || {
            self.state
                .log()
                .requests
                .get(number)
                .and_then(|request| request.left)
        })
        .await
    }

    /// Closes the port. Open connections go on.
    pub async fn stop(&self) {
        self.shut.open();
        eventually("the port is closed", || {
            std::net::TcpStream::connect(self.address)
                .is_err()
                .then_some(())
        })
        .await;
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.state.rules.lock().expect("rules")
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.acceptor.abort();
        MOCKS.lock().expect("mocks").remove(&self.address.port());
        if std::thread::panicking() {
            return;
        }
        let mark = canary::CALLER_MARK.as_bytes();
        for request in &self.state.log().requests {
            let fields = format!("{} {:?}", request.target, request.fields);
            let leaked = [fields.as_bytes(), &request.body]
                .iter()
                .any(|text| wire::position(text, mark).is_some());
            assert!(
                !leaked,
                "a caller's key reached the upstream: {fields} {}",
                request.text()
            );
        }
    }
}

/// Returns whether a gateway's open connection from `local` to `port` is idle; `None` if the port
/// belongs to none of our upstreams.
pub fn is_idle(port: u16, local: SocketAddr) -> Option<bool> {
    let state = MOCKS.lock().expect("mocks").get(&port)?.upgrade()?;
    let unfinished = state.log().open.get(&local).copied().unwrap_or(0);
    Some(unfinished == 0)
}

impl State {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("log")
    }

    fn record(&self, peer: SocketAddr, mut request: Request) -> Request {
        let mut log = self.log();
        request.number = log.requests.len();
        request.at = Instant::now();
        log.requests.push(request.clone());
        *log.open.entry(peer).or_default() += 1;
        request
    }

    fn over(&self, peer: SocketAddr, number: usize, left: bool) {
        let mut log = self.log();
        if let Some(open) = log.open.get_mut(&peer) {
            *open = open.saturating_sub(1);
        }
        if let Some(request) = log.requests.get_mut(number) {
            request.over = !left;
            request.left = left.then(Instant::now);
        }
    }

    fn choose(&self, request: &Request) -> Script {
        let mut rules = self.rules.lock().expect("rules");
        if let Some(script) = rules.queue.pop_front() {
            return script;
        }
        let rule = rules
            .models
            .get(&request.model())
            .or(rules.otherwise.as_ref())
            .cloned();
        drop(rules);
        rule.map_or_else(|| natural(request), |choose| choose(request))
    }
}

/// Returns the script that a good server follows.
pub fn natural(request: &Request) -> Script {
    let body = request.json();
    if body["stream"] != true {
        return Script::answer("Hello from the mock.");
    }
    let script = Script::sse().words(0..3).event(finish("stop"));
    match body["stream_options"]["include_usage"] == true {
        true => script.event(usage(3)).done(),
        false => script.done(),
    }
}

async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    h2c: bool,
    shut: Gate,
    state: Arc<State>,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shut.opened() => break,
        };
        let Ok((tcp, peer)) = accepted else { continue };
        while connections.try_join_next().is_some() {}
        let _ = tcp.set_nodelay(true);
        let (tls, state) = (tls.clone(), state.clone());
        connections.spawn(async move {
            let Some(io) = Io::accept(tcp, tls).await else {
                return;
            };
            let number = {
                let mut log = state.log();
                log.open.insert(peer, 0);
                log.connections += 1;
                log.connections - 1
            };
            if h2c || io.alpn().as_deref() == Some(b"h2") {
                http2(io, peer, number, &state).await;
            } else {
                http1(io, peer, number, &state).await;
            }
            state.log().open.remove(&peer);
        });
    }
    drop(listener);
    // The connections live as long as this task.
    std::future::pending::<()>().await;
}

async fn http1(io: Io, peer: SocketAddr, connection: usize, state: &State) {
    let mut wire = Wire::new(io);
    let greeting = state.rules.lock().expect("rules").greeting.clone();
    if let Some(script) = greeting {
        state.log().open.insert(peer, 1);
        if let Played::Reset = play::http1(&mut wire, &script).await {
            wire.io.reset();
        }
        return;
    }
    for nth in 0.. {
        let Some(head) = wire.head().await else {
            return;
        };
        let early = state.rules.lock().expect("rules").early.take();
        let body = match early {
            Some(_) => Vec::new(),
            None => {
                if head.field("expect").is_some()
                    && !wire.write(b"HTTP/1.1 100 Continue\r\n\r\n").await
                {
                    return;
                }
                match wire.body(head.framing()).await {
                    (body, true) => body,
                    (_, false) => return,
                }
            }
        };
        let request = state.record(peer, from_head(&head, body, connection, nth));
        let is_early = early.is_some();
        let script = early.unwrap_or_else(|| state.choose(&request));
        let played = play::http1(&mut wire, &script).await;
        state.over(peer, request.number, matches!(played, Played::Left));
        match played {
            Played::Whole if is_early => drop(wire.body(head.framing()).await),
            Played::Whole => {}
            Played::Reset => return wire.io.reset(),
            Played::Left | Played::Closed => return,
        }
    }
}

fn from_head(head: &Head, body: Vec<u8>, connection: usize, nth: usize) -> Request {
    let mut start = head.start.split(' ');
    Request {
        number: 0,
        connection,
        nth,
        http2: false,
        method: start.next().unwrap_or_default().to_owned(),
        target: start.next().unwrap_or_default().to_owned(),
        fields: head.fields.clone(),
        raw_head: head.raw.clone(),
        body,
        at: Instant::now(),
        left: None,
        over: false,
    }
}

async fn http2(io: Io, peer: SocketAddr, connection: usize, state: &Arc<State>) {
    let Ok(mut server) = h2::server::handshake(io).await else {
        return;
    };
    // A stream that must close or reset the whole connection sends a message here.
    let (kill, mut killed) = tokio::sync::mpsc::channel::<()>(1);
    let mut streams = JoinSet::new();
    for nth in 0.. {
        let next = tokio::select! {
            next = server.accept() => next,
            // The connection is dropped before its streams; otherwise they would be reset one by
            // one.
            _ = killed.recv() => return drop(server),
        };
        let Some(Ok((request, mut respond))) = next else {
            return;
        };
        let (state, kill) = (state.clone(), kill.clone());
        streams.spawn(async move {
            let mut stream = None;
            let played = http2_stream(
                request,
                &mut respond,
                &mut stream,
                peer,
                (connection, nth),
                &state,
            )
            .await;
            if let Some(Played::Closed) = played {
                let _ = kill.send(()).await;
                // This keeps the stream until its connection is gone.
                std::future::pending::<()>().await;
            }
        });
    }
}

async fn http2_stream(
    request: http::Request<h2::RecvStream>,
    respond: &mut h2::server::SendResponse<bytes::Bytes>,
    stream: &mut Option<h2::SendStream<bytes::Bytes>>,
    peer: SocketAddr,
    (connection, nth): (usize, usize),
    state: &State,
) -> Option<Played> {
    let (parts, mut incoming) = request.into_parts();
    let mut body = Vec::new();
    while let Some(data) = incoming.data().await {
        let data = data.ok()?;
        let _ = incoming.flow_control().release_capacity(data.len());
        body.extend_from_slice(&data);
    }
    let authority = parts
        .uri
        .authority()
        .map(|a| (":authority".to_owned(), a.to_string()));
    let fields = parts.headers.iter().map(|(n, v)| {
        (
            n.to_string(),
            String::from_utf8_lossy(v.as_bytes()).into_owned(),
        )
    });
    let request = Request {
        number: 0,
        connection,
        nth,
        http2: true,
        method: parts.method.to_string(),
        target: parts
            .uri
            .path_and_query()
            .map(ToString::to_string)
            .unwrap_or_default(),
        fields: authority.into_iter().chain(fields).collect(),
        raw_head: Vec::new(),
        body,
        at: Instant::now(),
        left: None,
        over: false,
    };
    let request = state.record(peer, request);
    let script = state.choose(&request);
    let played = play::http2(respond, stream, &script).await;
    state.over(peer, request.number, matches!(played, Played::Left));
    Some(played)
}
