//! Callers that leave, stop, read slowly or flood: the gateway lets the upstream go at once, and
//! nobody else notices.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::failover::trail_of_leaver;
use crate::support::canary::KEY;
use crate::support::client::{Connection, End, post};
use crate::support::script::{self, JSON};
use crate::support::wire::{Io, position};
use crate::support::{
    Catalog, Gate, Gateway, Mock, PATIENCE, Script, chat, chat_stream, eventually, is_about, run,
    spawn,
};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn e01_a_caller_who_leaves_ends_the_upstream_too() {
    run(async {
        let part = || {
            Script::new()
                .head(200, &[JSON, ("transfer-encoding", "chunked")])
                .body("{\"id\":")
                .stall()
        };
        let last = || {
            Script::sse()
                .words(0..3)
                .event(script::finish("stop"))
                .stall()
        };
        let cases = [
            ("before the head", chat("m"), Script::silent(), ""),
            (
                "before the head of a stream",
                chat_stream("m"),
                Script::silent(),
                "",
            ),
            ("while an answer is being made", chat("m"), part(), ""),
            (
                "before the first event",
                chat_stream("m"),
                Script::sse().stall(),
                "",
            ),
            (
                "after three events",
                chat_stream("m"),
                Script::sse().words(0..3).stall(),
                "w2 ",
            ),
            ("in the last event", chat_stream("m"), last(), "w2 "),
        ];
        let mock = Mock::start().await;
        let gateway = Gateway::start(
            Catalog::new()
                .account_with("a", &mock, "concurrency: 1")
                .model("m", &["a"]),
        )
        .await;
        let mut n = 0;
        for (what, body, script, read) in cases {
            for by_reset in [false, true] {
                mock.push(script.clone());
                let mut connection = gateway.connect().await;
                connection.send(post(&body)).await;
                mock.request(n).await;
                if !read.is_empty() {
                    let mut answer = connection.head().await.unwrap();
                    while !answer.content().ends_with(read) {
                        connection.event(&mut answer).await.unwrap();
                    }
                }
                let began = Instant::now();
                if by_reset {
                    connection.reset()
                } else {
                    drop(connection)
                }
                let left = mock.left(n).await - began;
                assert!(
                    left < PATIENCE,
                    "{what}: the upstream was left after {left:?}"
                );
                n += 1;
                let line = gateway.access_lines(n).await.pop().unwrap();
                assert_eq!(
                    (&line["outcome"], &line["status"]),
                    (&json!("client_left"), &json!(499)),
                    "{what}: {line}"
                );
                assert_eq!(
                    (trail_of_leaver(&line).as_str(), &line["maybe_billed"]),
                    ("a:client_left", &json!(true)),
                    "{what}"
                );
                // What was asked for the caller is counted, and of the answer what was passed on.
                assert_eq!(
                    (
                        &line["usage"],
                        line["prompt_tokens"].as_u64() > Some(0),
                        line["completion_tokens"].as_u64() > Some(0)
                    ),
                    (&json!("estimated"), true, !read.is_empty()),
                    "{what}: {line}"
                );
                gateway.idle().await;
            }
        }
    });
}

#[test]
fn e01_a_caller_who_leaves_while_connecting_is_noticed() {
    run(async {
        let deaf = Mock::deaf().await;
        let slow = "timeouts: { connect: 60s }";
        let gateway = Gateway::start(
            Catalog::new()
                .account_with("a", &deaf, slow)
                .model("m", &["a"]),
        )
        .await;
        let mut connection = gateway.connect().await;
        connection.send(post(&chat("m"))).await;
        eventually("it is in flight", || {
            (gateway.metrics().sum("portcullis_in_flight", &[]) == 1.0).then_some(())
        })
        .await;
        drop(connection);
        gateway.idle().await;
        assert_eq!(gateway.line().await["outcome"], "client_left");
    });
}

#[test]
fn e01_leaving_just_at_the_end_settles_once() {
    run(async {
        const TIMES: usize = 20;
        let mock = Mock::start().await;
        let gateway = Gateway::start(
            Catalog::new()
                .account_with("a", &mock, "concurrency: 1")
                .model("m", &["a"]),
        )
        .await;
        for n in 0..TIMES {
            let gate = Gate::new();
            mock.push(
                Script::sse()
                    .words(0..3)
                    .wait(&gate)
                    .event(script::finish("stop"))
                    .event(script::usage(3))
                    .done(),
            );
            let (mut connection, mut answer) = gateway.open(&chat_stream("m")).await;
            while !answer.content().ends_with("w2 ") {
                connection.event(&mut answer).await.unwrap();
            }
            gate.open();
            if n % 2 == 0 {
                connection.reset()
            } else {
                drop(connection)
            }
            let line = gateway.access_lines(n + 1).await.pop().unwrap();
            let outcome = line["outcome"].as_str().unwrap();
            assert!(["ok", "client_left"].contains(&outcome), "{line}");
            assert_eq!(line["completion_tokens"], 3);
            gateway.idle().await;
        }
    });
}

#[test]
fn e02_half_a_body_never_reaches_an_upstream() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("timeouts: { client_read: 500ms }")
            .start()
            .await;
        let whole = post(&chat("m"));
        let half = &whole[..whole.len() - 10];
        for (n, by_reset) in [false, true].into_iter().enumerate() {
            let mut connection = gateway.connect().await;
            connection.send(half).await;
            if by_reset {
                connection.reset()
            } else {
                drop(connection)
            }
            let line = gateway.access_lines(n + 1).await.pop().unwrap();
            assert_eq!(
                (&line["outcome"], &line["status"]),
                (&json!("client_left"), &json!(499)),
                "{line}"
            );
        }
        // Silence, and dripping, which is no better.
        for (n, drips) in [false, true].into_iter().enumerate() {
            let mut connection = gateway.connect().await;
            let declared = String::from_utf8_lossy(&whole).replacen(
                "content-length: ",
                "content-length: 9",
                1,
            );
            let began = Instant::now();
            connection
                .send(if drips { declared.as_bytes() } else { half })
                .await;
            let answer = loop {
                let read = connection.try_response("POST");
                match drips {
                    false => break read.await.unwrap(),
                    true => match tokio::time::timeout(ms(50), read).await {
                        Ok(answer) => break answer.unwrap(),
                        Err(_) => drop(connection.send(b" ").await),
                    },
                }
            };
            answer.is_error(408, "request_timeout");
            assert!(
                is_about(began.elapsed(), ms(500)),
                "drips: {drips}: {:?}",
                began.elapsed()
            );
            drop(connection);
            let line = gateway.access_lines(n + 3).await.pop().unwrap();
            assert_eq!(
                (&line["outcome"], &line["status"]),
                (&json!("refused"), &json!(408))
            );
        }
        assert_eq!(mock.count(), 0);
    });
}

/// A connection that takes in next to nothing by itself.
async fn narrow(address: SocketAddr) -> Connection {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    Connection::over(Io::Tcp(socket.connect(address).await.unwrap()), None)
}

/// A stream of so many MiB.
fn long(mib: usize) -> Script {
    let event = script::delta(&"x".repeat(32 * 1024 - 256));
    (0..mib * 32)
        .fold(Script::sse(), |script, _| script.event(&event))
        .event(script::finish("stop"))
        .done()
}

#[test]
fn e04_a_stopped_reader_holds_back_and_is_cut() {
    run(async {
        const STOPPED: usize = 3;
        let mock = Mock::start().await;
        mock.on("long", long(24));
        let gateway = Gateway::with(
            Catalog::new()
                .account("a", &mock)
                .model("long", &["a"])
                .model("m", &["a"]),
        )
        .server("timeouts: { client_write: 4s }")
        .returns_memory_at_once()
        .start()
        .await;
        // What a first exchange costs is not what is measured.
        gateway.post(&chat_stream("m")).await;
        let before = gateway.rss();
        let began = Instant::now();
        let mut stopped = Vec::new();
        for n in 0..STOPPED {
            let mut connection = narrow(gateway.address).await;
            connection.send(post(&chat_stream("long"))).await;
            mock.request(n + 1).await;
            stopped.push(connection);
        }
        let mut others = 0;
        let mut most = 0;
        while gateway.lines().len() < STOPPED + 1 + others {
            assert_eq!(gateway.post(&chat_stream("m")).await.content(), "w0 w1 w2 ");
            others += 1;
            most = most.max(gateway.rss());
            assert!(
                began.elapsed() < 2 * PATIENCE,
                "a reader who stopped is not cut off"
            );
            gateway.access_lines_at_least(1 + others).await;
        }
        assert!(began.elapsed() >= ms(3900), "{:?}", began.elapsed());
        // Who is held up is answered when those are cut off.
        assert!(others >= 3, "{others} others were answered meanwhile");
        // A MiB each, and the noise of an unoptimised build.
        let growth = most.saturating_sub(before);
        assert!(
            growth < (STOPPED as u64 + 4) << 20,
            "{} KiB more for {STOPPED} stopped readers",
            growth >> 10
        );
        for n in 0..STOPPED {
            mock.left(n + 1).await;
        }
        let lines = gateway.lines();
        let cut: Vec<_> = lines
            .iter()
            .filter(|line| line["model"] == "long")
            .collect();
        assert!(
            cut.iter().all(|line| line["outcome"] == "client_left"),
            "{cut:#?}"
        );
    });
}

#[test]
fn e04_a_slow_reader_gets_everything() {
    run(async {
        let mock = Mock::start().await;
        mock.push(long(2));
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("timeouts: { client_write: 4s }")
            .start()
            .await;
        let mut connection = narrow(gateway.address).await;
        connection.send(post(&chat_stream("m"))).await;
        let mut answer = connection.head().await.unwrap();
        // For longer than a single write may take.
        while connection.piece(&mut answer).await.is_some() {
            tokio::time::sleep(ms(70)).await;
        }
        assert_eq!(answer.end, Some(End::Whole));
        assert_eq!(answer.events().pop().unwrap(), "[DONE]");
        assert_eq!(answer.content().len(), 64 * (32 * 1024 - 256));
        assert!(
            answer.content().bytes().all(|byte| byte == b'x'),
            "not what the upstream said"
        );
        drop(connection);
        assert_eq!(gateway.line().await["outcome"], "ok");
    });
}

/// How long a request takes: the median of a hundred.
async fn usual(gateway: &Gateway) -> Duration {
    let mut times = Vec::new();
    for _ in 0..100 {
        let began = Instant::now();
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        times.push(began.elapsed());
    }
    times.sort_unstable();
    times[50]
}

#[test]
fn e05_idle_connections_are_capped_and_hold_nobody_up() {
    run(async {
        const IDLE: usize = 300;
        const DRIPPING: usize = 150;
        const CAP: usize = 500;
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .server(&format!("limits: {{ connections: {CAP} }}"))
            .start()
            .await;
        usual(&gateway).await;
        let alone = usual(&gateway).await;
        let mut held = Vec::new();
        for _ in 0..IDLE {
            held.push(TcpStream::connect(gateway.address).await.unwrap());
        }
        let mut drippers = Vec::new();
        for _ in 0..DRIPPING {
            let mut stream = TcpStream::connect(gateway.address).await.unwrap();
            drippers.push(spawn(async move {
                for byte in post(&chat("m"))
                    .iter()
                    .cycle()
                    .take_while(|byte| **byte != b'{')
                {
                    if stream.write_all(&[*byte]).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(ms(100)).await;
                }
            }));
        }
        let beside = usual(&gateway).await;
        // Far less than if each had to wait for a few of those.
        assert!(beside < 4 * alone + ms(300), "{alone:?} became {beside:?}");
        // Beyond the cap a connection is closed at once; those within stay.
        let callers = || {
            gateway
                .process
                .descriptors()
                .connections
                .iter()
                .filter(|(local, _)| *local == gateway.address)
                .count()
        };
        eventually("only those are left", || {
            (callers() == IDLE + DRIPPING).then_some(())
        })
        .await;
        let mut late = Vec::new();
        for _ in 0..CAP - IDLE - DRIPPING + 30 {
            late.push(TcpStream::connect(gateway.address).await.unwrap());
        }
        let is_open = |stream: &TcpStream| matches!(stream.try_read(&mut [0]), Err(e) if e.kind() == ErrorKind::WouldBlock);
        let refused = || {
            late.iter()
                .chain(&held)
                .filter(|stream| !is_open(stream))
                .count()
        };
        eventually("those beyond the cap are closed", || {
            (refused() >= 30).then_some(())
        })
        .await;
        assert_eq!(gateway.admin("/readyz").0, 200);
        assert_eq!((refused(), callers()), (30, CAP));
        for dripper in drippers {
            dripper.abort();
        }
        drop((held, late));
        eventually("the places are free again", || {
            (gateway.process.descriptors().connections.len() < 10).then_some(())
        })
        .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
    });
}

#[test]
fn a_caller_who_leaves_during_an_error_pays_nothing() {
    run(async {
        let mut line = Value::Null;
        // Nothing shows that the gateway has the upstream's head. A slow machine takes longer.
        for pause in [300, 1_000, 3_000] {
            let mock = Mock::start().await;
            // The upstream refuses, and does not end what it says.
            let head = [
                ("content-type", "application/json"),
                ("content-length", "1000"),
            ];
            mock.push(
                Script::new()
                    .head(429, &head)
                    .body(r#"{"error":{"message":"#)
                    .stall(),
            );
            let gateway = Gateway::over(&mock).await;
            let mut connection = gateway.connect().await;
            connection.send(post(&chat("m"))).await;
            mock.request(0).await;
            tokio::time::sleep(ms(pause)).await;
            drop(connection);
            line = gateway.line().await;
            if line["maybe_billed"] == false {
                break;
            }
        }
        assert_eq!(
            (&line["outcome"], &line["maybe_billed"]),
            (&json!("client_left"), &json!(false)),
            "{line}"
        );
        assert_eq!(
            (&line["prompt_tokens"], &line["usage"]),
            (&json!(0), &json!("none")),
            "{line}"
        );
    });
}

#[test]
fn e07_a_storm_of_connections_leaves_nothing_behind() {
    run(async {
        const ROUND: usize = 400;
        // The allocator takes some rounds to have all the pages that it goes on to use.
        const WARM: usize = 12;
        let mock = Mock::start().await;
        mock.always(Script::sse().words(0..1).stall());
        let gateway = Gateway::over(&mock).await;
        let whole = post(&chat_stream("m"));
        let mut counts: Vec<(usize, usize, u64)> = Vec::new();
        let others = || {
            let mut others = gateway.process.descriptors().others;
            // The ledger opens and closes files of its own.
            others.retain(|name| !name.contains("ledger.sqlite"));
            others.len()
        };
        // Some are opened with the first request.
        let few = others() + 20;
        for _ in 0..2 * WARM {
            let round: Vec<_> = (0..8)
                .map(|lane| {
                    let (address, whole) = (gateway.address, whole.clone());
                    spawn(async move {
                        for n in 0..ROUND / 8 {
                            let mut stream = TcpStream::connect(address).await.unwrap();
                            // Nothing, half a head, half a body, a whole request; and then the
                            // reset.
                            let part = [0, 30, whole.len() - 5, whole.len()][(lane + n) % 4];
                            let _ = stream.write_all(&whole[..part]).await;
                            if n % 3 == 0 {
                                let _ =
                                    tokio::time::timeout(ms(5), stream.read(&mut [0; 64])).await;
                            }
                            stream.set_zero_linger().unwrap();
                        }
                    })
                })
                .collect();
            for lane in round {
                lane.await.unwrap();
            }
            gateway.idle().await;
            let quiet = || (gateway.status()["exchanges"] == 0 && mock.open() == 0).then_some(());
            eventually("all are gone", quiet).await;
            eventually("all are closed", || {
                (gateway.process.descriptors().connections.len() < 3).then_some(())
            })
            .await;
            // A connection that was reset is in no table, and its descriptor is open until the
            // gateway sees that.
            let most = counts.first().map_or(few, |(others, ..)| *others);
            let left = eventually("no descriptor is left", || {
                Some(others()).filter(|left| *left <= most)
            })
            .await;
            counts.push((left, gateway.process.threads(), gateway.rss() >> 20));
        }
        // Of the memory, the peaks are compared: the allocator gives some back now and then.
        let peak = |half: &[(usize, usize, u64)]| half.iter().map(|(.., mib)| *mib).max();
        let (first, last) = (counts[WARM - 1], counts[2 * WARM - 1]);
        let (before, after) = counts.split_at(WARM);
        assert!(
            last.0 <= first.0
                && last.1 <= first.1
                && peak(after) <= peak(before).map(|mib| mib + 4),
            "descriptors, threads, MiB: {counts:?}"
        );
    });
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The headers of a chat completion whose body follows, each a literal.
fn headers(stream: u32) -> Vec<u8> {
    let bearer = format!("Bearer {KEY}");
    let literal = |name: &str, value: &str| {
        [
            &[0, name.len() as u8],
            name.as_bytes(),
            &[value.len() as u8],
            value.as_bytes(),
        ]
        .concat()
    };
    let fields = [
        literal(":method", "POST"),
        literal(":scheme", "http"),
        literal(":path", "/v1/chat/completions"),
        literal(":authority", "gateway.test"),
        literal("authorization", &bearer),
        literal("content-type", "application/json"),
    ];
    frame(1, 4, stream, &fields.concat())
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[test]
fn e08_http2_floods_end_their_connection_and_cost_nothing() {
    run(async {
        let mock = Mock::start().await;
        mock.on("silent", Script::silent());
        let catalog = Catalog::new()
            .account("a", &mock)
            .model("m", &["a"])
            .model("silent", &["a"]);
        let gateway = Gateway::with(catalog)
            .listen("h2c: true")
            .server("timeouts: { client_read: 5s }")
            .returns_memory_at_once()
            .start()
            .await;
        gateway.h2c(0).await.post(&chat("m")).await;
        let before = gateway.rss();
        let reset = |stream| frame(3, 0, stream, &8u32.to_be_bytes());
        let body = chat("silent").to_string();
        let resets: Vec<u8> = (0..20_000u32)
            .flat_map(|n| [headers(2 * n + 1), reset(2 * n + 1)].concat())
            .collect();
        let started: Vec<u8> = (0..5_000u32)
            .flat_map(|n| {
                [
                    headers(2 * n + 1),
                    frame(0, 1, 2 * n + 1, body.as_bytes()),
                    reset(2 * n + 1),
                ]
                .concat()
            })
            .collect();
        let empty: Vec<u8> = [headers(1), frame(0, 0, 1, b"").repeat(200_000)].concat();
        for (what, flood) in [
            ("resets", resets),
            ("resets of whole requests", started),
            ("empty data", empty),
        ] {
            let mut wire = gateway.connect().await.wire;
            wire.write(PREFACE).await;
            wire.write(&flood).await;
            tokio::time::timeout(2 * PATIENCE, wire.gone())
                .await
                .unwrap_or_else(|_| panic!("{what}: the connection goes on"));
            // It is told why, if the reset that follows leaves it the time.
            let told = wire.some(1 << 16).await;
            assert!(
                wire.broken || position(&told, b"too_many_").is_some(),
                "{what}: {}",
                String::from_utf8_lossy(&told)
            );
            drop(wire);
            gateway.idle().await;
            let growth = gateway.rss().saturating_sub(before);
            assert!(growth < 12 << 20, "{what}: {} MiB more", growth >> 20);
            assert_eq!(gateway.post(&chat("m")).await.status, 200, "{what}");
        }
    });
}

#[test]
fn e08_a_thousand_streams_keep_the_agreed_bound() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::silent());
        let gateway = Gateway::with(Catalog::over(&mock))
            .listen("h2c: true")
            .returns_memory_at_once()
            .start()
            .await;
        let before = gateway.rss();
        let body = chat("m").to_string();
        let streams: Vec<u8> = (0..1_000u32)
            .flat_map(|n| [headers(2 * n + 1), frame(0, 1, 2 * n + 1, body.as_bytes())].concat())
            .collect();
        let mut wire = gateway.connect().await.wire;
        wire.write(PREFACE).await;
        wire.write(&streams).await;
        // It was told how many it may open: who opens ten times as many is disconnected, and its
        // requests with it.
        tokio::time::timeout(PATIENCE, wire.gone())
            .await
            .expect("the connection is closed");
        gateway.idle().await;
        assert!(mock.count() <= 100, "{} streams at once", mock.count());
        let growth = gateway.rss().saturating_sub(before);
        assert!(growth < 24 << 20, "{} MiB more", growth >> 20);
        for n in 0..mock.count() {
            mock.left(n).await;
        }
    });
}

/// Sends a byte of a head now and then: how long it took until the connection was closed.
async fn dripped(connection: &mut Connection) -> Duration {
    let began = Instant::now();
    for byte in b"GET /".iter().chain(b"x".iter().cycle()) {
        connection.send(&[*byte]).await;
        if let Ok(answer) = tokio::time::timeout(ms(50), connection.try_response("POST")).await {
            assert!(answer.is_none());
            break;
        }
        assert!(began.elapsed() < 2 * PATIENCE, "it is never closed");
    }
    began.elapsed()
}

/// Such a connection once held its place for a minute, whatever the settings said.
#[test]
fn a_connection_without_a_byte_closes_after_client_read() {
    run(async {
        let mock = Mock::start().await;
        let timeouts = "timeouts: { client_read: 1s, keepalive: 60s }";
        let gateway = Gateway::with(Catalog::over(&mock))
            .also_listen("h2c: true")
            .server(timeouts)
            .start()
            .await;
        for listener in [0, 1] {
            let began = Instant::now();
            let mut connection = Connection::plain(gateway.listeners[listener], None).await;
            assert!(connection.closed().await);
            assert!(
                is_about(began.elapsed(), ms(1_000)),
                "{listener}: {:?}",
                began.elapsed()
            );
        }
        assert_eq!(gateway.lines().len(), 0, "nothing was asked");
    });
}

#[test]
fn heads_have_a_deadline_and_bodies_may_take_longer() {
    run(async {
        let mock = Mock::start().await;
        let timeouts = "timeouts: { client_read: 1s, keepalive: 60s }";
        let gateway = Gateway::with(Catalog::over(&mock))
            .also_listen("h2c: true")
            .server(timeouts)
            .start()
            .await;
        // Where HTTP/2 is spoken too, the first bytes are looked at beforehand.
        for listener in [0, 1] {
            let mut connection = Connection::plain(gateway.listeners[listener], None).await;
            // The first byte has as much time of its own.
            tokio::time::sleep(ms(600)).await;
            let took = dripped(&mut connection).await;
            assert!(is_about(took, ms(1_000)), "{took:?}");
        }
        // An exchange may take longer, and so may the pause after it; the next head may not.
        mock.push(Script::new().delay(ms(1_500)).and(Script::answer("late")));
        let mut connection = gateway.connect().await;
        for pause in [1_500, 0] {
            connection.send(post(&chat("m"))).await;
            assert_eq!(connection.response().await.status, 200);
            tokio::time::sleep(ms(pause)).await;
        }
        let took = dripped(&mut connection).await;
        assert!(is_about(took, ms(1_000)), "{took:?}");
    });
}
