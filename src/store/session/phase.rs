//! A [`Phase`] says how far this gateway and the store know each other over one connection.
//!
//! Greeting ends with the first answer. Then the phase is Joining until all gateways have sent
//! their counts, or had the time to, and Deciding after that. If the store turns out to be empty,
//! Deciding becomes Joining again. A single gateway is never Joining. A lost connection ends the
//! session; the next one begins with Greeting.

use crate::status::StoreState;

/// The phases of a session.
pub(super) enum Phase {
    /// The store has not answered yet.
    Greeting,
    /// Not all gateways have sent their counts. Each gateway uses its share of each limit.
    Joining(BeatState),
    /// All gateways have sent their counts since the store was empty, or had the time to. The store
    /// decides.
    Deciding(BeatState),
}

/// The state since the first beat: what the store's last beat said, and what this gateway's next
/// beat reports.
pub(super) struct BeatState {
    /// The name of the time since the store was last empty. Another word means that the store was
    /// emptied meanwhile.
    pub(super) word: String,
    /// The gateways that live.
    pub(super) live_gateways: Vec<String>,
    pub(super) report: Report,
}

/// The report of this gateway's next beat.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// Nothing yet: some scopes are still to be sent.
    Sending,
    /// The store has lost what it was sent: all gateways are to send it again.
    Lost,
    /// Nothing new: a beat has already said that all scopes are sent.
    Complete,
}

impl Phase {
    pub(super) fn beat_state(&self) -> Option<&BeatState> {
        match self {
            Phase::Greeting => None,
            Phase::Joining(beat) | Phase::Deciding(beat) => Some(beat),
        }
    }

    fn report(&mut self) -> Option<&mut Report> {
        match self {
            Phase::Greeting => None,
            Phase::Joining(beat) | Phase::Deciding(beat) => Some(&mut beat.report),
        }
    }

    /// Lists the gateways that live.
    pub(super) fn live_gateways(&self) -> &[String] {
        self.beat_state().map_or(&[], |beat| &beat.live_gateways)
    }

    /// Returns whether a beat has said that all scopes are sent.
    pub(super) fn is_complete(&self) -> bool {
        self.beat_state()
            .is_some_and(|beat| beat.report == Report::Complete)
    }

    /// Returns the state in which requests see the store, as far as the phase decides it.
    pub(super) fn state(&self) -> StoreState {
        match self {
            Phase::Greeting => StoreState::Down,
            Phase::Joining(_) => StoreState::Joining,
            Phase::Deciding(_) => StoreState::Up,
        }
    }

    /// Notes that a new epoch has begun, so that scopes are to be sent again.
    pub(super) fn note_epoch(&mut self) {
        if let Some(report @ Report::Complete) = self.report() {
            *report = Report::Sending;
        }
    }

    /// Notes that the store has lost what it was sent.
    pub(super) fn lose(&mut self) {
        if let Some(report) = self.report() {
            *report = Report::Lost;
        }
    }

    /// Returns whether the next beat has to say that the store has lost what it was sent. Notes
    /// what the beat says.
    pub(super) fn report_beat(&mut self, are_all_sent: bool) -> bool {
        let report = if are_all_sent {
            Report::Complete
        } else {
            Report::Sending
        };
        self.report()
            .is_some_and(|before| std::mem::replace(before, report) == Report::Lost)
    }
}
