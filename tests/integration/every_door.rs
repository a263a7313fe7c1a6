//! What chat has, every other front door has too: keys, limits, failover, breakers, sticky
//! conversations, the commit gate, losses, the trail, estimates, the ledger, metrics and CORS. Each
//! test asks at all of them.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{self, Response};
use crate::support::script::{chunk, completion, delta, finish};
use crate::support::{Catalog, Gateway, Mock, Script, eventually, run};

/// A front door as its clients use it.
struct Door {
    name: &'static str,
    /// The header in which its clients name a conversation.
    session: &'static str,
    /// A field of the request that OpenAI's format cannot say, and its name among the losses.
    lost: &'static str,
}

const DOORS: [Door; 5] = [
    Door {
        name: "chat",
        session: "x-portcullis-session",
        lost: "",
    },
    Door {
        name: "messages",
        session: "x-claude-code-session-id",
        lost: "top_k",
    },
    Door {
        name: "responses",
        session: "session-id",
        lost: "truncation",
    },
    Door {
        name: "gemini",
        session: "x-portcullis-session",
        lost: "generationConfig.topK",
    },
    Door {
        name: "gemini_array",
        session: "x-portcullis-session",
        lost: "generationConfig.topK",
    },
];

impl Door {
    fn path(&self, model: &str, stream: bool) -> String {
        match (self.name, stream) {
            ("chat", _) => "/v1/chat/completions".to_owned(),
            ("messages", _) => "/v1/messages".to_owned(),
            ("responses", _) => "/v1/responses".to_owned(),
            ("gemini", true) => format!("/v1beta/models/{model}:streamGenerateContent?alt=sse"),
            ("gemini_array", true) => format!("/v1beta/models/{model}:streamGenerateContent"),
            _ => format!("/v1beta/models/{model}:generateContent"),
        }
    }

    fn body(&self, model: &str, stream: bool) -> Value {
        let messages = json!([{"role": "user", "content": "hello"}]);
        match self.name {
            "chat" => json!({"model": model, "messages": messages, "stream": stream}),
            "messages" => {
                json!({"model": model, "messages": messages, "stream": stream, "max_tokens": 9, "top_k": 5})
            }
            "responses" => {
                json!({"model": model, "input": "hello", "stream": stream, "truncation": "auto"})
            }
            _ => {
                json!({"contents": [{"parts": [{"text": "hello"}]}], "generationConfig": {"topK": 5}})
            }
        }
    }

    fn request(&self, model: &str, stream: bool, fields: &[(&str, &str)]) -> Vec<u8> {
        let key = if fields.iter().any(|(name, _)| *name == "x-api-key") {
            vec![]
        } else {
            vec![("x-api-key", KEY)]
        };
        let fields = [&key, &[("content-type", "application/json")][..], fields].concat();
        let body = self.body(model, stream).to_string();
        client::request("POST", &self.path(model, stream), &fields, body.as_bytes())
    }

    async fn ask(&self, gateway: &Gateway, model: &str, stream: bool) -> Response {
        gateway.raw(self.request(model, stream, &[])).await
    }

    /// The word by which clients know why a request was refused.
    fn why(&self, answer: &Response) -> String {
        let error = &answer.json()["error"];
        let why = match self.name {
            "chat" | "responses" => &error["code"],
            "messages" => &error["type"],
            _ => &error["status"],
        };
        why.as_str().unwrap_or_default().to_owned()
    }

    /// The line of the access log. A whole answer does not tell which of Gemini's two doors it is.
    fn is_named(&self, line: &Value, stream: bool) -> bool {
        let name = if stream || self.name != "gemini_array" {
            self.name
        } else {
            "gemini"
        };
        line["door"] == name
    }
}

#[test]
fn an_overloaded_provider_is_never_called_rate_limited() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let told = [
            (503, "upstream_overloaded", "upstream_overloaded"),
            (529, "overloaded_error", "overloaded_error"),
            // Codex sends thirty requests after a 503.
            (429, "upstream_overloaded", "server_error"),
            (503, "UNAVAILABLE", "UNAVAILABLE"),
            (503, "UNAVAILABLE", "UNAVAILABLE"),
        ];
        for (door, (status, why, in_stream)) in DOORS.iter().zip(told) {
            mock.push(Script::error(503, "The model is overloaded.").with("retry-after", "30"));
            let answer = door.ask(&gateway, "m", false).await;
            assert_eq!(
                (answer.status, door.why(&answer).as_str()),
                (status, why),
                "{}",
                answer.text()
            );
            assert_eq!(
                (answer.field("retry-after"), answer.field("x-should-retry")),
                (Some("30"), None),
                "{}",
                door.name
            );
            let text = answer.text().to_lowercase();
            assert!(
                text.contains("is overloaded") && !text.contains("rate"),
                "{text}"
            );
            // It is the only account, and is asked again at once.
            mock.push(Script::answer("hi"));
            let answer = door.ask(&gateway, "m", false).await;
            assert_eq!(answer.status, 200, "{}: {}", door.name, answer.text());
            let line = gateway.line_of(&answer).await;
            assert_eq!(line["attempts"].as_array().map_or(1, Vec::len), 1, "{line}");
            // In the middle of an answer it is an event.
            let error = json!({"error": {"message": "Overloaded", "type": "overloaded_error"}});
            mock.push(Script::sse().words(0..2).event(&error).end());
            let answer = door.ask(&gateway, "m", true).await;
            let text = answer.text();
            assert_eq!(answer.status, 200, "{text}");
            assert!(
                text.contains(in_stream) && text.contains("is overloaded"),
                "{}: {text}",
                door.name
            );
            assert!(
                !text.contains("rate_limit") && !text.contains("rate limit"),
                "{text}"
            );
            mock.push(Script::answer("hi"));
            assert_eq!(
                door.ask(&gateway, "m", false).await.status,
                200,
                "{}",
                door.name
            );
        }
    });
}

#[test]
fn answers_are_counted_written_down_and_measured_by_door() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        for door in &DOORS {
            for stream in [false, true] {
                let said = if stream {
                    Script::sse().words(0..2).event(finish("stop")).done()
                } else {
                    Script::answer("hi")
                };
                mock.push(said);
                let answer = door.ask(&gateway, "m", stream).await;
                assert_eq!(answer.status, 200, "{}: {}", door.name, answer.text());
                let line = gateway.line_of(&answer).await;
                assert!(door.is_named(&line, stream), "{line}");
                assert_eq!(
                    (&line["outcome"], &line["caller"], &line["model"]),
                    (&json!("ok"), &json!("acme"), &json!("m"))
                );
                let dropped = if door.lost.is_empty() {
                    Value::Null
                } else {
                    json!([door.lost])
                };
                assert_eq!(line["dropped"], dropped, "{line}");
                assert_eq!(
                    answer.field("x-portcullis-dropped").unwrap_or_default(),
                    door.lost,
                    "{}",
                    door.name
                );
            }
        }
        let metrics = gateway.metrics();
        for (door, requests) in [
            ("chat", 2.0),
            ("messages", 2.0),
            ("responses", 2.0),
            ("gemini", 3.0),
            ("gemini_array", 1.0),
        ] {
            let counted = metrics.sum(
                "portcullis_requests_total",
                &[("door", door), ("outcome", "ok")],
            );
            assert!((counted - requests).abs() < 0.5, "{door}: {counted}");
        }
        let ledger = gateway.conf.parent().unwrap().join("ledger.sqlite");
        let expected = [
            ("chat", 2),
            ("gemini", 3),
            ("gemini_array", 1),
            ("messages", 2),
            ("responses", 2),
        ];
        eventually("the rows of the ledger have the door", || {
            (rows(&ledger) == expected.map(|(d, n)| (d.to_owned(), n))).then_some(())
        })
        .await;
    });
}

/// The numbers of rows by door.
fn rows(ledger: &Path) -> Vec<(String, i64)> {
    let file = rusqlite::Connection::open(ledger).unwrap();
    let mut rows = file
        .prepare("SELECT door, count(*) FROM exchange GROUP BY door ORDER BY door")
        .unwrap();
    rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

#[test]
fn keys_and_limits_hold_in_each_doors_words() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::answer("hi"));
        let secret = |door: &Door| format!("sk-CaNaRy-caller-{}", door.name);
        let catalog = DOORS.iter().fold(Catalog::over(&mock), |catalog, door| {
            let limits = "limits: { requests_per_minute: 1 }, models: [m]";
            catalog.caller(&door.name.replace('_', "-"), &secret(door), limits)
        });
        let gateway = Gateway::start(catalog).await;
        for door in &DOORS {
            let key = secret(door);
            let mine = [("x-api-key", key.as_str())];
            assert_eq!(
                gateway.raw(door.request("m", false, &mine)).await.status,
                200
            );
            let limited = gateway.raw(door.request("m", false, &mine)).await;
            let why = match door.name {
                "chat" | "responses" => "rate_limit_exceeded",
                "messages" => "rate_limit_error",
                _ => "RESOURCE_EXHAUSTED",
            };
            assert_eq!(
                (limited.status, door.why(&limited).as_str()),
                (429, why),
                "{}",
                limited.text()
            );
            let wait: u64 = limited.field("retry-after").unwrap().parse().unwrap();
            assert!((1..=60).contains(&wait), "{wait}");
            assert_eq!(limited.field("x-ratelimit-limit-requests"), Some("1"));
            let unknown = gateway
                .raw(door.request("m", false, &[("x-api-key", "sk-no")]))
                .await;
            let why = match door.name {
                "chat" | "responses" => "invalid_api_key",
                "messages" => "authentication_error",
                _ => "UNAUTHENTICATED",
            };
            assert_eq!((unknown.status, door.why(&unknown).as_str()), (401, why));
            assert_eq!(unknown.field("x-should-retry"), Some("false"));
        }
    });
}

#[test]
fn another_account_answers_before_the_commit() {
    run(async {
        let (broken, good) = (Mock::start().await, Mock::start().await);
        let catalog = Catalog::new()
            .account("a", &broken)
            .account("b", &good)
            .model("m", &["a", "b"])
            .caller_with(
                "debug",
                "",
                &[("prod", "sk-CaNaRy-caller-debug", "debug: true")],
            );
        let gateway = Gateway::start(catalog).await;
        for door in &DOORS {
            for stream in [false, true] {
                // A role alone commits nothing.
                broken.push(if stream {
                    Script::sse()
                        .event(chunk(&json!({"role": "assistant"}), None))
                        .reset()
                } else {
                    Script::error(500, "out of order")
                });
                good.push(if stream {
                    Script::sse().words(0..2).event(finish("stop")).done()
                } else {
                    Script::answer("from the second")
                });
                let answer = gateway
                    .raw(door.request("m", stream, &[("x-api-key", "sk-CaNaRy-caller-debug")]))
                    .await;
                assert_eq!(
                    answer.status,
                    200,
                    "{} {stream}: {}",
                    door.name,
                    answer.text()
                );
                let trail = answer.field("x-portcullis-attempts").unwrap();
                // The head of a stream may leave before its end has come.
                let is_good = trail.contains(", b;ok;") || stream && trail.contains(", b;running;");
                assert!(trail.starts_with("a;") && is_good, "{}: {trail}", door.name);
                let line = gateway.line_of(&answer).await;
                assert_eq!(
                    (&line["account"], &line["outcome"]),
                    (&json!("b"), &json!("ok")),
                    "{line}"
                );
                gateway.reset("a");
            }
        }
        assert_eq!((broken.count(), good.count()), (10, 10));
    });
}

#[test]
fn a_conversation_stays_at_its_account() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        a.always(Script::answer("a"));
        b.always(Script::answer("b"));
        let catalog = Catalog::new().account("a", &a).account("b", &b).model_with(
            "m",
            &["a", "b"],
            "strategy: weighted, sticky: true",
        );
        let gateway = Gateway::start(catalog).await;
        for door in &DOORS {
            let mut homes = std::collections::BTreeSet::new();
            for session in 0..12 {
                let session = format!("session-{session}");
                let mut home = None;
                for _ in 0..2 {
                    let answer = gateway
                        .raw(door.request("m", false, &[(door.session, &session)]))
                        .await;
                    let line = gateway.line_of(&answer).await;
                    assert_eq!(line["session"], session, "{line}");
                    let account = line["account"].as_str().unwrap().to_owned();
                    assert_eq!(
                        *home.get_or_insert_with(|| account.clone()),
                        account,
                        "{}",
                        door.name
                    );
                    homes.insert(account);
                }
            }
            assert_eq!(
                homes.len(),
                2,
                "{}: the header decides, and not the text",
                door.name
            );
        }
    });
}

#[test]
fn an_estimate_is_marked() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        for door in &DOORS {
            let mut silent = completion("hello there");
            silent.as_object_mut().unwrap().remove("usage");
            mock.push(Script::json(200, &silent));
            let whole = door.ask(&gateway, "m", false).await;
            assert_eq!(
                whole.field("x-portcullis-usage"),
                Some("estimated"),
                "{}: {}",
                door.name,
                whole.text()
            );
            mock.push(
                Script::sse()
                    .event(delta("hello"))
                    .event(finish("stop"))
                    .done(),
            );
            let stream = door.ask(&gateway, "m", true).await;
            let line = gateway.line_of(&stream).await;
            assert_eq!(line["usage"], "estimated", "{line}");
            // Callers of chat see it if they ask for the usage.
            if door.name != "chat" {
                let mark = r#""x_portcullis":{"usage":"estimated"}"#;
                assert!(
                    stream.text().contains(mark),
                    "{}: {}",
                    door.name,
                    stream.text()
                );
            }
        }
    });
}

#[test]
fn pages_of_allowed_origins_may_call_each_door() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::answer("hi"));
        let origin = ("origin", "https://app.example");
        let server = "cors: { origins: [\"https://app.example\"] }";
        let gateway = Gateway::with(Catalog::over(&mock))
            .server(server)
            .start()
            .await;
        for door in &DOORS {
            let wanted = [
                origin,
                ("access-control-request-method", "POST"),
                ("access-control-request-headers", "x-a"),
            ];
            let before = gateway
                .raw(client::request(
                    "OPTIONS",
                    &door.path("m", false),
                    &wanted,
                    b"",
                ))
                .await;
            assert_eq!(
                (before.status, before.field("access-control-allow-methods")),
                (204, Some("POST")),
                "{}",
                door.name
            );
            let answer = gateway.raw(door.request("m", false, &[origin])).await;
            assert_eq!(
                answer.field("access-control-allow-origin"),
                Some(origin.1),
                "{}",
                door.name
            );
            let refused = gateway.raw(door.request("none", false, &[origin])).await;
            assert_eq!(
                (refused.status, refused.field("access-control-allow-origin")),
                (404, Some(origin.1))
            );
        }
    });
}

#[test]
fn open_breakers_and_fallbacks_are_alike_at_every_door() {
    run(async {
        let (dead, spare) = (Mock::start().await, Mock::start().await);
        dead.always(Script::error(500, "out of order"));
        spare.always(Script::answer("from the spare"));
        let catalog = DOORS.iter().fold(
            Catalog::new()
                .account("s", &spare)
                .model("spare", &["s=up"]),
            |catalog, door| {
                let id = door.name.replace('_', "-");
                catalog.account(&id, &dead).model_with(
                    &format!("m-{id}"),
                    &[&id],
                    "fallbacks: [spare]",
                )
            },
        );
        let gateway = Gateway::start(catalog).await;
        for door in &DOORS {
            let (model, before) = (format!("m-{}", door.name.replace('_', "-")), dead.count());
            for _ in 0..12 {
                let answer = door.ask(&gateway, &model, false).await;
                assert_eq!(answer.status, 200, "{}: {}", door.name, answer.text());
                assert_eq!(answer.field("x-portcullis-model"), Some("spare"));
            }
            // The breaker opened before the last request, and spared the account.
            let asked = dead.count() - before;
            assert!((1..12).contains(&asked), "{}: {asked}", door.name);
        }
    });
}

/// The key of a caller that is called like the door.
fn own_key(door: &Door) -> String {
    format!("sk-CaNaRy-caller-own-{}", door.name)
}

/// A catalog in which each door has a caller of its own, with these limits.
fn with_callers(catalog: Catalog, limits: &str) -> Catalog {
    DOORS.iter().fold(catalog, |catalog, door| {
        catalog.caller(
            &door.name.replace('_', "-"),
            &own_key(door),
            &format!("limits: {{ {limits} }}"),
        )
    })
}

/// What the ledger has of a door's own caller: the requests, and their cost in dollars.
fn ledger(gateway: &Gateway, door: &Door) -> (Value, f64) {
    let caller = door.name.replace('_', "-");
    let told: Value = serde_json::from_str(
        &gateway
            .admin(&format!("/usage?by=caller&caller={caller}"))
            .1,
    )
    .unwrap();
    let cost = told["total"]["cost_usd"]
        .as_str()
        .unwrap_or("0")
        .parse()
        .unwrap();
    (told["total"]["requests"].clone(), cost)
}

/// The dollars that count against the limit of a door's own caller.
fn spent(gateway: &Gateway, door: &Door) -> f64 {
    let caller = door.name.replace('_', "-");
    let told: Value =
        serde_json::from_str(&gateway.admin(&format!("/limits?caller={caller}")).1).unwrap();
    told["limits"][0]["used"]["usd_per_day"]
        .as_f64()
        .unwrap_or_else(|| panic!("{told}"))
}

const PRICE: &str = "price: { input: 3, output: 15 }";

#[test]
fn a_winning_second_attempt_is_all_callers_pay_for() {
    run(async {
        let (slow, fast) = (Mock::start().await, Mock::start().await);
        slow.always(Script::stream(2));
        fast.always(Script::stream(2));
        let catalog = Catalog::new().account("a", &slow).account("b", &fast);
        let catalog = catalog.model_with(
            "m",
            &["a", "b"],
            &format!("hedge: {{ at_most: 100% }}, {PRICE}"),
        );
        let gateway = Gateway::start(with_callers(catalog, "usd_per_day: 5")).await;
        // So many are enough to tell what is slow.
        for _ in 0..20 {
            assert_eq!(DOORS[0].ask(&gateway, "m", true).await.status, 200);
        }
        assert_eq!((slow.count(), fast.count()), (20, 0));
        slow.always(
            Script::sse()
                .event(chunk(&json!({"role": "assistant", "content": ""}), None))
                .stall(),
        );
        for (nth, door) in DOORS.iter().enumerate() {
            let key = own_key(door);
            let answer = gateway
                .raw(door.request("m", true, &[("x-api-key", &key)]))
                .await;
            assert_eq!(answer.status, 200, "{}: {}", door.name, answer.text());
            assert!(
                answer.text().contains("w1"),
                "{}: {}",
                door.name,
                answer.text()
            );
            slow.left(20 + nth).await;
            assert_eq!(
                (slow.count(), fast.count()),
                (21 + nth, 1 + nth),
                "{}",
                door.name
            );
            let line = gateway.line_of(&answer).await;
            let mut attempts = line["attempts"].as_array().unwrap().clone();
            attempts.sort_by_key(|attempt| attempt["account"].to_string());
            assert_eq!(
                (&attempts[0]["outcome"], &attempts[1]["outcome"]),
                (&json!("slower"), &json!("ok")),
                "{line}"
            );
            assert!(
                attempts[0]["prompt_tokens"]
                    .as_u64()
                    .is_some_and(|tokens| tokens > 0),
                "{line}"
            );
            assert_eq!(
                (&line["account"], &line["completion_tokens"]),
                (&json!("b"), &json!(2)),
                "{line}"
            );
            // What the first one may have cost is not the caller's.
            let cost = (line["prompt_tokens"].as_f64().unwrap() * 3.0 + 2.0 * 15.0) / 1e6;
            let paid = || {
                (ledger(&gateway, door) == (json!(1), cost) && spent(&gateway, door) == cost)
                    .then_some(())
            };
            eventually("the winner alone is paid", paid).await;
            gateway.idle().await;
        }
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_hedges_total", &[("outcome", "won")]),
            5.0
        );
    });
}

#[test]
fn spent_money_is_refused_and_the_ledger_agrees() {
    run(async {
        let mock = Mock::start().await;
        let mut dear = completion("hi");
        dear["usage"] =
            json!({"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100});
        mock.always(Script::json(200, &dear));
        let catalog = Catalog::new()
            .account("a", &mock)
            .model_with("m", &["a"], PRICE);
        let gateway = Gateway::start(with_callers(catalog, "usd_per_day: 0.001")).await;
        for (nth, door) in DOORS.iter().enumerate() {
            let key = own_key(door);
            let mine = [("x-api-key", key.as_str())];
            let first = gateway.raw(door.request("m", false, &mine)).await;
            assert_eq!(first.status, 200, "{}: {}", door.name, first.text());
            for stream in [false, true] {
                let refused = gateway.raw(door.request("m", stream, &mine)).await;
                let why = match door.name {
                    "chat" | "responses" => "insufficient_quota",
                    "messages" => "rate_limit_error",
                    _ => "RESOURCE_EXHAUSTED",
                };
                // An array has the error as its first element.
                let found = if refused.json().is_array() {
                    why.to_owned()
                } else {
                    door.why(&refused)
                };
                assert_eq!(
                    (refused.status, found.as_str()),
                    (429, why),
                    "{}",
                    refused.text()
                );
                assert!(refused.text().contains(why), "{}", refused.text());
                assert_eq!(
                    refused.field("x-should-retry"),
                    Some("false"),
                    "{}",
                    door.name
                );
            }
            assert_eq!(mock.count(), nth + 1, "{}", door.name);
            let cost = (1000.0 * 3.0 + 100.0 * 15.0) / 1e6;
            let agrees = || {
                (ledger(&gateway, door) == (json!(1), cost) && spent(&gateway, door) == cost)
                    .then_some(())
            };
            eventually("the ledger and the limit agree", agrees).await;
        }
    });
}
