//! The [`Watch`] looks at the process every few seconds, and whenever somebody asks: it gathers
//! facts, lets the rules find [problems](super::problems), and remembers since when they last.
//!
//! **Invariant:** it looks at most twice a second, however many ask.

mod gather;

use super::problems::facts::{Facts, RisesFacts};
use super::problems::verdict::{Verdict, make_verdict};
use super::problems::{FailureMemory, Finding, FindingTimes, Noticed, Problems, find_problems};
use crate::base::clock::{Clock, Round};
use crate::base::lock::Lock;
use crate::conf::config::Server;
use crate::desk::record::Books;
use crate::exchange::backends::Backends;
use crate::tls::Certificate;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time between two looks without a question from outside.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// The least time between two looks.
const MIN_INTERVAL: Duration = Duration::from_millis(500);

/// The watch over a process.
pub struct Watch {
    books: Arc<Books>,
    backends: Arc<Backends>,
    settings: Arc<Server>,
    certificates: Arc<[Option<Arc<Certificate>>]>,
    last_look: Lock<LastLook>,
}

/// The last look, and what is remembered of those before.
#[derive(Default)]
struct LastLook {
    lasting: FindingTimes,
    failures: FailureMemory,
    rises: RisesFacts,
    observation: Option<(Instant, Arc<Observation>)>,
}

/// The result of the watch's last look.
#[derive(Debug, Clone)]
pub struct Observation {
    /// The problems.
    pub problems: Problems,
    /// The sentence that an operator reads first.
    pub verdict: Verdict,
    /// All findings, also those that are no problem yet.
    pub noticed: Vec<Noticed>,
}

impl Watch {
    /// Makes the watch over a process with these parts. The certificates are those of the
    /// listeners, in the order of the settings.
    pub fn new(
        books: Arc<Books>,
        backends: Arc<Backends>,
        settings: Arc<Server>,
        certificates: Arc<[Option<Arc<Certificate>>]>,
    ) -> Watch {
        Watch {
            books,
            backends,
            settings,
            certificates,
            last_look: Lock::default(),
        }
    }

    /// Returns what the watch sees now. The sight is half a second old at most.
    pub fn observe(&self) -> Arc<Observation> {
        let now = Clock::now();
        let mut last = self.last_look.lock();
        if let Some((observed_at, observation)) = &last.observation
            && now.saturating_duration_since(*observed_at) < MIN_INTERVAL
        {
            return observation.clone();
        }
        let facts = self.facts(&mut last.rises, now);
        let found = find_problems(&facts, &mut last.failures);
        let observation = Arc::new(make_observation(&facts, found, &mut last.lasting));
        last.observation = Some((now, observation.clone()));
        for (rule, severity, number) in observation.problems.counts() {
            let words = [("rule", rule.name()), ("severity", severity.name())];
            let gauge = self.books.metrics.process.problems.get_or_create(&words);
            gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
        }
        observation
    }

    /// Checks every few seconds, for ever: what lasts must be seen to begin.
    pub async fn keep_observing(&self) {
        loop {
            self.observe();
            let waiting = self
                .books
                .live
                .load()
                .routes
                .iter()
                .map(|route| route.demand.waiting())
                .sum();
            self.books
                .figures
                .sample(self.books.drain.exchanges(), waiting, Clock::now());
            Clock::pause(Round::Problems, LOOK_INTERVAL).await;
        }
    }
}

fn make_observation(facts: &Facts, found: Vec<Finding>, lasting: &mut FindingTimes) -> Observation {
    let noticed = lasting.notice(found, facts.now);
    Observation {
        problems: Problems::new(&noticed),
        verdict: make_verdict(facts, &noticed),
        noticed,
    }
}
