//! A plan lists the targets that may be tried for a request, in their order: the model's targets by
//! its strategy, then those of its fallbacks.
//!
//! A fallback that the key may not use is skipped, and a fallback's own fallbacks are not followed.
//! The order depends on which targets are fit now. Whether an account rests or is full is checked
//! again when its turn comes, since that changes.

use crate::account::State;
use crate::account::demand::Demand;
use crate::account::strategy::{self, View};
use crate::account::target_health::TargetHealth;
use crate::base::clock::Clock;
use crate::catalog::{Account, Catalog, Key, Model, OnBrokenCall, Target, Timeouts};
use crate::conf::price::{Price, Usd};
use crate::error::Refusal;
use crate::limits::{Ask, Reserve};
use crate::live::ready_account::ReadyAccount;
use crate::live::{Route, Snapshot};
use dialects::front::{Envelope, Front};
use dialects::traits::Traits;
use dialects::usage::Units;
use dialects::wire::json::{self, Span};
use dialects::{Dialect, Endpoint, Family, Flaws};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// One target that may be tried.
#[derive(Clone)]
pub struct Candidate {
    /// The account.
    pub ready_account: Arc<ReadyAccount>,
    /// The health of the target.
    pub health: Arc<TargetHealth>,
    /// The account's name for the model.
    pub upstream_model: Arc<str>,
    /// The abilities of the target.
    pub traits: Traits,
    /// The timeouts of the target.
    pub timeouts: Timeouts,
    /// The price of what is asked for. `None` if the price is not known.
    pub price: Option<Price>,
    /// The public model that the target serves. For a fallback, it is not the model that was asked
    /// for.
    pub model: Arc<Model>,
    /// The requests that may try it.
    pub reach: Reach,
    /// The target's usual endpoint, if the candidate is another one: it is asked only where the
    /// usual one refuses the model.
    pub instead_of: Option<Arc<TargetHealth>>,
}

impl Candidate {
    /// Returns a model's target as a candidate.
    pub fn for_target(
        snapshot: &Snapshot,
        model: &Arc<Model>,
        target: &Target,
        health: Arc<TargetHealth>,
        reach: Reach,
    ) -> Option<Candidate> {
        Some(Candidate {
            ready_account: snapshot.ready_accounts.get(target.account.index)?.clone(),
            price: target
                .price
                .filter(|price| health.endpoint.is_priced_by(price)),
            health,
            upstream_model: target.model.clone(),
            traits: target.traits,
            timeouts: target.timeouts,
            model: model.clone(),
            reach,
            instead_of: None,
        })
    }

    /// Returns the account.
    pub fn account(&self) -> &Arc<Account> {
        &self.ready_account.account
    }

    /// Returns the running state of the account.
    pub fn state(&self) -> &Arc<State> {
        &self.ready_account.state
    }

    /// Returns whether the candidate may be asked as things stand: it is the usual endpoint, or
    /// that one rests since it does not serve the model.
    pub fn is_open(&self) -> bool {
        self.instead_of
            .as_ref()
            .is_none_or(|usual_endpoint| usual_endpoint.refuses(Clock::now()))
    }

    /// Returns whether neither the account nor the target rests, and no breaker is open.
    pub fn is_fit(&self, stream: bool) -> bool {
        let (now, ReadyAccount { account, state, .. }) = (Clock::now(), &*self.ready_account);
        state.health.rest(now).is_none()
            && self
                .health
                .order_facts(stream, account.probe, now, SystemTime::now())
                .fit
    }

    /// Returns the wire format in which the candidate is asked.
    pub fn dialect(&self) -> &Dialect {
        self.account().speaks(self.health.endpoint)
    }

    /// Returns the family whose signed thoughts the target takes and gives.
    pub fn family(&self) -> Option<Family> {
        self.dialect().family(&self.upstream_model)
    }

    /// Returns whether an answer with these flaws counts as a failure.
    pub fn refuses(&self, flaws: Flaws) -> bool {
        self.model.on_broken_call == OnBrokenCall::Error && flaws.broken_calls > 0
    }
}

/// The requests that may try a candidate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// All requests.
    #[default]
    Any,
    /// Requests that are too long for the model.
    TooLong,
    /// Requests that the model would not answer.
    #[serde(rename = "refusal")]
    Declined,
}

/// The plan of a request.
pub struct Plan {
    /// The candidates, the best first.
    pub candidates: Vec<Candidate>,
    /// The candidates that are not asked, since money is limited and their price is not known.
    pub unpriced: Vec<Candidate>,
    /// The demand for the model, which all its requests share.
    pub demand: Arc<Demand>,
}

impl Plan {
    /// Refuses a request that no account of the model can take, since none has the kind of
    /// endpoint, or a price for it where money is limited.
    pub fn check(&self, envelope: &Envelope) -> Result<(), Refusal> {
        if let Some(unpriced) = self.unpriced.first()
            && !self
                .candidates
                .iter()
                .any(|candidate| candidate.reach == Reach::Any)
        {
            return Err(Refusal::price_unknown(
                &envelope.model,
                unpriced.health.endpoint.name(),
            ));
        }
        let kind = envelope
            .front
            .only_endpoint
            .filter(|_| self.candidates.is_empty());
        kind.map_or(Ok(()), |kind| {
            Err(Refusal::not_served(&envelope.model, kind.name()))
        })
    }
}

/// The reason why a request prefers some of a model's targets.
#[derive(Clone, Copy, Default)]
pub struct Ties<'r> {
    /// The hash of the conversation, as [`conversation_hash`] returns it.
    pub conversation: Option<u64>,
    /// The [boundary](crate::catalog::Account::boundary) within which the thoughts that the request
    /// carries can be read.
    pub boundary: Option<&'r str>,
}

/// Makes the plan of a request.
pub fn make_plan(
    snapshot: &Snapshot,
    key: &Key,
    model: &Arc<Model>,
    envelope: &Envelope,
    ties: Ties<'_>,
) -> Option<Plan> {
    let demand = snapshot.routes.get(model.index)?.demand.clone();
    let candidates = Vec::with_capacity(model.targets.len());
    let mut planner = Planner {
        snapshot,
        envelope,
        ties,
        candidates,
    };
    planner.add(model, Reach::Any);
    let may_stand_in = envelope
        .front
        .only_endpoint
        .is_none_or(Endpoint::has_stand_ins);
    for (id, reach) in stand_ins(model).filter(|_| may_stand_in) {
        if let Some(model) = snapshot.catalog.visible(key, id) {
            planner.add(&model, reach);
        }
    }
    let mut candidates = planner.candidates;
    let mut unpriced = Vec::new();
    let limits_money = snapshot.key_scopes(key).is_some_and(|scopes| {
        let bounds = scopes.bounds(key, model.index);
        bounds.iter().any(|bound| bound.limits.limits_money())
    });
    if limits_money {
        unpriced = candidates
            .extract_if(.., |candidate| candidate.price.is_none())
            .collect();
    }
    Some(Plan {
        candidates,
        unpriced,
        demand,
    })
}

/// Lists the models that may stand in for a model, each with the requests for which it may.
pub fn stand_ins(model: &Model) -> impl Iterator<Item = (&Arc<str>, Reach)> {
    let on_context = model.on_context.iter().map(|id| (id, Reach::TooLong));
    let on_refusal = model.on_refusal.iter().map(|id| (id, Reach::Declined));
    model
        .fallbacks
        .iter()
        .map(|id| (id, Reach::Any))
        .chain(on_context)
        .chain(on_refusal)
}

/// Returns the most texts whose vectors all of these candidates give at once.
pub fn most_inputs(candidates: &[Candidate]) -> usize {
    let max_inputs = |one: &Candidate| one.dialect().most_inputs(&one.upstream_model);
    candidates
        .iter()
        .map(max_inputs)
        .min()
        .unwrap_or(usize::MAX)
}

/// Returns what a request reserves. That is the whole prompt, as estimated, and the longest answer
/// that the request may have, or one of the usual length if there is no maximum. By
/// [`Reserve::Typical`], no answer is longer than the model's answers are. The candidate with the
/// most tokens counts, and the dearest one. `sure` has only the answers, with the length that the
/// request itself sets, or one token each.
pub fn amount_to_reserve(envelope: &Envelope, plan: &Plan, reserve: Reserve) -> Ask {
    let prompt = envelope.max_prompt_tokens;
    let output_cap = match reserve {
        Reserve::Typical => plan.demand.longest_output(Clock::now()),
        Reserve::Asked => u64::MAX,
    };
    let mut reserved = Ask {
        tokens: prompt,
        ..Ask::default()
    };
    // Each slice of a request for vectors is charged for.
    let requests = envelope.places.inputs.as_ref().map_or(1, |inputs| {
        inputs.request_count(most_inputs(&plan.candidates))
    });
    let units = Units {
        requests: u32::try_from(requests).unwrap_or(u32::MAX),
        ..envelope.units
    };
    for candidate in &plan.candidates {
        // A value that is no count, such as -1, uses the model's default too.
        let answer = if candidate.health.endpoint.writes() {
            envelope
                .max_tokens
                .or(candidate.model.max_tokens)
                .unwrap_or_else(|| plan.demand.typical_output())
        } else {
            0
        };
        let max_answer = candidate
            .traits
            .max_output
            .unwrap_or(u64::MAX)
            .min(output_cap);
        let answers = answer
            .min(max_answer)
            .max(candidate.health.endpoint.least_tokens())
            .saturating_mul(envelope.choices.written);
        let answers = answers.max(
            candidate
                .price
                .map_or(0, |price| price.image_tokens(units.images)),
        );
        let requested_answer = envelope
            .max_tokens
            .unwrap_or(1)
            .min(answer)
            .min(max_answer)
            .saturating_mul(envelope.choices.written);
        let cost = |prompt, answers, units| highest_cost(candidate, prompt, answers, units);
        // The length of sound is estimated, and what is asked for in numbers is sure.
        let sure = Units { millis: 0, ..units };
        reserved.tokens = reserved.tokens.max(prompt.saturating_add(answers));
        reserved.usd = reserved.usd.max(cost(prompt, answers, &units));
        reserved.sure.tokens = reserved.sure.tokens.max(requested_answer);
        reserved.sure.usd = reserved.sure.usd.max(cost(0, requested_answer, &sure));
    }
    reserved
}

fn highest_cost(candidate: &Candidate, prompt: u64, answers: u64, units: &Units) -> Usd {
    let price = candidate.price;
    price.map_or(Usd::ZERO, |price| {
        price.highest_cost(prompt, answers, units)
    })
}

/// A target, and the health of the endpoint that its requests are sent to.
type Usable<'t> = (&'t Target, Arc<TargetHealth>);

/// A planner puts the candidates of a request in order.
struct Planner<'s> {
    snapshot: &'s Snapshot,
    envelope: &'s Envelope,
    ties: Ties<'s>,
    candidates: Vec<Candidate>,
}

impl Planner<'_> {
    /// Adds a model's targets.
    fn add(&mut self, model: &Arc<Model>, reach: Reach) {
        let snapshot = self.snapshot;
        let Some(route) = snapshot.route(model) else {
            return;
        };
        let make = Candidate::for_target;
        let candidate = |(target, health)| make(snapshot, model, target, health, reach);
        let targets = model.targets.iter().zip(&route.healths);
        let served = targets.filter(|(target, _)| snapshot.catalog.serves(model, target));
        let front = self.envelope.front;
        let mut usable = served.clone().filter_map(|(target, healths)| {
            Some((target, self.health_for_request(target, healths)?))
        });
        // With one target, there is nothing to order.
        if let [_] = model.targets.as_slice() {
            let only = usable.next().and_then(candidate);
            self.candidates.extend(only);
        } else {
            let usable = usable.collect();
            self.order(model, &route, usable, candidate);
        }
        if front.only_endpoint.is_some() {
            return;
        }
        for (target, healths) in served {
            let Some(usual_endpoint) = endpoint_health(front, target, healths) else {
                continue;
            };
            let others = healths
                .iter()
                .filter(|health| !Arc::ptr_eq(health, usual_endpoint));
            let others = others.filter_map(|health| candidate((target, health.clone())));
            self.candidates.extend(others.map(|other| Candidate {
                instead_of: Some(usual_endpoint.clone()),
                ..other
            }));
        }
    }

    /// Adds a model's targets in the order of its strategy.
    fn order<'t>(
        &mut self,
        model: &Model,
        route: &Route,
        usable: Vec<Usable<'t>>,
        candidate: impl Fn(Usable<'t>) -> Option<Candidate>,
    ) {
        let (now, clock) = (Clock::now(), SystemTime::now());
        let views: Vec<View> = usable
            .iter()
            .map(|(target, health)| self.view(target, health, now, clock))
            .collect();
        // Other targets cannot read the thoughts that the request carries.
        let reads_thoughts: Vec<bool> = usable
            .iter()
            .map(|(target, _)| {
                let boundary = self.ties.boundary;
                boundary.is_some_and(|boundary| **target.account.boundary() == *boundary)
            })
            .collect();
        let is_tied = reads_thoughts.contains(&true);
        let sticky = match self.ties.conversation {
            Some(conversation) if model.sticky || is_tied => Some(conversation),
            // A request that belongs to some of the targets takes no other request's turn.
            None if is_tied => Some(fastrand::u64(..)),
            Some(_) | None => None,
        };
        let mut order = route.demand.order(model.strategy, &views, sticky);
        order.sort_by_key(|index| reads_thoughts.get(*index) != Some(&true));
        let ordered = order.into_iter().filter_map(|index| usable.get(index));
        self.candidates
            .extend(ordered.filter_map(|(target, health)| candidate((target, health.clone()))));
    }

    /// Returns the health of the endpoint that a target's requests are sent to.
    fn health_for_request(
        &self,
        target: &Target,
        healths: &[Arc<TargetHealth>],
    ) -> Option<Arc<TargetHealth>> {
        let Some(only) = self.envelope.front.only_endpoint else {
            return endpoint_health(self.envelope.front, target, healths).cloned();
        };
        let is_served = target.account.serves.iter().any(|(kind, _)| *kind == only);
        is_served
            .then(|| self.snapshot.states.get(target.account.index))?
            .map(|state| state.lasting_health(&target.model, only))
    }

    /// Returns what the strategy needs to know of a target.
    fn view(
        &self,
        target: &Target,
        health: &TargetHealth,
        now: Instant,
        clock: SystemTime,
    ) -> View {
        let account = &target.account;
        let facts = health.order_facts(self.envelope.stream, account.probe, now, clock);
        let state = self.snapshot.states.get(account.index);
        let in_flight = state.map_or(0, |state| state.in_flight());
        let awake = state.is_some_and(|state| state.health.rest(now).is_none());
        View {
            identity: strategy::target_identity(&account.id, &target.model),
            weight: target.weight,
            tier: target.tier,
            in_flight,
            cap: account.concurrency,
            latency: facts.latency,
            awaited: facts.awaited,
            headroom: facts.headroom,
            behind: facts.behind,
            fit: facts.fit && awake && account.concurrency.is_none_or(|limit| in_flight < limit),
        }
    }
}

/// Returns the health of the endpoint that a target's conversations of a front door are sent to.
fn endpoint_health<'t>(
    front: &Front,
    target: &Target,
    healths: &'t [Arc<TargetHealth>],
) -> Option<&'t Arc<TargetHealth>> {
    if let [only] = healths {
        return Some(only);
    }
    let serves = |kind| healths.iter().any(|health| health.endpoint == kind);
    let wanted = dialects::endpoint_for(serves, front, &target.model, &target.traits);
    healths.iter().find(|health| health.endpoint == wanted)
}

/// Returns whether it matters to which conversation a request belongs, for this model or for a
/// model that may stand in for it.
pub fn is_sticky(catalog: &Catalog, model: &Model) -> bool {
    model.sticky
        || stand_ins(model)
            .filter_map(|(id, _)| catalog.model(id))
            .any(|other| other.sticky)
}

/// Returns a hash that the turns of one conversation have in common. It is made of the caller's own
/// name for the conversation, or else of the conversation's beginning.
pub fn conversation_hash(session: Option<&[u8]>, body: &[u8], envelope: &Envelope) -> Option<u64> {
    /// The most bytes of a text that are hashed at either end. More of the text does not
    /// distinguish better.
    const MAX_END: usize = 16 * 1024;
    // Callers who have no name to give send an empty one. It must not make one conversation of all
    // their requests.
    if let Some(session) = session.filter(|session| !session.is_empty()) {
        return Some(strategy::stable_hash(session.iter().take(512).copied()));
    }
    let is_filled = |span: &&Span| span.len() > r#""""#.len();
    let (cache_key, user) = (
        envelope.cache_key.as_ref().filter(is_filled),
        envelope.user.as_ref().filter(is_filled),
    );
    let span = cache_key.or(user).or(envelope.beginning.as_ref())?;
    let text = json::span_bytes(body, span);
    let ends = [
        text.get(..MAX_END).unwrap_or(text),
        text.get(MAX_END.max(text.len().saturating_sub(MAX_END))..)
            .unwrap_or_default(),
    ];
    Some(strategy::stable_hash(ends.into_iter().flatten().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dialects::front::CHAT;

    fn of(session: Option<&[u8]>, body: &str) -> Option<u64> {
        conversation_hash(
            session,
            body.as_bytes(),
            &CHAT.envelope(body.as_bytes()).expect("a request"),
        )
    }

    #[test]
    fn turns_of_a_conversation_share_a_beginning() {
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
        let other = of(
            None,
            r#"{"model":"m","messages":[{"role":"system","content":"S"}, {"role":"user","content":"two"}]}"#,
        );
        assert_ne!(other, later);
        assert_eq!(
            of(
                None,
                r#"{"model":"m","messages":[{"role":"system","content":"S"}]}"#
            ),
            None
        );
    }

    #[test]
    fn what_the_caller_says_of_it_goes_first() {
        let body = |more: &str, text: &str| {
            format!(r#"{{"model":"m",{more}"messages":[{{"role":"user","content":"{text}"}}]}}"#)
        };
        assert_eq!(
            of(None, &body(r#""user":"bob","#, "x")),
            of(None, &body(r#""user":"bob","#, "y"))
        );
        assert_ne!(
            of(None, &body(r#""user":"bob","#, "x")),
            of(None, &body(r#""user":"ann","#, "x"))
        );
        let keyed = |user: &str| {
            of(
                None,
                &body(&format!(r#""user":"{user}","prompt_cache_key":"k","#), "x"),
            )
        };
        assert_eq!(keyed("bob"), keyed("ann"));
        assert_eq!(
            of(Some(b"s"), &body(r#""user":"bob","#, "x")),
            of(Some(b"s"), &body("", "y"))
        );
        assert_ne!(
            of(Some(b"s"), &body("", "x")),
            of(Some(b"t"), &body("", "x"))
        );
        assert_eq!(
            of(None, &body(r#""user":7,"#, "x")),
            of(None, &body("", "x")),
            "no text says nothing"
        );
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
