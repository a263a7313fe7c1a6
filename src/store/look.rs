//! What all gateways together have used, for operators who ask. It goes the way of admissions, a
//! little at a time: none waits for it for long.

use super::{Inside, State, Store};
use crate::limits::{Counts, Scope};
use std::sync::Arc;
use tokio::sync::oneshot;

/// So many scopes in one go: less than a millisecond of the store's time.
pub(super) const AT_ONCE: usize = 16;

/// A scope that is looked at.
pub(super) struct Looking {
    pub(super) scope: Arc<Scope>,
    pub(super) answer: oneshot::Sender<Counts>,
}

impl Store {
    /// What all have used of these scopes, if the store decides and says so in time.
    pub async fn counted(&self, scopes: &[Arc<Scope>]) -> Option<Vec<Counts>> {
        let mut counted = Vec::with_capacity(scopes.len());
        for some in scopes.chunks(AT_ONCE) {
            let awaited = self.inside.ask_for(some)?;
            let heard = async {
                for answer in awaited {
                    counted.push(answer.await.ok()?);
                }
                Some(())
            };
            tokio::time::timeout(self.inside.settings.timeout, heard).await.ok()??;
        }
        Some(counted)
    }
}

impl Inside {
    fn ask_for(&self, scopes: &[Arc<Scope>]) -> Option<Vec<oneshot::Receiver<Counts>>> {
        let mut desk = self.desk();
        if desk.state != State::Up {
            return None;
        }
        let mut ask = |scope: &Arc<Scope>| {
            let (answer, heard) = oneshot::channel();
            desk.looking.push_back(Looking { scope: scope.clone(), answer });
            heard
        };
        let awaited = scopes.iter().map(&mut ask).collect();
        drop(desk);
        self.work.notify_one();
        Some(awaited)
    }
}
