//! Checks of the store that several gateways share: whether it can be reached and written to, and
//! whether its version and its settings keep counts.

use std::time::SystemTime;

use tokio::time::{Instant, timeout_at};

use super::clock::Clocks;
use super::report::{Checked, Finding, Findings, Subject};
use super::side_by_side::NOT_IN_TIME;
use super::words::size_text;
use portcullis::conf::config::Store;
use portcullis::store::{StoreFacts, probe_store};

/// The first major version that has all commands.
const MIN_MAJOR_VERSION: u32 = 6;

/// Checks the store. It is not reached if it has not answered at `due`.
pub(super) async fn check_store(
    settings: &Store,
    due: Instant,
    clocks: &mut Clocks,
    report: &mut Findings,
) {
    let subject = || Subject::single("store");
    let before = SystemTime::now();
    let probed = timeout_at(due, probe_store(settings)).await;
    let facts = match probed.unwrap_or_else(|_| Err(NOT_IN_TIME.to_owned())) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis::conf::config::parse_server;

    /// The server takes the connection, and sends nothing.
    #[tokio::test]
    async fn a_silent_store_waits_no_longer_than_all_checks() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let text = format!(
            "store: {{ redis: \"redis://{}\" }}\n",
            server.local_addr().unwrap()
        );
        let settings = parse_server("server.yaml", &text, &mut |_| Ok(String::new()))
            .expect("settings")
            .store
            .expect("a store");
        let mut report = Findings::new(true);
        check_store(
            &settings,
            Instant::now(),
            &mut Clocks::default(),
            &mut report,
        )
        .await;
        let findings = serde_json::to_value(report.all()).unwrap();
        assert_eq!(findings[0]["state"], "fail");
        let seen = findings[0]["seen"].as_str().unwrap_or_default();
        assert!(seen.ends_with(NOT_IN_TIME), "{seen}");
    }
}
