//! Any caller may send any body. Each dialect writes it as JSON or refuses it, and the check of its
//! references never fails.
//!
//! The first byte chooses the dialect; the rest is the body.

#![no_main]

use bytes::Bytes;
use dialects::front::CHAT;
use dialects::front::references::{AllowedReferences, Urls};
use dialects::upstream::{self, quirks};
use dialects::{Dialect, Settings, Translate};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// The dialects that write requests: the demo, which stands last, writes none.
const DIALECTS: usize = upstream::ALL.len() - 1;

/// Models of the dialects, in their order. Each dialect takes any name.
const MODELS: [&str; DIALECTS] = [
    "m",
    "m",
    "claude-sonnet-4-5",
    "gemini-2.5-pro",
    "gemini-3-pro",
    "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "command-a-03-2025",
    "qwen3",
];

fuzz_target!(|input: &[u8]| {
    let [which, body @ ..] = input else { return };
    let Ok(envelope) = CHAT.envelope(body) else {
        return;
    };
    let which = usize::from(*which);
    let settings = Settings {
        quirks: quirks::ALL[which / 8 % quirks::ALL.len()],
        version: Some("2024-10-21".into()),
        project: Some("p".into()),
        region: Some("global".into()),
    };
    let number = which % DIALECTS;
    let dialect = Dialect::new(upstream::ALL[number], settings);
    let model = MODELS[number];
    let nothing = AllowedReferences {
        gs: false,
        s3: false,
        files: false,
        data_sources: false,
        cached: false,
        urls: Urls::NoneSinceNear,
    };
    // Whatever could be refused was seen at the first look.
    assert!(envelope.may_refer() || envelope.check_references(&nothing, body).is_ok());
    let said = dialect.write(&Translate {
        traits: (dialect.protocol.traits)(model),
        within: Some(std::time::Duration::from_secs(600)),
        ..Translate::new(&Bytes::copy_from_slice(body), &envelope, model)
    });
    let Ok(said) = said else { return };
    let written = said.body.concat();
    let is_read = serde_json::from_slice::<Value>(&written).is_ok();
    // Texts that serde_json refuses (numbers beyond f64, lone surrogates) pass as they are.
    assert!(
        is_read || serde_json::from_slice::<Value>(body).is_err(),
        "{}",
        String::from_utf8_lossy(&written)
    );
});
