//! An exchange is the life of one request, from its first byte until it is settled. This module is
//! its half that faces the upstreams: attempts, until one commits.
//!
//! The two halves never mix: the [`producer`] never sees the caller, and only the relay
//! ([`crate::desk::relay`]) writes to the caller. The loop over attempts is ours and not Pingora's
//! proxy loop, because that loop picks the upstream before the body is read, keeps 64 KiB of the
//! body for a second try, and sends the head before any of the answer is seen.
//!
//! # What is held when
//!
//! An exchange takes values that give back what they stand for when they are dropped. So an answer,
//! a refusal, a caller who leaves and a panic all let go in the same way. In the order of taking:
//!
//! | Held | What it is | Taken by | Let go |
//! |---|---|---|---|
//! | the exchange | one in the drain's count | `Record::new` | the `Record` is dropped |
//! | entry | a place in `concurrency`, as the body comes | `Desk::plan_request` | the admission |
//! | request memory | bytes of the body, in the budget | `Desk::read_body` | `Producer::commit` |
//! | room | bytes of a form, in the spool's budget | `Desk::read_form` | commit, and form sent |
//! | reservation | amounts and a place in the limits | `admit_request` | `Record::settle` |
//! | meter | the use so far; the ledger reads it | `Record::meter` | the `Record` is dropped |
//! | run | the meter's place in the ledger | `Record::meter` | `Ledger::write` |
//! | slice memory | bytes of a request's slices | `Request::cut` | its exchange ends |
//! | ticket | a place in the queue for an account | `Producer::wait` | an attempt begins |
//! | guard | the breaker's pass of one attempt | `admit_attempt` | its outcome is recorded |
//! | permit | a place at the account | `admit_attempt` | the answer is whole, or in reserve |
//! | copy | bytes of the translated request | `Producer::pick` | a stream begins |
//! | connection | a connection to the account | `Attempt` | `Attempt::finish` keeps it |
//! | answer memory | bytes of a whole answer and the copy | `Opening` | the `Producer` is dropped |
//!
//! The last column is the usual case. Whatever is left goes when its holder is dropped:
//!
//! * The `Record` holds the reservation, the meter and the run. It is in the context that Pingora
//!   keeps for the request, and outlives everything below. `Record::settle` comes before the last
//!   byte of an answer leaves, so that a caller who waits for the end finds its place free. At the
//!   end of the process, `Books::abandon` settles what still runs: whoever claims the meter first
//!   does it.
//! * The `Producer` holds the memory of the request and of a buffered answer, and all attempts. It
//!   lives as long as [`producer::Producer::next`] is called, and is dropped before the `Record`. A
//!   request's memory counts as a request of its caller until then, even if it holds no byte.
//! * An attempt is a `Try` with its guard, and the future of an `Opening` with the permit and the
//!   copy. A stream goes on as a `Reading` with the connection, the permit, and memory for large
//!   events. A guard that is dropped without an outcome tells the breaker that nothing was learnt.
//!   A connection that is dropped is closed, or its HTTP/2 stream is reset.
//!
//! The budgets of retries and hedges, and a limit's requests, are spent and not held: nothing gives
//! them back. A count of tokens ([`count`]) is no exchange with attempts. It holds a `CountPermit`
//! of the key, the memory of the body, and one `Permit` for each account that is asked.

pub mod admission;
pub mod advice;
pub mod attempt;
pub mod backends;
pub mod choose;
pub mod count;
pub mod credential;
pub mod headers;
pub mod http1;
pub mod identity;
pub mod issuer_keys;
mod items;
pub mod lists;
pub mod outgoing;
pub mod producer;
mod secure;
mod tasks;
mod tunnel;
pub mod upload;
pub mod upstream;

use crate::base::clock::Clock;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

/// The error for a panic, which is our fault.
pub struct Panicked;

/// The time that an exchange spent running, as opposed to waiting; and the moment at which its
/// present poll began, which stands for the present time.
pub struct OwnTime {
    nanos: AtomicU64,
    /// The time at which the exchange began.
    began: Instant,
    /// The nanoseconds from then to the beginning of the present poll; zero if none is under way.
    poll: AtomicU64,
}

impl OwnTime {
    /// Begins to add up the time of an exchange that began then.
    pub fn from_beginning(began: Instant) -> OwnTime {
        OwnTime {
            nanos: AtomicU64::new(0),
            began,
            poll: AtomicU64::new(0),
        }
    }

    /// Returns the time so far, without the present poll.
    pub fn so_far(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    /// Returns the time at which the present poll began. A poll never waits, so this is the present
    /// time but for what the exchange itself has done, without another look at the clock.
    pub fn now(&self) -> tokio::time::Instant {
        let now = match self.poll.load(Ordering::Relaxed) {
            0 => Instant::now(),
            nanos => self.began + Duration::from_nanos(nanos),
        };
        now.into()
    }

    /// Returns the moment of [`OwnTime::now`] on the [`Clock`].
    pub fn clock(&self) -> Instant {
        Clock::time_at(self.now().into_std())
    }
}

/// Runs a future and adds up the time that it ran, as opposed to waited. A panic of the future ends
/// only the exchange.
pub fn run_guarded<F: Future>(
    own: &OwnTime,
    mut future: Pin<&mut F>,
) -> impl Future<Output = Result<F::Output, Panicked>> {
    std::future::poll_fn(move |context| {
        let began = nanos_since(own.began);
        own.poll.store(began, Ordering::Relaxed);
        // Nothing that a panic may leave half-done is used again: the exchange ends with it, and
        // guards give back what it held.
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        own.poll.store(0, Ordering::Relaxed);
        let nanos = nanos_since(own.began).saturating_sub(began);
        own.nanos.fetch_add(nanos, Ordering::Relaxed);
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    })
}

fn nanos_since(moment: Instant) -> u64 {
    u64::try_from(moment.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Panics if a test asks for it, to see what a panic of ours costs. It does so only with the
/// feature `test-panics`.
pub(crate) fn panic_if_asked(session: &pingora_proxy::Session, phase: &str) {
    if cfg!(feature = "test-panics") {
        let asked = session.req_header().headers.get("x-test-panic");
        let is_asked = asked.is_some_and(|asked| asked.as_bytes() == phase.as_bytes());
        assert!(!is_asked, "asked for by x-test-panic");
    }
}
