//! Reading turns a YAML tree into Rust values by serde, and reports *all* errors at once, each with
//! its line and path.
//!
//! A derived `Deserialize` gives up at its first error. So each error is recorded where it happens.
//! The value that it is about is then passed over as if it were not written, and the value around
//! it is read again. The types that are read must therefore keep two rules. Every field is an
//! `Option`: other code says what is missing. A map of many entries is [`Entries`], so that only
//! one entry is read again.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::marker::PhantomData;
use std::{fmt, ptr};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{self, Deserialize, IntoDeserializer, MapAccess, Visitor};

use super::{Entry, Node, Path, Shows, Value, habits};
use crate::base::problem::{Problem, in_column, nearest_name, quote_near_miss};
use nested::{ListReader, MapReader};

mod nested;

/// The most errors that are reported at once. The reading stops after that, because each error
/// costs a second reading of its surroundings.
pub const MOST_FAULTS: usize = 100;

/// A kind of file: what is known of it besides its types.
#[derive(Clone, Copy)]
pub struct FileKind {
    /// The function that says which keys of maps of many entries may be shown. A secret that stands
    /// there by mistake may not.
    pub shows: Shows,
    /// The table of fields that exist elsewhere, with the words to write here.
    pub habits: &'static str,
}

/// Reads a value. Returns `None` if no part of it could be read. All errors are added to `faults`.
pub fn read_value<T: for<'de> Deserialize<'de>>(
    root: &Node<'_>,
    kind: FileKind,
    faults: &mut Vec<Problem>,
) -> Option<T> {
    let collector = FaultCollector {
        kind,
        faults: RefCell::new(Vec::new()),
        dead: RefCell::new(HashSet::new()),
    };
    let value = loop {
        let before = collector.count();
        match T::deserialize(NodeReader {
            node: root,
            path: &Path::Root,
            collector: &collector,
        }) {
            Ok(value) => break Some(value),
            Err(error) => collector.record(error, root, root.line, root.column, &Path::Root),
        };
        if collector.is_dead(root) || collector.is_full() || collector.count() == before {
            break None;
        }
    };
    faults.append(&mut collector.faults.into_inner());
    value
}

/// A map from names to values of one kind, in the order written. A value that cannot be read is
/// `None`, so that its name is still known.
pub struct Entries<T>(pub Vec<(String, Option<T>)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Collect<T> {
            type Value = Entries<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries: Vec<(String, Option<T>)> =
                    Vec::with_capacity(map.size_hint().unwrap_or(0));
                // After an error our `MapReader` gives the same key again, until its value is read
                // or its node is dead. So the entry that is already there is replaced.
                while let Some(name) = map.next_key::<String>()? {
                    let value = map.next_value().ok();
                    match entries.last_mut() {
                        Some((last, slot)) if *last == name => *slot = value,
                        _ => entries.push((name, value)),
                    }
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Collect(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Entries<T> {
    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<String, T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, T>::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

/// A list. An item that cannot be read is `None`, so that the others keep their places.
pub type List<T> = Vec<Option<T>>;

/// Returns the entries of a map that may not be written.
pub fn map_entries<T>(map: Option<&Entries<T>>) -> impl Iterator<Item = &(String, Option<T>)> {
    map.into_iter().flat_map(|entries| &entries.0)
}

/// Returns the items of a list that could be read, with their places.
pub fn list_items<T>(list: Option<&List<T>>) -> impl Iterator<Item = (usize, &T)> {
    list.into_iter()
        .flatten()
        .enumerate()
        .filter_map(|(index, item)| Some((index, item.as_ref()?)))
}

struct FaultCollector {
    kind: FileKind,
    faults: RefCell<Vec<Problem>>,
    /// The nodes that are passed over, by address. The tree does not move while it is read.
    dead: RefCell<HashSet<usize>>,
}

impl FaultCollector {
    fn is_dead(&self, node: &Node<'_>) -> bool {
        let dead = self.dead.borrow();
        !dead.is_empty() && dead.contains(&node_address(node))
    }

    fn count(&self) -> usize {
        self.faults.borrow().len()
    }

    fn is_full(&self) -> bool {
        self.count() >= MOST_FAULTS
    }

    /// Makes sure that each error leads to progress: a value that failed without a new fault is not
    /// tried again.
    fn give_up(&self, node: &Node<'_>, before: usize) {
        if self.count() == before {
            self.dead.borrow_mut().insert(node_address(node));
        }
    }

    /// Records an error that has no place yet as an error of this node. The node is dead from then
    /// on.
    fn record(
        &self,
        error: ReadError,
        node: &Node<'_>,
        line: usize,
        column: usize,
        path: &Path<'_>,
    ) -> ReadError {
        let (path, message) = match (error, path) {
            (ReadError::Recorded, _) => return ReadError::Recorded,
            (ReadError::Fresh(message), _) => shown_at(path, message, column),
            (ReadError::Withheld(message), _) => (path.to_string(), in_column(&message, column)),
            (ReadError::UnknownField(field, allowed), Path::In(map, _)) => {
                let instead = habits::suggest_words(self.kind.habits, &field, allowed);
                let is_shown =
                    instead.is_some() || quote_near_miss(&field, allowed.iter().copied()).is_some();
                let message = match instead {
                    Some(instead) => format!("unknown field: {instead}"),
                    None => format!("unknown field{}", suggest_word(&field, allowed)),
                };
                shown_at(&map.entry(&field, is_shown), message, column)
            }
            // There is no field without a map around it.
            (ReadError::UnknownField(field, allowed), Path::Root) => (
                String::new(),
                format!("unknown field{}", suggest_word(&field, allowed)),
            ),
        };
        if self.dead.borrow_mut().insert(node_address(node)) {
            self.faults
                .borrow_mut()
                .push(Problem::in_text(line, path, message));
        }
        ReadError::Recorded
    }
}

/// Returns the path of an error and its message, which has the column if the path does not show it.
fn shown_at(path: &Path<'_>, message: String, column: usize) -> (String, String) {
    let message = if path.hides() {
        in_column(&message, column)
    } else {
        message
    };
    (path.to_string(), message)
}

fn node_address(node: &Node<'_>) -> usize {
    ptr::from_ref(node).addr()
}

/// An error, before its place is known (with a text) and after.
#[derive(Debug)]
enum ReadError {
    Fresh(String),
    /// An error about a value that the message does not quote; the message has the value's place
    /// instead.
    Withheld(String),
    UnknownField(String, &'static [&'static str]),
    Recorded,
}

/// This text is not shown: the error is recorded as a problem.
impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("recorded")
    }
}

impl std::error::Error for ReadError {}

impl de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Withheld(message.to_string())
    }

    // The messages never show the values: they may be secrets.
    fn invalid_type(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::Fresh(format!("must be {expected}"))
    }

    // Serde reports this for a whole number that does not fit its type. Nothing else reports it
    // here.
    fn invalid_value(_: de::Unexpected<'_>, _: &dyn de::Expected) -> Self {
        Self::Fresh("is too large".to_owned())
    }

    fn unknown_field(field: &str, allowed: &'static [&'static str]) -> Self {
        Self::UnknownField(field.to_owned(), allowed)
    }

    fn unknown_variant(variant: &str, allowed: &'static [&'static str]) -> Self {
        let hint = suggest_word(variant, allowed);
        match quote_near_miss(variant, allowed.iter().copied()) {
            Some(quoted) => Self::Fresh(format!("{quoted} is not known{hint}")),
            None => Self::Withheld(format!("is not known{hint}")),
        }
    }
}

fn suggest_word(wrong: &str, allowed: &[&str]) -> String {
    let list = allowed.join(", ");
    match nearest_name(wrong, allowed.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`? Allowed: {list}"),
        None => format!("; allowed: {list}"),
    }
}

/// A value that is being read.
#[derive(Clone, Copy)]
struct NodeReader<'a, 't> {
    node: &'a Node<'t>,
    path: &'a Path<'a>,
    collector: &'a FaultCollector,
}

/// The name of a type that takes a text, a number, true or false.
pub const SCALAR: &str = "Scalar";

impl<'a, 't> NodeReader<'a, 't> {
    /// Returns the error that another kind of value was expected.
    fn wrong_kind<T>(&self, expected: impl fmt::Display) -> Result<T, ReadError> {
        let found = match &self.node.value {
            _ if self.node.is_null() => {
                return Err(ReadError::Fresh(
                    "has no value: write a value, or remove the field".to_owned(),
                ));
            }
            Value::Map(_) => "a map",
            Value::List(_) => "a list",
            Value::Quoted(_) => "text",
            Value::Plain(text) if parse_boolean(text).is_some() => "true or false",
            Value::Plain(text) if is_number(text) => "a number",
            Value::Plain(_) => "text",
        };
        Err(ReadError::Fresh(format!("must be {expected}, not {found}")))
    }

    fn text(&self) -> Result<&'a str, ReadError> {
        match &self.node.value {
            Value::Plain(text) | Value::Quoted(text) if reads_as_text(self.node) => Ok(text),
            Value::Plain(_) | Value::Quoted(_) | Value::List(_) | Value::Map(_) => {
                self.wrong_kind("text (in quotes, if it looks like something else)")
            }
        }
    }

    fn fields(self, entries: &'a [Entry<'t>]) -> MapReader<'a, 't> {
        MapReader {
            reader: self,
            entries,
            left: entries,
            keys_are_names: false,
        }
    }
}

/// Returns whether a scalar is read as text, because it is nothing else.
pub fn reads_as_text(node: &Node<'_>) -> bool {
    match &node.value {
        Value::Quoted(_) => true,
        Value::Plain(text) => !node.is_null() && parse_boolean(text).is_none() && !is_number(text),
        Value::List(_) | Value::Map(_) => false,
    }
}

fn parse_boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// Returns whether a scalar is a number, by the core schema of YAML 1.2, §10.3.2.
fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if let Some(digits) = text.strip_prefix("0x") {
        return !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return !digits.is_empty() && digits.bytes().all(|b| (b'0'..=b'7').contains(&b));
    }
    if matches!(
        unsigned,
        ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN"
    ) {
        return true;
    }
    // Rust's floats are those of the core schema, and also `inf` and `nan` without the dot.
    unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.parse::<f64>().is_ok()
}

macro_rules! whole_numbers {
    ($($name:ident)*) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            match &self.node.value {
                Value::Plain(text) if is_number(text) && text.bytes().all(|b| b.is_ascii_digit()) => match text.parse() {
                    Ok(number) => visitor.visit_u64(number),
                    Err(_) => Err(ReadError::Fresh("is too large".to_owned())),
                },
                Value::Plain(_) if !self.node.is_null() => Err(ReadError::Withheld("must be a whole number, 0 or more".to_owned())),
                Value::Plain(_) | Value::Quoted(_) | Value::List(_) | Value::Map(_) => self.wrong_kind("a whole number, 0 or more"),
            }
        }
    )*};
}

impl<'de> de::Deserializer<'de> for NodeReader<'_, '_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.node.value {
            Value::Map(entries) => visitor.visit_map(self.fields(entries)),
            Value::List(_) => self.deserialize_seq(visitor),
            Value::Plain(_) | Value::Quoted(_) => visitor.visit_str(self.text()?),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.node.value {
            Value::Plain(text) if !self.node.is_null() => match parse_boolean(text) {
                Some(value) => visitor.visit_bool(value),
                // The words that other formats, and YAML 1.1, read as true or false.
                None => {
                    let is_one = |word: &&str| word.eq_ignore_ascii_case(text);
                    let known = ["yes", "no", "on", "off", "y", "n", "1", "0"]
                        .iter()
                        .any(is_one);
                    Err(
                        match quote_near_miss(text, ["true", "false"])
                            .or_else(|| known.then(|| format!("{text:?}")))
                        {
                            Some(quoted) => {
                                ReadError::Fresh(format!("must be true or false, not {quoted}"))
                            }
                            None => ReadError::Withheld("must be true or false".to_owned()),
                        },
                    )
                }
            },
            Value::Plain(_) | Value::Quoted(_) | Value::List(_) | Value::Map(_) => {
                self.wrong_kind("true or false")
            }
        }
    }

    /// Gives serde the number's text, so that none of its decimals is lost.
    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.node.value {
            Value::Plain(text) if is_number(text) => visitor.visit_str(text),
            Value::Plain(_) if !self.node.is_null() => {
                Err(ReadError::Withheld("must be a number".to_owned()))
            }
            Value::Plain(_) | Value::Quoted(_) | Value::List(_) | Value::Map(_) => {
                self.wrong_kind("a number")
            }
        }
    }

    whole_numbers! { deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        if self.collector.is_dead(self.node) {
            visitor.visit_none()
        } else if self.node.is_null() {
            // `wrong_kind` has a message of its own for a missing value.
            self.wrong_kind("")
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let Value::List(items) = &self.node.value else {
            return self.wrong_kind("a list");
        };
        visitor.visit_seq(ListReader {
            reader: self,
            items,
            next_index: 0,
        })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let Value::Map(entries) = &self.node.value else {
            return self.wrong_kind("a map");
        };
        // The keys of such a map are names that the operator chose. `FileKind::shows` decides
        // whether a message may show them.
        visitor.visit_map(MapReader {
            keys_are_names: true,
            ..self.fields(entries)
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let Value::Map(entries) = &self.node.value else {
            return self.wrong_kind(format_args!("a map of {}", fields.join(", ")));
        };
        visitor.visit_map(self.fields(entries))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.text() {
            Ok(text) => visitor.visit_enum(text.into_deserializer()),
            Err(_) => self.wrong_kind(format_args!("one of {}", variants.join(", "))),
        }
    }

    /// Reads a value that is written as text. A number is passed on as text too, so that the
    /// value's own type says what is missing; to a [`SCALAR`], so are true and false.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if let Value::Plain(text) = &self.node.value {
            match parse_boolean(text) {
                Some(truth) if name == SCALAR => return visitor.visit_str(&truth.to_string()),
                None if is_number(text) => return visitor.visit_str(text),
                Some(_) | None => {}
            }
        }
        visitor.visit_str(self.text()?)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 f32 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}

#[cfg(test)]
mod tests;
