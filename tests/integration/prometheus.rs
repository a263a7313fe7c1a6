//! The Grafana board and the alert rules in `packaging/`: they are valid, they name metrics and
//! labels that exist, each alert and each panel tells what to do, and a real Prometheus answers
//! each query ([`scraped`]).

mod scraped;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::documented::METRICS;
use crate::support::folder::Folder;
use crate::support::root;

/// What Prometheus adds to each series.
const ADDED: [&str; 2] = ["job", "instance"];

#[test]
fn alerts_fire_when_they_should_and_not_before() {
    let folder = root().join("packaging/prometheus");
    promtool(&["check", "rules"], &folder.join("alerts.yml"));
    promtool(&["test", "rules"], &folder.join("alerts_test.yml"));
    let tests = yaml("packaging/prometheus/alerts_test.yml");
    for alert in alerts() {
        let cases = tests["tests"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|test| test["alert_rule_test"].as_array().unwrap());
        let of_it = cases.filter(|case| case["alertname"] == alert.name.as_str());
        let fires = of_it.map(|case| {
            case["exp_alerts"]
                .as_array()
                .is_some_and(|alerts| !alerts.is_empty())
        });
        assert_eq!(
            fires.collect::<Vec<_>>(),
            [false, true],
            "alerts_test.yml: {} is quiet, and then fires",
            alert.name
        );
    }
}

#[test]
fn each_alert_explains_itself_and_links_its_runbook() {
    let list = std::fs::read_to_string(root().join("docs/src/alerts.md")).unwrap();
    let mut bases = BTreeSet::new();
    for Alert { name, rule, .. } in alerts() {
        assert!(
            ["critical", "warning"].contains(&rule["labels"]["severity"].as_str().unwrap()),
            "{name}"
        );
        for text in ["summary", "description"] {
            assert!(
                rule["annotations"][text]
                    .as_str()
                    .is_some_and(|text| text.len() > 20),
                "{name} has no {text}"
            );
        }
        let url = rule["annotations"]["runbook_url"].as_str().unwrap();
        let (page, anchor) = url
            .split_once('#')
            .unwrap_or_else(|| panic!("{name}: {url} names no heading"));
        let (base, page) = page.rsplit_once('/').unwrap();
        bases.insert(base.to_owned());
        let chapter = root().join("docs/src").join(page.replace(".html", ".md"));
        let chapter = std::fs::read_to_string(&chapter)
            .unwrap_or_else(|e| panic!("{name}: {}: {e}", chapter.display()));
        let headings = chapter
            .lines()
            .filter(|line| line.starts_with('#'))
            .map(|line| line.trim_start_matches(['#', ' ']));
        let ids: Vec<String> = headings
            .map(|heading| heading.replace('`', "").to_lowercase().replace(' ', "-"))
            .collect();
        assert!(
            ids.iter().any(|id| id == anchor),
            "{name}: {page} has no heading #{anchor}"
        );
        assert!(
            list.contains(&format!("`{name}`")) || list.contains(&format!("## {name}")),
            "alerts.md does not list {name}"
        );
    }
    assert_eq!(
        bases.len(),
        1,
        "one `sed` must change all addresses: {bases:?}"
    );
    let of_list = list
        .split('`')
        .filter(|word| word.starts_with("Portcullis") && !word.contains(' '));
    let names: BTreeSet<String> = alerts().into_iter().map(|alert| alert.name).collect();
    for name in of_list {
        assert!(
            names.contains(name),
            "alerts.md lists {name}, which is no alert"
        );
    }
}

#[test]
fn the_board_is_whole() {
    let board = board();
    let mut ids = BTreeSet::new();
    let mut taken: BTreeMap<(u64, u64), String> = BTreeMap::new();
    let variables: BTreeSet<&str> = board["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        variables,
        BTreeSet::from(["datasource", "instance", "model", "account", "caller"])
    );
    for panel in board["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(
            ids.insert(panel["id"].as_u64().unwrap()),
            "{title}: its id is taken"
        );
        let [x, y, w, h] =
            ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(
            x + w <= 24 && w > 0 && h > 0,
            "{title}: {}",
            panel["gridPos"]
        );
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            if let Some(other) = taken.insert(cell, title.to_owned()) {
                panic!("{title} lies over {other}");
            }
        }
        if panel["type"] == "row" {
            continue;
        }
        assert!(
            panel["description"]
                .as_str()
                .is_some_and(|text| text.len() > 40),
            "{title} does not say what to do"
        );
        assert!(
            panel["fieldConfig"]["defaults"]["unit"].is_string(),
            "{title} has no unit"
        );
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title} asks nothing");
        for one in targets.iter().chain([panel]) {
            assert_eq!(one["datasource"]["uid"], "$datasource", "{title}");
        }
        let refs: BTreeSet<&str> = targets
            .iter()
            .map(|target| target["refId"].as_str().unwrap())
            .collect();
        assert_eq!(refs.len(), targets.len(), "{title}: a refId is there twice");
    }
    for variable in board["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["type"] == "query")
    {
        let query = variable["query"]["query"].as_str().unwrap();
        let inside = query
            .strip_prefix("label_values(")
            .and_then(|rest| rest.strip_suffix(')'))
            .unwrap_or_else(|| panic!("{query}"));
        let (series, label) = inside.rsplit_once(", ").unwrap();
        let [selector] = &selectors(&plain(series))[..] else {
            panic!("{query}")
        };
        assert!(
            selector.allowed().contains(&label),
            "{query}: there is no label {label}"
        );
        assert_eq!(
            (&variable["allValue"], &variable["includeAll"]),
            (&".*".into(), &true.into()),
            "{query}"
        );
    }
}

/// Each panel's query is taken as a rule that records it: so its syntax is checked without a
/// server.
#[test]
fn each_panel_asks_in_valid_words() {
    let rules: String = queries()
        .iter()
        .enumerate()
        .map(|(n, (_, query))| {
            format!(
                "      - {{ record: 'panel:{n}', expr: '{}' }}\n",
                query.replace('\'', "''")
            )
        })
        .collect();
    let folder = Folder::new(&[(
        "panels.yml",
        &format!("groups:\n  - name: panels\n    rules:\n{rules}"),
    )]);
    promtool(&["check", "rules"], &folder.path().join("panels.yml"));
}

#[test]
fn queries_and_alerts_name_metrics_and_labels_that_exist() {
    let of_alerts = alerts().into_iter().map(|alert| (alert.name, alert.query));
    for (what, query) in queries().into_iter().chain(of_alerts) {
        let selectors = selectors(&query);
        assert!(!selectors.is_empty(), "{what}: {query}");
        let mut known = BTreeSet::from(ADDED);
        for selector in &selectors {
            let allowed = selector.allowed();
            for label in &selector.labels {
                assert!(
                    allowed.contains(&label.as_str()),
                    "{what}: {} has no label {label}",
                    selector.name
                );
            }
            known.extend(allowed);
        }
        for label in grouping(&query) {
            assert!(
                known.contains(label.as_str()),
                "{what}: nothing in {query} has the label {label}"
            );
        }
    }
}

#[test]
fn a_wrong_query_is_seen() {
    let query = "sum by (model, le) (rate(portcullis_queue_seconds_bucket{model=~\"a(b\", instance!=\"portcullis_x\"}[5m])) and on (job) up == 1";
    let found = selectors(query);
    let names: Vec<_> = found
        .iter()
        .map(|selector| (&*selector.name, selector.labels.join(" ")))
        .collect();
    assert_eq!(
        names,
        [
            (
                "portcullis_queue_seconds_bucket",
                "model instance".to_owned()
            ),
            ("up", String::new())
        ]
    );
    assert_eq!(found[0].allowed(), ["job", "instance", "model", "le"]);
    assert_eq!(grouping(query), ["model", "le", "job"]);
    assert_eq!(
        found[0].text,
        "portcullis_queue_seconds_bucket{model=~\"a(b\", instance!=\"portcullis_x\"}"
    );
}

/// An alert of `alerts.yml`.
struct Alert {
    name: String,
    query: String,
    rule: Value,
}

fn alerts() -> Vec<Alert> {
    let file = yaml("packaging/prometheus/alerts.yml");
    let groups = file["groups"].as_array().unwrap();
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap());
    let text = |rule: &Value, field: &str| rule[field].as_str().unwrap().to_owned();
    rules
        .map(|rule| Alert {
            name: text(rule, "alert"),
            query: text(rule, "expr"),
            rule: rule.clone(),
        })
        .collect()
}

fn board() -> Value {
    let text = std::fs::read_to_string(root().join("packaging/grafana/portcullis.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns each panel's queries, with the panel's title and what Grafana puts in for a variable.
fn queries() -> Vec<(String, String)> {
    let board = board();
    let mut queries = Vec::new();
    for panel in board["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let title = format!(
                "{} ({})",
                panel["title"].as_str().unwrap(),
                target["refId"].as_str().unwrap()
            );
            queries.push((title, plain(target["expr"].as_str().unwrap())));
        }
    }
    queries
}

/// Puts values in for the board's variables.
fn plain(query: &str) -> String {
    let mut query = query
        .replace("$__rate_interval", "5m")
        .replace("$__range", "1h");
    for variable in ["instance", "model", "account", "caller"] {
        query = query.replace(&format!("${variable}\""), ".*\"");
    }
    assert!(!query.contains('$'), "{query}");
    query
}

/// The name of a metric in a query, with its braces.
struct Selector {
    name: String,
    labels: Vec<String>,
    text: String,
}

impl Selector {
    /// Returns the labels that its series have.
    fn allowed(&self) -> Vec<&'static str> {
        let mut allowed = ADDED.to_vec();
        if self.name == "up" {
            return allowed;
        }
        let (base, part) = match ["_bucket", "_sum", "_count"]
            .into_iter()
            .find_map(|part| Some((self.name.strip_suffix(part)?, part)))
        {
            Some((base, part))
                if METRICS
                    .iter()
                    .any(|metric| metric.name == base && metric.kind == "histogram") =>
            {
                (base, part)
            }
            _ => (&*self.name, ""),
        };
        let metric = METRICS
            .iter()
            .find(|metric| metric.name == base)
            .unwrap_or_else(|| panic!("there is no metric {}", self.name));
        assert!(
            !part.is_empty() || metric.kind != "histogram",
            "{} is a histogram",
            self.name
        );
        allowed.extend(metric.labels);
        if part == "_bucket" {
            allowed.push("le");
        }
        allowed
    }
}

/// Returns the metrics that a query names.
fn selectors(query: &str) -> Vec<Selector> {
    let mut found = Vec::new();
    let mut rest = query;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '"') {
        rest = &rest[start..];
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = &quoted[quoted.find('"').map_or(quoted.len(), |end| end + 1)..];
            continue;
        }
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
            .unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        let is_metric =
            name == "up" || name.starts_with("portcullis_") || name.starts_with("process_");
        let braces = if behind.starts_with('{') {
            closing(behind)
        } else {
            0
        };
        if is_metric {
            let (inside, text) = (&behind[..braces], &rest[..end + braces]);
            let outside = inside.trim_matches(['{', '}']).split('"').step_by(2);
            let labels = outside.filter_map(|piece| {
                let piece = piece
                    .trim_start_matches([',', ' '])
                    .trim_end_matches(['=', '~', '!', ' ']);
                (!piece.is_empty()).then(|| piece.to_owned())
            });
            found.push(Selector {
                name: name.to_owned(),
                labels: labels.collect(),
                text: text.to_owned(),
            });
        }
        rest = &behind[braces..];
    }
    found
}

/// Returns the length of a text up to the brace that closes it. Braces may stand in quotes.
fn closing(text: &str) -> usize {
    let mut quoted = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '}' if !quoted => return at + 1,
            _ => {}
        }
    }
    panic!("{text} is not closed");
}

/// Returns the labels by which a query groups and joins.
fn grouping(query: &str) -> Vec<String> {
    let mut found = Vec::new();
    for word in ["by (", "on (", "without (", "ignoring ("] {
        for behind in query.split(word).skip(1) {
            let inside = behind.split(')').next().unwrap_or_default();
            found.extend(
                inside
                    .split(',')
                    .map(|label| label.trim().to_owned())
                    .filter(|label| !label.is_empty()),
            );
        }
    }
    found
}

fn promtool(arguments: &[&str], file: &Path) {
    let output = Command::new("promtool").args(arguments).arg(file).output();
    let output = output.unwrap_or_else(|e| panic!("promtool (apt-get install prometheus): {e}"));
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "promtool {}: {said}",
        arguments.join(" ")
    );
}

fn yaml(path: &str) -> Value {
    serde_yaml::from_str(&std::fs::read_to_string(root().join(path)).unwrap()).unwrap()
}
