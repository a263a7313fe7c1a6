//! The ground of the integration tests: a scripted upstream, the real gateway as a process, and
//! clients that see every byte.
//!
//! **Invariant:** nothing here sleeps for a time if it can wait for an observation, and every wait
//! has an end. A test is `run(async { … })`: mocks and clients live on one shared runtime, and each
//! test has its own ports and folder.

pub mod canary;
pub mod catalog;
pub mod client;
pub mod clock;
pub mod documented;
pub mod folder;
pub mod frames;
pub mod gateway;
pub mod http2;
pub mod issuer;
pub mod ledger;
pub mod metrics;
pub mod mock;
pub mod model_answers;
pub mod play;
pub mod process;
pub mod proxy;
pub mod redis;
pub mod script;
pub mod spans;
pub mod tls;
pub mod wire;

use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

pub use catalog::Catalog;
pub use client::{chat, chat_stream};
pub use gateway::Gateway;
pub use http2::H2;
pub use mock::Mock;
pub use model_answers::ModelAnswer;
pub use proxy::Proxy;
pub use script::{Gate, Script};

/// The longest time that anything that should happen at once may take. A machine that is several
/// times slower, or that stands still for some seconds, keeps it. What a test excludes with it
/// takes far longer, or never happens.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the folder of the repository. The package of these tests is `crates/cli`, in which Cargo
/// runs them.
pub fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).expect("the repository")
}

/// Returns whether each test runs all that it can (`make test-all`), and not only what a change
/// needs.
pub fn runs_all() -> bool {
    std::env::var_os("TEST_ALL").is_some()
}

static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime for the tests")
});

/// By how much a machine may be slower than one on which a test takes a minute. It is a factor of
/// all times that only end what hangs.
pub const SLOWER: u32 = 5;

/// Runs one test. A test that hangs fails after some minutes.
#[track_caller]
pub fn run<T>(test: impl Future<Output = T>) -> T {
    run_within(Duration::from_secs(60), test)
}

/// Runs one test as [`run`] does, for the few tests that must take longer than a minute.
#[track_caller]
pub fn run_within<T>(limit: Duration, test: impl Future<Output = T>) -> T {
    let limit = limit * SLOWER;
    RUNTIME
        .block_on(async { tokio::time::timeout(limit, test).await })
        .unwrap_or_else(|_| panic!("the test hung: it was not over after {limit:?}"))
}

/// Starts a task on the runtime of the tests.
pub fn spawn<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    RUNTIME.spawn(task)
}

/// Waits until `look` finds something.
pub async fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    eventually_within(PATIENCE, what, look).await
}

/// Waits as [`eventually`] does, for what takes some seconds on any machine.
pub async fn eventually_within<T>(
    limit: Duration,
    what: &str,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain: {what}");
        // To look costs the processor time for which others wait.
        let pause =
            (start.elapsed() / 8).clamp(Duration::from_millis(5), Duration::from_millis(50));
        tokio::time::sleep(pause).await;
    }
}

/// Waits as [`eventually`] does, outside of async code. The last reason is part of the message.
pub fn eventually_blocking<T>(
    what: &str,
    mut look: impl FnMut() -> Result<T, String>,
) -> Result<T, String> {
    let start = Instant::now();
    loop {
        match look() {
            Ok(found) => return Ok(found),
            Err(why) if start.elapsed() > PATIENCE => return Err(format!("{what}: {why}")),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Returns whether a deadline ended a wait: not before its time, and so soon after it that nothing
/// else did. The next deadline that could end the wait must be later than that.
pub fn is_about(what: Duration, wanted: Duration) -> bool {
    what >= wanted.mul_f64(0.9) && what <= wanted + PATIENCE
}

/// Runs all futures side by side in this task, and returns their values.
pub async fn join_all<T>(futures: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut pinned: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<T>> = pinned.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, slot) in pinned.iter_mut().zip(&mut done) {
            if slot.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *slot = Some(value);
            }
        }
        if done.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}
