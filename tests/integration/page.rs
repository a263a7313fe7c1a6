//! The operator's page in a real Chromium: a scenario of `tests/browser/scenarios.mjs` looks at it
//! and uses it, while the gateway here meets outages. The two speak in lines: `now …` asks for
//! something to happen here, and `saw …` is what the page has shown.

mod pictures;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::canary::{ADMIN_KEY, KEY};
use crate::support::process::Process;
use crate::support::{
    Catalog, Gateway, Mock, PATIENCE, Script, chat, chat_stream, client, root, run_within, spawn,
};

/// The time in which the page shows a change. It asks each second; what it did not ask for the
/// gateway would find in five seconds.
const SOON: Duration = Duration::from_secs(2);
/// A busy machine starts a browser slowly.
const LONG: Duration = Duration::from_secs(300);
/// A text of the kind that a page must never take for markup.
const EVIL: &str = "<img src=x onerror=\"window.hacked=1\">";

/// A scenario that runs in a browser.
struct Browser {
    process: Process,
    /// How many lines were read.
    read: usize,
}

impl Browser {
    fn start(scenario: &str, gateway: &Gateway, env: &[(&str, &str)]) -> Browser {
        let mut program = Command::new("node");
        program
            .args(["tests/browser/page.mjs", scenario])
            .current_dir(root());
        program
            .env("MODULES", modules())
            .env("PAGE", format!("http://{}/", gateway.admin))
            .env("NO_PROXY", "*");
        program
            .env("SHOT", modules().join(format!("{scenario}.png")))
            .envs(env.iter().copied());
        Browser {
            process: Process::spawn(&mut program),
            read: 0,
        }
    }

    /// Waits until the scenario prints this line, and returns when it was seen.
    async fn line(&mut self, wanted: &str) -> Instant {
        let start = Instant::now();
        loop {
            let text = String::from_utf8_lossy(&self.process.stdout()).into_owned();
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            if let Some(line) = whole.lines().nth(self.read) {
                assert!(
                    line.starts_with(wanted),
                    "expected {wanted:?}, got {line:?}"
                );
                println!("{line}");
                self.read += 1;
                return Instant::now();
            }
            let ended = self.process.exited();
            assert!(
                ended.is_none() && start.elapsed() < LONG,
                "{wanted:?} did not come: {}",
                self.process.stderr()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the scenario has ended well.
    async fn end(mut self) {
        let start = Instant::now();
        let status = loop {
            match self.process.exited() {
                Some(status) => break status,
                None => assert!(
                    start.elapsed() < LONG,
                    "the scenario hangs: {}",
                    self.process.stderr()
                ),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        self.process.wait(PATIENCE);
        let said = String::from_utf8_lossy(&self.process.stdout()).into_owned();
        assert!(status.success(), "{said}{}", self.process.stderr());
        print!("{said}");
    }
}

/// Where `setup.sh` has put what drives the browser.
fn modules() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("the target folder");
    let place = target.join("browser");
    assert!(
        place.join(".made-from").exists(),
        "{} is not there: run tests/browser/setup.sh",
        place.display()
    );
    place
}

#[track_caller]
fn run(test: impl Future<Output = ()>) {
    run_within(Duration::from_secs(180), test);
}

/// Runs a scenario that needs nothing but a gateway with some requests.
async fn alone(scenario: &str) {
    let mock = Mock::start().await;
    let gateway = Gateway::start(catalog(&[&mock])).await;
    some_requests(&gateway).await;
    Browser::start(scenario, &gateway, &[]).end().await;
}

/// A model on all accounts, and one on the first account only: if that is out, nobody can answer.
fn catalog(mocks: &[&Mock]) -> Catalog {
    let ids = ["a", "b", "c"];
    let catalog = mocks
        .iter()
        .zip(ids)
        .fold(Catalog::new(), |catalog, (mock, id)| {
            catalog.account(id, mock)
        });
    let targets: Vec<_> = ids[..mocks.len()]
        .iter()
        .map(|id| format!("{id}=m"))
        .collect();
    let targets: Vec<_> = targets.iter().map(String::as_str).collect();
    let price = "price: { input: 1, output: 2 }";
    catalog
        .model_with("m", &targets, price)
        .model_with("only-a", &["a=m"], price)
}

async fn some_requests(gateway: &Gateway) {
    for _ in 0..3 {
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        assert_eq!(gateway.post(&chat_stream("m")).await.status, 200);
    }
    assert_eq!(gateway.post(&chat("nobody")).await.status, 404);
}

/// Returns whether a breaker of this account is open.
fn is_open(gateway: &Gateway, account: &str) -> bool {
    breakers(gateway, account)
        .iter()
        .any(|state| state == "open")
}

/// Returns the states of the breakers of this account.
fn breakers(gateway: &Gateway, account: &str) -> Vec<Value> {
    let status = gateway.status();
    let accounts = status["accounts"].as_array().expect("accounts").iter();
    accounts
        .filter(|entry| entry["id"] == account)
        .flat_map(|entry| entry["targets"].as_array().expect("targets").clone())
        .map(|target| target["breaker"].clone())
        .collect()
}

/// Sends requests until the account's breaker is open, and returns when it was.
async fn break_down(gateway: &Gateway, mock: &Mock, account: &str) -> Instant {
    mock.always(Script::error(503, "out of order"));
    for _ in 0..40 {
        gateway.post(&chat("m")).await;
        if is_open(gateway, account) {
            return Instant::now();
        }
    }
    panic!("the breaker of {account} does not open");
}

/// It measures a time, so no other test may run beside it. A machine that stands still for a moment
/// may spoil one outage, but not three.
#[test]
#[ignore = "measures a time: `make test` runs it alone"]
fn alone_an_outage_and_its_end_are_seen_at_once() {
    run(async {
        let mut late = Vec::new();
        for _ in 0..3 {
            late = outage().await;
            if late.is_empty() {
                return;
            }
        }
        panic!("three outages were seen late: {late:?}");
    });
}

/// Plays an outage and its end, and returns what was seen late.
async fn outage() -> Vec<(&'static str, Duration)> {
    let (first, second) = (Mock::start().await, Mock::start().await);
    let gateway = Gateway::start(catalog(&[&first, &second])).await;
    some_requests(&gateway).await;
    let mut browser = Browser::start("outage", &gateway, &[]);
    let mut times = Vec::new();
    browser.line("now break").await;
    let broken = break_down(&gateway, &first, "a").await;
    for seen in ["saw cell", "saw trail", "saw problem", "saw verdict"] {
        times.push((
            seen,
            browser.line(seen).await.saturating_duration_since(broken),
        ));
    }
    browser.line("now mend").await;
    first.by(crate::support::mock::natural);
    let mended = loop {
        gateway.post(&chat("m")).await;
        if breakers(&gateway, "a")
            .iter()
            .all(|state| state == "closed")
        {
            break Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    times.push((
        "saw cell back",
        browser
            .line("saw cell back")
            .await
            .saturating_duration_since(mended),
    ));
    browser.line("saw verdict back").await;
    browser.end().await;
    times.retain(|(_, after)| *after > SOON);
    times
}

#[test]
fn an_account_is_reset_by_hand() {
    run(async {
        let (first, second) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(catalog(&[&first, &second])).await;
        let mut browser = Browser::start("reset", &gateway, &[]);
        browser.line("now break").await;
        break_down(&gateway, &first, "a").await;
        browser.line("now reset").await;
        browser.end().await;
        assert!(!is_open(&gateway, "a"));
        gateway.logged("account a was reset by an operator").await;
    });
}

#[test]
fn hostile_texts_stay_texts() {
    run(async {
        let mock = Mock::start().await;
        let error = json!({"error": {"message": EVIL, "type": EVIL, "code": EVIL, "param": EVIL}});
        mock.always(Script::json(500, &error));
        let evil = EVIL.replace('"', "'");
        let target = format!("{{ account: a, model: \"{evil}\" }}");
        let gateway = Gateway::start(catalog(&[&mock]).model_of("evil", &[&target], "")).await;
        for model in ["m", "evil", EVIL] {
            let (bearer, body) = (format!("Bearer {KEY}"), chat(model).to_string());
            let fields = [
                ("authorization", bearer.as_str()),
                ("content-type", "application/json"),
                ("x-request-id", EVIL),
                ("x-portcullis-session", EVIL),
            ];
            gateway
                .raw(client::request(
                    "POST",
                    "/v1/chat/completions",
                    &fields,
                    body.as_bytes(),
                ))
                .await;
            gateway
                .raw(client::request(
                    "GET",
                    "/<img/src=x/onerror=window.hacked=1>",
                    &fields,
                    b"",
                ))
                .await;
        }
        Browser::start("hostile", &gateway, &[]).end().await;
    });
}

#[test]
fn everybody_can_use_it() {
    run(async {
        let (first, second) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(catalog(&[&first, &second]).caller(
            "near",
            "sk-CaNaRy-caller-near-0123456789abcdefghijklmnopqr",
            "limits: { requests_per_day: 10, usd_per_month: 5 }",
        ));
        let gateway = gateway.await;
        break_down(&gateway, &first, "a").await;
        Browser::start("accessibility", &gateway, &[]).end().await;
    });
}

#[test]
fn the_page_greys_when_the_gateway_dies() {
    run(async {
        let mock = Mock::start().await;
        let mut gateway = Gateway::start(catalog(&[&mock])).await;
        let mut browser = Browser::start("dies", &gateway, &[]);
        browser.line("now kill").await;
        gateway.crash();
        browser.line("saw grey").await;
        browser.line("now start").await;
        gateway.restart();
        browser.line("saw back").await;
        browser.end().await;
    });
}

#[test]
fn other_names_and_other_sites_are_refused() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::error(503, "out of order"));
        let gateway = Gateway::start(catalog(&[&mock])).await;
        break_down(&gateway, &mock, "a").await;
        Browser::start("strangers", &gateway, &[]).end().await;
        assert!(
            !gateway.log().contains("was reset by an operator"),
            "another site has reset an account"
        );
    });
}

/// It measures a time, so no other test may run beside it.
#[test]
#[ignore = "measures a time: `make test` runs it alone"]
fn alone_the_first_paint_is_soon_however_much_there_is() {
    run(async {
        let mock = Mock::start().await;
        let accounts = ["a", "b", "c", "d", "e"];
        let catalog = accounts
            .iter()
            .fold(Catalog::new(), |catalog, id| catalog.account(id, &mock));
        let catalog = (0..200).fold(catalog, |catalog, n| {
            catalog.model(&format!("model-{n:03}"), &accounts)
        });
        let catalog = (0..1000).fold(catalog, |catalog, n| {
            catalog.caller(
                &format!("caller-{n:04}"),
                &format!("sk-CaNaRy-caller-many-{n:04}-0123456789abcdefgh"),
                "",
            )
        });
        let gateway = Arc::new(Gateway::start(catalog).await);
        let senders = (0..4).map(|sender| {
            let gateway = gateway.clone();
            spawn(async move {
                let mut connection = gateway.connect().await;
                for n in 0..500 {
                    let model = format!("model-{:03}", (sender * 500 + n) % 200);
                    assert!(
                        connection.send(client::post(&chat(&model))).await,
                        "it is sent"
                    );
                    assert_eq!(connection.response().await.status, 200);
                }
            })
        });
        for sender in senders.collect::<Vec<_>>() {
            sender.await.expect("2,000 requests");
        }
        let gateway = Arc::into_inner(gateway).expect("no sender is left");
        Browser::start("large", &gateway, &[]).end().await;
    });
}

#[test]
fn a_page_that_nobody_sees_asks_nothing() {
    run(alone("quiet"));
}

#[test]
fn the_keyboard_is_enough() {
    run(alone("keyboard"));
}

#[test]
fn explain_and_try_answer_in_the_page() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(catalog(&[&mock])).await;
        some_requests(&gateway).await;
        Browser::start("ask", &gateway, &[("KEY", KEY)]).end().await;
    });
}

#[test]
fn with_an_admin_key_its_holders_use_the_page() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(catalog(&[&mock]))
            .server("admin: { address: \"{admin}\", key: { env: ADMIN_KEY } }")
            .env("ADMIN_KEY", ADMIN_KEY)
            .start()
            .await;
        Browser::start("ask", &gateway, &[("KEY", KEY), ("ADMIN_KEY", ADMIN_KEY)])
            .end()
            .await;
    });
}

#[test]
fn every_region_shows_what_there_is() {
    run(async {
        let mock = Mock::start().await;
        let limited = "limits: { usd_per_month: 10, requests_per_minute: 600 }";
        let catalog = catalog(&[&mock])
            .without_acme()
            .caller("acme", KEY, limited);
        let gateway = Gateway::start(catalog.clone()).await;
        some_requests(&gateway).await;
        let mut browser = Browser::start("regions", &gateway, &[]);
        browser.line("now refuse").await;
        gateway.write_catalog(format!("{catalog}\nmodles: {{}}\n"));
        browser.line("saw refusal").await;
        browser.end().await;
    });
}

/// To patch the document gives what making it anew gives.
#[test]
fn its_parts_do_what_they_say() {
    run(alone("parts"));
}

/// The modules of the page have no error that TypeScript finds.
#[test]
fn its_types_fit() {
    let checker = modules().join("node_modules/.bin/tsc");
    let mut program = Command::new(checker);
    let output = program
        .args(["-p", "tests/browser"])
        .current_dir(root())
        .output()
        .expect("tsc");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
