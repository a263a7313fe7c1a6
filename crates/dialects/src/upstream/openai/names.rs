//! This module has the names that servers give to the field of thinking.

/// DeepSeek's name, which is also the name that callers know.
pub(super) const STANDARD: &[u8] = br#""reasoning_content""#;
/// Newer vLLM, Groq, OpenRouter, Together, Ollama.
pub(super) const SHORT: &[u8] = br#""reasoning""#;
/// OpenRouter's list, which may have signatures and summaries.
pub(super) const DETAILS: &[u8] = br#""reasoning_details""#;
/// LiteLLM's list, including signatures.
pub(super) const BLOCKS: &[u8] = br#""thinking_blocks""#;
/// LiteLLM's object for additional fields of a provider. It repeats this list.
pub(super) const BESIDES: &[u8] = br#""provider_specific_fields""#;
/// GitHub Copilot.
pub(super) const TEXT: &[u8] = br#""reasoning_text""#;
/// All names.
pub(super) const NAMES: [&[u8]; 6] = [STANDARD, SHORT, DETAILS, BLOCKS, BESIDES, TEXT];
