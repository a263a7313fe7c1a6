//! [`Tokens`] keeps the token of an account that signs for one. A token is kept while it is good.
//! One exchange at a time fetches a new one before the old one ends.

use crate::base::clock::Clock;
use arc_swap::ArcSwapOption;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard};

use super::failure::Failure;
use crate::base::secret::Secret;

/// With less than this left, one exchange fetches a new token, while the others use the old one.
const EARLY: Duration = Duration::from_secs(300);
/// With less than this left, a token is not used: the request must arrive with a valid one.
const LATE: Duration = Duration::from_secs(30);

/// The time after a failure in which no exchange fetches a token.
const PAUSE: Duration = Duration::from_secs(1);
/// The time after a failure in which the old token is still used.
const EARLY_PAUSE: Duration = Duration::from_secs(15);

/// The token of one account.
#[derive(Default)]
pub struct Tokens {
    present: ArcSwapOption<Present>,
    failed: ArcSwapOption<Failed>,
    fetching: Mutex<()>,
}

struct Failed {
    cause: Failure,
    failed_at: Instant,
    /// The fingerprint of the settings with which the token was asked for.
    fingerprint: u64,
}

struct Present {
    token: Secret,
    valid_until: Instant,
    /// The fingerprint of the settings with which it was fetched.
    fingerprint: u64,
}

/// The step that an exchange takes for a token.
pub enum Turn<'t> {
    /// Use this token.
    Take(Secret),
    /// Fail like this: no token could be fetched a moment ago.
    Pause(Failure),
    /// Fetch a token and [`put`](Tokens::put) it. If that fails, the old token may still be good.
    Fetch(MutexGuard<'t, ()>, Option<Secret>),
}

impl Tokens {
    /// Returns a good token, or the turn to fetch one. Waits while another exchange fetches the
    /// first token. `fingerprint` is that of the account's settings: only what came with the same
    /// settings counts.
    pub async fn turn(&self, fingerprint: u64) -> Turn<'_> {
        if let Some((token, left)) = self.usable_token(fingerprint) {
            if left > EARLY || self.failed_within(fingerprint, EARLY_PAUSE).is_some() {
                return Turn::Take(token);
            }
            return match self.fetching.try_lock() {
                Ok(turn) => Turn::Fetch(turn, Some(token)),
                Err(_) => Turn::Take(token),
            };
        }
        let turn = self.fetching.lock().await;
        if let Some((token, _)) = self.usable_token(fingerprint) {
            return Turn::Take(token);
        }
        // A request that waited shares the failure of the fetch that it waited for.
        match self.failed_within(fingerprint, PAUSE) {
            Some(failed) => Turn::Pause(failed.cause.clone()),
            None => Turn::Fetch(turn, None),
        }
    }

    /// Keeps a new token.
    pub fn put(&self, token: Secret, good_for: Duration, fingerprint: u64) {
        self.present.store(Some(Arc::new(Present {
            token,
            valid_until: Clock::now() + good_for,
            fingerprint,
        })));
    }

    /// Notes why no token could be fetched.
    pub fn record_failure(&self, cause: &Failure, fingerprint: u64) {
        // The end of one request's time means nothing for another request.
        let cause = if *cause == Failure::TotalTimeout {
            Failure::ConnectTimeout
        } else {
            cause.clone()
        };
        self.failed.store(Some(Arc::new(Failed {
            cause,
            failed_at: Clock::now(),
            fingerprint,
        })));
    }

    /// Returns the token that is in use, so that it can be kept out of texts.
    pub fn present(&self) -> Option<Secret> {
        self.present
            .load()
            .as_ref()
            .map(|present| present.token.clone())
    }

    fn failed_within(&self, fingerprint: u64, time: Duration) -> Option<Arc<Failed>> {
        self.failed.load_full().filter(|failed| {
            failed.fingerprint == fingerprint
                && Clock::now().saturating_duration_since(failed.failed_at) < time
        })
    }

    /// Forgets the token, since the upstream does not accept it any more.
    pub fn forget(&self) {
        self.present.store(None);
    }

    fn usable_token(&self, fingerprint: u64) -> Option<(Secret, Duration)> {
        let present = self.present.load();
        let present = present
            .as_ref()
            .filter(|present| present.fingerprint == fingerprint)?;
        let left = present.valid_until.saturating_duration_since(Clock::now());
        (left > LATE).then(|| (present.token.clone(), left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_fetches_and_the_others_take() {
        let tokens = Tokens::default();
        let Turn::Fetch(turn, None) = tokens.turn(1).await else {
            panic!("nothing is there yet")
        };
        let mut second = std::pin::pin!(tokens.turn(1));
        let waits = std::future::poll_fn(|cx| {
            std::task::Poll::Ready(second.as_mut().poll(cx).is_pending())
        })
        .await;
        assert!(waits);
        tokens.put(Secret::new("t1"), Duration::from_secs(3600), 1);
        drop(turn);
        assert!(matches!(second.await, Turn::Take(token) if token.expose() == "t1"));
        assert!(
            matches!(tokens.turn(2).await, Turn::Fetch(_, None)),
            "another credential"
        );
        tokens.forget();
        assert!(matches!(tokens.turn(1).await, Turn::Fetch(_, None)));
    }

    #[tokio::test]
    async fn a_failure_is_shared_by_all_who_waited() {
        let tokens = Tokens::default();
        let Turn::Fetch(turn, None) = tokens.turn(1).await else {
            panic!("nothing is there yet")
        };
        let mut second = std::pin::pin!(tokens.turn(1));
        let waits = std::future::poll_fn(|cx| {
            std::task::Poll::Ready(second.as_mut().poll(cx).is_pending())
        })
        .await;
        assert!(waits);
        let cause = Failure::Unreachable("the reason".to_owned());
        tokens.record_failure(&cause, 1);
        drop(turn);
        assert!(matches!(second.await, Turn::Pause(shared) if shared == cause));
        tokens.record_failure(&Failure::TotalTimeout, 1);
        assert!(
            matches!(tokens.turn(1).await, Turn::Pause(Failure::ConnectTimeout)),
            "others have time left"
        );
        assert!(
            matches!(tokens.turn(2).await, Turn::Fetch(_, None)),
            "another credential may fare better"
        );
        tokens.put(Secret::new("old"), Duration::from_secs(200), 1);
        assert!(
            matches!(tokens.turn(1).await, Turn::Take(_)),
            "the old one is good, and nobody asks again at once"
        );
    }

    #[tokio::test]
    async fn a_token_that_ends_soon_is_fetched_only_once() {
        let tokens = Tokens::default();
        tokens.put(Secret::new("old"), Duration::from_secs(200), 1);
        let Turn::Fetch(turn, Some(old)) = tokens.turn(1).await else {
            panic!("it is early")
        };
        assert_eq!(old.expose(), "old");
        assert!(matches!(tokens.turn(1).await, Turn::Take(token) if token.expose() == "old"));
        drop(turn);
        tokens.put(Secret::new("older"), Duration::from_secs(20), 1);
        assert!(
            matches!(tokens.turn(1).await, Turn::Fetch(_, None)),
            "it would not last"
        );
    }
}
