//! The totals of a scope are what all gateways together have used of it; operators ask for them.
//! The requests go over the connection of the admissions, a few at a time, so that no admission
//! waits long.

use super::Store;
use crate::limits::{Counts, Scope};
use crate::status::StoreState;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The most scopes that are asked for at once: less than a millisecond of the store's time.
pub(super) const MAX_SCOPES: usize = 16;

/// A request for the totals of a scope.
pub(super) struct TotalsRequest {
    pub(super) scope: Arc<Scope>,
    pub(super) answer: oneshot::Sender<Counts>,
}

impl Store {
    /// Returns what all gateways have used of these scopes, if the store decides and answers in
    /// time.
    pub async fn total_counts(&self, scopes: &[Arc<Scope>]) -> Option<Vec<Counts>> {
        let mut counted = Vec::with_capacity(scopes.len());
        for some in scopes.chunks(MAX_SCOPES) {
            let awaited: Vec<oneshot::Receiver<Counts>> = self.core.post(|inbox| {
                let asked = some.iter().map(|scope| {
                    let (answer, totals) = oneshot::channel();
                    inbox.totals.push_back(TotalsRequest {
                        scope: scope.clone(),
                        answer,
                    });
                    totals
                });
                (inbox.state == StoreState::Up).then(|| asked.collect())
            })?;
            let answers = async {
                for answer in awaited {
                    counted.push(answer.await.ok()?);
                }
                Some(())
            };
            tokio::time::timeout(self.core.settings.timeout, answers)
                .await
                .ok()??;
        }
        Some(counted)
    }
}
