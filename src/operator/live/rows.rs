//! Writes rows as long as there is room.

use super::query::{LiveQuery, Section};
use std::borrow::Cow;

/// The most rows of a section.
const MAX_ROWS: usize = 50;
/// The most rows of requests.
const MAX_REQUESTS: usize = 100;
/// The room for what a section has around its rows.
const FRAME_BYTES: usize = 80;

/// The room that is left in an answer.
pub(super) struct Room {
    bytes: usize,
    /// The weights of the sections that are still to come.
    weights: usize,
}

impl Room {
    /// Shares out what is left for the sections that the query wants.
    pub(super) fn new(left: usize, query: &LiveQuery) -> Room {
        let sections = [Section::Models, Section::Callers, Section::Requests].into_iter();
        let wanted: Vec<Section> = sections.filter(|section| query.shows(*section)).collect();
        let weights = wanted.iter().map(|section| section.weight()).sum();
        // The answer's own end, too.
        Room {
            bytes: left.saturating_sub(FRAME_BYTES * wanted.len() + 2),
            weights,
        }
    }

    /// Writes a section with the rows that fit. `left` is the number of all rows that are offered,
    /// and `total` that of all there are, if it is told.
    pub(super) fn write_section<'r>(
        &mut self,
        text: &mut String,
        section: Section,
        left: usize,
        total: Option<usize>,
        rows: impl Iterator<Item = Cow<'r, str>>,
    ) {
        let share = (self.bytes * section.weight())
            .checked_div(self.weights)
            .unwrap_or(0);
        let max_rows = if section == Section::Requests {
            MAX_REQUESTS
        } else {
            MAX_ROWS
        };
        let (mut used, mut shown) = (0, 0);
        text.push_str(",\"");
        text.push_str(section.name());
        text.push_str("\":{\"rows\":[");
        for row in rows.take(max_rows) {
            if used + row.len() + 1 > share {
                // One that is too long on its own keeps no other away.
                if row.len() + 1 > share {
                    continue;
                }
                break;
            }
            if shown > 0 {
                text.push(',');
            }
            text.push_str(&row);
            used += row.len() + 1;
            shown += 1;
        }
        text.push_str(&format!("],\"more\":{}", left.saturating_sub(shown)));
        if let Some(total) = total {
            text.push_str(&format!(",\"total\":{total}"));
        }
        text.push('}');
        self.bytes = self.bytes.saturating_sub(used);
        self.weights = self.weights.saturating_sub(section.weight());
    }
}
