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
