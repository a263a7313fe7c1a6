use super::*;
use bytes::Bytes;

use crate::neutral::AnswerHeader;
use crate::neutral::answer::AnswerOptions;
use crate::upstream::openai;
use crate::{Dialect, Translate};

/// Returns the first front door of a kind of endpoint.
fn front_of(endpoint: Endpoint) -> &'static Front {
    Front::find(endpoint.name()).unwrap()
}

fn envelope(front: &'static Front, body: &str) -> Result<Envelope, Fault> {
    front.envelope(body.as_bytes())
}

fn sent(front: &'static Front, body: &str, stream_usage: bool) -> String {
    let (bytes, envelope) = (
        Bytes::copy_from_slice(body.as_bytes()),
        envelope(front, body).unwrap(),
    );
    let dialect = Dialect::from(&openai::PROTOCOL).for_endpoint(front.only_endpoint.unwrap());
    let outbound = dialect
        .write(&Translate {
            stream_usage,
            ..Translate::new(&bytes, &envelope, "up")
        })
        .unwrap();
    assert!(outbound.losses.names().is_empty());
    String::from_utf8(outbound.body.concat()).unwrap()
}

#[test]
fn only_the_model_changes() {
    for (front, more) in [
        (
            front_of(Endpoint::Completions),
            r#""prompt":["a",[1,2]],"echo":true,"logprobs":5,"n":2"#,
        ),
        (
            front_of(Endpoint::Rerank),
            r#""query":"q","documents":["a",{"text":"b"}],"top_n":1"#,
        ),
        (
            front_of(Endpoint::Moderations),
            r#""input":"x","new":{"a":"mine"}"#,
        ),
        (
            front_of(Endpoint::Images),
            r#""prompt":"a cat","size":"1x1""#,
        ),
        (
            front_of(Endpoint::Speech),
            r#""input":"hello","voice":"alloy","stream_format":"sse","stream":true"#,
        ),
    ] {
        let body = |model: &str| format!(r#"{{ "model" :"{model}", {more}}}"#);
        assert_eq!(sent(front, &body("mine"), true), body("up"));
    }
}

#[test]
fn a_stream_of_texts_is_asked_for_its_usage() {
    let body = r#"{"model":"mine","prompt":"x","stream":true}"#;
    let with =
        r#"{"stream_options":{"include_usage":true},"model":"up","prompt":"x","stream":true}"#;
    assert_eq!(sent(front_of(Endpoint::Completions), body, true), with);
    assert_eq!(
        sent(front_of(Endpoint::Completions), body, false),
        body.replace("mine", "up")
    );
    let asked =
        r#"{"model":"mine","prompt":"x","stream":true,"stream_options":{"include_usage":false}}"#;
    assert_eq!(
        sent(front_of(Endpoint::Completions), asked, true),
        asked.replace("mine", "up").replace("false", "true")
    );
    // Pictures come in events that have their usage.
    let picture = r#"{"model":"mine","prompt":"x","stream":true}"#;
    assert_eq!(
        sent(front_of(Endpoint::Images), picture, true),
        picture.replace("mine", "up")
    );
}

#[test]
fn the_envelope_has_what_it_may_cost() {
    let of = |front, body: &str| envelope(front, body).unwrap();
    let texts = of(
        front_of(Endpoint::Completions),
        r#"{"model":"m","prompt":["four","four"],"max_tokens":9,"n":3,"user":"u"}"#,
    );
    assert_eq!(
        (texts.prompt_bytes, texts.max_tokens, texts.choices.written),
        (8, Some(9), 6),
        "three for each prompt"
    );
    for (body, choices) in [
        (r#"{"model":"m","prompt":"x","best_of":5}"#, 5),
        (r#"{"model":"m","prompt":"x","n":2,"best_of":5}"#, 5),
        (r#"{"model":"m","prompt":"x","best_of":2,"n":3}"#, 3),
        (r#"{"model":"m","best_of":5,"prompt":["x","y"],"n":3}"#, 10),
    ] {
        assert_eq!(
            of(front_of(Endpoint::Completions), body).choices.written,
            choices,
            "all are written: {body}"
        );
    }
    assert_eq!(
        of(
            front_of(Endpoint::Images),
            r#"{"model":"m","prompt":"x","best_of":5}"#
        )
        .choices,
        Choices::ONE
    );
    assert!(texts.user.is_some() && !texts.conversation_may_refer && !texts.stream);
    let tokens = of(
        front_of(Endpoint::Completions),
        r#"{"model":"m","prompt":[[1,2,3],[4]]}"#,
    );
    assert_eq!(
        (tokens.prompt_bytes, tokens.more_bytes),
        (0, 16),
        "four bytes each"
    );
    for (prompt, choices) in [
        (r#""a""#, 2),
        ("[1,2,3]", 2),
        (r#"["a"]"#, 2),
        ("[[1],[2],[3]]", 6),
        ("[]", 2),
        ("null", 2),
    ] {
        let body = format!(r#"{{"n":2,"model":"m","prompt":{prompt}}}"#);
        assert_eq!(
            of(front_of(Endpoint::Completions), &body).choices.written,
            choices,
            "{prompt}"
        );
    }
    assert_eq!(
        of(
            front_of(Endpoint::Images),
            r#"{"model":"m","prompt":["a","b"],"n":2}"#
        )
        .choices
        .shown,
        2
    );
    let ranks = of(
        front_of(Endpoint::Rerank),
        r#"{"model":"m","query":"ab","documents":["c",{"text":"def"}]}"#,
    );
    assert_eq!(
        (ranks.prompt_bytes, ranks.conversation_may_refer),
        (6, true)
    );
    for (front, body, param, code) in [
        (
            front_of(Endpoint::Rerank),
            r#"{"model":"m","query":"q"}"#,
            "documents",
            Some("missing_required_parameter"),
        ),
        (
            front_of(Endpoint::Rerank),
            r#"{"documents":[]}"#,
            "model",
            Some("missing_required_parameter"),
        ),
        (
            front_of(Endpoint::Images),
            r#"{"model":"m","Prompt":"q"}"#,
            "Prompt",
            Some("unknown_parameter"),
        ),
        (
            front_of(Endpoint::Images),
            r#"{"model":"m","prompt":"q","prompt":"r"}"#,
            "prompt",
            None,
        ),
        (
            front_of(Endpoint::Completions),
            r#"{"model":"m","prompt":"q","stream":1}"#,
            "stream",
            Some("invalid_type"),
        ),
    ] {
        let fault = envelope(front, body).unwrap_err();
        assert_eq!(
            (fault.param.as_deref(), fault.code),
            (Some(param), code),
            "{body}"
        );
    }
}

#[test]
fn of_a_form_only_the_name_is_written() {
    for front in [
        front_of(Endpoint::Edits),
        front_of(Endpoint::Transcriptions),
        front_of(Endpoint::Translations),
    ] {
        for (mine, place) in [("mine", 0..4), ("", 0..0)] {
            let mut envelope = Envelope {
                model: "mine".to_owned(),
                ..Envelope::new(front)
            };
            envelope.places.model = place;
            let dialect =
                Dialect::from(&openai::PROTOCOL).for_endpoint(front.only_endpoint.unwrap());
            let body = Bytes::from_static(mine.as_bytes());
            let outbound = dialect
                .write(&Translate::new(&body, &envelope, "up \"x\""))
                .unwrap();
            assert_eq!(outbound.body.concat(), b"up \"x\"", "no JSON");
        }
        assert!(front.is_form() && front.gives_bytes());
    }
    assert!(
        !front_of(Endpoint::Speech).is_form()
            && front_of(Endpoint::Speech).gives_bytes()
            && !front_of(Endpoint::Rerank).gives_bytes()
    );
    let spoken = envelope(
        front_of(Endpoint::Speech),
        r#"{"model":"m","input":"h\u00e9llo","stream":true}"#,
    )
    .unwrap();
    assert_eq!(
        (spoken.prompt_bytes, spoken.stream),
        (6, false),
        "nothing is written into sound"
    );
    assert_eq!(spoken.units.characters, 5);
    for free in [
        r#"["hello"]"#,
        r#"{"text":"hello"}"#,
        "null",
        r#""\ud800 hello""#,
    ] {
        let fault = envelope(
            front_of(Endpoint::Speech),
            &format!(r#"{{"model":"m","input":{free}}}"#),
        )
        .unwrap_err();
        assert_eq!(
            fault.param.as_deref(),
            Some("input"),
            "its characters are paid for: {free}"
        );
    }
}

#[test]
fn unstreamable_endpoints_are_asked_for_no_stream() {
    for (front, more) in [
        (
            front_of(Endpoint::Rerank),
            r#""query":"q","documents":["a"]"#,
        ),
        (front_of(Endpoint::Moderations), r#""input":"x""#),
        (&crate::front::EMBEDDINGS, r#""input":"x""#),
    ] {
        let with = |stream: &str| {
            envelope(
                front,
                &format!(r#"{{"model":"m",{more},"stream":{stream}}}"#),
            )
        };
        for silent in ["false", "null"] {
            assert!(!with(silent).unwrap().stream, "{}", front.name);
        }
        let fault = with("true").unwrap_err();
        assert_eq!(
            (fault.param.as_deref(), fault.code),
            (Some("stream"), Some("invalid_value")),
            "{}",
            front.name
        );
    }
    for (front, text) in [
        (front_of(Endpoint::Completions), "prompt"),
        (front_of(Endpoint::Images), "prompt"),
        (front_of(Endpoint::Speech), "input"),
    ] {
        assert!(
            envelope(
                front,
                &format!(r#"{{"model":"m","{text}":"x","stream":true}}"#)
            )
            .is_ok(),
            "{}",
            front.name
        );
    }
}

#[test]
fn only_a_text_that_is_one_refers_to_nothing() {
    use crate::front::references::{AllowedReferences, Urls};
    let none = AllowedReferences {
        urls: Urls::None,
        gs: false,
        ..AllowedReferences::ALL
    };
    for (front, list) in [
        (front_of(Endpoint::Rerank), r#""query":"q","documents""#),
        (front_of(Endpoint::Completions), r#""prompt""#),
    ] {
        let param = |text: &str| {
            let body = format!(r#"{{"model":"m",{list}:[{{"text":{text}}}]}}"#);
            let refused = envelope(front, &body)
                .unwrap()
                .check_references(&none, body.as_bytes())
                .err()?;
            Some(match refused {
                Refused::Unsupported(why) | Refused::Invalid(why) => why.param,
            })
        };
        assert_eq!(
            param(r#""gs://bucket/file""#),
            None,
            "a server reads it as a text"
        );
        let place = list.rsplit('"').nth(1).unwrap();
        let inside = format!("{place}[0].text.url");
        assert_eq!(
            param(r#"{"url":"gs://bucket/file"}"#).as_deref(),
            Some(&*inside)
        );
        assert!(param(r#"["gs://bucket/file"]"#).is_some());
    }
}

#[test]
fn a_usage_that_cannot_be_is_shown_to_nobody() {
    let header = AnswerHeader {
        model: "m".into(),
        ..AnswerHeader::default()
    };
    let passed = PassedAnswer::new(&header, &AnswerOptions::default());
    let shown = |usage: &str| {
        let body = format!(r#"{{"text":"hello","usage":{usage},"model":"up"}}"#);
        String::from_utf8(write_answer(body.as_bytes(), &passed)).unwrap()
    };
    for usage in [
        r#"{"input_tokens":-5}"#,
        r#"{"input_tokens":1e30,"output_tokens":1}"#,
        r#"{"type":"duration","seconds":1e308}"#,
        r#"{"input_tokens":5,"input_token_details":{"audio_tokens":-1}}"#,
    ] {
        assert_eq!(shown(usage), r#"{"text":"hello","model":"m"}"#, "{usage}");
    }
    for usage in [
        r#"{"type":"duration","seconds":3.5}"#,
        r#"{"input_tokens":5,"new":[{"a":"b"}]}"#,
        "null",
    ] {
        assert_eq!(
            shown(usage),
            format!(r#"{{"text":"hello","usage":{usage},"model":"m"}}"#)
        );
    }
}
