//! The admin listener shows operators `/metrics`, `/status`, `/usage`, `/limits` and `/catalog`,
//! and answers probes. It is a service of its own, on its own thread, so that it answers during a
//! drain, up to the process's last moment. `access` says who may ask, and `routes` what is at a
//! path. **Invariant:** `/livez` and `/readyz` are answered, no matter who asks, by which name, and
//! how many others are connected.

use crate::base::lock::Lock;
use crate::desk::connection::InternalConnector;
use crate::desk::record::Books;
use crate::exchange::backends::Backends;
use crate::operator::live::LivePage;
use crate::operator::watch::Watch;
use async_trait::async_trait;
use bytes::Bytes;
use dialects::wire::shorten_text;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::http::ServerSession;
use pingora::protocols::l4::stream::Stream;
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

mod access;
mod answers;
mod catalog;
mod explain;
mod host;
mod readings;
mod relay;
mod routes;
mod slots;
mod status;

use access::KeyCheck;
use answers::{asset_page, limits_page, reset_account, usage_page};
use catalog::KeptMarks;
use host::HostNames;
pub use readings::metrics_text;
use routes::Route;
use slots::{Connected, ConnectionSlots};

/// The most connections that are open at once. Most of them send nothing: see [`slots`].
const MAX_CONNECTIONS: usize = 512;
/// The most requests, probes aside, that are answered at once: scrapers are few.
const MAX_REQUESTS: usize = 64;
/// The longest time until an answer is made, and until its reader takes some more of it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The bytes of an answer that are written at once.
const PIECE: usize = 16 * 1024;
/// The bytes of an answer that the system may hold for its reader.
const SEND_BUFFER: u32 = 64 * 1024;
/// The connections that wait to be accepted, as tokio has it.
const CONNECTIONS_WAITING: u32 = 1024;
/// The longest time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// The most explanations that are made at once: each takes a core for some milliseconds.
const MAX_EXPLANATIONS: usize = 2;
/// The time for which the rest of a question that is too large is read, so that its sender sees the
/// answer and not a reset.
const DRAIN_UNREAD: Duration = Duration::from_secs(1);
/// The time between two log lines about the same kind of refusal.
const WARN_INTERVAL: Duration = Duration::from_secs(60);
/// The time after which a wrong key is answered.
const WRONG_KEY_DELAY: Duration = Duration::from_secs(1);
/// The most requests with a wrong key that wait at once. Further ones are answered sooner: they
/// must not take the places of others.
const MAX_DELAYED_ANSWERS: usize = 32;
const PLAIN: &str = "text/plain";
/// Headers on each answer, since a browser may show it.
const GUARDS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// The admin listener, as a service of Pingora's.
pub struct Admin {
    pages: Arc<Pages>,
}

/// The pages that all connections share.
struct Pages {
    books: Arc<Books>,
    backends: Arc<Backends>,
    watch: Arc<Watch>,
    started: Instant,
    live_page: LivePage,
    allowed_hosts: HostNames,
    /// A permit for each request that is answered, probes aside.
    request_permits: Semaphore,
    /// A permit for each request with a wrong key that waits for its answer.
    delay_permits: Semaphore,
    /// A permit for each explanation that is made.
    explanation_permits: Arc<Semaphore>,
    /// A permit for each try that runs.
    try_permits: Semaphore,
    /// What was last compared with the files, for `/catalog`.
    catalog_marks: KeptMarks,
    /// The callers' door, if it is in this process.
    door: Option<InternalConnector>,
    /// The time of the last log line of each [`Warning`].
    warned_at: [Lock<Option<Instant>>; 3],
}

/// Something that the operator may have to do something about.
#[derive(Clone, Copy)]
enum Warning {
    /// A request names a host that is not allowed.
    RefusedHost,
    /// A request has a wrong key.
    WrongKey,
    /// An answer was cut, since its reader took nothing of it.
    CutAnswer,
}

/// What a request gets.
enum Admission<'p> {
    /// The answer of this route. The request holds the permit meanwhile.
    Route(Route<'p>, SemaphorePermit<'p>),
    /// This answer: to a probe, or a refusal.
    Answer(FullPage),
}

impl Admission<'_> {
    fn answer(status: u16, text: &str) -> Self {
        Admission::Answer((status, PLAIN, text.to_owned()).into())
    }
}

/// A page: its status, content type and body.
type Page = (u16, &'static str, String);

/// A page, and the further fields of its head.
struct FullPage {
    page: Page,
    headers: Vec<(&'static str, String)>,
    /// The permit of a `/catalog` answer, held until it is sent.
    permit: Option<OwnedSemaphorePermit>,
}

impl From<Page> for FullPage {
    fn from(page: Page) -> FullPage {
        FullPage {
            page,
            headers: Vec::new(),
            permit: None,
        }
    }
}

impl Admin {
    /// Returns the service. `started` is the time at which the process began to serve.
    pub fn new(
        books: Arc<Books>,
        backends: Arc<Backends>,
        watch: Arc<Watch>,
        started: Instant,
    ) -> Admin {
        // If a file cannot be read, its names are not known.
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        // The sandbox of a service manager may hide what is not a process.
        let machine_name = ["/proc/sys/kernel/hostname", "/etc/hostname"].map(read);
        let machine_name = machine_name
            .iter()
            .find(|name| !name.trim().is_empty())
            .map_or("", |name| name.trim());
        let allowed_hosts = HostNames::new(
            machine_name,
            &read("/etc/hosts"),
            &backends.server.admin.hosts,
        );
        let live = LivePage::new(books.clone(), backends.clone(), watch.clone(), started);
        let pages = Pages {
            books,
            backends,
            watch,
            started,
            live_page: live,
            allowed_hosts,
            request_permits: Semaphore::new(MAX_REQUESTS),
            delay_permits: Semaphore::new(MAX_DELAYED_ANSWERS),
            explanation_permits: Arc::new(Semaphore::new(MAX_EXPLANATIONS)),
            try_permits: Semaphore::new(relay::MAX_TRIES),
            catalog_marks: KeptMarks::default(),
            door: None,
            warned_at: Default::default(),
        };
        Admin {
            pages: Arc::new(pages),
        }
    }

    /// Adds the callers' door, so that requests can be tried.
    pub fn with_door(mut self, door: InternalConnector) -> Admin {
        // No other task has the pages before the service begins.
        if let Some(pages) = Arc::get_mut(&mut self.pages) {
            pages.door = Some(door);
        }
        self
    }
}

#[async_trait]
impl Service for Admin {
    async fn start_service(&mut self, _: Option<ListenFds>, shutdown: ShutdownWatch, _: usize) {
        let address = self.pages.backends.server.admin.address;
        let listener = match bind_listener(address) {
            Ok(listener) => listener,
            Err(why) => return log::error!("the admin listener cannot bind {address}: {why}"),
        };
        let slots = ConnectionSlots::new(MAX_CONNECTIONS);
        let mut is_failing = false;
        // The connections' tasks belong to this service's runtime, which ends with the process.
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    is_failing = false;
                    // If all places are busy, the new connection is closed at once.
                    let Some((slot, evicted)) = slots.take() else {
                        continue;
                    };
                    let (pages, shutdown) = (self.pages.clone(), shutdown.clone());
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "owned by this service's runtime, bounded in number and time"
                    )]
                    tokio::spawn(async move {
                        // A scraper that is too slow is disconnected; there is nothing to tell it.
                        drop(pages.serve(stream, &slot, evicted, from, &shutdown).await);
                    });
                }
                Err(why) => {
                    // It is logged once, however long it lasts.
                    if !std::mem::replace(&mut is_failing, true) {
                        log::warn!("the admin listener cannot accept: {why}");
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }

    fn name(&self) -> &str {
        "admin"
    }

    fn threads(&self) -> Option<usize> {
        Some(1)
    }
}

/// Listens at the address of the admin listener. Its connections have small buffers, so that the
/// progress of a slow reader is soon seen.
fn bind_listener(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(CONNECTIONS_WAITING)
}

impl Pages {
    /// Reads one request, and answers it.
    async fn serve(
        &self,
        stream: TcpStream,
        slot: &Connected,
        evicted: Receiver<()>,
        from: SocketAddr,
        shutdown: &ShutdownWatch,
    ) -> pingora::Result<()> {
        let mut session = ServerSession::new_http1(Box::new(Stream::from(stream)));
        let has_head = tokio::select! {
            head = tokio::time::timeout(HEAD_TIMEOUT, session.read_request()) => matches!(head, Ok(Ok(true))),
            _ = evicted => false,
        };
        if !has_head || !slot.mark_busy() {
            return Ok(());
        }
        session.set_keepalive(None);
        let header = session.req_header().clone();
        let answer = match self.admit(&header).await {
            // A try holds no permit: it lasts as long as its answer, which has its own deadlines.
            Admission::Route(Route::Try, permit) => {
                drop(permit);
                match self.relay(&mut session, from, shutdown).await? {
                    Some(refusal) => refusal,
                    None => return session.finish().await.map(drop),
                }
            }
            Admission::Route(route, _permit) => {
                let page = self.answer_route(route, &header, &mut session);
                let page = tokio::time::timeout(ANSWER_TIMEOUT, page).await;
                page.unwrap_or_else(|_| {
                    let text = "the answer could not be made in time: try again\n";
                    (503, PLAIN, text.to_owned()).into()
                })
            }
            Admission::Answer(answer) => answer,
        };
        let written = write_answer(session, answer).await;
        if let Err(Unwritten::NotRead { written, total }) = &written {
            let path = shorten_text(header.uri.path(), 60);
            let seconds = ANSWER_TIMEOUT.as_secs();
            self.warn(Warning::CutAnswer, || {
                format!(
                    "an answer of the admin listener to {path} was cut after {written} of {total} bytes: its reader, {}, took \
                     nothing of it for {seconds} s",
                    from.ip()
                )
            });
        }
        Ok(())
    }

    /// Returns the route that a request asks for, with a permit, or the answer to a request that is
    /// a probe or is refused.
    async fn admit<'p>(&'p self, header: &'p RequestHeader) -> Admission<'p> {
        // A probe's answer has nothing worth protecting, so a probe needs no allowed name, no key
        // and no place. It must be answered whoever else asks.
        if let Some(healthy) = self.probe(header) {
            return Admission::answer(if healthy { 200 } else { 503 }, "");
        }
        #[cfg(feature = "test-clock")]
        if let Some(counts) = crate::base::clock::commands::carry_out(header.uri.path()).await {
            // Requests that wait for the end of a cool-down look again.
            let states = &self.books.live.load().states;
            states.iter().for_each(|state| state.freed.notify_waiters());
            return Admission::answer(200, &counts);
        }
        let admin = &self.backends.server.admin;
        if let Some(host) = request_hosts(header).find(|host| !self.allowed_hosts.allow(host)) {
            self.warn(Warning::RefusedHost, || host::host_refusal(host, admin));
            return Admission::answer(421, &host::host_refusal(host, admin));
        }
        let key_check = access::check_key(admin, &header.headers);
        if key_check != KeyCheck::Right {
            return Admission::Answer(self.key_refusal(key_check).await);
        }
        let Ok(permit) = self.request_permits.try_acquire() else {
            return Admission::answer(
                503,
                "too many requests to the admin listener at once: try again\n",
            );
        };
        let Some(route) = Route::find(header.uri.path(), admin.page) else {
            return Admission::answer(404, &routes::unknown_page(admin.page));
        };
        if !route
            .allow()
            .split(", ")
            .any(|method| header.method == method)
        {
            let page = (405, PLAIN, format!("use {}\n", route.allow()));
            let headers = vec![("allow", route.allow().to_owned())];
            return Admission::Answer(FullPage {
                page,
                headers,
                permit: None,
            });
        }
        if route.changes_state()
            && let Some(refusal) = access::refuse_action(admin, &header.headers)
        {
            return Admission::Answer(refusal.into());
        }
        Admission::Route(route, permit)
    }

    /// Returns the answer of a route.
    async fn answer_route(
        &self,
        route: Route<'_>,
        header: &RequestHeader,
        session: &mut ServerSession,
    ) -> FullPage {
        let query = header.uri.query().unwrap_or("");
        match route {
            Route::Usage => usage_page(&self.books.ledger, query).await,
            Route::Limits => {
                limits_page(&self.books.live, self.backends.store.as_ref(), query).await
            }
            Route::Metrics => {
                // The watch sets the gauges of problems.
                self.watch.observe();
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                (
                    200,
                    kind,
                    metrics_text(&self.books, self.backends.store.as_ref()),
                )
            }
            // Strings, numbers and lists of them always serialise.
            Route::Status => {
                let page =
                    serde_json::to_string_pretty(&status::present_status(self)).unwrap_or_default();
                (200, "application/json", page + "\n")
            }
            Route::Live(part) => self.live_page.page(part, query).await,
            Route::Reset(account) => reset_account(&self.books.live, account),
            Route::Explain => match relay::read_body(session, explain::MAX_QUESTION_BYTES).await {
                Ok(question) => self.explain(question).await,
                Err(refusal) => refusal,
            },
            Route::Catalog => return self.catalog().await,
            Route::Asset(kind, text) => return asset_page(kind, text, &header.headers),
            // `serve` has relayed it: no try comes here.
            Route::Try => (404, PLAIN, String::new()),
        }
        .into()
    }

    /// Returns the answer to a request that does not show the key.
    async fn key_refusal(&self, key_check: KeyCheck) -> FullPage {
        if key_check == KeyCheck::Wrong {
            self.warn(Warning::WrongKey, || {
                "a request to the admin listener had a wrong key".to_owned()
            });
            if let Ok(_permit) = self.delay_permits.try_acquire() {
                tokio::time::sleep(WRONG_KEY_DELAY).await;
            }
        }
        let message = "the admin listener wants its key: as `Authorization: Bearer KEY`, or as the password of Basic\n";
        let ask = (
            "www-authenticate",
            "Basic realm=\"portcullis\", charset=\"UTF-8\"".to_owned(),
        );
        FullPage {
            page: (401, PLAIN, message.to_owned()),
            headers: vec![ask],
            permit: None,
        }
    }

    /// Returns whether the process is well, if the request is a probe. HAProxy asks `OPTIONS /` by
    /// default.
    fn probe(&self, header: &RequestHeader) -> Option<bool> {
        let options = header.method == http::Method::OPTIONS;
        let reads =
            options || header.method == http::Method::GET || header.method == http::Method::HEAD;
        match header.uri.path() {
            "/livez" if reads => Some(true),
            "/readyz" if reads => Some(self.books.drain.ready()),
            "/" | "*" if options => Some(self.books.drain.ready()),
            _ => None,
        }
    }

    /// Logs a warning, unless one of its kind was just logged.
    fn warn(&self, warning: Warning, message: impl FnOnce() -> String) {
        let [host, key, cut] = &self.warned_at;
        let mut last = match warning {
            Warning::RefusedHost => host,
            Warning::WrongKey => key,
            Warning::CutAnswer => cut,
        }
        .lock();
        if last.is_none_or(|warned_at| warned_at.elapsed() >= WARN_INTERVAL) {
            *last = Some(Instant::now());
            log::warn!("{}", message().trim_end());
        }
    }
}

/// The reason why an answer was not written.
enum Unwritten {
    /// The connection broke.
    Broken,
    /// Its reader took nothing for too long.
    NotRead {
        /// The bytes that were written before.
        written: usize,
        /// The bytes of the whole answer.
        total: usize,
    },
}

/// Writes an answer, and ends the connection. A slow reader may take its time, as long as it reads.
async fn write_answer(mut session: ServerSession, answer: FullPage) -> Result<(), Unwritten> {
    let FullPage {
        page: (status, kind, body),
        headers,
        permit: _permit,
    } = answer;
    let head = response_head(status, kind, body.len(), headers).map_err(|_| Unwritten::Broken)?;
    let is_head_request = session.req_header().method == http::Method::HEAD;
    let mut rest = if is_head_request {
        Bytes::new()
    } else {
        Bytes::from(body)
    };
    let total = rest.len();
    with_answer_timeout(session.write_response_header(Box::new(head)), 0, total).await?;
    while !rest.is_empty() {
        let written = total - rest.len();
        let piece = rest.split_to(PIECE.min(rest.len()));
        with_answer_timeout(
            session.write_response_body(piece, rest.is_empty()),
            written,
            total,
        )
        .await?;
    }
    // What is left of a request is read, so that its sender sees the answer and not a reset.
    session.set_total_drain_timeout(Some(DRAIN_UNREAD));
    with_answer_timeout(session.finish(), total, total)
        .await
        .map(drop)
}

fn response_head(
    status: u16,
    kind: &str,
    length: usize,
    headers: Vec<(&'static str, String)>,
) -> pingora::Result<ResponseHeader> {
    let mut head = ResponseHeader::build(status, Some(4 + GUARDS.len()))?;
    head.insert_header("content-type", kind)?;
    if !matches!(status, 204 | 304) {
        head.insert_header("content-length", length)?;
    }
    for (name, value) in GUARDS {
        head.insert_header(name, value)?;
    }
    for (name, value) in headers {
        head.insert_header(name, value)?;
    }
    Ok(head)
}

/// Waits for a step of an answer. `written` is the number of its bytes that are written.
async fn with_answer_timeout<T>(
    step: impl Future<Output = pingora::Result<T>>,
    written: usize,
    total: usize,
) -> Result<T, Unwritten> {
    match tokio::time::timeout(ANSWER_TIMEOUT, step).await {
        Ok(done) => done.map_err(|_| Unwritten::Broken),
        Err(_) => Err(Unwritten::NotRead { written, total }),
    }
}

/// Returns all hosts that the request names. If the request's target also names a host, it is the
/// same one, or Pingora closes the connection.
fn request_hosts(header: &RequestHeader) -> impl Iterator<Item = &str> {
    // A value that is not text is not a host.
    header
        .headers
        .get_all(http::header::HOST)
        .iter()
        .map(|value| value.to_str().unwrap_or("?"))
}
