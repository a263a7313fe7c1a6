//! The order in which a model's targets are tried. Pure: chance comes in as numbers.

use crate::catalog::{Strategy, Target};

/// The targets' places in the order of the strategy. `random` yields numbers in [0, 1).
pub fn order(strategy: Strategy, targets: &[Target], mut random: impl FnMut() -> f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..targets.len()).collect();
    match strategy {
        Strategy::Priority => order,
        Strategy::Weighted => {
            // Efraimidis and Spirakis: sorting by -ln(u)/w draws without replacement, each time in proportion to the weights left.
            let mut keyed: Vec<(f64, usize)> = order
                .drain(..)
                .filter_map(|place| targets.get(place).map(|t| (t.weight, place)))
                .map(|(weight, place)| (-(1.0 - random()).ln() / f64::from(weight.max(1)), place))
                .collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            keyed.into_iter().map(|(_, place)| place).collect()
        }
    }
}
