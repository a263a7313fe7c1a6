//! The spans of a settled exchange: one of the gateway's own, and below it one for each attempt.
//! Pure: the ids are passed in.
//!
//! **Invariant:** the usage of an answer, and its cost, are on one span only, that of the attempt
//! that is paid for. A receiver sums over spans, and would count it twice.

use super::sampling::is_failure;
use super::words::{self, gen_ai, http_};
use super::{Traces, Unsent};
use crate::access_log::end_user_hash;
use crate::base::trace_context::{SpanId, TraceContext};
use crate::catalog::Account;
use crate::error::Blame;
use crate::settled::{Settled, Tried, micros, millis};
use dialects::usage::{Source, Usage};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The nanoseconds of a millisecond.
const MILLI: u64 = 1_000_000;
/// The flags of a span: it is kept, and it is known whether its parent is in another process.
const FLAGS: u32 = 0x101;
/// The same, and its parent is in another process.
const REMOTE: u32 = 0x301;

/// Puts the spans of exchanges together, as they are sent. `instance` is the name of this gateway.
pub(super) fn message(
    traces: &Traces,
    batch: &[Unsent],
    instance: &str,
    ids: &mut dyn FnMut() -> SpanId,
) -> ResourceSpans {
    let mut resource = Attributes::default();
    for (name, value) in &traces.settings.resource {
        resource.text(name, value);
    }
    let known = |name: &str| traces.settings.resource.contains_key(name);
    for (name, value) in [("service.version", env!("CARGO_PKG_VERSION")), ("service.instance.id", instance)] {
        if !known(name) {
            resource.text(name, value);
        }
    }
    let mut spans = Vec::with_capacity(batch.iter().map(Unsent::spans).sum());
    for kept in batch {
        of_exchange(traces, kept, ids, &mut spans);
    }
    let scope = InstrumentationScope {
        name: "portcullis".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    ResourceSpans {
        resource: Some(Resource { attributes: resource.0, ..Resource::default() }),
        scope_spans: vec![ScopeSpans { scope: Some(scope), spans, schema_url: words::SCHEMA.to_owned() }],
        schema_url: words::SCHEMA.to_owned(),
    }
}

fn of_exchange(traces: &Traces, kept: &Unsent, ids: &mut dyn FnMut() -> SpanId, spans: &mut Vec<Span>) {
    let settled = &kept.settled;
    let Some(context) = &settled.trace else { return };
    let server = server(traces, settled, context, ids());
    let parent = server.span_id.clone();
    spans.push(server);
    // The trail lists the attempts as they ended.
    let mut begun: Vec<(usize, &Tried)> = settled.attempts.each().enumerate().collect();
    begun.sort_by_key(|(_, tried)| tried.at_ms);
    // With slices of a request, several attempts are paid for: the first has the usage of all. They
    // are no retries.
    let paid = settled.attempts.each().position(|tried| tried.is_paid);
    for (nth, (place, tried)) in begun.into_iter().enumerate() {
        let accounts = kept.snapshot.iter().flat_map(|snapshot| snapshot.catalog.accounts());
        let one = OfAttempt {
            settled,
            tried,
            account: accounts.into_iter().find(|account| account.id == tried.account),
            resends: if settled.attempts.is_sliced { 0 } else { nth },
            is_paid: paid == Some(place),
        };
        let mut span = one.span(traces.settings.gen_ai);
        span.trace_id = context.trace.to_vec();
        span.trace_state = context.state().unwrap_or_default().to_owned();
        span.span_id = tried.span.unwrap_or_else(&mut *ids).to_vec();
        span.parent_span_id.clone_from(&parent);
        spans.push(span);
    }
}

/// Makes the span of the gateway itself.
fn server(traces: &Traces, settled: &Settled, context: &TraceContext, id: SpanId) -> Span {
    let Settled { sender, request, answer, served, attempts, times, spending, outcome, total, .. } = settled;
    let (method, route) = (words::method(&request.method), words::route(request.door, &request.path));
    let port = context.at.map(|at| at.port());
    let is_secure = context.at.is_some_and(|at| speaks_tls(&traces.listeners, at));
    let mut attributes = Attributes::default();
    attributes.text(http_::METHOD, method);
    attributes.optional(http_::ROUTE, route);
    attributes.text(http_::PATH, &request.path);
    attributes.text(http_::SCHEME, if is_secure { "https" } else { "http" });
    attributes.number(http_::STATUS, Some(answer.status.into()).filter(|status| *status > 0));
    attributes.optional(http_::SERVER, context.at.map(|at| at.ip().to_string()).as_deref());
    attributes.number(http_::PORT, port.map(u64::from));
    attributes.optional(http_::CLIENT, sender.address.map(|address| address.to_string()).as_deref());
    attributes.text("portcullis.request_id", &request.id);
    attributes.optional("portcullis.caller", sender.caller.as_deref());
    attributes.optional("portcullis.key", sender.key.as_deref());
    attributes.optional("portcullis.model", request.model.as_deref());
    attributes.text("portcullis.outcome", outcome.name());
    attributes.number("portcullis.attempts", Some(attempts.count().into()));
    attributes.number("portcullis.own_us", Some(micros(times.own)));
    attributes.number("portcullis.queued_ms", Some(millis(times.queued)).filter(|_| !times.queued.is_zero()));
    let limited = spending.limited.map(|(level, kind)| format!("{} {}", level.name(), kind.name()));
    attributes.optional("portcullis.limited_by", limited.as_deref());
    attributes.texts("portcullis.dropped", served.losses.names().iter().map(|name| &**name));
    if traces.settings.gen_ai {
        attributes.text(gen_ai::KIND, "CHAIN");
    }
    // What is the caller's own doing is no error of this server.
    let is_error = settled.blame().is_some_and(|blame| blame != Blame::Caller) || answer.status >= 500;
    if is_error {
        attributes.text(http_::ERROR, outcome.name());
    }
    let start = settled.began_at.saturating_mul(MILLI);
    Span {
        trace_id: context.trace.to_vec(),
        span_id: id.to_vec(),
        trace_state: context.state().unwrap_or_default().to_owned(),
        parent_span_id: context.parent.as_ref().map(|parent| parent.span.to_vec()).unwrap_or_default(),
        flags: if context.parent.is_some() { REMOTE } else { FLAGS },
        name: [Some(method), route].into_iter().flatten().collect::<Vec<_>>().join(" "),
        kind: SpanKind::Server.into(),
        start_time_unix_nano: start,
        end_time_unix_nano: start.saturating_add(u64::try_from(total.as_nanos()).unwrap_or(u64::MAX)),
        attributes: attributes.0,
        status: status(is_error),
        ..Span::default()
    }
}

/// An attempt, and what its span is made of.
struct OfAttempt<'k> {
    settled: &'k Settled,
    tried: &'k Tried,
    /// The account, unless it is not in the catalog.
    account: Option<&'k Arc<Account>>,
    /// The number of attempts that began before, unless they are of other slices.
    resends: usize,
    /// True if the usage of the exchange is that of this attempt.
    is_paid: bool,
}

impl OfAttempt<'_> {
    fn span(&self, gen_ai: bool) -> Span {
        let tried = self.tried;
        let mut attributes = Attributes::default();
        // A count of tokens asks no model for anything.
        let operation = (gen_ai && self.settled.request.door != "count").then(|| words::operation(tried));
        let name = match &operation {
            Some(operation) => {
                self.model(operation, &mut attributes);
                format!("{} {}", operation.name, tried.model)
            }
            None => "POST".to_owned(),
        };
        attributes.text(http_::METHOD, "POST");
        let resends = u64::try_from(self.resends).ok().filter(|resends| *resends > 0);
        attributes.number(http_::RESENDS, resends);
        attributes.number(http_::STATUS, tried.status.map(u64::from));
        // A demo account has no server.
        if let Some(base) = self.account.map(|account| &account.base).filter(|base| !base.host.is_empty()) {
            attributes.text(http_::SERVER, &base.host);
            attributes.number(http_::PORT, Some(base.port.into()));
        }
        attributes.text("portcullis.account", &tried.account);
        attributes.text("portcullis.outcome", tried.outcome);
        attributes.number("portcullis.connect_ms", tried.connect_ms);
        attributes.number("portcullis.attempts", Some(tried.times.into()).filter(|times| *times > 1));
        let is_error = is_failure(tried.outcome);
        if is_error {
            attributes.text(http_::ERROR, tried.outcome);
        }
        let start = self.settled.began_at.saturating_add(tried.at_ms).saturating_mul(MILLI);
        Span {
            flags: FLAGS,
            name,
            kind: SpanKind::Client.into(),
            start_time_unix_nano: start,
            end_time_unix_nano: start.saturating_add(tried.ms.saturating_mul(MILLI)),
            attributes: attributes.0,
            status: status(is_error),
            ..Span::default()
        }
    }

    /// Adds what is known of the model, and of what the attempt used.
    fn model(&self, operation: &words::Operation, attributes: &mut Attributes) {
        let (tried, request) = (self.tried, &self.settled.request);
        attributes.text(gen_ai::OPERATION, operation.name);
        let server = self.account.map(|account| words::server(&account.dialect));
        attributes.optional(gen_ai::PROVIDER, server.map(words::provider));
        attributes.text(gen_ai::MODEL, &tried.model);
        let json = Some("json").filter(|_| request.wants_json);
        attributes.optional(gen_ai::OUTPUT, operation.output.or(json));
        attributes.optional(gen_ai::OPENAI_TYPE, operation.openai.filter(|_| server == Some("openai")));
        attributes.optional(gen_ai::CONVERSATION, conversation(self.settled).as_deref());
        if let Some(labels) = &tried.labels {
            attributes.optional(gen_ai::ANSWER, labels.id.as_deref());
            attributes.optional(gen_ai::ANSWERED, labels.model.as_deref());
            let tier = labels.tier.as_deref().filter(|_| server == Some("openai"));
            attributes.optional(gen_ai::OPENAI_TIER, tier);
        }
        if request.stream {
            attributes.add(gen_ai::STREAM, Value::BoolValue(true));
            attributes.seconds(gen_ai::FIRST, tried.first_ms);
        }
        if self.is_paid && tried.outcome == "ok" {
            attributes.texts(gen_ai::REASONS, self.settled.served.reasons.words());
        }
        let spending = &self.settled.spending;
        if self.is_paid && spending.usage.source != Source::None {
            self.usage(&spending.usage, attributes);
            attributes.dollars(spending.cost);
        } else if let Some(cost) = tried.cost {
            attributes.number(gen_ai::INPUT_TOKENS, tried.prompt_tokens);
            attributes.number(gen_ai::OUTPUT_TOKENS, tried.completion_tokens);
            attributes.dollars(cost);
        }
    }

    fn usage(&self, usage: &Usage, attributes: &mut Attributes) {
        let some = |tokens: u64| Some(tokens).filter(|tokens| *tokens > 0);
        attributes.number(gen_ai::INPUT_TOKENS, Some(usage.prompt));
        attributes.number(gen_ai::OUTPUT_TOKENS, Some(usage.completion));
        attributes.number(gen_ai::CACHE_READ, some(usage.cached));
        attributes.number(gen_ai::CACHE_CREATION, some(usage.cache_write));
        attributes.number(gen_ai::REASONING, some(usage.reasoning));
        attributes.text("portcullis.usage", usage.source.name());
    }
}

/// Returns the hash of a caller and its own name for the conversation. Another caller may use the
/// same name.
fn conversation(settled: &Settled) -> Option<String> {
    let caller = settled.sender.caller.as_deref().unwrap_or_default();
    settled.request.session.as_ref().map(|session| end_user_hash(&[caller, session].join("\n")))
}

/// Returns whether the listener of an address speaks TLS. One at all addresses, such as `0.0.0.0`,
/// has those that no other listener has.
fn speaks_tls(listeners: &[(SocketAddr, bool)], at: SocketAddr) -> bool {
    let ip = at.ip().to_canonical();
    let rank = |listener: IpAddr| (listener.to_canonical() == ip, listener.is_ipv4() == ip.is_ipv4());
    let fits = |address: &SocketAddr| {
        address.port() == at.port() && (address.ip().to_canonical() == ip || address.ip().is_unspecified())
    };
    let fitting = listeners.iter().filter(|(address, _)| fits(address));
    fitting.max_by_key(|(address, _)| rank(address.ip())).is_some_and(|(_, tls)| *tls)
}

fn status(is_error: bool) -> Option<Status> {
    is_error.then(|| Status { message: String::new(), code: StatusCode::Error.into() })
}

/// The attributes of a span.
#[derive(Default)]
struct Attributes(Vec<KeyValue>);

impl Attributes {
    fn add(&mut self, name: &str, value: Value) {
        let value = Some(AnyValue { value: Some(value) });
        self.0.push(KeyValue { key: name.to_owned(), value, ..KeyValue::default() });
    }

    fn text(&mut self, name: &str, text: &str) {
        self.add(name, Value::StringValue(text.to_owned()));
    }

    fn optional(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    fn number(&mut self, name: &str, number: Option<u64>) {
        if let Some(number) = number {
            self.add(name, Value::IntValue(i64::try_from(number).unwrap_or(i64::MAX)));
        }
    }

    fn seconds(&mut self, name: &str, millis: Option<u64>) {
        if let Some(millis) = millis {
            self.add(name, Value::DoubleValue(millis as f64 / 1e3));
        }
    }

    fn dollars(&mut self, cost: Option<crate::conf::price::Usd>) {
        if let Some(cost) = cost {
            self.add(gen_ai::COST, Value::DoubleValue(cost.dollars()));
        }
    }

    /// Adds a list, unless it is empty.
    fn texts<'t>(&mut self, name: &str, texts: impl Iterator<Item = &'t str>) {
        let value = |text: &str| AnyValue { value: Some(Value::StringValue(text.to_owned())) };
        let values: Vec<_> = texts.map(value).collect();
        if !values.is_empty() {
            self.add(name, Value::ArrayValue(ArrayValue { values }));
        }
    }
}

#[cfg(test)]
mod tests;
