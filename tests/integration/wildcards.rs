//! Models whose id is a pattern: `openai/*` stands for all models that its provider lists.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::explain::explain;
use crate::problems::Clock;
use crate::support::canary::{ACCOUNT_KEY, KEY};
use crate::support::client::{Response, post_as, request};
use crate::support::clock::LISTS;
use crate::support::mock::Request;
use crate::support::{Catalog, Gate, Gateway, Mock, PATIENCE, Script, chat, run};

const OTHER: &str = "sk-CaNaRy-caller-other";

/// A provider whose list of models can be changed.
struct Provider {
    mock: Mock,
    list: Arc<Mutex<Script>>,
}

impl Provider {
    async fn start(list: Script) -> Provider {
        let (mock, list) = (Mock::start().await, Arc::new(Mutex::new(list)));
        let of = list.clone();
        mock.by(move |request| {
            if request.method == "GET" {
                of.lock().unwrap().clone()
            } else {
                Script::answer("hello")
            }
        });
        Provider { mock, list }
    }

    fn now_lists(&self, list: Script) {
        *self.list.lock().unwrap() = list;
    }

    /// The requests for the list.
    fn fetches(&self) -> Vec<Request> {
        self.mock
            .requests()
            .into_iter()
            .filter(|request| request.method == "GET")
            .collect()
    }

    /// The models that were asked, by the provider's names.
    fn asked(&self) -> Vec<String> {
        self.mock
            .requests()
            .iter()
            .filter(|request| request.method == "POST")
            .map(Request::model)
            .collect()
    }
}

fn list(names: &[&str]) -> Script {
    let data: Vec<Value> = names
        .iter()
        .map(|name| json!({"id": name, "object": "model"}))
        .collect();
    Script::json(200, &json!({"object": "list", "data": data}))
}

fn catalog(provider: &Provider) -> Catalog {
    Catalog::new().account("a", &provider.mock).model_with(
        "openai/*",
        &["a=*"],
        "price: { input: 1, output: 2 }",
    )
}

async fn ids(gateway: &Gateway, key: &str) -> Vec<String> {
    let bearer = format!("Bearer {key}");
    let answer = gateway
        .raw(request(
            "GET",
            "/v1/models",
            &[("authorization", &bearer)],
            b"",
        ))
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let data = answer.json()["data"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    data.iter()
        .map(|model| model["id"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Waits until this is so.
async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    crate::support::eventually(what, || is_so().then_some(())).await;
}

/// Waits until the gateway has taken a list with so many names.
async fn taken(gateway: &Gateway, names: u64) -> Value {
    eventually("the list", || {
        gateway.status()["accounts"][0]["list"]["names"] == names
    })
    .await;
    gateway.status()["accounts"][0]["list"].clone()
}

async fn ask(gateway: &Gateway, key: &str, model: &str) -> Response {
    gateway.raw(post_as(key, &chat(model))).await
}

/// A provider that lists nothing for a moment takes no model from callers, and a name that is no
/// text takes no other name.
#[test]
fn an_empty_list_takes_no_model_away() {
    run(async {
        let odd = json!({"data": [{"id": "a"}, {"id": "LONE"}, {"id": "c"}]})
            .to_string()
            .replace("LONE", "b\\ud800");
        let provider = Provider::start(Script::text(200, "application/json", &odd)).await;
        let clock = Clock::new();
        let setup = Gateway::with(catalog(&provider)).server("model_lists: { refresh: 1s }");
        let gateway = clock.give(setup).start().await;
        let known = taken(&gateway, 2).await;
        assert_eq!(
            (&known["left_out"], ids(&gateway, KEY).await),
            (&json!(1), vec!["openai/a".into(), "openai/c".into()])
        );
        gateway
            .logged("lists 2 models; 1 more names cannot be served")
            .await;
        provider.now_lists(list(&[]));
        let failure = || {
            gateway.status()["accounts"][0]["list"]["failure"]
                .as_str()
                .map(str::to_owned)
        };
        let why = crate::support::eventually("the failure", failure).await;
        assert!(why.contains("an empty list"), "{why}");
        assert_eq!(ids(&gateway, KEY).await, ["openai/a", "openai/c"]);
        // It is one only if it lasts for ten seconds.
        clock.set(10);
        let problem = || {
            gateway.status()["problems"]
                .to_string()
                .contains("list_failing")
                .then_some(())
        };
        crate::support::eventually_within(3 * PATIENCE, "the problem", problem).await;
    });
}

#[test]
fn what_the_provider_lists_is_served() {
    run(async {
        let provider = Provider::start(list(&[
            "o3",
            "gpt-4o",
            "gpt-4o-mini",
            "own",
            "ft:gpt-4o:acme::1",
        ]))
        .await;
        let catalog = catalog(&provider)
            .model("openai/own", &["a=renamed"])
            .model_with("tuned/*", &["a=ft:*"], "price: { input: 1, output: 2 }")
            .model_with("any", &["a=rest"], "aliases: [\"*\"], catch_all: true")
            .caller("other", OTHER, "models: [\"openai/gpt-*\", \"tuned/*\"]");
        let gateway = Gateway::start(catalog).await;
        let told = taken(&gateway, 5).await;
        assert_eq!(
            (&told["failure"], &told["left_out"]),
            (&Value::Null, &json!(0)),
            "{told}"
        );
        assert_eq!(
            ids(&gateway, KEY).await,
            [
                "any",
                "openai/gpt-4o",
                "openai/gpt-4o-mini",
                "openai/o3",
                "openai/own",
                "tuned/gpt-4o:acme::1"
            ]
        );
        assert_eq!(
            ids(&gateway, OTHER).await,
            [
                "openai/gpt-4o",
                "openai/gpt-4o-mini",
                "tuned/gpt-4o:acme::1"
            ]
        );
        for (key, model, upstream) in [
            (KEY, "openai/gpt-4o", Some("gpt-4o")),
            (OTHER, "openai/gpt-4o", Some("gpt-4o")),
            (OTHER, "openai/o3", None),
            (KEY, "openai/own", Some("renamed")),
            (KEY, "tuned/gpt-4o:acme::1", Some("ft:gpt-4o:acme::1")),
            (OTHER, "openai/ft:gpt-4o:acme::1", None),
            (OTHER, "openai/gpt-5", None),
            (OTHER, "openai/*", None),
            // A shorter glob takes what the list does not have.
            (KEY, "openai/gpt-5", Some("rest")),
        ] {
            let answer = ask(&gateway, key, model).await;
            match upstream {
                Some(upstream) => {
                    assert_eq!(
                        (answer.status, &answer.json()["model"]),
                        (200, &json!(model)),
                        "{}",
                        answer.text()
                    );
                    assert_eq!(
                        provider.asked().last().map(String::as_str),
                        Some(upstream),
                        "{model}"
                    );
                }
                None => drop(answer.is_error(404, "model_not_found")),
            }
        }
        let one = gateway.get("/v1/models/openai/gpt-4o").await;
        assert_eq!(
            (one.status, &one.json()["id"]),
            (200, &json!("openai/gpt-4o"))
        );
        // The list was fetched once, with the account's credential and nothing else.
        let fetches = provider.fetches();
        assert_eq!(fetches.len(), 1);
        let key = format!("Bearer {ACCOUNT_KEY}");
        assert_eq!(
            (&*fetches[0].target, fetches[0].field("authorization")),
            ("/v1/models", Some(&*key))
        );
        assert!(fetches[0].body.is_empty());
        // Lines and the ledger have the name, and metrics have the pattern.
        let lines = gateway.access_lines_at_least(9).await;
        assert!(
            lines
                .iter()
                .any(|line| line["model"] == "openai/gpt-4o" && line["outcome"] == "ok")
        );
        let metrics = gateway.metrics();
        assert_eq!(
            metrics.sum(
                "portcullis_requests_total",
                &[("model", "openai/*"), ("outcome", "ok")]
            ),
            2.0
        );
        assert_eq!(
            metrics.sum("portcullis_requests_total", &[("model", "openai/gpt-4o")]),
            0.0
        );
        eventually("the rows", || {
            let (_, used) = gateway.admin("/usage?by=model&since=1d");
            used.contains("\"openai/gpt-4o\"")
                && used.contains("\"tuned/gpt-4o:acme::1\"")
                && !used.contains("openai/*")
        })
        .await;
    });
}

#[test]
fn a_list_outlives_a_failing_provider_and_a_restart() {
    run(async {
        let provider = Provider::start(list(&["gpt-4o"])).await;
        let setup = Gateway::with(catalog(&provider)).server("model_lists: { refresh: 1s }");
        let mut gateway = setup.start().await;
        taken(&gateway, 1).await;
        // Nothing is said of names that were left out, since there are none.
        gateway.logged("lists 1 model\"").await;
        provider.now_lists(list(&["gpt-4o", "o3"]));
        gateway.advance(Duration::from_secs(1)).await;
        taken(&gateway, 2).await;
        assert_eq!(
            ids(&gateway, KEY).await,
            ["openai/gpt-4o", "openai/o3"],
            "a new list shows at once"
        );
        let cut = Script::new()
            .head(200, &[("content-length", "1000")])
            .body("{\"data\":[]")
            .close();
        for broken in [
            Script::error(500, "down"),
            Script::text(200, "text/html", "<html>"),
            cut,
        ] {
            let fetched = provider.fetches().len();
            provider.now_lists(broken);
            gateway.advance(Duration::from_secs(1)).await;
            eventually("a fetch", || provider.fetches().len() > fetched).await;
            eventually("a failure", || {
                !gateway.status()["accounts"][0]["list"]["failure"].is_null()
            })
            .await;
            let answer = ask(&gateway, KEY, "openai/o3").await;
            assert_eq!(answer.status, 200);
            gateway.line_of(&answer).await;
            provider.now_lists(list(&["gpt-4o", "o3"]));
            gateway.advance(Duration::from_secs(5)).await;
            eventually("it is mended", || {
                gateway.status()["accounts"][0]["list"]["failure"].is_null()
            })
            .await;
        }
        provider.now_lists(Script::error(500, "down"));
        gateway.crash_and_restart();
        assert_eq!(
            ask(&gateway, KEY, "openai/o3").await.status,
            200,
            "it comes from the disk"
        );
        assert_eq!(ids(&gateway, KEY).await, ["openai/gpt-4o", "openai/o3"]);
        ask(&gateway, KEY, "openai/o4")
            .await
            .is_error(404, "model_not_found");
        let (code, said) = explain(&gateway, &chat("openai/o3"), &[]);
        assert!(
            code == Some(0) && said.contains("from the pattern \"openai/*\""),
            "{said}"
        );
        let (code, said) = explain(&gateway, &chat("openai/o4"), &[]);
        assert!(
            code == Some(1) && said.contains("there is no model"),
            "{said}"
        );
        // The list of another address says nothing about this one.
        let other = Provider::start(Script::error(500, "down")).await;
        gateway.swap(self::catalog(&other)).await;
        ask(&gateway, KEY, "openai/o3")
            .await
            .is_error(503, "upstream_unavailable");
        let (code, said) = explain(&gateway, &chat("openai/o3"), &[]);
        assert!(
            code == Some(1) && said.contains("there is no list of its provider's models"),
            "{said}"
        );
    });
}

/// Returns the verdict of the page, as JSON.
fn verdict(gateway: &Gateway) -> String {
    let (_, live) = gateway.admin("/live");
    let live: Value = serde_json::from_str(&live).expect("JSON");
    live["verdict"].to_string()
}

/// A wrong key is the likely cause: nothing is served, and every page says so.
#[test]
fn without_any_list_the_gateway_is_failing() {
    run(async {
        let refused = Script::error(401, "Incorrect API key provided");
        let provider = Provider::start(refused).await;
        let gateway = Gateway::start(catalog(&provider)).await;
        eventually("a failing verdict", || {
            verdict(&gateway).contains("failing")
                && verdict(&gateway).contains("could not be fetched")
        })
        .await;
        let answer = ask(&gateway, KEY, "openai/gpt-4o").await;
        let error = answer.is_error(503, "upstream_unavailable");
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|text| text.contains("cannot be fetched") && !text.contains("401")),
            "{error}"
        );
        provider.now_lists(list(&["gpt-4o"]));
        gateway.reset("a");
        gateway.swap(catalog(&provider).model("more", &["a"])).await;
        eventually("it is well again", || verdict(&gateway).contains("\"ok\"")).await;
    });
}

#[test]
fn names_wait_for_the_first_list() {
    run(async {
        let gate = Gate::new();
        let provider = Provider::start(Script::new().wait(&gate).and(list(&["gpt-4o"]))).await;
        let catalog = catalog(&provider)
            .model_with("any", &["a=rest"], "aliases: [\"*\"], catch_all: true")
            .caller("other", OTHER, "models: [\"mine/*\"]");
        let gateway = Gateway::start(catalog).await;
        let answer = ask(&gateway, KEY, "openai/gpt-4o").await;
        answer.is_error(503, "upstream_unavailable");
        assert_eq!(answer.field("retry-after"), Some("5"));
        assert_eq!(gateway.get("/v1/models/openai/gpt-4o").await.status, 503);
        assert_eq!(ids(&gateway, KEY).await, ["any"]);
        ask(&gateway, OTHER, "openai/gpt-4o")
            .await
            .is_error(404, "model_not_found");
        assert_eq!(
            provider.asked(),
            [] as [String; 0],
            "nothing is passed blindly"
        );
        assert_eq!(
            ask(&gateway, KEY, "another").await.status,
            200,
            "only names that match wait"
        );
        gate.open();
        taken(&gateway, 1).await;
        assert_eq!(ask(&gateway, KEY, "openai/gpt-4o").await.status, 200);
    });
}

#[test]
fn a_list_is_foreign_text() {
    run(async {
        let mut names: Vec<String> = (0..6_000).map(|n| format!("m-{n:04}")).collect();
        names.splice(
            0..0,
            [
                "x".repeat(300),
                "a\nb".into(),
                "a b".into(),
                "../admin".into(),
                "a?b".into(),
                String::new(),
            ],
        );
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let provider = Provider::start(list(&names)).await;
        let gateway = Gateway::start(catalog(&provider)).await;
        assert_eq!(taken(&gateway, 5_000).await["left_out"], 1_006);
        assert_eq!(ids(&gateway, KEY).await.len(), 5_000);
        assert_eq!(ask(&gateway, KEY, "openai/m-4999").await.status, 200);
        for model in [
            "openai/m-5000",
            "openai/a b",
            "openai/../admin",
            "openai/",
            &format!("openai/{}", "x".repeat(300)),
        ] {
            ask(&gateway, KEY, model)
                .await
                .is_error(404, "model_not_found");
        }
        // More than the bytes of a list is no list.
        let endless = json!({"data": [{"id": "x", "more": "y".repeat(9 << 20)}]});
        let endless = Provider::start(Script::json(200, &endless)).await;
        gateway.swap(self::catalog(&endless)).await;
        eventually("a failure", || {
            !gateway.status()["accounts"][0]["list"]["failure"].is_null()
        })
        .await;
    });
}

#[test]
fn limits_and_fallbacks_may_name_models_of_a_pattern() {
    run(async {
        let provider = Provider::start(list(&["gpt-4o", "o3"])).await;
        let limits = "model_limits: { openai/gpt-4o: { requests_per_minute: 1 }, openai/gone: { requests_per_minute: 1 } }";
        let catalog = catalog(&provider)
            .account("down", &provider.mock)
            .model_with("m", &["down=broken"], "fallbacks: [openai/o3]")
            .caller_with("other", "", &[("prod", OTHER, limits)]);
        provider.mock.on("broken", Script::error(500, "down"));
        let gateway = Gateway::start(catalog).await;
        taken(&gateway, 2).await;
        assert_eq!(
            ids(&gateway, OTHER).await,
            ["m", "openai/gpt-4o", "openai/o3"]
        );
        assert_eq!(ask(&gateway, OTHER, "openai/gpt-4o").await.status, 200);
        ask(&gateway, OTHER, "openai/gpt-4o")
            .await
            .is_error(429, "rate_limit_exceeded");
        for _ in 0..2 {
            assert_eq!(ask(&gateway, OTHER, "openai/o3").await.status, 200);
        }
        ask(&gateway, OTHER, "openai/gone")
            .await
            .is_error(404, "model_not_found");
        assert_eq!(ask(&gateway, KEY, "m").await.status, 200);
        assert_eq!(provider.asked().last().map(String::as_str), Some("o3"));
        gateway.access_lines(7).await;
        assert_eq!(
            gateway.metrics().sum(
                "portcullis_requests_total",
                &[("model", "openai/*"), ("outcome", "ok")]
            ),
            3.0
        );
    });
}

#[test]
fn a_limit_counts_whichever_pattern_has_the_model() {
    run(async {
        let (few, all) = (
            Provider::start(list(&["gpt-4"])).await,
            Provider::start(list(&["gpt-4o"])).await,
        );
        let limits = "model_limits: { openai/gpt-4o: { requests_per_minute: 1 } }";
        let catalog = Catalog::new()
            .account("a", &all.mock)
            .account("b", &few.mock)
            .model("openai/*", &["a=*"])
            .model("openai/gpt-*", &["b=gpt-*"])
            .caller_with("other", "", &[("prod", OTHER, limits)]);
        let gateway = Gateway::start(catalog).await;
        let names = |n: usize| gateway.status()["accounts"][n]["list"]["names"].clone();
        eventually("the lists", || names(0) == 1 && names(1) == 1).await;
        assert_eq!(
            ids(&gateway, OTHER).await,
            ["openai/gpt-4", "openai/gpt-4o"]
        );
        assert_eq!(ask(&gateway, OTHER, "openai/gpt-4o").await.status, 200);
        ask(&gateway, OTHER, "openai/gpt-4o")
            .await
            .is_error(429, "rate_limit_exceeded");
        assert_eq!(
            (all.asked(), few.asked().len()),
            (vec!["gpt-4o".to_owned()], 0)
        );
    });
}

#[test]
fn the_list_of_an_earlier_address_comes_too_late() {
    run(async {
        let gate = Gate::new();
        let old = Provider::start(Script::new().wait(&gate).and(list(&["old"]))).await;
        let new = Provider::start(list(&["new"])).await;
        let gateway = Gateway::start(catalog(&old)).await;
        eventually("a fetch", || old.fetches().len() == 1).await;
        gateway.swap(catalog(&new)).await;
        taken(&gateway, 1).await;
        gate.open();
        eventually("the old list is read", || old.mock.open() == 0).await;
        gateway.round(LISTS).await;
        assert_eq!(ids(&gateway, KEY).await, ["openai/new"]);
    });
}

#[test]
fn a_list_of_nothing_takes_no_memory() {
    run(async {
        let hollow = format!("{{\"data\":[{}{{\"id\":\"x\"}}]}}", "{},".repeat(1_400_000));
        let provider = Provider::start(Script::text(200, "application/json", &hollow)).await;
        let gateway = Gateway::with(catalog(&provider))
            .server("log: { level: info }")
            .start()
            .await;
        taken(&gateway, 1).await;
        let peak = gateway.process.peak();
        assert!(peak < 96 * 1024, "{peak} KiB at most");
    });
}

#[test]
fn accounts_with_one_credential_share_a_list() {
    run(async {
        let (provider, other) = (
            Provider::start(list(&["x", "y"])).await,
            Provider::start(list(&["x"])).await,
        );
        let catalog = Catalog::new()
            .account("a", &provider.mock)
            .account("b", &provider.mock)
            .account("c", &other.mock)
            .model("all/*", &["a=*", "c=*"])
            .model("same/*", &["b=*"]);
        let gateway = Gateway::start(catalog).await;
        eventually("the lists", || {
            (0..3).all(|n| gateway.status()["accounts"][n]["list"]["names"].as_u64() > Some(0))
        })
        .await;
        assert_eq!((provider.fetches().len(), other.fetches().len()), (1, 1));
        assert_eq!(
            ids(&gateway, KEY).await,
            ["all/x", "all/y", "same/x", "same/y"]
        );
        provider
            .mock
            .on("x", Script::error(500, "down"))
            .on("y", Script::error(500, "down"));
        assert_eq!(
            ask(&gateway, KEY, "all/x").await.status,
            200,
            "the second account lists it"
        );
        assert_eq!(other.asked(), ["x"]);
        assert!(
            ask(&gateway, KEY, "all/y").await.status >= 500,
            "the second account does not list it"
        );
        assert_eq!(other.asked(), ["x"]);
        provider.mock.on("y", Script::answer("back"));
        for _ in 0..20 {
            ask(&gateway, KEY, "same/x").await;
        }
        let targets = gateway.status()["accounts"][1]["targets"].clone();
        let of = |model: &str| {
            targets
                .as_array()
                .unwrap()
                .iter()
                .find(|target| target["model"] == model)
                .cloned()
        };
        assert_ne!(
            of("x").expect("its health is known")["breaker"],
            "closed",
            "{targets}"
        );
        assert_eq!(
            ask(&gateway, KEY, "same/y").await.status,
            200,
            "each model has a breaker of its own"
        );
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_target_state", &[("model", "x")]),
            0.0
        );
        assert!(
            gateway.metrics().0.contains("portcullis_account_state"),
            "the metric of targets is of written models only"
        );
        gateway
            .swap(
                Catalog::new()
                    .account("b", &provider.mock)
                    .model("same/*", &["b=*"]),
            )
            .await;
        let health = gateway.status()["accounts"][0]["targets"].to_string();
        assert!(
            health.contains("mock_error"),
            "a reload forgets nothing: {health}"
        );
    });
}

#[test]
fn pages_are_followed() {
    run(async {
        let mock = Mock::start().await;
        mock.by(|request| {
            let page = |id: &str, more: bool| {
                Script::json(200, &json!({"data": [{"type": "model", "id": id}], "has_more": more, "last_id": id}))
            };
            match &*request.target {
                "/v1/models?limit=1000" => page("claude-a", true),
                "/v1/models?limit=1000&after_id=claude-a" => page("claude-b", true),
                "/v1/models?limit=1000&after_id=claude-b" => page("claude-c", false),
                _ => Script::error(404, "no"),
            }
        });
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: anthropic")
            .model("claude-*", &["a"]);
        let gateway = Gateway::start(catalog).await;
        taken(&gateway, 3).await;
        assert_eq!(
            ids(&gateway, KEY).await,
            ["claude-a", "claude-b", "claude-c"]
        );
        assert!(
            mock.requests()
                .iter()
                .all(|request| request.field("anthropic-version").is_some())
        );
        for _ in 0..2 {
            gateway.round(LISTS).await;
        }
        assert_eq!(mock.count(), 3, "the next fetch is an hour later");
    });
}
