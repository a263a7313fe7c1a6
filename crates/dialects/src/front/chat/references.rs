//! The members of a chat request's messages that cannot refer to files or URLs. Every other text of
//! a part may hold a reference, because each server has names of its own for them (`image_url`,
//! `video_url`, `source`, and so on).

/// Returns whether a member refers to nothing.
pub(super) fn is_plain_in(name: &[u8], is_message: bool, is_text: bool) -> bool {
    match is_message {
        true => is_plain_in_message(name) || (is_text && name == b"content"),
        false => is_plain(name),
    }
}

/// Returns whether a member of a message refers to nothing, because a server makes text of it. An
/// assistant's `audio` is the id of the model's own earlier answer.
pub(super) fn is_plain_in_message(name: &[u8]) -> bool {
    name == b"audio" || is_plain(name)
}

/// Returns whether a member of a part, or of a message, refers to nothing.
pub(super) fn is_plain(name: &[u8]) -> bool {
    matches!(
        name,
        b"type"
            | b"text"
            | b"role"
            | b"name"
            | b"refusal"
            | b"cache_control"
            | b"prompt_cache_breakpoint"
            | b"thinking"
            | b"signature"
            | b"thinking_blocks"
            | b"reasoning"
            | b"reasoning_content"
            | b"reasoning_details"
            | b"annotations"
            | b"citations"
            | b"tool_calls"
            | b"tool_call_id"
            | b"function_call"
            | b"extra_content"
    )
}

#[cfg(test)]
mod tests;
