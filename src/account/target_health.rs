//! [`TargetHealth`] is how one target, that is one account with one name for a model, has done
//! lately: its breaker, its rests, its speed, and its provider's quota. Each kind of endpoint of
//! the account has its own, so that a missing endpoint does not keep requests from the others.
//!
//! It outlives catalogs, as the account's [`State`](super::State) does. **Invariant:** each
//! admitted attempt is settled exactly once, by its [`AttemptGuard`].

mod guard;
mod unavailable;

use super::breaker::{Admission, Breaker, BreakerPass, BreakerState, CallCounts};
use super::condition::TargetSigns;
use super::failure::{
    Class, OUT_OF_REACH, OVERLOADED, REFUSALS_IN_A_ROW, REFUSED_COOL, Setback, overloaded_for,
    rate_cool,
};
use super::given_up::GivenUp;
use super::health::{Rest, Why};
use super::latency::Peak;
use super::quota::Headroom;
use crate::base::lock::Lock;
use crate::series::Series;
use dialects::Endpoint;
pub use guard::{AttemptGuard, FailureEffect, LeaveEffect, NO_KEY};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};
pub use unavailable::Unavailable;

/// The health of a target.
#[derive(Default)]
pub struct TargetHealth {
    /// The kind of endpoint that the attempts were sent to.
    pub endpoint: Endpoint,
    /// Who finds out whether the target is back.
    pub probing: Probing,
    memory: Lock<Memory>,
    /// The number of attempts that wait for their first token.
    awaited: AtomicUsize,
    /// The attempts of the last minutes.
    pub series: Series,
}

/// Who finds out whether a target with an open breaker is back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Probing {
    /// The gateway sends probes, if the account lets it.
    #[default]
    ByGateway,
    /// Callers' requests do.
    ByCallers,
}

#[derive(Default)]
struct Memory {
    breaker: Breaker,
    /// The end of the rest for the provider's rate limit.
    limited_until: Option<Instant>,
    /// The time until which the target stands behind the others, since its provider is overloaded.
    /// An answer ends it.
    overloaded_until: Option<Instant>,
    /// The end of the rest for refusals. An answer ends it.
    refused_until: Option<Instant>,
    /// The number of refusals since the last answer.
    refusals: u32,
    /// The time of the last answer, unless the credential has failed since.
    answered: Option<Instant>,
    /// The expected times to a whole answer, and to a stream's first token.
    peaks: [Peak; 2],
    headroom: Option<Headroom>,
    hint: Option<Hint>,
    /// The record of callers who left before the first byte.
    given_up: GivenUp,
    /// The last failure. It is boxed, since there is usually none.
    trouble: Option<Box<Trouble>>,
    /// True if the target has answered since the last failure.
    is_mended: bool,
    /// The time since which the breaker is not closed.
    broken_since: Option<Instant>,
    /// The time at which the present rest, or the last one, began.
    rested_at: Option<Instant>,
    /// The time at which the breaker closed, or an answer ended a rest.
    back_since: Option<Instant>,
}

/// The last failure of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The word in the access line.
    pub outcome: &'static str,
    /// The status of the upstream's answer, if it had one.
    pub status: Option<u16>,
    /// The detail that only operators get, without secrets.
    pub detail: Option<String>,
    /// The time of the failure.
    pub failed_at: Instant,
}

/// The hint that another instance found the target broken.
#[derive(Clone, Copy)]
struct Hint {
    broken_until: Instant,
    /// True if this instance has since found the target sound.
    refuted: bool,
}

/// The time for which an answer shows that the credential is good.
const PROVEN: Duration = Duration::from_secs(600);
/// A hint that ends at most this much later than the one before is a repetition of it.
const SAME_HINT: Duration = Duration::from_secs(2);

/// The facts that decide a target's place in the order.
#[derive(Debug, Clone, Copy)]
pub struct OrderFacts {
    /// True if the target does not rest, its breaker admits requests, its provider was not
    /// overloaded a moment ago, and no hint stands against it.
    pub fit: bool,
    /// The expected time.
    pub latency: Option<Duration>,
    /// The number of attempts that wait for their first token.
    pub awaited: usize,
    /// The share of the quota that is left.
    pub headroom: Option<f64>,
    /// True if the target stands behind the others, since callers have given it up.
    pub behind: bool,
}

/// The status of a target, as `/status` shows it.
#[derive(Debug, Clone, Copy)]
pub struct TargetStatus {
    /// The state of its breaker.
    pub breaker: BreakerState,
    /// The calls and failures that the breaker looks at.
    pub calls: CallCounts,
    /// The target's own rest.
    pub rest: Option<Rest>,
    /// The expected times to a whole answer, and to a stream's first token.
    pub expected: [Option<Duration>; 2],
    /// The number of attempts that wait for their first token.
    pub awaited: usize,
    /// The share of the quota that is left.
    pub headroom: Option<f64>,
    /// The time until which it stands behind the others, since callers have given it up.
    pub behind: Option<Instant>,
}

impl TargetHealth {
    /// Makes the health of a target at a kind of endpoint, to which nothing has happened yet.
    pub fn new(endpoint: Endpoint, probing: Probing) -> TargetHealth {
        TargetHealth {
            endpoint,
            probing,
            ..TargetHealth::default()
        }
    }

    /// Returns the name by which operators and other gateways know the target at its account. It
    /// is the account's name for the model, and the kind of endpoint unless that is chat.
    pub fn name(&self, model: &Arc<str>) -> Arc<str> {
        let is_chat = self.endpoint == Endpoint::Chat;
        if is_chat {
            model.clone()
        } else {
            format!("{model} ({})", self.endpoint).into()
        }
    }

    /// Returns the facts that decide the target's place in the order. A target that is `probed` is
    /// fit only while its breaker is closed.
    pub fn order_facts(
        &self,
        stream: bool,
        probed: bool,
        now: Instant,
        clock: SystemTime,
    ) -> OrderFacts {
        let awaited = self.awaited.load(Ordering::Relaxed);
        let memory = self.memory.lock();
        let state = memory.breaker.state(now);
        let admits = if probed && self.probing == Probing::ByGateway {
            state == BreakerState::Closed
        } else {
            state.admits()
        };
        OrderFacts {
            fit: admits
                && memory.rest(now).is_none()
                && memory.overloaded_until.is_none_or(|until| until <= now)
                && memory
                    .hint
                    .is_none_or(|hint| hint.refuted || hint.broken_until <= now),
            latency: memory.peak(stream).expected_time(now, awaited > 0),
            awaited,
            headroom: memory
                .headroom
                .and_then(|headroom| headroom.current_share(clock)),
            behind: memory.given_up.behind(now).is_some(),
        }
    }

    /// Admits an attempt that would begin now, or returns why not. `key` is a hash of the caller's
    /// key. `alone` says that no other target can take it. A target that is `probed` gets its
    /// probes from the gateway itself.
    pub fn admit(
        self: &Arc<TargetHealth>,
        key: u64,
        alone: bool,
        probed: bool,
        now: Instant,
    ) -> Result<AttemptGuard, Unavailable> {
        let mut memory = self.memory.lock();
        if let Some(rest) = memory.rest(now) {
            return Err(Unavailable::Resting(rest));
        }
        if probed
            && self.probing == Probing::ByGateway
            && !alone
            && memory.breaker.state(now) != BreakerState::Closed
        {
            // The gateway itself makes the probe, and not a caller's request.
            return Err(Unavailable::Broken(now + Duration::from_secs(1)));
        }
        match memory.breaker.admit(now, alone) {
            Admission::Allow(pass) | Admission::AllowProbe(pass) => {
                let awaited = self.awaited.load(Ordering::Relaxed);
                memory.given_up.record_request(key, awaited, now);
                Ok(self.begin_attempt(pass, key))
            }
            Admission::RefuseUntil(until) => Err(Unavailable::Broken(until)),
        }
    }

    /// Returns the guard of a half-open breaker's probe, if one is due.
    pub fn probe(self: &Arc<TargetHealth>, now: Instant) -> Option<AttemptGuard> {
        let mut memory = self.memory.lock();
        if memory.rest(now).is_some()
            || memory.breaker.state(now) != (BreakerState::HalfOpen { probing: false })
        {
            return None;
        }
        match memory.breaker.admit(now, false) {
            Admission::AllowProbe(pass) => {
                memory.given_up.record_sign_of_life(now);
                Some(self.begin_attempt(pass, NO_KEY))
            }
            Admission::Allow(_) | Admission::RefuseUntil(_) => None,
        }
    }

    fn begin_attempt(self: &Arc<TargetHealth>, pass: BreakerPass, key: u64) -> AttemptGuard {
        self.awaited.fetch_add(1, Ordering::Relaxed);
        AttemptGuard::new(self.clone(), pass, key)
    }

    /// Returns whether a request that failed elsewhere may go to this target without multiplying
    /// load.
    pub fn is_sound(&self, now: Instant) -> bool {
        let memory = self.memory.lock();
        memory.breaker.is_sound(now) && memory.given_up.behind(now).is_none()
    }

    /// Returns the expected time.
    pub fn expected(&self, stream: bool, now: Instant) -> Option<Duration> {
        self.memory.lock().peak(stream).expected_time(now, false)
    }

    /// Returns whether the target rests for refusals: the account does not serve the model there.
    pub fn refuses(&self, now: Instant) -> bool {
        self.memory
            .lock()
            .refused_until
            .is_some_and(|until| until > now)
    }

    /// Returns whether the target has answered of late, so that the account's credential is good.
    pub fn has_answered_lately(&self, now: Instant) -> bool {
        self.memory
            .lock()
            .answered
            .is_some_and(|answered_at| now.saturating_duration_since(answered_at) < PROVEN)
    }

    /// Notes that the kind of endpoint refused the account's credential.
    pub fn record_refused_credential(&self) {
        self.memory.lock().answered = None;
    }

    /// Returns the target's own rest, without the account's.
    pub fn rest(&self, now: Instant) -> Option<Rest> {
        self.memory.lock().rest(now)
    }

    /// Notes that another instance has found the target broken until then, or that none has. The
    /// hint only makes the target the last in the order, until it answers.
    pub fn record_hint(&self, until: Option<Instant>, now: Instant) {
        let mut memory = self.memory.lock();
        let before = memory.hint;
        memory.hint = until.filter(|until| *until > now).map(|until| {
            let refuted = before
                .is_some_and(|before| before.refuted && until <= before.broken_until + SAME_HINT);
            Hint {
                broken_until: until,
                refuted,
            }
        });
    }

    /// Notes the quota that is in an answer's head.
    pub fn record_headroom(&self, headroom: Headroom) {
        self.memory.lock().headroom = Some(headroom);
    }

    /// Notes the last failure. Returns whether it is news: the target has not failed in this way
    /// since it last answered.
    pub fn record_trouble(&self, trouble: Trouble) -> bool {
        let mut memory = self.memory.lock();
        let is_news = memory
            .trouble()
            .is_none_or(|old| (old.outcome, &old.detail) != (trouble.outcome, &trouble.detail));
        memory.record_trouble(trouble);
        is_news
    }

    /// Returns the last failure, if the target has not answered since.
    pub fn trouble(&self) -> Option<Trouble> {
        self.memory.lock().trouble().cloned()
    }

    /// Returns the last failure, whether or not the target has answered since.
    pub fn last_failure(&self) -> Option<Trouble> {
        self.memory.lock().trouble.as_deref().cloned()
    }

    /// Returns the time since which the target is out: since when its breaker is not closed, or it
    /// rests. If it is not out, returns since when it works again, if it ever was out.
    pub fn since(&self, now: Instant) -> Option<Instant> {
        let memory = self.memory.lock();
        let rested = memory
            .rested_at
            .filter(|_| memory.rest(now).is_some() || memory.is_unfit());
        let ended = [memory.limited_until, memory.refused_until]
            .into_iter()
            .flatten()
            .filter(|until| *until <= now);
        let works = || ended.chain(memory.back_since).max();
        [memory.broken_since, rested]
            .into_iter()
            .flatten()
            .min()
            .or_else(works)
    }

    /// Returns the time at which the target was last seen to work, unless the credential has failed
    /// since: it answered, or a probe found it working again.
    pub fn worked_at(&self) -> Option<Instant> {
        let memory = self.memory.lock();
        memory.answered.max(memory.back_since)
    }

    /// Returns what decides the target's condition.
    pub fn signs(&self, now: Instant) -> TargetSigns {
        let (is_awaited, since) = (self.awaited.load(Ordering::Relaxed) > 0, self.since(now));
        let memory = self.memory.lock();
        TargetSigns {
            breaker: memory.breaker.state(now),
            rest: memory.rest(now),
            is_unfit: memory.is_unfit(),
            is_awaited,
            since,
        }
    }

    /// Returns whether the target could not be reached the last time, and has not answered since.
    pub fn is_out_of_reach(&self) -> bool {
        self.memory.lock().has_failed_with(&OUT_OF_REACH)
    }

    /// Returns whether its provider was overloaded the last time, and the target has not answered
    /// since.
    pub fn is_overloaded(&self) -> bool {
        self.memory.lock().has_failed_with(&[OVERLOADED])
    }

    /// Returns the status that `/status` shows.
    pub fn status(&self, now: Instant, clock: SystemTime) -> TargetStatus {
        let awaited = self.awaited.load(Ordering::Relaxed);
        let memory = self.memory.lock();
        let [whole, first] = memory.peaks;
        TargetStatus {
            breaker: memory.breaker.state(now),
            calls: memory.breaker.calls(now),
            rest: memory.rest(now),
            expected: [
                whole.expected_time(now, awaited > 0),
                first.expected_time(now, awaited > 0),
            ],
            awaited,
            headroom: memory
                .headroom
                .and_then(|headroom| headroom.current_share(clock)),
            behind: memory.given_up.behind(now),
        }
    }

    /// Returns the time that the target usually takes for what callers have given up, if it is
    /// known.
    pub fn usual_time(&self, now: Instant) -> Option<Duration> {
        self.memory.lock().given_up.usual_time(now)
    }

    /// Returns the number of requests that wait, and for how long the target has shown no sign of
    /// life meanwhile, if that is much longer than usual.
    pub fn silence(&self, now: Instant) -> Option<(usize, Duration)> {
        let awaited = self.awaited.load(Ordering::Relaxed);
        if awaited == 0 {
            return None;
        }
        Some((awaited, self.memory.lock().given_up.silence(now)?))
    }

    /// Forgets what the target did long ago, so that what is not used any more takes no memory.
    pub fn sweep(&self, now: Instant) {
        self.series.sweep(now);
        self.memory.lock().given_up.sweep(now);
    }

    /// Takes over the status that another process reports.
    pub fn recall(&self, status: &TargetStatus, now: Instant, clock: SystemTime) {
        self.awaited.store(status.awaited, Ordering::Relaxed);
        let mut memory = self.memory.lock();
        memory.breaker.recall(status.breaker, now);
        let rest = |why| Some(status.rest.filter(|rest| rest.why == why)?.until);
        (memory.limited_until, memory.refused_until) = (rest(Why::Rate), rest(Why::Refused));
        memory.peaks = status.expected.map(|expected| {
            let mut peak = Peak::default();
            if let Some(time) = expected {
                peak.record_time(time, now);
            }
            peak
        });
        memory.headroom = status
            .headroom
            .map(|share| Headroom::new(share, None, clock));
        memory.given_up.recall(status.behind);
    }

    /// Closes the breaker and ends the rest.
    pub fn reset(&self) {
        let mut memory = self.memory.lock();
        memory.forget();
        memory.limited_until = None;
    }

    /// Forgets the failures with the account's old settings, since the settings changed. A rest for
    /// the provider's rate limit stays.
    pub fn forget_failures(&self) {
        self.memory.lock().forget();
    }
}

impl Memory {
    /// Forgets all failures, but not the provider's rate limit.
    fn forget(&mut self) {
        self.breaker.reset();
        self.given_up.forget();
        (self.refusals, self.overloaded_until) = (0, None);
        self.answered = None;
        self.is_mended = true;
        let now = Instant::now();
        if self.broken_since.take().is_some() || self.rest(now).is_some() {
            self.back_since = Some(now);
        }
        self.refused_until = None;
    }

    /// Returns the last failure, if the target has not answered since.
    fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_deref().filter(|_| !self.is_mended)
    }

    /// Returns whether the target failed with one of these outcomes, and has not answered since.
    fn has_failed_with(&self, outcomes: &[&str]) -> bool {
        self.trouble()
            .is_some_and(|trouble| outcomes.contains(&trouble.outcome))
    }

    /// Notes an answer, which shows that the account serves the model.
    fn record_answer(&mut self, now: Instant) {
        if self.refused_until.is_some_and(|until| until > now) {
            self.back_since = Some(now);
        }
        (self.refusals, self.refused_until, self.overloaded_until) = (0, None, None);
        self.answered = Some(now);
        self.is_mended = true;
        if let Some(hint) = &mut self.hint {
            hint.refuted = true;
        }
    }

    /// Notes that a probe found the target working again.
    fn record_good_probe(&mut self) {
        (self.is_mended, self.refusals) = (true, 0);
    }

    /// Notes a failure. Returns the rest that begins with it, if one does.
    fn record_failure(
        &mut self,
        Setback { class, retry_after }: Setback,
        now: Instant,
    ) -> Option<Rest> {
        let was_resting = self.rest(now).is_some();
        match class {
            // A longer rest is never cut short by a later, milder failure.
            Class::Rate => {
                self.limited_until = self.limited_until.max(Some(now + rate_cool(retry_after)))
            }
            Class::Overloaded => {
                self.overloaded_until = self
                    .overloaded_until
                    .max(Some(now + overloaded_for(retry_after)));
            }
            Class::Refused => {
                self.refusals += 1;
                if self.is_unfit() {
                    self.refused_until = Some(now + REFUSED_COOL);
                }
            }
            Class::Credential => self.answered = None,
            Class::Caller | Class::Transient | Class::Ours => {}
        }
        let rest = self.rest(now).filter(|_| !was_resting);
        if rest.is_some() {
            self.rested_at = Some(now);
        }
        rest
    }

    /// Notes the last failure for `/status`.
    fn record_trouble(&mut self, trouble: Trouble) {
        self.trouble = Some(Box::new(trouble));
        self.is_mended = false;
    }

    /// Notes the breaker's new state, if it changed.
    fn record_breaker_change(&mut self, change: Option<BreakerState>, now: Instant) {
        match change {
            Some(BreakerState::Closed) => (self.broken_since, self.back_since) = (None, Some(now)),
            Some(BreakerState::Open(_) | BreakerState::HalfOpen { .. }) => {
                self.broken_since.get_or_insert(now);
            }
            None => {}
        }
    }

    fn rest(&self, now: Instant) -> Option<Rest> {
        [
            (self.limited_until, Why::Rate),
            (self.refused_until, Why::Refused),
        ]
        .into_iter()
        .filter_map(|(until, why)| Some(Rest { until: until?, why }))
        .filter(|rest| rest.until > now)
        .max_by_key(|rest| rest.until)
    }

    /// Returns whether the account refused the model so often that it does not serve it, and has
    /// not answered since.
    fn is_unfit(&self) -> bool {
        self.refusals >= REFUSALS_IN_A_ROW
    }

    fn peak(&self, stream: bool) -> &Peak {
        let [whole, first] = &self.peaks;
        if stream { first } else { whole }
    }

    fn peak_mut(&mut self, stream: bool) -> &mut Peak {
        let [whole, first] = &mut self.peaks;
        if stream { first } else { whole }
    }
}

#[cfg(test)]
mod tests;
