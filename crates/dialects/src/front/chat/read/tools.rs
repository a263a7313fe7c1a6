//! The tools of a chat request, and the choice among them.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::front::reading::choice::{self, NamedTool, ReadChoice};
use crate::front::reading::value::{Name, Place, ReadResult, Value};
use crate::neutral::{LazyText, Raw, Tool, ToolChoice, ToolKind};
use crate::wire::json::Kind;

/// The tools of a request.
#[derive(Default)]
pub(super) struct Tools<'a> {
    pub(super) list: Vec<Tool<'a>>,
    /// True if the tools come from the deprecated `functions`.
    pub(super) are_functions: bool,
    pub(super) names: HashSet<Cow<'a, str>>,
    /// The fields that have no meaning here, by their paths without indexes.
    pub(super) others: Vec<(Name<'a>, Raw<'a>)>,
}

impl<'a> Tools<'a> {
    /// Reads `tools`.
    pub(super) fn tools(&mut self, value: Value<'_, 'a>) -> ReadResult<()> {
        value.array(|_, value| {
            self.are_functions = false;
            let place = value.place;
            let mut kind = None;
            let mut cache = None;
            let mut function = None;
            let mut custom = None;
            value.non_null_object(|name, mut value| {
                match &**name {
                    "type" => kind = value.text()?,
                    "function" => function = self.function("tools[].function.", value)?,
                    // In a provider's own tool these may have any form. The tool is refused for its
                    // type.
                    "custom" if value.kind()? == Kind::Object => custom = self.custom(value)?,
                    "cache_control" | "prompt_cache_breakpoint" => {
                        cache = value.cache()?.or(cache.take())
                    }
                    _ => value.note_lost_value(&mut self.others, "tools[].", name)?,
                }
                Ok(())
            })?;
            let (read, field) = match kind.as_deref() {
                Some("function") => (function, "function"),
                Some("custom") => (custom, "custom"),
                Some(_) => {
                    let kind = ToolKind::Other;
                    self.list.push(Tool {
                        name: "".into(),
                        description: None,
                        kind,
                        cache,
                    });
                    return Ok(());
                }
                None if custom.is_some() => (custom, "custom"),
                None if function.is_some() => (function, "function"),
                None => return Err(place.field("type").missing()),
            };
            let place = place.field(field);
            let tool = read.ok_or_else(|| place.missing())?;
            self.add(
                Tool {
                    cache: cache.or(tool.cache),
                    ..tool
                },
                place,
            )
        })
    }

    /// Reads the deprecated `functions`.
    pub(super) fn functions(&mut self, value: Value<'_, 'a>) -> ReadResult<()> {
        value.array(|_, value| {
            self.are_functions |= self.list.is_empty();
            let place = value.place;
            let function = self.function("functions[].", value)?;
            self.add(
                function.ok_or_else(|| place.wrong("an object", Kind::Null))?,
                place,
            )
        })
    }

    fn function(&mut self, prefix: &str, value: Value<'_, 'a>) -> ReadResult<Option<Tool<'a>>> {
        let place = value.place;
        let mut name = None;
        let mut description = None;
        let mut parameters = None;
        let mut strict = None;
        let mut cache = None;
        let is_there = value.object(|key, value| {
            match &**key {
                "name" => name = value.text()?,
                "description" => description = value.lazy_text()?,
                "parameters" => parameters = value.raw_object()?,
                "strict" => strict = value.flag()?,
                "cache_control" | "prompt_cache_breakpoint" => {
                    cache = value.cache()?.or(cache.take())
                }
                _ => value.note_lost_value(&mut self.others, prefix, key)?,
            }
            Ok(())
        })?;
        if !is_there {
            return Ok(None);
        }
        let name = place.require("name", name)?;
        Ok(Some(Tool {
            name,
            description,
            kind: ToolKind::Function(parameters.map(Cow::from), strict),
            cache,
        }))
    }

    fn custom(&mut self, value: Value<'_, 'a>) -> ReadResult<Option<Tool<'a>>> {
        let place = value.place;
        let texts = value.texts(["name", "description"], |name, value| {
            value.note_lost_value(&mut self.others, "tools[].custom.", name)
        })?;
        let [name, description] = texts.unwrap_or_default();
        let name = place.require("name", name)?;
        Ok(Some(Tool {
            name,
            description: description.map(LazyText::from),
            kind: ToolKind::Custom,
            cache: None,
        }))
    }

    fn add(&mut self, tool: Tool<'a>, place: Place<'_>) -> ReadResult<()> {
        choice::add_unique_tool_name(&mut self.names, tool.name.clone(), place)?;
        self.list.push(tool);
        Ok(())
    }
}

/// Reads `tool_choice`.
pub(super) fn read_tool_choice<'a>(value: Value<'_, 'a>) -> ReadResult<Option<ReadChoice<'a>>> {
    ReadChoice::read(value, choice_word, read_choice_object)
}

/// Returns the choice that a word means. Mistral writes `any` in place of `required`.
fn choice_word<'a>(word: &str, place: Place<'_>) -> ReadResult<ToolChoice<'a>> {
    choice::choice_from_word(if word == "any" { "required" } else { word }, place)
}

/// Reads the deprecated `function_call`, which may hold the name itself.
pub(super) fn function_call<'a>(value: Value<'_, 'a>) -> ReadResult<Option<ReadChoice<'a>>> {
    ReadChoice::read(value, function_call_word, |value| {
        let place = value.place;
        read_named_tool(value)?
            .map(choice::choose_one)
            .ok_or_else(|| place.missing())
    })
}

fn function_call_word<'a>(word: &str, place: Place<'_>) -> ReadResult<ToolChoice<'a>> {
    match word {
        "none" => Ok(ToolChoice::None),
        "auto" => Ok(ToolChoice::Auto),
        _ => Err(place.refuse("must be `none`, `auto` or an object that names a function")),
    }
}

fn read_choice_object<'a>(
    value: Value<'_, 'a>,
) -> ReadResult<(ToolChoice<'a>, Vec<NamedTool<'a>>)> {
    let place = value.place;
    let mut kind = None;
    let mut function = None;
    let mut custom = None;
    let mut some = None;
    value.object(|name, value| {
        match &**name {
            "type" => kind = value.text()?,
            "function" => function = read_named_tool(value)?,
            "custom" => custom = read_named_tool(value)?,
            "allowed_tools" => some = read_allowed_tools(value)?,
            _ => value.skip()?,
        }
        Ok(())
    })?;
    let (tool, field) = match kind.as_deref() {
        Some("function") => (function, "function"),
        Some("custom") => (custom, "custom"),
        Some("allowed_tools") => return place.require("allowed_tools", some),
        Some(_) => return Err(place.unsupported_type("choices")),
        None if function.is_some() => (function, "function"),
        None => return Err(place.field("type").missing()),
    };
    place.require(field, tool.map(choice::choose_one))
}

fn read_allowed_tools<'a>(
    value: Value<'_, 'a>,
) -> ReadResult<Option<(ToolChoice<'a>, Vec<NamedTool<'a>>)>> {
    let place = value.place;
    let mut mode = None;
    let mut tools = None;
    let is_there = value.object(|name, value| {
        match &**name {
            "mode" => mode = value.text()?,
            "tools" => {
                let mut names = Vec::new();
                value.array(|_, value| {
                    names.push(allowed_tool(value)?);
                    Ok(())
                })?;
                tools = Some(names);
            }
            _ => value.skip()?,
        }
        Ok(())
    })?;
    if !is_there {
        return Ok(None);
    }
    if mode.is_some() {
        place.require("tools", tools.as_ref())?;
    }
    choice::choose_some(
        mode.as_deref(),
        tools.unwrap_or_default(),
        "must hold at least one tool",
        place,
    )
    .map(Some)
}

fn allowed_tool<'a>(value: Value<'_, 'a>) -> ReadResult<NamedTool<'a>> {
    let place = value.place;
    let mut function = None;
    let mut custom = None;
    value.non_null_object(|name, value| {
        match &**name {
            "function" => function = read_named_tool(value)?,
            "custom" => custom = read_named_tool(value)?,
            _ => value.skip()?,
        }
        Ok(())
    })?;
    place.require("function", function.or(custom))
}

/// Reads `{name}`. Returns the name, and the path of its field.
fn read_named_tool<'a>(value: Value<'_, 'a>) -> ReadResult<Option<NamedTool<'a>>> {
    let place = value.place;
    let Some([name]) = value.texts(["name"], |_, value| value.skip())? else {
        return Ok(None);
    };
    let name = place.require("name", name)?;
    Ok(Some((name, place.field("name").path())))
}
