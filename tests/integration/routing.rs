//! Routing: which targets are asked, when, and how often. It covers strategies, breakers and rests,
//! fallbacks by cause, budgets, hedges, deadlines, the queue, and the trail, all through the real
//! gateway. The single failures are in `failover` and `matrix`.

mod breakers;
mod budget;
mod causes;
mod deadlines;
mod hedges;
mod places;
mod queue;
mod rests;
mod strategies;
mod trail;

use std::io::{Read, Write};

use serde_json::{Value, json};

use crate::failover::retry_after;
use crate::support::canary::KEY;
use crate::support::client;
use crate::support::{Gateway, eventually, join_all};

/// The bytes of a chat completion with more header fields.
fn post_with(body: &Value, more: &[(&str, &str)]) -> Vec<u8> {
    post_as(KEY, body, more)
}

fn post_as(key: &str, body: &Value, more: &[(&str, &str)]) -> Vec<u8> {
    let bearer = format!("Bearer {key}");
    let fields = [
        &[
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ],
        more,
    ]
    .concat();
    client::request(
        "POST",
        "/v1/chat/completions",
        &fields,
        body.to_string().as_bytes(),
    )
}

/// One turn of a conversation.
fn say(model: &str, text: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": text}]})
}

/// What `/status` tells of an account.
fn account(gateway: &Gateway, id: &str) -> Value {
    let status = gateway.status();
    let accounts = status["accounts"].as_array().expect("accounts");
    accounts
        .iter()
        .find(|account| account["id"] == id)
        .unwrap_or_else(|| panic!("no account {id} in {status}"))
        .clone()
}

/// What `/status` tells of an account's target, by the account's name for the model.
pub fn target(gateway: &Gateway, id: &str, model: &str) -> Value {
    let account = account(gateway, id);
    let targets = account["targets"].as_array().expect("targets");
    targets
        .iter()
        .find(|target| target["model"] == model)
        .unwrap_or_else(|| panic!("no target {model} in {account}"))
        .clone()
}

/// What `/status` tells of a model.
fn model(gateway: &Gateway, id: &str) -> Value {
    let status = gateway.status();
    let models = status["models"].as_array().expect("models");
    models
        .iter()
        .find(|model| model["id"] == id)
        .unwrap_or_else(|| panic!("no model {id} in {status}"))
        .clone()
}

/// Waits until a target's breaker is in that state.
async fn breaker(gateway: &Gateway, id: &str, model: &str, state: &str) {
    eventually(
        &format!("the breaker of {id} for {model} is {state}"),
        || (target(gateway, id, model)["breaker"] == state).then_some(()),
    )
    .await;
}

/// Any request to the admin listener: the status, and the head.
fn admin(gateway: &Gateway, method: &str, path: &str, more: &str) -> (u16, String) {
    let mut stream = std::net::TcpStream::connect(gateway.admin).expect("the admin listener");
    stream
        .write_all(
            format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{more}connection: close\r\n\r\n")
                .as_bytes(),
        )
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    (
        answer
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .expect("a status"),
        answer,
    )
}
