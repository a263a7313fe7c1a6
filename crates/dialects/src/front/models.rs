//! Lists of models, as each format shows them. Several formats share a path: what a request says
//! besides decides which format it is.

use crate::neutral::ModelKind;

/// What is asked of the models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelsAsked {
    /// All of them.
    List,
    /// The one with this id.
    One(String),
}

/// Says whether a request has a header.
pub type HasHeader<'r> = dyn Fn(&str) -> bool + 'r;

/// How a format lists models.
#[derive(Clone, Copy)]
pub struct ModelLists {
    /// Returns what a path of the format asks for, or `None` if it asks for no models.
    pub route: fn(&str) -> Option<ModelsAsked>,
    /// Returns whether a client of the format asks, where the path does not say it; the text is the
    /// query.
    pub is_wanted: fn(&HasHeader<'_>, Option<&str>) -> bool,
    /// Writes one model.
    pub one: fn(&ListedModel<'_>) -> Vec<u8>,
    /// Writes all models, on one page.
    pub all: fn(&[ListedModel<'_>]) -> Vec<u8>,
}

/// A model as lists show it. What is not known of every account that serves it, is `None`.
#[derive(Debug, Clone)]
pub struct ListedModel<'m> {
    /// The id or the alias.
    pub id: &'m str,
    /// The time of its creation, in Unix seconds.
    pub created: u64,
    /// The same time as RFC 3339 has it.
    pub created_at: &'m str,
    /// Who owns it.
    pub owned_by: &'m str,
    /// The most tokens that a conversation may have.
    pub context: Option<u64>,
    /// The most tokens that an answer may have.
    pub max_output: Option<u64>,
    /// Whether it thinks before it answers.
    pub thinks: Option<bool>,
    /// What it is for; empty if that is not known.
    pub kinds: Vec<ModelKind>,
}
