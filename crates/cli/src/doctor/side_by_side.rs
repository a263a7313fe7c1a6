//! Checks that run side by side, some at a time, until they are due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::report::{Checked as _, Finding, Subject};

/// The most checks that run at the same time.
pub(super) const MAX_AT_ONCE: usize = 16;

/// The observation of a check that is late.
pub(super) const NOT_IN_TIME: &str = "the checks were not over in time";

/// The end of a check.
pub(super) enum Ending<T> {
    /// It was over in time, with this result.
    Done(T),
    /// It had begun, and was not over in time.
    Late,
    /// It had to wait for others until no time was left.
    NotBegun,
    /// It panicked: a bug of this program, whatever it looked at.
    Panicked,
}

/// Checks that run until this is dropped.
pub(super) struct SideBySide<T> {
    due: Instant,
    results: std::vec::IntoIter<Awaited<T>>,
    _running: JoinSet<()>,
}

/// The result of a check, which comes, and whether the check has begun.
struct Awaited<T> {
    result: oneshot::Receiver<T>,
    has_begun: Arc<AtomicBool>,
}

impl<T: Send + 'static> SideBySide<T> {
    /// Starts the checks. Those that are not over at `due` are late.
    pub(super) fn start<C>(checks: impl Iterator<Item = C>, due: Instant) -> SideBySide<T>
    where
        C: Future<Output = T> + Send + 'static,
    {
        let gate = Arc::new(Semaphore::new(MAX_AT_ONCE));
        let (mut running, mut results) = (JoinSet::new(), Vec::new());
        for check in checks {
            let (gate, has_begun) = (gate.clone(), Arc::<AtomicBool>::default());
            let (sender, result) = oneshot::channel();
            results.push(Awaited {
                result,
                has_begun: has_begun.clone(),
            });
            running.spawn(async move {
                let _permit = gate.acquire().await;
                // After `due` no further check begins.
                if Instant::now() >= due {
                    return std::future::pending().await;
                }
                has_begun.store(true, Ordering::Relaxed);
                // An error means that the result is not waited for any more.
                drop(sender.send(check.await));
            });
        }
        SideBySide {
            due,
            results: results.into_iter(),
            _running: running,
        }
    }

    /// Waits for the next check, in the order in which they were given. `None` comes after the
    /// last.
    pub(super) async fn next(&mut self) -> Option<Ending<T>> {
        let Awaited { result, has_begun } = self.results.next()?;
        Some(match timeout_at(self.due, result).await {
            Ok(Ok(result)) => Ending::Done(result),
            // The task is gone without a result.
            Ok(Err(_)) => Ending::Panicked,
            Err(_) if has_begun.load(Ordering::Relaxed) => Ending::Late,
            Err(_) => Ending::NotBegun,
        })
    }
}

/// Makes the finding of a check that panicked.
pub(super) fn bug_finding(subject: &Subject, check: &'static str) -> Finding {
    subject.fail(
        check,
        "the check itself panicked, which is a bug of Portcullis",
        "report it, with what the panic wrote on standard error: nothing is known of what was checked",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_panic_ends_its_own_check_only() {
        let checks = [false, true, false].into_iter().map(|has_bug| async move {
            assert!(!has_bug, "a bug of the check");
        });
        let mut running = SideBySide::start(checks, Instant::now() + Duration::from_secs(60));
        assert!(matches!(running.next().await, Some(Ending::Done(()))));
        assert!(matches!(running.next().await, Some(Ending::Panicked)));
        assert!(matches!(running.next().await, Some(Ending::Done(()))));
        assert!(running.next().await.is_none());
    }
}
