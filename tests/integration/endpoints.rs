//! Kinds of endpoint of one account: which one is asked, and that each is judged by itself.

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{self, Response, chat};
use crate::support::{Catalog, Gateway, Mock, Script, run};

const BOTH: &str = "serves: [chat, responses]";

async fn ask(gateway: &Gateway, path: &str, body: &Value) -> Response {
    let fields = [("x-api-key", KEY), ("content-type", "application/json")];
    gateway.raw(client::request("POST", path, &fields, body.to_string().as_bytes())).await
}

/// A response with one text, as a server of OpenAI's sends it.
fn response(text: &str) -> Value {
    json!({
        "id": "resp_up", "object": "response", "status": "completed", "model": "gpt-5-2026", "error": null,
        "output": [
            {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAAsealed"},
            {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": text, "annotations": []}]},
        ],
        "usage": {"input_tokens": 11, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 5,
                  "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 16},
    })
}

/// The text of a chat completion.
fn said(answer: &Response) -> String {
    answer.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
}

/// The targets of the account `a` in `/status`: the kind of endpoint, and why it rests.
fn rests(gateway: &Gateway) -> Vec<(String, Value)> {
    let status = gateway.status();
    let targets = status["accounts"][0]["targets"].as_array().expect("targets").clone();
    targets.iter().map(|one| (one["endpoint"].as_str().unwrap().to_owned(), one["rest"]["why"].clone())).collect()
}

#[test]
fn a_missing_endpoint_keeps_no_requests_from_the_other() {
    run(async {
        let mock = Mock::start().await;
        mock.by(|request| match request.target.as_str() {
            "/v1/chat/completions" => Script::answer("here"),
            _ => Script::error(404, "no such path"),
        });
        let gateway = Gateway::start(Catalog::new().account_with("a", &mock, BOTH).model("m", &["a=gpt-5"])).await;
        let body = json!({"model": "m", "input": "x"});
        for _ in 0..3 {
            assert_eq!(ask(&gateway, "/v1/responses", &body).await.status, 502);
        }
        assert_eq!(rests(&gateway), [("chat".to_owned(), Value::Null), ("responses".to_owned(), json!("refused"))]);
        let asked = mock.count();
        let resting = ask(&gateway, "/v1/responses", &body).await;
        assert_eq!((resting.status, mock.count()), (429, asked), "{}", resting.text());
        for _ in 0..3 {
            assert_eq!(said(&gateway.post(&chat("m")).await), "here");
        }
        let states = |endpoint: &str| {
            let labels = [("account", "a"), ("model", "gpt-5"), ("endpoint", endpoint), ("state", "closed")];
            gateway.metrics().sum("portcullis_breaker_state", &labels)
        };
        assert_eq!((states("chat"), states("responses")), (1.0, 1.0));
    });
}

#[test]
fn the_door_and_the_model_say_which_endpoint_is_asked() {
    run(async {
        let mock = Mock::start().await;
        mock.by(|request| match request.target.as_str() {
            "/v1/responses" => Script::json(200, &response("from responses")),
            _ => Script::answer("from chat"),
        });
        let catalog = Catalog::new()
            .account_with("a", &mock, BOTH)
            .account_with("b", &mock, "serves: [responses]")
            .model("thinker", &["a=gpt-5"])
            .model("talker", &["a=gpt-4o"])
            .model("only", &["b=gpt-4o"]);
        let gateway = Gateway::start(catalog).await;
        let messages = |model: &str| {
            json!({"model": model, "max_tokens": 50, "messages": [{"role": "user", "content": "x"}],
                   "thinking": {"type": "enabled", "budget_tokens": 1024}})
        };
        let answer = ask(&gateway, "/v1/messages", &messages("thinker")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = answer.json();
        assert_eq!(answer["content"].as_array().unwrap().last().unwrap()["text"], "from responses");
        assert_eq!(
            (&answer["model"], &answer["usage"]["output_tokens"], &answer["usage"]["cache_read_input_tokens"]),
            (&json!("thinker"), &json!(5), &json!(4))
        );
        let asked = mock.request(0).await;
        assert_eq!(asked.target, "/v1/responses");
        assert_eq!(
            asked.json(),
            json!({"model": "gpt-5", "store": false, "include": ["reasoning.encrypted_content"], "max_output_tokens": 50,
                   "reasoning": {"effort": "low", "summary": "auto"}, "input": [{"role": "user", "content": "x"}]})
        );
        let answer = ask(&gateway, "/v1/messages", &messages("talker")).await.json();
        assert_eq!(answer["content"][0]["text"], "from chat");
        assert_eq!(said(&gateway.post(&chat("thinker")).await), "from chat");
        assert_eq!(said(&gateway.post(&chat("only")).await), "from responses");
        let lines = gateway.access_lines(4).await;
        let kinds: Vec<&Value> = lines.iter().map(|line| &line["attempts"][0]["endpoint"]).collect();
        assert_eq!(kinds, [&json!("responses"), &Value::Null, &Value::Null, &json!("responses")]);
        // The usage counts once, as the upstream reported it.
        let first = &lines[0];
        assert_eq!(
            (&first["prompt_tokens"], &first["completion_tokens"], &first["usage"]),
            (&json!(11), &json!(5), &json!("reported"))
        );
        assert_eq!(gateway.metrics().sum("portcullis_tokens_total", &[("model", "thinker"), ("kind", "cached")]), 4.0);
    });
}
