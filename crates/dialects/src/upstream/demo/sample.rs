//! A sample is a value that a JSON Schema allows.
//!
//! Properties that are not required are left out, except at the top of a schema that requires
//! nothing. A schema that is not understood gives no sample: no sample is better than a wrong one.

use std::borrow::Cow;

use crate::neutral::schema::{Node, string_value};
use crate::wire::json::quote_string;

/// The steps that one sample may take. Each value, each part of a schema and each look at some
/// names is a step.
const MOST_STEPS: usize = 1_000;
/// The names that one step looks at.
const NAMES_OF_A_STEP: usize = 16;
/// The most keywords of one schema.
const MOST_KEYWORDS: usize = 64;
/// The most levels of a sample.
const MOST_LEVELS: usize = 24;
/// The levels in which an array has an element that it need not have.
const FULL_LEVELS: usize = 4;
/// The most parts of a schema that together describe one value.
const MOST_PARTS: usize = 32;
/// The longest text that is made because a schema asks for it, and the longest that is compared.
const MAX_TEXT_BYTES: usize = 4_096;
/// The most bytes of all values, each counted at every level that it is in.
const MOST_BYTES: usize = 256 * 1024;
/// Keywords that may stand next to a fixed value, since they forbid nothing else of it.
const PLAIN: &str = "type const enum $ref allOf anyOf oneOf title description default example examples format nullable \
                     deprecated readOnly writeOnly propertyOrdering discriminator $schema $comment $defs definitions";
/// Keywords that forbid some values.
const LIMITS: &str = "properties required additionalProperties items prefixItems additionalItems minItems maxItems \
                      uniqueItems minProperties maxProperties minLength maxLength pattern minimum maximum exclusiveMinimum exclusiveMaximum \
                      multipleOf";
/// Samples of the formats of strings.
const FORMATS: [(&str, &str); 20] = [
    ("date-time", "2026-01-01T00:00:00Z"),
    ("date", "2026-01-01"),
    ("time", "00:00:00Z"),
    ("duration", "P1D"),
    ("email", "demo@example.com"),
    ("hostname", "example.com"),
    ("ipv4", "192.0.2.1"),
    ("ipv6", "2001:db8::1"),
    ("ipvanyaddress", "192.0.2.1"),
    ("ipv4network", "192.0.2.0/24"),
    ("ipv6network", "2001:db8::/32"),
    ("name-email", "Demo <demo@example.com>"),
    ("base64", "ZGVtbw=="),
    ("base64url", "ZGVtbw=="),
    ("uri", "https://example.com/"),
    ("url", "https://example.com/"),
    ("uri-reference", "/demo"),
    ("json-pointer", "/demo"),
    ("uuid", "00000000-0000-4000-8000-000000000000"),
    ("uuid4", "00000000-0000-4000-8000-000000000000"),
];

/// Makes a value, as JSON. Free texts are `word`. Returns `None` if the schema is not understood,
/// or asks for too much.
pub(super) fn sample_for_schema(schema: &str, word: &str) -> Option<String> {
    let root = Node::read(schema)?;
    let mut maker = Maker {
        root: &root,
        steps_left: MOST_STEPS,
        bytes_left: MOST_BYTES,
        word,
    };
    let parts = maker.add_parts(&root, Vec::new())?;
    maker
        .sample_value(&parts, 0, 0)
        .filter(|_| maker.steps_left > 0)
}

/// All parts of a schema that together describe one value.
type Schemas<'s> = Vec<&'s Node<'s>>;

struct Maker<'s> {
    root: &'s Node<'s>,
    /// The number of steps that are left.
    steps_left: usize,
    /// The number of bytes that values may still have.
    bytes_left: usize,
    word: &'s str,
}

impl<'s> Maker<'s> {
    /// Takes one step, and the steps for comparing so many names.
    fn take_steps(&mut self, names: usize) -> Option<()> {
        let left = self.steps_left.checked_sub(1 + names / NAMES_OF_A_STEP);
        self.steps_left = left.unwrap_or(0);
        left.map(|_| ())
    }

    /// Adds a schema, and the schemas that it refers to, to the parts.
    fn add_parts(&mut self, schema: &'s Node<'s>, mut parts: Schemas<'s>) -> Option<Schemas<'s>> {
        self.take_steps(schema.children.len())?;
        // References start from an id, so only the id of the whole schema is understood.
        let is_root = std::ptr::eq(schema, self.root);
        let is_known = |name: &str| is_known_keyword(name) || name == "$id" && is_root;
        if parts.len() >= MOST_PARTS
            || schema.children.len() > MOST_KEYWORDS
            || !(schema.is_object() || schema.text == "true")
            || !schema.children.iter().all(|(name, _)| is_known(name))
        {
            return None;
        }
        parts.push(schema);
        if let Some(reference) = schema.get("$ref") {
            let target = self.find_referred(reference)?;
            parts = self.add_parts(target, parts)?;
        }
        for part in schema.get("allOf").into_iter().flat_map(Node::elements) {
            parts = self.add_parts(part, parts)?;
        }
        Some(parts)
    }

    /// Returns the place in the schema that a reference names.
    fn find_referred(&mut self, reference: &Node<'_>) -> Option<&'s Node<'s>> {
        let reference = short_string(reference)?;
        let mut node = self.root;
        for step in reference.strip_prefix('#')?.split('/').skip(1) {
            self.take_steps(node.children.len())?;
            node = node.get(&step.replace("~1", "/").replace("~0", "~"))?;
        }
        (reference == "#" || reference.starts_with("#/")).then_some(node)
    }

    /// Makes a value. In the first `chosen` lists of alternatives, one is chosen already.
    fn sample_value(&mut self, parts: &Schemas<'s>, chosen: usize, level: usize) -> Option<String> {
        self.take_steps(0)?;
        if level > MOST_LEVELS {
            return None;
        }
        let lists = parts
            .iter()
            .flat_map(|part| ["anyOf", "oneOf"].map(|name| Some((name, *part, part.get(name)?))));
        if let Some((name, part, list)) = lists.flatten().nth(chosen) {
            for alternative in list.elements() {
                if self.steps_left == 0 {
                    return None;
                }
                // Of `oneOf` only one may hold.
                self.take_steps(if name == "oneOf" {
                    list.children.len()
                } else {
                    0
                })?;
                if name == "oneOf" && !self.excludes_others(alternative, part, list)? {
                    continue;
                }
                let made = self
                    .add_parts(alternative, parts.clone())
                    .and_then(|all| self.sample_value(&all, chosen + 1, level));
                if made.is_some() {
                    return made;
                }
            }
            return None;
        }
        let made = match (find_keyword(parts, "const")?, find_keyword(parts, "enum")?) {
            (None, None) => self.sample_of_type(&value_type(parts)?, parts, level)?,
            (value, list) => fixed_value(parts, value, list)?.to_owned(),
        };
        self.bytes_left = self.bytes_left.checked_sub(made.len())?;
        Some(made)
    }

    /// Returns whether no other alternative of the list allows the value that is made for this one.
    fn excludes_others(
        &mut self,
        alternative: &'s Node<'s>,
        part: &'s Node<'s>,
        list: &'s Node<'s>,
    ) -> Option<bool> {
        let tag = discriminator_name(part);
        for other in list.elements() {
            if std::ptr::eq(other, alternative) || have_other_types(other, alternative) {
                continue;
            }
            let [one, other] = [
                self.follow_references(alternative)?,
                self.follow_references(other)?,
            ];
            let [known, others] =
                [one, other].map(|one| one.get("properties").map_or(0, |all| all.children.len()));
            self.take_steps(known.min(MOST_KEYWORDS) * others)?;
            if !have_other_tags(one, other, tag.as_deref()) {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Returns the schema that a schema refers to, else the schema itself.
    fn follow_references(&mut self, mut schema: &'s Node<'s>) -> Option<&'s Node<'s>> {
        while let Some(reference) = schema.get("$ref") {
            self.take_steps(0)?;
            schema = self.find_referred(reference)?;
        }
        Some(schema)
    }

    fn sample_of_type(&mut self, kind: &str, parts: &Schemas<'s>, level: usize) -> Option<String> {
        match kind {
            "object" => self.sample_object(parts, level),
            "array" => self.sample_array(parts, level),
            "string" => self.sample_text(parts),
            "integer" | "number" => sample_number(parts, kind == "integer"),
            "boolean" => Some("true".to_owned()),
            "null" => Some("null".to_owned()),
            _ => None,
        }
    }

    fn sample_object(&mut self, parts: &Schemas<'s>, level: usize) -> Option<String> {
        let lists = parts
            .iter()
            .filter_map(|part| part.get("required"))
            .flat_map(|list| &list.children);
        let known = parts
            .iter()
            .filter_map(|part| part.get("properties"))
            .flat_map(|all| &all.children);
        self.take_steps(lists.clone().count() + known.clone().count())?;
        if known.clone().any(|(name, _)| name.len() > MAX_TEXT_BYTES) {
            return None;
        }
        let required: Vec<_> = lists
            .map(|(_, name)| short_string(name))
            .collect::<Option<_>>()?;
        let tags: Vec<_> = parts
            .iter()
            .filter_map(|part| discriminator_name(part))
            .collect();
        let mut members: Vec<(&str, Option<String>)> = Vec::new();
        for name in known
            .map(|(name, _)| &**name)
            .chain(required.iter().map(|name| &**name))
        {
            let must = required.iter().chain(&tags).any(|known| known == name);
            if members.iter().any(|(made, _)| *made == name)
                || !(must || level == 0 && required.is_empty())
            {
                continue;
            }
            let value = self.sample_member(parts, name, level);
            if must && value.is_none() {
                return None;
            }
            members.push((name, value));
        }
        let made = members.iter().filter_map(|(name, value)| {
            Some(format!("{}:{}", quote_string(name), value.as_ref()?))
        });
        let mut made: Vec<_> = made.collect();
        let least = read_bound(parts, "minProperties")?.unwrap_or(0);
        let max_members = read_bound(parts, "maxProperties")?.unwrap_or(usize::MAX);
        while made.len() < least {
            let name = format!("{} {}", self.word, made.len() + 1);
            if members.iter().any(|(known, _)| *known == name) {
                return None;
            }
            let value = self.sample_member(parts, &name, level)?;
            made.push(format!("{}:{value}", quote_string(&name)));
        }
        (made.len() <= max_members).then(|| format!("{{{}}}", made.join(",")))
    }

    fn sample_member(&mut self, parts: &Schemas<'s>, name: &str, level: usize) -> Option<String> {
        let mut member_parts = Schemas::new();
        for part in parts {
            let schema = part.get("properties").and_then(|all| all.get(name));
            if let Some(schema) = schema.or_else(|| part.get("additionalProperties")) {
                member_parts = self.add_parts(schema, member_parts)?;
            }
        }
        self.sample_value(&member_parts, 0, level + 1)
    }

    fn sample_array(&mut self, parts: &Schemas<'s>, level: usize) -> Option<String> {
        let items = find_keyword(parts, "items")?;
        let tuple = find_keyword(parts, "prefixItems")?.or(items.filter(|items| items.is_array()));
        let mut kinds: Vec<_> = tuple
            .into_iter()
            .flat_map(Node::elements)
            .take(MOST_STEPS)
            .collect();
        let least = read_bound(parts, "minItems")?.unwrap_or(0);
        let is_unique =
            find_keyword(parts, "uniqueItems")?.is_some_and(|node| node.text != "false");
        let limit = if is_unique { 1 } else { usize::MAX };
        let max_items = read_bound(parts, "maxItems")?.unwrap_or(limit).min(limit);
        let wished = least
            .max(kinds.len())
            .max(usize::from(level < FULL_LEVELS))
            .min(max_items);
        if wished < least || least > MOST_STEPS {
            return None;
        }
        kinds.extend(
            std::iter::repeat_n(items.filter(|items| !items.is_array()), wished)
                .flatten()
                .skip(kinds.len()),
        );
        let mut made = Vec::with_capacity(wished);
        for kind in kinds.into_iter().take(wished) {
            let value = self
                .add_parts(kind, Vec::new())
                .and_then(|parts| self.sample_value(&parts, 0, level + 1));
            match value {
                Some(value) => made.push(value),
                None => break,
            }
        }
        // Without a schema for the elements, anything is one.
        let word = quote_string(self.word);
        if items.is_none() && tuple.is_none() {
            made.resize(least, word);
        }
        (made.len() >= least).then(|| format!("[{}]", made.join(",")))
    }

    fn sample_text(&self, parts: &Schemas<'s>) -> Option<String> {
        let (least, max_length) = (
            read_bound(parts, "minLength")?.unwrap_or(0),
            read_bound(parts, "maxLength")?.unwrap_or(usize::MAX),
        );
        if find_keyword(parts, "pattern")?.is_some() {
            return None;
        }
        let format = find_keyword(parts, "format")?.and_then(short_string);
        let known = format.and_then(|format| FORMATS.iter().find(|(name, _)| *name == format));
        let text: String = match known {
            Some((_, sample)) => (*sample).to_owned(),
            None if least > MAX_TEXT_BYTES => return None,
            None => self
                .word
                .chars()
                .cycle()
                .take(self.word.chars().count().max(least).min(max_length))
                .collect(),
        };
        (least..=max_length)
            .contains(&text.chars().count())
            .then(|| quote_string(&text))
    }
}

/// Returns whether the keyword of a schema is understood, or means nothing, as an extension does.
fn is_known_keyword(name: &str) -> bool {
    let mut known = PLAIN.split(' ').chain(LIMITS.split(' '));
    name.starts_with("x-") || known.any(|known| known == name)
}

/// Returns the string that a value is, unless it is long.
fn short_string<'s>(value: &Node<'s>) -> Option<Cow<'s, str>> {
    Some(value.text)
        .filter(|text| text.len() <= MAX_TEXT_BYTES)
        .and_then(string_value)
}

/// Returns the value of a keyword. Returns `None` if two parts have different ones.
#[expect(
    clippy::option_option,
    reason = "a keyword that is not there is no contradiction"
)]
fn find_keyword<'s>(parts: &Schemas<'s>, name: &str) -> Option<Option<&'s Node<'s>>> {
    let mut all = parts
        .iter()
        .flat_map(|part| &part.children)
        .filter(|(known, _)| known == name)
        .map(|(_, node)| node);
    let Some(first) = all.next() else {
        return Some(None);
    };
    all.all(|node| {
        std::ptr::eq(node, first) || node.text.len() <= MAX_TEXT_BYTES && node.text == first.text
    })
    .then_some(Some(first))
}

/// Returns the number of a keyword. Returns `None` if it is none, or not the only one.
#[expect(
    clippy::option_option,
    reason = "a keyword that is not there is no contradiction"
)]
fn read_bound<T: std::str::FromStr>(parts: &Schemas<'_>, name: &str) -> Option<Option<T>> {
    find_keyword(parts, name)?
        .map(|node| node.text.parse())
        .transpose()
        .ok()
}

/// Returns the value that the schema fixes, if nothing else can forbid it.
fn fixed_value<'s>(
    parts: &Schemas<'s>,
    value: Option<&'s Node<'s>>,
    list: Option<&'s Node<'s>>,
) -> Option<&'s str> {
    let mut names = parts.iter().flat_map(|part| &part.children);
    if value.is_some() && list.is_some()
        || names.any(|(name, _)| LIMITS.split(' ').any(|limit| limit == name))
    {
        return None;
    }
    let type_node = find_keyword(parts, "type")?;
    let values = value.into_iter().chain(
        list.into_iter()
            .flat_map(Node::elements)
            .take(MOST_KEYWORDS),
    );
    values
        .map(|value| value.text)
        .find(|text| {
            type_node
                .is_none_or(|type_node| type_names(type_node).any(|kind| is_of_type(text, &kind)))
        })
        .filter(|text| text.len() <= MAX_TEXT_BYTES)
}

fn is_of_type(text: &str, kind: &str) -> bool {
    match text.as_bytes().first() {
        Some(b'"') => kind == "string",
        Some(b'{') => kind == "object",
        Some(b'[') => kind == "array",
        Some(b't' | b'f') => kind == "boolean",
        Some(b'n') => kind == "null",
        Some(_) => kind == "number" || kind == "integer" && text.parse::<i64>().is_ok(),
        None => false,
    }
}

/// Returns the names of the types that a schema allows.
fn type_names<'s>(type_node: &'s Node<'s>) -> impl Iterator<Item = Cow<'s, str>> {
    type_node
        .elements()
        .take(MOST_KEYWORDS)
        .chain([type_node])
        .filter_map(short_string)
}

/// Returns whether no value is allowed by both schemas, since each names one type.
fn have_other_types<'s>(one: &Node<'s>, other: &Node<'s>) -> bool {
    let kind = |schema: &Node<'s>| schema.get("type").and_then(short_string);
    let is_number = |kind: &str| matches!(kind, "number" | "integer");
    let pair = kind(one).zip(kind(other));
    pair.is_some_and(|(one, other)| one != other && !(is_number(&one) && is_number(&other)))
}

/// Returns the name of the property that distinguishes the alternatives of a schema.
fn discriminator_name<'s>(schema: &Node<'s>) -> Option<Cow<'s, str>> {
    schema
        .get("discriminator")?
        .get("propertyName")
        .and_then(short_string)
}

/// Returns whether a value of the first schema has a property with a text that the second schema
/// forbids. A value has the properties that its schema requires, and the tag.
fn have_other_tags<'s>(one: &Node<'s>, other: &Node<'s>, tag: Option<&str>) -> bool {
    let properties = one
        .get("properties")
        .into_iter()
        .flat_map(|all| &all.children);
    properties.take(MOST_KEYWORDS).any(|(name, schema)| {
        let other = other.get("properties").and_then(|all| all.get(name));
        let values = only_text(schema).zip(other.and_then(only_text));
        values.is_some_and(|(one, other)| one != other)
            && (tag == Some(name) || requires(one, name))
    })
}

fn requires(schema: &Node<'_>, property: &str) -> bool {
    schema
        .get("required")
        .into_iter()
        .flat_map(Node::elements)
        .filter_map(short_string)
        .any(|name| name == property)
}

/// Returns the only text that a schema allows.
fn only_text<'s>(schema: &Node<'s>) -> Option<Cow<'s, str>> {
    match schema.get("enum").map(|list| list.children.as_slice()) {
        Some([(_, only)]) => short_string(only),
        Some(_) => None,
        None => schema.get("const").and_then(short_string),
    }
}

/// Returns the type of a value, even if only its keywords show it.
fn value_type<'s>(parts: &Schemas<'s>) -> Option<Cow<'s, str>> {
    if let Some(type_node) = find_keyword(parts, "type")? {
        let kinds: Vec<_> = type_names(type_node).collect();
        return kinds
            .iter()
            .find(|kind| **kind != "null")
            .or(kinds.first())
            .cloned();
    }
    let kinds = [
        ("object", ["properties", "required", "additionalProperties"]),
        ("array", ["items", "prefixItems", "minItems"]),
        ("number", ["minimum", "maximum", "multipleOf"]),
    ];
    let implied = kinds.iter().find(|(_, names)| {
        names
            .iter()
            .any(|name| parts.iter().any(|part| part.get(name).is_some()))
    });
    Some(implied.map_or("string", |(kind, _)| kind).into())
}

/// Below this, each whole number is exact.
const EXACT: f64 = 9e15;

/// Makes a number: the first candidate that is allowed.
fn sample_number(parts: &Schemas<'_>, is_whole: bool) -> Option<String> {
    let (min, max, step): (Option<f64>, Option<f64>, Option<f64>) = (
        read_bound(parts, "minimum")?,
        read_bound(parts, "maximum")?,
        read_bound(parts, "multipleOf")?,
    );
    let (above, below) = (
        exclusive_bound(parts, "exclusiveMinimum", min)?,
        exclusive_bound(parts, "exclusiveMaximum", max)?,
    );
    let bounds = [min, max, above, below].into_iter().flatten();
    let near = bounds.flat_map(|bound| {
        [
            bound,
            bound.ceil(),
            bound.floor(),
            bound + 1.0,
            bound.floor() + 1.0,
            bound.ceil() - 1.0,
        ]
    });
    let between = above
        .or(min)
        .zip(below.or(max))
        .map(|(low, high)| f64::midpoint(low, high));
    let numbers: Vec<f64> = [1.0, 0.0].into_iter().chain(near).chain(between).collect();
    let steps = numbers.iter().flat_map(|number| {
        step.map(|step| {
            [
                (number / step).ceil() * step,
                (number / step).floor() * step,
            ]
        })
    });
    let steps: Vec<f64> = steps.flatten().collect();
    numbers
        .into_iter()
        .chain(steps)
        .find(|number| {
            number.abs() < EXACT
                && min.is_none_or(|min| *number >= min)
                && max.is_none_or(|max| *number <= max)
                && above.is_none_or(|above| *number > above)
                && below.is_none_or(|below| *number < below)
                && step.is_none_or(|step| (number / step).fract() == 0.0)
                && (!is_whole || number.fract() == 0.0)
        })
        .map(|number| number.to_string())
}

/// Returns the bound that a number may not reach. Older schemas write `true` if the number may not
/// reach its other bound.
#[expect(
    clippy::option_option,
    reason = "a keyword that is not there is no contradiction"
)]
fn exclusive_bound(
    parts: &Schemas<'_>,
    name: &str,
    other_bound: Option<f64>,
) -> Option<Option<f64>> {
    match find_keyword(parts, name)?.map(|node| node.text) {
        Some("true") => Some(other_bound),
        Some("false") | None => Some(None),
        Some(number) => number.parse::<f64>().ok().map(Some),
    }
}

#[cfg(test)]
mod tests;
