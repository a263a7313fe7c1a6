//! A chat request in the neutral form: what any front door can ask, and any dialect writes.
//!
//! Texts are borrowed from the caller's body; numbers and schemas stay the text that they are.

use std::borrow::Cow;

use super::field::Field;
use crate::wire::json::{Cursor, Kind};

/// A caller's request, read whole. What is `null` in it counts as absent.
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
    /// `top_k`: no field of OpenAI's, but every other dialect's.
    pub top_k: Option<u64>,
    /// What speaks against words that came before.
    pub penalties: Penalties<'a>,
    /// `stop`, as a list.
    pub stop: Vec<Cow<'a, str>>,
    /// `seed`.
    pub seed: Option<i64>,
    /// `n`, where it is more than one.
    pub n: Option<u64>,
    /// `logprobs: true`, or `top_logprobs`.
    pub logprobs: bool,
    /// `reasoning_effort`.
    pub effort: Option<Effort>,
    /// `modalities` names something else than text, or `audio` is there.
    pub wants_audio: bool,
    /// `safety_identifier`, else `user`.
    pub user: Option<Cow<'a, str>>,
    /// `metadata`, an object.
    pub metadata: Option<Raw<'a>>,
    /// `service_tier`.
    pub service_tier: Option<Cow<'a, str>>,
    /// Every other top-level field that says something, known to OpenAI or not, without `model`,
    /// `messages`, `stream`, `stream_options`. Also fields inside `tools` and `response_format`
    /// that nobody knows, by their path without indexes: `tools.function.x`.
    pub others: Vec<(Cow<'a, str>, Raw<'a>)>,
}

/// JSON text of one whole value, as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a>(pub &'a str);

/// A finite number, as it was written and as it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number<'a> {
    /// The text, to be passed on exactly.
    pub text: &'a str,
    /// The nearest value, to be compared.
    pub value: f64,
}

/// What speaks against words that came before.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Penalties<'a> {
    /// `frequency_penalty`: the more, the oftener they came.
    pub frequency: Option<Number<'a>>,
    /// `presence_penalty`: however often they came.
    pub presence: Option<Number<'a>>,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `system`.
    System,
    /// `developer`: what newer models call the system.
    Developer,
    /// `user`.
    User,
    /// `assistant`.
    Assistant,
    /// `tool`.
    Tool,
    /// `function`: a tool's result as it was before there were several.
    Function,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message<'a> {
    /// Who speaks.
    pub role: Role,
    /// A string is one part; `null` and the empty string are none.
    pub content: Vec<Part<'a>>,
    /// `name`: of a participant, or for [`Role::Function`] of the function.
    pub name: Option<Cow<'a, str>>,
    /// Assistant: the calls it made, the deprecated `function_call` included.
    pub calls: Vec<Call<'a>>,
    /// Tool: the call that this answers.
    pub tool_call_id: Option<Cow<'a, str>>,
    /// Assistant: `reasoning_content` (or `reasoning`), as answers show it.
    pub reasoning: Option<Cow<'a, str>>,
    /// Assistant: signed thoughts, from callers that send them back (`thinking_blocks`,
    /// `reasoning_details`).
    pub thoughts: Vec<Thought<'a>>,
    /// `cache_control` on the message itself, where no part can carry it: of a tool's result, or of
    /// calls without a word.
    pub cache: Option<Cache<'a>>,
    /// Names of its other fields that say something (`audio`, say).
    pub others: Vec<Cow<'a, str>>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Part<'a> {
    /// What it is.
    pub kind: PartKind<'a>,
    /// A prompt cache may end here: `cache_control`, or OpenAI's `prompt_cache_breakpoint`.
    pub cache: Option<Cache<'a>>,
}

/// What a part is.
#[derive(Debug, Clone, PartialEq)]
pub enum PartKind<'a> {
    /// Text, never empty. An assistant's `refusal` is text too.
    Text(Cow<'a, str>),
    /// A picture; `detail` as written.
    Image(Media<'a>, Option<Cow<'a, str>>),
    /// Sound in base64, and its format (`wav`, `mp3`).
    Audio(Cow<'a, str>, Cow<'a, str>),
    /// A file, and its name.
    File(Media<'a>, Option<Cow<'a, str>>),
}

/// Where the bytes of a picture or file are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Media<'a> {
    /// Here: a lower-case media type without parameters (empty if none was written; `image/jpg` is
    /// `image/jpeg`), and base64.
    Inline(Cow<'a, str>, Cow<'a, str>),
    /// At a URL with another scheme than `data:`. Nobody here ever fetches it.
    Url(Cow<'a, str>),
    /// Uploaded before: a `file_id`.
    Id(Cow<'a, str>),
}

impl Media<'_> {
    /// Whether it is at a URL that a provider may fetch.
    pub fn is_web(&self) -> bool {
        let Self::Url(url) = self else { return false };
        let is = |scheme: &str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        is("https://") || is("http://")
    }
}

/// A hint that the prompt up to here will come again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cache<'a> {
    /// For how long: `5m`, `1h`, as written.
    pub ttl: Option<Cow<'a, str>>,
}

/// A call that an assistant made.
#[derive(Debug, Clone, PartialEq)]
pub struct Call<'a> {
    /// Its id; made from its place where the caller has none (`function_call`).
    pub id: Cow<'a, str>,
    /// The function.
    pub name: Cow<'a, str>,
    /// What the model wrote: JSON text of an object as a rule, and sometimes none.
    pub arguments: Cow<'a, str>,
    /// Google's signature of the thought behind it (`extra_content.google.thought_signature`).
    pub signature: Option<Cow<'a, str>>,
    /// A `custom` tool's: `arguments` is its `input`.
    pub is_custom: bool,
}

impl Call<'_> {
    /// The arguments as the object that they must be; models write nothing, or `null`, where there
    /// are none.
    pub fn object(&self) -> Option<&str> {
        let text = self.arguments.trim_ascii();
        if self.is_custom {
            return None;
        }
        if matches!(text, "" | "null") {
            return Some("{}");
        }
        let mut cursor = Cursor::new(text.as_bytes());
        let is_object = cursor.kind() == Ok(Kind::Object) && cursor.value().is_ok() && cursor.end().is_ok();
        is_object.then_some(text)
    }

    /// Returns the field that is weakened where they are none, and are put into one.
    pub fn weakened(&self) -> Field {
        if self.is_custom { Field::CustomCall } else { Field::CallArguments }
    }
}

/// A model's thought that it must get back unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Thought<'a> {
    /// Its text; empty for a redacted one.
    pub text: Cow<'a, str>,
    /// The provider's signature.
    pub signature: Option<Cow<'a, str>>,
    /// A redacted thought: opaque data, and nothing else.
    pub redacted: Option<Cow<'a, str>>,
    /// It is no thought but Google's signature of a call.
    pub of_call: bool,
}

/// Where signed thoughts come from: one family's mean nothing to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// Claude, wherever it runs.
    Claude,
    /// Gemini.
    Gemini,
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool<'a> {
    /// Its name; empty for [`ToolKind::Other`].
    pub name: Cow<'a, str>,
    /// What it does.
    pub description: Option<Cow<'a, str>>,
    /// Its kind.
    pub kind: ToolKind<'a>,
    /// A prompt cache may end here.
    pub cache: Option<Cache<'a>>,
}

/// What kind of tool.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolKind<'a> {
    /// A function: its parameters' JSON Schema, an object, and `strict`.
    Function(Option<Raw<'a>>, Option<bool>),
    /// OpenAI's free-form tool.
    Custom,
    /// A type that only one provider has: no other can run it.
    Other,
}

/// Which tools must or may be called.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolChoice<'a> {
    /// None.
    None,
    /// As the model likes.
    Auto,
    /// At least one.
    Required,
    /// This one.
    Named(Cow<'a, str>),
    /// Of these: at least one (`true`), or as the model likes.
    Allowed(bool, Vec<Cow<'a, str>>),
}

/// What the answer must be.
#[derive(Debug, Clone, PartialEq)]
pub enum Format<'a> {
    /// Some JSON object.
    JsonObject,
    /// JSON of a schema.
    JsonSchema {
        /// Its name.
        name: Cow<'a, str>,
        /// What it is for.
        description: Option<Cow<'a, str>>,
        /// The schema, an object; absent, any object will do.
        schema: Option<Raw<'a>>,
        /// Whether the answer must keep to it exactly.
        strict: Option<bool>,
    },
}

/// How hard to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// `none`
    None,
    /// `minimal`
    Minimal,
    /// `low`
    Low,
    /// `medium`
    Medium,
    /// `high`
    High,
    /// `xhigh`
    Xhigh,
    /// `max`
    Max,
}
