//! The tools of a Messages request, and the choice among them.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::front::reading::others;
use crate::front::reading::value::{Name, ReadFault, Value};
use crate::neutral::{Raw, Request, Tool, ToolChoice, ToolKind};

/// The tools of a request.
#[derive(Default)]
pub(super) struct ToolList<'a> {
    list: Vec<(Tool<'a>, bool)>,
    names: HashSet<Cow<'a, str>>,
    /// The fields that have no meaning here, by their paths without indexes.
    pub(super) others: Vec<(Name<'a>, Raw<'a>)>,
}

impl<'a> ToolList<'a> {
    /// Reads `tools`.
    pub(super) fn read(&mut self, value: Value<'_, 'a>) -> Result<(), ReadFault> {
        value.array(|_, value| self.tool(value))
    }

    fn tool(&mut self, value: Value<'_, 'a>) -> Result<(), ReadFault> {
        let place = value.place;
        let mut kind = None;
        let mut name = None;
        let mut description = None;
        let mut schema = None;
        let mut strict = None;
        let mut cache = None;
        let mut is_deferred = false;
        let mut callers = None;
        value.element(|key, value| {
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
                _ => others::note_inner_field(&mut self.others, "tools[].", key, value)?,
            }
            Ok(())
        })?;
        if let Some(kind) = kind.filter(|kind| kind != "custom") {
            let shown: String = kind.chars().take(40).collect();
            return Err(place.field("type").unsupported(&format!(
                "only Anthropic's own models and servers know tools of the type {shown}; remove the tool for this model",
            )));
        }
        if callers.is_some_and(|callers| !callers.iter().any(|caller| caller == "direct")) {
            return Err(place.field("allowed_callers").unsupported(
                "this model can call tools directly only: add `direct`, or remove the tool for this model",
            ));
        }
        let named = place.field("name");
        let name = name.ok_or_else(|| named.missing())?;
        if name.is_empty() {
            return Err(named.refuse("must not be empty"));
        }
        if !self.names.insert(name.clone()) {
            return Err(named.refuse("is also the name of another tool"));
        }
        let tool = Tool {
            name,
            description,
            kind: ToolKind::Function(schema.map(Cow::from), strict),
            cache,
        };
        self.list.push((tool, is_deferred));
        Ok(())
    }

    /// Returns the tools that the model may see: a deferred one only if the conversation has shown
    /// it.
    pub(super) fn shown(&mut self, shown: &[Cow<'a, str>]) -> Vec<Tool<'a>> {
        let shown: HashSet<&str> = shown.iter().map(|name| &**name).collect();
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
) -> Result<(), ReadFault> {
    let place = value.place;
    let mut kind = None;
    let mut name = None;
    let mut is_single = None;
    let is_there = value.object(|key, value| {
        match &**key {
            "type" => kind = value.text()?,
            "name" => name = value.text()?,
            "disable_parallel_tool_use" => is_single = value.flag()?,
            _ => others::note_inner_field(&mut request.others, "tool_choice.", key, value)?,
        }
        Ok(())
    })?;
    if !is_there {
        return Ok(());
    }
    let choice = match kind.as_deref() {
        Some("auto") => ToolChoice::Auto,
        Some("any") => ToolChoice::Required,
        Some("none") => ToolChoice::None,
        Some("tool") => ToolChoice::Named(name.ok_or_else(|| place.field("name").missing())?),
        Some(_) => {
            return Err(place
                .field("type")
                .refuse("must be one of `auto`, `any`, `tool` and `none`"));
        }
        None => return Err(place.field("type").missing()),
    };
    request.tool_choice = Some(choice);
    request.parallel_tool_calls = is_single.map(|is_single| !is_single);
    Ok(())
}
