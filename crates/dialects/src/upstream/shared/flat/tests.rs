use super::*;
use crate::front::chat::read::read_request;
use crate::neutral::Refused;
use crate::upstream::shared::options::tests::target_of;

#[track_caller]
fn check_losses(fields: &str, expected: &[&str]) {
    let body = format!(r#"{{"model":"m",{fields}}}"#);
    let mut losses = LostFields::default();
    let (request, spelling) = read_request(body.as_bytes()).unwrap();
    note_losses(
        &Options::new(&request, &target_of(Traits::UNKNOWN)),
        &mut losses,
    );
    assert_eq!(
        spelling.losses(&request, losses).names(),
        expected,
        "{fields}"
    );
}

#[test]
fn what_cannot_be_said_is_named() {
    for (fields, losses) in [
        (r#""user":"u""#, &["user"][..]),
        (r#""safety_identifier":"u""#, &["safety_identifier"]),
        (
            r#""safety_identifier":"u","user":"v""#,
            &["safety_identifier", "user"],
        ),
        (r#""metadata":{"a":"b"}"#, &["metadata"]),
        (r#""metadata":{}"#, &[]),
        (r#""service_tier":"flex""#, &["service_tier"]),
        (r#""service_tier":"auto""#, &[]),
        (r#""service_tier":"default""#, &[]),
        (
            r#""store":true,"logit_bias":{"1":2},"prediction":{"type":"content"}"#,
            &["store", "logit_bias", "prediction"],
        ),
        (
            r#""store":false,"logit_bias":{},"modalities":["text"],"verbosity":"medium","logprobs":false,"n":1,"web_search_options":null"#,
            &[],
        ),
        (r#""a b":1"#, &["other"]),
        (r#""parallel_tool_calls":false"#, &[]),
        (
            r#""parallel_tool_calls":false,"tools":[{"type":"function","function":{"name":"f"}}]"#,
            &["parallel_tool_calls"],
        ),
        (
            r#""parallel_tool_calls":true,"tools":[{"type":"function","function":{"name":"f"}}]"#,
            &[],
        ),
        (
            r#""tools":[{"type":"function","function":{"name":"f"},"cache_control":{"type":"ephemeral"}}]"#,
            &["cache_control"],
        ),
        (
            r#""messages":[{"role":"user","content":"a","name":"n"},{"role":"user","content":"b","name":"m"}]"#,
            &["messages[].name"],
        ),
        (
            r#""messages":[{"role":"tool","tool_call_id":"a","name":"n","content":"b"}]"#,
            &[],
        ),
        (
            r#""messages":[{"role":"assistant","content":"b","audio":{"id":"x"}}]"#,
            &["messages[].audio"],
        ),
        (
            r#""messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}]"#,
            &["cache_control"],
        ),
        (
            r#""messages":[{"role":"assistant","content":"b","thinking_blocks":[{"type":"thinking","thinking":"a","signature":"s"}]}]"#,
            &["messages[].thinking_blocks"],
        ),
        (
            r#""messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"custom","custom":{"name":"f","input":"x"}}]}]"#,
            &["messages[].tool_calls[].custom"],
        ),
        (
            r#""messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"x"},"extra_content":{"google":{"thought_signature":"s"}}}]}]"#,
            &[
                "messages[].tool_calls[].extra_content",
                "messages[].tool_calls[].function.arguments",
            ],
        ),
    ] {
        check_losses(fields, losses);
    }
}

#[track_caller]
fn check_refused(fields: &str, traits: Traits, urls: bool, expected: Option<&str>) {
    let hi = if fields.contains("messages") {
        ""
    } else {
        r#","messages":[{"role":"user","content":"hi"}]"#
    };
    let body = format!(r#"{{"model":"m",{fields}{hi}}}"#);
    let (request, spelling) = read_request(body.as_bytes()).unwrap();
    let target = target_of(traits);
    let param = match refuse_unsupported(&Options::new(&request, &target), urls)
        .map_err(|why| spelling.refused(&request, why))
    {
        Ok(()) => None,
        Err(Refused::Unsupported(complaint) | Refused::Invalid(complaint)) => Some(complaint.param),
    };
    assert_eq!(param.as_deref(), expected, "{fields}");
}

#[test]
fn what_would_change_the_meaning_is_refused() {
    let all = Traits::UNKNOWN;
    check_refused(r#""n":2"#, all, true, Some("n"));
    check_refused(r#""n":1"#, all, true, None);
    check_refused(r#""logprobs":true"#, all, true, Some("logprobs"));
    check_refused(r#""top_logprobs":2"#, all, true, Some("logprobs"));
    check_refused(
        r#""modalities":["text","audio"],"audio":{"voice":"a","format":"wav"}"#,
        all,
        true,
        Some("modalities"),
    );

    let part = |role: &str, part: &str| {
        format!(
            r#""messages":[{{"role":"user","content":"a"}},{{"role":"{role}","tool_call_id":"a","content":[{{"type":"text","text":"b"}},{part}]}}]"#
        )
    };
    let inline = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}"#;
    let url = r#"{"type":"image_url","image_url":{"url":"https://x/y.png"}}"#;
    let image = Some("messages[1].content[1].image_url");
    check_refused(&part("user", inline), all, false, None);
    check_refused(
        &part("user", inline),
        Traits {
            images: false,
            ..all
        },
        true,
        image,
    );
    check_refused(&part("assistant", inline), all, true, image);
    check_refused(&part("system", inline), all, true, image);
    check_refused(&part("tool", inline), all, true, image);
    check_refused(&part("user", url), all, true, None);
    check_refused(&part("user", url), all, false, image);
    let audio = r#"{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}"#;
    check_refused(
        &part("user", audio),
        all,
        true,
        Some("messages[1].content[1].input_audio"),
    );
    check_refused(
        &part("user", r#"{"type":"file","file":{"file_id":"f"}}"#),
        all,
        true,
        Some("messages[1].content[1].file"),
    );

    let last = r#""messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]"#;
    check_refused(last, all, true, None);
    check_refused(
        &part(
            "user",
            &inline.replace("data:image/png;base64,AAAA", "gs://b/c.png"),
        ),
        all,
        true,
        image,
    );
    let call = r#"{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f"}}]}"#;
    check_refused(
        &format!(r#""messages":[{call}]"#),
        all,
        true,
        Some("messages[0].tool_calls"),
    );
    check_refused(
        &format!(r#""messages":[{call},{{"role":"tool","tool_call_id":"1","content":""}}]"#),
        all,
        true,
        None,
    );
    check_refused(
        r#""messages":[{"role":"user","content":""},{"role":"assistant","content":null}]"#,
        all,
        true,
        Some("messages"),
    );
    check_refused(
        last,
        Traits {
            prefill: false,
            ..all
        },
        true,
        Some("messages"),
    );
}

#[test]
fn a_result_must_name_its_call() {
    let message = Message {
        role: Role::Tool,
        content: Vec::new(),
        ..Message::default()
    };
    let request = Request {
        messages: vec![message],
        ..Request::default()
    };
    let target = target_of(Traits::UNKNOWN);
    assert!(
        matches!(refuse_unsupported(&Options::new(&request, &target), true), Err(Refused::Invalid(complaint)) if complaint.param == Field::CallId(0))
    );
}

#[track_caller]
fn check_offer(fields: &str, traits: Traits, expected: Result<(&[&str], Choice), &str>) {
    let tools = r#"{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}"#;
    let body = format!(r#"{{"model":"m",{}}}"#, fields.replace("AB", tools));
    let (request, spelling) = read_request(body.as_bytes()).unwrap();
    let offer = choose_tools(&request, &traits).map_err(|why| spelling.refused(&request, why));
    let expected = expected
        .map(|(tools, choice)| (tools.to_vec(), choice))
        .map_err(str::to_owned);
    let found = offer
        .map(|offer| {
            (
                offer.tools.iter().map(|tool| &*tool.name).collect(),
                offer.choice,
            )
        })
        .map_err(|refused| match refused {
            Refused::Unsupported(complaint) | Refused::Invalid(complaint) => complaint.param,
        });
    assert_eq!(found, expected, "{fields}");
}

#[test]
fn a_choice_among_tools_shows_no_others() {
    let all = Traits::UNKNOWN;
    let soft = Traits {
        forced_tools: false,
        ..all
    };
    let bare = Traits {
        tools: false,
        ..all
    };
    check_offer(r#""n":1"#, bare, Ok((&[], Choice::Free)));
    check_offer(r#""tools":[AB]"#, all, Ok((&["a", "b"], Choice::Free)));
    check_offer(r#""tools":[AB]"#, bare, Err("tools"));
    check_offer(
        r#""tools":[AB],"tool_choice":"auto""#,
        soft,
        Ok((&["a", "b"], Choice::Free)),
    );
    check_offer(
        r#""tools":[AB],"tool_choice":"none""#,
        all,
        Ok((&["a", "b"], Choice::Never)),
    );
    check_offer(
        r#""tools":[AB],"tool_choice":"none""#,
        bare,
        Ok((&[], Choice::Free)),
    );
    check_offer(
        r#""tools":[AB],"tool_choice":"required""#,
        all,
        Ok((&["a", "b"], Choice::Any)),
    );
    check_offer(
        r#""tools":[AB],"tool_choice":"required""#,
        soft,
        Err("tool_choice"),
    );
    check_offer(
        r#""tools":[AB],"tool_choice":{"type":"function","function":{"name":"b"}}"#,
        all,
        Ok((&["b"], Choice::Any)),
    );
    check_offer(
        r#""tools":[AB],"tool_choice":{"type":"function","function":{"name":"b"}}"#,
        soft,
        Err("tool_choice"),
    );
    let allowed = |mode: &str| {
        format!(
            r#""tools":[AB],"tool_choice":{{"type":"allowed_tools","allowed_tools":{{"mode":"{mode}","tools":[{{"type":"function","function":{{"name":"b"}}}}]}}}}"#
        )
    };
    check_offer(&allowed("auto"), soft, Ok((&["b"], Choice::Free)));
    check_offer(&allowed("required"), all, Ok((&["b"], Choice::Any)));
    check_offer(&allowed("required"), soft, Err("tool_choice"));
    check_offer(
        r#""tools":[AB,{"type":"custom","custom":{"name":"c"}}]"#,
        all,
        Err("tools[2]"),
    );
    check_offer(
        r#""tools":[{"type":"web_search"},AB]"#,
        all,
        Err("tools[0]"),
    );
    check_offer(
        r#""tools":[{"type":"web_search"},AB],"tool_choice":"none""#,
        all,
        Ok((&["a", "b"], Choice::Never)),
    );

    // Not from a body, which is refused before.
    let request = Request {
        tool_choice: Some(ToolChoice::Required),
        ..Request::default()
    };
    assert!(
        matches!(choose_tools(&request, &all), Err(Refused::Invalid(complaint)) if complaint.param == Field::ToolChoice)
    );
}

#[test]
fn arguments_are_objects() {
    let of = |text: &str| {
        let call = Call {
            id: "a".into(),
            name: "f".into(),
            arguments: text.to_owned().into(),
            signature: None,
            is_custom: false,
        };
        object_arguments(&call).into_owned()
    };
    for (text, expected) in [
        ("", "{}"),
        (" null ", "{}"),
        ("{}", "{}"),
        ("\n{\"a\": [1.0, \"b\"]}\n", "{\"a\": [1.0, \"b\"]}"),
        ("[1]", r#"{"_raw":"[1]"}"#),
        ("7", r#"{"_raw":"7"}"#),
        ("{\"a\":", r#"{"_raw":"{\"a\":"}"#),
        ("{}{}", r#"{"_raw":"{}{}"}"#),
        ("say \"hi\"", r#"{"_raw":"say \"hi\""}"#),
    ] {
        assert_eq!(of(text), expected, "{text}");
    }
}

#[test]
fn a_too_long_prompt_is_known_by_words() {
    assert!(is_overflow(
        "This model's maximum context length is 4096 tokens"
    ));
    assert!(is_overflow("the input length exceeds the context length"));
    assert!(is_overflow("Prompt is too long"));
    assert!(!is_overflow("context length must be a number"));
    assert!(!is_overflow("request body too large"));
}
