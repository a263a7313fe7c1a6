//! Thoughts are what a model wants back with the next turn. They are kept in the vault, and in the
//! store that instances share. Thoughts that another instance has kept are fetched from the store
//! before the first attempt, if they arrive in time.

use super::{Producer, Request};
use crate::base::clock::Clock;
use crate::exchange::admission::{self, EarlierThoughts};
use crate::plan::Candidate;
use crate::seal::{AccountSeal, Seals};
use dialects::Family;
use dialects::neutral::answer::Kept;
use dialects::neutral::seal::Sealed;
use std::cell::RefCell;
use std::sync::Arc;

impl Request {
    /// Returns the seal of the thoughts that the caller carries for a candidate.
    pub(super) fn seal_of(&self, seals: &Arc<Seals>, candidate: &Candidate) -> Option<AccountSeal> {
        let family = candidate.family()?;
        Some(AccountSeal::new(
            seals,
            &self.rights.caller,
            family,
            candidate.account(),
        ))
    }
}

impl Producer<'_> {
    /// Keeps the thoughts of an answer.
    pub(super) fn keep(&self, kept: Vec<Kept>) {
        let Some(family) = self.candidate().and_then(Candidate::family) else {
            return;
        };
        for Kept { call, thoughts } in kept {
            if let Some(store) = &self.shared.store {
                store.keep_thoughts(&self.request.rights.key, family, &call, &thoughts);
            }
            self.shared.vault.put(
                &self.request.rights.key,
                (family, &call),
                thoughts,
                Clock::now(),
            );
        }
    }

    /// Returns the treatment of the thoughts that the caller carries.
    pub(super) fn sealed<'s>(&self, seal: Option<&'s AccountSeal>) -> Sealed<'s> {
        match seal {
            _ if self.no_thoughts => Sealed::LeftOut,
            Some(seal) => Sealed::Opened(seal),
            None => Sealed::Closed,
        }
    }

    /// Fetches the thoughts that belong to calls in the request and are not in the vault.
    pub(super) async fn fetch_missing_thoughts(&mut self) {
        let Some(store) = &self.shared.store else {
            return;
        };
        // Without calls nothing was kept.
        if !self
            .request
            .envelope
            .front
            .contents
            .may_call(&self.memory.body)
        {
            return;
        }
        let missing = self.missing();
        // The newest calls come first: the model goes on from them.
        let calls: Vec<(Family, &str)> = missing
            .iter()
            .rev()
            .map(|(family, call)| (*family, call.as_str()))
            .collect();
        for (index, thoughts) in store.find_thoughts(&self.request.rights.key, &calls).await {
            if let Some(call) = calls.get(index) {
                self.shared
                    .vault
                    .put(&self.request.rights.key, *call, thoughts, Clock::now());
            }
        }
    }

    /// Returns the calls whose thoughts the candidates would not find in the vault.
    fn missing(&self) -> Vec<(Family, String)> {
        let missing = RefCell::new(Vec::new());
        for family in Family::ALL {
            let of_family = |candidate: &&Candidate| candidate.family() == Some(family);
            let Some(candidate) = self.request.candidates.iter().find(of_family) else {
                continue;
            };
            // The candidate writes the request again when its turn comes, and any refusal counts
            // only then.
            let seal = self.request.seal_of(&self.shared.seals, candidate);
            let thoughts = EarlierThoughts {
                find_kept: &|call| {
                    let (vault, key) = (&self.shared.vault, &self.request.rights.key);
                    let found = vault.find(key, family, call, Clock::now());
                    if found.is_none() {
                        missing.borrow_mut().push((family, call.to_owned()));
                    }
                    found
                },
                sealed: self.sealed(seal.as_ref()),
            };
            drop(admission::write_request(
                candidate,
                self.callers_request(),
                thoughts,
            ));
        }
        missing.into_inner()
    }
}
