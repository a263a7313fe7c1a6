//! The names that callers of Responses have for the fields of a request.

use std::borrow::Cow;

use crate::neutral::{Field, Request, shown_name};

/// Returns the name of a field.
pub(super) fn field_name(request: &Request<'_>, field: &Field) -> Cow<'static, str> {
    let item = |index: &usize| request.message_path(*index, "input", "instructions");
    Cow::Borrowed(match field {
        Field::Message(index) | Field::Calls(index) => return item(index).into(),
        Field::Part(index, _) => return format!("{}.content", item(index)).into(),
        Field::CallId(index) => return format!("{}.call_id", item(index)).into(),
        Field::OtherOfMessage(name) => return format!("input[].{}", shown_name(name)).into(),
        Field::Other(name) => return shown_name(name).to_owned().into(),
        Field::Rest => "other",
        Field::Messages => "input",
        Field::SecondResult => "input[].call_id",
        Field::SystemRole => "input[].role",
        Field::SystemMedia => "input[].content",
        Field::ParticipantName => "input[].name",
        Field::Reasoning | Field::Thoughts => "input[].reasoning",
        Field::CallSignature | Field::CallArguments => "input[].arguments",
        Field::CustomCall => "input[].input",
        Field::ImageDetail => "input[].content[].detail",
        Field::FileName => "input[].content[].filename",
        // The request lists the tools of namespaces with all others, so an index would not be the
        // caller's.
        Field::Tools | Field::Tool(_) => "tools",
        Field::ToolParameters => "tools[].parameters",
        Field::ToolStrict => "tools[].strict",
        Field::ToolChoice => "tool_choice",
        Field::ParallelCalls => "parallel_tool_calls",
        Field::Format => "text.format",
        Field::FormatDescription => "text.format.description",
        Field::FormatSchema => "text.format.schema",
        Field::FormatStrict => "text.format.strict",
        Field::MaxTokens => "max_output_tokens",
        Field::Temperature => "temperature",
        Field::TopP => "top_p",
        Field::Effort | Field::Thinking | Field::ThinkingType | Field::ThinkingBudget => {
            "reasoning.effort"
        }
        Field::User => "safety_identifier",
        Field::Metadata => "metadata",
        Field::ServiceTier => "service_tier",
        Field::Logprobs => "top_logprobs",
        // Responses has no such fields.
        Field::CacheHint => "cache_control",
        Field::TopK => "top_k",
        Field::FrequencyPenalty => "frequency_penalty",
        Field::PresencePenalty => "presence_penalty",
        Field::Stop => "stop",
        Field::Seed => "seed",
        Field::Choices => "n",
        Field::Audio => "modalities",
    })
}
