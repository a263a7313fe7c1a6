//! The parts that several dialects share.

pub(crate) mod citations;
pub(crate) mod flat;
pub mod lenient;
pub(crate) mod names;
pub(crate) mod options;
pub(crate) mod repeat;
pub mod text;
pub(crate) mod unique;
