//! `/live`, which the page of operators shows: that it is true, and that it is never long.

mod states;

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client;
use crate::support::{
    Catalog, Gateway, Mock, PATIENCE, Script, chat, chat_stream, eventually, run,
};

const OTHER: &str = "sk-CaNaRy-caller-other-0123456789abcdefghijklmnop";
const TIGHT: &str = "sk-CaNaRy-caller-tight-0123456789abcdefghijklmnop";
/// The most bytes of an answer.
const MOST: usize = 64 * 1024;

fn live(gateway: &Gateway, query: &str) -> Value {
    let (status, text) = gateway.admin(&format!("/live{query}"));
    assert_eq!(status, 200, "{query}: {text}");
    assert!(text.len() <= MOST, "{query}: {} bytes", text.len());
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in {text}"))
}

fn usage(gateway: &Gateway, by: &str) -> Value {
    let (status, text) = gateway.admin(&format!("/usage?by={by}&since=2000-01-01"));
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Asks until all lines are in memory.
async fn after_lines(gateway: &Gateway, wanted: u64) -> Value {
    gateway.advance(Duration::from_secs(1)).await;
    eventually("all lines are there", || {
        let live = live(gateway, "");
        (live["seq"] == wanted && live["figures"]["now"]["requests"] == wanted).then_some(())
    })
    .await;
    // While this was made, the last request may have settled. The next is made within a second.
    gateway.advance(Duration::from_secs(1)).await;
    live(gateway, "")
}

fn row<'v>(section: &'v Value, name: &str) -> &'v Value {
    let rows = section["rows"]
        .as_array()
        .unwrap_or_else(|| panic!("{section}"));
    rows.iter()
        .find(|row| row["id"] == name)
        .unwrap_or_else(|| panic!("no {name} in {section:#}"))
}

fn nanos(text: &Value) -> u64 {
    let text = text.as_str().unwrap_or_else(|| panic!("{text} is no text"));
    (text.parse::<f64>().unwrap() * 1e9).round() as u64
}

/// "$0 a minute" beside "today unknown" would be two truths.
#[test]
fn an_unknown_cost_is_unknown_in_each_figure() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let known = || {
            let now = live(&gateway, "?show=figures")["figures"]["now"].clone();
            ["usd_known", "usd_per_minute_known"].map(|name| now[name].clone())
        };
        assert_eq!(known(), ["all", "all"], "nothing was asked");
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        eventually("nothing is known", || {
            (known() == ["none", "none"]).then_some(())
        })
        .await;
    });
}

/// Whatever happens to requests, `/live`, the ledger and `/metrics` count the same.
#[test]
fn page_ledger_and_metrics_agree() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let catalog = |more: bool| {
            let catalog = Catalog::new().account("a", &a).account("b", &b);
            let catalog = catalog.caller("other", OTHER, "").caller(
                "tight",
                TIGHT,
                "limits: { requests_per_day: 3 }",
            );
            let catalog = catalog.model_of(
                "m",
                &[
                    "{ account: a, price: { input: 1, output: 2 } }",
                    "{ account: b, price: { input: 3, output: 4 } }",
                ],
                "",
            );
            let catalog = catalog.model("free", &["b"]);
            if more {
                catalog.model("gone", &["a"])
            } else {
                catalog
            }
        };
        let gateway = Gateway::start(catalog(true)).await;
        let mut count = 0;
        for round in 0..7 {
            // Whole answers and streams, of two callers, priced and not.
            for (key, body) in [
                (KEY, chat("m")),
                (OTHER, chat("m")),
                (KEY, chat_stream("m")),
                (OTHER, chat("free")),
                (TIGHT, chat("m")),
            ] {
                gateway.raw(client::post_as(key, &body)).await;
                count += 1;
            }
            // The first account fails, and the second answers.
            a.push(Script::error(500, "out of order"));
            gateway.post(&chat("m")).await;
            // A stream is cut in the middle.
            b.push(Script::sse().words(0..3).close());
            gateway.post(&chat_stream("free")).await;
            // The request is at fault, or the key, or the model.
            gateway.post(&json!({"model": "m", "messages": 7})).await;
            gateway.raw(client::post_as("sk-wrong", &chat("m"))).await;
            gateway.post(&chat("nobody-has-this")).await;
            count += 5;
            if round == 3 {
                gateway.post(&chat("gone")).await;
                count += 1;
                gateway.swap(catalog(false)).await;
            }
        }
        let live = after_lines(&gateway, count).await;
        let (metrics, lines) = (gateway.metrics(), gateway.lines());
        let now = &live["figures"]["now"];
        assert_eq!(metrics.sum("portcullis_requests_total", &[]), count as f64);
        // Whose fault: by the outcomes in the lines.
        let of = |outcomes: &[&str]| {
            lines
                .iter()
                .filter(|line| outcomes.contains(&line["outcome"].as_str().unwrap()))
                .count() as u64
        };
        assert_eq!(
            now["failed_caller"],
            of(&["refused", "unauthorized", "limited", "unsupported"])
        );
        assert_eq!(
            now["failed_upstream"],
            of(&["upstream_error", "upstream_timeout", "upstream_cut"])
        );
        assert_eq!(now["failed_ours"], of(&["shutdown", "internal"]));
        assert!(of(&["upstream_cut"]) == 7 && of(&["limited"]) == 4, "{now}");
        // The history sums up to the figures.
        let series = &live["figures"]["series"];
        for (name, of_now) in [
            ("requests", "requests"),
            ("failed_caller", "failed_caller"),
            ("failed_upstream", "failed_upstream"),
        ] {
            let sum: u64 = series[name]
                .as_array()
                .unwrap()
                .iter()
                .map(|n| n.as_u64().unwrap())
                .sum();
            assert_eq!(now[of_now], sum, "{name}");
        }
        let all = usage(&gateway, "caller");
        let written: u64 = series["output_tokens"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_u64().unwrap())
            .sum();
        assert_eq!(all["total"]["completion_tokens"], written);
        assert_eq!(
            metrics.sum("portcullis_tokens_total", &[("kind", "completion")]),
            written as f64
        );
        let spent: u64 = series["usd"].as_array().unwrap().iter().map(nanos).sum();
        assert_eq!(nanos(&all["total"]["cost_usd"]), spent);
        assert_eq!(
            (nanos(&now["usd_today"]), &now["usd_known"]),
            (spent, &all["total"]["cost_known"])
        );
        assert!((metrics.sum("portcullis_cost_usd_total", &[]) * 1e9 - spent as f64).abs() < 1.0);
        // Callers, today and this month.
        let groups = all["usage"].as_array().unwrap();
        assert_eq!(groups.len(), 3, "{all}");
        for group in groups {
            let caller = row(&live["callers"], group["caller"].as_str().unwrap());
            for time in ["today", "month"] {
                let shown = &caller[time];
                let says = [
                    &shown["requests"],
                    &shown["tokens"],
                    &shown["usd"],
                    &shown["usd_known"],
                ];
                let expected = [
                    &group["requests"],
                    &group["total_tokens"],
                    &group["cost_usd"],
                    &group["cost_known"],
                ];
                assert_eq!(says, expected, "{time} {caller}");
            }
            assert!(caller["last_used"].is_string());
        }
        let tight = row(&live["callers"], "tight");
        assert_eq!(
            (
                &tight["limited"],
                &tight["limit"]["ratio"],
                &tight["limit"]["kind"]
            ),
            (&json!(4), &json!(1.0), &json!("requests_per_day"))
        );
        assert!(tight["limit"]["resets_at"].is_string(), "{tight}");
        assert_eq!(
            metrics.sum("portcullis_limited_total", &[("caller", "tight")]),
            4.0
        );
        // Models and targets.
        for model in ["m", "free"] {
            let shown = row(&live["models"], model);
            let of_model: Vec<_> = lines.iter().filter(|line| line["model"] == model).collect();
            assert_eq!(shown["requests"], of_model.len(), "{shown:#}");
            assert_eq!(
                metrics.sum("portcullis_requests_total", &[("model", model)]),
                of_model.len() as f64
            );
            let sum: u64 = shown["series"]
                .as_array()
                .unwrap()
                .iter()
                .map(|n| n.as_u64().unwrap())
                .sum();
            assert_eq!(shown["requests"], sum);
            for target in shown["targets"].as_array().unwrap() {
                // An account's name for a model is one target, whichever models have it.
                let tried = |is_wanted: &dyn Fn(&Value) -> bool| {
                    let all = lines
                        .iter()
                        .flat_map(|line| line["attempts"].as_array().unwrap());
                    all.filter(|tried| {
                        tried["account"] == target["account"] && tried["model"] == target["model"]
                    })
                    .filter(|tried| is_wanted(tried))
                    .count()
                };
                assert_eq!(target["requests"], tried(&|_| true), "{target:#}");
                assert_eq!(
                    target["failed"],
                    tried(&|tried| tried["outcome"] != "ok"),
                    "{target:#}"
                );
            }
        }
        let [first, second] = [0, 1].map(|at| &row(&live["models"], "m")["targets"][at]);
        assert_eq!(
            (&first["account"], &first["state"], &second["place"]),
            (&json!("a"), &json!("ok"), &json!(1))
        );
        assert_eq!(
            first["last_failure"]["outcome"], "status",
            "it stays, although the target has answered since"
        );
        assert!(
            first["first_token_ms"]["p50"].is_u64() && first["tokens_per_second"].is_number(),
            "{first:#}"
        );
        // The lines are those of the access log.
        let shown = live["requests"]["rows"].as_array().unwrap();
        for line in shown {
            let mut line = line.clone();
            let seq = line
                .as_object_mut()
                .unwrap()
                .remove("seq")
                .unwrap()
                .as_u64()
                .unwrap();
            assert_eq!(lines[usize::try_from(seq - 1).unwrap()], line);
        }
        // After a restart the use of callers is what it was.
        let mut gateway = gateway;
        gateway.signal("TERM");
        gateway.exit(PATIENCE);
        gateway.restart();
        let again = self::live(&gateway, "?show=callers");
        for caller in ["acme", "other", "tight"] {
            let [before, after] = [&live, &again].map(|live| row(&live["callers"], caller));
            assert_eq!(
                (&before["today"], &before["month"]),
                (&after["today"], &after["month"])
            );
        }
    });
}

/// What is asked for is found, and pages follow each other.
#[test]
fn requests_are_found_and_pages_follow_each_other() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let catalog = Catalog::new().account("a", &a).account("b", &b);
        let catalog = (0..9).fold(catalog, |catalog, n| {
            catalog.model(&format!("m{n}"), &["a=m", "b=m"])
        });
        let gateway = Gateway::with(catalog)
            .server("log: { access: off }")
            .start()
            .await;
        for n in 0..9 {
            if n == 4 {
                a.push(Script::error(400, "no"));
            }
            let mut body = chat(&format!("m{n}"));
            body["user"] = json!(format!("jane{n}@x.example"));
            let bytes = body.to_string();
            let bearer = format!("Bearer {KEY}");
            let id = format!("call-{n}");
            let heads = [
                ("authorization", &*bearer),
                ("content-type", "application/json"),
                ("x-request-id", &id),
            ];
            gateway
                .raw(client::request(
                    "POST",
                    "/v1/chat/completions",
                    &heads,
                    bytes.as_bytes(),
                ))
                .await;
            // A request is settled just after its answer's end.
            after_lines(&gateway, n + 1).await;
        }
        let all = live(&gateway, "");
        let ids = |live: &Value| -> Vec<String> {
            let rows = live["requests"]["rows"].as_array().unwrap().iter();
            rows.map(|row| row["request_id"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(
            ids(&all),
            (0..9)
                .rev()
                .map(|n| format!("call-{n}"))
                .collect::<Vec<_>>()
        );
        for (query, expected) in [
            ("?after=7", vec!["call-8", "call-7"]),
            ("?after=9", vec![]),
            ("?requests_before=3", vec!["call-1", "call-0"]),
            ("?failures=1", vec!["call-4"]),
            ("?find=call-5", vec!["call-5"]),
            ("?find=m3", vec!["call-3"]),
            ("?find=jane2@x.example", vec!["call-2"]),
            ("?find=b", vec![]),
            ("?find=%22", vec![]),
        ] {
            assert_eq!(ids(&live(&gateway, query)), expected, "{query}");
        }
        assert_eq!(
            ids(&live(&gateway, "?after=1000")).len(),
            9,
            "that was another process"
        );
        assert_eq!(ids(&live(&gateway, "?find=acme/")).len(), 9);
        // Filters and pages of the other sections.
        let shown = live(&gateway, "?models=m&models_from=7&show=models");
        assert_eq!(
            (
                shown["models"]["rows"].as_array().unwrap().len(),
                &shown["models"]["more"],
                &shown["models"]["total"]
            ),
            (2, &json!(0), &json!(9))
        );
        assert!(
            shown["callers"].is_null()
                && shown["figures"].is_null()
                && shown["verdict"]["word"].is_string()
        );
        assert_eq!(live(&gateway, "?models=m5")["models"]["total"], 1);
        assert_eq!(live(&gateway, "?callers=nobody")["callers"]["total"], 0);
        // One request, one caller.
        let (status, text) = gateway.admin("/live/request?id=call-6");
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (
                status,
                &line["model"],
                &line["end_user"].as_str().unwrap().len()
            ),
            (200, &json!("m6"), &16)
        );
        assert_eq!(gateway.admin("/live/request?id=call-66").0, 404);
        let (status, text) = gateway.admin("/live/caller?id=acme");
        assert_eq!(
            (
                status,
                serde_json::from_str::<Value>(&text).unwrap()["keys"][0]["id"].as_str()
            ),
            (200, Some("acme/prod")),
            "{text}"
        );
        assert_eq!(gateway.admin("/live/caller?id=nobody").0, 404);
        for query in ["?after=x", "?other=1", "?show=all", "?failures=2"] {
            assert_eq!(gateway.admin(&format!("/live{query}")).0, 400, "{query}");
        }
        assert_eq!(gateway.admin("/live/caller").0, 400);
    });
}

/// However much there is, an answer is short, and says how much is left out.
#[test]
fn an_answer_is_short_whatever_there_is() {
    run(async {
        let mock = Mock::start().await;
        let long = |name: &str, n: usize| format!("{name}{n}-{}", "x".repeat(40));
        let catalog = (0..5).fold(Catalog::new(), |catalog, n| {
            catalog.account(&long("provider", n), &mock)
        });
        let names: Vec<String> = (0..5).map(|n| long("provider", n)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let catalog = (0..200).fold(catalog, |catalog, n| {
            catalog.model(&long("model", n), &names)
        });
        let catalog = (0..1_000).fold(catalog, |catalog, n| {
            let key = format!("sk-CaNaRy-caller-{n:04}-0123456789abcdefghijklmnop");
            catalog.caller(
                &long("caller", n),
                &key,
                "limits: { requests_per_day: 100, tokens_per_day: 100000 }",
            )
        });
        let gateway = Gateway::start(catalog).await;
        let hostile = "/<img src=x onerror=alert(1)>".replace(' ', "%20") + &"%22%5C".repeat(300);
        for n in 0..150 {
            let key = format!("sk-CaNaRy-caller-{n:04}-0123456789abcdefghijklmnop");
            let answer = match n % 3 {
                0 => {
                    gateway
                        .raw(client::post_as(&key, &chat(&long("model", n))))
                        .await
                }
                1 => {
                    gateway
                        .raw(client::request("GET", &hostile, &[], b""))
                        .await
                }
                _ => {
                    mock.push(Script::error(500, &"\u{1}<b>\"\\".repeat(100)));
                    gateway
                        .raw(client::post_as(&key, &chat_stream(&long("model", n))))
                        .await
                }
            };
            assert!(answer.status > 0);
        }
        after_lines(&gateway, 150).await;
        for query in [
            "",
            "?show=models",
            "?show=callers",
            "?show=requests",
            "?show=figures,configuration",
            "?failures=1",
            "?find=model",
            "?models=1&callers=9",
        ] {
            let shown = live(&gateway, query);
            for (section, total) in [("models", 200), ("callers", 1_001)] {
                let Some(rows) = shown[section]["rows"].as_array() else {
                    continue;
                };
                assert!(!rows.is_empty(), "{query} {section}");
                let all = rows.len() as u64 + shown[section]["more"].as_u64().unwrap();
                assert_eq!(shown[section]["total"], all);
                assert!(
                    query.contains("models=1") || all == total,
                    "{query} {section}"
                );
            }
            if let Some(rows) = shown["requests"]["rows"].as_array() {
                assert!(rows.len() >= 5, "{query}: {}", rows.len());
            }
        }
        let alone = live(&gateway, "?show=models")["models"]["rows"]
            .as_array()
            .unwrap()
            .len();
        println!(
            "{alone} models alone, {} with all sections",
            live(&gateway, "")["models"]["rows"]
                .as_array()
                .unwrap()
                .len()
        );
    });
}

/// A target that is out is shown as it is, and that it is back.
#[test]
fn a_target_that_is_out_is_shown_until_back() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(
            Catalog::new()
                .account("a", &a)
                .account("b", &b)
                .model("m", &["a", "b"])
                .model("n", &["b"]),
        )
        .await;
        let target =
            |at: usize| row(&live(&gateway, "?show=models")["models"], "m")["targets"][at].clone();
        assert_eq!(
            (&target(0)["state"], &target(0)["since"]),
            (&json!("ok"), &Value::Null)
        );
        a.always(Script::error(500, "out of order"));
        let open = eventually("its breaker is open", || {
            let shown = live(&gateway, "?show=models");
            let targets = row(&shown["models"], "m")["targets"]
                .as_array()
                .unwrap()
                .clone();
            targets
                .into_iter()
                .find(|target| target["account"] == "a" && target["state"] == "open")
        });
        let open = tokio::select! {
            open = open => open,
            () = async { loop { gateway.post(&chat("m")).await; } } => unreachable!(),
        };
        assert!(
            open["since"].is_string() && open["for_ms"].is_u64(),
            "{open}"
        );
        assert_eq!(
            (&open["place"], &open["last_failure"]["outcome"]),
            (&json!(1), &json!("status")),
            "{open}"
        );
        let shown = live(&gateway, "?show=models");
        assert_eq!(
            shown["models"]["rows"][0]["id"], "m",
            "the worst comes first"
        );
        // The target of two models has no share of one, and the other model is not in trouble.
        assert!(
            row(&shown["models"], "m")["targets"]
                .as_array()
                .unwrap()
                .iter()
                .all(|target| target["share"].is_number())
        );
        a.always(Script::answer("back"));
        gateway.reset("a");
        eventually("it is back", || {
            (target(0)["state"] == "ok" && target(0)["account"] == "a").then_some(())
        })
        .await;
        assert!(target(0)["since"].is_string() && target(0)["last_failure"].is_object());
    });
}

/// A target of two models has no share of one of them, and what is switched off is no trouble.
#[test]
fn shared_and_disabled_models_are_shown_as_such() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let catalog = Catalog::new()
            .account("a", &a)
            .account("b", &b)
            .account_with("c", &b, "enabled: false");
        let catalog = catalog
            .model("alone", &["c", "b"])
            .model("fast", &["a=x", "b=x"])
            .model("smart", &["a=x"]);
        let gateway = Gateway::start(catalog).await;
        for model in ["fast", "smart", "smart"] {
            gateway.post(&chat(model)).await;
        }
        let live = after_lines(&gateway, 3).await;
        let shares = |model: &str| -> Vec<Value> {
            row(&live["models"], model)["targets"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["share"].clone())
                .collect()
        };
        assert_eq!(
            (shares("fast"), shares("smart")),
            (vec![Value::Null; 2], vec![Value::Null])
        );
        let ids: Vec<_> = live["models"]["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["id"].clone())
            .collect();
        assert_eq!(
            ids,
            ["smart", "fast", "alone"],
            "by their requests, since none is in trouble"
        );
        let alone = row(&live["models"], "alone")["targets"].as_array().unwrap();
        let states: Vec<_> = alone
            .iter()
            .map(|target| (&target["account"], &target["state"]))
            .collect();
        assert_eq!(
            states,
            [(&json!("b"), &json!("ok")), (&json!("c"), &json!("off"))]
        );
    });
}

#[test]
fn a_limit_by_the_minute_says_when_it_frees() {
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::over(&mock).caller(
            "tight",
            TIGHT,
            "limits: { requests_per_minute: 2, tokens_per_minute: 900000 }",
        );
        let gateway = Gateway::start(catalog).await;
        let row = || {
            let live: Value =
                serde_json::from_str(&gateway.admin("/live?show=callers").1).expect("JSON");
            row(&live["callers"], "tight").clone()
        };
        // Nothing is used, so nothing has to be waited for.
        assert_eq!(row()["limit"]["resets_at"], Value::Null);
        let before = portcullis::base::calendar::now_millis();
        assert_eq!(
            gateway.raw(client::post_as(TIGHT, &chat("m"))).await.status,
            200
        );
        let shown = eventually("the use", || {
            Some(row()).filter(|row| row["limit"]["used"] == 1)
        })
        .await;
        assert_eq!(shown["limit"]["kind"], "requests_per_minute", "{shown}");
        let at = shown["limit"]["resets_at"]
            .as_str()
            .expect("a time")
            .to_owned();
        let (first, last) = (
            before / 1000 * 1000 + 60_000,
            portcullis::base::calendar::now_millis() + 60_000,
        );
        let time = portcullis::base::calendar::format_time;
        assert!(time(first) <= at && at <= time(last), "{at}");
    });
}
