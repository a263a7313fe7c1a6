//! Tools, the choice among them, and the format of the answer, which may have to be a tool too.
//!
//! Converse cannot be told to call no tool, and refuses calls in a conversation without tools. So
//! tools that must not be called are left out where that can be; else one is offered that does
//! nothing, or they stay, and that is said.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::blocks::CachePoints;
use super::models::Family;
use crate::neutral::{Format, Losses, Raw, Refused, Request, Target, Tool, ToolChoice};
use crate::upstream::anthropic::describe::{Described, Limits};
use crate::upstream::anthropic::names::Names;
use crate::upstream::anthropic::schema::{self, Fit};
use crate::upstream::anthropic::thinking::Thinking;
use crate::upstream::anthropic::tools::{ANY_OBJECT, FORMAT_SCHEMA, FORMAT_TOOL, HINT, about_format_tool};
use crate::wire::json::Writer;

/// What the model may call, must call, and must answer in.
#[derive(Debug)]
pub(super) struct Offers<'r, 'a> {
    tools: Vec<Offer<'r, 'a>>,
    choice: Choice<'r>,
    /// The schema of the whole answer.
    native: Option<Native<'r>>,
    limits: Limits,
    /// The tool that the answer is the input of.
    pub(super) format_tool: Option<String>,
    /// JSON is asked for in words.
    pub(super) hint: Option<&'static str>,
}

#[derive(Debug)]
enum Offer<'r, 'a> {
    /// The caller's.
    Tool(&'r Tool<'a>),
    /// For conversations with calls, where there are no tools any more.
    Stub,
    /// The answer's: what it is for, and its schema.
    Format(String, &'r str),
}

/// Silence is as good as `auto`, which some models do not know.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Choice<'r> {
    Auto,
    Any,
    Tool(&'r str),
    Format,
}

#[derive(Debug)]
struct Native<'r> {
    schema: Cow<'r, str>,
    name: &'r str,
    about: Option<&'r str>,
}

/// How the request stands before its tools are known.
pub(super) struct Situation<'s> {
    pub(super) family: Family,
    /// There are calls in the conversation.
    pub(super) has_calls: bool,
    /// The conversation ends with the assistant's own words.
    pub(super) prefilled: bool,
    pub(super) names: &'s Names<'s>,
}

const STUB_NAME: &str = "no_tool";
const STUB: &str = r#"{"toolSpec":{"name":"no_tool","description":"Does nothing. There are no tools any more: do not call any.","inputSchema":{"json":{"type":"object","properties":{}}}}}"#;

impl<'r, 'a> Offers<'r, 'a> {
    /// Of what the request says and what the model takes.
    pub(super) fn of(
        request: &'r Request<'a>,
        target: &Target<'_>,
        situation: &Situation<'_>,
        thinking: &mut Thinking<'_>,
        losses: &mut Losses,
    ) -> Result<Self, Refused> {
        let mut offers = Self {
            tools: Vec::new(),
            choice: Choice::Auto,
            native: None,
            limits: Limits::MOST,
            format_tool: None,
            hint: None,
        };
        let must_not_call = matches!(request.tool_choice, Some(ToolChoice::None));
        if !must_not_call {
            offers.choose(request, target, situation, thinking, losses)?;
        }
        offers.format(request, target, situation, thinking, losses)?;
        if offers.tools.is_empty() && situation.has_calls {
            if request.tools.is_empty() {
                // It might be called, though nobody offers it: the answer hides that, and this says
                // that it is there.
                losses.add_to(request.words.tools);
                offers.tools.push(Offer::Stub);
            } else {
                losses.add(request.words.tool_choice);
                offers.tools.extend(request.tools.iter().map(Offer::Tool));
            }
        }
        if request.parallel_tool_calls == Some(false)
            && offers.tools.iter().any(|offer| matches!(offer, Offer::Tool(_)))
        {
            losses.add("parallel_tool_calls");
        }
        Ok(offers)
    }

    /// Which of the tools are meant, and whether one must be called.
    fn choose(
        &mut self,
        request: &'r Request<'a>,
        target: &Target<'_>,
        situation: &Situation<'_>,
        thinking: &mut Thinking<'_>,
        losses: &mut Losses,
    ) -> Result<(), Refused> {
        let these = |names: &'r [Cow<'a, str>]| Some(names.iter().map(|name| &**name).collect::<BTreeSet<_>>());
        let (mut choice, only) = match &request.tool_choice {
            None | Some(ToolChoice::None | ToolChoice::Auto) => (Choice::Auto, None),
            Some(ToolChoice::Required) => (Choice::Any, None),
            Some(ToolChoice::Named(name)) => (Choice::Tool(name), None),
            Some(ToolChoice::Allowed(true, names)) => (Choice::Any, these(names)),
            Some(ToolChoice::Allowed(false, names)) => (Choice::Auto, these(names)),
        };
        if request.tools.is_empty() {
            if choice != Choice::Auto {
                losses.add(request.words.tool_choice);
            }
            return Ok(());
        }
        let mut one = if let Choice::Tool(name) = choice { Some(name) } else { None };
        if one.is_some_and(|name| !request.tools.iter().any(|tool| tool.name == name)) {
            return Err(Refused::invalid(
                request.words.tool_choice,
                "The choice names a tool that is not among the `tools`.",
            ));
        }
        let traits = &target.traits;
        if choice != Choice::Auto && !traits.forced_tools {
            return Err(Refused::unsupported(request.words.tool_choice, "This model cannot be made to call a tool."));
        }
        if choice != Choice::Auto && thinking.is_on() && !traits.forced_while_thinking {
            thinking.leave_out(losses);
        }
        if one.is_some() && situation.family == Family::Mistral {
            // The only tool that there is must be the one.
            choice = Choice::Any;
        } else {
            one = None;
        }
        let is_offered = |tool: &&Tool<'_>| match (one, &only) {
            (Some(name), _) => tool.name == name,
            (None, Some(names)) => names.contains(&*tool.name),
            (None, None) => true,
        };
        self.tools = request.tools.iter().filter(is_offered).map(Offer::Tool).collect();
        self.choice = choice;
        if self.tools.is_empty() {
            return Err(Refused::invalid(request.words.tool_choice, "The choice allows none of the `tools`."));
        }
        Ok(())
    }

    fn format(
        &mut self,
        request: &'r Request<'a>,
        target: &Target<'_>,
        situation: &Situation<'_>,
        thinking: &mut Thinking<'_>,
        losses: &mut Losses,
    ) -> Result<(), Refused> {
        let traits = &target.traits;
        let (name, about, schema) = match &request.format {
            None => return Ok(()),
            Some(Format::JsonObject) => ("", None, None),
            Some(Format::JsonSchema { name, description, schema, .. }) => {
                (&**name, description.as_deref(), schema.as_ref())
            }
        };
        let calls_first = matches!(self.choice, Choice::Any | Choice::Tool(_));
        let can_force = traits.tools && traits.forced_tools && !situation.prefilled;
        let thinks_too = thinking.is_on() && !traits.forced_while_thinking;
        let Some(Raw(schema)) = schema else {
            if calls_first {
                // The answer is a call, and what may be said beside it is in no format.
                losses.add("response_format");
            } else if can_force && !thinks_too {
                self.force(request, situation, about, ANY_OBJECT, losses);
            } else {
                losses.add("response_format");
                self.hint = Some(HINT);
            }
            return Ok(());
        };
        let has_tools = !self.tools.is_empty() || situation.has_calls;
        if traits.structured && !situation.prefilled && (!has_tools || traits.structured_with_tools) {
            if situation.family != Family::Claude {
                self.native = Some(Native { schema: Cow::Borrowed(schema), name, about });
                return Ok(());
            }
            let fitted = schema::fit(schema, None);
            if fitted.fit != Fit::No && self.limits.take(&fitted) {
                if fitted.fit == Fit::Weaker {
                    losses.add(FORMAT_SCHEMA);
                }
                self.native = Some(Native { schema: Cow::Owned(fitted.text), name, about });
                return Ok(());
            }
        }
        if calls_first {
            losses.add("response_format");
            return Ok(());
        }
        if !can_force || !schema::is_of_objects(schema) {
            return Err(Refused::unsupported("response_format", "This model cannot answer in this schema."));
        }
        if thinks_too {
            thinking.leave_out(losses);
        }
        self.force(request, situation, about, schema, losses);
        Ok(())
    }

    /// Makes the answer the input of a tool.
    fn force(
        &mut self,
        request: &Request<'_>,
        situation: &Situation<'_>,
        about: Option<&str>,
        schema: &'r str,
        losses: &mut Losses,
    ) {
        let about = about_format_tool(about);
        let may_call = !self.tools.is_empty();
        self.tools.push(Offer::Format(about, schema));
        self.choice = if may_call || situation.family == Family::Mistral { Choice::Any } else { Choice::Format };
        self.format_tool = Some(situation.names.another(request, FORMAT_TOOL));
        if may_call && request.parallel_tool_calls == Some(true) {
            losses.add("parallel_tool_calls");
        }
    }

    /// The tools that nobody offers.
    pub(super) fn stubs(&self) -> Vec<String> {
        self.tools.iter().filter(|offer| matches!(offer, Offer::Stub)).map(|_| STUB_NAME.to_owned()).collect()
    }

    /// Whether there is a `toolConfig`.
    pub(super) fn any(&self) -> bool {
        !self.tools.is_empty()
    }

    /// How many of the tools have a hint for the cache.
    pub(super) fn cache_points(&self) -> usize {
        self.tools.iter().filter(|offer| matches!(offer, Offer::Tool(tool) if tool.cache.is_some())).count()
    }

    /// Writes the members of `outputConfig`.
    pub(super) fn write_output(&self, w: &mut Writer) {
        let Some(native) = &self.native else { return };
        w.key("textFormat").object(|w| {
            w.key("type").text("json_schema");
            w.key("structure").object(|w| {
                w.key("jsonSchema").object(|w| {
                    w.key("schema").text(&native.schema);
                    for (key, text) in [("name", Some(native.name)), ("description", native.about)] {
                        if let Some(text) = text.filter(|text| !text.is_empty()) {
                            w.key(key).text(text);
                        }
                    }
                });
            });
        });
    }

    /// Writes the members of `toolConfig`.
    pub(super) fn write_tools(
        &self,
        w: &mut Writer,
        situation: &Situation<'_>,
        is_strict: bool,
        points: &mut CachePoints,
        losses: &mut Losses,
    ) {
        let mut limits = self.limits;
        let names = situation.names;
        w.key("tools").array(|w| {
            for offer in &self.tools {
                match offer {
                    Offer::Tool(tool) => {
                        spec(
                            w,
                            names.written(&tool.name),
                            &Described::of(tool, is_strict.then_some(&mut limits), losses),
                        );
                        points.tool(w, tool.cache.as_ref(), losses);
                    }
                    Offer::Stub => w.raw(STUB),
                    Offer::Format(about, schema) => {
                        let name = self.format_tool.as_deref().unwrap_or(FORMAT_TOOL);
                        spec(w, name, &Described::loosely(Some(about), Some(schema), FORMAT_SCHEMA, losses));
                    }
                }
            }
        });
        let forced = match self.choice {
            Choice::Auto => return,
            Choice::Any => return w.key("toolChoice").raw(r#"{"any":{}}"#),
            Choice::Tool(name) => names.written(name),
            Choice::Format => self.format_tool.as_deref().unwrap_or(FORMAT_TOOL),
        };
        w.key("toolChoice").object(|w| w.key("tool").object(|w| w.key("name").text(forced)));
    }
}

fn spec(w: &mut Writer, name: &str, described: &Described<'_>) {
    w.object(|w| {
        w.key("toolSpec").object(|w| {
            w.key("name").text(name);
            if let Some(about) = &described.about {
                w.key("description").text(about);
            }
            w.key("inputSchema").object(|w| w.key("json").raw(&described.schema));
            if described.strict {
                w.key("strict").bool(true);
            }
        });
    });
}
