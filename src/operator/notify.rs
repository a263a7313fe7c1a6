//! Tells somebody of problems that come and go: a notice is a POST to a webhook.
//!
//! A notice is sent at most once a minute, and has all changes since the one before. If the
//! receiver does not take it, it is sent again later, with what has changed meanwhile. No request
//! waits for it, nor does the shutdown. **Invariant:** the webhook's URL is in no message.

mod pending;

use super::watch::Watch;
use crate::account::failure::Failure;
use crate::base::alarm::Alarm;
use crate::base::calendar;
use crate::base::clock::{Clock, Round};
use crate::conf::config::{LeastSeverity, Notify, Webhook};
use crate::exchange::attempt::Attempt;
use crate::exchange::backends::Backends;
use crate::exchange::outgoing::{Outgoing, own_id};
use crate::live::ready_account::{MESSAGE_TIMEOUT, ReadyAccount, webhook_account};
use crate::status::Severity;
use bytes::Bytes;
use pending::Pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The time between two looks for changes.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Sends notices, for ever.
pub async fn send_notices(settings: &Notify, watch: &Watch, backends: &Backends, instance: &str) {
    let mut pending = Pending::default();
    let mut failed = false;
    loop {
        let observation = watch.observe();
        let noticed = observation.noticed.iter();
        let severe =
            noticed.filter(|one| one.is_problem && is_severe(one.finding.severity, settings.least));
        pending.observe(severe, calendar::now_millis());
        if let Some(notice) = pending.due_notice(instance, calendar::now_millis()) {
            let sent = post_notice(&settings.webhook, backends, notice).await;
            pending.note_try(sent.is_ok(), calendar::now_millis());
            match sent {
                Ok(()) if failed => log::info!("notices of problems can be sent again"),
                Ok(()) => {}
                Err(why) if !failed => {
                    log::warn!(
                        "a notice of problems could not be sent ({why}): it is sent again later, to the address in `notify.webhook`"
                    );
                }
                Err(_) => {}
            }
            failed = pending.is_failing();
        }
        Clock::pause(Round::Notices, LOOK_INTERVAL).await;
    }
}

fn is_severe(severity: Severity, least: LeastSeverity) -> bool {
    match least {
        LeastSeverity::Warning => true,
        LeastSeverity::Critical => severity == Severity::Critical,
    }
}

/// Sends one notice. The error has no part of the address, and no text of the receiver's answer.
async fn post_notice(webhook: &Webhook, backends: &Backends, notice: String) -> Result<(), String> {
    // Names are resolved anew each time, and no connection is kept: notices are rare.
    let ready_account = Arc::new(ReadyAccount::standalone(
        webhook_account("notify", webhook, "application/json"),
        &backends.server.proxies,
    ));
    let due = Instant::now() + MESSAGE_TIMEOUT;
    let id = own_id();
    let timeouts = ready_account.account.timeouts;
    let outgoing = Outgoing {
        body: &[Bytes::from(notice)],
        ..Outgoing::own(&id, webhook.target.expose(), timeouts, due)
    };
    let mut alarm = Alarm::default();
    let permit = ready_account.state.admit().map(Arc::new).ok_or("no room")?;
    let name = |failure: Failure| failure.name().to_owned();
    let mut attempt = Attempt::connect_and_send(
        &backends.upstream,
        &ready_account,
        permit,
        &outgoing,
        &mut alarm,
    )
    .await
    .map_err(name)?;
    let head = alarm
        .until(due, pin!(attempt.head()))
        .await
        .ok_or("it does not answer in time")?;
    let (status, _) = head.map_err(name)?;
    if status.is_success() {
        Ok(())
    } else {
        Err(format!("it answers {}", status.as_u16()))
    }
}
