//! A [`Labelled`] has all series of one metric, by their labels. It differs from the type of the
//! client library in one thing: it can end single series, and not only all of them.

use super::labels::HasNames;
use crate::base::hash::Quick;
use crate::base::lock::SharedLock;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

/// A metric, or a group of metrics, whose series may have names from the catalog.
pub(super) trait EndsSeries {
    /// Ends each series with a name that `is_kept` does not know. It gets the label of each name
    /// and the name.
    fn end_series(&self, _is_kept: &dyn Fn(&str, &str) -> bool) {}
}

impl<N, A> EndsSeries for Counter<N, A> {}
impl<N, A> EndsSeries for Gauge<N, A> {}

/// The series of one metric. A clone has the same ones.
#[derive(Debug)]
pub(crate) struct Labelled<L, M> {
    series: Arc<SharedLock<HashMap<L, M, Quick>>>,
    make: fn() -> M,
}

impl<L, M> Clone for Labelled<L, M> {
    fn clone(&self) -> Labelled<L, M> {
        Labelled {
            series: self.series.clone(),
            make: self.make,
        }
    }
}

impl<L, M: Default> Default for Labelled<L, M> {
    fn default() -> Labelled<L, M> {
        Labelled::new(M::default)
    }
}

impl<L, M> Labelled<L, M> {
    /// Makes a family that makes each new series with `make`.
    pub(crate) fn new(make: fn() -> M) -> Labelled<L, M> {
        Labelled {
            series: Arc::default(),
            make,
        }
    }
}

impl<L: Clone + Eq + Hash, M> Labelled<L, M> {
    /// Uses the series with these labels, if it is there. It does not end meanwhile.
    pub(crate) fn with_known<T>(&self, labels: &L, used: impl FnOnce(&M) -> T) -> Option<T> {
        self.series.read().get(labels).map(used)
    }

    /// Uses the series with these labels; it is made if it is not there. It does not end meanwhile.
    pub(crate) fn with_series<T>(&self, labels: &L, mut used: impl FnMut(&M) -> T) -> T {
        if let Some(result) = self.with_known(labels, &mut used) {
            return result;
        }
        let mut series = self.series.write();
        used(series.entry(labels.clone()).or_insert_with(self.make))
    }

    /// Returns the series with these labels; it is made if it is not there.
    pub(crate) fn get_or_create(&self, labels: &L) -> M
    where
        M: Clone,
    {
        self.with_series(labels, M::clone)
    }

    /// Ends all series.
    pub(crate) fn clear(&self) {
        self.series.write().clear();
    }
}

impl<L: Clone + Eq + Hash + HasNames, M> EndsSeries for Labelled<L, M> {
    fn end_series(&self, is_kept: &dyn Fn(&str, &str) -> bool) {
        // They are looked for while exchanges go on counting.
        let ended: Vec<L> = {
            let series = self.series.read();
            let ended = series.keys().filter(|labels| {
                let mut names = labels.names().into_iter();
                names.any(|(label, name)| name.as_ref().is_some_and(|name| !is_kept(label, name)))
            });
            ended.cloned().collect()
        };
        if !ended.is_empty() {
            let mut series = self.series.write();
            ended.iter().for_each(|labels| drop(series.remove(labels)));
        }
    }
}

impl<L, M: TypedMetric> TypedMetric for Labelled<L, M> {
    const TYPE: MetricType = M::TYPE;
}

impl<L: EncodeLabelSet + Ord, M: EncodeMetric + TypedMetric> EncodeMetric for Labelled<L, M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let series = self.series.read();
        // The order is the same at each scrape, whenever and in whatever order the series began.
        let mut sorted: Vec<_> = series.iter().collect();
        sorted.sort_unstable_by_key(|(labels, _)| *labels);
        sorted
            .into_iter()
            .try_for_each(|(labels, one)| one.encode(encoder.encode_family(labels)?))
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }

    fn is_empty(&self) -> bool {
        self.series.read().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::labels::WordLabels;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    #[test]
    fn the_lines_have_one_order_however_the_series_began() {
        const NAMES: [&str; 12] = ["c", "a", "k", "b", "z", "d", "y", "e", "x", "f", "w", "g"];
        let series = Labelled::<WordLabels<1>, Counter>::default();
        let mut registry = Registry::default();
        registry.register("some", "Some", series.clone());
        let scrape = |names: &mut dyn Iterator<Item = &'static str>| {
            series.clear();
            for name in names {
                series.get_or_create(&[("name", name)]).inc();
            }
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        let first = scrape(&mut NAMES.into_iter());
        assert_eq!(first, scrape(&mut NAMES.into_iter().rev()));
        let lines: Vec<_> = first
            .lines()
            .filter(|line| line.starts_with("some_total"))
            .collect();
        assert!(lines.len() == NAMES.len() && lines.is_sorted(), "{first}");
    }
}
