//! The section `metrics:` of `server.yaml`: how many series `/metrics` has.

use super::raw::{self, MetricLabel};
use crate::conf::scribe::Scribe;
use crate::conf::yaml::read::list_items;

/// How many series the metrics of exchanges may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesBounds {
    /// True if metrics have the label `caller`.
    pub has_caller: bool,
    /// True if the metrics of exchanges have the label `account`.
    pub has_account: bool,
    /// The most sets of a model, an account and a caller that have series of their own.
    pub most_sets: usize,
}

impl Default for SeriesBounds {
    fn default() -> SeriesBounds {
        SeriesBounds {
            has_caller: true,
            has_account: true,
            most_sets: 20_000,
        }
    }
}

pub(super) fn resolve_metrics(raw: &raw::Metrics, section: &Scribe<'_, '_>) -> SeriesBounds {
    let default = SeriesBounds::default();
    let most_sets = raw.series.map_or(default.most_sets, super::to_usize);
    section
        .key("series")
        .note_problem_if(most_sets == 0, "must be at least 1");
    let Some(labels) = &raw.labels else {
        return SeriesBounds {
            most_sets,
            ..default
        };
    };
    let has_label = |wanted| list_items(Some(labels)).any(|(_, label)| *label == wanted);
    SeriesBounds {
        has_caller: has_label(MetricLabel::Caller),
        has_account: has_label(MetricLabel::Account),
        most_sets,
    }
}
