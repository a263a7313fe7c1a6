//! The book's reference chapters are generated from the code. This module compares them with the
//! committed ones. `UPDATE_REFERENCE=1 cargo test --test integration reference` writes them.
//!
//! * `server-yaml.md` and `catalog-yaml.md` are made from the JSON Schemas, and so from the doc
//!   comments of the types that the files are read into.
//! * `command-line.md` is made from clap's commands, and so from the doc comments of the arguments.
//! * `access-line.md`, `metrics.md` and `headers.md` are made from the tables of
//!   `support::documented`, which each test compares with what its gateway writes.
//! * `refusals.md` is made from the refusals themselves, written by each front door.

mod commands;
mod endpoints;
mod headers;
mod keys;
mod line;
mod metrics;
mod refusals;

use crate::support::root;

/// Says in each chapter where its text comes from.
const GENERATED: &str = "<!-- Generated from the code. Change the code, then write it anew with \
                         `UPDATE_REFERENCE=1 cargo test --test integration reference`. -->\n";

/// Compares a chapter with the committed one, or writes it.
#[track_caller]
fn check(chapter: &str, title: &str, text: &str) {
    let path = root().join("docs/src/reference").join(chapter);
    let new = format!("# {title}\n\n{GENERATED}\n{}\n", text.trim());
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    if old != new && std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, new).expect("written");
        return;
    }
    let line = old
        .lines()
        .zip(new.lines())
        .position(|(old, new)| old != new)
        .map_or(1, |at| at + 1);
    assert!(
        old == new,
        "docs/src/reference/{chapter}:{line} is not what the code says; UPDATE_REFERENCE=1 writes the chapter anew"
    );
}

/// A table in Markdown. A bar within a cell is escaped.
fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let row = |cells: &[String]| {
        let cells: Vec<String> = cells
            .iter()
            .map(|cell| cell.replace('|', "\\|").replace('\n', " "))
            .collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = row(&head.map(str::to_owned));
    text.push_str(&"|---".repeat(N));
    text.push_str("|\n");
    rows.into_iter()
        .for_each(|cells| text.push_str(&row(&cells)));
    text
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// A text as sentences: with a full stop at its end.
fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', ':', '!']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

/// The source of all that runs in production: without unit tests.
fn source() -> String {
    let root = root();
    let mut folders = vec![root.join("src")];
    let crates = std::fs::read_dir(root.join("crates")).into_iter().flatten();
    folders.extend(crates.map(|entry| entry.expect("an entry").path().join("src")));
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
                let file = std::fs::read_to_string(&path).expect("a source file");
                // By custom the tests are a file's last part.
                text.push_str(
                    file.split("#[cfg(test)]\nmod tests")
                        .next()
                        .unwrap_or_default(),
                );
                text.push('\n');
            }
        }
    }
    text
}
