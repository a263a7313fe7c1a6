//! Notices of problems, with a real receiver.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Clock, comes, goes};
use crate::support::canary::MARK;
use crate::support::clock::NOTICES;
use crate::support::gateway::Setup;
use crate::support::tls::Ca;
use crate::support::{Catalog, Gateway, Mock, Proxy, Script, chat, run_within};

/// The gateway looks for news every five seconds, and a test may have to wait for it several times.
const LONG: Duration = Duration::from_secs(120);

/// The path of the webhook. At the end of each test all outputs are searched for it.
fn hook(receiver: &Mock) -> String {
    format!("{}/{MARK}/hook?sig={MARK}", receiver.base_url())
}

fn telling(setup: Setup, receiver: &Mock) -> Setup {
    let setup = setup.server("notify: { webhook: { env: WEBHOOK_URL }, min_severity: critical }");
    setup
        .env("WEBHOOK_URL", &hook(receiver))
        .upstream(receiver.address().port())
}

/// Waits for the notice of this number, which is due.
async fn notice(gateway: &Gateway, receiver: &Mock, number: usize) -> Value {
    gateway.round(NOTICES).await;
    let request = receiver.request(number).await;
    assert_eq!(
        (&*request.method, request.field("content-type")),
        ("POST", Some("application/json"))
    );
    assert_eq!(request.target, format!("/v1/{MARK}/hook?sig={MARK}"));
    assert!(
        request.field("authorization").is_none(),
        "{:?}",
        request.fields
    );
    request.json()
}

fn rules(list: &Value) -> Vec<&str> {
    list.as_array()
        .expect("a list")
        .iter()
        .map(|one| one["rule"].as_str().expect("a rule"))
        .collect()
}

/// Makes the model `alone` fail, or answer again.
async fn fail(gateway: &Gateway, mock: &Mock) {
    mock.always(Script::new().close());
    for _ in 0..6 {
        gateway.post(&chat("m")).await;
    }
    comes(gateway, "model_unfit").await;
}

async fn mend(gateway: &Gateway, mock: &Mock) {
    mock.always(Script::answer("back"));
    gateway.reset("a");
    assert_eq!(gateway.post(&chat("m")).await.status, 200);
    goes(gateway, "model_unfit").await;
}

#[test]
fn a_problem_that_comes_and_goes_is_told_once() {
    run_within(LONG, async {
        let (mock, receiver, clock) = (Mock::start().await, Mock::start().await, Clock::new());
        receiver.always(Script::json(200, &Value::Null));
        let gateway = clock
            .give(telling(Gateway::with(Catalog::over(&mock)), &receiver))
            .start()
            .await;
        fail(&gateway, &mock).await;
        let first = notice(&gateway, &receiver, 0).await;
        assert_eq!(
            (rules(&first["began"]), rules(&first["ended"])),
            (vec!["model_unfit"], vec![])
        );
        assert_eq!(
            first["began"][0],
            comes(&gateway, "model_unfit").await,
            "it is as in /status"
        );
        let text = first["text"].as_str().expect("a text");
        assert!(
            text.contains("CRITICAL: No target of `m` answers"),
            "{text}"
        );
        assert!(
            first["instance"]
                .as_str()
                .is_some_and(|name| !name.is_empty()),
            "{first}"
        );
        // It flaps within the minute: nothing is sent, and then all at once.
        mend(&gateway, &mock).await;
        fail(&gateway, &mock).await;
        mend(&gateway, &mock).await;
        gateway.round(NOTICES).await;
        assert_eq!(receiver.count(), 1);
        clock.set(61);
        let second = notice(&gateway, &receiver, 1).await;
        assert_eq!(
            (rules(&second["began"]), rules(&second["ended"])),
            (vec![], vec!["model_unfit"])
        );
        let ended = &second["ended"][0];
        assert!(ended["since"].as_str() < ended["until"].as_str(), "{ended}");
        assert_eq!(ended["subject"]["name"], "m");
    });
}

#[test]
fn failing_receivers_get_it_later_and_redirects_are_ignored() {
    run_within(LONG, async {
        let (mock, receiver, other) = (
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        );
        let clock = Clock::new();
        receiver.push(Script::error(500, "not now"));
        receiver.push(
            Script::new()
                .head(
                    302,
                    &[("location", &*hook(&other)), ("content-length", "0")],
                )
                .end(),
        );
        receiver.always(Script::json(200, &Value::Null));
        let gateway = clock
            .give(telling(Gateway::with(Catalog::over(&mock)), &receiver))
            .start()
            .await;
        fail(&gateway, &mock).await;
        for (number, seconds) in [0, 5, 15].into_iter().enumerate() {
            clock.set(seconds);
            assert_eq!(
                rules(&notice(&gateway, &receiver, number).await["began"]),
                ["model_unfit"],
                "{number}"
            );
        }
        gateway
            .logged("notices of problems can be sent again")
            .await;
        let log = gateway.log();
        assert_eq!(
            log.matches("could not be sent (it answers 500)").count(),
            1,
            "said once: {log}"
        );
        assert_eq!((other.count(), receiver.count()), (0, 3));
    });
}

#[test]
fn a_receiver_that_does_not_answer_holds_up_nothing() {
    run_within(LONG, async {
        let (mock, receiver) = (Mock::start().await, Mock::start().await);
        receiver.always(Script::silent());
        let gateway = telling(Gateway::with(Catalog::over(&mock)), &receiver)
            .start()
            .await;
        fail(&gateway, &mock).await;
        receiver.request(0).await;
        let start = Instant::now();
        mend(&gateway, &mock).await;
        // The receiver has ten seconds.
        assert!(
            start.elapsed() < Duration::from_secs(9),
            "{:?}",
            start.elapsed()
        );
        // The gateway ends at once all the same, which the end of each test checks.
    });
}

#[test]
fn a_receiver_that_nobody_vouches_for_gets_nothing() {
    run_within(LONG, async {
        let (mock, ca) = (Mock::start().await, Ca::new());
        let receiver = Mock::tls(&ca.leaf()).await;
        receiver.always(Script::json(200, &Value::Null));
        let gateway = telling(Gateway::with(Catalog::over(&mock)), &receiver)
            .start()
            .await;
        fail(&gateway, &mock).await;
        gateway.round(NOTICES).await;
        gateway.logged("could not be sent (tls)").await;
        assert_eq!(receiver.count(), 0);
        // With the authority among the system's it gets it.
        let folder = crate::support::folder::Folder::new(&[("roots.pem", &ca.pem())]);
        let roots = folder.path().join("roots.pem");
        let setup = telling(Gateway::with(Catalog::over(&mock)), &receiver);
        let trusting = setup
            .env("SSL_CERT_FILE", roots.to_str().expect("a path"))
            .start()
            .await;
        fail(&trusting, &mock).await;
        assert_eq!(
            rules(&notice(&trusting, &receiver, 0).await["began"]),
            ["model_unfit"]
        );
    });
}

#[test]
fn an_invalid_url_is_refused_and_not_shown() {
    for wrong in [format!("ftp://{MARK}/"), MARK.to_owned()] {
        let setup =
            Gateway::with(Catalog::new()).server("notify: { webhook: { env: WEBHOOK_URL } }");
        let (status, output) = setup.env("WEBHOOK_URL", &wrong).refuse();
        assert!(
            !status.success() && output.contains("must be a URL such as https://hooks.example.com"),
            "{output}"
        );
    }
    let (_, output) = Gateway::with(Catalog::new())
        .server("notify: { min_severity: critical }")
        .refuse();
    assert!(output.contains("notify.webhook: is missing"), "{output}");
}

#[test]
fn a_notice_goes_through_the_proxy_of_the_environment() {
    run_within(LONG, async {
        let ca = Ca::new();
        let (mock, proxy) = (Mock::start().await, Proxy::start().await);
        let receiver = Mock::tls(&ca.leaf_for("hook.invalid")).await;
        receiver.always(Script::json(200, &Value::Null));
        proxy.knows("hook.invalid:443", &receiver);
        let store = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("hook-{}.pem", std::process::id()));
        std::fs::write(&store, ca.pem()).expect("a store of certificates");
        let setup = Gateway::with(Catalog::over(&mock)).server("upstream_proxy: environment");
        let setup =
            setup.server("notify: { webhook: { env: WEBHOOK_URL }, min_severity: critical }");
        let setup = setup.env(
            "WEBHOOK_URL",
            &format!("https://hook.invalid/v1/{MARK}/hook?sig={MARK}"),
        );
        let setup = setup
            .env("https_proxy", &proxy.url(""))
            .env("http_proxy", "")
            .env("HTTP_PROXY", "");
        let setup = setup
            .env("SSL_CERT_FILE", store.to_str().expect("a path"))
            .upstream(proxy.port());
        let gateway = setup.start().await;
        fail(&gateway, &mock).await;
        let told = notice(&gateway, &receiver, 0).await;
        assert_eq!(rules(&told["began"]), ["model_unfit"]);
        assert_eq!(proxy.asked(), ["CONNECT hook.invalid:443 HTTP/1.1"]);
        gateway.access_lines(6).await;
        std::fs::remove_file(store).expect("removed");
    });
}
