//! `POST /explain` shows what would happen to a request: the result of `portcullis explain
//! --status`, over the live catalog and the present state.
//!
//! **Invariant:** nothing of the running gateway is changed, and nothing secret is near: the
//! catalog is a copy without secrets, and the state is a copy of what `/status` shows. The limits
//! are the live ones, but nothing is taken from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{PLAIN, Page, Pages, status};
use crate::explain::{self, Input, Instance, Settings};
use crate::live::Live;
use crate::status::Status;
use dialects::front::PathRequest;

/// The largest question.
pub(super) const MAX_QUESTION_BYTES: usize = 256 << 10;
const FIELDS: &str = "a JSON object with `key`, and with `body`, or with `model` and `text`; further `door`, `path_model`, `stream`, `headers`";

/// The question.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    key: String,
    door: Option<String>,
    /// The model, where the path of the door names it.
    path_model: Option<String>,
    /// True if the request is for a stream, at doors whose path decides it.
    #[serde(default)]
    stream: bool,
    headers: Option<BTreeMap<String, String>>,
    body: Option<Box<RawValue>>,
    /// The text of a user's message, instead of a body.
    text: Option<String>,
    model: Option<String>,
}

impl Pages {
    /// Answers a question.
    pub(super) async fn explain(&self, question: Vec<u8>) -> Page {
        let Ok(permit) = self.explanation_permits.clone().acquire_owned().await else {
            return (503, PLAIN, String::new());
        };
        let (books, settings) = (self.books.clone(), Settings::from(&*self.backends.server));
        let status = status::present_status(self);
        // It takes a while, and other requests wait on this thread. The place is held until then,
        // whether somebody still waits for the answer or not.
        let answered = tokio::task::spawn_blocking(move || {
            let answer = answer_question(&books.live, settings, status, &question);
            drop(permit);
            answer
        });
        let failed = |_| (500, PLAIN, "the explanation failed\n".to_owned());
        answered.await.unwrap_or_else(failed)
    }
}

/// Answers a question.
fn answer_question(live: &Live, settings: Settings, status: Status, question: &[u8]) -> Page {
    match read_input(live, settings, status, question) {
        Ok((key, input)) => {
            let json = explain::explain_request(&key, &input).json();
            (
                200,
                "application/json",
                String::from_utf8_lossy(&json).into_owned(),
            )
        }
        Err(why) => (400, PLAIN, format!("{why}\n")),
    }
}

fn read_input(
    live: &Live,
    settings: Settings,
    mut status: Status,
    question: &[u8],
) -> Result<(String, Input), String> {
    // What was sent is not repeated: it may be a secret in the wrong place.
    let question: Question = serde_json::from_slice(question).map_err(|why| {
        let (line, column) = (why.line(), why.column());
        format!("line {line}, column {column}: must be {FIELDS}")
    })?;
    let Question {
        key,
        door,
        path_model,
        stream,
        headers,
        body,
        text,
        model,
    } = question;
    if !explain::is_id(&key) {
        return Err(
            "key: must be the id of a key, such as acme/prod, and never the secret".to_owned(),
        );
    }
    let front = explain::find_front(door.as_deref().unwrap_or("chat"))
        .map_err(|why| format!("door: {why}"))?;
    let headers = headers.unwrap_or_default();
    let headers = explain::read_headers(
        headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str())),
        front,
    )
    .map_err(|why| format!("headers: {why}"))?;
    let body = match (body, text, model) {
        (Some(body), None, None) => body.get().as_bytes().to_vec(),
        (None, Some(text), Some(model)) if front.name == "chat" => {
            json!({ "model": model, "messages": [{ "role": "user", "content": text }] })
                .to_string()
                .into_bytes()
        }
        _ => return Err("write `body`; or, at the door chat, `model` and `text`".to_owned()),
    };
    // It is the live catalog that is asked, whatever became of newer files.
    (status.catalog.last_refusal, status.catalog.held) = (None, None);
    let served = live.load_full();
    let mut snapshot = explain::standalone_snapshot(
        served.catalog.without_secrets(),
        Arc::new(live.accounts.proxies.without_secrets()),
    );
    snapshot
        .catalog
        .listings
        .clone_from(&served.catalog.listings);
    // They are only looked at.
    snapshot.scopes.clone_from(&served.scopes);
    let instance = Some(Instance {
        source: "this gateway, now".to_owned(),
        status,
    });
    let asked = PathRequest {
        model: path_model,
        stream,
    };
    Ok((
        key,
        Input {
            settings,
            snapshot,
            is_counted: true,
            instance,
            headers,
            front,
            asked,
            body: body.into(),
        },
    ))
}
