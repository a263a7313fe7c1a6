//! What each dialect can do, as the cases show it: the table in `docs/src/providers.md`.

use crate::drive::DIALECTS;
use crate::files::root;

/// A row: what it is called, its case, and the fields that it is about.
const ROWS: &[(&str, &str, &[&str])] = &[
    ("text", "text", &[]),
    ("streams", "streaming", &[]),
    ("system and developer messages anywhere", "system-anywhere", &[]),
    ("the assistant's turn begun for it", "assistant-last", &[]),
    ("names of participants", "names", &["messages[].name"]),
    ("pictures in the request", "image-inline", &[]),
    ("pictures by URL", "image-url", &[]),
    ("`detail` of a picture", "image-detail", &["messages[].content[].image_url.detail"]),
    ("sound in the request", "audio-in", &[]),
    ("sound in the answer", "audio-out", &[]),
    ("PDF files", "file-pdf", &[]),
    ("text files", "file-text", &[]),
    ("uploaded files, by id", "file-id", &[]),
    ("tools", "tools", &["tool_choice"]),
    ("`strict` tools", "strict-tool", &["tools[].function.strict"]),
    ("custom tools", "custom-tool", &[]),
    ("`tool_choice: required`", "tool-required", &["tool_choice"]),
    ("one tool, by its name", "tool-forced", &["tool_choice"]),
    ("`tool_choice: none`", "tool-none", &["tool_choice"]),
    ("`allowed_tools`", "tool-allowed", &["tool_choice"]),
    ("`parallel_tool_calls: false`", "one-call-at-a-time", &["parallel_tool_calls"]),
    ("calls and their results", "calls", &[]),
    ("`functions`, deprecated", "legacy-functions", &["functions", "function_call"]),
    ("`json_schema`", "json-schema", &["response_format", "response_format.json_schema.strict"]),
    ("`json_schema` beside tools", "json-schema-with-tools", &["response_format"]),
    ("`json_object`", "json-object", &["response_format"]),
    ("`reasoning_effort`", "effort-medium", &["reasoning_effort"]),
    ("`reasoning_effort: none`", "effort-none", &["reasoning_effort"]),
    ("signed thoughts, sent back (`thinking_blocks`)", "thinking-blocks", &["messages[].thinking_blocks"]),
    (
        "signatures of calls, sent back (`extra_content`)",
        "thought-signatures",
        &["messages[].tool_calls[].extra_content"],
    ),
    ("cache hints", "cache-hints", &["cache_control", "messages[].content[].cache_control", "tools[].cache_control"]),
    ("`max_completion_tokens`", "max-completion-tokens", &["max_completion_tokens", "max_tokens"]),
    ("`temperature`", "temperature", &["temperature"]),
    ("`temperature` above 1", "temperature-high", &["temperature"]),
    ("`top_p`", "top-p", &["top_p"]),
    ("`temperature` with `top_p`", "temperature-and-top-p", &["temperature", "top_p"]),
    ("`top_k`", "top-k", &["top_k"]),
    ("`seed`", "seed", &["seed"]),
    ("penalties", "penalties", &["frequency_penalty", "presence_penalty"]),
    ("`stop`", "stop-text", &["stop"]),
    ("`n` above 1", "several-choices", &["n"]),
    ("`logprobs`", "logprobs", &["logprobs", "top_logprobs"]),
    ("`user`", "user", &["user"]),
    ("`metadata`", "metadata", &["metadata"]),
    ("`service_tier: priority`", "service-tier", &["service_tier"]),
];

/// The table, in Markdown.
pub fn markdown() -> String {
    let mut table = String::from("| |");
    table.extend(DIALECTS.map(|dialect| format!(" {} |", dialect.name)));
    table.push_str("\n|---|");
    table.push_str(&":-:|".repeat(DIALECTS.len()));
    table.push('\n');
    for (name, case, fields) in ROWS {
        table.push_str(&format!("| {name} |"));
        table.extend(DIALECTS.map(|dialect| format!(" {} |", mark(case, dialect.name, fields))));
        table.push('\n');
    }
    table
}

/// ✓ it is said, ○ it is left out or weakened and named, — it is refused.
fn mark(case: &str, dialect: &str, fields: &[&str]) -> &'static str {
    let file = |dialect: &str, ending: &str| {
        std::fs::read_to_string(root().join(case).join(format!("{dialect}.{ending}"))).ok()
    };
    // Where Vertex has no file of its own, it does as Gemini does.
    let has_own = file(dialect, "request").or(file(dialect, "refused")).is_some();
    let dialect = if dialect == "vertex" && !has_own { "gemini" } else { dialect };
    if file(dialect, "refused").is_some() {
        return "—";
    }
    let request = file(dialect, "request").unwrap_or_else(|| panic!("{case} says nothing of {dialect}"));
    let dropped = request.lines().nth(1).and_then(|line| line.strip_prefix("dropped: ")).unwrap_or_default();
    if dropped.split(", ").any(|name| fields.contains(&name)) { "○" } else { "✓" }
}
