//! What is said over one connection, from its begin to its end.
//!
//! **Invariant:** one batch is under way at a time. In it an instance's own counts go before
//! admissions, and admissions are counted here before anything else is said: so what is told of a
//! part is always all of it that the store can know. Who no longer waits for an admission when it
//! comes has it undone, and the part is told anew.

use super::link::{Batch, Link, complaint};
use super::look::{self, Looking};
use super::talk::{self, Admission, Heard};
use super::thoughts::Finding;
use super::{Asked, Desk, Inside, Said, State};
use crate::calendar::{day_of, now as clock_ms};
use crate::limits::{self, Left, Moment, Over, Refused, Scope};
use redis::Value;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// A connection that is silent for longer is lost.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often others hear that this one lives, and it of what they found broken.
const BEAT: Duration = Duration::from_secs(1);
/// While it waits for others to tell what they count.
const SOON: Duration = Duration::from_millis(250);
/// Who has not told by then, after the store was empty, is not there: no try to connect is later.
const GRACE: Duration = Duration::from_secs(12);
/// So many admissions, and so many parts, at once: a few milliseconds of the store's time.
const ADMISSIONS: usize = 256;
const PARTS: usize = 64;
/// Clocks that differ by more are worth a warning: windows are that much apart. Our own, set back
/// by as much, has perhaps moved what is counted.
const CLOCKS: u64 = 2_000;
/// No scope is told in this epoch.
const UNTOLD: u64 = 0;

/// How a session ends.
pub(super) enum End {
    /// The process leaves.
    Left,
    /// For this reason.
    Lost(String),
}

/// One connection's.
pub(super) struct Session<'s> {
    inside: &'s Inside,
    link: Link,
    process: &'s str,
    instance: String,
    /// Which the store knows this gateway's parts by: another one means that all are to be told.
    epoch: u64,
    epoch_name: String,
    /// Scopes that are still to be told.
    backlog: Vec<Arc<Scope>>,
    told: usize,
    /// The day since 1970 on which that began.
    begun: u64,
    /// That there are none left has been said, by who has heard the store's word.
    complete: bool,
    /// What the store said when it was empty last.
    word: Option<String>,
    /// It does not know what it was told: everybody is to tell it anew.
    lost: bool,
    live: Vec<String>,
    /// What the time was.
    clock: u64,
    beat: Instant,
    beaten: bool,
    /// All have told what they count since the store was empty, or had the time to.
    joined: bool,
    warned: bool,
}

/// What was said, in its order.
enum Sent {
    Beat { since: Instant, trial: bool },
    Was(Arc<Scope>),
    Part,
    Admission(Box<Asked>, Vec<Moment>),
    Kept,
    Find(Finding),
    Look(Looking, Moment),
}

impl<'s> Session<'s> {
    pub(super) fn new(inside: &'s Inside, link: Link, process: &'s str) -> Session<'s> {
        let instance = inside.desk().instance.clone();
        let now = Instant::now();
        let mut session = Session {
            inside,
            link,
            process,
            instance,
            epoch: 0,
            epoch_name: String::new(),
            backlog: Vec::new(),
            told: 0,
            begun: 0,
            complete: false,
            word: None,
            lost: false,
            live: Vec::new(),
            clock: clock_ms(),
            beat: now,
            beaten: false,
            joined: false,
            warned: false,
        };
        session.begin();
        session
    }

    /// Until it is lost.
    pub(super) async fn run(mut self) -> End {
        loop {
            if self.wait().await {
                // Others need not wait until they notice.
                let mut batch = Batch::default();
                let mut leave = redis::cmd("HDEL");
                leave.arg(self.name("instances")).arg(&self.instance);
                batch.add(leave);
                // Whether it is heard matters to nobody here.
                self.link.say(&batch, PATIENCE).await.ok();
                return End::Left;
            }
            let (batch, sent) = self.batch();
            let patience = PATIENCE.max(self.inside.settings.timeout * 2);
            let answers = match self.link.say(&batch, patience).await {
                Ok(answers) => answers,
                Err(why) => return End::Lost(why),
            };
            if let Err(why) = self.hear(sent, answers) {
                return End::Lost(why);
            }
        }
    }

    /// All that is counted here is to be told anew.
    fn begin(&mut self) {
        /// Of all sessions of the process: a scope knows by it what it was told in.
        static EPOCHS: AtomicU64 = AtomicU64::new(UNTOLD + 1);
        self.epoch = EPOCHS.fetch_add(1, Ordering::Relaxed);
        self.epoch_name = format!("{}.{:016x}", self.process, fastrand::u64(..));
        self.backlog = self.inside.registry.scopes();
        (self.told, self.complete) = (0, false);
        self.begun = day_of(clock_ms());
    }

    fn name(&self, what: &str) -> String {
        format!("{{{}}}:{what}", self.inside.settings.prefix)
    }

    /// Until there is something to say. True if the process leaves, and all is said.
    async fn wait(&self) -> bool {
        loop {
            let due = {
                let desk = self.inside.desk();
                let nothing = desk.asked.is_empty()
                    && desk.keeping.is_empty()
                    && desk.finding.is_empty()
                    && desk.hints.is_empty();
                let nothing = nothing && desk.looking.is_empty();
                let told = self.backlog.is_empty() && self.inside.changes.is_empty();
                if desk.leaving && told {
                    return true;
                }
                if !(nothing && told) {
                    return false;
                }
                desk.circuit.due().map_or(self.beat, |due| due.min(self.beat))
            };
            if due <= Instant::now() {
                return false;
            }
            tokio::select! {
                () = tokio::time::sleep_until(due.into()) => {}
                () = self.inside.work.notified() => {}
                () = self.inside.changes.some.notified() => {}
            }
        }
    }

    fn batch(&mut self) -> (Batch, Vec<Sent>) {
        let (mut batch, mut sent) = (Batch::default(), Vec::new());
        let (now, clock) = (Instant::now(), clock_ms());
        if clock + CLOCKS < self.clock {
            // What was counted in seconds, days and months that are still to come is counted
            // elsewhere now: the store hears it before it is asked.
            self.begin();
        }
        self.clock = clock;
        let mut desk = self.inside.desk();
        if desk.circuit.due().is_some_and(|due| due <= now) {
            // How fast it is by itself.
            self.add_beat(&mut desk, true, &mut batch, &mut sent);
            return (batch, sent);
        }
        let most = desk.asked.len().min(ADMISSIONS);
        let asked: Vec<Box<Asked>> = desk.asked.drain(..most).filter(|asked| !asked.answer.is_closed()).collect();
        // Of a date that came once more the store has what it had heard before the clock was set
        // back.
        let scopes = asked.iter().flat_map(|asked| asked.each().map(|(_, scope)| (scope, asked.now_ms)));
        let scopes = scopes.chain(desk.looking.iter().map(|looking| (&looking.scope, clock)));
        scopes.filter(|(scope, now_ms)| scope.came_again(*now_ms)).for_each(|(scope, _)| scope.tell(UNTOLD));
        // A scope that the store has not heard of from here: it had better not be empty without our
        // knowing.
        let unknown = asked.iter().flat_map(|asked| asked.each()).any(|(_, scope)| scope.told() != self.epoch);
        if unknown || self.beat <= now || !desk.hints.is_empty() {
            self.add_beat(&mut desk, false, &mut batch, &mut sent);
        }
        for command in desk.keeping.take(&self.inside.settings.prefix) {
            batch.add(command);
            sent.push(Sent::Kept);
        }
        let finding = std::mem::take(&mut desk.finding);
        let looks = desk.looking.len().min(look::AT_ONCE);
        let looking: Vec<Looking> = desk.looking.drain(..looks).filter(|looking| !looking.answer.is_closed()).collect();
        drop(desk);
        for finding in finding {
            batch.add(finding.command(&self.inside.settings.prefix));
            sent.push(Sent::Find(finding));
        }
        let mut parts = self.inside.changes.take(PARTS);
        while parts.len() < 2 * PARTS
            && let Some(scope) = self.backlog.pop()
        {
            if scope.told() != self.epoch {
                self.told += usize::from(scope.is_known());
                parts.push(scope);
            }
        }
        parts.extend(
            asked
                .iter()
                .flat_map(|asked| asked.each())
                .filter(|(_, scope)| scope.told() != self.epoch)
                .map(|(_, scope)| scope.clone()),
        );
        // What another process told by this name is heard before it is replaced: until then nobody
        // is admitted.
        let (asked, early) =
            asked.into_iter().partition::<Vec<_>, _>(|asked| asked.each().all(|(_, scope)| scope.is_known()));
        let (looking, later) = looking.into_iter().partition::<Vec<_>, _>(|looking| looking.scope.is_known());
        parts.extend(
            early
                .iter()
                .flat_map(|asked| asked.each())
                .filter(|(_, scope)| !scope.is_known())
                .map(|(_, scope)| scope.clone()),
        );
        parts.extend(later.iter().map(|looking| looking.scope.clone()));
        if !early.is_empty() || !later.is_empty() {
            let mut desk = self.inside.desk();
            early.into_iter().rev().for_each(|asked| desk.asked.push_front(asked));
            later.into_iter().rev().for_each(|looking| desk.looking.push_front(looking));
        }
        // What was never told is not lost.
        parts.extend(looking.iter().map(|looking| &looking.scope).filter(|scope| scope.told() != self.epoch).cloned());
        for (place, scope) in parts.iter().enumerate() {
            if parts.iter().take(place).any(|other| Arc::ptr_eq(other, scope)) {
                continue;
            }
            if !scope.is_known() {
                let key = self.key(scope);
                batch
                    .add(self.link.admit([key.as_str()].into_iter(), &["was", &self.instance, &self.epoch_name, "[]"]));
                sent.push(Sent::Was(scope.clone()));
                continue;
            }
            // The answers come in order, and if one does not, all are told anew: it counts as told.
            scope.tell(self.epoch);
            let own = talk::own(&scope.own(clock));
            let key = self.key(scope);
            batch.add(self.link.admit([key.as_str()].into_iter(), &["own", &self.instance, &self.epoch_name, &own]));
            sent.push(Sent::Part);
        }
        for asked in asked {
            let keys: Vec<String> = asked.each().map(|(_, scope)| self.key(scope)).collect();
            let moments: Vec<Moment> = asked.each().map(|(_, scope)| scope.moment(asked.now_ms)).collect();
            // Who lives matters to places only.
            let places = asked.each().any(|(limits, _)| limits.concurrency.is_some());
            let live = if places { self.live.as_slice() } else { &[] };
            let scopes = asked.each().zip(&moments).map(|((limits, _), moment)| (limits, *moment));
            let ask = talk::admit(live, asked.ask, scopes);
            batch.add(
                self.link.admit(keys.iter().map(String::as_str), &["admit", &self.instance, &self.epoch_name, &ask]),
            );
            sent.push(Sent::Admission(asked, moments));
        }
        for looking in looking {
            let (key, moment) = (self.key(&looking.scope), looking.scope.moment(clock));
            let look = talk::look(&self.live, moment);
            batch.add(self.link.admit([key.as_str()].into_iter(), &["look", &self.instance, &self.epoch_name, &look]));
            sent.push(Sent::Look(looking, moment));
        }
        (batch, sent)
    }

    fn key(&self, scope: &Scope) -> String {
        talk::key(&self.inside.settings.prefix, scope.level, &scope.name)
    }

    fn add_beat(&mut self, desk: &mut Desk, trial: bool, batch: &mut Batch, sent: &mut Vec<Sent>) {
        let hints: Vec<serde_json::Value> = std::mem::take(&mut desk.hints)
            .into_iter()
            .flat_map(|(name, time)| [name.into(), u64::try_from(time.as_millis()).unwrap_or(u64::MAX).into()])
            .collect();
        let hints = serde_json::Value::from(hints).to_string();
        self.complete = self.backlog.is_empty() && self.word.is_some();
        let complete = if self.complete { "1" } else { "0" };
        let heard = self.word.as_deref().unwrap_or("-");
        let word = format!("{:016x}", fastrand::u64(..));
        let keys = [self.name("instances"), self.name("born"), self.name("hints")];
        let lost = if std::mem::take(&mut self.lost) { "1" } else { "0" };
        let arguments = [&self.instance, self.process, complete, &word, &hints, lost, heard];
        batch.add(self.link.beat(keys.iter().map(String::as_str), &arguments));
        sent.push(Sent::Beat { since: Instant::now(), trial });
        self.beat = Instant::now() + BEAT;
    }

    fn hear(&mut self, sent: Vec<Sent>, answers: Vec<Value>) -> Result<(), String> {
        let mut again = VecDeque::new();
        let mut flushed = false;
        for (sent, answer) in sent.into_iter().zip(answers) {
            let wrong = || complaint(&answer).unwrap_or_else(|| "it answered in no known way".to_owned());
            match sent {
                Sent::Beat { since, trial } => {
                    let heard = talk::heard(&answer).ok_or_else(wrong)?;
                    flushed = self.beaten(heard, since.elapsed(), trial);
                }
                Sent::Was(scope) => {
                    let was = talk::was(&answer).ok_or_else(wrong)?;
                    scope.know(&was.missing(&scope.began(), scope.moment(self.clock)));
                    self.backlog.push(scope);
                }
                Sent::Part => {
                    if complaint(&answer).is_some() {
                        return Err(wrong());
                    }
                }
                Sent::Admission(mut asked, moments) => match talk::admission(&answer).ok_or_else(wrong)? {
                    // It knows what was told just now, and nothing of others: what it granted will
                    // be told as not taken.
                    Admission::Yes(_) | Admission::No(_) if flushed => alone(asked),
                    Admission::Yes(used) => granted(asked, used, &moments),
                    Admission::No(used) => refused(asked, used, &moments),
                    Admission::Unknown { place, part } => {
                        let told = asked.each().nth(place).is_some_and(|(_, scope)| scope.told() == self.epoch);
                        if told && !flushed {
                            flushed = self.unknown(&asked, place, part);
                        }
                        asked.tries += 1;
                        again.push_back(asked);
                    }
                },
                // What cannot be kept is not found.
                Sent::Kept => {}
                Sent::Find(finding) => finding.found(&answer),
                // Of what was lost just now it has only a part.
                Sent::Look(..) if flushed => {}
                Sent::Look(looking, moment) => match talk::looked(&answer, moment, self.clock).ok_or_else(wrong)? {
                    // If nobody waits any more, nobody needs it.
                    Some(counts) => drop(looking.answer.send(counts)),
                    None if self.may_be_forgotten(&looking.scope) => {
                        looking.scope.tell(UNTOLD);
                        self.inside.desk().looking.push_back(looking);
                    }
                    // It has lost others' parts too, and who asks goes by ours.
                    None => {}
                },
            }
        }
        if !again.is_empty() {
            let mut desk = self.inside.desk();
            for asked in again.into_iter().rev() {
                if asked.tries < 3 { desk.asked.push_front(asked) } else { alone(asked) }
            }
        }
        if self.backlog.is_empty() && !self.complete {
            self.beat = Instant::now();
        }
        Ok(())
    }

    /// The store does not know what it was told of this scope. True if it has lost it.
    fn unknown(&mut self, asked: &Asked, place: usize, part: bool) -> bool {
        self.beat = Instant::now();
        if part {
            // Another process tells its own by our name, and the beat says so. If it does not,
            // something old was done late.
            if asked.tries > 0 {
                self.begin();
            }
            return false;
        }
        if asked.each().nth(place).is_some_and(|(_, scope)| self.may_be_forgotten(scope)) {
            for (_, scope) in asked.each().filter(|(_, scope)| self.may_be_forgotten(scope)) {
                scope.tell(UNTOLD);
            }
            return false;
        }
        // So may be everything else, and others' parts of it.
        self.begin();
        self.lost = true;
        true
    }

    /// Without a loss: it was told in another month, and nothing is counted now.
    fn may_be_forgotten(&self, scope: &Scope) -> bool {
        let own = scope.own(self.clock);
        own.moment.month > self.begun && talk::nothing(&own)
    }

    /// The store says how things are. True if it was empty meanwhile.
    fn beaten(&mut self, heard: Heard, took: Duration, trial: bool) -> bool {
        let inside = self.inside;
        let flushed = self.word.as_ref().is_some_and(|word| *word != heard.word);
        self.word = Some(heard.word);
        if self.beaten && heard.process != self.process && !heard.process.is_empty() {
            log::error!(
                "another process keeps the same ledger as this one, and counts in the store by the same name: each should have its own"
            );
            self.instance = format!("{}.{}", self.instance, self.process);
            inside.desk().instance.clone_from(&self.instance);
            self.begin();
        }
        self.beaten = true;
        if flushed {
            inside.lost();
            self.begin();
        }
        let apart = heard.clock_ms.abs_diff(clock_ms());
        if apart > CLOCKS && !self.warned {
            log::warn!(
                "the clocks of this machine and of the store are {apart} ms apart: so are minutes and days of the gateways' limits"
            );
            self.warned = true;
        }
        let now = Instant::now();
        let hints = heard.hints.iter().filter_map(|(name, left)| {
            let (account, model) = name.split_once(' ')?;
            Some(((account.into(), model.into()), now + *left))
        });
        let hints = hints.collect();
        *inside.hints.lock().unwrap_or_else(PoisonError::into_inner) = hints;
        inside.hinted.notify_one();
        self.joined = !flushed && (self.joined || heard.complete >= inside.settings.instances || heard.age > GRACE);
        let alone = inside.settings.instances <= 1;
        let state = if alone || self.joined { State::Up } else { State::Joining };
        if state == State::Joining {
            self.beat = self.beat.min(now + SOON);
        }
        let mut desk = inside.desk();
        desk.live = heard.live.len();
        desk.clock_ahead_ms =
            i64::try_from(heard.clock_ms).unwrap_or_default() - i64::try_from(clock_ms()).unwrap_or_default();
        self.live = heard.live;
        if trial && took <= inside.settings.timeout {
            desk.circuit.close(now);
        } else if trial {
            desk.circuit.failed(now, fastrand::f64());
        }
        if desk.circuit.is_closed() {
            desk.turn(state);
        }
        let (too_slow, state, live) = (trial && !desk.circuit.is_closed(), desk.state, desk.live);
        // Before it has said its own there is nothing to wait for others for.
        let told = state == State::Joining && self.complete;
        let joins = told && desk.outage.as_mut().is_some_and(|outage| !std::mem::replace(&mut outage.joining, true));
        let over = state == State::Up && self.backlog.is_empty();
        let outage = if over { desk.outage.take() } else { None };
        drop(desk);
        if too_slow {
            inside.too_slow();
        }
        if joins {
            inside.joining(heard.complete, GRACE.saturating_sub(heard.age));
        }
        if let Some(outage) = outage {
            inside.up(&outage, live, self.told);
        }
        flushed
    }
}

fn granted(asked: Box<Asked>, used: Vec<talk::Used>, moments: &[Moment]) {
    let each = used.into_iter().zip(asked.each()).zip(moments);
    let left = each.map(|((used, (limits, _)), moment)| used.left(limits, asked.ask, *moment, asked.now_ms));
    let left = left.fold(Left::default(), Left::and);
    let reservation = limits::take_granted(&asked.bounds(), asked.ask, asked.now_ms, left, moments);
    // Who has waited too long was admitted otherwise, or not at all.
    if let Err(Said::Yes(unwanted)) = asked.answer.send(Said::Yes(reservation)) {
        unwanted.undo();
    }
}

fn refused(asked: Box<Asked>, used: Vec<talk::Used>, moments: &[Moment]) {
    let mut worst: Option<(&Arc<Scope>, Over)> = None;
    let mut left = Left::default();
    for ((used, (limits, scope)), moment) in used.into_iter().zip(asked.each()).zip(moments) {
        let (over, room) = used.over(limits, asked.ask, *moment, asked.now_ms);
        left = left.and(room);
        match (over, worst) {
            (Some(over), Some((_, other))) if other.worse(over) == other => {}
            (Some(over), _) => worst = Some((scope, over)),
            (None, _) => {}
        }
    }
    let said = match worst {
        Some((scope, over)) => Said::No(Refused { level: scope.level, name: scope.name.clone(), over, left, share: 1 }),
        // Its sums and ours differ, as they may beyond what is exact.
        None => Said::Alone,
    };
    // If nobody waits any more, nobody needs to know.
    asked.answer.send(said).ok();
}

fn alone(asked: Box<Asked>) {
    for (_, scope) in asked.each() {
        scope.changed();
    }
    asked.answer.send(Said::Alone).ok();
}
