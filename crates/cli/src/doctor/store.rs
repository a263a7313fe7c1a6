//! Checks of the store that several gateways share: whether it can be reached and written to, and
//! whether its version and its settings keep counts.

use std::time::SystemTime;

use super::clock::Clocks;
use super::report::{Checked, Finding, Findings, Subject};
use super::words::size_text;
use portcullis::conf::config::Store;
use portcullis::store::{StoreFacts, probe_store};

/// The first major version that has all commands.
const MIN_MAJOR_VERSION: u32 = 6;

/// Checks the store.
pub(super) async fn check_store(settings: &Store, clocks: &mut Clocks, report: &mut Findings) {
    let subject = || Subject::single("store");
    let before = SystemTime::now();
    let facts = match probe_store(settings).await {
        Ok(facts) => facts,
        Err(why) => {
            report.add(subject().fail(
                "reached",
                format!("{}: {why}", settings.address),
                "until it is up, `store.on_store_down` decides what happens to requests with limits",
            ));
            return;
        }
    };
    if let Some(ms) = facts.clock_ms {
        clocks.add("the store".to_owned(), before, ms);
    }
    let program = facts
        .program
        .as_deref()
        .unwrap_or("a server that does not tell its version");
    report.add(subject().ok(
        "reached",
        format!("{} is {program}, and can be written to", settings.address),
    ));
    report.add(match facts.major {
        Some(major) if major < MIN_MAJOR_VERSION => subject().fail(
            "version",
            format!("{program} is too old"),
            "it must be Redis or Valkey, version 6 or later",
        ),
        Some(_) => subject().ok("version", format!("{program} is new enough")),
        None => subject().skip("version", "the user in `store.redis` may not run INFO"),
    });
    report.add(policy_finding(&facts).unwrap_or_else(|| {
        subject().skip(
            "eviction",
            "the server does not tell its `maxmemory-policy`",
        )
    }));
}

/// Judges what the store does when its memory is full.
fn policy_finding(facts: &StoreFacts) -> Option<Finding> {
    let policy = facts.policy.as_deref()?;
    let subject = Subject::single("store");
    let memory_limit = match facts.max_memory {
        Some(0) | None => "without a `maxmemory`".to_owned(),
        Some(bytes) => format!("with a `maxmemory` of {}", size_text(bytes)),
    };
    let seen = format!("`maxmemory-policy` is {policy}, {memory_limit}");
    Some(if policy == "noeviction" {
        subject.ok("eviction", seen)
    } else {
        subject.warn("eviction", seen, "when it is full it drops counts, and callers use more than they may: set `maxmemory-policy noeviction` in the store")
    })
}
