//! JSON that is almost right: a strict reader refuses it, though its meaning is plain.
//!
//! A model may emit half a character. Servers pass that on as bytes that are no UTF-8, or as one
//! half of a pair of surrogates.

use std::borrow::Cow;

use memchr::memchr;

/// Returns the text with U+FFFD for each half of a character; `None` if nothing needs a repair.
pub(crate) fn repaired_text(text: &[u8]) -> Option<Vec<u8>> {
    if is_plain(text) || (memchr(b'\\', text).is_none() && str::from_utf8(text).is_ok()) {
        return None;
    }
    let utf8 = String::from_utf8_lossy(text);
    let is_lossy = matches!(utf8, Cow::Owned(_));
    let mut out = utf8.into_owned().into_bytes();
    let has_lone = replace_lone_surrogates(&mut out);
    (is_lossy || has_lone).then_some(out)
}

/// Returns the repaired text on one line: JSON may have line ends between its values. Returns
/// `None` if nothing changes.
pub(crate) fn repaired_line(text: &[u8]) -> Option<Vec<u8>> {
    if is_plain(text) {
        return None;
    }
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let clean = repaired_text(text);
    if !text.iter().any(is_end) {
        return clean;
    }
    let mut line = clean.unwrap_or_else(|| text.to_vec());
    line.iter_mut()
        .filter(|byte| is_end(byte))
        .for_each(|byte| *byte = b' ');
    Some(line)
}

/// Returns whether a text is ASCII without escapes and control characters, as most are. It is read
/// in large steps, and the last step may read some bytes again.
fn is_plain(text: &[u8]) -> bool {
    let (steps, rest) = text.as_chunks::<32>();
    match text.last_chunk::<32>() {
        Some(last) => {
            steps.iter().all(|step| is_plain_step(step)) && (rest.is_empty() || is_plain_step(last))
        }
        None => is_plain_step(text),
    }
}

fn is_plain_step(step: &[u8]) -> bool {
    !step.iter().fold(false, |odd, byte| {
        odd | !(b' '..0x80).contains(byte) | (*byte == b'\\')
    })
}

/// Writes `\ufffd` over each escape that is half a pair. Returns whether there was any.
fn replace_lone_surrogates(text: &mut [u8]) -> bool {
    let mut any = false;
    let mut rest = text;
    while let Some(position) = memchr(b'\\', rest) {
        let escape = rest.get_mut(position..).unwrap_or_default();
        let step = match (
            surrogate_half(escape),
            surrogate_half(escape.get(6..).unwrap_or_default()),
        ) {
            (Some(Half::High), Some(Half::Low)) => 12,
            (Some(_), _) => {
                escape
                    .iter_mut()
                    .zip(br"\ufffd")
                    .for_each(|(byte, new)| *byte = *new);
                any = true;
                6
            }
            // A backslash and the byte after it, which may be a backslash too.
            (None, _) => 2,
        };
        rest = escape.get_mut(step..).unwrap_or_default();
    }
    any
}

/// Half of a pair.
enum Half {
    High,
    Low,
}

/// Returns the surrogate whose escape a text begins with.
fn surrogate_half(text: &[u8]) -> Option<Half> {
    let digits = text.strip_prefix(br"\u")?.first_chunk::<4>()?;
    match digits.map(|digit| digit.to_ascii_lowercase()) {
        [b'd', b'8' | b'9' | b'a' | b'b', _, _] if digits.iter().all(u8::is_ascii_hexdigit) => {
            Some(Half::High)
        }
        [b'd', b'c' | b'd' | b'e' | b'f', _, _] if digits.iter().all(u8::is_ascii_hexdigit) => {
            Some(Half::Low)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &[u8], expected: Option<&str>) {
        let found = repaired_text(text).map(|text| String::from_utf8(text).unwrap());
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn line_ends_become_blanks_wherever_they_stand() {
        for length in 0..100 {
            for at in 0..length {
                for (byte, becomes) in [
                    (b'\n', Some(b' ')),
                    (b'\r', Some(b' ')),
                    (0xFF, Some(0xEF)),
                    (b'\t', None),
                    (b'\\', None),
                ] {
                    let mut text = vec![b'a'; length];
                    text[at] = byte;
                    let line = repaired_line(&text);
                    assert_eq!(line.map(|line| line[at]), becomes, "{length} {at} {byte}");
                }
            }
            assert_eq!(repaired_line(&vec![b'a'; length]), None);
        }
    }

    #[test]
    fn halves_of_characters_are_replaced() {
        check(b"\"a\xC3\"", Some("\"a\u{FFFD}\""));
        check(b"\xFF\xFE", Some("\u{FFFD}\u{FFFD}"));
        check(br#""\ud83d""#, Some(r#""\ufffd""#));
        check(br#""\uDE00x""#, Some(r#""\ufffdx""#));
        check(
            br#""\ud83d\ud83d\ude00\ude00""#,
            Some(r#""\ufffd\ud83d\ude00\ufffd""#),
        );
        check(br#""\ud83dx\ude00""#, Some(r#""\ufffdx\ufffd""#));
        check(br#""\ud83d\n""#, Some(r#""\ufffd\n""#));
        check(br#""\\\ud83d""#, Some(r#""\\\ufffd""#));
        check(b"\"\\ud83d\xC3\"", Some("\"\\ufffd\u{FFFD}\""));
    }

    #[test]
    fn what_is_right_is_not_touched() {
        for text in [
            &br#""\ud83d\ude00""#[..],
            br#""\uD83D\uDE00 \u00e9 \" \\ud83d""#,
            "\"é😀\"".as_bytes(),
            br"\",
            br"\u",
            br"\ud83",
            br"\ud8zz",
            b"",
        ] {
            check(text, None);
        }
    }
}
