//! Bodies of every size, framed in every way, on the first attempt and on the second: the rows L01
//! and L02 of the fault table.

use std::time::Duration;

use serde_json::json;

use crate::support::canary::KEY;
use crate::support::client::{self, Connection, Response, request};
use crate::support::process::page_faults;
use crate::support::{
    Catalog, Gateway, H2, Mock, Script, eventually, eventually_within, run, run_within,
};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// A body that counts as large for the allocator.
const LARGE: usize = 10 * MIB;
const FRAMINGS: [Framing; 3] = [Framing::Length, Framing::Chunked, Framing::H2c];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length,
    Chunked,
    H2c,
}

/// A request for this model of exactly so many bytes, of which no two stretches are alike.
fn body(model: &str, size: usize) -> Vec<u8> {
    let (start, end) = (
        format!("{{\"model\":\"{model}\",\"messages\":[{{\"role\":\"user\",\"content\":\""),
        "\"}]}",
    );
    let mut text = start;
    for n in 0..=size / 64 {
        text.push_str(&format!("{n:63} "));
    }
    text.truncate(size - end.len());
    text.push_str(end);
    text.into_bytes()
}

/// Sends it and reads the answer.
async fn send(gateway: &Gateway, h2: &H2, framing: Framing, body: &[u8]) -> Response {
    let bearer = format!("Bearer {KEY}");
    let fields = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    if framing == Framing::H2c {
        return h2
            .exchange("POST", "/v1/chat/completions", &fields, body)
            .await;
    }
    let mut connection = gateway.connect().await;
    let chunked = [&fields[..], &[("transfer-encoding", "chunked")]].concat();
    match framing {
        Framing::Length => {
            connection
                .send(request("POST", "/v1/chat/completions", &fields, body))
                .await
        }
        // A size that divides nothing.
        _ => {
            connection
                .send(
                    [
                        request("POST", "/v1/chat/completions", &chunked, b""),
                        in_chunks(body, 7_777),
                    ]
                    .concat(),
                )
                .await
        }
    };
    connection.response().await
}

fn in_chunks(body: &[u8], size: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(body.len() * 2);
    for chunk in body.chunks(size) {
        text.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        text.extend_from_slice(chunk);
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"0\r\n\r\n");
    text
}

#[test]
fn l01_bodies_of_every_size_reach_both_accounts() {
    run_within(Duration::from_secs(120), async {
        let sizes = [
            200,
            64 * KIB - 1,
            64 * KIB,
            64 * KIB + 1,
            70_000,
            MIB,
            10 * MIB,
        ];
        let (good, bad) = (Mock::start().await, Mock::start().await);
        bad.always(Script::error(500, "out of order"));
        // An account of its own for each case, since one that has failed rests.
        let cases: Vec<_> = sizes
            .iter()
            .flat_map(|size| FRAMINGS.map(|framing| (*size, framing)))
            .collect();
        let mut catalog = Catalog::new()
            .account("good", &good)
            .model("first", &["good"]);
        for nth in 0..cases.len() {
            let bad_one = format!("bad-{nth}");
            catalog = catalog
                .account(&bad_one, &bad)
                .model(&format!("second-{nth}"), &[bad_one.as_str(), "good=second"]);
        }
        let gateway = Gateway::with(catalog)
            .also_listen("h2c: true")
            .start()
            .await;
        let h2 = gateway.h2c(1).await;
        for (nth, (size, framing)) in cases.into_iter().enumerate() {
            let sent = body("first", size);
            assert_eq!(
                send(&gateway, &h2, framing, &sent).await.status,
                200,
                "{size} {framing:?}"
            );
            same(
                &good.request(2 * nth).await.body,
                &sent,
                &format!("{size} {framing:?}, first try"),
            );

            let model = format!("second-{nth}");
            let sent = body(&model, size);
            assert_eq!(
                send(&gateway, &h2, framing, &sent).await.status,
                200,
                "{size} {framing:?}"
            );
            same(
                &bad.request(nth).await.body,
                &sent,
                &format!("{size} {framing:?}, the try that failed"),
            );
            let spliced = String::from_utf8(sent)
                .unwrap()
                .replacen(&model, "second", 1);
            same(
                &good.request(2 * nth + 1).await.body,
                spliced.as_bytes(),
                &format!("{size} {framing:?}, second try"),
            );
        }
    });
}

#[test]
fn l01_a_second_try_sends_the_whole_body() {
    run(async {
        for first in [
            Script::new().reset(),
            Script::new().close(),
            Script::error(503, "too much"),
        ] {
            let (good, bad) = (Mock::start().await, Mock::start().await);
            bad.early(first);
            let gateway = Gateway::with(Catalog::chain(&[&bad, &good]))
                .also_listen("h2c: true")
                .start()
                .await;
            let h2 = gateway.h2c(1).await;
            let sent = body("m", 4 * MIB);
            assert_eq!(
                send(&gateway, &h2, Framing::Length, &sent).await.status,
                200
            );
            same(&good.request(0).await.body, &sent, "second try");
        }
    });
}

/// Megabytes are not to be printed.
#[track_caller]
fn same(got: &[u8], wanted: &[u8], what: &str) {
    // Not byte by byte, which takes its time.
    if got != wanted {
        let differ = got.iter().zip(wanted).position(|(a, b)| a != b);
        panic!(
            "{what}: {} bytes instead of {}, the first other one at {differ:?}",
            got.len(),
            wanted.len()
        );
    }
}

#[test]
fn l01_one_byte_over_the_limit_is_413() {
    run(async {
        let mock = Mock::start().await;
        for limit in [100 * KIB, 64 * KIB, 1000] {
            let server = format!("limits: {{ request_body: {limit}B }}");
            let gateway = Gateway::with(Catalog::over(&mock))
                .also_listen("h2c: true")
                .server(&server)
                .start()
                .await;
            let h2 = gateway.h2c(1).await;
            for framing in FRAMINGS {
                let before = mock.count();
                assert_eq!(
                    send(&gateway, &h2, framing, &body("m", limit)).await.status,
                    200,
                    "{limit} {framing:?}"
                );
                same(
                    &mock.request(before).await.body,
                    &body("m", limit),
                    &format!("{limit} {framing:?}"),
                );
                for more in [1, limit] {
                    let refused = send(&gateway, &h2, framing, &body("m", limit + more)).await;
                    let error = refused.is_error(413, "request_too_large");
                    assert!(
                        error["message"]
                            .as_str()
                            .unwrap()
                            .contains(&limit.to_string()),
                        "{error}"
                    );
                    assert_eq!(gateway.line_of(&refused).await["outcome"], "refused");
                }
                assert_eq!(mock.count(), before + 1, "{limit} {framing:?}");
            }
        }
    });
}

#[test]
fn l02_a_hundred_declared_megabytes_are_refused_unread() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let bearer = format!("Bearer {KEY}");
        let declared = (100 * MIB).to_string();
        let fields = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("content-length", &declared),
        ];
        for expect in [&[][..], &[("expect", "100-continue")]] {
            let mut connection = gateway.connect().await;
            connection
                .send(request(
                    "POST",
                    "/v1/chat/completions",
                    &[&fields, expect].concat(),
                    b"",
                ))
                .await;
            let answer = connection.response().await;
            answer.is_error(413, "request_too_large");
            assert_eq!(answer.informational, [0_u16; 0]);
            assert_eq!(gateway.line_of(&answer).await["bytes_in"], 0);
            assert!(
                connection.closed().await,
                "by FIN, so that the answer is not lost"
            );
        }
        assert_eq!(mock.connections(), 0);
    });
}

#[test]
fn l02_a_hundred_undeclared_megabytes_are_refused_at_the_limit() {
    run(async {
        const LIMIT: usize = 8 * MIB;
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .also_listen("h2c: true")
            .server("limits: { request_body: 8MiB }")
            .returns_memory_at_once()
            .start()
            .await;
        let bearer = format!("Bearer {KEY}");
        let fields = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("transfer-encoding", "chunked"),
        ];
        let before = gateway.rss();
        let mut connection: Connection = gateway.connect().await;
        connection
            .send(request("POST", "/v1/chat/completions", &fields, b""))
            .await;
        let megabyte = [format!("{MIB:x}\r\n").as_bytes(), &vec![b' '; MIB], b"\r\n"].concat();
        let mut sent = 0;
        while sent < 100 && connection.send(&megabyte).await {
            sent += 1;
            assert!(
                gateway.rss() < before + 3 * LIMIT as u64,
                "{} bytes became {} after {sent} MiB",
                before,
                gateway.rss()
            );
        }
        connection
            .response()
            .await
            .is_error(413, "request_too_large");
        connection.closed().await;

        let h2 = gateway.h2c(1).await;
        let over_h2 = send(&gateway, &h2, Framing::H2c, &vec![b' '; 100 * MIB]).await;
        over_h2.is_error(413, "request_too_large");
        // Other streams on the connection go on.
        assert_eq!(
            send(&gateway, &h2, Framing::H2c, &body("m", 200))
                .await
                .status,
            200
        );
        assert!(
            gateway.rss() < before + 3 * LIMIT as u64,
            "{} bytes became {}",
            before,
            gateway.rss()
        );
        assert_eq!(mock.count(), 1);
    });
}

/// It is our bound that the answer met, and no fault of the upstream's.
#[test]
fn an_answer_without_room_is_our_503() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::answer(&"x".repeat(800_000)));
        let gateway = Gateway::with(Catalog::chain(&[&mock, &mock]))
            .server("limits: { buffered_total: 1MiB, request_body: 1MiB, response_body: 1MiB }")
            .start()
            .await;
        let bearer = format!("Bearer {KEY}");
        let fields = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        let answer = gateway
            .raw(request(
                "POST",
                "/v1/chat/completions",
                &fields,
                &body("m", 500_000),
            ))
            .await;
        answer.is_error(503, "no_capacity");
        assert_eq!(
            (
                mock.count(),
                gateway.line().await["attempts"][0]["outcome"].as_str()
            ),
            (1, Some("no_room"))
        );
        assert_eq!(
            gateway
                .raw(request(
                    "POST",
                    "/v1/chat/completions",
                    &fields,
                    &body("m", 1_000)
                ))
                .await
                .status,
            200
        );
    });
}

#[test]
fn what_all_requests_hold_together_is_bounded() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("limits: { request_body: 1MiB, response_body: 1MiB, buffered_total: 1MiB }")
            .start()
            .await;
        let bearer = format!("Bearer {KEY}");
        let fields = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("content-length", "700000"),
        ];
        // What is announced counts from the head on.
        let whole = body("m", 700_000);
        let (mut idle, refused) = loop {
            let mut idle = gateway.connect().await;
            idle.send(request("POST", "/v1/chat/completions", &fields, b""))
                .await;
            let second = gateway
                .raw(request("POST", "/v1/chat/completions", &fields, &whole))
                .await;
            // Which of the two was read first, and so found room, is the gateway's to say: until it
            // was the first.
            if second.status != 200 {
                break (idle, second);
            }
        };
        refused.is_error(503, "no_capacity");
        assert!(refused.field("retry-after").is_some());
        idle.send(&whole).await;
        assert_eq!(idle.response().await.status, 200);
        assert_eq!(
            gateway
                .raw(request("POST", "/v1/chat/completions", &fields, &whole))
                .await
                .status,
            200
        );
    });
}

/// 37 bodies that are uploaded and left were once all that there was, and everybody else was
/// refused, with sixty bytes too.
#[test]
fn one_caller_cannot_take_the_memory_of_all() {
    run_within(Duration::from_secs(120), async {
        const GREEDY: &str = "sk-CaNaRy-caller-greedy-0123456789abcdefghijklmnop";
        const SIZE: usize = 992 * KIB;
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock).caller("greedy", GREEDY, ""))
            .server("limits: { request_body: 1MiB, response_body: 1MiB, buffered_total: 32MiB }")
            .start()
            .await;
        let bearer = [GREEDY, KEY].map(|key| format!("Bearer {key}"));
        let (length, whole) = (SIZE.to_string(), body("m", SIZE));
        let (most, _) = whole.split_at(SIZE - 1);
        let chunk = [format!("{:x}\r\n", most.len()).as_bytes(), most, b"\r\n"].concat();
        let mut left = Vec::new();
        for n in 0..37 {
            let mut connection = gateway.connect().await;
            let framing = if n % 2 == 0 {
                ("content-length", length.as_str())
            } else {
                ("transfer-encoding", "chunked")
            };
            let fields = [
                ("authorization", bearer[0].as_str()),
                ("content-type", "application/json"),
                framing,
            ];
            connection
                .send(request("POST", "/v1/chat/completions", &fields, b""))
                .await;
            connection
                .send(if n % 2 == 0 { most } else { &chunk })
                .await;
            left.push(connection);
        }
        let refused = || {
            gateway.metrics().sum(
                "portcullis_requests_total",
                &[("caller", "greedy"), ("outcome", "no_capacity")],
            ) as usize
        };
        eventually("it holds as much as it may", || {
            (refused() >= 37 - 16).then_some(())
        })
        .await;
        let fields = [
            ("authorization", bearer[1].as_str()),
            ("content-type", "application/json"),
        ];
        let start = std::time::Instant::now();
        for size in [60, SIZE, 60, SIZE] {
            let answer = gateway
                .raw(request(
                    "POST",
                    "/v1/chat/completions",
                    &fields,
                    &body("m", size),
                ))
                .await;
            assert_eq!(answer.status, 200, "{size} bytes: {}", answer.text());
        }
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{:?}",
            start.elapsed()
        );
        left.into_iter().for_each(Connection::reset);
        gateway.access_lines(41).await;
    });
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, body).expect("memory");
    encoder.finish().expect("memory")
}

/// What clients and proxies compress by themselves is served, and counts as what it unpacks to.
#[test]
fn a_gzip_body_is_served_and_bounded_when_unpacked() {
    run(async {
        let mock = Mock::start().await;
        let limits = "limits: { request_body: 2MiB, response_body: 2MiB, buffered_total: 24MiB }";
        let gateway = Gateway::with(Catalog::over(&mock))
            .server(limits)
            .start()
            .await;
        let bearer = format!("Bearer {KEY}");
        let fields = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("content-encoding", "gzip"),
        ];
        let chunked = [&fields[..], &[("transfer-encoding", "chunked")]].concat();
        for (nth, size) in [100, 100 * KIB, 2 * MIB].into_iter().enumerate() {
            let body = body("m", size);
            let packed = gzip(&body);
            let sent = request("POST", "/v1/chat/completions", &fields, &packed);
            let chunks = [
                request("POST", "/v1/chat/completions", &chunked, b""),
                in_chunks(&packed, 777),
            ]
            .concat();
            for (more, bytes) in [sent, chunks].into_iter().enumerate() {
                let answer = gateway.raw(bytes).await;
                assert_eq!(answer.status, 200, "{size}: {}", answer.text());
                let seen = mock.request(2 * nth + more).await;
                assert!(seen.body == body, "{size}: what went up is what was packed");
                assert_eq!(
                    (seen.field("content-encoding"), seen.field("content-type")),
                    (None, Some("application/json"))
                );
            }
        }
        // A bomb is refused where any other body would be, and what it took is given back.
        let bomb = gzip(&vec![b' '; 64 * MIB]);
        assert!(bomb.len() < 100 * KIB, "{}", bomb.len());
        let before = gateway.rss();
        for _ in 0..24 {
            let answer = gateway
                .raw(request("POST", "/v1/chat/completions", &fields, &bomb))
                .await;
            answer.is_error(413, "request_too_large");
        }
        assert!(
            gateway.rss() < before + 32 * MIB as u64,
            "{} after {before}",
            gateway.rss()
        );
        let answer = gateway
            .raw(request(
                "POST",
                "/v1/chat/completions",
                &fields,
                b"{\"model\":\"m\"}",
            ))
            .await;
        let error = answer.is_error(400, "");
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|said| said.contains("not valid gzip")),
            "{error}"
        );
        let body = body("m", 2 * MIB);
        assert_eq!(
            gateway
                .raw(request(
                    "POST",
                    "/v1/chat/completions",
                    &fields,
                    &gzip(&body)
                ))
                .await
                .status,
            200,
            "room was given back"
        );
    });
}

/// `curl -d` says that it sends a form, whatever it is.
#[test]
fn a_json_body_called_a_form_is_served() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let bearer = format!("Bearer {KEY}");
        let send = async |kind: &str, body: &[u8]| {
            let fields = [("authorization", bearer.as_str()), ("content-type", kind)];
            gateway
                .raw(request("POST", "/v1/chat/completions", &fields, body))
                .await
        };
        let form = "application/x-www-form-urlencoded";
        let good = crate::support::chat("m").to_string();
        let answer = send(form, good.as_bytes()).await;
        assert_eq!(
            (answer.status, answer.content().as_str()),
            (200, "Hello from the mock."),
            "{}",
            answer.text()
        );
        assert_eq!(
            mock.request(0).await.field("content-type"),
            Some("application/json")
        );
        for (kind, body) in [
            (form, "model=m&messages=x"),
            (form, ""),
            ("text/plain", good.as_str()),
            ("multipart/form-data; boundary=x", &good),
        ] {
            let error = send(kind, body.as_bytes())
                .await
                .is_error(415, "unsupported_media_type");
            let said = error["message"].as_str().expect("a message");
            assert!(
                said.contains("`content-type: application/json`"),
                "the line to write: {said}"
            );
        }
        assert_eq!(mock.count(), 1);
    });
}

/// Sends a request of ten megabytes, and gets an answer of ten megabytes, so many times. Returns
/// how many pages of memory the gateway was given meanwhile.
async fn exchange_large_bodies(gateway: &Gateway, mock: &Mock, times: usize) -> u64 {
    let before = page_faults(gateway.process.pid());
    mock.always(Script::answer(&"y".repeat(LARGE)));
    let request = client::post(
        &json!({"model": "m", "messages": [{"role": "user", "content": "x".repeat(LARGE)}]}),
    );
    let mut connection = gateway.connect().await;
    for _ in 0..times {
        connection.send(&request).await;
        let answer = connection.response().await;
        assert_eq!((answer.status, answer.content().len()), (200, LARGE));
    }
    page_faults(gateway.process.pid()) - before
}

/// Without its setting, the allocator gives large buffers back at once, and takes each page anew.
#[test]
fn large_bodies_use_memory_of_earlier_ones() {
    const REQUESTS: usize = 8;
    run_within(Duration::from_secs(180), async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            // A slow machine takes longer than the ten seconds after which memory is given back.
            .env("_RJEM_MALLOC_CONF", "dirty_decay_ms:600000")
            // Each worker has memory of its own.
            .server("workers: 1")
            .start()
            .await;
        exchange_large_bodies(&gateway, &mock, 4).await;
        let faults = exchange_large_bodies(&gateway, &mock, REQUESTS).await;
        let pages = (REQUESTS * 2 * LARGE / 4096) as u64;
        assert!(faults < pages / 2, "{faults} faults for {pages} pages");
    });
}

/// Without its setting, the allocator gives memory back only when something else is freed.
#[test]
fn an_idle_gateway_gives_memory_of_bodies_back() {
    run_within(Duration::from_secs(180), async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(Catalog::over(&mock)).await;
        let before = gateway.rss();
        exchange_large_bodies(&gateway, &mock, 2).await;
        let is_back = || (gateway.rss() < before + LARGE as u64).then_some(());
        eventually_within(Duration::from_secs(60), "memory is given back", is_back).await;
    });
}
