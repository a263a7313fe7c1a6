//! [`Event`](crate::neutral::Event)s → the standard answer, as the chunks of a stream
//! ([`Chunks`]) or whole ([`Whole`]).
//!
//! Both follow the events by the same [`AnswerProgress`](crate::neutral::answer), so that they say
//! the same and cost the same.

mod chunks;
mod whole;
mod words;

pub use chunks::Chunks;
pub use whole::Whole;

#[cfg(test)]
pub(crate) mod tests;
