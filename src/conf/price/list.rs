//! The list of prices that comes with Portcullis: the prices of well-known models on one day. The
//! catalog overrides it.
//!
//! The list has exact names only. The price of a name that is not in the list is unknown, even if
//! the name looks like one that is.

use std::sync::LazyLock;

use super::{LongPrices, Price, Rates};
use crate::base::units::Decimal;

const TEXT: &str = include_str!("list.csv");

static LIST: LazyLock<Vec<ListedPrice>> =
    LazyLock::new(|| csv_rows().filter_map(parse_row).collect());

/// The price of a model at its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedPrice {
    /// The provider: see `dialects::upstream::servers`.
    pub provider: &'static str,
    /// The model's name at the provider.
    pub model: &'static str,
    /// The price.
    pub price: Price,
}

/// Returns the whole list, sorted by provider and model.
pub fn all_prices() -> &'static [ListedPrice] {
    &LIST
}

/// Returns the price of a provider's model with this name.
pub fn find_price(provider: &str, model: &str) -> Option<Price> {
    let found = LIST
        .binary_search_by(|listed| (listed.provider, listed.model).cmp(&(provider, model)))
        .ok()?;
    LIST.get(found).map(|listed| listed.price)
}

/// Returns the day of these prices, such as 2026-01-31.
pub fn price_date() -> &'static str {
    TEXT.lines()
        .filter_map(|line| line.strip_prefix("# "))
        .find(|line| line.starts_with("20"))
        .unwrap_or_default()
}

fn csv_rows() -> impl Iterator<Item = &'static str> {
    TEXT.lines().filter(|line| !line.starts_with('#')).skip(1)
}

/// Reads a row; `None` if the text is no row. A test reads all rows.
fn parse_row(line: &'static str) -> Option<ListedPrice> {
    let cells: Vec<&str> = line.split(',').collect();
    let [
        provider,
        model,
        input,
        output,
        cached_input,
        cache_write,
        above,
        long @ ..,
    ] = cells.as_slice()
    else {
        return None;
    };
    let long = match *above {
        "" => None,
        above => Some(LongPrices {
            above: above.parse().ok()?,
            rates: parse_rates(long.try_into().ok()?)?,
        }),
    };
    let rates = Some(parse_rates([input, output, cached_input, cache_write])?);
    let price = Price {
        rates,
        long,
        ..Price::default()
    };
    Some(ListedPrice {
        provider,
        model,
        price,
    })
}

/// Reads what a million tokens cost that are read, are written, come out of the cache, or go into
/// it. Where one of the last two is empty, it is the first.
fn parse_rates(cells: [&str; 4]) -> Option<Rates> {
    let [input, output, cached_input, cache_write] = cells;
    let or_input = |cell: &str| parse_number(if cell.is_empty() { input } else { cell });
    let output = parse_number(output)?;
    Some(Rates {
        input: parse_number(input)?,
        output,
        cached_input: or_input(cached_input)?,
        cache_write: or_input(cache_write)?,
        thinking: output,
    })
}

fn parse_number(cell: &str) -> Option<u64> {
    cell.parse().ok().map(|Decimal(millionths)| millionths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::Time;
    use dialects::neutral::ModelKind;
    use dialects::presets;
    use dialects::upstream::servers::listed_provider;

    #[test]
    fn every_row_is_read_and_none_stands_twice() {
        assert_eq!(all_prices().len(), csv_rows().count());
        assert!(all_prices().len() > 200, "{}", all_prices().len());
        for pair in all_prices().windows(2) {
            assert!(
                (pair[0].provider, pair[0].model) < (pair[1].provider, pair[1].model),
                "{:?}",
                pair[1]
            );
        }
        for listed in all_prices() {
            assert_eq!(
                find_price(listed.provider, listed.model),
                Some(listed.price)
            );
            assert!(!listed.model.ends_with("latest"), "{}", listed.model);
            let Price { rates, long, .. } = listed.price;
            let Rates {
                input,
                output,
                cached_input,
                cache_write,
                ..
            } = rates.unwrap();
            // Vectors are not written.
            let gives_vectors = ModelKind::of_name(listed.model) == Some(ModelKind::Embedding);
            assert!(
                if gives_vectors {
                    output == 0
                } else {
                    output >= input
                },
                "{listed:?}"
            );
            assert!(
                input > 0 && cached_input <= input && cache_write >= input,
                "{listed:?}"
            );
            if let Some(long) = long {
                let each = long.rates;
                assert!(
                    long.above >= 100_000
                        && each.input > input
                        && each.output > output
                        && each.cached_input > cached_input
                );
                assert!(
                    each.cache_write >= each.input && each.cached_input < each.input,
                    "{listed:?}"
                );
            }
        }
        assert!(price_date().parse::<Time>().is_ok(), "{}", price_date());
    }

    #[test]
    fn some_prices_that_everybody_knows() {
        let check = |provider, model, input, output, cached_input, cache_write| {
            let price = find_price(provider, model).unwrap_or_else(|| panic!("{model} is listed"));
            let Rates {
                input: read,
                output: said,
                cached_input: cached,
                cache_write: written,
                ..
            } = price.rates.unwrap();
            let told = [read, said, cached, written];
            assert_eq!(told, [input, output, cached_input, cache_write], "{model}");
        };
        check("openai", "gpt-4o-mini", 150_000, 600_000, 75_000, 150_000);
        check(
            "openai",
            "gpt-4o-2024-05-13",
            5_000_000,
            15_000_000,
            5_000_000,
            5_000_000,
        );
        check(
            "openai", "gpt-4.1", 2_000_000, 8_000_000, 500_000, 2_000_000,
        );
        check(
            "anthropic",
            "claude-haiku-4-5",
            1_000_000,
            5_000_000,
            100_000,
            1_250_000,
        );
        check(
            "bedrock",
            "eu.anthropic.claude-sonnet-4-6",
            3_300_000,
            16_500_000,
            330_000,
            4_125_000,
        );
        check(
            "openai",
            "text-embedding-3-small",
            20_000,
            0,
            20_000,
            20_000,
        );
        check("cohere", "embed-v4.0", 120_000, 0, 120_000, 120_000);
        check(
            "gemini",
            "gemini-2.5-pro",
            1_250_000,
            10_000_000,
            125_000,
            1_250_000,
        );
        let LongPrices { above, rates } = find_price("gemini", "gemini-2.5-pro")
            .unwrap()
            .long
            .unwrap();
        assert_eq!(
            (above, rates.input, rates.output, rates.cached_input),
            (200_000, 2_500_000, 15_000_000, 250_000)
        );
    }

    #[test]
    fn nothing_is_guessed() {
        for (provider, model) in [
            ("openai", "gpt-4o-"),
            ("openai", "gpt-4o-2099-01-01"),
            ("openai", "GPT-4O"),
            ("azure", "gpt-4o"),
            ("anthropic", "claude"),
            ("bedrock", "claude-haiku-4-5"),
        ] {
            assert_eq!(find_price(provider, model), None, "{model}");
        }
        for host in [
            "",
            "openai.com",
            "eu.api.openai.com",
            "api.openai.com.evil.example",
            "europe-west4-aiplatform.googleapis.com",
        ] {
            assert_eq!(listed_provider(host), None, "{host}");
        }
    }

    #[test]
    fn every_provider_in_the_list_has_an_address() {
        let hosts = presets::ALL
            .iter()
            .filter_map(|preset| preset.base_url.strip_prefix("https://")?.split('/').next());
        let others = [
            "api.anthropic.com",
            "generativelanguage.googleapis.com",
            "aiplatform.googleapis.com",
            "api.cohere.com",
        ];
        let hosts: Vec<_> = hosts
            .chain(others)
            .chain(["bedrock-runtime.eu-west-1.amazonaws.com"])
            .collect();
        for listed in all_prices() {
            assert!(
                hosts
                    .iter()
                    .any(|host| listed_provider(host) == Some(listed.provider)),
                "{}",
                listed.provider
            );
        }
    }
}
