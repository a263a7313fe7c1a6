//! Traces, with a real receiver: what is sent, whose trace it is, and which requests are kept.

mod faults;
mod judges;

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;

use crate::support::canary::KEY;
use crate::support::folder::{Folder, Ran};
use crate::support::script::completion;
use crate::support::spans::{Got, Receiver, attributes, decode};
use crate::support::tls::Ca;
use crate::support::{
    Catalog, Gateway, Mock, Proxy, Script, chat, chat_stream, client, eventually, run, run_within,
};

/// A request of a caller that traces its own work.
pub const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
pub const PARENT: &str = "00f067aa0ba902b7";

/// A priced model on two accounts.
fn two(first: &Mock, second: &Mock, more: &str) -> Catalog {
    let price = "price: { input: 10, output: 100 }";
    let targets = [
        format!("{{ account: a, model: gpt-x, {price} }}"),
        format!("{{ account: b, model: gpt-y, {price} }}"),
    ];
    let catalog = Catalog::new()
        .account_with("a", first, more)
        .account("b", second);
    catalog.model_of("m", &[&targets[0], &targets[1]], "")
}

/// Returns a chat completion with these headers.
fn with(fields: &[(&str, &str)]) -> Vec<u8> {
    let bearer = format!("Bearer {KEY}");
    let own = [
        ("authorization", &*bearer),
        ("content-type", "application/json"),
    ];
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "pr0mpt"}]});
    client::request(
        "POST",
        "/v1/chat/completions",
        &[&own, fields].concat(),
        body.to_string().as_bytes(),
    )
}

fn traced(flags: &str) -> Vec<u8> {
    with(&[("traceparent", &format!("00-{TRACE}-{PARENT}-{flags}"))])
}

/// Ends the gateway, which sends what waits. Returns its log.
fn end(mut gateway: Gateway) -> String {
    gateway.signal("TERM");
    assert!(gateway.exit(Duration::from_secs(10)).success());
    gateway.log()
}

fn servers(spans: &[Got]) -> Vec<&Got> {
    spans.iter().filter(|span| span.is_server()).collect()
}

#[test]
fn a_request_that_failed_over_is_one_trace() {
    run(async {
        let (bad, good, receiver) = (
            Mock::start().await,
            Mock::start().await,
            Receiver::start().await,
        );
        bad.always(Script::error(500, "pr0mpt and s3cret"));
        let setup = receiver.of(Gateway::with(two(&bad, &good, "")), "resource: { k: v }");
        let gateway = setup.start().await;
        let parent = format!("00-{TRACE}-{PARENT}-01");
        let fields = [
            ("traceparent", &*parent),
            ("tracestate", "x=1"),
            ("baggage", "user=pr0mpt"),
            ("x-portcullis-session", "pr0mpt"),
        ];
        let answer = gateway.raw(with(&fields)).await;
        assert_eq!(answer.status, 200);
        let line = gateway.line().await;
        assert_eq!(line["trace_id"], TRACE);
        end(gateway);
        let spans = receiver.spans();
        let [server, first, second] = &spans[..] else {
            panic!("{spans:#?}")
        };
        assert!(
            spans
                .iter()
                .all(|span| span.trace == TRACE && span.state == "x=1"),
            "{spans:#?}"
        );
        assert_eq!(
            (&*server.name, server.kind, &*server.parent),
            ("POST /v1/chat/completions", 2, PARENT)
        );
        for attempt in [first, second] {
            assert_eq!((attempt.kind, &attempt.parent), (3, &server.id));
            assert!(
                server.from <= attempt.from && attempt.to <= server.to,
                "{spans:#?}"
            );
        }
        assert_eq!(
            spans
                .iter()
                .map(|span| &span.id)
                .collect::<HashSet<_>>()
                .len(),
            3
        );
        assert_eq!((&*first.name, &*second.name), ("chat gpt-x", "chat gpt-y"));
        assert_eq!(
            [server, first, second].map(|span| span.is_error),
            [false, true, false]
        );
        assert_eq!(
            server.of_name("portcullis.request_id"),
            line["request_id"].as_str().expect("an id")
        );
        assert_eq!(
            (
                server.of_name("portcullis.caller"),
                server.of_name("portcullis.model")
            ),
            ("acme", "m")
        );
        assert_eq!(first.of_name("http.response.status_code"), "500");
        assert_eq!(first.of_name("error.type"), line["attempts"][0]["outcome"]);
        assert_eq!(second.of_name("http.request.resend_count"), "1");
        assert_eq!(second.of_name("server.address"), "127.0.0.1");
        assert_eq!(
            second.of_name("server.port"),
            good.address().port().to_string()
        );
        // Nine tokens at ten dollars a million, and three at a hundred.
        assert_eq!(
            [
                second.of_name("gen_ai.usage.input_tokens"),
                second.of_name("gen_ai.usage.output_tokens")
            ],
            ["9", "3"]
        );
        assert_eq!(
            second.of_name("gen_ai.usage.cost").parse::<f64>().ok(),
            line["cost_usd"].as_f64()
        );
        assert!(
            second
                .of_name("gen_ai.response.finish_reasons")
                .contains("stop"),
            "{second:?}"
        );
        assert!(
            !server.has("gen_ai.") && !first.has("gen_ai.usage."),
            "{spans:#?}"
        );
        let sent = decode(&receiver.mock.requests()[0])
            .resource_spans
            .remove(0);
        let resource = attributes(sent.resource.expect("a resource").attributes);
        let names: Vec<_> = resource.iter().map(|(name, _)| &**name).collect();
        assert_eq!(
            names,
            [
                "k",
                "service.name",
                "service.version",
                "service.instance.id"
            ]
        );
        assert_eq!(receiver.mock.requests()[0].target, "/v1/traces");
    });
}

#[test]
fn without_a_parent_the_request_id_is_the_trace() {
    run_within(Duration::from_secs(90), async {
        let (mock, receiver) = (Mock::start().await, Receiver::start().await);
        let gateway = receiver
            .of(Gateway::with(Catalog::over(&mock)), "")
            .start()
            .await;
        assert_eq!(gateway.get("/v1/models").await.status, 200);
        let answer = gateway.post(&chat_stream("m")).await;
        let id = answer
            .field("x-request-id")
            .expect("an id")
            .replace('-', "");
        // Each settles before the next begins, so that their spans are in this order.
        gateway.line_of(&answer).await;
        // A caller's own id is no trace, and a broken parent is none.
        let own = gateway
            .raw(with(&[("x-request-id", "mine"), ("traceparent", "00-zz")]))
            .await;
        assert_eq!(own.status, 200);
        gateway.line_of(&own).await;
        let refused = gateway.raw(client::post_as("sk-nobodys", &chat("m"))).await;
        assert_eq!(refused.status, 401);
        gateway.line_of(&refused).await;
        assert_eq!(gateway.post(&chat("none")).await.status, 404);
        // They come by themselves, in five seconds.
        let spans = receiver.wait(&gateway, 6).await;
        let lines = gateway.access_lines(5).await;
        assert_eq!(spans.len(), 6, "{spans:#?}");
        let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
        let route = "POST /v1/chat/completions";
        assert_eq!(names, [route, "chat m", route, "chat m", route, route]);
        assert_eq!((&spans[0].trace, &spans[0].parent), (&id, &String::new()));
        assert_eq!(spans[1].of_name("gen_ai.request.stream"), "true");
        assert!(
            spans[1].has("gen_ai.response.time_to_first_chunk"),
            "{:?}",
            spans[1]
        );
        assert_eq!(
            spans
                .iter()
                .map(|span| &span.trace)
                .collect::<HashSet<_>>()
                .len(),
            4
        );
        for (server, line) in servers(&spans).into_iter().zip(lines.iter().skip(1)) {
            assert_eq!(line["trace_id"], server.trace, "{line}");
        }
        assert_eq!(spans[4].of_name("portcullis.outcome"), "unauthorized");
        let sum = |name: &str| gateway.metrics().sum(name, &[]);
        eventually("they are counted", || {
            (sum("portcullis_spans_exported_total") == 6.0).then_some(())
        })
        .await;
        assert_eq!(sum("portcullis_spans_dropped_total"), 0.0);
    });
}

#[test]
fn an_account_that_asks_gets_its_attempts_span() {
    run(async {
        let (told, untold, receiver) = (
            Mock::start().await,
            Mock::start().await,
            Receiver::start().await,
        );
        told.always(Script::error(503, "no"));
        let gateway = receiver
            .of(Gateway::with(two(&told, &untold, "trace: true")), "")
            .start()
            .await;
        let fields = [
            ("traceparent", &*format!("00-{TRACE}-{PARENT}-00")),
            ("tracestate", "x=1"),
        ];
        // Each settles before the next begins, so that their spans are in this order.
        for fields in [&fields[..], &[]] {
            let answer = gateway.raw(with(fields)).await;
            assert_eq!(answer.status, 200);
            gateway.line_of(&answer).await;
        }
        end(gateway);
        // Both are kept, since an attempt failed.
        let spans = receiver.spans();
        let attempts: Vec<_> = spans
            .iter()
            .filter(|span| span.of_name("portcullis.account") == "a")
            .collect();
        let heads: Vec<_> = told
            .requests()
            .iter()
            .map(|request| request.field("traceparent").expect("it").to_owned())
            .collect();
        let expected: Vec<_> = attempts
            .iter()
            .zip(["00", "01"])
            .map(|(span, flags)| format!("00-{}-{}-{flags}", span.trace, span.id))
            .collect();
        assert_eq!(heads, expected);
        assert_eq!(told.requests()[0].field("tracestate"), Some("x=1"));
        assert_eq!(told.requests()[1].field("tracestate"), None);
        let is_told = |name: &str| {
            untold
                .requests()
                .iter()
                .any(|request| request.field(name).is_some())
        };
        assert!(!is_told("traceparent") && !is_told("tracestate"));
    });
}

#[test]
fn samples_keep_failures_and_callers_ask_for_no_more() {
    run(async {
        let (mock, receiver) = (Mock::start().await, Receiver::start().await);
        mock.on("broken", Script::error(400, "no"));
        let catalog = Catalog::over(&mock).model_with("bad", &["a=broken"], "");
        let gateway = receiver
            .of(Gateway::with(catalog), "sample: 0%, extra_per_second: 1000")
            .start()
            .await;
        for _ in 0..5 {
            assert_eq!(gateway.raw(with(&[])).await.status, 200);
            assert_eq!(gateway.raw(traced("00")).await.status, 200);
        }
        let asked = gateway.raw(traced("01")).await;
        assert_eq!(asked.status, 200);
        gateway.line_of(&asked).await;
        assert_eq!(gateway.post(&chat("bad")).await.status, 400);
        end(gateway);
        let spans = receiver.spans();
        let kept: Vec<_> = servers(&spans)
            .iter()
            .map(|span| span.of_name("portcullis.outcome"))
            .collect();
        assert_eq!(kept, ["ok", "refused"], "{spans:#?}");
        // And with no extra, nobody gets any.
        let receiver = Receiver::start().await;
        let setup = receiver.of(
            Gateway::with(Catalog::over(&mock)),
            "sample: 0%, extra_per_second: 0",
        );
        let gateway = setup.start().await;
        assert_eq!(gateway.raw(traced("01")).await.status, 200);
        end(gateway);
        assert_eq!(receiver.mock.count(), 0);
    });
}

#[test]
fn a_providers_answer_id_is_on_its_attempt() {
    run(async {
        let (openai, anthropic, receiver) = (
            Mock::start().await,
            Mock::start().await,
            Receiver::start().await,
        );
        let mut whole = completion("hello");
        whole["service_tier"] = json!("flex");
        let mut odd = whole.clone();
        (odd["id"], odd["model"]) = (json!("two words"), json!(7));
        let cut = Script::sse().words(0..2).close();
        openai
            .push(Script::json(200, &whole))
            .push(Script::stream(2))
            .push(cut)
            .push(Script::json(200, &odd));
        let start = json!({"type": "message_start", "message": {"id": "msg_1", "model": "claude-x-2026", "usage": {}}});
        let text = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}});
        anthropic.always(Script::sse().named(&start).named(&text).close());
        let catalog = Catalog::new().account("a", &openai).account_with(
            "b",
            &anthropic,
            "dialect: anthropic",
        );
        let gateway = receiver
            .of(
                Gateway::with(catalog.model("m", &["a"]).model("n", &["b"])),
                "",
            )
            .start()
            .await;
        for request in [
            chat("m"),
            chat_stream("m"),
            chat_stream("m"),
            chat("m"),
            chat_stream("n"),
        ] {
            let answer = gateway.post(&request).await;
            gateway.line_of(&answer).await;
        }
        let log = end(gateway);
        let spans = receiver.spans();
        let names = [
            "gen_ai.response.id",
            "gen_ai.response.model",
            "openai.response.service_tier",
        ];
        let told = |span: &Got| {
            names.map(|name| {
                if span.has(name) {
                    span.of_name(name).to_owned()
                } else {
                    String::new()
                }
            })
        };
        let attempts: Vec<_> = spans
            .iter()
            .filter(|span| !span.is_server())
            .map(told)
            .collect();
        let expected = [
            ["chatcmpl-mock", "mock-model", "flex"],
            ["chatcmpl-mock", "mock-model", ""],
            ["chatcmpl-mock", "mock-model", ""],
            ["", "", "flex"],
            ["msg_1", "claude-x-2026", ""],
        ];
        assert_eq!(attempts, expected, "{log}");
    });
}

#[test]
fn an_answer_held_in_reserve_keeps_its_name() {
    run(async {
        let (first, second, receiver) = (
            Mock::start().await,
            Mock::start().await,
            Receiver::start().await,
        );
        let mut refusal = completion("");
        refusal["choices"][0]["message"]["refusal"] = json!("I will not.");
        first.always(Script::json(200, &refusal));
        second.always(Script::error(500, "no"));
        let catalog = Catalog::new().account("a", &first).account("b", &second);
        let catalog = catalog.model_with("m", &["a"], "fallbacks_on: { refusal: [milder] }");
        let gateway = receiver
            .of(Gateway::with(catalog.model("milder", &["b"])), "")
            .start()
            .await;
        let answer = gateway.post(&chat("m")).await;
        assert!(answer.text().contains("I will not."), "{}", answer.text());
        end(gateway);
        let spans = receiver.spans();
        let answered = spans
            .iter()
            .find(|span| span.of_name("portcullis.account") == "a")
            .expect("its attempt");
        assert_eq!(
            answered.of_name("gen_ai.response.id"),
            "chatcmpl-mock",
            "{spans:#?}"
        );
        assert!(answered.has("gen_ai.usage."), "{spans:#?}");
    });
}

#[test]
fn a_count_of_tokens_also_sends_the_span() {
    run(async {
        let (mock, receiver) = (Mock::start().await, Receiver::start().await);
        mock.always(Script::json(200, &json!({"input_tokens": 7})));
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: anthropic, trace: true")
            .model("m", &["a"]);
        let gateway = receiver
            .of(Gateway::with(catalog.clone()), "")
            .start()
            .await;
        let bearer = format!("Bearer {KEY}");
        let parent = format!("00-{TRACE}-{PARENT}-01");
        let fields = [
            ("authorization", &*bearer),
            ("content-type", "application/json"),
            ("traceparent", &*parent),
        ];
        let body =
            json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).to_string();
        let request = || {
            client::request(
                "POST",
                "/v1/messages/count_tokens",
                &fields,
                body.as_bytes(),
            )
        };
        let answer = gateway.raw(request()).await;
        assert_eq!(answer.json()["input_tokens"], 7, "{}", answer.text());
        end(gateway);
        let spans = receiver.spans();
        let attempt = spans
            .iter()
            .find(|span| !span.is_server())
            .expect("its attempt");
        let told = mock.requests()[0].field("traceparent").map(str::to_owned);
        assert_eq!(told, Some(format!("00-{TRACE}-{}-01", attempt.id)));
        // Without traces the account is told nothing.
        let gateway = Gateway::start(catalog).await;
        assert_eq!(gateway.raw(request()).await.status, 200);
        assert_eq!(mock.requests()[1].field("traceparent"), None);
    });
}

#[test]
fn what_was_slow_is_kept() {
    run(async {
        let (mock, receiver) = (Mock::start().await, Receiver::start().await);
        mock.push(Script::answer("quick")).push(
            Script::new()
                .delay(Duration::from_millis(1_500))
                .then_answer("slow"),
        );
        let gateway = receiver
            .of(
                Gateway::with(Catalog::over(&mock)),
                "sample: 0%, slow: 1500ms",
            )
            .start()
            .await;
        let mut slow = Vec::new();
        for _ in 0..2 {
            let answer = gateway.raw(with(&[])).await;
            let line = gateway.line_of(&answer).await;
            // A busy machine may make the quick one slow.
            if line["total_ms"].as_u64().expect("a time") >= 1_500 {
                slow.push(line["request_id"].clone());
            }
        }
        end(gateway);
        let spans = receiver.spans();
        let kept: Vec<_> = servers(&spans)
            .iter()
            .map(|span| json!(span.of_name("portcullis.request_id")))
            .collect();
        assert!(!slow.is_empty() && kept == slow, "{spans:#?}");
    });
}

#[test]
fn a_parent_is_in_the_access_line_without_traces() {
    run(async {
        let (mock, receiver) = (Mock::start().await, Receiver::start().await);
        let catalog = Catalog::new()
            .account_with("a", &mock, "trace: true")
            .model("m", &["a"]);
        // The variables switch nothing on.
        let setup = Gateway::with(catalog).env("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver.url());
        let gateway = setup.env("OTEL_TRACES_EXPORTER", "otlp").start().await;
        assert_eq!(gateway.raw(traced("01")).await.status, 200);
        assert_eq!(gateway.raw(with(&[])).await.status, 200);
        let lines = gateway.access_lines(2).await;
        assert_eq!(
            (lines[0]["trace_id"].as_str(), lines[1].get("trace_id")),
            (Some(TRACE), None)
        );
        assert!(
            mock.requests()
                .iter()
                .all(|request| request.field("traceparent").is_none())
        );
        assert!(!gateway.admin("/metrics").1.contains("portcullis_spans"));
        end(gateway);
        assert_eq!(receiver.mock.count(), 0);
    });
}

#[test]
fn an_account_asking_for_missing_traces_is_warned_of() {
    let account = |id: &str, more: &str| {
        format!(
            "  {id}: {{ dialect: ollama, base_url: 'http://127.0.0.1:9', trace: true{more} }}\n"
        )
    };
    let mut accounts = account("gpu", "") + &account("off", ", enabled: false");
    let folder = Folder::new(&[]);
    let told = |accounts: &str, server: &str| {
        let rest =
            "models: { m: { targets: [ { account: gpu, model: x } ] } }\ncallers: { acme: {} }\n";
        folder.write("catalog.yaml", format!("accounts:\n{accounts}{rest}"));
        folder.write("server.yaml", server);
        let Ran { status, stderr, .. } = folder.run(&["check"]);
        assert!(status.success(), "{stderr}");
        stderr
    };
    const WHY: &str = "warning: server.yaml traces: is not written, or switched off, so `trace: true` has no effect, and \
                       these accounts get no `traceparent`: \"gpu\"";
    assert_eq!(told(&accounts, "workers: 1\n"), format!("{WHY}\n"));
    assert_eq!(
        told(&accounts, "traces: { endpoint: 'http://127.0.0.1:4318' }\n"),
        ""
    );
    (1..10).for_each(|number| accounts += &account(&format!("x{number}"), ""));
    let others: String = (1..8).map(|number| format!(", \"x{number}\"")).collect();
    let all = told(&accounts, "workers: 1\n");
    assert!(
        all.starts_with(&format!("{WHY}{others}, 2 more\n")),
        "{all}"
    );
}

#[test]
fn spans_go_through_the_proxy_of_the_environment() {
    run_within(Duration::from_secs(90), async {
        let (ca, proxy, upstream) = (Ca::new(), Proxy::start().await, Mock::start().await);
        let receiver = Receiver {
            mock: Mock::tls(&ca.leaf_for("collector.invalid")).await,
        };
        receiver
            .mock
            .always(Script::text(200, "application/x-protobuf", ""));
        proxy.knows("collector.invalid:4318", &receiver.mock);
        let server = "upstream_proxy: environment\ntraces: { endpoint: 'https://collector.invalid:4318', tls: { ca: ca.pem } }";
        let setup = Gateway::with(Catalog::over(&upstream))
            .server(server)
            .file("ca.pem", ca.pem());
        let setup = setup
            .env("HTTPS_PROXY", &proxy.url(""))
            .upstream(proxy.port());
        let gateway = setup.start().await;
        assert_eq!(gateway.raw(with(&[])).await.status, 200);
        // They come by themselves, in five seconds. At the end of the process a new connection may
        // come too late.
        assert_eq!(receiver.wait(&gateway, 2).await.len(), 2);
        end(gateway);
        assert_eq!(proxy.asked(), ["CONNECT collector.invalid:4318 HTTP/1.1"]);
        // The account is on this machine, and is reached without the proxy.
        assert_eq!(upstream.count(), 1);
    });
}

#[test]
fn variables_fill_gaps_and_headers_stay_secret() {
    run(async {
        let (mock, receiver) = (Mock::start().await, Receiver::start().await);
        let secret = format!("Bearer {}", crate::support::canary::ACCOUNT_KEY);
        let setup = Gateway::with(Catalog::over(&mock)).server("traces: { gen_ai: off }");
        let setup = setup.env(
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            &format!("{}/otel/", receiver.url()),
        );
        let setup = setup.env(
            "OTEL_EXPORTER_OTLP_HEADERS",
            &format!("Authorization={}", secret.replace(' ', "%20")),
        );
        let setup = setup
            .env("OTEL_SERVICE_NAME", "llm")
            .upstream(receiver.mock.address().port());
        let gateway = setup.start().await;
        assert_eq!(gateway.raw(with(&[])).await.status, 200);
        end(gateway);
        let request = &receiver.mock.requests()[0];
        assert_eq!(
            (&*request.target, request.field("authorization")),
            ("/otel/v1/traces", Some(&*secret))
        );
        let resource = decode(request)
            .resource_spans
            .remove(0)
            .resource
            .expect("a resource");
        assert!(
            attributes(resource.attributes)
                .contains(&("service.name".to_owned(), "llm".to_owned()))
        );
        assert!(
            receiver.spans().iter().all(|span| !span.has("gen_ai.")),
            "{:#?}",
            receiver.spans()
        );
    });
}

#[test]
fn another_protocol_is_refused_with_what_to_write() {
    let setup = || Gateway::with(Catalog::new()).server("traces: {}");
    let setup_of = |endpoint: &str, protocol: &str| {
        setup()
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    };
    let (status, output) = setup_of("http://127.0.0.1:4318", "grpc").refuse();
    assert!(
        !status.success()
            && output.contains("which is grpc")
            && output.contains("write http/protobuf"),
        "{output}"
    );
    let (_, output) = setup_of("http://127.0.0.1:4317", "").refuse();
    assert!(
        output.contains("4317, the port for gRPC") && output.contains("4318"),
        "{output}"
    );
}

#[test]
fn a_reload_loses_no_spans() {
    run(async {
        let (mock, other, receiver) = (
            Mock::start().await,
            Mock::start().await,
            Receiver::start().await,
        );
        let gateway = receiver
            .of(Gateway::with(Catalog::over(&mock)), "")
            .start()
            .await;
        assert_eq!(gateway.raw(with(&[])).await.status, 200);
        gateway
            .swap(Catalog::new().account("z", &other).model("m", &["z"]))
            .await;
        assert_eq!(gateway.raw(with(&[])).await.status, 200);
        end(gateway);
        let spans = receiver.spans();
        // Each knows the account that it began with.
        let ports: Vec<_> = spans
            .iter()
            .filter(|span| !span.is_server())
            .map(|span| span.of_name("server.port"))
            .collect();
        assert_eq!(
            ports,
            [&mock, &other].map(|mock| mock.address().port().to_string())
        );
    });
}
