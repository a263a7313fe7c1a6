//! A [`LiveView`] is what all viewers see at one moment.

use super::callers::CallerRow;
use super::context::LiveContext;
use super::models::ModelRow;
use super::{LivePage, callers, configuration, figures, models, to_json};
use crate::base::calendar::format_time;
use crate::figures::callers::CallerUse;
use serde_json::json as value;
use std::time::{Instant, SystemTime};

/// The most bytes of all problems.
const MAX_PROBLEM_BYTES: usize = 10 * 1024;

/// A view of the process at one moment. Rows are written when they are first asked for.
pub(super) struct LiveView {
    pub(super) context: LiveContext,
    /// The fields before all sections.
    pub(super) head: String,
    pub(super) figures: String,
    pub(super) configuration: String,
    /// The models, the worst first.
    pub(super) models: Vec<ModelRow>,
    /// The callers, the dearest first.
    pub(super) callers: Vec<CallerRow>,
}

impl LiveView {
    /// Reads the state of the process.
    pub(super) fn gather(page: &LivePage, now: Instant, clock_ms: u64) -> LiveView {
        let (snapshot, clock) = (page.books.live.load_full(), SystemTime::now());
        let sums = page.books.figures.callers.sums(clock_ms);
        let mut today = CallerUse::default();
        sums.values().for_each(|sums| today.add(&sums.today));
        let waiting = snapshot
            .routes
            .iter()
            .map(|route| route.demand.waiting())
            .sum();
        let accounts = LiveContext::accounts(&snapshot, now);
        let models = models::model_rows(&snapshot, &accounts, now);
        LiveView {
            head: head_fields(page, now, clock_ms),
            figures: figures::figures_section(page, &today, waiting, now),
            configuration: configuration::configuration_section(page, &snapshot, now),
            models,
            callers: callers::caller_rows(&snapshot, sums),
            context: LiveContext {
                now,
                clock,
                ms: clock_ms,
                up: now.saturating_duration_since(page.started),
                used_keys: callers::used_keys_by_caller(&page.books.live, &snapshot),
                accounts,
                shared: LiveContext::shared(&snapshot),
                snapshot,
            },
        }
    }
}

/// Writes the fields before all sections: what is wrong, and what the page may do.
fn head_fields(page: &LivePage, now: Instant, clock_ms: u64) -> String {
    let (admin, observation) = (&page.backends.server.admin, page.watch.observe());
    let mut room = MAX_PROBLEM_BYTES;
    let problems = observation.problems.list.iter().map(to_json);
    let problems = problems.take_while(|problem| {
        let fits = problem.len() <= room;
        room = room.saturating_sub(problem.len());
        fits
    });
    let problems: Vec<String> = problems.collect();
    let more = (observation.problems.more + observation.problems.list.len())
        .saturating_sub(problems.len());
    let guarded = admin.is_guarded();
    let fields = [
        ("time", value!(format_time(clock_ms))),
        ("instance", value!(page.books.ledger.instance())),
        ("version", value!(env!("CARGO_PKG_VERSION"))),
        (
            "uptime_seconds",
            value!(now.saturating_duration_since(page.started).as_secs()),
        ),
        ("phase", value!(page.books.drain.phase())),
        ("verdict", value!(observation.verdict)),
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
