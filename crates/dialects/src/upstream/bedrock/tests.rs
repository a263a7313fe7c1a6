use std::ops::ControlFlow;

use proptest::prelude::*;

use super::*;
use crate::neutral::{self, Reader as _};
use crate::wire::frames::{FrameDecoder, frame};

#[test]
fn addresses() {
    assert_eq!(
        base_url("eu-central-1"),
        "https://bedrock-runtime.eu-central-1.amazonaws.com"
    );
    for (model, stream, expected) in [
        (
            "amazon.nova-pro-v1:0",
            false,
            "/model/amazon.nova-pro-v1%3A0/converse",
        ),
        (
            "us.anthropic.claude-opus-4-6-v1",
            true,
            "/model/us.anthropic.claude-opus-4-6-v1/converse-stream",
        ),
        (
            "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2",
            true,
            "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fa1b2/converse-stream",
        ),
        (
            "a b%é?#../~_",
            false,
            "/model/a%20b%25%C3%A9%3F%23..%2F~_/converse",
        ),
    ] {
        assert_eq!(model_path(model, stream), expected);
    }
}

/// Returns the events of these bytes; the last line is the fault, if there is one.
fn told(bytes: &[u8]) -> Vec<String> {
    let (mut decoder, mut reader) = (
        FrameDecoder::new(1 << 20),
        ConverseReader::new("anthropic.claude-x"),
    );
    let mut told = Vec::new();
    let fed = decoder.feed(bytes, |event| {
        match reader.event(event.name, event.data, &mut |event| {
            told.push(format!("{event:?}"))
        }) {
            Ok(()) => ControlFlow::Continue(()),
            Err(fault) => ControlFlow::Break(fault),
        }
    });
    match fed {
        Ok(ControlFlow::Continue(())) if decoder.is_empty() => {}
        Ok(ControlFlow::Continue(())) => told.push("cut".to_owned()),
        Ok(ControlFlow::Break(fault)) => told.push(format!("{fault:?}")),
        Err(broken) => told.push(format!("{broken:?}")),
    }
    told
}

fn event(name: &str, payload: &str) -> Vec<u8> {
    frame(
        &[
            (":event-type", name),
            (":content-type", "application/json"),
            (":message-type", "event"),
        ],
        payload.as_bytes(),
    )
}

fn stream() -> Vec<u8> {
    [
        event("messageStart", r#"{"p":"abcdefgh","role":"assistant"}"#),
        event("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"Hi \u00e9"},"p":"abcd"}"#),
        event("contentBlockStop", r#"{"contentBlockIndex":0}"#),
        event(
            "contentBlockStart",
            r#"{"contentBlockIndex":1,"start":{"toolUse":{"name":"f","toolUseId":"tooluse_1"}}}"#,
        ),
        event("contentBlockDelta", r#"{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{\"q\":1}"}}}"#),
        event("contentBlockStop", r#"{"contentBlockIndex":1}"#),
        event("messageStop", r#"{"stopReason":"tool_use"}"#),
        event("metadata", r#"{"metrics":{"latencyMs":9},"usage":{"inputTokens":3,"outputTokens":2,"totalTokens":5}}"#),
    ]
    .concat()
}

#[test]
fn from_frames_to_events() {
    assert_eq!(
        told(&stream()),
        [
            r#"Text(0, "Hi é")"#,
            r#"Call { choice: 0, id: Some("tooluse_1"), name: "f", signature: None }"#,
            r#"Arguments(0, "{\"q\":1}")"#,
            "Finish(0, Stop)",
            "Usage(Tokens { prompt: Some(3), completion: Some(2), cached: None, cache_write: None, reasoning: None })",
            "End",
        ]
    );
    let exception = frame(
        &[
            (":message-type", "exception"),
            (":exception-type", "throttlingException"),
        ],
        br#"{"message":"slow down"}"#,
    );
    let told = told(&exception);
    assert!(
        told.len() == 1 && told[0].starts_with("Upstream(UpstreamError { status: Some(429)"),
        "{told:?}"
    );
}

proptest! {
    /// Whatever the bytes are, whole or as a payload, as an answer or as an error.
    #[test]
    fn no_bytes_are_a_panic(at in any::<prop::sample::Index>(), with in prop::collection::vec(any::<u8>(), 0..8), which in 0..8usize) {
        let mut bytes = stream();
        let at = at.index(bytes.len());
        bytes.splice(at..(at + with.len()).min(bytes.len()), with.iter().copied());
        told(&bytes);

        let names = ["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata", "exception/x", ""];
        let mut good = br#"{"contentBlockIndex":1,"start":{"toolUse":{"name":"f","toolUseId":"t"}},"delta":{"text":"a"},"stopReason":"end_turn","usage":{"inputTokens":1}}"#.to_vec();
        let place = at % good.len();
        good.splice(place..(place + with.len()).min(good.len()), with.iter().copied());
        let mut reader = ConverseReader::new("m");
        drop(reader.event(names[which].as_bytes(), &good, &mut |_| ()));
        drop(reader.end_of_file(&mut |_| ()));

        let mut body = br#"{"output":{"message":{"role":"assistant","content":[{"text":"a"},{"toolUse":{"toolUseId":"t","name":"f","input":{"a":1}}}]}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":18446744073709551615,"totalTokens":3}}"#.to_vec();
        let place = at % body.len();
        body.splice(place..(place + with.len()).min(body.len()), with.iter().copied());
        drop(read_answer("m", &body, &mut |_: neutral::Event<'_>| ()));
        drop(read_error(400, Some(&String::from_utf8_lossy(&with)), None, &body));
    }
}
