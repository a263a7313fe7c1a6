//! Vectors: each dialect's request for them, and each door's answer with them.
//!
//! In the folder `vectors`, `<door>.<what>.json` is a request, and `.written` next to it has the
//! request for each model. `<dialect>.<what>.<number>.vectors` is an answer to a request for so
//! many vectors, and `.out` next to it has the answer for the callers of each door.

use bytes::Bytes;
use dialects::front::{EMBEDDINGS, Front, GEMINI_EMBED, GEMINI_EMBEDS, PathRequest};
use dialects::neutral::answer::AnswerOptions;
use dialects::neutral::{Refused, Undo};
use dialects::{
    AnswerFault, AnswerHeader, Dialect, Endpoint, Protocol, Recipient, Settings, Translate,
};

use crate::differences::Differences;
use crate::files::{Case, root};
use crate::upstream;

/// A dialect, and a model of its provider.
const MODELS: [(&str, &str); 11] = [
    ("openai", "text-embedding-3-small"),
    ("azure", "my-deployment"),
    ("gemini", "gemini-embedding-001"),
    ("gemini", "gemini-embedding-2"),
    ("vertex", "text-embedding-005"),
    ("vertex", "gemini-embedding-2"),
    ("bedrock", "amazon.titan-embed-text-v2:0"),
    ("bedrock", "cohere.embed-english-v3"),
    ("bedrock", "us.cohere.embed-v4:0"),
    ("cohere", "embed-v4.0"),
    ("ollama", "nomic-embed-text"),
];

fn case() -> Case {
    Case {
        path: root().join("vectors"),
    }
}

fn spoken(name: &str) -> Dialect {
    let settings = Settings {
        version: Some("2024-10-21".into()),
        project: Some("acme".into()),
        region: Some("europe-west1".into()),
        ..Settings::NONE
    };
    Dialect::new(Protocol::find(name).expect("a dialect"), settings)
        .for_endpoint(Endpoint::Embeddings)
}

fn write(
    front: &'static Front,
    name: &str,
    model: &str,
    body: &str,
) -> Result<dialects::Outbound, Refused> {
    let body = Bytes::from(body.to_owned());
    let asked = PathRequest {
        model: (*front != EMBEDDINGS).then(|| "m".to_owned()),
        stream: false,
    };
    let envelope = front.envelope(&body).expect("a request").with_path(asked);
    spoken(name).write(&Translate::new(&body, &envelope, model))
}

#[test]
fn requests_for_vectors() {
    let mut differences = Differences::default();
    let case = case();
    let mut count = 0;
    for recorded in case.recorded(".json") {
        let doors = [&EMBEDDINGS, &GEMINI_EMBED, &GEMINI_EMBEDS];
        let front = doors
            .into_iter()
            .find(|front| front.name == recorded.dialect)
            .expect("a door");
        let request = case.request(&recorded.file).expect("text");
        let mut found = String::new();
        for (name, model) in MODELS {
            found += &format!("== {name} {model}\n");
            found += &match write(front, name, model, &request) {
                Ok(sent) => {
                    let names: Vec<_> = sent
                        .losses
                        .names()
                        .iter()
                        .map(|name| name.to_string())
                        .collect();
                    let body = String::from_utf8(sent.body.concat()).expect("UTF-8");
                    format!(
                        "POST {}\ndropped: {}\n\n{body}\n",
                        sent.path,
                        names.join(", ")
                    )
                }
                Err(Refused::Invalid(why)) => format!("invalid {}\n{}\n", why.param, why.message),
                Err(Refused::Unsupported(why)) => {
                    format!("unsupported {}\n{}\n", why.param, why.message)
                }
            };
            count += 1;
        }
        differences.compare(&recorded.path.with_extension("written"), Some(&found));
    }
    assert!(count >= 60, "{count} requests");
    differences.none();
}

/// Requests for so many vectors: the door, and the body.
fn requests(number: usize) -> Vec<(&'static Front, String)> {
    let texts = vec![r#""x""#; number].join(",");
    let contents = vec![r#"{"content":{"parts":[{"text":"x"}]}}"#; number].join(",");
    let mut requests = vec![
        (&EMBEDDINGS, format!(r#"{{"model":"m","input":[{texts}]}}"#)),
        (
            &EMBEDDINGS,
            format!(r#"{{"model":"m","input":[{texts}],"encoding_format":"base64"}}"#),
        ),
        (&GEMINI_EMBEDS, format!(r#"{{"requests":[{contents}]}}"#)),
    ];
    if number == 1 {
        requests.push((
            &GEMINI_EMBED,
            r#"{"content":{"parts":[{"text":"x"}]}}"#.to_owned(),
        ));
    }
    requests
}

#[test]
fn answers_with_vectors() {
    let mut differences = Differences::default();
    let case = case();
    let mut seen = Vec::new();
    for recorded in case.recorded(".vectors") {
        let number = recorded
            .file
            .rsplit('.')
            .nth(1)
            .and_then(|number| number.parse().ok())
            .expect("a number");
        let answer = case.request(&recorded.file).expect("text");
        let mut found = String::new();
        for (front, body) in requests(number) {
            let sent = write(front, &recorded.dialect, "cohere.embed-v4", &body);
            let undo = sent.map_or_else(|_| Undo::default(), |sent| sent.undo);
            let header = AnswerHeader {
                model: "m".to_owned(),
                prompt_bytes: 40,
                ..AnswerHeader::default()
            };
            let to = Recipient {
                front,
                header: &header,
                options: AnswerOptions {
                    undo,
                    ..AnswerOptions::default()
                },
            };
            let told =
                match spoken(&recorded.dialect).answer("cohere.embed-v4", &to, answer.as_bytes()) {
                    Ok((answer, _)) => {
                        let (usage, body) =
                            (answer.usage, String::from_utf8(answer.body).expect("UTF-8"));
                        assert!(
                            serde_json::from_str::<serde_json::Value>(&body).is_ok(),
                            "{body}"
                        );
                        format!("{} {}\n{body}\n", usage.prompt, usage.source.name())
                    }
                    Err(AnswerFault::Nonsense(why)) => format!("!nonsense {why}\n"),
                    Err(AnswerFault::Upstream(error)) => upstream(&error),
                };
            let base64 = if body.contains("base64") {
                " base64"
            } else {
                ""
            };
            found += &format!("== {}{base64}\n{told}", front.name);
        }
        seen.push(recorded.dialect.clone());
        differences.compare(
            &recorded
                .path
                .with_file_name(format!("{}.out", recorded.file)),
            Some(&found),
        );
    }
    for (name, _) in MODELS {
        assert!(seen.iter().any(|seen| seen == name), "{name} has no answer");
    }
    differences.none();
}
