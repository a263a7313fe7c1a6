//! Problems of the catalog, of models and accounts, and of callers.

use std::time::{Duration, SystemTime};

use portcullis::base::calendar::format_system_time;
use serde_json::json;

use super::{Clock, comes, goes, problems, subject_and_text};
use crate::support::canary::{KEY, hash};
use crate::support::{Catalog, Gate, Gateway, Mock, Script, chat, client, eventually, run};

/// A second secret of a key.
const OLD: &str = "sk-CaNaRy-older-0123456789abcdefghijklmnopqrstuvwxyz";

#[test]
fn nothing_is_wrong_with_a_gateway_that_works() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let status = gateway.status();
        assert_eq!(
            (&status["problems"], &status["more_problems"]),
            (&json!([]), &json!(0))
        );
    });
}

#[test]
fn reload_refused() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        gateway.write_catalog(format!("{}nonsense: 1\n", Catalog::over(&mock)));
        let (subject, what) = subject_and_text(&comes(&gateway, "reload_refused").await);
        assert!(
            subject == "catalog catalog" && what.contains("catalog.yaml:"),
            "{subject}: {what}"
        );
        gateway.write_catalog(Catalog::over(&mock));
        goes(&gateway, "reload_refused").await;
    });
}

#[test]
fn change_held() {
    run(async {
        let mock = Mock::start().await;
        let few = Catalog::over(&mock);
        let many = few.clone().model("n", &["a"]).model("o", &["a"]);
        let gateway = Gateway::start(many).await;
        gateway.write_catalog(few);
        let (_, what) = subject_and_text(&comes(&gateway, "change_held").await);
        assert!(what.contains("removes 2 of 3 models"), "{what}");
        // It stays so, and is taken.
        gateway.advance(Duration::from_secs(5)).await;
        goes(&gateway, "change_held").await;
        assert_eq!(gateway.generation(), 2);
    });
}

#[test]
fn model_unfit_and_breaker_open() {
    run(async {
        let (a, b, clock) = (Mock::start().await, Mock::start().await, Clock::new());
        a.always(Script::new().close());
        let catalog = Catalog::chain(&[&a, &b]).model("alone", &["a"]);
        let gateway = clock.give(Gateway::with(catalog)).start().await;
        for _ in 0..6 {
            gateway.post(&chat("alone")).await;
        }
        let unfit = comes(&gateway, "model_unfit").await;
        assert_eq!(unfit["severity"], "critical");
        let (subject, what) = subject_and_text(&unfit);
        assert!(
            subject == "model alone" && what.contains("a closes connections without an answer"),
            "{what}"
        );
        assert_eq!(
            gateway.status()["problems"][0]["rule"],
            "model_unfit",
            "the worst is the first"
        );
        assert!(
            problems(&gateway, "breaker_open").is_empty(),
            "it is for this that there are breakers"
        );
        assert_eq!(
            gateway.post(&chat("m")).await.status,
            200,
            "the other one answers"
        );
        clock.set(31);
        let (subject, what) = subject_and_text(&comes(&gateway, "breaker_open").await);
        assert!(
            subject.starts_with("target a/") && what.contains("its breaker keeps requests"),
            "{subject}: {what}"
        );
        // It works again: the next request finds that out.
        a.always(Script::answer("back"));
        gateway.reset("a");
        assert_eq!(gateway.post(&chat("alone")).await.status, 200);
        goes(&gateway, "breaker_open").await;
        goes(&gateway, "model_unfit").await;
    });
}

#[test]
fn not_answering() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::error(500, "oops"));
        let gateway = Gateway::over(&mock).await;
        let verdict = || crate::hangs::verdict(&gateway);
        eventually("nothing was asked yet", || {
            (verdict().0 == "ok").then_some(())
        })
        .await;
        gateway.post(&chat("m")).await;
        let problem = comes(&gateway, "not_answering").await;
        assert_eq!(problem["severity"], "warning");
        let (subject, what) = subject_and_text(&problem);
        let expected =
            "`m` has not answered since the start: 1 request failed (a answers with errors).";
        assert_eq!((&*subject, &*what), ("model m", expected));
        eventually("the verdict says it", || {
            (verdict() == ("degraded".to_owned(), expected.to_owned())).then_some(())
        })
        .await;
        // One answer ends it, and one failure among answers is none.
        mock.push(Script::answer("well"));
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        goes(&gateway, "not_answering").await;
        eventually("all is well", || (verdict().0 == "ok").then_some(())).await;
        for number in 1..=2 {
            let settled = gateway.lines().len();
            gateway.post(&chat("m")).await;
            // A request is settled after its caller has the answer.
            eventually("it is settled", || {
                (gateway.lines().len() > settled).then_some(())
            })
            .await;
            // The gateway looks twice a second at most.
            gateway.advance(Duration::from_millis(500)).await;
            let found = problems(&gateway, "not_answering");
            assert!(found.is_empty(), "after {number}: {found:?}");
        }
        gateway.post(&chat("m")).await;
        comes(&gateway, "not_answering").await;
        gateway.reset("a");
        goes(&gateway, "not_answering").await;
    });
}

#[test]
fn a_fallback_counts_if_every_key_may_use_it() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        a.always(Script::new().close());
        let catalog = || Catalog::chain(&[&a, &b]).model("spare", &["b"]);
        let with = |id: &str, fallbacks: &str| catalog().model_with(id, &["a"], fallbacks);
        let gateway = Gateway::start(with("alone", "fallbacks: [spare]")).await;
        for _ in 0..6 {
            assert_eq!(gateway.post(&chat("alone")).await.status, 200);
        }
        let unfit = comes(&gateway, "model_unfit").await;
        assert_eq!(
            (&unfit["severity"], &unfit["part"]),
            (&"warning".into(), &"fallback".into())
        );
        assert_eq!(crate::hangs::verdict(&gateway).0, "degraded");
        let narrow = with("alone", "fallbacks: [spare]");
        gateway
            .swap(narrow.caller("narrow", "k-narrow-0123456789", "models: [alone]"))
            .await;
        eventually("it is critical", || {
            let unfit = problems(&gateway, "model_unfit").pop()?;
            (unfit["severity"] == "critical" && unfit["part"].is_null()).then_some(())
        })
        .await;
        eventually("the verdict is another", || {
            (crate::hangs::verdict(&gateway).0 == "failing").then_some(())
        })
        .await;
    });
}

#[test]
fn credential_refused() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        a.always(Script::error(401, "who are you?"));
        let gateway = Gateway::start(Catalog::chain(&[&a, &b])).await;
        assert_eq!(
            gateway.post(&chat("m")).await.status,
            200,
            "the other one answers"
        );
        let (subject, what) = subject_and_text(&comes(&gateway, "credential_refused").await);
        assert!(
            subject == "account a" && what.contains("refuses its credential"),
            "{subject}: {what}"
        );
        assert!(problems(&gateway, "model_unfit").is_empty());
        a.always(Script::answer("welcome"));
        gateway.reset("a");
        goes(&gateway, "credential_refused").await;
    });
}

#[test]
fn queue() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        mock.push(Script::new().wait(&gate).then_answer("late"));
        let catalog = Catalog::new().account_with("a", &mock, "concurrency: 1");
        let gateway =
            Gateway::start(catalog.model_with("m", &["a"], "queue: { length: 2, wait: 30s }"))
                .await;
        let mut connections = Vec::new();
        for _ in 0..2 {
            let mut connection = gateway.connect().await;
            connection.send(client::post(&chat("m"))).await;
            mock.request(0).await;
            connections.push(connection);
        }
        let (subject, what) = subject_and_text(&comes(&gateway, "queue").await);
        assert!(
            subject == "model m" && what.starts_with("1 request of at most 2 wait for `m`"),
            "{what}"
        );
        gate.open();
        for connection in &mut connections {
            assert_eq!(connection.response().await.status, 200);
        }
        goes(&gateway, "queue").await;
    });
}

#[test]
fn headroom() {
    run(async {
        let mock = Mock::start().await;
        let left = |left: &str| {
            let script = Script::answer("x").with("x-ratelimit-limit-requests", "100");
            script
                .with("x-ratelimit-remaining-requests", left)
                .with("x-ratelimit-reset-requests", "40m0s")
        };
        mock.push(left("4")).push(left("90"));
        let gateway = Gateway::over(&mock).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let (subject, what) = subject_and_text(&comes(&gateway, "headroom").await);
        assert!(
            subject == "account a" && what.contains("4 % left"),
            "{what}"
        );
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        goes(&gateway, "headroom").await;
    });
}

#[test]
fn limit_near() {
    run(async {
        let (mock, clock) = (Mock::start().await, Clock::new());
        let with = |limits: &str| {
            Catalog::over(&mock).without_acme().caller(
                "acme",
                KEY,
                &format!("limits: {{ {limits} }}"),
            )
        };
        let gateway = clock
            .give(Gateway::with(with("requests_per_day: 10")))
            .start()
            .await;
        for n in 0..9 {
            assert!(problems(&gateway, "limit_near").is_empty(), "after {n}");
            assert_eq!(gateway.post(&chat("m")).await.status, 200);
        }
        let (subject, what) = subject_and_text(&comes(&gateway, "limit_near").await);
        assert!(
            subject == "caller acme" && what.contains("9 of 10 of its `requests_per_day`"),
            "{what}"
        );
        gateway.swap(with("requests_per_day: 100")).await;
        goes(&gateway, "limit_near").await;
        // A limit by the minute is free again soon: it must stay so.
        gateway.swap(with("requests_per_minute: 1")).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        // The gateway looks twice a second at most.
        gateway.advance(Duration::from_millis(500)).await;
        assert!(problems(&gateway, "limit_near").is_empty());
        clock.set(31);
        let (_, what) = subject_and_text(&comes(&gateway, "limit_near").await);
        assert!(what.contains("`requests_per_minute`"), "{what}");
        clock.set(120);
        goes(&gateway, "limit_near").await;
    });
}

/// Writes a time that is so many hours from now.
fn in_hours(hours: u64) -> String {
    format_system_time(SystemTime::now() + Duration::from_secs(hours * 3_600))
}

#[test]
fn key_ends() {
    run(async {
        let (mock, clock) = (Mock::start().await, Clock::new());
        let with = |hours| {
            let expires = format!("expires: \"{}\"", in_hours(hours));
            Catalog::over(&mock)
                .without_acme()
                .caller_with("acme", "", &[("prod", KEY, &expires)])
        };
        let gateway = clock.give(Gateway::with(with(72))).start().await;
        assert!(problems(&gateway, "key_ends").is_empty(), "nobody uses it");
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let (subject, what) = subject_and_text(&comes(&gateway, "key_ends").await);
        assert!(
            subject == "key acme/prod" && what.contains("ends in 2 days"),
            "{what}"
        );
        // It has ended, and its owner does not know yet.
        clock.set(73 * 3_600);
        let ended = || {
            problems(&gateway, "key_ends")
                .pop()
                .filter(|problem| subject_and_text(problem).1.contains("has ended"))
        };
        eventually("it has ended", ended).await;
        clock.set(0);
        gateway.swap(with(9 * 24)).await;
        goes(&gateway, "key_ends").await;
    });
}

#[test]
fn old_secret_used() {
    run(async {
        let mock = Mock::start().await;
        let with = |hours| {
            let (old, new) = (hash(OLD), hash(KEY));
            let hashes = format!(
                "[{{ hash: \"{old}\", until: \"{}\" }}, {{ hash: \"{new}\" }}]",
                in_hours(hours)
            );
            let acme =
                format!("callers:\n  acme: {{ keys: {{ prod: {{ hashes: {hashes} }} }} }}\n");
            let catalog = Catalog::over(&mock).to_string();
            let at = catalog.find("callers:").expect("its callers");
            format!("{}{acme}", &catalog[..at])
        };
        let gateway = Gateway::start(with(12)).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        assert!(
            problems(&gateway, "old_secret_used").is_empty(),
            "the new one is used"
        );
        assert_eq!(
            gateway.raw(client::post_as(OLD, &chat("m"))).await.status,
            200
        );
        let (subject, what) = subject_and_text(&comes(&gateway, "old_secret_used").await);
        assert!(
            subject == "key acme/prod" && what.contains("ends in 11 h"),
            "{what}"
        );
        gateway.swap(with(48)).await;
        goes(&gateway, "old_secret_used").await;
    });
}

#[test]
fn unpriced() {
    run(async {
        let mock = Mock::start().await;
        let with = |price: &str| {
            let caller =
                Catalog::new()
                    .without_acme()
                    .caller("acme", KEY, "limits: { usd_per_month: 10 }");
            caller
                .account("a", &mock)
                .model_with("m", &["a=up"], &format!("price: {{ {price} }}"))
        };
        let gateway = Gateway::start(with("per_image: 0.04")).await;
        gateway
            .post(&chat("m"))
            .await
            .is_error(403, "price_unknown");
        let (subject, what) = subject_and_text(&comes(&gateway, "unpriced").await);
        assert!(
            subject == "model m" && what.starts_with("1 request for `m` could not be sent"),
            "{what}"
        );
        gateway.swap(with("input: 1, output: 2")).await;
        goes(&gateway, "unpriced").await;
    });
}

/// Sends so many requests with good answers.
async fn good(gateway: &Gateway, number: usize) {
    for _ in 0..number {
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
    }
}

#[test]
fn failures_by_whose_fault_they_are() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        // The provider's: not in a row, so that no breaker opens.
        for _ in 0..2 {
            good(&gateway, 9).await;
            mock.push(Script::error(500, "not now"));
            gateway
                .post(&chat("m"))
                .await
                .is_error(502, "bad_upstream_response");
        }
        let failures = comes(&gateway, "failures").await;
        let (subject, what) = subject_and_text(&failures);
        let shown = (&*subject, &failures["part"], &failures["requests"]);
        assert_eq!(shown, ("model m", &json!("providers"), &json!(2)), "{what}");
        assert_eq!(
            what,
            "2 of 20 requests for `m` failed by the providers' fault in the last 5 minutes."
        );
        good(&gateway, 25).await;
        goes(&gateway, "failures").await;
        // The callers': of requests without a key no model is known.
        for _ in 0..5 {
            let body = chat("m").to_string();
            let refused = gateway
                .raw(client::request(
                    "POST",
                    "/v1/chat/completions",
                    &[],
                    body.as_bytes(),
                ))
                .await;
            refused.is_error(401, "invalid_api_key");
        }
        let (subject, what) = subject_and_text(&comes(&gateway, "failures").await);
        assert!(
            subject == "process portcullis" && what.contains("by the callers' fault"),
            "{subject}: {what}"
        );
        good(&gateway, 70).await;
        goes(&gateway, "failures").await;
    });
}

#[test]
#[cfg_attr(not(feature = "test-panics"), ignore = "needs --features test-panics")]
fn failures_of_the_gateway_itself() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        good(&gateway, 19).await;
        let bearer = format!("Bearer {KEY}");
        let fields = [
            ("authorization", bearer.as_str()),
            ("x-test-panic", "exchange"),
        ];
        for _ in 0..2 {
            let mut connection = gateway.connect().await;
            let body = chat("m").to_string();
            connection
                .send(client::request(
                    "POST",
                    "/v1/chat/completions",
                    &fields,
                    body.as_bytes(),
                ))
                .await;
            drop(connection.try_response("POST").await);
        }
        let (subject, what) = subject_and_text(&comes(&gateway, "failures").await);
        assert!(
            subject.ends_with(" m") && what.contains("because the gateway could not serve them"),
            "{subject}: {what}"
        );
        good(&gateway, 30).await;
        goes(&gateway, "failures").await;
    });
}

#[test]
fn problems_name_a_full_queue_and_unpriced_answers() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        mock.push(Script::new().wait(&gate).then_answer("late"));
        let catalog = |price: &str| {
            let catalog = Catalog::new()
                .account_with("a", &mock, "concurrency: 1")
                .account("b", &mock);
            let catalog = catalog.model_with(
                "m",
                &["a=up"],
                "price: { input: 1, output: 2 }, queue: { length: 1, wait: 40s }",
            );
            catalog.model_with("free", &["b=up"], price)
        };
        let gateway = Gateway::start(catalog("")).await;
        let mut first = gateway.connect().await;
        first.send(client::post(&chat("m"))).await;
        mock.request(0).await;
        let mut second = gateway.connect().await;
        second.send(client::post(&chat("m"))).await;
        eventually("it waits", || {
            (gateway.status()["models"][1]["waiting"] == 1).then_some(())
        })
        .await;
        gateway.post(&chat("m")).await;
        let shed = || {
            problems(&gateway, "queue")
                .pop()
                .filter(|problem| subject_and_text(problem).1.contains("no place to wait"))
        };
        eventually("somebody was turned away", shed).await;
        gate.open();
        for connection in [&mut first, &mut second] {
            connection.response().await;
        }
        // Money is counted now, and an answer has no price.
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        assert_eq!(gateway.post(&chat("free")).await.status, 200);
        let (subject, what) = subject_and_text(&comes(&gateway, "unpriced").await);
        assert!(
            subject == "model free" && what.starts_with("The cost of 1 answer of `free`"),
            "{subject}: {what}"
        );
        gateway
            .swap(catalog("price: { input: 0, output: 0 }"))
            .await;
        // Steps of five seconds are counted.
        gateway.advance(Duration::from_secs(5)).await;
        goes(&gateway, "unpriced").await;
    });
}
