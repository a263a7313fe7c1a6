//! `portcullis prices` prints the prices of models: those of the list that comes with Portcullis,
//! or those of a catalog.

use std::process::ExitCode;

use super::{PricesArgs, print_result};
use portcullis::base::table::format_columns;
use portcullis::catalog::Catalog;
use portcullis::catalog::load::{Secrets, read_catalog};
use portcullis::conf::price::costs::{COSTS, cost_texts};
use portcullis::conf::price::{Price, list};

/// Prints the list, or the prices of a catalog.
pub(super) fn run(args: &PricesArgs) -> Result<ExitCode, String> {
    let Some(conf) = &args.conf else {
        return Ok(print_result(&listed_prices()));
    };
    let catalog = read_catalog(conf, Secrets::StandIns)
        .catalog
        .map_err(|problems| problems.to_string())?;
    Ok(print_result(&catalog_prices(&catalog)))
}

fn listed_prices() -> String {
    let rows = list::all_prices().iter().map(|listed| {
        let names = [listed.provider, listed.model];
        (names, Some(&listed.price))
    });
    format!(
        "{}\nPrices are in US dollars per million tokens, as of {}. A `price` in the catalog overrides them.\n",
        price_table(["provider", "model"], rows),
        list::price_date()
    )
}

fn catalog_prices(catalog: &Catalog) -> String {
    let targets = catalog
        .models()
        .iter()
        .flat_map(|model| model.targets.iter().map(move |target| (model, target)));
    let rows = targets.map(|(model, target)| {
        let from = target.price_from.map_or("unknown", |from| from.name());
        let names = [&*model.id, &*target.account.id, &*target.model, from];
        (names, target.price.as_ref())
    });
    format!(
        "{}\nPrices are in US dollars per million tokens. The list that comes with Portcullis is as of {}.\n",
        price_table(["model", "account", "upstream model", "from"], rows),
        list::price_date()
    )
}

/// Writes a table of names and the costs of each.
fn price_table<'p, const N: usize>(
    head: [&str; N],
    rows: impl Iterator<Item = ([&'p str; N], Option<&'p Price>)>,
) -> String {
    let head = head.into_iter().chain(COSTS).map(str::to_owned).collect();
    let rows = rows.map(|(names, price)| {
        let names = names.into_iter().map(str::to_owned);
        names.chain(cost_texts(price)).collect::<Vec<_>>()
    });
    format_columns(std::iter::once(head).chain(rows), usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis::catalog::resolve::resolve_catalog;

    #[test]
    fn the_list_is_dated_and_stands_in_columns() {
        let text = listed_prices();
        let (rows, note) = text.split_once("\n\n").expect("a note");
        let rows: Vec<&str> = rows.lines().collect();
        assert_eq!(rows.len(), list::all_prices().len() + 1);
        let column = rows[0].find("input").expect("a head");
        assert!(
            rows.iter().all(|row| row.as_bytes()[column - 1] == b' '
                && row.as_bytes()[column] != b' '
                && !row.ends_with(' ')),
            "{text}"
        );
        let mini = rows
            .iter()
            .find(|row| row.contains(" gpt-4o-mini "))
            .expect("it is listed");
        assert_eq!(
            mini.split_whitespace().collect::<Vec<_>>(),
            [
                "openai",
                "gpt-4o-mini",
                "0.15",
                "0.6",
                "0.075",
                "0.15",
                "0.6",
                "-",
                "-",
                "-",
                "-",
                "-"
            ]
        );
        assert!(rows.iter().any(|row| row.contains(" gemini-2.5-pro ")
            && row.ends_with("above 200000: 2.5 15 0.25 2.5")));
        assert!(note.contains(list::price_date()), "{note}");
    }

    #[test]
    fn a_catalogs_targets_are_told_with_price_sources() {
        let text = "accounts:\n  o: {dialect: openai, key: {env: K}}\n  v: {dialect: openai, preset: vllm}\n  d: {dialect: demo}\n\
                    models:\n  m: {targets: [{account: o, model: gpt-4o-mini}, {account: v}, {account: v, model: x, price: {input: 1, output: 2, per_request: 0.001}}, {account: d}]}\n  \
                    n: {targets: [{account: o, model: gpt-4o}], price: {per_image: 0.04, per_character: 15e-6}}\ncallers: {}\n";
        let catalog = resolve_catalog(&[("catalog.yaml".to_owned(), text.to_owned())], &mut |_| {
            Ok("key".to_owned())
        })
        .expect("it is right");
        let text = catalog_prices(&catalog);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip(1)
            .take(5)
            .map(|row| row.split_whitespace().collect())
            .collect();
        assert_eq!(
            rows,
            [
                [
                    "m",
                    "o",
                    "gpt-4o-mini",
                    "list",
                    "0.15",
                    "0.6",
                    "0.075",
                    "0.15",
                    "0.6",
                    "-",
                    "-",
                    "-",
                    "-",
                    "-"
                ],
                [
                    "m", "v", "m", "unknown", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"
                ],
                [
                    "m", "v", "x", "target", "1", "2", "1", "1", "2", "0.001", "-", "-", "-", "-"
                ],
                [
                    "m", "d", "m", "demo", "0", "0", "0", "0", "0", "0", "0", "0", "0", "-"
                ],
                [
                    "n", "o", "gpt-4o", "model", "-", "-", "-", "-", "-", "-", "0.04", "-",
                    "0.000015", "-"
                ],
            ],
            "{text}"
        );
    }
}
