//! A tree is a YAML text as values that know their lines. This module reads a text into a tree.
//!
//! It is stricter than YAML where YAML would lead to a silent surprise: equal keys in a map,
//! several documents, tags, an empty file and a byte-order mark are errors. The size, the depth and
//! the copies by aliases are bounded, so that no file can hang or exhaust the process. [`read`]
//! turns a tree into Rust values.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Parser, ScalarStyle};

use crate::base::problem::{Problem, in_column};
use pairs::Columns;

pub mod edit;
pub mod habits;
mod pairs;
mod path;
pub mod read;

pub use path::{Path, Step};

/// The largest text of a file that is not one of the catalog.
pub const LARGEST: usize = 32 << 20;
/// The largest text of all.
pub const LARGEST_TEXT: usize = 1 << 30;
/// The most lists and maps inside each other. Our files need seven.
const MAX_DEPTH: usize = 64;
/// The most values of a text of usual size, keys included.
const MAX_VALUES: usize = 4_000_000;
/// The bytes of a larger text for each value. A key with its hash has four, and some hundred bytes.
const BYTES_OF_VALUE: usize = 8;
/// The most values that anchors and aliases may copy: enough for any honest use, too few for a
/// bomb.
const MAX_ALIASED: usize = 100_000;

/// A value, and the place where it begins.
#[derive(Clone)]
pub struct Node<'t> {
    /// The line, counted from 1.
    pub line: usize,
    /// The column on its line, counted from 1, in characters.
    pub column: usize,
    /// The value.
    pub value: Value<'t>,
}

/// A value as written.
#[derive(Clone)]
pub enum Value<'t> {
    /// A scalar without quotes. Its meaning depends on the type that is asked for.
    Plain(Cow<'t, str>),
    /// A scalar in quotes, or a block scalar: always text.
    Quoted(Cow<'t, str>),
    /// A list.
    List(Vec<Node<'t>>),
    /// A map, in the order written. No key stands twice.
    Map(Vec<Entry<'t>>),
}

/// A key of a map with its value.
#[derive(Clone)]
pub struct Entry<'t> {
    /// The key; always text.
    pub key: Cow<'t, str>,
    /// The key's line.
    pub line: usize,
    /// The key's column.
    pub column: usize,
    /// The key's value.
    pub node: Node<'t>,
}

impl<'t> Node<'t> {
    /// Returns whether nothing is written, or `null`.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Plain(text) if matches!(&**text, "" | "~" | "null" | "Null" | "NULL"))
    }

    /// Returns the same tree, which borrows nothing.
    fn into_owned(self) -> Node<'static> {
        let owned = |text: Cow<'t, str>| Cow::Owned(text.into_owned());
        let value = match self.value {
            Value::Plain(text) => Value::Plain(owned(text)),
            Value::Quoted(text) => Value::Quoted(owned(text)),
            Value::List(items) => Value::List(items.into_iter().map(Node::into_owned).collect()),
            Value::Map(entries) => Value::Map(
                entries
                    .into_iter()
                    .map(
                        |Entry {
                             key,
                             line,
                             column,
                             node,
                         }| Entry {
                            key: owned(key),
                            line,
                            column,
                            node: node.into_owned(),
                        },
                    )
                    .collect(),
            ),
        };
        Node {
            value,
            line: self.line,
            column: self.column,
        }
    }

    fn get(&self, step: &Step<'_>) -> Option<FoundNode<'_, 't>> {
        match (step, &self.value) {
            (Step::Key(key) | Step::Hidden(key), Value::Map(entries)) => {
                let entry = entries.iter().find(|entry| entry.key == *key)?;
                Some(FoundNode {
                    line: entry.line,
                    column: entry.column,
                    node: &entry.node,
                })
            }
            (Step::Index(index), Value::List(items)) => {
                let node = items.get(*index)?;
                Some(FoundNode {
                    line: node.line,
                    column: node.column,
                    node,
                })
            }
            _ => None,
        }
    }

    /// Returns the value at a path. If only the beginning of the path is written, returns the value
    /// there; if nothing of it is written, `None`.
    pub fn find(&self, path: &Path<'_>) -> Option<FoundNode<'_, 't>> {
        let mut steps: Vec<&Step<'_>> = path.steps().collect();
        steps.reverse();
        let (mut found, mut node) = (None, self);
        for step in steps {
            let Some(next) = node.get(step) else { break };
            node = next.node;
            found = Some(next);
        }
        found
    }

    /// Returns the line of a path. If only the beginning of the path is written, returns the line
    /// of that; if nothing of it is written, `None`.
    pub fn line_of(&self, path: &Path<'_>) -> Option<usize> {
        self.find(path).map(|found| found.line)
    }

    /// Returns whether two values are equal, regardless of their places and quotes.
    pub fn is_same(&self, other: &Node<'_>) -> bool {
        match (&self.value, &other.value) {
            (Value::Plain(a), Value::Plain(b)) | (Value::Quoted(a), Value::Quoted(b)) => a == b,
            (Value::Plain(a), Value::Quoted(b)) => a == b && read::reads_as_text(self),
            (Value::Quoted(a), Value::Plain(b)) => a == b && read::reads_as_text(other),
            (Value::List(a), Value::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_same(b))
            }
            (Value::Map(a), Value::Map(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .zip(b)
                        .all(|(a, b)| a.key == b.key && a.node.is_same(&b.node))
            }
            (Value::Plain(_) | Value::Quoted(_) | Value::List(_) | Value::Map(_), _) => false,
        }
    }

    fn depth(&self) -> usize {
        match &self.value {
            Value::Plain(_) | Value::Quoted(_) => 0,
            Value::List(items) => 1 + items.iter().map(Node::depth).max().unwrap_or(0),
            Value::Map(entries) => {
                1 + entries
                    .iter()
                    .map(|entry| entry.node.depth())
                    .max()
                    .unwrap_or(0)
            }
        }
    }

    fn count(&self) -> usize {
        match &self.value {
            Value::Plain(_) | Value::Quoted(_) => 1,
            Value::List(items) => 1 + items.iter().map(Node::count).sum::<usize>(),
            Value::Map(entries) => {
                1 + entries
                    .iter()
                    .map(|entry| 1 + entry.node.count())
                    .sum::<usize>()
            }
        }
    }
}

/// A value with its place.
#[derive(Clone, Copy)]
pub struct FoundNode<'n, 't> {
    /// The line of the value's key, or of the value itself in a list.
    pub line: usize,
    /// The column there.
    pub column: usize,
    /// The value.
    pub node: &'n Node<'t>,
}

/// A function that returns whether a key may be shown. Its first argument is the nearest key above
/// that key; places in lists do not count.
pub type Shows = fn(Option<&str>, &str) -> bool;

/// Reads one document. Returns the tree, and an error for each key that stands twice; or the one
/// error that leaves no tree.
pub fn parse(text: &str) -> Result<(Node<'_>, Vec<Problem>), Problem> {
    parse_as(text, |_, _| true)
}

/// Reads one document. Its errors show only the keys that `shows` allows.
pub fn parse_as(text: &str, shows: Shows) -> Result<(Node<'_>, Vec<Problem>), Problem> {
    let fault = |line, message| Err(Problem::in_text(line, String::new(), message));
    if text.len() > LARGEST_TEXT {
        return fault(
            1,
            format!(
                "is too large: a file may have at most {} MiB",
                LARGEST_TEXT >> 20
            ),
        );
    }
    if text.starts_with('\u{feff}') {
        return fault(
            1,
            "begins with a byte-order mark: save the file as UTF-8 without one".to_owned(),
        );
    }
    let (joined, places) = pairs::without_pairs(text);
    match joined {
        Cow::Borrowed(_) => parse_joined(text, &mut Columns::default(), shows),
        Cow::Owned(joined) => parse_joined(&joined, &mut Columns::new(places), shows)
            .map(|(root, faults)| (root.into_owned(), faults)),
    }
}

/// Reads a document without pairs of escapes.
fn parse_joined<'t>(
    text: &'t str,
    columns: &mut Columns,
    shows: Shows,
) -> Result<(Node<'t>, Vec<Problem>), Problem> {
    let fault = |line, message| Err(Problem::in_text(line, String::new(), message));
    let mut tree = TreeBuilder {
        open: Vec::new(),
        root: None,
        anchors: HashMap::new(),
        faults: Vec::new(),
        count: 0,
        max_values: MAX_VALUES.max(text.len() / BYTES_OF_VALUE),
        aliased: 0,
        shows,
    };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => {
                let line = span.start.line();
                let column = columns.written_column(line, span.start.col() + 1);
                tree.take(event, line, column)
                    .map_err(|message| Problem::in_text(line, tree.path(None), message))?;
            }
            Err(error) => {
                // At the end of the text, the parser may count one line too many.
                let line = error.marker().line().min(text.lines().count()).max(1);
                let column = columns.written_column(line, error.marker().col() + 1);
                return fault(
                    line,
                    in_column(&format!("is not YAML: {}", error.info()), column),
                );
            }
        }
    }
    match tree.root {
        Some(root) if !root.is_null() => Ok((root, tree.faults)),
        _ => fault(
            1,
            "is empty: write `{}` if it should set nothing".to_owned(),
        ),
    }
}

/// The tree while it grows. There is no recursion, because the file decides how deep the tree is.
struct TreeBuilder<'t> {
    open: Vec<OpenNode<'t>>,
    root: Option<Node<'t>>,
    anchors: HashMap<usize, Node<'t>>,
    faults: Vec<Problem>,
    count: usize,
    /// The most values that the text may have.
    max_values: usize,
    aliased: usize,
    shows: Shows,
}

/// A list or map that is not closed yet.
struct OpenNode<'t> {
    line: usize,
    column: usize,
    anchor: usize,
    value: OpenValue<'t>,
}

enum OpenValue<'t> {
    List(Vec<Node<'t>>),
    Map {
        entries: Vec<Entry<'t>>,
        key: Option<(Cow<'t, str>, usize, usize)>,
    },
}

impl<'t> TreeBuilder<'t> {
    fn take(&mut self, event: Event<'t>, line: usize, column: usize) -> Result<(), String> {
        const TAG: &str = "tags (`!…`) are not allowed: remove the tag";
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                Err("a second document begins here: a file may hold only one document".to_owned())
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => Err(TAG.to_owned()),
            Event::Scalar(text, style, anchor, None) => {
                let value = if style == ScalarStyle::Plain {
                    Value::Plain(text)
                } else {
                    Value::Quoted(text)
                };
                self.put(
                    Node {
                        line,
                        column,
                        value,
                    },
                    anchor,
                )
            }
            Event::SequenceStart(anchor, None) => self.open(OpenNode {
                line,
                column,
                anchor,
                value: OpenValue::List(Vec::new()),
            }),
            Event::MappingStart(anchor, None) => self.open(OpenNode {
                line,
                column,
                anchor,
                value: OpenValue::Map {
                    entries: Vec::new(),
                    key: None,
                },
            }),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(OpenNode {
                    line,
                    column,
                    anchor,
                    value: open,
                }) = self.open.pop()
                else {
                    return Ok(());
                };
                let value = match open {
                    OpenValue::List(items) => Value::List(items),
                    OpenValue::Map { entries, .. } => Value::Map(self.without_doubles(entries)),
                };
                self.put(
                    Node {
                        line,
                        column,
                        value,
                    },
                    anchor,
                )
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err("this alias (`*`) is inside the value that it refers to".to_owned());
                };
                let mut node = node.clone();
                (node.line, node.column) = (line, column);
                if self.open.len() + node.depth() > MAX_DEPTH {
                    return Err(too_deep());
                }
                self.copied(&node)?;
                self.put(node, 0)
            }
        }
    }

    fn open(&mut self, open: OpenNode<'t>) -> Result<(), String> {
        if let Some(OpenNode {
            value: OpenValue::Map { key: None, .. },
            ..
        }) = self.open.last()
        {
            return Err("the name of a field must be plain text, not a list or a map".to_owned());
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep());
        }
        self.open.push(open);
        Ok(())
    }

    /// Puts a whole value into its place: it becomes a key, the value of a key, an item, or the
    /// document.
    fn put(&mut self, mut node: Node<'t>, anchor: usize) -> Result<(), String> {
        self.count += 1;
        if self.count > self.max_values {
            return Err(format!(
                "is too large: it holds more than {} values",
                self.max_values
            ));
        }
        if anchor > 0 {
            self.copied(&node)?;
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(OpenNode {
                value: OpenValue::List(items),
                ..
            }) => items.push(node),
            Some(OpenNode {
                value: OpenValue::Map { entries, key },
                ..
            }) => match key.take() {
                Some((key, line, column)) => {
                    // An absent value has no place of its own, so it gets the place of its key.
                    if node.is_null() {
                        (node.line, node.column) = (line, column);
                    }
                    entries.push(Entry {
                        key,
                        line,
                        column,
                        node,
                    });
                }
                None if node.is_null() => {
                    return Err("the name of a field is missing before the colon".to_owned());
                }
                None => match node.value {
                    Value::Plain(text) if text == "<<" => {
                        return Err(
                            "merge keys (`<<`) are not part of YAML 1.2: write the fields themselves".to_owned()
                        );
                    }
                    Value::Plain(text) | Value::Quoted(text) => {
                        *key = Some((text, node.line, node.column))
                    }
                    Value::List(_) | Value::Map(_) => {
                        return Err(
                            "the name of a field must be plain text, not a list or a map"
                                .to_owned(),
                        );
                    }
                },
            },
        }
        Ok(())
    }

    fn copied(&mut self, node: &Node<'_>) -> Result<(), String> {
        self.aliased += node.count();
        if self.aliased > MAX_ALIASED {
            return Err(format!(
                "anchors and aliases repeat more than {MAX_ALIASED} values"
            ));
        }
        Ok(())
    }

    fn without_doubles(&mut self, mut entries: Vec<Entry<'t>>) -> Vec<Entry<'t>> {
        let mut seen: HashSet<&str> = HashSet::with_capacity(entries.len());
        if entries.iter().all(|entry| seen.insert(&entry.key)) {
            // A large catalog has a million small maps.
            entries.shrink_to_fit();
            return entries;
        }
        let mut first: HashMap<Cow<'t, str>, usize> = HashMap::new();
        let mut kept = Vec::with_capacity(entries.len());
        for entry in entries {
            match first.get(&entry.key) {
                Some(line) => {
                    let path = self.path(Some(&entry.key));
                    let message = format!("is written twice, first in line {line}: keep only one");
                    // If the path does not name the key, the message has its column.
                    let message = if path.contains('…') {
                        in_column(&message, entry.column)
                    } else {
                        message
                    };
                    self.faults
                        .push(Problem::in_text(entry.line, path, message));
                }
                None => {
                    first.insert(entry.key.clone(), entry.line);
                    kept.push(entry);
                }
            }
        }
        kept
    }

    /// Returns the path of the place that the parser has reached.
    fn path(&self, last: Option<&str>) -> String {
        fn go(
            shows: Shows,
            open: &[OpenNode<'_>],
            above: Option<&str>,
            current: &Path<'_>,
            last: Option<&str>,
        ) -> String {
            match open.split_first() {
                None => match last {
                    Some(key) => current.entry(key, shows(above, key)).to_string(),
                    None => current.to_string(),
                },
                Some((
                    OpenNode {
                        value: OpenValue::List(items),
                        ..
                    },
                    rest,
                )) => go(shows, rest, above, &current.index(items.len()), last),
                Some((
                    OpenNode {
                        value:
                            OpenValue::Map {
                                key: Some((key, ..)),
                                ..
                            },
                        ..
                    },
                    rest,
                )) => go(
                    shows,
                    rest,
                    Some(key),
                    &current.entry(key, shows(above, key)),
                    last,
                ),
                Some((
                    OpenNode {
                        value: OpenValue::Map { key: None, .. },
                        ..
                    },
                    rest,
                )) => go(shows, rest, above, current, last),
            }
        }
        go(self.shows, &self.open, None, &Path::Root, last)
    }
}

fn too_deep() -> String {
    format!("is nested too deep: at most {MAX_DEPTH} lists and maps may be inside each other")
}

#[cfg(test)]
mod tests;
