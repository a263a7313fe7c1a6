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
    Joining(Heard),
    /// All gateways have sent their counts since the store was empty, or had the time to. The store
    /// decides.
    Deciding(Heard),
}

/// The state since the first beat: what the store's last beat said, and what this gateway's next
/// beat reports.
pub(super) struct Heard {
    /// The name of the time since the store was last empty. Another word means that the store was
    /// emptied meanwhile.
    pub(super) word: String,
    /// The gateways that live.
    pub(super) live: Vec<String>,
    pub(super) report: Report,
}

/// The report of this gateway's next beat.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// Nothing yet: some scopes are still to be sent.
    Telling,
    /// The store has lost what it was sent: all gateways are to send it again.
    Lost,
    /// Nothing new: a beat has already said that all scopes are sent.
    Complete,
}

impl Phase {
    pub(super) fn heard(&self) -> Option<&Heard> {
        match self {
            Phase::Greeting => None,
            Phase::Joining(heard) | Phase::Deciding(heard) => Some(heard),
        }
    }

    fn report(&mut self) -> Option<&mut Report> {
        match self {
            Phase::Greeting => None,
            Phase::Joining(heard) | Phase::Deciding(heard) => Some(&mut heard.report),
        }
    }

    /// Lists the gateways that live.
    pub(super) fn live(&self) -> &[String] {
        self.heard().map_or(&[], |heard| &heard.live)
    }

    /// Returns whether a beat has said that all scopes are sent.
    pub(super) fn is_complete(&self) -> bool {
        self.heard()
            .is_some_and(|heard| heard.report == Report::Complete)
    }

    /// Returns the state in which requests see the store, as far as the phase decides it.
    pub(super) fn state(&self) -> StoreState {
        match self {
            Phase::Greeting => StoreState::Down,
            Phase::Joining(_) => StoreState::Joining,
            Phase::Deciding(_) => StoreState::Up,
        }
    }

    /// Notes that scopes are to be sent again.
    pub(super) fn begin_epoch(&mut self) {
        if let Some(report @ Report::Complete) = self.report() {
            *report = Report::Telling;
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
    pub(super) fn report_beat(&mut self, is_all_told: bool) -> bool {
        let report = if is_all_told {
            Report::Complete
        } else {
            Report::Telling
        };
        self.report()
            .is_some_and(|before| std::mem::replace(before, report) == Report::Lost)
    }
}
