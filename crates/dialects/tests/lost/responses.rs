//! The fields that callers of Responses can write.

use dialects::front::RESPONSES;
use serde_json::{Map, Value, json};

use crate::{
    ANY_JSON, HIGH, Marks, OPENAI_WORDS, STRICT_ANSWER, Tables, UNSAID, Word, bound, with_members,
};

pub const TABLES: Tables = Tables {
    front: &RESPONSES,
    rows: &[SETTINGS, ITEMS, PARTS, CALLS],
    most: &[6, 4, 3, 3],
    body,
    advice: ADVICE,
    words: &[OPENAI_WORDS, WORDS],
    names: NAMES,
    form: &["role", "id", "call_id", "status"],
    kind,
    // A tool is a tool, wherever it stands.
    spelled: |path| {
        path.replace("input[].tools[]", "tools[]")
            .replace("tools[].tools[]", "tools[]")
    },
};

/// Members of a request.
const SETTINGS: &[&str] = &[
    r#"{"instructions":"§"}"#,
    r#"{"max_output_tokens":12345}"#,
    r#"{"max_tool_calls":3}"#,
    r#"{"tools":[{"type":"function","name":"§","description":"§","parameters":{"type":"object","properties":{"a":{"type":"string","description":"§"}}},"strict":false}]}"#,
    r#"{"tools":[{"type":"function","name":"§","parameters":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false},"strict":true,"defer_loading":true,"allowed_callers":["direct"],"output_schema":{"a":"§"},"async":true,"novel":"§"}]}"#,
    r#"{"tools":[{"type":"custom","name":"§","description":"§","format":{"type":"grammar","syntax":"lark","definition":"§","novel":"§"},"novel":"§"}]}"#,
    r#"{"tools":[{"type":"custom","name":"§","format":{"type":"text"},"defer_loading":true}]}"#,
    r#"{"tools":[{"type":"namespace","name":"§","description":"§","novel":"§","tools":[{"type":"function","name":"§","strict":true,"parameters":{"type":"object","properties":{"a":{"type":"string","description":"§"}}},"novel":"§"},{"type":"custom","name":"§","format":{"type":"grammar","syntax":"regex","definition":"§"}}]}]}"#,
    r#"{"tools":[{"type":"tool_search","execution":"client","description":"§","parameters":{"type":"object","properties":{"a":{"type":"string","description":"§"}}},"novel":"§"}]}"#,
    r#"{"tools":[{"type":"tool_search","execution":"server","description":"§"}]}"#,
    r#"{"tools":[{"type":"web_search","external_web_access":true,"filters":{"allowed_domains":["§"]},"user_location":{"city":"§"}}]}"#,
    r#"{"tools":[{"type":"web_search_preview_2025_03_11","search_context_size":"§"}]}"#,
    r#"{"tools":[{"type":"file_search","vector_store_ids":["§"]}]}"#,
    r#"{"tools":[{"type":"mcp","server_label":"§","server_url":"https://example.com/§"}]}"#,
    r#"{"tools":[{"type":"image_generation"}]}"#,
    r#"{"tools":[{"type":"function","name":"only","parameters":null,"strict":false}],"tool_choice":"auto","parallel_tool_calls":false}"#,
    r#"{"tools":[{"type":"function","name":"only","parameters":null,"strict":false}],"tool_choice":"required","parallel_tool_calls":true}"#,
    r#"{"tools":[{"type":"function","name":"only","parameters":null,"strict":false}],"tool_choice":{"type":"function","name":"only","novel":"§"}}"#,
    r#"{"tools":[{"type":"function","name":"only","parameters":null,"strict":false},{"type":"custom","name":"other"},{"type":"function","name":"third","parameters":null,"strict":false}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"only"},{"type":"custom","name":"other"}]}}"#,
    r#"{"tool_choice":"none"}"#,
    r#"{"text":{"format":{"type":"text"},"verbosity":"medium"}}"#,
    r#"{"text":{"verbosity":"low","novel":"§"}}"#,
    r#"{"text":{"format":{"type":"json_object"}}}"#,
    r#"{"text":{"format":{"type":"json_schema","name":"answer","description":"§","strict":true,"schema":{"type":"object","properties":{"a":{"type":"string","description":"§"}},"required":["a"],"additionalProperties":false},"novel":"§"}}}"#,
    r#"{"reasoning":{"effort":"high","summary":"auto"}}"#,
    r#"{"reasoning":{"effort":"none","generate_summary":"concise"}}"#,
    r#"{"reasoning":{"context":"all_turns","mode":"§","novel":"§"}}"#,
    r#"{"include":["reasoning.encrypted_content","message.output_text.logprobs","§"]}"#,
    r#"{"store":true}"#,
    r#"{"store":false,"background":false,"previous_response_id":null,"truncation":"disabled"}"#,
    r#"{"truncation":"auto"}"#,
    r#"{"context_management":[{"type":"compaction","compact_threshold":10000}]}"#,
    r#"{"service_tier":"flex"}"#,
    r#"{"service_tier":"auto"}"#,
    r#"{"stream_options":{"include_obfuscation":false}}"#,
    r#"{"temperature":0.125}"#,
    r#"{"top_p":0.375}"#,
    r#"{"top_logprobs":7}"#,
    r#"{"metadata":{"a":"§"}}"#,
    r#"{"user":"§"}"#,
    r#"{"safety_identifier":"§"}"#,
    r#"{"user":"§","safety_identifier":"§"}"#,
    r#"{"prompt_cache_key":"§","prompt_cache_retention":"24h","prompt_cache_options":{"novel":"§"}}"#,
    r#"{"moderation":{"model":"§"}}"#,
    r#"{"image":{"novel":"§"},"access_programs":["§"]}"#,
    r#"{"client_metadata":{"a":"§"}}"#,
    r#"{"novel":{"deep":["§"]}}"#,
];

/// Items of a conversation, other than calls.
const ITEMS: &[&str] = &[
    r#"{"role":"user","content":"§"}"#,
    r#"{"type":"message","role":"user","id":"msg_1","content":[{"type":"input_text","text":"§"}],"internal_chat_message_metadata_passthrough":"§"}"#,
    r#"{"type":"message","role":"developer","content":[{"type":"input_text","text":"§"}]}"#,
    r#"{"role":"system","content":"§","novel":"§"}"#,
    r#"{"type":"message","role":"assistant","id":"msg_2","status":"completed","phase":"commentary","content":[{"type":"output_text","text":"§","annotations":[{"type":"url_citation","url":"§","title":"§","start_index":0,"end_index":4}],"logprobs":[{"token":"§"}],"novel":"§"}]}"#,
    r#"{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"§"}]}"#,
    r#"{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"§"}],"content":[{"type":"reasoning_text","text":"§"}],"encrypted_content":"§"}"#,
    r#"{"type":"reasoning","summary":[],"content":null,"encrypted_content":"§"}"#,
    r#"{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"§"}}"#,
    r#"{"type":"file_search_call","queries":["§"],"results":[{"text":"§"}]}"#,
    r#"{"type":"code_interpreter_call","code":"§","container_id":"§","outputs":[{"logs":"§"}]}"#,
    r#"{"type":"image_generation_call","result":"§"}"#,
    r#"{"type":"computer_call","call_id":"c","action":{"type":"click","x":"§"}}"#,
    r#"{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","image_url":"§"}}"#,
    r#"{"type":"mcp_list_tools","server_label":"§","tools":[{"name":"§","input_schema":{"a":"§"}}]}"#,
    r#"{"type":"mcp_call","name":"§","server_label":"§","arguments":"§","output":"§"}"#,
    r#"{"type":"mcp_approval_request","name":"§","server_label":"§","arguments":"§"}"#,
    r#"{"type":"program","code":"§"}"#,
    r#"{"type":"program_output","output":"§"}"#,
    r#"{"type":"configuration_update","novel":"§"}"#,
    r#"{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"§","description":"§","parameters":{"type":"object","properties":{"a":{"type":"string","description":"§"}}}}],"novel":"§"}"#,
    r#"{"type":"tool_search_call","execution":"server","arguments":{"query":"§"}}"#,
    r#"{"type":"tool_search_output","execution":"server","tools":[{"type":"function","name":"shown","parameters":{"type":"object"}}]}"#,
    r#"{"type":"item_reference","id":"§"}"#,
    r#"{"type":"compaction","encrypted_content":"§"}"#,
    r#"{"type":"novel","a":"§"}"#,
];

/// Parts of a user's message, or of the output of a call.
const PARTS: &[&str] = &[
    r#"{"type":"input_text","text":"§","novel":"§"}"#,
    r#"{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo§","detail":"auto"}"#,
    r#"{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo§","detail":"original"}"#,
    r#"{"type":"input_image","image_url":"https://example.com/§.png","detail":"low","novel":"§"}"#,
    r#"{"type":"input_image","file_id":"§"}"#,
    r#"{"type":"input_file","filename":"§.pdf","file_data":"data:application/pdf;base64,JVBERi0x§"}"#,
    r#"{"type":"input_file","filename":"§.pdf","file_url":"https://example.com/§.pdf"}"#,
    r#"{"type":"input_file","filename":"§.txt","file_data":"data:text/plain;base64,aGVsbG8="}"#,
    r#"{"type":"input_file","file_id":"§"}"#,
    r#"{"type":"input_audio","input_audio":{"data":"UklG§","format":"wav","novel":"§"}}"#,
    r#"{"type":"novel","a":"§"}"#,
];

/// Calls and their outputs.
const CALLS: &[&str] = &[
    r#"[{"type":"function_call","id":"fc_1","name":"only","arguments":"{\"a\":\"§\",\"b\":[\"§\"]}","status":"completed","novel":"§"},{"type":"function_call_output","id":"fco_1","output":"§","novel":"§"}]"#,
    r#"[{"type":"function_call","name":"§","namespace":"§","arguments":"{}"},{"type":"function_call_output","output":[{"type":"input_text","text":"§"},{"type":"input_text","text":"§"}]}]"#,
    r#"[{"type":"function_call","name":"only","arguments":"{}"},{"type":"function_call_output","output":[{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo§"}]}]"#,
    r#"[{"type":"function_call","name":"only","arguments":"{}"},{"type":"function_call_output","output":[{"type":"input_file","filename":"§.pdf","file_data":"data:application/pdf;base64,JVBERi0x§"}]}]"#,
    r#"[{"type":"custom_tool_call","name":"only","input":"§"},{"type":"custom_tool_call_output","output":"§"}]"#,
    r#"[{"type":"custom_tool_call","name":"§","namespace":"§","input":"§"},{"type":"custom_tool_call_output","output":[{"type":"input_text","text":"§","novel":"§"}]}]"#,
    r#"[{"type":"tool_search_call","execution":"client","arguments":{"query":"§"}},{"type":"tool_search_output","execution":"client","tools":[{"type":"function","name":"§","description":"§","parameters":{"type":"object","properties":{"a":{"type":"string","description":"§"}}},"defer_loading":true}]}]"#,
    r#"[{"type":"local_shell_call","action":{"type":"exec","command":["§"],"env":{"a":"§"}}},{"type":"local_shell_call_output","output":"§"}]"#,
    r#"[{"type":"shell_call","action":{"commands":["§"],"timeout_ms":7654321},"environment":{"type":"§"}},{"type":"shell_call_output","max_output_length":7654322,"output":[{"stdout":"§","stderr":"§","outcome":{"type":"exit","exit_code":7654323}}]}]"#,
    r#"[{"type":"apply_patch_call","operation":{"type":"update_file","path":"§","diff":"§"}},{"type":"apply_patch_call_output","output":"§"}]"#,
];

/// Fields that are hints only, and fields without a meaning here.
const ADVICE: &[&str] = &[
    // How likely a text was.
    "logprobs",
    // Who may call a tool: the model itself, always.
    "allowed_callers",
    // All tools are shown from the start.
    "defer_loading",
    // Who searches for tools: the client, else the item or the tool is lost by its type.
    "execution",
    // How many tools the server may run by itself: it runs none.
    "max_tool_calls",
    // How the events of a stream are padded.
    "stream_options",
    // How much of its thinking is shown. The answer has it, where the model shows any.
    "reasoning.summary",
    "reasoning.generate_summary",
    // The name of the answer's schema.
    "text.format.name",
];

/// The forms of words, where a dialect has others.
const WORDS: &[Word] = &[
    ("reasoning.effort", "high", HIGH),
    // A request without thinking needs no words for that.
    ("reasoning.effort", "none", UNSAID),
    // Every answer has the thoughts that must come back.
    ("include[]", "reasoning.encrypted_content", UNSAID),
    ("text.verbosity", "medium", UNSAID),
    ("text.format.type", "text", UNSAID),
    ("text.format.type", "json_object", ANY_JSON),
    ("text.format.type", "json_schema", UNSAID),
    ("text.format.strict", "true", STRICT_ANSWER),
    ("tool_choice.mode", "auto", UNSAID),
    // The usual behaviour of every provider, which needs no words.
    ("strict", "false", UNSAID),
    ("store", "false", UNSAID),
    ("background", "false", UNSAID),
    ("truncation", "disabled", UNSAID),
    // No other server knows the largest detail.
    ("detail", "original", &["\"high\""]),
    (
        "input[].content[].file_data",
        "data:text/plain;base64,aGVsbG8=",
        &["aGVsbG8=", "hello"],
    ),
    ("input[].content[].input_audio.format", "wav", &["wav"]),
    // A function without parameters.
    ("tools[].parameters.type", "object", UNSAID),
];

/// Names that stand for others.
const NAMES: &[(&str, &str)] = &[
    // Of a file, wherever it stands.
    ("input[].content[].filename", "input[].output[].filename"),
    ("input[].content[].detail", "input[].output[].detail"),
];

/// Each version of a type is that type.
fn kind(members: &Map<String, Value>) -> Option<&str> {
    crate::kind(members).map(|kind| {
        if kind.starts_with("web_search_preview") {
            "web_search"
        } else {
            kind
        }
    })
}

fn body(rows: &[Vec<Value>], _: &mut Marks) -> Value {
    let [settings, items, parts, calls] = rows else {
        panic!("four tables")
    };
    let mut all = with_members(json!({"model": "m"}), settings);
    // Without tools that can be called there is nothing to call at once.
    let is_callable = |tool: &Value| tool["type"] != "tool_search" || tool["execution"] == "client";
    let is_own = |tool: &Value| {
        !tool["type"]
            .as_str()
            .is_some_and(|kind| kind.starts_with("web_search"))
    };
    if let Some(tools) = all.get("tools").and_then(Value::as_array)
        && !tools.iter().any(|tool| is_callable(tool) && is_own(tool))
    {
        all.remove("parallel_tool_calls");
    }
    let mut input =
        vec![json!({"role": "user", "content": [{"type": "input_text", "text": "hi"}]})];
    input[0]["content"]
        .as_array_mut()
        .expect("a list")
        .extend(parts.iter().cloned());
    input.extend(items.iter().cloned());
    let (mut made, mut outputs) = bound(calls, "call_id", "call_id");
    input.append(&mut made);
    input.append(&mut outputs);
    input.push(json!({"role": "user", "content": "so?"}));
    all.insert("input".into(), input.into());
    all.into()
}
