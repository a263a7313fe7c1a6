//! Limits on callers, keys and keys' models, through the real gateway: never more than the limit
//! under a crowd, refunds, the answers to callers, reloads, crashes.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::problems::Clock;
use crate::store::{set_clock, shifted_clock};
use crate::support::canary::hash;
use crate::support::client::{self, Response};
use crate::support::script::{PROMPT_TOKENS, chunk, finish, usage};
use crate::support::{Catalog, Gate, Gateway, Mock, Script, eventually, join_all, run, run_within};

const KEY: &str = "sk-CaNaRy-caller-tight-0123456789abcdefghijklmnopq";
/// Every mock's whole answer has so many.
const COMPLETION_TOKENS: u64 = 3;
/// What the prompt of [`ask`] is estimated at, where nobody counted it.
const PROMPT: u64 = 2;
/// And what is reserved for it: the whole body, at four bytes a token.
const WHOLE: u64 = 20;

/// Counts of a day begin anew at midnight, UTC: a test of them does not begin just before.
async fn away_from_midnight() {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs()
        % 86_400;
    if since > 86_400 - 40 {
        tokio::time::sleep(Duration::from_secs(86_401 - since)).await;
    }
}

/// A catalog with a caller `tight` besides.
fn tight(mock: &Mock, price: &str, caller: &str, key: &str) -> Catalog {
    Catalog::new()
        .account("a", mock)
        .model_with("m", &["a"], price)
        .caller_with("tight", caller, &[("prod", KEY, key)])
}

/// A request whose prompt is estimated at two tokens, with answers of at most so many.
fn ask(most: u64) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "12345678"}], "max_tokens": most})
}

async fn send(gateway: &Gateway, body: &Value) -> Response {
    gateway.raw(client::post_as(KEY, body)).await
}

/// What `/limits` tells is used of a limit.
fn used(gateway: &Gateway, level: &str, limit: &str) -> f64 {
    let (status, body) = gateway.admin("/limits");
    assert_eq!(status, 200, "{body}");
    let told: Value = serde_json::from_str(&body).expect("JSON");
    let scope = told["limits"]
        .as_array()
        .expect("limits")
        .iter()
        .find(|scope| {
            scope["level"] == level
                && scope["name"]
                    .as_str()
                    .is_some_and(|name| name.starts_with("tight"))
        });
    scope.unwrap_or_else(|| panic!("no {level} in {told}"))["used"][limit]
        .as_f64()
        .unwrap_or_else(|| panic!("no {limit} in {told}"))
}

fn room(answer: &Response, what: &str) -> [String; 3] {
    ["limit", "remaining", "reset"].map(|part| {
        answer
            .field(&format!("x-ratelimit-{part}-{what}"))
            .unwrap_or_else(|| panic!("no {part} of {what} in {:?}", answer.fields))
            .to_owned()
    })
}

/// Two hundred at once, for each kind of limit and each level, where one is all that may pass.
#[test]
fn of_two_hundred_at_once_one_passes() {
    const CROWD: usize = 200;
    const KINDS: [(&str, &str); 7] = [
        ("requests_per_minute", "1"),
        ("requests_per_day", "1"),
        // Twenty of the body, eight of the answer: a second one does not fit.
        ("tokens_per_minute", "55"),
        ("tokens_per_day", "55"),
        ("concurrency", "1"),
        // A request may cost 0.00028.
        ("usd_per_day", "0.000559"),
        ("usd_per_month", "0.000559"),
    ];
    run_within(Duration::from_secs(180), async {
        away_from_midnight().await;
        let mock = Mock::start().await;
        let mut catalog = Catalog::new().account("a", &mock).model_with(
            "m",
            &["a"],
            "price: { input: 10, output: 10 }",
        );
        let mut cases = Vec::new();
        for (kind, limit) in KINDS {
            let limits = format!("{{ {kind}: {limit} }}");
            for level in ["caller", "key", "key_model"] {
                let secret = format!("sk-CaNaRy-{level}-{kind}-0123456789abcdefghijklmnopqrst");
                let (caller, key) = match level {
                    "caller" => (format!("limits: {limits}"), String::new()),
                    "key" => (String::new(), format!("limits: {limits}")),
                    _ => (String::new(), format!("model_limits: {{ m: {limits} }}")),
                };
                catalog = catalog.caller_with(
                    &format!("{level}-{kind}"),
                    &caller,
                    &[("prod", &secret, &key)],
                );
                cases.push((kind, level, secret));
            }
        }
        let gateway = Gateway::start(catalog).await;
        for (number, (kind, level, secret)) in cases.iter().enumerate() {
            let gate = Gate::new();
            mock.always(Script::new().wait(&gate).then_answer("a"));
            let crowd = join_all((0..CROWD).map(|_| async {
                let mut connection = gateway.connect().await;
                connection.send(client::post_as(secret, &ask(8))).await;
                connection
            }));
            let crowd = crowd.await;
            // All the others are refused while it runs.
            mock.request(number).await;
            let refused = || {
                gateway.metrics().sum(
                    "portcullis_limited_total",
                    &[("level", level), ("limit", kind)],
                ) as usize
            };
            eventually("the others are refused", || {
                (refused() == CROWD - 1).then_some(())
            })
            .await;
            assert_eq!(mock.count(), number + 1, "{level} {kind}");
            // Callers who leave in vain, again and again, would open the account's breaker.
            gate.open();
            eventually("the one is answered", || {
                let answered = gateway
                    .metrics()
                    .sum("portcullis_requests_total", &[("outcome", "ok")]);
                (answered as usize == number + 1).then_some(())
            })
            .await;
            drop(crowd);
        }
    });
}

#[test]
fn refusals_use_nothing_and_failures_give_back() {
    run_within(Duration::from_secs(100), async {
        away_from_midnight().await;
        let mock = Mock::start().await;
        let limits = "limits: { requests_per_day: 100, tokens_per_day: 1000, tokens_per_minute: 500, concurrency: 1, usd_per_month: 1 }";
        let gateway = Gateway::start(tight(
            &mock,
            "price: { input: 100, output: 200 }",
            limits,
            "",
        ))
        .await;
        let tokens = |gateway: &Gateway| used(gateway, "caller", "tokens_per_day");
        let answer = send(&gateway, &ask(50)).await;
        assert_eq!(answer.status, 200);
        eventually("it is settled", || {
            (tokens(&gateway) == (PROMPT_TOKENS + COMPLETION_TOKENS) as f64).then_some(())
        })
        .await;
        assert_eq!(
            used(&gateway, "caller", "usd_per_month"),
            0.0015,
            "nine at 100 and three at 200 a million"
        );
        // Larger than what is left of a minute: refused, and nothing is taken of anything.
        let before = (
            tokens(&gateway),
            used(&gateway, "caller", "requests_per_day"),
            used(&gateway, "caller", "usd_per_month"),
        );
        let answer = send(&gateway, &ask(490)).await;
        answer.is_error(429, "rate_limit_exceeded");
        assert_eq!(
            (
                tokens(&gateway),
                used(&gateway, "caller", "requests_per_day"),
                used(&gateway, "caller", "usd_per_month")
            ),
            before
        );
        // One that fails gives all back but that it was made.
        mock.push(Script::error(400, "no"));
        send(&gateway, &ask(50)).await.is_error(400, "");
        eventually("it is settled", || {
            (tokens(&gateway) == before.0).then_some(())
        })
        .await;
        assert_eq!(
            (
                used(&gateway, "caller", "requests_per_day"),
                used(&gateway, "caller", "usd_per_month")
            ),
            (before.1 + 1.0, before.2)
        );
        // So does one that was admitted and found no account that could be asked.
        mock.push(Script::error(429, "slow down").with("retry-after", "30"));
        send(&gateway, &ask(50))
            .await
            .is_error(429, "upstream_rate_limited");
        let asked = mock.count();
        send(&gateway, &ask(50)).await.is_error(429, "no_capacity");
        assert_eq!(mock.count(), asked);
        eventually("it is settled", || {
            (tokens(&gateway) == before.0).then_some(())
        })
        .await;
        assert_eq!(used(&gateway, "caller", "requests_per_day"), before.1 + 3.0);
        assert_eq!(used(&gateway, "caller", "concurrency"), 0.0);
    });
}

#[test]
fn a_refusal_for_concurrency_uses_no_request_or_place() {
    run_within(Duration::from_secs(100), async {
        away_from_midnight().await;
        let (mock, gate) = (Mock::start().await, Gate::new());
        mock.push(Script::new().wait(&gate).then_answer("a"));
        let gateway = Gateway::start(tight(
            &mock,
            "",
            "",
            "limits: { concurrency: 1, requests_per_minute: 2 }",
        ))
        .await;
        let mut first = gateway.connect().await;
        first.send(client::post_as(KEY, &ask(8))).await;
        mock.request(0).await;
        for _ in 0..5 {
            let answer = send(&gateway, &ask(8)).await;
            let message = answer.is_error(429, "rate_limit_exceeded");
            assert!(
                message
                    .to_string()
                    .contains("1 request at once of key tight/prod"),
                "{message}"
            );
            assert_eq!(answer.field("retry-after"), Some("1"));
            assert_eq!(
                room(&answer, "requests")[..2],
                ["2".to_owned(), "1".to_owned()]
            );
        }
        gate.open();
        assert_eq!(first.response().await.status, 200);
        assert_eq!(send(&gateway, &ask(8)).await.status, 200);
        let answer = send(&gateway, &ask(8)).await;
        assert!(
            answer
                .is_error(429, "rate_limit_exceeded")
                .to_string()
                .contains("2 requests per minute"),
            "{}",
            answer.text()
        );
        let wait: u64 = answer
            .field("retry-after")
            .expect("retry-after")
            .parse()
            .expect("seconds");
        assert!((50..=60).contains(&wait), "{wait}");
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            (&line["outcome"], &line["limited_by"], &line["cost_usd"]),
            (
                &json!("limited"),
                &json!("key requests_per_minute"),
                &Value::Null
            )
        );
    });
}

#[test]
fn answers_tell_how_the_tightest_limit_stands() {
    run_within(Duration::from_secs(100), async {
        away_from_midnight().await;
        let mock = Mock::start().await;
        let key = "limits: { requests_per_minute: 10, tokens_per_minute: 1000 }, model_limits: { m: { requests_per_day: 5 } }";
        let gateway =
            Gateway::start(tight(&mock, "", "limits: { tokens_per_day: 300 }", key)).await;
        let answer = send(&gateway, &ask(100 - WHOLE)).await;
        // The day's five are fewer than the minute's ten, and the caller's 300 than the key's 1000.
        assert_eq!(
            room(&answer, "requests")[..2],
            ["5".to_owned(), "4".to_owned()]
        );
        assert_eq!(
            room(&answer, "tokens")[..2],
            ["300".to_owned(), "200".to_owned()],
            "what is reserved counts"
        );
        assert!(room(&answer, "requests")[2].ends_with('s'));
        // A stream, a refusal and an error tell it as well; a list of models does not.
        let mut body = ask(80);
        body["stream"] = json!(true);
        mock.push(Script::stream(2));
        let answer = send(&gateway, &body).await;
        assert_eq!(
            (answer.status, room(&answer, "requests")[1].as_str()),
            (200, "3")
        );
        mock.push(Script::error(400, "no"));
        assert_eq!(room(&send(&gateway, &ask(8)).await, "requests")[1], "2");
        let refused = send(&gateway, &ask(1000)).await;
        let message = refused.is_error(429, "rate_limit_exceeded").to_string();
        assert!(
            message.contains("more than the limit of 300 tokens per day of caller tight"),
            "{message}"
        );
        assert_eq!(
            (
                refused.field("x-should-retry"),
                refused.field("retry-after")
            ),
            (Some("false"), None)
        );
        assert_eq!(
            room(&refused, "requests")[1],
            "2",
            "what is refused takes nothing"
        );
        let list = gateway
            .raw(client::request(
                "GET",
                "/v1/models",
                &[("authorization", &format!("Bearer {KEY}"))],
                b"",
            ))
            .await;
        assert!(list.field("x-ratelimit-limit-requests").is_none());
        let unlimited = gateway.post(&ask(8)).await;
        assert!(unlimited.field("x-ratelimit-limit-requests").is_none());
    });
}

#[test]
fn money_that_is_used_up_is_an_insufficient_quota() {
    run_within(Duration::from_secs(100), async {
        away_from_midnight().await;
        let mock = Mock::start().await;
        // A request costs 9 + 3 tokens at a dollar a thousand.
        let price = "price: { input: 1000, output: 1000 }";
        let gateway =
            Gateway::start(tight(&mock, price, "limits: { usd_per_day: 0.03 }", "")).await;
        let answer = send(&gateway, &ask(8)).await;
        assert_eq!(answer.status, 200);
        let line = gateway.line_of(&answer).await;
        assert_eq!(line["cost_usd"], json!(0.012));
        let answer = send(&gateway, &ask(8)).await;
        let error = answer.is_error(429, "insufficient_quota");
        assert_eq!(error["type"], "insufficient_quota");
        assert!(
            error["message"].as_str().is_some_and(
                |m| m.contains("0.018 USD of the limit of 0.03 USD per day of caller tight")
            ),
            "{error}"
        );
        assert!(
            answer
                .field("retry-after")
                .and_then(|after| after.parse::<u64>().ok())
                .is_some_and(|after| after <= 86_400),
            "{:?}",
            answer.fields
        );
        assert_eq!(mock.count(), 1);
        let cost = gateway.metrics().sum(
            "portcullis_cost_usd_total",
            &[("caller", "tight"), ("model", "m"), ("account", "a")],
        );
        assert!((cost - 0.012).abs() < 1e-12, "{cost}");
    });
}

#[test]
fn a_caller_who_left_pays_for_what_was_produced() {
    run_within(Duration::from_secs(100), async {
        away_from_midnight().await;
        let mock = Mock::start().await;
        let gateway =
            Gateway::start(tight(&mock, "", "limits: { tokens_per_day: 1000 }", "")).await;
        mock.push(Script::sse().words(0..4).stall());
        let mut body = ask(500);
        body["stream"] = json!(true);
        let mut connection = gateway.connect().await;
        connection.send(client::post_as(KEY, &body)).await;
        let mut answer = connection.head().await.expect("a head");
        while !answer.content().ends_with("w3 ") {
            connection.event(&mut answer).await.expect("an event");
        }
        assert_eq!(
            used(&gateway, "caller", "tokens_per_day"),
            524.0,
            "as long as it runs, all that it may use"
        );
        drop(connection);
        // Twelve bytes of four words.
        eventually("it is settled", || {
            (used(&gateway, "caller", "tokens_per_day") == (PROMPT + 3) as f64).then_some(())
        })
        .await;
        // One whose upstream is cut pays for what came, too.
        mock.push(
            Script::sse()
                .event(chunk(
                    &json!({"role": "assistant", "content": "12345678"}),
                    None,
                ))
                .close(),
        );
        let cut = send(&gateway, &body).await;
        assert_eq!(cut.status, 200);
        eventually("it is settled", || {
            (used(&gateway, "caller", "tokens_per_day") == (PROMPT + 3 + PROMPT + 2) as f64)
                .then_some(())
        })
        .await;
        // And a whole one for what the upstream counted, although it is more than was reserved.
        mock.push(
            Script::sse()
                .words(0..1)
                .event(finish("stop"))
                .event(usage(700))
                .done(),
        );
        send(&gateway, &body).await;
        let all = (PROMPT + 3 + PROMPT + 2 + PROMPT_TOKENS + 700) as f64;
        eventually("it is settled", || {
            (used(&gateway, "caller", "tokens_per_day") == all).then_some(())
        })
        .await;
        send(&gateway, &ask(300))
            .await
            .is_error(429, "rate_limit_exceeded");
    });
}

#[test]
fn a_changed_limit_counts_what_was_used_before() {
    run_within(Duration::from_secs(100), async {
        away_from_midnight().await;
        let mock = Mock::start().await;
        let catalog = |limits: &str| tight(&mock, "", limits, "");
        let gateway = Gateway::start(catalog("limits: { requests_per_day: 2 }")).await;
        for _ in 0..2 {
            assert_eq!(send(&gateway, &ask(8)).await.status, 200);
        }
        send(&gateway, &ask(8))
            .await
            .is_error(429, "rate_limit_exceeded");
        gateway
            .swap(catalog("limits: { requests_per_day: 3 }"))
            .await;
        assert_eq!(send(&gateway, &ask(8)).await.status, 200);
        send(&gateway, &ask(8))
            .await
            .is_error(429, "rate_limit_exceeded");
        // Gone and back again, it knows from the ledger what was used; so does one that is new.
        gateway.swap(catalog("enabled: true")).await;
        assert_eq!(send(&gateway, &ask(8)).await.status, 200);
        gateway
            .swap(catalog(
                "limits: { requests_per_day: 5, tokens_per_day: 1000 }",
            ))
            .await;
        assert_eq!(
            used(&gateway, "caller", "tokens_per_day"),
            (4 * (PROMPT_TOKENS + COMPLETION_TOKENS)) as f64
        );
        assert_eq!(send(&gateway, &ask(8)).await.status, 200);
        send(&gateway, &ask(8))
            .await
            .is_error(429, "rate_limit_exceeded");
    });
}

#[test]
fn a_crash_forgets_no_budget() {
    run_within(Duration::from_secs(100), async {
        away_from_midnight().await;
        let mock = Mock::start().await;
        let limits = "limits: { requests_per_minute: 4, tokens_per_day: 10000, usd_per_month: 1 }";
        let mut gateway = Gateway::start(tight(
            &mock,
            "price: { input: 100, output: 100 }",
            limits,
            "",
        ))
        .await;
        for _ in 0..3 {
            assert_eq!(send(&gateway, &ask(8)).await.status, 200);
        }
        eventually("the ledger has them", || {
            (gateway.status()["ledger"]["rows"] == 3).then_some(())
        })
        .await;
        gateway.crash_and_restart();
        let each = (PROMPT_TOKENS + COMPLETION_TOKENS) as f64;
        assert_eq!(used(&gateway, "caller", "tokens_per_day"), 3.0 * each);
        assert!((used(&gateway, "caller", "usd_per_month") - 3.0 * each * 0.0001).abs() < 1e-12);
        assert_eq!(send(&gateway, &ask(8)).await.status, 200);
        send(&gateway, &ask(8))
            .await
            .is_error(429, "rate_limit_exceeded");
    });
}

#[test]
fn a_model_by_another_name_is_the_same() {
    run_within(Duration::from_secs(100), async {
        away_from_midnight().await;
        let mock = Mock::start().await;
        let catalog = Catalog::new()
            .account("a", &mock)
            .model_with("m", &["a"], "aliases: [n]")
            .model("o", &["a"]);
        let key = format!(
            "hash: \"{}\", model_limits: {{ m: {{ requests_per_day: 1 }} }}",
            hash(KEY)
        );
        let catalog = catalog.to_string().replace(
            "callers:\n",
            &format!("callers:\n  tight: {{ keys: {{ prod: {{ {key} }} }} }}\n"),
        );
        let gateway = Gateway::start(catalog).await;
        let of = |model: &str| {
            let mut body = ask(8);
            body["model"] = json!(model);
            body
        };
        assert_eq!(send(&gateway, &of("n")).await.status, 200);
        let answer = send(&gateway, &of("m")).await;
        let error = answer.is_error(429, "rate_limit_exceeded");
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|m| m.contains("of key tight/prod for the model m")),
            "{error}"
        );
        assert_eq!(send(&gateway, &of("o")).await.status, 200);
    });
}

#[test]
fn running_work_counts_though_limits_change() {
    run_within(Duration::from_secs(100), async {
        away_from_midnight().await;
        let (mock, gates) = (Mock::start().await, [Gate::new(), Gate::new()]);
        let catalog = |limits: &str| tight(&mock, "", limits, "");
        let day = "limits: { requests_per_day: 100, tokens_per_day: 10000 }";
        let each = PROMPT_TOKENS + COMPLETION_TOKENS;
        // Begun without limits, ended with some.
        let gateway = Gateway::start(catalog("enabled: true")).await;
        mock.push(Script::new().wait(&gates[0]).then_answer("a"));
        let mut first = gateway.connect().await;
        first.send(client::post_as(KEY, &ask(8))).await;
        mock.request(0).await;
        gateway.swap(catalog(day)).await;
        assert_eq!(send(&gateway, &ask(8)).await.status, 200);
        gates[0].open();
        assert_eq!(first.response().await.status, 200);
        eventually("both count", || {
            (used(&gateway, "caller", "tokens_per_day") == (2 * each) as f64).then_some(())
        })
        .await;
        // Begun with limits that went and came back.
        mock.push(Script::new().wait(&gates[1]).then_answer("a"));
        let mut second = gateway.connect().await;
        second.send(client::post_as(KEY, &ask(8))).await;
        mock.request(2).await;
        gateway.swap(catalog("enabled: true")).await;
        gateway.swap(catalog(day)).await;
        gates[1].open();
        assert_eq!(second.response().await.status, 200);
        eventually("all three count", || {
            (used(&gateway, "caller", "tokens_per_day") == (3 * each) as f64).then_some(())
        })
        .await;
        assert_eq!(used(&gateway, "caller", "requests_per_day"), 3.0);
    });
}

/// 500 times a limit was once let in at once, in fields that the estimate did not look at.
#[test]
fn no_large_field_lets_a_hundred_pass_a_limit() {
    run_within(Duration::from_secs(180), async {
        away_from_midnight().await;
        let fields = ["prediction", "documents", "chat_template_kwargs"];
        for (place, limits) in ["tokens_per_minute: 2000", "usd_per_day: 0.02"]
            .into_iter()
            .enumerate()
        {
            let (mock, gate) = (Mock::start().await, Gate::new());
            mock.by({
                let gate = gate.clone();
                move |_| Script::new().wait(&gate).then_answer("a")
            });
            let gateway = Gateway::start(tight(
                &mock,
                "price: { input: 10, output: 10 }",
                "",
                &format!("limits: {{ {limits} }}"),
            ))
            .await;
            let crowd = join_all((0..100).map(|n| {
                let mut body = ask(8);
                body[fields[n % 3]] = json!({"type": "content", "content": "abcd".repeat(10_000)});
                let gateway = &gateway;
                async move {
                    let mut connection = gateway.connect().await;
                    connection.send(client::post_as(KEY, &body)).await;
                    connection
                }
            }));
            let mut crowd = crowd.await;
            let kind = ["tokens_per_minute", "usd_per_day"][place];
            let refused = || {
                gateway
                    .metrics()
                    .sum("portcullis_limited_total", &[("limit", kind)]) as usize
            };
            eventually("all but one are refused", || {
                (refused() == 99).then_some(())
            })
            .await;
            assert_eq!(
                mock.count(),
                1,
                "what is too much only as estimated is tried, alone"
            );
            gate.open();
            let mut statuses = Vec::new();
            for connection in &mut crowd {
                let answer = connection.response().await;
                if answer.status == 429 {
                    assert!(
                        answer
                            .text()
                            .contains("That is an estimate, and more than the limit of"),
                        "{}",
                        answer.text()
                    );
                    assert!(answer.field("retry-after").is_some());
                }
                statuses.push(answer.status);
            }
            assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1);
            let used = used(&gateway, "key", kind);
            assert!(used > 0.0 && used < 100.0, "and settled: {used}");
        }
    });
}

/// Places are taken from the head on: who uploads a body and leaves it has one, and who comes then
/// is told at once.
#[test]
fn a_body_that_comes_in_has_a_place_already() {
    run_within(Duration::from_secs(100), async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(tight(
            &mock,
            "",
            "limits: { concurrency: 2, requests_per_minute: 9 }",
            "",
        ))
        .await;
        let bearer = format!("Bearer {KEY}");
        let fields = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("content-length", "1000"),
        ];
        let head = client::request("POST", "/v1/chat/completions", &fields, b"{");
        let mut left = [gateway.connect().await, gateway.connect().await];
        for connection in &mut left {
            connection.send(&head).await;
        }
        eventually("both have a place", || {
            (used(&gateway, "caller", "concurrency") == 2.0).then_some(())
        })
        .await;
        let refused = send(&gateway, &ask(8)).await;
        assert!(
            refused
                .is_error(429, "rate_limit_exceeded")
                .to_string()
                .contains("2 requests at once of caller tight"),
            "{}",
            refused.text()
        );
        assert_eq!(refused.field("retry-after"), Some("1"));
        let [first, second] = left;
        first.reset();
        eventually("one is free", || {
            (used(&gateway, "caller", "concurrency") == 1.0).then_some(())
        })
        .await;
        assert_eq!(send(&gateway, &ask(8)).await.status, 200);
        assert_eq!(
            used(&gateway, "caller", "requests_per_minute"),
            1.0,
            "a refusal took nothing, nor does one who left"
        );
        second.reset();
        eventually("all are free", || {
            (used(&gateway, "caller", "concurrency") == 0.0).then_some(())
        })
        .await;
        assert_eq!(mock.count(), 1);
        gateway.access_lines(4).await;
    });
}

/// By the minute, `retry-after` is a minute at most, and what it says is true.
#[test]
fn a_minutes_limit_ends_when_it_says() {
    run(async {
        let (mock, clock) = (Mock::start().await, Clock::new());
        let catalog = tight(&mock, "", "limits: { requests_per_minute: 1 }", "");
        let gateway = clock.give(Gateway::with(catalog)).start().await;
        assert_eq!(send(&gateway, &ask(8)).await.status, 200);
        let refused = send(&gateway, &ask(8)).await;
        let message = refused.is_error(429, "rate_limit_exceeded").to_string();
        let seconds: u64 = refused
            .field("retry-after")
            .expect("retry-after")
            .parse()
            .expect("seconds");
        assert!((50..=60).contains(&seconds), "{seconds}");
        let told = if seconds == 60 {
            "1m0s".to_owned()
        } else {
            format!("{seconds}s")
        };
        assert!(
            message.contains(&format!("Try again in {told}.")),
            "{message}"
        );
        clock.set(i64::try_from(seconds).expect("seconds"));
        assert_eq!(
            send(&gateway, &ask(8)).await.status,
            200,
            "after {seconds} s"
        );
    });
}

/// What the ledger has of the present day, where `by=day` says the date.
fn in_the_ledger(gateway: &Gateway, day: u64) -> u64 {
    let (status, body) = gateway.admin("/usage?by=day&caller=tight&since=40d");
    assert_eq!(status, 200, "{body}");
    let told: Value = serde_json::from_str(&body).expect("JSON");
    let date = portcullis::base::calendar::format_date(day);
    let lines = told["groups"]
        .as_array()
        .or(told["usage"].as_array())
        .unwrap_or_else(|| panic!("no lines in {told}"));
    lines
        .iter()
        .filter(|line| line["day"] == date.as_str())
        .filter_map(|line| line["requests"].as_u64())
        .sum()
}

/// Waits until so many requests count, and so many are in the ledger at this day. The last of them
/// settles after its answer.
async fn counted(gateway: &Gateway, day: u64, expected: (f64, u64)) {
    let now = || {
        (
            used(gateway, "caller", "requests_per_day"),
            in_the_ledger(gateway, day),
        )
    };
    eventually(&format!("{expected:?} requests count"), || {
        (now() == expected).then_some(())
    })
    .await;
}

#[test]
fn a_clock_set_back_gives_no_fresh_budget() {
    run_within(Duration::from_secs(150), async {
        away_from_midnight().await;
        let (_tools, library, shift) = shifted_clock("0");
        let mock = Mock::start().await;
        mock.always(Script::answer("a"));
        let catalog = tight(&mock, "", "limits: { requests_per_day: 20 }", "");
        let gateway = Gateway::with(catalog)
            .env("LD_PRELOAD", library.to_str().unwrap())
            .env("CLOCK_SHIFT", shift.to_str().unwrap());
        let mut gateway = gateway.start().await;
        let today = portcullis::base::calendar::day_of(portcullis::base::calendar::now_millis());
        for _ in 0..12 {
            assert_eq!(send(&gateway, &ask(8)).await.status, 200);
        }
        counted(&gateway, today, (12.0, 12)).await;
        // A day ago less than that was used, but nobody knows which day it is.
        set_clock(&shift, -86_400);
        for _ in 0..5 {
            assert_eq!(send(&gateway, &ask(8)).await.status, 200);
        }
        counted(&gateway, today - 1, (17.0, 5)).await;
        // Nor after a restart.
        gateway.access_lines(17).await;
        gateway.crash_and_restart();
        assert_eq!(used(&gateway, "caller", "requests_per_day"), 17.0);
        for n in 0..5 {
            assert_eq!(
                send(&gateway, &ask(8)).await.status,
                if n < 3 { 200 } else { 429 },
                "{n}"
            );
        }
        set_clock(&shift, 0);
        // Each date has its own.
        counted(&gateway, today, (12.0, 12)).await;
        for n in 0..12 {
            assert_eq!(
                send(&gateway, &ask(8)).await.status,
                if n < 8 { 200 } else { 429 },
                "{n}"
            );
        }
        counted(&gateway, today, (20.0, 20)).await;
    });
}
