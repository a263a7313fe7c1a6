//! This module maps any server's finish reason to one of OpenAI's five, or to a failure.
//!
//! **Invariant:** no reason is invented. A missing reason stays missing.

use crate::wire::json::{Span, text_of};
use crate::wire::shorten_text;

/// The meaning of a `finish_reason`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finish {
    /// The choice goes on: the value is `null`, an empty string, or no string.
    Missing,
    /// The choice ended, for one of OpenAI's reasons.
    Ended(&'static str),
    /// The choice ended, with an unknown reason. The caller sees `stop`, because the upstream did
    /// declare the end. The upstream's word is kept next to it as `native_finish_reason`.
    EndedBy(String),
    /// The upstream gave up. The text so far is not the answer.
    Failed(&'static str),
}

/// The reason that an unknown word becomes.
pub(super) const STOP: &str = "stop";

/// The reason of an answer that a filter stopped.
pub(super) const FILTERED: &str = "content_filter";

/// Reads the value of a `finish_reason`.
pub(super) fn read_finish(text: &[u8], value: &Span) -> Finish {
    text_of(text, value).map_or(Finish::Missing, |word| finish_from_word(&word))
}

/// Reads the word of a `finish_reason`.
pub(super) fn finish_from_word(word: &str) -> Finish {
    let word = word.trim();
    if word.is_empty() {
        return Finish::Missing;
    }
    // Gemini, through Google's server for OpenAI's clients: `content_filter: SAFETY`.
    let word = word
        .strip_prefix("content_filter:")
        .map_or(word, |_| FILTERED);
    let is_it = |known: &&&str| word.eq_ignore_ascii_case(known);
    if let Some((reason, _)) = KNOWN
        .iter()
        .find(|(_, words)| words.iter().any(|known| is_it(&known)))
    {
        return Finish::Ended(reason);
    }
    match FAILED.iter().copied().flatten().find(is_it) {
        Some(known) => Finish::Failed(known),
        None => Finish::EndedBy(shorten_text(word, 64)),
    }
}

/// Returns the reason that is shown. It is `tool_calls` if calls were made, unless the last call
/// may be cut short.
pub(super) fn shown_reason(reason: &'static str, made_calls: bool) -> &'static str {
    if made_calls && !is_cut(reason) {
        "tool_calls"
    } else {
        reason
    }
}

/// Returns whether an answer with this reason may be cut short.
pub(super) fn is_cut(reason: &str) -> bool {
    matches!(reason, "length" | FILTERED)
}

/// OpenAI's reasons, and other words for them.
const KNOWN: [(&str, &[&str]); 11] = [
    (STOP, &["stop"]),
    ("length", &["length"]),
    ("tool_calls", &["tool_calls", "tool_call", "tool_use"]),
    (FILTERED, &["content_filter"]),
    ("function_call", &["function_call"]),
    // Together, TGI, Cohere, and Bedrock and Claude behind proxies.
    (
        STOP,
        &[
            "eos",
            "eos_token",
            "stop_token",
            "stop_sequence",
            "end_turn",
            "complete",
            "completed",
        ],
    ),
    // Mistral, Bedrock
    (
        "length",
        &[
            "max_tokens",
            "max_output_tokens",
            "model_length",
            "model_context_window_exceeded",
        ],
    ),
    (
        FILTERED,
        &["content_filtered", "guardrail_intervened", "refusal"],
    ),
    // Gemini's words behind proxies.
    (
        FILTERED,
        &[
            "safety",
            "recitation",
            "prohibited_content",
            "blocklist",
            "spii",
            "model_armor",
        ],
    ),
    (
        FILTERED,
        &[
            "image_safety",
            "image_prohibited_content",
            "image_recitation",
        ],
    ),
    // Zhipu, Cohere
    (FILTERED, &["sensitive", "error_toxic"]),
];

/// The words of servers that gave up.
const FAILED: [&[&str]; 5] = [
    &["error"],
    // vLLM, SGLang
    &["abort", "aborted", "cancelled", "canceled"],
    // DeepSeek, Zhipu
    &["insufficient_system_resource", "network_error"],
    // Cohere
    &["timeout", "failed", "server_error", "internal_error"],
    // Bedrock, Gemini
    &[
        "malformed_model_output",
        "malformed_tool_use",
        "malformed_function_call",
    ],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_mapped_and_none_is_made_up() {
        for (value, expected) in [
            ("null", Finish::Missing),
            (r#""""#, Finish::Missing),
            ("0", Finish::Missing),
            (r#""stop""#, Finish::Ended("stop")),
            (r#""eos""#, Finish::Ended("stop")),
            (r#""eos_token""#, Finish::Ended("stop")),
            (r#""stop_sequence""#, Finish::Ended("stop")),
            (r#""COMPLETE""#, Finish::Ended("stop")),
            (r#""length""#, Finish::Ended("length")),
            (r#""model_length""#, Finish::Ended("length")),
            (r#""max_tokens""#, Finish::Ended("length")),
            (r#""MAX_TOKENS""#, Finish::Ended("length")),
            (r#""tool_calls""#, Finish::Ended("tool_calls")),
            (r#""function_call""#, Finish::Ended("function_call")),
            (r#""content_filter""#, Finish::Ended("content_filter")),
            (r#""SPII""#, Finish::Ended("content_filter")),
            (
                r#""content_filter: SAFETY""#,
                Finish::Ended("content_filter"),
            ),
            (r#""error""#, Finish::Failed("error")),
            (r#""abort""#, Finish::Failed("abort")),
            (
                r#""insufficient_system_resource""#,
                Finish::Failed("insufficient_system_resource"),
            ),
            (r#""<|im_end|>""#, Finish::EndedBy("<|im_end|>".into())),
        ] {
            assert_eq!(
                read_finish(value.as_bytes(), &(0..value.len())),
                expected,
                "{value}"
            );
        }
    }

    #[test]
    fn calls_are_tool_calls_unless_they_may_be_cut() {
        assert_eq!(shown_reason("stop", true), "tool_calls");
        assert_eq!(shown_reason("function_call", true), "tool_calls");
        assert_eq!(shown_reason("length", true), "length");
        assert_eq!(shown_reason("content_filter", true), "content_filter");
        assert_eq!(shown_reason("stop", false), "stop");
    }
}
