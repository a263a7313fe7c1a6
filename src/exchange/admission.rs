//! To ask a candidate takes a place at its account, its target's leave, and the request in its
//! words.

use crate::account::Permit;
use crate::account::track::{AttemptGuard, Unavailable};
use crate::plan::Candidate;
use bytes::Bytes;
use dialects::front::Envelope;
use dialects::neutral::{self, Refused};
use dialects::{Outbound, Translate};
use std::time::Instant;

/// Takes a place at the account, and the target's leave to be tried. `alone`: nobody else can take
/// the request.
pub fn admit(candidate: &Candidate, alone: bool, now: Instant) -> Result<(Permit, AttemptGuard), Unavailable> {
    let (account, state) = (&candidate.place.account, &candidate.place.state);
    if let Some(rest) = state.health.rest(now) {
        return Err(Unavailable::Resting(rest));
    }
    // The place is taken last: to give one back wakes those who wait, and they would wake each
    // other for as long as the target rests.
    let trial = candidate.track.admit(alone, account.probe, now)?;
    let permit = state.admit().ok_or(Unavailable::Full)?;
    Ok((permit, trial))
}

/// Returns why a candidate may never be asked, whoever rests: the request refers to what its
/// account does not let callers refer to.
pub fn unable(
    candidate: &Candidate,
    body: &Bytes,
    envelope: &Envelope,
    kept: &dyn Fn(&str) -> Option<neutral::Kept>,
) -> Option<Refused> {
    let check = envelope.front.check_references;
    if !envelope.refers || check(&candidate.place.account.leave, body).is_ok() {
        return None;
    }
    // A dialect that could not carry a part in any case gives the better reason.
    write(candidate, body, envelope, kept).err()
}

/// Writes the request in a candidate's words. `kept` finds the thoughts that came before a call.
pub fn write(
    candidate: &Candidate,
    body: &Bytes,
    envelope: &Envelope,
    kept: &dyn Fn(&str) -> Option<neutral::Kept>,
) -> Result<Outbound, Refused> {
    let account = &candidate.place.account;
    let outbound = account.dialect.write(&Translate {
        body,
        envelope,
        model: &candidate.upstream_model,
        traits: candidate.traits,
        default_max_tokens: candidate.model.max_tokens,
        within: Some(candidate.timeouts.total),
        stream_usage: account.stream_usage,
        kept,
    })?;
    // After the dialect: one that could not carry a part in any case gives the better reason.
    if envelope.refers {
        (envelope.front.check_references)(&account.leave, body)?;
    }
    match outbound.losses.first() {
        Some(lost) if candidate.model.refuse_loss => Err(Refused::unsupported(
            lost.to_owned(),
            format!("`{lost}` cannot be expressed in the format of this model's upstream."),
        )),
        Some(_) | None => Ok(outbound),
    }
}
