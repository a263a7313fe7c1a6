use super::*;

/// What passes through, and for a target of which the catalog says more.
#[test]
fn what_passes_through_goes_to_no_model_that_cannot_do_it() {
    let body = Bytes::from_static(
        br#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://x/y"}}]}]}"#,
    );
    let odd = Bytes::from_static(br#"{"model":"m","messages":[{"role":"user","content":[{"type":"video_url"}]}]}"#);
    let write = |dialect: &Dialect, body: &Bytes, traits| {
        let envelope = crate::intake::envelope::read(body).unwrap();
        let ask = Ask { body, envelope: &envelope, model: "m", traits, default_max_tokens: None, stream_usage: true, kept: &|_| None };
        dialect.write(&ask).map(|said| said.body.concat())
    };
    let blind = Traits { images: false, ..Traits::UNKNOWN };
    for dialect in [Dialect::OpenAi(&Quirks::NONE), Dialect::Azure(None)] {
        assert_eq!(write(&dialect, &body, Traits::UNKNOWN).unwrap(), body);
        assert_eq!(write(&dialect, &body, Traits { tools: false, ..Traits::UNKNOWN }).unwrap(), body);
        assert_eq!(write(&dialect, &odd, blind).unwrap(), odd);
        let refused = write(&dialect, &body, blind).unwrap_err();
        assert!(matches!(refused, Refused::Unsupported(complaint) if complaint.param == "messages[0].content[1].image_url"));
    }
}

fn streamed(dialect: &Dialect, wire: &str) -> (String, Result<Usage, StreamFault>) {
    let face = Face { model: "m".into(), id: "chatcmpl-1".into(), created: 1, show_usage: true, prompt_bytes: 8 };
    let mut stream = dialect.stream("m", &face, Manner::default(), 1 << 20);
    let mut out = Vec::new();
    let end = stream.feed(wire.as_bytes(), &mut out).and_then(|()| stream.finish(&mut out));
    (String::from_utf8(out).unwrap(), end)
}

/// More of the answer may have been in it: a finish that came before does not make it whole.
#[test]
fn a_stream_that_ends_inside_an_event_was_cut() {
    let whole = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]},\"finishReason\":\"STOP\"}]}\n\n";
    let (out, end) = streamed(&Dialect::Gemini, whole);
    assert!(end.is_ok() && out.ends_with("data: [DONE]\n\n"), "{end:?} {out}");
    for half in ["data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"na", "data: {\"candidates\":"] {
        let (out, end) = streamed(&Dialect::Gemini, &format!("{whole}{half}"));
        assert_eq!(end, Err(StreamFault::Cut), "{out}");
        assert!(!out.contains("[DONE]"), "{out}");
    }
}

#[test]
fn who_says_a_text_of_no_tokens_has_not_counted() {
    let wire = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"four byt\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":9,\"totalTokenCount\":9}}\n\n";
    let (out, end) = streamed(&Dialect::Gemini, wire);
    let usage = end.unwrap();
    assert_eq!((usage.prompt, usage.completion, usage.source), (9, 2, crate::usage::Source::Estimated));
    assert!(out.contains(r#""x_portcullis":{"usage":"estimated"}"#), "{out}");
}
