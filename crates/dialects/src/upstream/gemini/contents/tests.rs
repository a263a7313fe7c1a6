use std::sync::Arc;

use super::super::request::tests::{nothing_kept, shown, target, written};
use super::super::vertex::vertex_request;
use super::super::write_request;
use crate::front::fields::tests::through;
use crate::neutral::{Kept, Thought};

/// Of a model that has no thoughts to show.
const PLAIN: &str = "gemini-2.0-flash";
const NEW: &str = "gemini-3.8-flash";

fn without_thinking(body: String) -> String {
    body.replace(
        r#","generationConfig":{"thinkingConfig":{"includeThoughts":true}}"#,
        "",
    )
}

/// Checks the whole body that messages become, and the losses.
#[track_caller]
fn check_on(model: &str, messages: &str, expected: &str, losses: &str) {
    let found = written(model, &format!(r#"{{"messages":[{messages}]}}"#))
        .map(|(body, losses)| (without_thinking(body), losses));
    assert_eq!(
        found,
        Ok((format!("{{{expected}}}"), losses.to_owned())),
        "{messages}"
    );
}

#[track_caller]
fn check(messages: &str, contents: &str) {
    check_on(PLAIN, messages, &format!(r#""contents":[{contents}]"#), "");
}

#[track_caller]
fn check_refused(model: &str, messages: &str, refused: &str) {
    let found = written(model, &format!(r#"{{"messages":[{messages}]}}"#));
    assert_eq!(
        found.map_err(|(refused, _)| refused),
        Err(refused.to_owned()),
        "{messages}"
    );
}

/// A part in the user's second message.
#[track_caller]
fn check_part(model: &str, part: &str, expected: &str, losses: &str) {
    let messages = format!(r#"{{"role":"user","content":[{{"type":"text","text":"a"}},{part}]}}"#);
    check_on(
        model,
        &messages,
        &format!(r#""contents":[{{"role":"user","parts":[{{"text":"a"}},{expected}]}}]"#),
        losses,
    );
}

#[track_caller]
fn check_part_refused(model: &str, part: &str, field: &str) {
    let messages = format!(
        r#"{{"role":"user","content":"a"}},{{"role":"assistant","content":"b"}},{{"role":"user","content":[{{"type":"text","text":"c"}},{part}]}}"#
    );
    check_refused(
        model,
        &messages,
        &format!("unsupported messages[2].content[1].{field}"),
    );
}

#[test]
fn turns_alternate_and_the_system_stands_apart() {
    check_on(
        PLAIN,
        r#"{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"},{"type":"text","text":""}]},
           {"role":"assistant","content":"c"},{"role":"assistant","content":""},{"role":"developer","content":[{"type":"text","text":"d1"},{"type":"text","text":"d2"}]},{"role":"user","content":"e"}"#,
        r#""systemInstruction":{"parts":[{"text":"s"},{"text":"d1"},{"text":"d2"}]},"contents":[{"role":"user","parts":[{"text":"a"},{"text":"b"}]},{"role":"model","parts":[{"text":"c"}]},{"role":"user","parts":[{"text":"e"}]}]"#,
        "",
    );
}

#[test]
fn the_system_alone_is_said_by_the_user() {
    check_on(
        PLAIN,
        r#"{"role":"system","content":"s"}"#,
        r#""contents":[{"role":"user","parts":[{"text":"s"}]}]"#,
        "messages[].role",
    );
}

#[test]
fn without_a_system_role_the_user_says_it() {
    check_on(
        "gemma-3-27b-it",
        r#"{"role":"system","content":"s"},{"role":"user","content":"a"}"#,
        r#""contents":[{"role":"user","parts":[{"text":"s"},{"text":"a"}]}]"#,
        "messages[].role",
    );
    check_on(
        "gemma-3-27b-it",
        r#"{"role":"system","content":"s"},{"role":"assistant","content":"a"}"#,
        r#""contents":[{"role":"user","parts":[{"text":"s"}]},{"role":"model","parts":[{"text":"a"}]}]"#,
        "messages[].role",
    );
}

#[test]
fn what_is_lost_of_messages() {
    check_on(
        PLAIN,
        r#"{"role":"user","name":"n","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}],"odd":1},
           {"role":"assistant","content":"b","reasoning_content":"r","thinking_blocks":[{"type":"thinking","thinking":"t","signature":"s"}]}"#,
        r#""contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]}]"#,
        "messages[].odd messages[].name messages[].thinking_blocks cache_control",
    );
}

#[test]
fn another_providers_thoughts_alone_are_no_turn() {
    check_on(
        PLAIN,
        r#"{"role":"user","content":"a"},{"role":"assistant","content":null,"thinking_blocks":[{"type":"thinking","thinking":"t","signature":"s"}]}"#,
        r#""contents":[{"role":"user","parts":[{"text":"a"}]}]"#,
        "messages[].thinking_blocks",
    );
    check_refused(
        PLAIN,
        r#"{"role":"assistant","content":null,"thinking_blocks":[{"type":"thinking","thinking":"t","signature":"s"}]}"#,
        "unsupported messages",
    );
}

#[test]
fn bytes_go_with_the_request() {
    let inline = |kind: &str| format!(r#"{{"inlineData":{{"mimeType":"{kind}","data":"AAAA"}}}}"#);
    let image = |url: &str| format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#);
    check_part(
        PLAIN,
        &image("data:image/png;base64,AAAA"),
        &inline("image/png"),
        "",
    );
    check_part(
        PLAIN,
        &image("data:image/JPG;charset=x;base64,AAAA"),
        &inline("image/jpeg"),
        "",
    );
    check_part(
        PLAIN,
        &image("data:;base64,AAAA"),
        &inline("image/jpeg"),
        "",
    );
    check_part_refused(PLAIN, &image("data:image/svg+xml;base64,AAAA"), "image_url");
    check_part_refused(PLAIN, &image("data:text/plain;base64,AAAA"), "image_url");
    let detail = |word| {
        format!(
            r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,AAAA","detail":"{word}"}}}}"#
        )
    };
    check_part(PLAIN, &detail("auto"), &inline("image/png"), "");
    check_part(
        PLAIN,
        &detail("high"),
        &inline("image/png"),
        "messages[].content[].image_url.detail",
    );

    let audio = |format| {
        format!(r#"{{"type":"input_audio","input_audio":{{"data":"AAAA","format":"{format}"}}}}"#)
    };
    check_part(PLAIN, &audio("wav"), &inline("audio/wav"), "");
    check_part(PLAIN, &audio("mp3"), &inline("audio/mpeg"), "");
    check_part(PLAIN, &audio("flac"), &inline("audio/flac"), "");
    check_part_refused(PLAIN, &audio("pcm16"), "input_audio");

    let file = |fields: &str| format!(r#"{{"type":"file","file":{{{fields}}}}}"#);
    check_part(
        PLAIN,
        &file(r#""file_data":"data:application/pdf;base64,AAAA""#),
        &inline("application/pdf"),
        "",
    );
    check_part(
        PLAIN,
        &file(r#""file_data":"data:;base64,AAAA","filename":"a.CSV""#),
        &inline("text/csv"),
        "messages[].content[].file.filename",
    );
    check_part_refused(PLAIN, &file(r#""file_id":"file-1""#), "file");
}

#[test]
fn addresses_go_where_google_fetches_them_itself() {
    let image = |url: &str| format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#);
    let at = |kind: &str, url: &str| {
        format!(r#"{{"fileData":{{"mimeType":"{kind}","fileUri":"{url}"}}}}"#)
    };
    #[track_caller]
    fn check(model: &str, image: &str, expected: &str) {
        check_part(model, image, expected, "");
    }
    for (kind, url) in [
        ("image/png", "https://example.com/a/b.PNG?x=y.gif#z"),
        ("image/jpeg", "http://example.com/a.jpeg"),
        ("application/pdf", "https://example.com/a.pdf"),
        ("text/plain", "https://example.com/a.b.txt"),
        ("video/webm", "https://example.com/a.webm"),
    ] {
        check(NEW, &image(url), &at(kind, url));
        check_part_refused(PLAIN, &image(url), "image_url");
        check_part_refused("tuned", &image(url), "image_url");
    }
    for model in [PLAIN, NEW, "tuned"] {
        check_part_refused(model, &image("gs://b/a.gif"), "image_url");
        check(
            model,
            &image("https://www.youtube.com/watch?v=x"),
            &at("video/mp4", "https://www.youtube.com/watch?v=x"),
        );
        check(
            model,
            &image("https://youtu.be/x"),
            &at("video/mp4", "https://youtu.be/x"),
        );
        let uploaded = "https://generativelanguage.googleapis.com/v1beta/files/x";
        check(
            model,
            &image(uploaded),
            &format!(r#"{{"fileData":{{"fileUri":"{uploaded}"}}}}"#),
        );
    }
    for url in [
        "https://example.com/a",
        "https://example.com/a.gif",
        "https://example.com/a.exe",
        "https://example.com",
        "https://example.png",
        "https://youtube.com.example.com/watch",
        "ftp://example.com/a.png",
        "file:///etc/passwd.png",
        "gs://b/a",
    ] {
        check_part_refused(NEW, &image(url), "image_url");
    }
}

#[test]
fn files_of_googles_storage_are_on_vertex_only() {
    let body = r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"gs://b/a.gif"}}]}]}"#;
    let (body, _) = shown(through(
        body.as_bytes(),
        &target(PLAIN, &nothing_kept),
        vertex_request,
    ))
    .unwrap();
    assert!(
        body.contains(r#"{"fileData":{"mimeType":"image/gif","fileUri":"gs://b/a.gif"}}"#),
        "{body}"
    );
}

#[test]
fn files_of_the_gemini_api_are_not_on_vertex() {
    let body = r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://generativelanguage.googleapis.com/v1beta/files/x"}}]}]}"#;
    let found = shown(through(
        body.as_bytes(),
        &target(NEW, &nothing_kept),
        vertex_request,
    ));
    assert_eq!(
        found.unwrap_err().0,
        "unsupported messages[0].content[0].image_url"
    );
}

#[test]
fn a_blind_model_gets_no_pictures() {
    let picture = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}"#;
    let file = r#"{"type":"file","file":{"file_data":"data:image/png;base64,AAAA"}}"#;
    for (part, field) in [(picture, "image_url"), (file, "file")] {
        let body = format!(r#"{{"messages":[{{"role":"user","content":[{part}]}}]}}"#);
        let mut target = target(PLAIN, &nothing_kept);
        target.traits.images = false;
        assert_eq!(
            shown(through(body.as_bytes(), &target, write_request))
                .unwrap_err()
                .0,
            format!("unsupported messages[0].content[0].{field}")
        );
    }
}

/// Messages: a question, calls with these members, and results.
fn conversation(calls: &[(&str, &str, &str, &str)], results: &[(&str, &str)]) -> String {
    let quoted = |text: &str| serde_json::to_string(text).unwrap();
    let calls: Vec<_> = calls
        .iter()
        .map(|(id, name, arguments, more)| {
            format!(
                r#"{{"id":"{id}","type":"function","function":{{"name":"{name}","arguments":{}}}{more}}}"#,
                quoted(arguments)
            )
        })
        .collect();
    let results: Vec<_> = results
        .iter()
        .map(|(id, content)| {
            format!(
                r#",{{"role":"tool","tool_call_id":"{id}","content":{}}}"#,
                quoted(content)
            )
        })
        .collect();
    format!(
        r#"{{"role":"user","content":"a"}},{{"role":"assistant","content":null,"tool_calls":[{}]}}{}"#,
        calls.join(","),
        results.concat()
    )
}

const QUESTION: &str = r#"{"role":"user","parts":[{"text":"a"}]}"#;

#[test]
fn calls_and_results_meet_by_name_and_order() {
    check(
        &conversation(
            &[
                ("call_1", "f", r#"{"q": 1.0}"#, ""),
                ("call_2", "g", "", ""),
            ],
            &[
                ("call_2", "two"),
                ("call_1", r#" {"x": 12345678901234567890} "#),
            ],
        ),
        &format!(
            r#"{QUESTION},{{"role":"model","parts":[{{"functionCall":{{"name":"f","args":{{"q": 1.0}}}}}},{{"functionCall":{{"name":"g","args":{{}}}}}}]}},{}"#,
            r#"{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"x": 12345678901234567890}}},{"functionResponse":{"name":"g","response":{"output":"two"}}}]}"#
        ),
    );
}

#[test]
fn arguments_are_objects() {
    let result =
        r#"{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"r"}}}]}"#;
    let contents = |args: &str| {
        format!(
            r#""contents":[{QUESTION},{{"role":"model","parts":[{{"functionCall":{{"name":"f","args":{args}}}}}]}},{result}]"#
        )
    };
    let args = |arguments, expected: &str| {
        let lost = if expected.starts_with(r#"{"value""#) {
            "messages[].tool_calls[].function.arguments"
        } else {
            ""
        };
        check_on(
            PLAIN,
            &conversation(&[("call_1", "f", arguments, "")], &[("call_1", "r")]),
            &contents(expected),
            lost,
        );
    };
    args("", "{}");
    args("  ", "{}");
    args(r#"{"a":{"b":[]}}"#, r#"{"a":{"b":[]}}"#);
    args("[1, 2]", r#"{"value":[1, 2]}"#);
    args("\"x\"", r#"{"value":"x"}"#);
    args(" null", "{}");
    args("7", r#"{"value":7}"#);
    args("{\"a\":", r#"{"value":"{\"a\":"}"#);
    args("{} {}", r#"{"value":"{} {}"}"#);
    args("plain words", r#"{"value":"plain words"}"#);
    check_on(
        PLAIN,
        r#"{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"call_1","type":"custom","custom":{"name":"f","input":"{}"}}]},
        {"role":"tool","tool_call_id":"call_1","content":"r"}"#,
        &contents(r#"{"input":"{}"}"#),
        "messages[].tool_calls[].custom",
    );
}

#[test]
fn results_are_objects() {
    let result = |content: &str, expected: &str| {
        let call = r#"{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]}"#;
        check(
            &format!(r#"{call},{{"role":"tool","tool_call_id":"call_1","content":{content}}}"#),
            &format!(
                r#"{QUESTION},{{"role":"model","parts":[{{"functionCall":{{"name":"f","args":{{}}}}}}]}},{{"role":"user","parts":[{{"functionResponse":{{"name":"f","response":{expected}}}}}]}}"#
            ),
        );
    };
    result("null", r#"{"output":""}"#);
    result(r#""""#, r#"{"output":""}"#);
    result(r#""a\nb""#, r#"{"output":"a\nb"}"#);
    result(r#""[1]""#, r#"{"output":"[1]"}"#);
    result(r#""{}""#, "{}");
    result(r#""{\"a\": 1}""#, r#"{"a": 1}"#);
    result(
        r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#,
        r#"{"output":"a\nb"}"#,
    );
    result(r#"[{"type":"text","text":"{}"}]"#, "{}");
}

#[test]
fn results_of_nothing_are_refused() {
    check_refused(
        PLAIN,
        r#"{"role":"user","content":"a"},{"role":"tool","tool_call_id":"call_9","content":"x"}"#,
        "invalid messages[1].tool_call_id",
    );
    check_on(
        PLAIN,
        r#"{"role":"user","content":"a"},{"role":"function","name":"f","content":"x"}"#,
        r#""contents":[{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"x"}}},{"text":"a"}]}]"#,
        "",
    );
}

#[test]
fn pictures_in_results() {
    let messages = r#"{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"eA=="}}}]},
        {"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"b"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}"#;
    let start = format!(
        r#""contents":[{QUESTION},{{"role":"model","parts":[{{"functionCall":{{"name":"f","args":{{}}}},"thoughtSignature":"eA=="}}]}}"#
    );
    let picture = r#"{"inlineData":{"mimeType":"image/png","data":"AAAA"}}"#;
    let answer = r#""functionResponse":{"name":"f","response":{"output":"b"}"#;
    check_on(
        NEW,
        messages,
        &format!(r#"{start},{{"role":"user","parts":[{{{answer},"parts":[{picture}]}}}}]}}]"#),
        "",
    );
    check_on(
        PLAIN,
        messages,
        &format!(r#"{start},{{"role":"user","parts":[{{{answer}}}}},{picture}]}}]"#),
        "",
    );
}

#[test]
fn ids_go_back_to_who_gave_them() {
    let id = |id: &str, goes: bool| {
        let member = if goes {
            format!(r#""id":"{id}","#)
        } else {
            String::new()
        };
        check(
            &conversation(&[(id, "f", "", "")], &[(id, "x")]),
            &format!(
                r#"{QUESTION},{{"role":"model","parts":[{{"functionCall":{{{member}"name":"f","args":{{}}}}}}]}},{{"role":"user","parts":[{{"functionResponse":{{{member}"name":"f","response":{{"output":"x"}}}}}}]}}"#
            ),
        );
    };
    id("function-call-7305298361298", true);
    id("x7k2m9qa", true);
    id("8f14e45f-ceea-467f-a8b2-3c2f1d0e9b7a", true);
    for other in [
        "call_abc_0_0",
        "call_1",
        "toolu_01A",
        "tooluse_x",
        "fc_1",
        "chatcmpl-tool-1",
        "functions.f:0",
        "D681PevKs",
        "a b",
        &"x".repeat(65),
    ] {
        id(other, false);
    }
}

const SENTINEL: &str = r#","thoughtSignature":"skip_thought_signature_validator""#;
const SIGNED: &str = r#","extra_content":{"google":{"thought_signature":"eA=="}}"#;

fn call(name: &str, more: &str) -> String {
    format!(r#"{{"functionCall":{{"name":"{name}","args":{{}}}}{more}}}"#)
}

fn outcome(name: &str, output: &str) -> String {
    format!(r#"{{"functionResponse":{{"name":"{name}","response":{{"output":"{output}"}}}}}}"#)
}

#[test]
fn signatures_come_back() {
    let signature = r#","thoughtSignature":"eA==""#;
    for model in [NEW, PLAIN] {
        check_on(
            model,
            &conversation(
                &[("call_1", "f", "", SIGNED), ("call_2", "g", "", "")],
                &[("call_1", "x"), ("call_2", "y")],
            ),
            &format!(
                r#""contents":[{QUESTION},{{"role":"model","parts":[{},{}]}},{{"role":"user","parts":[{},{}]}}]"#,
                call("f", signature),
                call("g", ""),
                outcome("f", "x"),
                outcome("g", "y")
            ),
            "",
        );
    }
    let kept = |id: &str| -> Option<Kept> {
        (id == "call_1").then(|| {
            Arc::from([Thought {
                signature: Some("eQ==".into()),
                of_call: true,
                ..Thought::default()
            }])
        })
    };
    let body = format!(
        r#"{{"messages":[{}]}}"#,
        conversation(&[("call_1", "f", "", "")], &[("call_1", "x")])
    );
    let (body, losses) =
        shown(through(body.as_bytes(), &target(NEW, &kept), write_request)).unwrap();
    let expected = format!(
        r#"{{"contents":[{QUESTION},{{"role":"model","parts":[{}]}},{{"role":"user","parts":[{}]}}]}}"#,
        call("f", r#","thoughtSignature":"eQ==""#),
        outcome("f", "x")
    );
    assert_eq!((without_thinking(body), losses), (expected, String::new()));
}

#[test]
fn each_current_steps_first_call_is_signed() {
    let unsigned = conversation(
        &[("call_1", "f", "", ""), ("call_2", "g", "", "")],
        &[("call_1", "x"), ("call_2", "y")],
    );
    let step = |first: &str| {
        format!(
            r#"{{"role":"model","parts":[{},{}]}}"#,
            call("f", first),
            call("g", "")
        )
    };
    let results = r#"{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"x"}}},{"functionResponse":{"name":"g","response":{"output":"y"}}}]}"#;
    check_on(
        NEW,
        &unsigned,
        &format!(r#""contents":[{QUESTION},{},{results}]"#, step(SENTINEL)),
        "",
    );
    check_on(
        "gemini-flash-latest",
        &unsigned,
        &format!(r#""contents":[{QUESTION},{},{results}]"#, step(SENTINEL)),
        "",
    );
    // Who does not ask for it does not get it.
    for model in [PLAIN, "gemini-2.5-pro", "tuned"] {
        check_on(
            model,
            &unsigned,
            &format!(r#""contents":[{QUESTION},{},{results}]"#, step("")),
            "",
        );
    }
    // Earlier turns are past.
    let later = r#"{"role":"assistant","content":"b"},{"role":"user","content":"c"}"#;
    let said = r#"{"role":"model","parts":[{"text":"b"}]},{"role":"user","parts":[{"text":"c"}]}"#;
    check_on(
        NEW,
        &format!("{unsigned},{later}"),
        &format!(r#""contents":[{QUESTION},{},{results},{said}]"#, step("")),
        "",
    );
    // The second step is signed, the first is not.
    let second = format!(
        r#"{{"role":"assistant","tool_calls":[{{"id":"call_3","type":"function","function":{{"name":"h","arguments":""}}{SIGNED}}}]}},{{"role":"tool","tool_call_id":"call_3","content":"z"}}"#
    );
    let signed = format!(
        r#"{{"role":"model","parts":[{}]}},{{"role":"user","parts":[{}]}}"#,
        call("h", r#","thoughtSignature":"eA==""#),
        outcome("h", "z")
    );
    check_on(
        NEW,
        &format!("{unsigned},{second}"),
        &format!(
            r#""contents":[{QUESTION},{},{results},{signed}]"#,
            step(SENTINEL)
        ),
        "",
    );
    // A text next to results does not end the turn.
    let beside = r#"{"role":"user","content":"c"}"#;
    let with_words = results.replace("]}", r#",{"text":"c"}]}"#);
    check_on(
        NEW,
        &format!("{unsigned},{beside}"),
        &format!(r#""contents":[{QUESTION},{},{with_words}]"#, step(SENTINEL)),
        "",
    );
}

#[test]
fn names_in_the_past_are_made_fit_too() {
    check(
        &conversation(&[("call_1", "ns/f", "", "")], &[("call_1", "x")]),
        &format!(
            r#"{QUESTION},{{"role":"model","parts":[{}]}},{{"role":"user","parts":[{{"functionResponse":{{"name":"ns_f","response":{{"output":"x"}}}}}}]}}"#,
            call("ns_f", "")
        ),
    );
}
