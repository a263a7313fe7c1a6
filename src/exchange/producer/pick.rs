//! Who is asked next: the first candidate that neither rests nor is full, and can do what is asked;
//! or, where the catalog says so, whoever is back or free first.

use super::opening::{Opening, Progress};
use super::{Producer, Request, Resting, Running};
use crate::account::Permit;
use crate::account::health::Why;
use crate::account::track::Trial;
use crate::catalog::Queue;
use crate::error::Refusal;
use crate::exchange::admission::{self, Away};
use crate::exchange::failover::UNREACHABLE;
use crate::memory::Held;
use crate::plan::Candidate;
use dialects::Said;
use dialects::neutral::{Kept, Refused};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

/// Nobody looks again sooner than this.
const SOON: Duration = Duration::from_millis(10);
/// Nor later, since not everything that changes says so.
const LATE: Duration = Duration::from_secs(1);

/// Who is asked, and with what.
pub(super) struct Chosen {
    place: usize,
    permit: Permit,
    trial: Trial,
    said: Said,
    held: Held,
}

impl<'x> Producer<'x> {
    /// Begins the next attempt, waiting for a place if it may. False if there is nobody.
    pub(super) async fn begin(&mut self) -> Result<bool, Refusal> {
        let demand = &self.request.demand;
        if self.tries == 0 {
            demand.request(std::time::Instant::now());
            Box::pin(self.recall()).await;
        }
        self.judge();
        if !self.asks(self.reach) {
            return Ok(false);
        }
        // Nobody goes before those who wait.
        let after_others = self.tries == 0 && self.request.model.queue.is_some() && !demand.queue.is_empty();
        if !after_others && let Some(chosen) = self.pick(None)? {
            self.start(chosen, false);
            return Ok(true);
        }
        let Some(queue) = self.request.model.queue else { return Ok(false) };
        if self.tries >= self.shared.server.attempts
            || self.not_retried.is_some()
            || (!after_others && (self.resting.passed == 0 || self.is_for_the_operator()))
        {
            return Ok(false);
        }
        self.waiting = Some(Instant::now());
        let begun = self.wait(queue).await;
        self.queued = self.queued();
        self.waiting = None;
        begun
    }

    /// Waits in the model's queue until somebody can be asked.
    async fn wait(&mut self, queue: Queue) -> Result<bool, Refusal> {
        let request: &'x Request = self.request;
        let line = if self.tries == 0 { &request.demand.queue } else { &request.demand.again };
        let Some(mut ticket) = line.enter(queue.length) else {
            self.shed = self.tries == 0;
            return Ok(false);
        };
        let latest = request.candidates.iter().map(|candidate| self.total(candidate)).max().unwrap_or(self.began);
        let due = latest.min(Instant::now() + queue.wait.saturating_sub(self.queued));
        if self.alarm.until(due, pin!(ticket.turn())).await.is_none() {
            return Ok(false);
        }
        loop {
            // Listen before looking.
            let mut freed: Vec<Pin<Box<Notified<'x>>>> =
                request.candidates.iter().map(|c| Box::pin(c.place.state.freed.notified())).collect();
            for freed in &mut freed {
                freed.as_mut().enable();
            }
            if let Some(chosen) = self.pick(None)? {
                self.start(chosen, false);
                return Ok(true);
            }
            if self.resting.passed == 0 || self.not_retried.is_some() || self.is_for_the_operator() {
                return Ok(false);
            }
            let look = Instant::now() + self.resting.soonest.unwrap_or(LATE).clamp(SOON, LATE);
            let any = std::future::poll_fn(|context| {
                if freed.iter_mut().any(|freed| freed.as_mut().poll(context).is_ready()) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            });
            self.alarm.until(due.min(look), pin!(any)).await;
            if Instant::now() >= due {
                return Ok(false);
            }
        }
    }

    /// The next candidate that can be asked, its place, and the request in its words. `besides`: it
    /// stands beside the attempt at that candidate, and is of another account.
    pub(super) fn pick(&mut self, besides: Option<usize>) -> Result<Option<Chosen>, Refusal> {
        self.resting = Resting::default();
        if self.tries >= self.shared.server.attempts {
            return Ok(None);
        }
        self.judge();
        let mut spent = false;
        // Where nobody is fit, one whose breaker keeps requests away may be asked whether it is
        // back.
        for alone in [false, true] {
            if alone && besides.is_some() {
                break;
            }
            for (place, candidate) in self.request.candidates.iter().enumerate() {
                if !self.stands_ready(place, candidate, besides) {
                    continue;
                }
                // The first one begins all the same where nobody is faster.
                let hurried = self.tries > 0 || self.waiting.is_some() || (self.request.timeout.is_some() && !alone);
                if hurried && !self.can_finish(candidate) {
                    if self.tries > 0 && besides.is_none() {
                        self.not_retried = Some("deadline");
                    }
                    continue;
                }
                let now = std::time::Instant::now();
                let counts = self.tries > 0 && besides.is_none() && !candidate.track.is_sound(now);
                // It was asked for already: no other breaker's probe is taken in vain.
                if counts && spent {
                    continue;
                }
                let (permit, trial) = match admission::admit(candidate, alone, now) {
                    Ok(admitted) => admitted,
                    Err(away) if !alone => {
                        self.pass(away, candidate);
                        continue;
                    }
                    // Where it is the only one it is asked sooner: that is when to come back.
                    Err(away) => {
                        self.come_back(away, candidate);
                        continue;
                    }
                };
                if counts && !self.request.demand.retry(now) {
                    // Somebody after it may be sound.
                    (spent, self.not_retried) = (true, Some("budget"));
                    continue;
                }
                let written = match self.write(candidate) {
                    Ok(said) => Ok((self.held.beside(said.copied).ok_or_else(Refusal::no_room)?, said)),
                    Err(refused) => Err(refused),
                };
                self.strike(candidate);
                match written {
                    Ok((held, said)) => {
                        self.not_retried = None;
                        return Ok(Some(Chosen { place, permit, trial, said, held }));
                    }
                    // Somebody else may be less strict: one who speaks the caller's own language
                    // judges for itself.
                    Err(refused) => {
                        self.unable.get_or_insert(refused);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Strikes out who may never be asked, before anybody is passed over for what ends by itself:
    /// else a request that can never pass would be told to come again.
    fn judge(&mut self) {
        if !self.request.envelope.refers || self.judged.replace(self.reach) == Some(self.reach) {
            return;
        }
        let request: &'x Request = self.request;
        for (place, candidate) in request.candidates.iter().enumerate() {
            if !self.stands_ready(place, candidate, None) {
                continue;
            }
            let refused =
                self.in_words(candidate, |kept| admission::unable(candidate, &self.body, &request.envelope, kept));
            if let Some(refused) = refused {
                self.strike(candidate);
                self.unable.get_or_insert(refused);
            }
        }
    }

    /// It may stand there for several reasons, and is asked once.
    fn strike(&mut self, candidate: &Candidate) {
        for (asked, other) in self.asked.iter_mut().zip(&self.request.candidates) {
            *asked |= Arc::ptr_eq(&other.track, &candidate.track);
        }
    }

    /// Begins an attempt.
    pub(super) fn start(&mut self, Chosen { place, permit, trial, mut said, held }: Chosen, is_hedge: bool) {
        let Some(candidate) = self.request.candidates.get(place) else { return };
        if self.tries == 0 && self.request.model.queue.is_some() {
            self.request.demand.queue.admitted(std::time::Instant::now());
        }
        self.tries += 1;
        self.served.get_or_insert(place);
        let losses = std::mem::take(&mut said.losses);
        let progress = Arc::new(Progress::default());
        self.request.meter.asked(candidate, &progress);
        let opening = Opening {
            shared: self.shared,
            request: self.request,
            candidate,
            said,
            permit: Arc::new(permit),
            held,
            total: self.total(candidate),
            progress: progress.clone(),
        };
        // Boxed: once a stream runs, what it took to open it need not be held.
        self.running.push(Running {
            place,
            began: Instant::now(),
            is_hedge,
            trial,
            losses,
            progress,
            end: Box::pin(opening.open()),
        });
    }

    /// Whether a candidate could be asked now, as far as that can be seen without asking for a
    /// place.
    pub(super) fn is_anybody_left(&self, besides: Option<usize>) -> bool {
        let (now, clock) = (std::time::Instant::now(), std::time::SystemTime::now());
        let stream = self.request.envelope.stream;
        let fit = |candidate: &Candidate| {
            let account = &candidate.place.account;
            candidate.place.state.health.rest(now).is_none()
                && candidate.track.standing(stream, account.probe, now, clock).fit
                && account.concurrency.is_none_or(|most| candidate.place.state.in_flight() < most)
        };
        self.tries < self.shared.server.attempts
            && self
                .request
                .candidates
                .iter()
                .enumerate()
                .any(|(place, c)| self.stands_ready(place, c, besides) && fit(c))
    }

    /// Whether it is there for this request, was not asked yet, and is of another account than the
    /// one `besides` which it is to stand, but of the same model.
    fn stands_ready(&self, place: usize, candidate: &Candidate, besides: Option<usize>) -> bool {
        let beside = |first: &Candidate| {
            first.place.account.id != candidate.place.account.id && first.model.id == candidate.model.id
        };
        candidate.reach == self.reach
            && self.asked.get(place).is_some_and(|asked| !asked)
            && besides.is_none_or(|first| self.request.candidates.get(first).is_some_and(beside))
    }

    /// Whether there is time left for it.
    fn can_finish(&self, candidate: &Candidate) -> bool {
        let left = self.total(candidate).saturating_duration_since(Instant::now());
        let expected = candidate.track.expected(self.request.envelope.stream, std::time::Instant::now());
        left > expected.unwrap_or_default()
    }

    /// How long until the first is back, where all that could be asked rest for their rate.
    pub(super) fn limited_for(&self) -> Option<Duration> {
        let now = std::time::Instant::now();
        let mut soonest: Option<Duration> = None;
        for (_, candidate) in
            self.request.candidates.iter().enumerate().filter(|(place, c)| self.stands_ready(*place, c, None))
        {
            let rest = candidate.place.state.health.rest(now).or_else(|| candidate.track.rest(now));
            let wait = rest.filter(|rest| rest.why == Why::Rate)?.until.saturating_duration_since(now);
            soonest = Some(soonest.map_or(wait, |sooner| sooner.min(wait)));
        }
        soonest
    }

    /// Whether nothing changes by itself: whoever was asked has refused our credential, and whoever
    /// could be asked rests for what only the operator can put right.
    pub(super) fn is_for_the_operator(&self) -> bool {
        let now = std::time::Instant::now();
        let mut left = self
            .request
            .candidates
            .iter()
            .enumerate()
            .filter(|(place, c)| self.stands_ready(*place, c, None))
            .map(|(_, c)| c);
        let rests =
            |candidate: &Candidate| candidate.place.state.health.rest(now).or_else(|| candidate.track.rest(now));
        !self.hope && left.all(|candidate| rests(candidate).is_some_and(|rest| rest.why.is_for_the_operator()))
    }

    fn pass(&mut self, away: Away, candidate: &Candidate) {
        self.resting.passed += 1;
        self.resting.for_rate += usize::from(away.is_for_rate());
        self.come_back(away, candidate);
    }

    fn come_back(&mut self, away: Away, candidate: &Candidate) {
        if let Some(wait) = away.wait(std::time::Instant::now()).filter(|_| !away.is_for_the_operator()) {
            let sooner =
                |soonest: Option<Duration>, wait: Duration| Some(soonest.map_or(wait, |soonest| soonest.min(wait)));
            self.resting.soonest = sooner(self.resting.soonest, wait);
            // A server that starts again takes as long behind a breaker as without one.
            let is_out = matches!(away, Away::Broken(_)) && candidate.track.is_out_of_reach();
            self.resting.told =
                sooner(self.resting.told, if is_out { wait.max(Duration::from_secs(UNREACHABLE)) } else { wait });
        }
    }

    /// The request in a candidate's words.
    fn write(&self, candidate: &Candidate) -> Result<Said, Refused> {
        self.in_words(candidate, |kept| admission::write(candidate, &self.body, &self.request.envelope, kept))
    }

    /// With the thoughts that were kept for a candidate.
    fn in_words<T>(&self, candidate: &Candidate, each: impl FnOnce(&dyn Fn(&str) -> Option<Kept>) -> T) -> T {
        let family = candidate.place.account.dialect.family();
        each(&|call: &str| self.shared.vault.find(&self.request.key, family?, call, std::time::Instant::now()))
    }
}
