use serde_json::{Value, json};

use super::super::tests::told;

fn added(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: Option<u64>, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn piece(kind: &str, index: u64, delta: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "output_index": index, "delta": delta})
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "delete", "arguments": arguments})
}

fn message(text: &str) -> Value {
    json!({"type": "message", "content": [{"type": "output_text", "text": text}]})
}

fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "output": output}})
}

/// Reads events. Returns the emitted events as one line.
fn line(events: &[Value]) -> String {
    told(events).join(" ")
}

const ARGUMENTS: &str = "function_call_arguments";

#[test]
fn an_endless_answer_is_told_or_a_fault() {
    let begun = [added(0, call("a", ""))];
    let ends = |more: &[Value]| line(&[&begun, more].concat());
    assert!(
        ends(&[completed(json!([call("a", "{\"id\":7}")]))])
            .contains(r#"Arguments(0, "{\"id\":7}")"#)
    );
    assert!(ends(&[completed(json!([]))]).ends_with("broken"));
    let partly = piece(ARGUMENTS, 0, "{\"id\"");
    assert!(
        ends(&[partly.clone(), completed(json!([call("a", "{\"id\":7}")]))]).ends_with("broken")
    );
    let rest = piece(ARGUMENTS, 0, ":7}");
    assert!(ends(&[partly, rest, completed(json!([call("a", "{\"id\":7}")]))]).ends_with("End"));
    let hi = completed(json!([message("Hi")]));
    assert_eq!(
        line(&[added(0, message("")), hi]),
        r#"Text(0, "Hi") Finish(0, Stop) End"#
    );
    let late = [
        added(0, message("")),
        piece("output_text", 1, "b"),
        completed(json!([message("a"), message("b")])),
    ];
    assert!(
        line(&late).ends_with("broken"),
        "it is too late to tell the first text"
    );
}

#[test]
fn an_empty_piece_tells_nothing() {
    let events = [
        added(0, message("")),
        piece("output_text", 0, ""),
        done(Some(0), message("Hi")),
        completed(json!([message("Hi")])),
    ];
    assert_eq!(line(&events), r#"Text(0, "Hi") Finish(0, Stop) End"#);
}

#[test]
fn the_last_event_decides_how_an_answer_ends() {
    let last = |kind: &str, response: Value| line(&[json!({"type": kind, "response": response})]);
    assert_eq!(
        last("response.incomplete", json!({"output": []})),
        "Finish(0, Length) End"
    );
    for status in ["cancelled", "in_progress", "queued"] {
        assert_eq!(
            last(
                "response.completed",
                json!({"status": status, "output": []})
            ),
            "broken",
            "{status}"
        );
    }
    assert_eq!(
        last("response.completed", json!({"status": "completed"})),
        "broken"
    );
    let failed =
        json!({"status": "failed", "error": {"message": "no"}, "usage": {"input_tokens": 9}});
    let told = last("response.failed", failed);
    assert!(
        told.starts_with("Usage(")
            && told.contains("Some(9)")
            && told.ends_with("upstream None no"),
        "{told}"
    );
}

#[test]
fn nothing_is_told_twice() {
    let begun = [added(0, message("")), piece("output_text", 0, "Hi")];
    let ends = |more: &[Value]| line(&[&begun, more].concat());
    assert_eq!(ends(&[done(None, message("Hi"))]), r#"Text(0, "Hi")"#);
    assert!(ends(&[done(Some(3), message("Hi"))]).ends_with("broken"));
    let twice = done(Some(0), message("Hi"));
    assert!(ends(&[twice.clone(), twice]).ends_with("broken"));
    let twice = done(Some(0), call("a", "{}"));
    assert!(line(&[added(0, call("a", "")), twice.clone(), twice]).ends_with("broken"));
}

#[test]
fn calls_at_once_are_told_one_after_another() {
    let events = [
        added(0, call("a", "")),
        added(1, call("b", "")),
        piece(ARGUMENTS, 0, "{\"a\""),
        piece(ARGUMENTS, 1, "{}"),
        piece(ARGUMENTS, 0, ":1}"),
        done(Some(0), call("a", "{\"a\":1}")),
        done(Some(1), call("b", "{}")),
    ];
    let expected = told(&[
        done(Some(0), call("a", "{\"a\":1}")),
        done(Some(1), call("b", "{}")),
    ]);
    assert_eq!(told(&events), expected);
    let mut swapped = events.to_vec();
    swapped.swap(5, 6);
    swapped.push(completed(json!([call("a", "{\"a\":1}"), call("b", "{}")])));
    assert_eq!(told(&swapped)[..4], expected[..]);
}

#[test]
fn facts_in_the_last_event_are_not_lost() {
    let text = [
        added(0, message("")),
        piece("output_text", 0, "Hi"),
        done(Some(0), message("Hi")),
    ];
    let all = |output: Value| line(&[&text[..], &[completed(output)]].concat());
    let called = |id: &str| {
        format!(
            r#"Call {{ choice: 0, id: Some("{id}"), name: "delete", signature: None }} Arguments(0, "{{}}")"#
        )
    };
    let hi = r#"Text(0, "Hi")"#;
    let end = "Finish(0, Stop) End";
    assert_eq!(all(json!([message("Hi")])), format!("{hi} {end}"));
    let both = all(json!([message("Hi"), call("a", "{}"), call("b", "{}")]));
    assert_eq!(both, format!("{hi} {} {} {end}", called("a"), called("b")));
    // The items of the stream may have other places there.
    assert_eq!(
        all(json!([{"type": "reasoning", "summary": []}, message("Hi")])),
        format!("{hi} {end}")
    );
    let streamed = [added(0, call("a", "")), done(Some(0), call("a", "{}"))];
    let all = |output: Value| line(&[&streamed[..], &[completed(output)]].concat());
    assert_eq!(
        all(json!([message("Hi"), call("a", "{}")])),
        format!("{} {hi} {end}", called("a"))
    );
    assert_eq!(
        all(json!([call("fc_a", "{}")])),
        format!("{} {end}", called("a")),
        "only its id has another form"
    );
    assert_eq!(
        all(json!([call("a", "{}"), call("b", "{}")])),
        format!("{} {} {end}", called("a"), called("b"))
    );
    let nameless = || json!({"type": "function_call", "name": "delete", "arguments": "{}"});
    let events = [0, 1]
        .map(|index| [added(index, nameless()), done(Some(index), nameless())])
        .concat();
    let told = line(
        &[
            events,
            vec![completed(json!([call("a", "{}"), call("b", "{}")]))],
        ]
        .concat(),
    );
    assert_eq!(told.matches("Call {").count(), 2, "{told}");
}

#[test]
fn an_ended_call_survives_the_cut_of_another() {
    let events = [
        added(0, call("a", "")),
        piece(ARGUMENTS, 0, "{\"id\""),
        added(1, call("b", "")),
        done(Some(1), call("b", "{}")),
        json!({"type": "response.incomplete", "response": {"status": "incomplete", "output": [call("a", "{\"id\""), call("b", "{}")]}}),
    ];
    let told = line(&events);
    assert!(
        told.contains(r#"id: Some("b"), name: "delete", signature: None } Arguments(0, "{}")"#),
        "{told}"
    );
}
