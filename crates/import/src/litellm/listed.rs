//! Prices of Portcullis' own list for entries whose name for the model, or whose address, does not
//! say which model it is: a deployment of Azure, a region of Vertex AI.

use super::draft::Draft;
use super::node::Spot;
use crate::notes::{Finding, Grade};
use portcullis::conf::price::{Price, Rates, list};
use portcullis::conf::yaml::edit::New;

const NO_PRICE: &str = "Portcullis' list of prices has no such model: write `price` at the target";
const KNOWN: &str = "Portcullis knows the price by the account and its name for the model";
const OF_REGION: &str =
    "has the price of Vertex AI's global address: in some regions some models cost more";
const OF_DEPLOYMENT: &str = "has the price of OpenAI's model that is called as the deployment is";

/// Returns the price to write at the target of an entry. `entry` is its name and its `base_model`.
pub(super) fn list_price(
    draft: &Draft,
    model: &str,
    (name, base_model): (&Spot<'_>, Option<&Spot<'_>>),
    became: &str,
    findings: &mut Vec<Finding>,
) -> Option<New> {
    if let Some(spot) = base_model {
        return of_base_model(draft, model, spot, became, findings);
    }
    let (price, message) = match (draft.text("dialect"), draft.text("location")) {
        (Some("azure"), _) => (find_listed("openai", model), OF_DEPLOYMENT),
        (Some("vertex"), Some(location)) if location != "global" => {
            (find_listed("vertex", model), OF_REGION)
        }
        (_, _) => return None,
    };
    if price.is_some() {
        findings.push(name.finding(Grade::Approximate, became, message));
    }
    price
}

/// Returns the price of the model that an entry names as its `base_model`, such as
/// `azure/gpt-4o-2024-08-06`.
fn of_base_model(
    draft: &Draft,
    model: &str,
    spot: &Spot<'_>,
    became: &str,
    findings: &mut Vec<Finding>,
) -> Option<New> {
    if is_known(draft, model) {
        findings.push(spot.finding(Grade::Exact, became, KNOWN));
        return None;
    }
    let named = spot
        .text()
        .map(|name| name.split_once('/').unwrap_or(("openai", name)));
    let price = named.and_then(|(provider, model)| find_listed(provider_in_list(provider), model));
    let (grade, message) = match &price {
        Some(_) => (
            Grade::Approximate,
            format!(
                "has the price of this model in Portcullis' list of {}",
                list::price_date()
            ),
        ),
        None => (Grade::Manual, NO_PRICE.to_owned()),
    };
    findings.push(spot.finding(grade, became, message));
    price
}

/// Returns whether the gateway finds the price by itself.
fn is_known(draft: &Draft, model: &str) -> bool {
    let provider = draft.text("preset").or(draft.text("dialect"));
    let is_at_provider = draft.text("base_url").is_none()
        && draft.text("location").is_none_or(|spot| spot == "global");
    is_at_provider && provider.is_some_and(|provider| list::find_price(provider, model).is_some())
}

/// Returns the list's word for a provider. What runs at Azure costs what it costs at OpenAI.
fn provider_in_list(word: &str) -> &str {
    match word {
        "azure" => "openai",
        "vertex_ai" => "vertex",
        _ => word,
    }
}

fn find_listed(provider: &str, model: &str) -> Option<New> {
    list::find_price(provider, model).and_then(price_value)
}

/// Writes a price as the catalog has it.
fn price_value(price: Price) -> Option<New> {
    let mut fields = fields_of(&price.rates?);
    if let Some(long) = price.long {
        let above = ("above".to_owned(), New::Number(long.above.to_string()));
        let rates = std::iter::once(above)
            .chain(fields_of(&long.rates))
            .collect();
        fields.push(("long".to_owned(), New::Map(rates)));
    }
    Some(New::Map(fields))
}

fn fields_of(rates: &Rates) -> Vec<(String, New)> {
    let optional = |field: &str, rate: u64, default: u64| {
        (rate != default).then(|| (field.to_owned(), format_dollars(rate)))
    };
    let mut fields = vec![
        ("input".to_owned(), format_dollars(rates.input)),
        ("output".to_owned(), format_dollars(rates.output)),
    ];
    fields.extend(optional("cached_input", rates.cached_input, rates.input));
    fields.extend(optional("cache_write", rates.cache_write, rates.input));
    fields.extend(optional("thinking", rates.thinking, rates.output));
    fields
}

/// Writes millionths of a dollar as dollars.
fn format_dollars(millionths: u64) -> New {
    let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    New::Number(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}
