//! The limits of a key, a team or a user: what of them can be carried, and what cannot.

use std::collections::BTreeMap;

use super::access::Known;
use super::bound::Bound;
use super::node::Spot;
use super::number::{ZERO, read_number, tighten_limit};
use crate::notes::{Finding, Grade};
use portcullis::base::calendar::{day_of, month_of, start_of};
use portcullis::catalog::globs::Globs;
use portcullis::conf::price::Usd;
use portcullis::conf::yaml::edit::New;

/// The use that a row has.
#[derive(Default)]
pub(super) struct LimitsOut {
    fields: BTreeMap<&'static str, u64>,
    /// The fields that cannot be carried.
    pub(super) bounds: Vec<Bound>,
    /// The money that was spent from `max_budget`, if it is to be carried.
    pub(super) spent: Option<SpentOut>,
    /// The limits of single models.
    pub(super) models: BTreeMap<String, BTreeMap<&'static str, u64>>,
}

/// The money that was spent from a budget.
pub(super) struct SpentOut {
    /// The time for which it counts, in milliseconds of Unix time.
    spot: u64,
    usd: Usd,
    /// The report's text if it is carried.
    finding: Finding,
}

/// The limits that count money. Their numbers are millionths of a US dollar.
const MONEY: [&str; 2] = ["usd_per_day", "usd_per_month"];

/// Where a row's fields are: in the row itself, or else in its budget.
pub(super) struct LimitRow<'a> {
    pub(super) row: Spot<'a>,
    pub(super) budget: Option<Spot<'a>>,
    pub(super) became: String,
    /// The time, if what was spent so far is to be carried.
    pub(super) spent_at: Option<u64>,
}

impl<'a> LimitRow<'a> {
    fn get(&self, field: &str) -> Option<Spot<'a>> {
        let written = |row: &Spot<'a>| row.get(field).filter(|spot| !spot.is_empty());
        written(&self.row).or_else(|| self.budget.as_ref().and_then(written))
    }
}

/// LiteLLM's fields of whole numbers, with ours.
const NUMBERS: [(&str, &str); 4] = [
    ("rpm_limit", "requests_per_minute"),
    ("tpm_limit", "tokens_per_minute"),
    ("tpd_limit", "tokens_per_day"),
    ("max_parallel_requests", "concurrency"),
];

impl LimitsOut {
    /// Reads all limits of a row. What cannot be read at all is found by the walk over its fields.
    pub(super) fn read(source: &LimitRow<'_>, findings: &mut Vec<Finding>) -> Self {
        let mut limits = Self::default();
        let mut notes = Notes {
            became: &source.became,
            findings,
        };
        for (theirs, ours) in NUMBERS {
            if let Some(spot) = source.get(theirs) {
                let read = read_number(&spot, theirs);
                let read = read.map(|number| tighten_limit(&mut limits.fields, ours, number));
                limits.note(&spot, read, Grade::Exact, "", &mut notes);
            }
        }
        if let Some(spot) = source.get("max_budget") {
            let period = source.get("budget_duration");
            notes.exact(period.as_ref());
            let read = read_budget(&spot, period.as_ref(), "max_budget");
            let read = read.map(|(field, usd)| tighten_limit(&mut limits.fields, field, usd));
            let message = match source.spent_at {
                Some(_) => "counts by the day or the calendar month in UTC",
                None => "counts by the day or the calendar month in UTC, and begins at zero",
            };
            limits.note(&spot, read, Grade::Approximate, message, &mut notes);
            limits.of_past(source, &mut notes);
        }
        for window in source.get("budget_limits").iter().flat_map(Spot::items) {
            const KNOWN: [&str; 3] = ["max_budget", "budget_duration", "reset_at"];
            limits.of_entry(&window, &KNOWN, "budget_limits");
            let usd = window.get("max_budget").unwrap_or_else(|| window.clone());
            let read = read_budget(
                &usd,
                window.get("budget_duration").as_ref(),
                "budget_limits",
            );
            let read = read.map(|(field, usd)| tighten_limit(&mut limits.fields, field, usd));
            limits.note(
                &window,
                read,
                Grade::Approximate,
                "begins at zero",
                &mut notes,
            );
        }
        limits.of_models(source, &mut notes);
        limits
    }

    /// Reads what was spent from `max_budget`. A budget of a month counts it for this whole month,
    /// also if it was spent in the month before: never for too little.
    fn of_past(&mut self, source: &LimitRow<'_>, notes: &mut Notes<'_>) {
        let (Some(now), Some(spot)) = (source.spent_at, source.row.get("spend")) else {
            return;
        };
        let since = match MONEY.map(|field| self.fields.contains_key(field)) {
            [true, _] => now,
            [false, true] => start_of(month_of(day_of(now))),
            [false, false] => return,
        };
        // LiteLLM begins anew then, as soon as it looks.
        let ends = source.get("budget_reset_at");
        notes.exact(ends.as_ref());
        let is_over = |ends: u64| ends.saturating_mul(1000) <= now;
        if ends.and_then(|spot| spot.time()).is_some_and(is_over) {
            const MESSAGE: &str = "the time of this budget is over, so it begins at zero";
            notes.add(&spot, Grade::Exact, MESSAGE);
            return;
        }
        match spot.amount().and_then(|amount| amount.units(9)) {
            Some((0, _)) => notes.exact(Some(&spot)),
            Some((usd, _)) => {
                const MESSAGE: &str =
                    "is in the new ledger, and counts for this day or this calendar month";
                self.spent = Some(SpentOut {
                    spot: since,
                    usd: Usd(usd),
                    finding: spot.finding(Grade::Approximate, notes.became, MESSAGE),
                });
            }
            None => self.note(
                &spot,
                Err(Bound::unreadable("spend")),
                Grade::Exact,
                "",
                notes,
            ),
        }
    }

    /// Reads the limits of single models.
    fn of_models(&mut self, source: &LimitRow<'_>, notes: &mut Notes<'_>) {
        let metadata = source.row.get("metadata");
        for (theirs, ours) in [
            ("model_rpm_limit", "requests_per_minute"),
            ("rpm_limit_per_model", "requests_per_minute"),
            ("model_tpm_limit", "tokens_per_minute"),
            ("tpm_limit_per_model", "tokens_per_minute"),
        ] {
            let of_metadata = metadata.as_ref().and_then(|metadata| metadata.get(theirs));
            let all = of_metadata.into_iter().chain(source.row.get(theirs));
            for spot in all.filter(|spot| !spot.is_empty()) {
                if !spot.is_map() {
                    self.stop(Bound::unreadable(theirs));
                }
                for (model, spot) in spot.entries() {
                    let fields = self.models.entry(model.to_owned()).or_default();
                    let read = read_number(&spot, theirs)
                        .map(|number| tighten_limit(fields, ours, number));
                    self.note(&spot, read, Grade::Exact, "", notes);
                }
            }
        }
        let budgets = source.get("model_max_budget");
        for (model, spot) in budgets.iter().flat_map(Spot::entries) {
            const KNOWN: [&str; 6] = [
                "budget_limit",
                "max_budget",
                "time_period",
                "budget_duration",
                "rpm_limit",
                "tpm_limit",
            ];
            self.of_entry(&spot, &KNOWN, "model_max_budget");
            let usd = spot.get("budget_limit").or_else(|| spot.get("max_budget"));
            let period = spot
                .get("time_period")
                .or_else(|| spot.get("budget_duration"));
            let fields = self.models.entry(model.to_owned()).or_default();
            let mut read = match &usd {
                Some(usd) => read_budget(usd, period.as_ref(), "model_max_budget")
                    .map(|(field, usd)| tighten_limit(fields, field, usd)),
                // A plain number was a budget for life.
                None if !spot.is_map() => {
                    Err(Bound::because("model_max_budget", "budgets", FOR_LIFE))
                }
                None => Ok(()),
            };
            for (theirs, ours) in NUMBERS {
                if let Some(spot) = spot.get(theirs) {
                    read = read
                        .and_then(|()| read_number(&spot, theirs))
                        .map(|number| tighten_limit(fields, ours, number));
                }
            }
            const MESSAGE: &str =
                "budgets count by the day or the calendar month in UTC, and begin at zero";
            self.note(&spot, read, Grade::Approximate, MESSAGE, notes);
        }
    }

    /// Adds the limits of some models for each key that may use them. A key that has limits of
    /// single models of its own has these only, as in LiteLLM.
    pub(super) fn of_groups(&mut self, known: &Known<'_, '_>, may: &[Globs; 2]) {
        let may_use = |name: &str| may.iter().all(|globs| globs.may_match(name));
        let usable: Vec<_> = known
            .for_each_key
            .iter()
            .filter(|group| may_use(&group.name))
            .collect();
        for field in ["requests_per_minute", "tokens_per_minute"] {
            if self
                .models
                .values()
                .any(|fields| fields.contains_key(field))
            {
                continue;
            }
            let limited = usable
                .iter()
                .filter_map(|group| Some((group, *group.of_keys.limits.get(field)?)));
            for (group, number) in limited {
                self.models
                    .entry(group.name.clone())
                    .or_default()
                    .insert(field, number);
            }
        }
        usable
            .iter()
            .flat_map(|group| &group.of_keys.bounds)
            .for_each(|bound| self.stop(bound.clone()));
    }

    /// Writes the limits of single models under the ids of the models that they count. Returns
    /// whether one of them counts no model that is here.
    pub(super) fn assign_to_models(&mut self, known: &Known<'_, '_>, may: &[Globs; 2]) -> bool {
        let all = std::mem::take(&mut self.models);
        let has_money = |name: &str| {
            all.get(name)
                .is_some_and(|fields| fields.keys().any(|field| MONEY.contains(field)))
        };
        let mut is_left_out = false;
        for (name, fields) in &all {
            for (field, number) in fields {
                let counted = match MONEY.contains(field) {
                    true => known.budgeted(name, may, has_money),
                    false => known.limited(name),
                };
                match counted.first() {
                    None => is_left_out = true,
                    Some(id) if counted.len() == 1 && !id.contains('*') => {
                        tighten_limit(
                            self.models.entry((*id).to_owned()).or_default(),
                            field,
                            *number,
                        );
                    }
                    Some(_) => {
                        let field = match MONEY.contains(field) {
                            true => "model_max_budget",
                            false => "model_rpm_limit",
                        };
                        const WHY: &str = "counts several models, or those of a pattern";
                        self.stop(Bound::because(field, "budgets", WHY));
                    }
                }
            }
        }
        is_left_out
    }

    /// Adds that a single budget has more fields than those that are known.
    fn of_entry(&mut self, entry: &Spot<'_>, known: &[&str], field: &str) {
        let entries = entry.entries();
        if entries
            .iter()
            .any(|(name, spot)| !known.contains(name) && !spot.is_empty())
        {
            const WHY: &str = "has a field that Portcullis does not know";
            self.stop(Bound::because(field, "unknown-fields", WHY));
        }
    }

    /// Reports a limit that was read, or keeps what bounds the key in its place.
    fn note(
        &mut self,
        spot: &Spot<'_>,
        read: Result<(), Bound>,
        grade: Grade,
        message: &str,
        notes: &mut Notes<'_>,
    ) {
        match read {
            Ok(()) => notes.add(spot, grade, message),
            Err(bound) => {
                notes.add(spot, Grade::Unsupported, &bound.why);
                self.stop(bound);
            }
        }
    }

    pub(super) fn stop(&mut self, bound: Bound) {
        if !self.bounds.contains(&bound) {
            self.bounds.push(bound);
        }
    }

    pub(super) fn has_money(&self) -> bool {
        MONEY.iter().any(|field| self.fields.contains_key(field))
    }

    /// Returns the models whose own limits count money.
    pub(super) fn money_models(&self) -> impl Iterator<Item = &str> {
        let has = |fields: &BTreeMap<&'static str, u64>| {
            MONEY.iter().any(|field| fields.contains_key(field))
        };
        self.models
            .iter()
            .filter(move |(_, fields)| has(fields))
            .map(|(model, _)| &**model)
    }

    /// Returns what was spent and since when it counts, if a limit counts it, and reports it.
    pub(super) fn carried(&mut self, findings: &mut Vec<Finding>) -> Option<(u64, Usd)> {
        let SpentOut {
            spot,
            usd,
            mut finding,
        } = self.spent.take()?;
        let counts = self.has_money();
        if !counts {
            "was spent from a budget that is dropped, so no limit counts it"
                .clone_into(&mut finding.message);
        }
        findings.push(finding);
        counts.then_some((spot, usd))
    }

    /// Takes all limits in money away.
    pub(super) fn drop_money(&mut self) {
        for fields in std::iter::once(&mut self.fields).chain(self.models.values_mut()) {
            fields.retain(|field, _| !MONEY.contains(field));
        }
    }

    /// Writes `limits`, if there are any.
    pub(super) fn out(&self) -> Option<New> {
        limits_value(&self.fields)
    }

    /// Writes `model_limits`, if there are any.
    pub(super) fn models_out(&self) -> Option<New> {
        let all: Vec<_> = self
            .models
            .iter()
            .filter_map(|(model, fields)| Some((model.clone(), limits_value(fields)?)))
            .collect();
        (!all.is_empty()).then_some(New::Map(all))
    }
}

fn limits_value(fields: &BTreeMap<&'static str, u64>) -> Option<New> {
    let one = |(field, number): (&&'static str, &u64)| {
        let text = if MONEY.contains(field) {
            format_usd(*number)
        } else {
            number.to_string()
        };
        ((*field).to_owned(), New::Number(text))
    };
    (!fields.is_empty()).then(|| New::Map(fields.iter().map(one).collect()))
}

/// Writes millionths of a US dollar.
fn format_usd(millionths: u64) -> String {
    let (whole, rest) = (millionths / 1_000_000, millionths % 1_000_000);
    if rest == 0 {
        whole.to_string()
    } else {
        format!("{whole}.{rest:06}")
            .trim_end_matches('0')
            .to_owned()
    }
}

const FOR_LIFE: &str = "is for life: there are budgets of a day and of a month only";

/// Reads a budget, in millionths of a US dollar, rounded down.
fn read_budget(
    spot: &Spot<'_>,
    period: Option<&Spot<'_>>,
    field: &str,
) -> Result<(&'static str, u64), Bound> {
    let (units, exact) = spot
        .amount()
        .and_then(|amount| amount.units(6))
        .ok_or_else(|| Bound::unreadable(field))?;
    let units = if exact { units } else { units - 1 };
    if units == 0 {
        return Err(Bound::firm(field, ZERO));
    }
    match period.and_then(Spot::text).map(str::trim) {
        Some("1d" | "24h" | "1440m" | "86400s" | "daily") => Ok(("usd_per_day", units)),
        Some("30d" | "1mo" | "monthly") => Ok(("usd_per_month", units)),
        Some(_) => {
            const WHY: &str = "is for another time than a day or a month";
            Err(Bound::because(field, "budgets", WHY))
        }
        None => Err(Bound::because(field, "budgets", FOR_LIFE)),
    }
}

/// Where the findings about a row go.
struct Notes<'n> {
    became: &'n str,
    findings: &'n mut Vec<Finding>,
}

impl Notes<'_> {
    fn add(&mut self, spot: &Spot<'_>, grade: Grade, message: &str) {
        self.findings
            .push(spot.finding(grade, self.became, message));
    }

    fn exact(&mut self, spot: Option<&Spot<'_>>) {
        self.findings
            .extend(spot.map(|spot| spot.finding(Grade::Exact, self.became, "")));
    }
}
