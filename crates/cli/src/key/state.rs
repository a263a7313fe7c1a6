//! A [`KeyState`] says whether a key works. For a key that is being rotated, it also says until
//! when an older secret works.

use std::time::SystemTime;

use super::{KeyEntry, catalog_time};
use portcullis::catalog::rotation::{is_replaced, newest_end};

/// The state of a key: it works, or something keeps it from working.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyState {
    Ok,
    Disabled,
    Expired,
    CallerDisabled,
    CallerExpired,
    /// The key works, and an older secret works too until this time.
    Rotating(SystemTime),
}

impl KeyState {
    pub(super) fn at_time(known: &KeyEntry<'_>, now: SystemTime) -> Self {
        let over = |expires: Option<SystemTime>| expires.is_some_and(|expires| expires <= now);
        let (key, caller) = (known.key, &known.key.caller);
        if !key.enabled {
            Self::Disabled
        } else if over(key.expires) || known.secrets.iter().all(|(_, until)| over(*until)) {
            Self::Expired
        } else if !caller.enabled {
            Self::CallerDisabled
        } else if over(caller.expires) {
            Self::CallerExpired
        } else {
            let newest = newest_end(known.secrets.iter().map(|(_, until)| *until));
            let older = known.secrets.iter().filter_map(|(_, until)| {
                until.filter(|until| *until > now && is_replaced(Some(*until), newest))
            });
            older.max().map_or(Self::Ok, Self::Rotating)
        }
    }

    /// Returns the word for machines.
    pub(super) fn name(self) -> &'static str {
        self.words().0
    }

    /// Returns the words for people.
    pub(super) fn text(self) -> String {
        if let Self::Rotating(until) = self {
            return format!("rotating until {}", catalog_time(until));
        }
        self.name().replace('_', " ")
    }

    /// Returns the reason why the key does not work, if it does not.
    pub(super) fn why_not(self) -> Option<&'static str> {
        self.words().1
    }

    /// Returns the word for machines, and the reason why the key does not work.
    fn words(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Ok => ("ok", None),
            Self::Rotating(_) => ("rotating", None),
            Self::Disabled => ("disabled", Some("the key is disabled")),
            Self::Expired => ("expired", Some("the key has expired")),
            Self::CallerDisabled => ("caller_disabled", Some("its caller is disabled")),
            Self::CallerExpired => ("caller_expired", Some("its caller has expired")),
        }
    }
}

/// Returns the time at which the key stops working, if nothing is changed.
pub(super) fn expiry_time(known: &KeyEntry<'_>) -> Option<SystemTime> {
    let secrets: Option<Vec<SystemTime>> = known.secrets.iter().map(|(_, until)| *until).collect();
    let secrets = secrets.and_then(|secrets| secrets.into_iter().max());
    [known.key.expires, known.key.caller.expires, secrets]
        .into_iter()
        .flatten()
        .min()
}
