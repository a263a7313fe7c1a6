//! An [`Outage`] is a time in which the store does not decide, until this gateway has sent all its
//! counts again. This module logs how each one begins and ends.
//!
//! However often the store comes and goes within one outage, the log says each thing once. The
//! reader of the log may have stopped, so no line is written while the inbox is locked.

use super::{Core, trouble};
use crate::base::clock::Clock;
use crate::conf::config::OnStoreDown;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The time between two log lines about lost counts: a store that drops them by itself does so all
/// the time.
const LOSS_INTERVAL: Duration = Duration::from_secs(3_600);

/// A time in which the store does not decide.
pub(super) struct Outage {
    since: Instant,
    /// True if the log has said that the store is out.
    logged_down: bool,
    logged_joining: bool,
}

impl Outage {
    /// Begins an outage.
    pub(super) fn new(since: Instant) -> Outage {
        Outage {
            since,
            logged_down: false,
            logged_joining: false,
        }
    }

    /// Returns true the first time that the store is down in this outage.
    fn note_down(&mut self) -> bool {
        !std::mem::replace(&mut self.logged_down, true)
    }

    /// Returns true the first time that the store is joining in this outage.
    pub(super) fn note_joining(&mut self) -> bool {
        !std::mem::replace(&mut self.logged_joining, true)
    }
}

impl Core {
    /// Takes the store out because it answers too late.
    pub(super) fn take_out_as_slow(&self) {
        self.take_out(&format!(
            "it does not answer within {:?} (`store.timeout`)",
            self.settings.timeout
        ));
    }

    /// Takes the store out: no request waits for it any longer.
    pub(super) fn take_out(&self, why: &str) {
        let why = trouble::redacted_line(&self.settings.address, why);
        let mut inbox = self.inbox.lock();
        let is_news = inbox.go_down(why.clone()).note_down();
        drop(inbox);
        self.work.notify_one();
        if is_news {
            let then = match self.settings.on_store_down {
                OnStoreDown::Local => self.counts_alone_text(),
                OnStoreDown::Refuse => "requests with limits are refused".to_owned(),
            };
            log::warn!(
                "the store {} is unavailable: {why}. Until it is back, {then}",
                self.settings.address
            );
        }
    }

    /// Logs that the store was empty, or lacked a part.
    pub(super) fn log_loss(&self) {
        let mut inbox = self.inbox.lock();
        if inbox
            .loss_logged
            .is_some_and(|logged| logged.elapsed() < LOSS_INTERVAL)
        {
            return;
        }
        inbox.loss_logged = Some(Instant::now());
        drop(inbox);
        log::warn!(
            "the store {} has lost all or a part of its data (it was flushed, restarted without its data, or is short of memory without \
             `maxmemory-policy noeviction`): all gateways send their data again, each time that this happens (logged once an hour)",
            self.settings.address
        );
    }

    /// Logs that the store answers, but that only `complete` gateways have sent all that they
    /// count. The others have `time` left.
    pub(super) fn log_joining(&self, complete: u64, time: Duration) {
        log::info!(
            "the store {} answers, but only {complete} of {} gateways (`store.instances`) have \
             sent it their counts. Until all have, but for {} s at most, {}",
            self.settings.address,
            self.settings.instances,
            time.as_secs() + 1,
            self.counts_alone_text()
        );
    }

    /// Logs that the store decides: for `live` gateways, after this many scopes were sent.
    pub(super) fn log_up(&self, outage: &Outage, live: usize, sent_count: usize) {
        let admitted_alone = self.local_admissions.swap(0, Ordering::Relaxed);
        let live_text = match self.settings.instances {
            0 | 1 => String::new(),
            n => format!(" for {live} of {n} gateways"),
        };
        let address = &self.settings.address;
        if outage.logged_down {
            let time = Clock::now()
                .saturating_duration_since(outage.since)
                .as_secs_f64();
            log::info!(
                "the store {address} is back after {time:.1} s and decides over limits{live_text}: {admitted_alone} requests \
                 were admitted without it; the counts of {sent_count} callers, keys and models were sent to it again"
            );
        } else {
            log::info!("the store {address} is up and decides over limits{live_text}");
        }
    }

    fn counts_alone_text(&self) -> String {
        match self.settings.instances {
            0 | 1 => "this gateway uses its own counts".to_owned(),
            n => format!("this gateway uses its own counts, and 1/{n} of each limit"),
        }
    }
}
