//! The limits of the catalog, written for people. How much of them is used is not known here.

use crate::conf::price::Usd;
use crate::limits::{Bound, Level, Reserve};

/// Writes the limits of a scope, such as `of acme: requests_per_minute 60, usd_per_day 12.5`.
pub(super) fn says(bound: &Bound<'_>) -> String {
    let name = &bound.scope.name;
    let whose = match (bound.scope.level, name.split_once(' ')) {
        (Level::Caller, _) => format!("of {name}"),
        (Level::KeyModel, Some((_, model))) => format!("of its own, on {model}"),
        (Level::Key | Level::KeyModel, _) => "of its own".to_owned(),
    };
    let each = bound.each().map(|(kind, limit)| match kind.is_money() {
        true => format!("{} {}", kind.name(), Usd(limit)),
        false => format!("{} {limit}", kind.name()),
    });
    let reserve = (bound.limits.reserve != Reserve::Usual).then(|| format!("reserve {}", bound.limits.reserve.name()));
    format!("{whose}: {}", each.chain(reserve).collect::<Vec<_>>().join(", "))
}
