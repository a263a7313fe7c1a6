//! Bodies that pass from callers of Responses to accounts that serve them: requests before and
//! after, byte by byte, and streams. `responses_pass.json` has them; `UPDATE_GOLDEN=1` writes the
//! outputs anew.

use std::fs;

use bytes::Bytes;
use dialects::front::RESPONSES;
use dialects::neutral::answer::AnswerOptions;
use dialects::{AnswerHeader, Dialect, Endpoint, Protocol, Recipient, Translate};
use serde_json::{Value, json};

use crate::files::root;

fn responses(dialect: &str) -> Dialect {
    Dialect::from(Protocol::find(dialect).expect("a dialect")).for_endpoint(Endpoint::Responses)
}

/// Passes a request. Returns the body that the server gets, and the losses.
fn passed(dialect: &Dialect, model: &str, body: &str) -> (String, Value) {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let outbound = dialect
        .write(&Translate {
            traits: (dialect.protocol.traits)(model),
            other: &|_| dialects::OtherModel::Elsewhere,
            ..Translate::new(&body, &RESPONSES.envelope(&body).expect("a request"), model)
        })
        .expect("it passes");
    (
        String::from_utf8(outbound.body.concat()).expect("UTF-8"),
        json!(outbound.losses.names()),
    )
}

/// Passes a stream in pieces of `size` bytes.
fn streamed(dialect: &Dialect, bytes: &str, size: usize) -> String {
    let header = AnswerHeader {
        model: "m".into(),
        id: "resp_golden".into(),
        ..AnswerHeader::default()
    };
    let to = Recipient {
        front: &RESPONSES,
        header: &header,
        options: AnswerOptions::default(),
    };
    let (mut stream, mut out) = (dialect.stream("gpt-5", to, 1 << 20), Vec::new());
    bytes
        .as_bytes()
        .chunks(size)
        .try_for_each(|piece| stream.feed(piece, &mut out))
        .expect("a whole stream");
    stream.finish(&mut out, None).expect("its end");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn what_passes_is_what_the_file_says() {
    let path = root().join("responses_pass.json");
    let before: Value =
        serde_json::from_str(&fs::read_to_string(&path).expect("the file")).expect("JSON");
    let mut after = before.clone();
    for request in after["requests"].as_array_mut().expect("requests") {
        let (model, body) = (
            request["model"].as_str().expect("a model"),
            request["before"].as_str().expect("a body"),
        );
        let [(sent, lost), other] =
            ["openai", "azure"].map(|dialect| passed(&responses(dialect), model, body));
        assert_eq!(
            (&sent, &lost),
            (&other.0, &other.1),
            "both servers get the same"
        );
        (request["after"], request["lost"]) = (json!(sent), lost);
    }
    for stream in after["streams"].as_array_mut().expect("streams") {
        let bytes = stream["before"].as_str().expect("a stream");
        let at_once = streamed(&responses("openai"), bytes, bytes.len());
        for size in 1..bytes.len().min(300) {
            assert_eq!(
                streamed(&responses("azure"), bytes, size),
                at_once,
                "in pieces of {size}"
            );
        }
        stream["after"] = json!(at_once);
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, format!("{after:#}\n")).expect("it is written");
    } else {
        assert_eq!(before, after);
    }
}
