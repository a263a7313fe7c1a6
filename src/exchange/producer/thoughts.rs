//! Thoughts are what a model wants back with the next turn. They are kept in the vault, and in the
//! store that instances share. Thoughts that another instance has kept are fetched from the store
//! before the first attempt, if they arrive in time.

use super::Producer;
use crate::exchange::admission;
use crate::plan::Candidate;
use dialects::Family;
use dialects::neutral::answer::Kept;
use std::cell::RefCell;
use std::time::Instant;

impl Producer<'_> {
    /// Keeps the thoughts of an answer.
    pub(super) fn keep(&self, kept: Vec<Kept>) {
        let Some(family) = self.candidate().and_then(|candidate| candidate.dialect().protocol.family) else {
            return;
        };
        for Kept { call, thoughts } in kept {
            if let Some(store) = &self.shared.store {
                store.keep(&self.request.key, family, &call, &thoughts);
            }
            self.shared.vault.put(&self.request.key, (family, &call), thoughts, Instant::now());
        }
    }

    /// Fetches the thoughts that belong to calls in the request and are not in the vault.
    pub(super) async fn recall(&mut self) {
        let Some(store) = &self.shared.store else { return };
        // Without calls nothing was kept.
        if !(self.request.envelope.front.may_have_calls)(&self.memory.body) {
            return;
        }
        let missing = self.missing();
        // The newest calls come first: the model goes on from them.
        let calls: Vec<(Family, &str)> = missing.iter().rev().map(|(family, call)| (*family, call.as_str())).collect();
        for (place, thoughts) in store.find(&self.request.key, &calls).await {
            if let Some(call) = calls.get(place) {
                self.shared.vault.put(&self.request.key, *call, thoughts, Instant::now());
            }
        }
    }

    /// Returns the calls whose thoughts the candidates would not find in the vault.
    fn missing(&self) -> Vec<(Family, String)> {
        let missing = RefCell::new(Vec::new());
        for family in Family::ALL {
            let of_family = |candidate: &&Candidate| candidate.dialect().protocol.family == Some(family);
            let Some(candidate) = self.request.candidates.iter().find(of_family) else { continue };
            let kept = |call: &str| {
                let found = self.shared.vault.find(&self.request.key, family, call, Instant::now());
                if found.is_none() {
                    missing.borrow_mut().push((family, call.to_owned()));
                }
                found
            };
            // The candidate writes the request again when its turn comes, and any refusal counts
            // only then.
            drop(admission::write(candidate, &self.memory.body, &self.request.envelope, &kept));
        }
        missing.into_inner()
    }
}
