//! The token of an account that signs for one: kept while it is good, fetched anew before it is
//! not, by one exchange at a time.

use arc_swap::ArcSwapOption;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard};

use crate::base::secret::Secret;

/// From here on one exchange fetches a new one, while the others go on with the old.
const EARLY: Duration = Duration::from_secs(300);
/// With less than this left a token is not used: the request must arrive with it.
const LATE: Duration = Duration::from_secs(30);

/// After a failure nobody asks again for so long.
const PAUSE: Duration = Duration::from_secs(1);
/// Nor, while the old one is still good, for so long.
const EARLY_PAUSE: Duration = Duration::from_secs(15);

/// A place for one token.
#[derive(Default)]
pub struct Tokens {
    present: ArcSwapOption<Present>,
    failed: ArcSwapOption<Failed>,
    fetching: Mutex<()>,
}

struct Failed {
    at: Instant,
    fingerprint: u64,
}

struct Present {
    token: Secret,
    until: Instant,
    /// Of the settings that it was fetched with.
    fingerprint: u64,
}

/// What to do for a token.
pub enum Turn<'t> {
    /// Nothing: here it is.
    Take(Secret),
    /// Nothing: there was none a moment ago.
    Pause,
    /// Fetch one, and [`put`](Tokens::put) it. If that fails, the old one may still be good.
    Fetch(MutexGuard<'t, ()>, Option<Secret>),
}

impl Tokens {
    /// Returns a good token, or the turn to fetch one; waits while another exchange fetches the
    /// first.
    pub async fn turn(&self, fingerprint: u64) -> Turn<'_> {
        if let Some((token, left)) = self.good(fingerprint) {
            if left > EARLY || self.failed_within(fingerprint, EARLY_PAUSE) {
                return Turn::Take(token);
            }
            return match self.fetching.try_lock() {
                Ok(turn) => Turn::Fetch(turn, Some(token)),
                Err(_) => Turn::Take(token),
            };
        }
        let turn = self.fetching.lock().await;
        match self.good(fingerprint) {
            Some((token, _)) => Turn::Take(token),
            // Whoever waited shares the failure of the one that was waited for.
            None if self.failed_within(fingerprint, PAUSE) => Turn::Pause,
            None => Turn::Fetch(turn, None),
        }
    }

    /// Keeps a new token.
    pub fn put(&self, token: Secret, good_for: Duration, fingerprint: u64) {
        self.present.store(Some(Arc::new(Present { token, until: Instant::now() + good_for, fingerprint })));
    }

    /// Notes that nobody issued a token.
    pub fn failed(&self, fingerprint: u64) {
        self.failed.store(Some(Arc::new(Failed { at: Instant::now(), fingerprint })));
    }

    /// Returns the token that goes out, for whoever must keep it out of a text.
    pub fn present(&self) -> Option<Secret> {
        self.present.load().as_ref().map(|present| present.token.clone())
    }

    fn failed_within(&self, fingerprint: u64, time: Duration) -> bool {
        self.failed
            .load()
            .as_ref()
            .is_some_and(|failed| failed.fingerprint == fingerprint && failed.at.elapsed() < time)
    }

    /// Forgets the token: the upstream does not take it any more.
    pub fn forget(&self) {
        self.present.store(None);
    }

    fn good(&self, fingerprint: u64) -> Option<(Secret, Duration)> {
        let present = self.present.load();
        let present = present.as_ref().filter(|present| present.fingerprint == fingerprint)?;
        let left = present.until.saturating_duration_since(Instant::now());
        (left > LATE).then(|| (present.token.clone(), left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_fetches_and_the_others_take() {
        let tokens = Tokens::default();
        let Turn::Fetch(turn, None) = tokens.turn(1).await else { panic!("nothing is there yet") };
        let mut second = std::pin::pin!(tokens.turn(1));
        let waits = std::future::poll_fn(|cx| std::task::Poll::Ready(second.as_mut().poll(cx).is_pending())).await;
        assert!(waits);
        tokens.put(Secret::new("t1"), Duration::from_secs(3600), 1);
        drop(turn);
        assert!(matches!(second.await, Turn::Take(token) if token.expose() == "t1"));
        assert!(matches!(tokens.turn(2).await, Turn::Fetch(_, None)), "another credential");
        tokens.forget();
        assert!(matches!(tokens.turn(1).await, Turn::Fetch(_, None)));
    }

    #[tokio::test]
    async fn a_failure_is_shared_by_those_who_waited_for_it() {
        let tokens = Tokens::default();
        let Turn::Fetch(turn, None) = tokens.turn(1).await else { panic!("nothing is there yet") };
        let mut second = std::pin::pin!(tokens.turn(1));
        let waits = std::future::poll_fn(|cx| std::task::Poll::Ready(second.as_mut().poll(cx).is_pending())).await;
        assert!(waits);
        tokens.failed(1);
        drop(turn);
        assert!(matches!(second.await, Turn::Pause));
        assert!(matches!(tokens.turn(2).await, Turn::Fetch(_, None)), "another credential may fare better");
        tokens.put(Secret::new("old"), Duration::from_secs(200), 1);
        assert!(matches!(tokens.turn(1).await, Turn::Take(_)), "the old one is good, and nobody asks again at once");
    }

    #[tokio::test]
    async fn a_token_that_ends_soon_is_fetched_anew_by_one_and_used_by_the_rest() {
        let tokens = Tokens::default();
        tokens.put(Secret::new("old"), Duration::from_secs(200), 1);
        let Turn::Fetch(turn, Some(old)) = tokens.turn(1).await else { panic!("it is early") };
        assert_eq!(old.expose(), "old");
        assert!(matches!(tokens.turn(1).await, Turn::Take(token) if token.expose() == "old"));
        drop(turn);
        tokens.put(Secret::new("older"), Duration::from_secs(20), 1);
        assert!(matches!(tokens.turn(1).await, Turn::Fetch(_, None)), "it would not last");
    }
}
