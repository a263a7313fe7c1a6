//! A problem, as `/status` shows it: what is wrong, since when, and what to do.

use dialects::named_enum;
use serde::{Deserialize, Serialize};

/// A problem that an operator should know of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemReport {
    /// The advice, in one or two sentences.
    #[serde(rename = "do", default)]
    pub remedy: String,
    /// The place in the book with more.
    #[serde(default)]
    pub link: String,
    /// The number of models that have the problem, if they have it for one cause; else 1.
    #[serde(default = "one")]
    pub number: usize,
    /// Separates the problems of a rule about one subject, if there are several: whose fault
    /// failures are.
    #[serde(default)]
    pub part: Option<String>,
    /// The number of requests of the last five minutes that are concerned, if it is known.
    #[serde(default)]
    pub requests: Option<u64>,
    /// The name of the rule that found the problem.
    pub rule: String,
    /// How bad it is.
    pub severity: Severity,
    /// The time since which the problem has lasted.
    #[serde(default)]
    pub since: String,
    /// The subject of the problem.
    pub subject: SubjectReport,
    /// The fault, in one sentence.
    #[serde(default, rename = "what")]
    pub summary: String,
}

fn one() -> usize {
    1
}

named_enum! {
    /// How bad a problem is.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Severity {
        /// Callers are hurt, or data is lost, now or very soon.
        Critical = "critical",
        /// Somebody should look at it today.
        Warning = "warning",
    }
}

/// The subject of a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectReport {
    /// Its kind: a model, a target, an account, a caller, a key, or a part of the process.
    pub kind: String,
    /// Its name.
    pub name: String,
}
