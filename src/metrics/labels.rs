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

/// Makes labels from their fields. Each is a [`Name`] or a word of our own.
macro_rules! labels {
    ($($(#[$about:meta])* $Labels:ident { $($field:ident: $Value:ty),* })*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
        pub(crate) struct $Labels { $(pub(crate) $field: $Value),* }

        impl Hash for $Labels {
            fn hash<H: Hasher>(&self, state: &mut H) {
                hash::hash_texts([$(self.$field.text()),*], state);
            }
        }

        impl HasNames for $Labels {
            fn names(&self) -> impl IntoIterator<Item = (&'static str, &Name)> {
                let names = [$((stringify!($field), self.$field.name())),*].into_iter();
                names.filter_map(|(label, name)| Some((label, name?)))
            }
        }
    )*};
}

/// The value of a label.
trait LabelValue {
    fn text(&self) -> &str;
    /// Returns it if it is a name from the catalog.
    fn name(&self) -> Option<&Name>;
}

impl LabelValue for Name {
    fn text(&self) -> &str {
        self.as_deref().unwrap_or_default()
    }

    fn name(&self) -> Option<&Name> {
        Some(self)
    }
}

impl LabelValue for &'static str {
    fn text(&self) -> &str {
        self
    }

    fn name(&self) -> Option<&Name> {
        None
    }
}

labels! {
    /// The parties of an exchange: the model, the account that answered, and the caller.
    PartyLabels { model: Name, account: Name, caller: Name }

    /// A model, and an account that was asked for it.
    TargetLabels { model: Name, account: Name }

    /// An attempt at an account, and how it ended.
    AttemptLabels { model: Name, account: Name, outcome: &'static str }

    /// A front door, and a model that was asked for there.
    DoorLabels { door: &'static str, model: Name }
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
        [&self.model, &self.account, &self.caller].map(LabelValue::text)
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
