//! A [`Session`] is what a gateway and the store say over one connection, from its begin to its
//! end.
//!
//! **Invariant:** one batch is under way at a time. In a batch, an instance's own counts go before
//! admissions; and what the batch admitted is counted here before the next batch is made. So a part
//! that is sent is always all that the store can know of it. If nobody waits any more when an
//! admission comes, it is undone and the part is sent again.

use super::link::{Batch, Link};
use crate::calendar::now as clock_ms;
use crate::limits::{Moment, Scope};
use std::sync::Arc;
use std::time::{Duration, Instant};
mod answers;
mod batch;
mod epoch;
mod phase;
use super::inbox::AdmissionRequest;
use super::thoughts::ThoughtRequest;
use super::totals::TotalsRequest;
use super::{Core, protocol};
use epoch::Epoch;
use phase::Phase;

/// A connection that is silent for longer is lost.
const PATIENCE: Duration = Duration::from_secs(1);
/// After the store was empty, other gateways have this long to send their counts. Whoever has not
/// done so by then is not there: no try to connect comes later.
const GRACE: Duration = Duration::from_secs(12);
/// Clocks that differ by more, in milliseconds, are worth a warning: windows are that much apart.
/// If our own clock is set back by more, what is counted may have moved.
const CLOCKS: u64 = 2_000;

/// How a session ends.
pub(super) enum End {
    /// The process leaves.
    Left,
    /// The connection is lost, for this reason.
    Lost(String),
}

/// One connection to the store.
pub(super) struct Session<'s> {
    core: &'s Core,
    link: Link,
    /// The name of this process.
    process: &'s str,
    /// The name of this gateway.
    instance: String,
    epoch: Epoch,
    phase: Phase,
    /// The time of the last batch, in milliseconds of Unix time.
    clock_ms: u64,
    next_beat: Instant,
    warned_of_clocks: bool,
}

/// A command that was sent, with what its answer is for.
enum Sent {
    Beat {
        since: Instant,
        /// The batch has nothing else, and shows how fast the store is.
        trial: bool,
    },
    EarlierPart(Arc<Scope>),
    OwnPart,
    Admission(Box<AdmissionRequest>, Vec<Moment>),
    NewThoughts,
    Thoughts(ThoughtRequest),
    Totals(TotalsRequest, Moment),
}

impl<'s> Session<'s> {
    /// Begins a session over a new connection.
    pub(super) fn new(core: &'s Core, link: Link, process: &'s str) -> Session<'s> {
        let instance = core.inbox().instance.clone();
        Session {
            core,
            link,
            process,
            instance,
            epoch: Epoch::begin(&core.registry, process),
            phase: Phase::Greeting,
            clock_ms: clock_ms(),
            next_beat: Instant::now(),
            warned_of_clocks: false,
        }
    }

    /// Sends batches and reads their answers until the connection is lost or the process leaves.
    pub(super) async fn run(mut self) -> End {
        loop {
            if self.wait().await {
                self.say_farewell().await;
                return End::Left;
            }
            let batch = self.batch();
            let patience = PATIENCE.max(self.core.settings.timeout * 2);
            let answers = match self.link.send(&batch.commands, patience).await {
                Ok(answers) => answers,
                Err(why) => return End::Lost(why),
            };
            if let Err(why) = self.read(batch.sent, answers) {
                return End::Lost(why);
            }
        }
    }

    /// Waits until there is something to send. Returns true if the process leaves and everything is
    /// sent.
    async fn wait(&self) -> bool {
        loop {
            let due = {
                let inbox = self.core.inbox();
                let all_told = self.epoch.backlog.is_empty() && self.core.changes.is_empty();
                if inbox.leaving && all_told {
                    return true;
                }
                if !(inbox.is_empty() && all_told) {
                    return false;
                }
                inbox.circuit.due().map_or(self.next_beat, |due| due.min(self.next_beat))
            };
            if due <= Instant::now() {
                return false;
            }
            tokio::select! {
                () = tokio::time::sleep_until(due.into()) => {}
                () = self.core.work.notified() => {}
                () = self.core.changes.some.notified() => {}
            }
        }
    }

    /// Takes this gateway out of the list of those that live, so that the others need not find out.
    async fn say_farewell(&mut self) {
        let mut batch = Batch::default();
        let mut leave = redis::cmd("HDEL");
        leave.arg(self.name("instances")).arg(&self.instance);
        batch.add(leave);
        // The process ends, whether the store answers or not.
        self.link.send(&batch, PATIENCE).await.ok();
    }

    /// Begins a new epoch: all that is counted here is to be sent again.
    fn begin_epoch(&mut self) {
        self.epoch = Epoch::begin(&self.core.registry, self.process);
        self.phase.begin_epoch();
    }

    /// Returns whether a scope was sent in this epoch.
    fn is_told(&self, scope: &Scope) -> bool {
        scope.told() == self.epoch.number
    }

    fn name(&self, what: &str) -> String {
        format!("{{{}}}:{what}", self.core.settings.prefix)
    }

    fn key(&self, scope: &Scope) -> String {
        protocol::key(&self.core.settings.prefix, scope.level, &scope.name)
    }
}
