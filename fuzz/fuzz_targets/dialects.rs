//! Any upstream may send any bytes. No bytes make a dialect's reading panic, and the way in which a
//! stream is cut changes nothing of what comes out.
//!
//! The first byte chooses the dialect, the second the length of the reads. The rest is the stream,
//! an answer and an error.

#![no_main]

use dialects::front::CHAT;
use dialects::neutral::answer::AnswerOptions;
use dialects::upstream;
use dialects::usage::Usage;
use dialects::{AnswerHeader, Dialect, ErrorHead, Recipient, StreamFault};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 1 << 16;
/// The model's name. It makes Bedrock read its stream as Claude's, which has the most events.
const MODEL: &str = "anthropic.claude-sonnet-4-5-20250929-v1:0";

fuzz_target!(|input: &[u8]| {
    let [which, length, bytes @ ..] = input else {
        return;
    };
    let dialects: Vec<Dialect> = upstream::ALL
        .into_iter()
        .filter(|protocol| !protocol.calls_nobody())
        .map(Dialect::from)
        .collect();
    let Some(dialect) = dialects.get(usize::from(*which) % dialects.len()) else {
        return;
    };
    let face = AnswerHeader {
        model: "m".to_owned(),
        id: "chatcmpl-1".to_owned(),
        created: 1,
        show_usage: length % 2 == 0,
        prompt_bytes: 4,
        ..AnswerHeader::default()
    };
    let whole = stream(dialect, &face, bytes, bytes.len().max(1));
    // A faulty stream may break off at another place of the same event.
    if whole.1.is_ok() {
        assert_eq!(
            stream(dialect, &face, bytes, usize::from(*length).max(1)),
            whole
        );
        assert_eq!(stream(dialect, &face, bytes, 1), whole);
    }
    let to = recipient(&face);
    for told in [
        dialect.answer(MODEL, &to, bytes),
        dialect.converted(MODEL, &to, bytes),
    ]
    .into_iter()
    .flatten()
    {
        assert!(!told.0.body.is_empty());
    }
    let head = ErrorHead {
        status: 400 + u16::from(*length),
        content_type: None,
        error_type: None,
    };
    assert!(dialect.error(&CHAT, &head, bytes).message.len() < 8192);
});

fn recipient(header: &AnswerHeader) -> Recipient<'_> {
    let options = AnswerOptions {
        keep_thoughts: true,
        ..AnswerOptions::default()
    };
    Recipient {
        front: &CHAT,
        header,
        options,
    }
}

fn stream(
    dialect: &Dialect,
    face: &AnswerHeader,
    bytes: &[u8],
    length: usize,
) -> (Vec<u8>, Result<Usage, StreamFault>) {
    let mut stream = dialect.stream(MODEL, recipient(face), LIMIT);
    let mut out = Vec::new();
    for read in bytes.chunks(length) {
        if stream.done() {
            break;
        }
        if let Err(fault) = stream.feed(read, &mut out) {
            return (out, Err(fault));
        }
    }
    let usage = stream.finish(&mut out, None);
    (out, usage)
}
