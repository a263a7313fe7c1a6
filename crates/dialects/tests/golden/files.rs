//! The golden files: reading them.

use std::fs;
use std::path::{Path, PathBuf};

/// Where they are.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Where the whole of Portcullis is.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folders in a folder, in order.
fn folders(of: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(of)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    found.retain(|path| path.is_dir());
    found.sort();
    found
}

/// The cases, a folder each.
pub fn cases() -> Vec<Case> {
    folders(&root())
        .into_iter()
        .map(|path| Case { path })
        .collect()
}

/// One case's folder.
pub struct Case {
    pub path: PathBuf,
}

/// A recorded file of a provider's: `anthropic.refusal.answer` is dialect `anthropic`, an answer.
pub struct Recorded {
    pub path: PathBuf,
    pub file: String,
    pub dialect: String,
}

impl Case {
    pub fn name(&self) -> String {
        self.path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned()
    }

    /// A file's text, if it is there.
    pub fn text(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.path.join(file)).ok()
    }

    /// A request of the caller's.
    pub fn request(&self, file: &str) -> Option<String> {
        self.text(file).map(|text| text.trim_end().to_owned())
    }

    /// Returns the model that this dialect is asked for. The folder's file `models` has a line for
    /// each model that is not the usual one.
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
        let mut found: Vec<_> = fs::read_dir(&self.path)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        found.sort();
        let name = |path: &PathBuf| {
            path.file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        };
        let recorded = |path: PathBuf| {
            let file = name(&path);
            let dialect = file.split('.').next().unwrap_or_default().to_owned();
            Recorded {
                path,
                file,
                dialect,
            }
        };
        found
            .into_iter()
            .filter(|path| name(path).ends_with(ending))
            .map(recorded)
            .collect()
    }
}
