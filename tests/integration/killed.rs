//! Running requests when a gateway is killed: everything that they had used up to five seconds
//! before is in every book, once.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::support::client::{self, post, post_as};
use crate::support::folder::Folder;
use crate::support::gateway::portcullis;
use crate::support::script::{Gate, finish, usage};
use crate::support::{Catalog, Gateway, Mock, Script, chat, chat_stream, eventually, run_within};

const LIMITED: &str = "sk-CaNaRy-caller-limited-0123456789abcdefghijklmn";
/// Model, prompt, completion, who counted them, cost, tokens in vain, what those cost, attempts.
type Used = (String, i64, i64, String, Option<i64>, i64, Option<i64>, i64);

fn file(gateway: &Gateway) -> PathBuf {
    gateway
        .conf
        .parent()
        .expect("a folder")
        .join("ledger.sqlite")
}

fn read<T>(
    gateway: &Gateway,
    sql: &str,
    row: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Vec<T> {
    let connection = Connection::open_with_flags(file(gateway), OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("the ledger");
    connection
        .busy_timeout(Duration::from_secs(5))
        .expect("a timeout");
    let mut statement = connection
        .prepare(sql)
        .unwrap_or_else(|why| panic!("{sql}: {why}"));
    statement
        .query_map([], row)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

/// What stands there, by model.
fn used(gateway: &Gateway, from: &str) -> Vec<Used> {
    let columns = "model, prompt, completion, usage, cost, unused_tokens, unused_cost, attempts";
    read(
        gateway,
        &format!("SELECT {columns} FROM {from} ORDER BY model"),
        |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
                row.get(5)?,
                row.get(6)?,
                row.get(7)?,
            ))
        },
    )
}

fn usage_report(gateway: &Gateway, arguments: &[&str]) -> Value {
    let conf = gateway.conf.to_str().expect("a path");
    let output = portcullis(&[&["usage", "--conf", conf, "--json"], arguments].concat());
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Asks, and reads so many events of a stream.
async fn open(gateway: &Gateway, body: &Value, events: usize) -> client::Connection {
    // What is killed under way has no access line: the test's own books must not miss it.
    let mut connection = client::Connection::plain(gateway.address, None).await;
    assert!(connection.send(post_as(LIMITED, body)).await);
    if events > 0 {
        let mut head = connection.head().await.expect("a head");
        for _ in 0..events {
            connection.event(&mut head).await.expect("an event");
        }
    }
    connection
}

/// The sums of days, of rows, of `/usage`, of `portcullis usage` and of the limits.
fn assert_books(gateway: &Gateway, requests: i64, tokens: i64, nanos: i64) {
    for from in [
        "SELECT count(*), sum(prompt + completion), sum(cost) FROM exchange",
        "SELECT sum(requests), sum(prompt + completion), sum(cost) FROM daily",
    ] {
        assert_eq!(
            read(gateway, from, |row| Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?
            ))),
            [(requests, tokens, nanos)],
            "{from}"
        );
    }
    let usd = |value: &Value| {
        (value
            .as_f64()
            .or_else(|| value.as_str()?.parse().ok())
            .expect("dollars")
            * 1e9)
            .round() as i64
    };
    let asked: Value = serde_json::from_str(&gateway.admin("/usage?since=24h").1).expect("JSON");
    for total in [
        &asked["total"],
        &usage_report(gateway, &["--since", "24h"])["total"],
    ] {
        assert_eq!(
            (
                total["requests"].as_i64(),
                total["total_tokens"].as_i64(),
                usd(&total["cost_usd"])
            ),
            (Some(requests), Some(tokens), nanos)
        );
    }
    let limits: Value = serde_json::from_str(&gateway.admin("/limits").1).expect("JSON");
    let used = &limits["limits"][0]["used"];
    let counted = (
        used["requests_per_day"].as_i64(),
        used["tokens_per_day"].as_i64(),
        usd(&used["usd_per_month"]),
    );
    assert_eq!(counted, (Some(requests), Some(tokens), nanos), "{used}");
}

fn catalog(catalog: Catalog) -> Catalog {
    let limits =
        "limits: { requests_per_day: 1000, tokens_per_day: 100000000, usd_per_month: 1000 }";
    catalog
        .without_acme()
        .caller_with("limited", limits, &[("prod", LIMITED, "")])
}

const PRICE: &str = "price: { input: 1, output: 3 }";

#[test]
fn a_killed_gateway_has_what_its_streams_had_used() {
    run_within(Duration::from_secs(120), async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        // All at once, and then silence; only what was asked; what the upstream counts itself; and
        // one that ends.
        mock.on("burst", Script::sse().words(0..400).stall());
        mock.on("silent", Script::silent());
        mock.on(
            "counted",
            Script::sse().words(0..3).event(usage(77)).stall(),
        );
        mock.on(
            "ends",
            Script::sse()
                .words(0..5)
                .wait(&gate)
                .event(finish("stop"))
                .event(usage(5))
                .done(),
        );
        let files = ["burst", "silent", "counted", "ends"]
            .iter()
            .fold(Catalog::new().account("a", &mock), |files, model| {
                files.model_with(model, &["a"], PRICE)
            });
        let mut gateway = Gateway::start(catalog(files)).await;
        let streams = [
            (chat_stream("burst"), 400),
            (chat_stream("counted"), 3),
            (chat("silent"), 0),
        ];

        // What they would have used if their callers had left: those are told today.
        for (number, (body, events)) in streams.iter().enumerate() {
            let connection = open(&gateway, body, *events).await;
            mock.request(number).await;
            drop(connection);
        }
        let left = |gateway: &Gateway| used(gateway, "exchange WHERE outcome = 'client_left'");
        let expected = eventually("their rows", || {
            Some(left(&gateway)).filter(|rows| rows.len() == streams.len())
        })
        .await;
        assert!(
            expected[0].2 >= 400
                && expected[0].3 == "estimated"
                && expected[1].3 == "reported"
                && expected[2].1 > 0,
            "{expected:?}"
        );

        let mut running = vec![open(&gateway, &chat_stream("ends"), 5).await];
        for (body, events) in &streams {
            running.push(open(&gateway, body, *events).await);
        }
        let are_written = |rows: &Vec<Used>| {
            rows.iter()
                .filter(|row| row.0 != "ends")
                .eq(expected.iter())
        };
        let rows = eventually("what runs is written down", || {
            Some(used(&gateway, "running")).filter(are_written)
        })
        .await;
        assert_eq!(rows.len(), 4);
        assert_eq!(
            read(&gateway, "SELECT count(*) FROM exchange", |row| row
                .get::<_, i64>(0)),
            [3],
            "no sum has them yet"
        );
        // Who ends is a row, and nothing else any more.
        gate.open();
        let ended = || {
            (used(&gateway, "exchange WHERE model = 'ends' AND outcome = 'ok'").len() == 1)
                .then_some(())
        };
        eventually("its row", ended).await;
        assert_eq!(used(&gateway, "running"), expected);

        gateway.crash_and_restart();
        drop(running);
        assert_eq!(used(&gateway, "running"), []);
        assert_eq!(
            used(&gateway, "exchange WHERE outcome = 'shutdown'"),
            expected,
            "{}",
            gateway.log()
        );
        let sum = |of: fn(&Used) -> i64| used(&gateway, "exchange").iter().map(of).sum::<i64>();
        let (tokens, nanos) = (sum(|row| row.1 + row.2), sum(|row| row.4.unwrap_or(0)));
        assert_books(&gateway, 7, tokens, nanos);
        let by = usage_report(&gateway, &["--by", "outcome"]);
        let cut = by["usage"]
            .as_array()
            .unwrap()
            .iter()
            .find(|line| line["outcome"] == "shutdown")
            .expect("a line");
        assert_eq!(
            (
                cut["requests"].as_i64(),
                cut["failed"].as_i64(),
                cut["estimated_requests"].as_i64()
            ),
            (Some(3), Some(3), Some(2))
        );
        assert!(
            gateway
                .log()
                .contains("3 requests ran in a process that was killed"),
            "{}",
            gateway.log()
        );
        // And all of it once: the next start finds nothing.
        gateway.crash_and_restart();
        assert_books(&gateway, 7, tokens, nanos);
    });
}

#[test]
fn both_attempts_of_a_hedge_are_paid_once() {
    run_within(Duration::from_secs(120), async {
        const WARM: usize = 20;
        let (one, two) = (Mock::start().await, Mock::start().await);
        let files = Catalog::new().account("a", &one).account("b", &two);
        let files = files.model_with(
            "m",
            &["a", "b"],
            &format!("hedge: {{ at_most: 100% }}, {PRICE}"),
        );
        let mut gateway = Gateway::start(catalog(files)).await;
        for _ in 0..WARM {
            assert_eq!(gateway.raw(post_as(LIMITED, &chat("m"))).await.status, 200);
        }
        one.always(Script::silent());
        two.always(Script::silent());
        let connection = open(&gateway, &chat("m"), 0).await;
        one.request(WARM).await;
        two.request(0).await;
        drop(connection);
        let left = |gateway: &Gateway| used(gateway, "exchange WHERE outcome = 'client_left'");
        let expected = eventually("its row", || {
            Some(left(&gateway)).filter(|rows| rows.len() == 1)
        })
        .await;
        assert!(
            expected[0].1 > 0 && expected[0].5 == expected[0].1 && expected[0].7 == 2,
            "{expected:?}"
        );
        let _connection = open(&gateway, &chat("m"), 0).await;
        one.request(WARM + 1).await;
        two.request(1).await;
        eventually("both are written down", || {
            Some(used(&gateway, "running")).filter(|rows| *rows == expected)
        })
        .await;
        gateway.crash_and_restart();
        assert_eq!(
            used(&gateway, "exchange WHERE outcome = 'shutdown'"),
            expected
        );
    });
}

#[test]
fn of_two_gateways_only_the_dead_ones_streams_end() {
    run_within(Duration::from_secs(120), async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        mock.on("dies", Script::sse().words(0..40).stall());
        mock.on(
            "lives",
            Script::sse()
                .words(0..40)
                .wait(&gate)
                .event(finish("stop"))
                .event(usage(40))
                .done(),
        );
        let folder = Folder::new(&[]);
        let path = folder.path().join("data/ledger.sqlite");
        let files = catalog(
            Catalog::new()
                .account("a", &mock)
                .model_with("dies", &["a"], PRICE)
                .model_with("lives", &["a"], PRICE),
        );
        let with = || Gateway::with(&files).server(&format!("ledger: {{ path: {path:?} }}"));
        let (mut one, two) = (with().start().await, with().start().await);
        let count = |sql: &str| {
            let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)
                .expect("the ledger");
            connection
                .busy_timeout(Duration::from_secs(5))
                .expect("a timeout");
            connection
                .query_row(sql, [], |row| row.get::<_, i64>(0))
                .unwrap_or_else(|why| panic!("{sql}: {why}"))
        };
        let _dies = open(&one, &chat_stream("dies"), 40).await;
        let _lives = open(&two, &chat_stream("lives"), 40).await;
        let rows = || {
            (count("SELECT count(*) FROM running WHERE completion >= 40 / 4") == 2).then_some(())
        };
        eventually("both are written down", rows).await;
        one.crash_and_restart();
        assert_eq!(
            count("SELECT count(*) FROM exchange WHERE model = 'dies' AND outcome = 'shutdown'"),
            1
        );
        assert_eq!(
            (
                count("SELECT count(*) FROM exchange"),
                count("SELECT count(*) FROM running WHERE model = 'lives'")
            ),
            (1, 1)
        );
        gate.open();
        let ok = || {
            (count("SELECT count(*) FROM exchange WHERE model = 'lives' AND outcome = 'ok' AND completion = 40") == 1)
                .then_some(())
        };
        eventually("its row", ok).await;
        assert_eq!(
            (
                count("SELECT sum(requests) FROM daily"),
                count("SELECT count(*) FROM running")
            ),
            (2, 0)
        );
        assert_eq!(one.raw(post(&chat("m"))).await.status, 401, "it serves");
    });
}
