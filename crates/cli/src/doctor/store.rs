//! Checks of the store that several gateways share: whether it can be reached and written to, and
//! whether its version and its settings keep counts.

use std::time::SystemTime;

use super::clock::Clocks;
use super::report::{Checked, Finding, Findings, Subject};
use super::words::size_text;
use portcullis::conf::config::Store;
use portcullis::store::{StoreFacts, probe_store as look_at};

/// The first version that has all commands.
const OLDEST: u32 = 6;

/// Looks at the store.
pub(super) async fn check_store(settings: &Store, clocks: &mut Clocks, report: &mut Findings) {
    let subject = || Subject::single("store");
    let before = SystemTime::now();
    let seen = match look_at(settings).await {
        Ok(seen) => seen,
        Err(why) => {
            report.add(subject().fail(
                "reached",
                format!("{}: {why}", settings.address),
                "until it is up, `store.on_store_down` decides over requests with limits",
            ));
            return;
        }
    };
    if let Some(ms) = seen.clock_ms {
        clocks.add("the store".to_owned(), before, ms);
    }
    let program = seen
        .program
        .as_deref()
        .unwrap_or("a server that does not tell its version");
    report.add(subject().ok(
        "reached",
        format!("{} is {program}, and can be written to", settings.address),
    ));
    report.add(match seen.major {
        Some(major) if major < OLDEST => subject().fail(
            "version",
            format!("{program} is too old"),
            "it must be Redis or Valkey, version 6 or later",
        ),
        Some(_) => subject().ok("version", format!("{program} is new enough")),
        None => subject().skip("version", "the user in `store.redis` may not run INFO"),
    });
    report.add(policy_finding(&seen).unwrap_or_else(|| {
        subject().skip(
            "eviction",
            "the server does not tell its `maxmemory-policy`",
        )
    }));
}

/// Judges what the store does when its memory is full.
fn policy_finding(seen: &StoreFacts) -> Option<Finding> {
    let policy = seen.policy.as_deref()?;
    let subject = Subject::single("store");
    let bound = match seen.max_memory {
        Some(0) | None => "without a `maxmemory`".to_owned(),
        Some(bytes) => format!("with a `maxmemory` of {}", size_text(bytes)),
    };
    let seen = format!("`maxmemory-policy` is {policy}, {bound}");
    Some(if policy == "noeviction" {
        subject.ok("eviction", seen)
    } else {
        subject.warn("eviction", seen, "when it is full it drops counts, and callers use more than they may: set `maxmemory-policy noeviction` in the store")
    })
}
