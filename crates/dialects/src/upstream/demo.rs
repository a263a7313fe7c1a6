//! The demo account answers by itself, so a first request works without any account.
//!
//! It acts as an upstream. Its answer is in OpenAI's real format, and is read like the answer of
//! any other server. It counts no tokens, so its usage is an estimate, and is marked as one. It
//! gives one choice, and ignores every parameter of the request.

use std::time::Duration;

use super::openai;
use super::protocol::{BaseUrl, Prices, Protocol};
use crate::wire::json::{self, Cursor};

/// The demo account, which calls nobody.
pub static PROTOCOL: Protocol = Protocol {
    name: "demo",
    about: "Answers by itself, without a network and without a credential: for trying things out.",
    base_url: BaseUrl::Nowhere,
    prices: |_| Prices::Free,
    error: |_, head, body| openai::error(body, head.content_type),
    is_imitated: true,
    ..Protocol::COMMON
};

/// A part of a demo stream, and the pause before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The pause before the part is sent. It imitates a model, and makes the streaming visible.
    pub pause: Duration,
    /// Whole server-sent events.
    pub bytes: Vec<u8>,
}

/// Returns the buffered answer to a request's body.
pub fn answer(request: &[u8]) -> Vec<u8> {
    let content = json::quote(&text(request));
    format!(
        r#"{{"object":"chat.completion","choices":[{{"index":0,"message":{{"role":"assistant","content":{content}}},"logprobs":null,"finish_reason":"stop"}}]}}"#
    )
    .into_bytes()
}

/// Returns the same answer as a stream, with one word in each event.
pub fn pieces(request: &[u8]) -> Vec<Piece> {
    let text = text(request);
    let opening = event(r#"{"role":"assistant","content":""}"#, "null");
    let words = text.split_inclusive(' ').map(|word| event(&format!(r#"{{"content":{}}}"#, json::quote(word)), "null"));
    let mut closing = event("{}", r#""stop""#);
    closing.extend_from_slice(b"data: [DONE]\n\n");

    let mut pieces = vec![Piece { pause: Duration::ZERO, bytes: opening }];
    pieces.extend(words.map(|bytes| Piece { pause: BETWEEN_WORDS, bytes }));
    pieces.push(Piece { pause: BETWEEN_WORDS, bytes: closing });
    pieces
}

/// The pause between words: long enough to be seen on a terminal, short enough for a test.
const BETWEEN_WORDS: Duration = Duration::from_millis(15);

fn event(delta: &str, finish: &str) -> Vec<u8> {
    format!(
        "data: {{\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}]}}\n\n"
    )
    .into_bytes()
}

fn text(request: &[u8]) -> String {
    let count = match messages(request) {
        1 => "1 message".to_owned(),
        n => format!("{n} messages"),
    };
    format!(
        "This is the demo account of Portcullis. No model was asked: this answer is always the same. \
         The request had {count}. Write a real account and a model into catalog.yaml, and ask again."
    )
}

/// Counts the messages in the request; 0 if it is no request.
fn messages(request: &[u8]) -> usize {
    let mut count = 0;
    // The caller's body was checked before it came here. If it was not, the count is only too low.
    let _read = Cursor::new(request).object(|cursor, key| {
        if json::slice(request, &key) == br#""messages""# && cursor.kind()? == json::Kind::Array {
            count = 0;
            return cursor.array(|cursor, _| {
                count += 1;
                cursor.value()
            });
        }
        cursor.value()
    });
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_messages_and_survives_nonsense() {
        for (request, count) in [
            (&br#"{"model":"demo","messages":[{"role":"user","content":"a, b"},{}],"x":[1,2,3]}"#[..], "2 messages"),
            (br#"{"messages":[{}]}"#, "1 message"),
            (br#"{"messages":"x"}"#, "0 messages"),
            (b"nonsense", "0 messages"),
        ] {
            let body = String::from_utf8(answer(request)).unwrap();
            assert!(body.contains(&format!("The request had {count}.")), "{body}");
        }
    }

    #[test]
    fn the_stream_says_what_the_answer_says() {
        let request = br#"{"messages":[{}]}"#;
        let whole: serde_json::Value = serde_json::from_slice(&answer(request)).unwrap();
        let mut said = String::new();
        for piece in pieces(request) {
            let text = String::from_utf8(piece.bytes).unwrap();
            for data in
                text.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).filter(|data| *data != "[DONE]")
            {
                let chunk: serde_json::Value = serde_json::from_str(data).unwrap();
                said += chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
            }
        }
        assert_eq!(whole["choices"][0]["message"]["content"], said);
    }
}
