//! Limits that are whole numbers.

use std::collections::BTreeMap;

use super::bound::Bound;
use super::node::Spot;
use crate::amount::Amount;

/// The reason of a limit that cannot be kept.
pub(super) const ZERO: &str = "is 0, which forbids every request";

/// Sets a limit; of two, the tighter one counts.
pub(super) fn tighten_limit(
    fields: &mut BTreeMap<&'static str, u64>,
    field: &'static str,
    number: u64,
) {
    fields
        .entry(field)
        .and_modify(|limit| *limit = number.min(*limit))
        .or_insert(number);
}

/// Reads a whole number from 1. Less than 1 forbids everything, which no name loosens.
pub(super) fn read_number(spot: &Spot<'_>, field: &str) -> Result<u64, Bound> {
    const LARGEST: u64 = 1 << 53;
    match spot.amount().and_then(Amount::whole) {
        Some(0) => Err(Bound::firm(field, ZERO)),
        Some(number) => Ok(number.min(LARGEST)),
        None => Err(Bound::unreadable(field)),
    }
}
