//! [`Retry`] says whether a client should try again after a refusal, and when.

use std::time::Duration;

/// The use of another try, and the seconds until it makes sense, if they are known. They are at
/// most [`MAX_RETRY_AFTER`], except for the caller's own limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Another try may be answered, after these seconds, or when the client likes.
    Helps(Option<u64>),
    /// Clients are asked not to try again. The gateway has already tried several times, so an SDK's
    /// retries would only multiply the tries; or the wait is longer than any SDK waits.
    Pointless(Option<u64>),
    /// Nothing changes by itself. There is no time: some clients would wait for it.
    Never,
}

impl Retry {
    /// Returns the seconds until another try makes sense.
    pub fn seconds(self) -> Option<u64> {
        match self {
            Retry::Helps(seconds) | Retry::Pointless(seconds) => seconds,
            Retry::Never => None,
        }
    }
}

/// The longest `retry-after` for callers, in seconds. SDKs ignore longer waits, or give up because
/// of them.
pub const MAX_RETRY_AFTER: u64 = 60;

/// Returns a wait in whole seconds, as `retry-after` has it: rounded up, and at least one.
pub fn seconds_of(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}
