//! A running instance is asked for its status, and its problems are told like the findings here.

use std::path::Path;

use super::report::{CheckState, Finding, Findings, Subject};
use crate::explain::status;
use portcullis::status::{ProblemReport, Severity};

/// Tells the problems of the instance whose status this is: the URL of the page, or a file.
pub(super) fn look(from: &str, conf: &Path, report: &mut Findings) {
    let subject = || Subject::of("instance");
    let status = match status::read(from, conf, None) {
        Ok(instance) => instance.status,
        Err(no) => {
            let finding = Finding::new(
                CheckState::Fail,
                subject(),
                "status",
                format!("--status: {}", no.why),
            );
            report.add(
                finding
                    .with("does the gateway run, and is this the address of its admin listener?"),
            );
            return;
        }
    };
    let does = if status.ready {
        "is ready"
    } else {
        "is not ready: it starts, or it was told to stop"
    };
    let state = if status.ready {
        CheckState::Ok
    } else {
        CheckState::Warn
    };
    report.add(Finding::new(
        state,
        subject(),
        "status",
        format!("version {} {does}", status.version),
    ));
    if status.problems.is_empty() {
        report.ok(subject(), "problems", "it has no problems");
    }
    for problem in status.problems {
        report.add(finding(problem));
    }
    if status.more_problems > 0 {
        let seen = format!("it has {} more problems", status.more_problems);
        report.add(
            Finding::new(CheckState::Warn, subject(), "problems", seen)
                .with("mend the first ones, and ask again"),
        );
    }
}

fn finding(problem: ProblemReport) -> Finding {
    let ProblemReport {
        remedy,
        rule,
        severity,
        since,
        subject,
        what,
        ..
    } = problem;
    let state = match severity {
        Severity::Critical => CheckState::Fail,
        Severity::Warning => CheckState::Warn,
    };
    let seen = if since.is_empty() {
        what
    } else {
        format!("{what} Since {since}.")
    };
    Finding::new(
        state,
        Subject::named(subject.kind, subject.name),
        rule,
        seen,
    )
    .with(remedy)
}
