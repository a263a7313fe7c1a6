use super::*;
use crate::front::{GEMINI, PathRequest};
use crate::neutral::Refused;
use crate::neutral::{Effort, Field, Format, Media, PartKind, ToolChoice, ToolKind};
use crate::upstream::{anthropic, gemini, openai};
use crate::{Dialect, Translate};

fn request(body: &str) -> Request<'_> {
    GEMINI.envelope(body.as_bytes()).expect("an envelope");
    read_request(body.as_bytes())
        .unwrap_or_else(|why| panic!("{why:?} {body}"))
        .0
}

/// A conversation in short: role and content of each message.
fn said(body: &str) -> Vec<String> {
    let part = |part: &crate::neutral::Part<'_>| match &part.kind {
        PartKind::Text(text) => text.to_string(),
        PartKind::Image(Media::Inline(kind, data), _) => format!("picture {kind} {data}"),
        PartKind::Image(media, _) => format!("picture {media:?}"),
        PartKind::Audio(data, format) => format!("sound {format} {data}"),
        PartKind::File(Media::Inline(kind, data), name) => format!("file {kind} {data} {name:?}"),
        PartKind::File(media, name) => format!("file {media:?} {name:?}"),
    };
    let message = |message: &Message<'_>| {
        let content: Vec<String> = message.content.iter().map(part).collect();
        let calls: Vec<String> = message
            .calls
            .iter()
            .map(|call| format!("{}={}{}", call.id, call.name, call.arguments))
            .collect();
        let of = message.tool_call_id.as_deref().unwrap_or_default();
        format!(
            "{:?} {of}{}{}",
            message.role,
            content.join("|"),
            calls.join(",")
        )
    };
    request(body).messages.iter().map(message).collect()
}

#[track_caller]
fn check_said(contents: &str, expected: &[&str]) {
    assert_eq!(
        said(&format!(r#"{{"contents":{contents}}}"#)),
        expected,
        "{contents}"
    );
}

#[track_caller]
fn check_refused(body: &str, param: &str) {
    let refused = read_request(body.as_bytes()).expect_err(body);
    let (Refused::Invalid(why) | Refused::Unsupported(why)) = refused;
    assert_eq!(why.param, param, "{body}: {}", why.message);
}

/// A coding agent's request after two calls at once, one of which read a picture.
const TURN: &str = r#"{
    "contents": [
        {"parts": [{"text": "<context>here</context>"}, {"text": "look at both"}], "role": "user"},
        {"parts": [
            {"text": "First I think.", "thought": true},
            {"text": "I look."},
            {"functionCall": {"id": "call_x_0_0", "args": {"path": "a.txt"}, "name": "read.file"},
             "thoughtSignature": "skip_thought_signature_validator"},
            {"functionCall": {"id": "call_x_0_1", "args": {"path": "b.png"}, "name": "read.file"}}
        ], "role": "model"},
        {"parts": [
            {"functionResponse": {"id": "call_x_0_0", "name": "read.file", "response": {"output": "it says 42\n"}}},
            {"functionResponse": {"id": "call_x_0_1", "name": "read.file", "response": {"output": "one picture"}}},
            {"inlineData": {"data": "iVBORw0KGgo=", "mimeType": "image/png"}}
        ], "role": "user"}
    ],
    "systemInstruction": {"parts": [{"text": "You help."}], "role": "user"},
    "tools": [{"functionDeclarations": [
        {"name": "read.file", "description": "Reads a file.", "parametersJsonSchema":
            {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"],
             "$schema": "http://json-schema.org/draft-07/schema#"}},
        {"name": "list", "parameters": {"type": "OBJECT", "properties": {"deep": {"type": "BOOLEAN"}}}}
    ]}],
    "generationConfig": {"temperature": 1, "topP": 0.95, "topK": 64,
        "thinkingConfig": {"includeThoughts": true, "thinkingLevel": "HIGH"}}
}"#;

#[test]
fn an_agents_turn_is_read() {
    assert_eq!(
        said(TURN),
        [
            "System You help.",
            "User <context>here</context>|look at both",
            r#"Assistant I look.call_x_0_0=read.file{"path": "a.txt"},call_x_0_1=read.file{"path": "b.png"}"#,
            "Tool call_x_0_0it says 42\n",
            "Tool call_x_0_1one picture",
            "User picture image/png iVBORw0KGgo=",
        ]
    );
    let request = request(TURN);
    assert_eq!(request.thinking.effort, Some(Effort::High));
    assert_eq!(
        (request.temperature.map(|number| number.text), request.top_k),
        (Some("1"), Some(64))
    );
    assert_eq!(
        request.messages[2].reasoning.as_deref(),
        Some("First I think.")
    );
    assert!(
        request.messages[2]
            .calls
            .iter()
            .all(|call| call.signature.is_none())
    );
    assert!(
        request.others.is_empty()
            && request
                .messages
                .iter()
                .all(|message| message.others.is_empty())
    );
    let [file, list] = &request.tools[..] else {
        panic!()
    };
    assert!(
        matches!(&file.kind, ToolKind::Function(Some(schema), None) if schema.contains("draft-07"))
    );
    let expected = r#"{"type": "object", "properties": {"deep": {"type": "boolean"}}}"#;
    assert!(matches!(&list.kind, ToolKind::Function(Some(schema), None) if schema == expected));
}

#[test]
fn a_question_which_model_to_take_is_read() {
    let body = r#"{"contents":[{"parts":[{"text":"a"}],"role":"user"},{"parts":[{"text":"b"}],"role":"user"}],
        "generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"OBJECT","properties":{"score":{"type":"INTEGER"}}}}}"#;
    let request = request(body);
    let Some(Format::JsonSchema {
        schema: Some(schema),
        strict: None,
        ..
    }) = request.format
    else {
        panic!()
    };
    assert_eq!(
        schema,
        r#"{"type":"object","properties":{"score":{"type":"integer"}}}"#
    );
    assert!(GEMINI.envelope(body.as_bytes()).unwrap().wants_json);
}

#[test]
fn a_schema_that_is_nullable_allows_null_upstream() {
    let body = |schema: &str| {
        let settings =
            format!(r#"{{"responseMimeType":"application/json","responseSchema":{schema}}}"#);
        format!(r#"{{"contents":[{{"parts":[{{"text":"x"}}]}}],"generationConfig":{settings}}}"#)
    };
    let properties = r#"{"size":{"anyOf":[{"type":"INTEGER"},{"type":"STRING"}],"nullable":true},"k":{"type":"STRING","enum":["a","b"],"nullable":true}}"#;
    let pydantic = body(&format!(r#"{{"type":"OBJECT","properties":{properties}}}"#));
    let null = serde_json::json!({"type": "null"});
    for (target, model, place) in [
        (
            Dialect::from(&openai::PROTOCOL),
            "m",
            "/response_format/json_schema/schema",
        ),
        (
            Dialect::from(&anthropic::PROTOCOL),
            "claude-sonnet-4-5",
            "/output_config/format/schema",
        ),
    ] {
        let (body, losses) = written(&target, &pydantic, model);
        let schema = body.pointer(place).unwrap_or_else(|| panic!("{body}"));
        assert_eq!(schema["properties"]["size"]["anyOf"][2], null, "{body}");
        assert_eq!(
            schema["properties"]["k"]["type"],
            serde_json::json!(["string", "null"]),
            "{body}"
        );
        assert_eq!(
            schema["properties"]["k"]["enum"],
            serde_json::json!(["a", "b", null]),
            "{body}"
        );
        assert_eq!(losses, "");
    }
    let not =
        body(r#"{"type":"OBJECT","properties":{"a":{"not":{"type":"NULL"},"nullable":true}}}"#);
    let (_, losses) = written(&Dialect::from(&openai::PROTOCOL), &not, "m");
    assert_eq!(losses, "generationConfig.responseSchema");
    let tools = r#"{"contents":[{}],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"not":{},"nullable":true}}]}]}"#;
    let names: Vec<String> = request(tools)
        .others
        .iter()
        .map(|(name, _)| name.to_string())
        .collect();
    assert_eq!(names, ["tools[].functionDeclarations[].parameters"]);
}

#[test]
fn single_elements_need_no_array_and_underscores_work() {
    let body = r#"{"system_instruction":{"parts":{"text":"s"}},"contents":{"parts":{"text":"u"}},
        "tools":{"function_declarations":{"name":"f","parameters_json_schema":{}}},
        "tool_config":{"function_calling_config":{"mode":"any","allowed_function_names":["f"]}},
        "generation_config":{"max_output_tokens":5,"stop_sequences":["x"],"response_mime_type":"application/json",
            "thinking_config":{"thinking_budget":0}}}"#;
    assert_eq!(said(body), ["System s", "User u"]);
    let request = request(body);
    assert_eq!(
        (
            request.max_tokens,
            request.thinking.effort,
            request.stop.len()
        ),
        (Some(5), Some(Effort::None), 1)
    );
    assert_eq!(request.tool_choice, Some(ToolChoice::Named("f".into())));
    assert_eq!(request.format, Some(Format::JsonObject));
    assert_eq!(
        said(r#"{"systemInstruction":"s","contents":[{"parts":[]}]}"#),
        ["System s", "User "]
    );
    check_said(
        r#"[{"parts":[{"inline_data":{"mime_type":"image/jpg","data":"AA"}},{"function_response":{"name":"f","response":{}}}]}]"#,
        &["Tool result_0_0{}", "User picture image/jpeg AA"],
    );
}

#[test]
fn what_the_model_said_in_pieces_is_one_message() {
    check_said(
        r#"[{"parts":[{"text":"a"},{"text":"b"}]},{"role":"model","parts":[{"text":"I "},{"text":"lo"}]},
            {"role":"model","parts":[{"text":"ok."}]},{"role":"model","parts":[{"functionCall":{"name":"f"}}]},
            {"role":"model","parts":[{"functionCall":{"name":"f"}},{"text":""}]},
            {"parts":[{"functionResponse":{"name":"f"}},{"functionResponse":{"name":"f"}}]},{"role":"model","parts":[]}]"#,
        &[
            "User a|b",
            "Assistant I look.call_3_0=f{},call_4_0=f{}",
            "Tool call_3_0",
            "Tool call_4_0",
            "Assistant ",
        ],
    );
}

#[test]
fn no_body_panics() {
    let nothing = crate::front::references::AllowedReferences {
        gs: false,
        s3: false,
        files: false,
        data_sources: false,
        cached: false,
        urls: crate::front::references::Urls::None,
    };
    let try_it = |body: &[u8]| {
        if GEMINI.envelope(body).is_ok() {
            let _read = read_request(body);
        }
        let _read = (
            read_request(body).is_ok(),
            GEMINI.contents.check(&nothing, body).is_ok(),
        );
    };
    for at in 0..TURN.len() {
        try_it(&TURN.as_bytes()[..at]);
        for byte in *b"\"{[]},:0n\\ \xff" {
            let mut body = TURN.as_bytes().to_vec();
            body[at] = byte;
            try_it(&body);
        }
    }
    for value in [
        "null",
        "0",
        "true",
        "\"x\"",
        "[]",
        "{}",
        "[null]",
        "[[]]",
        "[{}]",
        "{\"parts\":[[]]}",
    ] {
        for name in [
            "contents",
            "systemInstruction",
            "tools",
            "toolConfig",
            "generationConfig",
            "cachedContent",
            "serviceTier",
            "safetySettings",
            "x",
        ] {
            try_it(format!(r#"{{"contents":[{{"parts":[{{}}]}}],"{name}":{value}}}"#).as_bytes());
            try_it(format!(r#"{{"{name}":{value}}}"#).as_bytes());
        }
    }
}

#[test]
fn media_are_what_their_type_says() {
    for (part, expected) in [
        (
            r#"{"inlineData":{"mimeType":"image/webp","data":"AA"}}"#,
            "picture image/webp AA",
        ),
        (
            r#"{"inlineData":{"mimeType":"audio/x-wav","data":"AA"}}"#,
            "sound wav AA",
        ),
        (
            r#"{"inlineData":{"mimeType":"audio/mpeg","data":"AA"}}"#,
            "sound mp3 AA",
        ),
        (
            r#"{"inlineData":{"mimeType":"audio/L16;rate=16000","data":"AA"}}"#,
            "sound l16 AA",
        ),
        (
            r#"{"inlineData":{"mimeType":"application/pdf","data":"AA","displayName":"a.pdf"}}"#,
            r#"file application/pdf AA Some("a.pdf")"#,
        ),
        (
            r#"{"inlineData":{"mimeType":"text/plain","data":"AA"}}"#,
            "file text/plain AA None",
        ),
        (
            r#"{"fileData":{"mimeType":"image/png","fileUri":"https://x/y"}}"#,
            r#"picture Url("https://x/y")"#,
        ),
        (
            r#"{"fileData":{"fileUri":"https://x/y.png"}}"#,
            r#"picture Url("https://x/y.png")"#,
        ),
        (
            r#"{"fileData":{"mimeType":"video/mp4","fileUri":"gs://b/v"}}"#,
            r#"file Url("gs://b/v") None"#,
        ),
    ] {
        check_said(
            &format!(r#"[{{"parts":[{part}]}}]"#),
            &[&format!("User {expected}")],
        );
    }
    let part = |part: &str| format!(r#"{{"contents":[{{"parts":[{{"text":"a"}},{part}]}}]}}"#);
    for (refused, param) in [
        (
            r#"{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/a"}}"#,
            "fileData.fileUri",
        ),
        (r#"{"fileData":{"fileUri":"files/a"}}"#, "fileData.fileUri"),
        (r#"{"fileData":{"fileUri":"a"}}"#, "fileData.fileUri"),
        (r#"{"fileData":{}}"#, "fileData.fileUri"),
        (r#"{"inlineData":{"data":"AA"}}"#, "inlineData.mimeType"),
        (
            r#"{"inlineData":{"mimeType":"x","data":"AA"}}"#,
            "inlineData.mimeType",
        ),
        (
            r#"{"inlineData":{"mimeType":"image/png"}}"#,
            "inlineData.data",
        ),
    ] {
        check_refused(&part(refused), &format!("contents[0].parts[1].{param}"));
    }
}

#[test]
fn results_without_ids_match_by_name_and_order() {
    let call = |id: &str, name: &str| format!(r#"{{"functionCall":{{{id}"name":"{name}"}}}}"#);
    let result = |id: &str, name: &str, n: u32| {
        format!(r#"{{"functionResponse":{{{id}"name":"{name}","response":{{"n":{n}}}}}}}"#)
    };
    let turns = |calls: &[String], results: &[String]| {
        let (calls, results) = (calls.join(","), results.join(","));
        format!(r#"{{"role":"model","parts":[{calls}]}},{{"role":"user","parts":[{results}]}}"#)
    };
    let none = "";
    let one = turns(
        &[call(none, "f"), call(none, "g"), call(none, "f")],
        &[
            result(none, "f", 1),
            result(none, "f", 2),
            result(none, "g", 3),
            result(none, "g", 4),
        ],
    );
    let two = turns(
        &[
            call(r#""id":"a","#, "f"),
            call(r#""id":"b","#, "f"),
            call(r#""id":"","#, "f"),
        ],
        &[
            result(r#""id":"b","#, "f", 1),
            result(none, "f", 2),
            result(r#""id":"z","#, "f", 3),
            result(r#""id":"y","#, "h", 4),
        ],
    );
    check_said(
        &format!("[{one},{two}]"),
        &[
            "Assistant call_0_0=f{},call_0_1=g{},call_0_2=f{}",
            r#"Tool call_0_0{"n":1}"#,
            r#"Tool call_0_2{"n":2}"#,
            r#"Tool call_0_1{"n":3}"#,
            r#"Tool result_1_3{"n":4}"#,
            "Assistant a=f{},b=f{},call_2_2=f{}",
            r#"Tool b{"n":1}"#,
            r#"Tool a{"n":2}"#,
            r#"Tool call_2_2{"n":3}"#,
            r#"Tool y{"n":4}"#,
        ],
    );
}

#[test]
fn a_result_is_the_text_of_a_tool() {
    for (response, expected) in [
        (r#"{"output":"a\nb"}"#, "a\nb"),
        (r#"{"error":"no"}"#, "Error: no"),
        (r#"{"error":{"code":1}}"#, r#"Error: {"code":1}"#),
        (r#"{"output":7}"#, r#"{"output":7}"#),
        (r#"{"output":"a","more":1}"#, r#"{"output":"a","more":1}"#),
        ("{}", "{}"),
        ("null", ""),
    ] {
        let part =
            format!(r#"{{"functionResponse":{{"id":"i","name":"f","response":{response}}}}}"#);
        check_said(
            &format!(r#"[{{"role":"function","parts":[{part}]}}]"#),
            &[&format!("Tool i{expected}")],
        );
    }
    check_said(
        r#"[{"parts":[{"functionResponse":{"id":"i","name":"f","response":{"output":"a"},"parts":[{"inlineData":{"mimeType":"image/png","data":"AA"}}]}}]}]"#,
        &["Tool ia|picture image/png AA"],
    );
    check_said(
        r#"[{"role":"model","parts":[{"executableCode":{"language":"PYTHON","code":"1"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}]}]"#,
        &["Assistant \n```python\n1\n```\n\n```\n1\n```\n"],
    );
}

#[test]
fn what_cannot_be_said_is_refused_by_its_path() {
    let base = r#""contents":[{"parts":[{"text":"a"}]}]"#;
    for (more, param) in [
        (r#""cachedContent":"cachedContents/a""#, "cachedContent"),
        (
            r#""tools":[{"functionDeclarations":[]},{"googleSearch":{}}]"#,
            "tools[1].googleSearch",
        ),
        (r#""tools":[{"url_context":{}}]"#, "tools[0].url_context"),
        (
            r#""tools":[{"functionDeclarations":[{"description":"x"}]}]"#,
            "tools[0].functionDeclarations[0].name",
        ),
        (
            r#""tools":[{"functionDeclarations":[{"name":"f"},{"name":"f"}]}]"#,
            "tools[0].functionDeclarations[1].name",
        ),
        (
            r#""toolConfig":{"functionCallingConfig":{"mode":"SOME"}}"#,
            "toolConfig.functionCallingConfig.mode",
        ),
        (
            r#""tools":[{"functionDeclarations":[{"name":"f"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["g"]}}"#,
            "toolConfig.functionCallingConfig.allowedFunctionNames",
        ),
        (
            r#""generationConfig":{"responseModalities":["TEXT","IMAGE"]}"#,
            "generationConfig.responseModalities[1]",
        ),
        (
            r#""generationConfig":{"speechConfig":{"a":1}}"#,
            "generationConfig.speechConfig",
        ),
        (
            r#""generationConfig":{"responseMimeType":"text/x.enum"}"#,
            "generationConfig.responseMimeType",
        ),
        (
            r#""generationConfig":{"responseMimeType":"text/plain","responseSchema":{}}"#,
            "generationConfig.responseMimeType",
        ),
        (
            r#""generationConfig":{"thinkingConfig":{"thinkingLevel":"SOME"}}"#,
            "generationConfig.thinkingConfig.thinkingLevel",
        ),
        (
            r#""generationConfig":{"temperature":"hot"}"#,
            "generationConfig.temperature",
        ),
        (
            r#""generationConfig":{"maxOutputTokens":-1}"#,
            "generationConfig.maxOutputTokens",
        ),
        (
            r#""generationConfig":{"topP":1,"topP":2}"#,
            "generationConfig.topP",
        ),
    ] {
        check_refused(&format!("{{{base},{more}}}"), param);
    }
    for (contents, param) in [
        (r#"[{"role":"system","parts":[]}]"#, "contents[0].role"),
        (
            r#"[{"parts":[{"functionCall":{"name":"f"}}]}]"#,
            "contents[0].parts",
        ),
        (
            r#"[{"role":"model","parts":[{"functionResponse":{"name":"f"}}]}]"#,
            "contents[0].parts",
        ),
        (
            r#"[{"role":"model","parts":[{"functionCall":{}}]}]"#,
            "contents[0].parts[0].functionCall.name",
        ),
        (
            r#"[{"role":"model","parts":[{"functionCall":{"name":"f","args":"x"}}]}]"#,
            "contents[0].parts[0].functionCall.args",
        ),
        (
            r#"[{"parts":[{"functionResponse":{}}]}]"#,
            "contents[0].parts[0].functionResponse.name",
        ),
        (r#"[{"parts":[null]}]"#, "contents[0].parts[0]"),
        (r#"[{"parts":"x"}]"#, "contents[0].parts"),
    ] {
        check_refused(&format!(r#"{{"contents":{contents}}}"#), param);
    }
    check_refused(
        r#"{"systemInstruction":{"parts":[{"functionCall":{"name":"f"}}]}}"#,
        "systemInstruction.parts",
    );
}

#[test]
fn what_only_advises_is_named_as_lost() {
    let body = r#"{"contents":[{"parts":[{"text":"a","videoMetadata":{"fps":1}},{"toolCall":{"x":1}}]}],
        "safetySettings":[{"category":"c","threshold":"OFF"}],"labels":{"a":"b"},"store":false,"model":"models/m",
        "toolConfig":{"retrievalConfig":{"x":1}},
        "tools":[{"functionDeclarations":[{"name":"f","response":{"type":"STRING"}}],"googleSearch":null}],
        "generationConfig":{"mediaResolution":"MEDIA_RESOLUTION_LOW","responseLogprobs":true,"audioTimestamp":false,
            "thinkingConfig":{"thinkingBudget":-1},"candidateCount":1,"responseModalities":["TEXT"]}}"#;
    let request = request(body);
    let mut names: Vec<&str> = request.others.iter().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "generationConfig.mediaResolution",
            "generationConfig.responseLogprobs",
            "labels",
            "safetySettings",
            "toolConfig.retrievalConfig",
            "tools[].functionDeclarations[].response",
        ]
    );
    assert_eq!(
        request.messages[0].others,
        ["parts[].videoMetadata", "parts[].toolCall"]
    );
    assert_eq!((request.thinking.effort, request.n), (None, None));
}

#[test]
fn choices_of_functions() {
    let choice = |config: &str| {
        let tools = r#""tools":[{"functionDeclarations":[{"name":"f"},{"name":"g"}]}]"#;
        let body = format!(
            r#"{{"contents":[{{"parts":[]}}],{tools},"toolConfig":{{"functionCallingConfig":{{{config}}}}}}}"#
        );
        request(&body)
            .tool_choice
            .map(|choice| format!("{choice:?}"))
            .unwrap_or_default()
    };
    for (config, expected) in [
        ("", ""),
        (r#""mode":"MODE_UNSPECIFIED""#, ""),
        (r#""mode":"AUTO""#, "Auto"),
        (r#""mode":"VALIDATED""#, "Auto"),
        (r#""mode":"NONE""#, "None"),
        (r#""mode":"ANY""#, "Required"),
        (
            r#""mode":"ANY","allowedFunctionNames":["f"]"#,
            r#"Named("f")"#,
        ),
        (
            r#""mode":"ANY","allowedFunctionNames":["f","g"]"#,
            r#"Allowed { must_call: true, names: ["f", "g"] }"#,
        ),
        (
            r#""mode":"VALIDATED","allowedFunctionNames":["f"]"#,
            r#"Allowed { must_call: false, names: ["f"] }"#,
        ),
    ] {
        assert_eq!(choice(config), expected, "{config}");
    }
    let alone =
        r#"{"contents":[{"parts":[]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}"#;
    assert_eq!(request(alone).tool_choice, None);
}

#[test]
fn settings_of_the_answer() {
    let effort = |config: &str| {
        let body = format!(
            r#"{{"contents":[{{"parts":[]}}],"generationConfig":{{"thinkingConfig":{{{config}}}}}}}"#
        );
        request(&body).thinking.effort
    };
    for (config, expected) in [
        ("", None),
        (r#""thinkingLevel":"minimal""#, Some(Effort::Minimal)),
        (
            r#""thinkingLevel":"XHIGH","thinkingBudget":0"#,
            Some(Effort::Xhigh),
        ),
        (r#""thinkingBudget":-1"#, None),
        (r#""thinkingBudget":0"#, Some(Effort::None)),
        (r#""thinkingBudget":512"#, Some(Effort::Minimal)),
        (r#""thinkingBudget":1024"#, Some(Effort::Low)),
        (r#""thinkingBudget":8192"#, Some(Effort::Medium)),
        (r#""thinkingBudget":24576"#, Some(Effort::High)),
        (r#""thinkingBudget":32768"#, Some(Effort::Xhigh)),
    ] {
        assert_eq!(effort(config), expected, "{config}");
    }
    let request = request(
        r#"{"contents":[{"parts":[]}],"serviceTier":"STANDARD","generationConfig":{"candidateCount":3,"seed":-7,
        "presencePenalty":0.5,"frequencyPenalty":-0.5,"maxOutputTokens":64}}"#,
    );
    assert_eq!(
        (request.n, request.seed, request.max_tokens),
        (Some(3), Some(-7), Some(64))
    );
    assert_eq!(request.service_tier.as_deref(), Some("default"));
    let penalties = [request.penalties.presence, request.penalties.frequency]
        .map(|number| number.map(|n| n.text));
    assert_eq!(penalties, [Some("0.5"), Some("-0.5")]);
}

/// Returns the request that is written for a target, and the losses.
fn written(dialect: &Dialect, body: &str, model: &str) -> (serde_json::Value, String) {
    let body = bytes::Bytes::copy_from_slice(body.as_bytes());
    let envelope = GEMINI.envelope(&body).unwrap();
    let envelope = envelope.with_path(PathRequest {
        model: Some("callers".into()),
        stream: true,
    });
    let job = Translate {
        traits: (dialect.protocol.traits)(model),
        default_max_tokens: Some(100),
        // Where thinking is hidden, nothing passes.
        hide_reasoning: true,
        ..Translate::new(&body, &envelope, model)
    };
    let outbound = dialect.write(&job).unwrap_or_else(|why| panic!("{why:?}"));
    (
        serde_json::from_slice(&outbound.body.concat()).unwrap(),
        outbound.losses.names().join(" "),
    )
}

#[test]
fn an_agents_turn_is_written_for_openai() {
    let (body, losses) = written(&Dialect::from(&openai::PROTOCOL), TURN, "gpt-5");
    assert_eq!(
        (body["model"].as_str(), body["stream"].as_bool()),
        (Some("gpt-5"), Some(true))
    );
    assert_eq!(body["reasoning_effort"], "high");
    let roles: Vec<_> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].clone())
        .collect();
    assert_eq!(
        roles,
        ["system", "user", "assistant", "tool", "tool", "user"]
    );
    assert_eq!(
        body["messages"][2]["tool_calls"][0]["function"]["name"],
        "read_file"
    );
    assert_eq!(body["messages"][3]["tool_call_id"], "call_x_0_0");
    assert_eq!(
        body["messages"][5]["content"][0]["image_url"]["url"],
        "data:image/png;base64,iVBORw0KGgo="
    );
    assert_eq!(
        body["tools"][1]["function"]["parameters"]["properties"]["deep"]["type"],
        "boolean"
    );
    assert_eq!(losses, "contents[].parts[].thought generationConfig.topK");
}

#[test]
fn an_agents_turn_is_written_for_both_formats() {
    let (body, _) = written(
        &Dialect::from(&anthropic::PROTOCOL),
        TURN,
        "claude-sonnet-4-5",
    );
    assert_eq!(body["messages"][1]["content"][1]["type"], "tool_use");
    let results = body["messages"][2]["content"].as_array().unwrap();
    let kinds: Vec<_> = results.iter().map(|block| block["type"].clone()).collect();
    assert_eq!(kinds, ["tool_result", "tool_result", "image"]);
    assert_eq!(
        (body["system"].is_null(), body["top_k"].as_u64()),
        (false, Some(64))
    );
    let (body, losses) = written(&Dialect::from(&gemini::PROTOCOL), TURN, "gemini-3.8-flash");
    assert_eq!(
        body["contents"][1]["parts"][1]["functionCall"]["name"],
        "read.file"
    );
    assert_eq!(
        body["contents"][2]["parts"][0]["functionResponse"]["response"]["output"],
        "it says 42\n"
    );
    assert_eq!(body["generationConfig"]["topK"], 64);
    assert_eq!(losses, "contents[].parts[].thought");
}

/// A schema is lost by the name that the caller wrote.
#[test]
fn a_schema_is_named_as_it_is_written() {
    let names = |body: &str| {
        let (request, names) =
            read_request(body.as_bytes()).unwrap_or_else(|why| panic!("{why:?} {body}"));
        [Field::FormatSchema, Field::ToolParameters]
            .map(|field| names.name(&request, &field).into_owned())
    };
    let [schema, parameters] = [
        "generationConfig.responseJsonSchema",
        "tools[].functionDeclarations[].parameters",
    ];
    assert_eq!(names(r#"{"contents":[]}"#), [schema, parameters]);
    for name in [
        "responseSchema",
        "response_schema",
        "responseJsonSchema",
        "response_json_schema",
    ] {
        let body = format!(r#"{{"contents":[],"generation_config":{{"{name}":{{}}}}}}"#);
        assert_eq!(
            names(&body),
            [&format!("generationConfig.{name}"), parameters]
        );
    }
    for name in [
        "parameters",
        "parametersJsonSchema",
        "parameters_json_schema",
    ] {
        let body = format!(
            r#"{{"contents":[],"tools":[{{"functionDeclarations":[{{"name":"f","{name}":{{}}}}]}}]}}"#
        );
        assert_eq!(
            names(&body),
            [schema, &format!("tools[].functionDeclarations[].{name}")]
        );
    }
    let both = r#"{"tools":{"functionDeclarations":[{"name":"f","parameters":{}},{"name":"g","parametersJsonSchema":{}}]}}"#;
    assert_eq!(names(both), [schema, parameters]);
}
