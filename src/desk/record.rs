//! A [`Record`] collects what is known of an exchange, and settles the exchange exactly once at its
//! end.
//!
//! **Invariant:** settling happens in `Drop`, so that it happens whatever way the exchange ends: an
//! answer, a refusal, a caller who left, a panic. It writes the access line and the ledger's row,
//! counts the metrics, and tells the drain that the exchange is over. Only the caller's limits are
//! settled before, when the usage is certain and the answer's end is about to leave.

use super::unpriced::Unpriced;
use crate::access_log::AccessLog;
use crate::account::demand::Demand;
use crate::base::calendar;
use crate::base::clock::Clock;
use crate::base::descriptors::Descriptors;
use crate::conf::price::Usd;
use crate::drain::Drain;
use crate::error::{FailureKind, Outcome, Refusal};
use crate::exchange::producer::meter::Meter;
use crate::figures::Figures;
use crate::ledger::{Ledger, Row, Run, Runs};
use crate::limits::{LimitsLeft, Past, Reservation, Spent};
use crate::live::{Live, Snapshot};
use crate::metrics::Metrics;
use crate::series::StepMoment;
use crate::settled::{Incoming, Settled};
use crate::traces::Traces;
use dialects::front::{Front, STANDARD};
use dialects::usage::{Source, Usage};
use std::sync::Arc;
use std::time::Instant;

/// The books in which exchanges are settled. There is one for each process.
pub struct Books {
    /// The access log, with one line for each exchange.
    pub access_log: AccessLog,
    /// The ledger, with one row for each admitted exchange.
    pub ledger: Arc<Ledger>,
    /// The metrics that `/metrics` shows.
    pub metrics: Arc<Metrics>,
    /// The catalog that is live, and the limits of its callers.
    pub live: Arc<Live>,
    /// The figures of the page of operators.
    pub figures: Figures,
    /// The drain, which counts the exchanges that run.
    pub drain: Arc<Drain>,
    /// The targets that were not asked because their price is not known.
    pub unpriced: Unpriced,
    /// The file descriptors that are left for connections.
    pub descriptors: Arc<Descriptors>,
    /// The traces, if the settings say where they are sent.
    pub traces: Option<Arc<Traces>>,
}

/// The record of one exchange. Its fields are filled in as they become known.
pub struct Record {
    books: Arc<Books>,
    /// The time at which the request's head arrived.
    pub began: Instant,
    /// False for probes of health: they leave no line.
    pub is_exchange: bool,
    /// The format that the caller speaks, as far as it is known.
    pub front: &'static Front,
    /// The facts that are known so far.
    pub facts: Settled,
    /// The catalog that the exchange began with, if its trace may need it.
    pub snapshot: Option<Arc<Snapshot>>,
    /// The demand for the model, once the model is known.
    pub demand: Option<Arc<Demand>>,
    /// The rest of the caller's limits, which the answer's head shows.
    pub limits_left: LimitsLeft,
    /// The cost of what was used so far, if the price is known.
    cost: Option<Usd>,
    /// The reservation in the limits, and the generation of the catalog under which it was made.
    reservation: Option<(Reservation, u64)>,
    /// True if the limits got back the unused part of the reservation.
    is_settled: bool,
    /// The exchange's place in the ledger's list of running ones, until its row is written.
    run: Option<Run>,
    /// The meter that the ledger reads while the exchange runs.
    meter: Option<Arc<Meter>>,
    /// True if the outcome is known.
    has_ended: bool,
    /// True if the caller's name for the model is one that only a glob matches. Then the caller is
    /// told which model it is.
    pub is_by_glob: bool,
    /// True if it counts in the figures for the page of operators.
    pub is_figured: bool,
}

impl Record {
    /// Begins an exchange.
    pub fn new(books: Arc<Books>) -> Record {
        books.drain.begin_exchange();
        Record {
            books,
            began: Instant::now(),
            is_exchange: true,
            front: STANDARD,
            facts: Settled {
                began_at: calendar::now_millis(),
                request: Incoming {
                    door: "none",
                    ..Incoming::default()
                },
                ..Settled::default()
            },
            snapshot: None,
            demand: None,
            limits_left: LimitsLeft::default(),
            cost: None,
            reservation: None,
            is_settled: false,
            run: None,
            meter: None,
            has_ended: false,
            is_by_glob: false,
            is_figured: true,
        }
    }

    /// Notes the outcome of the exchange. The first outcome counts: what follows from it does not
    /// change it.
    pub fn end(&mut self, outcome: Outcome) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        self.facts.outcome = outcome;
        if outcome == Outcome::ClientLeft {
            self.facts.answer.status = FailureKind::CallerLeft.row().status;
        }
    }

    /// Notes that the exchange ended with a refusal.
    pub fn record_refusal(&mut self, refusal: &Refusal) {
        self.end(refusal.kind.row().outcome);
        self.facts.answer.limited_by = refusal.kind.limited_by();
        // The upstream's own sentences may quote the prompt, which no log may hold.
        let shown = if let FailureKind::CallersFault { .. } = refusal.kind {
            "the upstream refused the request itself"
        } else {
            &refusal.message
        };
        self.facts
            .answer
            .error
            .get_or_insert_with(|| cut_short(shown).to_owned());
    }

    /// Notes that the caller's limits have admitted the exchange.
    pub fn admit(&mut self, reservation: Reservation, generation: u64) {
        self.limits_left = reservation.limits_left;
        self.facts.spending.admitted = Some(reservation.admitted_at);
        self.reservation = Some((reservation, generation));
    }

    /// Makes the meter of what the exchange uses. The ledger reads it from now on. `prompt_bytes`
    /// is the size from which the prompt's tokens are estimated.
    pub fn meter(&mut self, prompt_bytes: u64) -> Arc<Meter> {
        let row = Row::at_start(
            self.facts.spending.admitted.unwrap_or_default(),
            &self.facts.sender,
            &self.facts.request,
        );
        let meter = Arc::new(Meter::new(row, prompt_bytes, self.began));
        let runs: Arc<dyn Runs> = meter.clone();
        self.run = self.books.ledger.begin_run(Arc::downgrade(&runs));
        self.meter = Some(meter.clone());
        meter
    }

    /// Notes the usage so far, and its cost.
    pub fn count(&mut self, usage: Usage, cost: Option<Usd>) {
        // After settling, the usage stays as the limits have it.
        if !self.is_settled {
            (self.facts.spending.usage, self.cost) = (usage, cost);
        }
    }

    /// Settles the limits: gives back what was not used. This happens before the answer's end
    /// leaves, so that a caller who waits for this end finds its place free.
    pub fn settle(&mut self) {
        if std::mem::replace(&mut self.is_settled, true) {
            return;
        }
        let usage = &self.facts.spending.usage;
        let cost = match (&self.facts.spending.admitted, usage.source) {
            (None, _) => None,
            (Some(_), Source::None) => Some(Usd::ZERO),
            (Some(_), Source::Reported | Source::Estimated) => self.cost,
        };
        self.facts.spending.cost = cost;
        let Some((reservation, generation)) = self.reservation.take() else {
            return;
        };
        let spent = Spent {
            tokens: usage.total(),
            usd: cost.unwrap_or_default(),
        };
        let live = &self.books.live;
        // A limit that is new since the exchange began counts the exchange, too.
        if live.load().generation != generation
            && let (Some(caller), Some(key), Some(model)) = (
                &self.facts.sender.caller,
                &self.facts.sender.key,
                &self.facts.request.model,
            )
        {
            let past = Past {
                used_at: reservation.admitted_at,
                dated: None,
                caller: caller.clone(),
                key: key.clone(),
                model: model.clone(),
                requests: 1,
                tokens: spent.tokens,
                usd: spent.usd,
                unpriced: u64::from(cost.is_none()),
                is_taken_over: false,
            };
            live.limits.add_late(&past, reservation.scopes());
        }
        reservation.settle(spent, calendar::now_millis());
    }

    /// Counts the settled exchange for the page of operators.
    fn count_in_figures(&self, settled: &Settled) {
        let (sums, first, moment) = (
            settled.sums(),
            settled.first_token(),
            StepMoment::from_instant(Clock::time_at(self.began + settled.total)),
        );
        let Figures { whole, callers } = &self.books.figures;
        whole.add(&sums, first, moment);
        if let Some(demand) = &self.demand {
            demand.series.add(&sums, first, moment);
        }
        if let (Some(_), Some(caller)) = (settled.spending.limited, &settled.sender.caller) {
            callers.count_limited(caller, settled.began_at);
        }
    }
}

/// Cuts a text after its first 200 characters.
fn cut_short(text: &str) -> &str {
    const MAX_CHARACTERS: usize = 200;
    // A text of so many bytes has no more characters, and need not be read.
    if text.len() <= MAX_CHARACTERS {
        return text;
    }
    text.char_indices()
        .nth(MAX_CHARACTERS)
        .and_then(|(end, _)| text.get(..end))
        .unwrap_or(text)
}

impl Books {
    /// Settles the exchanges that still run when the process ends, with what they have used so far.
    /// Their tasks had no time to do so. Returns their number.
    pub fn abandon(&self) -> usize {
        let running = self
            .ledger
            .running()
            .into_iter()
            .filter(|(_, runs)| runs.claim());
        running.fold(0, |number, (run, runs)| {
            let row = Row {
                run: Some(run),
                ..runs.so_far()
            };
            let settled = row.settled("The process ended before its caller could be told so.");
            self.access_log.write(&settled);
            self.ledger.write(row);
            number + 1
        })
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.books.metrics.process.panics.inc();
        }
        // At the end of the process, what runs for too long is settled without its task.
        if self.is_exchange && self.meter.as_ref().is_none_or(|meter| meter.claim()) {
            let total = self.began.elapsed();
            self.settle();
            let settled = Settled {
                total,
                ..std::mem::take(&mut self.facts)
            };
            self.books.metrics.settle(&settled);
            if self.is_figured {
                self.count_in_figures(&settled);
            }
            self.books.access_log.write(&settled);
            if let Some(traces) = &self.books.traces {
                traces.take(&settled, self.snapshot.as_deref());
            }
            if let Some(row) = Row::from_settled(settled, self.run) {
                self.books
                    .figures
                    .callers
                    .add_use(&row.caller, row.admitted_at, &row.caller_use());
                self.books.ledger.write(row);
            }
        }
        self.books.drain.end_exchange();
    }
}
