//! This module finds the end of the plain bytes of a string: the bytes that stand for themselves.
//!
//! Most of the scanner's time is spent here. So bytes are read in words, and in blocks that the
//! compiler turns into vector instructions.

const ONES: u64 = u64::from_le_bytes([1; 8]);
pub(super) const HIGH_BITS: u64 = ONES << 7;

/// Returns the number of bytes before the first quote, backslash, control character or non-ASCII
/// byte, or fewer: it looks at the first blocks only, and at whole ones. Most strings end there.
#[inline]
pub(super) fn plain_ascii_length(text: &[u8]) -> usize {
    const BLOCKS: usize = 8;
    let (blocks, _) = text.as_chunks::<16>();
    let blocks = blocks.iter().take(BLOCKS);
    let mut plain = 0;
    for block in blocks {
        let mut stops = [0; 16];
        for (index, stop) in stops.iter_mut().enumerate() {
            let byte = block.get(index).copied().unwrap_or_default();
            // Non-ASCII bytes are negative.
            let is_stop = (byte.cast_signed() < 0x20) | (byte == b'"') | (byte == b'\\');
            *stop = if is_stop { u8::MAX } else { 0 };
        }
        let stops = u128::from_le_bytes(stops);
        if stops != 0 {
            return plain + (stops.trailing_zeros() / 8) as usize;
        }
        plain += 16;
    }
    plain
}

/// Returns the number of bytes before the first quote, backslash or control character. Adds every
/// byte on the way, and perhaps a few more, to `high` with a bitwise or. The high bits of `high`
/// are then set if the bytes include non-ASCII.
///
/// Short strings are read in words, and long ones (images in base64) in large blocks.
#[inline]
pub(super) fn plain_length(text: &[u8], high: &mut u64) -> usize {
    const SHORT: usize = 8;
    let (words, tail) = text.as_chunks::<8>();
    for (index, word) in words.iter().take(SHORT).enumerate() {
        if let Some(within) = stop_in(*word, high) {
            return index * 8 + within;
        }
    }
    if words.len() > SHORT {
        return long_plain(text, SHORT * 8, high);
    }
    words.len() * 8 + plain_bytes(tail, high)
}

fn long_plain(text: &[u8], start: usize, high: &mut u64) -> usize {
    // One test for each block costs less in a large block, and finds the end in a small one.
    let start = plain_blocks::<64>(text, plain_blocks::<512>(text, start, high), high);
    let (words, tail) = text.get(start..).unwrap_or_default().as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        if let Some(within) = stop_in(*word, high) {
            return start + index * 8 + within;
        }
    }
    start + words.len() * 8 + plain_bytes(tail, high)
}

/// Returns the offset of the first block that does not hold plain bytes only.
#[inline]
fn plain_blocks<const N: usize>(text: &[u8], start: usize, high: &mut u64) -> usize {
    let (blocks, _) = text.get(start..).unwrap_or_default().as_chunks::<N>();
    let mut plain = start;
    for block in blocks {
        let (least, stops, any) =
            block
                .iter()
                .fold((u8::MAX, 0, 0), |(least, stops, any), byte| {
                    let stop = u8::from(*byte == b'"') | u8::from(*byte == b'\\');
                    (least.min(*byte), stops | stop, any | *byte)
                });
        if least < 0x20 || stops != 0 {
            break;
        }
        *high |= u64::from(any);
        plain += N;
    }
    plain
}

fn plain_bytes(tail: &[u8], high: &mut u64) -> usize {
    let stops = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    let len = tail.iter().position(stops).unwrap_or(tail.len());
    *high |= tail.iter().fold(0, |any, byte| any | u64::from(*byte));
    len
}

/// Finds the first byte of a word that ends a plain run. A subtraction borrows only from a byte
/// that is itself a hit. So a false hit can come only after a true one, and the first hit is always
/// true.
#[inline]
fn stop_in(word: [u8; 8], high: &mut u64) -> Option<usize> {
    let word = u64::from_le_bytes(word);
    *high |= word;
    // With this bit flipped, a quote comes right after the control characters.
    let low = word ^ (ONES * 0x02);
    let backslash = word ^ (ONES * 0x5C);
    let hits = (low.wrapping_sub(ONES * 0x21) & !low) | (backslash.wrapping_sub(ONES) & !backslash);
    let hits = hits & HIGH_BITS;
    (hits != 0).then(|| (hits.trailing_zeros() / 8) as usize)
}
