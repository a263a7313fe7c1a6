//! What endpoints besides chat cost, what is not asked because nobody knows its price, and the
//! paths of Azure's clients.

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{self, Response};
use crate::support::{Catalog, Gateway, Mock, Script, chat, run};

async fn ask(gateway: &Gateway, path: &str, body: &Value) -> Response {
    let bearer = format!("Bearer {KEY}");
    let fields = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    gateway
        .raw(client::request(
            "POST",
            path,
            &fields,
            body.to_string().as_bytes(),
        ))
        .await
}

/// An upstream that paints as many pictures as it is asked for, and answers everything else.
async fn painter() -> Mock {
    let mock = Mock::start().await;
    mock.by(|request| {
        if request.target != "/v1/images/generations" {
            return Script::answer("hello");
        }
        let count = request.json()["n"].as_u64().unwrap_or(1) as usize;
        Script::json(
            200,
            &json!({"created": 1, "data": vec![json!({"b64_json": "AAAA"}); count]}),
        )
    });
    mock
}

#[test]
fn pictures_cost_what_they_cost_in_every_book() {
    run(async {
        let mock = painter().await;
        let caller = "limits: { usd_per_day: 0.2 }";
        let catalog = Catalog::new()
            .without_acme()
            .caller("acme", KEY, caller)
            .account("a", &mock);
        let price = "price: { per_image: 0.04, per_request: 0.001 }";
        let gateway = Gateway::start(catalog.model_with("m", &["a=up"], price)).await;
        let images = |n: u64| json!({"model": "m", "prompt": "a cat", "n": n});
        let path = "/v1/images/generations";
        // The reservation has all pictures that are asked for: this is more than the whole limit.
        let refused = ask(&gateway, path, &images(5)).await;
        refused.is_error(429, "insufficient_quota");
        assert_eq!(mock.requests().len(), 0);
        let answer = ask(&gateway, path, &images(3)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            (&line["images"], &line["cost_usd"]),
            (&json!(3), &json!(0.121)),
            "{line}"
        );
        ask(&gateway, path, &images(2))
            .await
            .is_error(429, "insufficient_quota");
        let one = ask(&gateway, path, &json!({"model": "m", "prompt": "a dog"})).await;
        assert_eq!(one.status, 200, "{}", one.text());
        assert_eq!(gateway.line_of(&one).await["cost_usd"], json!(0.041));
        let (status, limits) = gateway.admin("/limits?caller=acme");
        assert_eq!(status, 200);
        assert!(limits.contains("0.162"), "{limits}");
        let (status, usage) = gateway.admin("/usage?by=model");
        let usage: Value = serde_json::from_str(&usage).unwrap();
        assert_eq!(
            (
                status,
                &usage["total"]["images"],
                &usage["total"]["cost_usd"]
            ),
            (200, &json!(4), &json!("0.162"))
        );
    });
}

#[test]
fn pictures_that_are_charged_by_tokens_are_never_free() {
    run(async {
        let mock = Mock::start().await;
        let caller = "limits: { usd_per_day: 1 }";
        let catalog = Catalog::new()
            .without_acme()
            .caller("acme", KEY, caller)
            .account("a", &mock);
        let price = "price: { input: 0, output: 40, per_image: 0 }";
        let gateway = Gateway::start(catalog.model_with("m", &["a=up"], price)).await;
        let ask = async |n: u64| {
            ask(
                &gateway,
                "/v1/images/generations",
                &json!({"model": "m", "prompt": "a cat", "n": n}),
            )
            .await
        };
        let picture = json!({"created": 1, "data": [{"b64_json": "AA"}, {"b64_json": "AA"}]});
        for (usage, cost, source) in [
            (json!(null), 2.0 * 6_240.0 * 40e-6, "estimated"),
            (
                json!({"input_tokens": 5, "output_tokens": 1_000, "total_tokens": 1_005}),
                0.04,
                "reported",
            ),
        ] {
            let mut told = picture.clone();
            told["usage"] = usage;
            mock.push(Script::json(200, &told));
            let answer = ask(2).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let line = gateway.line_of(&answer).await;
            assert!(
                (line["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-9,
                "{cost}: {line}"
            );
            assert_eq!(
                (&line["usage"], &line["images"]),
                (&json!(source), &json!(2)),
                "{line}"
            );
            // Three more pictures may have 6,240 tokens each: there is no money left for so many.
            ask(3).await.is_error(429, "insufficient_quota");
        }
    });
}

#[test]
fn models_without_price_need_unlimited_money() {
    run(async {
        let mock = painter().await;
        let catalog = Catalog::new()
            .without_acme()
            .caller("acme", KEY, "limits: { usd_per_month: 10 }")
            .account("a", &mock)
            .model_with("talker", &["a=up"], "price: { input: 1, output: 2 }")
            .model_with("painter", &["a=brush"], "price: { per_image: 0.04 }");
        let gateway = Gateway::start(catalog).await;
        let picture = |model: &str| json!({"model": model, "prompt": "a cat"});
        for _ in 0..2 {
            let refused = ask(&gateway, "/v1/images/generations", &picture("talker")).await;
            let error = refused.is_error(403, "price_unknown");
            assert!(
                error["message"]
                    .as_str()
                    .unwrap()
                    .contains("kind of endpoint `images`"),
                "{error}"
            );
            assert_eq!(gateway.line_of(&refused).await["outcome"], "refused");
        }
        ask(&gateway, "/v1/chat/completions", &chat("painter"))
            .await
            .is_error(403, "price_unknown");
        assert_eq!(mock.requests().len(), 0, "nothing was sent");
        let unpriced = json!([
            {"account": "a", "endpoint": "chat", "model": "painter", "requests": 1, "upstream_model": "brush"},
            {"account": "a", "endpoint": "images", "model": "talker", "requests": 2, "upstream_model": "up"},
        ]);
        assert_eq!(gateway.status()["unpriced"], unpriced);
        assert_eq!(
            ask(&gateway, "/v1/images/generations", &picture("painter"))
                .await
                .status,
            200
        );
        assert_eq!(
            ask(&gateway, "/v1/chat/completions", &chat("talker"))
                .await
                .status,
            200
        );
        // Without a limit in money the same is asked, and its cost is unknown.
        let catalog = Catalog::new().account("a", &mock).model_with(
            "talker",
            &["a=up"],
            "price: { input: 1, output: 2 }",
        );
        gateway.swap(catalog).await;
        let answer = ask(&gateway, "/v1/images/generations", &picture("talker")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(gateway.line_of(&answer).await["cost_usd"], Value::Null);
        assert_eq!(
            gateway.status()["unpriced"],
            json!([]),
            "the new catalog may have the prices"
        );
    });
}

#[test]
fn azures_paths_stand_for_those_of_openai() {
    run(async {
        let mock = painter().await;
        let gateway =
            Gateway::start(Catalog::new().account("a", &mock).model("m", &["a=up"])).await;
        let post = async |path: &str, body: &Value| {
            let fields = [("api-key", KEY), ("content-type", "application/json")];
            gateway
                .raw(client::request(
                    "POST",
                    path,
                    &fields,
                    body.to_string().as_bytes(),
                ))
                .await
        };
        let mut silent = chat("m");
        silent.as_object_mut().unwrap().remove("model");
        for (path, body) in [
            (
                "/openai/deployments/m/chat/completions?api-version=2024-10-21",
                &silent,
            ),
            ("/openai/deployments/m/chat/completions", &chat("m")),
            (
                "/openai/v1/chat/completions?api-version=preview",
                &chat("m"),
            ),
        ] {
            let answer = post(path, body).await;
            assert_eq!(
                (answer.status, &answer.json()["model"]),
                (200, &json!("m")),
                "{path}: {}",
                answer.text()
            );
            let sent = mock.requests().last().expect("a request").json();
            assert_eq!(
                (&sent["model"], &sent["messages"]),
                (&json!("up"), &body["messages"]),
                "{path}"
            );
            assert_eq!(gateway.line_of(&answer).await["door"], "chat");
        }
        let seen = mock.requests().len();
        let images = post(
            "/openai/deployments/m/images/generations?api-version=1",
            &json!({"prompt": "a cat"}),
        )
        .await;
        assert_eq!(images.status, 200, "{}", images.text());
        assert_eq!(mock.requests().len(), seen + 1);
        let other = post("/openai/deployments/other/chat/completions", &chat("m")).await;
        assert_eq!(other.is_error(400, "invalid_value")["param"], "model");
        post("/openai/deployments/other/chat/completions", &silent)
            .await
            .is_error(404, "model_not_found");
        for path in [
            "/openai/deployments/m/assistants",
            "/openai/v1/messages",
            "/openai/deployments/m/responses",
        ] {
            post(path, &silent).await.is_error(404, "unknown_url");
        }
        assert_eq!(mock.requests().len(), seen + 1);
        let fields = [("api-key", KEY)];
        let models = gateway
            .raw(client::request(
                "GET",
                "/openai/models?api-version=1",
                &fields,
                b"",
            ))
            .await;
        assert_eq!(models.json()["data"][0]["id"], "m");
    });
}

#[test]
fn lists_say_what_models_are_for() {
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::new()
            .account("a", &mock)
            .account_with("c", &mock, "dialect: anthropic")
            .model("text-embedding-3-small", &["a"])
            .model("voice", &["a=tts-1-hd"])
            .model_with("own", &["a"], "kind: rerank")
            .model("mixed", &["a=tts-1", "a=whisper-1"])
            .model("unknown", &["a"])
            .model("talker", &["c"]);
        let gateway = Gateway::start(catalog).await;
        let list = gateway.get("/v1/models").await.json();
        let kinds = |id: &str| {
            let found = list["data"]
                .as_array()
                .unwrap()
                .iter()
                .find(|model| model["id"] == id);
            found.unwrap()["kinds"].clone()
        };
        assert_eq!(kinds("text-embedding-3-small"), json!(["embedding"]));
        assert_eq!(
            [kinds("voice"), kinds("own"), kinds("talker")],
            [json!(["speech"]), json!(["rerank"]), json!(["chat"])]
        );
        assert_eq!(
            [kinds("mixed"), kinds("unknown")],
            [Value::Null, Value::Null],
            "nothing is guessed"
        );
        let google = gateway
            .get("/v1beta/models/text-embedding-3-small")
            .await
            .json();
        assert_eq!(
            google["supportedGenerationMethods"],
            json!(["embedContent", "batchEmbedContents"])
        );
    });
}

#[test]
fn the_demo_answers_at_every_door() {
    run(async {
        let catalog = "accounts: { d: { dialect: demo } }\nmodels: { demo: { targets: [{ account: d }] } }\n\
                       callers: { acme: { limits: { usd_per_day: 1 }, keys: { prod: { hash: \"HASH\" } } } }\n";
        let hash = crate::support::canary::hash(KEY);
        let gateway = Gateway::start(catalog.replace("HASH", &hash)).await;
        for (path, body, pointer) in [
            ("/v1/completions", json!({"prompt": "x"}), "/choices/0/text"),
            (
                "/v1/rerank",
                json!({"query": "a", "documents": ["b", "a"]}),
                "/results/0/relevance_score",
            ),
            (
                "/v1/moderations",
                json!({"input": "harmful"}),
                "/results/0/categories/violence",
            ),
            (
                "/v1/images/generations",
                json!({"prompt": "x"}),
                "/data/0/b64_json",
            ),
        ] {
            let mut body = body;
            body["model"] = json!("demo");
            let answer = ask(&gateway, path, &body).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            assert!(
                answer.json().pointer(pointer).is_some(),
                "{path}: {}",
                answer.text()
            );
            let line = gateway.line_of(&answer).await;
            assert_eq!(
                (&line["cost_usd"], &line["outcome"]),
                (&json!(0.0), &json!("ok")),
                "{line}"
            );
        }
        let body = json!({"model": "demo", "prompt": "x", "stream": true});
        let stream = ask(&gateway, "/v1/completions", &body).await;
        assert!(
            stream.text().ends_with("data: [DONE]\n\n"),
            "{}",
            stream.text()
        );
        assert_eq!(gateway.line_of(&stream).await["outcome"], "ok");
    });
}
