//! An offer has the tools that a model is shown, the tools that it must call, and the way in which
//! its answer gets the requested format.
//!
//! The offer is decided here, once for all dialects. It depends on the request, on the model's
//! abilities ([`Traits`]), and on the provider's API. A dialect writes the offer.
//!
//! **Invariant:** a choice names only tools of the request. The reader of the request makes sure of
//! that.

use std::borrow::Cow;
use std::collections::HashSet;

use super::traits::Traits;
use super::{Field, FieldRefused, Format, LostFields, Raw, Request, Tool, ToolChoice};

/// The tools that a model is shown, and the calls that it may or must make.
#[derive(Debug)]
pub(crate) struct Offer<'r, 'a> {
    /// The caller's tools, except those that must not be called and need not be shown.
    pub(crate) tools: Vec<&'r Tool<'a>>,
    /// The calls that the model may make. Without tools it is [`Choice::Free`].
    pub(crate) choice: Choice<'r>,
    /// The tools that the choice names. If it is empty, the choice means all tools.
    pub(crate) named: &'r [Cow<'a, str>],
}

/// The calls that a model may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice<'r> {
    /// It may call tools, and need not.
    Free,
    /// It must call none.
    Never,
    /// It must call at least one.
    Any,
    /// It must call this one.
    One(&'r str),
}

/// The number of tools that a choice can name in a provider's API. If the API cannot name the
/// chosen tools, the model is shown only these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// None.
    None,
    /// One, and it must be called.
    One,
    /// Any number.
    Several,
}

/// The ways in which a provider's API and a model can give an answer the format that is asked for.
#[derive(Debug)]
pub(crate) struct AllowedForms<'w> {
    /// True if the API has a field for the format.
    pub(crate) native: bool,
    /// True if the model can be made to call a tool whose input is the answer.
    pub(crate) tool: bool,
    /// True if the model can be asked for the format in words.
    pub(crate) words: bool,
    /// The field at fault if there is no way.
    pub(crate) at_fault: Field,
    /// The reason of a refusal if there is no way.
    pub(crate) refusal: &'w str,
    /// The reason of a refusal if tools are the obstacle.
    pub(crate) refusal_beside_tools: &'w str,
}

/// The way in which an answer gets its format.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnswerForm<'r, 'a> {
    /// The answer has no format: none was asked for, or the format is a loss.
    Free,
    /// A field of the API has the format.
    Native(&'r Format<'a>),
    /// The answer is the input of a tool next to the caller's tools. The model must call one of all
    /// these tools: it goes on with its work, or it answers.
    Tool(AnswerTool<'r>),
    /// The format is asked for in words.
    Words,
}

/// The tool whose input is the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerTool<'r> {
    /// The format's name, perhaps empty.
    pub(crate) name: &'r str,
    /// The description of the format.
    pub(crate) description: Option<&'r str>,
    /// The answer's schema.
    pub(crate) schema: Raw<'r>,
    /// True if the answer must match the schema exactly.
    pub(crate) strict: bool,
}

/// The schema of an answer that may be any object.
const ANY_OBJECT: Raw<'static> = Raw(r#"{"type":"object","additionalProperties":true}"#);

impl<'r, 'a> Offer<'r, 'a> {
    /// Decides which tools are shown and which must be called. Refuses, with the sentence
    /// `refusal`, a choice that the model cannot be held to.
    pub(crate) fn decide(
        request: &'r Request<'a>,
        traits: &Traits,
        naming: Naming,
        refusal: &str,
    ) -> Result<Self, FieldRefused> {
        let (choice, named): (_, &'r [Cow<'a, str>]) = match &request.tool_choice {
            None | Some(ToolChoice::Auto) => (Choice::Free, &[]),
            Some(ToolChoice::None) if request.tools.is_empty() => (Choice::Free, &[]),
            Some(ToolChoice::None) => (Choice::Never, &[]),
            Some(ToolChoice::Required) => (Choice::Any, &[]),
            Some(ToolChoice::Named(name)) => (Choice::One(name), std::slice::from_ref(name)),
            Some(ToolChoice::Allowed {
                must_call: true,
                names,
            }) => (Choice::Any, names),
            Some(ToolChoice::Allowed { names, .. }) => (Choice::Free, names),
        };
        if choice.is_forced() && request.tools.is_empty() {
            let message = "A tool call is required, but there are no tools.";
            return Err(FieldRefused::invalid(Field::ToolChoice, message));
        }
        if choice.is_forced() && !traits.forced_tools {
            return Err(FieldRefused::unsupported(Field::ToolChoice, refusal));
        }
        let (choice, shows_all) = match (naming, choice) {
            (Naming::Several, _) | (Naming::One, Choice::One(_)) => (choice, true),
            (Naming::None, Choice::One(_)) => (Choice::Any, false),
            (Naming::None | Naming::One, _) => (choice, named.is_empty()),
        };
        let names: HashSet<&str> = if shows_all {
            HashSet::new()
        } else {
            named.iter().map(AsRef::as_ref).collect()
        };
        let is_shown = |tool: &&Tool<'_>| shows_all || names.contains(&*tool.name);
        Ok(Self {
            tools: request.tools.iter().filter(is_shown).collect(),
            choice,
            named,
        })
    }

    /// Returns whether the model may call one of the tools.
    pub(crate) fn may_call(&self) -> bool {
        self.choice != Choice::Never && !self.tools.is_empty()
    }

    /// Decides how an answer gets this format. The answer to a forced call is the call itself; text
    /// outside it has no format.
    pub(crate) fn form(
        &self,
        format: Option<&'r Format<'a>>,
        ways: AllowedForms<'_>,
        losses: &mut LostFields,
    ) -> Result<AnswerForm<'r, 'a>, FieldRefused> {
        let Some(format) = format else {
            return Ok(AnswerForm::Free);
        };
        if ways.native {
            return Ok(AnswerForm::Native(format));
        }
        if self.choice.is_forced() {
            losses.add(Field::Format);
            return Ok(AnswerForm::Free);
        }
        if ways.tool {
            return Ok(AnswerForm::Tool(AnswerTool::for_format(format)));
        }
        if ways.words {
            losses.add(Field::Format);
            return Ok(AnswerForm::Words);
        }
        let refusal = if self.tools.is_empty() {
            ways.refusal
        } else {
            ways.refusal_beside_tools
        };
        Err(FieldRefused::unsupported(ways.at_fault, refusal))
    }
}

impl Choice<'_> {
    /// Returns whether a tool must be called.
    pub(crate) fn is_forced(self) -> bool {
        matches!(self, Choice::Any | Choice::One(_))
    }
}

impl<'r> AnswerTool<'r> {
    fn for_format(format: &'r Format<'_>) -> Self {
        match format {
            Format::JsonObject => Self {
                name: "",
                description: None,
                schema: ANY_OBJECT,
                strict: false,
            },
            Format::JsonSchema {
                name,
                description,
                schema,
                strict,
            } => Self {
                name,
                description: description.as_deref(),
                schema: schema.as_deref().map_or(ANY_OBJECT, Raw),
                strict: *strict == Some(true),
            },
        }
    }
}

impl Format<'_> {
    /// Returns the schema that the answer must keep to, if there is one.
    pub(crate) fn schema(&self) -> Option<Raw<'_>> {
        match self {
            Self::JsonObject => None,
            Self::JsonSchema { schema, .. } => schema.as_deref().map(Raw),
        }
    }
}
