//! Vectors, by `POST /api/embed`.

use super::PROTOCOL;
use crate::neutral::Written;
use crate::neutral::embedding::{Embedding, EmbeddingSupport};
use crate::neutral::vectors::Found;
use crate::upstream::openai::other_endpoints::vector_protocol;
use crate::upstream::protocol::Protocol;
use crate::upstream::{ANY_NUMBER, VectorForm};
use crate::wire::json::Writer;

/// Vectors of texts.
pub(super) static EMBEDDINGS: Protocol = Protocol {
    path: |_, _, _, _| "/api/embed".into(),
    ..vector_protocol(PROTOCOL, &FORM)
};

static FORM: VectorForm = VectorForm {
    write: |embedding, model| Ok(write_embedding(embedding, model)),
    max_inputs: |_| ANY_NUMBER,
    places: &[
        (Found::Vector, &["embeddings", "*"]),
        (Found::Tokens, &["prompt_eval_count"]),
    ],
};

/// Writes a request. A text that is too long is refused and not cut, as at other servers.
fn write_embedding(embedding: &Embedding<'_>, model: &str) -> Written {
    let mut w = Writer::default();
    w.object(|w| {
        embedding.write_inputs(model, w);
        w.key("truncate").bool(false);
        w.optional("dimensions", embedding.dimensions, Writer::number);
    });
    embedding.written(w, EmbeddingSupport::default())
}
