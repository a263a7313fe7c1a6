//! Labels tell the series of one metric from each other. The labels that every exchange looks up
//! are structs, so that the names of their fields need not be hashed, and their values are hashed
//! quickly: they come from the catalog and from our own enums, so callers cannot make them collide.
//! The others are lists of names and values.

use crate::base::hash;
use prometheus_client::encoding::EncodeLabelSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Labels that hold names from the catalog. The series of a name end when the catalog loses it.
pub(crate) trait HasNames {
    /// Returns the labels whose value is a name of the catalog, each with that name.
    fn names(&self) -> impl IntoIterator<Item = (&'static str, &Name)>;
}

/// A name from the catalog. `None` if the exchange ended before it was known.
pub(crate) type Name = Option<Arc<str>>;

/// Labels whose values are names from the catalog.
pub(crate) type NameLabels<const N: usize> = [(&'static str, Name); N];

/// Labels whose values are words of our own.
pub(crate) type WordLabels<const N: usize> = [(&'static str, &'static str); N];

/// An exchange, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(crate) struct ExchangeLabels {
    pub(crate) door: &'static str,
    #[prometheus(flatten)]
    pub(crate) parties: PartyLabels,
    pub(crate) outcome: &'static str,
}

/// The tokens of one kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(crate) struct TokensLabels {
    #[prometheus(flatten)]
    pub(crate) parties: PartyLabels,
    pub(crate) kind: &'static str,
}

/// The parties of an exchange: the model, the account that answered, and the caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(crate) struct PartyLabels {
    pub(crate) model: Name,
    pub(crate) account: Name,
    pub(crate) caller: Name,
}

/// A model, and an account that was asked for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(crate) struct TargetLabels {
    pub(crate) model: Name,
    pub(crate) account: Name,
}

/// An attempt at an account, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(crate) struct AttemptLabels {
    pub(crate) model: Name,
    pub(crate) account: Name,
    pub(crate) outcome: &'static str,
}

/// A front door, and a model that was asked for there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(crate) struct DoorLabels {
    pub(crate) door: &'static str,
    pub(crate) model: Name,
}

impl TargetLabels {
    pub(crate) fn new(model: &Name, account: &Name) -> TargetLabels {
        TargetLabels {
            model: model.clone(),
            account: account.clone(),
        }
    }
}

impl AttemptLabels {
    pub(crate) fn new(model: &Name, account: &Name, outcome: &'static str) -> AttemptLabels {
        AttemptLabels {
            model: model.clone(),
            account: account.clone(),
            outcome,
        }
    }
}

impl DoorLabels {
    pub(crate) fn new(door: &'static str, model: &Name) -> DoorLabels {
        DoorLabels {
            door,
            model: model.clone(),
        }
    }
}

impl PartyLabels {
    fn values(&self) -> [&str; 3] {
        [&self.model, &self.account, &self.caller].map(|name| name.as_deref().unwrap_or_default())
    }
}

impl Hash for PartyLabels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash::hash_texts(self.values(), state);
    }
}

impl Hash for ExchangeLabels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash::hash_texts(
            self.parties
                .values()
                .into_iter()
                .chain([self.door, self.outcome]),
            state,
        );
    }
}

impl Hash for TokensLabels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash::hash_texts(self.parties.values().into_iter().chain([self.kind]), state);
    }
}

impl Hash for AttemptLabels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [model, account] =
            [&self.model, &self.account].map(|name| name.as_deref().unwrap_or_default());
        hash::hash_texts([model, account, self.outcome], state);
    }
}

impl Hash for DoorLabels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash::hash_texts(
            [self.model.as_deref().unwrap_or_default(), self.door],
            state,
        );
    }
}

impl HasNames for PartyLabels {
    fn names(&self) -> impl IntoIterator<Item = (&'static str, &Name)> {
        [
            ("model", &self.model),
            ("account", &self.account),
            ("caller", &self.caller),
        ]
    }
}

impl HasNames for ExchangeLabels {
    fn names(&self) -> impl IntoIterator<Item = (&'static str, &Name)> {
        self.parties.names()
    }
}

impl HasNames for TokensLabels {
    fn names(&self) -> impl IntoIterator<Item = (&'static str, &Name)> {
        self.parties.names()
    }
}

impl HasNames for TargetLabels {
    fn names(&self) -> impl IntoIterator<Item = (&'static str, &Name)> {
        [("model", &self.model), ("account", &self.account)]
    }
}

impl HasNames for AttemptLabels {
    fn names(&self) -> impl IntoIterator<Item = (&'static str, &Name)> {
        [("model", &self.model), ("account", &self.account)]
    }
}

impl HasNames for DoorLabels {
    fn names(&self) -> impl IntoIterator<Item = (&'static str, &Name)> {
        [("model", &self.model)]
    }
}

impl<const N: usize> HasNames for NameLabels<N> {
    fn names(&self) -> impl IntoIterator<Item = (&'static str, &Name)> {
        self.iter().map(|(label, name)| (*label, name))
    }
}

impl<const W: usize> HasNames for WordLabels<W> {
    fn names(&self) -> impl IntoIterator<Item = (&'static str, &Name)> {
        []
    }
}

impl<const N: usize, const W: usize> HasNames for (NameLabels<N>, WordLabels<W>) {
    fn names(&self) -> impl IntoIterator<Item = (&'static str, &Name)> {
        self.0.names()
    }
}
