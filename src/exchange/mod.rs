//! An exchange is the life of one request, from its first byte until it is settled. This module is
//! its half that faces the upstreams: attempts, until one commits.
//!
//! The two halves never mix: the [`producer`] never sees the caller, and only the relay
//! ([`crate::desk::relay`]) writes to the caller. The loop over attempts is ours and not Pingora's
//! proxy loop, because that loop picks the upstream before the body is read, keeps 64 KiB of the
//! body for a second try, and sends the head before any of the answer is seen.

pub mod admission;
pub mod advice;
pub mod attempt;
pub mod backends;
pub mod choose;
pub mod count;
pub mod credential;
pub mod headers;
pub mod http1;
mod items;
pub mod lists;
pub mod outgoing;
pub mod producer;
mod secure;
mod tunnel;
pub mod upload;
pub mod upstream;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

/// The error for a panic, which is our fault.
pub struct Panicked;

/// The time that an exchange spent running, as opposed to waiting.
#[derive(Default)]
pub struct OwnTime(AtomicU64);

impl OwnTime {
    /// Returns the time so far, without the present poll.
    pub fn so_far(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Runs a future and adds up the time that it ran, as opposed to waited. A panic of the future ends
/// only the exchange.
pub fn run_guarded<F: Future>(
    own: &OwnTime,
    mut future: Pin<&mut F>,
) -> impl Future<Output = Result<F::Output, Panicked>> {
    std::future::poll_fn(move |context| {
        let began = Instant::now();
        // Nothing that a panic may leave half-done is used again: the exchange ends with it, and
        // guards give back what it held.
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        own.0.fetch_add(nanos, Ordering::Relaxed);
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    })
}

/// Panics if a test asks for it, to see what a panic of ours costs. It does so only with the
/// feature `test-panics`.
pub(crate) fn panic_here(session: &pingora_proxy::Session, phase: &str) {
    let asked = || {
        session
            .req_header()
            .headers
            .get("x-test-panic")
            .is_some_and(|v| v.as_bytes() == phase.as_bytes())
    };
    assert!(
        !cfg!(feature = "test-panics") || !asked(),
        "asked for by x-test-panic"
    );
}
