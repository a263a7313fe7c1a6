//! A price says what the tokens of a target cost. This module has the list of prices that comes
//! with Portcullis, and the origin of a price.

pub mod costs;
pub mod list;

pub use dialects::price::{Each, LongPrices, Million, Price, Rates, ShowCost, Usd};

/// The origin of a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It is written at the target.
    Target,
    /// It is written at the model.
    Model,
    /// The list that comes with Portcullis.
    List,
    /// A demo account costs nothing.
    Demo,
}

impl Origin {
    /// Returns the word for this origin.
    pub fn name(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Model => "model",
            Self::List => "list",
            Self::Demo => "demo",
        }
    }
}
