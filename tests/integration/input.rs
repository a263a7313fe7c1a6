//! The requests of callers: section B of the fault table.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{Connection, post, request};
use crate::support::{Catalog, Gateway, Mock, chat, run};

const HI: &str = r#""messages":[{"role":"user","content":"hi"}]"#;

/// A chat completion with exactly this body.
fn ask(body: impl AsRef<[u8]>) -> Vec<u8> {
    ask_as(body, &[("content-type", "application/json")])
}

fn ask_as(body: impl AsRef<[u8]>, fields: &[(&str, &str)]) -> Vec<u8> {
    let (bearer, length) = (format!("Bearer {KEY}"), body.as_ref().len().to_string());
    let ours = [
        ("authorization", bearer.as_str()),
        ("content-length", &length),
    ];
    request(
        "POST",
        "/v1/chat/completions",
        &[&ours, fields].concat(),
        body.as_ref(),
    )
}

/// Sends bodies that must be refused, one after the other on one connection, each with what its
/// error must name and say.
async fn refused(cases: &[(Vec<u8>, Option<&str>, &str)]) {
    let mock = Mock::start().await;
    let gateway = Gateway::over(&mock).await;
    let mut connection = gateway.connect().await;
    for (body, param, says) in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(100)]).into_owned();
        connection.send(ask(body)).await;
        let answer = connection.response().await;
        assert_eq!(answer.status, 400, "{shown}: {}", answer.text());
        let code = answer.json()["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let error = answer.is_error(400, &code);
        assert_eq!(
            (error["type"].as_str(), error["param"].as_str()),
            (Some("invalid_request_error"), *param),
            "{shown}: {error}"
        );
        assert!(
            error["message"].as_str().unwrap().contains(says),
            "{shown}: {error}"
        );
    }
    assert_eq!(mock.connections(), 0);
    for line in gateway.access_lines(cases.len()).await {
        assert_eq!(
            (&line["status"], &line["outcome"], &line["key"]),
            (&json!(400), &json!("refused"), &json!("acme/prod")),
            "{line}"
        );
        assert_eq!(line["attempts"], json!([]), "{line}");
    }
}

fn case<'t>(
    body: impl AsRef<[u8]>,
    param: &'t str,
    says: &'t str,
) -> (Vec<u8>, Option<&'t str>, &'t str) {
    (
        body.as_ref().to_vec(),
        Some(param).filter(|param| !param.is_empty()),
        says,
    )
}

#[test]
fn b01_a_body_must_be_an_object() {
    run(refused(&[
        case("", "", "empty"),
        case(" \r\n\t", "", "empty"),
        case("null", "", "must be a JSON object, not null"),
        case("[]", "", "must be a JSON object, not an array"),
        case("\"x\"", "", "must be a JSON object, not a string"),
        case("[\"gpt-4o\"]", "", "must be a JSON object, not an array"),
        case("7", "", "must be a JSON object, not a number"),
        case("true", "", "must be a JSON object, not a boolean"),
        case("{}", "model", "`model` is missing"),
        case(r#"{"model":"m"}"#, "messages", "`messages` is missing"),
        case(
            format!(r#"{{"model":"m","model":"m",{HI}}}"#),
            "model",
            "more than once",
        ),
        case(
            format!(r#"{{"model":"m",{HI},"mod\u0065l":"x"}}"#),
            "model",
            "more than once",
        ),
        case(
            format!(r#"{{"model":"m",{HI},"x":1,"x":1}}"#),
            "x",
            "more than once",
        ),
    ]));
}

#[test]
fn b02_broken_json_is_told_with_line_and_column() {
    let good = chat("m").to_string();
    let utf16: Vec<u8> = good.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let utf16_marked = [&[0xff, 0xfe][..], &utf16].concat();
    run(refused(&[
        case(&good[..good.len() - 1], "", "(line 1, column "),
        case(format!("{good}}}"), "", "(line 1, column "),
        case(format!("{good} {good}"), "", "(line 1, column "),
        case(format!("{good}\0"), "", "(line 1, column "),
        case(
            "{\n  \"model\": \"m\",\n  messages\n}",
            "",
            "(line 3, column 3)",
        ),
        case("{\"model\":\"m\",}", "", "(line 1, column 14)"),
        case("{'model':'m'}", "", "(line 1, column 2)"),
        case(format!("\u{feff}{good}"), "", "(line 1, column 1)"),
        case(utf16, "", "(line 1, column "),
        case(utf16_marked, "", "(line 1, column 1)"),
        case(b"{\"model\":\"\xff\"}", "", "(line 1, column "),
        case("{\"model\":\"a\nb\"}", "", "(line 1, column "),
        case("{\"model\":NaN}", "", "(line 1, column 10)"),
        case("{\"x\":01}", "", "(line 1, column "),
        case("// chat\n{}", "", "(line 1, column 1)"),
    ]));
}

#[test]
fn b03_deep_nesting_is_refused_at_once() {
    run(async {
        let mock = Mock::start().await;
        let setup = Gateway::with(Catalog::over(&mock));
        let gateway = setup.returns_memory_at_once().start().await;
        let nested = |depth: usize| {
            format!(
                r#"{{"model":"m",{HI},"x":{}{}}}"#,
                "[".repeat(depth),
                "]".repeat(depth)
            )
        };
        // The object around them is a level too.
        let good = nested(126);
        assert_eq!(gateway.raw(ask(&good)).await.status, 200);
        assert_eq!(mock.request(0).await.text(), good);
        let before = gateway.rss();
        for body in [
            nested(127),
            nested(1_000_000),
            "[".repeat(1_000_000),
            "{\"x\":".repeat(1_000_000),
            "{\"messages\":[".repeat(80_000),
        ] {
            // The time of a processor, since others run on this machine too. What looks at each
            // level from each level takes minutes.
            let worked = gateway.process.cpu();
            for _ in 0..5 {
                let answer = gateway.raw(ask(&body)).await;
                assert_eq!(answer.status, 400, "{}", answer.text());
                gateway.line_of(&answer).await;
            }
            let worked = (gateway.process.cpu() - worked) / 5;
            println!("{worked:?} for {} bytes", body.len());
            assert!(
                worked < Duration::from_millis(250),
                "{worked:?} for {} bytes",
                body.len()
            );
        }
        assert!(
            gateway.rss() < before + (16 << 20),
            "{} bytes became {}",
            before,
            gateway.rss()
        );
    });
}

#[test]
fn b05_the_model_must_be_a_short_text() {
    let with = |model: &str| format!(r#"{{"model":{model},{HI}}}"#);
    let long = format!("\"{}\"", "m".repeat(10_000));
    run(refused(&[
        case(with("null"), "model", "must be a string, not null"),
        case(with("7"), "model", "must be a string, not a number"),
        case(with("true"), "model", "must be a string, not a boolean"),
        case(with("[\"m\"]"), "model", "must be a string, not an array"),
        case(
            with("{\"id\":\"m\"}"),
            "model",
            "must be a string, not an object",
        ),
        case(with("\"\""), "model", "must not be empty"),
        case(with(&long), "model", "longer than 512 bytes"),
        case(format!("{{{HI}}}"), "model", "`model` is missing"),
    ]));
}

#[test]
fn b05_messages_must_be_objects() {
    let with = |messages: &str| format!(r#"{{"model":"m","messages":{messages}}}"#);
    run(refused(&[
        case(
            with("null"),
            "messages",
            "must be an array of messages, not null",
        ),
        case(
            with("\"hi\""),
            "messages",
            "must be an array of messages, not a string",
        ),
        case(
            with("{}"),
            "messages",
            "must be an array of messages, not an object",
        ),
        case(with("[]"), "messages", "at least one"),
        case(
            with("[\"hi\"]"),
            "messages[0]",
            "must be an object, not a string",
        ),
        case(
            with("[{},null]"),
            "messages[1]",
            "must be an object, not null",
        ),
    ]));
}

#[test]
fn b07_numbers_keep_their_text() {
    let numbers = [
        "1e999",
        "-1E-999",
        "12345678901234567890",
        "123456789012345678901234567890.5",
        "-0",
        "-0.0",
        "1.0",
        "1e0",
        "0.10",
        "1E+2",
    ];
    let bodies = numbers.map(|n| {
        format!(r#"{{"temperature":{n},"model":"m",{HI},"max_tokens":{n},"x":[{n},{{"y":{n}}}]}}"#)
    });
    run(passed_on(&bodies));
}

#[test]
fn b08_unknown_fields_keep_their_bytes_and_their_order() {
    let bodies = [
        format!(
            r#"{{"model":"m",{HI},"vendor":{{"b":1,"a":[null,true,"\u00e9é\/"]}},"":0,"a":"","z":null}}"#
        ),
        format!(
            "{{ \"zeta\" : 1 ,\r\n\t\"model\" :\t\"m\" , \"alpha\":2,{HI} ,\"logit_bias\":{{\"50256\":-100}}  }}"
        ),
        format!("\n\n  {{\"model\":\"m\",{HI}}}  \r\n"),
        // Equal names below the top are the upstream's to judge, and so is what else is odd.
        format!(
            r#"{{"metadata":{{"k":1,"k":2}},"model":"m",{HI},"Vendor":"other","VENDOR":3,"model ":4}}"#
        ),
        format!(r#"{{{HI},"model":"\u006d","user":"\ud83d\ude00 \u0000"}}"#),
        r#"{"model":"m","messages":[{"role":"martian","content":7,"x":{}},{}]}"#.to_owned(),
        format!(
            r#"{{"model":"m",{HI},"temperature":"hot","n":-1,"tools":"none","stop":{{}},"max_tokens":"many"}}"#
        ),
        format!(
            r#"{{"model":"m",{HI},"stream_options":null,"stream":null,"max_tokens":null,"max_completion_tokens":5}}"#
        ),
    ];
    run(passed_on(&bodies));
}

/// Every byte but those of the model's id reaches the upstream as it was sent.
async fn passed_on(bodies: &[String]) {
    let (same, other) = (Mock::start().await, Mock::start().await);
    let catalog = |mock: &Mock, target: &str| {
        Catalog::new()
            .account("a", mock)
            .model_with("m", &[target], "")
    };
    let plain = Gateway::start(catalog(&same, "a")).await;
    let renamed = Gateway::start(catalog(&other, "a=their/\\\"m")).await;
    for (nth, body) in bodies.iter().enumerate() {
        let answer = plain.raw(ask(body)).await;
        assert_eq!(answer.status, 200, "{body}: {}", answer.text());
        assert_eq!(renamed.raw(ask(body)).await.status, 200, "{body}");
        let quoted = if body.contains(r#""\u006d""#) {
            r#""\u006d""#
        } else {
            r#""m""#
        };
        let spliced = body.replacen(quoted, r#""their/\"m""#, 1);
        let sent = same.request(nth).await.text();
        assert!(
            sent == *body || sent == body.replacen(quoted, "\"m\"", 1),
            "{body}\nbecame\n{sent}"
        );
        assert_eq!(other.request(nth).await.text(), spliced);
    }
}

#[test]
fn b09_stream_is_true_or_false() {
    let with = |stream: &str| format!(r#"{{"model":"m",{HI},"stream":{stream}}}"#);
    run(refused(&[
        case(
            with("\"true\""),
            "stream",
            "must be true or false, not a string",
        ),
        case(with("1"), "stream", "must be true or false, not a number"),
        case(with("{}"), "stream", "must be true or false, not an object"),
        case(
            format!(r#"{{"model":"m",{HI},"stream":true,"stream_options":7}}"#),
            "stream_options",
            "must be an object",
        ),
        case(
            format!(
                r#"{{"model":"m",{HI},"stream":true,"stream_options":{{"include_usage":"yes"}}}}"#
            ),
            "stream_options.include_usage",
            "must be true or false",
        ),
    ]));
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        for (more, kind) in [
            ("", "application/json"),
            (",\"stream\":false", "application/json"),
            (",\"stream\":null", "application/json"),
            (",\"stream\":true", "text/event-stream"),
        ] {
            let answer = gateway
                .raw(ask(format!(r#"{{"model":"m",{HI}{more}}}"#)))
                .await;
            assert_eq!(
                (answer.status, answer.field("content-type")),
                (200, Some(kind)),
                "{more}"
            );
            assert_eq!(
                gateway.line_of(&answer).await["stream"],
                kind == "text/event-stream",
                "{more}"
            );
        }
    });
}

#[test]
fn b10_the_content_type_is_json_or_none() {
    media(&[
        (None, 200),
        (Some(("content-type", "application/json")), 200),
        (
            Some(("content-type", "application/json; charset=utf-8")),
            200,
        ),
        (
            Some(("content-type", "application/json;charset=UTF-8")),
            200,
        ),
        (
            Some(("content-type", "application/json ; charset=\"latin1\"")),
            200,
        ),
        (
            Some(("content-type", "application/json; x=y; charset=us-ascii")),
            200,
        ),
        (Some(("Content-Type", "Application/JSON")), 200),
        // As curl calls whatever it is given.
        (
            Some(("content-type", "application/x-www-form-urlencoded")),
            200,
        ),
        (
            Some(("content-type", "multipart/form-data; boundary=x")),
            415,
        ),
        (Some(("content-type", "text/plain")), 415),
        (
            Some(("content-type", "text/plain; x=application/json")),
            415,
        ),
        (Some(("content-type", "application/jsonx")), 415),
        (Some(("content-type", "application/octet-stream")), 415),
    ]);
}

#[test]
fn b11_bodies_compressed_otherwise_than_gzip_are_refused_unread() {
    media(&[
        // Said to be what is read, it is none.
        (Some(("content-encoding", "gzip")), 400),
        (Some(("content-encoding", "GZIP")), 400),
        (Some(("content-encoding", "deflate")), 415),
        (Some(("content-encoding", "br")), 415),
        (Some(("content-encoding", "zstd")), 415),
        (Some(("content-encoding", "identity, gzip")), 415),
        (Some(("content-encoding", "identity")), 200),
    ]);
}

#[track_caller]
fn media(cases: &[(Option<(&str, &str)>, u16)]) {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let body = chat("m").to_string();
        for (field, status) in cases {
            let answer = gateway.raw(ask_as(&body, field.as_slice())).await;
            assert_eq!(answer.status, *status, "{field:?}: {}", answer.text());
            if let (415, Some((name, value))) = (status, field) {
                let error = answer.is_error(415, "unsupported_media_type");
                let message = error["message"].as_str().unwrap();
                assert!(
                    message.contains(&name.to_ascii_lowercase()) && message.contains(value),
                    "{message}"
                );
            }
        }
        assert_eq!(
            mock.count(),
            cases.iter().filter(|(_, status)| *status == 200).count()
        );
    });
}

#[test]
fn b11_what_is_no_gzip_takes_no_room() {
    run(async {
        let mock = Mock::start().await;
        let setup = Gateway::with(Catalog::over(&mock));
        let gateway = setup.returns_memory_at_once().start().await;
        // A stored head of gzip, and then blocks that each stand for 32 KiB of zeros.
        let bomb = [
            &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..],
            &[0xec, 0xc1, 1, 1, 0, 0].repeat(100_000),
        ]
        .concat();
        let before = gateway.rss();
        gateway
            .raw(ask_as(&bomb, &[("content-encoding", "gzip")]))
            .await
            .is_error(400, "");
        // Said to be JSON, it is none.
        assert_eq!(gateway.raw(ask(&bomb)).await.status, 400);
        assert!(gateway.rss() < before + (32 << 20));
        assert_eq!(mock.connections(), 0);
    });
}

#[test]
fn b18_queries_and_fragments_go_nowhere() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let bearer = format!("Bearer {KEY}");
        let fields = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        let body = chat("m").to_string();
        for target in [
            "/v1/chat/completions?api_base=http://evil.test&model=x",
            "/v1/chat/completions?",
            "/v1/chat/completions?a?b#c",
            "/v1/chat/completions#fragment",
            "http://gateway.test/v1/chat/completions",
            "http://gateway.test/v1/chat/completions?x=y",
        ] {
            let answer = gateway
                .raw(request("POST", target, &fields, body.as_bytes()))
                .await;
            assert!(
                [200, 400].contains(&answer.status),
                "{target}: {}",
                answer.text()
            );
        }
        assert!(mock.count() >= 3);
        for sent in mock.requests() {
            assert_eq!(
                (sent.target.as_str(), sent.field("host")),
                (
                    "/v1/chat/completions",
                    Some(mock.address().to_string().as_str())
                )
            );
        }
        for line in gateway.lines() {
            assert_eq!(line["path"], "/v1/chat/completions");
        }
    });
}

/// A generator whose numbers are the same in every run, so that a failure comes again.
struct Dice(u64);

/// What means something in JSON or in a head.
const ODD: &[u8] = b"{}[]\",:\\01ae-. \r\n\xff\0";

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }

    /// One to four bytes put in, taken out, changed or doubled.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.roll(4) {
            let at = self.roll(bytes.len());
            match self.roll(5) {
                0 => bytes.insert(at, self.roll(256) as u8),
                1 if bytes.len() > 1 => drop(bytes.remove(at)),
                2 => bytes.truncate(at.max(1)),
                3 => bytes.extend_from_within(at..),
                _ => bytes[at] = ODD[self.roll(ODD.len())],
            }
        }
    }
}

/// The ten thousand in-process ones are beside `intake::envelope`.
#[test]
fn b19_mutated_bodies_are_answered_or_refused() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let mut dice = Dice(0x5eed_0b19);
        let golden = [
            chat("m").to_string(),
            crate::support::chat_stream("m").to_string(),
            format!(
                r#"{{"stream":true,"stream_options":{{"include_usage":true}},"model":"m",{HI},"n":2,"tools":[{{"type":"function"}}]}}"#
            ),
        ];
        let mut connection = gateway.connect().await;
        let mut seen = std::collections::BTreeMap::<u16, usize>::new();
        for nth in 0..1_000 {
            let mut body = golden[nth % golden.len()].clone().into_bytes();
            dice.mutate(&mut body);
            if connection.wire.ended || !connection.send(ask(&body)).await {
                connection = gateway.connect().await;
                connection.send(ask(&body)).await;
            }
            let answer = connection.response().await;
            assert!(
                matches!(answer.status, 200 | 400..=499),
                "{}: {}",
                String::from_utf8_lossy(&body),
                answer.text()
            );
            *seen.entry(answer.status).or_default() += 1;
        }
        assert!(seen[&200] > 20 && seen[&400] > 200, "{seen:?}");
    });
}

#[test]
fn b19_mutated_heads_are_answered_or_refused() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("timeouts: { client_read: 1s }")
            .start()
            .await;
        let mut dice = Dice(0x5eed_4ead);
        let golden = post(&chat("m"));
        for _ in 0..500 {
            let mut bytes = golden.clone();
            dice.mutate(&mut bytes);
            let mut connection = Connection::plain(gateway.address, None).await;
            connection.send(&bytes).await;
            // Whatever waits for more will see that nothing comes.
            let _ = tokio::io::AsyncWriteExt::shutdown(&mut connection.wire.io).await;
            while let Some(head) = connection.wire.head().await {
                let status: u16 = head
                    .start
                    .split(' ')
                    .nth(1)
                    .and_then(|status| status.parse().ok())
                    .expect("a status");
                assert!(
                    matches!(status, 100 | 200 | 400..=499),
                    "{status} to {}",
                    String::from_utf8_lossy(&bytes)
                );
                if status != 100 {
                    connection.wire.body(head.framing()).await;
                }
            }
        }
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let internal = gateway
            .lines()
            .into_iter()
            .find(|line| line["outcome"] == "internal");
        assert_eq!(internal, None::<Value>);
    });
}
