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

#[allow(
    dead_code,
    unreachable_pub,
    reason = "tests share it, and use more of it"
)]
#[path = "../../crates/dialects/tests/support/models.rs"]
mod models;

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
    let number = which % models::DIALECTS.len();
    let dialect = Dialect::new(upstream::ALL[number], settings);
    let tested = models::DIALECTS[number];
    let model = tested.other_models.last().unwrap_or(&tested.model);
    let nothing = AllowedReferences {
        gs: false,
        s3: false,
        files: false,
        data_sources: false,
        cached: false,
        urls: Urls::NoneForNearServer,
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
