//! Vectors, as OpenAI's servers and those that imitate them give them.

use crate::neutral::Written;
use crate::neutral::embedding::{Embedding, EmbeddingSupport};
use crate::neutral::vectors::OF_OPENAI;
use crate::upstream::{ANY_NUMBER, VectorForm};
use crate::wire::json::Writer;

/// Servers have bounds of their own, which are not known before they are met.
pub(super) static FORM: VectorForm = VectorForm {
    write: |embedding, model| Ok(write_embedding(embedding, model)),
    max_inputs: |_| ANY_NUMBER,
    places: OF_OPENAI,
};

/// Writes a request of callers of another format.
fn write_embedding(embedding: &Embedding<'_>, model: &str) -> Written {
    let mut w = Writer::default();
    w.object(|w| {
        embedding.write_inputs(model, w);
        w.optional("dimensions", embedding.dimensions, Writer::number);
    });
    embedding.written(w, EmbeddingSupport::default())
}
