//! Which exchanges are sent: a share of all, those that a caller asks for, and those that failed,
//! fell over or were slow. The last two are bounded, since callers cause them. Pure but for the
//! dice: the time is passed in.

use crate::base::lock::Lock;
use crate::base::trace_context::Parent;
use crate::conf::config::Sampling;
use crate::error::Blame;
use crate::exchange::producer::CALLER_LEFT;
use crate::settled::Settled;

/// The trail's words for attempts that ended without a failure.
const NO_FAILURES: [&str; 5] = ["ok", "slower", "not_needed", "declined", CALLER_LEFT];

/// Decides which exchanges are sent.
pub(super) struct Sampler {
    settings: Sampling,
    /// For exchanges whose callers ask for it.
    requested: Allowance,
    /// For exchanges that failed, fell over or were slow.
    noteworthy: Allowance,
    /// For exchanges that failed by a mistake of their caller: they must not hide the others.
    mistakes: Allowance,
    /// For exchanges without a key: anybody can make them.
    strangers: Allowance,
}

/// The most exchanges a second that are kept of those without a key.
const MAX_STRANGERS: u32 = 10;

impl Sampler {
    pub(super) fn new(settings: Sampling) -> Sampler {
        Sampler {
            settings,
            requested: Allowance::default(),
            noteworthy: Allowance::default(),
            mistakes: Allowance::default(),
            strangers: Allowance::default(),
        }
    }

    /// Decides at the beginning of an exchange. What happens later may only add to it.
    pub(super) fn is_sampled(&self, parent: Option<&Parent>) -> bool {
        match parent.filter(|_| self.settings.follows_parent) {
            Some(parent) => parent.is_sampled,
            None => self.is_drawn(),
        }
    }

    /// Decides by the share. The trace's id does not count: a caller may choose it.
    fn is_drawn(&self) -> bool {
        self.settings.share >= 1.0 || fastrand::f64() < self.settings.share
    }

    /// Decides at the end of an exchange. `now` is in milliseconds of Unix time.
    pub(super) fn keeps(&self, settled: &Settled, now: u64) -> bool {
        let Some(context) = &settled.trace else {
            return false;
        };
        let is_bound =
            context.parent.is_some() && self.settings.follows_parent && self.settings.share < 1.0;
        let max_extra = self.settings.extra_per_second;
        let is_mistake = settled.blame() == Some(Blame::Caller);
        // Who has no good key may not ask for anything.
        if settled.sender.key.is_none() || !settled.is_let_in() {
            let is_wanted =
                (context.is_sampled && !is_bound) || is_mistake || self.is_noteworthy(settled);
            return is_wanted && self.strangers.take(MAX_STRANGERS.min(max_extra), now);
        }
        // Of those that a caller asks for, only what the share leaves out counts as more than it.
        if context.is_sampled
            && (!is_bound || self.is_drawn() || self.requested.take(max_extra, now))
        {
            return true;
        }
        if is_mistake {
            self.mistakes.take(max_extra, now)
        } else {
            self.is_noteworthy(settled) && self.noteworthy.take(max_extra, now)
        }
    }

    fn is_noteworthy(&self, settled: &Settled) -> bool {
        settled.blame().is_some()
            || self.settings.slow.is_some_and(|slow| settled.total >= slow)
            || settled
                .attempts
                .trail
                .iter()
                .any(|tried| is_failure(tried.outcome))
    }
}

/// Returns whether an attempt with this outcome has failed.
pub(super) fn is_failure(outcome: &str) -> bool {
    !NO_FAILURES.contains(&outcome)
}

/// A number of things that may happen in each second.
#[derive(Default)]
struct Allowance(Lock<(u64, u32)>);

impl Allowance {
    /// Takes one of at most so many a second, if there is one left.
    fn take(&self, limit: u32, now: u64) -> bool {
        let mut taken = self.0.lock();
        let second = now / 1_000;
        if taken.0 != second {
            *taken = (second, 0);
        }
        taken.1 = taken.1.saturating_add(1);
        taken.1 <= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::trace_context::TraceContext;
    use crate::error::Outcome;
    use crate::settled::Tried;
    use std::sync::Arc;
    use std::time::Duration;

    const NOW: u64 = 1_800_000_000_000;

    fn sampler(share: f64, extra_per_second: u32) -> Sampler {
        let slow = Some(Duration::from_secs(5));
        Sampler::new(Sampling {
            share,
            follows_parent: true,
            slow,
            extra_per_second,
        })
    }

    fn parent(is_sampled: bool) -> Option<Parent> {
        Some(Parent {
            span: [1; 8],
            is_sampled,
            state: None,
        })
    }

    /// A good exchange of a caller with a key.
    fn settled(sampler: &Sampler, parent: Option<Parent>) -> Settled {
        let is_sampled = sampler.is_sampled(parent.as_ref());
        let trace = TraceContext {
            trace: [1; 16],
            parent,
            is_sampled,
            local_address: None,
        };
        let mut settled = Settled {
            trace: Some(Arc::new(trace)),
            outcome: Outcome::Ok,
            ..Settled::default()
        };
        settled.sender.key = Some("k".into());
        settled
    }

    #[test]
    fn a_share_of_those_without_a_parent_is_kept() {
        let kept = |share| {
            let sampler = sampler(share, 0);
            (0..2_000)
                .filter(|_| sampler.keeps(&settled(&sampler, None), NOW))
                .count()
        };
        assert_eq!((kept(0.0), kept(1.0)), (0, 2_000));
        let tenth = kept(0.1);
        assert!((80..400).contains(&tenth), "{tenth}");
    }

    #[test]
    fn a_parent_decides_within_what_it_may() {
        let kept = |sampler: &Sampler, flag, second: u64| {
            let one = settled(sampler, parent(flag));
            (0..2_000)
                .filter(|_| sampler.keeps(&one, NOW + second * 1_000))
                .count()
        };
        let none = sampler(0.0, 3);
        let asked = [
            kept(&none, true, 0),
            kept(&none, true, 0),
            kept(&none, true, 1),
            kept(&none, false, 2),
        ];
        assert_eq!(asked, [3, 0, 3, 0]);
        let half = sampler(0.5, 3);
        let (asked, unasked) = (kept(&half, true, 0), kept(&half, false, 1));
        assert!(
            (800..1_200).contains(&asked) && unasked == 0,
            "{asked} {unasked}"
        );
        // What all may have, a caller may ask for.
        let sampler = sampler(1.0, 0);
        assert!(sampler.keeps(&settled(&sampler, parent(true)), NOW));
        assert!(!sampler.keeps(&settled(&sampler, parent(false)), NOW));
    }

    #[test]
    fn who_has_no_key_asks_in_vain() {
        let sampler = sampler(0.0, 9);
        let mut one = settled(&sampler, parent(true));
        one.sender.key = None;
        assert!(!sampler.keeps(&one, NOW));
        // Also of a full sample, few are kept, whether or not the refused key is known.
        for key in [None, Some("k".into())] {
            let full = Sampler::new(Sampling {
                share: 1.0,
                ..sampler.settings
            });
            let mut stranger = settled(&full, None);
            (stranger.sender.key, stranger.outcome) = (key, Outcome::Unauthorized);
            assert_eq!((0..50).filter(|_| full.keeps(&stranger, NOW)).count(), 9);
        }
    }

    #[test]
    fn failures_failovers_and_slowness_are_kept_within_bounds() {
        let sampler = sampler(0.0, 2);
        let good = || settled(&sampler, None);
        let tried = |outcome| Tried {
            outcome,
            ..Tried::default()
        };
        let mut hedged = good();
        hedged.attempts.trail = ["slower", "ok"].map(tried).into();
        let mut fell_over = good();
        fell_over.attempts.trail = ["unreachable", "ok"].map(tried).into();
        let failed = Settled {
            outcome: Outcome::UpstreamCut,
            ..good()
        };
        let slow = Settled {
            total: Duration::from_secs(5),
            ..good()
        };
        let unasked = settled(&sampler, parent(false));
        let unasked = Settled {
            outcome: Outcome::Internal,
            ..unasked
        };
        for (second, (one, expected)) in (0..).zip([
            (good(), false),
            (hedged, false),
            (fell_over, true),
            (failed, true),
            (slow, true),
            (unasked, true),
        ]) {
            assert_eq!(
                sampler.keeps(&one, NOW + second * 1_000),
                expected,
                "{second}"
            );
        }
        // Mistakes of callers do not use up what real failures need.
        let mistake = Settled {
            outcome: Outcome::Refused,
            ..good()
        };
        let failed = Settled {
            outcome: Outcome::UpstreamError,
            ..good()
        };
        for one in [mistake, failed] {
            assert_eq!(
                (0..50)
                    .filter(|_| sampler.keeps(&one, NOW + 60_000))
                    .count(),
                2
            );
        }
    }
}
