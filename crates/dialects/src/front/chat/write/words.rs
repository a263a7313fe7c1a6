//! How both kinds of answer write what is the same in both.

use crate::neutral::answer::is_picture;
use crate::wire::json::escape_into;

/// The id that the caller sees for an upstream's own; one of unlikely length is not taken.
pub(super) fn answer_id(id: &str) -> Option<Vec<u8>> {
    if id.is_empty() || id.len() > 256 {
        return None;
    }
    let mut literal = if id.starts_with(PREFIX) { Vec::new() } else { PREFIX.as_bytes().to_vec() };
    escape_into(id, &mut literal);
    Some(literal)
}

const PREFIX: &str = "chatcmpl-";

/// Appends a string, after what comes before it.
#[inline]
pub(super) fn text(out: &mut Vec<u8>, before: &str, text: &str) {
    out.extend_from_slice(before.as_bytes());
    out.push(b'"');
    escape_into(text, out);
    out.push(b'"');
}

/// Appends a small number.
#[inline]
pub(super) fn number(out: &mut Vec<u8>, number: usize) {
    match u8::try_from(number) {
        Ok(digit @ 0..10) => out.push(b'0' + digit),
        Ok(_) | Err(_) => out.extend_from_slice(number.to_string().as_bytes()),
    }
}

/// Appends what a call is, from its id on, and closes its object.
pub(super) fn call(out: &mut Vec<u8>, id: &str, name: &str, arguments: &str, signature: Option<&str>) {
    text(out, r#""id":"#, id);
    out.extend_from_slice(br#","type":"function""#);
    if let Some(signature) = signature {
        // As Google's own server for OpenAI's clients shows it.
        text(out, r#","extra_content":{"google":{"thought_signature":"#, signature);
        out.extend_from_slice(b"}}");
    }
    text(out, r#","function":{"name":"#, name);
    text(out, r#","arguments":"#, arguments);
    out.extend_from_slice(b"}}");
}

/// The list that it belongs into: a client that shows pictures must not find a sound among them.
pub(super) fn media_list(mime: &str) -> &'static str {
    if is_picture(mime) { "images" } else { "files" }
}

/// Appends an entry of either list. The index is what clients merge lists by.
pub(super) fn media(out: &mut Vec<u8>, index: usize, mime: &str, data: &str) {
    out.extend_from_slice(br#"{"index":"#);
    number(out, index);
    out.extend_from_slice(if is_picture(mime) {
        br#","type":"image_url","image_url":{"url":"data:"#.as_slice()
    } else {
        br#","type":"file","file":{"file_data":"data:"#
    });
    escape_into(mime, out);
    out.extend_from_slice(b";base64,");
    escape_into(data, out);
    out.extend_from_slice(br#""}}"#);
}
