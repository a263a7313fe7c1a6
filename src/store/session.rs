//! A [`Session`] is the exchange of commands and answers between a gateway and the store over one
//! connection, from its begin to its end.
//!
//! **Invariant:** one batch is under way at a time. In a batch, an instance's own counts of a scope
//! come before its admissions, or with the first of them. What the batch admitted is counted here
//! before the next batch is made. So a part that is sent is always all that the store can know of
//! it. If no request waits any more when an admission arrives, the admission is undone and the part
//! is sent again.

mod answers;
mod batch;
mod epoch;
mod phase;

use super::inbox::AdmissionRequest;
use super::link::Link;
use super::texts::TextRequest;
use super::totals::TotalsRequest;
use super::{Core, protocol};
use crate::base::calendar::now_millis as clock_ms;
use crate::base::clock::Clock;
use crate::limits::{Moment, Scope};
use epoch::Epoch;
use phase::Phase;
use redis::Pipeline;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest silence of a connection. After it, the connection is lost.
const MIN_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The time that other gateways have to send their counts after the store was empty. A gateway that
/// has not sent them by then is not there: its tries to connect are closer together than this.
const JOIN_GRACE: Duration = Duration::from_secs(12);
/// The difference between two clocks, in milliseconds, above which a warning is logged: the
/// windows differ as much. If our own clock is set back by more, counts may have moved to other
/// seconds and dates.
const MAX_CLOCK_DIFFERENCE: u64 = 2_000;

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
    /// The store's clock, as the last beat said, and when its answer came.
    store_clock: Option<(u64, Instant)>,
    next_beat: Instant,
    warned_of_clocks: bool,
}

/// A command that was sent, with the purpose of its answer.
enum Sent {
    Beat {
        since: Instant,
        /// True if the batch has nothing else, and shows how fast the store is.
        trial: bool,
    },
    EarlierPart(Arc<Scope>),
    OwnPart(Arc<Scope>),
    /// Requests of the same scopes, each with the moments in which its scopes count it.
    Admissions(Vec<(Box<AdmissionRequest>, Vec<Moment>)>),
    NewText,
    Texts(TextRequest),
    Totals(TotalsRequest, Moment),
}

impl<'s> Session<'s> {
    /// Begins a session over a new connection.
    pub(super) fn new(core: &'s Core, link: Link, process: &'s str) -> Session<'s> {
        let instance = core.inbox.lock().instance.clone();
        Session {
            core,
            link,
            process,
            instance,
            epoch: Epoch::begin(&core.registry, process),
            phase: Phase::Greeting,
            clock_ms: clock_ms(),
            store_clock: None,
            next_beat: Instant::now(),
            warned_of_clocks: false,
        }
    }

    /// Sends batches and reads their answers until the process leaves. An error says why the
    /// connection is lost.
    pub(super) async fn run(mut self) -> Result<(), String> {
        let timeout = MIN_ANSWER_TIMEOUT.max(self.core.settings.timeout * 2);
        while !self.wait().await {
            let batch = self.next_batch();
            let answers = self.link.send(&batch.commands, timeout).await?;
            self.read_answers(batch.sent, answers)?;
        }
        self.say_farewell().await;
        Ok(())
    }

    /// Waits until there is something to send. Returns true if the process leaves and everything is
    /// sent.
    async fn wait(&self) -> bool {
        loop {
            let next_change = self.core.changes.next_due();
            let due = {
                let inbox = self.core.inbox.lock();
                let has_backlog = !self.epoch.backlog.is_empty();
                if inbox.is_leaving && !has_backlog && next_change.is_none() {
                    return true;
                }
                if has_backlog || !inbox.is_empty() {
                    return false;
                }
                inbox.circuit.due()
            };
            let next = next_change.map_or(self.next_beat, |change| change.min(self.next_beat));
            if next <= Instant::now() || due.is_some_and(|due| due <= Clock::now()) {
                return false;
            }
            let trial = async {
                match due {
                    Some(due) => Clock::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = trial => {}
                () = tokio::time::sleep_until(next.into()) => {}
                () = self.core.work.notified() => {}
                () = self.core.changes.some.notified() => {}
            }
        }
    }

    /// Removes this gateway from the list of those that live, so that the others need not find that
    /// out.
    async fn say_farewell(&mut self) {
        let mut batch = Pipeline::new();
        batch
            .cmd("HDEL")
            .arg(self.key_name("instances"))
            .arg(&self.instance);
        // The process ends, whether or not the store answers.
        self.link.send(&batch, MIN_ANSWER_TIMEOUT).await.ok();
    }

    /// Begins a new epoch, in which all counts of this gateway are sent again.
    fn begin_epoch(&mut self) {
        self.epoch = Epoch::begin(&self.core.registry, self.process);
        self.phase.begin_epoch();
    }

    /// Returns whether a scope was sent in this epoch.
    fn is_sent(&self, scope: &Scope) -> bool {
        scope.sent_epoch() == self.epoch.number
    }

    /// Returns the second of the store's clock, or 0 if it is not known. The clock is behind by the
    /// time that the last beat's answer took, and by what it was set since then.
    fn store_second(&self) -> u64 {
        self.store_clock.map_or(0, |(clock_ms, since)| {
            let passed = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
            clock_ms.saturating_add(passed) / 1_000
        })
    }

    fn key_name(&self, suffix: &str) -> String {
        format!("{{{}}}:{suffix}", self.core.settings.prefix)
    }

    fn key(&self, scope: &Scope) -> String {
        protocol::scope_key(&self.core.settings.prefix, scope.level, &scope.name)
    }
}
