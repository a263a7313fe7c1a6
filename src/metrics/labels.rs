//! Labels tell the series of one metric from each other. The labels that every exchange looks up
//! are structs, so that the names of their fields need not be hashed. The others are lists of names
//! and values.

use prometheus_client::encoding::EncodeLabelSet;
use std::sync::Arc;

/// A name from the catalog, or nothing.
pub(crate) type Name = Option<Arc<str>>;

/// Labels whose values are names from the catalog.
pub(crate) type NameLabels<const N: usize> = [(&'static str, Name); N];

/// Labels whose values are words of our own. A family without labels has at most one series.
pub(crate) type WordLabels<const N: usize> = [(&'static str, &'static str); N];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ExchangeLabels {
    pub(crate) door: &'static str,
    #[prometheus(flatten)]
    pub(crate) sides: SidesLabels,
    pub(crate) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct TokensLabels {
    #[prometheus(flatten)]
    pub(crate) sides: SidesLabels,
    pub(crate) kind: &'static str,
}

/// The sides of an exchange: the model, the account that answered, and the caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct SidesLabels {
    pub(crate) model: Name,
    pub(crate) account: Name,
    pub(crate) caller: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct UnpricedLabels {
    pub(crate) model: Name,
    pub(crate) account: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct AttemptLabels {
    pub(crate) account: Name,
    pub(crate) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct DoorLabels {
    pub(crate) door: &'static str,
    pub(crate) model: Name,
}
