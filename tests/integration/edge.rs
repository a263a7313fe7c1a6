//! The parts around every exchange: browsers, request ids, the limits of a head, `expect`,
//! HTTP/1.0, the access line of early refusals, probes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{Connection, End, Response, post, request};
use crate::support::{Catalog, Gateway, Mock, Script, chat, chat_stream, run};

/// Header fields of a request.
type Fields<'t> = &'t [(&'t str, &'t str)];
/// A request; the status, the outcome, the door and the caller that its line must tell.
type Case = (
    Vec<u8>,
    u16,
    &'static str,
    &'static str,
    Option<&'static str>,
);

const APP: &str = "https://app.example.com";

fn ask(fields: &[(&str, &str)], body: &Value) -> Vec<u8> {
    let bearer = format!("Bearer {KEY}");
    let ours = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    request(
        "POST",
        "/v1/chat/completions",
        &[&ours, fields].concat(),
        body.to_string().as_bytes(),
    )
}

fn list(fields: &[(&str, &str)]) -> Vec<u8> {
    let bearer = format!("Bearer {KEY}");
    request(
        "GET",
        "/v1/models",
        &[&[("authorization", bearer.as_str())], fields].concat(),
        b"",
    )
}

// Browsers.

#[test]
fn without_cors_there_is_no_word_of_it() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let preflight = [("origin", APP), ("access-control-request-method", "POST")];
        for path in ["/v1/chat/completions", "/v1/models"] {
            let answer = gateway.raw(request("OPTIONS", path, &preflight, b"")).await;
            answer.is_error(405, "method_not_supported");
            assert!(!answer.field("allow").unwrap().contains("OPTIONS"));
        }
        for answer in [
            gateway.raw(list(&[("origin", APP)])).await,
            gateway
                .raw(ask(&[("origin", APP)], &chat_stream("m")))
                .await,
        ] {
            let cors: Vec<_> = answer
                .fields
                .iter()
                .filter(|(name, _)| name.to_ascii_lowercase().starts_with("access-control"))
                .collect();
            assert!(answer.status == 200 && cors.is_empty(), "{cors:?}");
            let is_stream = answer.field("content-type") == Some("text/event-stream");
            assert!(
                !is_stream || answer.content() == "w0 w1 w2 ",
                "{}",
                answer.text()
            );
        }
    });
}

#[test]
fn with_cors_pages_of_these_origins_may_call() {
    run(async {
        let mock = Mock::start().await;
        let server = format!("cors: {{ origins: [\"{APP}\"] }}");
        let gateway = Gateway::with(Catalog::over(&mock))
            .listen("h2c: true")
            .server(&server)
            .start()
            .await;
        // The SDK for browsers sends headers of its own.
        let wanted = "authorization,content-type,x-stainless-os,x-stainless-retry-count";
        for (path, method) in [
            ("/v1/chat/completions", "POST"),
            ("/v1/models", "GET"),
            ("/v1/models/m", "GET"),
        ] {
            let fields = [
                ("origin", APP),
                ("access-control-request-method", method),
                ("access-control-request-headers", wanted),
            ];
            let mut connection = gateway.connect().await;
            connection
                .send(request("OPTIONS", path, &fields, b""))
                .await;
            let answer = connection.response().await;
            is_preflight(&answer, Some(APP), method, wanted);
            // A 204 has no body, so that the connection goes on.
            connection.send(list(&[("origin", APP)])).await;
            assert_eq!(
                connection
                    .response()
                    .await
                    .field("access-control-allow-origin"),
                Some(APP)
            );
            let over_h2 = gateway
                .h2c(0)
                .await
                .exchange("OPTIONS", path, &fields, b"")
                .await;
            is_preflight(&over_h2, Some(APP), method, wanted);
            assert_eq!(over_h2.end, Some(End::Whole));
        }
        let stranger = [
            ("origin", "https://evil.test"),
            ("access-control-request-method", "POST"),
        ];
        let answer = gateway
            .raw(request("OPTIONS", "/v1/chat/completions", &stranger, b""))
            .await;
        assert_eq!(
            (
                answer.field("access-control-allow-origin"),
                answer.field("vary")
            ),
            (None, Some("origin"))
        );
        gateway
            .raw(request("OPTIONS", "/nothing", &stranger, b""))
            .await
            .is_error(404, "unknown_url");
        // In every answer, refusals too: a page that cannot read them sees no reason.
        let origin = ("origin", APP);
        let answers = [
            gateway.raw(ask(&[origin], &chat("m"))).await,
            gateway.raw(ask(&[origin], &chat_stream("m"))).await,
            gateway.raw(ask(&[origin], &chat("x"))).await,
            gateway
                .raw(request("GET", "/v1/models", &[origin], b""))
                .await,
            gateway
                .raw(request("GET", "/nothing", &[origin], b""))
                .await,
            gateway
                .raw(request("DELETE", "/v1/models", &[origin], b""))
                .await,
        ];
        assert_eq!(
            answers.each_ref().map(|answer| answer.status),
            [200, 200, 404, 401, 404, 405]
        );
        assert_eq!(
            [answers[0].content(), answers[1].content()],
            ["Hello from the mock.", "w0 w1 w2 "]
        );
        for answer in answers {
            assert_eq!(
                (
                    answer.field("access-control-allow-origin"),
                    answer.field("vary")
                ),
                (Some(APP), Some("origin")),
                "{}",
                answer.status
            );
            assert!(
                answer
                    .field("access-control-expose-headers")
                    .is_some_and(|names| names.contains("x-request-id"))
            );
            assert_eq!(answer.field("access-control-allow-credentials"), None);
        }
        for origin in [
            "https://evil.test",
            "https://app.example.com.evil.test",
            "http://app.example.com",
            "null",
            "https://APP.example.com:443",
            "",
        ] {
            let answer = gateway.raw(list(&[("origin", origin)])).await;
            assert_eq!(
                (answer.status, answer.field("access-control-allow-origin")),
                (200, None),
                "{origin}"
            );
        }
        assert!(
            gateway
                .lines()
                .iter()
                .filter(|line| line["method"] == "OPTIONS" && line["status"] == 204)
                .all(|line| line["outcome"] == "ok")
        );
    });
}

#[track_caller]
fn is_preflight(answer: &Response, origin: Option<&str>, method: &str, headers: &str) {
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    assert_eq!(
        (
            answer.field("access-control-allow-origin"),
            answer.field("vary")
        ),
        (origin, Some("origin"))
    );
    let listed = |name: &str| {
        answer
            .field(name)
            .unwrap_or_default()
            .split(',')
            .map(|v| v.trim().to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert!(listed("access-control-allow-methods").contains(method));
    let allowed = listed("access-control-allow-headers");
    assert!(
        headers.split(',').all(|name| allowed.contains(name)),
        "{allowed:?}"
    );
    assert!(
        answer.field("access-control-max-age").is_some() && answer.field("x-request-id").is_some()
    );
}

#[test]
fn with_cors_for_all_every_page_may_call() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("cors: { origins: [\"*\"] }")
            .start()
            .await;
        let fields = [
            ("origin", "https://any.test"),
            ("access-control-request-method", "POST"),
        ];
        let answer = gateway
            .raw(request("OPTIONS", "/v1/chat/completions", &fields, b""))
            .await;
        assert_eq!(answer.status, 204);
        assert!(matches!(
            answer.field("access-control-allow-origin"),
            Some("*" | "https://any.test")
        ));
        let answer = gateway.raw(list(&[("origin", "https://any.test")])).await;
        assert!(matches!(
            answer.field("access-control-allow-origin"),
            Some("*" | "https://any.test")
        ));
    });
}

// Request ids.

#[test]
fn a_request_id_is_kept_if_valid_else_made() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let longest = "i".repeat(128);
        for id in [
            "a",
            "req_01-ABC.x",
            "01a1fc39-f07e-7000-8000-000000000000",
            "x:y/z+w=@",
            &longest,
        ] {
            let answer = gateway.raw(ask(&[("x-request-id", id)], &chat("m"))).await;
            assert_eq!(answer.field("x-request-id"), Some(id));
            assert_eq!(gateway.line_of(&answer).await["request_id"], id);
        }
        let kept = mock.count();
        let made: BTreeSet<String> = {
            let mut made = BTreeSet::new();
            let long = "i".repeat(129);
            for id in [
                None,
                None,
                Some(""),
                Some("a b"),
                Some("a\"b"),
                Some("a\tb"),
                Some("{}"),
                Some("é"),
                Some("a,b"),
                Some("<script>"),
                Some(&long),
            ] {
                let fields: Vec<_> = id.map(|id| ("x-request-id", id)).into_iter().collect();
                let answer = gateway.raw(ask(&fields, &chat("m"))).await;
                made.insert(answer.field("x-request-id").expect("an id").to_owned());
            }
            made
        };
        assert_eq!(made.len(), 11);
        for id in &made {
            let parts: Vec<_> = id.split('-').collect();
            assert_eq!(
                (id.len(), parts.len(), parts[2].starts_with('7')),
                (36, 5, true),
                "a UUIDv7: {id}"
            );
        }
        // The upstream gets the same, always.
        let sent: BTreeSet<String> = mock.requests()[kept..]
            .iter()
            .map(|sent| sent.field("x-request-id").expect("an id").to_owned())
            .collect();
        assert_eq!(sent, made);
        // So do refusals.
        for bytes in [
            request("GET", "/nothing", &[("x-request-id", "mine")], b""),
            request("GET", "/v1/models", &[("x-request-id", "mine")], b""),
        ] {
            assert_eq!(gateway.raw(bytes).await.field("x-request-id"), Some("mine"));
        }
    });
}

// The head.

#[test]
fn a_head_over_the_limit_is_431() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .listen("h2c: true")
            .server("limits: { header_bytes: 2KiB }")
            .start()
            .await;
        let many: Vec<(String, String)> = (0..100)
            .map(|n| (format!("x-{n}"), "some twenty bytes...".to_owned()))
            .collect();
        let many: Vec<_> = many
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let long = "v".repeat(2048);
        for (fields, status) in [
            (&[("x-long", &long[..1500])][..], 200),
            (&[("x-long", &long)], 431),
            (&many, 431),
        ] {
            let answer = gateway.raw(ask(fields, &chat("m"))).await;
            assert_eq!(answer.status, status, "{}", answer.text());
            let bearer = format!("Bearer {KEY}");
            let fields = [&[("authorization", bearer.as_str())], fields].concat();
            let over_h2 = gateway
                .h2c(0)
                .await
                .exchange("GET", "/v1/models", &fields, b"")
                .await;
            assert_eq!(over_h2.status, status);
            if status == 431 {
                answer.is_error(431, "headers_too_large");
                let line = gateway.line_of(&answer).await;
                assert_eq!(
                    (&line["outcome"], &line["caller"]),
                    (&json!("refused"), &Value::Null)
                );
            }
        }
        let target = format!("/v1/models?{}", "q".repeat(4096));
        let answer = gateway.get(&target).await;
        answer.is_error(414, "target_too_long");
        assert_eq!(mock.count(), 1);
    });
}

#[test]
fn a_head_beyond_what_pingora_reads_is_refused() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let (many, long) = (vec![("x", "y"); 300], "y".repeat(1_200_000));
        for fields in [&many[..], &[("x", long.as_str())]] {
            let mut connection = gateway.connect().await;
            connection.send(list(fields)).await;
            let answer = connection.try_response("GET").await.expect("an answer");
            answer.is_error(431, "headers_too_large");
            connection.closed().await;
        }
    });
}

// Expect.

#[test]
fn continue_is_sent_once_the_key_is_good() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let body = chat("m").to_string();
        let length = body.len().to_string();
        for (expect, stream) in [("100-continue", false), ("100-Continue", true)] {
            let body = if stream {
                chat_stream("m").to_string()
            } else {
                body.clone()
            };
            let length = body.len().to_string();
            let mut connection = gateway.connect().await;
            connection
                .send(head(
                    KEY,
                    &[("expect", expect), ("content-length", &length)],
                ))
                .await;
            let interim = connection.wire.head().await.expect("an interim answer");
            assert!(
                interim.start.starts_with("HTTP/1.1 100"),
                "{}",
                interim.start
            );
            connection.send(&body).await;
            let answer = connection.response().await;
            assert_eq!((answer.status, answer.informational.len()), (200, 0));
            assert_eq!(
                answer.content(),
                if stream {
                    "w0 w1 w2 "
                } else {
                    "Hello from the mock."
                }
            );
        }
        // What is refused anyway is refused before the body is asked for.
        let refused: &[(&str, Fields<'_>, u16)] = &[
            ("wrong", &[("content-length", &length)], 401),
            (KEY, &[("content-length", "1000000000")], 413),
            (
                KEY,
                &[("content-length", &length), ("content-encoding", "br")],
                415,
            ),
        ];
        for (key, fields, status) in refused {
            let mut connection = gateway.connect().await;
            connection
                .send(head(
                    key,
                    &[&[("expect", "100-continue")], *fields].concat(),
                ))
                .await;
            let answer = connection.response().await;
            assert_eq!((answer.status, &answer.informational), (*status, &vec![]));
        }
        // Whoever does not wait for it is served all the same.
        let answer = gateway
            .raw(ask(&[("expect", "100-continue")], &chat("m")))
            .await;
        assert_eq!(answer.status, 200);
        // HTTP/1.0 knows no interim answers (RFC 9110, 10.1.1).
        let old = String::from_utf8(ask(&[("expect", "100-continue")], &chat("m")))
            .unwrap()
            .replacen("HTTP/1.1", "HTTP/1.0", 1);
        let answer = gateway.raw(old).await;
        assert_eq!((answer.status, &answer.informational), (200, &vec![]));
    });
}

/// The head of a chat completion, without its body.
fn head(key: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let bearer = format!("Bearer {key}");
    let ours = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    request(
        "POST",
        "/v1/chat/completions",
        &[&ours, fields].concat(),
        b"",
    )
}

// HTTP/1.0.

#[test]
fn http_1_0_is_served_without_chunks() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let old = |bytes: Vec<u8>| {
            String::from_utf8(bytes)
                .unwrap()
                .replacen("HTTP/1.1", "HTTP/1.0", 1)
        };
        let plain = gateway.raw(old(post(&chat("m")))).await;
        assert_eq!(
            (plain.status, plain.end, plain.content().as_str()),
            (200, Some(End::Whole), "Hello from the mock.")
        );
        let stream = gateway.raw(old(post(&chat_stream("m")))).await;
        assert_eq!(
            (stream.status, stream.end, stream.field("transfer-encoding")),
            (200, Some(End::Eof), None)
        );
        assert_eq!(
            (
                stream.content().as_str(),
                stream.events().last().unwrap().as_str()
            ),
            ("w0 w1 w2 ", "[DONE]")
        );
        gateway
            .raw(old(list(&[("authorization", "Bearer wrong")])))
            .await
            .is_error(401, "invalid_api_key");
        for (fields, stays) in [(&[][..], false), (&[("connection", "keep-alive")], true)] {
            let mut connection = gateway.connect().await;
            connection.send(old(list(fields))).await;
            let answer = connection.response().await;
            assert_eq!((answer.status, answer.end), (200, Some(End::Whole)));
            if stays
                && answer
                    .field("connection")
                    .is_some_and(|value| value.eq_ignore_ascii_case("keep-alive"))
            {
                connection.send(old(list(fields))).await;
                assert_eq!(connection.response().await.status, 200);
            } else {
                assert!(connection.closed().await);
            }
        }
        // A stream that is cut must not look whole: without chunks, its last event is the only
        // sign.
        mock.push(Script::sse().words(0..1).close());
        let cut = gateway.raw(old(post(&chat_stream("m")))).await;
        assert!(
            !cut.events().iter().any(|event| event == "[DONE]"),
            "{}",
            cut.text()
        );
        assert!(
            cut.events().last().unwrap().contains("\"error\""),
            "{}",
            cut.text()
        );
    });
}

// The access line.

#[test]
fn every_early_refusal_has_its_access_line() {
    run(async {
        let mock = Mock::start().await;
        let server =
            "limits: { request_body: 1KiB, header_bytes: 4KiB }\ntimeouts: { client_read: 3s }";
        let gateway = Gateway::with(Catalog::over(&mock))
            .server(server)
            .start()
            .await;
        let bearer = format!("Bearer {KEY}");
        let (key, json_type) = (
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        );
        let (good, unknown) = (chat("m").to_string(), chat("x").to_string());
        let (large, long) = (format!("{good}{}", " ".repeat(2000)), "v".repeat(5000));
        let known = Some("acme");
        let chat_path = "/v1/chat/completions";
        let cases: &[Case] = &[
            (
                request("GET", "/nothing", &[key], b""),
                404,
                "refused",
                "none",
                None,
            ),
            (
                request("DELETE", "/v1/models", &[key], b""),
                405,
                "refused",
                "none",
                None,
            ),
            (
                request("GET", "/v1/models", &[], b""),
                401,
                "unauthorized",
                "models",
                None,
            ),
            (
                request("GET", "/v1/models/m", &[], b""),
                401,
                "unauthorized",
                "model",
                None,
            ),
            (
                request("GET", "/v1/models/x", &[key], b""),
                404,
                "refused",
                "model",
                known,
            ),
            (
                request("POST", chat_path, &[json_type], good.as_bytes()),
                401,
                "unauthorized",
                "chat",
                None,
            ),
            (
                request(
                    "POST",
                    chat_path,
                    &[key, ("content-type", "text/plain")],
                    good.as_bytes(),
                ),
                415,
                "refused",
                "chat",
                known,
            ),
            (
                request("POST", chat_path, &[key, json_type], large.as_bytes()),
                413,
                "refused",
                "chat",
                known,
            ),
            (
                request("POST", chat_path, &[key, json_type], b"{"),
                400,
                "refused",
                "chat",
                known,
            ),
            (
                request("POST", chat_path, &[key, json_type], unknown.as_bytes()),
                404,
                "refused",
                "chat",
                known,
            ),
            (
                request(
                    "POST",
                    chat_path,
                    &[key, json_type, ("x-long", &long)],
                    good.as_bytes(),
                ),
                431,
                "refused",
                "none",
                None,
            ),
            (
                request(
                    "POST",
                    chat_path,
                    &[key, json_type, ("content-length", "500")],
                    good.as_bytes(),
                ),
                408,
                "refused",
                "chat",
                known,
            ),
            (
                request(
                    "POST",
                    chat_path,
                    &[key, json_type, ("connection", "authorization")],
                    good.as_bytes(),
                ),
                400,
                "refused",
                "none",
                None,
            ),
        ];
        let names = [
            "time",
            "request_id",
            "caller",
            "key",
            "address",
            "door",
            "method",
            "path",
            "model",
            "account",
            "upstream_model",
            "stream",
            "status",
            "outcome",
            "attempts",
            "first_byte_ms",
            "total_ms",
            "own_us",
            "prompt_tokens",
            "completion_tokens",
            "cached_tokens",
            "usage",
            "bytes_in",
            "bytes_out",
            "upstream_request_id",
            "maybe_billed",
        ];
        for (bytes, status, outcome, door, caller) in cases {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
            let answer = gateway.raw(bytes).await;
            assert_eq!(answer.status, *status, "{shown}: {}", answer.text());
            let line = gateway.line_of(&answer).await;
            for name in names {
                assert!(
                    line.as_object().unwrap().contains_key(name),
                    "no {name} in {line}"
                );
            }
            let (method, path) = shown.split_once(' ').unwrap();
            let path = path.split_once(' ').unwrap().0;
            assert_eq!(
                (&line["method"], &line["path"], &line["status"]),
                (&json!(method), &json!(path), &json!(status)),
                "{line}"
            );
            assert_eq!(
                (&line["outcome"], &line["door"], &line["caller"]),
                (&json!(outcome), &json!(door), &json!(caller)),
                "{line}"
            );
            assert_eq!(
                line["key"],
                caller.map_or(Value::Null, |caller| json!(format!("{caller}/prod"))),
                "{line}"
            );
            assert_eq!(
                (&line["attempts"], &line["account"], &line["usage"]),
                (&json!([]), &Value::Null, &json!("none")),
                "{line}"
            );
            assert_eq!(
                (&line["address"], &line["bytes_out"]),
                (&json!("127.0.0.1"), &json!(answer.body.len())),
                "{line}"
            );
            assert_eq!(
                (
                    &line["prompt_tokens"],
                    &line["completion_tokens"],
                    &line["maybe_billed"]
                ),
                (&json!(0), &json!(0), &json!(false)),
                "{line}"
            );
        }
        assert_eq!(mock.connections(), 0);
        let metrics = gateway.metrics();
        let count =
            |outcome: &str| metrics.sum("portcullis_requests_total", &[("outcome", outcome)]);
        assert_eq!(
            (count("refused"), count("unauthorized"), count("ok")),
            (10.0, 3.0, 0.0)
        );
    });
}

#[test]
fn unknown_paths_are_cut_short_in_access_lines() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let path = format!("/{}", "long/".repeat(500));
        let answer = gateway.get(&format!("{path}?secret=1")).await;
        let shown = gateway.line_of(&answer).await["path"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(shown.len() <= 64 && path.starts_with(&shown), "{shown}");
        let answer = gateway.get("/v1/models?secret=1").await;
        assert_eq!(gateway.line_of(&answer).await["path"], "/v1/models");
        let method = "M".repeat(500);
        let answer = gateway.raw(request(&method, "/v1/models", &[], b"")).await;
        assert_eq!(answer.status, 405);
        assert!(
            gateway.line_of(&answer).await["method"]
                .as_str()
                .unwrap()
                .len()
                <= 16
        );
    });
}

// Probes.

#[test]
fn probes_need_no_key_and_leave_no_line() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .also_listen("h2c: true")
            .start()
            .await;
        for listener in &gateway.listeners {
            let mut connection = Connection::plain(*listener, None).await;
            for path in ["/livez", "/readyz", "/livez?verbose"] {
                connection
                    .send(request(
                        "GET",
                        path,
                        &[("authorization", "Bearer wrong")],
                        b"",
                    ))
                    .await;
                let answer = connection.response().await;
                assert_eq!(
                    (
                        answer.status,
                        answer.body.len(),
                        answer.field("x-request-id").is_some()
                    ),
                    (200, 0, true),
                    "{path}"
                );
                connection.send(request("HEAD", path, &[], b"")).await;
                assert_eq!(
                    connection
                        .try_response("HEAD")
                        .await
                        .expect("an answer")
                        .status,
                    200,
                    "{path}"
                );
            }
        }
        assert_eq!(gateway.admin("/livez").0, 200);
        assert_eq!(gateway.admin("/readyz").0, 200);
        // What belongs to operators is on their listener only.
        for path in ["/metrics", "/status"] {
            gateway.get(path).await.is_error(404, "unknown_url");
            assert_eq!(gateway.admin(path).0, 200);
        }
        assert_eq!(gateway.access_lines(2).await.len(), 2);
    });
}
