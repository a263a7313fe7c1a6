//! A price says what the tokens of a target cost. This module has the list of prices that comes
//! with Portcullis, and the origin of a price.

use dialects::named_enum;

pub mod costs;
pub mod list;

pub use dialects::price::{Each, LongPrices, Million, Price, Rates, ShowCost, Usd};

named_enum! {
    /// The origin of a price.
    pub enum Origin {
        /// It is written at the target.
        Target = "target",
        /// It is written at the model.
        Model = "model",
        /// The list that comes with Portcullis.
        List = "list",
        /// A demo account costs nothing.
        Demo = "demo",
    }
}
