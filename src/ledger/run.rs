//! A [`Run`] is the place of an exchange among those that run.

/// The place of an exchange among those that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub(super) place: usize,
    /// The file has the exchange under this number. No two of a process have the same.
    pub(super) number: u64,
}
