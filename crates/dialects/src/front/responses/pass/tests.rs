use super::*;
use crate::dialect::{Dialect, Recipient, Stream};
use crate::front::RESPONSES;
use crate::neutral::Endpoint;
use crate::neutral::answer::AnswerOptions;
use crate::neutral::traits::Traits;
use crate::neutral::{AnswerHeader, StreamFault};
use crate::upstream::openai;
use crate::wire::sse;

/// Passes a body to the model `up`, whose answers may have a thousand tokens.
fn tried(body: &str, thinks: bool) -> Result<(String, String), Refused> {
    let envelope = RESPONSES.envelope(body.as_bytes()).expect("a request");
    let traits = Traits {
        max_output: Some(1000),
        ..Traits::UNKNOWN
    };
    let job = PassedRequest {
        envelope: &envelope,
        model: "up",
        traits,
        thinks,
        ask_usage: true,
        sealed: Sealed::Closed,
    };
    let (mut edits, mut out) = (Edits::new(body.as_bytes()), Vec::new());
    let losses = edit_request(&job, &mut edits)?;
    edits.apply_into(&mut out);
    Ok((String::from_utf8(out).unwrap(), losses.names().join(" ")))
}

#[track_caller]
fn check(body: &str, thinks: bool, after: &str, lost: &str) {
    assert_eq!(
        tried(body, thinks).expect("it passes"),
        (after.to_owned(), lost.to_owned()),
        "{body}"
    );
}

#[test]
fn only_what_must_change_is_changed() {
    let body = |model: &str, most: &str| {
        format!(
            r#"{{ "model" :"{model}", "max_output_tokens" : {most},"odd":{{"a":[1e9]}}, "store":false,"input" :[ {{"role":"user","content":"é"}} ],
"include": ["reasoning.encrypted_content" ],"tools":[{{"type":"web_search","new":1}},{{"type":"code_interpreter","container":{{"type":"auto"}}}}],"client_metadata":{{"x":"y"}}}}"#
        )
    };
    check(&body("m", "7"), true, &body("up", "7"), "");
    check(&body("m", "7"), false, &body("up", "7"), "");
    check(
        &body("m", "9000"),
        true,
        &body("up", "1000"),
        "max_output_tokens",
    );
}

#[test]
fn an_approval_is_of_a_requests_call() {
    let body = |input: &str| format!(r#"{{"model":"up","store":false,"input":[{input}]}}"#);
    let call = |id: &str| {
        format!(r#"{{"type":"mcp_approval_request","id":"{id}","name":"f","arguments":"{{}}"}}"#)
    };
    let yes = r#"{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true}"#;
    let both = body(&format!("{},{yes}", call("mcpr_1")));
    check(&both, false, &both, "");
    for (input, param) in [
        (yes.to_owned(), "input[0]"),
        (format!("{},{yes}", call("mcpr_2")), "input[1]"),
        (format!("{yes},{}", call("mcpr_1")), "input[0]"),
        (yes.replace("\"mcpr_1\"", "7"), "input[0]"),
    ] {
        let Err(Refused::Invalid(why)) = tried(&body(&input), false) else {
            panic!("{input} passes")
        };
        assert_eq!(why.param, param, "{input}");
    }
}

#[test]
fn nothing_is_stored_and_thoughts_come_back_encrypted() {
    let (stored, thoughts) = (
        r#""store":false"#,
        r#""include":["reasoning.encrypted_content"]"#,
    );
    for (field, thinks, after) in [
        (
            "",
            false,
            format!(r#"{{{stored},"model":"up","input":"x"}}"#),
        ),
        (
            "",
            true,
            format!(r#"{{{stored},{thoughts},"model":"up","input":"x"}}"#),
        ),
        (
            r#","store":true"#,
            false,
            format!(r#"{{"model":"up","input":"x",{stored}}}"#),
        ),
        (
            r#","store":null"#,
            false,
            format!(r#"{{"model":"up","input":"x",{stored}}}"#),
        ),
        (
            r#","include":null,"store":false"#,
            true,
            format!(r#"{{"model":"up","input":"x",{thoughts},{stored}}}"#),
        ),
        (
            r#","include":[ ],"store":false"#,
            true,
            format!(r#"{{"model":"up","input":"x",{thoughts},{stored}}}"#),
        ),
        (
            r#","include":["a" ],"store":false"#,
            true,
            format!(
                r#"{{"model":"up","input":"x","include":["reasoning.encrypted_content","a" ],{stored}}}"#
            ),
        ),
        (
            r#","include":["a" ],"store":false"#,
            false,
            format!(r#"{{"model":"up","input":"x","include":["a" ],{stored}}}"#),
        ),
    ] {
        check(
            &format!(r#"{{"model":"m","input":"x"{field}}}"#),
            thinks,
            &after,
            "",
        );
    }
}

/// A body with these items.
fn with(model: &str, items: &str) -> String {
    format!(r#"{{"model":"{model}","store":false,"input":[{items}]}}"#)
}

#[test]
fn ids_of_items_that_nobody_stored_stay_away() {
    for (item, after) in [
        (
            r#"{"role":"user","content":"x"}"#,
            r#"{"role":"user","content":"x"}"#,
        ),
        (
            r#"{"id":"msg_1","role":"assistant","content":"x"}"#,
            r#"{"role":"assistant","content":"x"}"#,
        ),
        (
            r#"{"type":"message", "id" : "msg_1" ,"role":"user","content":[]}"#,
            r#"{"type":"message", "role":"user","content":[]}"#,
        ),
        (
            r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{}","id":"fc_1"}"#,
            r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}"#,
        ),
        (
            r#"{"type":"custom_tool_call_output","id":"x","call_id":"c","output":"o"}"#,
            r#"{"type":"custom_tool_call_output","call_id":"c","output":"o"}"#,
        ),
        // A call that a server ran is known by its id alone.
        (
            r#"{"type":"web_search_call","id":"ws_1"}"#,
            r#"{"type":"web_search_call","id":"ws_1"}"#,
        ),
        (
            r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"e"}"#,
            r#"{"type":"reasoning","summary":[],"encrypted_content":"e"}"#,
        ),
        (
            r#"{"role":"user","content":"x","id":null}"#,
            r#"{"role":"user","content":"x","id":null}"#,
        ),
        (
            r#"{"type":"image_generation_call","id":"ig_1","result":"aGk="}"#,
            r#"{"type":"image_generation_call","id":"ig_1","result":"aGk="}"#,
        ),
    ] {
        check(&with("m", item), false, &with("up", after), "");
    }
}

#[test]
fn unreadable_thoughts_are_left_out_by_name() {
    let (said, thought) = (
        r#"{"role":"user","content":"x"}"#,
        r#"{"type":"reasoning","id":"rs_1","summary":[]"#,
    );
    for (end, is_lost) in [
        ("}", true),
        (r#","encrypted_content":null}"#, true),
        (r#","encrypted_content":""}"#, true),
    ] {
        let items = [
            format!("{thought}{end}, {said}"),
            format!("{said}, {thought}{end}"),
        ];
        for items in items {
            check(
                &with("m", &items),
                false,
                &with("up", said),
                if is_lost { "input[].reasoning" } else { "" },
            );
        }
    }
    check(
        &with("m", &format!("{thought}}}")),
        false,
        &with("up", ""),
        "input[].reasoning",
    );
}

#[test]
fn what_is_stored_elsewhere_is_refused() {
    for (item, param) in [
        (r#"{"type":"item_reference","id":"msg_1"}"#, "input[0]"),
        (
            r#"{"type":"item_reference","id":"msg_1","role":"user"}"#,
            "input[0]",
        ),
        (
            r#"{"type":"image_generation_call","id":"ig_1","result":null}"#,
            "input[0]",
        ),
        (r#"{"id":"msg_1"}"#, "input[0]"),
        (
            r#"{"role":"user","content":"x"},{"id":"msg_1"}"#,
            "input[1]",
        ),
    ] {
        let Err(Refused::Invalid(why)) = tried(&with("m", item), false) else {
            panic!("{item} passes")
        };
        assert_eq!(why.param, param);
    }
}

#[test]
fn an_answer_says_the_model_that_was_asked_for() {
    let before = r#"{"object":"response", "model":"up","new":{"model":"x"}}"#;
    let after = before.replace(r#""up""#, r#""m""#);
    let header = AnswerHeader {
        model: "m".to_owned(),
        ..AnswerHeader::default()
    };
    let answer = PassedAnswer::new(&header, &AnswerOptions::default());
    assert_eq!(
        String::from_utf8(write_answer(before.as_bytes(), &answer)).unwrap(),
        after
    );
    let told = |data: &str| {
        let mut out = Vec::new();
        write_event(
            &Event {
                name: b"",
                data: data.as_bytes(),
            },
            &answer,
            &mut out,
        );
        String::from_utf8(out).unwrap()
    };
    let created =
        format!(r#"{{"type":"response.created","sequence_number":0,"response":{before}}}"#);
    assert_eq!(
        told(&created),
        format!(
            "event: response.created\ndata: {}\n\n",
            created.replace(before, &after)
        )
    );
    let delta =
        r#"{"type":"response.output_text.delta","delta":"\"response\":{\"model\":\"up\"}"}"#;
    assert_eq!(
        told(delta),
        format!("event: response.output_text.delta\ndata: {delta}\n\n")
    );
}

/// A stream as a server of OpenAI's sends it, with a tool that the server runs and an event of a
/// new kind.
const STREAM: &str = concat!(
    "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_up\",\"model\":\"up\",\"status\":\"in_progress\",\"output\":[]}}\n\n",
    "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"sequence_number\":1,\"output_index\":0,\"item\":{\"id\":\"ws_1\",\"type\":\"web_search_call\",\"status\":\"in_progress\"}}\n\n",
    "event: response.web_search_call.searching\ndata: {\"type\":\"response.web_search_call.searching\",\"sequence_number\":2,\"output_index\":0,\"item_id\":\"ws_1\"}\n\n",
    "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"sequence_number\":3,\"output_index\":0,\"item\":{\"id\":\"ws_1\",\"type\":\"web_search_call\",\"status\":\"completed\"}}\n\n",
    "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"sequence_number\":4,\"output_index\":1,\"item\":{\"id\":\"msg_1\",\"type\":\"message\",\"content\":[]}}\n\n",
    "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":5,\"output_index\":1,\"delta\":\"h\u{e9}\",\"obfuscation\":\"x\"}\n\n",
    "event: response.novel\ndata: {\"type\":\"response.novel\",\"sequence_number\":6,\"x\":[1e9]}\n\n",
    "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"sequence_number\":7,\"output_index\":1,\"item\":{\"id\":\"msg_1\",\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"h\u{e9}\"}]}}\n\n",
    "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":8,\"response\":{\"id\":\"resp_up\",\"model\":\"up\",\"status\":\"completed\",\"output\":[],\"usage\":{\"input_tokens\":7,\"output_tokens\":3}}}\n\n",
);

/// Returns a stream that passes, at its start.
fn passed_stream() -> Stream {
    let header = AnswerHeader {
        model: "m".into(),
        id: "resp_7".into(),
        ..AnswerHeader::default()
    };
    let to = Recipient {
        front: &RESPONSES,
        header: &header,
        options: AnswerOptions::default(),
    };
    let dialect = Dialect::from(&openai::PROTOCOL).for_endpoint(Endpoint::Responses);
    dialect.stream("up", to, 1 << 20)
}

/// Passes bytes of a stream in pieces of `size`. Returns the bytes that the caller gets, and the
/// usage or the fault.
fn streamed(bytes: &[u8], size: usize) -> (String, Result<(u64, u64), StreamFault>) {
    let (mut stream, mut out) = (passed_stream(), Vec::new());
    let fed = bytes
        .chunks(size.max(1))
        .try_for_each(|piece| stream.feed(piece, &mut out));
    let ended = fed
        .and_then(|()| stream.finish(&mut out, None))
        .map(|usage| (usage.prompt, usage.completion));
    (String::from_utf8(out).expect("UTF-8"), ended)
}

#[test]
fn a_held_end_does_not_count_as_shown() {
    let (mut stream, mut out) = (passed_stream(), Vec::new());
    stream.feed(STREAM.as_bytes(), &mut out).unwrap();
    let shown = String::from_utf8_lossy(&out).matches("\n\n").count();
    assert_eq!((stream.so_far().events, shown), (8, 8));
    stream.finish(&mut out, None).unwrap();
    assert_eq!(
        stream.so_far().events,
        8,
        "what the end wrote may be taken back"
    );
}

#[test]
fn a_stream_passes_however_it_is_cut() {
    let expected = (STREAM.replace("\"up\"", "\"m\""), Ok((7, 3)));
    for size in 1..200 {
        assert_eq!(streamed(STREAM.as_bytes(), size), expected, "{size}");
    }
    let mut decoder = sse::Decoder::new(1 << 20);
    let mut names = Vec::new();
    let _fed = decoder.feed(STREAM.as_bytes(), |event| {
        names.push(String::from_utf8_lossy(event.name).into_owned());
        std::ops::ControlFlow::<()>::Continue(())
    });
    let last = names.last().expect("events").clone();
    // A stream that ends anywhere before its last event is cut, and the last event never leaves.
    for end in (0..STREAM.len() - 2).step_by(7) {
        let (out, ended) = streamed(&STREAM.as_bytes()[..end], 64);
        assert!(ended.is_err() && !out.contains(&last), "{end}: {out}");
    }
}

#[test]
fn an_error_in_the_stream_has_our_words() {
    let begun = STREAM.find("event: response.novel").unwrap();
    for (failed, code) in [
        (
            "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"broken\"}\n\n",
            "server_error",
        ),
        (
            "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"slow\"}}}\n\n",
            "rate_limit_exceeded",
        ),
    ] {
        let (out, ended) = streamed(format!("{}{failed}", &STREAM[..begun]).as_bytes(), 50);
        assert_eq!(out, STREAM[..begun].replace("\"up\"", "\"m\""));
        let Err(StreamFault::Upstream(error)) = ended else {
            panic!("{ended:?}")
        };
        assert_eq!(error.code.as_deref(), Some(code));
    }
}
