//! Makes the next batch: the requests in the inbox, and the parts that the store must know before
//! them.

use super::epoch::NOT_SENT;
use super::{AdmissionRequest, MAX_CLOCK_DIFFERENCE_MS, Sent, Session, TotalsRequest};
use crate::base::calendar::now_millis;
use crate::base::clock::Clock;
use crate::limits::{Kind, Moment, OwnPart, Scope};
use crate::store::inbox::Inbox;
use crate::store::link::script_call;
use crate::store::{protocol, totals};
use redis::{Cmd, Pipeline};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time between two beats. A beat tells others that this gateway lives, and returns what they
/// found broken.
const BEAT_INTERVAL: Duration = Duration::from_secs(1);
/// The most admissions of one batch.
const MAX_ADMISSIONS: usize = 256;
/// The most admissions of one call of the script: no other client waits long for it.
const MAX_GROUP: usize = 32;
/// The most changed scopes of one batch; with those of the backlog, twice as many. The scopes that
/// its requests need come on top.
const MAX_PARTS: usize = 64;

/// The commands of a batch, and what was sent with each, in their order.
#[derive(Default)]
pub(super) struct Sending {
    pub(super) commands: Pipeline,
    pub(super) sent: Vec<Sent>,
}

impl Sending {
    fn add(&mut self, command: Cmd, sent: Sent) {
        self.commands.add_command(command);
        self.sent.push(sent);
    }
}

/// Admissions of the same scopes, which one call of the script decides.
struct Group {
    /// Of each scope the instance's own part, if it goes with the admissions.
    own: Vec<Option<OwnPart>>,
    requests: VecDeque<Box<AdmissionRequest>>,
}

impl Group {
    /// Lists the scopes whose own parts go with the admissions.
    fn carried_scopes(&self) -> impl Iterator<Item = *const Scope> {
        let scopes = self
            .requests
            .front()
            .into_iter()
            .flat_map(|request| request.scopes());
        let carried = scopes.zip(&self.own).filter(|(_, own)| own.is_some());
        carried.map(|(scope, _)| Arc::as_ptr(scope))
    }
}

/// The kinds of beats.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BeatKind {
    Usual,
    /// The store failed before: only if this beat is answered, requests are sent again.
    Trial,
}

impl Session<'_> {
    /// Makes a batch from the requests in the inbox that can be sent now.
    pub(super) fn next_batch(&mut self) -> Sending {
        let mut batch = Sending::default();
        let (now, batch_time_ms) = (Instant::now(), now_millis());
        if batch_time_ms + MAX_CLOCK_DIFFERENCE_MS < self.batch_time_ms {
            // What was counted in seconds, days and months of the future is now counted elsewhere.
            // The store gets the new counts before it is asked.
            self.begin_epoch();
        }
        self.batch_time_ms = batch_time_ms;
        let core = self.core;
        let mut inbox = core.inbox.lock();
        if inbox.circuit.due().is_some_and(|due| due <= Clock::now()) {
            self.add_beat(&mut inbox, BeatKind::Trial, &mut batch);
            return batch;
        }
        let admissions = inbox.admissions.len().min(MAX_ADMISSIONS);
        let mut admissions: Vec<_> = inbox.admissions.drain(..admissions).collect();
        admissions.retain(|request| !request.is_abandoned());
        let totals = inbox.totals.len().min(totals::MAX_SCOPES);
        let mut totals: Vec<TotalsRequest> = inbox.totals.drain(..totals).collect();
        totals.retain(|request| !request.answer.is_closed());
        // If a date has come a second time, the store has the counts from before the clock was set
        // back.
        let scopes = admissions
            .iter()
            .flat_map(|request| request.scopes().map(|scope| (scope, request.now_ms)));
        let scopes = scopes.chain(totals.iter().map(|request| (&request.scope, batch_time_ms)));
        scopes
            .filter(|(scope, now_ms)| scope.came_again(*now_ms))
            .for_each(|(scope, _)| scope.mark_sent(NOT_SENT));
        // Before a scope is sent for the first time, the beat says whether the store was emptied.
        let is_new = admissions
            .iter()
            .flat_map(|request| request.scopes())
            .any(|scope| !self.is_sent(scope));
        if is_new || self.next_beat <= now || !inbox.broken_targets.is_empty() {
            self.add_beat(&mut inbox, BeatKind::Usual, &mut batch);
        }
        for command in inbox.texts_to_store.take(&core.settings.prefix) {
            batch.add(command, Sent::NewText);
        }
        let texts = std::mem::take(&mut inbox.text_requests);
        drop(inbox);
        for request in texts {
            batch.add(request.command(&core.settings.prefix), Sent::Texts(request));
        }
        let parts = self.parts(&admissions, &totals);
        // The part that another process sent under this name is read before it is replaced. Until
        // then no request is admitted.
        let (admissions, early) = admissions
            .into_iter()
            .partition::<Vec<_>, _>(|request| request.scopes().all(|scope| scope.is_known()));
        let (totals, later) = totals
            .into_iter()
            .partition::<Vec<_>, _>(|request| request.scope.is_known());
        if !early.is_empty() || !later.is_empty() {
            let mut inbox = core.inbox.lock();
            early
                .into_iter()
                .rev()
                .for_each(|request| inbox.admissions.push_front(request));
            later
                .into_iter()
                .rev()
                .for_each(|request| inbox.totals.push_front(request));
        }
        let groups = self.group_admissions(admissions, &parts);
        let carried: HashSet<*const Scope> =
            groups.iter().flat_map(Group::carried_scopes).collect();
        parts
            .into_iter()
            .filter(|scope| !carried.contains(&Arc::as_ptr(scope)))
            .for_each(|scope| self.add_part(scope, &mut batch));
        groups
            .into_iter()
            .for_each(|group| self.add_admissions(group, &mut batch));
        totals
            .into_iter()
            .for_each(|request| self.add_totals(request, &mut batch));
        batch
    }

    /// Lists the scopes to send: those that changed, some of the backlog, and those that the
    /// requests need.
    fn parts(
        &mut self,
        admissions: &[Box<AdmissionRequest>],
        totals: &[TotalsRequest],
    ) -> Vec<Arc<Scope>> {
        let changes = &self.core.changes;
        let mut parts = changes.take_due(MAX_PARTS, Instant::now());
        while parts.len() < 2 * MAX_PARTS
            && let Some(scope) = self.epoch.backlog.pop()
        {
            if !self.is_sent(&scope) {
                self.epoch.sent_count += usize::from(scope.is_known());
                parts.push(scope);
            }
        }
        let needed = admissions.iter().flat_map(|request| request.scopes());
        let unsent = needed.filter(|scope| self.is_missing(scope));
        parts.extend(unsent.cloned());
        // An operator who asks sees also what still waits.
        let asked = totals.iter().map(|request| &request.scope);
        let unsent = asked.filter(|scope| changes.take(scope) || self.is_missing(scope));
        parts.extend(unsent.cloned());
        // A scope may be in several of these lists.
        let mut seen = HashSet::new();
        parts.retain(|scope| seen.insert(Arc::as_ptr(scope)));
        parts
    }

    /// Returns whether a scope must be sent before the store is asked about it.
    fn is_missing(&self, scope: &Scope) -> bool {
        !self.is_sent(scope) || !scope.is_known()
    }

    fn add_part(&self, scope: Arc<Scope>, batch: &mut Sending) {
        if !scope.is_known() {
            batch.add(
                self.admit_script([&scope], "was", "[]"),
                Sent::EarlierPart(scope),
            );
            return;
        }
        let is_new = !self.is_sent(&scope);
        let part = scope.take_part(self.batch_time_ms, is_new);
        let command = if is_new { "own" } else { "more" };
        // The scope counts as sent now: answers come in order, and if one fails, everything is sent
        // again.
        scope.mark_sent(self.epoch.number);
        let own = protocol::own_json(&part);
        batch.add(
            self.admit_script([&scope], command, &own),
            Sent::OwnPart(scope),
        );
    }

    /// Puts admissions of the same scopes together. What has changed of a scope goes with the first
    /// group that has the scope, if the store knows the scope by now.
    fn group_admissions(
        &self,
        admissions: impl IntoIterator<Item = Box<AdmissionRequest>>,
        parts: &[Arc<Scope>],
    ) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut by_scopes = HashMap::new();
        let mut seen = HashSet::new();
        let changed: HashSet<*const Scope> = parts.iter().map(Arc::as_ptr).collect();
        for request in admissions {
            let scopes: Vec<*const Scope> = request.scopes().map(Arc::as_ptr).collect();
            let group = by_scopes.get(&scopes).copied();
            if let Some(group) = group.and_then(|index: usize| groups.get_mut(index))
                && group.requests.len() < MAX_GROUP
            {
                group.requests.push_back(request);
                continue;
            }
            by_scopes.insert(scopes, groups.len());
            let own = request.scopes().map(|scope| {
                let pointer = Arc::as_ptr(scope);
                // Only with the first group of the scope: later it would replace what that group
                // has admitted.
                let is_carried = seen.insert(pointer)
                    && self.is_sent(scope)
                    && (changed.contains(&pointer) || self.core.changes.take(scope));
                is_carried.then(|| scope.take_part(self.batch_time_ms, false))
            });
            groups.push(Group {
                own: own.collect(),
                requests: VecDeque::from([request]),
            });
        }
        groups
    }

    fn add_admissions(&self, group: Group, batch: &mut Sending) {
        let Some(first) = group.requests.front() else {
            return;
        };
        let scopes: Vec<Arc<Scope>> = first.scopes().cloned().collect();
        // The list of live gateways matters only to limits of concurrency.
        let places = group
            .requests
            .iter()
            .flat_map(|request| request.bounds())
            .any(|(limits, _)| limits.allowed(Kind::Concurrency).is_some());
        let live = if places {
            self.phase.live_gateways()
        } else {
            &[]
        };
        let requests: Vec<_> = group
            .requests
            .into_iter()
            .map(|request| {
                let scopes = request.scopes();
                let moments: Vec<Moment> =
                    scopes.map(|scope| scope.moment(request.now_ms)).collect();
                (request, moments)
            })
            .collect();
        let each: Vec<String> = requests
            .iter()
            .map(|(request, moments)| {
                let limits = request.bounds().map(|(limits, _)| limits);
                protocol::request_json(request.ask, limits.zip(moments.iter().copied()))
            })
            .collect();
        let json = protocol::admissions_json(live, &group.own, &each);
        batch.add(
            self.admit_script(&scopes, "admit", &json),
            Sent::Admissions(requests),
        );
    }

    fn add_totals(&self, request: TotalsRequest, batch: &mut Sending) {
        let moment = request.scope.moment(self.batch_time_ms);
        let ask = protocol::totals_json(self.phase.live_gateways(), moment);
        batch.add(
            self.admit_script([&request.scope], "look", &ask),
            Sent::Totals(request, moment),
        );
    }

    /// Returns a call of `admit.lua` with these scopes.
    fn admit_script<'k>(
        &self,
        scopes: impl IntoIterator<Item = &'k Arc<Scope>>,
        command: &str,
        json: &str,
    ) -> Cmd {
        let keys: Vec<String> = scopes
            .into_iter()
            .map(|scope| self.scope_key(scope))
            .collect();
        script_call(
            &self.link.admit,
            &keys,
            &[
                command,
                &self.instance,
                &self.epoch.name,
                json,
                &self.store_second().to_string(),
            ],
        )
    }

    fn add_beat(&mut self, inbox: &mut Inbox, kind: BeatKind, batch: &mut Sending) {
        let hints: Vec<serde_json::Value> = std::mem::take(&mut inbox.broken_targets)
            .into_iter()
            .flat_map(|(name, time)| {
                [
                    name.into(),
                    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).into(),
                ]
            })
            .collect();
        let hints = serde_json::Value::from(hints).to_string();
        let keys = [
            self.own_key("instances"),
            self.own_key("born"),
            self.own_key("hints"),
        ];
        let flag = |is: bool| if is { "1" } else { "0" };
        let lost = flag(self.phase.report_beat(self.epoch.backlog.is_empty()));
        let complete = flag(self.phase.is_complete());
        let word = self
            .phase
            .beat_state()
            .map_or("-", |last_beat| &last_beat.word);
        let new_word = format!("{:016x}", fastrand::u64(..));
        let arguments = [
            &self.instance,
            self.process,
            complete,
            &new_word,
            &hints,
            lost,
            word,
        ];
        batch.add(
            script_call(&self.link.beat, &keys, &arguments),
            Sent::Beat {
                since: Instant::now(),
                is_trial: kind == BeatKind::Trial,
            },
        );
        self.next_beat = Instant::now() + BEAT_INTERVAL;
    }
}
