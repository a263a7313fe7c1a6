//! The rule about targets that callers give up: they leave before the first byte, after they have
//! waited for much longer than usual.

use super::facts::AccountFacts;
use super::words::seconds_text;
use super::{Finding, Rule};
use crate::account::given_up::{MOVES, ONE_OF};
use crate::status::Severity;

/// Finds targets of an account that hang. The bounds are those by which a target is moved
/// behind the others.
pub(super) fn find_given_up(account: &AccountFacts, found: &mut Vec<Finding>) {
    let hanging = account.given_up.iter().filter(|target| {
        target.callers >= MOVES && target.callers.saturating_mul(ONE_OF) >= target.attempts
    });
    for target in hanging {
        let id = &account.id;
        let usually = target
            .usual_ms
            .map(|usual_ms| format!("; it usually takes {}", seconds_text(usual_ms)));
        let summary = format!(
            "Callers give up waiting for {id} ({} in 1 min, after {}{}).",
            target.callers,
            seconds_text(target.after_ms),
            usually.unwrap_or_default()
        );
        let remedy = format!(
            "Look at the provider's or the server's own state, and ask it for {} from this machine. The other targets of \
             its models are asked first meanwhile. `timeouts.first_byte` of the account says how long the gateway itself \
             waits.",
            target.name
        );
        let subject = ("target", format!("{id}/{}", target.name));
        found.push(
            Finding::new(Rule::GivenUp, Severity::Warning, subject, summary, remedy)
                .with_requests(Some(target.callers)),
        );
    }
}
