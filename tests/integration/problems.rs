//! Problems as operators meet them: each rule is brought about in a real gateway, seen in
//! `/status`, and made to go away.

mod cost;
mod gateway;
mod notices;
mod recovery;
mod upstreams;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::store::{set_clock, shifted_clock};
use crate::support::folder::Folder;
use crate::support::gateway::Setup;
use crate::support::{Gateway, PATIENCE, eventually_within};

/// A clock that the test sets, for one gateway.
pub struct Clock {
    _tools: Folder,
    library: PathBuf,
    shift: PathBuf,
}

impl Clock {
    pub fn new() -> Self {
        let (tools, library, shift) = shifted_clock("0");
        Clock {
            _tools: tools,
            library,
            shift,
        }
    }

    /// Lets a gateway go by this clock.
    pub fn give(&self, setup: Setup) -> Setup {
        let text = |path: &Path| path.to_str().expect("a path").to_owned();
        setup
            .env("LD_PRELOAD", &text(&self.library))
            .env("CLOCK_SHIFT", &text(&self.shift))
    }

    /// Sets the clock ahead of the right time by this many seconds.
    pub fn set(&self, seconds: i64) {
        set_clock(&self.shift, seconds);
    }
}

/// Returns the problems of one rule.
pub fn problems(gateway: &Gateway, rule: &str) -> Vec<Value> {
    let status = gateway.status();
    let all = status["problems"]
        .as_array()
        .unwrap_or_else(|| panic!("no problems in {status}"));
    all.iter()
        .filter(|problem| problem["rule"] == rule)
        .cloned()
        .collect()
}

/// Waits until there is one problem of this rule, and returns it.
pub async fn comes(gateway: &Gateway, rule: &str) -> Value {
    let what = format!("the problem {rule}");
    let problem = eventually_within(4 * PATIENCE, &what, || problems(gateway, rule).pop()).await;
    for field in ["what", "do", "since"] {
        assert!(
            problem[field].as_str().is_some_and(|text| !text.is_empty()),
            "{field} of {problem}"
        );
    }
    assert_eq!(problem["link"], format!("problems.md#{rule}"));
    let severity = problem["severity"].as_str().expect("a word").to_owned();
    let labels = [("rule", rule), ("severity", &*severity)];
    assert!(
        gateway.metrics().sum("portcullis_problems", &labels) >= 1.0,
        "{problem} in /metrics"
    );
    problem
}

/// Waits until there is no problem of this rule any more.
pub async fn goes(gateway: &Gateway, rule: &str) {
    let what = format!("the end of {rule}");
    eventually_within(4 * PATIENCE, &what, || {
        problems(gateway, rule).is_empty().then_some(())
    })
    .await;
    assert_eq!(
        gateway
            .metrics()
            .sum("portcullis_problems", &[("rule", rule)]),
        0.0
    );
}

/// Returns what a problem says and of whom.
pub fn subject_and_text(problem: &Value) -> (String, String) {
    let text = |value: &Value| {
        value
            .as_str()
            .unwrap_or_else(|| panic!("{problem}"))
            .to_owned()
    };
    (
        format!(
            "{} {}",
            text(&problem["subject"]["kind"]),
            text(&problem["subject"]["name"])
        ),
        text(&problem["what"]),
    )
}
