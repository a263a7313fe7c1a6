//! The fields that callers of Gemini can write.

use dialects::front::GEMINI;
use serde_json::{Map, Value, json};

use crate::{HIGH, MUST, Marks, Tables, UNSAID, Word};

pub const TABLES: Tables = Tables {
    front: &GEMINI,
    rows: &[MEMBERS, SETTINGS, USERS, MODELS, RESULTS],
    most: &[5, 4, 3, 3, 3],
    body,
    advice: ADVICE,
    words: &[WORDS],
    names: NAMES,
    form: &["role", "id"],
    kind,
    spelled: camel,
};

/// Members of a request.
const MEMBERS: &[&str] = &[
    r#"{"systemInstruction":"§"}"#,
    r#"{"systemInstruction":{"role":"user","parts":[{"text":"§"},{"text":"§"}]}}"#,
    r#"{"system_instruction":{"parts":[{"text":"§","novel":"§"}],"novel":"§"}}"#,
    r#"{"tools":[{"functionDeclarations":[{"name":"§","description":"§","parameters":{"type":"OBJECT","properties":{"a":{"type":"STRING","description":"§"}}}}]}]}"#,
    r#"{"tools":[{"functionDeclarations":[{"name":"§","parameters":{"type":"OBJECT","properties":{"min_items":{"type":"ARRAY","min_items":8765,"items":{"type":"STRING","max_length":8766,"pattern":"§"}}}}}]}]}"#,
    r#"{"tools":{"function_declarations":{"name":"§","parameters_json_schema":{"type":"object","properties":{"a":{"type":"string","description":"§"}}}}}}"#,
    r#"{"tools":[{"functionDeclarations":[{"name":"§","behavior":"NON_BLOCKING","response":{"type":"STRING","description":"§"},"responseJsonSchema":{"type":"string","description":"§"},"novel":"§"}]}]}"#,
    r#"{"tools":[{"functionDeclarations":[{"name":"§"}],"novel":{"a":"§"}}]}"#,
    r#"{"tools":[{"googleSearch":{"a":"§"}}]}"#,
    r#"{"tools":[{"codeExecution":{"a":"§"}}]}"#,
    r#"{"tools":[{"urlContext":{"a":"§"}}]}"#,
    r#"{"tools":[{"fileSearch":{"fileSearchStoreNames":["§"]}}]}"#,
    r#"{"tools":[{"mcpServers":[{"name":"§"}]}]}"#,
    r#"{"tools":[{"functionDeclarations":[{"name":"only"}]}],"toolConfig":{"functionCallingConfig":{"mode":"AUTO","novel":"§"},"novel":"§"}}"#,
    r#"{"tools":[{"functionDeclarations":[{"name":"only"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}"#,
    r#"{"tools":[{"functionDeclarations":[{"name":"only"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["only"]}}}"#,
    r#"{"tools":[{"functionDeclarations":[{"name":"only"}]}],"toolConfig":{"functionCallingConfig":{"mode":"NONE","streamFunctionCallArguments":true}}}"#,
    r#"{"tools":[{"functionDeclarations":[{"name":"only"}]}],"tool_config":{"function_calling_config":{"mode":"VALIDATED","allowed_function_names":["only"]}}}"#,
    r#"{"toolConfig":{"retrievalConfig":{"latLng":{"latitude":"§"},"languageCode":"§"},"includeServerSideToolInvocations":true}}"#,
    r#"{"safetySettings":[{"category":"§","threshold":"§"}]}"#,
    r#"{"cachedContent":"cachedContents/§"}"#,
    r#"{"labels":{"a":"§"}}"#,
    r#"{"serviceTier":"flex"}"#,
    r#"{"serviceTier":"standard"}"#,
    r#"{"store":true}"#,
    r#"{"store":false}"#,
    r#"{"modelArmorConfig":{"promptTemplateName":"§"}}"#,
    r#"{"novel":{"deep":["§"]}}"#,
];

/// Members of `generationConfig`.
const SETTINGS: &[&str] = &[
    r#"{"temperature":0.125}"#,
    r#"{"topP":0.375}"#,
    r#"{"topK":47}"#,
    r#"{"top_k":47,"top_p":0.375}"#,
    r#"{"candidateCount":1}"#,
    r#"{"candidateCount":2}"#,
    r#"{"maxOutputTokens":12345}"#,
    r#"{"stopSequences":["§","§"]}"#,
    r#"{"stopSequences":["§","§","§","§","§"]}"#,
    r#"{"seed":4711}"#,
    r#"{"presencePenalty":0.625}"#,
    r#"{"frequencyPenalty":0.875}"#,
    r#"{"responseMimeType":"text/plain"}"#,
    r#"{"responseMimeType":"application/json"}"#,
    r#"{"responseMimeType":"text/x.enum","responseSchema":{"type":"STRING","enum":["§"]}}"#,
    r#"{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT","properties":{"a":{"type":"STRING","description":"§"}},"required":["a"]}}"#,
    r#"{"responseMimeType":"application/json","response_schema":{"type":"OBJECT","properties":{"a":{"type":"ARRAY","items":{"type":"STRING","max_length":7654,"pattern":"§"},"min_items":7655,"max_items":7656},"b":{"any_of":[{"type":"STRING","title":"§"},{"type":"INTEGER","maximum":7657}]}},"required":["a"],"property_ordering":["a","b"]}}"#,
    r#"{"response_mime_type":"application/json","response_json_schema":{"type":"object","properties":{"a":{"type":"string","description":"§"}},"required":["a"],"additionalProperties":false}}"#,
    r#"{"responseFormat":{"text":{"mimeType":"application/json","schema":{"description":"§"}}}}"#,
    r#"{"responseModalities":["TEXT"]}"#,
    r#"{"responseModalities":["IMAGE"]}"#,
    r#"{"speechConfig":{"voiceConfig":{"prebuiltVoiceConfig":{"voiceName":"§"}}}}"#,
    r#"{"imageConfig":{"aspectRatio":"§"}}"#,
    r#"{"mediaResolution":"MEDIA_RESOLUTION_LOW"}"#,
    r#"{"audioTimestamp":true}"#,
    r#"{"responseLogprobs":true,"logprobs":7}"#,
    r#"{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"HIGH"}}"#,
    r#"{"thinking_config":{"include_thoughts":false,"thinking_budget":9876}}"#,
    r#"{"thinkingConfig":{"thinkingBudget":0}}"#,
    r#"{"thinkingConfig":{"thinkingBudget":-1,"novel":"§"}}"#,
    r#"{"routingConfig":{"autoMode":{"modelRoutingPreference":"§"}}}"#,
    r#"{"modelSelectionConfig":{"featureSelectionPreference":"§"}}"#,
    r#"{"enableEnhancedCivicAnswers":true,"enableAffectiveDialog":true}"#,
    r#"{"novel":{"deep":"§"}}"#,
];

/// Parts of a user.
const USERS: &[&str] = &[
    r#"{"text":"§"}"#,
    r#"{"text":"§","novel":"§","partMetadata":{"a":"§"}}"#,
    r#"{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo§"}}"#,
    r#"{"inline_data":{"mime_type":"image/png","data":"iVBORw0KGgo§","display_name":"§","novel":"§"},"mediaResolution":{"level":"§"}}"#,
    r#"{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0x§","displayName":"§.pdf"}}"#,
    r#"{"inlineData":{"mimeType":"text/plain","data":"aGVsbG8="}}"#,
    r#"{"inlineData":{"mimeType":"audio/wav","data":"UklG§"}}"#,
    r#"{"inlineData":{"mimeType":"video/mp4","data":"AAAA§"},"videoMetadata":{"startOffset":"§","fps":"§"}}"#,
    r#"{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/§.png","displayName":"§"}}"#,
    r#"{"fileData":{"mimeType":"application/pdf","fileUri":"https://example.com/§.pdf","displayName":"§.pdf","novel":"§"}}"#,
    r#"{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/§"}}"#,
];

/// Parts of a model, other than calls.
const MODELS: &[&str] = &[
    r#"{"text":"§"}"#,
    r#"{"text":"§","thought":true}"#,
    r#"{"text":"§","thought":true,"thoughtSignature":"§"}"#,
    r#"{"text":"§","thoughtSignature":"§"}"#,
    r#"{"executableCode":{"language":"PYTHON","code":"§","id":"e","novel":"§"}}"#,
    r#"{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"§","novel":"§"}}"#,
    r#"{"codeExecutionResult":{"outcome":"OUTCOME_FAILED","output":"§"}}"#,
    r#"{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo§"}}"#,
    r#"{"toolCall":{"toolType":"§","args":{"a":"§"}}}"#,
    r#"{"novel":{"a":"§"}}"#,
];

/// Calls and their results.
const RESULTS: &[&str] = &[
    r#"[{"functionCall":{"name":"only","args":{"a":"§","b":[{"c":"§"}]}}},{"functionResponse":{"name":"only","response":{"output":"§"}}}]"#,
    r#"[{"functionCall":{"name":"only","args":{},"novel":"§"},"thoughtSignature":"§"},{"functionResponse":{"name":"only","response":{"error":"§"},"scheduling":"WHEN_IDLE","willContinue":true}}]"#,
    r#"[{"function_call":{"name":"only"}},{"function_response":{"name":"only","response":{"output":{"a":"§"},"more":"§"}}}]"#,
    r#"[{"functionCall":{"name":"§","args":{"a":"§"}}},{"functionResponse":{"name":"§","response":{"a":["§"]}}}]"#,
    r#"[{"functionCall":{"name":"only"}},{"functionResponse":{"name":"only","response":{"output":"§"},"parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo§","displayName":"§"}}]}}]"#,
    r#"[{"functionCall":{"name":"only"}},{"functionResponse":{"name":"only","response":{},"parts":[{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0x§"}},{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/§.png"}}],"novel":"§"}}]"#,
];

/// Fields that are hints only, and fields without a meaning here.
const ADVICE: &[&str] = &[
    // The effort expresses it, or it is lost. The writer of the answer decides what is shown.
    "includeThoughts",
    // It means something to the model that made it.
    "thoughtSignature",
    // The language stands before the code.
    "language",
];

/// The forms of words, where a dialect has others.
const WORDS: &[Word] = &[
    (
        "generationConfig.thinkingConfig.thinkingLevel",
        "HIGH",
        HIGH,
    ),
    // A request without thinking needs no words for that, nor does a request that leaves thinking
    // to the model.
    (
        "generationConfig.thinkingConfig.thinkingBudget",
        "0",
        UNSAID,
    ),
    (
        "generationConfig.thinkingConfig.thinkingBudget",
        "-1",
        UNSAID,
    ),
    ("generationConfig.candidateCount", "1", UNSAID),
    ("generationConfig.responseMimeType", "text/plain", UNSAID),
    (
        "generationConfig.responseMimeType",
        "application/json",
        &[
            "\"json_object\"",
            "json_answer",
            "\"application/json\"",
            "\"format\":",
            "give_answer",
            "json_schema",
            "JsonSchema",
        ],
    ),
    ("generationConfig.responseModalities[]", "TEXT", UNSAID),
    ("toolConfig.functionCallingConfig.mode", "AUTO", UNSAID),
    ("toolConfig.functionCallingConfig.mode", "NONE", UNSAID),
    ("toolConfig.functionCallingConfig.mode", "ANY", MUST),
    (
        "toolConfig.functionCallingConfig.mode",
        "ANY",
        &[
            "\"name\":\"only\"}}",
            "\"type\":\"tool\"",
            "\"tool_choice\":{\"type\":\"function\",\"name\":\"only\"}",
        ],
    ),
    ("serviceTier", "standard", UNSAID),
    ("store", "false", UNSAID),
    // Types of a schema, and a function without parameters.
    ("type", "OBJECT", UNSAID),
    ("type", "STRING", &["\"string\"", "\\\"string\\\""]),
    ("type", "ARRAY", &["\"array\"", "\\\"array\\\""]),
    ("type", "INTEGER", &["\"integer\"", "\\\"integer\\\""]),
    (
        "tools[].functionDeclarations[].parametersJsonSchema.type",
        "object",
        UNSAID,
    ),
    (
        "contents[].parts[].thought",
        "true",
        &["\"thinking\"", "\"tool_plan\""],
    ),
    // Some formats have a word for each type.
    (
        "mimeType",
        "image/png",
        &["image/png", "\"png\"", ".png", "\"images\":["],
    ),
    (
        "mimeType",
        "application/pdf",
        &["application/pdf", "\"pdf\"", ".pdf"],
    ),
    ("mimeType", "text/plain", UNSAID),
    ("mimeType", "audio/wav", &["wav"]),
    (
        "contents[].parts[].inlineData.data",
        "aGVsbG8=",
        &["aGVsbG8=", "hello"],
    ),
    (
        "contents[].parts[].codeExecutionResult.outcome",
        "OUTCOME_OK",
        UNSAID,
    ),
    (
        "contents[].parts[].codeExecutionResult.outcome",
        "OUTCOME_FAILED",
        &["Error"],
    ),
];

/// Names that stand for others.
const NAMES: &[(&str, &str)] = &[
    // The effort, or its absence, follows from the settings.
    (
        "generationConfig.thinkingConfig",
        "generationConfig.thinkingConfig.thinkingBudget",
    ),
    // Of the format as a whole.
    (
        "generationConfig.responseMimeType",
        "generationConfig.responseSchema",
    ),
    (
        "generationConfig.responseMimeType",
        "generationConfig.responseJsonSchema",
    ),
    // Of a file, wherever it stands.
    (
        "contents[].parts[].inlineData.displayName",
        "contents[].parts[].fileData.displayName",
    ),
    (
        "contents[].parts[].inlineData.displayName",
        "contents[].parts[].functionResponse.parts[].inlineData.displayName",
    ),
];

/// A part that is a thought.
fn kind(members: &Map<String, Value>) -> Option<&str> {
    members
        .get("thought")
        .filter(|thought| **thought == true)
        .map(|_| "thought")
}

/// Google reads `mime_type` as `mimeType`.
fn camel(path: &str) -> String {
    let mut words = path.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |path, word| {
        let (letter, rest) = word.split_at(word.len().min(1));
        path + &letter.to_uppercase() + rest
    })
}

fn body(rows: &[Vec<Value>], _: &mut Marks) -> Value {
    let [members, settings, users, models, results] = rows else {
        panic!("five tables")
    };
    let mut body = json!({});
    let all = body.as_object_mut().expect("an object");
    // A name is written in one way only, and a schema at one place.
    let is_schema = |name: &str| {
        name.to_ascii_lowercase().starts_with("response")
            && name.to_ascii_lowercase().ends_with("schema")
    };
    let add = |into: &mut Map<String, Value>, row: &Value| {
        for (name, value) in row.as_object().expect("members") {
            into.retain(|known, _| {
                camel(known) != camel(name) && !(is_schema(known) && is_schema(name))
            });
            into.insert(name.clone(), value.clone());
        }
    };
    members.iter().for_each(|row| add(all, row));
    if !settings.is_empty() {
        let mut config = Map::new();
        settings.iter().for_each(|row| add(&mut config, row));
        all.insert("generationConfig".into(), config.into());
    }
    let mut user = vec![json!({"text": "hi"})];
    user.extend(users.iter().cloned());
    let mut contents = vec![json!({"role": "user", "parts": user})];
    let calls = results.iter().map(|pair| pair[0].clone());
    let model: Vec<Value> = models.iter().cloned().chain(calls).collect();
    if !model.is_empty() {
        contents.push(json!({"role": "model", "parts": model}));
        let mut parts: Vec<Value> = results.iter().map(|pair| pair[1].clone()).collect();
        parts.push(json!({"text": "so?"}));
        contents.push(json!({"role": "user", "parts": parts}));
    }
    all.insert("contents".into(), contents.into());
    body
}
