//! The report of an import, as text and as JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::notes::{Finding, Grade, LEFT_OUT};
use super::{Bound, Imported, Stopped};
use portcullis::base::problem::Problem;
use portcullis::base::units::format_count;

impl Bound {
    /// Returns the name that drops it.
    fn name(&self) -> Option<&str> {
        self.word.map(|_| self.field.as_str())
    }
}

impl Imported {
    /// Writes the report for people: what is to do, in which order, then why. What is exact stands
    /// last.
    pub fn text(&self) -> String {
        const STOPPED: &str =
            "keys that are switched off, because a bound of theirs could not be carried";
        let lines = |problems: &[Problem]| problems.iter().map(Problem::to_string).collect();
        let lists = [
            list_text("manual", self.graded_lines(Grade::Manual)),
            list_text("unsupported", self.graded_lines(Grade::Unsupported)),
            list_text(STOPPED, self.stopped_lines()),
            list_text("errors of check", lines(&self.check.errors)),
            list_text("warnings of check", lines(&self.check.warnings)),
            list_text("secrets that the gateway needs", self.secrets.clone()),
            list_text("approximate", self.graded_lines(Grade::Approximate)),
            list_text("exact", self.graded_lines(Grade::Exact)),
        ];
        format!(
            "{}{}{}\n",
            self.steps_text(),
            lists.concat(),
            self.summary()
        )
    }

    fn graded(&self, grade: Grade) -> impl Iterator<Item = &Finding> {
        let findings = self.findings.iter();
        findings.filter(move |finding| finding.grade == grade)
    }

    fn count(&self, grade: Grade) -> usize {
        self.graded(grade).count()
    }

    /// Writes the findings of a grade. Fields that are left out with their entry are only counted.
    fn graded_lines(&self, grade: Grade) -> Vec<String> {
        let mut lines = Vec::new();
        let mut entries: Vec<(String, usize)> = Vec::new();
        for finding in self.graded(grade) {
            if finding.message != LEFT_OUT {
                lines.push(finding_line(finding));
                continue;
            }
            let path = &finding.path;
            let end = path.find(']').map_or(path.len(), |end| end + 1);
            let entry = format!("{} {}", finding.file, path.get(..end).unwrap_or_default());
            match entries.iter_mut().find(|(known, _)| *known == entry) {
                Some((_, fields)) => *fields += 1,
                None => entries.push((entry, 1)),
            }
        }
        lines.extend(entries.into_iter().map(|(entry, fields)| {
            let fields = format_count(fields, "other field");
            format!("{entry}: left out with the entry: {fields}")
        }));
        lines
    }

    fn steps_text(&self) -> String {
        let steps = self.steps();
        let title = match steps.len() {
            0 => return "nothing is left to do: all is carried as it is\n\n".to_owned(),
            1 => "do this".to_owned(),
            number => format!("do these {number} things, in this order"),
        };
        let numbered = steps.iter().enumerate();
        let numbered = numbered.map(|(index, step)| format!("{}. {step}", index + 1));
        list_text(&title, numbered.collect())
    }

    /// Returns what is to do, in this order. What an unset variable took away comes first, since
    /// the import must run again for it.
    pub fn steps(&self) -> Vec<String> {
        let mut unset: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for finding in &self.findings {
            if let Some(variable) = &finding.unset {
                let places = unset.entry(variable).or_default();
                places.push(finding.format_place());
            }
        }
        let by_hand_step = match unset.len() {
            0 => "do by hand what `manual` lists",
            _ => "do by hand what else `manual` lists",
        };
        let mut steps = Vec::new();
        for (variable, places) in unset {
            let places = places.join(", ");
            steps.push(format!(
                "set {variable} and import again, for what is left out without it: {places}"
            ));
        }
        let by_hand = self.graded(Grade::Manual);
        let by_hand = by_hand.filter(|one| one.unset.is_none() && one.after.is_none());
        let keys: BTreeSet<&str> = self.stopped.iter().map(|one| one.key.as_str()).collect();
        let counts = [
            (by_hand.count(), "place", by_hand_step),
            (
                self.check.errors.len(),
                "error",
                "mend what `errors of check` lists",
            ),
            (
                keys.len(),
                "key",
                "mend what switched keys off, or drop these bounds with `--loosen`",
            ),
            (
                self.secrets.len(),
                "secret",
                "give the gateway what `secrets that the gateway needs` lists",
            ),
            (
                self.count(Grade::Unsupported),
                "place",
                "read what is left out, which `unsupported` lists",
            ),
            (
                self.count(Grade::Approximate),
                "place",
                "read what differs, which `approximate` lists",
            ),
        ];
        for (count, noun, step) in counts {
            if count > 0 {
                steps.push(format!("{step}: {}", format_count(count, noun)));
            }
        }
        steps
    }

    /// Writes the keys that are switched off, by the bound that could not be carried.
    fn stopped_lines(&self) -> Vec<String> {
        const MAX_SHOWN: usize = 20;
        let mut by_bound: BTreeMap<Option<&str>, Vec<&Stopped>> = BTreeMap::new();
        for stopped in &self.stopped {
            let list = by_bound.entry(stopped.bound.name()).or_default();
            list.push(stopped);
        }
        let mut lines = Vec::new();
        for (bound, list) in by_bound {
            // A key may have several bounds of one name.
            let keys: BTreeSet<&str> = list.iter().map(|stopped| &*stopped.key).collect();
            let keys = format_count(keys.len(), "key");
            lines.push(match bound {
                Some(bound) => format!("{keys} (`--loosen {bound}` drops this bound)"),
                None => format!("{keys} (nothing loosens this)"),
            });
            let shown = list.iter().take(MAX_SHOWN);
            lines.extend(shown.map(|stopped| format!("  {}: {}", stopped.key, stopped.bound.why)));
            if list.len() > MAX_SHOWN {
                let more = list.len() - MAX_SHOWN;
                lines.push(format!("  and {more} more: --json lists all"));
            }
        }
        lines
    }

    fn summary(&self) -> String {
        let counts = Grade::ALL.map(|grade| format!("{} {}", self.count(grade), grade.name()));
        let keys = match self.keys {
            (0, _) => String::new(),
            (all, work) => format!("; {}, {work} switched on", format_count(all, "key")),
        };
        let check = match [&self.check.errors, &self.check.warnings].map(Vec::len) {
            [0, 0] => "fine".to_owned(),
            [errors, warnings] => {
                let warnings = format_count(warnings, "warning");
                format!("{}, {warnings}", format_count(errors, "error"))
            }
        };
        format!("{}{keys}; check: {check}", counts.join(", "))
    }

    /// Writes the report for programs.
    pub fn json(&self) -> Value {
        let counts = Grade::ALL.map(|grade| (grade.name().to_owned(), self.count(grade).into()));
        let problems = |list: &[Problem]| list.iter().map(problem_json).collect::<Vec<_>>();
        json!({
            "counts": Map::from_iter(counts),
            "keys": { "found": self.keys.0, "work": self.keys.1 },
            "findings": self.findings.iter().map(finding_json).collect::<Vec<_>>(),
            "switched_off": self.stopped.iter().map(stopped_json).collect::<Vec<_>>(),
            "steps": self.steps(),
            "secrets": self.secrets,
            "check": {
                "errors": problems(&self.check.errors),
                "warnings": problems(&self.check.warnings),
            },
            "files": self.files.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        })
    }
}

/// Writes lines under a title, if there are any.
fn list_text(title: &str, lines: Vec<String>) -> String {
    if lines.is_empty() {
        return String::new();
    }
    format!("{title}:\n  {}\n\n", lines.join("\n  "))
}

fn finding_line(finding: &Finding) -> String {
    let mut line = finding.format_place();
    if !finding.became.is_empty() {
        line.push_str(&format!(" -> {}", finding.became));
    }
    if !finding.message.is_empty() {
        line.push_str(&format!(": {}", finding.message));
    }
    line
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "file": finding.file,
        "line": finding.line,
        "path": finding.path,
        "grade": finding.grade.name(),
        "what": finding.message,
        "became": (!finding.became.is_empty()).then_some(&finding.became),
    })
}

fn problem_json(problem: &Problem) -> Value {
    json!({
        "file": problem.file,
        "line": problem.line,
        "path": problem.path,
        "what": problem.message,
    })
}

fn stopped_json(stopped: &Stopped) -> Value {
    let bound = &stopped.bound;
    json!({ "key": stopped.key, "loosen": bound.name(), "why": bound.why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Checked;

    fn stopped(key: &str, word: Option<&'static str>) -> Stopped {
        let bound = Bound {
            field: "max_budget".to_owned(),
            word,
            why: "`max_budget` is for life".to_owned(),
        };
        Stopped {
            key: key.to_owned(),
            bound,
        }
    }

    #[test]
    fn programs_read_the_report_by_these_names() {
        let exact = Finding {
            file: "config.yaml".to_owned(),
            line: Some(3),
            path: "model_list[0]".to_owned(),
            grade: Grade::Exact,
            message: String::new(),
            became: "models.m".to_owned(),
            unset: None,
            after: None,
        };
        let left_out = Finding {
            line: None,
            grade: Grade::Manual,
            message: "names no address".to_owned(),
            became: String::new(),
            unset: Some("BASE".to_owned()),
            ..exact.clone()
        };
        let error = Problem {
            file: "catalog.yaml".to_owned(),
            line: Some(1),
            path: "models.m".to_owned(),
            message: "has no target".to_owned(),
        };
        let warning = Problem::of_file("server.yaml".to_owned(), "is short");
        let imported = Imported {
            files: vec![("catalog.yaml".to_owned(), "models: {}\n".to_owned())],
            findings: vec![exact, left_out],
            stopped: vec![stopped("a/b", Some("budgets")), stopped("a/c", None)],
            keys: (3, 1),
            check: Checked {
                errors: vec![error],
                warnings: vec![warning],
            },
            secrets: vec!["file secrets/m".to_owned()],
            ..Imported::default()
        };
        let expected = json!({
            "counts": { "exact": 1, "approximate": 0, "unsupported": 0, "manual": 1 },
            "keys": { "found": 3, "work": 1 },
            "findings": [
                {
                    "file": "config.yaml", "line": 3, "path": "model_list[0]", "grade": "exact",
                    "what": "", "became": "models.m",
                },
                {
                    "file": "config.yaml", "line": null, "path": "model_list[0]", "grade": "manual",
                    "what": "names no address", "became": null,
                },
            ],
            "switched_off": [
                { "key": "a/b", "loosen": "max_budget", "why": "`max_budget` is for life" },
                { "key": "a/c", "loosen": null, "why": "`max_budget` is for life" },
            ],
            "steps": [
                "set BASE and import again, for what is left out without it: config.yaml model_list[0]",
                "mend what `errors of check` lists: 1 error",
                "mend what switched keys off, or drop these bounds with `--loosen`: 2 keys",
                "give the gateway what `secrets that the gateway needs` lists: 1 secret",
            ],
            "secrets": ["file secrets/m"],
            "check": {
                "errors": [
                    { "file": "catalog.yaml", "line": 1, "path": "models.m", "what": "has no target" },
                ],
                "warnings": [
                    { "file": "server.yaml", "line": null, "path": "", "what": "is short" },
                ],
            },
            "files": ["catalog.yaml"],
        });
        assert_eq!(imported.json(), expected);
    }
}
