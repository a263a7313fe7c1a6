//! The models that a key sees: `/v1/models`, `/v1/models/{id}`, aliases and fallbacks.

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{End, Response, post_as, request};
use crate::support::{Catalog, Gateway, H2, Mock, Script, chat, run};

const NARROW: &str = "sk-CaNaRy-caller-narrow";

fn get(target: &str, key: &str) -> Vec<u8> {
    request(
        "GET",
        target,
        &[("authorization", &format!("Bearer {key}"))],
        b"",
    )
}

/// The ids, in their order.
#[track_caller]
fn ids(answer: &Response) -> Vec<String> {
    assert_eq!(
        (answer.status, answer.field("content-type")),
        (200, Some("application/json")),
        "{}",
        answer.text()
    );
    let list = answer.json();
    assert_eq!(list["object"], "list");
    let data = list["data"].as_array().expect("a list");
    let id = |model: &Value| model["id"].as_str().expect("an id").to_owned();
    data.iter().map(id).collect()
}

#[test]
fn the_list_holds_exactly_what_the_key_may_use() {
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::new()
            .account("a", &mock)
            .account_with("off", &mock, "enabled: false")
            .model_with(
                "zeta",
                &["a"],
                "aliases: [beta, org/zeta], created: 2026-01-01, owned_by: acme",
            )
            .model("alpha", &["a"])
            .model("org/mu", &["off", "a"])
            .model("dark", &["off"])
            .caller_with(
                "beta",
                "models: [\"org/*\", zeta, dark]",
                &[
                    ("narrow", NARROW, "models: [\"*\"]"),
                    ("less", "sk-CaNaRy-caller-less", "models: [\"?eta\"]"),
                ],
            )
            .caller("none", "sk-CaNaRy-caller-none", "models: []");
        let gateway = Gateway::start(catalog).await;
        // An alias is seen exactly when its model is, whatever it is called; a model without an
        // enabled account is not.
        let cases = [
            (KEY, &["alpha", "beta", "org/mu", "org/zeta", "zeta"][..]),
            (NARROW, &["beta", "org/mu", "org/zeta", "zeta"]),
            ("sk-CaNaRy-caller-less", &["beta", "org/zeta", "zeta"]),
            ("sk-CaNaRy-caller-none", &[]),
        ];
        for (key, expected) in cases {
            assert_eq!(ids(&gateway.raw(get("/v1/models", key)).await), expected);
            // Twice, since the list is made once.
            assert_eq!(
                ids(&gateway.raw(get("/v1/models?limit=1", key)).await),
                expected
            );
            for id in [
                "alpha",
                "beta",
                "org/mu",
                "org/zeta",
                "zeta",
                "dark",
                "unheard-of",
            ] {
                let seen = expected.contains(&id);
                let one = gateway.raw(get(&format!("/v1/models/{id}"), key)).await;
                let asked = gateway.raw(post_as(key, &chat(id))).await;
                assert_eq!(
                    (one.status, asked.status),
                    if seen { (200, 200) } else { (404, 404) },
                    "{id}"
                );
                if seen {
                    assert_eq!(
                        (&one.json()["id"], &asked.json()["model"]),
                        (&json!(id), &json!(id))
                    );
                } else {
                    assert_eq!(
                        one.is_error(404, "model_not_found"),
                        asked.is_error(404, "model_not_found")
                    );
                }
            }
        }
        let list = gateway.get("/v1/models").await.json();
        assert_eq!(
            list["data"][4],
            json!({"id": "zeta", "object": "model", "created": 1_767_225_600, "owned_by": "acme",
                "type": "base", "capabilities": {"completion_chat": true}})
        );
        assert_eq!(
            (
                &list["data"][0]["owned_by"],
                list["data"][0]["created"].is_u64()
            ),
            (&json!("portcullis"), true)
        );
    });
}

#[test]
fn an_id_may_hold_slashes_plain_or_encoded() {
    run(async {
        let mock = Mock::start().await;
        let ids = ["org/mu", "a/b/c", "with.dots-and_more:8b", "models"];
        let catalog = ids
            .iter()
            .fold(Catalog::new().account("a", &mock), |catalog, id| {
                catalog.model(id, &["a"])
            });
        let gateway = Gateway::start(catalog).await;
        let cases = [
            ("/v1/models/org/mu", Some("org/mu")),
            ("/v1/models/org%2Fmu", Some("org/mu")),
            ("/v1/models/org%2fmu", Some("org/mu")),
            ("/v1/models/%6frg%2F%6du", Some("org/mu")),
            ("/v1/models/a%2Fb/c", Some("a/b/c")),
            (
                "/v1/models/with.dots-and_more:8b",
                Some("with.dots-and_more:8b"),
            ),
            (
                "/v1/models/with.dots-and_more%3A8b",
                Some("with.dots-and_more:8b"),
            ),
            ("/v1/models/%C3%BCn%C3%AFcode", None),
            ("/v1/models/models", Some("models")),
            ("/v1/models/org", None),
            ("/v1/models/org/", None),
            ("/v1/models//org/mu", Some("org/mu")),
            ("/v1/models/org/mu/", Some("org/mu")),
            ("/v1/models/org//mu", None),
            ("/v1/models/org%252Fmu", None),
            ("/v1/models/ORG/mu", None),
            ("/v1/models/a/../org/mu", None),
        ];
        for (target, id) in cases {
            let answer = gateway.get(target).await;
            match id {
                Some(id) => assert_eq!(
                    (
                        answer.status,
                        &answer.json()["id"],
                        &answer.json()["object"]
                    ),
                    (200, &json!(id), &json!("model")),
                    "{target}"
                ),
                None => drop(answer.is_error(404, "model_not_found")),
            }
        }
    });
}

#[test]
fn head_is_get_without_the_body() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .listen("h2c: true")
            .start()
            .await;
        let bearer = format!("Bearer {KEY}");
        let with_key = [("authorization", bearer.as_str())];
        let cases: [(&str, &[(&str, &str)]); 5] = [
            ("/v1/models", &with_key),
            ("/v1/models/m", &with_key),
            ("/v1/models/x", &with_key),
            ("/v1/models", &[]),
            ("/nothing", &with_key),
        ];
        let h2: H2 = gateway.h2c(0).await;
        let mut connection = gateway.connect().await;
        for (target, fields) in cases {
            let (get, head) = (
                request("GET", target, fields, b""),
                request("HEAD", target, fields, b""),
            );
            connection.send(&get).await;
            let full = connection.response().await;
            // On the same connection, so that a body too many would be read as the next head.
            connection.send(&head).await;
            let bare = connection.try_response("HEAD").await.expect("an answer");
            assert_eq!(
                (bare.status, bare.field("content-length")),
                (full.status, full.field("content-length")),
                "{target}"
            );
            assert_eq!(
                bare.field("content-type"),
                full.field("content-type"),
                "{target}"
            );
            let over_h2 = h2.exchange("HEAD", target, fields, b"").await;
            assert_eq!(
                (over_h2.status, over_h2.end, over_h2.body.len()),
                (full.status, Some(End::Whole), 0),
                "{target}"
            );
        }
        for line in gateway
            .lines()
            .iter()
            .filter(|line| line["method"] == "HEAD")
        {
            assert_eq!(line["bytes_out"], 0, "{line}");
        }
    });
}

#[test]
fn a_fallback_serves_only_whom_it_is_visible_to() {
    run(async {
        let (main, spare) = (Mock::start().await, Mock::start().await);
        main.always(Script::error(500, "out of order"));
        spare.always(Script::answer("from the spare"));
        let catalog = Catalog::new()
            .account("a", &main)
            .account("a2", &main)
            .account("b", &spare)
            .model_with("fast", &["a"], "fallbacks: [slow]")
            .model_with("fast2", &["a2"], "fallbacks: [slow], aliases: [quick]")
            .model_with("slow", &["b=theirs"], "aliases: [tardy]")
            .caller("narrow", NARROW, "models: [\"fast*\"]");
        let gateway = Gateway::start(catalog).await;
        assert_eq!(
            ids(&gateway.raw(get("/v1/models", NARROW)).await),
            ["fast", "fast2", "quick"]
        );
        // Nobody is served by a model that he does not see.
        let refused = gateway.raw(post_as(NARROW, &chat("fast"))).await;
        assert!(refused.status >= 500, "{}", refused.text());
        assert_eq!(spare.connections(), 0);
        assert!(!refused.text().contains("slow"), "{}", refused.text());
        // The answer names what was asked for; a header names who served.
        let served = gateway.post(&chat("quick")).await;
        assert_eq!(
            (
                served.status,
                served.content().as_str(),
                &served.json()["model"]
            ),
            (200, "from the spare", &json!("quick"))
        );
        assert_eq!(served.field("x-portcullis-model"), Some("slow"));
        let line = gateway.line_of(&served).await;
        assert_eq!(
            (&line["model"], &line["account"], &line["upstream_model"]),
            (&json!("fast2"), &json!("b"), &json!("theirs")),
            "{line}"
        );
        let direct = gateway.post(&chat("tardy")).await;
        assert_eq!(
            (&direct.json()["model"], direct.field("x-portcullis-model")),
            (&json!("tardy"), None)
        );
    });
}

#[test]
fn a_list_goes_with_its_catalog() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        assert_eq!(ids(&gateway.get("/v1/models").await), ["m"]);
        gateway.swap(Catalog::over(&mock).model("n", &["a"])).await;
        assert_eq!(ids(&gateway.get("/v1/models").await), ["m", "n"]);
    });
}

/// Each format has a path of its own, or headers by which its clients are known.
#[test]
fn three_formats_share_a_path() {
    run(async {
        let mock = Mock::start().await;
        let traits = |more| format!("{{ account: a, model: up, traits: {{ {more} }} }}");
        let known = traits("context: 200000, max_output: 8192, thinking: budget");
        let less = "{ account: b, traits: { context: 9, max_output: 4096, thinking: effort } }";
        let catalog = Catalog::new()
            .account("a", &mock)
            .account("b", &mock)
            .model_of("both", &[&known, less], "aliases: [also]")
            .model("plain", &["a"])
            .caller("none", "sk-CaNaRy-caller-none", "models: []");
        let gateway = Gateway::start(catalog).await;
        let ask = async |target: &str, fields: &[(&str, &str)]| {
            gateway.raw(request("GET", target, fields, b"")).await
        };
        let bearer = format!("Bearer {KEY}");
        let anthropic = [("anthropic-version", "2023-06-01"), ("x-api-key", KEY)];
        let list = ask("/v1/models?limit=1000", &anthropic).await;
        let created = "2026-01-01T00:00:00.000Z";
        let both = |id: &str| {
            json!({"type": "model", "id": id, "display_name": id, "created_at": created, "lifecycle": "active",
                "max_input_tokens": 9, "max_tokens": 4096, "capabilities": null})
        };
        let plain = json!({"type": "model", "id": "plain", "display_name": "plain", "created_at": created, "lifecycle": "active",
            "max_input_tokens": null, "max_tokens": null, "capabilities": null});
        assert_eq!(
            list.json(),
            json!({"data": [both("also"), both("both"), plain], "has_more": false, "first_id": "also", "last_id": "plain"})
        );
        assert_eq!(list.field("request-id"), list.field("x-request-id"));
        assert_eq!(
            ask("/v1/models/also", &anthropic).await.json(),
            both("also")
        );
        // The first that is there decides.
        let all = [
            anthropic[0],
            ("x-goog-api-key", KEY),
            ("authorization", &bearer),
        ];
        assert_eq!(ask("/v1/models", &all).await.json()["has_more"], false);

        let methods = json!(["generateContent"]);
        let both = |id: &str| {
            json!({"name": format!("models/{id}"), "displayName": id, "inputTokenLimit": 9, "outputTokenLimit": 4096,
                "supportedGenerationMethods": methods, "thinking": true})
        };
        let plain = json!({"name": "models/plain", "displayName": "plain", "supportedGenerationMethods": methods});
        let expected = json!({"models": [both("also"), both("both"), plain]});
        let by_client = [
            ("authorization", bearer.as_str()),
            ("x-goog-api-client", "google-genai-sdk/3.1.0"),
        ];
        let by_query = format!("/v1/models?pageSize=50&key={KEY}");
        for (target, fields) in [
            (
                "/v1beta/models?pageSize=50",
                &[("authorization", bearer.as_str())][..],
            ),
            ("/v1beta/models", &[("x-goog-api-key", KEY)]),
            // An empty key in the query is none.
            ("/v1beta/models?key=", &[("x-goog-api-key", KEY)]),
            ("/v1/models", &[("x-goog-api-key", KEY)]),
            ("/models", &[("x-goog-api-key", KEY)]),
            ("/v1/models", &by_client),
            (&by_query, &[]),
        ] {
            assert_eq!(
                ask(target, fields).await.json(),
                expected,
                "{target} {fields:?}"
            );
        }
        for target in [
            "/v1beta/models/both",
            "/v1beta/models/models%2Fboth",
            "/v1/models/models/both",
        ] {
            assert_eq!(
                ask(target, &[("x-goog-api-key", KEY)]).await.json(),
                both("both"),
                "{target}"
            );
        }
        // A key alone chooses nothing.
        for name in ["x-api-key", "api-key"] {
            assert_eq!(
                ids(&ask("/v1/models", &[(name, KEY)]).await),
                ["also", "both", "plain"]
            );
        }
        // Who may use nothing has a list of his own, in each format.
        let key = "sk-CaNaRy-caller-none";
        let none = ask(
            "/v1/models",
            &[("anthropic-version", "x"), ("x-api-key", key)],
        )
        .await;
        assert_eq!(
            none.json(),
            json!({"data": [], "has_more": false, "first_id": null, "last_id": null})
        );
        assert_eq!(
            ask("/v1beta/models", &[("x-goog-api-key", key)])
                .await
                .json(),
            json!({"models": []})
        );
        assert_eq!(
            ids(&ask("/v1/models", &[("x-api-key", key)]).await),
            [""; 0]
        );
    });
}

#[test]
fn lists_tell_only_written_facts_of_unknown_models() {
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: anthropic")
            .model("claude-sonnet-4-5", &["a"])
            .model("claude-next", &["a"])
            .model_of(
                "claude-said",
                &["{ account: a, traits: { max_output: 9000 } }"],
                "",
            );
        let gateway = Gateway::start(catalog).await;
        for (id, most, thinks) in [
            ("claude-sonnet-4-5", json!(64_000), json!(true)),
            ("claude-next", Value::Null, Value::Null),
            ("claude-said", json!(9000), Value::Null),
        ] {
            let ask = async |name: &str| {
                let fields = [(name, "x"), ("authorization", &format!("Bearer {KEY}"))];
                gateway
                    .raw(request("GET", &format!("/v1/models/{id}"), &fields, b""))
                    .await
                    .json()
            };
            assert_eq!(ask("anthropic-version").await["max_tokens"], most, "{id}");
            let shown = ask("x-goog-api-client").await;
            assert_eq!(
                (&shown["outputTokenLimit"], &shown["thinking"]),
                (&most, &thinks),
                "{id}"
            );
        }
    });
}

#[test]
fn trouble_with_a_list_has_its_format() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let ask = async |target: &str, fields: &[(&str, &str)]| {
            let answer = gateway.raw(request("GET", target, fields, b"")).await;
            (
                answer.status,
                answer.json(),
                answer.field("x-should-retry").map(str::to_owned),
            )
        };
        let version = ("anthropic-version", "2023-06-01");
        let google = ("x-goog-api-client", "google-genai-sdk/3.1.0");
        let (status, error, _) = ask("/v1/models/none", &[version, ("x-api-key", KEY)]).await;
        assert_eq!(
            (status, &error["type"], &error["error"]["type"]),
            (404, &json!("error"), &json!("not_found_error"))
        );
        let (status, error, retry) = ask("/v1/models", &[version, ("x-api-key", "no")]).await;
        assert_eq!(
            (status, &error["error"]["type"], retry.as_deref()),
            (401, &json!("authentication_error"), Some("false"))
        );
        for target in ["/v1beta/models/none", "/v1/models/none"] {
            let (status, error, _) = ask(target, &[("x-goog-api-key", KEY)]).await;
            assert_eq!(
                (status, &error["error"]["status"]),
                (404, &json!("NOT_FOUND")),
                "{target}"
            );
        }
        for (target, fields) in [
            ("/v1beta/models?key=no", &[][..]),
            ("/v1/models?key=no", &[]),
            ("/v1/models", &[google]),
        ] {
            let (status, error, retry) = ask(target, fields).await;
            assert_eq!(
                (status, &error["error"]["status"]),
                (401, &json!("UNAUTHENTICATED")),
                "{target}"
            );
            assert_eq!(retry.as_deref(), Some("false"));
        }
        // So is a path at which nothing is.
        let (status, error, _) = ask("/v1/files", &[version]).await;
        assert_eq!((status, &error["type"]), (404, &json!("error")));
        let (status, error, _) = ask("/v1/files", &[google]).await;
        assert_eq!(
            (status, &error["error"]["status"]),
            (404, &json!("NOT_FOUND"))
        );
        let (status, error, _) = ask("/v1/models/none", &[("x-api-key", KEY)]).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (404, &json!("model_not_found"))
        );
    });
}
