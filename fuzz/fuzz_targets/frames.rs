//! Streams of JSON lines and of Amazon's frames. The way in which a stream is cut into reads
//! changes nothing, whole frames come out as they went in, and broken ones end the stream.
//!
//! The first three bytes choose the limit, the length of the reads, and what is broken. The rest is
//! the stream of lines. Cut at each `|`, it is also the payloads of frames whose checksums are
//! right, since no random bytes have right ones.

#![no_main]

use std::ops::ControlFlow;

use dialects::wire::{frames, lines};
use libfuzzer_sys::fuzz_target;

type Events = Vec<(Vec<u8>, Vec<u8>)>;

fuzz_target!(|input: &[u8]| {
    let [limit, length, broken, stream @ ..] = input else {
        return;
    };
    let limit = if *limit == 0 {
        1 << 20
    } else {
        usize::from(*limit)
    };
    let length = usize::from(*length).max(1);
    let whole = of_lines(limit, stream, stream.len().max(1));
    assert_eq!(of_lines(limit, stream, length), whole);
    assert_eq!(of_lines(limit, stream, 1), whole);

    // The raw bytes are no frames, so the stream may only end.
    drop(same_however_cut(limit, stream, length));
    let payloads: Vec<&[u8]> = stream.split(|byte| *byte == b'|').collect();
    let mut framed: Vec<u8> = payloads.iter().flat_map(|payload| frame(payload)).collect();
    let (events, end) = same_however_cut(limit, &framed, length);
    let fit = payloads
        .iter()
        .take_while(|payload| payload.len() <= limit)
        .count();
    let got: Vec<&[u8]> = events.iter().map(|(_, data)| &**data).collect();
    assert_eq!(
        (got, end.is_ok()),
        (
            payloads.get(..fit).unwrap_or_default().to_vec(),
            fit == payloads.len()
        )
    );
    let at = usize::from(*broken) * framed.len() / 256;
    if let Some(byte) = framed.get_mut(at) {
        *byte ^= 1 << (at % 8);
        let (told, end) = same_however_cut(limit, &framed, length);
        // A checksum notices every single bit.
        assert!(end.is_err() && told.len() < payloads.len() && events.starts_with(&told));
    }
});

fn of_lines(limit: usize, stream: &[u8], length: usize) -> (Events, bool) {
    let mut decoder = lines::LineDecoder::new(limit);
    let mut events = Events::new();
    for read in stream.chunks(length) {
        let fed = decoder.feed(read, |event| {
            assert!(event.name.is_empty() && !event.data.is_empty() && event.data.len() <= limit);
            events.push((event.name.to_vec(), event.data.to_vec()));
            ControlFlow::<()>::Continue(())
        });
        if fed.is_err() {
            return (events, false);
        }
        assert!(decoder.buffered() <= limit);
    }
    events.extend(decoder.finish(|event| (event.name.to_vec(), event.data.to_vec())));
    (events, true)
}

/// Returns the events, and whether the last frame was whole; an error has its text.
fn same_however_cut(
    limit: usize,
    stream: &[u8],
    length: usize,
) -> (Events, Result<bool, &'static str>) {
    let whole = of_frames(limit, stream, stream.len().max(1));
    assert_eq!(of_frames(limit, stream, length), whole);
    assert_eq!(of_frames(limit, stream, 1), whole);
    match whole {
        // A stream that is cut has not ended.
        (events, Ok(false)) => (events, Err("cut")),
        told => told,
    }
}

fn of_frames(limit: usize, stream: &[u8], length: usize) -> (Events, Result<bool, &'static str>) {
    let mut decoder = frames::FrameDecoder::new(limit);
    let mut events = Events::new();
    for read in stream.chunks(length) {
        let fed = decoder.feed(read, |event| {
            events.push((event.name.to_vec(), event.data.to_vec()));
            ControlFlow::<()>::Continue(())
        });
        if let Err(frames::Broken(why)) = fed {
            return (events, Err(why));
        }
    }
    (events, Ok(decoder.is_empty()))
}

fn frame(payload: &[u8]) -> Vec<u8> {
    let mut headers = Vec::new();
    for (name, value) in [
        (":message-type", "event"),
        (":event-type", "contentBlockDelta"),
    ] {
        headers.push(u8::try_from(name.len()).expect("a short name"));
        headers.extend_from_slice(name.as_bytes());
        headers.push(7);
        headers.extend_from_slice(
            &u16::try_from(value.len())
                .expect("a short value")
                .to_be_bytes(),
        );
        headers.extend_from_slice(value.as_bytes());
    }
    let number = |number: usize| u32::try_from(number).expect("a small number").to_be_bytes();
    let mut frame = [
        number(12 + headers.len() + payload.len() + 4),
        number(headers.len()),
    ]
    .concat();
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame.extend_from_slice(&headers);
    frame.extend_from_slice(payload);
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame
}
