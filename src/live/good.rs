//! Good texts are the texts that the live catalog is made of. They are kept next to the files that
//! were refused, so that a wrong file does not hold up a change of another one.
//!
//! **Invariant:** changes that come together with a wrong file are refused with it, since they may
//! be parts of one change. That holds only for a fault that is new. A file that was refused within
//! [`REFUSAL_MEMORY`], or still is, is part of no change, and a revocation elsewhere must not wait
//! for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::base::problem::Problem;
use crate::catalog::settle::WholeTexts;
use crate::catalog::texts::{Texts, Version};

/// The time for which a file counts as one that was wrong before.
const REFUSAL_MEMORY: Duration = Duration::from_secs(60);

/// The texts that are live, and the files that were refused.
pub(super) struct GoodTexts {
    /// The texts of the live catalog.
    pub(super) live: Texts,
    /// The texts that were refused last and are not mended.
    pub(super) refused: Texts,
    /// The time at which each file was last refused.
    refused_at: BTreeMap<PathBuf, Instant>,
    /// The folder of the files that problems name.
    dir: PathBuf,
}

/// The changed files that are to blame for an error.
pub(super) struct Blame {
    pub(super) files: Texts,
    /// True if each of the files was refused before this change, too.
    pub(super) were_refused: bool,
}

impl GoodTexts {
    pub(super) fn new(dir: &Path, live: &Texts) -> Self {
        Self {
            live: live.clone(),
            refused: Texts::new(),
            refused_at: BTreeMap::new(),
            dir: dir.to_owned(),
        }
    }

    /// Notes the texts that are refused. Returns whether any of them is new.
    pub(super) fn note_refused(&mut self, bad: Texts) -> bool {
        let new = bad.iter().any(|(path, version)| {
            self.refused
                .get(path)
                .is_none_or(|before| before.text != version.text)
        });
        let now = Instant::now();
        self.refused_at
            .retain(|_, refused_at| now.duration_since(*refused_at) < REFUSAL_MEMORY);
        self.refused_at
            .extend(bad.keys().map(|path| (path.clone(), now)));
        self.refused = bad;
        new
    }

    /// Returns the changed files that are to blame.
    pub(super) fn blame(&self, whole: &WholeTexts, problems: &[Problem], now: Instant) -> Blame {
        let changed = self.changed(whole);
        let named = problem_paths(&self.dir, problems);
        let mut bad = changed.clone();
        bad.retain(|path, _| named.contains(path));
        if bad.is_empty() {
            // An error may appear in a file that did not change: it may name something that another
            // file took away.
            bad = changed.clone();
            bad.retain(|path, now| {
                let before = self.refused.get(path);
                before.is_some_and(|before| now.text == before.text)
            });
        }
        if bad.is_empty() {
            bad = changed;
        }
        let are_known = bad.keys().all(|path| {
            let since = self
                .refused_at
                .get(path)
                .map(|refused_at| now.duration_since(*refused_at));
            self.refused.contains_key(path) || since.is_some_and(|since| since < REFUSAL_MEMORY)
        });
        Blame {
            were_refused: !bad.is_empty() && are_known,
            files: bad,
        }
    }

    /// Blames more files, by these problems. Returns whether there are any.
    pub(super) fn blame_more(
        &self,
        whole: &WholeTexts,
        problems: &[Problem],
        bad: &mut Texts,
    ) -> bool {
        let named = problem_paths(&self.dir, problems);
        let before = bad.len();
        bad.extend(
            self.changed(whole)
                .into_iter()
                .filter(|(path, _)| named.contains(path)),
        );
        bad.len() > before
    }

    /// Returns whether any file changed that is not bad.
    pub(super) fn has_more(&self, whole: &WholeTexts, bad: &Texts) -> bool {
        self.changed(whole)
            .keys()
            .any(|path| !bad.contains_key(path))
    }

    /// Returns all texts, with the live ones in place of the bad ones.
    pub(super) fn instead_of(&self, whole: &WholeTexts, bad: &Texts) -> Texts {
        let texts = whole.iter().map(|(path, (version, _))| {
            let version = match bad.contains_key(path) {
                true => self.live_text(path),
                false => version.clone(),
            };
            (path.clone(), version)
        });
        texts.collect()
    }

    fn changed(&self, whole: &WholeTexts) -> Texts {
        let changed = whole
            .iter()
            .filter(|(path, (version, _))| self.live_text(path).text != version.text);
        changed
            .map(|(path, (version, _))| (path.clone(), version.clone()))
            .collect()
    }

    fn live_text(&self, path: &Path) -> Version {
        self.live
            .get(path)
            .cloned()
            .unwrap_or_else(Version::missing)
    }
}

fn problem_paths(dir: &Path, problems: &[Problem]) -> BTreeSet<PathBuf> {
    problems
        .iter()
        .map(|problem| dir.join(&problem.file))
        .collect()
}

/// Returns a file's name as the operator knows it: `catalog.d/10-acme.yaml`.
pub(super) fn name_in(dir: &Path, path: &Path) -> String {
    path.strip_prefix(dir).unwrap_or(path).display().to_string()
}
