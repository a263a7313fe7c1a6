//! Each refusal as the callers of each front door get it, made from the code that writes it.

use std::time::Duration;

use dialects::front::{AnswerSoFar, FRONTS, Front};
use portcullis::error::{FailureKind, Refusal};
use serde_json::Value;

use super::{check, code, table};

#[test]
fn the_chapter_of_refusals_is_current() {
    // The array differs from the events of the same format in its streams only.
    let fronts: Vec<&Front> = FRONTS
        .into_iter()
        .filter(|front| front.name != "gemini_array")
        .collect();
    let rows = refusals().into_iter().map(|(case, refusal)| {
        let row = refusal.kind.row();
        let cells = fronts.iter().map(|front| cell(&refusal, front));
        let named = row.code.map(code).unwrap_or_default();
        let cells: Vec<String> = [case.to_owned(), named].into_iter().chain(cells).collect();
        <[String; 6]>::try_from(cells).expect("four doors")
    });
    let head = [
        "Refusal",
        "`code`",
        "`chat`",
        "`messages`",
        "`responses`",
        "`gemini`",
    ];
    let names: Vec<_> = fronts.iter().map(|front| code(front.name)).collect();
    assert_eq!(names, head[2..]);
    let text = format!(
        "Each cell has the status, the type (at `gemini` the status in words), and the headers that say whether to try \
         again: *wait* is `retry-after`, *stop* is `x-should-retry: false`. At `gemini` the wait is also in \
         `error.details`. What each refusal means, and what to do: [Errors by code](../errors.md).\n\n{}\n\
         What clients do with them is measured: see [When something fails](../clients.md#when-something-fails). Codex stops at \
         a 429 without a wait, and it waits as long as `retry-after` asks: so a wait of more than {} s is not sent at \
         `responses`.\n\n## At the end of a stream\n\nAfter the head of a stream, a refusal is its last event. At `responses` it \
         is two events, `error` and `response.failed`. Programs know few codes of a response that failed, so these events \
         have one of the codes in this table. The message says what happened, as at the other doors.\n\n{}\n",
        table(head, rows),
        portcullis::error::MAX_RETRY_AFTER,
        table(
            ["Refusal", "`code`", "`code` in a stream of `responses`"],
            in_streams()
        )
    );
    check("refusals.md", "Refusals at each door", &text);
}

/// The refusals that can end a stream, each with its code in streams of Responses.
fn in_streams() -> impl Iterator<Item = [String; 3]> {
    let front: &Front = FRONTS
        .into_iter()
        .find(|front| front.name == "responses")
        .expect("a door");
    let can_end_a_stream = |what: &FailureKind| {
        matches!(
            what,
            FailureKind::CallersFault { .. }
                | FailureKind::NoCapacity
                | FailureKind::NoHealthyAccount
                | FailureKind::AllRateLimited
                | FailureKind::UpstreamUnavailable
                | FailureKind::UpstreamRateLimited
                | FailureKind::UpstreamOverloaded
                | FailureKind::UpstreamTimeout
                | FailureKind::BadUpstreamResponse
                | FailureKind::UpstreamTruncated
                | FailureKind::ShuttingDown
                | FailureKind::Internal
        )
    };
    refusals()
        .into_iter()
        .filter(move |(_, refusal)| can_end_a_stream(&refusal.kind))
        .map(move |(case, refusal)| {
            let answer = AnswerSoFar {
                id: "a",
                events: 2,
                has_begun: true,
                ..AnswerSoFar::default()
            };
            let text = String::from_utf8(refusal.event(front, "id", answer)).expect("text");
            let events: Vec<Value> = text
                .lines()
                .filter_map(|line| line.strip_prefix("data: "))
                .map(|data| serde_json::from_str(data).expect("JSON"))
                .collect();
            let [told, failed] = events.as_slice() else {
                panic!("{text}")
            };
            assert_eq!(told["code"], failed["response"]["error"]["code"], "{text}");
            let whole: Value = serde_json::from_slice(&refusal.body(front, "id")).expect("JSON");
            let named = whole["error"]["code"]
                .as_str()
                .map(code)
                .unwrap_or_default();
            [
                case.to_owned(),
                named,
                code(told["code"].as_str().expect("a code")),
            ]
        })
}

/// What one front door tells of a refusal. All of it must hold together.
fn cell(refusal: &Refusal, front: &Front) -> String {
    let status = refusal.status(front);
    let body: Value = serde_json::from_slice(&refusal.body(front, "id")).expect("JSON");
    let error = &body["error"];
    let kind = if front.name == "gemini" {
        &error["status"]
    } else {
        &error["type"]
    };
    let kind = kind.as_str().expect("a type");
    if front.name == "gemini" {
        assert_eq!(error["code"], status, "{refusal:?}");
    }
    let headers = refusal.headers(front);
    let has = |name: &str| {
        headers
            .iter()
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value.as_ref())
    };
    let mut cell = format!("{status} {}", code(kind));
    for (name, word) in [("retry-after", "wait"), ("x-should-retry", "stop")] {
        if has(name).is_some() {
            cell.push_str(&format!(", *{word}*"));
        }
    }
    // Nobody is told to wait for what no waiting helps.
    assert!(has("x-should-retry").is_none_or(|value| value == "false"));
    if status == 401 {
        let is_token = refusal.kind == FailureKind::InvalidToken;
        let challenge = if is_token {
            "Bearer error=\"invalid_token\""
        } else {
            "Bearer"
        };
        assert_eq!(
            (has("x-should-retry"), has("www-authenticate")),
            (Some("false"), Some(challenge)),
            "{front:?}"
        );
    }
    // After the head, the same is an event.
    let answer = AnswerSoFar {
        id: "a",
        events: 2,
        has_begun: true,
        ..AnswerSoFar::default()
    };
    let event = String::from_utf8(refusal.event(front, "id", answer)).expect("text");
    assert!(
        event.contains(&error["message"].to_string()),
        "{front:?}: {event}"
    );
    cell
}

/// Every kind of refusal, and where its headers differ, each kind of these.
fn refusals() -> Vec<(&'static str, Refusal)> {
    let plain = |what: FailureKind| Refusal::new(what, "no");
    let limited = |what: FailureKind, seconds: Option<u64>| {
        Refusal::new(what, "no").again_in(seconds.map(Duration::from_secs))
    };
    vec![
        (
            "the request is wrong",
            plain(FailureKind::BadRequest { code: None }),
        ),
        (
            "no target can do what is asked",
            plain(FailureKind::Unsupported),
        ),
        (
            "the upstream finds fault with the request",
            plain(FailureKind::CallersFault {
                status: 400,
                code: None,
            }),
        ),
        (
            "the prompt is too long",
            plain(FailureKind::CallersFault {
                status: 400,
                code: Some("context_length_exceeded".to_owned()),
            }),
        ),
        ("no valid key", Refusal::invalid_key()),
        (
            "a token that is not taken",
            plain(FailureKind::InvalidToken).without_retry(),
        ),
        (
            "tokens cannot be verified now",
            plain(FailureKind::IdentityDown).retry_after(5),
        ),
        ("no such path", plain(FailureKind::UnknownUrl)),
        ("no such model", Refusal::model_not_found("m")),
        (
            "no price is known, and money is limited",
            Refusal::price_unknown("m", "images"),
        ),
        (
            "another method",
            plain(FailureKind::MethodNotSupported { allow: "POST" }),
        ),
        ("a WebSocket", plain(FailureKind::NoWebSocket)),
        (
            "the body did not come in time",
            plain(FailureKind::BodyTimeout),
        ),
        ("the body is too large", plain(FailureKind::TooLarge)),
        ("the path is too long", plain(FailureKind::TargetTooLong)),
        ("the body is not JSON", plain(FailureKind::UnsupportedMedia)),
        (
            "the headers are too large",
            plain(FailureKind::HeadersTooLarge),
        ),
        (
            "an unknown transfer encoding",
            plain(FailureKind::UnknownCoding).without_retry(),
        ),
        (
            "a limit has room within a minute",
            limited(FailureKind::OverLimit, Some(30)),
        ),
        (
            "a limit has room later",
            limited(FailureKind::OverLimit, Some(3600)),
        ),
        (
            "a budget has room later",
            limited(FailureKind::OverBudget, Some(86_400)),
        ),
        (
            "a budget never has room again",
            limited(FailureKind::OverBudget, None),
        ),
        (
            "the store is down",
            plain(FailureKind::StoreDown).retry_after(1),
        ),
        (
            "the ledger is busy",
            plain(FailureKind::NoLedger).retry_after(1),
        ),
        (
            "there is no ledger",
            plain(FailureKind::NoLedger).without_retry(),
        ),
        (
            "an account that works has no room",
            plain(FailureKind::NoCapacity).retry_after(1),
        ),
        (
            "all accounts rest, or their breakers are open",
            plain(FailureKind::NoHealthyAccount).retry_after(1),
        ),
        (
            "all accounts are rate limited",
            plain(FailureKind::AllRateLimited).retry_after(9),
        ),
        (
            "no account works until the operator acts",
            Refusal::for_the_operator(FailureKind::NoHealthyAccount),
        ),
        (
            "the upstream cannot be reached",
            plain(FailureKind::UpstreamUnavailable).retry_after(5),
        ),
        (
            "the upstream refuses the account's credential",
            Refusal::for_the_operator(FailureKind::UpstreamUnavailable),
        ),
        (
            "the upstream is rate limiting",
            plain(FailureKind::UpstreamRateLimited).retry_after(9),
        ),
        ("the provider is overloaded", Refusal::overloaded()),
        (
            "the upstream is too slow",
            plain(FailureKind::UpstreamTimeout),
        ),
        (
            "the upstream failed",
            plain(FailureKind::BadUpstreamResponse),
        ),
        (
            "the upstream cut the answer",
            plain(FailureKind::UpstreamTruncated),
        ),
        (
            "the gateway shuts down",
            plain(FailureKind::ShuttingDown).retry_after(1),
        ),
        (
            "the tokens cannot be counted",
            plain(FailureKind::CountUnsupported),
        ),
        ("the gateway failed", plain(FailureKind::Internal)),
    ]
}

/// Whoever adds a kind of refusal is told by the compiler to add it to the table.
#[test]
fn no_refusal_is_missing() {
    let place = |what: &FailureKind| match what {
        FailureKind::UnknownUrl => 0,
        FailureKind::MethodNotSupported { .. } => 1,
        FailureKind::NoWebSocket => 2,
        FailureKind::InvalidKey => 3,
        FailureKind::ModelNotFound => 4,
        FailureKind::BadRequest { .. } => 5,
        FailureKind::Unsupported => 6,
        FailureKind::TooLarge => 7,
        FailureKind::UnsupportedMedia => 8,
        FailureKind::HeadersTooLarge => 9,
        FailureKind::TargetTooLong => 10,
        FailureKind::UnknownCoding => 11,
        FailureKind::BodyTimeout => 12,
        FailureKind::OverLimit => 13,
        FailureKind::OverBudget => 14,
        FailureKind::StoreDown => 15,
        FailureKind::NoCapacity => 16,
        FailureKind::AllRateLimited => 17,
        FailureKind::UpstreamUnavailable => 18,
        FailureKind::UpstreamRateLimited => 19,
        FailureKind::UpstreamTimeout => 20,
        FailureKind::BadUpstreamResponse => 21,
        FailureKind::UpstreamTruncated => 22,
        FailureKind::CallersFault { .. } => 23,
        FailureKind::ShuttingDown => 24,
        FailureKind::Internal => 25,
        FailureKind::CountUnsupported => 26,
        FailureKind::PriceUnknown => 27,
        FailureKind::NoLedger => 28,
        FailureKind::NoHealthyAccount => 29,
        FailureKind::UpstreamOverloaded => 30,
        FailureKind::InvalidToken => 31,
        FailureKind::IdentityDown => 32,
        // Nobody reads this one.
        FailureKind::CallerLeft => usize::MAX,
    };
    let listed: std::collections::BTreeSet<usize> = refusals()
        .iter()
        .map(|(_, refusal)| place(&refusal.kind))
        .collect();
    assert_eq!(listed, (0..33).collect());
}
