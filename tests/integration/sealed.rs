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
    let key = format!("Bearer {key}");
    let fields = [("authorization", &*key), ("content-type", "application/json")];
    gateway.raw(client::request("POST", "/v1/responses", &fields, body.to_string().as_bytes())).await
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
    assert!(items[0]["encrypted_content"].as_str().unwrap().starts_with(MARK), "{items:?}");
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
    let ids: Vec<String> = mocks.iter().map(|(id, _)| format!("{id}=claude-sonnet-4-5")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let accounts =
        mocks.iter().fold(Catalog::new(), |catalog, (id, mock)| catalog.account_with(id, mock, "dialect: anthropic"));
    accounts.model("m", &ids).caller("other", OTHER, "")
}

#[test]
fn a_conversation_goes_back_to_the_account_of_its_thoughts() {
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
        assert!(ask(&gateway, KEY, &turn(&[])).await.text().contains("no thoughts"));
        second.push(says("sunny"));
        let back = ask(&gateway, KEY, &next).await;
        assert!(back.status == 200 && back.text().contains("sunny"), "{}", back.text());
        assert_eq!(back.field("x-portcullis-dropped"), None);
        assert!(sent(&second, 1).await.contains(r#"{"signature":"sig==","thinking":"Rome?","type":"thinking"}"#));

        // To another caller the same text means nothing.
        let others = ask(&gateway, OTHER, &next).await;
        assert_eq!(others.status, 200, "{}", others.text());
        assert!(others.field("x-portcullis-dropped").unwrap_or_default().contains(LOST));
        assert!(!sent(&first, 2).await.contains("Rome?"));

        // The account is gone: the turn goes on without its thoughts, and that is said.
        second.push(Script::error(503, "gone"));
        first.push(says("without"));
        let without = ask(&gateway, KEY, &next).await;
        assert!(without.status == 200 && without.text().contains("without"), "{}", without.text());
        let dropped = without.field("x-portcullis-dropped").unwrap_or_default().to_owned();
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
            if keys.is_empty() { setup } else { setup.server(&format!("seal: {{ keys: [{keys}] }}")) }
        };
        mock.push(thinks());
        let before = setup("{ file: old.key }").start().await;
        let next = next(&ask(&before, KEY, &turn(&[])).await);
        drop(before);

        for (nth, (keys, opens)) in
            [("{ file: new.key }, { file: old.key }", true), ("{ file: new.key }", false), ("", false)]
                .into_iter()
                .enumerate()
        {
            mock.push(says("sunny"));
            let after = setup(keys).start().await;
            let answer = ask(&after, KEY, &next).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(sent(&mock, nth + 1).await.contains("sig=="), opens, "{keys}");
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
        assert!(answer.status == 200 && answer.text().contains("sunny"), "{}", answer.text());
        assert!(answer.field("x-portcullis-dropped").unwrap_or_default().contains(LOST));
        assert!(sent(&mock, 1).await.contains("sig==") && !sent(&mock, 2).await.contains("sig=="));

        // It is not tried again and again.
        mock.push(Script::json(400, &refusal));
        mock.push(Script::json(400, &refusal));
        let answer = ask(&gateway, KEY, &next).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(mock.count(), 5);
    });
}
