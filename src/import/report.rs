//! The report of an import, as text and as JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::notes::{Finding, Grade};
use super::{Imported, Stopped};
use crate::base::units::count;

impl Imported {
    /// Writes the report for people. What needs a hand stands last.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for grade in Grade::ALL {
            let list: Vec<&Finding> = self.findings.iter().filter(|finding| finding.grade == grade).collect();
            if list.is_empty() {
                continue;
            }
            text.push_str(&format!("{}:\n", grade.name()));
            for finding in list {
                text.push_str(&format!("  {}{}\n", finding.place(), told(finding)));
            }
            text.push('\n');
        }
        self.stops(&mut text);
        for (title, list) in [("warnings of check", &self.check.warnings), ("errors of check", &self.check.errors)] {
            if !list.is_empty() {
                text.push_str(&format!("{title}:\n"));
                list.iter().for_each(|problem| text.push_str(&format!("  {problem}\n")));
                text.push('\n');
            }
        }
        if !self.secrets.is_empty() {
            text.push_str("secrets that the gateway needs:\n");
            self.secrets.iter().for_each(|secret| text.push_str(&format!("  {secret}\n")));
            text.push('\n');
        }
        text + &self.summary()
    }

    /// Writes the keys that are switched off, by the bound that could not be carried.
    fn stops(&self, text: &mut String) {
        if self.stopped.is_empty() {
            return;
        }
        const SHOWN: usize = 20;
        let mut by: BTreeMap<Option<&str>, Vec<&Stopped>> = BTreeMap::new();
        self.stopped.iter().for_each(|stopped| by.entry(stopped.bound).or_default().push(stopped));
        text.push_str("keys that are switched off, because a bound of theirs could not be carried:\n");
        for (bound, list) in by {
            let drop = bound.map_or_else(
                || "(nothing loosens this)".to_owned(),
                |bound| format!("(`--loosen {bound}` drops this bound)"),
            );
            // A key may have several bounds of one name.
            let keys: BTreeSet<&str> = list.iter().map(|stopped| &*stopped.key).collect();
            text.push_str(&format!("  {} {drop}\n", count(keys.len(), "key")));
            for stopped in list.iter().take(SHOWN) {
                text.push_str(&format!("    {}: {}\n", stopped.key, stopped.why));
            }
            if let Some(more) = list.len().checked_sub(SHOWN).filter(|more| *more > 0) {
                text.push_str(&format!("    and {more} more: --json lists all\n"));
            }
        }
        text.push('\n');
    }

    fn summary(&self) -> String {
        let counts: Vec<String> =
            Grade::ALL.iter().map(|grade| format!("{} {}", self.count(*grade), grade.name())).collect();
        let (all, work) = self.keys;
        let keys = match (all, work) {
            (0, _) => String::new(),
            (_, 1) => format!("; {}, of which 1 is switched on", count(all, "key")),
            (_, _) => format!("; {}, of which {work} are switched on", count(all, "key")),
        };
        let check = match (self.check.errors.len(), self.check.warnings.len()) {
            (0, 0) => "check: fine".to_owned(),
            (errors, warnings) => {
                format!("check: {}, {}", count(errors, "error"), count(warnings, "warning"))
            }
        };
        format!("{}{keys}; {check}\n", counts.join(", "))
    }

    fn count(&self, grade: Grade) -> usize {
        self.findings.iter().filter(|finding| finding.grade == grade).count()
    }

    /// Writes the report for programs.
    pub fn json(&self) -> Value {
        let counts: serde_json::Map<String, Value> =
            Grade::ALL.iter().map(|grade| (grade.name().to_owned(), self.count(*grade).into())).collect();
        let problems = |list: &[crate::base::problem::Problem]| -> Vec<Value> {
            let one = |problem: &crate::base::problem::Problem| json!({"file": problem.file, "line": problem.line, "path": problem.path, "what": problem.what});
            list.iter().map(one).collect()
        };
        json!({
            "counts": counts,
            "keys": { "found": self.keys.0, "work": self.keys.1 },
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
            "switched_off": self.stopped.iter().map(|stopped| {
                json!({"key": stopped.key, "loosen": stopped.bound, "why": stopped.why})
            }).collect::<Vec<_>>(),
            "secrets": self.secrets,
            "check": { "errors": problems(&self.check.errors), "warnings": problems(&self.check.warnings) },
            "files": self.files.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        })
    }
}

fn finding(finding: &Finding) -> Value {
    let became = (!finding.became.is_empty()).then_some(&finding.became);
    json!({
        "file": finding.file,
        "line": finding.line,
        "path": finding.path,
        "grade": finding.grade.name(),
        "what": finding.what,
        "became": became,
    })
}

fn told(finding: &Finding) -> String {
    match (finding.became.is_empty(), finding.what.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!(": {}", finding.what),
        (false, true) => format!(" -> {}", finding.became),
        (false, false) => format!(" -> {}: {}", finding.became, finding.what),
    }
}
