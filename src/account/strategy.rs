//! A strategy puts a model's targets in the order in which they are tried.
//!
//! Every target is in the order, whatever its state. Fit targets come before those that are not.
//! Among these, targets that callers have given up lately come last. Of the others, targets with
//! quota left come before those that have nearly used it up, whatever their tier: such a rest is no
//! reserve if it ends in a refusal. A target that is not fit is skipped when its turn comes, and
//! not here, since that changes. Pure: chance is passed in as numbers, and the memory between
//! requests is a [`Smooth`] that the caller keeps.
//!
//! **Invariant:** the first target of the order is fit if any target is.

use crate::catalog::Strategy;
use std::cmp::Ordering;
use std::time::Duration;

/// The facts about one target that decide its place in the order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct View {
    /// The target's [`target_identity`], since its place in the list may change with a reload.
    pub identity: u64,
    /// The target's weight, which gives its share.
    pub weight: u32,
    /// The target's tier. Only [`Strategy::Priority`] uses it: the lowest tier is tried first.
    pub tier: u32,
    /// The number of requests in flight at its account.
    pub in_flight: usize,
    /// The most requests that the account may have.
    pub cap: Option<usize>,
    /// The expected time to the first token.
    pub latency: Option<Duration>,
    /// The number of attempts at this very target that wait for their first token.
    pub awaited: usize,
    /// The share of its provider's quota that is left, from 0 to 1, if that is known.
    pub headroom: Option<f64>,
    /// True if callers have given the target up lately.
    pub behind: bool,
    /// True if the target is not full, does not rest, and its breaker admits requests.
    pub fit: bool,
}

/// Less than this share of a quota is nearly nothing: requests in flight may use it up.
const NEARLY_GONE: f64 = 0.05;

/// Returns the targets' places in the order in which they are tried. `sticky` is a [`stable_hash`]
/// of the conversation, whose requests share a target; `random` returns numbers in [0, 1).
pub fn order_targets(
    strategy: Strategy,
    views: &[View],
    sticky: Option<u64>,
    smooth: &mut Smooth,
    random: impl FnMut() -> f64,
) -> Vec<usize> {
    let rank = |view: &View| sort_key(strategy, view);
    let mut order = draw_by_weight(views, random);
    // Equal targets stay in the order of the draw.
    match strategy {
        Strategy::Priority | Strategy::Weighted => order.sort_by_key(|(_, view)| rank(view)),
        Strategy::LeastBusy => {
            let load = relative_load(views);
            order.sort_by(|(_, a), (_, b)| {
                rank(a)
                    .cmp(&rank(b))
                    .then_with(|| load(a).total_cmp(&load(b)))
            });
        }
        Strategy::Fastest => order.sort_by_key(|(_, view)| (rank(view), Speed::from_view(view))),
    }
    let Some(&(_, best)) = order.first() else {
        return Vec::new();
    };
    let first = if let Some(conversation) = sticky.filter(|_| best.fit) {
        // A conversation stays at its target while that is fit and answers, whatever is left of its
        // quota.
        let is_good = |view: &View| view.fit && view.behind == best.behind;
        let tier = views
            .iter()
            .filter(|view| is_good(view))
            .map(|view| view.tier)
            .min();
        home_target(
            conversation,
            order.iter().enumerate().filter(|(_, (_, view))| {
                is_good(view) && (strategy != Strategy::Priority || Some(view.tier) == tier)
            }),
        )
    } else {
        let equals = order
            .get(..order.partition_point(|(_, view)| rank(view) <= rank(best)))
            .unwrap_or_default();
        match strategy {
            Strategy::Priority | Strategy::Weighted => smooth.pick_target(equals, views),
            Strategy::LeastBusy => 0,
            Strategy::Fastest => faster_of_two(equals),
        }
    };
    if let Some(ahead) = order.get_mut(..=first) {
        ahead.rotate_right(1);
    }
    order.into_iter().map(|(index, _)| index).collect()
}

/// Returns the key that is compared first. The least key is the best.
fn sort_key(strategy: Strategy, view: &View) -> (bool, bool, bool, u32) {
    let is_nearly_gone = view.headroom.is_some_and(|share| share < NEARLY_GONE);
    (
        !view.fit,
        view.behind,
        is_nearly_gone,
        if strategy == Strategy::Priority {
            view.tier
        } else {
            0
        },
    )
}

/// A target: its index in the list of targets, and the facts about it.
type Placed<'v> = (usize, &'v View);

/// Draws the targets at random, by weight. This is the method of Efraimidis and Spirakis: sorting
/// by -ln(u)/w draws without replacement, each time in proportion to the weights left.
fn draw_by_weight(views: &[View], mut random: impl FnMut() -> f64) -> Vec<Placed<'_>> {
    if views.len() < 2 {
        return views.iter().enumerate().collect();
    }
    let mut keyed: Vec<(f64, Placed<'_>)> = views
        .iter()
        .enumerate()
        .map(|placed| {
            (
                -(1.0 - random()).ln() / f64::from(placed.1.weight.max(1)),
                placed,
            )
        })
        .collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    keyed.into_iter().map(|(_, placed)| placed).collect()
}

/// Returns a function for the load of a target, relative to its capacity. The capacity is its
/// weight, or its cap if all weights are equal and every account has a cap.
fn relative_load(views: &[View]) -> impl Fn(&View) -> f64 + use<> {
    let weight = views.first().map(|view| view.weight);
    let by_cap = views
        .iter()
        .all(|view| Some(view.weight) == weight && view.cap.is_some());
    move |view| {
        let capacity = view
            .cap
            .filter(|_| by_cap)
            .map_or(f64::from(view.weight.max(1)), |cap| cap.max(1) as f64);
        view.in_flight as f64 / capacity
    }
}

/// The knowledge of a target's speed: nothing, and no attempt is about to find out; enough; nothing
/// yet, but soon.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Speed {
    Unknown,
    Known,
    Soon,
}

impl Speed {
    fn from_view(view: &View) -> Speed {
        match (view.latency, view.awaited) {
            (Some(_), _) => Speed::Known,
            (None, 0) => Speed::Unknown,
            (None, _) => Speed::Soon,
        }
    }
}

/// Returns the faster of the first two. This evens the load out almost as well as the fastest of
/// all would, and does not send all requests to the same target.
fn faster_of_two(equals: &[Placed<'_>]) -> usize {
    match equals {
        [(_, a), (_, b), ..]
            if Speed::from_view(a) == Speed::from_view(b)
                && Speed::from_view(a) != Speed::Unknown =>
        {
            usize::from(expected_wait(b) < expected_wait(a))
        }
        _ => 0,
    }
}

/// Returns how long a request is expected to wait for a target: longer if others are on the way.
fn expected_wait(view: &View) -> f64 {
    view.latency.map_or(1.0, |latency| latency.as_secs_f64()) * (view.in_flight as f64 + 1.0)
}

/// Returns the place of the target to which a conversation belongs. This is rendezvous hashing:
/// each target draws a number for the conversation, by weight, and the highest wins. So a target
/// that comes or goes moves only its own conversations.
fn home_target<'o>(conversation: u64, fit: impl Iterator<Item = (usize, &'o Placed<'o>)>) -> usize {
    let scores = fit.map(|(index, (_, view))| (index, draw(conversation, view), view.identity));
    let highest = scores.max_by(|a, b| a.1.total_cmp(&b.1).then(a.2.cmp(&b.2)));
    highest.map_or(0, |(index, ..)| index)
}

/// Draws the number of a target for a conversation, which is always the same.
fn draw(conversation: u64, view: &View) -> f64 {
    let uniform = ((mix_bits(conversation ^ view.identity.rotate_left(32)) >> 11) as f64 + 0.5)
        / (1u64 << 53) as f64;
    -f64::from(view.weight.max(1)) / uniform.ln()
}

/// Returns a number that identifies a target. It is the same in every process and version, so that
/// conversations find their target again.
pub fn target_identity(account: &str, model: &str) -> u64 {
    stable_hash(
        [account.as_bytes(), &[0xff], model.as_bytes()]
            .into_iter()
            .flatten()
            .copied(),
    )
}

/// Hashes with FNV-1a, and mixes the bits well. It does not resist an attacker: at worst, two
/// conversations share a target.
pub fn stable_hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    mix_bits(bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    }))
}

/// Mixes a hash's bits, as the finisher of SplitMix64 does.
fn mix_bits(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// The memory of smooth weighted round robin, as in nginx: at each pick every target earns its
/// share of one pick, and the target that has earned most pays one. It counts shares rather than
/// weights, so that after a change of weights no target has debts in the old ones.
///
/// The identity is the key, since the memory may outlive the list of targets. Targets that are in
/// no list any more are forgotten.
#[derive(Debug, Clone, Default)]
pub struct Smooth {
    /// The identity of each target, and what it has earned.
    earned: Vec<(u64, f64)>,
}

/// The target that has earned most so far: its indexes in the list of targets, among equals, and in
/// [`Smooth::earned`].
struct Richest {
    earned: f64,
    list_index: usize,
    equal_index: usize,
    earned_index: usize,
}

impl Smooth {
    /// Returns the place, among equals, of the target whose turn it is.
    fn pick_target(&mut self, equals: &[Placed<'_>], views: &[View]) -> usize {
        if equals.len() < 2 {
            return 0;
        }
        if self.earned.len() > views.len() {
            self.earned
                .retain(|(identity, _)| views.iter().any(|view| view.identity == *identity));
        }
        let total: f64 = equals
            .iter()
            .map(|(_, view)| f64::from(view.weight.max(1)))
            .sum();
        let mut richest: Option<Richest> = None;
        for (equal_index, (list_index, view)) in equals.iter().enumerate() {
            let earned_index = self.earned_index(view.identity, *list_index);
            let Some((_, earned)) = self.earned.get_mut(earned_index) else {
                continue;
            };
            *earned += f64::from(view.weight.max(1)) / total;
            let is_richer = richest.as_ref().is_none_or(|other| {
                let order = earned.total_cmp(&other.earned);
                order.then(other.list_index.cmp(list_index)) == Ordering::Greater
            });
            if is_richer {
                richest = Some(Richest {
                    earned: *earned,
                    list_index: *list_index,
                    equal_index,
                    earned_index,
                });
            }
        }
        let Some(richest) = richest else { return 0 };
        if let Some((_, earned)) = self.earned.get_mut(richest.earned_index) {
            *earned -= 1.0;
        }
        richest.equal_index
    }

    /// Returns the place of a target in `earned`, and adds it if it is missing. Mostly this is also
    /// its place in the list of targets.
    fn earned_index(&mut self, identity: u64, list_index: usize) -> usize {
        let is = |(known, _): &(u64, f64)| *known == identity;
        if self.earned.get(list_index).is_some_and(is) {
            return list_index;
        }
        self.earned.iter().position(is).unwrap_or_else(|| {
            self.earned.push((identity, 0.0));
            self.earned.len() - 1
        })
    }
}

#[cfg(test)]
mod tests;
