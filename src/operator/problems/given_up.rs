//! The rule about targets that callers give up: they leave before the first byte, after they have
//! waited for much longer than usual.

use super::facts::AccountFacts;
use super::words::seconds_text;
use super::{Finding, Rule};
use crate::account::given_up::{MOVES, ONE_OF};
use crate::series::WaitRange;
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
            waits_text(target.waits),
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

/// Writes after how long callers left: `2 s`, or the shortest and the longest wait: `5 s to 60 s`.
fn waits_text(waits: WaitRange) -> String {
    let [shortest, longest] =
        [waits.shortest_ms, waits.longest_ms].map(|wait_ms| seconds_text(wait_ms.into()));
    if shortest == longest {
        shortest
    } else {
        format!("{shortest} to {longest}")
    }
}
