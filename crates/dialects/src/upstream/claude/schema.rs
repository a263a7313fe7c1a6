//! JSON Schemas as Claude takes them, for answers and for tools.
//!
//! A schema that an answer is held to may say less than the standard: every object is closed,
//! nothing is bounded, nothing recurs. What can be said another way is; bounds become words in the
//! description; and where only another meaning is left, [`Fit::No`] says so. Texts of numbers,
//! names and values stay as they were written, and so does the order of properties: a model answers
//! in it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::wire::json::{Broken, Cursor, Kind, Writer, text_of};

/// A schema made to fit.
#[derive(Debug)]
pub(crate) struct Fitted {
    /// The schema; of no use where the fit is [`Fit::No`].
    pub(crate) text: String,
    /// How well.
    pub(crate) fit: Fit,
    /// Properties that need not be there.
    pub(crate) optional: usize,
    /// Places where one of several schemas holds.
    pub(crate) unions: usize,
}

/// How well a schema fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// It holds answers to all that it did before, and perhaps to more.
    Whole,
    /// A constraint is only a word in a description now.
    Weaker,
    /// It would forbid answers that it should allow, or be refused.
    No,
}

/// Makes a schema fit for `output_config.format` and for strict tools. `about` is said in front of
/// its description.
pub(crate) fn fit(schema: &str, about: Option<&str>) -> Fitted {
    let mut fitter =
        Fitter { fit: Fit::Whole, depth: 0, optional: 0, unions: 0, inside: None, refers: BTreeMap::new() };
    let mut w = Writer::with_capacity(schema.len() + schema.len() / 4);
    match Node::read(schema) {
        Some(schema) => fitter.schema(&mut w, &schema, about),
        None => fitter.fit = Fit::No,
    }
    if fitter.recurs() {
        fitter.fit = Fit::No;
    }
    let text = String::from_utf8(w.into_bytes()).unwrap_or_default();
    Fitted { text, fit: fitter.fit, optional: fitter.optional, unions: fitter.unions }
}

/// Parameters of a tool, as its `input_schema`.
#[derive(Debug, PartialEq)]
pub(crate) struct Parameters<'a> {
    /// An object's schema.
    pub(crate) schema: Cow<'a, str>,
    /// What may not stand at its top, to be said in the tool's description.
    pub(crate) moved: Option<String>,
}

/// Makes `type` say that it is an object, and takes `anyOf` and its like from the top, where the
/// API refuses them.
pub(crate) fn parameters(schema: Option<&str>) -> Parameters<'_> {
    let Some(schema) = schema else { return Parameters { schema: Cow::Borrowed(NOTHING), moved: None } };
    let text = schema.as_bytes();
    // Nearly all of them begin like this, and have none of the three.
    let begins = schema.starts_with(r#"{"type":"object""#) || schema.starts_with(r#"{"type": "object""#);
    if begins && memchr::memmem::find(text, b"Of\"").is_none() {
        return Parameters { schema: Cow::Borrowed(schema), moved: None };
    }
    let (mut is_object, mut has_choice) = (false, false);
    let read = Cursor::new(text).object(|cursor, key| {
        let name = text.get(key).unwrap_or_default();
        let value = cursor.value()?;
        is_object |= name == b"\"type\"" && text.get(value) == Some(b"\"object\"");
        has_choice |= matches!(name, b"\"anyOf\"" | b"\"oneOf\"" | b"\"allOf\"");
        Ok(())
    });
    if read.is_err() {
        return Parameters { schema: Cow::Borrowed(NOTHING), moved: None };
    }
    if is_object && !has_choice {
        return Parameters { schema: Cow::Borrowed(schema), moved: None };
    }
    let (mut w, mut moved) = (Writer::with_capacity(schema.len() + 32), Writer::default());
    let is_choice = |name: &str| matches!(name, "anyOf" | "oneOf" | "allOf");
    let members = members(schema).unwrap_or_default();
    w.object(|w| {
        w.key("type").text("object");
        for (name, value) in members.iter().filter(|(name, _)| name != "type" && !is_choice(name)) {
            w.name(name).raw(value);
        }
    });
    moved.object(|w| {
        members.iter().filter(|(name, _)| is_choice(name)).for_each(|(name, value)| w.name(name).raw(value))
    });
    let text = |w: Writer| String::from_utf8(w.into_bytes()).unwrap_or_default();
    Parameters { schema: Cow::Owned(text(w)), moved: has_choice.then(|| text(moved)) }
}

/// Whether the schema is one of objects, or does not say.
pub(crate) fn is_of_objects(schema: &str) -> bool {
    members(schema).is_some_and(|members| find(&members, "type").is_none_or(|kind| kind == "\"object\""))
}

/// A tool without parameters.
const NOTHING: &str = r#"{"type":"object","properties":{}}"#;
/// What is longer, or deeper, would be refused as too complex.
const MAX_LEN: usize = 128 * 1024;
const MAX_DEPTH: usize = 16;
const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

struct Fitter<'a> {
    fit: Fit,
    depth: usize,
    optional: usize,
    unions: usize,
    /// The definition that is being read.
    inside: Option<Cow<'a, str>>,
    /// The definitions that each definition refers to.
    refers: BTreeMap<Cow<'a, str>, Vec<Cow<'a, str>>>,
}

pub(crate) type Members<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// A value, read: its text, and what is in it, by its names where it is an object.
struct Node<'a> {
    text: &'a str,
    parts: Vec<(Cow<'a, str>, Node<'a>)>,
}

impl<'a> Node<'a> {
    fn read(text: &'a str) -> Option<Self> {
        if text.len() > MAX_LEN { None } else { Self::next(&mut Cursor::new(text.as_bytes()), text).ok() }
    }

    /// Goes no deeper than the scanner does.
    fn next(cursor: &mut Cursor<'a>, all: &'a str) -> Result<Self, Broken> {
        let mut parts = Vec::new();
        let span = match cursor.kind()? {
            Kind::Object => cursor.object(|cursor, key| {
                parts.push((text_of(all.as_bytes(), &key).unwrap_or_default(), Self::next(cursor, all)?));
                Ok(())
            }),
            Kind::Array => cursor.array(|cursor, _| {
                parts.push((Cow::Borrowed(""), Self::next(cursor, all)?));
                Ok(())
            }),
            Kind::String | Kind::Number | Kind::Bool | Kind::Null => cursor.value(),
        }?;
        Ok(Self { text: all.get(span).unwrap_or_default(), parts })
    }

    fn is_object(&self) -> bool {
        self.text.starts_with('{')
    }

    fn is_array(&self) -> bool {
        self.text.starts_with('[')
    }

    fn is_nested(&self) -> bool {
        self.is_object() || self.is_array()
    }
}

/// What must be known of a schema before any of it is written.
#[derive(Default)]
struct Known<'n, 'a> {
    reference: Option<&'a str>,
    kind: &'a str,
    properties: bool,
    required: Option<&'n Node<'a>>,
    items: bool,
    any_of: bool,
    one_of: bool,
    /// Other constraints, each of which is one.
    says_something: bool,
    is_closed: bool,
    has_patterns: bool,
}

impl<'n, 'a> Known<'n, 'a> {
    fn of(schema: &'n Node<'a>) -> Self {
        let mut known = Self::default();
        for (name, value) in &schema.parts {
            match &**name {
                "$ref" => known.reference = known.reference.or(Some(value.text)),
                "type" => known.kind = value.text,
                "properties" => known.properties = true,
                "required" => known.required = known.required.or(Some(value)),
                "items" => known.items = true,
                "anyOf" => known.any_of = true,
                "oneOf" => known.one_of = true,
                "allOf" | "enum" | "const" => known.says_something = true,
                "additionalProperties" => known.is_closed = value.text == "false",
                "patternProperties" => known.has_patterns = true,
                _ => {}
            }
        }
        known
    }
}

impl<'a> Fitter<'a> {
    fn schema(&mut self, w: &mut Writer, schema: &Node<'a>, about: Option<&str>) {
        // `true`: anything. No grammar is made of that.
        if !schema.is_object() || self.depth >= MAX_DEPTH {
            return self.misfit(w, schema);
        }
        self.depth += 1;
        let known = Known::of(schema);
        w.object(|w| match known.reference {
            Some(target) => self.reference(w, target, schema),
            None => self.members(w, schema, &known, about),
        });
        self.depth -= 1;
    }

    /// Nothing may stand beside a reference but definitions.
    fn reference(&mut self, w: &mut Writer, target: &'a str, schema: &Node<'a>) {
        w.key("$ref").raw(target);
        let target = string(target).unwrap_or_default();
        let name = target
            .strip_prefix("#/$defs/")
            .or_else(|| target.strip_prefix("#/definitions/"))
            .filter(|name| !name.contains('/'));
        match (name, &self.inside) {
            (None, _) => self.fit = Fit::No,
            (Some(name), Some(inside)) => {
                self.refers.entry(inside.clone()).or_default().push(Cow::Owned(name.to_owned()))
            }
            (Some(_), None) => {}
        }
        for (name, value) in &schema.parts {
            match &**name {
                "$defs" | "definitions" => self.definitions(w, name, value),
                "$ref" => {}
                name if is_remark(name) => {}
                _ => self.fit = self.fit.max(Fit::Weaker),
            }
        }
    }

    fn members(&mut self, w: &mut Writer, schema: &Node<'a>, known: &Known<'_, 'a>, about: Option<&str>) {
        let is_object = known.properties || known.kind.contains("\"object\"");
        let is_open = is_object && !known.properties && !known.is_closed;
        let says_nothing =
            known.kind.is_empty() && !(known.properties || known.any_of || known.one_of || known.says_something);
        let is_of_anything = known.kind.contains("\"array\"") && !known.items;
        if is_open || says_nothing || is_of_anything || known.has_patterns {
            self.fit = Fit::No;
        }
        self.unions += usize::from(known.any_of || known.one_of || known.kind.starts_with('['));
        let (mut description, mut bounds) = (Cow::Borrowed(""), String::new());
        for (name, value) in &schema.parts {
            match &**name {
                "type" | "required" | "title" | "default" => w.name(name).raw(value.text),
                "enum" | "const" => {
                    let is_list = name == "enum";
                    let is_deep = if is_list {
                        !value.is_array() || value.parts.iter().any(|(_, one)| one.is_nested())
                    } else {
                        value.is_nested()
                    };
                    if is_deep {
                        self.fit = Fit::No;
                    }
                    w.name(name).raw(value.text);
                }
                "description" => description = string(value.text).unwrap_or_default(),
                "properties" => self.properties(w, value, known.required),
                "$defs" | "definitions" => self.definitions(w, name, value),
                "items" => self.schema(w.key("items"), value, None),
                "anyOf" | "allOf" => self.each(w.name(name), value),
                "oneOf" if !known.any_of => self.each(w.key("anyOf"), value),
                "additionalProperties" => {
                    if !matches!(value.text, "true" | "false") {
                        self.fit = Fit::No;
                    }
                }
                "format" if string(value.text).is_some_and(|format| FORMATS.contains(&&*format)) => {
                    w.key("format").raw(value.text)
                }
                "minItems" if matches!(value.text, "0" | "1") => w.key("minItems").raw(value.text),
                "$schema" | "$id" | "$comment" | "$anchor" => {}
                _ => {
                    if !is_remark(name) {
                        self.fit = self.fit.max(Fit::Weaker);
                    }
                    bounds.push_str(if bounds.is_empty() { "{" } else { ", " });
                    bounds.extend([name, ": ", value.text]);
                }
            }
        }
        if is_object {
            if known.kind.is_empty() {
                w.key("type").text("object");
            }
            w.key("additionalProperties").bool(false);
        }
        if !bounds.is_empty() {
            bounds.push('}');
        }
        let said = || [about.unwrap_or_default(), &description, &bounds].into_iter().filter(|text| !text.is_empty());
        match (said().next(), said().nth(1)) {
            (Some(one), None) => w.key("description").text(one),
            (Some(_), Some(_)) => w.key("description").text(&said().collect::<Vec<_>>().join("\n\n")),
            (None, _) => {}
        }
    }

    fn properties(&mut self, w: &mut Writer, properties: &Node<'a>, required: Option<&Node<'a>>) {
        if !properties.is_object() {
            return self.misfit(w.key("properties"), properties);
        }
        let required = required.filter(|names| names.is_array()).map_or(0, |names| names.parts.len());
        self.optional += properties.parts.len().saturating_sub(required);
        w.key("properties")
            .object(|w| properties.parts.iter().for_each(|(name, value)| self.schema(w.name(name), value, None)));
    }

    fn definitions(&mut self, w: &mut Writer, key: &str, definitions: &Node<'a>) {
        if !definitions.is_object() {
            return self.misfit(w.name(key), definitions);
        }
        w.name(key).object(|w| {
            for (name, value) in &definitions.parts {
                let outside = self.inside.replace(name.clone());
                self.schema(w.name(name), value, None);
                self.inside = outside;
            }
        });
    }

    fn each(&mut self, w: &mut Writer, schemas: &Node<'a>) {
        if !schemas.is_array() {
            return self.misfit(w, schemas);
        }
        w.array(|w| schemas.parts.iter().for_each(|(_, schema)| self.schema(w, schema, None)));
    }

    fn misfit(&mut self, w: &mut Writer, node: &Node<'_>) {
        self.fit = Fit::No;
        w.raw(node.text);
    }

    /// Whether a definition refers to itself, be it through others. What refers to nothing is taken
    /// away until nothing is left.
    fn recurs(&self) -> bool {
        let mut open: BTreeMap<&str, usize> = BTreeMap::new();
        let mut referring: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (from, targets) in &self.refers {
            for to in targets.iter().filter(|to| self.refers.contains_key(*to)) {
                *open.entry(from).or_default() += 1;
                referring.entry(to).or_default().push(from);
            }
        }
        let mut done: Vec<&str> =
            self.refers.keys().map(|name| &**name).filter(|name| !open.contains_key(name)).collect();
        while let Some(name) = done.pop() {
            for from in referring.remove(name).unwrap_or_default() {
                let Some(left) = open.get_mut(from) else { continue };
                *left -= 1;
                if *left == 0 {
                    open.remove(from);
                    done.push(from);
                }
            }
        }
        !open.is_empty()
    }
}

/// Keywords that constrain nothing.
fn is_remark(name: &str) -> bool {
    const REMARKS: [&str; 11] = [
        "$schema",
        "$id",
        "$comment",
        "$anchor",
        "title",
        "description",
        "default",
        "examples",
        "example",
        "deprecated",
        "readOnly",
    ];
    REMARKS.contains(&name)
}

/// Names and values.
pub(crate) fn members(object: &str) -> Option<Members<'_>> {
    let text = object.as_bytes();
    let mut members = Vec::new();
    let each = |cursor: &mut Cursor<'_>, key| {
        let value = cursor.value()?;
        members.push((text_of(text, &key).unwrap_or_default(), object.get(value).unwrap_or_default()));
        Ok(())
    };
    Cursor::new(text).object(each).ok()?;
    Some(members)
}

fn find<'a>(members: &Members<'a>, name: &str) -> Option<&'a str> {
    members.iter().find_map(|(member, value)| (member == name).then_some(*value))
}

/// What a literal says, if it is a string's.
pub(crate) fn string(value: &str) -> Option<Cow<'_, str>> {
    text_of(value.as_bytes(), &(0..value.len()))
}

#[cfg(test)]
mod tests;
