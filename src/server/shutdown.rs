//! The shutdown: signals, the drain, and the end of the process.
//!
//! Pingora's own shutdown always sleeps for the whole grace, and ignores a second signal. So a
//! thread of its own ends the process as soon as no exchange is left.

use crate::base::units::count;
use crate::desk::record::Books;
use crate::drain::Phase;
use crate::process::Process;
use crate::supervisor::Supervisor;
use async_trait::async_trait;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The most time that exchanges have to tell their callers, after they are cut off at the end of
/// the grace. With the time to write what waits, it is within the 8 s that the book promises.
pub(super) const CUT: Duration = Duration::from_secs(5);
/// If none of them ends for so long, the others will not either.
const CUT_STALL: Duration = Duration::from_secs(3);
/// The time that exchanges have after a second signal.
const LAST_LINES: Duration = Duration::from_millis(250);
/// The exit code if exchanges were cut without an error for their callers.
const CUT_WITHOUT_ERROR: i32 = 3;
/// The time that the last spans have to be sent.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// Handles SIGTERM and SIGINT: the first one drains, the second one ends the process.
pub(super) struct Signals {
    pub(super) process: Process,
    pub(super) supervisor: Arc<Supervisor>,
}

#[async_trait]
impl ShutdownSignalWatch for Signals {
    async fn recv(&self) -> ShutdownSignal {
        let (Ok(mut term), Ok(mut int)) = (
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
        ) else {
            log::error!("cannot listen for signals");
            return ShutdownSignal::FastShutdown;
        };
        either(&mut term, &mut int).await;
        let drain = self.process.settings.drain;
        self.supervisor.stops(drain.delay + drain.grace);
        self.process.books.drain.enter(Phase::Delaying);
        let (run, time) = (
            self.process.books.drain.exchanges(),
            drain.delay + drain.grace,
        );
        let (run, verbs) = (
            count(run, "exchange"),
            if run == 1 {
                "runs and has"
            } else {
                "run and have"
            },
        );
        let what = format!(
            "stopping on a signal: {run} {verbs} {time:?} to end; a second signal ends the process at once"
        );
        say(log::Level::Info, what);
        tokio::select! {
            () = tokio::time::sleep(drain.delay) => {}
            () = either(&mut term, &mut int) => {
                cut(&self.process, LAST_LINES).await;
                tell_untold(&self.process);
                end(&self.process, 130)
            }
        }
        self.process.books.drain.enter(Phase::Draining);
        let process = self.process.clone();
        // The thread gets the same receivers, so that a signal that arrives just now is not lost.
        let closer = std::thread::Builder::new()
            .name("drain".to_owned())
            .spawn(move || close(&process, term, int));
        if let Err(why) = closer {
            log::error!("cannot start the drain's thread: {why}");
            end(&self.process, 1);
        }
        ShutdownSignal::GracefulTerminate
    }
}

/// Waits for either signal.
async fn either(term: &mut Signal, int: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

/// Waits for the exchanges, for the end of the grace, or for a second signal; then ends the
/// process.
fn close(process: &Process, mut term: Signal, mut int: Signal) {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(why) => {
            log::error!("cannot wait for running exchanges: {why}");
            end(process, 1);
        }
    };
    let code = runtime.block_on(async {
        let drained = async {
            // The listeners close at the same moment. Exchanges that they accepted just before
            // count too.
            tokio::time::sleep(Duration::from_millis(20)).await;
            if tokio::time::timeout(process.settings.drain.grace, process.books.drain.idle())
                .await
                .is_err()
            {
                let run = process.books.drain.exchanges();
                let what = format!(
                    "{} did not end in time: they are cut with an error",
                    count(run, "exchange")
                );
                say(log::Level::Warn, what);
                cut(process, CUT).await;
                return tell_untold(process);
            }
            0
        };
        tokio::select! {
            code = drained => code,
            () = either(&mut term, &mut int) => {
                cut(process, LAST_LINES).await;
                tell_untold(process);
                130
            }
        }
    });
    end(process, code);
}

/// Cuts off the exchanges that still run, and waits until they are settled. Gives up if none of
/// them ends any more.
async fn cut(process: &Process, patience: Duration) {
    let drain = &process.books.drain;
    drain.enter(Phase::Cutting);
    process
        .books
        .traces
        .iter()
        .for_each(|traces| traces.hurry());
    tokio::select! {
        () = drain.idle() => {}
        () = drain.stalled(CUT_STALL) => {}
        () = tokio::time::sleep(patience) => {}
    }
}

/// Tells how many exchanges were cut without an error for their callers, and settles those that
/// still run. Returns the exit code.
fn tell_untold(process: &Process) -> i32 {
    let Books { drain, .. } = &*process.books;
    let (run, left) = (drain.exchanges(), drain.untold() + drain.exchanges());
    if left == 0 {
        return 0;
    }
    let (settled, were) = (
        process.books.abandon(),
        if left == 1 { "was" } else { "were" },
    );
    let mut what = format!(
        "{} {were} cut without an error: their callers did not read it, or the process had no time for them",
        count(left, "exchange")
    );
    if run > settled {
        what += &format!(
            "; {} of them had not been admitted, and have no access line",
            run - settled
        );
    }
    say(log::Level::Error, what);
    CUT_WITHOUT_ERROR
}

/// Logs a message, but waits only for a short time: the reader of the log may have stopped for
/// good, and the process must end all the same.
fn say(level: log::Level, what: String) {
    let (said, heard) = channel();
    let thread = std::thread::Builder::new()
        .name("last-words".to_owned())
        .spawn(move || {
            log::log!(level, "{what}");
            // If the other side no longer waits, the result is not needed.
            said.send(()).ok();
        });
    if thread.is_ok() {
        heard.recv_timeout(LAST_LINES).ok();
    }
}

/// Ends the process after everything is written.
fn end(process: &Process, code: i32) -> ! {
    // Spans are sent while the rest is written.
    process
        .books
        .traces
        .iter()
        .for_each(|traces| traces.hurry());
    process.books.access_log.flush();
    process.books.ledger.finish();
    let patience = if code == 0 { LAST_SPANS } else { LAST_LINES };
    let unsent = process
        .books
        .traces
        .as_ref()
        .map_or(0, |traces| traces.finish(patience));
    if unsent > 0 {
        let were = if unsent == 1 {
            "span was"
        } else {
            "spans were"
        };
        say(
            log::Level::Warn,
            format!("{unsent} {were} not sent before the process ended"),
        );
    }
    if let Some(store) = &process.backends.store {
        store.leave();
    }
    let lost = process.books.ledger.status().waiting;
    if lost > 0 {
        let what = format!(
            "{lost} rows of the ledger are lost, because it could not be written before the process ended"
        );
        say(log::Level::Error, what);
    }
    say(log::Level::Info, "stopped".to_owned());
    #[expect(
        clippy::exit,
        clippy::disallowed_methods,
        reason = "the one place where a serving process ends: nothing that must be dropped is left"
    )]
    std::process::exit(code)
}
