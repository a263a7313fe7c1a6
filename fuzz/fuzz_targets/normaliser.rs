//! A server that speaks OpenAI's format may answer anything, with each of the known deviations.
//! What comes out is a standard answer, and has the same text as a stream. The first byte chooses
//! the server; the rest is the answer.

#![no_main]

use dialects::upstream::{openai, quirks};
use dialects::{AnswerFault, AnswerHeader};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    let [which, body @ ..] = input else { return };
    let Some(quirks) = quirks::ALL.get(usize::from(which / 2) % quirks::ALL.len()) else {
        return;
    };
    let shows = which % 2 == 0;
    let header = AnswerHeader {
        model: "m".to_owned(),
        id: "chatcmpl-1".to_owned(),
        created: 1,
        show_usage: true,
        prompt_bytes: 4,
        ..AnswerHeader::default()
    };
    let answer = match openai::correct_answer(&header, quirks, shows, body) {
        Ok(answer) => answer,
        Err(AnswerFault::Upstream(error)) => return assert!(error.message.len() < 8192),
        Err(AnswerFault::Nonsense(why)) => return assert!(!why.is_empty()),
    };
    // serde_json refuses some things that pass as text: numbers beyond f64, lone surrogates.
    let Ok(standard) = serde_json::from_slice::<Value>(&answer.body) else {
        assert!(
            serde_json::from_slice::<Value>(body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body))
                .is_err(),
            "{}",
            String::from_utf8_lossy(body)
        );
        return;
    };
    assert_eq!(
        (&standard["object"], &standard["model"]),
        (&"chat.completion".into(), &"m".into())
    );
    assert!(
        standard["id"].as_str().is_some_and(|id| !id.is_empty()) && standard["created"].is_u64()
    );
    let usage = &standard["usage"];
    let count = |name: &str| usage[name].as_u64().expect("a count");
    assert_eq!(
        count("total_tokens"),
        count("prompt_tokens") + count("completion_tokens")
    );
    assert_eq!(
        (count("prompt_tokens"), count("completion_tokens")),
        (answer.usage.prompt, answer.usage.completion)
    );
    let choices = standard["choices"].as_array().expect("choices");
    assert!(!choices.is_empty());
    for choice in choices {
        assert!(
            choice["index"].is_u64()
                && choice["finish_reason"].is_string()
                && choice["message"]["role"] == "assistant"
        );
    }
    // The same answer comes where a stream was asked for.
    let Ok(stream) = openai::answer_as_stream(&header, quirks, shows, body) else {
        return;
    };
    let events = String::from_utf8(stream.body).expect("UTF-8");
    assert!(events.ends_with("data: [DONE]\n\n"));
    let chunks: Vec<Value> = events
        .split("\n\n")
        .filter_map(|event| serde_json::from_str(event.strip_prefix("data: ")?).ok())
        .collect();
    for choice in choices {
        let deltas = chunks
            .iter()
            .flat_map(|chunk| chunk["choices"].as_array().into_iter().flatten())
            .filter(|delta| delta["index"] == choice["index"]);
        let text: String = deltas
            .filter_map(|delta| delta["delta"]["content"].as_str())
            .collect();
        if choices
            .iter()
            .filter(|other| other["index"] == choice["index"])
            .count()
            == 1
        {
            assert_eq!(
                text,
                choice["message"]["content"].as_str().unwrap_or_default()
            );
        }
    }
});
