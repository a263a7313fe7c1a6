//! Sealed thoughts: what an upstream must get back rides with the caller, and comes back to the
//! account that it belongs to.

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{self, Response};
use crate::support::{Catalog, Gateway, Mock, Script, run};

const OTHER: &str = "sk-other-0123456789abcdefghijklmnopqrstuvwxyz";
const LOST: &str = "input[].reasoning";
const MARK: &str = "pcsealv1";

async fn ask(gateway: &Gateway, key: &str, body: &Value) -> Response {
    ask_at(gateway, "/v1/responses", key, body).await
}

async fn ask_at(gateway: &Gateway, path: &str, key: &str, body: &Value) -> Response {
    let key = format!("Bearer {key}");
    let fields = [
        ("authorization", &*key),
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

/// A text with the account's own text in place of each sealed one.
pub fn unsealed(text: &str, own: &str) -> String {
    let mut parts = text.split(MARK);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let rest =
            part.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/'));
        assert!(
            part.len() > rest.len() + 100,
            "a sealed text is long: {part}"
        );
        text + own + rest
    })
}

/// An answer of Claude's that thinks and calls.
fn thinks() -> Script {
    claude(
        json!([{"type": "thinking", "thinking": "Rome?", "signature": "sig=="},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}}]),
        "tool_use",
    )
}

fn says(text: &str) -> Script {
    claude(json!([{"type": "text", "text": text}]), "end_turn")
}

fn claude(content: Value, stop: &str) -> Script {
    Script::json(
        200,
        &json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": content, "stop_reason": stop,
            "stop_sequence": null, "usage": {"input_tokens": 3, "output_tokens": 3}}),
    )
}

/// A request whose conversation goes on with these items.
fn turn(more: &[Value]) -> Value {
    let mut input = vec![json!({"role": "user", "content": "Weather in Rome?"})];
    input.extend(more.iter().cloned());
    json!({"model": "m", "input": input, "max_output_tokens": 9000, "reasoning": {"effort": "low"}, "store": false,
        "include": ["reasoning.encrypted_content"], "tools": [{"type": "function", "name": "weather", "parameters": {"type": "object"}}]})
}

/// The next turn: all that was answered, and the result of its call.
fn next(answer: &Response) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.field("x-portcullis-dropped"), None);
    let mut items = answer.json()["output"].as_array().unwrap().clone();
    assert!(
        items[0]["encrypted_content"]
            .as_str()
            .unwrap()
            .starts_with(MARK),
        "{items:?}"
    );
    assert!(!answer.text().contains("sig=="), "{}", answer.text());
    items.push(json!({"type": "function_call_output", "call_id": "toolu_1", "output": "sun"}));
    turn(&items)
}

/// What the upstream got as the assistant's turn.
async fn sent(mock: &Mock, nth: usize) -> String {
    let seen = mock.request(nth).await;
    assert!(!seen.text().contains(MARK), "{}", seen.text());
    seen.json()["messages"][1]["content"].to_string()
}

fn catalog(mocks: &[(&str, &Mock)]) -> Catalog {
    let ids: Vec<String> = mocks
        .iter()
        .map(|(id, _)| format!("{id}=claude-sonnet-4-5"))
        .collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let accounts = mocks.iter().fold(Catalog::new(), |catalog, (id, mock)| {
        catalog.account_with(id, mock, "dialect: anthropic")
    });
    accounts.model("m", &ids).caller("other", OTHER, "")
}

#[test]
fn a_conversation_returns_to_the_account_of_its_thoughts() {
    run(async {
        let (first, second) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(catalog(&[("a", &first), ("b", &second)])).await;
        first.push(Script::error(500, "broken"));
        second.push(thinks());
        let answer = ask(&gateway, KEY, &turn(&[])).await;
        let next = next(&answer);

        // The first account is asked first, but for this conversation.
        for _ in 0..2 {
            first.push(says("no thoughts"));
        }
        assert!(
            ask(&gateway, KEY, &turn(&[]))
                .await
                .text()
                .contains("no thoughts")
        );
        second.push(says("sunny"));
        let back = ask(&gateway, KEY, &next).await;
        assert!(
            back.status == 200 && back.text().contains("sunny"),
            "{}",
            back.text()
        );
        assert_eq!(back.field("x-portcullis-dropped"), None);
        assert!(
            sent(&second, 1)
                .await
                .contains(r#"{"signature":"sig==","thinking":"Rome?","type":"thinking"}"#)
        );

        // To another caller the same text means nothing.
        let others = ask(&gateway, OTHER, &next).await;
        assert_eq!(others.status, 200, "{}", others.text());
        assert!(
            others
                .field("x-portcullis-dropped")
                .unwrap_or_default()
                .contains(LOST)
        );
        assert!(!sent(&first, 2).await.contains("Rome?"));

        // The account is gone: the turn goes on without its thoughts, and that is said.
        second.push(Script::error(503, "gone"));
        first.push(says("without"));
        let without = ask(&gateway, KEY, &next).await;
        assert!(
            without.status == 200 && without.text().contains("without"),
            "{}",
            without.text()
        );
        let dropped = without
            .field("x-portcullis-dropped")
            .unwrap_or_default()
            .to_owned();
        assert!(dropped.split(", ").any(|name| name == LOST), "{dropped}");
        assert!(!sent(&first, 3).await.contains("sig=="));
    });
}

#[test]
fn a_key_in_a_file_opens_after_a_restart() {
    run(async {
        let mock = Mock::start().await;
        let setup = |keys: &str| {
            let setup = Gateway::with(catalog(&[("a", &mock)]));
            let setup = setup.file("old.key", "old-0123456789abcdefghijklmnopqrstuvwxyz\n");
            let setup = setup.file("new.key", "new-0123456789abcdefghijklmnopqrstuvwxyz\n");
            if keys.is_empty() {
                setup
            } else {
                setup.server(&format!("seal: {{ keys: [{keys}] }}"))
            }
        };
        mock.push(thinks());
        let before = setup("{ file: old.key }").start().await;
        let next = next(&ask(&before, KEY, &turn(&[])).await);
        drop(before);

        for (nth, (keys, opens)) in [
            ("{ file: new.key }, { file: old.key }", true),
            ("{ file: new.key }", false),
            ("", false),
        ]
        .into_iter()
        .enumerate()
        {
            mock.push(says("sunny"));
            let after = setup(keys).start().await;
            let answer = ask(&after, KEY, &next).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(
                sent(&mock, nth + 1).await.contains("sig=="),
                opens,
                "{keys}"
            );
            let dropped = answer.field("x-portcullis-dropped").unwrap_or_default();
            assert_eq!(dropped.contains(LOST), !opens, "{keys}: {dropped}");
        }
    });
}

#[test]
fn thoughts_that_an_upstream_refuses_are_left_out_once() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(catalog(&[("a", &mock)])).await;
        mock.push(thinks());
        let next = next(&ask(&gateway, KEY, &turn(&[])).await);
        let refusal = json!({"type": "error", "error": {"type": "invalid_request_error",
            "message": "messages.1.content.0: Invalid `signature` in `thinking` block"}});
        mock.push(Script::json(400, &refusal));
        mock.push(says("sunny"));
        let answer = ask(&gateway, KEY, &next).await;
        assert!(
            answer.status == 200 && answer.text().contains("sunny"),
            "{}",
            answer.text()
        );
        assert!(
            answer
                .field("x-portcullis-dropped")
                .unwrap_or_default()
                .contains(LOST)
        );
        assert!(sent(&mock, 1).await.contains("sig==") && !sent(&mock, 2).await.contains("sig=="));

        // It is not tried again and again.
        mock.push(Script::json(400, &refusal));
        mock.push(Script::json(400, &refusal));
        let answer = ask(&gateway, KEY, &next).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(mock.count(), 5);
    });
}

/// A door whose requests pass to accounts of its own format.
struct Pass {
    path: &'static str,
    account: &'static str,
    model: &'static str,
    /// An answer that thinks and calls.
    answer: Value,
    /// The request, whose conversation goes on with what was answered.
    turn: fn(Option<&Value>) -> Value,
    lost: &'static str,
    /// What the account says to a thought that it cannot read.
    refusal: Value,
}

/// What an account signs in the tests of passes.
const OWN: &str = "T3du";

fn passes() -> [Pass; 3] {
    let claudes = json!([{"type": "thinking", "thinking": "Rome?", "signature": OWN},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}}]);
    let parts = json!([{"functionCall": {"name": "weather", "args": {"city": "Rome"}}, "thoughtSignature": OWN}]);
    let items = json!([{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": OWN},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": "{}"}]);
    [
        Pass {
            path: "/v1/messages",
            account: "dialect: anthropic",
            model: "claude-sonnet-4-5",
            answer: json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": claudes, "stop_reason": "tool_use",
                "stop_sequence": null, "usage": {"input_tokens": 3, "output_tokens": 3}}),
            turn: |answer| {
                let mut messages = vec![json!({"role": "user", "content": "Weather in Rome?"})];
                if let Some(answer) = answer {
                    let result = json!([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sun"}]);
                    messages.push(json!({"role": "assistant", "content": answer["content"]}));
                    messages.push(json!({"role": "user", "content": result}));
                }
                json!({"model": "m", "max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 2000}, "messages": messages,
                    "tools": [{"name": "weather", "input_schema": {"type": "object"}}]})
            },
            lost: "messages[].content[].thinking",
            refusal: json!({"type": "error", "error": {"type": "invalid_request_error",
                "message": "messages.1.content.0: Invalid `signature` in `thinking` block"}}),
        },
        Pass {
            path: "/v1beta/models/m:generateContent",
            account: "dialect: gemini",
            model: "gemini-3-pro",
            answer: json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 3, "totalTokenCount": 6}}),
            turn: |answer| {
                let mut contents =
                    vec![json!({"role": "user", "parts": [{"text": "Weather in Rome?"}]})];
                if let Some(answer) = answer {
                    let result = json!([{"functionResponse": {"name": "weather", "response": {"output": "sun"}}}]);
                    contents.push(answer["candidates"][0]["content"].clone());
                    contents.push(json!({"role": "user", "parts": result}));
                }
                json!({"contents": contents, "tools": [{"functionDeclarations": [{"name": "weather"}]}]})
            },
            lost: "contents[].parts[].thoughtSignature",
            refusal: json!({"error": {"code": 400, "message": "Thought signature is not valid.", "status": "INVALID_ARGUMENT"}}),
        },
        Pass {
            path: "/v1/responses",
            account: "serves: [chat, responses]",
            model: "gpt-5",
            answer: json!({"id": "resp_up", "object": "response", "status": "completed", "model": "up", "output": items,
                "usage": {"input_tokens": 3, "output_tokens": 3}}),
            turn: |answer| {
                let result =
                    json!({"type": "function_call_output", "call_id": "call_1", "output": "sun"});
                let output = answer.map(|answer| answer["output"].as_array().unwrap().clone());
                turn(
                    &output
                        .map(|items| [items, vec![result]].concat())
                        .unwrap_or_default(),
                )
            },
            lost: LOST,
            refusal: json!({"error": {"message": "The encrypted content could not be verified.", "type": "invalid_request_error",
                "param": null, "code": "invalid_encrypted_content"}}),
        },
    ]
}

#[test]
fn signed_thoughts_return_to_their_account() {
    run(async {
        for pass in passes() {
            let Pass {
                path,
                account,
                model,
                answer,
                turn,
                lost,
                refusal,
            } = pass;
            let (first, second) = (Mock::start().await, Mock::start().await);
            let catalog = Catalog::new()
                .account_with("a", &first, account)
                .account_with("b", &second, account);
            let gateway = Gateway::start(
                catalog
                    .model("m", &[&format!("a={model}"), &format!("b={model}")])
                    .caller("other", OTHER, ""),
            )
            .await;
            let answers = || Script::json(200, &answer);
            first.push(Script::error(500, "broken"));
            second.push(answers());
            let thought = ask_at(&gateway, path, KEY, &turn(None)).await;
            assert_eq!(thought.status, 200, "{}", thought.text());
            let mut expected = answer.clone();
            if let Some(model) = expected.get_mut("model") {
                *model = json!("m");
            }
            assert_eq!(
                unsealed(&thought.text(), OWN),
                expected.to_string(),
                "nothing else is changed"
            );
            assert!(
                thought.text().contains(MARK) && !thought.text().contains(OWN),
                "{}",
                thought.text()
            );
            let next = turn(Some(&thought.json()));

            // Its account is asked first, and gets what it said.
            second.push(answers());
            let back = ask_at(&gateway, path, KEY, &next).await;
            assert_eq!(
                (back.status, back.field("x-portcullis-dropped")),
                (200, None),
                "{}",
                back.text()
            );
            let sent = second.request(1).await.text();
            assert!(sent.contains(OWN) && !sent.contains(MARK), "{sent}");

            // Another caller has nothing of it, and nor has another account.
            let is_without = async |mock: &Mock, nth: usize, answer: &Response| {
                assert_eq!(answer.status, 200, "{}", answer.text());
                let dropped = answer.field("x-portcullis-dropped").unwrap_or_default();
                assert!(dropped.split(", ").any(|name| name == lost), "{dropped}");
                let sent = mock.request(nth).await.text();
                assert!(
                    !sent.contains(OWN) && !sent.contains(MARK) && sent.contains("sun"),
                    "{sent}"
                );
            };
            first.push(answers());
            is_without(&first, 1, &ask_at(&gateway, path, OTHER, &next).await).await;
            second.push(Script::error(503, "gone"));
            first.push(answers());
            is_without(&first, 2, &ask_at(&gateway, path, KEY, &next).await).await;

            // What the account itself refuses is left out once.
            second.push(Script::json(400, &refusal));
            second.push(answers());
            is_without(&second, 4, &ask_at(&gateway, path, KEY, &next).await).await;
        }
    });
}

#[test]
fn a_count_asks_the_account_of_the_thoughts() {
    run(async {
        let [
            Pass {
                path,
                account,
                model,
                answer,
                turn,
                ..
            },
            ..,
        ] = passes();
        let (first, second) = (Mock::start().await, Mock::start().await);
        let catalog = Catalog::new()
            .account_with("a", &first, account)
            .account_with("b", &second, account);
        let targets = [format!("a={model}"), format!("b={model}")];
        let gateway = Gateway::start(catalog.model("m", &[&targets[0], &targets[1]])).await;
        first.push(Script::error(500, "broken"));
        second.push(Script::json(200, &answer));
        let thought = ask_at(&gateway, path, KEY, &turn(None)).await;
        second.push(Script::json(200, &json!({"input_tokens": 7})));
        let next = turn(Some(&thought.json()));
        let counted = ask_at(&gateway, "/v1/messages/count_tokens", KEY, &next).await;
        assert_eq!(
            (counted.json(), counted.field("x-portcullis-dropped")),
            (json!({"input_tokens": 7}), None)
        );
        let sent = second.request(1).await.text();
        assert!(sent.contains(OWN) && first.count() == 1, "{sent}");
    });
}

#[test]
fn every_event_of_a_stream_agrees_on_a_thought() {
    run(async {
        let mock = Mock::start().await;
        let item =
            json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": OWN});
        let said = json!({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "hm"}]});
        let place = |kind: &str, index: u64, item: &Value| json!({"type": kind, "output_index": index, "item": item});
        let events = [
            json!({"type": "response.created", "response": {"id": "resp_up", "output": []}}),
            place("response.output_item.added", 0, &item),
            place("response.output_item.done", 0, &item),
            place(
                "response.output_item.added",
                1,
                &json!({"type": "message", "id": "msg_1", "content": []}),
            ),
            json!({"type": "response.output_text.delta", "output_index": 1, "delta": "hm"}),
            place("response.output_item.done", 1, &said),
            json!({"type": "response.completed", "response": {"id": "resp_up", "status": "completed", "output": [item, said]}}),
        ];
        mock.push(events.iter().fold(Script::sse(), Script::named).end());
        let catalog = Catalog::new()
            .account_with("a", &mock, "serves: [chat, responses]")
            .model("m", &["a=gpt-5"]);
        let gateway = Gateway::start(catalog).await;
        let mut body = turn(&[]);
        body["stream"] = json!(true);
        let answer = ask(&gateway, KEY, &body).await;
        let text = answer.text();
        let sealed: Vec<&str> = text
            .split(MARK)
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        assert!(
            sealed.len() == 3 && sealed.iter().all(|one| *one == sealed[0]),
            "{text}"
        );
        let told = unsealed(&text, OWN);
        let data = told.lines().filter_map(|line| line.strip_prefix("data: "));
        assert_eq!(
            data.map(|data| data.parse::<Value>().unwrap())
                .collect::<Vec<_>>(),
            events
        );
    });
}

#[test]
fn a_returning_conversation_takes_no_other_accounts_turn() {
    run(async {
        let (first, second) = (Mock::start().await, Mock::start().await);
        for mock in [&first, &second] {
            mock.by(|request| {
                if request.json()["messages"].as_array().unwrap().len() > 1 {
                    says("sunny")
                } else {
                    thinks()
                }
            });
        }
        let catalog = Catalog::new().account_with("a", &first, "dialect: anthropic");
        let catalog = catalog
            .account_with("b", &second, "dialect: anthropic")
            .model_with(
                "m",
                &["a=claude-sonnet-4-5", "b=claude-sonnet-4-5"],
                "strategy: weighted",
            );
        let gateway = Gateway::start(catalog).await;
        // Each conversation has two requests, and stays where it began.
        for number in 1..=4 {
            let next = next(&ask(&gateway, KEY, &turn(&[])).await);
            assert!(ask(&gateway, KEY, &next).await.text().contains("sunny"));
            assert_eq!(first.count() + second.count(), number * 2);
        }
        assert_eq!((first.count(), second.count()), (4, 4));
    });
}
