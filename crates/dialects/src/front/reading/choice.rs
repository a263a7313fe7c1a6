//! The tools of a request, and the choice among them, as far as formats have both in common.

use std::borrow::Cow;
use std::collections::HashSet;

use super::value::{Place, ReadFault, ReadResult, Value};
use crate::neutral::{Refused, ToolChoice};
use crate::wire::json::Kind;
use crate::wire::shorten_text;

/// A tool that is named, and the path of the field that names it.
pub(crate) type NamedTool<'a> = (Cow<'a, str>, String);

/// A choice of a tool, before it is checked.
pub(crate) struct ReadChoice<'a> {
    choice: ToolChoice<'a>,
    names: Vec<NamedTool<'a>>,
    path: String,
}

impl<'a> ReadChoice<'a> {
    /// Reads a choice. `word` returns the choice that a word means, and `object` reads an object.
    pub(crate) fn read(
        mut value: Value<'_, 'a>,
        word: impl FnOnce(&str, Place<'_>) -> ReadResult<ToolChoice<'a>>,
        object: impl FnOnce(Value<'_, 'a>) -> ReadResult<(ToolChoice<'a>, Vec<NamedTool<'a>>)>,
    ) -> ReadResult<Option<Self>> {
        let place = value.place;
        let path = place.path();
        let (choice, names) = match value.kind()? {
            Kind::Null => return value.skip().map(|()| None),
            Kind::String => (word(&value.text()?.unwrap_or_default(), place)?, Vec::new()),
            Kind::Object => object(value)?,
            kind @ (Kind::Array | Kind::Number | Kind::Bool) => {
                return Err(place.wrong("a string or an object", kind));
            }
        };
        Ok(Some(Self {
            choice,
            names,
            path,
        }))
    }

    /// Returns the choice, if the tool can be called. `is_known` returns whether there is a tool of
    /// this name.
    pub(crate) fn resolve(
        self,
        is_known: impl Fn(&str) -> bool,
        has_tools: bool,
    ) -> ReadResult<ToolChoice<'a>> {
        if let Some((_, path)) = self.names.into_iter().find(|(name, _)| !is_known(name)) {
            let message = format!("`{path}` names a tool that is not in `tools`");
            return Err(Box::new(Refused::invalid(path, message)));
        }
        if !has_tools && self.choice == ToolChoice::Required {
            let message = format!(
                "`{}` requires a tool call, but there are no `tools`",
                self.path
            );
            return Err(Box::new(Refused::invalid(self.path, message)));
        }
        Ok(self.choice)
    }
}

/// Returns the choice that a word means.
pub(crate) fn choice_from_word<'a>(word: &str, place: Place<'_>) -> ReadResult<ToolChoice<'a>> {
    match word {
        "none" => Ok(ToolChoice::None),
        "auto" => Ok(ToolChoice::Auto),
        "required" => Ok(ToolChoice::Required),
        _ => Err(place.refuse("must be `none`, `auto`, `required` or an object that names a tool")),
    }
}

/// Returns the choice of one tool.
pub(crate) fn choose_one(tool: NamedTool<'_>) -> (ToolChoice<'_>, Vec<NamedTool<'_>>) {
    (ToolChoice::Named(tool.0.clone()), vec![tool])
}

/// Returns the choice among some tools. `empty` is the refusal where there are none.
pub(crate) fn choose_some<'a>(
    mode: Option<&str>,
    tools: Vec<NamedTool<'a>>,
    empty: &str,
    place: Place<'_>,
) -> ReadResult<(ToolChoice<'a>, Vec<NamedTool<'a>>)> {
    let must_call = match place.require("mode", mode)? {
        "required" => true,
        "auto" => false,
        _ => return Err(place.field("mode").refuse("must be `auto` or `required`")),
    };
    if tools.is_empty() {
        return Err(place.field("tools").refuse(empty));
    }
    Ok((
        ToolChoice::Allowed {
            must_call,
            names: tools.iter().map(|(name, _)| name.clone()).collect(),
        },
        tools,
    ))
}

/// Refuses a tool of a type that only one company's servers run.
pub(crate) fn refuse_foreign_tool(tool: Place<'_>, company: &str, kind: &str) -> ReadFault {
    refuse_type(
        tool,
        company,
        "tools",
        kind,
        "; remove the tool for this model",
    )
}

/// Refuses an item of a type that only OpenAI's servers know.
pub(crate) fn refuse_foreign_item(item: Place<'_>, kind: &str) -> ReadFault {
    refuse_type(item, "OpenAI", "items", kind, "")
}

fn refuse_type(
    thing: Place<'_>,
    company: &str,
    things: &str,
    kind: &str,
    advice: &str,
) -> ReadFault {
    let shown = shorten_text(kind, 40);
    thing.field("type").unsupported(&format!(
        "only {company}'s own models and servers know {things} of the type {shown}{advice}"
    ))
}

/// Refuses a tool that only a program of the server's may call.
pub(crate) fn refuse_callers(tool: Place<'_>) -> ReadFault {
    tool.field("allowed_callers").unsupported(
        "this model can call tools directly only: add `direct`, or remove the tool for this model",
    )
}

/// Adds the name of a tool. Refuses a name that is empty, or that another tool has.
pub(crate) fn add_unique_tool_name<'a>(
    names: &mut HashSet<Cow<'a, str>>,
    name: Cow<'a, str>,
    tool: Place<'_>,
) -> ReadResult<()> {
    if name.is_empty() {
        return Err(tool.field("name").refuse("must not be empty"));
    }
    if !names.insert(name) {
        return Err(tool
            .field("name")
            .refuse("is also the name of another tool"));
    }
    Ok(())
}
