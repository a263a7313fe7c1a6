//! An admission is what an attempt at a candidate needs: a place at its account, a pass of its
//! target, and the request in its dialect.

use crate::account::Permit;
use crate::account::target_health::{AttemptGuard, Unavailable};
use crate::catalog::{Account, Catalog, OnLoss, Permissions, Reasoning};
use crate::limits::Limits;
use crate::plan::Candidate;
use bytes::Bytes;
use dialects::front::Envelope;
use dialects::neutral::seal::Sealed;
use dialects::neutral::{self, Refused};
use dialects::{Endpoint, OtherModel, Outbound, Translate};
use std::time::Instant;

/// The thoughts of earlier answers that a candidate gets back.
#[derive(Clone, Copy)]
pub struct EarlierThoughts<'a> {
    /// Finds those that were kept, by their call.
    pub find_kept: &'a dyn Fn(&str) -> Option<neutral::Kept>,
    /// The treatment of those that the caller carries.
    pub sealed: Sealed<'a>,
}

/// Takes a place at the account, and a pass of the target. `key` is a hash of the caller's key.
/// `alone` says that no other target can take the request.
pub fn admit_attempt(
    candidate: &Candidate,
    key: u64,
    alone: bool,
    now: Instant,
) -> Result<(Permit, AttemptGuard), Unavailable> {
    let (account, state) = (candidate.account(), candidate.state());
    if let Some(rest) = state.health.rest(now) {
        return Err(Unavailable::Resting(rest));
    }
    // The place is taken last. Giving one back wakes those who wait, and they would wake each other
    // for as long as the target rests.
    let trial = candidate.health.admit(key, alone, account.probe, now)?;
    let permit = state.admit().ok_or(Unavailable::Full)?;
    Ok((permit, trial))
}

/// The input for a candidate's request: the caller's request, and the caller's permissions.
#[derive(Clone, Copy)]
pub struct CallersRequest<'r> {
    /// The caller's body.
    pub body: &'r Bytes,
    /// The envelope that was read from the body.
    pub envelope: &'r Envelope,
    /// The catalog that the exchange began with.
    pub catalog: &'r Catalog,
    /// The models that the key may see.
    pub permissions: &'r Permissions,
    /// The key's limits for single models.
    pub model_limits: &'r [(usize, Limits)],
}

impl CallersRequest<'_> {
    /// Returns what is known of another model that the request names. A model with limits of its
    /// own is asked for by its own name only, since they would not count it here. If the
    /// money for the request's own model is limited, the other one has a price.
    fn other_model(&self, name: &str, account: &Account) -> OtherModel {
        let visible = |name| self.catalog.visible_to(self.permissions, name);
        let Some(model) = visible(name) else {
            return OtherModel::Forbidden;
        };
        let own = visible(&self.envelope.model).map(|own| own.index);
        if self
            .model_limits
            .iter()
            .any(|(index, _)| *index == model.index && Some(*index) != own)
        {
            return OtherModel::Forbidden;
        }
        let counts_money = self
            .model_limits
            .iter()
            .any(|(index, limits)| Some(*index) == own && limits.limits_money());
        let here = model
            .targets
            .iter()
            .find(|target| target.account.id == account.id);
        let here = here.filter(|target| self.catalog.serves(&model, target));
        let price = here.and_then(|target| target.price);
        let is_priced = price.is_some_and(|price| Endpoint::Chat.is_priced_by(&price));
        if here.is_some() && counts_money && !is_priced {
            return OtherModel::Forbidden;
        }
        here.map_or(OtherModel::Elsewhere, |target| {
            OtherModel::Here(target.model.clone())
        })
    }
}

/// Returns why a candidate can never be tried, whatever rests: the request refers to something that
/// its account does not let callers refer to, or names a model that cannot be used there.
pub fn lasting_refusal(
    candidate: &Candidate,
    asked: CallersRequest<'_>,
    thoughts: EarlierThoughts<'_>,
) -> Option<Refused> {
    let account = candidate.account();
    let CallersRequest { body, envelope, .. } = asked;
    if !envelope.names_models()
        && envelope
            .check_references(&account.allowed_references, body)
            .is_ok()
    {
        return None;
    }
    // If the dialect cannot carry a part in any case, its reason is the better one.
    write_request(candidate, asked, thoughts).err()
}

/// Writes the request in a candidate's dialect.
pub fn write_request(
    candidate: &Candidate,
    asked: CallersRequest<'_>,
    thoughts: EarlierThoughts<'_>,
) -> Result<Outbound, Refused> {
    let account = candidate.account();
    let CallersRequest { body, envelope, .. } = asked;
    let outbound = candidate.dialect().write(&Translate {
        body,
        envelope,
        model: &candidate.upstream_model,
        traits: candidate.traits,
        default_max_tokens: candidate.model.max_tokens,
        within: Some(candidate.timeouts.total),
        hide_reasoning: candidate.model.reasoning == Reasoning::Hide,
        stream_usage: account.added_fields.stream_usage,
        kept: thoughts.find_kept,
        sealed: thoughts.sealed,
        other: &|name| asked.other_model(name, account),
    })?;
    // This comes after the dialect: if the dialect cannot carry a part in any case, its reason is
    // the better one.
    envelope.check_references(&account.allowed_references, body)?;
    match outbound.losses.first_lost() {
        Some(lost) if candidate.model.on_loss == OnLoss::Refuse => Err(Refused::unsupported(
            lost.to_owned(),
            format!("`{lost}` cannot be expressed in the format of this model's upstream."),
        )),
        Some(_) | None => Ok(outbound),
    }
}
