//! This module decides about tools, the choice among them, and the format of the answer, which may
//! have to be a tool too.
//!
//! A format is written natively if the model and the schema allow it. Otherwise the answer becomes
//! the input of a tool that must be called. If the caller's tools may be called as well, the model
//! must call one of those or this tool. If no call can be forced, any JSON object can still be
//! asked for in words, which is named as a loss; a schema cannot.

use std::borrow::Cow;

use super::conversation::Conversation;
use super::describe::{Described, Limits};
use super::schema::{self, Fit};
use super::thinking::Thinking;
use crate::neutral::offer::{AllowedForms, AnswerForm, Choice, Naming, Offer};
use crate::neutral::traits::Traits;
use crate::neutral::{Cache, Field, FieldRefused, Format, LostFields, Raw, Request, Undo};
use crate::upstream::shared::names::Names;

/// The tools that the model may call and must call, and the format of its answer.
#[derive(Debug)]
pub(crate) struct Tools<'r, 'a> {
    /// The names of the tools at the upstream.
    pub(crate) names: Names<'r>,
    /// The caller's tools, and the choice among them.
    pub(crate) offer: Offer<'r, 'a>,
    /// The names of tools that the caller does not offer. They are shown because they were called
    /// before. The model is ordered not to call them, but it may do so nevertheless.
    pub(crate) stubs: Vec<&'r str>,
    /// The tool whose input is the answer.
    pub(crate) answer: Option<FormatTool<'r>>,
    /// The native format of the whole answer.
    pub(crate) native: Option<Native<'r>>,
    /// The words in which JSON is asked for.
    pub(crate) hint: Option<&'static str>,
    api: Api,
    /// The limits that are left for strict tools.
    limits: Option<Limits>,
}

/// A tool whose input is the answer.
#[derive(Debug)]
pub(crate) struct FormatTool<'r> {
    pub(crate) name: String,
    about: String,
    schema: &'r str,
}

/// A schema that the whole answer is held to.
#[derive(Debug)]
pub(crate) struct Native<'r> {
    pub(crate) schema: Cow<'r, str>,
    pub(crate) name: &'r str,
    pub(crate) about: Option<&'r str>,
}

/// The abilities of an API.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Api {
    /// True if the API can forbid all calls of tools. Otherwise such tools are not shown.
    pub(crate) none: bool,
    /// The number of tools that a choice can name.
    pub(crate) naming: Naming,
    /// True if the API takes only schemas that Claude knows ([`schema::fit_schema`]).
    pub(crate) fitted_schemas: bool,
    /// True if the API has a field for the description of a format. Otherwise the schema has the
    /// description.
    pub(crate) format_description: bool,
}

/// The facts about a request before its tools are decided.
pub(crate) struct Situation<'t, 'r, 'a> {
    pub(crate) api: Api,
    pub(crate) traits: &'t Traits,
    pub(crate) conversation: &'t Conversation<'t, 'r, 'a>,
    /// The tools that were called before, and that the caller does not offer.
    pub(crate) stubs: Vec<&'r str>,
}

const HINT: &str = "Answer with one JSON object and with nothing else: no text before or after it, and no code fence around it.";
const PREFILLED: &str =
    "This model does not support a JSON Schema if the last message is the beginning of the answer.";
const ANSWER_TOOL: &str = "json_answer";
const ABOUT_ANSWER_TOOL: &str =
    "Gives the answer. Its input is all of the answer: nothing that is said besides is read.";

impl<'r, 'a> Tools<'r, 'a> {
    /// Decides which tools are shown, and how the answer gets its format.
    pub(crate) fn decide(
        request: &'r Request<'a>,
        situation: Situation<'_, 'r, 'a>,
        thinking: &mut Thinking<'_>,
        losses: &mut LostFields,
    ) -> Result<Self, FieldRefused> {
        let Situation {
            api,
            traits,
            conversation,
            stubs,
        } = situation;
        let mut offer = Offer::decide(
            request,
            traits,
            api.naming,
            "This model cannot be forced to call a tool.",
        )?;
        if offer.choice == Choice::Never && !api.none {
            offer.tools.clear();
        }
        if offer.choice.is_forced() && thinking.is_on() && !traits.forced_while_thinking {
            thinking.leave_out(losses);
        }
        let thinks_too = thinking.is_on() && !traits.forced_while_thinking;
        let prefilled = conversation.is_prefilled();
        let is_beside_tools = conversation.has_calls() || !offer.tools.is_empty();
        let is_native =
            traits.structured && !prefilled && (!is_beside_tools || traits.structured_with_tools);
        let can_force = traits.tools && traits.forced_tools && !prefilled;

        let format = request.format.as_ref();
        let mut limits = Limits::MAX;
        let schema = format.and_then(Format::schema);
        let (native, misfit) = match format.filter(|_| is_native && schema.is_some()) {
            Some(format) => match Native::for_format(format, api, &mut limits, losses) {
                Ok(native) => (Some(native), None),
                Err(misfit) => (None, Some(misfit)),
            },
            None => (None, None),
        };
        let refusal = if prefilled {
            PREFILLED.into()
        } else {
            schema_refusal(can_force, misfit)
        };
        let ways = AllowedForms {
            native: native.is_some(),
            tool: can_force
                && schema.map_or(!thinks_too, |Raw(schema)| schema::is_of_objects(schema)),
            words: schema.is_none(),
            at_fault: Field::FormatSchema,
            refusal: &refusal,
            refusal_beside_tools: &refusal,
        };
        let names = Names::assign(request);
        let mut answer = None;
        let mut hint = None;
        match offer.form(format, ways, losses)? {
            AnswerForm::Free | AnswerForm::Native(_) => {}
            AnswerForm::Words => hint = Some(HINT),
            AnswerForm::Tool(tool) => {
                if thinks_too {
                    thinking.leave_out(losses);
                }
                losses.add_if(
                    offer.may_call() && request.parallel_tool_calls == Some(true),
                    Field::ParallelCalls,
                );
                let about = match tool.description {
                    Some(about) => format!("{ABOUT_ANSWER_TOOL}\n\n{about}"),
                    None => ABOUT_ANSWER_TOOL.to_owned(),
                };
                answer = Some(FormatTool {
                    name: names.another(request, ANSWER_TOOL),
                    about,
                    schema: tool.schema.0,
                });
            }
        }
        let limits = (traits.structured && api.fitted_schemas).then_some(limits);
        Ok(Self {
            names,
            offer,
            stubs,
            answer,
            native,
            hint,
            api,
            limits,
        })
    }

    /// Returns whether any tool is shown.
    pub(crate) fn any(&self) -> bool {
        !self.offer.tools.is_empty() || !self.stubs.is_empty() || self.answer.is_some()
    }

    /// Returns the calls that the model may make among all these tools, by their names at the
    /// upstream.
    pub(crate) fn choice(&self) -> Choice<'_> {
        match (&self.answer, self.offer.choice) {
            (Some(_), _) if self.offer.may_call() || self.api.naming == Naming::None => Choice::Any,
            (Some(answer), _) => Choice::One(&answer.name),
            (None, _) if !self.stubs.is_empty() => Choice::Never,
            (None, Choice::One(name)) => Choice::One(self.names.written(name)),
            (None, choice) => choice,
        }
    }

    /// Counts the tools that have a cache hint.
    pub(crate) fn cache_hints(&self) -> usize {
        self.offer
            .tools
            .iter()
            .filter(|tool| tool.cache.is_some())
            .count()
    }

    /// Describes each tool except the stubs, with its name at the upstream and its cache hint.
    pub(crate) fn describe(
        &self,
        losses: &mut LostFields,
        mut write: impl FnMut(&str, &Described<'_>, Option<&Cache<'_>>, &mut LostFields),
    ) {
        let mut limits = self.limits;
        for tool in &self.offer.tools {
            let described = Described::from_tool(tool, limits.as_mut(), losses);
            write(
                self.names.written(&tool.name),
                &described,
                tool.cache.as_ref(),
                losses,
            );
        }
        if let Some(answer) = &self.answer {
            let described = Described::loosely(
                Some(Cow::Owned(answer.about.as_str().into())),
                Some(answer.schema),
                Field::FormatSchema,
                losses,
            );
            write(&answer.name, &described, None, losses);
        }
    }

    /// Returns the changes that reading the answer must undo.
    pub(crate) fn undo(self) -> Undo {
        Undo {
            stubs: self
                .stubs
                .iter()
                .map(|name| self.names.written(name).to_owned())
                .collect(),
            format_tool: self.answer.map(|answer| answer.name),
            names: self.names.into_changed(),
            ..Undo::default()
        }
    }
}

impl<'r> Native<'r> {
    /// Returns the format for the API's own field, or the reason why the API does not take the
    /// schema.
    fn for_format(
        format: &'r Format<'_>,
        api: Api,
        limits: &mut Limits,
        losses: &mut LostFields,
    ) -> Result<Self, &'static str> {
        let Format::JsonSchema {
            name,
            description,
            schema: Some(schema),
            ..
        } = format
        else {
            return Err("there is none");
        };
        let about = description.as_deref();
        if !api.fitted_schemas {
            return Ok(Self {
                schema: Cow::Borrowed(schema),
                name,
                about,
            });
        }
        let fitted = schema::fit_schema(schema, about.filter(|_| !api.format_description));
        match fitted.fit {
            Fit::No(why) => return Err(why),
            _ if !limits.take(&fitted) => {
                return Err("it has too many optional properties or unions");
            }
            Fit::Weaker => losses.add(Field::FormatSchema),
            Fit::Whole => {}
        }
        Ok(Self {
            schema: Cow::Owned(fitted.text),
            name,
            about,
        })
    }
}

/// Returns the reason of a refusal of a schema. `misfit` is the reason why the API does not take
/// it.
fn schema_refusal(can_force: bool, misfit: Option<&str>) -> Cow<'static, str> {
    match misfit {
        _ if can_force => {
            "This model supports only the JSON Schema of an object. Make this schema the one of a property.".into()
        }
        Some(why) => format!("This model does not support this JSON Schema: {why}.").into(),
        None => "This model does not support a JSON Schema for its answer.".into(),
    }
}
