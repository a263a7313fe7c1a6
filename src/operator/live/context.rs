//! A [`LiveContext`] is when somebody looked, and the catalog that was live then.

use crate::account::condition::{AccountSigns, AccountState, Reason};
use crate::live::Snapshot;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The positions of the keys of each caller of which something is counted, by the caller's id.
pub(super) type UsedKeys = HashMap<Arc<str>, Vec<usize>>;

/// The moment of a look.
pub(super) struct LiveContext {
    pub(super) now: Instant,
    pub(super) clock: SystemTime,
    /// The moment in milliseconds of Unix time.
    pub(super) ms: u64,
    /// The time for which the process has served.
    pub(super) up: Duration,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) used_keys: UsedKeys,
    /// The accounts, in the order of the catalog.
    pub(super) accounts: Vec<LiveAccount>,
    /// The addresses of the targets that several models have.
    pub(super) shared: HashSet<usize>,
}

/// An account at the moment of a look.
pub(super) struct LiveAccount {
    pub(super) signs: AccountSigns,
    pub(super) state: AccountState,
    pub(super) reason: Option<Reason>,
}

impl LiveContext {
    /// Checks all accounts.
    pub(super) fn accounts(snapshot: &Snapshot, now: Instant) -> Vec<LiveAccount> {
        let accounts = snapshot.ready_accounts.iter().zip(snapshot.targets()).map(
            |(ready_account, targets)| {
                let signs = ready_account
                    .state
                    .signs(ready_account.account.enabled, now);
                let (state, reason) =
                    signs.account(targets.iter().map(|(_, target)| target.signs(now)));
                LiveAccount {
                    signs,
                    state,
                    reason,
                }
            },
        );
        accounts.collect()
    }

    /// Finds the addresses of the targets that several models have.
    pub(super) fn shared(snapshot: &Snapshot) -> HashSet<usize> {
        let (mut seen, mut shared) = (HashSet::new(), HashSet::new());
        for health in snapshot
            .routes
            .iter()
            .flat_map(|route| &route.healths)
            .flatten()
            .map(|health| Arc::as_ptr(health).addr())
        {
            if !seen.insert(health) {
                shared.insert(health);
            }
        }
        shared
    }
}
