//! The names that servers give to thinking.

/// The name that DeepSeek gave it, which is the callers' one.
pub(super) const STANDARD: &[u8] = br#""reasoning_content""#;
/// Newer vLLM, Groq, OpenRouter, Together, Ollama.
pub(super) const SHORT: &[u8] = br#""reasoning""#;
/// OpenRouter's list, with signatures and summaries in it.
pub(super) const DETAILS: &[u8] = br#""reasoning_details""#;
/// LiteLLM's list, signatures and all.
pub(super) const BLOCKS: &[u8] = br#""thinking_blocks""#;
/// Its object of whatever the provider said besides, the same list included.
pub(super) const BESIDES: &[u8] = br#""provider_specific_fields""#;
/// GitHub Copilot.
pub(super) const TEXT: &[u8] = br#""reasoning_text""#;
/// All of them.
pub(super) const NAMES: [&[u8]; 6] = [STANDARD, SHORT, DETAILS, BLOCKS, BESIDES, TEXT];
