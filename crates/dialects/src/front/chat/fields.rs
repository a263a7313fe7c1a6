//! What callers of chat call the fields of a request.

use std::borrow::Cow;

use crate::neutral::{
    Complaint, Field, FieldRefused, Losses, LostFields, Part, PartKind, Refused, Request, Written, shown,
};

/// Which name the caller wrote, where a field has an older one too: a loss or a refusal names that.
/// Of two that say the same, the newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spelling {
    /// `max_completion_tokens` or `max_tokens`.
    pub max_tokens: &'static str,
    /// `safety_identifier` or `user`.
    pub user: &'static str,
    /// `tools` or `functions`.
    pub tools: &'static str,
    /// `tool_choice` or `function_call`.
    pub tool_choice: &'static str,
    /// `messages[].thinking_blocks`, or OpenRouter's `messages[].reasoning_details`.
    pub thoughts: &'static str,
}

impl Default for Spelling {
    fn default() -> Self {
        let thoughts = "messages[].thinking_blocks";
        Self { max_tokens: "max_tokens", user: "user", tools: "tools", tool_choice: "tool_choice", thoughts }
    }
}

impl Spelling {
    /// Names the fields that a dialect lost.
    pub(crate) fn losses(&self, request: &Request<'_>, losses: LostFields) -> Losses {
        losses.in_words(|field| self.name(request, field))
    }

    /// Names the fields that a dialect did not write.
    pub(crate) fn written(
        &self,
        request: &Request<'_>,
        written: Result<Written, FieldRefused>,
    ) -> Result<Written<Cow<'static, str>>, Refused> {
        let Written { body, losses, undo, headers } = written.map_err(|why| self.refused(request, why))?;
        Ok(Written { body, losses: self.losses(request, losses), undo, headers })
    }

    /// Names the field that a dialect refused.
    pub(crate) fn refused(&self, request: &Request<'_>, refused: FieldRefused) -> Refused {
        let complaint = |Complaint { param, message }: Complaint<Field>| Complaint {
            param: self.name(request, &param).into_owned(),
            message,
        };
        match refused {
            Refused::Invalid(why) => Refused::Invalid(complaint(why)),
            Refused::Unsupported(why) => Refused::Unsupported(complaint(why)),
        }
    }

    fn name(&self, request: &Request<'_>, field: &Field) -> Cow<'static, str> {
        Cow::Borrowed(match field {
            Field::Message(index) => return format!("messages[{index}]").into(),
            Field::Part(message, part) => {
                let parts = request.messages.get(*message).map_or(&[][..], |message| &message.content);
                let kind = parts.get(*part).map_or("text", kind);
                return format!("messages[{message}].content[{part}].{kind}").into();
            }
            Field::Calls(index) => return format!("messages[{index}].tool_calls").into(),
            Field::CallId(index) => return format!("messages[{index}].tool_call_id").into(),
            Field::OtherOfMessage(name) => return format!("messages[].{}", shown(name)).into(),
            Field::Tool(index) => return format!("tools[{index}]").into(),
            Field::Other(name) => return shown(name).to_owned().into(),
            Field::Rest => "other",
            Field::Messages => "messages",
            Field::SecondResult => "messages[]",
            Field::SystemRole => "messages[].role",
            Field::SystemMedia => "messages[].content",
            Field::ParticipantName => "messages[].name",
            Field::Reasoning => "messages[].reasoning_content",
            Field::Thoughts => self.thoughts,
            Field::CallSignature => "messages[].tool_calls[].extra_content",
            Field::CallArguments => "messages[].tool_calls[].function.arguments",
            Field::CustomCall => "messages[].tool_calls[].custom",
            Field::ImageDetail => "messages[].content[].image_url.detail",
            Field::FileName => "messages[].content[].file.filename",
            Field::CacheHint => "cache_control",
            Field::Tools => self.tools,
            Field::ToolParameters => "tools[].function.parameters",
            Field::ToolStrict => "tools[].function.strict",
            Field::ToolChoice => self.tool_choice,
            Field::ParallelCalls => "parallel_tool_calls",
            Field::Format => "response_format",
            Field::FormatDescription => "response_format.json_schema.description",
            Field::FormatSchema => "response_format.json_schema.schema",
            Field::FormatStrict => "response_format.json_schema.strict",
            Field::MaxTokens => self.max_tokens,
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
            Field::User => self.user,
            Field::Metadata => "metadata",
            Field::ServiceTier => "service_tier",
        })
    }
}

fn kind(part: &Part<'_>) -> &'static str {
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
    use crate::front::chat::read::read;
    use crate::neutral::Target;

    /// A request that a dialect wrote; what it does not say is in the caller's words.
    pub(crate) type Worded = Written<Cow<'static, str>>;
    type Write = fn(&Request<'_>, &Target<'_>) -> Result<Written, FieldRefused>;

    /// Reads a body and lets a dialect write it.
    pub(crate) fn through(body: &[u8], target: &Target<'_>, write: Write) -> Result<Worded, Refused> {
        let (request, spelling) = read(body)?;
        spelling.written(&request, write(&request, target))
    }

    /// The fields, in the words of a caller with the usual spelling.
    pub(crate) fn in_words(losses: LostFields) -> Losses {
        Spelling::default().losses(&Request::default(), losses)
    }

    #[test]
    fn a_part_is_named_by_what_it_is() {
        let parts = r#"[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"https://x/"}}]"#;
        let body = format!(r#"{{"messages":[{{"role":"user","content":{parts}}}],"max_completion_tokens":1}}"#);
        let (request, spelling) = read(body.as_bytes()).unwrap();
        let check = |field, name| assert_eq!(spelling.name(&request, &field), name);
        check(Field::Part(0, 1), "messages[0].content[1].image_url");
        check(Field::MaxTokens, "max_completion_tokens");
        check(Field::User, "user");
        check(Field::OtherOfMessage("sk-0123456789ab".to_owned()), "messages[].other");
        check(Field::Other("logit_bias".to_owned()), "logit_bias");
    }
}
