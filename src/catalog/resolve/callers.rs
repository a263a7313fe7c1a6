//! Callers and their keys: who they are, and what they may see.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use super::{Models, Report};
use crate::catalog::globs::Globs;
use crate::catalog::{Caller, Key, Permissions, name, raw};
use crate::problem::shown;
use crate::units::{Text, Time};
use crate::yaml::Path;
use crate::yaml::read::{List, items};

/// All that may call.
pub(super) struct Served {
    pub(super) callers: Vec<Arc<Caller>>,
    pub(super) keys: HashMap<[u8; 32], (Arc<Key>, Option<SystemTime>)>,
    pub(super) permissions: usize,
}

pub(super) fn resolve(documents: &[Option<raw::Catalog>], models: &Models<'_>, report: &mut Report<'_>) -> Served {
    let section = Path::Root.key("callers");
    let mut parts: BTreeMap<&str, Vec<(usize, &raw::Caller)>> = BTreeMap::new();
    for (file, document) in documents.iter().enumerate() {
        for (id, caller) in document.as_ref().and_then(|raw| raw.callers.as_ref()).into_iter().flat_map(|callers| &callers.0) {
            parts.entry(id).or_default().extend(caller.as_ref().map(|caller| (file, caller)));
            if let Err(wrong) = name::of_entry(id) {
                report.problem(file, &section.key(id), wrong);
            }
        }
    }
    let mut all = All { models, aliases: aliases(models), permissions: HashMap::new(), globs: HashMap::new(), keys: HashMap::new() };
    let callers = parts.iter().map(|(id, parts)| all.caller(id, parts, report)).collect();
    Served { callers, permissions: all.permissions.len(), keys: all.keys }
}

fn aliases<'m>(models: &'m Models<'_>) -> HashMap<&'m str, &'m str> {
    models.values().flatten().flat_map(|model| model.aliases.iter().map(|alias| (&**alias, &*model.id))).collect()
}

/// What is gathered over all callers.
struct All<'m, 'r> {
    models: &'m Models<'m>,
    aliases: HashMap<&'m str, &'m str>,
    permissions: HashMap<(Globs, Globs), Arc<Permissions>>,
    globs: HashMap<&'r str, Arc<str>>,
    keys: HashMap<[u8; 32], (Arc<Key>, Option<SystemTime>)>,
}

impl<'r> All<'_, 'r> {
    fn caller(&mut self, id: &'r str, parts: &[(usize, &'r raw::Caller)], report: &mut Report<'_>) -> Arc<Caller> {
        let section = Path::Root.key("callers");
        let at = section.key(id);
        // Its keys may be spread over files; all else stands in one of them.
        let mut whole = parts.iter().filter(|(_, raw)| raw.enabled.is_some() || raw.expires.is_some() || raw.models.is_some());
        let own = whole.next().or(parts.first());
        for (file, _) in whole {
            let first = own.map(|(first, _)| report.place(*first, &at)).unwrap_or_default();
            report.problem(*file, &at, &format!("is described in {first} too: only its `keys` may be spread over files"));
        }
        let raw = own.map(|(_, raw)| *raw);
        let caller = Arc::new(Caller {
            id: id.into(),
            enabled: raw.and_then(|raw| raw.enabled).unwrap_or(true),
            expires: time(raw.and_then(|raw| raw.expires)),
        });
        let globs = match own {
            Some((file, raw)) => self.globs(raw.models.as_ref(), *file, &at, report),
            None => Globs::default(),
        };
        let list = at.key("keys");
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for (file, raw) in parts {
            for (name, key) in raw.keys.iter().flat_map(|keys| &keys.0) {
                let at = list.key(name);
                if let Err(wrong) = name::of_entry(name) {
                    report.problem(*file, &at, wrong);
                }
                if let Some(first) = seen.insert(name, *file) {
                    let first = report.place(first, &at);
                    report.problem(*file, &at, &format!("stands also in {first}: keep one"));
                }
                if let Some(key) = key {
                    self.key(name, key, &caller, &globs, *file, &at, report);
                }
            }
        }
        caller
    }

    #[expect(clippy::too_many_arguments, reason = "what is written, whose it is, and where it stands")]
    fn key(
        &mut self,
        name: &str,
        raw: &'r raw::Key,
        caller: &Arc<Caller>,
        of_caller: &Globs,
        file: usize,
        at: &Path<'_>,
        report: &mut Report<'_>,
    ) {
        if raw.allow_ips.as_ref().is_some_and(Vec::is_empty) {
            report.missing(
                file,
                &at.key("allow_ips"),
                "must list at least one address or range; without it the key may be used from everywhere",
            );
        }
        let globs = self.globs(raw.models.as_ref(), file, at, report);
        let key = Arc::new(Key {
            id: format!("{}/{name}", caller.id).into(),
            caller: Arc::clone(caller),
            enabled: raw.enabled.unwrap_or(true),
            expires: time(raw.expires),
            allow_ips: items(raw.allow_ips.as_ref()).map(|(_, Text(range))| *range).collect(),
            debug: raw.debug.unwrap_or(false),
            permissions: self.permissions(of_caller, globs),
        });
        match (&raw.hash, &raw.hashes) {
            (Some(_), Some(_)) => report.problem(file, &at.key("hashes"), "stands beside `hash`: keep one of the two"),
            (Some(Text(digest)), None) => self.hash(*digest, None, &key, file, &at.key("hash"), report),
            (None, Some(hashes)) if !hashes.is_empty() => {
                let list = at.key("hashes");
                for (index, raw) in items(Some(hashes)) {
                    let at = list.index(index);
                    match raw.hash {
                        Some(Text(digest)) => self.hash(digest, time(raw.until), &key, file, &at.key("hash"), report),
                        None => report.missing(file, &at.key("hash"), "is missing: `sha256:` and 64 hex digits"),
                    }
                }
            }
            // Beside the field that could not be read, none is missing.
            (None, Some(_) | None) => {
                report.missing(file, &at.key("hash"), "is missing: `portcullis key new` makes a key and prints what to write here");
            }
        }
    }

    fn hash(
        &mut self,
        digest: raw::Digest,
        until: Option<SystemTime>,
        key: &Arc<Key>,
        file: usize,
        at: &Path<'_>,
        report: &mut Report<'_>,
    ) {
        match self.keys.entry(digest.0) {
            Entry::Vacant(free) => {
                free.insert((Arc::clone(key), until));
            }
            Entry::Occupied(taken) => {
                let what = format!("is the hash of {} too: one secret is one key", taken.get().0.id);
                report.problem(file, at, &what);
            }
        }
    }

    /// Equal sets are one object.
    fn permissions(&mut self, caller: &Globs, key: Globs) -> Arc<Permissions> {
        let index = self.permissions.len();
        match self.permissions.entry((caller.clone(), key)) {
            Entry::Occupied(known) => Arc::clone(known.get()),
            Entry::Vacant(free) => {
                let (caller, key) = free.key().clone();
                Arc::clone(free.insert(Arc::new(Permissions { index, caller, key })))
            }
        }
    }

    fn globs(&mut self, written: Option<&'r List<String>>, file: usize, at: &Path<'_>, report: &mut Report<'_>) -> Globs {
        let Some(written) = written else { return Globs::everything() };
        let list = at.key("models");
        for (index, glob) in items(Some(written)) {
            let at = list.index(index);
            if glob.is_empty() || !glob.bytes().all(|b| b.is_ascii_graphic()) {
                report.problem(file, &at, "must be a glob over model ids, such as \"gpt-*\"");
            } else if let Some(model) = self.aliases.get(glob.as_str()) {
                report.warn(file, &at, &format!("{} is an alias, and globs match ids: write \"{model}\"", shown(glob)));
            } else if !glob.contains(['*', '?']) && !self.models.contains_key(glob.as_str()) {
                report.warn(file, &at, &format!("there is no model {}", shown(glob)));
            }
        }
        Globs::new(items(Some(written)).map(|(_, glob)| Arc::clone(self.globs.entry(glob).or_insert_with(|| glob.as_str().into()))))
    }
}

fn time(written: Option<Text<Time>>) -> Option<SystemTime> {
    written.map(|Text(time)| time.system())
}
