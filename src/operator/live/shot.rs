//! A [`Shot`] is what all viewers see at one moment.

use super::models::ModelRow;
use super::moment::Moment;
use super::of_callers::CallerRow;
use super::{LivePage, configuration, figures, json, models, of_callers};
use crate::base::calendar::time;
use crate::figures::callers::CallerUse;
use serde_json::json as value;
use std::time::{Instant, SystemTime};

/// The most bytes of all problems.
const PROBLEMS: usize = 10 * 1024;

/// A view of the process at one moment. Rows are written when they are first asked for.
pub(super) struct Shot {
    pub(super) at: Moment,
    /// The fields before all sections.
    pub(super) head: String,
    pub(super) figures: String,
    pub(super) configuration: String,
    /// The models, the worst first.
    pub(super) models: Vec<ModelRow>,
    /// The callers, the dearest first.
    pub(super) callers: Vec<CallerRow>,
}

impl Shot {
    /// Looks at the process.
    pub(super) fn of(page: &LivePage, now: Instant, clock_ms: u64) -> Shot {
        let (snapshot, clock) = (page.books.live.load_full(), SystemTime::now());
        let sums = page.books.figures.callers.sums(clock_ms);
        let mut today = CallerUse::default();
        sums.values().for_each(|sums| today.add(&sums.today));
        let waiting = snapshot
            .routes
            .iter()
            .map(|route| route.demand.waiting())
            .sum();
        let accounts = Moment::accounts(&snapshot, now);
        let models = models::rows(&snapshot, &accounts, now);
        Shot {
            head: head(page, now, clock_ms),
            figures: figures::section(page, &today, waiting, now),
            configuration: configuration::section(page, &snapshot, now),
            models,
            callers: of_callers::rows(&snapshot, sums),
            at: Moment {
                now,
                clock,
                ms: clock_ms,
                up: now.saturating_duration_since(page.started),
                keys: page.keys(&snapshot),
                accounts,
                shared: Moment::shared(&snapshot),
                snapshot,
            },
        }
    }
}

/// Writes the fields before all sections: what is wrong, and what the page may do.
fn head(page: &LivePage, now: Instant, clock_ms: u64) -> String {
    let (admin, sight) = (&page.backends.server.admin, page.watch.look());
    let mut room = PROBLEMS;
    let fits = |problem: &String| {
        let fits = problem.len() <= room;
        room = room.saturating_sub(problem.len());
        fits
    };
    let problems: Vec<String> = sight
        .problems
        .list
        .iter()
        .map(json)
        .take_while(fits)
        .collect();
    let more = (sight.problems.more + sight.problems.list.len()).saturating_sub(problems.len());
    let guarded = admin.is_guarded();
    let fields = [
        ("time", value!(time(clock_ms))),
        ("instance", value!(page.books.ledger.instance())),
        ("version", value!(env!("CARGO_PKG_VERSION"))),
        (
            "uptime_seconds",
            value!(now.saturating_duration_since(page.started).as_secs()),
        ),
        ("phase", value!(page.books.drain.phase())),
        ("verdict", value!(sight.verdict)),
        ("more_problems", value!(more)),
        (
            "can",
            value!({ "explain": admin.page && guarded, "try": admin.page && guarded, "reset": guarded }),
        ),
    ];
    let fields = fields
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .join(",");
    format!("{fields},\"problems\":[{}]", problems.join(","))
}
