//! The totals of a scope are what all gateways together have used of it; operators ask for them.
//! The requests go over the connection of the admissions, a few at a time, so that no admission
//! waits long.

use super::Store;
use crate::limits::{Counts, Scope};
use crate::status::StoreState;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The most scopes that are asked for at once: less than a millisecond of the store's time.
pub(super) const AT_ONCE: usize = 16;

/// A request for the totals of a scope.
pub(super) struct TotalsRequest {
    pub(super) scope: Arc<Scope>,
    pub(super) answer: oneshot::Sender<Counts>,
}

impl Store {
    /// Returns what all gateways have used of these scopes, if the store decides and answers in
    /// time.
    pub async fn counted(&self, scopes: &[Arc<Scope>]) -> Option<Vec<Counts>> {
        let mut counted = Vec::with_capacity(scopes.len());
        for some in scopes.chunks(AT_ONCE) {
            let awaited: Vec<oneshot::Receiver<Counts>> = self.core.post(|inbox| {
                let ask = |scope: &Arc<Scope>| {
                    let (answer, totals) = oneshot::channel();
                    inbox.totals.push_back(TotalsRequest {
                        scope: scope.clone(),
                        answer,
                    });
                    totals
                };
                (inbox.state == StoreState::Up).then(|| some.iter().map(ask).collect())
            })?;
            let heard = async {
                for answer in awaited {
                    counted.push(answer.await.ok()?);
                }
                Some(())
            };
            tokio::time::timeout(self.core.settings.timeout, heard)
                .await
                .ok()??;
        }
        Some(counted)
    }
}
