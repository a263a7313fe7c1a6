//! A report is three tables of medians, made from the figures of all rounds.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::Plan;
use crate::callers::Kind;
use crate::scenario::Scenario;
use crate::subject::Row;

/// The figures of one scenario in one round. Times are in seconds, memory in bytes.
pub struct Figures {
    pub rate: f64,
    pub p50: f64,
    pub p99: f64,
    pub cpu: Option<f64>,
    pub idle: Option<u64>,
    pub peak: Option<u64>,
    /// The number of cores that were busy with something else.
    pub others: f64,
    pub errors: u64,
}

pub struct Report {
    title: String,
    rows: Vec<Row>,
    scenarios: Vec<(&'static str, bool)>,
    /// By scenario and row, with the number of the round.
    figures: BTreeMap<(&'static str, Row), Vec<(usize, Figures)>>,
    more: Vec<(String, BTreeMap<Row, Vec<f64>>)>,
    errors: u64,
}

impl Report {
    pub fn new(plan: &Plan, scenarios: &[Scenario], rows: &[Row]) -> Report {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut title = format!(
            "medians of {} × {} s, {cores} cores",
            plan.rounds,
            plan.time.as_secs_f64()
        );
        if cfg!(debug_assertions) {
            title.push_str(", NOT OPTIMISED: this shows that it works, not how fast it is");
        }
        Report {
            title,
            rows: rows.to_vec(),
            scenarios: scenarios
                .iter()
                .map(|s| (s.name, matches!(s.kind, Kind::Stream { .. })))
                .collect(),
            figures: BTreeMap::new(),
            more: Vec::new(),
            errors: 0,
        }
    }

    pub fn add(&mut self, scenario: &Scenario, row: Row, round: usize, figures: Figures) {
        self.errors += figures.errors;
        self.figures
            .entry((scenario.name, row))
            .or_default()
            .push((round, figures));
    }

    /// Adds a value that belongs to no scenario.
    pub fn more(&mut self, what: &str, row: Row, value: f64) {
        let index = self
            .more
            .iter()
            .position(|(known, _)| known == what)
            .unwrap_or_else(|| {
                self.more.push((what.to_owned(), BTreeMap::new()));
                self.more.len() - 1
            });
        self.more[index].1.entry(row).or_default().push(value);
    }

    pub fn fail(&mut self, errors: u64) {
        self.errors += errors;
    }

    /// Notes an error if something could not be measured. The benchmark goes on.
    pub fn note(&mut self, of: &str, measured: Result<(), String>) {
        if let Err(why) = measured {
            eprintln!("{of}: {why}");
            self.fail(1);
        }
    }

    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// Returns the time that the gateway adds at one connection.
    fn added(&self) -> Option<f64> {
        let p50 = |row| {
            median(
                self.figures
                    .get(&("plain-c1-awake", row))?
                    .iter()
                    .map(|(_, f)| f.p50),
            )
        };
        Some((p50(Row::Portcullis)? - p50(Row::Direct)?) * 1e6)
    }

    /// Returns the gateway's CPU as a part of another proxy's, in each round.
    fn ratios(&self, scenario: &'static str, other: Row) -> Vec<f64> {
        let of = |row| {
            self.figures
                .get(&(scenario, row))
                .map_or(&[][..], Vec::as_slice)
        };
        let pair = |(round, ours): &(usize, Figures)| {
            let (_, theirs) = of(other).iter().find(|(same, _)| same == round)?;
            Some(ours.cpu? / theirs.cpu.filter(|cpu| *cpu > 0.0)?)
        };
        let mut ratios: Vec<f64> = of(Row::Portcullis).iter().filter_map(pair).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }

    /// Returns the table of the gateway's CPU beside that of the other proxies.
    fn compared(&self) -> Vec<Vec<String>> {
        let others: Vec<Row> = self
            .rows
            .iter()
            .copied()
            .filter(|row| !matches!(row, Row::Direct | Row::Portcullis))
            .collect();
        let head = std::iter::once("CPU of portcullis, where another proxy's is 1".to_owned());
        let mut table = vec![
            head.chain(others.iter().map(|row| row.name().to_owned()))
                .collect::<Vec<_>>(),
        ];
        for (name, _) in &self.scenarios {
            let cell = |row: &Row| {
                let ratios = self.ratios(name, *row);
                match (
                    median(ratios.iter().copied()),
                    ratios.first(),
                    ratios.last(),
                ) {
                    (Some(middle), Some(least), Some(most)) => {
                        format!("{middle:.2} ({least:.2} to {most:.2})")
                    }
                    _ => "-".to_owned(),
                }
            };
            let cells: Vec<String> = others.iter().map(cell).collect();
            if cells.iter().any(|cell| cell != "-") {
                table.push(std::iter::once((*name).to_owned()).chain(cells).collect());
            }
        }
        table
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}\n", self.title)?;
        let mut table = vec![
            [
                "scenario",
                "",
                "per second",
                "p50 ms",
                "p99 ms",
                "CPU µs each",
                "RSS MiB idle",
                "peak",
                "errors",
            ]
            .map(str::to_owned)
            .to_vec(),
        ];
        for (name, stream) in &self.scenarios {
            for row in &self.rows {
                let Some(rounds) = self.figures.get(&(name, *row)) else {
                    continue;
                };
                let of = |figure: &dyn Fn(&Figures) -> Option<f64>| {
                    median(rounds.iter().filter_map(|(_, f)| figure(f)))
                };
                let mib = |bytes: u64| bytes as f64 / 1024.0 / 1024.0;
                table.push(vec![
                    (*name).to_owned(),
                    row.name().to_owned(),
                    format!(
                        "{} {}",
                        show(of(&|f| Some(f.rate)), 0),
                        if *stream { "chunks  " } else { "requests" }
                    ),
                    show(of(&|f| Some(f.p50 * 1e3)), 3),
                    show(of(&|f| Some(f.p99 * 1e3)), 3),
                    show(of(&|f| Some(f.cpu? * 1e6)), 1),
                    show(of(&|f| f.idle.map(mib)), 1),
                    show(of(&|f| f.peak.map(mib)), 1),
                    rounds
                        .iter()
                        .map(|(_, f)| f.errors)
                        .sum::<u64>()
                        .to_string(),
                ]);
            }
        }
        print(f, &table)?;
        writeln!(
            f,
            "\np50 and p99 are of whole answers; of a stream, of the whole stream. CPU is of the proxy, each request or chunk.\n"
        )?;
        let compared = self.compared();
        if compared.len() > 1 {
            print(f, &compared)?;
            writeln!(
                f,
                "\nEach is the median of the rounds, with the least and the most.\n"
            )?;
        }

        let mut table = vec![
            std::iter::once("")
                .chain(self.rows.iter().map(|row| row.name()))
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        ];
        if let Some(added) = self.added() {
            let cell = |row: &Row| {
                if *row == Row::Portcullis {
                    show(Some(added), 0)
                } else {
                    "-".to_owned()
                }
            };
            table.push(
                std::iter::once("added p50 at one connection, cores awake, µs".to_owned())
                    .chain(self.rows.iter().map(cell))
                    .collect(),
            );
        }
        for (what, values) in &self.more {
            let cell = |row: &Row| {
                let value = values
                    .get(row)
                    .and_then(|values| median(values.iter().copied()));
                show(
                    value,
                    if value.is_some_and(|value| value.fract() == 0.0) {
                        0
                    } else {
                        2
                    },
                )
            };
            table.push(
                std::iter::once(what.clone())
                    .chain(self.rows.iter().map(cell))
                    .collect(),
            );
        }
        if table.len() > 1 {
            print(f, &table)?;
        }
        let others = self
            .figures
            .values()
            .flatten()
            .map(|(_, figures)| figures.others)
            .fold(0.0, f64::max);
        if others > 0.1 {
            writeln!(
                f,
                "\nOther processes used up to {others:.1} cores meanwhile: the figures are spoilt."
            )?;
        }
        if self.errors > 0 {
            writeln!(
                f,
                "\n{} ERRORS; what they were is written above.",
                self.errors
            )
        } else {
            Ok(())
        }
    }
}

/// Writes a table. The first column and all words stand to the left, numbers to the right.
fn print(f: &mut fmt::Formatter<'_>, table: &[Vec<String>]) -> fmt::Result {
    let columns = table.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            table
                .iter()
                .map(|line| line[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let named = table.first().is_some_and(|head| head[0] == "scenario");
    for line in table {
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            if column == 0 || named && column == 1 {
                write!(f, "{cell:<width$}  ")?
            } else {
                write!(f, "{cell:>width$}  ")?
            }
        }
        writeln!(f)?;
    }
    Ok(())
}

/// Returns the value below which this part of the sorted values lies.
pub fn at(sorted: &[Duration], part: f64) -> Duration {
    sorted
        .get(((sorted.len() as f64 * part) as usize).min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Writes a number as `12,345.6`.
pub fn show(value: Option<f64>, digits: usize) -> String {
    let Some(value) = value else {
        return "-".to_owned();
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 && whole.as_bytes()[index - 1] != b'-' {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}
