use super::*;
use crate::front::Front;
use crate::neutral::answer::AnswerOptions;
use crate::neutral::usage::{Source, Usage};
use crate::upstream::openai;
use crate::{AnswerHeader, Dialect, Endpoint, Recipient};

fn front_of(endpoint: Endpoint) -> &'static Front {
    Front::find(endpoint.name()).unwrap()
}

fn header() -> AnswerHeader {
    AnswerHeader {
        model: "mine".to_owned(),
        prompt_bytes: 8,
        ..AnswerHeader::default()
    }
}

fn recipient<'a>(front: &'static crate::front::Front, header: &'a AnswerHeader) -> Recipient<'a> {
    Recipient {
        front,
        header,
        options: AnswerOptions::default(),
    }
}

fn answer(front: &'static crate::front::Front, body: &str) -> Result<(String, Usage), AnswerFault> {
    let (dialect, header) = (
        Dialect::from(&openai::PROTOCOL).for_endpoint(front.only_endpoint.unwrap()),
        header(),
    );
    let (answer, kept) = dialect.answer("up", &recipient(front, &header), body.as_bytes())?;
    assert!(kept.is_empty());
    Ok((String::from_utf8(answer.body).unwrap(), answer.usage))
}

#[test]
fn each_kind_has_its_own_path_and_answer() {
    let kinds = [
        (front_of(Endpoint::Completions), "/completions", "choices"),
        (front_of(Endpoint::Rerank), "/rerank", "results"),
        (front_of(Endpoint::Moderations), "/moderations", "results"),
        (front_of(Endpoint::Images), "/images/generations", "data"),
    ];
    for (front, path, list) in kinds {
        let dialect = Dialect::from(&openai::PROTOCOL).for_endpoint(front.only_endpoint.unwrap());
        assert_eq!(
            dialect.protocol.path(&crate::Settings::NONE, "up", false),
            path
        );
        let body = format!(r#"{{"{list}":[],"model":"up-2026","x":{{"model":"y"}}}}"#);
        let told = format!(r#"{{"{list}":[],"model":"mine","x":{{"model":"y"}}}}"#);
        assert_eq!(answer(front, &body).map(|told| told.0), Ok(told));
        for nonsense in [
            "",
            "[]",
            "{}",
            r#"{"model":"up"}"#,
            r#"{"x":[]}"#,
            &format!(r#"{{"{list}":{{}}}}"#),
            "<html>",
        ] {
            assert!(
                matches!(answer(front, nonsense), Err(AnswerFault::Nonsense(_))),
                "{path} {nonsense}"
            );
        }
        let failed = answer(
            front,
            r#"{"error":{"message":"no","code":"rate_limit_exceeded"}}"#,
        );
        assert!(matches!(failed, Err(AnswerFault::Upstream(error)) if error.message == "no"));
    }
}

#[test]
fn a_recording_has_text_and_sound_is_no_json() {
    for front in [
        front_of(Endpoint::Transcriptions),
        front_of(Endpoint::Translations),
    ] {
        let body = r#"{"text":"héllo","segments":[],"usage":{"type":"tokens","input_tokens":14,"output_tokens":5}}"#;
        let (told, used) = answer(front, body).unwrap();
        assert_eq!(
            (&*told, used.prompt, used.completion, used.source),
            (body, 14, 5, Source::Reported)
        );
        assert_eq!(
            answer(front, r#"{"text":""}"#)
                .map(|(told, _)| told)
                .as_deref(),
            Ok(r#"{"text":""}"#)
        );
        assert!(matches!(
            answer(front, r#"{"data":"x"}"#),
            Err(AnswerFault::Nonsense(_))
        ));
    }
    for (length, millis) in [
        (
            r#""usage":{"type":"duration","seconds":9},"duration":8.47"#,
            9_000,
        ),
        (r#""duration":8.47"#, 8_470),
        (r#""duration":"8.5""#, 8_500),
        (r#""duration":-1"#, 0),
        (r#""duration":1e300"#, 0),
        (r#""duration":{},"usage":{"seconds":[]}"#, 0),
    ] {
        let (_, used) = answer(
            front_of(Endpoint::Translations),
            &format!(r#"{{"text":"x",{length}}}"#),
        )
        .unwrap();
        assert_eq!(
            (used.units.millis, used.completion),
            (millis, 0),
            "{length}"
        );
    }
    let (_, used) = answer(front_of(Endpoint::Edits), r#"{"data":[{},{}]}"#).unwrap();
    assert_eq!(used.units.images, 2);
    assert!(matches!(
        answer(front_of(Endpoint::Speech), r#"{"text":"x"}"#),
        Err(AnswerFault::Nonsense(_))
    ));
    assert!(matches!(
        answer(front_of(Endpoint::Speech), r#"{"error":{"message":"no"}}"#),
        Err(AnswerFault::Upstream(_))
    ));
    for (front, path) in [
        (front_of(Endpoint::Edits), "images/edits"),
        (front_of(Endpoint::Speech), "audio/speech"),
        (front_of(Endpoint::Transcriptions), "audio/transcriptions"),
        (front_of(Endpoint::Translations), "audio/translations"),
    ] {
        let (kind, settings) = (front.only_endpoint.unwrap(), |version: &str| {
            crate::Settings {
                version: Some(version.into()),
                ..crate::Settings::NONE
            }
        });
        let at = |dialect: &Dialect, settings| {
            dialect
                .for_endpoint(kind)
                .protocol
                .path(settings, "my m", false)
                .into_owned()
        };
        assert_eq!(
            at(&Dialect::from(&openai::PROTOCOL), &crate::Settings::NONE),
            format!("/{path}")
        );
        let azure = Dialect::from(&crate::upstream::azure::PROTOCOL);
        assert_eq!(
            at(&azure, &crate::Settings::NONE),
            format!("/openai/v1/{path}")
        );
        let expected = format!("/openai/deployments/my%20m/{path}?api-version=2024-10-21");
        assert_eq!(at(&azure, &settings("2024-10-21")), expected);
    }
}

#[test]
fn use_is_read_in_each_servers_words() {
    for (usage, prompt, completion) in [
        (r#"{"prompt_tokens":3,"total_tokens":3}"#, 3, 0),
        (r#"{"total_tokens":4}"#, 4, 0),
        (
            r#"{"input_tokens":5,"output_tokens":6,"total_tokens":11}"#,
            5,
            6,
        ),
        (r#"{"completion_tokens":2,"total_tokens":9}"#, 7, 2),
    ] {
        let (_, used) = answer(
            front_of(Endpoint::Rerank),
            &format!(r#"{{"results":[],"usage":{usage}}}"#),
        )
        .unwrap();
        assert_eq!(
            (used.prompt, used.completion, used.source),
            (prompt, completion, Source::Reported),
            "{usage}"
        );
    }
    let cohere =
        r#"{"results":[],"meta":{"billed_units":{"search_units":1},"tokens":{"input_tokens":8}}}"#;
    assert_eq!(
        answer(front_of(Endpoint::Rerank), cohere).unwrap().1.prompt,
        8
    );
    for (searches, requests) in [("3", 3), ("1048577", 0), ("-1", 0), ("null", 0)] {
        let body =
            format!(r#"{{"results":[],"meta":{{"billed_units":{{"search_units":{searches}}}}}}}"#);
        assert_eq!(
            answer(front_of(Endpoint::Rerank), &body)
                .unwrap()
                .1
                .units
                .requests,
            requests,
            "{searches}"
        );
    }
    let (_, painted) = answer(
        front_of(Endpoint::Images),
        r#"{"data":[{"b64_json":"AA"},{"b64_json":"AA"}]}"#,
    )
    .unwrap();
    assert_eq!(painted.units.images, 2);
    let (_, used) = answer(front_of(Endpoint::Moderations), r#"{"results":[]}"#).unwrap();
    assert_eq!(
        (used.prompt, used.completion, used.source),
        (2, 0, Source::Estimated),
        "eight bytes"
    );
}

/// Feeds a stream. Returns its output, or the reason why it is not complete.
fn stream(shows_usage: bool, text: &str, size: usize) -> Result<(String, Usage), StreamFault> {
    stream_of(
        AnswerHeader {
            show_usage: shows_usage,
            ..header()
        },
        text,
        size,
    )
}

fn stream_of(
    header: AnswerHeader,
    text: &str,
    size: usize,
) -> Result<(String, Usage), StreamFault> {
    let dialect = Dialect::from(&openai::PROTOCOL).for_endpoint(Endpoint::Completions);
    let mut stream = dialect.stream(
        "up",
        recipient(front_of(Endpoint::Completions), &header),
        1 << 16,
    );
    let mut out = Vec::new();
    for piece in text.as_bytes().chunks(size) {
        stream.feed(piece, &mut out)?;
    }
    let usage = stream.finish(&mut out, None)?;
    Ok((String::from_utf8(out).unwrap(), usage))
}

#[test]
fn a_stream_passes_however_it_is_cut() {
    let pieces = [
        r#"{"model":"up","choices":[{"index":0,"text":"a","finish_reason":null}]}"#,
        r#"{"model":"up","choices":[{"index":1,"text":"b","finish_reason":null}]}"#,
        r#"{"model":"up","choices":[{"index":0,"text":"","finish_reason":"stop"}]}"#,
        r#"{"model":"up","choices":[{"index":1,"text":"","finish_reason":"length"}]}"#,
        r#"{"model":"up","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
    ];
    let lines = |pieces: &[&str]| -> String {
        pieces
            .iter()
            .map(|piece| format!("data: {piece}\n\n"))
            .collect()
    };
    let all = lines(&pieces) + "data: [DONE]\n\n";
    let told = all.replace("\"up\"", "\"mine\"");
    let without = lines(&pieces[..4]).replace("\"up\"", "\"mine\"") + "data: [DONE]\n\n";
    for size in [1, 7, 64, 4096] {
        let (out, usage) = stream(true, &all, size).unwrap();
        assert_eq!(
            (out.as_str(), usage.prompt, usage.completion),
            (told.as_str(), 1, 2)
        );
        assert_eq!(
            stream(false, &all, size).map(|out| out.0),
            Ok(without.clone())
        );
        // Some servers end without saying so.
        assert_eq!(
            stream(true, &lines(&pieces), size).map(|out| out.0),
            Ok(told.clone())
        );
        // The second choice has no end.
        assert_eq!(
            stream(true, &lines(&pieces[..3]), size),
            Err(StreamFault::Cut)
        );
        let cut = lines(&pieces[..3]) + "data: [DONE]\n\n";
        assert_eq!(
            stream(true, &cut, size),
            Err(StreamFault::Cut),
            "whoever says that it is"
        );
    }
    let failed = lines(&pieces[..1]) + "data: {\"error\":{\"message\":\"no\"}}\n\n";
    assert!(
        matches!(stream(true, &failed, 4096), Err(StreamFault::Upstream(error)) if error.message == "no")
    );
    let many = r#"data: {"choices":[{"index":99999999,"text":"a"}]}"#.to_owned() + "\n\n";
    assert!(matches!(
        stream(true, &many, 4096),
        Err(StreamFault::Broken(_))
    ));
}

#[test]
fn an_unended_stream_has_as_many_choices_as_asked() {
    let ended = |index: u32| {
        format!(
            "data: {{\"choices\":[{{\"index\":{index},\"text\":\"a\",\"finish_reason\":\"stop\"}}]}}\n\n"
        )
    };
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n"
            .to_owned();
    let done = "data: [DONE]\n\n".to_owned();
    let whole = |choices, pieces: &[String]| {
        let told = stream_of(
            AnswerHeader {
                choices,
                ..header()
            },
            &pieces.concat(),
            4096,
        );
        assert!(matches!(told, Ok(_) | Err(StreamFault::Cut)), "{told:?}");
        told.is_ok_and(|(out, _)| out.ends_with("data: [DONE]\n\n"))
    };
    for choices in [0, 1] {
        assert!(whole(choices, &[ended(0)]), "{choices}");
    }
    assert!(
        !whole(2, &[ended(0)]) && !whole(2, &[ended(0), usage.clone()]) && !whole(2, &[ended(1)])
    );
    assert!(whole(2, &[ended(1), ended(0)]) && whole(2, &[ended(0), ended(1), usage.clone()]));
    assert!(
        whole(2, &[ended(0), usage, done.clone()]),
        "a server that gives only one says that this is all"
    );
    assert!(!whole(2, &[ended(1), done]), "the first has no end");
    assert!(!whole(u64::MAX, &[ended(0)]));
}
