//! The [`FindingTimes`] knows since when each finding has lasted. [`Problems`] is the list that
//! operators see.

use super::finding::FindingName;
use super::{Finding, Rule};
use crate::base::calendar::format_time;
use crate::status::{ProblemReport, Severity, SubjectReport};
use std::cmp::Reverse;
use std::collections::HashMap;

/// The most problems that are listed.
pub(super) const MAX_LISTED: usize = 30;

/// The times since which findings have lasted.
#[derive(Debug, Default)]
pub struct FindingTimes {
    since: HashMap<FindingName, u64>,
}

/// A finding, and the time since which it has lasted.
#[derive(Debug, Clone)]
pub struct Noticed {
    /// The finding.
    pub finding: Finding,
    /// The time since which it has lasted, in milliseconds of Unix time.
    pub since: u64,
    /// True if it has lasted for as long as it must.
    pub is_problem: bool,
}

impl FindingTimes {
    /// Takes all findings of a moment. A finding that is not among them is forgotten: when it comes
    /// back, it is a new one. Of two findings with one name only the first is kept.
    pub fn notice(&mut self, findings: Vec<Finding>, now: u64) -> Vec<Noticed> {
        let mut since = HashMap::with_capacity(findings.len());
        let mut noticed = Vec::with_capacity(findings.len());
        for finding in findings {
            let name = finding.name();
            if since.contains_key(&name) {
                continue;
            }
            // If the clock was set back, nothing has lasted since the future.
            let known = [self.since.get(&name).copied(), finding.since]
                .into_iter()
                .flatten()
                .min();
            let began = known.unwrap_or(now).min(now);
            since.insert(name, began);
            let is_problem = now.saturating_sub(began) >= finding.must_last;
            noticed.push(Noticed {
                finding,
                since: began,
                is_problem,
            });
        }
        self.since = since;
        noticed
    }
}

/// The problems of a moment.
#[derive(Debug, Clone, Default)]
pub struct Problems {
    /// Those that are listed: critical ones first, and among equals those that have lasted longest.
    pub list: Vec<ProblemReport>,
    /// The number of problems that are not listed.
    pub more: usize,
    /// The number of all problems of each rule and severity that has some.
    counts: HashMap<(Rule, Severity), usize>,
}

impl Problems {
    /// Makes the list. If there are too many problems, each rule gets its part of the list, and
    /// what is critical goes before all warnings.
    pub fn new(noticed: &[Noticed]) -> Problems {
        let mut all: Vec<&Noticed> = noticed
            .iter()
            .filter(|noticed| noticed.is_problem)
            .collect();
        // The most requests first, then the oldest: of many equal problems these are listed.
        all.sort_by_cached_key(|one| {
            (
                Reverse(one.finding.requests),
                one.since,
                one.finding.subject.1.clone(),
            )
        });
        let mut turns: HashMap<(Rule, Severity), usize> = HashMap::new();
        let mut ranked: Vec<((Severity, usize), &Noticed)> = Vec::with_capacity(all.len());
        for one in all {
            let turn = turns
                .entry((one.finding.rule, one.finding.severity))
                .or_default();
            ranked.push(((one.finding.severity, *turn), one));
            *turn += 1;
        }
        ranked.sort_by_key(|(rank, _)| *rank);
        let more = ranked.len().saturating_sub(MAX_LISTED);
        ranked.truncate(MAX_LISTED);
        ranked.sort_by_key(|(_, one)| (one.finding.severity, one.since));
        Problems {
            list: ranked.into_iter().map(|(_, one)| one.report()).collect(),
            more,
            counts: turns,
        }
    }

    /// Returns the number of problems of each rule and severity, also where there are none.
    pub fn counts(&self) -> impl Iterator<Item = (Rule, Severity, usize)> {
        let each = Rule::ALL
            .into_iter()
            .flat_map(|rule| Severity::ALL.map(|severity| (rule, severity)));
        each.map(|(rule, severity)| {
            (
                rule,
                severity,
                self.counts
                    .get(&(rule, severity))
                    .copied()
                    .unwrap_or_default(),
            )
        })
    }
}

impl Noticed {
    /// Returns the problem as operators see it.
    pub fn report(&self) -> ProblemReport {
        let Finding {
            rule,
            severity,
            subject: (kind, name),
            part,
            summary,
            remedy,
            requests,
            models,
            ..
        } = &self.finding;
        ProblemReport {
            remedy: remedy.clone(),
            link: rule.link(),
            part: Some(part)
                .filter(|part| !part.is_empty())
                .map(|part| (*part).to_owned()),
            number: models.len().max(1),
            requests: *requests,
            rule: rule.name().to_owned(),
            severity: *severity,
            since: format_time(self.since),
            subject: SubjectReport {
                kind: (*kind).to_owned(),
                name: name.to_string(),
            },
            summary: summary.clone(),
        }
    }
}
