//! Upstreams that fail before their answer has begun, and the connections to upstreams that do not
//! fail.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::failover::trail;
use crate::support::client::post;
use crate::support::script::{self, JSON, SSE};
use crate::support::tls::Ca;
use crate::support::{Catalog, Gate, Gateway, Mock, Script, chat, chat_stream, eventually, run};

#[test]
fn d01_accounts_out_of_reach_hand_on() {
    run(async {
        let (refusing, deaf, good) = (
            Mock::refusing().await,
            Mock::deaf().await,
            Mock::start().await,
        );
        let catalog = Catalog::new()
            .account("refusing", &refusing)
            .account_with("deaf", &deaf, "timeouts: { connect: 400ms }")
            .account_at("gone", "http://gone.invalid:8000/v1", "insecure: true")
            .account("good", &good)
            .model("all", &["refusing", "deaf", "gone"])
            .model_with("alone-refusing", &["refusing=m"], "")
            .model_with("alone-deaf", &["deaf=m"], "")
            .model_with("alone-gone", &["gone=m"], "")
            .model("then-refusing", &["refusing", "good"])
            .model("then-deaf", &["deaf", "good"])
            .model("then-gone", &["gone", "good"]);
        let gateway = Gateway::start(catalog).await;
        let outcomes = [
            ("refusing", "unreachable"),
            ("deaf", "connect_timeout"),
            ("gone", "unreachable"),
        ];
        let mut lines = 0;
        for (account, outcome) in outcomes {
            for body in [chat as fn(&str) -> Value, chat_stream] {
                let began = Instant::now();
                let alone = gateway.post(&body(&format!("alone-{account}"))).await;
                alone.is_error(503, "upstream_unavailable");
                assert!(
                    alone.field("retry-after").is_some(),
                    "{account}: {:?}",
                    alone.fields
                );
                // Less than the five seconds that a connection has without a word about it.
                let took = began.elapsed();
                assert!(
                    account != "deaf" || took < Duration::from_millis(4_900),
                    "{took:?}"
                );
                let answer = gateway.post(&body(&format!("then-{account}"))).await;
                assert_eq!(answer.status, 200, "{account}: {}", answer.text());
                lines += 2;
                // Which of the two lines is written first is not said.
                let (alone, answer) = (
                    gateway.line_of(&alone).await,
                    gateway.line_of(&answer).await,
                );
                assert_eq!(trail(&alone), format!("{account}:{outcome}"));
                assert_eq!(trail(&answer), format!("{account}:{outcome} good:ok"));
                assert_eq!(
                    (&alone["maybe_billed"], &answer["maybe_billed"]),
                    (&json!(false), &json!(false))
                );
            }
        }
        let down = gateway.post(&chat("all")).await;
        down.is_error(503, "upstream_unavailable");
        assert_eq!(down.field("x-should-retry"), Some("false"));
        gateway.access_lines(lines + 1).await;
    });
}

#[test]
fn d02_an_invalid_certificate_is_never_talked_to() {
    run(async {
        let (ca, stranger) = (Ca::new(), Ca::new());
        let good = Mock::tls(&ca.leaf()).await;
        let bad = [
            ("expired", Mock::tls(&ca.expired()).await),
            ("name", Mock::tls(&ca.leaf_for("other.test")).await),
            ("unknown", Mock::tls(&stranger.leaf()).await),
        ];
        let trust = "tls: { ca: ca.pem }";
        let mut catalog = Catalog::new().account_with("good", &good, trust);
        for (id, mock) in &bad {
            catalog = catalog
                .account_with(id, mock, trust)
                .model(&format!("alone-{id}"), &[id])
                .model(&format!("then-{id}"), &[id, "good"]);
        }
        let gateway = Gateway::with(catalog)
            .file("ca.pem", ca.pem())
            .start()
            .await;
        let mut lines = 0;
        for (id, mock) in &bad {
            let alone = gateway.post(&chat(&format!("alone-{id}"))).await;
            alone.is_error(502, "bad_upstream_response");
            let answer = gateway.post(&chat_stream(&format!("then-{id}"))).await;
            assert_eq!(
                (answer.status, answer.content().as_str()),
                (200, "w0 w1 w2 ")
            );
            lines += 2;
            let seen = gateway.access_lines(lines).await;
            assert_eq!(
                trail(&seen[lines - 2]),
                format!("{id}:tls"),
                "no second try at the same account"
            );
            assert_eq!(trail(&seen[lines - 1]), format!("{id}:tls good:ok"));
            assert_eq!((mock.count(), &seen[lines - 2]["account"]), (0, &json!(id)));
        }
    });
}

#[test]
fn d03_a_reset_before_the_response_repeats_the_body() {
    run(async {
        let scripts = [
            ("reset", Script::new().reset()),
            ("closed", Script::new().close()),
            (
                "half a head",
                Script::new().raw("HTTP/1.1 200 OK\r\nconte").reset(),
            ),
        ];
        for (what, script) in scripts {
            let (a, b) = (Mock::start().await, Mock::start().await);
            a.always(script);
            let gateway = Gateway::start(Catalog::chain(&[&a, &b])).await;
            let large = json!({"model": "m", "x": {"odd": [1e3, 0.10]}, "messages": [{"role": "user", "content": "é".repeat(200_000)}]});
            let mut stream = large.clone();
            stream["stream"] = json!(true);
            for (n, body) in [chat("m"), large, stream].iter().enumerate() {
                let answer = gateway.post(body).await;
                assert_eq!(answer.status, 200, "{what}: {}", answer.text());
                assert!(
                    a.request(n).await.body == b.request(n).await.body,
                    "{what}: the body differs on the second try"
                );
                assert!(a.request(n).await.field("x-request-id").is_some());
            }
            let lines = gateway.access_lines(3).await;
            assert!(
                lines
                    .iter()
                    .all(|line| trail(line) == "a:reset b:ok" && line["maybe_billed"] == true),
                "{what}: {lines:#?}"
            );
        }
    });
}

#[test]
fn d03_a_connection_reset_when_accepted_goes_on() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        a.greet(Script::new().reset());
        let gateway = Gateway::start(Catalog::chain(&[&a, &b])).await;
        for body in [chat("m"), chat_stream("m")] {
            assert_eq!(gateway.post(&body).await.status, 200);
        }
        assert_eq!((a.count(), b.count()), (0, 2));
        gateway.access_lines(2).await;
    });
}

#[test]
fn d04_a_stale_connection_is_replaced_and_costs_no_attempt() {
    run(async {
        for (what, stale) in [
            ("reset", Script::new().reset()),
            ("closed", Script::new().close()),
        ] {
            for body in [chat("m"), chat_stream("m")] {
                // On a machine that stands still the end comes too late for a stale connection.
                let mut lines = Vec::new();
                for _ in 0..5 {
                    lines = replaced(what, &stale, &body).await;
                    if lines[1]["attempts"][0]["ms"].as_u64().unwrap() < 500 {
                        break;
                    }
                }
                let is_right =
                    |line: &Value| trail(line) == "a:ok" && line["maybe_billed"] == false;
                assert!(lines.iter().all(is_right), "{what}: {lines:#?}");
            }
        }
    });
}

/// Sends two requests, of which the second finds a stale connection. Returns their lines.
async fn replaced(what: &str, stale: &Script, body: &Value) -> Vec<Value> {
    let mock = Mock::start().await;
    let gateway = Gateway::with(Catalog::over(&mock))
        .server("attempts: 1")
        .start()
        .await;
    // The good answer leaves an idle connection, which is closed when the next request has come.
    mock.push(Script::answer("first"))
        .push(stale.clone())
        .push(Script::answer("second"));
    assert_eq!(gateway.post(&chat("m")).await.content(), "first");
    let second = gateway.post(body).await;
    let lines = gateway.access_lines(2).await;
    if second.status == 200 {
        assert_eq!(second.content(), "second", "{what}: {}", second.text());
        let (one, two, three) = (
            mock.request(0).await,
            mock.request(1).await,
            mock.request(2).await,
        );
        assert_eq!(
            (one.connection, one.body == two.body || *body != chat("m")),
            (two.connection, true)
        );
        assert_ne!(two.connection, three.connection, "a fresh connection");
        assert_eq!(two.body, three.body);
        assert_eq!(two.field("x-request-id"), three.field("x-request-id"));
    }
    lines
}

#[test]
fn d04_a_connection_closed_by_the_upstream_is_unused() {
    run(async {
        let mock = Mock::start().await;
        mock.push(Script::answer("first").close());
        let gateway = Gateway::start(Catalog::over(&mock)).await;
        assert_eq!(gateway.post(&chat("m")).await.content(), "first");
        crate::support::eventually("the mock has closed", || (mock.open() == 0).then_some(()))
            .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        assert_eq!((mock.count(), mock.connections()), (2, 2));
        gateway.access_lines(2).await;
    });
}

/// The upstream gets the request twice. No book had a word of it.
#[test]
fn d04_a_request_sent_again_anew_says_so() {
    run(async {
        let mock = Mock::start().await;
        mock.push(Script::answer("first"));
        mock.push(Script::new().reset());
        mock.push(Script::answer("third"));
        let gateway = Gateway::start(Catalog::over(&mock)).await;
        for text in ["first", "third"] {
            assert_eq!(gateway.post(&chat("m")).await.content(), text);
        }
        assert_eq!((mock.count(), mock.connections()), (3, 2));
        let lines = gateway.access_lines(2).await;
        let resent = |line: &Value| line["attempts"][0]["resent"].clone();
        assert_eq!(
            (resent(&lines[0]), resent(&lines[1])),
            (Value::Null, true.into()),
            "{lines:#?}"
        );
        assert_eq!(lines[1]["attempts"].as_array().map(Vec::len), Some(1));
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_resent_total", &[("account", "a")]),
            1.0
        );
    });
}

#[test]
fn d04_unasked_answers_answer_no_later_request() {
    run(async {
        let mock = Mock::start().await;
        let second = script::completion("of nobody").to_string();
        let second = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{second}",
            second.len()
        );
        for text in ["first", "third"] {
            mock.push(
                Script::answer(text)
                    .delay(Duration::from_millis(10))
                    .raw(&second),
            );
        }
        let gateway = Gateway::start(Catalog::over(&mock)).await;
        for text in ["first", "third"] {
            assert_eq!(gateway.post(&chat("m")).await.content(), text);
            eventually("the connection is closed", || {
                (mock.open() == 0).then_some(())
            })
            .await;
        }
        assert_eq!(
            (mock.count(), mock.connections()),
            (2, 2),
            "the connection is not used again"
        );
        gateway.access_lines(2).await;
    });
}

#[test]
fn d04_the_second_try_is_this_accounts_last() {
    run(async {
        let mut counts = (0, 0);
        // On a machine that stands still the end comes too late for a stale connection.
        for _ in 0..5 {
            let (a, b) = (Mock::start().await, Mock::start().await);
            a.push(Script::answer("first"))
                .push(Script::new().close())
                .push(Script::new().close());
            let gateway = Gateway::start(Catalog::chain(&[&a, &b])).await;
            gateway.post(&chat("m")).await;
            assert_eq!(gateway.post(&chat("m")).await.status, 200);
            counts = (a.count(), b.count());
            let line = gateway.access_lines(2).await.remove(1);
            assert_eq!(trail(&line), "a:reset b:ok");
            if line["attempts"][0]["ms"].as_u64().unwrap() < 500 {
                break;
            }
        }
        assert_eq!(counts, (3, 1));
    });
}

#[test]
fn d04_an_end_after_stale_is_a_billed_failure() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let late = Script::new().delay(Duration::from_millis(700)).close();
        a.push(Script::answer("first")).push(late);
        let gateway = Gateway::start(Catalog::chain(&[&a, &b])).await;
        gateway.post(&chat("m")).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        assert_eq!((a.count(), b.count()), (2, 1), "not sent again");
        let line = gateway.access_lines(2).await.remove(1);
        assert_eq!(
            (trail(&line).as_str(), &line["maybe_billed"]),
            ("a:reset b:ok", &json!(true))
        );
    });
}

#[test]
fn d05_a_reset_after_the_head_goes_on() {
    run(async {
        let whole = || Script::new().head(200, &[JSON, ("content-length", "500")]);
        let role = || {
            Script::sse().event(script::chunk(
                &json!({"role": "assistant", "content": ""}),
                None,
            ))
        };
        let cases = [
            ("whole", chat("m"), whole().reset()),
            (
                "whole, some body",
                chat("m"),
                whole().body("{\"id\":").close(),
            ),
            (
                "whole, chunked",
                chat("m"),
                Script::new()
                    .head(200, &[JSON, ("transfer-encoding", "chunked")])
                    .body("{")
                    .close(),
            ),
            ("stream", chat_stream("m"), Script::sse().reset()),
            (
                "stream, a comment",
                chat_stream("m"),
                Script::sse().body(": hello\n\n").close(),
            ),
            (
                "stream, a role opens no gate",
                chat_stream("m"),
                role().close(),
            ),
            (
                "stream, empty content opens none",
                chat_stream("m"),
                role().event(script::delta("")).close(),
            ),
            ("stream, no event", chat_stream("m"), Script::sse().end()),
            (
                "stream, [DONE] alone",
                chat_stream("m"),
                Script::sse().done(),
            ),
        ];
        for (what, body, script) in cases {
            let (a, b) = (Mock::start().await, Mock::start().await);
            a.always(script);
            let gateway = Gateway::start(Catalog::chain(&[&a, &b])).await;
            let answer = gateway.post(&body).await;
            assert_eq!(answer.status, 200, "{what}: {}", answer.text());
            let content = answer.content();
            assert!(
                ["w0 w1 w2 ", "Hello from the mock."].contains(&content.as_str()),
                "{what}: {}",
                answer.text()
            );
            let roles = answer.text().matches("\"role\"").count();
            assert_eq!(roles, 1, "{what}: {}", answer.text());
            let line = gateway.line().await;
            assert_eq!(
                (a.count(), b.count(), &line["outcome"]),
                (1, 1, &json!("ok")),
                "{what}"
            );
            assert!(trail(&line).ends_with(" b:ok"), "{what}: {line}");
        }
    });
}

/// A word that no log may have.
const MARK: &str = "purple-elephant";

#[test]
fn d11_d12_a_200_without_answer_goes_on_or_is_502() {
    run(async {
        let json = |body: &str| Script::text(200, "application/json", body);
        let events = Script::new()
            .head(200, &[SSE, ("content-length", "100")])
            .body(format!("data: {:93}\n", MARK))
            .end();
        let cases = [
            (
                "malformed",
                chat("m"),
                json(&format!("{{\"choices\": [{{\"{MARK}\"")),
            ),
            ("empty", chat("m"), json("")),
            ("null", chat("m"), json("null")),
            ("an array", chat("m"), json(&format!("[\"{MARK}\"]"))),
            (
                "no choices",
                chat("m"),
                json(&format!("{{\"id\": \"{MARK}\"}}")),
            ),
            (
                "choices of none",
                chat("m"),
                json(&format!("{{\"id\": \"{MARK}\", \"choices\": []}}")),
            ),
            (
                "choices are text",
                chat("m"),
                json(&format!("{{\"choices\": \"{MARK}\"}}")),
            ),
            (
                "html",
                chat("m"),
                Script::text(200, "text/html", format!("<html>{MARK}</html>")),
            ),
            (
                "html for a stream",
                chat_stream("m"),
                Script::text(200, "text/html", format!("<html>{MARK}</html>")),
            ),
            (
                "plain text",
                chat("m"),
                Script::text(200, "text/plain", MARK),
            ),
            ("events for an answer", chat("m"), events),
            (
                "gzip",
                chat("m"),
                Script::answer(MARK).with("content-encoding", "gzip"),
            ),
            (
                "gzip for a stream",
                chat_stream("m"),
                Script::stream(2).with("content-encoding", "gzip"),
            ),
            (
                "malformed for a stream",
                chat_stream("m"),
                json(&format!("{{{MARK}")),
            ),
            (
                "201",
                chat("m"),
                Script::text(
                    201,
                    "application/json",
                    script::completion(MARK).to_string(),
                ),
            ),
            ("204", chat("m"), Script::new().head(204, &[]).end()),
            (
                "no HTTP",
                chat("m"),
                Script::new().raw(format!("SSH-2.0-{MARK}\r\n\r\n")).close(),
            ),
        ];
        let (bad, good) = (Mock::start().await, Mock::start().await);
        let catalog = Catalog::new()
            .account("bad", &bad)
            .account("good", &good)
            .model("alone", &["bad"])
            .model("m", &["bad", "good"]);
        let gateway = Gateway::start(catalog).await;
        let mut lines = 0;
        for (what, body, script) in cases {
            bad.always(script);
            let mut alone = body.clone();
            alone["model"] = json!("alone");
            let answer = gateway.post(&alone).await;
            assert_eq!(answer.status, 502, "{what}: {}", answer.text());
            answer.is_error(502, "bad_upstream_response");
            assert!(!answer.text().contains(MARK), "{what}: {}", answer.text());
            let answer = gateway.post(&body).await;
            assert_eq!(answer.status, 200, "{what}: {}", answer.text());
            lines += 2;
            let line = gateway.access_lines(lines).await.pop().unwrap();
            assert!(trail(&line).ends_with(" good:ok"), "{what}: {line}");
            gateway.reset("bad");
            assert!(
                !String::from_utf8_lossy(&gateway.process.stdout()).contains(MARK),
                "{what}: in the access log"
            );
            assert!(!gateway.log().contains(MARK), "{what}: in the log");
        }
    });
}

#[test]
fn d12_json_becomes_a_stream_where_one_was_asked() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::answer("all at once"));
        let gateway = Gateway::over(&mock).await;
        let mut asking = chat_stream("m");
        asking["stream_options"] = json!({"include_usage": true});
        for (body, shows_usage) in [(chat_stream("m"), false), (asking, true)] {
            let answer = gateway.post(&body).await;
            assert_eq!(
                (answer.status, answer.field("content-type")),
                (200, Some("text/event-stream"))
            );
            assert_eq!(answer.content(), "all at once");
            let events = answer.events();
            assert_eq!(events.last().unwrap(), "[DONE]");
            assert_eq!(
                answer.text().contains("\"prompt_tokens\""),
                shows_usage,
                "{}",
                answer.text()
            );
            assert!(
                answer.text().contains("\"finish_reason\":\"stop\""),
                "{}",
                answer.text()
            );
        }
        assert_eq!(gateway.access_lines(2).await[0]["usage"], "reported");
    });
}

#[test]
fn d12_content_types_may_vary_in_case_and_parameters() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let stream = Script::stream(2).payload();
        let head = |kind: &str| {
            Script::new().head(
                200,
                &[("content-type", kind), ("transfer-encoding", "chunked")],
            )
        };
        for kind in [
            "Text/Event-Stream;charset=UTF-8",
            "text/event-stream; charset=utf-8",
            "TEXT/EVENT-STREAM",
        ] {
            mock.push(head(kind).body(&stream).end());
            assert_eq!(
                gateway.post(&chat_stream("m")).await.content(),
                "w0 w1 ",
                "{kind}"
            );
        }
        for kind in [
            "Application/JSON; charset=utf-8",
            "application/problem+json",
        ] {
            mock.push(Script::text(
                200,
                kind,
                script::completion("yes").to_string(),
            ));
            assert_eq!(gateway.post(&chat("m")).await.content(), "yes", "{kind}");
        }
        gateway.access_lines(5).await;
    });
}

#[test]
fn d14_an_answer_over_the_limit_is_cut_there() {
    run(async {
        const LIMIT: u64 = 16 << 20;
        let mock = Mock::start().await;
        let piece = vec![b'x'; 1 << 20];
        let endless = |script: Script| {
            (0..48)
                .fold(script, |script, _| script.body(&piece))
                .stall()
        };
        let head = Script::new()
            .head(200, &[JSON, ("transfer-encoding", "chunked")])
            .body("{\"choices\": \"");
        mock.on("answer", endless(head));
        mock.on("line", endless(Script::sse().body("data: ")));
        mock.on("no-line", endless(Script::sse()));
        mock.on("late", endless(Script::sse().words(0..2).body("data: ")));
        let catalog = ["answer", "line", "no-line", "late"]
            .iter()
            .fold(Catalog::new().account("a", &mock), |c, id| {
                c.model(id, &["a"])
            });
        let server = "limits: { response_body: 16MiB, event: 16MiB }";
        for (n, body) in [
            chat("answer"),
            chat_stream("line"),
            chat_stream("no-line"),
            chat_stream("late"),
        ]
        .iter()
        .enumerate()
        {
            let setup = Gateway::with(&catalog).server(server);
            let gateway = setup.returns_memory_at_once().start().await;
            let before = gateway.rss();
            let answer = gateway.post(body).await;
            match n {
                3 => {
                    assert_eq!((answer.status, answer.content().as_str()), (200, "w0 w1 "));
                    let last = answer.events().pop().unwrap();
                    assert_eq!(
                        serde_json::from_str::<Value>(&last).unwrap()["error"]["code"],
                        "bad_upstream_response",
                        "{last}"
                    );
                }
                _ => drop(answer.is_error(502, "bad_upstream_response")),
            }
            mock.left(n).await;
            let growth = gateway.rss().saturating_sub(before);
            // Less than was sent: twice the limit, and what a first request costs in an unoptimised
            // build.
            assert!(
                growth < 2 * LIMIT + (6 << 20),
                "{body}: {} MiB more",
                growth >> 20
            );
            gateway.line().await;
        }
    });
}

#[test]
fn informational_heads_are_skipped_eight_at_most() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let heads = |n: usize| {
            (0..n).fold(Script::new(), |script, _| {
                script.informational(103, &[("link", "</x>")])
            })
        };
        let gateway = Gateway::start(Catalog::chain(&[&a, &b])).await;
        for (n, whose) in [
            (1, "a:ok"),
            (8, "a:ok"),
            (9, "a:nonsense b:ok"),
            (100, "a:nonsense b:ok"),
        ] {
            a.push(heads(n).then_answer("here"));
            let answer = gateway.post(&chat("m")).await;
            assert_eq!((answer.status, answer.informational.len()), (200, 0));
            assert_eq!(
                trail(gateway.lines_after(&answer).await.last().unwrap()),
                whose,
                "{n}"
            );
        }
    });
}

#[test]
fn an_early_413_is_seen_during_the_upload() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(Catalog::chain(&[&a, &b])).await;
        let body =
            json!({"model": "m", "messages": [{"role": "user", "content": "x".repeat(8 << 20)}]});
        // It reads the rest; it does not read on, and closes.
        for script in [
            Script::error(413, "too much for us"),
            Script::error(413, "too much for us")
                .delay(Duration::from_millis(100))
                .close(),
        ] {
            a.early(script);
            let answer = gateway.post(&body).await;
            let error = answer.is_error(413, "");
            assert_eq!(error["message"], "too much for us");
            assert_eq!(b.count(), 0);
        }
        a.early(Script::error(429, "slow down"));
        assert_eq!(gateway.post(&body).await.status, 200);
        assert_eq!(b.count(), 1);
        gateway.access_lines(3).await;
    });
}

#[test]
fn connections_are_reused_also_after_errors_and_streams() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let scripts = [
            Script::answer("a"),
            Script::stream(3),
            Script::error(500, "no"),
            Script::error(400, "no"),
            Script::answer("b"),
        ];
        for (n, script) in scripts.into_iter().enumerate() {
            mock.push(script);
            let body = if n == 1 { chat_stream("m") } else { chat("m") };
            gateway.post(&body).await;
            gateway.access_lines(n + 1).await;
            assert_eq!(mock.request(n).await.nth, n);
        }
        assert_eq!(mock.connections(), 1);
        // An upstream that says it will close is believed, and what it cannot have finished is not
        // used again.
        mock.push(Script::answer("last").with("connection", "close"));
        gateway.post(&chat("m")).await;
        gateway.post(&chat("m")).await;
        assert_eq!(mock.connections(), 2);
        mock.push(Script::sse().words(0..1).event("{oops").stall());
        gateway.post(&chat_stream("m")).await;
        gateway.post(&chat("m")).await;
        assert_eq!(mock.connections(), 3);
        gateway.access_lines(9).await;
    });
}

#[test]
fn upstreams_over_tls_and_http2() {
    run(async {
        let ca = Ca::new();
        let (one, two) = (Mock::tls(&ca.leaf()).await, Mock::h2(&ca.leaf()).await);
        let trust = "tls: { ca: ca.pem }";
        let catalog = Catalog::new()
            .account_with("one", &one, trust)
            .account_with("two", &two, trust);
        let catalog = catalog
            .model("one", &["one"])
            .model("two", &["two"])
            .model("both", &["two", "one"]);
        let gateway = Gateway::with(catalog)
            .file("ca.pem", ca.pem())
            .start()
            .await;
        let large = "é".repeat(150_000);
        for (mock, model) in [(&one, "one"), (&two, "two")] {
            for (n, body) in [
                chat(model),
                chat_stream(model),
                chat(model),
                chat_stream(model),
            ]
            .into_iter()
            .enumerate()
            {
                let mut body = body;
                body["messages"][0]["content"] = json!(large);
                let answer = gateway.post(&body).await;
                assert_eq!(answer.status, 200, "{model}: {}", answer.text());
                let request = mock.request(n).await;
                assert_eq!(request.json()["messages"], body["messages"]);
                assert_eq!(
                    (request.http2, request.connection),
                    (model == "two", 0),
                    "one connection for all"
                );
                assert!(
                    request
                        .field("authorization")
                        .is_some_and(|v| v.starts_with("Bearer "))
                );
            }
        }
        // Many streams on one connection, and a failed one hurts no other.
        let gate = Gate::new();
        two.always(
            Script::sse()
                .words(0..1)
                .wait(&gate)
                .words(1..2)
                .event(script::finish("stop"))
                .done(),
        );
        let before = two.count();
        let asks = [chat_stream("two"), chat_stream("two"), chat_stream("two")];
        let second = async {
            two.request(before).await;
            gateway.post(&asks[1]).await
        };
        let third = async {
            two.request(before + 1).await;
            gateway.post(&asks[2]).await
        };
        let (a, b, c, ()) = tokio::join!(gateway.post(&asks[0]), second, third, async {
            two.request(before + 2).await;
            two.push(Script::new().reset());
            assert_eq!(gateway.post(&chat("both")).await.status, 200);
            two.push(Script::sse().words(0..1).reset());
            let cut = gateway.post(&chat_stream("two")).await;
            assert!(
                cut.events().pop().unwrap().contains("upstream_truncated"),
                "{}",
                cut.text()
            );
            gate.open();
        });
        for answer in [a, b, c] {
            assert_eq!(answer.content(), "w0 w1 ");
        }
        assert_eq!(two.connections(), 1);
        gateway.access_lines(13).await;
    });
}

#[test]
fn d04_an_http2_connection_that_goes_away_is_replaced() {
    run(async {
        let ca = Ca::new();
        let mock = Mock::h2(&ca.leaf()).await;
        let catalog = Catalog::new()
            .account_with("a", &mock, "tls: { ca: ca.pem }")
            .model("m", &["a"]);
        let gateway = Gateway::with(catalog)
            .server("attempts: 1")
            .file("ca.pem", ca.pem())
            .start()
            .await;
        mock.push(Script::answer("first"))
            .push(Script::new().close())
            .push(Script::answer("second"));
        assert_eq!(gateway.post(&chat("m")).await.content(), "first");
        let second = gateway.post(&chat("m")).await;
        assert_eq!(
            (second.status, second.content().as_str()),
            (200, "second"),
            "{}",
            second.text()
        );
        assert_eq!(trail(&gateway.access_lines(2).await[1]), "a:ok");
    });
}

#[test]
fn upstreams_by_ipv6_and_by_names_with_several_addresses() {
    run(async {
        let (six, four) = (Mock::start_v6().await, Mock::start().await);
        let by_name = format!("http://localhost:{}/v1", four.address().port());
        let catalog = Catalog::new()
            .account("six", &six)
            .account_at("named", &by_name, "")
            .model("six", &["six"])
            .model("named", &["named"]);
        let gateway = Gateway::start(catalog).await;
        for _ in 0..2 {
            // Where `localhost` is `::1` too, nobody listens there.
            for model in ["six", "named"] {
                assert_eq!(gateway.post(&chat(model)).await.status, 200, "{model}");
            }
        }
        assert_eq!(
            six.request(0).await.field("host"),
            Some(six.address().to_string().as_str())
        );
        assert_eq!(
            four.request(0).await.field("host"),
            Some(format!("localhost:{}", four.address().port()).as_str())
        );
        let lines = gateway.access_lines(4).await;
        assert!(
            lines
                .iter()
                .all(|line| line["attempts"].as_array().unwrap().len() == 1)
        );
    });
}

#[test]
fn a_request_of_http_1_0_gets_its_stream() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let bytes = String::from_utf8(post(&chat_stream("m")))
            .unwrap()
            .replacen("HTTP/1.1", "HTTP/1.0", 1);
        let answer = gateway.raw(bytes).await;
        assert_eq!(
            (answer.status, answer.field("transfer-encoding")),
            (200, None)
        );
        assert_eq!(answer.end, Some(crate::support::client::End::Eof));
        assert_eq!(
            (
                answer.content().as_str(),
                answer.events().last().unwrap().as_str()
            ),
            ("w0 w1 w2 ", "[DONE]")
        );
        gateway.line().await;
    });
}
