//! The labels of the metrics: each struct is one set of labels, and a field is a label's name.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use std::fmt::Write;
use std::sync::Arc;

/// A name from the catalog, or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Name(pub(super) Option<Arc<str>>);

impl EncodeLabelValue for Name {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.write_str(self.0.as_deref().unwrap_or(""))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ExchangeLabels {
    pub(super) door: &'static str,
    pub(super) model: Name,
    pub(super) account: Name,
    pub(super) caller: Name,
    pub(super) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TokensLabels {
    pub(super) model: Name,
    pub(super) account: Name,
    pub(super) caller: Name,
    pub(super) kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CostLabels {
    pub(super) model: Name,
    pub(super) account: Name,
    pub(super) caller: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct UnpricedLabels {
    pub(super) model: Name,
    pub(super) account: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LimitedLabels {
    pub(super) caller: Name,
    pub(super) level: &'static str,
    pub(super) limit: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AttemptLabels {
    pub(super) account: Name,
    pub(super) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DroppedLabels {
    pub(super) model: Name,
    pub(super) account: Name,
    pub(super) param: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DoorLabels {
    pub(super) door: &'static str,
    pub(super) model: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AccountLabels {
    pub(super) account: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ModelLabels {
    pub(super) model: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct KeyLabels {
    pub(super) key: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct HedgeLabels {
    pub(super) model: Name,
    pub(super) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct UnusedLabels {
    pub(super) model: Name,
    pub(super) account: Name,
    pub(super) kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct BreakerStateLabels {
    pub(super) account: Name,
    pub(super) model: Name,
    pub(super) state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AccountStateLabels {
    pub(super) account: Name,
    pub(super) state: &'static str,
}

/// No labels: what is not there for everybody is a family of at most one.
pub(super) type Bare = [(&'static str, &'static str); 0];
