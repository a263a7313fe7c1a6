//! A caller who leaves before an attempt has begun to answer may have given its target up.

use super::state::Try;
use super::{CALLER_LEFT, Producer};
use crate::account::breaker::BreakerState;
use crate::account::given_up::{BEHIND, GIVEN_UP};
use crate::account::target_health::LeaveEffect;
use crate::base::clock::Clock;

impl Producer<'_> {
    /// Notes at the target of an attempt that the caller left. Returns the trail's word for the
    /// attempt.
    pub(super) fn leave(&self, attempt: &mut Try<'_>) -> &'static str {
        let (waited, stream) = (attempt.began.elapsed(), self.request.envelope.stream);
        let left = attempt.guard.record_leave(stream, waited, Clock::now());
        self.log_leave(attempt, left);
        if !left.is_given_up {
            return CALLER_LEFT;
        }
        attempt.given_up_ms = u32::try_from(waited.as_millis()).unwrap_or(u32::MAX);
        GIVEN_UP
    }

    /// Logs what begins for a target whose callers leave.
    fn log_leave(&self, attempt: &Try<'_>, left: LeaveEffect) {
        let candidate = attempt.candidate;
        let account = &candidate.account().id;
        let model = || candidate.health.name(&candidate.upstream_model);
        if left.is_moved_back {
            log::warn!(
                "account {account} is asked last for {} for {} s: callers give up waiting for its answers",
                model(),
                BEHIND.as_secs()
            );
        }
        let Some(BreakerState::Open(until)) = left.breaker else {
            return;
        };
        let (model, wait) = (model(), until.saturating_duration_since(Clock::now()));
        self.shared
            .store
            .iter()
            .for_each(|store| store.hint(account, &model, wait));
        log::warn!(
            "account {account} gets no request for {model} for {} s: its breaker opened, since callers give up waiting \
             and nobody gets an answer",
            wait.as_secs() + 1
        );
    }
}
