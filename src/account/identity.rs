//! An [`Identity`] keeps the credential of an account that obtains one anew again and again: a
//! token, or temporary keys. A task in the background fetches it; requests only take it.
//!
//! Lives count on the monotonic clock. **Invariant:** what came with other settings of the account
//! than the present ones is never given to a request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use tokio::sync::Notify;

use super::failure::Failure;
use crate::base::clock::Clock;
use crate::base::lock::Lock;
use crate::base::secret::Secret;
use crate::signers::courier::{Credential, Obtained};
use crate::signers::sigv4;

/// The longest pause between two tries after failures.
const MAX_RETRY: Duration = Duration::from_secs(30);
/// The shortest pause before a source is asked again, whatever it gave.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
/// The shortest pause if a source gives again what it gave before.
const MIN_PAUSE: Duration = Duration::from_secs(30);
/// The time before its end in which a credential is not used: the request must arrive with a valid
/// one. It is less for a short life.
const LATE: Duration = Duration::from_secs(30);
/// An end that is later by less than this is the same end: answers tell whole seconds.
const SAME_END: Duration = Duration::from_secs(3);
/// A credential that the upstream refuses is fetched anew, but only once in this time.
const FORGET_INTERVAL: Duration = Duration::from_secs(30);
/// With less than this left, a credential should have been replaced.
const SOON: Duration = Duration::from_secs(120);

/// The credential of one account.
#[derive(Default)]
pub struct Identity {
    present: ArcSwapOption<Present>,
    progress: Lock<Progress>,
    changed: Notify,
}

/// A credential that is in use.
pub struct Present {
    /// The credential.
    pub credential: Credential,
    /// The signer of requests, if the credential is a key of AWS.
    pub signer: Option<sigv4::Signer>,
    /// Whom the provider takes us for. It may be empty.
    pub name: String,
    /// The time at which it was obtained.
    pub since: Instant,
    /// The time at which the credential ends.
    pub until: Instant,
    /// The secrets of the credential before it, which a late answer may still quote.
    pub retired: Vec<Secret>,
    /// The fingerprint of the settings with which it was fetched.
    fingerprint: u64,
}

impl Present {
    /// Returns what no text may show.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let retired = self.retired.iter().map(Secret::expose);
        self.credential.secrets().into_iter().chain(retired)
    }

    fn owned_secrets(&self) -> Vec<Secret> {
        let secrets = self.credential.secrets().into_iter();
        secrets.map(Secret::new).collect()
    }

    /// Returns whether a request can still use it.
    fn is_usable(&self, fingerprint: u64, now: Instant) -> bool {
        let late = LATE.min(self.until.saturating_duration_since(self.since) / 20);
        self.fingerprint == fingerprint && now + late < self.until
    }
}

/// What is known of the fetches.
#[derive(Default)]
struct Progress {
    /// The fingerprint of the settings that the rest is about.
    fingerprint: u64,
    /// The time of the next fetch; `None` = at once.
    due: Option<Instant>,
    failing: Option<Failing>,
    /// The time at which the credential was last forgotten, since the upstream refused it.
    forgotten: Option<Instant>,
    /// The secrets of the credential that was forgotten.
    retired: Vec<Secret>,
}

/// Fetches that failed since the last good one.
#[derive(Debug, Clone)]
pub struct Failing {
    /// The last failure.
    pub cause: Failure,
    /// The reason in words, without secrets.
    pub why: String,
    /// The time of the first failure.
    pub since: Instant,
    /// The number of failures.
    pub times: u32,
}

/// What operators see of an identity.
#[derive(Default, Clone)]
pub struct IdentityState {
    /// The credential in use, if it has not ended.
    pub present: Option<Arc<Present>>,
    /// The failures since the last good fetch.
    pub failing: Option<Failing>,
}

impl IdentityState {
    /// Returns whether the credential ends soon, though the source should have given a new one.
    pub fn ends_soon(&self, now: Instant) -> bool {
        self.present.as_ref().is_some_and(|present| {
            let left = present.until.saturating_duration_since(now);
            let life = present.until.saturating_duration_since(present.since);
            left < SOON && left < life / 6
        })
    }
}

impl Identity {
    /// Returns a credential that a request can use. Waits for the first one until `due`.
    /// `fingerprint` is that of the account's settings.
    pub async fn wait_for(
        &self,
        fingerprint: u64,
        due: tokio::time::Instant,
    ) -> Result<Arc<Present>, Failure> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(present) = self.usable(fingerprint) {
                return Ok(present);
            }
            if let Some(failure) = self.failure(fingerprint) {
                return Err(failure);
            }
            if tokio::time::timeout_at(due, changed).await.is_err() {
                return Err(Failure::ConnectTimeout);
            }
        }
    }

    /// Returns a credential that a request can use now.
    pub fn usable(&self, fingerprint: u64) -> Option<Arc<Present>> {
        let present = self.present.load();
        let is_usable = |present: &&Arc<Present>| present.is_usable(fingerprint, Clock::now());
        present.as_ref().filter(is_usable).cloned()
    }

    /// Returns the failure of requests, if no credential can be obtained now.
    fn failure(&self, fingerprint: u64) -> Option<Failure> {
        let progress = self.progress.lock();
        let failing = progress.failing.as_ref();
        let failing = failing.filter(|_| progress.fingerprint == fingerprint)?;
        let present = self.present.load();
        let had_one = present
            .as_ref()
            .is_some_and(|present| present.fingerprint == fingerprint);
        Some(match had_one {
            // An account whose credential has ended is as one whose key is refused.
            true => Failure::Unsigned(format!(
                "the credential has ended, and no new one came: {}",
                failing.why
            )),
            false => failing.cause.clone(),
        })
    }

    /// Returns whether a credential is to be fetched with these settings.
    pub fn is_due(&self, fingerprint: u64, now: Instant) -> bool {
        let progress = self.progress.lock();
        progress.fingerprint != fingerprint || progress.due.is_none_or(|due| due <= now)
    }

    /// Keeps a new credential. Returns whether fetches failed before.
    pub fn record(
        &self,
        obtained: Obtained,
        signer: Option<sigv4::Signer>,
        fingerprint: u64,
    ) -> bool {
        let now = Clock::now();
        let until = now + obtained.life;
        let mut progress = self.progress.lock();
        let old = self.present.load_full();
        let retired = match &old {
            Some(old) if old.credential == obtained.credential => old.retired.clone(),
            Some(old) => old.owned_secrets(),
            None => std::mem::take(&mut progress.retired),
        };
        let old = old.filter(|old| old.fingerprint == fingerprint && old.until > now);
        let repeats = old.as_ref().is_some_and(|old| {
            old.credential == obtained.credential || until < old.until + SAME_END
        });
        let since = match &old {
            Some(old) if old.credential == obtained.credential => old.since,
            Some(_) | None => now,
        };
        let pause = match repeats {
            true => pause_before_repeat(until.saturating_duration_since(now)),
            false => obtained.life * 4 / 5,
        };
        let was_failing = progress.failing.take().is_some() && progress.fingerprint == fingerprint;
        progress.fingerprint = fingerprint;
        // A source that gives what has ended already is not asked without a pause.
        progress.due = Some(now + pause.max(LEAST_PAUSE));
        self.present.store(Some(Arc::new(Present {
            credential: obtained.credential,
            signer,
            name: obtained.identity,
            since,
            until,
            retired,
            fingerprint,
        })));
        drop(progress);
        self.changed.notify_waiters();
        was_failing
    }

    /// Notes why no credential was obtained. Returns whether it is the first failure in a row.
    pub fn record_failure(&self, cause: Failure, why: String, fingerprint: u64) -> bool {
        let now = Clock::now();
        let mut progress = self.progress.lock();
        let before = progress.failing.take();
        let before = before.filter(|_| progress.fingerprint == fingerprint);
        let times = before
            .as_ref()
            .map_or(1, |failing| failing.times.saturating_add(1));
        progress.fingerprint = fingerprint;
        progress.failing = Some(Failing {
            cause,
            why,
            since: before.as_ref().map_or(now, |failing| failing.since),
            times,
        });
        progress.due = Some(now + retry_pause(times, fastrand::f64()));
        drop(progress);
        self.changed.notify_waiters();
        before.is_none()
    }

    /// Returns the credential that is in use, so that it can be kept out of texts.
    pub fn present(&self) -> Option<Arc<Present>> {
        self.present.load_full()
    }

    /// Returns what operators see, for these settings.
    pub fn state(&self, fingerprint: u64, now: Instant) -> IdentityState {
        let present = self.present.load_full();
        let progress = self.progress.lock();
        let is_present = progress.fingerprint == fingerprint;
        IdentityState {
            present: present
                .filter(|present| present.fingerprint == fingerprint && present.until > now),
            failing: progress.failing.clone().filter(|_| is_present),
        }
    }

    /// Asks the source at once, if it failed last: the operator has mended something.
    pub fn retry(&self) {
        let mut progress = self.progress.lock();
        if progress.failing.take().is_some() {
            progress.due = None;
        }
    }

    /// Forgets the credential, since the upstream does not accept it any more. If the upstream
    /// refuses the next one as soon, the fault is not its age: then it stays.
    pub fn forget(&self) {
        let Some(present) = self.present.load_full() else {
            return;
        };
        let now = Clock::now();
        let mut progress = self.progress.lock();
        let last = progress.forgotten;
        if last.is_some_and(|last| now.saturating_duration_since(last) < FORGET_INTERVAL) {
            return;
        }
        progress.forgotten = Some(now);
        progress.due = None;
        progress.retired = present.owned_secrets();
        self.present.store(None);
    }
}

/// Returns the pause before a source is asked again that gave nothing new: half of the time that is
/// left. Shortly before the end it is less, so that the end is not slept through.
fn pause_before_repeat(left: Duration) -> Duration {
    let latest = (left / 2).max(left.saturating_sub(MIN_PAUSE));
    (left / 2)
        .max(MIN_PAUSE)
        .min(latest)
        .max(Duration::from_secs(5))
}

/// Returns the pause after so many failures in a row: it doubles, and a part of it is random, so
/// that many gateways do not ask together.
fn retry_pause(times: u32, random: f64) -> Duration {
    let pause = Duration::from_secs(1 << times.saturating_sub(1).min(5));
    pause.min(MAX_RETRY).mul_f64(0.5 + random / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str, life: u64) -> Obtained {
        Obtained {
            credential: Credential::Token(Secret::new(text)),
            identity: "app".to_owned(),
            life: Duration::from_secs(life),
        }
    }

    fn text(present: &Present) -> String {
        present.credential.secrets().concat()
    }

    /// Returns the seconds until the next fetch, rounded.
    fn pause(identity: &Identity) -> u64 {
        let due = identity.progress.lock().due.expect("a time");
        let left = due.saturating_duration_since(Clock::now());
        (left + Duration::from_millis(500)).as_secs()
    }

    #[tokio::test]
    async fn a_request_waits_for_the_first_credential() {
        let identity = Identity::default();
        let soon = tokio::time::Instant::now() + Duration::from_secs(60);
        let mut waiting = std::pin::pin!(identity.wait_for(1, soon));
        let waits = std::future::poll_fn(|cx| {
            std::task::Poll::Ready(waiting.as_mut().poll(cx).is_pending())
        })
        .await;
        assert!(waits && identity.is_due(1, Clock::now()));
        identity.record(token("t", 3600), None, 1);
        assert_eq!(
            waiting.await.map(|present| text(&present)),
            Ok("t".to_owned())
        );
        assert!(identity.usable(2).is_none(), "of other settings");
        assert!(identity.is_due(2, Clock::now()) && !identity.is_due(1, Clock::now()));
        let past = tokio::time::Instant::now();
        assert_eq!(
            identity.wait_for(2, past).await.map(drop),
            Err(Failure::ConnectTimeout)
        );
    }

    #[test]
    fn a_new_credential_is_due_at_four_fifths() {
        let identity = Identity::default();
        identity.record(token("a", 3600), None, 1);
        assert_eq!(pause(&identity), 2880);
        identity.record(token("b", 7200), None, 1);
        assert_eq!(pause(&identity), 5760);
    }

    #[test]
    fn a_source_that_repeats_itself_is_asked_again() {
        for (second, expected) in [
            (token("a", 720), 360),
            (token("b", 720), 360),
            (token("a", 9000), 4500),
        ] {
            let identity = Identity::default();
            identity.record(token("a", 720), None, 1);
            assert!(!identity.record(second, None, 1), "no failure");
            assert_eq!(pause(&identity), expected);
        }
        for (left, expected) in [(600, 300), (60, 30), (50, 25), (12, 6), (2, 5)] {
            assert_eq!(
                pause_before_repeat(Duration::from_secs(left)),
                Duration::from_secs(expected)
            );
        }
    }

    #[test]
    fn a_failure_keeps_the_old_credential() {
        let identity = Identity::default();
        identity.record(token("a", 3600), None, 1);
        let cause = Failure::Reset;
        assert!(identity.record_failure(cause.clone(), "why".to_owned(), 1));
        assert!(!identity.record_failure(cause, "why".to_owned(), 1));
        let state = identity.state(1, Clock::now());
        assert!(state.present.is_some() && !state.ends_soon(Clock::now()));
        assert_eq!(state.failing.map(|failing| failing.times), Some(2));
        assert!(identity.usable(1).is_some());
        assert!(
            identity.record(token("b", 3600), None, 1),
            "it failed before"
        );
        assert!(identity.state(1, Clock::now()).failing.is_none());
    }

    #[tokio::test]
    async fn after_its_end_a_credential_is_a_refused_one() {
        let identity = Identity::default();
        let now = tokio::time::Instant::now();
        identity.record_failure(Failure::Reset, "why".to_owned(), 1);
        assert_eq!(
            identity.wait_for(1, now).await.map(drop),
            Err(Failure::Reset)
        );
        // Its life is so short that it is over at once.
        let mut obtained = token("a", 0);
        obtained.life = Duration::from_nanos(1);
        identity.record(obtained, None, 1);
        identity.record_failure(Failure::Reset, "why".to_owned(), 1);
        let failure = identity.wait_for(1, now).await.map(drop);
        let why = "the credential has ended, and no new one came: why";
        assert_eq!(failure, Err(Failure::Unsigned(why.to_owned())));
    }

    #[test]
    fn a_refused_credential_is_forgotten_once_a_while() {
        let identity = Identity::default();
        identity.record(token("a", 3600), None, 1);
        identity.forget();
        assert!(identity.usable(1).is_none() && identity.is_due(1, Clock::now()));
        identity.record(token("b", 3600), None, 1);
        identity.forget();
        let usable = identity.usable(1).expect("the upstream refuses them all");
        assert_eq!(usable.secrets().collect::<Vec<_>>(), ["b", "a"]);
    }

    #[test]
    fn pauses_after_failures_grow_to_a_bound() {
        let seconds = |times, random| retry_pause(times, random).as_secs_f64();
        assert_eq!((seconds(1, 0.0), seconds(1, 1.0)), (0.5, 1.0));
        assert_eq!((seconds(3, 1.0), seconds(99, 1.0)), (4.0, 30.0));
    }
}
