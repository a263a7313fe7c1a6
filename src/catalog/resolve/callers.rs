//! Resolving callers and their keys: who they are, what they may see, and what they may use.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use super::Models;
use super::models::pattern_of;
use super::prices::Unpriced;
use crate::base::problem::{quote_near_miss, quote_safely};
use crate::base::units::{Decimal, Text, Time};
use crate::catalog::globs::Globs;
use crate::catalog::rotation::{KeySecret, is_replaced, newest_end};
use crate::catalog::{Caller, Key, Permissions, name, raw};
use crate::conf::price::Usd;
use crate::conf::scribe::{Report, Scribe, WrittenEntry, suggest_names};
use crate::conf::yaml::read::{Entries, List, list_items, map_entries};
use crate::limits::{Kind, Limits};

/// Resolves all callers with their keys. Returns the callers, and the resolver with all else.
pub(super) fn resolve_callers<'u, 'm, 'r>(
    documents: &'r [Option<Arc<raw::Catalog>>],
    models: &'m Models<'m>,
    unpriced: &'u mut Unpriced<'m>,
    report: &Report<'_>,
) -> (Vec<Arc<Caller>>, CallerResolver<'u, 'm, 'r>) {
    let root = Scribe::new(report, 0);
    let section = root.key("callers");
    let mut parts: BTreeMap<&str, Vec<(usize, &raw::Caller)>> = BTreeMap::new();
    for (file, document) in documents.iter().enumerate() {
        for (id, caller) in map_entries(document.as_ref().and_then(|raw| raw.callers.as_ref())) {
            parts
                .entry(id)
                .or_default()
                .extend(caller.as_ref().map(|caller| (file, caller)));
            section
                .in_file(file)
                .entry(id)
                .read_or_noted(name::of_entry(id));
        }
    }
    let mut all = CallerResolver {
        models,
        unpriced,
        aliases: models_by_alias(models),
        permissions: HashMap::new(),
        globs: HashMap::new(),
        secrets: HashMap::new(),
        keys: Vec::new(),
        resolved: HashMap::new(),
    };
    let callers = parts
        .iter()
        .map(|(id, parts)| all.resolve_caller(id, parts, &section))
        .collect();
    (callers, all)
}

/// Returns the ids of models that keys have limits for.
pub(super) fn limited_models(
    documents: &[Option<Arc<raw::Catalog>>],
) -> impl Iterator<Item = &str> {
    let callers = documents
        .iter()
        .flatten()
        .flat_map(|raw| map_entries(raw.callers.as_ref()));
    let keys = callers
        .filter_map(|(_, caller)| caller.as_ref())
        .flat_map(|caller| map_entries(caller.keys.as_ref()));
    let of_keys = keys.filter_map(|(_, key)| key.as_ref().map(|key| &key.model_limits));
    let identities = documents
        .iter()
        .flatten()
        .flat_map(|raw| map_entries(raw.identities.as_ref()));
    let of_subjects = identities.filter_map(|(_, raw)| raw.as_ref().map(|raw| &raw.model_limits));
    of_keys
        .chain(of_subjects)
        .flat_map(|limits| map_entries(limits.as_ref()))
        .map(|(id, _)| id.as_str())
}

fn models_by_alias<'m>(models: &'m Models<'_>) -> HashMap<&'m str, &'m str> {
    models
        .values()
        .flatten()
        .flat_map(|model| model.aliases.iter().map(|alias| (&**alias, &*model.id)))
        .collect()
}

/// A resolver of all callers, with everything that it gathers on the way.
pub(super) struct CallerResolver<'u, 'm, 'r> {
    models: &'m Models<'m>,
    unpriced: &'u mut Unpriced<'m>,
    aliases: HashMap<&'m str, &'m str>,
    permissions: HashMap<(Globs, Globs), Arc<Permissions>>,
    globs: HashMap<&'r str, Arc<str>>,
    pub(super) secrets: HashMap<[u8; 32], KeySecret>,
    pub(super) keys: Vec<Arc<Key>>,
    /// The callers by their names, each with the models that it may see.
    resolved: HashMap<Arc<str>, (Arc<Caller>, Globs)>,
}

impl<'r> CallerResolver<'_, '_, 'r> {
    /// Returns the names of all callers.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.resolved.keys().map(|id| &**id)
    }

    /// Makes the key of which the keys of an identity's subjects are copies, for those that belong
    /// to this caller. Returns `None` if there is no such caller.
    pub(super) fn subject_template(
        &mut self,
        identity: &WrittenEntry<'r, '_, '_, raw::Identity>,
        caller: &str,
    ) -> Option<Arc<Key>> {
        let WrittenEntry { scribe, id, raw } = identity;
        let (caller, globs) = self.resolved.get(caller)?.clone();
        let key = Key {
            id: format!("{}/{id}:", caller.id).into(),
            caller,
            enabled: true,
            expires: None,
            index: usize::MAX,
            limits: resolve_limits(raw.limits.as_ref(), &scribe.key("limits")),
            model_limits: self.model_limits(raw.model_limits.as_ref(), scribe).into(),
            allow_ips: list_items(raw.allow_ips.as_ref())
                .map(|(_, Text(range))| *range)
                .collect(),
            debug: false,
            permissions: self.share_permissions(&globs, Globs::everything()),
            own_scopes: None,
        };
        if key.caller.enabled {
            self.unpriced.check_key(&key, scribe);
            let permissions = std::iter::once(&*key.permissions);
            self.unpriced
                .check_caller(&key.caller.limits, permissions, scribe);
        }
        Some(Arc::new(key))
    }

    fn resolve_caller(
        &mut self,
        id: &'r str,
        parts: &[(usize, &'r raw::Caller)],
        section: &Scribe<'_, '_>,
    ) -> Arc<Caller> {
        // The caller's keys may be spread over files; all other fields stand in one file.
        let mut whole = parts.iter().filter(|(_, raw)| is_whole(raw));
        // If no part of the caller could be read, there will be no catalog.
        let Some((own, raw)) = whole.next().or(parts.first()) else {
            return Arc::default();
        };
        let section = section.in_file(*own);
        let scribe = section.entry(id);
        for (file, _) in whole {
            let first = scribe.location_in(*own);
            scribe.in_file(*file).note_problem(&format!(
                "is also described in {first}: only the `keys` of a caller may be spread over several files"
            ));
        }
        let caller = Arc::new(Caller {
            id: id.into(),
            enabled: raw.enabled.unwrap_or(true),
            expires: to_system_time(raw.expires),
            limits: resolve_limits(raw.limits.as_ref(), &scribe.key("limits")),
            expose_cost: raw.expose_cost.unwrap_or(false),
        });
        let globs = self.resolve_globs(raw.models.as_ref(), &scribe);
        let named = (Arc::clone(&caller), globs.clone());
        self.resolved.insert(Arc::clone(&caller.id), named);
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let mut used: BTreeMap<usize, Arc<Permissions>> = BTreeMap::new();
        for (file, raw) in parts {
            let scribe = scribe.in_file(*file);
            let list = scribe.key("keys");
            for (name, key) in map_entries(raw.keys.as_ref()) {
                let scribe = list.entry(name);
                scribe.read_or_noted(name::of_entry(name));
                if let Some(first) = seen.insert(name, *file) {
                    scribe.note_problem(&format!(
                        "is also in {}: keep only one of the two",
                        scribe.location_in(first)
                    ));
                }
                let Some(key) = key else { continue };
                let key = self.resolve_key(
                    &WrittenEntry {
                        scribe,
                        id: name,
                        raw: key,
                    },
                    &caller,
                    &globs,
                );
                // A key that is switched off costs nothing.
                if caller.enabled && key.enabled {
                    self.unpriced.check_key(&key, &scribe);
                    used.entry(key.permissions.index)
                        .or_insert_with(|| Arc::clone(&key.permissions));
                }
            }
        }
        let used = used.values().map(|permissions| &**permissions);
        self.unpriced
            .check_caller(&caller.limits, used, &scribe.key("limits"));
        caller
    }

    fn resolve_key(
        &mut self,
        written: &WrittenEntry<'r, '_, '_, raw::Key>,
        caller: &Arc<Caller>,
        of_caller: &Globs,
    ) -> Arc<Key> {
        let WrittenEntry { scribe, id, raw } = written;
        let message = "must list at least one address or range; remove it to allow the key from every address";
        scribe
            .key("allow_ips")
            .note_missing_if(raw.allow_ips.as_ref().is_some_and(Vec::is_empty), message);
        let globs = self.resolve_globs(raw.models.as_ref(), scribe);
        let index = self.keys.len();
        let key = Arc::new(Key {
            index,
            limits: resolve_limits(raw.limits.as_ref(), &scribe.key("limits")),
            model_limits: self.model_limits(raw.model_limits.as_ref(), scribe).into(),
            id: format!("{}/{id}", caller.id).into(),
            caller: Arc::clone(caller),
            enabled: raw.enabled.unwrap_or(true),
            expires: to_system_time(raw.expires),
            allow_ips: list_items(raw.allow_ips.as_ref())
                .map(|(_, Text(range))| *range)
                .collect(),
            debug: raw.debug.unwrap_or(false),
            permissions: self.share_permissions(of_caller, globs),
            own_scopes: None,
        });
        self.keys.push(Arc::clone(&key));
        let hashes = raw.hashes.as_ref();
        let message =
            "is missing: `portcullis key new --print` makes a key and prints what to write here";
        scribe.key("hash").note_missing_if(
            raw.hash.is_none() && hashes.is_none_or(Vec::is_empty),
            message,
        );
        if let Some(Text(digest)) = raw.hash {
            if hashes.is_some() {
                scribe
                    .key("hashes")
                    .note_problem("cannot be used together with `hash`: keep only one of the two");
            } else {
                self.add_hash(
                    digest,
                    KeySecret::new(index, None, false),
                    &scribe.key("hash"),
                );
            }
            return key;
        }
        let list = scribe.key("hashes");
        let newest = newest_end(list_items(hashes).map(|(_, raw)| to_system_time(raw.until)));
        for (position, raw) in list_items(hashes) {
            let scribe = list.index(position);
            let scribe = scribe.key("hash");
            let Some(Text(digest)) =
                scribe.required(raw.hash, "is missing: `sha256:` and 64 hex digits")
            else {
                continue;
            };
            let until = to_system_time(raw.until);
            self.add_hash(
                digest,
                KeySecret::new(index, until, is_replaced(until, newest)),
                &scribe,
            );
        }
        key
    }

    fn add_hash(&mut self, digest: raw::Digest, secret: KeySecret, scribe: &Scribe<'_, '_>) {
        match self.secrets.entry(digest.0) {
            Entry::Vacant(free) => {
                free.insert(secret);
            }
            Entry::Occupied(taken) => {
                let other = taken.get().find_key(&self.keys);
                let other = other.map(|key| &*key.id).unwrap_or_default();
                scribe.note_problem(&format!(
                    "is also the hash of {other}: each key must have a secret of its own"
                ));
            }
        }
    }

    fn model_limits(
        &self,
        written: Option<&'r Entries<raw::Limits>>,
        scribe: &Scribe<'_, '_>,
    ) -> Vec<(usize, Limits)> {
        let section = scribe.key("model_limits");
        let mut found = Vec::new();
        for (id, raw) in map_entries(written) {
            let is_known =
                self.models.contains_key(id.as_str()) || self.aliases.contains_key(id.as_str());
            let scribe = section.entry_if(id, is_known);
            let limits = resolve_limits(raw.as_ref(), &scribe);
            match (self.models.get(id.as_str()), self.aliases.get(id.as_str())) {
                (Some(Some(model)), _) if model.is_pattern() => {
                    scribe.note_problem("is a pattern, and a limit counts for one model: write the names of its models");
                }
                (Some(Some(model)), _) => found.push((model.index, limits)),
                // The model has errors of its own.
                (Some(None), _) => {}
                (None, Some(model)) => scribe.note_problem(&format!(
                    "{} is an alias: write \"{model}\"",
                    quote_safely(id)
                )),
                (None, None) => {
                    let known = self.models.keys().copied();
                    // The wrong id is a key of the map, so it is part of the path. If the path
                    // hides it, the report adds the key's column.
                    let hint = suggest_names("models", id, known.clone());
                    match quote_near_miss(id, known) {
                        Some(quoted) => section
                            .key(id)
                            .note_problem(&format!("no model {quoted}; {hint}")),
                        None => scribe.note_problem(&format!("no such model; {hint}")),
                    }
                }
            }
        }
        found.sort_unstable_by_key(|(index, _)| *index);
        found
    }

    /// Returns the permissions of these two sets. Equal permissions are one object.
    fn share_permissions(&mut self, caller: &Globs, key: Globs) -> Arc<Permissions> {
        let index = self.permissions.len();
        match self.permissions.entry((caller.clone(), key)) {
            Entry::Occupied(known) => Arc::clone(known.get()),
            Entry::Vacant(free) => {
                let (of_caller, of_key) = free.key().clone();
                Arc::clone(free.insert(Arc::new(Permissions {
                    index,
                    of_caller,
                    of_key,
                })))
            }
        }
    }

    fn resolve_globs(
        &mut self,
        written: Option<&'r List<String>>,
        scribe: &Scribe<'_, '_>,
    ) -> Globs {
        let Some(written) = written else {
            return Globs::everything();
        };
        let list = scribe.key("models");
        for (index, glob) in list_items(Some(written)) {
            let scribe = list.index(index);
            if glob.is_empty() || !glob.bytes().all(|b| b.is_ascii_graphic()) {
                scribe.note_problem_unquoted("must be a glob over model ids, such as \"gpt-*\"");
            } else if let Some(model) = self.aliases.get(glob.as_str()) {
                scribe.warn(&format!(
                    "{} is an alias, but a glob only matches ids: write \"{model}\"",
                    quote_safely(glob)
                ));
            } else if !glob.contains(['*', '?'])
                && !self.models.contains_key(glob.as_str())
                && pattern_of(self.models.keys().copied(), glob).is_none()
            {
                let known = self.models.keys().copied();
                let message = match quote_near_miss(glob, known.clone()) {
                    Some(quoted) => format!(
                        "there is no model {quoted}; {}",
                        suggest_names("models", glob, known)
                    ),
                    None => scribe.in_column("there is no such model"),
                };
                scribe.warn(&message);
            }
        }
        Globs::new(list_items(Some(written)).map(|(_, glob)| {
            Arc::clone(
                self.globs
                    .entry(glob)
                    .or_insert_with(|| glob.as_str().into()),
            )
        }))
    }
}

/// Returns whether more than keys is written for a caller.
fn is_whole(raw: &raw::Caller) -> bool {
    let raw::Caller {
        enabled,
        expires,
        models,
        limits,
        expose_cost,
        keys: _,
    } = raw;
    enabled.is_some()
        || expires.is_some()
        || models.is_some()
        || limits.is_some()
        || expose_cost.is_some()
}

fn resolve_limits(written: Option<&raw::Limits>, scribe: &Scribe<'_, '_>) -> Limits {
    let Some(raw) = written else {
        return Limits::default();
    };
    let reserve = raw.reserve.unwrap_or_default();
    let limits = Limits::new(|kind| resolve_limit(raw, kind, scribe), reserve);
    let is_idle = raw.reserve.is_some() && !limits.limits_use();
    scribe.key("reserve").note_problem_if(
        is_idle,
        "has no effect here: write a limit of tokens or money beside it",
    );
    limits
}

fn resolve_limit(raw: &raw::Limits, kind: Kind, scribe: &Scribe<'_, '_>) -> Option<u64> {
    let nano_usd = |written: Option<Decimal>| Some(Usd::of_millionths(written?.0).0);
    let written = match kind {
        Kind::RequestsPerMinute => raw.requests_per_minute,
        Kind::RequestsPerDay => raw.requests_per_day,
        Kind::TokensPerMinute => raw.tokens_per_minute,
        Kind::TokensPerDay => raw.tokens_per_day,
        Kind::Concurrency => raw.concurrency,
        Kind::UsdPerDay => nano_usd(raw.usd_per_day),
        Kind::UsdPerMonth => nano_usd(raw.usd_per_month),
    };
    let problem = if kind.is_money() {
        "must be more than 0; to forbid all requests write `enabled: false`"
    } else {
        "must be at least 1; to forbid all requests write `enabled: false`"
    };
    scribe
        .key(kind.name())
        .note_problem_if(written == Some(0), problem);
    written
}

fn to_system_time(written: Option<Text<Time>>) -> Option<SystemTime> {
    written.map(|Text(time)| time.system())
}
