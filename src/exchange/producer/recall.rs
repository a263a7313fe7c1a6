//! What a model wants back with the next turn is kept: here, and in the store that instances share.
//! What another instance has kept is fetched from there before the first attempt, if it is there in
//! time.

use super::Producer;
use crate::exchange::admission;
use dialects::Family;
use dialects::neutral::answer::Kept;
use std::cell::RefCell;
use std::time::Instant;

impl Producer<'_> {
    /// Keeps what an answer wants back with the next turn.
    pub(super) fn keep(&self, kept: Vec<Kept>) {
        let Some(family) = self.candidate().and_then(|candidate| candidate.place.account.dialect.family()) else {
            return;
        };
        for Kept { call, thoughts } in kept {
            if let Some(store) = &self.shared.store {
                store.keep(&self.request.key, family, &call, &thoughts);
            }
            self.shared.vault.put(&self.request.key, (family, &call), thoughts, Instant::now());
        }
    }

    /// Fetches thoughts that belong to calls in the request, and are not here.
    pub(super) async fn recall(&mut self) {
        let Some(store) = &self.shared.store else { return };
        // Without calls nothing was kept.
        if memchr::memmem::find(&self.body, b"\"tool_calls\"").is_none() {
            return;
        }
        let missing = self.missing();
        // The newest are what the model goes on from.
        let calls: Vec<(Family, &str)> = missing.iter().rev().map(|(family, call)| (*family, call.as_str())).collect();
        for (place, thoughts) in store.find(&self.request.key, &calls).await {
            if let Some(call) = calls.get(place) {
                self.shared.vault.put(&self.request.key, *call, thoughts, Instant::now());
            }
        }
    }

    /// What those who will be asked would look for in vain.
    fn missing(&self) -> Vec<(Family, String)> {
        let missing = RefCell::new(Vec::new());
        for family in [Family::Claude, Family::Gemini] {
            let of_family =
                |candidate: &&crate::plan::Candidate| candidate.place.account.dialect.family() == Some(family);
            let Some(candidate) = self.request.candidates.iter().find(of_family) else { continue };
            let kept = |call: &str| {
                let found = self.shared.vault.find(&self.request.key, family, call, Instant::now());
                if found.is_none() {
                    missing.borrow_mut().push((family, call.to_owned()));
                }
                found
            };
            // What it says is said again when its turn comes; what cannot be said is refused then.
            drop(admission::write(candidate, &self.body, &self.request.envelope, &kept));
        }
        missing.into_inner()
    }
}
