//! The tools that Cohere is shown, and the format of its answer: they decide about each other,
//! since it takes only one of the two.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::neutral::traits::Traits;
use crate::neutral::{Format, Losses, Raw, Refused, Request, Tool, ToolKind};
use crate::upstream::shared::flat::{self, Choice, Offer};
use crate::wire::json::Writer;

/// What is said of tools and format.
pub(super) struct Tools<'r, 'a> {
    /// The caller's.
    tools: Vec<&'r Tool<'a>>,
    /// `tool_choice`.
    choice: Option<&'static str>,
    form: Form<'r>,
}

/// How the answer gets the form that is asked for.
#[derive(Clone, Copy)]
enum Form<'r> {
    /// None is asked for.
    Free,
    /// By `response_format`, with its schema.
    Native(Option<Raw<'r>>),
    /// By a tool that takes the answer, beside the caller's own. The model must call one of them
    /// all, so that it either goes on with its work or answers in the form.
    Tool(AnswerTool<'r>),
}

#[derive(Clone, Copy)]
struct AnswerTool<'r> {
    description: Option<&'r str>,
    schema: Raw<'r>,
    strict: bool,
}

impl<'r, 'a> Tools<'r, 'a> {
    /// Decides it.
    pub(super) fn of(request: &'r Request<'a>, traits: &Traits, losses: &mut Losses) -> Result<Self, Refused> {
        let Offer { mut tools, choice } = flat::offer(request, traits)?;
        let may_call = choice == Choice::Free && !tools.is_empty();
        let form = match &request.format {
            // Nothing but calls will come, which have schemas of their own.
            Some(_) if choice == Choice::Must && !traits.structured_with_tools => {
                losses.add("response_format");
                Form::Free
            }
            Some(format) => form(format, may_call || choice == Choice::Must, traits, losses)?,
            None => Form::Free,
        };
        // Tools that may not be called are not shown where that cannot be said, nor beside a
        // format.
        if choice == Choice::Never && !(matches!(form, Form::Free) && traits.forced_tools) {
            tools.clear();
        }
        let choice = match choice {
            _ if matches!(form, Form::Tool(_)) => Some("REQUIRED"),
            _ if tools.is_empty() => None,
            Choice::Free => None,
            Choice::Must => Some("REQUIRED"),
            Choice::Never => Some("NONE"),
        };
        Ok(Self { tools, choice, form })
    }

    /// The name of the tool that takes the answer, if there is one; none of the others has it.
    pub(super) fn answer_tool(&self) -> Option<String> {
        const NAME: &str = "give_answer";
        match self.form {
            Form::Tool(_) => {
                let alike = self.tools.iter().map(|tool| &*tool.name).filter(|name| name.starts_with(NAME));
                Some(
                    alike
                        .max_by_key(|name| name.len())
                        .map_or_else(|| NAME.to_owned(), |longest| format!("{longest}_")),
                )
            }
            Form::Free | Form::Native(_) => None,
        }
    }

    /// Writes it.
    pub(super) fn write(&self, w: &mut Writer, losses: &mut Losses) {
        let answer = match self.form {
            Form::Tool(tool) => self.answer_tool().map(|name| (name, tool)),
            Form::Free | Form::Native(_) => None,
        };
        if !self.tools.is_empty() || answer.is_some() {
            w.key("tools").array(|w| {
                for tool in &self.tools {
                    write_tool(w, &tool.name, tool.description.as_deref(), schema_of(tool));
                }
                if let Some((name, tool)) = answer {
                    write_tool(
                        w,
                        &name,
                        tool.description.or(Some("Gives the final answer. Call it to answer.")),
                        tool.schema,
                    );
                }
            });
        }
        if let Some(choice) = self.choice {
            w.key("tool_choice").text(choice);
        }
        self.write_strict(w, losses);
        if let Form::Native(schema) = self.form {
            w.key("response_format").object(|w| {
                w.key("type").text("json_object");
                if let Some(schema) = schema {
                    w.key("json_schema").raw(schema.0);
                }
            });
        }
    }

    /// Strict are all of the tools or none, and only if each has a parameter that must be given.
    fn write_strict(&self, w: &mut Writer, losses: &mut Losses) {
        let is_strict = |tool: &&Tool<'_>| matches!(tool.kind, ToolKind::Function(_, Some(true)));
        let answer = match self.form {
            Form::Tool(tool) => Some(tool),
            Form::Free | Form::Native(_) => None,
        };
        let any_tool = self.tools.iter().any(is_strict);
        let strict_answer = answer.is_some_and(|tool| tool.strict);
        if !any_tool && !strict_answer {
            return;
        }
        let all = self.tools.iter().all(is_strict) && answer.is_none_or(|tool| tool.strict);
        let mut schemas = self.tools.iter().map(|tool| schema_of(tool)).chain(answer.map(|tool| tool.schema));
        if all && schemas.all(requires_something) {
            return w.key("strict_tools").bool(true);
        }
        if any_tool {
            losses.add("tools[].function.strict");
        }
        if strict_answer {
            losses.add("response_format.json_schema.strict");
        }
    }
}

fn form<'r>(
    format: &'r Format<'_>,
    beside_tools: bool,
    traits: &Traits,
    losses: &mut Losses,
) -> Result<Form<'r>, Refused> {
    let (schema, description, strict) = match format {
        Format::JsonObject => (None, None, false),
        Format::JsonSchema { schema, description, strict, .. } => {
            (*schema, description.as_deref(), *strict == Some(true))
        }
    };
    if traits.structured && (traits.structured_with_tools || !beside_tools) {
        if description.is_some() {
            losses.add("response_format.json_schema.description");
        }
        return Ok(Form::Native(schema));
    }
    match schema {
        Some(schema) if traits.tools && traits.forced_tools => {
            Ok(Form::Tool(AnswerTool { description, schema, strict }))
        }
        Some(_) | None if beside_tools => {
            Err(Refused::unsupported("response_format", "This model cannot answer in a format and use tools."))
        }
        Some(_) | None => Err(Refused::unsupported("response_format", "This model cannot answer in this format.")),
    }
}

fn write_tool(w: &mut Writer, name: &str, description: Option<&str>, schema: Raw<'_>) {
    w.object(|w| {
        w.key("type").text("function");
        w.key("function").object(|w| {
            w.key("name").text(name);
            if let Some(description) = description {
                w.key("description").text(description);
            }
            w.key("parameters").raw(schema.0);
        });
    });
}

/// The parameters, which must be said even if there are none.
fn schema_of<'a>(tool: &Tool<'a>) -> Raw<'a> {
    match tool.kind {
        ToolKind::Function(Some(schema), _) => schema,
        ToolKind::Function(None, _) | ToolKind::Custom | ToolKind::Other => Raw(flat::NO_PARAMETERS),
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
