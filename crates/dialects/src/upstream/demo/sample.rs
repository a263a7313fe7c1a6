//! A sample is a value that a JSON Schema allows.
//!
//! Properties that are not required are left out, except at the top of a schema that requires
//! nothing. What is not understood makes no sample: it is better to make none than a wrong one.

use crate::neutral::schema::{Node, string};
use crate::wire::json::quote;

/// The most values that are looked at.
const MOST_VALUES: usize = 1_000;
/// The most keywords of one schema.
const MOST_KEYWORDS: usize = 256;
/// The most levels of a sample.
const MOST_LEVELS: usize = 24;
/// The levels in which an array has an element that it need not have.
const FULL_LEVELS: usize = 4;
/// The most parts of a schema that together describe one value.
const MOST_PARTS: usize = 32;
/// The longest text that is made because a schema asks for it.
const LONGEST: usize = 4_096;
/// The most bytes of all values, each counted at every level that it is in.
const MOST_BYTES: usize = 256 * 1024;
/// Keywords that forbid more than is looked at here.
const UNKNOWN: [&str; 9] = [
    "not",
    "if",
    "contains",
    "minProperties",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "$dynamicRef",
    "$recursiveRef",
];
/// Samples of the formats of strings.
const FORMATS: [(&str, &str); 13] = [
    ("date-time", "2026-01-01T00:00:00Z"),
    ("date", "2026-01-01"),
    ("time", "00:00:00Z"),
    ("duration", "P1D"),
    ("email", "demo@example.com"),
    ("hostname", "example.com"),
    ("ipv4", "192.0.2.1"),
    ("ipv6", "2001:db8::1"),
    ("uri", "https://example.com/"),
    ("url", "https://example.com/"),
    ("uri-reference", "/demo"),
    ("json-pointer", "/demo"),
    ("uuid", "00000000-0000-4000-8000-000000000000"),
];

/// Makes a value, as JSON. Free texts are this word. Returns `None` if the schema is not
/// understood, or asks for too much.
pub(super) fn of_schema(schema: &str, word: &str) -> Option<String> {
    let root = Node::read(schema)?;
    let mut maker = Maker { root: &root, left: MOST_VALUES, room: MOST_BYTES, word };
    let parts = maker.parts(&root, Vec::new())?;
    maker.value(&parts, 0, 0)
}

/// All parts of a schema that together describe one value.
type Schemas<'s> = Vec<&'s Node<'s>>;

struct Maker<'s> {
    root: &'s Node<'s>,
    /// The number of values that may still be looked at.
    left: usize,
    /// The number of bytes that values may still have.
    room: usize,
    word: &'s str,
}

impl<'s> Maker<'s> {
    /// Adds a schema to the parts, and what it refers to.
    fn parts(&mut self, schema: &'s Node<'s>, mut parts: Schemas<'s>) -> Option<Schemas<'s>> {
        if parts.len() >= MOST_PARTS || schema.parts.len() > MOST_KEYWORDS || schema.text == "false" {
            return None;
        }
        parts.push(schema);
        if let Some(reference) = schema.get("$ref") {
            let target = self.referred(&string(reference.text)?)?;
            parts = self.parts(target, parts)?;
        }
        for part in schema.get("allOf").into_iter().flat_map(Node::elements) {
            parts = self.parts(part, parts)?;
        }
        Some(parts)
    }

    /// Returns the place in the schema that a reference names.
    fn referred(&self, reference: &str) -> Option<&'s Node<'s>> {
        let mut place = self.root;
        for step in reference.strip_prefix('#')?.split('/').skip(1) {
            place = place.get(&step.replace("~1", "/").replace("~0", "~"))?;
        }
        (reference == "#" || reference.starts_with("#/")).then_some(place)
    }

    /// Makes a value. Of the lists of alternatives, the first `settled` ones are settled.
    fn value(&mut self, parts: &Schemas<'s>, settled: usize, level: usize) -> Option<String> {
        self.left = self.left.checked_sub(1)?;
        if level > MOST_LEVELS || parts.iter().any(|part| UNKNOWN.iter().any(|name| part.get(name).is_some())) {
            return None;
        }
        let lists = parts.iter().flat_map(|part| [part.get("anyOf"), part.get("oneOf")]).flatten();
        if let Some(list) = lists.clone().nth(settled) {
            return list.elements().find_map(|alternative| {
                let parts = self.parts(alternative, parts.clone())?;
                self.value(&parts, settled + 1, level)
            });
        }
        let find = |name: &str| parts.iter().find_map(|part| part.get(name));
        let made = match find("const").or_else(|| find("enum")?.elements().next()) {
            Some(value) => value.text.to_owned(),
            None => self.of_kind(&kind(parts)?, parts, level)?,
        };
        self.room = self.room.checked_sub(made.len())?;
        Some(made)
    }

    fn of_kind(&mut self, kind: &str, parts: &Schemas<'s>, level: usize) -> Option<String> {
        match kind {
            "object" => self.object(parts, level),
            "array" => self.array(parts, level),
            "string" => self.text(parts),
            "integer" | "number" => number(parts, kind == "integer"),
            "boolean" => Some("true".to_owned()),
            "null" => Some("null".to_owned()),
            _ => None,
        }
    }

    fn object(&mut self, parts: &Schemas<'s>, level: usize) -> Option<String> {
        let lists = parts.iter().filter_map(|part| part.get("required")).flat_map(Node::elements);
        let required: Vec<_> = lists.filter_map(|name| string(name.text)).collect();
        let known = parts.iter().filter_map(|part| part.get("properties")).flat_map(|all| &all.parts);
        if required.len() + known.clone().count() > MOST_VALUES {
            return None;
        }
        let mut members: Vec<(&str, Option<String>)> = Vec::new();
        for name in known.map(|(name, _)| &**name).chain(required.iter().map(|name| &**name)) {
            let must = required.iter().any(|known| known == name);
            if members.iter().any(|(made, _)| *made == name) || !(must || level == 0 && required.is_empty()) {
                continue;
            }
            let value = self.member(parts, name, level);
            if must && value.is_none() {
                return None;
            }
            members.push((name, value));
        }
        let made = members.iter().filter_map(|(name, value)| Some(format!("{}:{}", quote(name), value.as_ref()?)));
        Some(format!("{{{}}}", made.collect::<Vec<_>>().join(",")))
    }

    fn member(&mut self, parts: &Schemas<'s>, name: &str, level: usize) -> Option<String> {
        let mut of_member = Schemas::new();
        for part in parts {
            let schema = part.get("properties").and_then(|all| all.get(name));
            if let Some(schema) = schema.or_else(|| part.get("additionalProperties")) {
                of_member = self.parts(schema, of_member)?;
            }
        }
        self.value(&of_member, 0, level + 1)
    }

    fn array(&mut self, parts: &Schemas<'s>, level: usize) -> Option<String> {
        let find = |name: &str| parts.iter().find_map(|part| part.get(name));
        let count = |name: &str| find(name).and_then(|node| node.text.parse::<usize>().ok());
        let items = find("items");
        let tuple = find("prefixItems").or(items.filter(|items| items.is_array()));
        let mut kinds: Vec<_> = tuple.into_iter().flat_map(Node::elements).collect();
        let least = count("minItems").unwrap_or(0);
        let wished =
            least.max(kinds.len()).max(usize::from(level < FULL_LEVELS)).min(count("maxItems").unwrap_or(LONGEST));
        if wished < least || least > MOST_VALUES || (find("uniqueItems").is_some() && least > 1) {
            return None;
        }
        kinds.extend(std::iter::repeat_n(items.filter(|items| !items.is_array()), wished).flatten().skip(kinds.len()));
        let mut made = Vec::with_capacity(wished);
        for kind in kinds.into_iter().take(wished) {
            let value = self.parts(kind, Vec::new()).and_then(|parts| self.value(&parts, 0, level + 1));
            match value {
                Some(value) => made.push(value),
                None => break,
            }
        }
        // Without a schema for the elements, anything is one.
        let word = quote(self.word);
        if items.is_none() && tuple.is_none() {
            made.resize(least, word);
        }
        (made.len() >= least).then(|| format!("[{}]", made.join(",")))
    }

    fn text(&self, parts: &Schemas<'s>) -> Option<String> {
        let find = |name: &str| parts.iter().find_map(|part| part.get(name));
        if find("pattern").is_some() {
            let said = find("default").or_else(|| find("examples")?.elements().next());
            return said.map(|text| text.text.to_owned()).filter(|text| text.starts_with('"'));
        }
        let bound = |name: &str| find(name).and_then(|node| node.text.parse::<usize>().ok());
        let (least, most) = (bound("minLength").unwrap_or(0), bound("maxLength").unwrap_or(usize::MAX));
        let format = find("format").and_then(|format| string(format.text));
        let known = format.and_then(|format| FORMATS.iter().find(|(name, _)| *name == format));
        let text: String = match known {
            Some((_, sample)) => (*sample).to_owned(),
            None if least > LONGEST => return None,
            None => self.word.chars().cycle().take(self.word.chars().count().max(least).min(most)).collect(),
        };
        (least..=most).contains(&text.chars().count()).then(|| quote(&text))
    }
}

/// Returns the type of a value, also if only its keywords say it.
fn kind<'s>(parts: &Schemas<'s>) -> Option<std::borrow::Cow<'s, str>> {
    let find = |name: &str| parts.iter().find_map(|part| part.get(name));
    if let Some(said) = find("type") {
        let kinds: Vec<_> = said.elements().chain([said]).filter_map(|kind| string(kind.text)).collect();
        return kinds.iter().find(|kind| **kind != "null").or(kinds.first()).cloned();
    }
    let kinds = [
        ("object", ["properties", "required", "additionalProperties"]),
        ("array", ["items", "prefixItems", "minItems"]),
        ("number", ["minimum", "maximum", "multipleOf"]),
    ];
    let implied = kinds.iter().find(|(_, names)| names.iter().any(|name| find(name).is_some()));
    Some(implied.map_or("string", |(kind, _)| kind).into())
}

/// Makes a number: the first of some that is allowed.
fn number(parts: &Schemas<'_>, is_whole: bool) -> Option<String> {
    let bound = |name: &str| parts.iter().find_map(|part| part.get(name)?.text.parse::<f64>().ok());
    // In older schemas, the word says of the other bound that it is not allowed itself.
    let is_open = |name: &str| parts.iter().any(|part| part.get(name).is_some_and(|node| node.text == "true"));
    let (min, max) = (bound("minimum"), bound("maximum"));
    let above = bound("exclusiveMinimum").or(min.filter(|_| is_open("exclusiveMinimum")));
    let below = bound("exclusiveMaximum").or(max.filter(|_| is_open("exclusiveMaximum")));
    let step = bound("multipleOf");
    let is_allowed = |number: &f64| {
        min.is_none_or(|min| *number >= min)
            && max.is_none_or(|max| *number <= max)
            && above.is_none_or(|above| *number > above)
            && below.is_none_or(|below| *number < below)
            && step.is_none_or(|step| (number / step).fract() == 0.0)
            && (!is_whole || number.fract() == 0.0)
    };
    let bounds = [min, max, above, below].into_iter().flatten();
    let near = bounds
        .flat_map(|bound| [bound, bound.ceil(), bound.floor(), bound + 1.0, bound.floor() + 1.0, bound.ceil() - 1.0]);
    let between = above.or(min).zip(below.or(max)).map(|(low, high)| f64::midpoint(low, high));
    let numbers: Vec<f64> = [1.0, 0.0].into_iter().chain(near).chain(between).collect();
    let steps = numbers
        .iter()
        .flat_map(|number| step.map(|step| [(number / step).ceil() * step, (number / step).floor() * step]));
    let steps: Vec<f64> = steps.flatten().collect();
    numbers
        .into_iter()
        .chain(steps)
        .find(|number| number.is_finite() && is_allowed(number))
        .map(|number| number.to_string())
}

#[cfg(test)]
mod tests;
