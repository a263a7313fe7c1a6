//! [`Event`](crate::neutral::Event)s → the standard answer, as the chunks of a stream
//! ([`ChunksWriter`]) or whole ([`WholeWriter`]).
//!
//! Both are the writer of a [`Draft`](crate::neutral::answer), so that both write the same answer
//! at the same cost.

mod chunks;
mod whole;
mod words;

pub(crate) use chunks::ChunksWriter;
pub(crate) use whole::WholeWriter;

#[cfg(test)]
pub(crate) mod tests;
