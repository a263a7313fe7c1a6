//! A scenario says what callers do, for one row of the table. They are a closed loop: each sends
//! its next request when it has the whole answer to its last one.

use std::time::Duration;

use crate::kind::Kind;
use crate::process::{self, spinners};
use crate::report::{Figures, quantile};
use crate::row::Row;
use crate::subject::Subject;
use crate::usage::Meter;
use crate::{Bench, Plan};

pub struct Scenario {
    pub name: &'static str,
    /// The mock's name for the model, without the `mock-`.
    pub model: String,
    pub kind: Kind,
    callers: usize,
    /// The least number of bytes of the body.
    bytes: usize,
    /// True if cores are kept from idling.
    awake: bool,
    /// True if the upstream speaks another format than the callers. Rows that cannot translate are
    /// left out.
    translated: bool,
}

/// The scenarios whose latency is compared with that of the row without a proxy.
pub const ONE_CALLER: [&str; 2] = ["plain-c1", "plain-c1-awake"];
/// Messages of callers who speak Anthropic's format to an upstream that speaks OpenAI's, and what
/// that is compared with.
pub const TRANSLATED: &str = "messages-to-chat-c32";
pub const NATIVE: &str = "plain-c32";

fn plain(name: &'static str, callers: usize) -> Scenario {
    Scenario {
        name,
        model: "plain".to_owned(),
        kind: Kind::Plain,
        callers,
        bytes: 0,
        awake: false,
        translated: false,
    }
}

fn large(name: &'static str, callers: usize, kib: usize) -> Scenario {
    Scenario {
        bytes: kib << 10,
        ..plain(name, callers)
    }
}

/// A stream of so many chunks, with so many milliseconds between two of them.
fn stream(name: &'static str, callers: usize, chunks: usize, gap: u64) -> Scenario {
    Scenario {
        model: format!("stream-{chunks}-{gap}"),
        kind: Kind::Stream {
            chunks,
            gap: Duration::from_millis(gap),
        },
        ..plain(name, callers)
    }
}

/// Returns the scenarios that the plan wants.
pub fn all(plan: &Plan) -> Vec<Scenario> {
    // One stream takes the whole time.
    let paced = (plan.time.as_millis() / 20).max(10) as usize;
    let all = [
        plain(ONE_CALLER[0], 1),
        Scenario {
            awake: true,
            ..plain(ONE_CALLER[1], 1)
        },
        plain("plain-c8", 8),
        plain(NATIVE, 32),
        plain("plain-c256", 256),
        large("body-1KiB-c32", 32, 1),
        large("body-16KiB-c32", 32, 16),
        large("body-128KiB-c32", 32, 128),
        large("body-1MiB-c1", 1, 1 << 10),
        Scenario {
            kind: Kind::Messages,
            translated: true,
            ..plain(TRANSLATED, 32)
        },
        // The upstream speaks Messages, too.
        Scenario {
            kind: Kind::Messages,
            model: "claude-plain".to_owned(),
            ..plain("messages-c32", 32)
        },
        stream("stream-c32", 32, 200, 0),
        stream("stream-c256", 256, 200, 0),
        stream("paced-c32", 32, paced, 20),
        // The same words come from Anthropic's API. Portcullis and LiteLLM make chunks of them; at
        // the other rows the mock does.
        Scenario {
            model: "claude-200-0".to_owned(),
            ..stream("anthropic-c32", 32, 200, 0)
        },
    ];
    all.into_iter()
        .filter(|scenario| plan.wants(scenario.name))
        .collect()
}

impl Scenario {
    /// Measures a subject. Returns `None` if it cannot do this: a gateway of others that does not
    /// know the format is left out, with a word. A wrong answer later is a failure.
    pub async fn measure(
        &self,
        subject: &Subject,
        bench: &Bench<'_>,
        idle: Option<u64>,
    ) -> Result<Option<Figures>, String> {
        if self.translated && !subject.row.translates() {
            return Ok(None);
        }
        let load = subject.load(&self.model, self.kind, self.callers, self.bytes);
        if subject.row.is_other()
            && let Err(why) = load.ask_once().await
        {
            let (name, row) = (self.name, subject.row.name());
            eprintln!("{name}: {row} is left out: {why}");
            return Ok(None);
        }
        let awake = if self.awake {
            spinners(&subject.folder)?
        } else {
            Vec::new()
        };
        let process = subject.process.as_ref();
        process.inspect(|process| process.forget_peak());
        let meter = Meter::new(process, awake.iter().chain([&bench.mock.process]).collect());
        let outcome = load.run(bench.plan.time).await;
        // Log lines are written a moment later.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let usage = meter.read();
        drop(awake);
        let each = match self.kind {
            Kind::Plain | Kind::Messages => 1,
            Kind::Stream { chunks, .. } => chunks,
        };
        let count = (outcome.took.len() * each) as f64;
        let errors = outcome.complain(&format!("{} {}", subject.row.name(), self.name));
        let mut took = outcome.took;
        took.sort_unstable();
        Ok(Some(Figures {
            rate: count / outcome.elapsed.as_secs_f64(),
            p50: quantile(&took, 0.5).as_secs_f64(),
            p99: quantile(&took, 0.99).as_secs_f64(),
            cpu: (subject.row != Row::Direct).then(|| usage.cpu.as_secs_f64() / count.max(1.0)),
            idle,
            peak: process.map(process::Process::peak),
            others: usage.others,
            busy: usage.busy,
            // It is an error too if nothing was measured.
            errors: errors.max(u64::from(took.is_empty())),
        }))
    }
}
