//! The labels of the metrics: each struct is one set of labels, and a field is a label's name.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use std::fmt::Write;
use std::sync::Arc;

/// A name from the catalog, or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Name(pub(crate) Option<Arc<str>>);

impl EncodeLabelValue for Name {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.write_str(self.0.as_deref().unwrap_or(""))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ExchangeLabels {
    pub(crate) door: &'static str,
    pub(crate) model: Name,
    pub(crate) account: Name,
    pub(crate) caller: Name,
    pub(crate) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct TokensLabels {
    pub(crate) model: Name,
    pub(crate) account: Name,
    pub(crate) caller: Name,
    pub(crate) kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CostLabels {
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
pub(crate) struct LimitedLabels {
    pub(crate) caller: Name,
    pub(crate) level: &'static str,
    pub(crate) limit: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct AttemptLabels {
    pub(crate) account: Name,
    pub(crate) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct DroppedLabels {
    pub(crate) model: Name,
    pub(crate) account: Name,
    pub(crate) param: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct DoorLabels {
    pub(crate) door: &'static str,
    pub(crate) model: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct AccountLabels {
    pub(crate) account: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ModelLabels {
    pub(crate) model: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct KeyLabels {
    pub(crate) key: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct HedgeLabels {
    pub(crate) model: Name,
    pub(crate) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct UnusedLabels {
    pub(crate) model: Name,
    pub(crate) account: Name,
    pub(crate) kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct BreakerStateLabels {
    pub(crate) account: Name,
    pub(crate) model: Name,
    pub(crate) state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct AccountStateLabels {
    pub(crate) account: Name,
    pub(crate) state: &'static str,
}

/// No labels: what is not there for everybody is a family of at most one.
pub(crate) type Bare = [(&'static str, &'static str); 0];
