//! Credentials that accounts obtain anew again and again, from mocks of the clouds' services.

use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::clock::IDENTITIES;
use crate::support::mock::Request;
use crate::support::{Catalog, Gateway, Mock, Script, chat, eventually, run, run_within};

mod aws;
mod azure;
mod checked;
mod google;

/// A service that gives credentials. What it answers can be changed.
struct Service {
    mock: Mock,
    answer: Arc<Mutex<Script>>,
}

impl Service {
    async fn start(answer: Script) -> Service {
        let (mock, answer) = (Mock::start().await, Arc::new(Mutex::new(answer)));
        let present = answer.clone();
        mock.by(move |_| present.lock().unwrap().clone());
        Service { mock, answer }
    }

    fn now_answers(&self, answer: Script) {
        *self.answer.lock().unwrap() = answer;
    }

    fn url(&self) -> String {
        format!("http://{}", self.mock.address())
    }
}

/// Waits until the upstream is called with a value in a header, by requests of callers.
async fn served_with(gateway: &Gateway, upstream: &Mock, value: &str) {
    for _ in 0..200 {
        gateway.post(&chat("m")).await;
        let last = upstream.requests().pop();
        if last.is_some_and(|request| carries(&request, value)) {
            return;
        }
        gateway.round(IDENTITIES).await;
    }
    panic!("never called with {value}");
}

/// Returns whether the credential of a request has a text in it.
fn carries(request: &Request, value: &str) -> bool {
    let authorization = request.field("authorization");
    authorization.is_some_and(|authorization| authorization.contains(value))
}
