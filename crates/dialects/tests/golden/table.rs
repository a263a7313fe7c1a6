//! The fields of each front door that each dialect can express, as the cases show it: the tables in
//! `docs/src/providers.md` and `docs/src/doors.md`.

use std::fs;

use crate::drive::DIALECTS;
use crate::files::root;

/// A row: its name, its case, and its fields; after a `=` a word that the written request must
/// have.
type Row = (&'static str, &'static str, &'static [&'static str]);

const CHAT: &[Row] = &[
    ("text", "text", &[]),
    ("streams", "streaming", &[]),
    (
        "system and developer messages in the middle",
        "system-anywhere",
        &[],
    ),
    ("prefilled assistant turn", "assistant-last", &[]),
    ("names of participants", "names", &["messages[].name"]),
    ("pictures in the request", "image-inline", &[]),
    ("pictures by URL", "image-url", &[]),
    (
        "`detail` of a picture",
        "image-detail",
        &["messages[].content[].image_url.detail"],
    ),
    ("sound in the request", "audio-in", &[]),
    ("sound in the answer", "audio-out", &[]),
    ("PDF files", "file-pdf", &[]),
    ("text files", "file-text", &[]),
    ("uploaded files, by id", "file-id", &[]),
    ("tools", "tools", &["tool_choice"]),
    (
        "`strict` tools",
        "strict-tool",
        &["tools[].function.strict"],
    ),
    ("custom tools", "custom-tool", &[]),
    ("`tool_choice: required`", "tool-required", &["tool_choice"]),
    ("one tool, by its name", "tool-forced", &["tool_choice"]),
    ("`tool_choice: none`", "tool-none", &["tool_choice"]),
    ("`allowed_tools`", "tool-allowed", &["tool_choice"]),
    (
        "`parallel_tool_calls: false`",
        "one-call-at-a-time",
        &["parallel_tool_calls"],
    ),
    ("calls and their results", "calls", &[]),
    (
        "`functions`, deprecated",
        "legacy-functions",
        &["functions", "function_call"],
    ),
    (
        "`json_schema`",
        "json-schema",
        &["response_format", "response_format.json_schema.strict"],
    ),
    (
        "`json_schema` together with tools",
        "json-schema-with-tools",
        &["response_format"],
    ),
    ("`json_object`", "json-object", &["response_format"]),
    ("`reasoning_effort`", "effort-medium", &["reasoning_effort"]),
    (
        "`reasoning_effort: none`",
        "effort-none",
        &["reasoning_effort"],
    ),
    (
        "signed thoughts, sent back (`thinking_blocks`)",
        "thinking-blocks",
        &["messages[].thinking_blocks"],
    ),
    (
        "signatures of calls, sent back (`extra_content`)",
        "thought-signatures",
        &["messages[].tool_calls[].extra_content"],
    ),
    (
        "cache hints",
        "cache-hints",
        &[
            "cache_control",
            "messages[].content[].cache_control",
            "tools[].cache_control",
        ],
    ),
    (
        "`max_completion_tokens`",
        "max-completion-tokens",
        &["max_completion_tokens", "max_tokens"],
    ),
    ("`temperature`", "temperature", &["temperature"]),
    (
        "`temperature` above 1",
        "temperature-high",
        &["temperature"],
    ),
    ("`top_p`", "top-p", &["top_p"]),
    (
        "`temperature` with `top_p`",
        "temperature-and-top-p",
        &["temperature", "top_p"],
    ),
    ("`top_k`", "top-k", &["top_k"]),
    ("`seed`", "seed", &["seed"]),
    (
        "penalties",
        "penalties",
        &["frequency_penalty", "presence_penalty"],
    ),
    ("`stop`", "stop-text", &["stop"]),
    ("`n` above 1", "several-choices", &["n"]),
    ("`logprobs`", "logprobs", &["logprobs", "top_logprobs"]),
    ("`user`", "user", &["user"]),
    ("`metadata`", "metadata", &["metadata"]),
    (
        "`service_tier: priority`",
        "service-tier",
        &["service_tier"],
    ),
];

const MESSAGES: &[Row] = &[
    ("text", "text", &[]),
    ("streams", "streaming", &[]),
    ("system messages in the middle", "system-anywhere", &[]),
    ("prefilled assistant turn", "assistant-last", &[]),
    ("pictures", "image-inline", &[]),
    ("pictures by URL", "image-url", &[]),
    ("PDF files", "file-pdf", &[]),
    ("documents of text", "file-text", &[]),
    ("uploaded files, by id", "file-id", &[]),
    ("tools", "tools", &[]),
    ("`strict` tools", "strict-tool", &["tools[].strict"]),
    ("`tool_choice: any`", "tool-required", &[]),
    ("one tool, by its name", "tool-forced", &[]),
    ("`tool_choice: none`", "tool-none", &[]),
    (
        "`disable_parallel_tool_use`",
        "one-call-at-a-time",
        &["tool_choice.disable_parallel_tool_use"],
    ),
    ("calls and their results", "calls", &[]),
    ("pictures in results", "picture-in-a-result", &[]),
    (
        "tools that are found later (`defer_loading`)",
        "tool-search",
        &[],
    ),
    ("tools of Anthropic's servers", "server-tools", &[]),
    (
        "`output_config.format`",
        "json-schema",
        &["output_config.format", "output_config.format.strict"],
    ),
    (
        "`output_config.format` together with tools",
        "json-schema-with-tools",
        &["output_config.format", "output_config.format.strict"],
    ),
    (
        "`output_config.effort`",
        "effort-medium",
        &["output_config.effort"],
    ),
    (
        "`thinking: enabled`, with a budget",
        "thinking-budget",
        &["thinking", "thinking.budget_tokens"],
    ),
    ("`thinking: adaptive`", "thinking-adaptive", &["thinking"]),
    (
        "`thinking: disabled`",
        "effort-none",
        &["thinking", "output_config.effort"],
    ),
    (
        "thinking, sent back",
        "thinking-blocks",
        &["messages[].content[].thinking"],
    ),
    (
        "`cache_control`",
        "cache-hints",
        &["cache_control", "=cache"],
    ),
    ("`temperature`", "temperature", &["temperature"]),
    ("`top_p`", "top-p", &["top_p"]),
    ("`top_k`", "top-k", &["top_k"]),
    ("`stop_sequences`", "stop-text", &["stop_sequences"]),
    ("`metadata.user_id`", "user", &["metadata.user_id"]),
    ("`service_tier`", "service-tier", &["service_tier"]),
    (
        "`context_management`",
        "context-management",
        &["context_management"],
    ),
    ("fields that are new", "unknown-fields", &["novel"]),
];

const RESPONSES: &[Row] = &[
    ("text", "text", &[]),
    ("streams", "streaming", &[]),
    (
        "system and developer messages in the middle",
        "system-anywhere",
        &[],
    ),
    ("prefilled assistant turn", "assistant-last", &[]),
    ("pictures", "image-inline", &[]),
    ("pictures by URL", "image-url", &[]),
    (
        "`detail` of a picture",
        "image-detail",
        &["input[].content[].detail"],
    ),
    ("sound", "audio-in", &[]),
    ("PDF files", "file-pdf", &[]),
    ("text files", "file-text", &[]),
    ("uploaded files, by id", "file-id", &[]),
    ("functions", "tools", &[]),
    ("`strict` functions", "strict-tool", &["tools[].strict"]),
    (
        "custom tools, with a grammar",
        "custom-tool",
        &["tools[].format"],
    ),
    (
        "namespaces of tools",
        "namespaces",
        &["tools[].namespace.description"],
    ),
    ("`tool_search`", "tool-search", &[]),
    ("`additional_tools`", "shown-tools", &[]),
    ("`web_search`", "web-search", &["tools[].web_search"]),
    ("other tools of OpenAI's servers", "server-tools", &[]),
    ("`tool_choice: required`", "tool-required", &[]),
    ("one tool, by its name", "tool-forced", &[]),
    ("`tool_choice: none`", "tool-none", &[]),
    ("`allowed_tools`", "tool-allowed", &[]),
    (
        "`parallel_tool_calls: false`",
        "one-call-at-a-time",
        &["parallel_tool_calls"],
    ),
    ("calls and their outputs", "calls", &[]),
    ("pictures in outputs", "picture-in-a-result", &[]),
    (
        "`json_schema`",
        "json-schema",
        &[
            "text.format",
            "text.format.strict",
            "text.format.description",
        ],
    ),
    (
        "`json_schema` together with tools",
        "json-schema-with-tools",
        &["text.format", "text.format.strict"],
    ),
    ("`json_object`", "json-object", &["text.format"]),
    ("`verbosity`", "verbosity", &["text.verbosity"]),
    ("`reasoning.effort`", "effort-medium", &["reasoning.effort"]),
    (
        "`reasoning.effort: none`",
        "effort-none",
        &["reasoning.effort"],
    ),
    (
        "reasoning items of other servers, sent back",
        "thinking-blocks",
        &["input[].reasoning"],
    ),
    ("compactions", "compaction", &[]),
    ("`temperature`", "temperature", &["temperature"]),
    (
        "`temperature` above 1",
        "temperature-high",
        &["temperature"],
    ),
    ("`top_p`", "top-p", &["top_p"]),
    ("`top_logprobs`", "logprobs", &["top_logprobs"]),
    (
        "`safety_identifier`, `user`",
        "safety-identifier",
        &["safety_identifier"],
    ),
    ("`metadata`", "metadata", &["metadata"]),
    (
        "`service_tier: priority`",
        "service-tier",
        &["service_tier"],
    ),
    ("`prompt_cache_key`", "cache-key", &["prompt_cache_key"]),
    (
        "`context_management`, `truncation`",
        "context-management",
        &["context_management", "truncation"],
    ),
    ("fields that are new", "unknown-fields", &["novel"]),
];

const GEMINI: &[Row] = &[
    ("text", "text", &[]),
    ("streams", "streaming", &[]),
    ("prefilled model turn", "assistant-last", &[]),
    ("pictures", "image-inline", &[]),
    ("pictures by URL", "image-url", &[]),
    ("sound", "audio-in", &[]),
    ("PDF files", "file-pdf", &[]),
    ("text files", "file-text", &[]),
    ("uploaded files", "file-id", &[]),
    ("functions", "tools", &[]),
    ("`mode: ANY`", "tool-required", &[]),
    ("one function, by its name", "tool-forced", &[]),
    ("several functions, by their names", "tool-allowed", &[]),
    ("`mode: NONE`", "tool-none", &[]),
    (
        "`mode: VALIDATED`",
        "strict-tool",
        &["toolConfig.functionCallingConfig.mode"],
    ),
    ("calls and their results", "calls", &[]),
    ("pictures next to results", "picture-in-a-result", &[]),
    ("pictures in results", "picture-inside-a-result", &[]),
    ("code that ran", "code-that-ran", &[]),
    ("Google's own tools", "server-tools", &[]),
    (
        "`responseJsonSchema`, `responseSchema`",
        "json-schema",
        &["generationConfig.responseMimeType"],
    ),
    (
        "`responseJsonSchema`, `responseSchema`, together with tools",
        "json-schema-with-tools",
        &["generationConfig.responseMimeType"],
    ),
    (
        "`responseMimeType: application/json`",
        "json-object",
        &["generationConfig.responseMimeType"],
    ),
    (
        "`thinkingLevel`",
        "effort-medium",
        &["generationConfig.thinkingConfig"],
    ),
    (
        "`thinkingBudget`",
        "thinking-budget",
        &["generationConfig.thinkingConfig.thinkingBudget"],
    ),
    (
        "`thinkingBudget: 0`",
        "effort-none",
        &["generationConfig.thinkingConfig"],
    ),
    (
        "thoughts, sent back",
        "thinking-blocks",
        &["contents[].parts[].thought"],
    ),
    (
        "`temperature`",
        "temperature",
        &["generationConfig.temperature"],
    ),
    (
        "`temperature` above 1",
        "temperature-high",
        &["generationConfig.temperature"],
    ),
    ("`topP`", "top-p", &["generationConfig.topP"]),
    ("`topK`", "top-k", &["generationConfig.topK"]),
    (
        "`stopSequences`",
        "stop-text",
        &["generationConfig.stopSequences"],
    ),
    ("`seed`", "seed", &["generationConfig.seed"]),
    (
        "penalties",
        "penalties",
        &[
            "generationConfig.presencePenalty",
            "generationConfig.frequencyPenalty",
        ],
    ),
    ("`candidateCount` above 1", "several-choices", &[]),
    ("`logprobs`", "logprobs", &["generationConfig.logprobs"]),
    ("`labels`", "metadata", &["labels"]),
    ("`serviceTier: priority`", "service-tier", &["serviceTier"]),
    ("`safetySettings`", "safety-settings", &["safetySettings"]),
    ("fields that are new", "unknown-fields", &["novel"]),
];

/// The tables of requests: the mark around it, the files of its door, its rows.
const REQUESTS: [(&str, Option<&str>, &[Row]); 4] = [
    ("dialect", None, CHAT),
    ("messages", Some("messages"), MESSAGES),
    ("responses", Some("responses"), RESPONSES),
    ("gemini", Some("gemini"), GEMINI),
];

/// The parts of an answer: the name, the recorded answer that shows it, and its place in each
/// door's answer. After a `~` the part has another form.
const ANSWERS: &[(&str, &str, [&str; 4])] = &[
    ("text", "text/gemini.answer", ["Hello there."; 4]),
    (
        "several calls",
        "parallel-calls/bedrock.answer",
        ["\"time\""; 4],
    ),
    ("thinking", "thinking/gemini.answer", ["They greet me."; 4]),
    (
        "a refusal in words",
        "refused-in-words/openai.answer",
        [
            "\"refusal\":\"I cannot",
            "\"refusal\"",
            "\"refusal\":\"I cannot",
            "~\"text\":\"I cannot",
        ],
    ),
    (
        "an end by a filter",
        "blocked/gemini.answer",
        ["content_filter", "\"refusal\"", "content_filter", "SAFETY"],
    ),
    (
        "an end at the maximum",
        "length-in-a-call/anthropic.stream",
        [
            "\"length\"",
            "max_tokens",
            "max_output_tokens",
            "MAX_TOKENS",
        ],
    ),
    (
        "citations of pages of the web",
        "cited/gemini.answer",
        [
            "\"url_citation\"",
            "\"citations\"",
            "\"url_citation\"",
            "groundingMetadata",
        ],
    ),
    (
        "pictures",
        "picture-out/gemini.answer",
        [
            "\"images\"",
            "~a picture here",
            "~a picture here",
            "inlineData",
        ],
    ),
    (
        "tokens read from a cache",
        "cached/bedrock.answer",
        [
            "\"cached_tokens\":90",
            "cache_read_input_tokens\":90",
            "\"cached_tokens\":90",
            "cachedContentTokenCount\":90",
        ],
    ),
    (
        "tokens of thinking",
        "thinking/gemini.answer",
        [
            "\"reasoning_tokens\":30",
            "thinking_tokens\":30",
            "\"reasoning_tokens\":30",
            "thoughtsTokenCount\":30",
        ],
    ),
];

/// All tables in Markdown, each with the mark around it.
pub fn markdown() -> Vec<(&'static str, String)> {
    let requests = REQUESTS.iter().map(|(name, door, rows)| {
        let mut table = head(&DIALECTS.map(|dialect| dialect.name));
        for (row, case, fields) in *rows {
            table.push_str(&format!("| {row} |"));
            table.extend(
                DIALECTS.map(|dialect| format!(" {} |", mark(*door, case, dialect.name, fields))),
            );
            table.push('\n');
        }
        (*name, table)
    });
    let mut answers = head(&["chat", "messages", "responses", "gemini"]);
    for (row, file, needles) in ANSWERS {
        answers.push_str(&format!("| {row} |"));
        let ends = ["out", "messages.out", "responses.out", "gemini.out"];
        answers.extend(ends.iter().zip(needles).map(|(end, needle)| {
            let text = fs::read_to_string(root().join(format!("{file}.{end}"))).expect("a file");
            let (needle, found) = needle
                .strip_prefix('~')
                .map_or((*needle, "✓"), |needle| (needle, "○"));
            format!(" {} |", if text.contains(needle) { found } else { "—" })
        }));
        answers.push('\n');
    }
    requests.chain([("answer", answers)]).collect()
}

fn head(columns: &[&str]) -> String {
    format!(
        "| | {} |\n|---|{}\n",
        columns.join(" | "),
        ":-:|".repeat(columns.len())
    )
}

/// ✓ the field is sent, ○ it is left out or weakened and named, — it is refused.
fn mark(door: Option<&str>, case: &str, dialect: &str, fields: &[&str]) -> &'static str {
    let written = door.map_or_else(
        || of_chat(case, dialect),
        |door| of_door(door, case, dialect),
    );
    if !written.starts_with("POST ") {
        return "—";
    }
    let dropped = written
        .lines()
        .nth(1)
        .and_then(|line| line.strip_prefix("dropped: "))
        .unwrap_or_default();
    let is_silent = fields
        .iter()
        .filter_map(|field| field.strip_prefix('='))
        .any(|word| !written.contains(word));
    if is_silent || dropped.split(", ").any(|name| fields.contains(&name)) {
        "○"
    } else {
        "✓"
    }
}

/// Returns the result of a chat completion at a dialect.
fn of_chat(case: &str, dialect: &str) -> String {
    let file = |dialect: &str, ending: &str| {
        fs::read_to_string(root().join(case).join(format!("{dialect}.{ending}"))).ok()
    };
    let of = |dialect: &str| file(dialect, "request").or_else(|| file(dialect, "refused"));
    // Where Vertex has no file of its own, it does as Gemini does.
    let written = of(dialect).or_else(|| {
        if dialect == "vertex" {
            of("gemini")
        } else {
            None
        }
    });
    written.unwrap_or_else(|| panic!("{case} says nothing of {dialect}"))
}

/// Returns the result of another door's request at a dialect.
fn of_door(door: &str, case: &str, dialect: &str) -> String {
    let files = [door.to_owned(), format!("{door}_array")]
        .map(|door| root().join(case).join(format!("{door}.written")));
    let text = files.iter().find_map(|file| fs::read_to_string(file).ok());
    let text = text.unwrap_or_else(|| panic!("{case} has no request of {door}"));
    let (_, rest) = text
        .split_once(&format!("== {dialect}\n"))
        .expect("each dialect");
    let own = rest.split("\n== ").next().unwrap_or_default();
    match own.trim_end().strip_prefix("as ") {
        Some(other) => of_door(door, case, other),
        None => own.to_owned(),
    }
}
