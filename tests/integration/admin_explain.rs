//! `POST /explain` says what the command says, changes nothing, and shows no secret.

use std::io::{Read as _, Write as _};

use serde_json::{Value, json};

use crate::explain::explain;
use crate::support::canary::{self, KEY};
use crate::support::client::{Connection, Response, post_as, request};
use crate::support::gateway::portcullis;
use crate::support::{Catalog, Gateway, Mock, chat, chat_stream, eventually, run};

const AWS: &str = "dialect: bedrock, region: us-east-1, headers: { X-Team: CaNaRy-header }, \
                   aws: { access_key_id: AKIDCaNaRyEXAMPLE, secret_access_key: CaNaRy-secret-access-key, session_token: CaNaRy-session }";

async fn send(gateway: &Gateway, method: &str, more: &[(&str, &str)], body: &[u8]) -> Response {
    let host = gateway.admin.to_string();
    let fields = [
        &[
            ("host", host.as_str()),
            ("content-type", "application/json"),
        ],
        more,
    ]
    .concat();
    let mut connection = Connection::plain(gateway.admin, None).await;
    connection
        .send(request(method, "/explain", &fields, body))
        .await;
    let response = connection.response().await;
    canary::check("an explanation", &response.body).expect("no secret in it");
    response
}

async fn ask(gateway: &Gateway, question: &Value) -> Value {
    let response = send(gateway, "POST", &[], question.to_string().as_bytes()).await;
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

/// Without the fact that says where the state is from, and without the expected times: as measured
/// ones get older, they change.
fn without_source(mut report: Value) -> Value {
    for one in report["candidates"].as_array_mut().expect("candidates") {
        let does = one["does"].as_str().map(|does| {
            does.split(", whole answer")
                .next()
                .unwrap_or_default()
                .to_owned()
        });
        one["does"] = does.into();
    }
    report["facts"]
        .as_array_mut()
        .expect("facts")
        .retain(|fact| fact["about"] != "running");
    report
}

#[test]
fn the_listener_and_the_command_agree() {
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::new()
            .account("a", &mock)
            .account_with("b", &mock, "dialect: anthropic")
            .account_with("aws", &mock, AWS)
            .model_with(
                "m",
                &["a=x", "b=claude-sonnet-4-5"],
                "aliases: [other, \"x-*\"], fallbacks: [signed]",
            )
            .model_with("turns", &["a", "b=claude-sonnet-4-5"], "strategy: weighted")
            .model("signed", &["aws=anthropic.claude-sonnet-4-5-v1:0"])
            .caller_with(
                "tight",
                "limits: { requests_per_minute: 1, tokens_per_day: 10 }",
                &[("k", "sk-CaNaRy-tight-0123456789", "")],
            );
        let gateway = Gateway::start(catalog).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let status = format!("http://{}/status", gateway.admin);
        let long = json!({"model": "m", "messages": [{"role": "user", "content": "x".repeat(10_000)}], "max_tokens": 9});
        for body in [
            chat("m"),
            chat_stream("other"),
            chat("x-1"),
            chat("turns"),
            chat("signed"),
            chat("nowhere"),
            long,
            json!({}),
        ] {
            let (_, told) = explain(&gateway, &body, &["--json", "--status", &status]);
            let told: Value = serde_json::from_str(&told).unwrap();
            let answer = ask(&gateway, &json!({"key": "acme/prod", "body": body})).await;
            assert_eq!(without_source(answer), without_source(told), "{body:.80}");
        }
        let answer = ask(&gateway, &json!({"key": "tight/k", "body": chat("m")})).await;
        assert_eq!(answer["limits"][0]["name"], "tight", "{answer:#}");
        let (sentence, body) = (
            json!({"key": "acme/prod", "model": "m", "text": "hello"}),
            json!({"key": "acme/prod", "body": chat("m")}),
        );
        let (sentence, body) = (ask(&gateway, &sentence).await, ask(&gateway, &body).await);
        assert_eq!(sentence["verdict"], body["verdict"]);
        assert_eq!(body["verdict"]["tried"], true);
        // At another door, with a header.
        let question = json!({"key": "acme/prod", "door": "gemini", "path_model": "m", "stream": true,
            "headers": {"x-portcullis-timeout": "3s"}, "body": {"contents": [{"parts": [{"text": "hello"}]}]}});
        let answer = ask(&gateway, &question).await;
        assert!(
            answer["candidates"][0]["request"]["deadlines"]
                .to_string()
                .contains("3s"),
            "{answer:#}"
        );
    });
}

#[test]
fn an_explanation_changes_nothing() {
    run(async {
        let (one, two) = (Mock::start().await, Mock::start().await);
        let catalog = Catalog::new()
            .account("a", &one)
            .account("b", &two)
            .model_with("m", &["a", "b"], "strategy: weighted");
        let catalog = catalog.caller_with(
            "tight",
            "limits: { requests_per_minute: 1, concurrency: 1 }",
            &[("k", "sk-CaNaRy-tight-0123456789", "")],
        );
        let gateway = Gateway::start(catalog).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let seen = |gateway: &Gateway| {
            let mut status = gateway.status();
            // It changes as the measured time gets older.
            for account in status["accounts"].as_array_mut().unwrap() {
                account["targets"][0]["whole_ms"] = Value::Null;
            }
            let metrics = gateway.admin("/metrics").1;
            let steady = |line: &&str| {
                [
                    "requests",
                    "attempts",
                    "tokens",
                    "in_flight",
                    "waiting",
                    "state",
                    "breaker",
                ]
                .iter()
                .any(|word| line.contains(word))
            };
            let mut metrics: Vec<String> = metrics
                .lines()
                .filter(steady)
                .map(ToOwned::to_owned)
                .collect();
            metrics.sort();
            (
                status["accounts"].clone(),
                status["models"].clone(),
                status["keys"].clone(),
                gateway.admin("/limits").1,
                metrics,
            )
        };
        let before = seen(&gateway);
        for _ in 0..5 {
            ask(&gateway, &json!({"key": "acme/prod", "body": chat("m")})).await;
            ask(&gateway, &json!({"key": "tight/k", "body": chat("m")})).await;
        }
        assert_eq!(seen(&gateway), before);
        assert_eq!((one.count(), two.count()), (1, 0), "nobody was called");
        // What is used of a limit counts, and is not used up by questions.
        let question = json!({"key": "tight/k", "body": chat("m")});
        let says = |report: &Value| {
            report["facts"]
                .as_array()
                .unwrap()
                .iter()
                .map(|fact| fact["says"].to_string())
                .collect::<String>()
        };
        let free = ask(&gateway, &question).await;
        assert!(
            says(&free).contains("requests_per_minute 0 of 1") && free["verdict"]["tried"] == true,
            "{free:#}"
        );
        // It is the other one's turn, as if nobody had asked.
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        assert_eq!((one.count(), two.count()), (1, 1));
        gateway.access_lines(2).await;
        let sent = crate::support::client::post_as("sk-CaNaRy-tight-0123456789", &chat("m"));
        assert_eq!(gateway.raw(sent).await.status, 200);
        let used = ask(&gateway, &question).await;
        assert_eq!(
            (&used["verdict"]["tried"], &used["verdict"]["status"]),
            (&json!(false), &json!(429)),
            "{used:#}"
        );
        assert!(
            says(&used).contains("requests_per_minute 1 of 1"),
            "{used:#}"
        );
        assert_eq!(used["limits"][0]["used"]["requests_per_minute"], 1);
    });
}

#[test]
fn questions_are_small_readable_and_from_the_page() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let question = |size: usize| {
            let empty = json!({"key": "acme/prod", "model": "m", "text": ""})
                .to_string()
                .len();
            json!({"key": "acme/prod", "model": "m", "text": "x".repeat(size - empty)}).to_string()
        };
        assert_eq!(
            send(&gateway, "POST", &[], question(256 << 10).as_bytes())
                .await
                .status,
            200
        );
        let large = question((256 << 10) + 1);
        assert_eq!(
            send(&gateway, "POST", &[], large.as_bytes()).await.status,
            413
        );
        let chunked = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
        assert_eq!(
            send(
                &gateway,
                "POST",
                &[("transfer-encoding", "chunked")],
                chunked.as_bytes()
            )
            .await
            .status,
            413
        );
        let deep = format!("{{\"key\":\"acme/prod\",\"body\":{}}}", "[".repeat(100_000));
        for (wrong, about) in [
            ("", "line 1"),
            ("{", "line 1"),
            ("[]", "line 1"),
            (&*deep, "line 1"),
            (r#"{"key":"acme/prod"}"#, "write `body`"),
            (
                r#"{"key":"acme/prod","body":{},"text":"x"}"#,
                "write `body`",
            ),
            (
                r#"{"key":"acme/prod","door":"messages","text":"x","model":"m"}"#,
                "write `body`",
            ),
            (r#"{"key":"acme/prod","door":"back","body":{}}"#, "door: "),
            (
                r#"{"key":"acme/prod","headers":{"authorization":"sk-CaNaRy"},"body":{}}"#,
                "headers: ",
            ),
            (r#"{"key":"acme/prod","body":{},"sk-CaNaRy":1}"#, "line 1"),
            (&format!(r#"{{"key":"{KEY}","body":{{}}}}"#), "key: "),
        ] {
            let response = send(&gateway, "POST", &[], wrong.as_bytes()).await;
            assert!(
                response.status == 400 && response.text().contains(about),
                "{wrong:.80}: {}",
                response.text()
            );
        }
        let (body, host) = (
            json!({"key": "acme/prod", "body": chat("m")}).to_string(),
            gateway.admin.to_string(),
        );
        let own = format!("http://{host}");
        for (fields, status) in [
            (
                vec![
                    ("origin", "https://evil.example"),
                    ("x-portcullis-admin", "1"),
                ],
                403,
            ),
            (vec![("origin", own.as_str())], 403),
            (
                vec![("origin", own.as_str()), ("x-portcullis-admin", "1")],
                200,
            ),
        ] {
            assert_eq!(
                send(&gateway, "POST", &fields, body.as_bytes())
                    .await
                    .status,
                status,
                "{fields:?}"
            );
        }
        assert_eq!(send(&gateway, "GET", &[], b"").await.status, 405);
        // A name that is not a name comes back as data.
        let hostile = "<img src=x onerror=alert(1)>";
        let answer = ask(
            &gateway,
            &json!({"key": "acme/prod", "model": hostile, "text": hostile}),
        )
        .await;
        assert_eq!(answer["verdict"]["tried"], false, "{answer}");
    });
}

#[test]
fn a_question_that_does_not_come_is_told_so() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let mut connection = Connection::plain(gateway.admin, None).await;
        let head = format!(
            "POST /explain HTTP/1.1\r\nhost: {}\r\ncontent-length: 100\r\n\r\n{{",
            gateway.admin
        );
        connection.send(head).await;
        let answer = connection.response().await;
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (408, "the body did not come within 5 s: send it at once\n")
        );
    });
}

/// Runs `explain --status` for the key `tight/k`: exit code and output.
fn explain_tight(gateway: &Gateway, status: &str) -> (Option<i32>, String) {
    let file = gateway.conf.with_file_name("tight.json");
    std::fs::write(&file, chat("m").to_string()).unwrap();
    let [conf, file] = [gateway.conf.to_str().unwrap(), file.to_str().unwrap()];
    let output = portcullis(&[
        "explain", "--key", "tight/k", "--conf", conf, "--status", status, file,
    ]);
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

#[test]
fn the_command_knows_what_is_used_of_the_limits() {
    const TIGHT: &str = "sk-CaNaRy-tight-0123456789";
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::over(&mock).caller_with(
            "tight",
            "limits: { requests_per_minute: 1 }",
            &[("k", TIGHT, "")],
        );
        let gateway = Gateway::start(catalog).await;
        let status = format!("http://{}/status", gateway.admin);
        assert_eq!(explain_tight(&gateway, &status).0, Some(0));
        assert_eq!(gateway.raw(post_as(TIGHT, &chat("m"))).await.status, 200);
        // The minute may end just now, and then the request would be admitted.
        let refused = eventually("the limit refuses", || {
            let (code, told) = explain_tight(&gateway, &status);
            (code == Some(1)).then_some(told)
        });
        let told = refused.await;
        assert!(told.starts_with("no") && told.contains("429"), "{told}");
        gateway.access_lines(1).await;
    });
}

/// An older gateway has no `/explain`.
#[test]
fn doctor_reports_a_gateway_that_hides_what_is_used() {
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::over(&mock).caller_with(
            "tight",
            "",
            &[("k", "sk-CaNaRy-tight-0123456789", "")],
        );
        let gateway = Gateway::start(catalog).await;
        let page = gateway.status().to_string();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let status = format!("http://{}/status", listener.local_addr().unwrap());
        let older = std::thread::spawn(move || {
            for (begin, answer) in [
                ("GET /status ", format!("HTTP/1.0 200 OK\r\n\r\n{page}")),
                (
                    "POST /explain ",
                    "HTTP/1.0 404 Not Found\r\n\r\n".to_owned(),
                ),
            ] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = vec![0; 64 << 10];
                let read = stream.read(&mut asked).unwrap();
                assert!(asked[..read].starts_with(begin.as_bytes()));
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let (code, told) = explain_tight(&gateway, &status);
        older.join().unwrap();
        assert_eq!(code, Some(3), "{told}");
        assert!(
            told.contains("what is used of them is not known") && told.contains("404"),
            "{told}"
        );
    });
}

/// Who shows no state leaves the question open, and the command has not failed.
#[test]
fn doctor_reports_a_gateway_that_hides_its_state() {
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::over(&mock).caller_with(
            "tight",
            "",
            &[("k", "sk-CaNaRy-tight-0123456789", "")],
        );
        let gateway = Gateway::with(catalog)
            .server("admin: { address: \"{admin}\", key: { env: ADMIN_KEY } }")
            .env("ADMIN_KEY", canary::ADMIN_KEY)
            .start()
            .await;
        let conf = gateway.conf.to_str().unwrap();
        let check = |status: &str, why: &str| {
            let (code, told) = explain_tight(&gateway, status);
            assert_eq!(code, Some(3), "{why}: {told}");
            assert!(
                told.starts_with("perhaps: the request would be sent to a (m)"),
                "{told}"
            );
            for text in [
                "the state is not known: every account is assumed healthy and idle",
                why,
                "what is used of them is not known, so they may refuse the request",
            ] {
                assert!(told.contains(text), "{text}: {told}");
            }
        };
        check(&format!("http://{}/status", gateway.admin), "wants its key");
        for code in ["403", "404"] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let status = format!("http://{}/status", listener.local_addr().unwrap());
            let other = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = vec![0; 64 << 10];
                let read = stream.read(&mut asked).unwrap();
                assert!(asked[..read].starts_with(b"GET /status "));
                stream
                    .write_all(format!("HTTP/1.0 {code} Not You\r\n\r\n").as_bytes())
                    .unwrap();
            });
            check(&status, &format!("answers with HTTP {code}, not 200"));
            other.join().unwrap();
        }
        // What the files refuse is refused, whatever the state.
        let file = gateway.conf.with_file_name("tight.json");
        let status = format!("http://{}/status", gateway.admin);
        let explain = [
            "explain",
            "--key",
            "acme/none",
            "--conf",
            conf,
            "--status",
            &status,
            file.to_str().unwrap(),
        ];
        assert_eq!(portcullis(&explain).status.code(), Some(1));
    });
}
