//! The listing of an account has the names of the models that its provider lists. Models whose id
//! is a pattern serve these names and no others.
//!
//! A list is foreign text: its names are bounded, and a name that could not be the id of a model is
//! left out. This module is pure: its caller passes in what is fetched, and when.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::{Account, name};
use crate::base::lock::Lock;

/// The most names of a list.
pub const MAX_NAMES: usize = 5_000;
/// The most bytes of a name.
const MAX_NAME_BYTES: usize = 200;
/// The pause after the first failure. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// The names that a provider lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedNames {
    /// The names, sorted.
    pub names: Vec<Box<str>>,
    /// The number of names that were left out.
    pub left_out: usize,
}

impl ListedNames {
    /// Takes the names that can be served.
    pub fn new(listed: impl IntoIterator<Item = String>) -> Self {
        let mut taken = Self::default();
        for name in listed {
            // Of a name that was no text, the provider's name is unknown.
            let is_text = !name.contains('\u{fffd}');
            if taken.names.len() < MAX_NAMES
                && name.len() <= MAX_NAME_BYTES
                && is_text
                && name::of_model(&name).is_ok()
            {
                taken.names.push(name.into());
            } else {
                taken.left_out += 1;
            }
        }
        taken.names.sort_unstable();
        taken.names.dedup();
        taken
    }

    /// Returns whether the provider lists a model. Ollama lists one without a tag as the latest.
    pub fn lists_model(&self, name: &str) -> bool {
        self.has(name) || self.has(&format!("{name}:latest"))
    }

    fn has(&self, name: &str) -> bool {
        self.names
            .binary_search_by(|listed| (**listed).cmp(name))
            .is_ok()
    }
}

/// The list of an account's provider, and how its fetches went. It outlives catalogs.
#[derive(Default)]
pub struct Listing(Lock<ListState>);

/// The state of a list.
#[derive(Debug, Clone, Default)]
pub struct ListState {
    /// The names; `None` if the list was never fetched.
    pub names: Option<Arc<ListedNames>>,
    /// The time of the fetch that the names are from.
    pub fetched: Option<SystemTime>,
    /// The last failure, if no fetch was good since.
    pub failure: Option<(SystemTime, String)>,
    failures: u32,
    /// The time of the next fetch; `None` is at once.
    next_fetch_at: Option<Instant>,
    /// The number of times that the names changed.
    changes: u64,
    /// The address that the list is from, and the fingerprint of the account's settings.
    source: (String, u64),
}

impl Listing {
    /// Returns what is known.
    pub fn state(&self) -> ListState {
        self.0.lock().clone()
    }

    /// Returns the names, if the list was ever fetched.
    pub fn names(&self) -> Option<Arc<ListedNames>> {
        self.0.lock().names.clone()
    }

    /// Returns whether the list is known and has a name.
    pub fn has(&self, name: &str) -> bool {
        self.0
            .lock()
            .names
            .as_ref()
            .is_some_and(|names| names.has(name))
    }

    /// Returns whether the list has a name, or was never fetched.
    pub fn may_have(&self, name: &str) -> bool {
        self.0
            .lock()
            .names
            .as_ref()
            .is_none_or(|names| names.has(name))
    }

    /// Returns the number of times that the names changed.
    pub fn changes(&self) -> u64 {
        self.0.lock().changes
    }

    /// Returns whether the list is to be fetched now.
    pub fn is_due(&self, now: Instant) -> bool {
        self.0.lock().next_fetch_at.is_none_or(|due| due <= now)
    }

    /// Notes that a catalog has the account. The list of another address is forgotten. With another
    /// credential, the list is fetched at once.
    pub fn apply_settings(&self, account: &Account) {
        let source = (listing_source(account), account.fingerprint);
        let mut state = self.0.lock();
        if state.source.0 != source.0 {
            *state = ListState {
                changes: state.changes + 1,
                ..ListState::default()
            };
        }
        if state.source != source {
            (state.source, state.next_fetch_at) = (source, None);
        }
    }

    /// Returns whether the newest catalog has the account with these settings.
    pub fn is_of(&self, account: &Account) -> bool {
        self.0.lock().source == (listing_source(account), account.fingerprint)
    }

    /// Takes a list that was fetched at this time. The next fetch is at `due`; `None` is at once.
    pub fn store_names(&self, names: Arc<ListedNames>, fetched: SystemTime, due: Option<Instant>) {
        let mut state = self.0.lock();
        if state.names.as_ref() != Some(&names) {
            state.names = Some(names);
            state.changes += 1;
        }
        (
            state.fetched,
            state.failure,
            state.failures,
            state.next_fetch_at,
        ) = (Some(fetched), None, 0, due);
    }

    /// Notes that a fetch failed. The next one comes after a pause that grows, up to `max_pause`.
    pub fn record_failure(
        &self,
        why: String,
        failed_at: SystemTime,
        now: Instant,
        max_pause: Duration,
    ) {
        let mut state = self.0.lock();
        let pause = FIRST_PAUSE
            .saturating_mul(1 << state.failures.min(16))
            .min(max_pause);
        (state.failure, state.failures, state.next_fetch_at) = (
            Some((failed_at, why)),
            state.failures + 1,
            Some(now + pause),
        );
    }
}

/// Returns the address of an account's list, with its dialect. It has nothing secret.
pub fn listing_source(account: &Account) -> String {
    format!("{} {}", account.dialect.protocol.name, account.base.url())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[&str]) -> Arc<ListedNames> {
        Arc::new(ListedNames::new(
            names.iter().map(|name| (*name).to_owned()),
        ))
    }

    #[test]
    fn a_list_is_bounded_and_its_names_are_plain() {
        let long = "x".repeat(201);
        let names = listed(&[
            "b",
            "a",
            "b",
            "",
            "a b",
            "a\nb",
            "a\u{7}",
            "../x",
            "x?y",
            "%2e",
            "ä",
            "a\u{fffd}",
            &long,
            &long[1..],
        ]);
        assert_eq!(
            names.names,
            ["a".into(), "b".into(), long[1..].into()] as [Box<str>; 3]
        );
        assert_eq!(names.left_out, 10);
        let many = ListedNames::new((0..6_000).map(|n| format!("m{n}")));
        assert_eq!((many.names.len(), many.left_out), (MAX_NAMES, 1_000));
    }

    #[test]
    fn names_survive_failed_fetches_and_pauses_grow() {
        let (listing, at, now) = (Listing::default(), SystemTime::UNIX_EPOCH, Instant::now());
        let after = |seconds| now + Duration::from_secs(seconds);
        assert!(listing.is_due(now) && listing.may_have("a") && !listing.has("a"));
        listing.store_names(listed(&["a"]), at, Some(after(60)));
        assert!(!listing.is_due(after(59)) && listing.is_due(after(60)));
        assert!(listing.has("a") && !listing.may_have("b"));
        let longest = Duration::from_secs(60);
        for (pause, nth) in [5, 10, 20, 40, 60, 60].into_iter().zip(1..) {
            listing.record_failure("no".to_owned(), at, now, longest);
            assert!(
                !listing.is_due(after(pause - 1)) && listing.is_due(after(pause)),
                "{nth}"
            );
        }
        assert!(listing.has("a") && listing.state().failure.is_some_and(|(_, why)| why == "no"));
        let changes = listing.changes();
        listing.store_names(listed(&["a"]), at, None);
        assert_eq!(
            (listing.changes(), listing.state().failure),
            (changes, None),
            "nothing is new"
        );
        listing.store_names(listed(&["a", "b"]), at, None);
        assert!(listing.changes() > changes && listing.is_due(now));
    }
}
