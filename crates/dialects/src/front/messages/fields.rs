//! The names that callers of Messages have for the fields of a request.

use std::borrow::Cow;

use crate::neutral::{Field, Request, shown_name};

/// Returns the name of a field.
pub(super) fn field_name(request: &Request<'_>, field: &Field) -> Cow<'static, str> {
    let message = |index: &usize| request.message_path(*index, "messages", "system");
    Cow::Borrowed(match field {
        Field::Message(index) => return message(index).into(),
        Field::Part(index, _) | Field::Calls(index) | Field::CallId(index) => {
            return format!("{}.content", message(index)).into();
        }
        Field::OtherOfMessage(name) => return format!("messages[].{}", shown_name(name)).into(),
        Field::Tool(index) => return format!("tools[{index}]").into(),
        Field::Other(name) => return shown_name(name).to_owned().into(),
        Field::Rest => "other",
        Field::Messages => "messages",
        Field::SecondResult => "messages[].content[].tool_use_id",
        Field::SystemRole => "system",
        Field::SystemMedia => "messages[].content",
        Field::ParticipantName => "messages[].name",
        Field::Reasoning | Field::Thoughts => "messages[].content[].thinking",
        Field::CallSignature => "messages[].content[].signature",
        Field::CallArguments | Field::CustomCall => "messages[].content[].input",
        Field::ImageDetail => "messages[].content[].source",
        Field::FileName => "messages[].content[].title",
        Field::CacheHint => "cache_control",
        Field::Tools => "tools",
        Field::ToolParameters => "tools[].input_schema",
        Field::ToolStrict => "tools[].strict",
        Field::ToolChoice => "tool_choice",
        Field::ParallelCalls => "tool_choice.disable_parallel_tool_use",
        Field::Format | Field::FormatDescription => "output_config.format",
        Field::FormatSchema => "output_config.format.schema",
        Field::FormatStrict => "output_config.format.strict",
        Field::MaxTokens => "max_tokens",
        Field::Temperature => "temperature",
        Field::TopP => "top_p",
        Field::TopK => "top_k",
        Field::Stop => "stop_sequences",
        Field::Effort => "output_config.effort",
        Field::Thinking => "thinking",
        Field::ThinkingType => "thinking.type",
        Field::ThinkingBudget => "thinking.budget_tokens",
        Field::User => "metadata.user_id",
        Field::Metadata => "metadata",
        Field::ServiceTier => "service_tier",
        // Anthropic's format has no such fields.
        Field::FrequencyPenalty => "frequency_penalty",
        Field::PresencePenalty => "presence_penalty",
        Field::Seed => "seed",
        Field::Choices => "n",
        Field::Logprobs => "logprobs",
        Field::Audio => "modalities",
    })
}
