//! Request + catalog → what may be tried, in what order: the model's targets by its strategy, then those of its fallbacks.
//!
//! A fallback that the key may not use is skipped, and a fallback's own fallbacks are not followed. Whether an account rests or is full is
//! asked only when its turn comes, since that changes.

use crate::account::strategy::{self, Smooth, View};
use crate::catalog::reload::Snapshot;
use crate::catalog::{Catalog, Key, Model, Target};
use crate::dialect::traits::Traits;
use crate::exchange::upstream::Place;
use std::sync::Arc;

/// One target that may be tried.
pub struct Candidate {
    /// The account.
    pub place: Arc<Place>,
    /// Its name for the model.
    pub upstream_model: Arc<str>,
    /// What it can do.
    pub traits: Traits,
    /// The public model that it serves; another than the one asked for if it is a fallback's.
    pub model: Arc<Model>,
}

/// The model that `id` means for this key: canonical id or alias, visible, served. Else the caller is told nothing more.
pub fn visible<'a>(catalog: &'a Catalog, key: &Key, id: &str) -> Option<&'a Arc<Model>> {
    catalog.model(id).filter(|model| key.permissions.allow(&model.id) && model.served())
}

/// Everything that may be tried, best first.
pub fn candidates(snapshot: &Snapshot, key: &Key, model: &Arc<Model>) -> Vec<Candidate> {
    let fallbacks = model.fallbacks.iter().filter_map(|id| visible(&snapshot.catalog, key, id));
    std::iter::once(model)
        .chain(fallbacks)
        .flat_map(|model| {
            let views: Vec<View> = model.targets.iter().map(view).collect();
            strategy::order(model.strategy, &views, None, &mut Smooth::default(), fastrand::f64)
                .into_iter()
                .filter_map(|place| model.targets.get(place))
                .filter(|target| target.account.enabled)
                .filter_map(|target| {
                    Some(Candidate {
                        place: snapshot.places.get(target.account.index)?.clone(),
                        upstream_model: target.model.clone(),
                        traits: target.traits,
                        model: model.clone(),
                    })
                })
        })
        .collect()
}

fn view(target: &Target) -> View {
    View {
        identity: strategy::identity(&target.account.id, &target.model),
        weight: target.weight,
        tier: target.tier,
        in_flight: 0,
        cap: target.account.concurrency,
        latency: None,
        awaited: 0,
        headroom: None,
        fit: true,
    }
}
