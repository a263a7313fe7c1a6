//! A plan is what may be tried for a request, and in what order: the model's targets by its
//! strategy, then those of its fallbacks.
//!
//! A fallback that the key may not use is skipped, and a fallback's own fallbacks are not followed.
//! The order looks at who is fit now; whether an account rests or is full is asked again when its
//! turn comes, since that changes.

use crate::account::demand::Demand;
use crate::account::strategy::{self, View};
use crate::account::track::TargetHealth;
use crate::catalog::{Catalog, Key, Model, Target, Timeouts};
use crate::conf::price::{Price, Usd};
use crate::limits::Ask;
use crate::live::Snapshot;
use crate::live::place::Place;
use dialects::Flaws;
use dialects::front::Envelope;
use dialects::traits::Traits;
use dialects::wire::json::{self, Span};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// One target that may be tried.
pub struct Candidate {
    /// The account.
    pub place: Arc<Place>,
    /// What is remembered of the target.
    pub track: Arc<TargetHealth>,
    /// The account's name for the model.
    pub upstream_model: Arc<str>,
    /// What the target can do.
    pub traits: Traits,
    /// How long to wait for the target.
    pub timeouts: Timeouts,
    /// What the tokens cost. None: the price is not known.
    pub price: Option<Price>,
    /// The public model that the target serves: for a fallback, another than the one asked for.
    pub model: Arc<Model>,
    /// Which requests may try it.
    pub reach: Reach,
}

impl Candidate {
    /// Returns a model's target as a candidate.
    pub fn of(
        snapshot: &Snapshot,
        model: &Arc<Model>,
        target: &Target,
        track: &Arc<TargetHealth>,
        reach: Reach,
    ) -> Option<Candidate> {
        Some(Candidate {
            place: snapshot.places.get(target.account.index)?.clone(),
            track: track.clone(),
            upstream_model: target.model.clone(),
            traits: target.traits,
            timeouts: target.timeouts,
            price: target.price,
            model: model.clone(),
            reach,
        })
    }

    /// Tells whether an answer with these flaws counts as a failure.
    pub fn refuses(&self, flaws: Flaws) -> bool {
        self.model.refuse_broken_calls && flaws.broken_calls > 0
    }
}

/// For which requests a candidate is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// All.
    #[default]
    Any,
    /// Those that are too long for the model.
    TooLong,
    /// For those that the model would not answer.
    #[serde(rename = "refusal")]
    Declined,
}

/// Everything that may be tried.
pub struct Plan {
    /// Best first.
    pub candidates: Vec<Candidate>,
    /// What the model's requests have in common.
    pub demand: Arc<Demand>,
}

/// Returns everything that may be tried, best first. `conversation` is what [`conversation`] makes
/// of the request.
pub fn plan(
    snapshot: &Snapshot,
    key: &Key,
    model: &Arc<Model>,
    stream: bool,
    conversation: Option<u64>,
) -> Option<Plan> {
    let demand = snapshot.routes.get(model.index)?.demand.clone();
    let candidates = Vec::with_capacity(model.targets.len());
    let mut planner = Planner { snapshot, stream, conversation, candidates };
    planner.add(model, Reach::Any);
    for (id, reach) in stand_ins(model) {
        if let Some(model) = snapshot.catalog.visible(key, id) {
            planner.add(model, reach);
        }
    }
    Some(Plan { candidates: planner.candidates, demand })
}

/// Lists the models that may stand in for a model, each with the requests for which it may.
pub fn stand_ins(model: &Model) -> impl Iterator<Item = (&Arc<str>, Reach)> {
    let on_context = model.on_context.iter().map(|id| (id, Reach::TooLong));
    let on_refusal = model.on_refusal.iter().map(|id| (id, Reach::Declined));
    model.fallbacks.iter().map(|id| (id, Reach::Any)).chain(on_context).chain(on_refusal)
}

/// Returns what a request may use at most: all that is to be read, as estimated, and the longest
/// answer that it may have, or one of the usual length where nobody says; of those who may be asked
/// the one with the most tokens, and the dearest. Sure are the answers that it asks for itself, of
/// a token at least.
pub fn most(envelope: &Envelope, plan: &Plan) -> Ask {
    let prompt = envelope.most_prompt;
    let mut most = Ask { tokens: prompt, ..Ask::default() };
    for candidate in &plan.candidates {
        // What says no number, as -1 does, goes up with the model's default, too.
        let each = envelope.most_tokens.or(candidate.model.max_tokens).unwrap_or_else(|| plan.demand.typical_output());
        let longest = candidate.traits.max_output.unwrap_or(u64::MAX);
        let answers = each.min(longest).saturating_mul(envelope.choices);
        let said = envelope.most_tokens.unwrap_or(1).min(longest).saturating_mul(envelope.choices);
        let cost = |prompt: u64, answers: u64| candidate.price.map_or(Usd::ZERO, |price| price.most(prompt, answers));
        most.tokens = most.tokens.max(prompt.saturating_add(answers));
        most.usd = most.usd.max(cost(prompt, answers));
        most.sure.tokens = most.sure.tokens.max(said);
        most.sure.usd = most.sure.usd.max(cost(0, said));
    }
    most
}

/// A planner puts the candidates for one request in order.
struct Planner<'s> {
    snapshot: &'s Snapshot,
    stream: bool,
    conversation: Option<u64>,
    candidates: Vec<Candidate>,
}

impl Planner<'_> {
    /// Adds a model's targets.
    fn add(&mut self, model: &Arc<Model>, reach: Reach) {
        let Some(route) = self.snapshot.routes.get(model.index) else { return };
        let snapshot = self.snapshot;
        let candidate = |(target, track)| Candidate::of(snapshot, model, target, track, reach);
        let usable = || model.targets.iter().zip(&route.tracks).filter(|(target, _)| target.account.enabled);
        // With one target there is nothing to order.
        if let [_] = model.targets.as_slice() {
            self.candidates.extend(usable().filter_map(candidate));
            return;
        }
        let usable: Vec<_> = usable().collect();
        let (now, clock) = (Instant::now(), SystemTime::now());
        let views: Vec<View> = usable.iter().map(|(target, track)| self.view(target, track, now, clock)).collect();
        let order = route.demand.order(model.strategy, &views, self.conversation.filter(|_| model.sticky));
        self.candidates.extend(order.into_iter().filter_map(|place| candidate(*usable.get(place)?)));
    }

    /// Returns what a target's place in the order depends on.
    fn view(&self, target: &Target, track: &TargetHealth, now: Instant, clock: SystemTime) -> View {
        let account = &target.account;
        let standing = track.standing(self.stream, account.probe, now, clock);
        let state = self.snapshot.states.get(account.index);
        let in_flight = state.map_or(0, |state| state.in_flight());
        let awake = state.is_some_and(|state| state.health.rest(now).is_none());
        View {
            identity: strategy::identity(&account.id, &target.model),
            weight: target.weight,
            tier: target.tier,
            in_flight,
            cap: account.concurrency,
            latency: standing.latency,
            awaited: standing.awaited,
            headroom: standing.headroom,
            fit: standing.fit && awake && account.concurrency.is_none_or(|most| in_flight < most),
        }
    }
}

/// Tells whether it matters which conversation a request belongs to, for this model or for one that
/// may stand in for it.
pub fn is_sticky(catalog: &Catalog, model: &Model) -> bool {
    model.sticky || stand_ins(model).filter_map(|(id, _)| catalog.model(id)).any(|other| other.sticky)
}

/// Returns what the turns of one conversation have in common: the caller's word for it, or its
/// beginning.
pub fn conversation(session: Option<&[u8]>, body: &[u8], envelope: &Envelope) -> Option<u64> {
    /// More of a text than this at either end tells no more.
    const ENOUGH: usize = 16 * 1024;
    // What is empty is said by those who have nothing to say: it makes no conversation of all of
    // theirs.
    if let Some(session) = session.filter(|session| !session.is_empty()) {
        return Some(strategy::hash(session.iter().take(512).copied()));
    }
    let said = |span: &&Span| span.len() > r#""""#.len();
    let (cache_key, user) = (envelope.cache_key.as_ref().filter(said), envelope.user.as_ref().filter(said));
    let span = cache_key.or(user).or(envelope.beginning.as_ref())?;
    let text = json::slice(body, span);
    let ends = [
        text.get(..ENOUGH).unwrap_or(text),
        text.get(ENOUGH.max(text.len().saturating_sub(ENOUGH))..).unwrap_or_default(),
    ];
    Some(strategy::hash(ends.into_iter().flatten().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dialects::front::CHAT;

    fn of(session: Option<&[u8]>, body: &str) -> Option<u64> {
        conversation(session, body.as_bytes(), &(CHAT.envelope)(body.as_bytes()).expect("a request"))
    }

    #[test]
    fn the_turns_of_a_conversation_have_their_beginning_in_common() {
        let turn = |more: &str| {
            of(
                None,
                &format!(
                    r#"{{"model":"m","messages":[{{"role":"system","content":"S"}}, {{"role":"user","content":"one"}}{more}]}}"#
                ),
            )
        };
        let later = turn(r#", {"role":"assistant","content":"a"},{"role":"user","content":"two"}"#);
        assert!(turn("").is_some());
        assert_eq!(turn(""), later);
        let other =
            of(None, r#"{"model":"m","messages":[{"role":"system","content":"S"}, {"role":"user","content":"two"}]}"#);
        assert_ne!(other, later);
        assert_eq!(of(None, r#"{"model":"m","messages":[{"role":"system","content":"S"}]}"#), None);
    }

    #[test]
    fn what_the_caller_says_of_it_goes_first() {
        let body = |more: &str, text: &str| {
            format!(r#"{{"model":"m",{more}"messages":[{{"role":"user","content":"{text}"}}]}}"#)
        };
        assert_eq!(of(None, &body(r#""user":"bob","#, "x")), of(None, &body(r#""user":"bob","#, "y")));
        assert_ne!(of(None, &body(r#""user":"bob","#, "x")), of(None, &body(r#""user":"ann","#, "x")));
        let keyed = |user: &str| of(None, &body(&format!(r#""user":"{user}","prompt_cache_key":"k","#), "x"));
        assert_eq!(keyed("bob"), keyed("ann"));
        assert_eq!(of(Some(b"s"), &body(r#""user":"bob","#, "x")), of(Some(b"s"), &body("", "y")));
        assert_ne!(of(Some(b"s"), &body("", "x")), of(Some(b"t"), &body("", "x")));
        assert_eq!(of(None, &body(r#""user":7,"#, "x")), of(None, &body("", "x")), "no text says nothing");
        assert_eq!(
            of(Some(b""), &body(r#""user":"","prompt_cache_key":"","#, "x")),
            of(None, &body("", "x")),
            "nor does an empty one"
        );
        assert_eq!(
            of(None, &body(r#""user":"bob","prompt_cache_key":"","#, "x")),
            of(None, &body(r#""user":"bob","#, "x"))
        );
    }

    #[test]
    fn a_long_beginning_counts_at_both_ends() {
        let body = |first: &str, last: &str| {
            format!(
                r#"{{"model":"m","messages":[{{"role":"user","content":"{first}{}{last}"}}]}}"#,
                "x".repeat(100_000)
            )
        };
        assert_ne!(of(None, &body("a", "a")), of(None, &body("b", "a")));
        assert_ne!(of(None, &body("a", "a")), of(None, &body("a", "b")));
        assert_eq!(of(None, &body("a", "a")), of(None, &body("a", "a")));
    }
}
