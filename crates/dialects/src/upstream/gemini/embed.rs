//! Vectors, by `embedContent` and its kin. The Gemini API takes many texts at once. Vertex AI takes
//! them by `predict`; its newest models take one text at a time, by `embedContent`.

use super::{PROTOCOL, of_model};
use crate::neutral::Written;
use crate::neutral::embedding::{Embedding, EmbeddingSupport, Input};
use crate::neutral::vectors::{Found, OF_GEMINI};
use crate::upstream::VectorForm;
use crate::upstream::openai::other_endpoints::passing_vector_protocol;
use crate::upstream::protocol::{ENDPOINTS, Endpoints, Protocol};
use crate::wire::json::Writer;

/// The Gemini API, asked for many vectors at once.
pub(super) static BATCH: Protocol = Protocol {
    path: |_, _, model, _| of_model(model, ":batchEmbedContents").into(),
    endpoints: Endpoints {
        other_protocol: |_, _| Some(&ONE),
        ..ENDPOINTS
    },
    ..passing_vector_protocol(PROTOCOL, &FORM, "batch_embed_contents")
};

/// The Gemini API, asked for one vector, as only callers of this method ask it.
static ONE: Protocol = Protocol {
    path: |_, _, model, _| of_model(model, ":embedContent").into(),
    ..passing_vector_protocol(PROTOCOL, &FORM, "embed_content")
};

static FORM: VectorForm = VectorForm {
    write: |embedding, model| Ok(write_embedding(embedding, model)),
    max_inputs: |_| 100,
    places: OF_GEMINI,
};

pub(super) static VERTEX_FORM: VectorForm = VectorForm {
    write: |embedding, model| {
        Ok(if reads_purpose(model) {
            write_one(embedding)
        } else {
            write_prediction(embedding)
        })
    },
    // Newer models than the first ones take one text.
    max_inputs: |model| if model.contains("gemini") { 1 } else { 250 },
    places: &[
        (Found::Vector, &["predictions", "*", "embeddings", "values"]),
        (
            Found::Tokens,
            &[
                "predictions",
                "*",
                "embeddings",
                "statistics",
                "token_count",
            ],
        ),
        (Found::Vector, &["embedding", "values"]),
        (Found::Tokens, &["usageMetadata", "promptTokenCount"]),
    ],
};

/// Returns whether a model expects the purpose of a vector in the text itself. It takes no field
/// for the purpose and no title, and Vertex AI has it only by `embedContent`.
pub(super) fn reads_purpose(model: &str) -> bool {
    model.contains("gemini-embedding-2")
}

fn write_embedding(embedding: &Embedding<'_>, model: &str) -> Written {
    let name = format!("models/{}", model.strip_prefix("models/").unwrap_or(model));
    let says_purpose = !reads_purpose(model);
    let support = EmbeddingSupport {
        purpose: says_purpose,
        titles: says_purpose,
    };
    let mut w = Writer::default();
    w.object(|w| {
        w.key("requests").each(&embedding.inputs, |w, input| {
            w.object(|w| {
                w.key("model").text(&name);
                write_content(w, input);
                let purpose = embedding.purpose().filter(|_| support.purpose);
                w.optional("taskType", purpose, |w, purpose| w.text(purpose.googles()));
                w.optional(
                    "title",
                    input.title.as_deref().filter(|_| support.titles),
                    Writer::text,
                );
                w.optional("outputDimensionality", embedding.dimensions, Writer::number);
            });
        });
    });
    embedding.written(w, support)
}

fn write_content(w: &mut Writer, input: &Input<'_>) {
    w.key("content").object(|w| {
        w.key("parts").each([&input.text], |w, text| {
            w.object(|w| w.texts([("text", text)]))
        })
    });
}

fn write_one(embedding: &Embedding<'_>) -> Written {
    let mut w = Writer::default();
    w.object(|w| {
        embedding
            .inputs
            .iter()
            .for_each(|input| write_content(w, input));
        w.key("embedContentConfig").object(|w| {
            w.optional("outputDimensionality", embedding.dimensions, Writer::number);
            w.key("autoTruncate").bool(false);
        });
    });
    embedding.written(w, EmbeddingSupport::default())
}

fn write_prediction(embedding: &Embedding<'_>) -> Written {
    let mut w = Writer::default();
    w.object(|w| {
        w.key("instances").each(&embedding.inputs, |w, input| {
            w.object(|w| {
                w.key("content").text(&input.text);
                w.optional("task_type", embedding.purpose(), |w, purpose| {
                    w.text(purpose.googles())
                });
                w.optional("title", input.title.as_deref(), Writer::text);
            });
        });
        w.key("parameters").object(|w| {
            w.optional("outputDimensionality", embedding.dimensions, Writer::number);
            w.key("autoTruncate").bool(false);
        });
    });
    embedding.written(
        w,
        EmbeddingSupport {
            purpose: true,
            titles: true,
        },
    )
}
