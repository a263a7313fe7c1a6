//! What the catalog's models cost: the list that Portcullis brings, and where a price is from.

pub mod list;

pub use dialects::price::{Long, Million, Price, ShowCost, Usd};

/// Where a price is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It is written beside the target.
    Target,
    /// It is written beside the model.
    Model,
    /// The list that Portcullis brings.
    List,
    /// A demo account costs nothing.
    Demo,
}

impl Origin {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Model => "model",
            Self::List => "list",
            Self::Demo => "demo",
        }
    }
}
