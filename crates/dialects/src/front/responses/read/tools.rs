//! The tools of a Responses request, and the choice among them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::front::reading::choice::{self, NamedTool, ReadChoice};
use crate::front::reading::others;
use crate::front::reading::value::{Name, Place, ReadFault, ReadResult, Value};
use crate::neutral::{CallKind, CallersTool, LazyText, Raw, Refused, Tool, ToolKind};
use crate::wire::json::Kind;

/// The name of the tool that searches for tools.
pub(super) const SEARCH: &str = "tool_search";

/// The parameters of a tool with free input.
const FREE: Raw<'static> = Raw(
    r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}"#,
);

/// The tools of a request.
#[derive(Default)]
pub(super) struct CallableTools<'a> {
    pub(super) list: Vec<Tool<'a>>,
    /// Each tool by its name in the list, with its name for the caller.
    pub(super) known: HashMap<String, CallersTool>,
    /// The fields that have no meaning here, by their paths without indexes.
    pub(super) others: Vec<(Name<'a>, Raw<'a>)>,
}

/// How a second tool of one name is treated. A conversation may show a tool several times.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnDuplicate {
    Refused,
    Skipped,
}

/// A tool of any type. Its type may come last.
#[derive(Default)]
struct Declared<'a> {
    kind: Option<Cow<'a, str>>,
    name: Option<Cow<'a, str>>,
    description: Option<LazyText<'a>>,
    parameters: Option<Raw<'a>>,
    strict: Option<bool>,
    grammar: Option<String>,
    /// The tools of a namespace.
    inside: Vec<Declared<'a>>,
    is_clients: bool,
    /// True if only a program of the server's may call it.
    is_barred: bool,
    others: Vec<(Name<'a>, Raw<'a>)>,
}

/// Returns the name of a tool in the request. Clients know the tools of the namespace `functions`
/// by their names alone.
pub(super) fn name_in<'a>(namespace: Option<&str>, name: Cow<'a, str>) -> Cow<'a, str> {
    match namespace {
        None | Some("" | "functions") => name,
        Some(namespace) => Cow::Owned(format!("{namespace}__{name}")),
    }
}

impl<'a> CallableTools<'a> {
    /// Reads a tool of the request's list.
    pub(super) fn read(&mut self, value: Value<'_, 'a>) -> ReadResult<()> {
        let place = value.place;
        let declared = Declared::read(value)?;
        self.add(declared, None, place, OnDuplicate::Refused)
            .map(drop)
    }

    /// Reads a tool that the conversation shows, perhaps once more. Returns the names of the tools
    /// that it stands for, or the fault of the tool: its item may be of a type that shows no tools.
    pub(super) fn read_shown(
        &mut self,
        value: Value<'_, 'a>,
    ) -> ReadResult<Result<Vec<String>, ReadFault>> {
        let place = value.place;
        let declared = Declared::read(value)?;
        Ok(self.add(declared, None, place, OnDuplicate::Skipped))
    }

    /// Adds the tools that the conversation shows.
    pub(super) fn join(&mut self, shown: Self) -> ReadResult<()> {
        let Self {
            list,
            mut known,
            others,
        } = shown;
        for tool in list {
            let Some(shown) = known.remove(&*tool.name) else {
                continue;
            };
            match self.known.entry(shown.name.clone()) {
                Entry::Occupied(known) if *known.get() == shown => {}
                Entry::Occupied(_) => {
                    let message =
                        "`tools` has a tool of the same name as another tool that `input` shows";
                    return Err(Box::new(Refused::invalid("tools", message)));
                }
                Entry::Vacant(vacant) => {
                    vacant.insert(shown);
                    self.list.push(tool);
                }
            }
        }
        self.others.extend(others);
        Ok(())
    }

    fn add(
        &mut self,
        declared: Declared<'a>,
        namespace: Option<&str>,
        place: Place<'_>,
        again: OnDuplicate,
    ) -> ReadResult<Vec<String>> {
        let kind = place.require("type", declared.kind)?;
        let (parameters, strict, call) = match &*kind {
            "function" => (declared.parameters, declared.strict, CallKind::Function),
            "custom" => (Some(FREE), None, CallKind::Custom),
            "tool_search" if namespace.is_none() && declared.is_clients => {
                (declared.parameters, None, CallKind::Search)
            }
            // The server's own search would show further tools. Here all tools are shown from the
            // start.
            "tool_search" => return Ok(self.lose("tools[].tool_search")),
            _ if kind.starts_with("web_search") => return Ok(self.lose("tools[].web_search")),
            "namespace" if namespace.is_none() => {
                let name = place.require("name", declared.name)?;
                if declared
                    .description
                    .is_some_and(|description| !description.is_empty())
                {
                    self.lose("tools[].namespace.description");
                }
                self.note_lost_inside(declared.others);
                let mut names = Vec::new();
                for declared in declared.inside {
                    names.append(&mut self.add(declared, Some(&name), place, again)?);
                }
                return Ok(names);
            }
            _ => return Err(choice::refuse_foreign_tool(place, "OpenAI", &kind)),
        };
        if declared.is_barred {
            return Err(choice::refuse_callers(place));
        }
        let own = match call {
            CallKind::Search => Cow::Borrowed(SEARCH),
            CallKind::Function | CallKind::Custom => place.require("name", declared.name)?,
        };
        if own.is_empty() {
            return Err(place.field("name").refuse("must not be empty"));
        }
        self.note_lost_inside(declared.others);
        let known_namespace = namespace.filter(|namespace| !matches!(*namespace, "" | "functions"));
        let name = name_in(namespace, own.clone());
        let tool = CallersTool {
            name: name.clone().into_owned(),
            kind: call,
            callers_name: own.into_owned(),
            namespace: known_namespace.map(str::to_owned),
        };
        let names = vec![tool.name.clone()];
        match self.known.entry(tool.name.clone()) {
            Entry::Occupied(known) if again == OnDuplicate::Skipped && *known.get() == tool => {
                return Ok(names);
            }
            Entry::Occupied(_) => {
                return Err(place
                    .field("name")
                    .refuse("is also the name of another tool"));
            }
            Entry::Vacant(vacant) => drop(vacant.insert(tool)),
        }
        let description = match declared.grammar {
            Some(grammar) => {
                self.lose("tools[].format");
                let about = declared.description.unwrap_or_default();
                Some(
                    format!("{about}\n\n{grammar}")
                        .trim_start()
                        .to_owned()
                        .into(),
                )
            }
            None => declared.description,
        };
        self.list.push(Tool {
            name,
            description,
            kind: ToolKind::Function(parameters.map(Cow::from), strict),
            cache: None,
        });
        Ok(names)
    }

    /// Notes the unknown members of a tool.
    fn note_lost_inside(&mut self, others: Vec<(Name<'a>, Raw<'a>)>) {
        others
            .into_iter()
            .for_each(|(name, raw)| others::note_value(&mut self.others, name, raw));
    }

    /// Notes a tool that is lost. It stands for no tool in the request.
    fn lose(&mut self, name: &'static str) -> Vec<String> {
        others::note_value(&mut self.others, name, Raw("true"));
        Vec::new()
    }
}

impl<'a> Declared<'a> {
    fn read(value: Value<'_, 'a>) -> ReadResult<Self> {
        let mut read = Self::default();
        value.non_null_object(|name, value| read.field(name, value))?;
        Ok(read)
    }

    fn field(&mut self, name: &Name<'a>, mut value: Value<'_, 'a>) -> ReadResult<()> {
        match &**name {
            "type" => self.kind = value.text()?,
            "name" => self.name = value.text()?,
            "description" => self.description = value.lazy_text()?,
            "parameters" => self.parameters = value.raw_object()?,
            "strict" => self.strict = value.flag()?,
            "format" if value.kind()? == Kind::Object => self.grammar = read_grammar(value)?,
            "tools" => value.array(|_, value| {
                self.inside.push(Self::read(value)?);
                Ok(())
            })?,
            "execution" => self.is_clients = value.text()?.as_deref() == Some("client"),
            // All tools are shown from the start.
            "defer_loading" => value.skip()?,
            "allowed_callers" => {
                let mut is_empty = true;
                let mut is_direct = false;
                value.array(|_, value| {
                    is_empty = false;
                    is_direct |= value.text()?.as_deref() == Some("direct");
                    Ok(())
                })?;
                self.is_barred = !is_empty && !is_direct;
            }
            _ => value.note_lost_value(&mut self.others, "tools[].", name)?,
        }
        Ok(())
    }
}

/// Reads the format of a free input. Returns the words that ask the model for it.
fn read_grammar(value: Value<'_, '_>) -> ReadResult<Option<String>> {
    let texts = value.texts(["type", "syntax", "definition"], |_, value| value.skip())?;
    let [kind, syntax, definition] = texts.unwrap_or_default();
    Ok(match (kind.as_deref(), definition) {
        (Some("grammar"), Some(definition)) => {
            let syntax = syntax.unwrap_or_default();
            Some(format!(
                "`input` must follow this grammar ({syntax}):\n{definition}"
            ))
        }
        _ => None,
    })
}

/// Reads `tool_choice`.
pub(super) fn read_tool_choice<'a>(
    value: Value<'_, 'a>,
    lost: &mut Vec<(Name<'a>, Raw<'a>)>,
) -> ReadResult<Option<ReadChoice<'a>>> {
    ReadChoice::read(value, choice::choice_from_word, |value| {
        let place = value.place;
        let mut tools = Vec::new();
        let texts = value.texts(
            ["type", "name", "namespace", "mode"],
            |name, value| match &**name {
                "tools" => value.array(|_, value| {
                    let place = value.place;
                    let tool = value.texts(["type", "name", "namespace"], |name, value| {
                        value.note_lost_value(lost, "tool_choice.", name)
                    })?;
                    let tool = tool.ok_or_else(|| place.wrong("an object", Kind::Null))?;
                    // A tool that is dropped cannot be called.
                    if !tool[0]
                        .as_deref()
                        .is_some_and(|kind| kind.starts_with("web_search"))
                    {
                        tools.push(named_tool(tool, place)?);
                    }
                    Ok(())
                }),
                _ => value.note_lost_value(lost, "tool_choice.", name),
            },
        )?;
        let [kind, name, namespace, mode] = texts.unwrap_or_default();
        if kind.as_deref() != Some("allowed_tools") {
            return named_tool([kind, name, namespace], place).map(choice::choose_one);
        }
        choice::choose_some(
            mode.as_deref(),
            tools,
            "must hold at least one tool that this model can call",
            place,
        )
    })
}

/// Returns the tool's name in the request, and the path of its field. `texts` has the type, the
/// name and the namespace.
fn named_tool<'a>(texts: [Option<Cow<'a, str>>; 3], place: Place<'_>) -> ReadResult<NamedTool<'a>> {
    let [kind, name, namespace] = texts;
    if !matches!(&*place.require("type", kind)?, "function" | "custom") {
        return Err(place.unsupported_type("choices"));
    }
    let name = place.require("name", name)?;
    let path = place.field("name").path();
    Ok((name_in(namespace.as_deref(), name), path))
}
