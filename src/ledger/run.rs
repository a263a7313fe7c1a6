//! A [`Run`] is the place of an exchange in the list of running ones.

/// The place of an exchange in the list of running ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub(super) slot: usize,
    /// The number of the exchange in the file. No two exchanges of a process have the same.
    pub(super) number: u64,
}
