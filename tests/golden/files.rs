//! The golden files: reading them, comparing with them, and, with `UPDATE_GOLDEN=1`, writing them
//! anew for a reviewer to look at.

use std::fs;
use std::path::{Path, PathBuf};

/// Where they are.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The folders in a folder, in order.
pub fn folders(of: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(of).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    found
}

/// The cases: every folder but that of the errors.
pub fn cases() -> Vec<Case> {
    folders(&root()).into_iter().map(|path| Case { path }).filter(|case| case.name() != "errors").collect()
}

/// One case's folder.
pub struct Case {
    pub path: PathBuf,
}

/// What was recorded of a provider: `anthropic.refusal.answer` is dialect `anthropic`, an answer.
pub struct Recorded {
    pub path: PathBuf,
    pub file: String,
    pub dialect: String,
}

impl Case {
    pub fn name(&self) -> String {
        self.path.file_name().expect("a name").to_string_lossy().into_owned()
    }

    /// A file's text, if it is there.
    pub fn text(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.path.join(file)).ok()
    }

    /// A request of the caller's.
    pub fn request(&self, file: &str) -> Option<String> {
        self.text(file).map(|text| text.trim_end().to_owned())
    }

    /// The model that this dialect is asked for: `models` in the folder says so, a line each, where
    /// it is not the usual one.
    pub fn model(&self, dialect: &str, usual: &str) -> String {
        let said = self.text("models").unwrap_or_default();
        let model = said
            .lines()
            .filter_map(|line| line.split_once(' '))
            .find(|(name, _)| *name == dialect)
            .map(|(_, model)| model);
        model.unwrap_or(usual).to_owned()
    }

    /// The recorded files with this ending.
    pub fn recorded(&self, ending: &str) -> Vec<Recorded> {
        let mut found: Vec<_> =
            fs::read_dir(&self.path).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
        found.sort();
        let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
        let recorded = |path: PathBuf| {
            let file = name(&path);
            let dialect = file.split('.').next().unwrap_or_default().to_owned();
            Recorded { path, file, dialect }
        };
        found.into_iter().filter(|path| name(path).ends_with(ending)).map(recorded).collect()
    }
}

/// Gathers what differs, so that one run shows all of it.
#[derive(Default)]
pub struct Differences(Vec<String>);

impl Differences {
    /// Compares what there is with the file; without a file nothing is expected.
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
        let name = file.strip_prefix(root()).unwrap_or(file).display();
        self.0.push(match (expected, found) {
            (Some(expected), Some(found)) => format!("{name}\n{}", difference(&expected, found)),
            (None, Some(found)) => format!("{name} is not there, and would be\n{found}"),
            (Some(_), None) | (None, None) => format!("{name} is there, and nothing came of it"),
        });
    }

    /// Something that no file says.
    pub fn add(&mut self, what: String) {
        self.0.push(what);
    }

    #[track_caller]
    pub fn none(self) {
        let found = self.0.join("\n\n");
        assert!(found.is_empty(), "\n{found}\n\n{} differences; UPDATE_GOLDEN=1 takes them over\n", self.0.len());
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
                let (expected, found) = (expected.unwrap_or("(nothing)"), found.unwrap_or("(nothing)"));
                let same = expected.chars().zip(found.chars()).take_while(|(a, b)| a == b).count();
                let cut = |line: &str| line.chars().skip(same.saturating_sub(40)).take(160).collect::<String>();
                shown.push_str(&format!("  expected …{}\n  found    …{}\n", cut(expected), cut(found)));
            }
        }
    }
}
