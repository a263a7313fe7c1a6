//! The report: one line a check, for people or as JSON.

use std::borrow::Cow;
use std::process::ExitCode;

use serde::Serialize;

use crate::write_stdout;
use dialects::named_enum;
use portcullis::base::table::is_unseen;
use portcullis::base::units::{cut_text, format_count};

/// The column at which a line is broken, so that it is readable everywhere.
const WIDTH: usize = 110;
/// The widths of the columns before the text of a finding.
const SUBJECT: usize = 15;
const CHECK: usize = 13;
/// The most characters of the text of a finding, and of its remedy.
const MAX_CHARACTERS: usize = 600;

named_enum! {
    /// The result of a check.
    pub(crate) enum CheckState: Serialize {
        /// All is well.
        Ok = "ok",
        /// It works, and should be looked at.
        Warn = "warn",
        /// It does not work.
        Fail = "fail",
        /// The check was not made. That is neither good nor bad.
        Skip = "skip",
    }
}

/// The subject of a check.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Subject {
    kind: Cow<'static, str>,
    name: String,
}

impl Subject {
    /// Names a part of the process that exists once.
    pub(crate) fn single(kind: &'static str) -> Subject {
        Subject {
            kind: kind.into(),
            name: kind.to_owned(),
        }
    }

    /// Names one of several things.
    pub(crate) fn named(kind: impl Into<Cow<'static, str>>, name: impl ToString) -> Subject {
        Subject {
            kind: plain_name(kind.into()),
            name: plain_line(&name.to_string()),
        }
    }
}

/// A thing that is checked makes the findings about itself. A warning or a failure has a remedy,
/// unless what was seen is one.
pub(crate) trait Checked {
    /// Makes a finding without a remedy.
    fn finding(
        &self,
        state: CheckState,
        check: impl Into<Cow<'static, str>>,
        seen: impl Into<String>,
    ) -> Finding;

    fn ok(&self, check: &'static str, seen: impl Into<String>) -> Finding {
        self.finding(CheckState::Ok, check, seen)
    }

    fn skip(&self, check: &'static str, seen: impl Into<String>) -> Finding {
        self.finding(CheckState::Skip, check, seen)
    }

    fn warn(
        &self,
        check: &'static str,
        seen: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        self.finding(CheckState::Warn, check, seen)
            .with_remedy(remedy)
    }

    fn fail(
        &self,
        check: &'static str,
        seen: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        self.finding(CheckState::Fail, check, seen)
            .with_remedy(remedy)
    }
}

impl Checked for Subject {
    fn finding(
        &self,
        state: CheckState,
        check: impl Into<Cow<'static, str>>,
        seen: impl Into<String>,
    ) -> Finding {
        Finding {
            state,
            subject: self.clone(),
            check: plain_name(check.into()),
            seen: plain_line(&seen.into()),
            remedy: None,
        }
    }
}

/// A check that was made.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    pub(crate) state: CheckState,
    subject: Subject,
    pub(crate) check: Cow<'static, str>,
    pub(crate) seen: String,
    #[serde(rename = "do")]
    pub(crate) remedy: Option<String>,
}

impl Finding {
    /// Returns whether the check failed.
    pub(crate) fn is_failure(&self) -> bool {
        self.state == CheckState::Fail
    }

    /// Adds what to do.
    pub(crate) fn with_remedy(self, remedy: impl Into<String>) -> Finding {
        Finding {
            remedy: Some(plain_line(&remedy.into())),
            ..self
        }
    }

    /// Adds what to do, unless all is well or the check was not made.
    pub(crate) fn with_remedy_unless_ok(self, remedy: impl Into<String>) -> Finding {
        match self.state {
            CheckState::Ok | CheckState::Skip => self,
            CheckState::Warn | CheckState::Fail => self.with_remedy(remedy),
        }
    }

    fn text(&self) -> String {
        let Finding {
            state,
            subject,
            check,
            seen,
            remedy,
        } = self;
        let head = format!(
            "{:<4}  {:<SUBJECT$}  {check:<CHECK$}  ",
            state.name(),
            subject.name
        );
        let indent = 4 + 2 + SUBJECT + 2 + CHECK + 2;
        let mut text = wrap_text(&head, indent, WIDTH, seen);
        if let Some(remedy) = remedy {
            text.push_str(&wrap_text(
                &format!("{:indent$}-> ", ""),
                indent + 3,
                WIDTH,
                remedy,
            ));
        }
        text
    }
}

/// Returns a name that is written here as it is, and one that a server wrote in plain characters.
fn plain_name(name: Cow<'static, str>) -> Cow<'static, str> {
    match name {
        Cow::Borrowed(ours) => Cow::Borrowed(ours),
        Cow::Owned(theirs) => Cow::Owned(plain_line(&theirs)),
    }
}

/// Returns a text in one line, without control characters, and without marks that turn the
/// direction of what follows: a server may have written a part of it.
fn plain_line(text: &str) -> String {
    let text: String = text.chars().filter(|c| !is_unseen(*c)).collect();
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty())
        .collect();
    cut_text(&words.join(" "), MAX_CHARACTERS)
}

/// Writes a text behind a head, in lines of at most this width that begin below each other.
pub(crate) fn wrap_text(head: &str, indent: usize, width: usize, text: &str) -> String {
    let mut lines = head.to_owned();
    let mut column = head.chars().count();
    let mut is_first = true;
    for word in text.split(' ') {
        let length = word.chars().count();
        if !is_first && column + 1 + length > width {
            lines.push_str(&format!("\n{:indent$}", ""));
            (column, is_first) = (indent, true);
        }
        if !is_first {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
        is_first = false;
    }
    lines.push('\n');
    lines
}

/// All findings so far.
pub(crate) struct Findings {
    json: bool,
    findings: Vec<Finding>,
    /// False if the output has no reader.
    is_read: bool,
}

/// The report as JSON.
#[derive(Serialize)]
struct JsonReport<'r> {
    ok: usize,
    warn: usize,
    fail: usize,
    skip: usize,
    checks: &'r [Finding],
}

impl Findings {
    /// Begins a report.
    pub(crate) fn new(json: bool) -> Findings {
        Findings {
            json,
            findings: Vec::new(),
            is_read: true,
        }
    }

    /// Adds a finding, and writes its line.
    pub(crate) fn add(&mut self, finding: Finding) {
        if !self.json {
            self.is_read &= write_stdout(finding.text().as_bytes()).is_ok();
        }
        self.findings.push(finding);
    }

    /// Lists the findings so far.
    #[cfg(test)]
    pub(crate) fn all(&self) -> &[Finding] {
        &self.findings
    }

    fn count(&self, state: CheckState) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.state == state)
            .count()
    }

    /// Writes the end of the report, and returns the exit code.
    pub(crate) fn finish(mut self) -> ExitCode {
        let [ok, warn, fail, skip] = [
            CheckState::Ok,
            CheckState::Warn,
            CheckState::Fail,
            CheckState::Skip,
        ]
        .map(|state| self.count(state));
        let text = if self.json {
            let whole = JsonReport {
                ok,
                warn,
                fail,
                skip,
                checks: &self.findings,
            };
            // Strings always serialise.
            serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
        } else {
            let checks = format_count(self.findings.len(), "check");
            format!("\n{checks}: {ok} ok, {warn} warn, {fail} fail, {skip} skipped\n")
        };
        self.is_read &= write_stdout(text.as_bytes()).is_ok();
        match (fail, warn) {
            _ if !self.is_read => ExitCode::from(2),
            (0, 0) => ExitCode::SUCCESS,
            (0, _) => ExitCode::from(1),
            _ => ExitCode::from(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_seen_and_the_remedy() {
        let subject = || Subject::named("account", "openai");
        let finding = subject().ok("name", "a\u{1b}[31m\nb");
        assert_eq!(
            finding.text(),
            "ok    openai           name           a [31m b\n"
        );
        let said = Subject::named("k\u{1b}[1m".to_owned(), "n").finding(
            CheckState::Ok,
            "r\u{1b}[1m".to_owned(),
            "",
        );
        assert_eq!((&*said.subject.kind, &*said.check), ("k [1m", "r [1m"));
        let turned = "a\u{202e}b\u{2066}c\u{200f}d\u{61c}e\u{2069}";
        let finding = Subject::named("model", turned)
            .ok("ask", turned)
            .with_remedy(turned);
        assert_eq!(
            (
                &*finding.subject.name,
                &*finding.seen,
                finding.remedy.as_deref()
            ),
            ("abcde", "abcde", Some("abcde"))
        );
        let long = "word ".repeat(30);
        let finding = subject().fail("tls", long, "do it");
        let text = finding.text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines.iter().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        assert_eq!(lines.len(), 4, "{text}");
        assert!(
            lines
                .first()
                .is_some_and(|line| line.starts_with("fail  openai           tls            word"))
        );
        assert_eq!(lines.last(), Some(&format!("{:38}-> do it", "").as_str()));
        assert_eq!(
            subject().ok("name", "é".repeat(1_000)).seen.chars().count(),
            MAX_CHARACTERS + 1
        );
    }
}
