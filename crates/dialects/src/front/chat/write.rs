//! [`Event`](crate::neutral::Event)s → the standard answer, as the chunks of a stream
//! ([`Chunks`]) or whole ([`Whole`]).
//!
//! Both are the writer of a [`Draft`](crate::neutral::answer), so that they say the same and cost
//! the same.

mod chunks;
mod whole;
mod words;

pub(crate) use chunks::Chunks;
pub(crate) use whole::Whole;

#[cfg(test)]
pub(crate) mod tests;
