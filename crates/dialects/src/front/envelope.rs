//! The envelope of a request: the few facts that decide where it goes, what it may cost and how it
//! is answered, with the exact spans of their fields. Each front door reads it from a body in one
//! pass.

use crate::wire::shorten_text;
use std::borrow::Cow;

use super::references::AllowedReferences;
use super::{Front, Named, PathRequest};
use crate::neutral::Refused;
use crate::neutral::usage::Units;
use crate::neutral::vectors::Inputs;
use crate::wire::json::{Broken, Kind, Span};

/// The facts of a request on which Portcullis acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The format that the request is in.
    pub front: &'static Front,
    /// The model's id, decoded. It is empty only if the path names the model and the body does not.
    pub model: String,
    /// The places of the fields that may be changed on the way.
    pub places: Places,
    /// True if a stream is asked for.
    pub stream: bool,
    /// True if the caller asked for usage in the stream.
    pub include_usage: bool,
    /// True if the model's thoughts are not shown.
    pub hide_thoughts: bool,
    /// True if `max_tokens` or `max_completion_tokens` has a value.
    pub has_max_tokens: bool,
    /// The most tokens that the request allows for an answer. If it has two such numbers, the
    /// larger one.
    pub max_tokens: Option<u64>,
    /// The number of answers that are asked for.
    pub choices: Choices,
    /// True if the answer must be JSON.
    pub wants_json: bool,
    /// The headers of the caller's that the front door names.
    pub headers: Vec<(&'static str, String)>,
    /// The value of `prompt_cache_key`, if it is a text.
    pub cache_key: Option<Span>,
    /// The value of `user`, if it is a text.
    pub user: Option<Span>,
    /// The beginning of the conversation, up to and with the user's first message: all its turns
    /// have it.
    pub beginning: Option<Span>,
    /// UTF-8 bytes of text in the messages: contents, text parts and the arguments of tool calls.
    pub prompt_bytes: usize,
    /// True if the conversation may refer to something that the request does not hold. Then it is
    /// read again.
    pub conversation_may_refer: bool,
    /// The models, files and stored objects that the request names outside its conversation.
    pub named: Vec<Named>,
    /// The bytes of everything else that a model reads: tools, the answer's schema, and unknown
    /// fields. Media count here with as many bytes as their tokens may stand for.
    pub more_bytes: usize,
    /// The largest estimate of the prompt's tokens: all bytes of the body at four a token. The
    /// base64 of media is left out; media count by kind and size.
    pub max_prompt_tokens: u64,
    /// The upper bound of the units that are not tokens. The length of sound is an estimate.
    pub units: Units,
}

/// The numbers of answers that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choices {
    /// The number of answers that the caller gets, at least one.
    pub shown: u64,
    /// The number of answers that are written, and paid for: not fewer.
    pub written: u64,
}

impl Choices {
    /// One answer.
    pub const ONE: Choices = Choices {
        shown: 1,
        written: 1,
    };

    /// Notes the number of answers that the caller gets.
    pub(crate) fn set_shown(&mut self, number: u64) {
        self.shown = number.max(1);
        self.raise_written(number);
    }

    /// Notes the number of answers that are written: also those that are not the best.
    pub(crate) fn raise_written(&mut self, number: u64) {
        self.written = self.written.max(number);
    }
}

/// The places of the fields of a body that may be changed on the way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The offset of the `{` that opens the body.
    pub open: usize,
    /// The model's value, quotes included.
    pub model: Span,
    /// The value of `stream_options`, an object or `null`.
    pub stream_options: Option<Span>,
    /// The value of `stream_options.include_usage`, a bool or `null`.
    pub include_usage: Option<Span>,
    /// The value of the most tokens, if it stands at one place.
    pub max_tokens: Option<Span>,
    /// The value of `max_tokens` where it is an explicit `null`.
    pub max_tokens_null: Option<Span>,
    /// The value of `thinking`.
    pub thinking: Option<Span>,
    /// The list of messages, if a thought may stand in it.
    pub thoughts: Option<Span>,
    /// The inputs that become vectors.
    pub inputs: Option<Inputs>,
    /// Items of earlier answers that are named by their ids alone.
    pub references: Vec<ItemReference>,
    /// True if a later request may refer to the items of the answer.
    pub keeps_items: bool,
}

/// A place where an item of an earlier answer is named by its id alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemReference {
    /// Its place in the input.
    pub index: usize,
    /// The reference, which the item may replace.
    pub span: Span,
    /// The item's id.
    pub id: String,
}

/// Why a body is no request; always answered with 400.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// A sentence for the caller.
    pub message: String,
    /// The field at fault, if it is one.
    pub param: Option<Cow<'static, str>>,
    /// The word for it that OpenAI's own API uses, if there is one.
    pub code: Option<&'static str>,
}

impl Envelope {
    /// Returns an envelope without any facts, the model's id included.
    pub(crate) fn new(front: &'static Front) -> Self {
        Self {
            front,
            model: String::new(),
            places: Places::default(),
            stream: false,
            include_usage: false,
            hide_thoughts: false,
            has_max_tokens: false,
            max_tokens: None,
            choices: Choices::ONE,
            wants_json: false,
            headers: Vec::new(),
            cache_key: None,
            user: None,
            beginning: None,
            prompt_bytes: 0,
            conversation_may_refer: false,
            named: Vec::new(),
            more_bytes: 0,
            max_prompt_tokens: 0,
            units: Units::NONE,
        }
    }

    /// Returns whether [`check_references`](Self::check_references) could refuse the request.
    pub fn may_refer(&self) -> bool {
        self.conversation_may_refer || self.named.iter().any(|named| !named.is_model())
    }

    /// Returns whether the request names models in addition to its own.
    pub fn names_models(&self) -> bool {
        self.named.iter().any(Named::is_model)
    }

    /// Refuses a request that refers to what an account does not let callers refer to.
    pub fn check_references(
        &self,
        allowed: &AllowedReferences,
        body: &[u8],
    ) -> Result<(), Refused> {
        if *allowed == AllowedReferences::ALL {
            return Ok(());
        }
        self.named
            .iter()
            .find_map(|named| named.refused(allowed, body))
            .map_or(Ok(()), Err)?;
        if self.conversation_may_refer {
            self.front.contents.check(allowed, body)
        } else {
            Ok(())
        }
    }

    /// Adds the model and the stream that the path asks for, where the format has them in the path.
    #[must_use]
    pub fn with_path(self, asked: PathRequest) -> Self {
        match asked.model {
            Some(model) if self.model.is_empty() => Self {
                model,
                stream: asked.stream,
                ..self
            },
            Some(_) | None => self,
        }
    }
}

impl Fault {
    /// The fault of the body as a whole.
    pub(crate) fn of_body(message: String) -> Self {
        Self {
            message,
            param: None,
            code: None,
        }
    }

    /// The fault of a field, with OpenAI's code.
    pub(crate) fn of_field(
        param: impl Into<Cow<'static, str>>,
        code: &'static str,
        message: String,
    ) -> Self {
        Self {
            message,
            param: Some(param.into()),
            code: Some(code),
        }
    }

    /// Returns whether the request lacks nothing but the name of the model.
    pub fn lacks_model(&self) -> bool {
        *self == Self::missing("model")
    }

    /// The fault of a request that names more than one needs.
    pub(crate) fn too_many_names() -> Self {
        Self::of_body(
            "the request names too many models, files and URLs beside its conversation".to_owned(),
        )
    }

    /// The fault of a text that is no JSON.
    pub(crate) fn syntax(broken: &Broken, body: &[u8]) -> Self {
        let (line, column) = broken.line_and_column(body);
        let why = broken.why;
        Self::of_body(format!(
            "the request body is not valid JSON: {why} (line {line}, column {column})"
        ))
    }

    /// The fault of a field that must be there.
    pub(crate) fn missing(param: &'static str) -> Self {
        let message = format!("`{param}` is missing");
        Self::of_field(param, "missing_required_parameter", message)
    }

    /// The fault of a value of another type.
    pub(crate) fn of_type(param: impl Into<Cow<'static, str>>, wanted: &str, kind: Kind) -> Self {
        let param = param.into();
        let message = format!("`{param}` must be {wanted}, not {}", kind.named());
        Self::of_field(param, "invalid_type", message)
    }

    /// The fault of a value that cannot be.
    pub(crate) fn of_value(param: &'static str, message: &str) -> Self {
        Self::of_field(param, "invalid_value", message.to_owned())
    }

    /// The fault of a list of messages that holds none.
    pub(crate) fn no_messages(param: &'static str) -> Self {
        let message = format!("`{param}` must hold at least one message");
        Self::of_field(param, "empty_array", message)
    }

    /// The fault of a field whose name is another one but for its case.
    pub(crate) fn wrong_case(name: &[u8], known: &str) -> Self {
        let name = String::from_utf8_lossy(name).into_owned();
        let message = format!("`{name}` is not a field: write `{known}`");
        Self::of_field(name, "unknown_parameter", message)
    }

    /// The fault of a field that is there twice.
    pub(crate) fn duplicate(name: &str) -> Self {
        let mut shown = shorten_text(name, 40);
        if shown.len() < name.len() {
            shown.push('…');
        }
        Self {
            message: format!("`{shown}` is given more than once"),
            param: Some(shown.into()),
            code: None,
        }
    }
}
