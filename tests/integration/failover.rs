//! Failover: which targets are tried, in what order, and for how long a failed one is not tried. It
//! covers targets, fallbacks, the classes of failures with their rests, and the cap.

use std::time::Duration;

use serde_json::{Value, json};

use crate::routing::target;
use crate::support::canary::ACCOUNT_KEY;
use crate::support::client::{Response, post_as};
use crate::support::script;
use crate::support::{
    Catalog, Gate, Gateway, Mock, Script, chat, chat_stream, eventually, is_about, join_all, run,
};

const OTHER_KEY: &str = "sk-CaNaRy-caller-other-0123456789abcdefghijklmnop";

/// The accounts and outcomes of a line's attempts: `a:status b:ok`.
pub fn trail(line: &Value) -> String {
    let attempts = line["attempts"].as_array().expect("attempts").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    attempts
        .map(|a| format!("{}:{}", text(&a["account"]), text(&a["outcome"])))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The same of a caller who left at once. On a slow machine that takes longer than a caller must
/// wait to have given an account up.
pub fn trail_of_leaver(line: &Value) -> String {
    let is_slow = line["attempts"]
        .as_array()
        .expect("attempts")
        .iter()
        .any(|a| a["ms"].as_u64() >= Some(1_000));
    if is_slow {
        trail(line).replace("given_up", "client_left")
    } else {
        trail(line)
    }
}

pub fn retry_after(response: &Response) -> u64 {
    response
        .field("retry-after")
        .unwrap_or_else(|| panic!("no retry-after in {:?}", response.fields))
        .parse()
        .expect("seconds")
}

#[test]
fn targets_are_tried_as_written_up_to_attempts() {
    run(async {
        for (attempts, tried) in [(1, 1), (3, 3), (9, 5)] {
            let mocks = [
                Mock::start().await,
                Mock::start().await,
                Mock::start().await,
                Mock::start().await,
                Mock::start().await,
            ];
            for mock in &mocks {
                mock.always(Script::error(500, "out of order"));
            }
            let catalog = Catalog::chain(&mocks.each_ref());
            let gateway = Gateway::with(catalog)
                .server(&format!("attempts: {attempts}"))
                .start()
                .await;
            let answer = gateway.post(&chat("m")).await;
            answer.is_error(502, "bad_upstream_response");
            assert_eq!(
                answer.field("x-should-retry"),
                (tried > 1).then_some("false")
            );
            let seen: Vec<_> = mocks.iter().map(Mock::count).collect();
            assert_eq!(
                seen,
                (0..5).map(|n| usize::from(n < tried)).collect::<Vec<_>>()
            );
            let all = ["a:status", "b:status", "c:status", "d:status", "e:status"];
            assert_eq!(trail(&gateway.line().await), all[..tried].join(" "));
        }
    });
}

#[test]
fn weighted_targets_share_as_their_weights_say() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let catalog = Catalog::new().account("a", &a).account("b", &b);
        let catalog =
            catalog.model_with("m", &["a, weight: 8", "b, weight: 2"], "strategy: weighted");
        let gateway = Gateway::start(catalog).await;
        let mut connection = gateway.connect().await;
        const ALL: usize = 400;
        for _ in 0..ALL {
            connection
                .send(crate::support::client::post(&chat("m")))
                .await;
            assert_eq!(connection.response().await.status, 200);
        }
        drop(connection);
        // Six standard deviations either way.
        assert_eq!(a.count() + b.count(), ALL);
        assert!((272..=368).contains(&a.count()), "{} of {ALL}", a.count());
        gateway.access_lines(ALL).await;
    });
}

#[test]
fn weighted_targets_stand_in_for_each_other() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        a.always(Script::error(500, "out of order"));
        let catalog = Catalog::new().account("a", &a).account("b", &b);
        let catalog = catalog.model_with(
            "m",
            &["a, weight: 1000", "b, weight: 1"],
            "strategy: weighted",
        );
        let gateway = Gateway::start(catalog).await;
        for _ in 0..5 {
            assert_eq!(gateway.post(&chat("m")).await.status, 200);
        }
        gateway.access_lines(5).await;
    });
}

#[test]
fn fallbacks_answer_in_the_name_of_the_asked_model() {
    run(async {
        let (bad, good) = (Mock::start().await, Mock::start().await);
        bad.always(Script::error(503, "out of order"));
        let catalog = Catalog::new()
            .account("bad", &bad)
            .account("good", &good)
            .model_with("m", &["bad"], "aliases: [alias], fallbacks: [f]")
            .model("f", &["good=upstream-name"]);
        let gateway = Gateway::start(catalog).await;
        for (asked, body) in [
            ("m", chat("m")),
            ("alias", chat("alias")),
            ("m", chat_stream("m")),
            ("alias", chat_stream("alias")),
        ] {
            let answer = gateway.post(&body).await;
            assert_eq!(
                (answer.status, answer.field("x-portcullis-model")),
                (200, Some("f"))
            );
            match answer.events().first() {
                Some(event) => assert_eq!(
                    serde_json::from_str::<Value>(event).unwrap()["model"],
                    asked
                ),
                None => assert_eq!(answer.json()["model"], asked),
            }
        }
        assert_eq!(good.request(0).await.model(), "upstream-name");
        let itself = gateway.post(&chat("f")).await;
        assert_eq!(
            (itself.status, itself.field("x-portcullis-model")),
            (200, None)
        );
        let line = gateway.access_lines(5).await.remove(0);
        assert_eq!(
            (
                trail(&line).as_str(),
                &line["account"],
                &line["upstream_model"]
            ),
            (
                "bad:status good:ok",
                &json!("good"),
                &json!("upstream-name")
            )
        );
        assert_eq!(line["model"], "m");
    });
}

#[test]
fn an_alias_is_no_other_model() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(Catalog::new().account("a", &mock).model_with(
            "m",
            &["a"],
            "aliases: [alias]",
        ))
        .await;
        for body in [chat("alias"), chat_stream("alias")] {
            let answer = gateway.post(&body).await;
            assert_eq!(
                (answer.status, answer.field("x-portcullis-model")),
                (200, None)
            );
            assert!(
                answer.text().contains("\"model\":\"alias\""),
                "{}",
                answer.text()
            );
        }
        assert_eq!(mock.request(0).await.model(), "m");
    });
}

#[test]
fn fallbacks_need_permission_and_are_not_followed_further() {
    run(async {
        let (bad, good) = (Mock::start().await, Mock::start().await);
        bad.always(Script::error(500, "out of order"));
        let catalog = Catalog::new()
            .account("bad", &bad)
            .account("good", &good)
            .model_with("forbidden", &["bad"], "fallbacks: [f]")
            .model("f", &["good"])
            .model_with("deep", &["bad"], "fallbacks: [shallow]")
            .model_with("shallow", &["bad"], "fallbacks: [f]")
            .caller("other", OTHER_KEY, "models: [forbidden]");
        let gateway = Gateway::start(catalog).await;
        let refused = gateway.raw(post_as(OTHER_KEY, &chat("forbidden"))).await;
        refused.is_error(502, "bad_upstream_response");
        gateway
            .post(&chat("deep"))
            .await
            .is_error(502, "bad_upstream_response");
        assert_eq!((bad.count(), good.count()), (3, 0));
        assert_eq!(gateway.post(&chat("forbidden")).await.status, 200);
        gateway.access_lines(3).await;
    });
}

/// What an upstream's error means for the caller, alone and with another account behind it.
struct Row {
    script: Script,
    /// Status, code and `type` where this is the only account.
    shown: (u16, &'static str, &'static str),
    outcome: &'static str,
    /// Another account answers instead.
    next: bool,
    /// The next request leaves this account alone.
    rests: bool,
}

fn row(
    script: Script,
    shown: (u16, &'static str),
    outcome: &'static str,
    next: bool,
    rests: bool,
) -> Row {
    let kind = if next {
        "upstream_error"
    } else {
        "invalid_request_error"
    };
    Row {
        script,
        shown: (shown.0, shown.1, kind),
        outcome,
        next,
        rests,
    }
}

fn coded(status: u16, kind: &str, code: &str) -> Script {
    Script::json(
        status,
        &json!({"error": {"message": "it said no", "type": kind, "param": "messages", "code": code}}),
    )
}

fn rows() -> Vec<Row> {
    const BAD: (u16, &str) = (502, "bad_upstream_response");
    const UNAVAILABLE: (u16, &str) = (503, "upstream_unavailable");
    const LIMITED: (u16, &str) = (429, "upstream_rate_limited");
    const OVERLOADED: (u16, &str) = (503, "upstream_overloaded");
    let error = |status| Script::error(status, "it said no");
    let redirect = error(302).with("location", "http://127.0.0.1:1/elsewhere");
    vec![
        row(error(400), (400, ""), "callers_fault", false, false),
        row(error(413), (413, ""), "callers_fault", false, false),
        row(error(422), (422, ""), "callers_fault", false, false),
        row(
            coded(400, "invalid_request_error", "context_length_exceeded"),
            (400, "context_length_exceeded"),
            "callers_fault",
            false,
            false,
        ),
        row(error(401), UNAVAILABLE, "credential", true, true),
        row(error(402), UNAVAILABLE, "credential", true, true),
        row(
            coded(429, "insufficient_quota", "insufficient_quota"),
            UNAVAILABLE,
            "credential",
            true,
            true,
        ),
        row(error(403), BAD, "refused", true, false),
        row(error(404), BAD, "refused", true, false),
        row(redirect, BAD, "refused", true, false),
        row(error(304), BAD, "refused", true, false),
        row(error(429), LIMITED, "rate_limited", true, true),
        row(error(529), OVERLOADED, "overloaded", true, true),
        row(
            Script::error(503, "The model is overloaded."),
            OVERLOADED,
            "overloaded",
            true,
            true,
        ),
        row(error(500), BAD, "status", true, false),
        row(error(502), BAD, "status", true, false),
        row(error(503), BAD, "status", true, false),
        row(error(504), BAD, "status", true, false),
        row(
            Script::text(500, "text/html", "<html>oops</html>"),
            BAD,
            "status",
            true,
            false,
        ),
        row(
            Script::text(400, "text/plain", "no"),
            (400, ""),
            "callers_fault",
            false,
            false,
        ),
    ]
}

/// Streams and buffered answers alike.
#[test]
fn d15_d17_failures_follow_the_table_of_classes() {
    run(async {
        let (bad, good) = (Mock::start().await, Mock::start().await);
        let mut catalog = Catalog::new().account("good", &good);
        for (n, row) in rows().into_iter().enumerate() {
            for kind in ["whole", "stream"] {
                let id = format!("{kind}-{n}");
                bad.on(&id, row.script.clone());
                let alone = format!("alone-{id}");
                catalog = catalog.account(&id, &bad).account(&alone, &bad);
                catalog = catalog.model(&id, &[&id, "good"]).model_with(
                    &alone,
                    &[&format!("{alone}={id}")],
                    "",
                );
            }
        }
        let gateway = Gateway::start(catalog).await;
        let mut lines = 0;
        for (n, row) in rows().into_iter().enumerate() {
            for (kind, body) in [
                ("whole", chat as fn(&str) -> Value),
                ("stream", chat_stream),
            ] {
                let id = format!("{kind}-{n}");
                let (status, code, type_) = row.shown;
                let what = format!("{id}: {}", row.outcome);

                let alone = gateway.post(&body(&format!("alone-{id}"))).await;
                let error = alone.is_error(status, code);
                assert_eq!(error["type"], type_, "{what}");
                // Where only the operator can help, nobody is told to wait; else there was one
                // attempt, and the next may do better.
                let in_vain = row.outcome == "credential";
                assert_eq!(
                    alone.field("retry-after").is_some(),
                    [429, 503].contains(&status) && !in_vain,
                    "{what}"
                );
                assert_eq!(
                    alone.field("x-should-retry"),
                    in_vain.then_some("false"),
                    "{what}"
                );
                assert_eq!(alone.field("location"), None);
                lines += 1;
                let line = gateway.access_lines(lines).await.pop().unwrap();
                assert_eq!(trail(&line), format!("alone-{id}:{}", row.outcome));
                assert_eq!(
                    (&line["status"], &line["account"]),
                    (&json!(status), &json!(format!("alone-{id}"))),
                    "{what}"
                );

                let answer = gateway.post(&body(&id)).await;
                assert_eq!(answer.status, if row.next { 200 } else { status }, "{what}");
                let again = gateway.post(&body(&id)).await;
                assert_eq!(again.status, answer.status, "{what}");
                lines += 2;
                let line = gateway.access_lines(lines).await.pop().unwrap();
                let second = match (row.next, row.rests) {
                    (false, _) => format!("{id}:{}", row.outcome),
                    (true, false) => format!("{id}:{} good:ok", row.outcome),
                    (true, true) => "good:ok".to_owned(),
                };
                assert_eq!(trail(&line), second, "{what}");
            }
        }
    });
}

#[test]
fn d15_the_upstreams_words_are_shown_without_its_keys() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::error(
            400,
            &format!(
                "temperature is 3; your key {ACCOUNT_KEY} and sk-live-0123456789abcdef are good"
            ),
        ));
        let gateway = Gateway::over(&mock).await;
        let error = gateway.post(&chat("m")).await.is_error(400, "");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("temperature is 3") && !message.contains("0123456789abcdef"),
            "{message}"
        );
        let line = gateway.line().await;
        assert!(!line.to_string().contains("0123456789abcdef"), "{line}");
    });
}

/// No client may wait for what does not change by itself, and no caller is told whose credential it
/// is.
#[track_caller]
fn is_for_the_operator(answer: &Response) {
    assert_eq!(
        (answer.field("x-should-retry"), answer.field("retry-after")),
        (Some("false"), None),
        "{}",
        answer.text()
    );
    let text = answer.text();
    assert!(
        text.contains("operator") && !text.contains("bad key") && !text.contains("401"),
        "{text}"
    );
}

#[test]
fn no_retry_is_offered_where_only_operators_help() {
    run(async {
        let mocks = [
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        ];
        let [a, b, limited, busy, broken] = mocks.each_ref();
        a.always(Script::error(401, "bad key"));
        b.always(Script::error(402, "no money"));
        limited.always(Script::error(429, "slow down").with("retry-after", "20"));
        broken.always(Script::error(500, "out of order"));
        let gate = Gate::new();
        busy.push(Script::new().wait(&gate).then_answer("first"));
        let catalog =
            Catalog::chain(&mocks.each_ref()).account_with("full", busy, "concurrency: 1");
        let catalog = catalog
            .account("a2", a)
            .account("a3", a)
            .account("a4", a)
            .account("a5", a);
        let catalog = catalog
            .model("both", &["a", "b"])
            .model_with("queued", &["a", "b"], "queue: { wait: 30s }")
            .model("limited", &["c=m"])
            .model("then-limited", &["a2=m", "c=m"])
            .model("broken", &["e"])
            .model("then-broken", &["a3", "e"])
            .model("broken-then", &["e", "a4"])
            .model("full", &["full=m"])
            .model("then-full", &["a5", "full=m"]);
        let gateway = Gateway::start(catalog).await;
        // Asked for the first time, and when all rest; without a minute in a queue.
        let began = std::time::Instant::now();
        for (model, code) in [
            ("both", "upstream_unavailable"),
            ("both", "no_capacity"),
            ("queued", "no_capacity"),
        ] {
            let answer = gateway.post(&chat(model)).await;
            answer.is_error(503, code);
            is_for_the_operator(&answer);
        }
        assert!(
            began.elapsed() < Duration::from_secs(29),
            "nobody waits in the queue: {:?}",
            began.elapsed()
        );
        assert_eq!((a.count(), b.count()), (1, 1));
        // One is back by itself: when it is said.
        gateway
            .post(&chat("limited"))
            .await
            .is_error(429, "upstream_rate_limited");
        for code in ["upstream_unavailable", "no_capacity"] {
            let answer = gateway.post(&chat("then-limited")).await;
            answer.is_error(503, code);
            assert_eq!(answer.field("x-should-retry"), None, "{}", answer.text());
            assert!(
                (10..=20).contains(&retry_after(&answer)),
                "{:?}",
                answer.fields
            );
        }
        // One is full: it may be free at any moment.
        let body = chat("full");
        let (held, ()) = tokio::join!(gateway.post(&body), async {
            busy.request(0).await;
            for code in ["upstream_unavailable", "no_capacity"] {
                let answer = gateway.post(&chat("then-full")).await;
                answer.is_error(503, code);
                assert_eq!(answer.field("x-should-retry"), None, "{}", answer.text());
                assert!(retry_after(&answer) <= 5, "{:?}", answer.fields);
            }
            gate.open();
        });
        assert_eq!(held.content(), "first");
        // One is out of order, which passes: that two were asked is why a client need not ask at
        // once.
        let answer = gateway.post(&chat("then-broken")).await;
        answer.is_error(502, "bad_upstream_response");
        let answer = gateway.post(&chat("broken-then")).await;
        answer.is_error(503, "upstream_unavailable");
        assert!(
            retry_after(&answer) <= 5 && answer.field("x-should-retry") == Some("false"),
            "{:?}",
            answer.fields
        );
        assert!(!answer.text().contains("operator"), "{}", answer.text());
        // While the one with the bad credential rests, the other is worth another try.
        let answer = gateway.post(&chat("then-broken")).await;
        answer.is_error(502, "bad_upstream_response");
        assert_eq!(answer.field("x-should-retry"), None);
        gateway.access_lines(12).await;
    });
}

/// A server that starts again needs some seconds, before its breaker opens and after.
#[test]
fn servers_behind_an_open_breaker_have_time_to_start() {
    run(async {
        let (nobody, broken) = (Mock::refusing().await, Mock::start().await);
        broken.always(Script::error(500, "out of order"));
        let catalog = Catalog::new()
            .account_at("a", &nobody.base_url(), "")
            .model("m", &["a"]);
        let gateway = Gateway::start(catalog.account("b", &broken).model("n", &["b"])).await;
        let mut codes = Vec::new();
        for _ in 0..8 {
            let answer = gateway.post(&chat("m")).await;
            assert!(
                (5..=8).contains(&retry_after(&answer)),
                "{:?} {}",
                answer.fields,
                answer.text()
            );
            assert_eq!((answer.status, answer.field("x-should-retry")), (503, None));
            codes.push(
                answer.json()["error"]["code"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
        assert!(
            ["upstream_unavailable", "no_capacity"]
                .iter()
                .all(|code| codes.iter().any(|one| one == code)),
            "{codes:?}"
        );
        // Who answers with errors may be back at any moment.
        let mut seen = Vec::new();
        for _ in 0..8 {
            let answer = gateway.post(&chat("n")).await;
            seen.extend((answer.status == 503).then(|| retry_after(&answer)));
        }
        assert!(
            !seen.is_empty() && seen.iter().all(|wait| (1..=2).contains(wait)),
            "{seen:?}"
        );
        gateway.access_lines(16).await;
    });
}

#[test]
fn a_bad_credential_rests_its_account_for_a_minute() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::error(401, "bad key"));
        let gateway = Gateway::start(
            Catalog::new()
                .account("a", &mock)
                .model("m", &["a"])
                .model("n", &["a"]),
        )
        .await;
        let first = gateway.post(&chat("m")).await;
        first.is_error(503, "upstream_unavailable");
        is_for_the_operator(&first);
        // Every model of it, and nobody asks again.
        for model in ["m", "n"] {
            let later = gateway.post(&chat(model)).await;
            later.is_error(503, "no_capacity");
            is_for_the_operator(&later);
        }
        assert_eq!(mock.count(), 1);
        // Who can help is told what the provider said, of which account, and what to do.
        let log = gateway.logged("account a rests").await;
        for part in ["401", "bad key", "accounts.a.key", "/accounts/a/reset"] {
            assert!(log.contains(part), "no {part:?} in {log}");
        }
        assert_eq!(gateway.status()["accounts"][0]["state"], "out");
        assert_eq!(gateway.access_lines(3).await[2]["outcome"], "no_capacity");
    });
}

#[test]
fn three_refusals_of_a_model_rest_it() {
    run(async {
        let mock = Mock::start().await;
        mock.on("m", Script::error(404, "no such model"));
        let gateway = Gateway::start(
            Catalog::new()
                .account("a", &mock)
                .model("m", &["a"])
                .model("n", &["a"]),
        )
        .await;
        for _ in 0..3 {
            gateway
                .post(&chat("m"))
                .await
                .is_error(502, "bad_upstream_response");
        }
        let later = gateway.post(&chat("m")).await;
        later.is_error(503, "no_capacity");
        is_for_the_operator(&later);
        assert_eq!(mock.count(), 3);
        assert_eq!(gateway.post(&chat("n")).await.status, 200);
        gateway.access_lines(5).await;
    });
}

#[test]
fn an_answer_between_refusals_ends_their_row() {
    run(async {
        let mock = Mock::start().await;
        let refusal = || Script::error(403, "not today");
        mock.push(refusal())
            .push(refusal())
            .push(Script::answer("ok"))
            .push(refusal())
            .push(refusal())
            .push(Script::answer("ok"));
        let gateway = Gateway::over(&mock).await;
        let mut statuses = Vec::new();
        for _ in 0..6 {
            statuses.push(gateway.post(&chat("m")).await.status);
        }
        assert_eq!(statuses, [502, 502, 200, 502, 502, 200]);
        gateway.access_lines(6).await;
    });
}

#[test]
fn d16_a_rate_limited_account_rests_as_told() {
    run(async {
        let date = |ahead: u64| {
            httpdate::fmt_http_date(std::time::SystemTime::now() + Duration::from_secs(ahead))
        };
        let cases = [
            ("seconds", "retry-after", "17", 17),
            ("fraction", "retry-after", "2.5", 3),
            ("date", "retry-after", "", 23),
            ("past", "retry-after", "Tue, 01 Jan 2019 00:00:00 GMT", 1),
            ("ms", "retry-after-ms", "8500", 9),
            ("absurd", "retry-after", "1000000000", 60),
            ("negative", "retry-after", "-4", 1),
            ("zero", "retry-after", "0", 1),
            ("nonsense", "retry-after", "soon", 5),
            ("none", "x-nothing", "1", 5),
        ];
        let mock = Mock::start().await;
        let mut catalog = Catalog::new();
        for (name, field, value, _) in &cases {
            mock.on(name, Script::error(429, "slow down").with(field, value));
            catalog = catalog.account(name, &mock).model(name, &[name]);
        }
        // From when it is asked.
        mock.on_by("date", move |_| {
            Script::error(429, "slow down").with("retry-after", &date(23))
        });
        let gateway = Gateway::start(catalog).await;
        for (name, _, _, wait) in &cases {
            let first = gateway.post(&chat(name)).await;
            first.is_error(429, "upstream_rate_limited");
            let later = gateway.post(&chat(name)).await;
            for answer in [&first, &later] {
                let shown = retry_after(answer);
                assert!(
                    shown <= *wait && shown + 2 >= *wait && shown >= 1,
                    "{name}: {shown} instead of {wait}"
                );
            }
            if *wait > 1 {
                later.is_error(429, "no_capacity");
            }
        }
        gateway.access_lines(2 * cases.len()).await;
    });
}

#[test]
fn d16_when_all_rest_the_smallest_wait_shows() {
    run(async {
        let (a, b, c) = (
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        );
        a.always(Script::error(429, "slow down").with("retry-after", "7"));
        b.always(Script::error(429, "slow down").with("retry-after", "40"));
        c.always(Script::error(401, "bad key"));
        let catalog = Catalog::chain(&[&a, &b, &c]);
        let catalog = catalog
            .model("rate", &["a", "b"])
            .model("mixed", &["a", "c"]);
        let gateway = Gateway::start(catalog).await;
        let first = gateway.post(&chat("rate")).await;
        first.is_error(429, "upstream_rate_limited");
        assert_eq!(
            (first.field("x-should-retry"), a.count(), b.count()),
            (Some("false"), 1, 1)
        );
        assert!(
            retry_after(&first) <= 7,
            "the smallest wait: {}",
            retry_after(&first)
        );
        let later = gateway.post(&chat("rate")).await;
        let error = later.is_error(429, "no_capacity");
        assert_eq!(error["type"], "upstream_error");
        assert!(
            (6..=8).contains(&retry_after(&later)),
            "{}",
            retry_after(&later)
        );
        // Not all rest for their rate.
        gateway
            .post(&chat("mixed"))
            .await
            .is_error(503, "upstream_unavailable");
        let mixed = gateway.post(&chat("mixed")).await;
        mixed.is_error(503, "no_capacity");
        assert!(
            (5..=8).contains(&retry_after(&mixed)),
            "{}",
            retry_after(&mixed)
        );
        gateway.access_lines(4).await;
    });
}

#[test]
fn d16_an_account_is_used_again_after_its_rest() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        a.push(Script::error(429, "slow down").with("retry-after-ms", "200"));
        let gateway = Gateway::start(Catalog::chain(&[&a, &b])).await;
        let began = std::time::Instant::now();
        let mut asked = 0;
        let mut rested = 0;
        while a.count() < 2 {
            assert_eq!(gateway.post(&chat("m")).await.status, 200);
            asked += 1;
            rested = rested.max(
                target(&gateway, "a", "m")["rest"]["for_ms"]
                    .as_u64()
                    .unwrap_or_default(),
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // A second at the least, whatever it says, and no more.
        assert!(
            is_about(began.elapsed(), Duration::from_secs(1)) && rested <= 1_000,
            "{:?}",
            began.elapsed()
        );
        gateway.access_lines(asked).await;
    });
}

#[test]
fn l05_a_full_account_passes_requests_on_or_refuses_them() {
    run(async {
        let (a, b, gate) = (Mock::start().await, Mock::start().await, Gate::new());
        a.always(Script::new().wait(&gate).then_answer("a"));
        let catalog = Catalog::new()
            .account_with("a", &a, "concurrency: 1")
            .account("b", &b);
        let catalog = catalog.model("both", &["a", "b"]).model("alone", &["a"]);
        let gateway = Gateway::start(catalog).await;
        let alone = chat("alone");
        let (held, ..) = tokio::join!(gateway.post(&alone), async {
            a.request(0).await;
            assert_eq!(gateway.post(&chat("both")).await.status, 200);
            let refused = gateway.post(&chat("alone")).await;
            refused.is_error(503, "no_capacity");
            assert!(retry_after(&refused) >= 1);
            assert_eq!((a.count(), b.count()), (1, 1));
            gate.open();
        });
        assert_eq!(held.content(), "a");
        gateway.idle().await;
        assert_eq!(gateway.post(&chat("alone")).await.content(), "a");
        gateway.access_lines(4).await;
    });
}

/// The cap is exact under a crowd, for whole answers, streams, failures and callers who leave.
#[test]
fn l05_the_cap_is_exact_under_a_crowd() {
    run(async {
        const CAP: usize = 3;
        const CROWD: usize = 24;
        let mock = Mock::start().await;
        let gateway = Gateway::start(
            Catalog::new()
                .account_with("a", &mock, "concurrency: 3")
                .model("m", &["a"]),
        )
        .await;
        let endings: [fn(&Gate) -> Script; 3] = [
            |gate| Script::new().wait(gate).then_answer("ok"),
            |gate| {
                Script::sse()
                    .words(0..1)
                    .wait(gate)
                    .words(1..2)
                    .event(script::finish("stop"))
                    .done()
            },
            |gate| {
                Script::new()
                    .wait(gate)
                    .and(Script::error(500, "out of order"))
            },
        ];
        let mut lines = 0;
        for (round, ending) in endings.into_iter().enumerate() {
            let gate = Gate::new();
            mock.always(ending(&gate));
            let before = mock.count();
            let ask = || async {
                let body = if round == 1 {
                    chat_stream("m")
                } else {
                    chat("m")
                };
                let answer = gateway.post(&body).await;
                // The last of those that are refused lets the others go on.
                (answer.status, answer.content())
            };
            let refused = std::sync::atomic::AtomicUsize::new(0);
            let asks = (0..CROWD).map(|_| async {
                let answer = ask().await;
                if answer.0 == 503
                    && refused.fetch_add(1, std::sync::atomic::Ordering::AcqRel) + 1 == CROWD - CAP
                {
                    gate.open();
                }
                answer.0
            });
            let mut statuses = join_all(asks).await;
            statuses.sort_unstable();
            let good = if round == 2 { 502 } else { 200 };
            let mut wanted: Vec<_> = [vec![good; CAP], vec![503; CROWD - CAP]].concat();
            wanted.sort_unstable();
            assert_eq!(statuses, wanted);
            assert_eq!(mock.count() - before, CAP);
            gateway.idle().await;
            lines += CROWD;
            gateway.access_lines(lines).await;
        }
        // Callers who leave give their places back too.
        mock.always(Script::silent());
        let before = mock.count();
        for n in 0..CAP {
            let mut connection = gateway.connect().await;
            connection
                .send(crate::support::client::post(&chat("m")))
                .await;
            mock.request(before + n).await;
            drop(connection);
            mock.left(before + n).await;
        }
        gateway.idle().await;
        mock.always(Script::answer("ok"));
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        eventually("all lines", || {
            (gateway.lines().len() == lines + CAP + 1).then_some(())
        })
        .await;
    });
}
