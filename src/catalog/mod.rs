//! The catalog holds all callers, keys, accounts and models at one moment, indexed. Each request is
//! served from one catalog.
//!
//! Always holds: every reference is resolved (a target holds its account, a key its caller), ids
//! are unique, and every index is the position in its sorted list. A catalog never changes; a new
//! one takes its place. Only the lists of providers change under it. The type only looks things up:
//! [`load`] reads the files, and [`resolve`] understands what is written in them.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use crate::base::address::Cidr;
use crate::base::lock::Lock;
use crate::base::problem::Problem;
use crate::base::units::format_count;
use crate::limits::{KeyLimits, KeyScopes, Limited, Limits};
use globs::Globs;
use listing::Listing;

mod account;
pub mod amend;
pub mod files;
pub mod globs;
pub mod identity;
pub mod listing;
pub mod load;
mod model;
pub mod name;
pub mod raw;
pub mod resolve;
mod risk;
pub mod rotation;
pub mod settle;
mod stripped;
pub mod texts;
mod wildcard;

pub use account::{Account, Added, AwsKeys, Base, KeyHeader, Network, Signer, Timeouts};
pub use model::{Hedge, Model, OnBrokenCall, OnLoss, Queue, Reasoning, Strategy, Target};
pub use risk::{
    PUBLISHED_KEY, all_names, describe_losses, has_name, published_key_problem, removed_names,
};
pub use stripped::stand_in_keys;

/// All callers, keys, accounts and models at one moment.
#[derive(Default)]
pub struct Catalog {
    /// A SHA-256 of everything that was read, files and secrets. It is not for showing: with the
    /// files at hand, weak secrets are tried at it in no time.
    pub digest: [u8; 32],
    /// Warnings: things that are allowed but should not stay so.
    pub warnings: Vec<Problem>,
    secrets: HashMap<[u8; 32], rotation::KeySecret>,
    /// All keys by [`Key::index`]. Those of a caller follow each other, in the callers' order.
    keys: Vec<Arc<Key>>,
    names: HashMap<Arc<str>, Arc<Model>>,
    /// The aliases that are globs, and the ids that are patterns: that with the longest beginning
    /// before its first wildcard first.
    globs: Vec<(Arc<str>, Arc<Model>)>,
    models: Vec<Arc<Model>>,
    accounts: Vec<Arc<Account>>,
    callers: Vec<Arc<Caller>>,
    /// The issuers whose tokens stand in place of keys, sorted by id.
    pub identities: Vec<Arc<identity::Identity>>,
    /// The keys that are being rotated: those with a secret that is being replaced, whether its end
    /// is past or to come.
    pub rotating: Vec<Arc<Key>>,
    /// The files in which a secret is written out, by their positions.
    literal_secrets: BTreeSet<usize>,
    /// The lists of the accounts' providers, by [`Account::index`]. A catalog that is not served
    /// has none.
    pub listings: Vec<Arc<Listing>>,
    /// The models of patterns that were asked for, by their ids.
    pattern_models: Lock<HashMap<Arc<str>, Arc<Model>>>,
}

impl Catalog {
    /// Finds the key whose secret has this SHA-256, if it may be used at this time. Returns also
    /// whether the secret is being replaced.
    pub fn opened(
        &self,
        digest: &[u8; 32],
        now: SystemTime,
    ) -> Result<(&Arc<Key>, bool), KeyRefused> {
        let secret = self.secrets.get(digest).ok_or(KeyRefused::Unknown)?;
        let key = secret.find_key(&self.keys).ok_or(KeyRefused::Unknown)?;
        key.usable(now)?;
        let over = secret.expires_at.is_some_and(|until| until <= now);
        if over {
            Err(KeyRefused::Expired)
        } else {
            Ok((key, secret.replaced))
        }
    }

    /// Finds the key whose secret has this SHA-256, also if it may not be used.
    pub fn key_of_digest(&self, digest: &[u8; 32]) -> Option<&Arc<Key>> {
        self.secrets.get(digest)?.find_key(&self.keys)
    }

    /// Returns the SHA-256 of each secret, its key, and the time from which the secret no longer
    /// opens anything. Keys that may not be used are among them.
    pub fn secrets(&self) -> impl Iterator<Item = (&[u8; 32], &Arc<Key>, Option<SystemTime>)> {
        self.secrets.iter().filter_map(|(digest, secret)| {
            Some((digest, secret.find_key(&self.keys)?, secret.expires_at))
        })
    }

    /// Finds a model by its id or one of its aliases. A glob or a pattern counts last.
    pub fn model(&self, id: &str) -> Option<Arc<Model>> {
        self.meant(id, |_| true)
    }

    /// Finds a model by its id or one of its aliases. A model of a glob counts only if `is_meant`.
    fn meant(&self, id: &str, is_meant: impl Fn(&Model) -> bool) -> Option<Arc<Model>> {
        let written = self.names.get(id).filter(|model| model.pattern.is_none());
        let globs = self
            .globs
            .iter()
            .filter(|(glob, _)| globs::glob_matches(glob, id));
        let mut models = globs.filter_map(|(_, model)| match model.is_pattern() {
            true => self.of_pattern(model, id),
            false => is_meant(model).then(|| model.clone()),
        });
        written.cloned().or_else(|| models.next())
    }

    /// Returns the model that `id`, canonical or an alias, means for this key. The key may see the
    /// model, and the model is served. In all other cases the answer is `None`, so that the caller
    /// learns nothing more. If only the glob of a demo matches, the demo answers only keys with a
    /// list of models: other keys ask for a real model by that name.
    pub fn visible(&self, key: &Key, id: &str) -> Option<Arc<Model>> {
        self.visible_to(&key.permissions, id)
    }

    /// Returns the model that `id` means for a key with these permissions, as [`Self::visible`]
    /// does.
    pub fn visible_to(&self, permissions: &Permissions, id: &str) -> Option<Arc<Model>> {
        let is_meant = |model: &Model| !model.is_demo() || permissions.are_listed();
        self.meant(id, is_meant)
            .filter(|model| permissions.allow(&model.id) && self.is_served(model))
    }

    /// Returns all models, sorted by id.
    pub fn models(&self) -> &[Arc<Model>] {
        &self.models
    }

    /// Returns all accounts, sorted by id.
    pub fn accounts(&self) -> &[Arc<Account>] {
        &self.accounts
    }

    /// Finds an account by its id.
    pub fn account(&self, id: &str) -> Option<&Account> {
        let index = self
            .accounts
            .binary_search_by(|account| (*account.id).cmp(id))
            .ok()?;
        self.accounts.get(index).map(|account| &**account)
    }

    /// Returns all callers, sorted by id.
    pub fn callers(&self) -> &[Arc<Caller>] {
        &self.callers
    }

    /// Returns all keys by [`Key::index`]. Those of a caller follow each other.
    pub fn keys(&self) -> std::slice::Iter<'_, Arc<Key>> {
        self.keys.iter()
    }

    /// Finds an identity by its id.
    pub fn identity(&self, id: &str) -> Option<&Arc<identity::Identity>> {
        self.identities.iter().find(|identity| *identity.id == *id)
    }

    /// Returns the keys of which the keys of subjects are copies.
    pub fn templates(&self) -> impl Iterator<Item = &Arc<Key>> {
        self.identities
            .iter()
            .flat_map(|identity| identity.templates.values())
    }

    /// Returns the ids of all models, by their positions.
    pub fn model_ids(&self) -> Vec<&Arc<str>> {
        self.models.iter().map(|model| &model.id).collect()
    }

    /// Returns the keys of a caller.
    pub fn caller_keys(&self, caller: &str) -> &[Arc<Key>] {
        let from = self.keys.partition_point(|key| *key.caller.id < *caller);
        let rest = self.keys.get(from..).unwrap_or_default();
        let count = rest.partition_point(|key| *key.caller.id == *caller);
        rest.get(..count).unwrap_or_default()
    }

    /// Finds a key by its id.
    pub fn key(&self, id: &str) -> Option<&Arc<Key>> {
        let (caller, _) = id.split_once('/')?;
        self.caller_keys(caller).iter().find(|key| *key.id == *id)
    }

    /// Writes how much is in it: `1 account, 5 models, 1 caller, 2 keys with 3 secrets`.
    pub fn size(&self) -> String {
        let Catalog {
            accounts,
            models,
            callers,
            ..
        } = self;
        let parts = [
            (accounts.len(), "account"),
            (models.len(), "model"),
            (callers.len(), "caller"),
            (self.keys.len(), "key"),
        ];
        let size = parts
            .map(|(number, noun)| format_count(number, noun))
            .join(", ");
        // While a key is rotated it has two.
        match self.secret_count() {
            secrets if secrets == self.keys.len() => size,
            secrets => format!("{size} with {secrets} secrets"),
        }
    }

    /// Returns the number of secrets of all keys.
    pub fn secret_count(&self) -> usize {
        self.secrets.len()
    }
}

/// Shows the number of the entries, not the entries.
impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog")
            .field("accounts", &self.accounts.len())
            .field("models", &self.models.len())
            .field("callers", &self.callers.len())
            .field("keys", &self.keys.len())
            .finish_non_exhaustive()
    }
}

/// The reason why a key cannot be used. It is for the log only: the caller gets one message in
/// every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRefused {
    /// No key has this digest.
    Unknown,
    /// The key or its caller is switched off.
    Disabled,
    /// The key, this hash of it, or its caller has expired.
    Expired,
}

/// A caller: a team or an app that uses the gateway.
#[derive(Debug, Default)]
pub struct Caller {
    /// The caller's name in the catalog.
    pub id: Arc<str>,
    /// True if the caller's keys work at all.
    pub enabled: bool,
    /// The time from which the caller's keys no longer work.
    pub expires: Option<SystemTime>,
    /// The limits of all its keys together.
    pub limits: Limits,
    /// True if the caller's answers have their cost.
    pub expose_cost: bool,
}

/// A secret that a caller sends; here without the secret. A subject of an identity has a key too.
#[derive(Debug, Clone)]
pub struct Key {
    /// `acme/prod`: the only name of the key that logs carry.
    pub id: Arc<str>,
    /// The caller that owns the key.
    pub caller: Arc<Caller>,
    /// True if the key works.
    pub enabled: bool,
    /// The time from which the key no longer works.
    pub expires: Option<SystemTime>,
    /// The key's position in [`Catalog::keys`]. The key of a subject is not among them.
    pub index: usize,
    /// The key's limits, within those of its caller.
    pub limits: Limits,
    /// The key's further limits for single models, by the models' positions in [`Catalog::models`],
    /// sorted.
    pub model_limits: Arc<[(usize, Limits)]>,
    /// The addresses from which the key may be used; empty = all.
    pub allow_ips: Vec<Cidr>,
    /// True if the key may ask for the trail of attempts.
    pub debug: bool,
    /// The models that the key may see.
    pub permissions: Arc<Permissions>,
    /// What counts the use of a subject's key. The catalog does not know it.
    pub own_scopes: Option<Arc<KeyScopes>>,
}

impl Key {
    /// Checks that key and caller are enabled and not expired at this time.
    pub fn usable(&self, now: SystemTime) -> Result<(), KeyRefused> {
        if !self.enabled || !self.caller.enabled {
            return Err(KeyRefused::Disabled);
        }
        if [self.expires, self.caller.expires]
            .into_iter()
            .flatten()
            .any(|expires| expires <= now)
        {
            return Err(KeyRefused::Expired);
        }
        Ok(())
    }

    /// Returns whether the key may be used from this address.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.allow_ips.is_empty() || self.allow_ips.iter().any(|range| range.contains(address))
    }
}

impl<'c> From<&'c Key> for KeyLimits<'c> {
    fn from(key: &'c Key) -> KeyLimits<'c> {
        KeyLimits {
            key: (&key.id, &key.limits),
            caller: (&key.caller.id, &key.caller.limits),
            models: &key.model_limits,
        }
    }
}

impl<'c> From<&'c Arc<Key>> for KeyLimits<'c> {
    fn from(key: &'c Arc<Key>) -> KeyLimits<'c> {
        (&**key).into()
    }
}

impl<'c> From<&'c Catalog> for Limited<'c> {
    fn from(catalog: &'c Catalog) -> Limited<'c> {
        Limited {
            callers: catalog
                .callers
                .iter()
                .map(|caller| (&caller.id, &caller.limits))
                .collect(),
            keys: catalog.keys.iter().map(KeyLimits::from).collect(),
            models: catalog.models.iter().map(|model| &model.id).collect(),
            templates: catalog.templates().map(KeyLimits::from).collect(),
        }
    }
}

/// The models that a key may see: those that both its caller and the key itself may see. Equal
/// permissions are one object.
#[derive(Debug, Default)]
pub struct Permissions {
    /// A dense number, for caches: from 0 on, without a gap.
    pub index: usize,
    /// The models that the caller may see.
    pub of_caller: Globs,
    /// The models that the key itself may see.
    pub of_key: Globs,
}

impl Permissions {
    /// Returns whether these permissions include a model, by its id and never by an alias.
    pub fn allow(&self, model: &str) -> bool {
        self.of_caller.matches(model) && self.of_key.matches(model)
    }

    /// Returns whether these permissions include a model, or may include one that a pattern stands
    /// for.
    fn may_allow(&self, model: &Model) -> bool {
        self.reach(&model.id, model.is_pattern())
    }

    /// Returns whether these permissions include the model with this id, or may include one of its
    /// pattern.
    pub fn reach(&self, id: &str, is_pattern: bool) -> bool {
        match is_pattern {
            true => self.of_caller.may_match(id) && self.of_key.may_match(id),
            false => self.allow(id),
        }
    }

    /// Returns whether these permissions surely include all models of a pattern that the others
    /// include.
    pub fn covers(&self, others: &Permissions, pattern: &str) -> bool {
        [&self.of_caller, &self.of_key].iter().all(|wide| {
            wide.covers(&others.of_caller, pattern) || wide.covers(&others.of_key, pattern)
        })
    }

    /// Returns whether the models are listed, for the caller or for the key.
    fn are_listed(&self) -> bool {
        !(self.of_caller.is_everything() && self.of_key.is_everything())
    }
}

#[cfg(test)]
mod tests;
