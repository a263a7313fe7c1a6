//! A [`Secret`] is a text that cannot be printed: it has no `Display` and no `Serialize`, its
//! `Debug` is redacted, and it is wiped from memory when dropped.
//!
//! Code that needs the text calls [`Secret::expose`], so a search for that word finds every place
//! where a secret is read.

use std::borrow::Cow;
use std::fmt;

use zeroize::Zeroizing;

/// A credential in clear text.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(from = "String")]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Makes a secret of a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Returns the text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// The most bytes of a text that are looked through, and shown.
const MOST_SHOWN: usize = 256;

/// Cuts a text at the value of its first parameter `key`, however the name is written, and at a
/// part of a path that begins as keys do: no line may show what a client has put together wrongly.
/// Of a long text only the beginning is left.
pub fn cut_keys(text: &str) -> Cow<'_, str> {
    let end = if text.len() <= MOST_SHOWN {
        text.len()
    } else {
        text.floor_char_boundary(MOST_SHOWN)
    };
    let start = text.get(..end).unwrap_or_default();
    if let Some(key_start) = memchr::memmem::find(start.as_bytes(), b"/sk-") {
        return Cow::Owned(format!(
            "{}/[cut]",
            cut_keys(start.get(..key_start).unwrap_or_default())
        ));
    }
    // Most paths have neither.
    if memchr::memchr2(b'=', b'%', start.as_bytes()).is_none() {
        return Cow::Borrowed(start);
    }
    match start
        .char_indices()
        .find(|(key_start, _)| is_key(text.as_bytes().get(*key_start..).unwrap_or_default()))
    {
        Some((key_start, _)) => Cow::Owned(format!(
            "{}key=[cut]",
            start.get(..key_start).unwrap_or_default()
        )),
        None => Cow::Borrowed(start),
    }
}

/// Returns whether a text begins with `key=`. Each character may be percent-encoded, also twice.
fn is_key(text: &[u8]) -> bool {
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

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::{Secret, cut_keys};

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
        assert_eq!(cut_keys(&"%".repeat(60_000)).len(), super::MOST_SHOWN);
        // The name begins in what is shown, and ends behind it.
        let path = format!("/{}key=sk-1", "=".repeat(super::MOST_SHOWN - 3));
        assert!(cut_keys(&path).ends_with("key=[cut]"));
    }

    #[test]
    fn s05_a_secret_prints_nothing_of_itself() {
        let secret = Secret::new("sk-live");
        assert_eq!(
            format!("{secret:?} {:#?}", Some(&secret)),
            "[secret] Some(\n    [secret],\n)"
        );
        assert_eq!(secret.expose(), "sk-live");
    }
}
