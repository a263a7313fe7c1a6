//! Nothing of a request is lost without a word: each of its leaves stands in what is written, or is
//! named in the losses, or is advice that is left out on purpose.
//!
//! Requests are put together from a table of fields. `§` stands for a mark, another one each time.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::MESSAGES;
use crate::neutral::Refused;
use crate::{Dialect, Protocol, Settings, Translate};

/// Members of a request.
const SETTINGS: [&str; 33] = [
    r#"{"system":"§"}"#,
    r#"{"system":[{"type":"text","text":"§","cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"text","text":"§"}]}"#,
    r#"{"temperature":0.125}"#,
    r#"{"top_p":0.375}"#,
    r#"{"top_k":47}"#,
    r#"{"stop_sequences":["§","§"]}"#,
    r#"{"stop_sequences":["§","§","§","§","§"]}"#,
    r#"{"metadata":{"user_id":"§"}}"#,
    r#"{"metadata":{"user_id":"§","novel":"§"}}"#,
    r#"{"service_tier":"auto"}"#,
    r#"{"service_tier":"standard_only"}"#,
    r#"{"thinking":{"type":"enabled","budget_tokens":1234,"display":"omitted"}}"#,
    r#"{"thinking":{"type":"adaptive","display":"omitted"}}"#,
    r#"{"thinking":{"type":"disabled"}}"#,
    r#"{"output_config":{"effort":"high"}}"#,
    r#"{"output_config":{"effort":"high","task_budget":{"type":"tokens","total":"§"}}}"#,
    r#"{"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"string","description":"§"}},"required":["a"],"additionalProperties":false},"novel":"§"}}}"#,
    r#"{"output_format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"string","description":"§"}},"required":["a"],"additionalProperties":false}}}"#,
    r#"{"tools":[{"name":"§","description":"§","input_schema":{"type":"object","properties":{"a":{"type":"string","description":"§"}}}}]}"#,
    r#"{"tools":[{"type":"custom","name":"§","input_schema":{"type":"object"},"strict":true,"cache_control":{"type":"ephemeral"},"eager_input_streaming":true,"allowed_callers":["direct"],"input_examples":[{"a":"§"}],"novel":"§"}]}"#,
    r#"{"tools":[{"name":"§","input_schema":{"type":"object"}}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}"#,
    r#"{"tools":[{"name":"§","input_schema":{"type":"object"}}],"tool_choice":{"type":"any","novel":"§"}}"#,
    r#"{"tools":[{"name":"only","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"only"}}"#,
    r#"{"cache_control":{"type":"ephemeral"}}"#,
    r#"{"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}}"#,
    r#"{"inference_geo":"§"}"#,
    r#"{"speed":"fast"}"#,
    r#"{"diagnostics":{"previous_message_id":"§"}}"#,
    r#"{"safeguards":[{"type":"dangerous_tool_use","classifier_context":{"v":"§"}}]}"#,
    r#"{"fallbacks":[{"novel":"§"}],"fallback_credit_token":"§"}"#,
    r#"{"user_profile_id":"§","workspace_id":"§"}"#,
    r#"{"compaction":{"novel":"§"},"billing_policy":"§"}"#,
    r#"{"novel":{"deep":["§"]}}"#,
];

/// Blocks of a user.
const USERS: [&str; 13] = [
    r#"{"type":"text","text":"§"}"#,
    r#"{"type":"text","text":"§","cache_control":{"type":"ephemeral"},"citations":[{"type":"char_location"}]}"#,
    r#"{"type":"text","text":"§","novel":"§"}"#,
    r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo§"}}"#,
    r#"{"type":"image","source":{"type":"url","url":"https://example.com/§.png","novel":"§"}}"#,
    r#"{"type":"image","source":{"type":"file","file_id":"§"}}"#,
    r#"{"type":"document","title":"§.pdf","context":"§","citations":{"enabled":true},"source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0x§"}}"#,
    r#"{"type":"document","title":"§","source":{"type":"text","media_type":"text/plain","data":"§"}}"#,
    r#"{"type":"document","title":"§","source":{"type":"content","content":[{"type":"text","text":"§"},{"type":"sketch","novel":"§"}]}}"#,
    r#"{"type":"document","source":{"type":"content","content":"§"}}"#,
    r#"{"type":"document","title":"§.pdf","source":{"type":"url","url":"https://example.com/§.pdf"}}"#,
    r#"{"type":"search_result","title":"§","source":"§","content":[{"type":"text","text":"§"}],"citations":{"enabled":true}}"#,
    r#"{"type":"container_upload","file_id":"§"}"#,
];

/// Blocks of an assistant, before what it calls.
const ASSISTANTS: [&str; 9] = [
    r#"{"type":"thinking","thinking":"§","signature":"§"}"#,
    r#"{"type":"thinking","thinking":"§","signature":""}"#,
    r#"{"type":"redacted_thinking","data":"§"}"#,
    r#"{"type":"text","text":"§"}"#,
    r#"{"type":"compaction","content":"§","encrypted_content":"§"}"#,
    r#"{"type":"server_tool_use","id":"s","name":"§","input":{"query":"§"}}"#,
    r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","title":"§","url":"§","encrypted_content":"§"}]}"#,
    r#"{"type":"code_execution_tool_result","tool_use_id":"s","content":{"type":"code_execution_result","stdout":"§"}}"#,
    r#"{"type":"fallback","from":{"model":"§"}}"#,
];

/// Contents of results.
const RESULTS: [&str; 9] = [
    r#"{"content":"§"}"#,
    r#"{"content":"§","is_error":true}"#,
    r#"{"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo§"}}],"is_error":true}"#,
    r#"{"content":[{"type":"text","text":"§"},{"type":"text","text":"§","novel":"§"}],"cache_control":{"type":"ephemeral"}}"#,
    r#"{"content":[{"type":"document","title":"§.pdf","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0x§"}}]}"#,
    r#"{"content":[{"type":"search_result","title":"§","source":"§","content":[{"type":"text","text":"§"}]}]}"#,
    r#"{"content":[{"type":"tool_reference","tool_name":"§"}]}"#,
    r#"{"content":[{"type":"browser_state","tabs":"§"}],"novel":"§"}"#,
    "{}",
];

/// Messages of the system's.
const SYSTEMS: [&str; 4] = [
    r#"{"content":"§"}"#,
    r#"{"content":[{"type":"text","text":"§"}],"clear_at":"never"}"#,
    r#"{"content":"§","output_config":{"effort":"high","novel":"§"},"novel":"§"}"#,
    r#"{"content":[{"type":"text","text":"§"},{"type":"tool_addition","tool":{"name":"§"}}]}"#,
];

/// Advice: it helps Anthropic's own servers, and says nothing to a model.
const ADVICE: [&str; 8] = [
    // Where a prompt cache may end. Where an upstream has such caches, it is said; else it need not
    // be named.
    "cache_control",
    // Where a text comes from, or that the answer shall say so.
    "citations",
    // Who called a tool, and from which set: the model itself, always.
    "caller",
    "allowed_callers",
    // How the pieces of a call come.
    "eager_input_streaming",
    // When a message may be cleared.
    "clear_at",
    // How much of its thinking is shown. All of it is shown, unless the operator hides it.
    "display",
    // A set of tools by its name, beside each of its tools.
    "toolset_name",
];

/// The forms of words, where a dialect has others.
const WORDS: [(&str, &str, &[&str]); 16] = [
    ("output_config.effort", "high", &["\"high\"", "\"HIGH\"", "thinkingBudget", "budget_tokens", "\"think\":"]),
    (
        "messages[].output_config.effort",
        "high",
        &["\"high\"", "\"HIGH\"", "thinkingBudget", "budget_tokens", "\"think\":"],
    ),
    ("thinking.type", "enabled", &["\"enabled\"", "reasoning_effort", "thinkingLevel", "thinkingBudget", "\"think\":"]),
    // An effort that stands beside it says all that can be said.
    (
        "thinking.type",
        "adaptive",
        &[
            "\"adaptive\"",
            "reasoning_effort",
            "thinkingLevel",
            "thinkingBudget",
            "\"think\":",
            "budget_tokens",
            "reasoningConfig",
        ],
    ),
    // Who does not think need not be told.
    ("thinking.type", "disabled", &[""]),
    ("tool_choice.type", "auto", &[""]),
    ("tool_choice.type", "any", &["\"required\"", "\"REQUIRED\"", "\"ANY\"", "\"any\""]),
    ("tool_choice.type", "tool", &["only"]),
    (
        "tool_choice.disable_parallel_tool_use",
        "true",
        &["\"parallel_tool_calls\":false", "\"disable_parallel_tool_use\":true"],
    ),
    // Google holds calls to their schemas in some modes.
    ("tools[].strict", "true", &["\"strict\":true", "\"mode\":\"ANY\"", "\"mode\":\"VALIDATED\""]),
    // What every provider does who is told nothing.
    ("service_tier", "auto", &[""]),
    ("messages[].content[].is_error", "true", &["Error", "\"is_error\":true"]),
    ("messages[].content[].source.media_type", "text/plain", &[""]),
    // A function without parameters.
    ("tools[].input_schema.type", "object", &[""]),
    // Some formats have a word for each type.
    ("media_type", "image/png", &["image/png", "\"png\""]),
    ("media_type", "application/pdf", &["application/pdf", "\"pdf\""]),
];

/// Names that stand for others.
const NAMES: [(&str, &str); 5] = [
    // What a thought is made of.
    ("messages[].content[].thinking", "messages[].content[].signature"),
    ("messages[].content[].thinking", "messages[].content[].data"),
    // Of a file, wherever it stands.
    ("messages[].content[].title", "messages[].content[].content[].title"),
    // An effort or the lack of it is what the settings come to.
    ("output_config.effort", "thinking"),
    ("output_config.effort", "messages[].output_config.effort"),
];

const DIALECTS: [(&str, &str); 12] = [
    ("openai", "gpt-4o"),
    ("openai", "gpt-5"),
    ("azure", "gpt-4o"),
    ("anthropic", "claude-sonnet-4-5"),
    ("gemini", "gemini-2.5-flash"),
    ("gemini", "gemini-3-pro"),
    ("vertex", "gemini-2.5-flash"),
    ("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("bedrock", "amazon.nova-pro-v1:0"),
    ("cohere", "command-a-03-2025"),
    ("cohere", "command-a-vision-07-2025"),
    ("ollama", "qwen3"),
];

/// Rows of the tables: which of each are in a request.
#[derive(Debug, Clone, Default)]
struct Rows {
    settings: Vec<usize>,
    users: Vec<usize>,
    assistants: Vec<usize>,
    results: Vec<usize>,
    systems: Vec<usize>,
}

impl Rows {
    /// The request. Marks are its own, so that each is found only where it is said.
    fn body(&self) -> Value {
        let mut marks = 0;
        let mut row = |row: &str| -> Value {
            let mut parts = row.split('§');
            let first = parts.next().unwrap().to_owned();
            let text = parts.fold(first, |text, part| {
                marks += 1;
                format!("{text}Mark{marks}e{part}")
            });
            serde_json::from_str(&text).unwrap()
        };
        let mut body = json!({"model": "m", "max_tokens": 32_123});
        let all = body.as_object_mut().unwrap();
        for at in &self.settings {
            all.extend(row(SETTINGS[*at]).as_object().unwrap().clone());
        }
        // Nobody writes a format at both places.
        if all.get("output_config").is_some_and(|config| config.get("format").is_some()) {
            all.remove("output_format");
        }
        let mut user: Vec<Value> = vec![row(USERS[0])];
        user.extend(self.users.iter().map(|at| row(USERS[*at])));
        let mut messages = vec![json!({"role": "user", "content": user})];
        let mut assistant: Vec<Value> = self.assistants.iter().map(|at| row(ASSISTANTS[*at])).collect();
        let mut results = Vec::new();
        for (number, at) in self.results.iter().enumerate() {
            let id = format!("call_{number}");
            assistant.push(row(&format!(
                r#"{{"type":"tool_use","id":"{id}","name":"only","input":{{"a":"§","b":[{{"c":"§"}}]}},"caller":{{"type":"direct"}},"toolset_name":"x"}}"#
            )));
            let mut result = row(RESULTS[*at]);
            result["type"] = "tool_result".into();
            result["tool_use_id"] = id.into();
            results.push(result);
        }
        if !assistant.is_empty() {
            messages.push(json!({"role": "assistant", "content": assistant}));
            results.push(row(USERS[0]));
            messages.push(json!({"role": "user", "content": results}));
        }
        for at in &self.systems {
            let mut system = row(SYSTEMS[*at]);
            system["role"] = "system".into();
            messages.push(system);
        }
        all.insert("messages".into(), messages.into());
        if !self.results.is_empty() && !all.contains_key("tools") {
            all.insert("tools".into(), json!([{"name": "only", "input_schema": {"type": "object"}}]));
        }
        body
    }
}

/// A leaf: its path without indexes, its text, and the names by which it may be lost.
struct Leaf {
    path: String,
    text: String,
    names: Vec<String>,
}

/// Gathers the leaves. An object with a type may be lost by the name of its type.
fn leaves(value: &Value, path: &str, names: &[String], into: &mut Vec<Leaf>) {
    match value {
        Value::Object(members) => {
            let mut names = names.to_vec();
            if let Some(kind) = members.get("type").and_then(Value::as_str) {
                names.push(format!("{path}.{kind}"));
            }
            for (name, value) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(value, &path, &names, into);
            }
        }
        Value::Array(elements) => elements.iter().for_each(|value| leaves(value, &format!("{path}[]"), names, into)),
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            into.push(Leaf { path: path.to_owned(), text, names: names.to_vec() });
        }
    }
}

impl Leaf {
    /// Whether it only says what something is, or binds a result to its call. The form says that.
    fn is_form(&self) -> bool {
        let last = self.path.rsplit('.').next().unwrap_or_default();
        let is_schema = self.path.contains("schema.");
        matches!(self.path.as_str(), "model" | "stream")
            || matches!(last, "role" | "id" | "tool_use_id")
            || last == "type" && !is_schema && !matches!(self.path.as_str(), "thinking.type" | "tool_choice.type")
    }

    fn is_advice(&self) -> bool {
        self.path.split(['.', '[']).any(|part| ADVICE.contains(&part))
    }

    fn is_said(&self, written: &str) -> bool {
        let last = self.path.rsplit('.').next().unwrap_or_default();
        let words = WORDS.iter().filter(|(path, text, _)| (*path == self.path || *path == last) && *text == self.text);
        let mut words = words.flat_map(|(.., words)| *words).peekable();
        if words.peek().is_some() {
            return words.any(|word| written.contains(word));
        }
        // Some texts are taken over without what their kind shows anyway.
        let bare = self.text.strip_suffix(".pdf").unwrap_or(&self.text);
        written.contains(bare) || self.text == "true" && self.path.contains("schema.")
    }

    fn is_named(&self, losses: &[String]) -> bool {
        let covers = |name: &str| {
            let rest = self.path.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let stands = |name: &str| NAMES.iter().filter(|(loss, _)| *loss == name).any(|(_, path)| covers(path));
        losses.iter().any(|loss| covers(loss) || stands(loss) || self.names.contains(loss))
    }
}

/// Writes a request: what goes out, and what is lost; or what is refused.
fn write((dialect, model): (&str, &str), body: &Value) -> Result<(String, Vec<String>), Refused> {
    let body = Bytes::from(body.to_string());
    let protocol = Protocol::find(dialect).unwrap();
    let settings = Settings { project: Some("p".into()), place: Some("europe-west1".into()), ..Settings::NONE };
    let outbound = Dialect::new(protocol, settings).write(&Translate {
        body: &body,
        envelope: &(MESSAGES.envelope)(&body).unwrap(),
        model,
        traits: (protocol.traits)(model),
        default_max_tokens: None,
        within: None,
        hide_reasoning: false,
        stream_usage: true,
        kept: &|_| None,
    })?;
    let written = String::from_utf8(outbound.body.concat()).unwrap();
    Ok((written, outbound.losses.names().iter().map(|name| name.to_string()).collect()))
}

/// Why something is lost without a word, if anything is. Returns whether the request is written.
fn judge(dialect: (&str, &str), body: &Value) -> Result<bool, String> {
    let mut all = Vec::new();
    leaves(body, "", &[], &mut all);
    let (written, losses) = match write(dialect, body) {
        Ok(sent) => sent,
        Err(Refused::Unsupported(why) | Refused::Invalid(why)) => {
            // It is refused by something that is there.
            let plain: String = why.param.chars().filter(|c| !c.is_ascii_digit()).collect();
            let is_there = |leaf: &Leaf| leaf.path.starts_with(&plain) || plain.starts_with(&leaf.path);
            return match all.iter().any(is_there) {
                true => Ok(false),
                false => Err(format!("{dialect:?} refuses {}: {}\n{body}", why.param, why.message)),
            };
        }
    };
    let lost = all
        .iter()
        .find(|leaf| !leaf.is_form() && !leaf.is_advice() && !leaf.is_said(&written) && !leaf.is_named(&losses));
    match lost {
        None => Ok(true),
        Some(Leaf { path, text, .. }) => {
            Err(format!("{dialect:?} loses {path}: {text}\nlosses: {losses:?}\n{body}\n{written}"))
        }
    }
}

#[test]
fn each_row_is_written_or_named_by_every_dialect() {
    let one = |count: usize, rows: fn(usize) -> Rows| (0..count).map(rows).collect::<Vec<_>>();
    let all = [
        one(SETTINGS.len(), |at| Rows { settings: vec![at], ..Rows::default() }),
        one(USERS.len(), |at| Rows { users: vec![at], ..Rows::default() }),
        one(ASSISTANTS.len(), |at| Rows { assistants: vec![at], ..Rows::default() }),
        one(RESULTS.len(), |at| Rows { results: vec![at], ..Rows::default() }),
        one(SYSTEMS.len(), |at| Rows { systems: vec![at], ..Rows::default() }),
    ];
    let (mut written, mut faults) = (0, Vec::new());
    for rows in all.concat() {
        for dialect in DIALECTS {
            match judge(dialect, &rows.body()) {
                Ok(is_written) => written += usize::from(is_written),
                Err(why) => faults.push(why),
            }
        }
    }
    assert!(faults.is_empty(), "{}\n{} faults", faults.join("\n\n"), faults.len());
    assert!(written > 600, "{written}");
}

/// Only Claude knows the settings of thinking. For others they come to an effort, or are named.
#[test]
fn settings_of_thinking_go_to_claude_only() {
    let body = |thinking: &str| {
        let thinking: Value = serde_json::from_str(thinking).unwrap();
        json!({"model": "m", "max_tokens": 32_000, "messages": [{"role": "user", "content": "hi"}], "thinking": thinking})
    };
    let adaptive = body(r#"{"type":"adaptive","display":"omitted"}"#);
    let budget = body(r#"{"type":"enabled","budget_tokens":9000}"#);
    for (dialect, model) in DIALECTS {
        let is_claude = model.contains("claude");
        for (body, word) in [(&adaptive, "\"adaptive\""), (&budget, "\"budget_tokens\":9000")] {
            let (written, losses) = write((dialect, model), body).unwrap();
            // One that thinks by a budget is told nothing of its own liking.
            let is_said = is_claude && (dialect == "anthropic" || body == &budget);
            assert_eq!(written.contains(word), is_said, "{dialect} {model}: {written}");
            assert!(is_said || losses.iter().any(|loss| loss.starts_with("thinking")), "{dialect} {model}: {losses:?}");
        }
    }
    let (written, losses) = write(("bedrock", "openai.gpt-oss-120b-1:0"), &budget).unwrap();
    assert!(written.contains("\"high\"") && !written.contains("budget"), "{written}");
    assert_eq!(losses, ["thinking.budget_tokens"]);
}

#[test]
fn thoughts_that_stand_alone_are_named() {
    let body = json!({"model": "m", "max_tokens": 32_000, "output_config": {"effort": "high"}, "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
        {"role": "user", "content": "so?"},
    ]});
    let (written, losses) = write(("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0"), &body).unwrap();
    assert!(!written.contains("hm"), "{written}");
    assert_eq!(losses, ["messages[].content[].thinking"]);
}

fn rows() -> impl Strategy<Value = Rows> {
    let some = |count: usize, most: usize| prop::collection::vec(0..count, 0..=most);
    (
        some(SETTINGS.len(), 6),
        some(USERS.len(), 3),
        some(ASSISTANTS.len(), 4),
        some(RESULTS.len(), 3),
        some(SYSTEMS.len(), 2),
    )
        .prop_map(|(settings, users, assistants, results, systems)| Rows {
            settings,
            users,
            assistants,
            results,
            systems,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_asked_together_is_written_or_named(rows in rows()) {
        let body = rows.body();
        for dialect in DIALECTS {
            if let Err(why) = judge(dialect, &body) {
                prop_assert!(false, "{}", why);
            }
        }
    }
}
