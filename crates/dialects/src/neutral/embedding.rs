//! A request for vectors in the neutral form. A vector stands for a text: texts that mean similar
//! things have vectors that are close to each other.

use std::borrow::Cow;

use super::field::Field;
use super::losses::LostFields;
use super::purpose::Purpose;
use super::refused::FieldRefused;
use super::target::{Undo, Written};
use crate::wire::json::Writer;

/// A request for the vectors of some texts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Embedding<'a> {
    /// The texts, in the order in which their vectors come back.
    pub inputs: Vec<Input<'a>>,
    /// The number of dimensions of each vector.
    pub dimensions: Option<u64>,
    /// The purpose of the vectors, if the caller names one.
    pub purpose: Option<Purpose>,
    /// The purpose of the vectors if the caller names none.
    pub default_purpose: Option<Purpose>,
    /// The names of other fields, which no dialect has.
    pub others: Vec<Cow<'a, str>>,
}

/// A text that becomes a vector.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Input<'a> {
    /// The text.
    pub text: Cow<'a, str>,
    /// The title of the document that the text is from.
    pub title: Option<Cow<'a, str>>,
}

impl Embedding<'_> {
    /// Returns the purpose of the vectors.
    pub(crate) fn purpose(&self) -> Option<Purpose> {
        self.purpose.or(self.default_purpose)
    }

    /// Returns the fields that a dialect with this support loses.
    fn lost(&self, has: EmbeddingSupport) -> LostFields {
        let mut losses = LostFields::default();
        losses.add_if(
            !has.purpose && self.purpose.is_some(),
            Embedding::purpose_field(),
        );
        losses.add_if(
            !has.titles && self.inputs.iter().any(|input| input.title.is_some()),
            Field::other("title"),
        );
        self.others
            .iter()
            .for_each(|name| losses.add(Field::other(name)));
        losses
    }

    /// Returns a request with this body, from a dialect with this support.
    pub(crate) fn written(&self, body: Writer, support: EmbeddingSupport) -> Written {
        Written::new(body, self.lost(support), Undo::default())
    }

    /// Writes the model and the texts, as OpenAI has them.
    pub(crate) fn write_inputs(&self, model: &str, w: &mut Writer) {
        w.key("model").text(model);
        w.key("input")
            .each(&self.inputs, |w, input| w.text(&input.text));
    }

    /// Returns the field of the texts.
    pub(crate) fn input_field() -> Field {
        Field::other("input")
    }

    /// Returns the refusal of dimensions by a model that has one number of them.
    pub(crate) fn dimensions_refused() -> FieldRefused {
        let why = "This model has one number of dimensions.";
        FieldRefused::unsupported(Field::other("dimensions"), why)
    }

    /// Returns the field of the purpose.
    pub(crate) fn purpose_field() -> Field {
        Field::other("input_type")
    }
}

/// The facts of a request for vectors that a dialect supports.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EmbeddingSupport {
    /// The purpose of the vectors.
    pub(crate) purpose: bool,
    /// The titles of documents.
    pub(crate) titles: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_caller_said_is_lost() {
        let names = |embedding: &Embedding<'_>, has| {
            embedding
                .lost(has)
                .with_names(|field| format!("{field:?}").into())
                .names()
                .join(" ")
        };
        let said = Embedding {
            inputs: vec![Input {
                title: Some("t".into()),
                ..Input::default()
            }],
            purpose: Some(Purpose::Query),
            others: vec!["user".into()],
            ..Embedding::default()
        };
        assert_eq!(
            names(&said, EmbeddingSupport::default()),
            r#"Other("input_type") Other("title") Other("user")"#
        );
        assert_eq!(
            names(
                &said,
                EmbeddingSupport {
                    purpose: true,
                    titles: true
                }
            ),
            r#"Other("user")"#
        );
        let usual = Embedding {
            default_purpose: Some(Purpose::Query),
            ..Embedding::default()
        };
        assert_eq!(
            (names(&usual, EmbeddingSupport::default()), usual.purpose()),
            (String::new(), Some(Purpose::Query))
        );
    }
}
