//! This module fits JSON Schemas to the form that Claude takes, for answers and for tools.
//!
//! A schema that an answer is held to has fewer keywords than the standard: every object is closed,
//! no value has bounds, and no definition refers to itself. A keyword is written in another way if
//! there is one, and bounds become text in the description. If only another meaning is possible,
//! the fit is [`Fit::No`]. Numbers, names and values keep their text, and properties keep their
//! order, because a model answers in that order.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::neutral::schema::{Node, find_member, read_members, string_value};
use crate::wire::json::Writer;
use crate::wire::starts_with_any;

/// A schema after it was fitted.
#[derive(Debug)]
pub(crate) struct Fitted {
    /// The schema; not usable if the fit is [`Fit::No`].
    pub(crate) text: String,
    /// The quality of the fit.
    pub(crate) fit: Fit,
    /// The number of properties that need not be there.
    pub(crate) optional: usize,
    /// The number of places where one of several schemas holds.
    pub(crate) unions: usize,
}

/// The quality of a schema's fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Every valid answer is still allowed, and perhaps more.
    Whole,
    /// A constraint is now only text in a description.
    Weaker,
    /// The schema would forbid valid answers, or the API would refuse it. The text is the reason,
    /// after a colon.
    No(&'static str),
}

/// Fits a schema to `output_config.format` and to strict tools. `about` is put before the schema's
/// description.
pub(crate) fn fit_schema(schema: &str, about: Option<&str>) -> Fitted {
    let mut fitter = Fitter {
        fit: Fit::Whole,
        depth: 0,
        optional: 0,
        unions: 0,
        inside: None,
        refers: BTreeMap::new(),
    };
    let mut w = Writer::with_capacity(schema.len() + schema.len() / 4);
    match Some(schema)
        .filter(|schema| schema.len() <= MAX_LEN)
        .and_then(Node::read)
    {
        Some(schema) => fitter.schema(&mut w, &schema, about),
        None => fitter.refuse("it is too long"),
    }
    if fitter.recurs() {
        fitter.refuse("a definition in it refers to itself");
    }
    let text = String::from_utf8(w.into_bytes()).unwrap_or_default();
    Fitted {
        text,
        fit: fitter.fit,
        optional: fitter.optional,
        unions: fitter.unions,
    }
}

/// The parameters of a tool, for its `input_schema`.
#[derive(Debug, PartialEq)]
pub(crate) struct Parameters<'a> {
    /// The schema of an object.
    pub(crate) schema: Cow<'a, str>,
    /// The keywords that may not stand at the top of the schema. They are for the tool's
    /// description.
    pub(crate) moved: Option<String>,
}

impl<'a> Parameters<'a> {
    fn unchanged(schema: &'a str) -> Self {
        Self {
            schema: Cow::Borrowed(schema),
            moved: None,
        }
    }
}

/// Makes `type` an object, and removes `anyOf`, `oneOf` and `allOf` from the top, because the API
/// refuses them there.
pub(crate) fn object_parameters(schema: Option<&str>) -> Parameters<'_> {
    let Some(schema) = schema else {
        return Parameters::unchanged(NOTHING);
    };
    // Nearly all schemas begin like this, and have none of these keywords.
    let starts = [r#"{"type":"object""#, r#"{"type": "object""#];
    if starts_with_any(schema, &starts)
        && memchr::memmem::find(schema.as_bytes(), b"Of\"").is_none()
    {
        return Parameters::unchanged(schema);
    }
    let Some(members) = read_members(schema) else {
        return Parameters::unchanged(NOTHING);
    };
    let is_choice = |name: &str| matches!(name, "anyOf" | "oneOf" | "allOf");
    let has_choice = members.iter().any(|(name, _)| is_choice(name));
    if !has_choice
        && members
            .iter()
            .any(|(name, value)| name == "type" && *value == "\"object\"")
    {
        return Parameters::unchanged(schema);
    }
    let mut w = Writer::with_capacity(schema.len() + 32);
    let mut moved = Writer::default();
    w.object(|w| {
        w.key("type").text("object");
        for (name, value) in members
            .iter()
            .filter(|(name, _)| name != "type" && !is_choice(name))
        {
            w.name(name).raw(value);
        }
    });
    moved.object(|w| {
        members
            .iter()
            .filter(|(name, _)| is_choice(name))
            .for_each(|(name, value)| w.name(name).raw(value))
    });
    let text = |w: Writer| String::from_utf8(w.into_bytes()).unwrap_or_default();
    Parameters {
        schema: Cow::Owned(text(w)),
        moved: has_choice.then(|| text(moved)),
    }
}

/// Returns whether the schema allows objects: it has the type of objects, or no type.
pub(crate) fn is_of_objects(schema: &str) -> bool {
    read_members(schema).is_some_and(|members| {
        find_member(&members, "type").is_none_or(|kind| kind == "\"object\"")
    })
}

/// The schema of a tool without parameters.
const NOTHING: &str = r#"{"type":"object","properties":{}}"#;
/// The longest schema. A longer or deeper one would be refused as too complex.
const MAX_LEN: usize = 128 * 1024;
const MAX_DEPTH: usize = 16;
const FORMATS: [&str; 10] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "uri",
    "ipv4",
    "ipv6",
    "uuid",
];

struct Fitter<'a> {
    fit: Fit,
    depth: usize,
    optional: usize,
    unions: usize,
    /// The definition that is read at the moment.
    inside: Option<Cow<'a, str>>,
    /// The definitions that each definition refers to.
    refers: BTreeMap<Cow<'a, str>, Vec<Cow<'a, str>>>,
}

impl<'a> Fitter<'a> {
    fn schema(&mut self, w: &mut Writer, schema: &Node<'a>, about: Option<&str>) {
        // `true` allows anything, and no grammar can be made of that.
        if !schema.is_object() {
            return self.misfit(w, schema, "a part of it allows anything, or nothing");
        }
        if self.depth >= MAX_DEPTH {
            return self.misfit(w, schema, "it has too many levels");
        }
        self.depth += 1;
        w.object(|w| match schema.get("$ref") {
            Some(target) => self.reference(w, target.text, schema),
            None => self.members(w, schema, about),
        });
        self.depth -= 1;
    }

    /// Writes a reference. Only definitions may stand next to it.
    fn reference(&mut self, w: &mut Writer, target: &'a str, schema: &Node<'a>) {
        w.key("$ref").raw(target);
        let target = string_value(target).unwrap_or_default();
        let name = target
            .strip_prefix("#/$defs/")
            .or_else(|| target.strip_prefix("#/definitions/"))
            .filter(|name| !name.contains('/'));
        match (name, &self.inside) {
            (None, _) => self.refuse("a reference in it does not name a definition"),
            (Some(name), Some(inside)) => self
                .refers
                .entry(inside.clone())
                .or_default()
                .push(Cow::Owned(name.to_owned())),
            (Some(_), None) => {}
        }
        for (name, value) in &schema.children {
            match &**name {
                "$defs" | "definitions" => self.definitions(w, name, value),
                "$ref" => {}
                name if is_remark(name) => {}
                _ => self.weaken(),
            }
        }
    }

    fn members(&mut self, w: &mut Writer, schema: &Node<'a>, about: Option<&str>) {
        let has = |name: &str| schema.get(name).is_some();
        let kind = schema.last("type").map_or("", |kind| kind.text);
        let is_object = has("properties") || kind.contains("\"object\"");
        let is_closed = schema
            .last("additionalProperties")
            .is_some_and(|value| value.text == "false");
        let is_open = is_object && !has("properties") && !is_closed;
        let (has_any_of, required) = (has("anyOf"), schema.get("required"));
        let is_union = has_any_of || has("oneOf");
        let constrains = is_union
            || ["properties", "allOf", "enum", "const"]
                .into_iter()
                .any(has);
        let is_of_anything = kind.contains("\"array\"") && !has("items");
        for (is_refused, why) in [
            (has("patternProperties"), "it has `patternProperties`"),
            (is_open, "an object in it has no `properties`"),
            (kind.is_empty() && !constrains, "a part of it has no `type`"),
            (is_of_anything, "an array in it has no `items`"),
        ] {
            if is_refused {
                self.refuse(why);
            }
        }
        self.unions += usize::from(is_union || kind.starts_with('['));
        let mut description = Cow::Borrowed("");
        let mut bounds = String::new();
        for (name, value) in &schema.children {
            match &**name {
                "type" | "required" | "title" | "default" => w.name(name).raw(value.text),
                "enum" | "const" => {
                    let is_nested = |value: &Node<'_>| value.is_object() || value.is_array();
                    let is_deep = match &**name {
                        "enum" => !value.is_array() || value.elements().any(is_nested),
                        _ => is_nested(value),
                    };
                    if is_deep {
                        self.refuse("an `enum` or `const` in it has an object or an array");
                    }
                    w.name(name).raw(value.text);
                }
                "description" => description = string_value(value.text).unwrap_or_default(),
                "properties" => self.properties(w, value, required),
                "$defs" | "definitions" => self.definitions(w, name, value),
                "items" => self.schema(w.key("items"), value, None),
                "anyOf" | "allOf" => self.each(w.name(name), value),
                "oneOf" if !has_any_of => self.each(w.key("anyOf"), value),
                "additionalProperties" => {
                    if !matches!(value.text, "true" | "false") {
                        self.refuse("`additionalProperties` in it is a schema");
                    }
                }
                "format"
                    if string_value(value.text)
                        .is_some_and(|format| FORMATS.contains(&&*format)) =>
                {
                    w.key("format").raw(value.text)
                }
                "minItems" if matches!(value.text, "0" | "1") => w.key("minItems").raw(value.text),
                "$schema" | "$id" | "$comment" | "$anchor" => {}
                _ => {
                    if !is_remark(name) {
                        self.weaken();
                    }
                    bounds.push_str(if bounds.is_empty() { "{" } else { ", " });
                    bounds.extend([name, ": ", value.text]);
                }
            }
        }
        if is_object {
            if kind.is_empty() {
                w.key("type").text("object");
            }
            w.key("additionalProperties").bool(false);
        }
        if !bounds.is_empty() {
            bounds.push('}');
        }
        let mut texts = vec![about.unwrap_or_default(), &description, &bounds];
        texts.retain(|text| !text.is_empty());
        if !texts.is_empty() {
            w.key("description").text(&texts.join("\n\n"));
        }
    }

    fn properties(&mut self, w: &mut Writer, properties: &Node<'a>, required: Option<&Node<'a>>) {
        if !properties.is_object() {
            return self.misfit(
                w.key("properties"),
                properties,
                "`properties` in it is no object",
            );
        }
        let required = required
            .filter(|names| names.is_array())
            .map_or(0, |names| names.children.len());
        self.optional += properties.children.len().saturating_sub(required);
        w.key("properties").object(|w| {
            properties
                .children
                .iter()
                .for_each(|(name, value)| self.schema(w.name(name), value, None))
        });
    }

    fn definitions(&mut self, w: &mut Writer, key: &str, definitions: &Node<'a>) {
        if !definitions.is_object() {
            return self.misfit(w.name(key), definitions, "its definitions are no object");
        }
        w.name(key).object(|w| {
            for (name, value) in &definitions.children {
                let outside = self.inside.replace(name.clone());
                self.schema(w.name(name), value, None);
                self.inside = outside;
            }
        });
    }

    fn each(&mut self, w: &mut Writer, schemas: &Node<'a>) {
        if !schemas.is_array() {
            return self.misfit(w, schemas, "a list of schemas in it is no array");
        }
        w.array(|w| {
            schemas
                .elements()
                .for_each(|schema| self.schema(w, schema, None))
        });
    }

    fn misfit(&mut self, w: &mut Writer, node: &Node<'_>, why: &'static str) {
        self.refuse(why);
        w.raw(node.text);
    }

    /// Notes that a constraint is only text.
    fn weaken(&mut self) {
        if self.fit == Fit::Whole {
            self.fit = Fit::Weaker;
        }
    }

    /// Notes why the schema cannot be fitted. The first reason counts.
    fn refuse(&mut self, why: &'static str) {
        if !matches!(self.fit, Fit::No(_)) {
            self.fit = Fit::No(why);
        }
    }

    /// Returns whether a definition refers to itself, directly or through others. Definitions
    /// without references are removed again and again; the rest refers to itself.
    fn recurs(&self) -> bool {
        let mut open: BTreeMap<&str, usize> = BTreeMap::new();
        let mut referring: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (from, targets) in &self.refers {
            for to in targets.iter().filter(|to| self.refers.contains_key(*to)) {
                *open.entry(from).or_default() += 1;
                referring.entry(to).or_default().push(from);
            }
        }
        let mut done: Vec<&str> = self
            .refers
            .keys()
            .map(|name| &**name)
            .filter(|name| !open.contains_key(name))
            .collect();
        while let Some(name) = done.pop() {
            for from in referring.remove(name).unwrap_or_default() {
                let Some(left) = open.get_mut(from) else {
                    continue;
                };
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

/// Returns whether a keyword constrains nothing.
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

#[cfg(test)]
mod tests;
