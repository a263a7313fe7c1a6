//! Reads the answers to a batch.

use super::epoch::NOT_SENT;
use super::phase::{BeatState, Phase, Report};
use super::{AdmissionRequest, JOIN_GRACE, MAX_CLOCK_DIFFERENCE_MS, Sent, Session};
use crate::base::calendar::now_millis;
use crate::base::clock::Clock;
use crate::limits::{Moment, Scope};
use crate::status::StoreState;
use crate::store::link::error_of;
use crate::store::protocol::{self, AdmissionAnswer, BeatAnswer, UnknownScope};
use crate::store::unreadable::log_unreadable;
use redis::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time until the next beat while the gateway waits for others to send their counts.
const JOINING_INTERVAL: Duration = Duration::from_millis(250);
/// The most times that a request is sent.
const MAX_TRIES: u8 = 3;

impl Session<'_> {
    /// Reads the answers to what was sent, in the same order. An error ends the session.
    pub(super) fn read_answers(
        &mut self,
        sent: Vec<Sent>,
        answers: Vec<Value>,
    ) -> Result<(), String> {
        let mut again = VecDeque::new();
        let mut emptied = false;
        for (sent, answer) in sent.into_iter().zip(answers) {
            let wrong = || unknown_answer(&answer);
            match sent {
                Sent::Beat { since, is_trial } => {
                    let beat = protocol::read_beat(&answer).ok_or_else(wrong)?;
                    emptied = self.read_beat(beat, is_trial.then(|| since.elapsed()));
                }
                Sent::EarlierPart(scope) => {
                    let earlier = protocol::read_earlier_part(&answer).ok_or_else(wrong)?;
                    scope.add_missing(&protocol::missing_parts(
                        &earlier,
                        &scope.began(),
                        scope.moment(self.batch_time_ms),
                    ));
                    self.epoch.backlog.push(scope);
                }
                Sent::OwnPart(scope) => {
                    let answer = protocol::read_own_answer(&answer).ok_or_else(wrong)?;
                    emptied |= self.read_own(&scope, answer, emptied);
                }
                Sent::Admissions(requests) => {
                    match protocol::read_admissions(&answer).ok_or_else(wrong)? {
                        Ok(answers) if answers.len() == requests.len() => {
                            for ((request, moments), answer) in requests.into_iter().zip(answers) {
                                decide_request(request, &moments, answer, emptied);
                            }
                        }
                        Ok(_) => return Err(wrong()),
                        Err(unknown) => {
                            let requests = requests.into_iter().map(|(request, _)| request);
                            emptied |= self.read_unknown(requests, unknown, emptied, &mut again);
                        }
                    }
                }
                // A thought that could not be stored is not found later.
                Sent::NewText => {}
                Sent::Texts(request) => request.answer(&answer),
                // After the loss, the store has only a part of these totals.
                Sent::Totals(..) if emptied => {}
                Sent::Totals(request, moment) => {
                    match protocol::read_totals(&answer, moment, self.batch_time_ms)
                        .ok_or_else(wrong)?
                    {
                        // If no request waits any more, the counts are not needed.
                        Some(counts) => drop(request.answer.send(counts)),
                        None if self.may_be_forgotten(&request.scope) => {
                            request.scope.mark_sent(NOT_SENT);
                            self.core.inbox.lock().totals.push_back(request);
                        }
                        // The store has lost other gateways' parts too: the operator gets only
                        // ours.
                        None => {}
                    }
                }
            }
        }
        self.ask_again(again);
        if self.epoch.backlog.is_empty() && !self.phase.is_complete() {
            self.next_beat = Instant::now();
        }
        Ok(())
    }

    /// Puts requests back to the front of the inbox, in their order.
    fn ask_again(&self, again: VecDeque<Box<AdmissionRequest>>) {
        if again.is_empty() {
            return;
        }
        let mut inbox = self.core.inbox.lock();
        for request in again.into_iter().rev() {
            if request.unknown_scope_retries < MAX_TRIES {
                inbox.admissions.push_front(request)
            } else {
                request.leave_undecided()
            }
        }
    }

    /// Handles the answer to an own part. Returns true if the store has lost it.
    fn read_own(
        &mut self,
        scope: &Arc<Scope>,
        answer: Result<bool, UnknownScope>,
        emptied: bool,
    ) -> bool {
        match answer {
            Ok(was_unreadable) => {
                if was_unreadable {
                    log_unreadable(scope);
                }
                let unreadable = &mut self.core.inbox.lock().unreadable;
                if was_unreadable {
                    unreadable.note_unreadable(scope);
                }
                unreadable.note_sent(scope);
                false
            }
            Err(unknown) => {
                let scopes = std::slice::from_ref(scope);
                let was_lost = self.read_unknown_scope(scopes, unknown, emptied, false);
                scope.mark_sent(NOT_SENT);
                scope.changed();
                was_lost
            }
        }
    }

    /// Handles an answer that says that the store does not know a scope of these requests. They are
    /// to be sent again. Returns true if the store has lost the scope.
    fn read_unknown(
        &mut self,
        requests: impl Iterator<Item = Box<AdmissionRequest>>,
        unknown: UnknownScope,
        emptied: bool,
        again: &mut VecDeque<Box<AdmissionRequest>>,
    ) -> bool {
        let before = again.len();
        again.extend(requests);
        let requests = || again.iter().skip(before);
        let scopes: Vec<Arc<Scope>> = requests()
            .next()
            .map(|request| request.scopes().cloned().collect())
            .unwrap_or_default();
        let was_tried = requests().any(|request| request.unknown_scope_retries > 0);
        let was_lost = self.read_unknown_scope(&scopes, unknown, emptied, was_tried);
        // What went with the requests was not taken.
        scopes.iter().for_each(|scope| scope.changed());
        again
            .iter_mut()
            .skip(before)
            .for_each(|request| request.unknown_scope_retries += 1);
        was_lost
    }

    /// Handles an answer that says that the store does not know one of these scopes. Returns true
    /// if the store has lost it.
    fn read_unknown_scope(
        &mut self,
        scopes: &[Arc<Scope>],
        unknown: UnknownScope,
        emptied: bool,
        was_tried: bool,
    ) -> bool {
        let Some(scope) = scopes.get(unknown.index) else {
            return false;
        };
        if unknown.was_unreadable {
            // Only this scope is lost, and only its part is sent again.
            log_unreadable(scope);
            self.core.inbox.lock().unreadable.note_unreadable(scope);
            scope.mark_sent(NOT_SENT);
            return false;
        }
        if emptied || !self.is_sent(scope) {
            return false;
        }
        self.next_beat = Instant::now();
        if unknown.has_part {
            // Another process sends its own counts under our name, and the beat says so. If the
            // beat does not, an old command was run late.
            if was_tried {
                self.begin_epoch();
            }
            return false;
        }
        if self.may_be_forgotten(scope) {
            scopes
                .iter()
                .filter(|scope| self.may_be_forgotten(scope))
                .for_each(|scope| scope.mark_sent(NOT_SENT));
            return false;
        }
        // Everything else may be lost too, with other gateways' parts of it.
        self.begin_epoch();
        self.phase.lose();
        true
    }

    /// Returns whether the store may drop a scope without a loss: the scope was sent in another
    /// month, and nothing is counted now.
    fn may_be_forgotten(&self, scope: &Scope) -> bool {
        let own = scope.own_counts(self.batch_time_ms);
        own.moment.month > self.epoch.first_day && protocol::is_nothing(&own)
    }

    /// Reads the state of the store from a beat. `trial` is the time that the answer to a trial
    /// took. Returns true if the store was emptied since the last beat.
    fn read_beat(&mut self, mut beat: BeatAnswer, trial: Option<Duration>) -> bool {
        let core = self.core;
        let emptied = self
            .phase
            .beat_state()
            .is_some_and(|last_beat| last_beat.word != beat.word);
        self.compare_process(&beat.process);
        if emptied {
            core.log_loss();
            self.begin_epoch();
        }
        self.store_clock = Some((beat.clock_ms, Instant::now()));
        self.compare_clocks(beat.clock_ms);
        let now = Clock::now();
        let hints = beat.hints.iter().filter_map(|(name, left)| {
            let (account, model) = name.split_once(' ')?;
            Some(((account.into(), model.into()), now + *left))
        });
        *core.hints.lock() = hints.collect();
        core.hinted.notify_one();
        let (word, live) = (
            std::mem::take(&mut beat.word),
            std::mem::take(&mut beat.live_instances),
        );
        let report = self
            .phase
            .beat_state()
            .map_or(Report::Sending, |last_beat| last_beat.report);
        let last_beat = BeatState {
            word,
            live_gateways: live,
            report,
        };
        let have_all_sent = beat.complete >= core.settings.instances || beat.age > JOIN_GRACE;
        let keeps_deciding = matches!(self.phase, Phase::Deciding(_));
        if core.settings.instances <= 1 || !emptied && (keeps_deciding || have_all_sent) {
            self.phase = Phase::Deciding(last_beat);
        } else {
            self.phase = Phase::Joining(last_beat);
            self.next_beat = self.next_beat.min(Instant::now() + JOINING_INTERVAL);
        }
        self.update_inbox(&beat, trial, now);
        emptied
    }

    /// Lets requests ask the store or not, by the phase and the circuit, and logs what changed.
    fn update_inbox(&self, beat: &BeatAnswer, trial: Option<Duration>, now: Instant) {
        let core = self.core;
        let live = self.phase.live_gateways().len();
        let mut inbox = core.inbox.lock();
        inbox.live_gateways = live;
        inbox.clock_ahead_ms = i64::try_from(beat.clock_ms).unwrap_or_default()
            - i64::try_from(now_millis()).unwrap_or_default();
        match trial {
            Some(took) if took <= core.settings.timeout => inbox.circuit.close(now),
            Some(_) => inbox.circuit.note_failed(now, fastrand::f64()),
            None => {}
        }
        if inbox.circuit.is_closed() {
            inbox.set_state(self.phase.state());
        }
        let too_slow = trial.is_some() && !inbox.circuit.is_closed();
        // Before this gateway has sent its own counts, it need not wait for those of others.
        let waits = inbox.state == StoreState::Joining && self.phase.is_complete();
        let is_joining = waits
            && inbox
                .outage
                .as_mut()
                .is_some_and(|outage| outage.note_joining());
        let is_over = inbox.state == StoreState::Up && self.epoch.backlog.is_empty();
        let outage = if is_over { inbox.outage.take() } else { None };
        drop(inbox);
        if too_slow {
            core.take_out_as_slow();
        }
        if is_joining {
            core.log_joining(beat.complete, JOIN_GRACE.saturating_sub(beat.age));
        }
        if let Some(outage) = outage {
            core.log_up(&outage, live, self.epoch.sent_count);
        }
    }

    /// Takes another name if another process uses this gateway's name.
    fn compare_process(&mut self, process: &str) {
        if self.phase.beat_state().is_none() || process == self.process || process.is_empty() {
            return;
        }
        log::error!(
            "another process uses the same ledger as this one, and so has the same name in the store: give each process a ledger of its own"
        );
        self.instance = format!("{}.{}", self.instance, self.process);
        self.core.inbox.lock().instance.clone_from(&self.instance);
        self.begin_epoch();
    }

    /// Warns once if the clocks of this machine and of the store differ.
    fn compare_clocks(&mut self, store_ms: u64) {
        let difference = store_ms.abs_diff(now_millis());
        if difference > MAX_CLOCK_DIFFERENCE_MS && !self.warned_of_clocks {
            log::warn!(
                "the clocks of this machine and of the store differ by {difference} ms, so the minutes \
                 and days of limits begin at different times: set both clocks by NTP"
            );
            self.warned_of_clocks = true;
        }
    }
}

/// Answers a request with the store's decision. If the store was emptied, it knows only what was
/// sent just now, and nothing of other gateways: a later message gives back what it granted.
fn decide_request(
    request: Box<AdmissionRequest>,
    moments: &[Moment],
    answer: AdmissionAnswer,
    emptied: bool,
) {
    match answer {
        _ if emptied => request.leave_undecided(),
        AdmissionAnswer::Granted(used) => request.grant(used, moments),
        AdmissionAnswer::Refused(used) => request.refuse(used, moments),
    }
}

fn unknown_answer(answer: &Value) -> String {
    let error = error_of(answer);
    error.unwrap_or_else(|| "it sent an answer that Portcullis does not know".to_owned())
}
