//! Citations in answers: the citations of each format appear in each other format, whole and as a
//! stream, or are named as lost.

use std::fs;

use dialects::front::{CHAT, Front, GEMINI, MESSAGES, RESPONSES};
use dialects::neutral::Undo;
use serde_json::{Value, json};

use crate::drive::{self, Dialect, For};
use crate::files::root;
use crate::frames;

const URL: &str = "https://example.com/tides";
const TITLE: &str = "Tides";

/// The dialects whose answers have citations, and the door with the dialect's format.
const DIALECTS: [(&str, Option<&Front>); 6] = [
    ("anthropic", Some(&MESSAGES)),
    ("gemini", Some(&GEMINI)),
    ("openai", Some(&CHAT)),
    ("responses", Some(&RESPONSES)),
    ("bedrock", None),
    ("cohere", None),
];

const DOORS: [&Front; 4] = [&CHAT, &MESSAGES, &RESPONSES, &GEMINI];

fn dialect(name: &str) -> Dialect {
    drive::all()
        .find(|dialect| dialect.name == name)
        .expect("a dialect")
}

/// The answers of a dialect for the callers of a door: whole, as a stream, and a whole answer
/// written as a stream.
fn answers(name: &str, front: &'static Front) -> [String; 3] {
    let (dialect, to) = (dialect(name), || For(front, Undo::default()));
    let file = |ending: &str| {
        fs::read(root().join("cited").join(format!("{name}.{ending}"))).expect("a file")
    };
    let text = |body: Vec<u8>| String::from_utf8(body).expect("UTF-8");
    let answer = file("answer");
    let stream = if name == "bedrock" {
        frames::encode(&text(file("stream")))
    } else {
        file("stream")
    };
    let (whole, _) = dialect
        .answer(to(), dialect.model, &answer)
        .expect("an answer");
    let streamed = dialect.stream(to(), dialect.model, stream.chunks(7));
    let converted = dialect
        .converted(to(), dialect.model, &answer)
        .expect("an answer");
    assert!(streamed.end.is_ok(), "{:?}", streamed.end);
    let flaws = [whole.flaws, streamed.flaws, converted.flaws];
    assert!(
        flaws.iter().all(|flaws| !flaws.not_cited),
        "{name} at {}",
        front.name
    );
    [whole.body, streamed.out, converted.body].map(text)
}

/// All values of this member, wherever they are in the JSON of an answer or of its events.
fn all(text: &str, name: &str) -> Vec<Value> {
    fn gather(value: &Value, name: &str, into: &mut Vec<Value>) {
        match value {
            Value::Object(members) => {
                into.extend(members.get(name).cloned());
                members.values().for_each(|value| gather(value, name, into));
            }
            Value::Array(elements) => elements.iter().for_each(|value| gather(value, name, into)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = Vec::new();
    let data = text.lines().filter_map(|line| {
        line.strip_prefix("data: ")
            .or(line.starts_with('{').then_some(line))
    });
    for json in data.filter_map(|data| serde_json::from_str(data).ok()) {
        gather(&json, name, &mut found);
    }
    found
}

/// Checks a door's citation of the source of the bytes 7 to 26, which are the characters 6 to 25.
#[track_caller]
fn check(text: &str, front: &Front, what: &str) {
    let found = match front.name {
        "chat" => all(text, "url_citation"),
        "messages" => [all(text, "citation"), all(text, "citations").concat_lists()].concat(),
        "responses" => all(text, "annotations").concat_lists(),
        _ => all(text, "groundingMetadata"),
    };
    let expected = match front.name {
        "chat" => json!({"start_index": 6, "end_index": 25, "title": TITLE, "url": URL}),
        "messages" => {
            json!({"type": "web_search_result_location", "title": TITLE, "url": URL, "encrypted_index": ""})
        }
        "responses" => {
            json!({"type": "url_citation", "start_index": 6, "end_index": 25, "title": TITLE, "url": URL})
        }
        _ => json!({
            "groundingChunks": [{"web": {"uri": URL, "title": TITLE}}],
            "groundingSupports": [{"segment": {"startIndex": 7, "endIndex": 26}, "groundingChunkIndices": [0]}],
        }),
    };
    let found: Vec<Value> = found
        .into_iter()
        .map(|mut citation| {
            // Only Anthropic and Bedrock have the words of the source.
            citation
                .as_object_mut()
                .expect("an object")
                .remove("cited_text");
            citation
        })
        .collect();
    assert!(
        !found.is_empty() && found.iter().all(|citation| *citation == expected),
        "{what}: {found:?}\n{text}"
    );
}

trait Lists {
    fn concat_lists(self) -> Vec<Value>;
}

impl Lists for Vec<Value> {
    fn concat_lists(self) -> Vec<Value> {
        self.into_iter()
            .filter_map(|list| list.as_array().cloned())
            .flatten()
            .collect()
    }
}

#[test]
fn citations_are_told_in_each_other_format() {
    let mut pairs = 0;
    for (name, own) in DIALECTS {
        for front in DOORS.into_iter().filter(|front| Some(*front) != own) {
            for (text, form) in answers(name, front)
                .iter()
                .zip(["whole", "stream", "converted"])
            {
                check(text, front, &format!("{name} at {}, {form}", front.name));
                pairs += usize::from(form != "converted");
            }
        }
    }
    assert_eq!(pairs, 40);
}

/// A document of the request has no URL: only Gemini's format can name it.
#[test]
fn what_a_format_cannot_cite_is_named_as_lost() {
    let citation = json!({"type": "char_location", "cited_text": "High tide: 6.", "document_index": 0, "document_title": "Tides", "start_char_index": 0, "end_char_index": 13});
    let text = json!({"type": "text", "text": "At six.", "citations": [citation]});
    let answer = json!({"type": "message", "role": "assistant", "content": [text], "stop_reason": "end_turn"});
    let stream = [
        json!({"type": "message_start", "message": {}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "At six."}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": citation}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        json!({"type": "message_stop"}),
    ];
    let stream: String = stream
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let claude = dialect("anthropic");
    for front in DOORS {
        let to = || For(front, Undo::default());
        let (whole, _) = claude
            .answer(to(), claude.model, answer.to_string().as_bytes())
            .expect("an answer");
        let streamed = claude.stream(to(), claude.model, [stream.as_bytes()].into_iter());
        let is_lost = matches!(front.name, "chat" | "responses");
        assert_eq!(
            (whole.flaws.not_cited, streamed.flaws.not_cited),
            (is_lost, is_lost),
            "{}",
            front.name
        );
        let names: Vec<&str> = front.flaws(whole.flaws).collect();
        assert_eq!(
            names.iter().any(|name| name.contains("annotations")),
            is_lost,
            "{names:?}"
        );
        if front.name == "gemini" {
            let sources = &all(
                &String::from_utf8(whole.body).expect("UTF-8"),
                "retrievedContext",
            )[..];
            assert_eq!(
                sources,
                [json!({"title": "Tides", "text": "High tide: 6."})]
            );
        }
    }
}

/// Checks that a dialect's source without a URL appears only at Gemini's door, and is named as lost
/// at all others.
#[track_caller]
fn check_without_url(name: &str, answer: &str, stream: &[u8], source: &Value) {
    let dialect = dialect(name);
    for front in DOORS {
        let to = || For(front, Undo::default());
        let (whole, _) = dialect
            .answer(to(), dialect.model, answer.as_bytes())
            .expect("an answer");
        let streamed = dialect.stream(to(), dialect.model, [stream].into_iter());
        let is_lost = front.name != "gemini";
        assert_eq!(
            (whole.flaws.not_cited, streamed.flaws.not_cited),
            (is_lost, is_lost),
            "{name} at {}",
            front.name
        );
        assert_eq!(
            front
                .flaws(whole.flaws)
                .any(|name| name.contains("citations") || name.contains("annotations")),
            is_lost
        );
        for body in [whole.body, streamed.out] {
            let body = String::from_utf8(body).expect("UTF-8");
            assert!(body.contains("At six."), "{body}");
            if !is_lost {
                assert_eq!(
                    all(&body, "retrievedContext"),
                    std::slice::from_ref(source),
                    "{body}"
                );
            }
        }
    }
}

/// Cohere's sources are documents and results of tools. Most have no URL.
#[test]
fn documents_and_results_cited_by_cohere_are_lost() {
    let sources = json!([{"type": "tool", "id": "get_tides_1:0", "tool_output": {"high": "6"}}]);
    let citation =
        json!({"start": 3, "end": 6, "text": "six", "sources": sources, "type": "TEXT_CONTENT"});
    let content = json!([{"type": "text", "text": "At six."}]);
    let answer = json!({"message": {"content": content, "citations": [citation]}, "finish_reason": "COMPLETE"});
    let stream = [
        json!({"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "At six."}}}}),
        json!({"type": "citation-start", "index": 0, "delta": {"message": {"citations": citation}}}),
        json!({"type": "citation-end", "index": 0}),
        json!({"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}),
    ];
    let stream: String = stream
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let source = json!({"title": "get_tides_1:0", "text": ""});
    check_without_url("cohere", &answer.to_string(), stream.as_bytes(), &source);
}

/// Bedrock cites documents of the request by their number and title.
#[test]
fn a_document_that_bedrock_cites_is_named_as_lost() {
    let citation = json!({"title": "Tides", "sourceContent": [{"text": "High tide: "}, {"text": "6."}], "location": {"documentChar": {"documentIndex": 0, "start": 0, "end": 13}}});
    let block =
        json!({"citationsContent": {"content": [{"text": "At six."}], "citations": [citation]}});
    let answer = json!({"output": {"message": {"role": "assistant", "content": [block]}}, "stopReason": "end_turn"});
    let stream = [
        (
            "contentBlockDelta",
            json!({"contentBlockIndex": 0, "delta": {"citation": citation}}),
        ),
        (
            "contentBlockDelta",
            json!({"contentBlockIndex": 0, "delta": {"text": "At six."}}),
        ),
        ("contentBlockStop", json!({"contentBlockIndex": 0})),
        ("messageStop", json!({"stopReason": "end_turn"})),
        ("metadata", json!({})),
    ];
    let stream: String = stream
        .iter()
        .map(|(name, event)| format!("{name}\t{event}\n"))
        .collect();
    let source = json!({"title": "Tides", "text": "High tide: 6."});
    check_without_url(
        "bedrock",
        &answer.to_string(),
        &frames::encode(&stream),
        &source,
    );
}
