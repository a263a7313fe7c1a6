use proptest::prelude::*;

use super::*;
use crate::neutral::Refused;
use crate::wire::json::Cursor;

use crate::neutral::{
    Call, Media, Message, Number, Part, PartKind, Thought, Tool, ToolChoice, ToolKind,
};

fn leaked(text: &str) -> &'static [u8] {
    Box::leak(text.to_owned().into_boxed_str()).as_bytes()
}

/// A body with these messages; `~` adds further fields behind them.
fn body(messages: &str) -> &'static [u8] {
    let (messages, fields) = messages.split_once('~').unwrap_or((messages, ""));
    let comma = if fields.is_empty() { "" } else { "," };
    leaked(&format!(
        r#"{{"model":"m","messages":[{messages}]{comma}{fields}}}"#
    ))
}

/// Returns the request that has these fields and one message.
#[track_caller]
fn request(fields: &str) -> Request<'static> {
    spelled(fields).0
}

/// Returns the request, and the names in it that are not the usual ones.
#[track_caller]
fn spelled(fields: &str) -> (Request<'static>, Vec<(Field, &'static str)>) {
    let (mut request, names) = read_request(body(&format!(
        r#"{{"role":"user","content":"x"}}~{fields}"#
    )))
    .unwrap();
    request.messages.clear();
    (request, names.written)
}

/// Checks that the fields change nothing but the values that `expected` changes.
#[track_caller]
fn check(fields: &str, expected: impl FnOnce(&mut Request<'static>)) {
    check_spelled(fields, |request, _| expected(request));
}

/// Checks that the fields change nothing but the values that `expected` changes, in the request and
/// in its names.
#[track_caller]
fn check_spelled(
    fields: &str,
    expected: impl FnOnce(&mut Request<'static>, &mut Vec<(Field, &'static str)>),
) {
    let (mut request, mut names) = (Request::default(), Vec::new());
    expected(&mut request, &mut names);
    assert_eq!(spelled(fields), (request, names), "{fields}");
}

fn part(part: &Part<'_>) -> String {
    let cache = match &part.cache {
        None => String::new(),
        Some(cache) => format!("!{}", cache.ttl.as_deref().unwrap_or("")),
    };
    format!("{:?}{cache}", part.kind)
}

fn call(call: &Call<'_>) -> String {
    let custom = if call.is_custom { "custom " } else { "" };
    let signature = call
        .signature
        .as_ref()
        .map_or(String::new(), |signature| format!("~{signature}"));
    format!(
        "{custom}{}={}({}){signature}",
        call.id, call.name, call.arguments
    )
}

fn thought(thought: &Thought<'_>) -> String {
    match (&thought.redacted, &thought.signature) {
        (Some(data), _) => format!("#{data}"),
        (None, signature) => format!("{}@{}", thought.text, signature.as_deref().unwrap_or("?")),
    }
}

fn message(message: &Message<'_>) -> String {
    let Message {
        role,
        content,
        name,
        calls,
        tool_call_id,
        reasoning,
        thoughts,
        cache,
        others,
        caller_index: _,
    } = message;
    let mut told = vec![format!("{role:?}")];
    told.extend(content.iter().map(part));
    told.extend(name.iter().map(|name| format!("name={name}")));
    told.extend(calls.iter().map(call));
    told.extend(tool_call_id.iter().map(|id| format!("to={id}")));
    told.extend(reasoning.iter().map(|text| format!("reasoning={text}")));
    told.extend(thoughts.iter().map(thought));
    told.extend(cache.iter().map(|_| "cache".to_owned()));
    told.extend(others.iter().map(|name| format!(";{name}")));
    told.join(" ")
}

/// The messages, one a line.
#[track_caller]
fn said(messages: &str, expected: &[&str]) {
    let (request, _) =
        read_request(body(messages)).unwrap_or_else(|why| panic!("{messages}: {why:?}"));
    let told: Vec<String> = request.messages.iter().map(message).collect();
    assert_eq!(told, expected, "{messages}");
}

/// The content of a user's message.
#[track_caller]
fn parts(content: &str, expected: &[&str]) {
    let (request, _) = read_request(body(&format!(r#"{{"role":"user","content":{content}}}"#)))
        .unwrap_or_else(|why| panic!("{content}: {why:?}"));
    let told: Vec<String> = request.messages[0].content.iter().map(part).collect();
    assert_eq!(told, expected, "{content}");
}

#[track_caller]
fn told(body: &[u8]) -> String {
    match read_request(body) {
        Ok((request, _)) => panic!("read {}: {request:?}", String::from_utf8_lossy(body)),
        Err(Refused::Invalid(complaint)) => format!("{} | {}", complaint.param, complaint.message),
        Err(Refused::Unsupported(complaint)) => {
            format!("unsupported {} | {}", complaint.param, complaint.message)
        }
    }
}

/// Checks the field at fault, and the reason.
#[track_caller]
fn refused(messages: &str, param: &str, why: &str) {
    assert_eq!(
        told(body(messages)),
        format!("{param} | `{param}` {why}"),
        "{messages}"
    );
}

#[track_caller]
fn refused_fields(fields: &str, param: &str, why: &str) {
    refused(
        &format!(r#"{{"role":"user","content":"x"}}~{fields}"#),
        param,
        why,
    );
}

#[track_caller]
fn unsupported(messages: &str, param: &str) {
    let told = told(body(messages));
    assert!(
        told.starts_with(&format!("unsupported {param} | `{param}`: ")),
        "{told}"
    );
}

#[test]
fn the_fields_of_a_request() {
    let number = |text: &'static str, value| Some(Number { text, value });
    check("", |_| {});
    check(
        r#""stream":true,"stream_options":{"include_usage":true}"#,
        |_| {},
    );
    check(r#""temperature":0.70"#, |it| {
        it.temperature = number("0.70", 0.7)
    });
    check(r#""temperature":-0"#, |it| {
        it.temperature = number("-0", -0.0)
    });
    check(r#""top_p":1"#, |it| it.top_p = number("1", 1.0));
    check(
        r#""frequency_penalty":-2.0,"presence_penalty":1e-1"#,
        |it| {
            it.penalties.frequency = number("-2.0", -2.0);
            it.penalties.presence = number("1e-1", 0.1);
        },
    );
    check(r#""top_k":40"#, |it| it.top_k = Some(40));
    check(r#""top_k":-1"#, |_| {});
    check(r#""top_k":0"#, |_| {});
    // No limit, as llama.cpp's and Ollama's clients write it.
    check(r#""max_tokens":-1"#, |_| {});
    check(r#""max_completion_tokens":-1,"max_tokens":5"#, |it| {
        it.max_tokens = Some(5)
    });
    check(r#""stop":"a\n""#, |it| it.stop = vec!["a\n".into()]);
    check(r#""stop":["a","b"]"#, |it| {
        it.stop = vec!["a".into(), "b".into()]
    });
    check(r#""stop":[]"#, |_| {});
    check(r#""seed":-7"#, |it| it.seed = Some(-7));
    check(r#""n":1"#, |_| {});
    check(r#""n":2"#, |it| it.n = Some(2));
    check(r#""logprobs":true"#, |it| it.logprobs = true);
    check(r#""logprobs":true,"top_logprobs":0"#, |it| {
        it.logprobs = true
    });
    check(r#""top_logprobs":3"#, |it| it.logprobs = true);
    check(r#""logprobs":false,"top_logprobs":0"#, |_| {});
    check(r#""parallel_tool_calls":false"#, |it| {
        it.parallel_tool_calls = Some(false)
    });
    check(r#""metadata":{"a":"b"}"#, |it| {
        it.metadata = Some(Raw(r#"{"a":"b"}"#))
    });
    check(r#""metadata":{}"#, |_| {});
    check(r#""service_tier":"flex""#, |it| {
        it.service_tier = Some("flex".into())
    });
    check(r#""modalities":["text"]"#, |_| {});
    check(r#""modalities":["text","audio"]"#, |it| {
        it.wants_audio = true
    });
    check(r#""audio":{"voice":"x","format":"wav"}"#, |it| {
        it.wants_audio = true
    });
}

#[test]
fn efforts() {
    let words = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    let efforts = [
        Effort::None,
        Effort::Minimal,
        Effort::Low,
        Effort::Medium,
        Effort::High,
        Effort::Xhigh,
        Effort::Max,
    ];
    for (word, effort) in words.into_iter().zip(efforts) {
        check(&format!(r#""reasoning_effort":"{word}""#), |it| {
            it.thinking.effort = Some(effort)
        });
    }
    let why = "must be one of `none`, `minimal`, `low`, `medium`, `high`, `xhigh` and `max`";
    refused_fields(r#""reasoning_effort":"more""#, "reasoning_effort", why);
    refused_fields(
        r#""reasoning_effort":3"#,
        "reasoning_effort",
        "must be a string, not a number",
    );
}

#[test]
fn newer_names_win() {
    check(r#""max_tokens":5"#, |it| it.max_tokens = Some(5));
    check_spelled(
        r#""max_tokens":5,"max_completion_tokens":5.0"#,
        |it, names| {
            it.max_tokens = Some(5);
            names.push((Field::MaxTokens, "max_completion_tokens"));
        },
    );
    check_spelled(
        r#""max_tokens":5,"max_completion_tokens":6"#,
        |it, names| {
            it.max_tokens = Some(6);
            names.push((Field::MaxTokens, "max_completion_tokens"));
            it.others = vec![("max_tokens".into(), Raw("5"))];
        },
    );
    check(r#""user":"a""#, |it| it.user = Some("a".into()));
    check_spelled(r#""safety_identifier":"a","user":"a""#, |it, names| {
        it.user = Some("a".into());
        names.push((Field::User, "safety_identifier"));
    });
    check_spelled(r#""user":"a","safety_identifier":"b""#, |it, names| {
        it.user = Some("b".into());
        names.push((Field::User, "safety_identifier"));
        it.others = vec![("user".into(), Raw(r#""a""#))];
    });
}

/// The fields other than the model and the messages.
const FIELDS: [&str; 27] = [
    "stream",
    "temperature",
    "max_tokens",
    "tools",
    "tool_choice",
    "stream_options",
    "top_p",
    "max_completion_tokens",
    "stop",
    "response_format",
    "parallel_tool_calls",
    "reasoning_effort",
    "user",
    "seed",
    "n",
    "frequency_penalty",
    "presence_penalty",
    "top_k",
    "logprobs",
    "top_logprobs",
    "metadata",
    "service_tier",
    "safety_identifier",
    "modalities",
    "audio",
    "functions",
    "function_call",
];

#[test]
fn null_is_nothing() {
    check(
        &FIELDS.map(|name| format!(r#""{name}":null"#)).join(","),
        |_| {},
    );
    let nulls = [
        "name",
        "tool_calls",
        "tool_call_id",
        "function_call",
        "refusal",
        "audio",
        "reasoning_content",
        "thinking_blocks",
        "unknown",
    ];
    let nulls = nulls.map(|name| format!(r#","{name}":null"#)).concat();
    said(
        &format!(r#"{{"role":"assistant","content":null{nulls}}}"#),
        &["Assistant"],
    );
    check(
        r#""tools":[{"type":"function","cache_control":null,"function":{"name":"f","description":null,"parameters":null,"strict":null}}]"#,
        |it| {
            it.tools = vec![Tool {
                name: "f".into(),
                description: None,
                kind: ToolKind::Function(None, None),
                cache: None,
            }];
        },
    );
}

#[test]
fn others_are_kept_unless_they_say_nothing() {
    check(
        r#""store":false,"logit_bias":{},"prediction":null,"verbosity":"medium","moderation":null"#,
        |_| {},
    );
    check(
        r#""store":true,"logit_bias":{"1":2},"verbosity":"low","prompt_cache_key":"k","x":[ 1 ]"#,
        |it| {
            it.others = vec![
                ("store".into(), Raw("true")),
                ("logit_bias".into(), Raw(r#"{"1":2}"#)),
                ("verbosity".into(), Raw(r#""low""#)),
                ("prompt_cache_key".into(), Raw(r#""k""#)),
                ("x".into(), Raw("[ 1 ]")),
            ];
        },
    );
    check(
        r#""reasoning":{"effort":"low"},"t\u006fp_p":1,"é\"":0"#,
        |it| {
            it.top_p = Some(Number {
                text: "1",
                value: 1.0,
            });
            it.others = vec![
                ("reasoning".into(), Raw(r#"{"effort":"low"}"#)),
                ("é\"".into(), Raw("0")),
            ];
        },
    );
}

#[test]
fn numbers_out_of_bounds() {
    for (field, number) in [
        ("temperature", "1e999"),
        ("top_p", "-1e999"),
        ("seed", "1e999"),
        ("max_tokens", "1e999"),
    ] {
        refused_fields(&format!(r#""{field}":{number}"#), field, "is out of range");
    }
    for field in [
        "max_tokens",
        "max_completion_tokens",
        "seed",
        "n",
        "top_k",
        "top_logprobs",
    ] {
        refused_fields(
            &format!(r#""{field}":10000000000000000000"#),
            field,
            "is out of range",
        );
        refused_fields(&format!(r#""{field}":1.5"#), field, "must be an integer");
        refused_fields(
            &format!(r#""{field}":"1""#),
            field,
            "must be an integer, not a string",
        );
    }
    for field in ["max_tokens", "max_completion_tokens", "n"] {
        refused_fields(&format!(r#""{field}":0"#), field, "must be at least 1");
        refused_fields(&format!(r#""{field}":-0"#), field, "must be at least 1");
        refused_fields(&format!(r#""{field}":-3"#), field, "must be at least 1");
    }
    refused_fields(r#""top_k":-2"#, "top_k", "must be at least 0");
    refused_fields(r#""top_logprobs":-1"#, "top_logprobs", "must be at least 0");
    refused_fields(
        r#""temperature":true"#,
        "temperature",
        "must be a number, not a boolean",
    );
}

#[test]
fn integers_may_be_written_in_many_ways() {
    for (text, value) in [
        ("0", 0),
        ("-0", 0),
        ("-0.0", 0),
        ("0e99999999999999999999", 0),
        ("7.0", 7),
        ("7.000", 7),
        ("-7", -7),
        ("1e3", 1000),
        ("1.5E+1", 15),
        ("-2500e-2", -25),
        ("10.50e1", 105),
        ("9223372036854775807", i64::MAX),
        ("9.223372036854775807e18", i64::MAX),
        ("-9223372036854775808", i64::MIN),
    ] {
        check(&format!(r#""seed":{text}"#), |it| it.seed = Some(value));
    }
    for text in [
        "9223372036854775808",
        "-9223372036854775809",
        "1e19",
        "1e99999999999999999999",
        "123456789012345678901234567890",
    ] {
        refused_fields(&format!(r#""seed":{text}"#), "seed", "is out of range");
    }
    for text in [
        "0.5",
        "15e-1",
        "1e-99999999999999999999",
        "1.00000000000000000000000000001",
        "-0.1",
    ] {
        refused_fields(&format!(r#""seed":{text}"#), "seed", "must be an integer");
    }
}

#[test]
fn wrong_types_are_told_by_their_path() {
    for (fields, param, why) in [
        (r#""top_p":[]"#, "top_p", "must be a number, not an array"),
        (
            r#""stop":1"#,
            "stop",
            "must be a string or an array of strings, not a number",
        ),
        (
            r#""stop":["a",1]"#,
            "stop[1]",
            "must be a string, not a number",
        ),
        (
            r#""stop":["a",null]"#,
            "stop[1]",
            "must be a string, not null",
        ),
        (
            r#""logprobs":3"#,
            "logprobs",
            "must be true or false, not a number",
        ),
        (
            r#""metadata":"a""#,
            "metadata",
            "must be an object, not a string",
        ),
        (
            r#""modalities":"text""#,
            "modalities",
            "must be an array, not a string",
        ),
        (
            r#""modalities":["text",{}]"#,
            "modalities[1]",
            "must be a string, not an object",
        ),
        (
            r#""audio":true"#,
            "audio",
            "must be an object, not a boolean",
        ),
        (r#""user":{}"#, "user", "must be a string, not an object"),
        (
            r#""service_tier":1"#,
            "service_tier",
            "must be a string, not a number",
        ),
        (
            r#""parallel_tool_calls":"yes""#,
            "parallel_tool_calls",
            "must be true or false, not a string",
        ),
        (
            r#""response_format":"json""#,
            "response_format",
            "must be an object, not a string",
        ),
        (r#""tools":{}"#, "tools", "must be an array, not an object"),
        (
            r#""tools":[null]"#,
            "tools[0]",
            "must be an object, not null",
        ),
        (
            r#""functions":[null]"#,
            "functions[0]",
            "must be an object, not null",
        ),
    ] {
        refused_fields(fields, param, why);
    }
    for (messages, param, why) in [
        (r#"{"content":"a"}"#, "messages[0].role", "is missing"),
        (r#"{"role":null}"#, "messages[0].role", "is missing"),
        (
            r#"{"role":7}"#,
            "messages[0].role",
            "must be a string, not a number",
        ),
        (
            r#"{"role":"user"},{"role":"bot"}"#,
            "messages[1].role",
            "must be one of `system`, `developer`, `user`, `assistant`, `tool` and `function`",
        ),
        (
            r#"{"role":"user","content":{}}"#,
            "messages[0].content",
            "must be a string or an array of parts, not an object",
        ),
        (
            r#"{"role":"user","content":["a"]}"#,
            "messages[0].content[0]",
            "must be an object, not a string",
        ),
        (
            r#"{"role":"user","content":[null]}"#,
            "messages[0].content[0]",
            "must be an object, not null",
        ),
        (
            r#"{"role":"user","content":[{"text":"a"}]}"#,
            "messages[0].content[0].type",
            "is missing",
        ),
        (
            r#"{"role":"user","content":[{"type":1}]}"#,
            "messages[0].content[0].type",
            "must be a string, not a number",
        ),
        (
            r#"{"role":"user","content":[{"type":"text"}]}"#,
            "messages[0].content[0].text",
            "is missing",
        ),
        (
            r#"{"role":"user","content":[{"type":"text","text":[]}]}"#,
            "messages[0].content[0].text",
            "must be a string, not an array",
        ),
        (
            r#"{"role":"user","name":1}"#,
            "messages[0].name",
            "must be a string, not a number",
        ),
        (
            r#"{"role":"tool","content":"a"}"#,
            "messages[0].tool_call_id",
            "is missing",
        ),
        (
            r#"{"role":"tool","tool_call_id":null}"#,
            "messages[0].tool_call_id",
            "is missing",
        ),
        (
            r#"{"role":"tool","tool_call_id":""}"#,
            "messages[0].tool_call_id",
            "must not be empty",
        ),
        (
            r#"{"role":"tool","tool_call_id":1}"#,
            "messages[0].tool_call_id",
            "must be a string, not a number",
        ),
        (
            r#"{"role":"function","content":"a"}"#,
            "messages[0].name",
            "is missing",
        ),
        (
            r#"{"role":"assistant","tool_calls":{}}"#,
            "messages[0].tool_calls",
            "must be an array, not an object",
        ),
        (
            r#"{"role":"assistant","tool_calls":[{"id":"1"}]}"#,
            "messages[0].tool_calls[0].function",
            "is missing",
        ),
        (
            r#"{"role":"assistant","tool_calls":[{"function":{}}]}"#,
            "messages[0].tool_calls[0].function.name",
            "is missing",
        ),
        (
            r#"{"role":"user"},{"role":"assistant","tool_calls":[{"function":{"name":"a"}},{"function":{"name":{}}}]}"#,
            "messages[1].tool_calls[1].function.name",
            "must be a string, not an object",
        ),
        (
            r#"{"role":"assistant","tool_calls":[{"function":{"name":""}}]}"#,
            "messages[0].tool_calls[0].function.name",
            "must not be empty",
        ),
        (
            r#"{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":[]}}]}"#,
            "messages[0].tool_calls[0].function.arguments",
            "must be a string, not an array",
        ),
        (
            r#"{"role":"assistant","tool_calls":[{"custom":{"input":"x"}}]}"#,
            "messages[0].tool_calls[0].custom.name",
            "is missing",
        ),
        (
            r#"{"role":"assistant","function_call":{"arguments":""}}"#,
            "messages[0].function_call.name",
            "is missing",
        ),
        (
            r#"{"role":"assistant","refusal":1}"#,
            "messages[0].refusal",
            "must be a string, not a number",
        ),
        (
            r#"{"role":"assistant","thinking_blocks":[1]}"#,
            "messages[0].thinking_blocks[0]",
            "must be an object, not a number",
        ),
        (
            r#"{"role":"user","cache_control":"5m"}"#,
            "messages[0].cache_control",
            "must be an object, not a string",
        ),
        (
            r#"{"role":"user","cache_control":{"ttl":5}}"#,
            "messages[0].cache_control.ttl",
            "must be a string, not a number",
        ),
    ] {
        refused(messages, param, why);
    }
}

#[test]
fn what_is_given_twice_is_refused() {
    let twice = "is given more than once";
    refused(
        r#"{"role":"user","content":"a","role":"system"}"#,
        "messages[0].role",
        twice,
    );
    refused(
        r#"{"role":"user","content":"a","cont\u0065nt":"b"}"#,
        "messages[0].content",
        twice,
    );
    refused(
        r#"{"role":"user","content":[{"type":"text","text":"a","text":"b"}]}"#,
        "messages[0].content[0].text",
        twice,
    );
    let call =
        r#"{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","name":"g"}}]}"#;
    refused(call, "messages[0].tool_calls[0].function.name", twice);
    refused_fields(
        r#""tools":[{"type":"function","function":{"name":"f","parameters":{},"parameters":{}}}]"#,
        "tools[0].function.parameters",
        twice,
    );
    refused_fields(r#""seed":1,"seed":2"#, "seed", twice);
    // These are not read.
    said(
        r#"{"role":"user","content":"a","x":1,"x":2}"#,
        &[r#"User Text("a") ;x"#],
    );
}

#[test]
fn roles_and_contents() {
    said(
        r#"{"role":"system","content":"a"},{"role":"developer","content":"b"},{"role":"user","content":"c","name":"bob"},
           {"role":"assistant","content":"d"},{"content":"late","role":"user"}"#,
        &[
            r#"System Text("a")"#,
            r#"Developer Text("b")"#,
            r#"User Text("c") name=bob"#,
            r#"Assistant Text("d")"#,
            r#"User Text("late")"#,
        ],
    );
    said(
        r#"{"role":"user"},{"role":"user","content":""},{"role":"user","content":[]},{"role":"user","content":null}"#,
        &["User"; 4],
    );
    said(
        r#"{"role":"user","content":"x","name":""}"#,
        &[r#"User Text("x")"#],
    );
}

#[test]
fn kinds_of_parts() {
    parts(
        r#"[{"type":"text","text":"a"},{"text":"b\n","type":"text"},{"type":"text","text":""}]"#,
        &[r#"Text("a")"#, r#"Text("b\n")"#],
    );
    let url = r#"Image(Url("https://x/y"), None)"#;
    parts(
        r#"[{"type":"image_url","image_url":{"url":"https://x/y"}},{"type":"image_url","image_url":"https://x/y"}]"#,
        &[url, url],
    );
    parts(
        r#"[{"type":"image_url","image_url":{"detail":"low","url":"data:image/png;base64,AA=="}}]"#,
        &[r#"Image(Inline("image/png", "AA=="), Some("low"))"#],
    );
    parts(
        r#"[{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}}]"#,
        &[r#"Audio("AA", "wav")"#],
    );
    parts(
        r#"[{"type":"input_audio","input_audio":{"data":"data:audio/wav;base64,AA","format":"wav"}}]"#,
        &[r#"Audio("AA", "wav")"#],
    );
    parts(r#"[{"type":"refusal","refusal":"no"}]"#, &[r#"Text("no")"#]);
    parts(
        r#"[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},
            {"type":"text","text":"b","cache_control":{"type":"ephemeral","ttl":"1h"}},
            {"type":"text","text":"c","prompt_cache_breakpoint":{"mode":"explicit","ttl":"30m"}},
            {"type":"text","text":"d","cache_control":null,"prompt_cache_breakpoint":null}]"#,
        &[
            r#"Text("a")!"#,
            r#"Text("b")!1h"#,
            r#"Text("c")!30m"#,
            r#"Text("d")"#,
        ],
    );
}

#[test]
fn parts_that_cannot_be_read() {
    let part = |json: &str| format!(r#"{{"role":"user","content":[{json}]}}"#);
    for (json, field, why) in [
        (r#"{"type":"image_url"}"#, "image_url", "is missing"),
        (
            r#"{"type":"image_url","image_url":null}"#,
            "image_url",
            "is missing",
        ),
        (
            r#"{"type":"image_url","image_url":7}"#,
            "image_url",
            "must be an object, not a number",
        ),
        (
            r#"{"type":"image_url","image_url":{}}"#,
            "image_url.url",
            "is missing",
        ),
        (
            r#"{"type":"image_url","image_url":{"url":7}}"#,
            "image_url.url",
            "must be a string, not a number",
        ),
        (
            r#"{"type":"image_url","image_url":""}"#,
            "image_url",
            "must not be empty",
        ),
        (
            r#"{"type":"input_audio","input_audio":{"format":"wav"}}"#,
            "input_audio.data",
            "is missing",
        ),
        (
            r#"{"type":"input_audio","input_audio":{"data":"AA"}}"#,
            "input_audio.format",
            "is missing",
        ),
        (
            r#"{"type":"file","file":{"filename":"a.pdf"}}"#,
            "file",
            "must have `file_data` or `file_id`",
        ),
        (r#"{"type":"refusal","text":"no"}"#, "refusal", "is missing"),
    ] {
        refused(&part(json), &format!("messages[0].content[0].{field}"), why);
    }
    for (json, field) in [
        (
            r#"{"type":"video_url","video_url":{"url":"https://x"}}"#,
            "type",
        ),
        (
            r#"{"type":"image_url","image_url":{"url":"data:image/svg+xml,%3Csvg/%3E"}}"#,
            "image_url.url",
        ),
        (
            r#"{"type":"image_url","image_url":"data:image/png;base64"}"#,
            "image_url",
        ),
        (
            r#"{"type":"file","file":{"file_data":"data:,a"}}"#,
            "file.file_data",
        ),
    ] {
        unsupported(&part(json), &format!("messages[0].content[0].{field}"));
    }
}

#[test]
fn a_media_type_is_two_tokens() {
    let long = format!("a/{}", "b".repeat(126));
    for kind in [
        "image",
        "image/",
        "/png",
        "image/png/x",
        "image/p ng",
        "a/b?c",
        "a/../b",
        "é/b",
        "a/b\\r\\nX: y",
        "a/(b)",
        &long,
    ] {
        let why = "must name its media type as `type/subtype`";
        let refused_at = |part: String, field: &str| {
            let message = format!(r#"{{"role":"user","content":[{part}]}}"#);
            refused(&message, &format!("messages[0].content[0].{field}"), why);
        };
        let url = format!("data:{kind};base64,AA");
        refused_at(
            format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#),
            "image_url.url",
        );
        refused_at(
            format!(r#"{{"type":"image_url","image_url":"{url}"}}"#),
            "image_url",
        );
        refused_at(
            format!(r#"{{"type":"file","file":{{"file_data":"{url}"}}}}"#),
            "file.file_data",
        );
        refused_at(
            format!(r#"{{"type":"input_audio","input_audio":{{"data":"{url}","format":"wav"}}}}"#),
            "input_audio.data",
        );
    }
    let longest = &long[..127];
    for kind in [
        "image/svg+xml",
        "application/vnd.x-y.z",
        "a/b!#$%&'*+-.^_`|",
        longest,
    ] {
        let part = format!(r#"[{{"type":"image_url","image_url":"data:{kind};base64,AA"}}]"#);
        parts(&part, &[&format!("Image(Inline({kind:?}, \"AA\"), None)")]);
    }
}

#[test]
fn data_urls_are_taken_apart() {
    for (url, kind, data) in [
        ("data:image/png;base64,AA", "image/png", "AA"),
        ("DATA:Image/PNG;Base64,Aa", "image/png", "Aa"),
        ("data:image/jpg;base64,AA", "image/jpeg", "AA"),
        (
            "data:text/plain;charset=utf-8;base64,AA",
            "text/plain",
            "AA",
        ),
        ("data:text/plain ; base64 ,AA", "text/plain", "AA"),
        ("data:;base64,AA", "", "AA"),
        ("data:image/png;base64,", "image/png", ""),
        ("data:image/png;base64,A,B", "image/png", "A,B"),
    ] {
        let expected = format!("Image(Inline({kind:?}, {data:?}), None)");
        parts(
            &format!(r#"[{{"type":"image_url","image_url":"{url}"}}]"#),
            &[&expected],
        );
        // As PHP writes it.
        let escaped = url.replace('/', r"\/");
        parts(
            &format!(r#"[{{"type":"image_url","image_url":{{"url":"{escaped}"}}}}]"#),
            &[&expected],
        );
    }
    for url in ["https://x", "gs://b/c", "dat", "data", "", "é:data", "AAAA"]
        .into_iter()
        .filter(|url| !url.is_empty())
    {
        let expected = format!("Image(Url({url:?}), None)");
        parts(
            &format!(r#"[{{"type":"image_url","image_url":"{url}"}}]"#),
            &[&expected],
        );
    }
}

#[test]
fn files() {
    for (file, expected) in [
        (
            r#"{"file_data":"data:application/pdf;base64,AA","filename":"a.pdf"}"#,
            r#"Inline("application/pdf", "AA"), Some("a.pdf")"#,
        ),
        (
            r#"{"file_data":"AA","filename":"a.PDF"}"#,
            r#"Inline("application/pdf", "AA"), Some("a.PDF")"#,
        ),
        (
            r#"{"filename":"b.c.md","file_data":"AA"}"#,
            r#"Inline("text/markdown", "AA"), Some("b.c.md")"#,
        ),
        (
            r#"{"file_data":"AA","filename":"a.zzz"}"#,
            r#"Inline("", "AA"), Some("a.zzz")"#,
        ),
        (
            r#"{"file_data":"AA","filename":"pdf"}"#,
            r#"Inline("", "AA"), Some("pdf")"#,
        ),
        (r#"{"file_data":"AA"}"#, r#"Inline("", "AA"), None"#),
        (
            r#"{"file_data":"data:;base64,AA","filename":"a.csv"}"#,
            r#"Inline("text/csv", "AA"), Some("a.csv")"#,
        ),
        (
            r#"{"file_data":"https://x/a.pdf","filename":"a.pdf"}"#,
            r#"Url("https://x/a.pdf"), Some("a.pdf")"#,
        ),
        (r#"{"file_id":"file-1"}"#, r#"Id("file-1"), None"#),
        (
            r#"{"file_id":"file-1","file_data":null}"#,
            r#"Id("file-1"), None"#,
        ),
        (
            r#"{"file_id":"file-1","file_data":"data:a/b;base64,AA"}"#,
            r#"Inline("a/b", "AA"), None"#,
        ),
    ] {
        parts(
            &format!(r#"[{{"type":"file","file":{file}}}]"#),
            &[&format!("File({expected})")],
        );
    }
}

#[test]
fn a_picture_is_not_copied() {
    let body = body(
        r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}"#,
    );
    let (request, _) = read_request(body).unwrap();
    let PartKind::Image(Media::Inline(_, data), None) = &request.messages[0].content[0].kind else {
        panic!()
    };
    assert!(matches!(data, Cow::Borrowed("AAAA")));
}

#[test]
fn calls_of_an_assistant() {
    let calls = |calls: &str| format!(r#"{{"role":"assistant","tool_calls":[{calls}]}}"#);
    for (json, expected) in [
        (
            r#"{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}"#,
            r#"c1=f({"a":1})"#,
        ),
        (
            r#"{"function":{"arguments":"not json","name":"f"},"id":"c1","index":0}"#,
            "c1=f(not json)",
        ),
        (r#"{"id":"c1","function":{"name":"f"}}"#, "c1=f()"),
        (
            r#"{"id":"c1","function":{"name":"f","arguments":null}}"#,
            "c1=f()",
        ),
        (
            r#"{"id":"c1","function":{"name":"f","arguments":{"a": 1}}}"#,
            r#"c1=f({"a": 1})"#,
        ),
        (
            r#"{"function":{"name":"f"}},{"id":"","function":{"name":"g"}}"#,
            "call_0_0=f() call_0_1=g()",
        ),
        (
            r#"{"id":"c1","type":"custom","custom":{"name":"f","input":"x"}}"#,
            "custom c1=f(x)",
        ),
        (
            r#"{"id":"c1","type":"custom","custom":{"name":"f"},"function":null}"#,
            "custom c1=f()",
        ),
        (
            r#"{"id":"c1","function":{"name":"f"},"extra_content":{"google":{"thought_signature":"S","x":1}}}"#,
            "c1=f()~S",
        ),
        (
            r#"{"id":"c1","function":{"name":"f"},"extra_content":{"google":{"thought_signature":7}}}"#,
            "c1=f()",
        ),
        (
            r#"{"id":"c1","function":{"name":"f"},"extra_content":{"google":[]}}"#,
            "c1=f()",
        ),
        (
            r#"{"id":"c1","function":{"name":"f"},"extra_content":"x"}"#,
            "c1=f()",
        ),
        (
            r#"{"id":"c1","function":{"name":"f","x":1},"y":2}"#,
            "c1=f() ;tool_calls[].function.x ;tool_calls[].y",
        ),
    ] {
        said(&calls(json), &[&format!("Assistant {expected}")]);
    }
}

#[test]
fn results() {
    said(
        r#"{"role":"tool","tool_call_id":"1","content":"a","name":"f"},
           {"role":"tool","tool_call_id":"2","content":[{"type":"text","text":"a"}],"cache_control":{"type":"ephemeral"}},
           {"tool_call_id":"3","role":"tool"}"#,
        &[
            r#"Tool Text("a") name=f to=1"#,
            r#"Tool Text("a") to=2 cache"#,
            "Tool to=3",
        ],
    );
}

#[test]
fn a_functions_result_finds_its_call() {
    let call = |name: &str| {
        format!(r#"{{"role":"assistant","function_call":{{"name":"{name}","arguments":"{{}}"}}}}"#)
    };
    let result = |name: &str| format!(r#"{{"role":"function","name":"{name}","content":"r"}}"#);
    said(
        &[call("f"), result("f"), call("f"), result("f"), result("f")].join(","),
        &[
            "Assistant call_0_0=f({})",
            r#"Function Text("r") name=f to=call_0_0"#,
            "Assistant call_2_0=f({})",
            r#"Function Text("r") name=f to=call_2_0"#,
            r#"Function Text("r") name=f"#,
        ],
    );
    said(
        &[call("f"), result("g"), result("f")].join(","),
        &[
            "Assistant call_0_0=f({})",
            r#"Function Text("r") name=g"#,
            r#"Function Text("r") name=f to=call_0_0"#,
        ],
    );
    // Only the last calls wait for results.
    said(
        &[call("f"), call("g"), result("f")].join(","),
        &[
            "Assistant call_0_0=f({})",
            "Assistant call_1_0=g({})",
            r#"Function Text("r") name=f"#,
        ],
    );
    // Next to other parts it comes last.
    said(
        r#"{"role":"assistant","function_call":{"name":"g"},"tool_calls":[{"id":"1","function":{"name":"f"}}]}"#,
        &["Assistant 1=f() call_0_1=g()"],
    );
    // Google's compatible API gave out empty ids.
    said(
        r#"{"role":"assistant","tool_calls":[{"id":"","function":{"name":"f"}},{"id":"","function":{"name":"g"}}]},
           {"role":"tool","tool_call_id":"","content":"1"},{"role":"tool","tool_call_id":"","content":"2"}"#,
        &[
            "Assistant call_0_0=f() call_0_1=g()",
            r#"Tool Text("1") to=call_0_0"#,
            r#"Tool Text("2") to=call_0_1"#,
        ],
    );
}

#[test]
fn thoughts() {
    said(
        r#"{"role":"assistant","content":"a","reasoning_content":"r","reasoning":"r"}"#,
        &[r#"Assistant Text("a") reasoning=r"#],
    );
    said(
        r#"{"role":"assistant","reasoning":"r"}"#,
        &["Assistant reasoning=r"],
    );
    said(
        r#"{"role":"assistant","reasoning":{"a":1},"reasoning_content":[]}"#,
        &["Assistant ;reasoning"],
    );
    said(
        r#"{"role":"assistant","thinking_blocks":[{"type":"thinking","thinking":"h","signature":"s"},{"type":"redacted_thinking","data":"d"},
           {"type":"thinking","thinking":"u"},{"type":"thinking","thinking":"","signature":"t","cache_control":{"type":"ephemeral"}}]}"#,
        &["Assistant h@s #d u@? @t"],
    );
    // As parts of the content.
    said(
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"h","signature":"s"},{"type":"redacted_thinking","data":"d"},
           {"type":"text","text":"a"}]}"#,
        &[r#"Assistant Text("a") h@s #d"#],
    );
    said(
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"h"}]},{"type":"text","text":"a"}]}"#,
        &[r#"Assistant Text("a") ;content[].thinking"#],
    );
    // OpenRouter's.
    said(
        r#"{"role":"assistant","content":"a","reasoning":"h","reasoning_details":[
           {"type":"reasoning.text","text":"h","signature":"s","id":null,"format":"anthropic-claude-v1","index":0},
           {"type":"reasoning.encrypted","data":"d"}]}"#,
        &[r#"Assistant Text("a") reasoning=h h@s #d"#],
    );
    said(
        r#"{"role":"assistant","reasoning_details":[{"type":"reasoning.encrypted","data":"x"}],"thinking_blocks":[{"thinking":"h","signature":"s"}]}"#,
        &["Assistant h@s"],
    );
    for odd in [
        r#"[{"type":"reasoning.encrypted","data":"d","format":"google-gemini-v1"}]"#,
        r#"[{"type":"reasoning.text","text":"h"}]"#,
        r#"[{"type":"reasoning.summary","summary":"h"}]"#,
        r#"[{"text":7,"text":8}]"#,
        "[1]",
        "true",
    ] {
        said(
            &format!(r#"{{"role":"assistant","reasoning_details":{odd}}}"#),
            &["Assistant ;reasoning_details"],
        );
    }
    said(
        r#"{"role":"assistant","reasoning_details":[]}"#,
        &["Assistant"],
    );
    let words = |field: &str| {
        read_request(body(&format!(r#"{{"role":"assistant",{field}}}"#)))
            .unwrap()
            .1
            .written
    };
    assert_eq!(
        words(r#""thinking_blocks":[{"thinking":"h","signature":"s"}]"#),
        []
    );
    let details = (Field::Thoughts, "messages[].reasoning_details");
    assert_eq!(
        words(r#""reasoning_details":[{"text":"h","signature":"s"}]"#),
        [details]
    );
}

#[test]
fn other_fields_of_messages_are_named() {
    said(
        r#"{"role":"assistant","content":"a","refusal":"no","audio":{"id":"1"},"annotations":[],"prefix":true,"x":{}}"#,
        &[r#"Assistant Text("a") Text("no") ;audio ;prefix"#],
    );
    said(
        r#"{"role":"user","content":"a","tool_calls":[{"function":{"name":"f"}}],"tool_call_id":"1","refusal":"r","reasoning":"r"}"#,
        &[r#"User Text("a") ;refusal ;tool_call_id ;tool_calls ;reasoning_content"#],
    );
    said(
        r#"{"role":"user","content":"a","tool_calls":[],"refusal":""}"#,
        &[r#"User Text("a")"#],
    );
    said(
        r#"{"role":"user","content":[{"type":"text","text":"a","x":1,"image_url":"https://y"},{"type":"text","text":"b","x":1},
           {"type":"image_url","image_url":{"url":"https://y","format":"png"},"text":"t"}]}"#,
        &[
            r#"User Text("a") Text("b") Image(Url("https://y"), None) ;content[].x ;content[].image_url ;content[].image_url.format ;content[].text"#,
        ],
    );
    let many: Vec<String> = (0..100)
        .map(|number| format!(r#","x{number}":1"#))
        .collect();
    let (request, _) =
        read_request(body(&format!(r#"{{"role":"user"{}}}"#, many.concat()))).unwrap();
    let others = &request.messages[0].others;
    assert_eq!(
        (others.len(), others[0].as_ref(), others[63].as_ref()),
        (64, "x0", "other")
    );
}

#[test]
fn a_messages_hint_is_on_its_last_part() {
    let hint = r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#;
    said(
        &format!(r#"{{"role":"system","content":"a",{hint}}}"#),
        &[r#"System Text("a")!1h"#],
    );
    said(
        &format!(
            r#"{{"role":"user",{hint},"content":[{{"type":"text","text":"a"}},{{"type":"text","text":"b"}}]}}"#
        ),
        &[r#"User Text("a") Text("b")!1h"#],
    );
    said(
        &format!(r#"{{"role":"assistant","function_call":{{"name":"f"}},{hint}}}"#),
        &["Assistant call_0_0=f() cache"],
    );
}

#[test]
fn tools() {
    let tool = |name: &'static str, kind| Tool {
        name: name.into(),
        description: None,
        kind,
        cache: None,
    };
    let function = |name| tool(name, ToolKind::Function(None, None));
    check(
        r#""tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type": "object"},"strict":true}},
           {"function":{"name":"g"}},{"type":"custom","custom":{"name":"c","description":"e"}},{"type":"web_search","x":1},
           {"type":"function","cache_control":{"type":"ephemeral"},"function":{"name":"h"}},
           {"type":"function","function":{"name":"i","cache_control":{"ttl":"1h"}}}],"functions":[{"name":"j","parameters":{}}]"#,
        |it| {
            it.tools = vec![
                Tool {
                    description: Some("d".into()),
                    ..tool(
                        "f",
                        ToolKind::Function(Some(r#"{"type": "object"}"#.into()), Some(true)),
                    )
                },
                function("g"),
                Tool {
                    description: Some("e".into()),
                    ..tool("c", ToolKind::Custom)
                },
                tool("", ToolKind::Other),
                Tool {
                    cache: Some(crate::neutral::Cache::default()),
                    ..function("h")
                },
                Tool {
                    cache: Some(crate::neutral::Cache {
                        ttl: Some("1h".into()),
                    }),
                    ..function("i")
                },
                tool("j", ToolKind::Function(Some("{}".into()), None)),
            ];
            it.others = vec![("tools[].x".into(), Raw("1"))];
        },
    );
    check(r#""tools":[],"functions":[]"#, |_| {});
    check(r#""tools":[{"type":"x","custom":7}]"#, |it| {
        it.tools = vec![tool("", ToolKind::Other)];
        it.others = vec![("tools[].custom".into(), Raw("7"))];
    });
    for (tools, param, why) in [
        (r#"{}"#, "tools[0].type", "is missing"),
        (
            r#"{"type":"function","name":"f"}"#,
            "tools[0].function",
            "is missing",
        ),
        (
            r#"{"type":"function","function":7}"#,
            "tools[0].function",
            "must be an object, not a number",
        ),
        (
            r#"{"type":"function","function":{}}"#,
            "tools[0].function.name",
            "is missing",
        ),
        (
            r#"{"type":"function","function":{"name":""}}"#,
            "tools[0].function.name",
            "must not be empty",
        ),
        (r#"{"type":"custom"}"#, "tools[0].custom", "is missing"),
        (
            r#"{"type":"custom","custom":{}}"#,
            "tools[0].custom.name",
            "is missing",
        ),
        (
            r#"{"function":{"name":"f","parameters":true}}"#,
            "tools[0].function.parameters",
            "must be an object, not a boolean",
        ),
        (
            r#"{"function":{"name":"f","strict":1}}"#,
            "tools[0].function.strict",
            "must be true or false, not a number",
        ),
        (
            r#"{"function":{"name":"f"}},{"function":{"name":"f"}}"#,
            "tools[1].function.name",
            "is also the name of another tool",
        ),
        (
            r#"{"function":{"name":"f"}},{"custom":{"name":"f"}}"#,
            "tools[1].custom.name",
            "is also the name of another tool",
        ),
    ] {
        refused_fields(&format!(r#""tools":[{tools}]"#), param, why);
    }
    refused_fields(
        r#""functions":[{"name":"f"},{"name":"f"}]"#,
        "functions[1].name",
        "is also the name of another tool",
    );
    refused_fields(r#""functions":[{}]"#, "functions[0].name", "is missing");
}

#[test]
fn choices_of_tools() {
    let tools = r#""tools":[{"type":"function","function":{"name":"f"}},{"type":"custom","custom":{"name":"c"}}]"#;
    #[track_caller]
    fn chosen(fields: &str, expected: Option<ToolChoice<'static>>) {
        assert_eq!(request(fields).tool_choice, expected, "{fields}");
    }
    for (choice, expected) in [
        (r#""none""#, ToolChoice::None),
        (r#""auto""#, ToolChoice::Auto),
        (r#""required""#, ToolChoice::Required),
        (r#""any""#, ToolChoice::Required),
        (
            r#"{"type":"function","function":{"name":"f"}}"#,
            ToolChoice::Named("f".into()),
        ),
        (
            r#"{"function":{"name":"f"}}"#,
            ToolChoice::Named("f".into()),
        ),
        (
            r#"{"type":"custom","custom":{"name":"c"}}"#,
            ToolChoice::Named("c".into()),
        ),
        (
            r#"{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}"#,
            ToolChoice::Allowed {
                must_call: false,
                names: vec!["f".into()],
            },
        ),
        (
            r#"{"allowed_tools":{"tools":[{"function":{"name":"f"}},{"custom":{"name":"c"}}],"mode":"required"},"type":"allowed_tools"}"#,
            ToolChoice::Allowed {
                must_call: true,
                names: vec!["f".into(), "c".into()],
            },
        ),
    ] {
        chosen(
            &format!(r#"{tools},"tool_choice":{choice}"#),
            Some(expected.clone()),
        );
        chosen(
            &format!(r#""tool_choice":{choice},{tools}"#),
            Some(expected),
        );
    }
    chosen(r#""tool_choice":"auto""#, Some(ToolChoice::Auto));
    let functions = r#""functions":[{"name":"f"}]"#;
    chosen(
        &format!(r#"{functions},"function_call":"none""#),
        Some(ToolChoice::None),
    );
    chosen(
        &format!(r#"{functions},"function_call":{{"name":"f"}}"#),
        Some(ToolChoice::Named("f".into())),
    );
    let words = |fields: &str| spelled(fields).1;
    let older = words(&format!(r#"{functions},"function_call":"none""#));
    assert_eq!(
        older,
        [
            (Field::ToolChoice, "function_call"),
            (Field::Tools, "functions")
        ]
    );
    let mixed = words(&format!(
        r#"{functions},"tools":[{{"type":"function","function":{{"name":"g"}}}}],"tool_choice":"auto""#
    ));
    assert_eq!(mixed, []);
    let both = request(&format!(
        r#"{functions},"function_call":"none","tool_choice":"auto""#
    ));
    assert_eq!(
        (both.tool_choice, both.others),
        (
            Some(ToolChoice::Auto),
            vec![("function_call".into(), Raw(r#""none""#))]
        )
    );

    for (fields, param, why) in [
        (
            r#""tool_choice":"f""#,
            "tool_choice",
            "must be `none`, `auto`, `required` or an object that names a tool",
        ),
        (
            r#""tool_choice":7"#,
            "tool_choice",
            "must be a string or an object, not a number",
        ),
        (
            r#""tool_choice":"required""#,
            "tool_choice",
            "requires a tool call, but there are no `tools`",
        ),
        (r#""tool_choice":{}"#, "tool_choice.type", "is missing"),
        (
            r#""tool_choice":{"type":"function"}"#,
            "tool_choice.function",
            "is missing",
        ),
        (
            r#""tool_choice":{"type":"function","function":{}}"#,
            "tool_choice.function.name",
            "is missing",
        ),
        (
            r#""tool_choice":{"type":"function","function":{"name":"f"}}"#,
            "tool_choice.function.name",
            "names a tool that is not in `tools`",
        ),
        (
            r#""tools":[{"function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"function":{"name":"f"}},{"function":{"name":"g"}}]}}"#,
            "tool_choice.allowed_tools.tools[1].function.name",
            "names a tool that is not in `tools`",
        ),
        (
            r#""tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[]}}"#,
            "tool_choice.allowed_tools.mode",
            "is missing",
        ),
        (
            r#""tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}"#,
            "tool_choice.allowed_tools.tools",
            "must hold at least one tool",
        ),
        (
            r#""function_call":"required""#,
            "function_call",
            "must be `none`, `auto` or an object that names a function",
        ),
        (
            r#""function_call":{"name":"f"}"#,
            "function_call.name",
            "names a tool that is not in `tools`",
        ),
    ] {
        refused_fields(fields, param, why);
    }
    unsupported(
        r#"{"role":"user"}~"tool_choice":{"type":"web_search"}"#,
        "tool_choice.type",
    );
}

#[test]
fn formats() {
    check(r#""response_format":{"type":"text"}"#, |_| {});
    check(r#""response_format":{"type":"json_object"}"#, |it| {
        it.format = Some(Format::JsonObject)
    });
    let schema = |description, schema, strict| {
        move |it: &mut Request<'static>| {
            it.format = Some(Format::JsonSchema {
                name: "n".into(),
                description,
                schema,
                strict,
            })
        }
    };
    check(
        r#""response_format":{"type":"json_schema","json_schema":{"name":"n","description":"d","schema":{"a": 1},"strict":true}}"#,
        schema(Some("d".into()), Some(r#"{"a": 1}"#.into()), Some(true)),
    );
    check(
        r#""response_format":{"json_schema":{"name":"n","schema":null},"type":"json_schema"}"#,
        schema(None, None, None),
    );
    check(
        r#""response_format":{"type":"json_object","schema":{"a":1}}"#,
        |it| {
            it.format = Some(Format::JsonObject);
            it.others = vec![("response_format.schema".into(), Raw(r#"{"a":1}"#))];
        },
    );
    for (format, param, why) in [
        (r#"{}"#, "response_format.type", "is missing"),
        (
            r#"{"type":"json_schema"}"#,
            "response_format.json_schema",
            "is missing",
        ),
        (
            r#"{"type":"json_schema","json_schema":{}}"#,
            "response_format.json_schema.name",
            "is missing",
        ),
        (
            r#"{"type":"json_schema","json_schema":{"name":"n","schema":[]}}"#,
            "response_format.json_schema.schema",
            "must be an object, not an array",
        ),
    ] {
        refused_fields(&format!(r#""response_format":{format}"#), param, why);
    }
    unsupported(
        r#"{"role":"user"}~"response_format":{"type":"grammar","grammar":"x"}"#,
        "response_format.type",
    );
}

#[test]
fn what_nobody_checked_before_is_refused() {
    for body in [
        "",
        " ",
        "{",
        "[]",
        "null",
        "7",
        r#"{"messages":[{"role":"user"}"#,
        r#"{"messages":[}"#,
        "{} x",
        "{\"messages\":\"\u{1}\"}",
    ] {
        assert!(read_request(body.as_bytes()).is_err(), "{body}");
    }
    assert_eq!(
        told(b"{\"n\":1,}"),
        " | the request body is not valid JSON: expected a key in double quotes"
    );
    assert_eq!(
        told(b"[]"),
        " | the request body must be an object, not an array"
    );
    refused_fields(r#""messages":[]"#, "messages", "is given more than once");
}

const WHOLE: &str = r#"{"model":"m","stream":true,"messages":[{"role":"system","content":"s","cache_control":{"ttl":"1h"}},
{"role":"user","content":[{"type":"text","text":"a\u00e9\n"},{"type":"image_url","image_url":{"url":"data:image\/png;base64,AA"}},
{"type":"file","file":{"file_data":"AA","filename":"a.pdf"}},{"type":"input_audio","input_audio":{"data":"A","format":"wav"}}]},
{"role":"assistant","content":null,"thinking_blocks":[{"type":"thinking","thinking":"h","signature":"s"}],"tool_calls":[{"id":"1",
"type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"S"}}}]},
{"role":"tool","tool_call_id":"1","content":"r"},{"role":"assistant","function_call":{"name":"g","arguments":"{}"}},
{"role":"function","name":"g","content":null}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],
"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}},
"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{}}},"stop":["a"],"seed":-12e3,"max_tokens":10.0,
"temperature":0.5,"metadata":{"a":"b"},"user":"u","logit_bias":{"1":1}}"#;

proptest! {
    #[test]
    fn nothing_panics(edits in prop::collection::vec((0..WHOLE.len(), 0..4u8, any::<u8>(), 0..WHOLE.len()), 0..6)) {
        let mut body = WHOLE.as_bytes().to_vec();
        for (at, what, byte, other) in edits {
            let at = at.min(body.len().saturating_sub(1));
            match what {
                0 => body[at] = byte,
                1 => body.truncate(at.max(1)),
                2 => body.insert(at, br#"{}[]",:nt0-1e\ "#[usize::from(byte) % 15]),
                _ => {
                    let other = other.min(body.len());
                    body.drain(at.min(other)..other.max(at).min(at.min(other) + 40));
                }
            }
            if body.is_empty() { body.push(byte); }
        }
        let _read = read_request(&body);
    }

    #[test]
    fn values_of_any_type_never_panic(at in 0..400usize, value in prop::sample::select(vec!["null", "1", "\"\"", "[]", "{}", "[null]", "true", "-1e999"])) {
        // One value after a colon is another one.
        let Some((colon, _)) = WHOLE.match_indices("\":").nth(at % WHOLE.matches("\":").count()) else { return Ok(()) };
        let mut cursor = Cursor::new(&WHOLE.as_bytes()[colon + 2..]);
        let span = cursor.value().unwrap();
        let body = format!("{}{value}{}", &WHOLE[..colon + 2], &WHOLE[colon + 2 + span.end..]);
        match read_request(body.as_bytes()) {
            Ok(_) => {}
            Err(Refused::Invalid(complaint) | Refused::Unsupported(complaint)) => prop_assert!(!complaint.param.is_empty(), "{}", complaint.message),
        }
    }
}

#[test]
fn more_elements_than_anybody_needs_are_refused() {
    let list = |element: &str, count: usize| vec![element; count].join(",");
    let least = r#"{"role":"user","content":[]}"#;
    let read_of = |messages: &str, stops: usize| {
        let body = format!(
            r#"{{"model":"m","messages":[{messages}],"stop":[{}]}}"#,
            list(r#""a""#, stops)
        );
        read_request(body.as_bytes())
            .map(drop)
            .map_err(|why| match why {
                Refused::Invalid(why) => why.param,
                Refused::Unsupported(_) => String::new(),
            })
    };
    let too_many = Err("messages".to_owned());
    let call = r#"{"id":"a","function":{"name":"f"}}"#;
    let parts = |count| {
        format!(
            r#"{{"role":"user","content":[{}]}}"#,
            list(r#"{"type":"text","text":"a"}"#, count)
        )
    };
    let calls = |count| {
        format!(
            r#"{{"role":"assistant","tool_calls":[{}]}}"#,
            list(call, count)
        )
    };
    assert_eq!(read_of(&list(least, 100_000), 0), Ok(()));
    assert_eq!(read_of(&list(least, 100_001), 0), too_many);
    assert_eq!(read_of(&parts(99_999), 0), Ok(()));
    assert_eq!(read_of(&parts(100_000), 0), too_many);
    assert_eq!(read_of(&calls(100_000), 0), too_many);
    assert_eq!(read_of(least, 100_000), too_many);
    assert_eq!(
        read_of(&[parts(30_000), calls(30_000)].join(","), 39_998),
        Ok(())
    );
    assert_eq!(
        read_of(&[parts(30_000), calls(30_000)].join(","), 39_999),
        too_many
    );
    let tools = format!(
        r#"{{"messages":[],"tools":[{}]}}"#,
        list(r#"{"type":"odd"}"#, 100_001)
    );
    assert_eq!(
        read_request(tools.as_bytes())
            .map(drop)
            .map_err(|why| match why {
                Refused::Invalid(why) => why.param,
                Refused::Unsupported(_) => String::new(),
            }),
        too_many
    );
}
