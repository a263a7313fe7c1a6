//! A canary is a secret with a marker in it, so that one look at any output shows whether the
//! secret leaked.

/// The key that a caller sends. The gateway keeps only its SHA-256.
pub const KEY: &str = "sk-CaNaRy-caller-0123456789abcdefghijklmnopqrstuvwxyz";
/// The key that the gateway sends to every upstream.
pub const ACCOUNT_KEY: &str = "sk-CaNaRy-account-0123456789abcdefghijklmnopqrstuv";
/// The key of the admin listener, where a test sets one.
pub const ADMIN_KEY: &str = "sk-CaNaRy-admin-0123456789abcdefghijklmnopqrstuv";
/// The marker in all keys, and in no other text.
pub const MARK: &str = "CaNaRy";
/// The marker in what callers send. It must never reach an upstream.
pub const CALLER_MARK: &str = "CaNaRy-caller";

/// Returns an error if a secret is in `text`.
pub fn check(whence: &str, text: &[u8]) -> Result<(), String> {
    let mark = MARK.as_bytes();
    match text.windows(mark.len()).position(|window| window == mark) {
        None => Ok(()),
        Some(at) => {
            let around = &text[at.saturating_sub(200)..text.len().min(at + 80)];
            Err(format!(
                "a secret leaked into {whence}: …{}…",
                String::from_utf8_lossy(around)
            ))
        }
    }
}

/// Returns the hash under which the catalog holds a key.
pub fn hash(key: &str) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(key.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
