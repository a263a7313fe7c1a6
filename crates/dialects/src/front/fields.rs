//! The names that callers of each format have for the fields of a request: one table.

use std::borrow::Cow;

use crate::neutral::{Field, PartKind, Request, shown_name};

/// The format whose names are used.
#[derive(Clone, Copy)]
pub(super) enum Wording {
    Chat,
    Messages,
    Responses,
    Gemini,
}

/// The name of a field in each format: chat, Messages, Responses and Gemini. A format that lacks
/// the field has its usual name.
type Names = [&'static str; 4];

/// Returns the names of a field that only Gemini names in another way.
const fn share_name(name: &'static str, gemini: &'static str) -> Names {
    [name, name, name, gemini]
}

impl Wording {
    /// Returns the usual name of a field: of several names, the one that most callers write.
    pub(super) fn field_name(self, request: &Request<'_>, field: &Field) -> Cow<'static, str> {
        let names = match field {
            Field::Message(index) => return self.message_path(request, *index).into(),
            Field::Part(index, part) => {
                let kind = part_type(request, *index, *part);
                let chat = format!(".content[{part}].{kind}");
                return self.member(request, *index, [&chat, ".content", ".content", ".parts"]);
            }
            Field::Calls(index) => {
                return self.member(request, *index, [".tool_calls", ".content", "", ".parts"]);
            }
            Field::CallId(index) => {
                let ends = [".tool_call_id", ".content", ".call_id", ".parts"];
                return self.member(request, *index, ends);
            }
            Field::OtherOfMessage(name) => {
                let list = self.choose(["messages", "messages", "input", "contents"]);
                return format!("{list}[].{}", shown_name(name)).into();
            }
            Field::Tool(index) => {
                return match self {
                    Wording::Chat | Wording::Messages => format!("tools[{index}]").into(),
                    // The request lists the tools of namespaces with all others, so an index would
                    // not be the caller's.
                    Wording::Responses => "tools".into(),
                    Wording::Gemini => format!("tools[].functionDeclarations[{index}]").into(),
                };
            }
            Field::Other(name) => return shown_name(name).to_owned().into(),
            Field::Rest => ["other"; 4],
            Field::Messages => ["messages", "messages", "input", "contents"],
            Field::SecondResult => [
                "messages[]",
                "messages[].content[].tool_use_id",
                "input[].call_id",
                "contents[].parts[].functionResponse",
            ],
            Field::SystemRole => [
                "messages[].role",
                "system",
                "input[].role",
                "systemInstruction",
            ],
            Field::SystemMedia => [
                "messages[].content",
                "messages[].content",
                "input[].content",
                "systemInstruction",
            ],
            Field::ParticipantName => [
                "messages[].name",
                "messages[].name",
                "input[].name",
                "contents[].name",
            ],
            Field::Reasoning => [
                "messages[].reasoning_content",
                "messages[].content[].thinking",
                "input[].reasoning",
                "contents[].parts[].thought",
            ],
            Field::Thoughts => [
                "messages[].thinking_blocks",
                "messages[].content[].thinking",
                "input[].reasoning",
                "contents[].parts[].thought",
            ],
            Field::CallSignature => [
                "messages[].tool_calls[].extra_content",
                "messages[].content[].signature",
                "input[].arguments",
                "contents[].parts[].thoughtSignature",
            ],
            Field::CallArguments => [
                "messages[].tool_calls[].function.arguments",
                "messages[].content[].input",
                "input[].arguments",
                "contents[].parts[].functionCall.args",
            ],
            Field::CustomCall => [
                "messages[].tool_calls[].custom",
                "messages[].content[].input",
                "input[].input",
                "contents[].parts[].functionCall.args",
            ],
            Field::ImageDetail => [
                "messages[].content[].image_url.detail",
                "messages[].content[].source",
                "input[].content[].detail",
                "contents[].parts[].inlineData",
            ],
            Field::FileName => [
                "messages[].content[].file.filename",
                "messages[].content[].title",
                "input[].content[].filename",
                "contents[].parts[].inlineData.displayName",
            ],
            Field::CacheHint => share_name("cache_control", "cachedContent"),
            Field::Tools => ["tools"; 4],
            Field::ToolParameters => [
                "tools[].function.parameters",
                "tools[].input_schema",
                "tools[].parameters",
                "tools[].functionDeclarations[].parameters",
            ],
            Field::ToolStrict => [
                "tools[].function.strict",
                "tools[].strict",
                "tools[].strict",
                "toolConfig.functionCallingConfig",
            ],
            Field::ToolChoice => share_name("tool_choice", "toolConfig.functionCallingConfig"),
            Field::ParallelCalls => [
                "parallel_tool_calls",
                "tool_choice.disable_parallel_tool_use",
                "parallel_tool_calls",
                "toolConfig",
            ],
            Field::Format => [
                "response_format",
                "output_config.format",
                "text.format",
                "generationConfig.responseMimeType",
            ],
            Field::FormatDescription => [
                "response_format.json_schema.description",
                "output_config.format",
                "text.format.description",
                "generationConfig.responseJsonSchema",
            ],
            Field::FormatSchema => [
                "response_format.json_schema.schema",
                "output_config.format.schema",
                "text.format.schema",
                "generationConfig.responseJsonSchema",
            ],
            Field::FormatStrict => [
                "response_format.json_schema.strict",
                "output_config.format.strict",
                "text.format.strict",
                "generationConfig.responseJsonSchema",
            ],
            Field::MaxTokens => [
                "max_tokens",
                "max_tokens",
                "max_output_tokens",
                "generationConfig.maxOutputTokens",
            ],
            Field::Temperature => share_name("temperature", "generationConfig.temperature"),
            Field::TopP => share_name("top_p", "generationConfig.topP"),
            Field::TopK => share_name("top_k", "generationConfig.topK"),
            Field::FrequencyPenalty => {
                share_name("frequency_penalty", "generationConfig.frequencyPenalty")
            }
            Field::PresencePenalty => {
                share_name("presence_penalty", "generationConfig.presencePenalty")
            }
            Field::Stop => [
                "stop",
                "stop_sequences",
                "stop",
                "generationConfig.stopSequences",
            ],
            Field::Seed => share_name("seed", "generationConfig.seed"),
            Field::Choices => share_name("n", "generationConfig.candidateCount"),
            Field::Logprobs => [
                "logprobs",
                "logprobs",
                "top_logprobs",
                "generationConfig.responseLogprobs",
            ],
            Field::Audio => share_name("modalities", "generationConfig.responseModalities"),
            Field::Effort => [
                "reasoning_effort",
                "output_config.effort",
                "reasoning.effort",
                "generationConfig.thinkingConfig",
            ],
            Field::Thinking => [
                "thinking",
                "thinking",
                "reasoning.effort",
                "generationConfig.thinkingConfig",
            ],
            Field::ThinkingType => [
                "thinking.type",
                "thinking.type",
                "reasoning.effort",
                "generationConfig.thinkingConfig",
            ],
            Field::ThinkingBudget => [
                "thinking.budget_tokens",
                "thinking.budget_tokens",
                "reasoning.effort",
                "generationConfig.thinkingConfig",
            ],
            Field::User => ["user", "metadata.user_id", "safety_identifier", "user"],
            Field::Metadata => share_name("metadata", "labels"),
            Field::ServiceTier => share_name("service_tier", "serviceTier"),
        };
        self.choose(names).into()
    }

    fn choose<T>(self, of_formats: [T; 4]) -> T {
        let [chat, messages, responses, gemini] = of_formats;
        match self {
            Wording::Chat => chat,
            Wording::Messages => messages,
            Wording::Responses => responses,
            Wording::Gemini => gemini,
        }
    }

    /// Returns the path of a member of a message.
    fn member(self, request: &Request<'_>, index: usize, ends: [&str; 4]) -> Cow<'static, str> {
        let message = self.message_path(request, index);
        format!("{message}{}", self.choose(ends)).into()
    }

    fn message_path(self, request: &Request<'_>, index: usize) -> String {
        match self {
            Wording::Chat => format!("messages[{index}]"),
            Wording::Messages => request.message_path(index, "messages", "system"),
            Wording::Responses => request.message_path(index, "input", "instructions"),
            Wording::Gemini => request.message_path(index, "contents", "systemInstruction"),
        }
    }
}

/// Returns the type of a message's part in chat.
fn part_type(request: &Request<'_>, message: usize, part: usize) -> &'static str {
    let message = request.messages.get(message);
    match message.and_then(|message| Some(&message.content.get(part)?.kind)) {
        Some(PartKind::Text(_)) | None => "text",
        Some(PartKind::Image(..)) => "image_url",
        Some(PartKind::Audio(..)) => "input_audio",
        Some(PartKind::File(..)) => "file",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::front::chat::read::read_request;
    use crate::front::{CHAT, FieldNames};
    use crate::neutral::{FieldRefused, Losses, LostFields, Refused, Target, Written};

    /// A request that a dialect wrote, with the names of its lost fields in the caller's words.
    pub(crate) type Worded = Written<Cow<'static, str>>;
    type Write = fn(&Request<'_>, &Target<'_>) -> Result<Written, FieldRefused>;

    /// Reads a body and lets a dialect write it.
    pub(crate) fn through(
        body: &[u8],
        target: &Target<'_>,
        write: Write,
    ) -> Result<Worded, Refused> {
        let (request, names) = read_request(body)?;
        names.in_callers_words(&request, write(&request, target))
    }

    /// Returns the lost fields in the words of a caller with the usual spelling.
    pub(crate) fn in_words(losses: LostFields) -> Losses {
        FieldNames::new(CHAT.field_name).losses(&Request::default(), losses)
    }

    #[test]
    fn a_part_is_named_by_what_it_is() {
        let parts =
            r#"[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"https://x/"}}]"#;
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":{parts}}}],"max_completion_tokens":1}}"#
        );
        let (request, names) = read_request(body.as_bytes()).unwrap();
        let check = |field, name| assert_eq!(names.name(&request, &field), name);
        check(Field::Part(0, 1), "messages[0].content[1].image_url");
        check(Field::MaxTokens, "max_completion_tokens");
        check(Field::User, "user");
        check(
            Field::OtherOfMessage("sk-0123456789ab".to_owned()),
            "messages[].other",
        );
        check(Field::Other("logit_bias".to_owned()), "logit_bias");
    }
}
