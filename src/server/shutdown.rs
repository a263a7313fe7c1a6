//! The shutdown: signals, the drain, and the end of the process.
//!
//! Pingora's own shutdown always sleeps for the whole grace, and ignores a second signal. So a
//! thread of its own ends the process as soon as no exchange is left.

use super::terminal::Terminal;
use crate::base::units::format_count;
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

/// The exit status after a second signal, as shells have it for an interrupt.
const INTERRUPTED: i32 = 130;
/// The exit status if the drain could not be begun.
const FAILED: i32 = 1;
/// The most time that exchanges have to tell their callers, after they are cut off at the end of
/// the grace. With the time to write what waits, it is within the 8 s that the book promises.
pub(super) const CUT_TIMEOUT: Duration = Duration::from_secs(5);
/// If none of them ends for so long, the others will not either.
const STALL_TIMEOUT: Duration = Duration::from_secs(3);
/// The time that exchanges have after a second signal.
const LAST_LINES_TIMEOUT: Duration = Duration::from_millis(250);
/// The exit code if exchanges were cut without an error for their callers.
const CUT_WITHOUT_ERROR: i32 = 3;
/// The time that the last spans have to be sent.
const LAST_SPANS_TIMEOUT: Duration = Duration::from_secs(2);

/// Handles SIGTERM and SIGINT: the first one drains, the second one ends the process. That the
/// terminal is closed drains, too.
pub(super) struct Signals {
    pub(super) process: Process,
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) terminal: Terminal,
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
        let reason = tokio::select! {
            () = either_signal(&mut term, &mut int) => " on a signal",
            () = self.terminal.wait_until_closed() => ", since its terminal was closed",
        };
        let drain = self.process.settings.drain;
        self.supervisor.announce_stop(drain.delay + drain.grace);
        self.process.books.drain.enter(Phase::Delaying);
        self.process
            .backends
            .store
            .iter()
            .for_each(|store| store.hurry());
        let (run, time) = (
            self.process.books.drain.exchanges(),
            drain.delay + drain.grace,
        );
        let (run, verbs) = (
            format_count(run, "exchange"),
            if run == 1 {
                "runs and has"
            } else {
                "run and have"
            },
        );
        let message = format!(
            "stopping{reason}: {run} {verbs} {time:?} to end; a second signal ends the process at once"
        );
        log_briefly(log::Level::Info, message);
        tokio::select! {
            () = tokio::time::sleep(drain.delay) => {}
            () = either_signal(&mut term, &mut int) => {
                cut_exchanges(&self.process, LAST_LINES_TIMEOUT).await;
                log_undelivered(&self.process);
                end_process(&self.process, INTERRUPTED)
            }
        }
        self.process.books.drain.enter(Phase::Draining);
        let process = self.process.clone();
        // The thread gets the same receivers, so that a signal that arrives just now is not lost.
        let closer = std::thread::Builder::new()
            .name("drain".to_owned())
            .spawn(move || drain_and_end(&process, term, int));
        if let Err(why) = closer {
            log::error!("cannot start the drain's thread: {why}");
            end_process(&self.process, FAILED);
        }
        ShutdownSignal::GracefulTerminate
    }
}

/// Waits for either signal.
async fn either_signal(term: &mut Signal, int: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

/// Waits for the exchanges, for the end of the grace, or for a second signal; then ends the
/// process.
fn drain_and_end(process: &Process, mut term: Signal, mut int: Signal) {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(why) => {
            log::error!("cannot wait for running exchanges: {why}");
            end_process(process, FAILED);
        }
    };
    let code = runtime.block_on(async {
        let drained = async {
            // The listeners close at the same moment. Exchanges that they accepted just before
            // count too.
            tokio::time::sleep(Duration::from_millis(20)).await;
            if tokio::time::timeout(
                process.settings.drain.grace,
                process.books.drain.wait_until_idle(),
            )
            .await
            .is_err()
            {
                let run = process.books.drain.exchanges();
                let message = format!(
                    "{} did not end in time: they are cut with an error",
                    format_count(run, "exchange")
                );
                log_briefly(log::Level::Warn, message);
                cut_exchanges(process, CUT_TIMEOUT).await;
                return log_undelivered(process);
            }
            0
        };
        tokio::select! {
            code = drained => code,
            () = either_signal(&mut term, &mut int) => {
                cut_exchanges(process, LAST_LINES_TIMEOUT).await;
                log_undelivered(process);
                130
            }
        }
    });
    end_process(process, code);
}

/// Cuts off the exchanges that still run, and waits until they are settled. Gives up if none of
/// them ends any more.
async fn cut_exchanges(process: &Process, timeout: Duration) {
    let drain = &process.books.drain;
    drain.enter(Phase::Cutting);
    process
        .books
        .traces
        .iter()
        .for_each(|traces| traces.hurry());
    tokio::select! {
        () = drain.wait_until_idle() => {}
        () = drain.wait_until_stalled(STALL_TIMEOUT) => {}
        () = tokio::time::sleep(timeout) => {}
    }
}

/// Logs how many exchanges were cut without an error for their callers, and settles those that
/// still run. Returns the exit code.
fn log_undelivered(process: &Process) -> i32 {
    let Books { drain, .. } = &*process.books;
    let (run, left) = (drain.exchanges(), drain.undelivered() + drain.exchanges());
    if left == 0 {
        return 0;
    }
    let (settled, were) = (
        process.books.abandon(),
        if left == 1 { "was" } else { "were" },
    );
    let mut message = format!(
        "{} {were} cut without an error: their callers did not read it, or the process had no time for them",
        format_count(left, "exchange")
    );
    if run > settled {
        message += &format!(
            "; {} of them had not been admitted, and have no access line",
            run - settled
        );
    }
    log_briefly(log::Level::Error, message);
    CUT_WITHOUT_ERROR
}

/// Logs a message, but waits only for a short time: the reader of the log may have stopped for
/// good, and the process must end all the same.
fn log_briefly(level: log::Level, message: String) {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new()
        .name("last-words".to_owned())
        .spawn(move || {
            log::log!(level, "{message}");
            // If the other side no longer waits, the result is not needed.
            sender.send(()).ok();
        });
    if thread.is_ok() {
        receiver.recv_timeout(LAST_LINES_TIMEOUT).ok();
    }
}

/// Ends the process after everything is written.
fn end_process(process: &Process, code: i32) -> ! {
    // Spans are sent while the rest is written.
    process
        .books
        .traces
        .iter()
        .for_each(|traces| traces.hurry());
    process.books.access_log.flush();
    process.books.ledger.finish();
    let trace_timeout = if code == 0 {
        LAST_SPANS_TIMEOUT
    } else {
        LAST_LINES_TIMEOUT
    };
    let unsent = process
        .books
        .traces
        .as_ref()
        .map_or(0, |traces| traces.finish(trace_timeout));
    if unsent > 0 {
        let were = if unsent == 1 {
            "span was"
        } else {
            "spans were"
        };
        log_briefly(
            log::Level::Warn,
            format!("{unsent} {were} not sent before the process ended"),
        );
    }
    if let Some(store) = &process.backends.store {
        store.leave();
    }
    let lost = process.books.ledger.status().waiting;
    if lost > 0 {
        let message = format!(
            "{lost} rows of the ledger are lost, because it could not be written before the process ended"
        );
        log_briefly(log::Level::Error, message);
    }
    log_briefly(log::Level::Info, "stopped".to_owned());
    #[expect(
        clippy::exit,
        clippy::disallowed_methods,
        reason = "the one place where a serving process ends: nothing that must be dropped is left"
    )]
    std::process::exit(code)
}
