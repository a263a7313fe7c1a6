//! Warnings of keys and callers that have expired: a request with such a key is refused, and
//! nothing is wrong with the files.

use std::path::Path;
use std::time::SystemTime;

use portcullis::base::problem::Problem;
use portcullis::catalog::Catalog;
use portcullis::catalog::files::{list_catalog_files, read_regular_file};
use portcullis::conf::yaml;

/// A caller that has expired, or one of its keys.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Expired<'c> {
    caller: &'c str,
    key: Option<&'c str>,
}

/// Warns of each key and caller that has expired by this time, with its line.
pub(super) fn expiry_warnings(catalog: &Catalog, conf: &Path, now: SystemTime) -> Vec<Problem> {
    let is_over = |expires: Option<SystemTime>| expires.is_some_and(|expires| expires <= now);
    let callers = catalog
        .callers()
        .iter()
        .filter(|caller| is_over(caller.expires));
    let mut all: Vec<Expired<'_>> = callers
        .map(|caller| Expired {
            caller: &caller.id,
            key: None,
        })
        .collect();
    // A caller that has expired stands for all its keys.
    let keys = catalog
        .keys()
        .filter(|key| is_over(key.expires) && !is_over(key.caller.expires));
    all.extend(keys.map(|key| Expired {
        caller: &key.caller.id,
        key: key.id.split_once('/').map(|(_, name)| name),
    }));
    // A key with two secrets stands once.
    all.sort();
    all.dedup();
    if all.is_empty() {
        return Vec::new();
    }
    let files = read_texts(conf);
    all.iter().map(|expired| expired.warning(&files)).collect()
}

/// Reads the files of the catalog. They were read before, so what cannot be read now is left out.
pub(super) fn read_texts(conf: &Path) -> Vec<(String, String)> {
    let paths = list_catalog_files(conf)
        .map(|listed| listed.paths)
        .unwrap_or_default();
    let read = paths.into_iter().filter_map(|path| {
        let name = path
            .strip_prefix(conf)
            .unwrap_or(&path)
            .display()
            .to_string();
        Some((
            name,
            String::from_utf8(read_regular_file(&path, yaml::LARGEST_TEXT).ok()?).ok()?,
        ))
    });
    read.collect()
}

impl Expired<'_> {
    fn warning(&self, files: &[(String, String)]) -> Problem {
        let (path, problem) = match self.key {
            Some(key) => (
                format!("callers.{}.keys.{key}", self.caller),
                "has expired: this key does not work",
            ),
            None => (
                format!("callers.{}", self.caller),
                "has expired: no key of this caller works",
            ),
        };
        let (file, line) = files
            .iter()
            .find_map(|(file, text)| Some((file.clone(), self.line(text)?)))
            .unzip();
        let problem = format!("{problem}. Write a later time, or remove it");
        Problem {
            file: file.unwrap_or_default(),
            line,
            path: format!("{path}.expires"),
            message: problem,
        }
    }

    /// Returns the line in a file where the expiry is written.
    fn line(&self, text: &str) -> Option<usize> {
        let (tree, _) = yaml::parse(text).ok()?;
        let steps = ["callers", self.caller].into_iter();
        let steps = steps
            .chain(self.key.into_iter().flat_map(|key| ["keys", key]))
            .chain(["expires"]);
        let mut node = &tree;
        let mut line = None;
        for step in steps {
            let found = node.find(&yaml::Path::Root.key(step))?;
            (node, line) = (found.node, Some(found.line));
        }
        line
    }
}
