//! The names that callers of chat have for the fields of a request.

use std::borrow::Cow;

use crate::neutral::{Field, Part, PartKind, Request, shown_name};

/// Returns the usual name of a field: of several names, the one that most callers write.
pub(crate) fn field_name(request: &Request<'_>, field: &Field) -> Cow<'static, str> {
    Cow::Borrowed(match field {
        Field::Message(index) => return format!("messages[{index}]").into(),
        Field::Part(message, part) => {
            let parts = request
                .messages
                .get(*message)
                .map_or(&[][..], |message| &message.content);
            let kind = parts.get(*part).map_or("text", part_type);
            return format!("messages[{message}].content[{part}].{kind}").into();
        }
        Field::Calls(index) => return format!("messages[{index}].tool_calls").into(),
        Field::CallId(index) => return format!("messages[{index}].tool_call_id").into(),
        Field::OtherOfMessage(name) => return format!("messages[].{}", shown_name(name)).into(),
        Field::Tool(index) => return format!("tools[{index}]").into(),
        Field::Other(name) => return shown_name(name).to_owned().into(),
        Field::Rest => "other",
        Field::Messages => "messages",
        Field::SecondResult => "messages[]",
        Field::SystemRole => "messages[].role",
        Field::SystemMedia => "messages[].content",
        Field::ParticipantName => "messages[].name",
        Field::Reasoning => "messages[].reasoning_content",
        Field::Thoughts => "messages[].thinking_blocks",
        Field::CallSignature => "messages[].tool_calls[].extra_content",
        Field::CallArguments => "messages[].tool_calls[].function.arguments",
        Field::CustomCall => "messages[].tool_calls[].custom",
        Field::ImageDetail => "messages[].content[].image_url.detail",
        Field::FileName => "messages[].content[].file.filename",
        Field::CacheHint => "cache_control",
        Field::Tools => "tools",
        Field::ToolParameters => "tools[].function.parameters",
        Field::ToolStrict => "tools[].function.strict",
        Field::ToolChoice => "tool_choice",
        Field::ParallelCalls => "parallel_tool_calls",
        Field::Format => "response_format",
        Field::FormatDescription => "response_format.json_schema.description",
        Field::FormatSchema => "response_format.json_schema.schema",
        Field::FormatStrict => "response_format.json_schema.strict",
        Field::MaxTokens => "max_tokens",
        Field::Temperature => "temperature",
        Field::TopP => "top_p",
        Field::TopK => "top_k",
        Field::FrequencyPenalty => "frequency_penalty",
        Field::PresencePenalty => "presence_penalty",
        Field::Stop => "stop",
        Field::Seed => "seed",
        Field::Choices => "n",
        Field::Logprobs => "logprobs",
        Field::Audio => "modalities",
        Field::Effort => "reasoning_effort",
        Field::Thinking => "thinking",
        Field::ThinkingType => "thinking.type",
        Field::ThinkingBudget => "thinking.budget_tokens",
        Field::User => "user",
        Field::Metadata => "metadata",
        Field::ServiceTier => "service_tier",
    })
}

fn part_type(part: &Part<'_>) -> &'static str {
    match part.kind {
        PartKind::Text(_) => "text",
        PartKind::Image(..) => "image_url",
        PartKind::Audio(..) => "input_audio",
        PartKind::File(..) => "file",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::front::FieldNames;
    use crate::front::chat::read::read_request;
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
        names.written(&request, write(&request, target))
    }

    /// Returns the lost fields in the words of a caller with the usual spelling.
    pub(crate) fn in_words(losses: LostFields) -> Losses {
        FieldNames::new(field_name).losses(&Request::default(), losses)
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
