//! An upstream of the soak: it fails as a draw says, in every way that upstreams fail, and keeps
//! nothing of what it was asked.
//!
//! **Invariant:** what goes wrong with a request is a function of the seed, the request's number
//! and the upstream, however the requests meet.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::draw;
use super::speech::{Speech, Text};
use crate::support::play::{self, Played};
use crate::support::spawn;
use crate::support::tls::{self, Leaf};
use crate::support::wire::{Io, Wire};
use crate::support::{Script, canary};

/// Bodies of answers and events of streams over these are too large; the gateway is told so, too.
pub const RESPONSE_BODY: usize = 256 * 1024;
pub const EVENT: usize = 32 * 1024;

/// Before the answer, buffered or streamed. What makes an account rest for long is rarer.
const FAULTS: &[&str] = &[
    "500",
    "500",
    "502",
    "503",
    "504",
    "529",
    "429 seconds",
    "429 milliseconds",
    "429 date",
    "400",
    "413",
    "422",
    "403",
    "404",
    "302",
    "401",
    "402",
    "reset",
    "reset",
    "close",
    "reset after the head",
    "close after the head",
    "silence",
    "silence after the head",
    "html",
    "empty",
    "null",
    "malformed",
    "error in a 200",
    "gzip",
    "no http",
    "too large",
];
/// In a stream that has begun, and often before its first content.
const CUTS: &[&str] = &[
    "reset",
    "close",
    "end",
    "half a chunk",
    "half an event",
    "error",
    "error, then more",
    "garbage",
    "silence",
    "a long line",
];
/// In a buffered answer that has begun.
const HALVES: &[&str] = &["half, then reset", "half, then close", "half, then silence"];
/// What is odd and yet an answer.
const ODD: &[&str] = &[
    "late",
    "in slices",
    "then close",
    "103 first",
    "the other form",
    "no [DONE]",
    "finish twice",
    "no usage",
    "comments",
    "slow",
];
/// What all requests meet for a while.
const OUTAGES: &[&str] = &[
    "500",
    "reset",
    "silence",
    "503",
    "429 seconds",
    "close",
    "empty",
];
/// Makes it rest for as long as anything does.
const HARSH: &[&str] = &["429 absurd", "401", "402", "403", "404", "403", "404"];

/// How it behaves.
#[derive(Debug, Clone, Copy)]
pub struct Temper {
    /// In per cent of the requests that it gets.
    pub faults: u64,
    /// Seconds in which it fails every request, in per cent.
    pub outages: u64,
    pub harsh: bool,
}

pub struct Upstream {
    pub name: &'static str,
    pub speech: Speech,
    pub address: SocketAddr,
    tls: bool,
    state: Arc<State>,
    acceptor: AbortHandle,
}

struct State {
    name: &'static str,
    speech: Speech,
    temper: Temper,
    seed: u64,
    began: Instant,
    serial: AtomicU64,
    requests: AtomicU64,
    busy: AtomicUsize,
    played: Mutex<BTreeMap<String, u64>>,
    leaks: Mutex<Vec<String>>,
}

impl Upstream {
    pub async fn start(name: &'static str, speech: Speech, temper: Temper, seed: u64) -> Upstream {
        Upstream::listen(name, speech, temper, seed, None).await
    }

    /// HTTP/2, over TLS.
    pub async fn h2(
        name: &'static str,
        speech: Speech,
        temper: Temper,
        seed: u64,
        leaf: &Leaf,
    ) -> Upstream {
        Upstream::listen(
            name,
            speech,
            temper,
            seed,
            Some(tls::acceptor(leaf, &["h2"])),
        )
        .await
    }

    async fn listen(
        name: &'static str,
        speech: Speech,
        temper: Temper,
        seed: u64,
        tls: Option<TlsAcceptor>,
    ) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State {
            name,
            speech,
            temper,
            seed,
            began: Instant::now(),
            serial: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            busy: AtomicUsize::new(0),
            played: Mutex::default(),
            leaks: Mutex::default(),
        });
        let is_tls = tls.is_some();
        let acceptor = spawn(accept(listener, tls, state.clone())).abort_handle();
        Upstream {
            name,
            speech,
            address,
            tls: is_tls,
            state,
            acceptor,
        }
    }

    pub fn base_url(&self) -> String {
        let path = match self.speech {
            Speech::OpenAi => "/v1",
            Speech::Gemini => "/v1beta",
            Speech::Anthropic | Speech::Bedrock => "",
        };
        let scheme = if self.tls {
            "https://localhost"
        } else {
            "http://127.0.0.1"
        };
        format!("{scheme}:{}{path}", self.address.port())
    }

    /// Requests that it is busy with.
    pub fn busy(&self) -> usize {
        self.state.busy.load(Ordering::Relaxed)
    }

    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::Relaxed)
    }

    /// How often it did what.
    pub fn played(&self) -> BTreeMap<String, u64> {
        self.state.played.lock().expect("counts").clone()
    }

    /// Callers' keys that reached it.
    pub fn leaks(&self) -> Vec<String> {
        self.state.leaks.lock().expect("leaks").clone()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

/// A request that is being answered.
struct Busy<'a>(&'a State);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((tcp, _)) = listener.accept().await else {
            continue;
        };
        while connections.try_join_next().is_some() {}
        let _ = tcp.set_nodelay(true);
        let (tls, state) = (tls.clone(), state.clone());
        connections.spawn(async move {
            match tls {
                None => http1(Wire::new(Io::Tcp(tcp)), &state).await,
                Some(tls) => {
                    let Ok(tls) = tls.accept(tcp).await else {
                        return;
                    };
                    http2(Io::Tls(Box::new(tls.into())), &state).await;
                }
            }
        });
    }
}

async fn http1(mut wire: Wire, state: &State) {
    loop {
        let Some(head) = wire.head().await else {
            return;
        };
        let (body, true) = wire.body(head.framing()).await else {
            return;
        };
        let target = head.start.split(' ').nth(1).unwrap_or_default();
        let (script, _busy) = state.choose(target, &head.raw, &body);
        match play::http1(&mut wire, &script).await {
            Played::Whole => {}
            Played::Reset => return wire.io.reset(),
            Played::Left | Played::Closed => return,
        }
    }
}

async fn http2(io: Io, state: &Arc<State>) {
    let Ok(mut server) = h2::server::handshake(io).await else {
        return;
    };
    let (kill, mut killed) = tokio::sync::mpsc::channel::<()>(1);
    let mut streams = JoinSet::new();
    loop {
        let next = tokio::select! {
            next = server.accept() => next,
            // Before its streams, which would be reset one by one.
            _ = killed.recv() => return drop(server),
        };
        while streams.try_join_next().is_some() {}
        let Some(Ok((request, mut respond))) = next else {
            return;
        };
        let (state, kill) = (state.clone(), kill.clone());
        streams.spawn(async move {
            let (parts, mut incoming) = request.into_parts();
            let mut body = Vec::new();
            while let Some(Ok(data)) = incoming.data().await {
                let _ = incoming.flow_control().release_capacity(data.len());
                body.extend_from_slice(&data);
            }
            let fields = format!("{:?}", parts.headers);
            let (script, busy) = state.choose(parts.uri.path(), fields.as_bytes(), &body);
            let mut stream = None;
            let played = play::http2(&mut respond, &mut stream, &script).await;
            drop(busy);
            if let Played::Closed = played {
                let _ = kill.send(()).await;
                // Keeps the stream until its connection is gone.
                std::future::pending::<()>().await;
            }
        });
    }
}

impl State {
    fn choose(&self, target: &str, head: &[u8], body: &[u8]) -> (Script, Busy<'_>) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.busy.fetch_add(1, Ordering::Relaxed);
        let busy = Busy(self);
        let mark = canary::CALLER_MARK.as_bytes();
        if [head, body]
            .iter()
            .any(|text| memchr::memmem::find(text, mark).is_some())
        {
            self.leaks
                .lock()
                .expect("leaks")
                .push(String::from_utf8_lossy(head).into_owned());
        }
        let Some(request) = number(body) else {
            // What asks whether we are well is no caller.
            return (self.plain("well"), busy);
        };
        let stream = self.speech.wants_stream(target, body);
        let mut rng = draw(self.seed, self.name, request);
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let big = memchr::memmem::find(body, b"soak-big").is_some();
        // What is big is more than the buffers of sockets hold.
        let (pieces, pad) = if big && stream {
            (150, 8000)
        } else {
            (rng.usize(1..10), rng.usize(0..60))
        };
        let text = Text {
            request,
            upstream: self.name.to_owned(),
            serial,
            pieces,
            pad,
        };
        let second = self.began.elapsed().as_secs();
        let mut outage = draw(self.seed ^ 0xBAD, self.name, second);
        let (kind, fault) = if outage.u64(0..100) < self.temper.outages {
            ("outage", pick(&mut outage, OUTAGES))
        } else if rng.u64(0..100) >= self.temper.faults {
            if rng.u8(0..4) == 0 {
                ("odd", pick(&mut rng, ODD))
            } else {
                ("sound", "sound")
            }
        } else if self.temper.harsh {
            ("harsh", pick(&mut rng, HARSH))
        } else {
            match (rng.bool(), stream) {
                (true, _) => ("fault", pick(&mut rng, FAULTS)),
                (false, true) => ("cut", pick(&mut rng, CUTS)),
                (false, false) => ("half", pick(&mut rng, HALVES)),
            }
        };
        *self
            .played
            .lock()
            .expect("counts")
            .entry(format!("{kind}: {fault}"))
            .or_default() += 1;
        let script = match (kind, stream) {
            ("sound" | "odd", true) => self.stream(&text, fault, &mut rng),
            ("sound" | "odd", false) => self.buffered(&text, fault, &mut rng),
            ("cut", _) => self.cut(&text, fault, rng.usize(0..=text.pieces)),
            ("half", _) => self.half(&text, fault),
            _ => self.fault(&text, fault, stream),
        };
        (script, busy)
    }

    fn plain(&self, text: &str) -> Script {
        Script::text(200, "application/json", self.speech.answer(text))
    }

    fn error(&self, status: u16) -> Script {
        Script::text(status, "application/json", self.speech.error(status))
    }

    fn stream_head(&self) -> Script {
        Script::new().head(
            200,
            &[
                ("content-type", self.speech.stream_type()),
                ("transfer-encoding", "chunked"),
            ],
        )
    }

    fn head_of(&self, stream: bool) -> Script {
        if stream {
            self.stream_head()
        } else {
            Script::new().head(
                200,
                &[
                    ("content-type", "application/json"),
                    ("content-length", "900"),
                ],
            )
        }
    }

    fn stream(&self, text: &Text, how: &str, rng: &mut fastrand::Rng) -> Script {
        let speech = self.speech;
        if how == "the other form" && speech == Speech::OpenAi {
            return self.plain(&text.whole());
        }
        let is_sse = speech != Speech::Bedrock;
        let script = if how == "103 first" {
            Script::new().informational(103, &[("link", "</x>")])
        } else {
            Script::new()
        };
        let script = script.and(self.stream_head());
        let script = if how == "late" {
            script.delay(ms(rng.u64(50..400)))
        } else {
            script
        };
        let mut script = script.body(speech.opening());
        for place in 0..text.pieces {
            let piece = speech.piece(&text.piece(place));
            script = match how {
                "in slices" if place < 2 => script.slices(piece, 31, Duration::ZERO),
                "comments" if is_sse => script.body(": still here\r\n\r\n").body(piece),
                "slow" => script.delay(ms(rng.u64(1..80))).body(piece),
                _ => script.body(piece),
            };
        }
        let script = script.body(speech.closing(how != "no usage", how == "finish twice"));
        let script = if how == "no [DONE]" || speech.done().is_empty() {
            script
        } else {
            script.body(speech.done())
        };
        if how == "then close" {
            script.end().close()
        } else {
            script.end()
        }
    }

    fn buffered(&self, text: &Text, how: &str, rng: &mut fastrand::Rng) -> Script {
        let whole = self.speech.answer(&text.whole());
        let length = whole.len().to_string();
        let head = Script::new().head(
            200,
            &[
                ("content-type", "application/json"),
                ("content-length", &length),
            ],
        );
        match how {
            "late" | "slow" => Script::new()
                .delay(ms(rng.u64(50..400)))
                .and(head)
                .body(whole)
                .end(),
            "in slices" => head.slices(whole, 97, Duration::ZERO).end(),
            // Without a word: the next request on this connection finds it stale.
            "then close" => head.body(whole).end().close(),
            "103 first" => Script::new()
                .informational(103, &[("link", "</x>")])
                .and(head)
                .body(whole)
                .end(),
            _ => head.body(whole).end(),
        }
    }

    /// A stream that breaks after so many pieces.
    fn cut(&self, text: &Text, how: &str, after: usize) -> Script {
        let speech = self.speech;
        let mut script = self.stream_head().body(speech.opening());
        for place in 0..after {
            script = script.body(speech.piece(&text.piece(place)));
        }
        let next = speech.piece(&text.piece(after));
        let half = &next[..next.len() / 2];
        match how {
            "reset" => script.reset(),
            "close" => script.close(),
            "end" => script.end(),
            // A promise of more than what comes.
            "half a chunk" if !self.is_h2() => script.raw("fff\r\n").raw(half).close(),
            "half a chunk" | "half an event" => script.body(half).end(),
            "error" => script.body(speech.error_event()).end(),
            "error, then more" => script
                .body(speech.error_event())
                .body(speech.piece(&text.piece(after)))
                .body(speech.closing(true, false))
                .end(),
            "garbage" => script.body(speech.garbage()).stall(),
            "silence" => script.stall(),
            "a long line" => script.body("data: ").body("x".repeat(EVENT * 2)).stall(),
            other => unreachable!("{other}"),
        }
    }

    fn half(&self, text: &Text, how: &str) -> Script {
        let whole = self.speech.answer(&text.whole());
        let length = whole.len().to_string();
        let script = Script::new().head(
            200,
            &[
                ("content-type", "application/json"),
                ("content-length", &length),
            ],
        );
        let script = script.body(&whole[..whole.len() / 2]);
        match how {
            "half, then reset" => script.reset(),
            "half, then close" => script.close(),
            "half, then silence" => script.stall(),
            other => unreachable!("{other}"),
        }
    }

    fn fault(&self, text: &Text, how: &str, stream: bool) -> Script {
        match how {
            "429 seconds" => self.error(429).with("retry-after", "1"),
            "429 milliseconds" => self.error(429).with("retry-after-ms", "300"),
            "429 date" => self
                .error(429)
                .with("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"),
            "429 absurd" => self.error(429).with("retry-after", "1000000000"),
            "302" => self
                .error(302)
                .with("location", "http://127.0.0.1:1/elsewhere"),
            "reset" => Script::new().reset(),
            "close" => Script::new().close(),
            "reset after the head" => self.head_of(stream).reset(),
            "close after the head" => self.head_of(stream).close(),
            "silence" => Script::silent(),
            "silence after the head" => self.head_of(stream).stall(),
            "html" => Script::text(200, "text/html", "<html>a portal</html>"),
            "empty" => Script::text(200, "application/json", ""),
            "null" => Script::text(200, "application/json", "null"),
            "malformed" => Script::text(200, "application/json", "{\"choices\": [{"),
            "error in a 200" => Script::text(200, "application/json", self.speech.error(500)),
            "gzip" => Script::text(200, "application/json", b"\x1f\x8b\x08\0\0\0\0\0")
                .with("content-encoding", "gzip"),
            "no http" if self.is_h2() => Script::new().reset(),
            "no http" => Script::new().raw("220 smtp ready\r\n\r\n").close(),
            "too large" => {
                let mut big = text.clone();
                big.pad = RESPONSE_BODY / big.pieces + 1;
                self.plain(&big.whole())
            }
            status => self.error(status.parse().expect("a status")),
        }
    }

    fn is_h2(&self) -> bool {
        self.name == "two"
    }
}

fn pick(rng: &mut fastrand::Rng, from: &[&'static str]) -> &'static str {
    from[rng.usize(0..from.len())]
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The number that every request has in its prompt.
fn number(body: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(body, b"soak#")? + 5;
    let digits = body[at..].iter().take_while(|b| b.is_ascii_digit());
    std::str::from_utf8(&body[at..at + digits.count()])
        .ok()?
        .parse()
        .ok()
}
