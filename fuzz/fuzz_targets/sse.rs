//! The way in which a stream is cut into reads must not change its events.
//!
//! The first two bytes choose the limit and the length of the reads; the rest is the stream.

#![no_main]

use std::ops::ControlFlow;

use dialects::wire::sse::{Decoder, TooLarge};
use libfuzzer_sys::fuzz_target;

type Events = Vec<(Vec<u8>, Vec<u8>)>;

fuzz_target!(|input: &[u8]| {
    let [limit, length, stream @ ..] = input else {
        return;
    };
    let limit = if *limit == 0 {
        1 << 20
    } else {
        usize::from(*limit)
    };
    let whole = decode(limit, stream, stream.len().max(1));
    assert_eq!(decode(limit, stream, usize::from(*length).max(1)), whole);
    assert_eq!(decode(limit, stream, 1), whole);
});

fn decode(limit: usize, stream: &[u8], length: usize) -> (Events, Result<(), TooLarge>) {
    let mut decoder = Decoder::new(limit);
    let mut events = Events::new();
    for read in stream.chunks(length) {
        let fed = decoder.feed(read, |event| {
            assert!(!event.data.is_empty() && event.data.len() <= limit + 1);
            events.push((event.name.to_vec(), event.data.to_vec()));
            ControlFlow::<()>::Continue(())
        });
        if let Err(error) = fed {
            return (events, Err(error));
        }
    }
    if let Some(last) = decoder.finish(|event| (event.name.to_vec(), event.data.to_vec())) {
        events.push(last);
    }
    (events, Ok(()))
}
