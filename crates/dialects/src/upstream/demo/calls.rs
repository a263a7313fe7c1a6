//! The demo's choice of tools to call.
//!
//! Agents send dozens of tools with every request, and run each tool that is called. So the demo
//! calls a tool only if the user's words ask for one or suggest one, or if the request has few
//! tools, as programs have that try tools out. It makes one round of calls at most. A tool that the
//! user does not name is called only if its own name shows that it only reads.

use crate::wire::shorten_text;
use std::cmp::Reverse;

use super::sample;
use crate::neutral::{Message, PartKind, Request, Role, Tool, ToolChoice, ToolKind};

/// The next act of the demo.
pub(super) enum NextAct {
    /// It calls tools: their names, and the arguments.
    Call(Vec<(String, String)>),
    /// It answers with this text.
    Text(String),
    /// It answers the request.
    Answer,
}

/// The most tools of a request in which the user need not ask for a call.
const FEW: usize = 4;
/// The most characters of a result that are cited.
const CITED: usize = 80;
/// The most words of the user, and the most tools, that are compared.
const MOST_WORDS: usize = 200;
const MOST_TOOLS: usize = 1_000;
/// The most characters of a name that are quoted.
const QUOTED: usize = 64;
/// The first words of the names of tools that only read: words for the act, and for the things that
/// they know.
const READS: [&str; 14] = [
    "get",
    "list",
    "read",
    "search",
    "find",
    "fetch",
    "look",
    "lookup",
    "show",
    "view",
    "query",
    "count",
    "describe",
    "calculate",
];
const KNOWS: [&str; 2] = ["weather", "time"];
/// The parts of the names of tools that run commands.
const SHELLS: [&str; 6] = ["bash", "shell", "exec", "terminal", "cmd", "command"];

/// Decides the next act of the demo.
pub(super) fn next_act(request: &Request<'_>) -> NextAct {
    let turn = newest_turn(request);
    let mut results = turn
        .messages
        .iter()
        .filter(|message| !turn.is_handed_over && message.role.is_result());
    if let Some(first) = results.next() {
        let text: String = message_texts(first)
            .collect::<Vec<_>>()
            .join(" ")
            .chars()
            .take(CITED)
            .collect();
        let more = match results.count() {
            0 => String::new(),
            more => format!(" {more} more came with it."),
        };
        return NextAct::Text(format!(
            "The demo called a tool. Its result begins with {text:?}.{more}"
        ));
    }
    let users = turn
        .messages
        .iter()
        .filter(|message| message.role == Role::User);
    // Agents add texts of their own to the user's. These begin with a tag.
    let own = |text: &&str| !text.trim_start().starts_with('<');
    let words = users
        .flat_map(message_texts)
        .filter(own)
        .last()
        .unwrap_or_default();
    let chosen = choose_tools(request, &Words::split(words), turn.is_handed_over);
    let mut calls = Vec::with_capacity(chosen.len());
    for tool in chosen {
        let word = if is_shell(tool) { "echo demo" } else { "demo" };
        match sample_arguments(tool, word) {
            Some(arguments) => calls.push((tool.name.clone().into_owned(), arguments)),
            None => {
                return NextAct::Text(format!(
                    "The demo cannot make up the arguments of {:?}.",
                    short_name(tool)
                ));
            }
        }
    }
    if calls.is_empty() {
        NextAct::Answer
    } else {
        NextAct::Call(calls)
    }
}

/// The messages since the demo's last answer.
struct NewestTurn<'r> {
    messages: &'r [Message<'r>],
    /// True if the demo has handed the conversation over to this agent. Then it answers the user's
    /// earlier words, and hands nothing over.
    is_handed_over: bool,
}

fn newest_turn<'r>(request: &'r Request<'_>) -> NewestTurn<'r> {
    let mut answers = request
        .messages
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, message)| message.role == Role::Assistant);
    let last = answers.next();
    let is_handed_over = last.is_some_and(|(_, message)| hands_over(message));
    let last = if is_handed_over {
        answers.find(|(_, message)| !hands_over(message))
    } else {
        last
    };
    let start = last.map_or(0, |(index, _)| index + 1);
    NewestTurn {
        messages: request.messages.get(start..).unwrap_or_default(),
        is_handed_over,
    }
}

/// Returns whether an answer hands the conversation over to another agent, and does nothing else.
fn hands_over(answer: &Message<'_>) -> bool {
    !answer.calls.is_empty() && answer.calls.iter().all(|call| is_handover(&call.name))
}

/// Returns whether a tool hands the conversation over to another agent, by the names that libraries
/// of agents give such tools.
fn is_handover(name: &str) -> bool {
    const BEGINS: [&str; 4] = [
        "transfer_to_",
        "handoff_to_",
        "hand_off_to_",
        "delegate_to_",
    ];
    let name = last_part(name);
    BEGINS.iter().any(|begin| {
        name.get(..begin.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(begin))
    })
}

/// Returns the name that a tool has in its group: some libraries write the group before it, as in
/// `W-get_weather` and `mcp__w__get_weather`.
fn last_part(name: &str) -> &str {
    let name = name.rsplit("__").next().unwrap_or(name);
    name.rsplit(['-', '.', '/']).next().unwrap_or(name)
}

/// Returns the tools that the demo can call.
pub(super) fn callable_tools<'r>(request: &'r Request<'_>) -> impl Iterator<Item = &'r Tool<'r>> {
    let functions = request
        .tools
        .iter()
        .take(MOST_TOOLS)
        .filter(|tool| matches!(tool.kind, ToolKind::Function(..)));
    functions.filter(|tool| match &request.tool_choice {
        Some(ToolChoice::None) => false,
        Some(ToolChoice::Named(name)) => tool.name == *name,
        Some(ToolChoice::Allowed { names, .. }) => names.contains(&tool.name),
        Some(ToolChoice::Auto | ToolChoice::Required) | None => true,
    })
}

/// Returns the tool to name to the user: the first that only reads, or the first of all.
pub(super) fn suggested_tool<'r>(request: &'r Request<'_>) -> Option<&'r Tool<'r>> {
    callable_tools(request)
        .find(|tool| is_reading(tool))
        .or_else(|| callable_tools(request).next())
}

/// Returns a tool's name, or its beginning.
pub(super) fn short_name(tool: &Tool<'_>) -> String {
    shorten_text(&tool.name, QUOTED)
}

/// Returns the tools to call: none, one, or two.
fn choose_tools<'r>(
    request: &'r Request<'_>,
    words: &Words<'_>,
    is_handed_over: bool,
) -> Vec<&'r Tool<'r>> {
    let callable: Vec<&Tool<'_>> = callable_tools(request)
        .filter(|tool| !(is_handed_over && is_handover(&tool.name)))
        .collect();
    let must = matches!(
        request.tool_choice,
        Some(
            ToolChoice::Required
                | ToolChoice::Allowed {
                    must_call: true,
                    ..
                }
        )
    );
    let are_few = callable.len() <= FEW;
    let may = must || words.asks_for_call() || are_few;
    let (mut tools, mut others): (Vec<&Tool<'_>>, Vec<&Tool<'_>>) = callable
        .iter()
        .copied()
        .partition(|tool| is_named(tool, request, words));
    if tools.is_empty() || words.has_word("parallel") {
        others.retain(|tool| {
            let is_meant = may || words.are_a_question && words.suggest(&tool.name) > 0;
            is_meant && is_reading(tool)
        });
        others.sort_by_key(|tool| Reverse(words.suggest(&tool.name)));
        tools.extend(others);
    }
    if tools.is_empty() && must && are_few {
        tools.extend(callable.into_iter().find(|tool| !is_shell(tool)));
    }
    let is_twice = words.has_word("parallel") && request.parallel_tool_calls != Some(false);
    match tools.first() {
        Some(only) if is_twice && tools.len() == 1 => tools.push(only),
        Some(_) | None => tools.truncate(if is_twice { 2 } else { 1 }),
    }
    tools
}

/// Returns whether the request or the user's words name this tool.
fn is_named(tool: &Tool<'_>, request: &Request<'_>, words: &Words<'_>) -> bool {
    matches!(&request.tool_choice, Some(ToolChoice::Named(name)) if tool.name == *name)
        || words.name(&tool.name)
        || words.name(last_part(&tool.name))
}

fn sample_arguments(tool: &Tool<'_>, word: &str) -> Option<String> {
    match &tool.kind {
        ToolKind::Function(None, _) => Some("{}".to_owned()),
        ToolKind::Function(Some(schema), _) => {
            sample::sample_for_schema(schema, word).filter(|arguments| arguments.starts_with('{'))
        }
        ToolKind::Custom | ToolKind::Other => None,
    }
}

/// Returns whether the first word of a tool's name shows that it only reads.
fn is_reading(tool: &Tool<'_>) -> bool {
    // Handing over changes nothing.
    is_handover(&tool.name)
        || [&*tool.name, last_part(&tool.name)]
            .into_iter()
            .any(begins_with_reading)
}

fn begins_with_reading(name: &str) -> bool {
    let first = words_of_name(name).next().unwrap_or_default();
    READS
        .iter()
        .chain(&KNOWS)
        .any(|known| first.eq_ignore_ascii_case(known))
}

/// Returns the words of a tool's name, such as `get` and `Weather` of `getWeather`.
fn words_of_name(name: &str) -> impl Iterator<Item = &str> {
    let parts = name
        .split(|c: char| !c.is_alphanumeric())
        .filter(|part| !part.is_empty());
    parts.flat_map(|part| {
        let starts = part
            .char_indices()
            .filter(|(index, c)| *index == 0 || c.is_uppercase())
            .map(|(index, _)| index);
        let ends = part
            .char_indices()
            .skip(1)
            .filter(|(_, c)| c.is_uppercase())
            .map(|(index, _)| index);
        starts
            .zip(ends.chain([part.len()]))
            .filter_map(|(start, end)| part.get(start..end))
    })
}

fn is_shell(tool: &Tool<'_>) -> bool {
    let name = tool.name.to_ascii_lowercase();
    SHELLS.iter().any(|part| name.contains(part))
}

fn message_texts<'m>(message: &'m Message<'_>) -> impl Iterator<Item = &'m str> {
    message.content.iter().filter_map(|part| match &part.kind {
        PartKind::Text(text) => Some(&**text),
        PartKind::Image(..) | PartKind::Audio(..) | PartKind::File(..) => None,
    })
}

/// The words of the user.
struct Words<'w> {
    list: Vec<&'w str>,
    are_a_question: bool,
}

impl<'w> Words<'w> {
    fn split(text: &'w str) -> Self {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let words = text
            .split(|c| !is_part(c))
            .filter(|word| !word.is_empty())
            .take(MOST_WORDS);
        Words {
            list: words.map(|word| word.trim_matches('.')).collect(),
            are_a_question: text.contains('?'),
        }
    }

    fn has_word(&self, word: &str) -> bool {
        self.list
            .iter()
            .any(|known| known.eq_ignore_ascii_case(word))
    }

    /// Returns whether the words ask for a call.
    fn asks_for_call(&self) -> bool {
        ["tool", "tools", "call"]
            .iter()
            .any(|word| self.has_word(word))
    }

    /// Returns how many words of a tool's name are among the user's, without words for the tool's
    /// act.
    fn suggest(&self, name: &str) -> usize {
        let is_thing = |word: &str| !READS.iter().any(|known| word.eq_ignore_ascii_case(known));
        words_of_name(name)
            .filter(|word| word.len() > 2 && is_thing(word) && self.has_word(word))
            .count()
    }

    /// Returns whether the words name a tool. A name that is a plain word, such as `Read`, counts
    /// only if the words also ask for a call.
    fn name(&self, name: &str) -> bool {
        let is_plain = name.chars().all(char::is_alphabetic);
        self.list.contains(&name) && (!is_plain || self.asks_for_call())
    }
}
