//! The rules that find problems: what is wrong, whose fault it is, and what to do. The page,
//! `/status`, `/metrics` and notices all say what these rules say; the alerts use their names.
//!
//! Pure: [`find`] takes [`Facts`], the time included, and a [`FailureMemory`]. A [`Lasting`] knows
//! since when each finding has lasted, and [`Problems`] is the list that operators see.
//! **Invariant:** the list is bounded, and no rule crowds out another one, nor a warning what is
//! critical.

mod causes;
pub mod facts;
mod finding;
mod given_up;
mod lasting;
mod limits;
mod process;
mod recovery;
mod upstreams;
pub mod verdict;
mod words;

use crate::status::Severity;
use facts::Facts;
pub use finding::{Finding, Named, Rule};
pub use lasting::{Lasting, Noticed, Problems};
pub use limits::is_short_lived;
pub use recovery::FailureMemory;
use words::{short, some};

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// A file that is written without an end for so long is not about to be done.
const ENDLESS: u64 = 30 * SECOND;

/// Returns what is wrong at this moment. `memory` is what the look before has left.
pub fn find(facts: &Facts, memory: &mut FailureMemory) -> Vec<Finding> {
    let mut found = Vec::new();
    catalog(facts, &mut found);
    upstreams::find(facts, memory, &mut found);
    limits::find(facts, &mut found);
    process::find(facts, &mut found);
    upstreams::clear_others(&mut found);
    found
}

/// Looks for changes of the catalog that are not live.
fn catalog(facts: &Facts, found: &mut Vec<Finding>) {
    let subject = || ("catalog", "catalog");
    let Facts {
        catalog: facts,
        now,
        ..
    } = facts;
    if let Some((at, reasons)) = &facts.refused {
        let first = reasons
            .first()
            .map(|reason| short(reason))
            .unwrap_or_default();
        let more = match reasons.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(" ({more} more in `/status`)"),
        };
        let what = format!(
            "The catalog's files were edited wrongly, and the content from before stays live: {first}{more}"
        );
        let remedy = "Mend the files or undo the edit: `portcullis check` names each error. \
                      The gateway takes them as soon as they are right.";
        found.push(
            Finding::new(
                Rule::ReloadRefused,
                Severity::Warning,
                subject(),
                what,
                remedy,
            )
            .since(*at),
        );
    }
    if let Some(loss) = &facts.held {
        let what = format!(
            "The new catalog {loss}, so the gateway waits some seconds before it takes it."
        );
        let remedy = "If this is not what you meant, undo the edit now.";
        found.push(Finding::new(
            Rule::ChangeHeld,
            Severity::Warning,
            subject(),
            what,
            remedy,
        ));
    } else if let Some((since, files)) = &facts.endless {
        let what = format!(
            "{} is being written without an end. Of its changes only new entries and `enabled: false` are live.",
            some(files, ", ")
        );
        let remedy =
            "Stop what writes there. Write the new text into another file, and rename that file.";
        let severity = if now.saturating_sub(*since) < ENDLESS {
            Severity::Warning
        } else {
            Severity::Critical
        };
        found.push(Finding::new(Rule::ChangeHeld, severity, subject(), what, remedy).since(*since));
    }
}

#[cfg(test)]
mod tests;
