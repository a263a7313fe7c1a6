//! The lists of models in each format. Several formats share a path: the headers and the query
//! decide which format is asked for.

use crate::neutral::ModelKind;
use crate::wire::json::Writer;

/// The models that a path asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelsAsked {
    /// All models.
    List,
    /// The model with this id.
    One(String),
}

/// Returns whether a request has a header.
pub type HasHeader<'r> = dyn Fn(&str) -> bool + 'r;

/// A format's lists of models.
#[derive(Clone, Copy)]
pub struct ModelLists {
    /// Reads which models a path asks for. `None` if it asks for none.
    pub route: fn(&str) -> Option<ModelsAsked>,
    /// Returns whether the headers or the query ask for this format, where the path does not decide
    /// it.
    pub is_wanted: fn(&HasHeader<'_>, Option<&str>) -> bool,
    /// Writes one model.
    pub(crate) one: fn(&mut Writer, &ListedModel<'_>),
    /// Writes all models, on one page.
    pub(crate) all: fn(&mut Writer, &[ListedModel<'_>]),
}

impl ModelLists {
    /// Returns one model.
    pub fn show_one(&self, model: &ListedModel<'_>) -> Vec<u8> {
        let mut w = Writer::default();
        (self.one)(&mut w, model);
        w.into_bytes()
    }

    /// Returns all models, on one page.
    pub fn show_all(&self, models: &[ListedModel<'_>]) -> Vec<u8> {
        let mut w = Writer::default();
        (self.all)(&mut w, models);
        w.into_bytes()
    }
}

/// A model in a list. A value is `None` if it is not known of every account that serves the model.
#[derive(Debug, Clone)]
pub struct ListedModel<'m> {
    /// The id or the alias.
    pub id: &'m str,
    /// The time of its creation, in Unix seconds.
    pub created: u64,
    /// The time of its creation, in the form of RFC 3339.
    pub created_at: &'m str,
    /// The owner.
    pub owned_by: &'m str,
    /// The most tokens that a conversation may have.
    pub context: Option<u64>,
    /// The most tokens that an answer may have.
    pub max_output: Option<u64>,
    /// Whether it thinks before it answers.
    pub thinks: Option<bool>,
    /// The uses of the model; empty if they are not known.
    pub kinds: Vec<ModelKind>,
}
