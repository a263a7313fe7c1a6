//! A chat request in the neutral form: everything that a front door can ask, and that a dialect
//! writes.
//!
//! Texts are borrowed from the caller's body. Numbers and schemas stay the text that they are.

use std::borrow::Cow;

use super::field::Field;
use super::lazy_text::LazyText;
use super::losses::LostFields;
use super::schema::{find_member, read_members, string_value};
use crate::named_enum;
use crate::wire::json::{Cursor, Kind};
use crate::wire::starts_with_any_case;

/// A caller's whole request. A field that is `null` counts as absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request<'a> {
    /// The conversation, in the order written.
    pub messages: Vec<Message<'a>>,
    /// `tools`, and the deprecated `functions`.
    pub tools: Vec<Tool<'a>>,
    /// `tool_choice`, and the deprecated `function_call`.
    pub tool_choice: Option<ToolChoice<'a>>,
    /// `parallel_tool_calls`.
    pub parallel_tool_calls: Option<bool>,
    /// `response_format`; text, the default, is `None`.
    pub format: Option<Format<'a>>,
    /// `max_completion_tokens`, else `max_tokens`.
    pub max_tokens: Option<u64>,
    /// `temperature`.
    pub temperature: Option<Number<'a>>,
    /// `top_p`.
    pub top_p: Option<Number<'a>>,
    /// `top_k`. OpenAI has no such field, but every other dialect has it.
    pub top_k: Option<u64>,
    /// The penalties for tokens that came before.
    pub penalties: Penalties<'a>,
    /// `stop`, as a list.
    pub stop: Vec<Cow<'a, str>>,
    /// `seed`.
    pub seed: Option<i64>,
    /// `n`, where it is more than one.
    pub n: Option<u64>,
    /// `logprobs: true`, or `top_logprobs`.
    pub logprobs: bool,
    /// The effort and the settings of thinking.
    pub thinking: AskedThinking<'a>,
    /// True if `modalities` names something other than text, or if `audio` is there.
    pub wants_audio: bool,
    /// `safety_identifier`, else `user`.
    pub user: Option<Cow<'a, str>>,
    /// `metadata`, an object.
    pub metadata: Option<Raw<'a>>,
    /// `service_tier`.
    pub service_tier: Option<Cow<'a, str>>,
    /// Every other top-level field with a value, known to OpenAI or not, except `model`,
    /// `messages`, `stream` and `stream_options`. Also unknown fields inside `tools` and
    /// `response_format`, by their path without indexes: `tools.function.x`.
    pub others: Vec<(Cow<'a, str>, Raw<'a>)>,
}

impl Request<'_> {
    /// Returns where a message is in the caller's body: its place in this list, or this field
    /// outside of it.
    pub(crate) fn message_path(&self, index: usize, list: &str, outside: &str) -> String {
        match self
            .messages
            .get(index)
            .and_then(|message| message.caller_index)
        {
            Some(place) => format!("{list}[{place}]"),
            None => outside.to_owned(),
        }
    }
    /// Returns the effort, for dialects without a budget of thinking: the requested one, or the
    /// nearest to the settings of thinking.
    pub fn effort(&self) -> Option<Effort> {
        self.thinking.effort.or_else(|| {
            let members = read_members(self.thinking.settings?.0)?;
            match find_member(&members, "type")
                .and_then(string_value)
                .as_deref()
            {
                Some("disabled") => Some(Effort::None),
                Some("enabled") => find_member(&members, "budget_tokens")
                    .and_then(|budget| budget.parse().ok())
                    .map(Effort::of_budget),
                _ => None,
            }
        })
    }

    /// Returns whether thinking has a budget, which no effort expresses exactly.
    pub(crate) fn has_budget(&self) -> bool {
        self.thinking.settings.is_some_and(|Raw(thinking)| {
            read_members(thinking)
                .is_some_and(|members| find_member(&members, "budget_tokens").is_some())
        })
    }
}

/// The JSON text of one whole value, as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a>(pub &'a str);

impl<'a> From<Raw<'a>> for Cow<'a, str> {
    fn from(raw: Raw<'a>) -> Self {
        Cow::Borrowed(raw.0)
    }
}

/// A finite number: its text and its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number<'a> {
    /// The text, which is passed on exactly.
    pub text: &'a str,
    /// The nearest value, for comparisons.
    pub value: f64,
}

/// The effort and the settings of thinking.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AskedThinking<'a> {
    /// The effort.
    pub effort: Option<Effort>,
    /// The settings in Anthropic's own form: an object.
    pub settings: Option<Raw<'a>>,
}

/// The penalties for tokens that came before.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Penalties<'a> {
    /// `frequency_penalty`: it grows with the number of times that a token came.
    pub frequency: Option<Number<'a>>,
    /// `presence_penalty`: it does not grow with the number of times that a token came.
    pub presence: Option<Number<'a>>,
}

/// The role of a message's author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// `system`.
    System,
    /// `developer`: the name that newer models have for the system.
    Developer,
    /// `user`.
    #[default]
    User,
    /// `assistant`.
    Assistant,
    /// `tool`.
    Tool,
    /// `function`: the result of a tool, in the form from before there were several calls at once.
    Function,
}

impl Role {
    /// Returns whether the message is the result of a call.
    pub fn is_result(self) -> bool {
        matches!(self, Role::Tool | Role::Function)
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Message<'a> {
    /// The index in the caller's own list; `None` for a text that stands outside it.
    pub caller_index: Option<usize>,
    /// The role of the author.
    pub role: Role,
    /// The parts. A string is one part; `null` and the empty string are none.
    pub content: Vec<Part<'a>>,
    /// `name`: of a participant, or of the function if the role is [`Role::Function`].
    pub name: Option<Cow<'a, str>>,
    /// Assistant: the calls, including the deprecated `function_call`.
    pub calls: Vec<Call<'a>>,
    /// Tool: the id of the call that this message answers.
    pub tool_call_id: Option<Cow<'a, str>>,
    /// Assistant: `reasoning_content` (or `reasoning`), in the form that answers have.
    pub reasoning: Option<Cow<'a, str>>,
    /// Assistant: signed thoughts, from callers that send them back (`thinking_blocks`,
    /// `reasoning_details`).
    pub thoughts: Vec<Thought<'a>>,
    /// `cache_control` on the message itself, if no part can carry it: on a tool's result, or on
    /// calls without text.
    pub cache: Option<Cache<'a>>,
    /// The names of the message's other fields with a value (`audio`, for example).
    pub others: Vec<Cow<'a, str>>,
}

impl Message<'_> {
    /// Notes the message's other fields as lost.
    pub(crate) fn note_others(&self, losses: &mut LostFields) {
        for name in &self.others {
            losses.add(Field::other_of_message(name));
        }
    }
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Part<'a> {
    /// The kind of the part, with its data.
    pub kind: PartKind<'a>,
    /// The hint that a prompt cache may end here: `cache_control`, or OpenAI's
    /// `prompt_cache_breakpoint`.
    pub cache: Option<Cache<'a>>,
}

impl<'a> From<PartKind<'a>> for Part<'a> {
    fn from(kind: PartKind<'a>) -> Self {
        Self { kind, cache: None }
    }
}

impl<'a> Part<'a> {
    /// Returns a part of text, unless the text is empty.
    pub fn unless_empty(text: impl Into<LazyText<'a>>) -> Option<Self> {
        let text = text.into();
        (!text.is_empty()).then(|| Part::text(text))
    }

    /// Returns a part of text without a hint for a cache.
    pub fn text(text: impl Into<LazyText<'a>>) -> Self {
        PartKind::Text(text.into()).into()
    }
}

/// The kind of a part, with its data.
#[derive(Debug, Clone, PartialEq)]
pub enum PartKind<'a> {
    /// Text, never empty. An assistant's `refusal` is text too.
    Text(LazyText<'a>),
    /// A picture, and `detail` as written.
    Image(Media<'a>, Option<Cow<'a, str>>),
    /// Sound in base64, and its format (`wav`, `mp3`).
    Audio(Cow<'a, str>, Cow<'a, str>),
    /// A file, and its name.
    File(Media<'a>, Option<Cow<'a, str>>),
}

/// The place of the bytes of a picture or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Media<'a> {
    /// Media in the request: a media type and base64. The media type is in lower case, without
    /// parameters, and empty if none was written; `image/jpg` becomes `image/jpeg`.
    Inline(Cow<'a, str>, Cow<'a, str>),
    /// Media at a URL with a scheme other than `data:`. The gateway never fetches it.
    Url(Cow<'a, str>),
    /// Media at the provider, where they were uploaded before: a `file_id`.
    Id(Cow<'a, str>),
}

impl Media<'_> {
    /// Returns the URL of the bytes, which may be a `data:` URL, or their id.
    pub(crate) fn address(&self) -> Cow<'_, str> {
        match self {
            Self::Inline(kind, data) => Cow::Owned(format!("data:{kind};base64,{data}")),
            Self::Url(address) | Self::Id(address) => Cow::Borrowed(address),
        }
    }

    /// Returns whether the bytes are at a URL that a provider may fetch.
    pub fn is_web(&self) -> bool {
        let Self::Url(url) = self else { return false };
        starts_with_any_case(&**url, "https://") || starts_with_any_case(&**url, "http://")
    }
}

/// A hint that the prompt up to this place will come again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cache<'a> {
    /// The time for which to keep it: `5m`, `1h`, as written.
    pub ttl: Option<Cow<'a, str>>,
}

/// A call that an assistant made.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Call<'a> {
    /// The id. If the caller has none (`function_call`), it is made from the call's place.
    pub id: Cow<'a, str>,
    /// The name of the function.
    pub name: Cow<'a, str>,
    /// The text that the model wrote. It is usually the JSON text of an object, but not always.
    pub arguments: Cow<'a, str>,
    /// Google's signature of the thought behind the call
    /// (`extra_content.google.thought_signature`).
    pub signature: Option<Cow<'a, str>>,
    /// True if the call is of a `custom` tool. Then `arguments` is its `input`.
    pub is_custom: bool,
}

impl Call<'_> {
    /// Returns the arguments if they are an object. Models write nothing, or `null`, for a function
    /// without parameters; that counts as `{}`.
    pub fn object(&self) -> Option<&str> {
        let text = self.arguments.trim_ascii();
        if self.is_custom {
            return None;
        }
        if matches!(text, "" | "null") {
            return Some("{}");
        }
        let mut cursor = Cursor::new(text.as_bytes());
        let is_object =
            cursor.kind() == Ok(Kind::Object) && cursor.value().is_ok() && cursor.end().is_ok();
        is_object.then_some(text)
    }

    /// Returns the field that is weakened if the arguments are no object and are put into one.
    pub fn weakened(&self) -> Field {
        if self.is_custom {
            Field::CustomCall
        } else {
            Field::CallArguments
        }
    }
}

/// A thought that the model must get back unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Thought<'a> {
    /// The text; empty for a redacted thought.
    pub text: Cow<'a, str>,
    /// The provider's signature.
    pub signature: Option<Cow<'a, str>>,
    /// The opaque data of a redacted thought, which has nothing else.
    pub redacted: Option<Cow<'a, str>>,
    /// True if this is no thought, but Google's signature of a call.
    pub of_call: bool,
}

/// The thing that a request to OpenAI asks an answer to include, so that thoughts can come back
/// although nothing is stored.
pub(crate) const ENCRYPTED: &str = "reasoning.encrypted_content";

/// A text that Google accepts in place of a missing signature. It is for calls of another model,
/// and for calls whose thoughts were not kept.
pub(crate) const NO_SIGNATURE: &str = "skip_thought_signature_validator";

named_enum! {
    /// The family of models that signed a thought. Thoughts of one family mean nothing to the
    /// other.
    pub enum Family {
        /// Claude, wherever it runs.
        Claude = "claude",
        /// Gemini.
        Gemini = "gemini",
        /// The models that OpenAI serves at Responses.
        OpenAi = "openai",
        /// The demo, which thinks nothing, but is asked as if it did.
        Demo = "demo",
    }
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool<'a> {
    /// The name; empty for [`ToolKind::Other`].
    pub name: Cow<'a, str>,
    /// The description.
    pub description: Option<LazyText<'a>>,
    /// The kind.
    pub kind: ToolKind<'a>,
    /// The hint that a prompt cache may end here.
    pub cache: Option<Cache<'a>>,
}

/// The kind of a tool.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolKind<'a> {
    /// A function: the JSON Schema of its parameters, which is an object, and `strict`.
    Function(Option<Cow<'a, str>>, Option<bool>),
    /// OpenAI's free-form tool.
    Custom,
    /// A type that only one provider has. No other provider can run it.
    Other,
}

/// The tools that must or may be called.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolChoice<'a> {
    /// None.
    None,
    /// Any tool, or none.
    Auto,
    /// At least one tool.
    Required,
    /// This tool.
    Named(Cow<'a, str>),
    /// These tools.
    Allowed {
        /// True if at least one must be called; else any or none may be.
        must_call: bool,
        /// The names of the tools.
        names: Vec<Cow<'a, str>>,
    },
}

/// The format that the answer must have.
#[derive(Debug, Clone, PartialEq)]
pub enum Format<'a> {
    /// Any JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema {
        /// The name.
        name: Cow<'a, str>,
        /// The description.
        description: Option<Cow<'a, str>>,
        /// The schema, which is an object. If it is absent, any object is allowed.
        schema: Option<Cow<'a, str>>,
        /// True if the answer must match the schema exactly.
        strict: Option<bool>,
    },
}

named_enum! {
    /// A word for how hard to think.
    #[derive(PartialOrd, Ord)]
    #[expect(missing_docs, reason = "they are the words themselves")]
    pub enum Effort: serde::Deserialize, schemars::JsonSchema {
        // The catalog has no such word: its `thinking_off` is for this.
        #[serde(skip)]
        None = "none",
        Minimal = "minimal",
        Low = "low",
        Medium = "medium",
        High = "high",
        Xhigh = "xhigh",
        Max = "max",
    }
}

impl Effort {
    /// Returns the number of tokens for the effort. It is a convention, not a fact.
    pub(crate) fn budget(self) -> u64 {
        match self {
            Effort::None | Effort::Minimal | Effort::Low => 1024,
            Effort::Medium => 8192,
            Effort::High => 24_576,
            Effort::Xhigh => 32_768,
            Effort::Max => 65_536,
        }
    }

    /// Returns the least effort whose budget is as large.
    pub(crate) fn of_budget(tokens: u64) -> Self {
        let efforts = [Effort::Low, Effort::Medium, Effort::High, Effort::Xhigh];
        efforts
            .into_iter()
            .find(|effort| effort.budget() >= tokens)
            .unwrap_or(Effort::Max)
    }
}
