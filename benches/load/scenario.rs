//! A scenario says what callers do, for one row of the table.

use std::time::{Duration, Instant};

use crate::Plan;
use crate::callers::Kind;
use crate::mock::Mock;
use crate::process::{self, spinners};
use crate::report::{Figures, at};
use crate::subject::Subject;

pub struct Scenario {
    pub name: &'static str,
    /// The mock's name for the model, without the `mock-`.
    pub model: String,
    pub kind: Kind,
    callers: usize,
    /// The least number of bytes of the prompt.
    prompt: usize,
    /// True if cores are kept from idling.
    awake: bool,
}

/// Returns the scenarios that the plan wants.
pub fn all(plan: &Plan) -> Vec<Scenario> {
    let plain = |name, callers| Scenario {
        name,
        model: "plain".to_owned(),
        kind: Kind::Plain,
        callers,
        prompt: 0,
        awake: false,
    };
    let stream = |name, callers, chunks, gap: u64| Scenario {
        name,
        model: format!("stream-{chunks}-{gap}"),
        kind: Kind::Stream {
            chunks,
            gap: Duration::from_millis(gap),
        },
        callers,
        prompt: 0,
        awake: false,
    };
    // One stream takes the whole time.
    let paced = (plan.time.as_millis() / 20).max(10) as usize;
    let all = [
        plain("plain-c1", 1),
        Scenario {
            awake: true,
            ..plain("plain-c1-awake", 1)
        },
        plain("plain-c32", 32),
        plain("plain-c256", 256),
        Scenario {
            prompt: 1 << 20,
            ..plain("body-1MiB-c1", 1)
        },
        stream("stream-c32", 32, 200, 0),
        stream("stream-c256", 256, 200, 0),
        stream("paced-c32", 32, paced, 20),
        // The same words come from Anthropic's API. Only the gateway makes chunks of them.
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
    pub async fn measure(
        &self,
        subject: &Subject,
        mock: &Mock,
        plan: &Plan,
        idle: Option<u64>,
    ) -> Result<Figures, String> {
        let load = subject.load(&self.model, self.kind, self.callers, self.prompt);
        let awake = if self.awake {
            spinners(&subject.folder)?
        } else {
            Vec::new()
        };
        if let Some(process) = &subject.process {
            process.forget_peak();
        }
        let used = || {
            subject
                .process
                .as_ref()
                .map_or(Duration::ZERO, process::Process::cpu)
        };
        let known = || used() + process::cpu(std::process::id()) + mock.process.cpu();
        let (start, cpu, ours, machine) = (Instant::now(), used(), known(), process::machine_cpu());
        let outcome = load.run(plan.time).await;
        // Log lines are written a moment later.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (cpu, ours, machine) = (
            used() - cpu,
            known() - ours,
            process::machine_cpu() - machine,
        );
        let others = if awake.is_empty() {
            machine.saturating_sub(ours).as_secs_f64() / start.elapsed().as_secs_f64()
        } else {
            0.0
        };
        drop(awake);
        let each = match self.kind {
            Kind::Plain => 1,
            Kind::Stream { chunks, .. } => chunks,
        };
        let count = (outcome.took.len() * each) as f64;
        let errors = outcome.complain(&format!("{} {}", subject.row.name(), self.name));
        let mut took = outcome.took;
        took.sort_unstable();
        Ok(Figures {
            rate: count / outcome.elapsed.as_secs_f64(),
            p50: at(&took, 0.5).as_secs_f64(),
            p99: at(&took, 0.99).as_secs_f64(),
            cpu: subject
                .process
                .as_ref()
                .map(|_| cpu.as_secs_f64() / count.max(1.0)),
            idle,
            peak: subject.process.as_ref().map(process::Process::peak),
            others,
            // It is an error too if nothing was measured.
            errors: errors.max(u64::from(took.is_empty())),
        })
    }
}
