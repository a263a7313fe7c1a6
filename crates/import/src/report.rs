//! The report of an import, as text and as JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::notes::{Finding, Grade, LEFT_OUT};
use super::{Imported, Stopped};
use portcullis::base::units::format_count;

impl Stopped {
    /// Returns the name that drops the bound.
    fn name(&self) -> Option<&str> {
        self.word.map(|_| self.field.as_str())
    }
}

impl Imported {
    /// Writes the report for people: what is to do, in which order, then why. What is exact stands
    /// last.
    pub fn text(&self) -> String {
        let mut text = steps_text(&self.steps());
        for grade in [Grade::Manual, Grade::Unsupported] {
            self.list_findings(grade, &mut text);
        }
        self.stops(&mut text);
        for (title, list) in [
            ("errors of check", &self.check.errors),
            ("warnings of check", &self.check.warnings),
        ] {
            if !list.is_empty() {
                text.push_str(&format!("{title}:\n"));
                list.iter()
                    .for_each(|problem| text.push_str(&format!("  {problem}\n")));
                text.push('\n');
            }
        }
        if !self.secrets.is_empty() {
            text.push_str("secrets that the gateway needs:\n");
            self.secrets
                .iter()
                .for_each(|secret| text.push_str(&format!("  {secret}\n")));
            text.push('\n');
        }
        for grade in [Grade::Approximate, Grade::Exact] {
            self.list_findings(grade, &mut text);
        }
        text + &self.summary()
    }

    fn list_findings(&self, grade: Grade, text: &mut String) {
        let list: Vec<&Finding> = self
            .findings
            .iter()
            .filter(|finding| finding.grade == grade)
            .collect();
        if list.is_empty() {
            return;
        }
        text.push_str(&format!("{}:\n", grade.name()));
        let (with_entry, others): (Vec<&Finding>, Vec<_>) = list
            .into_iter()
            .partition(|finding| finding.message == LEFT_OUT);
        for finding in others {
            text.push_str(&format!(
                "  {}{}\n",
                finding.format_place(),
                finding_text(finding)
            ));
        }
        for (entry, fields) in fields_by_entry(&with_entry) {
            text.push_str(&format!(
                "  {entry}: left out with the entry: {}\n",
                format_count(fields, "other field")
            ));
        }
        text.push('\n');
    }

    /// Returns what is to do, in this order. What an unset variable took away comes first, since
    /// the import must run again for it.
    pub fn steps(&self) -> Vec<String> {
        let mut steps: Vec<String> = self
            .unset()
            .iter()
            .map(|(variable, places)| set_variable(variable, places))
            .collect();
        let by_hand = self
            .findings
            .iter()
            .filter(|finding| is_by_hand(finding))
            .count();
        let [errors, keys] = [self.check.errors.len(), self.stopped_keys()];
        let [secrets, left_out] = [self.secrets.len(), self.count(Grade::Unsupported)];
        let differing = self.count(Grade::Approximate);
        let rows = [
            (by_hand, by_hand_step(by_hand, self.count(Grade::Manual))),
            (
                errors,
                format!(
                    "mend {} of `portcullis check`, which `errors of check` lists",
                    format_count(errors, "error")
                ),
            ),
            (
                keys,
                format!(
                    "decide about {}: mend what stopped each, or drop that bound with `--loosen`",
                    switched_off(keys)
                ),
            ),
            (
                secrets,
                format!(
                    "give the gateway {}, which `secrets that the gateway needs` lists",
                    format_count(secrets, "secret")
                ),
            ),
            (
                left_out,
                format!(
                    "read what is left out, which `unsupported` lists: {}",
                    format_count(left_out, "place")
                ),
            ),
            (
                differing,
                format!(
                    "read what differs, which `approximate` lists: {}",
                    format_count(differing, "place")
                ),
            ),
        ];
        steps.extend(
            rows.into_iter()
                .filter(|(number, _)| *number > 0)
                .map(|(_, step)| step),
        );
        steps
    }

    /// Returns the variables that are not set, each with the places for which entries are left out.
    fn unset(&self) -> BTreeMap<&str, Vec<String>> {
        let mut unset: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for finding in &self.findings {
            if let Some(variable) = &finding.unset {
                unset
                    .entry(variable)
                    .or_default()
                    .push(finding.format_place());
            }
        }
        unset
    }

    /// Returns how many keys are switched off because of a bound. A key may have several.
    fn stopped_keys(&self) -> usize {
        self.stopped
            .iter()
            .map(|stopped| &stopped.key)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// Writes the keys that are switched off, by the bound that could not be carried.
    fn stops(&self, text: &mut String) {
        if self.stopped.is_empty() {
            return;
        }
        const SHOWN: usize = 20;
        let mut by: BTreeMap<Option<&str>, Vec<&Stopped>> = BTreeMap::new();
        self.stopped
            .iter()
            .for_each(|stopped| by.entry(stopped.name()).or_default().push(stopped));
        text.push_str(
            "keys that are switched off, because a bound of theirs could not be carried:\n",
        );
        for (bound, list) in by {
            let drop = bound.map_or_else(
                || "(nothing loosens this)".to_owned(),
                |bound| format!("(`--loosen {bound}` drops this bound)"),
            );
            // A key may have several bounds of one name.
            let keys: BTreeSet<&str> = list.iter().map(|stopped| &*stopped.key).collect();
            text.push_str(&format!("  {} {drop}\n", format_count(keys.len(), "key")));
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
        let counts: Vec<String> = Grade::ALL
            .iter()
            .map(|grade| format!("{} {}", self.count(*grade), grade.name()))
            .collect();
        let (all, work) = self.keys;
        let keys = match (all, work) {
            (0, _) => String::new(),
            (_, 1) => format!("; {}, of which 1 is switched on", format_count(all, "key")),
            (_, _) => format!(
                "; {}, of which {work} are switched on",
                format_count(all, "key")
            ),
        };
        let check = match (self.check.errors.len(), self.check.warnings.len()) {
            (0, 0) => "check: fine".to_owned(),
            (errors, warnings) => {
                format!(
                    "check: {}, {}",
                    format_count(errors, "error"),
                    format_count(warnings, "warning")
                )
            }
        };
        format!("{}{keys}; {check}\n", counts.join(", "))
    }

    fn count(&self, grade: Grade) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.grade == grade)
            .count()
    }

    /// Writes the report for programs.
    pub fn json(&self) -> Value {
        let counts: serde_json::Map<String, Value> = Grade::ALL
            .iter()
            .map(|grade| (grade.name().to_owned(), self.count(*grade).into()))
            .collect();
        let problems = |list: &[portcullis::base::problem::Problem]| -> Vec<Value> {
            let one = |problem: &portcullis::base::problem::Problem| json!({"file": problem.file, "line": problem.line, "path": problem.path, "what": problem.message});
            list.iter().map(one).collect()
        };
        json!({
            "counts": counts,
            "keys": { "found": self.keys.0, "work": self.keys.1 },
            "findings": self.findings.iter().map(finding_json).collect::<Vec<_>>(),
            "switched_off": self.stopped.iter().map(|stopped| {
                json!({"key": stopped.key, "loosen": stopped.name(), "why": stopped.why})
            }).collect::<Vec<_>>(),
            "steps": self.steps(),
            "secrets": self.secrets,
            "check": { "errors": problems(&self.check.errors), "warnings": problems(&self.check.warnings) },
            "files": self.files.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        })
    }
}

/// Counts the fields that are left out with their entries, by the place of the entry.
fn fields_by_entry(left_out: &[&Finding]) -> Vec<(String, usize)> {
    let mut entries: Vec<(String, usize)> = Vec::new();
    for finding in left_out {
        let end = finding
            .path
            .find(']')
            .map_or(finding.path.len(), |end| end + 1);
        let entry = format!(
            "{} {}",
            finding.file,
            finding.path.get(..end).unwrap_or_default()
        );
        match entries.iter_mut().find(|(known, _)| *known == entry) {
            Some((_, fields)) => *fields += 1,
            None => entries.push((entry, 1)),
        }
    }
    entries
}

fn steps_text(steps: &[String]) -> String {
    if steps.is_empty() {
        return "nothing is left to do: all is carried as it is\n\n".to_owned();
    }
    let mut text = match steps.len() {
        1 => "do this:\n".to_owned(),
        number => format!("do these {number} things, in this order:\n"),
    };
    for (index, step) in steps.iter().enumerate() {
        text.push_str(&format!("  {}. {step}\n", index + 1));
    }
    text.push('\n');
    text
}

fn set_variable(variable: &str, places: &[String]) -> String {
    let left_out = if places.len() == 1 {
        "an entry is left out"
    } else {
        "entries are left out"
    };
    format!(
        "set {variable} and import again: without it {left_out} ({})",
        places.join(", ")
    )
}

/// Returns whether a finding is to be done by hand. An unset variable has a step of its own, which
/// does what follows from it, too.
fn is_by_hand(finding: &Finding) -> bool {
    finding.grade == Grade::Manual && finding.unset.is_none() && finding.after.is_none()
}

/// Says how many of the places that `manual` lists are to be done by hand.
fn by_hand_step(by_hand: usize, listed: usize) -> String {
    match listed - by_hand {
        0 => format!(
            "do by hand what `manual` lists: {}",
            format_count(by_hand, "place")
        ),
        _ => format!(
            "do by hand what else `manual` lists: {by_hand} of its {}; the others need only the variables above",
            format_count(listed, "place")
        ),
    }
}

fn switched_off(keys: usize) -> String {
    if keys == 1 {
        "1 key that is switched off".to_owned()
    } else {
        format!("{keys} keys that are switched off")
    }
}

fn finding_json(finding: &Finding) -> Value {
    let became = (!finding.became.is_empty()).then_some(&finding.became);
    json!({
        "file": finding.file,
        "line": finding.line,
        "path": finding.path,
        "grade": finding.grade.name(),
        "what": finding.message,
        "became": became,
    })
}

fn finding_text(finding: &Finding) -> String {
    match (finding.became.is_empty(), finding.message.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!(": {}", finding.message),
        (false, true) => format!(" -> {}", finding.became),
        (false, false) => format!(" -> {}: {}", finding.became, finding.message),
    }
}
