//! This module has the names that servers give to the field of thinking.

/// DeepSeek's name, which is also the name that callers know.
pub(super) const REASONING_CONTENT: &[u8] = br#""reasoning_content""#;
/// Newer vLLM, Groq, OpenRouter, Together, Ollama.
pub(super) const REASONING: &[u8] = br#""reasoning""#;
/// OpenRouter's list, which may have signatures and summaries.
pub(super) const REASONING_DETAILS: &[u8] = br#""reasoning_details""#;
/// LiteLLM's list, including signatures.
pub(super) const THINKING_BLOCKS: &[u8] = br#""thinking_blocks""#;
/// LiteLLM's object for additional fields of a provider. It repeats this list.
pub(super) const PROVIDER_FIELDS: &[u8] = br#""provider_specific_fields""#;
/// GitHub Copilot.
pub(super) const REASONING_TEXT: &[u8] = br#""reasoning_text""#;
/// All names.
pub(super) const NAMES: [&[u8]; 6] = [
    REASONING_CONTENT,
    REASONING,
    REASONING_DETAILS,
    THINKING_BLOCKS,
    PROVIDER_FIELDS,
    REASONING_TEXT,
];
