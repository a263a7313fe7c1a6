//! [`GivenUp`] records the callers who give a target up: they leave before it has begun to answer.
//! A provider that hangs shows in no other way, since its callers leave long before any timeout of
//! the gateway.
//!
//! A caller may be impatient, too. So a leave counts only if the target took much longer than it
//! usually does. While the usual time is not known, a leave counts if no other caller got an answer
//! meanwhile. Then one person who tries again and again is one caller who gives up. Pure: the time
//! is passed in.
//!
//! **Invariant:** a leave after less than a second counts for nothing.

use super::latency::Rolling;
use super::window::Window;
use std::time::{Duration, Instant};

/// The word for an attempt that its caller gave up, in the access line.
pub const GIVEN_UP: &str = "given_up";
/// The shortest wait after which a leave counts.
const LEAST_WAIT: Duration = Duration::from_secs(1);
/// The shortest time without an answer that is worth a word.
const LEAST_SILENCE: Duration = Duration::from_secs(15);
/// A wait is much longer than usual if it is this many times the p99.
const TIMES_USUAL: u32 = 3;
/// The time over which the usual time is known. It is long, since few answers a minute must be
/// enough.
const HISTORY: Duration = Duration::from_secs(3600);
/// The time for which leaves are remembered.
const SPAN: Duration = Duration::from_secs(30);
/// The time for which the target stands behind the others.
pub const BEHIND: Duration = Duration::from_secs(10);
/// The number of leaves within `SPAN` that moves the target behind the others.
pub const MOVES: u64 = 3;
/// Where there are many calls, one of so many must be given up: of thousands of answers, some take
/// very long at any provider.
pub const ONE_OF: u64 = 50;
/// The number of leaves within [`SPAN`] that opens the breaker, if no caller got an answer.
const BREAKS: u64 = 5;
/// If one caller gives up so often within [`SPAN`], and no other caller waits, each leave counts:
/// people rarely cancel so often, and programs that try again do.
const OFTEN: usize = 6;
/// The most leaves of which it is remembered who left.
const REMEMBERED: usize = 32;

/// The record of callers who gave a target up.
#[derive(Default)]
pub struct GivenUp {
    /// The times to a whole answer, and to a stream's first token. They are boxed, since they are
    /// large, and many targets are never asked.
    usual_times: [Option<Box<Rolling>>; 2],
    /// The last time at which anybody got the beginning of an answer.
    last_answer: Option<Instant>,
    /// The time since which requests wait and the target has shown no sign of life: no answer has
    /// begun or ended, and none has failed. It counts only while some wait.
    silent_since: Option<Instant>,
    /// The keys that ask the target.
    asking_keys: Keys,
    /// The leaves that count. They are boxed, since there are usually none.
    leaves: Option<Box<Leaves>>,
}

/// A caller who leaves before the target has begun to answer.
#[derive(Debug, Clone, Copy)]
pub struct Leave {
    /// A hash of the caller's key.
    pub key: u64,
    /// True if a stream was asked for.
    pub stream: bool,
    /// The beginning of the attempt.
    pub began: Instant,
}

/// The load of the target meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct TargetLoad {
    /// The number of other attempts that wait for the target.
    pub awaited: usize,
    /// The number of calls that ended within the last half minute.
    pub calls: u64,
}

/// The consequence of a leave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Consequence {
    /// The leave counts: the caller has given the target up.
    pub is_given_up: bool,
    /// The target stands behind the others.
    pub stands_behind: bool,
    /// The target stands there since this leave.
    pub is_moved_back: bool,
    /// The breaker opens.
    pub opens_breaker: bool,
}

/// The leaves of the last half minute.
struct Leaves {
    /// The leaves after much more than the usual time.
    sure: Window,
    /// The leaves from before the usual time was known, the oldest first.
    unsure: Vec<Unsure>,
    /// The keys of those who left.
    keys: Keys,
    /// True if the last one had asked for a stream.
    stream: bool,
    /// The time of the last one.
    last_leave_at: Option<Instant>,
    /// The time until which the target stands behind the others.
    behind: Option<Instant>,
}

/// A leave of which it is not known whether the caller was only impatient.
struct Unsure {
    key: u64,
    left_at: Instant,
    /// True if somebody with this key came back after it, and left again.
    has_returned: bool,
}

/// The number of keys: one, or several.
#[derive(Debug, Clone, Copy, Default)]
struct Keys {
    last_key: Option<u64>,
    /// The time at which another key came than before.
    changed: Option<Instant>,
}

impl GivenUp {
    /// Notes that a request with this key is sent to the target, where `awaited` others wait.
    pub fn record_request(&mut self, key: u64, awaited: usize, now: Instant) {
        self.asking_keys.record_key(key, now);
        if awaited == 0 {
            self.silent_since = Some(now);
        }
    }

    /// Notes that an answer ended, or that an attempt failed, so that nobody waits in vain so far.
    pub fn record_sign_of_life(&mut self, now: Instant) {
        self.silent_since = Some(now);
    }

    /// Returns the time for which requests have waited without a sign of life, if it is much longer
    /// than usual. Some must wait at present.
    pub fn silence(&mut self, now: Instant) -> Option<Duration> {
        let silence = now.saturating_duration_since(self.silent_since?);
        if silence < LEAST_SILENCE {
            return None;
        }
        let usual = self
            .quantile(false, 0.99, now)
            .max(self.quantile(true, 0.99, now));
        usual
            .is_none_or(|p99| silence >= p99.saturating_mul(TIMES_USUAL))
            .then_some(silence)
    }

    /// Notes that the target began to answer, after this time.
    pub fn record_answer(&mut self, stream: bool, took: Duration, now: Instant) {
        (self.last_answer, self.silent_since) = (Some(now), Some(now));
        let [whole, first] = &mut self.usual_times;
        let times = if stream { first } else { whole };
        times
            .get_or_insert_with(|| Box::new(Rolling::over(HISTORY)))
            .record(took, now);
    }

    /// Notes that a caller left, and returns what follows.
    pub fn record_leave(&mut self, leave: Leave, load: TargetLoad, now: Instant) -> Consequence {
        let waited = now.saturating_duration_since(leave.began);
        let usual_time = self.quantile(leave.stream, 0.99, now);
        let least = usual_time.map_or(LEAST_WAIT, |p99| {
            LEAST_WAIT.max(p99.saturating_mul(TIMES_USUAL))
        });
        let heard_meanwhile = self
            .last_answer
            .is_some_and(|answered_at| answered_at >= leave.began);
        if waited < least || (usual_time.is_none() && heard_meanwhile) {
            return Consequence::default();
        }
        let leaves = self.leaves.get_or_insert_with(Box::default);
        if !leaves.add(leave, usual_time.is_some(), load.awaited, now) {
            return Consequence::default();
        }
        let number = leaves.number(load.awaited, now);
        let stands_behind = number >= MOVES.max(load.calls / ONE_OF);
        let was_behind = leaves.behind.is_some_and(|until| until > now);
        if stands_behind {
            leaves.behind = Some(now + BEHIND);
        }
        let is_silent = self
            .last_answer
            .is_none_or(|answered_at| now.saturating_duration_since(answered_at) >= SPAN);
        let are_many = leaves.keys.are_several(now) || !self.asking_keys.are_several(now);
        let opens_breaker = number >= BREAKS && is_silent && are_many;
        Consequence {
            is_given_up: true,
            stands_behind,
            is_moved_back: stands_behind && !was_behind,
            opens_breaker,
        }
    }

    /// Returns the time until which the target stands behind the others, if it does.
    pub fn behind(&self, now: Instant) -> Option<Instant> {
        self.leaves.as_ref()?.behind.filter(|until| *until > now)
    }

    /// Returns the time that the target usually takes for what was given up last, if it is known.
    pub fn usual_time(&mut self, now: Instant) -> Option<Duration> {
        let stream = self.leaves.as_ref()?.stream;
        self.quantile(stream, 0.5, now)
    }

    /// Lets the target stand behind the others until then, as another process reports it.
    pub fn recall(&mut self, until: Option<Instant>) {
        self.leaves = until.map(|until| {
            Box::new(Leaves {
                behind: Some(until),
                ..Leaves::default()
            })
        });
    }

    /// Forgets the leaves.
    pub fn forget(&mut self) {
        self.leaves = None;
    }

    /// Forgets the usual times if they are all too old, and the leaves if they are, so that what is
    /// not used any more takes no memory. A provider that hangs may have given its last answer long
    /// ago, and its callers leave all the same.
    pub fn sweep(&mut self, now: Instant) {
        let is_old = |time: Instant| now.saturating_duration_since(time) >= HISTORY;
        if self.last_answer.is_some_and(is_old) {
            (self.usual_times, self.last_answer) = ([None, None], None);
        }
        let is_behind = self.behind(now).is_some();
        self.leaves
            .take_if(|leaves| !is_behind && leaves.last_leave_at.is_none_or(is_old));
    }

    fn quantile(&mut self, stream: bool, share: f64, now: Instant) -> Option<Duration> {
        let [whole, first] = &mut self.usual_times;
        if stream { first } else { whole }
            .as_mut()?
            .quantile(share, now)
    }
}

impl Default for Leaves {
    fn default() -> Leaves {
        Leaves {
            sure: Window::new(SPAN),
            unsure: Vec::new(),
            keys: Keys::default(),
            stream: false,
            last_leave_at: None,
            behind: None,
        }
    }
}

impl Leaves {
    /// Adds a leave. Returns whether it counts.
    fn add(&mut self, leave: Leave, is_sure: bool, awaited: usize, now: Instant) -> bool {
        self.unsure
            .retain(|one| now.saturating_duration_since(one.left_at) < SPAN);
        let mut is_return = false;
        if is_sure {
            self.sure.add((1, 0), now);
        } else {
            is_return = self.add_unsure(leave, now);
        }
        // Once several have given up, those who come back count again.
        if is_return && self.number(awaited, now) < MOVES {
            return false;
        }
        self.keys.record_key(leave.key, now);
        (self.stream, self.last_leave_at) = (leave.stream, Some(now));
        true
    }

    /// Adds a leave from before the usual time is known. Returns whether it is one of somebody who
    /// left before.
    fn add_unsure(&mut self, leave: Leave, now: Instant) -> bool {
        let mut earlier = self.unsure.iter_mut();
        let before = earlier
            .find(|one| one.key == leave.key && !one.has_returned && one.left_at <= leave.began);
        let is_return = before.is_some();
        if let Some(before) = before {
            before.has_returned = true;
        }
        if self.unsure.len() >= REMEMBERED {
            self.unsure.remove(0);
        }
        self.unsure.push(Unsure {
            key: leave.key,
            left_at: now,
            has_returned: false,
        });
        is_return
    }

    /// Returns the number of those who gave up within the last half minute.
    fn number(&self, awaited: usize, now: Instant) -> u64 {
        let unsure = self
            .unsure
            .iter()
            .filter(|one| !one.has_returned || self.is_often(awaited))
            .count();
        self.sure.sums(now).0 + u64::try_from(unsure).unwrap_or(u64::MAX)
    }

    /// Returns whether the target was given up so often that each leave counts.
    fn is_often(&self, awaited: usize) -> bool {
        awaited == 0 && self.unsure.len() >= OFTEN
    }
}

impl Keys {
    fn record_key(&mut self, key: u64, now: Instant) {
        if self
            .last_key
            .replace(key)
            .is_some_and(|before| before != key)
        {
            self.changed = Some(now);
        }
    }

    /// Returns whether several keys came lately.
    fn are_several(self, now: Instant) -> bool {
        self.changed
            .is_some_and(|changed_at| now.saturating_duration_since(changed_at) < SPAN)
    }
}

#[cfg(test)]
mod tests;
