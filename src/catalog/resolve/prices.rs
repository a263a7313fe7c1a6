//! What targets cost, and who must know it.

use super::Report;
use crate::catalog::{Account, raw};
use crate::dialect::Dialect;
use crate::price::{Long, Origin, Price, Usd, list};
use crate::units::Decimal;
use crate::yaml::Path;

/// A price as written; nothing where something is missing.
pub(super) fn read(written: Option<&raw::Price>, file: usize, at: &Path<'_>, report: &mut Report<'_>) -> Option<Price> {
    let raw = written?;
    let input = required(raw.input, file, &at.key("input"), report);
    let output = required(raw.output, file, &at.key("output"), report);
    let long = read_long(raw.long.as_ref(), file, &at.key("long"), report);
    let (input, output) = input.zip(output)?;
    Some(Price {
        input,
        output,
        cached_input: or(raw.cached_input, input),
        cache_write: or(raw.cache_write, input),
        thinking: or(raw.thinking, output),
        per_request: Usd::of_millionths(or(raw.per_request, 0)),
        long,
    })
}

fn read_long(written: Option<&raw::LongPrice>, file: usize, at: &Path<'_>, report: &mut Report<'_>) -> Option<Long> {
    let raw = written?;
    let at_above = at.key("above");
    match raw.above {
        None => report.missing(file, &at_above, "is missing: prompts of more tokens than this are long"),
        Some(0) => report.problem(file, &at_above, "must be at least 1; a price for all prompts is written without `long`"),
        Some(_) => {}
    }
    let input = required(raw.input, file, &at.key("input"), report);
    let output = required(raw.output, file, &at.key("output"), report);
    let (input, output) = input.zip(output)?;
    Some(Long {
        above: raw.above?,
        input,
        output,
        cached_input: or(raw.cached_input, input),
        cache_write: or(raw.cache_write, input),
        thinking: or(raw.thinking, output),
    })
}

fn required(written: Option<Decimal>, file: usize, at: &Path<'_>, report: &mut Report<'_>) -> Option<u64> {
    if written.is_none() {
        report.missing(file, at, "is missing: dollars for a million tokens, `0` where they cost nothing");
    }
    written.map(|Decimal(millionths)| millionths)
}

fn or(written: Option<Decimal>, other: u64) -> u64 {
    written.map_or(other, |Decimal(millionths)| millionths)
}

/// The target's own price, or else the model's, or else what is known of the provider.
pub(super) fn of_target(own: Option<Price>, of_model: Option<Price>, account: &Account, model: &str) -> Option<(Price, Origin)> {
    let written = own.map(|price| (price, Origin::Target)).or(of_model.map(|price| (price, Origin::Model)));
    written.or_else(|| known(account, model))
}

fn known(account: &Account, model: &str) -> Option<(Price, Origin)> {
    match &account.dialect {
        Dialect::Demo => Some((Price::FREE, Origin::Demo)),
        // Elsewhere than at the global location some models cost more.
        Dialect::Vertex { location, .. } if **location != *"global" => None,
        // Deployments have names of their own; and what runs on one's own machine costs what it costs.
        Dialect::Azure(_) | Dialect::Ollama => None,
        Dialect::OpenAi(_) | Dialect::Anthropic | Dialect::Gemini | Dialect::Vertex { .. } | Dialect::Bedrock(_) | Dialect::Cohere => {
            list::find(list::provider(&account.base.host)?, model).map(|price| (price, Origin::List))
        }
    }
}
