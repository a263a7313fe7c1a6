//! This module decides about the tools that Cohere is shown and the format of its answer. They
//! depend on each other, because Cohere takes only one of the two.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::neutral::offer::{AllowedForms, AnswerForm, AnswerTool, Choice};
use crate::neutral::traits::Traits;
use crate::neutral::{Field, FieldRefused, Format, LostFields, Raw, Request, Tool};
use crate::upstream::shared::flat;
use crate::wire::json::Writer;

/// The tools and the format of a request.
pub(super) struct Tools<'r, 'a> {
    /// The caller's tools.
    tools: Vec<&'r Tool<'a>>,
    /// `tool_choice`.
    choice: Option<&'static str>,
    /// The way in which the answer gets its format.
    form: AnswerForm<'r, 'a>,
}

impl<'r, 'a> Tools<'r, 'a> {
    /// Decides which tools are shown, how the choice is written, and how the answer gets its
    /// format.
    pub(super) fn decide(
        request: &'r Request<'a>,
        traits: &Traits,
        losses: &mut LostFields,
    ) -> Result<Self, FieldRefused> {
        let mut offer = flat::choose_tools(request, traits)?;
        // Tools that must not be called are not shown if Cohere has no order for that, or if there
        // is a format.
        if offer.choice == Choice::Never && (request.format.is_some() || !traits.forced_tools) {
            offer.tools.clear();
        }
        let has_schema = request
            .format
            .as_ref()
            .is_some_and(|format| format.schema().is_some());
        let ways = AllowedForms {
            native: traits.structured && (traits.structured_with_tools || offer.tools.is_empty()),
            tool: traits.tools && traits.forced_tools && has_schema,
            words: false,
            at_fault: Field::Format,
            refusal: "This model does not support this format for its answer.",
            refusal_beside_tools: "This model does not support a format for its answer together with tools.",
        };
        let form = offer.form(request.format.as_ref(), ways, losses)?;
        if let AnswerForm::Native(Format::JsonSchema {
            description: Some(_),
            ..
        }) = form
        {
            losses.add(Field::FormatDescription);
        }
        let choice = match offer.choice {
            _ if matches!(form, AnswerForm::Tool(_)) => Some("REQUIRED"),
            _ if offer.tools.is_empty() => None,
            Choice::Free => None,
            Choice::Any | Choice::One(_) => Some("REQUIRED"),
            Choice::Never => Some("NONE"),
        };
        Ok(Self {
            tools: offer.tools,
            choice,
            form,
        })
    }

    /// Returns the tool that takes the answer, and its name, if there is one. No other tool has
    /// this name.
    fn answer(&self) -> Option<(String, AnswerTool<'r>)> {
        const NAME: &str = "give_answer";
        let AnswerForm::Tool(tool) = self.form else {
            return None;
        };
        let alike = self
            .tools
            .iter()
            .map(|tool| &*tool.name)
            .filter(|name| name.starts_with(NAME));
        let longest_name = alike.max_by_key(|name| name.len());
        Some((
            longest_name.map_or_else(
                || NAME.to_owned(),
                |longest_name| format!("{longest_name}_"),
            ),
            tool,
        ))
    }

    /// Returns the name of the tool that takes the answer, if there is one.
    pub(super) fn answer_tool(&self) -> Option<String> {
        self.answer().map(|(name, _)| name)
    }

    /// Writes the tools, the choice and the format.
    pub(super) fn write(&self, w: &mut Writer, losses: &mut LostFields) {
        let answer = self.answer();
        if !self.tools.is_empty() || answer.is_some() {
            w.key("tools").array(|w| {
                for tool in &self.tools {
                    flat::write_tool(
                        w,
                        &tool.name,
                        tool.description.as_ref(),
                        flat::tool_parameters(tool),
                    );
                }
                if let Some((name, tool)) = answer {
                    flat::write_tool(
                        w,
                        &name,
                        Some(
                            &tool
                                .description
                                .unwrap_or("Gives the final answer. Call it to answer.")
                                .into(),
                        ),
                        tool.schema,
                    );
                }
            });
        }
        w.optional("tool_choice", self.choice, Writer::text);
        self.write_strict(w, losses);
        if let AnswerForm::Native(format) = self.form {
            w.key("response_format").object(|w| {
                w.key("type").text("json_object");
                w.optional("json_schema", format.schema(), |w, Raw(schema)| {
                    w.raw(schema)
                });
            });
        }
    }

    /// Writes if tools are strict. Either all tools are strict or none is, and each strict tool
    /// needs a required parameter.
    fn write_strict(&self, w: &mut Writer, losses: &mut LostFields) {
        let answer = if let AnswerForm::Tool(tool) = self.form {
            Some(tool)
        } else {
            None
        };
        let any_tool = self.tools.iter().any(|tool| flat::is_strict(tool));
        let strict_answer = answer.is_some_and(|tool| tool.strict);
        if !any_tool && !strict_answer {
            return;
        }
        let all = self.tools.iter().all(|tool| flat::is_strict(tool))
            && answer.is_none_or(|tool| tool.strict);
        let mut schemas = self
            .tools
            .iter()
            .map(|tool| flat::tool_parameters(tool))
            .chain(answer.map(|tool| tool.schema));
        if all && schemas.all(requires_something) {
            return w.key("strict_tools").bool(true);
        }
        losses.add_if(any_tool, Field::ToolStrict);
        losses.add_if(strict_answer, Field::FormatStrict);
    }
}

fn requires_something(schema: Raw<'_>) -> bool {
    #[derive(Deserialize)]
    struct Schema {
        #[serde(default)]
        required: Vec<IgnoredAny>,
    }
    serde_json::from_str::<Schema>(schema.0).is_ok_and(|schema| !schema.required.is_empty())
}
