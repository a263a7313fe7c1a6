//! The task that holds the connection: it opens the connection, keeps it, and tries again when the
//! connection is lost.

use super::Core;
use super::link::Link;
use super::session::Session;
use crate::base::clock::Clock;
use crate::tls::trust::Trust;

/// Keeps the connection until the process leaves.
pub(super) async fn keep_connected(core: &Core) {
    let tls = core
        .settings
        .address
        .tls
        .then(|| Trust::new(core.settings.ca.as_deref().map(str::as_bytes), &[]));
    let process = format!("{:016x}", fastrand::u64(..));
    loop {
        if wait_for_retry(core).await {
            return;
        }
        match run_session(core, tls.as_ref(), &process).await {
            Ok(()) => return,
            Err(why) => {
                core.meters.errors.inc();
                core.inbox
                    .lock()
                    .circuit
                    .note_failed(Clock::now(), fastrand::f64());
                core.take_out(&why);
            }
        }
    }
}

/// Opens a connection, and keeps it until the process leaves. An error says why the connection is
/// lost.
async fn run_session(core: &Core, tls: Option<&Trust>, process: &str) -> Result<(), String> {
    let link = Link::open(&core.settings, tls).await?;
    Session::new(core, link, process).run().await
}

/// Waits until the next try is due. Returns true if the process leaves, and no try is to follow.
async fn wait_for_retry(core: &Core) -> bool {
    loop {
        let due = {
            let inbox = core.inbox.lock();
            if inbox.is_leaving {
                return true;
            }
            inbox.circuit.due().filter(|due| *due > Clock::now())
        };
        let Some(due) = due else { return false };
        tokio::select! {
            () = Clock::sleep_until(due) => {}
            () = core.work.notified() => {}
        }
    }
}
