//! This module decides about tools, the choice among them, and answers in a format. They are
//! together here because Google's older models have either tools or a format.

use super::names::{self, FunctionNames};
use super::open_api;
use super::schema::Schema;
use crate::neutral::offer::{AllowedForms, AnswerForm, AnswerTool, Choice, Naming, Offer};
use crate::neutral::traits::Traits;
use crate::neutral::{
    Field, FieldRefused, Format, LostFields, Raw, Request, Target, Tool, ToolChoice, ToolKind,
};
use crate::wire::json::Writer;

/// The decisions about the tools and the format of a request.
#[derive(Debug)]
pub(super) struct Plan<'r, 'a> {
    pub names: FunctionNames<'r>,
    /// The functions to declare, and the choice among them.
    offer: Offer<'r, 'a>,
    /// The format, if the API has a field for it.
    pub native: Option<&'r Format<'a>>,
    /// The function whose call is the answer, and its name.
    pub answer: Option<(String, AnswerTool<'r>)>,
    /// True if the parameters of functions are written in JSON Schema.
    in_json_schema: bool,
}

impl<'r, 'a> Plan<'r, 'a> {
    /// Decides which functions are declared, and how the answer gets its format.
    pub(super) fn decide(
        request: &'r Request<'a>,
        target: &Target<'_>,
        losses: &mut LostFields,
    ) -> Result<Self, FieldRefused> {
        let traits = &target.traits;
        check_tools(request, traits, losses)?;
        let refusal = "This model cannot be forced to call a tool.";
        let mut offer = Offer::decide(request, traits, Naming::Several, refusal)?;
        let format = request.format.as_ref();
        let goes_with_tools = traits.structured && traits.structured_with_tools;
        let stands_in_the_way =
            format.is_some() && !goes_with_tools && offer.choice == Choice::Never;
        if !offer.tools.is_empty() && (!traits.tools || stands_in_the_way) {
            losses.add(Field::Tools);
            offer.tools.clear();
        }
        let native = goes_with_tools || (traits.structured && offer.tools.is_empty());
        let is_object = |schema: Raw<'_>| Schema::read(schema.0).is_object();
        let fits_tool = || format.and_then(Format::schema).is_some_and(is_object);
        let ways = AllowedForms {
            native,
            tool: !native && traits.tools && traits.forced_tools && fits_tool(),
            words: false,
            at_fault: Field::Format,
            refusal: "This model does not support this format for its answer.",
            refusal_beside_tools: "This model does not support this format for its answer together with tools.",
        };
        let form = offer.form(format, ways, losses)?;
        let mut names = FunctionNames::from_request(request);
        let answer = if let AnswerForm::Tool(tool) = form {
            let name = names::valid_name(if tool.name.is_empty() {
                "answer"
            } else {
                tool.name
            });
            Some((names.free(request, name), tool))
        } else {
            None
        };
        losses.add_if(
            request.parallel_tool_calls == Some(false) && !offer.tools.is_empty(),
            Field::ParallelCalls,
        );
        let native = if let AnswerForm::Native(format) = form {
            Some(format)
        } else {
            None
        };
        Ok(Self {
            names,
            offer,
            native,
            answer,
            in_json_schema: traits.server.parameters_json_schema,
        })
    }

    /// Writes `tools` and `toolConfig`.
    pub(super) fn write(&self, losses: &mut LostFields, w: &mut Writer) {
        let Offer {
            tools,
            choice,
            named,
        } = &self.offer;
        if tools.is_empty() && self.answer.is_none() {
            return;
        }
        let is_free = *choice == Choice::Free && named.is_empty() && self.answer.is_none();
        w.key("tools").array(|w| {
            w.object(|w| {
                w.key("functionDeclarations").array(|w| {
                    for tool in tools {
                        losses.add_if(
                            is_free && matches!(tool.kind, ToolKind::Function(_, Some(true))),
                            Field::ToolStrict,
                        );
                        w.object(|w| self.declaration(tool, losses, w));
                    }
                    if let Some((name, tool)) = &self.answer {
                        w.object(|w| self.answer_declaration(name, tool, losses, w));
                    }
                });
            });
        });
        let mode = match choice {
            // Only the answer's function is declared, so only that may be called.
            _ if tools.is_empty() => "ANY",
            Choice::Never => "NONE",
            Choice::Free if is_free => return,
            Choice::Free if self.answer.is_none() => "VALIDATED",
            Choice::Free | Choice::Any | Choice::One(_) => "ANY",
        };
        w.key("toolConfig").object(|w| {
            w.key("functionCallingConfig").object(|w| {
                w.key("mode").text(mode);
                if !named.is_empty() {
                    w.key("allowedFunctionNames").array(|w| {
                        named
                            .iter()
                            .for_each(|name| w.text(&self.names.theirs(name)));
                        self.answer.iter().for_each(|(name, _)| w.text(name));
                    });
                }
            });
        });
    }

    fn declaration(&self, tool: &Tool<'_>, losses: &mut LostFields, w: &mut Writer) {
        w.key("name").text(&self.names.theirs(&tool.name));
        w.optional("description", tool.description.as_ref(), |w, text| {
            text.write(w)
        });
        let ToolKind::Function(Some(parameters), _) = &tool.kind else {
            return;
        };
        let schema = Schema::read(parameters);
        losses.add_if(
            !schema.has_no_properties() && write_parameters(&schema, self.in_json_schema, w),
            Field::ToolParameters,
        );
    }

    fn answer_declaration(
        &self,
        name: &str,
        tool: &AnswerTool<'_>,
        losses: &mut LostFields,
        w: &mut Writer,
    ) {
        const ANSWER_DESCRIPTION: &str = "Gives the final answer. When no other function needs to be called any more, call this one; its arguments are the answer.";
        w.key("name").text(name);
        match tool.description {
            Some(description) => w
                .key("description")
                .text(&format!("{ANSWER_DESCRIPTION} {description}")),
            None => w.key("description").text(ANSWER_DESCRIPTION),
        }
        losses.add_if(
            write_parameters(&Schema::read(tool.schema.0), self.in_json_schema, w),
            Field::FormatSchema,
        );
    }
}

/// Refuses tools that cannot be declared.
fn check_tools(
    request: &Request<'_>,
    traits: &Traits,
    losses: &mut LostFields,
) -> Result<(), FieldRefused> {
    if !traits.tools {
        if !request.tools.is_empty() && request.tool_choice != Some(ToolChoice::None) {
            return Err(FieldRefused::unsupported(
                Field::Tools,
                "This model does not support tools.",
            ));
        }
        return Ok(());
    }
    for (index, tool) in request.tools.iter().enumerate() {
        let why = match tool.kind {
            ToolKind::Function(..) => {
                losses.add_if(tool.cache.is_some(), Field::CacheHint);
                continue;
            }
            ToolKind::Custom => {
                "This model does not support custom tools. Declare a function instead."
            }
            ToolKind::Other => "This model supports tools of type `function` only.",
        };
        return Err(FieldRefused::unsupported(Field::Tool(index), why));
    }
    Ok(())
}

/// Writes the parameters of a function. Returns whether a part of their meaning is lost.
fn write_parameters(schema: &Schema<'_>, in_json_schema: bool, w: &mut Writer) -> bool {
    if in_json_schema {
        schema.write(w.key("parametersJsonSchema"))
    } else {
        open_api::write_schema(schema, w.key("parameters"))
    }
}

/// Writes the format into the API's own fields.
pub(super) fn write_format(
    format: &Format<'_>,
    in_json_schema: bool,
    losses: &mut LostFields,
    w: &mut Writer,
) {
    w.key("responseMimeType").text("application/json");
    match format {
        Format::JsonObject | Format::JsonSchema { schema: None, .. } => {}
        Format::JsonSchema {
            description,
            schema: Some(json),
            ..
        } => {
            losses.add_if(description.is_some(), Field::FormatDescription);
            let schema = Schema::read(json);
            let lost = if in_json_schema {
                schema.write(w.key("responseJsonSchema"))
            } else {
                open_api::write_schema(&schema, w.key("responseSchema"))
            };
            losses.add_if(lost, Field::FormatSchema);
        }
    }
}

#[cfg(test)]
mod tests;
