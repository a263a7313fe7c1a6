//! One cell against the rules. Nothing fails here: what is not as it should be is noted, so that
//! one run shows all of it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::Value;

use super::table::{Class, Seen};
use super::words::{COMPLAINT, MARK};
use super::{Cell, LARGE, trail};
use crate::support::client::{End, Response};
use crate::support::gateway::Line;
use crate::support::metrics::Metrics;
use crate::support::mock::Request;

/// The window in which a breaker counts is longer than this.
const COUNTED_FOR: Duration = Duration::from_secs(25);

/// What is not as it should be, by cell. A cell of which nothing was found is in it too.
#[derive(Default)]
pub struct Findings(BTreeMap<String, Vec<String>>);

impl Findings {
    pub fn of(&mut self, cell: &str) -> Found<'_> {
        Found(self.0.entry(cell.to_owned()).or_default())
    }

    /// Fails if a cell is not right.
    pub fn judge(self, dialect: &str) {
        let of = |(cell, all): (&String, &Vec<String>)| {
            all.iter()
                .map(|one| format!("{cell}: {one}"))
                .collect::<Vec<_>>()
        };
        let wrong: Vec<String> = self.0.iter().flat_map(of).collect();
        assert!(self.0.len() > 100, "{dialect}: only {} cells", self.0.len());
        assert!(
            wrong.is_empty(),
            "{dialect}, {} findings in {} cells:\n{}",
            wrong.len(),
            self.0.len(),
            wrong.join("\n")
        );
    }
}

/// What is found of one cell.
pub struct Found<'f>(&'f mut Vec<String>);

impl Found<'_> {
    fn same<T: PartialEq + Debug>(&mut self, what: &str, is: T, should: T) {
        if is != should {
            self.0
                .push(format!("{what} is {is:?} and should be {should:?}"));
        }
    }

    fn holds(&mut self, what: &str, holds: bool) {
        if !holds {
            self.0.push(what.to_owned());
        }
    }
}

/// What the caller saw, to the last byte.
pub fn answer(found: &mut Found<'_>, cell: &Cell, answer: Option<&Response>) {
    let expected = &cell.expected;
    let Some(answer) = answer else {
        return found.holds("the connection ended without an answer", false);
    };
    found.same("the status", answer.status, expected.status);
    found.same("the body's end", answer.end, Some(End::Whole));
    found.holds(
        "there is no x-request-id",
        answer.field("x-request-id").is_some(),
    );
    // There was one attempt, or an answer.
    found.same(
        "x-should-retry",
        answer.field("x-should-retry"),
        expected.in_vain.then_some("false"),
    );
    let wait = answer.field("retry-after");
    let fits = |wait: &str, range: &RangeInclusive<u64>| {
        wait.parse()
            .is_ok_and(|seconds: u64| range.contains(&seconds))
    };
    let right = match (wait, &expected.retry_after) {
        (None, None) => true,
        (Some(wait), Some(range)) => fits(wait, range),
        (Some(_), None) | (None, Some(_)) => false,
    };
    found.holds(
        &format!(
            "retry-after is {wait:?} and should be in {:?}",
            expected.retry_after
        ),
        right,
    );
    let kind = if cell.stream && expected.status == 200 {
        "text/event-stream"
    } else {
        "application/json"
    };
    found.same("content-type", answer.field("content-type"), Some(kind));
    match &expected.seen {
        Seen::Error(kind, code) => error(found, cell, answer, kind, *code),
        Seen::Answer(told) => {
            found.same("what the caller saw", summary(cell, answer), told.clone())
        }
    }
    let is_callers = matches!(cell.course.class, Class::Caller(_));
    found.holds(
        "the upstream's words are shown",
        is_callers || !answer.text().contains(MARK),
    );
}

fn error(found: &mut Found<'_>, cell: &Cell, answer: &Response, kind: &str, code: Option<&str>) {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let error = &body["error"];
    let keys: Vec<_> = error
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .collect();
    found.same(
        "the error's keys",
        sorted(keys),
        sorted(vec!["message", "type", "param", "code"]),
    );
    found.same(
        "the body's members",
        body.as_object().map_or(0, serde_json::Map::len),
        1,
    );
    found.same(
        "the error's type and code",
        (error["type"].as_str(), error["code"].as_str()),
        (Some(kind), code),
    );
    found.same("the error's param", &error["param"], &Value::Null);
    let message = error["message"].as_str().unwrap_or_default();
    match cell.course.class {
        // It is theirs to mend, so they are told in the upstream's words.
        Class::Caller(_) => found.same("the error's message", message, COMPLAINT),
        _ => found.holds("the error has no message", !message.is_empty()),
    }
}

fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort();
    list
}

/// An answer or a stream, in a word for each thing that it tells.
fn summary(cell: &Cell, answer: &Response) -> Vec<String> {
    let text = answer.text();
    let mut told = Vec::new();
    if !cell.stream {
        object(cell, &text, "chat.completion", "message", &mut told);
        return told;
    }
    let mut ids = Vec::new();
    for block in text.split_terminator("\n\n") {
        match block.strip_prefix("data: ") {
            Some("[DONE]") => told.push("[DONE]".to_owned()),
            Some(data) => ids.extend(object(
                cell,
                data,
                "chat.completion.chunk",
                "delta",
                &mut told,
            )),
            None => told.push(format!("no event: {block}")),
        }
    }
    if !text.ends_with("\n\n") {
        told.push("no end of an event".to_owned());
    }
    ids.dedup();
    if ids.len() > 1 {
        told.push(format!("several ids: {ids:?}"));
    }
    told
}

/// One object of an answer, or its only one; and its id.
fn object(
    cell: &Cell,
    text: &str,
    kind: &str,
    body: &str,
    told: &mut Vec<String>,
) -> Option<String> {
    let object: Value = serde_json::from_str(text).unwrap_or_default();
    if let Some(error) = object.get("error") {
        told.push(format!(
            "error {} {}",
            error["type"].as_str().unwrap_or_default(),
            error["code"].as_str().unwrap_or_default()
        ));
        return None;
    }
    if object["object"] != kind
        || object["model"] != cell.id.as_str()
        || object["choices"].as_array().is_none_or(|all| all.len() > 1)
    {
        told.push(format!(
            "odd: {}",
            text.chars().take(300).collect::<String>()
        ));
    }
    let choice = &object["choices"][0];
    if choice[body]["role"] == "assistant" {
        told.push("role".to_owned());
    }
    told.extend(
        choice[body]["content"]
            .as_str()
            .filter(|text| !text.is_empty())
            .map(ToOwned::to_owned),
    );
    told.extend(
        choice["finish_reason"]
            .as_str()
            .map(|reason| format!("finish {reason}")),
    );
    if let Some(usage) = object["usage"].as_object() {
        told.push(format!(
            "usage {}+{}={}",
            usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]
        ));
    }
    object["id"].as_str().map(ToOwned::to_owned)
}

/// The one access line.
pub fn line(found: &mut Found<'_>, cell: &Cell, lines: &[Line]) {
    let expected = &cell.expected;
    found.same("the number of access lines", lines.len(), 1);
    let Some(line) = lines.first() else { return };
    let wanted: Vec<String> = expected
        .trail
        .iter()
        .map(|(place, word)| format!("{}:{word}", cell.account(*place)))
        .collect();
    found.same("the trail", trail(line), wanted.join(" "));
    found.same(
        "the line's status and outcome",
        (line["status"].as_u64(), line["outcome"].as_str()),
        (Some(expected.status.into()), Some(expected.outcome)),
    );
    let last = expected.trail.last().map(|(place, _)| cell.account(*place));
    found.same(
        "the line's account",
        line["account"].as_str(),
        last.as_deref(),
    );
    let (prompt, completion, source) = expected.usage;
    let usage = (
        line["prompt_tokens"].as_u64(),
        line["completion_tokens"].as_u64(),
        line["usage"].as_str(),
    );
    found.same(
        "the line's usage",
        usage,
        (Some(prompt), Some(completion), Some(source)),
    );
}

/// What the metrics say, by the model or the account and one more label.
#[derive(Default)]
pub struct Tallies {
    /// By account and kind.
    tokens: BTreeMap<(String, String), u64>,
    /// By account and outcome.
    attempts: BTreeMap<(String, String), u64>,
    /// By model and outcome.
    requests: BTreeMap<(String, String), u64>,
}

impl Tallies {
    /// Reads all of them once: a look-up for each cell would read everything each time.
    pub fn read(metrics: &Metrics) -> Tallies {
        let mut tallies = Tallies::default();
        for line in metrics.0.lines() {
            let Some((name, rest)) = line.split_once('{') else {
                continue;
            };
            let (tally, labels) = match name {
                "portcullis_tokens_total" => (&mut tallies.tokens, ["account", "kind"]),
                "portcullis_attempts_total" => (&mut tallies.attempts, ["account", "outcome"]),
                "portcullis_requests_total" => (&mut tallies.requests, ["model", "outcome"]),
                _ => continue,
            };
            let Some((given, value)) = rest.split_once("} ") else {
                continue;
            };
            let label = |wanted: &str| {
                let mut pairs = given.split(',').filter_map(|pair| pair.split_once('='));
                pairs
                    .find(|(name, _)| *name == wanted)
                    .map(|(_, value)| value.trim_matches('"').to_owned())
                    .unwrap_or_default()
            };
            *tally
                .entry((label(labels[0]), label(labels[1])))
                .or_default() += value.parse::<u64>().expect("a count");
        }
        tallies
    }
}

/// The entries of one account or model.
fn of(tally: &BTreeMap<(String, String), u64>, owner: &str) -> Vec<(String, u64)> {
    let from = (owner.to_owned(), String::new());
    tally
        .range(from..)
        .take_while(|((name, _), _)| name == owner)
        .map(|((_, label), count)| (label.clone(), *count))
        .collect()
}

pub fn metrics(found: &mut Found<'_>, cell: &Cell, tallies: &Tallies) {
    let expected = &cell.expected;
    found.same(
        "requests in the metrics",
        of(&tallies.requests, &cell.id),
        vec![(expected.outcome.to_owned(), 1)],
    );
    let last = expected.trail.last().map(|(place, _)| *place);
    let (prompt, completion, _) = expected.usage;
    for place in [0, 1] {
        let account = cell.account(place);
        let attempts = expected
            .trail
            .iter()
            .filter(|(at, _)| *at == place)
            .map(|(_, word)| ((*word).to_owned(), 1))
            .collect();
        found.same(
            "attempts in the metrics",
            of(&tallies.attempts, &account),
            attempts,
        );
        let tokens = [("completion", completion), ("prompt", prompt)]
            .into_iter()
            .filter(|(_, count)| *count > 0 && last == Some(place));
        found.same(
            "tokens in the metrics",
            of(&tallies.tokens, &account),
            tokens
                .map(|(kind, count)| (kind.to_owned(), count))
                .collect(),
        );
    }
}

/// What reached an account's upstream.
pub fn requests(found: &mut Found<'_>, cell: &Cell, place: usize, requests: &[Request]) {
    found.same(
        &format!("the number of requests at {}", ["a", "b"][place]),
        requests.len(),
        cell.expected.asked[place],
    );
    // The upstream that answers early has not read its request.
    if place == 1 || !cell.is_large() {
        let least = if cell.is_large() {
            LARGE
        } else {
            super::PROMPT.len()
        };
        found.holds(
            "the request is not whole",
            requests
                .iter()
                .all(|request| request.body.len() > least && request.body.ends_with(b"}")),
        );
    }
}

/// Whether nothing is in flight.
pub fn is_idle(status: &Value) -> bool {
    let accounts = status["accounts"].as_array().expect("accounts");
    status["exchanges"] == 0 && accounts.iter().all(|account| account["in_flight"] == 0)
}

/// The breaker, and whether the account rests. `age` is how long ago the cell began.
pub fn health(found: &mut Found<'_>, cell: &Cell, place: usize, status: &Value, age: Duration) {
    let name = cell.account(place);
    let Some(account) = status["accounts"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|account| account["id"] == name.as_str())
    else {
        return found.holds("an account is not in /status", false);
    };
    let rest = cell.expected.rest.filter(|_| place == 0);
    let is_over = |seconds: u64| age + Duration::from_secs(1) > Duration::from_secs(seconds);
    match rest {
        None => found.same("the rest", resting(account), None),
        Some((_, seconds)) if is_over(seconds) => {}
        Some((why, _)) => found.same("the rest", resting(account), Some(why.to_owned())),
    }
    let target = &account["targets"][0];
    // One failure opens none.
    found.same("the breaker", target["breaker"].as_str(), Some("closed"));
    found.same(
        "the breaker's opens_in_ms",
        &target["opens_in_ms"],
        &Value::Null,
    );
    if age < COUNTED_FOR {
        let counted = (target["calls"].as_u64(), target["failed"].as_u64());
        let (calls, failed) = cell.expected.counted[place];
        found.same(
            "the breaker's calls and failed",
            counted,
            (Some(calls), Some(failed)),
        );
    }
}

/// Why an account rests, be it for one model only.
fn resting(account: &Value) -> Option<String> {
    let of_target = account["targets"][0]["rest"]["why"].as_str();
    // Unless a rest is there, the account is not ok for its breaker.
    let of_account = account["reason"]
        .as_str()
        .filter(|reason| *reason != "breaker");
    of_target.or(of_account).map(ToOwned::to_owned)
}
