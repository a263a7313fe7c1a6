//! No field of a request is lost in silence: each leaf stands in the written request, or is named
//! in the losses, or is a hint that is left out on purpose.
//!
//! Requests are put together from tables of the fields of each format. `§` stands for a mark,
//! another one each time.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test may fail loudly; the lints guard what runs in production"
)]

mod chat;
mod gemini;
mod messages;
#[path = "../support/models.rs"]
mod models;
mod responses;

use bytes::Bytes;
use dialects::front::{Front, PathRequest};
use dialects::neutral::Refused;
use dialects::{Dialect, Endpoint, Protocol, Settings, Translate};
use models::{DIALECTS, RESPONSES};
use proptest::prelude::*;
use serde_json::{Map, Value};

/// The fields that the callers of a front door can write.
struct Tables {
    front: &'static Front,
    /// Rows of JSON. The function `body` knows the parts that each table is for.
    rows: &'static [&'static [&'static str]],
    /// The most rows of each table in one request.
    most: &'static [usize],
    /// Puts the rows of each table together to a request.
    body: fn(&[Vec<Value>], &mut Marks) -> Value,
    /// Members that need not be named, because their values mean nothing to a model of another
    /// provider.
    advice: &'static [&'static str],
    /// The forms of words, where a dialect has others.
    words: &'static [&'static [Word]],
    /// Names of losses that stand for other paths than their own.
    names: &'static [(&'static str, &'static str)],
    /// Members that only give the type of an object, or bind a result to its call. The form of the
    /// request has these facts.
    form: &'static [&'static str],
    /// Returns the type of an object, if it may be lost under that name.
    kind: fn(&Map<String, Value>) -> Option<&str>,
    /// Returns a path as losses have it.
    spelled: fn(&str) -> String,
}

/// The path, or its end; the word; its forms, of which one must be there, or not be there after a
/// `!`.
type Word = (&'static str, &'static str, &'static [&'static str]);

/// The forms of the words that both of OpenAI's formats have.
const OPENAI_WORDS: &[Word] = &[
    ("tool_choice", "auto", UNSAID),
    ("tool_choice", "none", UNSAID),
    ("tool_choice", "required", MUST),
    ("tool_choice.type", "function", &["only"]),
    ("tool_choice.type", "allowed_tools", UNSAID),
    ("parallel_tool_calls", "true", UNSAID),
    ("parallel_tool_calls", "false", ONE_BY_ONE),
    ("strict", "true", STRICT),
    ("service_tier", "auto", UNSAID),
    ("detail", "auto", UNSAID),
];

/// How a dialect asks for an answer that is some JSON.
const ANY_JSON: &[&str] = &[
    "\"json_object\"",
    "json_answer",
    "\"application/json\"",
    "\"format\":\"json\"",
    "give_answer",
];
/// How a dialect holds an answer to its schema.
const STRICT_ANSWER: &[&str] = &[
    "\"strict\":true",
    "output_config",
    "outputConfig",
    "esponseJsonSchema",
    "\"format\":{",
    "\"json_object\",\"json_schema\"",
    "json_answer",
];
/// The words that ask a model to think hard.
const HIGH: &[&str] = &[
    "\"high\"",
    "\"HIGH\"",
    "thinkingBudget",
    "budget_tokens",
    "\"think\":",
];
/// The words with which a dialect demands a call of a tool.
const MUST: &[&str] = &["\"required\"", "\"REQUIRED\"", "\"ANY\"", "\"any\""];
/// How a dialect asks for one call at a time. Without tools there is none.
const ONE_BY_ONE: &[&str] = &[
    "\"parallel_tool_calls\":false",
    "\"disable_parallel_tool_use\":true",
    "!\"tools\":[",
];
/// How a dialect holds calls to their schemas. Google does it in some modes.
const STRICT: &[&str] = &[
    "\"strict\":true",
    "\"strict_tools\":true",
    "\"mode\":\"ANY\"",
    "\"mode\":\"VALIDATED\"",
];
/// The usual behaviour of every provider, which needs no words.
const UNSAID: &[&str] = &[""];

/// Each dialect's name with each of its models, and OpenAI's other kind of endpoint.
fn dialects_and_models() -> impl Iterator<Item = (&'static str, &'static str)> {
    DIALECTS.into_iter().chain([RESPONSES]).flat_map(|dialect| {
        let models = std::iter::once(dialect.model).chain(dialect.other_models.iter().copied());
        models.map(move |model| (dialect.name, model))
    })
}

/// Makes marks. Each mark is found only where its field was written.
#[derive(Default)]
struct Marks(usize);

impl Marks {
    /// Reads a row, with a mark in each of its places.
    fn row(&mut self, row: &str) -> Value {
        let mut parts = row.split('§');
        let first = parts.next().expect("a part").to_owned();
        let text = parts.fold(first, |text, part| {
            self.0 += 1;
            format!("{text}Mark{}e{part}", self.0)
        });
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"))
    }
}

impl Tables {
    /// Puts a request together of rows by their numbers.
    fn request(&self, chosen: &[Vec<usize>]) -> Value {
        let mut marks = Marks::default();
        let rows = self.rows.iter().zip(chosen);
        let rows: Vec<Vec<Value>> = rows
            .map(|(table, chosen)| chosen.iter().map(|at| marks.row(table[*at])).collect())
            .collect();
        (self.body)(&rows, &mut marks)
    }

    /// Gathers the leaves. The members of an object may be lost by the name of the object's type.
    fn leaves(&self, value: &Value, path: &str, names: &[String], into: &mut Vec<Leaf>) {
        match value {
            Value::Object(members) => {
                let kind = (self.kind)(members).map(|kind| format!("{path}.{kind}"));
                for (name, value) in members {
                    let mut names = names.to_vec();
                    names.extend(
                        kind.iter()
                            .flat_map(|kind| [kind.clone(), format!("{kind}.{name}")]),
                    );
                    let path = if path.is_empty() {
                        name.clone()
                    } else {
                        format!("{path}.{name}")
                    };
                    self.leaves(value, &path, &names, into);
                }
            }
            Value::Array(elements) => {
                elements
                    .iter()
                    .for_each(|value| self.leaves(value, &format!("{path}[]"), names, into));
            }
            Value::Null => {}
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                let mut names: Vec<String> =
                    names.iter().map(|name| (self.spelled)(name)).collect();
                let path = (self.spelled)(path);
                names.push(format!("{path}.{text}"));
                into.push(Leaf { path, text, names });
            }
        }
    }

    /// Writes a request. Returns the written body and the losses, or the refusal.
    fn write(
        &self,
        (dialect, model): (&str, &str),
        body: &Value,
    ) -> Result<(String, Vec<String>), Refused> {
        let body = Bytes::from(body.to_string());
        let is_responses = dialect == RESPONSES.name;
        let protocol =
            Protocol::find(if is_responses { "openai" } else { dialect }).expect("a dialect");
        let settings = Settings {
            project: Some("p".into()),
            region: Some("europe-west1".into()),
            ..Settings::NONE
        };
        let envelope = self
            .front
            .envelope(&body)
            .unwrap_or_else(|why| panic!("{why:?}"));
        let model_of_path = envelope.model.is_empty().then(|| "m".to_owned());
        let spoken = Dialect::new(protocol, settings);
        let spoken = if is_responses {
            spoken.for_endpoint(Endpoint::Responses)
        } else {
            spoken
        };
        let outbound = spoken.write(&Translate {
            traits: (protocol.traits)(model),
            // Where thinking is hidden, nothing passes, and a translated request may lose
            // something.
            hide_reasoning: dialect != "anthropic",
            other: &|_| dialects::OtherModel::Elsewhere,
            ..Translate::new(
                &body,
                &envelope.with_path(PathRequest {
                    model: model_of_path,
                    stream: false,
                }),
                model,
            )
        })?;
        let written = String::from_utf8(outbound.body.concat()).expect("UTF-8");
        Ok((
            written,
            outbound
                .losses
                .names()
                .iter()
                .map(|name| name.to_string())
                .collect(),
        ))
    }

    /// Returns whether the request is written. Fails with the name of a field that is lost in
    /// silence, if there is one.
    fn judge(&self, dialect: (&str, &str), body: &Value) -> Result<bool, String> {
        let mut all = Vec::new();
        self.leaves(body, "", &[], &mut all);
        let (written, losses) = match self.write(dialect, body) {
            Ok(sent) => sent,
            Err(Refused::Unsupported(why) | Refused::Invalid(why)) => {
                // It is refused by something that is there.
                let plain: String = why.param.chars().filter(|c| !c.is_ascii_digit()).collect();
                let plain = (self.spelled)(&plain);
                let is_there =
                    |leaf: &Leaf| leaf.path.starts_with(&plain) || plain.starts_with(&leaf.path);
                return match all.iter().any(is_there) {
                    true => Ok(false),
                    false => Err(format!(
                        "{dialect:?} refuses {}: {}\n{body}",
                        why.param, why.message
                    )),
                };
            }
        };
        // Tools that must not be called need not be sent.
        let is_choice = |leaf: &Leaf| {
            ["tool_choice", "toolConfig", "function_call"]
                .iter()
                .any(|choice| leaf.path.starts_with(choice))
        };
        let names_some =
            |leaf: &Leaf| leaf.last() == "name" || leaf.path.ends_with("allowedFunctionNames[]");
        let chooses = |leaf: &Leaf| {
            is_choice(leaf) && (names_some(leaf) || leaf.text.eq_ignore_ascii_case("none"))
        };
        let idle: &[&str] = if all.iter().any(chooses) {
            &["tools", "functions", "parallel_tool_calls"]
        } else {
            &[]
        };
        all.retain(|leaf| !idle.iter().any(|name| leaf.path.starts_with(name)));
        let is_lost = |leaf: &&Leaf| {
            !self.is_form(leaf) && !self.is_said(leaf, &written) && !self.is_named(leaf, &losses)
        };
        match all.iter().find(is_lost) {
            None => Ok(true),
            Some(Leaf { path, text, .. }) => Err(format!(
                "{dialect:?} loses {path}: {text}\nlosses: {losses:?}\n{body}\n{written}"
            )),
        }
    }

    fn is_form(&self, leaf: &Leaf) -> bool {
        let last = leaf.last();
        let is_schema = leaf.path.contains("chema.") || leaf.path.contains("parameters.");
        leaf.path
            .split(['.', '['])
            .any(|part| self.advice.contains(&part))
            || self.advice.contains(&&*leaf.path)
            || matches!(leaf.path.as_str(), "model" | "stream")
            || self.form.contains(&last)
            || last == "type"
                && !is_schema
                && !self
                    .words
                    .iter()
                    .copied()
                    .flatten()
                    .any(|(path, ..)| *path == leaf.path)
    }

    fn is_said(&self, leaf: &Leaf, written: &str) -> bool {
        let is_of = |(path, text, _): &&Word| {
            (*path == leaf.path || *path == leaf.last()) && *text == leaf.text
        };
        let mut words = self
            .words
            .iter()
            .copied()
            .flatten()
            .filter(is_of)
            .flat_map(|(.., words)| *words)
            .peekable();
        if words.peek().is_some() {
            return words.any(|word| match word.strip_prefix('!') {
                Some(word) => !written.contains(word),
                None => written.contains(word),
            });
        }
        let mut marks = leaf.text.match_indices("Mark").peekable();
        if marks.peek().is_some() {
            // The text around a mark may be written in another way.
            return marks.all(|(at, _)| {
                let mark = &leaf.text[at..];
                written.contains(&mark[..=mark.find('e').expect("an end")])
            });
        }
        written.contains(&leaf.text) || leaf.text == "true" && leaf.path.contains("schema.")
    }

    fn is_named(&self, leaf: &Leaf, losses: &[String]) -> bool {
        let covers = |name: &str| {
            let rest = leaf.path.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let stands = |name: &str| {
            self.names
                .iter()
                .filter(|(loss, _)| *loss == name)
                .any(|(_, path)| covers(path))
        };
        let mut losses = losses.iter().map(|loss| (self.spelled)(loss));
        losses.any(|loss| covers(&loss) || stands(&loss) || leaf.names.contains(&loss))
    }

    /// Checks that each row by itself is written or named by every dialect, and that so many
    /// requests are written.
    #[track_caller]
    fn each_row(&self, least: usize) {
        let (mut written, mut faults) = (0, Vec::new());
        for (table, rows) in self.rows.iter().enumerate() {
            for at in 0..rows.len() {
                let mut chosen = vec![Vec::new(); self.rows.len()];
                chosen[table] = vec![at];
                let body = self.request(&chosen);
                for dialect in dialects_and_models() {
                    match self.judge(dialect, &body) {
                        Ok(is_written) => written += usize::from(is_written),
                        Err(why) => faults.push(why),
                    }
                }
            }
        }
        assert!(
            faults.is_empty(),
            "{}\n{} faults",
            faults.join("\n\n"),
            faults.len()
        );
        assert!(written > least, "{written}");
    }

    fn some_rows(&self) -> impl Strategy<Value = Vec<Vec<usize>>> + use<> {
        let some =
            |(table, most): (&&[&str], &usize)| prop::collection::vec(0..table.len(), 0..=*most);
        self.rows
            .iter()
            .zip(self.most)
            .map(some)
            .collect::<Vec<_>>()
    }

    /// Checks rows together.
    fn rows(&self, chosen: &[Vec<usize>]) -> Result<(), TestCaseError> {
        let body = self.request(chosen);
        for dialect in dialects_and_models() {
            if let Err(why) = self.judge(dialect, &body) {
                prop_assert!(false, "{}", why);
            }
        }
        Ok(())
    }
}

/// A leaf: its path without indexes, its text, and the names by which it may be lost.
struct Leaf {
    path: String,
    text: String,
    names: Vec<String>,
}

impl Leaf {
    fn last(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }
}

/// Returns a request with the members of these rows.
fn with_members(mut body: Value, rows: &[Value]) -> Map<String, Value> {
    let mut all = std::mem::take(body.as_object_mut().expect("an object"));
    for members in rows {
        all.extend(members.as_object().expect("members").clone());
    }
    all
}

/// Returns the calls and their results, bound to each other by ids under these names.
fn bound(pairs: &[Value], of_call: &str, of_result: &str) -> (Vec<Value>, Vec<Value>) {
    let one = |(number, pair): (usize, &Value)| {
        let [mut call, mut result] = [pair[0].clone(), pair[1].clone()];
        call[of_call] = format!("call_{number}").into();
        result[of_result] = call[of_call].clone();
        (call, result)
    };
    pairs.iter().enumerate().map(one).unzip()
}

/// Returns the type of an object.
fn kind(members: &Map<String, Value>) -> Option<&str> {
    members.get("type").and_then(Value::as_str)
}

#[test]
fn each_row_of_messages() {
    messages::TABLES.each_row(600);
}

#[test]
fn each_row_of_responses() {
    responses::TABLES.each_row(700);
}

#[test]
fn each_row_of_gemini() {
    gemini::TABLES.each_row(600);
}

#[test]
fn each_row_of_chat() {
    chat::TABLES.each_row(600);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages_together(rows in messages::TABLES.some_rows()) {
        messages::TABLES.rows(&rows)?;
    }

    #[test]
    fn responses_together(rows in responses::TABLES.some_rows()) {
        responses::TABLES.rows(&rows)?;
    }

    #[test]
    fn gemini_together(rows in gemini::TABLES.some_rows()) {
        gemini::TABLES.rows(&rows)?;
    }

    #[test]
    fn chat_together(rows in chat::TABLES.some_rows()) {
        chat::TABLES.rows(&rows)?;
    }
}
