//! The live catalog is the one that is served now. A [`Snapshot`] is a catalog with everything else
//! that exchanges need. This module keeps the live one equal to the catalog's files.
//!
//! One thread looks at the files ([`start_watching`]), and takes the last whole text of each
//! ([`settle`](crate::catalog::settle)). **Invariant:** all or nothing. A refusal is reported in
//! the log, `/status` and a metric, and the old catalog stays live. A running exchange keeps the
//! catalog that it began with.

use crate::account::demand::Demand;
use crate::account::target_health::TargetHealth;
use crate::account::{NamedTarget, Registry, State};
use crate::catalog::identity::Identity;
use crate::catalog::{Account, Catalog, Key, Model, Signer, Target};
use crate::inventory::{Inventory, Marks};
use crate::limits::{self, KeyScopes, Past};
use crate::models::Lists;
use issuers::Issuer;
use key_summary::{FirstScopes, KeySummary};
use ready_account::ReadyAccount;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

mod folders;
mod good;
pub mod issuers;
pub mod key_summary;
pub mod ready_account;
mod reload;
pub mod subjects;
mod watch;

pub use reload::{Live, Publisher, RefusedReload, ReloadStatus, Reloads};
pub use watch::{Nudge, start_watching};

/// The time between two looks at the files when nothing seems to happen.
const POLL: Duration = Duration::from_secs(3);

/// A catalog with everything else that exchanges need.
pub struct Snapshot {
    /// The catalog.
    pub catalog: Catalog,
    /// The state of the catalog's accounts, in its order.
    pub states: Vec<Arc<State>>,
    /// The catalog's accounts ready for use, in its order.
    pub ready_accounts: Vec<Arc<ReadyAccount>>,
    /// The positions of the accounts that [`sourced_accounts`](Snapshot::sourced_accounts) returns.
    sourced: Vec<usize>,
    /// The routes of the catalog's models, in its order.
    pub routes: Vec<Route>,
    /// The targets of the catalog's accounts, in its order: one for each kind of endpoint that
    /// holds conversations. Each account's targets are sorted by its names for the models.
    healths: Vec<Vec<NamedTarget>>,
    /// The limits of the catalog's keys with their use, by
    /// [`Key::index`](crate::catalog::Key::index).
    pub scopes: Vec<KeyScopes>,
    /// The issuers of the catalog's identities, in its order.
    issuers: Vec<Arc<Issuer>>,
    /// The rendered lists of models.
    pub lists: Lists,
    /// The number of this catalog since the start.
    pub generation: u64,
    /// The time at which the catalog became live.
    pub loaded: SystemTime,
    marks: OnceLock<Marks>,
    key_summary: OnceLock<KeySummary>,
    first_scopes: OnceLock<FirstScopes>,
}

impl Snapshot {
    /// Makes the snapshot of a catalog. If there are new limits, `past` is asked for what was used
    /// before.
    pub fn new(
        mut catalog: Catalog,
        accounts: &Registry,
        limits: &limits::Registry,
        past: &mut dyn FnMut() -> Vec<Past>,
        generation: u64,
    ) -> Snapshot {
        let scopes = limits.adopt(&catalog, past);
        let states = accounts.adopt(&catalog);
        catalog.listings = states.iter().map(|state| state.listing.clone()).collect();
        let ready_accounts = catalog
            .accounts()
            .iter()
            .zip(&states)
            .map(|(account, state)| {
                Arc::new(ReadyAccount::new(
                    account.clone(),
                    state.clone(),
                    &accounts.proxies,
                ))
            })
            .collect();
        let mut healths: Vec<Vec<NamedTarget>> = vec![Vec::new(); states.len()];
        for target in written_targets(&catalog) {
            if let Some(healths) = healths.get_mut(target.account.index) {
                healths.extend(
                    target_healths(target, &states)
                        .into_iter()
                        .map(|health| (target.model.clone(), health)),
                );
            }
        }
        for healths in &mut healths {
            healths.sort_by(|a, b| (&a.0, a.1.endpoint).cmp(&(&b.0, b.1.endpoint)));
            healths.dedup_by(|a, b| Arc::ptr_eq(&a.1, &b.1));
        }
        let mut served: Vec<HashSet<&str>> = vec![HashSet::new(); states.len()];
        for target in written_targets(&catalog) {
            served
                .get_mut(target.account.index)
                .map(|served| served.insert(&target.model));
        }
        for (state, served) in states.iter().zip(&served) {
            state.keep_asked(|model| served.contains(model) || state.listing.has(model));
        }
        let routes = accounts.demands(&catalog).into_iter().zip(catalog.models());
        let routes = routes.map(|(demand, model)| Route {
            demand,
            healths: match model.is_pattern() {
                true => Vec::new(),
                false => {
                    let targets = model.targets.iter();
                    targets
                        .map(|target| target_healths(target, &states))
                        .collect()
                }
            },
        });
        let routes = routes.collect();
        let accounts = catalog.accounts().iter().zip(0..);
        let sourced = accounts.filter(|(account, _)| is_sourced(account));
        Snapshot {
            sourced: sourced.map(|(_, index)| index).collect(),
            catalog,
            states,
            ready_accounts,
            routes,
            healths,
            scopes,
            issuers: Vec::new(),
            lists: Lists::default(),
            generation,
            loaded: SystemTime::now(),
            marks: OnceLock::new(),
            key_summary: OnceLock::new(),
            first_scopes: OnceLock::new(),
        }
    }
}

/// What is remembered of a token that was verified.
#[derive(Debug, Clone)]
pub struct SeenToken {
    /// The name of the identity.
    pub identity: Arc<str>,
    /// The fingerprint of the identity by which the token was accepted.
    pub fingerprint: u64,
    /// The caller to whom the token belongs.
    pub caller: Arc<str>,
    /// The id of its subject's key.
    pub key: Arc<str>,
}

/// Returns whether an account takes requests, and obtains its credential anew again and again.
fn is_sourced(account: &Account) -> bool {
    account.enabled && matches!(account.signer, Some(Signer::Source(_)))
}

/// Returns the targets of all models that are written, and no pattern.
fn written_targets(catalog: &Catalog) -> impl Iterator<Item = &Target> {
    let models = catalog.models().iter();
    models
        .filter(|model| !model.is_pattern())
        .flat_map(|model| &model.targets)
}

/// Returns what is known of a target, by its kinds of conversations.
fn target_healths(target: &Target, states: &[Arc<State>]) -> Vec<Arc<TargetHealth>> {
    let Some(state) = states.get(target.account.index) else {
        return Vec::new();
    };
    let kinds = target.account.serves.iter().map(|(kind, _)| *kind);
    kinds
        .filter(|kind| kind.is_conversation())
        .map(|kind| state.target_health(&target.model, kind))
        .collect()
}

impl Snapshot {
    /// Returns the marks of the catalog, which take a while at the first time. Secrets count in
    /// them only if the admin listener is `guarded`: not everybody may look there.
    pub fn marks(&self, guarded: bool) -> &Marks {
        self.marks.get_or_init(|| {
            Marks::from_catalog(
                &self.catalog,
                &Inventory::from_catalog(&self.catalog),
                guarded,
            )
        })
    }

    /// Returns the targets of each account, in the catalog's order: first those of conversations,
    /// and then the others that were asked.
    pub fn targets(&self) -> impl Iterator<Item = Vec<NamedTarget>> {
        self.healths
            .iter()
            .zip(&self.states)
            .map(|(healths, state)| {
                let mut targets = healths.clone();
                targets.extend(state.all_asked());
                targets
            })
    }

    /// Returns the scopes of a key: of one of the catalog's, or of a subject's.
    pub fn key_scopes<'s>(&'s self, key: &'s Key) -> Option<&'s KeyScopes> {
        match &key.own_scopes {
            Some(scopes) => Some(scopes),
            None => self.scopes.get(key.index),
        }
    }

    /// Returns the identities of the catalog, each with its issuer.
    pub fn issuers(&self) -> impl Iterator<Item = (&Arc<Identity>, &Arc<Issuer>)> {
        self.catalog.identities.iter().zip(&self.issuers)
    }

    /// Returns the accounts that take requests.
    pub fn called_accounts(&self) -> impl Iterator<Item = &Arc<ReadyAccount>> {
        self.ready_accounts
            .iter()
            .filter(|ready_account| ready_account.account.enabled)
    }

    /// Returns the accounts that take requests, and whose credential is obtained anew again and
    /// again.
    pub fn sourced_accounts(&self) -> impl Iterator<Item = &Arc<ReadyAccount>> {
        self.sourced
            .iter()
            .filter_map(|index| self.ready_accounts.get(*index))
    }

    /// Returns the route of a model. The models of a pattern share its demand, and each has targets
    /// of its own.
    pub fn route(&self, model: &Model) -> Option<Cow<'_, Route>> {
        let route = self.routes.get(model.index)?;
        let written = self.catalog.models().get(model.index);
        if written.is_some_and(|written| written.id == model.id && written.pattern == model.pattern)
        {
            return Some(Cow::Borrowed(route));
        }
        let healths = model
            .targets
            .iter()
            .map(|target| self.unlisted_targets(target))
            .collect();
        Some(Cow::Owned(Route {
            demand: route.demand.clone(),
            healths,
        }))
    }

    /// Returns the health of a target that is in no catalog.
    fn unlisted_targets(&self, target: &Target) -> Vec<Arc<TargetHealth>> {
        let state = self.states.get(target.account.index);
        let kinds = target
            .account
            .serves
            .iter()
            .map(|(kind, _)| *kind)
            .filter(|kind| kind.is_conversation());
        kinds
            .filter_map(|kind| state.map(|state| state.lasting_health(&target.model, kind)))
            .collect()
    }
}

/// The parts of a served model that must outlive the catalog.
#[derive(Clone)]
pub struct Route {
    /// The state that the model's requests have in common.
    pub demand: Arc<Demand>,
    /// The health of the model's targets, in the order in which they are written: of each, one for
    /// each kind of endpoint that its account serves and that holds conversations.
    pub healths: Vec<Vec<Arc<TargetHealth>>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::resolve::resolve_catalog;

    #[test]
    fn the_servers_that_are_called() {
        let text = r#"
accounts:
  a: { dialect: openai, base_url: "https://a.test/v1", key: k-0123456789 }
  off: { dialect: openai, base_url: "https://off.test/v1", enabled: false }
  v: { dialect: vertex, project: p, base_url: "https://v.test", service_account: { file: sa.json } }
models: {}
callers: {}
"#;
        let key = include_str!("../../tests/support/service_account.json").to_owned();
        let catalog = resolve_catalog(&[("catalog.yaml".to_owned(), text.to_owned())], &mut |_| {
            Ok(key.clone())
        });
        let catalog = catalog.unwrap_or_else(|problems| panic!("{problems}"));
        let limits = limits::Registry::default();
        let snapshot = Snapshot::new(catalog, &Registry::default(), &limits, &mut Vec::new, 1);
        let hosts: Vec<&str> = snapshot
            .called_accounts()
            .map(|ready| &*ready.account.base.host)
            .collect();
        assert_eq!(hosts, ["a.test", "v.test"]);
        let sourced: Vec<&str> = snapshot
            .sourced_accounts()
            .map(|ready| &*ready.account.id)
            .collect();
        assert_eq!(sourced, ["v"]);
    }
}
