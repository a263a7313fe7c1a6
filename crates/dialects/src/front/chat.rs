//! OpenAI's chat completions, as callers speak them.

pub mod envelope;
pub mod fields;
mod media;
pub mod read;
pub mod references;
pub mod write;
