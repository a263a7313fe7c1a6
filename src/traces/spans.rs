//! The spans of a settled exchange: one of the gateway's own, and below it one for each attempt.
//! They are written at once as the bytes that are sent. Pure: the ids are passed in.
//!
//! **Invariant:** the usage of an answer, and its cost, are on one span only: the span of the
//! attempt that is paid for. A receiver sums over spans, and would count it twice.

use super::Traces;
use super::attributes::{Attributes, put_text};
use super::protobuf::{Message, field_length};
use super::sampling::is_failure;
use super::words::{self, gen_ai, http_, own};
use crate::access_log::end_user_hash;
use crate::base::trace_context::{SpanId, TraceContext};
use crate::catalog::{Account, Catalog};
use crate::conf::price::Usd;
use crate::error::Blame;
use crate::settled::{Settled, Tried, whole_micros, whole_millis};
use dialects::usage::{Source, Usage};
use std::net::SocketAddr;

/// The nanoseconds of a millisecond.
const MILLI: u64 = 1_000_000;
/// The flags of a span: it is kept, and it is known whether its parent is in another process.
const FLAGS: u32 = 0x101;
/// The flags of a span whose parent is in another process.
const REMOTE: u32 = 0x301;

/// The numbers of the fields of OpenTelemetry's messages.
mod field {
    /// Of the request that is sent.
    pub(super) const RESOURCE_SPANS: u8 = 1;
    /// Of a resource and its spans.
    pub(super) const RESOURCE: u8 = 1;
    pub(super) const SCOPE_SPANS: u8 = 2;
    pub(super) const RESOURCE_SCHEMA: u8 = 3;
    /// Of a resource.
    pub(super) const RESOURCE_ATTRIBUTES: u8 = 1;
    /// Of a scope and its spans.
    pub(super) const SCOPE: u8 = 1;
    pub(super) const SPANS: u8 = 2;
    pub(super) const SCOPE_SCHEMA: u8 = 3;
    /// Of a scope.
    pub(super) const SCOPE_NAME: u8 = 1;
    pub(super) const SCOPE_VERSION: u8 = 2;
    /// Of a span.
    pub(super) const TRACE_ID: u8 = 1;
    pub(super) const SPAN_ID: u8 = 2;
    pub(super) const TRACE_STATE: u8 = 3;
    pub(super) const PARENT: u8 = 4;
    pub(super) const NAME: u8 = 5;
    pub(super) const KIND: u8 = 6;
    pub(super) const START: u8 = 7;
    pub(super) const END: u8 = 8;
    pub(super) const STATUS: u8 = 15;
    pub(super) const FLAGS: u8 = 16;
    /// Of a status.
    pub(super) const CODE: u8 = 3;
}

/// The kind of a span.
#[derive(Clone, Copy)]
enum SpanKind {
    Server = 2,
    Client = 3,
}

/// The code of a status that is an error.
const ERROR: u64 = 2;

/// Writes what comes before the spans of a batch, if they have this many bytes: which gateway they
/// come from. `instance` is the gateway's name.
pub(super) fn preamble(traces: &Traces, instance: &str, spans: usize) -> Vec<u8> {
    let [mut gateway, mut scope, mut preamble] = [(); 3].map(|()| Message::default());
    gateway.short_message(field::RESOURCE, |resource| {
        let settings = &traces.settings.resource;
        let own = [
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", instance),
        ];
        let own = own
            .into_iter()
            .filter(|(name, _)| !settings.contains_key(*name));
        let settings = settings.iter();
        let settings = settings.map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in settings.chain(own) {
            put_text(resource, field::RESOURCE_ATTRIBUTES, name, value);
        }
    });
    gateway.bytes(field::RESOURCE_SCHEMA, words::SCHEMA.as_bytes());
    scope.short_message(field::SCOPE, |scope| {
        scope.bytes(field::SCOPE_NAME, b"portcullis");
        scope.bytes(field::SCOPE_VERSION, env!("CARGO_PKG_VERSION").as_bytes());
    });
    scope.bytes(field::SCOPE_SCHEMA, words::SCHEMA.as_bytes());
    let (gateway, scope) = (gateway.encoded(), scope.encoded());
    let scoped = scope.len() + spans;
    preamble.begin(field::RESOURCE_SPANS, gateway.len() + field_length(scoped));
    preamble.put(gateway);
    preamble.begin(field::SCOPE_SPANS, scoped);
    preamble.put(scope);
    preamble.encoded().to_vec()
}

/// Writes the spans of an exchange: each as a field of the message that has all spans. Returns how
/// many they are. The catalog is the one that the exchange began with, if it has one.
pub(super) fn write_exchange(
    traces: &Traces,
    settled: &Settled,
    catalog: Option<&Catalog>,
    ids: &mut dyn FnMut() -> SpanId,
    all: &mut Message,
) -> usize {
    let Some(context) = &settled.trace else {
        return 0;
    };
    let id = ids();
    all.long_message(field::SPANS, |span| {
        write_server_span(traces, settled, context, id, span)
    });
    let gen_ai = traces.settings.gen_ai;
    // Nearly all exchanges have one attempt.
    if let [only] = &*settled.attempts.trail
        && only.parts.is_empty()
    {
        let one = AttemptSpan::new(settled, catalog, only, 0, only.gives_usage);
        let own = only.span.unwrap_or_else(&mut *ids);
        all.long_message(field::SPANS, |span| {
            one.write(gen_ai, context, own, id, span)
        });
        return 2;
    }
    // The trail lists the attempts as they ended.
    let mut begun: Vec<(usize, &Tried)> = settled.attempts.every_attempt().enumerate().collect();
    begun.sort_by_key(|(_, tried)| tried.at_ms);
    // With slices of a request, several attempts are paid for: the first has the usage of all.
    let paid = settled
        .attempts
        .every_attempt()
        .position(|tried| tried.gives_usage);
    for (nth, (index, tried)) in begun.iter().enumerate() {
        let one = AttemptSpan::new(settled, catalog, tried, nth, paid == Some(*index));
        let own = tried.span.unwrap_or_else(&mut *ids);
        all.long_message(field::SPANS, |span| {
            one.write(gen_ai, context, own, id, span)
        });
    }
    1 + begun.len()
}

/// The bytes that each span begins with.
struct SpanStart<'s> {
    context: &'s TraceContext,
    id: SpanId,
    parent: Option<SpanId>,
    flags: u32,
    /// The parts of the name.
    name: [&'s str; 3],
    kind: SpanKind,
    /// The time at which it began, in nanoseconds of Unix time.
    start: u64,
    /// The time that it took, in nanoseconds.
    took: u64,
    is_error: bool,
}

impl SpanStart<'_> {
    fn write(&self, span: &mut Message) {
        span.bytes(field::TRACE_ID, &self.context.trace);
        span.bytes(field::SPAN_ID, &self.id);
        if let Some(state) = self.context.state() {
            span.bytes(field::TRACE_STATE, state.as_bytes());
        }
        if let Some(parent) = &self.parent {
            span.bytes(field::PARENT, parent);
        }
        span.begin(field::NAME, self.name.iter().map(|part| part.len()).sum());
        self.name.iter().for_each(|part| span.put(part.as_bytes()));
        span.number(field::KIND, self.kind as u64);
        span.fixed64(field::START, self.start);
        span.fixed64(field::END, self.start.saturating_add(self.took));
        span.fixed32(field::FLAGS, self.flags);
        if self.is_error {
            span.short_message(field::STATUS, |status| status.number(field::CODE, ERROR));
        }
    }
}

/// Writes the span of the gateway itself.
fn write_server_span(
    traces: &Traces,
    settled: &Settled,
    context: &TraceContext,
    id: SpanId,
    span: &mut Message,
) {
    let Settled {
        sender,
        request,
        answer,
        served,
        attempts,
        times,
        spending,
        outcome,
        total,
        ..
    } = settled;
    let (method, route) = (
        words::known_method(&request.method),
        words::door_route(request.door, &request.path),
    );
    // What is the caller's own doing is no error of this server.
    let is_error =
        settled.blame().is_some_and(|blame| blame != Blame::Caller) || answer.status >= 500;
    let parent = context.parent.as_ref().map(|parent| parent.span);
    let is_known = method != words::OTHER_METHOD;
    let beginning = SpanStart {
        context,
        id,
        parent,
        flags: if parent.is_some() { REMOTE } else { FLAGS },
        name: [
            if is_known { method } else { "HTTP" },
            if route.is_some() { " " } else { "" },
            route.unwrap_or_default(),
        ],
        kind: SpanKind::Server,
        start: settled.began_at.saturating_mul(MILLI),
        took: u64::try_from(total.as_nanos()).unwrap_or(u64::MAX),
        is_error,
    };
    beginning.write(span);
    let mut attributes = Attributes(span);
    attributes.text(http_::METHOD, method);
    attributes.optional_text(http_::ROUTE, route);
    attributes.text(http_::PATH, &request.path);
    let is_secure = context
        .local_address
        .is_some_and(|address| speaks_tls(&traces.listeners, address));
    attributes.text(http_::SCHEME, if is_secure { "https" } else { "http" });
    attributes.number(
        http_::STATUS,
        Some(answer.status.into()).filter(|status| *status > 0),
    );
    attributes.address(
        http_::SERVER,
        context.local_address.map(|address| address.ip()),
    );
    attributes.number(
        http_::PORT,
        context.local_address.map(|address| address.port().into()),
    );
    attributes.address(http_::CLIENT, sender.address);
    attributes.text(own::REQUEST_ID, &request.id);
    attributes.optional_text(own::CALLER, sender.caller.as_deref());
    attributes.optional_text(own::KEY, sender.key.as_deref());
    attributes.optional_text(own::MODEL, request.model.as_deref());
    attributes.text(own::OUTCOME, outcome.name());
    attributes.number(own::ATTEMPTS, Some(attempts.count().into()));
    attributes.number(own::OWN_TIME, Some(whole_micros(times.own_time)));
    attributes.number(
        own::QUEUED,
        Some(whole_millis(times.queued)).filter(|_| !times.queued.is_zero()),
    );
    let limited = spending
        .limited
        .map(|(level, kind)| format!("{} {}", level.name(), kind.name()));
    attributes.optional_text(own::LIMITED_BY, limited.as_deref());
    attributes.texts(
        own::DROPPED,
        served.losses.names().iter().map(|name| &**name),
    );
    if traces.settings.gen_ai {
        attributes.text(gen_ai::KIND, "CHAIN");
    }
    if is_error {
        attributes.text(http_::ERROR, outcome.name());
    }
}

/// An attempt, and what its span is made of.
struct AttemptSpan<'k> {
    settled: &'k Settled,
    tried: &'k Tried,
    /// The account, unless it is not in the catalog.
    account: Option<&'k Account>,
    /// The number of attempts that began before, unless they are of other slices.
    resends: usize,
    /// True if the usage of the exchange comes from this attempt.
    gives_usage: bool,
}

impl<'k> AttemptSpan<'k> {
    fn new(
        settled: &'k Settled,
        catalog: Option<&'k Catalog>,
        tried: &'k Tried,
        nth: usize,
        gives_usage: bool,
    ) -> AttemptSpan<'k> {
        AttemptSpan {
            settled,
            tried,
            account: catalog.and_then(|catalog| catalog.account(&tried.account)),
            // Slices of a request are no retries.
            resends: if settled.attempts.is_sliced { 0 } else { nth },
            gives_usage,
        }
    }
}

impl AttemptSpan<'_> {
    /// Writes the span. Its ids are its own and its parent's.
    fn write(
        &self,
        gen_ai: bool,
        context: &TraceContext,
        id: SpanId,
        parent: SpanId,
        span: &mut Message,
    ) {
        let tried = self.tried;
        // A count of tokens asks no model for anything.
        let operation = (gen_ai && self.settled.request.door != "count")
            .then(|| words::attempt_operation(tried));
        let is_error = is_failure(tried.outcome);
        let beginning = SpanStart {
            context,
            id,
            parent: Some(parent),
            flags: FLAGS,
            name: operation.as_ref().map_or(["POST", "", ""], |operation| {
                [operation.name, " ", &tried.model]
            }),
            kind: SpanKind::Client,
            start: self
                .settled
                .began_at
                .saturating_add(tried.at_ms)
                .saturating_mul(MILLI),
            took: tried.ms.saturating_mul(MILLI),
            is_error,
        };
        beginning.write(span);
        let mut attributes = Attributes(span);
        if let Some(operation) = &operation {
            self.write_model(operation, &mut attributes);
        }
        attributes.text(http_::METHOD, "POST");
        let resends = u64::try_from(self.resends)
            .ok()
            .filter(|resends| *resends > 0);
        attributes.number(http_::RESENDS, resends);
        attributes.number(http_::STATUS, tried.status.map(u64::from));
        // A demo account has no server.
        if let Some(base) = self
            .account
            .map(|account| &account.base)
            .filter(|base| !base.host.is_empty())
        {
            attributes.text(http_::SERVER, &base.host);
            attributes.number(http_::PORT, Some(base.port.into()));
        }
        attributes.text(own::ACCOUNT, &tried.account);
        attributes.text(own::OUTCOME, tried.outcome);
        attributes.number(own::CONNECT, tried.connect_ms);
        attributes.number(
            own::ATTEMPTS,
            Some(tried.count.into()).filter(|count| *count > 1),
        );
        if is_error {
            attributes.text(http_::ERROR, tried.outcome);
        }
    }

    /// Adds what is known of the model, and of what the attempt used.
    fn write_model(&self, operation: &words::Operation, attributes: &mut Attributes<'_>) {
        let (tried, request) = (self.tried, &self.settled.request);
        attributes.text(gen_ai::OPERATION, operation.name);
        let server = self
            .account
            .map(|account| words::server_kind(&account.dialect));
        let provider = self
            .account
            .map(|account| words::provider_name(&account.dialect));
        attributes.optional_text(gen_ai::PROVIDER, provider);
        attributes.text(gen_ai::MODEL, &tried.model);
        attributes.number(
            gen_ai::MAX_TOKENS,
            request.most_tokens.map(|limit| limit.get().into()),
        );
        attributes.number(
            gen_ai::CHOICES,
            Some(request.choices.into()).filter(|choices| *choices > 1),
        );
        let json = Some("json").filter(|_| request.wants_json);
        attributes.optional_text(gen_ai::OUTPUT, operation.output.or(json));
        attributes.optional_text(
            gen_ai::OPENAI_TYPE,
            operation.openai.filter(|_| server == Some("openai")),
        );
        attributes.optional_text(
            gen_ai::CONVERSATION,
            conversation_hash(self.settled).as_deref(),
        );
        if let Some(labels) = &tried.labels {
            attributes.optional_text(gen_ai::ANSWER, labels.id.as_deref());
            attributes.optional_text(gen_ai::ANSWERED, labels.model.as_deref());
            let tier = labels.tier.as_deref().filter(|_| server == Some("openai"));
            attributes.optional_text(gen_ai::OPENAI_TIER, tier);
        }
        if request.stream {
            attributes.truth(gen_ai::STREAM);
            attributes.double(
                gen_ai::FIRST,
                tried.first_ms.map(|first| first as f64 / 1e3),
            );
        }
        if self.gives_usage && tried.outcome == "ok" {
            attributes.texts(gen_ai::REASONS, self.settled.served.reasons.words());
        }
        let spending = &self.settled.spending;
        if self.gives_usage && spending.usage.source != Source::None {
            write_usage(&spending.usage, attributes);
            attributes.double(gen_ai::COST, spending.cost.map(Usd::dollars));
        } else if let Some(cost) = tried.cost {
            attributes.number(gen_ai::INPUT_TOKENS, tried.prompt_tokens);
            attributes.number(gen_ai::OUTPUT_TOKENS, tried.completion_tokens);
            attributes.double(gen_ai::COST, cost.map(Usd::dollars));
        }
    }
}

fn write_usage(usage: &Usage, attributes: &mut Attributes<'_>) {
    let some = |tokens: u64| Some(tokens).filter(|tokens| *tokens > 0);
    attributes.number(gen_ai::INPUT_TOKENS, Some(usage.prompt));
    attributes.number(gen_ai::OUTPUT_TOKENS, Some(usage.completion));
    attributes.number(gen_ai::CACHE_READ, some(usage.cached));
    attributes.number(gen_ai::CACHE_CREATION, some(usage.cache_write));
    attributes.number(gen_ai::REASONING, some(usage.reasoning));
    attributes.text(own::USAGE, usage.source.name());
}

/// Returns the hash of a caller and its own name for the conversation. Another caller may use the
/// same name.
fn conversation_hash(settled: &Settled) -> Option<String> {
    let caller = settled.sender.caller.as_deref().unwrap_or_default();
    settled
        .request
        .session
        .as_ref()
        .map(|session| end_user_hash(&[caller, session].join("\n")))
}

/// Returns whether the listener of an address speaks TLS. One at all addresses, such as `0.0.0.0`,
/// has those that no other listener has.
fn speaks_tls(listeners: &[(SocketAddr, bool)], local_address: SocketAddr) -> bool {
    let ip = local_address.ip().to_canonical();
    let fitting = listeners.iter().filter(|(address, _)| {
        address.port() == local_address.port()
            && (address.ip().to_canonical() == ip || address.ip().is_unspecified())
    });
    // An address of its own goes before all addresses of its family.
    let nearest = fitting.max_by_key(|(address, _)| {
        let listener = address.ip();
        (
            listener.to_canonical() == ip,
            listener.is_ipv4() == ip.is_ipv4(),
        )
    });
    nearest.is_some_and(|(_, tls)| *tls)
}

#[cfg(test)]
mod tests;
