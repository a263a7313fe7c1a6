//! Each endpoint that holds no conversation is in the tables that users choose it by.

use dialects::Endpoint;

use super::code;
use crate::support::root;

#[test]
fn the_book_has_each_endpoint() {
    for endpoint in Endpoint::ALL {
        if endpoint.is_conversation() {
            continue;
        }
        let name = code(endpoint.name());
        let [path, ..] = endpoint.facts().paths else {
            panic!("{name} has no path")
        };
        for (file, words) in [
            ("endpoints.md", format!("| {name} | `POST {path}`")),
            ("limits.md", name.clone()),
            ("clients/demo.md", code(path)),
        ] {
            let is_there = row_with(file, &words);
            assert!(is_there, "no table of {file} has {words}");
        }
    }
}

/// Returns whether a row of a table in this chapter has the words.
fn row_with(file: &str, words: &str) -> bool {
    let chapter = root().join("docs/src").join(file);
    std::fs::read_to_string(chapter)
        .expect("a chapter")
        .lines()
        .any(|line| line.starts_with('|') && line.contains(words))
}
