//! An echo is the part of a request that its answer repeats. Only some front doors need one: their
//! answers show the request's own fields, or name a tool in other words than the request for the
//! upstream.

/// The part of a request that its answer repeats, as the caller wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Echo {
    /// Members of the answer's object: JSON text on one line, without the braces around it.
    pub members: String,
    /// True if the caller wants to see thinking.
    pub shows_thinking: bool,
    /// True if the caller sends back sealed thoughts.
    pub carries_thoughts: bool,
    /// The tools that their caller knows by more than a name.
    pub tools: Vec<CallersTool>,
}

/// A tool as its caller knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallersTool {
    /// The name in [`Request`](super::Request).
    pub name: String,
    /// The kind of the tool's calls.
    pub kind: CallKind,
    /// The name as the caller wrote it.
    pub callers_name: String,
    /// The namespace in which the caller declared the tool.
    pub namespace: Option<String>,
}

/// The kind of a tool's calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CallKind {
    /// A call of a function.
    #[default]
    Function,
    /// A call with free text. In [`Request`](super::Request) the tool is a function, and the text
    /// is its only argument, `input`.
    Custom,
    /// A search for tools, which the caller executes.
    Search,
}
