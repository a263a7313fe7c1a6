//! Streams: their beginning, their content, the ways in which they break, and that their end is
//! always explicit.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::failover::trail;
use crate::support::client::{Connection, End, Response, content_of, post};
use crate::support::script::{self, SSE};
use crate::support::{
    Catalog, Gate, Gateway, Mock, Script, chat, chat_stream, eventually, is_about, run,
};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Reads content up to and with this word.
async fn read_to(connection: &mut Connection, answer: &mut Response, word: &str) -> String {
    let mut content = String::new();
    while !content.ends_with(word) {
        let event = connection
            .event(answer)
            .await
            .unwrap_or_else(|| panic!("the stream ended before {word:?}"));
        content.push_str(&content_of(&event.data));
    }
    content
}

/// The code of the error event that a stream must end with, and nothing after it.
async fn broken(connection: &mut Connection, answer: &mut Response) -> String {
    let event = connection.event(answer).await.expect("an error event");
    let error = event.json()["error"].clone();
    assert!(
        error["message"].is_string() && error["type"].is_string(),
        "no error: {}",
        event.data
    );
    assert!(
        connection.event(answer).await.is_none(),
        "nothing comes after the error"
    );
    assert_eq!(answer.end, Some(End::Whole));
    assert!(
        !answer.text().contains("\"finish_reason\":\"") && !answer.text().contains("[DONE]"),
        "{}",
        answer.text()
    );
    error["code"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn d06_d07_d13_d18_a_stream_that_breaks_ends_with_one_error_event() {
    run(async {
        let error =
            json!({"error": {"message": "the GPU fell off", "type": "server_error", "code": null}});
        let named = "event: error\ndata: {\"message\": \"the GPU fell off\"}\n\n";
        type Rest = Box<dyn Fn(Script) -> Script>;
        let rest = |f: fn(Script) -> Script| -> Rest { Box::new(f) };
        let cases: Vec<(&str, Rest, &str, &str)> = vec![
            (
                "d06 reset",
                rest(|s| s.reset()),
                "upstream_truncated",
                "cut",
            ),
            ("d07 EOF", rest(|s| s.close()), "upstream_truncated", "cut"),
            (
                "d07 EOF in a chunk",
                rest(|s| s.raw("50\r\ndata: {\"cho").close()),
                "upstream_truncated",
                "cut",
            ),
            (
                "d07 EOF in an event",
                rest(|s| s.body("data: {\"cho").end()),
                "upstream_truncated",
                "cut",
            ),
            (
                "d07 a clean end without a finish",
                rest(|s| s.end()),
                "upstream_truncated",
                "cut",
            ),
            (
                "d07 [DONE] without a finish",
                rest(|s| s.done()),
                "upstream_truncated",
                "cut",
            ),
            (
                "d07 bad framing",
                rest(|s| s.raw("zz\r\nnonsense")),
                "upstream_truncated",
                "cut",
            ),
            (
                "d13 malformed",
                rest(|s| s.event("{oops").stall()),
                "bad_upstream_response",
                "nonsense",
            ),
            (
                "d13 not an object",
                rest(|s| s.event("[1]").stall()),
                "bad_upstream_response",
                "nonsense",
            ),
            (
                "d13 choices are text",
                rest(|s| s.event("{\"choices\":\"x\"}").stall()),
                "bad_upstream_response",
                "nonsense",
            ),
            (
                "d18 error event",
                Box::new(move |s| s.event(&error).stall()),
                "bad_upstream_response",
                "error_in_answer",
            ),
            (
                "d18 named error",
                Box::new(move |s| s.body(named).stall()),
                "bad_upstream_response",
                "error_in_answer",
            ),
        ];
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(Catalog::chain(&[&a, &b])).await;
        for (n, (what, rest, code, outcome)) in cases.into_iter().enumerate() {
            let gate = Gate::new();
            a.push(rest(Script::sse().words(0..3).wait(&gate)));
            let (mut connection, mut answer) = gateway.open(&chat_stream("m")).await;
            assert_eq!(
                read_to(&mut connection, &mut answer, "w2 ").await,
                "w0 w1 w2 "
            );
            gate.open();
            assert_eq!(broken(&mut connection, &mut answer).await, code, "{what}");
            let line = gateway.access_lines(n + 1).await.pop().unwrap();
            assert_eq!(trail(&line), format!("a:{outcome}"), "{what}");
            let named = if outcome == "cut" {
                "upstream_cut"
            } else {
                "upstream_error"
            };
            assert_eq!(
                (&line["outcome"], &line["status"]),
                (&json!(named), &json!(200)),
                "{what}"
            );
            // Nine bytes of content, and the five of the prompt.
            assert_eq!(
                (&line["usage"], &line["completion_tokens"]),
                (&json!("estimated"), &json!(3)),
                "{what}"
            );
            gateway.reset("a");
        }
        assert_eq!(b.count(), 0, "a stream that has begun goes to nobody else");
    });
}

#[test]
fn d07_a_stream_with_a_finish_is_whole_without_done() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let ends: [fn(Script) -> Script; 3] = [
            |s| s.end(),
            |s| s.close(),
            |s| s.event(script::usage(2)).end(),
        ];
        for (n, end) in ends.into_iter().enumerate() {
            let script = Script::sse().words(0..2).event(script::finish("length"));
            // A chunked body that is cut is cut, whatever it said: only a close-delimited one may
            // end so.
            let script = if n == 1 {
                Script::new()
                    .head(200, &[SSE])
                    .words(0..2)
                    .event(script::finish("length"))
            } else {
                script
            };
            mock.push(end(script));
            let answer = gateway.post(&chat_stream("m")).await;
            assert_eq!(answer.content(), "w0 w1 ");
            let events = answer.events();
            assert_eq!(events.last().unwrap(), "[DONE]", "{}", answer.text());
            assert!(answer.text().contains("\"finish_reason\":\"length\""));
        }
        gateway.access_lines(3).await;
    });
}

#[test]
fn d08_silence_before_the_answer_goes_on_at_deadline() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let slow = "timeouts: { first_byte: 3s, idle: 3s }";
        let catalog = Catalog::new()
            .account_with("a", &a, slow)
            .account("b", &b)
            .model("m", &["a", "b"])
            .model("alone", &["a"]);
        let gateway = Gateway::start(catalog).await;
        let role = || {
            Script::sse().event(script::chunk(
                &json!({"role": "assistant", "content": ""}),
                None,
            ))
        };
        let cases = [
            ("silent", Script::silent(), 3_000, "first_byte_timeout"),
            ("a head", Script::sse().stall(), 3_000, "idle_timeout"),
            ("a role", role().stall(), 3_000, "idle_timeout"),
            (
                "a comment is life",
                Script::sse().delay(ms(1_000)).body(": ping\n\n").stall(),
                4_000,
                "idle_timeout",
            ),
        ];
        let mut lines = 0;
        for (what, script, wait, outcome) in cases {
            for (model, status, whole_trail) in [
                ("m", 200, format!("a:{outcome} b:ok")),
                ("alone", 504, format!("a:{outcome}")),
            ] {
                a.push(script.clone());
                let began = Instant::now();
                let answer = gateway.post(&chat_stream(model)).await;
                assert!(
                    is_about(began.elapsed(), ms(wait)),
                    "{what}: {:?}",
                    began.elapsed()
                );
                assert_eq!(answer.status, status, "{what}: {}", answer.text());
                if status == 504 {
                    answer.is_error(504, "upstream_timeout");
                }
                a.left(lines).await;
                lines += 1;
                let line = gateway.access_lines(lines).await.pop().unwrap();
                assert_eq!(
                    (trail(&line), &line["maybe_billed"]),
                    (whole_trail, &json!(true)),
                    "{what}"
                );
            }
        }
    });
}

#[test]
fn d08_silence_after_the_answer_began_ends_at_deadline() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(
            Catalog::new()
                .account_with("a", &mock, "timeouts: { idle: 3s }")
                .model("m", &["a"]),
        )
        .await;
        mock.push(Script::sse().words(0..2).stall());
        let began = Instant::now();
        let (mut connection, mut answer) = gateway.open(&chat_stream("m")).await;
        read_to(&mut connection, &mut answer, "w1 ").await;
        assert_eq!(
            broken(&mut connection, &mut answer).await,
            "upstream_timeout"
        );
        assert!(
            is_about(began.elapsed(), ms(3_000)),
            "{:?}",
            began.elapsed()
        );
        mock.left(0).await;
        let line = gateway.line().await;
        assert_eq!(
            (&line["outcome"], trail(&line).as_str()),
            (&json!("upstream_timeout"), "a:idle_timeout")
        );
    });
}

#[test]
fn d08_total_ends_everything_and_nothing_is_sent_again() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let total = "timeouts: { total: 3s }";
        let catalog = Catalog::new()
            .account_with("a", &a, total)
            .account_with("b", &b, total)
            .model("m", &["a", "b"]);
        let gateway = Gateway::start(catalog).await;
        let drip = Script::new()
            .head(200, &[script::JSON, ("transfer-encoding", "chunked")])
            .slices(vec![b' '; 1000], 1, ms(50));
        let cases = [
            ("silent", chat("m"), Script::silent()),
            ("dripping", chat("m"), drip),
            ("stream", chat_stream("m"), Script::silent()),
        ];
        for (n, (what, body, script)) in cases.into_iter().enumerate() {
            a.push(script);
            let began = Instant::now();
            gateway.post(&body).await.is_error(504, "upstream_timeout");
            assert!(
                is_about(began.elapsed(), ms(3_000)),
                "{what}: {:?}",
                began.elapsed()
            );
            a.left(n).await;
            assert_eq!(
                b.count(),
                0,
                "{what}: there is no time left for anybody else"
            );
            let line = gateway.access_lines(n + 1).await.pop().unwrap();
            assert_eq!(
                (trail(&line).as_str(), &line["outcome"]),
                ("a:total_timeout", &json!("upstream_timeout")),
                "{what}"
            );
        }
        // A stream that flows is ended too.
        a.push(
            Script::sse()
                .words(0..1)
                .slices(": x\n\n".repeat(1_000), 5, ms(50)),
        );
        let began = Instant::now();
        let (mut connection, mut answer) = gateway.open(&chat_stream("m")).await;
        read_to(&mut connection, &mut answer, "w0 ").await;
        assert_eq!(
            broken(&mut connection, &mut answer).await,
            "upstream_timeout"
        );
        assert!(
            is_about(began.elapsed(), ms(3_000)),
            "{:?}",
            began.elapsed()
        );
        gateway.access_lines(4).await;
    });
}

#[test]
fn d08_total_is_for_all_attempts_together() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let times = "timeouts: { first_byte: 5s, total: 8s }";
        let catalog = Catalog::new()
            .account_with("a", &a, times)
            .account_with("b", &b, times)
            .model("m", &["a", "b"]);
        let gateway = Gateway::start(catalog).await;
        a.push(Script::silent());
        b.push(Script::silent());
        let began = Instant::now();
        gateway
            .post(&chat_stream("m"))
            .await
            .is_error(504, "upstream_timeout");
        assert!(
            is_about(began.elapsed(), ms(8_000)),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(
            trail(&gateway.line().await),
            "a:first_byte_timeout b:total_timeout"
        );
        a.left(0).await;
        b.left(0).await;
    });
}

#[test]
fn d08_total_bounds_connecting_too() {
    run(async {
        let deaf = Mock::deaf().await;
        let catalog = Catalog::new()
            .account_with("a", &deaf, "timeouts: { connect: 60s, total: 500ms }")
            .model("m", &["a"]);
        let gateway = Gateway::start(catalog).await;
        let began = Instant::now();
        let answer = gateway.post(&chat("m")).await;
        assert!([503, 504].contains(&answer.status), "{}", answer.text());
        assert!(is_about(began.elapsed(), ms(500)), "{:?}", began.elapsed());
        gateway.line().await;
    });
}

#[test]
fn past_commit_comments_flow_and_others_may_answer() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let times = "timeouts: { first_byte: 4s }";
        let catalog = Catalog::new()
            .account_with("a", &a, times)
            .account("b", &b)
            .model("m", &["a", "b"])
            .model("alone", &["a"]);
        let gateway = Gateway::with(catalog)
            .server("timeouts: { commit_after: 300ms, comment: 200ms }")
            .start()
            .await;
        for (n, model) in ["m", "alone"].into_iter().enumerate() {
            a.push(Script::silent());
            let began = Instant::now();
            let (mut connection, mut answer) = gateway.open(&chat_stream(model)).await;
            assert!(
                is_about(answer.at - began, ms(300)),
                "the head after {:?}",
                answer.at - began
            );
            assert_eq!(
                (answer.status, answer.field("content-type")),
                (200, Some("text/event-stream"))
            );
            if model == "m" {
                assert_eq!(
                    read_to(&mut connection, &mut answer, "w2 ").await,
                    "w0 w1 w2 "
                );
                while connection.event(&mut answer).await.is_some() {}
                assert_eq!(
                    (
                        answer.content().as_str(),
                        answer.events().last().unwrap().as_str()
                    ),
                    ("w0 w1 w2 ", "[DONE]")
                );
            } else {
                assert_eq!(
                    broken(&mut connection, &mut answer).await,
                    "upstream_timeout"
                );
            }
            // At 300 ms, 500, 700 …: on a busy machine later than that and fewer, but none too
            // soon.
            let comments: Vec<_> = connection
                .comments
                .iter()
                .map(|at| (*at - began).as_millis() as u64)
                .collect();
            assert!(comments.len() >= 2, "{comments:?}");
            assert!(
                comments
                    .iter()
                    .zip((280..).step_by(200))
                    .all(|(at, due)| *at >= due - 10),
                "{comments:?}"
            );
            let line = gateway.access_lines(n + 1).await.pop().unwrap();
            let (outcome, first_byte) = if model == "m" {
                ("ok", true)
            } else {
                ("upstream_timeout", false)
            };
            assert_eq!(line["outcome"], outcome);
            assert!(
                !first_byte || line["first_byte_ms"].as_u64().unwrap() >= 3950,
                "{line}"
            );
        }
    });
}

#[test]
fn past_commit_the_last_refusal_is_one_error_event() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        mock.push(
            Script::new()
                .wait(&gate)
                .and(Script::error(400, "temperature is 3")),
        );
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("timeouts: { commit_after: 100ms }")
            .start()
            .await;
        let (mut connection, mut answer) = gateway.open(&chat_stream("m")).await;
        gate.open();
        let event = connection.event(&mut answer).await.unwrap().json();
        assert_eq!(
            (&event["error"]["message"], &event["error"]["type"]),
            (&json!("temperature is 3"), &json!("invalid_request_error"))
        );
        assert!(connection.event(&mut answer).await.is_none());
        assert_eq!(
            (answer.end, &gateway.line().await["outcome"]),
            (Some(End::Whole), &json!("refused"))
        );
    });
}

#[test]
fn silent_streams_get_comments_and_buffered_answers_none() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("timeouts: { comment: 150ms, commit_after: 50ms }")
            .start()
            .await;
        mock.push(
            Script::sse()
                .words(0..1)
                .wait(&gate)
                .words(1..2)
                .event(script::finish("stop"))
                .done(),
        );
        let mut comments = vec![Instant::now()];
        let (mut connection, mut answer) = gateway.open(&chat_stream("m")).await;
        read_to(&mut connection, &mut answer, "w0 ").await;
        // The upstream goes on only when three were seen.
        while comments.len() < 4 {
            let piece = connection
                .piece(&mut answer)
                .await
                .expect("the stream goes on");
            assert_eq!(String::from_utf8_lossy(&piece), ": keepalive\n\n");
            comments.push(Instant::now());
        }
        assert!(comments[3] - comments[0] > ms(300), "{comments:?}");
        gate.open();
        assert_eq!(read_to(&mut connection, &mut answer, "w1 ").await, "w1 ");
        while connection.event(&mut answer).await.is_some() {}
        assert!(
            answer.content() == "w0 w1 " && answer.text().ends_with("data: [DONE]\n\n"),
            "{}",
            answer.text()
        );
        mock.push(Script::new().delay(ms(400)).then_answer("late"));
        let whole = gateway.post(&chat("m")).await;
        assert_eq!(whole.json()["choices"][0]["message"]["content"], "late");
        assert!(whole.body.starts_with(b"{"));
        gateway.access_lines(2).await;
    });
}

/// Everything that opens the gate, each as the only event before a cut.
#[test]
fn the_gate_opens_for_answers_only() {
    run(async {
        let call = json!({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}]});
        let cases = [
            ("content", json!({"content": "x"}), true),
            ("thinking", json!({"reasoning_content": "hm"}), true),
            ("a refusal", json!({"refusal": "no"}), true),
            ("a tool call", call, true),
            ("audio", json!({"audio": {"id": "a", "data": "AAAA"}}), true),
            ("a role", json!({"role": "assistant"}), false),
            ("nothing", json!({}), false),
            (
                "empty content",
                json!({"role": "assistant", "content": ""}),
                false,
            ),
            ("null", json!({"role": "assistant", "content": null}), false),
        ];
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(Catalog::chain(&[&a, &b])).await;
        for (n, (what, delta, opens)) in cases.into_iter().enumerate() {
            // What opens the gate is seen by the caller before the cut comes.
            let gate = Gate::new();
            a.push(
                Script::sse()
                    .event(script::chunk(&delta, None))
                    .wait(&gate)
                    .close(),
            );
            if !opens {
                gate.open();
            }
            let (mut connection, mut answer) = gateway.open(&chat_stream("m")).await;
            connection.event(&mut answer).await.expect("an event");
            gate.open();
            connection.rest(&mut answer).await;
            assert_eq!(answer.status, 200);
            assert_eq!(
                answer.text().contains("upstream_truncated"),
                opens,
                "{what}: {}",
                answer.text()
            );
            let line = gateway.access_lines(n + 1).await.pop().unwrap();
            assert_eq!(
                trail(&line),
                if opens { "a:cut" } else { "a:cut b:ok" },
                "{what}"
            );
            gateway.reset("a");
        }
    });
}

#[test]
fn d18_an_error_inside_a_200_goes_on_by_class() {
    run(async {
        let error = |status: u16, code: Value| json!({"error": {"message": "it said no", "type": "x", "code": code, "status": status}});
        let cases = [
            ("overloaded", error(503, Value::Null), true, 200),
            (
                "no status",
                json!({"error": {"message": "it said no"}}),
                true,
                200,
            ),
            ("a text", json!({"error": "it said no"}), true, 200),
            ("rate", error(429, json!(429)), true, 200),
            ("the caller's", error(400, Value::Null), false, 400),
            (
                "too long",
                error(500, json!("context_length_exceeded")),
                false,
                400,
            ),
        ];
        let mock = Mock::start().await;
        let good = Mock::start().await;
        let mut catalog = Catalog::new().account("good", &good);
        for n in 0..cases.len() {
            for kind in ["whole", "stream"] {
                let id = format!("{kind}-{n}");
                catalog = catalog.account(&id, &mock).model(&id, &[&id, "good"]);
            }
        }
        let gateway = Gateway::start(catalog).await;
        let mut lines = 0;
        for (n, (what, error, next, status)) in cases.into_iter().enumerate() {
            mock.on(&format!("whole-{n}"), Script::json(200, &error));
            mock.on(
                &format!("stream-{n}"),
                Script::sse()
                    .event(script::chunk(&json!({"role": "assistant"}), None))
                    .event(&error)
                    .done(),
            );
            for (kind, body) in [
                ("whole", chat as fn(&str) -> Value),
                ("stream", chat_stream),
            ] {
                let id = format!("{kind}-{n}");
                let answer = gateway.post(&body(&id)).await;
                assert_eq!(answer.status, status, "{what} {kind}: {}", answer.text());
                lines += 1;
                let line = gateway.access_lines(lines).await.pop().unwrap();
                let good = if next { " good:ok" } else { "" };
                assert_eq!(
                    trail(&line),
                    format!("{id}:error_in_answer{good}"),
                    "{what} {kind}"
                );
            }
        }
    });
}

#[test]
fn d09_cuts_of_an_upstreams_bytes_change_nothing() {
    run(async {
        let text = ["é", "😀 ", "\"\\", "\u{2028}", "plain"];
        let script = text.iter().fold(
            Script::sse().event(script::chunk(
                &json!({"role": "assistant", "content": ""}),
                None,
            )),
            |s, t| s.event(script::delta(t)),
        );
        let payload = script
            .event(script::finish("stop"))
            .event(script::usage(5))
            .done()
            .payload();
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let mut body = chat_stream("m");
        body["stream_options"] = json!({"include_usage": true});
        mock.push(Script::sse().body(&payload).end());
        let golden = gateway.post(&body).await;
        assert_eq!(golden.content(), text.concat());
        let mut connection = gateway.connect().await;
        let mut count = 1;
        // Every size of slice at the start, and two halves around every eleventh byte.
        let slices =
            (1..=12).map(|size| Script::sse().slices(&payload, size, Duration::ZERO).end());
        let halves = (1..payload.len()).step_by(11).map(|at| {
            Script::sse()
                .body(&payload[..at])
                .delay(ms(1))
                .body(&payload[at..])
                .end()
        });
        for script in slices.chain(halves) {
            mock.push(script);
            connection.send(post(&body)).await;
            let answer = connection.response().await;
            assert!(
                answer.body == golden.body,
                "{}\ninstead of\n{}",
                answer.text(),
                golden.text()
            );
            count += 1;
        }
        drop(connection);
        gateway.access_lines(count).await;
    });
}

#[test]
fn d09_dripping_is_no_silence() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(
            Catalog::new()
                .account_with("a", &mock, "timeouts: { idle: 3s }")
                .model("m", &["a"]),
        )
        .await;
        let (first, rest) = (
            format!("data: {}\n\n", script::delta("x")),
            format!("data: {}\n\ndata: [DONE]\n\n", script::finish("stop")),
        );
        let (drip, whole) = first.as_bytes().split_at(8);
        mock.push(
            Script::sse()
                .slices(drip, 1, ms(500))
                .body(whole)
                .body(rest)
                .end(),
        );
        let answer = gateway.post(&chat_stream("m")).await;
        assert_eq!((answer.status, answer.content().as_str()), (200, "x"));
        assert!(gateway.line().await["total_ms"].as_u64().unwrap() >= 3_500);
    });
}

#[test]
fn d10_every_form_of_the_event_stream_is_understood() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let chunk = |text: &str| script::delta(text).to_string();
        let (one, two, end) = (chunk("é"), chunk("😀"), script::finish("stop").to_string());
        let (head, tail) = two.split_at(two.find("\"choices\"").unwrap());
        let forms = [
            (
                "LF",
                format!("data: {one}\n\ndata: {two}\n\ndata: {end}\n\ndata: [DONE]\n\n"),
            ),
            (
                "CRLF",
                format!(
                    "data: {one}\r\n\r\ndata: {two}\r\n\r\ndata: {end}\r\n\r\ndata: [DONE]\r\n\r\n"
                ),
            ),
            (
                "CR",
                format!("data: {one}\r\rdata: {two}\r\rdata: {end}\r\rdata: [DONE]\r\r"),
            ),
            (
                "mixed",
                format!("data: {one}\r\n\ndata: {two}\r\r\ndata: {end}\n\rdata: [DONE]\n\n"),
            ),
            (
                "BOM",
                format!("\u{feff}data: {one}\n\ndata: {two}\n\ndata: {end}\n\ndata: [DONE]\n\n"),
            ),
            (
                "no blank",
                format!("data:{one}\n\ndata:{two}\n\ndata:{end}\n\ndata:[DONE]\n\n"),
            ),
            (
                "comments",
                format!(
                    ": hi\n\ndata: {one}\n: there\n\n:\n\ndata: {two}\n\ndata: {end}\n\n: x\n\ndata: [DONE]\n\n"
                ),
            ),
            (
                "fields",
                format!(
                    "retry: 10\nid: 7\nevent: message\ndata: {one}\n\nretry: 5\n\nfoo: bar\ndata: {two}\n\ndata: {end}\n\ndata: [DONE]\n\n"
                ),
            ),
            (
                "many lines",
                format!(
                    "data: {one}\n\ndata: {head}\ndata: {tail}\n\ndata: {end}\n\ndata: [DONE]\n\n"
                ),
            ),
            (
                "empty data",
                format!(
                    "data\n\ndata:\n\ndata: {one}\n\ndata: {two}\n\ndata: {end}\n\ndata: [DONE]\n\n"
                ),
            ),
            (
                "no last line",
                format!("data: {one}\n\ndata: {two}\n\ndata: {end}\n\ndata: [DONE]"),
            ),
        ];
        for (n, (what, form)) in forms.iter().enumerate() {
            for size in [form.len(), 1] {
                mock.push(Script::sse().slices(form, size, Duration::ZERO).end());
                let answer = gateway.post(&chat_stream("m")).await;
                assert_eq!(
                    (answer.status, answer.content().as_str()),
                    (200, "é😀"),
                    "{what}: {}",
                    answer.text()
                );
                assert!(
                    answer.text().ends_with("data: [DONE]\n\n") && !answer.text().contains('\r'),
                    "{what}: {}",
                    answer.text()
                );
                assert!(
                    answer
                        .text()
                        .lines()
                        .all(|line| line.is_empty() || line.starts_with("data: ")),
                    "{what}: {}",
                    answer.text()
                );
            }
            gateway.access_lines(2 * (n + 1)).await;
        }
    });
}

#[test]
fn usage_is_asked_always_and_shown_on_request() {
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::new()
            .account("a", &mock)
            .account_with("old", &mock, "stream_usage: false")
            .model("m", &["a"])
            .model("n", &["old"]);
        let gateway = Gateway::start(catalog).await;
        let with = |model: &str, options: Value| {
            let mut body = chat_stream(model);
            body["stream_options"] = options;
            body
        };
        let asked = json!({"include_usage": true});
        let cases = [
            (chat_stream("m"), Some(true), false, "reported"),
            (with("m", json!(null)), Some(true), false, "reported"),
            (with("m", json!({})), Some(true), false, "reported"),
            (
                with("m", json!({"include_usage": false})),
                Some(true),
                false,
                "reported",
            ),
            (
                with("m", json!({"include_obfuscation": false})),
                Some(true),
                false,
                "reported",
            ),
            (with("m", asked.clone()), Some(true), true, "reported"),
            (chat_stream("n"), None, false, "estimated"),
            (with("n", asked), None, true, "estimated"),
        ];
        for (n, (body, up, shown, source)) in cases.into_iter().enumerate() {
            let answer = gateway.post(&body).await;
            assert_eq!(
                (answer.status, answer.content().as_str()),
                (200, "w0 w1 w2 ")
            );
            let sent = mock.request(n).await.json();
            assert_eq!(
                sent["stream_options"]
                    .get("include_usage")
                    .and_then(Value::as_bool),
                up,
                "{body} became {sent}"
            );
            if body["stream_options"].get("include_obfuscation").is_some() {
                assert_eq!(sent["stream_options"]["include_obfuscation"], false);
            }
            let events = answer.events();
            assert_eq!(
                events.iter().any(|event| event.contains("\"usage\":{")),
                shown,
                "{body}: {}",
                answer.text()
            );
            assert_eq!(answer.text().contains("\"usage\""), shown);
            if shown {
                let last: Value = serde_json::from_str(&events[events.len() - 2]).unwrap();
                assert_eq!(last["choices"], json!([]));
                let usage = &last["usage"];
                let sum = usage["prompt_tokens"].as_u64().unwrap()
                    + usage["completion_tokens"].as_u64().unwrap();
                assert_eq!(usage["total_tokens"], sum);
                let mark = (source == "estimated").then_some("estimated");
                assert_eq!(last["x_portcullis"]["usage"].as_str(), mark, "{last}");
            }
            let line = gateway.access_lines(n + 1).await.pop().unwrap();
            assert_eq!(line["usage"], source);
            // "hello" is five bytes; the words are nine.
            let tokens = if source == "reported" { (9, 3) } else { (2, 3) };
            assert_eq!(
                (
                    line["prompt_tokens"].as_u64().unwrap(),
                    line["completion_tokens"].as_u64().unwrap()
                ),
                tokens
            );
        }
    });
}

#[test]
fn d21_usage_is_counted_once_and_an_estimate_is_marked() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let words = || Script::sse().words(0..3);
        let (finish, usage) = (script::finish("stop"), script::usage(3));
        let mut both = finish.clone();
        both["usage"] = usage["usage"].clone();
        let mut asking = chat_stream("m");
        asking["stream_options"] = json!({"include_usage": true});
        let cases = [
            (
                "at the end",
                words().event(&finish).event(&usage),
                "reported",
                3,
            ),
            (
                "twice",
                words().event(&finish).event(&usage).event(&usage),
                "reported",
                3,
            ),
            ("in the last chunk", words().event(&both), "reported", 3),
            (
                "finish twice",
                words().event(&finish).event(&finish).event(&usage),
                "reported",
                3,
            ),
            (
                "growing",
                words().event(script::usage(1)).event(&finish).event(&usage),
                "reported",
                3,
            ),
            ("missing", words().event(&finish), "estimated", 3),
        ];
        for (n, (what, script, source, tokens)) in cases.into_iter().enumerate() {
            mock.push(script.done());
            let answer = gateway.post(&asking).await;
            let shown: Vec<_> = answer
                .events()
                .into_iter()
                .filter(|event| event.contains("\"usage\":{"))
                .collect();
            assert_eq!(shown.len(), 1, "{what}: {}", answer.text());
            assert_eq!(
                shown[0].contains("\"x_portcullis\":{\"usage\":\"estimated\"}"),
                source == "estimated",
                "{what}: {}",
                shown[0]
            );
            assert_eq!(
                answer.text().matches("\"finish_reason\":\"stop\"").count(),
                1,
                "{what}: {}",
                answer.text()
            );
            let line = gateway.access_lines(n + 1).await.pop().unwrap();
            assert_eq!(
                (&line["usage"], &line["completion_tokens"]),
                (&json!(source), &json!(tokens)),
                "{what}"
            );
        }
        let mut bare = script::completion("twelve bytes");
        bare.as_object_mut().unwrap().remove("usage");
        mock.push(Script::json(200, &bare))
            .push(Script::answer("counted"));
        let answer = gateway.post(&chat("m")).await;
        assert_eq!(answer.field("x-portcullis-usage"), Some("estimated"));
        assert_eq!(answer.json()["usage"]["completion_tokens"], 3);
        assert_eq!(
            gateway.post(&chat("m")).await.field("x-portcullis-usage"),
            None
        );
        let lines = gateway.access_lines(8).await;
        assert_eq!(
            (&lines[6]["usage"], &lines[7]["usage"]),
            (&json!("estimated"), &json!("reported"))
        );
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_usage_estimated_total", &[]),
            2.0
        );
    });
}

#[test]
fn events_are_passed_on_as_they_come() {
    run(async {
        let mock = Mock::start().await;
        let gates: Vec<_> = (0..4).map(|_| Gate::new()).collect();
        let script = gates
            .iter()
            .enumerate()
            .fold(Script::sse(), |script, (n, gate)| {
                script.words(n..n + 1).wait(gate)
            });
        mock.push(script.event(script::finish("stop")).done());
        let gateway = Gateway::over(&mock).await;
        let (mut connection, mut answer) = gateway.open(&chat_stream("m")).await;
        for (n, gate) in gates.iter().enumerate() {
            // Nothing more comes until the gate is open, so each word was passed on by itself.
            assert_eq!(
                read_to(&mut connection, &mut answer, &format!("w{n} ")).await,
                format!("w{n} ")
            );
            gate.open();
        }
        connection.rest(&mut answer).await;
        assert_eq!(
            (answer.events().pop().as_deref(), answer.end),
            (Some("[DONE]"), Some(End::Whole))
        );
        assert_eq!(answer.content(), "w0 w1 w2 w3 ");
        eventually("settled", || (gateway.lines().len() == 1).then_some(())).await;
    });
}
