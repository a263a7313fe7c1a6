//! The official clients of OpenAI, Azure and Cohere, pinned, with their defaults, at the endpoints
//! beside chat. The programs that use them are `tests/sdk/python/test_beside.py`, `test_rerank.py`
//! and `tests/sdk/node/test_beside.mjs`.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::sdk::installed;
use crate::support::canary::KEY;
use crate::support::mock::Request;
use crate::support::process::Process;
use crate::support::{Catalog, Gateway, Mock, SLOWER, Script, root, run_within};

#[test]
fn python_client_3_beside_chat() {
    python("3.52.0", "test_beside");
}

#[test]
fn python_client_1_beside_chat() {
    python("1.109.1", "test_beside");
}

#[test]
fn node_client_beside_chat() {
    ask(Command::new("node")
        .arg("tests/sdk/node/test_beside.mjs")
        .env("SDK", installed("node")));
}

#[test]
fn coheres_client_orders_documents() {
    python("validators", "test_rerank");
}

fn python(venv: &str, program: &str) {
    let python = installed(&format!("python-{venv}")).join("bin/python");
    ask(Command::new(python).arg(format!("tests/sdk/python/{program}.py")));
}

fn ask(program: &mut Command) {
    run_within(Duration::from_secs(180), async {
        let mock = Mock::start().await;
        mock.by(answer);
        let server = format!("http://{}", mock.address());
        let catalog = Catalog::new()
            .account_at("o", &format!("{server}/v1"), "dialect: openai")
            .account_at("z", &server, "dialect: azure, api_version: 2024-10-21")
            .account_at("c", &format!("{server}/v2"), "dialect: cohere")
            .model("openai", &["o=o-up"])
            .model("azure", &["z=z-up"])
            .model("cohere", &["c=c-up"]);
        let gateway = Gateway::start(catalog).await;
        program
            .env("BASE_URL", format!("http://{}", gateway.address))
            .env("API_KEY", KEY);
        program.env("NO_PROXY", "*").current_dir(root());
        let mut client = Process::spawn(program);
        // The mock runs on other threads meanwhile.
        let status = client
            .wait(Duration::from_secs(150) * SLOWER)
            .expect("the program comes to an end");
        let printed = String::from_utf8_lossy(&client.stdout()).into_owned();
        print!("{printed}");
        assert!(status.success(), "{printed}{}", client.stderr());
        assert!(!printed.is_empty());
    });
}

/// Answers as the server of each account does. A request that names another model than the
/// account's, or another path, is refused.
fn answer(request: &Request) -> Script {
    let target = request.target.as_str();
    let deployment = target.strip_prefix("/openai/deployments/z-up/");
    let (model, path) =
        match deployment.and_then(|rest| rest.strip_suffix("?api-version=2024-10-21")) {
            Some(path) => ("z-up", path),
            None if target == "/v2/rerank" => ("c-up", "rerank"),
            None => ("o-up", target.strip_prefix("/v1/").unwrap_or_default()),
        };
    let asked = request.json();
    let form = request.text();
    let in_form = format!("name=\"model\"\r\n\r\n{model}\r\n");
    if asked["model"] != model && !form.contains(&in_form) {
        return Script::error(404, &format!("another model: {target}"));
    }
    let streams = asked["stream"] == true || form.contains("name=\"stream\"\r\n\r\ntrue\r\n");
    let heard = format!("{} times", form.matches("RIFF").count());
    let events = |events: &[Value]| {
        events
            .iter()
            .fold(Script::sse(), |script, event| script.named(event))
            .end()
    };
    Script::json(
        200,
        &match path {
            "completions" if streams => return continued(model),
            "completions" => {
                json!({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": model, "choices": [
                {"index": 0, "text": asked["prompt"][0], "finish_reason": "stop",
                 "logprobs": {"tokens": ["one"], "token_logprobs": [null], "top_logprobs": null, "text_offset": [0]}},
                {"index": 1, "text": asked["prompt"][1], "finish_reason": "length", "logprobs": null}],
                "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}})
            }
            // 0.5 and -0.25.
            "embeddings" if asked["encoding_format"] == "base64" => {
                json!({"object": "list", "model": model,
                "data": [{"object": "embedding", "index": 0, "embedding": "AAAAPwAAgL4="}],
                "usage": {"prompt_tokens": 1, "total_tokens": 1}})
            }
            "images/generations" if streams => {
                let picture = |what: &str| {
                    json!({"type": format!("image_generation.{what}"), "b64_json": "AAAA",
                    "background": "opaque", "created_at": 1, "output_format": "png", "partial_image_index": 0,
                    "quality": "low", "size": "1024x1024",
                    "usage": {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12,
                              "input_tokens_details": {"image_tokens": 0, "text_tokens": 5}}})
                };
                return events(&[picture("partial_image"), picture("completed")]);
            }
            "images/generations" => {
                json!({"created": 1, "data": [{"b64_json": "AAAA"}, {"b64_json": "BBBB"}]})
            }
            "images/edits" => json!({"created": 1, "data": [{"b64_json": "CCCC"}]}),
            "audio/speech" => return Script::text(200, "audio/mpeg", "ID3sound"),
            "audio/transcriptions" if streams => {
                return events(&[
                    json!({"type": "transcript.text.delta", "delta": heard}),
                    json!({"type": "transcript.text.done", "text": heard}),
                ]);
            }
            "audio/transcriptions" if form.contains("\r\n\r\ntext\r\n") => {
                return Script::text(200, "text/plain; charset=utf-8", format!("{heard}\n"));
            }
            "audio/transcriptions" | "audio/translations" => json!({"text": heard}),
            "moderations" => json!({"id": "modr-1", "model": model, "results": [
                {"flagged": true, "categories": {}, "category_scores": {}, "category_applied_input_types": {}},
                {"flagged": false, "categories": {}, "category_scores": {}, "category_applied_input_types": {}}]}),
            "rerank" => json!({"id": "1", "model": model, "results": [
                {"index": 1, "relevance_score": 0.75}, {"index": 0, "relevance_score": 0.125}],
                "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}}),
            _ => return Script::error(404, &format!("no such path: {target}")),
        },
    )
}

/// A stream of two words.
fn continued(model: &str) -> Script {
    let chunk = |choices: Value, usage: Value| json!({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": model, "choices": choices, "usage": usage});
    let word = |text: &str, finish: Option<&str>| {
        chunk(
            json!([{"index": 0, "text": text, "logprobs": null, "finish_reason": finish}]),
            Value::Null,
        )
    };
    let usage = json!({"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4});
    Script::sse()
        .event(word(" a", None))
        .event(word(" b", Some("stop")))
        .event(chunk(json!([]), usage))
        .done()
}
