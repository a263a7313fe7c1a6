//! Names that a caller invents go into logs and headers. This module decides which names may.

/// Returns the name that the caller wrote, or `other` if it is not safe to show. Names that a
/// caller invents must not fill logs or headers.
pub(crate) fn shown_name(name: &str) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    // A long word may be a key that slipped in among the names.
    let is_word = |word: &str| word.bytes().all(is_plain) && !word.split('.').any(looks_secret);
    let is_shown = !name.is_empty()
        && name.len() <= 64
        && !looks_secret(name)
        && name.split("[]").all(is_word);
    if is_shown { name } else { "other" }
}

/// Returns whether a word looks like a generated key rather than like a name.
pub fn looks_secret(word: &str) -> bool {
    if word.len() < 12 {
        return false;
    }
    let prefixed = ["sk-", "sk_", "gsk_", "xai-", "AIza", "key-", "pk-"]
        .iter()
        .any(|p| word.starts_with(p));
    let random = word.len() >= 28
        && word.bytes().any(|b| b.is_ascii_digit())
        && word.bytes().any(|b| b.is_ascii_uppercase())
        && word.bytes().any(|b| b.is_ascii_lowercase());
    let hex = word.len() >= 32 && word.bytes().all(|b| b.is_ascii_hexdigit());
    prefixed || random || hex
}
