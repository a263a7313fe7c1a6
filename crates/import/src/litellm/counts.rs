//! Limits: whole numbers by our names for them.

use std::collections::BTreeMap;

use super::node::Spot;
use crate::Bound;
use crate::write::Fields;
use portcullis::conf::price::Million;
use portcullis::conf::yaml::edit::NewValue;

/// The limits that count money. Their numbers are millionths of a US dollar.
pub(super) const MONEY: [&str; 2] = ["usd_per_day", "usd_per_month"];

/// The reason of a limit that cannot be kept.
const ZERO: &str = "is 0, which forbids every request";

/// The reason of a budget without a time.
pub(super) const FOR_LIFE: &str = "is for life: there are budgets of a day and of a month only";

/// Limits, each by its name in the catalog.
#[derive(Default)]
pub(super) struct Counts(pub(super) BTreeMap<&'static str, u64>);

impl Counts {
    /// Sets a limit; of two, the tighter one counts.
    pub(super) fn tighten(&mut self, field: &'static str, number: u64) {
        let limit = self.0.entry(field).or_insert(number);
        *limit = number.min(*limit);
    }

    pub(super) fn get(&self, field: &str) -> Option<u64> {
        self.0.get(field).copied()
    }

    pub(super) fn has_money(&self) -> bool {
        MONEY.iter().any(|field| self.0.contains_key(field))
    }

    /// Takes all limits in money away.
    pub(super) fn drop_money(&mut self) {
        self.0.retain(|field, _| !MONEY.contains(field));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads a whole number from 1 as this limit. Less than 1 forbids everything, which no name
    /// loosens.
    pub(super) fn read(
        &mut self,
        spot: &Spot<'_>,
        theirs: &str,
        ours: &'static str,
    ) -> Result<(), Bound> {
        const LARGEST: u64 = 1 << 53;
        match spot.whole() {
            Some(0) => return Err(Bound::undroppable(theirs, ZERO)),
            Some(number) => self.tighten(ours, number.min(LARGEST)),
            None => return Err(Bound::unreadable(theirs)),
        }
        Ok(())
    }

    /// Reads a budget, in millionths of a US dollar, rounded down.
    pub(super) fn read_budget(
        &mut self,
        spot: &Spot<'_>,
        period: Option<&Spot<'_>>,
        theirs: &str,
    ) -> Result<(), Bound> {
        let millionths = match spot.amount().and_then(|amount| amount.units(6)) {
            Some((millionths, true)) => millionths,
            Some((above, false)) => above - 1,
            None => return Err(Bound::unreadable(theirs)),
        };
        if millionths == 0 {
            return Err(Bound::undroppable(theirs, ZERO));
        }
        let ours = match period.and_then(Spot::text).map(str::trim) {
            Some("1d" | "24h" | "1440m" | "86400s" | "daily") => "usd_per_day",
            Some("30d" | "1mo" | "monthly") => "usd_per_month",
            Some(_) => {
                const WHY: &str = "is for another time than a day or a month";
                return Err(Bound::with_reason(theirs, "budgets", WHY));
            }
            None => return Err(Bound::with_reason(theirs, "budgets", FOR_LIFE)),
        };
        self.tighten(ours, millionths);
        Ok(())
    }

    /// Writes the limits, if there are any.
    pub(super) fn value(&self) -> Option<NewValue> {
        let mut fields = Fields::default();
        for (field, number) in &self.0 {
            let text = match MONEY.contains(field) {
                true => Million(*number).to_string(),
                false => number.to_string(),
            };
            fields.set(field, NewValue::Number(text));
        }
        fields.map()
    }
}
