//! Tasks that have names: each is named after what it works for.

use crate::metrics::Metrics;
use std::collections::HashMap;
use tokio::task::{Id, JoinSet};

/// Running tasks by their names.
pub(super) struct NamedTasks<N> {
    running: JoinSet<()>,
    names: HashMap<Id, N>,
}

impl<N: PartialEq> NamedTasks<N> {
    pub(super) fn new() -> NamedTasks<N> {
        NamedTasks {
            running: JoinSet::new(),
            names: HashMap::new(),
        }
    }

    /// Forgets the tasks that have ended. A panic of ours ends only its task, and is counted.
    pub(super) fn forget_ended(&mut self, metrics: &Metrics) {
        while let Some(ended) = self.running.try_join_next_with_id() {
            let id = match ended {
                Ok((id, ())) => id,
                Err(error) => {
                    metrics.process.panics.inc();
                    error.id()
                }
            };
            self.names.remove(&id);
        }
    }

    /// Returns whether a task with the name runs.
    pub(super) fn has(&self, name: &N) -> bool {
        self.names.values().any(|other| other == name)
    }

    pub(super) fn start(&mut self, name: N, task: impl Future<Output = ()> + Send + 'static) {
        let id = self.running.spawn(task).id();
        self.names.insert(id, name);
    }
}
