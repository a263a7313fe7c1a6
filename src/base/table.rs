//! Text for people, on a terminal: tables in columns, and what no reader sees. Pure.

/// Returns whether a character cannot be seen: it joins, parts or turns others. With it, a text can
/// look like another one.
pub fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// Writes rows of cells below each other. The cells of the first `left` columns begin at the same
/// place; the other cells, numbers, end at the same place.
pub fn format_columns<R: AsRef<[String]>>(
    rows: impl IntoIterator<Item = R>,
    left: usize,
) -> String {
    let rows: Vec<R> = rows.into_iter().collect();
    let widths: Vec<usize> = (0..rows.first().map_or(0, |row| row.as_ref().len()))
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.as_ref().get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row
            .as_ref()
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| {
                if column < left {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_left_and_numbers_right() {
        let rows = [["name", "n"], ["ä", "10"], ["", "1"]].map(|row| row.map(str::to_owned));
        assert_eq!(format_columns(&rows, 1), "name   n\nä     10\n       1\n");
        assert_eq!(format_columns(&rows, 2), "name  n\nä     10\n      1\n");
        assert_eq!(format_columns([] as [[String; 1]; 0], 1), "");
    }
}
