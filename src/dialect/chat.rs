//! The neutral form: what a chat request can say, and what an answer tells, whichever dialect
//! either is in.
//!
//! N dialects are N files, since all of them meet here: [`read`] makes a [`Request`] of a caller's
//! body, a dialect writes it in its own words ([`Written`]), reads what comes back as [`Event`]s,
//! and [`speak`] makes the standard answer of those, buffered or streamed. So both kinds of answer
//! say the same. Texts are borrowed from the body; numbers and schemas stay the text that they are.
//!
//! **Invariant:** nothing is left out in silence. What a dialect cannot say is in [`Losses`], or
//! the request is [`Refused`].

pub mod answered;
mod losses;
pub mod read;
mod room;
pub mod speak;
pub mod turns;

use std::borrow::Cow;

pub use losses::Losses;

use super::StreamFault;
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
    /// `frequency_penalty`.
    pub frequency_penalty: Option<Number<'a>>,
    /// `presence_penalty`.
    pub presence_penalty: Option<Number<'a>>,
    /// `stop`, as a list.
    pub stop: Vec<Cow<'a, str>>,
    /// `seed`.
    pub seed: Option<i64>,
    /// `n`, where it is more than one.
    pub n: Option<u64>,
    /// `logprobs: true`, or `top_logprobs`.
    pub logprobs: bool,
    /// `top_logprobs`.
    pub top_logprobs: Option<u64>,
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
    /// What the caller calls those of them that have two names.
    pub words: Words,
}

/// Which name the caller wrote, where a field has an older one too: a loss or a refusal names that.
/// Of two that say the same, the newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
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

impl Default for Words {
    fn default() -> Self {
        let thoughts = "messages[].thinking_blocks";
        Self { max_tokens: "max_tokens", user: "user", tools: "tools", tool_choice: "tool_choice", thoughts }
    }
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

    /// The field that is weakened where they are none, and are put into one.
    pub fn weakened(&self) -> &'static str {
        if self.is_custom { "messages[].tool_calls[].custom" } else { "messages[].tool_calls[].function.arguments" }
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

/// What a dialect needs to know of the target to write a request.
pub struct Target<'a> {
    /// The target's name for the model.
    pub model: &'a str,
    /// What this model can do.
    pub traits: super::traits::Traits,
    /// For requests that are silent about the most tokens: the catalog's `defaults.max_tokens`.
    pub default_max_tokens: Option<u64>,
    /// Whether a stream is asked for.
    pub stream: bool,
    /// How long a buffered answer may take.
    pub within: Option<std::time::Duration>,
    /// The thoughts that came before a call, by the call's id, where they were kept (and are of
    /// this dialect's family).
    pub kept: &'a dyn Fn(&str) -> Option<Kept>,
}

/// Thoughts that were kept for the next turn.
pub type Kept = std::sync::Arc<[Thought<'static>]>;

/// A request in a dialect's words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// The body.
    pub body: Vec<u8>,
    /// What it does not say.
    pub losses: Losses,
    /// What reading the answer must undo.
    pub undo: Undo,
    /// Headers that the body needs, besides those that every request has.
    pub headers: Vec<(&'static str, &'static str)>,
}

/// What writing a request did that reading the answer must undo.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Undo {
    /// Tools that have another name at the upstream: (theirs, the caller's).
    pub names: Vec<(String, String)>,
    /// The tool that was forced to get an answer in a format: its call's arguments are the content.
    pub format_tool: Option<String>,
    /// Tools that the caller does not offer, and that are there only so that calls before can be
    /// said: a call of one is none.
    pub stubs: Vec<String>,
}

/// Why a request cannot be written for a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The request is at fault, whoever is asked.
    Invalid(Complaint),
    /// This dialect, or this model, cannot do what is asked without changing what it means; another
    /// may.
    Unsupported(Complaint),
}

/// What to tell the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The field: `messages[3].content[0].image_url`.
    pub param: String,
    /// A sentence.
    pub message: String,
}

impl Refused {
    /// The request is at fault.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(Complaint { param: param.into(), message: message.into() })
    }

    /// The target is.
    pub fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Unsupported(Complaint { param: param.into(), message: message.into() })
    }
}

/// What an answer tells, in the order it tells it. A buffered answer is told by the same events as
/// a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// The upstream's own id of the answer.
    Id(&'a str),
    /// Content.
    Text(u32, &'a str),
    /// Thinking that may be shown.
    Reasoning(u32, &'a str),
    /// Why the model will not.
    Refusal(u32, &'a str),
    /// The thinking since the last of these was signed with this, and must come back with it.
    Signed(&'a str),
    /// Thinking that nobody may read, and that must come back as it is.
    Redacted(&'a str),
    /// A call begins. It goes on until the choice's next call or finish; without
    /// [`Event::Arguments`] they are `{}`.
    Call {
        /// Of which choice.
        choice: u32,
        /// The upstream's id for it.
        id: Option<&'a str>,
        /// The function.
        name: &'a str,
        /// Google's signature.
        signature: Option<&'a str>,
    },
    /// More of the arguments of the choice's last call, as they come.
    Arguments(u32, &'a str),
    /// A picture or a sound: media type and base64.
    Media(u32, &'a str, &'a str),
    /// Why the choice ended. More of it may follow; the last reason counts.
    Finish(u32, Finish),
    /// What it cost so far, all of it: the last one counts.
    Usage(Tokens),
    /// The answer is whole. Without it a stream was cut.
    End,
}

/// Why a choice ended. `tool_calls` is not said by dialects: whoever made calls and ended well has
/// this reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It had said all.
    Stop,
    /// It was not allowed to say more.
    Length,
    /// Something in it was not allowed.
    Filtered,
}

/// Tokens as the upstream counted them; what it did not count is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read, those from and into the cache included.
    pub prompt: Option<u64>,
    /// Written, thinking included.
    pub completion: Option<u64>,
    /// Of the prompt: out of the cache.
    pub cached: Option<u64>,
    /// Of the prompt: into the cache.
    pub cache_write: Option<u64>,
    /// Of the completion: thinking.
    pub reasoning: Option<u64>,
}

/// Where a dialect's reading puts what it reads.
pub type Emit<'e> = &'e mut dyn FnMut(Event<'_>);

/// The reading of one stream, event by event.
///
/// The framing (server-sent events, lines, frames) is not its business, nor is the end: a stream
/// that never said [`Event::End`] was cut.
pub trait Reader: Send {
    /// Takes an event: its name, empty where the framing has none, and its data. Reads all of it
    /// before it emits any of it, so that data which cannot be read may be repaired and given
    /// again. Data of an unknown kind is passed over.
    fn event(&mut self, name: &[u8], data: &[u8], emit: Emit<'_>) -> Result<(), StreamFault>;

    /// The upstream closed: the place to emit what only the end makes sure.
    fn end_of_file(&mut self, _emit: Emit<'_>) -> Result<(), StreamFault> {
        Ok(())
    }
}
