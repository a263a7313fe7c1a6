//! Forms with files, and answers that are no JSON: what passes, from the spool and back.

use serde_json::json;

use crate::support::canary::KEY;
use crate::support::client::{End, Response, request};
use crate::support::tls::Ca;
use crate::support::{Catalog, Gateway, Mock, Script, run, run_within};

const MIB: usize = 1 << 20;
const KIND: &str = "multipart/form-data; boundary=----form-0123456789";

fn part(name: &str, file: Option<&str>, content: &[u8]) -> Vec<u8> {
    let file = file
        .map(|name| format!("; filename=\"{name}\"\r\nContent-Type: audio/wav"))
        .unwrap_or_default();
    let head = format!(
        "------form-0123456789\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n"
    );
    [head.as_bytes(), content, b"\r\n"].concat()
}

fn form(parts: &[Vec<u8>]) -> Vec<u8> {
    [&parts.concat()[..], b"------form-0123456789--\r\n"].concat()
}

/// A form with a recording of so many bytes, in which nothing repeats soon.
fn recording(model: &str, length: usize) -> Vec<u8> {
    let sound: Vec<u8> = (0..length as u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    form(&[
        part("file", Some("a.wav"), &sound),
        part("model", None, model.as_bytes()),
        part("language", None, b"en"),
    ])
}

fn post_as(key: &str, path: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let bearer = format!("Bearer {key}");
    request(
        "POST",
        path,
        &[("authorization", bearer.as_str()), ("content-type", kind)],
        body,
    )
}

async fn send(gateway: &Gateway, path: &str, body: &[u8]) -> Response {
    gateway.raw(post_as(KEY, path, KIND, body)).await
}

async fn speak(gateway: &Gateway) -> Response {
    let body = json!({"model": "m", "input": "hello", "voice": "alloy"}).to_string();
    gateway
        .raw(post_as(
            KEY,
            "/v1/audio/speech",
            "application/json",
            body.as_bytes(),
        ))
        .await
}

fn text() -> Script {
    let usage =
        json!({"type": "tokens", "input_tokens": 14, "output_tokens": 5, "total_tokens": 19});
    Script::json(200, &json!({"text": "hello", "usage": usage}))
}

#[test]
fn a_form_passes_but_for_the_model() {
    run(async {
        let ca = Ca::new();
        let (mock, http2) = (Mock::start().await, Mock::h2(&ca.leaf()).await);
        let catalog = Catalog::new()
            .account("a", &mock)
            .account_with("b", &http2, "tls: { ca: ca.pem }")
            .model("m", &["a=whisper-large"])
            .model("n", &["b=up"]);
        let gateway = Gateway::with(catalog)
            .file("ca.pem", ca.pem())
            .start()
            .await;
        for (model, mock, upstream) in [("m", &mock, "whisper-large"), ("n", &http2, "up")] {
            mock.always(text());
            for (door, length) in [
                ("transcriptions", 0),
                ("translations", 3_000),
                ("transcriptions", 3 * MIB + 17),
            ] {
                let path = format!("/v1/audio/{door}");
                let sent = recording(model, length);
                let answer = send(&gateway, &path, &sent).await;
                assert_eq!(
                    (answer.status, answer.json()["text"].as_str()),
                    (200, Some("hello")),
                    "{}",
                    answer.text()
                );
                let came = mock.requests().pop().expect("a request");
                assert!(
                    came.body == recording(upstream, length),
                    "{length} bytes to {model}"
                );
                assert_eq!(came.target, path);
                assert_eq!(
                    came.fields
                        .iter()
                        .filter(|(name, _)| name == "content-type")
                        .count(),
                    1
                );
                assert_eq!(
                    came.field("content-type"),
                    Some("multipart/form-data; boundary=\"----form-0123456789\""),
                    "{:?}",
                    came.fields
                );
                let line = gateway.line_of(&answer).await;
                assert_eq!(
                    (&line["door"], &line["outcome"]),
                    (&json!(door), &json!("ok")),
                    "{line}"
                );
                assert_eq!(line["bytes_in"], sent.len(), "{line}");
                assert_eq!(
                    (&line["prompt_tokens"], &line["completion_tokens"]),
                    (&json!(14), &json!(5)),
                    "{line}"
                );
            }
        }
        // Pictures that are changed, in chunks.
        mock.always(Script::json(
            200,
            &json!({"created": 1, "data": [{"b64_json": "AAAA"}]}),
        ));
        let image = |model: &str| {
            form(&[
                part("model", None, model.as_bytes()),
                part("image[]", Some("a.png"), b"P"),
                part("n", None, b"2"),
            ])
        };
        let bearer = format!("Bearer {KEY}");
        let fields = [
            ("authorization", &*bearer),
            ("content-type", KIND),
            ("transfer-encoding", "chunked"),
        ];
        let chunks: Vec<u8> = image("m")
            .chunks(7)
            .flat_map(|c| [format!("{:x}\r\n", c.len()).as_bytes(), c, b"\r\n"].concat())
            .collect();
        let chunked = [chunks, b"0\r\n\r\n".to_vec()].concat();
        let answer = gateway
            .raw(request("POST", "/v1/images/edits", &fields, &chunked))
            .await;
        assert_eq!(
            (answer.status, &answer.json()["data"][0]["b64_json"]),
            (200, &json!("AAAA"))
        );
        assert!(mock.requests().pop().expect("a request").body == image("whisper-large"));
    });
}

#[test]
fn another_account_gets_all_of_the_form_again() {
    run(async {
        let [one, two, three] = [
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        ];
        one.always(Script::error(500, "down"));
        two.early(Script::new().reset());
        three.always(text());
        let catalog = Catalog::chain(&[&one, &two, &three]);
        let gateway = Gateway::start(catalog).await;
        let answer = send(
            &gateway,
            "/v1/audio/transcriptions",
            &recording("m", 2 * MIB),
        )
        .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(one.requests()[0].body == recording("m", 2 * MIB));
        assert!(three.requests()[0].body == recording("m", 2 * MIB));
        let line = gateway.line_of(&answer).await;
        assert_eq!(line["attempts"].as_array().map(Vec::len), Some(3), "{line}");
    });
}

/// Every way in which a form could name a model beside its own, with the place that callers are
/// told. `NAME` stands for the model.
const NAMED_IN_FORMS: [(&str, &str, &str); 16] = [
    ("fallbacks", "NAME", "fallbacks"),
    ("models[]", "NAME", "models[]"),
    ("models[0]", "NAME", "models[0]"),
    ("MODELS", "NAME", "MODELS"),
    ("fallback_model", "NAME", "fallback_model"),
    ("judge-model", "NAME", "judge-model"),
    ("x.model", "NAME", "x.model"),
    ("extra_body[model]", "NAME", "extra_body[model]"),
    (
        "extra_body[deep][modelName]",
        "NAME",
        "extra_body[deep][modelName]",
    ),
    ("fallbacks[0][target]", "NAME", "fallbacks[0][target]"),
    ("adapter_id", "NAME", "adapter_id"),
    ("extra_body", r#"{"model":"NAME"}"#, "extra_body.model"),
    (
        "extra_body",
        r#" { "fallback\u005fmodels": ["NAME"] }"#,
        "extra_body.fallback_models[0]",
    ),
    ("fallbacks", r#"["NAME"]"#, "fallbacks[0]"),
    ("fallbacks", r#"[{"m":["NAME"]}]"#, "fallbacks[0].m[0]"),
    (
        "new_field",
        r#"{"inner":{"model":"NAME"}}"#,
        "new_field.inner.model",
    ),
];

#[test]
fn a_form_names_no_model_that_its_key_lacks() {
    run(async {
        let [mock, elsewhere] = [Mock::start().await, Mock::start().await];
        mock.always(text());
        const NARROW: &str = "sk-CaNaRy-caller-narrow-0123456789abcdefghijklmno";
        let catalog = Catalog::new()
            .account("a", &mock)
            .account("b", &elsewhere)
            .model("m", &["a=up"])
            .model("ours", &["a=theirs"])
            .model("far", &["b=far"])
            .model("dear", &["a=dearest"])
            .caller("narrow", NARROW, "models: [m, ours, far]");
        let gateway = Gateway::start(catalog).await;
        let file = part("file", Some("a.wav"), b"sound");
        let path = "/v1/audio/transcriptions";
        for (field, value, param) in NAMED_IN_FORMS {
            let form_of = |model: &str, name: &str| {
                let more = part(field, None, value.replace("NAME", name).as_bytes());
                let named = part("model", None, model.as_bytes());
                // What names the other model may come before the model, or after it.
                [
                    form(&[file.clone(), more.clone(), named.clone()]),
                    form(&[named, more, file.clone()]),
                ]
            };
            for name in ["dear", "far", "nobody", "dearest"] {
                for sent in form_of("m", name) {
                    let asked = mock.count();
                    let answer = gateway.raw(post_as(NARROW, path, KIND, &sent)).await;
                    let error = &answer.json()["error"];
                    assert_eq!(
                        (answer.status, &error["param"]),
                        (400, &json!(param)),
                        "{field}={value} {name}: {error}"
                    );
                    assert_eq!(
                        (mock.count(), elsewhere.count()),
                        (asked, 0),
                        "{field}={value}: nobody is asked"
                    );
                }
            }
            for (name, becomes) in [("m", "up"), ("ours", "theirs")] {
                for (sent, expected) in form_of("m", name).into_iter().zip(form_of("up", becomes)) {
                    let answer = gateway.raw(post_as(NARROW, path, KIND, &sent)).await;
                    assert_eq!(
                        answer.status,
                        200,
                        "{field}={value} {name}: {}",
                        answer.text()
                    );
                    let came = mock.requests().pop().expect("a request").body;
                    let [came, expected] =
                        [came, expected].map(|form| String::from_utf8(form).expect("text"));
                    assert_eq!(came, expected);
                }
            }
        }
    });
}

#[test]
fn a_form_may_hold_texts_and_harmless_settings() {
    run(async {
        let mock = Mock::start().await;
        mock.always(text());
        let catalog = Catalog::new().account("a", &mock).model("m", &["a=up"]);
        let gateway = Gateway::start(catalog).await;
        for (field, value) in [
            ("prompt", "{\"model\":\"dear\"} and {"),
            ("initial_prompt", "[music] {model}"),
            ("metadata", "{\"model\":\"dear\"}"),
            ("metadata[model]", "dear"),
            (
                "chunking_strategy",
                "{\"type\":\"server_vad\",\"threshold\":0.5}",
            ),
            ("timestamp_granularities[]", "word"),
            ("known_speaker_names[]", "[unknown]"),
            ("hotwords", "[a] list that is none"),
            ("temperature", "0.2"),
            ("extra_body", "{}"),
            ("extra_body", "{\"n\":1,\"models\":[]}"),
            ("models", "[]"),
        ] {
            let named = |model: &str| {
                form(&[
                    part(field, None, value.as_bytes()),
                    part("model", None, model.as_bytes()),
                ])
            };
            let answer = send(&gateway, "/v1/audio/transcriptions", &named("m")).await;
            assert_eq!(answer.status, 200, "{field}={value}: {}", answer.text());
            assert!(
                mock.requests().pop().expect("a request").body == named("up"),
                "{field}={value}"
            );
        }
        let deep = |levels: usize| {
            [
                &b"{\"a\":".repeat(levels)[..],
                b"1",
                &b"}".repeat(levels)[..],
            ]
            .concat()
        };
        let long = |bytes: usize| [b"{\"a\":\"", &vec![b'x'; bytes - 8][..], b"\"}"].concat();
        for (field, value, passes) in [
            ("extra_body", deep(16), true),
            ("extra_body", deep(17), false),
            ("extra_body", long(64 * 1024), true),
            ("extra_body", long(64 * 1024 + 1), false),
            ("extra_body", b"model: dear".to_vec(), false),
            ("extra_body", b"{'model': 'dear'}".to_vec(), false),
            (
                "new_field",
                b"{\"model\": \"dear\", \"x\": NaN}".to_vec(),
                false,
            ),
            ("fallbacks", b"m\0".to_vec(), false),
            ("fallbacks", vec![0xff], false),
        ] {
            let asked = mock.count();
            let sent = form(&[part("model", None, b"m"), part(field, None, &value)]);
            let answer = send(&gateway, "/v1/audio/transcriptions", &sent).await;
            assert_eq!(
                answer.status,
                if passes { 200 } else { 400 },
                "{field}: {}",
                answer.text()
            );
            assert_eq!(mock.count() - asked, usize::from(passes), "{field}");
            if !passes {
                assert_eq!(answer.json()["error"]["param"], *field, "{}", answer.text());
            }
        }
    });
}

#[test]
fn an_answer_that_is_no_json_passes_unchanged() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(Catalog::over(&mock)).await;
        let sound: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
        let chunked = |kind: &str| {
            Script::new().head(
                200,
                &[("content-type", kind), ("transfer-encoding", "chunked")],
            )
        };
        mock.push(
            chunked("audio/mpeg")
                .slices(&sound, 50_000, std::time::Duration::from_millis(5))
                .end(),
        );
        let answer = speak(&gateway).await;
        assert_eq!(
            (answer.status, answer.field("content-type"), answer.end),
            (200, Some("audio/mpeg"), Some(End::Whole))
        );
        assert!(answer.body == sound);
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            (&line["door"], &line["outcome"], &line["bytes_out"]),
            (&json!("speech"), &json!("ok"), &json!(300_000))
        );
        assert_eq!(
            (&line["prompt_tokens"], &line["completion_tokens"]),
            (&json!(0), &json!(0)),
            "{line}"
        );
        assert_eq!(line["characters"], 5, "{line}");

        let subtitles = "WEBVTT\n\n00:00.000 --> 00:01.000\nhello\n";
        mock.push(Script::text(200, "text/vtt; charset=utf-8", subtitles));
        let answer = send(&gateway, "/v1/audio/transcriptions", &recording("m", 10)).await;
        assert_eq!(
            (answer.field("content-type"), &*answer.text()),
            (Some("text/vtt; charset=utf-8"), subtitles)
        );
        // Its length is not said, and estimated: sixteen bytes a millisecond.
        assert_eq!(
            gateway.line_of(&answer).await["audio_ms"],
            recording("m", 10).len() / 16
        );
        // A recording in which nobody speaks.
        mock.push(Script::text(200, "text/plain", ""));
        let answer = send(&gateway, "/v1/audio/transcriptions", &recording("m", 10)).await;
        assert_eq!(
            (answer.status, answer.field("content-type"), &*answer.text()),
            (200, Some("text/plain"), "")
        );

        let delta = json!({"type": "transcript.text.delta", "delta": "hello"});
        let usage =
            json!({"type": "tokens", "input_tokens": 7, "output_tokens": 2, "total_tokens": 9});
        let done = json!({"type": "transcript.text.done", "text": "hello", "usage": usage});
        mock.push(Script::sse().named(&delta).named(&done).end());
        let answer = send(&gateway, "/v1/audio/transcriptions", &recording("m", 10)).await;
        assert_eq!(answer.field("content-type"), Some("text/event-stream"));
        let expected = [&delta, &done].map(|event| {
            format!(
                "event: {}\ndata: {event}\n\n",
                event["type"].as_str().unwrap()
            )
        });
        assert_eq!(answer.text(), expected.concat());
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            (&line["prompt_tokens"], &line["completion_tokens"]),
            (&json!(7), &json!(2)),
            "{line}"
        );
        gateway.access_lines(4).await;
    });
}

#[test]
fn an_answer_is_whole_or_seen_to_be_cut() {
    run(async {
        let [mock, other] = [Mock::start().await, Mock::start().await];
        let gateway = Gateway::start(Catalog::chain(&[&mock, &other])).await;
        let chunked = |kind: &str| {
            Script::new().head(
                200,
                &[("content-type", kind), ("transfer-encoding", "chunked")],
            )
        };
        // Before the first byte, another account may answer.
        let whole = || chunked("audio/wav").body("RIFF").end();
        for nothing in [
            chunked("audio/wav").close(),
            chunked("audio/wav").end(),
            Script::text(200, "text/html", "<html>"),
            Script::sse()
                .event(json!({"error": {"message": "overloaded"}}))
                .end(),
            Script::json(
                200,
                &json!({"error": {"message": "overloaded", "code": "server_error"}}),
            ),
        ] {
            mock.always(nothing);
            other.always(whole());
            let answer = speak(&gateway).await;
            assert_eq!(
                (answer.status, &*answer.text(), answer.end),
                (200, "RIFF", Some(End::Whole))
            );
            gateway.reset("a");
        }
        // The head of a stream of pictures may be sent already: nothing but events may follow.
        mock.always(Script::text(200, "image/png", "PNG"));
        other.always(
            Script::sse()
                .event(json!({"type": "image_generation.completed", "b64_json": "AAAA"}))
                .end(),
        );
        let body = json!({"model": "m", "prompt": "a cat", "stream": true}).to_string();
        let answer = gateway
            .raw(post_as(
                KEY,
                "/v1/images/generations",
                "application/json",
                body.as_bytes(),
            ))
            .await;
        assert_eq!(
            (answer.status, answer.field("content-type")),
            (200, Some("text/event-stream"))
        );
        gateway.reset("a");
        // After it, there is none.
        let later = std::time::Duration::from_secs(3);
        mock.always(chunked("audio/wav").body("RIFF").delay(later).close());
        let before = other.count();
        let answer = speak(&gateway).await;
        assert_eq!((answer.status, &*answer.text()), (200, "RIFF"));
        assert!(
            matches!(answer.end, Some(End::Cut | End::Reset)),
            "{:?}",
            answer.end
        );
        assert_eq!(gateway.line_of(&answer).await["outcome"], "upstream_cut");
        mock.always(
            Script::sse()
                .event(json!({"type": "speech.audio.delta", "audio": "AAAA"}))
                .delay(later)
                .body("data: {\"ha")
                .close(),
        );
        let events = speak(&gateway).await.events();
        assert_eq!(events.len(), 2, "{events:?}");
        assert!(
            events[1].starts_with("{\"error\":") && events[1].contains("upstream_truncated"),
            "{events:?}"
        );
        // A proxy may end a stream that was cut as if it were whole.
        let delta = json!({"type": "speech.audio.delta", "audio": "AAAA"});
        for cut in ["", "data: {\"type\":\"speech.audio.del"] {
            mock.always(
                Script::sse()
                    .event(delta.clone())
                    .delay(later)
                    .body(cut)
                    .end(),
            );
            let answer = speak(&gateway).await;
            let events = answer.events();
            assert!(
                events.len() == 2 && events[1].contains("upstream_truncated"),
                "{events:?}"
            );
            assert_eq!(gateway.line_of(&answer).await["outcome"], "upstream_cut");
        }
        assert_eq!(other.count(), before);
    });
}

#[test]
fn what_cannot_pass_is_refused_before_anybody_is_asked() {
    run(async {
        const POOR: &str = "sk-CaNaRy-caller-poor-0123456789abcdefghijklmnopq";
        let mock = Mock::start().await;
        let catalog =
            Catalog::over(&mock).caller("poor", POOR, "limits: { requests_per_minute: 1 }");
        let gateway = Gateway::with(catalog)
            .server("limits: { upload: 2MiB, spool_total: 3MiB }")
            .start()
            .await;
        let path = "/v1/audio/transcriptions";
        let (named, file) = (
            part("model", None, b"m"),
            part("file", Some("a.wav"), b"sound"),
        );
        for (body, param) in [
            (
                form(&[named.clone(), file.clone(), part("model", None, b"other")]),
                json!("model"),
            ),
            (form(std::slice::from_ref(&file)), json!("model")),
            (
                form(&[named.clone(), part("file_url", None, b"http://10.0.0.1/")]),
                json!("file_url"),
            ),
            (
                form(&[
                    named.clone(),
                    part("file", Some("x\\\"; name=\\\"model"), b"y"),
                ]),
                json!(null),
            ),
            (named.clone(), json!(null)),
            (
                [b"x", &form(std::slice::from_ref(&named))[..]].concat(),
                json!(null),
            ),
            (b"{}".to_vec(), json!(null)),
        ] {
            let answer = send(&gateway, path, &body).await;
            assert_eq!(
                (answer.status, &answer.json()["error"]["param"]),
                (400, &param),
                "{}",
                answer.text()
            );
        }
        send(
            &gateway,
            path,
            &form(&[part("model", None, b"nobody"), file.clone()]),
        )
        .await
        .is_error(404, "model_not_found");
        let json = gateway
            .raw(post_as(KEY, path, "application/json", b"{\"model\":\"m\"}"))
            .await;
        json.is_error(415, "unsupported_media_type");
        let odd = gateway
            .raw(post_as(
                KEY,
                path,
                "multipart/form-data",
                &form(std::slice::from_ref(&named)),
            ))
            .await;
        assert_eq!(odd.status, 400, "{}", odd.text());
        send(&gateway, path, &recording("m", 2 * MIB))
            .await
            .is_error(413, "request_too_large");

        // What is paid for is not guessed.
        let asked = mock.count();
        let spoken = json!({"model": "m", "input": ["hello"], "voice": "alloy"}).to_string();
        let odd = gateway
            .raw(post_as(
                KEY,
                "/v1/audio/speech",
                "application/json",
                spoken.as_bytes(),
            ))
            .await;
        assert_eq!(
            (odd.status, &odd.json()["error"]["param"]),
            (400, &json!("input")),
            "{}",
            odd.text()
        );
        let odd = send(
            &gateway,
            "/v1/images/edits",
            &form(&[named.clone(), part("n", None, b"4.0")]),
        )
        .await;
        assert_eq!(
            (odd.status, &odd.json()["error"]["param"]),
            (400, &json!("n")),
            "{}",
            odd.text()
        );
        assert_eq!(mock.count(), asked);

        // What is announced takes its room at once, and nobody waits for the rest of it.
        let bearer = format!("Bearer {KEY}");
        let long = (2 * MIB).to_string();
        let fields = [
            ("authorization", &*bearer),
            ("content-type", KIND),
            ("content-length", &*long),
        ];
        let mut idle = gateway.connect().await;
        idle.send(request("POST", path, &fields, b"------form"))
            .await;
        let refused = loop {
            let answer = send(&gateway, path, &recording("m", 3 * MIB / 2)).await;
            if answer.status != 200 {
                break answer;
            }
        };
        refused.is_error(503, "no_capacity");
        idle.reset();

        // Limits count before the form comes.
        mock.always(text());
        let asked = mock.count();
        let poor = |body: &[u8]| gateway.raw(post_as(POOR, path, KIND, body));
        assert_eq!(poor(&recording("m", 10)).await.status, 200);
        let bearer = format!("Bearer {POOR}");
        let fields = [
            ("authorization", &*bearer),
            ("content-type", KIND),
            ("content-length", "1000000"),
        ];
        let mut waiting = gateway.connect().await;
        waiting.send(request("POST", path, &fields, b"")).await;
        assert_eq!(
            waiting
                .head()
                .await
                .expect("an answer without the form")
                .status,
            429
        );
        assert_eq!(mock.count(), asked + 1);
        drop(waiting);
    });
}

#[test]
fn without_a_folder_forms_stay_in_memory() {
    run(async {
        let mock = Mock::start().await;
        mock.always(text());
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("ledger: { enabled: false }")
            .env("TMPDIR", "/nowhere/at/all")
            .start()
            .await;
        gateway
            .logged("no file can be made in /nowhere/at/all")
            .await;
        let answer = send(
            &gateway,
            "/v1/audio/transcriptions",
            &recording("m", 2 * MIB),
        )
        .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(mock.requests()[0].body == recording("m", 2 * MIB));
        let bearer = format!("Bearer {KEY}");
        let long = (65 * MIB).to_string();
        let fields = [
            ("authorization", &*bearer),
            ("content-type", KIND),
            ("content-length", &*long),
        ];
        let mut connection = gateway.connect().await;
        connection
            .send(request("POST", "/v1/audio/transcriptions", &fields, b""))
            .await;
        assert_eq!(connection.head().await.expect("an answer").status, 413);
        drop(connection);
    });
}

#[test]
fn the_demo_answers_at_these_doors() {
    run(async {
        let demo = "accounts: { demo: { dialect: demo } }\nmodels: { m: { targets: [ { account: demo } ] } }\n";
        let catalog = Catalog::new()
            .to_string()
            .replace("accounts: {}\nmodels: {}\n", demo);
        let gateway = Gateway::start(catalog).await;
        let (sent, up) = (recording("m", 100_000), recording("m", 100_000).len());
        for door in ["transcriptions", "translations"] {
            let answer = send(&gateway, &format!("/v1/audio/{door}"), &sent).await;
            assert!(
                answer.json()["text"]
                    .as_str()
                    .is_some_and(|text| text.contains(&up.to_string())),
                "{}",
                answer.text()
            );
        }
        // Azure's path names the model, and the form need not: what goes on has it.
        let unnamed = form(&[part("file", Some("a.wav"), b"sound")]);
        let answer = send(
            &gateway,
            "/openai/deployments/m/audio/transcriptions?api-version=2024-10-21",
            &unnamed,
        )
        .await;
        let more =
            "------form-0123456789\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm\r\n"
                .len();
        let text = answer.json()["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(text.contains(&(unnamed.len() + more).to_string()), "{text}");
        let other = form(&[part("model", None, b"other")]);
        let answer = send(&gateway, "/openai/deployments/m/images/edits", &other).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]["param"]),
            (400, &json!("model"))
        );
        let sound = speak(&gateway).await;
        assert!(
            sound.field("content-type") == Some("audio/wav") && sound.body.starts_with(b"RIFF")
        );
    });
}

#[test]
fn a_hundred_megabytes_of_sound_take_no_memory() {
    run_within(std::time::Duration::from_secs(180), async {
        let mock = Mock::start().await;
        mock.push(Script::error(500, "down"));
        mock.always(text());
        // The log of the lowest level is none of what is measured.
        let setup = Gateway::with(Catalog::chain(&[&mock, &mock]));
        let gateway = setup.server("log: { level: info }").start().await;
        let sent = recording("m", 100_000_000);
        let answer = send(&gateway, "/v1/audio/transcriptions", &sent).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(
            mock.requests()
                .iter()
                .filter(|request| request.body == sent)
                .count(),
            2,
            "it was sent twice"
        );
        let peak = gateway.process.peak();
        println!("{peak} KiB at most");
        assert!(peak < 64 * 1024, "{peak} KiB at most");
    });
}
