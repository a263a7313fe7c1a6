//! The errors of providers by examples: what each provider answered, and what becomes of it.
//!
//! A folder is a dialect. A file without an ending is an answer as the provider sends it, its
//! status and headers first; `.out` beside it is its class, and what the caller gets of it. With
//! `UPDATE_GOLDEN=1` the `.out` files are written anew, for a person to read.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    reason = "a test may fail loudly; the lints guard what runs in production"
)]

#[path = "../../crates/dialects/tests/golden/differences.rs"]
#[expect(dead_code, reason = "the golden tests of the dialects need more of it")]
mod differences;

use std::fs;
use std::path::{Path, PathBuf};

use dialects::{Dialect, ErrorHead, Protocol};
use portcullis::account::failure::{Class, Failure};

use differences::Differences;

#[test]
fn errors() {
    let mut differences = Differences::default();
    for folder in inside(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors")) {
        if !folder.is_dir() {
            continue;
        }
        let name = folder
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let dialect = Dialect::from(Protocol::find(&name).expect("a dialect"));
        for file in inside(&folder)
            .into_iter()
            .filter(|file| file.extension().is_none())
        {
            let found = failed(&dialect, &fs::read_to_string(&file).expect("text"));
            differences.compare(&file.with_extension("out"), Some(&found));
        }
    }
    differences.none();
}

/// What is in a folder, in order.
fn inside(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    found.sort();
    found
}

/// Class, status, type and code as the caller gets them; when to come back; the message.
fn failed(dialect: &Dialect, recorded: &str) -> String {
    let (head, body) = recorded.split_once("\n\n").expect("a head and a body");
    let mut lines = head.lines();
    let seen = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP "))
        .and_then(|status| status.parse().ok())
        .expect("a status");
    let headers: Vec<_> = lines.filter_map(|line| line.split_once(": ")).collect();
    let header = |name: &str| {
        headers
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| *value)
    };
    let head = ErrorHead {
        status: seen,
        content_type: header("content-type"),
        error_type: header("x-amzn-errortype"),
    };
    let error = dialect.error(&dialects::front::CHAT, &head, body.trim_end().as_bytes());
    let status = dialect.true_status(seen, &error);
    let after = error.retry_after;
    let failure = Failure::Status {
        status,
        seen,
        error: Box::new(error),
        retry_after: after,
    };
    let refusal = failure.refusal(1, &[]);
    let row = refusal.kind.row();
    let class = match failure.class() {
        Class::Caller => "caller",
        Class::Credential => "credential",
        Class::Refused => "refused",
        Class::Rate => "rate",
        Class::Overloaded => "overloaded",
        Class::Transient => "transient",
        Class::Ours => "ours",
    };
    let after = after.map_or(String::new(), |after| {
        format!(" after={}", after.as_secs_f64())
    });
    format!(
        "{class} {} {} {}{after}\n{}\n",
        row.status,
        row.kind,
        row.code.unwrap_or("-"),
        refusal.message
    )
}
