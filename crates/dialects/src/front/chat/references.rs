//! The members of a chat request's messages that cannot refer to files or URLs. Every other text of
//! a part may hold a reference, because each server has names of its own for them (`image_url`,
//! `video_url`, `source`, and so on).

/// Returns whether a member of a message may refer to something. An assistant's `audio` is the id
/// of the model's own earlier answer.
pub(super) fn may_refer_in_message(name: &[u8]) -> bool {
    name != b"audio" && may_refer(name)
}

/// Returns whether a member of a part, or of a message, may refer to something. Of the others a
/// server makes text.
pub(super) fn may_refer(name: &[u8]) -> bool {
    !matches!(
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
