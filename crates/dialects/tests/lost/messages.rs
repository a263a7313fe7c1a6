//! The fields that callers of Messages can write.

use dialects::front::MESSAGES;
use serde_json::{Value, json};

use crate::{HIGH, MUST, Marks, ONE_BY_ONE, STRICT, Tables, UNSAID, Word, with_members};

pub const TABLES: Tables = Tables {
    front: &MESSAGES,
    rows: &[SETTINGS, USERS, ASSISTANTS, RESULTS, SYSTEMS],
    most: &[6, 3, 4, 3, 2],
    body,
    advice: ADVICE,
    words: &[WORDS],
    names: NAMES,
    form: &["role", "id", "tool_use_id"],
    kind: crate::kind,
    spelled: str::to_owned,
};

/// Members of a request.
const SETTINGS: &[&str] = &[
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
const USERS: &[&str] = &[
    r#"{"type":"text","text":"§"}"#,
    r#"{"type":"text","text":"§","cache_control":{"type":"ephemeral"},"citations":[{"type":"char_location"}]}"#,
    r#"{"type":"text","text":"§","novel":"§","citations":null}"#,
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

/// Blocks of an assistant, before its calls.
const ASSISTANTS: &[&str] = &[
    r#"{"type":"thinking","thinking":"§","signature":"§"}"#,
    r#"{"type":"thinking","thinking":"§","signature":""}"#,
    r#"{"type":"redacted_thinking","data":"§"}"#,
    r#"{"type":"text","text":"§"}"#,
    r#"{"type":"text","text":"§","citations":[{"type":"web_search_result_location","url":"https://§/","title":"§","cited_text":"§","encrypted_index":"§"}]}"#,
    r#"{"type":"compaction","content":"§","encrypted_content":"§"}"#,
    r#"{"type":"server_tool_use","id":"s","name":"§","input":{"query":"§"}}"#,
    r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","title":"§","url":"§","encrypted_content":"§"}]}"#,
    r#"{"type":"code_execution_tool_result","tool_use_id":"s","content":{"type":"code_execution_result","stdout":"§"}}"#,
    r#"{"type":"fallback","from":{"model":"§"}}"#,
];

/// Contents of results.
const RESULTS: &[&str] = &[
    r#"{"content":"§"}"#,
    r#"{"content":"§","is_error":true}"#,
    r#"{"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo§"}}],"is_error":true}"#,
    r#"{"content":[{"type":"text","text":"§"},{"type":"text","text":"§","novel":"§"}],"cache_control":{"type":"ephemeral"}}"#,
    r#"{"content":[{"type":"document","title":"§.pdf","citations":{"enabled":true},"source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0x§"}}]}"#,
    r#"{"content":[{"type":"search_result","title":"§","source":"§","content":[{"type":"text","text":"§"}]}]}"#,
    r#"{"content":[{"type":"tool_reference","tool_name":"§"}]}"#,
    r#"{"content":[{"type":"browser_state","tabs":"§"}],"novel":"§"}"#,
    "{}",
];

/// Messages of the system's.
const SYSTEMS: &[&str] = &[
    r#"{"content":"§"}"#,
    r#"{"content":[{"type":"text","text":"§"}],"clear_at":"never"}"#,
    r#"{"content":"§","output_config":{"effort":"high","novel":"§"},"novel":"§"}"#,
    r#"{"content":[{"type":"text","text":"§"},{"type":"tool_addition","tool":{"name":"§"}}]}"#,
];

/// Fields that only help Anthropic's own servers, and change nothing in the answer.
const ADVICE: &[&str] = &[
    // How long a prompt cache is kept: it is lost with the `cache_control` around it, which is
    // named.
    "ttl",
    // Who called a tool, and from which set: the model itself, always.
    "caller",
    "allowed_callers",
    // How the pieces of a call come.
    "eager_input_streaming",
    // When a message may be cleared.
    "clear_at",
    // How much of its thinking is shown. All of it is shown, unless the operator hides it.
    "display",
    // A set of tools by its name, next to each of its tools.
    "toolset_name",
];

/// The forms of words, where a dialect has others.
const WORDS: &[Word] = &[
    ("output_config.effort", "high", HIGH),
    ("messages[].output_config.effort", "high", HIGH),
    (
        "thinking.type",
        "enabled",
        &[
            "\"enabled\"",
            "\"effort\"",
            "reasoning_effort",
            "thinkingLevel",
            "thinkingBudget",
            "\"think\":",
        ],
    ),
    // An effort next to it expresses all that can be expressed.
    (
        "thinking.type",
        "adaptive",
        &[
            "\"adaptive\"",
            "\"effort\"",
            "reasoning_effort",
            "thinkingLevel",
            "thinkingBudget",
            "\"think\":",
            "budget_tokens",
            "reasoningConfig",
        ],
    ),
    // A request without thinking needs no words for that.
    ("thinking.type", "disabled", UNSAID),
    ("tool_choice.type", "auto", UNSAID),
    ("tool_choice.type", "any", MUST),
    ("tool_choice.type", "tool", &["only"]),
    ("tool_choice.disable_parallel_tool_use", "true", ONE_BY_ONE),
    // Google holds calls to their schemas in some modes.
    ("tools[].strict", "true", STRICT),
    // The usual behaviour of every provider, which needs no words.
    ("service_tier", "auto", UNSAID),
    (
        "messages[].content[].is_error",
        "true",
        &["Error", "\"is_error\":true"],
    ),
    (
        "messages[].content[].source.media_type",
        "text/plain",
        UNSAID,
    ),
    // A function without parameters.
    ("tools[].input_schema.type", "object", UNSAID),
    // Some formats have a word for each type.
    ("media_type", "image/png", &["image/png", "\"png\""]),
    (
        "media_type",
        "application/pdf",
        &["application/pdf", "\"pdf\""],
    ),
];

/// Names that stand for others.
const NAMES: &[(&str, &str)] = &[
    // The parts of a thought.
    (
        "messages[].content[].thinking",
        "messages[].content[].signature",
    ),
    ("messages[].content[].thinking", "messages[].content[].data"),
    // Of a file, wherever it stands.
    (
        "messages[].content[].title",
        "messages[].content[].content[].title",
    ),
    // The effort, or its absence, follows from the settings.
    ("output_config.effort", "thinking"),
    ("output_config.effort", "messages[].output_config.effort"),
];

fn body(rows: &[Vec<Value>], marks: &mut Marks) -> Value {
    let [settings, users, assistants, results, systems] = rows else {
        panic!("five tables")
    };
    let mut all = with_members(json!({"model": "m", "max_tokens": 32_123}), settings);
    // No caller writes a format at both places.
    if all
        .get("output_config")
        .is_some_and(|config| config.get("format").is_some())
    {
        all.remove("output_format");
    }
    let user: Vec<Value> = std::iter::once(marks.row(USERS[0]))
        .chain(users.iter().cloned())
        .collect();
    let mut messages = vec![json!({"role": "user", "content": user})];
    let mut assistant = assistants.clone();
    let mut answers = Vec::new();
    for (number, result) in results.iter().enumerate() {
        let id = format!("call_{number}");
        assistant.push(marks.row(&format!(
            r#"{{"type":"tool_use","id":"{id}","name":"only","input":{{"a":"§","b":[{{"c":"§"}}]}},"caller":{{"type":"direct"}},"toolset_name":"x"}}"#
        )));
        let mut result = result.clone();
        result["type"] = "tool_result".into();
        result["tool_use_id"] = id.into();
        answers.push(result);
    }
    if !assistant.is_empty() {
        messages.push(json!({"role": "assistant", "content": assistant}));
        answers.push(marks.row(USERS[0]));
        messages.push(json!({"role": "user", "content": answers}));
    }
    for system in systems {
        let mut system = system.clone();
        system["role"] = "system".into();
        messages.push(system);
    }
    all.insert("messages".into(), messages.into());
    if !results.is_empty() && !all.contains_key("tools") {
        all.insert(
            "tools".into(),
            json!([{"name": "only", "input_schema": {"type": "object"}}]),
        );
    }
    all.into()
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
    for (dialect, model) in crate::dialects_and_models() {
        let is_claude = model.contains("claude");
        for (body, word) in [
            (&adaptive, "\"adaptive\""),
            (&budget, "\"budget_tokens\":9000"),
        ] {
            let (written, losses) = TABLES.write((dialect, model), body).unwrap();
            // A model that thinks by a budget gets no word for thinking as it likes.
            let is_said = is_claude && (dialect == "anthropic" || body == &budget);
            assert_eq!(
                written.contains(word),
                is_said,
                "{dialect} {model}: {written}"
            );
            assert!(
                is_said || losses.iter().any(|loss| loss.starts_with("thinking")),
                "{dialect} {model}: {losses:?}"
            );
        }
    }
    let (written, losses) = TABLES
        .write(("bedrock", "openai.gpt-oss-120b-1:0"), &budget)
        .unwrap();
    assert!(
        written.contains("\"high\"") && !written.contains("budget"),
        "{written}"
    );
    assert_eq!(losses, ["thinking.budget_tokens"]);
}

#[test]
fn thoughts_that_stand_alone_are_named() {
    let body = json!({"model": "m", "max_tokens": 32_000, "output_config": {"effort": "high"}, "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
        {"role": "user", "content": "so?"},
    ]});
    let (written, losses) = TABLES
        .write(
            ("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
            &body,
        )
        .unwrap();
    assert!(!written.contains("hm"), "{written}");
    assert_eq!(losses, ["messages[].content[].thinking"]);
}
