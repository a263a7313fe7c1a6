//! Vectors, by `invoke`. Each maker has a form of its own there: Amazon's models take one text at a
//! time.

use super::PROTOCOL;
use crate::neutral::embedding::{Embedding, EmbeddingSupport};
use crate::neutral::vectors::Found;
use crate::neutral::{FieldRefused, Written};
use crate::upstream::VectorForm;
use crate::upstream::cohere;
use crate::upstream::openai::other_endpoints::vector_protocol;
use crate::upstream::protocol::Protocol;
use crate::wire::json::Writer;
use crate::wire::percent::encode_segment;

/// Vectors of texts.
pub(super) static EMBEDDINGS: Protocol = Protocol {
    path: |_, _, model, _| format!("/model/{}/invoke", encode_segment(model)).into(),
    ..vector_protocol(PROTOCOL, &FORM)
};

static FORM: VectorForm = VectorForm {
    write: |embedding, model| match model {
        model if is_coheres(model) => cohere::embed::write_embedding(embedding, model, false),
        model if model.contains("amazon.titan-embed-text") => write_titan(embedding, model),
        _ => {
            let why = "This account can ask only Titan's and Cohere's models for vectors, by names that say which it is.";
            Err(FieldRefused::unsupported(Embedding::input_field(), why))
        }
    },
    max_inputs: |model| {
        if is_coheres(model) {
            cohere::embed::MAX_TEXTS
        } else {
            1
        }
    },
    places: &[
        (Found::Vector, &["embedding"]),
        (Found::Vector, &["embeddings", "float", "*"]),
        (Found::Tokens, &["inputTextTokenCount"]),
    ],
};

fn is_coheres(model: &str) -> bool {
    model.contains("cohere.embed")
}

/// Writes a request for one of Amazon's models. The first model knows only the text.
fn write_titan(embedding: &Embedding<'_>, model: &str) -> Result<Written, FieldRefused> {
    if embedding.dimensions.is_some() && !model.contains("-v2") {
        return Err(Embedding::dimensions_refused());
    }
    let mut w = Writer::default();
    w.object(|w| {
        embedding
            .inputs
            .iter()
            .for_each(|input| w.key("inputText").text(&input.text));
        w.optional("dimensions", embedding.dimensions, Writer::number);
    });
    Ok(embedding.written(w, EmbeddingSupport::default()))
}
