use super::*;
use crate::front::{CHAT, MESSAGES, RESPONSES};
use crate::neutral::StreamFault;
use crate::neutral::usage::Usage;
use crate::upstream::{self, BaseUrl, anthropic, azure, bedrock, cohere, demo, gemini, ollama};

fn recipient(header: &AnswerHeader) -> Recipient<'_> {
    Recipient {
        front: &CHAT,
        header,
        options: AnswerOptions::default(),
    }
}

/// A request that passes is also checked against the catalog's facts of its target.
#[test]
fn pass_through_avoids_models_that_cannot_do_it() {
    let body = Bytes::from_static(
        br#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://x/y"}}]}]}"#,
    );
    let odd = Bytes::from_static(
        br#"{"model":"m","messages":[{"role":"user","content":[{"type":"video_url"}]}]}"#,
    );
    let write = |dialect: &Dialect, body: &Bytes, traits| {
        let envelope = crate::front::CHAT.envelope(body).unwrap();
        let job = Translate {
            traits,
            ..Translate::new(body, &envelope, "m")
        };
        dialect.write(&job).map(|said| said.body.concat())
    };
    let blind = Traits {
        images: false,
        ..Traits::UNKNOWN
    };
    for dialect in [
        Dialect::from(&openai::PROTOCOL),
        Dialect::from(&azure::PROTOCOL),
    ] {
        assert_eq!(write(&dialect, &body, Traits::UNKNOWN).unwrap(), body);
        assert_eq!(
            write(
                &dialect,
                &body,
                Traits {
                    tools: false,
                    ..Traits::UNKNOWN
                }
            )
            .unwrap(),
            body
        );
        assert_eq!(write(&dialect, &odd, blind).unwrap(), odd);
        let refused = write(&dialect, &body, blind).unwrap_err();
        assert!(
            matches!(refused, Refused::Unsupported(complaint) if complaint.param == "messages[0].content[1].image_url")
        );
    }
}

/// Each change takes memory, and a body may have a million places for one.
#[test]
fn a_body_needing_too_many_changes_is_refused() {
    let write = |count: usize| {
        let thought = r#"{"type":"thinking","thinking":"","signature":""},"#.repeat(count);
        let body = Bytes::from(format!(
            r#"{{"model":"m","max_tokens":9,"messages":[{{"role":"assistant","content":[{thought}{{"type":"text","text":"x"}}]}}]}}"#
        ));
        let envelope = MESSAGES.envelope(&body).unwrap();
        Dialect::from(&anthropic::PROTOCOL).write(&Translate::new(&body, &envelope, "m"))
    };
    assert!(write(MOST_EDITS).is_ok());
    assert!(matches!(write(MOST_EDITS + 1), Err(Refused::Invalid(_))));
}

#[test]
fn a_renamed_body_counts_with_its_text() {
    let text = "x".repeat(100_000);
    let body = Bytes::from(format!(
        r#"{{"model":"m","max_tokens":9,"fallbacks":[{{"model":"ours"}}],"messages":[{{"role":"user","content":"{text}"}}]}}"#
    ));
    let envelope = MESSAGES.envelope(&body).unwrap();
    let job = Translate {
        other: &|_| OtherModel::Here("theirs".into()),
        ..Translate::new(&body, &envelope, "m")
    };
    let outbound = Dialect::from(&anthropic::PROTOCOL).write(&job).unwrap();
    assert!(outbound.copied > 100_000, "{}", outbound.copied);
}

fn streamed(dialect: &Dialect, wire: &str) -> (String, Result<Usage, StreamFault>) {
    let header = AnswerHeader {
        model: "m".into(),
        id: "chatcmpl-1".into(),
        created: 1,
        show_usage: true,
        prompt_bytes: 8,
        ..AnswerHeader::default()
    };
    let mut stream = dialect.stream("m", recipient(&header), 1 << 20);
    let mut out = Vec::new();
    let end = stream
        .feed(wire.as_bytes(), &mut out)
        .and_then(|()| stream.finish(&mut out, None));
    (String::from_utf8(out).unwrap(), end)
}

/// More of the answer may have been in it: a finish that came before does not make it whole.
#[test]
fn a_stream_that_ends_inside_an_event_was_cut() {
    let whole = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]},\"finishReason\":\"STOP\"}]}\n\n";
    let (out, end) = streamed(&Dialect::from(&gemini::PROTOCOL), whole);
    assert!(
        end.is_ok() && out.ends_with("data: [DONE]\n\n"),
        "{end:?} {out}"
    );
    for half in [
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"na",
        "data: {\"candidates\":",
    ] {
        let (out, end) = streamed(&Dialect::from(&gemini::PROTOCOL), &format!("{whole}{half}"));
        assert_eq!(end, Err(StreamFault::Cut), "{out}");
        assert!(!out.contains("[DONE]"), "{out}");
    }
}

#[test]
fn data_that_stands_on_several_lines_passes_on_one() {
    let header = AnswerHeader::default();
    let to = Recipient {
        front: &MESSAGES,
        ..recipient(&header)
    };
    let mut stream = Dialect::from(&anthropic::PROTOCOL).stream("claude-x", to, 1 << 20);
    let mut out = Vec::new();
    let ping = "event: ping\ndata: {\"type\":\ndata: \"ping\"}\n\n";
    stream
        .feed(ping.as_bytes(), &mut out)
        .expect("an event that says nothing");
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "event: ping\ndata: {\"type\": \"ping\"}\n\n"
    );
}

#[test]
fn a_count_of_zero_for_a_text_is_ignored() {
    let wire = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"four byt\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":9,\"totalTokenCount\":9}}\n\n";
    let (out, end) = streamed(&Dialect::from(&gemini::PROTOCOL), wire);
    let usage = end.unwrap();
    assert_eq!(
        (usage.prompt, usage.completion, usage.source),
        (9, 2, crate::neutral::usage::Source::Estimated)
    );
    assert!(
        out.contains(r#""x_portcullis":{"usage":"estimated"}"#),
        "{out}"
    );
}

/// Whether all that came is a refusal: of a buffered answer, and of the stream that it is made
/// into.
#[track_caller]
fn check_declined(dialect: &Dialect, body: &str, expected: bool) {
    let header = AnswerHeader {
        model: "m".into(),
        id: "chatcmpl-1".into(),
        created: 1,
        ..AnswerHeader::default()
    };
    let options = AnswerOptions {
        keep_thoughts: true,
        ..AnswerOptions::default()
    };
    let to = Recipient {
        options,
        ..recipient(&header)
    };
    let (whole, _) = dialect.answer("m", &to, body.as_bytes()).unwrap();
    let (streamed, _) = dialect.converted("m", &to, body.as_bytes()).unwrap();
    assert_eq!(
        (whole.declined, streamed.declined),
        (expected, expected),
        "{body}"
    );
}

/// Checks whether a stream only declines, when the gate opens and at its end.
#[track_caller]
fn check_stream_declined(dialect: &Dialect, wire: &[u8], at_first: bool, at_last: bool) {
    let header = AnswerHeader {
        model: "m".into(),
        id: "chatcmpl-1".into(),
        created: 1,
        ..AnswerHeader::default()
    };
    let mut stream = dialect.stream("m", recipient(&header), 1 << 20);
    let mut first = None;
    for byte in wire.chunks(1) {
        stream.feed(byte, &mut Vec::new()).unwrap();
        first = first.or_else(|| stream.opened().then(|| stream.declined()));
    }
    stream.finish(&mut Vec::new(), None).unwrap();
    assert_eq!(
        (first.unwrap_or(stream.declined()), stream.declined()),
        (at_first, at_last),
        "{}",
        String::from_utf8_lossy(wire)
    );
}

/// The sources of some servers stand beside the text, so they are known only at the end.
#[test]
fn sources_beside_the_text_are_events_too() {
    for (front, event) in [
        (&RESPONSES, "event: response.output_text.annotation.added"),
        (&MESSAGES, "citations_delta"),
    ] {
        let header = AnswerHeader::default();
        let to = Recipient {
            front,
            ..recipient(&header)
        };
        let mut stream = Dialect::from(&openai::PROTOCOL).stream("m", to, 1 << 20);
        let wire = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}],\
                    \"citations\":[\"https://x/y\"]}\n\ndata: [DONE]\n\n";
        let mut out = Vec::new();
        stream.feed(wire.as_bytes(), &mut out).unwrap();
        stream.finish(&mut out, None).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains(event), "{out}");
    }
}

#[test]
fn every_dialect_knows_an_answer_that_is_none() {
    let openai = |said: &str, finish: &str| {
        format!(r#"{{"choices":[{{"index":0,"message":{{{said}}},"finish_reason":"{finish}"}}]}}"#)
    };
    for dialect in [
        Dialect::from(&openai::PROTOCOL),
        Dialect::from(&azure::PROTOCOL),
    ] {
        check_declined(
            &dialect,
            &openai(r#""content":null,"refusal":"no""#, "stop"),
            true,
        );
        check_declined(&dialect, &openai(r#""content":"""#, "content_filter"), true);
        check_declined(
            &dialect,
            &openai(r#""content":"a""#, "content_filter"),
            false,
        );
    }
    let anthropic = |content: &str, end: &str| {
        format!(r#"{{"type":"message","content":[{content}],"stop_reason":{end}}}"#)
    };
    check_declined(
        &Dialect::from(&anthropic::PROTOCOL),
        &anthropic("", r#""refusal""#),
        true,
    );
    check_declined(
        &Dialect::from(&anthropic::PROTOCOL),
        &anthropic("", r#""refusal","stop_details":{"explanation":"no"}"#),
        true,
    );
    check_declined(
        &Dialect::from(&anthropic::PROTOCOL),
        &anthropic(
            r#"{"type":"thinking","thinking":"hm","signature":"s"}"#,
            r#""refusal""#,
        ),
        true,
    );
    check_declined(
        &Dialect::from(&anthropic::PROTOCOL),
        &anthropic(r#"{"type":"text","text":"a"}"#, r#""refusal""#),
        false,
    );
    check_declined(
        &Dialect::from(&anthropic::PROTOCOL),
        &anthropic("", r#""end_turn""#),
        false,
    );
    let gemini = |parts: &str, end: &str| {
        format!(r#"{{"candidates":[{{"content":{{"parts":[{parts}]}},"finishReason":"{end}"}}]}}"#)
    };
    for end in [
        "SAFETY",
        "RECITATION",
        "PROHIBITED_CONTENT",
        "BLOCKLIST",
        "SPII",
        "IMAGE_SAFETY",
        "MODEL_ARMOR",
    ] {
        check_declined(&Dialect::from(&gemini::PROTOCOL), &gemini("", end), true);
        check_declined(
            &Dialect::from(&gemini::PROTOCOL),
            &gemini(r#"{"text":"hm","thought":true}"#, end),
            true,
        );
        check_declined(
            &Dialect::from(&gemini::PROTOCOL),
            &gemini(r#"{"text":"a"}"#, end),
            false,
        );
    }
    check_declined(
        &Dialect::from(&gemini::PROTOCOL),
        &gemini("", "STOP"),
        false,
    );
    check_declined(
        &Dialect::from(&gemini::PROTOCOL),
        r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}"#,
        true,
    );
    let bedrock = |content: &str, end: &str| {
        format!(r#"{{"output":{{"message":{{"content":[{content}]}}}},"stopReason":"{end}"}}"#)
    };
    for end in ["guardrail_intervened", "content_filtered", "refusal"] {
        check_declined(&Dialect::from(&bedrock::PROTOCOL), &bedrock("", end), true);
        check_declined(
            &Dialect::from(&bedrock::PROTOCOL),
            &bedrock(r#"{"text":"a"}"#, end),
            false,
        );
    }
    check_declined(
        &Dialect::from(&bedrock::PROTOCOL),
        &bedrock("", "end_turn"),
        false,
    );
    let cohere = |text: &str, end: &str| {
        format!(
            r#"{{"message":{{"content":[{{"type":"text","text":"{text}"}}]}},"finish_reason":"{end}"}}"#
        )
    };
    check_declined(
        &Dialect::from(&cohere::PROTOCOL),
        &cohere("", "ERROR_TOXIC"),
        true,
    );
    check_declined(
        &Dialect::from(&cohere::PROTOCOL),
        &cohere("a", "ERROR_TOXIC"),
        false,
    );
    check_declined(
        &Dialect::from(&cohere::PROTOCOL),
        &cohere("", "COMPLETE"),
        false,
    );
    check_declined(
        &Dialect::from(&ollama::PROTOCOL),
        r#"{"message":{"content":""},"done":true,"done_reason":"stop"}"#,
        false,
    );
}

#[test]
fn every_dialect_knows_a_stream_that_is_no_answer() {
    let openai = |chunks: &[&str]| {
        chunks
            .iter()
            .map(|chunk| format!("data: {{\"choices\":[{{\"index\":0,{chunk}}}]}}\n\n"))
            .collect::<String>()
    };
    let role = r#""delta":{"role":"assistant","content":""},"finish_reason":null"#;
    let thought = r#""delta":{"reasoning_content":"hm"},"finish_reason":null"#;
    let end = r#""delta":{},"finish_reason":"content_filter""#;
    let passed = Dialect::from(&openai::PROTOCOL);
    check_stream_declined(
        &passed,
        openai(&[role, r#""delta":{"refusal":"no"},"finish_reason":"stop""#]).as_bytes(),
        true,
        true,
    );
    check_stream_declined(&passed, openai(&[role, end]).as_bytes(), true, true);
    check_stream_declined(
        &passed,
        openai(&[role, thought, end]).as_bytes(),
        false,
        true,
    );
    check_stream_declined(
        &passed,
        openai(&[role, r#""delta":{"content":"a"},"finish_reason":null"#, end]).as_bytes(),
        false,
        false,
    );

    let anthropic = |events: &[&str]| {
        let start = r#"{"type":"message_start","message":{"id":"msg_1"}}"#;
        let end = r#"{"type":"message_delta","delta":{"stop_reason":"refusal"}}"#;
        let all = [&[start], events, &[end, r#"{"type":"message_stop"}"#]].concat();
        all.iter()
            .map(|event| format!("data: {event}\n\n"))
            .collect::<String>()
    };
    let block = |kind: &str| {
        format!(r#"{{"type":"content_block_start","index":0,"content_block":{kind}}}"#)
    };
    check_stream_declined(
        &Dialect::from(&anthropic::PROTOCOL),
        anthropic(&[]).as_bytes(),
        true,
        true,
    );
    check_stream_declined(
        &Dialect::from(&anthropic::PROTOCOL),
        anthropic(&[&block(r#"{"type":"text","text":""}"#)]).as_bytes(),
        true,
        true,
    );
    check_stream_declined(
        &Dialect::from(&anthropic::PROTOCOL),
        anthropic(&[&block(r#"{"type":"text","text":"a"}"#)]).as_bytes(),
        false,
        false,
    );
    check_stream_declined(
        &Dialect::from(&anthropic::PROTOCOL),
        anthropic(&[&block(r#"{"type":"thinking","thinking":"hm"}"#)]).as_bytes(),
        false,
        true,
    );
    check_stream_declined(
        &Dialect::from(&anthropic::PROTOCOL),
        anthropic(&[&block(r#"{"type":"tool_use","id":"a","name":"f"}"#)]).as_bytes(),
        false,
        false,
    );

    let blocked = "data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"}}\n\n";
    let said = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\n\n";
    let safety = "data: {\"candidates\":[{\"finishReason\":\"SAFETY\"}]}\n\n";
    check_stream_declined(
        &Dialect::from(&gemini::PROTOCOL),
        blocked.as_bytes(),
        true,
        true,
    );
    check_stream_declined(
        &Dialect::from(&gemini::PROTOCOL),
        safety.as_bytes(),
        true,
        true,
    );
    check_stream_declined(
        &Dialect::from(&gemini::PROTOCOL),
        format!("{said}{safety}").as_bytes(),
        false,
        false,
    );

    let frame = |name, data: &str| {
        crate::wire::frames::frame(
            &[(":event-type", name), (":message-type", "event")],
            data.as_bytes(),
        )
    };
    let stopped = frame("messageStop", r#"{"stopReason":"guardrail_intervened"}"#);
    let text = frame(
        "contentBlockDelta",
        r#"{"contentBlockIndex":0,"delta":{"text":"a"}}"#,
    );
    check_stream_declined(&Dialect::from(&bedrock::PROTOCOL), &stopped, true, true);
    check_stream_declined(
        &Dialect::from(&bedrock::PROTOCOL),
        &[text, stopped].concat(),
        false,
        false,
    );

    let cohere =
        "data: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"ERROR_TOXIC\"}}\n\n";
    check_stream_declined(
        &Dialect::from(&cohere::PROTOCOL),
        cohere.as_bytes(),
        true,
        true,
    );
    check_stream_declined(
        &Dialect::from(&ollama::PROTOCOL),
        b"{\"message\":{\"content\":\"a\"},\"done\":true}\n",
        false,
        false,
    );
}

/// A server's own fault stays its own, whatever status its body has. But a filter's refusal is
/// never the server's fault.
#[test]
fn a_filter_is_the_callers_matter_whatever_the_status() {
    for dialect in [
        Dialect::from(&openai::PROTOCOL),
        Dialect::from(&azure::PROTOCOL),
        Dialect::from(&demo::PROTOCOL),
    ] {
        let meant = |body: &str| {
            let error = dialect.error(
                &CHAT,
                &ErrorHead {
                    status: 500,
                    ..ErrorHead::default()
                },
                body.as_bytes(),
            );
            dialect.true_status(500, &error)
        };
        assert_eq!(
            meant(r#"{"error":{"message":"no","code":"content_filter"}}"#),
            400,
            "{}",
            dialect.protocol.name
        );
        assert_eq!(
            meant(r#"{"error":{"message":"no","code":"content_policy_violation"}}"#),
            400,
            "{}",
            dialect.protocol.name
        );
    }
    let error = UpstreamError {
        status: Some(400),
        code: Some("invalid_value".into()),
        ..UpstreamError::default()
    };
    assert_eq!(
        Dialect::from(&openai::PROTOCOL).true_status(500, &error),
        500
    );
}

#[test]
fn the_trail_goes_with_the_usage_whatever_the_dialect() {
    let trail = r#""attempts":"a;ok;1ms""#;
    let gemini = r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}"#;
    let openai = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;
    let events = [
        r#"{"type":"message_start","message":{"usage":{"input_tokens":1}}}"#,
        r#"{"type":"content_block_start","content_block":{"type":"text","text":"a"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    for (dialect, events, mark) in [
        (
            Dialect::from(&openai::PROTOCOL),
            &[openai][..],
            r#""x_portcullis":{"attempts":"a;ok;1ms"}"#,
        ),
        (
            Dialect::from(&anthropic::PROTOCOL),
            &events,
            r#""x_portcullis":{"attempts":"a;ok;1ms"}"#,
        ),
        (
            Dialect::from(&gemini::PROTOCOL),
            &[gemini],
            r#""x_portcullis":{"usage":"estimated","attempts":"a;ok;1ms"}"#,
        ),
    ] {
        for show_usage in [true, false] {
            let header = AnswerHeader {
                model: "m".into(),
                id: "chatcmpl-1".into(),
                created: 1,
                show_usage,
                prompt_bytes: 8,
                ..AnswerHeader::default()
            };
            let marked = |out: &str| {
                out.lines()
                    .filter(|line| line.contains(mark) && line.contains(r#""choices":[],"#))
                    .count()
            };
            let mut stream = dialect.stream("m", recipient(&header), 1 << 20);
            let wire: String = events
                .iter()
                .map(|event| format!("data: {event}\n\n"))
                .collect();
            let mut out = Vec::new();
            stream.feed(wire.as_bytes(), &mut out).unwrap();
            stream.finish(&mut out, Some(trail)).unwrap();
            let out = String::from_utf8(out).unwrap();
            assert_eq!(
                (marked(&out), out.matches("x_portcullis").count()),
                (show_usage.into(), show_usage.into()),
                "{out}"
            );
        }
    }
}

#[test]
fn every_dialect_is_at_its_address() {
    let url = |protocol: &'static Protocol| {
        let BaseUrl::Fixed(base) = protocol.base_url else {
            panic!("{:?}", protocol.base_url)
        };
        format!("{base}{}", protocol.path(&Settings::NONE, "m", false))
    };
    assert_eq!(
        url(&anthropic::PROTOCOL),
        "https://api.anthropic.com/v1/messages"
    );
    assert_eq!(
        anthropic::PROTOCOL.headers,
        [("anthropic-version", "2023-06-01")]
    );
    assert_eq!(url(&cohere::PROTOCOL), "https://api.cohere.com/v2/chat");
    assert_eq!(url(&ollama::PROTOCOL), "http://127.0.0.1:11434/api/chat");
}

#[test]
fn every_dialect_is_found_by_its_name() {
    for name in upstream::NAMES {
        assert_eq!(
            Protocol::find(name).map(|protocol| protocol.name),
            Some(name)
        );
    }
    assert_eq!(Protocol::find("smtp"), None);
}
