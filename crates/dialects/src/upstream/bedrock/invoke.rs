//! Claude through Bedrock's `invoke`: Anthropic's own format, for callers who speak it. Each frame
//! of a stream holds one of Anthropic's events in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::{PROTOCOL, error};
use crate::neutral::{Emit, Reader, StreamResult};
use crate::upstream::Cloud;
use crate::upstream::anthropic::{self, AnthropicReader};
use crate::upstream::protocol::{ENDPOINTS, Protocol, Translation};
use crate::upstream::shared::text::Text;
use crate::wire::percent::encode_segment;

/// Claude through `invoke`.
pub(super) static CLAUDE: Protocol = Protocol {
    path: |_, _, model, stream| {
        let action = if stream {
            "invoke-with-response-stream"
        } else {
            "invoke"
        };
        format!("/model/{}/{action}", encode_segment(model)).into()
    },
    endpoints: ENDPOINTS,
    translation: Some(Translation {
        reader: |_| Box::new(InvokeReader::default()),
        inner: inner_event,
        cloud: Some(&Cloud {
            version: "bedrock-2023-05-31",
            // The path asks for a stream or a whole answer, and the body has the betas.
            is_bare: true,
        }),
        ..anthropic::TRANSLATION
    }),
    ..PROTOCOL
};

/// A frame's payload. `bytes` is one of Anthropic's events in base64.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    bytes: Text<'a>,
}

/// Returns Anthropic's event that a frame holds.
fn inner_event(data: &[u8]) -> Option<Vec<u8>> {
    let chunk = serde_json::from_slice::<Chunk<'_>>(data).ok()?;
    STANDARD.decode(chunk.bytes.filled()?).ok()
}

/// The reader of a stream, whose errors are Amazon's.
#[derive(Debug, Default)]
struct InvokeReader {
    events: AnthropicReader,
}

impl Reader for InvokeReader {
    fn event(&mut self, name: &[u8], data: &[u8], emit: Emit<'_>) -> StreamResult<()> {
        match error::event_error(name, data) {
            Some(fault) => Err(fault),
            None => self.events.event(name, data, emit),
        }
    }

    fn end_of_file(&mut self, emit: Emit<'_>) -> StreamResult<()> {
        self.events.end_of_file(emit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{CHAT, Front, MESSAGES};
    use crate::neutral::AnswerHeader;
    use crate::neutral::StreamFault;
    use crate::neutral::answer::AnswerOptions;
    use crate::wire::frames::frame;
    use crate::{Dialect, Recipient, Translate};

    const MODEL: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
    const EVENTS: [&str; 5] = [
        r#"{"type":"message_start","message":{"id":"msg_1","model":"up","usage":{"input_tokens":9,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"é","new":1}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}"#,
        r#"{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":9}}"#,
    ];

    fn header() -> AnswerHeader {
        AnswerHeader {
            model: "m".to_owned(),
            ..AnswerHeader::default()
        }
    }

    /// Returns the bytes that a caller of Messages gets for these frames, and the usage or the
    /// fault.
    fn streamed(pieces: &[&[u8]]) -> (String, Result<u64, StreamFault>) {
        let (header, mut out) = (header(), Vec::new());
        let to = Recipient {
            front: &MESSAGES,
            header: &header,
            options: AnswerOptions::default(),
        };
        let mut stream = Dialect::from(&PROTOCOL).stream(MODEL, to, 1 << 20);
        let fed = pieces
            .iter()
            .try_for_each(|piece| stream.feed(piece, &mut out));
        let end = fed
            .and_then(|()| stream.finish(&mut out, None))
            .map(|usage| usage.total());
        (String::from_utf8(out).unwrap(), end)
    }

    fn framed(event: &str) -> Vec<u8> {
        let payload = format!(r#"{{"bytes":"{}","p":"abc"}}"#, STANDARD.encode(event));
        frame(
            &[(":message-type", "event"), (":event-type", "chunk")],
            payload.as_bytes(),
        )
    }

    #[test]
    fn a_stream_is_unpacked_and_passes() {
        let all: Vec<u8> = EVENTS.iter().flat_map(|event| framed(event)).collect();
        let expected: String = EVENTS
            .iter()
            .map(|event| {
                let name = event.split('"').nth(3).unwrap();
                format!(
                    "event: {name}\ndata: {}\n\n",
                    event.replace(r#""up""#, r#""m""#)
                )
            })
            .collect();
        assert_eq!(streamed(&[&all]), (expected.clone(), Ok(12)));
        let bytes: Vec<&[u8]> = all.chunks(1).collect();
        assert_eq!(streamed(&bytes), (expected.clone(), Ok(12)));
        for at in 0..all.len() {
            let (said, end) = streamed(&[&all[..at]]);
            assert!(
                end.is_err() && !said.contains("message_stop") && expected.starts_with(&said),
                "{at}: {said}"
            );
        }
    }

    #[test]
    fn an_error_inside_a_stream_is_amazons() {
        let thrown = frame(
            &[
                (":message-type", "exception"),
                (":exception-type", "throttlingException"),
            ],
            br#"{"message":"slow down"}"#,
        );
        let (said, end) = streamed(&[&framed(EVENTS[0]), &thrown]);
        let Err(StreamFault::Upstream(error)) = end else {
            panic!("{end:?}")
        };
        assert_eq!((error.status, &*error.message), (Some(429), "slow down"));
        assert!(said.starts_with("event: message_start"), "{said}");
    }

    #[test]
    fn only_callers_of_the_format_are_served_so() {
        let path = |front: &'static Front, model: &str, hides: bool| {
            let body =
                br#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
            let body = bytes::Bytes::from_static(body);
            let outbound = Dialect::from(&PROTOCOL).write(&Translate {
                traits: (PROTOCOL.traits)(model),
                hide_reasoning: hides,
                ..Translate::new(&body, &front.envelope(&body).unwrap(), model)
            });
            let outbound = outbound.unwrap();
            outbound.path.rsplit('/').next().unwrap().to_owned()
        };
        assert_eq!(path(&MESSAGES, MODEL, false), "invoke");
        assert_eq!(path(&MESSAGES, MODEL, true), "converse");
        assert_eq!(path(&MESSAGES, "amazon.nova-pro-v1:0", false), "converse");
        assert_eq!(path(&CHAT, MODEL, false), "converse");
    }

    #[test]
    fn a_whole_answer_is_anthropics() {
        let body = r#"{"id":"msg_1","type":"message","model":"up","content":[{"type":"text","text":"é"}],
"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":3}}"#;
        let header = header();
        let to = Recipient {
            front: &MESSAGES,
            header: &header,
            options: AnswerOptions::default(),
        };
        let (answer, _) = Dialect::from(&PROTOCOL)
            .answer(MODEL, &to, body.as_bytes())
            .unwrap();
        assert_eq!(
            String::from_utf8(answer.body).unwrap(),
            body.replace(r#""up""#, r#""m""#)
        );
        assert_eq!(answer.usage.total(), 12);
    }
}
