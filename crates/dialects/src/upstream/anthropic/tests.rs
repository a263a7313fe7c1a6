use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::front::chat::read;
use crate::front::fields::tests::{Worded, through};
use crate::neutral::{Event, Kept, Losses, Reader as _, Refused, Target, Thought};

/// A model without any quirk, but for the quirks of each test.
pub(crate) const OPUS_4_1: &str = "claude-opus-4-1";
pub(crate) const SONNET_4_5: &str = "claude-sonnet-4-5";
pub(crate) const OPUS_4_6: &str = "claude-opus-4-6";
pub(crate) const OPUS_5: &str = "claude-opus-5";
pub(crate) const OPUS_5_5: &str = "claude-opus-5-5";
pub(crate) const SONNET_4: &str = "claude-sonnet-4";
pub(crate) const HAIKU_3_5: &str = "claude-3-5-haiku";

/// Two calls' thoughts are remembered.
fn kept(id: &str) -> Option<Kept> {
    let thought = |text: &'static str, signature: &'static str| Thought {
        text: text.into(),
        signature: Some(signature.into()),
        redacted: None,
        of_call: false,
    };
    match id {
        "kept" => Some(Arc::new([
            thought("hm", "s1"),
            Thought {
                redacted: Some("r1".into()),
                ..Thought::default()
            },
        ])),
        "omitted" => Some(Arc::new([thought("", "s2")])),
        _ => None,
    }
}

/// Writes a request given as a caller sends it.
pub(crate) fn write(model: &str, body: &str) -> Result<Worded, Refused> {
    let target = Target {
        model,
        traits: model_traits(model),
        default_max_tokens: None,
        stream: false,
        within: None,
        kept: &kept,
    };
    through(body.as_bytes(), &target, write_request)
}

/// Writes a request of one message with these fields. Returns the text between `max_tokens` and
/// `messages`, and the losses.
#[track_caller]
pub(crate) fn fields(model: &str, fields: &str) -> (String, String) {
    let comma = if fields.is_empty() { "" } else { "," };
    let body =
        format!(r#"{{"model":"x","messages":[{{"role":"user","content":"hi"}}]{comma}{fields}}}"#);
    let written = write(model, &body).unwrap_or_else(|refused| panic!("{refused:?}"));
    let body = String::from_utf8(written.body).unwrap();
    serde_json::from_str::<serde_json::Value>(&body).unwrap();
    let start = format!(r#"{{"model":"{model}","max_tokens":"#);
    let end = r#"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#;
    let middle = body
        .strip_prefix(&start)
        .and_then(|rest| rest.strip_suffix(end))
        .unwrap_or_else(|| panic!("{body}"));
    (
        middle
            .trim_end_matches('"')
            .trim_end_matches(',')
            .to_owned(),
        written.losses.names().join(" "),
    )
}

/// Writes these messages: `system` and `messages`, and the losses.
#[track_caller]
pub(crate) fn conversation(model: &str, messages: &str, fields: &str) -> (String, String) {
    let comma = if fields.is_empty() { "" } else { "," };
    let body = format!(r#"{{"model":"x","messages":{messages}{comma}{fields}}}"#);
    let written = write(model, &body).unwrap_or_else(|refused| panic!("{refused:?}"));
    let body = String::from_utf8(written.body).unwrap();
    serde_json::from_str::<serde_json::Value>(&body).unwrap();
    let at = body
        .find(r#""system":["#)
        .or_else(|| body.find(r#""messages":["#))
        .unwrap();
    (body[at..body.len() - 1].to_owned(), lost(&written.losses))
}

/// The losses, but for the tools that are added where calls stand without any: that is a test of
/// its own.
pub(crate) fn lost(losses: &Losses) -> String {
    let lost: Vec<&str> = losses
        .names()
        .iter()
        .map(AsRef::as_ref)
        .filter(|name| *name != "tools")
        .collect();
    lost.join(" ")
}

/// Why a request is refused: `?` for unsupported, `!` for invalid, and the field.
#[track_caller]
pub(crate) fn refused(model: &str, body: &str) -> String {
    match write(model, body) {
        Err(Refused::Unsupported(complaint)) => format!("? {}", complaint.param),
        Err(Refused::Invalid(complaint)) => format!("! {}", complaint.param),
        Ok(written) => panic!("{}", String::from_utf8_lossy(&written.body)),
    }
}

/// An event as it is compared.
pub(crate) fn shown(event: &Event<'_>) -> String {
    format!("{event:?}")
}

/// Something of everything.
const REQUEST: &str = r##"{"model":"x","max_tokens":900,"temperature":1.7,"top_p":0.5,"top_k":3,"stop":["a"," "],"reasoning_effort":"low",
"tools":[{"type":"function","function":{"name":"f.g","description":"d","parameters":{"type":"object","properties":{"a":{"minimum":1,"type":"number"}}},"strict":true},"cache_control":{"type":"ephemeral"}}],
"tool_choice":"required","parallel_tool_calls":false,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"$defs":{"a":{"$ref":"#/$defs/a"}},"anyOf":[{"type":"object"}]}}},
"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"u"},{"type":"image_url","image_url":{"url":"data:image/png;base64,aaaa"}},{"type":"file","file":{"file_data":"data:text/plain;base64,aGk="}}]},
{"role":"assistant","content":"a","tool_calls":[{"id":"c.1","type":"function","function":{"name":"f.g","arguments":"{\"a\":1}"}},{"id":"kept","type":"function","function":{"name":"h","arguments":"x"}}]},
{"role":"tool","tool_call_id":"c.1","content":"r"},{"role":"tool","tool_call_id":"kept","content":""},{"role":"user","content":"more"}]}"##;

const ANSWER: &str = r#"{"id":"msg_1","type":"message","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"a\n"},{"type":"tool_use","id":"c","name":"f","input":{"a":[1,{}]}}],"stop_reason":"refusal","stop_details":{"explanation":"e"},"usage":{"input_tokens":1,"output_tokens":2,"output_tokens_details":{"thinking_tokens":1}}}"#;

const EVENTS: [&str; 9] = [
    r#"{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":1,"cache_read_input_tokens":3,"output_tokens":1}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"t\u00e9"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c","name":"f","input":{}}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#,
    r#"{"type":"content_block_stop","index":1}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}"#,
    r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#,
];

/// A text with some bytes changed, cut out or put in.
fn mutated(text: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop_oneof![
        any::<u8>(),
        proptest::sample::select(b"{}[]\",:0\\ntu-".to_vec())
    ];
    let edits = proptest::collection::vec(
        (
            any::<proptest::sample::Index>(),
            0..4usize,
            proptest::collection::vec(bytes, 0..4),
        ),
        0..6,
    );
    edits.prop_map(move |edits| {
        let mut bytes = text.as_bytes().to_vec();
        for (index, removed, added) in edits {
            let at = index.index(bytes.len() + 1);
            let end = bytes.len().min(at + removed);
            bytes.splice(at..end, added);
        }
        bytes
    })
}

proptest! {
    #[test]
    fn no_request_panics_and_what_is_written_is_json(body in mutated(REQUEST), model in proptest::sample::select(vec![OPUS_4_1, SONNET_4, HAIKU_3_5, OPUS_4_6, OPUS_5, OPUS_5_5, "glm"])) {
        let Ok((read, _)) = read::read_request(&body) else { return Ok(()) };
        let target = Target { model, traits: model_traits(model), default_max_tokens: Some(50), stream: true, within: None, kept: &kept };
        if let Ok(written) = write_request(&read, &target) {
            let value: serde_json::Value = serde_json::from_slice(&written.body).unwrap();
            for message in value["messages"].as_array().unwrap() {
                prop_assert!(!message["content"].as_array().unwrap().is_empty());
            }
        }
    }

    #[test]
    fn no_answer_panics(body in mutated(ANSWER)) {
        drop(read_answer(&body, &mut |event| drop(shown(&event))));
        drop(read_error(400, None, &body));
    }

    #[test]
    fn no_event_panics(events in proptest::collection::vec((0..EVENTS.len()).prop_flat_map(|at| mutated(EVENTS[at])), 0..12)) {
        let mut reader = AnthropicReader::default();
        for data in events {
            drop(reader.event(b"", &data, &mut |event| drop(shown(&event))));
        }
    }
}
