//! A [`Session`] is the exchange of commands and answers between a gateway and the store over one
//! connection, from its begin to its end.
//!
//! **Invariant:** one batch is under way at a time, and what it admitted is counted here before the
//! next batch is made. So a part (what this gateway has counted for a scope) is never in doubt when
//! it is sent. In a batch, the part of a scope goes before the admissions of the scope, or with the
//! first of them. If the request has gone when its admission arrives, the admission is undone, and
//! the part is sent again.

mod answers;
mod batch;
mod epoch;
mod phase;

use super::inbox::AdmissionRequest;
use super::link::Link;
use super::texts::TextRequest;
use super::totals::TotalsRequest;
use super::{Core, protocol};
use crate::base::calendar::now_millis;
use crate::base::clock::Clock;
use crate::limits::{Moment, Scope};
use epoch::Epoch;
use phase::Phase;
use redis::Pipeline;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The least time that the store has to answer a batch: if twice the setting `timeout` is longer,
/// it has that. If no answer has come by then, the connection is lost.
const MIN_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// After the store was empty, the time for which this gateway waits for the counts of the others.
/// A gateway that has not sent them by then is not running: gateways try to connect more often than
/// this.
const JOIN_GRACE: Duration = Duration::from_secs(12);
/// The greatest difference of two clocks that is ignored, in milliseconds. If this machine's clock
/// and the store's differ by more, a warning is logged. If this machine's clock is set back by
/// more, a new epoch begins, because counts then belong to other seconds and dates.
const MAX_CLOCK_DIFFERENCE_MS: u64 = 2_000;

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
    batch_time_ms: u64,
    /// The store's clock, as the last beat said, and when its answer came.
    store_clock: Option<(u64, Instant)>,
    next_beat: Instant,
    warned_of_clocks: bool,
}

/// A command that was sent, with the purpose of its answer.
enum Sent {
    /// A sign of life, whose answer has the state of the store.
    Beat {
        since: Instant,
        /// True while no request asks the store: the batch has nothing else, and the time that its
        /// answer takes decides whether requests ask the store again.
        is_trial: bool,
    },
    /// The question for the part that an earlier process sent under this gateway's name.
    EarlierPart(Arc<Scope>),
    /// What this gateway has counted for a scope, or what has changed of that.
    OwnPart(Arc<Scope>),
    /// Requests of the same scopes, each with the moments in which its scopes count it.
    Admissions(Vec<(Box<AdmissionRequest>, Vec<Moment>)>),
    /// A text to keep; its answer does not matter.
    NewText,
    /// The question for kept texts.
    Texts(TextRequest),
    /// The question for what all gateways have counted, with the moment for which it was asked.
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
            batch_time_ms: now_millis(),
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
            let trial_due = {
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
            // The next beat or the next change, whatever comes first.
            let next_wake = next_change.map_or(self.next_beat, |change| change.min(self.next_beat));
            if next_wake <= Instant::now() || trial_due.is_some_and(|due| due <= Clock::now()) {
                return false;
            }
            let trial_time = async {
                match trial_due {
                    Some(due) => Clock::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = trial_time => {}
                () = tokio::time::sleep_until(next_wake.into()) => {}
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
            .arg(self.own_key("instances"))
            .arg(&self.instance);
        // The process ends, whether or not the store answers.
        self.link.send(&batch, MIN_ANSWER_TIMEOUT).await.ok();
    }

    /// Begins a new epoch, in which all counts of this gateway are sent again.
    fn begin_epoch(&mut self) {
        self.epoch = Epoch::begin(&self.core.registry, self.process);
        self.phase.note_epoch();
    }

    /// Returns whether a scope was sent in this epoch.
    fn is_sent(&self, scope: &Scope) -> bool {
        scope.sent_epoch() == self.epoch.number
    }

    /// Returns the second of the store's clock, or 0 if it is not known. The clock is behind by the
    /// time that the last beat's answer took, and by what it was set since then.
    fn store_second(&self) -> u64 {
        self.store_clock.map_or(0, |(store_ms, received_at)| {
            let passed = u64::try_from(received_at.elapsed().as_millis()).unwrap_or(u64::MAX);
            store_ms.saturating_add(passed) / 1_000
        })
    }

    /// Returns the key of one of the store's own values.
    fn own_key(&self, suffix: &str) -> String {
        format!("{{{}}}:{suffix}", self.core.settings.prefix)
    }

    /// Returns the key of a scope's counts.
    fn scope_key(&self, scope: &Scope) -> String {
        protocol::scope_key(&self.core.settings.prefix, scope.level, &scope.name)
    }
}
