//! Any body is read or refused. A body that is read has the same fields that serde_json reads.

#![no_main]

use dialects::front::CHAT;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|body: &[u8]| match CHAT.envelope(body) {
    Ok(envelope) => {
        assert_eq!(body.get(envelope.places.open), Some(&b'{'));
        let model: &[u8] = body
            .get(envelope.places.model.clone())
            .expect("a span of the body");
        assert!(model.starts_with(b"\"") && model.ends_with(b"\""));
        assert!(envelope.prompt_bytes < body.len());
        // serde_json refuses some things that the envelope keeps as text: numbers beyond f64, lone
        // surrogates.
        let Ok(value) = serde_json::from_slice::<Value>(body) else {
            return;
        };
        let flag = |value: &Value| value.as_bool().unwrap_or(false);
        assert_eq!(value["model"].as_str(), Some(envelope.model.as_str()));
        assert_eq!(flag(&value["stream"]), envelope.stream);
        assert_eq!(
            flag(&value["stream_options"]["include_usage"]),
            envelope.include_usage
        );
        assert!(
            value["messages"]
                .as_array()
                .is_some_and(|messages| !messages.is_empty())
        );
    }
    Err(fault) => {
        assert!(fault.message.len() < 300);
        assert!(fault.param.is_none_or(|param| param.chars().count() <= 41));
    }
});
