//! What real command-line clients do when an upstream fails behind the gateway: how many requests
//! they make, and what their users see. None makes more than it would without the gateway. The book
//! has the same numbers, and how long they take (`docs/src/clients.md`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clients::{CLAUDE_CODE, CODEX, Client, GEMINI_CLI, GLOBS, has_namespaces};
use crate::support::canary::KEY;
use crate::support::model_answers::{self, Failure, Row};
use crate::support::{Catalog, Gateway, Mock, ModelAnswer, eventually, join_all, run_within};

/// A failure of the upstream; `None` is a wrong key of the caller.
type Case = Option<Failure>;

/// What happens: the failure, the most requests that the client may make, and what its user sees;
/// nothing if the client goes on for minutes.
type Expected = (Case, usize, &'static str);

/// The time in which a client must begin, and must give up if it does. Some take a while to begin
/// beside others.
const MOST: Duration = Duration::from_secs(200);
/// The time after its first request at which a client that goes on is stopped.
const ENOUGH: Duration = Duration::from_secs(25);

const HOPELESS: &str = "until the gateway's operator fixes it";
const NO_KEY: &str = "The request has no valid API key";

#[test]
#[ignore = "takes minutes: make test-all"]
fn all_claude_code_and_failures() {
    let goes_on = 11;
    check(
        &CLAUDE_CODE,
        ("anthropic", "", "claude-sonnet-4-5"),
        [
            (Some(Failure::Cut), goes_on, ""),
            (Some(Failure::Key), 1, HOPELESS),
            (Some(Failure::Busy), goes_on, ""),
            (Some(Failure::BusyForAny), goes_on, ""),
            (Some(Failure::Down), goes_on, ""),
            (Some(Failure::Overloaded), goes_on, ""),
            (
                Some(Failure::TooLong),
                1,
                "Prompt is too long · the request is ~200001 tokens (limit 200000)",
            ),
            (None, 1, NO_KEY),
        ],
    );
}

#[test]
#[ignore = "takes minutes: make test-all"]
fn all_codex_and_failures() {
    check(
        &CODEX,
        ("openai", "", "gpt-4o"),
        [
            (
                Some(Failure::Cut),
                6,
                "The upstream ended the answer before it was complete.",
            ),
            // Of this status it shows no message, but it would make thirty requests of 503.
            (Some(Failure::Key), 1, "last status: 429"),
            (Some(Failure::Busy), 6, "last status: 429"),
            // Without the gateway it gives up at once. It is told how long the account rests.
            (Some(Failure::BusyForAny), 6, ""),
            (Some(Failure::Down), 6, "last status: 429"),
            (Some(Failure::Overloaded), 6, "last status: 429"),
            (
                Some(Failure::TooLong),
                1,
                "Codex ran out of room in the model's context window.",
            ),
            (None, 6, NO_KEY),
        ],
    );
}

#[test]
#[ignore = "takes minutes: make test-all"]
fn all_gemini_cli_and_failures() {
    let goes_on = 10;
    check(
        &GEMINI_CLI,
        ("gemini", "", "gemini-3-pro"),
        [
            (Some(Failure::Cut), 1, "terminated"),
            (Some(Failure::Key), 1, HOPELESS),
            (Some(Failure::Busy), goes_on, ""),
            (Some(Failure::BusyForAny), goes_on, ""),
            (Some(Failure::Down), goes_on, ""),
            (Some(Failure::Overloaded), goes_on, ""),
            (
                Some(Failure::TooLong),
                1,
                "The input token count (200001) exceeds the maximum number of tokens allowed",
            ),
            (None, 1, NO_KEY),
        ],
    );
}

/// Claude Code counts answers that say that the provider is overloaded, and asks its other model.
#[test]
#[ignore = "takes minutes: make test-all"]
fn all_claude_code_falls_back_if_the_provider_is_overloaded() {
    if !has_namespaces() {
        return;
    }
    run_within(Duration::from_secs(300), async {
        // At a provider that has the callers' format, and at another.
        for dialect in ["anthropic", "gemini"] {
            let mock = Mock::start().await;
            mock.by(move |request| {
                match request.text().contains("busy-one") || request.target.contains("busy-one") {
                    true => Failure::Overloaded.script(dialect),
                    false => ModelAnswer::text("The other model answers.").to(dialect, request),
                }
            });
            let more = format!("dialect: {dialect}");
            let catalog = Catalog::new()
                .account_with("a", &mock, &more)
                .model_with("m", &["a=busy-one"], "")
                .model_with("other", &["a=free-one"], GLOBS);
            let gateway = Gateway::start(catalog).await;
            let start = Instant::now();
            let goes_on = move || start.elapsed() < MOST;
            let ran = CLAUDE_CODE
                .with(&["--fallback-model", "other"])
                .run(gateway.address, Some("m"), KEY, goes_on)
                .await;
            let busy = mock
                .requests()
                .iter()
                .filter(|one| one.text().contains("busy-one") || one.target.contains("busy-one"))
                .count();
            let what = format!(
                "{dialect}: {busy} requests, code {:?}: {}",
                ran.code, ran.printed
            );
            assert!(
                ran.code == Some(0) && ran.printed.contains("The other model answers."),
                "{what}"
            );
            assert!((1..=4).contains(&busy), "{what}");
        }
    });
}

fn check<const N: usize>(client: &'static Client, row: Row, expected: [Expected; N]) {
    if !has_namespaces() {
        return;
    }
    run_within(Duration::from_secs(300), async {
        join_all(expected.map(|expected| fail(client, row, expected))).await;
    });
}

async fn fail(client: &'static Client, row: Row, (case, most, seen): Expected) {
    let mock = Arc::new(Mock::start().await);
    mock.by(move |request| match case {
        Some(failure) => failure.script(row.0),
        None => ModelAnswer::text("A wrong key goes nowhere.").to(row.0, request),
    });
    let gateway = Gateway::start(model_answers::catalog(row, &mock, GLOBS)).await;
    let key = if case.is_none() { "sk-wrong" } else { KEY };
    let (start, upstream, mut first) = (Instant::now(), Arc::clone(&mock), None);
    let goes_on = move || match first {
        Some(first) if seen.is_empty() => Instant::elapsed(&first) < ENOUGH,
        _ => {
            first = (upstream.count() > 0).then(Instant::now);
            start.elapsed() < MOST
        }
    };
    let ran = client.run(gateway.address, Some("m"), key, goes_on).await;
    let requests = eventually("the gateway makes no requests of its own", || {
        let requests = gateway
            .lines()
            .iter()
            .filter(|line| line["path"] != "/api/hello")
            .count();
        (mock.count() <= requests).then_some(requests)
    })
    .await;
    let what = format!(
        "{case:?}: {requests} requests, code {:?}: {}",
        ran.code, ran.printed
    );
    let least = if seen.is_empty() { 2 } else { 1 };
    assert!((least..=most).contains(&requests), "{what}");
    assert_ne!(ran.code, Some(0), "its user sees a failure: {what}");
    if !seen.is_empty() {
        assert!(ran.code.is_some() && ran.printed.contains(seen), "{what}");
    }
}
