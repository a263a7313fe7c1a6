//! Metrics, from the table that every test compares with a real `/metrics`.

use super::{check, code, sentence, table};
use crate::support::documented::{METRICS, Metric, check_metrics};

#[test]
fn the_chapter_of_metrics_is_current() {
    let about = "`GET /metrics` on the admin listener shows them, in the OpenMetrics text format, which Prometheus reads. A metric is not shown before it has a value. Labels come \
                 from the catalog and from fixed words only, and [`metrics.series`](../logs.md#how-many-series) bounds how many series there are of callers.\n\n\
                 Counters do not fall while the process runs. When a reload removes an account, a model or a caller, the series with its name stay for an hour, \
                 and go on if the name comes back. They end with the first reload after that, or earlier if more than 1,000 names (or as many as the catalog has) were removed since then.\n\n\
                 The metrics of the process (`process_…`) have the names that all programs use for them.";
    let row = |metric: &Metric| {
        let labels: Vec<String> = metric.labels.iter().map(|label| code(label)).collect();
        let meaning = format!("{} {}", sentence(metric.help), metric.more);
        [
            code(metric.name),
            metric.kind.to_owned(),
            labels.join(", "),
            meaning.trim().to_owned(),
        ]
    };
    let metrics = table(
        ["Metric", "Type", "Labels", "Meaning"],
        METRICS.iter().map(row),
    );
    let alerts =
        "[Prometheus, Grafana and alerts](../alerts.md) has a board and alert rules over them.";
    check(
        "metrics.md",
        "Metrics",
        &format!("{about}\n\n{metrics}\n{alerts}"),
    );
}

/// The other way round: each metric of the table is one of the code.
#[test]
fn every_metric_that_the_book_names_is_registered() {
    let source = super::source();
    for metric in METRICS {
        let name = metric
            .name
            .trim_start_matches("portcullis_")
            .trim_end_matches("_total");
        assert!(
            source.contains(&format!("\"{name}\"")),
            "nothing registers {}",
            metric.name
        );
        assert!(
            source.contains(&format!("\"{}\"", metric.help)),
            "nothing has the help {:?}",
            metric.help
        );
    }
}

/// What every test does at its end would see another metric, help, type or label.
#[test]
fn another_metric_is_seen() {
    let right = "# HELP portcullis_shed Requests refused because all accounts were busy and the queue was full.\n# TYPE portcullis_shed counter\n\
                 portcullis_shed_total{model=\"a,b=\\\"c\"} 1\n# EOF\n";
    assert_eq!(check_metrics(right), Ok(()));
    for (old, new, named) in [
        ("portcullis_shed", "portcullis_mood", "portcullis_mood"),
        ("queue was full", "queue was empty", "help"),
        ("counter", "gauge", "gauge"),
        ("{model=", "{key=", "key"),
        ("{model=\"a,b=\\\"c\"}", "", "labels"),
    ] {
        let why = check_metrics(&right.replace(old, new)).expect_err(named);
        assert!(why.contains(named), "{why}");
    }
}
