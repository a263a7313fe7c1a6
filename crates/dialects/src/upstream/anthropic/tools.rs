//! Tools, the choice among them, and the format of the answer, which may have to be a tool too.
//!
//! A format is written natively where model and schema allow it. Else the answer is made the input
//! of a tool that must be called: of this one tool, or, where the caller's own may be called as
//! well, of one or the other. Where no call can be forced, any JSON object can still be asked for
//! in words, and that is said; a schema cannot.

use std::collections::BTreeSet;

use super::blocks::Breakpoints;
use super::describe::{Described, Limits};
use super::names::Names;
use super::schema::{self, Fit};
use super::thinking::Thinking;
use crate::neutral::traits::Traits;
use crate::neutral::{Format, Losses, Raw, Refused, Request, Target, Tool, ToolChoice};
use crate::wire::json::Writer;

/// What the model may call, must call, and must answer in.
#[derive(Debug)]
pub(super) struct Offers<'r, 'a> {
    tools: Vec<Offer<'r, 'a>>,
    choice: Choice<'r>,
    is_one_at_a_time: bool,
    /// The schema of the whole answer.
    native: Option<String>,
    limits: Limits,
    /// The tool that the answer is the input of.
    format_tool: Option<String>,
    /// JSON is asked for in words.
    pub(super) hint: Option<&'static str>,
}

#[derive(Debug)]
enum Offer<'r, 'a> {
    /// The caller's.
    Tool(&'r Tool<'a>),
    /// One that is there no more, but was called.
    Stub(&'r str),
    /// The answer's: what it is for, and its schema.
    Format(String, &'r str),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Choice<'r> {
    Unsaid,
    None,
    Auto,
    Any,
    Tool(&'r str),
    Format,
}

pub(crate) const HINT: &str =
    "Answer with one JSON object and with nothing else: no text before or after it, and no code fence around it.";
pub(crate) const FORMAT_TOOL: &str = "json_answer";
/// The field that a schema of the answer stands in.
pub(crate) const FORMAT_SCHEMA: &str = "response_format.json_schema.schema";
const ABOUT_FORMAT_TOOL: &str =
    "Gives the answer. Its input is all of the answer: nothing that is said besides is read.";
pub(crate) const ANY_OBJECT: &str = r#"{"type":"object","additionalProperties":true}"#;

impl<'r, 'a> Offers<'r, 'a> {
    /// Of what the request says and what the model takes.
    pub(super) fn of(
        request: &'r Request<'a>,
        target: &Target<'_>,
        names: &Names<'r>,
        prefilled: bool,
        thinking: &mut Thinking<'_>,
        losses: &mut Losses,
    ) -> Result<Self, Refused> {
        let traits = &target.traits;
        let (choice, only) = choice(request, traits)?;
        if matches!(choice, Choice::Any | Choice::Tool(_)) && thinking.is_on() && !traits.forced_while_thinking {
            thinking.leave_out(losses);
        }
        let is_offered = |tool: &&Tool<'_>| only.as_ref().is_none_or(|only| only.contains(&*tool.name));
        let tools: Vec<Offer<'_, '_>> = if request.tools.is_empty() {
            // They are there to be understood, not to be called again.
            let stubs: Vec<_> = called(request).into_iter().map(Offer::Stub).collect();
            if !stubs.is_empty() {
                losses.add_to(request.words.tools);
            }
            stubs
        } else {
            request.tools.iter().filter(is_offered).map(Offer::Tool).collect()
        };
        let is_one_at_a_time = request.parallel_tool_calls == Some(false) && !tools.is_empty();
        let mut offers =
            Self { tools, choice, is_one_at_a_time, native: None, limits: Limits::MOST, format_tool: None, hint: None };
        offers.format(request, traits, names, prefilled, thinking, losses)?;
        Ok(offers)
    }

    fn format(
        &mut self,
        request: &'r Request<'a>,
        traits: &Traits,
        names: &Names<'r>,
        prefilled: bool,
        thinking: &mut Thinking<'_>,
        losses: &mut Losses,
    ) -> Result<(), Refused> {
        let (about, schema) = match &request.format {
            None => return Ok(()),
            Some(Format::JsonObject) => (None, None),
            Some(Format::JsonSchema { description, schema, .. }) => (description.as_deref(), schema.as_ref()),
        };
        let calls_first = matches!(self.choice, Choice::Any | Choice::Tool(_));
        let can_force = traits.tools && traits.forced_tools && !prefilled;
        let thinks_too = thinking.is_on() && !traits.forced_while_thinking;
        let Some(Raw(schema)) = schema else {
            if calls_first {
                // The answer is a call, and what may be said beside it is in no format.
                losses.add("response_format");
            } else if can_force && !thinks_too {
                self.force(request, names, about, ANY_OBJECT, losses);
            } else {
                losses.add("response_format");
                self.hint = Some(HINT);
            }
            return Ok(());
        };
        if traits.structured && !prefilled && (self.tools.is_empty() || traits.structured_with_tools) {
            let fitted = schema::fit(schema, about);
            if fitted.fit != Fit::No && self.limits.take(&fitted) {
                if fitted.fit == Fit::Weaker {
                    losses.add(FORMAT_SCHEMA);
                }
                self.native = Some(fitted.text);
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
        self.force(request, names, about, schema, losses);
        Ok(())
    }

    /// Makes the answer the input of a tool.
    fn force(
        &mut self,
        request: &Request<'_>,
        names: &Names<'r>,
        about: Option<&str>,
        schema: &'r str,
        losses: &mut Losses,
    ) {
        let about = about_format_tool(about);
        let may_call = !self.tools.is_empty() && self.choice != Choice::None;
        self.tools.push(Offer::Format(about, schema));
        self.choice = if may_call { Choice::Any } else { Choice::Format };
        self.format_tool = Some(names.another(request, FORMAT_TOOL));
        // Two answers would be none.
        self.is_one_at_a_time = true;
        if may_call && request.parallel_tool_calls == Some(true) {
            losses.add("parallel_tool_calls");
        }
    }

    /// The tool whose input the answer will be.
    pub(super) fn format_tool(&self) -> Option<&str> {
        self.format_tool.as_deref()
    }

    /// The tools that nobody offers, by their names at the upstream. It is told to call none, and
    /// may not heed that.
    pub(super) fn stubs(&self, names: &Names<'_>) -> Vec<String> {
        let stub = |offer: &Offer<'_, '_>| {
            if let Offer::Stub(name) = offer { Some(names.written(name).to_owned()) } else { None }
        };
        self.tools.iter().filter_map(stub).collect()
    }

    /// How many of the tools have a hint for the cache.
    pub(super) fn breakpoints(&self) -> usize {
        let has_one = |offer: &&Offer<'_, '_>| matches!(offer, Offer::Tool(tool) if tool.cache.is_some());
        self.tools.iter().filter(has_one).count()
    }

    /// Writes `output_config`, if there is anything to say in it.
    pub(super) fn write_output(&self, w: &mut Writer, effort: Option<&str>) {
        if self.native.is_none() && effort.is_none() {
            return;
        }
        w.key("output_config").object(|w| {
            if let Some(effort) = effort {
                w.key("effort").text(effort);
            }
            if let Some(schema) = &self.native {
                w.key("format").object(|w| {
                    w.key("type").text("json_schema");
                    w.key("schema").raw(schema);
                });
            }
        });
    }

    /// Writes the tools and the choice among them, if there are any.
    pub(super) fn write_tools(
        &self,
        w: &mut Writer,
        names: &Names<'_>,
        traits: &Traits,
        breakpoints: &mut Breakpoints,
        losses: &mut Losses,
    ) {
        if self.tools.is_empty() {
            return;
        }
        let mut limits = self.limits;
        w.key("tools").array(|w| {
            for offer in &self.tools {
                w.object(|w| match offer {
                    Offer::Tool(tool) => {
                        w.key("name").text(names.written(&tool.name));
                        write_description(w, &Described::of(tool, traits.structured.then_some(&mut limits), losses));
                        breakpoints.write(w, tool.cache.as_ref(), losses);
                    }
                    Offer::Stub(name) => {
                        w.key("name").text(names.written(name));
                        w.key("input_schema").raw(&schema::parameters(None).schema);
                    }
                    Offer::Format(about, schema) => {
                        w.key("name").text(self.format_tool.as_deref().unwrap_or(FORMAT_TOOL));
                        write_description(w, &Described::loosely(Some(about), Some(schema), FORMAT_SCHEMA, losses));
                    }
                });
            }
        });
        let (kind, name) = match self.choice {
            Choice::Unsaid if !self.is_one_at_a_time => return,
            Choice::Unsaid | Choice::Auto => ("auto", None),
            Choice::None => ("none", None),
            Choice::Any => ("any", None),
            Choice::Tool(name) => ("tool", Some(names.written(name))),
            Choice::Format => ("tool", self.format_tool.as_deref()),
        };
        w.key("tool_choice").object(|w| {
            w.key("type").text(kind);
            if let Some(name) = name {
                w.key("name").text(name);
            }
            if self.is_one_at_a_time && self.choice != Choice::None {
                w.key("disable_parallel_tool_use").bool(true);
            }
        });
    }
}

/// What is said of the choice, and among which tools, if not all.
fn choice<'r>(request: &'r Request<'_>, traits: &Traits) -> Result<(Choice<'r>, Option<BTreeSet<&'r str>>), Refused> {
    let (choice, only) = match &request.tool_choice {
        _ if request.tools.is_empty() => (Choice::None, None),
        None => (Choice::Unsaid, None),
        Some(ToolChoice::None) => (Choice::None, None),
        Some(ToolChoice::Auto) => (Choice::Auto, None),
        Some(ToolChoice::Required) => (Choice::Any, None),
        Some(ToolChoice::Named(name)) => (Choice::Tool(name), None),
        Some(ToolChoice::Allowed(must, names)) => {
            (if *must { Choice::Any } else { Choice::Auto }, Some(names.iter().map(|name| &**name).collect()))
        }
    };
    let is_forced = matches!(choice, Choice::Any | Choice::Tool(_));
    if is_forced && !traits.forced_tools {
        return Err(Refused::unsupported(request.words.tool_choice, "This model cannot be made to call a tool."));
    }
    Ok((choice, only))
}

/// The functions that were called, since the API refuses calls where no tools are.
fn called<'r>(request: &'r Request<'_>) -> BTreeSet<&'r str> {
    request.messages.iter().flat_map(|message| &message.calls).map(|call| &*call.name).collect()
}

/// What is said of the tool that the answer is the input of.
pub(crate) fn about_format_tool(about: Option<&str>) -> String {
    about.map_or_else(|| ABOUT_FORMAT_TOOL.to_owned(), |about| format!("{ABOUT_FORMAT_TOOL}\n\n{about}"))
}

fn write_description(w: &mut Writer, described: &Described<'_>) {
    if let Some(about) = &described.about {
        w.key("description").text(about);
    }
    w.key("input_schema").raw(&described.schema);
    if described.strict {
        w.key("strict").bool(true);
    }
}

#[cfg(test)]
mod tests;
