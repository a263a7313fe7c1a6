//! The fields that callers of chat completions can write.

use dialects::front::CHAT;
use serde_json::{Value, json};

use crate::{
    ANY_JSON, HIGH, Marks, OPENAI_WORDS, STRICT_ANSWER, Tables, UNSAID, Word, bound, with_members,
};

pub const TABLES: Tables = Tables {
    front: &CHAT,
    rows: &[SETTINGS, USERS, ASSISTANTS, CALLS, SYSTEMS, NAMED],
    most: &[6, 3, 2, 3, 2, 2],
    body,
    advice: ADVICE,
    words: &[OPENAI_WORDS, WORDS],
    names: NAMES,
    form: &["role", "id", "tool_call_id"],
    kind: crate::kind,
    spelled: str::to_owned,
};

/// Members of a request.
const SETTINGS: &[&str] = &[
    r#"{"max_completion_tokens":12345}"#,
    r#"{"max_tokens":12345}"#,
    r#"{"temperature":0.125}"#,
    r#"{"top_p":0.375}"#,
    r#"{"top_k":47}"#,
    r#"{"seed":4711}"#,
    r#"{"frequency_penalty":0.625,"presence_penalty":0.875}"#,
    r#"{"stop":"§"}"#,
    r#"{"stop":["§","§"]}"#,
    r#"{"n":1}"#,
    r#"{"n":2}"#,
    r#"{"logprobs":true,"top_logprobs":7}"#,
    r#"{"logit_bias":{"50256":-97}}"#,
    r#"{"user":"§"}"#,
    r#"{"safety_identifier":"§"}"#,
    r#"{"user":"§","safety_identifier":"§"}"#,
    r#"{"metadata":{"a":"§"}}"#,
    r#"{"service_tier":"flex"}"#,
    r#"{"service_tier":"auto"}"#,
    r#"{"store":true}"#,
    r#"{"modalities":["text"]}"#,
    r#"{"modalities":["text","audio"],"audio":{"voice":"§","format":"wav"}}"#,
    r#"{"prediction":{"type":"content","content":"§"}}"#,
    r#"{"prompt_cache_key":"§","prompt_cache_retention":"24h"}"#,
    r#"{"verbosity":"low"}"#,
    r#"{"web_search_options":{"search_context_size":"§"}}"#,
    r#"{"reasoning_effort":"high"}"#,
    r#"{"reasoning_effort":"none"}"#,
    r#"{"thinking":{"type":"enabled","budget_tokens":9876}}"#,
    r#"{"thinking":{"type":"disabled"}}"#,
    r#"{"response_format":{"type":"text"}}"#,
    r#"{"response_format":{"type":"json_object"}}"#,
    r#"{"response_format":{"type":"json_schema","json_schema":{"name":"answer","description":"§","strict":true,"schema":{"type":"object","properties":{"a":{"type":"string","description":"§"}},"required":["a"],"additionalProperties":false},"novel":"§"}}}"#,
    r#"{"tools":[{"type":"function","function":{"name":"§","description":"§","parameters":{"type":"object","properties":{"a":{"type":"string","description":"§"}}}}}]}"#,
    r#"{"tools":[{"type":"function","function":{"name":"§","strict":true,"parameters":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false},"novel":"§"},"novel":"§","cache_control":{"type":"ephemeral"}}]}"#,
    r#"{"tools":[{"type":"custom","custom":{"name":"§","description":"§","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"§"}}}}]}"#,
    r#"{"tools":[{"type":"function","function":{"name":"only"}}],"tool_choice":"auto","parallel_tool_calls":false}"#,
    r#"{"tools":[{"type":"function","function":{"name":"only"}}],"tool_choice":"required","parallel_tool_calls":true}"#,
    r#"{"tools":[{"type":"function","function":{"name":"only"}}],"tool_choice":{"type":"function","function":{"name":"only"}}}"#,
    r#"{"tools":[{"type":"function","function":{"name":"only"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"only"}}]}}}"#,
    r#"{"tools":[{"type":"function","function":{"name":"only"}}],"tool_choice":"none"}"#,
    r#"{"functions":[{"name":"§","description":"§","parameters":{"type":"object","properties":{"a":{"type":"string","description":"§"}}},"novel":"§"}]}"#,
    r#"{"functions":[{"name":"only"}],"function_call":{"name":"only"}}"#,
    r#"{"stream_options":{"include_usage":true}}"#,
    r#"{"cache_control":{"type":"ephemeral"}}"#,
    r#"{"novel":{"deep":["§"]}}"#,
];

/// Messages of users.
const NAMED: &[&str] = &[
    r#"{"role":"user","name":"§","content":"§"}"#,
    r#"{"role":"user","name":"§","content":[{"type":"text","text":"§"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo§"}}]}"#,
];

/// Parts of a user's message.
const USERS: &[&str] = &[
    r#"{"type":"text","text":"§","cache_control":{"type":"ephemeral"},"novel":"§"}"#,
    r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo§","detail":"auto","novel":"§"}}"#,
    r#"{"type":"image_url","image_url":{"url":"https://example.com/§.png","detail":"low"}}"#,
    r#"{"type":"input_audio","input_audio":{"data":"UklG§","format":"wav","novel":"§"}}"#,
    r#"{"type":"file","file":{"filename":"§.pdf","file_data":"data:application/pdf;base64,JVBERi0x§","novel":"§"}}"#,
    r#"{"type":"file","file":{"filename":"§.txt","file_data":"data:text/plain;base64,aGVsbG8="}}"#,
    r#"{"type":"file","file":{"file_id":"§"}}"#,
    r#"{"type":"novel","a":"§"}"#,
];

/// Messages of an assistant, without calls.
const ASSISTANTS: &[&str] = &[
    r#"{"content":"§","name":"§","novel":"§"}"#,
    r#"{"content":[{"type":"text","text":"§"},{"type":"refusal","refusal":"§"}]}"#,
    r#"{"content":null,"refusal":"§"}"#,
    r#"{"content":"§","reasoning_content":"§"}"#,
    r#"{"content":"§","thinking_blocks":[{"type":"thinking","thinking":"§","signature":"§"}]}"#,
    r#"{"content":"§","audio":{"id":"§"}}"#,
    r#"{"content":"§","annotations":[{"type":"url_citation","url":"§"}]}"#,
];

/// Calls and their results.
const CALLS: &[&str] = &[
    r#"[{"type":"function","function":{"name":"only","arguments":"{\"a\":\"§\",\"b\":[\"§\"]}","novel":"§"},"novel":"§"},{"content":"§"}]"#,
    r#"[{"type":"function","function":{"name":"§","arguments":"{}"},"extra_content":{"google":{"thought_signature":"§"}}},{"content":[{"type":"text","text":"§"},{"type":"text","text":"§"}],"novel":"§"}]"#,
    r#"[{"type":"custom","custom":{"name":"only","input":"§"}},{"content":"§","name":"only"}]"#,
    r#"[{"type":"function","function":{"name":"only","arguments":"{}"}},{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo§"}}]}]"#,
];

/// Messages of the system's.
const SYSTEMS: &[&str] = &[
    r#"{"role":"system","content":"§","name":"§"}"#,
    r#"{"role":"developer","content":[{"type":"text","text":"§","cache_control":{"type":"ephemeral"}}],"novel":"§"}"#,
];

/// Fields that are hints only, and fields without a meaning here.
const ADVICE: &[&str] = &[
    // Whether the counts come in a chunk of their own, which the writer of the answer knows.
    "stream_options",
    // The name of the answer's schema.
    "response_format.json_schema.name",
];

/// The forms of words, where a dialect has others.
const WORDS: &[Word] = &[
    ("reasoning_effort", "high", HIGH),
    ("reasoning_effort", "none", UNSAID),
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
    ("thinking.type", "disabled", UNSAID),
    ("response_format.type", "text", UNSAID),
    ("response_format.type", "json_object", ANY_JSON),
    ("response_format.type", "json_schema", UNSAID),
    ("response_format.json_schema.strict", "true", STRICT_ANSWER),
    ("modalities[]", "text", UNSAID),
    ("n", "1", UNSAID),
    ("tool_choice.allowed_tools.mode", "auto", UNSAID),
    ("format", "wav", &["wav"]),
    (
        "messages[].content[].file.file_data",
        "data:text/plain;base64,aGVsbG8=",
        &["aGVsbG8=", "hello"],
    ),
    // A function without parameters.
    ("tools[].function.parameters.type", "object", UNSAID),
];

/// Names that stand for others.
const NAMES: &[(&str, &str)] = &[
    // The parts of a thought.
    ("messages[].thinking_blocks", "messages[].thinking_blocks"),
    ("max_tokens", "max_completion_tokens"),
];

fn body(rows: &[Vec<Value>], _: &mut Marks) -> Value {
    let [settings, users, assistants, calls, systems, named] = rows else {
        panic!("six tables")
    };
    let mut all = with_members(json!({"model": "m"}), settings);
    let mut user = vec![json!({"type": "text", "text": "hi"})];
    user.extend(users.iter().cloned());
    let mut messages = systems.clone();
    messages.push(json!({"role": "user", "content": user}));
    messages.extend(named.iter().cloned());
    for assistant in assistants {
        let mut assistant = assistant.clone();
        assistant["role"] = "assistant".into();
        messages.push(assistant);
        messages.push(json!({"role": "user", "content": "so?"}));
    }
    if !calls.is_empty() {
        let (made, mut results) = bound(calls, "id", "tool_call_id");
        results
            .iter_mut()
            .for_each(|result| result["role"] = "tool".into());
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": made}));
        messages.append(&mut results);
    }
    all.insert("messages".into(), messages.into());
    all.into()
}
