//! Amazon Bedrock's Converse and ConverseStream: one format for the models of many makers.
//!
//! The format is strict where the callers' is not: turns alternate and begin with the user's, no text is blank, whoever has called a tool
//! before must have tools now, pictures and documents come as bytes. What only some makers' models take (thinking, `top_k`, cache points)
//! depends on the model's family, which its name tells, or an ARN does not.
//!
//! A stream comes in binary frames ([`crate::wire::frames`]); the account signs its requests ([`sign`]) or has a bearer key.

mod answer;
mod blocks;
mod error;
mod models;
mod request;
pub mod sign;
mod tools;

pub use answer::{Reader, answer};
pub use error::error;
pub use models::traits;
pub use request::request;

/// Where a region's models are.
pub fn base_url(region: &str) -> String {
    format!("https://bedrock-runtime.{region}.amazonaws.com")
}

/// What follows the base URL. A model's id may be an ARN, with `:` and `/` in it: all of it is one segment.
pub fn path(model: &str, stream: bool) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let hex = |nibble: u8| HEX.get(usize::from(nibble)).copied().map_or('0', char::from);
    let mut path = String::with_capacity(model.len() + 32);
    path.push_str("/model/");
    for byte in model.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            path.push(char::from(byte));
        } else {
            path.extend(['%', hex(byte >> 4), hex(byte & 15)]);
        }
    }
    path.push_str(if stream { "/converse-stream" } else { "/converse" });
    path
}

#[cfg(test)]
mod tests;
