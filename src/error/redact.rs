//! Removes secrets from an upstream's text, before a caller or a log line shows it.

use crate::base::table::is_unseen;
use dialects::neutral::looks_secret;
use std::borrow::Cow;

/// Removes from an upstream's text what may be a secret: the credential itself, and any long word
/// that looks like a generated one.
pub fn scrub_secret_words(text: &str, secrets: &[&str]) -> String {
    let text = redact_secrets(text, secrets);
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*' | '.');
    let mut words = text.as_bytes().split(|byte| !word(char::from(*byte)));
    if !words.any(|word| std::str::from_utf8(word).is_ok_and(looks_secret)) {
        return text.into_owned();
    }
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(|c| !word(c)) {
        let (head, between) = piece.split_at(piece.find(|c| !word(c)).unwrap_or(piece.len()));
        out.push_str(if looks_secret(head) {
            "[redacted]"
        } else {
            head
        });
        out.push_str(between);
    }
    out
}

/// Removes the credential itself from a text, and invisible characters: they could be inside of it.
pub fn redact_secrets<'t>(text: &'t str, secrets: &[&str]) -> Cow<'t, str> {
    let is_odd = !text.is_ascii() && text.contains(is_unseen);
    let mut text: Cow<'t, str> = if is_odd {
        text.chars()
            .filter(|c| !is_unseen(*c))
            .collect::<String>()
            .into()
    } else {
        text.into()
    };
    for secret in secrets.iter().filter(|s| !s.is_empty()) {
        if secret.len() <= text.len()
            && memchr::memmem::find(text.as_bytes(), secret.as_bytes()).is_some()
        {
            text = text.replace(secret, "[redacted]").into();
        }
    }
    text
}
