//! The [`Inbox`] holds what requests leave for the store's thread, and the state of the store.

use super::circuit::Circuit;
use super::outage::Outage;
use super::protocol::total_tally;
use super::texts::{TextQueue, TextRequest};
use super::totals::TotalsRequest;
use super::unreadable::Unreadable;
use crate::base::clock::Clock;
use crate::limits::tally::Tally;
use crate::limits::{
    self, Ask, Bound, Bounds, Counts, LimitReached, Limits, LimitsLeft, Moment, Reservation, Scope,
    WHOLE_LIMIT,
};
use crate::status::StoreState;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The requests that wait to be sent, and the state of the store.
pub(super) struct Inbox {
    pub(super) admissions: VecDeque<Box<AdmissionRequest>>,
    /// The thoughts and items to store.
    pub(super) texts_to_store: TextQueue,
    /// The requests for thoughts and items that are stored.
    pub(super) text_requests: VecDeque<TextRequest>,
    /// The requests for the counts of all gateways together.
    pub(super) totals: VecDeque<TotalsRequest>,
    /// The targets that this gateway found broken, each with the time for which it is broken.
    pub(super) broken_targets: Vec<(String, Duration)>,
    /// True when the process ends.
    pub(super) is_leaving: bool,
    /// This gateway's name.
    pub(super) instance: String,
    pub(super) circuit: Circuit,
    pub(super) state: StoreState,
    /// The time at which the state began.
    pub(super) since: Instant,
    /// The reason why the store is down, while it is.
    pub(super) error: Option<String>,
    /// The outage, while the store does not decide.
    pub(super) outage: Option<Outage>,
    /// The time at which the log last said that counts were lost.
    pub(super) loss_logged: Option<Instant>,
    /// The number of gateways that share the store and live.
    pub(super) live_gateways: usize,
    /// How far this machine's clock is ahead of the store's.
    pub(super) clock_ahead_ms: i64,
    /// The counts that could not be read.
    pub(super) unreadable: Unreadable,
}

impl Inbox {
    /// Makes an empty inbox of the gateway with this name. The store is not connected yet.
    pub(super) fn new(instance: &str, now: Instant) -> Inbox {
        Inbox {
            admissions: VecDeque::new(),
            texts_to_store: TextQueue::default(),
            text_requests: VecDeque::new(),
            totals: VecDeque::new(),
            broken_targets: Vec::new(),
            is_leaving: false,
            instance: instance.to_owned(),
            circuit: Circuit::new(now),
            state: StoreState::Down,
            since: now,
            error: None,
            outage: Some(Outage::new(now)),
            loss_logged: None,
            live_gateways: 0,
            clock_ahead_ms: 0,
            unreadable: Unreadable::default(),
        }
    }

    /// Returns whether nothing waits to be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.admissions.is_empty()
            && self.texts_to_store.is_empty()
            && self.text_requests.is_empty()
            && self.broken_targets.is_empty()
            && self.totals.is_empty()
    }

    /// Notes the store's state, and the time at which it began.
    pub(super) fn set_state(&mut self, state: StoreState) {
        if self.state != state {
            (self.state, self.since) = (state, Clock::now());
        }
        if state != StoreState::Up {
            self.outage();
        }
        if state != StoreState::Down {
            self.error = None;
        }
    }

    /// Returns the outage that goes on, or begins one.
    fn outage(&mut self) -> &mut Outage {
        self.outage.get_or_insert_with(|| Outage::new(Clock::now()))
    }

    /// Notes that the store is down, and returns the outage. Requests that wait for an answer need
    /// not wait any longer.
    pub(super) fn go_down(&mut self, error: String) -> &mut Outage {
        self.set_state(StoreState::Down);
        self.admissions.clear();
        self.text_requests.clear();
        self.totals.clear();
        self.error = Some(error);
        self.outage()
    }
}

/// A request for an admission.
pub(super) struct AdmissionRequest {
    bounds: [Option<(Limits, Arc<Scope>)>; 3],
    pub(super) ask: Ask,
    pub(super) now_ms: u64,
    /// The number of times that the store did not know one of the scopes, and was asked again.
    pub(super) unknown_scope_retries: u8,
    answer: oneshot::Sender<Decision>,
}

/// The store's answer to a request for an admission. `None` means that the store cannot decide, and
/// this gateway uses its share of each limit.
pub(super) type Decision = Option<Result<Reservation, LimitReached>>;

impl AdmissionRequest {
    /// Makes a request, and the receiver of its answer.
    pub(super) fn new(
        bounds: &Bounds<'_>,
        ask: Ask,
        now_ms: u64,
    ) -> (Box<AdmissionRequest>, oneshot::Receiver<Decision>) {
        let (answer, decision) = oneshot::channel();
        let mut owned = bounds
            .iter()
            .map(|bound| (*bound.limits, bound.scope.clone()));
        let bounds = [owned.next(), owned.next(), owned.next()];
        (
            Box::new(AdmissionRequest {
                bounds,
                ask,
                now_ms,
                unknown_scope_retries: 0,
                answer,
            }),
            decision,
        )
    }

    /// Returns whether no request waits for the answer any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }

    /// Lists the scopes that bound the request, each with its limits.
    pub(super) fn bounds(&self) -> impl Iterator<Item = (&Limits, &Arc<Scope>)> {
        self.bounds
            .iter()
            .flatten()
            .map(|(limits, scope)| (limits, scope))
    }

    /// Lists the scopes that bound the request.
    pub(super) fn scopes(&self) -> impl Iterator<Item = &Arc<Scope>> {
        self.bounds().map(|(_, scope)| scope)
    }

    /// Lets settlements wait, in the scopes where no other gateway waits for them.
    fn note_room(&self, totals: &[Tally]) {
        for (used, (limits, scope)) in totals.iter().zip(self.bounds()) {
            scope.let_wait(!used.is_nearly_full(limits, self.ask));
        }
    }

    /// Returns what all gateways had used of each scope.
    fn totals(&self, used: Vec<Counts>, moments: &[Moment]) -> Vec<Tally> {
        let each = used.into_iter().zip(moments);
        each.map(|(used, moment)| total_tally(used, *moment, self.now_ms))
            .collect()
    }

    /// Admits the request, since the store has counted it in all scopes. `used` has the counts of
    /// each scope before the request, and `moments` the second, day and month that each counts in.
    pub(super) fn grant(self, used: Vec<Counts>, moments: &[Moment]) {
        let totals = self.totals(used, moments);
        self.note_room(&totals);
        let left = totals
            .into_iter()
            .zip(self.bounds())
            .map(|(used, (limits, _))| used.limits_left_after(limits, self.ask, self.now_ms));
        let left = left.fold(LimitsLeft::default(), LimitsLeft::tightest);
        let bounds: Bounds<'_> = self
            .bounds()
            .map(|(limits, scope)| Bound { limits, scope })
            .collect();
        let reservation = limits::take_granted(&bounds, self.ask, self.now_ms, left, moments);
        // If the receiver has waited too long, the request was decided without the store.
        if let Err(Some(Ok(unwanted))) = self.answer.send(Some(Ok(reservation))) {
            unwanted.undo();
        }
    }

    /// Refuses the request, since the store has not counted it. `used` has the counts of each
    /// scope, and `moments` the second, day and month that each counts in.
    pub(super) fn refuse(self, used: Vec<Counts>, moments: &[Moment]) {
        let totals = self.totals(used, moments);
        self.note_room(&totals);
        let totals: Vec<_> = totals.into_iter().zip(self.bounds()).collect();
        let over = totals.iter().filter_map(|(used, (limits, scope))| {
            Some((
                *scope,
                used.exceeded_limit(limits, WHOLE_LIMIT, self.ask, self.now_ms)?,
            ))
        });
        let left = totals
            .iter()
            .map(|(used, (limits, _))| used.limits_left(limits, WHOLE_LIMIT, self.now_ms));
        // The store has refused, so a limit is exceeded. If none is by our own sums, the store's
        // sums differ: beyond 2^53 its numbers are not exact.
        let refused = LimitReached::worst(
            over,
            || left.fold(LimitsLeft::default(), LimitsLeft::tightest),
            WHOLE_LIMIT,
        );
        // If no request waits any more, the answer is not needed.
        self.answer.send(refused.map(Err)).ok();
    }

    /// Leaves the decision to this gateway. The store may have counted the request in some scopes,
    /// so this gateway's counts of all scopes are sent again.
    pub(super) fn leave_undecided(self) {
        self.scopes().for_each(|scope| scope.changed());
        self.answer.send(None).ok();
    }
}
