//! Metrics, from the table that every test compares with a real `/metrics`.

use super::{check, code, sentence, table};
use crate::support::documented::{METRICS, Metric, check_metrics};

#[test]
fn the_chapter_of_metrics_is_current() {
    let about = "`GET /metrics` on the admin listener shows them, in the OpenMetrics text format, which Prometheus reads. A metric is not shown before it has a value. Labels come \
                 from the catalog and from fixed words only, so their number is bounded. A reload that removes an account, a model or a caller starts \
                 the series of requests, tokens and attempts anew from zero.";
    let row = |metric: &Metric| {
        let labels: Vec<String> = metric.labels.iter().map(|label| code(label)).collect();
        let meaning = format!("{} {}", sentence(metric.help), metric.more);
        [code(metric.name), metric.kind.to_owned(), labels.join(", "), meaning.trim().to_owned()]
    };
    let alerts = "Worth an alert:\n\n\
                  * `portcullis_reload_failed == 1`\n* `portcullis_catalog_waiting_seconds > 10`\n\
                  * `portcullis_account_state{state=\"cooling_credential\"} == 1`\n\
                  * `portcullis_breaker_state{state=\"open\"} == 1` for minutes\n* `portcullis_store_up == 0` for minutes\n\
                  * `portcullis_ledger_up == 0`\n* a rising share of `outcome=~\"upstream.*\"`\n* any `portcullis_shed_total`";
    let metrics = table(["Metric", "Type", "Labels", "Meaning"], METRICS.iter().map(row));
    for name in alerts.split('`').filter(|word| word.starts_with("portcullis_")) {
        let name = name.split(['{', ' ']).next().unwrap_or_default();
        assert!(METRICS.iter().any(|metric| metric.name == name), "there is no metric {name}");
    }
    check("metrics.md", "Metrics", &format!("{about}\n\n{metrics}\n## Alerts\n\n{alerts}"));
}

/// The other way round: each metric of the table is one of the code.
#[test]
fn every_metric_that_the_book_names_is_registered() {
    let source = super::source();
    for metric in METRICS {
        let name = metric.name.trim_start_matches("portcullis_").trim_end_matches("_total");
        assert!(source.contains(&format!("\"{name}\"")), "nothing registers {}", metric.name);
        assert!(source.contains(&format!("\"{}\"", metric.help)), "nothing has the help {:?}", metric.help);
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
