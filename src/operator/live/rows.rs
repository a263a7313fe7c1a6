//! Writes the sections of the answer of `/live` that have rows. The room that is left is shared
//! among them by weight, and each section has as many rows as fit its share. What one section does
//! not use, the next ones may.

use super::query::{LiveQuery, Section};
use std::borrow::Cow;

/// The most bytes of a section besides its rows: its name, `more` and `total`.
const FRAME_BYTES: usize = 80;
/// `}` and a line end, which close the answer.
const END_BYTES: usize = 2;

/// The room that is left in an answer.
pub(super) struct Room {
    bytes: usize,
    /// The sum of the weights of the sections that are not written yet.
    weights: usize,
}

impl Room {
    /// Takes the bytes that are free, less the frames of the sections that the query wants.
    pub(super) fn new(free_bytes: usize, query: &LiveQuery) -> Room {
        let sections = [Section::Models, Section::Callers, Section::Requests].into_iter();
        let wanted: Vec<Section> = sections.filter(|section| query.shows(*section)).collect();
        let weights = wanted.iter().map(|section| section.weight()).sum();
        Room {
            bytes: free_bytes.saturating_sub(FRAME_BYTES * wanted.len() + END_BYTES),
            weights,
        }
    }

    /// Writes a section with the rows that fit. `offered` is the number of rows in `rows`. `total`
    /// is the number before paging; a section without pages has none.
    pub(super) fn write_section<'r>(
        &mut self,
        text: &mut String,
        section: Section,
        offered: usize,
        total: Option<usize>,
        rows: impl Iterator<Item = Cow<'r, str>>,
    ) {
        let share = (self.bytes * section.weight())
            .checked_div(self.weights)
            .unwrap_or(0);
        let (mut used, mut shown) = (0, 0);
        text.push_str(",\"");
        text.push_str(section.name());
        text.push_str("\":{\"rows\":[");
        for row in rows.take(section.max_rows()) {
            if used + row.len() + 1 > share {
                // A row that is longer than the whole share is skipped; the rows after it may fit.
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
        // `more` is the number of offered rows that are not written.
        text.push_str(&format!("],\"more\":{}", offered.saturating_sub(shown)));
        if let Some(total) = total {
            text.push_str(&format!(",\"total\":{total}"));
        }
        text.push('}');
        self.bytes = self.bytes.saturating_sub(used);
        self.weights = self.weights.saturating_sub(section.weight());
    }
}
