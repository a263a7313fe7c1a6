//! Writes an answer as a table, as CSV or as JSON. Pure.

use super::{Answer, Column, Group, Used};
use crate::ledger::days::time;
use crate::price::Usd;
use crate::table::columns;
use serde_json::{Map, Value, json};

/// A sum of money, as far as it is known. A request that costs nothing, such as a failed one, says
/// nothing of what the others cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Money {
    /// The whole sum is known.
    All(Usd),
    /// At least this much: nobody knows what some requests cost.
    Part(Usd),
    /// Nothing is known.
    Unknown,
}

impl Money {
    fn of(sum: u64, unpriced: u64) -> Money {
        match (sum, unpriced) {
            (sum, 0) => Money::All(Usd(sum)),
            (0, _) => Money::Unknown,
            (sum, _) => Money::Part(Usd(sum)),
        }
    }

    /// Returns the known part.
    fn usd(self) -> Option<String> {
        match self {
            Money::All(usd) | Money::Part(usd) => Some(usd.to_string()),
            Money::Unknown => None,
        }
    }

    /// Returns how much of the sum is known.
    fn known(self) -> &'static str {
        match self {
            Money::All(_) => "all",
            Money::Part(_) => "part",
            Money::Unknown => "none",
        }
    }

    /// Writes the sum for people.
    fn shown(self) -> String {
        match self {
            Money::All(usd) => usd.to_string(),
            Money::Part(usd) => format!(">={usd}"),
            Money::Unknown => "unknown".to_owned(),
        }
    }
}

impl Used {
    fn columns(&self) -> [(&'static str, Cell); 16] {
        let count = |column: Column| Cell::Count(self.sums[column]);
        let money = |sum: Column, unpriced: Column| Money::of(self.sums[sum], self.sums[unpriced]);
        let cost = money(Column::Cost, Column::Unpriced);
        let unused_cost = money(Column::UnusedCost, Column::UnusedUnpriced);
        [
            ("requests", count(Column::Requests)),
            ("failed", Cell::Count(self.failed)),
            ("prompt_tokens", count(Column::Prompt)),
            ("completion_tokens", count(Column::Completion)),
            ("cached_tokens", count(Column::Cached)),
            ("cache_write_tokens", count(Column::CacheWrite)),
            ("reasoning_tokens", count(Column::Reasoning)),
            ("total_tokens", Cell::Count(self.sums.tokens())),
            ("estimated_requests", count(Column::Estimated)),
            ("cost_usd", Cell::Usd(cost)),
            ("cost_known", Cell::Known(cost)),
            ("unpriced_requests", count(Column::Unpriced)),
            ("unused_tokens", count(Column::UnusedTokens)),
            ("unused_cost_usd", Cell::Usd(unused_cost)),
            ("unused_cost_known", Cell::Known(unused_cost)),
            ("unused_unpriced_requests", count(Column::UnusedUnpriced)),
        ]
    }
}

enum Cell {
    Count(u64),
    Usd(Money),
    Known(Money),
}

/// The columns of the table, with its words for them.
const SHORT: [(&str, &str); 11] = [
    ("requests", "requests"),
    ("failed", "failed"),
    ("prompt_tokens", "prompt"),
    ("completion_tokens", "completion"),
    ("cached_tokens", "cached"),
    ("reasoning_tokens", "reasoning"),
    ("total_tokens", "total"),
    ("estimated_requests", "estimated"),
    ("cost_usd", "USD"),
    ("unpriced_requests", "unpriced"),
    ("unused_tokens", "unused"),
];

impl Answer {
    /// Writes a table for people.
    pub fn table(&self) -> String {
        let mut text = format!("usage from {} to {}\n", time(self.since), time(self.until));
        for note in &self.notes {
            text.push_str(&format!("note: {note}\n"));
        }
        text.push('\n');
        if self.lines.is_empty() {
            text.push_str("no requests\n");
            return text;
        }
        let mut table = vec![self.by.iter().map(|group| group.name().to_owned()).collect::<Vec<_>>()];
        if let Some(head) = table.first_mut() {
            head.extend(SHORT.map(|(_, short)| short.to_owned()));
        }
        let total = (
            self.by.iter().enumerate().map(|(at, _)| if at == 0 { "total" } else { "" }.to_owned()).collect(),
            self.total,
        );
        for (line, (names, used)) in self.lines.iter().chain([&total]).enumerate() {
            let dash =
                |name: &String| if name.is_empty() && line < self.lines.len() { "-".to_owned() } else { name.clone() };
            let mut cells: Vec<String> = names.iter().map(dash).collect();
            let shown = used.columns().into_iter().filter(|(name, _)| SHORT.iter().any(|(column, _)| column == name));
            cells.extend(shown.map(|(_, cell)| match cell {
                Cell::Count(count) => count.to_string(),
                Cell::Usd(money) => money.shown(),
                Cell::Known(money) => money.known().to_owned(),
            }));
            table.push(cells);
        }
        text + &columns(&table, self.by.len())
    }

    /// Writes CSV for programs that read tables, without the notes.
    pub fn csv(&self) -> String {
        let head: Vec<String> = self.by.iter().map(|group| group.name().to_owned()).collect();
        let columns = Used::default().columns().map(|(name, _)| name.to_owned());
        let mut text = head.into_iter().chain(columns).collect::<Vec<_>>().join(",");
        text.push('\n');
        for (names, used) in &self.lines {
            let cells = used.columns().map(|(_, cell)| match cell {
                Cell::Count(count) => count.to_string(),
                Cell::Usd(money) => money.usd().unwrap_or_default(),
                Cell::Known(money) => money.known().to_owned(),
            });
            text.push_str(&names.iter().map(|name| quoted(name)).chain(cells).collect::<Vec<_>>().join(","));
            text.push('\n');
        }
        text
    }

    /// Writes JSON for programs. Amounts are texts, since a program would read a number as a float.
    /// What nobody knows is null.
    pub fn json(&self) -> String {
        let lines: Vec<Value> = self
            .lines
            .iter()
            .map(|(names, used)| {
                let mut object = object(used);
                for (group, name) in self.by.iter().zip(names) {
                    object.insert(
                        group.name().to_owned(),
                        if name.is_empty() { Value::Null } else { name.as_str().into() },
                    );
                }
                Value::Object(object)
            })
            .collect();
        let whole = json!({
            "since": time(self.since),
            "until": time(self.until),
            "by": self.by.iter().map(|group| Group::name(*group)).collect::<Vec<_>>(),
            "usage": lines,
            "total": object(&self.total),
            "notes": self.notes,
        });
        format!("{whole:#}\n")
    }

    /// Returns notes about the answer.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

fn object(used: &Used) -> Map<String, Value> {
    let value = |cell| match cell {
        Cell::Count(count) => Value::from(count),
        Cell::Usd(money) => money.usd().map_or(Value::Null, Value::from),
        Cell::Known(money) => Value::from(money.known()),
    };
    used.columns().into_iter().map(|(name, cell)| (name.to_owned(), value(cell))).collect()
}

/// Quotes a cell of CSV (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas_are_quoted() {
        for (text, shown) in [("a", "a"), ("a,b", "\"a,b\""), ("a\"b", "\"a\"\"b\""), ("", "")] {
            assert_eq!(quoted(text), shown);
        }
    }
}
