//! Comparing with golden files, and, with `UPDATE_GOLDEN=1`, writing them anew for a reviewer to
//! look at.

use std::fs;
use std::path::Path;

/// Gathers differences, so that one run shows them all.
#[derive(Default)]
pub struct Differences(Vec<String>);

impl Differences {
    /// Compares a text with its file. Without a file no text is expected.
    pub fn compare(&mut self, file: &Path, found: Option<&str>) {
        let expected = fs::read_to_string(file).ok();
        if expected.as_deref() == found {
            return;
        }
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            match found {
                Some(found) => fs::write(file, found).expect("written"),
                None => fs::remove_file(file).expect("removed"),
            }
            return;
        }
        let name = file
            .strip_prefix(env!("CARGO_MANIFEST_DIR"))
            .unwrap_or(file)
            .display();
        self.0.push(match (expected, found) {
            (Some(expected), Some(found)) => format!("{name}\n{}", difference(&expected, found)),
            (None, Some(found)) => format!("{name} is not there, and would be\n{found}"),
            (Some(_), None) | (None, None) => format!("{name} is there, and nothing came of it"),
        });
    }

    /// Adds a difference that no file shows.
    pub fn add(&mut self, what: String) {
        self.0.push(what);
    }

    #[track_caller]
    pub fn none(self) {
        let found = self.0.join("\n\n");
        assert!(
            found.is_empty(),
            "\n{found}\n\n{} differences; UPDATE_GOLDEN=1 takes them over\n",
            self.0.len()
        );
    }
}

/// The lines that differ, from a little before the place where they do.
fn difference(expected: &str, found: &str) -> String {
    let (mut expected, mut found) = (expected.lines(), found.lines());
    let mut shown = String::new();
    loop {
        match (expected.next(), found.next()) {
            (None, None) => return shown,
            (expected, found) if expected == found => {}
            (expected, found) => {
                let (expected, found) = (
                    expected.unwrap_or("(nothing)"),
                    found.unwrap_or("(nothing)"),
                );
                let same = expected
                    .chars()
                    .zip(found.chars())
                    .take_while(|(a, b)| a == b)
                    .count();
                let cut = |line: &str| {
                    line.chars()
                        .skip(same.saturating_sub(40))
                        .take(160)
                        .collect::<String>()
                };
                shown.push_str(&format!(
                    "  expected …{}\n  found    …{}\n",
                    cut(expected),
                    cut(found)
                ));
            }
        }
    }
}
