use super::super::{WriteTarget, write_request};
use super::*;
use crate::front::CHAT;
use crate::upstream::quirks::{self, *};
use bytes::Bytes;
use proptest::prelude::*;

fn written(
    quirks: &'static Quirks,
    fill: Option<u64>,
    body: &str,
) -> Result<(String, Vec<String>), Refused> {
    let envelope = CHAT.envelope(body.as_bytes()).expect("a good request");
    let to = WriteTarget {
        model: "m",
        ask_usage: true,
        fill_max_tokens: fill,
        quirks,
    };
    let (parts, losses) = write_request(&Bytes::copy_from_slice(body.as_bytes()), &envelope, &to)?;
    Ok((
        String::from_utf8(parts.concat()).unwrap(),
        losses.names().iter().map(ToString::to_string).collect(),
    ))
}

/// Checks top-level fields other than the model and the messages: before, after, and the losses
/// with blanks between them.
#[track_caller]
fn check(quirks: &'static Quirks, before: &str, after: &str, losses: &str) {
    let head = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]"#;
    let [before, after] = [before, after].map(|fields| {
        if fields.is_empty() {
            format!("{head}}}")
        } else {
            format!("{head},{fields}}}")
        }
    });
    let losses: Vec<String> = losses.split_whitespace().map(str::to_owned).collect();
    assert_eq!(
        written(quirks, None, &before),
        Ok((after, losses)),
        "{}: {before}",
        quirks.name
    );
}

/// Checks the list of messages: before, after, and the losses.
#[track_caller]
fn check_messages(quirks: &'static Quirks, before: &str, after: &str, losses: &str) {
    let [before, after] =
        [before, after].map(|messages| format!(r#"{{"messages":[{messages}],"model":"m"}}"#));
    let losses: Vec<String> = losses.split_whitespace().map(str::to_owned).collect();
    assert_eq!(
        written(quirks, None, &before),
        Ok((after, losses)),
        "{}: {before}",
        quirks.name
    );
}

#[track_caller]
fn check_refused(quirks: &'static Quirks, fields: &str, param: &str) {
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],{fields}}}"#);
    let Err(Refused::Unsupported(complaint)) = written(quirks, None, &body) else {
        panic!("{}: {body} is not refused", quirks.name)
    };
    assert_eq!(complaint.param, param, "{}: {body}", quirks.name);
}

#[track_caller]
fn check_messages_refused(quirks: &'static Quirks, messages: &str, param: &str) {
    let body = format!(r#"{{"model":"m","messages":[{messages}]}}"#);
    let Err(Refused::Unsupported(complaint)) = written(quirks, None, &body) else {
        panic!("{}: {body} is not refused", quirks.name)
    };
    assert_eq!(complaint.param, param, "{}: {body}", quirks.name);
}

#[test]
fn what_no_quirk_names_stays_as_it_was_written() {
    let odd = "\n{ \"model\" : \"m\" ,\"x\":1e999, \"messages\":[ {\"role\":\"user\",\"content\":\"\\u00e9\"} , { } ], \"min_p\":0.050 } ";
    for quirks in quirks::ALL {
        assert_eq!(
            written(quirks, None, odd),
            Ok((odd.to_owned(), Vec::new())),
            "{}",
            quirks.name
        );
    }
}

#[test]
fn plain_servers_get_everything() {
    let all = r#""max_completion_tokens":5,"n":2,"logprobs":true,"logit_bias":{"1":2},"seed":null,"stop":"x","tool_choice":"required","response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{}}},"stream_options":{}"#;
    for quirks in [&Quirks::NONE, &OPENROUTER, &XAI] {
        check(quirks, all, all, "");
    }
}

#[test]
fn the_most_tokens_have_the_old_name() {
    for quirks in [
        &MISTRAL,
        &DEEPSEEK,
        &PERPLEXITY,
        &TOGETHER,
        &VLLM,
        &LLAMA_CPP,
        &SGLANG,
        &TGI,
        &OLLAMA,
    ] {
        check(
            quirks,
            r#""max_completion_tokens":5"#,
            r#""max_tokens":5"#,
            "",
        );
        check(quirks, r#""max_tokens":5"#, r#""max_tokens":5"#, "");
        check(
            quirks,
            r#""max_completion_tokens":null,"max_tokens":5"#,
            r#""max_tokens":5"#,
            "",
        );
        check(
            quirks,
            r#""max_completion_tokens":5,"max_tokens":null"#,
            r#""max_tokens":5"#,
            "",
        );
        check(
            quirks,
            r#""max_tokens":5,"top_p":1,"max_completion_tokens":5"#,
            r#""top_p":1,"max_tokens":5"#,
            "",
        );
        check(
            quirks,
            r#""max_tokens":7,"max_completion_tokens":5"#,
            r#""max_tokens":5"#,
            "max_tokens",
        );
    }
    for quirks in [&GROQ, &CEREBRAS, &FIREWORKS, &OPENROUTER, &XAI] {
        check(
            quirks,
            r#""max_completion_tokens":5"#,
            r#""max_completion_tokens":5"#,
            "",
        );
    }
}

#[test]
fn a_default_goes_in_beside_the_quirks() {
    let body = |fields: &str| format!(r#"{{"model":"m"{fields},"messages":[{{}}]}}"#);
    let filled =
        |fields: &str, with: &str| format!(r#"{{{with}"model":"m"{fields},"messages":[{{}}]}}"#);
    for (before, expected) in [
        ("", filled("", r#""max_tokens":64,"#)),
        (
            r#","max_completion_tokens":null"#,
            filled("", r#""max_tokens":64,"#),
        ),
        (
            r#","max_completion_tokens":null,"max_tokens":null"#,
            filled(r#","max_tokens":64"#, ""),
        ),
        (
            r#","max_completion_tokens":5"#,
            filled(r#","max_tokens":5"#, ""),
        ),
    ] {
        assert_eq!(
            written(&MISTRAL, Some(64), &body(before)),
            Ok((expected, Vec::new())),
            "{before}"
        );
    }
}

#[test]
fn mistral_is_sent_no_stream_options() {
    for (before, after) in [
        (r#""stream":true"#, r#""stream":true"#),
        (
            r#""stream":true,"stream_options":{"include_usage":true}"#,
            r#""stream":true"#,
        ),
        (
            r#""stream_options":{"include_usage":true},"stream":false"#,
            r#""stream":false"#,
        ),
        (r#""stream_options":null"#, ""),
    ] {
        check(&MISTRAL, before, after, "");
        check(&PERPLEXITY, before, after, "");
    }
    let body = r#"{"model":"m","messages":[{}],"stream":true}"#;
    let asked =
        r#"{"stream_options":{"include_usage":true},"model":"m","messages":[{}],"stream":true}"#;
    assert_eq!(
        written(&GROQ, None, body),
        Ok((asked.to_owned(), Vec::new()))
    );
}

#[test]
fn mistral() {
    check(&MISTRAL, r#""seed":7"#, r#""random_seed":7"#, "");
    check(
        &MISTRAL,
        r#""seed":7,"random_seed":8"#,
        r#""random_seed":7"#,
        "random_seed",
    );
    check(
        &MISTRAL,
        r#""tool_choice":"required""#,
        r#""tool_choice":"any""#,
        "",
    );
    check(
        &MISTRAL,
        r#""tool_choice":"none""#,
        r#""tool_choice":"none""#,
        "",
    );
    let named = r#""tool_choice":{"type":"function","function":{"name":"f"}}"#;
    check(&MISTRAL, named, named, "");
    check(
        &MISTRAL,
        r#""user":"u","store":true,"logit_bias":{"5":-100},"safety_identifier":"s","verbosity":"low","service_tier":"flex","n":2"#,
        r#""n":2"#,
        "user store logit_bias safety_identifier verbosity service_tier",
    );
    check(
        &MISTRAL,
        r#""store":false,"logit_bias":{ },"verbosity":"medium","service_tier":"auto","user":null"#,
        r#""service_tier":"auto""#,
        "",
    );
    check(
        &MISTRAL,
        r#""service_tier":"default","functions":[],"modalities":["text"]"#,
        "",
        "",
    );
    check_refused(&MISTRAL, r#""functions":[{"name":"f"}]"#, "functions");
    check_refused(
        &MISTRAL,
        r#""modalities":["text","audio"],"audio":{}"#,
        "modalities",
    );
    check_refused(&MISTRAL, r#""web_search_options":{}"#, "web_search_options");
}

#[test]
fn groq() {
    for field in [r#""n":2"#, r#""logprobs":true"#, r#""top_logprobs":5"#] {
        let param = field.split('"').nth(1).unwrap();
        check_refused(&GROQ, field, param);
    }
    check(
        &GROQ,
        r#""n":1,"logprobs":false,"top_logprobs":null,"seed":1"#,
        r#""seed":1"#,
        "",
    );
    check(
        &GROQ,
        r#""frequency_penalty":0.5,"presence_penalty":0.0,"metadata":{"a":"b"}"#,
        "",
        "frequency_penalty metadata",
    );
    check(&GROQ, r#""service_tier":"default""#, "", "");
    check(&GROQ, r#""service_tier":"priority""#, "", "service_tier");
    check(
        &GROQ,
        r#""service_tier":"on_demand""#,
        r#""service_tier":"on_demand""#,
        "",
    );
    check(
        &GROQ,
        r#""reasoning_effort":"minimal""#,
        r#""reasoning_effort":"low""#,
        "reasoning_effort",
    );
    check(
        &GROQ,
        r#""reasoning_effort":"none""#,
        r#""reasoning_effort":"none""#,
        "",
    );
}

#[test]
fn deepseek() {
    check_refused(&DEEPSEEK, r#""n":2"#, "n");
    check_refused(
        &DEEPSEEK,
        r#""response_format":{"json_schema":{"schema":{}},"type":"json_schema"}"#,
        "response_format",
    );
    let object = r#""response_format":{"type":"json_object"},"logprobs":true"#;
    check(&DEEPSEEK, object, object, "");
}

#[test]
fn perplexity() {
    check_refused(&PERPLEXITY, r#""tools":[{}]"#, "tools");
    check(
        &PERPLEXITY,
        r#""tools":[],"tool_choice":"auto","seed":1,"search_mode":"web""#,
        r#""search_mode":"web""#,
        "seed",
    );
    check(
        &PERPLEXITY,
        r#""response_format":{"type":"json_object"}"#,
        r#""response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object"}}}"#,
        "",
    );
    let schema = r#""response_format":{"type":"json_schema","json_schema":{"schema":{}}}"#;
    check(&PERPLEXITY, schema, schema, "");
    check(
        &PERPLEXITY,
        r#""reasoning_effort":"xhigh""#,
        r#""reasoning_effort":"high""#,
        "reasoning_effort",
    );
}

#[test]
fn together_and_cerebras() {
    check_refused(&TOGETHER, r#""logprobs":true"#, "logprobs");
    check(
        &TOGETHER,
        r#""stop":"\n","n":2"#,
        r#""stop":["\n"],"n":2"#,
        "",
    );
    check(
        &FIREWORKS,
        r#""logprobs":true,"n":2,"stop":"x","reasoning_effort":"max""#,
        r#""logprobs":true,"n":2,"stop":"x","reasoning_effort":"high""#,
        "reasoning_effort",
    );
    check(
        &CEREBRAS,
        r#""frequency_penalty":1,"logit_bias":{},"service_tier":"flex","store":true"#,
        r#""service_tier":"flex""#,
        "frequency_penalty store",
    );
}

#[test]
fn tgi() {
    check(&TGI, r#""stop":"END""#, r#""stop":["END"]"#, "");
    check(&TGI, r#""stop":["a", "b"]"#, r#""stop":["a", "b"]"#, "");
    check(
        &TGI,
        r#""stop":null,"logit_bias":{"1":1}"#,
        "",
        "logit_bias",
    );
    check_refused(&TGI, r#""n":3"#, "n");
    for (before, after) in [
        (
            r#"{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"a": 1}}}"#,
            r#"{"type":"json","value":{"a": 1}}"#,
        ),
        (
            r#"{"json_schema":{"name":"n"},"type":"json_schema"}"#,
            r#"{"type":"json","value":{"type":"object"}}"#,
        ),
        (
            r#"{"type":"json_object"}"#,
            r#"{"type":"json","value":{"type":"object"}}"#,
        ),
        (
            r#"{"type":"json_object","value":{"a":1}}"#,
            r#"{"type":"json_object","value":{"a":1}}"#,
        ),
        (
            r#"{"type":"regex","value":"a+"}"#,
            r#"{"type":"regex","value":"a+"}"#,
        ),
    ] {
        check(
            &TGI,
            &format!(r#""response_format":{before}"#),
            &format!(r#""response_format":{after}"#),
            "",
        );
    }
    check(&TGI, r#""response_format":{"type":"text"}"#, "", "");
}

#[test]
fn tools_are_chosen_as_the_server_can() {
    for choice in [
        r#""required""#,
        r#"{"type":"function","function":{"name":"f"}}"#,
        r#"{"type":"allowed_tools"}"#,
    ] {
        check_refused(
            &OLLAMA,
            &format!(r#""tools":[{{}}],"tool_choice":{choice}"#),
            "tool_choice",
        );
    }
    check(
        &OLLAMA,
        r#""tools":[{}],"tool_choice":"auto","parallel_tool_calls":true"#,
        r#""tools":[{}],"tool_choice":"auto""#,
        "",
    );
    check(
        &OLLAMA,
        r#""tools":[{}],"parallel_tool_calls":false,"tool_choice":"none","top_p":1"#,
        r#""top_p":1"#,
        "parallel_tool_calls",
    );
    check_refused(
        &LLAMA_CPP,
        r#""tool_choice":{"type":"function","function":{"name":"f"}}"#,
        "tool_choice",
    );
    for word in ["none", "auto", "required"] {
        let field = format!(r#""tools":[{{}}],"tool_choice":"{word}""#);
        check(&LLAMA_CPP, &field, &field, "");
    }
}

#[test]
fn developers_are_systems() {
    let [before, after] = ["developer", "system"].map(|role| {
        format!(r#"{{"content":"a","role":"{role}"}},{{"role":"user","content":"developer"}}"#)
    });
    for quirks in [
        &MISTRAL,
        &DEEPSEEK,
        &PERPLEXITY,
        &TOGETHER,
        &FIREWORKS,
        &VLLM,
        &LLAMA_CPP,
        &SGLANG,
        &TGI,
        &OLLAMA,
    ] {
        check_messages(quirks, &before, &after, "");
    }
    for quirks in [&Quirks::NONE, &GROQ, &CEREBRAS, &OPENROUTER] {
        check_messages(quirks, &before, &before, "");
    }
}

#[test]
fn messages_hold_what_the_server_knows() {
    let echoed = r#"{"role":"assistant","content":"a","refusal":null,"annotations":[],"audio":null,"function_call":null,"tool_calls":null,"reasoning_content":"hm"}"#;
    check_messages(
        &MISTRAL,
        echoed,
        r#"{"role":"assistant","content":"a","tool_calls":null}"#,
        "messages[].reasoning_content",
    );
    check_messages(
        &GROQ,
        echoed,
        r#"{"role":"assistant","content":"a","function_call":null,"tool_calls":null}"#,
        "messages[].reasoning_content",
    );
    check_messages(
        &GROQ,
        r#"{"name":"ann","role":"user","content":"a"},{"role":"tool","name":"f","tool_call_id":"x","content":""},{"name":"g","role":"function","content":""}"#,
        r#"{"role":"user","content":"a"},{"role":"tool","name":"f","tool_call_id":"x","content":""},{"name":"g","role":"function","content":""}"#,
        "messages[].name",
    );
    check_messages(
        &GROQ,
        r#"{"role":"user","content":"a","b c":1,"cache_control":{"type":"ephemeral"},"é":"x"}"#,
        r#"{"role":"user","content":"a"}"#,
        "messages[].other messages[].cache_control",
    );
    check_messages_refused(
        &MISTRAL,
        r#"{},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}"#,
        "messages[1].function_call",
    );
    check_messages_refused(
        &MISTRAL,
        r#"{"name":"f","content":"1","role":"function"}"#,
        "messages[0].role",
    );
}

#[test]
fn many_strange_fields_are_few_losses() {
    let fields: String = (0..1000).map(|n| format!(r#","x{n}":1"#)).collect();
    let (_, losses) = written(
        &GROQ,
        None,
        &format!(r#"{{"model":"m","messages":[{{"role":"user","content":"a"{fields}}}]}}"#),
    )
    .unwrap();
    assert_eq!(losses.len(), MAX_NAMES + 1);
    assert!(losses.contains(&"messages[].other".to_owned()));
}

#[test]
fn calls_and_their_results_keep_one_id_at_mistral() {
    check_messages(
        &MISTRAL,
        r#"{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"id\":\"call_1\"}"}},{"id":"abcdefghi","function":{}},7,{"function":{}}]},{"role":"tool","tool_call_id":"call_1","content":"call_1"},{"role":"tool","tool_call_id":"abcdefghi","content":""},{"role":"tool","tool_call_id":null,"content":""}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"6cVnL8Rc5","type":"function","function":{"name":"f","arguments":"{\"id\":\"call_1\"}"}},{"id":"abcdefghi","function":{}},7,{"function":{}}]},{"role":"tool","tool_call_id":"6cVnL8Rc5","content":"call_1"},{"role":"tool","tool_call_id":"abcdefghi","content":""},{"role":"tool","tool_call_id":null,"content":""}"#,
        "",
    );
    let foreign = r#"{"role":"assistant","tool_calls":[{"id":"call_1"}]}"#;
    check_messages(&VLLM, foreign, foreign, "");
}

#[test]
fn ollama_fetches_no_pictures() {
    let image = |url: &str| {
        format!(
            r#"{{"role":"user","content":[{{"type":"text","text":"a"}},{{"type":"image_url","image_url":{url}}}]}}"#
        )
    };
    for url in [
        r#"{"url":"data:image/png;base64,AA"}"#,
        r#""data:image/png;base64,AA""#,
        r#"{"url":"Data:,"}"#,
        "{}",
        "null",
    ] {
        check_messages(&OLLAMA, &image(url), &image(url), "");
    }
    for url in [
        r#"{"detail":"low","url":"https://example.com/a.png"}"#,
        r#""http://x""#,
        r#"{"url":""}"#,
    ] {
        check_messages_refused(&OLLAMA, &image(url), "messages[0].content[1].image_url");
        check_messages(&VLLM, &image(url), &image(url), "");
    }
}

/// A field's name with escaped letters names the field.
#[test]
fn escaped_names_are_names() {
    check(
        &MISTRAL,
        r#""se\u0065d":7,"us\u0065r":"x""#,
        r#""random_seed":7"#,
        "user",
    );
}

const FIELDS: &[&str] = &[
    r#""n":%"#,
    r#""stop":%"#,
    r#""seed":%"#,
    r#""tools":%"#,
    r#""user":%"#,
    r#""max_tokens":5"#,
    r#""max_completion_tokens":6"#,
    r#""random_seed":%"#,
    r#""tool_choice":%"#,
    r#""response_format":%"#,
    r#""logit_bias":%"#,
    r#""stream":true"#,
    r#""stream_options":{"include_usage":false}"#,
    r#""reasoning_effort":%"#,
    r#""service_tier":%"#,
    r#""other":%"#,
];
const VALUES: &[&str] = &[
    "null",
    "1",
    "2.5",
    r#""required""#,
    r#""none""#,
    r#""max""#,
    "[]",
    "{}",
    r#"[{"a":[]}]"#,
    r#"{"type":"json_schema","json_schema":{"schema":{"x":1}}}"#,
    r#"{"type":"json_object"}"#,
];
const MESSAGES: &[&str] = &[
    "{}",
    r#"{"name":"f","role":"function"}"#,
    r#"{"role":"developer","content":null}"#,
    r#"{"role":7,"name":[],"content":[]}"#,
    r#"{"x":1,"role":"user","y":2,"content":[{"type":"image_url","image_url":"data:,"},1],"z":3}"#,
    r#"{"tool_calls":[{"id":"a"},{"id":"b"},{"id":7},[]],"role":"assistant","content":""}"#,
    r#"{"role":"tool","tool_call_id":"a"}"#,
];

proptest! {
    /// For any request and any server, the written body is JSON, has no field twice, and has each
    /// field of the caller's or names it as lost.
    #[test]
    fn what_is_written_is_a_request(
        server in 0..quirks::ALL.len(),
        fields in prop::sample::subsequence(FIELDS, 0..FIELDS.len()).prop_shuffle(),
        values in prop::collection::vec(0..VALUES.len(), FIELDS.len()),
        messages in prop::collection::vec(0..MESSAGES.len(), 1..5),
        blank in prop::sample::select(vec!["", " ", "\n"]),
    ) {
        let quirks = quirks::ALL[server];
        let mut members: Vec<String> = fields.iter().zip(values).map(|(field, value)| field.replace('%', VALUES[value])).collect();
        let list: Vec<&str> = messages.iter().map(|at| MESSAGES[*at]).collect();
        members.push(format!(r#""messages":[{}]"#, list.join(",")));
        members.push(r#""model":"fast""#.to_owned());
        let body = format!("{{{blank}{}{blank}}}", members.join(&format!("{blank},{blank}")));
        let Ok(envelope) = CHAT.envelope(body.as_bytes()) else { return Ok(()) };
        let to = WriteTarget { model: "m", ask_usage: true, fill_max_tokens: Some(9), quirks };
        let Ok((parts, losses)) = write_request(&Bytes::from(body.clone()), &envelope, &to) else { return Ok(()) };
        let out = String::from_utf8(parts.concat()).unwrap();
        let again = CHAT.envelope(out.as_bytes());
        prop_assert!(again.is_ok(), "{} makes {out} of {body}: {again:?}", quirks.name);
        let [before, after]: [serde_json::Value; 2] = [&body, &out].map(|text| serde_json::from_str(text).unwrap());
        for (name, value) in before.as_object().unwrap() {
            let is_ours = value.is_null() || ["model", "stream_options", "messages", "max_completion_tokens", "seed", "tools"].contains(&name.as_str());
            let is_lost = losses.names().iter().any(|lost| lost == name);
            let is_ruled = quirks.rule(name).is_some();
            prop_assert!(is_ours || is_lost || is_ruled || after.get(name) == Some(value), "{name} in {out} of {body}");
        }
    }
}
