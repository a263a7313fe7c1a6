//! Every recorded answer and stream of Gemini's leaves Gemini's doors as it came, but for the
//! model.

use std::fs;

use dialects::front::{Front, GEMINI, GEMINI_ARRAY};
use dialects::neutral::Undo;
use serde_json::Value;

use crate::bytes;
use crate::drive::{DIALECTS, Dialect, For};
use crate::files::{Case, Recorded, cases};

const GOOGLE: Dialect = DIALECTS[3];

fn recorded(ending: &str) -> Vec<(Case, Recorded)> {
    let of_case = |case: Case| {
        let found = case
            .recorded(ending)
            .into_iter()
            .filter(|recorded| recorded.dialect == GOOGLE.name);
        found
            .map(|recorded| {
                (
                    Case {
                        path: case.path.clone(),
                    },
                    recorded,
                )
            })
            .collect::<Vec<_>>()
    };
    cases().into_iter().flat_map(of_case).collect()
}

/// As it came, but for the model.
fn as_asked(came: &[u8]) -> Option<Value> {
    let mut value: Value = serde_json::from_slice(came).ok()?;
    if let Some(model) = value.get_mut("modelVersion") {
        *model = "m".into();
    }
    Some(value)
}

#[test]
fn a_whole_answer_passes() {
    let mut count = 0;
    for (case, recorded) in recorded(".answer") {
        let body = fs::read(&recorded.path).expect("a file");
        let model = case.model(GOOGLE.name, GOOGLE.model);
        let chat = GOOGLE.answer(For::chat(Undo::default()), &model, &body);
        let passed = GOOGLE.answer(For(&GEMINI, Undo::default()), &model, &body);
        match (chat, passed) {
            (Ok((chat, _)), Ok((passed, _))) => {
                let name = format!("{}/{}", case.name(), recorded.file);
                assert_eq!(
                    (chat.usage, chat.declined, chat.flaws),
                    (passed.usage, passed.declined, passed.flaws)
                );
                if let Some(expected) = as_asked(&body).filter(Value::is_object) {
                    assert_eq!(as_asked(&passed.body), Some(expected), "{name}");
                    count += 1;
                }
            }
            (chat, passed) => assert_eq!(chat.err(), passed.err()),
        }
    }
    assert!(count > 20, "{count} answers");
}

/// The chunks that a caller gets, and whether the stream is whole.
fn chunks(
    front: &'static Front,
    model: &str,
    pieces: &mut dyn Iterator<Item = &[u8]>,
) -> (Vec<Value>, bool) {
    let streamed = GOOGLE.stream(For(front, Undo::default()), model, pieces);
    let (out, is_whole) = (
        String::from_utf8(streamed.out).expect("UTF-8"),
        streamed.end.is_ok(),
    );
    let chunk =
        |text: &str| serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"));
    if *front == GEMINI {
        let events = out
            .split_terminator("\n\n")
            .map(|event| event.strip_prefix("data: ").expect("an event"));
        return (events.map(chunk).collect(), is_whole);
    }
    let closed = if is_whole || out.is_empty() {
        out
    } else {
        out + "]"
    };
    let list: Value = if closed.is_empty() {
        Value::Array(Vec::new())
    } else {
        chunk(&closed)
    };
    (list.as_array().expect("a list").clone(), is_whole)
}

/// The caller gets the bytes that came, however a stream is cut into reads. A stream that ends too
/// soon never looks complete.
#[test]
fn a_passing_stream_never_looks_falsely_whole() {
    let mut count = 0;
    for (case, recorded) in recorded(".stream") {
        let (bytes, model) = (bytes(&recorded), case.model(GOOGLE.name, GOOGLE.model));
        let name = format!("{}/{}", case.name(), recorded.file);
        let chat = GOOGLE.stream(For::chat(Undo::default()), &model, [&*bytes].into_iter());
        for front in [&GEMINI, &GEMINI_ARRAY] {
            let (whole, is_whole) = chunks(front, &model, &mut [&*bytes].into_iter());
            assert_eq!(is_whole, chat.end.is_ok(), "{name}");
            assert_eq!(
                chunks(front, &model, &mut bytes.chunks(1)),
                (whole.clone(), is_whole),
                "{name} byte by byte"
            );
            if is_whole {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let came = text
                    .lines()
                    .filter_map(|line| as_asked(line.strip_prefix("data:")?.trim().as_bytes()));
                assert_eq!(whole, came.collect::<Vec<_>>(), "{name}");
                count += 1;
            }
            for at in (0..bytes.len()).step_by(7) {
                let (said, is_whole) = chunks(
                    front,
                    &model,
                    &mut [bytes.get(..at).expect("bytes")].into_iter(),
                );
                let ends = said
                    .iter()
                    .any(|chunk| chunk.pointer("/candidates/0/finishReason").is_some());
                assert!(is_whole || !ends, "{name} looks whole, cut at {at}");
                assert!(whole.starts_with(&said), "{name} cut at {at}");
            }
        }
    }
    assert!(count > 10, "{count} streams");
}
