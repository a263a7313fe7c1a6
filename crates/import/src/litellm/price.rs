//! The price of an entry: LiteLLM writes US dollars for a token, we for a million.

use super::node::Spot;
use crate::notes::{Finding, Grade};
use portcullis::conf::yaml::edit::New;

/// The fields that have a counterpart.
const FIELDS: [(&str, &str); 5] = [
    ("input_cost_per_token", "input"),
    ("output_cost_per_token", "output"),
    ("cache_read_input_token_cost", "cached_input"),
    ("cache_creation_input_token_cost", "cache_write"),
    ("output_cost_per_reasoning_token", "thinking"),
];

/// The thresholds for which LiteLLM has prices.
const LONG: [(&str, u32); 4] = [
    ("_above_128k_tokens", 128_000),
    ("_above_200k_tokens", 200_000),
    ("_above_272k_tokens", 272_000),
    ("_above_512k_tokens", 512_000),
];

/// The fields of a price that a place has, taken out of it one by one.
pub(super) type Take<'t, 'a> = dyn FnMut(&str) -> Option<Spot<'a>> + 't;

/// Makes the price of a target, if one is written. All findings become part of `became`.
pub(super) fn read_price<'a>(
    take: &mut Take<'_, 'a>,
    became: &str,
    findings: &mut Vec<Finding>,
) -> Option<New> {
    let plain = read_rates(take, "", findings, became);
    let long = LONG.iter().find_map(|(end, above)| {
        let (fields, places) = read_rates(take, end, findings, became)?;
        Some((*above, fields, places))
    });
    let Some((mut fields, places)) = plain else {
        for spot in long.iter().flat_map(|(_, _, places)| places) {
            findings.push(spot.finding(
                Grade::Manual,
                became,
                "needs `input` and `output` too: write `price` by hand",
            ));
        }
        return None;
    };
    let is_whole = |fields: &[(String, New)]| {
        ["input", "output"]
            .iter()
            .all(|needed| fields.iter().any(|(field, _)| field == needed))
    };
    if !is_whole(&fields) {
        const MESSAGE: &str = "a price here has `input` and `output`, and only a part of it is written: write `price` by hand, or the price \
                            of Portcullis' own list is used";
        let all = places
            .iter()
            .chain(long.iter().flat_map(|(_, _, places)| places));
        findings.extend(all.map(|spot| spot.finding(Grade::Manual, became, MESSAGE)));
        return None;
    }
    findings.extend(
        places
            .iter()
            .map(|spot| spot.finding(Grade::Exact, became, "")),
    );
    if let Some((above, rates, places)) = long {
        if is_whole(&rates) {
            let above = ("above".to_owned(), New::Number(above.to_string()));
            fields.push((
                "long".to_owned(),
                New::Map(std::iter::once(above).chain(rates).collect()),
            ));
            findings.extend(
                places
                    .iter()
                    .map(|spot| spot.finding(Grade::Exact, became, "")),
            );
        } else {
            const MESSAGE: &str = "`long` needs `input` and `output`: write it by hand";
            findings.extend(
                places
                    .iter()
                    .map(|spot| spot.finding(Grade::Manual, became, MESSAGE)),
            );
        }
    }
    Some(New::Map(fields))
}

/// Reads the rates whose fields end so. Returns `None` if none is written.
#[expect(clippy::type_complexity, reason = "the fields, and where they stand")]
fn read_rates<'a>(
    take: &mut Take<'_, 'a>,
    end: &str,
    findings: &mut Vec<Finding>,
    became: &str,
) -> Option<(Vec<(String, New)>, Vec<Spot<'a>>)> {
    let (mut fields, mut places) = (Vec::new(), Vec::new());
    for (theirs, ours) in FIELDS {
        let Some(spot) = take(&format!("{theirs}{end}")) else {
            continue;
        };
        match spot.amount().and_then(|amount| amount.million().text()) {
            Some((million, exact)) => {
                fields.push((ours.to_owned(), New::Number(million)));
                if exact {
                    places.push(spot);
                } else {
                    findings.push(spot.finding(
                        Grade::Approximate,
                        became,
                        "is rounded up to six decimals",
                    ));
                }
            }
            None => findings.push(spot.finding(
                Grade::Manual,
                became,
                "is no price: write `price` by hand",
            )),
        }
    }
    (!fields.is_empty()).then_some((fields, places))
}
