//! Changes in words, for people: a part for each effect, and a line for each change.

use super::{Change, Effect};
use crate::base::table::is_unseen;
use crate::base::units::format_count;

/// The most names of one list.
const MAX_NAMES: usize = 5;
/// The most lines of one effect.
const MAX_LINES: usize = 100;

/// Writes the changes. Long lists are cut, and say how long they are.
pub fn render_changes(changes: &[Change]) -> String {
    let mut text = String::new();
    for effect in Effect::ALL {
        let group: Vec<_> = changes
            .iter()
            .filter(|change| change.effect == effect)
            .collect();
        if group.is_empty() {
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
        for change in group.iter().take(MAX_LINES) {
            text += &format!("  {}\n", plain_text(&change_line(change)));
        }
        if group.len() > MAX_LINES {
            text += &format!(
                "  … and {} more changes; --json lists all of them\n",
                group.len() - MAX_LINES
            );
        }
    }
    text
}

/// Takes out of a text what could move the cursor of a terminal or turn the direction of letters,
/// and cuts it. The text may come from another machine.
pub fn plain_text(text: &str) -> String {
    const MAX_CHARACTERS: usize = 1_000;
    let is_odd = |c: char| c.is_control() || is_unseen(c);
    text.chars()
        .map(|c| if is_odd(c) { '\u{fffd}' } else { c })
        .take(MAX_CHARACTERS)
        .collect()
}

/// Writes one change, such as `model m: gone (callers a, b; 3 keys)`.
fn change_line(change: &Change) -> String {
    let plural = if change.names.len() == 1 || change.kind == "server.yaml" {
        ""
    } else {
        "s"
    };
    let mut text = format!(
        "{}{plural} {}: {}",
        change.kind,
        cut_list(&change.names),
        change.statement
    );
    if !change.models.is_empty() {
        text += &format!(" {}", cut_list(&change.models));
    }
    if !change.callers.is_empty() {
        text += &format!(
            " (caller{} {}; {})",
            if change.callers.len() == 1 { "" } else { "s" },
            cut_list(&change.callers),
            format_count(change.keys, "key")
        );
    }
    text
}

fn cut_list(names: &[String]) -> String {
    let shown = names.get(..MAX_NAMES).unwrap_or(names).join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
