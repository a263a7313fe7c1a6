//! Vectors of texts: what callers of each format get from servers of each dialect.

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{self, Response};
use crate::support::{Catalog, Gateway, Mock, Script, run};

async fn ask(gateway: &Gateway, path: &str, body: &Value, more: &[(&str, &str)]) -> Response {
    let key = format!("Bearer {KEY}");
    let mut fields = vec![
        ("authorization", key.as_str()),
        ("content-type", "application/json"),
    ];
    fields.extend_from_slice(more);
    gateway
        .raw(client::request(
            "POST",
            path,
            &fields,
            body.to_string().as_bytes(),
        ))
        .await
}

/// Two texts, and the same for Gemini's door.
fn two() -> [Value; 2] {
    let one = |text: &str| json!({"model": "models/m", "content": {"parts": [{"text": text}]}});
    [
        json!({"model": "m", "input": ["one", "two"]}),
        json!({"requests": [one("one"), one("two")]}),
    ]
}

const OPENAI: &str = "/v1/embeddings";
const GEMINI: &str = "/v1beta/models/m:batchEmbedContents";

#[test]
fn each_dialect_gives_vectors_to_callers_of_each_format() {
    run(async {
        let mock = Mock::start().await;
        mock.by(|request| {
            let answer = match request.target.as_str() {
                "/v1/embeddings" => json!({"object": "list", "model": "up", "data": [
                    {"object": "embedding", "index": 0, "embedding": [0.5, 1]},
                    {"object": "embedding", "index": 1, "embedding": [0.25, 2]}],
                    "usage": {"prompt_tokens": 4, "total_tokens": 4}}),
                "/models/up:batchEmbedContents" => {
                    json!({"embeddings": [{"values": [0.5, 1]}, {"values": [0.25, 2]}],
                    "usageMetadata": {"promptTokenCount": 4}})
                }
                "/embed" => json!({"embeddings": {"float": [[0.5, 1], [0.25, 2]]},
                    "meta": {"billed_units": {"input_tokens": 4}}}),
                "/model/cohere.embed-v4%3A0/invoke" => {
                    json!({"embeddings": {"float": [[0.5, 1], [0.25, 2]]}})
                }
                "/api/embed" => {
                    json!({"embeddings": [[0.5, 1], [0.25, 2]], "prompt_eval_count": 4})
                }
                _ => return Script::error(404, "no such path"),
            };
            Script::json(200, &answer)
        });
        for (dialect, more, target) in [
            ("openai", "", "a=up"),
            ("gemini", "", "a=up"),
            ("cohere", "", "a=up"),
            ("bedrock", ", region: eu-west-1", "a=cohere.embed-v4:0"),
            ("ollama", "", "a=up"),
        ] {
            let base = if dialect == "openai" {
                format!("http://{}/v1", mock.address())
            } else {
                format!("http://{}", mock.address())
            };
            let catalog = Catalog::new()
                .account_at("a", &base, &format!("dialect: {dialect}{more}"))
                .model("m", &[target]);
            let gateway = Gateway::start(catalog).await;
            let [texts, contents] = two();
            let answer = ask(&gateway, OPENAI, &texts, &[]).await;
            assert_eq!(answer.status, 200, "{dialect}: {}", answer.text());
            let told = answer.json();
            assert_eq!(told["model"], "m");
            let vectors: Vec<_> = told["data"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|one| &one["embedding"])
                .collect();
            assert_eq!(vectors, [&json!([0.5, 1]), &json!([0.25, 2])], "{dialect}");
            let counted = dialect != "bedrock";
            // Nobody counted the six bytes.
            let tokens = if counted { 4 } else { 2 };
            assert_eq!(
                told["usage"],
                json!({"prompt_tokens": tokens, "total_tokens": tokens}),
                "{dialect}"
            );
            let line = gateway.line_of(&answer).await;
            let usage = if counted { "reported" } else { "estimated" };
            let expected = json!(["embeddings", "ok", tokens, 0, usage]);
            let names = [
                "door",
                "outcome",
                "prompt_tokens",
                "completion_tokens",
                "usage",
            ];
            assert_eq!(
                json!(names.map(|name| line[name].clone())),
                expected,
                "{line}"
            );
            // What was asked for in base64 comes in base64.
            let mut packed = texts.clone();
            packed["encoding_format"] = json!("base64");
            let told = ask(&gateway, OPENAI, &packed, &[]).await.json();
            assert_eq!(told["data"][1]["embedding"], "AACAPgAAAEA=", "{dialect}");
            let told = ask(&gateway, GEMINI, &contents, &[]).await.json();
            assert_eq!(
                told["embeddings"],
                json!([{"values": [0.5, 1]}, {"values": [0.25, 2]}]),
                "{dialect}"
            );
        }
    });
}

#[test]
fn the_purpose_of_vectors_comes_from_catalog_or_header() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::json(
            200,
            &json!({"embeddings": {"float": [[1], [2]]}}),
        ));
        let catalog = Catalog::new()
            .account_at(
                "a",
                &format!("http://{}", mock.address()),
                "dialect: cohere",
            )
            .model_of(
                "m",
                &["{account: a, model: embed-v4.0, traits: {input_type: clustering}}"],
                "",
            );
        let gateway = Gateway::start(catalog).await;
        let [texts, _] = two();
        let sent = || mock.requests().last().expect("a request").json()["input_type"].clone();
        assert_eq!(ask(&gateway, OPENAI, &texts, &[]).await.status, 200);
        assert_eq!(sent(), "clustering");
        let header = [("x-portcullis-input-type", "search_query")];
        assert_eq!(ask(&gateway, OPENAI, &texts, &header).await.status, 200);
        assert_eq!(sent(), "search_query");
        let refused = ask(
            &gateway,
            OPENAI,
            &texts,
            &[("x-portcullis-input-type", "music")],
        )
        .await;
        assert_eq!(
            (refused.status, &refused.json()["error"]["param"]),
            (400, &json!("x-portcullis-input-type"))
        );
        let mut tokens = texts.clone();
        tokens["input"] = json!([[1, 2], [3]]);
        let refused = ask(&gateway, OPENAI, &tokens, &[]).await;
        assert_eq!(
            (refused.status, &refused.json()["error"]["param"]),
            (400, &json!("input[0]")),
            "{}",
            refused.text()
        );
        let mut named = texts.clone();
        named["user"] = json!("u");
        let answer = ask(&gateway, OPENAI, &named, &[]).await;
        assert_eq!(answer.field("x-portcullis-dropped"), Some("user"));
    });
}

#[test]
fn the_catalogs_word_also_reaches_servers_of_openais_format() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::json(
            200,
            &json!({"data": [{"embedding": [1]}, {"embedding": [2]}]}),
        ));
        let catalog = Catalog::new()
            .account("a", &mock)
            .model("plain", &["a=up"])
            .model_of(
                "m",
                &["{account: a, model: up, traits: {input_type: passage}}"],
                "",
            );
        let gateway = Gateway::start(catalog).await;
        let [texts, _] = two();
        let sent = || mock.requests().last().expect("a request").json()["input_type"].clone();
        let answer = ask(&gateway, OPENAI, &texts, &[]).await;
        assert_eq!(
            (answer.status, answer.field("x-portcullis-dropped")),
            (200, None)
        );
        assert_eq!(
            sent(),
            "passage",
            "the server's word, and not the gateway's"
        );
        for (field, value) in [
            ("input_type", json!("query")),
            ("input_type", Value::Null),
            ("model", json!("plain")),
        ] {
            let mut other = texts.clone();
            other[field] = value.clone();
            assert_eq!(ask(&gateway, OPENAI, &other, &[]).await.status, 200);
            assert_eq!(sent(), if field == "model" { Value::Null } else { value });
        }
    });
}

#[test]
fn half_an_answer_brings_no_other_model_in() {
    run(async {
        let [half, whole, other] = [
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        ];
        let list = |numbers: &[u32]| {
            let data = numbers
                .iter()
                .map(|number| json!({"index": number, "embedding": [number]}));
            Script::json(
                200,
                &json!({"data": data.collect::<Vec<_>>(), "usage": {"prompt_tokens": 2}}),
            )
        };
        half.always(list(&[0]));
        whole.always(list(&[1, 0]));
        other.always(list(&[0, 1]));
        let catalog = Catalog::new()
            .account("a", &half)
            .account("b", &whole)
            .account("c", &other)
            .model_with("m", &["a=up", "b=up"], "strategy: priority")
            .model_with("alone", &["a=up"], "fallbacks: [other]")
            .model("other", &["c=up"]);
        let gateway = Gateway::start(catalog).await;
        let [texts, _] = two();
        let told = ask(&gateway, OPENAI, &texts, &[]).await.json();
        let vectors: Vec<_> = told["data"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| &one["embedding"])
            .collect();
        assert_eq!(
            vectors,
            [&json!([0]), &json!([1])],
            "they come in the order of the texts"
        );
        assert_eq!((half.count(), whole.count()), (1, 1));
        let mut alone = texts.clone();
        alone["model"] = json!("alone");
        let refused = ask(&gateway, OPENAI, &alone, &[]).await;
        assert_eq!(refused.status, 502, "{}", refused.text());
        assert_eq!(
            other.count(),
            0,
            "vectors of another model cannot be compared"
        );
    });
}
