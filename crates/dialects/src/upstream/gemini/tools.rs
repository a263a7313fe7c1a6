//! Tools, which of them may be called, and answers in a format: Google's older models have one or
//! the other, so these meet here.

use std::borrow::Cow;

use super::names::{self, Names};
use super::open_api;
use super::schema::Schema;
use crate::neutral::traits::Traits;
use crate::neutral::{Format, Losses, Raw, Refused, Request, Target, Tool, ToolChoice, ToolKind};
use crate::wire::json::Writer;

/// What becomes of the tools and the format of a request.
#[derive(Debug)]
pub(super) struct Plan<'r, 'a> {
    pub names: Names,
    /// The functions to declare.
    declared: &'r [Tool<'a>],
    /// The format, where it is said as such.
    pub native: Option<&'r Format<'a>>,
    /// The function that stands for the format: its name, and what it takes.
    pub answer: Option<(String, Answer<'r>)>,
    /// What functions take is said in JSON Schema.
    in_json_schema: bool,
}

/// The function whose call is the answer.
#[derive(Debug)]
pub(super) struct Answer<'r> {
    description: Option<&'r str>,
    schema: Schema<'r>,
}

impl<'r, 'a> Plan<'r, 'a> {
    pub(super) fn of(request: &'r Request<'a>, target: &Target<'_>, losses: &mut Losses) -> Result<Self, Refused> {
        let traits = &target.traits;
        let mut plan = Plan {
            names: Names::default(),
            declared: &request.tools,
            native: None,
            answer: None,
            in_json_schema: traits.server.parameters_json_schema,
        };
        plan.check(request, traits, losses)?;
        plan.format(request, traits, losses)?;
        plan.names = Names::of(request);
        if let Some((name, _)) = &mut plan.answer {
            *name = plan.names.free(request, name);
        }
        if request.parallel_tool_calls == Some(false) && !plan.declared.is_empty() {
            losses.add("parallel_tool_calls");
        }
        Ok(plan)
    }

    /// Refuses tools that cannot be declared, and choices that cannot be made.
    fn check(&mut self, request: &'r Request<'a>, traits: &Traits, losses: &mut Losses) -> Result<(), Refused> {
        if !traits.tools && !request.tools.is_empty() {
            if request.tool_choice != Some(ToolChoice::None) {
                return Err(Refused::unsupported(request.words.tools, "this model does not know tools"));
            }
            losses.add(request.words.tools);
            self.declared = &[];
        }
        for (index, tool) in self.declared.iter().enumerate() {
            match tool.kind {
                ToolKind::Function(..) => {}
                ToolKind::Custom => {
                    let why = "custom tools are not known to this model: declare a function";
                    return Err(Refused::unsupported(format!("tools[{index}]"), why));
                }
                ToolKind::Other => {
                    let why = "tools of this type cannot be used with this model: only functions can";
                    return Err(Refused::unsupported(format!("tools[{index}]"), why));
                }
            }
            if tool.cache.is_some() {
                losses.add("cache_control");
            }
        }
        if must_call(request) && !traits.forced_tools {
            return Err(Refused::unsupported(request.words.tool_choice, "this model cannot be made to call a tool"));
        }
        Ok(())
    }

    /// Decides how the format is said. Where it cannot stand beside tools, a function that takes it
    /// stands among them, and one of them must be called: so the model either uses a tool or
    /// answers.
    fn format(&mut self, request: &'r Request<'a>, traits: &Traits, losses: &mut Losses) -> Result<(), Refused> {
        let Some(format) = &request.format else { return Ok(()) };
        let goes_with_tools = traits.structured && traits.structured_with_tools;
        if !self.declared.is_empty() && !goes_with_tools && request.tool_choice == Some(ToolChoice::None) {
            losses.add(request.words.tools);
            self.declared = &[];
        }
        let beside_tools = !self.declared.is_empty();
        if goes_with_tools || (traits.structured && !beside_tools) {
            self.native = Some(format);
            return Ok(());
        }
        if beside_tools && must_call(request) {
            // The answer will be a call, and what may be said beside it is in no format.
            losses.add("response_format");
            return Ok(());
        }
        let schema = match format {
            Format::JsonSchema { name, description, schema: Some(Raw(json)), .. } => {
                Some((name, description.as_deref(), Schema::read(json))).filter(|(_, _, schema)| schema.is_object())
            }
            Format::JsonSchema { schema: None, .. } | Format::JsonObject => None,
        };
        match schema {
            Some((name, description, schema)) if traits.tools && traits.forced_tools => {
                let name = names::fitting(if name.is_empty() { "answer" } else { name });
                self.answer = Some((name, Answer { description, schema }));
                Ok(())
            }
            Some(_) | None if beside_tools => Err(Refused::unsupported(
                "response_format",
                "this model cannot be held to this format while there are tools",
            )),
            Some(_) | None => Err(Refused::unsupported("response_format", "this model cannot be held to this format")),
        }
    }

    /// Writes `tools` and `toolConfig`.
    pub(super) fn write(&self, request: &Request<'_>, losses: &mut Losses, w: &mut Writer) {
        if self.declared.is_empty() && self.answer.is_none() {
            return;
        }
        let is_free = matches!(request.tool_choice, None | Some(ToolChoice::Auto)) && self.answer.is_none();
        w.key("tools").array(|w| {
            w.object(|w| {
                w.key("functionDeclarations").array(|w| {
                    for tool in self.declared {
                        if is_free && matches!(tool.kind, ToolKind::Function(_, Some(true))) {
                            losses.add("tools[].function.strict");
                        }
                        w.object(|w| self.declaration(tool, losses, w));
                    }
                    if let Some((name, answer)) = &self.answer {
                        w.object(|w| answer.declaration(name, self.in_json_schema, losses, w));
                    }
                });
            });
        });
        let mut config = |mode: &str, allowed: &[Cow<'_, str>]| {
            w.key("toolConfig").object(|w| {
                w.key("functionCallingConfig").object(|w| {
                    w.key("mode").text(mode);
                    if !allowed.is_empty() {
                        w.key("allowedFunctionNames").array(|w| {
                            allowed.iter().for_each(|name| w.text(&self.names.theirs(name)));
                            self.answer.iter().for_each(|(name, _)| w.text(name));
                        });
                    }
                });
            });
        };
        match &request.tool_choice {
            // Only the answer may be called, and nothing else is declared: `format` saw to that, or
            // `tools` were none.
            _ if self.declared.is_empty() => config("ANY", &[]),
            Some(ToolChoice::None) => config("NONE", &[]),
            None | Some(ToolChoice::Auto) if self.answer.is_some() => config("ANY", &[]),
            None | Some(ToolChoice::Auto) => {}
            Some(ToolChoice::Required) => config("ANY", &[]),
            Some(ToolChoice::Named(name)) => config("ANY", std::slice::from_ref(name)),
            Some(ToolChoice::Allowed(false, names)) if self.answer.is_none() => config("VALIDATED", names),
            Some(ToolChoice::Allowed(_, names)) => config("ANY", names),
        }
    }

    fn declaration(&self, tool: &Tool<'_>, losses: &mut Losses, w: &mut Writer) {
        w.key("name").text(&self.names.theirs(&tool.name));
        if let Some(description) = &tool.description {
            w.key("description").text(description);
        }
        let ToolKind::Function(Some(Raw(parameters)), _) = tool.kind else { return };
        let schema = Schema::read(parameters);
        if !schema.has_no_properties() && write_parameters(&schema, self.in_json_schema, w) {
            losses.add("tools[].function.parameters");
        }
    }
}

impl Answer<'_> {
    fn declaration(&self, name: &str, in_json_schema: bool, losses: &mut Losses, w: &mut Writer) {
        const WHAT: &str = "Gives the final answer. When no other function needs to be called any more, call this one; its arguments are the answer.";
        w.key("name").text(name);
        match self.description {
            Some(description) => w.key("description").text(&format!("{WHAT} {description}")),
            None => w.key("description").text(WHAT),
        }
        if write_parameters(&self.schema, in_json_schema, w) {
            losses.add("response_format.json_schema.schema");
        }
    }
}

/// Writes what a function takes; whether something of it is lost.
fn write_parameters(schema: &Schema<'_>, in_json_schema: bool, w: &mut Writer) -> bool {
    if in_json_schema {
        schema.write(w.key("parametersJsonSchema"))
    } else {
        open_api::write(schema, w.key("parameters"))
    }
}

/// Whether the answer has to be a call of the caller's tools.
fn must_call(request: &Request<'_>) -> bool {
    match request.tool_choice {
        Some(ToolChoice::Required | ToolChoice::Named(_) | ToolChoice::Allowed(true, _)) => true,
        Some(ToolChoice::None | ToolChoice::Auto | ToolChoice::Allowed(false, _)) | None => false,
    }
}

/// Writes the format as such.
pub(super) fn write_format(format: &Format<'_>, in_json_schema: bool, losses: &mut Losses, w: &mut Writer) {
    w.key("responseMimeType").text("application/json");
    match format {
        Format::JsonObject | Format::JsonSchema { schema: None, .. } => {}
        Format::JsonSchema { description, schema: Some(Raw(json)), .. } => {
            if description.is_some() {
                losses.add("response_format.json_schema.description");
            }
            let schema = Schema::read(json);
            let lost = if in_json_schema {
                schema.write(w.key("responseJsonSchema"))
            } else {
                open_api::write(&schema, w.key("responseSchema"))
            };
            if lost {
                losses.add("response_format.json_schema.schema");
            }
        }
    }
}

#[cfg(test)]
mod tests;
