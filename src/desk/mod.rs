//! The desk is the half of the gateway that faces callers. It takes a request in, decides what
//! becomes of it, and answers it, or has an exchange with the upstreams answer it.
//!
//! The methods of [`Desk`] are in the files of their stages:
//!
//! | Stage | Method | What it does |
//! |---|---|---|
//! | [`gateway`] | Pingora's phases | calls the stages |
//! | `arrival` | `begin_record` | notes what is known of every request |
//! | `dispatch` | `answer_or_plan` | finds the door, and goes through it |
//! | [`auth`] | `authenticate` | finds the key |
//! | `token` | `judge_token` | finds the key of a token |
//! | `own` | `answer_about_key` | answers what a key asks about itself |
//! | `count` | `count_tokens` | answers how many tokens a request has |
//! | `planning` | `plan_request` | has the next two stages done, and makes the plan |
//! | [`intake`] | `read_request` | reads the body, or the form |
//! | `admission` | (a function) | the caller's limits admit the request |
//! | `exchanging` | `run_exchange` | the upstreams answer: [`crate::exchange`] and [`relay`] |
//!
//! The stages use the other modules:
//!
//! | Module | What it has |
//! |---|---|
//! | [`connection`] | the callers' connections: their number, and their times |
//! | [`request_id`] | the id of a request, and its path as logs show it |
//! | [`door`] | the things that a caller may ask for |
//! | [`checks`] | the checks of a request's headers |
//! | `session_io` | reading from and writing to a session, with small futures |
//! | [`reply`] | the writing to one caller |
//! | [`relay`] | the caller's half of an exchange |
//! | [`record`] | what is known of an exchange, until it is settled |
//! | [`unpriced`] | the targets that were not asked for want of a price |

mod admission;
mod arrival;
pub mod auth;
pub mod checks;
pub mod connection;
mod count;
mod dispatch;
pub mod door;
mod exchanging;
pub mod gateway;
pub mod intake;
mod own;
mod planning;
pub mod record;
pub mod relay;
pub mod reply;
pub mod request_id;
mod session_io;
#[cfg(test)]
mod sizes;
mod token;
pub mod unpriced;

use crate::base::memory::Budget;
use crate::base::spool::Spool;
use crate::conf::config::Server;
use crate::error::{FailureKind, Refusal};
use crate::exchange::backends::Backends;
use crate::exchange::producer::{Request, Sent};
use pingora_proxy::Session;
use record::{Books, Record};
use reply::Reply;
use std::sync::Arc;

/// The desk. A process has one of these.
pub struct Desk {
    /// The settings of `conf/server.yaml`.
    pub settings: Arc<Server>,
    /// The logs, the ledger, the metrics and the live catalog.
    pub books: Arc<Books>,
    /// The connector to providers, the caches of thoughts and items, and the store.
    pub backends: Arc<Backends>,
    /// The budget of memory for requests and buffered answers.
    pub memory: Arc<Budget>,
    /// The temporary files of large bodies.
    pub spool: Arc<Spool>,
}

/// A request that was read, with the plan of the targets that may be tried.
struct Planned {
    request: Request,
    /// The request's body or form, and the memory that it holds.
    body: Sent,
}

impl Desk {
    /// Returns the writer to this caller.
    fn reply<'x>(&'x self, session: &'x mut Session, record: &'x mut Record) -> Reply<'x> {
        Reply {
            session,
            record,
            settings: &self.settings,
            drain: &self.books.drain,
        }
    }

    /// Counts a panic of ours, and returns the refusal for the caller.
    fn panicked(&self) -> Refusal {
        self.books.metrics.process.panics.inc();
        Refusal::new(
            FailureKind::Internal,
            "The gateway failed. Try again. If it fails again, give the gateway's operator the request id.",
        )
    }
}
