use proptest::prelude::*;

use super::super::sse::KEPT;
use super::*;

/// Returns a frame with these headers, which are all strings.
pub(crate) fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in headers {
        bytes.push(u8::try_from(name.len()).unwrap());
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(7);
        bytes.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(value.as_bytes());
    }
    raw(&bytes, payload)
}

fn raw(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let total = PRELUDE + headers.len() + payload.len() + CHECKSUM;
    let mut frame = prelude(
        u32::try_from(total).unwrap(),
        u32::try_from(headers.len()).unwrap(),
    );
    frame.extend_from_slice(headers);
    frame.extend_from_slice(payload);
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame
}

fn prelude(total: u32, headers: u32) -> Vec<u8> {
    let mut prelude = [total.to_be_bytes(), headers.to_be_bytes()].concat();
    prelude.extend_from_slice(&crc32fast::hash(&prelude).to_be_bytes());
    prelude
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

/// Returns the events of a stream that is fed in pieces: `name=data` for each, then the fault, or
/// `…` for a frame cut short.
fn told<'b>(pieces: impl IntoIterator<Item = &'b [u8]>, limit: usize) -> Vec<String> {
    let mut decoder = FrameDecoder::new(limit);
    let mut told = Vec::new();
    for piece in pieces {
        let flow = decoder.feed(piece, |event| {
            told.push(format!(
                "{}={}",
                String::from_utf8_lossy(event.name),
                String::from_utf8_lossy(event.data)
            ));
            ControlFlow::<()>::Continue(())
        });
        if let Err(Broken(why)) = flow {
            told.push(why.to_owned());
            return told;
        }
    }
    if !decoder.is_empty() {
        told.push("…".to_owned());
    }
    told
}

/// However the bytes are cut.
#[track_caller]
fn check_with(limit: usize, bytes: &[u8], expected: &[&str]) {
    assert_eq!(told([bytes], limit), expected);
    assert_eq!(told(bytes.chunks(1), limit), expected);
    for at in 0..bytes.len() {
        let (before, after) = bytes.split_at(at);
        assert_eq!(told([before, after], limit), expected, "cut at {at}");
    }
}

#[track_caller]
fn check(bytes: &[u8], expected: &[&str]) {
    check_with(1024, bytes, expected);
}

#[test]
fn events_are_named_by_their_type() {
    check(b"", &[]);
    check(
        &event("messageStart", r#"{"role":"assistant"}"#),
        &[r#"messageStart={"role":"assistant"}"#],
    );
    let two = [event("a", "1"), event("b", ""), event("", "3")].concat();
    check(&two, &["a=1", "b=", "=3"]);
    check(&frame(&[], b"x"), &["=x"]);
    check(&frame(&[(":event-type", "a")], b"x"), &["a=x"]);
}

#[test]
fn exceptions_and_errors_have_other_names() {
    let exception = frame(
        &[
            (":exception-type", "throttlingException"),
            (":message-type", "exception"),
        ],
        br#"{"message":"Too many requests"}"#,
    );
    check(
        &exception,
        &[r#"exception/throttlingException={"message":"Too many requests"}"#],
    );
    check(
        &frame(&[(":message-type", "exception")], b""),
        &["exception/="],
    );
    let error = frame(
        &[
            (":message-type", "error"),
            (":error-code", "500"),
            (":error-message", "it \"broke\""),
        ],
        b"",
    );
    check(&error, &[r#"error/500={"message":"it \"broke\""}"#]);
    check(
        &frame(&[(":message-type", "error")], b"payload"),
        &[r#"error/={"message":""}"#],
    );
}

#[test]
fn messages_of_unknown_types_are_passed_over() {
    check(
        &[
            frame(&[(":message-type", "news"), (":event-type", "a")], b"x"),
            event("b", "y"),
        ]
        .concat(),
        &["b=y"],
    );
}

/// The frames that Amazon's own libraries are tested with.
#[test]
fn published_frames() {
    let hex = |text: &str| {
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
            .collect::<Vec<_>>()
    };
    check(
        &hex("0000001f0000000f172dc2ab0b736f6d652d6865616465720301f4933c5cad"),
        &["="],
    );
    check(
        &hex("0000002400000000516356ad616e6f746865722074657374207061796c6f61648df80e65"),
        &["=another test payload"],
    );
    let all = "000000960000007a8bb495fb0474727565000566616c736501046279746502320573686f7274034e2003696e74040007a120046c6f6e67050000000ba43b7400\
               05627974657306000a736f6d6520627974657303737472070008736f6d65207374720474696d6508000000012a05f200047575696409b79bc914de214e13b8b2\
               bc47e85b7f0b736f6d65207061796c6f616401a05860";
    check(&hex(all), &["=some payload"]);
}

#[test]
fn headers_of_every_type_are_stepped_over() {
    let mut headers = Vec::new();
    for (kind, length) in [
        (0, 0),
        (1, 0),
        (2, 1),
        (3, 2),
        (4, 4),
        (5, 8),
        (8, 8),
        (9, 16),
    ] {
        headers.extend_from_slice(&[1, b'x', kind]);
        headers.extend(vec![0xFF; length]);
    }
    headers.extend_from_slice(b"\x01y\x06\x00\x02\xFF\xFF");
    // A name without a text is none.
    headers.extend_from_slice(b"\x0b:event-type\x06\x00\x01b");
    check(&raw(&headers, b"z"), &["=z"]);
    headers.extend_from_slice(b"\x0b:event-type\x07\x00\x01a");
    check(&raw(&headers, b"z"), &["a=z"]);
}

#[test]
fn malformed_headers_are_faults() {
    for headers in [
        &b"\x01"[..],
        b"\x01x",
        b"\x02x",
        b"\x01x\x0a",
        b"\x01x\x02",
        b"\x01x\x05\0\0\0\0\0\0\0",
        b"\x01x\x07",
        b"\x01x\x07\0",
        b"\x01x\x07\0\x02a",
        b"\x01x\x06\xFF\xFFa",
        b"\x01x\x09\0",
    ] {
        check(
            &[event("a", "1"), raw(headers, b"z"), event("b", "2")].concat(),
            &["a=1", "a frame's headers are malformed"],
        );
    }
}

#[test]
fn a_cut_frame_is_known() {
    let bytes = [event("a", "1"), event("b", "2")].concat();
    let first = event("a", "1").len();
    for end in 1..bytes.len() {
        let expected: &[&str] = match end {
            _ if end == first => &["a=1"],
            _ if end < first => &["…"],
            _ => &["a=1", "…"],
        };
        assert_eq!(told(bytes[..end].chunks(3), 1024), expected, "{end}");
    }
}

#[test]
fn a_flipped_bit_is_a_fault() {
    let good = event("a", r#"{"text":"hello"}"#);
    for at in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        let expected = match at / 8 {
            0..PRELUDE => "a frame's lengths do not match their checksum",
            _ => "a frame does not match its checksum",
        };
        assert_eq!(told(bytes.chunks(7), 1024), [expected]);
    }
}

/// The checksum of the lengths is right, and they are not.
#[test]
fn lengths_are_checked() {
    for (total, headers, expected) in [
        (0, 0, "a frame's lengths contradict each other"),
        (15, 0, "a frame's lengths contradict each other"),
        (16, 1, "a frame's lengths contradict each other"),
        (u32::MAX, u32::MAX, "a frame's headers are too large"),
        (u32::MAX, 128 * 1024 + 1, "a frame's headers are too large"),
        (u32::MAX, 128 * 1024, "a frame is too large"),
        (16 + 1025, 0, "a frame is too large"),
    ] {
        check(
            &[prelude(total, headers), b"rest".to_vec()].concat(),
            &[expected],
        );
    }
    check(&[prelude(16 + 1024, 0), b"rest".to_vec()].concat(), &["…"]);
    check(
        &[
            prelude(16 + 128 * 1024 + 1024, 128 * 1024),
            b"rest".to_vec(),
        ]
        .concat(),
        &["…"],
    );
    assert_eq!(
        told([&prelude(16 + 24 * 1024 * 1024, 0)[..]], usize::MAX),
        ["…"]
    );
    assert_eq!(
        told([&prelude(17 + 24 * 1024 * 1024, 0)[..]], usize::MAX),
        ["a frame is too large"]
    );
}

#[test]
fn the_limit_is_of_the_payload() {
    check_with(5, &event("a", "12345"), &["a=12345"]);
    check_with(4, &event("a", "12345"), &["a frame is too large"]);
}

#[test]
fn a_break_drops_the_rest() {
    let bytes = [event("a", "1"), event("b", "2")].concat();
    for cut in 0..event("a", "1").len() {
        let mut decoder = FrameDecoder::new(1024);
        let mut names = Vec::new();
        for piece in [&bytes[..cut], &bytes[cut..]] {
            let flow = decoder.feed(piece, |event| {
                names.push(event.name.to_vec());
                ControlFlow::Break(names.len())
            });
            assert_eq!(
                flow,
                Ok(if piece.len() == cut {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(1)
                })
            );
        }
        assert_eq!(names, [b"a"]);
    }
}

#[test]
fn a_large_frame_leaves_no_large_buffer() {
    let mut decoder = FrameDecoder::new(1 << 20);
    let bytes = event("a", &"x".repeat(100_000));
    for piece in bytes.chunks(1000) {
        assert_eq!(
            decoder.feed(piece, |_| ControlFlow::<()>::Continue(())),
            Ok(ControlFlow::Continue(()))
        );
    }
    assert!(decoder.is_empty() && decoder.pending.capacity() <= KEPT);
}

proptest! {
    /// Frames with faults and garbage in them, cut anywhere, give equal events and an equal fault.
    #[test]
    fn cuts_change_nothing(
        payloads in prop::collection::vec(".{0,40}", 0..6),
        fault in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        tail in prop::collection::vec(any::<u8>(), 0..20),
        cuts in prop::collection::vec(1..40usize, 1..40),
    ) {
        let mut bytes: Vec<u8> = payloads.iter().flat_map(|payload| event("a", payload)).collect();
        if let Some((at, value)) = fault.filter(|_| !bytes.is_empty()) {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.extend_from_slice(&tail);
        let mut pieces = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts.iter().cycle() {
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            pieces.push(piece);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(told(pieces, 1024), told([&bytes[..]], 1024));
    }

    #[test]
    fn garbage_behind_right_checksums_is_no_panic(headers in prop::collection::vec(any::<u8>(), 0..60), payload in prop::collection::vec(any::<u8>(), 0..20)) {
        let bytes = raw(&headers, &payload);
        prop_assert_eq!(told([&bytes[..]], 1024).len(), 1);
    }
}
