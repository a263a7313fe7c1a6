use crate::upstream::anthropic::tests::*;

/// Returns messages written short: `u:x` is the user's text x, `a:x` the assistant's, `a(c,d):x`
/// with these calls, `t(c):x` a tool's.
fn messages(short: &[&str]) -> String {
    let message = |short: &&str| {
        let (who, said) = short.split_once(':').unwrap();
        let (who, ids) = who.split_once('(').unwrap_or((who, ""));
        let ids: Vec<&str> = ids
            .trim_end_matches(')')
            .split(',')
            .filter(|id| !id.is_empty())
            .collect();
        match who {
            "u" => format!(r#"{{"role":"user","content":"{said}"}}"#),
            "t" => format!(
                r#"{{"role":"tool","tool_call_id":"{}","content":"{said}"}}"#,
                ids[0]
            ),
            _ if ids.is_empty() => format!(r#"{{"role":"assistant","content":"{said}"}}"#),
            _ => {
                let call = |id: &&str| {
                    format!(
                        r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#
                    )
                };
                let calls: Vec<String> = ids.iter().map(call).collect();
                format!(
                    r#"{{"role":"assistant","content":"{said}","tool_calls":[{}]}}"#,
                    calls.join(",")
                )
            }
        }
    };
    format!(
        "[{}]",
        short.iter().map(message).collect::<Vec<_>>().join(",")
    )
}

/// Checks the written sides, in this short form; texts and results are in the order of blocks.
#[track_caller]
fn check(short: &[&str], expected: &[&str]) {
    let (body, _) = conversation(OPUS_4_1, &messages(short), "");
    let value: serde_json::Value = serde_json::from_str(&format!("{{{body}}}")).unwrap();
    let block = |block: &serde_json::Value| match block["type"].as_str().unwrap() {
        "text" => block["text"].as_str().unwrap().to_owned(),
        "tool_use" => format!("({})", block["id"].as_str().unwrap()),
        "tool_result" => {
            format!(
                "[{}]{}",
                block["tool_use_id"].as_str().unwrap(),
                block["content"].as_str().unwrap_or_default()
            )
        }
        other => other.to_owned(),
    };
    let message = |message: &serde_json::Value| {
        let blocks: Vec<String> = message["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(block)
            .collect();
        format!(
            "{}:{}",
            &message["role"].as_str().unwrap()[..1],
            blocks.join("|")
        )
    };
    let written: Vec<String> = value["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(message)
        .collect();
    assert_eq!(written, expected);
}

#[test]
fn results_come_first_in_call_order() {
    check(
        &["u:hi", "a(c,d):x", "t(d):2", "u:wait", "t(c):1", "u:go on"],
        &["u:hi", "a:x|(c)|(d)", "u:[c]1|[d]2|wait|go on"],
    );
    check(
        &["u:hi", "a(c):", "t(c):1", "a(d):", "t(d):2", "u:more"],
        &["u:hi", "a:(c)", "u:[c]1", "a:(d)", "u:[d]2|more"],
    );
}

#[test]
fn ids_are_rewritten_on_both_sides() {
    check(
        &["u:hi", "a(c.1,c_1):", "t(c.1):x", "t(c_1):y"],
        &["u:hi", "a:(c_1)|(c_1_2)", "u:[c_1]x|[c_1_2]y"],
    );
    let long = "i".repeat(70);
    let call = format!("a({long}):");
    let result = format!("t({long}):x");
    let kept = "i".repeat(64);
    check(
        &["u:hi", &call, &result],
        &["u:hi", &format!("a:({kept})"), &format!("u:[{kept}]x")],
    );
}

#[test]
fn ids_that_come_again_are_made_different() {
    // Servers that count anew with every answer.
    check(
        &[
            "u:hi",
            "a(call_0):",
            "t(call_0):1",
            "a(call_0):",
            "t(call_0):2",
            "u:x",
        ],
        &[
            "u:hi",
            "a:(call_0)",
            "u:[call_0]1",
            "a:(call_0_2)",
            "u:[call_0_2]2|x",
        ],
    );
    check(
        &["u:hi", "a(c,c):", "t(c):1", "t(c):2"],
        &["u:hi", "a:(c)|(c_2)", "u:[c]1|[c_2]2"],
    );
}

#[test]
fn what_says_nothing_parts_nobody() {
    check(&["u:a", "a: ", "u:b"], &["u:a|b"]);
    check(
        &["u:a", "u:  ", "a:b", "u:\\n", "a:c", "u:d"],
        &["u:a", "a:b|c", "u:d"],
    );
    check(&["u: ", "a:b", "u:c"], &["u:.", "a:b", "u:c"]);
    check(
        &["u:hi", "a(c):", "u: ", "a: ", "t(c):1"],
        &["u:hi", "a:(c)", "u:[c]1"],
    );
}

#[test]
fn the_user_speaks_first() {
    check(&["a:hello", "u:hi"], &["u:.", "a:hello", "u:hi"]);
}

#[test]
fn calls_and_results_belong_together() {
    let body = |short: &[&str]| format!(r#"{{"model":"x","messages":{}}}"#, messages(short));
    for (short, expected) in [
        (&["u:hi", "t(c):1"][..], "! messages[1]"),
        (&["t(c):1", "u:hi"], "! messages[0]"),
        (&["u:hi", "a(c):", "t(c):1", "t(d):2"], "! messages[3]"),
        (&["u:hi", "a(c):", "t(d):1"], "! messages[1].tool_calls"),
        (
            &["u:hi", "a(c):", "u:x", "a:y", "t(c):1"],
            "! messages[1].tool_calls",
        ),
        (&["u:hi", "a(c):x"], "! messages[1].tool_calls"),
        (&["u:hi", "a(c):", "u:x"], "! messages[1].tool_calls"),
        (
            &["u:hi", "a(c,d):", "t(c):1", "u:x"],
            "! messages[1].tool_calls",
        ),
        (&["u:hi", "a(c,d):", "t(d):1"], "! messages[1].tool_calls"),
        (
            &["u:hi", "a(c):", "a(d):", "t(d):1"],
            "! messages[1].tool_calls",
        ),
        (&["u: ", "a: "], "? messages"),
    ] {
        assert_eq!(refused(OPUS_4_1, &body(short)), expected, "{short:?}");
    }
    assert_eq!(
        refused(
            OPUS_4_1,
            r#"{"model":"x","messages":[{"role":"system","content":" "}]}"#
        ),
        "? messages"
    );
    assert_eq!(
        refused(
            OPUS_4_1,
            r#"{"model":"x","messages":[{"role":"user","content":"x"},{"role":"function","name":"f","content":"r"}]}"#
        ),
        "! messages[1]"
    );
}

#[test]
fn final_assistant_words_need_a_continuing_model() {
    let body = |end: &str| format!(r#"{{"model":"x","messages":{}}}"#, messages(&["u:hi", end]));
    check(&["u:hi", "a:so \\n"], &["u:hi", "a:so"]);
    assert_eq!(refused(OPUS_4_6, &body("a:so")), "? messages[1]");
    assert_eq!(refused(OPUS_5_5, &body("a:so")), "? messages[1]");
}
