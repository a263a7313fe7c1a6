//! The uses of models, as far as they are known.

use crate::named_enum;

named_enum! {
    /// What a model is for.
    #[schemars(rename = "MadeFor")]
    pub enum ModelKind: serde::Deserialize, schemars::JsonSchema {
        /// It holds conversations.
        Chat = "chat",
        /// It continues texts.
        Completion = "completion",
        /// It makes vectors of texts.
        Embedding = "embedding",
        /// It makes or changes pictures.
        Image = "image",
        /// It judges whether a text is harmful.
        Moderation = "moderation",
        /// It puts documents in order.
        Rerank = "rerank",
        /// It speaks texts.
        Speech = "speech",
        /// It writes down speech.
        Transcription = "transcription",
    }
}

/// The beginnings of models' names that tell their use. Models of one family may have several uses,
/// so a longer beginning stands before a shorter one.
const KNOWN: [(&str, ModelKind); 27] = [
    ("amazon.titan-embed-text", ModelKind::Embedding),
    ("babbage-002", ModelKind::Completion),
    ("bge-", ModelKind::Embedding),
    ("codestral-embed", ModelKind::Embedding),
    ("cohere.embed-", ModelKind::Embedding),
    ("cohere.rerank-", ModelKind::Rerank),
    ("dall-e-", ModelKind::Image),
    ("davinci-002", ModelKind::Completion),
    ("embed-english-", ModelKind::Embedding),
    ("embed-multilingual-", ModelKind::Embedding),
    ("embed-v4", ModelKind::Embedding),
    ("gemini-embedding-", ModelKind::Embedding),
    ("gpt-3.5-turbo-instruct", ModelKind::Completion),
    ("gpt-4o-mini-transcribe", ModelKind::Transcription),
    ("gpt-4o-mini-tts", ModelKind::Speech),
    ("gpt-4o-transcribe", ModelKind::Transcription),
    ("gpt-image-", ModelKind::Image),
    ("mistral-embed", ModelKind::Embedding),
    ("mxbai-embed-", ModelKind::Embedding),
    ("nomic-embed-text", ModelKind::Embedding),
    ("omni-moderation-", ModelKind::Moderation),
    ("rerank-", ModelKind::Rerank),
    ("text-embedding-", ModelKind::Embedding),
    ("text-moderation-", ModelKind::Moderation),
    ("text-multilingual-embedding-", ModelKind::Embedding),
    ("tts-1", ModelKind::Speech),
    ("whisper-", ModelKind::Transcription),
];

impl ModelKind {
    /// Returns the use of a model with a well-known name, if it is not for conversations.
    pub fn of_name(model: &str) -> Option<Self> {
        let name = model.rsplit('/').next().unwrap_or(model);
        KNOWN
            .iter()
            .find(|(begin, _)| name.starts_with(begin))
            .map(|(_, kind)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_names_say_what_they_are_for() {
        for (model, kind) in [
            ("text-embedding-3-small", Some(ModelKind::Embedding)),
            ("openai/whisper-large-v3", Some(ModelKind::Transcription)),
            ("gpt-4o-mini-tts", Some(ModelKind::Speech)),
            ("gpt-4o-mini", None),
            ("my-text-embedding-3", None),
            ("", None),
        ] {
            assert_eq!(ModelKind::of_name(model), kind, "{model}");
        }
    }
}
