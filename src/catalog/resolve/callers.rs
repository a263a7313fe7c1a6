//! Callers and their keys: who they are, and what they may see.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use super::prices::Unpriced;
use super::{Models, Report, entry};
use crate::catalog::globs::Globs;
use crate::catalog::rotation::{KeySecret, is_replaced, newest};
use crate::catalog::{Caller, Key, Permissions, name, raw};
use crate::limits::Limits;
use crate::price::Usd;
use crate::problem::{quoted, shown};
use crate::units::{Decimal, Text, Time};
use crate::yaml::Path;
use crate::yaml::read::{Entries, List, items};

/// All that may call.
pub(super) struct Served {
    pub(super) callers: Vec<Arc<Caller>>,
    pub(super) keys: HashMap<[u8; 32], KeySecret>,
    pub(super) key_total: usize,
    pub(super) permissions: usize,
}

pub(super) fn resolve<'m>(
    documents: &[Option<raw::Catalog>],
    models: &'m Models<'m>,
    unpriced: &mut Unpriced<'m>,
    report: &mut Report<'_>,
) -> Served {
    let section = Path::Root.key("callers");
    let mut parts: BTreeMap<&str, Vec<(usize, &raw::Caller)>> = BTreeMap::new();
    for (file, document) in documents.iter().enumerate() {
        for (id, caller) in
            document.as_ref().and_then(|raw| raw.callers.as_ref()).into_iter().flat_map(|callers| &callers.0)
        {
            parts.entry(id).or_default().extend(caller.as_ref().map(|caller| (file, caller)));
            if let Err(wrong) = name::of_entry(id) {
                report.problem(file, &entry(&section, id), wrong);
            }
        }
    }
    let mut all = All {
        models,
        unpriced,
        aliases: aliases(models),
        permissions: HashMap::new(),
        globs: HashMap::new(),
        keys: HashMap::new(),
        key_total: 0,
    };
    let callers = parts.iter().map(|(id, parts)| all.caller(id, parts, report)).collect();
    Served { callers, permissions: all.permissions.len(), key_total: all.key_total, keys: all.keys }
}

fn aliases<'m>(models: &'m Models<'_>) -> HashMap<&'m str, &'m str> {
    models.values().flatten().flat_map(|model| model.aliases.iter().map(|alias| (&**alias, &*model.id))).collect()
}

/// What is gathered over all callers.
struct All<'u, 'm, 'r> {
    models: &'m Models<'m>,
    unpriced: &'u mut Unpriced<'m>,
    aliases: HashMap<&'m str, &'m str>,
    permissions: HashMap<(Globs, Globs), Arc<Permissions>>,
    globs: HashMap<&'r str, Arc<str>>,
    keys: HashMap<[u8; 32], KeySecret>,
    key_total: usize,
}

impl<'r> All<'_, '_, 'r> {
    fn caller(&mut self, id: &'r str, parts: &[(usize, &'r raw::Caller)], report: &mut Report<'_>) -> Arc<Caller> {
        let section = Path::Root.key("callers");
        let at = entry(&section, id);
        // Its keys may be spread over files; all else stands in one of them.
        let mut whole = parts.iter().filter(|(_, raw)| is_whole(raw));
        let own = whole.next().or(parts.first());
        for (file, _) in whole {
            let first = own.map(|(first, _)| report.place(*first, &at)).unwrap_or_default();
            report.problem(
                *file,
                &at,
                &format!("is described in {first} too: only its `keys` may be spread over files"),
            );
        }
        let raw = own.map(|(_, raw)| *raw);
        let caller = Arc::new(Caller {
            id: id.into(),
            enabled: raw.and_then(|raw| raw.enabled).unwrap_or(true),
            expires: time(raw.and_then(|raw| raw.expires)),
            limits: own
                .map(|(file, raw)| limits(raw.limits.as_ref(), *file, &at.key("limits"), report))
                .unwrap_or_default(),
            expose_cost: raw.and_then(|raw| raw.expose_cost).unwrap_or(false),
        });
        let globs = match own {
            Some((file, raw)) => self.globs(raw.models.as_ref(), *file, &at, report),
            None => Globs::default(),
        };
        let list = at.key("keys");
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let mut used: BTreeMap<usize, Arc<Permissions>> = BTreeMap::new();
        for (file, raw) in parts {
            for (name, key) in raw.keys.iter().flat_map(|keys| &keys.0) {
                let at = entry(&list, name);
                if let Err(wrong) = name::of_entry(name) {
                    report.problem(*file, &at, wrong);
                }
                if let Some(first) = seen.insert(name, *file) {
                    let first = report.place(first, &at);
                    report.problem(*file, &at, &format!("stands also in {first}: keep one"));
                }
                let Some(key) = key else { continue };
                let key = self.key(name, key, &caller, &globs, *file, &at, report);
                // What is switched off costs nothing.
                if caller.enabled && key.enabled {
                    self.unpriced.check_key(&key, *file, &at, report);
                    used.entry(key.permissions.index).or_insert_with(|| Arc::clone(&key.permissions));
                }
            }
        }
        if let Some((file, _)) = own {
            let used = used.values().map(|permissions| &**permissions);
            self.unpriced.check_caller(&caller.limits, used, *file, &at.key("limits"), report);
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
    ) -> Arc<Key> {
        if raw.allow_ips.as_ref().is_some_and(Vec::is_empty) {
            report.missing(
                file,
                &at.key("allow_ips"),
                "must list at least one address or range; without it the key may be used from everywhere",
            );
        }
        let globs = self.globs(raw.models.as_ref(), file, at, report);
        let index = self.key_total;
        self.key_total += 1;
        let key = Arc::new(Key {
            index,
            limits: limits(raw.limits.as_ref(), file, &at.key("limits"), report),
            model_limits: self.model_limits(raw.model_limits.as_ref(), file, at, report),
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
            (Some(Text(digest)), None) => self.hash(
                *digest,
                KeySecret { key: key.clone(), until: None, replaced: false },
                file,
                &at.key("hash"),
                report,
            ),
            (None, Some(hashes)) if !hashes.is_empty() => {
                let list = at.key("hashes");
                let newest = newest(items(Some(hashes)).map(|(_, raw)| time(raw.until)));
                for (index, raw) in items(Some(hashes)) {
                    let at = list.index(index);
                    match raw.hash {
                        Some(Text(digest)) => {
                            let until = time(raw.until);
                            let secret = KeySecret { key: key.clone(), until, replaced: is_replaced(until, newest) };
                            self.hash(digest, secret, file, &at.key("hash"), report);
                        }
                        None => report.missing(file, &at.key("hash"), "is missing: `sha256:` and 64 hex digits"),
                    }
                }
            }
            // Beside the field that could not be read, none is missing.
            (None, Some(_) | None) => {
                report.missing(
                    file,
                    &at.key("hash"),
                    "is missing: `portcullis key new --print` makes a key and prints what to write here",
                );
            }
        }
        key
    }

    fn hash(&mut self, digest: raw::Digest, secret: KeySecret, file: usize, at: &Path<'_>, report: &mut Report<'_>) {
        match self.keys.entry(digest.0) {
            Entry::Vacant(free) => {
                free.insert(secret);
            }
            Entry::Occupied(taken) => {
                let what = format!("is the hash of {} too: one secret is one key", taken.get().key.id);
                report.problem(file, at, &what);
            }
        }
    }

    fn model_limits(
        &self,
        written: Option<&'r Entries<raw::Limits>>,
        file: usize,
        at: &Path<'_>,
        report: &mut Report<'_>,
    ) -> Vec<(usize, Limits)> {
        let section = at.key("model_limits");
        let mut found = Vec::new();
        for (id, raw) in written.into_iter().flat_map(|entries| &entries.0) {
            let is_known = self.models.contains_key(id.as_str()) || self.aliases.contains_key(id.as_str());
            let at = section.entry(id, is_known);
            let limits = limits(raw.as_ref(), file, &at, report);
            match (self.models.get(id.as_str()), self.aliases.get(id.as_str())) {
                (Some(Some(model)), _) => found.push((model.index, limits)),
                // It has errors of its own.
                (Some(None), _) => {}
                (None, Some(model)) => {
                    report.problem(file, &at, &format!("{} is an alias: write \"{model}\"", shown(id)))
                }
                (None, None) => {
                    let known = self.models.keys().copied();
                    // The value stands in the path here: its place is the key's.
                    let hint = super::meant("models", id, known.clone());
                    match quoted(id, known) {
                        Some(quoted) => report.problem(file, &section.key(id), &format!("no model {quoted}; {hint}")),
                        None => report.problem(file, &at, &format!("no such model; {hint}")),
                    }
                }
            }
        }
        found.sort_unstable_by_key(|(index, _)| *index);
        found
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

    fn globs(
        &mut self,
        written: Option<&'r List<String>>,
        file: usize,
        at: &Path<'_>,
        report: &mut Report<'_>,
    ) -> Globs {
        let Some(written) = written else { return Globs::everything() };
        let list = at.key("models");
        for (index, glob) in items(Some(written)) {
            let at = list.index(index);
            if glob.is_empty() || !glob.bytes().all(|b| b.is_ascii_graphic()) {
                report.withheld(file, &at, "must be a glob over model ids, such as \"gpt-*\"");
            } else if let Some(model) = self.aliases.get(glob.as_str()) {
                report.warn(file, &at, &format!("{} is an alias, and globs match ids: write \"{model}\"", shown(glob)));
            } else if !glob.contains(['*', '?']) && !self.models.contains_key(glob.as_str()) {
                let known = self.models.keys().copied();
                let what = match quoted(glob, known.clone()) {
                    Some(quoted) => format!("there is no model {quoted}; {}", super::meant("models", glob, known)),
                    None => report.in_column(file, &at, "there is no such model"),
                };
                report.warn(file, &at, &what);
            }
        }
        Globs::new(
            items(Some(written))
                .map(|(_, glob)| Arc::clone(self.globs.entry(glob).or_insert_with(|| glob.as_str().into()))),
        )
    }
}

/// It says more of a caller than keys.
fn is_whole(raw: &raw::Caller) -> bool {
    let raw::Caller { enabled, expires, models, limits, expose_cost, keys: _ } = raw;
    enabled.is_some() || expires.is_some() || models.is_some() || limits.is_some() || expose_cost.is_some()
}

fn limits(written: Option<&raw::Limits>, file: usize, at: &Path<'_>, report: &mut Report<'_>) -> Limits {
    let Some(raw) = written else { return Limits::default() };
    let mut at_least_one = |field: &str, written: Option<u64>| {
        if written == Some(0) {
            report.problem(
                file,
                &at.key(field),
                "must be at least 1; what shall not be used at all is switched off with `enabled: false`",
            );
        }
        written
    };
    Limits {
        requests_per_minute: at_least_one("requests_per_minute", raw.requests_per_minute),
        requests_per_day: at_least_one("requests_per_day", raw.requests_per_day),
        tokens_per_minute: at_least_one("tokens_per_minute", raw.tokens_per_minute),
        tokens_per_day: at_least_one("tokens_per_day", raw.tokens_per_day),
        concurrency: at_least_one("concurrency", raw.concurrency),
        usd_per_day: usd("usd_per_day", raw.usd_per_day, file, at, report),
        usd_per_month: usd("usd_per_month", raw.usd_per_month, file, at, report),
    }
}

fn usd(field: &str, written: Option<Decimal>, file: usize, at: &Path<'_>, report: &mut Report<'_>) -> Option<Usd> {
    let Decimal(millionths) = written?;
    let usd = Usd::of_millionths(millionths);
    if usd == Usd::ZERO {
        report.problem(
            file,
            &at.key(field),
            "must be more than 0; what shall not be used at all is switched off with `enabled: false`",
        );
    }
    Some(usd)
}

fn time(written: Option<Text<Time>>) -> Option<SystemTime> {
    written.map(|Text(time)| time.system())
}
