//! The tools of a Messages request, and the choice among them.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::front::reading::choice;
use crate::front::reading::value::{Name, ReadResult, Value};
use crate::neutral::{Raw, Request, Tool, ToolChoice, ToolKind};

/// The tools of a request.
#[derive(Default)]
pub(super) struct ToolList<'a> {
    /// The tools, each with whether it is deferred.
    list: Vec<(Tool<'a>, bool)>,
    names: HashSet<Cow<'a, str>>,
    /// The fields that have no meaning here, by their paths without indexes.
    pub(super) others: Vec<(Name<'a>, Raw<'a>)>,
}

impl<'a> ToolList<'a> {
    /// Reads `tools`.
    pub(super) fn read(&mut self, value: Value<'_, 'a>) -> ReadResult<()> {
        value.array(|_, value| self.read_tool(value))
    }

    fn read_tool(&mut self, value: Value<'_, 'a>) -> ReadResult<()> {
        let place = value.place;
        let mut kind = None;
        let mut name = None;
        let mut description = None;
        let mut schema = None;
        let mut strict = None;
        let mut cache = None;
        let mut is_deferred = false;
        let mut callers = None;
        value.non_null_object(|key, value| {
            match &**key {
                "type" => kind = value.text()?,
                "name" => name = value.text()?,
                "description" => description = value.lazy_text()?,
                "input_schema" => schema = value.raw_object()?,
                "strict" => strict = value.flag()?,
                "cache_control" => {
                    cache = value.cache()?;
                }
                "defer_loading" => is_deferred = value.flag()?.unwrap_or(false),
                "allowed_callers" => {
                    let mut list = Vec::new();
                    value.array(|_, value| {
                        list.extend(value.text()?);
                        Ok(())
                    })?;
                    callers = Some(list);
                }
                // This decides how the call is streamed, not what the tool is.
                "eager_input_streaming" => value.skip()?,
                _ => value.note_lost_value(&mut self.others, "tools[].", key)?,
            }
            Ok(())
        })?;
        if let Some(kind) = kind.filter(|kind| kind != "custom") {
            return Err(choice::refuse_foreign_tool(place, "Anthropic", &kind));
        }
        if callers.is_some_and(|callers| !callers.iter().any(|caller| caller == "direct")) {
            return Err(choice::refuse_callers(place));
        }
        let name = place.require("name", name)?;
        choice::add_unique_tool_name(&mut self.names, name.clone(), place)?;
        let tool = Tool {
            name,
            description,
            kind: ToolKind::Function(schema.map(Cow::from), strict),
            cache,
        };
        self.list.push((tool, is_deferred));
        Ok(())
    }

    /// Takes the tools that the model may see out of the list: a deferred one only if the
    /// conversation has shown it, so that its name is in `names`. The list is empty then.
    pub(super) fn take_shown(&mut self, names: &[Cow<'a, str>]) -> Vec<Tool<'a>> {
        let shown: HashSet<&str> = names.iter().map(|name| &**name).collect();
        let list = std::mem::take(&mut self.list).into_iter();
        list.filter(|(tool, is_deferred)| !is_deferred || shown.contains(&*tool.name))
            .map(|(tool, _)| tool)
            .collect()
    }
}

/// Reads `tool_choice`: the choice, and whether several calls may be made at once.
pub(super) fn read_tool_choice<'a>(
    value: Value<'_, 'a>,
    request: &mut Request<'a>,
) -> ReadResult<()> {
    let place = value.place;
    let mut kind = None;
    let mut name = None;
    let mut is_single = None;
    let is_there = value.object(|key, value| {
        match &**key {
            "type" => kind = value.text()?,
            "name" => name = value.text()?,
            "disable_parallel_tool_use" => is_single = value.flag()?,
            _ => value.note_lost_value(&mut request.others, "tool_choice.", key)?,
        }
        Ok(())
    })?;
    if !is_there {
        return Ok(());
    }
    let choice = match &*place.require("type", kind)? {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Named(place.require("name", name)?),
        _ => {
            return Err(place
                .field("type")
                .refuse("must be one of `auto`, `any`, `tool` and `none`"));
        }
    };
    request.tool_choice = Some(choice);
    request.parallel_tool_calls = is_single.map(|is_single| !is_single);
    Ok(())
}
