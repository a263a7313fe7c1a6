//! Percent-encoding (RFC 3986).

/// Encodes text as one segment of a path, or as a value in a query. Encodes everything but
/// unreserved characters (§2.3). A segment of only dots would be a step in the tree of paths, so it
/// becomes a name that nothing has.
pub fn encode_segment(text: &str) -> String {
    if text.bytes().all(|byte| byte == b'.') {
        return "_".repeat(text.len().max(1));
    }
    let mut out = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte))
            }
            _ => out.extend(['%', hex_digit(byte >> 4), hex_digit(byte & 15)]),
        }
    }
    out
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(nibble.into(), 16).map_or('0', |digit| digit.to_ascii_uppercase())
}

/// Decodes a text. Returns `None` if a `%` is not followed by two hexadecimal digits.
pub fn decode_text(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let nibble = |byte: Option<u8>| char::from(byte?).to_digit(16);
        bytes.push(match byte {
            b'%' => u8::try_from(nibble(rest.next())? * 16 + nibble(rest.next())?).ok()?,
            byte => byte,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{decode_text, encode_segment};

    #[test]
    fn what_is_encoded_is_decoded() {
        let text = "a:b/c d%é?#&=+";
        assert_eq!(
            decode_text(&encode_segment(text)).as_deref(),
            Some(text.as_bytes())
        );
        assert_eq!(decode_text("%4a%4Ax%00").as_deref(), Some(&b"JJx\0"[..]));
        for broken in ["%", "%4", "%4x", "%+4", "a%%41"] {
            assert_eq!(decode_text(broken), None, "{broken}");
        }
    }

    #[test]
    fn only_what_is_unreserved_stays() {
        assert_eq!(encode_segment("aZ09-._~"), "aZ09-._~");
        assert_eq!(
            encode_segment("a:b/c d%é?#&=+"),
            "a%3Ab%2Fc%20d%25%C3%A9%3F%23%26%3D%2B"
        );
        assert_eq!(encode_segment("\0\x7f"), "%00%7F");
    }

    #[test]
    fn no_segment_is_a_step_in_the_tree() {
        assert_eq!(
            [
                encode_segment(""),
                encode_segment("."),
                encode_segment(".."),
                encode_segment("...")
            ],
            ["_", "_", "__", "___"]
        );
        assert_eq!(encode_segment("..a"), "..a");
    }
}
