use super::*;
use crate::base::calendar::format_time;
use crate::base::trace_context::TraceContext;
use crate::error::{Blame, Outcome};
use crate::limits::{Kind, Level};
use crate::settled::{Attempts, Delivery, Incoming, Sender, Served, Spending, Times};
use dialects::neutral::Losses;
use dialects::usage::{Source, Units, Usage};
use dialects::wire::json::Writer;
use dialects::{EndReasons, Flaws};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

fn attempt(cost: Option<Option<Usd>>) -> Tried {
    Tried {
        account: "a".into(),
        model: "m\u{1}".into(),
        endpoint: None,
        outcome: "failed",
        count: 1,
        at_ms: 2,
        ms: 7,
        status: Some(500),
        connect_ms: None,
        first_ms: None,
        prompt_tokens: Some(3),
        completion_tokens: None,
        cost,
        detail: Some("a \"quote\"\nand é".to_owned()),
        ..Tried::default()
    }
}

#[test]
fn a_line_is_one_object_of_known_fields() {
    let mut settled = Settled {
        began_at: 951_782_400_123,
        sender: Sender {
            caller: Some("c".into()),
            key: None,
            address: Some([127, 0, 0, 1].into()),
            end_user: None,
        },
        request: Incoming {
            id: "r\n".to_owned(),
            path: "/\\".into(),
            ..Incoming::default()
        },
        ..Settled::default()
    };
    settled.attempts.trail = vec![
        attempt(None),
        attempt(Some(None)),
        attempt(Some(Some(Usd(1_500)))),
    ];
    settled.spending.cost = Some(Usd::ZERO);
    let expected = [
        r#"{"time":"2000-02-29T00:00:00.123Z","request_id":"r\n","caller":"c","key":null,"address":"127.0.0.1","#,
        r#""door":"","method":"","path":"/\\","model":null,"account":null,"upstream_model":null,"stream":false,"#,
        r#""status":0,"outcome":"internal","attempts":[TRIES],"first_byte_ms":null,"total_ms":0,"own_us":0,"#,
        r#""auth_us":null,"plan_us":null,"prompt_tokens":0,"completion_tokens":0,"cached_tokens":0,"usage":"none","#,
        r#""cost_usd":0.0,"bytes_in":0,"bytes_out":0,"upstream_request_id":null,"maybe_billed":false}"#,
    ];
    let tried = [
        r#"{"account":"a","model":"m\u0001","outcome":"failed","at_ms":2,"ms":7,"status":500,"prompt_tokens":3"#,
        r#"COST,"detail":"a \"quote\"\nand é"}"#,
    ];
    let costs = ["", r#","cost_usd":null"#, r#","cost_usd":1.5e-6"#];
    let tries = costs
        .map(|cost| tried.concat().replace("COST", cost))
        .join(",");
    assert_eq!(
        String::from_utf8(json_line(&settled)).unwrap(),
        expected.concat().replace("TRIES", &tries)
    );
}

/// Makes texts in which much is to be escaped.
fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("\"".to_owned()),
        Just("\\".to_owned()),
        any::<char>().prop_map(String::from),
        (0..0x20u8).prop_map(|control| char::from(control).to_string()),
        "[a-z/]{0,20}",
    ];
    prop::collection::vec(part, 0..4).prop_map(|parts| parts.concat())
}

fn name() -> impl Strategy<Value = Option<Arc<str>>> {
    prop::option::of(text().prop_map(Into::into))
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..12_u64, any::<u64>(), Just(u64::MAX)]
}

fn time_span() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        any::<u32>().prop_map(|micros| Duration::from_micros(micros.into()))
    ]
}

fn cost() -> impl Strategy<Value = Option<Usd>> {
    prop::option::of(number().prop_map(Usd))
}

prop_compose! {
    fn some_attempt()(
        (account, model, detail) in (text(), text(), prop::option::of(text())),
        (at_ms, ms, count, status) in (number(), number(), 1..4_u32, prop::option::of(any::<u16>())),
        resent in 0..3_u32,
        numbers in prop::array::uniform4(prop::option::of(number())),
        cost in prop::option::of(cost()),
        endpoint in prop::option::of(Just("embeddings")),
    ) -> Tried {
        let [connect_ms, first_ms, prompt_tokens, completion_tokens] = numbers;
        let (account, model) = (account.into(), model.into());
        let outcome = "failed";
        Tried {
            account, model, endpoint, outcome, count, resent, at_ms, ms, status, connect_ms, first_ms, prompt_tokens,
            completion_tokens, cost, detail, gives_usage: false, span: None, labels: None, parts: Vec::new(),
        }
    }
}

prop_compose! {
    fn exchange()(
        (caller, key, model, account, upstream_model) in (name(), name(), name(), name(), name()),
        (id, method, path) in (text(), text(), text()),
        (session, upstream_request_id, error, end_user) in
            prop::array::uniform4(prop::option::of(text())).prop_map(Into::into),
        trail in prop::collection::vec(some_attempt(), 0..3),
        (first_byte, auth, plan) in prop::array::uniform3(prop::option::of(time_span())).prop_map(Into::into),
        (queued, own, total) in (time_span(), time_span(), time_span()),
        (began_at, bytes_in, bytes_out, prompt, completion) in (number(), number(), number(), number(), number()),
        (images, millis, characters, broken_calls) in (0..3_u32, 0..3_u32, any::<u32>(), 0..2_u32),
        (stream, maybe_billed, not_json, is_limited, status) in any::<(bool, bool, bool, bool, u16)>(),
        (cost, names) in (cost(), prop::collection::vec(text(), 0..3)),
        (address, trace) in (prop::option::of(any::<IpAddr>()), prop::option::of(any::<TraceId>())),
    ) -> Settled {
        let mut losses: Losses = Losses::default();
        names.into_iter().for_each(|name| losses.add(name));
        let units = Units { requests: 0, images, millis, characters };
        let usage = Usage { prompt, completion, units, source: Source::Estimated, ..Usage::default() };
        let not_retried = is_limited.then_some("budget");
        Settled {
            began_at,
            sender: Sender { caller, key, address, end_user },
            request: Incoming {
                id, door: "chat", method, path: path.into(), model, pattern: None, session: session.map(Into::into), stream, bytes: bytes_in, ..Incoming::default()
            },
            answer: Delivery { status, bytes: bytes_out, error, limited_by: Blame::Ours },
            served: Served {
                account, upstream_model, upstream_request_id, content_type: None, losses,
                flaws: Flaws { broken_calls, not_json, ..Flaws::default() }, reasons: EndReasons::default(),
            },
            attempts: Attempts { trail, not_retried, maybe_billed, ..Attempts::default() },
            times: Times { auth, plan, queued, first_byte, own_time: own },
            spending: Spending {
                limited: is_limited.then_some((Level::KeyModel, Kind::TokensPerDay)), usage, cost, ..Spending::default()
            },
            outcome: Outcome::UpstreamCut,
            total,
            trace: trace.map(|trace| Arc::new(TraceContext { trace, ..TraceContext::default() })),
        }
    }
}

proptest! {
    #[test]
    fn a_line_is_what_the_slow_writer_writes(settled in exchange()) {
        let (quick, slow) = (String::from_utf8(json_line(&settled)).unwrap(), String::from_utf8(slow(&settled)).unwrap());
        prop_assert_eq!(&quick, &slow);
        let read: serde_json::Value = serde_json::from_str(&quick).unwrap();
        prop_assert_eq!(&read["request_id"], &settled.request.id);
        prop_assert!(!quick.contains('\n'), "it is one line");
    }
}

/// Writes the line with the writer of JSON that all else uses.
fn slow(settled: &Settled) -> Vec<u8> {
    // Most lines are shorter.
    const LINE: usize = 1024;
    let Settled {
        began_at,
        sender,
        request,
        answer,
        served,
        attempts,
        times,
        spending,
        outcome,
        total,
        trace,
    } = settled;
    let mut line = Writer::with_capacity(LINE);
    line.object(|w| {
        w.texts([
            ("time", &format_time(*began_at)),
            ("request_id", &request.id),
        ]);
        let trace = trace
            .as_ref()
            .map(|trace| format!("{:032x}", u128::from_be_bytes(trace.trace)));
        w.optional("trace_id", trace.as_deref(), Writer::text);
        w.or_null("caller", sender.caller.as_deref(), Writer::text);
        w.or_null("key", sender.key.as_deref(), Writer::text);
        w.or_null("address", sender.address, |w, address| {
            w.text(&address.to_string())
        });
        w.optional("end_user", sender.end_user.as_deref(), Writer::text);
        w.texts([
            ("door", request.door),
            ("method", &request.method),
            ("path", &request.path),
        ]);
        w.optional("session", request.session.as_deref(), Writer::text);
        w.or_null("model", request.model.as_deref(), Writer::text);
        w.or_null("account", served.account.as_deref(), Writer::text);
        w.or_null(
            "upstream_model",
            served.upstream_model.as_deref(),
            Writer::text,
        );
        w.key("stream").bool(request.stream);
        w.key("status").number(answer.status.into());
        w.key("outcome").text(outcome.name());
        w.key("attempts").each(&attempts.trail, tried);
        w.or_null(
            "first_byte_ms",
            times.first_byte.map(whole_millis),
            Writer::number,
        );
        w.key("total_ms").number(whole_millis(*total));
        w.key("own_us").number(whole_micros(times.own_time));
        w.or_null("auth_us", times.auth.map(whole_micros), Writer::number);
        w.or_null("plan_us", times.plan.map(whole_micros), Writer::number);
        let queued = Some(times.queued).filter(|queued| !queued.is_zero());
        w.optional("queued_ms", queued.map(whole_millis), Writer::number);
        w.optional("not_retried", attempts.not_retried, Writer::text);
        let (usage, units) = (&spending.usage, spending.usage.units);
        w.key("prompt_tokens").number(usage.prompt);
        w.key("completion_tokens").number(usage.completion);
        w.key("cached_tokens").number(usage.cached);
        for (name, count) in [
            ("images", units.images),
            ("audio_ms", units.millis),
            ("characters", units.characters),
        ] {
            w.optional(
                name,
                Some(count.into()).filter(|count| *count > 0),
                Writer::number,
            );
        }
        w.key("usage").text(usage.source.name());
        w.or_null("cost_usd", spending.cost, usd);
        let limited = spending
            .limited
            .map(|(level, kind)| format!("{} {}", level.name(), kind.name()));
        w.optional("limited_by", limited.as_deref(), Writer::text);
        w.key("bytes_in").number(request.bytes);
        w.key("bytes_out").number(answer.bytes);
        w.or_null(
            "upstream_request_id",
            served.upstream_request_id.as_deref(),
            Writer::text,
        );
        w.key("maybe_billed").bool(attempts.maybe_billed);
        w.list("dropped", served.losses.names(), |w, name| w.text(name));
        let broken_calls = Some(served.flaws.broken_calls.into()).filter(|calls| *calls > 0);
        w.optional("broken_calls", broken_calls, Writer::number);
        w.optional(
            "not_json",
            Some(true).filter(|_| served.flaws.not_json),
            Writer::bool,
        );
        w.optional("error", answer.error.as_deref(), Writer::text);
    });
    line.into_bytes()
}

/// Writes one attempt.
fn tried(w: &mut Writer, tried: &Tried) {
    w.object(|w| {
        w.texts([("account", &*tried.account), ("model", &tried.model)]);
        w.optional("endpoint", tried.endpoint, Writer::text);
        w.key("outcome").text(tried.outcome);
        w.key("at_ms").number(tried.at_ms);
        w.key("ms").number(tried.ms);
        w.optional("status", tried.status.map(u64::from), Writer::number);
        w.optional(
            "times",
            Some(tried.count.into()).filter(|count| *count > 1),
            Writer::number,
        );
        w.optional(
            "resent",
            Some(true).filter(|_| tried.resent > 0),
            Writer::bool,
        );
        w.optional("connect_ms", tried.connect_ms, Writer::number);
        w.optional("first_ms", tried.first_ms, Writer::number);
        w.optional("prompt_tokens", tried.prompt_tokens, Writer::number);
        w.optional("completion_tokens", tried.completion_tokens, Writer::number);
        if let Some(cost) = tried.cost {
            w.or_null("cost_usd", cost, usd);
        }
        w.optional("detail", tried.detail.as_deref(), Writer::text);
    });
}

/// Writes an amount, always with a decimal point or an exponent.
fn usd(w: &mut Writer, cost: Usd) {
    // A float that is finite can always be written.
    w.raw(&serde_json::to_string(&cost).unwrap_or_default());
}
