//! Tables of text, and the numbers in them.

use std::fmt;
use std::time::Duration;

/// The median of some values, with the least and the most of them.
pub struct Spread {
    pub median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    pub fn new(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Some(Spread {
            median: *values.get(values.len() / 2)?,
            least: *values.first()?,
            most: *values.last()?,
        })
    }

    /// Writes `1.02 (0.98 to 1.10)`; of a single value, or of equal ones, no range.
    pub fn show(&self, digits: usize) -> String {
        let [median, least, most] =
            [self.median, self.least, self.most].map(|value| show(Some(value), digits));
        if least == most {
            median
        } else {
            format!("{median} ({least} to {most})")
        }
    }
}

/// Writes a table. The first `words` columns stand to the left, the others to the right.
pub fn print(f: &mut fmt::Formatter<'_>, table: &[Vec<String>], words: usize) -> fmt::Result {
    let columns = table.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            table
                .iter()
                .map(|line| line[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    for line in table {
        let mut text = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            text += &if column < words {
                format!("{cell:<width$}  ")
            } else {
                format!("{cell:>width$}  ")
            };
        }
        writeln!(f, "{}", text.trim_end())?;
    }
    Ok(())
}

/// Returns the value below which this part of the sorted values lies.
pub fn quantile(sorted: &[Duration], part: f64) -> Duration {
    sorted
        .get(((sorted.len() as f64 * part) as usize).min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}

/// Writes a number as `12,345.6`.
pub fn show(value: Option<f64>, digits: usize) -> String {
    let Some(value) = value else {
        return "-".to_owned();
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 && whole.as_bytes()[index - 1] != b'-' {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}
