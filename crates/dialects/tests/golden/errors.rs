//! Errors: each dialect's reading of a provider's error, and the error that callers of each door
//! get.
//!
//! `<dialect>.errors` in the folder `errors` has answers of a provider. `.errors.out` next to it
//! has the error that was read of each, and the error for callers if the request is at fault. All
//! other errors have the gateway's own words: `refusals.out` has their forms.

use dialects::ErrorHead;
use dialects::front::{AnswerSoFar, CallerError, FRONTS, Front};

use crate::differences::Differences;
use crate::drive::DIALECTS;
use crate::files::{Case, root};
use crate::upstream;

/// The statuses of errors in requests.
const CALLERS: [u16; 3] = [400, 413, 422];

#[test]
fn errors() {
    let mut differences = Differences::default();
    let case = Case {
        path: root().join("errors"),
    };
    for recorded in case.recorded(".errors") {
        let dialect = DIALECTS
            .into_iter()
            .find(|dialect| dialect.name == recorded.dialect)
            .expect("a dialect");
        let mut found = String::new();
        for section in case
            .text(&recorded.file)
            .expect("text")
            .strip_prefix("== ")
            .expect("a section")
            .split("\n== ")
        {
            let (head, body) = section.split_once("\n\n").expect("a head and a body");
            let header = |name: &str| {
                head.lines()
                    .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            };
            let status = head
                .lines()
                .find_map(|line| line.strip_prefix("HTTP "))
                .expect("a status");
            let head_of_error = ErrorHead {
                status: status.parse().expect("a number"),
                content_type: header("content-type"),
                error_type: header("x-amzn-errortype"),
            };
            found += &format!("== {}\n", head.lines().next().expect("a name"));
            for (place, front) in FRONTS.into_iter().enumerate() {
                let (error, meant) =
                    dialect.error(front, &head_of_error, body.trim_end().as_bytes());
                if place == 0 {
                    found +=
                        &upstream(&error).replace("!upstream -", &format!("!upstream {meant}"));
                }
                let is_callers =
                    error.code.as_deref() == Some("context_length_exceeded") || error.is_filtered();
                if is_callers || CALLERS.contains(&meant) {
                    let told = CallerError {
                        status: if CALLERS.contains(&meant) { meant } else { 400 },
                        kind: "invalid_request_error",
                        code: error.code.as_deref(),
                        param: error.param.as_deref(),
                        message: &error.message,
                        request_id: "r",
                        retry_after: None,
                        answer: AnswerSoFar::default(),
                    };
                    found += &format!("{front:?} {}\n", body_of(front, &told));
                }
            }
            found.push('\n');
        }
        differences.compare(
            &recorded
                .path
                .with_file_name(format!("{}.out", recorded.file)),
            Some(&found),
        );
    }
    differences.none();
}

/// Each status of the gateway's own refusals: its body at each door, and the end of a stream before
/// and after its first event.
#[test]
fn refusals() {
    let mut found = String::new();
    for (status, kind, code, retry_after) in [
        (401, "invalid_request_error", "invalid_api_key", None),
        (404, "invalid_request_error", "model_not_found", None),
        (429, "rate_limit_error", "rate_limit_exceeded", Some(7)),
        (429, "insufficient_quota", "insufficient_quota", None),
        (502, "upstream_error", "upstream_truncated", None),
        (503, "upstream_error", "no_capacity", Some(7)),
        (504, "upstream_error", "upstream_timeout", None),
    ] {
        found += &format!("== {status} {code}\n");
        for front in FRONTS {
            let status = if status == 503 {
                front.errors.unavailable_status
            } else {
                status
            };
            let begun = AnswerSoFar {
                id: "resp_golden",
                events: 5,
                has_begun: true,
                ..AnswerSoFar::default()
            };
            let told = |has_begun| CallerError {
                status,
                kind,
                code: Some(code),
                param: None,
                message: "What happened, and what to do.",
                request_id: "r",
                retry_after,
                answer: if has_begun {
                    begun
                } else {
                    AnswerSoFar::default()
                },
            };
            let event = |has_begun| {
                String::from_utf8((front.errors.final_event)(&told(has_begun))).expect("UTF-8")
            };
            found += &format!("{front:?} {status} {}\n", body_of(front, &told(false)));
            if status >= 500 || code == "no_capacity" {
                found += &format!("{}{}", event(false), event(true));
            }
        }
        found.push('\n');
    }
    let mut differences = Differences::default();
    differences.compare(&root().join("errors/refusals.out"), Some(&found));
    differences.none();
}

fn body_of(front: &Front, told: &CallerError<'_>) -> String {
    String::from_utf8((front.errors.body)(told)).expect("UTF-8")
}
