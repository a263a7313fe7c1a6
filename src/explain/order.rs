//! The order says in which sequence the candidates are tried. If it changes from one request to the
//! next, many requests are played through with the gateway's own code, to count how often each
//! candidate is the first.

use std::sync::Arc;

use super::report::Report;
use super::{Key, candidate_name};
use crate::catalog::{Model, Strategy};
use crate::live::Snapshot;
use crate::plan::{self, Candidate, Reach, Ties};
use dialects::front::Envelope;

/// The number of requests that are played through. Turns come out exact; shares that are drawn by
/// chance are right within a few in a hundred.
const DRAWS: usize = 1_000;

/// The candidates, in the order of their average places.
pub(super) struct Order {
    pub(super) candidates: Vec<Candidate>,
    /// For each candidate, the share of the requests for which it is the first of its model; `None`
    /// if the model's order is the same each time.
    pub(super) first_for: Vec<Option<f64>>,
}

/// The counts of one candidate.
#[derive(Clone, Default)]
struct Count {
    first_choices: usize,
    rank_sum: usize,
    /// True if some draw has it at another place than the first draw.
    moved: bool,
}

impl Order {
    /// Plays requests through, and returns the order.
    pub(super) fn play_through(
        snapshot: &Snapshot,
        key: &Key,
        model: &Arc<Model>,
        envelope: &Envelope,
        conversation: Option<u64>,
    ) -> Option<Order> {
        // A fixed seed gives the same question the same answer. The thread may do other things
        // after it.
        let before = fastrand::get_seed();
        fastrand::seed(0);
        let order = Order::count_draws(snapshot, key, model, envelope, conversation);
        fastrand::seed(before);
        order
    }

    /// Draws the order many times, and counts how often each candidate is the first.
    fn count_draws(
        snapshot: &Snapshot,
        key: &Key,
        model: &Arc<Model>,
        envelope: &Envelope,
        conversation: Option<u64>,
    ) -> Option<Order> {
        let ties = Ties {
            conversation,
            boundary: None,
        };
        let draw = || Some(plan::make_plan(snapshot, key, model, envelope, ties)?.candidates);
        let candidates = draw()?;
        let mut counts = vec![Count::default(); candidates.len()];
        for _ in 0..DRAWS {
            let drawn = draw()?;
            let mut found = vec![false; candidates.len()];
            let mut group = None;
            for (rank, one) in drawn.iter().enumerate() {
                // A target may be written twice.
                let mut same = candidates.iter().zip(&found).enumerate();
                let Some(index) = same.find_map(|(index, (other, found))| {
                    (!found && is_same(one, other)).then_some(index)
                }) else {
                    continue;
                };
                let is_first = group.replace(group_of(one)) != Some(group_of(one));
                if let (Some(count), Some(found)) = (counts.get_mut(index), found.get_mut(index)) {
                    count.first_choices += usize::from(is_first);
                    count.rank_sum += rank;
                    *found = true;
                    count.moved |= index != rank;
                }
            }
        }
        let mut places: Vec<_> = candidates.into_iter().zip(counts).collect();
        let groups_that_move: Vec<_> = places
            .iter()
            .filter(|(_, count)| count.moved)
            .map(|(one, _)| group_of(one))
            .collect();
        places.sort_by_key(|(_, count)| count.rank_sum);
        let ordered = places.into_iter().map(|(candidate, count)| {
            let moves = groups_that_move.contains(&group_of(&candidate));
            let first_for = moves.then_some(count.first_choices as f64 / DRAWS as f64);
            (candidate, first_for)
        });
        let (candidates, first_for) = ordered.unzip();
        Some(Order {
            candidates,
            first_for,
        })
    }

    /// Returns the candidates, each with the share of the requests for which it is the first.
    pub(super) fn with_shares(&self) -> impl Iterator<Item = (&Candidate, Option<f64>)> {
        self.candidates.iter().zip(self.first_for.iter().copied())
    }

    /// Notes the reason for the order of the model's targets, and of those of the models that may
    /// stand in for it.
    pub(super) fn note_reasons(&self, model: &Model, has_status: bool, report: &mut Report) {
        let places: Vec<_> = self
            .with_shares()
            .filter(|(one, _)| one.instead_of.is_none())
            .collect();
        for members in places.chunk_by(|(one, _), (other, _)| group_of(one) == group_of(other)) {
            if let [(one, _), _, ..] = members {
                let served_model = &one.model;
                let whose = if *served_model.id == *model.id {
                    String::new()
                } else {
                    format!("of \"{}\": ", served_model.id)
                };
                report.add_fact(
                    "order",
                    format!("{whose}{}", order_reason(served_model, members, has_status)),
                );
            }
        }
    }
}

/// Returns the model and the reach of a candidate. Candidates with the same two stand together.
fn group_of(candidate: &Candidate) -> (*const Model, Reach) {
    (Arc::as_ptr(&candidate.model), candidate.reach)
}

fn is_same(one: &Candidate, other: &Candidate) -> bool {
    group_of(one) == group_of(other)
        && Arc::ptr_eq(&one.ready_account, &other.ready_account)
        && Arc::ptr_eq(&one.health, &other.health)
}

/// Returns the reason for the order of a model's targets.
fn order_reason(model: &Model, members: &[(&Candidate, Option<f64>)], has_status: bool) -> String {
    let moment = if has_status {
        "as /status reported it"
    } else {
        "which is unknown here: all targets are assumed idle"
    };
    let how = match model.strategy {
        Strategy::Priority => "priority, the lowest tier first".to_owned(),
        Strategy::Weighted => "weighted, in turns".to_owned(),
        Strategy::LeastBusy => format!("least_busy, by the requests in flight, {moment}"),
        Strategy::Fastest if has_status => format!("fastest, by the time to the first token, {moment}"),
        Strategy::Fastest => {
            "fastest, by the time to the first token, which is unknown here: all targets are assumed equally fast"
                .to_owned()
        }
    };
    let shares: Vec<String> = members
        .iter()
        .filter_map(|(one, share)| share.filter(|share| *share > 0.0).map(|share| (one, share)))
        .map(|(one, share)| format!("{} for {:.0} %", candidate_name(one), share * 100.0))
        .collect();
    match shares.as_slice() {
        [] => how,
        [_] => format!(
            "{how}; the first target is always the same, and the order of the others is drawn by weight"
        ),
        shares => format!(
            "{how}; only the running process knows whose turn it is. The first target is {} of the requests",
            shares.join(", ")
        ),
    }
}

/// Notes the target to which the conversation belongs. `home` is the order if everybody is healthy.
pub(super) fn note_home(
    known_by: Option<&str>,
    home: Option<&Order>,
    now: &Order,
    report: &mut Report,
) {
    let Some(by) = known_by else {
        report.add_fact(
            "sticky",
            "the request does not say which conversation it belongs to, so its targets are ordered as for any request",
        );
        return;
    };
    let target = |order: &Order| order.candidates.first().map(candidate_name);
    let (Some(home), Some(now)) = (home.and_then(target), target(now)) else {
        return;
    };
    let instead = if home == now {
        String::new()
    } else {
        format!(", which cannot be used now: {now} takes its place")
    };
    report.add_fact(
        "sticky",
        format!("the conversation, known by {by}, belongs to {home}{instead}"),
    );
}
