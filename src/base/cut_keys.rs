//! Cuts keys out of texts that a client sent, before they are shown. Some clients put their key
//! into the path: as the value of a parameter `key`, or as a part of the path.

use std::borrow::Cow;

/// The most bytes of a text that are searched and shown, so that a long text costs little.
const MAX_SHOWN_BYTES: usize = 256;

/// Returns the beginning of a text that a client sent, without the keys in it, so that it can be
/// shown. The text ends before the value of its first parameter `key`, even if the name is
/// percent-encoded, and before the first part of a path that begins with `sk-`.
pub fn cut_keys(text: &str) -> Cow<'_, str> {
    let shown_end = if text.len() <= MAX_SHOWN_BYTES {
        text.len()
    } else {
        text.floor_char_boundary(MAX_SHOWN_BYTES)
    };
    let shown = text.get(..shown_end).unwrap_or_default();
    if let Some(key_start) = memchr::memmem::find(shown.as_bytes(), b"/sk-") {
        return Cow::Owned(format!(
            "{}/[cut]",
            cut_keys(shown.get(..key_start).unwrap_or_default())
        ));
    }
    // Without `=` and `%` there is no parameter. Most paths have neither.
    if memchr::memchr2(b'=', b'%', shown.as_bytes()).is_none() {
        return Cow::Borrowed(shown);
    }
    // The name may begin in what is shown and end behind it, so the whole text is looked at.
    match shown
        .char_indices()
        .find(|(key_start, _)| is_key(text.as_bytes().get(*key_start..).unwrap_or_default()))
    {
        Some((key_start, _)) => Cow::Owned(format!(
            "{}key=[cut]",
            shown.get(..key_start).unwrap_or_default()
        )),
        None => Cow::Borrowed(shown),
    }
}

/// Returns whether a text begins with `key=`. Each character may be percent-encoded, also twice.
fn is_key(text: &[u8]) -> bool {
    // The longest form of `key=`: each character encoded twice.
    let text = text.get(..b"%256b%2565%2579%253d".len()).unwrap_or(text);
    let once = decode_percent(text);
    [text, &decode_percent(&once), &once].iter().any(|text| {
        text.get(..4)
            .is_some_and(|name| name.eq_ignore_ascii_case(b"key="))
    })
}

/// Decodes what is percent-encoded.
fn decode_percent(mut text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    while let Some((first, rest)) = text.split_first() {
        let digits = rest
            .get(..2)
            .filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        out.push(byte.unwrap_or(*first));
        text = if byte.is_some() {
            rest.get(2..).unwrap_or_default()
        } else {
            rest
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_stays_in_a_path() {
        for (path, shown) in [
            ("/v1/models", "/v1/models"),
            ("/v1/models&key=sk-1", "/v1/models&key=[cut]"),
            (
                "/v1beta/models%3FKEY%3Dsk-1&a=b",
                "/v1beta/models%3Fkey=[cut]",
            ),
            ("/key=a/key=b/x", "/key=[cut]"),
            ("/x&%6bey=a", "/x&key=[cut]"),
            ("/x&ke%79=a", "/x&key=[cut]"),
            ("/models%253Fkey%253Dsk-1", "/models%253Fkey=[cut]"),
            ("/x%256b%2565%2579%253dsk-1", "/xkey=[cut]"),
            ("api_key=s", "api_key=[cut]"),
            ("/v1/mod%65ls/a=b", "/v1/mod%65ls/a=b"),
            ("/é%", "/é%"),
            ("/v1/sk-1/chat/completions", "/v1/[cut]"),
            ("/key=a/sk-1", "/key=[cut]/[cut]"),
            ("/v1/task-sk-1", "/v1/task-sk-1"),
        ] {
            assert_eq!(cut_keys(path), shown);
        }
    }

    #[test]
    fn a_long_path_costs_little() {
        let long = "/key=".repeat(20_000);
        assert_eq!(cut_keys(&long), "/key=[cut]");
        assert_eq!(cut_keys(&"%".repeat(60_000)).len(), MAX_SHOWN_BYTES);
        // The name begins in what is shown, and ends behind it.
        let path = format!("/{}key=sk-1", "=".repeat(MAX_SHOWN_BYTES - 3));
        assert!(cut_keys(&path).ends_with("key=[cut]"));
    }
}
