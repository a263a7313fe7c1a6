//! The running state of accounts and models, which outlives catalogs. For each account it has the
//! places, the rest after failures, the idle connections, and the health of its targets. For each
//! model it has the [`Demand`].
//!
//! The account's id is the key, so that a reload finds the state again. What no catalog names any
//! more goes with its last exchange. **Invariant:** a [`Permit`] is one request in flight. It gives
//! its place back when it is dropped, however the exchange ends.

pub mod breaker;
pub mod budget;
pub mod condition;
pub mod demand;
pub mod failure;
pub mod given_up;
pub mod health;
pub mod http1_pool;
pub mod http2_pool;
pub mod identity;
pub mod latency;
pub mod queue;
pub mod quota;
pub mod resolver;
pub mod strategy;
pub mod target_health;

pub mod window;

use crate::base::clock::Clock;
use crate::base::lock::Lock;
use crate::catalog::listing::{self, Listing};
use crate::catalog::{Account, Catalog};
use crate::conf::proxy::Proxies;
use condition::AccountSigns;
use demand::Demand;
use dialects::Endpoint;
use failure::{Class, Failure};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use target_health::{Probing, TargetHealth};
use tokio::sync::Notify;

/// The most counts of tokens that an account has in flight.
const MOST_COUNTS: usize = 32;
/// The most targets that are kept since they were asked for. Beyond it, all are forgotten.
const MOST_ASKED: usize = 4 * listing::MAX_NAMES;

/// The running state of one account.
// The default is for `new` alone: it admits nothing.
#[derive(Default)]
pub struct State {
    /// The account's id.
    pub id: Arc<str>,
    in_flight: AtomicUsize,
    /// The counts of tokens in flight. They take no places of requests.
    counts: AtomicUsize,
    /// The most requests that the account may have, by the newest catalog. It also counts for
    /// exchanges that began with an older catalog.
    max_requests: AtomicUsize,
    /// Wakes those who wait for a place when one is free.
    pub freed: Notify,
    /// The account's rest after failures.
    pub health: health::Health,
    targets: Lock<Targets>,
    /// The account's idle HTTP/1 connections.
    pub http1: http1_pool::Http1Pool,
    /// The account's HTTP/2 connections.
    pub http2: http2_pool::Http2Pool,
    /// The addresses of the account's host name.
    pub addresses: resolver::Addresses,
    /// The account's credential, if it is obtained anew again and again.
    pub identity: identity::Identity,
    /// The time of the last log line about an impossible count.
    doubted: Lock<Option<Instant>>,
    /// The models that the account's provider lists.
    pub listing: Arc<Listing>,
}

/// The targets of an account.
#[derive(Default)]
struct Targets {
    /// All targets, by the account's name for the model and by the kind of endpoint.
    by_model: HashMap<(Arc<str>, Endpoint), Weak<TargetHealth>>,
    /// The targets that were made when they were first asked for.
    lasting: Vec<NamedTarget>,
}

impl Targets {
    fn find(&self, model: &Arc<str>, endpoint: Endpoint) -> Option<Arc<TargetHealth>> {
        self.by_model.get(&(model.clone(), endpoint))?.upgrade()
    }

    fn add(&mut self, model: &Arc<str>, endpoint: Endpoint, probing: Probing) -> Arc<TargetHealth> {
        self.by_model.retain(|_, health| health.strong_count() > 0);
        let health = Arc::new(TargetHealth::new(endpoint, probing));
        let key = (model.clone(), endpoint);
        self.by_model.insert(key, Arc::downgrade(&health));
        health
    }
}

/// A target, with its account's name for the model.
pub type NamedTarget = (Arc<str>, Arc<TargetHealth>);

impl State {
    /// Makes the state of an account to which nothing has happened yet.
    pub fn new(id: Arc<str>) -> State {
        State {
            id,
            max_requests: AtomicUsize::new(usize::MAX),
            ..State::default()
        }
    }

    /// Notes that the account counted tokens that no answer can have. Returns whether this is to be
    /// logged: once an hour at most.
    pub fn record_impossible_count(&self, now: Instant) -> bool {
        const AGAIN: Duration = Duration::from_secs(3600);
        let mut last = self.doubted.lock();
        let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= AGAIN);
        if is_due {
            *last = Some(now);
        }
        is_due
    }

    /// Takes a place for one more request, if the cap allows it.
    pub fn admit(self: &Arc<State>) -> Option<Permit> {
        let max_requests = self.max_requests.load(Ordering::Acquire);
        take_slot(&self.in_flight, max_requests).then(|| Permit {
            state: self.clone(),
            is_count: false,
        })
    }

    /// Takes a place for a request of the gateway's own, which waits for none.
    pub fn take_permit(self: &Arc<State>) -> Result<Arc<Permit>, Failure> {
        self.admit().map(Arc::new).ok_or(Failure::NoRoom)
    }

    /// Takes a place for one more count of tokens. It is none of the places of requests.
    pub fn admit_count(self: &Arc<State>) -> Option<Permit> {
        take_slot(&self.counts, MOST_COUNTS).then(|| Permit {
            state: self.clone(),
            is_count: true,
        })
    }

    /// Sets the most requests that may be in flight from now on.
    pub fn set_max_requests(&self, max_requests: usize) {
        if self.max_requests.swap(max_requests, Ordering::AcqRel) < max_requests {
            self.freed.notify_waiters();
        }
    }

    /// Returns the health of the target with this name, at a kind of endpoint. It lives as long as
    /// somebody holds it.
    pub fn target_health(&self, model: &Arc<str>, endpoint: Endpoint) -> Arc<TargetHealth> {
        let mut targets = self.targets.lock();
        let known = targets.find(model, endpoint);
        known.unwrap_or_else(|| targets.add(model, endpoint, Probing::ByGateway))
    }

    /// Returns the health of a target that lives until no catalog has the model any more, and that
    /// the gateway does not probe. It is for targets that are made when they are first asked: few
    /// models are asked at other kinds of endpoints than those of conversations.
    pub fn lasting_health(&self, model: &Arc<str>, endpoint: Endpoint) -> Arc<TargetHealth> {
        let mut targets = self.targets.lock();
        if let Some(known) = targets.find(model, endpoint) {
            return known;
        }
        // Lists of providers change, and no catalog may come that ends what was asked long ago.
        if targets.lasting.len() >= MOST_ASKED {
            targets.lasting.clear();
        }
        let health = targets.add(model, endpoint, Probing::ByCallers);
        targets.lasting.push((model.clone(), health.clone()));
        health
    }

    /// Returns the health of a target that somebody has asked for, or may ask.
    pub fn known_health(&self, model: &Arc<str>, endpoint: Endpoint) -> Option<Arc<TargetHealth>> {
        self.targets.lock().find(model, endpoint)
    }

    /// Returns the targets that were made when they were first asked for.
    pub fn all_asked(&self) -> Vec<NamedTarget> {
        self.targets.lock().lasting.clone()
    }

    /// Notes the names of all models that the account serves now.
    pub fn keep_asked(&self, is_served: impl Fn(&str) -> bool) {
        self.targets
            .lock()
            .lasting
            .retain(|(model, _)| is_served(model));
    }

    /// Returns what is known of the account, without its targets.
    pub fn signs(&self, is_enabled: bool, now: Instant) -> AccountSigns {
        AccountSigns {
            is_off: !is_enabled,
            rest: self.health.rest(now),
            credential: self.credential_refused_since(),
        }
    }

    /// Returns the time since which the provider refuses the credential, also between two rests: no
    /// target of the account has answered since it was refused last.
    fn credential_refused_since(&self) -> Option<Instant> {
        let (since, last) = self.health.refused()?;
        let targets = self.targets.lock();
        let worked = targets
            .by_model
            .values()
            .filter_map(Weak::upgrade)
            .filter_map(|health| health.worked_at())
            .max();
        drop(targets);
        if worked.is_some_and(|worked| worked > last) {
            self.health.clear_failures(last);
            return None;
        }
        Some(since)
    }

    fn each_target(&self, each: impl Fn(&TargetHealth)) {
        let targets = self.targets.lock();
        targets
            .by_model
            .values()
            .filter_map(Weak::upgrade)
            .for_each(|health| each(&health));
    }

    /// Returns the class of a failure at a kind of endpoint. If the account's other kinds take the
    /// credential, the account rather does not serve this kind. They must have answered since they
    /// last refused it: so a key that dies is seen after one failure at each kind.
    pub fn class_of(&self, failure: &Failure, endpoint: Endpoint, now: Instant) -> Class {
        let class = failure.class();
        if class != Class::Credential || failure.facts().status != Some(401) {
            return class;
        }
        let mut others_work = false;
        for ((_, kind), health) in &self.targets.lock().by_model {
            match health.upgrade() {
                Some(health) if *kind == endpoint => health.record_refused_credential(),
                Some(health) => others_work |= health.has_answered_lately(now),
                None => {}
            }
        }
        if others_work { Class::Refused } else { class }
    }

    /// Notes that a catalog has the account. If its settings changed, the failures with the old
    /// settings are forgotten.
    pub fn apply_settings(&self, account: &Account) {
        self.set_max_requests(if account.enabled {
            account.concurrency.unwrap_or(usize::MAX)
        } else {
            0
        });
        self.listing.apply_settings(account);
        if self.health.apply_settings(account.fingerprint) {
            self.each_target(TargetHealth::forget_failures);
        }
    }

    /// Ends the account's rests and closes its breakers.
    pub fn reset(&self) {
        self.identity.retry();
        self.health.set_rest(None);
        self.each_target(TargetHealth::reset);
        self.freed.notify_waiters();
    }

    /// Ends the account's rest, since its credential can be obtained again.
    pub fn reset_rest(&self) {
        self.health.set_rest(None);
        self.freed.notify_waiters();
    }

    /// Takes over the state that another process reports: the number of requests in flight, and the
    /// account's rest.
    pub fn recall(&self, in_flight: usize, rest: Option<health::Rest>) {
        self.in_flight.store(in_flight, Ordering::Release);
        self.health.set_rest(rest);
    }

    /// Closes idle connections that have other settings than these, or were idle for too long.
    /// Closes all if no catalog has the account any more. Also forgets what targets did long ago.
    pub fn sweep(&self, fingerprint: Option<u64>, now: Instant) {
        self.http1.sweep(fingerprint, now);
        self.http2.sweep(fingerprint, now);
        // A pattern may have thousands of targets, each asked once.
        self.each_target(|health| health.sweep(now));
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }
}

/// One place at an account, for a request or for a count of tokens.
pub struct Permit {
    state: Arc<State>,
    is_count: bool,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.is_count {
            self.state.counts.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        self.state.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.state.freed.notify_waiters();
    }
}

/// Takes one of the places. Returns whether there was one.
fn take_slot(taken: &AtomicUsize, capacity: usize) -> bool {
    taken
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| {
            (n < capacity).then_some(n + 1)
        })
        .is_ok()
}

/// The states of all accounts. They belong to the catalogs and exchanges that hold them. So an
/// account that is removed and put back while it is still at work finds its places as they were.
#[derive(Default)]
pub struct Registry {
    /// The proxies of the process.
    pub proxies: Arc<Proxies>,
    states: Lock<HashMap<Arc<str>, Weak<State>>>,
    demands: Lock<HashMap<Arc<str>, Weak<Demand>>>,
}

impl Registry {
    /// Makes the registry of a process with these proxies.
    pub fn behind(proxies: Arc<Proxies>) -> Registry {
        Registry {
            proxies,
            ..Registry::default()
        }
    }

    /// Returns the states of a catalog's accounts, in the catalog's order. States without a holder
    /// are forgotten.
    pub fn adopt(&self, catalog: &Catalog) -> Vec<Arc<State>> {
        let mut states = self.states.lock();
        let adopted = reuse_or_make(
            &mut states,
            catalog.accounts().iter().map(|account| &account.id),
            State::new,
        );
        // Requests that wait for a removed account wait in vain: a cap of 0 wakes them.
        let gone = states.iter().filter(|(id, _)| {
            catalog
                .accounts()
                .binary_search_by(|account| account.id.cmp(id))
                .is_err()
        });
        gone.filter_map(|(_, state)| state.upgrade())
            .for_each(|state| state.set_max_requests(0));
        adopted
    }

    /// Returns the demands for a catalog's models, in the catalog's order. Demands without a holder
    /// are forgotten.
    pub fn demands(&self, catalog: &Catalog) -> Vec<Arc<Demand>> {
        reuse_or_make(
            &mut self.demands.lock(),
            catalog.models().iter().map(|model| &model.id),
            |_| Demand::default(),
        )
    }

    /// Closes idle connections, also those of accounts that only exchanges of older catalogs hold.
    pub fn sweep(&self, catalog: &Catalog, now: Instant) {
        for state in self.present_states() {
            let account = catalog
                .accounts()
                .binary_search_by(|account| account.id.cmp(&state.id))
                .ok();
            let account = account.and_then(|index| catalog.accounts().get(index));
            state.sweep(account.map(|account| account.fingerprint), now);
        }
    }

    /// Closes all idle connections of HTTP/1, since their descriptors are needed. Those of HTTP/2
    /// are few.
    pub fn close_idle(&self) {
        for state in self.present_states() {
            state.http1.sweep(None, Clock::now());
        }
    }

    fn present_states(&self) -> Vec<Arc<State>> {
        let states = self.states.lock();
        states.values().filter_map(Weak::upgrade).collect()
    }

    /// Returns the number of accounts whose state is held.
    pub fn held_accounts(&self) -> usize {
        self.states
            .lock()
            .values()
            .filter(|state| state.strong_count() > 0)
            .count()
    }
}

/// Returns the held values of these ids, in their order, and makes those that are missing. Values
/// without a holder are forgotten.
fn reuse_or_make<'i, T>(
    held: &mut HashMap<Arc<str>, Weak<T>>,
    ids: impl Iterator<Item = &'i Arc<str>>,
    make: impl Fn(Arc<str>) -> T,
) -> Vec<Arc<T>> {
    let mut adopted = Vec::new();
    for id in ids {
        let known = held.get(id).and_then(Weak::upgrade);
        let one = known.unwrap_or_else(|| Arc::new(make(id.clone())));
        adopted.push((id.clone(), one));
    }
    held.retain(|_, one| one.strong_count() > 0);
    held.extend(
        adopted
            .iter()
            .map(|(id, one)| (id.clone(), Arc::downgrade(one))),
    );
    adopted.into_iter().map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_is_hard_and_places_come_back() {
        let state = Arc::new(State::new("a".into()));
        state.set_max_requests(2);
        let first = state.admit();
        let second = state.admit();
        assert!(first.is_some() && second.is_some() && state.admit().is_none());
        drop(first);
        assert_eq!(state.in_flight(), 1);
        assert!(state.admit().is_some());
        state.set_max_requests(usize::MAX);
        assert!(state.admit().is_some());
        drop(second);
        assert_eq!(state.in_flight(), 0);
    }

    #[test]
    fn what_was_asked_is_not_kept_without_end() {
        let state = State::new("a".into());
        let old = state.lasting_health(&"old".into(), Endpoint::Chat);
        state
            .targets
            .lock()
            .lasting
            .resize_with(MOST_ASKED, || ("old".into(), old.clone()));
        state.lasting_health(&"new".into(), Endpoint::Chat);
        let names: Vec<_> = state
            .all_asked()
            .into_iter()
            .map(|(model, _)| model)
            .collect();
        assert_eq!(names, ["new".into()] as [Arc<str>; 1]);
        assert!(
            Arc::ptr_eq(&state.lasting_health(&"old".into(), Endpoint::Chat), &old),
            "it runs still"
        );
    }

    #[test]
    fn each_kind_of_endpoint_has_its_health() {
        let (state, model, now) = (State::new("a".into()), "m".into(), Instant::now());
        let [chat, responses] =
            [Endpoint::Chat, Endpoint::Responses].map(|kind| state.target_health(&model, kind));
        let setback = failure::Setback {
            class: Class::Refused,
            retry_after: None,
        };
        for _ in 0..failure::REFUSALS_IN_A_ROW {
            let admitted = responses.admit(0, true, false, now);
            assert!(
                admitted
                    .map(|mut attempt| attempt.record_failure(setback, false, Duration::ZERO, now))
                    .is_ok()
            );
        }
        assert!(responses.rest(now).is_some() && chat.rest(now).is_none());
        assert!(
            Arc::ptr_eq(
                &state.target_health(&model, Endpoint::Responses),
                &responses
            ),
            "it is found again"
        );
        assert_eq!(
            (&*chat.name(&model), &*responses.name(&model)),
            ("m", "m (responses)")
        );
        state.reset();
        assert_eq!(responses.rest(now), None);
    }

    #[test]
    fn a_credential_another_endpoint_takes_is_good() {
        let (state, model, now) = (State::new("a".into()), "m".into(), Instant::now());
        let [chat, responses] =
            [Endpoint::Chat, Endpoint::Responses].map(|kind| state.target_health(&model, kind));
        let status = |status| Failure::Status {
            status,
            seen: status,
            error: Box::default(),
            retry_after: None,
        };
        let admitted = |health: &Arc<TargetHealth>| {
            health
                .admit(0, true, false, now)
                .unwrap_or_else(|_| panic!("kept away"))
        };
        let class = |number, kind, at| state.class_of(&status(number), kind, at);
        assert_eq!(
            class(401, Endpoint::Responses, now),
            Class::Credential,
            "nothing is known of chat"
        );
        admitted(&chat).record_answer(false, Duration::ZERO, now);
        assert_eq!(class(401, Endpoint::Responses, now), Class::Refused);
        assert_eq!(
            class(402, Endpoint::Responses, now),
            Class::Credential,
            "money is for all kinds"
        );
        assert_eq!(class(401, Endpoint::Chat, now), Class::Credential);
        assert_eq!(
            class(401, Endpoint::Responses, now + Duration::from_secs(3600)),
            Class::Credential
        );
        let setback = failure::Setback {
            class: Class::Credential,
            retry_after: None,
        };
        admitted(&chat).record_failure(setback, false, Duration::ZERO, now);
        assert_eq!(class(401, Endpoint::Responses, now), Class::Credential);
        admitted(&responses).record_answer(false, Duration::ZERO, now);
        assert_eq!(class(401, Endpoint::Chat, now), Class::Refused);
        // Both worked, and then the key dies.
        [&chat, &responses]
            .into_iter()
            .for_each(|health| _ = admitted(health).record_answer(false, Duration::ZERO, now));
        assert_eq!(class(401, Endpoint::Responses, now), Class::Refused);
        assert_eq!(class(401, Endpoint::Chat, now), Class::Credential);
        admitted(&responses).record_answer(false, Duration::ZERO, now);
        assert_eq!(class(401, Endpoint::Chat, now), Class::Refused);
        [chat, responses]
            .iter()
            .for_each(|health| health.forget_failures());
        assert_eq!(
            class(401, Endpoint::Chat, now),
            Class::Credential,
            "it may be another credential"
        );
    }

    #[test]
    fn a_cap_holds_under_a_crowd() {
        let state = Arc::new(State::new("a".into()));
        state.set_max_requests(3);
        let most = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if let Some(permit) = state.admit() {
                            most.fetch_max(state.in_flight(), Ordering::AcqRel);
                            drop(permit);
                        }
                    }
                });
            }
        });
        assert!(most.load(Ordering::Acquire) <= 3);
        assert_eq!(state.in_flight(), 0);
    }
}
