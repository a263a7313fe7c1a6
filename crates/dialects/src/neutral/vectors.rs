//! An answer with vectors, and the places of its parts: a table for each format.

use std::borrow::Cow;

use super::AnswerHeader;
use super::event::Tokens;
use super::usage::MAX_TOKENS;
use super::vector::VectorText;
use crate::wire::json::{
    Cursor, Kind, ScanResult, Span, integer_of, name_of, quote_string, span_bytes,
};
use crate::wire::splice::Edits;
use crate::wire::without_bom;

/// The facts of a request's inputs that a front door knows before the request is read whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inputs {
    /// The list of the inputs, if they are one.
    pub list: Option<Span>,
    /// The number of vectors that are asked for.
    pub count: usize,
    /// True if the vectors are asked for in base64.
    pub base64: bool,
    /// True if vectors of different lengths may be asked for.
    pub lengths_differ: bool,
    /// True if the request has a field for the purpose of the vectors.
    pub say_purpose: bool,
}

impl Inputs {
    /// Returns the number of requests with at most so many texts that ask for all vectors.
    pub fn request_count(&self, max_texts: usize) -> usize {
        if self.list.is_some() {
            self.count.div_ceil(max_texts.max(1))
        } else {
            1
        }
    }
}

/// A part of an answer, and its place: the names of the members that lead to it; `*` stands for
/// each element of a list.
pub(crate) type VectorPlace = (Found, &'static [&'static str]);

/// The kind of an answer's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A vector.
    Vector,
    /// The index of a vector among all vectors.
    Index,
    /// Tokens of the inputs. There may be several such numbers.
    Tokens,
    /// The count of all tokens.
    Total,
    /// The model's name.
    Model,
    /// The id of the answer.
    Id,
}

/// The parts of OpenAI's answers.
pub(crate) const OF_OPENAI: &[VectorPlace] = &[
    (Found::Vector, &["data", "*", "embedding"]),
    (Found::Index, &["data", "*", "index"]),
    (Found::Tokens, &["usage", "prompt_tokens"]),
    (Found::Total, &["usage", "total_tokens"]),
    (Found::Model, &["model"]),
    (Found::Id, &["id"]),
];

/// The parts of Gemini's answers.
pub(crate) const OF_GEMINI: &[VectorPlace] = &[
    (Found::Vector, &["embeddings", "*", "values"]),
    (Found::Vector, &["embedding", "values"]),
    (Found::Tokens, &["usageMetadata", "promptTokenCount"]),
];

/// An answer with vectors.
#[derive(Debug, Default)]
pub(crate) struct Vectors<'t> {
    text: &'t [u8],
    vectors: Vec<Span>,
    indexes: Vec<Option<u64>>,
    tokens: Option<u64>,
    total: Option<u64>,
    model: Option<Span>,
    /// The places of impossible counts.
    impossible: Vec<Span>,
    has_id: bool,
}

impl<'t> Vectors<'t> {
    /// Reads an answer.
    pub(crate) fn read(body: &'t [u8], places: &[VectorPlace]) -> Result<Self, &'static str> {
        let text = without_bom(body);
        let mut found = Self {
            text,
            ..Self::default()
        };
        let mut cursor = Cursor::new(text);
        found
            .walk(&mut cursor, places)
            .and_then(|_| cursor.end())
            .map_err(|_| "the answer is no JSON")?;
        if found.vectors.is_empty() {
            return Err("the answer has no vectors");
        }
        found.sort()?;
        Ok(found)
    }

    /// Returns the tokens that were counted in a body, even if it is no answer.
    pub(crate) fn count(body: &'t [u8], places: &[VectorPlace]) -> Tokens {
        let text = without_bom(body);
        let mut found = Self {
            text,
            ..Self::default()
        };
        let _read = found.walk(&mut Cursor::new(text), places);
        found.tokens()
    }

    /// Consumes a value, and takes the parts at these places in it.
    fn walk(&mut self, cursor: &mut Cursor<'t>, places: &[VectorPlace]) -> ScanResult<Span> {
        let text = cursor.text();
        match cursor.kind()? {
            Kind::Object => {
                cursor.object(|cursor, key| self.step(cursor, places, &name_of(text, &key)))
            }
            Kind::Array => cursor.array(|cursor, _| self.step(cursor, places, b"*")),
            Kind::String | Kind::Number | Kind::Bool | Kind::Null => cursor.value(),
        }
    }

    /// Consumes the value behind a name.
    fn step(
        &mut self,
        cursor: &mut Cursor<'t>,
        places: &[VectorPlace],
        name: &[u8],
    ) -> ScanResult<Span> {
        let places: Vec<VectorPlace> = places
            .iter()
            .filter_map(|(found, path)| match path.split_first() {
                Some((first, rest)) if first.as_bytes() == name => Some((*found, rest)),
                Some(_) | None => None,
            })
            .collect();
        match places.iter().find(|(_, rest)| rest.is_empty()) {
            Some((found, _)) => {
                let span = cursor.value()?;
                self.take(*found, span.clone());
                Ok(span)
            }
            None if places.is_empty() => cursor.value(),
            None => self.walk(cursor, &places),
        }
    }

    fn take(&mut self, found: Found, span: Span) {
        let count = || integer_of(self.text, &span);
        if matches!(found, Found::Tokens | Found::Total)
            && count().is_none_or(|count| count > MAX_TOKENS)
        {
            self.impossible.push(span.clone());
        }
        match found {
            Found::Vector => self.vectors.push(span),
            Found::Index => self.indexes.push(count()),
            Found::Tokens => {
                self.tokens = count().map(|count| self.tokens.unwrap_or(0).saturating_add(count))
            }
            Found::Total => self.total = count(),
            Found::Id => self.has_id = true,
            Found::Model => {
                self.model =
                    Some(span).filter(|span| span_bytes(self.text, span).starts_with(b"\""))
            }
        }
    }

    /// Puts the vectors in the order of their indexes, if they have any.
    fn sort(&mut self) -> Result<(), &'static str> {
        if self.indexes.is_empty() {
            return Ok(());
        }
        let mut sorted: Vec<_> = self
            .indexes
            .iter()
            .copied()
            .zip(self.vectors.iter().cloned())
            .collect();
        sorted.sort_by_key(|(index, _)| *index);
        let is_whole = sorted
            .iter()
            .zip(0..)
            .all(|((index, _), number)| *index == Some(number));
        if !is_whole || self.indexes.len() != self.vectors.len() {
            return Err("the numbers of the vectors are not 0, 1, 2 and so on");
        }
        self.vectors = sorted.into_iter().map(|(_, vector)| vector).collect();
        Ok(())
    }

    /// Returns the vectors, in the order of the inputs.
    pub(crate) fn list(&self) -> impl ExactSizeIterator<Item = &'t [u8]> {
        self.vectors.iter().map(|span| span_bytes(self.text, span))
    }

    /// Returns the tokens that were counted.
    pub(crate) fn tokens(&self) -> Tokens {
        let prompt = self.tokens.or(self.total);
        Tokens {
            prompt,
            completion: prompt.map(|_| 0),
            ..Tokens::default()
        }
    }

    /// Returns the answer as it came, with the callers' name for the model, these vectors, and
    /// `prompt` in place of impossible counts. Returns `None` if the vectors came in another order.
    pub(crate) fn passed(
        &self,
        header: &AnswerHeader,
        vectors: &[VectorText<'_>],
        prompt: u64,
    ) -> Option<Vec<u8>> {
        let mut edits = Edits::new(self.text);
        let mut out = Vec::new();
        if let Some(span) = &self.model {
            edits.replace(span.clone(), quote_string(&header.model).into_bytes());
        }
        for span in &self.impossible {
            edits.replace(span.clone(), prompt.to_string().into_bytes());
        }
        // Mistral's clients need an id.
        let open = self
            .text
            .iter()
            .position(|byte| *byte == b'{')
            .filter(|_| !self.has_id && !header.id.is_empty());
        if let Some(open) = open {
            edits.insert_member(
                open,
                format!(r#""id":{}"#, quote_string(&header.id)).into_bytes(),
            );
        }
        for (span, vector) in self.vectors.iter().zip(vectors) {
            if let Cow::Owned(vector) = vector {
                edits.replace(span.clone(), vector.as_slice());
            }
        }
        let is_sorted = self.vectors.is_sorted_by_key(|span| span.start);
        is_sorted.then(|| edits.apply_into(&mut out)).map(|()| out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: &[VectorPlace] = &[
        (Found::Vector, &["data", "*", "v"]),
        (Found::Index, &["data", "*", "i"]),
        (Found::Tokens, &["data", "*", "n"]),
        (Found::Total, &["usage", "all"]),
        (Found::Model, &["model"]),
    ];

    fn read(body: &str) -> Result<(Vec<String>, Option<u64>), &'static str> {
        let found = Vectors::read(body.as_bytes(), PLACES)?;
        let list = found
            .list()
            .map(|vector| String::from_utf8_lossy(vector).into_owned())
            .collect();
        Ok((list, found.tokens().prompt))
    }

    #[test]
    fn what_stands_at_the_places_is_found() {
        let list = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            read(r#"{"data":[{"v":[1]},{"v":"x"}],"v":[9]}"#),
            Ok((list(&["[1]", "\"x\""]), None))
        );
        assert_eq!(
            read(r#"{"data":[{"v":[1],"n":2},{"n":3.0,"v":[2]}]}"#),
            Ok((list(&["[1]", "[2]"]), Some(5)))
        );
        assert_eq!(
            read(r#"{"usage":{"all":7},"data":[{"v":[1]}]}"#),
            Ok((list(&["[1]"]), Some(7)))
        );
        assert_eq!(
            read(r#"{"usage":null,"data":[{"v":[1]}],"model":null}"#),
            Ok((list(&["[1]"]), None))
        );
        assert_eq!(
            read("\u{feff}{\"data\":[{\"v\":[1]}]}"),
            Ok((list(&["[1]"]), None))
        );
    }

    #[test]
    fn vectors_are_sorted_by_number_and_never_guessed() {
        let list = |body: &str| read(body).map(|(list, _)| list.join(" "));
        assert_eq!(
            list(r#"{"data":[{"v":[1],"i":1},{"i":0,"v":[0]}]}"#).as_deref(),
            Ok("[0] [1]")
        );
        for body in [
            r#"{"data":[{"v":[1],"i":0},{"v":[0],"i":0}]}"#,
            r#"{"data":[{"v":[1],"i":1},{"v":[0],"i":2}]}"#,
            r#"{"data":[{"v":[1],"i":0},{"v":[0]}]}"#,
            r#"{"data":[{"v":[1],"i":null},{"v":[0],"i":1}]}"#,
            r#"{"data":[{"v":[1],"i":-1}]}"#,
        ] {
            assert!(list(body).is_err(), "{body}");
        }
    }

    #[test]
    fn what_has_no_vectors_is_no_answer() {
        for body in [
            "",
            "[]",
            "{}",
            "7",
            r#"{"data":[]}"#,
            r#"{"data":{"v":[1]}}"#,
            r#"{"data":[{"v":[1]}]"#,
        ] {
            assert!(read(body).is_err(), "{body}");
        }
    }

    #[test]
    fn passing_answers_keep_all_but_model_and_vectors() {
        let body = r#"{ "model" : "up","data":[{"v":[1], "x":1},{"v":[2]}] }"#;
        let found = Vectors::read(body.as_bytes(), PLACES).unwrap();
        let vectors = [Cow::Borrowed(&b"[1]"[..]), Cow::Owned(b"\"b\"".to_vec())];
        let header = AnswerHeader {
            model: "m".into(),
            ..AnswerHeader::default()
        };
        let passed = found.passed(&header, &vectors, 0).unwrap();
        assert_eq!(
            String::from_utf8(passed).unwrap(),
            r#"{ "model" : "m","data":[{"v":[1], "x":1},{"v":"b"}] }"#
        );
        let odd = Vectors::read(br#"{"data":[{"v":[1],"i":1},{"i":0,"v":[0]}]}"#, PLACES).unwrap();
        assert_eq!(odd.passed(&header, &vectors, 0), None);
    }

    #[test]
    fn impossible_counts_are_corrected_and_get_an_id() {
        let header = AnswerHeader {
            model: "m".into(),
            id: "embd-1".into(),
            ..AnswerHeader::default()
        };
        let vectors = [VectorText::Borrowed(&b"[1]"[..])];
        for (counts, corrected) in [
            (
                r#""prompt_tokens":-5,"total_tokens":1e30"#,
                r#""prompt_tokens":7,"total_tokens":7"#,
            ),
            (
                r#""prompt_tokens":5,"total_tokens":"many""#,
                r#""prompt_tokens":5,"total_tokens":7"#,
            ),
            (
                r#""prompt_tokens":5,"total_tokens":5"#,
                r#""prompt_tokens":5,"total_tokens":5"#,
            ),
        ] {
            let body = |id: &str, counts: &str| {
                format!(r#"{{{id}"data":[{{"embedding":[1]}}],"usage":{{{counts}}}}}"#)
            };
            for (sent, shown) in [
                ("", r#""id":"embd-1","#),
                (r#""id":"theirs","#, r#""id":"theirs","#),
            ] {
                let sent = body(sent, counts);
                let passed = Vectors::read(sent.as_bytes(), OF_OPENAI)
                    .unwrap()
                    .passed(&header, &vectors, 7)
                    .unwrap();
                assert_eq!(String::from_utf8(passed).unwrap(), body(shown, corrected));
            }
        }
    }
}
