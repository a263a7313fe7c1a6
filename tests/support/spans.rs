//! A receiver of spans: it decodes what the gateway posts with OpenTelemetry's own messages.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use super::gateway::Setup;
use super::mock::Request;
use super::{Gateway, Mock, Script, canary, wire};

pub struct Receiver {
    pub mock: Mock,
}

/// A span, with its ids and its attributes as texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub state: String,
    pub name: String,
    pub kind: i32,
    pub is_error: bool,
    pub from: u64,
    pub to: u64,
    attributes: Vec<(String, String)>,
}

impl Receiver {
    pub async fn start() -> Receiver {
        let mock = Mock::start().await;
        mock.always(Script::text(200, "application/x-protobuf", ""));
        Receiver { mock }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.mock.address())
    }

    /// Has a gateway send its traces here. `more` is YAML.
    pub fn of(&self, setup: Setup, more: &str) -> Setup {
        let traces = format!("traces: {{ endpoint: \"{}\", {more} }}", self.url());
        setup.server(&traces).upstream(self.mock.address().port())
    }

    /// Returns all spans so far, as they came.
    #[track_caller]
    pub fn spans(&self) -> Vec<Got> {
        self.mock
            .requests()
            .iter()
            .flat_map(|request| spans(request))
            .collect()
    }

    /// Waits until there are at least so many spans.
    pub async fn wait(&self, gateway: &Gateway, wanted: usize) -> Vec<Got> {
        let what = format!("{wanted} spans");
        gateway
            .when_spans_are_due(&what, || self.spans().len() >= wanted)
            .await;
        self.spans()
    }
}

/// Decodes a request. It must be one that receivers take, and have nothing secret in it.
#[track_caller]
pub fn decode(request: &Request) -> ExportTraceServiceRequest {
    assert_eq!(
        (&*request.method, request.field("content-type")),
        ("POST", Some("application/x-protobuf"))
    );
    canary::check("a span", &request.body).unwrap();
    assert!(
        wire::position(&request.body, b"pr0mpt").is_none(),
        "content is in a span"
    );
    ExportTraceServiceRequest::decode(&*request.body).expect("spans")
}

#[track_caller]
fn spans(request: &Request) -> Vec<Got> {
    let resources = decode(request).resource_spans.into_iter();
    resources
        .flat_map(|resource| resource.scope_spans)
        .flat_map(|scope| scope.spans)
        .map(Got::of)
        .collect()
}

pub fn text(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value).expect("a value") {
        Value::StringValue(text) => text,
        Value::BoolValue(truth) => truth.to_string(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        Value::ArrayValue(list) => list
            .values
            .into_iter()
            .map(|value| text(Some(value)))
            .collect::<Vec<_>>()
            .join(","),
        other => panic!("no such value is sent: {other:?}"),
    }
}

pub fn attributes(list: Vec<KeyValue>) -> Vec<(String, String)> {
    list.into_iter()
        .map(|one| (one.key, text(one.value)))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Got {
    fn of(span: Span) -> Got {
        assert!((span.trace_id.len(), span.span_id.len()) == (16, 8) && span.span_id != [0; 8]);
        assert!(
            span.start_time_unix_nano <= span.end_time_unix_nano,
            "{span:?}"
        );
        Got {
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            state: span.trace_state,
            name: span.name,
            kind: span.kind,
            is_error: span.status.is_some_and(|status| status.code == 2),
            from: span.start_time_unix_nano,
            to: span.end_time_unix_nano,
            attributes: attributes(span.attributes),
        }
    }

    /// Returns an attribute; an empty text if there is none.
    pub fn of_name(&self, name: &str) -> &str {
        self.attributes
            .iter()
            .find(|(key, _)| key == name)
            .map_or("", |(_, value)| value)
    }

    pub fn has(&self, beginning: &str) -> bool {
        self.attributes
            .iter()
            .any(|(key, _)| key.starts_with(beginning))
    }

    pub fn is_server(&self) -> bool {
        self.kind == 2
    }
}
