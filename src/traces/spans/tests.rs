use super::*;
use crate::base::trace_context::{Parent, to_hex};
use crate::catalog::resolve::resolve_catalog;
use crate::conf::config::{self, Listen};
use crate::conf::price::Usd;
use crate::error::Outcome;
use crate::live::Snapshot;
use crate::metrics::Metrics;
use crate::settled::{Attempts, MAX_PARTS};
use crate::traces::queue::MAX_BATCH_SPANS;
use dialects::Labels;
use dialects::neutral::Finish;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message as _;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

const CATALOG: &str = "accounts:\n  gpu: { dialect: openai, preset: vllm, base_url: 'https://gpu.example.com:8000/v1', key: k }\n  \
    main: { dialect: openai, key: k }\n  claude: { dialect: anthropic, key: k }\n  azure: { dialect: azure, base_url: 'https://x.openai.azure.com', key: k }\n\
    models: {}\ncallers: {}\n";

fn traces(more: &str) -> Traces {
    let text = format!("traces: {{ endpoint: 'http://c:4318', {more} }}");
    let server =
        config::parse_server("server.yaml", &text, &mut |_| Err("is not set".to_owned())).unwrap();
    let listen = Listen {
        address: at(),
        h2c: false,
        tls: None,
    };
    Traces::new(
        server.traces.unwrap(),
        &[listen],
        Metrics::default().spans(),
    )
}

fn at() -> SocketAddr {
    "10.0.0.1:8080".parse().unwrap()
}

fn snapshot() -> Option<Arc<Snapshot>> {
    let files = [("catalog.yaml".to_owned(), CATALOG.to_owned())];
    let catalog = resolve_catalog(&files, &mut |_| Ok(String::new()))
        .unwrap_or_else(|problems| panic!("{problems}"));
    Some(Arc::new(Snapshot::new(
        catalog,
        &Default::default(),
        &Default::default(),
        &mut Vec::new,
        1,
    )))
}

fn tried(account: &str, outcome: &'static str, at_ms: u64) -> Tried {
    Tried {
        account: account.into(),
        model: "gpt-4o-mini".into(),
        outcome,
        count: 1,
        at_ms,
        ms: 10,
        ..Tried::default()
    }
}

/// An exchange that fell over, and then was answered.
fn settled() -> Settled {
    let parent = Parent {
        span: [7; 8],
        is_sampled: true,
        state: Some("a=1".into()),
    };
    let trace = TraceContext {
        trace: [9; 16],
        parent: Some(parent),
        is_sampled: true,
        local_address: Some(at()),
    };
    let mut settled = Settled {
        began_at: 1_800_000_000_000,
        total: Duration::from_micros(80_500),
        outcome: Outcome::Ok,
        trace: Some(Arc::new(trace)),
        ..Settled::default()
    };
    settled.request.id = "req-1".to_owned();
    (settled.request.door, settled.request.method) = ("chat", "POST".to_owned());
    settled.request.path = "/v1/chat/completions".into();
    settled.request.model = Some("fast".into());
    (settled.sender.caller, settled.sender.key) = (Some("acme".into()), Some("prod".into()));
    settled.sender.address = Some([192, 0, 2, 1].into());
    settled.answer.status = 200;
    let usage = Usage {
        prompt: 50,
        completion: 9,
        cached: 20,
        reasoning: 3,
        source: Source::Reported,
        ..Usage::default()
    };
    (settled.spending.usage, settled.spending.cost) = (usage, Some(Usd(1_500)));
    let answered = Tried {
        gives_usage: true,
        status: Some(200),
        span: Some([5; 8]),
        ..tried("main", "ok", 20)
    };
    settled.attempts.trail = vec![tried("gpu", "unreachable", 0), answered];
    settled
}

/// The spans of an exchange, each as its lines: its head, and its attributes.
fn shown(traces: &Traces, settled: Settled) -> Vec<(String, Vec<String>)> {
    let mut next = 0;
    let mut ids = || {
        next += 1;
        [next; 8]
    };
    let snapshot = snapshot();
    let (catalog, mut bytes) = (
        snapshot.as_ref().map(|snapshot| &snapshot.catalog),
        Message::default(),
    );
    let count = write_exchange(traces, &settled, catalog, &mut ids, &mut bytes);
    let spans = read(traces, bytes.encoded())
        .scope_spans
        .pop()
        .unwrap()
        .spans;
    assert_eq!(spans.len(), count);
    let text = |value: &AnyValue| match value.value.as_ref().unwrap() {
        Value::StringValue(text) => text.clone(),
        Value::BoolValue(truth) => truth.to_string(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => format!("{number:?}"),
        Value::ArrayValue(list) => format!(
            "{:?}",
            list.values.iter().map(|one| &one.value).collect::<Vec<_>>()
        ),
        Value::KvlistValue(_) | Value::BytesValue(_) | Value::StringValueStrindex(_) => {
            panic!("no such value")
        }
    };
    let one = |span: &Span| {
        assert_eq!(
            (to_hex(&span.trace_id), &*span.trace_state),
            ("09".repeat(16), "a=1")
        );
        assert_eq!(span.flags, if span.kind == 2 { 0x301 } else { 0x101 });
        let took = (span.end_time_unix_nano - span.start_time_unix_nano) / 1_000;
        let from = (span.start_time_unix_nano - 1_800_000_000_000 * MILLI) / MILLI;
        let error = if span.status.as_ref().is_some_and(|status| status.code == 2) {
            " error"
        } else {
            ""
        };
        let (id, parent) = (to_hex(&span.span_id), to_hex(&span.parent_span_id));
        let head = format!(
            "{} kind={} {id}<{parent} {from}+{took}us{error}",
            span.name, span.kind
        );
        let attributes = span
            .attributes
            .iter()
            .map(|one| format!("{}={}", one.key, text(one.value.as_ref().unwrap())));
        (head, attributes.collect())
    };
    spans.iter().map(one).collect()
}

/// Reads what is sent, with the messages of OpenTelemetry's authors. They must have a field for all
/// of it.
fn read(traces: &Traces, spans: &[u8]) -> ResourceSpans {
    let sent = [&preamble(traces, "gw-1", spans.len()), spans].concat();
    let read = ExportTraceServiceRequest::decode(&*sent).unwrap();
    assert_eq!(read.encoded_len(), sent.len(), "{read:?}");
    let [one] = <[ResourceSpans; 1]>::try_from(read.resource_spans).unwrap();
    let scope = &one.scope_spans[0];
    let named = scope
        .scope
        .as_ref()
        .map(|scope| (&*scope.name, &*scope.version));
    assert_eq!(named, Some(("portcullis", env!("CARGO_PKG_VERSION"))));
    assert_eq!([&*one.schema_url, &*scope.schema_url], [words::SCHEMA; 2]);
    one
}

fn attribute<'s>(span: &'s (String, Vec<String>), name: &str) -> Option<&'s str> {
    span.1
        .iter()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

#[test]
fn a_trace_has_a_span_for_each_attempt() {
    let spans = shown(&traces(""), settled());
    let heads: Vec<&str> = spans.iter().map(|(head, _)| &**head).collect();
    assert_eq!(
        heads,
        [
            "POST /v1/chat/completions kind=2 0101010101010101<0707070707070707 0+80500us",
            "chat gpt-4o-mini kind=3 0202020202020202<0101010101010101 0+10000us error",
            "chat gpt-4o-mini kind=3 0505050505050505<0101010101010101 20+10000us",
        ]
    );
    assert_eq!(
        spans[0].1,
        [
            "http.request.method=POST",
            "http.route=/v1/chat/completions",
            "url.path=/v1/chat/completions",
            "url.scheme=http",
            "http.response.status_code=200",
            "server.address=10.0.0.1",
            "server.port=8080",
            "client.address=192.0.2.1",
            "portcullis.request_id=req-1",
            "portcullis.caller=acme",
            "portcullis.key=prod",
            "portcullis.model=fast",
            "portcullis.outcome=ok",
            "portcullis.attempts=2",
            "portcullis.own_us=0",
            "openinference.span.kind=CHAIN",
        ]
    );
    assert_eq!(
        spans[1].1,
        [
            "gen_ai.operation.name=chat",
            "gen_ai.provider.name=vllm",
            "gen_ai.request.model=gpt-4o-mini",
            "http.request.method=POST",
            "server.address=gpu.example.com",
            "server.port=8000",
            "portcullis.account=gpu",
            "portcullis.outcome=unreachable",
            "error.type=unreachable",
        ]
    );
    assert_eq!(
        spans[2].1,
        [
            "gen_ai.operation.name=chat",
            "gen_ai.provider.name=openai",
            "gen_ai.request.model=gpt-4o-mini",
            "openai.api.type=chat_completions",
            "gen_ai.usage.input_tokens=50",
            "gen_ai.usage.output_tokens=9",
            "gen_ai.usage.cache_read.input_tokens=20",
            "gen_ai.usage.reasoning.output_tokens=3",
            "portcullis.usage=reported",
            "gen_ai.usage.cost=1.5e-6",
            "http.request.method=POST",
            "http.request.resend_count=1",
            "http.response.status_code=200",
            "server.address=api.openai.com",
            "server.port=443",
            "portcullis.account=main",
            "portcullis.outcome=ok",
        ]
    );
}

#[test]
fn usage_is_on_one_span_losers_have_theirs() {
    let mut hedged = settled();
    let lost = Tried {
        prompt_tokens: Some(50),
        completion_tokens: Some(2),
        cost: Some(None),
        ..tried("claude", "slower", 5)
    };
    let unbilled = tried("azure", "slower", 6);
    let slice = Tried {
        gives_usage: true,
        ..tried("main", "ok", 30)
    };
    hedged.attempts.trail.extend([lost, unbilled, slice]);
    let spans = shown(&traces(""), hedged);
    let used: Vec<_> = spans
        .iter()
        .map(|span| attribute(span, "gen_ai.usage.input_tokens"))
        .collect();
    // They are in the order in which they began: gpu, claude, azure, main, main.
    assert_eq!(used, [None, None, Some("50"), None, Some("50"), None]);
    assert_eq!(
        attribute(&spans[2], "gen_ai.usage.cost"),
        None,
        "the price is not known"
    );
    assert_eq!(
        attribute(&spans[2], "gen_ai.usage.output_tokens"),
        Some("2")
    );
    assert!(
        !spans[2].0.ends_with("error") && attribute(&spans[2], "error.type").is_none(),
        "{:?}",
        spans[2]
    );
    let providers: Vec<_> = spans
        .iter()
        .filter_map(|span| attribute(span, "gen_ai.provider.name"))
        .collect();
    assert_eq!(
        providers,
        ["vllm", "anthropic", "azure.ai.openai", "openai", "openai"]
    );
    let resent: Vec<_> = spans
        .iter()
        .map(|span| attribute(span, "http.request.resend_count"))
        .collect();
    assert_eq!(
        resent,
        [None, None, Some("1"), Some("2"), Some("3"), Some("4")]
    );
}

#[test]
fn unknown_prices_are_no_cost_and_estimates_say_so() {
    let mut one = settled();
    (one.spending.cost, one.spending.usage.source) = (None, Source::Estimated);
    let spans = shown(&traces(""), one);
    assert_eq!(attribute(&spans[2], "gen_ai.usage.cost"), None);
    assert_eq!(attribute(&spans[2], "portcullis.usage"), Some("estimated"));
}

#[test]
fn plain_counting_spans_are_those_of_http() {
    let mut counted = settled();
    (counted.request.door, counted.request.path) = ("count", "/v1/messages/count_tokens".into());
    for (more, settled) in [("gen_ai: off", settled()), ("", counted)] {
        let spans = shown(&traces(more), settled);
        assert!(
            spans[1].0.starts_with("POST kind=3") && spans[2].0.starts_with("POST kind=3"),
            "{spans:?}"
        );
        assert!(
            spans
                .iter()
                .flat_map(|span| &span.1)
                .all(|line| !line.starts_with("gen_ai.")),
            "{spans:?}"
        );
    }
}

#[test]
fn streams_and_conversations_are_shown_without_callers_names() {
    let mut one = settled();
    (one.request.stream, one.request.session) = (true, Some("mail@example.com".into()));
    one.attempts.trail[1].first_ms = Some(422);
    let spans = shown(&traces(""), one);
    assert_eq!(attribute(&spans[2], "gen_ai.request.stream"), Some("true"));
    assert_eq!(
        attribute(&spans[2], "gen_ai.response.time_to_first_chunk"),
        Some("0.422")
    );
    let told = attribute(&spans[2], "gen_ai.conversation.id").unwrap();
    assert!(told.len() == 16 && !told.contains("mail"), "{told}");
    // Another caller's conversation of the same name is another one.
    let mut other = settled();
    (other.request.session, other.sender.caller) =
        (Some("mail@example.com".into()), Some("other".into()));
    assert_ne!(
        attribute(&shown(&traces(""), other)[2], "gen_ai.conversation.id"),
        Some(told)
    );
}

#[test]
fn slices_that_ended_alike_keep_their_spans() {
    let mut sliced = settled();
    sliced.attempts = Attempts::of_slices(true);
    for (number, outcome) in [
        (1, "ok"),
        (2, "status"),
        (3, "ok"),
        (4, "status"),
        (6, "ok"),
    ] {
        let gives_usage = outcome == "ok";
        let span = Some([number; 8]);
        sliced.attempts.add(Tried {
            gives_usage,
            span,
            ..tried("main", outcome, u64::from(number))
        });
    }
    assert_eq!(
        sliced.attempts.trail.len(),
        2,
        "the access line has them together"
    );
    let spans = shown(&traces(""), sliced);
    let heads: Vec<_> = spans[1..]
        .iter()
        .map(|(head, _)| head.split_once("kind=3 ").unwrap().1)
        .collect();
    let expected =
        [(1, ""), (2, " error"), (3, ""), (4, " error"), (6, "")].map(|(number, error)| {
            let id = to_hex(&[number; 8]);
            format!("{id}<0101010101010101 {number}+10000us{error}")
        });
    assert_eq!(heads, expected);
    let used: Vec<_> = spans
        .iter()
        .filter_map(|span| attribute(span, "gen_ai.usage.input_tokens"))
        .collect();
    assert_eq!(used, ["50"]);
    assert!(
        spans
            .iter()
            .all(|span| attribute(span, "http.request.resend_count").is_none()),
        "{spans:?}"
    );
}

#[test]
fn a_request_of_many_slices_has_few_spans() {
    let mut sliced = settled();
    sliced.attempts = Attempts::of_slices(true);
    for number in 0..4_096 {
        sliced.attempts.add(tried(
            "main",
            if number % 2 == 0 { "ok" } else { "status" },
            number,
        ));
    }
    let count = write_exchange(
        &traces(""),
        &sliced,
        None,
        &mut || [1; 8],
        &mut Message::default(),
    );
    assert!(
        count > usize::from(MAX_PARTS) && count < MAX_BATCH_SPANS,
        "{count}"
    );
}

#[test]
fn slices_are_no_retries_whatever_their_ends() {
    let mut sliced = settled();
    sliced.attempts = Attempts::of_slices(true);
    for (at_ms, outcome) in [(0, "ok"), (5, "status")] {
        sliced.attempts.add(tried("main", outcome, at_ms));
    }
    let spans = shown(&traces(""), sliced);
    assert_eq!(spans.len(), 3);
    assert!(
        spans
            .iter()
            .all(|span| attribute(span, "http.request.resend_count").is_none()),
        "{spans:?}"
    );
}

#[test]
fn without_parts_one_span_stands_for_slices() {
    let mut sliced = settled();
    sliced.attempts = Attempts::of_slices(false);
    (0..3).for_each(|at_ms| sliced.attempts.add(tried("main", "ok", at_ms)));
    let spans = shown(&traces(""), sliced);
    let times: Vec<_> = spans
        .iter()
        .map(|span| attribute(span, "portcullis.attempts"))
        .collect();
    assert_eq!(times, [Some("3"), Some("3")]);
}

#[test]
fn the_scheme_is_that_of_the_addresss_listener() {
    let listeners = ["127.0.0.1:1", "[::1]:1", "0.0.0.0:2", "[::]:2", "[::]:3"]
        .map(|address| (address.parse().unwrap(), address.starts_with('[')));
    for (at, expected) in [
        ("127.0.0.1:1", false),
        ("[::1]:1", true),
        ("10.0.0.1:1", false),
        ("127.0.0.1:2", false),
        ("[::1]:2", true),
        ("10.0.0.1:3", true),
        ("[::ffff:10.0.0.1]:3", true),
        ("127.0.0.1:4", false),
    ] {
        assert_eq!(
            speaks_tls(&listeners, at.parse().unwrap()),
            expected,
            "{at}"
        );
    }
}

#[test]
fn an_answers_end_is_on_the_answering_span() {
    let mut one = settled();
    one.request.wants_json = true;
    (one.request.most_tokens, one.request.choices) = (NonZeroU32::new(256), 2);
    one.served.reasons = [Finish::Length, Finish::Calls].into_iter().collect();
    let spans = shown(&traces(""), one.clone());
    let names = ["gen_ai.response.finish_reasons", "gen_ai.output.type"];
    let [reasons, output] = names.map(|name| attribute(&spans[2], name));
    let reasons = reasons.unwrap();
    assert!(
        reasons.contains("length") && reasons.contains("tool_calls") && !reasons.contains("stop"),
        "{reasons}"
    );
    assert_eq!(
        (output, attribute(&spans[1], names[0])),
        (Some("json"), None)
    );
    assert_eq!(attribute(&spans[1], names[1]), Some("json"));
    let settings = ["gen_ai.request.max_tokens", "gen_ai.request.choice.count"];
    assert_eq!(
        settings.map(|name| attribute(&spans[2], name)),
        [Some("256"), Some("2")]
    );
    one.request.choices = 1;
    assert_eq!(
        attribute(&shown(&traces(""), one.clone())[2], settings[1]),
        None
    );
    // What was cut has no reason of its own.
    one.attempts.trail[1].outcome = "cut";
    assert_eq!(attribute(&shown(&traces(""), one)[2], names[0]), None);
}

#[test]
fn a_providers_answer_id_is_on_its_attempt() {
    let mut one = settled();
    let label = |label: &str| Some(label.to_owned());
    let labels = Labels {
        id: label("chatcmpl-1"),
        model: label("gpt-4o-mini-2024"),
        tier: label("flex"),
    };
    // The first account is no account at OpenAI.
    one.attempts
        .trail
        .iter_mut()
        .for_each(|tried| tried.labels = Some(Box::new(labels.clone())));
    let spans = shown(&traces(""), one.clone());
    let names = [
        "gen_ai.response.id",
        "gen_ai.response.model",
        "openai.response.service_tier",
    ];
    let told = |place: usize| names.map(|name| attribute(&spans[place], name));
    assert_eq!(told(0), [None; 3]);
    assert_eq!(
        told(1),
        [Some("chatcmpl-1"), Some("gpt-4o-mini-2024"), None]
    );
    assert_eq!(
        told(2),
        [Some("chatcmpl-1"), Some("gpt-4o-mini-2024"), Some("flex")]
    );
    let plain = shown(&traces("gen_ai: off"), one);
    assert!(
        plain
            .iter()
            .all(|span| names.iter().all(|name| attribute(span, name).is_none())),
        "{plain:?}"
    );
}

#[test]
fn callers_own_doing_is_no_gateway_error() {
    let failed = |outcome, status| {
        let mut one = settled();
        (one.outcome, one.answer.status) = (outcome, status);
        let span = shown(&traces(""), one).remove(0);
        (
            span.0.ends_with("error"),
            attribute(&span, "error.type").map(str::to_owned),
        )
    };
    assert_eq!(failed(Outcome::Unauthorized, 401), (false, None));
    assert_eq!(failed(Outcome::ClientLeft, 499), (false, None));
    // The status had left before the stream was cut.
    assert_eq!(
        failed(Outcome::UpstreamCut, 200),
        (true, Some("upstream_cut".to_owned()))
    );
    assert_eq!(
        failed(Outcome::NoCapacity, 503),
        (true, Some("no_capacity".to_owned()))
    );
}

#[test]
fn sentences_of_upstreams_and_odd_methods_are_not_shown() {
    let mut one = settled();
    (one.answer.error, one.request.method) = (Some("s3cret".to_owned()), "S3CRET".to_owned());
    one.attempts.trail[0].detail = Some("s3cret".to_owned());
    one.served.upstream_request_id = Some("s3cret".to_owned());
    let spans = shown(&traces(""), one);
    assert!(
        !format!("{spans:?}").to_lowercase().contains("s3cret"),
        "{spans:?}"
    );
    assert!(
        spans[0].0.starts_with("HTTP /v1/chat/completions"),
        "{}",
        spans[0].0
    );
}

#[test]
fn the_resource_says_which_gateway_it_is() {
    let resource = |more: &str| {
        let names = read(&traces(more), &[])
            .resource
            .unwrap()
            .attributes
            .into_iter()
            .map(|one| {
                let Some(Value::StringValue(value)) = one.value.and_then(|value| value.value)
                else {
                    panic!("no text")
                };
                format!("{}={value}", one.key)
            });
        names.collect::<Vec<_>>()
    };
    let version = format!("service.version={}", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        resource(""),
        [
            "service.name=portcullis",
            &version,
            "service.instance.id=gw-1"
        ]
    );
    let written = resource("resource: { service.instance.id: mine }");
    assert_eq!(
        written,
        [
            "service.instance.id=mine",
            "service.name=portcullis",
            &version
        ]
    );
}
