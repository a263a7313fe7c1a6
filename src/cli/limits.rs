//! Limits as the command line tells them: those of the catalog, and nothing of what is used of
//! them.

use serde_json::{Map, Value, json};

use crate::catalog::{Catalog, Key};
use crate::limits::{Kind, Level, Limits};
use crate::price::Usd;

/// What bounds requests of a key.
pub(super) struct Bound {
    level: Level,
    /// As `/limits` names it.
    name: String,
    /// How people read whose it is.
    whose: String,
    limits: Limits,
}

/// All that bound a key, from its caller's down; if a model is named, those that bound its requests
/// for that one.
pub(super) fn of(catalog: &Catalog, key: &Key, model: Option<&str>) -> Vec<Bound> {
    let caller = Bound {
        level: Level::Caller,
        name: key.caller.id.to_string(),
        whose: format!("of {}", key.caller.id),
        limits: key.caller.limits,
    };
    let own = Bound { level: Level::Key, name: key.id.to_string(), whose: "of its own".to_owned(), limits: key.limits };
    let of_models = key.model_limits.iter().filter_map(|(index, limits)| {
        let id = &*catalog.models().get(*index)?.id;
        model.is_none_or(|model| model == id).then(|| Bound {
            level: Level::KeyModel,
            name: format!("{} {id}", key.id),
            whose: format!("of its own, on {id}"),
            limits: *limits,
        })
    });
    [caller, own].into_iter().chain(of_models).filter(|bound| !bound.limits.is_none()).collect()
}

impl Bound {
    /// `of acme: requests_per_minute 60, usd_per_day 12.5`
    pub(super) fn says(&self) -> String {
        let each = self.each().map(|(kind, limit)| match kind.is_money() {
            true => format!("{} {}", kind.name(), Usd(limit)),
            false => format!("{} {limit}", kind.name()),
        });
        format!("{}: {}", self.whose, each.collect::<Vec<_>>().join(", "))
    }

    /// As `/limits` tells it.
    pub(super) fn json(&self) -> Value {
        let amount = |(kind, limit): (Kind, u64)| match kind.is_money() {
            true => (kind.name().to_owned(), json!(Usd(limit))),
            false => (kind.name().to_owned(), json!(limit)),
        };
        let limits: Map<String, Value> = self.each().map(amount).collect();
        json!({ "level": self.level.name(), "name": self.name, "limits": limits })
    }

    fn each(&self) -> impl Iterator<Item = (Kind, u64)> {
        Kind::ALL.into_iter().filter_map(|kind| Some((kind, kind.limit(&self.limits, 1)?)))
    }
}
