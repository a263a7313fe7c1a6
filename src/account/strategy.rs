//! The order in which a model's targets are tried.
//!
//! Every target stands in the order, whatever its state: those that are fit before those that are
//! not, and of these those with quota left before those that have nearly used it up, whatever their
//! tier: what is left of it is no reserve if it ends in a refusal. Who is not fit is passed over by
//! whoever asks, when its turn comes, since that changes. Pure: chance comes in as numbers, and
//! what must be remembered between requests is a [`Smooth`] that somebody else keeps.
//!
//! **Invariant:** the first of the order is fit if any target is.

use crate::catalog::Strategy;
use std::cmp::Ordering;
use std::time::Duration;

/// What the order depends on, of one target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct View {
    /// Who it is, by [`identity`]: its place in the list may change with a reload.
    pub identity: u64,
    /// Its share.
    pub weight: u32,
    /// For [`Strategy::Priority`], which alone looks at it: the lowest is tried first.
    pub tier: u32,
    /// Requests in flight at its account.
    pub in_flight: usize,
    /// How many the account may have.
    pub cap: Option<usize>,
    /// The time to the first token that it is expected to take.
    pub latency: Option<Duration>,
    /// Of the attempts at this very target, how many wait for their first token.
    pub awaited: usize,
    /// How much of its provider's quota is left, from 0 to 1, if that is known.
    pub headroom: Option<f64>,
    /// Neither full, nor resting, nor kept away from by its breaker.
    pub fit: bool,
}

/// Less than this share of a quota is nearly nothing: what is in flight already may use it up.
const NEARLY_GONE: f64 = 0.05;

/// Returns the targets' places in the order in which they are to be tried. `sticky` is a [`hash`]
/// of what the request has in common with those whose target it is to share; `random` yields
/// numbers in [0, 1).
pub fn order(
    strategy: Strategy,
    views: &[View],
    sticky: Option<u64>,
    smooth: &mut Smooth,
    random: impl FnMut() -> f64,
) -> Vec<usize> {
    let standing = |view: &View| standing(strategy, view);
    let mut order = drawn(views, random);
    // What is equal stays in the order of the draw.
    match strategy {
        Strategy::Priority | Strategy::Weighted => order.sort_by_key(|(_, view)| standing(view)),
        Strategy::LeastBusy => {
            let load = load(views);
            order.sort_by(|(_, a), (_, b)| standing(a).cmp(&standing(b)).then_with(|| load(a).total_cmp(&load(b))));
        }
        Strategy::Fastest => order.sort_by_key(|(_, view)| (standing(view), Speed::of(view))),
    }
    let Some(&(_, best)) = order.first() else { return Vec::new() };
    let first = if let Some(conversation) = sticky.filter(|_| best.fit) {
        // It stays where it is until that is out, whatever is left of its quota.
        let tier = views.iter().filter(|view| view.fit).map(|view| view.tier).min();
        home(
            conversation,
            order
                .iter()
                .enumerate()
                .filter(|(_, (_, view))| view.fit && (strategy != Strategy::Priority || Some(view.tier) == tier)),
        )
    } else {
        let equals =
            order.get(..order.partition_point(|(_, view)| standing(view) <= standing(best))).unwrap_or_default();
        match strategy {
            Strategy::Priority | Strategy::Weighted => smooth.pick(equals, views),
            Strategy::LeastBusy => 0,
            Strategy::Fastest => faster(equals),
        }
    };
    if let Some(ahead) = order.get_mut(..=first) {
        ahead.rotate_right(1);
    }
    order.into_iter().map(|(place, _)| place).collect()
}

/// Returns what goes before everything else in which targets differ; the least is the best.
fn standing(strategy: Strategy, view: &View) -> (bool, bool, u32) {
    let is_nearly_gone = view.headroom.is_some_and(|share| share < NEARLY_GONE);
    (!view.fit, is_nearly_gone, if strategy == Strategy::Priority { view.tier } else { 0 })
}

type Placed<'v> = (usize, &'v View);

/// At random, by weight. Efraimidis and Spirakis: sorting by -ln(u)/w draws without replacement,
/// each time in proportion to the weights left.
fn drawn(views: &[View], mut random: impl FnMut() -> f64) -> Vec<Placed<'_>> {
    if views.len() < 2 {
        return views.iter().enumerate().collect();
    }
    let mut keyed: Vec<(f64, Placed<'_>)> = views
        .iter()
        .enumerate()
        .map(|placed| (-(1.0 - random()).ln() / f64::from(placed.1.weight.max(1)), placed))
        .collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    keyed.into_iter().map(|(_, placed)| placed).collect()
}

/// Returns how busy a target is for what it can take: its weight, or, where the weights do not
/// differ and every account has one, its cap.
fn load(views: &[View]) -> impl Fn(&View) -> f64 + use<> {
    let weight = views.first().map(|view| view.weight);
    let by_cap = views.iter().all(|view| Some(view.weight) == weight && view.cap.is_some());
    move |view| {
        let capacity = view.cap.filter(|_| by_cap).map_or(f64::from(view.weight.max(1)), |cap| cap.max(1) as f64);
        view.in_flight as f64 / capacity
    }
}

/// How much is known of a target's speed: nothing, and nobody is about to find out; enough; nothing
/// yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Speed {
    Unknown,
    Known,
    Soon,
}

impl Speed {
    fn of(view: &View) -> Speed {
        match (view.latency, view.awaited) {
            (Some(_), _) => Speed::Known,
            (None, 0) => Speed::Unknown,
            (None, _) => Speed::Soon,
        }
    }
}

/// Of two drawn ones the faster: it evens the load out almost as well as the best of all would, and
/// does not send everybody to the same one.
fn faster(equals: &[Placed<'_>]) -> usize {
    let cost = |view: &View| view.latency.map_or(1.0, |latency| latency.as_secs_f64()) * (view.in_flight as f64 + 1.0);
    match equals {
        [(_, a), (_, b), ..] if Speed::of(a) == Speed::of(b) && Speed::of(a) != Speed::Unknown => {
            usize::from(cost(b) < cost(a))
        }
        _ => 0,
    }
}

/// Returns the place of the one that a conversation belongs to. Rendezvous hashing: each target
/// draws a number for the conversation, by weight, and the highest wins, so that one that comes or
/// goes moves only its own conversations.
fn home<'o>(conversation: u64, fit: impl Iterator<Item = (usize, &'o Placed<'o>)>) -> usize {
    let score = |view: &View| {
        let uniform = ((mix(conversation ^ view.identity.rotate_left(32)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        -f64::from(view.weight.max(1)) / uniform.ln()
    };
    let higher = |a: &(usize, f64, u64), b: &(usize, f64, u64)| a.1.total_cmp(&b.1).then(a.2.cmp(&b.2));
    fit.map(|(at, (_, view))| (at, score(view), view.identity)).max_by(higher).map_or(0, |(at, ..)| at)
}

/// Returns who a target is: the same in every process and version, so that conversations find their
/// target again.
pub fn identity(account: &str, model: &str) -> u64 {
    hash([account.as_bytes(), &[0xff], model.as_bytes()].into_iter().flatten().copied())
}

/// FNV-1a, its bits mixed well. Not for what an attacker may choose to collide: the worst that
/// comes of it is that two conversations share a target.
pub fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    mix(bytes
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)))
}

/// Mixes a hash's bits, as the finisher of SplitMix64 does.
fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// The memory of smooth weighted round robin, as nginx does it: at each pick every target earns its
/// share of one pick, and the one that has earned most pays one. In shares rather than weights, so
/// that a change of weights leaves nobody with debts in the old ones.
///
/// Keyed by identity: it may outlive the list of targets. What is in no list any more is forgotten.
#[derive(Debug, Clone, Default)]
pub struct Smooth {
    earned: Vec<(u64, f64)>,
}

impl Smooth {
    /// Returns the place, among equals, of the one whose turn it is.
    fn pick(&mut self, equals: &[Placed<'_>], views: &[View]) -> usize {
        if equals.len() < 2 {
            return 0;
        }
        if self.earned.len() > views.len() {
            self.earned.retain(|(identity, _)| views.iter().any(|view| view.identity == *identity));
        }
        let total: f64 = equals.iter().map(|(_, view)| f64::from(view.weight.max(1))).sum();
        // What it has earned, its place in the list of targets, among its equals, and here.
        let mut turn: Option<(f64, usize, usize, usize)> = None;
        for (at, (place, view)) in equals.iter().enumerate() {
            let here = self.place(view.identity, *place);
            let Some((_, earned)) = self.earned.get_mut(here) else { continue };
            *earned += f64::from(view.weight.max(1)) / total;
            let richer = |(most, first, ..): (f64, usize, usize, usize)| match earned.total_cmp(&most) {
                Ordering::Greater => true,
                Ordering::Equal => *place < first,
                Ordering::Less => false,
            };
            if turn.is_none_or(richer) {
                turn = Some((*earned, *place, at, here));
            }
        }
        let Some((.., at, here)) = turn else { return 0 };
        if let Some((_, earned)) = self.earned.get_mut(here) {
            *earned -= 1.0;
        }
        at
    }

    /// Where it stands here. Mostly that is where it stands in the list of targets.
    fn place(&mut self, identity: u64, place: usize) -> usize {
        let is = |(known, _): &(u64, f64)| *known == identity;
        if self.earned.get(place).is_some_and(is) {
            return place;
        }
        self.earned.iter().position(is).unwrap_or_else(|| {
            self.earned.push((identity, 0.0));
            self.earned.len() - 1
        })
    }
}

#[cfg(test)]
mod tests;
