//! The task that has the connection: opens it, keeps it, and tries again when it is lost.

use super::Inside;
use super::link::Link;
use super::session::{End, Session};
use crate::tls::trust::Trust;
use std::time::Instant;

/// Goes on until the process leaves.
pub(super) async fn drive(inside: &Inside) {
    let tls = inside.settings.address.tls.then(|| Trust::new(inside.settings.ca.as_deref().map(str::as_bytes), &[]));
    let process = format!("{:016x}", fastrand::u64(..));
    loop {
        if pause(inside).await {
            return;
        }
        match once(inside, tls.as_ref(), &process).await {
            End::Left => return,
            End::Lost(why) => {
                inside.meters.errors.inc();
                inside.desk().circuit.failed(Instant::now(), fastrand::f64());
                inside.out(&why);
            }
        }
    }
}

async fn once(inside: &Inside, tls: Option<&Trust>, process: &str) -> End {
    match Link::open(&inside.settings, tls).await {
        Ok(link) => Session::new(inside, link, process).run().await,
        Err(why) => End::Lost(why),
    }
}

/// Until the next try is due. True if there is to be none.
async fn pause(inside: &Inside) -> bool {
    loop {
        let due = {
            let desk = inside.desk();
            if desk.leaving {
                return true;
            }
            desk.circuit.due().filter(|due| *due > Instant::now())
        };
        let Some(due) = due else { return false };
        tokio::select! {
            () = tokio::time::sleep_until(due.into()) => {}
            () = inside.work.notified() => {}
        }
    }
}
