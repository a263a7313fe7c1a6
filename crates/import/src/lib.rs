//! An import makes a configuration folder of the files of another gateway. Pure: what is outside
//! the given texts comes through functions that the caller gives.
//!
//! Each path of the source is a [`Finding`] with one of four [`Grade`]s. The made files show the
//! findings as comments at the entries that they are about.
//!
//! **Invariant:** an import never widens. What bounded a key and cannot be carried leaves the key
//! disabled, with the reason in a comment. No finding holds a value of the source that may be a
//! secret: a finding names the place, and ids that the catalog will show anyway.
//!
//! | Module | What is there |
//! |---|---|
//! | [`litellm`] | LiteLLM's proxy: its configuration and its keys |
//! | `notes` | findings and their grades |
//! | `amount` | decimal numbers, exact |
//! | `write` | the new files as YAML, with comments |
//! | `report` | the report, as text and as JSON |

use portcullis::base::problem::{Problem, Problems};
use portcullis::conf::price::Usd;

mod amount;
pub mod litellm;
mod notes;
mod report;
mod write;

pub use notes::{Finding, Grade};

/// A file that the operator gives.
#[derive(Clone)]
pub struct Given {
    /// The file's name in messages.
    pub name: String,
    /// The file's text.
    pub text: String,
}

/// Everything that an import may read.
pub struct Inputs<'a> {
    /// The configuration file of the other gateway.
    pub config: Given,
    /// Files with the other gateway's keys, and with whom they belong to.
    pub keys: Vec<Given>,
    /// The bounds that may be dropped from keys: fields, and [`litellm::LOOSEN_WORDS`].
    pub loosened: Vec<String>,
    /// The time, in milliseconds of Unix time, if what was spent so far is to be carried.
    pub spent_at: Option<u64>,
    /// Reads a file that the configuration includes. The first name is the one that is written, the
    /// second the file that includes it. The error is a reason without a name.
    pub include: &'a dyn Fn(&str, &str) -> Result<Given, String>,
    /// Returns an environment variable. It is asked only for values that are no secrets.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

/// Another gateway whose files can be read.
pub trait ImportFrom {
    /// Makes the configuration. The error is the reason why the files cannot be read.
    fn import(&self, inputs: &Inputs<'_>) -> Result<Imported, Problem>;
}

/// The result of an import.
#[derive(Default)]
pub struct Imported {
    /// The files of the new folder by name, such as `catalog.d/litellm-keys.yaml`, with their
    /// texts.
    pub files: Vec<(String, String)>,
    /// One finding for each path of the source.
    pub findings: Vec<Finding>,
    /// The keys that are switched off, with the bound that could not be carried.
    pub stopped: Vec<Stopped>,
    /// The numbers of keys: all that were found, and those that work.
    pub keys: (usize, usize),
    /// The money that keys and callers with a budget have spent in its time.
    pub spent: Vec<Spent>,
    /// The result of `check` for the new files.
    pub check: Checked,
    /// The names of the environment variables and of the files that must hold secrets.
    pub secrets: Vec<String>,
}

/// A key that does not work because a bound of it could not be carried.
pub struct Stopped {
    /// The key, such as `acme/prod`.
    pub key: String,
    /// The bound.
    pub bound: Bound,
}

/// A bound that cannot be carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The field, which is the name for `--loosen`.
    pub field: String,
    /// The word for `--loosen` that drops it, too; `None` if nothing drops it.
    pub word: Option<&'static str>,
    /// The reason.
    pub why: String,
}

/// The money that was spent from a budget so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spent {
    /// The caller.
    pub caller: String,
    /// The key. Empty for the caller's own sum, which no key has.
    pub key: String,
    /// The time for which it counts, in milliseconds of Unix time: now for a budget of a day, the
    /// first moment of the month for a budget of a month.
    pub counted_at: u64,
    /// The money.
    pub usd: Usd,
}

/// The result of `check`: errors and warnings.
#[derive(Default)]
pub struct Checked {
    /// The errors.
    pub errors: Vec<Problem>,
    /// The warnings.
    pub warnings: Vec<Problem>,
}

impl Checked {
    /// Adds the result for a file: its warnings, or its errors too.
    fn add(&mut self, result: Result<Vec<Problem>, Problems>) {
        let Problems(errors, warnings) = result.map_or_else(
            |problems| problems,
            |warnings| Problems(Vec::new(), warnings),
        );
        self.errors.extend(errors);
        self.warnings.extend(warnings);
    }
}

impl Imported {
    /// Returns whether everything was carried, and nothing is left to do by hand.
    pub fn is_whole(&self) -> bool {
        let mut grades = self.findings.iter().map(|finding| finding.grade);
        grades.all(|grade| matches!(grade, Grade::Exact | Grade::Approximate))
            && self.stopped.is_empty()
            && self.check.errors.is_empty()
    }
}
