use bytes::Bytes;

use super::*;
use crate::front::MESSAGES;
use crate::neutral::AnswerHeader;
use crate::neutral::answer::AnswerOptions;
use crate::neutral::traits::Traits;

/// The most tokens of an answer.
const MOST: u64 = 4000;

/// Passes a body to the model `up`.
fn passed(body: &str) -> (String, String) {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let envelope = MESSAGES.envelope(&body).expect("a request");
    let traits = Traits {
        max_output: Some(MOST),
        ..Traits::UNKNOWN
    };
    let job = PassedRequest {
        envelope: &envelope,
        model: "up",
        traits,
        thinks: false,
        ask_usage: true,
        sealed: Sealed::Closed,
    };
    let (mut edits, mut out) = (Edits::new(&body), Vec::new());
    let losses = edit_request(&job, &mut edits).expect("it passes");
    edits.apply_into(&mut out);
    (String::from_utf8(out).unwrap(), losses.names().join(" "))
}

#[test]
fn only_what_must_change_is_changed() {
    let more =
        r#""odd" : {"a":[1e9]}, "messages" :[ {"role":"user","content":"é"}], "container":null"#;
    let body = |model: &str, most: &str| {
        format!(r#"{{ "model" :"{model}",  "max_tokens":{most} , {more} }}"#)
    };
    assert_eq!(passed(&body("m", "7")), (body("up", "7"), String::new()));
    assert_eq!(
        passed(&body("m", "128000")),
        (body("up", "4000"), "max_tokens".to_owned())
    );
}

#[test]
fn a_budget_of_thinking_stays_below_the_most_tokens() {
    let body = |model: &str, most: u64, budget: u64| {
        format!(
            r#"{{"model":"{model}","thinking":{{"type":"enabled","budget_tokens":{budget}}},"max_tokens":{most},"messages":[{{}}]}}"#
        )
    };
    let both = "max_tokens thinking.budget_tokens";
    for (most, budget, after, losses) in [
        (4000, 3999, (4000, 3999), ""),
        (8000, 3999, (4000, 3999), "max_tokens"),
        (8000, 4000, (4000, 1024), both),
        (8000, 7000, (4000, 3000), both),
        (32_000, 31_999, (4000, 3999), both),
        (8000, 9000, (4000, 3999), both),
    ] {
        assert_eq!(
            passed(&body("m", most, budget)),
            (body("up", after.0, after.1), losses.to_owned()),
            "{most} {budget}"
        );
    }
}

#[test]
fn thinking_without_a_signature_stays_away() {
    let body = |model: &str, blocks: &str| {
        format!(
            r#"{{"model":"{model}","max_tokens":1,"messages":[{{"role":"assistant","content":[{blocks}]}}]}}"#
        )
    };
    let thought = |signature: &str| format!(r#"{{"type":"thinking","thinking":"t"{signature}}}"#);
    let (signed, empty, none) = (
        thought(r#","signature":"s""#),
        thought(r#","signature":"""#),
        thought(""),
    );
    let redacted = r#"{"type":"redacted_thinking","data":"c2lnbmVk"}"#;
    let text = r#"{"type":"text","text":"x"}"#;
    let lost = "messages[].content[].thinking";
    for (before, after, losses) in [
        (format!("{signed},{text}"), format!("{signed},{text}"), ""),
        (format!("{empty}, {text}"), text.to_owned(), lost),
        (format!("{text}, {none}"), text.to_owned(), lost),
        (format!("{empty},{signed},{none}"), signed.clone(), lost),
        // The provider cannot read a text that a gateway has sealed.
        (
            format!(r#"{text}, {{"type":"redacted_thinking","data":"pcsealv1x"}}"#),
            text.to_owned(),
            lost,
        ),
        (
            format!("{redacted},{text}"),
            format!("{redacted},{text}"),
            "",
        ),
    ] {
        assert_eq!(
            passed(&body("m", &before)),
            (body("up", &after), losses.to_owned())
        );
    }
    // A message must not be empty.
    let none = r#"{"model":"up","max_tokens":1,"messages":[]}"#;
    assert_eq!(
        passed(&body("m", &empty)),
        (none.to_owned(), lost.to_owned())
    );
}

#[test]
fn thinking_ends_if_current_calls_lost_thoughts() {
    let body = |model: &str, thinking: &str, messages: &str| {
        format!(r#"{{"model":"{model}","max_tokens":4000,{thinking},"messages":[{messages}]}}"#)
    };
    let message = |role: &str, blocks: &[&str]| {
        format!(r#"{{"role":"{role}","content":[{}]}}"#, blocks.join(","))
    };
    let (thought, signed) = (
        r#"{"type":"thinking","thinking":"t"}"#,
        r#"{"type":"thinking","thinking":"t","signature":"s"}"#,
    );
    let (call, text) = (
        r#"{"type":"tool_use","id":"a","name":"f","input":{}}"#,
        r#"{"type":"text","text":"x"}"#,
    );
    let result = message("user", &[r#"{"type":"tool_result","tool_use_id":"a"}"#]);
    let enabled = r#""thinking":{"type":"enabled","budget_tokens":2000}"#;
    let (disabled, adaptive) = (
        r#""thinking":{"type":"disabled"}"#,
        r#""thinking":{"type":"adaptive"}"#,
    );
    let clearing = r#""context_management":{"edits":[{"type":"clear_thinking_20251015"}]}"#;
    let lost = "messages[].content[].thinking";
    let both = format!("{lost} thinking");
    for (blocks, later, [before, after], losses) in [
        (vec![thought, call], "", [enabled, disabled], &*both),
        (vec![thought, text, call], "", [enabled, disabled], &both),
        (vec![thought, call], "", [adaptive, adaptive], lost),
        (vec![thought, text], "", [enabled, enabled], lost),
        (vec![thought, signed, call], "", [enabled, enabled], lost),
        (vec![signed, thought, call], "", [enabled, enabled], lost),
        // These calls are not the current ones.
        (
            vec![thought, call],
            r#",{"role":"assistant","content":"so"},{"role":"user","content":"y"}"#,
            [enabled, enabled],
            lost,
        ),
        (vec![call], "", [enabled, enabled], ""),
        (
            vec![thought, call],
            "",
            [&*format!("{enabled},{clearing}"), disabled],
            &*format!("{both} context_management"),
        ),
    ] {
        let left: Vec<&str> = blocks
            .iter()
            .filter(|block| **block != thought)
            .copied()
            .collect();
        let turns = |blocks: &[&str]| format!("{},{result}{later}", message("assistant", blocks));
        let expected = (body("up", after, &turns(&left)), losses.to_owned());
        assert_eq!(passed(&body("m", before, &turns(&blocks))), expected);
    }
}

#[test]
fn an_answer_says_the_model_that_was_asked_for() {
    let header = AnswerHeader {
        model: "m".to_owned(),
        ..AnswerHeader::default()
    };
    let answer = PassedAnswer::new(&header, &AnswerOptions::default());
    let whole =
        |body: &str| String::from_utf8(super::write_answer(body.as_bytes(), &answer)).unwrap();
    assert_eq!(
        whole(r#"{"type":"message", "model":"up","new":{"model":"x"}}"#),
        r#"{"type":"message", "model":"m","new":{"model":"x"}}"#
    );
    let event = |name: &str, data: &str| {
        let mut out = Vec::new();
        super::write_event(
            &Event {
                name: name.as_bytes(),
                data: data.as_bytes(),
            },
            &answer,
            &mut out,
        );
        String::from_utf8(out).unwrap()
    };
    let start = r#"{"type":"message_start","message":{"model":"up"}}"#;
    assert_eq!(
        event("message_start", start),
        format!(
            "event: message_start\ndata: {}\n\n",
            start.replace("up", "m")
        )
    );
    assert_eq!(
        event("", "{\"type\":\"ping\", \"a\":1}"),
        "event: ping\ndata: {\"type\":\"ping\", \"a\":1}\n\n"
    );
    assert_eq!(
        event("new_event", r#"{"model":"up"}"#),
        "event: new_event\ndata: {\"model\":\"up\"}\n\n"
    );
}
