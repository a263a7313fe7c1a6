//! Writes the limits of the catalog for the command line. What is used of them is not here.

use serde_json::{Map, Value, json};

use crate::catalog::{Catalog, Key};
use crate::conf::price::Usd;
use crate::limits::{Kind, Level, Limits};

/// Limits on the requests of a key.
pub(super) struct Bound {
    level: Level,
    /// The name in `/limits`.
    name: String,
    /// Whose limits they are, for people.
    whose: String,
    limits: Limits,
}

/// Lists all limits on a key, from its caller's down. If a model is named, those on requests for
/// other models are left out.
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
    /// Writes the limits for people: `of acme: requests_per_minute 60, usd_per_day 12.5`.
    pub(super) fn says(&self) -> String {
        let each = self.each().map(|(kind, limit)| match kind.is_money() {
            true => format!("{} {}", kind.name(), Usd(limit)),
            false => format!("{} {limit}", kind.name()),
        });
        format!("{}: {}", self.whose, each.collect::<Vec<_>>().join(", "))
    }

    /// Writes the limits as `/limits` does.
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
