use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::front::Choices;
use crate::front::reading::media::MediaKind;
use crate::wire::json::Span;

const HI: &str = r#""messages":[{"role":"user","content":"hi"}]"#;

/// Returns a request with these fields and a message.
fn with(fields: &str) -> String {
    format!("{{{fields},{HI}}}")
}

#[track_caller]
fn check_fault(body: impl AsRef<[u8]>, param: Option<&str>, message: &str) {
    let fault = read_envelope(body.as_ref()).expect_err("refused");
    assert_eq!(
        (fault.param.as_deref(), fault.message.as_str()),
        (param, message)
    );
}

#[track_caller]
fn accepted(body: &str) -> Envelope {
    read_envelope(body.as_bytes()).unwrap_or_else(|fault| panic!("{}: {body}", fault.message))
}

#[test]
fn an_envelope_knows_its_spans() {
    let body = r#" {"stream_options" : { "include_usage":true } , "stream":true,
        "max_tokens": null, "model" : "gpt\u002d4", "messages":[{"content":"hi"}], "x":[{}]}"#;
    let envelope = accepted(body);
    let text = |span: &Span| &body[span.clone()];
    assert_eq!(envelope.model, "gpt-4");
    assert_eq!(text(&envelope.places.model), r#""gpt\u002d4""#);
    assert_eq!(
        envelope.places.stream_options.as_ref().map(text),
        Some(r#"{ "include_usage":true }"#)
    );
    assert_eq!(
        envelope.places.include_usage.as_ref().map(text),
        Some("true")
    );
    assert_eq!(
        envelope.places.max_tokens_null.as_ref().map(text),
        Some("null")
    );
    assert_eq!(envelope.places.open, 1);
    assert!(envelope.stream && envelope.include_usage && !envelope.has_max_tokens);
}

#[test]
fn b01_a_body_that_is_no_object() {
    check_fault(
        "",
        None,
        "the request body is empty: it must be a JSON object",
    );
    check_fault(
        " \n",
        None,
        "the request body is empty: it must be a JSON object",
    );
    for (body, named) in [
        ("null", "null"),
        ("[]", "an array"),
        ("\"x\"", "a string"),
        ("[\"gpt-4o\"]", "an array"),
        ("1", "a number"),
        ("true", "a boolean"),
    ] {
        check_fault(
            body,
            None,
            &format!("the request body must be a JSON object, not {named}"),
        );
    }
}

#[test]
fn b02_broken_json_names_line_and_column() {
    let check = |body: &[u8], why: &str| {
        check_fault(
            body,
            None,
            &format!("the request body is not valid JSON: {why}"),
        );
    };
    check(
        b"{\"model\":\"a\",\n  \"messages\":[",
        "the text ends too early (line 2, column 15)",
    );
    check(b"{\"model\": 'a'}", "expected a value (line 1, column 11)");
    check(
        b"{} {}",
        "expected nothing after the value (line 1, column 4)",
    );
    check(
        "\u{FEFF}{}".as_bytes(),
        "a byte order mark (BOM) is not allowed (line 1, column 1)",
    );
    let utf16: Vec<u8> = "{\"a\":1}"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    check(
        &utf16,
        "the text must be UTF-8, and this looks like UTF-16 or UTF-32 (line 1, column 2)",
    );
    check(b"{\"model\":\"\xE9\"}", "invalid UTF-8 (line 1, column 11)");
    // Broken syntax is reported before faults in fields.
    check(
        b"{\"model\":1,\"stream\":2,",
        "the text ends too early (line 1, column 23)",
    );
}

#[test]
fn b03_nesting() {
    let nested = |depth: usize| {
        with(&format!(
            r#""model":"m","x":{}{}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        ))
    };
    accepted(&nested(126));
    check_fault(
        nested(127),
        None,
        "the request body is not valid JSON: nested deeper than 127 levels (line 1, column 144)",
    );
    assert!(read_envelope("[".repeat(1_000_000).as_bytes()).is_err());
    assert!(read_envelope(nested(1_000_000).as_bytes()).is_err());
    assert!(read_envelope("{\"messages\":".repeat(1_000_000).as_bytes()).is_err());
    assert!(
        read_envelope(
            "{\"messages\":[{\"content\":[{\"text\":"
                .repeat(1_000_000)
                .as_bytes()
        )
        .is_err()
    );
}

#[test]
fn b05_model() {
    check_fault(
        with(r#""model":null"#),
        Some("model"),
        "`model` must be a string, not null",
    );
    check_fault(
        with(r#""model":1"#),
        Some("model"),
        "`model` must be a string, not a number",
    );
    check_fault(
        with(r#""model":{"a":"b"}"#),
        Some("model"),
        "`model` must be a string, not an object",
    );
    check_fault(
        with(r#""model":"""#),
        Some("model"),
        "`model` must not be empty",
    );
    let long = |bytes| with(&format!(r#""model":"{}""#, "m".repeat(bytes)));
    assert_eq!(accepted(&long(512)).model.len(), 512);
    check_fault(long(513), Some("model"), "`model` is longer than 512 bytes");
    check_fault(
        long(10_000),
        Some("model"),
        "`model` is longer than 512 bytes",
    );
    check_fault(format!("{{{HI}}}"), Some("model"), "`model` is missing");
}

#[test]
fn b09_stream() {
    let stream = |value: &str| with(&format!(r#""model":"m","stream":{value}"#));
    assert!(accepted(&stream("true")).stream);
    assert!(!accepted(&stream("false")).stream);
    assert!(!accepted(&stream("null")).stream);
    assert!(!accepted(&with(r#""model":"m""#)).stream);
    for (value, named) in [
        ("\"true\"", "a string"),
        ("1", "a number"),
        ("[true]", "an array"),
    ] {
        let message = format!("`stream` must be true or false, not {named}");
        check_fault(stream(value), Some("stream"), &message);
    }
}

#[test]
fn messages() {
    let messages = |value: &str| format!(r#"{{"model":"m","messages":{value}}}"#);
    check_fault(
        r#"{"model":"m"}"#,
        Some("messages"),
        "`messages` is missing",
    );
    check_fault(
        messages("[]"),
        Some("messages"),
        "`messages` must hold at least one message",
    );
    for (value, named) in [
        ("null", "null"),
        ("\"hi\"", "a string"),
        ("{}", "an object"),
    ] {
        let message = format!("`messages` must be an array of messages, not {named}");
        check_fault(messages(value), Some("messages"), &message);
    }
    check_fault(
        messages("[{},\"x\",1]"),
        Some("messages[1]"),
        "`messages[1]` must be an object, not a string",
    );
}

#[test]
fn stream_options() {
    let options = |value: &str| with(&format!(r#""model":"m","stream_options":{value}"#));
    let asked = |value: &str| accepted(&options(value)).include_usage;
    assert!(asked(r#"{"x":{},"include_usage":true}"#));
    assert!(!asked(r#"{"include_usage":false}"#));
    assert!(!asked(r#"{"include_usage":null}"#));
    assert!(!asked("{}") && !asked("null"));
    check_fault(
        options("[]"),
        Some("stream_options"),
        "`stream_options` must be an object, not an array",
    );
    check_fault(
        options(r#"{"include_usage":"yes"}"#),
        Some("stream_options.include_usage"),
        "`stream_options.include_usage` must be true or false, not a string",
    );
    check_fault(
        options(r#"{"include_usage":false,"include_usag\u0065":true}"#),
        Some("stream_options.include_usage"),
        "`stream_options.include_usage` is given more than once",
    );
}

#[test]
fn max_tokens_is_said_by_either_name() {
    let said = |fields: &str| accepted(&with(&format!(r#""model":"m",{fields}"#))).has_max_tokens;
    assert!(said(r#""max_tokens":5"#));
    assert!(said(r#""max_completion_tokens":5"#));
    assert!(said(r#""max_tokens":5,"max_completion_tokens":null"#));
    assert!(said(r#""max_completion_tokens":5,"max_tokens":null"#));
    assert!(!said(r#""max_tokens":null,"max_completion_tokens":null"#));
    assert!(!said(r#""x":5"#));
}

#[test]
fn an_answers_need_is_read_if_numeric() {
    let read = |fields: &str| {
        let envelope = accepted(&with(&format!(r#""model":"m",{fields}"#)));
        (envelope.max_tokens, envelope.choices.shown)
    };
    assert_eq!(read(r#""x":5"#), (None, 1));
    assert_eq!(read(r#""max_tokens":5,"n":3"#), (Some(5), 3));
    assert_eq!(
        read(r#""max_tokens":5,"max_completion_tokens":7"#),
        (Some(7), 1)
    );
    assert_eq!(
        read(r#""max_completion_tokens":7,"max_tokens":null,"n":null"#),
        (Some(7), 1)
    );
    assert_eq!(read(r#""max_tokens":1e5,"n":2.0"#), (Some(100_000), 2));
    assert_eq!(
        read(r#""max_tokens":"50","n":"1e1""#),
        (Some(50), 10),
        "some servers take a text for its number"
    );
    assert_eq!(
        read(r#""max_tokens":99999999999999999999,"n":1.5"#),
        (Some(u64::MAX), 2)
    );
    assert_eq!(read(r#""max_tokens":1e999,"n":0"#), (Some(u64::MAX), 1));
    assert_eq!(
        read(r#""max_tokens":"many","n":{}"#),
        (None, 1),
        "what is none is for the upstream to judge"
    );
    assert_eq!(read(r#""max_tokens":-5,"n":-1"#), (None, 1));
    let choices = |fields: &str| accepted(&with(&format!(r#""model":"m",{fields}"#))).choices;
    for fields in [r#""n":2,"best_of":5"#, r#""best_of":5,"n":2"#] {
        assert_eq!(
            choices(fields),
            Choices {
                shown: 2,
                written: 5
            },
            "of the best, all others are written too"
        );
    }
    assert_eq!(
        choices(r#""n":3,"best_of":2"#),
        Choices {
            shown: 3,
            written: 3
        }
    );
}

#[test]
fn a_models_other_inputs_are_counted_apart() {
    let body = |fields: &str, content: &str| {
        let envelope = accepted(&format!(
            r#"{{"model":"m",{fields}"messages":[{{"role":"user","content":{content}}}]}}"#
        ));
        (envelope.prompt_bytes, envelope.more_bytes)
    };
    assert_eq!(body("", r#""1234""#), (4, 0));
    assert_eq!(
        body(
            r#""tools":[{"type":"function"}],"response_format":{},"#,
            r#""1234""#
        ),
        (4, 21 + 2)
    );
    let parts = r#"[{"type":"text","text":"12"},{"type":"image_url","image_url":{"url":"data:…"}},{"type":"file","file":{}}]"#;
    assert_eq!(body("", parts), (2, (1_500 + 5_000) * 4));
    // An unknown field may be read by a model if it is long; settings are short.
    let text = "x".repeat(80);
    assert_eq!(
        body(
            &format!(r#""documents":["{text}"],"reasoning_effort":"high","#),
            r#""1234""#
        ),
        (4, 84)
    );
    assert_eq!(
        body(
            "",
            &format!(r#"[{{"type":"document","source":{{"data":"{text}"}}}}]"#)
        ),
        (0, 91)
    );
}

/// Returns the bytes that count besides texts, of a request with one part of these members.
fn count_more_bytes(part: &str) -> usize {
    accepted(&format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":[{{{part}}}]}}]}}"#
    ))
    .more_bytes
}

#[test]
fn each_kind_of_media_is_counted() {
    for kind in MediaKind::ALL {
        let name = kind.name();
        let once = count_more_bytes(&format!(r#""type":"{name}","{name}":{{}}"#));
        assert!(once >= 4 * 1_000, "{name}: {once}");
        let twice = count_more_bytes(&format!(r#""{name}":{{}},"type":"{name}","{name}":{{}}"#));
        assert_eq!(twice, once + 2, "{name}: of two the last one is taken");
        let of_no_kind = count_more_bytes(&format!(r#""type":"text","{name}":{{}}"#));
        assert_eq!(of_no_kind, 2, "{name}: its bytes count");
    }
}

/// Everywhere that a caller may write: names that mean something at their place, and at no other.
fn words() -> impl Strategy<Value = Value> {
    let name = || prop::sample::select(NAMES.to_vec());
    let leaf = prop_oneof![
        1 => name().prop_map(Value::from),
        1 => prop::sample::select(vec!["image/png", "text/plain", "application/pdf"])
            .prop_flat_map(|kind| (Just(kind), prop::sample::select(vec!["iVBORw0KGgo", "R0lGODlh", "JVBERi0", "AAAA"])))
            .prop_map(|(kind, begin)| Value::from(format!("data:{kind};base64,{begin}{}", "A".repeat(400)))),
        1 => Just(Value::from("AbCd".repeat(100))),
        1 => Just(Value::from("two words ".repeat(40))),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(6, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((name(), inner.clone()), 0..6)
                .prop_map(|members| members.into_iter().collect::<Value>()),
            // As parts look.
            (name(), name(), name(), inner)
                .prop_map(|(kind, holds, member, data)| serde_json::json!({"type": kind, holds: {member: data}})),
        ]
    })
}

const NAMES: [&str; 18] = [
    "type",
    "text",
    "image_url",
    "input_audio",
    "file",
    "url",
    "data",
    "file_data",
    "content",
    "messages",
    "role",
    "tools",
    "prediction",
    "documents",
    "chat_template_kwargs",
    "function",
    "tool_calls",
    "arguments",
];

/// Returns the bytes that may be left out of such a body, found without the scanner: base64 as the
/// data of a part's medium, if the part is of that type. So short a text counts for less than the
/// least of each medium.
fn media(body: &Value) -> usize {
    let parts = body["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|message| message["content"].as_array())
        .flatten();
    let each = parts.filter_map(|part| {
        let kind = part["type"].as_str()?;
        let data = match kind {
            "image_url" => part[kind]["url"].as_str().or(part[kind].as_str())?,
            "input_audio" => part[kind]["data"].as_str()?,
            "file" => part[kind]["file_data"].as_str()?,
            _ => return None,
        };
        let bare = if kind == "image_url" {
            None
        } else {
            Some(data)
        };
        let base64 = data
            .strip_prefix("data:")
            .and_then(|url| url.split_once(";base64,"))
            .map(|(_, data)| data)
            .or(bare)?;
        base64
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            .then_some(base64.len())
    });
    each.sum()
}

proptest! {
    #[test]
    fn only_media_count_less_than_four_bytes_a_token(
        content in words(),
        others in prop::collection::vec((prop::sample::select(NAMES.to_vec()), words()), 0..4),
        message in words(),
        blank in any::<bool>(),
    ) {
        let mut body = serde_json::json!({"model": "m"});
        for (name, value) in others {
            body[name] = value;
        }
        body["messages"] = serde_json::json!([{"role": "user", "content": content}, message]);
        let text = if blank { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) }.expect("JSON");
        // Some of those names must be numbers or of another type at the top.
        if let Ok(envelope) = read_envelope(text.as_bytes()) {
            let counts = text.len() - media(&body);
            prop_assert!(envelope.max_prompt_tokens >= u64::try_from(counts.div_ceil(4)).unwrap(), "{} of {counts}: {text}", envelope.max_prompt_tokens);
            prop_assert!(envelope.max_prompt_tokens >= u64::try_from((envelope.prompt_bytes + envelope.more_bytes) / 4).unwrap(), "{text}");
        }
    }
}

/// The beginnings of data, and the kind that they show: as bytes, not as base64.
const BEGINNINGS: [(&[u8], &str); 14] = [
    (b"GIF89a", "image"),
    (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image"),
    (b"\xff\xd8\xff\xe0", "image"),
    (b"RIFF....WEBP", "image"),
    (b"BM", "image"),
    (b"RIFF....WAVE", "audio"),
    (b"ID3", "audio"),
    (b"OggS", "audio"),
    (b"fLaC", "audio"),
    (b"\xff\xfb\x90\x00", "audio"),
    (b"%PDF-1.7", "pdf"),
    (b"\xff\xfe", "text"),
    (b"<svg", "text"),
    (b"Hello", "text"),
];

proptest! {
    /// A text in base64 counts for less only if its beginning and its declared type agree.
    #[test]
    fn a_text_that_begins_like_a_medium_is_text(
        (begin, is) in prop::sample::select(BEGINNINGS.to_vec()),
        kind in prop::sample::select(vec!["", "text/plain", "image/gif", "IMAGE/png", "audio/mpeg", "application/pdf", "application/octet-stream", "text/html"]),
        name in prop::sample::select(vec![None, Some("a.txt"), Some("a.pdf"), Some("a.gif"), Some("a.mp3"), Some("pdf")]),
        (of, member) in prop::sample::select(vec![("image_url", "url"), ("image_url", ""), ("input_audio", "data"), ("file", "file_data")]),
        bare in any::<bool>(),
        words in 6_000usize..9_000,
    ) {
        let data = BASE64.encode([begin, "some words ".repeat(words).as_bytes()].concat());
        let value = if bare && of != "image_url" { data.clone() } else { format!("data:{kind};base64,{data}") };
        let mut held = if member.is_empty() { Value::from(value) } else { serde_json::json!({member: value}) };
        if let (Some(name), false) = (name, member.is_empty()) {
            held["filename"] = Value::from(name);
        }
        let body = serde_json::json!({"model": "m", "messages": [{"role": "user", "content": [{"type": of, of: held}]}]}).to_string();
        let by_name = match name { Some("a.pdf") => "pdf", Some("a.gif") => "image", Some("a.mp3") => "audio", _ => "text" };
        let kind = kind.to_ascii_lowercase();
        let called = match kind.as_str() {
            _ if of == "file" && bare => by_name,
            _ if of == "input_audio" && bare => "audio",
            "" if of == "file" => by_name,
            "" if of == "input_audio" => "audio",
            "application/pdf" => "pdf",
            kind => kind.split('/').next().unwrap(),
        };
        let most = accepted(&body).max_prompt_tokens;
        let all = u64::try_from(data.len() / 4 * 3 / 4).unwrap();
        // Raw sound begins with anything.
        if (called != is || is == "text") && !(of == "input_audio" && called == "audio") {
            prop_assert!(most >= all, "{most} of {all}: {body:.200}");
        } else {
            prop_assert!(most < all, "{most} of {all}: {body:.200}");
        }
    }
}

#[test]
fn fields_given_twice_are_refused() {
    check_fault(
        with(r#""model":"a","model":"b""#),
        Some("model"),
        "`model` is given more than once",
    );
    check_fault(
        with(r#""model":"a","mod\u0065l":"b""#),
        Some("model"),
        "`model` is given more than once",
    );
    check_fault(
        with(r#""model":"a","x":1,"x":1"#),
        Some("x"),
        "`x` is given more than once",
    );
    let long = format!("\"{}\":1,", "é".repeat(60));
    let fault = read_envelope(with(&format!("{long}{long}\"model\":\"m\"")).as_bytes())
        .expect_err("refused");
    assert_eq!(fault.param, Some(format!("{}…", "é".repeat(40)).into()));
    // Only the top level is looked at.
    accepted(&with(r#""model":"m","x":{"a":1,"a":2}"#));
}

#[test]
fn a_known_name_in_another_case_is_refused() {
    for (written, known) in [
        ("Model", "model"),
        ("MODEL", "model"),
        (r"\u004dodel", "model"),
        ("Messages", "messages"),
        ("me\u{17f}\u{17f}ages", "messages"),
        (r"\u017ftream", "stream"),
        ("Stream_Options", "stream_options"),
        ("MAX_TOKENS", "max_tokens"),
        ("max_to\u{212a}en\u{17f}", "max_tokens"),
        ("Max_Completion_Tokens", "max_completion_tokens"),
        ("N", "n"),
    ] {
        let shown = written
            .replace(r"\u004d", "M")
            .replace(r"\u017f", "\u{17f}");
        for body in [
            with(&format!(r#""model":"m","{written}":1"#)),
            with(&format!(r#""{written}":1,"model":"m""#)),
        ] {
            check_fault(
                body,
                Some(&shown),
                &format!("`{shown}` is not a field: write `{known}`"),
            );
        }
    }
    check_fault(
        with(
            r#""model":"m","stream":true,"stream_options":{"include_usage":true,"Include_Usage":false}"#,
        ),
        Some("Include_Usage"),
        "`Include_Usage` is not a field: write `include_usage`",
    );
    // Those who write in another case altogether are not meant, nor other letters.
    for name in [
        "maxTokens",
        "Models",
        "topP",
        "N2",
        "ｍodel",
        "mödel",
        "X",
        "K",
        "dataSources",
    ] {
        accepted(&with(&format!(r#""model":"m","{name}":[]"#)));
    }
}

#[test]
fn many_fields_are_compared_in_time() {
    let fields = |count: usize, last: &str| {
        let fields: String = (0..count).map(|index| format!("\"f{index}\":0,")).collect();
        with(&format!("{fields}{last}\"model\":\"m\""))
    };
    accepted(&fields(100_000, ""));
    check_fault(
        fields(100_000, "\"f70000\":1,"),
        Some("f70000"),
        "`f70000` is given more than once",
    );
    check_fault(
        fields(33, "\"f7\":1,"),
        Some("f7"),
        "`f7` is given more than once",
    );
    check_fault(
        fields(200_000, ""),
        None,
        "the request body has too many fields",
    );
}

#[test]
fn prompt_bytes_count_text_only() {
    let bytes = |messages: &str| {
        accepted(&format!(r#"{{"model":"m","messages":[{messages}]}}"#)).prompt_bytes
    };
    assert_eq!(bytes(r#"{"role":"user","content":"hi"}"#), 2);
    assert_eq!(
        bytes(r#"{"role":"user","content":"h\u00e9\n\ud83d\ude00"}"#),
        8
    );
    assert_eq!(
        bytes(r#"{"content":"a"},{"content":"bc"},{"content":null},{}"#),
        3
    );
    assert_eq!(
        bytes(
            r#"{"content":[{"type":"text","text":"abc"},{"type":"image_url","image_url":{"url":"data:x"}},
                {"type":"text","text":7},"x",null,{"text":"d"}]}"#
        ),
        4
    );
    assert_eq!(
        bytes(
            r#"{"content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},
                {"custom":{"name":"g","input":"xy"}}, 3],"function_call":{"arguments":"z"}}"#
        ),
        10
    );
    assert_eq!(
        bytes(r#"{"content":{"text":"no"},"tool_calls":"no","function_call":"no","name":"no"}"#),
        0
    );
}

const GOLDEN: [&str; 3] = [
    r#"{"model":"gpt-4o","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi é😀"}],"temperature":0.5,"max_tokens":16}"#,
    r#"{"stream":true,"stream_options":{"include_usage":true},"model":"fast","messages":[{"role":"user","content":[{"type":"text","text":"a\nb"}]}],"n":2}"#,
    r#"{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c1","content":"3"}],"tools":[{"type":"function","function":{"name":"f"}}]}"#,
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn b19_mutated_requests_are_read_or_refused(
        golden in prop::sample::select(GOLDEN.to_vec()),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), 0..4u8, any::<u8>()), 1..4),
    ) {
        let mut body = golden.as_bytes().to_vec();
        for (at, how, byte) in mutations {
            let at = at.index(body.len().max(1));
            match how {
                0 => body.insert(at, byte),
                1 => body.truncate(at.max(1)),
                2 if !body.is_empty() => drop(body.remove(at)),
                _ => if let Some(place) = body.get_mut(at) { *place = byte },
            }
        }
        match read_envelope(&body) {
            Ok(envelope) => {
                let value: Value = serde_json::from_slice(&body).expect("what was accepted is JSON");
                prop_assert_eq!(value["model"].as_str(), Some(envelope.model.as_str()));
                prop_assert_eq!(value["stream"].as_bool().unwrap_or(false), envelope.stream);
                prop_assert_eq!(
                    value["stream_options"]["include_usage"].as_bool().unwrap_or(false),
                    envelope.include_usage
                );
                prop_assert_eq!((body[envelope.places.open], body[envelope.places.model.start]), (b'{', b'"'));
            }
            Err(fault) => prop_assert!(fault.message.len() < 300),
        }
    }
}

#[test]
fn a_format_that_is_json_is_noticed() {
    for (format, wants_json) in [
        ("null", false),
        (r#"{"type":"text"}"#, false),
        (r#"{"type":"json_object"}"#, true),
        (
            r#"{"json_schema":{"name":"n","schema":{"type":"object"}},"type":"json_schema"}"#,
            true,
        ),
        (r#"{"schema":{"type":"json_object"}}"#, false),
        (r#""json_object""#, false),
        (r#"[]"#, false),
    ] {
        let body = format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":"a"}}],"response_format":{format}}}"#
        );
        assert_eq!(accepted(&body).wants_json, wants_json, "{format}");
    }
    assert!(!accepted(r#"{"model":"m","messages":[{"role":"user","content":"a"}]}"#).wants_json);
}
