use super::report::CandidateState;
use super::*;
use crate::base::units::duration_text;
use crate::catalog::resolve::resolve_catalog;
use crate::conf::config;
use serde_json::{Value, json};

const CATALOG: &str = r#"
accounts:
  a: { dialect: openai, base_url: "http://127.0.0.1:1/v1", key: sk-canary-a-0123456789, concurrency: 4, headers: { X-Team: canary-header-1 } }
  b: { dialect: openai, base_url: "https://b.test/v1", key: sk-canary-b-0123456789, probe: true }
  off: { dialect: openai, base_url: "https://off.test/v1", enabled: false }
  claude: { dialect: anthropic, key: sk-canary-c-0123456789 }
  aws: { dialect: bedrock, region: us-east-1, aws: { access_key_id: AKIACANARY0123456, secret_access_key: canary-secret } }
models:
  m:
    aliases: [alias]
    targets: [{ account: a, model: x }, { account: b, model: y }, { account: off, model: z }]
    fallbacks: [other, hidden]
    defaults: { max_tokens: 64 }
  other: { targets: [{ account: claude, model: claude-sonnet-4-5 }] }
  hidden: { targets: [{ account: b }] }
  turns: { strategy: weighted, targets: [{ account: a, weight: 3 }, { account: b, weight: 1 }] }
  busy: { strategy: least_busy, targets: [{ account: a, weight: 1 }, { account: b, weight: 1 }] }
  fast: { strategy: fastest, targets: [{ account: a, model: x }, { account: b, model: y }] }
  own: { strategy: weighted, sticky: true, targets: [{ account: a, model: x }, { account: b, model: y }] }
  patient: { targets: [{ account: a, model: x }], queue: { wait: 5s }, hedge: {} }
  longer: { targets: [{ account: a, model: x }], fallbacks_on: { context: [other], refusal: [hidden] } }
  strict: { on_loss: refuse, targets: [{ account: claude, model: claude-sonnet-4-5 }] }
  unserved: { targets: [{ account: off }] }
  signed: { targets: [{ account: aws, model: anthropic.claude-sonnet-4-5-v1:0 }] }
callers:
  acme:
    models: [m, alias, other, turns, busy, fast, own, patient, longer, strict, unserved, signed, narrow]
    keys:
      prod: { hash: "sha256:0000000000000000000000000000000000000000000000000000000000000001" }
      off: { hash: "sha256:0000000000000000000000000000000000000000000000000000000000000002", enabled: false }
      old: { hash: "sha256:0000000000000000000000000000000000000000000000000000000000000003", expires: 2020-01-01 }
      turned:
        hashes:
          - { hash: "sha256:0000000000000000000000000000000000000000000000000000000000000004", until: 2020-01-01 }
          - { hash: "sha256:0000000000000000000000000000000000000000000000000000000000000005" }
      over: { hashes: [{ hash: "sha256:0000000000000000000000000000000000000000000000000000000000000006", until: 2020-01-01 }] }
      narrow: { hash: "sha256:0000000000000000000000000000000000000000000000000000000000000007", models: [alias, "o*"], allow_ips: [10.0.0.0/8] }
  gone:
    enabled: false
    keys: { prod: { hash: "sha256:0000000000000000000000000000000000000000000000000000000000000008" } }
"#;

fn input(catalog: &str, status: Option<Value>, body: &str) -> Input {
    let catalog = resolve_catalog(
        &[("catalog.yaml".to_owned(), catalog.to_owned())],
        &mut |_| Ok("secret".to_owned()),
    );
    let catalog = catalog.unwrap_or_else(|problems| panic!("{problems}"));
    Input {
        settings: (&config::parse_server("server.yaml", "{}", &mut |_| Err(String::new()))
            .unwrap())
            .into(),
        snapshot: standalone_snapshot(catalog, Arc::default()),
        is_counted: false,
        instance: status.map(|told| Instance {
            source: "s.json".to_owned(),
            status: serde_json::from_value(told).unwrap(),
        }),
        headers: HeaderMap::new(),
        front: find_front("chat").unwrap(),
        asked: PathRequest::default(),
        body: body.to_owned().into(),
    }
}

fn chat(model: &str) -> String {
    format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"Hi"}}]}}"#)
}

/// What would become of a plain request for this model.
fn of(model: &str, status: Option<Value>) -> Report {
    explain_request("acme/prod", &input(CATALOG, status, &chat(model)))
}

fn target(model: &str, more: Value) -> Value {
    let mut target = json!({"model": model, "breaker": "closed", "opens_in_ms": null, "calls": 0, "failed": 0, "rest": null,
        "first_token_ms": null, "whole_ms": null, "awaited": 0, "headroom": null});
    target
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    target
}

/// A status in which the targets `x` of account `a` and `y` of account `b` are like this.
fn status(a: Value, b: Value) -> Value {
    let account = |id: &str, concurrency: Value, target: Value| json!({"id": id, "dialect": "openai", "state": "ok", "in_flight": 1, "concurrency": concurrency, "targets": [target], "headroom": null});
    let model = |id: &str| json!({"id": id, "waiting": 2, "retry_budget_spent": 0.5});
    json!({"phase": "serving", "accounts": [account("a", json!(4), target("x", a)), account("b", Value::Null, target("y", b))],
        "models": [model("m"), model("patient"), model("fast"), model("own")]})
}

fn states(report: &Report) -> Vec<(String, CandidateState, Option<usize>)> {
    let one = |one: &report::Candidate| {
        (
            one.account.clone().unwrap_or_else(|| one.model.clone()),
            one.state,
            one.attempt,
        )
    };
    report.candidates.iter().map(one).collect()
}

#[track_caller]
fn says(report: &Report, about: &str, expected: &str) {
    let facts: Vec<_> = report
        .facts
        .iter()
        .filter(|fact| fact.about == about)
        .collect();
    assert!(
        facts.iter().any(|fact| fact.sentence.contains(expected)),
        "no {expected:?} in {facts:#?}"
    );
}

#[test]
fn it_reads_like_this() {
    let text = String::from_utf8(text::render_report(&of("m", None))).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        r#"yes: the request would be sent to a (x), then b (y), then claude (claude-sonnet-4-5); each further target is asked only if all targets before it fail

  running  the state is unknown: every account is assumed healthy and idle. `--status http://127.0.0.1:9090/status` asks a running instance
  key      acme/prod works
  request  57 bytes for the model "m", not a stream
  model    "m": the key may use it
  order    priority, the lowest tier first

targets of "m"
   1  a       x                  asked first
                                 price unknown
   2  b       y                  asked if all targets before it fail
                                 price unknown
   -  off     z                  its account is disabled
                                 price unknown

targets of its fallback "other"
   3  claude  claude-sonnet-4-5  asked if all targets before it fail
                                 price input 3, output 15, cached_input 0.3, cache_write 3.75, thinking 15 (list)

targets of its fallback "hidden"
   -  -       -                  skipped: the caller acme may use [alias, busy, fast, longer, m, narrow, other, own, patient, signed, strict, turns, … 13 in all], which "hidden" does not match

request 1: to a (x)
  deadlines  connect 5s, total 600s
  changed    model: "m" becomes "x"
             max_tokens: 64 is added

POST http://127.0.0.1:1/v1/chat/completions
host: 127.0.0.1:1
content-type: application/json
accept: application/json, text/event-stream
accept-encoding: identity
user-agent: portcullis/{version}
x-team: <from the catalog, not shown>
authorization: Bearer <key>
x-request-id: <id of the request>
content-length: 73

{{"max_tokens":64,"model":"x","messages":[{{"role":"user","content":"Hi"}}]}}

request 2: to b (y)
"#
    );
    assert!(text.starts_with(&expected), "{text}");
    let last = r#"  changed    model: "m" becomes "claude-sonnet-4-5"
             the body is rewritten in the format of anthropic
             max_tokens: 21333 is added

POST https://api.anthropic.com/v1/messages
"#;
    assert!(text.contains(last), "{text}");
}

#[test]
fn it_is_the_same_each_time() {
    for model in ["m", "turns", "busy", "fast", "own"] {
        assert_eq!(
            text::render_report(&of(model, None)),
            text::render_report(&of(model, None)),
            "{model}"
        );
    }
}

#[test]
fn no_secret_is_in_it() {
    for model in ["m", "turns", "signed", "strict", "unserved", "longer"] {
        let report = of(model, None);
        for out in [text::render_report(&report), report.json()] {
            let out = String::from_utf8(out).unwrap();
            assert!(!out.to_ascii_lowercase().contains("canary"), "{out}");
        }
    }
    let signed = of("signed", None);
    let headers = &signed
        .candidates
        .first()
        .unwrap()
        .request
        .as_ref()
        .unwrap()
        .headers;
    let masked: Vec<_> = headers
        .iter()
        .filter(|(_, value)| value == "<signed for each request>")
        .map(|(name, _)| name.as_str())
        .collect();
    assert!(
        masked.contains(&"authorization") && masked.contains(&"x-amz-date"),
        "{headers:?}"
    );
}

#[test]
fn a_key_that_does_not_work_is_told_why() {
    let check = |key: &str, expected: &str| {
        let report = explain_request(key, &input(CATALOG, None, &chat("m")));
        assert!(!report.verdict.tried && report.candidates.is_empty());
        assert_eq!(
            (report.verdict.status, report.verdict.code.as_deref()),
            (Some(401), Some("invalid_api_key"))
        );
        assert_eq!(
            report.verdict.sentence,
            format!(
                "the request would be sent to no upstream, and the caller would get 401 invalid_api_key: {expected}"
            )
        );
    };
    check(
        "acme/pord",
        "there is no key acme/pord; did you mean acme/prod?",
    );
    check("acme/off", "the key acme/off is disabled");
    check(
        "acme/old",
        "the key acme/old has expired, at 2020-01-01T00:00:00.000Z",
    );
    check("gone/prod", "its caller gone is disabled");
    check(
        "acme/over",
        "all its secrets have expired, the last one at 2020-01-01T00:00:00.000Z",
    );
    says(
        &explain_request("acme/turned", &input(CATALOG, None, &chat("m"))),
        "key",
        "acme/turned works, with 1 of its 2 secrets",
    );
    says(
        &explain_request("acme/narrow", &input(CATALOG, None, &chat("other"))),
        "key",
        "acme/narrow works, but only from 10.0.0.0/8",
    );
}

#[test]
fn a_model_that_is_not_seen_is_told_why() {
    let check = |key: &str, model: &str, expected: &str| {
        let report = explain_request(key, &input(CATALOG, None, &chat(model)));
        assert_eq!(
            (report.verdict.status, report.verdict.code.as_deref()),
            (Some(404), Some("model_not_found")),
            "{report:?}"
        );
        assert!(
            report.verdict.sentence.ends_with(expected),
            "{}",
            report.verdict.sentence
        );
    };
    check(
        "acme/prod",
        "othre",
        "there is no model \"othre\"; did you mean \"other\"?",
    );
    check("acme/prod", "hidden", "which \"hidden\" does not match");
    check(
        "acme/narrow",
        "turns",
        "the key acme/narrow may use [alias, o*], which \"turns\" does not match",
    );
    check(
        "acme/narrow",
        "alias",
        "may use [alias, o*], which \"m\" does not match: an alias matches, but globs only match ids",
    );
    check(
        "acme/prod",
        "unserved",
        "no account of \"unserved\" is enabled (off)",
    );
    says(
        &of("alias", None),
        "model",
        "\"m\", which has the alias \"alias\": the key may use it",
    );
}

#[test]
fn a_fallback_that_awaits_its_list_has_a_reason() {
    let catalog = r#"
accounts:
  a: { dialect: openai, base_url: "http://127.0.0.1:1/v1" }
models:
  m: { targets: [{ account: a, model: x }], fallbacks: [p/y] }
  "p/*": { targets: [{ account: a, model: "*" }] }
callers:
  acme: { keys: { prod: { hash: "sha256:0000000000000000000000000000000000000000000000000000000000000001" } } }
"#;
    let report = explain_request("acme/prod", &input(catalog, None, &chat("m")));
    let fallback = report.candidates.last().unwrap();
    assert_eq!(
        (&*fallback.model, fallback.state, &*fallback.why),
        (
            "p/y",
            CandidateState::Hidden,
            "skipped: the list of its provider's models has not been fetched"
        )
    );
}

#[test]
fn an_unreadable_request_is_told_why() {
    let check = |body: &str, status: u16, param: Option<&str>, expected: &str| {
        let report = explain_request("acme/off", &input(CATALOG, None, body));
        says(&report, "request", expected);
        assert_eq!(report.verdict.status, Some(401), "the key comes first");
        let report = explain_request("acme/prod", &input(CATALOG, None, body));
        assert_eq!(
            (report.verdict.status, report.verdict.param.as_deref()),
            (Some(status), param)
        );
    };
    check("{", 400, None, "not valid JSON");
    check(
        r#"{"model":"m"}"#,
        400,
        Some("messages"),
        "`messages` is missing",
    );
    check(
        r#"{"model":7,"messages":[{}]}"#,
        400,
        Some("model"),
        "`model` must be a string",
    );
    check(
        &" ".repeat((32 << 20) + 1),
        413,
        None,
        "larger than `limits.request_body`",
    );
    let mut late = input(CATALOG, None, &chat("m"));
    late.headers
        .insert(TIMEOUT, HeaderValue::from_static("soon"));
    assert_eq!(
        explain_request("acme/prod", &late).verdict.param.as_deref(),
        Some(TIMEOUT)
    );
    late.headers
        .insert(TIMEOUT, HeaderValue::from_static("2.5"));
    let request = explain_request("acme/prod", &late)
        .candidates
        .remove(0)
        .request
        .unwrap();
    assert_eq!(
        request.deadlines.last(),
        Some(&("total", "2500ms".to_owned()))
    );
}

#[test]
fn what_the_instance_tells_decides_who_is_asked() {
    use CandidateState::{Asked, Broken, Disabled, Full, Hidden, LastResort, Resting};
    let fine = || json!({});
    let check = |told: Value, expected: &[(&str, CandidateState, Option<usize>)], why: &str| {
        let report = of("m", Some(told));
        let expected: Vec<_> = expected
            .iter()
            .map(|(account, state, nth)| ((*account).to_owned(), *state, *nth))
            .collect();
        assert_eq!(states(&report), expected);
        assert!(
            report.candidates.iter().any(|one| one.why.contains(why)),
            "no {why:?} in {:#?}",
            report.candidates
        );
    };
    let rest = [
        ("off", Disabled, None),
        ("claude", Asked, Some(2)),
        ("hidden", Hidden, None),
    ];
    let all = |first: [(&'static str, CandidateState, Option<usize>); 2]| {
        [first.as_slice(), &rest].concat()
    };
    let limited = json!({"rest": {"why": "rate", "for_ms": 12_000}});
    check(
        status(limited.clone(), fine()),
        &all([("b", Asked, Some(1)), ("a", Resting, None)]),
        "rests for 12s more (rate)",
    );
    let refused = json!({"rest": {"why": "unfit", "for_ms": 1_500}});
    check(
        status(refused, fine()),
        &all([("b", Asked, Some(1)), ("a", Resting, None)]),
        "rests for 2s more (unfit)",
    );
    let credential = json!({"rest": {"why": "credential", "for_ms": 60_000}});
    check(
        status(credential, fine()),
        &all([("b", Asked, Some(1)), ("a", Resting, None)]),
        "rests for 60s more (credential)",
    );
    let mut full = status(fine(), fine());
    full["accounts"][0]["in_flight"] = json!(4);
    check(
        full,
        &all([("b", Asked, Some(1)), ("a", Full, None)]),
        "full: its account has 4 requests in flight",
    );
    let open = json!({"breaker": "open", "opens_in_ms": 7_000});
    let last = [("b", Asked, Some(1)), ("a", LastResort, Some(3))];
    check(
        status(open.clone(), fine()),
        &all(last),
        "its breaker is open for 7s more; asked only if there is no other target",
    );
    let half = json!({"breaker": "half_open"});
    let both = [("a", Asked, Some(1)), ("b", LastResort, Some(3))];
    check(
        status(fine(), half),
        &all(both),
        "its breaker is half open, and only the instance's own probes may test it",
    );
    // Three attempts are the most: who is broken is asked last, and none is left.
    let mut narrow = input(CATALOG, Some(status(open.clone(), limited)), &chat("m"));
    narrow.settings.attempts = 1;
    let report = explain_request("acme/prod", &narrow);
    assert_eq!(
        report
            .candidates
            .iter()
            .filter(|one| one.attempt.is_some())
            .count(),
        1
    );
    assert!(
        report
            .candidates
            .iter()
            .any(|one| one.state == Broken && one.why.contains("open for 7s more")),
        "{report:#?}"
    );
}

#[test]
fn no_more_are_asked_than_may_be() {
    let mut narrow = input(CATALOG, None, &chat("m"));
    narrow.settings.attempts = 2;
    let report = explain_request("acme/prod", &narrow);
    assert_eq!(
        report
            .candidates
            .iter()
            .filter(|one| one.state == CandidateState::Beyond)
            .count(),
        1
    );
    assert!(
        report
            .verdict
            .sentence
            .starts_with("the request would be sent to a (x), then b (y);"),
        "{}",
        report.verdict.sentence
    );
}

#[test]
fn where_nobody_is_left_callers_get_the_answer() {
    let check = |model: &str, a: Value, tried: bool, status_code: Option<u16>, expected: &str| {
        let report = of(model, Some(status(a, json!({}))));
        assert_eq!(
            (report.verdict.tried, report.verdict.status),
            (tried, status_code),
            "{report:#?}"
        );
        assert!(
            report.verdict.sentence.contains(expected),
            "{}",
            report.verdict.sentence
        );
    };
    let rests = |why: &str, ms: u64| json!({"rest": {"why": why, "for_ms": ms}});
    check(
        "longer",
        rests("rate", 9_000),
        false,
        Some(429),
        "429 no_capacity: no account can take the request now; the first one can be used again in 9s",
    );
    check(
        "longer",
        rests("unfit", 9_000),
        false,
        Some(503),
        "503 no_capacity",
    );
    check(
        "longer",
        json!({"breaker": "open", "opens_in_ms": 900}),
        true,
        None,
        "the request would be sent to a (x), because there is no better target",
    );
    check(
        "patient",
        rests("rate", 3_000),
        true,
        None,
        "the request would wait 3s, until the first account can be used again",
    );
    check(
        "patient",
        rests("rate", 9_000),
        false,
        Some(429),
        "even after 5s in the queue",
    );
    says(
        &of("patient", Some(status(json!({}), json!({})))),
        "queue",
        "2 requests wait now",
    );
    says(
        &of("patient", None),
        "hedge",
        "slower than the p95 of the last minutes, a second attempt begins at another account; at most 5 % of the \
         requests",
    );
}

#[test]
fn max_tokens_without_a_number_reserve_the_models_default() {
    let catalog = CATALOG.replace(
        "defaults: { max_tokens: 64 }",
        "defaults: { max_tokens: 5000 }",
    );
    let catalog = catalog.replace(
        "    models: [m, alias,",
        "    limits: { tokens_per_day: 9000 }\n    models: [m, alias,",
    );
    let takes = |body: &str| {
        let text = String::from_utf8(text::render_report(&explain_request(
            "acme/prod",
            &input(&catalog, None, body),
        )))
        .unwrap();
        let (_, after) = text
            .split_once("the request reserves ")
            .unwrap_or_else(|| panic!("{text}"));
        after.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let said =
        |most: &str| chat("m").replace("{\"model\"", &format!("{{\"max_tokens\":{most},\"model\""));
    assert!(
        (5000..5100).contains(&takes(&chat("m"))),
        "{}",
        takes(&chat("m"))
    );
    for most in ["-1", "null", "\"many\""] {
        assert!(
            (5000..5100).contains(&takes(&said(most))),
            "{most}: {}",
            takes(&said(most))
        );
    }
    assert!(
        (7..60).contains(&takes(&said("7"))),
        "{}",
        takes(&said("7"))
    );
}

#[test]
fn an_instance_that_goes_down_takes_nothing() {
    let mut told = status(json!({}), json!({}));
    told["phase"] = json!("draining");
    let report = of("m", Some(told));
    assert_eq!(
        (report.verdict.status, report.verdict.code.as_deref()),
        (Some(503), Some("shutting_down"))
    );
}

#[test]
fn an_instance_with_another_catalog_is_told() {
    let mut told = status(json!({}), json!({}));
    told["accounts"][1]["state"] = json!("disabled");
    told["accounts"][0]["concurrency"] = json!(5);
    told["catalog"] =
        json!({"last_refusal": {"standing": true}, "held": "removes 3 of 4 accounts"});
    let report = of("m", Some(told.clone()));
    for expected in [
        "refused the present files",
        "removes 3 of 4",
        "the account b is disabled",
        "the account a has another `concurrency`",
    ] {
        says(&report, "catalog", expected);
    }
    told["models"] = json!([]);
    says(
        &of("m", Some(told)),
        "catalog",
        "does not serve the model \"m\"",
    );
    let unknown = of("other", Some(status(json!({}), json!({}))));
    assert_eq!(
        unknown.candidates.first().unwrap().does.as_deref(),
        Some("/status does not have this account")
    );
    assert!(serde_json::from_str::<crate::status::Status>("{}").is_err());
}

#[test]
fn facts_only_the_process_knows_are_marked() {
    let turns = of("turns", None);
    says(
        &turns,
        "order",
        "The first target is a (turns) for 75 %, b (turns) for 25 % of the requests",
    );
    assert_eq!(
        turns
            .candidates
            .iter()
            .map(|one| one.first_for)
            .collect::<Vec<_>>(),
        [Some(0.75), Some(0.25)]
    );
    says(&of("busy", None), "order", "which is unknown here");
    says(&of("fast", None), "order", "which is unknown here");
    let told = status(
        json!({"whole_ms": 900}),
        json!({"whole_ms": 20, "headroom": 0.42, "calls": 9, "failed": 2}),
    );
    let fast = of("fast", Some(told));
    says(&fast, "order", "as /status reported it");
    let first = fast.candidates.first().unwrap();
    assert_eq!(first.account.as_deref(), Some("b"));
    assert_eq!(
        first.does.as_deref(),
        Some(
            "1 in flight, 2 of 9 calls failed, whole answer expected in 20ms, 42 % of the quota left"
        )
    );
}

#[test]
fn a_conversation_has_a_home() {
    let own = of("own", None);
    let home = own.candidates.first().unwrap().account.clone().unwrap();
    assert_eq!(own.candidates.first().unwrap().first_for, None);
    let names = if home == "a" {
        ["a (x)", "b (y)"]
    } else {
        ["b (y)", "a (x)"]
    };
    says(
        &own,
        "sticky",
        &format!(
            "the conversation, known by the beginning of the conversation, up to its first user message, belongs to {}",
            names[0]
        ),
    );
    let rests = json!({"rest": {"why": "rate", "for_ms": 9_000}});
    let told = if home == "a" {
        status(rests, json!({}))
    } else {
        status(json!({}), rests)
    };
    says(
        &of("own", Some(told)),
        "sticky",
        &format!(
            "belongs to {}, which cannot be used now: {} takes its place",
            names[0], names[1]
        ),
    );
    let mut named = input(CATALOG, None, &chat("own"));
    named.headers.insert(SESSION, HeaderValue::from_static("s"));
    says(
        &explain_request("acme/prod", &named),
        "sticky",
        "known by x-portcullis-session",
    );
    let nobody = input(
        CATALOG,
        None,
        r#"{"model":"own","messages":[{"role":"system","content":"S"}]}"#,
    );
    says(
        &explain_request("acme/prod", &nobody),
        "sticky",
        "the request does not say",
    );
}

#[test]
fn what_cannot_be_expressed_is_told() {
    let body = |model: &str| {
        format!(r#"{{"model":"{model}","seed":7,"messages":[{{"role":"user","content":"Hi"}}]}}"#)
    };
    let report = explain_request("acme/prod", &input(CATALOG, None, &body("strict")));
    assert_eq!(
        states(&report),
        [("claude".to_owned(), CandidateState::Unable, None)]
    );
    assert!(
        report
            .candidates
            .first()
            .unwrap()
            .why
            .starts_with("cannot express `seed`: "),
        "{report:#?}"
    );
    assert_eq!(
        (report.verdict.status, report.verdict.param.as_deref()),
        (Some(400), Some("seed"))
    );
    let report = explain_request("acme/prod", &input(CATALOG, None, &body("other")));
    assert_eq!(
        report
            .candidates
            .first()
            .unwrap()
            .request
            .as_ref()
            .unwrap()
            .dropped,
        ["seed"]
    );
}

#[test]
fn who_is_there_in_case_is_told_for_which() {
    let report = of("longer", None);
    assert_eq!(
        states(&report),
        [
            ("a".to_owned(), CandidateState::Asked, Some(1)),
            ("claude".to_owned(), CandidateState::InCase, None),
            ("hidden".to_owned(), CandidateState::Hidden, None)
        ]
    );
    let other = report.candidates.get(1).unwrap();
    assert_eq!(
        (other.reach, other.why.as_str()),
        (
            plan::Reach::TooLong,
            "asked if the request is too long for the model"
        )
    );
    assert!(other.request.is_some());
}

#[test]
fn only_headers_that_decide_something_are_taken() {
    let taken = |written: &[&str]| {
        read_headers(
            written
                .iter()
                .map(|line| line.split_once(':').unwrap_or_default()),
            find_front("chat").unwrap(),
        )
    };
    assert_eq!(
        taken(&["X-Portcullis-Session:  a b ", "x-portcullis-timeout:3s"])
            .unwrap()
            .get(SESSION)
            .unwrap(),
        "a b"
    );
    for wrong in [
        "authorization: Bearer sk-canary-0123456789",
        "sk-canary-0123456789",
        "x-portcullis-session: a\nb",
    ] {
        let told = taken(&[wrong]).unwrap_err();
        assert!(!told.contains("canary"), "{told}");
    }
}

#[test]
fn times_are_written_as_in_the_catalog() {
    let check = |milliseconds: u64, exactly: &str, about: &str| {
        let time = Duration::from_millis(milliseconds);
        assert_eq!(
            (duration_text(time).as_str(), remaining_text(time).as_str()),
            (exactly, about)
        );
    };
    check(0, "0s", "0ms");
    check(250, "250ms", "250ms");
    check(2_000, "2s", "2s");
    check(2_500, "2500ms", "3s");
    check(600_000, "600s", "600s");
}

#[test]
fn holding_limits_and_target_costs_are_told() {
    let catalog = CATALOG
        .replace("    models: [m, alias,", "    limits: { usd_per_day: 12.5, reserve: asked }\n    models: [m, alias,")
        .replace(
            "0000001\" }",
            "0000001\", limits: { requests_per_minute: 60 }, model_limits: { m: { concurrency: 2 }, own: { concurrency: 3 } } }",
        )
        .replace("    fallbacks: [other, hidden]", "    price: { input: 3, output: 15, per_request: 0.01 }\n    fallbacks: [other, hidden]")
        .replace(
            "{ targets: [{ account: a, model: x }], queue",
            "{ price: { input: 0, output: 0 }, targets: [{ account: a, model: x }], queue",
        );
    let priced = [
        "hidden", "turns", "busy", "fast", "own", "longer", "signed", "strict", "unserved",
    ];
    let catalog = priced.iter().fold(catalog, |catalog, id| {
        catalog.replacen(
            &format!("\n  {id}: {{ "),
            &format!("\n  {id}: {{ price: {{ input: 1, output: 2 }}, "),
            1,
        )
    });
    let report = explain_request("acme/prod", &input(&catalog, None, &chat("alias")));
    let text = String::from_utf8(text::render_report(&report)).unwrap();
    for line in [
        "  limits   of acme: usd_per_day 12.5, reserve asked\n",
        "  limits   of its own: requests_per_minute 60\n",
        "  limits   of its own, on m: concurrency 2\n",
        "price input 3, output 15, cached_input 3, cache_write 3, thinking 15, per_request 0.01 (model)\n",
        "price input 3, output 15, cached_input 0.3, cache_write 3.75, thinking 15",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
    assert_eq!(text.matches("  limits ").count(), 4, "{text}");
    assert!(
        text.contains(
            "  limits   the request reserves 1040 tokens and 0.01542 USD until it is settled\n"
        ),
        "{text}"
    );
    let told: Value = serde_json::from_slice(&report.json()).unwrap();
    assert_eq!(
        told["limits"],
        json!([
            { "level": "caller", "name": "acme", "limits": { "usd_per_day": 12.5 }, "reserve": "asked" },
            { "level": "key", "name": "acme/prod", "limits": { "requests_per_minute": 60 } },
            { "level": "key_model", "name": "acme/prod m", "limits": { "concurrency": 2 } },
        ])
    );
    assert_eq!(told["candidates"][0]["price"]["from"], "model");
    assert_eq!(
        told["candidates"][0]["price"]["costs"][0],
        json!(["input", "3"])
    );
    assert_eq!(
        (
            &told["candidates"][3]["account"],
            &told["candidates"][3]["price"]["from"]
        ),
        (&json!("claude"), &json!("list"))
    );

    // What is more than the whole of a limit never passes.
    let large = chat("alias").replacen('{', "{\"max_tokens\": 2000000, ", 1);
    let report = explain_request("acme/prod", &input(&catalog, None, &large));
    assert_eq!(
        (report.verdict.status, report.verdict.code.as_deref()),
        (Some(429), Some("insufficient_quota"))
    );
    assert!(
        report
            .verdict
            .sentence
            .contains("more than the limit of 12.5 USD per day of caller acme"),
        "{}",
        report.verdict.sentence
    );

    // Unless no more is reserved than the model's answers use.
    let usual = catalog.replace(", reserve: asked", "");
    let report = explain_request("acme/prod", &input(&usual, None, &large));
    let text = String::from_utf8(text::render_report(&report)).unwrap();
    assert!(
        report.verdict.tried
            && text.contains("  limits   the request reserves 8213 tokens and 0.132943 USD")
            && text
                .contains("the request asks for 2000021 tokens; the limits reserve for an answer at most twice what"),
        "{text}"
    );

    // What is that only as estimated passes when nothing else is counted.
    let small = catalog.replacen(
        "requests_per_minute: 60",
        "requests_per_minute: 60, tokens_per_minute: 600",
        1,
    );
    let report = explain_request("acme/prod", &input(&small, None, &chat("alias")));
    assert!(report.verdict.tried, "{}", report.verdict.sentence);
    let text = String::from_utf8(text::render_report(&report)).unwrap();
    assert!(
        text.contains(
            "  limits   these tokens are an estimate, and more than a limit of acme/prod allows: the \
         request is admitted"
        ),
        "{text}"
    );
    let asked = chat("alias").replacen('{', "{\"max_tokens\": 700, ", 1);
    let report = explain_request("acme/prod", &input(&small, None, &asked));
    assert_eq!(
        (report.verdict.status, report.verdict.code.as_deref()),
        (Some(429), Some("rate_limit_exceeded"))
    );

    // Where nobody knows, that is said.
    let report = of("fast", None);
    assert!(
        String::from_utf8(text::render_report(&report))
            .unwrap()
            .contains("price unknown\n")
    );
    let told: Value = serde_json::from_slice(&report.json()).unwrap();
    assert_eq!(
        (&told["candidates"][0]["price"], &told["limits"]),
        (&Value::Null, &json!([]))
    );
}
