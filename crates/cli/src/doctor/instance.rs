//! A running instance is asked for its status, and its problems are reported like the findings
//! here.

use std::path::Path;

use super::report::{CheckState, Checked, Finding, Findings, Subject};
use crate::explain::status;
use portcullis::status::{ProblemReport, Severity};

/// Reports the problems of the instance whose status this is: the URL of the page, or a file.
pub(super) fn check_instance(from: &str, conf: &Path, report: &mut Findings) {
    let subject = || Subject::single("instance");
    let status = match status::read_status(from, conf, None) {
        Ok(instance) => instance.status,
        Err(no) => {
            report.add(subject().fail(
                "status",
                format!("--status: {}", no.why),
                "does the gateway run, and is this the address of its admin listener?",
            ));
            return;
        }
    };
    let (state, does) = if status.ready {
        (CheckState::Ok, "is ready")
    } else {
        (
            CheckState::Warn,
            "is not ready: it starts, or it was told to stop",
        )
    };
    report.add(subject().finding(
        state,
        "status",
        format!("version {} {does}", status.version),
    ));
    if status.problems.is_empty() {
        report.add(subject().ok("problems", "it has no problems"));
    }
    for problem in status.problems {
        report.add(problem_finding(problem));
    }
    if status.more_problems > 0 {
        let seen = format!("it has {} more problems", status.more_problems);
        report.add(subject().warn("problems", seen, "mend the first ones, and ask again"));
    }
}

fn problem_finding(problem: ProblemReport) -> Finding {
    let ProblemReport {
        remedy,
        rule,
        severity,
        since,
        subject,
        summary,
        ..
    } = problem;
    let state = match severity {
        Severity::Critical => CheckState::Fail,
        Severity::Warning => CheckState::Warn,
    };
    let seen = if since.is_empty() {
        summary
    } else {
        format!("{summary} Since {since}.")
    };
    Subject::named(subject.kind, subject.name)
        .finding(state, rule, seen)
        .with_remedy(remedy)
}
