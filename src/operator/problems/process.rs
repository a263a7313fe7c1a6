//! The rules about the process itself, its ledger, its store and its listeners.

use super::facts::Facts;
use super::words::{cut_reason, duration_text};
use super::{DAY, Finding, HOUR, MINUTE, Rule, SECOND};
use crate::base::descriptors::REMEDY;
use crate::base::units::format_count;
use crate::status::{LedgerState, Severity, StoreState};

/// Lines and rows that were dropped are reported for this time.
const DROPPED: u64 = 5 * MINUTE;
/// Connections that were closed at once are reported for this time.
const REFUSED: u64 = MINUTE;
/// Counts that could not be read are reported for this time, although they are mended sooner.
const UNREADABLE: u64 = MINUTE;
/// A panic is reported for this time.
const PANIC: u64 = HOUR;
/// A store that is down for less than this is no problem: requests do not wait for it.
const DOWN: u64 = 5 * SECOND;
/// A certificate must be replaced within this time.
const REPLACE: u64 = 14 * DAY;
/// A certificate must be replaced now.
const REPLACE_NOW: u64 = 3 * DAY;
/// Clocks that differ by less agree.
const CLOCKS: u64 = 5 * SECOND;

/// Finds problems of the process.
pub(super) fn find_process_problems(facts: &Facts, found: &mut Vec<Finding>) {
    find_store_problems(facts, found);
    find_unreadable(facts, found);
    find_ledger_problem(facts, found);
    find_lack(facts, found);
    find_issuer_problems(facts, found);
    let now = facts.now;
    let lines = facts.rises.lines;
    if lines.is_within(DROPPED, now) {
        let summary = format!(
            "{} lost: they could not be written, or not fast enough.",
            count_were(lines.total, "access line")
        );
        let remedy = "Look at the place that `log.access` in server.yaml names: a full disk, a closed pipe, or a reader \
                      that has stopped.";
        found.push(Finding::new(
            Rule::AccessLinesDropped,
            Severity::Warning,
            PROCESS,
            summary,
            remedy,
        ));
    }
    let panics = facts.rises.panics;
    if panics.is_within(PANIC, now) {
        let summary = format!(
            "The gateway has a bug, and {} ended in it since the start.",
            format_count(panics.total, "exchange")
        );
        let remedy = "Report it, with the lines of the log that begin at `panicked`. Other requests are not concerned.";
        found.push(Finding::new(
            Rule::Panics,
            Severity::Critical,
            PROCESS,
            summary,
            remedy,
        ));
    }
    for (listener, why) in &facts.uncertified {
        let summary = format!(
            "The listener {listener} has no certificate, so nobody can connect there: {}.",
            cut_reason(why)
        );
        let remedy = "Put the certificate and its key where `listen` in server.yaml names them, as regular files. They are \
                      read within a second, without a restart.";
        let subject = ("listener", listener.as_str());
        found.push(Finding::new(
            Rule::NoCertificate,
            Severity::Critical,
            subject,
            summary,
            remedy,
        ));
    }
    for certificate in facts
        .certificates
        .iter()
        .filter(|certificate| certificate.ends.saturating_sub(now) < REPLACE)
    {
        let left = certificate.ends.saturating_sub(now);
        let severity = if left < REPLACE_NOW {
            Severity::Critical
        } else {
            Severity::Warning
        };
        let listener = &certificate.listener;
        let summary = match left {
            0 => format!(
                "The certificate of the listener {listener} has ended: callers do not connect any more."
            ),
            _ => format!(
                "The certificate of the listener {listener} ends in {}.",
                duration_text(left)
            ),
        };
        let remedy = "Put a new certificate and its key where `listen` in server.yaml names them, and send SIGHUP.";
        let subject = ("listener", listener.as_str());
        found.push(Finding::new(
            Rule::CertificateEnds,
            severity,
            subject,
            summary,
            remedy,
        ));
    }
    if let Some(address) = &facts.open_admin {
        let summary = format!(
            "The admin listener is on {address}, and whoever reaches it may read it: it asks for no key."
        );
        let remedy = "Write `admin: { key: { env: … } }` in server.yaml, or an address that only operators reach, such as \
                      127.0.0.1:9090.";
        found.push(Finding::new(
            Rule::AdminOpen,
            Severity::Warning,
            ("listener", address.as_str()),
            summary,
            remedy,
        ));
    }
}

const PROCESS: (&str, &str) = ("process", "portcullis");

fn count_were(number: u64, noun: &str) -> String {
    format!(
        "{} {}",
        format_count(number, noun),
        if number == 1 { "was" } else { "were" }
    )
}

fn find_lack(facts: &Facts, found: &mut Vec<Finding>) {
    let limit = facts.descriptors.limit;
    let refused = facts.rises.refused;
    let summary = match facts.descriptors.connections {
        _ if facts.descriptors.is_lacking => format!(
            "The gateway may have {limit} files open and has them, so it makes no further connection: requests are refused with 503."
        ),
        Some(possible) if refused.is_within(REFUSED, facts.now) => format!(
            "The gateway may have {limit} files open, so callers have at most {possible} connections: {} closed at once since the start.",
            count_were(refused.total, "connection")
        ),
        Some(_) | None => return,
    };
    let remedy = format!("{REMEDY}, and restart. No provider is at fault.");
    found.push(Finding::new(
        Rule::NoDescriptors,
        Severity::Critical,
        PROCESS,
        summary,
        remedy,
    ));
}

fn find_store_problems(facts: &Facts, found: &mut Vec<Finding>) {
    let Some(store) = &facts.store else { return };
    let address = &*store.address;
    let down_for = store.for_seconds.saturating_mul(SECOND);
    let since = facts.now.saturating_sub(down_for);
    match store.state {
        StoreState::Up => {
            let ahead = store.clock_ahead_ms;
            if ahead.unsigned_abs() >= CLOCKS {
                let (one, other) = if ahead > 0 {
                    ("behind", "store's")
                } else {
                    ("ahead of", "store's")
                };
                let summary = format!(
                    "This gateway's clock is {} {one} the {other}.",
                    duration_text(ahead.unsigned_abs())
                );
                let remedy = "Let NTP set the clocks of both machines. Limits by the day and the month, and the ends of \
                              keys, go by this gateway's clock.";
                found.push(Finding::new(
                    Rule::ClockOff,
                    Severity::Warning,
                    ("process", "clock"),
                    summary,
                    remedy,
                ));
            }
        }
        StoreState::Joining => {
            let summary = format!(
                "The store {address} answers, but other gateways have not sent their counts: each uses its share of each limit."
            );
            found.push(store_down(Severity::Warning, address, summary, since));
        }
        StoreState::Down => {
            let why = store
                .error
                .as_deref()
                .map(|why| format!(": {}", cut_reason(why)))
                .unwrap_or_default();
            let summary = format!("The store {address} is down, so gateways share no limits{why}.");
            found.push(store_down(Severity::Critical, address, summary, since));
        }
    }
}

fn store_down(severity: Severity, address: &str, message: String, since: u64) -> Finding {
    let remedy = "Look whether the server that `store` in server.yaml names runs and can be reached. Until it is back, \
                  `store.on_store_down` decides over requests with limits.";
    let subject = ("store", address);
    Finding::new(Rule::StoreDown, severity, subject, message, remedy)
        .lasting_since(since)
        .must_last(DOWN)
}

fn find_unreadable(facts: &Facts, found: &mut Vec<Finding>) {
    let Some(store) = &facts.store else { return };
    let Some(scope) = &store.unreadable.scope else {
        return;
    };
    if store.unreadable.waiting == 0 && !facts.rises.unreadable.is_within(UNREADABLE, facts.now) {
        return;
    }
    let summary = format!(
        "The store had counts of {scope} that could not be read: they were removed, and each gateway sends its own again."
    );
    let remedy = "Look whether another program writes under `store.prefix` in server.yaml, and give it another prefix or \
                  another server. Until all gateways have sent theirs, limits may let a little more pass.";
    let subject = ("store", store.address.as_str());
    found.push(Finding::new(
        Rule::CountsUnreadable,
        Severity::Warning,
        subject,
        summary,
        remedy,
    ));
}

fn find_ledger_problem(facts: &Facts, found: &mut Vec<Finding>) {
    let ledger = &facts.ledger;
    let is_failing = ledger.state == LedgerState::Failing;
    let rows = facts.rises.rows;
    if !is_failing && !rows.is_within(DROPPED, facts.now) {
        return;
    }
    let dropped = if rows.total > 0 {
        format!("; {} lost", count_were(rows.total, "row"))
    } else {
        String::new()
    };
    let summary = match (&ledger.problem, is_failing) {
        (Some(why), _) => format!(
            "The ledger cannot be written{dropped}: {}.",
            cut_reason(why)
        ),
        (None, true) => format!("The ledger cannot be written{dropped}."),
        (None, false) => {
            format!("The ledger can be written again{dropped}, and their use is in no report.")
        }
    };
    let remedy = format!(
        "Mend what the reason names; else look at the disk, and at the rights of {}. Rows wait in memory for a while, and are \
         written when the file can be.",
        ledger.path
    );
    found.push(Finding::new(
        Rule::LedgerFailing,
        Severity::Critical,
        ("ledger", "ledger"),
        summary,
        remedy,
    ));
}

/// Finds issuers of tokens whose keys cannot be fetched.
fn find_issuer_problems(facts: &Facts, found: &mut Vec<Finding>) {
    for issuer in &facts.issuers {
        let left = issuer
            .usable_until
            .map(|until| until.saturating_sub(facts.now));
        let (severity, then) = match left {
            Some(1..) => {
                let left = duration_text(left.unwrap_or_default());
                let then = format!("The keys that were fetched before are used for {left} more");
                (Severity::Warning, then)
            }
            Some(0) | None => {
                let then = "No keys are known that may be used, and its tokens get 503".to_owned();
                (Severity::Critical, then)
            }
        };
        let summary = format!(
            "The keys of the issuer of callers' tokens cannot be fetched: {}. {then}.",
            cut_reason(&issuer.reason)
        );
        let remedy = "Look whether the issuer is reached from here, and whether `issuer` or `jwks` is right. `portcullis doctor` fetches \
                      the keys, too. Keys of the catalog are not concerned.";
        let subject = ("identity", issuer.identity.clone());
        let finding = Finding::new(Rule::IdentityKeys, severity, subject, summary, remedy);
        found.push(finding.lasting_since(issuer.since));
    }
}
