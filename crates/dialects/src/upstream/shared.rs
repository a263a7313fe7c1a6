//! What several dialects have in common.

pub(crate) mod flat;
pub mod lenient;
