//! `portcullis presets` lists the servers that an account can name as its `preset`.

use std::process::ExitCode;

use dialects::presets::ALL;

use portcullis::base::table;

/// Prints the presets as a table, with an example.
pub(super) fn run() -> ExitCode {
    super::print_result(&(presets_table() + EXAMPLE))
}

fn presets_table() -> String {
    let rows = ALL.iter().map(|preset| {
        [
            preset.name,
            preset.base_url,
            preset.key.unwrap_or("-"),
            preset.note,
        ]
    });
    let rows = std::iter::once(["preset", "base_url", "key", "note"]).chain(rows);
    table::format_columns(rows.map(|row| row.map(str::to_owned)), 4)
}

const EXAMPLE: &str = "
accounts:
  groq: { preset: groq, key: { env: GROQ_API_KEY } }
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned() {
        let table = presets_table() + EXAMPLE;
        let (rows, example) = table.split_once("\n\n").expect("an example");
        let rows: Vec<&str> = rows.lines().collect();
        assert_eq!(rows.len(), ALL.len() + 1);
        let column = rows[0].find("base_url").unwrap();
        for (row, preset) in rows[1..].iter().zip(ALL) {
            assert_eq!(row.find(preset.base_url), Some(column), "{row}");
            assert!(
                row.is_ascii() && row.len() <= 132 && !row.ends_with(' '),
                "{row}"
            );
        }
        assert_eq!(example.lines().count(), 2);
    }
}
