//! The rest of limits, as answers show it in their headers.

use std::time::Duration;

/// The amount that a limit has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The amount that the limit allows.
    pub limit: u64,
    /// The amount that is neither used nor reserved.
    pub remaining: u64,
    /// The time until the whole limit is free again.
    pub reset: Duration,
}

/// What is left of the tightest limits. The tightest limit has the least remaining.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitsLeft {
    /// The tightest limit on requests.
    pub requests: Option<Room>,
    /// The tightest limit on tokens.
    pub tokens: Option<Room>,
}

impl LimitsLeft {
    /// Returns, for requests and for tokens, the tighter limit of the two.
    pub fn tightest(self, other: LimitsLeft) -> LimitsLeft {
        LimitsLeft {
            requests: tighter_room(self.requests, other.requests),
            tokens: tighter_room(self.tokens, other.tokens),
        }
    }
}

pub(super) fn tighter_room(one: Option<Room>, other: Option<Room>) -> Option<Room> {
    match (one, other) {
        (Some(a), Some(b)) => {
            let tighter =
                b.remaining < a.remaining || b.remaining == a.remaining && b.reset > a.reset;
            Some(if tighter { b } else { a })
        }
        (room, None) | (None, room) => room,
    }
}
