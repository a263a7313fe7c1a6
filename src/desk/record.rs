//! A record grows with its exchange, and settles it exactly once at its end.
//!
//! **Invariant:** settling happens in `Drop`, so that it happens for every way to end: an answer, a
//! refusal, a caller who left, a panic. It writes the access line and the ledger's row, counts, and
//! tells the drain that the exchange is over. Only the caller's limits are settled before, when it
//! is certain what was used and the answer's end is about to leave.

use super::front_door::FrontDoor;
use crate::access_log::AccessLog;
use crate::conf::price::{Price, Usd};
use crate::drain::Drain;
use crate::error::{Outcome, Refusal, What};
use crate::exchange::producer::meter::Meter;
use crate::ledger::{Ledger, Row, Run, Runs};
use crate::limits::{Left, Past, Reservation, Spent};
use crate::live::Live;
use crate::metrics::Metrics;
use crate::settled::{Attempts, Incoming, Sender, Served, Settled, Spending, Times};
use dialects::usage::{Source, Usage};
use std::mem::take;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// What exchanges are settled in. One of these a process.
pub struct Books {
    /// One line an exchange.
    pub access_log: AccessLog,
    /// One row an exchange that was admitted.
    pub ledger: Arc<Ledger>,
    /// What `/metrics` shows.
    pub metrics: Arc<Metrics>,
    /// The catalog that is live, and the limits of its callers.
    pub live: Arc<Live>,
    /// Who still runs.
    pub drain: Arc<Drain>,
}

/// The record. Fields are filled in as they become known.
pub struct Record {
    books: Arc<Books>,
    /// When the request's head arrived.
    pub began: Instant,
    began_at: SystemTime,
    /// Probes of health are no exchanges: they leave no line.
    pub is_exchange: bool,
    /// The format that the caller speaks, as far as is known.
    pub front: &'static FrontDoor,
    /// Who sent the request.
    pub sender: Sender,
    /// What was asked for.
    pub request: Incoming,
    /// What the caller got.
    pub answer: Served,
    /// The tries at upstream accounts.
    pub attempts: Attempts,
    /// What the time went into.
    pub times: Times,
    /// What is left of the caller's limits.
    pub left: Left,
    /// What was taken from these limits.
    pub spending: Spending,
    /// What the tokens of the account that answered cost, if that is known.
    price: Option<Price>,
    /// What the limits hold for it, and the generation of the catalog that let it in.
    reservation: Option<(Reservation, u64)>,
    is_settled: bool,
    /// Its place among the exchanges that run, until its row is written.
    run: Option<Run>,
    /// What the ledger reads while it runs.
    meter: Option<Arc<Meter>>,
    outcome: Option<Outcome>,
}

impl Record {
    /// Begins an exchange.
    pub fn new(books: Arc<Books>) -> Record {
        books.drain.begin();
        Record {
            books,
            began: Instant::now(),
            began_at: SystemTime::now(),
            is_exchange: true,
            front: FrontDoor::of(None),
            sender: Sender::default(),
            request: Incoming { door: "none", ..Incoming::default() },
            answer: Served::default(),
            attempts: Attempts::default(),
            times: Times::default(),
            left: Left::default(),
            spending: Spending::default(),
            price: None,
            reservation: None,
            is_settled: false,
            run: None,
            meter: None,
            outcome: None,
        }
    }

    /// Notes how the exchange ended. The first outcome counts: what follows from it does not change
    /// it.
    pub fn end(&mut self, outcome: Outcome) {
        if self.outcome.is_none() && outcome == Outcome::ClientLeft {
            self.answer.status = What::CallerLeft.row().status;
        }
        self.outcome.get_or_insert(outcome);
    }

    /// Notes that the exchange ended with a refusal.
    pub fn refused(&mut self, refusal: &Refusal) {
        self.end(refusal.what.row().outcome);
        // The upstream's own sentences may quote the prompt, which no log may hold.
        let shown = if let What::CallersFault { .. } = refusal.what {
            "the upstream finds fault with the request"
        } else {
            &refusal.message
        };
        self.answer.error.get_or_insert_with(|| shown.chars().take(200).collect());
    }

    /// Notes that the caller's limits let the exchange in.
    pub fn admit(&mut self, reservation: Reservation, generation: u64) {
        self.left = reservation.left;
        self.spending.admitted = Some(reservation.at);
        self.reservation = Some((reservation, generation));
    }

    /// Returns the meter of what the exchange uses, which the ledger reads from now on. What is
    /// asked for uses `prompt_bytes` at least.
    pub fn meter(&mut self, prompt_bytes: u64) -> Arc<Meter> {
        let row = Row::begun(self.spending.admitted.unwrap_or_default(), &self.sender, &self.request);
        let meter = Arc::new(Meter::new(row, prompt_bytes, self.began));
        let runs: Arc<dyn Runs> = meter.clone();
        self.run = self.books.ledger.begin(Arc::downgrade(&runs));
        self.meter = Some(meter.clone());
        meter
    }

    /// Notes what is used so far, and its price.
    pub fn count(&mut self, usage: Usage, price: Option<Price>) {
        // What is settled stays as the limits have it.
        if !self.is_settled {
            (self.spending.usage, self.price) = (usage, price);
        }
    }

    /// Gives back to the limits what was not used. It happens before the answer's end leaves, so
    /// that a caller who waits for this end finds its place free.
    pub fn settle(&mut self) {
        if std::mem::replace(&mut self.is_settled, true) {
            return;
        }
        let usage = &self.spending.usage;
        let cost = match (&self.spending.admitted, usage.source) {
            (None, _) => None,
            (Some(_), Source::None) => Some(Usd::ZERO),
            (Some(_), Source::Reported | Source::Estimated) => self.price.map(|price| price.cost(usage)),
        };
        self.spending.cost = cost;
        let Some((reservation, generation)) = self.reservation.take() else { return };
        let spent = Spent { tokens: usage.total(), usd: cost.unwrap_or_default() };
        let live = &self.books.live;
        // A limit that is new since the exchange began counts it, too.
        if live.load().generation != generation
            && let (Some(caller), Some(key), Some(model)) = (&self.sender.caller, &self.sender.key, &self.request.model)
        {
            let past = Past {
                at: reservation.at,
                dated: None,
                caller: caller.clone(),
                key: key.clone(),
                model: model.clone(),
                requests: 1,
                tokens: spent.tokens,
                usd: spent.usd,
                unpriced: u64::from(cost.is_none()),
                cut: false,
            };
            live.limits.late(&past, reservation.scopes());
        }
        reservation.settle(spent);
    }

    /// Tells whether it is known how the exchange ended.
    pub fn ended(&self) -> bool {
        self.outcome.is_some()
    }

    /// Takes out of the record what is known at its end.
    fn settled(&mut self) -> Settled {
        self.settle();
        Settled {
            began_at: self.began_at,
            sender: take(&mut self.sender),
            request: take(&mut self.request),
            answer: take(&mut self.answer),
            attempts: take(&mut self.attempts),
            times: take(&mut self.times),
            spending: take(&mut self.spending),
            // An exchange that nothing ended is a fault of ours.
            outcome: self.outcome.unwrap_or(Outcome::Internal),
            total: self.began.elapsed(),
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.books.metrics.process.panics.inc();
        }
        if self.is_exchange {
            let settled = self.settled();
            self.books.metrics.settle(&settled);
            self.books.access_log.write(&settled);
            if let Some(row) = Row::of(settled, self.run) {
                self.books.ledger.write(row);
            }
        }
        self.books.drain.end();
    }
}
