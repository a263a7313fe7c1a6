//! Writes messages of protobuf, field by field, at the end of some bytes. Pure.
//!
//! Each request may have a trace. Spans that are first made as values, and then written, cost more
//! than half of a plain request; written at once, they cost a sixteenth.

use std::iter::repeat_n;

/// The bit of a byte that says that more bytes of the number follow.
pub(super) const MORE: u8 = 0x80;

/// How the value of a field is written.
#[derive(Clone, Copy)]
enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Length = 2,
    Fixed32 = 5,
}

/// A message that is being written.
#[derive(Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// Begins another message. It reuses the memory of the last one, if that was not longer than
    /// these bytes.
    pub(super) fn reset(&mut self, bytes: usize) {
        self.0.clear();
        self.0.shrink_to(bytes);
    }

    /// Returns what was written.
    pub(super) fn encoded(&self) -> &[u8] {
        &self.0
    }

    /// Returns the place of what is put next.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    /// Returns the bytes that were written last.
    #[inline]
    pub(super) fn last_bytes(&mut self, count: usize) -> Option<&mut [u8]> {
        let start = self.0.len().checked_sub(count)?;
        self.0.get_mut(start..)
    }

    /// Writes bytes as they are: fields, or a part of what was begun.
    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Writes an integer or a truth.
    #[inline]
    pub(super) fn number(&mut self, field: u8, number: u64) {
        self.write_key(field, WireType::Varint);
        self.varint(number);
    }

    /// Writes an integer that always has 64 bits.
    #[inline]
    pub(super) fn fixed64(&mut self, field: u8, number: u64) {
        self.write_key(field, WireType::Fixed64);
        self.put(&number.to_le_bytes());
    }

    /// Writes an integer that always has 32 bits.
    #[inline]
    pub(super) fn fixed32(&mut self, field: u8, number: u32) {
        self.write_key(field, WireType::Fixed32);
        self.put(&number.to_le_bytes());
    }

    /// Writes a number with a fraction.
    #[inline]
    pub(super) fn double(&mut self, field: u8, number: f64) {
        self.fixed64(field, number.to_bits());
    }

    /// Writes bytes, or a text.
    #[inline]
    pub(super) fn bytes(&mut self, field: u8, bytes: &[u8]) {
        self.begin(field, bytes.len());
        self.put(bytes);
    }

    /// Begins a message inside this one, or a text, of this many bytes. They are put next.
    #[inline]
    pub(super) fn begin(&mut self, field: u8, length: usize) {
        self.write_key(field, WireType::Length);
        self.varint(length as u64);
    }

    /// Writes a message inside this one, or a text in parts. Most have fewer than 128 bytes.
    #[inline]
    pub(super) fn short_message(&mut self, field: u8, write: impl FnOnce(&mut Self)) {
        self.write_nested(field, 1, write);
    }

    /// Writes a message inside this one. Most have more bytes, and fewer than 16,384.
    #[inline]
    pub(super) fn long_message(&mut self, field: u8, write: impl FnOnce(&mut Self)) {
        self.write_nested(field, 2, write);
    }

    /// Writes a message inside this one. Its length comes before it, and probably takes this many
    /// bytes. If it takes others, what was written moves.
    #[inline]
    fn write_nested(&mut self, field: u8, room: usize, write: impl FnOnce(&mut Self)) {
        self.write_key(field, WireType::Length);
        let start = self.0.len();
        (0..room).for_each(|_| self.0.push(0));
        write(self);
        let length = (self.0.len() - start - room) as u64;
        let taken = varint_length(length);
        if taken != room {
            drop(self.0.splice(start..start + room, repeat_n(0, taken)));
        }
        let mut rest = length;
        for byte in self.0.get_mut(start..start + taken).unwrap_or_default() {
            let more = if rest >= u64::from(MORE) { MORE } else { 0 };
            *byte = low(rest) | more;
            rest >>= 7;
        }
    }

    #[inline]
    fn write_key(&mut self, field: u8, wire: WireType) {
        self.varint(u64::from(field) << 3 | wire as u64);
    }

    #[inline]
    fn varint(&mut self, mut number: u64) {
        // Nearly all numbers here are small.
        while number >= u64::from(MORE) {
            self.0.push(low(number) | MORE);
            number >>= 7;
        }
        self.0.push(low(number));
    }
}

/// Returns how many bytes a number takes.
#[inline]
pub(super) fn varint_length(number: u64) -> usize {
    if number < u64::from(MORE) {
        return 1;
    }
    (64 - (number | 1).leading_zeros()).div_ceil(7) as usize
}

/// Returns how many bytes a field takes that has a length, if its number is small.
#[inline]
pub(super) fn field_length(length: usize) -> usize {
    1 + varint_length(length as u64) + length
}

/// Returns the lowest seven bits.
#[inline]
pub(super) fn low(number: u64) -> u8 {
    number.to_le_bytes()[0] & !MORE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut Message)) -> Vec<u8> {
        let mut message = Message::default();
        message.put(b"before");
        message.reset(3);
        write(&mut message);
        message.encoded().to_vec()
    }

    #[test]
    fn fields_are_written_as_the_format_says() {
        // The examples of the format's own documentation.
        assert_eq!(written(|m| m.number(1, 150)), [0x08, 0x96, 0x01]);
        assert_eq!(written(|m| m.bytes(2, b"testing")), b"\x12\x07testing");
        assert_eq!(
            written(|m| m.short_message(3, |m| m.number(1, 150))),
            [0x1a, 0x03, 0x08, 0x96, 0x01]
        );
        assert_eq!(
            written(|m| m.number(1, u64::MAX)),
            [8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]
        );
        assert_eq!(written(|m| m.fixed64(7, 1)), [0x39, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(written(|m| m.fixed32(16, 0x101)), [0x85, 0x01, 1, 1, 0, 0]);
        assert_eq!(
            written(|m| m.double(4, 1.0)),
            [0x21, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]
        );
    }

    #[test]
    fn a_message_inside_another_has_its_length_before_it() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 70_000] {
            let inner = vec![b'x'; length];
            let direct = written(|m| m.bytes(1, &inner));
            assert_eq!(direct.len(), field_length(length));
            let fill = |m: &mut Message| m.put(&inner);
            assert_eq!(direct, written(|m| m.short_message(1, fill)), "{length}");
            assert_eq!(direct, written(|m| m.long_message(1, fill)), "{length}");
            // What stands before and after is not moved over.
            let deep = written(|m| {
                m.number(4, 1);
                m.long_message(2, |m| m.short_message(1, fill));
                m.number(3, 1);
            });
            let plain = written(|m| {
                m.number(4, 1);
                m.bytes(2, &direct);
                m.number(3, 1);
            });
            assert_eq!(deep, plain, "{length}");
        }
    }

    #[test]
    fn a_numbers_length_is_known_before_writing() {
        for bits in 0..64 {
            for number in [1 << bits, (1_u64 << bits) - 1, u64::MAX] {
                assert_eq!(
                    written(|m| m.varint(number)).len(),
                    varint_length(number),
                    "{number}"
                );
            }
        }
    }
}
