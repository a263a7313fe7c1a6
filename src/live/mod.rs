//! The live catalog: a [`Snapshot`] is a catalog with everything that exchanges need besides, and
//! it is kept true to the catalog's files.
//!
//! One thread looks ([`watch`]), and takes of each file the last text that is whole
//! ([`settle`](crate::catalog::settle)). **Invariant:** all or nothing. What is refused is told in
//! the log, `/status` and a metric, and the old catalog goes on; a running exchange keeps the one
//! that it began with.

use crate::account::demand::Demand;
use crate::account::track::TargetHealth;
use crate::account::{Registry, State};
use crate::catalog::{Catalog, Target};
use crate::limits::{self, KeyScopes, Past};
use crate::models::Lists;
use place::Place;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

mod folders;
mod good;
pub mod place;
mod reload;
mod watch;

pub use reload::{Live, Publisher, RefusedReload, ReloadStatus, Reloads};
pub use watch::{Nudge, watch};

/// How often the files are looked at when nothing seems to happen.
const POLL: Duration = Duration::from_secs(3);

/// A catalog with everything that exchanges need besides.
pub struct Snapshot {
    /// The catalog.
    pub catalog: Catalog,
    /// Its accounts' state, in its order.
    pub states: Vec<Arc<State>>,
    /// Its accounts ready for use, in its order.
    pub places: Vec<Arc<Place>>,
    /// How its models are served, in its order.
    pub routes: Vec<Route>,
    /// Its accounts' targets, in its order: by their names for the models, sorted.
    pub tracks: Vec<Vec<(Arc<str>, Arc<TargetHealth>)>>,
    /// Its keys' limits as they stand, by [`Key::index`](crate::catalog::Key::index).
    pub scopes: Vec<KeyScopes>,
    /// The rendered lists of models.
    pub lists: Lists,
    /// The how-manieth it is since the start.
    pub generation: u64,
    /// When it was taken.
    pub loaded: SystemTime,
}

impl Snapshot {
    /// Makes the snapshot of a catalog. What was used of limits before is asked of `past`, where
    /// there are new ones.
    pub fn new(
        catalog: Catalog,
        accounts: &Registry,
        limits: &limits::Registry,
        past: &mut dyn FnMut() -> Vec<Past>,
        generation: u64,
    ) -> Snapshot {
        let scopes = limits.adopt(&catalog, past);
        let states = accounts.adopt(&catalog);
        let places = catalog
            .accounts()
            .iter()
            .zip(&states)
            .map(|(account, state)| Arc::new(Place::new(account.clone(), state.clone())))
            .collect();
        let track = |target: &Target| {
            states.get(target.account.index).map(|state| state.track(&target.model)).unwrap_or_default()
        };
        let mut tracks: Vec<Vec<(Arc<str>, Arc<TargetHealth>)>> = vec![Vec::new(); states.len()];
        for target in catalog.models().iter().flat_map(|model| &model.targets) {
            if let Some(tracks) = tracks.get_mut(target.account.index) {
                tracks.push((target.model.clone(), track(target)));
            }
        }
        for tracks in &mut tracks {
            tracks.sort_by(|a, b| a.0.cmp(&b.0));
            tracks.dedup_by(|a, b| a.0 == b.0);
        }
        let routes = accounts.demands(&catalog).into_iter().zip(catalog.models());
        let routes =
            routes.map(|(demand, model)| Route { demand, tracks: model.targets.iter().map(track).collect() }).collect();
        Snapshot {
            catalog,
            states,
            places,
            routes,
            tracks,
            scopes,
            lists: Lists::default(),
            generation,
            loaded: SystemTime::now(),
        }
    }
}

/// How a model is served: what must outlive the catalog, at hand.
pub struct Route {
    /// What its requests have in common.
    pub demand: Arc<Demand>,
    /// Its targets' memories, in the order in which they are written.
    pub tracks: Vec<Arc<TargetHealth>>,
}
