//! The life of the process: how it starts, survives, drains and ends. It is section G of the fault
//! table.

mod terminal;

use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::canary::KEY;
use crate::support::client::{self, Connection, End, Response};
use crate::support::folder::{self, Folder};
use crate::support::gateway::{free_port, portcullis};
use crate::support::script::finish;
use crate::support::wire::Io;
use crate::support::{
    Catalog, Gate, Gateway, Mock, PATIENCE, Script, chat, chat_stream, eventually, is_about, root,
    run,
};

/// A stream of three words that waits for the test after the first.
fn gated(gate: &Gate) -> Script {
    Script::sse()
        .words(0..1)
        .wait(gate)
        .words(1..3)
        .event(finish("stop"))
        .done()
}

/// Opens a stream and reads its first word.
async fn open(gateway: &Gateway) -> (Connection, Response) {
    let (mut connection, mut head) = gateway.open(&chat_stream("m")).await;
    while client::content_of(&connection.event(&mut head).await.expect("a word").data).is_empty() {}
    (connection, head)
}

fn phase(gateway: &Gateway) -> String {
    gateway.status()["phase"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

async fn in_phase(gateway: &Gateway, wanted: &str) {
    eventually(wanted, || (phase(gateway) == wanted).then_some(())).await;
}

async fn refuses_connections(gateway: &Gateway) {
    eventually("new connections are refused", || {
        TcpStream::connect(gateway.address).is_err().then_some(())
    })
    .await;
}

#[test]
fn g01_an_idle_process_ends_at_once() {
    run(async {
        let mock = Mock::start().await;
        for signal in ["TERM", "INT"] {
            let mut gateway = Gateway::over(&mock).await;
            // Idle connections are no reason to stay.
            let mut connection = gateway.connect().await;
            connection.send(client::post(&chat("m"))).await;
            assert_eq!(connection.response().await.status, 200);
            gateway.signal(signal);
            // Far sooner than what runs may take.
            assert_eq!(gateway.exit(PATIENCE).code(), Some(0), "SIG{signal}");
            connection.closed().await;
            assert_eq!(gateway.lines().len(), 1);
        }
    });
}

#[test]
fn g02_a_hundred_streams_end_whole_then_the_process() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        mock.always(gated(&gate));
        let mut gateway = Gateway::with(Catalog::over(&mock))
            .listen("h2c: true")
            .start()
            .await;
        let mut streams = Vec::new();
        for _ in 0..100 {
            streams.push(open(&gateway).await);
        }
        let h2 = gateway.h2c(0).await;
        let bearer = format!("Bearer {KEY}");
        let fields = [("authorization", bearer.as_str())];
        let (mut answer, mut stream) = h2
            .open(
                "POST",
                "/v1/chat/completions",
                &fields,
                chat_stream("m").to_string().as_bytes(),
            )
            .await
            .unwrap();
        gateway.signal("TERM");
        in_phase(&gateway, "draining").await;
        refuses_connections(&gateway).await;
        // Until its last moment it tells how it is.
        assert_eq!(
            (gateway.admin("/livez").0, gateway.admin("/readyz").0),
            (200, 503)
        );
        assert_eq!(gateway.status()["exchanges"], 101);
        assert_eq!(gateway.metrics().sum("portcullis_in_flight", &[]), 101.0);
        gate.open();
        for (connection, head) in &mut streams {
            connection.rest(head).await;
            assert_eq!(
                (head.content().as_str(), head.end),
                ("w0 w1 w2 ", Some(End::Whole))
            );
            assert_eq!(head.events().last().map(String::as_str), Some("[DONE]"));
        }
        while h2.piece(&mut answer, &mut stream).await.is_some() {}
        assert_eq!(
            (answer.content().as_str(), answer.end),
            ("w0 w1 w2 ", Some(End::Whole))
        );
        // Far sooner than the grace is over.
        assert_eq!(gateway.exit(PATIENCE).code(), Some(0));
        let lines = gateway.lines();
        assert_eq!(lines.len(), 101);
        assert!(
            lines.iter().all(|line| line["outcome"] == "ok"),
            "{lines:#?}"
        );
    });
}

#[test]
fn g03_what_outlasts_the_grace_is_told_and_settled() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::sse().words(0..2).stall());
        mock.on_by("buffered", |_| Script::silent());
        let catalog = Catalog::over(&mock).model("buffered", &["a"]);
        let mut gateway = Gateway::with(catalog)
            .server("drain: { grace: 1s }")
            .start()
            .await;
        let (mut streaming, mut head) = open(&gateway).await;
        let mut buffered = gateway.connect().await;
        buffered.send(client::post(&chat("buffered"))).await;
        // Still sending: its body will never be whole.
        let mut sending = gateway.connect().await;
        let request = client::post(&chat("m"));
        sending.send(&request[..request.len() - 5]).await;
        eventually("all run", || {
            (gateway.status()["exchanges"] == 3 && mock.count() == 2).then_some(())
        })
        .await;
        let start = Instant::now();
        gateway.signal("TERM");
        streaming.rest(&mut head).await;
        assert!(
            is_about(start.elapsed(), Duration::from_secs(1)),
            "{:?}",
            start.elapsed()
        );
        assert_eq!(
            (head.content().as_str(), head.end),
            ("w0 w1 ", Some(End::Whole))
        );
        let events = head.events();
        let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
        assert_eq!(last["error"]["code"], "shutting_down", "{last}");
        let not_complete = "that you received is not complete";
        let message = &last["error"]["message"];
        assert!(message.to_string().contains(not_complete), "{last}");
        assert!(
            events
                .iter()
                .all(|event| event != "[DONE]" && !event.contains("\"finish_reason\":\"")),
            "{events:#?}"
        );
        let answer = buffered.response().await;
        answer.is_error(503, "shutting_down");
        let message = answer.json()["error"]["message"].to_string();
        assert!(
            message.contains("could not wait for the answer") && !message.contains(not_complete),
            "{message}"
        );
        assert!(answer.field("retry-after").is_some());
        sending.response().await.is_error(503, "shutting_down");
        assert_eq!(gateway.exit(PATIENCE).code(), Some(0));
        let lines = gateway.lines();
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert!(
            lines.iter().all(|line| line["outcome"] == "shutdown"),
            "{lines:#?}"
        );
        let stream = lines.iter().find(|line| line["stream"] == true).unwrap();
        assert!(
            stream["completion_tokens"].as_u64() > Some(0) && stream["usage"] == "estimated",
            "what was received is accounted for: {stream}"
        );
        for number in 0..2 {
            mock.left(number).await;
        }
    });
}

/// Events that fill every buffer between the gateway and a caller who does not read.
fn flood() -> Script {
    let word = crate::support::script::delta(&"w".repeat(64 << 10)).to_string();
    (0..96)
        .fold(Script::sse().words(0..1), |script, _| script.event(&word))
        .stall()
}

/// Opens streams whose callers read one word and then nothing, until the gateway cannot write any
/// more. The callers have small buffers.
async fn unread(gateway: &Gateway, number: usize) -> Vec<(Connection, Response)> {
    let mut streams = Vec::new();
    for _ in 0..number {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 << 10).unwrap();
        let stream = socket.connect(gateway.address).await.unwrap();
        let mut connection = Connection::over(Io::Tcp(stream), None);
        connection.send(client::post(&chat_stream("m"))).await;
        let mut head = connection.head().await.expect("a head");
        while client::content_of(&connection.event(&mut head).await.expect("a word").data)
            .is_empty()
        {}
        streams.push((connection, head));
    }
    gateway.is_quiet_with(number).await;
    streams
}

/// Of 9,900 streams on a busy machine a third was once cut in mid-chunk: their callers had not read
/// within the tenth of a second that each write had.
#[test]
fn g03_slow_callers_are_told_too_while_there_is_progress() {
    run(async {
        let mock = Mock::start().await;
        mock.always(flood());
        let mut gateway = Gateway::with(Catalog::over(&mock))
            .server("drain: { grace: 100ms }")
            .start()
            .await;
        let streams = unread(&gateway, 4).await;
        gateway.hold_clock();
        gateway.signal("TERM");
        in_phase(&gateway, "cutting").await;
        for (left, (mut connection, mut head)) in (0..streams.len()).rev().zip(streams) {
            // A caller on a busy machine comes to it when it can.
            gateway.advance(Duration::from_millis(1_500)).await;
            connection.rest(&mut head).await;
            let events = head.events();
            let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
            assert_eq!(
                (head.end, &last["error"]["code"]),
                (Some(End::Whole), &"shutting_down".into()),
                "{last}"
            );
            // The last one is settled when the process ends.
            eventually("the exchange is settled", || {
                (left == 0 || gateway.status()["exchanges"] == left).then_some(())
            })
            .await;
        }
        assert_eq!(gateway.exit(PATIENCE).code(), Some(0));
        assert!(
            gateway
                .lines()
                .iter()
                .all(|line| line["outcome"] == "shutdown"),
            "{:#?}",
            gateway.lines()
        );
        assert!(
            !gateway.log().contains("without an error"),
            "{}",
            gateway.log()
        );
    });
}

#[test]
fn g03_a_stopped_reader_counts_in_the_exit_code() {
    run(async {
        let mock = Mock::start().await;
        mock.always(flood());
        let mut gateway = Gateway::with(Catalog::over(&mock))
            .server("drain: { grace: 100ms }")
            .start()
            .await;
        let streams = unread(&gateway, 2).await;
        gateway.signal("TERM");
        assert_eq!(gateway.exit(PATIENCE).code(), Some(3));
        assert!(
            gateway
                .log()
                .contains("2 exchanges were cut without an error"),
            "{}",
            gateway.log()
        );
        let lines = gateway.lines();
        assert_eq!(lines.len(), 2, "{lines:#?}");
        assert!(
            lines.iter().all(|line| line["outcome"] == "shutdown"),
            "{lines:#?}"
        );
        drop(streams);
    });
}

/// The process ends while their tasks still wait for callers who do not read. What they used is not
/// lost: the end of the process writes their lines and rows itself.
#[test]
fn g03_unfinished_work_is_in_log_and_ledger() {
    run(async {
        let mock = Mock::start().await;
        mock.always(flood());
        let mut gateway = Gateway::with(Catalog::over(&mock))
            .server("drain: { grace: 60s }")
            .start()
            .await;
        let streams = unread(&gateway, 2).await;
        gateway.signal("TERM");
        in_phase(&gateway, "draining").await;
        gateway.signal("TERM");
        assert_eq!(gateway.exit(PATIENCE).code(), Some(130));
        assert!(
            gateway
                .log()
                .contains("2 exchanges were cut without an error"),
            "{}",
            gateway.log()
        );
        assert!(
            !gateway.log().contains("have no access line"),
            "{}",
            gateway.log()
        );
        let lines = gateway.lines();
        assert_eq!(lines.len(), 2, "{lines:#?}");
        for line in &lines {
            assert_eq!(
                (&line["outcome"], &line["key"]),
                (&"shutdown".into(), &"acme/prod".into()),
                "{line}"
            );
            assert_eq!(
                line["error"], "The process ended before its caller could be told so.",
                "{line}"
            );
            assert!(
                line["completion_tokens"].as_u64() > Some(0) && line["usage"] == "estimated",
                "{line}"
            );
        }
        let usage = [
            "usage",
            "--conf",
            gateway.conf.to_str().unwrap(),
            "--by",
            "outcome",
            "--json",
        ];
        let told: Value = serde_json::from_slice(&portcullis(&usage).stdout).unwrap();
        let used: u64 = lines
            .iter()
            .filter_map(|line| line["completion_tokens"].as_u64())
            .sum();
        let row = &told["usage"][0];
        assert_eq!(
            (&row["outcome"], &row["requests"]),
            (&"shutdown".into(), &2.into()),
            "{told}"
        );
        assert_eq!(told["total"]["completion_tokens"], used, "{told}");
        drop(streams);
    });
}

#[test]
fn g05_during_the_delay_requests_are_answered_and_connections_close() {
    run(async {
        let mock = Mock::start().await;
        // So long that nothing here can outlast it.
        let mut gateway = Gateway::with(Catalog::over(&mock))
            .server("drain: { delay: 60s }")
            .start()
            .await;
        // Probes leave no access line, so they are not in the ledger.
        let probe = async |target: &str| {
            let mut connection = Connection::plain(gateway.address, None).await;
            connection
                .send(client::request("GET", target, &[], b""))
                .await;
            connection.response().await.status
        };
        let mut asking = gateway.connect().await;
        asking.send(client::post(&chat("m"))).await;
        let answer = asking.response().await;
        assert!(
            answer.status == 200 && answer.field("connection") != Some("close"),
            "{:?}",
            answer.fields
        );
        gateway.signal("TERM");
        in_phase(&gateway, "delaying").await;
        // Ready no more, alive all the same, on every listener.
        assert_eq!(
            (gateway.admin("/readyz").0, gateway.admin("/livez").0),
            (503, 200)
        );
        assert_eq!((probe("/readyz").await, probe("/livez").await), (503, 200));
        // An old connection and a new one are served once more, and told to go elsewhere.
        asking.send(client::post(&chat("m"))).await;
        let answer = asking.response().await;
        assert_eq!(
            (answer.status, answer.field("connection")),
            (200, Some("close"))
        );
        assert!(asking.closed().await);
        let answer = gateway.post(&chat("m")).await;
        assert_eq!(
            (answer.status, answer.field("connection")),
            (200, Some("close"))
        );
        assert_eq!(phase(&gateway), "delaying");
        gateway.signal("TERM");
        assert_eq!(gateway.exit(PATIENCE).code(), Some(130));
        assert_eq!(gateway.lines().len(), 3);
    });
}

#[test]
fn g05_idle_callers_go_after_the_delay_others_stay() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        let mut gateway = Gateway::with(Catalog::over(&mock))
            .server("drain: { delay: 700ms, grace: 60s }")
            .start()
            .await;
        let mut idle = gateway.connect().await;
        idle.send(client::post(&chat("m"))).await;
        assert_eq!(idle.response().await.status, 200);
        mock.push(gated(&gate));
        let (mut running, mut head) = open(&gateway).await;
        let start = Instant::now();
        gateway.signal("TERM");
        in_phase(&gateway, "draining").await;
        assert!(
            start.elapsed() >= Duration::from_millis(700),
            "{:?}",
            start.elapsed()
        );
        refuses_connections(&gateway).await;
        assert!(
            tokio::time::timeout(PATIENCE, idle.closed())
                .await
                .expect("idle connections close")
        );
        gate.open();
        running.rest(&mut head).await;
        assert_eq!(
            (head.content().as_str(), head.end),
            ("w0 w1 w2 ", Some(End::Whole))
        );
        assert_eq!(gateway.exit(PATIENCE).code(), Some(0));
        assert_eq!(gateway.lines().len(), 2);
    });
}

#[test]
fn a_second_signal_ends_the_process_now() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::sse().words(0..1).stall());
        for (server, wanted, second) in [
            ("drain: { grace: 60s }", "draining", "TERM"),
            ("drain: { delay: 60s }", "delaying", "INT"),
        ] {
            let mut gateway = Gateway::with(Catalog::over(&mock))
                .server(server)
                .start()
                .await;
            let (mut connection, mut head) = open(&gateway).await;
            gateway.signal("TERM");
            in_phase(&gateway, wanted).await;
            gateway.signal(second);
            // What runs is told so, and logged.
            connection.rest(&mut head).await;
            let last: Value = serde_json::from_str(head.events().last().unwrap()).unwrap();
            assert_eq!(
                (&last["error"]["code"], head.end),
                (&Value::from("shutting_down"), Some(End::Whole)),
                "{last}"
            );
            assert_eq!(
                gateway.exit(PATIENCE).code(),
                Some(130),
                "what was cut is no success"
            );
            let lines = gateway.lines();
            assert!(
                lines.len() == 1 && lines[0]["outcome"] == "shutdown",
                "{lines:#?}"
            );
        }
    });
}

#[test]
fn a_second_signal_right_after_the_first_counts() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::sse().words(0..1).stall());
        for _ in 0..5 {
            let mut gateway = Gateway::with(Catalog::over(&mock))
                .server("drain: { grace: 60s }")
                .start()
                .await;
            let mut connection = Connection::plain(gateway.address, None).await;
            connection.send(client::post(&chat_stream("m"))).await;
            connection.head().await.unwrap();
            // Two of one kind would be one to the kernel.
            gateway.signal("TERM");
            gateway.signal("INT");
            assert_eq!(gateway.exit(PATIENCE).code(), Some(130));
            connection.closed().await;
        }
    });
}

#[test]
fn g07_after_sigkill_it_starts_again_at_once() {
    run(async {
        let mock = Mock::start().await;
        mock.push(Script::sse().words(0..1).stall());
        let mut gateway = Gateway::over(&mock).await;
        let mut connection = Connection::plain(gateway.address, None).await;
        connection.send(client::post(&chat_stream("m"))).await;
        let mut head = connection.head().await.unwrap();
        connection.event(&mut head).await.unwrap();
        gateway.crash_and_restart();
        connection.rest(&mut head).await;
        // Never made to look whole.
        assert_ne!(head.end, Some(End::Whole));
        mock.left(0).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
    });
}

#[test]
#[cfg_attr(not(feature = "test-panics"), ignore = "needs --features test-panics")]
fn g09_a_panic_after_an_interim_answer_is_500() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let bearer = format!("Bearer {KEY}");
        let fields = [
            ("authorization", bearer.as_str()),
            ("x-test-panic", "relay"),
            ("expect", "100-continue"),
        ];
        let mut connection = gateway.connect().await;
        let body = chat("m").to_string();
        connection
            .send(client::request(
                "POST",
                "/v1/chat/completions",
                &fields,
                body.as_bytes(),
            ))
            .await;
        let answer = connection.response().await;
        assert_eq!(answer.informational, [100]);
        answer.is_error(500, "internal_error");
    });
}

#[test]
#[cfg_attr(not(feature = "test-panics"), ignore = "needs --features test-panics")]
fn g09_a_panic_costs_one_exchange_and_nothing_else() {
    run(async {
        let mock = Mock::start().await;
        // A stream that does not end, so that it is in the middle of it that the relay panics.
        mock.by(|request| match request.json()["stream"] == true {
            true => Script::sse().words(0..1).stall(),
            false => Script::answer("whole"),
        });
        let catalog = Catalog::new()
            .account_with("a", &mock, "concurrency: 1")
            .model("m", &["a"]);
        let gateway = Gateway::with(catalog).listen("h2c: true").start().await;
        let bearer = format!("Bearer {KEY}");
        let h2 = gateway.h2c(0).await;
        let mut panics = 0;
        for phase in ["door", "auth", "intake", "plan", "exchange", "relay"] {
            for stream in [false, true] {
                let body = if stream { chat_stream("m") } else { chat("m") }.to_string();
                let fields = [("authorization", bearer.as_str()), ("x-test-panic", phase)];
                let mut connection = gateway.connect().await;
                connection
                    .send(client::request(
                        "POST",
                        "/v1/chat/completions",
                        &fields,
                        body.as_bytes(),
                    ))
                    .await;
                match connection.try_response("POST").await {
                    Some(answer) if phase == "relay" && stream => {
                        assert_ne!(answer.end, Some(End::Whole), "{}", answer.text())
                    }
                    Some(answer) => drop(answer.is_error(500, "internal_error")),
                    None => {}
                }
                connection.closed().await;
                panics += 1;
                // On HTTP/2 the other streams of the connection go on.
                match h2
                    .open("POST", "/v1/chat/completions", &fields, body.as_bytes())
                    .await
                {
                    Ok((mut answer, mut rest)) => {
                        while h2.piece(&mut answer, &mut rest).await.is_some() {}
                        assert!(
                            answer.status == 500 || answer.end != Some(End::Whole),
                            "{phase}: {}",
                            answer.text()
                        );
                    }
                    Err(error) => assert!(error.is_reset(), "{phase}: {error}"),
                }
                panics += 1;
                let count = || {
                    (gateway.metrics().sum("portcullis_panics_total", &[]) == f64::from(panics))
                        .then_some(())
                };
                eventually("the panics are counted", count).await;
                gateway.idle().await;
                assert_eq!(
                    h2.post(&chat("m")).await.status,
                    200,
                    "after a panic in {phase}"
                );
            }
        }
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let lines = gateway.access_lines(12 * 3 + 1).await;
        let internal: Vec<_> = lines
            .iter()
            .filter(|line| line["outcome"] == "internal")
            .collect();
        assert_eq!(internal.len(), 24, "{lines:#?}");
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_requests_total", &[("outcome", "internal")]),
            24.0
        );
    });
}

#[test]
fn g10_who_takes_all_connections_costs_no_processor() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .open_files(128)
            .start()
            .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let mut held = Vec::new();
        for _ in 0..150 {
            held.push(TcpStream::connect(gateway.address).unwrap());
        }
        let refused = || {
            gateway
                .metrics()
                .sum("portcullis_connections_refused_total", &[])
        };
        eventually("those that are too many are closed", || {
            (refused() >= 100.0).then_some(())
        })
        .await;
        let (start, before) = (Instant::now(), gateway.process.cpu());
        // What is measured is a stretch of time in which nothing happens.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let (passed, spent) = (start.elapsed(), gateway.process.cpu() - before);
        assert!(spent < passed / 4, "it spins: {spent:?} of {passed:?}");
        drop(held);
        // The connections that were let in have their places until the gateway has seen them go.
        let open = || gateway.process.descriptors().connections;
        let are_gone = || open().iter().all(|(local, _)| *local != gateway.address);
        eventually("callers have no connection any more", || {
            are_gone().then_some(())
        })
        .await;
        let answer = gateway.post(&chat("m")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    });
}

#[test]
fn g11_deadlines_do_not_go_by_the_wall_clock() {
    run(async {
        let tools = Folder::new(&[("shift", "0")]);
        let (library, shift) = (tools.path().join("clock.so"), tools.path().join("shift"));
        let source = root().join("tests/support/clock.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(source)
            .status();
        assert!(
            built
                .expect("a C compiler, as the build needs one")
                .success()
        );
        let jump = |seconds: i64| {
            std::fs::write(shift.with_extension("new"), seconds.to_string()).unwrap();
            std::fs::rename(shift.with_extension("new"), &shift).unwrap();
        };
        let mock = Mock::start().await;
        mock.always(Script::silent());
        mock.on_by("good", |_| Script::answer("still here"));
        let catalog = Catalog::new()
            .account_with("a", &mock, "timeouts: { first_byte: 1s, total: 1s }")
            .account("b", &mock)
            .model("m", &["a"])
            .model("good", &["b"]);
        let gateway = Gateway::with(catalog)
            .env("LD_PRELOAD", library.to_str().unwrap())
            .env("CLOCK_SHIFT", shift.to_str().unwrap())
            .start()
            .await;
        let mut asked = 0;
        for (seconds, body) in [
            (3600, chat("m")),
            (-3600, chat_stream("m")),
            (3600, chat_stream("m")),
            (0, chat("m")),
        ] {
            let mut connection = gateway.connect().await;
            let start = Instant::now();
            connection.send(client::post(&body)).await;
            mock.request(asked).await;
            jump(seconds);
            connection
                .response()
                .await
                .is_error(504, "upstream_timeout");
            assert!(
                is_about(start.elapsed(), Duration::from_secs(1)),
                "{:?} with a jump to {seconds} s",
                start.elapsed()
            );
            // Idle connections of callers and to upstreams live on, and so does the catalog.
            connection.send(client::post(&chat("good"))).await;
            assert_eq!(connection.response().await.status, 200);
            asked += 2;
        }
        let lines = gateway.access_lines(8).await;
        let hours: Vec<_> = lines
            .iter()
            .map(|line| line["time"].as_str().unwrap()[..13].to_owned())
            .collect();
        assert!(
            hours[1] > hours[0] && hours[3] < hours[1] && hours[5] > hours[3],
            "the clock did jump: {hours:?}"
        );
        assert!(
            lines
                .iter()
                .all(|line| line["total_ms"].as_u64().unwrap() < 60_000),
            "{lines:#?}"
        );
    });
}

#[test]
fn g12_ready_means_bound_and_ends_with_the_signal() {
    run(async {
        let (one, two, admin) = (free_port(), free_port(), free_port());
        let server = format!(
            "listen: [{{ address: \"{one}\" }}, {{ address: \"{two}\", h2c: true }}]\nadmin: {{ address: \"{admin}\" }}\ndrain: {{ delay: 60s }}\n"
        );
        let folder = Folder::new(&[
            ("server.yaml", &server),
            ("catalog.yaml", "accounts: {}\nmodels: {}\ncallers: {}\n"),
        ]);
        let mut process = folder.start(&["serve"]);
        let probe = async |address, target: &str| {
            let mut connection = Connection::over(
                crate::support::wire::Io::Tcp(tokio::net::TcpStream::connect(address).await.ok()?),
                None,
            );
            connection
                .send(client::request(
                    "GET",
                    target,
                    &[("connection", "close")],
                    b"",
                ))
                .await;
            connection
                .try_response("GET")
                .await
                .map(|answer| answer.status)
        };
        let start = Instant::now();
        loop {
            match probe(admin, "/readyz").await {
                Some(200) => break,
                // Not there, or there and not ready.
                None | Some(503) => assert!(start.elapsed() < PATIENCE, "{}", process.stderr()),
                Some(other) => panic!("/readyz says {other}"),
            }
        }
        // Not a moment later than it said so.
        for address in [one, two, admin] {
            assert_eq!(
                (
                    probe(address, "/readyz").await,
                    probe(address, "/livez").await
                ),
                (Some(200), Some(200)),
                "{address}"
            );
        }
        process.signal("TERM");
        folder::logged(&process, "stopping on a signal");
        for address in [one, two, admin] {
            assert_eq!(
                (
                    probe(address, "/readyz").await,
                    probe(address, "/livez").await
                ),
                (Some(503), Some(200)),
                "{address}"
            );
        }
        process.signal("TERM");
        assert!(process.wait(PATIENCE).is_some());
        assert_eq!(process.stdout(), b"", "probes are no exchanges");
    });
}

#[test]
fn a_port_in_use_is_named_at_once() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (taken_at, free) = (taken.local_addr().unwrap(), free_port());
    for (listen, admin) in [(taken_at, free), (free, taken_at)] {
        let server =
            format!("listen: [{{ address: \"{listen}\" }}]\nadmin: {{ address: \"{admin}\" }}\n");
        let folder = Folder::new(&[
            ("server.yaml", &server),
            ("catalog.yaml", "accounts: {}\nmodels: {}\ncallers: {}\n"),
        ]);
        let start = Instant::now();
        let ran = folder.run(&["serve"]);
        // Pingora itself would try again for half a minute.
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        assert_eq!(ran.status.code(), Some(1));
        let holder = format!(
            "(process {}) listens there already. Stop it, or",
            std::process::id()
        );
        for word in [taken_at.to_string().as_str(), &holder, "server.yaml"] {
            assert!(ran.stderr.contains(word), "no {word:?} in {}", ran.stderr);
        }
    }
}

#[test]
fn a_second_gateway_says_how_to_stop_the_first() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let admin = format!("admin: {{ address: \"{}\" }}\n", free_port());
        let catalog = Catalog::over(&mock).to_string();
        let folder = Folder::new(&[("server.yaml", &admin), ("catalog.yaml", &catalog)]);
        let ran = folder.run(&["serve", "--listen", &gateway.address.to_string()]);
        let expected = format!(
            "cannot listen on {}: portcullis (process {pid}) listens there already. If it is not needed, stop it with \
             `kill {pid}` (a service with `systemctl stop`), or choose another address: `listen` in server.yaml, or --listen",
            gateway.address,
            pid = gateway.process.pid()
        );
        assert!(ran.stderr.contains(&expected), "{}", ran.stderr);
    });
}

#[test]
fn conflicting_listeners_are_named_at_once() {
    let (one, other, third) = (free_port(), free_port(), free_port());
    let everywhere = format!("0.0.0.0:{}", one.port());
    let catalog = ("catalog.yaml", "accounts: {}\nmodels: {}\ncallers: {}\n");
    for (listen, admin, more) in [
        (other.to_string(), third, vec![everywhere, one.to_string()]),
        (other.to_string(), one, vec![one.to_string()]),
        (
            other.to_string(),
            third,
            vec![one.to_string(), one.to_string()],
        ),
    ] {
        let server =
            format!("listen: [{{ address: \"{listen}\" }}]\nadmin: {{ address: \"{admin}\" }}\n");
        let folder = Folder::new(&[("server.yaml", &server), catalog]);
        let mut arguments = vec!["serve"];
        for address in &more {
            arguments.extend(["--listen", address]);
        }
        let ran = folder.run(&arguments);
        assert_eq!(
            ran.status.code(),
            Some(1),
            "{listen} {admin} {more:?}: {}",
            ran.stderr
        );
        assert!(
            ran.stderr.contains(&one.to_string()) && ran.stderr.contains("twice"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn equal_ports_of_other_addresses_are_no_conflict() {
    let one = free_port();
    let other = std::net::SocketAddr::from(([127, 0, 0, 2], one.port()));
    let _taken = std::net::TcpListener::bind(other).unwrap();
    let absent = std::net::SocketAddr::from(([192, 0, 2, 1], one.port()));
    let holder = format!("(process {}) listens there already", std::process::id());
    for (admin, cause) in [(other, &*holder), (absent, "(os error 99); ")] {
        let server =
            format!("listen: [{{ address: \"{one}\" }}]\nadmin: {{ address: \"{admin}\" }}\n");
        let folder = Folder::new(&[
            ("server.yaml", &server),
            ("catalog.yaml", "accounts: {}\nmodels: {}\ncallers: {}\n"),
        ]);
        let ran = folder.run(&["serve"]);
        assert_eq!(ran.status.code(), Some(1));
        let named = format!("cannot listen on {admin}: ");
        for word in [&*named, cause, "choose another address: `admin.address`"] {
            assert!(ran.stderr.contains(word), "no {word:?} in {}", ran.stderr);
        }
        assert!(!ran.stderr.contains("twice"), "{}", ran.stderr);
    }
}

#[test]
fn it_ends_though_nobody_reads_its_output() {
    let (listen, admin) = (free_port(), free_port());
    let server =
        format!("listen: [{{ address: \"{listen}\" }}]\nadmin: {{ address: \"{admin}\" }}\n");
    let folder = Folder::new(&[
        ("server.yaml", &server),
        ("catalog.yaml", "accounts: {}\nmodels: {}\ncallers: {}\n"),
    ]);
    for signals in [&["TERM"][..], &["TERM", "INT"]] {
        let mut command = Command::new(crate::support::gateway::BINARY);
        command
            .args(["serve", "--conf"])
            .arg(folder.path())
            .current_dir(folder.path())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        run(async {
            let connected = || TcpStream::connect(listen).ok();
            eventually("it listens", connected).await;
            let mut connection = Connection::plain(listen, None).await;
            // More than a pipe holds.
            for _ in 0..400 {
                connection
                    .send(client::request(
                        "GET",
                        &format!("/{}", "x".repeat(60)),
                        &[],
                        b"",
                    ))
                    .await;
                assert_eq!(connection.response().await.status, 404);
            }
        });
        for signal in signals {
            Command::new("kill")
                .args([&format!("-{signal}"), &child.id().to_string()])
                .status()
                .unwrap();
        }
        let start = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if start.elapsed() > PATIENCE => {
                    child.kill().unwrap();
                    panic!("it does not end");
                }
                None => std::thread::park_timeout(Duration::from_millis(10)),
            }
        };
        assert!(status.code().is_some(), "{status}");
    }
}
