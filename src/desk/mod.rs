//! The desk is the half of the gateway that faces callers. It takes a request in, decides what
//! becomes of it, and answers it, or has an exchange with the upstreams answer it.

mod ask;
pub mod auth;
pub mod checks;
pub mod connection;
mod count;
pub mod door;
pub mod gateway;
pub mod intake;
mod items;
mod limits;
mod own;
pub mod record;
pub mod relay;
pub mod reply;
pub mod request_id;
pub mod unpriced;

use crate::base::calendar;
use crate::base::memory::Budget;
use crate::base::spool::Spool;
use crate::catalog::Key;
use crate::conf::config::Server;
use crate::drain::Phase;
use crate::error::{FailureKind, Refusal};
use crate::exchange::backends::Backends;
use crate::exchange::producer::{Producer, Request, Sent};
use crate::exchange::{self, OwnTime, Panicked};
use crate::limits::KeyScopes;
use crate::live::Snapshot;
use crate::models;
use crate::traces;
use bytes::Bytes;
use door::{Door, Own};
use pingora_proxy::Session;
use record::{Books, Record};
use relay::{End, Relay, account_for};
use reply::{Notes, Reply};
use std::pin::pin;
use std::sync::Arc;
use std::time::SystemTime;

/// What a browser is shown at the callers' address. It names no other address.
const WELCOME: &str = "\
This is Portcullis, a gateway for language models. There is nothing more to look at here.
Programs use it as OpenAI's API (base URL: this address with /v1), Anthropic's API, or Gemini's API (this address).
Each request needs a key of this gateway, which its operator gives out.
With a key, GET /v1/models lists the models, and GET /portcullis/key says what the key may use.
The book is in the folder docs/src of the program's source: start.md for the first request, operate.md for operators.
";

/// The desk. A process has one of these.
pub struct Desk {
    /// The settings of `conf/server.yaml`.
    pub settings: Arc<Server>,
    /// The parts in which exchanges are settled.
    pub books: Arc<Books>,
    /// The parts through which exchanges ask providers.
    pub backends: Arc<Backends>,
    /// The budget of memory for requests and buffered answers.
    pub memory: Arc<Budget>,
    /// The place of uploads.
    pub spool: Arc<Spool>,
}

/// A request that was read, with the plan of the targets that may be tried.
struct Planned {
    request: Request,
    sent: Sent,
}

impl Desk {
    /// Notes the facts that are known of every request before anything is decided.
    fn begin_record(&self, session: &mut Session, record: &mut Record) {
        let timeouts = self.settings.timeouts;
        session.set_read_timeout(Some(timeouts.client_read));
        session.set_write_timeout(Some(timeouts.client_write));
        if self.books.drain.phase() > Phase::Serving {
            session.set_keepalive(None);
        } else if session.get_keepalive().is_some() {
            session.set_keepalive(Some(timeouts.keepalive.as_secs().max(1)));
        }
        let header = session.req_header();
        let (id, made) = request_id::read_or_make(&header.headers);
        let local_address = || session.server_addr().and_then(|a| a.as_inet()).copied();
        record.facts.trace = traces::begin_trace(
            self.books.traces.as_deref(),
            &header.headers,
            made,
            local_address,
        );
        record.facts.request.id = id;
        record.facts.request.method = header
            .method
            .as_str()
            .get(..16)
            .unwrap_or(header.method.as_str())
            .to_owned();
        record.facts.request.path = request_id::display_text(header.uri.path()).into();
        let peer = session
            .client_addr()
            .and_then(|a| a.as_inet())
            .map(|a| a.ip());
        record.facts.sender.address = auth::caller_address(&self.settings, peer, &header.headers);
    }

    /// Answers a request, or returns the plan for it.
    async fn handle(
        &self,
        session: &mut Session,
        record: &mut Record,
    ) -> Result<Option<Box<Planned>>, Refusal> {
        let header = session.req_header();
        let (path, query) = (header.uri.path(), header.uri.query());
        record.front = door::front_for_path(path, query, &|name| header.headers.contains_key(name));
        checks::check_sizes(session, self.settings.limits.header_bytes)?;
        checks::check_coding(session)?;
        checks::check_connection(session)?;
        let header = session.req_header();
        let (path, query) = (header.uri.path(), header.uri.query());
        let cors = !self.settings.cors.is_empty();
        let is_browser = path == "/" && checks::wants_page(header);
        let door =
            match door::door_for_path(header.method.as_str(), path, query, cors, record.front) {
                Err(_) if is_browser => Door::Welcome,
                found => found?,
            };
        record.facts.request.door = door.name();
        exchange::panic_here(session, "door");
        let written = match door {
            Door::Live | Door::Ready => {
                record.is_exchange = false;
                let status = if door == Door::Live || self.books.drain.ready() {
                    200
                } else {
                    503
                };
                self.reply(session, record)
                    .plain(status, "text/plain", Bytes::new())
                    .await
            }
            Door::Welcome => {
                self.reply(session, record)
                    .plain(200, "text/plain; charset=utf-8", WELCOME.into())
                    .await
            }
            Door::Hello => {
                self.reply(session, record)
                    .plain(200, "text/plain", Bytes::new())
                    .await
            }
            Door::Preflight { methods } => self.reply(session, record).preflight(methods).await,
            Door::Models => {
                let (snapshot, key) = self.authenticate(session, record)?;
                let list = snapshot.lists.list(&snapshot.catalog, &key, record.front);
                self.reply(session, record)
                    .plain(200, "application/json", list)
                    .await
            }
            Door::Model(id) => {
                let (snapshot, key) = self.authenticate(session, record)?;
                let one = models::render_one(&snapshot.catalog, &key, &id, record.front);
                let one = one.ok_or_else(|| ask::unknown_model(&snapshot, &key, &id))?;
                self.reply(session, record)
                    .plain(200, "application/json", one)
                    .await
            }
            Door::Own(question) => {
                let (snapshot, key) = self.authenticate(session, record)?;
                // A question that comes too often is no request of a caller that failed.
                own::not_too_often(&snapshot, &key).inspect_err(|_| record.is_figured = false)?;
                // The future is boxed, since few ask this, and every request would hold its memory.
                let own_answer =
                    Box::pin(self.answer_about_key(session, (&snapshot, &key), question)).await?;
                self.reply(session, record)
                    .plain(200, "application/json", own_answer)
                    .await
            }
            Door::Count(front, asked) => {
                record.front = front;
                let (snapshot, key) = self.authenticate(session, record)?;
                // The future is boxed, since a count is rare, and every request would hold its
                // memory.
                let (answer, notes) =
                    Box::pin(self.count_tokens(session, record, (snapshot, &key), asked)).await?;
                self.reply(session, record).answer(answer, &notes).await
            }
            Door::Ask(front, asked) => {
                record.front = front;
                let (snapshot, key) = self.authenticate(session, record)?;
                return self
                    .plan_request(session, record, (snapshot, &key), asked)
                    .await
                    .map(Some);
            }
        };
        written
            .map(|()| None)
            .map_err(|()| Refusal::new(FailureKind::CallerLeft, "The caller left."))
    }

    /// Finds the key of the request, and notes that the key is used.
    fn authenticate(
        &self,
        session: &Session,
        record: &mut Record,
    ) -> Result<(Arc<Snapshot>, Arc<Key>), Refusal> {
        let header = session.req_header();
        let snapshot = self.books.live.load_full();
        let queried = record.front.keys_in_query(header.uri.query());
        let sent = auth::Sent {
            headers: &header.headers,
            queried: &queried,
        };
        let key = auth::find_key(
            &snapshot.catalog,
            sent,
            record.facts.sender.address,
            SystemTime::now(),
        );
        let (key, old) = key
            .map(|(key, old)| (key.clone(), old))
            .ok_or_else(Refusal::invalid_key)?;
        if let Some(KeyScopes { used, .. }) = snapshot.scopes.get(key.index) {
            let now = calendar::now_millis();
            if used.touch(now) {
                self.books.ledger.note_use(key.id.clone(), now);
            }
            if old {
                used.note_old_hash(now);
            }
        }
        record.facts.sender.caller = Some(key.caller.id.clone());
        record.facts.sender.key = Some(key.id.clone());
        record.facts.times.auth = Some(record.began.elapsed());
        if self.books.traces.is_some() {
            record.snapshot = Some(snapshot.clone());
        }
        exchange::panic_here(session, "auth");
        Ok((snapshot, key))
    }

    /// Answers what a key asks about itself.
    async fn answer_about_key(
        &self,
        session: &Session,
        (snapshot, key): (&Arc<Snapshot>, &Arc<Key>),
        question: Own,
    ) -> Result<Bytes, Refusal> {
        match question {
            Own::Key => Ok(own::describe_key(snapshot, key, &self.backends).await),
            Own::Usage => {
                own::key_usage(
                    &self.books.ledger,
                    key,
                    session.req_header().uri.query().unwrap_or(""),
                )
                .await
            }
        }
    }

    /// Has the upstreams answer a planned request.
    async fn exchange(
        &self,
        session: &mut Session,
        record: &mut Record,
        mut planned: Box<Planned>,
    ) -> End {
        if let Some(before) = &mut planned.request.debug {
            before.own = record.facts.times.own;
        }
        exchange::panic_here(session, "exchange");
        let own = OwnTime::default();
        let slices = match planned.request.cut(&planned.sent) {
            Ok(slices) => slices,
            Err(refusal) => return End::Refused(refusal, Notes::default()),
        };
        let mut producer = Producer::new(&self.backends, &planned.request, planned.sent, &own);
        producer.slice(slices.as_deref());
        let relay = Relay::new(self.reply(session, record));
        let relayed = exchange::run_guarded(&own, pin!(relay.run(&mut producer))).await;
        record.facts.times.own += own.so_far();
        relayed.unwrap_or_else(|Panicked| {
            account_for(record, &mut producer);
            let refusal = self.panicked();
            record.record_refusal(&refusal);
            // After the head, only the end of the connection can tell the caller.
            let is_silent = session
                .response_written()
                .is_none_or(|head| head.status.is_informational());
            if is_silent {
                End::Refused(refusal, Notes::default())
            } else {
                End::Broken
            }
        })
    }

    /// Returns the writer to this caller.
    fn reply<'x>(&'x self, session: &'x mut Session, record: &'x mut Record) -> Reply<'x> {
        Reply {
            session,
            record,
            settings: &self.settings,
            drain: &self.books.drain,
        }
    }

    /// Counts a panic of ours, and returns the refusal for the caller.
    fn panicked(&self) -> Refusal {
        self.books.metrics.process.panics.inc();
        Refusal::new(
            FailureKind::Internal,
            "The gateway failed. Try again. If it fails again, give the gateway's operator the request id.",
        )
    }
}
