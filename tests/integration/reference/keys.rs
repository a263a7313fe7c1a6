//! The keys of `server.yaml` and `catalog.yaml`, from their JSON Schemas.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{check, code, table};

const SERVER: &str = include_str!("../../../conf/schema/server.schema.json");
const CATALOG: &str = include_str!("../../../conf/schema/catalog.schema.json");

#[test]
fn the_chapters_of_configuration_keys_are_current() {
    let about = "`server.yaml` says how the process runs. It is read once, at the start. Every key may be left out, and so may the file. \
                 The JSON Schema is `conf/schema/server.schema.json`; `portcullis schema server` prints it.";
    check("server-yaml.md", "server.yaml", &chapter(SERVER, about));
    let about = "`catalog.yaml`, together with every `catalog.d/*.yaml`, says what is served, to whom, and from where. A change is usually live within \
                 a second. `NAME` stands for a name that you choose. The JSON Schema is `conf/schema/catalog.schema.json`; `portcullis schema \
                 catalog` prints it.";
    check("catalog-yaml.md", "catalog.yaml", &chapter(CATALOG, about));
}

/// The shipped `server.yaml` lists the defaults: what the reference says must be the same.
#[test]
fn the_references_defaults_are_those_of_the_file() {
    let shipped = include_str!("../../../conf/server.yaml");
    let shipped: serde_yaml::Value = serde_yaml::from_str(shipped).expect("YAML");
    let mut compared = 0;
    for (section, keys) in FileSchema::new(SERVER).sections() {
        let here = section
            .split('.')
            .filter(|part| !part.is_empty())
            .try_fold(&shipped, |value, key| value.get(key));
        for key in keys.iter().filter(|key| key.shape != "map") {
            let Some(written) = here.and_then(|map| map.get(&key.name)) else {
                continue;
            };
            let written = match written {
                serde_yaml::Value::Sequence(items) if items.is_empty() => "none".to_owned(),
                // At the place that it is served at.
                serde_yaml::Value::Sequence(items) => {
                    items[0]["address"].as_str().expect("an address").to_owned()
                }
                scalar => serde_yaml::to_string(scalar)
                    .expect("YAML")
                    .trim()
                    .to_owned(),
            };
            let told = key.default.as_deref().unwrap_or_default();
            if !key.required {
                assert_eq!(told, written, "{section}.{}", key.name);
                compared += 1;
            }
        }
    }
    assert!(compared >= 25, "{compared} defaults were compared");
}

/// A key of a map, as a reader needs it.
struct ConfigKey {
    name: String,
    shape: String,
    default: Option<String>,
    required: bool,
    meaning: String,
}

struct FileSchema(Value);

impl FileSchema {
    fn new(text: &str) -> FileSchema {
        FileSchema(serde_json::from_str(text).expect("a schema"))
    }

    /// The type that a reference names, and its name.
    fn named<'a>(&'a self, schema: &'a Value) -> (Option<&'a str>, &'a Value) {
        let name = schema["$ref"]
            .as_str()
            .and_then(|path| path.strip_prefix("#/$defs/"));
        (name, name.map_or(schema, |name| &self.0["$defs"][name]))
    }

    /// All maps by their paths, in the order in which they are met.
    fn sections(&self) -> Vec<(String, Vec<ConfigKey>)> {
        self.maps()
            .into_iter()
            .map(|(path, schema)| (path, self.keys(schema)))
            .collect()
    }

    /// The maps by their paths; one that stands at several places is listed at the one nearest to
    /// the top.
    fn maps(&self) -> Vec<(String, &Value)> {
        let mut found: Vec<(String, &Value)> = Vec::new();
        let mut level = vec![(String::new(), &self.0)];
        while !level.is_empty() {
            let mut next = Vec::new();
            for (path, schema) in level {
                if found.iter().any(|(_, other)| std::ptr::eq(*other, schema)) {
                    continue;
                }
                let properties = schema["properties"].as_object().expect("properties");
                next.extend(properties.iter().filter_map(|(name, property)| {
                    let path = if path.is_empty() {
                        name.clone()
                    } else {
                        format!("{path}.{name}")
                    };
                    self.map_below(path, property)
                }));
                found.push((path, schema));
            }
            level = next;
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        found
    }

    /// The map that a key leads to, by itself, in a list, or by names.
    fn map_below<'a>(&'a self, path: String, property: &'a Value) -> Option<(String, &'a Value)> {
        let (path, schema) = match (&property["items"], &property["additionalProperties"]) {
            (items @ Value::Object(_), _) => (format!("{path}[]"), items),
            (_, named @ Value::Object(_)) => (format!("{path}.NAME"), named),
            _ => (path, property),
        };
        let schema = self.named(schema).1;
        schema["properties"].is_object().then_some((path, schema))
    }

    fn keys(&self, schema: &Value) -> Vec<ConfigKey> {
        let required: Vec<&str> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let properties = schema["properties"].as_object().expect("properties");
        let key = |(name, property): (&String, &Value)| {
            let about = property["description"]
                .as_str()
                .unwrap_or_else(|| panic!("{name} has no description"));
            let (meaning, default) = match about.split_once("Default: ") {
                Some((meaning, default)) => {
                    let default = default
                        .strip_suffix('.')
                        .unwrap_or_else(|| panic!("{name}: {about}"));
                    (meaning.trim(), Some(default.to_owned()))
                }
                None => (about, None),
            };
            let shape = self.shape(property);
            let required = required.contains(&name.as_str());
            assert!(
                required || default.is_some() || shape == "map" || shape.starts_with("map of"),
                "the doc comment of `{name}` must end with its default, as in `Default: 30s.`: {about}"
            );
            let words = self.words(property);
            ConfigKey {
                name: name.clone(),
                shape,
                default,
                required,
                meaning: format!("{meaning}{words}"),
            }
        };
        properties.iter().map(key).collect()
    }

    /// What stands after the key, in a word or two.
    fn shape(&self, property: &Value) -> String {
        let (name, schema) = self.named(property);
        let within =
            |key: &str, word: &str| schema[key].as_u64().map(|bound| format!("{word} {bound}"));
        match (name, schema["type"].as_str()) {
            (Some("Jwks"), _) => "URL, or `{ file: /path }`".to_owned(),
            // The name of a claim that is required is not there.
            _ if schema["anyOf"][1]["type"] == "array" => "name, or list of steps".to_owned(),
            (Some("ClaimValue"), _) => "text, true or false, or number".to_owned(),
            (Some("AccountIdentity"), _) => "word, or map".to_owned(),
            _ if schema["oneOf"].is_array() || schema["enum"].is_array() => {
                "one of the words".to_owned()
            }
            _ if schema["anyOf"].is_array() => "[Secret](#secret)".to_owned(),
            (_, Some("object")) if schema["properties"].is_object() => "map".to_owned(),
            (_, Some("object")) => format!(
                "map of names to {}",
                plural(&self.shape(&schema["additionalProperties"]))
            ),
            (_, Some("array")) => format!("list of {}", plural(&self.shape(&schema["items"]))),
            (Some(name), Some(_)) => format!("[{name}](#{})", name.to_lowercase()),
            (None, Some("integer")) => {
                let bounds = [within("minimum", "from"), within("maximum", "to")]
                    .into_iter()
                    .flatten();
                format!("whole number {}", bounds.collect::<Vec<_>>().join(" "))
                    .trim()
                    .to_owned()
            }
            (None, Some("boolean")) => "true or false".to_owned(),
            (None, Some("string")) => "text".to_owned(),
            (None, Some("number")) => "number".to_owned(),
            (_, other) => {
                panic!("a shape that the reference does not know: {other:?} in {property}")
            }
        }
    }

    /// The words that may stand after the key, each with its meaning.
    fn words(&self, property: &Value) -> String {
        let schema = self
            .named(self.named(property).1.get("items").unwrap_or(property))
            .1;
        let with_meaning = schema["oneOf"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|word| {
                let (word, about) = (
                    word["const"].as_str().expect("a word"),
                    word["description"].as_str(),
                );
                format!(
                    "<br>`{word}`: {}",
                    about.unwrap_or_else(|| panic!("{word} has no description"))
                )
            });
        let bare: Vec<String> = schema["enum"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(code)
            .collect();
        let bare = if bare.is_empty() {
            String::new()
        } else {
            format!("<br>{}", bare.join(", "))
        };
        with_meaning.collect::<String>() + &bare
    }
}

fn plural(shape: &str) -> String {
    match shape {
        "map" => "maps".to_owned(),
        "text" => "texts".to_owned(),
        "one of the words" => "words".to_owned(),
        other => other.to_owned(),
    }
}

fn chapter(schema: &str, about: &str) -> String {
    let schema = FileSchema::new(schema);
    let maps = schema.maps();
    let mut text = format!("{about}\n");
    for (path, map) in &maps {
        let heading = if path.is_empty() {
            "Top level".to_owned()
        } else {
            code(path)
        };
        let about = map["description"]
            .as_str()
            .unwrap_or_else(|| panic!("{path} has no description"));
        text.push_str(&format!("\n## {heading}\n\n{about}\n\n"));
        let rows = schema.keys(map).into_iter().map(|key| {
            // Where the map stands that it leads to.
            let property = &map["properties"][&key.name];
            let below = schema
                .map_below(String::new(), property)
                .map(|(_, below)| below);
            let place =
                below.and_then(|below| maps.iter().find(|(_, map)| std::ptr::eq(*map, below)));
            let see = place
                .map(|(path, _)| format!(" See [`{path}`](#{}).", slug(path)))
                .unwrap_or_default();
            let default = match key.default {
                _ if key.required => "required".to_owned(),
                Some(default) => default,
                None => String::new(),
            };
            [
                code(&key.name),
                key.shape,
                default,
                format!("{}{see}", key.meaning),
            ]
        });
        text.push_str(&table(["Key", "Value", "Default", "Meaning"], rows));
    }
    text + &kinds(&schema)
}

/// The kinds of values that have names.
fn kinds(schema: &FileSchema) -> String {
    let all = schema.0["$defs"].as_object().expect("definitions");
    let mut kinds: BTreeMap<&str, String> = BTreeMap::new();
    for (name, kind) in all {
        let is_word = kind["oneOf"].is_array() || kind["enum"].is_array();
        if kind["properties"].is_object() || is_word || kind["anyOf"].is_array() {
            continue;
        }
        let about = kind["description"]
            .as_str()
            .unwrap_or_else(|| panic!("{name} has no description"));
        kinds.insert(name, about.to_owned());
    }
    let ways = "One of three:\n\n* `{ env: NAME }`: the environment variable that holds the secret.\n\
                * `{ file: /path }`: the file that holds the secret. One line end at its end is not part of it. A relative path starts at the \
                configuration folder.\n* the secret itself, of which `portcullis check` warns.";
    kinds.insert("Secret", ways.to_owned());
    let mut text = "\n## Kinds of values\n".to_owned();
    for (name, about) in kinds {
        text.push_str(&format!("\n### {name}\n\n{about}\n"));
    }
    text
}

/// The anchor of a path's heading.
fn slug(path: &str) -> String {
    crate::docs::links::slug(path)
}
