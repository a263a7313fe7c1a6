//! The keys of issuers, as they are known now. They outlive the catalog: an issuer whose settings
//! did not change keeps its keys.

use crate::base::clock::Clock;
use crate::base::hash::digest_parts;
use crate::base::lock::Lock;
use crate::base::secret::Secret;
use crate::catalog::Catalog;
use crate::catalog::identity::{Identity, KeyServer, KeySource};
use crate::identity::jwk::{KeyId, KeySet};
use arc_swap::ArcSwapOption;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{Notify, watch};

/// The time after which keys are fetched again.
pub const REFRESH: Duration = Duration::from_secs(600);
/// The time between two fetches that tokens with an unknown key lead to.
const UNKNOWN_KEY_PAUSE: Duration = Duration::from_secs(30);
/// The pause after a first failure. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The issuers of all identities that were ever live.
#[derive(Default)]
pub struct Issuers {
    by_identity: Lock<HashMap<Arc<str>, Arc<Issuer>>>,
    /// Wakes the task that fetches keys.
    pub wanted: Notify,
}

/// An issuer of tokens.
pub struct Issuer {
    /// The name of the identity.
    pub identity: Arc<str>,
    /// A hash of where the keys are, and of how they are fetched.
    pub source: [u8; 32],
    keys: ArcSwapOption<IssuerKeys>,
    fetches: Lock<Fetches>,
    ended: watch::Sender<u64>,
}

/// The keys of an issuer.
#[derive(Debug)]
pub struct IssuerKeys {
    /// The keys.
    pub set: Arc<KeySet>,
    /// The time at which they were fetched, by the wall clock: it also counts after a restart.
    pub fetched_at: SystemTime,
}

/// When keys are fetched, and why they could not be.
#[derive(Default)]
struct Fetches {
    due: Option<Instant>,
    /// The time of the last fetch that a token with an unknown key led to.
    asked_at: Option<Instant>,
    /// The time at which the fetch began that runs.
    running_since: Option<Instant>,
    failures: u32,
    trouble: Option<KeyTrouble>,
}

/// Why keys could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyTrouble {
    /// The time of the first failure since keys were last fetched.
    pub since: SystemTime,
    /// The reason of the last one.
    pub reason: String,
}

impl Issuers {
    /// Returns the issuers of a catalog's identities, in the catalog's order. `forget` is called
    /// with each issuer and key that no longer counts.
    pub fn adopt(
        &self,
        catalog: &Catalog,
        mut forget: impl FnMut(&str, KeyId),
    ) -> Vec<Arc<Issuer>> {
        let mut known = self.by_identity.lock();
        let issuers: Vec<Arc<Issuer>> = catalog
            .identities
            .iter()
            .map(|identity| {
                let source = source_digest(identity);
                let same = known.get(&identity.id);
                let same = same.filter(|issuer| issuer.source == source).cloned();
                let issuer = same.unwrap_or_else(|| Arc::new(Issuer::new(identity, source)));
                if let KeySource::File(keys) = &identity.key_source {
                    let gone = issuer.take_keys(keys.clone(), SystemTime::now());
                    gone.into_iter()
                        .for_each(|key| forget(&identity.rules.issuer, key));
                }
                issuer
            })
            .collect();
        *known = issuers
            .iter()
            .map(|issuer| (issuer.identity.clone(), issuer.clone()))
            .collect();
        drop(known);
        self.wanted.notify_one();
        issuers
    }
}

impl Issuer {
    fn new(identity: &Identity, source: [u8; 32]) -> Issuer {
        Issuer {
            identity: identity.id.clone(),
            source,
            keys: ArcSwapOption::default(),
            fetches: Lock::default(),
            ended: watch::Sender::new(0),
        }
    }

    /// Returns the keys, if any are known that are not too old.
    pub fn keys(&self, identity: &Identity) -> Option<Arc<IssuerKeys>> {
        let keys = self.keys.load_full()?;
        let is_file = matches!(identity.key_source, KeySource::File(_));
        let age = SystemTime::now()
            .duration_since(keys.fetched_at)
            .unwrap_or_default();
        (is_file || age <= identity.keys_stale).then_some(keys)
    }

    /// Returns the keys, however old they are.
    pub fn last_keys(&self) -> Option<Arc<IssuerKeys>> {
        self.keys.load_full()
    }

    /// Takes keys. Returns those that were there before and are not among them.
    pub fn take_keys(&self, set: Arc<KeySet>, fetched_at: SystemTime) -> Vec<KeyId> {
        let before = self.keys.swap(Some(Arc::new(IssuerKeys {
            set: set.clone(),
            fetched_at,
        })));
        before
            .map(|before| set.gone_since(&before.set).collect())
            .unwrap_or_default()
    }

    /// Returns whether keys are to be fetched now.
    pub fn is_due(&self, now: Instant) -> bool {
        self.fetches.lock().due.is_none_or(|due| due <= now)
    }

    /// Asks for a fetch, since a token has a key that is not known. Returns whether one comes: for
    /// all tokens together there is one in 30 seconds.
    pub fn ask_for_unknown_key(&self, now: Instant) -> bool {
        let mut fetches = self.fetches.lock();
        let is_late = fetches
            .asked_at
            .is_none_or(|asked| now.saturating_duration_since(asked) >= UNKNOWN_KEY_PAUSE);
        if is_late {
            fetches.asked_at = Some(now);
            fetches.due = Some(now);
        }
        is_late
    }

    /// Notes that a fetch begins, so that none begins beside it.
    pub fn begin_fetch(&self, now: Instant) {
        let mut fetches = self.fetches.lock();
        fetches.due = Some(now + REFRESH);
        fetches.running_since = Some(now);
    }

    /// Returns whether keys are being fetched.
    pub fn is_fetching(&self) -> bool {
        self.fetches.lock().running_since.is_some()
    }

    /// Notes that keys were fetched.
    pub fn note_fetched(&self, now: Instant) {
        let mut fetches = self.fetches.lock();
        let began = fetches.running_since.take();
        // A token that came during the fetch may have a key that is newer than what was fetched.
        let is_asked = fetches.asked_at > began;
        fetches.due = Some(if is_asked { now } else { now + spread(REFRESH) });
        fetches.failures = 0;
        fetches.trouble = None;
        drop(fetches);
        self.ended.send_modify(|fetches| *fetches += 1);
    }

    /// Notes why keys could not be fetched. Returns whether this is the first failure.
    pub fn note_failed(&self, now: Instant, reason: String) -> bool {
        let mut fetches = self.fetches.lock();
        let pause = FIRST_PAUSE.saturating_mul(1 << fetches.failures.min(5));
        fetches.due = Some(now + spread(pause.min(LONGEST_PAUSE)));
        fetches.failures += 1;
        fetches.running_since = None;
        let is_first = fetches.trouble.is_none();
        let since = fetches
            .trouble
            .as_ref()
            .map_or_else(SystemTime::now, |trouble| trouble.since);
        fetches.trouble = Some(KeyTrouble { since, reason });
        drop(fetches);
        self.ended.send_modify(|fetches| *fetches += 1);
        is_first
    }

    /// Returns why keys could not be fetched lately.
    pub fn trouble(&self) -> Option<KeyTrouble> {
        self.fetches.lock().trouble.clone()
    }

    /// Returns what tells the ends of fetches, as a number of them.
    pub fn watch_fetches(&self) -> watch::Receiver<u64> {
        self.ended.subscribe()
    }

    /// Returns the time on the gateway's clock.
    pub fn now() -> Instant {
        Clock::now()
    }
}

/// Returns a time that is up to a tenth shorter, so that several gateways do not ask together.
fn spread(time: Duration) -> Duration {
    time.mul_f64(1.0 - fastrand::f64() / 10.0)
}

/// Returns a hash of where an issuer's keys are, and of how they are fetched.
fn source_digest(identity: &Identity) -> [u8; 32] {
    let issuer = identity.rules.issuer.as_bytes();
    let KeySource::Server(server) = &identity.key_source else {
        return digest_parts([issuer, b"file"]);
    };
    let KeyServer {
        address,
        is_discovery,
        bearer,
        network,
    } = server;
    let address = format!("{}{} {is_discovery}", address.base.url(), address.query);
    let [proxy, user] = network.proxy.marks();
    let texts = [bearer.as_ref().map(Secret::expose), proxy, user];
    let texts = texts.map(|text| text.unwrap_or_default().as_bytes());
    let authority = network.ca.as_deref().unwrap_or_default();
    let parts = [issuer, address.as_bytes(), authority];
    digest_parts(parts.into_iter().chain(texts))
}
