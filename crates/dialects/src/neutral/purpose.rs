//! A purpose is the use of vectors. Some models give other vectors for the question of a search
//! than for the documents that are searched.

use crate::named_enum;

named_enum! {
    /// The purpose of vectors, by our words: Cohere's where Cohere has one.
    pub enum Purpose {
        /// Documents that are searched.
        Document = "search_document",
        /// The question of a search.
        Query = "search_query",
        /// Sorting into classes.
        Classification = "classification",
        /// Finding groups.
        Clustering = "clustering",
        /// Comparing how similar two texts are.
        Similarity = "semantic_similarity",
        /// A question whose answer is searched.
        Question = "question_answering",
        /// A statement whose evidence is searched.
        Fact = "fact_verification",
        /// A question whose answer is code.
        Code = "code_retrieval_query",
    }
}

/// The words of other servers for two purposes.
const SAME: [(&str, Purpose); 3] = [
    ("document", Purpose::Document),
    ("passage", Purpose::Document),
    ("query", Purpose::Query),
];

impl Purpose {
    /// Finds a purpose by one of its words.
    pub fn find(word: &str) -> Option<Purpose> {
        Purpose::and_word(word).map(|(purpose, _)| purpose)
    }

    /// Finds a purpose by one of its words, and keeps the word.
    pub fn and_word(word: &str) -> Option<(Purpose, &'static str)> {
        let all = Purpose::ALL.into_iter();
        let own = all.flat_map(|purpose| [(purpose.name(), purpose), (purpose.googles(), purpose)]);
        own.chain(SAME)
            .find(|(name, _)| *name == word)
            .map(|(name, purpose)| (purpose, name))
    }

    /// Returns Google's word.
    pub(crate) fn googles(self) -> &'static str {
        match self {
            Purpose::Document => "RETRIEVAL_DOCUMENT",
            Purpose::Query => "RETRIEVAL_QUERY",
            Purpose::Classification => "CLASSIFICATION",
            Purpose::Clustering => "CLUSTERING",
            Purpose::Similarity => "SEMANTIC_SIMILARITY",
            Purpose::Question => "QUESTION_ANSWERING",
            Purpose::Fact => "FACT_VERIFICATION",
            Purpose::Code => "CODE_RETRIEVAL_QUERY",
        }
    }
}

/// Returns whether a model is known to give vectors, by its name.
pub fn gives_vectors(model: &str) -> bool {
    model.to_ascii_lowercase().contains("embed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_is_found_by_each_of_its_words() {
        for purpose in Purpose::ALL {
            let (own, googles) = (purpose.name(), purpose.googles());
            assert_eq!(
                (Purpose::find(own), Purpose::find(googles)),
                (Some(purpose), Some(purpose))
            );
            assert_eq!((purpose.name(), purpose.googles()), (own, googles));
            assert_eq!(Purpose::and_word(googles), Some((purpose, googles)));
        }
        assert_eq!(
            Purpose::and_word("passage"),
            Some((Purpose::Document, "passage"))
        );
        assert_eq!(Purpose::find("query"), Some(Purpose::Query));
        for word in ["", "Query", "image", "TASK_TYPE_UNSPECIFIED"] {
            assert_eq!(Purpose::find(word), None, "{word}");
        }
    }

    #[test]
    fn models_are_known_by_their_names() {
        for model in [
            "text-embedding-3-small",
            "embed-v4.0",
            "amazon.titan-embed-text-v2:0",
            "EmbeddingGemma",
        ] {
            assert!(gives_vectors(model), "{model}");
        }
        assert!(!gives_vectors("gpt-5") && !gives_vectors("bge-m3"));
    }
}
