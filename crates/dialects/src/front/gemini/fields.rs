//! The names that callers of Gemini have for the fields of a request.

use std::borrow::Cow;

use crate::neutral::{Field, Request, shown_name};

/// Returns the name of a field.
pub(super) fn field_name(request: &Request<'_>, field: &Field) -> Cow<'static, str> {
    let content = |index: &usize| request.message_path(*index, "contents", "systemInstruction");
    Cow::Borrowed(match field {
        Field::Message(index) => return content(index).into(),
        Field::Part(index, _) | Field::Calls(index) | Field::CallId(index) => {
            return format!("{}.parts", content(index)).into();
        }
        Field::OtherOfMessage(name) => return format!("contents[].{}", shown_name(name)).into(),
        Field::Tool(index) => return format!("tools[].functionDeclarations[{index}]").into(),
        Field::Other(name) => return shown_name(name).to_owned().into(),
        Field::Rest => "other",
        Field::Messages => "contents",
        Field::SecondResult => "contents[].parts[].functionResponse",
        Field::SystemRole | Field::SystemMedia => "systemInstruction",
        Field::Reasoning | Field::Thoughts => "contents[].parts[].thought",
        Field::CallSignature => "contents[].parts[].thoughtSignature",
        Field::CallArguments | Field::CustomCall => "contents[].parts[].functionCall.args",
        Field::ImageDetail => "contents[].parts[].inlineData",
        Field::FileName => "contents[].parts[].inlineData.displayName",
        Field::Tools => "tools",
        Field::ToolParameters => "tools[].functionDeclarations[].parameters",
        Field::ToolStrict | Field::ToolChoice => "toolConfig.functionCallingConfig",
        Field::Format => "generationConfig.responseMimeType",
        Field::FormatDescription | Field::FormatSchema | Field::FormatStrict => {
            "generationConfig.responseJsonSchema"
        }
        Field::MaxTokens => "generationConfig.maxOutputTokens",
        Field::Temperature => "generationConfig.temperature",
        Field::TopP => "generationConfig.topP",
        Field::TopK => "generationConfig.topK",
        Field::FrequencyPenalty => "generationConfig.frequencyPenalty",
        Field::PresencePenalty => "generationConfig.presencePenalty",
        Field::Stop => "generationConfig.stopSequences",
        Field::Seed => "generationConfig.seed",
        Field::Choices => "generationConfig.candidateCount",
        Field::Logprobs => "generationConfig.responseLogprobs",
        Field::Audio => "generationConfig.responseModalities",
        Field::Effort | Field::Thinking | Field::ThinkingType | Field::ThinkingBudget => {
            "generationConfig.thinkingConfig"
        }
        Field::ServiceTier => "serviceTier",
        // Gemini's format has no such fields.
        Field::ParticipantName => "contents[].name",
        Field::CacheHint => "cachedContent",
        Field::ParallelCalls => "toolConfig",
        Field::User => "user",
        Field::Metadata => "labels",
    })
}
