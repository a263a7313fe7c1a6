//! A report is what was measured in all rounds, as tables: medians, with the least and the most.
//!
//! What compares two rows is made of pairs of the same round. A pair is not used if others used
//! more of the machine than [`OTHERS_LIMIT`] during one of the two.

use std::collections::BTreeMap;
use std::fmt;

use crate::Plan;
use crate::cgroup;
use crate::row::Row;
use crate::scenario::{NATIVE, ONE_CALLER, Scenario, TRANSLATED};
use crate::table::{Spread, print};
pub use crate::table::{quantile, show};
use crate::usage::OTHERS_LIMIT;

/// The figures of one scenario in one round. Times are in seconds, memory in bytes.
pub struct Figures {
    pub rate: f64,
    pub p50: f64,
    pub p99: f64,
    pub cpu: Option<f64>,
    pub idle: Option<u64>,
    pub peak: Option<u64>,
    /// The part of the machine that was busy with something else.
    pub others: f64,
    /// The part of the machine that was busy at all.
    pub busy: f64,
    pub errors: u64,
}

pub struct Report {
    title: String,
    rows: Vec<Row>,
    scenarios: Vec<(&'static str, bool)>,
    /// By scenario and row, with the number of the round.
    figures: BTreeMap<(&'static str, Row), Vec<(usize, Figures)>>,
    more: Vec<(String, BTreeMap<Row, Vec<f64>>)>,
    /// True if a subject had no control group of its own.
    ungrouped: bool,
    errors: u64,
}

impl Report {
    pub fn new(plan: &Plan, scenarios: &[Scenario], rows: &[Row]) -> Report {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut title = format!(
            "{} × {} s; callers, mock and the row that is measured share {cores} cores; {} workers",
            plan.rounds,
            plan.time.as_secs_f64(),
            plan.workers
        );
        if cfg!(debug_assertions) {
            title.push_str(", NOT OPTIMISED: this shows that it works, not how fast it is");
        }
        Report {
            title,
            rows: rows.to_vec(),
            scenarios: scenarios
                .iter()
                .map(|s| (s.name, s.kind.is_stream()))
                .collect(),
            figures: BTreeMap::new(),
            more: Vec::new(),
            ungrouped: false,
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
    pub fn add_figure(&mut self, what: &str, row: Row, value: f64) {
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

    /// Forgets rows that did not start, and of which nothing was measured.
    pub fn forget_unstarted(&mut self, started: &[Row]) {
        let figures = &self.figures;
        let measured = |row: &Row| figures.keys().any(|(_, known)| known == row);
        self.rows
            .retain(|row| started.contains(row) || measured(row));
    }

    pub fn note_no_group(&mut self) {
        self.ungrouped = true;
    }

    pub fn count_errors(&mut self, errors: u64) {
        self.errors += errors;
    }

    /// Notes an error if something could not be measured. The benchmark goes on.
    pub fn note(&mut self, of: &str, measured: Result<(), String>) {
        if let Err(why) = measured {
            eprintln!("{of}: {why}");
            self.count_errors(1);
        }
    }

    pub fn errors(&self) -> u64 {
        self.errors
    }

    fn figures(&self, scenario: &'static str, row: Row) -> &[(usize, Figures)] {
        self.figures
            .get(&(scenario, row))
            .map_or(&[], Vec::as_slice)
    }

    /// Compares two rows, or two scenarios, in each round, and writes the spread.
    fn compare(
        &self,
        ours: (&'static str, Row),
        theirs: (&'static str, Row),
        digits: usize,
        by: impl Fn(&Figures, &Figures) -> Option<f64>,
    ) -> String {
        let (mut values, mut refused) = (Vec::new(), false);
        for (round, one) in self.figures(ours.0, ours.1) {
            let theirs = self.figures(theirs.0, theirs.1);
            let Some((_, other)) = theirs.iter().find(|(same, _)| same == round) else {
                continue;
            };
            if one.others.max(other.others) > OTHERS_LIMIT {
                refused = true;
            } else {
                values.extend(by(one, other));
            }
        }
        match Spread::new(values.into_iter()) {
            Some(spread) => spread.show(digits),
            None if refused => "refused".to_owned(),
            None => "-".to_owned(),
        }
    }

    /// Returns the table of rows: what they are, and what they do.
    fn described(&self) -> Vec<Vec<String>> {
        let describe = |row: &Row| [row.name(), &row.version(), row.work()].map(str::to_owned);
        let head = ["row", "version", "what it does with a request"].map(str::to_owned);
        let rows = self.rows.iter().map(describe);
        std::iter::once(head).chain(rows).map(Vec::from).collect()
    }

    fn measured(&self) -> Vec<Vec<String>> {
        let head = [
            "scenario",
            "",
            "per second",
            "p50 ms",
            "p99 ms",
            "CPU µs each",
            "machine busy",
            "RSS MiB idle",
            "peak",
            "errors",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for (name, stream) in &self.scenarios {
            for row in &self.rows {
                let rounds = self.figures(name, *row);
                if rounds.is_empty() {
                    continue;
                }
                let of = |digits, figure: &dyn Fn(&Figures) -> Option<f64>| {
                    let spread = Spread::new(rounds.iter().filter_map(|(_, f)| figure(f)));
                    show(spread.map(|spread| spread.median), digits)
                };
                let mib = |bytes: u64| bytes as f64 / 1024.0 / 1024.0;
                let unit = if *stream { "chunks  " } else { "requests" };
                table.push(vec![
                    (*name).to_owned(),
                    row.name().to_owned(),
                    format!("{} {unit}", of(0, &|f| Some(f.rate))),
                    of(3, &|f| Some(f.p50 * 1e3)),
                    of(3, &|f| Some(f.p99 * 1e3)),
                    of(1, &|f| Some(f.cpu? * 1e6)),
                    of(0, &|f| Some(f.busy * 100.0)) + " %",
                    of(1, &|f| f.idle.map(mib)),
                    of(1, &|f| f.peak.map(mib)),
                    rounds
                        .iter()
                        .map(|(_, f)| f.errors)
                        .sum::<u64>()
                        .to_string(),
                ]);
            }
        }
        table
    }

    /// Returns the table of the gateway's CPU beside that of the other proxies.
    fn compared(&self) -> Vec<Vec<String>> {
        let others: Vec<Row> = self
            .rows
            .iter()
            .copied()
            .filter(|row| !matches!(row, Row::Direct | Row::Portcullis))
            .collect();
        let mut table = vec![titled(
            "CPU of portcullis, where another's is 1",
            others.iter().map(|row| row.name().to_owned()),
        )];
        for (name, _) in &self.scenarios {
            let ours = (*name, Row::Portcullis);
            let cell = |row: &Row| self.compare(ours, (name, *row), 2, cpu_ratio);
            table.push(titled(name, others.iter().map(cell)));
        }
        filled(table)
    }

    /// Returns the line of what each row adds to a latency of the row without a proxy.
    fn added(&self, scenario: &'static str, name: &str, of: fn(&Figures) -> f64) -> Vec<String> {
        let direct = (scenario, Row::Direct);
        let added = |one: &Figures, direct: &Figures| Some((of(one) - of(direct)) * 1e6);
        let cell = |row: &Row| match row {
            Row::Direct => "-".to_owned(),
            _ => self.compare((scenario, *row), direct, 0, added),
        };
        let what = format!("{scenario}: added {name}, µs");
        titled(&what, self.rows.iter().map(cell))
    }

    /// Returns the table of everything else, a row for each column.
    fn others(&self) -> Vec<Vec<String>> {
        let names = self.rows.iter().map(|row| row.name().to_owned());
        let mut table = vec![titled("", names)];
        for scenario in ONE_CALLER {
            table.push(self.added(scenario, "p50", |figures| figures.p50));
            table.push(self.added(scenario, "p99", |figures| figures.p99));
        }
        let cell = |row: &Row| self.compare((TRANSLATED, *row), (NATIVE, *row), 2, cpu_ratio);
        let what = format!("CPU of {TRANSLATED}, where {NATIVE} is 1");
        table.push(titled(&what, self.rows.iter().map(cell)));
        for (what, values) in &self.more {
            let cell = |row: &Row| {
                let values = values.get(row).map_or(&[][..], Vec::as_slice);
                let whole = values.iter().all(|value| value.fract() == 0.0);
                Spread::new(values.iter().copied()).map_or("-".to_owned(), |spread| {
                    spread.show(if whole { 0 } else { 2 })
                })
            };
            table.push(titled(what, self.rows.iter().map(cell)));
        }
        filled(table)
    }
}

/// Returns the CPU of one as a part of the other's.
fn cpu_ratio(one: &Figures, other: &Figures) -> Option<f64> {
    Some(one.cpu? / other.cpu.filter(|cpu| *cpu > 0.0)?)
}

fn titled(title: &str, cells: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(title.to_owned()).chain(cells).collect()
}

/// Returns the table without the lines that have no figure. The first line is the head.
fn filled(mut table: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let mut head = true;
    table.retain(|line| std::mem::take(&mut head) || line.iter().skip(1).any(|cell| cell != "-"));
    table
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}\n", self.title)?;
        print(f, &self.described(), 3)?;
        writeln!(f)?;
        print(f, &self.measured(), 2)?;
        writeln!(
            f,
            "\nMedians of the rounds. p50 and p99 are of whole answers; of a stream, of the whole stream. CPU is of the row, each\n\
             request or chunk. Callers are a closed loop here: each waits for its answer before it asks again.\n"
        )?;
        for table in [self.compared(), self.others()] {
            if table.len() > 1 {
                print(f, &table, 1)?;
                writeln!(f)?;
            }
        }
        writeln!(
            f,
            "These are medians, with the least and the most of the rounds. Ratios, and what is added at one connection, are of pairs\n\
             of the same round;\
             `refused`: others used more than {} % of the machine in each of them.",
            OTHERS_LIMIT * 100.0
        )?;
        if self.ungrouped {
            writeln!(
                f,
                "Memory with sockets is not measured: {}.",
                cgroup::NO_GROUP
            )?;
        }
        let others = self
            .figures
            .values()
            .flatten()
            .map(|(_, figures)| figures.others)
            .fold(0.0, f64::max);
        let verdict = if others > OTHERS_LIMIT {
            ": the figures that are not ratios are spoilt"
        } else {
            ""
        };
        writeln!(
            f,
            "Others used up to {:.0} % of the machine during a scenario{verdict}.",
            others * 100.0
        )?;
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
