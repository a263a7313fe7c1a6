//! Measures the cost of translation: of a long request into each dialect, and of each dialect's
//! stream events into standard chunks.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark may fail loudly, and criterion's macros make undocumented functions"
)]

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dialects::front::CHAT;
use dialects::neutral::answer::AnswerOptions;
use dialects::upstream::{anthropic, bedrock, cohere, gemini, ollama, openai};
use dialects::wire::json;
use dialects::{AnswerHeader, Dialect, Recipient, Translate};

/// Returns the dialects, each with a model and a text event as its provider sends it.
fn dialects() -> Vec<(&'static str, Dialect, &'static str, Vec<u8>)> {
    let sse = |name: &str, data: &str| {
        let name = if name.is_empty() {
            String::new()
        } else {
            format!("event: {name}\n")
        };
        format!("{name}data: {data}\n\n").into_bytes()
    };
    let chunk = r#"{"id":"chatcmpl-CTv9XjE2mXHn1nTQy0sS8M1Uu3kPq","object":"chat.completion.chunk","created":1790000000,"model":"gpt-4o-mini-2024-07-18","system_fingerprint":"fp_560af6e559","choices":[{"index":0,"delta":{"content":" gateway"},"logprobs":null,"finish_reason":null}],"usage":null}"#;
    let claude = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" gateway"}}"#;
    let gemini = r#"{"candidates":[{"content":{"parts":[{"text":" gateway"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":12,"totalTokenCount":21},"modelVersion":"gemini-2.5-flash","responseId":"mW1uaPz"}"#;
    let converse =
        r#"{"contentBlockIndex":0,"delta":{"text":" gateway"},"p":"abcdefghijklmnopqrstuv"}"#;
    let cohere =
        r#"{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":" gateway"}}}}"#;
    let ollama = concat!(
        r#"{"model":"qwen3","created_at":"2026-11-21T10:00:00.123456789Z","message":{"role":"assistant","content":" gateway"},"done":false}"#,
        "\n"
    );
    vec![
        (
            "openai",
            Dialect::from(&openai::PROTOCOL),
            "gpt-4o",
            sse("", chunk),
        ),
        (
            "anthropic",
            Dialect::from(&anthropic::PROTOCOL),
            "claude-sonnet-4-5",
            sse("content_block_delta", claude),
        ),
        (
            "gemini",
            Dialect::from(&gemini::PROTOCOL),
            "gemini-2.5-flash",
            sse("", gemini),
        ),
        (
            "bedrock",
            Dialect::from(&bedrock::PROTOCOL),
            "anthropic.claude-sonnet-4-5-20250929-v1:0",
            frame("contentBlockDelta", converse),
        ),
        (
            "cohere",
            Dialect::from(&cohere::PROTOCOL),
            "command-a-03-2025",
            sse("content-delta", cohere),
        ),
        (
            "ollama",
            Dialect::from(&ollama::PROTOCOL),
            "qwen3",
            ollama.as_bytes().to_vec(),
        ),
    ]
}

/// Writes one frame of AWS's event stream.
fn frame(kind: &str, payload: &str) -> Vec<u8> {
    let crc = |bytes: &[u8]| {
        let step = |crc: u32| {
            if crc & 1 == 1 {
                crc >> 1 ^ 0xEDB8_8320
            } else {
                crc >> 1
            }
        };
        !bytes.iter().fold(!0, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc))
        })
    };
    let mut headers = Vec::new();
    for (name, value) in [
        (":event-type", kind),
        (":content-type", "application/json"),
        (":message-type", "event"),
    ] {
        headers.push(u8::try_from(name.len()).unwrap());
        headers.extend(name.as_bytes());
        headers.push(7);
        headers.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        headers.extend(value.as_bytes());
    }
    let mut frame = Vec::new();
    frame.extend(
        u32::try_from(16 + headers.len() + payload.len())
            .unwrap()
            .to_be_bytes(),
    );
    frame.extend(u32::try_from(headers.len()).unwrap().to_be_bytes());
    frame.extend(crc(&frame).to_be_bytes());
    frame.extend(headers);
    frame.extend(payload.as_bytes());
    frame.extend(crc(&frame).to_be_bytes());
    frame
}

/// Returns a request with fifty messages, some with tool calls and their results, and ten tools:
/// some 20 KB.
fn request() -> Bytes {
    let prose = "The quick brown fox jumps over the lazy dog, and \"nobody\" minds.\n".repeat(4);
    let quoted = json::quote_string(&prose);
    let mut body = String::from(
        r#"{"model":"m","messages":[{"role":"system","content":"You are a helpful assistant."}"#,
    );
    for turn in 0..12 {
        body.push_str(&format!(
            r#",{{"role":"user","content":{quoted}}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"call_{turn}","type":"function","function":{{"name":"tool_{}","arguments":"{{\"city\":\"Rome\",\"days\":3}}"}}}}]}},{{"role":"tool","tool_call_id":"call_{turn}","content":"{{\"sky\":\"clear\",\"degrees\":[21,22,23]}}"}},{{"role":"assistant","content":{quoted}}}"#,
            turn % 10
        ));
    }
    body.push_str(r#",{"role":"user","content":"Go on."}],"tools":["#);
    for tool in 0..10 {
        let comma = if tool == 0 { "" } else { "," };
        body.push_str(&format!(
            r#"{comma}{{"type":"function","function":{{"name":"tool_{tool}","description":"Says how the weather will be in a city for some days.","parameters":{{"type":"object","properties":{{"city":{{"type":"string","description":"The city's name"}},"days":{{"type":"integer","minimum":1,"maximum":14}},"unit":{{"type":"string","enum":["c","f"]}}}},"required":["city"],"additionalProperties":false}}}}}}"#
        ));
    }
    body.push_str(r#"],"tool_choice":"auto","temperature":0.7,"max_tokens":1024,"stop":["END"],"stream":true}"#);
    body.into()
}

fn requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a request of 50 messages and 10 tools");
    let body = request();
    let envelope = CHAT.envelope(&body).expect("a request");
    for (name, dialect, model, _) in dialects() {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let outbound = dialect.write(&Translate {
                    traits: (dialect.protocol.traits)(model),
                    ..Translate::new(black_box(&body), &envelope, model)
                });
                let outbound = outbound.expect("every dialect can say it");
                // Without this, nothing may have been measured.
                assert!(outbound.body.iter().map(Bytes::len).sum::<usize>() > body.len() / 2);
                outbound
            });
        });
    }
    group.finish();
}

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a stream's event");
    let face = AnswerHeader {
        model: "m".to_owned(),
        id: "chatcmpl-1".to_owned(),
        created: 1_790_000_000,
        prompt_bytes: 100,
        ..AnswerHeader::default()
    };
    group.throughput(Throughput::Elements(1));
    for (name, dialect, model, event) in dialects() {
        let to = Recipient {
            front: &CHAT,
            header: &face,
            options: AnswerOptions::default(),
        };
        let mut stream = dialect.stream(model, to, 8 << 20);
        let mut out = Vec::new();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                out.clear();
                assert!(stream.feed(black_box(&event), &mut out).is_ok());
                assert!(out.ends_with(b"\n\n"));
                out.len()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, requests, events);
criterion_main!(benches);
