//! A purpose is the use of vectors. Some models give other vectors for the question of a search
//! than for the documents that are searched.

/// The purpose of vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Documents that are searched.
    Document,
    /// The question of a search.
    Query,
    /// Sorting into classes.
    Classification,
    /// Finding groups.
    Clustering,
    /// Comparing how similar two texts are.
    Similarity,
    /// A question whose answer is searched.
    Question,
    /// A statement whose evidence is searched.
    Fact,
    /// A question whose answer is code.
    Code,
}

/// The purposes: our word for each, which is Cohere's where Cohere has one, and Google's word.
const WORDS: [(Purpose, &str, &str); 8] = [
    (Purpose::Document, "search_document", "RETRIEVAL_DOCUMENT"),
    (Purpose::Query, "search_query", "RETRIEVAL_QUERY"),
    (Purpose::Classification, "classification", "CLASSIFICATION"),
    (Purpose::Clustering, "clustering", "CLUSTERING"),
    (
        Purpose::Similarity,
        "semantic_similarity",
        "SEMANTIC_SIMILARITY",
    ),
    (
        Purpose::Question,
        "question_answering",
        "QUESTION_ANSWERING",
    ),
    (Purpose::Fact, "fact_verification", "FACT_VERIFICATION"),
    (
        Purpose::Code,
        "code_retrieval_query",
        "CODE_RETRIEVAL_QUERY",
    ),
];

/// The words of other servers for two purposes.
const SAME: [(&str, Purpose); 3] = [
    ("document", Purpose::Document),
    ("passage", Purpose::Document),
    ("query", Purpose::Query),
];

impl Purpose {
    /// Our words.
    pub const NAMES: [&'static str; 8] = {
        let [a, b, c, d, e, f, g, h] = WORDS;
        [a.1, b.1, c.1, d.1, e.1, f.1, g.1, h.1]
    };

    /// Finds a purpose by one of its words.
    pub fn find(word: &str) -> Option<Purpose> {
        Purpose::and_word(word).map(|(purpose, _)| purpose)
    }

    /// Finds a purpose by one of its words, and keeps the word.
    pub fn and_word(word: &str) -> Option<(Purpose, &'static str)> {
        let own = WORDS
            .into_iter()
            .flat_map(|(purpose, own, googles)| [(own, purpose), (googles, purpose)]);
        own.chain(SAME)
            .find(|(name, _)| *name == word)
            .map(|(name, purpose)| (purpose, name))
    }

    /// Returns our word.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns Google's word.
    pub(crate) fn googles(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> (Purpose, &'static str, &'static str) {
        WORDS
            .into_iter()
            .find(|(purpose, ..)| *purpose == self)
            .unwrap_or((self, "", ""))
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
        for (purpose, own, googles) in WORDS {
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
