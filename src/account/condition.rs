//! The words for what becomes of requests at a target and at an account. `/status`, `/live`, the
//! page, metrics, alerts and problems all use these words, and no others.
//!
//! **Invariant:** what is out stays out until it has answered, or an operator has reset it. That
//! its time is over does not make it well: then it is half open, since the next request tests it.

use super::breaker::BreakerState;
use super::health::{Rest, Why};
use dialects::named_enum;
use serde::{Deserialize, Serialize};
use std::time::Instant;

named_enum! {
    /// The states of a target.
    #[derive(Default)]
    pub enum TargetState: Serialize, Deserialize {
        /// Requests are sent there.
        #[default]
        Ok = "ok",
        /// The breaker keeps requests away.
        Open = "open",
        /// The target was out, and the next request tests whether it works again.
        HalfOpen = "half_open",
        /// The target, or its account, rests: the provider has refused requests.
        Resting = "resting",
        /// The catalog disables the account.
        Off = "off",
    }
}

named_enum! {
    /// The states of an account.
    #[derive(Default)]
    pub enum AccountState: Serialize, Deserialize {
        /// Requests are sent to all its targets.
        #[default]
        Ok = "ok",
        /// Requests are sent to some of its targets. The alias is the word of older gateways.
        #[serde(alias = "cooling_rate")]
        Partly = "partly",
        /// Requests are sent to none of its targets.
        #[serde(alias = "cooling_credential")]
        Out = "out",
        /// The catalog disables the account.
        #[serde(alias = "disabled")]
        Off = "off",
    }
}

named_enum! {
    /// The reasons why requests are not sent somewhere. If there are several, the first one here
    /// counts.
    #[derive(PartialOrd, Ord)]
    pub enum Reason: Serialize, Deserialize {
        /// The provider refuses the credential, or the money is gone.
        Credential = "credential",
        /// The target failed too often, and its breaker is not closed.
        Breaker = "breaker",
        /// The account does not serve the model.
        Unfit = "unfit",
        /// The provider limits the rate.
        Rate = "rate",
        /// The catalog disables the account.
        Off = "off",
    }
}

impl From<Why> for Reason {
    fn from(why: Why) -> Reason {
        match why {
            Why::Rate => Reason::Rate,
            Why::Credential => Reason::Credential,
            Why::Refused => Reason::Unfit,
        }
    }
}

/// The condition of a target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Condition {
    /// The state.
    pub state: TargetState,
    /// The reason, unless the target is ok.
    pub reason: Option<Reason>,
    /// True while a request tests whether the target works again.
    pub is_probing: bool,
    /// The time since which it is so, if it is known.
    pub since: Option<Instant>,
    /// The time until which it is so, if it changes by itself.
    pub lasts_until: Option<Instant>,
}

impl Condition {
    /// Returns whether requests are sent to the target.
    pub fn is_ok(&self) -> bool {
        self.state == TargetState::Ok
    }

    fn with_reason(state: TargetState, reason: Reason) -> Condition {
        Condition {
            state,
            reason: Some(reason),
            ..Condition::default()
        }
    }

    /// Returns the condition of a target whose account is well.
    fn of_target(target: TargetSigns) -> Condition {
        let since = target.since;
        if let Some(rest) = target.rest {
            return Condition {
                since,
                lasts_until: Some(rest.until),
                ..Condition::with_reason(TargetState::Resting, rest.why.into())
            };
        }
        match target.breaker {
            BreakerState::Open(until) => Condition {
                since,
                lasts_until: Some(until),
                ..Condition::with_reason(TargetState::Open, Reason::Breaker)
            },
            BreakerState::HalfOpen { probing } => Condition {
                since,
                is_probing: probing,
                ..Condition::with_reason(TargetState::HalfOpen, Reason::Breaker)
            },
            BreakerState::Closed if target.is_unfit => {
                let tested = Condition::with_reason(TargetState::HalfOpen, Reason::Unfit);
                Condition {
                    since,
                    is_probing: target.is_awaited,
                    ..tested
                }
            }
            BreakerState::Closed => Condition {
                since,
                ..Condition::default()
            },
        }
    }
}

/// The health of a target, without its account's.
#[derive(Debug, Clone, Copy)]
pub struct TargetSigns {
    /// The state of its breaker.
    pub breaker: BreakerState,
    /// Its own rest.
    pub rest: Option<Rest>,
    /// True if the last answers were refusals, so that the account does not serve the model.
    pub is_unfit: bool,
    /// True if an attempt waits for its first token.
    pub is_awaited: bool,
    /// The time since which it is so, if it is known.
    pub since: Option<Instant>,
}

/// The health of an account, without its targets.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccountSigns {
    /// True if the catalog disables the account.
    pub is_off: bool,
    /// The rest of the whole account.
    pub rest: Option<Rest>,
    /// The time since which the provider refuses the credential, also between two rests.
    pub credential: Option<Instant>,
}

impl AccountSigns {
    /// Returns whether the provider refuses the credential, or the money is gone.
    pub fn is_credential_refused(&self) -> bool {
        self.credential.is_some() || self.rest.is_some()
    }

    /// Returns the state of the account with these targets, and the reason unless it is ok.
    pub fn account(
        &self,
        targets: impl Iterator<Item = TargetSigns>,
    ) -> (AccountState, Option<Reason>) {
        if self.is_off {
            return (AccountState::Off, Some(Reason::Off));
        }
        if self.is_credential_refused() {
            return (AccountState::Out, Some(Reason::Credential));
        }
        let (mut is_any_ok, mut worst) = (false, None);
        for condition in targets.map(|target| self.target(Some(target))) {
            is_any_ok |= condition.is_ok();
            worst = [worst, condition.reason].into_iter().flatten().min();
        }
        let state = match worst {
            None => AccountState::Ok,
            Some(_) if is_any_ok => AccountState::Partly,
            Some(_) => AccountState::Out,
        };
        (state, worst)
    }

    /// Returns the condition of one of the account's targets. A target that was never asked has no
    /// signs of its own.
    pub fn target(&self, target: Option<TargetSigns>) -> Condition {
        if self.is_off {
            return Condition::with_reason(TargetState::Off, Reason::Off);
        }
        if let Some(rest) = self.rest {
            let resting = Condition::with_reason(TargetState::Resting, rest.why.into());
            return Condition {
                since: self.credential,
                lasts_until: Some(rest.until),
                ..resting
            };
        }
        let own = target.map_or_else(Condition::default, Condition::of_target);
        // The next request tests the credential at any target.
        if self.credential.is_some()
            && (own.is_ok() || own.reason == Some(Reason::Unfit))
            && own.lasts_until.is_none()
        {
            let is_probing = target.is_some_and(|target| target.is_awaited);
            let tested = Condition::with_reason(TargetState::HalfOpen, Reason::Credential);
            return Condition {
                since: self.credential,
                is_probing,
                ..tested
            };
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_worst_of_what_holds_is_told() {
        let now = Instant::now();
        let later = now + Duration::from_secs(9);
        let rest = |why| Some(Rest { until: later, why });
        let fine = TargetSigns {
            breaker: BreakerState::Closed,
            rest: None,
            is_unfit: false,
            is_awaited: false,
            since: None,
        };
        let half = |probing| TargetSigns {
            breaker: BreakerState::HalfOpen { probing },
            ..fine
        };
        let unfit = |is_awaited| TargetSigns {
            is_unfit: true,
            is_awaited,
            ..fine
        };
        let well = AccountSigns::default();
        let refused = AccountSigns {
            credential: Some(now),
            ..well
        };
        let rests = AccountSigns {
            rest: rest(Why::Credential),
            ..refused
        };
        let off = AccountSigns {
            is_off: true,
            ..rests
        };
        let open = TargetSigns {
            breaker: BreakerState::Open(later),
            ..fine
        };
        for (account, target, word, reason, is_probing) in [
            (well, None, "ok", None, false),
            (well, Some(fine), "ok", None, false),
            (
                well,
                Some(TargetSigns {
                    is_awaited: true,
                    ..fine
                }),
                "ok",
                None,
                false,
            ),
            (well, Some(open), "open", Some("breaker"), false),
            (well, Some(half(false)), "half_open", Some("breaker"), false),
            (well, Some(half(true)), "half_open", Some("breaker"), true),
            (
                well,
                Some(TargetSigns {
                    rest: rest(Why::Rate),
                    ..open
                }),
                "resting",
                Some("rate"),
                false,
            ),
            (
                well,
                Some(TargetSigns {
                    rest: rest(Why::Refused),
                    ..unfit(false)
                }),
                "resting",
                Some("unfit"),
                false,
            ),
            (well, Some(unfit(false)), "half_open", Some("unfit"), false),
            (well, Some(unfit(true)), "half_open", Some("unfit"), true),
            (rests, Some(open), "resting", Some("credential"), false),
            (rests, None, "resting", Some("credential"), false),
            (refused, Some(fine), "half_open", Some("credential"), false),
            (
                refused,
                Some(TargetSigns {
                    is_awaited: true,
                    ..fine
                }),
                "half_open",
                Some("credential"),
                true,
            ),
            (refused, Some(open), "open", Some("breaker"), false),
            (off, Some(open), "off", Some("off"), false),
        ] {
            let told = account.target(target);
            let shown = (
                told.state.name(),
                told.reason.map(Reason::name),
                told.is_probing,
            );
            assert_eq!(shown, (word, reason, is_probing), "{account:?} {target:?}");
            let ends = ["open", "resting"].contains(&word);
            assert_eq!(told.lasts_until.is_some(), ends, "{account:?} {target:?}");
        }
    }

    #[test]
    fn words_are_the_same_in_json_and_elsewhere() {
        for state in TargetState::ALL {
            assert_eq!(serde_json::to_value(state).expect("JSON"), state.name());
        }
        for state in AccountState::ALL {
            assert_eq!(serde_json::to_value(state).expect("JSON"), state.name());
        }
        for reason in Reason::ALL {
            assert_eq!(serde_json::to_value(reason).expect("JSON"), reason.name());
        }
    }
}
