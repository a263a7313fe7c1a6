//! The price of an entry: LiteLLM writes US dollars for a token, we for a million. Entries whose
//! name for the model, or whose address, does not show which model it is have a price of
//! Portcullis' own list: a deployment of Azure, a region of Vertex AI.

use super::account::Draft;
use super::entry::Entry;
use super::node::Spot;
use crate::notes::Grade;
use crate::write::Fields;
use portcullis::conf::price::{Million, Rates, list};
use portcullis::conf::yaml::edit::NewValue;

/// The fields that have a counterpart.
const FIELDS: [(&str, &str); 5] = [
    ("input_cost_per_token", "input"),
    ("output_cost_per_token", "output"),
    ("cache_read_input_token_cost", "cached_input"),
    ("cache_creation_input_token_cost", "cache_write"),
    ("output_cost_per_reasoning_token", "thinking"),
];

/// The thresholds for which LiteLLM has prices.
const LONG: [(&str, u64); 4] = [
    ("_above_128k_tokens", 128_000),
    ("_above_200k_tokens", 200_000),
    ("_above_272k_tokens", 272_000),
    ("_above_512k_tokens", 512_000),
];

/// Rates that belong together, and where they stand.
struct RatesOut<'a> {
    fields: Fields,
    spots: Vec<Spot<'a>>,
}

/// Makes the price of a target, if one is written.
pub(super) fn read_price(entry: &mut Entry<'_>) -> Option<NewValue> {
    const PARTIAL: &str = "is only a part of a price, which has `input` and `output`: write `price` by hand, or that of Portcullis' own list counts";
    const PARTIAL_LONG: &str = "`long` needs `input` and `output`: write it by hand";
    let plain = RatesOut::read(entry, "");
    let mut lengths = LONG.into_iter();
    let long = lengths.find_map(|(end, above)| Some((above, RatesOut::read(entry, end)?)));
    let Some(price) = plain.as_ref().filter(|price| price.is_whole()) else {
        for rates in plain.iter().chain(long.iter().map(|(_, rates)| rates)) {
            rates.report(Grade::Manual, PARTIAL);
        }
        return None;
    };
    price.report(Grade::Exact, "");
    let mut whole = None;
    if let Some((above, rates)) = long {
        if rates.is_whole() {
            rates.report(Grade::Exact, "");
            whole = Some((above, rates.fields));
        } else {
            rates.report(Grade::Manual, PARTIAL_LONG);
        }
    }
    price_map(plain?.fields, whole)
}

/// Writes a price: its rates, and those above a number of tokens.
fn price_map(mut fields: Fields, long: Option<(u64, Fields)>) -> Option<NewValue> {
    if let Some((above, rates)) = long {
        let mut long = Fields::default();
        long.set("above", above);
        long.0.extend(rates.0);
        fields.set_some("long", long.map());
    }
    fields.map()
}

impl<'a> RatesOut<'a> {
    /// Reads the rates whose fields end so. Returns `None` if none is written.
    fn read(entry: &mut Entry<'a>, end: &str) -> Option<Self> {
        let (mut fields, mut spots) = (Fields::default(), Vec::new());
        for (theirs, ours) in FIELDS {
            let Some(spot) = entry.take(&format!("{theirs}{end}")) else {
                continue;
            };
            // Millionths of a US dollar, for a million tokens.
            let Some((rate, is_exact)) = spot.amount().and_then(|usd| usd.units(12)) else {
                spot.report_manual("is no price: write `price` by hand");
                continue;
            };
            fields.set(ours, NewValue::Number(Million(rate).to_string()));
            if is_exact {
                spots.push(spot);
            } else {
                spot.report_approximate("is rounded up to six decimals");
            }
        }
        (!fields.0.is_empty()).then_some(Self { fields, spots })
    }

    fn is_whole(&self) -> bool {
        let has = |field: &str| self.fields.0.iter().any(|(name, _)| name == field);
        has("input") && has("output")
    }

    fn report(&self, grade: Grade, message: &str) {
        for spot in &self.spots {
            spot.report(grade, message);
        }
    }
}

/// Returns the price to write at the target of an entry: that of its `base_model`, such as
/// `azure/gpt-4o-2024-08-06`, or else of its name for the model.
pub(super) fn list_price(
    draft: &Draft,
    model: &str,
    name: &Spot<'_>,
    base_model: Option<&Spot<'_>>,
) -> Option<NewValue> {
    const KNOWN: &str = "Portcullis knows the price by the account and its name for the model";
    const NO_PRICE: &str =
        "Portcullis' list of prices has no such model: write `price` at the target";
    const LISTED: &str =
        "has the price in Portcullis' list: a deployment or a region may cost more";
    if let Some(spot) = base_model.filter(|_| is_known(draft, model)) {
        spot.report(Grade::Exact, KNOWN);
        return None;
    }
    let base = base_model.map(|spot| spot.text().unwrap_or_default());
    let base = base.map(|base| base.split_once('/').unwrap_or(("openai", base)));
    let field = |field: &str| draft.fields.text(field);
    let (provider, model) = match (base, field("dialect"), field("location")) {
        // What runs at Azure costs what it costs at OpenAI.
        (Some(("azure", base)), ..) => ("openai", base),
        (Some(("vertex_ai", base)), ..) => ("vertex", base),
        (Some(base), ..) => base,
        (None, Some("azure"), _) => ("openai", model),
        (None, Some("vertex"), Some(location)) if location != "global" => ("vertex", model),
        (None, ..) => return None,
    };
    let price = price_value(provider, model);
    let spot = base_model.unwrap_or(name);
    match price {
        Some(_) => spot.report_approximate(LISTED),
        None if base_model.is_some() => spot.report_manual(NO_PRICE),
        None => {}
    }
    price
}

/// Returns whether the gateway finds the price by itself.
fn is_known(draft: &Draft, model: &str) -> bool {
    let field = |field: &str| draft.fields.text(field);
    let provider = field("preset").or(field("dialect"));
    field("base_url").is_none()
        && field("location").is_none_or(|location| location == "global")
        && provider.is_some_and(|provider| list::find_price(provider, model).is_some())
}

/// Writes a price of the list as the catalog has it.
fn price_value(provider: &str, model: &str) -> Option<NewValue> {
    let price = list::find_price(provider, model)?;
    let long = price.long;
    let long = long.map(|long| (long.above, rate_fields(&long.rates)));
    price_map(rate_fields(&price.rates?), long)
}

fn rate_fields(rates: &Rates) -> Fields {
    let mut fields = Fields::default();
    for (field, rate, default) in [
        ("input", rates.input, None),
        ("output", rates.output, None),
        ("cached_input", rates.cached_input, Some(rates.input)),
        ("cache_write", rates.cache_write, Some(rates.input)),
        ("thinking", rates.thinking, Some(rates.output)),
    ] {
        if Some(rate) != default {
            fields.set(field, NewValue::Number(Million(rate).to_string()));
        }
    }
    fields
}
