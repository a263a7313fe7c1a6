//! AWS's binary event stream, written by hand from its description: the bytes that a real server of
//! Bedrock sends.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Script;

/// Writes one event: its type and its payload.
pub fn event(kind: &str, payload: &str) -> Vec<u8> {
    frame(
        &[
            (":message-type", "event"),
            (":event-type", kind),
            (":content-type", "application/json"),
        ],
        payload.as_bytes(),
    )
}

/// Writes an exception, which ends the stream.
pub fn exception(kind: &str, payload: &str) -> Vec<u8> {
    frame(
        &[
            (":message-type", "exception"),
            (":exception-type", kind),
            (":content-type", "application/json"),
        ],
        payload.as_bytes(),
    )
}

/// Writes a stream of Bedrock's `invoke`: Anthropic's events, each in base64 in a frame.
pub fn invoked(events: &[Value]) -> Script {
    let head = Script::new().head(
        200,
        &[
            ("content-type", "application/vnd.amazon.eventstream"),
            ("transfer-encoding", "chunked"),
        ],
    );
    let bytes: Vec<u8> = events.iter().flat_map(chunk).collect();
    // However it is cut.
    head.slices(bytes, 50, Duration::ZERO).end()
}

/// Writes one event of Anthropic's, as `invoke` sends it.
pub fn chunk(data: &Value) -> Vec<u8> {
    event(
        "chunk",
        &json!({"bytes": STANDARD.encode(data.to_string()), "p": "abc"}).to_string(),
    )
}

/// Writes any frame.
pub fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(name.len() as u8);
        block.extend(name.as_bytes());
        block.push(7);
        block.extend((value.len() as u16).to_be_bytes());
        block.extend(value.as_bytes());
    }
    let mut frame = Vec::new();
    frame.extend(((16 + block.len() + payload.len()) as u32).to_be_bytes());
    frame.extend((block.len() as u32).to_be_bytes());
    frame.extend(crc32(&frame).to_be_bytes());
    frame.extend(block);
    frame.extend(payload);
    frame.extend(crc32(&frame).to_be_bytes());
    frame
}

fn crc32(bytes: &[u8]) -> u32 {
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
}
