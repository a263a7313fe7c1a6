//! The limits of a key, a team or a user: what of them can be carried, and what cannot.

use std::collections::{BTreeMap, BTreeSet};

use super::access::{Known, Usable};
use super::bound::Bounds;
use super::counts::{Counts, FOR_LIFE, MONEY};
use super::entry::LIMITS_OF_KEYS;
use super::node::Spot;
use crate::notes::{Finding, Grade};
use crate::write::Fields;
use crate::{Bound, Spent};
use portcullis::base::calendar::{day_of, day_start, first_day_of_month};
use portcullis::conf::price::Usd;
use portcullis::conf::yaml::edit::NewValue;

/// The use that a row has.
#[derive(Default)]
pub(super) struct Limits {
    pub(super) own: Counts,
    /// The limits of single models as they are written: by the name of the model and the field.
    written: BTreeMap<(String, &'static str), Counts>,
    /// The limits of single models, by the ids of those that they count.
    models: BTreeMap<String, Counts>,
    /// The fields that cannot be carried.
    pub(super) bounds: Bounds,
    /// The money that was spent from `max_budget`, if it is to be carried, and the finding then.
    spent: Option<(Spent, Finding)>,
}

/// LiteLLM's fields of whole numbers, with ours.
const NUMBERS: [(&str, &str); 4] = [
    ("rpm_limit", "requests_per_minute"),
    ("tpm_limit", "tokens_per_minute"),
    ("tpd_limit", "tokens_per_day"),
    ("max_parallel_requests", "concurrency"),
];

/// LiteLLM's fields of limits of single models, with ours.
const NUMBERS_OF_MODELS: [(&str, &str); 4] = [
    ("model_rpm_limit", "requests_per_minute"),
    ("rpm_limit_per_model", "requests_per_minute"),
    ("model_tpm_limit", "tokens_per_minute"),
    ("tpm_limit_per_model", "tokens_per_minute"),
];

impl Limits {
    /// Reads all limits of a row: each is in the row itself, or else in its budget. What cannot be
    /// read at all is found by the walk over its fields. `spent_at` is the time, if what was spent
    /// so far is to be carried.
    pub(super) fn read(row: &Spot<'_>, budget: Option<&Spot<'_>>, spent_at: Option<u64>) -> Self {
        let field = |name: &str| row.filled(name).or_else(|| budget?.filled(name));
        let mut limits = Self::default();
        for (theirs, ours) in NUMBERS {
            if let Some(spot) = field(theirs) {
                let read = limits.own.read(&spot, theirs, ours);
                limits.report(&spot, read, Grade::Exact, "");
            }
        }
        let period = field("budget_duration");
        if let Some(spot) = field("max_budget") {
            period.iter().for_each(Spot::report_exact);
            let read = limits.own.read_budget(&spot, period.as_ref(), "max_budget");
            let message = match spent_at {
                Some(_) => "counts by the day or the calendar month in UTC",
                None => "counts by the day or the calendar month in UTC, and begins at zero",
            };
            limits.report(&spot, read, Grade::Approximate, message);
            if let Some((now, spot)) = spent_at.zip(row.get("spend")) {
                limits.read_spent(&spot, field("budget_reset_at"), now);
            }
        } else if let Some(period) = period {
            period.report_approximate("bounds nothing in LiteLLM without `max_budget`");
        }
        for window in field("budget_limits").iter().flat_map(Spot::items) {
            const KNOWN: [&str; 3] = ["max_budget", "budget_duration", "reset_at"];
            limits.check_fields(&window, &KNOWN, "budget_limits");
            let usd = window.get("max_budget").unwrap_or_else(|| window.clone());
            let period = window.get("budget_duration");
            let read = limits
                .own
                .read_budget(&usd, period.as_ref(), "budget_limits");
            limits.report(&window, read, Grade::Approximate, "begins at zero");
        }
        limits.read_numbers_of_models(row);
        let models = field("model_max_budget");
        for (model, spot) in models.iter().flat_map(Spot::entries) {
            limits.read_budget_of_model(model, &spot);
        }
        limits
    }

    /// Reads what was spent from `max_budget`. A budget of a month counts it for this whole month,
    /// also if it was spent in the month before: never for too little.
    fn read_spent(&mut self, spot: &Spot<'_>, ends: Option<Spot<'_>>, now: u64) {
        const CARRIED: &str =
            "is in the new ledger, and counts for this day or this calendar month";
        let counted_at = match MONEY.map(|field| self.own.get(field)) {
            [Some(_), _] => now,
            [None, Some(_)] => day_start(first_day_of_month(day_of(now))),
            [None, None] => return,
        };
        // LiteLLM begins anew then, as soon as it looks.
        ends.iter().for_each(Spot::report_exact);
        let end = ends.and_then(|spot| spot.time());
        if end.is_some_and(|end| end.saturating_mul(1000) <= now) {
            spot.report(
                Grade::Exact,
                "the time of this budget is over, so it begins at zero",
            );
            return;
        }
        match spot.amount().and_then(|amount| amount.units(9)) {
            Some((0, _)) => spot.report_exact(),
            Some((usd, _)) => {
                let spent = Spent {
                    counted_at,
                    usd: Usd(usd),
                    ..Spent::default()
                };
                self.spent = Some((spent, spot.finding(Grade::Approximate, CARRIED)));
            }
            None => self.bounds.add_from(spot, Bound::unreadable("spend")),
        }
    }

    fn read_numbers_of_models(&mut self, row: &Spot<'_>) {
        let metadata = row.get("metadata");
        for (theirs, ours) in NUMBERS_OF_MODELS {
            let of_metadata = metadata
                .as_ref()
                .and_then(|metadata| metadata.filled(theirs));
            for spot in of_metadata.into_iter().chain(row.filled(theirs)) {
                if !spot.is_map() {
                    self.bounds.add(Bound::unreadable(theirs));
                }
                for (model, spot) in spot.entries() {
                    let read = self.written_for(model, theirs).read(&spot, theirs, ours);
                    self.report(&spot, read, Grade::Exact, "");
                }
            }
        }
    }

    fn read_budget_of_model(&mut self, model: &str, spot: &Spot<'_>) {
        const FIELD: &str = "model_max_budget";
        const KNOWN: [&str; 6] = [
            "budget_limit",
            "max_budget",
            "time_period",
            "budget_duration",
            "rpm_limit",
            "tpm_limit",
        ];
        const MESSAGE: &str =
            "budgets count by the day or the calendar month in UTC, and begin at zero";
        self.check_fields(spot, &KNOWN, FIELD);
        let either = |one: &str, other: &str| spot.get(one).or_else(|| spot.get(other));
        let period = either("time_period", "budget_duration");
        let read = match either("budget_limit", "max_budget") {
            Some(usd) => self
                .written_for(model, FIELD)
                .read_budget(&usd, period.as_ref(), FIELD),
            // A plain value was a budget for life.
            None if !spot.is_map() => Err(Bound::with_reason(FIELD, "budgets", FOR_LIFE)),
            None => Ok(()),
        };
        self.report(spot, read, Grade::Approximate, MESSAGE);
        // The other limits count also where the budget cannot be carried, and is dropped.
        for (theirs, ours) in NUMBERS {
            if let Some(spot) = spot.get(theirs) {
                let read = self.written_for(model, FIELD).read(&spot, theirs, ours);
                self.report(&spot, read, Grade::Exact, "");
            }
        }
    }

    /// Returns the limits that a field has for the model of this name.
    fn written_for(&mut self, name: &str, field: &'static str) -> &mut Counts {
        self.written.entry((name.to_owned(), field)).or_default()
    }

    /// Returns whether a single model has a limit.
    pub(super) fn has_limits_of_models(&self) -> bool {
        self.written.values().any(|counts| !counts.is_empty())
    }

    /// Adds the limits of some models for each key that may use them. A key that has limits of
    /// single models of its own has these only, as in LiteLLM.
    pub(super) fn add_model_limits(&mut self, known: &Known<'_, '_>, usable: &Usable) {
        let models = known.binding(usable);
        for (theirs, ours) in LIMITS_OF_KEYS {
            let mut written = self.written.values();
            if written.any(|counts| counts.get(ours).is_some()) {
                continue;
            }
            for model in &models {
                if let Some(number) = model.key_limits.limits.get(ours) {
                    self.written_for(&model.name, theirs).tighten(ours, number);
                }
            }
        }
        for bound in models
            .iter()
            .flat_map(|model| model.key_limits.bounds.iter())
        {
            self.bounds.add(bound.clone());
        }
    }

    /// Writes the limits of single models under the ids of the models that they count. Returns
    /// whether one of them counts no model that is here.
    pub(super) fn assign_to_models(&mut self, known: &Known<'_, '_>, usable: &Usable) -> bool {
        const SEVERAL: &str = "counts several models, or those of a pattern";
        let all = std::mem::take(&mut self.written);
        let with_money = all.iter().filter(|(_, counts)| counts.has_money());
        let with_money: BTreeSet<&str> = with_money.map(|((name, _), _)| &**name).collect();
        let has_money = |name: &str| with_money.contains(name);
        let mut is_left_out = false;
        for ((name, theirs), counts) in &all {
            for (ours, number) in &counts.0 {
                let counted = match MONEY.contains(ours) {
                    true => known.budgeted(name, usable, has_money),
                    false => known.limited(name),
                };
                let mut counted = counted.into_iter();
                match (counted.next(), counted.next()) {
                    (None, _) => is_left_out = true,
                    (Some(id), None) if !id.contains('*') => {
                        let limits = self.models.entry(id.to_owned()).or_default();
                        limits.tighten(ours, *number);
                    }
                    (Some(_), _) => self
                        .bounds
                        .add(Bound::with_reason(theirs, "budgets", SEVERAL)),
                }
            }
        }
        is_left_out
    }

    /// Adds that a single budget has more fields than those that are known.
    fn check_fields(&mut self, entry: &Spot<'_>, known: &[&str], field: &str) {
        let mut entries = entry.entries().into_iter();
        if entries.any(|(name, spot)| !known.contains(&name) && !spot.is_empty()) {
            const WHY: &str = "has a field that Portcullis does not know";
            self.bounds
                .add(Bound::with_reason(field, "unknown-fields", WHY));
        }
    }

    /// Reports a limit that was read, or keeps what bounds the key in its place.
    fn report(&mut self, spot: &Spot<'_>, read: Result<(), Bound>, grade: Grade, message: &str) {
        match read {
            Ok(()) => spot.report(grade, message),
            Err(bound) => self.bounds.add_from(spot, bound),
        }
    }

    /// Returns the models whose own limits count money.
    pub(super) fn money_models(&self) -> impl Iterator<Item = &str> {
        let models = self.models.iter().filter(|(_, counts)| counts.has_money());
        models.map(|(model, _)| model.as_str())
    }

    /// Returns what was spent and since when it counts, if a limit counts it, and reports it with
    /// the findings of this row.
    pub(super) fn take_spent(&mut self, row: &Spot<'_>) -> Option<Spent> {
        const DROPPED: &str = "was spent from a budget that is dropped, so no limit counts it";
        let (spent, mut finding) = self.spent.take()?;
        if !self.own.has_money() {
            DROPPED.clone_into(&mut finding.message);
        }
        row.findings.add(finding);
        self.own.has_money().then_some(spent)
    }

    /// Takes all limits in money away.
    pub(super) fn drop_money(&mut self) {
        self.own.drop_money();
        self.models.values_mut().for_each(Counts::drop_money);
    }

    /// Writes `model_limits`, if there are any.
    pub(super) fn models_value(&self) -> Option<NewValue> {
        let mut models = Fields::default();
        for (model, counts) in &self.models {
            models.set_some(model, counts.value());
        }
        models.map()
    }
}
