//! A [`Store`] is a Redis or Valkey server that several gateways share. It keeps four things:
//! what callers have used of their limits and budgets, which upstream accounts are broken, signed
//! thoughts, and items of answers to which later requests refer.
//!
//! One script in the store admits a request: it takes from all of the request's limits or from
//! none. What the request used in the end is sent with the next admission of its scopes, or by
//! itself within 20 ms, and no request waits for that. It is sent at once if a scope is nearly full
//! or limits the requests that run, if more was used than reserved, and while the process ends.
//!
//! Each gateway also counts its own part, as if it were alone, and that count is the true one.
//! Whenever the store may have missed something (it was away, slow, flushed or restarted), the
//! gateway sends its whole part again, and the store's sum is right again. Until then, and while
//! the store does not answer in time, each gateway uses its own counts and its share of each limit.
//!
//! **Invariants:**
//! * No request waits for an answer of the store longer than `timeout`. Most need one; who asks for
//!   many texts needs several, and asks for no more after one that is late. While the store is
//!   known to be down, no request waits for it at all.
//! * One task sends everything, and sends nothing new before it has read the answers to what it
//!   sent. So what a part was when it was sent is never in doubt.
//! * Seconds, days and months are the gateway's own, as in the ledger: a settlement must find those
//!   of its admission, also when that was made without the store. The store's clock only says which
//!   gateways live and what is too old to count.

mod circuit;
mod drive;
mod inbox;
mod items;
mod link;
mod outage;
mod probe;
mod protocol;
mod session;
mod texts;
mod thoughts;
mod totals;
mod trouble;
mod unreadable;

pub use probe::{StoreFacts, probe_store};
pub use texts::Lookup;

use crate::base::clock::Clock;
use crate::base::lock::Lock;
use crate::conf::config::{self, OnStoreDown};
use crate::limits::{self, Ask, Bounds, Changes, LimitReached, Registry, Reservation, WHOLE_LIMIT};
use crate::status::{StoreReport, StoreState};
use inbox::{AdmissionRequest, Decision, Inbox};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// The most admissions that wait. If more wait, the store is too slow for them.
const MAX_WAITING: usize = 10_000;
/// The longest time in which the store gets the last counts at the end of the process.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(250);
/// The time after which a caller may ask again that was refused without the store's answer.
const RETRY_SOON: Duration = Duration::from_secs(1);

/// The shared store.
pub struct Store {
    core: Arc<Core>,
    /// Closes when the store's thread ends.
    thread_end: Lock<Option<Receiver<()>>>,
}

/// The answer to a request for an admission.
#[derive(Debug)]
pub enum Admission {
    /// The request is admitted, and what it asked for is taken.
    Admitted(Reservation),
    /// A limit has no room.
    Refused(LimitReached),
    /// The store is down, and the settings admit nothing without it.
    Down,
}

/// The times until which accounts are broken for a model, by the account and its name for the
/// model.
pub type Hints = HashMap<(Arc<str>, Arc<str>), Instant>;

/// The store's metrics.
#[derive(Debug, Clone)]
pub struct Meters {
    /// Counts admissions without an answer in time, lost connections and failed tries to connect.
    pub errors: Counter,
    /// Measures the time from a request for an admission to its answer.
    pub seconds: Histogram,
}

/// The state that requests and the store's thread share.
struct Core {
    settings: config::Store,
    registry: Arc<Registry>,
    changes: Arc<Changes>,
    inbox: Lock<Inbox>,
    /// Wakes the store's thread when there is something in the inbox.
    work: Notify,
    meters: Meters,
    /// The number of admissions without the store since it was last up.
    local_admissions: AtomicU64,
    /// The targets that other gateways found broken.
    hints: Lock<Hints>,
    hinted: Notify,
}

impl Store {
    /// Makes a store of these settings; [`Store::start`] connects to it. `instance` names this
    /// gateway. It should be the same after a restart if the registry's scopes then get their past
    /// again. `registry` has the scopes, and was made with `changes`.
    pub fn new(
        settings: config::Store,
        instance: &str,
        registry: Arc<Registry>,
        changes: Arc<Changes>,
        meters: Meters,
    ) -> Store {
        let core = Core {
            settings,
            registry,
            changes,
            inbox: Lock::new(Inbox::new(instance, Clock::now())),
            work: Notify::new(),
            meters,
            local_admissions: AtomicU64::new(0),
            hints: Lock::default(),
            hinted: Notify::new(),
        };
        Store {
            core: Arc::new(core),
            thread_end: Lock::default(),
        }
    }

    /// Connects and stays connected, on a thread of its own: so nothing else in the process makes
    /// requests wait for the store.
    pub fn start(&self) -> Result<(), String> {
        let core = self.core.clone();
        let (ends, ended): (Sender<()>, Receiver<()>) = channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|why| format!("cannot start the store's runtime: {why}"))?;
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || {
                runtime.block_on(drive::keep_connected(&core));
                drop(ends);
            });
        thread.map_err(|why| format!("cannot start the store's thread: {why}"))?;
        *self.thread_end.lock() = Some(ended);
        Ok(())
    }

    /// Takes one request, one place and the amounts of `ask` from all bounds, or from none. The
    /// bounds count what all gateways together use.
    pub async fn admit(&self, bounds: &Bounds<'_>, ask: Ask, now_ms: u64) -> Admission {
        let core = &self.core;
        if bounds.is_empty() {
            return to_admission(limits::take_reservation(bounds, ask, now_ms, WHOLE_LIMIT));
        }
        let began = Instant::now();
        let mut answer = match core.post_admission(bounds, ask, now_ms) {
            Ok(answer) => answer,
            Err(state) => return core.decide_alone(state, bounds, ask, now_ms),
        };
        let decision = match tokio::time::timeout(core.settings.timeout, &mut answer).await {
            Ok(decision) => decision.ok(),
            Err(_) => {
                // An answer that came just now is used. A later one is undone by its sender.
                answer.close();
                let decision = answer.try_recv().ok();
                if decision.is_none() {
                    core.note_missed();
                    return core.decide_alone(StoreState::Down, bounds, ask, now_ms);
                }
                decision
            }
        };
        core.meters.seconds.observe(began.elapsed().as_secs_f64());
        // The connection is lost.
        let Some(decision) = decision else {
            return core.decide_alone(StoreState::Down, bounds, ask, now_ms);
        };
        core.inbox.lock().circuit.note_answered();
        match decision {
            Some(admitted) => to_admission(admitted),
            None => core.decide_alone(StoreState::Joining, bounds, ask, now_ms),
        }
    }

    /// Reports to other gateways that an account is broken for a model for this time. A time of
    /// zero takes that back.
    pub fn hint(&self, account: &str, model: &str, time: Duration) {
        let name = format!("{account} {model}");
        self.core.post(|inbox| {
            inbox.broken_targets.retain(|(other, _)| *other != name);
            // While the store is away, only so many hints are kept.
            (inbox.broken_targets.len() < 1_000).then(|| inbox.broken_targets.push((name, time)))
        });
    }

    /// Waits until the store has sent hints again, and returns what other gateways found broken.
    pub async fn hints(&self) -> Hints {
        self.core.hinted.notified().await;
        self.core.hints.lock().clone()
    }

    /// Returns the store's state, which says whether the store decides.
    pub fn state(&self) -> StoreState {
        self.core.inbox.lock().state
    }

    /// Returns what `/status` shows of the store.
    pub fn status(&self) -> StoreReport {
        let waiting = self.core.changes.len();
        let inbox = self.core.inbox.lock();
        StoreReport {
            state: inbox.state,
            for_seconds: Clock::now()
                .saturating_duration_since(inbox.since)
                .as_secs(),
            address: self.core.settings.address.to_string(),
            live: inbox.live_gateways,
            waiting,
            clock_ahead_ms: inbox.clock_ahead_ms,
            error: inbox.error.clone(),
            unreadable: inbox.unreadable.report(),
        }
    }

    /// Sends each settlement at once from now on, since the process is about to end.
    pub fn hurry(&self) {
        self.core.changes.hurry();
    }

    /// Sends what is settled, if the store answers, since the process ends. Blocks, but not for
    /// long.
    pub fn leave(&self) {
        self.core.leave();
        let ended = self.thread_end.lock().take();
        if let Some(ended) = ended {
            // Nothing is ever sent there: the thread's end closes the channel.
            ended.recv_timeout(LEAVE_TIMEOUT).ok();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.core.leave();
    }
}

fn to_admission(admitted: Result<Reservation, LimitReached>) -> Admission {
    match admitted {
        Ok(reservation) => Admission::Admitted(reservation),
        Err(refused) => Admission::Refused(refused),
    }
}

impl Core {
    /// Puts something into the inbox, and wakes the store's thread if it is put there.
    fn post<T>(&self, put: impl FnOnce(&mut Inbox) -> Option<T>) -> Option<T> {
        let posted = put(&mut self.inbox.lock())?;
        self.work.notify_one();
        Some(posted)
    }

    /// Puts a request for an admission into the inbox, if the store decides.
    fn post_admission(
        &self,
        bounds: &Bounds<'_>,
        ask: Ask,
        now_ms: u64,
    ) -> Result<oneshot::Receiver<Decision>, StoreState> {
        let (request, answer) = AdmissionRequest::new(bounds, ask, now_ms);
        let mut inbox = self.inbox.lock();
        match inbox.state {
            StoreState::Up if inbox.admissions.len() >= MAX_WAITING => {
                return Err(StoreState::Down);
            }
            StoreState::Up => inbox.admissions.push_back(request),
            StoreState::Joining | StoreState::Down => return Err(inbox.state),
        }
        drop(inbox);
        self.work.notify_one();
        Ok(answer)
    }

    /// Decides without the store's answer: by this gateway's counts and its share of each limit, or
    /// not at all.
    fn decide_alone(
        &self,
        state: StoreState,
        bounds: &Bounds<'_>,
        ask: Ask,
        now_ms: u64,
    ) -> Admission {
        match (state, self.settings.on_store_down) {
            (StoreState::Down, OnStoreDown::Refuse) => Admission::Down,
            (
                StoreState::Down | StoreState::Joining | StoreState::Up,
                OnStoreDown::Local | OnStoreDown::Refuse,
            ) => {
                let admitted =
                    limits::take_reservation(bounds, ask, now_ms, self.settings.instances);
                if admitted.is_ok() {
                    self.local_admissions.fetch_add(1, Ordering::Relaxed);
                }
                to_admission(admitted.map_err(|refused| self.shorten_wait(refused)))
            }
        }
    }

    /// Lets a refused caller ask again soon. A request that is over this gateway's share may be
    /// within the whole limit, and that is known as soon as the store answers.
    fn shorten_wait(&self, mut refused: LimitReached) -> LimitReached {
        let over = &mut refused.over;
        let whole = over.limit.saturating_mul(self.settings.instances);
        if self.settings.instances > 1 && over.asked <= whole {
            over.wait = Some(over.wait.map_or(RETRY_SOON, |wait| wait.min(RETRY_SOON)));
        }
        refused
    }

    /// Counts a request that had no answer in time. Too many in a row take the store out.
    fn note_missed(&self) {
        self.meters.errors.inc();
        let too_many = self
            .inbox
            .lock()
            .circuit
            .note_missed(Clock::now(), fastrand::f64());
        if too_many {
            self.take_out_as_slow();
        }
    }

    fn leave(&self) {
        self.changes.hurry();
        self.inbox.lock().is_leaving = true;
        self.work.notify_one();
    }
}
