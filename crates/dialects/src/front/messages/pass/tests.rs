use super::*;
use crate::front::MESSAGES;
use crate::neutral::Refused;

/// Passes a body to the model `up`, whose answers may have a thousand tokens.
fn passed(body: &str) -> (String, String) {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let envelope = (MESSAGES.envelope)(&body).expect("a request");
    let job = PassedRequest { body: &body, envelope: &envelope, model: "up", max_output: Some(1000), thinks: false };
    let (parts, losses) = request(&job).expect("it passes");
    (String::from_utf8(parts.concat()).unwrap(), losses.names().join(" "))
}

#[test]
fn only_what_must_change_is_changed() {
    let more = r#""odd" : {"a":[1e9]}, "messages" :[ {"role":"user","content":"é"}], "container":null"#;
    let body = |model: &str, most: &str| format!(r#"{{ "model" :"{model}",  "max_tokens":{most} , {more} }}"#);
    assert_eq!(passed(&body("m", "7")), (body("up", "7"), String::new()));
    assert_eq!(passed(&body("m", "128000")), (body("up", "1000"), "max_tokens".to_owned()));
}

#[test]
fn thinking_without_a_signature_stays_away() {
    let body = |model: &str, blocks: &str| {
        format!(r#"{{"model":"{model}","max_tokens":1,"messages":[{{"role":"assistant","content":[{blocks}]}}]}}"#)
    };
    let thought = |signature: &str| format!(r#"{{"type":"thinking","thinking":"t"{signature}}}"#);
    let (signed, empty, none) = (thought(r#","signature":"s""#), thought(r#","signature":"""#), thought(""));
    let text = r#"{"type":"text","text":"x"}"#;
    let lost = "messages[].content[].thinking";
    for (before, after, losses) in [
        (format!("{signed},{text}"), format!("{signed},{text}"), ""),
        (format!("{empty}, {text}"), text.to_owned(), lost),
        (format!("{text}, {none}"), text.to_owned(), lost),
        (format!("{empty},{signed},{none}"), signed.clone(), lost),
        // A message must not be empty.
        (empty.clone(), empty.clone(), ""),
    ] {
        assert_eq!(passed(&body("m", &before)), (body("up", &after), losses.to_owned()));
    }
}

#[test]
fn no_other_model_is_asked() {
    for (field, param) in [
        (
            r#""tools":[{"type":"custom","name":"f"},{"type":"advisor_20260301","name":"a","model":"dear"}]"#,
            "tools[1].model",
        ),
        (r#""fallbacks":[{"model":"dear"}]"#, "fallbacks[0].model"),
        (r#""fallbacks":"default""#, "fallbacks"),
        (r#""fallbacks":[{"model":"m"},{"model":["dear"]}]"#, "fallbacks[1].model"),
    ] {
        let body = format!(r#"{{"model":"m","max_tokens":1,"messages":[{{"role":"user","content":"x"}}],{field}}}"#);
        let body = Bytes::from(body);
        let envelope = (MESSAGES.envelope)(&body).expect("a request");
        let job = PassedRequest { body: &body, envelope: &envelope, model: "up", max_output: None, thinks: false };
        let Err(Refused::Unsupported(why)) = request(&job) else { panic!("{field} passes") };
        assert_eq!(why.param, param);
    }
    let body = |model: &str| {
        format!(
            r#"{{"model":"{model}","max_tokens":1,"messages":[{{"role":"user","content":"x"}}],"tools":[{{"name":"f","model":"{model}"}}],"fallbacks":[{{"model":"{model}"}}]}}"#
        )
    };
    assert_eq!(passed(&body("m")).0, body("up"));
}

#[test]
fn an_answer_says_the_model_that_was_asked_for() {
    let whole = |body: &str| String::from_utf8(super::whole(body.as_bytes(), r#""m""#)).unwrap();
    assert_eq!(
        whole(r#"{"type":"message", "model":"up","new":{"model":"x"}}"#),
        r#"{"type":"message", "model":"m","new":{"model":"x"}}"#
    );
    let event = |name: &str, data: &str| {
        let mut out = Vec::new();
        super::event(&Event { name: name.as_bytes(), data: data.as_bytes() }, r#""m""#, &mut out);
        String::from_utf8(out).unwrap()
    };
    let start = r#"{"type":"message_start","message":{"model":"up"}}"#;
    assert_eq!(event("message_start", start), format!("event: message_start\ndata: {}\n\n", start.replace("up", "m")));
    assert_eq!(event("", "{\"type\":\"ping\",\n\"a\":1}"), "event: ping\ndata: {\"type\":\"ping\", \"a\":1}\n\n");
    assert_eq!(event("new_event", r#"{"model":"up"}"#), "event: new_event\ndata: {\"model\":\"up\"}\n\n");
}
