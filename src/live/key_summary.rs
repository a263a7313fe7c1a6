//! A [`KeySummary`] has what can be said of all keys of a catalog together. It is made once, so
//! that no page and no look at the process walks all keys.

use super::Snapshot;
use crate::catalog::{Catalog, Key, Permissions};
use crate::limits::{self, Bound, KeyScopes, Kind, Level, Scope};
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

/// The most groups of limits, and the most scopes, that are listed: as many as pages show.
pub const MAX_LISTED: usize = 1_000;

/// What can be said of all keys together.
#[derive(Debug, Default)]
pub struct KeySummary {
    /// The number of keys that are switched on, and whose callers are.
    pub usable: usize,
    /// True if money is limited for a caller or a key.
    pub limits_money: bool,
    /// The permissions of the usable keys, each once.
    pub permissions: Vec<Arc<Permissions>>,
    /// The kinds of limits that there are.
    pub limit_kinds: BTreeSet<(Level, Kind)>,
    /// The kinds of limits that there are of each caller and its keys: the first [`MAX_LISTED`].
    pub caller_limits: Vec<(Arc<str>, Level, Kind)>,
    /// Of the keys that have a secret with an end, the end of each secret.
    secret_ends: HashMap<usize, Vec<Option<SystemTime>>>,
    /// Of each caller, the first key that has limits, be it those of the caller.
    first_limited: Vec<usize>,
}

impl KeySummary {
    /// Walks all keys of a catalog with these scopes.
    fn from_catalog(catalog: &Catalog, scopes: &[KeyScopes]) -> KeySummary {
        let mut summary = KeySummary {
            limits_money: catalog
                .callers()
                .iter()
                .any(|caller| caller.limits.limits_money()),
            ..KeySummary::default()
        };
        let mut permissions: HashMap<usize, &Arc<Permissions>> = HashMap::new();
        let mut of_caller: BTreeSet<(Level, Kind)> = BTreeSet::new();
        let mut last_caller: Option<&Arc<str>> = None;
        for (key, scopes) in catalog.keys().zip(scopes) {
            let caller = &key.caller.id;
            if last_caller != Some(caller) {
                summary.add_limits(last_caller, &mut of_caller);
                last_caller = Some(caller);
            }
            if key.enabled && key.caller.enabled {
                summary.usable += 1;
                permissions
                    .entry(key.permissions.index)
                    .or_insert(&key.permissions);
            }
            summary.limits_money |= key.limits.limits_money();
            let mut bounds = scopes.every(key).peekable();
            if bounds.peek().is_some() && of_caller.is_empty() {
                summary.first_limited.push(key.index);
            }
            for bound in bounds {
                let kinds = bound.limit_amounts().map(|(kind, _)| kind);
                of_caller.extend(kinds.map(|kind| (bound.scope.level, kind)));
            }
        }
        summary.add_limits(last_caller, &mut of_caller);
        summary.permissions = permissions.into_values().cloned().collect();
        summary.secret_ends = secret_ends(catalog);
        summary
    }

    /// Adds the kinds of limits of a caller and its keys.
    fn add_limits(&mut self, caller: Option<&Arc<str>>, kinds: &mut BTreeSet<(Level, Kind)>) {
        for (level, kind) in std::mem::take(kinds) {
            self.limit_kinds.insert((level, kind));
            if let Some(caller) = caller.filter(|_| self.caller_limits.len() < MAX_LISTED) {
                self.caller_limits.push((caller.clone(), level, kind));
            }
        }
    }

    /// Returns the ends of a key's secrets, if one of them has an end.
    pub fn secret_ends(&self, key: &Key) -> &[Option<SystemTime>] {
        self.secret_ends
            .get(&key.index)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// Returns the position of the first of a caller's keys that has limits. These are the keys.
    pub fn first_limited(&self, caller_keys: &[Arc<Key>]) -> Option<usize> {
        let first = caller_keys.first()?.index;
        let found = self.first_limited.partition_point(|index| *index < first);
        let index = *self.first_limited.get(found)?;
        (index < first + caller_keys.len()).then_some(index)
    }
}

/// Returns the ends of the secrets of each key that has a secret with an end.
fn secret_ends(catalog: &Catalog) -> HashMap<usize, Vec<Option<SystemTime>>> {
    let mut ends: HashMap<usize, Vec<Option<SystemTime>>> = HashMap::new();
    for has_end in [true, false] {
        for (_, key, until) in catalog.secrets() {
            match (has_end, until) {
                (true, Some(_)) => ends.entry(key.index).or_default().push(until),
                // A key of several secrets may have one without an end.
                (false, None) => {
                    if let Some(ends) = ends.get_mut(&key.index) {
                        ends.push(until);
                    }
                }
                _ => {}
            }
        }
        if ends.is_empty() {
            break;
        }
    }
    ends
}

/// The first scopes of all keys by their names.
#[derive(Debug)]
pub(super) struct FirstScopes {
    /// At most [`MAX_LISTED`] scopes, each with the position of one of its keys.
    scopes: Vec<(usize, Arc<Scope>)>,
    /// The number of all scopes.
    total: usize,
}

impl Snapshot {
    /// Returns what can be said of all keys together. It takes a while at the first time.
    pub fn key_summary(&self) -> &KeySummary {
        self.key_summary
            .get_or_init(|| KeySummary::from_catalog(&self.catalog, &self.scopes))
    }

    /// Returns the keys of which something is counted, in their order.
    pub fn used_keys(&self, limits: &limits::Registry) -> Vec<&Arc<Key>> {
        // Many keys are looked up if the catalog is no longer the newest one.
        let by_id = OnceCell::new();
        let positions = limits.used_keys(&self.catalog, &self.scopes, |id| {
            let by_id = by_id.get_or_init(|| self.positions_by_id());
            by_id.get(id).copied()
        });
        let keys = self.catalog.keys().as_slice();
        let keys = positions.into_iter().filter_map(|index| keys.get(index));
        keys.collect()
    }

    fn positions_by_id(&self) -> HashMap<&str, usize> {
        let keys = self.catalog.keys();
        keys.map(|key| (&*key.id, key.index)).collect()
    }

    /// Returns the bounds of these keys, each scope once.
    pub fn bounds<'s>(
        &'s self,
        keys: impl Iterator<Item = &'s Arc<Key>>,
    ) -> impl Iterator<Item = (&'s Arc<Key>, Bound<'s>)> {
        let mut seen = std::collections::HashSet::new();
        let bounds = keys.flat_map(|key| {
            let scopes = self.key_scopes(key);
            let bounds = scopes.into_iter().flat_map(move |scopes| scopes.every(key));
            bounds.map(move |bound| (key, bound))
        });
        // All keys of a caller have the caller's scope.
        bounds.filter(move |(_, bound)| seen.insert(Arc::as_ptr(bound.scope)))
    }

    /// Returns the first bounds of all keys by their names, at most [`MAX_LISTED`], and the number
    /// of all bounds. It takes a while at the first time.
    pub fn first_bounds(&self) -> (Vec<Bound<'_>>, usize) {
        let FirstScopes { scopes, total } =
            self.first_scopes.get_or_init(|| self.find_first_scopes());
        let keys = self.catalog.keys().as_slice();
        let bounds = scopes.iter().filter_map(|(index, scope)| {
            let mut bounds = self.scopes.get(*index)?.every(keys.get(*index)?);
            bounds.find(|bound| Arc::ptr_eq(bound.scope, scope))
        });
        (bounds.collect(), *total)
    }

    fn find_first_scopes(&self) -> FirstScopes {
        let bounds = self.bounds(self.catalog.keys());
        let mut scopes: Vec<(usize, &Arc<Scope>)> = bounds
            .map(|(key, bound)| (key.index, bound.scope))
            .collect();
        let total = scopes.len();
        let by_name = |a: &(usize, &Arc<Scope>), b: &(usize, &Arc<Scope>)| a.1.name.cmp(&b.1.name);
        if total > MAX_LISTED {
            scopes.select_nth_unstable_by(MAX_LISTED, by_name);
            scopes.truncate(MAX_LISTED);
        }
        scopes.sort_unstable_by(by_name);
        let scopes = scopes
            .into_iter()
            .map(|(index, scope)| (index, scope.clone()));
        FirstScopes {
            scopes: scopes.collect(),
            total,
        }
    }
}
