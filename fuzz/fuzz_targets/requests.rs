//! What any caller may send: each dialect writes it or refuses it, as JSON, and what it may refer
//! to is looked at without a fault.
//!
//! The first byte chooses the dialect, the rest is the body.

#![no_main]

use bytes::Bytes;
use dialects::front::chat::envelope;
use dialects::front::chat::references::{Leave, Urls};
use dialects::upstream::openai::quirks;
use dialects::{Ask, Dialect};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    let [which, body @ ..] = input else { return };
    let Ok(envelope) = envelope::read(body) else { return };
    let which = usize::from(*which);
    let (dialect, model) = match which % 8 {
        0 => (Dialect::OpenAi(quirks::ALL[which / 8 % quirks::ALL.len()]), "m"),
        1 => (Dialect::Azure(Some("2024-10-21".into())), "m"),
        2 => (Dialect::Anthropic, "claude-sonnet-4-5"),
        3 => (Dialect::Gemini, "gemini-2.5-pro"),
        4 => (Dialect::Vertex { project: "p".into(), location: "global".into() }, "gemini-3-pro"),
        5 => (Dialect::Bedrock("us-east-1".into()), "anthropic.claude-sonnet-4-5-20250929-v1:0"),
        6 => (Dialect::Cohere, "command-a-03-2025"),
        _ => (Dialect::Ollama, "qwen3"),
    };
    let nothing =
        Leave { gs: false, s3: false, files: false, data_sources: false, cached: false, urls: Urls::NoneSinceNear };
    // Whatever could be refused was seen at the first look.
    assert!(envelope.refers || nothing.check(body).is_ok());
    let ask = Ask {
        body: &Bytes::copy_from_slice(body),
        envelope: &envelope,
        model,
        traits: dialect.traits(model),
        default_max_tokens: None,
        within: Some(std::time::Duration::from_secs(600)),
        stream_usage: true,
        kept: &|_| None,
    };
    let Ok(said) = dialect.write(&ask) else { return };
    let written = said.body.concat();
    let is_read = serde_json::from_slice::<Value>(&written).is_ok();
    // What serde_json refuses (numbers beyond f64, lone surrogates) passes as it stands.
    assert!(is_read || serde_json::from_slice::<Value>(body).is_err(), "{}", String::from_utf8_lossy(&written));
});
