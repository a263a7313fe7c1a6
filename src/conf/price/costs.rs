//! The costs of a price in words, by their names in the catalog.

use super::{Each, LongPrices, Million, Price};

/// The names of all costs.
pub const COSTS: [&str; 10] = [
    "input",
    "output",
    "cached_input",
    "cache_write",
    "thinking",
    "per_request",
    "per_image",
    "per_second",
    "per_character",
    "long",
];

/// Lists the costs of a price, each with its name in the catalog.
pub fn named_costs(price: &Price) -> Vec<(&'static str, String)> {
    COSTS
        .into_iter()
        .zip(cost_texts(Some(price)))
        .filter(|(_, cost)| cost != "-")
        .collect()
}

/// Writes the costs in the order of [`COSTS`].
pub fn cost_texts(price: Option<&Price>) -> [String; 10] {
    let dash = || "-".to_owned();
    let Some(Price {
        rates,
        per_request,
        per_image,
        per_second,
        per_character,
        long,
    }) = price
    else {
        return std::array::from_fn(|_| dash());
    };
    let rate = |rate: Option<u64>| rate.map_or_else(dash, |usd| Million(usd).to_string());
    let each = |price: &Option<Each>| price.map_or_else(dash, |price| price.to_string());
    let long = long.map_or_else(dash, |LongPrices { above, rates }| {
        let [input, output, cached, written] = [
            rates.input,
            rates.output,
            rates.cached_input,
            rates.cache_write,
        ]
        .map(Million);
        format!("above {above}: {input} {output} {cached} {written}")
    });
    [
        rate(rates.map(|rates| rates.input)),
        rate(rates.map(|rates| rates.output)),
        rate(rates.map(|rates| rates.cached_input)),
        rate(rates.map(|rates| rates.cache_write)),
        rate(rates.map(|rates| rates.thinking)),
        per_request.map_or_else(dash, |usd| usd.to_string()),
        each(per_image),
        each(per_second),
        each(per_character),
        long,
    ]
}
