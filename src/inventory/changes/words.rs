//! Changes in words, for people: a part for each effect, and a line for each change.

use super::{Change, Effect};
use crate::base::table::is_unseen;

/// The most names of one list.
const NAMES: usize = 5;
/// The most lines of one effect.
const LINES: usize = 100;

/// Writes the changes. Long lists are cut, and say how long they are.
pub fn render(changes: &[Change]) -> String {
    let mut text = String::new();
    for effect in Effect::ALL {
        let of: Vec<_> = changes
            .iter()
            .filter(|change| change.effect == effect)
            .collect();
        if of.is_empty() {
            continue;
        }
        let head = match effect {
            Effect::Breaks => "Requests that are answered now will be refused",
            Effect::Tightens => "Tighter",
            Effect::Changes => "Changed",
            Effect::Widens => "Wider",
            Effect::Restart => "Only after a restart",
        };
        text += &format!("{head}:\n");
        for change in of.iter().take(LINES) {
            text += &format!("  {}\n", plain(&line(change)));
        }
        if of.len() > LINES {
            text += &format!(
                "  … and {} more changes; --json lists all of them\n",
                of.len() - LINES
            );
        }
    }
    text
}

/// Takes out of a text what could move the cursor of a terminal or turn the direction of letters,
/// and cuts it. The text may come from another machine.
pub fn plain(text: &str) -> String {
    const MOST: usize = 1_000;
    let is_odd = |c: char| c.is_control() || is_unseen(c);
    text.chars()
        .map(|c| if is_odd(c) { '\u{fffd}' } else { c })
        .take(MOST)
        .collect()
}

/// Writes one change, such as `model m: gone (callers a, b; 3 keys)`.
fn line(change: &Change) -> String {
    let plural = if change.names.len() == 1 || change.kind == "server.yaml" {
        ""
    } else {
        "s"
    };
    let mut text = format!(
        "{}{plural} {}: {}",
        change.kind,
        list(&change.names),
        change.what
    );
    if !change.models.is_empty() {
        text += &format!(" {}", list(&change.models));
    }
    if !change.callers.is_empty() {
        let s = |many| if many == 1 { "" } else { "s" };
        let (callers, keys) = (change.callers.len(), change.keys);
        text += &format!(
            " (caller{} {}; {keys} key{})",
            s(callers),
            list(&change.callers),
            s(keys)
        );
    }
    text
}

fn list(names: &[String]) -> String {
    let shown = names.get(..NAMES).unwrap_or(names).join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
