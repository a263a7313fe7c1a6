//! The commands of tests to the [`Clock`](super::Clock), by requests to the admin listener:
//!
//! * `/test-clock/hold`: it stands still;
//! * `/test-clock/advance/500`: it is as many milliseconds later, whether it stands still or not;
//! * `/test-clock/release`: it goes on;
//! * `/test-clock/round/names`: the next round begins at once, and the answer comes when it has
//!   ended;
//! * `/test-clock/rounds`: nothing.
//!
//! Each answers with the number of rounds so far, as JSON: `{"names": 7, …}`. Without a command
//! the clock is the real one.

use super::Round;
use crate::base::lock::Lock;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The state of the clock.
pub(super) static CONTROL: Lock<Control> = Lock::new(Control::NEW);
/// Wakes those that wait for the clock or for a round.
static CHANGED: Notify = Notify::const_new();

const ROUNDS: [(Round, &str); 9] = [
    (Round::Problems, "problems"),
    (Round::Notices, "notices"),
    (Round::Names, "names"),
    (Round::Connections, "connections"),
    (Round::Lists, "lists"),
    (Round::Keys, "keys"),
    (Round::Identities, "identities"),
    (Round::Probes, "probes"),
    (Round::Files, "files"),
];

pub(super) struct Control {
    /// The last command; `None` if there was none.
    set: Option<Setting>,
    rounds: [Rounds; ROUNDS.len()],
}

/// At the moment `real` of the real time it was `shown` on the clock.
#[derive(Clone, Copy)]
struct Setting {
    real: Instant,
    shown: Instant,
    is_held: bool,
}

/// The rounds of one kind.
#[derive(Clone, Copy)]
struct Rounds {
    /// The rounds that have ended.
    ended: u64,
    /// The number of commands so far that asked for a round.
    commands: u64,
    /// The number of commands when the present round, or the last one, began.
    commands_at_start: u64,
    /// The number of commands that have had a whole round.
    served: u64,
}

impl Rounds {
    const NONE: Rounds = Rounds {
        ended: 0,
        commands: 0,
        commands_at_start: 0,
        served: 0,
    };
}

impl Control {
    const NEW: Control = Control {
        set: None,
        rounds: [Rounds::NONE; ROUNDS.len()],
    };

    pub(super) fn time_at(&self, moment: Instant) -> Instant {
        match self.set {
            None => moment,
            Some(set) if set.is_held => set.shown,
            Some(set) => set.shown + moment.saturating_duration_since(set.real),
        }
    }

    fn set(&mut self, is_held: impl FnOnce(bool) -> bool, ahead: Duration) {
        let real = Instant::now();
        self.set = Some(Setting {
            real,
            shown: self.time_at(real) + ahead,
            is_held: is_held(self.set.is_some_and(|set| set.is_held)),
        });
    }

    /// Returns how long to wait in real time until `due`: for ever if the clock is held. Returns
    /// `None` if it is then or later.
    fn time_left(&self, due: Instant) -> Option<Duration> {
        const FOR_EVER: Duration = Duration::from_secs(86_400);
        let is_held = self.set.is_some_and(|set| set.is_held);
        let left = due.saturating_duration_since(self.time_at(Instant::now()));
        (!left.is_zero()).then_some(if is_held { FOR_EVER } else { left })
    }

    /// Returns how long to wait for a round, which is due at a time. Returns `None` if it begins
    /// now.
    fn wait(&mut self, round: Round, due: Instant) -> Option<Duration> {
        let left = self.time_left(due);
        let rounds = self.rounds_mut(round);
        let left = left.filter(|_| rounds.commands == rounds.commands_at_start);
        if left.is_none() {
            rounds.commands_at_start = rounds.commands;
        }
        left
    }

    #[expect(clippy::indexing_slicing, reason = "there is one place for each round")]
    fn rounds_mut(&mut self, round: Round) -> &mut Rounds {
        &mut self.rounds[round as usize]
    }
}

/// Notes that a round begins.
pub(super) fn begin(round: Round) {
    let mut control = CONTROL.lock();
    let rounds = control.rounds_mut(round);
    rounds.commands_at_start = rounds.commands;
}

/// Notes that a round has ended.
pub(super) fn end(round: Round) {
    let mut control = CONTROL.lock();
    let rounds = control.rounds_mut(round);
    rounds.ended += 1;
    rounds.served = rounds.commands_at_start;
    drop(control);
    CHANGED.notify_waiters();
}

/// Ends a round, and waits for the next.
pub(super) async fn pause(round: Round, time: Duration) {
    end(round);
    let due = super::Clock::now() + time;
    until_none(|| CONTROL.lock().wait(round, due)).await;
}

/// Waits until a time on the clock.
pub(super) async fn sleep_until(due: Instant) {
    until_none(|| CONTROL.lock().time_left(due)).await;
}

/// Waits until nothing is left to wait for.
async fn until_none(mut left: impl FnMut() -> Option<Duration>) {
    loop {
        let mut changed = pin!(CHANGED.notified());
        changed.as_mut().enable();
        let Some(left) = left() else { return };
        // Until the clock is changed, or the time is over.
        drop(tokio::time::timeout(left, changed).await);
    }
}

/// Carries out the command of a path. Returns `None` if there is no such command.
pub async fn carry_out(path: &str) -> Option<String> {
    let mut words = path.strip_prefix("/test-clock/")?.split('/');
    match (words.next()?, words.next()) {
        ("rounds", None) => {}
        ("hold", None) => CONTROL.lock().set(|_| true, Duration::ZERO),
        ("release", None) => CONTROL.lock().set(|_| false, Duration::ZERO),
        ("advance", Some(ms)) => {
            let ahead = Duration::from_millis(ms.parse().ok()?);
            CONTROL.lock().set(|is_held| is_held, ahead);
        }
        ("round", Some(name)) => {
            let (round, _) = ROUNDS.into_iter().find(|(_, known)| *known == name)?;
            await_round(round).await;
        }
        _ => return None,
    }
    CHANGED.notify_waiters();
    Some(counted())
}

/// Waits until a whole round has passed.
async fn await_round(round: Round) {
    let number = {
        let mut control = CONTROL.lock();
        let rounds = control.rounds_mut(round);
        rounds.commands += 1;
        rounds.commands
    };
    CHANGED.notify_waiters();
    loop {
        let mut changed = pin!(CHANGED.notified());
        changed.as_mut().enable();
        if CONTROL.lock().rounds_mut(round).served >= number {
            return;
        }
        changed.await;
    }
}

#[expect(clippy::indexing_slicing, reason = "there is one place for each round")]
fn counted() -> String {
    let control = CONTROL.lock();
    let counts = ROUNDS
        .iter()
        .map(|(round, name)| format!("\"{name}\": {}", control.rounds[*round as usize].ended));
    format!("{{{}}}\n", counts.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn without_a_command_the_clock_is_the_real_one() {
        let (mut control, now) = (Control::NEW, Instant::now());
        assert_eq!(control.time_at(now), now);
        assert_eq!(control.wait(Round::Names, now), None);
        let left = control.wait(Round::Names, now + 60 * SECOND);
        assert!(left.is_some_and(|left| left > 50 * SECOND && left <= 60 * SECOND));
    }

    #[test]
    fn a_held_clock_moves_by_commands_only() {
        let (mut control, start) = (Control::NEW, Instant::now());
        control.set(|_| true, Duration::ZERO);
        let held = control.time_at(start);
        assert_eq!(control.time_at(start + 60 * SECOND), held);
        assert!(control.wait(Round::Names, held + SECOND).is_some());
        control.set(|is_held| is_held, SECOND);
        assert_eq!(control.time_at(start + 60 * SECOND), held + SECOND);
        assert_eq!(control.wait(Round::Names, held + SECOND), None);
    }

    #[test]
    fn a_released_clock_goes_on_where_it_stood() {
        let mut control = Control::NEW;
        control.set(|_| true, 5 * SECOND);
        let held = control.time_at(Instant::now());
        control.set(|_| false, Duration::ZERO);
        let later = Instant::now() + SECOND;
        let shown = control.time_at(later);
        assert!(shown > held && shown < held + 60 * SECOND);
        assert_eq!(control.time_at(later + SECOND), shown + SECOND);
    }

    #[test]
    fn a_round_that_began_before_serves_no_command() {
        let (mut control, due) = (Control::NEW, Instant::now() + 60 * SECOND);
        control.rounds_mut(Round::Lists).commands = 1;
        assert_eq!(control.rounds_mut(Round::Lists).served, 0);
        assert_eq!(control.wait(Round::Lists, due), None);
        assert_eq!(control.rounds_mut(Round::Lists).commands_at_start, 1);
        assert!(control.wait(Round::Lists, due).is_some());
    }
}
