//! The book quotes the program exactly: the log lines and error codes that its tables quote are in
//! the source.
//!
//! In a quoted log line `…` stands for the part that differs. Each other part that is long enough
//! to be recognised must be in a text of the source.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::support::root;

/// A shorter piece of a log line proves nothing.
const SHORTEST: usize = 8;

#[test]
fn the_book_quotes_log_lines_as_they_are() {
    let source = source();
    let mut missing = String::new();
    for (place, quote) in quotes("The log says") {
        let pieces = quote
            .split(['…', '(', ')'])
            .map(|piece| piece.trim_matches([' ', ':', ',']));
        for piece in pieces.filter(|piece| piece.len() >= SHORTEST) {
            if !source.contains(piece) {
                writeln!(missing, "{place}: no text of the source has {piece:?}").unwrap();
            }
        }
    }
    assert!(missing.is_empty(), "{missing}");
}

#[test]
fn the_book_names_codes_as_they_are() {
    let source = source();
    let mut missing = String::new();
    for (place, word) in quotes("`code`") {
        if !source.contains(&format!("\"{word}\"")) {
            writeln!(missing, "{place}: the source has no {word:?}").unwrap();
        }
    }
    assert!(missing.is_empty(), "{missing}");
}

#[test]
fn quotes_are_found_in_their_column() {
    let text = "# A\n| a | The log says |\n|---|---|\n| `b` | `c …` and ``d `e` `` |\n\n| a | b |\n|---|---|\n| `f` | `g` |\n";
    assert_eq!(
        quotes_of(text, "The log says"),
        [(4, "c …".to_owned()), (4, "d `e` ".to_owned())]
    );
    assert_eq!(quotes_of(text, "b"), [(8, "g".to_owned())]);
}

/// Returns what all tables of the book quote in the columns of this name, with its file and line.
fn quotes(column: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in files_below(&root().join("docs/src"), "md") {
        let text = std::fs::read_to_string(&path).expect("a chapter");
        let name = path
            .strip_prefix(root())
            .unwrap_or(&path)
            .display()
            .to_string();
        found.extend(
            quotes_of(&text, column)
                .into_iter()
                .map(|(line, quote)| (format!("{name}:{line}"), quote)),
        );
    }
    assert!(
        !found.is_empty(),
        "no table of the book has a column {column}"
    );
    found
}

fn quotes_of(text: &str, column: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut place = None;
    let mut in_table = false;
    for (number, line) in text.lines().enumerate() {
        let Some(row) = line.strip_prefix('|') else {
            in_table = false;
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        if !in_table {
            in_table = true;
            place = cells.iter().position(|cell| *cell == column);
        } else if let Some(cell) = place.and_then(|place| cells.get(place)) {
            found.extend(code_spans(cell).into_iter().map(|span| (number + 1, span)));
        }
    }
    found
}

/// Returns what stands between backticks: as many behind it as before it.
fn code_spans(text: &str) -> Vec<String> {
    let mut spans = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('`') {
        let opened = &rest[start..];
        let fence = &opened[..opened.bytes().take_while(|byte| *byte == b'`').count()];
        let inside = &opened[fence.len()..];
        let Some(end) = inside.find(fence) else { break };
        spans.push(inside[..end].to_owned());
        rest = &inside[end + fence.len()..];
    }
    spans
}

/// Returns all of the program's source, each text of it on one line.
fn source() -> String {
    let mut source = String::new();
    for folder in ["src", "crates"] {
        for path in files_below(&root().join(folder), "rs") {
            let text = std::fs::read_to_string(path).expect("a source file");
            let mut lines = text.lines();
            while let Some(line) = lines.next() {
                let mut line = line.to_owned();
                while let Some(head) = line.strip_suffix('\\') {
                    line = head.to_owned() + lines.next().unwrap_or_default().trim_start();
                }
                source.push_str(&line.replace("\\\"", "\""));
                source.push('\n');
            }
        }
    }
    source
}

fn files_below(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else {
        return files;
    };
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            files.extend(files_below(&path, ending));
        } else if path.extension().is_some_and(|found| found == ending) {
            files.push(path);
        }
    }
    files.sort();
    files
}
