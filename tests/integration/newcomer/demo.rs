//! The demo at every door, with the catalog that ships: what a newcomer sees, and how each failure
//! looks.

use serde_json::{Value, json};

use crate::support::client::{self, Response};
use crate::support::{Catalog, Gateway, root, run};

const DEMO_KEY: &str = "sk-demo-portcullis-published";

/// A front door as its clients ask at it, and the words with which its broken streams end.
struct Door {
    name: &'static str,
    key_header: &'static str,
    /// The name that a client of it asks for by itself.
    model: &'static str,
    broken: &'static [&'static str],
}

const DOORS: [Door; 4] = [
    Door {
        name: "chat",
        key_header: "authorization",
        model: "gpt-5",
        broken: &["\"error\"", "upstream_truncated"],
    },
    Door {
        name: "messages",
        key_header: "x-api-key",
        model: "claude-opus-9",
        broken: &["event: error", "api_error"],
    },
    Door {
        name: "responses",
        key_header: "authorization",
        model: "gpt-5",
        broken: &["response.failed"],
    },
    Door {
        name: "gemini",
        key_header: "x-goog-api-key",
        model: "gemini-9-pro",
        broken: &["\"error\""],
    },
];

impl Door {
    /// Asks a model with these words and tools.
    async fn ask(
        &self,
        gateway: &Gateway,
        model: &str,
        stream: bool,
        (words, tools): (&str, &[&str]),
    ) -> Response {
        gateway
            .raw(self.request(model, stream, (words, tools)))
            .await
    }

    fn request(&self, model: &str, stream: bool, (words, tools): (&str, &[&str])) -> Vec<u8> {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
        let tool = |name: &&str| match self.name {
            "chat" => json!({"type": "function", "function": {"name": name, "parameters": schema}}),
            "messages" => json!({"name": name, "input_schema": schema}),
            "responses" => json!({"type": "function", "name": name, "parameters": schema}),
            _ => json!({"name": name, "parametersJsonSchema": schema}),
        };
        let tools: Vec<Value> = tools.iter().map(tool).collect();
        let messages = json!([{"role": "user", "content": words}]);
        let (path, body) = match self.name {
            "chat" => (
                "/v1/chat/completions".to_owned(),
                json!({"model": model, "stream": stream, "messages": messages, "tools": tools, "reasoning_effort": "low"}),
            ),
            "messages" => (
                "/v1/messages".to_owned(),
                json!({"model": model, "stream": stream, "messages": messages, "tools": tools, "max_tokens": 3000,
                "thinking": {"type": "enabled", "budget_tokens": 2000}}),
            ),
            "responses" => (
                "/v1/responses".to_owned(),
                json!({"model": model, "stream": stream, "input": words, "tools": tools, "reasoning": {"effort": "low", "summary": "auto"}}),
            ),
            _ => {
                let call = if stream {
                    "streamGenerateContent?alt=sse"
                } else {
                    "generateContent"
                };
                let thinking =
                    json!({"thinkingConfig": {"includeThoughts": true, "thinkingBudget": 1000}});
                let tools = json!([{"functionDeclarations": tools}]);
                (
                    format!("/v1beta/models/{model}:{call}"),
                    json!({"contents": [{"role": "user", "parts": [{"text": words}]}], "tools": tools, "generationConfig": thinking}),
                )
            }
        };
        let key = if self.key_header == "authorization" {
            format!("Bearer {DEMO_KEY}")
        } else {
            DEMO_KEY.to_owned()
        };
        let fields = [
            (self.key_header, key.as_str()),
            ("content-type", "application/json"),
        ];
        client::request("POST", &path, &fields, body.to_string().as_bytes())
    }

    /// The calls of a buffered answer: the names, and the arguments.
    fn calls(&self, answer: &Value) -> Vec<(Value, Value)> {
        let list = match self.name {
            "chat" => &answer["choices"][0]["message"]["tool_calls"],
            "messages" => &answer["content"],
            "responses" => &answer["output"],
            _ => &answer["candidates"][0]["content"]["parts"],
        };
        let of_text =
            |text: &Value| serde_json::from_str(text.as_str().expect("a text")).expect("JSON");
        let call = |item: &Value| match self.name {
            "chat" => Some((
                item["function"]["name"].clone(),
                of_text(&item["function"]["arguments"]),
            )),
            "messages" => {
                (item["type"] == "tool_use").then(|| (item["name"].clone(), item["input"].clone()))
            }
            "responses" => (item["type"] == "function_call")
                .then(|| (item["name"].clone(), of_text(&item["arguments"]))),
            _ => item
                .get("functionCall")
                .map(|call| (call["name"].clone(), call["args"].clone())),
        };
        list.as_array()
            .into_iter()
            .flatten()
            .filter_map(call)
            .collect()
    }
}

fn shipped() -> String {
    std::fs::read_to_string(root().join("conf/catalog.yaml")).expect("conf/catalog.yaml")
}

#[test]
fn the_demo_answers_thinks_and_calls_at_every_door() {
    run(async {
        let gateway = Gateway::start(shipped()).await;
        for door in &DOORS {
            let what = door.name;
            for stream in [false, true] {
                let answer = door.ask(&gateway, door.model, stream, ("hello", &[])).await;
                let text = answer.text();
                assert_eq!(answer.status, 200, "{what}: {text}");
                assert!(
                    text.contains("Portcullis") && text.contains("think"),
                    "{what}: {text}"
                );
                assert_eq!(answer.field("x-portcullis-model"), Some("demo"), "{what}");
                let line = gateway.line_of(&answer).await;
                assert_eq!(
                    (&line["usage"], &line["prompt_tokens"]),
                    (&json!("reported"), &json!(1)),
                    "{what}: {line}"
                );
                assert!(
                    line["completion_tokens"].as_u64() > Some(30),
                    "{what}: {line}"
                );
            }
            let called = door
                .ask(
                    &gateway,
                    "demo",
                    false,
                    ("in parallel", &["get_weather", "bash", "get_time"]),
                )
                .await;
            let expected =
                ["get_weather", "get_time"].map(|name| (json!(name), json!({"city": "demo"})));
            assert_eq!(
                door.calls(&called.json()),
                expected,
                "{what}: {}",
                called.text()
            );
            // Agents have many tools.
            let many = ["Bash", "Read", "Write", "Edit", "web_fetch"];
            assert_eq!(
                door.calls(
                    &door
                        .ask(&gateway, "demo", false, ("hello", &many))
                        .await
                        .json()
                ),
                [],
                "{what}"
            );
            let named = door
                .ask(&gateway, "demo", false, ("call Bash", &many))
                .await;
            assert_eq!(
                door.calls(&named.json()),
                [(json!("Bash"), json!({"city": "echo demo"}))],
                "{what}"
            );
        }
    });
}

#[test]
fn the_demos_thinking_is_signed_where_possible() {
    run(async {
        let gateway = Gateway::start(shipped()).await;
        for door in &DOORS {
            for stream in [false, true] {
                let hello = door
                    .ask(&gateway, "demo", stream, ("hello", &[]))
                    .await
                    .text();
                let called = door
                    .ask(&gateway, "demo", stream, ("call get_time", &["get_time"]))
                    .await
                    .text();
                // Gemini's format has it at calls. Callers of Responses get it only if they ask for
                // it.
                let expected = match door.name {
                    "messages" => [1, 1],
                    "gemini" => [0, 1],
                    _ => [0, 0],
                };
                let sealed = [&hello, &called].map(|answer| answer.matches("pcsealv1").count());
                assert_eq!(sealed, expected, "{}: {hello} {called}", door.name);
            }
        }
        let answer = DOORS[1]
            .ask(&gateway, "demo", false, ("hello", &[]))
            .await
            .json();
        let user = json!({"role": "user", "content": "hello"});
        let messages = json!([user, {"role": "assistant", "content": answer["content"]}, user]);
        let next = json!({"model": "demo", "max_tokens": 100, "messages": messages}).to_string();
        let fields = [
            ("x-api-key", DEMO_KEY),
            ("content-type", "application/json"),
        ];
        let next = gateway
            .raw(client::request(
                "POST",
                "/v1/messages",
                &fields,
                next.as_bytes(),
            ))
            .await;
        assert_eq!(next.status, 200, "{}", next.text());
        assert_eq!(
            next.field("x-portcullis-dropped"),
            Some("messages[].content[].thinking"),
            "the demo reads no thoughts"
        );
    });
}

/// Google's client for Python writes the keywords of a Pydantic model with underscores.
#[test]
fn the_demo_keeps_the_limits_of_googles_schemas() {
    let text = |more: Value| {
        let mut schema = json!({"type": "STRING"});
        schema
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("keywords").clone());
        schema
    };
    let item = json!({"type": "OBJECT", "title": "Item", "property_ordering": ["name", "count", "price"], "required": ["name", "count"],
        "properties": {"name": text(json!({"min_length": 6, "max_length": 9})), "count": {"type": "INTEGER", "minimum": 2.0, "maximum": 5.0},
            "price": {"type": "NUMBER", "nullable": true}}});
    let order = json!({"type": "OBJECT", "property_ordering": ["items", "color", "when", "which", "min_items"],
        "required": ["items", "color", "when", "which", "min_items"],
        "properties": {"items": {"type": "ARRAY", "items": item, "min_items": 2, "max_items": 4}, "color": text(json!({"enum": ["red", "blue"]})),
            "when": text(json!({"format": "date-time"})), "which": {"any_of": [{"type": "INTEGER"}, {"type": "STRING"}]},
            "min_items": {"type": "BOOLEAN"}}});
    let made = json!({"items": [{"name": "demode", "count": 2}, {"name": "demode", "count": 2}], "color": "red",
        "when": "2026-01-01T00:00:00Z", "which": 1, "min_items": true});
    run(async move {
        let gateway = Gateway::start(shipped()).await;
        let fields = [
            ("x-goog-api-key", DEMO_KEY),
            ("content-type", "application/json"),
        ];
        let ask = async |call: &str, config: Value| {
            let body = json!({"contents": [{"role": "user", "parts": [{"text": "order"}]}], "generationConfig": config});
            let path = format!("/v1beta/models/demo:{call}");
            gateway
                .raw(client::request(
                    "POST",
                    &path,
                    &fields,
                    body.to_string().as_bytes(),
                ))
                .await
        };
        for name in ["responseSchema", "response_schema"] {
            let config = json!({"responseMimeType": "application/json", name: order});
            let answer = ask("generateContent", config.clone()).await;
            let text = answer.json()["candidates"][0]["content"]["parts"][0]["text"].clone();
            let read: Value = serde_json::from_str(text.as_str().expect("a text"))
                .unwrap_or_else(|_| panic!("{text}"));
            assert_eq!(read, made, "{name}");
            assert_eq!(answer.field("x-portcullis-dropped"), None, "{name}");
            let stream = ask("streamGenerateContent?alt=sse", config).await.text();
            assert!(
                stream.contains("demode") && !stream.contains("cannot"),
                "{stream}"
            );
        }
        // JSON Schema has no such keywords.
        let config = json!({"responseMimeType": "application/json", "responseJsonSchema": {"type": "array", "min_items": 2}});
        let answer = ask("generateContent", config).await.text();
        assert!(answer.contains("cannot make up an answer"), "{answer}");
    });
}

#[test]
fn the_demo_counts_the_tokens_that_its_answers_report() {
    run(async {
        let gateway = Gateway::start(shipped()).await;
        let answer = DOORS[1]
            .ask(
                &gateway,
                "demo",
                false,
                ("three short words", &["get_time"]),
            )
            .await
            .json();
        let messages = json!({"model": "demo", "messages": [{"role": "user", "content": "three short words"}]});
        let contents = json!({"contents": [{"parts": [{"text": "three short words"}]}]});
        let counted = async |path: &str, body: &Value| {
            let fields = [
                ("x-api-key", DEMO_KEY),
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
                .json()
        };
        assert_eq!(
            counted("/v1/messages/count_tokens", &messages).await,
            json!({"input_tokens": 3})
        );
        assert_eq!(answer["usage"]["input_tokens"], 3, "{answer}");
        assert_eq!(
            counted("/v1beta/models/demo:countTokens", &contents).await,
            json!({"totalTokens": 3})
        );
    });
}

#[test]
fn each_demo_failure_looks_right_at_its_door() {
    run(async {
        for door in &DOORS {
            // Each door with a gateway of its own, so that no target rests because of another door.
            let gateway = Gateway::start(shipped()).await;
            let (what, hello) = (door.name, ("hello", &[][..]));
            let down = door.ask(&gateway, "demo-down", true, hello).await;
            assert_eq!(
                (down.status, down.field("x-portcullis-model")),
                (200, Some("demo")),
                "{what}: {}",
                down.text()
            );
            let attempts = gateway.line_of(&down).await["attempts"].to_string();
            assert!(
                attempts.contains("unreachable") && attempts.contains("demo-down"),
                "{what}: {attempts}"
            );

            let busy = door.ask(&gateway, "demo-429", true, hello).await;
            assert_eq!(
                (busy.status, busy.field("retry-after")),
                (429, Some("5")),
                "{what}: {}",
                busy.text()
            );
            // Now the target rests, and nobody asks it.
            let again = door.ask(&gateway, "demo-429", false, hello).await;
            assert_eq!(again.status, 429, "{what}: {}", again.text());
            assert_eq!(
                gateway.line_of(&again).await["attempts"],
                json!([]),
                "{what}"
            );
            // The demo itself does not rest.
            assert_eq!(
                door.ask(&gateway, "demo", true, hello).await.status,
                200,
                "{what}"
            );

            let broken = door.ask(&gateway, "demo-broken", true, hello).await;
            let text = broken.text();
            assert_eq!(broken.status, 200, "{what}: {text}");
            assert!(
                door.broken.iter().all(|words| text.contains(words)) && text.contains("think"),
                "{what}: {text}"
            );
            assert!(
                !text.contains("[DONE]") && !text.contains("message_stop"),
                "{what}: {text}"
            );
            let whole = door.ask(&gateway, "demo-broken", false, hello).await;
            let failed = if door.name == "responses" { 429 } else { 502 };
            assert_eq!(whole.status, failed, "{what}: {}", whole.text());
        }
    });
}

#[test]
fn the_slow_demo_shows_signs_of_life() {
    run(async {
        let server = "timeouts: { commit_after: 100ms, comment: 1s }";
        let gateway = Gateway::with(shipped()).server(server).start().await;
        let mut connection = gateway.connect().await;
        connection
            .send(DOORS[0].request("demo-slow", true, ("hello", &[])))
            .await;
        let mut head = connection.head().await.expect("a head");
        let life = connection.piece(&mut head).await.expect("a sign of life");
        // The words come after half a minute.
        assert!(life.starts_with(b":"), "{life:?}");
        drop(connection);
        assert_eq!(gateway.line().await["outcome"], "client_left");
    });
}

#[test]
fn without_a_list_doctor_asks_for_a_real_model() {
    run(async {
        let text = Catalog::new()
            .to_string()
            .replacen("accounts: {}", "accounts: { d: { dialect: demo } }", 1)
            .replacen(
                "models: {}",
                "models: { demo: { aliases: [\"gpt-*\"], targets: [{ account: d }] } }",
                1,
            );
        let gateway = Gateway::start(text).await;
        gateway
            .post(&client::chat("gpt-5"))
            .await
            .is_error(404, "model_not_found");
        assert_eq!(gateway.post(&client::chat("demo")).await.status, 200);
    });
}
