//! Vectors, by `POST /v2/embed`. Bedrock takes this form too; there the path names the
//! model.

use super::PROTOCOL;
use crate::neutral::embedding::{Embedding, EmbeddingSupport};
use crate::neutral::purpose::Purpose;
use crate::neutral::vectors::Found;
use crate::neutral::{FieldRefused, Written};
use crate::upstream::VectorForm;
use crate::upstream::openai::other_endpoints::vector_protocol;
use crate::upstream::protocol::Protocol;
use crate::wire::json::Writer;

/// Vectors of texts.
pub(super) static EMBEDDINGS: Protocol = Protocol {
    path: |_, _, _, _| "/embed".into(),
    ..vector_protocol(PROTOCOL, &FORM)
};

static FORM: VectorForm = VectorForm {
    write: |embedding, model| write_embedding(embedding, model, true),
    max_inputs: |_| MAX_TEXTS,
    places: &[
        (Found::Vector, &["embeddings", "float", "*"]),
        (Found::Tokens, &["meta", "billed_units", "input_tokens"]),
    ],
};

/// The most texts of a request.
pub(crate) const MAX_TEXTS: usize = 96;

/// Writes a request. A text that is too long is refused and not cut, as at other servers.
pub(crate) fn write_embedding(
    embedding: &Embedding<'_>,
    model: &str,
    names_model: bool,
) -> Result<Written, FieldRefused> {
    if embedding.dimensions.is_some() && model.contains("-v3") {
        return Err(Embedding::dimensions_refused());
    }
    let purpose = embedding.purpose().unwrap_or(Purpose::Document);
    let nearest = match purpose {
        Purpose::Document | Purpose::Query | Purpose::Classification | Purpose::Clustering => {
            purpose
        }
        Purpose::Question | Purpose::Fact | Purpose::Code => Purpose::Query,
        Purpose::Similarity => Purpose::Document,
    };
    let mut w = Writer::default();
    w.object(|w| {
        if names_model {
            w.key("model").text(model);
        }
        w.key("texts")
            .each(&embedding.inputs, |w, input| w.text(&input.text));
        w.key("input_type").text(nearest.name());
        w.key("embedding_types").each(["float"], Writer::text);
        w.optional("output_dimension", embedding.dimensions, Writer::number);
        w.key("truncate").text("NONE");
    });
    Ok(embedding.written(
        w,
        EmbeddingSupport {
            purpose: nearest == purpose,
            titles: false,
        },
    ))
}
