//! What several gateways share, in a Redis or Valkey: limits and budgets, what is broken upstream,
//! signed thoughts.
//!
//! An exchange is admitted by one script in the store, which takes from all its limits or from
//! none; what it used in the end is told later, and no request waits for that. Each gateway counts
//! its own part besides, as if it were alone, and that is the truth of it: whenever the store may
//! have missed something (it was gone, slow, flushed, restarted) the gateway tells its whole part
//! anew, and the sum is right again. Until then, and while there is no answer in time, each gateway
//! goes by its own counts and its part of each limit.
//!
//! **Invariants:** nobody waits for the store longer than `timeout`, and nobody at all while it is
//! known to be out; one task says everything, and says nothing new before it has heard the answers
//! to what it said: so what a part was when it was told is never in doubt. Seconds, days and months
//! are the gateway's own, as in the ledger: a settlement must find those of its admission, also
//! when that was made without the store. The store's clock is asked only for who lives and what is
//! too old to matter.

mod circuit;
mod drive;
mod link;
mod look;
mod session;
mod talk;
mod thoughts;
mod trouble;

use crate::config;
use crate::config::OnStoreDown;
use crate::limits::{self, Ask, Bound, Bounds, Changes, Limits, Refused, Registry, Reservation, Scope};
use circuit::Circuit;
use look::Looking;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thoughts::{Finding, Keeping};
use tokio::sync::{Notify, oneshot};

/// More admissions than this do not wait: the store is too slow for them.
const MOST_WAITING: usize = 10_000;
/// At the end of the process the store is told what it has not heard yet, for so long at most.
const FAREWELL: Duration = Duration::from_millis(250);

/// Who was refused without the store's word may ask for it so soon again.
const SOON: Duration = Duration::from_secs(1);

/// That counts were lost is said once in so long: a store that drops them by itself does it all the
/// time.
const LOST_AGAIN: Duration = Duration::from_secs(3_600);

/// The shared store.
pub struct Store {
    inside: Arc<Inside>,
    ended: Mutex<Option<Receiver<()>>>,
}

/// What comes of asking for an admission.
#[derive(Debug)]
pub enum Answer {
    /// It was taken.
    Admitted(Reservation),
    /// A limit has no room.
    Refused(Refused),
    /// The store is out, and without it nobody is admitted.
    Down,
}

/// How the store does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is not asked: there is no connection, or it is too slow.
    Down,
    /// It is there, but others have not told it all that they count: each gateway goes by its part
    /// of each limit.
    Joining,
    /// It decides.
    Up,
}

impl State {
    /// The word in `/status`.
    pub fn name(self) -> &'static str {
        match self {
            State::Down => "down",
            State::Joining => "joining",
            State::Up => "up",
        }
    }
}

/// For `/status`.
#[derive(Debug, Clone)]
pub struct Told {
    /// How it does.
    pub state: State,
    /// For how long.
    pub time: Duration,
    /// Where it is.
    pub address: String,
    /// The gateways that live, this one included, as the store last said.
    pub live: usize,
    /// How many counts wait to be told.
    pub waiting: usize,
    /// How far its clock is ahead of ours, in milliseconds.
    pub clock_ahead_ms: i64,
    /// Why it is down, while it is.
    pub error: Option<String>,
}

/// What is broken, by account and its name for the model, until when.
pub type Hints = HashMap<(Arc<str>, Arc<str>), Instant>;

/// What is measured.
#[derive(Debug, Clone)]
pub struct Meters {
    /// Admissions that had no answer in time, connections lost, and tries to connect in vain.
    pub errors: Counter,
    /// From asking for an admission to the answer.
    pub seconds: Histogram,
}

struct Inside {
    settings: config::Store,
    registry: Arc<Registry>,
    changes: Arc<Changes>,
    desk: Mutex<Desk>,
    /// There is something on the desk.
    work: Notify,
    meters: Meters,
    /// Admissions that were made without it since it was last up.
    alone: AtomicU64,
    /// What others found broken, until when.
    hints: Mutex<Hints>,
    hinted: Notify,
}

/// What waits to be said.
struct Desk {
    state: State,
    circuit: Circuit,
    asked: VecDeque<Box<Asked>>,
    keeping: Keeping,
    finding: VecDeque<Finding>,
    looking: VecDeque<Looking>,
    /// What is broken here, for how long; nothing takes it back.
    hints: Vec<(String, Duration)>,
    leaving: bool,
    since: Instant,
    /// While it does not decide: what the log has said of that.
    outage: Option<Outage>,
    /// When the log has said last that counts were lost.
    lost: Option<Instant>,
    instance: String,
    live: usize,
    clock_ahead_ms: i64,
    error: Option<String>,
}

/// A while in which the store does not decide. However often it comes and goes meanwhile, each is
/// said once.
struct Outage {
    since: Instant,
    down: bool,
    joining: bool,
}

impl Outage {
    fn new(since: Instant) -> Outage {
        Outage { since, down: false, joining: false }
    }
}

impl Desk {
    /// It does so from now on, if it did not already.
    fn turn(&mut self, state: State) {
        if self.state != state {
            (self.state, self.since) = (state, Instant::now());
        }
        match state {
            State::Down | State::Joining => {
                self.outage.get_or_insert_with(|| Outage::new(Instant::now()));
            }
            State::Up => {}
        }
        if state != State::Down {
            self.error = None;
        }
    }
}

/// An admission that is asked for.
struct Asked {
    bounds: [Option<(Limits, Arc<Scope>)>; 3],
    ask: Ask,
    now_ms: u64,
    tries: u8,
    answer: oneshot::Sender<Said>,
}

enum Said {
    Yes(Reservation),
    No(Refused),
    /// The store cannot say: each goes by its part.
    Alone,
}

impl Asked {
    fn each(&self) -> impl Iterator<Item = (&Limits, &Arc<Scope>)> {
        self.bounds.iter().flatten().map(|(limits, scope)| (limits, scope))
    }

    fn bounds(&self) -> Bounds<'_> {
        self.each().map(|(limits, scope)| Bound { limits, scope }).collect()
    }
}

impl Store {
    /// The store of these settings; [`Store::start`] connects to it. `instance` names this gateway,
    /// and should be the same after a restart where its scopes are recalled; `registry` has the
    /// scopes, and was made with `changes`.
    pub fn new(
        settings: config::Store,
        instance: &str,
        registry: Arc<Registry>,
        changes: Arc<Changes>,
        meters: Meters,
    ) -> Store {
        let now = Instant::now();
        let desk = Desk {
            state: State::Down,
            circuit: Circuit::new(now),
            asked: VecDeque::new(),
            keeping: Keeping::default(),
            finding: VecDeque::new(),
            looking: VecDeque::new(),
            hints: Vec::new(),
            leaving: false,
            since: now,
            outage: Some(Outage::new(now)),
            lost: None,
            instance: instance.to_owned(),
            live: 0,
            clock_ahead_ms: 0,
            error: None,
        };
        let inside = Inside {
            settings,
            registry,
            changes,
            desk: Mutex::new(desk),
            work: Notify::new(),
            meters,
            alone: AtomicU64::new(0),
            hints: Mutex::default(),
            hinted: Notify::new(),
        };
        Store { inside: Arc::new(inside), ended: Mutex::new(None) }
    }

    /// Connects, and stays connected: on a thread of its own, so that nothing else that the process
    /// does makes requests wait for it.
    pub fn start(&self) -> Result<(), String> {
        let inside = self.inside.clone();
        let (ends, ended): (Sender<()>, Receiver<()>) = channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|why| format!("cannot start the store's runtime: {why}"))?;
        let thread = std::thread::Builder::new().name("store".to_owned()).spawn(move || {
            runtime.block_on(drive::drive(&inside));
            drop(ends);
        });
        thread.map_err(|why| format!("cannot start the store's thread: {why}"))?;
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        Ok(())
    }

    /// Takes one request, one place and what is asked for from all bounds, of all gateways
    /// together, or from none.
    pub async fn admit(&self, bounds: &Bounds<'_>, ask: Ask, now_ms: u64) -> Answer {
        let inside = &self.inside;
        if bounds.is_empty() {
            return answer(limits::admit(bounds, ask, now_ms, 1));
        }
        let began = Instant::now();
        let mut heard = match inside.ask(bounds, ask, now_ms) {
            Ok(heard) => heard,
            Err(state) => return inside.without(state, bounds, ask, now_ms),
        };
        let said = match tokio::time::timeout(inside.settings.timeout, &mut heard).await {
            Ok(said) => said.ok(),
            Err(_) => {
                // What came just now is taken; what comes later is undone by whoever brings it.
                heard.close();
                let said = heard.try_recv().ok();
                if said.is_none() {
                    inside.missed();
                    return inside.without(State::Down, bounds, ask, now_ms);
                }
                said
            }
        };
        inside.meters.seconds.observe(began.elapsed().as_secs_f64());
        if said.is_some() {
            inside.desk().circuit.answered();
        }
        match said {
            Some(Said::Yes(reservation)) => Answer::Admitted(reservation),
            Some(Said::No(refused)) => Answer::Refused(refused),
            Some(Said::Alone) => inside.without(State::Joining, bounds, ask, now_ms),
            // The connection is lost.
            None => inside.without(State::Down, bounds, ask, now_ms),
        }
    }

    /// Tells others that an account is broken for a model, for so long; or that it is not, for no
    /// time at all.
    pub fn hint(&self, account: &str, model: &str, time: Duration) {
        let mut desk = self.inside.desk();
        let name = format!("{account} {model}");
        desk.hints.retain(|(other, _)| *other != name);
        // It is a hint: while nobody hears it, it is not kept for long.
        if desk.hints.len() < 1_000 {
            desk.hints.push((name, time));
        }
        drop(desk);
        self.inside.work.notify_one();
    }

    /// What others found broken: until when, by account and model. Waits until that has been heard
    /// anew.
    pub async fn hints(&self) -> Hints {
        self.inside.hinted.notified().await;
        self.inside.hints.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How it does.
    pub fn state(&self) -> State {
        self.inside.desk().state
    }

    /// For `/status`.
    pub fn told(&self) -> Told {
        let waiting = self.inside.changes.len();
        let desk = self.inside.desk();
        Told {
            state: desk.state,
            time: desk.since.elapsed(),
            address: self.inside.settings.address.to_string(),
            live: desk.live,
            waiting,
            clock_ahead_ms: desk.clock_ahead_ms,
            error: desk.error.clone(),
        }
    }

    /// The process ends: what is settled is told, if there is somebody to tell. Blocks, but not for
    /// long.
    pub fn leave(&self) {
        self.inside.leave();
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ended) = ended {
            // It says nothing, and is dropped at the end.
            ended.recv_timeout(FAREWELL).ok();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.inside.leave();
    }
}

fn answer(admitted: Result<Reservation, Refused>) -> Answer {
    match admitted {
        Ok(reservation) => Answer::Admitted(reservation),
        Err(refused) => Answer::Refused(refused),
    }
}

impl Inside {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the question on the desk, if the store decides at all.
    fn ask(&self, bounds: &Bounds<'_>, ask: Ask, now_ms: u64) -> Result<oneshot::Receiver<Said>, State> {
        let (answer, heard) = oneshot::channel();
        let mut owned = bounds.iter().map(|bound| (*bound.limits, bound.scope.clone()));
        let asked =
            Box::new(Asked { bounds: [owned.next(), owned.next(), owned.next()], ask, now_ms, tries: 0, answer });
        let mut desk = self.desk();
        match desk.state {
            State::Up if desk.asked.len() >= MOST_WAITING => return Err(State::Down),
            State::Up => desk.asked.push_back(asked),
            State::Joining | State::Down => return Err(desk.state),
        }
        drop(desk);
        self.work.notify_one();
        Ok(heard)
    }

    /// Without the store's answer: by what is counted here and this gateway's part of each limit,
    /// or not at all.
    fn without(&self, state: State, bounds: &Bounds<'_>, ask: Ask, now_ms: u64) -> Answer {
        match (state, self.settings.on_store_down) {
            (State::Down, OnStoreDown::Refuse) => Answer::Down,
            (State::Down | State::Joining | State::Up, OnStoreDown::Local | OnStoreDown::Refuse) => {
                let admitted = limits::admit(bounds, ask, now_ms, self.settings.instances);
                if admitted.is_ok() {
                    self.alone.fetch_add(1, Ordering::Relaxed);
                }
                answer(admitted.map_err(|refused| self.for_now(refused)))
            }
        }
    }

    /// What is over this gateway's part may be within the whole: that is known as soon as the store
    /// answers, and not only tomorrow.
    fn for_now(&self, mut refused: Refused) -> Refused {
        let over = &mut refused.over;
        let whole = over.limit.saturating_mul(self.settings.instances);
        if self.settings.instances > 1 && over.asked <= whole {
            over.wait = Some(over.wait.map_or(SOON, |wait| wait.min(SOON)));
        }
        refused
    }

    /// A request has waited in vain.
    fn missed(&self) {
        self.meters.errors.inc();
        let too_many = self.desk().circuit.missed(Instant::now(), fastrand::f64());
        if too_many {
            self.too_slow();
        }
    }

    fn too_slow(&self) {
        self.out(&format!("it does not answer within the {:?} of `store.timeout`", self.settings.timeout));
    }

    /// It is out: who waits need not.
    fn out(&self, why: &str) {
        let why = trouble::line(&self.settings.address, why);
        let mut desk = self.desk();
        desk.turn(State::Down);
        desk.asked.clear();
        desk.finding.clear();
        desk.looking.clear();
        desk.error = Some(why.clone());
        let is_news = desk.outage.as_mut().is_some_and(|outage| !std::mem::replace(&mut outage.down, true));
        // Whoever reads the log may have stopped: nobody else waits for that.
        drop(desk);
        self.work.notify_one();
        if is_news {
            let then = match self.settings.on_store_down {
                OnStoreDown::Local => self.alone_means(),
                OnStoreDown::Refuse => "requests with limits are refused".to_owned(),
            };
            log::warn!("the store {} is out: {why}; until it is back {then}", self.settings.address);
        }
    }

    /// It was empty, or not whole.
    fn lost(&self) {
        let mut desk = self.desk();
        if desk.lost.is_some_and(|said| said.elapsed() < LOST_AGAIN) {
            return;
        }
        desk.lost = Some(Instant::now());
        // Whoever reads the log may have stopped: nobody else waits for that.
        drop(desk);
        log::warn!(
            "the store {} has lost what it held, or a part (flushed, restarted without its data, or short of memory without `maxmemory-policy noeviction`): \
             all gateways tell it again, each time; this is said once an hour",
            self.settings.address
        );
    }

    /// It is there, but so many have told it all that they count, and others have so much longer
    /// to.
    fn joining(&self, complete: u64, time: Duration) {
        log::info!(
            "the store {} is there, but {complete} of {} gateways (`store.instances`) have told it what they count: until all have, for {} s at most, {}",
            self.settings.address,
            self.settings.instances,
            time.as_secs() + 1,
            self.alone_means()
        );
    }

    /// It decides, of so many gateways, and was told so many counts.
    fn up(&self, outage: &Outage, live: usize, told: usize) {
        let alone = self.alone.swap(0, Ordering::Relaxed);
        let there = match self.settings.instances {
            0 | 1 => String::new(),
            n => format!(" for {live} of {n} gateways"),
        };
        let address = &self.settings.address;
        if outage.down {
            let time = outage.since.elapsed().as_secs_f64();
            log::info!(
                "the store {address} is back after {time:.1} s and decides{there}: {alone} requests were admitted without it; \
                 the counts of {told} callers, keys and models were told anew"
            );
        } else {
            log::info!("the store {address} is up and decides{there}");
        }
    }

    fn alone_means(&self) -> String {
        match self.settings.instances {
            0 | 1 => "this gateway goes by what it counts itself".to_owned(),
            n => format!("this gateway goes by what it counts itself, and by 1/{n} of each limit"),
        }
    }

    fn leave(&self) {
        self.desk().leaving = true;
        self.work.notify_one();
    }
}
