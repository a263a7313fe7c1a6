//! The rules that find problems: what is wrong, whose fault it is, and what to do. The page,
//! `/status`, `/metrics` and notices all have the findings of these rules; the alerts use their
//! names.
//!
//! Pure: [`find_problems`] takes [`Facts`], the time included, and a [`FailureMemory`]. A
//! [`FindingTimes`] knows since when each finding has lasted, and [`Problems`] is the list that
//! operators see. **Invariant:** the list is bounded, and no rule crowds out another one, nor a
//! warning what is critical.

mod causes;
pub mod facts;
mod finding;
mod given_up;
mod lasting;
mod limits;
mod not_answering;
mod process;
mod recovery;
mod upstreams;
pub mod verdict;
mod words;

use crate::base::units::first_three;
use crate::status::Severity;
use facts::Facts;
pub use finding::{Finding, FindingName, Rule};
pub use lasting::{FindingTimes, Noticed, Problems};
pub use limits::is_short_lived;
pub use recovery::FailureMemory;
use words::cut_reason;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// A file that is written without an end for so long is not about to be done.
const ENDLESS_TIME: u64 = 30 * SECOND;

/// Returns what is wrong at this moment. `memory` is what the look before has left.
pub fn find_problems(facts: &Facts, memory: &mut FailureMemory) -> Vec<Finding> {
    let mut found = Vec::new();
    find_catalog_problems(facts, &mut found);
    upstreams::find_upstream_problems(facts, memory, &mut found);
    limits::find_limit_problems(facts, &mut found);
    process::find_process_problems(facts, &mut found);
    upstreams::clear_others(&mut found);
    found
}

/// The advice about a variable that the gateway does not have. `portcullis check` has another
/// environment, so it may find no error.
const LACKS_VARIABLE: &str = "A variable is not set in the running gateway, which has the environment of its start: correct its name, write \
                              `{ file: … }` instead of `{ env: … }`, or restart the gateway with the variable. `portcullis check` reads \
                              the environment of your shell. Mend all other errors before a restart: `serve` does not start with one. \
                              Until then, no change of the catalog is live.";

/// Returns whether the reason for a refusal is a variable that the gateway does not have.
fn is_of_variable(reason: &str) -> bool {
    reason.contains("the environment variable ") && reason.contains(" is not set")
}

/// Finds changes of the catalog that are not live.
fn find_catalog_problems(facts: &Facts, found: &mut Vec<Finding>) {
    let subject = || ("catalog", "catalog");
    let Facts {
        catalog: facts,
        now,
        ..
    } = facts;
    if let Some((refused_at, reasons)) = &facts.refused {
        let first = reasons
            .first()
            .map(|reason| cut_reason(reason))
            .unwrap_or_default();
        let more = match reasons.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(" ({more} more in `/status`)"),
        };
        let summary = format!(
            "The catalog's files were edited wrongly, and the content from before stays live: {first}{more}"
        );
        let remedy = if reasons.iter().any(|reason| is_of_variable(reason)) {
            LACKS_VARIABLE
        } else {
            "Mend the files or undo the edit: `portcullis check` names each error. \
             The gateway takes them as soon as they are right."
        };
        found.push(
            Finding::new(
                Rule::ReloadRefused,
                Severity::Warning,
                subject(),
                summary,
                remedy,
            )
            .lasting_since(*refused_at),
        );
    }
    if let Some(loss) = &facts.held_loss {
        let summary = format!(
            "The new catalog {loss}, so the gateway waits some seconds before it takes it."
        );
        let remedy = "If this is not what you meant, undo the edit now.";
        found.push(Finding::new(
            Rule::ChangeHeld,
            Severity::Warning,
            subject(),
            summary,
            remedy,
        ));
    } else if let Some((since, files)) = &facts.endless {
        let summary = format!(
            "{} is being written without an end. Of its changes only new entries and `enabled: false` are live.",
            first_three(files, ", ")
        );
        let remedy =
            "Stop what writes there. Write the new text into another file, and rename that file.";
        let severity = if now.saturating_sub(*since) < ENDLESS_TIME {
            Severity::Warning
        } else {
            Severity::Critical
        };
        found.push(
            Finding::new(Rule::ChangeHeld, severity, subject(), summary, remedy)
                .lasting_since(*since),
        );
    }
}

#[cfg(test)]
mod tests;
