//! Attacks on the framing of requests by raw sockets: section C of the fault table.
//!
//! Pingora's parser refuses some requests before they exist. They get our answer all the same: the
//! one form, an id, an access line. The rows that depend on what the parser refuses were measured
//! on 0.9.1. If a new version behaves differently, check what else it lets through.

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{Connection, End, Response, post, request};
use crate::support::script::{self, SSE};
use crate::support::{Gate, Gateway, Mock, Script, chat, chat_stream, eventually, run};

/// Header fields of a request.
type Fields<'t> = &'t [(&'t str, &'t str)];

/// A chat completion with these lines in its head, and then these bytes.
fn chat_with(lines: &str, after: &str) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n{lines}\r\n{after}"
    )
}

/// A list of models with these lines in its head.
fn list_with(lines: &str) -> String {
    format!("GET /v1/models HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {KEY}\r\n{lines}\r\n")
}

fn body() -> String {
    chat("m").to_string()
}

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

/// All answers on a connection, when it is to be closed.
async fn until_closed(gateway: &Gateway, bytes: impl AsRef<[u8]>) -> Vec<Response> {
    let mut connection = gateway.connect().await;
    connection.send(bytes).await;
    let mut answers = Vec::new();
    while let Some(answer) = connection.try_response("GET").await {
        answers.push(answer);
    }
    answers
}

#[test]
fn c01_what_two_lengths_smuggle_is_never_run() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let (body, get) = (body(), list_with(""));
        let whole = chunked(&body);
        let cases = [
            // By its chunks the first is whole, and the rest is what a proxy that counts bytes did
            // not see.
            (
                chat_with(
                    "content-length: 5\r\ntransfer-encoding: chunked\r\n",
                    &format!("{whole}{get}"),
                ),
                200,
            ),
            (
                chat_with(
                    "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
                    &format!("{whole}{get}"),
                ),
                200,
            ),
            (
                chat_with(
                    &format!(
                        "content-length: {}\r\ntransfer-encoding: chunked\r\n",
                        5 + get.len()
                    ),
                    &format!("0\r\n\r\n{get}"),
                ),
                400,
            ),
            (
                chat_with(
                    &format!("content-length: {}\r\n", body.len()),
                    &format!("{body}{get}"),
                ),
                200,
            ),
        ];
        for (nth, (bytes, status)) in cases.iter().enumerate() {
            let answers = until_closed(&gateway, bytes).await;
            let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
            assert_eq!(statuses, [*status], "{bytes}");
            let both = bytes.contains("content-length: ") && bytes.contains("transfer-encoding: ");
            assert!(
                !both || answers[0].field("connection") == Some("close"),
                "{bytes}: {:?}",
                answers[0].fields
            );
            gateway.access_lines(nth + 1).await;
        }
        assert!(gateway.lines().iter().all(|line| line["door"] == "chat"));
    });
}

/// The one answer to a head that cannot be read, which ends the connection; and its access line.
async fn is_refused(
    gateway: &Gateway,
    what: &str,
    answers: &[Response],
    status: u16,
    code: &str,
) -> Value {
    let [answer] = answers else {
        panic!("{what}: {answers:?}")
    };
    assert_eq!(
        (answer.status, answer.end, answer.field("connection")),
        (status, Some(End::Whole), Some("close")),
        "{what}"
    );
    assert_eq!(
        answer.is_error(status, code)["type"],
        "invalid_request_error",
        "{what}"
    );
    let line = gateway.line_of(answer).await;
    assert_eq!(
        (&line["status"], &line["outcome"], &line["door"]),
        (&json!(status), &json!("refused"), &json!("none")),
        "{what}: {line}"
    );
    assert_eq!(
        (&line["address"], &line["caller"]),
        (&json!("127.0.0.1"), &Value::Null),
        "{what}: {line}"
    );
    assert_eq!(line["bytes_out"], answer.body.len(), "{what}: {line}");
    line
}

#[test]
fn c02_ambiguous_heads_are_refused() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let (body, length) = (body(), body().len());
        let lengths = [
            format!("content-length: {length}\r\ncontent-length: 5\r\n"),
            format!("content-length: {length}, 5\r\n"),
            "content-length: +5\r\n".to_owned(),
            "content-length: -1\r\n".to_owned(),
            "content-length: 0x5\r\n".to_owned(),
            "content-length: 5a\r\n".to_owned(),
            "content-length: \r\n".to_owned(),
            "content-length: 99999999999999999999999\r\n".to_owned(),
            "transfer-encoding: identity\r\n".to_owned(),
        ];
        let codings = [
            "xchunked",
            "chunked, identity",
            "\x0bchunked",
            "",
            "\"chunked\"",
        ];
        let heads = [
            "x-a : b\r\n",
            "x-a: b\r\n c\r\n",
            "x-a: b\r\n\tc\r\n",
            "x-a: b\0c\r\n",
            "x-a: b\rc\r\n",
            "x\0a: b\r\n",
            "xa\r\n",
            ": a\r\n",
            "x a: b\r\n",
            "host: b\r\n",
            "host: a\r\n",
        ];
        let starts = [
            "GET http://b/v1/models HTTP/1.1\r\n",
            "GET /v1/models HTTP/2.0\r\n",
            "GET /v1/models HTTP/1.2\r\n",
            "GET /v1/models\r\n",
            "GET\r\n",
            "G\0T / HTTP/1.1\r\n",
            "GET /v1/models HTTP/1.1\r\n x: y\r\n",
            "\x16\x03\x01\x02\0\r\n",
        ];
        let mut cases: Vec<String> = lengths
            .iter()
            .map(|lines| chat_with(lines, &body))
            .collect();
        cases.extend(
            codings.iter().map(|coding| {
                chat_with(&format!("transfer-encoding: {coding}\r\n"), &chunked(&body))
            }),
        );
        cases.push(chat_with(
            "transfer-encoding : chunked\r\n",
            &chunked(&body),
        ));
        cases.push(
            chat_with("transfer-encoding: chunked\r\n", &chunked(&body))
                .replacen("HTTP/1.1", "HTTP/1.0", 1),
        );
        cases.extend(heads.iter().map(|lines| list_with(lines)));
        cases.extend(
            starts
                .iter()
                .map(|start| list_with("").replacen("GET /v1/models HTTP/1.1\r\n", start, 1)),
        );
        cases.push("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned());
        for bytes in &cases {
            is_refused(
                &gateway,
                &format!("{bytes:?}"),
                &until_closed(&gateway, bytes).await,
                400,
                "",
            )
            .await;
        }
        // Whatever was asked for, it is told as far as it can be read; a query never is.
        let bad = "x-a : b\r\n";
        let asked = until_closed(
            &gateway,
            list_with(bad).replacen("/v1/models", "/v1/models?key=s3cret", 1),
        )
        .await;
        let line = is_refused(&gateway, "a query", &asked, 400, "").await;
        assert_eq!(
            (&line["method"], &line["path"]),
            (&json!("GET"), &json!("/v1/models"))
        );
        let line = is_refused(
            &gateway,
            "no HTTP",
            &until_closed(&gateway, "\x16\x03\x01\r\n\r\n").await,
            400,
            "",
        )
        .await;
        assert_eq!((&line["method"], &line["path"]), (&json!(""), &json!("")));
        let all = cases.len() + 2;
        assert_eq!(
            (mock.connections(), gateway.access_lines(all).await.len()),
            (0, all)
        );
        assert_eq!(
            gateway.metrics().sum(
                "portcullis_requests_total",
                &[("door", "none"), ("outcome", "refused")]
            ),
            all as f64
        );
    });
}

#[test]
fn c02_heads_that_are_too_large_are_told_as_that() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let (many, most) = ("x: y\r\n".repeat(300), "x: y\r\n".repeat(256 - 2));
        let (target, long) = ("q".repeat(70_000), "y".repeat(1_200_000));
        let length = format!("content-length: {}\r\n", body().len());
        let cases = [
            ("300 fields", list_with(&many), 431, "headers_too_large"),
            (
                "300 fields and a body",
                chat_with(&format!("{many}{length}"), &body()),
                431,
                "headers_too_large",
            ),
            (
                "300 fields and much after them",
                list_with(&many) + &"z".repeat(300_000),
                431,
                "headers_too_large",
            ),
            (
                "more than Pingora reads",
                list_with(&format!("x: {long}\r\n")),
                431,
                "headers_too_large",
            ),
            (
                "a target of 70 kB",
                list_with("").replacen("/v1/models", &format!("/v1/models?{target}"), 1),
                414,
                "target_too_long",
            ),
            (
                "a target that never ends",
                format!("GET /{}", "a".repeat(1_200_000)),
                414,
                "target_too_long",
            ),
        ];
        for (what, bytes, status, code) in &cases {
            let line = is_refused(
                &gateway,
                what,
                &until_closed(&gateway, bytes).await,
                *status,
                code,
            )
            .await;
            assert!(
                ["GET", "POST"].contains(&line["method"].as_str().unwrap_or_default()),
                "{what}: {line}"
            );
        }
        // As many as are read, and a target that only we find too long.
        assert_eq!(gateway.raw(list_with(&most)).await.status, 200);
        let target = list_with("").replacen(
            "/v1/models",
            &format!("/v1/models?{}", "q".repeat(40_000)),
            1,
        );
        gateway.raw(target).await.is_error(414, "target_too_long");
        // On a connection that was good before, and in pieces.
        let mut connection = gateway.connect().await;
        for _ in 0..2 {
            connection.send(list_with("")).await;
            assert_eq!(connection.response().await.status, 200);
        }
        let head = list_with(&many);
        let (first, rest) = head.split_at(700);
        connection.send(first).await;
        // The first piece is read by itself: nothing tells that it was, but that both orders must
        // do.
        tokio::task::yield_now().await;
        connection.send(rest).await;
        let answer = connection.response().await;
        is_refused(&gateway, "in pieces", &[answer], 431, "headers_too_large").await;
        assert!(connection.closed().await, "by FIN");
        assert_eq!(mock.connections(), 0);
        gateway.access_lines(cases.len() + 5).await;
    });
}

#[test]
fn c02_what_chunks_hide_is_not_the_body() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let codings = [
            "gzip, chunked",
            "deflate, chunked",
            "GZIP , chunked",
            "br,chunked",
            "gzip\r\ntransfer-encoding: chunked",
            "x, identity, chunked",
            "chunked, chunked",
            "chunked\r\ntransfer-encoding: chunked",
        ];
        for coding in codings {
            let bytes = chat_with(
                &format!("transfer-encoding: {coding}\r\n"),
                &chunked(&body()),
            ) + &list_with("");
            let answers = until_closed(&gateway, bytes).await;
            assert_eq!(answers.len(), 1, "{coding}: {answers:?}");
            answers[0].is_error(501, "unsupported_transfer_encoding");
            assert_eq!(
                (
                    answers[0].field("connection"),
                    answers[0].field("x-should-retry")
                ),
                (Some("close"), Some("false")),
                "{coding}"
            );
        }
        assert_eq!(mock.connections(), 0);
        gateway.access_lines(codings.len()).await;
    });
}

#[test]
fn c02_broken_chunks_are_refused_and_end_the_connection() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let (body, get) = (body(), list_with(""));
        let cases = [
            "zz\r\n{}\r\n0\r\n\r\n".to_owned(),
            "-1\r\n{}\r\n0\r\n\r\n".to_owned(),
            "0x2\r\n{}\r\n0\r\n\r\n".to_owned(),
            " 2\r\n{}\r\n0\r\n\r\n".to_owned(),
            "fffffffffffffffff\r\n{}\r\n0\r\n\r\n".to_owned(),
            "2\r\n{}xx0\r\n\r\n".to_owned(),
            format!("{:x}\n{body}\n0\n\n", body.len()),
            format!("{:x}\r\n{body}\r\nzz\r\n\r\n", body.len()),
        ];
        for (nth, after) in cases.iter().enumerate() {
            // What follows is not run, wherever it may begin.
            let answers = until_closed(
                &gateway,
                chat_with("transfer-encoding: chunked\r\n", &format!("{after}{get}")),
            )
            .await;
            assert_eq!(answers.len(), 1, "{after:?}: {answers:?}");
            answers[0].is_error(400, "");
            assert_eq!(answers[0].field("connection"), Some("close"), "{after:?}");
            assert_eq!(gateway.line_of(&answers[0]).await["outcome"], "refused");
            gateway.access_lines(nth + 1).await;
        }
        assert_eq!(mock.connections(), 0);
    });
}

#[test]
fn c03_what_pingora_lets_pass() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let (body, get, length) = (body(), list_with(""), body().len());
        let te = |after: String| chat_with("transfer-encoding: chunked\r\n", &after);
        let cases = [
            ("bare LF", get.replace("\r\n", "\n"), 200),
            ("one bare LF", get.replacen("\r\n", "\n", 1), 200),
            ("no host", get.replace("host: a\r\n", ""), 200),
            ("empty host", get.replace("host: a\r\n", "host: \r\n"), 200),
            ("empty lines first", format!("\r\n\r\n{get}"), 200),
            (
                "absolute form",
                get.replace("GET /v1", "GET http://a/v1"),
                200,
            ),
            (
                "a blank in the target",
                get.replace("models HTTP", "models x HTTP"),
                404,
            ),
            (
                "a chunk extension",
                te(format!("{length:x};a=b\r\n{body}\r\n0\r\n\r\n")),
                200,
            ),
            (
                "a quoted chunk extension",
                te(format!("{length:x};a=\"b;c\"\r\n{body}\r\n0\r\n\r\n")),
                200,
            ),
            (
                "a trailer",
                te(format!("{length:x}\r\n{body}\r\n0\r\nx-a: b\r\n\r\n")),
                200,
            ),
            (
                "many chunks",
                te(format!(
                    "{}0\r\n\r\n",
                    body.chars()
                        .map(|c| format!("1\r\n{c}\r\n"))
                        .collect::<String>()
                )),
                200,
            ),
            (
                "upper case",
                chat_with("Transfer-Encoding: CHUNKED\r\n", &chunked(&body)),
                200,
            ),
            (
                "identity before chunked",
                chat_with("transfer-encoding: identity, chunked\r\n", &chunked(&body)),
                200,
            ),
            (
                "one length twice",
                chat_with(
                    &format!("content-length: {length}\r\ncontent-length: {length}\r\n"),
                    &body,
                ),
                200,
            ),
            (
                "one length listed twice",
                chat_with(&format!("content-length: {length}, {length}\r\n"), &body),
                200,
            ),
        ];
        for (what, bytes, status) in &cases {
            let mut connection = gateway.connect().await;
            connection.send(bytes).await;
            assert_eq!(connection.response().await.status, *status, "{what}");
            // Each of them is whole for us too: the next request on the connection is read from its
            // first byte.
            connection.send(&get).await;
            assert_eq!(connection.response().await.status, 200, "after {what}");
        }
        for sent in mock.requests() {
            assert_eq!(sent.text(), body);
            assert_eq!(
                (
                    sent.field("content-length"),
                    sent.field("transfer-encoding")
                ),
                (Some(length.to_string().as_str()), None)
            );
        }
    });
}

#[test]
fn c04_there_is_no_tunnel() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let length = format!("content-length: {}\r\n", body().len());
        let websocket = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n";
        let cases = [
            list_with(websocket),
            list_with(
                "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
            ),
            list_with("connection: upgrade\r\nupgrade: unheard-of/2\r\n"),
            chat_with(&format!("{websocket}{length}"), &body()),
        ];
        for bytes in &cases {
            let mut connection = gateway.connect().await;
            connection.send(bytes).await;
            let answer = connection.response().await;
            assert!(
                [200, 400].contains(&answer.status),
                "{bytes}: {}",
                answer.status
            );
            assert_eq!(
                (answer.field("upgrade"), &answer.informational),
                (None, &vec![]),
                "{bytes}"
            );
            // It still speaks HTTP/1, if at all.
            if connection.send(list_with("")).await {
                assert_eq!(
                    connection
                        .try_response("GET")
                        .await
                        .map_or(200, |answer| answer.status),
                    200,
                    "{bytes}"
                );
            }
        }
        for sent in mock.requests() {
            assert_eq!(
                (sent.field("upgrade"), sent.field("sec-websocket-key")),
                (None, None)
            );
        }
    });
}

#[test]
fn c05_connection_takes_no_protected_header_away() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let length = format!("content-length: {}\r\n", body().len());
        for name in [
            "authorization",
            "x-api-key",
            "host",
            "content-length",
            "content-type",
            "Authorization",
            "keep-alive, AUTHORIZATION ",
            "x,x-api-key",
        ] {
            let answer = gateway
                .raw(chat_with(
                    &format!("connection: {name}\r\n{length}"),
                    &body(),
                ))
                .await;
            answer.is_error(400, "");
        }
        assert_eq!(mock.connections(), 0);
        for name in [
            "keep-alive",
            "x-request-id",
            "x-anything, keep-alive",
            "user-agent",
        ] {
            let lines = format!("connection: {name}\r\nx-request-id: mine\r\n{length}");
            assert_eq!(
                gateway.raw(chat_with(&lines, &body())).await.status,
                200,
                "{name}"
            );
        }
        for sent in mock.requests() {
            for field in [
                "authorization",
                "host",
                "content-type",
                "content-length",
                "x-request-id",
            ] {
                assert!(
                    sent.field(field).is_some(),
                    "no {field} in {:?}",
                    sent.fields
                );
            }
        }
    });
}

#[test]
fn c06_no_header_passes_through_by_itself() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let theirs = [
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-host", "evil.test"),
            ("x-forwarded-proto", "https"),
            ("forwarded", "for=192.0.2.1"),
            ("x-real-ip", "192.0.2.1"),
            ("via", "1.1 proxy"),
            ("openai-organization", "org-theirs"),
            ("openai-project", "proj-theirs"),
            ("openai-beta", "x"),
            ("anthropic-version", "x"),
            ("cookie", "session=1"),
            ("x-litellm-tags", "x"),
            ("x-portkey-provider", "x"),
            ("x-stainless-lang", "python"),
            ("user-agent", "theirs/1"),
            ("origin", "https://evil.test"),
            ("referer", "https://evil.test"),
            ("accept-encoding", "gzip, br"),
            ("accept", "text/html"),
            ("te", "trailers"),
            ("range", "bytes=0-1"),
            ("if-none-match", "*"),
            (
                "traceparent",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            ),
            ("x-api-key", KEY),
            ("proxy-authorization", "Basic eDp5"),
        ];
        let bearer = format!("Bearer {KEY}");
        let fields = [
            &[
                ("authorization", bearer.as_str()),
                ("content-type", "application/json; charset=utf-8"),
            ],
            &theirs[..],
        ]
        .concat();
        let ours = [
            "host",
            "content-type",
            "accept",
            "accept-encoding",
            "user-agent",
            "authorization",
            "x-request-id",
            "content-length",
        ];
        let upstreams = [
            ("set-cookie", "session=1"),
            ("x-ratelimit-remaining-requests", "9"),
            ("x-ratelimit-limit-tokens", "9"),
            ("openai-organization", "org-ours"),
            ("openai-processing-ms", "9"),
            ("openai-version", "2020-10-01"),
            ("x-request-id", "theirs"),
            ("server", "cloudflare"),
            ("cf-ray", "x"),
            ("via", "1.1 x"),
            ("strict-transport-security", "max-age=1"),
            ("alt-svc", "h3"),
            ("access-control-allow-origin", "*"),
            ("retry-after", "7"),
            ("www-authenticate", "Basic"),
            ("location", "https://evil.test"),
            ("x-portcullis-model", "theirs"),
        ];
        let with_all = |script: Script| {
            upstreams
                .iter()
                .fold(script, |script, (name, value)| script.with(name, value))
        };
        let streamed = Script::new().head(200, &[SSE, ("transfer-encoding", "chunked")]);
        mock.push(with_all(Script::answer("hi")));
        mock.push(
            with_all(streamed)
                .event(script::delta("hi"))
                .event(script::finish("stop"))
                .done(),
        );
        mock.push(with_all(Script::error(400, "no")));
        let passed = [
            "x-request-id",
            "content-type",
            "content-length",
            "transfer-encoding",
            "date",
            "connection",
            "cache-control",
            "x-accel-buffering",
            "x-portcullis-usage",
        ];
        for (nth, body) in [chat("m"), chat_stream("m"), chat("m")].iter().enumerate() {
            let answer = gateway
                .raw(request(
                    "POST",
                    "/v1/chat/completions",
                    &fields,
                    body.to_string().as_bytes(),
                ))
                .await;
            for (name, value) in &answer.fields {
                assert!(
                    passed.contains(&name.to_ascii_lowercase().as_str()),
                    "{name}: {value} in answer {nth}"
                );
            }
            assert_ne!(answer.field("x-request-id"), Some("theirs"));
            let sent = mock.request(nth).await;
            for (name, value) in &sent.fields {
                assert!(
                    ours.contains(&name.to_ascii_lowercase().as_str()),
                    "{name}: {value} reached the upstream"
                );
                assert!(
                    !theirs.contains(&(name.as_str(), value.as_str())),
                    "{name}: {value} reached the upstream"
                );
            }
            assert_eq!(sent.field("x-request-id"), answer.field("x-request-id"));
            assert_eq!(
                sent.field("host"),
                Some(mock.address().to_string().as_str())
            );
        }
        let lines = gateway.access_lines(3).await;
        assert!(
            lines
                .iter()
                .all(|line| line["upstream_request_id"] == "theirs"),
            "{lines:#?}"
        );
    });
}

#[test]
fn c08_a_request_hidden_in_a_segment_never_runs() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let second = post(&chat("m"));
        for first in [chat_stream("m"), chat("m")] {
            let before = mock.count();
            let answers = until_closed(&gateway, [post(&first), second.clone()].concat()).await;
            assert_eq!(
                (answers.len(), answers[0].status, answers[0].end),
                (1, 200, Some(End::Whole))
            );
            if first["stream"] == true {
                assert_eq!(
                    (
                        answers[0].content().as_str(),
                        answers[0].events().last().unwrap().as_str()
                    ),
                    ("w0 w1 w2 ", "[DONE]")
                );
            }
            assert_eq!(mock.count(), before + 1);
        }
        assert_eq!(gateway.access_lines(2).await.len(), 2);
    });
}

#[test]
fn c08_a_request_sent_into_a_running_stream_aborts_it() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        mock.push(Script::sse().words(0..1).stall());
        let (mut connection, mut answer) = gateway.open(&chat_stream("m")).await;
        while connection
            .event(&mut answer)
            .await
            .is_some_and(|event| crate::support::client::content_of(&event.data) != "w0 ")
        {}
        connection.send(post(&chat("m"))).await;
        mock.left(0).await;
        connection.rest(&mut answer).await;
        assert!(
            matches!(answer.end, Some(End::Cut | End::Reset)),
            "{:?}",
            answer.end
        );
        assert!(connection.try_response("GET").await.is_none());
        assert_eq!(mock.count(), 1);
        let line = gateway.line().await;
        assert_eq!(line["outcome"], "client_left");
    });
}

#[test]
fn c08_requests_one_after_the_other_get_their_own_answers() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let mut connection = gateway.connect().await;
        for nth in 0..20 {
            mock.push(if nth % 2 == 0 {
                Script::answer(&format!("answer {nth}"))
            } else {
                Script::stream(nth)
            });
            connection
                .send(post(&if nth % 2 == 0 {
                    chat("m")
                } else {
                    chat_stream("m")
                }))
                .await;
            let answer = connection.response().await;
            let expected = if nth % 2 == 0 {
                format!("answer {nth}")
            } else {
                (0..nth).map(|n| format!("w{n} ")).collect()
            };
            assert_eq!((answer.status, answer.content()), (200, expected));
        }
        assert_eq!(mock.connections(), 1);
    });
}

#[test]
fn c09_an_unread_refused_body_spares_the_next_request() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let good = format!("Bearer {KEY}");
        let long = format!("{{\"smuggled\":\"{}\"}}", list_with("").repeat(200));
        let json = ("content-type", "application/json");
        let refused: &[(&str, &str, Fields<'_>, u16)] = &[
            ("POST", "/v1/chat/completions", &[json], 401),
            (
                "POST",
                "/v1/chat/completions",
                &[json, ("authorization", "Bearer wrong")],
                401,
            ),
            ("POST", "/nothing", &[json, ("authorization", &good)], 404),
            ("POST", "/v1/models", &[json, ("authorization", &good)], 405),
            (
                "POST",
                "/v1/chat/completions",
                &[("content-type", "text/plain"), ("authorization", &good)],
                415,
            ),
            (
                "POST",
                "/v1/chat/completions",
                &[json, ("authorization", &good)],
                400,
            ),
        ];
        for (method, target, fields, status) in refused {
            for in_chunks in [false, true] {
                let mut fields = fields.to_vec();
                let mut body = long.clone().into_bytes();
                if in_chunks {
                    fields.push(("transfer-encoding", "chunked"));
                    body = chunked(&long).into_bytes();
                }
                let mut connection = gateway.connect().await;
                connection
                    .send(request(method, target, &fields, &body))
                    .await;
                let answer = connection.response().await;
                assert_eq!(
                    (answer.status, answer.end),
                    (*status, Some(End::Whole)),
                    "{target}"
                );
                // Either the connection is closed, or it goes on where the body ended.
                connection.send(list_with("x-request-id: after\r\n")).await;
                if let Some(next) = connection.try_response("GET").await {
                    assert_eq!(
                        (next.status, next.field("x-request-id")),
                        (200, Some("after")),
                        "{target}"
                    );
                    connection.send(post(&chat("m"))).await;
                    assert!(
                        connection
                            .try_response("POST")
                            .await
                            .is_none_or(|answer| answer.status == 200)
                    );
                }
            }
        }
        for line in gateway.lines() {
            assert!(
                line["status"] != 200 || line["request_id"] == "after" || line["door"] == "chat",
                "{line}"
            );
        }
    });
}

#[test]
fn c09_a_refusal_is_seen_though_its_body_never_ends() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        for (key, status) in [("wrong", 401), (KEY, 415)] {
            let bearer = format!("Bearer {key}");
            let fields = [
                ("authorization", bearer.as_str()),
                ("content-type", "text/plain"),
                ("content-length", "1000000"),
            ];
            let mut connection: Connection = gateway.connect().await;
            connection
                .send(request("POST", "/v1/chat/completions", &fields, b"{"))
                .await;
            let answer = connection.response().await;
            assert_eq!((answer.status, answer.end), (status, Some(End::Whole)));
            assert!(
                connection.closed().await,
                "by FIN, so that no answer is lost"
            );
        }
        let gate = Gate::new();
        mock.push(
            Script::sse()
                .words(0..1)
                .wait(&gate)
                .words(1..2)
                .event(script::finish("stop"))
                .done(),
        );
        gate.open();
        assert_eq!(gateway.post(&chat_stream("m")).await.content(), "w0 w1 ");
        eventually("three lines", || (gateway.lines().len() == 3).then_some(())).await;
        assert_eq!(
            gateway
                .lines()
                .iter()
                .filter(|line| line["outcome"] == json!("ok"))
                .count(),
            1
        );
    });
}
