use crate::upstream::anthropic::tests::*;

#[track_caller]
fn check(messages: &str, expected: &str, losses: &str) {
    check_with(OPUS_4_1, messages, "", expected, losses);
}

#[track_caller]
fn check_with(model: &str, messages: &str, fields: &str, expected: &str, losses: &str) {
    assert_eq!(
        conversation(model, messages, fields),
        (expected.to_owned(), losses.to_owned()),
        "{messages}"
    );
}

/// Checks the parts that a user's parts become.
#[track_caller]
fn check_parts(parts: &str, expected: &str, losses: &str) {
    let messages = format!(r#"[{{"role":"user","content":[{parts}]}}]"#);
    check(
        &messages,
        &format!(r#""messages":[{{"role":"user","content":[{expected}]}}]"#),
        losses,
    );
}

const HI: &str = r#"{"role":"user","content":[{"type":"text","text":"hi"}]}"#;

#[test]
fn the_systems_words_are_gathered() {
    check(
        r#"[{"role":"system","content":"a"},{"role":"user","content":"hi"},{"role":"developer","content":[{"type":"text","text":"b","cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"text","text":" "},{"type":"text","text":"c"}]},{"role":"system","content":""}]"#,
        &format!(
            r#""system":[{{"type":"text","text":"a"}},{{"type":"text","text":"b","cache_control":{{"type":"ephemeral","ttl":"1h"}}}},{{"type":"text","text":"c"}}],"messages":[{HI}]"#
        ),
        "",
    );
    check(
        r#"[{"role":"system","content":" \n"},{"role":"user","content":"hi"}]"#,
        &format!(r#""messages":[{HI}]"#),
        "",
    );
}

#[test]
fn texts_of_nothing_are_dropped() {
    check_parts(
        r#"{"type":"text","text":"a"},{"type":"text","text":""},{"type":"text","text":"\n \t"},{"type":"text","text":" b "}"#,
        r#"{"type":"text","text":"a"},{"type":"text","text":" b "}"#,
        "",
    );
}

#[test]
fn pictures() {
    let image = |url: &str| format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#);
    let there = |kind: &str, data: &str| {
        format!(
            r#"{{"type":"image","source":{{"type":"base64","media_type":"image/{kind}","data":"{data}"}}}}"#
        )
    };
    check_parts(
        &image("data:image/png;base64,aaaa"),
        &there("png", "aaaa"),
        "",
    );
    check_parts(
        &image("data:image/JPG;base64,aaaa"),
        &there("jpeg", "aaaa"),
        "",
    );
    check_parts(
        &image("data:image/webp;charset=x;base64,aaaa"),
        &there("webp", "aaaa"),
        "",
    );
    check_parts(
        &image("data:;base64,R0lGODlh"),
        &there("gif", "R0lGODlh"),
        "",
    );
    check_parts(
        &image("https://x/y.png"),
        r#"{"type":"image","source":{"type":"url","url":"https://x/y.png"}}"#,
        "",
    );
    check_parts(
        r#"{"type":"image_url","image_url":{"url":"http://x/y","detail":"auto"},"cache_control":{"type":"ephemeral"}}"#,
        r#"{"type":"image","source":{"type":"url","url":"http://x/y"},"cache_control":{"type":"ephemeral"}}"#,
        "",
    );
    check_parts(
        r#"{"type":"image_url","image_url":{"url":"http://x/y","detail":"high"}}"#,
        r#"{"type":"image","source":{"type":"url","url":"http://x/y"}}"#,
        "messages[].content[].image_url.detail",
    );
}

#[test]
fn files() {
    let file = |data: &str, more: &str| {
        format!(r#"{{"type":"file","file":{{"file_data":"{data}"{more}}}}}"#)
    };
    let pdf = r#"{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0x"}"#;
    check_parts(
        &file("data:application/pdf;base64,JVBERi0x", ""),
        &format!("{pdf}}}"),
        "",
    );
    check_parts(
        &file(
            "data:application/pdf;base64,JVBERi0x",
            r#","filename":"a.pdf""#,
        ),
        &format!(r#"{pdf},"title":"a.pdf"}}"#),
        "",
    );
    check_parts(&file("data:;base64,JVBERi0x", ""), &format!("{pdf}}}"), "");
    let text =
        r#"{"type":"document","source":{"type":"text","media_type":"text/plain","data":"hé"}}"#;
    check_parts(&file("data:text/plain;base64,aMOp", ""), text, "");
    check_parts(
        &file("data:text/markdown;charset=utf-8;base64,aMOp", ""),
        text,
        "",
    );
    check_parts(&file("data:application/json;base64,aMOp", ""), text, "");
    check_parts(
        &file("data:image/png;base64,aaaa", ""),
        r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aaaa"}}"#,
        "",
    );
    check_parts(
        &file("https://x/a.pdf", ""),
        r#"{"type":"document","source":{"type":"url","url":"https://x/a.pdf"}}"#,
        "",
    );
}

#[test]
fn what_cannot_be_carried_is_refused_with_its_place() {
    let body = |role: &str, part: &str| {
        format!(
            r#"{{"model":"x","messages":[{{"role":"user","content":"hi"}},{{"role":"{role}","content":[{{"type":"text","text":"a"}},{part}]}},{{"role":"user","content":"x"}}]}}"#
        )
    };
    let image = r#"{"type":"image_url","image_url":{"url":"https://x/y.png"}}"#;
    for (model, role, part, expected) in [
        (
            OPUS_4_1,
            "user",
            r#"{"type":"input_audio","input_audio":{"data":"aaaa","format":"wav"}}"#,
            "? messages[1].content[1].input_audio",
        ),
        (
            OPUS_4_1,
            "user",
            r#"{"type":"file","file":{"file_id":"f"}}"#,
            "? messages[1].content[1].file",
        ),
        (
            OPUS_4_1,
            "user",
            r#"{"type":"file","file":{"file_data":"data:application/zip;base64,aaaa"}}"#,
            "? messages[1].content[1].file",
        ),
        (
            OPUS_4_1,
            "user",
            r#"{"type":"file","file":{"file_data":"data:text/plain;base64,/w=="}}"#,
            "? messages[1].content[1].file",
        ),
        (
            OPUS_4_1,
            "user",
            r#"{"type":"file","file":{"file_data":"gs://x/y"}}"#,
            "? messages[1].content[1].file",
        ),
        (
            OPUS_4_1,
            "user",
            r#"{"type":"image_url","image_url":{"url":"data:image/tiff;base64,aaaa"}}"#,
            "? messages[1].content[1].image_url",
        ),
        (
            OPUS_4_1,
            "user",
            r#"{"type":"image_url","image_url":{"url":"gs://x/y.png"}}"#,
            "? messages[1].content[1].image_url",
        ),
        (
            OPUS_4_1,
            "assistant",
            image,
            "? messages[1].content[1].image_url",
        ),
        (
            "claude-2.1",
            "user",
            image,
            "? messages[1].content[1].image_url",
        ),
    ] {
        assert_eq!(refused(model, &body(role, part)), expected, "{part}");
    }
}

/// Checks the input that a call's arguments become.
#[track_caller]
fn check_arguments(arguments: &str, expected: &str, losses: &str) {
    let messages = format!(
        r#"[{{"role":"user","content":"hi"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"c","type":"function","function":{{"name":"f","arguments":{arguments}}}}}]}},{{"role":"tool","tool_call_id":"c","content":"r"}}]"#
    );
    let expected = format!(
        r#""messages":[{HI},{{"role":"assistant","content":[{{"type":"tool_use","id":"c","name":"f","input":{expected}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c","content":"r"}}]}}]"#
    );
    check(&messages, &expected, losses);
}

#[test]
fn arguments_are_the_object_that_the_model_wrote() {
    check_arguments(r#""{\"q\": 1.0, \"a\":[]}""#, r#"{"q": 1.0, "a":[]}"#, "");
    check_arguments(r#"" {}\n""#, "{}", "");
    check_arguments(r#""""#, "{}", "");
    check_arguments(r#""null""#, "{}", "");
    check_arguments("null", "{}", "");
    let lost = "messages[].tool_calls[].function.arguments";
    check_arguments(r#""{\"q\":""#, r#"{"_raw":"{\"q\":"}"#, lost);
    check_arguments(r#""[1]""#, r#"{"_raw":"[1]"}"#, lost);
    check_arguments(r#""{} x""#, r#"{"_raw":"{} x"}"#, lost);
}

#[test]
fn anothers_signature_of_a_call_is_lost() {
    let google = r#""extra_content":{"google":{"thought_signature":"eA=="}}"#;
    let messages = format!(
        r#"[{{"role":"user","content":"hi"}},{{"role":"assistant","tool_calls":[{{"id":"c","function":{{"name":"f"}},{google}}}]}},{{"role":"tool","tool_call_id":"c","content":"r"}}]"#
    );
    assert_eq!(
        conversation(OPUS_4_1, &messages, "").1,
        "messages[].tool_calls[].extra_content"
    );
}

/// Checks the block that a tool's result becomes.
#[track_caller]
fn check_result(message: &str, expected: &str, losses: &str) {
    let messages = format!(
        r#"[{{"role":"user","content":"hi"}},{{"role":"assistant","tool_calls":[{{"id":"c","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}},{{"role":"tool","tool_call_id":"c",{message}}}]"#
    );
    let (body, lost) = conversation(OPUS_4_1, &messages, "");
    let written = body
        .rsplit_once(r#"{"role":"user","content":["#)
        .unwrap()
        .1
        .strip_suffix("]}]")
        .unwrap();
    let expected = format!(r#"{{"type":"tool_result","tool_use_id":"c"{expected}}}"#);
    assert_eq!((written, lost.as_str()), (expected.as_str(), losses));
}

#[test]
fn results() {
    check_result(r#""content":"r""#, r#","content":"r""#, "");
    check_result(r#""content":"""#, "", "");
    check_result(r#""content":" \n""#, "", "");
    check_result(
        r#""content":[{"type":"text","text":"r"}]"#,
        r#","content":"r""#,
        "",
    );
    check_result(
        r#""content":[{"type":"text","text":"a"},{"type":"text","text":" "},{"type":"image_url","image_url":{"url":"https://x/y"}}]"#,
        r#","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","url":"https://x/y"}}]"#,
        "",
    );
    check_result(
        r#""content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"text","text":"b"}]"#,
        r#","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"cache_control":{"type":"ephemeral","ttl":"1h"}"#,
        "",
    );
    check_result(
        r#""content":"r","cache_control":{"type":"ephemeral"}"#,
        r#","content":"r","cache_control":{"type":"ephemeral"}"#,
        "",
    );
    check_result(
        r#""content":"r","cache_control":{"type":"ephemeral","ttl":"1h"}"#,
        r#","content":"r","cache_control":{"type":"ephemeral","ttl":"1h"}"#,
        "",
    );
}

#[test]
fn a_refusal_is_text_and_names_are_lost() {
    check(
        r#"[{"role":"user","name":"bob","content":"hi"},{"role":"assistant","content":null,"refusal":"no"},{"role":"user","content":"hi"}]"#,
        &format!(
            r#""messages":[{HI},{{"role":"assistant","content":[{{"type":"text","text":"no"}}]}},{HI}]"#
        ),
        "messages[].name",
    );
}

#[test]
fn the_old_function_calls_are_tools() {
    check(
        r#"[{"role":"user","content":"hi"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"r"}]"#,
        &format!(
            r#""messages":[{HI},{{"role":"assistant","content":[{{"type":"tool_use","id":"call_1_0","name":"f","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"call_1_0","content":"r"}}]}}]"#
        ),
        "",
    );
}

#[test]
fn thoughts_stand_in_front_as_they_were() {
    let call = |id: &str| {
        format!(
            r#""tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]"#
        )
    };
    let there = |id: &str, thoughts: &str| {
        format!(
            r#""messages":[{HI},{{"role":"assistant","content":[{thoughts}{{"type":"text","text":"so"}},{{"type":"tool_use","id":"{id}","name":"f","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"r"}}]}}]"#
        )
    };
    let messages = |id: &str, more: &str| {
        format!(
            r#"[{{"role":"user","content":"hi"}},{{"role":"assistant","content":"so",{}{more}}},{{"role":"tool","tool_call_id":"{id}","content":"r"}}]"#,
            call(id)
        )
    };
    let kept = r#"{"type":"thinking","thinking":"hm","signature":"s1"},{"type":"redacted_thinking","data":"r1"},"#;
    check_with(OPUS_5, &messages("kept", ""), "", &there("kept", kept), "");
    check_with(
        OPUS_5,
        &messages("omitted", ""),
        "",
        &there(
            "omitted",
            r#"{"type":"thinking","thinking":"","signature":"s2"},"#,
        ),
        "",
    );
    let said = r#","thinking_blocks":[{"type":"thinking","thinking":"oh\n","signature":"s3"}]"#;
    check_with(
        OPUS_5,
        &messages("c", said),
        "",
        &there(
            "c",
            r#"{"type":"thinking","thinking":"oh\n","signature":"s3"},"#,
        ),
        "",
    );
    // A model without an order to think has no use for them.
    check_with(
        SONNET_4_5,
        &messages("c", said),
        "",
        &there("c", ""),
        "messages[].thinking_blocks",
    );
    check_with(
        SONNET_4_5,
        &messages("kept", ""),
        "",
        &there("kept", ""),
        "",
    );
    check_with(
        OPUS_5,
        &messages("c", r#","reasoning_content":"oh""#),
        "",
        &there("c", ""),
        "messages[].reasoning_content",
    );
}

#[test]
fn only_the_last_four_cache_places_stay() {
    let text = |text: &str| {
        format!(r#"{{"type":"text","text":"{text}","cache_control":{{"type":"ephemeral"}}}}"#)
    };
    let messages = format!(
        r#"[{{"role":"system","content":[{}]}},{{"role":"user","content":[{},{},{}]}},{{"role":"assistant","content":"x"}},{{"role":"user","cache_control":{{"type":"ephemeral","ttl":"30m"}},"content":"d"}}]"#,
        text("s"),
        text("a"),
        text("b"),
        text("c")
    );
    let tools = r#""tools":[{"type":"function","function":{"name":"f"},"cache_control":{"type":"ephemeral"}}]"#;
    let written = write(
        OPUS_4_1,
        &format!(r#"{{"model":"x","messages":{messages},{tools}}}"#),
    )
    .unwrap();
    let body = String::from_utf8(written.body).unwrap();
    let ends: Vec<&str> = body
        .split(r#","cache_control":{"type":"ephemeral"}"#)
        .map(|before| &before[before.len() - 2..])
        .collect();
    assert_eq!(ends, [r#"a""#, r#"b""#, r#"c""#, r#"d""#, "]}"], "{body}");
    assert_eq!(written.losses.names(), ["cache_control"]);
    let (_, losses) = conversation(
        OPUS_4_1,
        &format!(r#"[{{"role":"user","content":[{}]}}]"#, text("a")),
        "",
    );
    assert_eq!(losses, "");
}
