//! Writes an answer as a table, as CSV or as JSON. Pure.

use super::{Answer, Column, Group, Used};
use crate::base::calendar::format_time;
use crate::base::table::format_columns;
use crate::conf::price::Usd;
use serde_json::{Map, Value, json};

impl Used {
    /// Lists the columns: for each its name for programs, its name in the table for people (empty
    /// if the table lacks the column), and its value. An unknown value is null. Amounts of money
    /// are texts, since a program would read a number as a float.
    fn columns(&self) -> [(&'static str, &'static str, Value); 19] {
        let count = |column: Column| Value::from(self.sums[column]);
        let (cost, cost_known) = self.money(Column::Cost, Column::Unpriced);
        let (unused_cost, unused_cost_known) =
            self.money(Column::UnusedCost, Column::UnusedUnpriced);
        [
            ("requests", "requests", count(Column::Requests)),
            ("failed", "failed", self.failed.into()),
            ("prompt_tokens", "prompt", count(Column::Prompt)),
            ("completion_tokens", "completion", count(Column::Completion)),
            ("cached_tokens", "cached", count(Column::Cached)),
            ("cache_write_tokens", "", count(Column::CacheWrite)),
            ("reasoning_tokens", "reasoning", count(Column::Reasoning)),
            ("total_tokens", "total", self.sums.tokens().into()),
            ("images", "images", count(Column::Images)),
            ("audio_ms", "audio_ms", count(Column::Millis)),
            ("characters", "characters", count(Column::Characters)),
            ("estimated_requests", "estimated", count(Column::Estimated)),
            ("cost_usd", "USD", cost.into()),
            ("cost_known", "", cost_known.into()),
            ("unpriced_requests", "unpriced", count(Column::Unpriced)),
            ("unused_tokens", "unused", count(Column::UnusedTokens)),
            ("unused_cost_usd", "", unused_cost.into()),
            ("unused_cost_known", "", unused_cost_known.into()),
            (
                "unused_unpriced_requests",
                "",
                count(Column::UnusedUnpriced),
            ),
        ]
    }

    /// Returns the known part of a sum of money, and whether all, a part or none of the sum is
    /// known. A request that costs nothing, such as a failed one, says nothing about the cost of
    /// others.
    fn money(&self, sum: Column, unpriced: Column) -> (Option<String>, &'static str) {
        match (self.sums[sum], self.sums[unpriced]) {
            (sum, 0) => (Some(Usd(sum).to_string()), "all"),
            (0, _) => (None, "none"),
            (sum, _) => (Some(Usd(sum).to_string()), "part"),
        }
    }

    /// Writes the cost for people.
    fn shown_cost(&self) -> String {
        match self.money(Column::Cost, Column::Unpriced) {
            (Some(usd), "part") => format!(">={usd}"),
            (usd, _) => usd.unwrap_or_else(|| "unknown".to_owned()),
        }
    }
}

/// Writes a value as a cell of a table. Null becomes an empty cell.
fn cell_text(value: &Value) -> String {
    if value.is_null() {
        return String::new();
    }
    value
        .as_str()
        .map_or_else(|| value.to_string(), ToOwned::to_owned)
}

impl Answer {
    /// Writes a table for people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "usage from {} to {}\n",
            format_time(self.since),
            format_time(self.until)
        );
        for note in &self.notes {
            text.push_str(&format!("note: {note}\n"));
        }
        text.push('\n');
        if self.lines.is_empty() {
            text.push_str("no requests\n");
            return text;
        }
        // Most have neither pictures nor sound.
        let is_rare = |name: &str| matches!(name, "images" | "audio_ms" | "characters");
        let columns_of_all = self.total.columns().into_iter();
        let hidden: Vec<&str> = columns_of_all
            .filter(|(name, short, value)| short.is_empty() || (is_rare(name) && *value == 0))
            .map(|(name, ..)| name)
            .collect();
        let is_shown = |(name, ..): &(&str, &str, Value)| !hidden.contains(name);
        let shown = |used: &Used| used.columns().into_iter().filter(is_shown);
        let head = self
            .by
            .iter()
            .map(|group| group.name())
            .chain(shown(&self.total).map(|(_, short, _)| short));
        let mut table = vec![head.map(str::to_owned).collect::<Vec<_>>()];
        let total = (
            self.by
                .iter()
                .enumerate()
                .map(|(index, _)| if index == 0 { "total" } else { "" }.to_owned())
                .collect(),
            self.total,
        );
        for (line, (names, used)) in self.lines.iter().chain([&total]).enumerate() {
            let is_total = line == self.lines.len();
            let names = names.iter().map(|name| match name.as_str() {
                "" if !is_total => "-".to_owned(),
                name => name.to_owned(),
            });
            let mut cells: Vec<String> = names.collect();
            let cost = |name: &str| (name == "cost_usd").then(|| used.shown_cost());
            cells.extend(
                shown(used).map(|(name, _, value)| cost(name).unwrap_or_else(|| cell_text(&value))),
            );
            table.push(cells);
        }
        text + &format_columns(table, self.by.len())
    }

    /// Writes CSV for programs that read tables, without the notes.
    pub fn csv(&self) -> String {
        let columns = self.total.columns().map(|(name, ..)| name);
        let mut text = self
            .by
            .iter()
            .map(|group| group.name())
            .chain(columns)
            .collect::<Vec<_>>()
            .join(",");
        text.push('\n');
        for (names, used) in &self.lines {
            let cells = used.columns().map(|(.., value)| cell_text(&value));
            text.push_str(
                &names
                    .iter()
                    .map(|name| quote_cell(name))
                    .chain(cells)
                    .collect::<Vec<_>>()
                    .join(","),
            );
            text.push('\n');
        }
        text
    }

    /// Writes JSON for programs.
    pub fn json(&self) -> String {
        self.json_of(|_| true)
    }

    /// Writes JSON for the key that has used it: without the cost of attempts whose answer no
    /// caller got, and with money only if it is shown.
    pub fn own_json(&self, shows_money: bool) -> String {
        let is_money = |name: &str| matches!(name, "cost_usd" | "cost_known" | "unpriced_requests");
        self.json_of(|name| !name.starts_with("unused_") && (shows_money || !is_money(name)))
    }

    fn json_of(&self, shows: impl Fn(&str) -> bool) -> String {
        let lines: Vec<Value> = self
            .lines
            .iter()
            .map(|(names, used)| {
                let mut object = json_object(used, &shows);
                for (group, name) in self.by.iter().zip(names) {
                    let name = Some(name.as_str()).filter(|name| !name.is_empty());
                    object.insert(group.name().to_owned(), name.into());
                }
                Value::Object(object)
            })
            .collect();
        let whole = json!({
            "since": format_time(self.since),
            "until": format_time(self.until),
            "by": self.by.iter().map(|group| Group::name(*group)).collect::<Vec<_>>(),
            "usage": lines,
            "total": json_object(&self.total, &shows),
            "notes": self.notes,
        });
        format!("{whole:#}\n")
    }

    /// Returns the notes about the answer.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

fn json_object(used: &Used, shows: &impl Fn(&str) -> bool) -> Map<String, Value> {
    let columns = used.columns().into_iter().filter(|(name, ..)| shows(name));
    columns
        .map(|(name, _, value)| (name.to_owned(), value))
        .collect()
}

/// Quotes a cell of CSV (RFC 4180).
fn quote_cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas_are_quoted() {
        for (text, shown) in [
            ("a", "a"),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("", ""),
        ] {
            assert_eq!(quote_cell(text), shown);
        }
    }
}
