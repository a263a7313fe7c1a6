//! The reconciliation: thousands of requests that end in every way. After them the limits,
//! the ledger, its totals, the access lines and what callers were told must all be equal, to the
//! token and to the thousand-millionth of a dollar.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::support::client::{self, End};
use crate::support::gateway::portcullis;
use crate::support::mock::Request;
use crate::support::script::{self, Script, chunk, finish};
use crate::support::{Catalog, Gateway, Mock, eventually, run_within, runs_all, spawn};

/// The number of requests; the second is that of `make test-all`.
const REQUESTS: [usize; 2] = [10_000, 100_000];
const CONNECTIONS: usize = 48;
/// What an upstream is told to do, by the prompt, and on which model; the more often it stands here
/// the likelier.
const ACTS: [(&str, &str); 16] = [
    ("answer", "plain"),
    ("answer", "plain"),
    ("answer", "plain"),
    ("stream", "plain"),
    ("stream", "plain"),
    ("stream", "plain"),
    ("uncounted", "plain"),
    ("uncounted-stream", "plain"),
    ("fault", "plain"),
    ("down", "plain"),
    ("cut", "plain"),
    ("gone", "plain"),
    ("gone-early", "plain"),
    ("fallback", "two"),
    ("slow", "hedged"),
    ("answer", "free"),
];
const CALLERS: usize = 4;

fn secret(caller: usize, key: usize) -> String {
    format!("sk-CaNaRy-caller-{caller}-{key}-0123456789abcdefghijklmno")
}

/// What a key did, as one of the books tells it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    pub requests: u64,
    pub tokens: u64,
    /// In thousand-millionths of a dollar.
    pub usd: u64,
}

impl Sum {
    fn add(&mut self, requests: u64, tokens: u64, usd: u64) {
        *self = Sum {
            requests: self.requests + requests,
            tokens: self.tokens + tokens,
            usd: self.usd + usd,
        };
    }
}

pub type Book = BTreeMap<String, Sum>;

#[test]
fn requests_of_every_fate_add_up_in_every_book() {
    run_within(Duration::from_secs(900), async {
        // Counts of a day would begin anew at midnight.
        while !reconciled().await {}
    });
}

/// False if the day ended meanwhile.
async fn reconciled() -> bool {
    let requests = REQUESTS[usize::from(runs_all())];
    let (mock, other) = (Mock::start().await, Mock::start().await);
    mock.by(act);
    other.by(act_as_other);
    let gateway = Gateway::with(catalog(&mock, &other))
        .server("workers: 2\nlog: { format: json, level: warn, access: ./access.log }")
        .start()
        .await;
    let day = today();
    let told = Arc::new(AtomicUsize::new(0));
    let next = Arc::new(AtomicUsize::new(0));
    let address = gateway.address;
    let crowd = (0..CONNECTIONS).map(|number| {
        let (next, told) = (next.clone(), told.clone());
        spawn(async move {
            let mut random = fastrand::Rng::with_seed(number as u64);
            let mut connection = client::Connection::plain(address, None).await;
            while next.fetch_add(1, Ordering::Relaxed) < requests {
                let (act, model) = ACTS[random.usize(..ACTS.len())];
                let (body, leaves) = request(act, model, &mut random);
                let key = secret(random.usize(..CALLERS), random.usize(..2));
                connection.send(client::post_as(&key, &body)).await;
                if leaves {
                    if act == "gone" {
                        let mut answer = connection.head().await.expect("a head");
                        connection.event(&mut answer).await;
                    } else {
                        tokio::time::sleep(Duration::from_millis(random.u64(0..8))).await;
                    }
                    connection = client::Connection::plain(address, None).await;
                    continue;
                }
                let Some(mut answer) = connection.head().await else {
                    connection = client::Connection::plain(address, None).await;
                    continue;
                };
                connection.rest(&mut answer).await;
                let usage = match answer.events().iter().rev().find_map(|event| {
                    serde_json::from_str::<Value>(event)
                        .ok()
                        .filter(|chunk| chunk["usage"].is_object())
                }) {
                    Some(chunk) => chunk["usage"]["total_tokens"].as_u64(),
                    None if answer.status == 200 && answer.events().is_empty() => {
                        answer.json()["usage"]["total_tokens"].as_u64()
                    }
                    None => None,
                };
                told.fetch_add(usage.unwrap_or(0) as usize, Ordering::Relaxed);
                if answer.end != Some(End::Whole) || answer.field("connection") == Some("close") {
                    connection = client::Connection::plain(address, None).await;
                }
            }
        })
    });
    for one in crowd.collect::<Vec<_>>() {
        one.await.expect("a caller without a panic");
    }
    eventually("all is settled", || {
        (gateway.status()["exchanges"] == 0).then_some(())
    })
    .await;
    eventually("the ledger is written", || {
        (gateway.status()["ledger"]["waiting"] == 0).then_some(())
    })
    .await;
    let log = gateway.conf.parent().expect("a folder").join("access.log");
    let lines = eventually("all access lines", || {
        let lines: Vec<Value> = std::fs::read_to_string(&log)
            .ok()?
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        (lines.len() == requests).then_some(lines)
    })
    .await;
    let ledger = ledger(&gateway);
    let limits = limits(&gateway);
    if today() != day {
        return false;
    }
    // By key and by caller: a caller's is the sum of its keys'.
    assert_eq!(ledger, of_lines(&lines), "the ledger and the access lines");
    assert_eq!(limits, ledger, "the limits and the ledger");
    let all = ledger.iter().filter(|(name, _)| name.contains('/')).fold(
        Sum::default(),
        |mut all, (_, sum)| {
            all.add(sum.requests, sum.tokens, sum.usd);
            all
        },
    );
    // Who got a whole answer was told what it cost; nobody was told more than what was counted.
    let whole: u64 = lines
        .iter()
        .filter(|line| line["outcome"] == "ok")
        .map(tokens)
        .sum();
    assert_eq!(
        told.load(Ordering::Relaxed) as u64,
        whole,
        "what callers were told"
    );
    assert!(
        whole < all.tokens,
        "those who left and those who were cut paid something, too"
    );
    // All of it did happen.
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    lines.iter().for_each(|line| {
        *outcomes
            .entry(line["outcome"].as_str().expect("an outcome"))
            .or_default() += 1
    });
    for outcome in [
        "ok",
        "refused",
        "limited",
        "upstream_error",
        "upstream_cut",
        "client_left",
    ] {
        assert!(
            outcomes
                .get(outcome)
                .is_some_and(|count| *count > requests / 1000),
            "{outcome} in {outcomes:?}"
        );
    }
    let metrics = gateway.metrics();
    let hedges = ["won", "lost"]
        .map(|outcome| metrics.sum("portcullis_hedges_total", &[("outcome", outcome)]));
    assert!(
        hedges.iter().all(|count| *count > requests as f64 / 2000.0),
        "{hedges:?}"
    );
    let second = lines
        .iter()
        .filter(|line| {
            line["model"] == "two" && line["account"] == "other" && line["outcome"] == "ok"
        })
        .count();
    assert!(second > requests / 1000, "{second} by fallback");
    println!(
        "{outcomes:?}; {second} by fallback, hedges {hedges:?}; {all:?}, of which whole answers {whole} tokens"
    );
    true
}

pub fn today() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs()
        / 86_400
}

fn catalog(mock: &Mock, other: &Mock) -> Catalog {
    let price = "price: { input: 0.7, output: 3.1, cached_input: 0.07, per_request: 0.000001 }";
    let mut catalog = Catalog::new()
        .without_acme()
        .account("a", mock)
        .account("b", mock)
        .account("c", mock)
        .account("d", mock)
        .account("other", other);
    catalog = catalog
        .model_with("plain", &["a"], price)
        .model_with("two", &["b", "other"], price)
        .model_with(
            "hedged",
            &["c", "other"],
            &format!("hedge: {{ after: p50, at_most: 100% }}, {price}"),
        )
        .model_with("free", &["d"], "price: { input: 0, output: 0 }");
    for caller in 0..CALLERS {
        // The last one's limits are met all the time, the others' never.
        let limits = if caller + 1 == CALLERS {
            "requests_per_minute: 600, tokens_per_minute: 40000, concurrency: 5"
        } else {
            "requests_per_minute: 10000000, tokens_per_minute: 10000000000, concurrency: 10000"
        };
        let more = "requests_per_day: 10000000, tokens_per_day: 10000000000, usd_per_day: 1000000, usd_per_month: 1000000";
        let limits = format!("limits: {{ {limits}, {more} }}");
        let of_key = "limits: { requests_per_day: 10000000, tokens_per_day: 10000000000, usd_per_month: 1000000 }";
        let (one, two) = (secret(caller, 0), secret(caller, 1));
        catalog = catalog.caller_with(
            &format!("caller-{caller}"),
            &limits,
            &[("one", &one, of_key), ("two", &two, of_key)],
        );
    }
    catalog
}

/// A request, and whether its caller leaves.
fn request(act: &str, model: &str, random: &mut fastrand::Rng) -> (Value, bool) {
    let (prompt, written) = (random.u64(1..2000), random.u64(1..200));
    let text = format!(
        "{act} {prompt} {written} {}",
        "x".repeat(random.usize(..300))
    );
    let streams = match act {
        "stream" | "uncounted-stream" | "cut" | "gone" => true,
        "answer" | "uncounted" => false,
        _ => random.bool(),
    };
    let mut body = json!({"model": model, "messages": [{"role": "user", "content": text}]});
    if streams {
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
    }
    if random.bool() {
        body["max_tokens"] = json!(random.u64(1..500));
    }
    (body, act.starts_with("gone"))
}

fn act(request: &Request) -> Script {
    let body = request.json();
    let text = body["messages"][0]["content"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let mut words = text.split(' ');
    let act = words.next().unwrap_or_default();
    let mut number = || {
        words
            .next()
            .and_then(|word| word.parse::<u64>().ok())
            .unwrap_or(1)
    };
    let (prompt, written) = (number(), number());
    let streams = body["stream"] == true;
    match act {
        "fault" => Script::error(400, "no"),
        // Not so often in a row that its breaker opens.
        "down" | "fallback" => Script::error(500, "out of order"),
        "cut" => begun(written).close(),
        "gone" => begun(written).stall(),
        "gone-early" => Script::silent(),
        // A second attempt is made beside some of them, which is faster, or slower.
        "slow" if prompt % 20 == 0 => late(500, whole(streams, prompt, written, true)),
        "slow" if prompt % 20 == 1 => late(200, whole(streams, prompt, written, true)),
        _ => whole(streams, prompt, written, !act.starts_with("uncounted")),
    }
}

/// Whoever is asked second answers.
fn act_as_other(request: &Request) -> Script {
    let body = request.json();
    let text = body["messages"][0]["content"].as_str().unwrap_or_default();
    let mut words = text.split(' ');
    let is_slow = words.next() == Some("slow")
        && words
            .next()
            .and_then(|word| word.parse::<u64>().ok())
            .is_some_and(|prompt| prompt % 20 == 1);
    let answer = whole(body["stream"] == true, 50, 7, true);
    if is_slow { late(1_000, answer) } else { answer }
}

fn late(millis: u64, answer: Script) -> Script {
    Script::new()
        .delay(Duration::from_millis(millis))
        .and(answer)
}

fn begun(words: u64) -> Script {
    Script::sse().words(0..(words as usize % 7 + 1))
}

fn whole(streams: bool, prompt: u64, written: u64, counted: bool) -> Script {
    let usage = json!({
        "prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": prompt / 3},
    });
    if !streams {
        let mut answer = script::completion("an answer");
        if counted {
            answer["usage"] = usage;
        } else if let Some(answer) = answer.as_object_mut() {
            answer.remove("usage");
        }
        return Script::json(200, &answer);
    }
    let stream = Script::sse()
        .event(chunk(
            &json!({"role": "assistant", "content": "some words"}),
            None,
        ))
        .event(finish("stop"));
    if !counted {
        return stream.done();
    }
    let mut last = finish("stop");
    last["choices"] = json!([]);
    last["usage"] = usage;
    stream.event(last).done()
}

fn tokens(line: &Value) -> u64 {
    line["prompt_tokens"].as_u64().expect("tokens")
        + line["completion_tokens"].as_u64().expect("tokens")
}

/// By key, and by caller.
fn both(book: &mut Book, key: &str, requests: u64, tokens: u64, usd: u64) {
    let (caller, _) = key.split_once('/').expect("a key's name");
    for name in [key, caller] {
        book.entry(name.to_owned())
            .or_default()
            .add(requests, tokens, usd);
    }
}

fn nanos(dollars: &Value) -> u64 {
    let number = dollars.as_f64().or_else(|| dollars.as_str()?.parse().ok());
    let dollars = number.unwrap_or_else(|| panic!("no dollars in {dollars}"));
    (dollars * 1e9).round() as u64
}

/// Those that were let in.
pub fn of_lines(lines: &[Value]) -> Book {
    let mut book = Book::new();
    for line in lines.iter().filter(|line| !line["cost_usd"].is_null()) {
        both(
            &mut book,
            line["key"].as_str().expect("a key"),
            1,
            tokens(line),
            nanos(&line["cost_usd"]),
        );
    }
    book
}

pub fn ledger(gateway: &Gateway) -> Book {
    let output = portcullis(&[
        "usage",
        "--conf",
        gateway.conf.to_str().expect("a path"),
        "--by",
        "key",
        "--since",
        "24h",
        "--json",
    ]);
    let told: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    let mut book = Book::new();
    for row in told["usage"].as_array().unwrap_or_else(|| panic!("{told}")) {
        let count = |name: &str| {
            row[name]
                .as_u64()
                .unwrap_or_else(|| panic!("no {name} in {row}"))
        };
        both(
            &mut book,
            row["key"].as_str().expect("a key"),
            count("requests"),
            count("total_tokens"),
            nanos(&row["cost_usd"]),
        );
    }
    book
}

pub fn limits(gateway: &Gateway) -> Book {
    let told: Value = serde_json::from_str(&gateway.admin("/limits").1).expect("JSON");
    let scopes = told["limits"].as_array().expect("limits").iter();
    scopes
        .map(|scope| {
            let used = &scope["used"];
            assert!(
                used["concurrency"].is_null() || used["concurrency"] == 0,
                "{scope}"
            );
            let count = |name: &str| used[name].as_u64().expect("a count");
            let sum = Sum {
                requests: count("requests_per_day"),
                tokens: count("tokens_per_day"),
                usd: nanos(&used["usd_per_month"]),
            };
            (scope["name"].as_str().expect("a name").to_owned(), sum)
        })
        .collect()
}
